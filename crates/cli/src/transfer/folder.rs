//! The folder for received files: its partial files, and those of receivers that were killed.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::{NamedTempFile, TempPath};

use super::frame::OWN_PREFIX as PREFIX;
use super::interrupt::Interrupt;

/// The end of the names of partial files that are of no use later.
const SUFFIX: &str = ".part";
/// The end of the names of those that a later transfer continues.
const KEPT_SUFFIX: &str = ".partial";
/// How long these are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A folder in use. Receivers that share it hold a lock on it, so that only the first one removes leftover files.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// After Ctrl-C nothing is kept.
    interrupt: Interrupt,
    /// Held until the end; none where folders cannot be locked.
    _lock: Option<File>,
}

/// A file that is being received. Unless it gets its name it is removed, except for content that a later transfer continues.
#[derive(Debug)]
pub(crate) enum Part {
    Named(NamedTempFile),
    Kept(Kept),
}

/// A file that a later transfer finds. It is locked.
#[derive(Debug)]
pub(crate) struct Kept {
    file: File,
    path: PathBuf,
    /// Whether it stays: content of an earlier transfer does by default.
    keep: bool,
    interrupt: Interrupt,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let is_kept = self.keep && !self.interrupt.is_asked();
        // It may have got its name, and another transfer may have a new file at the path.
        if !is_kept && is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Part {
    pub(crate) fn path(&self) -> &Path {
        match self {
            Part::Named(file) => file.path(),
            Part::Kept(kept) => &kept.path,
        }
    }

    pub(crate) fn file(&mut self) -> &mut File {
        match self {
            Part::Named(file) => file.as_file_mut(),
            Part::Kept(kept) => &mut kept.file,
        }
    }

    /// Discards what is after this position, where the next piece goes. What is before it stays for a later transfer by default.
    pub(crate) fn begin_at(&mut self, place: u64) -> io::Result<()> {
        if let Part::Kept(kept) = self {
            kept.keep = place > 0;
        }
        self.file().set_len(place)?;
        self.file().seek(SeekFrom::Start(place))?;
        Ok(())
    }

    /// Leaves it for a later transfer, unless there is nothing in it.
    pub(crate) fn keep(&mut self) {
        if let Part::Kept(kept) = self {
            kept.keep = kept.file.metadata().is_ok_and(|metadata| metadata.len() > 0);
        }
    }

    /// Removes it at its end.
    pub(crate) fn discard(&mut self) {
        if let Part::Kept(kept) = self {
            kept.keep = false;
        }
    }

    /// Gives it its name. `force`: replaces a file of this name.
    ///
    /// # Errors
    /// Returns the error and the file, which a later transfer finds.
    pub(crate) fn persist(self, to: &Path, force: bool) -> Result<(), (io::Error, Part)> {
        match self {
            Part::Named(file) if force => file.persist(to).map(drop).map_err(|e| (e.error, Part::Named(e.file))),
            Part::Named(file) => {
                let persisted = file.persist_noclobber(to);
                persisted.map(drop).map_err(|e| (e.error, Part::Named(e.file)))
            }
            Part::Kept(kept) => {
                let renamed = if force {
                    std::fs::rename(&kept.path, to)
                } else {
                    rename_to_new(&kept.path, to)
                };
                renamed.map_err(|error| {
                    let mut part = Part::Kept(kept);
                    part.keep();
                    (error, part)
                })
            }
        }
    }
}

/// Renames a file without replacing another one: by a hard link only where the file system has no such rename. FAT has no hard links.
fn rename_to_new(from: &Path, to: &Path) -> io::Result<()> {
    let path = TempPath::try_from_path(from)?;
    path.persist_noclobber(to).map_err(|failed| {
        let mut path = failed.path;
        path.disable_cleanup(true);
        failed.error
    })
}

impl Folder {
    /// Creates the folder, checks that it is writable, and removes the partial files of receivers that have ended. Returns the
    /// number of removed files.
    pub(crate) fn open(path: &Path, interrupt: &Interrupt) -> io::Result<(Self, usize)> {
        if path.exists() && !path.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
        }
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
            interrupt: interrupt.clone(),
            _lock: lock,
        };
        folder.part_file()?;
        Ok((folder, removed))
    }

    /// Creates the folders of a name. Returns the file's path.
    ///
    /// # Errors
    /// Returns an error if something else than a folder is in the way, such as a link that leads elsewhere.
    pub(crate) fn prepare(&self, name: &str) -> io::Result<PathBuf> {
        if let Some((folders, _)) = name.rsplit_once('/') {
            self.create_folder(folders)?;
        }
        Ok(self.path.join(name))
    }

    /// Creates a folder, with those that it is in.
    pub(crate) fn create_folder(&self, name: &str) -> io::Result<()> {
        let mut path = self.path.clone();
        for part in name.split('/') {
            path.push(part);
            match path.symlink_metadata() {
                Ok(metadata) if metadata.is_dir() => {}
                Ok(_) => return Err(io::Error::other(format!("{part} is there already and is not a folder"))),
                Err(_) => match std::fs::create_dir(&path) {
                    // Another transfer may have created it meanwhile.
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                },
            }
        }
        Ok(())
    }

    /// Creates a file for content that arrives.
    pub(crate) fn part_file(&self) -> io::Result<Part> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX).suffix(SUFFIX);
        let file = builder.make_in(&self.path, |path| {
            OpenOptions::new().write(true).create_new(true).open(path)
        })?;
        Ok(Part::Named(file))
    }

    /// Opens or creates the file that a later transfer of this name and size continues. Returns it with the number of bytes in it; none
    /// if another transfer has it.
    pub(crate) fn kept_file(&self, name: &str, size: u64) -> io::Result<Option<(Part, u64)>> {
        self.kept_file_with(name, size, File::try_lock)
    }

    fn kept_file_with(
        &self,
        name: &str,
        size: u64,
        lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> io::Result<Option<(Part, u64)>> {
        let digest = Sha256::digest(format!("{size} {name}"));
        let digest: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.path.join(format!("{PREFIX}{digest}{KEPT_SUFFIX}"));
        let fresh = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let is_fresh = fresh.is_ok();
        let file = match fresh {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match path.symlink_metadata() {
                Ok(metadata) if metadata.is_file() => OpenOptions::new().read(true).write(true).open(&path)?,
                // A link may lead anywhere.
                _ => return Ok(None),
            },
            Err(e) => return Err(e),
        };
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) => {
                if is_fresh {
                    let _ = std::fs::remove_file(&path);
                }
                return Ok(None);
            }
        }
        // The last one that had the lock may have removed or renamed the file since it was opened. A file with another name is complete:
        // a receiver was killed when it gave the file that name.
        if !is_at(&file, &path) || has_other_name(&file) {
            return Ok(None);
        }
        let have = file.metadata()?.len();
        let part = Part::Kept(Kept {
            file,
            path,
            keep: have > 0,
            interrupt: self.interrupt.clone(),
        });
        Ok(Some((part, have.min(size))))
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

/// Returns whether this file is still the one at the path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let here = file.metadata().map(identity).ok();
    here.is_some() && here == path.symlink_metadata().map(identity).ok()
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.exists()
}

#[cfg(unix)]
fn has_other_name(file: &File) -> bool {
    use std::os::unix::fs::MetadataExt;

    file.metadata().is_ok_and(|metadata| metadata.nlink() > 1)
}

#[cfg(not(unix))]
fn has_other_name(_file: &File) -> bool {
    false
}

/// Removes partial files; ignores those that cannot be removed. Returns the number of removed files.
fn remove_leftovers(path: &Path) -> usize {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let is_old = |entry: &std::fs::DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.elapsed().is_ok_and(|age| age > KEPT))
    };
    let leftovers = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_useless = name.ends_with(SUFFIX) || name.ends_with(KEPT_SUFFIX) && is_old(entry);
        name.starts_with(PREFIX) && is_useless && entry.file_type().is_ok_and(|kind| kind.is_file())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_nothing_where_files_cannot_be_locked() {
        let dir = tempfile::tempdir().expect("a folder");
        let (folder, _) = Folder::open(dir.path(), &Interrupt::never()).expect("open");
        let lock = |_: &File| Err(TryLockError::Error(io::ErrorKind::Unsupported.into()));
        let found = folder.kept_file_with("a", 1_000_000, lock).expect("no file");
        assert!(found.is_none());
        assert_eq!(std::fs::read_dir(dir.path()).expect("read").count(), 0);
    }
}
