//! What every chore needs: the workspace's folder, its result, and its output.

use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The result of a chore; the error is a message for the user.
pub(crate) type Outcome<T = ()> = Result<T, String>;

/// Prints a line to standard output. A closed output is ignored.
pub(crate) fn say(line: &str) {
    // A test's own output is not that of tests that it runs.
    #[cfg(test)]
    println!("{line}");
    #[cfg(not(test))]
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line to standard error. A closed output is ignored.
pub(crate) fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns the folder of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace's folder")
        .to_path_buf()
}
