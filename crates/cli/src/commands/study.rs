//! `whimbrel study`: runs studies that check published claims.

mod falsify;
mod runs;
mod shelf;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use whimbrel_lab::{Study, StudyReport, pages};
use whimbrel_scenario::visible;

use self::runs::run_scenario;
use self::shelf::{ChosenArgs, Shelf, ShelfArgs, study_error};
use super::report::write_report;
use crate::execute::width;
use crate::interrupt::listen;
use crate::output::{
    EXIT_CODES, FAILED, Outcome, WRONG_USE, count, exit, fail, note, print, print_json, print_json_text,
};

/// Run studies that check published claims
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand, Debug)]
enum Command {
    /// List the studies
    List(ListArgs),
    /// Run studies and print the class of each claim
    Run(RunArgs),
    /// Run claims about a mechanism with wrong implementations of it, which must not fulfil them
    Falsify(falsify::Args),
    /// Print the summary of all studies as Markdown, from the outcomes that `run --keep` stored
    Results(ResultsArgs),
}

#[derive(clap::Args, Debug)]
struct ListArgs {
    /// Print one JSON object instead of the list: {"studies": [{"id", "title", "source", "claims"}]}; `claims` is their number
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    shelf: ShelfArgs,
}

#[derive(clap::Args, Debug)]
struct ResultsArgs {
    /// Write the summary and a page with plots for each study into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON instead: [{"study", "claims": [{"id", "claim", "kind", "paper", "verdict", "seeds", "text", "points"}]}]
    #[arg(long, conflicts_with = "out")]
    json: bool,
    #[command(flatten)]
    shelf: ShelfArgs,
}

#[derive(clap::Args, Debug)]
struct RunArgs {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Run the short form of each study, with fewer seeds and shorter sweeps
    #[arg(long)]
    quick: bool,
    /// Write study.json and, for each scenario, results.csv, results.parquet, links.csv and manifest.json into DIR/ID/
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the results of earlier runs in that folder
    #[arg(long, requires = "out")]
    replace: bool,
    /// Write a report of each study as well: DIR/ID/report.html, as `whimbrel report` does
    #[arg(long, requires = "out")]
    report: bool,
    /// Print JSON instead of tables: {"study", "claims": [{"id", "claim", "paper", "measured", "ci95", "verdict", "note"}]}, an
    /// array of these with --all or several studies
    #[arg(long)]
    json: bool,
    /// Store the outcome in the study's folder as results.json, for the summary of all studies
    #[arg(long, conflicts_with = "quick")]
    keep: bool,
    /// Continue an interrupted run: skip studies whose results.json is complete and newer than this program and the files of the study
    #[arg(long, requires = "keep")]
    resume: bool,
    /// Number of concurrent runs. Default: the number of processors. It does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Print only errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    shelf: ShelfArgs,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(match &args.command {
        Command::List(args) => list(args),
        Command::Run(args) => run_studies(args),
        Command::Falsify(args) => falsify::falsify(args),
        Command::Results(args) => results(args),
    })
}

fn list(args: &ListArgs) -> Outcome {
    let shelf = Shelf::open(&args.shelf)?;
    let studies = shelf
        .folders
        .iter()
        .map(|folder| shelf.load(folder))
        .collect::<Outcome<Vec<_>>>()?;
    if args.json {
        let facts = |study: &Study| json!({ "id": study.id(), "title": study.title(), "source": study.source(), "claims": study.claims().count() });
        return print_json(&json!({ "studies": studies.iter().map(facts).collect::<Vec<_>>() }));
    }
    let widest = studies.iter().map(|study| study.id().len()).max().unwrap_or(0);
    let row = |study: &Study| {
        let claims = count(study.claims().count(), "claim");
        format!(
            "{:widest$}  {}; {}; {claims}\n",
            visible(study.id()),
            visible(study.title()),
            visible(study.source())
        )
    };
    print(&studies.iter().map(row).collect::<String>())
}

fn results(args: &ResultsArgs) -> Outcome {
    let shelf = Shelf::open(&args.shelf)?;
    let studies = shelf
        .folders
        .iter()
        .map(|folder| shelf.load(folder))
        .collect::<Outcome<Vec<_>>>()?;
    if args.json {
        let outcomes = whimbrel_lab::outcomes(&studies).map_err(|error| fail(WRONG_USE, error))?;
        return print_json_text(&outcomes.to_string());
    }
    let pages = pages(&studies).map_err(|error| fail(WRONG_USE, error))?;
    let Some(out) = &args.out else {
        return print(pages.first().map_or("", |(_, summary)| summary));
    };
    for (name, text) in &pages {
        let path = out.join(name);
        let written = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| std::fs::write(&path, text));
        written.map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

fn run_studies(args: &RunArgs) -> Outcome {
    let shelf = Shelf::open(&args.shelf)?;
    shelf.check_keep(args.keep)?;
    let folders = shelf.chosen(&args.chosen)?;
    // All studies are checked before any of them runs.
    let studies = folders
        .iter()
        .map(|folder| shelf.load(folder))
        .collect::<Outcome<Vec<_>>>()?;
    let interrupted = listen()?;
    let mut reports = Vec::with_capacity(studies.len());
    for study in &studies {
        if args.resume && is_current(study.folder()) {
            note(format_args!("{}: kept", visible(study.id())));
            continue;
        }
        let report = run_study(study, args, &interrupted)?;
        if args.json {
            reports.push(report.json());
        } else {
            let heading = visible(&format!("{}: {} ({})", study.id(), study.title(), study.source()));
            let gap = if reports.is_empty() { "" } else { "\n" };
            reports.push(serde_json::Value::Null);
            print(&format!("{gap}{heading}\n{}", report.table(width())))?;
        }
    }
    if args.json {
        let value = match reports.as_slice() {
            [one] if !args.chosen.all => one.clone(),
            several => serde_json::Value::from(several),
        };
        print_json(&value)?;
    }
    Ok(())
}

/// Whether what is kept of a study is younger than the program and everything that the study is made of.
fn is_current(folder: &Path) -> bool {
    let made = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    let current = || {
        let path = folder.join("results.json");
        let kept = made(&path)?;
        serde_json::from_slice::<serde_json::Value>(&std::fs::read(&path).ok()?).ok()?;
        let program = made(&std::env::current_exe().ok()?)?;
        let entries = std::fs::read_dir(folder).ok()?;
        let mut parts = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_result = |path: &Path| {
            path.file_name().is_some_and(|name| {
                ["results.json", "falsified.json", "README.md"]
                    .iter()
                    .any(|result| name == *result)
            }) || path.extension().is_some_and(|extension| extension == "svg")
        };
        let unchanged = parts.all(|path| is_result(&path) || made(&path).is_some_and(|made| made < kept));
        Some(program < kept && unchanged)
    };
    current().unwrap_or(false)
}

fn run_study(study: &Study, args: &RunArgs, interrupted: &std::sync::atomic::AtomicBool) -> Outcome<StudyReport> {
    let planned = study.plan(args.quick).map_err(|error| study_error(&error))?;
    let out = args.out.as_ref().map(|out| out.join(study.id()));
    let command = command(study.id(), args.quick);
    // All folders are prepared before anything runs.
    let mut locks = Vec::new();
    for planned in &planned {
        if let Some(out) = &out {
            let folder = out.join(&planned.name);
            locks.push(whimbrel_lab::prepare(&folder, args.replace).map_err(|error| fail(WRONG_USE, error))?);
        }
    }
    let mut runs = Vec::with_capacity(planned.len());
    for planned in &planned {
        if !args.quiet {
            let size = crate::output::size(&planned.scenario);
            note(format_args!(
                "{}: {size}",
                visible(&format!("{}: {}", study.id(), planned.name))
            ));
        }
        let folder = out.as_ref().map(|out| out.join(&planned.name));
        let how = (args.jobs, args.quiet);
        runs.push(run_scenario(planned, folder.as_deref(), &command, how, interrupted)?);
    }
    let report = study
        .judge(&planned, &runs, args.quick)
        .map_err(|error| study_error(&error))?;
    let kept = report.kept_text(&command.join(" "));
    let write = |path: PathBuf| {
        std::fs::write(&path, &kept)
            .map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", path.display())))
    };
    if let Some(out) = &out {
        write(out.join("study.json"))?;
        if args.report {
            write_report(out, None, args.quiet)?;
        }
    }
    if args.keep {
        write(study.folder().join("results.json"))?;
    }
    Ok(report)
}

/// Returns the command without options that do not affect the results.
fn command(id: &str, quick: bool) -> Vec<String> {
    let mut command = vec![
        "whimbrel".to_owned(),
        "study".to_owned(),
        "run".to_owned(),
        id.to_owned(),
    ];
    command.extend(quick.then(|| "--quick".to_owned()));
    command
}
