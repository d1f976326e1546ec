//! `whimbrel echo`: a server that returns messages.

use std::net::SocketAddr;
use std::process::ExitCode;

use crate::perf::server::{SERVING, Server};
use crate::perf::{EXIT_CODES, SECURITY};
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::idle::IdleOptions;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::Until;
use crate::transfer::options::Options;
use crate::transfer::run::block_on;
use crate::transfer::{address, listen};
use crate::tui::Tui;

/// The longest measurement that a client may ask for, in seconds.
const MAX_TIME: f64 = 3600.0;

/// Return every message to its sender; a server for `whimbrel ping` and `whimbrel perf`
///
/// The maximum size of a message is 1 MiB. The server stops reading from a peer that does not read the returned messages.
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{SECURITY}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Local addresses to listen on, each an IP address, with a UDP port unless it is 9899. 0.0.0.0 means all IPv4
    /// addresses of this host, `[::]` all IPv4 and IPv6 addresses
    #[arg(long, value_name = "ADDR", value_delimiter = ',', required = true, value_parser = address::parse_listen)]
    listen: Vec<SocketAddr>,
    /// End after one association with a message
    #[arg(long)]
    once: bool,
    /// Print one line of JSON for each association: {"peer", "messages", "bytes"}, for a measurement of `perf` that of `perf --server`
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    idle: IdleOptions,
    #[command(flatten)]
    options: Options,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    block_on(&console, serve(args, &console))
}

async fn serve(args: &Args, console: &Console) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let security = listen::prepare(&args.options, console)?;
    let listening = listen::bind(&args.listen, &args.options, security, SERVING, console)?;
    let server = Server {
        console: console.clone(),
        interrupt: interrupt.clone(),
        max_time: MAX_TIME,
        json: args.json,
        echoes: true,
        patience: args.idle.patience(),
        tui: Tui::default(),
    };
    let attend = |association| server.clone().attend(association);
    let until = if args.once { Until::Ended } else { Until::Interrupt };
    let serving = listen::serve(listening, until, &interrupt, console, attend);
    let outcome = serving.await?.unwrap_or(Ok(()));
    if args.once { outcome } else { Ok(()) }
}
