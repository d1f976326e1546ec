//! `whimbrel send`: files, folders and standard input to a `whimbrel recv`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use whimbrel::Association;

use crate::output::count;
use crate::transfer::connect::{Attempt, Toward};
use crate::transfer::console::Console;
use crate::transfer::entries;
use crate::transfer::failure::{EXIT_CODES, Failure, SECURITY};
use crate::transfer::frame::{CANCELLED, Frame, json_line, visible};
use crate::transfer::idle::keep_alive;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::Options;
use crate::transfer::progress::{hex, summary};
use crate::transfer::run::block_on;
use crate::transfer::sending::{Sent, transfer};
use crate::transfer::{address, paths};
use crate::tui::Tui;

/// After Ctrl-C the shutdown may take this long before the association is aborted.
const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(10);
/// The same once the receiver has the files: time for a SHUTDOWN that is lost and repeated on another path (RTO.Min is 1 s).
const FAREWELL_PATIENCE: Duration = Duration::from_secs(3);

const NOTES: &str = "\
If the transfer of a file fails because one end was killed or cannot be reached, the receiver keeps the \
received part. If the same command is run again, both ends compare SHA-256 digests of this part, and the \
transfer continues after it. After Ctrl-C the receiver discards the part, unless it cannot be reached.
";

/// Send files and folders over SCTP to `whimbrel recv`
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{NOTES}\n{SECURITY}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Files and folders to send; `-` means standard input. A folder is sent under its own name, with its regular files and subfolders
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Addresses of the receiver: one or several of the same host, each an IP address or host name, with a UDP port unless it is
    /// 9899
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true, value_parser = address::parse_peer)]
    to: Vec<SocketAddr>,
    /// File name at the receiver for the data read from standard input
    ///
    /// [default: stdin]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    name: Option<String>,
    /// Print one line of JSON for each file: {"name", "bytes", "begin", "sha256", "seconds"}; `begin` is the place from which it was sent
    #[arg(long)]
    json: bool,
    /// Show rate, congestion window, round-trip time and losses of each path, live, if standard output is a terminal
    #[arg(long)]
    tui: bool,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    block_on(&console, async {
        let tui = Tui::start(args.tui, "whimbrel send", &console);
        let outcome = send(args, &console, &tui).await;
        tui.end();
        outcome
    })
}

async fn send(args: &Args, console: &Console, tui: &Tui) -> Result<(), Failure> {
    let caller = args.toward.caller(&args.to, &args.options, console)?;
    let stdin_name = stdin_name(args)?;
    let entries = entries::list(&args.files, stdin_name, console)?;
    let interrupt = Interrupt::listen()?;
    let stack = caller.stack(1)?;
    let association = caller.connect(&stack, Attempt::First, &interrupt).await?;

    let watching = tui.watch("to the receiver", &association);
    let start = Instant::now();
    let is_single = matches!(&entries[..], [one] if !one.header.is_folder);
    let (mut files, mut bytes) = (0_u64, 0_u64);
    let report = |sent: &Sent| {
        files += 1;
        bytes += sent.size - sent.from;
        console.say(if args.json {
            let seconds = start.elapsed().as_secs_f64();
            let line = json!({ "name": sent.name, "bytes": sent.size, "begin": sent.from, "sha256": hex(&sent.digest), "seconds": seconds });
            json_line(&line)
        } else if is_single {
            let lines = [
                format!("sent {}: {}", visible(&sent.name), summary(sent.size - sent.from, start.elapsed())),
                format!("sha256 {}", hex(&sent.digest)),
            ];
            lines.join("\n")
        } else {
            format!("{}  {}", hex(&sent.digest), visible(&sent.name))
        });
    };
    let outcome = tokio::select! {
        outcome = transfer(&association, entries, console, report) => outcome,
        () = interrupt.asked(1) => Err(Failure::interrupted("interrupted")),
        never = paths::watch(&association, console) => match never {},
        never = keep_alive(&association) => match never {},
    };
    drop(watching);
    if let Err(mut failure) = outcome {
        let is_known = end_early(&association, &interrupt).await;
        stack.wait_idle().await;
        if failure.is_interrupt() {
            failure.message += if is_known {
                "; the receiver keeps nothing of an incomplete file"
            } else {
                "; the receiver may keep an incomplete file, as it has not answered"
            };
        }
        return Err(failure);
    }
    if !args.json && !is_single {
        console.say(format!(
            "sent {}: {}",
            count(files, "file"),
            summary(bytes, start.elapsed())
        ));
    }
    // The receiver has everything. What becomes of the shutdown changes nothing, and is not waited for if a path has failed.
    if tokio::time::timeout(FAREWELL_PATIENCE, association.shutdown())
        .await
        .is_err()
    {
        association.abort("the transfer is over");
    }
    stack.wait_idle().await;
    Ok(())
}

/// Returns the name of standard input at the receiver.
fn stdin_name(args: &Args) -> Result<&str, Failure> {
    match &args.name {
        Some(name) if args.files.iter().any(|file| file.as_os_str() == "-") => Ok(name),
        None => Ok("stdin"),
        Some(_) => Err(Failure::wrong_use(
            "--name is for standard input (`-`); files have their own names at the receiver",
        )),
    }
}

/// Reports the end of the data to the receiver and shuts the association down; aborts it if that takes too long. Returns whether the
/// receiver has confirmed it.
async fn end_early(association: &Association, interrupt: &Interrupt) -> bool {
    let in_good_order = async {
        let is_said = association.send(Frame::Cancel.into_message()).await.is_ok();
        // Why the association ends is known already.
        is_said && association.shutdown().await.is_ok()
    };
    tokio::select! {
        is_known = in_good_order => return is_known,
        () = tokio::time::sleep(SHUTDOWN_PATIENCE) => {}
        () = interrupt.asked(2) => {}
    }
    association.abort(CANCELLED);
    false
}
