//! The end of an association: shutdown, abort, autoclose, and the state afterwards (RFC 9260 §9).

use crate::support::paths::{confirmed, cut, is_on, quiet};
use crate::support::{Fate, Host, Net, addrs, data};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssocId, AssociationConfig, CloseReason, Event, Message, PathState, SendError, State};
use whimbrel_wire::{Chunk, ChunkType, Tsn};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

fn established() -> (Net, AssocId, AssocId) {
    Net::established(1, &config())
}

fn shut_down(net: &mut Net, host: Host, id: AssocId) {
    let now = net.now;
    net.host(host).shutdown(now, id);
    net.drain(host);
}

fn is_full(net: &mut Net, host: Host, id: AssocId) -> bool {
    let now = net.now;
    matches!(
        net.host(host).send(now, id, Message::zeros(0, 1)),
        Err(SendError::Closed)
    )
}

/// Checks that both ends reported a graceful end and kept no state.
fn assert_over(net: &mut Net, what: &str) {
    for host in [Host::A, Host::B] {
        assert_eq!(net.close_reason(host), Some(CloseReason::Graceful), "{what}: {host:?}");
        assert_eq!(net.host(host).associations().count(), 0, "{what}: {host:?}");
        assert_eq!(net.host(host).next_timeout(), None, "{what}: {host:?}");
    }
}

// [9260:9.2-1, 9.2-13, 9.2-17, 9.2-19, 9.2-20, 8.5.1-8]
// [9260:3.3.8-1, 3.3.9-1, 3.3.13-1]
#[test]
fn section_9_2_either_side_may_shut_down() {
    for first in [Host::A, Host::B] {
        let (mut net, a, b) = established();
        let (id, other) = if first == Host::A { (a, b) } else { (b, a) };
        let (start, before) = (net.now, net.wire.len());
        shut_down(&mut net, first, id);
        assert_eq!(net.state(first, id), State::ShutdownSent);
        net.run_for(Span::from_millis(10));
        assert_eq!(net.state(first.other(), other), State::ShutdownAckSent);
        net.run_for(Span::from_secs(10));
        let flow: Vec<_> = net.wire[before..]
            .iter()
            .map(|sent| (sent.at.since(start).as_millis(), sent.from, sent.types()))
            .collect();
        let expected = [
            (0, first, vec![ChunkType::SHUTDOWN]),
            (10, first.other(), vec![ChunkType::SHUTDOWN_ACK]),
            (20, first, vec![ChunkType::SHUTDOWN_COMPLETE]),
        ];
        assert_eq!(flow, expected);
        assert!(!net.wire[before + 2].is_reflected());
        assert!(net.events_of(first.other()).contains(&Event::PeerShutdown));
        assert!(!net.events_of(first).contains(&Event::PeerShutdown));
        assert_over(&mut net, "after the shutdown");
    }
}

// [9260:9.2-8, 9.2-20, 9.2-21]
#[test]
fn section_9_2_accepted_messages_of_both_sides_are_delivered_first() {
    let (mut net, a, b) = established();
    for number in 0..80_u8 {
        net.send(Host::B, b, Message::new(0, vec![number + 100; 3000]));
    }
    for number in 0..20_u8 {
        net.send(Host::A, a, Message::new(0, vec![number; 3000]));
    }
    shut_down(&mut net, Host::A, a);
    assert_eq!(net.state(Host::A, a), State::ShutdownPending);
    assert!(is_full(&mut net, Host::A, a), "no further message is accepted");
    net.run_until(Span::from_secs(10), "SHUTDOWN", |net| {
        net.state(Host::B, b) == State::ShutdownReceived
    });
    assert!(is_full(&mut net, Host::B, b), "no further message is accepted");
    // A further request of the user is ignored now.
    shut_down(&mut net, Host::B, b);
    assert_eq!(net.state(Host::B, b), State::ShutdownReceived);
    net.run_for(Span::from_secs(10));
    let expected =
        |first: u8, count: u8| -> Vec<Vec<u8>> { (0..count).map(|number| vec![number + first; 3000]).collect() };
    assert_eq!(net.contents(Host::B), expected(0, 20));
    assert_eq!(net.contents(Host::A), expected(100, 80));
    assert_over(&mut net, "after the transfer");
}

// [9260:9.2-25, 9.2-26]
#[test]
fn section_9_2_both_sides_may_shut_down_at_the_same_time() {
    for later in 0..=20 {
        let (mut net, a, b) = established();
        shut_down(&mut net, Host::A, a);
        net.run_for(Span::from_millis(later));
        let now = net.now;
        net.b.shutdown(now, b);
        net.run_for(Span::from_secs(10));
        assert_over(&mut net, &format!("{later} ms later"));
        if later < 10 {
            assert_eq!(net.count(Host::A, ChunkType::SHUTDOWN_ACK), 1);
            assert_eq!(net.count(Host::B, ChunkType::SHUTDOWN_ACK), 1);
        }
    }
}

// [9260:9.2-1, 9.2-2, 9.2-3, 9.2-13, 9.2-14]
#[test]
fn section_9_2_any_one_lost_packet_delays_the_shutdown_by_one_timeout() {
    for lost in [
        ChunkType::SHUTDOWN,
        ChunkType::SHUTDOWN_ACK,
        ChunkType::SHUTDOWN_COMPLETE,
    ] {
        let (mut net, a, _) = established();
        let mut left = 1;
        net.filter = Box::new(move |packet| {
            let drops = packet.has(lost) && left > 0;
            left -= usize::from(drops);
            if drops { Fate::Drop } else { Fate::Deliver }
        });
        let start = net.now;
        shut_down(&mut net, Host::A, a);
        let both = |net: &mut Net| net.close_reason(Host::A).is_some() && net.close_reason(Host::B).is_some();
        net.run_until(Span::from_secs(10), "the end", both);
        assert_eq!(net.now.since(start).as_millis(), 1030, "{lost:?}");
        net.run_for(Span::from_secs(10));
        assert_over(&mut net, "at the end");
    }
    // A removed the association when it sent SHUTDOWN COMPLETE: the repeated SHUTDOWN ACK is out of the blue.
    let (mut net, a, _) = established();
    let mut left = 1;
    net.filter = Box::new(move |packet| {
        let drops = packet.has(ChunkType::SHUTDOWN_COMPLETE) && left > 0;
        left -= usize::from(drops);
        if drops { Fate::Drop } else { Fate::Deliver }
    });
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_secs(10));
    assert!(net.last(Host::A, ChunkType::SHUTDOWN_COMPLETE).is_reflected());
}

#[test]
fn section_9_2_shutdowns_complete_in_networks_that_lose_and_reorder() {
    for seed in 0..300 {
        let mut rng = Rng::stream(seed, "shutdown");
        let (mut net, a, b) = Net::established(2, &config());
        let (wait, both) = (rng.below(40), rng.chance(0.5));
        for number in 0..rng.below(20) as u8 {
            net.send(Host::A, a, Message::new(0, vec![number; 500]));
            net.send(Host::B, b, Message::new(0, vec![number; 500]));
        }
        net.filter = Box::new(move |_| match rng.below(8) {
            0 | 1 => Fate::Drop,
            2 => Fate::Duplicate,
            3 => Fate::Delay(Span::from_millis(rng.below(1500))),
            _ => Fate::Deliver,
        });
        let sent = net.contents(Host::A).len();
        assert_eq!(sent, net.contents(Host::B).len());
        shut_down(&mut net, Host::A, a);
        net.run_for(Span::from_millis(wait));
        if both {
            let now = net.now;
            net.b.shutdown(now, b);
        }
        net.run_for(Span::from_secs(400));
        // The last packets may all be lost, so one end can never be sure. But data is complete at both ends.
        let reasons = [Host::A, Host::B].map(|host| net.close_reason(host));
        assert!(reasons.iter().all(Option::is_some), "seed {seed}: {reasons:?}");
        assert_eq!(
            reasons
                .iter()
                .flatten()
                .filter(|r| **r == CloseReason::Graceful)
                .count(),
            2,
            "seed {seed}: {reasons:?}"
        );
        assert_eq!(net.contents(Host::A), net.contents(Host::B), "seed {seed}");
    }
}

// [9260:9.2-2, 9.2-4, 9.2-5]
#[test]
fn section_9_2_shutdown_is_retransmitted_up_to_the_limit() {
    let patient = AssociationConfig {
        shutdown_guard: Some(Span::from_secs(3600)),
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &patient);
    net.filter = Box::new(|_| Fate::Drop);
    let start = net.now;
    shut_down(&mut net, Host::A, a);
    net.run_until(Span::from_secs(1000), "the end after the last attempt", |net| {
        net.close_reason(Host::A).is_some()
    });
    let expected: Vec<u64> = [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303].map(|s| s * 1000).into();
    assert_eq!(
        net.times(Host::A, ChunkType::SHUTDOWN, start),
        expected,
        "Association.Max.Retrans is 10"
    );
    assert_eq!(net.now.since(start), Span::from_secs(363));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::PeerUnreachable));
}

// [9260:9.2-14, 9.2-15, 9.2-16]
#[test]
fn section_9_2_shutdown_ack_is_retransmitted_up_to_the_limit() {
    let (mut net, a, _) = established();
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    shut_down(&mut net, Host::A, a);
    let now = net.now;
    net.a.abort(now, a, "lost in the network");
    net.a = crate::support::endpoint(Host::A, 1, &config(), 5);
    let start = net.now + Span::from_millis(10);
    net.run_until(Span::from_secs(1000), "the end after the last attempt", |net| {
        net.close_reason(Host::B).is_some()
    });
    let expected: Vec<u64> = [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303].map(|s| s * 1000).into();
    assert_eq!(net.times(Host::B, ChunkType::SHUTDOWN_ACK, start), expected);
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::PeerUnreachable));
}

// [9260:9.2-11, 9.2-12]
#[test]
fn section_9_2_the_guard_timer_ends_it_with_an_abort_after_five_rto_max() {
    let (mut net, a, _) = established();
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let start = net.now;
    shut_down(&mut net, Host::A, a);
    net.run_until(Span::from_secs(1000), "the guard", |net| {
        net.close_reason(Host::A).is_some()
    });
    assert_eq!(net.now.since(start), Span::from_secs(300));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::ShutdownTimeout));
    assert_eq!(net.times(Host::A, ChunkType::ABORT, start), [300_000]);
}

/// Returns A in SHUTDOWN-SENT and the TSN that B would send next; from here on, nothing of A reaches B.
fn shutdown_sent() -> (Net, AssocId, u32) {
    let (mut net, a, _) = established();
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    shut_down(&mut net, Host::A, a);
    let tsn = net.last(Host::B, ChunkType::INIT_ACK).init().initial_tsn.0;
    (net, a, tsn)
}

// [9260:9.2-9, 6-2, 6.2-15]
#[test]
fn section_9_2_data_in_shutdown_sent_is_answered_with_shutdown_at_once() {
    let (mut net, a, tsn) = shutdown_sent();
    let start = net.now;
    for number in 0..3 {
        net.run_for(Span::from_millis(600));
        let before = net.wire.len();
        let next = tsn.wrapping_add(number);
        net.as_peer(Host::A, &[Chunk::Data(data(next, number as u16, b"late"))])
            .expect("accepted");
        let Chunk::Shutdown { cumulative_tsn_ack } = net.wire[before].chunks()[0] else {
            panic!("no SHUTDOWN")
        };
        assert_eq!(cumulative_tsn_ack, Tsn(next));
    }
    assert_eq!(net.contents(Host::A), [b"late", b"late", b"late"]);
    net.run_for(Span::from_millis(1100));
    // T2 is restarted each time: the next SHUTDOWN is sent one second after the last one.
    assert_eq!(
        net.times(Host::A, ChunkType::SHUTDOWN, start),
        [0, 600, 1200, 1800, 2800]
    );
    assert_eq!(net.state(Host::A, a), State::ShutdownSent);
}

// [9260:9.2-10, 6.2-18]
#[test]
fn section_9_2_gaps_and_duplicates_in_shutdown_sent_are_reported_by_a_sack() {
    let (mut net, _, tsn) = shutdown_sent();
    let before = net.wire.len();
    net.as_peer(Host::A, &[Chunk::Data(data(tsn.wrapping_add(1), 1, b"second"))])
        .expect("accepted");
    assert_eq!(net.wire[before].types(), [ChunkType::SHUTDOWN, ChunkType::SACK]);
    let (cumulative, _, gaps, _) = net.wire[before].sack().expect("a SACK");
    assert_eq!((cumulative, gaps), (tsn.wrapping_sub(1), vec![(2, 2)]));
    net.as_peer(Host::A, &[Chunk::Data(data(tsn.wrapping_add(1), 1, b"second"))])
        .expect("accepted");
    let sack = net.wire.last().and_then(|sent| sent.sack()).expect("a SACK");
    assert_eq!(sack.3, [tsn.wrapping_add(1)]);
    net.as_peer(Host::A, &[Chunk::Data(data(tsn, 0, b"first"))])
        .expect("accepted");
    assert_eq!(net.contents(Host::A), [&b"first"[..], b"second"]);
}

// [9260:9.2-6]
#[test]
fn section_9_2_any_packet_of_the_peer_restarts_t2() {
    let impatient = AssociationConfig {
        association_max_retrans: 2,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &impatient);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::SHUTDOWN) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    shut_down(&mut net, Host::A, a);
    for _ in 0..20 {
        net.run_for(Span::from_secs(2));
        net.as_peer(Host::A, &[Chunk::Heartbeat(whimbrel_wire::HeartbeatInfo(b"alive"))])
            .expect("accepted");
    }
    assert_eq!(net.state(Host::A, a), State::ShutdownSent);
    // B's own heartbeats would have the same effect.
    net.filter = Box::new(|_| Fate::Drop);
    net.run_for(Span::from_secs(200));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::PeerUnreachable));
}

#[test]
fn section_9_2_a_shutdown_overtaken_by_a_sack_is_processed() {
    let (mut net, a, _) = established();
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.send(Host::A, a, Message::zeros(0, 10));
    net.run_for(Span::from_millis(10));
    let tsn = net.last(Host::A, ChunkType::DATA).tsns()[0];
    let sack = whimbrel_wire::Sack {
        congestion_indicated: false,
        packets: 0,
        cumulative_tsn_ack: Tsn(tsn),
        a_rwnd: 65_536,
        gaps: whimbrel_wire::GapBlocks::from_wire_bytes(&[]),
        duplicates: whimbrel_wire::DuplicateTsns::from_wire_bytes(&[]),
    };
    net.as_peer(Host::A, &[Chunk::Sack(sack)]).expect("accepted");
    let _ = net.as_peer(
        Host::A,
        &[Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(tsn.wrapping_sub(1)),
        }],
    );
    assert_eq!(net.state(Host::A, a), State::ShutdownAckSent);
}

#[test]
fn section_9_2_a_shutdown_that_acknowledges_unsent_data_is_a_violation() {
    let (mut net, a, _) = established();
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    assert!(
        net.as_peer(
            Host::A,
            &[Chunk::Shutdown {
                cumulative_tsn_ack: Tsn(tsn)
            }]
        )
        .is_err()
    );
    assert_eq!(net.last(Host::A, ChunkType::ABORT).causes(), [13]);
    assert!(matches!(
        net.close_reason(Host::A),
        Some(CloseReason::ProtocolViolation(_))
    ));
    assert_eq!(net.state(Host::A, a), State::Closed);
}

#[test]
fn section_9_2_a_shutdown_requested_before_establishment_follows_the_data() {
    let mut net = Net::new(1);
    let id = net.connect(&config(), 1);
    net.send(Host::A, id, Message::new(0, &b"in a hurry"[..]));
    shut_down(&mut net, Host::A, id);
    assert!(is_full(&mut net, Host::A, id));
    net.run_for(Span::from_secs(10));
    assert_eq!(net.contents(Host::B), [b"in a hurry"]);
    assert_over(&mut net, "after the handshake");
}

// [9260:9.2-7]
#[test]
fn section_9_2_shutdown_is_answered_again_in_shutdown_ack_sent() {
    let (mut net, a, b) = established();
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    shut_down(&mut net, Host::A, a);
    let start = net.now;
    net.run_for(Span::from_millis(1500));
    assert_eq!(net.state(Host::B, b), State::ShutdownAckSent);
    // One for the first SHUTDOWN, one for its repetition, and one by B's own T2, whose start is one path delay later.
    assert_eq!(net.times(Host::B, ChunkType::SHUTDOWN_ACK, start), [10, 1010, 1010]);
}

// [9260:6.4-4, 9.2-2, 9.2-14]
#[test]
fn section_6_4_a_shutdown_on_a_path_that_is_cut_completes_on_another_after_one_rto() {
    // The path fails before SHUTDOWN, SHUTDOWN ACK or SHUTDOWN COMPLETE arrives.
    for delivered in 0..3 {
        let (mut net, a, b) = confirmed(2, &quiet());
        let start = net.now;
        let mut left = delivered;
        net.filter = Box::new(move |packet| {
            if !is_on(packet, 0) {
                return Fate::Deliver;
            }
            left -= 1;
            if left < 0 { Fate::Drop } else { Fate::Deliver }
        });
        shut_down(&mut net, Host::A, a);
        assert_eq!(net.last(Host::A, ChunkType::SHUTDOWN).remote, addrs(Host::B, 1)[0]);
        net.run_until(Span::from_millis(1100), "the end at both", |net| {
            net.state(Host::A, a) == State::Closed && net.state(Host::B, b) == State::Closed
        });
        assert!(net.now.since(start) >= Span::from_secs(1), "one RTO");
        net.run_for(Span::from_secs(10));
        assert_over(&mut net, "over the other path");
    }
}

// [9260:6.4-4, 9.2-3]
#[test]
fn section_6_4_t2_alternates_between_the_paths_with_the_fewest_errors() {
    let (mut net, a, _) = confirmed(3, &quiet());
    cut(&mut net, &[0, 1, 2]);
    let start = net.now;
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_secs(13));
    let ways: Vec<_> = net
        .sent(Host::A, ChunkType::SHUTDOWN)
        .iter()
        .map(|sent| (sent.at.since(start).as_millis(), sent.remote))
        .collect();
    let to = addrs(Host::B, 3);
    // Each path backs off independently.
    let expected = [
        (0, to[0]),
        (1000, to[1]),
        (2000, to[2]),
        (3000, to[0]),
        (5000, to[1]),
        (7000, to[2]),
        (9000, to[0]),
        (13_000, to[1]),
    ];
    assert_eq!(ways, expected);
}

// [9260:6.4-4]
#[test]
fn section_6_4_t2_skips_inactive_paths() {
    let config = AssociationConfig {
        path_max_retrans: 0,
        hb_interval: Span::from_secs(1),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(3, &config);
    // The second path fails while it is idle, then the first one.
    cut(&mut net, &[1]);
    net.run_for(Span::from_secs(10));
    cut(&mut net, &[0, 1]);
    let start = net.now;
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_millis(1100));
    let sent = net.sent(Host::A, ChunkType::SHUTDOWN);
    let ways: Vec<_> = sent.iter().map(|sent| sent.remote).collect();
    let to = addrs(Host::B, 3);
    assert_eq!(ways, [to[0], to[2]]);
    assert!(net.now.since(start) < Span::from_secs(2));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
}

// [9260:6.4-4, 5.4-2]
#[test]
fn section_6_4_t2_skips_unconfirmed_paths() {
    let mut net = Net::with_config(3, &quiet(), 1);
    // The user specified one address; one of the others that the peer lists never responds.
    cut(&mut net, &[1]);
    let a = net.connect(&quiet(), 1);
    net.run_for(Span::from_secs(5));
    cut(&mut net, &[0, 1]);
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_millis(1100));
    let sent = net.sent(Host::A, ChunkType::SHUTDOWN);
    let ways: Vec<_> = sent.iter().map(|sent| sent.remote).collect();
    let to = addrs(Host::B, 3);
    assert_eq!(ways, [to[0], to[2]]);
}

// [9260:6.4-4]
#[test]
fn section_6_4_a_shutdown_after_the_primary_failed_waits_for_no_timer() {
    let (mut net, a, _) = confirmed(2, &quiet());
    for _ in 0..10 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_millis(30));
    cut(&mut net, &[0]);
    let idle = |net: &mut Net| net.events_of(Host::A).contains(&Event::SendIdle);
    net.run_until(Span::from_secs(60), "everything is acknowledged", idle);
    let primary = net.a.association(a).and_then(|a| a.paths().next()).expect("a path");
    assert!(primary.errors > 0 && primary.state == PathState::Active);
    let start = net.now;
    shut_down(&mut net, Host::A, a);
    net.run_until(Span::from_millis(30), "the end", |net| {
        net.close_reason(Host::A).is_some()
    });
    assert_eq!(net.now.since(start), Span::from_millis(20), "one round trip");
    assert_eq!(net.contents(Host::B).len(), 10);
}

// [9260:6.4-2]
#[test]
fn section_6_4_shutdown_ack_is_sent_to_the_source_of_shutdown() {
    let (mut net, a, b) = confirmed(2, &quiet());
    // B has data to send first, and its primary path works in one direction only.
    net.filter = Box::new(|packet| {
        let is_lost = is_on(packet, 0) && (packet.from == Host::A) == packet.has(ChunkType::SHUTDOWN);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    net.send(Host::B, b, Message::zeros(0, 100));
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_secs(8));
    let destination = |chunk_type| net.last(Host::B, chunk_type).remote;
    assert_eq!(destination(ChunkType::SHUTDOWN_ACK), addrs(Host::A, 2)[1]);
    assert_over(&mut net, "at the end");
    // In SHUTDOWN-SENT, DATA is answered to its source.
    let (mut net, a, _) = confirmed(2, &quiet());
    cut(&mut net, &[0]);
    let tsn = net.last(Host::B, ChunkType::INIT_ACK).init().initial_tsn.0;
    shut_down(&mut net, Host::A, a);
    let bytes = crate::support::packet(4002, 4001, net.tag_of(Host::A), &[Chunk::Data(data(tsn, 0, b"late"))]);
    let meta = crate::support::meta(addrs(Host::A, 2)[1], addrs(Host::B, 2)[1]);
    net.deliver_from(Host::A, meta, &bytes).expect("accepted");
    assert_eq!(net.last(Host::A, ChunkType::SHUTDOWN).remote, addrs(Host::B, 2)[1]);
}
