//! The folder that files are received into: its partial files, and those that a killed receiver has left.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

const PREFIX: &str = ".whimbrel-";
const SUFFIX: &str = ".part";

/// A folder in use. Receivers that share one hold a lock on it, so that only the first removes what others have left.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Held until the end; none where folders cannot be locked.
    _lock: Option<File>,
}

impl Folder {
    /// Makes the folder, checks that files can be made in it, and removes the partial files of receivers that are gone. Returns how
    /// many there were.
    pub(crate) fn open(path: &Path) -> std::io::Result<(Self, usize)> {
        std::fs::create_dir_all(path)?;
        let mut removed = 0;
        let lock = File::open(path).ok();
        if let Some(lock) = &lock {
            if lock.try_lock().is_ok() {
                removed = remove_leftovers(path);
                // A lock that is not given back here would be given back at our end: it only keeps others from cleaning up.
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

    /// A file that vanishes unless it is given its name.
    pub(crate) fn part_file(&self) -> std::io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        builder.make_in(&self.path, |path| {
            OpenOptions::new().write(true).create_new(true).open(path)
        })
    }

    /// Checks that the disk has room for a file of `size` bytes, so that a full disk is noticed before anything is sent. Nothing is
    /// set aside: what a sender announces may never come.
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

/// Removes partial files; those that cannot be removed stay.
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

/// Bytes that the disk has left for us, if the system tells.
#[cfg(target_os = "linux")]
fn room(path: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(path).ok()?;
    disk.blocks_available().checked_mul(disk.fragment_size())
}

#[cfg(not(target_os = "linux"))]
fn room(_path: &Path) -> Option<u64> {
    None
}
