//! Keys that protect nothing, for simulations: records have the length that they have with encryption. Insecure: never over a network.

use std::sync::Arc;

use whimbrel_wire::{RECORD_HEADER_LEN, key_management};

use super::{KeyExchange, KeyLimits, KeySource, Protect, ProtectionError, Role};

/// Bytes of a tag, as with the cipher suites of the draft.
const TAG: usize = 16;

/// A source of keys that protect nothing, for simulations and tests: insecure, as the name says. Records have the size of encrypted ones, and
/// their tag names the sequence number, so that a record is opened with no other. Everyone can read, change and forge them.
#[derive(Clone, Copy, Debug, Default)]
pub struct InsecureNullKeys;

impl KeySource for InsecureNullKeys {
    fn methods(&self) -> &[u8] {
        &[key_management::PRE_SHARED]
    }

    fn derive(&self, _: &KeyExchange, sender: Role, epoch: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        Ok(Arc::new(NullProtection { sender, epoch }))
    }
}

#[derive(Debug)]
struct NullProtection {
    sender: Role,
    epoch: u64,
}

impl NullProtection {
    /// It authenticates nothing. It differs for each record.
    fn tag(&self, sequence: u64) -> [u8; TAG] {
        let mut tag = [0; TAG];
        tag[..8].copy_from_slice(&sequence.to_be_bytes());
        tag[8..].copy_from_slice(&(self.epoch << 1 | u64::from(self.sender == Role::Server)).to_be_bytes());
        tag
    }
}

impl Protect for NullProtection {
    fn overhead(&self) -> usize {
        TAG
    }

    fn seal(&self, sequence: u64, _: &[u8; RECORD_HEADER_LEN], record: &mut [u8]) -> Result<(), ProtectionError> {
        let tag = record.last_chunk_mut::<TAG>().ok_or(ProtectionError)?;
        *tag = self.tag(sequence);
        Ok(())
    }

    fn open(&self, sequence: u64, _: &[u8; RECORD_HEADER_LEN], record: &mut [u8]) -> Result<(), ProtectionError> {
        let is_right = record.last_chunk() == Some(&self.tag(sequence));
        is_right.then_some(()).ok_or(ProtectionError)
    }

    fn mask(&self, _: &[u8; 16]) -> [u8; 2] {
        [0; 2]
    }

    fn limits(&self) -> KeyLimits {
        KeyLimits {
            sealed: 1 << 48,
            failed: 1 << 36,
        }
    }
}
