//! Messages that are given up while their chunks alternate with those of other messages (RFC 8260 §2.1).

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Seq, Time};
use whimbrel_wire::Tsn;

use super::super::report::{Extent, MissingRules, SackOutcome};
use super::fragment;
use super::model::{Report, Seen};
use crate::PathId;
use crate::send::queue::{Buffered, Fragment, Limit};
use crate::send::ring::Outstanding;

const BEGIN: (bool, bool) = (true, false);
const MIDDLE: (bool, bool) = (false, false);
const END: (bool, bool) = (false, true);
const WHOLE: (bool, bool) = (true, true);

/// A chunk of 100 bytes: its stream, whether it is unordered, the number of its message, its B and E bits, and its limit.
type Chunk = (u16, bool, u32, (bool, bool), Limit);

fn ring(chunks: &[Chunk]) -> Outstanding {
    let mut ring = Outstanding::new(Tsn(1), Accounting::default());
    ring.set_paths(1);
    for &(stream, unordered, number, (begin, end), limit) in chunks {
        let chunk = Fragment {
            stream,
            unordered,
            number,
            begin,
            end,
            ..fragment(100)
        };
        ring.push(chunk, PathId(0), Time::ZERO);
        ring.limit_last(limit);
    }
    ring
}

/// Returns the positions that have been given up.
fn given_up(ring: &Outstanding) -> Vec<Seq> {
    (0..ring.next_seq()).filter(|&seq| ring.is_acked(seq)).collect()
}

const NEVER: Limit = Limit::Never;

// [3758:3.5-2, 3.5-5]
#[test]
fn only_the_chunks_of_the_message_are_given_up() {
    let chunks = [
        (1, false, 7, BEGIN, NEVER),
        (2, false, 7, BEGIN, NEVER),
        (1, false, 7, MIDDLE, NEVER),
        (2, false, 7, END, NEVER),
        (3, true, 7, WHOLE, NEVER),
        (1, false, 7, END, NEVER),
        (1, true, 7, WHOLE, NEVER),
        (1, false, 8, WHOLE, NEVER),
    ];
    for seq in [0, 2, 5] {
        let mut ring = ring(&chunks);
        let message = ring.give_up(seq).unwrap();
        assert_eq!((message.stream, message.is_whole), (1, true));
        assert_eq!(given_up(&ring), [0, 2, 5]);
        assert_eq!(ring.data_in_flight(), 500);
    }
    let mut ring = ring(&chunks);
    ring.give_up(6).unwrap();
    assert_eq!(given_up(&ring), [6]);
}

#[test]
fn a_message_whose_rest_waits_is_given_up_as_far_as_it_was_sent() {
    let chunks = [
        (1, false, 0, WHOLE, NEVER),
        (1, false, 1, BEGIN, NEVER),
        (2, false, 0, BEGIN, NEVER),
        (1, false, 1, MIDDLE, NEVER),
        (2, false, 0, MIDDLE, NEVER),
        (4, false, 0, WHOLE, NEVER),
    ];
    let mut ring = ring(&chunks);
    assert_eq!(
        [1, 2, 3, 4].map(|stream| ring.last_of(stream)),
        [Some(3), Some(4), None, None]
    );
    let message = ring.give_up(3).unwrap();
    assert!(!message.is_whole);
    assert_eq!(given_up(&ring), [1, 3]);
}

/// Without interleaving, unordered messages have no numbers, and their chunks are contiguous.
#[test]
fn b_and_e_bits_separate_unordered_messages_without_numbers() {
    let chunks = [
        (1, true, 0, BEGIN, NEVER),
        (1, true, 0, END, NEVER),
        (1, true, 0, BEGIN, NEVER),
        (1, true, 0, MIDDLE, NEVER),
        (1, true, 0, END, NEVER),
        (1, true, 0, WHOLE, NEVER),
        (1, true, 0, BEGIN, NEVER),
    ];
    for (seq, expected, is_whole) in [
        (1, vec![0, 1], true),
        (3, vec![2, 3, 4], true),
        (5, vec![5], true),
        (6, vec![6], false),
    ] {
        let mut ring = ring(&chunks);
        assert_eq!(ring.give_up(seq).unwrap().is_whole, is_whole);
        assert_eq!(given_up(&ring), expected);
    }
}

#[test]
fn messages_that_give_way_are_found_on_every_stream() {
    let (low, high) = (Limit::Priority(9), Limit::Priority(1));
    let ring = ring(&[
        (1, false, 0, BEGIN, low),
        (2, false, 0, BEGIN, high),
        (3, false, 0, BEGIN, low),
        (1, false, 0, END, low),
        (2, false, 0, MIDDLE, high),
        (3, false, 0, MIDDLE, low),
        (4, false, 0, WHOLE, low),
        (1, false, 1, BEGIN, high),
    ]);
    // Whole messages of streams 1 and 4. Stream 3 has more data in the queue.
    assert_eq!(ring.yields(Limit::Priority(5)), (Buffered::of(500, false), vec![3]));
    assert_eq!(ring.yields(NEVER), (Buffered::of(800, false), vec![1, 2, 3]));
    assert_eq!(ring.yields(Limit::Priority(9)), (Buffered::default(), Vec::new()));
}

/// Passes a SACK to the ring: everything below `cumulative`, and these ranges, half open.
fn sack(ring: &mut Outstanding, cumulative: Seq, ranges: &[(Seq, Seq)]) -> SackOutcome {
    let report = Report {
        cumulative,
        ranges: ranges.to_vec(),
        extent: Extent::Whole,
        duplicates: Vec::new(),
    };
    let rules = MissingRules {
        limit: 3,
        in_recovery: false,
        early: false,
        arrivals: 0,
        extent: Extent::Whole,
    };
    report.deliver(ring, 1, rules, &mut Seen::default())
}

/// The example of RFC 3758 §3.5 C2, with position 0 for TSN 102: 103 and 104 are abandoned, 106 is acknowledged.
// [3758:3.5-7]
#[test]
fn rfc_3758_3_5_c1_c2_the_point_moves_over_what_is_acknowledged_and_then_given_up() {
    let mut ring = ring(&[0, 1, 2, 3, 4].map(|number| (1, false, number, WHOLE, NEVER)));
    for seq in [1, 2] {
        ring.give_up(seq).unwrap();
    }
    assert_eq!(ring.forward_to(), 0, "position 0 is missing");
    sack(&mut ring, 1, &[(4, 5)]);
    assert_eq!(ring.forward_to(), 3);
    // The peer's point passes it (C1).
    sack(&mut ring, 4, &[]);
    assert_eq!(ring.forward_to(), ring.base());
}

// [3758:3.5-21, 3.5-22]
#[test]
fn rfc_3758_3_5_f4_a_sack_below_the_point_is_not_out_of_order() {
    let mut ring = ring(&[(1, true, 0, WHOLE, NEVER), (1, true, 0, WHOLE, NEVER)]);
    ring.give_up(0).unwrap();
    assert_eq!(ring.forward_to(), 1);
    let outcome = sack(&mut ring, 0, &[(1, 2)]);
    assert!(
        matches!(outcome, SackOutcome::Processed { newly_acked: true, .. }),
        "{outcome:?}"
    );
    assert!(ring.is_acked(1));
}

// [3758:3.5-3, 3.5-4]
#[test]
fn rfc_3758_3_5_a2_given_up_chunks_are_not_credited() {
    for gap in [false, true] {
        let mut ring = ring(&[(1, false, 0, WHOLE, NEVER), (1, false, 1, WHOLE, NEVER)]);
        ring.give_up(0).unwrap();
        if gap {
            sack(&mut ring, 0, &[(1, 2)]);
        }
        sack(&mut ring, 2, &[]);
        // The other chunk, with its header.
        assert_eq!(ring.take_report().of(PathId(0)).acked, if gap { 0 } else { 116 });
    }
}

// [3758:3.2-3, 3.2-4, 3.5-10, 3.5-11, 3.5-12]
#[test]
fn rfc_3758_3_5_c4_the_last_ordered_message_of_each_stream_is_listed() {
    let mut ring = ring(&[
        (1, false, 7, WHOLE, NEVER),
        (2, true, 0, WHOLE, NEVER),
        (3, false, 0, BEGIN, NEVER),
        (3, false, 0, END, NEVER),
        (1, false, 8, WHOLE, NEVER),
        (2, false, 0, WHOLE, NEVER),
    ]);
    for seq in [0, 1, 2, 4] {
        ring.give_up(seq).unwrap();
    }
    let to = ring.forward_to();
    let mut list = Vec::new();
    assert_eq!((to, ring.write_forward(to, 100, &mut list)), (5, Tsn(5)));
    assert_eq!(list, [0, 1, 0, 8, 0, 3, 0, 0]);
}

// RFC 6525 §5.2.2: the numbers of a stream begin again with its reset. Before it, the peer has all that is settled.
#[test]
fn messages_from_before_a_reset_are_not_listed_after_it() {
    let mut ring = ring(&[
        (1, false, 20, WHOLE, NEVER),
        (1, false, 21, WHOLE, NEVER),
        (2, false, 5, WHOLE, NEVER),
    ]);
    ring.give_up(0).unwrap();
    ring.give_up(1).unwrap();
    ring.settle_up_to(1);
    ring.give_up(2).unwrap();
    let to = ring.forward_to();
    let mut list = Vec::new();
    assert_eq!((to, ring.write_forward(to, 100, &mut list)), (3, Tsn(3)));
    assert_eq!(list, [0, 2, 0, 5]);
}

/// Returns the positions that the last SACK has reported as lost, of chunks that had been given up.
fn lost_given_up(ring: &mut Outstanding) -> (u32, Seq, Seq) {
    let report = ring.take_report();
    let ack = *report.of(PathId(0));
    ring.recycle(report);
    assert_eq!(ack.lost, ack.lost_given_up);
    assert!(ring.nothing_lost(), "none is retransmitted");
    (ack.lost, ack.first_lost, ack.last_lost)
}

// [3758:3.5-23]
#[test]
fn rfc_3758_3_5_f5_the_loss_of_a_chunk_that_was_given_up_in_flight_is_reported() {
    let mut ring = ring(&[0, 1, 2, 3, 4, 5, 6, 7].map(|number| (1, true, number, WHOLE, NEVER)));
    for seq in [1, 2, 6] {
        ring.give_up(seq).unwrap();
    }
    // Position 0 was in flight, and is declared lost as usual. Position 2 has arrived.
    for gaps in [[(2, 4)], [(2, 5)]] {
        sack(&mut ring, 1, &gaps);
        assert_eq!(lost_given_up(&mut ring), (0, 0, 0));
    }
    sack(&mut ring, 1, &[(2, 6)]);
    assert_eq!(lost_given_up(&mut ring), (1, 1, 1));
    // It is reported once, and position 6, which nothing overtook by as much as three packets, not.
    sack(&mut ring, 1, &[(2, 6), (7, 8)]);
    assert_eq!(lost_given_up(&mut ring), (0, 0, 0));
}

// [3758:3.5-23]
#[test]
fn after_a_timeout_the_loss_of_a_chunk_that_was_given_up_is_not_reported_again() {
    let mut ring = ring(&[0, 1, 2, 3, 4].map(|number| (1, true, number, WHOLE, NEVER)));
    ring.give_up(0).unwrap();
    sack(&mut ring, 0, &[(1, 2)]);
    let _ = ring.lose_path(PathId(0), |_, _| {});
    for seq in 2..5 {
        let _ = ring.retransmit(seq, PathId(0), Time::from_nanos(9));
    }
    for gaps in [[(1, 3)], [(1, 4)], [(1, 5)]] {
        sack(&mut ring, 0, &gaps);
        assert_eq!(lost_given_up(&mut ring), (0, 0, 0));
    }
}

// [3758:3.5-23]
#[test]
fn missing_reports_before_the_give_up_count() {
    let mut ring = ring(&[0, 1, 2, 3, 4, 5].map(|number| (1, true, number, WHOLE, NEVER)));
    sack(&mut ring, 1, &[(2, 3)]);
    sack(&mut ring, 1, &[(2, 4)]);
    ring.give_up(1).unwrap();
    sack(&mut ring, 1, &[(2, 5)]);
    assert_eq!(lost_given_up(&mut ring), (1, 1, 1));
}

// [3758:3.5-23]
#[test]
fn a_lost_retransmission_counts_no_more_than_without_the_give_up() {
    let mut ring = ring(&[0, 1, 2, 3, 4, 5, 6, 7].map(|number| (1, true, number, WHOLE, NEVER)));
    sack(&mut ring, 0, &[(1, 4)]);
    for at in [4, 5] {
        sack(&mut ring, 0, &[(1, at + 1)]);
    }
    assert!(ring.next_lost().is_some_and(|lost| lost.seq == 0));
    let _ = ring.retransmit(0, PathId(0), Time::from_nanos(9));
    ring.give_up(0).unwrap();
    for seq in 8..12 {
        let chunk = Fragment {
            stream: 1,
            unordered: true,
            number: seq,
            ..fragment(100)
        };
        ring.push(chunk, PathId(0), Time::from_nanos(10));
    }
    for end in 9..=12 {
        sack(&mut ring, 0, &[(1, end)]);
        assert_eq!(lost_given_up(&mut ring), (0, 0, 0), "{end}");
    }
}

#[test]
fn losses_of_both_kinds_are_in_order() {
    let mut ring = ring(&[0, 1, 2, 3, 4, 5, 6, 7].map(|number| (1, true, number, WHOLE, NEVER)));
    ring.give_up(0).unwrap();
    for end in [3, 4, 5] {
        sack(&mut ring, 0, &[(2, end)]);
    }
    let ack = *ring.take_report().of(PathId(0));
    assert_eq!((ack.lost, ack.lost_given_up), (2, 1));
    assert_eq!((ack.first_lost, ack.last_lost, ack.lost_tsn), (0, 1, Tsn(1)));
}

/// Each chunk is given up before it is acknowledged, and none is ever credited.
// [3758:3.5-23]
#[test]
fn what_the_ack_point_has_passed_is_watched_no_longer() {
    let mut ring = ring(&[]);
    let mut most = 0;
    for number in 0..1000 {
        let chunk = Fragment {
            stream: 1,
            number,
            ..fragment(100)
        };
        ring.push(chunk, PathId(0), Time::from_nanos(number.into()));
        ring.limit_last(NEVER);
        if number > 0 {
            ring.give_up(u64::from(number) - 1).unwrap();
            sack(&mut ring, number.into(), &[]);
        }
        most = most.max(ring.heap_bytes());
    }
    assert!(most < 4000, "{most}");
}
