//! `cargo xtask bench`: comparisons with other stacks and simulators.

use std::process::Command;

use crate::chore::{Outcome, root};
use crate::{packages, process};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to compare: everything, the protocol in memory, sockets on loopback or on long paths, a client during hostile traffic,
    /// the simulator, or its radios
    #[arg(value_parser = ["all", "memory", "sockets", "long-path", "hostile", "connections", "simulator", "radio"], default_value = "all")]
    what: String,
}

pub(crate) fn run(args: &Args) -> Outcome {
    packages::ensure(packages::FOR_NS2)?;
    process::run(Command::new("bench/run").arg(&args.what).current_dir(root()))
}
