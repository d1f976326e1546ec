//! The components of a receiver that several of its procedures share.

use std::collections::{BTreeMap, VecDeque};

use whimbrel_control::Time;
use whimbrel_wire::{Data, Tsn};

use super::gap_cache::GapCache;
use super::store::{NONE, has_ssn};
use crate::config::NEVER;
use crate::streams::StreamList;

/// What follows the chunk at the cumulative TSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tail {
    /// A message boundary: the chunk ends a message, or nothing has been received.
    Boundary,
    /// The message continues; the fragment is held.
    Held(u32),
    /// The message continues; the part up to here has been delivered to the reader.
    Delivered,
    /// The message continues, on a stream that does not exist.
    Discarded,
    /// The sender has given up the TSNs up to here: a message begins, or what is left of a given-up one follows.
    Skipped,
}

/// A message that has been delivered to the reader in part. Of DATA chunks there is at most one: its fragments end at the cumulative TSN. Of
/// I-DATA chunks there is at most one for the ordered and one for the unordered messages of each stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partial {
    pub(super) stream: u16,
    pub(super) number: u32,
    pub(super) ppid: u32,
    pub(super) unordered: bool,
    /// The rest of the message that has arrived since, or `NONE`.
    pub(super) head: u32,
    /// Bytes of the message delivered to the reader, saturating.
    pub(super) delivered: u32,
    /// The end of the message has arrived.
    pub(super) ended: bool,
    /// Of I-DATA chunks: complete messages of the stream and order, which the reader receives after this one. It could not distinguish
    /// unordered ones from the rest of this one; ordered ones come after it because the sender gave up what was missing between.
    pub(super) waiting: ReadyList,
}

impl Partial {
    /// Whether a DATA chunk can be a fragment of the message.
    pub(super) fn is_of_one_message_with(&self, data: &Data<'_>) -> bool {
        self.key() == (data.stream, data.unordered)
            && self.ppid == data.ppid
            && (data.unordered || has_ssn(self.number, data.number))
    }

    fn key(&self) -> PartialKey {
        (self.stream, self.unordered)
    }
}

/// Bytes of memory that a message takes while it is read in parts, besides what is held of it. All of them take half of the memory at most.
const PARTIAL_COST: usize = 208;

// An entry of a tree whose nodes are half full, and one of the queue.
const _: () = assert!(2 * (size_of::<PartialKey>() + size_of::<Partial>()) + size_of::<PartialKey>() <= PARTIAL_COST);

/// The messages that have been delivered in part. Without any it takes a pointer.
#[derive(Debug, Default)]
pub(super) struct Partials(Option<Box<PartialList>>);

/// By stream, and whether unordered.
type PartialKey = (u16, bool);

#[derive(Debug, Default)]
struct PartialList {
    partials: BTreeMap<PartialKey, Partial>,
    /// Those of which more has arrived, in this order: the reader receives parts of all messages in turn. Some entries are stale, but not the
    /// first one.
    with_more: VecDeque<PartialKey>,
    /// Those whose end will not arrive, until the reader has learned it.
    given_up: VecDeque<Partial>,
}

impl PartialList {
    /// Drops the first entries of which nothing more is held.
    fn drop_stale(&mut self) {
        let has_more = |key: &PartialKey| self.partials.get(key).is_some_and(|partial| partial.head != NONE);
        while self.with_more.front().is_some_and(|first| !has_more(first)) {
            self.with_more.pop_front();
        }
    }
}

impl Partials {
    pub(super) fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|list| list.partials.is_empty())
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.partials.len())
    }

    /// Returns whether there is one on these streams.
    pub(super) fn has_any(&self, streams: &StreamList) -> bool {
        let Some(list) = &self.0 else { return false };
        let is_there = |&stream: &u16| {
            [false, true]
                .iter()
                .any(|&order| list.partials.contains_key(&(stream, order)))
        };
        match streams.listed() {
            None => !list.partials.is_empty(),
            Some(streams) => streams.iter().any(is_there),
        }
    }

    pub(super) fn get(&self, stream: u16, unordered: bool) -> Option<&Partial> {
        self.0.as_ref()?.partials.get(&(stream, unordered))
    }

    pub(super) fn get_mut(&mut self, stream: u16, unordered: bool) -> Option<&mut Partial> {
        self.0.as_mut()?.partials.get_mut(&(stream, unordered))
    }

    /// Returns the only one of DATA chunks.
    pub(super) fn only(&self) -> Option<&Partial> {
        self.0.as_ref()?.partials.values().next()
    }

    /// Returns whether there is no room for one more.
    pub(super) fn is_full(&self, memory_limit: u32) -> bool {
        self.len() * PARTIAL_COST >= memory_limit as usize / 2
    }

    /// Adds a message that begins with its head.
    pub(super) fn push(&mut self, partial: Partial) {
        let list = self.0.get_or_insert_default();
        list.with_more.push_back(partial.key());
        list.partials.insert(partial.key(), partial);
    }

    /// More of a message has arrived.
    pub(super) fn set_head(&mut self, stream: u16, unordered: bool, head: u32) {
        let Some(list) = &mut self.0 else { return };
        if let Some(partial) = list.partials.get_mut(&(stream, unordered)) {
            partial.head = head;
            list.with_more.push_back((stream, unordered));
        }
    }

    /// Returns the key of a message of which more has arrived.
    pub(super) fn with_more(&self) -> Option<PartialKey> {
        self.0.as_ref()?.with_more.front().copied()
    }

    /// Takes what has arrived of a message. Returns its state before.
    pub(super) fn take_more(&mut self, key: PartialKey) -> Option<Partial> {
        let list = self.0.as_mut()?;
        let partial = list.partials.get_mut(&key)?;
        let before = *partial;
        partial.head = NONE;
        list.drop_stale();
        Some(before)
    }

    pub(super) fn remove(&mut self, key: PartialKey) -> Option<Partial> {
        let list = self.0.as_mut()?;
        let removed = list.partials.remove(&key);
        list.given_up.extend(removed.filter(|partial| !partial.ended));
        list.drop_stale();
        removed
    }

    /// Returns whether the reader has to learn that a message will not be completed.
    pub(super) fn any_given_up(&self) -> bool {
        self.0.as_ref().is_some_and(|list| !list.given_up.is_empty())
    }

    pub(super) fn forget_given_up(&mut self) {
        if let Some(list) = &mut self.0 {
            list.given_up.clear();
        }
    }

    /// Takes a message that will not be completed.
    pub(super) fn take_given_up(&mut self) -> Option<Partial> {
        self.0.as_mut()?.given_up.pop_front()
    }

    /// Returns the keys of those for which `condition` holds.
    pub(super) fn keys(&self, condition: impl Fn(&Partial) -> bool) -> Vec<PartialKey> {
        let Some(list) = &self.0 else { return Vec::new() };
        let chosen = list.partials.iter().filter(|(_, partial)| condition(partial));
        chosen.map(|(key, _)| *key).collect()
    }

    pub(super) fn release_spare(&mut self) {
        self.0
            .take_if(|list| list.partials.is_empty() && list.given_up.is_empty());
    }

    /// Returns the memory to charge for the messages.
    pub(super) fn charge(&self) -> usize {
        self.len() * PARTIAL_COST
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let list = |list: &PartialList| {
            // The nodes of the tree are at least half full.
            size_of::<PartialList>()
                + 2 * list.partials.len() * size_of::<(PartialKey, Partial)>()
                + list.with_more.capacity() * size_of::<PartialKey>()
                + list.given_up.capacity() * size_of::<Partial>()
        };
        self.0.as_deref().map_or(0, list)
    }
}

/// Complete messages in the order in which they became ready, linked through `Fragment::other` of their heads.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadyList {
    pub(super) head: u32,
    pub(super) tail: u32,
}

impl Default for ReadyList {
    fn default() -> Self {
        ReadyList { head: NONE, tail: NONE }
    }
}

/// The state of a TSN next to a chunk that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Neighbour {
    Missing,
    /// A message begins or ends between the two TSNs.
    Boundary,
    /// The TSN belongs to the same message; this fragment holds it.
    Held(u32),
    /// The TSN belongs to the same message, whose part up to here has been delivered to the reader.
    Delivered,
    /// The TSN belongs to the same message, which is discarded because its stream does not exist.
    Discarded,
    /// The sender has given up the TSN.
    Skipped,
}

/// `accepted` and `right_edge` count the payload bytes accepted since the association began, less those dropped.
#[derive(Debug)]
pub(super) struct Window {
    /// Bytes accepted; with a two-level buffer, only those in order.
    pub(super) accepted: u64,
    /// Bytes that the receiver has promised to accept: the right edge, which never moves back.
    pub(super) right_edge: u64,
    /// No fragment that could be dropped has a higher TSN. Valid only if there is a gap.
    pub(super) highest_held: Tsn,
    /// With a two-level buffer: bytes held above a gap, at most the size of both levels. Otherwise zero.
    pub(super) beyond: u32,
    /// More was promised than the buffer has now, because the buffer was made smaller.
    pub(super) outdated: bool,
}

impl Window {
    pub(super) fn new(recv_buffer: u32, cumulative: Tsn) -> Self {
        Window {
            accepted: 0,
            beyond: 0,
            outdated: false,
            right_edge: recv_buffer.into(),
            highest_held: cumulative,
        }
    }

    /// Returns the part of the advertised window that is left.
    pub(super) fn promised(&self) -> usize {
        self.right_edge.saturating_sub(self.accepted) as usize
    }
}

/// The state of acknowledgement.
#[derive(Debug, Default)]
pub(super) struct SackState {
    pub(super) due: bool,
    /// A SACK has been sent.
    pub(super) began: bool,
    /// When a delayed SACK is due; [`NEVER`] without one.
    pub(super) deadline: Time,
    /// Packets with DATA since the last SACK.
    pub(super) packets: u32,
    /// The path on which the last of these packets arrived.
    pub(super) path: u8,
    /// The path of a packet that brought only duplicates while data from another path waits to be acknowledged, or of any such packet if
    /// each path is acknowledged on its own. The SACK for it is sent on this path. It does not change when the other packets are
    /// acknowledged.
    pub(super) aside: Option<u8>,
    /// There was a gap after the last packet with DATA.
    pub(super) had_gap: bool,
    pub(super) packet: PacketSummary,
    /// None before the first gap or duplicate, and while idle.
    pub(super) lists: Option<Box<SackLists>>,
}

/// The lists in a SACK.
#[derive(Debug, Default)]
pub(super) struct SackLists {
    /// Duplicate TSNs since the last SACK.
    pub(super) duplicates: Vec<Tsn>,
    /// The blocks of the last SACK.
    pub(super) gaps: GapCache,
}

impl SackLists {
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.duplicates.capacity() * size_of::<Tsn>() + self.gaps.heap_bytes()
    }
}

impl SackState {
    pub(super) fn new() -> Self {
        SackState {
            deadline: NEVER,
            ..SackState::default()
        }
    }
}

/// Summary of the DATA chunks of the current packet.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PacketSummary {
    pub(super) new: bool,
    pub(super) duplicate: bool,
    pub(super) dropped: bool,
    pub(super) immediate: bool,
}
