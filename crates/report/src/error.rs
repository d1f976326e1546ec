//! Why there is no report.

use std::path::{Path, PathBuf};

/// Why a folder cannot be reported on.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It holds no results.
    #[error("{} holds no results\n  hint: name a folder that `run --out`, `study run --out`, `demo` or `--record` has written", .0.display())]
    NoResults(PathBuf),
    /// A file of it cannot be read, or is not what its name says.
    #[error("{}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why, in a few words.
        reason: String,
    },
    /// A figure was asked for that it does not have.
    #[error("{0}")]
    NoFigure(String),
}

impl ReportError {
    pub(crate) fn at(path: &Path) -> impl Fn(&dyn std::fmt::Display) -> ReportError + '_ {
        move |reason| ReportError::Unreadable {
            path: path.to_owned(),
            reason: reason.to_string(),
        }
    }
}
