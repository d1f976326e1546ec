//! The tests of key management with messages of `whimbrel-proto`, with TLS, and tests of who is trusted.

#[path = "../../../proto/tests/suite/key_messages.rs"]
mod key_messages;
#[path = "../../../proto/tests/suite/key_renewal.rs"]
mod key_renewal;
#[path = "../../../proto/tests/suite/support/mod.rs"]
mod support;
mod trusted;

mod identities {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use whimbrel_proto::KeySource;
    use whimbrel_secure::{Fingerprint, TlsIdentity, TlsKeys, Trust};

    pub(crate) const NOT_TRUSTED: &str = "the peer's certificate is not trusted";
    pub(crate) const REFUSED: &str = "the peer does not trust this end's certificate";

    /// Certificates and keys in PEM, by number.
    static ALL: Mutex<BTreeMap<u8, (String, String)>> = Mutex::new(BTreeMap::new());

    /// Returns the identity of this number.
    pub(crate) fn identity(number: u8) -> TlsIdentity {
        let mut all = ALL.lock().expect("no panic");
        let (certificate, key) = all.entry(number).or_insert_with(|| {
            let new = TlsIdentity::generate("test.example").expect("generated");
            (new.certificates_pem().to_owned(), new.key_pem().to_string())
        });
        TlsIdentity::from_pem(certificate, key).expect("valid")
    }

    /// Returns an end with the identity of this number, which trusts the ends with these numbers.
    pub(crate) fn end(own: u8, trusted: &[u8]) -> Arc<dyn KeySource> {
        let trusted: Vec<Fingerprint> = trusted.iter().map(|number| identity(*number).fingerprint()).collect();
        Arc::new(TlsKeys::new(identity(own), Trust::Fingerprints(trusted)).expect("a usable key"))
    }

    /// Returns the fingerprint of an identity.
    pub(crate) fn fingerprint(number: u8) -> [u8; 32] {
        *identity(number).fingerprint().as_bytes()
    }
}
