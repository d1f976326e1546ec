//! Copies: chunks that are in flight on several paths at once, as redundant distribution and opportunistic retransmission send them.
//!
//! Every chunk has one own transmission, which decides whether the chunk is lost and retransmitted. Copies are additional
//! transmissions; the chunk does not wait for them. Each copy has a PSN on its path and counts as in flight there. It can be declared
//! lost like any other packet, which gives information about the path but not about the chunk. The first SACK that reports the chunk
//! acknowledges the transmission that most likely arrived first; that one becomes the chunk's own transmission. The others remain in
//! flight. Each leaves the flight when the receiver reports the TSN as a duplicate, which acknowledges the copy, when enough later
//! transmissions on its path have arrived, or when T3-rtx of the path expires. Therefore data delivered on a fast path does not open
//! the window of a slow path.
//!
//! If SACKs return timestamps that identify packets ([`Outstanding::identify_by_echoes`]), nothing is guessed. An acknowledged chunk
//! makes its own transmission a copy as well, and only a returned timestamp takes a copy out of flight as arrived. Every transmission has
//! its own PSN then, also a retransmission on the same path. Duplicate TSNs are not used.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::{Sack, Tsn};

use super::copies::{ChunkCopy, Copies, Identified};
use super::outstanding::Outstanding;
use super::path_sequence::PathSequences;
use super::report::{Implausibility, MissingRules, SackObserver, SackOutcome};
use super::slot::{Fate, Slot};
use crate::PathId;

/// Transmissions whose timestamps are kept after their fate is known.
const KEPT: Seq = 64;
/// SACKs return the timestamps of at least this number of packets of each path, if as many have arrived.
const FEWEST: usize = 4;

impl Outstanding {
    /// Allows copies of chunks from now on. Requires accounting for each path.
    pub(crate) fn allow_copies(&mut self) {
        if self.copies.is_none() && self.sequences.as_ref().is_some_and(|sequences| !sequences.by_tsn()) {
            let mut copies = Box::new(Copies::default());
            copies.set_paths(self.paths());
            self.copies = Some(copies);
        }
    }

    /// Returned timestamps identify the transmissions that arrive from now on. Requires that copies are allowed.
    pub(crate) fn identify_by_echoes(&mut self) {
        let (Some(copies), Some(sequences)) = (&mut self.copies, &self.sequences) else {
            return;
        };
        copies.by_echo = true;
        for (path, sequence) in copies.paths.iter_mut().zip(&sequences.paths) {
            path.since = sequence.next();
        }
    }

    pub(super) fn is_by_echo(&self) -> bool {
        self.copies.as_ref().is_some_and(|copies| copies.by_echo)
    }

    /// Notes the timestamp of the packet that carries the last transmission on the path.
    pub(crate) fn note_stamp(&mut self, path: PathId, stamp: u64) {
        let (Some(copies), Some(sequences)) = (&mut self.copies, &self.sequences) else {
            return;
        };
        if !copies.by_echo {
            return;
        }
        let here = &mut copies.paths[path.index()];
        let lowest = sequences.lowest(path);
        // Timestamps are returned several times; those before a missing packet show that it is missing.
        while here.identified.front().is_some_and(|sent| sent.psn + KEPT < lowest) {
            here.identified.pop_front();
        }
        here.identified.push_back(Identified {
            stamp,
            psn: sequences.paths[path.index()].next() - 1,
            returned: false,
        });
    }

    /// Whether the chunk is acknowledged and its own transmission has become a copy.
    pub(super) fn is_detached(&self, seq: Seq) -> bool {
        self.is_by_echo()
            && self
                .slot(seq)
                .is_some_and(|slot| slot.fate == Fate::Acked && slot.credited && slot.copied)
    }

    /// Notes that another path took the place of the one with this number: no outstanding chunk has been sent on the new path.
    pub(crate) fn forget_path(&mut self, path: PathId) {
        if let Some(copies) = &mut self.copies {
            copies.paths[usize::from(path.0)].next = 0;
        }
    }

    /// Returns the oldest outstanding chunk that has not been sent on the path. The arguments of `is_worth` are the path that the
    /// chunk was last sent on, and the time, or no time if the chunk waits for retransmission. If the oldest chunk is not worth a
    /// copy, the result is `None`.
    pub(crate) fn next_copy(&mut self, path: PathId, is_worth: impl FnOnce(u8, Option<Time>) -> bool) -> Option<Seq> {
        let here = &mut self.copies.as_mut()?.paths[usize::from(path.0)];
        here.next = here.next.max(self.base);
        while let Some(slot) = self.slots.get((here.next - self.base) as usize) {
            let is_here = slot.path == path.0 || slot.copied && here.psns_of(here.next).next().is_some();
            if slot.fate != Fate::Acked && !is_here {
                let sent_at = (slot.fate == Fate::InFlight).then_some(slot.sent_at);
                return is_worth(slot.path, sent_at).then_some(here.next);
            }
            here.next += 1;
        }
        None
    }

    /// A path has become silent: its chunks are to be sent on other paths, from the first one.
    pub(crate) fn restart_rescue(&mut self) {
        let base = self.base;
        for path in self.copies.iter_mut().flat_map(|copies| &mut copies.paths) {
            path.rescued = base;
        }
    }

    /// Returns the first chunk in flight on silent paths only and not sent on this path, when it was sent, and where.
    pub(crate) fn next_rescue(&mut self, path: PathId, is_silent: impl Fn(u8) -> bool) -> Option<(Seq, Time, PathId)> {
        let (index, base) = (usize::from(path.0), self.base);
        let copies = self.copies.as_mut()?;
        let mut next = copies.paths.get(index)?.rescued.max(base);
        let is_meant = |seq: Seq, slot: &Slot| {
            slot.fate == Fate::InFlight
                && is_silent(slot.path)
                && !(slot.copied && copies.of(seq).any(|(on, _)| !is_silent(on)))
        };
        let found = loop {
            match self.slots.get((next - base) as usize) {
                Some(slot) if is_meant(next, slot) => break Some((next, slot.sent_at, PathId(slot.path))),
                Some(_) => next += 1,
                None => break None,
            }
        };
        copies.paths[index].rescued = next;
        found
    }

    /// Sends a copy of a chunk on a path. Returns its user data in bytes, and whether the copy is the earliest transmission in flight
    /// there.
    pub(crate) fn copy(&mut self, seq: Seq, path: PathId, now: Time) -> (u64, bool) {
        let Some(sequences) = &mut self.sequences else {
            return (0, false);
        };
        let psn = sequences.push_copy(seq, path.0);
        let Some(slot) = self.slot_mut(seq) else {
            return (0, false);
        };
        slot.copied = true;
        let (bytes, data) = (slot.chunk_len(), slot.data_len());
        if let Some(copies) = &mut self.copies {
            let here = &mut copies.paths[usize::from(path.0)];
            here.next = here.next.max(seq + 1);
            here.insert(ChunkCopy {
                psn,
                seq,
                sent_at: now,
                bytes,
                missing: 0,
                retransmitted: false,
                doubtful: false,
            });
        }
        self.add_flight(psn, path.0, bytes, 0);
        (data, self.earliest(path) == Some(psn))
    }

    /// Handles the acknowledgement of a chunk if timestamps report which of its transmissions have arrived: all of them are copies now.
    /// Returns whether that is the case, and the chunk was not acknowledged before.
    #[inline(always)]
    pub(super) fn leave_to_echoes(&mut self, seq: Seq, observer: &mut impl SackObserver) -> bool {
        self.is_by_echo() && self.detach(seq, observer)
    }

    fn detach(&mut self, seq: Seq, observer: &mut impl SackObserver) -> bool {
        let Some(place) = seq.checked_sub(self.base).map(|place| place as usize) else {
            return false;
        };
        let tsn = self.tsn(seq);
        let (Some(copies), Some(slot), Some(sequences)) =
            (&mut self.copies, self.slots.get_mut(place), &mut self.sequences)
        else {
            return false;
        };
        let (path, psn) = (slot.path, sequences.position(place, seq));
        let here = &mut copies.paths[usize::from(path)];
        if slot.fate == Fate::Acked || psn < here.since {
            return false;
        }
        let in_flight = slot.fate == Fate::InFlight;
        if in_flight {
            if core::mem::take(&mut slot.unreported) {
                self.paths[usize::from(path)].bytes += slot.chunk_len();
            } else {
                self.data_in_flight -= slot.data_len();
            }
            here.insert(ChunkCopy {
                psn,
                seq,
                sent_at: slot.sent_at,
                bytes: slot.chunk_len(),
                missing: slot.missing,
                retransmitted: false,
                doubtful: false,
            });
        } else {
            observer.given_up(seq, path, slot.sent_at);
        }
        slot.fate = Fate::Acked;
        if !slot.credited {
            self.data_acked += slot.data_len();
        }
        (slot.credited, slot.copied) = (true, true);
        for (path, here) in copies.paths.iter_mut().enumerate() {
            here.held.retain(|&(held, psn)| {
                if held == seq {
                    sequences.drop_copy(psn, path as u8);
                }
                held != seq
            });
        }
        let here = &mut copies.paths[usize::from(path)];
        sequences.detach(place, path, in_flight);
        observer.acked_by_some(tsn, path);
        // The timestamp may have come before the acknowledgement, in a SACK without room for all gap ack blocks.
        if here.is_returned(psn) {
            self.copy_arrived(path, psn, observer);
        }
        true
    }

    /// The chunk is given up: nothing is expected of its other transmissions.
    pub(super) fn drop_copies(&mut self, seq: Seq) {
        for path in 0..self.paths() {
            while self.drop_copy(path, seq) {}
            let (Some(copies), Some(sequences)) = (&mut self.copies, &mut self.sequences) else {
                return;
            };
            copies.paths[path].held.retain(|&(held, psn)| {
                if held == seq {
                    sequences.drop_copy(psn, path as u8);
                }
                held != seq
            });
        }
    }

    /// Takes a copy of the chunk on this path out of flight, if there is one.
    fn drop_copy(&mut self, path: usize, seq: Seq) -> bool {
        let (Some(copies), Some(sequences)) = (&mut self.copies, &mut self.sequences) else {
            return false;
        };
        let psn = copies.paths[path].psns_of(seq).next();
        let Some(copy) = psn.and_then(|psn| copies.take(path as u8, psn)) else {
            return false;
        };
        sequences.drop_copy(copy.psn, path as u8);
        self.remove_flight(path as u8, copy.bytes, 0);
        self.advance_earliest(path);
        true
    }

    /// Processes the timestamps that a SACK returns.
    pub(super) fn on_echoes(&mut self, observer: &mut impl SackObserver) {
        if !self.is_by_echo() {
            return;
        }
        if let Some(copies) = &mut self.copies {
            copies.paths.iter_mut().for_each(|path| path.listed.clear());
        }
        let mut index = 0;
        while let Some(stamp) = observer.echo(index) {
            for path in 0..self.paths() {
                self.on_echo(path as u8, stamp, observer);
            }
            index += 1;
        }
    }

    fn on_echo(&mut self, path: u8, stamp: u64, observer: &mut impl SackObserver) {
        let mut place = None;
        while let Some(copies) = &mut self.copies {
            let here = &mut copies.paths[usize::from(path)];
            let sent = &mut here.identified;
            let at = place.unwrap_or_else(|| sent.partition_point(|sent| sent.stamp < stamp));
            let Some(this) = sent.get_mut(at).filter(|sent| sent.stamp == stamp) else {
                break;
            };
            let psn = this.psn;
            if place.is_none() {
                here.listed.push(psn);
            }
            if !core::mem::replace(&mut this.returned, true) {
                self.copy_arrived(path, psn, observer);
            }
            place = Some(at + 1);
        }
    }

    /// Declares transmissions on a path lost if as many later packets as the limit have arrived there. A SACK returns the timestamps of
    /// the last packets that have arrived on the path; it reports nothing about transmissions before the first one of them.
    pub(super) fn count_by_echoes(
        &mut self,
        sequences: &mut PathSequences,
        index: usize,
        limit: u8,
        is_cut: bool,
        observer: &mut impl SackObserver,
    ) {
        let (base, slots) = (self.base, &self.slots);
        let Some(copies) = self.copies.as_mut().filter(|copies| copies.by_echo) else {
            return;
        };
        let here = &mut copies.paths[index];
        here.listed.sort_unstable();
        let Some(below) = here.listed.len().checked_sub(limit.into()).map(|at| here.listed[at]) else {
            return;
        };
        let from = if here.listed.len() < FEWEST { 0 } else { here.listed[0] };
        sequences.find_suspects(index, |seq| {
            let slot = slots.get((seq - base) as usize);
            slot.is_some_and(|slot| slot.fate == Fate::InFlight && usize::from(slot.path) == index)
        });
        let unreported = here.since..from;
        let mut suspects = sequences.take_suspects(index);
        let (mut kept, mut seen) = (0, 0);
        while let Some(&psn) = suspects.get(seen)
            && psn < below
        {
            seen += 1;
            let is_missing = match sequences.chunk_at(index, psn) {
                _ if unreported.contains(&psn) => false,
                None => !self.misses_copy(sequences, index, psn, 1, observer),
                Some(seq) => {
                    // It has arrived, and the SACK had no room to report the chunk.
                    let arrived = || {
                        self.copies
                            .as_ref()
                            .is_some_and(|copies| copies.paths[index].is_returned(psn))
                    };
                    let is_known = is_cut && arrived();
                    let is_here = self
                        .slot(seq)
                        .is_some_and(|slot| slot.fate == Fate::InFlight && usize::from(slot.path) == index);
                    !is_here || !is_known && !self.add_missing_reports(seq, psn, 1, 1, observer)
                }
            };
            if !is_missing {
                suspects[kept] = psn;
                kept += 1;
            }
        }
        suspects.drain(kept..seen);
        sequences.put_suspects(index, suspects);
    }

    /// Handles the arrival of a copy that a timestamp reports. There may be no such copy: it was declared lost before, or it is the own
    /// transmission of a chunk that is not acknowledged.
    fn copy_arrived(&mut self, path: u8, psn: Seq, observer: &mut impl SackObserver) {
        let Some(copy) = self.copies.as_mut().and_then(|copies| copies.take(path, psn)) else {
            return;
        };
        let is_earliest = self.is_earliest(psn, path);
        if let Some(sequences) = &mut self.sequences {
            sequences.on_copy_arrived(psn, path);
        }
        self.remove_flight(path, copy.bytes, 0);
        let ack = &mut self.acks[usize::from(path)];
        ack.earliest_acked |= is_earliest;
        ack.credit(psn, copy.bytes, copy.sent_at, !observer.arrived_here(path), true);
        ack.note_latest(copy.sent_at, psn);
        observer.echoed(copy.seq, path, copy.sent_at);
    }

    /// Handles the arrival of a chunk. If the chunk was sent on several paths, the transmission that most likely arrived first becomes
    /// its own transmission.
    #[inline(always)]
    pub(super) fn settle(&mut self, seq: Seq, observer: &mut impl SackObserver) {
        let is_copied = |slot: &Slot| slot.copied && slot.fate != Fate::Acked;
        if self.slot(seq).is_some_and(is_copied) {
            self.settle_copied(seq, observer);
        }
    }

    fn settle_copied(&mut self, seq: Seq, observer: &mut impl SackObserver) {
        let (Some(copies), Some(slot)) = (&mut self.copies, self.slots.get_mut((seq - self.base) as usize)) else {
            return;
        };
        if core::mem::take(&mut slot.unreported) {
            // One of the transmissions becomes a copy, and copies are in flight until their fate is known.
            self.paths[usize::from(slot.path)].bytes += slot.chunk_len();
            self.data_in_flight += slot.data_len();
        }
        let own = observer.implausibility(slot.path, slot.sent_at, false);
        // The most likely transmission, and how likely the next one is.
        let (mut best, mut next) = (own.map(|own| (own, None)), None);
        for (path, copy) in copies.of(seq) {
            let Some(this) = observer.implausibility(path, copy.sent_at, false) else {
                continue;
            };
            if best.is_none_or(|(least, _)| this < least) {
                next = best.map(|(least, _)| least);
                best = Some((this, Some((path, copy.psn))));
            } else {
                next = Some(next.map_or(this, |next: Implausibility| next.min(this)));
            }
        }
        let Some((first, way)) = best else { return };
        let is_doubtful = next.is_some_and(|next| next.elsewhere == first.elsewhere);
        if next.is_none() {
            let copy = way.and_then(|(path, at)| Some((path, copies.at(path.into(), at)?.sent_at)));
            let (path, sent_at) = copy.unwrap_or((slot.path, slot.sent_at));
            let only_this_at = &mut self.acks[usize::from(path)].only_this_at;
            *only_this_at = (*only_this_at).max(Some(sent_at));
        }
        for path in &mut copies.paths {
            path.set_doubtful(seq, is_doubtful);
        }
        let was_retransmitted = slot.retransmitted;
        // The first sample measured on a path must be correct.
        slot.retransmitted |= is_doubtful || next.is_some() && first.unmeasured;
        let Some((to, at)) = way else { return };
        let Some(copy) = copies.take(to, at) else { return };
        let (from, was_in_flight) = (slot.path, slot.fate == Fate::InFlight);
        let place = (seq - self.base) as usize;
        let psn = match &mut self.sequences {
            Some(sequences) => sequences.swap(place, (from, was_in_flight), (to, copy.psn)),
            None => return,
        };
        if was_in_flight {
            let other = ChunkCopy {
                psn,
                seq,
                sent_at: slot.sent_at,
                bytes: copy.bytes,
                missing: slot.missing,
                retransmitted: was_retransmitted,
                doubtful: is_doubtful,
            };
            copies.paths[usize::from(from)].insert(other);
        } else {
            // The chunk no longer waits for retransmission.
            observer.given_up(seq, from, slot.sent_at);
            slot.fate = Fate::InFlight;
            self.data_in_flight += slot.data_len();
        }
        slot.path = to;
        slot.moved = false;
        slot.sent_at = copy.sent_at;
        self.paths[usize::from(from)].held -= slot.data_len();
        self.paths[usize::from(to)].held += slot.data_len();
    }

    /// Processes a SACK that another one overtook. It is not used for chunks, but the copies that it reports as duplicates have
    /// arrived. With several paths, SACKs often overtake each other.
    pub(super) fn on_old_sack(
        &mut self,
        sack: &Sack<'_>,
        rules: &MissingRules,
        observer: &mut impl SackObserver,
    ) -> SackOutcome {
        if !self.is_by_echo() && !self.tells_of_copies(sack) {
            return SackOutcome::Old;
        }
        self.start_sack();
        self.on_duplicates(sack, observer);
        // Timestamps that a SACK has returned before may show for the first time that others are missing.
        self.on_echoes(observer);
        self.finish_paths(rules, observer);
        for path in 0..self.acks.len() {
            self.advance_earliest(path);
        }
        SackOutcome::OldWithCopies
    }

    /// Whether the duplicates include a copy of an acknowledged chunk.
    fn tells_of_copies(&self, sack: &Sack<'_>) -> bool {
        self.copies.as_ref().is_some_and(|copies| {
            let mut seqs = sack.duplicates.iter().filter_map(|tsn| self.seq_of(tsn));
            seqs.any(|seq| self.is_acked(seq) && copies.of(seq).next().is_some())
        })
    }

    /// Processes the duplicate TSNs that the receiver reports: these are copies that have arrived.
    #[inline(always)]
    pub(super) fn on_duplicates(&mut self, sack: &Sack<'_>, observer: &mut impl SackObserver) {
        if self.copies.as_ref().is_none_or(|copies| copies.by_echo) {
            return;
        }
        for tsn in sack.duplicates.iter() {
            if let Some(seq) = self.seq_of(tsn).filter(|&seq| self.is_acked(seq)) {
                self.on_duplicate(seq, observer);
            }
        }
    }

    fn on_duplicate(&mut self, seq: Seq, observer: &mut impl SackObserver) {
        let Some(copies) = &mut self.copies else { return };
        let mut possible = 0;
        let mut best: Option<(Implausibility, u8, Seq)> = None;
        for (path, copy) in copies.of(seq) {
            let implausibility = observer.implausibility(path, copy.sent_at, true);
            possible += u32::from(implausibility.is_some());
            // A copy that cannot have arrived yet is the last choice.
            let implausibility = implausibility.unwrap_or(Implausibility {
                elsewhere: true,
                off: Span::MAX,
                unmeasured: false,
            });
            if best.is_none_or(|(least, ..)| implausibility < least) {
                best = Some((implausibility, path, copy.psn));
            }
        }
        let Some((_, path, psn)) = best else { return };
        let Some(copy) = copies.take(path, psn) else { return };
        let is_doubtful = copy.doubtful || possible != 1;
        let is_earliest = self.is_earliest(copy.psn, path);
        if let Some(sequences) = &mut self.sequences {
            sequences.on_copy_arrived(copy.psn, path);
        }
        self.remove_flight(path, copy.bytes, 0);
        let ack = &mut self.acks[usize::from(path)];
        ack.earliest_acked |= is_earliest;
        ack.credit(copy.psn, copy.bytes, copy.sent_at, is_doubtful, !is_doubtful);
        if !is_doubtful {
            ack.note_latest(copy.sent_at, copy.psn);
        }
        observer.copy_arrived(seq, path, copy.sent_at, is_doubtful);
    }

    /// Counts a missing report for a copy, as a later transmission on its path has arrived. Returns whether the copy may still be in
    /// flight. As with the chunk's own transmission, a retransmission is reported missing only by data sent after it. The arrival of a
    /// copy of an acknowledged chunk is reported only once, as a duplicate. A SACK that overtook that report does not report the copy
    /// missing.
    pub(super) fn misses_copy(
        &mut self,
        sequences: &mut PathSequences,
        index: usize,
        psn: Seq,
        limit: u8,
        observer: &mut impl SackObserver,
    ) -> bool {
        let (base, slots, latest) = (self.base, &self.slots, self.acks[index].latest);
        let is_acked = |seq: Seq| Self::chunk_state(base, slots, seq).is_none_or(|chunk| chunk.acked);
        let Some(copies) = &mut self.copies else { return false };
        let here = &mut copies.paths[index];
        let Some(copy) = here.place(psn).and_then(|place| here.in_flight.get_mut(place)) else {
            return false;
        };
        let lead = if copies.by_echo {
            Span::ZERO
        } else {
            observer.lead(index as u8)
        };
        let counts = if lead > Span::ZERO && is_acked(copy.seq) {
            latest.is_some_and(|(sent_at, _)| sent_at >= copy.sent_at + lead)
        } else {
            !copy.retransmitted || Some((copy.sent_at, psn)) < latest
        };
        copy.missing = copy.missing.saturating_add(counts.into());
        if copy.missing < limit {
            return true;
        }
        let Some(copy) = here.remove(psn) else { return false };
        let path = index as u8;
        sequences.drop_copy(psn, path);
        self.remove_flight(path, copy.bytes, 0);
        self.copy_again(path, copy.seq);
        observer.given_up(copy.seq, path, copy.sent_at);
        let tsn = self.tsn(copy.seq);
        let ack = &mut self.acks[index];
        ack.lose(psn, tsn, copy.bytes);
        ack.lost_copies += 1;
        observer.lost(tsn, path);
        false
    }

    /// Allows another copy of a chunk whose copy was lost.
    fn copy_again(&mut self, path: u8, seq: Seq) {
        if !self.is_acked(seq)
            && let Some(copies) = &mut self.copies
        {
            let next = &mut copies.paths[usize::from(path)].next;
            *next = (*next).min(seq);
        }
    }

    /// Gives up all copies on a path. Calls `each` with the position and TSN of each copy, and returns those of the
    /// first one.
    pub(super) fn lose_copies(&mut self, path: PathId, each: &mut impl FnMut(Seq, Tsn)) -> Option<(Seq, Tsn)> {
        let mut first = None;
        while let Some(copies) = &mut self.copies
            && let Some(copy) = copies.paths[usize::from(path.0)].pop_first()
        {
            let tsn = self.tsn(copy.seq);
            if let Some(sequences) = &mut self.sequences {
                sequences.drop_copy(copy.psn, path.0);
            }
            self.remove_flight(path.0, copy.bytes, 0);
            self.copy_again(path.0, copy.seq);
            first = first.or(Some((copy.psn, tsn)));
            each(copy.psn, tsn);
        }
        first
    }
}
