//! The names of namespaces, and the removal of those that a killed emulation left.
//!
//! A namespace lives as long as a process uses it or its name is mounted in [`NETNS`]. Each emulation has a file in [`STATE`] that
//! lists its namespaces, and keeps it locked. The system releases the lock when the process ends, whatever ends it. A file without
//! a lock therefore belongs to an emulation that was killed, and the next one removes what it lists.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{NetnsError, hosts};

/// Where `ip netns` looks for namespaces.
const NETNS: &str = "/run/netns";
const STATE: &str = "/run/whimbrel-emulate";
/// Time for programs to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// The names of an emulation's namespaces. They are removed when it is dropped, with the processes inside.
#[derive(Debug)]
pub(super) struct Claim {
    name: String,
    spaces: Vec<String>,
    _lock: File,
}

impl Claim {
    /// Removes what killed emulations left, and reserves the names of the namespaces of an emulation.
    pub(super) fn new(name: &str, nodes: &[&str]) -> Result<Self, NetnsError> {
        fs::create_dir_all(STATE).map_err(NetnsError::at("cannot create", Path::new(STATE)))?;
        prepare_folder()?;
        // One emulation at a time claims and removes.
        let guard = open(&Path::new(STATE).join(".lock"))?;
        guard.lock().map_err(NetnsError::at("cannot lock", Path::new(STATE)))?;
        remove_stale()?;
        let state = Path::new(STATE).join(name);
        let mut lock = open(&state)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(NetnsError::InUse(name.to_owned())),
            Err(TryLockError::Error(error)) => return Err(NetnsError::at("cannot lock", &state)(error)),
        }
        let spaces = space_names(name, nodes);
        if let Some(taken) = spaces.iter().find(|space| path(space).exists()) {
            let _ = fs::remove_file(&state);
            return Err(NetnsError::Taken(taken.clone()));
        }
        let list = spaces.join("\n");
        lock.write_all(list.as_bytes())
            .map_err(NetnsError::at("cannot write", &state))?;
        Ok(Claim {
            name: name.to_owned(),
            spaces,
            _lock: lock,
        })
    }

    /// Returns the names of the namespaces, in the order of the nodes.
    pub(super) fn spaces(&self) -> &[String] {
        &self.spaces
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        remove_spaces(&self.spaces);
        let _ = fs::remove_file(Path::new(STATE).join(&self.name));
    }
}

/// Returns the file of a namespace.
pub(super) fn path(space: &str) -> PathBuf {
    Path::new(NETNS).join(space)
}

/// Returns a name for each node's namespace.
fn space_names(name: &str, nodes: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "_-.".contains(c) {
                c
            } else {
                '_'
            }
        };
        let mut space = format!("{name}-{}", node.chars().map(plain).collect::<String>());
        while names.contains(&space) {
            space.push('_');
        }
        names.push(space);
    }
    names
}

fn open(path: &Path) -> Result<File, NetnsError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(NetnsError::at("cannot open", path))
}

/// Creates the folder of namespaces as `ip netns` does: a shared mount, so that a removal is seen in all mount namespaces.
fn prepare_folder() -> Result<(), NetnsError> {
    let folder = Path::new(NETNS);
    fs::create_dir_all(folder).map_err(NetnsError::at("cannot create", folder))?;
    let none: Option<&str> = None;
    let share = || mount(none, folder, none, MsFlags::MS_SHARED | MsFlags::MS_REC, none);
    if share().is_ok() {
        return Ok(());
    }
    mount(Some(folder), folder, none, MsFlags::MS_BIND | MsFlags::MS_REC, none)
        .and_then(|()| share())
        .map_err(|errno| NetnsError::at("cannot mount", folder)(errno.into()))
}

/// Removes the namespaces of emulations that were killed.
fn remove_stale() -> Result<(), NetnsError> {
    let folder = Path::new(STATE);
    let entries = fs::read_dir(folder).map_err(NetnsError::at("cannot read", folder))?;
    for entry in entries
        .flatten()
        .filter(|entry| !entry.file_name().as_bytes().starts_with(b"."))
    {
        let path = entry.path();
        let Ok(mut file) = File::open(&path) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let mut list = String::new();
        if file.read_to_string(&mut list).is_ok() {
            let spaces: Vec<_> = list.lines().filter(|line| is_name(line)).map(str::to_owned).collect();
            remove_spaces(&spaces);
        }
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

/// Returns whether a text can be a file in a folder.
pub(super) fn is_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    !text.is_empty() && !text.starts_with('.') && text.chars().all(plain)
}

/// Ends the processes in namespaces and removes the names.
fn remove_spaces(spaces: &[String]) {
    end_processes(spaces);
    for space in spaces {
        let path = path(space);
        let _ = umount2(&path, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(&path);
        hosts::remove(space);
    }
}

/// Ends the processes in namespaces: with SIGTERM, after a while with SIGKILL.
pub(super) fn end_processes(spaces: &[String]) {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    let wanted: Vec<_> = spaces.iter().filter_map(|space| identity(&path(space))).collect();
    if wanted.is_empty() {
        return;
    }
    let own = std::process::id();
    let found = || -> Vec<Pid> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let ids = entries
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(|id| *id != own)
            .filter(|id| {
                let space = identity(Path::new(&format!("/proc/{id}/ns/net")));
                space.is_some_and(|space| wanted.contains(&space))
            })
            .filter_map(|id| i32::try_from(id).ok().map(Pid::from_raw))
            .collect()
    };
    let start = Instant::now();
    // A second SIGTERM would end some programs at once.
    let mut asked = Vec::new();
    loop {
        let left = found();
        // A process that cannot be killed is waiting for the system; it ends when that answers.
        if left.is_empty() || start.elapsed() > 2 * GRACE {
            return;
        }
        for process in left {
            if start.elapsed() > GRACE {
                let _ = kill(process, Signal::SIGKILL);
            } else if !asked.contains(&process) {
                let _ = kill(process, Signal::SIGTERM);
                // A stopped process sees the signal when it continues.
                let _ = kill(process, Signal::SIGCONT);
                asked.push(process);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_namespaces_are_plain_and_differ() {
        let names = space_names("x", &["phone", "a b", "a/b", "../c"]);
        assert_eq!(names, ["x-phone", "x-a_b", "x-a_b_", "x-.._c"]);
        assert!(names.iter().all(|name| is_name(name)));
        assert!(["", "a/b", "..", ".lock", "a b"].iter().all(|name| !is_name(name)));
    }
}
