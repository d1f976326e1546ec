//! Messages in I-DATA chunks of which fragments are missing (RFC 8260 §2.2.3).
//!
//! The fragments of a message are found by its stream, its order, its identifier and their own numbers, whatever their TSNs. Neighbours by
//! number form a run, as those by TSN do for DATA chunks.

use std::collections::{BTreeMap, VecDeque};

use whimbrel_wire::{Data, MessageNumber, Tsn};

use super::components::Neighbour;
use super::store::Store;
use crate::streams::StreamList;

/// Numbers this far ahead, or further, are before.
const HALF: u32 = 1 << 31;

/// Messages that are asked whether they may begin.
const MAX_ASKED: usize = 16;

/// The cost of an incomplete message besides its fragments, in bytes: its entries in two trees whose nodes are half full, and its first run.
pub(super) const MESSAGE_OVERHEAD: usize = 160;

const _: () = {
    let entries = size_of::<(Key, Assembly)>() + size_of::<(u32, Key)>();
    assert!(2 * entries + size_of::<Run>() <= MESSAGE_OVERHEAD);
};

/// A message of I-DATA chunks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Key {
    pub(super) stream: u16,
    pub(super) unordered: bool,
    pub(super) mid: u32,
}

impl Key {
    /// Returns the message of an I-DATA chunk.
    // [8260:2.2.3-1, 2.2.3-2]
    pub(super) fn of(data: &Data<'_>) -> Option<Self> {
        let MessageNumber::Mid(mid) = data.number else {
            return None;
        };
        Some(Key {
            stream: data.stream,
            unordered: data.unordered,
            mid: mid.0,
        })
    }
}

/// Fragments with consecutive numbers.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    last: u32,
    /// The fragment with the first number.
    head: u32,
}

/// A message of which fragments are missing.
#[derive(Debug, Default)]
struct Assembly {
    /// In ascending order, none next to another.
    runs: VecDeque<Run>,
    /// The number of the first fragment that has not been delivered to the reader.
    next: u32,
    /// A part has been delivered. From then on, numbers may wrap to 0 (RFC 8260 §2.1).
    begun: bool,
    /// The TSN of the first fragment of all, once it is held.
    beginning: Option<u32>,
}

impl Assembly {
    /// Returns how far a fragment is behind those that have been delivered.
    fn ahead(&self, fsn: u32) -> u32 {
        fsn.wrapping_sub(self.next)
    }

    /// Returns the number of runs that begin at or before a fragment.
    fn runs_up_to(&self, fsn: u32) -> usize {
        let at = self.ahead(fsn);
        self.runs.partition_point(|run| self.ahead(run.first) <= at)
    }

    /// Frees most of a list that has become short.
    fn shrink(&mut self) {
        if self.runs.len() * 4 < self.runs.capacity() {
            self.runs.shrink_to(2 * self.runs.len());
        }
    }
}

/// The incomplete messages of all streams.
#[derive(Debug, Default)]
pub(super) struct Assemblies {
    messages: BTreeMap<Key, Assembly>,
    /// Messages whose first fragment is held and has not been delivered, by its TSN.
    beginnings: BTreeMap<u32, Key>,
    /// By stream: the last unordered message that the sender has given up.
    skipped: BTreeMap<u16, u32>,
    /// The list of a message that has ended, for the next one.
    spare: VecDeque<Run>,
}

impl Assemblies {
    /// Returns whether no message is incomplete.
    pub(super) fn are_complete(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns what is held next to a fragment in its message, or what it contradicts.
    pub(super) fn neighbours(
        &self,
        key: Key,
        data: &Data<'_>,
        store: &Store,
    ) -> Result<(Neighbour, Neighbour), &'static str> {
        let boundary = |is_one| {
            if is_one {
                Neighbour::Boundary
            } else {
                Neighbour::Missing
            }
        };
        let message = self.messages.get(&key);
        let begun = message.is_some_and(|message| message.begun);
        if !data.begin && data.fsn == 0 && !begun {
            return Err("fragment without a beginning");
        }
        if data.begin && begun {
            return Err("fragment number used twice");
        }
        let Some(message) = message else {
            return Ok((boundary(data.begin), boundary(data.end)));
        };
        let place = message.runs_up_to(data.fsn);
        let (before, after) = (
            place.checked_sub(1).map(|place| message.runs[place]),
            message.runs.get(place),
        );
        let at = message.ahead(data.fsn);
        if at >= HALF || before.is_some_and(|run| message.ahead(run.last) >= at) {
            return Err("fragment number used twice");
        }
        let tail = |run: Run| store.get(run.head).other;
        if before.is_some_and(|run| store.get(tail(run)).end()) || data.end && after.is_some() {
            return Err("fragment after the end of its message");
        }
        let before = match before {
            _ if data.begin => Neighbour::Boundary,
            Some(run) if run.last.wrapping_add(1) == data.fsn => Neighbour::Held(tail(run)),
            None if begun && at == 0 => Neighbour::Delivered,
            _ => Neighbour::Missing,
        };
        let after = match after {
            Some(run) if run.first == data.fsn.wrapping_add(1) => Neighbour::Held(run.head),
            _ => boundary(data.end),
        };
        Ok((before, after))
    }

    /// A fragment has been joined to its neighbours, so that the run begins with `head`.
    pub(super) fn join(&mut self, key: Key, tsn: u32, fsn: u32, head: u32) {
        let spare = &mut self.spare;
        let message = self.messages.entry(key).or_insert_with(|| {
            let mut runs = core::mem::take(spare);
            runs.reserve_exact(1);
            Assembly {
                runs,
                ..Assembly::default()
            }
        });
        if fsn == 0 && !message.begun {
            message.beginning = Some(tsn);
            self.beginnings.insert(tsn, key);
        }
        let place = message.runs_up_to(fsn);
        let joins_next = message
            .runs
            .get(place)
            .is_some_and(|run| run.first == fsn.wrapping_add(1));
        let last = if joins_next { message.runs[place].last } else { fsn };
        let previous = place.checked_sub(1).map(|place| &mut message.runs[place]);
        match previous.filter(|run| run.last.wrapping_add(1) == fsn) {
            Some(run) => {
                (run.last, run.head) = (last, head);
                if joins_next {
                    message.runs.remove(place);
                }
                message.shrink();
            }
            None if joins_next => (message.runs[place].first, message.runs[place].head) = (fsn, head),
            None => message.runs.insert(place, Run { first: fsn, last, head }),
        }
    }

    /// The message is complete.
    pub(super) fn remove(&mut self, key: Key) {
        if let Some(message) = self.messages.remove(&key) {
            self.forget_beginning(message.beginning);
            self.recycle(message.runs);
        }
    }

    fn forget_beginning(&mut self, beginning: Option<u32>) {
        if let Some(tsn) = beginning {
            self.beginnings.remove(&tsn);
        }
    }

    /// Removes all messages. Returns the first fragment of each run that is held of them.
    pub(super) fn clear(&mut self) -> Vec<u32> {
        self.beginnings.clear();
        let messages = core::mem::take(&mut self.messages);
        let runs = messages.values().flat_map(|message| &message.runs);
        runs.map(|run| run.head).collect()
    }

    fn recycle(&mut self, mut runs: VecDeque<Run>) {
        runs.clear();
        // A message whose fragments were scattered had a long list.
        if runs.capacity() <= 16 {
            self.spare = runs;
        }
    }

    /// Returns the first fragment of a message of which nothing has been delivered, whose TSN is up to the cumulative one, and for which
    /// `may_begin` holds. Of such messages, the first few are asked: a sender that sends the messages of a stream one after the other needs no
    /// more, and one that does not delays its own messages.
    pub(super) fn first_begun(&self, cumulative: Tsn, mut may_begin: impl FnMut(Key) -> bool) -> Option<u32> {
        // In serial order: from half of the numbers before.
        let oldest = cumulative.0.wrapping_sub(HALF - 1);
        let (older, newer) = if oldest <= cumulative.0 {
            (oldest..=cumulative.0, None)
        } else {
            (oldest..=u32::MAX, Some(0..=cumulative.0))
        };
        let newer = newer.into_iter().flat_map(|range| self.beginnings.range(range));
        let mut keys = self.beginnings.range(older).chain(newer).map(|(_, key)| *key);
        let key = keys.by_ref().take(MAX_ASKED).find(|key| may_begin(*key))?;
        Some(self.messages.get(&key)?.runs.front()?.head)
    }

    /// The first run of a message is delivered to the reader.
    pub(super) fn deliver(&mut self, key: Key) {
        let Some(message) = self.messages.get_mut(&key) else {
            return;
        };
        let Some(delivered) = message.runs.pop_front() else {
            return;
        };
        message.next = delivered.last.wrapping_add(1);
        message.begun = true;
        message.shrink();
        let beginning = message.beginning.take();
        self.forget_beginning(beginning);
    }

    /// The sender gives up the messages of a stream and order up to this one. Calls `each` with the first fragment of each run that is held of
    /// them.
    pub(super) fn skip(&mut self, first: u32, last: Key, mut each: impl FnMut(u32)) {
        let from = |mid| Key { mid, ..last };
        // What is before the first one has been delivered or given up.
        let ranges = if first <= last.mid {
            [Some((first, last.mid)), None]
        } else {
            [Some((first, u32::MAX)), Some((0, last.mid))]
        };
        let ranges = ranges.into_iter().flatten();
        let skipped: Vec<Key> = ranges
            .flat_map(|(first, last)| self.messages.range(from(first)..=from(last)))
            .map(|(key, _)| *key)
            .collect();
        for key in skipped {
            if let Some(message) = self.messages.remove(&key) {
                message.runs.iter().for_each(|run| each(run.head));
                self.forget_beginning(message.beginning);
                self.recycle(message.runs);
            }
        }
        if last.unordered {
            self.skipped.insert(last.stream, last.mid);
        }
    }

    /// Returns the first unordered message of a stream that the sender has not given up, as far as is known.
    pub(super) fn first_unordered(&self, stream: u16, last: u32) -> u32 {
        let known = self.skipped.get(&stream);
        known.map_or_else(|| last.wrapping_sub(HALF - 1), |known| known.wrapping_add(1))
    }

    /// Streams have been reset: their unordered messages start at 0 again.
    pub(super) fn reset(&mut self, streams: &StreamList) {
        self.skipped.retain(|&stream, _| !streams.contains(stream));
    }

    /// Returns whether the sender has given up an unordered message.
    pub(super) fn is_given_up(&self, key: Key) -> bool {
        let last = self.skipped.get(&key.stream).filter(|_| key.unordered);
        last.is_some_and(|last| last.wrapping_sub(key.mid) < HALF)
    }

    /// An unordered message has arrived: what was given up long before it is forgotten, before its number comes up again.
    pub(super) fn on_unordered(&mut self, key: Key) {
        if let Some(last) = self.skipped.get(&key.stream)
            && key.mid.wrapping_sub(*last) >= HALF / 2
        {
            self.skipped.remove(&key.stream);
        }
    }

    /// Sets the number of the next fragment of a message.
    #[cfg(test)]
    pub(super) fn set_next(&mut self, key: Key, next: u32) {
        if let Some(message) = self.messages.get_mut(&key) {
            message.next = next;
        }
    }

    /// Returns whether no message is incomplete.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Returns the memory to charge for the messages.
    pub(super) fn charge(&self) -> usize {
        self.messages.len() * MESSAGE_OVERHEAD
    }

    /// Returns the bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let runs: usize = self.messages.values().map(|message| message.runs.capacity()).sum();
        // The nodes of the trees are at least half full.
        size_of::<Self>()
            + 2 * self.messages.len() * (size_of::<Key>() + size_of::<Assembly>())
            + 2 * self.beginnings.len() * size_of::<(u32, Key)>()
            + 2 * self.skipped.len() * size_of::<(u16, u32)>()
            + (runs + self.spare.capacity()) * size_of::<Run>()
    }

    /// Releases the memory kept for future messages.
    pub(super) fn release_spare(&mut self) {
        self.spare = VecDeque::new();
    }
}
