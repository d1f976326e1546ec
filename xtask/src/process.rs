//! Running other programs.

use std::process::{Command, Stdio};

use crate::{Outcome, note, root};

/// Returns a cargo command in the workspace's folder.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root());
    command
}

/// Runs a program and shows its output; an error contains the program and its exit status.
pub(crate) fn run(command: &mut Command) -> Outcome {
    note(&format!("$ {}", line(command)));
    let status = command
        .status()
        .map_err(|e| format!("cannot start `{}`: {e}", line(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{}` failed: {status}", line(command)))
    }
}

/// Returns a program's standard output.
pub(crate) fn output(command: &mut Command) -> Outcome<String> {
    let out = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cannot start `{}`: {e}", line(command)))?;
    if !out.status.success() {
        return Err(format!("`{}` failed: {}", line(command), out.status));
    }
    String::from_utf8(out.stdout).map_err(|_| format!("`{}` wrote something that is not UTF-8", line(command)))
}

/// Returns the command as typed in a shell.
pub(crate) fn line(command: &Command) -> String {
    let mut text = command
        .get_program()
        .to_string_lossy()
        .rsplit('/')
        .next()
        .unwrap_or("?")
        .to_owned();
    for argument in command.get_args() {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    text
}
