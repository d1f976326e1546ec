//! Runs a scenario and gives out what it achieved: shared by `run`, `rerun` and `demo`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;

use whimbrel_lab::{Manifest, Options, Outcome as LabOutcome, Results, Run, Status};
use whimbrel_scenario::Scenario;

use crate::output::{Ended, FAILED, INTERRUPTED, Outcome, WRONG_USE, fail, note, print};
use crate::progress::Teller;

/// Options of every command that runs scenarios.
#[derive(clap::Args, Debug)]
pub(crate) struct Common {
    /// Runs at the same time, by default as many as there are processors; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Print one JSON object instead of the table: {"scenario", "points": [{"params", "metrics": {NAME: {"mean", "ci95",
    /// "n"}}, "flows": {NAME: {the same}}}], "runs": [{"seed", "params", "wall_s", "packet_hops", "events"}]}
    #[arg(long)]
    pub(crate) json: bool,
    /// Tell nothing on standard error but errors
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// Where results go.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) folder: PathBuf,
    /// Whether the results of an earlier run may be replaced.
    pub(crate) replace: bool,
    /// The command that makes the same results again.
    pub(crate) command: Vec<String>,
}

/// What was run.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) runs: Vec<Run>,
    pub(crate) manifest: Option<Manifest>,
}

/// Runs a scenario, prints the table or the JSON object, and writes results.
pub(crate) fn execute(scenario: &Scenario, destination: Option<&Destination>, common: &Common) -> Outcome<Executed> {
    let interrupted = listen()?;
    let mut results = match destination {
        Some(destination) => {
            whimbrel_lab::prepare(&destination.folder, destination.replace).map_err(|error| fail(WRONG_USE, error))?;
            let results = Results::create(&destination.folder, scenario, destination.command.clone());
            Some(results.map_err(|error| fail(FAILED, error))?)
        }
        None => None,
    };
    let folder = destination.map(|destination| destination.folder.as_path());
    let options = Options {
        jobs: jobs(common.jobs),
        folder,
        interrupted: &interrupted,
        watch: false,
    };
    let mut teller = Teller::new(common.quiet);
    let mut runs = Vec::with_capacity(scenario.runs());
    let outcome = whimbrel_lab::run(scenario, &options, &mut teller, &mut |run| {
        if let Some(results) = &mut results {
            results.add(&run)?;
        }
        runs.push(run);
        Ok(())
    });
    teller.finish();
    let manifest = give_out(scenario, &runs, results, &outcome, common)?;
    conclude(scenario, &runs, folder, &outcome)?;
    Ok(Executed { runs, manifest })
}

/// Completes the files and prints what all runs say together.
fn give_out(
    scenario: &Scenario,
    runs: &[Run],
    results: Option<Results>,
    outcome: &LabOutcome,
    common: &Common,
) -> Outcome<Option<Manifest>> {
    let status = match outcome {
        LabOutcome { error: Some(_), .. } => Status::Failed,
        LabOutcome { interrupted: true, .. } => Status::Interrupted,
        _ => Status::Complete,
    };
    let written = results.map(|results| results.finish(status)).transpose();
    let points = whimbrel_lab::summarise(scenario, runs);
    // The table first: it is there even if the disk is full.
    if common.json {
        print(&format!("{}\n", whimbrel_lab::json(scenario, &points, runs)))?;
    } else if !points.is_empty() {
        print(&whimbrel_lab::table(&points, width()))?;
    }
    match written {
        Ok(manifest) => {
            if !common.quiet {
                tell_failures(runs);
                tell_cuts(manifest.as_ref());
            }
            Ok(manifest)
        }
        // One error is enough: this one follows from the other.
        Err(_) if outcome.error.is_some() => Ok(None),
        Err(error) => Err(fail(FAILED, error)),
    }
}

/// The end of runs that did not all come to theirs.
fn conclude(scenario: &Scenario, runs: &[Run], folder: Option<&Path>, outcome: &LabOutcome) -> Outcome {
    let kept = match folder {
        Some(folder) if !runs.is_empty() => format!("; their results are in {}", folder.display()),
        _ => String::new(),
    };
    let complete = format!("{} of {} runs are complete{kept}", runs.len(), scenario.runs());
    if let Some(error) = &outcome.error {
        return Err(fail(FAILED, format_args!("{error}\n  {complete}")));
    }
    let wrong = |run: &&Run| {
        run.flows
            .iter()
            .any(|flow| flow.file.is_some_and(|file| file.wrong > 0))
    };
    if let Some(run) = runs.iter().find(wrong) {
        let message = format_args!(
            "with seed {} a file did not arrive as it was sent: a defect of this program",
            run.seed
        );
        return Err(fail(FAILED, message));
    }
    if outcome.interrupted {
        note(format_args!("interrupted: {complete}"));
        return Err(Ended(INTERRUPTED));
    }
    Ok(())
}

/// Says which associations failed, the first few of them.
fn tell_failures(runs: &[Run]) {
    const MOST: usize = 5;
    let mut failures = runs.iter().flat_map(|run| {
        run.flows.iter().filter_map(move |flow| {
            let reason = flow.failure()?;
            Some(format!(
                "note: flow {} failed with seed {}: {reason}",
                flow.name, run.seed
            ))
        })
    });
    failures.by_ref().take(MOST).for_each(note);
    let more = failures.count();
    if more > 0 {
        note(format_args!(
            "note: {more} more flows failed; see the column outcome of results.csv"
        ));
    }
}

fn tell_cuts(manifest: Option<&Manifest>) {
    let cut = manifest.map_or(&[][..], |manifest| &manifest.cut);
    if !cut.is_empty() {
        note(format_args!(
            "note: ended at record.limit_bytes before the run did: {}",
            cut.join(", ")
        ));
    }
}

/// Runs at the same time: as asked for, or as many as there are processors.
pub(crate) fn jobs(asked: Option<u16>) -> usize {
    asked.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from)
}

/// Characters in a line.
pub(crate) fn width() -> usize {
    let term = console::Term::stdout();
    if term.is_term() {
        usize::from(term.size().1).max(60)
    } else {
        120
    }
}

/// Set by Ctrl-C or SIGTERM; the second time ends the process at once.
pub(crate) fn listen() -> Outcome<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&interrupted);
    ctrlc::set_handler(move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
    .map_err(|error| fail(FAILED, format_args!("cannot listen for Ctrl-C: {error}")))?;
    Ok(interrupted)
}
