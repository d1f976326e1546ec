//! Runs of one scenario of a study.

use std::path::Path;

use whimbrel_lab::{Part, PlannedScenario, Results, Run, run_planned};

use crate::execute::jobs;
use crate::output::{Ended, FAILED, INTERRUPTED, Outcome, fail, note};
use crate::progress::Reporter;

pub(super) fn run_scenario(
    planned: &PlannedScenario,
    folder: Option<&Path>,
    command: &[String],
    (requested, quiet): (Option<u16>, bool),
    interrupted: &std::sync::atomic::AtomicBool,
) -> Outcome<Vec<Run>> {
    let mut results = folder
        .map(|folder| Results::create(folder, &planned.scenario, command.to_vec(), Part::ALL))
        .transpose()
        .map_err(|error| fail(FAILED, error))?;
    let options = whimbrel_lab::Options {
        jobs: jobs(requested),
        watch: planned.watch,
        timeline: planned.timeline,
        ..whimbrel_lab::Options::new(interrupted)
    };
    let mut reporter = Reporter::new(quiet);
    let mut runs = Vec::with_capacity(planned.scenario.runs());
    let end = run_planned(planned, &options, &mut reporter, &mut |run| {
        if let Some(results) = &mut results {
            results.add(&run)?;
        }
        runs.push(run);
        Ok(())
    });
    reporter.finish();
    let written = results.map(|results| results.finish((&end).into())).transpose();
    if let Some(error) = end.error {
        return Err(fail(FAILED, error));
    }
    if end.interrupted {
        note("interrupted: a study is judged when all its runs are complete");
        return Err(Ended(INTERRUPTED));
    }
    written.map_err(|error| fail(FAILED, error))?;
    Ok(runs)
}
