//! Processes a received SACK: newly acknowledged and newly missing chunks.
//!
//! RFC 9260 §6.2.1 and §7.2.4. The cost depends only on the changes since the previous SACK: Gap Ack Blocks are compared with those of
//! the previous SACK (`reported.rs`), and missing reports are counted only for the few chunks that they can still declare lost.

use whimbrel_control::{Seq, Time};
use whimbrel_wire::{GapBlocks, Sack};

use super::outstanding::Outstanding;
use super::report::{Extent, MissingRules, SackObserver, SackOutcome};
use super::reported::{BLOCK, read_blocks};
use super::slot::{Fate, Slot};

/// SACKs with fewer blocks are taken for whole: the limits known to us are higher (dcSCTP: 20).
const LEAST_BLOCK_LIMIT: usize = 8;

impl Slot {
    /// Whether the latest transmission that a SACK newly acknowledges reports this chunk missing. A retransmission is reported missing
    /// only by data sent after it.
    pub(super) fn is_missed_by(&self, latest: Option<(Time, Seq)>, position: Seq) -> bool {
        !self.retransmitted || Some((self.sent_at, position)) < latest
    }

    fn last_transmission(&self) -> Transmission {
        Transmission {
            path: self.path,
            chunk_len: self.chunk_len(),
            at: self.sent_at,
            retransmitted: self.retransmitted,
            only_here: !self.moved && !self.copied,
            credited: self.credited,
        }
    }

    /// Whether a SACK that acknowledges the chunk reports that its last transmission has arrived. If the chunk has moved to another path
    /// too recently, an earlier transmission has arrived, which says nothing about the packets of the new path.
    fn is_reported_by(&self, observer: &impl SackObserver) -> bool {
        !(self.moved && observer.is_too_recent(self.path, self.sent_at))
    }
}

/// The last transmission of a chunk that a SACK acknowledges.
#[derive(Clone, Copy)]
struct Transmission {
    path: u8,
    chunk_len: u64,
    at: Time,
    retransmitted: bool,
    /// The chunk was sent on this path only.
    only_here: bool,
    /// The chunk was acknowledged before.
    credited: bool,
}

impl Outstanding {
    /// Removes and marks what a SACK acknowledges, counts missing reports, and declares chunks lost.
    ///
    /// Without copies and with one sequence for the association, as in the scheme `standard`, `sequences` and `copies` are `None`.
    // [3758:3.5-21, 3.5-22]
    pub(crate) fn on_sack(
        &mut self,
        sack: &Sack<'_>,
        rules: MissingRules,
        observer: &mut impl SackObserver,
    ) -> SackOutcome {
        let ahead = sack.cumulative_tsn_ack.0.wrapping_sub(self.cumulative_tsn_ack().0);
        if ahead as usize > self.len() {
            // Serial number arithmetic (RFC 9260 §1.6): TSNs in the upper half of the circle are earlier.
            return if ahead >= 1 << 31 {
                self.on_old_sack(sack, &rules, observer)
            } else {
                SackOutcome::Impossible
            };
        }
        if observer.is_overtaken() {
            return self.on_old_sack(sack, &rules, observer);
        }
        self.start_sack();
        let mut highest_newly_acked = None;
        for _ in 0..ahead {
            let seq = self.base();
            if self.copies.is_some() {
                if self.leave_to_echoes(seq, observer) {
                    highest_newly_acked = Some(seq);
                }
                self.settle(seq, observer);
            }
            let Some(slot) = self.slots.front() else {
                break;
            };
            let (path, fate, is_reported) = (slot.path, slot.fate, slot.is_reported_by(observer));
            let position = self.position_here(seq);
            let is_earliest = self.is_earliest(position, path);
            if let Some(sequences) = &mut self.sequences
                && fate != Fate::Acked
            {
                sequences.on_acked(0, seq, path, is_reported);
            }
            if let Some(slot) = self.pop()
                && slot.fate != Fate::Acked
            {
                highest_newly_acked = Some(seq);
                self.acks[usize::from(path)].earliest_acked |= is_earliest && slot.fate == Fate::InFlight;
                self.credit(seq, position, slot.last_transmission(), observer);
            }
        }
        let Some(reneged) = self.on_gap_blocks(sack.gaps, rules.extent, &mut highest_newly_acked, observer) else {
            return SackOutcome::Impossible;
        };
        if self.copies.is_some() {
            self.on_duplicates(sack, observer);
            self.on_echoes(observer);
        }
        let advanced = ahead > 0;
        if self.is_per_path() {
            self.finish_paths(&rules, observer);
        } else if let Some(htna) = highest_newly_acked {
            self.count_missing_reports(htna, rules.in_recovery && advanced, rules.limit, observer);
        }
        if self.limits.is_some() {
            self.count_given_up(advanced, rules.limit, observer);
        }
        // One missing report for data that the receiver reneged on, unless newly acknowledged data has reported it (§6.2.1 D iii).
        for seq in &reneged {
            if let Some(slot) = self.slot_mut(*seq) {
                slot.missing = slot.missing.max(1);
            }
        }
        for path in 0..self.acks.len() {
            self.advance_earliest(path);
        }
        SackOutcome::Processed {
            advanced,
            newly_acked: highest_newly_acked.is_some(),
            reneged: !reneged.is_empty(),
        }
    }

    pub(super) fn start_sack(&mut self) {
        self.start_acks();
        if let Some(sequences) = &mut self.sequences {
            let (base, slots) = (self.base, &self.slots);
            sequences.start_sack(|seq| Self::chunk_state(base, slots, seq));
        }
    }

    /// Accounts for a chunk that is acknowledged, unless it was accounted for before the receiver reneged on it.
    fn credit(&mut self, seq: Seq, position: Seq, sent: Transmission, observer: &mut impl SackObserver) {
        let Transmission {
            path,
            chunk_len,
            at,
            retransmitted,
            only_here,
            credited,
        } = sent;
        let tsn = self.tsn(seq);
        let ack = &mut self.acks[usize::from(path)];
        if credited {
            ack.again = true;
            return;
        }
        ack.credit(position, chunk_len, at, retransmitted, only_here);
        if !retransmitted || observer.may_answer(path, at) {
            ack.note_latest(at, position);
        }
        observer.acked(seq, tsn, path, at, retransmitted);
    }

    /// Compares the Gap Ack Blocks with the known ranges. Returns the chunks on which the receiver reneged, or `None` if a block
    /// reports a TSN that was never sent.
    ///
    /// If a SACK with room for more blocks has eight or more, at least as many as the one before, and does not report the highest TSNs any
    /// more, the peer may limit the number of blocks: a new block below the last ones has pushed these out. A receiver without a limit that reneged
    /// on them is noticed later: when a SACK has fewer blocks, reports a higher TSN, or acknowledges all TSNs before them.
    // [9260:6.7-4, 12.4-4]
    fn on_gap_blocks(
        &mut self,
        gaps: GapBlocks<'_>,
        extent: Extent,
        highest_newly_acked: &mut Option<Seq>,
        observer: &mut impl SackObserver,
    ) -> Option<Vec<Seq>> {
        let mut reneged = Vec::new();
        if gaps.is_empty() && self.reported.is_empty() {
            return Some(reneged);
        }
        let (base, end_of_sent) = (self.base(), self.next_seq());
        let mut known = self.reported.0.take().unwrap_or_default();
        let may_be_limited = gaps.len() >= known.ranges.len().max(LEAST_BLOCK_LIMIT);
        let passed = known.ranges.partition_point(|&(_, end)| end <= base);
        known.ranges.drain(..passed);
        let (first, mut last) = known.unchanged(gaps, base);
        let floor = first.checked_sub(1).map(|before| known.ranges[before].1);
        let between =
            |last: usize| GapBlocks::from_wire_bytes(&gaps.wire_bytes()[BLOCK * first..BLOCK * (gaps.len() - last)]);
        let mut changed = core::mem::take(&mut known.changed);
        let mut were_sent = read_blocks(between(last), base, floor, end_of_sent, &mut changed);
        let behind = changed.last().map(|&(_, end)| end).or(floor);
        if last > 0 && behind >= Some(known.ranges[known.ranges.len() - last].0) {
            // The blocks before overlap the equal blocks at the end, which are not used in that case.
            last = 0;
            were_sent = read_blocks(between(last), base, floor, end_of_sent, &mut changed);
        }
        if !were_sent {
            return None;
        }
        let replaced = first..known.ranges.len() - last;
        self.on_reported(&known.ranges[replaced.clone()], &changed, highest_newly_acked, observer);
        let is_whole = match extent {
            Extent::Whole => true,
            Extent::Roomy => !may_be_limited,
            Extent::Cut => false,
        };
        let horizon = match last {
            _ if is_whole => Seq::MAX,
            0 => known.end_of_range(changed.last().map(|&(_, end)| end).or(floor).unwrap_or(base)),
            _ => known.ranges.last().map_or(base, |&(_, end)| end),
        };
        self.on_reneged(&known.ranges[replaced.clone()], &changed, horizon, &mut reneged);
        self.on_reneged(&known.beyond, &changed, horizon, &mut reneged);
        known.keep_beyond(replaced.clone(), horizon);
        known.blocks.clear();
        if first + changed.len() + last == gaps.len() {
            known.blocks.extend_from_slice(gaps.wire_bytes());
        }
        known.blocks_base = base;
        known.ranges.splice(replaced, changed.iter().copied());
        known.changed = changed;
        self.reported.0 = Some(known);
        Some(reneged)
    }

    /// Acknowledges the chunks in the reported ranges that are not in the known ranges.
    fn on_reported(
        &mut self,
        known: &[(Seq, Seq)],
        reported: &[(Seq, Seq)],
        highest_newly_acked: &mut Option<Seq>,
        observer: &mut impl SackObserver,
    ) {
        let mut next_known = 0;
        for &(start, end) in reported {
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
    }

    /// Handles chunks that were reported before and are no longer reported: the receiver dropped them (RFC 9260 §6.2.1
    /// D iii).
    // [9260:6.2.1-1]
    fn on_reneged(&mut self, known: &[(Seq, Seq)], reported: &[(Seq, Seq)], horizon: Seq, reneged: &mut Vec<Seq>) {
        let base = self.base();
        let mut next = 0;
        for &(from, to) in known.iter().take_while(|&&(from, _)| from < horizon) {
            let mut seq = from.max(base);
            while seq < to.min(horizon) {
                while next < reported.len() && reported[next].1 <= seq {
                    next += 1;
                }
                match reported.get(next) {
                    Some(&(start, end)) if start <= seq => seq = end,
                    other => {
                        let stop = other.map_or(to, |&(start, _)| start).min(to).min(horizon);
                        for reneged_seq in seq..stop {
                            if !self.put_back_in_flight(reneged_seq) {
                                continue;
                            }
                            reneged.push(reneged_seq);
                            let mut path = 0;
                            if let Some(slot) = self.slot_mut(reneged_seq) {
                                slot.missing = 0;
                                path = slot.path;
                            }
                            if let Some(sequences) = &mut self.sequences {
                                let slots = &self.slots;
                                let is_acked = |slot: &Slot| slot.fate == Fate::Acked && slot.path == path;
                                let highest = || Some(base + slots.iter().rposition(is_acked)? as Seq);
                                sequences.on_reneged((reneged_seq - base) as usize, reneged_seq, path, highest);
                            } else if let Err(place) = self.suspects.binary_search(&reneged_seq) {
                                self.suspects.insert(place, reneged_seq);
                            }
                        }
                        seq = stop;
                    }
                }
            }
        }
    }

    /// Handles a chunk that a Gap Ack Block newly acknowledges.
    fn on_gap_acked(&mut self, seq: Seq, highest_newly_acked: &mut Option<Seq>, observer: &mut impl SackObserver) {
        if self.copies.is_some() {
            if self.leave_to_echoes(seq, observer) {
                *highest_newly_acked = (*highest_newly_acked).max(Some(seq));
                return;
            }
            self.settle(seq, observer);
        }
        let Some(slot) = self.slot(seq) else { return };
        if slot.fate == Fate::Acked {
            return;
        }
        let (path, was_in_flight, is_reported) =
            (slot.path, slot.fate == Fate::InFlight, slot.is_reported_by(observer));
        let position = self.position_here(seq);
        if was_in_flight && self.is_earliest(position, path) {
            self.acks[usize::from(path)].earliest_acked = true;
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.on_acked((seq - self.base) as usize, seq, path, is_reported);
        }
        self.take_out_of_flight(seq, Fate::Acked);
        *highest_newly_acked = (*highest_newly_acked).max(Some(seq));
        let Some(slot) = self.slot_mut(seq) else { return };
        let sent = slot.last_transmission();
        let data = if core::mem::replace(&mut slot.credited, true) {
            0
        } else {
            slot.data_len()
        };
        self.data_acked += data;
        self.credit(seq, position, sent, observer);
    }

    /// Counts missing reports up to the highest TSN newly acknowledged (RFC 9260 §7.2.4): only chunks before it get a report, except
    /// during progress in fast recovery, which reports every missing chunk. A retransmission is reported missing only by data sent
    /// after it.
    // [9260:6.7-5, 7.2.4-3]
    fn count_missing_reports(&mut self, htna: Seq, report_all: bool, limit: u8, observer: &mut impl SackObserver) {
        let highest = self.reported.end().unwrap_or(0);
        self.find_suspects(highest);
        let below = if report_all { highest } else { htna.min(highest) };
        let latest = self.acks.iter().filter_map(|ack| ack.latest).max();
        self.find_resent_suspects(latest);
        let mut kept = 0;
        for index in 0..self.suspects.len() {
            let seq = self.suspects[index];
            let Some(slot) = self.slot(seq) else { continue };
            if slot.fate != Fate::InFlight || slot.fast_retransmitted {
                continue;
            }
            let counts = seq < below && slot.is_missed_by(latest, seq);
            if self.add_missing_reports(seq, seq, counts.into(), limit, observer) {
                self.suspects[kept] = seq;
                kept += 1;
            }
        }
        self.suspects.truncate(kept);
    }

    /// Adds missing reports to those of a chunk in flight, and declares it lost if there are enough: as many as the limit, or one if the
    /// chunk had left the network before SACKs had room to report it. Returns whether it can still arrive.
    #[inline]
    pub(super) fn add_missing_reports(
        &mut self,
        seq: Seq,
        position: Seq,
        reports: u8,
        limit: u8,
        observer: &mut impl SackObserver,
    ) -> bool {
        let Some(slot) = self.slot_mut(seq) else { return false };
        slot.missing = slot.missing.saturating_add(reports);
        if slot.missing < limit && !(reports > 0 && slot.unreported) {
            return true;
        }
        slot.fast_retransmitted = true;
        let (path, chunk_len) = (slot.path, slot.chunk_len());
        self.lose(seq);
        let tsn = self.tsn(seq);
        self.acks[usize::from(path)].lose(position, tsn, chunk_len);
        observer.lost(tsn, path);
        false
    }

    /// Counts missing reports for chunks that were in flight when they were given up. The loss of one is reported; it is not retransmitted.
    // [3758:3.5-23]
    fn count_given_up(&mut self, advanced: bool, limit: u8, observer: &mut impl SackObserver) {
        let Some(mut limits) = self.limits.take() else { return };
        if advanced {
            limits.watched.pass(self.base);
        }
        for path in 0..self.acks.len() {
            let Some(latest) = self.acks[path].latest else { continue };
            let has_arrived = |seq| seq < self.base || self.reported.holds(seq);
            for chunk in limits.watched.on_reported(path, latest, limit, has_arrived) {
                let tsn = self.tsn(chunk.seq);
                let ack = &mut self.acks[path];
                ack.lose(chunk.position, tsn, chunk.bytes);
                ack.lost_given_up += 1;
                observer.lost(tsn, path as u8);
            }
        }
        self.limits = Some(limits);
    }

    /// Adds retransmitted chunks to the suspects, once a SACK newly acknowledges data sent after them. Nearly all retransmitted chunks
    /// are not suspects for one round-trip time.
    fn find_resent_suspects(&mut self, latest: Option<(Time, Seq)>) {
        let Some(mut resent) = self.resent.take() else { return };
        while let Some(&(sent_at, seq)) = resent.0.front()
            && (seq < self.base() || Some((sent_at, seq)) < latest)
        {
            resent.0.pop_front();
            let is_suspect = self
                .slot(seq)
                .is_some_and(|slot| slot.fate == Fate::InFlight && slot.sent_at == sent_at);
            if is_suspect && let Err(place) = self.suspects.binary_search(&seq) {
                self.suspects.insert(place, seq);
            }
        }
        self.resent = Some(resent);
    }

    /// Finds chunks in flight below the highest reported one that have not been checked yet.
    fn find_suspects(&mut self, highest: Seq) {
        let mut seq = self.scanned.max(self.base());
        let mut range = self.reported.ranges().partition_point(|&(_, end)| end <= seq);
        while seq < highest {
            match self.reported.ranges().get(range) {
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
