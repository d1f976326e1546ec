//! DTLS chunks (draft-ietf-tsvwg-sctp-dtls-chunk): every packet of an association is encrypted, on all of its paths.
//!
//! This crate has no cryptography. Records are sealed and opened by a [`Protect`], which a [`KeySource`] makes once the handshake is done: at once,
//! or by messages ([`KeyHandshake`]), which `management.rs` carries. The rest is here: what both ends agree on, epochs, sequence numbers, replays, the limits of a key. [`InsecureNullKeys`] takes the same room and protects
//! nothing, for simulations.

mod combined;
mod counters;
mod exchange;
mod handshake;
mod management;
mod manager;
#[cfg(test)]
mod manager_tests;
mod null;
mod opening;
mod sealing;
mod state;
#[cfg(test)]
mod tests;
mod window;

use core::fmt;
use std::sync::Arc;

use whimbrel_control::Span;
use whimbrel_wire::RECORD_HEADER_LEN;

use crate::ConfigError;

pub use combined::KeySources;
pub use counters::ProtectionStats;
pub use exchange::{KeyExchange, Party, Role};
pub(crate) use exchange::{Offer, ProtectionAgreement, negotiate, own_offer};
pub use handshake::{EpochKeys, HandshakeError, KeyHandshake, PeerIdentity};
pub(crate) use manager::{KeyFailure, MAX_HANDSHAKE, Step};
pub use null::InsecureNullKeys;
pub(crate) use opening::Opened;
pub(crate) use sealing::Sealing;
pub(crate) use state::Protection;

/// The cryptography failed: a record is not authentic, or keys cannot be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the record or the key is not valid")]
pub struct ProtectionError;

/// How often one key may be used (RFC 9147 §4.5.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyLimits {
    /// Most records that may be sealed. The next epoch begins when half of them have been.
    pub sealed: u64,
    /// Most records that may fail to open.
    pub failed: u64,
}

/// The keys of one direction and one epoch: the AEAD of the records and the encryption of their sequence numbers.
pub trait Protect: fmt::Debug + Send + Sync {
    /// Returns the bytes by which a record is longer than its plaintext: those of the tag. At least 16, so that each record is long
    /// enough for the encryption of its sequence number (RFC 9147 §4.2.3), and at most 64.
    fn overhead(&self) -> usize;

    /// Encrypts a record in place. Its last [`overhead`](Self::overhead) bytes are room for the tag, the others are plaintext. `header` is
    /// authenticated; it contains the sequence number before its encryption (RFC 9147 §4). A sequence number is used once for each key.
    ///
    /// # Errors
    /// Returns an error if the record cannot be sealed. It is not sent then.
    fn seal(&self, sequence: u64, header: &[u8; RECORD_HEADER_LEN], record: &mut [u8]) -> Result<(), ProtectionError>;

    /// Verifies a record and decrypts it in place: all but its last [`overhead`](Self::overhead) bytes are plaintext then.
    ///
    /// # Errors
    /// Returns an error if the record is not authentic. Its content is undefined then.
    fn open(&self, sequence: u64, header: &[u8; RECORD_HEADER_LEN], record: &mut [u8]) -> Result<(), ProtectionError>;

    /// Returns the mask that encrypts and decrypts the sequence number of a record which begins with these bytes (RFC 9147 §4.2.3).
    fn mask(&self, sample: &[u8; 16]) -> [u8; 2];

    /// Returns how often the key may be used.
    fn limits(&self) -> KeyLimits;
}

/// Makes the keys of associations, by one or several key management methods. A method either derives keys from what both ends know
/// ([`derive`](Self::derive)), or exchanges messages ([`has_messages`](Self::has_messages), [`begin`](Self::begin)).
pub trait KeySource: fmt::Debug + Send + Sync {
    /// Returns the identifiers of the methods that are offered to the peer, the most preferred first: 1 to
    /// [`MAX_METHODS`], each once.
    fn methods(&self) -> &[u8];

    /// Returns the keys for the records that `sender` sends in this epoch. They must depend on all of `exchange`, on `sender` and on the epoch:
    /// keys that are used twice with the same sequence numbers reveal what they protect. Not called for methods with messages.
    ///
    /// # Errors
    /// Returns an error if there are no keys. Nothing is sent or received then.
    fn derive(&self, exchange: &KeyExchange, sender: Role, epoch: u64) -> Result<Arc<dyn Protect>, ProtectionError>;

    /// Returns whether this method exchanges messages. By default none does.
    fn has_messages(&self, method: u8) -> bool {
        let _ = method;
        false
    }

    /// Begins a handshake of the method that the exchange names, with this role: the client sends the first message. The role may differ
    /// from that in the exchange when keys are renewed. The keys must depend on the parameters of both ends in `exchange` (draft, "Downgrade
    /// Attacks").
    ///
    /// # Errors
    /// Returns an error if this end cannot begin, or if the method has no messages.
    fn begin(&self, exchange: &KeyExchange, role: Role) -> Result<Box<dyn KeyHandshake>, HandshakeError> {
        let _ = (exchange, role);
        Err(HandshakeError::new("this key management method has no messages"))
    }

    /// Returns whether a message of the peer is the first one of a handshake of this method, as a client sends it.
    fn is_first(&self, method: u8, message: &[u8]) -> bool {
        let _ = (method, message);
        false
    }
}

/// Most identifiers of key management methods that an end offers.
pub const MAX_METHODS: usize = 8;

/// The first epoch of an association. Lower ones belong to the handshake of DTLS (draft, "DTLS Considerations").
pub(crate) const FIRST_EPOCH: u64 = 3;

/// DTLSInnerPlaintext.type: application_data (RFC 9147 §4).
const CONTENT_TYPE: u8 = 23;

/// Bytes of a record with which its sequence number is encrypted.
const MIN_SAMPLE: usize = 16;

/// Bytes that a content type takes.
const CONTENT_TYPE_LEN: usize = 1;

/// Encryption of all packets of an association (draft-ietf-tsvwg-sctp-dtls-chunk). Experimental: the draft is not an RFC yet.
///
/// An association is reported ([`Event::Connected`](crate::Event::Connected)) when a packet of the peer has opened: then the peer has the keys.
/// Requires no authentication ([`AuthConfig`](crate::AuthConfig)): [`validate`](crate::AssociationConfig::validate) refuses both together.
///
/// Encryption does not cover the addresses of packets. Behind a NAT, a host that sees the packets of both directions and is faster than the network
/// can have its own address added, and then delay or drop what is sent there, unless
/// [`address_translation`](crate::AssociationConfig::address_translation) is false.
///
/// With a method that exchanges messages (draft-porfiri-tsvwg-sctp-dtls-handshake), these are sent in plaintext after the handshake of SCTP.
/// Nothing else is sent or accepted before the packets are encrypted: messages of the user wait.
#[derive(Clone)]
pub struct ProtectionConfig {
    /// The source of the keys. Absent: DTLS chunks are not offered. With it, RFC 4895 is not offered: the draft forbids both together.
    pub keys: Option<Arc<dyn KeySource>>,
    /// Whether an association without DTLS chunks is refused ("strict DTLS mode" of the draft). Otherwise whoever can change the packets of the
    /// handshake can remove the offer, and nothing is encrypted.
    pub required: bool,
    /// The role in the first exchange that this end offers. By default it offers both, and the tie breakers decide (draft, "Role Determination").
    /// The client of TLS is the first to learn who its peer is, and to refuse it. Two ends that offer only the same role refuse each other. Keys are
    /// renewed by either end.
    pub role: Option<Role>,
    /// How long the first exchange of messages of a key management method may take, from the handshake of SCTP on. Then the association ends. At
    /// least 1 ms. Default: 10 s.
    pub handshake_timeout: Span,
    /// When a method with messages renews the keys, by another handshake: at this age. The association ends if the keys are not renewed at twice
    /// this age, or 300 s after it if that is later. At least 1 s. Default: 1 h (draft, "Rekeying Policy"). They are renewed in any case before they have been used too
    /// often ([`KeyLimits`]).
    pub rekey_interval: Span,
    /// After how many bytes of packets, sent and received, a method with messages renews the keys. At least 1,000,000. Default: 10^11
    /// (100 GB; draft, "Rekeying Policy").
    pub rekey_bytes: u64,
}

impl Default for ProtectionConfig {
    fn default() -> Self {
        ProtectionConfig {
            keys: None,
            required: false,
            role: None,
            handshake_timeout: Span::from_secs(10),
            rekey_interval: Span::from_secs(3600),
            rekey_bytes: 100_000_000_000,
        }
    }
}

impl ProtectionConfig {
    /// Returns the configuration that encrypts with keys of this source, and refuses peers that do not.
    pub fn required(keys: Arc<dyn KeySource>) -> Self {
        ProtectionConfig {
            keys: Some(keys),
            required: true,
            ..ProtectionConfig::default()
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// Returns an error if a value is not allowed.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.handshake_timeout < Span::from_millis(1) {
            let field = "protection.handshake_timeout";
            return Err(ConfigError::new(field, "less than 1 ms", "allowed is 1 ms or more"));
        }
        if self.rekey_interval < Span::from_secs(1) {
            let field = "protection.rekey_interval";
            return Err(ConfigError::new(field, "less than 1 s", "allowed is 1 s or more"));
        }
        if self.rekey_bytes < 1_000_000 {
            let allowed = "allowed are 1000000 bytes or more";
            return Err(ConfigError::new("protection.rekey_bytes", self.rekey_bytes, allowed));
        }
        match &self.keys {
            Some(keys) if !(1..=MAX_METHODS).contains(&keys.methods().len()) => {
                let allowed = format!("allowed are 1 to {MAX_METHODS} key management methods");
                Err(ConfigError::new("protection.keys", keys.methods().len(), allowed))
            }
            None if self.required => {
                let allowed = "allowed is false without a source of keys";
                Err(ConfigError::new("protection.required", true, allowed))
            }
            _ => Ok(()),
        }
    }
}

/// Equal if the source is the same one.
impl PartialEq for ProtectionConfig {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.keys, &other.keys) {
            (None, None) => true,
            (Some(one), Some(two)) => Arc::ptr_eq(one, two),
            _ => false,
        };
        let times = |config: &Self| (config.handshake_timeout, config.rekey_interval, config.rekey_bytes);
        let modes = |config: &Self| (config.required, config.role);
        same && modes(self) == modes(other) && times(self) == times(other)
    }
}

/// Shows only whether there is a source of keys.
impl fmt::Debug for ProtectionConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtectionConfig")
            .field("has_keys", &self.keys.is_some())
            .field("required", &self.required)
            .finish()
    }
}
