//! Chunks sent and not yet cumulatively acknowledged: a ring indexed by `tsn - base`.
//!
//! Bytes in flight are counted as the state of a chunk changes, never by walking the ring. Inside, chunks are named by [`Seq`],
//! the 64-bit position in the order of first transmission, so that only this file and the SACK parser know about wrapping.

use std::collections::VecDeque;

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Seq, Time};
use whimbrel_wire::{Data, Tsn};

use super::copies::Copies;
use super::gap_blocks::Reported;
use super::path_ack::{PathAck, SackReport};
use super::path_sequence::{ChunkState, PathSequences};
use super::queue::Fragment;
use super::slot::{Fate, Slot};
use crate::PathId;
use crate::message::MessagePayload;

/// Data in flight on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFlight {
    pub(super) bytes: u64,
    chunks: u32,
    /// User data in the slots of chunks that were sent here last.
    pub(super) held: u64,
    /// No chunk in flight on this path has a position before it.
    earliest: Seq,
    /// Chunks of this path below it have been looked at by [`Outstanding::take_out_unreported`].
    pub(super) unreported_to: Seq,
}

/// The ring.
#[derive(Debug)]
pub(crate) struct Outstanding {
    /// TSN of position zero.
    initial_tsn: Tsn,
    /// Position of the first slot: one past the cumulative ack point.
    pub(super) base: Seq,
    pub(super) slots: VecDeque<Slot>,
    pub(super) paths: Vec<PathFlight>,
    /// User data in flight on all paths, copies left out.
    pub(super) data_in_flight: u64,
    /// User data in all slots.
    data_held: u64,
    /// Whose sequence numbers drive congestion control.
    pub(super) accounting: Accounting,
    /// With accounting for each path: what was sent on each.
    pub(super) sequences: Option<Box<PathSequences>>,
    /// Positions given up as lost, ascending in each queue; entries whose fate has changed since are stale. Without accounting for each
    /// path there is none before the first loss.
    pub(super) lost: Vec<VecDeque<Seq>>,
    /// What the peer has reported above the base.
    pub(super) reported: Reported,
    /// Positions in flight below the highest one reported that can still become lost by missing reports, ascending.
    pub(super) suspects: VecDeque<Seq>,
    /// What was sent again and becomes a suspect when something sent after it has arrived: when, and its position, in this order. Some
    /// are stale.
    pub(super) resent: Option<Box<Resent>>,
    /// Positions below it have been looked at for suspects.
    pub(super) scanned: Seq,
    /// What the SACK being processed told, by path.
    pub(super) acks: Vec<PathAck>,
    /// What was sent again may be declared lost by missing reports again (Caro et al. 2002, multiple fast retransmit).
    pub(super) multiple_fast_retransmit: bool,
    /// Copies of chunks, if there may be any.
    pub(super) copies: Option<Box<Copies>>,
    /// Ordered messages in the ring, by stream. Counted only once there are so many chunks that one stream could have too many.
    ordered: Option<Box<StreamCounts>>,
}

/// When chunks were sent again, and their positions, in this order.
#[derive(Debug, Default)]
pub(super) struct Resent(pub(super) VecDeque<(Time, Seq)>);

/// How many messages there are of each stream.
#[derive(Debug)]
struct StreamCounts(Vec<u32>);

/// Counts a message of this fragment more or less, if it is ordered.
fn count_ordered(counts: &mut Vec<u32>, fragment: &Fragment, change: i32) {
    if fragment.unordered {
        return;
    }
    let stream = usize::from(fragment.stream);
    if stream >= counts.len() {
        counts.resize(stream + 1, 0);
    }
    counts[stream] = counts[stream].saturating_add_signed(change);
}

impl Outstanding {
    pub(crate) fn new(initial_tsn: Tsn, accounting: Accounting) -> Self {
        Outstanding {
            initial_tsn,
            base: 0,
            slots: VecDeque::new(),
            paths: Vec::new(),
            data_in_flight: 0,
            data_held: 0,
            accounting,
            sequences: accounting
                .is_per_path()
                .then(|| Box::new(PathSequences::new(accounting == Accounting::Cmt))),
            lost: Vec::new(),
            reported: Reported::default(),
            suspects: VecDeque::new(),
            resent: None,
            scanned: 0,
            acks: Vec::new(),
            multiple_fast_retransmit: false,
            copies: None,
            ordered: None,
        }
    }

    /// How many paths there is room for.
    pub(super) fn paths(&self) -> usize {
        self.paths.len()
    }

    /// Makes room for so many paths.
    pub(crate) fn set_paths(&mut self, paths: usize) {
        self.paths.resize(
            paths,
            PathFlight {
                bytes: 0,
                chunks: 0,
                held: 0,
                earliest: 0,
                unreported_to: 0,
            },
        );
        if let Some(sequences) = &mut self.sequences {
            sequences.set_paths(paths);
            self.lost.resize(2 * paths, VecDeque::new());
        }
        if let Some(copies) = &mut self.copies {
            copies.set_paths(paths);
        }
    }

    /// Whether each path has its own fast recovery.
    #[inline]
    pub(crate) fn is_per_path(&self) -> bool {
        self.accounting.is_per_path()
    }

    /// Nothing sent is left to be acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Chunks held.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Ordered messages of a stream that have been begun and are not acknowledged cumulatively.
    #[cold]
    pub(crate) fn ordered_messages(&mut self, stream: u16) -> u32 {
        let slots = &self.slots;
        let counts = self.ordered.get_or_insert_with(|| {
            let mut counts = Vec::new();
            for (place, slot) in slots.iter().enumerate() {
                // The beginning of the first message may have been acknowledged.
                if slot.fragment.begin || place == 0 {
                    count_ordered(&mut counts, &slot.fragment, 1);
                }
            }
            Box::new(StreamCounts(counts))
        });
        counts.0.get(usize::from(stream)).copied().unwrap_or(0)
    }

    /// User data sent and not cumulatively acknowledged, in bytes.
    pub(crate) fn data_held(&self) -> u64 {
        self.data_held
    }

    /// The same of chunks that were sent on this path last.
    pub(crate) fn data_held_of(&self, path: PathId) -> u64 {
        self.paths[usize::from(path.0)].held
    }

    /// User data in flight on all paths, in bytes, copies left out: the receiver keeps only one of each.
    pub(crate) fn data_in_flight(&self) -> u64 {
        self.data_in_flight
    }

    /// Bytes in flight on a path, chunk headers and padding included.
    pub(crate) fn flight(&self, path: PathId) -> u64 {
        self.paths[usize::from(path.0)].bytes
    }

    /// Whether nothing is in flight on any path.
    pub(crate) fn nothing_in_flight(&self) -> bool {
        self.data_in_flight == 0
    }

    /// The next position to be given out.
    pub(crate) fn next_seq(&self) -> Seq {
        self.base + self.slots.len() as Seq
    }

    pub(crate) fn base(&self) -> Seq {
        self.base
    }

    /// The position that the next new chunk on a path gets, as congestion control counts them.
    #[inline]
    pub(crate) fn next_position(&self, path: PathId) -> Seq {
        match &self.sequences {
            Some(sequences) if !sequences.by_tsn() => sequences.paths[usize::from(path.0)].next(),
            _ => self.next_seq(),
        }
    }

    /// Everything below this position on a path is acknowledged, as congestion control counts them.
    #[inline]
    pub(crate) fn acked_to(&self, path: PathId) -> Seq {
        match &self.sequences {
            Some(sequences) => sequences.acked_to(path.0.into(), self.next_seq()),
            None => self.base,
        }
    }

    /// The position of a chunk still held on the path that it was last sent on, as congestion control counts them.
    #[inline]
    pub(crate) fn position(&self, seq: Seq) -> Option<Seq> {
        match &self.sequences {
            Some(sequences) if !sequences.by_tsn() => {
                let place = seq.checked_sub(self.base)? as usize;
                (place < self.slots.len()).then(|| sequences.position(place, seq))
            }
            _ => Some(seq),
        }
    }

    /// The same for one that is held for sure.
    #[inline]
    pub(super) fn position_here(&self, seq: Seq) -> Seq {
        match &self.sequences {
            Some(sequences) => sequences.position((seq - self.base) as usize, seq),
            None => seq,
        }
    }

    /// Chunks of a path that are not acknowledged cumulatively, as congestion control counts them.
    pub(crate) fn span(&self, path: PathId) -> u64 {
        match &self.sequences {
            Some(sequences) => sequences.span(path.0.into()),
            None => self.slots.len() as u64,
        }
    }

    /// Whether nothing of what was sent on a path is left to be acknowledged, as congestion control counts it.
    #[inline]
    pub(crate) fn all_acked_on(&self, path: PathId) -> bool {
        self.slots.is_empty() || self.is_per_path() && self.acked_to(path) == self.next_position(path)
    }

    /// The TSN of the chunk that has been acknowledged last without a gap.
    pub(crate) fn cumulative_tsn_ack(&self) -> Tsn {
        self.tsn(self.base.wrapping_sub(1))
    }

    pub(crate) fn tsn(&self, seq: Seq) -> Tsn {
        Tsn(self.initial_tsn.0.wrapping_add(seq as u32))
    }

    /// The position of a TSN that has been sent within the last 2^31; none for one that has not.
    pub(crate) fn seq_of(&self, tsn: Tsn) -> Option<Seq> {
        let next = self.next_seq();
        let back = self.tsn(next).distance(tsn);
        (1..1 << 31)
            .contains(&back)
            .then(|| next.checked_sub(Seq::from(back)))
            .flatten()
    }

    /// The path that a chunk still held was last sent on.
    pub(crate) fn path_of(&self, seq: Seq) -> Option<u8> {
        self.slot(seq).map(|slot| slot.path)
    }

    pub(super) fn slot(&self, seq: Seq) -> Option<&Slot> {
        self.slots.get(seq.checked_sub(self.base)? as usize)
    }

    pub(super) fn slot_mut(&mut self, seq: Seq) -> Option<&mut Slot> {
        self.slots.get_mut(seq.checked_sub(self.base)? as usize)
    }

    /// Adds a chunk sent for the first time.
    // [9260:3.3.1-12, 6.9-11]
    pub(crate) fn push(&mut self, fragment: Fragment, path: PathId, now: Time) -> Seq {
        let seq = self.next_seq();
        let slot = Slot {
            fragment,
            sent_at: now,
            fate: Fate::InFlight,
            path: path.0,
            missing: 0,
            retransmitted: false,
            timed_out: false,
            fast_retransmitted: false,
            credited: false,
            copied: false,
            unreported: false,
        };
        if let Some(counts) = &mut self.ordered
            && slot.fragment.begin
        {
            count_ordered(&mut counts.0, &slot.fragment, 1);
        }
        self.data_held += slot.data_len();
        self.paths[usize::from(path.0)].held += slot.data_len();
        let (chunk, data) = (slot.chunk_len(), slot.data_len());
        self.slots.push_back(slot);
        if let Some(sequences) = &mut self.sequences {
            sequences.push(seq, path.0);
        }
        self.add_flight(self.position_here(seq), path.0, chunk, data);
        seq
    }

    /// The chunk at a position, as it goes into a packet.
    pub(crate) fn data(&self, seq: Seq, immediate: bool) -> Option<Data<'_>> {
        let fragment = &self.slot(seq)?.fragment;
        Some(Data {
            tsn: self.tsn(seq),
            stream: fragment.stream,
            ssn: fragment.ssn,
            ppid: fragment.ppid,
            unordered: fragment.unordered,
            begin: fragment.begin,
            end: fragment.end,
            immediate: fragment.immediate || immediate,
            payload: fragment.payload.as_wire(),
        })
    }

    /// The last fragments of messages that are not acknowledged cumulatively.
    pub(crate) fn last_fragments(&self) -> impl Iterator<Item = &Fragment> + '_ {
        self.slots
            .iter()
            .map(|slot| &slot.fragment)
            .filter(|fragment| fragment.end)
    }

    /// Whether the highest chunk outstanding has been acknowledged by a gap, of those on a path with accounting for each.
    pub(crate) fn newest_is_reported(&self, path: PathId) -> bool {
        if let Some(sequences) = &self.sequences {
            return sequences.newest_is_reported(path.0.into());
        }
        self.reported.end() == Some(self.next_seq())
    }

    /// Whether a chunk that was sent has been acknowledged.
    pub(crate) fn is_acked(&self, seq: Seq) -> bool {
        self.slot(seq).is_none_or(|slot| slot.fate == Fate::Acked)
    }

    /// Chunks in flight on a path.
    pub(crate) fn chunks_in_flight(&self, path: PathId) -> u32 {
        self.paths[usize::from(path.0)].chunks
    }

    pub(super) fn take_out_of_flight(&mut self, seq: Seq, fate: Fate) {
        let Some(slot) = self.slot_mut(seq) else { return };
        let (path, (chunk, data)) = (slot.path, slot.bytes_in_flight());
        let was_in_flight = slot.fate == Fate::InFlight;
        slot.fate = fate;
        slot.unreported = false;
        if was_in_flight {
            self.remove_flight(path, chunk, data);
        }
    }

    /// What was sent on a path before this time has left the network. Of that, what lies above all that SACKs have reported leaves the
    /// flight, although its fate is unknown.
    pub(crate) fn take_out_unreported(&mut self, path: PathId, sent_before: Time) {
        let index = usize::from(path.0);
        let horizon = self.reported.end().unwrap_or(self.base);
        let mut seq = self.paths[index].unreported_to.max(horizon);
        while let Some(slot) = self.slots.get_mut((seq - self.base) as usize) {
            if slot.path == path.0 && slot.fate == Fate::InFlight && !slot.unreported {
                if slot.sent_at >= sent_before {
                    break;
                }
                slot.unreported = true;
                let (chunk, data) = (slot.chunk_len(), slot.data_len());
                self.paths[index].bytes -= chunk;
                self.data_in_flight -= data;
            }
            seq += 1;
        }
        self.paths[index].unreported_to = seq;
    }

    pub(super) fn add_flight(&mut self, position: Seq, path: u8, chunk: u64, data: u64) {
        let flight = &mut self.paths[usize::from(path)];
        flight.earliest = if flight.chunks == 0 {
            position
        } else {
            flight.earliest.min(position)
        };
        flight.chunks += 1;
        flight.bytes += chunk;
        self.data_in_flight += data;
    }

    pub(super) fn remove_flight(&mut self, path: u8, chunk: u64, data: u64) {
        let flight = &mut self.paths[usize::from(path)];
        flight.chunks -= 1;
        flight.bytes -= chunk;
        self.data_in_flight -= data;
    }

    /// A receiver took back an acknowledgement: the chunk is in flight again (RFC 9260 §6.2.1 D iii). False if it has been freed: it
    /// cannot be sent again, and the peer had promised to keep it.
    pub(super) fn put_back_in_flight(&mut self, seq: Seq) -> bool {
        let Some(slot) = self.slot_mut(seq).filter(|slot| slot.data_len() > 0) else {
            return false;
        };
        slot.fate = Fate::InFlight;
        let (path, chunk, data) = (slot.path, slot.chunk_len(), slot.data_len());
        self.add_flight(self.position_here(seq), path, chunk, data);
        let unreported_to = &mut self.paths[usize::from(path)].unreported_to;
        *unreported_to = (*unreported_to).min(seq);
        true
    }

    /// The peer will never take the acknowledgement of this chunk back: its payload goes. Returns the user data freed, in bytes.
    pub(crate) fn free(&mut self, seq: Seq) -> u64 {
        let Some(slot) = self.slot_mut(seq).filter(|slot| slot.fate == Fate::Acked) else {
            return 0;
        };
        let (freed, path) = (slot.data_len(), slot.path);
        slot.fragment.payload = MessagePayload::Zeros(0);
        self.data_held -= freed;
        self.paths[usize::from(path)].held -= freed;
        freed
    }

    /// Ranges above the base that the peer has reported, half open, ascending and apart.
    pub(crate) fn reported(&self) -> &[(Seq, Seq)] {
        self.reported.ranges()
    }

    /// Removes the first slot, which the cumulative ack has passed.
    // [9260:6.7-3]
    pub(super) fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.base += 1;
        if let Some(counts) = &mut self.ordered
            && slot.fragment.end
        {
            count_ordered(&mut counts.0, &slot.fragment, -1);
        }
        self.data_held -= slot.data_len();
        self.paths[usize::from(slot.path)].held -= slot.data_len();
        if let Some(sequences) = &mut self.sequences {
            sequences.on_passed(slot.path);
        }
        if slot.fate == Fate::InFlight {
            let (chunk, data) = slot.bytes_in_flight();
            self.remove_flight(slot.path, chunk, data);
        }
        Some(slot)
    }

    /// Whether the chunk at a position is the earliest one in flight on its path, as it stands before it is acknowledged.
    pub(super) fn is_earliest(&self, position: Seq, path: u8) -> bool {
        self.paths[usize::from(path)].earliest >= position
    }

    /// Moves the earliest position of every path that a SACK touched past what is no longer in flight.
    pub(super) fn advance_earliest(&mut self, path: usize) {
        if let Some(sequences) = self.sequences.as_ref().filter(|sequences| !sequences.by_tsn()) {
            let mut earliest = self.paths[path].earliest;
            if self.paths[path].chunks > 0 {
                while let Some((psn, seq, is_copy)) = sequences.next_unacked(path, earliest) {
                    earliest = psn;
                    if is_copy || self.slot(seq).is_some_and(|s| s.fate == Fate::InFlight) {
                        break;
                    }
                    earliest += 1;
                }
            }
            self.paths[path].earliest = earliest;
            return;
        }
        let mut seq = self.paths[path].earliest.max(self.base);
        if self.paths[path].chunks > 0 {
            while self
                .slot(seq)
                .is_some_and(|s| s.fate != Fate::InFlight || usize::from(s.path) != path)
            {
                seq += 1;
            }
        }
        self.paths[path].earliest = seq;
    }

    /// What accounting for each path asks of a chunk.
    pub(super) fn chunk_state(base: Seq, slots: &VecDeque<Slot>, seq: Seq) -> Option<ChunkState> {
        let slot = slots.get(seq.checked_sub(base)? as usize)?;
        Some(ChunkState {
            path: slot.path,
            acked: slot.fate == Fate::Acked,
            retransmitted: slot.retransmitted,
        })
    }

    /// Whether a chunk just sent is the earliest one in flight on the path.
    #[inline]
    pub(crate) fn is_first_in_flight(&self, path: PathId, seq: Seq) -> bool {
        self.earliest(path) == Some(self.position_here(seq))
    }

    /// The earliest position in flight on a path.
    #[inline]
    pub(crate) fn earliest(&self, path: PathId) -> Option<Seq> {
        let flight = self.paths[usize::from(path.0)];
        (flight.chunks > 0).then_some(flight.earliest)
    }

    pub(super) fn start_acks(&mut self) {
        self.acks.clear();
        self.acks.extend(self.paths.iter().map(|flight| PathAck {
            flight_before: flight.bytes,
            ..PathAck::default()
        }));
    }

    /// Returns what the SACK processed last reports about each path. [`Outstanding::recycle`] takes the memory back.
    pub(crate) fn take_report(&mut self) -> SackReport {
        SackReport(core::mem::take(&mut self.acks))
    }

    /// Takes back the memory of a report.
    pub(crate) fn recycle(&mut self, report: SackReport) {
        self.acks = report.0;
    }

    #[cfg(test)]
    /// Returns what the SACK processed last reports about each path.
    pub(crate) fn acks(&self) -> &[PathAck] {
        &self.acks
    }

    /// Gives back memory that is not in use.
    pub(crate) fn release_memory(&mut self) {
        self.slots.shrink_to_fit();
        if let Some(sequences) = &mut self.sequences {
            sequences.release_memory();
        }
        if let Some(copies) = &mut self.copies {
            copies.release_memory();
        }
        self.suspects.shrink_to_fit();
        self.reported.release_memory();
        self.acks = Vec::new();
        // Stale entries wait there until the next loss.
        if self.slots.is_empty() {
            self.resent = None;
            self.ordered = None;
            let queues = self.sequences.as_ref().map_or(0, |_| 2 * self.paths.len());
            self.lost = vec![VecDeque::new(); queues];
        }
    }

    /// Bytes this ring has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.sequences.as_ref().map_or(0, |sequences| sequences.heap_bytes())
            + self.copies.as_ref().map_or(0, |copies| copies.heap_bytes())
            + self.paths.capacity() * size_of::<PathFlight>()
            + self.lost.capacity() * size_of::<VecDeque<Seq>>()
            + (self.lost.iter().map(VecDeque::capacity).sum::<usize>() + self.suspects.capacity()) * size_of::<Seq>()
            + self.resent.as_ref().map_or(0, |resent| {
                size_of::<Resent>() + resent.0.capacity() * size_of::<(Time, Seq)>()
            })
            + self.reported.heap_bytes()
            + self.acks.capacity() * size_of::<PathAck>()
    }
}
