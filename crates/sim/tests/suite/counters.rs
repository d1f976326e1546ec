//! Counters of random runs: those of the transports, of the flows and of the network agree.

use crate::common::{build, file, flow, nodes, paced};
use whimbrel_control::{Rate, Rng, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    FlowConfig, FlowKind, JitterConfig, LinkConfig, LossConfig, QueueConfig, SimConfig, TrafficConfig, TrafficKind,
};
use whimbrel_sim::{FlowResult, RunResult};

/// Bytes of the file of each flow.
const FILE: u64 = 200_000;

/// Returns a scenario with finite flows of all kinds over two links, and an endless one, so that the run does not end with the others.
fn scenario(seed: u64) -> SimConfig {
    let mut rng = Rng::stream(seed, "counters");
    let mut pick = |from: u64, to: u64| from + rng.below(to - from + 1);
    let mut config = nodes(&["a", "b"], 400);
    for _ in 0..2 {
        let mut link = LinkConfig::new(
            "a",
            "b",
            Rate::from_bps(1_000_000 * pick(1, 20)),
            Span::from_millis(pick(1, 100)),
        );
        link.name = Some(format!("link{}", config.link.len()));
        link.loss = LossConfig::Bernoulli {
            rate: pick(0, 30) as f64 / 1000.0,
        }
        .into();
        link.duplicate = pick(0, 50) as f64 / 1000.0;
        link.jitter = (pick(0, 1) == 0).then_some(JitterConfig::Uniform {
            min: Span::ZERO,
            max: Span::from_millis(5),
            reorder: true,
        });
        link.queue = QueueConfig::DropTail {
            packets: Some(pick(5, 100) as u32),
            bytes: None,
        };
        config.link.push(link);
    }
    let scheme = ["standard", "multipath", "cmt"][pick(0, 2) as usize];
    config.flow = vec![
        FlowConfig {
            sctp: Some(AssociationConfig {
                scheme: Scheme::by_name(scheme).expect("it is registered"),
                ..AssociationConfig::default()
            }),
            ..flow("sctp", FlowKind::Sctp, file(FILE))
        },
        flow("tcp", FlowKind::Tcp, file(FILE)),
        FlowConfig {
            stop: Some(Span::from_secs(20)),
            ..flow(
                "udp",
                FlowKind::Udp,
                paced(TrafficKind::Poisson, Rate::from_bps(300_000), 700),
            )
        },
        flow(
            "endless",
            FlowKind::Sctp,
            paced(TrafficKind::Cbr, Rate::from_bps(10_000), 100),
        ),
    ];
    config
}

/// Returns the number of packets of a flow in a direction that were dropped.
fn dropped(result: &RunResult, place: usize, forward: bool) -> u64 {
    let entries = result.ledger.entries().iter();
    let of_flow = entries.filter(|entry| entry.flow as usize == place && entry.forward == forward);
    of_flow.count() as u64
}

fn check(result: &RunResult, place: usize, name: &str) {
    let flow: &FlowResult = &result.flows[place];
    let (sender, receiver) = (&flow.sender, &flow.receiver);
    assert_eq!(
        flow.sender_packets,
        flow.delivered_packets + dropped(result, place, true),
        "{name}: each packet arrives or is dropped"
    );
    assert!(flow.arrived_packets >= flow.delivered_packets, "{name}");
    let drops = dropped(result, place, true) + dropped(result, place, false);
    assert_eq!(flow.drops.total(), drops, "{name}");
    if flow.kind == FlowKind::Udp {
        return;
    }
    // An INIT ACK and a SHUTDOWN COMPLETE belong to no association.
    let most = if flow.kind == FlowKind::Sctp { 20 } else { 0 };
    let others = flow.sender_packets - sender.packets_sent;
    assert!(others <= most, "{name}: {others}");
    let bytes = flow.sender_wire_bytes - sender.bytes_sent - 20 * flow.sender_packets;
    assert!(bytes <= 300 * most, "{name}: {bytes}");
    let others = flow.receiver_packets - receiver.packets_sent;
    assert!(others <= most, "{name}: {others}");
    assert!(receiver.packets_received <= flow.arrived_packets, "{name}");
    assert!(receiver.packets_received + most >= flow.arrived_packets, "{name}");
    assert_eq!(sender.data_bytes_acked, FILE, "{name}");
    assert_eq!(receiver.bytes_delivered, FILE, "{name}");
    assert_eq!(flow.goodput_bytes, FILE, "{name}");
    assert!(sender.data_bytes_sent >= FILE, "{name}");
    assert_eq!(receiver.messages_delivered, flow.messages_delivered, "{name}");
}

#[test]
fn counters_of_transports_flows_and_network_agree() {
    for seed in seeds(40) {
        let result = build(&scenario(seed), seed).run();
        for (place, flow) in result.flows.iter().enumerate().take(3) {
            check(&result, place, &format!("seed {seed}, {}", flow.name));
        }
    }
}

#[test]
fn a_packet_in_the_place_of_a_duplicate_is_not_a_duplicate() {
    let mut config = nodes(&["a", "b"], 20);
    config.link = vec![LinkConfig {
        duplicate: 0.3,
        ..LinkConfig::new("a", "b", Rate::from_mbps(10), Span::from_millis(5))
    }];
    let traffic = TrafficConfig {
        count: Some(2000),
        ..paced(TrafficKind::Cbr, Rate::from_mbps(1), 900)
    };
    config.flow = vec![flow("data", FlowKind::Udp, traffic)];
    let flow = &build(&config, 1).run().flows[0];
    assert_eq!(flow.delivered_packets, flow.sender_packets);
    assert_eq!(flow.sender_packets, 2000);
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}
