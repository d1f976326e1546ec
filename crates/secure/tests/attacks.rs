//! The tests of encrypted associations of `whimbrel-proto`, with real ciphers.

#[path = "../../proto/tests/suite/protection.rs"]
mod protection;
#[path = "../../proto/tests/suite/protection_handshake.rs"]
mod protection_handshake;
#[path = "../../proto/tests/suite/protection_proof.rs"]
mod protection_proof;
#[path = "../../proto/tests/suite/protection_sources.rs"]
mod protection_sources;
#[path = "../../proto/tests/suite/protection_transfer.rs"]
mod protection_transfer;
#[path = "../../proto/tests/suite/support/mod.rs"]
mod support;

mod keys {
    use std::sync::Arc;

    use whimbrel_proto::KeySource;
    use whimbrel_secure::{CipherSuite, PreSharedKey};

    /// Returns sources of keys for this secret.
    pub(crate) fn sources(secret: &[u8]) -> Vec<Arc<dyn KeySource>> {
        let suites = [
            CipherSuite::Aes128Gcm,
            CipherSuite::Aes256Gcm,
            CipherSuite::ChaCha20Poly1305,
        ];
        let source =
            |suite| -> Arc<dyn KeySource> { Arc::new(PreSharedKey::with_suite(secret, suite).expect("long enough")) };
        suites.into_iter().map(source).collect()
    }
}
