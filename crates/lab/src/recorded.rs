//! Finds the files of a recorded run below a folder of results.

use std::path::{Path, PathBuf};

/// Levels of folders between a folder of results and its files of runs.
const DEPTH: usize = 3;

/// Returns the file with this name in the folder, or the only one in the folders of runs below it. `setting` is the setting with
/// which runs record it, for the error message.
pub(crate) fn find(folder: &Path, name: &str, setting: &str) -> Result<PathBuf, String> {
    if folder.join(name).is_file() {
        return Ok(folder.join(name));
    }
    let entries = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths.sort();
        paths
    };
    // DIR/runs/POINT/SEED; the folder given may be any of them.
    let mut below: Vec<PathBuf> = Vec::new();
    let mut level = vec![folder.to_owned()];
    for _ in 0..DEPTH {
        level = level
            .iter()
            .flat_map(|folder| entries(folder))
            .filter(|path| path.is_dir())
            .collect();
        below.extend_from_slice(&level);
    }
    below.sort();
    let found: Vec<PathBuf> = below
        .iter()
        .map(|path| path.join(name))
        .filter(|path| path.is_file())
        .collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!(
            "{} holds no {name}\n  hint: run with --out and {setting}",
            folder.display()
        )),
        several => {
            let names: Vec<_> = several
                .iter()
                .filter_map(|path| path.parent())
                .map(|path| path.display().to_string())
                .collect();
            Err(format!(
                "{} holds several recorded runs\n  hint: name one of {}",
                folder.display(),
                names.join(", ")
            ))
        }
    }
}
