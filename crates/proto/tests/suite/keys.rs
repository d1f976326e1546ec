//! Keys for tests of DTLS chunks: they notice what ciphers notice, by HMAC. `whimbrel-secure` runs the same tests with its ciphers.

use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use whimbrel_proto::{KeyExchange, KeyLimits, KeySource, Protect, ProtectionError, Role};

/// Returns sources of keys for this secret.
pub(crate) fn sources(secret: &[u8]) -> Vec<Arc<dyn KeySource>> {
    vec![Arc::new(TestKeys(secret.to_vec()))]
}

#[derive(Debug)]
struct TestKeys(Vec<u8>);

fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

impl KeySource for TestKeys {
    fn methods(&self) -> &[u8] {
        &[0]
    }

    fn derive(&self, exchange: &KeyExchange, sender: Role, epoch: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        let mut context = vec![exchange.method(), u8::from(sender == Role::Server)];
        context.extend(epoch.to_be_bytes());
        for role in [Role::Client, Role::Server] {
            let party = exchange.party(role);
            context.extend(party.parameter());
            context.extend(party.tag().to_be_bytes());
            context.extend(party.initial_tsn().to_be_bytes());
        }
        Ok(Arc::new(TestRecords(mac(&self.0, &[&context]))))
    }
}

pub(crate) struct TestRecords([u8; 32]);

impl std::fmt::Debug for TestRecords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TestRecords")
    }
}

impl TestRecords {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        TestRecords(key)
    }

    fn tag(&self, sequence: u64, header: &[u8; 3], sealed: &[u8]) -> [u8; 16] {
        let all = mac(&self.0, &[&sequence.to_be_bytes(), header, sealed]);
        *all.first_chunk().expect("32 bytes")
    }

    /// Adds a stream of bytes, so that no plaintext is seen.
    fn hide(&self, sequence: u64, plain: &mut [u8]) {
        for (index, block) in (0_u32..).zip(plain.chunks_mut(32)) {
            let stream = mac(&self.0, &[b"stream", &sequence.to_be_bytes(), &index.to_be_bytes()]);
            block.iter_mut().zip(stream).for_each(|(byte, other)| *byte ^= other);
        }
    }
}

impl Protect for TestRecords {
    fn overhead(&self) -> usize {
        16
    }

    fn seal(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        let (plain, tag) = record.split_last_chunk_mut::<16>().ok_or(ProtectionError)?;
        self.hide(sequence, plain);
        *tag = self.tag(sequence, header, plain);
        Ok(())
    }

    fn open(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        let (sealed, tag) = record.split_last_chunk_mut::<16>().ok_or(ProtectionError)?;
        if *tag != self.tag(sequence, header, sealed) {
            return Err(ProtectionError);
        }
        self.hide(sequence, sealed);
        Ok(())
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 2] {
        let all = mac(&self.0, &[b"mask", sample]);
        [all[0], all[1]]
    }

    fn limits(&self) -> KeyLimits {
        KeyLimits {
            sealed: 1 << 24,
            failed: 1 << 36,
        }
    }
}
