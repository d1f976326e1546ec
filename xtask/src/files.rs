//! Reading and writing files and folders, with errors that name them.

use std::path::{Path, PathBuf};

use crate::chore::{Outcome, root};

/// Returns the text of a file.
pub(crate) fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", shown(path)))
}

/// Returns the bytes of a file.
pub(crate) fn read_bytes(path: &Path) -> Outcome<Vec<u8>> {
    std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", shown(path)))
}

/// Writes a file, and creates its folder if needed.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Outcome {
    let folder = path.with_file_name("");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, content));
    written.map_err(|e| format!("cannot write {}: {e}", shown(path)))
}

/// Returns what a folder contains, in order.
pub(crate) fn entries(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let failed = |e| format!("cannot list {}: {e}", shown(folder));
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<PathBuf> = paths.collect::<Result<_, _>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// Returns all files below a folder, in order.
pub(crate) fn below(folder: &Path) -> Outcome<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            files.extend(below(&path)?);
        } else {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns whether the name of a file ends with a dot and `extension`.
pub(crate) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Returns a path as messages show it: relative to the workspace, if it lies there.
pub(crate) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
