//! Processes a received SACK: newly acknowledged and newly missing chunks.
//!
//! RFC 9260 §6.2.1 and §7.2.4. The cost depends only on the changes since the previous SACK: Gap Ack Blocks are compared with those of
//! the previous SACK (`gap_blocks.rs`), and missing reports are counted only for the few chunks that they can still declare lost.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::{Sack, Tsn};

use super::outstanding::Outstanding;
use super::path_sequence::PathSequences;
use super::slot::{Fate, Slot};

/// The result of processing a SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackOutcome {
    /// Its cumulative TSN ack is before the cumulative ack point: another SACK overtook it, and it is dropped (RFC 9260
    /// §6.2.1 D i).
    Old,
    /// Its cumulative TSN ack is before the cumulative ack point, but it reported copies that have arrived.
    /// [`Outstanding::take_report`] returns the report for each path.
    OldWithCopies,
    /// It acknowledges a TSN that was never sent.
    Impossible,
    /// It was processed; [`Outstanding::take_report`] returns the report for each path.
    Processed {
        /// The cumulative ack point moved.
        advanced: bool,
        /// At least one chunk was acknowledged for the first time.
        newly_acked: bool,
        /// The receiver reneged on an acknowledged chunk.
        reneged: bool,
    },
}

/// Callbacks of the association for single chunks while a SACK is processed.
pub(crate) trait SackObserver {
    /// Called when a chunk was acknowledged for the first time.
    fn acked(&mut self, seq: Seq, tsn: Tsn, path: u8, sent_at: Time, retransmitted: bool);
    /// Called when missing reports declared a chunk lost.
    fn lost(&mut self, tsn: Tsn, path: u8);
    /// Whether a transmission on the path at that time can have been acknowledged by now.
    fn may_answer(&self, path: u8, sent_at: Time) -> bool;
    /// Whether a transmission on the path at that time is too recent to be acknowledged by this SACK: it was sent less than the
    /// shortest round-trip time ago.
    fn is_too_recent(&self, path: u8, sent_at: Time) -> bool;
    /// How much earlier this SACK has arrived than one that was sent at the same time on this path: a duplicate that the receiver
    /// reported there before may still be on its way.
    fn lead(&self, path: u8) -> Span;
    /// With accounting for each path: whether the path is in fast recovery.
    fn in_recovery(&self, path: usize) -> bool;
    /// For a chunk that was sent on several paths: how unlikely it is that this SACK reports the transmission on this path at that
    /// time, or `None` if that is impossible. `again`: the SACK reports the chunk as a duplicate.
    fn implausibility(&self, path: u8, sent_at: Time, again: bool) -> Option<Implausibility>;
    /// Called when a copy sent on this path at that time has arrived after the chunk. `doubtful`: the order may have been the
    /// opposite.
    fn copy_arrived(&mut self, seq: Seq, path: u8, sent_at: Time, doubtful: bool);
    /// For a chunk that was sent on several paths: called when the transmission on this path at that time is lost, as opposed to its
    /// retransmission.
    fn given_up(&mut self, seq: Seq, path: u8, sent_at: Time);

    /// Returns a timestamp of a packet that has arrived, if timestamps identify packets; the first one has index 0.
    fn echo(&self, index: usize) -> Option<u64> {
        let _ = index;
        None
    }

    /// Whether the timestamps show that a SACK sent later has arrived before.
    fn is_overtaken(&self) -> bool {
        false
    }

    /// Whether the SACK arrived on this path. The first packet of a path that is not confirmed yet is acknowledged on another one, which
    /// does not measure the round-trip time of the path.
    fn arrived_here(&self, path: u8) -> bool {
        let _ = path;
        true
    }

    /// Called instead of [`acked`](Self::acked) if timestamps report which transmission has arrived.
    fn acked_by_some(&mut self, tsn: Tsn, path: u8) {
        let _ = (tsn, path);
    }

    /// Called when a timestamp reports that the transmission of a chunk on this path at that time has arrived.
    fn echoed(&mut self, seq: Seq, path: u8, sent_at: Time) {
        let _ = (seq, path, sent_at);
    }
}

/// How unlikely an explanation is. The least value is the most likely one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Implausibility {
    /// Another path is more likely.
    pub(crate) elsewhere: bool,
    /// The difference between the time taken and the expected time.
    pub(crate) off: Span,
    /// The path has no RTT sample yet, so that any time is possible.
    pub(crate) unmeasured: bool,
}

/// The rules for counting missing reports of this SACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingRules {
    /// Number of missing reports that declare a loss.
    pub(crate) limit: u8,
    /// Whether the association is in fast recovery. With accounting for each path, [`SackObserver::in_recovery`] is used instead.
    pub(crate) in_recovery: bool,
    /// With accounting for each path: if fewer chunks than the limit are outstanding on a path, fewer reports are enough.
    pub(crate) early: bool,
    /// Packets received since the previous SACK according to the receiver, 0 if it does not report them; CMT counts
    /// them (DAC).
    pub(crate) arrivals: u8,
    /// The SACK had room for more Gap Ack Blocks: a range not reported is not held.
    pub(crate) complete: bool,
}

impl Slot {
    /// Whether the latest transmission that a SACK newly acknowledges reports this chunk missing. A retransmission is reported missing
    /// only by data sent after it.
    fn is_missed_by(&self, latest: Option<(Time, Seq)>, position: Seq) -> bool {
        !self.retransmitted || Some((self.sent_at, position)) < latest
    }

    fn last_transmission(&self) -> Transmission {
        Transmission {
            path: self.path,
            chunk_len: self.chunk_len(),
            at: self.sent_at,
            retransmitted: self.retransmitted,
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
    /// The chunk was acknowledged before.
    credited: bool,
}

/// The number of missing reports that one SACK counts for (CMT's DAC).
struct DelayedAck {
    arrivals: u8,
    /// The lowest position that the SACK has newly acknowledged.
    lowest: Seq,
}

impl Outstanding {
    /// Removes and marks what a SACK acknowledges, counts missing reports, and declares chunks lost.
    ///
    /// Without copies and with one sequence for the association, as in the scheme `standard`, `sequences` and `copies` are `None`, and `settle`,
    /// `leave_to_echoes`, `on_duplicates` and `on_echoes` do nothing.
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
            if self.leave_to_echoes(seq, observer) {
                highest_newly_acked = Some(seq);
            }
            self.settle(seq, observer);
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
        let Some(reneged) = self.on_gap_blocks(sack.gaps, rules.complete, &mut highest_newly_acked, observer) else {
            return SackOutcome::Impossible;
        };
        self.on_duplicates(sack, observer);
        self.on_echoes(observer);
        let advanced = ahead > 0;
        if self.is_per_path() {
            self.finish_paths(&rules, observer);
        } else if let Some(htna) = highest_newly_acked {
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
            credited,
        } = sent;
        if credited {
            return;
        }
        let tsn = self.tsn(seq);
        let ack = &mut self.acks[usize::from(path)];
        ack.credit(position, chunk_len, at, retransmitted);
        if !retransmitted || observer.may_answer(path, at) {
            ack.note_latest(at, position);
        }
        observer.acked(seq, tsn, path, at, retransmitted);
    }

    pub(super) fn on_gap_acked(
        &mut self,
        seq: Seq,
        highest_newly_acked: &mut Option<Seq>,
        observer: &mut impl SackObserver,
    ) {
        if self.leave_to_echoes(seq, observer) {
            *highest_newly_acked = (*highest_newly_acked).max(Some(seq));
            return;
        }
        self.settle(seq, observer);
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
        slot.credited = true;
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

    /// Processes the SACK for each path: its cumulative ack point, and missing reports by data sent on this path only.
    pub(super) fn finish_paths(&mut self, rules: &MissingRules, observer: &mut impl SackObserver) {
        let Some(mut sequences) = self.sequences.take() else {
            return;
        };
        let paths_acked = sequences.paths.iter().filter(|path| path.newly.is_some()).count();
        for index in 0..self.acks.len() {
            let (base, slots) = (self.base, &self.slots);
            let progress = sequences.finish_sack(index, |seq| Self::chunk_state(base, slots, seq));
            self.acks[index].advanced = progress.window;
            let path = &sequences.paths[index];
            let limit = if rules.early && path.span_before <= rules.limit.into() {
                (path.span_before as u8).saturating_sub(1).max(1)
            } else {
                rules.limit
            };
            let Some((highest, lowest)) = path.newly else {
                self.count_by_echoes(&mut sequences, index, limit, rules.complete, observer);
                continue;
            };
            // DAC: the packets that the receiver counted are packets of this path only if the SACK acknowledges data of
            // no other path.
            let dac = DelayedAck {
                arrivals: if paths_acked == 1 && sequences.by_tsn() {
                    rules.arrivals.max(1)
                } else {
                    1
                },
                lowest,
            };
            sequences.find_suspects(index, |seq| {
                let slot = slots.get((seq - base) as usize);
                slot.is_some_and(|slot| slot.fate == Fate::InFlight && usize::from(slot.path) == index)
            });
            // As above: progress in fast recovery reports every missing chunk.
            let below = if progress.lowest && observer.in_recovery(index) {
                sequences.reported_to(index)
            } else {
                highest
            };
            if self.is_by_echo() {
                self.count_by_echoes(&mut sequences, index, limit, rules.complete, observer);
            } else {
                self.count_on_path(&mut sequences, index, below, limit, &dac, observer);
            }
        }
        self.sequences = Some(sequences);
    }

    /// Counts missing reports for the suspects of a path below a position.
    fn count_on_path(
        &mut self,
        sequences: &mut PathSequences,
        index: usize,
        below: Seq,
        limit: u8,
        dac: &DelayedAck,
        observer: &mut impl SackObserver,
    ) {
        let latest = self.acks[index].latest;
        let mut suspects = sequences.take_suspects(index);
        let (mut kept, mut seen) = (0, 0);
        while let Some(&position) = suspects.get(seen)
            && position < below
        {
            seen += 1;
            let Some(seq) = sequences.chunk_at(index, position) else {
                if self.misses_copy(sequences, index, position, limit, observer) {
                    suspects[kept] = position;
                    kept += 1;
                }
                continue;
            };
            let Some(slot) = self.slot(seq) else { continue };
            if slot.fate != Fate::InFlight || slot.fast_retransmitted || usize::from(slot.path) != index {
                continue;
            }
            let reports = match slot.is_missed_by(latest, position) {
                true if position < dac.lowest => dac.arrivals,
                counts => counts.into(),
            };
            if self.add_missing_reports(seq, position, reports, limit, observer) {
                suspects[kept] = position;
                kept += 1;
            }
        }
        suspects.drain(kept..seen);
        sequences.put_suspects(index, suspects);
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
