//! The Python package: a virtual environment under `target/`, a wheel of the working tree installed in it, and its tests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;

use crate::chore::{Outcome, note, root, say};
use crate::files::{entries, has_extension};
use crate::process;

/// The results of the package's tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tested {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) failures: Vec<String>,
    /// Tests that were not run, and why.
    pub(crate) skipped: Vec<(String, String)>,
}

/// Why the tests were not run, or why they failed before they started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotTested {
    /// The machine lacks something, or cannot reach the package registry.
    NotRun(String),
    /// The package cannot be built or installed.
    Failed(String),
}

/// Returns the virtual environment with a wheel of the working tree and what its tests need.
pub(crate) fn environment() -> Result<PathBuf, NotTested> {
    let folder = root().join("target/python");
    let python = folder.join("bin/python");
    if !python.exists() {
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
        match made {
            Ok(made) if made.status.success() => {}
            Ok(made) => {
                let _ = std::fs::remove_dir_all(&folder);
                let reason = last_line(&made.stdout, &made.stderr);
                return Err(NotTested::NotRun(format!(
                    "python3 -m venv failed (Debian package python3-venv): {reason}"
                )));
            }
            Err(error) => {
                return Err(NotTested::NotRun(format!(
                    "python3 is missing (Debian package python3): {error}"
                )));
            }
        }
    }
    let new_enough = "import sys; sys.exit(sys.version_info < (3, 10))";
    let version = Command::new(&python).args(["-c", new_enough]).status();
    if !version.is_ok_and(|status| status.success()) {
        return Err(NotTested::NotRun("Python 3.10 or later is needed".to_owned()));
    }
    if !folder.join("bin/maturin").exists() {
        pip(&python, &["maturin>=1.9.4,<2"])?;
    }
    let wheel = wheel(&folder.join("bin/maturin")).map_err(NotTested::Failed)?;
    // First what the package needs, then the package: pip keeps an installed one of the same version.
    pip(&python, &[&format!("{}[test]", wheel.display())])?;
    pip(
        &python,
        &["--force-reinstall", "--no-deps", &wheel.display().to_string()],
    )?;
    Ok(python)
}

fn pip(python: &Path, arguments: &[&str]) -> Result<(), NotTested> {
    let mut command = Command::new(python);
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    command.args(arguments);
    note(&format!("$ {}", process::line(&command)));
    let done = command
        .output()
        .map_err(|error| NotTested::Failed(format!("cannot start pip: {error}")))?;
    if done.status.success() {
        return Ok(());
    }
    Err(pip_failure(&done.stdout, &done.stderr))
}

/// Returns why pip failed, by what it printed: only without a connection to the registry are tests not run.
fn pip_failure(stdout: &[u8], stderr: &[u8]) -> NotTested {
    // Names of exceptions of urllib3, which pip prints for each attempt.
    const NO_CONNECTION: [&str; 6] = [
        "NewConnectionError",
        "NameResolutionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "ProxyError",
        "ProtocolError",
    ];
    let printed = String::from_utf8_lossy(stderr);
    let connection = printed
        .lines()
        .find(|line| NO_CONNECTION.iter().any(|name| line.contains(name)));
    let reason = last_line(stdout, stderr);
    // After a broken connection, pip finds no version at all; other errors are those of the packages.
    match connection {
        Some(line)
            if printed.contains("(from versions: none)")
                || printed.contains("Could not install packages due to an OSError") =>
        {
            NotTested::NotRun(format!("pip cannot reach the package registry: {}", line.trim()))
        }
        _ => NotTested::Failed(format!("pip cannot install the packages: {reason}")),
    }
}

/// Builds the wheel of the working tree with the artefacts of the other tests.
fn wheel(maturin: &Path) -> Outcome<PathBuf> {
    let out = root().join("target/wheels/dev");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new(maturin);
    command
        .args(["build", "--quiet", "--profile", "dev", "--out"])
        .arg(&out)
        .current_dir(root().join("crates/python"));
    process::run(&mut command)?;
    let mut files = entries(&out)?.into_iter();
    files
        .find(|path| has_extension(path, "whl"))
        .ok_or_else(|| "maturin wrote no wheel".to_owned())
}

/// Runs the tests of the package with the command of the same build. `is_built`: `cargo test` for the workspace has built it.
pub(crate) fn test(is_built: bool) -> Result<Tested, NotTested> {
    let python = environment()?;
    if !is_built {
        process::run(&mut process::cargo(&["build", "--quiet", "-p", "whimbrel-cli"])).map_err(NotTested::Failed)?;
    }
    let mut command = Command::new(&python);
    command
        .args(["-m", "pytest", "-rfEs", "--durations=5", "-p", "no:cacheprovider"])
        .current_dir(root().join("crates/python"))
        .env("WHIMBREL_COMMAND", root().join("target/debug/whimbrel"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdout(Stdio::piped());
    note(&format!("$ {}", process::line(&command)));
    let mut child = command
        .spawn()
        .map_err(|error| NotTested::Failed(format!("cannot start pytest: {error}")))?;
    let mut tested = Tested::default();
    let lines = process::lines_of(child.stdout.take().expect("standard output was asked for"));
    loop {
        match lines.recv_timeout(process::SILENCE) {
            Ok(line) => {
                say(&line);
                tested.read(&line);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                process::end(&mut child);
                let minutes = process::SILENCE.as_secs() / 60;
                return Err(NotTested::Failed(format!(
                    "pytest printed nothing for {minutes} minutes and was ended"
                )));
            }
        }
    }
    let status = child
        .wait()
        .map_err(|error| NotTested::Failed(format!("lost pytest: {error}")))?;
    if !status.success() && tested.failed == 0 {
        return Err(NotTested::Failed(format!("pytest failed: {status}")));
    }
    Ok(tested)
}

impl Tested {
    /// Reads a line of pytest: `FAILED PLACE - REASON`, `SKIPPED [N] PLACE: REASON` or the last one, `N passed, M failed in 1.00s`.
    fn read(&mut self, line: &str) {
        for word in ["FAILED ", "ERROR "] {
            if let Some(rest) = line.strip_prefix(word)
                && rest.contains("::")
            {
                let name = rest.split(" - ").next().unwrap_or(rest);
                self.failures.push(name.to_owned());
            }
        }
        if let Some((place, reason)) = line
            .strip_prefix("SKIPPED [")
            .and_then(|rest| rest.split_once("] "))
            .and_then(|(_, rest)| rest.split_once(": "))
        {
            self.skipped.push((place.to_owned(), reason.to_owned()));
        }
        let is_last = line.contains(" in ") && line.ends_with(['s', '=', ')']);
        if !is_last || !line.starts_with(|c: char| c.is_ascii_digit() || c == '=') {
            return;
        }
        let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u32>() else { continue };
            match pair[1] {
                "passed" => self.passed += count,
                "failed" | "error" | "errors" => self.failed += count,
                _ => {}
            }
        }
    }
}

/// Returns the last line that a program printed to standard error, or to standard output.
fn last_line(stdout: &[u8], stderr: &[u8]) -> String {
    let text = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines()
            .rev()
            .find(|line| !line.trim().is_empty())
            .map(str::to_owned)
    };
    text(stderr)
        .or_else(|| text(stdout))
        .unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_without_a_connection_to_the_registry_are_tests_not_run() {
        let lost = "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection broken by \
                    'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at 0x7f>: Failed to establish a new \
                    connection: [Errno 111] Connection refused')': /simple/maturin/";
        let none = "ERROR: Could not find a version that satisfies the requirement maturin (from versions: none)\n\
                    ERROR: No matching distribution found for maturin";
        let not_run = pip_failure(b"", format!("{lost}\n{none}").as_bytes());
        assert!(
            matches!(&not_run, NotTested::NotRun(reason) if reason.contains("Connection refused")),
            "{not_run:?}"
        );
        let conflict = "ERROR: Cannot install scipy==1.15 and scipy==1.10 because these package versions have conflicting dependencies.";
        for printed in [none.to_owned(), conflict.to_owned(), format!("{lost}\n{conflict}")] {
            let failed = pip_failure(b"", printed.as_bytes());
            assert!(matches!(failed, NotTested::Failed(_)), "{printed}");
        }
    }

    #[test]
    fn counts_are_read_from_the_last_line() {
        let mut tested = Tested::default();
        tested.read("..F.s                                  [100%]");
        tested.read("SKIPPED [1] tests/conftest.py:60: whimbrel is missing");
        tested.read("FAILED tests/test_run.py::test_a[x] - assert 1 == 2");
        tested.read("ERROR tests/test_run.py::test_b");
        tested.read("1 failed, 3 passed, 1 skipped, 1 error in 2.50s");
        assert_eq!((tested.passed, tested.failed), (3, 2));
        assert_eq!(
            tested.failures,
            ["tests/test_run.py::test_a[x]", "tests/test_run.py::test_b"]
        );
        assert_eq!(
            tested.skipped,
            [("tests/conftest.py:60".to_owned(), "whimbrel is missing".to_owned())]
        );
        tested.read("===== 2 passed in 63.10s (0:01:03) =====");
        assert_eq!(tested.passed, 5);
    }
}
