//! Key management with messages: what a method brings, and what it is given. The messages travel as user messages of the association.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

use super::Protect;

/// Who the peer is, as a key management method has authenticated it.
#[derive(Clone)]
pub struct PeerIdentity {
    fingerprint: [u8; 32],
    certificate: Arc<[u8]>,
}

impl PeerIdentity {
    /// Returns the identity with this fingerprint of its public key and this certificate. A key management method makes it.
    pub fn new(fingerprint: [u8; 32], certificate: impl Into<Arc<[u8]>>) -> Self {
        PeerIdentity {
            fingerprint,
            certificate: certificate.into(),
        }
    }

    /// Returns the SHA-256 of the peer's public key (of its SubjectPublicKeyInfo in DER). It stays the same when the peer renews its
    /// certificate without changing the key.
    pub fn fingerprint(&self) -> &[u8; 32] {
        &self.fingerprint
    }

    /// Returns the peer's certificate in DER, as it was presented last.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }
}

/// Equal if the public keys are. The certificate may have been renewed.
impl PartialEq for PeerIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for PeerIdentity {}

impl Hash for PeerIdentity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

/// Shows the fingerprint in hexadecimal digits.
impl fmt::Debug for PeerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerIdentity(")?;
        for byte in self.fingerprint {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(")")
    }
}

/// The result of a handshake: the keys of one epoch.
#[derive(Clone, Debug)]
pub struct EpochKeys {
    /// The keys of the records that this end sends. [`Protect::overhead`] is 16.
    pub seal: Arc<dyn Protect>,
    /// The keys of the records that the peer sends. [`Protect::overhead`] is 16.
    pub open: Arc<dyn Protect>,
    /// Who the peer is.
    pub peer: PeerIdentity,
}

/// A handshake of key management has failed. The text says why, and is shown to the user and sent to the peer: it has no secrets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct HandshakeError(String);

impl HandshakeError {
    /// Returns an error with this reason: lower case, without a full stop.
    pub fn new(reason: impl Into<String>) -> Self {
        HandshakeError(reason.into())
    }
}

/// One handshake of a key management method with messages, at one end. It makes the keys of one epoch in both directions.
///
/// It does no I/O. The association calls [`on_message`](Self::on_message) for each message of the peer, in order and each once, and sends what
/// [`poll_message`](Self::poll_message) returns, after each call and also after an error. Messages are not lost, but whoever can change packets
/// can change the messages of the first handshake. When it is done, [`take_keys`](Self::take_keys) returns the keys. It is dropped soon after.
pub trait KeyHandshake: fmt::Debug + Send + Sync {
    /// Processes a message of the peer.
    ///
    /// # Errors
    /// Returns an error if the handshake has failed, for example because the peer is not the expected one.
    fn on_message(&mut self, message: &[u8]) -> Result<(), HandshakeError>;

    /// Returns the next message for the peer, if there is one: not empty.
    fn poll_message(&mut self) -> Option<Vec<u8>>;

    /// Returns the keys, once this end is sure of the peer and has all that it needs to make them; `None` before and after.
    ///
    /// # Errors
    /// Returns an error if the keys cannot be made.
    fn take_keys(&mut self) -> Result<Option<EpochKeys>, HandshakeError>;
}
