//! Automatically tuned buffers carry as much as buffers that are large from the start.

use crate::common::{flow, pair, run};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{FlowConfig, FlowKind, LossConfig, QueueConfig, SimConfig, TrafficConfig};

/// Returns the goodput over 1 Gbit/s with 100 ms round-trip time and a queue of one bandwidth-delay product, in Mbit/s.
fn goodput(scheme: &str, loss: f64, buffer: (u32, Option<u32>)) -> f64 {
    let mut config: SimConfig = pair(Rate::from_mbps(1000), Span::from_millis(50), 6);
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(8333),
        bytes: None,
    };
    if loss > 0.0 {
        config.link[0].loss = LossConfig::Bernoulli { rate: loss }.into();
    }
    let sctp = AssociationConfig {
        scheme: Scheme::by_name(scheme).expect("a scheme"),
        max_burst: 16,
        recv_buffer: buffer.0,
        recv_buffer_max: buffer.1,
        send_buffer: buffer.0,
        send_buffer_max: buffer.1,
        ..AssociationConfig::default()
    };
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }];
    run(&config, 1).flows[0].goodput_bps / 1e6
}

#[test]
fn tuned_buffers_reach_90_percent_of_huge_ones_on_a_long_fat_path() {
    for (scheme, loss) in [("cubic", 0.0), ("bbr", 0.0001)] {
        let huge = goodput(scheme, loss, (1 << 30, None));
        let tuned = goodput(scheme, loss, (1 << 20, Some(256 << 20)));
        let fixed = goodput(scheme, loss, (1 << 20, None));
        assert!(
            huge > 300.0 && fixed < 0.3 * huge,
            "{scheme}: {huge} and {fixed} Mbit/s"
        );
        assert!(tuned >= 0.9 * huge, "{scheme}: {tuned} of {huge} Mbit/s");
    }
}
