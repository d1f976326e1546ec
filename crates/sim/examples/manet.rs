//! Frames on the air per second of computing: nodes that move about, datagrams between them over 802.11 at 2 Mbit/s.
//!
//! `cargo run --release -p whimbrel-sim --example manet [NODES [FLOWS [SECONDS]]]`
//!
//! The area grows with the nodes, so that the radios in range of each stay as many.

use std::time::Instant;

use whimbrel_control::{Rate, Rng, Span};
use whimbrel_sim::config::{
    ChannelConfig, ChannelRouting, FlowConfig, FlowKind, MobilityConfig, NodeConfig, RadioConfig, SimConfig,
    TrafficConfig, TrafficKind,
};
use whimbrel_sim::{Resources, RunOptions, World};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|a| a.parse::<u64>().expect("a number"));
    let nodes = number(0).unwrap_or(50);
    let flows = number(1).unwrap_or(25);
    let seconds = number(2).unwrap_or(200);
    // 50 nodes in 1500 m x 1500 m.
    let side = 1500.0 * (nodes as f64 / 50.0).sqrt();
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    let mut channel = ChannelConfig::new("air");
    channel.rts_threshold = 0;
    channel.routing = ChannelRouting::Direct;
    config.channel = vec![channel];
    let mut rng = Rng::stream(1, "places");
    for i in 0..nodes {
        let name = format!("n{i}");
        let mut node = NodeConfig::at(&name, rng.unit() * side, rng.unit() * side);
        node.mobility = Some(MobilityConfig::RandomWaypoint {
            area: [side, side],
            speed: [1.0, 25.0],
            pause: Span::ZERO,
            steady_state: true,
        });
        config.node.push(node);
        config.radio.push(RadioConfig::new(&name, "air"));
    }
    for i in 0..flows {
        let (from, to) = (format!("n{}", 2 * i % nodes), format!("n{}", (2 * i + 1) % nodes));
        config.flow.push(FlowConfig {
            traffic: TrafficConfig {
                rate: Some(Rate::from_bps(64_000)),
                message_bytes: 512,
                ..TrafficConfig::of(TrafficKind::Cbr)
            },
            ..FlowConfig::new(&format!("f{i}"), FlowKind::Udp, &from, &to)
        });
    }
    let world = World::new(&config, 1, &Resources::default(), RunOptions::default()).expect("a valid scenario");
    let begin = Instant::now();
    let result = world.run();
    let took = begin.elapsed().as_secs_f64();
    let frames: u64 = result
        .radios
        .iter()
        .map(|radio| radio.rts + radio.cts + radio.data + radio.ack)
        .sum();
    println!(
        "{took:.3} s for {frames} frames and {} events: {:.0} thousand frames a second",
        result.events,
        frames as f64 / took / 1e3
    );
    println!(
        "drops {:?}, fingerprint {:016x}",
        result.drops.iter().collect::<Vec<_>>(),
        result.fingerprint
    );
}
