//! The folder for received files: its partial files, and those of receivers that were killed.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

const PREFIX: &str = ".whimbrel-";
const SUFFIX: &str = ".part";

/// A folder in use. Receivers that share it hold a lock on it, so that only the first one removes leftover files.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held until the end; none where folders cannot be locked.
    _lock: Option<File>,
}

impl Folder {
    /// Creates the folder, checks that it is writable, and removes the partial files of receivers that have ended. Returns the
    /// number of removed files.
    pub(crate) fn open(path: &Path) -> std::io::Result<(Self, usize)> {
        std::fs::create_dir_all(path)?;
        let mut removed = 0;
        let lock = File::open(path).ok();
        if let Some(lock) = &lock {
            if lock.try_lock().is_ok() {
                removed = remove_leftovers(path);
                // If the unlock fails, the lock is released at exit: it only prevents others from cleaning up.
                let _ = lock.unlock();
            }
            let _ = lock.try_lock_shared();
        }
        let folder = Folder {
            path: path.to_owned(),
            _lock: lock,
        };
        folder.part_file()?;
        Ok((folder, removed))
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Creates a file that is removed unless it is renamed.
    pub(crate) fn part_file(&self) -> std::io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        builder.make_in(&self.path, |path| {
            OpenOptions::new().write(true).create_new(true).open(path)
        })
    }

    /// Checks that the disk has room for a file of `size` bytes, so that a full disk is detected before the transfer. Reserves
    /// nothing, because the sender's announcement may be wrong.
    pub(crate) fn check_room(&self, size: u64) -> std::io::Result<()> {
        match room(&self.path) {
            Some(room) if size > room => Err(std::io::Error::new(
                std::io::ErrorKind::StorageFull,
                format!("it has {size} bytes, and the disk has room for {room}"),
            )),
            _ => Ok(()),
        }
    }
}

/// Removes partial files; ignores those that cannot be removed. Returns the number of removed files.
fn remove_leftovers(path: &Path) -> usize {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let leftovers = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX) && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    leftovers
        .filter(|entry| std::fs::remove_file(entry.path()).is_ok())
        .count()
}

/// Returns the free bytes of the disk, if the system reports them.
#[cfg(target_os = "linux")]
fn room(path: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(path).ok()?;
    disk.blocks_available().checked_mul(disk.fragment_size())
}

#[cfg(not(target_os = "linux"))]
fn room(_path: &Path) -> Option<u64> {
    None
}
