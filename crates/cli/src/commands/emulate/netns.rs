//! Emulation with a network namespace for each node.

use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use whimbrel_emu::netns::{DevicePlan, NetnsError, NetnsGate, NetnsPlan, Programs, Spec, v6};
use whimbrel_emu::{Emulator, Limits, Report, Start};
use whimbrel_lab::{Recording, Status, prepare};
use whimbrel_scenario::{Scenario, visible, visible_json};
use whimbrel_sim::config::{FlowKind, SimConfig, nearest};
use whimbrel_sim::{NoObserver, Observer};

use super::{conclude, duration, print_if_read, report, write_whole};
use crate::commands::emulate::Args;
use crate::interrupt::listen;
use crate::output::{FAILED, INTERRUPTED, Outcome, WRONG_USE, fail, note};

/// The emulator does not sleep if the next packet is due within this time: a system that sleeps is woken late by about as much.
const SPIN: Duration = Duration::from_micros(100);

pub(super) fn run(args: &Args, mut scenario: Scenario) -> Outcome<u8> {
    scenario.points.truncate(1);
    let config = &scenario.points[0].config;
    let plan = NetnsPlan::new(config, &simulated(config, &args.flow)?).map_err(|error| fail(WRONG_USE, error))?;
    let programs = programs(args, &plan)?;
    let lock = args.out.as_ref().map(|folder| prepare(folder, args.replace));
    let _lock = lock.transpose().map_err(|error| fail(WRONG_USE, error))?;
    let outside = plan.outside();
    let seed = args.seed.unwrap_or(scenario.seed);
    scenario.points[0].config = plan.config.clone();
    (scenario.seed, scenario.seeds) = (seed, 1);
    let recording = args
        .out
        .as_deref()
        .map(|folder| Recording::start(folder, &scenario, command(args, seed)));
    let mut recording = recording.transpose().map_err(|error| fail(FAILED, error))?;

    let gate = NetnsGate::open(plan, &args.name).map_err(|error| match error {
        NetnsError::System { .. } => fail(FAILED, error),
        _ => fail(WRONG_USE, error),
    })?;
    announce(args, &scenario, seed, &gate)?;
    let specs = programs.into_iter().filter_map(|(node, command, main)| {
        let space = gate.path(node)?;
        Some(Spec { space, command, main })
    });
    let specs: Vec<_> = specs.collect();
    let spaces = gate.spaces().to_vec();
    let point = &scenario.points[0];
    let mut nothing = NoObserver;
    let observer: &mut dyn Observer = match &mut recording {
        Some(recording) => recording,
        None => &mut nothing,
    };
    let emulator = Emulator::new(
        &point.config,
        seed,
        &point.resources,
        &outside,
        gate,
        limits(args),
        observer,
    )
    .map_err(|error| fail(WRONG_USE, error))?;
    let stop = listen()?;
    let mut ends = Arc::clone(&stop);
    let mut running = None;
    if !specs.is_empty() {
        ends = Arc::new(AtomicBool::new(false));
        let wrapper = vec![own_program()?, "emulate-enter".into()];
        running = Some(Programs::start(
            wrapper,
            specs,
            spaces,
            Arc::clone(&stop),
            Arc::clone(&ends),
        ));
    }
    let done = emulator.run(&ends).map_err(|error| fail(FAILED, error))?;
    let interrupted = stop.swap(true, Ordering::Relaxed) && running.is_some();
    let over = args.duration.is_some_and(|end| done.elapsed >= duration(end));
    // The end of the duration ends programs, too.
    let of_programs = running.map(Programs::wait).filter(|_| !interrupted && !over);
    let code = if interrupted {
        INTERRUPTED
    } else {
        of_programs.unwrap_or(0)
    };
    let too_slow = done.too_slow(args.late);
    let json = report::json(&scenario.title, None, &done, too_slow.as_deref(), of_programs);
    write_results(args, &scenario, &done, &json, recording, interrupted)?;
    if done.gate.received == 0 && !args.quiet {
        note("note: no program sent a packet to another node");
    }
    Ok(conclude(code, too_slow))
}

/// Returns whether the points of a sweep differ only in flows that programs replace: then all are the same network.
pub(super) fn is_one_network(args: &Args, scenario: &Scenario) -> Outcome<bool> {
    let network = |config: &SimConfig| -> Outcome<SimConfig> {
        let kept = simulated(config, &args.flow)?;
        Ok(SimConfig {
            flow: kept.into_iter().map(|flow| config.flow[flow].clone()).collect(),
            ..config.clone()
        })
    };
    let first = network(&scenario.points[0].config)?;
    for point in &scenario.points[1..] {
        if network(&point.config)? != first {
            return Ok(false);
        }
    }
    Ok(true)
}

fn limits(args: &Args) -> Limits {
    // On a single processor, a busy emulator would stop the programs.
    let several = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
    Limits {
        duration: args.duration.map(duration),
        grain: Duration::ZERO,
        spin: if several { SPIN } else { Duration::ZERO },
        start: Start::AtOnce,
        realtime: true,
    }
}

/// Returns the indices of the flows that remain simulated.
fn simulated(config: &SimConfig, replaced: &[String]) -> Outcome<Vec<usize>> {
    let names = config.flow.iter().map(|flow| flow.name.as_str());
    for name in replaced {
        if !names.clone().any(|flow| flow == name) {
            let all = names.collect::<Vec<_>>().join(", ");
            return Err(fail(
                WRONG_USE,
                format_args!("there is no flow \"{name}\"; there are: {all}"),
            ));
        }
    }
    let is_simulated = |name: &String, kind: FlowKind| match replaced {
        [] => kind == FlowKind::Udp,
        _ => !replaced.contains(name),
    };
    let flows = config.flow.iter().enumerate();
    let kept = flows.filter(|(_, flow)| is_simulated(flow.with.as_ref().unwrap_or(&flow.name), flow.kind));
    Ok(kept.map(|(place, _)| place).collect())
}

/// Returns the programs: the node, the command, and whether the emulation ends with it.
fn programs(args: &Args, plan: &NetnsPlan) -> Outcome<Vec<(usize, Vec<OsString>, bool)>> {
    let mut programs = Vec::new();
    for (name, command) in &args.run {
        let shell = ["/bin/sh".into(), "-c".into(), command.into()];
        programs.push((node(plan, name)?, shell.to_vec(), false));
    }
    if let Some(name) = &args.at {
        programs.push((node(plan, name)?, args.program.clone(), true));
    }
    if let Some(name) = &args.shell {
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        programs.push((node(plan, name)?, vec![shell], true));
    }
    Ok(programs)
}

fn node(plan: &NetnsPlan, name: &str) -> Outcome<usize> {
    plan.node(name).ok_or_else(|| {
        let names = || plan.nodes.iter().map(|node| node.name.as_str());
        let hint = match nearest(name, names()) {
            Some(near) => format!("did you mean \"{near}\"?"),
            None => format!("there are: {}", names().collect::<Vec<_>>().join(", ")),
        };
        fail(WRONG_USE, format_args!("there is no node \"{name}\"\n  hint: {hint}"))
    })
}

/// Returns this program, which enters the namespaces.
fn own_program() -> Outcome<OsString> {
    let path = std::env::current_exe();
    path.map(OsString::from)
        .map_err(|error| fail(FAILED, format_args!("cannot find this program: {error}")))
}

/// Prints the nodes and how to enter them, and writes the ready file.
fn announce(args: &Args, scenario: &Scenario, seed: u64, gate: &NetnsGate) -> Outcome {
    let nodes = || gate.plan().nodes.iter().zip(gate.spaces());
    if !args.quiet {
        note(format_args!("emulating {}, seed {seed}", visible(&scenario.title)));
        for (node, space) in nodes() {
            let devices = node.devices.iter().map(|device| {
                let addresses: Vec<_> = addresses(device).iter().map(IpAddr::to_string).collect();
                format!("{} {}", device.name, addresses.join(" "))
            });
            note(format_args!(
                "  {}: {}",
                visible(&node.name),
                devices.collect::<Vec<_>>().join(", ")
            ));
            if args.at.is_none() && args.shell.is_none() && args.run.is_empty() {
                note(format_args!("    ip netns exec {space} PROGRAM"));
            }
        }
        if args.at.is_none() && args.shell.is_none() && args.run.is_empty() {
            note("Ctrl-C ends the emulation. --shell NODE starts a shell at a node");
        }
    }
    let Some(path) = &args.ready_file else { return Ok(()) };
    let described = nodes().map(|(node, space)| {
        let addresses: Vec<_> = node.devices.iter().flat_map(addresses).collect();
        (node.name.clone(), json!({"namespace": space, "addresses": addresses}))
    });
    let described: serde_json::Map<String, Value> = described.collect();
    write_whole(path, &format!("{}\n", json!({ "nodes": described })))
        .map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", path.display())))
}

fn addresses(device: &DevicePlan) -> Vec<IpAddr> {
    let second = |address| device.has_v6.then(|| IpAddr::V6(v6(address)));
    device
        .addresses
        .iter()
        .flat_map(|address| [Some(IpAddr::V4(*address)), second(*address)])
        .flatten()
        .collect()
}

/// Returns the command for the manifest.
fn command(args: &Args, seed: u64) -> Vec<String> {
    let mut command = vec!["whimbrel".to_owned(), "emulate".to_owned()];
    command.push(args.file.to_string_lossy().into_owned());
    for change in &args.set {
        command.extend(["--set".to_owned(), change.clone()]);
    }
    command.extend(["--seed".to_owned(), seed.to_string()]);
    for (node, program) in &args.run {
        command.extend(["--run".to_owned(), format!("{node}: {program}")]);
    }
    if let Some(node) = &args.at {
        command.extend(["--at".to_owned(), node.clone(), "--".to_owned()]);
        let words = args.program.iter().map(|word| word.to_string_lossy().into_owned());
        command.extend(words);
    }
    command
}

/// Writes the results and prints the report. Standard output belongs to the programs, except for `--json`.
fn write_results(
    args: &Args,
    scenario: &Scenario,
    done: &Report,
    json: &Value,
    recording: Option<Recording>,
    interrupted: bool,
) -> Outcome {
    if let Some((recording, folder)) = recording.zip(args.out.as_deref()) {
        let status = if interrupted {
            Status::Interrupted
        } else {
            Status::Complete
        };
        let path = folder.join("emulation.json");
        std::fs::write(&path, format!("{json:#}\n"))
            .map_err(|error| fail(FAILED, format_args!("cannot write {}: {error}", path.display())))?;
        recording
            .finish(scenario, &done.run, status)
            .map_err(|error| fail(FAILED, error))?;
    }
    if args.json {
        print_if_read(&visible_json(&format!("{json}\n")))?;
    } else if !args.quiet {
        note(report::text(done).trim_end());
    }
    Ok(())
}
