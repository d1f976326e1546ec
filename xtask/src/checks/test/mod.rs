//! `cargo xtask test`: runs all tests and prints a summary line.

mod examples;
mod machine;
mod python;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Instant;

use crate::chore::{Outcome, note, say};
use crate::{packages, process};

/// What the test harness prints of a test after a minute.
const SLOW: &str = " has been running for over 60 seconds";
/// The suites of all crates; tests in real time, with sockets or beside other programs have test programs of their own.
const QUICK: [&str; 6] = ["--lib", "--bins", "--test", "suite", "--test", "memory"];
const NO_ARGUMENTS: [&str; 0] = [];
/// How the test harness begins the last line of a program.
const RESULT: &str = "test result: ";
/// The environment variable with the path of the file that lists tests that were not run (see `crates/testkit`).
pub(crate) const LIST: &str = "WHIMBREL_NOT_RUN";
/// Prefixes of lines in that file.
pub(crate) const WHOLE: &str = "NOT RUN: ";
pub(crate) const PART: &str = "NOT RUN IN PART: ";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only tests whose name contains this; `quick` runs those without real time, sockets and other programs, `python` those of the
    /// Python package, `str0m` those of its example
    filter: Option<String>,
    /// Fail if a test was not run because this machine lacks what it needs
    #[arg(long)]
    strict: bool,
}

/// Totals over all test programs.
#[derive(Default)]
struct Totals {
    programs: u32,
    /// Counts of the test harness, which include tests that were not run.
    passed: u32,
    failed: u32,
    ignored: u32,
    failures: Vec<String>,
    /// Tests that have run for over a minute and have not ended.
    slow: Vec<String>,
    /// Tests that were not run, by reason; and tests with some checks not run.
    not_run: BTreeMap<String, Vec<String>>,
    not_run_in_part: BTreeMap<String, Vec<String>>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let start = Instant::now();
    machine::check()?;
    let filter = args.filter.as_deref();
    let is_quick = filter == Some("quick");
    let mut totals = Totals::default();
    if filter == Some("python") {
        totals.python(python::test(false));
        return totals.conclude(start, args.strict);
    }
    if !is_quick && let Err(message) = packages::ensure(packages::FOR_TESTS) {
        note(&format!(
            "warning: {message}\nwarning: the tests that need it are not run"
        ));
    }
    let list = tempfile::NamedTempFile::new().map_err(|e| format!("no file for the list of tests not run: {e}"))?;
    // Commands under test make an identity at first use: not among the files of the user.
    let settings = tempfile::tempdir().map_err(|e| format!("no folder for identities: {e}"))?;
    let tests = Tests {
        list: list.path(),
        settings: settings.path(),
    };
    match filter {
        None => {
            totals.follow(&mut tests.cargo(&NO_ARGUMENTS));
            // Without a test program, the build has failed, and the command that the others run is not that of this code.
            if totals.programs > 0 {
                totals.example(&tests);
                totals.python(python::test(true));
            }
        }
        Some("str0m") => totals.example(&tests),
        Some("quick") => totals.follow(&mut tests.cargo(&QUICK)),
        Some(filter) => totals.follow(&mut tests.cargo(&[filter])),
    }
    let noted = std::fs::read_to_string(list.path()).map_err(|e| format!("lost the list of tests not run: {e}"))?;
    noted.lines().for_each(|line| totals.note(line));
    totals.conclude(start, args.strict)
}

/// What the commands that run tests have in common.
struct Tests<'a> {
    /// The file in which tests note that they are not run.
    list: &'a Path,
    /// The folder of the settings of commands under test.
    settings: &'a Path,
}

impl Tests<'_> {
    /// Returns the command that runs the tests of the workspace that `selection` names.
    fn cargo(&self, selection: &[impl AsRef<std::ffi::OsStr>]) -> Command {
        let mut command = process::cargo(&["test", "--workspace", "--no-fail-fast"]);
        command.args(selection);
        self.prepare(command)
    }

    fn prepare(&self, mut command: Command) -> Command {
        command.env(LIST, self.list).env("XDG_CONFIG_HOME", self.settings);
        command
    }
}

impl Totals {
    /// Runs tests by cargo, prints what they print, and adds their results.
    fn follow(&mut self, command: &mut Command) {
        note(&format!("$ {}", process::line(command)));
        if let Err(message) = self.try_to_follow(command) {
            self.fail(message);
        }
    }

    fn try_to_follow(&mut self, command: &mut Command) -> Outcome {
        // One pipe, or the names of the programs, which cargo prints to standard error, would not come before their results.
        let (output, written) = std::io::pipe().map_err(|e| format!("no pipe: {e}"))?;
        let cannot_start = |e| format!("cannot start {}: {e}", process::line(command));
        command
            .stderr(written.try_clone().map_err(cannot_start)?)
            .stdout(written);
        let mut child = command
            .spawn()
            .map_err(|e| format!("cannot start {}: {e}", process::line(command)))?;
        // The end of the output is seen once nobody has the other end of the pipe.
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let lines = process::lines_of(output);
        let failed_before = self.failed;
        let mut has_begun = false;
        // A program that has begun and printed no result.
        let mut running: Option<String> = None;
        let line = loop {
            // Before the first program, cargo builds, or waits for another cargo.
            let line = if has_begun {
                lines.recv_timeout(process::SILENCE)
            } else {
                lines.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let Ok(read) = line else { break line };
            say(&read);
            self.read(&read);
            if begins_a_program(&read) {
                has_begun = true;
                self.fail_without_result(running.replace(read.trim().to_owned()));
            } else if read.starts_with(RESULT) {
                running = None;
            }
        };
        let is_running = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_none());
        if line == Err(RecvTimeoutError::Timeout) && is_running(&mut child) {
            process::end(&mut child);
            return Err(format!(
                "the tests printed nothing for {} minutes and were ended; still running: {}",
                process::SILENCE.as_secs() / 60,
                self.running()
            ));
        }
        let status = child.wait().map_err(|e| format!("lost the tests: {e}"))?;
        self.fail_without_result(running);
        if !status.success() && self.failed == failed_before {
            return Err(format!("{} failed: {status}", process::line(command)));
        }
        Ok(())
    }

    /// A program has begun, and ended without a result.
    fn fail_without_result(&mut self, program: Option<String>) {
        if let Some(program) = program {
            self.fail(format!("{program} ended without a result"));
        }
    }

    /// Runs the tests of the example with a workspace of its own.
    fn example(&mut self, tests: &Tests<'_>) {
        match examples::ready() {
            Ok(command) => self.follow(&mut tests.prepare(command)),
            Err(reason) => self.not_run_at_all("str0m::all tests of the example", &reason),
        }
    }

    /// Counts what is not the failure of a single test.
    fn fail(&mut self, message: String) {
        self.failed += 1;
        self.failures.push(message);
    }

    /// Notes that tests outside the workspace were not run. They count as one.
    fn not_run_at_all(&mut self, tests: &str, reason: &str) {
        let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
        note(&format!("NOT RUN: {tests}: {reason}"));
        self.passed += 1;
        self.note(&format!("{WHOLE}{tests}: {reason}"));
    }

    /// Returns the tests that have not ended for long, as far as the test harness names them.
    fn running(&self) -> String {
        match self.slow.as_slice() {
            [] => "a test that the test harness did not name".to_owned(),
            slow => slow.join(", "),
        }
    }

    /// Adds the tests of the Python package.
    fn python(&mut self, result: Result<python::Tested, python::NotTested>) {
        match result {
            Ok(tested) => {
                self.programs += 1;
                self.passed += tested.passed + tested.skipped.len() as u32;
                self.failed += tested.failed;
                self.failures
                    .extend(tested.failures.into_iter().map(|name| format!("crates/python/{name}")));
                for (place, reason) in tested.skipped {
                    self.note(&format!("{WHOLE}python::{place}: {reason}"));
                }
            }
            Err(python::NotTested::NotRun(reason)) => {
                self.not_run_at_all("python::all tests of the Python package", &reason);
            }
            Err(python::NotTested::Failed(reason)) => self.fail(format!("crates/python: {reason}")),
        }
    }

    /// Prints the summary, and returns an error unless every test passed.
    fn conclude(&self, start: Instant, is_strict: bool) -> Outcome {
        say("");
        say(&self.report());
        say(&format!(
            "{} in {} test programs, {:.0} s",
            self.summary(),
            self.programs,
            start.elapsed().as_secs_f64()
        ));
        if self.failed > 0 {
            return Err("not every test passed".to_owned());
        }
        if self.passed == 0 {
            return Err("no test was run".to_owned());
        }
        if is_strict && !(self.not_run.is_empty() && self.not_run_in_part.is_empty()) {
            return Err("not every test was run".to_owned());
        }
        Ok(())
    }

    /// Reads a line of the list of tests that were not run: `NOT RUN: PROGRAM::TEST: REASON`.
    fn note(&mut self, line: &str) {
        let (list, rest) = match (line.strip_prefix(WHOLE), line.strip_prefix(PART)) {
            (Some(rest), _) => (&mut self.not_run, rest),
            (_, Some(rest)) => (&mut self.not_run_in_part, rest),
            _ => return,
        };
        let (test, reason) = rest.split_once(": ").unwrap_or((rest, "no reason given"));
        let tests = list.entry(reason.to_owned()).or_default();
        if !tests.iter().any(|noted| noted == test) {
            tests.push(test.to_owned());
        }
    }

    /// Returns the failed tests and those that were not run, one per line.
    fn report(&self) -> String {
        let mut lines: Vec<String> = self.failures.iter().map(|name| format!("FAILED {name}")).collect();
        for (heading, list) in [("NOT RUN", &self.not_run), ("NOT RUN IN PART", &self.not_run_in_part)] {
            for (reason, tests) in list {
                lines.push(format!("{heading}: {reason}:"));
                lines.extend(tests.iter().map(|test| format!("    {test}")));
            }
        }
        lines.join("\n")
    }

    /// Returns the summary `total: N passed, M failed, K ignored, R not run`.
    fn summary(&self) -> String {
        let count = |list: &BTreeMap<String, Vec<String>>| list.values().map(Vec::len).sum::<usize>();
        let (not_run, in_part) = (count(&self.not_run), count(&self.not_run_in_part));
        let passed = (self.passed as usize).saturating_sub(not_run);
        let in_part = match in_part {
            0 => String::new(),
            n => format!(" ({n} in part)"),
        };
        format!(
            "total: {passed} passed{in_part}, {} failed, {} ignored, {not_run} not run",
            self.failed, self.ignored
        )
    }

    /// Reads a line of the test harness: `test NAME ... FAILED`, `test NAME has been running for over 60 seconds` or `test result: ok. 3
    /// passed; 0 failed; 0 ignored; ...`.
    fn read(&mut self, line: &str) {
        if let Some(test) = line.strip_prefix("test ") {
            if let Some(name) = test.strip_suffix(SLOW) {
                self.slow.push(name.to_owned());
            } else if let Some((name, _)) = test.split_once(" ... ") {
                let name = name.strip_suffix(" - should panic").unwrap_or(name);
                self.slow.retain(|slow| slow != name);
            }
        }
        if let Some(result) = line.strip_prefix(RESULT) {
            self.programs += 1;
            for part in result.split([';', '.']) {
                let mut words = part.split_whitespace();
                let (Some(count), Some(what)) = (words.next().and_then(|w| w.parse::<u32>().ok()), words.next()) else {
                    continue;
                };
                match what {
                    "passed" => self.passed += count,
                    "failed" => self.failed += count,
                    "ignored" => self.ignored += count,
                    _ => {}
                }
            }
        } else if let Some(name) = line
            .strip_prefix("test ")
            .and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.failures.push(name.to_owned());
        }
    }
}

/// Returns whether cargo prints this line before it runs a test program.
fn begins_a_program(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("Running ") || line.starts_with("Doc-tests ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_sums_over_programs() {
        let mut totals = Totals::default();
        totals.read("test a::b ... ok");
        totals.read("test a::c ... FAILED");
        totals
            .read("test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s");
        totals.read("test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        assert_eq!(
            (totals.programs, totals.passed, totals.failed, totals.ignored),
            (2, 6, 1, 2)
        );
        assert_eq!(totals.failures, ["a::c"]);
    }

    #[test]
    fn a_failure_of_the_build_is_one_of_the_tests() {
        let mut totals = Totals::default();
        totals.follow(Command::new("sh").args(["-c", "echo 'error: no such crate' >&2; exit 101"]));
        assert_eq!(totals.failed, 1);
        assert!(totals.conclude(Instant::now(), false).is_err());
        let mut totals = Totals::default();
        totals.follow(Command::new("sh").args([
            "-c",
            "echo '     Running tests/a.rs' >&2; echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured'",
        ]));
        assert_eq!(totals.summary(), "total: 1 passed, 0 failed, 0 ignored, 0 not run");
        assert!(totals.conclude(Instant::now(), false).is_ok());
        // Another program, beside failures of the first one.
        totals.follow(Command::new("sh").args([
            "-c",
            "echo '     Running tests/b.rs' >&2; echo 'test a ... FAILED'; echo 'test result: FAILED. 0 passed; 1 failed'; \
             echo '     Running tests/c.rs' >&2; exit 101",
        ]));
        assert_eq!(totals.failures, ["a", "Running tests/c.rs ended without a result"]);
    }

    #[test]
    fn tests_that_do_not_end_are_named() {
        let mut totals = Totals::default();
        totals.read("test a::b has been running for over 60 seconds");
        totals.read("test a::c has been running for over 60 seconds");
        assert_eq!(totals.running(), "a::b, a::c");
        totals.read("test a::b ... ok");
        totals.read("test a::d ... ok");
        assert_eq!(totals.running(), "a::c");
        // Those of documentation have spaces in their names.
        totals.read("test src/a.rs - f (line 3) has been running for over 60 seconds");
        totals.read("test a::c - should panic ... ok");
        assert_eq!(totals.running(), "src/a.rs - f (line 3)");
        totals.read("test src/a.rs - f (line 3) ... ok");
        assert_eq!(totals.running(), "a test that the test harness did not name");
    }

    #[test]
    fn python_package_that_cannot_be_built_is_a_failure_beside_the_other_results() {
        let mut totals = Totals::default();
        totals.read("test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        totals.python(Err(python::NotTested::Failed("maturin wrote no wheel".to_owned())));
        assert_eq!(totals.summary(), "total: 5 passed, 1 failed, 0 ignored, 0 not run");
        assert_eq!(totals.report(), "FAILED crates/python: maturin wrote no wheel");
        assert!(totals.conclude(Instant::now(), false).is_err());
        let mut totals = Totals::default();
        totals.python(Err(python::NotTested::NotRun("no network".to_owned())));
        assert_eq!(totals.summary(), "total: 0 passed, 0 failed, 0 ignored, 1 not run");
    }

    #[test]
    fn tests_not_run_are_not_counted_as_passed() {
        let mut totals = Totals::default();
        totals.read("test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.20s");
        assert_eq!(totals.summary(), "total: 5 passed, 0 failed, 2 ignored, 0 not run");
        totals.note("NOT RUN: linux::kernel::a: no ptrace: errno 1");
        totals.note("NOT RUN: linux::kernel::b: no ptrace: errno 1");
        totals.note("NOT RUN: linux::kernel::b: no ptrace: errno 1");
        totals.note("NOT RUN IN PART: usrsctp::c: no capture");
        assert_eq!(
            totals.summary(),
            "total: 3 passed (1 in part), 0 failed, 2 ignored, 2 not run"
        );
        assert_eq!(
            totals.report(),
            "NOT RUN: no ptrace: errno 1:\n    linux::kernel::a\n    linux::kernel::b\nNOT RUN IN PART: no capture:\n    usrsctp::c"
        );
    }
}
