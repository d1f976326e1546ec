//! The 5-hop job: how long a simulated hour takes, and what it costs per packet and hop.
//!
//! `cargo run --release -p whimbrel-sim --example five_hop [SECONDS [FLOWS [SCHEME]]]`
//!
//! Several flows share a chain that is as many times as fast, with room for as many times the packets in its queues.

use std::time::Instant;

use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, NodeConfig, QueueConfig, SimConfig};
use whimbrel_sim::{Resources, RunOptions, World};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).map(|a| a.parse::<u64>().expect("a number"));
    let seconds = number(0).unwrap_or(3600);
    let flows = number(1).unwrap_or(1);
    let scheme = arguments.get(2).map_or("standard", String::as_str);
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    config.node = (0..6).map(|i| NodeConfig::new(&format!("n{i}"))).collect();
    config.link = (0..5)
        .map(|i| {
            let (from, to) = (format!("n{i}"), format!("n{}", i + 1));
            let queue = QueueConfig::DropTail {
                packets: Some(100 * flows as u32),
                bytes: None,
            };
            LinkConfig {
                queue,
                ..LinkConfig::new(&from, &to, Rate::from_mbps(2 * flows), Span::from_micros(10))
            }
        })
        .collect();
    let sctp = AssociationConfig {
        recv_buffer: 65_536,
        scheme: Scheme::by_name(scheme).expect("the name of a scheme"),
        ..AssociationConfig::default()
    };
    config.flow = (0..flows)
        .map(|i| FlowConfig {
            sctp: Some(sctp.clone()),
            ..FlowConfig::new(&format!("f{i}"), FlowKind::Sctp, "n0", "n5")
        })
        .collect();
    let world = World::new(&config, 1, &Resources::default(), RunOptions::default()).expect("a valid scenario");
    let begin = Instant::now();
    let result = world.run();
    let took = begin.elapsed().as_secs_f64();
    println!(
        "{:.3} s for {} packet-hops and {} events: {:.1} ns per packet-hop",
        took,
        result.packet_hops,
        result.events,
        took * 1e9 / result.packet_hops as f64
    );
    let flow = &result.flows[0];
    println!(
        "{:?} {:.4} Mbit/s, delay {:?}",
        flow.outcome,
        flow.goodput_bps / 1e6,
        flow.delay
    );
    println!(
        "drops {:?}, fingerprint {:016x}",
        result.drops.iter().collect::<Vec<_>>(),
        result.fingerprint
    );
    println!("{:#?}", flow.sender);
}
