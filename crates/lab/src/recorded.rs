//! Finds the files of a recorded run below a folder of results.

use std::path::{Path, PathBuf};

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
    let below = entries(&folder.join("runs")).into_iter().flat_map(|run| {
        let mut all = vec![run.clone()];
        all.extend(entries(&run));
        all
    });
    let found: Vec<PathBuf> = below
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
