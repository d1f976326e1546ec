//! The project's chores: `cargo xtask test`, `generate`, `book`, `format`, `faults`, `same`, `cycles`, `bench`, `playground`, `fuzz`.

mod bench;
mod book;
mod bundle;
mod companions;
mod cycles;
mod faults;
mod format;
mod fuzz;
mod generate;
mod headline;
mod inline;
mod json;
mod machine;
mod markdown;
mod packages;
mod pages;
mod picture;
mod playground;
mod plots;
mod process;
mod python;
mod reference;
mod requirements;
mod same;
mod test;
mod uses;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Whimbrel's own chores",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Run every test: Rust, command line, interop, Python; installs the packages that they need
    Test(test::Args),
    /// Write the generated files, or check that they are current
    Generate(generate::Args),
    /// Build the book of docs/ with mdBook, and check the links of all Markdown files
    Book(book::Args),
    /// Run the benchmarks that compare with other stacks
    Bench(bench::Args),
    /// Break the protocol core, one fault at a time, and check that tests detect it
    Faults(faults::Args),
    /// Compare the output of every example and quick study with that of another revision, byte by byte
    Same(same::Args),
    /// Build the playground: the simulator as a web page that opens from disk
    Playground(playground::Args),
    /// List cycles of imports and calls between the files of each crate; fail if a crate has more than it may
    Cycles(cycles::Args),
    /// Format every Rust file, those of registered parts too
    Format(format::Args),
    /// Run the fuzz targets
    Fuzz(fuzz::Args),
}

/// The result of a chore; the error is a message for the user.
type Outcome<T = ()> = Result<T, String>;

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test(args) => test::run(&args),
        Chore::Generate(args) => generate::run(&args),
        Chore::Book(args) => book::run(&args),
        Chore::Bench(args) => bench::run(&args),
        Chore::Faults(args) => faults::run(&args),
        Chore::Same(args) => same::run(&args),
        Chore::Playground(args) => playground::run(&args),
        Chore::Cycles(args) => cycles::run(&args),
        Chore::Format(args) => format::run(&args),
        Chore::Fuzz(args) => fuzz::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            note(&format!("error: {message}"));
            ExitCode::FAILURE
        }
    }
}

/// Prints a line to standard output. A closed output is ignored.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line to standard error. A closed output is ignored.
fn note(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Returns the folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies in the workspace's folder")
        .to_path_buf()
}
