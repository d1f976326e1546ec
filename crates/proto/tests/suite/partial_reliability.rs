//! Messages that are given up (RFC 3758, RFC 7496).

use crate::support::messages::{arrived, given_up, nothing_is_held, numbered as message};
use crate::support::paths::{cut, path};
use crate::support::{Fate, Host, Net};
use whimbrel_control::Span;
use whimbrel_proto::{
    AssocId, AssociationConfig, AssociationStats, AuthConfig, CloseReason, Discard, Event, Message, Reliability,
    SendError, State,
};
use whimbrel_wire::{Chunk, ChunkType, ForwardTsn, MessageNumber, SkippedStream, SkippedStreams, Ssn, Tsn};

fn config() -> AssociationConfig {
    AssociationConfig {
        partial_reliability: true,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

fn stats(net: &Net, id: AssocId) -> AssociationStats {
    net.a.association(id).expect("established").stats()
}

/// Drops the packets with DATA that these numbers count, from 0.
fn lose(net: &mut Net, which: &'static [usize]) {
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        if packet.from == Host::A && packet.has(ChunkType::DATA) {
            count += 1;
            if which.contains(&(count - 1)) {
                return Fate::Drop;
            }
        }
        Fate::Deliver
    });
}

// [3758:3.3.2-4, 3.3.2-5, 3.3.2-6]
// [7496:3-1]
#[test]
fn rfc_3758_3_3_both_ends_must_support_it() {
    for (own, other) in [(true, true), (true, false), (false, true)] {
        let with = |wanted| AssociationConfig {
            partial_reliability: wanted,
            ..config()
        };
        let mut net = Net::with_config(1, &with(other), 7);
        let a = net.connect(&with(own), 1);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        let both = own && other;
        assert_eq!(net.a.association(a).expect("A").uses_partial_reliability(), both);
        assert_eq!(net.b.association(b).expect("B").uses_partial_reliability(), both);
        lose(&mut net, &[0]);
        net.send(Host::A, a, message(1, 500, Reliability::Retransmissions(0)));
        net.send(Host::A, a, message(2, 500, Reliability::Full));
        net.run_for(Span::from_secs(5));
        // Without it the message is delivered.
        assert_eq!(arrived(&net), if both { vec![2] } else { vec![1, 2] });
        assert_eq!(net.count(Host::A, ChunkType::FORWARD_TSN) > 0, both);
        nothing_is_held(&net, a, b);
    }
}

// [3758:3.3.1-1, 3.3.2-3]
#[test]
fn rfc_3758_3_3_1_an_unnegotiated_forward_tsn_is_reported() {
    let (mut net, _, _) = Net::established(1, &AssociationConfig::default());
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn;
    let forward = Chunk::ForwardTsn(ForwardTsn {
        new_cumulative_tsn: tsn,
        skipped: SkippedStreams::from_wire_bytes(&[]),
    });
    let _ = net.as_peer(Host::B, &[forward]);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.last(Host::B, ChunkType::ERROR).causes(), [6]);
}

// [3758:3.2-1, 3.4-1, 3.5-1, 3.5-6]
// [7496:3.1-1, 3.1-2]
#[test]
fn rfc_7496_3_1_zero_retransmissions_give_up_at_the_first_loss() {
    let (mut net, a, b) = Net::established(1, &config());
    lose(&mut net, &[1]);
    for number in 0..8 {
        net.send(Host::A, a, message(number, 1400, Reliability::Retransmissions(0)));
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(arrived(&net), [0, 2, 3, 4, 5, 6, 7]);
    assert_eq!(given_up(&net), [(1, true)]);
    let stats = stats(&net, a);
    assert_eq!((stats.retransmissions, stats.messages_given_up_sent), (0, 1));
    // The loss counts for congestion control (RFC 3758 §3.5 F5).
    assert_eq!((stats.fast_retransmits, stats.recoveries), (1, 1));
    assert_eq!(net.count(Host::A, ChunkType::FORWARD_TSN), 1);
    nothing_is_held(&net, a, b);
}

// [3758:3.5-15]
// [7496:3.1-1]
#[test]
fn rfc_7496_3_1_the_limit_counts_retransmissions() {
    for limit in 0..4 {
        let (mut net, a, b) = Net::established(1, &config());
        // Only timeouts: one message, each transmission of which is lost.
        net.filter = Box::new(|packet| {
            let is_first = packet.has(ChunkType::DATA);
            if packet.from == Host::A && is_first {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        net.send(Host::A, a, message(1, 100, Reliability::Retransmissions(limit)));
        net.run_for(Span::from_secs(60));
        assert_eq!(stats(&net, a).retransmissions, u64::from(limit));
        assert_eq!(given_up(&net), [(1, true)]);
        net.filter = Box::new(|_| Fate::Deliver);
        net.send(Host::A, a, message(2, 100, Reliability::Full));
        net.run_for(Span::from_secs(5));
        assert_eq!(arrived(&net), [2]);
        nothing_is_held(&net, a, b);
    }
}

// [3758:4.1-6]
#[test]
fn rfc_3758_4_1_old_messages_are_not_sent_after_an_outage() {
    let (mut net, a, b) = Net::established(1, &config());
    net.run_for(Span::from_secs(1));
    let (from, to) = (net.now, net.now + Span::from_secs(3));
    net.filter = Box::new(move |packet| {
        let is_cut = packet.now >= from && packet.now < to;
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
    for number in 0..100 {
        net.send(
            Host::A,
            a,
            message(number, 1000, Reliability::Lifetime(Span::from_millis(500))),
        );
        net.run_for(Span::from_millis(100));
    }
    net.run_for(Span::from_secs(5));
    let arrived = arrived(&net);
    // The outage and the wait for the timer cost what was sent in that time. What was queued is not sent late.
    assert!(arrived.is_sorted() && arrived.contains(&99), "{arrived:?}");
    let lost = given_up(&net);
    assert_eq!(arrived.len() + lost.len(), 100);
    assert!(
        lost.iter().any(|&(_, sent)| sent) && lost.iter().any(|&(_, sent)| !sent),
        "{lost:?}"
    );
    let stats = stats(&net, a);
    assert_eq!(
        (stats.messages_given_up_sent + stats.messages_given_up_unsent) as usize,
        lost.len()
    );
    nothing_is_held(&net, a, b);
}

#[test]
fn rfc_3758_3_5_a_message_that_is_sent_in_part_is_given_up_as_a_whole() {
    for unordered in [false, true] {
        let (mut net, a, b) = Net::established(1, &config());
        lose(&mut net, &[2]);
        // Larger than the window: a part of it is never sent.
        let long = Message {
            unordered,
            ..message(1, 100_000, Reliability::Retransmissions(0))
        };
        net.send(Host::A, a, long);
        net.send(Host::A, a, message(2, 3000, Reliability::Full));
        net.run_for(Span::from_secs(10));
        assert_eq!(arrived(&net), [2]);
        assert_eq!(given_up(&net), [(1, true)]);
        assert_eq!(net.state(Host::A, a), State::Established);
        nothing_is_held(&net, a, b);
        let sent = stats(&net, a).data_bytes_sent;
        assert!(sent < 60_000, "{sent} bytes were sent");
    }
}

// [3758:3.5-8, 3.5-14, 4.3-2, 4.3-3]
// [8260:2.3.1-6, 2.3.1-9]
#[test]
fn rfc_3758_3_5_c5_a_lost_forward_tsn_is_repeated() {
    let (mut net, a, b) = Net::established(1, &config());
    let mut forwards = 0;
    net.filter = Box::new(move |packet| {
        let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
        if packet.has(ChunkType::FORWARD_TSN) {
            forwards += 1;
        }
        let drops = is_data || packet.has(ChunkType::FORWARD_TSN) && forwards <= 2;
        if drops { Fate::Drop } else { Fate::Deliver }
    });
    net.send(Host::A, a, message(1, 100, Reliability::Retransmissions(0)));
    net.run_for(Span::from_secs(30));
    assert_eq!(net.count(Host::A, ChunkType::FORWARD_TSN), 3);
    nothing_is_held(&net, a, b);
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.a.associations().count(), 0, "nothing is left to be waited for");
}

#[test]
fn rfc_7496_3_2_messages_with_priority_take_the_room_of_others() {
    let config = AssociationConfig {
        send_buffer: 10_000,
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &config);
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let send = |net: &mut Net, number, reliability| {
        let now = net.now;
        let sent = net.a.send(now, a, message(number, 2000, reliability));
        net.drain(Host::A);
        sent
    };
    for (number, priority) in [(1, 5), (2, 9), (3, 5), (4, 9), (5, 1)] {
        assert!(send(&mut net, number, Reliability::Priority(priority)).is_ok());
    }
    // Not sent yet: the last one of the lowest priority goes first. Then those that were sent.
    assert!(matches!(
        send(&mut net, 6, Reliability::Priority(9)),
        Err(SendError::Full(_))
    ));
    assert!(send(&mut net, 7, Reliability::Priority(3)).is_ok());
    assert!(send(&mut net, 8, Reliability::Full).is_ok());
    assert!(send(&mut net, 9, Reliability::Full).is_ok());
    assert!(send(&mut net, 10, Reliability::Priority(1)).is_ok());
    let order: Vec<u32> = given_up(&net).into_iter().map(|(number, _)| number).collect();
    assert_eq!(order.len(), 4, "{order:?}");
    assert!(order[..2].iter().all(|number| [2, 4].contains(number)), "{order:?}");
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(60));
    let all: Vec<u32> = (1..=10)
        .filter(|number| *number != 6 && !order.contains(number))
        .collect();
    let mut arrived = arrived(&net);
    arrived.sort_unstable();
    assert_eq!(arrived, all);
    nothing_is_held(&net, a, b);
}

// [3758:3.5-23]
#[test]
fn rfc_3758_3_5_f5_the_loss_of_a_message_that_gave_way_counts_as_a_loss() {
    for is_lost in [true, false] {
        let config = AssociationConfig {
            send_buffer: 9000,
            max_burst: 100,
            ..config()
        };
        let (mut net, a, b) = Net::established(1, &config);
        for _ in 0..4 {
            for number in 0..6 {
                net.send(Host::A, a, message(number, 1400, Reliability::Full));
            }
            net.run_for(Span::from_millis(400));
        }
        let before = path(&net, a, 0).cwnd;
        // All six are in flight when four others need their room: the last ones give way first.
        lose(&mut net, if is_lost { &[5] } else { &[] });
        for number in 20..26 {
            net.send(Host::A, a, message(number, 1400, Reliability::Priority(9)));
        }
        for number in 26..30 {
            net.send(Host::A, a, message(number, 1400, Reliability::Full));
        }
        let order: Vec<u32> = given_up(&net).into_iter().map(|(number, _)| number).collect();
        assert_eq!(order, [25, 24, 23, 22]);
        assert!(given_up(&net).into_iter().all(|(_, sent)| sent));
        net.run_for(Span::from_secs(5));
        let stats = stats(&net, a);
        assert_eq!(stats.recoveries, u64::from(is_lost));
        assert_eq!(path(&net, a, 0).cwnd < before, is_lost);
        // There is nothing to retransmit.
        assert_eq!(
            (stats.fast_retransmits, stats.retransmissions, stats.timeouts),
            (0, 0, 0)
        );
        assert!((26..30).all(|number| arrived(&net).contains(&number)));
        nothing_is_held(&net, a, b);
    }
}

// [3758:3.6-13]
#[test]
fn rfc_3758_3_6_the_reader_of_a_part_learns_that_the_rest_was_given_up() {
    let config = AssociationConfig {
        recv_buffer: 5000,
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &config);
    net.auto_read = false;
    net.send(Host::A, a, message(1, 20_000, Reliability::Retransmissions(0)));
    net.send(Host::A, a, message(2, 100, Reliability::Full));
    net.run_for(Span::from_secs(1));
    let read = |net: &mut Net| {
        let now = net.now;
        let received = net.b.recv(now, b, &mut |_| {});
        net.drain(Host::B);
        received
    };
    let first = read(&mut net).expect("as much as the buffer holds");
    assert!(first.begin && !first.end);
    assert_eq!(read(&mut net), None);
    // What comes next is lost.
    lose(&mut net, &[0]);
    net.run_for(Span::from_secs(5));
    let ready = |event: &Event| *event == Event::DataReady;
    assert!(net.events_of(Host::B).iter().rev().take(1).all(ready));
    let mut last = read(&mut net).expect("news");
    while !last.given_up {
        assert!(!last.begin && !last.end, "{last:?}");
        last = read(&mut net).expect("the end of the message");
    }
    assert_eq!((last.stream, last.ssn, last.len), (first.stream, first.ssn, 0));
    let next = read(&mut net).expect("the next message");
    assert!(next.begin && next.end && next.len == 100, "{next:?}");
    assert_eq!(read(&mut net), None);
    assert_eq!(given_up(&net), [(1, true)]);
}

#[test]
fn an_unsent_message_that_is_given_up_leaves_no_hole_in_its_stream() {
    let (mut net, a, b) = Net::established(1, &config());
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for number in 0..20 {
        let reliability = match number % 2 {
            0 => Reliability::Full,
            _ => Reliability::Lifetime(Span::from_millis(100)),
        };
        net.send(Host::A, a, message(number, 1400, reliability));
    }
    net.run_for(Span::from_millis(500));
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(30));
    let arrived = arrived(&net);
    assert!(
        (0..20).step_by(2).all(|number| arrived.contains(&number)),
        "{arrived:?}"
    );
    assert!(arrived.is_sorted());
    assert!(stats(&net, a).messages_given_up_unsent > 0);
    nothing_is_held(&net, a, b);
}

/// The last message expires while the peer's window is closed and nothing is outstanding: no SACK follows.
#[test]
fn section_9_2_a_shutdown_goes_on_once_the_rest_is_given_up() {
    let config = AssociationConfig {
        recv_buffer: 5000,
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &config);
    net.auto_read = false;
    for number in 0..5 {
        net.send(Host::A, a, message(number, 1000, Reliability::Full));
    }
    net.run_for(Span::from_secs(2));
    assert_eq!(net.a.association(a).expect("A").buffered_send(), 0);
    net.send(
        Host::A,
        a,
        message(5, 1000, Reliability::Lifetime(Span::from_millis(100))),
    );
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(5));
    assert_eq!(given_up(&net), [(5, false)]);
    net.auto_read = true;
    net.read(Host::B, b);
    assert_eq!(arrived(&net), [0, 1, 2, 3, 4]);
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::Graceful));
}

#[test]
fn short_lifetimes_do_not_hide_a_dead_path() {
    // Each message is longer than the window, or than the burst that the window allows, and lives shorter than T3-rtx runs.
    for (initial_cwnd, len, lifetime) in [(None, 20_000, 300), (Some(60_000), 50_000, 150)] {
        let config = AssociationConfig {
            path_max_retrans: 2,
            initial_cwnd,
            ..config()
        };
        let (mut net, a, _) = Net::established(2, &config);
        net.run_for(Span::from_millis(500));
        cut(&mut net, &[0]);
        for number in 0..300 {
            let frame = message(number, len, Reliability::Lifetime(Span::from_millis(lifetime)));
            let now = net.now;
            let _ = net.a.send(now, a, frame);
            net.drain(Host::A);
            net.run_for(Span::from_millis(100));
        }
        net.run_for(Span::from_secs(5));
        let arrived = arrived(&net);
        assert!(stats(&net, a).timeouts >= 3, "{:?}", stats(&net, a));
        assert!(arrived.contains(&299), "the other path is used: {arrived:?}");
    }
}

/// More is sent than the window carries, so that every message waits until shortly before its lifetime ends (decision 0032).
#[test]
fn messages_of_several_packets_arrive_although_each_is_begun_late() {
    let (mut net, a, b) = Net::established(1, &config());
    net.filter = Box::new(|_| Fate::Delay(Span::from_millis(100)));
    for number in 0..300 {
        let frame = message(number, 6000, Reliability::Lifetime(Span::from_millis(400)));
        net.send(Host::A, a, frame);
        net.run_for(Span::from_millis(20));
    }
    net.run_for(Span::from_secs(10));
    let (arrived, lost) = (arrived(&net), given_up(&net));
    assert_eq!(arrived.len() + lost.len(), 300);
    assert!(arrived.len() > 150, "{}", arrived.len());
    nothing_is_held(&net, a, b);
}

#[test]
fn rfc_4895_a_forward_tsn_without_authentication_changes_nothing() {
    let keyed = AssociationConfig {
        auth: AuthConfig::shared_key(b"key"),
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &keyed);
    net.send(Host::A, a, message(1, 100, Reliability::Full));
    net.run_for(Span::from_secs(1));
    let last = net.last(Host::A, ChunkType::DATA).tsns()[0];
    let mut skipped = Vec::new();
    let entry = SkippedStream {
        stream: 0,
        unordered: false,
        number: MessageNumber::Ssn(Ssn(100)),
    };
    SkippedStreams::append(&mut skipped, entry);
    let forward = Chunk::ForwardTsn(ForwardTsn {
        new_cumulative_tsn: Tsn(last.wrapping_add(50)),
        skipped: SkippedStreams::from_wire_bytes(&skipped),
    });
    // With the right tag, from the right address, again and again.
    for _ in 0..100 {
        assert_eq!(net.as_peer(Host::B, &[forward]), Err(Discard::Unauthenticated));
    }
    for number in 2..40 {
        net.send(Host::A, a, message(number, 1000, Reliability::Full));
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(arrived(&net), (1..40).collect::<Vec<_>>());
    assert_eq!(net.state(Host::B, b), State::Established);
    // An old FORWARD TSN, replayed with its authentication, changes nothing either.
    lose(&mut net, &[0]);
    net.send(Host::A, a, message(40, 100, Reliability::Retransmissions(0)));
    net.run_for(Span::from_secs(5));
    let recorded = net.last(Host::A, ChunkType::FORWARD_TSN).bytes.clone();
    net.send(Host::A, a, message(41, 100, Reliability::Full));
    net.run_for(Span::from_secs(5));
    for _ in 0..100 {
        assert_eq!(net.deliver(Host::B, &recorded), Ok(()));
    }
    net.send(Host::A, a, message(42, 100, Reliability::Full));
    net.run_for(Span::from_secs(5));
    assert_eq!(arrived(&net)[39..], [41, 42]);
}

#[test]
fn a_measured_chunk_that_is_given_up_does_not_end_the_measurements() {
    let (mut net, a, _) = Net::established(1, &config());
    net.run_for(Span::from_secs(1));
    let (start, mut lost) = (net.now, false);
    net.filter = Box::new(move |packet| {
        let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
        if is_data && packet.now.since(start) > Span::from_millis(300) && !std::mem::replace(&mut lost, true) {
            return Fate::Drop;
        }
        let slow = packet.now.since(start) > Span::from_secs(2);
        Fate::Delay(Span::from_millis(if slow { 250 } else { 100 }))
    });
    for number in 0..1000 {
        net.send(Host::A, a, message(number, 500, Reliability::Retransmissions(0)));
        net.run_for(Span::from_millis(10));
    }
    // One packet may hold several messages.
    assert!((1..10).contains(&given_up(&net).len()));
    let srtt = path(&net, a, 0).srtt.expect("measured");
    assert!(srtt > Span::from_millis(400), "{srtt:?}");
}

#[test]
fn a_failure_is_reported_once_although_the_association_ends() {
    let (mut net, a, _) = Net::established(1, &config());
    net.filter = Box::new(|packet| {
        let drops = packet.from == Host::A && (packet.has(ChunkType::DATA) || packet.has(ChunkType::FORWARD_TSN));
        if drops { Fate::Drop } else { Fate::Deliver }
    });
    net.send(Host::A, a, message(1, 100, Reliability::Retransmissions(0)));
    net.run_for(Span::from_secs(3));
    assert_eq!(given_up(&net), [(1, true)]);
    let now = net.now;
    net.a.abort(now, a, "");
    net.drain(Host::A);
    // A second failure has another cause, which is checked there.
    assert_eq!(given_up(&net), [(1, true)]);
}

#[test]
fn a_message_whose_sent_part_is_acknowledged_counts_as_sent() {
    let config = AssociationConfig {
        recv_buffer: 5000,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.auto_read = false;
    net.send(
        Host::A,
        a,
        message(1, 9000, Reliability::Lifetime(Span::from_millis(500))),
    );
    net.run_for(Span::from_secs(20));
    assert_eq!(given_up(&net), [(1, true)]);
    let stats = stats(&net, a);
    assert_eq!((stats.messages_given_up_sent, stats.messages_given_up_unsent), (1, 0));
}

// [3758:4.1-3, 4.1-4, 4.1-5, 4.1-8]
#[test]
fn rfc_3758_4_1_tr3_an_old_message_is_not_bundled() {
    let mut net = Net::with_config(1, &config(), 7);
    net.filter = Box::new(|_| Fate::Delay(Span::from_millis(100)));
    let a = net.connect(&config(), 1);
    for (number, reliability) in [
        (1, Reliability::Full),
        (2, Reliability::Lifetime(Span::from_millis(50))),
        (3, Reliability::Full),
    ] {
        net.send(Host::A, a, message(number, 100, reliability));
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(arrived(&net), [1, 3]);
    assert_eq!(given_up(&net), [(2, false)]);
}

#[test]
fn a_message_that_is_sent_in_part_gives_way_as_a_whole() {
    let config = AssociationConfig {
        send_buffer: 10_000,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.filter = Box::new(|_| Fate::Drop);
    net.send(Host::A, a, message(1, 9900, Reliability::Priority(9)));
    net.send(Host::A, a, message(2, 9900, Reliability::Full));
    assert_eq!(given_up(&net), [(1, true)]);
}

/// All DATA is lost, but the peer answers each FORWARD TSN: it can be reached (RFC 9260 §8.1).
#[test]
fn an_answered_forward_tsn_clears_the_error_counter_of_the_association() {
    let config = AssociationConfig {
        association_max_retrans: 4,
        path_max_retrans: 3,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.filter = Box::new(|packet| {
        let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
        if is_data { Fate::Drop } else { Fate::Deliver }
    });
    for number in 0..12 {
        net.send(Host::A, a, message(number, 100, Reliability::Retransmissions(0)));
        net.run_for(Span::from_secs(70));
    }
    assert_eq!(net.state(Host::A, a), State::Established);
    assert_eq!((given_up(&net).len(), stats(&net, a).timeouts), (12, 12));
}

#[test]
fn a_message_without_room_reports_those_that_have_expired() {
    let config = AssociationConfig {
        recv_buffer: 5000,
        send_buffer: 10_000,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.auto_read = false;
    for number in 0..5 {
        net.send(Host::A, a, message(number, 1000, Reliability::Full));
    }
    net.run_for(Span::from_secs(2));
    // The window is closed now, and nothing is outstanding.
    net.send(
        Host::A,
        a,
        message(5, 1000, Reliability::Lifetime(Span::from_millis(100))),
    );
    net.send(Host::A, a, message(6, 8000, Reliability::Full));
    net.run_for(Span::from_millis(300));
    assert!(given_up(&net).is_empty(), "nothing has looked at it yet");
    let now = net.now;
    assert!(net.a.send(now, a, message(7, 9000, Reliability::Full)).is_err());
    net.drain(Host::A);
    assert_eq!(given_up(&net), [(5, false)]);
}

#[test]
fn no_message_is_given_up_for_one_that_has_no_room_nevertheless() {
    let config = AssociationConfig {
        send_buffer: 10_000,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.filter = Box::new(|_| Fate::Drop);
    for (number, reliability) in [
        (1, Reliability::Full),
        (2, Reliability::Priority(9)),
        (3, Reliability::Full),
        (4, Reliability::Priority(7)),
    ] {
        net.send(Host::A, a, message(number, 2500, reliability));
    }
    let now = net.now;
    for (len, has_room) in [(5001, false), (5000, true)] {
        assert_eq!(given_up(&net).len(), 0);
        let sent = net.a.send(now, a, message(5, len, Reliability::Full));
        net.drain(Host::A);
        assert_eq!(sent.is_ok(), has_room, "{len}");
        let stats = stats(&net, a);
        let lost = stats.messages_given_up_sent + stats.messages_given_up_unsent;
        assert_eq!(lost, if has_room { 2 } else { 0 });
    }
    assert_eq!(given_up(&net).len(), 2);
}
