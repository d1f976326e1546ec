//! What shows that a path works: acknowledgements and HEARTBEAT ACKs, and what they do not show (RFC 9260 §8.1 to §8.3).

use crate::support::{Fate, Host, Net, addrs};
use whimbrel_control::multipath::RetransmitPath;
use whimbrel_control::{Scheme, Span};
use whimbrel_proto::{AssociationConfig, CloseReason, Ecn, Event, Message, PathId, PathState};
use whimbrel_wire::ChunkType;

fn scheme(name: &str) -> AssociationConfig {
    AssociationConfig {
        scheme: Scheme::by_name(name).expect("registered"),
        ..AssociationConfig::default()
    }
}

/// Returns the states that a path of A has been in, in order.
fn states(net: &Net, path: PathId) -> Vec<PathState> {
    let events = net.events_of(Host::A);
    let states = events.iter().filter_map(|event| match event {
        Event::PathState { path: of, state } if *of == path => Some(*state),
        _ => None,
    });
    states.collect()
}

/// The first path is cut. Data on the second one arrives, but its SACKs are late, so that it is sent again on the first one: the late SACKs
/// are for the second path.
#[test]
fn a_late_sack_for_another_path_does_not_revive_a_failed_one() {
    for potentially_failed in [Some(0), None] {
        let config = AssociationConfig {
            potentially_failed_max_retrans: potentially_failed,
            path_max_retrans: 1,
            hb_interval: Span::from_secs(1),
            ..AssociationConfig::default()
        };
        let (mut net, a, _) = Net::established(2, &config);
        let (cut, slow) = (addrs(Host::A, 2)[0], addrs(Host::A, 2)[1]);
        net.filter = Box::new(move |packet| {
            if packet.local == cut || packet.remote == cut {
                Fate::Drop
            } else if packet.remote == slow && packet.has(ChunkType::SACK) {
                Fate::Delay(Span::from_millis(1500))
            } else {
                Fate::Deliver
            }
        });
        net.send(Host::A, a, Message::zeros(0, 8000));
        net.run_until(Span::from_secs(60), "the message", |net| {
            net.contents(Host::B).len() == 1
        });
        net.send(Host::A, a, Message::zeros(0, 8000));
        net.run_for(Span::from_secs(20));
        assert_eq!(net.contents(Host::B).len(), 2);
        let resent = net.sent(Host::A, ChunkType::DATA);
        let on_cut = resent.iter().filter(|sent| sent.local == cut).count();
        assert!(on_cut > 2, "data was sent again on the cut path: {on_cut} packets");
        let states = states(&net, PathId(0));
        assert!(!states.contains(&PathState::Active), "{states:?}");
    }
}

/// The first path carries packets from B to A only: B's SACKs must not be bundled with B's data there, which does not arrive.
#[test]
fn sacks_leave_on_a_path_that_answers() {
    let config = AssociationConfig {
        path_max_retrans: 0,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    };
    let (mut net, a, b) = Net::established(2, &config);
    let dead = addrs(Host::B, 2)[0];
    net.filter = Box::new(move |packet| {
        if packet.local == dead {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    // B's first path fails.
    net.send(Host::B, b, Message::zeros(0, 100));
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::A).len(), 1);
    let before = net.b.association(b).expect("open").stats().sacks_sent;
    let start = net.wire.len();
    for _ in 0..10 {
        net.send(Host::A, a, Message::zeros(0, 3000));
        net.run_for(Span::from_millis(500));
    }
    assert_eq!(net.contents(Host::B).len(), 10);
    assert!(net.b.association(b).expect("open").stats().sacks_sent > before);
    let sacks = net.wire[start..]
        .iter()
        .filter(|sent| sent.from == Host::B && sent.has(ChunkType::SACK));
    assert!(sacks.clone().count() > 0 && sacks.clone().all(|sent| sent.local != dead));
    assert_eq!(net.a.association(a).expect("open").stats().timeouts, 0);
}

/// A router drops packets with ECT. HEARTBEATs and retransmissions are sent without it and arrive.
#[test]
fn ect_is_given_up_on_a_path_that_drops_it() {
    for (name, paths) in [("standard", 1), ("multipath", 1), ("multipath", 2), ("standard", 2)] {
        let mut config = scheme(name);
        config.ecn = Some(true);
        let (mut net, a, _) = Net::established(paths, &config);
        net.filter = Box::new(|packet| {
            if packet.ecn == Ecn::NotEct {
                Fate::Deliver
            } else {
                Fate::Drop
            }
        });
        net.send(Host::A, a, Message::zeros(0, 20_000));
        net.run_until(Span::from_secs(40), "the message", |net| {
            net.contents(Host::B).len() == 1
        });
        // From then on it takes no longer than without ECN.
        let (start, timeouts) = (net.now, net.a.association(a).expect("open").stats().timeouts);
        for _ in 0..10 {
            net.send(Host::A, a, Message::zeros(0, 20_000));
        }
        net.run_until(Span::from_secs(20), "ten more", |net| net.contents(Host::B).len() == 11);
        let stats = net.a.association(a).expect("open").stats();
        if paths == 1 {
            assert_eq!(stats.timeouts, timeouts, "{name}");
            assert!(net.now.since(start) < Span::from_secs(2), "{name}");
        }
    }
}

/// A path that loses packets with ECT now and then, like others, keeps it.
#[test]
fn ect_is_kept_on_a_path_that_loses_packets() {
    let mut config = scheme("standard");
    config.ecn = Some(true);
    let (mut net, a, _) = Net::established(1, &config);
    for outage in 0..6 {
        net.filter = Box::new(|_| Fate::Drop);
        net.send(Host::A, a, Message::zeros(0, 6000));
        net.run_for(Span::from_millis(1500));
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_until(Span::from_secs(30), "the message", |net| {
            net.contents(Host::B).len() == 2 * outage + 1
        });
        net.send(Host::A, a, Message::zeros(0, 6000));
        net.run_until(Span::from_secs(30), "the message", |net| {
            net.contents(Host::B).len() == 2 * outage + 2
        });
    }
    assert_eq!(net.last(Host::A, ChunkType::DATA).ecn, Ecn::Ect0);
}

/// A firewall drops long packets and fragments. HEARTBEATs are answered on every path, and the association ends with the reason.
#[test]
fn an_association_ends_whose_data_never_arrives_although_heartbeats_do() {
    for (name, paths) in [("standard", 1), ("standard", 2), ("multipath", 1), ("multipath", 2)] {
        for detection in [false, true] {
            let config = AssociationConfig {
                black_hole_detection: detection,
                hb_interval: Span::from_secs(1),
                ..scheme(name)
            };
            let (mut net, a, _) = Net::established(paths, &config);
            net.filter = Box::new(|packet| {
                if packet.bytes.len() > 1000 {
                    Fate::Drop
                } else {
                    Fate::Deliver
                }
            });
            let start = net.now;
            net.send(Host::A, a, Message::zeros(0, 20_000));
            net.run_until(Span::from_secs(2400), "the end", |net| {
                net.close_reason(Host::A).is_some()
            });
            let sent = net.sent(Host::A, ChunkType::DATA).len();
            assert!(sent < 80, "{name} {paths} {detection}: {sent} packets with data");
            assert!(
                net.now.since(start) > Span::from_secs(200),
                "{name} {paths} {detection}: the timer backs off"
            );
            assert_eq!(
                net.close_reason(Host::A),
                Some(CloseReason::DataUnanswered),
                "{name} {paths} {detection}"
            );
        }
    }
}

/// The second path carries retransmissions only. Two of them time out, later ones arrive: HEARTBEATs end the back-off of its timer again
/// (RFC 9260 §6.3.1), although no data was sent on that path first.
#[test]
fn the_back_off_of_a_path_with_retransmissions_alone_ends() {
    let config = AssociationConfig {
        hb_interval: Span::from_secs(5),
        retransmit_path: Some(RetransmitPath::Alternate),
        ..scheme("standard")
    };
    let (mut net, a, _) = Net::established(2, &config);
    let second = addrs(Host::B, 2)[1];
    let (mut first_sent, mut second_sent) = (0, 0);
    net.filter = Box::new(move |packet| {
        if packet.from != Host::A || !packet.has(ChunkType::DATA) {
            return Fate::Deliver;
        }
        let lost = if packet.remote == second {
            second_sent += 1;
            second_sent <= 6
        } else {
            first_sent += 1;
            first_sent % 40 == 0
        };
        if lost { Fate::Drop } else { Fate::Deliver }
    });
    // Data is always outstanding, so that the HEARTBEATs are not answered while nothing waits.
    for _ in 0..150 {
        if net.a.association(a).expect("open").buffered_send() < 100_000 {
            net.send(Host::A, a, Message::zeros(0, 60_000));
        }
        net.run_for(Span::from_millis(200));
    }
    let path = net.a.association(a).expect("open").paths().nth(1).expect("a path");
    let on_second = net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::A && sent.remote == second);
    let retransmissions = on_second.filter(|sent| sent.has(ChunkType::DATA)).count();
    assert!(retransmissions > 10, "{retransmissions}");
    assert_eq!(path.rto, Span::from_secs(1), "RTO.Min");
}
