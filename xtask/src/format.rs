//! `cargo xtask format`: formats every Rust file.
//!
//! `cargo fmt` follows `mod` items only. The files of parts are declared by the lines of their registries.

use std::process::Command;

use crate::{Outcome, process, root};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail if a file is not formatted
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let check: &[&str] = if args.check { &["--check"] } else { &[] };
    process::run(process::cargo(&["fmt", "--all"]).args(check.iter().map(|flag| flag.to_owned())))?;
    let mut list = Command::new("git");
    let files = process::output(
        list.current_dir(root())
            .args(["ls-files", "crates/control/src/**/*.rs"]),
    )?;
    let mut format = Command::new("rustfmt");
    format.current_dir(root()).args(["--edition", "2024"]).args(check);
    process::run(format.args(files.lines().filter(|file| root().join(file).exists())))
}
