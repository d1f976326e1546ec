//! The tests of `examples/str0m`, a workspace of its own: there, another crate takes the place of sctp-proto.

use std::process::Command;

use crate::chore::root;
use crate::process;

/// Returns the command that runs the tests.
///
/// # Errors
/// Returns an error if the crates that they need cannot be had.
pub(super) fn ready() -> Result<Command, String> {
    let manifest = root().join("examples/str0m/Cargo.toml");
    let manifest = manifest.to_string_lossy();
    let fetched = process::cargo(&["fetch", "--locked", "--quiet", "--manifest-path", &manifest]).output();
    let fetched = fetched.map_err(|error| format!("cannot start cargo: {error}"))?;
    if !fetched.status.success() {
        return Err(format!("cargo fetch: {}", String::from_utf8_lossy(&fetched.stderr)));
    }
    let mut command = process::cargo(&["test", "--no-fail-fast", "--manifest-path", &manifest]);
    command.env("CARGO_TARGET_DIR", root().join("target"));
    Ok(command)
}
