//! Key management method 0: keys from a secret that both ends have.
//!
//! The draft leaves it open how the keys come about. Keys that a file fixes would be used again in the next association, with the same
//! sequence numbers, and AES-GCM then reveals what it protects and lets others forge it. Here they are derived by HKDF (RFC 5869) with
//! SHA-256:
//!
//! ```text
//! PRK = HKDF-Extract("whimbrel sctp dtls chunk method 0 v1", secret)
//! OUT = HKDF-Expand(PRK, info, length)
//! info = purpose | cipher suite 2 | method 1 | sender 1 | epoch 8 | client | server
//! an end: length of its DTLS Key Management parameter 2 | the parameter | Verification Tag 4 | initial TSN 4
//! ```
//!
//! Numbers are big-endian. `purpose` is 0 for the record key, 1 for the sequence number key and 2 for the initialization vector, `sender` is 0
//! for the client and 1 for the server. Tie breakers, tags and initial TSNs are 96 random bits of each end: as long as one end draws new ones,
//! the keys are new. Whoever changes the parameters of one end makes the keys differ. There is no forward secrecy: who learns the secret can
//! read what was recorded before.

use std::fmt;
use std::sync::Arc;

use ring::hkdf::{self, HKDF_SHA256, KeyType};
use whimbrel_proto::{KeyExchange, KeySource, Protect, ProtectionError, Role};
use zeroize::Zeroizing;

use crate::{CipherSuite, RecordKeys};

/// Shortest secret in bytes. Recorded packets let everyone try secrets, and HKDF does not slow that down: the secret has to be random.
pub const MIN_SECRET: usize = 16;

/// Key management method 0.
const METHODS: [u8; 1] = [0];

const SALT: &[u8] = b"whimbrel sctp dtls chunk method 0 v1";

const RECORD_KEY: u8 = 0;
const SEQUENCE_NUMBER_KEY: u8 = 1;
const IV: u8 = 2;

/// The secret has less than [`MIN_SECRET`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a secret of {0} bytes: allowed are at least 16 random bytes")]
pub struct SecretTooShort(pub usize);

/// A source of keys for ends with the same secret. The secret is overwritten when it is dropped.
pub struct PreSharedKey {
    secret: Zeroizing<Vec<u8>>,
    suite: CipherSuite,
}

/// Does not show the secret.
impl fmt::Debug for PreSharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PreSharedKey({:?})", self.suite)
    }
}

impl PreSharedKey {
    /// Takes a secret of at least [`MIN_SECRET`] random bytes, the same at both ends.
    ///
    /// # Errors
    /// Returns an error if the secret is too short.
    pub fn new(secret: &[u8]) -> Result<Self, SecretTooShort> {
        PreSharedKey::with_suite(secret, CipherSuite::default())
    }

    /// Like [`new`](Self::new), with a cipher suite, which has to be the same at both ends.
    ///
    /// # Errors
    /// Returns an error if the secret is too short.
    pub fn with_suite(secret: &[u8], suite: CipherSuite) -> Result<Self, SecretTooShort> {
        if secret.len() < MIN_SECRET {
            return Err(SecretTooShort(secret.len()));
        }
        Ok(PreSharedKey {
            secret: Zeroizing::new(secret.to_vec()),
            suite,
        })
    }

    /// Derives key material.
    fn material(&self, context: &[u8], purpose: u8, len: usize) -> Result<Zeroizing<Vec<u8>>, ProtectionError> {
        let prk = hkdf::Salt::new(HKDF_SHA256, SALT).extract(&self.secret);
        let purpose = [purpose];
        let suite = self.suite.id().to_be_bytes();
        let info = [&purpose[..], &suite, context];
        let mut material = Zeroizing::new(vec![0; len]);
        let expanded = prk.expand(&info, Length(len)).map_err(|_| ProtectionError)?;
        expanded.fill(&mut material).map_err(|_| ProtectionError)?;
        Ok(material)
    }
}

/// Bytes of key material.
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Returns what the keys are bound to: everything that the handshake has agreed on.
// [dtls:6-4]
fn context(exchange: &KeyExchange, sender: Role, epoch: u64) -> Vec<u8> {
    let mut context = vec![exchange.method(), u8::from(sender == Role::Server)];
    context.extend(epoch.to_be_bytes());
    for role in [Role::Client, Role::Server] {
        let party = exchange.party(role);
        let parameter = party.parameter();
        // A parameter has at most 264 bytes.
        context.extend((parameter.len() as u16).to_be_bytes());
        context.extend(parameter);
        context.extend(party.tag().to_be_bytes());
        context.extend(party.initial_tsn().to_be_bytes());
    }
    context
}

impl KeySource for PreSharedKey {
    fn methods(&self) -> &[u8] {
        &METHODS
    }

    fn derive(&self, exchange: &KeyExchange, sender: Role, epoch: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        let context = context(exchange, sender, epoch);
        let key = self.material(&context, RECORD_KEY, self.suite.key_len())?;
        let number_key = self.material(&context, SEQUENCE_NUMBER_KEY, self.suite.key_len())?;
        let iv = self.material(&context, IV, 12)?;
        let keys = RecordKeys::new(self.suite, &key, &iv, &number_key).map_err(|_| ProtectionError)?;
        Ok(Arc::new(keys))
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit, Mac};
    use sha2::Sha256;
    use whimbrel_proto::Party;

    use super::*;

    #[test]
    fn short_secrets_are_refused() {
        assert_eq!(PreSharedKey::new(&[1; 15]).map(|_| ()), Err(SecretTooShort(15)));
        assert!(PreSharedKey::new(&[1; 16]).is_ok());
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let key = PreSharedKey::new(b"correct horse battery staple").expect("long enough");
        assert_eq!(format!("{key:?}"), "PreSharedKey(Aes128Gcm)");
    }

    // RFC 5869 §2, computed with another library.
    #[test]
    fn key_material_is_that_of_hkdf() {
        let mac = |key: &[u8], parts: &[&[u8]]| {
            let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
            parts.iter().for_each(|part| mac.update(part));
            mac.finalize().into_bytes().to_vec()
        };
        let secret = [9; 40];
        for suite in [CipherSuite::Aes128Gcm, CipherSuite::ChaCha20Poly1305] {
            let source = PreSharedKey::with_suite(&secret, suite).expect("long enough");
            let prk = mac(SALT, &[&secret]);
            for (purpose, len) in [(RECORD_KEY, 32), (SEQUENCE_NUMBER_KEY, 16), (IV, 12)] {
                let info = [&[purpose][..], &suite.id().to_be_bytes(), b"context", &[1]].concat();
                let expected = mac(&prk, &[&info]);
                let material = source.material(b"context", purpose, len).expect("derived");
                assert_eq!(material[..], expected[..len]);
            }
        }
    }

    // The draft, "Downgrade Attacks", and issue 46, item 2: whatever differs, the keys do.
    // [dtls:6-4]
    #[test]
    fn keys_depend_on_everything_that_was_agreed_on() {
        // Tie breaker, roles, methods.
        let parameter = |tie: u8, roles: u8, methods: &[u8]| {
            let mut bytes = vec![0x80, 6, 0, 9 + methods.len() as u8, 0, 0, 0, tie, roles];
            bytes.extend(methods);
            bytes
        };
        let party = |parameter: &[u8], tag, tsn| Party::new(parameter, tag, tsn).expect("a valid offer");
        let (client, server) = (parameter(1, 3, &[0]), parameter(9, 3, &[0]));
        let base = || (party(&client, 10, 11), party(&server, 20, 21));
        let mut all = vec![
            (base(), Role::Client, 3),
            (base(), Role::Server, 3),
            (base(), Role::Client, 4),
        ];
        for other in [
            (party(&client, 12, 11), base().1),
            (party(&client, 10, 12), base().1),
            (base().0, party(&server, 22, 21)),
            (base().0, party(&server, 20, 22)),
            (party(&parameter(2, 3, &[0]), 10, 11), base().1),
            (party(&parameter(1, 0xf3, &[0]), 10, 11), base().1),
            (base().0, party(&parameter(9, 7, &[0]), 20, 21)),
            (base().0, party(&parameter(9, 3, &[0, 192]), 20, 21)),
        ] {
            all.push((other, Role::Client, 3));
        }
        let source = PreSharedKey::new(&[9; 32]).expect("long enough");
        let other_secret = PreSharedKey::new(&[8; 32]).expect("long enough");
        let other_suite = PreSharedKey::with_suite(&[9; 32], CipherSuite::ChaCha20Poly1305).expect("long enough");
        let sealed = |source: &PreSharedKey, ends: (Party, Party), sender, epoch| {
            let exchange = KeyExchange::of(ends.0, ends.1).expect("it fits");
            // Both ends have the same keys.
            let at_peer = KeyExchange::of(ends.1, ends.0).expect("it fits");
            let [one, two] = [exchange, at_peer].map(|exchange| {
                let keys = source.derive(&exchange, sender, epoch).expect("derived");
                let mut record = vec![0; 40];
                keys.seal(0, &[1, 2, 3], &mut record).expect("sealed");
                (record, keys.mask(&[5; 16]))
            });
            assert_eq!(one, two);
            one.0
        };
        let mut records: Vec<_> = all
            .into_iter()
            .map(|(ends, sender, epoch)| sealed(&source, ends, sender, epoch))
            .collect();
        records.push(sealed(&other_secret, base(), Role::Client, 3));
        records.push(sealed(&other_suite, base(), Role::Client, 3));
        let count = records.len();
        records.sort();
        records.dedup();
        assert_eq!((count, records.len()), (13, 13));
    }
}
