//! Runs the emulation.

mod netns;

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use whimbrel_control::Span;
use whimbrel_emu::{Emulator, Limits, UdpAddresses, UdpGate};
use whimbrel_scenario::{Scenario, visible, visible_json};
use whimbrel_sim::NoObserver;
use whimbrel_sim::config::{FlowKind, SimConfig};
use whimbrel_sim::topology::Topology;

use super::{Args, default_from, default_to, report};
use crate::interrupt::listen;
use crate::output::{Ended, FAILED, Outcome, WRONG_USE, count, fail, note, print, scenario_error};

/// The longest time between two looks at the network: about 20 packets at 1 Gbit/s.
const MOST_GRAIN: Duration = Duration::from_micros(250);

/// The machine was too slow.
const TOO_SLOW: u8 = 124;

/// Returns the exit code.
pub(super) fn run(args: &Args) -> Outcome<u8> {
    let scenario = Scenario::load(&args.file, &args.set).map_err(|error| scenario_error(&error))?;
    if scenario.points.len() != 1 && (args.udp || !netns::is_one_network(args, &scenario)?) {
        let message = format_args!(
            "the scenario has {} points; choose one: --set {}",
            scenario.points.len(),
            scenario
                .axes
                .iter()
                .map(|axis| format!("{axis}=VALUE"))
                .collect::<Vec<_>>()
                .join(" --set ")
        );
        return Err(fail(WRONG_USE, message));
    }
    if args.udp {
        udp(args, &scenario)
    } else {
        netns::run(args, scenario)
    }
}

/// Emulates with UDP sockets.
fn udp(args: &Args, scenario: &Scenario) -> Outcome<u8> {
    let point = &scenario.points[0];
    let config = &point.config;
    let wanted = match &args.flow[..] {
        [] => None,
        [only] => Some(only.as_str()),
        _ => return Err(fail(WRONG_USE, "--udp has a single --flow")),
    };
    let flow = choose_flow(config, wanted)?;
    let gate = UdpGate::open(addresses(args, config, flow)?).map_err(|error| fail(WRONG_USE, error))?;
    let addresses = gate.addresses().clone();
    let limits = Limits {
        duration: args.duration.map(duration),
        grain: grain(config),
        ..Limits::default()
    };
    let seed = args.seed.unwrap_or(scenario.seed);
    let mut observer = NoObserver;
    let emulator = Emulator::new(config, seed, &point.resources, &[flow], gate, limits, &mut observer)
        .map_err(|error| fail(WRONG_USE, error))?;
    let stop = listen()?;
    let name = &config.flow[flow].name;
    if !args.quiet {
        note(format_args!(
            "emulating {}, flow {}, seed {seed}",
            visible(&scenario.title),
            visible(name)
        ));
        tell_commands(&addresses, config.flow[flow].kind);
    }
    if let Some(path) = &args.ready_file {
        let ready = json!({"listen": addresses.listen, "to": addresses.to, "from": addresses.from});
        write_whole(path, &format!("{ready}\n"))
            .map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", path.display())))?;
    }
    let done = emulator.run(&stop).map_err(|error| fail(FAILED, error))?;
    let too_slow = done.too_slow(args.late);
    let text = if args.json {
        let json = report::json(&scenario.title, Some(name), &done, too_slow.as_deref(), None);
        visible_json(&format!("{json}\n"))
    } else {
        report::text(&done)
    };
    print_if_read(&text)?;
    if done.gate.received == 0 {
        note("note: no packet came in");
    }
    Ok(conclude(0, too_slow))
}

/// Prints a report. If its reader has gone, the exit code is the same.
fn print_if_read(text: &str) -> Outcome {
    match print(text) {
        Err(Ended(0)) => Ok(()),
        printed => printed,
    }
}

/// Returns the exit code for that of the programs.
fn conclude(code: u8, too_slow: Option<String>) -> u8 {
    let slow = too_slow.map(|why| note(format_args!("error: the machine was too slow: {why}")));
    match (code, slow) {
        (0, Some(())) => TOO_SLOW,
        _ => code,
    }
}

/// How often the emulator looks at the network: rarely, so that one system call carries many packets, but often enough that this adds
/// less than 1 % to the delay of any link.
fn grain(config: &SimConfig) -> Duration {
    let shortest = config.link.iter().map(|link| link.delay).min().unwrap_or_default();
    (duration(shortest) / 100).clamp(Limits::default().grain, MOST_GRAIN)
}

/// The place of the flow whose ends are real programs. One in the association of another flow has none.
fn choose_flow(config: &SimConfig, wanted: Option<&str>) -> Outcome<usize> {
    let flows = || config.flow.iter().enumerate().filter(|(_, flow)| flow.with.is_none());
    let names = || {
        flows()
            .map(|(_, flow)| flow.name.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (wanted, flows().count()) {
        (Some(name), _) => {
            let found = flows().find(|(_, flow)| flow.name == name).map(|(place, _)| place);
            found.ok_or_else(|| {
                let message = format_args!("there is no flow \"{name}\"; there are: {}", names());
                fail(WRONG_USE, message)
            })
        }
        (None, 1) => Ok(flows().map(|(place, _)| place).next().unwrap_or(0)),
        (None, 0) => Err(fail(WRONG_USE, "the scenario has no flow")),
        (None, several) => Err(fail(
            WRONG_USE,
            format_args!("the scenario has {several} flows; choose one with --flow: {}", names()),
        )),
    }
}

/// The addresses given, or those that stand in for them.
fn addresses(args: &Args, config: &SimConfig, flow: usize) -> Outcome<UdpAddresses> {
    let topology = Topology::build(config).map_err(|error| fail(WRONG_USE, error))?;
    let routes = &topology.flows[flow];
    let (senders, receivers) = (routes.sender.len(), routes.receiver.len());
    let to = if args.to.is_empty() {
        default_to(receivers)
    } else {
        args.to.clone()
    };
    let listen = if args.listen.is_empty() {
        to.iter()
            .map(|to| SocketAddr::new(to.ip(), super::LISTEN_PORT))
            .collect()
    } else {
        args.listen.clone()
    };
    let from = if args.from.is_empty() {
        default_from(senders)
    } else {
        args.from.clone()
    };
    let (source, target) = (&config.flow[flow].from, &config.flow[flow].to);
    check_count("--to", to.len(), receivers, target)?;
    check_count("--listen", listen.len(), receivers, target)?;
    check_count("--from", from.len(), senders, source)?;
    if let Some(addr) = listen.iter().find(|addr| to.contains(addr)) {
        let message =
            format_args!("{addr} is in --listen and in --to: the emulator and the receiver need different ports");
        return Err(fail(WRONG_USE, message));
    }
    Ok(UdpAddresses { flow, listen, to, from })
}

fn check_count(option: &str, given: usize, links: usize, node: &str) -> Outcome {
    if given == links {
        return Ok(());
    }
    let (given, links) = (count(given, "address"), count(links, "link"));
    let message = format_args!("{option} has {given}; the flow uses {links} at node \"{node}\"");
    Err(fail(WRONG_USE, message))
}

/// The commands that send a file through the emulator.
fn tell_commands(addresses: &UdpAddresses, kind: FlowKind) {
    let list = |addrs: &[SocketAddr]| addrs.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let (to, listen) = (list(&addresses.to), list(&addresses.listen));
    note(format_args!("listening on UDP {listen} for packets to {to}"));
    if kind != FlowKind::Sctp {
        return;
    }
    let local = match addresses.from[..] {
        [_] => String::new(),
        ref several => {
            let ips: Vec<_> = several.iter().map(IpAddr::to_string).collect();
            format!(" --local {}", ips.join(","))
        }
    };
    note(format_args!("  receive:  whimbrel recv --listen {to} DIR"));
    note(format_args!("  send:     whimbrel send FILE --to {listen}{local}"));
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// Writes a file that is there with all of its content or not at all.
fn write_whole(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(text.as_bytes())?;
    file.persist(path)?;
    Ok(())
}
