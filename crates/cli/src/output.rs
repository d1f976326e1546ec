//! Output of commands, and exit codes.

use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use whimbrel_scenario::{Scenario, ScenarioError, visible_json, visible_lines};

/// Printed in the help of the command.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    a run failed, or its results could not be written
  2    error in the arguments, the scenario or the output folder; nothing was run
  130  interrupted (Ctrl-C); complete runs are kept
send, recv, perf, ping, echo, tunnel and emulate have other exit codes; see their help.";

/// A run failed, or its results could not be written.
pub(crate) const FAILED: u8 = 1;
/// Arguments, scenario or output folder are wrong; nothing was run.
pub(crate) const WRONG_USE: u8 = 2;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;

/// A command that ended early. Its message has been printed, if standard error is open.
#[derive(Debug)]
pub(crate) struct Ended(pub(crate) u8);

/// The result of a command: success, or an early end with a code.
pub(crate) type Outcome<T = ()> = Result<T, Ended>;

/// Returns the exit code of a command.
pub(crate) fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Ended(code)) => ExitCode::from(code),
    }
}

/// Prints an error and ends with `code`.
pub(crate) fn fail(code: u8, message: impl fmt::Display) -> Ended {
    note(format_args!("error: {message}"));
    Ended(code)
}

/// Prints a line, or several, to standard error. A closed output is ignored.
pub(crate) fn note(line: impl fmt::Display) {
    let _ = writeln!(io::stderr(), "{}", visible_lines(&line.to_string()));
}

/// Prints text to standard output, as [`visible_lines`]. A closed reader (`| head`) ends the command quietly.
pub(crate) fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(visible_lines(text).as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Ended(0)),
        Err(error) => Err(fail(FAILED, format_args!("cannot write to standard output: {error}"))),
    }
}

/// Prints a JSON value over several lines to standard output, as [`print()`] does.
pub(crate) fn print_json(value: &Value) -> Outcome {
    print_json_text(&format!("{value:#}"))
}

/// Prints JSON to standard output, as [`print()`] does.
pub(crate) fn print_json_text(json: &str) -> Outcome {
    print(&format!("{}\n", visible_json(json)))
}

/// Returns the JSON object of a command that writes files.
pub(crate) fn files_json(files: &[PathBuf]) -> Value {
    let names: Vec<_> = files.iter().map(|file| file.display().to_string()).collect();
    json!({ "files": names })
}

/// Prints all problems of a scenario.
pub(crate) fn scenario_error(error: &ScenarioError) -> Ended {
    if let ScenarioError::Invalid(problems) = error {
        for problem in problems {
            note(format_args!("error: {problem}"));
        }
        if problems.len() > 1 {
            note(format_args!("error: {} problems; nothing was run", problems.len()));
        }
        Ended(WRONG_USE)
    } else {
        fail(WRONG_USE, error)
    }
}

/// Returns a number with its noun, in the plural if needed.
pub(crate) fn count<N: std::fmt::Display + PartialEq + From<u8>>(n: N, what: &str) -> String {
    let end = match (n == N::from(1), what.ends_with('s')) {
        (true, _) => "",
        (false, true) => "es",
        (false, false) => "s",
    };
    format!("{n} {what}{end}")
}

/// Returns the number of runs in words.
pub(crate) fn size(scenario: &Scenario) -> String {
    let points = scenario.points.len();
    let runs = count(scenario.runs(), "run");
    match (points, scenario.seeds) {
        (1, 1) => runs,
        (1, seeds) => format!("{runs} ({})", count(seeds as usize, "seed")),
        (points, 1) => format!("{runs} ({})", count(points, "point")),
        (points, seeds) => format!(
            "{runs} ({} x {})",
            count(points, "point"),
            count(seeds as usize, "seed")
        ),
    }
}
