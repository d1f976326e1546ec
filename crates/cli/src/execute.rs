//! Runs a scenario and writes its results: shared by `run`, `rerun` and `demo`.

use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use whimbrel_lab::{Estimate, FolderLock, Manifest, Options, Part, Results, Run, RunEnd, View};
use whimbrel_scenario::{Scenario, visible};

use crate::interrupt::listen;
use crate::output::{Ended, FAILED, INTERRUPTED, Outcome, WRONG_USE, count, fail, note, print, print_json_text};
use crate::progress::Reporter;

/// Options of every command that runs scenarios.
#[derive(clap::Args, Debug)]
pub(crate) struct Common {
    /// Number of concurrent runs. Default: the number of processors. It does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Print one JSON object instead of the table: {"scenario", "points": [{"params", "metrics": {NAME: {"mean", "ci95",
    /// "n"}}, "flows": {NAME: {as "metrics"}}}], "runs": [{"seed", "params", "wall_s", "packet_hops", "events"}]}
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors to standard error, and how much is recorded if that may be more than 1 GB
    #[arg(long, short)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) view: ViewArgs,
}

/// The content of tables.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct ViewArgs {
    /// Show these metrics instead of the default ones, separated by commas; `whimbrel metrics` lists them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,
    /// Swept fields (axes) to show as columns, separated by commas. The last component of a dotted name is enough: `rate` for
    /// `loss.rate`. `flow` and `metric` are axes too. The other axes become rows. Default: the last swept field; if there is only one,
    /// the metrics
    #[arg(long, value_name = "AXIS", value_delimiter = ',')]
    by: Vec<String>,
}

impl ViewArgs {
    fn view(&self) -> View {
        View {
            metrics: self.metric.clone(),
            by: self.by.clone(),
        }
    }

    /// Checks the names.
    pub(crate) fn check(&self, scenario: &Scenario) -> Outcome {
        let checked = self.view().check(&scenario.axes);
        let lists = "hint: `whimbrel metrics` lists the metrics; axes are the swept fields";
        checked.map_err(|error| fail(WRONG_USE, format_args!("{error}\n  {lists}")))
    }
}

/// Prints the summary of runs.
pub(crate) fn print_results(scenario: &Scenario, runs: &[Run], json: bool, view: &ViewArgs) -> Outcome {
    let points = whimbrel_lab::summarise(scenario, runs);
    if json {
        return print_json_text(&whimbrel_lab::json(scenario, &points, runs));
    }
    let tables = whimbrel_lab::tables(&points, &view.view(), width()).map_err(|error| fail(WRONG_USE, error))?;
    print(&tables)
}

/// Destination of the results.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) folder: PathBuf,
    /// Whether the results of an earlier run may be replaced.
    pub(crate) replace: bool,
    /// Whether to continue an earlier run.
    pub(crate) resume: bool,
    /// The command that repeats the results.
    pub(crate) command: Vec<String>,
}

/// The result of an execution.
#[derive(Debug)]
pub(crate) struct Executed {
    pub(crate) runs: Vec<Run>,
    pub(crate) manifest: Option<Manifest>,
}

/// Runs a scenario, prints the table or the JSON object, and writes results.
pub(crate) fn execute(
    scenario: &Scenario,
    destination: Option<&Destination>,
    part: Part,
    common: &Common,
) -> Outcome<Executed> {
    execute_and(scenario, destination, part, common, &|runs| {
        if common.json || !runs.is_empty() {
            print_results(scenario, runs, common.json, &common.view)?;
        }
        Ok(())
    })
}

/// Runs a scenario, calls `print` with the runs, and writes results.
pub(crate) fn execute_and(
    scenario: &Scenario,
    destination: Option<&Destination>,
    part: Part,
    common: &Common,
    print: &dyn Fn(&[Run]) -> Outcome,
) -> Outcome<Executed> {
    common.view.check(scenario)?;
    let interrupted = listen()?;
    let mut earlier = Vec::new();
    let mut _lock = None;
    let mut results = match destination {
        Some(destination) => {
            let (lock, known) = prepare(scenario, destination, part)?;
            (_lock, earlier) = (Some(lock), known);
            let results = Results::create(&destination.folder, scenario, destination.command.clone(), part);
            Some(results.map_err(|error| fail(FAILED, error))?)
        }
        None => None,
    };
    let estimate = Estimate::of(scenario, part, destination.is_some());
    if common.quiet {
        announce_records(&estimate, VERY_MUCH);
    } else {
        announce(scenario, &estimate, &earlier);
    }
    let folder = destination.map(|destination| destination.folder.as_path());
    let options = Options {
        jobs: jobs(common.jobs),
        folder,
        journal: folder.is_some(),
        earlier: &earlier,
        part,
        ..Options::new(&interrupted)
    };
    let mut reporter = Reporter::new(common.quiet);
    let mut runs = Vec::with_capacity(scenario.runs());
    let end = whimbrel_lab::run(scenario, &options, &mut reporter, &mut |run| {
        if let Some(results) = &mut results {
            results.add(&run)?;
        }
        runs.push(run);
        Ok(())
    });
    reporter.finish();
    let manifest = finish(&runs, results, &end, common, print)?;
    conclude(part.count(scenario.runs()), &runs, folder, &end)?;
    Ok(Executed { runs, manifest })
}

/// Prepares the folder. Returns its lock and the finished runs of an earlier call that is continued.
fn prepare(scenario: &Scenario, destination: &Destination, part: Part) -> Outcome<(FolderLock, Vec<Run>)> {
    let Destination {
        folder,
        replace,
        resume,
        ..
    } = destination;
    let wrong = |error| fail(WRONG_USE, error);
    let (lock, known) = whimbrel_lab::open_folder(folder, scenario, part, *replace, *resume).map_err(wrong)?;
    let earlier = if known {
        whimbrel_lab::load_runs(folder).map_err(wrong)?
    } else {
        Vec::new()
    };
    Ok((lock, earlier))
}

/// Announces the runs, if there are many.
fn announce(scenario: &Scenario, estimate: &Estimate, earlier: &[Run]) {
    if !earlier.is_empty() {
        note(format_args!(
            "{} of {} runs are complete already",
            earlier.len(),
            estimate.runs
        ));
    }
    announce_size(scenario, estimate, MUCH);
}

/// Announces the simulated time, if it is long, and the recorded bytes, if there are at least `least`.
pub(crate) fn announce_size(scenario: &Scenario, estimate: &Estimate, least: u64) {
    if estimate.is_long() {
        note(format_args!(
            "warning: {} of {} are {:.1e} simulated seconds\n  hint: Ctrl-C ends them; duration and seeds make them fewer",
            count(estimate.runs, "run"),
            scenario.points[0].config.duration,
            estimate.simulated_s
        ));
    }
    announce_records(estimate, least);
}

/// Announces the recorded bytes, if there are at least `least`.
fn announce_records(estimate: &Estimate, least: u64) {
    let recorded = estimate.recorded();
    if recorded >= least {
        note(format_args!(
            "records up to {} of {} (packets {}, events {}, series {}); to record less, change the table `record` of the scenario",
            bytes(recorded),
            count(estimate.recording, "run"),
            bytes(estimate.packets),
            bytes(estimate.events),
            bytes(estimate.series)
        ));
    }
}

/// Maximum number of recorded bytes without an announcement.
const MUCH: u64 = 100_000_000;

/// Number of recorded bytes that a quiet run and a check announce.
pub(crate) const VERY_MUCH: u64 = 1_000_000_000;

/// Returns a rounded number of bytes with its unit.
fn bytes(n: u64) -> String {
    match n {
        0..1_000_000 => format!("{} kB", n.div_ceil(1_000)),
        1_000_000..1_000_000_000 => format!("{} MB", n / 1_000_000),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}

/// Completes the files and prints the summary of all runs.
fn finish(
    runs: &[Run],
    results: Option<Results>,
    end: &RunEnd,
    common: &Common,
    print: &dyn Fn(&[Run]) -> Outcome,
) -> Outcome<Option<Manifest>> {
    let written = results.map(|results| results.finish(end.into())).transpose();
    // The table first: it is printed even if the disk is full.
    print(runs)?;
    match written {
        Ok(manifest) => {
            if !common.quiet {
                report_failures(runs);
                report_cuts(manifest.as_ref());
            }
            Ok(manifest)
        }
        // One error is enough: this one follows from the other.
        Err(_) if end.error.is_some() => Ok(None),
        Err(error) => Err(fail(FAILED, error)),
    }
}

/// Returns how the command ends after runs of which not all are complete.
fn conclude(all: usize, runs: &[Run], folder: Option<&Path>, end: &RunEnd) -> Outcome {
    let kept = match folder {
        Some(folder) if !runs.is_empty() => format!("; their results are in {}", folder.display()),
        _ => String::new(),
    };
    let complete = format!("{} of {all} runs are complete{kept}", runs.len());
    if let Some(error) = &end.error {
        return Err(fail(FAILED, format_args!("{error}\n  {complete}")));
    }
    let wrong = |run: &&Run| {
        run.flows
            .iter()
            .any(|flow| flow.file.is_some_and(|file| file.wrong > 0))
    };
    if let Some(run) = runs.iter().find(wrong) {
        let message = format_args!(
            "with seed {} a file arrived changed: a defect of this program",
            run.seed
        );
        return Err(fail(FAILED, message));
    }
    if end.interrupted {
        let go_on = if kept.is_empty() { "" } else { "; --resume continues" };
        note(format_args!("interrupted: {complete}{go_on}"));
        return Err(Ended(INTERRUPTED));
    }
    Ok(())
}

/// Reports the first failed associations.
fn report_failures(runs: &[Run]) {
    const MOST: usize = 5;
    let mut failures = runs.iter().flat_map(|run| {
        run.flows.iter().filter_map(move |flow| {
            let reason = flow.failure()?;
            Some(format!(
                "note: flow {} failed with seed {}: {}",
                visible(&flow.name),
                run.seed,
                visible(reason)
            ))
        })
    });
    failures.by_ref().take(MOST).for_each(note);
    let more = failures.count();
    if more > 0 {
        note(format_args!(
            "note: {} more failed; see the column outcome of results.csv",
            count(more as u64, "flow")
        ));
    }
}

fn report_cuts(manifest: Option<&Manifest>) {
    let cut = manifest.map_or(&[][..], |manifest| &manifest.cut);
    if !cut.is_empty() {
        note(format_args!(
            "note: ended at record.limit_bytes before the run did: {}",
            visible(&cut.join(", "))
        ));
    }
}

/// Returns the number of concurrent runs: as requested, or the number of processors.
pub(crate) fn jobs(asked: Option<u16>) -> usize {
    asked.map_or_else(|| available_parallelism().map_or(1, usize::from), usize::from)
}

/// Returns the number of characters in a line.
pub(crate) fn width() -> usize {
    let term = console::Term::stdout();
    if term.is_term() {
        usize::from(term.size().1).max(60)
    } else {
        120
    }
}
