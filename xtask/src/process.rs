//! Running other programs.

use std::fmt::Write;
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
    // First the list: the children of a program that has ended have another parent.
    let mut list = vec![program.id()];
    let parents = parents();
    let mut next = 0;
    while let Some(&parent) = list.get(next) {
        list.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(process, _)| *process),
        );
        next += 1;
    }
    let _ = program.kill();
    let _ = program.wait();
    for process in &list[1..] {
        let kill = format!("kill -9 {process} 2>/dev/null");
        let _ = Command::new("sh").args(["-c", &kill]).status();
    }
}

/// Returns all processes with their parents.
fn parents() -> Vec<(u32, u32)> {
    let parent = |process: std::fs::DirEntry| {
        let number = process.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
        // After the name in parentheses, which may have spaces: state and parent.
        let (_, rest) = stat.rsplit_once(')')?;
        Some((number, rest.split_whitespace().nth(1)?.parse().ok()?))
    };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(parent).collect()
}

/// How many arguments [`line`] shows.
const SHOWN: usize = 16;

/// Returns the command as typed in a shell, without the last ones of very many arguments.
pub(crate) fn line(command: &Command) -> String {
    let mut text = command
        .get_program()
        .to_string_lossy()
        .rsplit('/')
        .next()
        .unwrap_or("?")
        .to_owned();
    let arguments = command.get_args();
    let hidden = arguments.len().saturating_sub(SHOWN);
    for argument in arguments.take(SHOWN) {
        text.push(' ');
        text.push_str(&argument.to_string_lossy());
    }
    if hidden > 0 {
        let _ = write!(text, " ... ({hidden} more arguments)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn very_many_arguments_are_not_shown() {
        let mut format = Command::new("/usr/bin/rustfmt");
        format.arg("--check");
        assert_eq!(line(&format), "rustfmt --check");
        format.args((0..100).map(|file| format!("{file}.rs")));
        let shown = line(&format);
        assert!(
            shown.starts_with("rustfmt --check 0.rs") && shown.ends_with(" 14.rs ... (85 more arguments)"),
            "{shown}"
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_ends_with_the_programs_it_has_started() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sh -c 'sleep 1000; true'; true"]);
        let mut shell = shell.spawn().expect("a shell");
        let of = |parent: u32| {
            let found = parents().into_iter().find(|(_, of)| *of == parent);
            found.map(|(process, _)| process)
        };
        let sleep = loop {
            if let Some(sleep) = of(shell.id()).and_then(of) {
                break sleep;
            }
            std::thread::yield_now();
        };
        end(&mut shell);
        // A process that has ended stays until its parent has noticed it.
        let state = || std::fs::read_to_string(format!("/proc/{sleep}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z")) {
            std::thread::yield_now();
        }
    }
}
