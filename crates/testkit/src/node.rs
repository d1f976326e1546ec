//! Programs for Node that use packages of npm.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::process::InTime as _;
use crate::program;

/// Fetches the packages of a program if they are not there. `folder` has its package.json and its lock file, `package` is one of them.
///
/// # Errors
/// Returns the reason if this machine has no npm, or if npm cannot fetch them.
pub fn modules(folder: &Path, package: &str) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    if folder.join("node_modules").join(package).is_dir() {
        return Ok(());
    }
    let install = Command::new(program("npm", "npm")?)
        .args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(folder)
        .output_in_time();
    if install.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&install.stderr);
    Err(format!("npm cannot fetch {package}: {}", errors.trim()))
}
