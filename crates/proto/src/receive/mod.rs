//! The data receiver: takes DATA chunks in, hands messages out, and says what has arrived (RFC 9260 §6.2, §6.5-6.7,
//! §6.9).
//!
//! A chunk is checked against its neighbours in TSN order, admitted if the window allows it ([`window`]), copied once
//! into a recycled buffer ([`store`]) and joined to the run of fragments it belongs to ([`reassembly`]). A complete
//! message goes to the list for the reader, or waits for its turn in its stream ([`streams`]). Only TSNs beyond a gap
//! are entered in the TSN map ([`tsn_map`]); a chunk that arrives in order never touches it.
//!
//! What a peer can make us hold is bounded by [`ReceiverConfig`]: `memory_limit` and one chunk, the TSN map of at most
//! `max_tsn_window` entries, and 8 bytes for each inbound stream that was used.

mod gap_cache;
mod news;
mod reassembly;
mod sack;
mod store;
mod streams;
mod tsn_map;
mod window;

use whimbrel_control::Span;
use whimbrel_wire::{Data, Tsn};

use news::NewsState;
use reassembly::{Partial, ReadyList, Tail};
use sack::SackState;
use store::Store;
use streams::Streams;
use tsn_map::{Slot, TsnMap};
use window::Window;

pub(crate) use news::News;
pub(crate) use store::CHUNK_OVERHEAD;

/// The largest TSN window: its map has 16 MiB.
const MAX_TSN_WINDOW: u32 = 1 << 22;

/// What the receiver may hold, and how it acknowledges.
#[derive(Clone, Debug)]
pub(crate) struct ReceiverConfig {
    /// Payload bytes we promise to hold: a_rwnd of our INIT or INIT ACK.
    pub(crate) recv_buffer: u32,
    /// Two-level buffer (Ye 2004, 6.6): payload bytes held beyond gaps besides those in order, which alone count for the window; 0:
    /// both share the buffer.
    pub(crate) second_level: u32,
    /// Bytes of memory for held chunks, each with [`CHUNK_OVERHEAD`]; with many tiny chunks it closes the window early.
    pub(crate) memory_limit: u32,
    /// Streams the peer may send on.
    pub(crate) inbound_streams: u16,
    /// Longest message accepted, in bytes.
    pub(crate) max_message: u32,
    /// Path MTU in bytes: the step in which a nearly closed window opens again.
    pub(crate) mtu: u16,
    /// SACK.Delay.
    pub(crate) sack_delay: Span,
    /// Packets with DATA after which a SACK is sent: 2 in the RFC.
    pub(crate) sack_frequency: u8,
    /// Gaps do not make a SACK due at once: only the number of packets does, and the time (Ye 2004, 6.6; DAC).
    pub(crate) sack_any_order: bool,
    /// The packet that closes the last gap is acknowledged at once (RFC 5681 §4.2).
    pub(crate) sack_on_closed_gap: bool,
    /// Room that the reader makes is told without waiting for data (RFC 9260 §6.2).
    pub(crate) window_updates: bool,
    /// SACKs tell how many packets with DATA came since the one before (DAC).
    pub(crate) tells_packets: bool,
    /// What has been received may be dropped again to make room for earlier data. If not, NR-SACKs tell the sender so.
    pub(crate) takes_back: bool,
    /// SACKs report beyond gaps only what is new (Ye 2004, 6.6).
    pub(crate) new_gaps_only: bool,
    /// How far beyond the cumulative TSN a TSN may be to be accepted. What is more than 65535 beyond it is reported when the gap is
    /// filled.
    pub(crate) max_tsn_window: u32,
    /// Gap Ack Blocks in a SACK at most, besides the limit of the packet.
    pub(crate) max_gap_blocks: u16,
    /// Duplicate TSNs remembered for the next SACK; more are counted but not reported.
    pub(crate) max_duplicates: u16,
}

impl ReceiverConfig {
    /// A buffer of one level.
    #[cfg(test)]
    pub(crate) fn new(recv_buffer: u32, inbound_streams: u16, mtu: u16) -> Self {
        Self::with_second_level(recv_buffer, 0, inbound_streams, mtu)
    }

    /// The standard's constants, and limits that follow from the buffers, of which the second is for what lies beyond gaps: memory
    /// for payloads of about 100 bytes to fill them, and a TSN window of four times as many chunks as that memory could hold.
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
            tells_packets: false,
            takes_back: true,
            new_gaps_only: false,
            max_tsn_window,
            max_gap_blocks: u16::MAX,
            max_duplicates: 64,
        }
    }
}

/// Memory for held chunks and the TSN window, for buffers of these sizes.
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

/// What became of a DATA chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataOutcome {
    /// Accepted; [`Receiver::has_message`] may have become true.
    New,
    /// Its TSN was received before (RFC 9260 §3.3.4).
    Duplicate,
    /// Dropped for lack of window or memory; the SACK that says so is due at once (RFC 9260 §6.2).
    NoBuffer,
    /// Dropped because its TSN is too far ahead.
    OutOfWindow,
    /// Acknowledged and discarded; an ERROR chunk with "Invalid Stream Identifier" is to be sent (RFC 9260 §6.5).
    InvalidStream,
    /// Its message is longer than allowed: the association is to be aborted.
    TooLong,
    /// No user data: an ABORT with this TSN is to be sent (RFC 9260 §6.2).
    NoUserData(Tsn),
    /// Contradicts what was received before: the association is to be aborted. The text says why.
    ProtocolViolation(&'static str),
}

/// Counters of what the receiver did with DATA chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceiverStats {
    /// Chunks received again.
    pub duplicates: u64,
    /// Chunks dropped because their TSN was too far ahead.
    pub out_of_window: u64,
    /// Chunks dropped for lack of window or memory.
    pub no_buffer: u64,
    /// Chunks dropped after they had been received, to make room for earlier ones.
    pub reneged: u64,
    /// Chunks on streams that do not exist.
    pub invalid_streams: u64,
    /// Times a gap opened in a sequence that had none.
    pub gaps: u64,
}

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct Receiver {
    config: ReceiverConfig,
    /// The last TSN before the first one missing.
    cumulative: Tsn,
    /// The highest TSN received; the cumulative TSN if there is no gap.
    highest: Tsn,
    /// How the chunk at the cumulative TSN ends.
    tail: Tail,
    /// TSNs above the cumulative one. Empty, and not looked at, if there is no gap.
    map: TsnMap,
    store: Store,
    streams: Streams,
    ready: ReadyList,
    partial: Option<Partial>,
    window: Window,
    sack: SackState,
    /// Only if SACKs report what is new.
    news: Option<Box<NewsState>>,
    stats: ReceiverStats,
}

/// What is known of a TSN next to a chunk that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Neighbour {
    Missing,
    /// A message begins or ends between the two.
    Boundary,
    /// Goes on in the same message, in this fragment.
    Held(u32),
    /// Goes on in the same message, of which the part before has been handed to the reader.
    Delivered,
    /// Goes on in the same message, which is being discarded because its stream does not exist.
    Discarded,
}

impl Receiver {
    /// A receiver whose peer begins with `initial_tsn` and was told of a window of `config.recv_buffer` bytes.
    pub(crate) fn new(initial_tsn: Tsn, config: &ReceiverConfig) -> Self {
        let cumulative = initial_tsn.previous();
        Receiver {
            cumulative,
            highest: cumulative,
            tail: Tail::Boundary,
            map: TsnMap::default(),
            store: Store::new(config.memory_limit as usize),
            streams: Streams::default(),
            ready: ReadyList::default(),
            partial: None,
            window: Window::new(config.recv_buffer, cumulative),
            sack: SackState::new(),
            news: config.new_gaps_only.then(Box::default),
            stats: ReceiverStats::default(),
            config: config.clone(),
        }
    }

    /// Takes in a DATA chunk. After the last chunk of its packet, [`Receiver::on_packet_end`] must be called.
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> DataOutcome {
        let tsn = data.tsn;
        // RFC 9260 §6.2 [9260:6.2-31]
        if data.payload.is_empty() {
            return DataOutcome::NoUserData(tsn);
        }
        self.sack.packet.immediate |= data.immediate;
        // RFC 9260 §1.6 [9260:1.6-1, 1.6-2, 1.6-4]: what is not ahead of the cumulative TSN in serial arithmetic has
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
        let (before, after) = (self.before(tsn), self.after(tsn));
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
        if !self.admit(tsn, data.payload.len()) {
            self.stats.no_buffer += 1;
            self.sack.packet.dropped = true;
            return DataOutcome::NoBuffer;
        }
        self.sack.packet.new = true;
        // Admission may have dropped what came after.
        let after = self.after(tsn);
        self.accept(data, before, after)
    }

    fn duplicate(&mut self, tsn: Tsn) -> DataOutcome {
        self.stats.duplicates += 1;
        self.sack.packet.duplicate = true;
        if let Some(news) = &mut self.news {
            // The sender has not seen it acknowledged.
            news.tell_everything();
        }
        // RFC 9260 §3.3.4 [9260:6.2-21]: each time it comes again, it is listed once more.
        let duplicates = &mut self.sack.lists.get_or_insert_default().duplicates;
        if duplicates.len() < usize::from(self.config.max_duplicates) {
            duplicates.push(tsn);
        }
        DataOutcome::Duplicate
    }

    /// RFC 9260 §6.5 [9260:6.5-2]: acknowledged like any other, but not kept.
    fn discard_invalid(&mut self, data: &Data<'_>) -> DataOutcome {
        self.stats.invalid_streams += 1;
        self.sack.packet.new = true;
        self.mark_received(data.tsn, Slot::new(store::NONE, data.begin, data.end));
        DataOutcome::InvalidStream
    }

    /// Whether `tsn`, which is ahead of the cumulative TSN, was received beyond a gap.
    fn is_beyond_gap(&self, tsn: Tsn) -> bool {
        tsn.distance(self.cumulative) <= self.highest.distance(self.cumulative) && self.map.contains(tsn)
    }

    fn before(&self, tsn: Tsn) -> Neighbour {
        if tsn == self.cumulative.next() {
            return match self.tail {
                Tail::Boundary => Neighbour::Boundary,
                Tail::Held(fragment) => Neighbour::Held(fragment),
                Tail::Delivered => Neighbour::Delivered,
                Tail::Discarded => Neighbour::Discarded,
            };
        }
        self.beyond_gap(tsn.previous(), Slot::end)
    }

    fn after(&self, tsn: Tsn) -> Neighbour {
        self.beyond_gap(tsn.next(), Slot::begin)
    }

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

    /// RFC 9260 §3.3.1, §6.9 [9260:3.3.1-6, 3.3.1-12, 6.9-14]: fragments of a message have consecutive TSNs, the first
    /// begins it, the last ends it, and all have the same stream, SSN, U bit and payload protocol identifier.
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
            (Neighbour::Missing, _) | (Neighbour::Boundary, true) => {}
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
            Neighbour::Missing | Neighbour::Boundary => true,
            Neighbour::Held(fragment) => valid_stream && self.store.get(fragment).is_of_one_message_with(data),
            Neighbour::Delivered => self
                .partial
                .as_ref()
                .is_some_and(|partial| partial.is_of_one_message_with(data)),
            Neighbour::Discarded => !valid_stream,
        };
        if fits(before) && fits(after) {
            None
        } else {
            Some("fragments of different messages mixed")
        }
    }

    /// The last TSN before the first one missing.
    pub(crate) fn cumulative_tsn(&self) -> Tsn {
        self.cumulative
    }

    /// Whether TSNs beyond a missing one have been received.
    pub(crate) fn has_gap(&self) -> bool {
        self.highest != self.cumulative
    }

    /// What has been counted.
    pub(crate) fn stats(&self) -> &ReceiverStats {
        &self.stats
    }

    /// Gives back the memory kept for data to come. For an association that has been idle for a while.
    pub(crate) fn release_memory(&mut self) {
        self.store.release_pool();
        self.streams.release_spare();
        if !self.has_gap() {
            self.map = TsnMap::default();
            self.sack.lists = self.sack.lists.take().filter(|lists| !lists.duplicates.is_empty());
        }
    }

    /// Bytes of memory that data takes: what is held, and buffers kept for what comes.
    pub(crate) fn memory(&self) -> usize {
        self.store.memory()
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let lists = self.sack.lists.as_ref().map_or(0, |lists| lists.heap_bytes());
        let news = self
            .news
            .as_ref()
            .map_or(0, |news| size_of::<NewsState>() + news.heap_bytes());
        news + self.map.heap_bytes() + self.store.heap_bytes() + self.streams.heap_bytes() + lists
    }
}

#[cfg(test)]
mod tests;
