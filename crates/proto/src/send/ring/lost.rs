//! Chunks declared lost, and chunks that wait for retransmission.
//!
//! With accounting for the association there is one queue, the lowest TSN first. With accounting for each path every path has two
//! queues, one for chunks declared lost by missing reports and one for chunks declared lost by a timeout. Thus all chunks of a queue
//! are retransmitted on the same path, and chunks that wait for the window of one path do not block chunks that another path could
//! carry.

use std::collections::VecDeque;

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Seq, Time};
use whimbrel_wire::Tsn;

use super::outstanding::Outstanding;
use super::slot::{Fate, Slot};
use crate::PathId;

/// A chunk that waits for retransmission.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LostChunk {
    pub(crate) seq: Seq,
    /// The path it was lost on.
    pub(crate) from: PathId,
    /// A timeout declared the chunk lost.
    pub(crate) timed_out: bool,
}

impl Outstanding {
    /// Returns the queue for chunks lost on a path, by a timeout or by missing reports.
    fn lost_queue(&self, path: u8, timed_out: bool) -> usize {
        if self.is_per_path() {
            2 * usize::from(path) + usize::from(timed_out)
        } else {
            0
        }
    }

    /// Whether no chunk waits for retransmission. A waiting chunk may have been acknowledged since.
    #[inline]
    pub(crate) fn nothing_lost(&self) -> bool {
        self.lost.iter().all(VecDeque::is_empty)
    }

    /// Returns the number of queues of lost chunks, each for [`Outstanding::first_lost_in`].
    pub(crate) fn lost_queues(&self) -> usize {
        self.lost.len()
    }

    /// Returns the lowest position that waits in a queue.
    #[inline]
    pub(crate) fn first_lost_in(&mut self, queue: usize) -> Option<LostChunk> {
        while let Some(&seq) = self.lost.get(queue)?.front() {
            match self.slot(seq) {
                Some(slot) if slot.fate == Fate::Lost && self.lost_queue(slot.path, slot.timed_out) == queue => {
                    return Some(LostChunk {
                        seq,
                        from: PathId(slot.path),
                        timed_out: slot.timed_out,
                    });
                }
                _ => self.lost[queue].pop_front(),
            };
        }
        None
    }

    /// Returns the lowest position that waits for retransmission.
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<LostChunk> {
        if !self.is_per_path() {
            return self.first_lost_in(0);
        }
        (0..self.lost.len())
            .filter_map(|queue| self.first_lost_in(queue))
            .min_by_key(|lost| lost.seq)
    }

    /// Whether a chunk lost on the path waits for retransmission.
    pub(crate) fn any_lost_on(&mut self, path: PathId) -> bool {
        if !self.is_per_path() {
            return self.next_lost().is_some();
        }
        [false, true]
            .into_iter()
            .any(|timed_out| self.first_lost_in(self.lost_queue(path.0, timed_out)).is_some())
    }

    /// Puts a lost chunk back in flight on `path`. Returns its user data in bytes.
    pub(crate) fn retransmit(&mut self, seq: Seq, path: PathId, now: Time) -> u64 {
        let (base, again) = (self.base(), self.multiple_fast_retransmit);
        let Some(slot) = self.slot(seq) else { return 0 };
        let (from, queue) = (slot.path, self.lost_queue(slot.path, slot.timed_out));
        let (by_tsn, by_echo) = (self.accounting != Accounting::Path, self.is_by_echo());
        let Some(slot) = self.slot_mut(seq) else { return 0 };
        debug_assert_eq!(slot.fate, Fate::Lost, "only lost chunks are retransmitted");
        slot.fate = Fate::InFlight;
        slot.path = path.0;
        slot.sent_at = now;
        slot.retransmitted = true;
        slot.moved |= from != path.0;
        slot.missing = 0;
        slot.timed_out = false;
        let (chunk, data) = (slot.chunk_len(), slot.data_len());
        // A chunk with a new PSN follows all earlier transmissions on the path, and has its own missing reports (Ye 2004, 6.4.2.3).
        slot.fast_retransmitted &= !again && (by_tsn || from == path.0) && !by_echo;
        let may_be_lost = !slot.fast_retransmitted;
        if let Some(sequences) = &mut self.sequences {
            let (place, ways, slots) = ((seq - base) as usize, (from, path.0), &self.slots);
            let chunk = |seq| Self::chunk_state(base, slots, seq);
            if by_echo {
                if let (Some(psn), Some(copies)) = (sequences.renew(place, seq, ways), &mut self.copies) {
                    copies.hold(seq, path.0, psn);
                }
            } else {
                sequences.retransmit(place, seq, ways, chunk);
            }
        }
        let unreported_to = &mut self.paths[usize::from(path.0)].unreported_to;
        *unreported_to = (*unreported_to).min(seq);
        self.paths[usize::from(from)].held -= data;
        self.paths[usize::from(path.0)].held += data;
        if self.is_per_path() {
            self.suspect(seq);
        } else if seq < self.scanned && may_be_lost {
            self.suspect_later(seq, now);
        }
        if self.lost[queue].front() == Some(&seq) {
            self.lost[queue].pop_front();
        }
        self.add_flight(self.position_here(seq), path.0, chunk, data);
        if let Some(limits) = &mut self.limits {
            limits.on_retransmitted((seq - base) as usize);
        }
        data
    }

    /// Whether this path was the last one used for any chunk in the ring.
    pub(crate) fn remembers(&self, path: PathId) -> bool {
        self.slots.iter().any(|slot| slot.path == path.0)
    }

    /// Declares everything in flight on a path lost, as its T3-rtx expired (RFC 9260 §6.3.3). Calls `each` with the position and TSN
    /// of every chunk, and returns those of the first one.
    pub(crate) fn lose_path(&mut self, path: PathId, mut each: impl FnMut(Seq, Tsn)) -> Option<(Seq, Tsn)> {
        if let Some(limits) = &mut self.limits {
            limits.watched.forget(path.0);
        }
        let mut position = self.earliest(path)?;
        let mut first = self.lose_copies(path, &mut each);
        while position < self.next_position(path) {
            let seq = self.chunk_at(path, position);
            let here = position;
            position += 1;
            let Some(seq) = seq else { continue };
            let is_in_flight = self
                .slot(seq)
                .is_some_and(|s| s.fate == Fate::InFlight && s.path == path.0);
            if is_in_flight {
                let this = (here, self.tsn(seq));
                first = Some(first.map_or(this, |first: (Seq, Tsn)| if first.0 < here { first } else { this }));
                if let Some(slot) = self.slot_mut(seq) {
                    // A timeout resets the count: the chunk may be fast retransmitted again.
                    slot.fast_retransmitted = false;
                    slot.timed_out = true;
                }
                self.lose(seq);
                each(here, self.tsn(seq));
            }
        }
        first
    }

    fn chunk_at(&self, path: PathId, position: Seq) -> Option<Seq> {
        match &self.sequences {
            Some(sequences) => sequences.chunk_at(path.0.into(), position),
            None => Some(position),
        }
    }

    /// Handles a spurious timeout of a path: the chunks it declared lost and that have not been retransmitted since are
    /// in flight again.
    pub(crate) fn take_timeout_back(&mut self, path: PathId) {
        let queue = self.lost_queue(path.0, true);
        for index in 0..self.lost.get(queue).map_or(0, VecDeque::len) {
            let seq = self.lost[queue][index];
            let is_meant = self
                .slot(seq)
                .is_some_and(|s| s.fate == Fate::Lost && s.timed_out && s.path == path.0);
            if !is_meant {
                continue;
            }
            if !self.put_back_in_flight(seq) {
                continue;
            }
            if let Some(slot) = self.slot_mut(seq) {
                slot.timed_out = false;
            }
            self.suspect(seq);
        }
    }

    /// Declares the lowest outstanding chunk lost if it is in flight and has been sent only once. With accounting for each path, this
    /// is the lowest one on `path`. Returns its TSN and path.
    pub(crate) fn lose_lowest(&mut self, path: PathId) -> Option<(Tsn, PathId)> {
        let seq = match &self.sequences {
            Some(sequences) => sequences.lowest_unacked(path.0.into())?,
            None => self.base(),
        };
        let slot = self.slot_mut(seq)?;
        if slot.fate != Fate::InFlight || slot.retransmitted {
            return None;
        }
        // The chunk is retransmitted once. Later missing reports must not retransmit it again.
        slot.fast_retransmitted = true;
        let path = PathId(slot.path);
        self.lose(seq);
        if self.is_per_path() {
            self.advance_earliest(path.0.into());
        }
        Some((self.tsn(seq), path))
    }

    /// Declares the highest chunk in flight on a path lost. Returns its position and TSN.
    pub(crate) fn lose_last(&mut self, path: PathId) -> Option<(Seq, Tsn)> {
        let is_meant = |slot: &Slot| slot.fate == Fate::InFlight && slot.path == path.0;
        let seq = match &self.sequences {
            Some(sequences) if !sequences.by_tsn() => {
                sequences.last_unacked(path.0.into(), |seq| self.slot(seq).is_some_and(is_meant))?
            }
            _ => self.base() + self.slots.iter().rposition(is_meant)? as Seq,
        };
        self.lose(seq);
        if self.copies.is_some() {
            // Copies may follow the chunk.
            self.advance_earliest(path.0.into());
        }
        Some((seq, self.tsn(seq)))
    }

    /// Lets missing reports count for a chunk in flight from now on.
    fn suspect(&mut self, seq: Seq) {
        let Some(&Slot {
            path,
            fast_retransmitted: false,
            ..
        }) = self.slot(seq)
        else {
            return;
        };
        let place = (seq - self.base()) as usize;
        if let Some(sequences) = &mut self.sequences {
            sequences.suspect(place, seq, path);
            return;
        }
        let may_be = seq < self.scanned;
        if may_be && let Err(place) = self.suspects.binary_search(&seq) {
            self.suspects.insert(place, seq);
        }
    }

    /// Records a retransmitted chunk, which becomes a suspect when a chunk sent after it has arrived.
    fn suspect_later(&mut self, seq: Seq, now: Time) {
        let entry = (now, seq);
        let resent = &mut self.resent.get_or_insert_default().0;
        match resent.back() {
            Some(&last) if last >= entry => {
                if let Err(place) = resent.binary_search(&entry) {
                    resent.insert(place, entry);
                }
            }
            _ => resent.push_back(entry),
        }
    }

    /// Takes a chunk out of flight and queues it for retransmission.
    // [9260:6.10-4]
    pub(super) fn lose(&mut self, seq: Seq) {
        self.take_out_of_flight(seq, Fate::Lost);
        let Some(slot) = self.slot(seq) else { return };
        let queue = self.lost_queue(slot.path, slot.timed_out);
        if queue >= self.lost.len() {
            self.lost.resize(queue + 1, VecDeque::new());
        }
        let lost = &mut self.lost[queue];
        match lost.back() {
            Some(&last) if last >= seq => {
                if let Err(place) = lost.binary_search(&seq) {
                    lost.insert(place, seq);
                }
            }
            _ => lost.push_back(seq),
        }
    }

    /// Lets missing reports declare retransmitted chunks lost again.
    pub(crate) fn allow_multiple_fast_retransmit(&mut self) {
        self.multiple_fast_retransmit = true;
    }
}
