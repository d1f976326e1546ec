//! `whimbrel schema`: the JSON schema of scenario files.

use std::process::ExitCode;

use crate::output::{exit, print};

/// Print the JSON schema of scenario files
#[derive(clap::Args, Debug)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> ExitCode {
    exit(print(&format!("{:#}\n", whimbrel_scenario::schema())))
}
