//! `whimbrel completions` and `whimbrel man`: files for shells and for man.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::output::{FAILED, Outcome, exit, fail, note, print};

/// Print the completions of this command for a shell
///
/// bash: `whimbrel completions bash > ~/.local/share/bash-completion/completions/whimbrel`.
/// zsh: into a file `_whimbrel` in a folder of $fpath. fish: `~/.config/fish/completions/whimbrel.fish`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Write man pages of all commands into a folder
///
/// One file for each command, `whimbrel-send.1` and so on. `man -l DIR/whimbrel.1` shows one.
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// The folder; created if it does not exist. Files of the same names are replaced
    dir: PathBuf,
}

pub(crate) fn run(mut command: clap::Command, args: &Args) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "whimbrel", &mut text);
    exit(print(&String::from_utf8_lossy(&text)))
}

pub(crate) fn run_man(command: clap::Command, args: &ManArgs) -> ExitCode {
    exit(write_man(command, &args.dir))
}

fn write_man(command: clap::Command, dir: &std::path::Path) -> Outcome {
    let cannot = |error: std::io::Error| fail(FAILED, format_args!("cannot write into {}: {error}", dir.display()));
    std::fs::create_dir_all(dir).map_err(cannot)?;
    clap_mangen::generate_to(command, dir).map_err(cannot)?;
    note(format_args!("man pages are in {}", dir.display()));
    Ok(())
}
