//! Networks of radios.

use whimbrel_control::{Rate, Rng, Span};
use whimbrel_sim::RunResult;
use whimbrel_sim::config::{
    ChannelConfig, ChannelRouting, FlowConfig, FlowKind, Interference, MobilityConfig, NodeConfig, PhyKind,
    RadioConfig, SimConfig, TrafficKind,
};

use super::paced;

/// Returns nodes `n0`, `n1`, ... at these positions, with one radio each on the channel `air`.
pub(crate) fn at(places: &[[f64; 2]], phy: PhyKind, seconds: u64) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    let mut channel = ChannelConfig::new("air");
    channel.phy = phy;
    config.channel = vec![channel];
    for (i, [x, y]) in places.iter().enumerate() {
        let name = format!("n{i}");
        config.node.push(NodeConfig::at(&name, *x, *y));
        config.radio.push(RadioConfig::new(&name, "air"));
    }
    config
}

/// Returns datagrams in IP packets of `bytes`.
pub(crate) fn datagrams(from: usize, to: usize, rate: Rate, bytes: u32) -> FlowConfig {
    let name = format!("f{from}-{to}");
    FlowConfig {
        traffic: paced(TrafficKind::Cbr, rate, bytes - 28),
        ..FlowConfig::new(&name, FlowKind::Udp, &format!("n{from}"), &format!("n{to}"))
    }
}

/// Goodput of all flows in bits per second.
pub(crate) fn goodput(result: &RunResult) -> f64 {
    result.flows.iter().map(|flow| flow.goodput_bps).sum()
}

/// Returns forty moving nodes with traffic between some of them.
pub(crate) fn moving(fading: bool, interference: Interference) -> SimConfig {
    let mut rng = Rng::stream(5, "places");
    let places: Vec<_> = (0..40).map(|_| [rng.unit() * 800.0, rng.unit() * 800.0]).collect();
    let mut config = at(&places, PhyKind::B11, 20);
    config.channel[0].interference = interference;
    config.channel[0].routing = ChannelRouting::Direct;
    if fading {
        config.channel[0].propagation =
            toml::from_str("kind = \"two-ray\"\nfading = { kind = \"rayleigh\" }").expect("a table");
    }
    for node in &mut config.node {
        node.mobility = Some(MobilityConfig::RandomWaypoint {
            area: [800.0, 800.0],
            speed: [1.0, 20.0],
            pause: Span::from_secs(1),
            steady_state: false,
        });
    }
    let rate = Rate::from_bps(200_000);
    config.flow = (0..10).map(|i| datagrams(2 * i, 2 * i + 1, rate, 700)).collect();
    config
}

/// Checks that each message was delivered once, unchanged, or is in the ledger. The queues must have had time to empty.
pub(crate) fn every_message_has_an_end(result: &RunResult, seed: u64) {
    for flow in &result.flows {
        assert_eq!(flow.messages_repeated, 0, "seed {seed}, {}", flow.name);
        if flow.kind == FlowKind::Udp {
            let ended = flow.messages_delivered + flow.drops.total();
            assert_eq!(flow.messages_sent, ended, "seed {seed}, {}", flow.name);
        } else {
            let is_right = flow.file.is_none_or(|file| file.wrong == 0);
            assert!(is_right, "seed {seed}, {}", flow.name);
        }
    }
}
