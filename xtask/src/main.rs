//! The project's chores: `cargo xtask test`, `generate`, `book`, `format`, `faults`, `peers`, `same`, `cycles`, `bench`, `playground`, `fuzz`.

mod bench;
mod checks;
mod chore;
mod docs;
mod files;
mod generated;
mod packages;
mod process;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use checks::{cycles, faults, format, fuzz, peers, same, test};
use chore::note;
use docs::{book, generate};
use web::playground;

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
    /// Run the tests with other stacks, and print the matrix of peers, transports and features
    Peers(peers::Args),
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

fn main() -> ExitCode {
    let outcome = match Cli::parse().chore {
        Chore::Test(args) => test::run(&args),
        Chore::Generate(args) => generate::run(&args),
        Chore::Book(args) => book::run(&args),
        Chore::Bench(args) => bench::run(&args),
        Chore::Faults(args) => faults::run(&args),
        Chore::Peers(args) => peers::run(&args),
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
