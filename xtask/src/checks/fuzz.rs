//! `cargo xtask fuzz`: runs each fuzz target for a while.

use std::process::Command;

use crate::chore::{Outcome, root};
use crate::process;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// How long to run each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Run only this target
    target: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let folder = root().join("fuzz");
    if process::output(Command::new("cargo").args(["fuzz", "--version"])).is_err() {
        return Err(
            "cargo-fuzz is not installed: cargo install cargo-fuzz; it also needs the nightly toolchain".to_owned(),
        );
    }
    let targets = match &args.target {
        Some(target) => vec![target.clone()],
        None => process::output(
            Command::new("cargo")
                .args(["+nightly", "fuzz", "list"])
                .current_dir(&folder),
        )?
        .lines()
        .map(str::to_owned)
        .collect(),
    };
    for target in targets {
        // New inputs go to `corpus`; the seeds in the repository are only read.
        let (corpus, seeds) = (folder.join("corpus").join(&target), folder.join("seeds").join(&target));
        std::fs::create_dir_all(&corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
        let limit = format!("-max_total_time={}", args.seconds);
        let mut command = Command::new("cargo");
        command.args(["+nightly", "fuzz", "run", &target]).arg(corpus);
        if seeds.is_dir() {
            command.arg(seeds);
        }
        process::run(command.args(["--", &limit]).current_dir(&folder))?;
    }
    Ok(())
}
