//! SHA-256 of content.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result, Seek as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

/// Files that are hashed at a time; further ones wait.
const HASHES: usize = 4;

/// Reads to the end into a hasher. Returns the number of bytes.
///
/// # Errors
/// Returns an error if the content cannot be read, or once `stop` is set.
pub(crate) fn hash_all(mut content: impl Read, hasher: &mut Sha256, stop: &AtomicBool) -> Result<u64> {
    let mut buffer = vec![0; 1 << 16];
    let mut len = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(Error::other("nothing needs its digest any more"));
        }
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

/// Sets a flag when it is dropped.
#[derive(Default)]
pub(crate) struct StopOnDrop(Arc<AtomicBool>);

impl StopOnDrop {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Hashes files for peers, a few at a time.
#[derive(Debug)]
pub(crate) struct Hashes(Arc<Semaphore>);

impl Default for Hashes {
    fn default() -> Self {
        Hashes(Arc::new(Semaphore::new(HASHES)))
    }
}

impl Hashes {
    /// Hashes the first `len` bytes of the file that `open` returns in another thread, which stops when the future is dropped.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or has fewer bytes.
    pub(crate) async fn hash(&self, open: impl FnOnce() -> Result<File> + Send + 'static, len: u64) -> Result<Sha256> {
        let slot = Arc::clone(&self.0).acquire_owned().await.map_err(Error::other)?;
        let guard = StopOnDrop::default();
        let stop = guard.flag();
        let hashing = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            let mut hasher = Sha256::new();
            let mut file = open()?;
            file.rewind()?;
            if hash_all(file.take(len), &mut hasher, &stop)? < len {
                return Err(Error::other("it became shorter"));
            }
            Ok(hasher)
        });
        hashing.await.unwrap_or_else(|e| Err(Error::other(e)))
    }
}
