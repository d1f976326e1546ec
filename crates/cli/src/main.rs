//! The `whimbrel` command.

// These macros panic if the output is closed or full. `output` and `transfer::console` print instead.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod commands;
mod execute;
mod help;
mod interrupt;
mod output;
mod perf;
mod progress;
mod transfer;
mod tui;
mod tunnel;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

/// A multi-homed SCTP (RFC 9260) stack: simulate scenarios, compare transport schemes, send files over UDP, emulate links
#[derive(Parser, Debug)]
#[command(name = "whimbrel", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

// A variant without a comment has the description of its arguments; a comment here would hide the second paragraph from `--help`.
#[derive(Subcommand, Debug)]
enum Command {
    Demo(commands::demo::Args),
    /// Run a scenario: every point of its sweep with every seed
    Run(commands::run::Args),
    Show(commands::show::Args),
    Report(commands::report::Args),
    Plot(commands::plot::Args),
    Why(commands::why::Args),
    Export(commands::export::Args),
    Merge(commands::merge::Args),
    Metrics(commands::metrics::Args),
    Rerun(commands::rerun::Args),
    /// Run studies that check published claims
    Study(commands::study::Args),
    /// Check a scenario without running it, and estimate large runs
    Check(commands::check::Args),
    /// List the schemes, show the parts of a scheme, or list all parts
    Schemes(commands::schemes::Args),
    /// Print the JSON schema of scenario files
    Schema(commands::schema::Args),
    /// Send files and folders over SCTP to `whimbrel recv`
    Send(commands::send::Args),
    /// Receive files and folders over SCTP from `whimbrel send`
    Recv(commands::recv::Args),
    Perf(commands::perf::Args),
    Ping(commands::ping::Args),
    Tunnel(commands::tunnel::Args),
    Echo(commands::echo::Args),
    Keygen(commands::keygen::Args),
    Emulate(commands::emulate::Args),
    Completions(commands::completions::Args),
    Man(commands::completions::ManArgs),
    /// Run a program in a namespace of an emulation; `emulate` uses it
    #[command(name = "emulate-enter", hide = true)]
    Enter(commands::enter::Args),
}

/// Returns the command, as the parser and the pages of the help need it.
fn command() -> clap::Command {
    help::forms(Cli::command())
}

fn main() -> ExitCode {
    let parsed = command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command())));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    let code = match cli.command {
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
        Command::Keygen(args) => commands::keygen::run(&args),
        Command::Completions(args) => commands::completions::run(command(), &args),
        Command::Man(args) => commands::completions::run_man(command(), &args),
        Command::Emulate(args) => commands::emulate::run(&args),
        Command::Enter(args) => commands::enter::run(&args),
    };
    transfer::recording::finish();
    code
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
        walk(&crate::command(), "whimbrel", &mut |name, has_json| {
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
