//! Messages that wait for their first transmission, their order, and their fragmentation into DATA or I-DATA chunks.
//!
//! | file | content |
//! |---|---|
//! | `lane.rs`, `run.rs` | a first-in, first-out queue of messages |
//! | `lanes.rs` | one lane for all streams, or one for each |
//! | `schedule.rs` | the order of the streams (RFC 8260 §3) |
//! | `numbers.rs` | stream sequence numbers and message identifiers |
//! | `limit.rs` | when a message is given up |
//! | `fragment.rs` | what is cut from a message for a chunk |

mod fragment;
mod lane;
mod lanes;
mod limit;
mod numbers;
mod run;
mod schedule;
#[cfg(test)]
mod tests;

use whimbrel_control::Time;

use crate::config::Scheduler;
use crate::message::Message;
pub(crate) use fragment::Fragment;
use lanes::Lanes;
pub(crate) use limit::Limit;
use numbers::Numbers;

/// The messages that wait. The scheduler chooses the next one. Without interleaving, all fragments of a message get consecutive TSNs (RFC
/// 9260 §6.9). With interleaving and a scheduler other than first come, fragments of messages of different streams alternate, but of each
/// stream only one message is begun at a time.
#[derive(Debug)]
pub(crate) struct SendQueue {
    lanes: Lanes,
    numbers: Numbers,
    /// Number of messages.
    messages: u32,
    /// User data of the messages, without what was taken.
    bytes: usize,
    /// Length up to which the bytes left of a message count for the send buffer.
    counted_len: usize,
    /// Bytes that do not count, because they are beyond that length of their messages.
    uncounted: usize,
    /// Some messages in the queue may be given up.
    has_limits: bool,
}

impl SendQueue {
    /// Returns an empty queue of messages that are not interleaved. `counted_len`: the bytes left of a message beyond this length do not count
    /// for the send buffer.
    pub(crate) fn new(scheduler: Scheduler, counted_len: usize) -> Self {
        SendQueue {
            lanes: Lanes::new(scheduler),
            numbers: Numbers::new(false),
            messages: 0,
            bytes: 0,
            counted_len,
            uncounted: 0,
            has_limits: false,
        }
    }

    /// Sets the priority (0 is the highest) or the weight of a stream. The other schedulers do not use it.
    pub(crate) fn set_value(&mut self, stream: u16, value: u16) {
        self.lanes.set_value(stream, value);
    }

    /// Sets whether messages are interleaved. If that changes, nothing has been taken yet: no data goes with the COOKIE ECHO of an end that may
    /// interleave.
    pub(crate) fn interleave(&mut self, is_interleaved: bool) {
        // After a collision of INITs, the ends agree once more although data is under way (RFC 9260 §5.2.4 B).
        if self.numbers.are_interleaved() != is_interleaved {
            self.numbers = Numbers::new(is_interleaved);
            self.lanes.interleave(is_interleaved);
        }
    }

    /// Returns whether no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Returns the number of messages waiting, including those that are partly sent.
    pub(crate) fn len(&self) -> usize {
        self.messages as usize
    }

    /// Returns the bytes of user data waiting.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes waiting that count for the send buffer.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.bytes - self.uncounted
    }

    /// Of a message, this number of bytes are left instead of another number.
    #[inline]
    fn recount(&mut self, before: usize, after: usize) {
        self.bytes = self.bytes + after - before;
        let uncounted = |left: usize| left.saturating_sub(self.counted_len);
        self.uncounted = self.uncounted + uncounted(after) - uncounted(before);
    }

    #[inline]
    pub(crate) fn push(&mut self, message: Message, now: Time) {
        let limit = Limit::of(message.reliability, now);
        self.has_limits |= limit != Limit::Never;
        self.recount(0, message.len());
        self.messages += 1;
        self.lanes.push(message, limit);
    }

    /// Returns the bytes left of the next message. With round robin by packet, there may be none until the packet ends, although messages of
    /// other streams wait.
    #[inline]
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.lanes.next()?.next_len()
    }

    /// Returns the stream of the next message.
    pub(crate) fn next_stream(&self) -> Option<u16> {
        self.lanes.next()?.next_stream()
    }

    /// Returns the stream of the next message, if the message is ordered and no part of it has been sent.
    pub(crate) fn next_ordered(&self) -> Option<u16> {
        self.lanes.next()?.next_ordered()
    }

    /// Returns when the next message is given up.
    #[inline]
    pub(crate) fn next_limit(&self) -> Limit {
        if !self.has_limits {
            return Limit::Never;
        }
        self.lanes.next().map_or(Limit::Never, |lane| lane.next_limit())
    }

    /// Returns whether a part of the next message has been sent.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.lanes.next().is_some_and(|lane| lane.is_begun())
    }

    /// Cuts the next `len` bytes off the next message. `len` is at least 1 and at most [`SendQueue::next_len`].
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<Fragment> {
        // Before: the fragment is passed on without a copy.
        let left = self.next_len()?;
        self.recount(left, left.saturating_sub(len));
        let is_last = len >= left;
        if is_last {
            self.on_message_gone();
        }
        self.lanes.take(len, is_last, &mut self.numbers)
    }

    /// The packet being filled is complete: the next chunk is put into another one.
    #[inline]
    pub(crate) fn end_packet(&mut self) {
        self.lanes.end_packet();
    }

    fn on_message_gone(&mut self) {
        self.messages -= 1;
        self.has_limits &= self.messages > 0;
    }

    /// Returns whether a message may be given up.
    #[inline]
    pub(crate) fn has_limits(&self) -> bool {
        self.has_limits
    }

    /// Removes what is left of the next message. Returns the message, and the numbers of its last fragment if a part of it has been sent.
    pub(crate) fn drop_next(&mut self) -> Option<(Message, Option<Fragment>)> {
        let left = self.next_len()?;
        let dropped = self.lanes.drop_next(&mut self.numbers)?;
        self.recount(left, 0);
        self.on_message_gone();
        Some(dropped)
    }

    /// Returns the bytes left of the message of this stream of which a part has been sent, 0 if there is none.
    pub(crate) fn rest_len(&self, stream: u16) -> usize {
        let lane = self.lanes.begun(stream);
        lane.and_then(|lane| lane.next_len()).unwrap_or(0)
    }

    /// Removes what is left of the message of this stream of which a part has been sent. Returns the numbers of its last fragment.
    pub(crate) fn drop_rest(&mut self, stream: u16) -> Option<Fragment> {
        let left = self.lanes.begun(stream)?.next_len()?;
        let last = self.lanes.drop_rest(stream, &mut self.numbers)?;
        self.recount(left, 0);
        self.on_message_gone();
        Some(last)
    }

    /// Removes the last message that gives way to one with this limit, of those with the largest number, if no part of it has been sent and
    /// its number is at least `least`.
    pub(crate) fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        let message = self.lanes.drop_for(limit, least)?;
        self.messages -= 1;
        self.recount(message.len(), 0);
        Some(message)
    }

    /// Returns how many bytes and messages would give way to a message with this limit, besides those of which a part has been sent.
    pub(crate) fn yields(&self, limit: Limit) -> (usize, usize) {
        self.lanes.yields(limit)
    }

    /// Removes all messages, as the association restarted or ended. Calls `each` with each message, and whether a part
    /// of it was sent. Numbers start at 0 again; the values of streams and interleaving remain.
    pub(crate) fn clear(&mut self, each: impl FnMut(&Message, bool)) {
        self.lanes.clear(each);
        self.numbers.clear();
        (self.messages, self.bytes, self.uncounted) = (0, 0, 0);
        self.has_limits = false;
    }

    /// Drops the messages for the streams from `from` on, except those of which a part was sent. Calls `each` with each
    /// message dropped.
    pub(crate) fn drop_streams(&mut self, from: u16, mut each: impl FnMut(&Message)) {
        let mut dropped = Vec::new();
        self.lanes.drop_streams(from, |message| {
            dropped.push(message.len());
            each(message);
        });
        self.messages -= dropped.len() as u32;
        dropped.into_iter().for_each(|len| self.recount(len, 0));
    }

    /// Frees memory that is not in use.
    pub(crate) fn release_memory(&mut self) {
        self.lanes.release_memory();
    }

    /// Returns the bytes that this queue has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.lanes.heap_bytes() + self.numbers.heap_bytes()
    }
}
