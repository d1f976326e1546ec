//! Running other programs.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use crate::chore::{Outcome, note, root};

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

/// The lines that a program prints, read by a thread so that a time limit can be set.
pub(crate) fn lines_of(output: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut bytes = Vec::new();
        while output.read_until(b'\n', &mut bytes).is_ok_and(|len| len > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned();
            if sender.send(line).is_err() {
                break;
            }
            bytes.clear();
        }
    });
    lines
}

/// Ends a program and those that it has started, as far as they can be found (proc(5)).
pub(crate) fn end(program: &mut Child) {
    let mut list: Vec<u32> = Vec::new();
    let mut found = vec![program.id()];
    while !found.is_empty() {
        // A stopped process starts no other, and its children keep their parent.
        signal("STOP", &found);
        list.extend(found);
        let all = parents().into_iter();
        let is_new = |(process, parent): &(u32, u32)| list.contains(parent) && !list.contains(process);
        found = all.filter(is_new).map(|(process, _)| process).collect();
    }
    signal("KILL", &list);
    let _ = program.wait();
}

/// Sends a signal to processes; those that have ended do not matter.
fn signal(name: &str, processes: &[u32]) {
    let processes: Vec<String> = processes.iter().map(u32::to_string).collect();
    let kill = format!("kill -{name} {} 2>/dev/null", processes.join(" "));
    let _ = Command::new("sh").args(["-c", &kill]).status();
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

/// Tests that print nothing for this long do not end; the slowest needs less than two minutes on two cores.
pub(crate) const SILENCE: Duration = Duration::from_secs(15 * 60);
/// How many arguments [`line()`] shows.
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
        let start = std::time::Instant::now();
        let wait = || {
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end");
            std::thread::yield_now();
        };
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
            wait();
        };
        end(&mut shell);
        // A process that has ended stays until its parent has noticed it.
        let state = || std::fs::read_to_string(format!("/proc/{sleep}/stat")).unwrap_or_default();
        while !(state().is_empty() || state().contains(") Z")) {
            wait();
        }
    }
}
