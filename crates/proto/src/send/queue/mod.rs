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

mod buffered;
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
pub(crate) use buffered::Buffered;
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
    /// The messages, without what was taken.
    held: Buffered,
    /// A message of more bytes is long.
    long: u32,
    /// Some messages in the queue may be given up.
    has_limits: bool,
}

impl SendQueue {
    /// Returns an empty queue of messages that are not interleaved. A message of more than `long` bytes is long.
    pub(crate) fn new(scheduler: Scheduler, long: u32) -> Self {
        SendQueue {
            lanes: Lanes::new(scheduler),
            numbers: Numbers::new(false),
            held: Buffered::default(),
            long,
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

    /// Bounds the messages that are begun at a time, if they are interleaved. Those that fit into one chunk do not count.
    pub(crate) fn limit_begun(&mut self, most: usize) {
        self.lanes.limit_begun(most);
    }

    /// A message of more bytes than this needs several chunks.
    pub(crate) fn limit_chunks(&mut self, max: u16) {
        self.lanes.limit_chunks(usize::from(max));
    }

    /// Returns whether no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.count == 0
    }

    /// Returns the bytes of user data waiting.
    pub(crate) fn bytes(&self) -> usize {
        self.held.bytes
    }

    /// Returns the messages waiting, without what was taken.
    pub(crate) fn held(&self) -> Buffered {
        self.held
    }

    #[inline]
    pub(crate) fn push(&mut self, message: Message, now: Time) {
        let limit = Limit::of(message.reliability, now);
        self.has_limits |= limit != Limit::Never;
        let is_long = self.is_long(&message);
        self.held += Buffered::one(message.len(), is_long);
        self.lanes.push(message, limit, is_long);
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
        let lane = self.lanes.next()?;
        let (left, is_long) = (lane.next_len()?, lane.next_is_long());
        let is_last = len >= left;
        if is_last {
            self.on_gone(Buffered::one(left, is_long));
        } else {
            self.held -= Buffered::of(len, is_long);
        }
        self.lanes.take(len, is_last, &mut self.numbers)
    }

    /// The packet being filled is complete: the next chunk is put into another one.
    #[inline]
    pub(crate) fn end_packet(&mut self) {
        self.lanes.end_packet();
    }

    #[inline]
    fn is_long(&self, message: &Message) -> bool {
        message.len() > self.long as usize
    }

    #[inline]
    fn on_gone(&mut self, last: Buffered) {
        self.held -= last;
        self.has_limits &= self.held.count > 0;
    }

    /// Returns whether a message may be given up.
    #[inline]
    pub(crate) fn has_limits(&self) -> bool {
        self.has_limits
    }

    /// Removes what is left of the next message. Returns the message, and the numbers of its last fragment if a part of it has been sent.
    pub(crate) fn drop_next(&mut self) -> Option<(Message, Option<Fragment>)> {
        let rest = self.lanes.next()?.next_rest()?;
        let dropped = self.lanes.drop_next(&mut self.numbers)?;
        self.on_gone(rest);
        Some(dropped)
    }

    /// Returns what is left of the message of this stream of which a part has been sent, nothing if there is none.
    pub(crate) fn rest(&self, stream: u16) -> Buffered {
        let lane = self.lanes.begun(stream);
        lane.and_then(|lane| lane.next_rest()).unwrap_or_default()
    }

    /// Removes what is left of the message of this stream of which a part has been sent. Returns the numbers of its last fragment.
    pub(crate) fn drop_rest(&mut self, stream: u16) -> Option<Fragment> {
        let rest = self.lanes.begun(stream)?.next_rest()?;
        let last = self.lanes.drop_rest(stream, &mut self.numbers)?;
        self.on_gone(rest);
        Some(last)
    }

    /// Removes the last message that gives way to one with this limit, of those with the largest number, if no part of it has been sent and
    /// its number is at least `least`.
    pub(crate) fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        let message = self.lanes.drop_for(limit, least)?;
        self.held -= Buffered::one(message.len(), self.is_long(&message));
        Some(message)
    }

    /// Returns what would give way to a message with this limit, besides the messages of which a part has been sent.
    pub(crate) fn yields(&self, limit: Limit) -> Buffered {
        self.lanes.yields(limit)
    }

    /// Removes all messages, as the association restarted or ended. Calls `each` with each message, and whether a part
    /// of it was sent. Numbers start at 0 again; the values of streams and interleaving remain.
    pub(crate) fn clear(&mut self, each: impl FnMut(&Message, bool)) {
        self.lanes.clear(each);
        self.numbers.clear();
        self.held = Buffered::default();
        self.has_limits = false;
    }

    /// Drops the messages for the streams from `from` on, except those of which a part was sent. Calls `each` with each
    /// message dropped.
    pub(crate) fn drop_streams(&mut self, from: u16, mut each: impl FnMut(&Message)) {
        let (mut dropped, long) = (Buffered::default(), self.long);
        self.lanes.drop_streams(from, |message| {
            dropped += Buffered::one(message.len(), message.len() > long as usize);
            each(message);
        });
        self.held -= dropped;
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
