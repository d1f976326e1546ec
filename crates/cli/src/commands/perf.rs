//! `whimbrel perf`: rates between two hosts, per path.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use crate::perf::client::{Measured, Test, measure};
use crate::perf::protocol::MAX_MESSAGE;
use crate::perf::server::{SERVING, Server};
use crate::perf::{EXIT_CODES, SECURITY};
use crate::transfer::connect::Toward;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::idle::IdleOptions;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::Until;
use crate::transfer::options::{self, Options, parse_amount};
use crate::transfer::run::block_on;
use crate::transfer::{address, listen};
use crate::tui::Tui;

const EXAMPLES: &str = "\
Examples:
  whimbrel perf --server --listen 192.0.2.1,198.51.100.1
  whimbrel perf 192.0.2.1,198.51.100.1 --time 30s
  whimbrel perf 192.0.2.1 --reverse --bytes 1GB --json
";

/// Measure the rate between two hosts, in total and on each path
///
/// The client connects to a server, `whimbrel perf --server` or `whimbrel echo`, and sends messages for 10 s. For each interval, the
/// amount of data, congestion window, round-trip time and losses of each path are reported. Losses are the DATA chunks declared lost,
/// by the verdict of the scheme: congestion, transmission error, or unsure.
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{EXAMPLES}\n{SECURITY}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Addresses of the server: one or several of the same host, each an IP address or host name, with a UDP port unless it is 9899
    #[arg(value_name = "ADDR", value_delimiter = ',', required_unless_present = "server", conflicts_with = "server", value_parser = address::parse_peer)]
    to: Vec<SocketAddr>,
    /// Run as the server, until Ctrl-C
    #[arg(long, requires = "listen")]
    server: bool,
    /// With --server: local addresses to listen on, each an IP address, with a UDP port unless it is 9899. 0.0.0.0 means all IPv4
    /// addresses of this host, `[::]` all IPv4 and IPv6 addresses
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "server", value_parser = address::parse_listen)]
    listen: Vec<SocketAddr>,
    /// With --server: end after one measurement
    #[arg(long, requires = "server", hide_short_help = true)]
    once: bool,
    /// With --server: maximum duration of a measurement that a client requests
    #[arg(long, value_name = "TIME", default_value = "1 h", value_parser = parse_time, hide_short_help = true)]
    max_time: f64,
    /// The server sends and this end receives
    #[arg(long, short = 'R', conflicts_with_all = ["server", "bidir"])]
    reverse: bool,
    /// Both ends send
    #[arg(long, conflicts_with = "server")]
    bidir: bool,
    /// Number of associations at the same time, each with its own ports
    #[arg(long, short = 'P', value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    parallel: u16,
    /// Size of a message in bytes, 1 to 1 MiB, such as 1400 or 64KiB
    #[arg(long, short = 'l', value_name = "SIZE", default_value = "8192", value_parser = parse_length)]
    length: u32,
    /// Time for which data is sent, such as 30s or 2min; a number without a unit is in seconds
    #[arg(long, short = 't', value_name = "TIME", default_value = "10 s", value_parser = parse_time)]
    time: f64,
    /// Send this amount on each association, such as 100MB, instead of sending for a time
    #[arg(long, short = 'n', value_name = "SIZE", conflicts_with = "time", value_parser = parse_amount)]
    bytes: Option<u64>,
    /// Time between reports, at least 50 ms
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1 s", value_parser = parse_time, hide_short_help = true)]
    interval: f64,
    /// Print one JSON object at the end: {"start", "intervals", "end"}; with --server one line for each measurement: {"peer", "sent",
    /// "peer_received", "received", "peer_sent", "stopped", "error"}
    #[arg(long)]
    json: bool,
    /// Show rate, congestion window, round-trip time and losses of each path, live, if standard output is a terminal
    #[arg(long, conflicts_with = "json")]
    tui: bool,
    #[command(flatten)]
    idle: IdleOptions,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
}

/// A measurement by amount of data may take this long, in seconds.
const LONGEST: f64 = 3600.0;

/// Parses a time. Returns seconds.
fn parse_time(text: &str) -> Result<f64, String> {
    let allowed = Duration::from_millis(50)..=Duration::from_secs(86_400);
    options::parse_time(text, allowed, "50 ms to 24 h").map(|time| time.as_secs_f64())
}

/// Parses the size of a message.
fn parse_length(text: &str) -> Result<u32, String> {
    match parse_amount(text)?.try_into() {
        Ok(bytes @ 1..=MAX_MESSAGE) => Ok(bytes),
        _ => Err("allowed are 1 byte to 1 MiB".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    if args.server {
        return block_on(&console, async {
            let tui = Tui::start(args.tui, "whimbrel perf --server", &console);
            let outcome = serve(args, &console, &tui).await;
            tui.end();
            outcome
        });
    }
    let mut report = None;
    let code = block_on(&console, async {
        let interrupt = Interrupt::listen()?;
        let tui = Tui::start(args.tui, "whimbrel perf", &console);
        let test = test(args);
        let measuring = measure(&test, &args.toward, &args.options, &interrupt, &console, &tui);
        let measured = measuring.await;
        tui.end();
        let Measured { report: json, outcome } = measured?;
        report = Some(json);
        outcome
    });
    match report
        .filter(|_| args.json)
        .map(|report| crate::output::print_json(&report))
    {
        Some(Err(ended)) if code == ExitCode::SUCCESS => ExitCode::from(ended.0),
        _ => code,
    }
}

fn test(args: &Args) -> Test {
    Test {
        to: args.to.clone(),
        forward: !args.reverse,
        reverse: args.reverse || args.bidir,
        parallel: args.parallel.into(),
        message_bytes: args.length,
        seconds: if args.bytes.is_some() { LONGEST } else { args.time },
        bytes: args.bytes,
        interval: args.interval,
        json: args.json,
    }
}

async fn serve(args: &Args, console: &Console, tui: &Tui) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let security = listen::prepare(&args.options, console)?;
    let listening = listen::bind(&args.listen, &args.options, security, SERVING, console)?;
    let server = Server {
        console: console.clone(),
        interrupt: interrupt.clone(),
        max_time: args.max_time,
        json: args.json,
        echoes: false,
        patience: args.idle.patience(),
        tui: tui.clone(),
    };
    let attend = |association| server.clone().attend(association);
    let until = if args.once { Until::Ended } else { Until::Interrupt };
    let serving = listen::serve(listening, until, &interrupt, console, attend);
    let outcome = serving.await?.unwrap_or(Ok(()));
    if args.once { outcome } else { Ok(()) }
}
