//! Chunks sent and not yet cumulatively acknowledged: a ring indexed by `tsn - base`.
//!
//! The bytes in flight are updated when the state of a chunk changes, never by a scan of the ring. Inside, a chunk is identified by its
//! [`Seq`], the 64-bit position in the order of first transmission. Elsewhere only the processing of SACKs handles wrap-around of TSNs.
//!
//! The files of this folder share the ring. Functions for which the table names no file are in this one.
//!
//! | field | written by |
//! |---|---|
//! | `slots`, `base` | `push`, `pop` (called by `process_sack.rs`); single slots by `process_sack.rs`, `lost.rs`, `process_copies.rs`, `give_up_message.rs` |
//! | `data_in_flight`; `bytes`, `chunks`, `earliest` of a path | `add_flight`, `remove_flight`, `advance_earliest`, `take_out_unreported`, `process_copies.rs` |
//! | `data_held`, `long_held`; `held` of a path | `push`, `pop`, `free`; when a chunk changes its path: `lost.rs`, `process_copies.rs` |
//! | `reported`, `scanned` | `process_sack.rs` |
//! | `suspects` | `process_sack.rs`; `lost.rs` (a spurious timeout) |
//! | `lost`, `resent` | `lost.rs`; `process_sack.rs` empties `resent` |
//! | `acks` | `start_acks`, `process_sack.rs`, `process_paths.rs`, `process_copies.rs` |
//! | `sequences`, `copies` | `path_sequence.rs`, `copies.rs`, called from all files |
//! | `ordered` | `push`, `pop`, `ordered_messages` |
//! | `streams` | `pop`, `free`; [`StreamBuffers`] by `send/buffer.rs` and `send/give_up.rs` |
//! | `limits` | `push`, `pop`, `give_up_message.rs`; `lost.rs` counts retransmissions; its list of watched chunks also by `process_sack.rs` and `lost.rs` |

use std::collections::VecDeque;

use whimbrel_control::multipath::Accounting;
use whimbrel_control::{Seq, Time};
use whimbrel_wire::{DATA_HEADER_LEN, Data, I_DATA_HEADER_LEN, MessageNumber, Mid, Ssn, Tsn};

use super::copies::Copies;
use super::give_up::Limits;
use super::ordered::OrderedMessages;
use super::path_sequence::{ChunkState, PathSequences};
use super::report::{PathAck, SackReport};
use super::reported::Reported;
use super::slot::{Fate, Slot};
use super::stream_buffers::StreamBuffers;
use crate::PathId;
use crate::message::MessagePayload;
use crate::send::queue::{Buffered, Fragment, Limit};

/// Data in flight on one path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathFlight {
    pub(super) bytes: u64,
    chunks: u32,
    /// User data of chunks whose last transmission was on this path.
    pub(super) held: u64,
    /// Lower bound of the positions in flight on this path.
    earliest: Seq,
    /// [`Outstanding::take_out_unreported`] has processed the chunks of this path below this position.
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
    /// User data in flight on all paths, without copies.
    pub(super) data_in_flight: u64,
    /// User data in all slots.
    data_held: u64,
    /// Of these, bytes of long messages.
    long_held: u64,
    /// User data acknowledged so far, cumulatively or in a gap ack block; each byte counts once.
    pub(super) data_acked: u64,
    /// Data is sent in I-DATA chunks (RFC 8260).
    interleaves: bool,
    /// The sequence numbers that drive congestion control.
    pub(super) accounting: Accounting,
    /// With accounting per path: the data sent on each path.
    pub(super) sequences: Option<Box<PathSequences>>,
    /// Positions of lost chunks, in ascending order in each queue. Entries whose state has changed since are stale. Without accounting per
    /// path there is no queue before the first loss.
    pub(super) lost: Vec<VecDeque<Seq>>,
    /// The gap ack blocks that the peer has reported.
    pub(super) reported: Reported,
    /// Positions in flight below the highest reported one that missing reports can still declare lost, in ascending order.
    pub(super) suspects: VecDeque<Seq>,
    /// Retransmitted chunks, by time and position. Each becomes a suspect when a chunk sent after it has arrived. Some entries are stale.
    pub(super) resent: Option<Box<Resent>>,
    /// Positions below this one have been checked for suspects.
    pub(super) scanned: Seq,
    /// The reports of the SACK being processed, by path.
    pub(super) acks: Vec<PathAck>,
    /// Missing reports can declare a retransmission lost (multiple fast retransmit, Caro et al. 2002).
    pub(super) multiple_fast_retransmit: bool,
    /// Copies of chunks, if the scheme sends any.
    pub(super) copies: Option<Box<Copies>>,
    /// Number of ordered messages in the ring, by stream. Present only if the ring has enough chunks for one stream to exceed its limit.
    pub(super) ordered: Option<Box<OrderedMessages>>,
    /// Present while messages in the ring may be given up.
    pub(super) limits: Option<Box<Limits>>,
    /// Present only if the bytes of each stream are counted, with those that wait.
    streams: Option<Box<StreamBuffers>>,
}

/// Times and positions of retransmissions, in the order of their times.
#[derive(Debug, Default)]
pub(super) struct Resent(pub(super) VecDeque<(Time, Seq)>);

impl Outstanding {
    pub(crate) fn new(initial_tsn: Tsn, accounting: Accounting) -> Self {
        Outstanding {
            initial_tsn,
            base: 0,
            slots: VecDeque::new(),
            paths: Vec::new(),
            data_in_flight: 0,
            data_held: 0,
            long_held: 0,
            data_acked: 0,
            interleaves: false,
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
            limits: None,
            streams: None,
        }
    }

    /// Counts the bytes of each stream from now on, or goes on counting them: all that were in another ring are given up.
    pub(crate) fn count_streams(&mut self, streams: Option<Box<StreamBuffers>>) {
        self.streams = streams;
        if let Some(streams) = &mut self.streams {
            streams.release_all();
        }
    }

    /// Returns what the streams have in the send buffer, if it is counted.
    pub(crate) fn streams(&self) -> Option<&StreamBuffers> {
        self.streams.as_deref()
    }

    pub(crate) fn streams_mut(&mut self) -> Option<&mut StreamBuffers> {
        self.streams.as_deref_mut()
    }

    /// Stops counting the bytes of each stream.
    pub(crate) fn take_streams(&mut self) -> Option<Box<StreamBuffers>> {
        self.streams.take()
    }

    /// Returns the number of paths.
    pub(super) fn paths(&self) -> usize {
        self.paths.len()
    }

    /// Adjusts the state to this number of paths.
    pub(crate) fn set_paths(&mut self, paths: usize) {
        // Exactly: an association keeps its number of paths, and most have one.
        self.paths.reserve_exact(paths.saturating_sub(self.paths.len()));
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

    /// Returns whether each path has its own fast recovery.
    #[inline]
    pub(crate) fn is_per_path(&self) -> bool {
        self.accounting.is_per_path()
    }

    /// Returns whether all chunks have been cumulatively acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the number of chunks.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns the number of ordered messages of a stream that have been sent at least in part and are not cumulatively acknowledged.
    #[cold]
    pub(crate) fn ordered_messages(&mut self, stream: u16) -> u32 {
        let slots = &self.slots;
        let ordered = self
            .ordered
            .get_or_insert_with(|| Box::new(OrderedMessages::of(slots.iter().map(|slot| &slot.fragment))));
        ordered.on_stream(stream)
    }

    /// Returns the bytes of user data sent and not cumulatively acknowledged.
    pub(crate) fn data_held(&self) -> u64 {
        self.data_held
    }

    /// Returns the user data sent and not cumulatively acknowledged, and its number of chunks.
    pub(crate) fn held(&self) -> Buffered {
        Buffered {
            bytes: self.data_held as usize,
            long: self.long_held as usize,
            count: self.len(),
        }
    }

    /// Returns the bytes of user data acknowledged so far, cumulatively or in gap ack blocks.
    pub(crate) fn data_acked(&self) -> u64 {
        self.data_acked
    }

    /// Returns the bytes of user data of chunks whose last transmission was on this path.
    pub(crate) fn data_held_of(&self, path: PathId) -> u64 {
        self.paths[usize::from(path.0)].held
    }

    /// Returns the bytes of user data in flight on all paths, without copies, because the receiver keeps only one of them.
    pub(crate) fn data_in_flight(&self) -> u64 {
        self.data_in_flight
    }

    /// Returns the bytes in flight on a path, chunk headers and padding included.
    pub(crate) fn flight(&self, path: PathId) -> u64 {
        self.paths[usize::from(path.0)].bytes
    }

    /// Returns whether no data is in flight on any path.
    pub(crate) fn nothing_in_flight(&self) -> bool {
        self.data_in_flight == 0
    }

    /// Returns the position of the next new chunk.
    pub(crate) fn next_seq(&self) -> Seq {
        self.base + self.slots.len() as Seq
    }

    pub(crate) fn base(&self) -> Seq {
        self.base
    }

    /// Returns the position of the next new chunk on a path, in the numbering of congestion control.
    #[inline]
    pub(crate) fn next_position(&self, path: PathId) -> Seq {
        match &self.sequences {
            Some(sequences) if !sequences.by_tsn() => sequences.paths[usize::from(path.0)].next(),
            _ => self.next_seq(),
        }
    }

    /// Returns the position on a path below which all data is acknowledged, in the numbering of congestion control.
    #[inline]
    pub(crate) fn acked_to(&self, path: PathId) -> Seq {
        match &self.sequences {
            Some(sequences) => sequences.acked_to(path.0.into(), self.next_seq()),
            None => self.base,
        }
    }

    /// Returns the position of a chunk on the path of its last transmission, in the numbering of congestion control, or `None` if the chunk
    /// is no longer stored.
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

    /// Returns the position of a chunk on the path of its last transmission. The chunk must be stored.
    #[inline]
    pub(super) fn position_here(&self, seq: Seq) -> Seq {
        match &self.sequences {
            Some(sequences) => sequences.position((seq - self.base) as usize, seq),
            None => seq,
        }
    }

    /// Returns the number of chunks of a path that are not cumulatively acknowledged, in the numbering of congestion control.
    pub(crate) fn span(&self, path: PathId) -> u64 {
        match &self.sequences {
            Some(sequences) => sequences.span(path.0.into()),
            None => self.slots.len() as u64,
        }
    }

    /// Returns whether all data sent on a path is acknowledged, in the numbering of congestion control.
    #[inline]
    pub(crate) fn all_acked_on(&self, path: PathId) -> bool {
        self.slots.is_empty() || self.is_per_path() && self.acked_to(path) == self.next_position(path)
    }

    /// Returns the cumulative TSN ack point.
    // [9260:5.1-20]
    pub(crate) fn cumulative_tsn_ack(&self) -> Tsn {
        self.tsn(self.base.wrapping_sub(1))
    }

    // [9260:1.6-1, 1.6-4, 3.3.1-12, 3.3.1-13]
    pub(crate) fn tsn(&self, seq: Seq) -> Tsn {
        Tsn(self.initial_tsn.0.wrapping_add(seq as u32))
    }

    /// Returns the position of a TSN sent within the last 2^31 ones, or `None` if it was not sent.
    pub(crate) fn seq_of(&self, tsn: Tsn) -> Option<Seq> {
        let next = self.next_seq();
        let back = self.tsn(next).distance(tsn);
        (1..1 << 31)
            .contains(&back)
            .then(|| next.checked_sub(Seq::from(back)))
            .flatten()
    }

    /// Returns the path of the last transmission of a chunk, or `None` if the chunk is no longer stored.
    pub(crate) fn path_of(&self, seq: Seq) -> Option<u8> {
        self.slot(seq).map(|slot| slot.path)
    }

    pub(super) fn slot(&self, seq: Seq) -> Option<&Slot> {
        self.slots.get(seq.checked_sub(self.base)? as usize)
    }

    pub(super) fn slot_mut(&mut self, seq: Seq) -> Option<&mut Slot> {
        self.slots.get_mut(seq.checked_sub(self.base)? as usize)
    }

    /// Adds a chunk that is sent for the first time.
    // [9260:3.3.1-12, 6.9-11]
    pub(crate) fn push(&mut self, fragment: Fragment, path: PathId, now: Time) -> Seq {
        let seq = self.next_seq();
        let slot = Slot {
            fragment,
            header: self.header_len() as u8,
            sent_at: now,
            fate: Fate::InFlight,
            path: path.0,
            missing: 0,
            retransmitted: false,
            moved: false,
            timed_out: false,
            fast_retransmitted: false,
            credited: false,
            copied: false,
            unreported: false,
        };
        if let Some(ordered) = &mut self.ordered {
            ordered.on_sent(&slot.fragment);
        }
        self.data_held += slot.data_len();
        self.long_held += slot.long_len();
        self.paths[usize::from(path.0)].held += slot.data_len();
        let (chunk, data) = (slot.chunk_len(), slot.data_len());
        self.slots.push_back(slot);
        if let Some(limits) = &mut self.limits {
            limits.push(Limit::Never);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.push(seq, path.0);
        }
        self.add_flight(self.position_here(seq), path.0, chunk, data);
        seq
    }

    /// Data is sent in I-DATA chunks, or in DATA chunks. If that changes, the ring is empty.
    pub(crate) fn interleave(&mut self, interleaves: bool) {
        self.interleaves = interleaves;
    }

    /// Returns whether data is sent in I-DATA chunks.
    #[inline]
    pub(crate) fn interleaves(&self) -> bool {
        self.interleaves
    }

    /// Returns the length of a chunk before its user data.
    #[inline]
    pub(crate) fn header_len(&self) -> usize {
        if self.interleaves {
            I_DATA_HEADER_LEN
        } else {
            DATA_HEADER_LEN
        }
    }

    #[inline]
    pub(super) fn number_of(&self, fragment: &Fragment) -> MessageNumber {
        if self.interleaves {
            MessageNumber::Mid(Mid(fragment.number))
        } else {
            MessageNumber::Ssn(Ssn(fragment.number as u16))
        }
    }

    /// Returns the DATA or I-DATA chunk at a position.
    pub(crate) fn data(&self, seq: Seq, immediate: bool) -> Option<Data<'_>> {
        let fragment = &self.slot(seq)?.fragment;
        Some(Data {
            tsn: self.tsn(seq),
            stream: fragment.stream,
            number: self.number_of(fragment),
            fsn: fragment.fsn,
            ppid: fragment.ppid,
            unordered: fragment.unordered,
            begin: fragment.begin,
            end: fragment.end,
            immediate: fragment.immediate || immediate,
            payload: fragment.payload.as_wire(),
        })
    }

    /// Returns the last fragments of messages that are neither cumulatively acknowledged nor given up.
    pub(crate) fn last_fragments(&self) -> impl Iterator<Item = &Fragment> + '_ {
        let is_given_up = |place| self.limits.as_ref().is_some_and(|limits| limits.is_given_up(place));
        let slots = self.slots.iter().enumerate();
        slots
            .filter(move |(place, slot)| slot.fragment.end && !is_given_up(*place))
            .map(|(_, slot)| &slot.fragment)
    }

    /// Returns whether a gap ack block acknowledges the highest outstanding chunk, or that of the path with accounting per path.
    pub(crate) fn newest_is_reported(&self, path: PathId) -> bool {
        if let Some(sequences) = &self.sequences {
            return sequences.newest_is_reported(path.0.into());
        }
        self.reported.end() == Some(self.next_seq())
    }

    /// Returns whether a chunk that was sent has been acknowledged.
    pub(crate) fn is_acked(&self, seq: Seq) -> bool {
        self.slot(seq).is_none_or(|slot| slot.fate == Fate::Acked)
    }

    /// Returns the number of chunks in flight on a path.
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

    /// Chunks sent on the path before this time have left the network. Those above all positions that SACKs have reported no longer count
    /// as in flight, although it is unknown whether they arrived.
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

    /// The receiver reneged on a chunk: it is in flight again (RFC 9260 §6.2.1 D iii). Returns false if its payload has been freed, because
    /// the peer had reported it as non-renegable: then it cannot be retransmitted.
    pub(super) fn put_back_in_flight(&mut self, seq: Seq) -> bool {
        let is_detached = self.is_detached(seq);
        let Some(slot) = self.slot_mut(seq).filter(|slot| slot.data_len() > 0) else {
            return false;
        };
        if is_detached {
            // None of its transmissions is its own: it is sent again.
            self.lose(seq);
            return false;
        }
        slot.fate = Fate::InFlight;
        let (path, chunk, data) = (slot.path, slot.chunk_len(), slot.data_len());
        self.add_flight(self.position_here(seq), path, chunk, data);
        let unreported_to = &mut self.paths[usize::from(path)].unreported_to;
        *unreported_to = (*unreported_to).min(seq);
        true
    }

    /// Frees the payload of a non-renegable chunk. Returns the bytes of user data freed.
    pub(crate) fn free(&mut self, seq: Seq) -> u64 {
        let Some(slot) = self.slot_mut(seq).filter(|slot| slot.fate == Fate::Acked) else {
            return 0;
        };
        let (freed, long, path) = (slot.data_len(), slot.long_len(), slot.path);
        let stream = slot.fragment.stream;
        slot.fragment.payload = MessagePayload::Zeros(0);
        if let Some(streams) = &mut self.streams {
            streams.release(stream, freed as usize);
        }
        self.data_held -= freed;
        self.long_held -= long;
        self.paths[usize::from(path)].held -= freed;
        freed
    }

    /// Returns the ranges above the base that the peer has reported: half-open, ascending and disjoint.
    pub(crate) fn reported(&self) -> impl Iterator<Item = (Seq, Seq)> {
        self.reported.all()
    }

    /// Removes the first slot after the cumulative TSN ack has passed it.
    // [9260:6.7-3]
    pub(super) fn pop(&mut self) -> Option<Slot> {
        let slot = self.slots.pop_front()?;
        self.base += 1;
        if let Some(ordered) = &mut self.ordered {
            ordered.on_acked(&slot.fragment);
        }
        if let Some(limits) = &mut self.limits {
            limits.pop();
        }
        if !slot.credited {
            self.data_acked += slot.data_len();
        }
        self.data_held -= slot.data_len();
        self.long_held -= slot.long_len();
        self.paths[usize::from(slot.path)].held -= slot.data_len();
        if let Some(streams) = &mut self.streams {
            streams.release(slot.fragment.stream, slot.data_len() as usize);
        }
        if let Some(sequences) = &mut self.sequences {
            sequences.on_passed(slot.path);
        }
        if slot.fate == Fate::InFlight {
            let (chunk, data) = slot.bytes_in_flight();
            self.remove_flight(slot.path, chunk, data);
        }
        Some(slot)
    }

    /// Returns whether the chunk at a position is the earliest one in flight on its path, before it is marked as acknowledged.
    pub(super) fn is_earliest(&self, position: Seq, path: u8) -> bool {
        self.paths[usize::from(path)].earliest >= position
    }

    /// Advances the earliest position of a path to the next chunk in flight.
    pub(super) fn advance_earliest(&mut self, path: usize) {
        if let Some(sequences) = self.sequences.as_ref().filter(|sequences| !sequences.by_tsn()) {
            let mut earliest = self.paths[path].earliest;
            if self.paths[path].chunks > 0 {
                while let Some((psn, seq, is_copy)) = sequences.next_unacked(path, earliest) {
                    earliest = psn;
                    let is_in_flight = match &self.copies {
                        Some(copies) if is_copy => copies.is_in_flight(path, psn),
                        _ => is_copy || self.slot(seq).is_some_and(|s| s.fate == Fate::InFlight),
                    };
                    if is_in_flight {
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

    /// Returns the state of a chunk that accounting per path uses.
    pub(super) fn chunk_state(base: Seq, slots: &VecDeque<Slot>, seq: Seq) -> Option<ChunkState> {
        let slot = slots.get(seq.checked_sub(base)? as usize)?;
        Some(ChunkState {
            path: slot.path,
            acked: slot.fate == Fate::Acked,
            retransmitted: slot.retransmitted,
        })
    }

    /// Returns whether a chunk that was just sent is the earliest one in flight on the path.
    #[inline]
    pub(crate) fn is_first_in_flight(&self, path: PathId, seq: Seq) -> bool {
        self.earliest(path) == Some(self.position_here(seq))
    }

    /// Returns the earliest position in flight on a path.
    #[inline]
    pub(crate) fn earliest(&self, path: PathId) -> Option<Seq> {
        let flight = self.paths[usize::from(path.0)];
        (flight.chunks > 0).then_some(flight.earliest)
    }

    /// Returns when the earliest transmission in flight on a path was sent.
    pub(crate) fn earliest_sent_at(&self, path: PathId) -> Option<Time> {
        let (index, position) = (usize::from(path.0), self.earliest(path)?);
        if let Some(copies) = &self.copies
            && let Some(copy) = copies.at(index, position)
        {
            return Some(copy.sent_at);
        }
        let seq = match &self.sequences {
            Some(sequences) => sequences.chunk_at(index, position)?,
            None => position,
        };
        self.slot(seq).map(|slot| slot.sent_at)
    }

    pub(super) fn start_acks(&mut self) {
        self.acks.clear();
        self.acks.reserve_exact(self.paths.len());
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

    /// Releases unused memory.
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
        // Stale entries remain until the next loss.
        if self.slots.is_empty() {
            self.resent = None;
            self.ordered = None;
            self.limits = None;
            let queues = self.sequences.as_ref().map_or(0, |_| 2 * self.paths.len());
            self.lost = vec![VecDeque::new(); queues];
        }
    }

    /// Returns the allocated bytes.
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
            + self.limits.as_ref().map_or(0, |limits| limits.heap_bytes())
            + self.streams.as_ref().map_or(0, |streams| streams.heap_bytes())
            + self.acks.capacity() * size_of::<PathAck>()
    }
}
