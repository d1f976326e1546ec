//! Unacknowledged data, segment by segment (RFC 6675 §3, §4).
//!
//! Segments are numbered in the order of their first transmission and stored in a ring. Each is in flight, selectively
//! acknowledged, or lost and not yet retransmitted; the bytes in each state are counted incrementally. SACK blocks are compared
//! with the known ranges, so the cost of an acknowledgement is proportional to what it newly reports.

use std::collections::VecDeque;

use whimbrel_control::estimator::SendStamp;
use whimbrel_control::{Seq, Time};

/// State of a segment that is not cumulatively acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    InFlight,
    Sacked,
    /// Declared lost and not yet retransmitted.
    Lost,
}

/// A segment that is not cumulatively acknowledged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// Offset of its first byte in the stream.
    pub(super) start: u64,
    /// Length in sequence numbers: its payload and the FIN.
    pub(super) len: u32,
    pub(super) fin: bool,
    pub(super) state: State,
    pub(super) retransmitted: bool,
    /// Time of its last transmission.
    pub(super) sent_at: Time,
    /// Number of its last transmission among all transmissions.
    order: u64,
    /// State for the delivery rate, if that is measured.
    pub(super) stamp: SendStamp,
}

impl Slot {
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Returns the bytes of payload.
    pub(super) fn payload(&self) -> u32 {
        self.len - u32::from(self.fin)
    }
}

/// The rule by which segments count as lost.
#[derive(Clone, Copy, Debug)]
pub(super) enum LossRule {
    /// This number of later segments has been selectively acknowledged (RFC 6675 §4, IsLost, in segments instead of bytes).
    Sacked(u32),
    /// The forward-most selective acknowledgement is this number of segments ahead (FACK: Mathis and Mahdavi 1996, §2.2).
    Forward(u32),
}

/// What an acknowledgement newly reported.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AckOutcome {
    /// Bytes acknowledged for the first time, cumulatively or selectively.
    pub(super) bytes: u64,
    /// Bytes of user data among them: a FIN is none.
    pub(super) payload: u64,
    /// Segments acknowledged for the first time.
    pub(super) packets: u32,
    /// Segments removed from the front.
    pub(super) front_packets: u32,
    /// Bytes of these that a SACK block had reported before.
    pub(super) front_known: u64,
    /// Whether the cumulative acknowledgement moved.
    pub(super) advanced: bool,
    /// The most recently sent segment among those newly acknowledged.
    pub(super) newest: Option<(Seq, Slot)>,
}

/// Segments declared lost on one occasion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Lost {
    pub(super) first: Seq,
    pub(super) last: Seq,
    pub(super) packets: u32,
    pub(super) bytes: u64,
}

impl Lost {
    /// Combines both.
    pub(super) fn merge(&mut self, other: &Lost) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    fn add(&mut self, seq: Seq, slot: &Slot) {
        self.first = if self.packets == 0 { seq } else { self.first.min(seq) };
        self.last = self.last.max(seq);
        self.packets += 1;
        self.bytes += u64::from(slot.len);
    }
}

/// All segments that are not cumulatively acknowledged.
#[derive(Debug, Default)]
pub(super) struct Scoreboard {
    slots: VecDeque<Slot>,
    /// Position of the first slot.
    base: Seq,
    /// Offset up to which everything is cumulatively acknowledged.
    una: u64,
    /// Offset behind the last segment.
    next: u64,
    in_flight: u64,
    sacked: u64,
    lost: u64,
    lost_packets: u32,
    /// Positions that are selectively acknowledged, as ranges in order.
    ranges: Vec<(Seq, Seq)>,
    /// Segments below this position have been examined for loss.
    frontier: Seq,
    /// No segment below this position is lost.
    hint: Seq,
    /// Transmissions so far.
    transmissions: u64,
    /// The latest transmission that is known to have arrived.
    delivered_order: u64,
    /// Retransmissions in flight, in their order: position and number of the transmission.
    retransmissions: VecDeque<(Seq, u64)>,
    /// The segments declared lost on the last occasion.
    given_up: Vec<Seq>,
}

impl Scoreboard {
    /// Returns the offset up to which everything is cumulatively acknowledged.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the offset behind the last sent segment.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the position of the first segment that is not cumulatively acknowledged.
    pub(super) fn first(&self) -> Seq {
        self.base
    }

    /// Returns the position of the next new segment.
    pub(super) fn next_seq(&self) -> Seq {
        self.base + self.slots.len() as Seq
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the bytes sent that are neither acknowledged nor declared lost: pipe of RFC 6675.
    pub(super) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Returns the selectively acknowledged bytes.
    pub(super) fn sacked(&self) -> u64 {
        self.sacked
    }

    /// Returns the bytes declared lost and not yet retransmitted.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns whether the last sent segment is selectively acknowledged: nothing is in flight after the holes.
    pub(super) fn ends_sacked(&self) -> bool {
        self.slots.back().is_some_and(|slot| slot.state == State::Sacked)
    }

    pub(super) fn get(&self, seq: Seq) -> Option<&Slot> {
        self.slots.get(seq.checked_sub(self.base)? as usize)
    }

    /// Stores the delivery-rate state of a segment.
    pub(super) fn set_stamp(&mut self, seq: Seq, stamp: SendStamp) {
        let index = self.index(seq);
        self.slots[index].stamp = stamp;
    }

    fn index(&self, seq: Seq) -> usize {
        (seq - self.base) as usize
    }

    /// Adds a new segment that is being sent, and returns its position.
    pub(super) fn push(&mut self, now: Time, len: u32, fin: bool) -> Seq {
        let seq = self.next_seq();
        if self.slots.is_empty() {
            self.hint = seq;
            self.frontier = seq;
        }
        self.transmissions += 1;
        self.slots.push_back(Slot {
            start: self.next,
            len,
            fin,
            state: State::InFlight,
            retransmitted: false,
            sent_at: now,
            order: self.transmissions,
            stamp: SendStamp::default(),
        });
        self.next += u64::from(len);
        self.in_flight += u64::from(len);
        seq
    }

    /// Records a retransmission.
    pub(super) fn resend(&mut self, now: Time, seq: Seq) {
        let index = self.index(seq);
        self.transmissions += 1;
        let order = self.transmissions;
        let slot = &mut self.slots[index];
        let len = u64::from(slot.len);
        match slot.state {
            State::Lost => {
                self.lost -= len;
                self.lost_packets -= 1;
                self.in_flight += len;
            }
            // Retransmitted although it may still arrive: it counts once.
            State::InFlight | State::Sacked => {}
        }
        if slot.state == State::Lost {
            slot.state = State::InFlight;
        }
        slot.retransmitted = true;
        slot.sent_at = now;
        slot.order = order;
        self.retransmissions.push_back((seq, order));
    }

    /// Returns the first segment that is lost and not yet retransmitted.
    pub(super) fn next_lost(&mut self) -> Option<Seq> {
        if self.lost_packets == 0 {
            return None;
        }
        self.hint = self.hint.max(self.base);
        while self.get(self.hint)?.state != State::Lost {
            self.hint += 1;
        }
        Some(self.hint)
    }

    /// Returns the first segment that is in flight, was not retransmitted, and is below the highest selectively acknowledged one.
    pub(super) fn next_hole(&self) -> Option<Seq> {
        let end = self.ranges.last()?.1;
        (self.base..end).find(|seq| {
            self.get(*seq)
                .is_some_and(|slot| slot.state == State::InFlight && !slot.retransmitted)
        })
    }

    fn settle(&mut self, outcome: &mut AckOutcome, seq: Seq, slot: Slot) {
        let len = u64::from(slot.len);
        match slot.state {
            State::InFlight => self.in_flight -= len,
            State::Lost => {
                self.lost -= len;
                self.lost_packets -= 1;
            }
            State::Sacked => return,
        }
        outcome.bytes += len;
        outcome.payload += u64::from(slot.payload());
        outcome.packets += 1;
        self.delivered_order = self.delivered_order.max(slot.order);
        if outcome.newest.is_none_or(|(_, newest)| slot.order > newest.order) {
            outcome.newest = Some((seq, slot));
        }
    }

    /// Handles an acknowledgement of everything below `cumulative`, and of the blocks, all as offsets. Returns what is new; nothing
    /// if it acknowledges data that was never sent.
    pub(super) fn on_ack(&mut self, cumulative: u64, blocks: impl Iterator<Item = (u64, u64)>) -> Option<AckOutcome> {
        if cumulative > self.next {
            return None;
        }
        let mut outcome = AckOutcome::default();
        if cumulative > self.una {
            outcome.advanced = true;
            self.una = cumulative;
            while let Some(slot) = self.slots.front().copied().filter(|slot| slot.end() <= cumulative) {
                let seq = self.base;
                outcome.front_packets += 1;
                if slot.state == State::Sacked {
                    self.sacked -= u64::from(slot.len);
                    outcome.front_known += u64::from(slot.len);
                }
                self.settle(&mut outcome, seq, slot);
                self.slots.pop_front();
                self.base += 1;
            }
            self.forget_ranges();
        }
        for (from, to) in blocks {
            self.take_block(from, to, &mut outcome);
        }
        Some(outcome)
    }

    fn forget_ranges(&mut self) {
        let base = self.base;
        let gone = self.ranges.iter().take_while(|(_, to)| *to <= base).count();
        self.ranges.drain(..gone);
        if let Some(first) = self.ranges.first_mut() {
            first.0 = first.0.max(base);
        }
        while self.retransmissions.front().is_some_and(|(seq, _)| *seq < base) {
            self.retransmissions.pop_front();
        }
        self.frontier = self.frontier.max(base);
    }

    /// Returns the positions that are completely inside a block.
    fn positions(&self, from: u64, to: u64) -> (Seq, Seq) {
        let first = self.slots.partition_point(|slot| slot.start < from);
        let end = self.slots.partition_point(|slot| slot.end() <= to);
        (self.base + first as Seq, self.base + end as Seq)
    }

    fn take_block(&mut self, from: u64, to: u64, outcome: &mut AckOutcome) {
        // A block at or below the cumulative acknowledgement reports a duplicate (RFC 2883 §4).
        if to <= self.una || from < self.una || to > self.next || from >= to {
            return;
        }
        let (from, to) = self.positions(from, to);
        if from >= to {
            return;
        }
        // Ranges that the block touches are merged with it; the gaps between them are newly acknowledged.
        let begin = self.ranges.partition_point(|(_, end)| *end < from);
        let mut merged = (from, to);
        let mut at = from;
        let mut touched = begin;
        while let Some(&(start, end)) = self.ranges.get(touched).filter(|(start, _)| *start <= to) {
            self.take_new(at, start, outcome);
            at = at.max(end);
            merged = (merged.0.min(start), merged.1.max(end));
            touched += 1;
        }
        self.take_new(at, to, outcome);
        if touched == begin {
            self.ranges.insert(begin, merged);
        } else {
            self.ranges[begin] = merged;
            self.ranges.drain(begin + 1..touched);
        }
    }

    fn take_new(&mut self, from: Seq, to: Seq, outcome: &mut AckOutcome) {
        for seq in from..to {
            let index = self.index(seq);
            let slot = self.slots[index];
            self.settle(outcome, seq, slot);
            self.sacked += u64::from(slot.len);
            self.slots[index].state = State::Sacked;
        }
    }

    /// Returns the segments declared lost on the last occasion.
    pub(super) fn given_up(&self) -> &[Seq] {
        &self.given_up
    }

    fn give_up(&mut self, seq: Seq, lost: &mut Lost) {
        self.given_up.push(seq);
        let index = self.index(seq);
        let slot = &mut self.slots[index];
        slot.state = State::Lost;
        self.in_flight -= u64::from(slot.len);
        self.lost += u64::from(slot.len);
        self.lost_packets += 1;
        self.hint = self.hint.min(seq);
        lost.add(seq, slot);
    }

    /// Declares the segments in flight that carry more than `len` bytes lost.
    pub(super) fn give_up_longer(&mut self, len: u32) {
        self.given_up.clear();
        let mut lost = Lost::default();
        for seq in self.base..self.next_seq() {
            let is_longer = |slot: &Slot| slot.state == State::InFlight && slot.payload() > len;
            if self.get(seq).is_some_and(is_longer) {
                self.give_up(seq, &mut lost);
            }
        }
    }

    /// Finds the segments that count as lost now. With `again`, also retransmissions if one of at least this number of later
    /// transmissions has arrived.
    pub(super) fn find_losses(&mut self, rule: LossRule, again: Option<u32>) -> Lost {
        let mut lost = Lost::default();
        self.given_up.clear();
        let end = match rule {
            LossRule::Sacked(count) => self.nth_sacked_from_the_end(count),
            LossRule::Forward(count) => self
                .ranges
                .last()
                .map(|(_, end)| (end - 1).saturating_sub(u64::from(count).saturating_sub(1))),
        };
        if let Some(end) = end {
            while self.frontier < end {
                let seq = self.frontier;
                self.frontier += 1;
                let open = |slot: &Slot| slot.state == State::InFlight && !slot.retransmitted;
                if self.get(seq).is_some_and(open) {
                    self.give_up(seq, &mut lost);
                }
            }
        }
        if let Some(count) = again {
            while let Some((seq, order)) = self.retransmissions.front().copied() {
                let current = self
                    .get(seq)
                    .is_some_and(|slot| slot.order == order && slot.state == State::InFlight);
                if current && order + u64::from(count) > self.delivered_order {
                    break;
                }
                self.retransmissions.pop_front();
                if current {
                    self.give_up(seq, &mut lost);
                }
            }
        }
        lost
    }

    /// Returns the position at and after which `count` segments have been selectively acknowledged.
    fn nth_sacked_from_the_end(&self, count: u32) -> Option<Seq> {
        let mut left = u64::from(count);
        for (from, to) in self.ranges.iter().rev() {
            if to - from >= left {
                return Some(to - left);
            }
            left -= to - from;
        }
        None
    }

    /// Declares the first segment lost, whatever its state (duplicate acknowledgements indicate no other).
    pub(super) fn give_up_first(&mut self) -> Lost {
        let mut lost = Lost::default();
        self.given_up.clear();
        if self.slots.front().is_some_and(|slot| slot.state == State::InFlight) {
            self.give_up(self.base, &mut lost);
        }
        lost
    }

    /// Puts segments that were declared lost and not yet retransmitted back in flight.
    pub(super) fn revive(&mut self) {
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Lost) {
            slot.state = State::InFlight;
            self.in_flight += u64::from(slot.len);
        }
        self.lost = 0;
        self.lost_packets = 0;
        self.frontier = self.base;
    }

    /// Declares everything in flight lost (RFC 6298 §5.4, RFC 6675 §5.1). Selectively acknowledged segments are not retransmitted:
    /// receivers here never revoke an acknowledgement.
    pub(super) fn give_up_all(&mut self) -> Lost {
        let mut lost = Lost::default();
        self.given_up.clear();
        for seq in self.base..self.next_seq() {
            if self.get(seq).is_some_and(|slot| slot.state == State::InFlight) {
                self.give_up(seq, &mut lost);
            }
        }
        self.frontier = self.next_seq();
        self.retransmissions.clear();
        lost
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Rng;

    use super::*;

    const LEN: u64 = 10;

    fn at(n: u64) -> Time {
        Time::from_nanos(n)
    }

    fn board(segments: u64) -> Scoreboard {
        let mut board = Scoreboard::default();
        for n in 0..segments {
            assert_eq!(board.push(at(n), LEN as u32, false), n);
        }
        board
    }

    fn ack(board: &mut Scoreboard, next: u64, blocks: &[(u64, u64)]) -> AckOutcome {
        let blocks = blocks.iter().map(|(from, to)| (from * LEN, to * LEN));
        board.on_ack(next * LEN, blocks).expect("a possible acknowledgement")
    }

    #[test]
    fn declares_losses_by_later_arrivals() {
        // RFC 6675 §4, IsLost: 3 is not lost, because only two segments have arrived after it
        let mut board = board(8);
        ack(&mut board, 0, &[(1, 2), (4, 6)]);
        let lost = board.find_losses(LossRule::Sacked(3), None);
        assert_eq!((lost.first, lost.last, lost.packets, lost.bytes), (0, 0, 1, LEN));
        assert_eq!(board.find_losses(LossRule::Sacked(3), None).packets, 0, "each once");
        ack(&mut board, 0, &[(4, 7)]);
        let lost = board.find_losses(LossRule::Sacked(3), None);
        assert_eq!((lost.first, lost.last, lost.packets), (2, 3, 2));
        // Mathis and Mahdavi 1996: fack - una > 3 segments
        let mut forward = self::board(8);
        ack(&mut forward, 0, &[(3, 4)]);
        let lost = forward.find_losses(LossRule::Forward(3), None);
        assert_eq!((lost.first, lost.packets), (0, 1));
    }

    #[test]
    fn rejects_acknowledgements_of_unsent_data() {
        let mut board = board(3);
        assert!(board.on_ack(4 * LEN, core::iter::empty()).is_none());
        assert_eq!(ack(&mut board, 0, &[(2, 9)]).packets, 0);
        assert_eq!(
            ack(&mut board, 2, &[(0, 1)]).packets,
            2,
            "a block below reports a duplicate"
        );
    }

    /// A reference model that examines each segment.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Plain {
        Flying,
        Sacked,
        Lost,
        Acked,
    }

    #[test]
    fn counts_match_a_model_that_examines_every_segment() {
        for seed in 0..300 {
            let rng = &mut Rng::stream(seed, "scoreboard");
            let mut board = Scoreboard::default();
            let mut model: Vec<Plain> = Vec::new();
            let mut again: Vec<bool> = Vec::new();
            let mut una = 0_usize;
            for step in 0..200 {
                match rng.below(5) {
                    0 | 1 => {
                        board.push(at(step), LEN as u32, false);
                        model.push(Plain::Flying);
                        again.push(false);
                    }
                    2 => {
                        let expected = model.iter().position(|state| *state == Plain::Lost);
                        let found = board.next_lost();
                        assert_eq!(found, expected.map(|n| n as u64), "seed {seed}");
                        if let Some(seq) = found {
                            board.resend(at(step), seq);
                            model[seq as usize] = Plain::Flying;
                            again[seq as usize] = true;
                        }
                    }
                    3 if rng.chance(0.1) => {
                        board.give_up_all();
                        model
                            .iter_mut()
                            .filter(|s| **s == Plain::Flying)
                            .for_each(|s| *s = Plain::Lost);
                    }
                    _ => {
                        let span = (model.len() - una) as u64 + 1;
                        let next = una + if rng.chance(0.3) { rng.below(span) as usize } else { 0 };
                        let blocks: Vec<_> = (0..rng.below(4))
                            .map(|_| {
                                let from = rng.below(model.len() as u64 + 1);
                                (from, from + rng.below(model.len() as u64 + 1 - from))
                            })
                            .filter(|(from, _)| *from as usize >= next)
                            .collect();
                        let outcome = ack(&mut board, next as u64, &blocks);
                        let mut new = 0;
                        for (n, state) in model.iter_mut().enumerate() {
                            let reported = blocks.iter().any(|(from, to)| (*from..*to).contains(&(n as u64)));
                            if n < next && *state != Plain::Acked {
                                new += u32::from(*state != Plain::Sacked);
                                *state = Plain::Acked;
                            } else if n >= next && reported && *state != Plain::Sacked {
                                new += 1;
                                *state = Plain::Sacked;
                            }
                        }
                        una = next;
                        assert_eq!(outcome.packets, new, "seed {seed}");
                        board.find_losses(LossRule::Sacked(3), None);
                        let arrived: Vec<_> = (0..model.len()).filter(|n| model[*n] == Plain::Sacked).collect();
                        if arrived.len() >= 3 {
                            let third = arrived[arrived.len() - 3];
                            for n in 0..third {
                                if model[n] == Plain::Flying && !again[n] {
                                    model[n] = Plain::Lost;
                                }
                            }
                        }
                    }
                }
                let count = |wanted| model.iter().filter(|state| **state == wanted).count() as u64 * LEN;
                let found = (board.in_flight(), board.sacked(), board.lost());
                let expected = (count(Plain::Flying), count(Plain::Sacked), count(Plain::Lost));
                assert_eq!(found, expected, "seed {seed} step {step}");
            }
        }
    }
}
