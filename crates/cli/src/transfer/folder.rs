//! The folder for received files: its partial files, and those of receivers that were killed.

use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cap_fs_ext::OpenOptionsMaybeDirExt as _;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, OpenOptions};
use sha2::{Digest, Sha256};

use super::frame::OWN_PREFIX as PREFIX;
use super::interrupt::Interrupt;
use super::place::{Place, enter_all};
use super::progress::hex;
use crate::output::count;

/// The end of the names of partial files that are of no use later.
const SUFFIX: &str = ".part";
/// The end of the names of those that a later transfer continues.
const KEPT_SUFFIX: &str = ".partial";
/// How long these are kept.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);

/// A folder in use. Receivers that share it hold a lock on it, so that only the first one removes leftover files.
#[derive(Debug)]
pub(crate) struct Folder {
    dir: Arc<Dir>,
    /// After Ctrl-C nothing is kept.
    interrupt: Interrupt,
    /// Held until the end; none where folders cannot be locked.
    _lock: Option<File>,
}

/// A file that is being received. Unless it gets its name it is removed, except for content that a later transfer continues.
#[derive(Debug)]
pub(crate) struct IncomingFile {
    file: File,
    place: Place,
    /// Whether a later transfer finds it. It is locked.
    is_findable: bool,
    /// Whether it stays: content of an earlier transfer does by default.
    keep: bool,
    interrupt: Interrupt,
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        let is_kept = self.keep && !self.interrupt.is_asked();
        // It may have got its name, and another transfer may have a new file at the place.
        if !is_kept && self.place.has(&self.file) {
            let _ = self.place.remove();
        }
    }
}

impl IncomingFile {
    pub(crate) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Returns another handle of the file, which shares its position.
    pub(crate) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Discards what is after this position, where the next piece goes. What is before it stays for a later transfer by default.
    pub(crate) fn begin_at(&mut self, place: u64) -> io::Result<()> {
        self.keep = self.is_findable && place > 0;
        self.file.set_len(place)?;
        self.file.seek(SeekFrom::Start(place))?;
        Ok(())
    }

    /// Leaves it for a later transfer if one can find it, unless there is nothing in it.
    pub(crate) fn keep(&mut self) {
        self.keep = self.is_findable && self.file.metadata().is_ok_and(|metadata| metadata.len() > 0);
    }

    /// Removes it at its end.
    pub(crate) fn discard(&mut self) {
        self.keep = false;
    }

    /// Gives it its name. `force`: replaces a file of this name.
    ///
    /// # Errors
    /// Returns the error and the file, which a later transfer finds.
    pub(crate) fn persist(mut self, to: &Place, force: bool) -> Result<(), (io::Error, IncomingFile)> {
        let replaced = || io::Error::other("another program has removed or replaced it while it was received");
        let renamed = if self.place.has(&self.file) {
            self.place.rename(to, force)
        } else {
            Err(replaced())
        };
        match renamed {
            Ok(()) if to.has(&self.file) => Ok(()),
            Ok(()) => Err((replaced(), self)),
            Err(error) => {
                self.keep();
                Err((error, self))
            }
        }
    }
}

impl Folder {
    /// Creates the folder, checks that it is writable, and removes the partial files of receivers that have ended. Returns the
    /// number of removed files.
    pub(crate) fn open(path: &Path, interrupt: &Interrupt) -> io::Result<(Self, usize)> {
        if path.exists() && !path.is_dir() {
            return Err(io::Error::new(ErrorKind::NotADirectory, "it is not a folder"));
        }
        std::fs::create_dir_all(path)?;
        let dir = Arc::new(Dir::open_ambient_dir(path, ambient_authority())?);
        let mut removed = 0;
        // The handle itself cannot be locked on Linux.
        let lock = dir.open_with(".", OpenOptions::new().read(true).maybe_dir(true));
        let lock = lock.map(cap_std::fs::File::into_std).ok();
        if let Some(lock) = &lock {
            if lock.try_lock().is_ok() {
                removed = remove_leftovers(&dir);
                // If the unlock fails, the lock is released at exit: it only prevents others from cleaning up.
                let _ = lock.unlock();
            }
            let _ = lock.try_lock_shared();
        }
        let folder = Folder {
            dir,
            interrupt: interrupt.clone(),
            _lock: lock,
        };
        folder.part_file()?;
        Ok((folder, removed))
    }

    /// Creates the folders of a name. Returns the file's place.
    ///
    /// # Errors
    /// Returns an error if something else than a folder is in the way, such as a link that leads elsewhere.
    pub(crate) fn prepare(&self, name: &str) -> io::Result<Place> {
        Place::below(&self.dir, name)
    }

    /// Creates a folder, with those that it is in.
    pub(crate) fn create_folder(&self, name: &str) -> io::Result<()> {
        enter_all(&self.dir, name).map(drop)
    }

    /// Creates a file for content that arrives.
    pub(crate) fn part_file(&self) -> io::Result<IncomingFile> {
        loop {
            let mut random = [0; 8];
            getrandom::fill(&mut random).map_err(io::Error::other)?;
            let place = Place::new(&self.dir, format!("{PREFIX}{}{SUFFIX}", hex(&random)));
            match place.create() {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                created => return Ok(self.part(created?, place, false)),
            }
        }
    }

    fn part(&self, file: File, place: Place, is_findable: bool) -> IncomingFile {
        IncomingFile {
            file,
            place,
            is_findable,
            keep: false,
            interrupt: self.interrupt.clone(),
        }
    }

    /// Opens or creates the file that a later transfer of this name and size continues. Returns it with the number of bytes in it; none
    /// if another transfer has it.
    pub(crate) fn kept_file(&self, name: &str, size: u64) -> io::Result<Option<(IncomingFile, u64)>> {
        self.kept_file_with(name, size, File::try_lock)
    }

    fn kept_file_with(
        &self,
        name: &str,
        size: u64,
        lock: impl FnOnce(&File) -> Result<(), TryLockError>,
    ) -> io::Result<Option<(IncomingFile, u64)>> {
        let digest = hex(&Sha256::digest(format!("{size} {name}"))[..16]);
        let place = Place::new(&self.dir, format!("{PREFIX}{digest}{KEPT_SUFFIX}"));
        let fresh = place.create();
        let is_fresh = fresh.is_ok();
        let file = match fresh {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => match place.write()? {
                Some(file) => file,
                // A link may lead anywhere.
                None => return Ok(None),
            },
            Err(e) => return Err(e),
        };
        match lock(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            // Some file systems have no locks.
            Err(TryLockError::Error(_)) => {
                if is_fresh {
                    let _ = place.remove();
                }
                return Ok(None);
            }
        }
        // The last one that had the lock may have removed or renamed the file since it was opened. A file with another name is complete:
        // a receiver was killed when it gave the file that name.
        if !place.has(&file) || has_other_name(&file) {
            return Ok(None);
        }
        let have = file.metadata()?.len();
        let mut part = self.part(file, place, true);
        part.keep = have > 0;
        Ok(Some((part, have.min(size))))
    }

    /// Checks that the disk has room for a file of `size` bytes, so that a full disk is detected before the transfer. Reserves
    /// nothing, because the sender's announcement may be wrong.
    pub(crate) fn check_room(&self, size: u64) -> io::Result<()> {
        match room(&self.dir) {
            Some(room) if size > room => Err(io::Error::new(
                ErrorKind::StorageFull,
                format!("it has {}, and the disk has room for {room}", count(size, "byte")),
            )),
            _ => Ok(()),
        }
    }
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
fn remove_leftovers(dir: &Dir) -> usize {
    let entries = dir.entries().into_iter().flatten().flatten();
    let is_old = |entry: &DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        modified.is_ok_and(|modified| modified.into_std().elapsed().is_ok_and(|age| age > KEPT))
    };
    let leftovers = entries.filter(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_useless = name.ends_with(SUFFIX) || name.ends_with(KEPT_SUFFIX) && is_old(entry);
        name.starts_with(PREFIX) && is_useless && entry.file_type().is_ok_and(|kind| kind.is_file())
    });
    leftovers.filter(|entry| entry.remove_file().is_ok()).count()
}

/// Returns the free bytes of the disk, if the system reports them.
#[cfg(target_os = "linux")]
fn room(dir: &Dir) -> Option<u64> {
    let disk = rustix::fs::fstatvfs(dir).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(target_os = "linux"))]
fn room(_dir: &Dir) -> Option<u64> {
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
