//! `whimbrel export`: recorded events for other viewers.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_lab::{ExportError, ExportFormat, export};

use crate::output::{EXIT_CODES, FAILED, Outcome, WRONG_USE, exit, fail, files_json, print, print_json};

/// Write the events of a recorded run for other viewers: Perfetto, qvis
///
/// Prints the names of the files.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A folder that contains exactly one recorded run, with events.jsonl
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    format: Format,
    /// The folder for the files. Default: the folder of events.jsonl
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object instead of the names: {"files": [PATH, ...]}
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
#[group(required = true, multiple = false)]
struct Format {
    /// For Perfetto (ui.perfetto.dev) or chrome://tracing: trace.perfetto.json, with a track per node, path and link
    #[arg(long)]
    perfetto: bool,
    /// For qvis: a file FLOW-NODE-path-N.sqlog per path that sent data, in qlog
    #[arg(long)]
    qlog: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let format = if args.format.perfetto {
        ExportFormat::Perfetto
    } else {
        ExportFormat::Qlog
    };
    let files = export(&args.folder, format, args.out.as_deref()).map_err(|error| match error {
        ExportError::Source(_) => fail(WRONG_USE, error),
        ExportError::Write(_) => fail(FAILED, error),
    })?;
    if args.json {
        return print_json(&files_json(&files));
    }
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    print(&names)
}
