//! `whimbrel plot`: saved results as static figures.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_report::{Format, PlotOptions, Report};

use crate::output::{EXIT_CODES, FAILED, Outcome, WRONG_USE, count, exit, fail, files_json, note, print_json};

/// Draw figures of saved results as SVG files, with --pdf also as PDF files
///
/// The figures are metrics over the sweep with confidence bands, time series and TSNs of recorded runs, and the claims of a study.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A folder that `run --out`, `study run --out` (with the study's name), `demo`, or `--record` of a live transfer has written
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The folder for the figures. Default: the folder plots in DIR
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Draw only these metrics, separated by commas; `whimbrel metrics` lists them
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,
    /// The swept field on the x axis; the last part of its dotted name is enough. Default: the field with the most numeric values
    #[arg(long, value_name = "AXIS")]
    over: Option<String>,
    /// Write PDF files as well. The font, Helvetica, is not embedded
    #[arg(long)]
    pdf: bool,
    /// Print one JSON object with the files that were written: {"files": [PATH, ...]}
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
    let options = PlotOptions {
        metrics: args.metric.clone(),
        over: args.over.clone(),
    };
    let report = Report::read(&args.folder).map_err(|error| fail(WRONG_USE, error))?;
    let plots = report.plots(&options).map_err(|error| fail(WRONG_USE, error))?;
    if plots.is_empty() {
        return Err(fail(
            WRONG_USE,
            format_args!("{} has nothing to draw: no run is complete", args.folder.display()),
        ));
    }
    let out = args.out.clone().unwrap_or_else(|| args.folder.join("plots"));
    let formats: &[Format] = if args.pdf {
        &[Format::Svg, Format::Pdf]
    } else {
        &[Format::Svg]
    };
    let mut files = Vec::with_capacity(plots.len() * formats.len());
    for plot in &plots {
        for format in formats {
            let path = out.join(format!("{}.{}", plot.path, format.extension()));
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, plot.render(*format)));
            written.map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", path.display())))?;
            files.push(path);
        }
    }
    if !args.quiet {
        note(format_args!("{} in {}", count(files.len(), "figure"), out.display()));
    }
    if args.json {
        print_json(&files_json(&files))
    } else {
        Ok(())
    }
}
