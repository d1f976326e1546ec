//! `whimbrel check`: reports the errors of a scenario, or prints it with all defaults.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_scenario::{Resolved, Scenario, hash};

use crate::output::{EXIT_CODES, Outcome, count, exit, note, print, scenario_error, size};

/// Check a scenario without running it
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The scenario file
    file: PathBuf,
    /// Change a field, given by its dotted path: --set link.wifi.loss.rate=0.01
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the scenario with all defaults and all changes, as a scenario file
    #[arg(long)]
    explain: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let scenario = Scenario::load(&args.file, &args.set).map_err(|error| scenario_error(&error))?;
    if args.explain {
        return match Resolved::of(&scenario) {
            Some(resolved) => print(&resolved.to_toml(&scenario)),
            None => Ok(()),
        };
    }
    for warning in scenario.warnings() {
        note(format_args!("warning: {warning}"));
    }
    let config = &scenario.points[0].config;
    print(&format!(
        "{}: ok: {}, {}, {}, {}; hash {}\n",
        args.file.display(),
        count(config.node.len(), "node"),
        count(config.link.len(), "link"),
        count(config.flow.len(), "flow"),
        size(&scenario),
        &hash(&scenario)[..16],
    ))
}
