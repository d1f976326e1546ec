//! `whimbrel report`: saved results as one HTML file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use whimbrel_report::Report;

use crate::output::{EXIT_CODES, FAILED, Outcome, WRONG_USE, exit, fail, files_json, note, print_json};

/// Write a report of saved results or of a recorded live transfer, as one HTML file
///
/// The file has tables and figures, a summary and a playback of recorded runs. It needs no network, and opens from disk in a browser of 2023 or later.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A folder that `run --out`, `study run --out` (with the study's name), `demo`, or `--record` of a live transfer has written
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The file to write. Default: report.html in DIR
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object with the file that was written: {"files": [PATH, ...]}
    #[arg(long)]
    json: bool,
    /// Print only errors to standard error
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let file = write_report(&args.folder, args.out.as_deref(), args.quiet)?;
    if args.json {
        print_json(&files_json(&[file]))
    } else {
        Ok(())
    }
}

/// Writes the report of the results in `folder`. Returns its file.
pub(crate) fn write_report(folder: &Path, out: Option<&Path>, quiet: bool) -> Outcome<PathBuf> {
    let out = out.map_or_else(|| folder.join("report.html"), Path::to_path_buf);
    let report = Report::read(folder).map_err(|error| fail(WRONG_USE, error))?;
    let html = report.html().map_err(|error| fail(WRONG_USE, error))?;
    std::fs::write(&out, html)
        .map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", out.display())))?;
    if !quiet {
        note(format_args!("the report is in {}", out.display()));
    }
    Ok(out)
}
