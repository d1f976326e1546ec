//! Names in a folder. Everything is opened, renamed and removed relative to handles of folders, and no link is followed: another program may
//! put a link into the place of a folder or a file at any time.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use cap_fs_ext::{DirExt as _, FollowSymlinks, OpenOptionsFollowExt as _, OpenOptionsSyncExt as _};
use cap_std::fs::{Dir, OpenOptions};

/// A name in a folder. Clones share the handle of the folder.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    dir: Arc<Dir>,
    name: String,
}

impl Place {
    /// Returns the place of a name without `/` in a folder.
    pub(super) fn new(dir: &Arc<Dir>, name: impl Into<String>) -> Self {
        Place {
            dir: Arc::clone(dir),
            name: name.into(),
        }
    }

    /// Returns the place of a name with folders below `dir`. The folders are created.
    ///
    /// # Errors
    /// Returns an error if something else than a folder is in the way, such as a link.
    pub(super) fn below(dir: &Arc<Dir>, name: &str) -> io::Result<Self> {
        match name.rsplit_once('/') {
            Some((folders, name)) => Ok(Place::new(&enter_all(dir, folders)?, name)),
            None => Ok(Place::new(dir, name)),
        }
    }

    /// Returns the size of what is here; of a regular file only. `None` if there is nothing.
    pub(super) fn found(&self) -> Option<Option<u64>> {
        let metadata = self.dir.symlink_metadata(&self.name).ok()?;
        Some(metadata.is_file().then_some(metadata.len()))
    }

    /// Opens a regular file for reading.
    pub(super) fn read(&self) -> io::Result<File> {
        self.open(OpenOptions::new().read(true))
    }

    /// Opens a regular file for reading and writing. `None` if something else is here.
    pub(super) fn write(&self) -> io::Result<Option<File>> {
        match self.found() {
            Some(Some(_)) => self.open(OpenOptions::new().read(true).write(true)).map(Some),
            _ => Ok(None),
        }
    }

    /// Creates a file.
    ///
    /// # Errors
    /// Returns an error if something is here already.
    pub(super) fn create(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        Ok(self.dir.open_with(&self.name, &options)?.into_std())
    }

    fn open(&self, options: &mut OpenOptions) -> io::Result<File> {
        // What was put into the place of the file may be a pipe, and opening it may wait for ever.
        options.follow(FollowSymlinks::No).nonblock(true);
        let file = self.dir.open_with(&self.name, options)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(file.into_std())
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        self.dir.remove_file(&self.name)
    }

    /// Returns whether this file is the one here.
    #[cfg(unix)]
    pub(super) fn has(&self, file: &File) -> bool {
        let Ok(here) = self.dir.symlink_metadata(&self.name) else {
            return false;
        };
        let (device, number) = {
            use cap_std::fs::MetadataExt;
            (here.dev(), here.ino())
        };
        use std::os::unix::fs::MetadataExt;
        file.metadata()
            .is_ok_and(|own| (own.dev(), own.ino()) == (device, number))
    }

    #[cfg(not(unix))]
    pub(super) fn has(&self, _file: &File) -> bool {
        self.found().is_some()
    }

    /// Gives the file here another place. `force`: replaces a file there.
    pub(super) fn rename(&self, to: &Place, force: bool) -> io::Result<()> {
        if force {
            self.dir.rename(&self.name, &to.dir, &to.name)
        } else {
            self.rename_to_new(to)
        }
    }

    #[cfg(target_os = "linux")]
    fn rename_to_new(&self, to: &Place) -> io::Result<()> {
        use rustix::fs::{RenameFlags, renameat_with};
        use rustix::io::Errno;

        let flags = RenameFlags::NOREPLACE;
        match renameat_with(&*self.dir, self.name.as_str(), &*to.dir, to.name.as_str(), flags) {
            // Some file systems have no such rename.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => self.link_to_new(to),
            renamed => Ok(renamed?),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn rename_to_new(&self, to: &Place) -> io::Result<()> {
        self.link_to_new(to)
    }

    /// Renames without replacing another file, by a hard link.
    fn link_to_new(&self, to: &Place) -> io::Result<()> {
        self.dir.hard_link(&self.name, &to.dir, &to.name)?;
        let _ = self.remove();
        Ok(())
    }
}

/// Enters folders below `dir`, which are created if they do not exist.
///
/// # Errors
/// Returns an error if something else than a folder is in the way, such as a link.
pub(super) fn enter_all(dir: &Arc<Dir>, folders: &str) -> io::Result<Arc<Dir>> {
    let mut dir = Arc::clone(dir);
    for folder in folders.split('/') {
        dir = Arc::new(enter(&dir, folder)?);
    }
    Ok(dir)
}

fn enter(dir: &Dir, folder: &str) -> io::Result<Dir> {
    let entered = match dir.open_dir_nofollow(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => match dir.create_dir(folder) {
            // Another transfer may have created it meanwhile.
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => dir.open_dir_nofollow(folder),
        },
        entered => entered,
    };
    entered.map_err(|error| match dir.symlink_metadata(folder) {
        Ok(found) if !found.is_dir() => io::Error::other(format!("{folder} is there already and is not a folder")),
        _ => error,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use cap_std::ambient_authority;

    use super::*;

    #[test]
    fn links_that_lead_elsewhere_in_the_folder_are_not_followed_either() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        std::fs::create_dir(path("real")).expect("created");
        std::fs::write(path("real/file"), "content").expect("written");
        symlink("real", path("folder")).expect("a link");
        symlink("real/file", path("file")).expect("a link");
        let dir = Arc::new(Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("open"));
        assert_eq!(Place::below(&dir, "real/file").expect("a place").found(), Some(Some(7)));
        for name in ["folder/file", "folder/new/file"] {
            let error = Place::below(&dir, name).expect_err("a link").to_string();
            assert_eq!(error, "folder is there already and is not a folder");
        }
        // Also one that was put there after a look.
        let file = Place::new(&dir, "file");
        assert_eq!(file.found(), Some(None));
        assert!(file.read().is_err() && file.create().is_err());
        assert!(file.write().expect("no error").is_none());
        assert!(file.open(OpenOptions::new().read(true).write(true)).is_err());
        // A rename moves a link and replaces one, and never what it leads to.
        let other = Place::new(&dir, "other");
        other.create().expect("created");
        other.rename(&file, true).expect("renamed");
        assert_eq!(file.found(), Some(Some(0)));
        assert_eq!(std::fs::read_to_string(path("real/file")).expect("read"), "content");
    }

    #[test]
    fn a_pipe_is_not_waited_for_and_no_rename_replaces_a_file_unasked() {
        let folder = tempfile::tempdir().expect("a folder");
        nix::unistd::mkfifo(&folder.path().join("pipe"), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let dir = Arc::new(Dir::open_ambient_dir(folder.path(), ambient_authority()).expect("open"));
        let [pipe, one, two] = ["pipe", "one", "two"].map(|name| Place::new(&dir, name));
        assert!(pipe.read().is_err());
        let file = one.create().expect("created");
        two.create().expect("created");
        assert!(one.has(&file) && !two.has(&file));
        for rename in [Place::rename_to_new, Place::link_to_new] {
            let error = rename(&one, &two).expect_err("there is one");
            assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        }
        two.remove().expect("removed");
        one.rename(&two, false).expect("renamed");
        assert!(two.has(&file) && one.found().is_none());
        two.link_to_new(&one).expect("renamed");
        assert!(one.has(&file) && two.found().is_none());
    }
}
