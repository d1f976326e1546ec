//! Running other programs.

use std::process::{Child, Command, Stdio};

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

/// Returns the name of Chromium, if it is installed.
pub(crate) fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let works = |name: &&str| {
        let version = Command::new(name).arg("--version").output();
        version.is_ok_and(|out| out.status.success())
    };
    names.into_iter().find(works)
}

/// Ends a program and those that it has started, as far as they can be found (proc(5)).
pub(crate) fn end(program: &mut Child) {
    let parent = program.id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // After the name in parentheses, which may have spaces: state and parent.
        let is_child = stat
            .rsplit_once(')')
            .is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(parent.as_str()));
        if is_child {
            let kill = format!("kill -9 {}", process.file_name().display());
            let _ = Command::new("sh").args(["-c", &kill]).status();
        }
    }
    let _ = program.kill();
    let _ = program.wait();
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
