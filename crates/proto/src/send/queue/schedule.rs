//! The order in which streams with waiting messages send (RFC 8260 §3).
//!
//! Each stream that waits has a place: its rank, and among equals its turn. The lowest place is first. The rank is the priority of the
//! stream, or with fair shares its start tag, and otherwise 0. The turn grows with every place that is given.
//!
//! Fair shares are those of start-time fair queueing (Goyal, Vin, Cheng 1997). The next chunk of a stream gets a start tag, the finish tag
//! of its chunk before; a finish tag is the start tag plus the bytes of user data over the weight. The virtual time is the start tag of the
//! chunk that was taken last. A stream that starts to wait gets at least the virtual time: it has no credit for the time it was idle.
//!
//! With interleaving, a receiver keeps state for each message that has been begun. The number of those is bounded: once it is reached, a
//! stream whose next message needs several chunks is held back, and keeps its place, until another message has ended.

use std::collections::{BTreeMap, BTreeSet};

use crate::config::Scheduler;

/// Length in tags of one byte with weight 1. With the largest weight, the tags of chunks of one byte are exact to 0.4 %.
const TAGS_PER_BYTE: u64 = 1 << 24;
/// Once a tag is larger, all tags are lowered by the virtual time. The tags of streams are within one message (2^32 bytes, 2^56 tags) of it.
const MAX_TAG: u64 = 1 << 62;

/// The place of a stream in the order. The lowest one is first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    rank: u64,
    turn: u64,
    pub(super) stream: u16,
}

/// A stream that has been used or has a value.
#[derive(Debug, Default)]
struct Share {
    /// Priority or weight.
    value: u16,
    /// Finish tag of its chunk that was taken last.
    finish: u64,
    /// Present while messages of the stream wait.
    place: Option<Place>,
    /// The place is in `held_back`.
    is_held_back: bool,
    /// With interleaving: a part of its next message has been taken.
    is_begun: bool,
}

/// The order of streams.
#[derive(Debug)]
pub(super) struct Schedule {
    scheduler: Scheduler,
    is_interleaved: bool,
    shares: BTreeMap<u16, Share>,
    order: BTreeSet<Place>,
    /// Places of streams that may not begin a message while too many are begun.
    held_back: BTreeSet<Place>,
    /// With interleaving: the number of messages that are begun, and the most that may be.
    begun_messages: usize,
    most_begun: usize,
    /// The turn given last.
    turn: u64,
    virtual_time: u64,
    /// The highest finish tag.
    last_finish: u64,
    /// Without interleaving: the stream whose message has been begun. The rest follows at once (RFC 9260 §6.9).
    begun: Option<u16>,
    /// With round robin by packet: the stream of the packet that is being filled.
    of_packet: Option<u16>,
}

impl Schedule {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Schedule {
            scheduler,
            is_interleaved: false,
            shares: BTreeMap::new(),
            order: BTreeSet::new(),
            held_back: BTreeSet::new(),
            begun_messages: 0,
            most_begun: usize::MAX,
            turn: 0,
            virtual_time: 0,
            last_finish: 0,
            begun: None,
            of_packet: None,
        }
    }

    pub(super) fn interleave(&mut self, is_interleaved: bool) {
        self.is_interleaved = is_interleaved;
    }

    /// Bounds the messages that are begun at a time with interleaving.
    pub(super) fn limit_begun(&mut self, most: usize) {
        self.most_begun = most;
    }

    /// Returns the stream that sends next. With round robin by packet, it is the stream of the packet, even if nothing of it waits.
    #[inline]
    pub(super) fn next(&self) -> Option<u16> {
        let held = self.begun.or(self.of_packet);
        held.or_else(|| {
            let first = self.order.first();
            let first = if self.may_begin() && !self.held_back.is_empty() {
                first.into_iter().chain(self.held_back.first()).min()
            } else {
                first
            };
            first.map(|place| place.stream)
        })
    }

    /// Returns whether one more message may be begun.
    #[inline]
    pub(super) fn may_begin(&self) -> bool {
        self.begun_messages < self.most_begun
    }

    /// The next message of the stream, which is the next one, may not be begun yet.
    pub(super) fn hold_back(&mut self, stream: u16) {
        self.of_packet = None;
        if let Some(share) = self.shares.get_mut(&stream)
            && let Some(place) = share.place
        {
            share.is_held_back = true;
            self.order.remove(&place);
            self.held_back.insert(place);
        }
    }

    /// Holds back no stream.
    pub(super) fn release(&mut self) {
        self.order.append(&mut self.held_back);
        for share in self.shares.values_mut() {
            share.is_held_back = false;
        }
    }

    /// Returns the places of the streams with waiting messages, in any order.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.order.iter().chain(&self.held_back).copied()
    }

    /// Sets the priority or weight of a stream. A weight counts from the next chunk on.
    pub(super) fn set_value(&mut self, stream: u16, value: u16) {
        let share = self.shares.entry(stream).or_default();
        share.value = value;
        if self.scheduler == Scheduler::Priority
            && let Some(place) = &mut share.place
        {
            // It keeps its turn: among its new equals, the stream that has waited longest is first.
            let places = if share.is_held_back {
                &mut self.held_back
            } else {
                &mut self.order
            };
            places.remove(place);
            place.rank = u64::from(value);
            places.insert(*place);
        }
    }

    /// Messages of the stream wait now.
    pub(super) fn on_waiting(&mut self, stream: u16) {
        if self.shares.get(&stream).is_none_or(|share| share.place.is_none()) {
            self.give_place(stream);
        }
    }

    /// A chunk with this user data has been taken. `ends`: it ends its message; `is_empty`: no message of the stream waits any more.
    pub(super) fn on_taken(&mut self, stream: u16, len: usize, ends: bool, is_empty: bool) {
        let ends_turn = ends || self.is_interleaved;
        self.begun = (!ends_turn).then_some(stream);
        self.set_begun(stream, !ends);
        if self.is_fair() {
            self.charge(stream, len);
        }
        let by_packet = self.scheduler == Scheduler::RoundRobinPacket;
        if by_packet {
            self.of_packet = Some(stream);
        }
        if is_empty {
            self.take_place(stream);
        } else if ends_turn && !by_packet {
            self.give_place(stream);
        }
    }

    /// A message has been dropped. `was_begun`: a part of it had been taken; `is_empty`: no message of the stream waits any more.
    pub(super) fn on_dropped(&mut self, stream: u16, was_begun: bool, is_empty: bool) {
        // The rest of the message was to follow at once.
        let was_next = was_begun && !self.is_interleaved;
        if was_next {
            self.begun = None;
        }
        if was_begun {
            self.set_begun(stream, false);
        }
        if is_empty {
            self.take_place(stream);
        } else if let Some(share) = self.shares.get_mut(&stream)
            && core::mem::take(&mut share.is_held_back)
            && let Some(place) = share.place
        {
            // Its next message may be short.
            self.held_back.remove(&place);
            self.order.insert(place);
        } else if was_next && self.scheduler != Scheduler::RoundRobinPacket {
            self.give_place(stream);
        }
    }

    /// The packet is full.
    pub(super) fn end_packet(&mut self) {
        if let Some(stream) = self.of_packet.take()
            && self.shares.get(&stream).is_some_and(|share| share.place.is_some())
        {
            self.give_place(stream);
        }
    }

    /// Notes whether a message of the stream is begun.
    fn set_begun(&mut self, stream: u16, is_begun: bool) {
        if self.is_interleaved
            && let Some(share) = self.shares.get_mut(&stream)
            && share.is_begun != is_begun
        {
            share.is_begun = is_begun;
            if is_begun {
                self.begun_messages += 1;
            } else {
                self.begun_messages -= 1;
            }
        }
    }

    fn is_fair(&self) -> bool {
        matches!(self.scheduler, Scheduler::FairCapacity | Scheduler::WeightedFair)
    }

    /// Puts a stream behind its equals.
    fn give_place(&mut self, stream: u16) {
        let share = self.shares.entry(stream).or_default();
        let rank = match self.scheduler {
            Scheduler::Priority => u64::from(share.value),
            Scheduler::FairCapacity | Scheduler::WeightedFair => share.finish.max(self.virtual_time),
            Scheduler::FirstCome | Scheduler::RoundRobin | Scheduler::RoundRobinPacket => 0,
        };
        self.turn += 1;
        let place = Place {
            rank,
            turn: self.turn,
            stream,
        };
        if let Some(old) = share.place.replace(place) {
            if core::mem::take(&mut share.is_held_back) {
                self.held_back.remove(&old);
            } else {
                self.order.remove(&old);
            }
        }
        self.order.insert(place);
    }

    fn take_place(&mut self, stream: u16) {
        if let Some(share) = self.shares.get_mut(&stream)
            && let Some(place) = share.place.take()
        {
            if core::mem::take(&mut share.is_held_back) {
                self.held_back.remove(&place);
            } else {
                self.order.remove(&place);
            }
        }
        if self.order.is_empty() && self.held_back.is_empty() {
            // All streams start equal after an idle period.
            self.virtual_time = self.last_finish;
        }
    }

    /// Charges a stream for bytes of user data.
    // [8260:3-1]
    fn charge(&mut self, stream: u16, len: usize) {
        let Some(share) = self.shares.get_mut(&stream) else {
            return;
        };
        let Some(place) = share.place else { return };
        let weight = match self.scheduler {
            Scheduler::WeightedFair => u64::from(share.value.max(1)),
            _ => 1,
        };
        // Without interleaving, the start tag is that of the message, and the finish tag grows with each of its chunks.
        self.virtual_time = self.virtual_time.max(place.rank);
        share.finish = share.finish.max(place.rank) + len as u64 * TAGS_PER_BYTE / weight;
        self.last_finish = self.last_finish.max(share.finish);
        if self.last_finish > MAX_TAG {
            self.lower_tags();
        }
    }

    /// Lowers all tags by the virtual time. No stream that waits has a lower tag.
    #[cold]
    fn lower_tags(&mut self) {
        let by = std::mem::take(&mut self.virtual_time);
        self.last_finish = self.last_finish.saturating_sub(by);
        self.order.clear();
        self.held_back.clear();
        for share in self.shares.values_mut() {
            share.finish = share.finish.saturating_sub(by);
            if let Some(place) = &mut share.place {
                place.rank = place.rank.saturating_sub(by);
                let places = if share.is_held_back {
                    &mut self.held_back
                } else {
                    &mut self.order
                };
                places.insert(*place);
            }
        }
    }

    /// No message waits any more, and no packet is being filled. The values of streams remain.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        self.held_back.clear();
        (self.begun, self.of_packet) = (None, None);
        self.begun_messages = 0;
        for share in self.shares.values_mut() {
            (share.place, share.is_held_back, share.is_begun) = (None, false, false);
        }
        self.release_memory();
    }

    /// Frees memory that is not in use.
    pub(super) fn release_memory(&mut self) {
        if self.order.is_empty() && self.held_back.is_empty() {
            (self.virtual_time, self.last_finish) = (0, 0);
            for share in self.shares.values_mut() {
                share.finish = 0;
            }
        }
        let now = self.virtual_time;
        self.shares
            .retain(|_, share| share.value != 0 || share.place.is_some() || share.finish > now);
    }

    /// Returns the allocated bytes, as if the nodes of trees were full.
    pub(super) fn heap_bytes(&self) -> usize {
        self.shares.len() * size_of::<(u16, Share)>() + (self.order.len() + self.held_back.len()) * size_of::<Place>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves two streams by turns with chunks of these lengths, and returns the order.
    fn serve(schedule: &mut Schedule, count: usize) -> Vec<u16> {
        let mut served = Vec::new();
        for _ in 0..count {
            let stream = schedule.next().unwrap();
            schedule.on_taken(stream, 1000 + usize::from(stream), true, false);
            served.push(stream);
        }
        served
    }

    #[test]
    fn tags_that_are_too_large_are_lowered_and_the_order_stays() {
        let start = |virtual_time| {
            let mut schedule = Schedule::new(Scheduler::WeightedFair);
            (schedule.virtual_time, schedule.last_finish) = (virtual_time, virtual_time);
            for stream in 1..=4 {
                schedule.set_value(stream, stream);
                schedule.on_waiting(stream);
            }
            schedule
        };
        let mut low = start(0);
        let mut high = start(MAX_TAG - 50_000 * TAGS_PER_BYTE);
        assert_eq!(serve(&mut low, 500), serve(&mut high, 500));
        assert!(high.last_finish < MAX_TAG / 2, "the tags have been lowered");
        // The longest message of all.
        low.on_taken(1, u32::MAX as usize, true, false);
        let before = low.shares[&1].finish;
        assert!(before < 1 << 57);
        assert!(!serve(&mut low, 500).contains(&1));
    }
}
