//! Scripts for Node that drive a browser through playwright-core.

use std::path::Path;

use crate::node;

/// Fetches playwright-core if it is not there. `web` is the folder with the package.json and the lock file of the scripts.
///
/// # Errors
/// Returns the reason if this machine has no npm, or if npm cannot fetch it.
pub fn playwright(web: &Path) -> Result<(), String> {
    node::modules(web, "playwright-core")
}
