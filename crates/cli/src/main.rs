//! The `whimbrel` command.

// These macros panic if the output is closed or full. `output` and `transfer::console` print instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod execute;
mod interrupt;
mod output;
mod perf;
mod progress;
mod transfer;
mod tui;
mod tunnel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Multi-homed SCTP (RFC 9260): simulates scenarios, compares transport schemes, sends files over UDP, emulates links
#[derive(Parser, Debug)]
#[command(name = "whimbrel", version, max_term_width = 100, after_help = output::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Send a file over two simulated radio links and write all recorded files
    Demo(commands::demo::Args),
    /// Run a scenario: every point of its sweep with every seed
    Run(commands::run::Args),
    /// Print the tables of saved results
    Show(commands::show::Args),
    /// Write a report of saved results: one HTML file with tables and figures
    Report(commands::report::Args),
    /// Draw figures of saved results as SVG files, with --pdf also as PDF files
    Plot(commands::plot::Args),
    /// Explain the fate of a packet in saved results
    Why(commands::why::Args),
    /// Write the events of a recorded run for other viewers: Perfetto, qvis
    Export(commands::export::Args),
    /// Merge the parts of a sweep
    Merge(commands::merge::Args),
    /// List the metrics: their names, their definitions, and the time they cover
    Metrics(commands::metrics::Args),
    /// Repeat the runs of a manifest.json, and compare the files
    Rerun(commands::rerun::Args),
    /// Run studies that check published claims
    Study(commands::study::Args),
    /// Check a scenario without running it
    Check(commands::check::Args),
    /// List the schemes, show the parts of a scheme, or list all parts
    Schemes(commands::schemes::Args),
    /// Print the JSON schema of scenario files
    Schema(commands::schema::Args),
    /// Send files and folders over SCTP to `whimbrel recv`
    Send(commands::send::Args),
    /// Receive files and folders over SCTP from `whimbrel send`
    Recv(commands::recv::Args),
    /// Measure the rate between two hosts, in total and on each path
    Perf(commands::perf::Args),
    /// Measure round-trip time, jitter and loss of each path
    Ping(commands::ping::Args),
    /// Carry TCP connections, UDP datagrams and IP packets over all paths of one association
    Tunnel(commands::tunnel::Args),
    /// Return every message to its sender; a server for `whimbrel ping` and `whimbrel perf`
    Echo(commands::echo::Args),
    /// Forward packets of real programs through the links of a scenario, in real time
    Emulate(commands::emulate::Args),
    /// Print the completions of this command for a shell
    Completions(commands::completions::Args),
    /// Write man pages of all commands into a folder
    Man(commands::completions::ManArgs),
    /// Run a program in a namespace of an emulation; `emulate` uses it
    #[command(name = "emulate-enter", hide = true)]
    Enter(commands::enter::Args),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    match cli.command {
        Command::Demo(args) => commands::demo::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Show(args) => commands::show::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Plot(args) => commands::plot::run(&args),
        Command::Why(args) => commands::why::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Merge(args) => commands::merge::run(&args),
        Command::Metrics(args) => commands::metrics::run(&args),
        Command::Rerun(args) => commands::rerun::run(&args),
        Command::Study(args) => commands::study::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Schemes(args) => commands::schemes::run(&args),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Send(args) => commands::send::run(&args),
        Command::Recv(args) => commands::recv::run(&args),
        Command::Perf(args) => commands::perf::run(&args),
        Command::Ping(args) => commands::ping::run(&args),
        Command::Tunnel(args) => commands::tunnel::run(&args),
        Command::Echo(args) => commands::echo::run(&args),
        Command::Completions(args) => commands::completions::run::<Cli>(&args),
        Command::Man(args) => commands::completions::run_man::<Cli>(&args),
        Command::Emulate(args) => commands::emulate::run(&args),
        Command::Enter(args) => commands::enter::run(&args),
    }
}

/// Prints an error of the command line, or the help that it asks for. Returns the exit code.
fn misused(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    let is_emulate = std::env::args_os().nth(1).is_some_and(|name| name == "emulate");
    if !error.use_stderr() {
        ExitCode::SUCCESS
    } else if is_emulate {
        ExitCode::from(commands::emulate::FAILED_ITSELF)
    } else {
        ExitCode::from(output::WRONG_USE)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    /// Commands without `--json`: what they print, or write, has a format of its own, or is that of a program.
    const OTHERWISE: [&str; 4] = ["completions", "emulate-enter", "man", "schema"];

    /// Calls `visit` with the name of each command that can be called, and whether it has `--json`.
    fn walk(command: &clap::Command, name: &str, visit: &mut impl FnMut(&str, bool)) {
        if !command.is_subcommand_required_set() {
            let option = command.get_arguments().find(|arg| arg.get_long() == Some("json"));
            visit(name, option.is_some_and(|arg| arg.get_help().is_some()));
        }
        for subcommand in command.get_subcommands().filter(|command| command.get_name() != "help") {
            walk(subcommand, &format!("{name} {}", subcommand.get_name()), visit);
        }
    }

    #[test]
    fn every_command_has_json_except_those_listed() {
        let mut without = Vec::new();
        let mut visited = 0;
        walk(&Cli::command(), "whimbrel", &mut |name, has_json| {
            visited += 1;
            if !has_json {
                without.push(name.trim_start_matches("whimbrel ").to_owned());
            }
        });
        without.sort();
        assert_eq!(without, OTHERWISE);
        assert!(visited > 20, "{visited}");
    }
}
