//! The data receiver: accepts DATA and I-DATA chunks, delivers messages, and reports what has arrived (RFC 9260 §6.2, §6.5-6.7,
//! §6.9).
//!
//! The receiver checks a chunk against its neighbours in TSN order, admits it if the window allows ([`window`]), copies
//! it once into a recycled buffer ([`store`]) and joins it to its run of fragments ([`reassembly`]). I-DATA chunks find their neighbours by
//! the number of the fragment ([`assembly`]). A complete message
//! is put in the list for the reader, or waits for an earlier message of its stream ([`streams`]). Only TSNs above a
//! gap are entered in the TSN map ([`tsn_map`]); a chunk that arrives in order does not touch the map.
//!
//! [`ReceiverConfig`] bounds the memory that a peer can use: `memory_limit`, with I-DATA half as much again for messages read in parts, one
//! chunk, a TSN map of at most `max_tsn_window` entries, and 8 bytes for each inbound stream used.

mod assembly;
mod components;
mod gap_cache;
mod new_gaps;
mod reassembly;
mod reset;
mod skip;
mod store;
mod streams;
mod tsn_map;
mod waiting_reset;
mod window;
mod write_sack;

use std::sync::Arc;

use whimbrel_control::Span;
use whimbrel_wire::{Data, Tsn};

use assembly::{Assemblies, Key};
use components::{Neighbour, Partials, ReadyList, SackState, Tail, Window};
use new_gaps::NewGapsState;
use store::Store;
use streams::{Streams, ahead, is_before};
use tsn_map::{Slot, TsnMap};
use waiting_reset::WaitingReset;

pub(crate) use new_gaps::NewGapsHeader;
pub(crate) use store::CHUNK_OVERHEAD;

/// The largest TSN window: its map takes 16 MiB.
const MAX_TSN_WINDOW: u32 = 1 << 22;

/// Limits on the data that the receiver holds, and the rules of acknowledgement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ReceiverConfig {
    /// Payload bytes that the receiver promises to hold: a_rwnd of the INIT or INIT ACK sent.
    pub(crate) recv_buffer: u32,
    /// Two-level buffer (Ye 2004, 6.6): payload bytes held above a gap, in addition to those in order, which alone count for the
    /// window. 0: both share one buffer.
    pub(crate) second_level: u32,
    /// Bytes of memory for held chunks, each with [`CHUNK_OVERHEAD`]. Many tiny chunks close the window before the
    /// buffer is full.
    pub(crate) memory_limit: u32,
    /// Streams the peer may send on.
    pub(crate) inbound_streams: u16,
    /// Longest message accepted, in bytes.
    pub(crate) max_message: u32,
    /// Path MTU in bytes: the step in which a nearly closed window opens.
    pub(crate) mtu: u16,
    /// SACK.Delay.
    pub(crate) sack_delay: Span,
    /// Packets with DATA after which a SACK is sent: 2 in RFC 9260.
    pub(crate) sack_frequency: u8,
    /// Gaps do not make a SACK due at once: only the number of packets and the delay do (Ye 2004, 6.6; DAC).
    pub(crate) sack_any_order: bool,
    /// The packet that closes the last gap is acknowledged at once (RFC 5681 §4.2).
    pub(crate) sack_on_closed_gap: bool,
    /// A SACK announces space that the reader has freed without waiting for data (RFC 9260 §6.2).
    pub(crate) window_updates: bool,
    /// SACKs report how many packets with DATA arrived since the previous SACK (DAC).
    pub(crate) reports_packets: bool,
    /// The packets of each path are acknowledged on that path: a packet from another path does not count for a delayed SACK.
    pub(crate) sack_each_path: bool,
    /// Data received may be dropped later to make room for data with lower TSNs. If not, NR-SACKs report that to the
    /// sender.
    pub(crate) takes_back: bool,
    /// SACKs report only new changes above a gap (Ye 2004, 6.6).
    pub(crate) new_gaps_only: bool,
    /// The sender may give up messages (RFC 3758), so that numbers of messages are left out.
    pub(crate) gives_up: bool,
    /// Data comes in I-DATA chunks (RFC 8260). Then `takes_back` is false.
    pub(crate) interleaves: bool,
    /// The payload protocol identifier of messages that are not for the user, and their greatest length in bytes.
    pub(crate) aside: Option<(u32, u32)>,
    /// The largest distance of an accepted TSN from the cumulative TSN. A TSN more than 65535 above the cumulative TSN is reported
    /// only after the gap is filled.
    pub(crate) max_tsn_window: u32,
    /// The largest number of Gap Ack Blocks in a SACK, besides the limit of the packet.
    pub(crate) max_gap_blocks: u16,
    /// Duplicate TSNs kept for the next SACK. Further ones are counted but not reported.
    pub(crate) max_duplicates: u16,
}

impl ReceiverConfig {
    /// Returns the configuration with a buffer of one level.
    #[cfg(test)]
    pub(crate) fn new(recv_buffer: u32, inbound_streams: u16, mtu: u16) -> Self {
        Self::with_second_level(recv_buffer, 0, inbound_streams, mtu)
    }

    /// Returns the constants of RFC 9260, and limits that follow from the two buffers, the second of which is for data above a gap:
    /// memory to fill them with payloads of about 100 bytes, and a TSN window of four times the number of chunks that this memory
    /// holds.
    pub(crate) fn with_second_level(recv_buffer: u32, second_level: u32, inbound_streams: u16, mtu: u16) -> Self {
        let (memory_limit, max_tsn_window) = limits(recv_buffer, second_level, mtu);
        ReceiverConfig {
            recv_buffer,
            second_level,
            memory_limit,
            inbound_streams,
            max_message: u32::MAX,
            mtu,
            sack_delay: Span::from_millis(200),
            sack_frequency: 2,
            sack_any_order: false,
            sack_on_closed_gap: true,
            window_updates: true,
            reports_packets: false,
            sack_each_path: false,
            takes_back: true,
            new_gaps_only: false,
            gives_up: false,
            interleaves: false,
            aside: None,
            max_tsn_window,
            max_gap_blocks: u16::MAX,
            max_duplicates: 64,
        }
    }
}

/// Returns the memory for held chunks and the TSN window for buffers of these sizes.
fn limits(recv_buffer: u32, second_level: u32, mtu: u16) -> (u32, u32) {
    let memory_limit = recv_buffer
        .saturating_add(second_level)
        .saturating_mul(3)
        .saturating_add(4 * u32::from(mtu));
    let max_tsn_window = (memory_limit / CHUNK_OVERHEAD as u32)
        .saturating_mul(4)
        .clamp(1024, MAX_TSN_WINDOW);
    (memory_limit, max_tsn_window)
}

/// The result of processing a DATA chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataOutcome {
    /// Accepted; [`Receiver::has_message`] may have become true.
    New,
    /// Its TSN was received before (RFC 9260 §3.3.4).
    Duplicate,
    /// Dropped for lack of window or memory; a SACK is due at once (RFC 9260 §6.2).
    NoBuffer,
    /// Dropped because its TSN is too far above the cumulative TSN.
    OutOfWindow,
    /// Acknowledged and discarded; the caller sends an ERROR chunk with "Invalid Stream Identifier" (RFC 9260 §6.5).
    InvalidStream,
    /// The message is longer than allowed; the caller aborts the association.
    TooLong,
    /// No user data: the caller sends an ABORT with this TSN (RFC 9260 §6.2).
    NoUserData(Tsn),
    /// The chunk contradicts chunks received before; the caller aborts the association. The text gives the reason.
    ProtocolViolation(&'static str),
}

/// Counters of the DATA chunks received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverStats {
    /// Duplicate chunks.
    pub duplicates: u64,
    /// Chunks dropped because their TSN was too far above the cumulative TSN.
    pub out_of_window: u64,
    /// Chunks dropped for lack of window or memory.
    pub no_buffer: u64,
    /// Chunks dropped after they had been received, to make room for chunks with lower TSNs.
    pub reneged: u64,
    /// Chunks on streams that do not exist.
    pub invalid_streams: u64,
    /// Times a gap opened while there was none.
    pub gaps: u64,
}

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// Shared by the associations of an endpoint that have the same, until the size of the buffer changes.
    config: Arc<ReceiverConfig>,
    /// The last TSN before the first missing TSN.
    cumulative: Tsn,
    /// The highest TSN received; the cumulative TSN if there is no gap.
    highest: Tsn,
    /// What follows the chunk at the cumulative TSN.
    tail: Tail,
    /// TSNs above the cumulative TSN. Empty, and not read, if there is no gap.
    map: TsnMap,
    store: Store,
    streams: Streams,
    ready: ReadyList,
    /// Complete messages that are not for the user.
    aside: ReadyList,
    partials: Partials,
    /// Present only with I-DATA.
    assemblies: Option<Box<Assemblies>>,
    window: Window,
    sack: SackState,
    /// Present only if SACKs report only new changes.
    new_gaps: Option<Box<NewGapsState>>,
    waiting_reset: WaitingReset,
    stats: ReceiverStats,
}

impl Receiver {
    /// Returns a receiver for a peer whose first TSN is `initial_tsn` and that knows a window of `config.recv_buffer`
    /// bytes.
    pub(crate) fn new(initial_tsn: Tsn, config: Arc<ReceiverConfig>) -> Self {
        let cumulative = initial_tsn.previous();
        Receiver {
            cumulative,
            highest: cumulative,
            tail: Tail::Boundary,
            map: TsnMap::default(),
            store: Store::new(config.memory_limit as usize),
            streams: Streams::default(),
            ready: ReadyList::default(),
            aside: ReadyList::default(),
            partials: Partials::default(),
            assemblies: config.interleaves.then(Box::default),
            window: Window::new(config.recv_buffer, cumulative),
            sack: SackState::new(),
            new_gaps: config.new_gaps_only.then(Box::default),
            waiting_reset: WaitingReset::default(),
            stats: ReceiverStats::default(),
            config,
        }
    }

    /// Processes a DATA chunk. The caller calls [`Receiver::on_packet_end`] after the last chunk of the packet.
    // [3758:3.6-1]
    // [8260:2.1-3, 2.2.3-3]
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> DataOutcome {
        let tsn = data.tsn;
        // RFC 8260 §2.2.3
        if data.number.is_mid() != self.assemblies.is_some() {
            return DataOutcome::ProtocolViolation(if self.assemblies.is_some() {
                "DATA instead of I-DATA"
            } else {
                "I-DATA was not negotiated"
            });
        }
        // RFC 9260 §6.2 [9260:6.2-31]
        if data.payload.is_empty() {
            return DataOutcome::NoUserData(tsn);
        }
        self.sack.packet.immediate |= data.immediate;
        // RFC 9260 §1.6 [9260:1.6-1, 1.6-2, 1.6-4]: a TSN that is not after the cumulative TSN in serial arithmetic has
        // been received.
        if !tsn.is_after(self.cumulative) || self.is_beyond_gap(tsn) {
            return self.duplicate(tsn);
        }
        let ahead = tsn.distance(self.cumulative);
        if ahead > self.config.max_tsn_window {
            self.stats.out_of_window += 1;
            self.sack.packet.dropped = true;
            return DataOutcome::OutOfWindow;
        }
        if self.waiting_reset.precedes(data) {
            self.sack.packet.dropped = true;
            return DataOutcome::NoBuffer;
        }
        if let Some(key) = Key::of(data) {
            return self.on_i_data(data, key);
        }
        let (mut before, after) = (self.before(tsn), self.after(tsn));
        if self.config.gives_up {
            if self.is_given_up(data, before, after) {
                return self.discard_rest(data);
            }
            before = self.end_given_up(data, before);
        }
        let valid_stream = data.stream < self.config.inbound_streams;
        if let Some(violation) = self.contradiction(data, before, after, valid_stream) {
            return DataOutcome::ProtocolViolation(violation);
        }
        if !valid_stream {
            return self.discard_invalid(data);
        }
        if self.is_too_long(data, before, after) {
            return DataOutcome::TooLong;
        }
        if !self.has_room_for(data) {
            return DataOutcome::NoBuffer;
        }
        // The admission may have dropped the chunk after this one.
        let after = self.after(tsn);
        self.accept(data, before, after)
    }

    /// Processes an I-DATA chunk whose TSN is missing (RFC 8260 §2.2.3).
    #[inline(never)]
    fn on_i_data(&mut self, data: &Data<'_>, key: Key) -> DataOutcome {
        if data.stream >= self.config.inbound_streams {
            return self.discard_invalid(data);
        }
        let is_old = if data.unordered {
            self.assemblies.as_ref().is_some_and(|known| known.is_given_up(key))
        } else {
            is_before(data.number, ahead(data.number, self.streams.expected(data.stream)))
        };
        if is_old {
            if !self.config.gives_up {
                return DataOutcome::ProtocolViolation("message number used twice");
            }
            // The rest of a message that the sender has given up is acknowledged and not kept.
            self.sack.packet.new = true;
            self.mark_received(data.tsn, Slot::of(data, store::NONE));
            return DataOutcome::New;
        }
        // It is complete, and the reader has not received the rest of it yet.
        if self
            .partials
            .get(key.stream, key.unordered)
            .is_some_and(|partial| partial.ended && partial.number == key.mid)
        {
            return DataOutcome::ProtocolViolation("message number used twice");
        }
        let known = self.assemblies.get_or_insert_default();
        let (before, after) = match known.neighbours(key, data, &self.store) {
            Ok(neighbours) => neighbours,
            Err(violation) => return DataOutcome::ProtocolViolation(violation),
        };
        if self.is_too_long(data, before, after) {
            return DataOutcome::TooLong;
        }
        if !self.has_room_for(data) {
            // Nothing that the reader could take would make room.
            let is_stuck = self.partials.is_full(self.config.memory_limit)
                && data.tsn == self.cumulative.next()
                && !self.has_message();
            return if is_stuck {
                DataOutcome::ProtocolViolation("more long messages at once than the receive buffer allows")
            } else {
                DataOutcome::NoBuffer
            };
        }
        if data.unordered
            && let Some(known) = &mut self.assemblies
        {
            known.on_unordered(key);
        }
        self.accept(data, before, after)
    }

    /// Admits a chunk, or counts it as dropped.
    #[inline]
    fn has_room_for(&mut self, data: &Data<'_>) -> bool {
        let is_admitted = self.admit(data.tsn, data.payload.len());
        if is_admitted {
            self.sack.packet.new = true;
        } else {
            // RFC 9260 §6.2 [9260:6.2-5]: a chunk that is dropped does not count as received.
            self.stats.no_buffer += 1;
            self.sack.packet.dropped = true;
        }
        is_admitted
    }

    fn duplicate(&mut self, tsn: Tsn) -> DataOutcome {
        self.stats.duplicates += 1;
        self.sack.packet.duplicate = true;
        if let Some(new_gaps) = &mut self.new_gaps {
            // The sender has not seen the acknowledgement of this TSN.
            new_gaps.require_full();
        }
        // RFC 9260 §3.3.4 [9260:6.2-21]: a duplicate TSN is listed once for each time it arrives.
        let duplicates = &mut self.sack.lists.get_or_insert_default().duplicates;
        if duplicates.len() < usize::from(self.config.max_duplicates) {
            duplicates.push(tsn);
        }
        DataOutcome::Duplicate
    }

    /// RFC 9260 §6.5 [9260:6.5-2]: the chunk is acknowledged like any other, but not kept.
    fn discard_invalid(&mut self, data: &Data<'_>) -> DataOutcome {
        self.stats.invalid_streams += 1;
        self.sack.packet.new = true;
        self.mark_received(data.tsn, Slot::of(data, store::NONE));
        DataOutcome::InvalidStream
    }

    /// Whether `tsn`, which is after the cumulative TSN, was received above a gap.
    fn is_beyond_gap(&self, tsn: Tsn) -> bool {
        tsn.distance(self.cumulative) <= self.highest.distance(self.cumulative) && self.map.contains(tsn)
    }

    #[inline]
    fn before(&self, tsn: Tsn) -> Neighbour {
        if tsn == self.cumulative.next() {
            return match self.tail {
                Tail::Boundary => Neighbour::Boundary,
                Tail::Held(fragment) => Neighbour::Held(fragment),
                Tail::Delivered => Neighbour::Delivered,
                Tail::Discarded => Neighbour::Discarded,
                Tail::Skipped => Neighbour::Skipped,
            };
        }
        self.beyond_gap(tsn.previous(), Slot::end)
    }

    #[inline]
    fn after(&self, tsn: Tsn) -> Neighbour {
        self.beyond_gap(tsn.next(), Slot::begin)
    }

    #[inline]
    fn beyond_gap(&self, tsn: Tsn, bounded: impl Fn(Slot) -> bool) -> Neighbour {
        if !self.is_beyond_gap(tsn) {
            return Neighbour::Missing;
        }
        let slot = self.map.slot(tsn);
        match slot.fragment() {
            _ if bounded(slot) => Neighbour::Boundary,
            store::NONE => Neighbour::Discarded,
            fragment => Neighbour::Held(fragment),
        }
    }

    /// RFC 9260 §3.3.1, §6.9 [9260:3.3.1-6, 3.3.1-12, 6.9-14]: the fragments of a message have consecutive TSNs, the
    /// first fragment begins it, the last one ends it, and all have the same stream, SSN, U bit and payload protocol
    /// identifier. Returns the contradiction, if there is one.
    #[inline]
    fn contradiction(
        &self,
        data: &Data<'_>,
        before: Neighbour,
        after: Neighbour,
        valid_stream: bool,
    ) -> Option<&'static str> {
        if before == Neighbour::Boundary && after == Neighbour::Missing && data.begin {
            return None;
        }
        match (before, data.begin) {
            (Neighbour::Missing | Neighbour::Skipped, _) | (Neighbour::Boundary, true) => {}
            (Neighbour::Boundary, false) => return Some("fragment without a beginning"),
            (_, true) => return Some("message begins within another"),
            (_, false) => {}
        }
        match (after, data.end) {
            (Neighbour::Missing, _) | (Neighbour::Boundary, true) => {}
            (Neighbour::Boundary, false) => return Some("message without an end"),
            (_, true) => return Some("message ends within another"),
            (_, false) => {}
        }
        let fits = |neighbour| match neighbour {
            Neighbour::Missing | Neighbour::Boundary | Neighbour::Skipped => true,
            Neighbour::Held(fragment) => valid_stream && self.store.get(fragment).is_of_one_message_with(data),
            Neighbour::Delivered => self
                .partials
                .only()
                .is_some_and(|partial| partial.is_of_one_message_with(data)),
            Neighbour::Discarded => !valid_stream,
        };
        if fits(before) && fits(after) {
            None
        } else {
            Some("fragments of different messages mixed")
        }
    }

    /// Returns the last TSN before the first missing TSN.
    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        self.cumulative
    }

    /// Whether TSNs above a missing TSN have been received.
    pub(crate) fn has_gap(&self) -> bool {
        self.highest != self.cumulative
    }

    /// Returns whether all data that was received is complete, and was not for the user.
    pub(crate) fn holds_no_user_data(&self) -> bool {
        let is_complete = !self.has_gap() && matches!(self.tail, Tail::Boundary) && self.streams.have_none_parked();
        let has_fragments = self.assemblies.as_ref().is_some_and(|known| !known.are_complete());
        is_complete && !has_fragments && self.partials.is_empty() && !self.has_message()
    }

    /// Returns the number of the next message of a stream.
    pub(crate) fn expected_number(&self, stream: u16) -> u32 {
        self.streams.expected(stream)
    }

    /// Returns whether the number of an ordered message is one before the next of its stream.
    pub(crate) fn is_before_expected(&self, data: &Data<'_>) -> bool {
        is_before(data.number, ahead(data.number, self.streams.expected(data.stream)))
    }

    /// Returns the counters.
    pub(crate) fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Frees the memory kept for future data. For an association that has been idle for a while.
    pub(crate) fn release_memory(&mut self) {
        self.store.release_pool();
        self.streams.release_spare();
        if let Some(assemblies) = &mut self.assemblies {
            assemblies.release_spare();
        }
        self.partials.release_spare();
        if !self.has_gap() {
            self.map = TsnMap::default();
            self.sack.lists = self.sack.lists.take().filter(|lists| !lists.duplicates.is_empty());
        }
    }

    /// Returns the bytes of memory used by data: held chunks, incomplete messages, and buffers kept for future data.
    pub(crate) fn memory(&self) -> usize {
        let assemblies = self.assemblies.as_ref().map_or(0, |assemblies| assemblies.charge());
        self.store.memory() + assemblies + self.partials.charge()
    }

    /// Returns the bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let lists = self.sack.lists.as_ref().map_or(0, |lists| lists.heap_bytes());
        let new_gaps = self
            .new_gaps
            .as_ref()
            .map_or(0, |new_gaps| size_of::<NewGapsState>() + new_gaps.heap_bytes());
        // A copy that no other association shares.
        let config = match Arc::strong_count(&self.config) {
            1 => size_of::<ReceiverConfig>(),
            _ => 0,
        };
        let assemblies = self.assemblies.as_ref().map_or(0, |assemblies| assemblies.heap_bytes());
        let messages = assemblies + self.partials.heap_bytes() + self.waiting_reset.heap_bytes();
        config
            + new_gaps
            + messages
            + self.map.heap_bytes()
            + self.store.heap_bytes()
            + self.streams.heap_bytes()
            + lists
    }
}

#[cfg(test)]
mod tests;
