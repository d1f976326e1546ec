//! Times of acknowledgements, and the receive window (RFC 9260 §6.1 A, §6.2, §6.7).

use crate::support::paths::path;
use crate::support::{Fate, Host, Net, data};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, CloseReason, Message, PathState};
use whimbrel_wire::{Chunk, ChunkType, Data};

fn quiet() -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

/// An association that has carried one message, so that the rule for the first DATA chunk no longer applies.
fn established(config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let (mut net, a, b) = Net::established(1, config);
    net.send(Host::A, a, Message::zeros(0, 1));
    net.send(Host::B, b, Message::zeros(0, 1));
    net.run_for(Span::from_secs(5));
    net.messages.clear();
    (net, a, b)
}

fn sacks(net: &Net, start: Time) -> Vec<u64> {
    net.times(Host::B, ChunkType::SACK, start)
}

// [9260:5.1-19, 6.2-7, 6.2-8, 6.2-15]
#[test]
fn section_6_2_a_lone_packet_is_acknowledged_after_200_ms() {
    let (mut net, a, _) = established(&quiet());
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(2));
    assert_eq!(sacks(&net, start), [210]);
    let shorter = AssociationConfig {
        sack_delay: Span::from_millis(50),
        ..quiet()
    };
    let (mut net, a, _) = established(&shorter);
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(2));
    assert_eq!(sacks(&net, start), [60]);
}

// [9260:6.2-8, 6.2-9, 6.2-10]
#[test]
fn section_6_2_every_second_packet_is_acknowledged_at_once() {
    let (mut net, a, _) = established(&quiet());
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_millis(100));
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(2));
    assert_eq!(sacks(&net, start), [110]);
    let start = net.now;
    for _ in 0..100 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(sacks(&net, start).len(), 50);
    let each = AssociationConfig {
        sack_frequency: 1,
        ..quiet()
    };
    let (mut net, a, _) = established(&each);
    let start = net.now;
    for _ in 0..100 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(sacks(&net, start).len(), 100);
}

// [9260:6.2-19]
#[test]
fn section_6_2_the_i_bit_asks_for_an_acknowledgement_at_once() {
    let (mut net, a, _) = established(&quiet());
    let start = net.now;
    net.send(
        Host::A,
        a,
        Message {
            immediate: true,
            ..Message::zeros(0, 100)
        },
    );
    net.run_for(Span::from_secs(2));
    assert_eq!(sacks(&net, start), [10]);
    assert!(net.last(Host::A, ChunkType::DATA).data()[0].immediate);
}

// [9260:6.2-20, 6.2-21, 6.7-1, 7.2.4-1]
#[test]
fn section_6_7_gaps_and_duplicates_are_reported_at_once() {
    let (mut net, a, _) = established(&quiet());
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && count == 1 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let start = net.now;
    for _ in 0..3 {
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_millis(50));
    }
    let lost = net
        .sent(Host::A, ChunkType::DATA)
        .iter()
        .rev()
        .nth(2)
        .expect("three")
        .tsns()[0];
    // Each packet beyond the gap causes a SACK at once. Then T3-rtx fills the gap, which causes a SACK at once too.
    net.run_for(Span::from_secs(2));
    assert_eq!(sacks(&net, start), [60, 110, 1010]);
    let all: Vec<_> = net
        .sent(Host::B, ChunkType::SACK)
        .iter()
        .filter(|s| s.at >= start)
        .map(|s| s.sack().expect("a SACK"))
        .collect();
    assert_eq!((all[0].0, &all[0].2), (lost.wrapping_sub(1), &vec![(2, 2)]));
    assert_eq!((all[1].0, &all[1].2), (lost.wrapping_sub(1), &vec![(2, 3)]));
    assert_eq!((all[2].0, &all[2].2), (lost.wrapping_add(2), &vec![]));
    // A duplicate of the packet arrives.
    let again = net.last(Host::A, ChunkType::DATA);
    let before = net.wire.len();
    net.deliver(Host::B, &again.bytes).expect("accepted");
    let sack = net.wire[before].sack().expect("at once");
    assert_eq!((sack.0, sack.3), (lost.wrapping_add(2), again.tsns()));
}

// [9260:6-10, 6.1-16, 6.10-3]
#[test]
fn section_6_1_a_delayed_sack_is_bundled_with_data() {
    let (mut net, a, b) = established(&quiet());
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_millis(50));
    net.send(Host::B, b, Message::zeros(0, 100));
    net.run_for(Span::from_secs(2));
    assert_eq!(sacks(&net, start), [50]);
    assert_eq!(
        net.last(Host::B, ChunkType::SACK).types(),
        [ChunkType::SACK, ChunkType::DATA]
    );
}

// [9260:6.2-17, 6.7-6, 6.7-7]
#[test]
fn section_6_7_gaps_that_exceed_a_packet_are_not_reported() {
    let (mut net, _, _) = established(&quiet());
    net.filter = Box::new(|_| Fate::Drop);
    let tsn = net.last(Host::A, ChunkType::DATA).tsns()[0];
    for number in 1..=600 {
        let chunk = Data {
            unordered: true,
            ..data(tsn.wrapping_add(2 * number), 0, b"x")
        };
        net.as_peer(Host::B, &[Chunk::Data(chunk)]).expect("accepted");
    }
    let last = net.last(Host::B, ChunkType::SACK);
    assert!(last.bytes.len() <= 1480);
    let (cumulative, _, gaps, _) = last.sack().expect("a SACK");
    assert_eq!(cumulative, tsn);
    // 1480 bytes minus common header and SACK header, four bytes per block.
    assert_eq!(gaps.len(), (1480 - 12 - 16) / 4);
    let lowest: Vec<_> = (1..=gaps.len() as u16).map(|number| (2 * number, 2 * number)).collect();
    assert_eq!(gaps, lowest);
    // Chunks that were not reported are kept nevertheless.
    for number in 0..600 {
        let chunk = Data {
            unordered: true,
            ..data(tsn.wrapping_add(2 * number + 1), 0, b"x")
        };
        net.as_peer(Host::B, &[Chunk::Data(chunk)]).expect("accepted");
    }
    net.run_for(Span::from_secs(1));
    assert_eq!(
        net.last(Host::B, ChunkType::SACK).sack().expect("a SACK").0,
        tsn.wrapping_add(1200)
    );
    assert_eq!(net.contents(Host::B).len(), 1200);
}

/// A receiver whose application does not read, and a sender with more data than fits. Time runs until the window is closed.
fn closed_window(config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let (mut net, a, b) = established(config);
    net.auto_read = false;
    for _ in 0..20 {
        net.send(Host::A, a, Message::zeros(0, 1000));
    }
    net.run_until(Span::from_secs(10), "a closed window", |net| {
        net.sent(Host::B, ChunkType::SACK)
            .last()
            .and_then(|sent| sent.sack())
            .is_some_and(|sack| sack.1 == 0)
    });
    (net, a, b)
}

/// Room for five messages besides the message of one byte that was sent first.
fn small() -> AssociationConfig {
    AssociationConfig {
        recv_buffer: 5001,
        ..quiet()
    }
}

// [9260:6.1-2, 6.1-4, 6.1-5, 6.1-6, 6.1-7, 6.1-17]
#[test]
fn section_6_1_a_closed_window_is_probed_at_growing_intervals_without_an_error() {
    let (mut net, a, b) = closed_window(&small());
    net.run_for(Span::from_millis(10));
    let closed = net.now;
    net.run_for(Span::from_secs(1000));
    let probes: Vec<_> = net
        .times(Host::A, ChunkType::DATA, closed)
        .iter()
        .map(|ms| ms / 1000)
        .collect();
    // The first probe is sent after one RTO; the interval then doubles up to RTO.Max.
    assert_eq!(probes[..9], [1, 2, 4, 8, 16, 32, 64, 124, 184], "{probes:?}");
    assert_eq!(probes.len(), 6 + (1000 - 32) / 60);
    let path = path(&net, a, 0);
    assert_eq!((path.errors, path.state), (0, PathState::Active));
    let one_each = net
        .sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|s| s.at > closed)
        .all(|s| s.data().len() == 1);
    assert!(one_each, "a probe is one chunk");
    net.auto_read = true;
    net.read(Host::B, b);
    net.drain(Host::B);
    net.run_for(Span::from_secs(3));
    assert_eq!(
        net.contents(Host::B).len(),
        20,
        "all is sent as soon as the window opens"
    );
}

// Two rules bound cwnd here: a probe is sent only if no data is in flight, and after T3-rtx at most one packet is in flight. A fault in
// only one of them does not exceed cwnd.
// [9260:6.1-3, 6.1-4]
#[test]
fn section_6_1_a_probe_waits_until_nothing_is_in_flight_so_that_any_cwnd_allows_it() {
    let (mut net, a, _) = closed_window(&small());
    net.run_for(Span::from_millis(10));
    let closed = net.now;
    // The first probe and its retransmissions are lost: T3-rtx leaves a cwnd of one packet.
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.run_for(Span::from_secs(50));
    let tsns = |net: &Net| -> Vec<u32> {
        let sent = net.sent(Host::A, ChunkType::DATA);
        let later = sent.iter().filter(|sent| sent.at > closed);
        later.flat_map(|sent| sent.tsns()).collect()
    };
    let lost = tsns(&net);
    assert!(lost.len() > 3, "the probe is retransmitted: {lost:?}");
    assert!(
        lost.iter().all(|tsn| *tsn == lost[0]),
        "data was sent besides the probe: {lost:?}"
    );
    let path = path(&net, a, 0);
    assert!(path.cwnd <= 1500 && path.cwnd >= path.flight, "{path:?}");
    // The next probe is sent after the first one has been acknowledged.
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(1000));
    let mut acknowledged = lost[0].wrapping_sub(1);
    let mut probes = 0;
    for sent in net.wire.iter().filter(|sent| sent.at > closed) {
        if let Some((cumulative, ..)) = sent.sack().filter(|_| sent.from == Host::B) {
            acknowledged = cumulative;
        }
        for tsn in sent.tsns() {
            assert_eq!(tsn, acknowledged.wrapping_add(1), "the probe before it is in flight");
            probes += 1;
        }
    }
    assert!(probes > 10, "{probes}");
}

// [9260:6.1-8]
#[test]
fn section_6_1_cwnd_decays_before_the_first_zero_window_probe() {
    let (mut net, a, _) = closed_window(&AssociationConfig {
        initial_cwnd: Some(1024 * 1468),
        ..small()
    });
    net.run_for(Span::from_millis(10));
    let before = path(&net, a, 0).cwnd;
    assert!(before >= 16 * 1468, "{before}");
    // Nothing is sent for one RTO (RFC 9260 §7.2.1, last rule). The probes themselves do not affect cwnd.
    net.run_for(Span::from_secs(1));
    assert_eq!(path(&net, a, 0).cwnd, before / 2);
    net.run_for(Span::from_secs(1000));
    assert_eq!(path(&net, a, 0).cwnd, before / 2);
}

#[test]
fn section_6_1_a_probe_detects_an_open_window_after_the_update_was_lost() {
    let (mut net, _, b) = closed_window(&small());
    net.run_for(Span::from_secs(20));
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.auto_read = true;
    net.read(Host::B, b);
    net.drain(Host::B);
    net.run_for(Span::from_secs(1));
    assert!(net.contents(Host::B).len() < 20);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B).len(), 20);
}

// [9260:6.1-6]
#[test]
fn section_6_1_unanswered_probes_count_as_errors() {
    let (mut net, _, _) = closed_window(&AssociationConfig {
        association_max_retrans: 4,
        ..small()
    });
    net.run_for(Span::from_secs(10));
    net.filter = Box::new(|_| Fate::Drop);
    net.run_for(Span::from_secs(400));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::PeerUnreachable));
}

#[test]
fn section_6_1_data_after_a_probe_is_no_probe_once_the_window_is_open() {
    let (mut net, a, b) = closed_window(&AssociationConfig {
        recv_buffer: 15_001,
        ..quiet()
    });
    net.run_for(Span::from_secs(2));
    assert!(net.a.association(a).expect("established").stats().zero_window_probes > 0);
    for _ in 0..200 {
        net.send(Host::A, a, Message::zeros(0, 1000));
    }
    net.auto_read = true;
    net.read(Host::B, b);
    net.drain(Host::B);
    // Some data is always in flight.
    net.run_until(Span::from_secs(10), "data", |net| net.contents(Host::B).len() > 100);
    net.filter = Box::new(|_| Fate::Drop);
    net.run_for(Span::from_secs(8));
    let path = path(&net, a, 0);
    assert_eq!(path.errors, 3, "after 1, 3 and 7 s");
}

// [9260:6.2-6, 6.2-11, 6.2-12, 6.2-22, 6.2-25]
#[test]
fn section_6_2_a_window_update_is_sent_only_for_a_large_step() {
    let (mut net, _, b) = closed_window(&AssociationConfig {
        recv_buffer: 10_000,
        ..quiet()
    });
    net.run_for(Span::from_millis(10));
    let opened = net.now;
    let mut windows = Vec::new();
    for _ in 0..8 {
        // One message of 1000 bytes is read at a time.
        let now = net.now;
        net.b.recv(now, b, &mut |_| ());
        let before = net.wire.len();
        net.drain(Host::B);
        windows.extend(
            net.wire[before..]
                .iter()
                .filter_map(|sent| sent.sack())
                .map(|sack| sack.1),
        );
    }
    assert_eq!(
        windows,
        [3000, 6000],
        "an update for a quarter of the buffer, not for less"
    );
    net.run_for(Span::from_secs(1));
    let sizes: Vec<_> = net
        .sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.at >= opened)
        .flat_map(|sent| sent.data().iter().map(|data| data.payload.len()).collect::<Vec<_>>())
        .collect();
    assert!(
        !sizes.is_empty() && sizes.iter().all(|len| *len == 1000),
        "no small chunks: {sizes:?}"
    );
}

// [9260:6.1-9]
#[test]
fn section_6_1_the_sender_avoids_the_silly_window_syndrome() {
    let (mut net, a, _) = established(&quiet());
    net.filter = Box::new(|_| Fate::Drop);
    let announce = |net: &mut Net, a_rwnd| {
        let tsn = net.last(Host::A, ChunkType::DATA).tsns();
        let sack = whimbrel_wire::Sack {
            congestion_indicated: false,
            packets: 0,
            cumulative_tsn_ack: whimbrel_wire::Tsn(tsn[tsn.len() - 1]),
            a_rwnd,
            gaps: whimbrel_wire::GapBlocks::from_wire_bytes(&[]),
            duplicates: whimbrel_wire::DuplicateTsns::from_wire_bytes(&[]),
        };
        net.as_peer(Host::A, &[Chunk::Sack(sack)]).expect("accepted");
    };
    announce(&mut net, 0);
    net.send(Host::A, a, Message::zeros(0, 5000));
    let start = net.now;
    for a_rwnd in [1, 100, 1000, 1451] {
        announce(&mut net, a_rwnd);
        assert!(net.times(Host::A, ChunkType::DATA, start).is_empty(), "{a_rwnd}");
    }
    announce(&mut net, 1452);
    assert_eq!(net.times(Host::A, ChunkType::DATA, start).len(), 1);
    let sizes: Vec<_> = net
        .last(Host::A, ChunkType::DATA)
        .data()
        .iter()
        .map(|data| data.payload.len())
        .collect();
    assert_eq!(sizes, [1452]);
}

// [9260:6.1-9]
#[test]
fn section_6_1_a_window_that_is_never_large_is_used_when_half_of_it_is_free() {
    let (mut net, a, _) = established(&AssociationConfig {
        recv_buffer: 1500,
        ..quiet()
    });
    net.send(Host::A, a, Message::new(0, vec![7; 100_000]));
    net.run_for(Span::from_secs(300));
    assert_eq!(
        net.contents(Host::B),
        [vec![7; 100_000]],
        "a message larger than the peer's whole buffer"
    );
}

// [9260:6.2-2, 6.2-4, 6.2-5]
#[test]
fn section_6_2_data_above_the_buffer_is_dropped_and_not_acknowledged() {
    let (mut net, a, _) = closed_window(&small());
    net.run_for(Span::from_millis(10));
    let held = net.last(Host::B, ChunkType::SACK).sack().expect("a SACK").0;
    let before = net.wire.len();
    assert!(
        net.as_peer(Host::B, &[Chunk::Data(data(held.wrapping_add(1), 6, b"no room"))])
            .is_err()
    );
    let sack = net.wire[before].sack().expect("at once");
    assert_eq!((sack.0, sack.1, sack.2), (held, 0, vec![]));
    assert!(net.a.association(a).is_some());
}
