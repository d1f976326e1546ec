//! Paths whose MTU is smaller than the configured one (RFC 9260 §6.9, §7.3).

use crate::support::paths::{confirmed, is_on, path};
use crate::support::{Fate, Host, Net, addrs};
use whimbrel_control::Scheme;
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, Message};
use whimbrel_wire::ChunkType;

/// Bytes of the IP header.
const IP: usize = 20;

/// Routers drop packets that are longer than this, unless they may be fragmented.
fn narrow(net: &mut Net, mtu: usize) {
    net.filter = Box::new(move |packet| {
        let is_dropped = packet.bytes.len() + IP > mtu && !packet.fragment;
        if is_dropped { Fate::Drop } else { Fate::Deliver }
    });
}

fn detecting() -> AssociationConfig {
    AssociationConfig {
        black_hole_detection: true,
        ..AssociationConfig::default()
    }
}

/// Sends 20 messages of 5000 bytes, and returns how many have arrived after this time.
fn arrived(net: &mut Net, a: AssocId, span: Span) -> usize {
    arrived_of(net, a, 5000, span)
}

/// Sends 100,000 bytes in messages of this length, and returns how many of these have arrived after this time.
fn arrived_of(net: &mut Net, a: AssocId, len: u32, span: Span) -> usize {
    for _ in 0..100_000 / len {
        net.send(Host::A, a, Message::zeros(0, len));
    }
    net.run_for(span);
    net.contents(Host::B).len()
}

fn longest(net: &Net, since: usize) -> usize {
    net.wire[since..]
        .iter()
        .map(|sent| sent.bytes.len() + IP)
        .max()
        .unwrap_or(0)
}

// [9260:7.3-2, 7.3-3, 7.3-4]
#[test]
fn section_7_3_a_reported_mtu_limits_new_packets_to_that_address() {
    let (mut net, a, _) = confirmed(2, &AssociationConfig::default());
    let remote = addrs(Host::B, 1)[0];
    net.a.limit_mtu(net.now, a, remote, 1400);
    assert_eq!((path(&net, a, 0).mtu, path(&net, a, 1).mtu), (1400, 1500));
    narrow(&mut net, 1400);
    let since = net.wire.len();
    assert_eq!(arrived(&mut net, a, Span::from_secs(5)), 20);
    assert!(
        (1390..=1400).contains(&longest(&net, since)),
        "{}",
        longest(&net, since)
    );
    // Messages that fitted into a packet before are cut as well.
    assert_eq!(arrived_of(&mut net, a, 1440, Span::from_secs(5)), 20 + 69);
    assert!(longest(&net, since) <= 1400);
    // Packets do not become tiny, and a report of a larger MTU has no effect.
    net.a.limit_mtu(net.now, a, remote, 68);
    assert_eq!(path(&net, a, 0).mtu, 576);
    net.a.limit_mtu(net.now, a, remote, 9000);
    assert_eq!(path(&net, a, 0).mtu, 576);
}

// [9260:6.9-6]
#[test]
fn section_6_9_chunks_that_are_too_long_now_are_sent_again_and_fragmented() {
    let (mut net, a, _) = confirmed(1, &AssociationConfig::default());
    narrow(&mut net, 1400);
    assert_eq!(
        arrived(&mut net, a, Span::from_millis(500)),
        0,
        "all packets are too long"
    );
    net.a.limit_mtu(net.now, a, addrs(Host::B, 1)[0], 1400);
    net.run_for(Span::from_secs(20));
    assert_eq!(net.contents(Host::B).len(), 20);
}

#[test]
fn a_path_that_carries_heartbeats_but_not_data_gets_a_smaller_mtu() {
    for scheme in ["standard", "pf", "cmt-pf", "multipath"] {
        // With 1390 bytes, a HEARTBEAT would have room beside the DATA chunk, and be lost with it; with 100 bytes, a packet has many chunks.
        for len in [5000, 1390, 100_u32] {
            let config = AssociationConfig {
                scheme: Scheme::by_name(scheme).unwrap(),
                ..detecting()
            };
            let (mut net, a, _) = confirmed(1, &config);
            narrow(&mut net, 1400);
            let count = arrived_of(&mut net, a, len, Span::from_secs(30));
            assert_eq!(
                (count, path(&net, a, 0).mtu),
                (100_000 / len as usize, 1280),
                "{scheme}, {len} bytes"
            );
        }
    }
    // Beside a path that is down.
    for scheme in ["standard", "multipath"] {
        let config = AssociationConfig {
            scheme: Scheme::by_name(scheme).unwrap(),
            ..detecting()
        };
        let (mut net, a, _) = Net::established(2, &config);
        net.filter = Box::new(|packet| {
            let is_dropped = packet.bytes.len() + IP > 1400 && !packet.fragment;
            if is_dropped || is_on(packet, 1) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        assert_eq!(arrived(&mut net, a, Span::from_secs(300)), 20, "{scheme}");
        assert_eq!(path(&net, a, 0).mtu, 1280, "{scheme}");
    }
    // Without it, the path stays a black hole.
    let (mut net, a, _) = confirmed(1, &AssociationConfig::default());
    narrow(&mut net, 1400);
    assert_eq!(arrived(&mut net, a, Span::from_secs(30)), 0);
}

#[test]
fn a_closed_window_does_not_lower_the_mtu() {
    let (mut net, a, b) = confirmed(1, &detecting());
    net.auto_read = false;
    // More than the receive buffer holds.
    for _ in 0..2 {
        for _ in 0..500 {
            net.send(Host::A, a, Message::zeros(0, 1400));
        }
        net.run_for(Span::from_secs(60));
    }
    assert_eq!(path(&net, a, 0).mtu, 1500);
    net.auto_read = true;
    net.read(Host::B, b);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B).len(), 1000);
}

#[test]
fn in_an_outage_the_detection_changes_neither_retransmissions_nor_errors() {
    for scheme in ["standard", "pf", "multipath"] {
        let run = |black_hole_detection| {
            let config = AssociationConfig {
                scheme: Scheme::by_name(scheme).unwrap(),
                black_hole_detection,
                ..AssociationConfig::default()
            };
            let (mut net, a, _) = confirmed(2, &config);
            net.filter = Box::new(|_| Fate::Drop);
            let start = net.now;
            net.send(Host::A, a, Message::zeros(0, 1400));
            // With `multipath`, both paths have tail-loss probes, and the association ends after 28 s.
            let errors: Vec<_> = (0..20)
                .map(|_| {
                    net.run_for(Span::from_secs(1));
                    [0, 1].map(|index| (path(&net, a, index).errors, path(&net, a, index).state))
                })
                .collect();
            (net.times(Host::A, ChunkType::DATA, start), errors)
        };
        let with = run(true);
        assert_eq!(with, run(false), "{scheme}");
        assert!(with.0.len() > 3, "{scheme}: {with:?}");
    }
}

#[test]
fn an_outage_does_not_lower_the_mtu() {
    let (mut net, a, _) = confirmed(1, &detecting());
    net.filter = Box::new(|_| Fate::Drop);
    assert_eq!(arrived(&mut net, a, Span::from_secs(20)), 0);
    narrow(&mut net, 1500);
    net.run_for(Span::from_secs(20));
    assert_eq!(net.contents(Host::B).len(), 20);
    assert_eq!(path(&net, a, 0).mtu, 1500);
}

#[test]
fn timeouts_between_which_long_packets_arrive_do_not_lower_the_mtu() {
    let (mut net, a, _) = confirmed(1, &detecting());
    for round in 1..=6 {
        narrow(&mut net, 1400);
        net.send(Host::A, a, Message::zeros(0, 1440));
        // One timeout, after which a HEARTBEAT is acknowledged.
        net.run_for(Span::from_millis(1500));
        assert_eq!(net.contents(Host::B).len(), round - 1);
        narrow(&mut net, 1500);
        net.run_for(Span::from_secs(10));
        assert_eq!(net.contents(Host::B).len(), round);
    }
    assert_eq!(path(&net, a, 0).mtu, 1500);
}
