//! Examples of accounting for each path, worked by hand, and comparisons of the three kinds of accounting.

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Rng, Seq, Span, Time};
use whimbrel_wire::Tsn;

use super::super::outstanding::Outstanding;
use super::super::report::PathAck;
use super::super::report::{Extent, MissingRules, SackOutcome};
use super::super::slot::Fate;
use super::model::{Announce, Holder, Report, Seen, fragment};
use crate::PathId;

/// Chunks with TSNs from `first` on, each sent on the given path.
struct Sender {
    ring: Outstanding,
    first: u32,
    limit: u8,
    early: bool,
    lost: Vec<u32>,
    /// The path on which copied chunks are assumed to have arrived.
    came_on: u8,
    too_recent: bool,
    lead: Span,
    given_up: Vec<(Seq, u8)>,
    /// What the next SACK returns.
    echoes: Vec<u64>,
    overtaken: bool,
    echoed: Vec<(Seq, u8)>,
}

impl Sender {
    fn new(accounting: Accounting, first: u32, paths: &[u8]) -> Self {
        let mut ring = Outstanding::new(Tsn(first), accounting);
        ring.set_paths(2);
        let mut sender = Sender {
            ring,
            first,
            // RFC 2960 §7.2.4
            limit: 4,
            early: false,
            lost: Vec::new(),
            came_on: 0,
            too_recent: false,
            lead: Span::ZERO,
            given_up: Vec::new(),
            echoes: Vec::new(),
            overtaken: false,
            echoed: Vec::new(),
        };
        paths.iter().for_each(|&path| sender.send(path));
        sender
    }

    fn send(&mut self, path: u8) {
        self.ring.push(fragment(1452), PathId(path), Time::ZERO);
    }

    fn seq(&self, tsn: u32) -> Seq {
        Seq::from(tsn - self.first)
    }

    fn resend(&mut self, tsn: u32, path: u8) {
        self.ring.retransmit(self.seq(tsn), PathId(path), Time::ZERO);
    }

    /// Processes a SACK with this cumulative TSN ack and these blocks of TSNs, both ends included, that acknowledges
    /// `packets` packets.
    fn sack_of(&mut self, cumulative: u32, blocks: &[(u32, u32)], packets: u8) {
        let report = Report {
            cumulative: self.seq(cumulative + 1),
            ranges: blocks
                .iter()
                .map(|&(from, to)| (self.seq(from), self.seq(to) + 1))
                .collect(),
            extent: Extent::Whole,
            duplicates: Vec::new(),
        };
        let rules = MissingRules {
            limit: self.limit,
            in_recovery: false,
            early: self.early,
            arrivals: packets,
            extent: Extent::Whole,
        };
        let mut seen = Seen {
            order: vec![self.came_on],
            too_recent: self.too_recent,
            lead: self.lead,
            echoes: core::mem::take(&mut self.echoes),
            overtaken: self.overtaken,
            ..Seen::default()
        };
        let outcome = report.deliver(&mut self.ring, self.first, rules, &mut seen);
        let is_processed = matches!(outcome, SackOutcome::Processed { .. });
        assert_ne!(is_processed, self.overtaken, "{outcome:?}");
        self.echoed.extend(seen.echoed);
        self.given_up.extend(seen.given_up);
        self.lost.extend(seen.lost.iter().map(|tsn| tsn.0));
    }

    fn sack(&mut self, cumulative: u32, blocks: &[(u32, u32)]) {
        self.sack_of(cumulative, blocks, 0);
    }

    fn acked_to(&self) -> [Seq; 2] {
        [0, 1].map(|path| self.ring.acked_to(PathId(path)))
    }

    fn advanced(&self) -> [bool; 2] {
        [0, 1].map(|path| self.ring.acks()[path].advanced)
    }

    fn missing(&self, tsn: u32) -> u8 {
        self.ring.slot(self.seq(tsn)).expect("it is outstanding").missing
    }
}

#[test]
fn figure_39_a_sack_of_tsns_becomes_one_of_psns_for_each_path() {
    // Ye 2004, Figure 39. Path 0 has TSNs 100, 102, 104, 106 as PSNs 0 to 3; path 1 has 101, 103, 105 as PSNs 0 to 2.
    let mut sender = Sender::new(Accounting::Path, 100, &[0, 1, 0, 1, 0, 1, 0]);
    let positions: Vec<_> = (0..7).map(|seq| sender.ring.position(seq).unwrap()).collect();
    assert_eq!(positions, [0, 0, 1, 1, 2, 2, 3]);
    // Cumulative TSN ack 100, blocks 102 and 104 to 105. Path 0: PSNs 0, 1 and 2 are acknowledged, a block that begins with the first
    // PSN, so the cumulative PSN ack point is 2. Path 1: PSN 2 is a separate block, 0 and 1 are missing.
    sender.sack(100, &[(102, 102), (104, 105)]);
    assert_eq!(sender.acked_to(), [3, 0]);
    assert_eq!(sender.advanced(), [true, false]);
    assert_eq!([101, 103, 106].map(|tsn| sender.missing(tsn)), [1, 1, 0]);
    // 101 arrives: path 1 has PSNs 0 and 2, and its cumulative PSN ack point is 0. No new PSN above 1: no report.
    sender.sack(102, &[(104, 105)]);
    assert_eq!(sender.acked_to(), [3, 1]);
    assert_eq!(sender.advanced(), [false, true]);
    assert_eq!([103, 106].map(|tsn| sender.missing(tsn)), [1, 0]);
    let newest = sender.ring.acks()[1];
    assert_eq!((newest.newest, newest.packets), (0, 1));
}

#[test]
fn figure_40_a_chunk_retransmitted_on_another_path_counts_as_acknowledged() {
    // Ye 2004, Figure 40. TSNs 100 to 105 are PSNs 0 to 5 of path 0; 101 and 102 are lost.
    let mut sender = Sender::new(Accounting::Path, 100, &[0; 6]);
    sender.limit = 2;
    sender.sack(100, &[(103, 103)]);
    sender.sack(100, &[(103, 104)]);
    assert_eq!(sender.lost, [101, 102]);
    assert_eq!(sender.acked_to(), [1, 0], "the cumulative PSN ack point is 0");
    // 101 is retransmitted on path 1 as PSN 0 there, and 102 as PSN 1. PSNs 1 and 2 of path 0 are the adjustment list.
    sender.resend(101, 1);
    sender.resend(102, 1);
    assert_eq!([1, 2].map(|seq| sender.ring.position(seq)), [Some(0), Some(1)]);
    assert_eq!(sender.acked_to(), [1, 0], "adjusted when a SACK arrives");
    // 105 arrives. 1 = 0 + 1 and 2 = 1 + 1: the point moves to 2, and over 3, 4 and 5, which are acknowledged. The cumulative TSN ack
    // is still 100.
    sender.sack(100, &[(103, 105)]);
    assert_eq!(sender.acked_to(), [6, 0]);
    assert_eq!(sender.advanced(), [true, false]);
    assert_eq!(sender.ring.flight(PathId(0)), 0);
    // New data on both paths, TSNs 106 to 108, is PSN 6 of path 0, and PSNs 2 and 3 of path 1. 102 is lost again: the new PSN counts.
    [0, 1, 1].into_iter().for_each(|path| sender.send(path));
    sender.sack(101, &[(103, 107)]);
    assert_eq!((sender.acked_to(), sender.missing(102)), ([7, 1], 1));
    sender.sack(101, &[(103, 108)]);
    assert_eq!(sender.lost, [101, 102, 102]);
}

#[test]
fn a_chunk_moved_to_another_path_is_no_longer_outstanding() {
    // Also Figure 40: a path with few outstanding chunks needs few missing reports (RFC 5827 §3.2; Ye 2004, 3.4).
    for accounting in [Accounting::Path, Accounting::Cmt] {
        let mut sender = Sender::new(accounting, 100, &[0; 8]);
        sender.limit = 2;
        sender.sack(100, &[(104, 104)]);
        sender.sack(100, &[(104, 105)]);
        assert_eq!(sender.lost, [101, 102, 103]);
        sender.resend(102, 1);
        sender.resend(103, 1);
        let id = PathId(0);
        // 101, which waits for retransmission, and 104 to 107.
        assert_eq!(sender.ring.span(id), 5, "{accounting:?}");
        sender.ring.lose_path(id, |_, _| {});
        sender.resend(106, 1);
        sender.resend(107, 1);
        assert_eq!(
            (sender.ring.span(id), sender.ring.span(PathId(1))),
            (3, 4),
            "{accounting:?}"
        );
        // 105 is the last chunk on this path, and it has arrived.
        assert!(sender.ring.newest_is_reported(id), "{accounting:?}");
    }
}

#[test]
fn a_path_in_a_reused_entry_has_carried_no_data() {
    let mut sender = Sender::new(Accounting::Path, 100, &[1]);
    sender.ring.allow_copies();
    let id = PathId(1);
    let next = |sender: &mut Sender| sender.ring.next_copy(id, |_, _| true);
    assert_eq!(next(&mut sender), None, "the chunk was sent on this path already");
    sender.ring.lose_path(id, |_, _| {});
    sender.resend(100, 0);
    assert_eq!(next(&mut sender), None, "the chunk has been sent on this path");
    sender.ring.forget_path(id);
    assert_eq!(next(&mut sender), Some(0));
}

#[test]
fn a_lost_transmission_of_a_copied_chunk_is_reported_once() {
    let mut sender = Sender::new(Accounting::Path, 100, &[0, 0, 1]);
    sender.limit = 1;
    sender.ring.allow_copies();
    // The chunk's own transmission waits for retransmission until the copy has arrived.
    sender.ring.copy(0, PathId(1), Time::ZERO);
    sender.sack(99, &[(101, 101)]);
    assert_eq!((&sender.lost[..], &sender.given_up[..]), (&[100][..], &[][..]));
    sender.came_on = 1;
    sender.sack(101, &[]);
    assert_eq!(sender.given_up, [(0, 0)]);
    // Other transmissions overtook a copy: 102 itself is still outstanding.
    sender.ring.copy(2, PathId(0), Time::ZERO);
    sender.send(0);
    sender.came_on = 0;
    sender.sack(101, &[(103, 103)]);
    assert_eq!(sender.given_up, [(0, 0), (2, 0)]);
}

#[test]
fn an_acknowledgement_too_early_for_a_retransmission_reports_nothing_missing_on_its_path() {
    for too_recent in [true, false] {
        // TSNs 10 to 13 on path 0, which times out too early; 14 to 17 on path 1, and then 10 to 13 again.
        let mut sender = Sender::new(Accounting::Path, 10, &[0, 0, 0, 0, 1, 1, 1, 1]);
        assert!(sender.ring.lose_path(PathId(0), |_, _| ()).is_some());
        (10..=13).for_each(|tsn| sender.resend(tsn, 1));
        sender.too_recent = too_recent;
        (10..=13).for_each(|tsn| sender.sack(tsn, &[]));
        let expected: &[u32] = if too_recent { &[] } else { &[14, 15, 16, 17] };
        assert_eq!(sender.lost, expected);
        assert_eq!(sender.ring.flight(PathId(1)), if too_recent { 4 * 1468 } else { 0 });
    }
}

#[test]
fn a_copy_of_an_acknowledged_chunk_is_not_missed_by_a_sack_that_overtook_its_report() {
    for (lead, later, expected) in [(0, 1, &[(0, 1)][..]), (5, 4, &[]), (5, 5, &[(0, 1)])] {
        // TSN 10 is sent on both paths, and arrives on path 0.
        let mut sender = Sender::new(Accounting::Path, 10, &[0]);
        sender.limit = 1;
        sender.ring.allow_copies();
        sender.ring.copy(0, PathId(1), Time::ZERO);
        sender.ring.push(fragment(1452), PathId(1), Time::from_nanos(later));
        sender.sack(10, &[]);
        sender.lead = Span::from_nanos(lead);
        sender.sack(11, &[]);
        assert_eq!(sender.given_up, expected, "{lead} {later}");
    }
}

/// Returns a sender of TSNs 10 to 12, each sent on both paths, first on path 0; the timestamps are the numbers of the packets.
fn six_identified_packets() -> Sender {
    let mut sender = Sender::new(Accounting::Path, 10, &[]);
    sender.limit = 2;
    sender.ring.allow_copies();
    sender.ring.identify_by_echoes();
    for seq in 0..3 {
        sender.send(0);
        sender.ring.note_stamp(PathId(0), 2 * seq);
        sender.ring.copy(seq, PathId(1), Time::ZERO);
        sender.ring.note_stamp(PathId(1), 2 * seq + 1);
    }
    sender
}

#[test]
fn a_returned_timestamp_acknowledges_the_transmission_that_has_arrived() {
    let mut sender = six_identified_packets();
    let flights = |sender: &Sender| [0, 1].map(|path| sender.ring.flight(PathId(path)));
    // All three have arrived on path 1, although the others were sent first. No timestamp, no transmission.
    sender.sack(12, &[]);
    assert_eq!((sender.ring.data_in_flight(), flights(&sender)), (0, [3 * 1468; 2]));
    assert!(sender.ring.is_empty());
    sender.echoes = vec![1, 3, 5];
    sender.sack(12, &[]);
    assert_eq!(sender.echoed, [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(flights(&sender), [3 * 1468, 0]);
    // Another SACK returns them again. Two later packets on path 0 have arrived, so the first one is lost.
    sender.echoes = vec![1, 3, 5, 2];
    sender.sack(12, &[]);
    assert_eq!((&sender.echoed[3..], &sender.given_up[..]), (&[(1, 0)][..], &[][..]));
    sender.echoes = vec![2, 4];
    sender.sack(12, &[]);
    assert_eq!((&sender.lost[..], &sender.given_up[..]), (&[10][..], &[(0, 0)][..]));
    assert_eq!(flights(&sender), [0, 0]);
}

#[test]
fn a_sack_reports_nothing_about_packets_before_those_that_it_lists() {
    let mut sender = Sender::new(Accounting::Path, 10, &[]);
    sender.limit = 3;
    sender.ring.allow_copies();
    sender.ring.identify_by_echoes();
    for stamp in 0..8 {
        sender.send(0);
        sender.ring.note_stamp(PathId(0), stamp);
    }
    // A SACK on another path overtook those that returned the first three.
    sender.echoes = vec![3, 5, 6, 7];
    sender.sack(9, &[(13, 13), (15, 17)]);
    assert_eq!(sender.lost, [14]);
    sender.echoes = vec![0, 2, 3];
    sender.sack(10, &[(12, 13), (15, 17)]);
    assert_eq!(sender.lost, [14], "three listed, but only two later than 11");
    sender.echoes = vec![0, 2, 3, 5];
    sender.sack(10, &[(12, 13), (15, 17)]);
    assert_eq!(sender.lost, [14, 11]);
}

#[test]
fn a_retransmission_on_the_same_path_has_a_timestamp_and_a_psn_of_its_own() {
    let mut sender = six_identified_packets();
    sender.echoes = vec![2, 4];
    sender.sack(9, &[(11, 12)]);
    assert_eq!(sender.lost, [10], "two later packets have arrived on path 0");
    sender.resend(10, 0);
    sender.ring.note_stamp(PathId(0), 7);
    // The first transmission arrives after all, then the second one.
    sender.echoes = vec![0];
    sender.sack(12, &[]);
    assert_eq!(sender.ring.flight(PathId(0)), 1468);
    sender.echoes = vec![7];
    sender.sack(12, &[]);
    assert_eq!(sender.ring.flight(PathId(0)), 0);
    assert_eq!(sender.ring.flight(PathId(1)), 3 * 1468);
}

#[test]
fn an_overtaken_sack_takes_back_nothing_and_its_timestamps_count() {
    let mut sender = six_identified_packets();
    sender.echoes = vec![1, 3];
    sender.sack(9, &[(11, 12)]);
    sender.overtaken = true;
    sender.echoes = vec![5];
    sender.sack(9, &[(12, 12)]);
    assert_eq!(sender.echoed, [(0, 1), (1, 1), (2, 1)]);
    assert_eq!(sender.ring.data_in_flight(), 1452, "only TSN 10");
    sender.overtaken = false;
    // A receiver that takes a chunk back has it sent again.
    sender.sack(9, &[(12, 12)]);
    assert_eq!(sender.ring.next_lost().map(|lost| lost.seq), Some(1));
    sender.resend(11, 0);
    sender.ring.note_stamp(PathId(0), 6);
    sender.echoes = vec![0, 2, 6];
    sender.sack(12, &[]);
    assert_eq!(sender.ring.data_in_flight(), 0);
    assert_eq!([0, 1].map(|path| sender.ring.flight(PathId(path))), [1468, 0]);
}

#[test]
fn data_sent_before_a_retransmission_does_not_report_it_missing() {
    let mut sender = Sender::new(Accounting::Path, 10, &[1; 12]);
    sender.ring.allow_copies();
    (11..=14).for_each(|last| sender.sack(9, &[(11, last)]));
    assert_eq!(sender.lost, [10]);
    // The chunk is retransmitted on the path where it was lost, and keeps its PSN there; a copy on the other path
    // arrives earlier.
    let [again, later] = [1, 2].map(Time::from_nanos);
    sender.ring.retransmit(0, PathId(1), again);
    sender.ring.copy(0, PathId(0), again);
    sender.sack(14, &[]);
    // 15 to 21 were sent before the retransmission.
    (15..=21).for_each(|last| sender.sack(last, &[]));
    assert_eq!((&sender.lost[..], &sender.given_up[..]), (&[10][..], &[][..]));
    // Data sent after it reports it missing.
    for tsn in 22..=25 {
        assert!(sender.given_up.is_empty());
        sender.ring.push(fragment(1452), PathId(1), later);
        sender.sack(tsn, &[]);
    }
    assert_eq!((&sender.lost[..], &sender.given_up[..]), (&[10, 10][..], &[(0, 1)][..]));
}

#[test]
fn early_retransmit_counts_the_outstanding_chunks_of_the_path() {
    // RFC 5827 §3.2: of 100, 106 and 107, two are enough to report the third one missing. TSNs 101 to 105 were moved to
    // the other path.
    for accounting in [Accounting::Path, Accounting::Cmt] {
        let mut sender = Sender::new(accounting, 100, &[0; 6]);
        sender.early = true;
        for tsn in (101..=105).rev() {
            assert!(sender.ring.lose_last(PathId(0)).is_some());
            sender.resend(tsn, 1);
        }
        (0..2).for_each(|_| sender.send(0));
        sender.sack(99, &[(106, 106)]);
        assert!(sender.lost.is_empty(), "{accounting:?}");
        sender.sack(99, &[(106, 107)]);
        assert_eq!(sender.lost, [100], "{accounting:?}");
    }
}

#[test]
fn a_chunk_retransmitted_on_its_path_keeps_its_psn() {
    // Ye 2004, 6.4.2.3
    let mut sender = Sender::new(Accounting::Path, 7, &[0; 5]);
    (9..12).for_each(|tsn| sender.sack(7, &[(9, tsn)]));
    assert!(sender.lost.is_empty());
    sender.send(0);
    sender.sack(7, &[(9, 12)]);
    assert_eq!(sender.lost, [8]);
    sender.resend(8, 0);
    assert_eq!(sender.ring.position(1), Some(1));
    assert_eq!(sender.acked_to(), [1, 0]);
    sender.sack(12, &[]);
    assert_eq!(sender.acked_to(), [6, 0]);
}

/// Ye 2004, 6.3: TSNs 20 to 23 on path 0 and 24 to 27 on path 1, which is four times as fast. Four SACKs report 24 to 27.
fn twenty_to_twenty_seven(accounting: Accounting) -> Sender {
    let mut sender = Sender::new(accounting, 20, &[0, 0, 0, 0, 1, 1, 1, 1]);
    for last in 24..=27 {
        sender.sack(19, &[(24, last)]);
    }
    sender
}

#[test]
fn section_6_3_reordering_between_paths_is_no_loss_with_accounting_per_path() {
    assert_eq!(twenty_to_twenty_seven(Accounting::Association).lost, [20, 21, 22, 23]);
    for accounting in [Accounting::Path, Accounting::Cmt] {
        let mut sender = twenty_to_twenty_seven(accounting);
        assert!(sender.lost.is_empty(), "{accounting:?}");
        // The window of path 1 may have grown with each SACK, although the cumulative TSN ack has not moved.
        assert_eq!(sender.advanced(), [false, true], "{accounting:?}");
        sender.sack(20, &[(24, 27)]);
        assert_eq!(sender.advanced(), [true, false], "{accounting:?}");
    }
}

#[test]
fn cuc_follows_the_earliest_new_and_the_earliest_retransmitted_chunk() {
    // Iyengar, Amer and Stewart 2006, CUCv2
    let mut sender = Sender::new(Accounting::Cmt, 20, &[0, 0, 1, 1, 0]);
    sender.limit = 2;
    sender.sack(19, &[(22, 22)]);
    assert_eq!(sender.advanced(), [false, true], "22 is the pseudo-cumack of path 1");
    sender.sack(19, &[(21, 23)]);
    assert_eq!(sender.advanced(), [false, true], "20 is that of path 0, not 21");
    assert_eq!(sender.acked_to(), [0, 5], "nothing is left on path 1");
    sender.sack(19, &[(21, 24)]);
    assert_eq!(sender.lost, [20]);
    sender.resend(20, 0);
    sender.send(0);
    sender.send(0);
    // 20 is still missing; 25 is the earliest chunk sent once.
    sender.sack(19, &[(21, 25)]);
    assert_eq!(sender.advanced(), [true, false]);
    assert_eq!(sender.acked_to(), [0, 7]);
    // 20 is the earliest retransmitted chunk.
    sender.sack(25, &[]);
    assert_eq!(sender.advanced(), [true, false]);
    assert_eq!(sender.acked_to(), [6, 7]);
    // By PSN, there is one cumulative ack point for both: 25 does not move it.
    let mut sender = Sender::new(Accounting::Path, 20, &[0, 0, 1, 1, 0]);
    sender.limit = 2;
    sender.sack(19, &[(21, 23)]);
    sender.sack(19, &[(21, 24)]);
    sender.resend(20, 0);
    sender.send(0);
    sender.sack(19, &[(21, 25)]);
    assert_eq!(sender.advanced(), [false, false]);
}

#[test]
fn dac_counts_the_packets_that_a_sack_answers() {
    // Iyengar, Amer and Stewart 2006, DAC
    let mut sender = Sender::new(Accounting::Cmt, 20, &[0, 0, 0, 1, 0, 0, 1]);
    sender.sack_of(19, &[(21, 22)], 2);
    assert_eq!(sender.missing(20), 2, "two packets of path 0, both after 20");
    sender.sack_of(19, &[(21, 24)], 2);
    assert_eq!(sender.missing(20), 3, "one of them is of path 1");
    // If the receiver does not report the number, it counts as one.
    let mut sender = Sender::new(Accounting::Cmt, 20, &[0, 0, 0]);
    sender.sack_of(19, &[(21, 22)], 0);
    assert_eq!(sender.missing(20), 1);
    // 20 arrives late with 22: not both packets are above 21.
    let mut sender = Sender::new(Accounting::Cmt, 20, &[0, 0, 0]);
    sender.sack_of(20, &[(22, 22)], 2);
    assert_eq!(sender.missing(21), 1);
    // Paths with accounting by PSN do not use the number.
    let mut sender = Sender::new(Accounting::Path, 20, &[0, 0, 0]);
    sender.sack_of(19, &[(21, 22)], 2);
    assert_eq!(sender.missing(20), 1);
}

/// Two rings with the same history.
struct Twins {
    rings: [Outstanding; 2],
    holder: Holder,
    paths: u64,
    limit: u8,
    now: Time,
}

impl Twins {
    fn new(rng: &mut Rng, paths: u64, accountings: [Accounting; 2]) -> Self {
        let multiple = rng.chance(0.5);
        let rings = accountings.map(|accounting| {
            let mut ring = Outstanding::new(Tsn(1), accounting);
            ring.set_paths(paths as usize);
            if multiple {
                ring.allow_multiple_fast_retransmit();
            }
            ring
        });
        Twins {
            rings,
            holder: Holder::default(),
            paths,
            limit: 2 + rng.below(3) as u8,
            now: Time::from_nanos(1),
        }
    }

    fn step(&mut self, rng: &mut Rng) {
        self.now += Span::from_micros(1);
        match rng.below(12) {
            0..=3 => {
                for _ in 0..rng.below(8) {
                    let path = PathId(rng.below(self.paths) as u8);
                    let now = self.now;
                    self.rings.iter_mut().for_each(|ring| {
                        ring.push(fragment(700), path, now);
                    });
                }
            }
            4..=6 => {
                for _ in 0..rng.below(6) {
                    let [lost, other] = self.rings.each_mut().map(|ring| ring.next_lost());
                    assert_eq!(lost, other);
                    let Some(lost) = lost else { break };
                    let now = self.now;
                    for ring in &mut self.rings {
                        ring.retransmit(lost.seq, lost.from, now);
                    }
                }
            }
            7 if rng.chance(0.3) => {
                let path = PathId(rng.below(self.paths) as u8);
                let [lost, other] = self
                    .rings
                    .each_mut()
                    .map(|ring| ring.lose_path(path, |_, _| {}).map(|(_, tsn)| tsn));
                assert_eq!(lost, other);
            }
            _ => self.sack(rng),
        }
        let [one, other] = &self.rings;
        for seq in one.base()..one.next_seq() {
            let state = |ring: &Outstanding| {
                let slot = ring.slot(seq).expect("it is outstanding");
                let missing = (slot.fate == Fate::InFlight && !slot.fast_retransmitted).then_some(slot.missing);
                (slot.fate, slot.path, missing)
            };
            assert_eq!(state(one), state(other), "{seq}");
        }
        for path in 0..self.paths as u8 {
            assert_eq!(one.flight(PathId(path)), other.flight(PathId(path)));
        }
    }

    fn sack(&mut self, rng: &mut Rng) {
        let report = self.holder.report(self.rings[0].next_seq(), rng, false);
        let recovering: Vec<usize> = (0..self.paths as usize).filter(|_| rng.chance(0.3)).collect();
        let rules = MissingRules {
            limit: self.limit,
            in_recovery: !recovering.is_empty(),
            early: false,
            arrivals: 0,
            extent: Extent::Whole,
        };
        let [mut one, mut other] = self.rings.each_mut().map(|ring| {
            let mut seen = Seen {
                recovering: recovering.clone(),
                ..Seen::default()
            };
            let outcome = report.deliver(ring, 1, rules, &mut seen);
            seen.lost.sort_unstable_by_key(|tsn| tsn.0);
            (outcome, seen.acked, seen.lost, Vec::new())
        });
        let acks = |ring: &Outstanding| -> Vec<_> {
            let of = |ack: &PathAck| (ack.acked, ack.packets, ack.lost, ack.newest_sent_at);
            ring.acks().iter().map(of).collect()
        };
        one.3 = acks(&self.rings[0]);
        other.3 = acks(&self.rings[1]);
        assert_eq!(one, other);
    }
}

fn twins_agree(name: &str, most: u64, accountings: [Accounting; 2], also: impl Fn(&[Outstanding; 2])) {
    for seed in 0..500 {
        let _announce = Announce(seed);
        let mut rng = Rng::stream(seed, name);
        let paths = 1 + rng.below(most);
        let mut twins = Twins::new(&mut rng, paths, accountings);
        for _ in 0..150 {
            twins.step(&mut rng);
            also(&twins.rings);
        }
    }
}

#[test]
fn on_a_single_path_psns_are_tsns() {
    twins_agree(
        "single",
        1,
        [Accounting::Association, Accounting::Path],
        |[one, other]| {
            let id = PathId(0);
            assert_eq!(one.acked_to(id), other.acked_to(id));
            assert_eq!(one.next_position(id), other.next_position(id));
            assert_eq!(one.earliest(id), other.earliest(id));
        },
    );
}

#[test]
fn psns_subsume_sfr_and_cuc_without_retransmissions_on_other_paths() {
    // Both have the same losses; whenever the cumulative PSN ack point moves, a pseudo-cumack moves as well.
    twins_agree("cmt", 4, [Accounting::Path, Accounting::Cmt], |[psns, tsns]| {
        for (path, (by_psn, by_tsn)) in psns.acks().iter().zip(tsns.acks()).enumerate() {
            assert!(by_tsn.advanced || !by_psn.advanced, "path {path}");
            assert_eq!(by_psn.earliest_acked, by_tsn.earliest_acked, "path {path}");
        }
    });
}
