//! `whimbrel emulate`: the links of a scenario between real programs.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel::UDP_ENCAPSULATION_PORT;
use whimbrel_control::Span;

use crate::output::exit;
use crate::transfer::address;

/// The UDP port that programs send to.
const LISTEN_PORT: u16 = 9900;

const AFTER_HELP: &str = "\
Exit codes:
  0    done: the duration is over, or Ctrl-C
  1    the emulation failed
  2    wrong use: arguments, scenario, or addresses; nothing was emulated
  3    the machine was too slow: packets were later than --late allows, or lost before they were read";

/// Forward packets of real programs through the links of a scenario, in real time
///
/// The ends of one flow are real programs; all other flows are simulated. Programs send to the emulator instead of the receiver. It
/// forwards packets to the receiver when the links deliver them, and vice versa. The network's time, with its schedules, traces and
/// simulated flows, starts with the first packet.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The scenario file
    pub(super) file: PathBuf,
    /// Use UDP sockets, which need no privileges
    #[arg(long)]
    pub(super) udp: bool,
    /// The flow whose ends are real programs; required if the scenario has several flows
    #[arg(long, value_name = "NAME")]
    pub(super) flow: Option<String>,
    /// Addresses of the receiving program: one for each link at the receiver's node that the flow uses. Default: 127.0.2.1,
    /// 127.0.2.2, ... with UDP port 9899
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = address::parse_peer)]
    pub(super) to: Vec<SocketAddr>,
    /// Addresses that sending programs use instead. Default: the IP addresses in --to with UDP port 9900. SCTP with several
    /// addresses needs the same IP addresses as in --to. Port 0 selects a free port
    #[arg(long, value_name = "ADDR", value_delimiter = ',', value_parser = parse_listen)]
    pub(super) listen: Vec<SocketAddr>,
    /// IP addresses of sending programs: one for each link at the sender's node that the flow uses. Default: 127.0.1.1, 127.0.1.2,
    /// ...
    #[arg(long, value_name = "IP", value_delimiter = ',')]
    pub(super) from: Vec<IpAddr>,
    /// Seed of random losses and delays. Default: the scenario's
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Change a field, given by its dotted path: --set link.wifi.loss.rate=0.01
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
    /// End after this time. Default: at Ctrl-C
    #[arg(long, value_name = "TIME")]
    pub(super) duration: Option<Span>,
    /// The machine is too slow if more than 1 % of packets leave later than this
    #[arg(long, value_name = "TIME", default_value = "1 ms")]
    pub(super) late: Span,
    /// Write this file when the emulator is ready: a JSON object with the addresses {"listen", "to", "from"}
    #[arg(long, value_name = "FILE")]
    pub(super) ready_file: Option<PathBuf>,
    /// Print one JSON object instead of the tables
    #[arg(long)]
    pub(super) json: bool,
    /// Print only errors
    #[arg(long, short)]
    pub(super) quiet: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(imp::run(args))
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

    pub(super) fn run(_: &Args) -> Outcome {
        Err(fail(WRONG_USE, "emulation needs Linux"))
    }
}
