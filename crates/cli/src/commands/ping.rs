//! `whimbrel ping`: round-trip time, jitter and loss of each path.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};
use whimbrel::{Association, MAX_PINGS, PathChange, PathEvent, PathId, PathState};

use crate::transfer::address;
use crate::transfer::connect::{Attempt, Toward, end};
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::idle::{keep_alive, show_use};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::{Options, parse_time};
use crate::transfer::run::block_on;
use crate::transfer::security::Protection;

/// Bytes of a ping beside its Heartbeat Info and the headers below: SCTP header, chunk and parameter header.
const OVERHEAD: usize = 12 + 8;
/// Least bytes of the Heartbeat Info of a ping, which tells it from other heartbeats.
const LEAST_INFO: usize = 18;
/// Bytes of a UDP header; there is none over raw IP.
const UDP_HEADER: usize = 8;
/// Bytes of an IPv4 and of an IPv6 header.
const IP_HEADERS: (usize, usize) = (20, 40);
/// Bytes of the AUTH chunk with SHA-256 (RFC 4895 §4.1), which precedes a heartbeat with --auth-only.
const AUTH_CHUNK: usize = 8 + 32;
/// Bytes that encryption adds to a packet.
const ENCRYPTION: usize = 28;

const NOTES: &str = "\
The peer can be any SCTP endpoint that accepts associations, such as `whimbrel echo` or `whimbrel perf \
--server`. A message at the beginning and every 20 s shows it that the association is in use. A ping counts as lost if the heartbeat or its answer is lost. The peer sends the answer to the \
source address of the heartbeat.
";

const EXIT_CODES: &str = "\
Exit codes:
  0    done, or ended by Ctrl-C, which prints the summary
  1    no ping was answered
  2    wrong use of this command
  3    refused: nothing listens at the address
  4    unreachable: the network has no route
  5    timed out: the other end does not answer
  6    aborted by the other end
  7    not trusted: the other end by this one, or this one by the other end
  130  interrupted (Ctrl-C) before the connection was made";

/// Measure round-trip time, jitter and loss of each path
///
/// Sends one HEARTBEAT per interval on each path (RFC 9260 section 8.3), until Ctrl-C or --count. Heartbeats are not retransmitted, so
/// the losses are those of the network.
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{NOTES}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Addresses of the peer: one or several of the same host, each an IP address or host name, with a UDP port unless it is 9899
    #[arg(value_name = "ADDR", value_delimiter = ',', required = true, value_parser = address::parse_peer)]
    to: Vec<SocketAddr>,
    /// Number of pings on each path. Default: until Ctrl-C
    #[arg(long, short = 'c', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Time between pings on a path, at least 2 ms. At most 16384 pings on all paths together may be sent within --wait
    #[arg(long, short = 'i', value_name = "TIME", default_value = "1 s", value_parser = parse_interval)]
    interval: Duration,
    /// Time to wait for answers after the last ping
    #[arg(long, short = 'W', value_name = "TIME", default_value = "2 s", value_parser = parse_wait)]
    wait: Duration,
    /// Size of the IP packet in bytes, rounded up to a multiple of 4, at most the path MTU. The minimum is 94, with --insecure 66, with --auth-only 106; over IPv6 it is 20 more
    #[arg(long, short = 's', value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u16).range(66..))]
    size: u16,
    /// Print only the summary
    #[arg(long, short)]
    quiet: bool,
    /// Print one JSON object at the end: {"paths": [{"local", "remote", "state", "sent", "answered", "loss", "rtt_ms": {"min", "mean", "max",
    /// "deviation", "jitter"} or null}], "error"}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    parse_between(text, Duration::from_millis(2))
}

fn parse_wait(text: &str) -> Result<Duration, String> {
    parse_between(text, Duration::ZERO)
}

fn parse_between(text: &str, least: Duration) -> Result<Duration, String> {
    let allowed = format!("{} ms to 1 h", least.as_millis());
    parse_time(text, least..=Duration::from_secs(3600), &allowed)
}

/// What was measured of a path.
#[derive(Clone, Debug)]
struct Measured {
    local: SocketAddr,
    remote: SocketAddr,
    sent: u32,
    answered: u32,
    /// Milliseconds.
    min: f64,
    max: f64,
    sum: f64,
    squares: f64,
    last: Option<f64>,
    /// Smoothed difference of consecutive round-trip times (RFC 3550 section 6.4.1).
    jitter: f64,
    state: PathState,
}

impl Measured {
    fn new(local: SocketAddr, remote: SocketAddr, state: PathState) -> Self {
        Measured {
            local,
            remote,
            sent: 0,
            answered: 0,
            min: f64::INFINITY,
            max: 0.0,
            sum: 0.0,
            squares: 0.0,
            last: None,
            jitter: 0.0,
            state,
        }
    }

    fn on_answer(&mut self, rtt: f64) {
        self.answered += 1;
        self.min = self.min.min(rtt);
        self.max = self.max.max(rtt);
        self.sum += rtt;
        self.squares += rtt * rtt;
        if let Some(last) = self.last.replace(rtt) {
            self.jitter += ((rtt - last).abs() - self.jitter) / 16.0;
        }
    }

    fn mean(&self) -> f64 {
        self.sum / f64::from(self.answered.max(1))
    }

    fn deviation(&self) -> f64 {
        let mean = self.mean();
        (self.squares / f64::from(self.answered.max(1)) - mean * mean)
            .max(0.0)
            .sqrt()
    }

    /// The share of pings without an answer.
    fn loss(&self) -> f64 {
        1.0 - f64::from(self.answered) / f64::from(self.sent.max(1))
    }

    fn lines(&self) -> [String; 2] {
        let path = format!("{} > {}", self.local.ip(), self.remote.ip());
        let first = format!(
            "{path}: {} sent, {} answered, {:.1} % lost",
            self.sent,
            self.answered,
            self.loss() * 100.0
        );
        let second = if self.answered == 0 {
            "  no answer".to_owned()
        } else {
            format!(
                "  RTT min/mean/max/deviation = {:.3}/{:.3}/{:.3}/{:.3} ms, jitter {:.3} ms",
                self.min,
                self.mean(),
                self.max,
                self.deviation(),
                self.jitter
            )
        };
        [first, second]
    }

    fn json(&self) -> Value {
        let rtt = (self.answered > 0).then(|| {
            json!({ "min": self.min, "mean": self.mean(), "max": self.max, "deviation": self.deviation(), "jitter": self.jitter })
        });
        json!({
            "local": self.local.to_string(),
            "remote": self.remote.to_string(),
            "state": crate::perf::sample::State::from(self.state).name(),
            "sent": self.sent,
            "answered": self.answered,
            "loss": self.loss(),
            "rtt_ms": rtt,
        })
    }
}

/// All paths, and the pings that await an answer.
struct Pinger<'a> {
    args: &'a Args,
    association: &'a Association,
    console: &'a Console,
    paths: BTreeMap<PathId, Measured>,
    waiting: std::collections::VecDeque<(PathId, u32)>,
    next: u32,
}

impl Pinger<'_> {
    /// Sends a ping on each path.
    fn send(&mut self) {
        let number = self.next;
        self.next += 1;
        for path in self.association.paths() {
            let bytes = usize::from(self.args.size).saturating_sub(overhead(self.args, path.remote));
            let fresh = || Measured::new(path.local, path.remote, path.state);
            let measured = self.paths.entry(path.id).or_insert_with(fresh);
            measured.state = path.state;
            if self.association.ping(path.id, number, bytes) {
                measured.sent += 1;
                self.waiting.push_back((path.id, number));
            }
        }
        while self.waiting.len() > MAX_PINGS {
            self.waiting.pop_front();
        }
    }

    fn on_event(&mut self, event: &PathEvent) {
        let path = format!("{} > {}", event.local.ip(), event.remote.ip());
        if let PathChange::PingAnswered { number, rtt } = event.change {
            let Some(place) = self
                .waiting
                .iter()
                .rposition(|waiting| *waiting == (event.path, number))
            else {
                return;
            };
            self.waiting.remove(place);
            let millis = rtt.as_nanos() as f64 / 1e6;
            if let Some(measured) = self.paths.get_mut(&event.path) {
                measured.on_answer(millis);
            }
            if !self.args.quiet && !self.args.json {
                self.console.say(format!("{path}: ping {number}, {millis:.3} ms"));
            }
        } else if !self.args.json {
            self.console.note(format!("{path}: {}", event.change));
        }
    }
}

/// Returns the bytes of a ping to this address beside its Heartbeat Info.
fn overhead(args: &Args, remote: SocketAddr) -> usize {
    let (v4, v6) = IP_HEADERS;
    let ip = if remote.is_ipv6() { v6 } else { v4 };
    let udp = if remote.port() == 0 { 0 } else { UDP_HEADER };
    let key = match args.options.security.protection() {
        Protection::None => 0,
        Protection::SecretAuthenticates => AUTH_CHUNK,
        Protection::SecretEncrypts | Protection::Identities => ENCRYPTION,
    };
    ip + udp + key + OVERHEAD
}

/// Checks that pings of this size can be sent, and that none is forgotten before --wait is over.
fn check(args: &Args, association: &Association) -> Result<(), Failure> {
    let overheads = association.paths().into_iter().map(|path| overhead(args, path.remote));
    let least = overheads.max().unwrap_or_default() + LEAST_INFO;
    if usize::from(args.size) < least {
        return Err(Failure::wrong_use(format!(
            "--size {}: the least size of a ping on these paths is {least}",
            args.size
        )));
    }
    let paths = association.paths().len();
    let within_wait = args.wait.as_nanos() / args.interval.as_nanos() + 1;
    let each = args.count.map_or(within_wait, |count| within_wait.min(count.into()));
    if each * paths as u128 <= MAX_PINGS as u128 {
        return Ok(());
    }
    Err(Failure::wrong_use(format!(
        "with {}, a ping every {:?} is more than {MAX_PINGS} pings within --wait ({:?}): use a longer --interval or a shorter --wait",
        crate::output::count(paths as u64, "path"),
        args.interval,
        args.wait
    )))
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    let mut report = None;
    let code = block_on(&console, ping(args, &console, &mut report));
    match report.map(|report: Value| crate::output::print_json(&report)) {
        Some(Err(ended)) if code == ExitCode::SUCCESS => ExitCode::from(ended.0),
        _ => code,
    }
}

/// Shows the peer that the association is in use, and drops what the peer sends, for as long as it is polled. Servers abort associations
/// without a message.
async fn stay(association: &Association) -> std::convert::Infallible {
    show_use(association);
    let dropping = async {
        let mut scrap = Vec::new();
        while let Ok(Some(_)) = association.recv_into(&mut scrap).await {}
        // What ends the association is not for this task to say.
        std::future::pending().await
    };
    tokio::select! {
        never = keep_alive(association) => never,
        never = dropping => never,
    }
}

async fn ping(args: &Args, console: &Console, report: &mut Option<Value>) -> Result<(), Failure> {
    let interrupt = Interrupt::listen()?;
    let caller = args.toward.caller(&args.to, &args.options, console)?;
    let stack = caller.stack(1)?;
    let association = caller.connect(&stack, Attempt::First, &interrupt).await?;
    if let Err(failure) = check(args, &association) {
        end(
            &stack,
            &association,
            false,
            "the measurement cannot be made",
            &interrupt,
        )
        .await;
        return Err(failure);
    }
    let mut events = association.path_events();
    let mut pinger = Pinger {
        args,
        association: &association,
        console,
        paths: BTreeMap::new(),
        waiting: std::collections::VecDeque::new(),
        next: 1,
    };
    let mut tick = tokio::time::interval(args.interval);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let is_last = |next: u32| args.count.is_some_and(|count| next > count);
    let mut failure = None;
    // From the last ping on, its answers are awaited.
    let mut deadline = None;
    let mut staying = pin!(stay(&association));
    loop {
        tokio::select! {
            biased;
            () = interrupt.asked(1) => break,
            never = &mut staying => match never {},
            event = events.next() => match event {
                Some(event) => {
                    pinger.on_event(&event);
                    if deadline.is_some() && pinger.waiting.is_empty() {
                        break;
                    }
                }
                None => {
                    failure = Some(Failure::from(whimbrel::AssociationError::Closed(association.closed().await)));
                    break;
                }
            },
            () = async { tokio::time::sleep_until(deadline.unwrap_or_else(tokio::time::Instant::now)).await }, if deadline.is_some() => break,
            _ = tick.tick(), if deadline.is_none() => {
                pinger.send();
                if is_last(pinger.next) {
                    deadline = Some(tokio::time::Instant::now() + args.wait);
                }
            }
        }
    }
    let answered: u32 = pinger.paths.values().map(|path| path.answered).sum();
    if args.json {
        let paths: Vec<_> = pinger.paths.values().map(Measured::json).collect();
        *report = Some(json!({ "paths": paths, "error": failure.as_ref().map(|failure| failure.message.clone()) }));
    } else {
        for line in pinger.paths.values().flat_map(Measured::lines) {
            console.say(line);
        }
    }
    if failure.is_none() {
        end(&stack, &association, true, "the measurement is over", &interrupt).await;
    }
    match failure {
        Some(failure) => Err(failure),
        None if answered == 0 => Err(Failure::file("no ping was answered")),
        None => Ok(()),
    }
}
