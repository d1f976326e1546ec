//! Recovery from many simultaneous losses, from lost retransmissions, and with reordered SACKs, in whole runs.

use crate::common::{flow, pair, run};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::FlowResult;
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, QueueConfig, SimConfig, TrafficConfig};

/// A link without random losses: kbit/s, round-trip time in ms, queue in packets.
#[derive(Clone, Copy, Debug)]
struct Clean(u64, u64, u32);

/// Returns two nodes with these links and an endless flow over all of them.
fn network(links: &[Clean], seconds: u64, sctp: AssociationConfig) -> SimConfig {
    let mut config = pair(Rate::from_mbps(1), Span::ZERO, seconds);
    config.link = links
        .iter()
        .enumerate()
        .map(|(n, &Clean(kbps, rtt, packets))| {
            let mut link = LinkConfig::new("a", "b", Rate::from_bps(1000 * kbps), Span::from_micros(500 * rtt));
            link.name = Some(format!("l{n}"));
            link.queue = QueueConfig::DropTail {
                packets: Some(packets),
                bytes: None,
            };
            link
        })
        .collect();
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }];
    config
}

fn scheme(name: &str, buffer: u32) -> AssociationConfig {
    AssociationConfig {
        scheme: Scheme::by_name(name).expect("it is registered"),
        recv_buffer: buffer,
        send_buffer: buffer,
        ..AssociationConfig::default()
    }
}

fn measure(links: &[Clean], seconds: u64, sctp: AssociationConfig) -> FlowResult {
    let flow = run(&network(links, seconds, sctp), 1).flows.remove(0);
    println!(
        "{links:?}: {:.2} Mbit/s, {} retransmissions, {} timeouts",
        flow.goodput_bps / 1e6,
        flow.sender.retransmissions,
        flow.sender.timeouts
    );
    flow
}

#[test]
fn tail_loss_probes_do_not_hold_back_t3_rtx() {
    // RFC 8985 §7.2. Slow start loses more at once than fast retransmit repairs, including retransmissions. A probe timer that
    // every acknowledgement restarted fired each second and moved T3-rtx each time, so that nothing else was sent: 0.00 and 0.14
    // Mbit/s.
    for (link, least) in [(Clean(24_600, 163, 20), 7.0), (Clean(50_000, 100, 20), 17.0)] {
        let flow = measure(&[link], 80, scheme("multipath", 1 << 20));
        assert!(flow.goodput_bps > least * 1e6, "{link:?}: {}", flow.goodput_bps);
    }
}

#[test]
fn an_overtaken_sack_allows_a_burst() {
    // Nearly all SACKs of the slow path are overtaken; without a burst for each of them the path is limited to 4 packets per SACK
    // of the other one.
    let links = [Clean(1700, 24, 100), Clean(13_700, 78, 100)];
    let alone = measure(&links[1..], 60, scheme("multipath", 1 << 20)).goodput_bps;
    let both = measure(&links, 60, scheme("multipath", 1 << 20)).goodput_bps;
    assert!(both > 1.05 * alone, "{both} {alone}");
}

#[test]
fn more_gaps_than_fit_into_a_sack_need_no_timeout() {
    // 100 Mbit/s with 100 ms and a queue of one bandwidth-delay product: slow start overshoots by 1666 packets, every second of
    // which is lost, and a SACK has room for 363 gap ack blocks. The pipe is never empty: 90 Mbit/s including slow start.
    let link = Clean(100_000, 100, 833);
    for name in ["standard", "cubic", "veno-tabe", "bbr"] {
        let flow = measure(&[link], 40, scheme(name, 8 << 20));
        assert!(flow.goodput_bps > 90e6, "{name}: {}", flow.goodput_bps);
        assert_eq!(flow.sender.timeouts, 0, "{name}");
        let lost = flow.drops.total();
        assert!(
            flow.sender.retransmissions <= lost + lost / 50,
            "{name}: {} retransmissions for {lost} lost",
            flow.sender.retransmissions
        );
    }
}

#[test]
fn bbr_fills_a_fast_path_that_loses_little() {
    // 10 Gbit/s for 10 ms: 1 packet in 10,000 is lost, 85 in a second. An answer to each loss leaves less than a tenth.
    let mut config = network(&[Clean(10_000_000, 10, 8333)], 2, scheme("bbr", 64 << 20));
    config.link[0].loss = whimbrel_sim::config::LossConfig::Bernoulli { rate: 1e-4 }.into();
    config.measure.from = Span::from_secs(1);
    let flow = run(&config, 1).flows.remove(0);
    assert!(flow.goodput_bps > 8e9, "{}", flow.goodput_bps);
}
