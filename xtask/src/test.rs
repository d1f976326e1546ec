//! `cargo xtask test`: everything that is tested, in one go, with a summary line.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Instant;

use crate::{Outcome, packages, process};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only tests whose name contains this
    filter: Option<String>,
}

/// Totals over all test programs.
#[derive(Default)]
struct Totals {
    programs: u32,
    passed: u32,
    failed: u32,
    ignored: u32,
    failures: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let start = Instant::now();
    packages::ensure(packages::FOR_TESTS)?;
    let mut totals = Totals::default();
    let mut command = process::cargo(&["test", "--workspace", "--no-fail-fast"]);
    if let Some(filter) = &args.filter {
        command.arg(filter);
    }
    eprintln!("$ {}", process::line(&command));
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("cannot start {}: {e}", process::line(&command)))?;
    let stdout = child.stdout.take().expect("standard output was asked for");
    for line in BufReader::new(stdout).lines() {
        let line = line.map_err(|e| format!("cannot read what the tests print: {e}"))?;
        println!("{line}");
        totals.read(&line);
    }
    let status = child.wait().map_err(|e| format!("lost the tests: {e}"))?;

    println!();
    for name in &totals.failures {
        println!("FAILED {name}");
    }
    println!(
        "total: {} passed, {} failed, {} ignored in {} test programs, {:.0} s",
        totals.passed,
        totals.failed,
        totals.ignored,
        totals.programs,
        start.elapsed().as_secs_f64()
    );
    if !status.success() || totals.failed > 0 {
        return Err("not every test passed".to_owned());
    }
    if totals.passed == 0 {
        return Err("no test was run".to_owned());
    }
    Ok(())
}

impl Totals {
    /// Takes in one line of the test harness: `test NAME ... FAILED` or `test result: ok. 3 passed; 0 failed; 0 ignored; ...`.
    fn read(&mut self, line: &str) {
        if let Some(result) = line.strip_prefix("test result: ") {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_summed_over_programs() {
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
}
