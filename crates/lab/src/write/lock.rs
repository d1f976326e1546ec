//! The lock of a folder of results: one process at a time writes to it.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

use super::file::WriteError;

/// The locked file. It exists while a process writes to the folder, or after it was killed.
pub(crate) const LOCK: &str = ".lock";

/// Why a folder cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process writes to it, or another handle of this one.
    #[error("another program, or another part of this one, writes to folder {}\n  hint: wait until it ends, or choose another folder with --out", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// Its lock cannot be written.
    #[error("{0}\n  hint: choose another folder with --out")]
    Unwritable(#[from] WriteError),
}

/// The exclusive right to write to a folder of results, until this value is dropped or the process ends.
///
/// A file system without locks gives it to everyone.
#[derive(Debug)]
#[must_use = "the folder is locked until this value is dropped"]
pub struct FolderLock {
    /// The locked file; none on a file system without locks.
    file: Option<File>,
    path: PathBuf,
}

impl FolderLock {
    /// Locks a folder that exists.
    pub(crate) fn acquire(folder: &Path) -> Result<Self, LockError> {
        let path = folder.join(LOCK);
        let wrong = |error| LockError::Unwritable(WriteError::at(folder)(error));
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options.open(&path).map_err(wrong)?;
            match file.try_lock() {
                Ok(()) => {
                    // The process that had the lock may have removed the file meanwhile.
                    if is_at(&file, &path) {
                        return Ok(FolderLock { file: Some(file), path });
                    }
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(LockError::InUse {
                        path: folder.to_owned(),
                    });
                }
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Interrupted => {}
                Err(TryLockError::Error(error)) if lacks_locks(&error) => return Ok(FolderLock { file: None, path }),
                Err(TryLockError::Error(error)) => return Err(wrong(error)),
            }
        }
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // Without a lock, another process may use the file.
        if let Some(file) = &self.file {
            // Removed while it is locked: a process that opened it meanwhile sees that it is gone. An error leaves an unlocked file.
            if cfg!(unix) {
                let _ = fs::remove_file(&self.path);
            }
            // Child processes may have the file open as well.
            let _ = file.unlock();
        }
    }
}

/// Returns whether the file system has no locks. Network file systems without a lock service return ENOLCK.
fn lacks_locks(error: &Error) -> bool {
    const ENOLCK: i32 = if cfg!(target_os = "linux") { 37 } else { 77 };
    error.kind() == ErrorKind::Unsupported || (cfg!(unix) && error.raw_os_error() == Some(ENOLCK))
}

/// Returns whether the open file is the one with this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let (open, named) = (file.metadata().map(place), fs::metadata(path).map(place));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

/// The file is not removed on this system.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn second_lock_of_a_folder_is_refused_until_the_first_is_dropped() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = FolderLock::acquire(folder.path()).expect("free");
        let error = FolderLock::acquire(folder.path()).expect_err("locked").to_string();
        assert!(error.contains("writes to folder"), "{error}");
        drop(first);
        assert_eq!(
            fs::read_dir(folder.path()).expect("there").count(),
            0,
            "no file remains"
        );
        drop(FolderLock::acquire(folder.path()).expect("free again"));
    }

    #[test]
    fn file_of_a_killed_process_does_not_lock() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join(LOCK), "").expect("writable");
        drop(FolderLock::acquire(folder.path()).expect("no process has it"));
    }

    #[test]
    fn only_a_file_system_without_locks_is_used_without_one() {
        assert!(lacks_locks(&ErrorKind::Unsupported.into()));
        for kind in [ErrorKind::Interrupted, ErrorKind::PermissionDenied, ErrorKind::Other] {
            assert!(!lacks_locks(&kind.into()), "{kind:?}");
        }
        #[cfg(target_os = "linux")]
        assert!(lacks_locks(&Error::from_raw_os_error(37)));
    }

    #[test]
    fn threads_never_hold_the_lock_at_the_same_time() {
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().expect("a temporary folder");
        let holders = AtomicUsize::new(0);
        let work = || {
            let mut got = 0;
            while got < 50 {
                let lock = match FolderLock::acquire(folder.path()) {
                    Ok(lock) => lock,
                    Err(LockError::InUse { .. }) => {
                        std::thread::yield_now();
                        continue;
                    }
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                got += 1;
                std::thread::yield_now();
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(lock);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(work);
            }
        });
    }
}
