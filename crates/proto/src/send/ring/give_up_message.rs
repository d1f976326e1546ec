//! Messages that are given up, and the FORWARD TSN that reports them (RFC 3758 §3.5).

use std::collections::BTreeMap;

use whimbrel_control::{Seq, Time};
use whimbrel_wire::{SkippedStream, SkippedStreams, Tsn};

use super::give_up::Limits;
use super::outstanding::Outstanding;
use super::slot::Fate;
use super::watched::{Watched, WatchedChunk};
use crate::send::queue::{Buffered, Fragment, Limit};

/// A message that was given up, by the numbers of one of its chunks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GivenUp {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) context: u32,
    /// Its last chunk has been sent.
    pub(crate) is_whole: bool,
}

/// The newest message of a stream, as far as it is in the ring.
#[derive(Debug, Default)]
struct NewestMessage {
    /// What has not been counted yet.
    held: Buffered,
    gives_way: bool,
    /// Its last chunk has been sent.
    is_whole: bool,
}

impl Outstanding {
    /// Returns whether a message in the ring may be given up, or a FORWARD TSN has to report one.
    #[inline]
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_some()
    }

    /// Sets when the chunk that was pushed last is given up.
    pub(crate) fn limit_last(&mut self, limit: Limit) {
        if let Some(last) = self.limits_mut().chunks.back_mut() {
            *last = limit;
        }
    }

    fn limits_mut(&mut self) -> &mut Limits {
        let (base, len) = (self.base, self.slots.len());
        self.limits.get_or_insert_with(|| {
            Box::new(Limits {
                chunks: std::iter::repeat_n(Limit::Never, len).collect(),
                forward_to: base,
                settled: 0,
                watched: Watched::default(),
            })
        })
    }

    fn limit(&self, seq: Seq) -> Limit {
        let limits = self.limits.as_ref();
        let place = seq.checked_sub(self.base).map_or(usize::MAX, |place| place as usize);
        limits
            .and_then(|limits| limits.chunks.get(place))
            .copied()
            .unwrap_or_default()
    }

    /// Returns whether a lost chunk is given up instead of being retransmitted now.
    #[inline]
    // [3758:3.2-1, 3.4-1, 3.5-1]
    // [7496:3.1-1]
    pub(crate) fn is_given_up_at(&self, seq: Seq, now: Time) -> bool {
        self.has_limits() && self.limit(seq).is_reached(now, true)
    }

    /// Returns a lost chunk whose message is given up at this time, of those that are next to be retransmitted.
    pub(crate) fn next_to_give_up(&mut self, now: Time) -> Option<Seq> {
        (0..self.lost_queues()).find_map(|queue| {
            let seq = self.first_lost_in(queue)?.seq;
            self.is_given_up_at(seq, now).then_some(seq)
        })
    }

    /// Returns a chunk of the message that gives way to one with this limit, and its number, if there is one.
    pub(crate) fn gives_way(&self, limit: Limit) -> Option<(u16, Seq)> {
        let limits = self.limits.as_ref()?;
        let number = |known: &Limit| match known {
            Limit::Priority(number) if known.gives_way_to(limit) => Some(*number),
            _ => None,
        };
        // What the peer has is not worth giving up.
        let all = limits.chunks.iter().zip(&self.slots).enumerate();
        let (number, place) = all
            .filter(|(_, (_, slot))| slot.fate != Fate::Acked)
            .filter_map(|(place, (known, _))| Some((number(known)?, place)))
            .max()?;
        Some((number, self.base + place as Seq))
    }

    /// Returns what gives way to a message with this limit, without a number, and the streams of those messages among them whose rest waits.
    pub(crate) fn yields(&self, limit: Limit) -> (Buffered, Vec<u16>) {
        let Some(limits) = &self.limits else {
            return (Buffered::default(), Vec::new());
        };
        let mut held = Buffered::default();
        // Messages of different streams may be interleaved, those of a stream follow each other.
        let mut newest: BTreeMap<u16, NewestMessage> = BTreeMap::new();
        for (known, slot) in limits.chunks.iter().zip(&self.slots) {
            let message = newest.entry(slot.fragment.stream).or_default();
            if slot.fragment.begin {
                *message = NewestMessage::default();
            }
            message.held += Buffered::of(slot.data_len() as usize, slot.fragment.is_long);
            message.is_whole = slot.fragment.end;
            // A message that has arrived as a whole stays.
            message.gives_way |= slot.fate != Fate::Acked && known.gives_way_to(limit);
            if message.gives_way {
                held += std::mem::take(&mut message.held);
            }
        }
        let is_begun = |message: &NewestMessage| message.gives_way && !message.is_whole;
        let begun = newest.into_iter().filter(|(_, message)| is_begun(message));
        (held, begun.map(|(stream, _)| stream).collect())
    }

    /// The peer has or has skipped all chunks up to this one, although it has not acknowledged them yet.
    pub(crate) fn settle_up_to(&mut self, seq: Seq) {
        // Messages sent later may be given up.
        if seq >= self.base {
            self.limits_mut().settled = seq + 1;
        }
    }

    /// Returns the newest chunk of a stream if it does not end its message.
    pub(crate) fn last_of(&self, stream: u16) -> Option<Seq> {
        let place = self.slots.iter().rposition(|slot| slot.fragment.stream == stream)?;
        (!self.slots[place].fragment.end).then_some(self.base + place as Seq)
    }

    /// Gives up the message to which this chunk belongs. None of its chunks is outstanding any more, and none grows a window (RFC 3758
    /// §3.5 A2, A3). The memory of their content is freed.
    // [3758:3.5-2, 3.5-3, 3.5-4, 3.5-5, 4.3-2]
    pub(crate) fn give_up(&mut self, seq: Seq) -> Option<GivenUp> {
        let chunk = &self.slot(seq)?.fragment;
        let (first, key) = (self.first_of_message(seq)?, message_key(chunk));
        let mut given_up = GivenUp {
            stream: chunk.stream,
            ppid: chunk.ppid,
            context: chunk.context,
            is_whole: false,
        };
        let mut next = first;
        while let Some(slot) = self.slot(next) {
            if message_key(&slot.fragment) != key {
                // Interleaved.
                next += 1;
                continue;
            }
            let (fate, path, is_last) = (slot.fate, slot.path, slot.fragment.end);
            let place = (next - self.base) as usize;
            self.watch(next);
            if fate != Fate::Acked {
                self.drop_copies(next);
                if let Some(sequences) = &mut self.sequences {
                    sequences.on_given_up(place, path);
                }
                self.take_out_of_flight(next, Fate::Acked);
                if let Some(slot) = self.slot_mut(next) {
                    // It was not delivered.
                    slot.credited = true;
                }
                self.advance_earliest(path.into());
            }
            self.free(next);
            if let Some(limits) = &mut self.limits
                && let Some(limit) = limits.chunks.get_mut(place)
            {
                *limit = Limit::Reached;
            }
            next += 1;
            if is_last {
                given_up.is_whole = true;
                break;
            }
        }
        Some(given_up)
    }

    /// Watches a chunk, whose message is given up, if it is in flight and missing reports could still declare it lost.
    fn watch(&mut self, seq: Seq) {
        let position = self.position_here(seq);
        let in_flight = self
            .slot(seq)
            .filter(|slot| slot.fate == Fate::InFlight && !slot.unreported && !slot.fast_retransmitted);
        let Some(slot) = in_flight else { return };
        let (path, chunk) = (
            slot.path,
            WatchedChunk {
                sent_at: slot.sent_at,
                position,
                seq,
                bytes: slot.chunk_len(),
                missing: slot.missing,
            },
        );
        if let Some(limits) = &mut self.limits {
            limits.watched.add(path, chunk);
        }
    }

    /// Returns the first chunk in the ring of the message to which this chunk belongs.
    fn first_of_message(&self, seq: Seq) -> Option<Seq> {
        let key = message_key(&self.slot(seq)?.fragment);
        let mut first = seq;
        for earlier in (self.base..=seq).rev() {
            let fragment = &self.slot(earlier)?.fragment;
            if message_key(fragment) != key {
                continue;
            }
            first = earlier;
            if fragment.begin {
                break;
            }
        }
        Some(first)
    }

    /// Ends a message of which a part was sent and the rest is given up, with a chunk that is never sent: its TSN ends the message.
    pub(crate) fn end_given_up(&mut self, last: Fragment, path: crate::PathId, now: Time) {
        let seq = self.push(last, path, now);
        self.limit_last(Limit::Reached);
        if let Some(sequences) = &mut self.sequences {
            sequences.on_given_up((seq - self.base) as usize, path.0);
        }
        self.take_out_of_flight(seq, Fate::Acked);
        if let Some(slot) = self.slot_mut(seq) {
            slot.credited = true;
        }
        self.advance_earliest(path.0.into());
    }

    /// Returns the position below which the peer need not wait for anything: Advanced.Peer.Ack.Point, plus one (RFC 3758 §3.5 C1, C2).
    // [3758:3.5-7]
    pub(crate) fn forward_to(&mut self) -> Seq {
        let base = self.base;
        let Some(limits) = &mut self.limits else { return base };
        let mut to = limits.forward_to.max(base);
        while limits.chunks.get((to - base) as usize) == Some(&Limit::Reached) {
            to += 1;
        }
        limits.forward_to = to;
        to
    }

    /// Appends the streams whose messages below a position are given up, as many as have room (RFC 3758 §3.5 C4). Returns the TSN of the
    /// FORWARD TSN; if not all streams have room, that of the last message before.
    // [3758:3.2-3, 3.2-4, 3.5-10, 3.5-11, 3.5-12, 3.5-13]
    pub(crate) fn write_forward(&self, to: Seq, room: usize, list: &mut Vec<u8>) -> Tsn {
        let mut entries: Vec<SkippedStream> = Vec::new();
        let mut last = to;
        let settled = self.limits.as_ref().map_or(0, |limits| limits.settled);
        for seq in self.base.max(settled)..to {
            let Some(fragment) = self.slot(seq).map(|slot| &slot.fragment) else {
                break;
            };
            // FORWARD TSN does not list unordered messages, I-FORWARD-TSN does (RFC 8260 §2.3.1).
            if fragment.unordered && !self.interleaves() {
                continue;
            }
            let entry = SkippedStream {
                stream: fragment.stream,
                unordered: fragment.unordered,
                number: self.number_of(fragment),
            };
            let is_same =
                |known: &&mut SkippedStream| (known.stream, known.unordered) == (entry.stream, entry.unordered);
            let has_room = SkippedStreams::entry_len(self.interleaves()) * (entries.len() + 1) <= room;
            match entries.iter_mut().find(is_same) {
                // The messages of a stream and order follow each other.
                Some(known) => known.number = entry.number,
                None if !has_room => {
                    last = seq;
                    break;
                }
                None => entries.push(entry),
            }
        }
        for entry in entries {
            SkippedStreams::append(list, entry);
        }
        self.tsn(last.wrapping_sub(1))
    }
}

/// Returns what chunks of a message have in common. All unordered messages of a stream have it in common if they are not interleaved, but the
/// chunks of each follow each other, from its first to its last.
fn message_key(fragment: &Fragment) -> (u16, bool, u32) {
    (fragment.stream, fragment.unordered, fragment.number)
}
