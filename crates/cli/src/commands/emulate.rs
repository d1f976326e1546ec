//! `whimbrel emulate`: the links of a scenario between real programs.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel::UDP_ENCAPSULATION_PORT;
use whimbrel_control::Span;

use crate::output::Ended;
use crate::transfer::address;

/// The UDP port that programs send to.
const LISTEN_PORT: u16 = 9900;

const AFTER_HELP: &str = "\
Examples:
  whimbrel emulate two-radios.toml --at phone -- ping -c 5 server
  whimbrel emulate two-radios.toml --run 'server: iperf3 -s -1' --at phone -- iperf3 -c server
  whimbrel emulate two-radios.toml --shell phone
  whimbrel emulate two-radios.toml --udp

Exit codes (codes of the emulator as in env and timeout):
  0    done: the duration is over, or Ctrl-C while no program was running
  124  the machine was too slow: packets were later than --late allows, or were lost before the \
emulator read them
  125  the emulation failed; or an error in the arguments, scenario, privileges or addresses
  126  the program cannot be executed
  127  the program does not exist
  130  Ctrl-C while programs were running
Otherwise the exit code is that of the program after --, or else the first one of the --run commands that \
is not 0; 128 + N means that signal N ended the program. These codes take precedence over 124. The report \
(--json, emulation.json) has both: `exit_code`, which is null without a program, and `too_slow`. After 125 \
there is no report on standard output.";

/// The emulator itself has failed, or was used wrongly: a code that programs rarely use.
pub(crate) const FAILED_ITSELF: u8 = 125;

/// Run real programs over the links of a scenario, in real time
///
/// Each node is a network namespace, and each end of a link is a network device in it (needs root). Any program runs there unchanged.
/// Its packets pass through the links, queues, losses, schedules and traces of the scenario. The names of nodes are those of hosts. Without a program, the command prints how
/// to enter the nodes. With --udp, no privileges are needed: the ends of one flow are programs that send to the emulator instead of
/// the receiver, and the scenario's time starts with the first packet.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The scenario file
    pub(super) file: PathBuf,
    /// The node at which the program after -- runs. The emulation ends when the program ends
    #[arg(long, value_name = "NODE", conflicts_with_all = ["udp", "shell"], requires = "program")]
    pub(super) at: Option<String>,
    /// Run a shell command at a node, in addition to other programs: --run 'server: iperf3 -s'. May be repeated
    #[arg(long, value_name = "NODE: COMMAND", conflicts_with = "udp", value_parser = parse_run)]
    pub(super) run: Vec<(String, String)>,
    /// Run a shell at a node. The emulation ends when the shell ends
    #[arg(long, value_name = "NODE", conflicts_with = "udp")]
    pub(super) shell: Option<String>,
    /// Prefix of the names of network namespaces: NAME-NODE. Simultaneous emulations need different prefixes
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "udp",
        default_value = "whimbrel",
        hide_short_help = true
    )]
    pub(super) name: String,
    /// Write links.csv, results.csv, packets.pcapng, events.jsonl, manifest.json and the other files of `run` into this folder, and
    /// the report as emulation.json
    #[arg(long, value_name = "DIR", conflicts_with = "udp")]
    pub(super) out: Option<PathBuf>,
    /// Replace earlier results in that folder
    #[arg(long, requires = "out", hide_short_help = true)]
    pub(super) replace: bool,
    /// Use UDP sockets, which need no privileges
    #[arg(long)]
    pub(super) udp: bool,
    /// The flows of the scenario that real programs replace; the others are simulated. Default: all flows except those of kind udp.
    /// With --udp: one flow, whose two ends are programs; required if the scenario has several flows
    #[arg(long, value_name = "NAME", value_delimiter = ',', hide_short_help = true)]
    pub(super) flow: Vec<String>,
    /// With --udp: addresses of the receiving program, one for each of the receiver's links that the flow uses. Default: 127.0.2.1,
    /// 127.0.2.2, ... with UDP port 9899
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = address::parse_peer, requires = "udp", hide_short_help = true)]
    pub(super) to: Vec<SocketAddr>,
    /// With --udp: addresses of the emulator, to which sending programs send instead of those in --to. Default: the IP addresses in --to
    /// with UDP port 9900. SCTP with several addresses needs the same IP addresses as in --to. Port 0 selects a free port
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = parse_listen, requires = "udp", hide_short_help = true)]
    pub(super) listen: Vec<SocketAddr>,
    /// With --udp: IP addresses of sending programs, one for each of the sender's links that the flow uses. Default: 127.0.1.1,
    /// 127.0.1.2, ...
    #[arg(
        long,
        value_name = "IP",
        value_delimiter = ',',
        requires = "udp",
        hide_short_help = true
    )]
    pub(super) from: Vec<IpAddr>,
    /// Seed of random losses and delays. Default: the scenario's
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Change a field, given by its dotted path: --set link.wifi.loss.rate=0.01
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// End after this time. Default: no limit
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    pub(super) duration: Option<Span>,
    /// Maximum time by which a packet may leave later than computed. If more than 1 % of the packets exceed it, the exit code is 124
    #[arg(long, value_name = "TIME", default_value = "1 ms", hide_short_help = true)]
    pub(super) late: Span,
    /// Write this file when the emulator is ready: a JSON object with the namespaces and addresses {"nodes": {NAME: {"namespace",
    /// "addresses"}}}; with --udp the addresses {"listen", "to", "from"}
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub(super) ready_file: Option<PathBuf>,
    /// Print one JSON object instead of the tables: {"scenario", "flow", "seed", "elapsed_s", "emulated_s", "lateness_us", "unread_us", "too_slow",
    /// "exit_code", "packets", "links", "flows"}. Programs print to the same standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Print only errors
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// The program with its arguments
    #[arg(last = true, value_name = "PROGRAM", requires = "at")]
    pub(super) program: Vec<OsString>,
}

/// For `--run`: the node and the command.
fn parse_run(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((node, command)) if !command.trim().is_empty() => Ok((node.trim().to_owned(), command.trim().to_owned())),
        _ => Err("written NODE: COMMAND, for example 'server: iperf3 -s'".to_owned()),
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match imp::run(args) {
        Ok(code) => ExitCode::from(code),
        Err(Ended(code)) => ExitCode::from(own_code(code)),
    }
}

/// Returns the exit code of an emulation that has ended early. 0: the reader of its output has ended.
fn own_code(code: u8) -> u8 {
    if code == 0 { 0 } else { FAILED_ITSELF }
}

/// For `--listen`: UDP port 9900 unless another is given.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    address::parse_ip(text, LISTEN_PORT)
}

/// The receiver's addresses unless given: 127.0.2.1, 127.0.2.2, ...
fn default_to(interfaces: usize) -> Vec<SocketAddr> {
    loopback(2, interfaces)
        .map(|ip| SocketAddr::new(ip, UDP_ENCAPSULATION_PORT))
        .collect()
}

/// The sender's addresses unless given: 127.0.1.1, 127.0.1.2, ...
fn default_from(interfaces: usize) -> Vec<IpAddr> {
    loopback(1, interfaces).collect()
}

fn loopback(net: u8, interfaces: usize) -> impl Iterator<Item = IpAddr> {
    (1..=254)
        .take(interfaces)
        .map(move |host| Ipv4Addr::new(127, 0, net, host).into())
}

#[cfg(target_os = "linux")]
#[path = "emulate/linux.rs"]
mod imp;
#[cfg(target_os = "linux")]
mod report;

#[cfg(not(target_os = "linux"))]
mod imp {
    use super::Args;
    use crate::output::{Outcome, WRONG_USE, fail};

    pub(super) fn run(_: &Args) -> Outcome<u8> {
        Err(fail(WRONG_USE, "emulation needs Linux"))
    }
}
