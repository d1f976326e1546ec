//! Several paths at once, in whole runs.

mod common;

use common::{flow, pair, run};
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::{Rate, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, LossConfig, SimConfig, TrafficConfig};

/// A link: its rate in kbit/s, and its delay in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Way(u64, u64);

/// Two nodes with these links between them and an endless flow, measured from 20 s on.
fn network(ways: &[Way], loss: f64, sctp: &AssociationConfig) -> SimConfig {
    let mut config = pair(Rate::from_mbps(1), Span::ZERO, 80);
    config.link = ways
        .iter()
        .enumerate()
        .map(|(n, &Way(kbps, delay))| {
            let mut link = LinkConfig::new("a", "b", Rate::from_bps(1000 * kbps), Span::from_millis(delay));
            link.name = Some(format!("l{n}"));
            if loss > 0.0 {
                link.loss = LossConfig::Bernoulli { rate: loss }.into();
            }
            link
        })
        .collect();
    config.flow = vec![FlowConfig {
        sctp: Some(sctp.clone()),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }];
    config.measure.from = Span::from_secs(20);
    config
}

/// Goodput in Mbit/s.
fn goodput(ways: &[Way], loss: f64, sctp: &AssociationConfig) -> f64 {
    run(&network(ways, loss, sctp), 1).flows[0].goodput_bps / 1e6
}

fn with(distribution: &str) -> AssociationConfig {
    AssociationConfig {
        distribution: DistributionSpec::by_name(distribution),
        ..AssociationConfig::default()
    }
}

#[test]
fn equal_paths_add_up_whatever_the_distribution() {
    let way = Way(2000, 25);
    let alone = goodput(&[way], 0.0, &AssociationConfig::default());
    for name in ["fill-in-order", "round-robin", "lowest-rtt"] {
        let both = goodput(&[way, way], 0.0, &with(name));
        println!("{name}: {both} of {}", 2.0 * alone);
        assert!(both > 1.7 * alone, "{name}: {both} of {}", 2.0 * alone);
    }
}
