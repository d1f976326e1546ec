//! `whimbrel emulate-enter`: the first step of a program that `emulate` starts. It enters the namespace and becomes the program.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Run a program in a network namespace; it ends with its parent
#[derive(clap::Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The file of the namespace
    space: PathBuf,
    /// The program with its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    command: Vec<OsString>,
}

#[cfg(target_os = "linux")]
pub(crate) fn run(args: &Args) -> ExitCode {
    let (code, error) = whimbrel_emu::netns::enter(&args.space, &args.command);
    let program = args.command.first().map(|program| program.to_string_lossy());
    let program = program.unwrap_or_default();
    crate::output::note(format_args!("error: cannot run {program}: {error}"));
    ExitCode::from(code)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn run(_: &Args) -> ExitCode {
    crate::output::exit(Err(crate::output::fail(
        crate::output::WRONG_USE,
        "emulation needs Linux",
    )))
}
