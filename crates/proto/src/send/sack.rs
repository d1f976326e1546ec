//! Processing of a received SACK: what is newly acknowledged, what is newly missing.
//!
//! RFC 9260 §6.2.1 and §7.2.4. The cost is that of what a SACK newly tells: gap ack blocks are compared with the ranges the peer
//! reported before, and missing reports are counted only for the few chunks that can still be declared lost by them.

use whimbrel_control::{Seq, Time};
use whimbrel_wire::{Sack, Tsn};

use super::outstanding::{Fate, Outstanding, Slot};

/// The verdict on a SACK as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackOutcome {
    /// Its cumulative TSN ack lies before ours: it was overtaken and is dropped (RFC 9260 §6.2.1 D i).
    Old,
    /// It acknowledges what was never sent.
    Impossible,
    /// It was processed; [`Outstanding::acks`] says what it told about each path.
    Processed {
        /// The cumulative ack point moved.
        advanced: bool,
        /// At least one chunk was acknowledged for the first time.
        newly_acked: bool,
        /// The receiver took an acknowledgement back.
        reneged: bool,
    },
}

/// What the association wants to know about single chunks while a SACK is processed.
pub(crate) trait SackObserver {
    /// A chunk was acknowledged for the first time.
    fn acked(&mut self, seq: Seq, tsn: Tsn, path: u8, sent_at: Time, retransmitted: bool);
    /// A chunk was declared lost by missing reports.
    fn lost(&mut self, tsn: Tsn, path: u8);
}

/// How missing reports are counted for this SACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingRules {
    /// Reports that make a loss.
    pub(crate) limit: u8,
    /// The association is in fast recovery.
    pub(crate) in_recovery: bool,
    /// More gap ack blocks would have fitted: a range not reported is a range not held.
    pub(crate) complete: bool,
}

impl Outstanding {
    /// Takes a SACK.
    pub(crate) fn on_sack(
        &mut self,
        sack: &Sack<'_>,
        rules: MissingRules,
        observer: &mut impl SackObserver,
    ) -> SackOutcome {
        let ahead = sack.cumulative_tsn_ack.0.wrapping_sub(self.cumulative_tsn_ack().0);
        if ahead as usize > self.len() {
            // Serial number arithmetic (RFC 9260 §1.6): the upper half of the circle lies behind.
            return if ahead >= 1 << 31 {
                SackOutcome::Old
            } else {
                SackOutcome::Impossible
            };
        }
        self.start_acks();
        let mut highest_newly_acked = None;
        for _ in 0..ahead {
            let seq = self.base();
            let Some((path, is_earliest)) = self.slots.front().map(|s| (s.path, self.is_earliest(seq, s.path))) else {
                break;
            };
            if let Some(slot) = self.pop()
                && slot.fate != Fate::Acked
            {
                highest_newly_acked = Some(seq);
                self.acks[usize::from(path)].earliest_acked |= is_earliest && slot.fate == Fate::InFlight;
                self.credit(seq, &slot, observer);
            }
        }
        let reneged = self.on_gap_blocks(sack, rules.complete, &mut highest_newly_acked, observer);
        let advanced = ahead > 0;
        if let Some(htna) = highest_newly_acked {
            self.count_missing_reports(htna, rules.in_recovery && advanced, rules.limit, observer);
        }
        for path in 0..self.acks.len() {
            self.advance_earliest(path);
        }
        SackOutcome::Processed {
            advanced,
            newly_acked: highest_newly_acked.is_some(),
            reneged,
        }
    }

    /// Accounts for a chunk acknowledged for the first time, or again after the receiver had taken it back.
    fn credit(&mut self, seq: Seq, slot: &Slot, observer: &mut impl SackObserver) {
        if slot.credited {
            return;
        }
        let tsn = self.tsn(seq);
        let ack = &mut self.acks[usize::from(slot.path)];
        ack.acked += slot.chunk_len();
        ack.packets += 1;
        ack.newest = seq;
        ack.newest_sent_at = (!slot.retransmitted).then_some(slot.sent_at);
        observer.acked(seq, tsn, slot.path, slot.sent_at, slot.retransmitted);
    }

    /// Compares the gap ack blocks with the ranges known; returns whether the receiver took any back.
    // [9260:6.7-4]
    fn on_gap_blocks(
        &mut self,
        sack: &Sack<'_>,
        complete: bool,
        highest_newly_acked: &mut Option<Seq>,
        observer: &mut impl SackObserver,
    ) -> bool {
        let base = self.base();
        if sack.gaps.is_empty() && self.reported.is_empty() {
            return false;
        }
        let end_of_sent = self.next_seq();
        let mut known = core::mem::take(&mut self.reported);
        let mut reported = core::mem::take(&mut self.reported_spare);
        reported.clear();
        for block in sack.gaps.iter() {
            // Offsets count from the cumulative TSN ack, which is base - 1 (RFC 9260 §3.3.4).
            let start = base + Seq::from(block.start).saturating_sub(1);
            let end = base + Seq::from(block.end);
            let after_last = reported.last().is_none_or(|&(_, last)| start > last);
            // Blocks that cannot be are passed over: empty, touching the cumulative ack, out of order, or never sent.
            if block.start >= 2 && start < end && end <= end_of_sent && after_last {
                reported.push((start, end));
            }
        }
        let mut next_known = 0;
        for &(start, end) in &reported {
            let mut seq = start;
            while seq < end {
                while next_known < known.len() && known[next_known].1 <= seq {
                    next_known += 1;
                }
                match known.get(next_known) {
                    Some(&(from, to)) if from <= seq => seq = to,
                    other => {
                        let stop = other.map_or(end, |&(from, _)| from.min(end));
                        for newly in seq..stop {
                            self.on_gap_acked(newly, highest_newly_acked, observer);
                        }
                        seq = stop;
                    }
                }
            }
        }
        let reneged = self.on_taken_back(&known, &reported, complete);
        known.clear();
        self.reported = reported;
        self.reported_spare = known;
        reneged
    }

    fn on_gap_acked(&mut self, seq: Seq, highest_newly_acked: &mut Option<Seq>, observer: &mut impl SackObserver) {
        let Some(slot) = self.slot(seq) else { return };
        if slot.fate == Fate::Acked {
            return;
        }
        let (path, was_in_flight) = (slot.path, slot.fate == Fate::InFlight);
        if was_in_flight && self.is_earliest(seq, path) {
            self.acks[usize::from(path)].earliest_acked = true;
        }
        self.take_out_of_flight(seq, Fate::Acked);
        // The slot leaves the ring for a moment only because `credit` needs the rest of it.
        let Some(slot) = self.slot_mut(seq) else { return };
        let first_time = !core::mem::replace(&mut slot.credited, true);
        let (chunk_len, sent_at, retransmitted) = (slot.chunk_len(), slot.sent_at, slot.retransmitted);
        *highest_newly_acked = (*highest_newly_acked).max(Some(seq));
        if first_time {
            let tsn = self.tsn(seq);
            let ack = &mut self.acks[usize::from(path)];
            ack.acked += chunk_len;
            ack.packets += 1;
            ack.newest = seq;
            ack.newest_sent_at = (!retransmitted).then_some(sent_at);
            observer.acked(seq, tsn, path, sent_at, retransmitted);
        }
    }

    /// Chunks reported before and not any more: the receiver dropped them (RFC 9260 §6.2.1 D iii).
    // [9260:6.2.1-1]
    fn on_taken_back(&mut self, known: &[(Seq, Seq)], reported: &[(Seq, Seq)], complete: bool) -> bool {
        let base = self.base();
        // A SACK with no room for more blocks says nothing about what lies above them.
        let horizon = if complete {
            Seq::MAX
        } else {
            reported.last().map_or(base, |&(_, end)| end)
        };
        let mut reneged = false;
        let mut next = 0;
        for &(from, to) in known {
            let mut seq = from.max(base);
            while seq < to.min(horizon) {
                while next < reported.len() && reported[next].1 <= seq {
                    next += 1;
                }
                match reported.get(next) {
                    Some(&(start, end)) if start <= seq => seq = end,
                    other => {
                        let stop = other.map_or(to, |&(start, _)| start).min(to).min(horizon);
                        for taken_back in seq..stop {
                            self.put_back_in_flight(taken_back);
                            // One missing report for each (§6.2.1 D iii).
                            if let Some(slot) = self.slot_mut(taken_back) {
                                slot.missing = 1;
                            }
                            if let Err(place) = self.suspects.binary_search(&taken_back) {
                                self.suspects.insert(place, taken_back);
                            }
                        }
                        reneged |= stop > seq;
                        seq = stop;
                    }
                }
            }
        }
        reneged
    }

    /// Highest TSN newly acknowledged (RFC 9260 §7.2.4): only chunks before it get a report, unless a fast recovery makes
    /// progress, which reports every chunk missing.
    // [9260:6.7-5, 7.2.4-3]
    fn count_missing_reports(&mut self, htna: Seq, report_all: bool, limit: u8, observer: &mut impl SackObserver) {
        let highest = self.reported.last().map_or(0, |&(_, end)| end);
        self.find_suspects(highest);
        let below = if report_all { highest } else { htna.min(highest) };
        let mut kept = 0;
        for index in 0..self.suspects.len() {
            let seq = self.suspects[index];
            let Some(slot) = self.slot(seq) else { continue };
            if slot.fate != Fate::InFlight || slot.fast_retransmitted {
                continue;
            }
            let counts = seq < below && (!slot.retransmitted || htna >= self.reported_from(seq));
            let Some(slot) = self.slot_mut(seq) else { continue };
            if counts {
                slot.missing = slot.missing.saturating_add(1);
            }
            if slot.missing >= limit {
                slot.fast_retransmitted = true;
                let (path, chunk_len) = (slot.path, slot.chunk_len());
                self.lose(seq);
                let ack = &mut self.acks[usize::from(path)];
                if ack.lost == 0 {
                    ack.first_lost = seq;
                }
                ack.lost += 1;
                ack.last_lost = seq;
                ack.lost_bytes += chunk_len;
                observer.lost(self.tsn(seq), path);
            } else {
                self.suspects[kept] = seq;
                kept += 1;
            }
        }
        self.suspects.truncate(kept);
    }

    /// Chunks in flight below the highest one reported that have not been looked at yet.
    fn find_suspects(&mut self, highest: Seq) {
        let mut seq = self.scanned.max(self.base());
        let mut range = self.reported.partition_point(|&(_, end)| end <= seq);
        while seq < highest {
            match self.reported.get(range) {
                Some(&(start, end)) if start <= seq => {
                    seq = end;
                    range += 1;
                }
                other => {
                    let stop = other.map_or(highest, |&(start, _)| start);
                    for missing in seq..stop {
                        if self.slot(missing).is_some_and(|s| s.fate == Fate::InFlight)
                            && self.suspects.back().is_none_or(|&last| last < missing)
                        {
                            self.suspects.push_back(missing);
                        }
                    }
                    seq = stop;
                }
            }
        }
        self.scanned = self.scanned.max(highest);
    }
}
