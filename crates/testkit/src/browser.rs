//! Scripts for Node that drive a browser through playwright-core.

use std::path::Path;
use std::process::Command;

use crate::process::InTime as _;
use crate::program;

/// Fetches playwright-core if it is not there. `web` is the folder with the package.json and the lock file of the scripts.
///
/// # Errors
/// Returns the reason if this machine has no npm, or if npm cannot fetch it.
pub fn playwright(web: &Path) -> Result<(), String> {
    if web.join("node_modules/playwright-core").is_dir() {
        return Ok(());
    }
    let install = Command::new(program("npm", "npm")?)
        .args(["ci", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"])
        .current_dir(web)
        .output_in_time();
    if install.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&install.stderr);
    Err(format!("npm cannot fetch playwright-core: {}", errors.trim()))
}
