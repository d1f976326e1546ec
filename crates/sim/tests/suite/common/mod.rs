//! Small networks for tests.
#![allow(dead_code, reason = "each test file uses some of it")]

pub(crate) mod radio;

use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig, SimConfig, TrafficConfig, TrafficKind};
use whimbrel_sim::{Observer, Resources, RunControl, RunOptions, RunResult, World};

/// Returns a network of these nodes without links and flows.
pub(crate) fn nodes(names: &[&str], seconds: u64) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    config.node = names.iter().map(|name| NodeConfig::new(name)).collect();
    config
}

/// Two nodes, one link, no flow.
pub(crate) fn pair(rate: Rate, delay: Span, seconds: u64) -> SimConfig {
    let mut config = nodes(&["a", "b"], seconds);
    config.link = vec![LinkConfig::new("a", "b", rate, delay)];
    config
}

/// Two nodes with two links between them, `wifi` and `cell`, no flow.
pub(crate) fn two_paths(seconds: u64) -> SimConfig {
    let mut config = pair(Rate::from_mbps(2), Span::from_millis(10), seconds);
    config
        .link
        .push(LinkConfig::new("a", "b", Rate::from_mbps(1), Span::from_millis(40)));
    config.link[0].name = Some("wifi".into());
    config.link[1].name = Some("cell".into());
    config
}

/// Returns a flow from `a` to `b`.
pub(crate) fn flow(name: &str, kind: FlowKind, traffic: TrafficConfig) -> FlowConfig {
    FlowConfig {
        traffic,
        ..FlowConfig::new(name, kind, "a", "b")
    }
}

/// Returns a file of this number of random bytes.
pub(crate) fn file(bytes: u64) -> TrafficConfig {
    TrafficConfig {
        file_bytes: Some(bytes),
        ..TrafficConfig::of(TrafficKind::File)
    }
}

/// Returns traffic with a rate and messages of `message_bytes`.
pub(crate) fn paced(kind: TrafficKind, rate: Rate, message_bytes: u32) -> TrafficConfig {
    TrafficConfig {
        rate: Some(rate),
        message_bytes,
        ..TrafficConfig::of(kind)
    }
}

/// Runs a scenario without an observer.
pub(crate) fn run(config: &SimConfig, seed: u64) -> RunResult {
    build(config, seed).run()
}

/// Runs a scenario with an observer.
pub(crate) fn watch(config: &SimConfig, seed: u64, observer: &mut dyn Observer) -> RunResult {
    build(config, seed).run_with(observer, &RunControl::new())
}

/// Builds a world with a detailed ledger.
pub(crate) fn build(config: &SimConfig, seed: u64) -> World {
    let options = RunOptions { ledger_entries: true };
    World::new(config, seed, &Resources::default(), options).unwrap_or_else(|error| panic!("{error}"))
}
