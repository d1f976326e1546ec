//! What `whimbrel send` sends: files, folders with everything in them, and standard input.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::console::Console;
use super::failure::Failure;
use super::frame::{Header, check_path, visible};

/// Files from this size on are resumed; others are sent again without asking the receiver.
const ASKS_FROM: u64 = 256 * 1024;

/// A file, a folder or standard input.
#[derive(Debug)]
pub(crate) struct Entry {
    /// None is standard input.
    path: Option<PathBuf>,
    pub(crate) header: Header,
}

impl Entry {
    /// Opens the content.
    pub(crate) fn open(&self) -> std::io::Result<Box<dyn Content>> {
        Ok(match &self.path {
            Some(path) => Box::new(File::open(path)?),
            None => Box::new(std::io::stdin()),
        })
    }
}

/// What can be read in another thread.
pub(crate) trait Content: Read + Send {}
impl<T: Read + Send> Content for T {}

/// Returns what the arguments name, folders with all that is in them. `-` is standard input, whose name at the receiver is `stdin_name`.
///
/// # Errors
/// Returns an error if something cannot be read, has a name that the receiver refuses, or the name of something else.
pub(crate) fn list(paths: &[PathBuf], stdin_name: &str, console: &Console) -> Result<Vec<Entry>, Failure> {
    let mut entries = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let name = checked(stdin_name.to_owned())?;
            entries.push(entry(None, name, None, false));
            continue;
        }
        let metadata = std::fs::metadata(path).map_err(|e| cannot(path, &e))?;
        let name = name_of(path)?;
        if metadata.is_dir() {
            add_folder(path, name, &mut entries, console)?;
        } else if metadata.is_file() {
            // It may not be readable.
            let size = size_of(path).map_err(|e| cannot(path, &e))?;
            entries.push(entry(Some(path.clone()), checked(name)?, size, false));
        } else {
            return Err(cannot(path, &"it is neither a regular file nor a folder"));
        }
    }
    let mut names = BTreeMap::new();
    for Header { name, is_folder, .. } in entries.iter().map(|entry| &entry.header) {
        // Folders of one name become one.
        if names
            .insert(name, *is_folder)
            .is_some_and(|before| !(before && *is_folder))
        {
            let name = visible(name);
            return Err(Failure::wrong_use(format!(
                "two files have the name {name} at the receiver"
            )));
        }
    }
    Ok(entries)
}

fn entry(path: Option<PathBuf>, name: String, size: Option<u64>, is_folder: bool) -> Entry {
    Entry {
        path,
        header: Header {
            name,
            size,
            is_folder,
            asks: size.is_some_and(|size| size >= ASKS_FROM),
        },
    }
}

/// Returns the size of a file; none if only reading shows it: files of proc(5) have content but no size.
fn size_of(path: &Path) -> std::io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let is_unknown = size == 0 && file.read(&mut [0])? > 0;
    Ok((!is_unknown).then_some(size))
}

/// Adds a folder and what is in it, in the order of names. Links and devices are left out.
fn add_folder(path: &Path, name: String, entries: &mut Vec<Entry>, console: &Console) -> Result<(), Failure> {
    let mut waiting = vec![(path.to_owned(), name)];
    while let Some((path, name)) = waiting.pop() {
        let read = std::fs::read_dir(&path).and_then(|found| found.collect::<Result<Vec<_>, _>>());
        let mut found = read.map_err(|e| cannot(&path, &e))?;
        found.sort_by_key(std::fs::DirEntry::file_name);
        entries.push(entry(None, checked(name.clone())?, Some(0), true));
        let mut folders = Vec::new();
        for item in found {
            let path = item.path();
            let kind = item.file_type().map_err(|e| cannot(&path, &e))?;
            let name = format!("{name}/{}", name_of(&path)?);
            if kind.is_dir() {
                folders.push((path, name));
            } else if kind.is_file() {
                let size = match item.metadata().map_err(|e| cannot(&path, &e))?.len() {
                    0 => size_of(&path).map_err(|e| cannot(&path, &e))?,
                    size => Some(size),
                };
                entries.push(entry(Some(path), checked(name)?, size, false));
            } else {
                console.note(format!(
                    "warning: {} is left out: it is neither a regular file nor a folder",
                    path.display()
                ));
            }
        }
        waiting.extend(folders.into_iter().rev());
    }
    Ok(())
}

fn cannot(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::file(format!("cannot read {}: {error}", path.display()))
}

fn name_of(path: &Path) -> Result<String, Failure> {
    // `.` and `..` have no name of their own.
    let whole = if path.file_name().is_none() {
        path.canonicalize().map_err(|e| cannot(path, &e))?
    } else {
        path.to_owned()
    };
    let name = whole.file_name().ok_or_else(|| cannot(path, &"it has no name"))?;
    let name = name.to_str().ok_or_else(|| cannot(path, &"its name is not UTF-8"))?;
    Ok(name.to_owned())
}

fn checked(name: String) -> Result<String, Failure> {
    match check_path(&name) {
        Ok(()) => Ok(name),
        Err(why) => Err(Failure::file(format!("cannot send the file name {name:?}: {why}"))),
    }
}
