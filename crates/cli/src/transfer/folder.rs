//! The folder for received files: its partial files, and those of receivers that were killed.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

const PREFIX: &str = ".whimbrel-";
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
    /// Held until the end; none where folders cannot be locked.
    _lock: Option<File>,
}

/// A file that is being received. It is removed unless it gets its name or is kept.
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
    keep: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if !self.keep {
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

    /// Discards what is after this position, where the next piece goes.
    pub(crate) fn begin_at(&mut self, place: u64) -> io::Result<()> {
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

    /// Gives it its name. `force`: replaces a file of this name.
    pub(crate) fn persist(self, to: &Path, force: bool) -> io::Result<()> {
        match self {
            Part::Named(file) if force => file.persist(to).map(drop).map_err(|e| e.error),
            Part::Named(file) => file.persist_noclobber(to).map(drop).map_err(|e| e.error),
            Part::Kept(mut kept) if force => {
                std::fs::rename(&kept.path, to)?;
                kept.keep = true;
                Ok(())
            }
            // Unlike a rename, this never replaces a file. The first name is removed when it is dropped.
            Part::Kept(kept) => std::fs::hard_link(&kept.path, to),
        }
    }
}

impl Folder {
    /// Creates the folder, checks that it is writable, and removes the partial files of receivers that have ended. Returns the
    /// number of removed files.
    pub(crate) fn open(path: &Path) -> io::Result<(Self, usize)> {
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
        let digest = Sha256::digest(format!("{size} {name}"));
        let digest: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let path = self.path.join(format!("{PREFIX}{digest}{KEPT_SUFFIX}"));
        let fresh = OpenOptions::new().read(true).write(true).create_new(true).open(&path);
        let file = match fresh {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match path.symlink_metadata() {
                Ok(metadata) if metadata.is_file() => OpenOptions::new().read(true).write(true).open(&path)?,
                // A link may lead anywhere.
                _ => return Ok(None),
            },
            Err(e) => return Err(e),
        };
        // Some file systems have no locks.
        if file.try_lock().is_err() {
            return Ok(None);
        }
        // The last one that had the lock may have removed or renamed the file since it was opened.
        if !is_at(&file, &path) {
            return Ok(None);
        }
        let have = file.metadata()?.len();
        let part = Part::Kept(Kept {
            file,
            path,
            keep: false,
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
