//! A long path with random losses: what packets cost where every SACK has many gaps.
//!
//! `cargo run --release -p whimbrel-sim --example lossy_path [SECONDS [SCHEME]]`
//!
//! One flow at 1 Gbit/s with a round-trip time of 100 ms and 1 % loss. BBR keeps its window in spite of them.

use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, LossConfig, NodeConfig, QueueConfig, SimConfig};
use whimbrel_sim::{Resources, RunOptions, World};

/// More than the bandwidth-delay product of 12.5 MB.
const BUFFER: u32 = 1 << 25;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().map_or(5, |text| text.parse().expect("a number"));
    let scheme = arguments.next().unwrap_or_else(|| "bbr".to_owned());
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    config.node = ["a", "b"].map(NodeConfig::new).into();
    config.link = vec![LinkConfig {
        queue: QueueConfig::DropTail {
            packets: Some(10_000),
            bytes: None,
        },
        loss: LossConfig::Bernoulli { rate: 0.01 }.into(),
        ..LinkConfig::new("a", "b", Rate::from_mbps(1000), Span::from_millis(50))
    }];
    let sctp = AssociationConfig {
        recv_buffer: BUFFER,
        send_buffer: BUFFER,
        scheme: Scheme::by_name(&scheme).expect("the name of a scheme"),
        ..AssociationConfig::default()
    };
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..FlowConfig::new("f", FlowKind::Sctp, "a", "b")
    }];
    let world = World::new(&config, 1, &Resources::default(), RunOptions::default()).expect("a valid scenario");
    let result = world.run();
    let flow = &result.flows[0];
    println!(
        "{:?} {:.2} Mbit/s, {} packet-hops, fingerprint {:016x}",
        flow.outcome,
        flow.goodput_bps / 1e6,
        result.packet_hops,
        result.fingerprint
    );
}
