//! `whimbrel demo`: a file over two simulated radio links, with all recorded files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use whimbrel_lab::Part;
use whimbrel_scenario::Scenario;

use super::report::write_report;
use crate::execute::{Common, Destination, Executed, execute};
use crate::output::{EXIT_CODES, FAILED, Outcome, exit, fail, note, print, scenario_error, size};

/// The scenario, embedded in the program.
const SCENARIO: &str = include_str!("../../embedded/two-radios.toml");
const SCENARIO_PATH: &str = "examples/two-radios.toml";
/// The folder of one of the recorded runs, below that of the results.
const RECORDED: &str = "runs/sctp.scheme=multipath/seed-1";

/// Send a file over two simulated radio links, with standard SCTP and with `multipath`
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Folder for the results; results of an earlier run are replaced
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
    /// Write a report into that folder as well: report.html, as `whimbrel report` does
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let scenario =
        Scenario::from_text(Path::new(SCENARIO_PATH), SCENARIO, &[]).map_err(|error| scenario_error(&error))?;
    let say = |text: &str| if args.common.json { Ok(()) } else { print(text) };
    if !args.common.quiet {
        note(format_args!("{}: {}", scenario.title, size(&scenario)));
    }
    say(&format!("{}\n\n", scenario.description.trim()))?;
    let destination = Destination {
        folder: args.out.clone(),
        replace: true,
        resume: false,
        command: vec!["whimbrel".to_owned(), "demo".to_owned()],
    };
    let Executed { runs, .. } = execute(&scenario, Some(&destination), Part::ALL, &args.common)?;
    let files: Vec<_> = runs
        .iter()
        .flat_map(|run| run.flows.iter().filter_map(|flow| flow.file))
        .collect();
    if files.len() != runs.len() || files.iter().any(|file| !file.intact) {
        let arrived = files.iter().filter(|file| file.intact).count();
        return Err(fail(
            FAILED,
            format_args!("the file arrived unchanged in {arrived} of {} runs", runs.len()),
        ));
    }
    let bytes = files.first().map_or(0, |file| file.bytes);
    say(&format!(
        "\nAll {bytes} bytes of the file arrived unchanged in each of {} runs.\n",
        runs.len()
    ))?;
    if args.report {
        write_report(&args.out, None, args.common.quiet)?;
    }
    say(&guide(&args.out))
}

/// Returns a list of the files in the folder, and commands to inspect them.
fn guide(folder: &Path) -> String {
    let mut text = format!("\nIn {}:\n", folder.display());
    let files = [
        ("results.csv, results.parquet", "a row for each run and flow"),
        ("links.csv", "what each link carried"),
        (
            "runs.jsonl",
            "all values of each run, for `show`, `merge` and `run --resume`",
        ),
        ("manifest.json", "everything needed to repeat the runs"),
        ("runs/SCHEME/seed-1/", "the first run of each scheme:"),
        (
            "  series.parquet",
            "cwnd, ssthresh, flight, RTT, goodput and queues over time",
        ),
        (
            "  events.jsonl",
            "what the protocol did, and which packets the network dropped",
        ),
        ("  packets.pcapng", "the packets; comments state why one was lost"),
    ];
    for (name, what) in files {
        let _ = writeln!(text, "  {name:<29} {what}");
    }
    let folder = folder.display();
    let _ = write!(
        text,
        "\nLook at everything:   whimbrel report {folder}\n\
         Look at the packets:  wireshark {folder}/{RECORDED}/packets.pcapng\n\
         Only lost ones:       tshark -r {folder}/{RECORDED}/packets.pcapng -Y frame.comment\n\
         Repeat and compare:   whimbrel rerun {folder}/manifest.json\n\
         Change something:     whimbrel run {SCENARIO_PATH} --set link.wifi.loss.rate=0.05 --seeds 20\n"
    );
    text
}
