//! Several paths at once, in whole runs.

mod common;

use common::{flow, nodes, pair, run};
use whimbrel_control::multipath::coupling::CouplingSpec;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::{Accounting, RetransmitPath};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, LossConfig, QueueConfig, SimConfig, TrafficConfig};

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

/// Each path by its own sequence numbers, and this distribution.
fn with(distribution: &str) -> AssociationConfig {
    AssociationConfig {
        accounting: Some(Accounting::Path),
        retransmit_path: Some(RetransmitPath::Same),
        distribution: DistributionSpec::by_name(distribution),
        ..AssociationConfig::default()
    }
}

/// Goodput of both paths, of the better one alone and of the sum of both alone, in Mbit/s.
fn compare(ways: [Way; 2], loss: f64, sctp: &AssociationConfig) -> (f64, f64, f64) {
    let [one, other] = ways.map(|way| goodput(&[way], loss, sctp));
    let both = goodput(&ways, loss, sctp);
    println!("{ways:?}, loss {loss}: {both:.2} of {one:.2} + {other:.2} Mbit/s");
    (both, one.max(other), one + other)
}

#[test]
fn unequal_paths_add_up_with_the_default_buffers() {
    // Ye 2004, Figure 43: delays up to 1:8. In the time until a packet of the slow path is acknowledged, all that was sent since has to
    // fit into the receive buffer of 262144 bytes: 225 ms for 25 and 200 ms, as acknowledgements come back by the faster path.
    for ways in [
        [Way(2000, 25), Way(2000, 25)],
        [Way(2000, 25), Way(2000, 50)],
        [Way(2000, 25), Way(2000, 100)],
        [Way(2000, 25), Way(2000, 200)],
        [Way(10_000, 25), Way(10_000, 25)],
        [Way(10_000, 25), Way(10_000, 50)],
    ] {
        let (both, _, sum) = compare(ways, 0.0, &with("earliest-arrival"));
        assert!(both > 0.97 * sum, "{ways:?}: {both} of {sum}");
        let (both, _, sum) = compare(ways, 0.01, &with("earliest-arrival"));
        assert!(both > 0.9 * sum, "{ways:?} with loss: {both} of {sum}");
    }
}

#[test]
fn fast_unequal_paths_need_a_larger_buffer_and_do_no_harm_without() {
    // 20 Mbit/s for 125 and 225 ms are 312 and 562 kB, more than the buffer: no order of sending by TSN reaches the sum.
    for delay in [100, 200] {
        let ways = [Way(10_000, 25), Way(10_000, delay)];
        let (both, best, _) = compare(ways, 0.0, &with("earliest-arrival"));
        assert!(both > 0.98 * best, "{ways:?}: {both} of {best}");
        let large = AssociationConfig {
            recv_buffer: 1 << 22,
            send_buffer: 1 << 22,
            ..with("earliest-arrival")
        };
        let (both, _, sum) = compare(ways, 0.0, &large);
        assert!(both > 0.97 * sum, "{ways:?} with 4 MiB: {both} of {sum}");
    }
}

#[test]
fn a_path_that_cannot_help_does_no_harm() {
    for ways in [[Way(20_000, 10), Way(1000, 200)], [Way(50_000, 20), Way(1000, 20)]] {
        for name in ["blest", "ecf", "earliest-arrival"] {
            let (both, best, _) = compare(ways, 0.0, &with(name));
            assert!(both > 0.98 * best, "{name}, {ways:?}: {both} of {best}");
        }
    }
}

#[test]
fn schemes_for_several_paths_use_them() {
    let ways = [Way(2000, 25), Way(2000, 100)];
    for name in ["ipcc", "jsctp-ipcc", "cmt", "cmt-pf", "multipath"] {
        let scheme = Scheme::by_name(name).unwrap_or_else(|| panic!("no scheme {name}"));
        let sctp = AssociationConfig {
            scheme,
            ..AssociationConfig::default()
        };
        let (both, best, _) = compare(ways, 0.0, &sctp);
        assert!(both > 1.5 * best, "{name}: {both} of {best}");
    }
}

/// Two paths of `a` to `b` and one of `c` to `d` through one bottleneck of 10 Mbit/s; the shares of the SCTP and the TCP flow.
fn share(coupling: &str) -> (f64, f64) {
    let mut config = nodes(&["a", "b", "c", "d", "r", "s"], 140);
    let access = |from, to| LinkConfig::new(from, to, Rate::from_mbps(100), Span::from_millis(2));
    config.link = vec![
        access("a", "r"),
        access("a", "r"),
        access("s", "b"),
        access("s", "b"),
        access("c", "r"),
        access("s", "d"),
        LinkConfig::new("r", "s", Rate::from_mbps(10), Span::from_millis(20)),
    ];
    for (n, link) in config.link.iter_mut().enumerate() {
        link.name = Some(format!("l{n}"));
    }
    let packets = Some(60);
    config.link[6].queue = QueueConfig::DropTail { packets, bytes: None };
    let sctp = AssociationConfig {
        coupling: CouplingSpec::by_name(coupling),
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..with("lowest-rtt")
    };
    config.flow = vec![
        FlowConfig {
            sctp: Some(sctp),
            ..flow("sctp", FlowKind::Sctp, TrafficConfig::default())
        },
        FlowConfig {
            traffic: TrafficConfig::default(),
            ..FlowConfig::new("tcp", FlowKind::Tcp, "c", "d")
        },
    ];
    config.measure.from = Span::from_secs(20);
    let mean = |flow: usize| {
        (1..=3)
            .map(|seed| run(&config, seed).flows[flow].goodput_bps)
            .sum::<f64>()
            / 3e6
    };
    (mean(0), mean(1))
}

#[test]
fn coupled_paths_through_one_bottleneck_take_less_than_two_shares() {
    let ratio = |coupling| {
        let (sctp, tcp) = share(coupling);
        println!("{coupling}: {sctp:.2} and {tcp:.2} Mbit/s");
        assert!(sctp + tcp > 9.0, "{coupling}: {sctp} and {tcp}");
        sctp / tcp
    };
    let alone = ratio("none");
    for coupling in ["lia", "olia", "balia", "rpv1", "rpv2"] {
        let coupled = ratio(coupling);
        assert!(coupled < 0.85 * alone, "{coupling}: {coupled} with it, {alone} without");
    }
}
