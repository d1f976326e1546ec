//! Runs the tests of the matrix, and prints it with their results.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Stdio;
use std::sync::mpsc::RecvTimeoutError;

use super::matrix::{Cell, Matrix, Named, Otherwise, Peer};
use crate::checks::test::{LIST, PART, WHOLE};
use crate::chore::{Outcome, note, say};
use crate::{packages, process};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this peer, as named in docs/peers.toml
    peer: Option<String>,
}

/// The result of a test or of a cell; the worst counts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Verdict {
    Passed,
    /// The machine lacks what a part of it needs.
    InPart(String),
    /// The machine lacks what it needs.
    NotRun(String),
    Failed,
}

/// Results by the name of the test.
type Results = BTreeMap<String, Verdict>;

pub(crate) fn run(args: &Args) -> Outcome {
    let mut matrix = Matrix::read()?;
    if let Some(name) = &args.peer {
        let names: Vec<String> = matrix.peer.iter().map(|peer| peer.id.clone()).collect();
        matrix.peer.retain(|peer| peer.id == *name);
        if matrix.peer.is_empty() {
            return Err(format!("no peer {name}; these are: {}", names.join(", ")));
        }
    }
    if let Err(message) = packages::ensure(packages::FOR_TESTS) {
        note(&format!(
            "warning: {message}\nwarning: the tests that need it are not run"
        ));
    }
    let mut programs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for test in matrix.peer.iter().flat_map(Peer::tests) {
        let (program, name) = test.split_once("::").expect("a test has the name of its program");
        programs.entry(program).or_default().insert(name);
    }
    let mut results = Results::new();
    for (program, tests) in programs {
        results.extend(run_program(matrix.package(program), program, &tests)?);
    }
    for transport in &matrix.transport {
        say(&table(&matrix, transport, &results));
    }
    say(&reasons(&results));
    if results.values().any(|verdict| *verdict == Verdict::Failed) {
        return Err("not every test passed".to_owned());
    }
    Ok(())
}

/// Runs these tests of a program. A test without a result has failed.
fn run_program(package: &str, program: &str, tests: &BTreeSet<&str>) -> Outcome<Results> {
    let list = tempfile::NamedTempFile::new().map_err(|e| format!("no file for the list of tests not run: {e}"))?;
    let mut command = process::cargo(&["test", "--package", package, "--test", program, "--", "--exact"]);
    command.args(tests).env(LIST, list.path()).stdout(Stdio::piped());
    note(&format!("$ {}", process::line(&command)));
    let mut child = command
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", process::line(&command)))?;
    let lines = process::lines_of(child.stdout.take().expect("standard output was asked for"));
    let failed = tests.iter().map(|test| (format!("{program}::{test}"), Verdict::Failed));
    let mut results: Results = failed.collect();
    // The first line comes when everything is built.
    let mut line = lines.recv().map_err(|_| RecvTimeoutError::Disconnected);
    while let Ok(read) = line {
        say(&read);
        enter(&mut results, program, &read);
        line = lines.recv_timeout(process::SILENCE);
    }
    if line == Err(RecvTimeoutError::Timeout) {
        process::end(&mut child);
    }
    child.wait().map_err(|e| format!("lost the tests: {e}"))?;
    let noted = std::fs::read_to_string(list.path()).map_err(|e| format!("lost the list of tests not run: {e}"))?;
    noted.lines().for_each(|line| lower(&mut results, line));
    Ok(results)
}

/// Enters a line of the test harness: `test NAME ... ok`.
fn enter(results: &mut Results, program: &str, line: &str) {
    if let Some(name) = line.strip_prefix("test ").and_then(|test| test.strip_suffix(" ... ok"))
        && let Some(verdict) = results.get_mut(&format!("{program}::{name}"))
    {
        *verdict = Verdict::Passed;
    }
}

/// Enters a line of the list of tests that were not run, unless the test has failed.
fn lower(results: &mut Results, line: &str) {
    let (rest, verdict): (_, fn(String) -> Verdict) = match (line.strip_prefix(WHOLE), line.strip_prefix(PART)) {
        (Some(rest), _) => (rest, Verdict::NotRun),
        (_, Some(rest)) => (rest, Verdict::InPart),
        _ => return,
    };
    let (test, reason) = rest.split_once(": ").unwrap_or((rest, "no reason given"));
    if let Some(known) = results.get_mut(test) {
        *known = known.clone().max(verdict(reason.to_owned()));
    }
}

/// Returns the matrix of a transport, with a row for each feature.
fn table(matrix: &Matrix, transport: &Named, results: &Results) -> String {
    let peers: Vec<&Peer> = matrix
        .peer
        .iter()
        .filter(|peer| peer.cell.contains_key(&transport.id))
        .collect();
    if peers.is_empty() {
        return String::new();
    }
    let mut rows = vec![vec![transport.title.clone()]];
    rows[0].extend(peers.iter().map(|peer| peer.name.clone()));
    for feature in &matrix.feature {
        let mut row = vec![feature.title.clone()];
        row.extend(
            peers
                .iter()
                .map(|peer| word(&peer.cell[&transport.id][&feature.id], results).to_owned()),
        );
        rows.push(row);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..=peers.len()).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns the word for a cell.
fn word(cell: &Cell, results: &Results) -> &'static str {
    match cell {
        Cell::Otherwise(Otherwise::Absent(_)) => "-",
        Cell::Otherwise(Otherwise::Untested(_)) => "no test",
        Cell::Otherwise(Otherwise::Fails(_)) => "peer fails",
        Cell::Works(tests) => match tests.iter().filter_map(|test| results.get(test)).max() {
            Some(Verdict::Passed) => "pass",
            Some(Verdict::InPart(_)) => "pass in part",
            Some(Verdict::NotRun(_)) => "NOT RUN",
            Some(Verdict::Failed) | None => "FAIL",
        },
    }
}

/// Returns the failed tests and those that were not run, one per line, and the totals.
fn reasons(results: &Results) -> String {
    let mut lines = Vec::new();
    let mut counts = [0; 4];
    for (test, verdict) in results {
        match verdict {
            Verdict::Passed => counts[0] += 1,
            Verdict::Failed => {
                counts[1] += 1;
                lines.push(format!("FAILED {test}"));
            }
            Verdict::NotRun(reason) => {
                counts[2] += 1;
                lines.push(format!("{WHOLE}{test}: {reason}"));
            }
            Verdict::InPart(reason) => {
                counts[0] += 1;
                counts[3] += 1;
                lines.push(format!("{PART}{test}: {reason}"));
            }
        }
    }
    let [passed, failed, not_run, in_part] = counts;
    lines.push(format!(
        "total: {passed} passed ({in_part} in part), {failed} failed, {not_run} not run"
    ));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_the_worst_result_of_its_tests() {
        let names = ["p::a", "p::b", "p::c", "p::d"].map(str::to_owned);
        let mut results: Results = names.iter().map(|name| (name.clone(), Verdict::Failed)).collect();
        for line in ["test a ... ok", "test b ... ok", "test c ... ok", "test d ... FAILED"] {
            enter(&mut results, "p", line);
        }
        lower(&mut results, "NOT RUN: p::b: no program");
        lower(&mut results, "NOT RUN IN PART: p::c: no capture");
        let word = |tests: &[&str]| {
            let tests = tests.iter().map(|test| format!("p::{test}")).collect();
            word(&Cell::Works(tests), &results)
        };
        assert_eq!(word(&["a"]), "pass");
        assert_eq!(word(&["a", "c"]), "pass in part");
        assert_eq!(word(&["a", "b", "c"]), "NOT RUN");
        assert_eq!(word(&["a", "b", "d"]), "FAIL");
        let last = "total: 2 passed (1 in part), 1 failed, 1 not run";
        assert_eq!(reasons(&results).lines().last(), Some(last));
    }
}
