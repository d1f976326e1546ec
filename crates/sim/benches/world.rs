//! The simulator's speed. Items are packet-hops: packets that crossed a link.
//!
//! `cargo bench -p whimbrel-sim`

use divan::Bencher;
use divan::counter::ItemsCount;
use whimbrel_control::{Rate, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    Carriage, FlowConfig, FlowKind, LinkConfig, LossConfig, NodeConfig, QueueConfig, SimConfig, TrafficConfig,
    TrafficKind,
};
use whimbrel_sim::{Resources, RunOptions, World};

fn main() {
    divan::main();
}

/// Returns the 5-hop scenario with `flows` associations on a chain that is faster by the same factor, so that all send together
/// about as many packets as one association sends in `seconds`.
fn five_hop(flows: u32, seconds: u64) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_millis(seconds * 1000 / u64::from(flows)));
    config.node = (0..6).map(|i| NodeConfig::new(&format!("n{i}"))).collect();
    config.link = (0..5)
        .map(|i| {
            let (from, to) = (format!("n{i}"), format!("n{}", i + 1));
            let queue = QueueConfig::DropTail {
                packets: Some(100 * flows),
                bytes: None,
            };
            LinkConfig {
                queue,
                ..LinkConfig::new(&from, &to, Rate::from_mbps(2 * u64::from(flows)), Span::from_micros(10))
            }
        })
        .collect();
    let sctp = AssociationConfig {
        recv_buffer: 65_536,
        ..AssociationConfig::default()
    };
    config.flow = (0..flows)
        .map(|i| FlowConfig {
            sctp: Some(sctp.clone()),
            ..FlowConfig::new(&format!("f{i}"), FlowKind::Sctp, "n0", "n5")
        })
        .collect();
    config
}

fn bench(bencher: Bencher<'_, '_>, config: &SimConfig) {
    let build = || World::new(config, 1, &Resources::default(), RunOptions::default()).expect("a valid scenario");
    let hops = build().run().packet_hops;
    bencher
        .counter(ItemsCount::new(hops))
        .with_inputs(build)
        .bench_values(World::run);
}

#[divan::bench(args = [1, 10, 100, 1000], sample_count = 5)]
fn five_hops_by_flows(bencher: Bencher<'_, '_>, flows: u32) {
    bench(bencher, &five_hop(flows, 4000));
}

/// Each packet passes the codec, with checksum.
#[divan::bench(sample_count = 5)]
fn five_hops_as_bytes(bencher: Bencher<'_, '_>) {
    bench(
        bencher,
        &SimConfig {
            carriage: Carriage::Bytes,
            ..five_hop(1, 400)
        },
    );
}

/// Losses on each link prevent packets from entering directions ahead of time: one event per hop.
#[divan::bench(sample_count = 5)]
fn five_lossy_hops(bencher: Bencher<'_, '_>) {
    let mut config = five_hop(1, 400);
    for link in &mut config.link {
        link.loss = LossConfig::Bernoulli { rate: 0.001 }.into();
    }
    bench(bencher, &config);
}

/// Datagrams that enter and leave at every node: the cost of events and links without a transport.
#[divan::bench(args = [1, 100], sample_count = 5)]
fn crossing_datagrams(bencher: Bencher<'_, '_>, flows_per_hop: u32) {
    let mut config = five_hop(1, 400);
    let rate = Rate::from_bps(1_500_000 / u64::from(flows_per_hop));
    let traffic = TrafficConfig {
        rate: Some(rate),
        message_bytes: 500,
        ..TrafficConfig::of(TrafficKind::Poisson)
    };
    config.flow = (0..5 * flows_per_hop)
        .map(|i| {
            let (hop, from) = (i % 5, format!("n{}", i % 5));
            let flow = FlowConfig::new(&format!("u{i}"), FlowKind::Udp, &from, &format!("n{}", hop + 1));
            FlowConfig {
                traffic: traffic.clone(),
                ..flow
            }
        })
        .collect();
    bench(bencher, &config);
}
