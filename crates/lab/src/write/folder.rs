//! The folder for results, and checks of it before anything runs.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::file::WriteError;
use super::lock::{FolderLock, LOCK, LockError};

/// The file that identifies a result folder.
pub(crate) const MANIFEST: &str = "manifest.json";

/// All names that this program writes into a result folder.
const OURS: [&str; 17] = [
    MANIFEST,
    "emulation.json",
    "report.html",
    "plots",
    "results.csv",
    "results.parquet",
    "links.csv",
    "radios.csv",
    "series.parquet",
    "events.jsonl",
    "packets.pcapng",
    "runs",
    "runs.jsonl",
    ".runs.jsonl.new",
    "partitions",
    "failures.jsonl",
    ".manifest.json.new",
];

/// Why results cannot be written to a folder.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It contains files that a run would mix with or overwrite.
    #[error("folder {} is not empty\n  hint: {hint}", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// The remedy.
        hint: &'static str,
    },
    /// It cannot be locked: as a rule because another process writes to it.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// It cannot be created, read or written.
    #[error("{0}\n  hint: choose another folder with --out")]
    Unwritable(#[from] WriteError),
}

/// Prepares `folder` for results: creates it, checks that it is empty or, with `replace`, removes the results of an earlier run,
/// and checks that it is writable. Returns its lock, which must be held until the results are complete.
///
/// # Errors
/// Returns an error if the folder has other contents, cannot be written, or another process writes to it.
pub fn prepare(folder: &Path, replace: bool) -> Result<FolderLock, FolderError> {
    fs::create_dir_all(folder).map_err(|error| {
        // If a file has this name, the error of the creation only says that it exists.
        let kind = error.kind();
        let error = if kind == io::ErrorKind::AlreadyExists {
            io::ErrorKind::NotADirectory.into()
        } else {
            error
        };
        WriteError {
            path: folder.to_owned(),
            error,
        }
    })?;
    let lock = FolderLock::acquire(folder)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(WriteError::at(folder))? {
        names.push(entry.map_err(WriteError::at(folder))?.file_name());
    }
    names.retain(|name| name != LOCK);
    if !names.is_empty() {
        let ours = |name: &std::ffi::OsString| OURS.iter().any(|known| name == known);
        let earlier_run = names.iter().any(|name| name == MANIFEST) && names.iter().all(ours);
        match (earlier_run, replace) {
            (true, true) => clear(folder)?,
            (true, false) => {
                let hint = "it holds the results of an earlier run; choose another one, replace them with --replace, or continue an interrupted run with --resume";
                return Err(FolderError::NotEmpty {
                    path: folder.to_owned(),
                    hint,
                });
            }
            (false, _) => {
                let hint = "choose a new or an empty folder with --out";
                return Err(FolderError::NotEmpty {
                    path: folder.to_owned(),
                    hint,
                });
            }
        }
    }
    probe(folder)?;
    Ok(lock)
}

fn clear(folder: &Path) -> Result<(), WriteError> {
    for name in OURS {
        let path = folder.join(name);
        let result = if path.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        match result {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(WriteError { path, error }),
            _ => {}
        }
    }
    Ok(())
}

/// Writes and removes a small file: on a full disk, files can be created but not written.
fn probe(folder: &Path) -> Result<(), WriteError> {
    let path = folder.join(".whimbrel-probe");
    let result = fs::File::create(&path).and_then(|mut file| {
        file.write_all(&[0; 1 << 16])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    result.and(removed).map_err(|error| WriteError {
        path: folder.to_owned(),
        error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_never_touched() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("thesis.tex"), "work of years").expect("writable");
        fs::write(folder.path().join(MANIFEST), "{}").expect("writable");
        for replace in [false, true] {
            let error = prepare(folder.path(), replace).expect_err("not empty").to_string();
            assert!(error.contains("is not empty"), "{error}");
        }
        assert!(folder.path().join("thesis.tex").exists());
    }

    #[test]
    fn an_earlier_run_is_replaced_only_on_request() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let inner = folder.path().join("new/deep");
        drop(prepare(&inner, false).expect("writable"));
        assert_eq!(fs::read_dir(&inner).expect("created").count(), 0, "the probe is gone");
        fs::write(inner.join(MANIFEST), "{}").expect("writable");
        fs::create_dir(inner.join("runs")).expect("writable");
        assert!(
            prepare(&inner, false)
                .expect_err("not empty")
                .to_string()
                .contains("--replace")
        );
        drop(prepare(&inner, true).expect("replaced"));
        assert_eq!(fs::read_dir(&inner).expect("there").count(), 0);
    }

    #[test]
    fn reports_a_file_instead_of_a_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        fs::write(&path, "").expect("writable");
        let error = prepare(&path, false).expect_err("a file").to_string();
        assert!(error.contains("not a folder"), "{error}");
    }
}
