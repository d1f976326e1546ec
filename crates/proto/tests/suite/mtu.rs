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

/// Sends messages of 5000 bytes, and returns how many have arrived after this time.
fn arrived(net: &mut Net, a: AssocId, span: Span) -> usize {
    for _ in 0..20 {
        net.send(Host::A, a, Message::zeros(0, 5000));
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
    let (now, remote) = (net.now, addrs(Host::B, 1)[0]);
    net.a.limit_mtu(a, now, remote, 1400);
    assert_eq!((path(&net, a, 0).mtu, path(&net, a, 1).mtu), (1400, 1500));
    narrow(&mut net, 1400);
    let since = net.wire.len();
    assert_eq!(arrived(&mut net, a, Span::from_secs(5)), 20);
    assert!(
        (1390..=1400).contains(&longest(&net, since)),
        "{}",
        longest(&net, since)
    );
    // Packets do not become tiny, and a report of a larger MTU has no effect.
    net.a.limit_mtu(a, now, remote, 68);
    assert_eq!(path(&net, a, 0).mtu, 576);
    net.a.limit_mtu(a, now, remote, 9000);
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
    let now = net.now;
    net.a.limit_mtu(a, now, addrs(Host::B, 1)[0], 1400);
    net.run_for(Span::from_secs(20));
    assert_eq!(net.contents(Host::B).len(), 20);
}

#[test]
fn a_path_that_carries_heartbeats_but_not_data_gets_a_smaller_mtu() {
    for scheme in ["standard", "pf", "cmt-pf", "multipath"] {
        let config = AssociationConfig {
            scheme: Scheme::by_name(scheme).unwrap(),
            ..detecting()
        };
        let (mut net, a, _) = confirmed(1, &config);
        narrow(&mut net, 1400);
        assert_eq!(arrived(&mut net, a, Span::from_secs(30)), 20, "{scheme}");
        assert_eq!(path(&net, a, 0).mtu, 1280, "{scheme}");
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
fn the_detection_does_not_delay_retransmissions() {
    let times = |config: &AssociationConfig| {
        let (mut net, a, _) = confirmed(1, config);
        net.filter = Box::new(|_| Fate::Drop);
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 1400));
        net.run_for(Span::from_secs(40));
        (net.times(Host::A, ChunkType::DATA, start), path(&net, a, 0).errors)
    };
    let with = times(&detecting());
    assert_eq!(with, times(&AssociationConfig::default()));
    assert!(with.0.len() > 4, "{with:?}");
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
