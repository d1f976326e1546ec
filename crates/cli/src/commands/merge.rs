//! `whimbrel merge`: merges the parts of a sweep into one folder of results.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use whimbrel_lab::{Part, Results, Status};

use crate::commands::show::{Saved, load};
use crate::execute::{ViewArgs, print_results};
use crate::output::{EXIT_CODES, FAILED, Outcome, WRONG_USE, exit, fail, note};

/// Merge results of one sweep from several folders
///
/// Merges the results of `run --part`, or incomplete results of the same sweep.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Folders with results of the same scenario with the same --set options
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// The folder to write
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the results of an earlier run in that folder
    #[arg(long)]
    replace: bool,
    /// Print one JSON object instead of the table, as `run --json` does
    #[arg(long)]
    json: bool,
    /// Print only errors to standard error; with --json, the object as well
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    view: ViewArgs,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let parts = args
        .folders
        .iter()
        .map(|folder| load(folder))
        .collect::<Outcome<Vec<Saved>>>()?;
    let first = &parts[0];
    args.view.check(&first.scenario)?;
    for (part, folder) in parts.iter().zip(&args.folders) {
        let same = |saved: &Saved| (saved.manifest.scenario.hash.clone(), saved.manifest.whimbrel.clone());
        if same(part) != same(first) {
            let message = format_args!(
                "{} and {} are not parts of the same sweep: scenario, changes or version differ",
                args.folders[0].display(),
                folder.display()
            );
            return Err(fail(WRONG_USE, message));
        }
    }
    let mut runs: Vec<_> = parts
        .iter()
        .zip(&args.folders)
        .flat_map(|(part, folder)| part.runs.iter().map(move |run| (run.clone(), folder)))
        .collect();
    runs.sort_by_key(|(run, _)| run.number);
    runs.dedup_by_key(|(run, _)| run.number);
    let _lock = whimbrel_lab::prepare(&args.out, args.replace).map_err(|error| fail(WRONG_USE, error))?;
    let command = first.manifest.command.clone();
    let results = Results::create(&args.out, &first.scenario, command, Part::ALL);
    let mut results = results.map_err(|error| fail(FAILED, error))?;
    for (run, folder) in &runs {
        for name in run.recorded_files() {
            copy(folder, &args.out, name)?;
        }
        results.add(run).map_err(|error| fail(FAILED, error))?;
    }
    let missing = first.scenario.runs() - runs.len();
    let status = if missing == 0 {
        Status::Complete
    } else {
        Status::Interrupted
    };
    results.finish(status).map_err(|error| fail(FAILED, error))?;
    if missing > 0 && !args.quiet {
        let all = first.scenario.runs();
        note(format_args!(
            "{missing} of {all} runs are missing; `whimbrel run` with --resume and --out {} runs them",
            args.out.display()
        ));
    }
    if args.quiet && !args.json {
        return Ok(());
    }
    let runs: Vec<_> = runs.into_iter().map(|(run, _)| run).collect();
    print_results(&first.scenario, &runs, args.json, &args.view)
}

fn copy(from: &Path, to: &Path, name: &str) -> Outcome {
    let target = to.join(name);
    let copied = target
        .parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::copy(from.join(name), &target));
    match copied {
        Ok(_) => Ok(()),
        Err(error) => Err(fail(
            FAILED,
            format_args!("cannot copy {}: {error}", from.join(name).display()),
        )),
    }
}
