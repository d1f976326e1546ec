//! `whimbrel run`: every point of a scenario with every seed.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_lab::Part;
use whimbrel_scenario::{Scenario, visible};

use super::report::write_report;
use crate::execute::{Common, Destination, execute};
use crate::output::{EXIT_CODES, Outcome, exit, note, scenario_error, size};

/// Run a scenario: every point of its sweep with every seed
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The scenario file
    file: PathBuf,
    /// Change a field, given by its dotted path. An element of an array is given by its name: --set link.wifi.loss.rate=0.01. A swept
    /// field then has only this value
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Number of runs of each point, one per seed. Default: that of the scenario
    #[arg(long, value_name = "N")]
    seeds: Option<u32>,
    /// The first seed. Default: that of the scenario
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write results.csv, results.parquet, links.csv, runs.jsonl, manifest.json, series.parquet, events.jsonl and packets.pcapng
    /// into this folder; the table `record` of the scenario selects the runs for the last three. Without --out no files are written
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long, requires = "out")]
    replace: bool,
    /// Continue an interrupted or killed run in that folder: finished runs are kept, and the results are the same as without the
    /// interruption. Starts a new run if the folder is empty
    #[arg(long, requires = "out", conflicts_with = "replace")]
    resume: bool,
    /// Run only a part of the runs, such as 2/4 for the second of four; `whimbrel merge` merges the parts. For sweeps on several
    /// machines, `python -m whimbrel sweep` runs the parts on a Dask cluster (docs/howto/sweep-on-a-cluster.md)
    #[arg(long, value_name = "N/PARTS", default_value_t = Part::ALL, hide_default_value = true)]
    part: Part,
    /// Write a report into that folder as well: report.html, as `whimbrel report` does
    #[arg(long, requires = "out")]
    report: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let mut changes = args.set.clone();
    changes.extend(args.seeds.map(|seeds| format!("seeds={seeds}")));
    changes.extend(args.seed.map(|seed| format!("seed={seed}")));
    let scenario = Scenario::load(&args.file, &changes).map_err(|error| scenario_error(&error))?;
    if !args.common.quiet {
        note(format_args!(
            "{}: {}, from seed {}",
            visible(&scenario.title),
            size(&scenario),
            scenario.seed
        ));
        for warning in scenario.warnings() {
            note(format_args!("warning: {warning}"));
        }
    }
    let destination = args.out.as_ref().map(|folder| Destination {
        folder: folder.clone(),
        replace: args.replace,
        resume: args.resume,
        command: command(&args.file.to_string_lossy(), &changes, args.part),
    });
    execute(&scenario, destination.as_ref(), args.part, &args.common)?;
    if let Some(folder) = args.out.as_ref().filter(|_| !args.common.quiet) {
        note(format_args!("results are in {}", folder.display()));
    }
    if let Some(folder) = args.out.as_ref().filter(|_| args.report) {
        write_report(folder, None, args.common.quiet)?;
    }
    Ok(())
}

/// Returns the command without options that do not affect the results.
fn command(file: &str, changes: &[String], part: Part) -> Vec<String> {
    let mut command = vec!["whimbrel".to_owned(), "run".to_owned(), file.to_owned()];
    for change in changes {
        command.extend(["--set".to_owned(), change.clone()]);
    }
    if part != Part::ALL {
        command.extend(["--part".to_owned(), part.to_string()]);
    }
    command
}
