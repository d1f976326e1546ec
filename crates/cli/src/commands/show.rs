//! `whimbrel show`: the tables of saved results.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use whimbrel_lab::{Manifest, Run, Status, load_runs};
use whimbrel_scenario::Scenario;

use crate::execute::{ViewArgs, print_results};
use crate::output::{EXIT_CODES, Outcome, WRONG_USE, exit, fail, note, scenario_error};

/// Print the tables of saved results
///
/// Includes results of runs that are in progress or were interrupted.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A folder written by `run --out` or `merge`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Print one JSON object instead of tables, as `run --json` does
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    view: ViewArgs,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let saved = load(&args.folder)?;
    args.view.check(&saved.scenario)?;
    let expected = saved.manifest.part.count(saved.scenario.runs());
    if saved.runs.len() < expected {
        let so_far = match saved.manifest.status {
            Status::Running => " so far, or it was killed",
            Status::Stopped => "; a stopping rule ended the others",
            _ => "",
        };
        note(format_args!(
            "{} of {expected} runs are complete{so_far}",
            saved.runs.len()
        ));
    }
    print_results(&saved.scenario, &saved.runs, args.json, &args.view)
}

/// Results loaded from a folder.
pub(crate) struct Saved {
    pub(crate) manifest: Manifest,
    pub(crate) scenario: Scenario,
    pub(crate) runs: Vec<Run>,
}

/// Loads a folder of results.
pub(crate) fn load(folder: &Path) -> Outcome<Saved> {
    let manifest = Manifest::load(&folder.join("manifest.json")).map_err(|error| {
        fail(
            WRONG_USE,
            format_args!("{error}\n  hint: name a folder written by `run --out`"),
        )
    })?;
    let source = &manifest.scenario;
    let scenario =
        Scenario::from_text(&source.path, &source.text, &source.changes).map_err(|error| scenario_error(&error))?;
    let runs = load_runs(folder).map_err(|error| fail(WRONG_USE, error))?;
    if runs.is_empty() && manifest.runs > 0 {
        let lacks = if folder.join("runs.jsonl").exists() {
            "has no complete run in runs.jsonl"
        } else {
            "has no runs.jsonl: an earlier version of this program wrote it"
        };
        let message = format_args!(
            "{0} {lacks}\n  hint: whimbrel rerun {0}/manifest.json runs it again",
            folder.display()
        );
        return Err(fail(WRONG_USE, message));
    }
    Ok(Saved {
        manifest,
        scenario,
        runs,
    })
}
