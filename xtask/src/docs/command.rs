//! The `whimbrel` command, whose output the documentation contains.

use std::process::Command;

use crate::chore::{Outcome, root};
use crate::process;

/// Returns the output of the `whimbrel` command: of the program in the variable `WHIMBREL_COMMAND`, if it is set, or else of the one that
/// cargo builds. A build of the command alone repeats dependencies that the workspace has built with other features.
pub(super) fn whimbrel(args: &[&str]) -> Outcome<String> {
    let mut command = match std::env::var_os("WHIMBREL_COMMAND") {
        Some(program) => Command::new(program),
        None => process::cargo(&["run", "--quiet", "--package", "whimbrel-cli", "--"]),
    };
    process::output(command.args(args).current_dir(root()))
}
