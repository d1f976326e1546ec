//! SHA-256 of content.

use std::io::{ErrorKind, Read, Result};

use sha2::{Digest, Sha256};

/// Reads to the end into a hasher. Returns the number of bytes.
pub(crate) fn hash_all(mut content: impl Read, hasher: &mut Sha256) -> Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut len = 0;
    loop {
        match content.read(&mut buffer) {
            Ok(0) => return Ok(len),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                len += read as u64;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}
