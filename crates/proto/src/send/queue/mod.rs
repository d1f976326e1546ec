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
//! | `kept.rs` | messages of streams that are about to be reset |

mod buffered;
mod fragment;
mod kept;
mod lane;
mod lanes;
mod limit;
mod numbers;
mod run;
mod schedule;
#[cfg(test)]
mod tests;

use whimbrel_control::{Seq, Time};

use crate::config::NEVER;
use crate::config::Scheduler;
use crate::message::Message;
use crate::streams::StreamList;
pub(crate) use buffered::Buffered;
pub(crate) use fragment::Fragment;
use kept::KeptBack;
use lane::Lane;
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
    /// The messages in the lanes, without what was taken.
    held: Buffered,
    /// Present only while streams are about to be reset.
    kept: Option<Box<KeptBack>>,
    /// Present only while there are messages of the association itself, or while those of the user wait.
    own: Option<Box<Own>>,
    /// A message of more bytes is long.
    long: u32,
    /// Some messages in the queue may be given up.
    has_limits: bool,
}

/// Messages of the association itself, on stream 0, which go before those of the user.
#[derive(Debug, Default)]
struct Own {
    lane: Lane,
    /// The messages of the user wait.
    holds_back: bool,
}

impl SendQueue {
    /// Returns an empty queue of messages that are not interleaved. A message of more than `long` bytes is long.
    pub(crate) fn new(scheduler: Scheduler, long: u32) -> Self {
        SendQueue {
            lanes: Lanes::new(scheduler),
            numbers: Numbers::new(false),
            held: Buffered::default(),
            kept: None,
            own: None,
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

    /// Returns whether no message waits to be sent. Others may be kept back.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        match &self.own {
            None => self.held.count == 0,
            Some(own) => own.lane.is_empty() && (own.holds_back || self.held.count == 0),
        }
    }

    /// Returns whether messages are kept back.
    pub(crate) fn keeps_back(&self) -> bool {
        let is_held_back = self.holds_back() && self.held.count > 0;
        is_held_back || self.kept.as_ref().is_some_and(|kept| kept.held().count > 0)
    }

    /// Sets whether the messages of the user wait. Returns whether that has changed.
    pub(crate) fn hold_back(&mut self, holds_back: bool) -> bool {
        if self.holds_back() == holds_back {
            return false;
        }
        self.own.get_or_insert_default().holds_back = holds_back;
        self.release_own();
        true
    }

    /// Queues a message of the association itself on stream 0. It does not count for the send buffer.
    pub(crate) fn push_own(&mut self, message: Message) {
        let own = self.own.get_or_insert_default();
        own.lane.push(message, Limit::Never, false);
    }

    /// Returns whether all messages of the association itself have been sent.
    pub(crate) fn has_sent_own(&self) -> bool {
        self.own.as_ref().is_none_or(|own| own.lane.is_empty())
    }

    fn release_own(&mut self) {
        self.own.take_if(|own| own.lane.is_empty() && !own.holds_back);
    }

    /// Returns whether the messages of the user wait.
    pub(crate) fn holds_back(&self) -> bool {
        self.own.as_ref().is_some_and(|own| own.holds_back)
    }

    /// Returns whether the next message is one of the association itself: a message of the user that has been begun is finished before.
    fn is_own_next(&self) -> bool {
        let Some(own) = self.own.as_ref().filter(|own| !own.lane.is_empty()) else {
            return false;
        };
        let is_busy = || self.lanes.next().is_some_and(Lane::is_begun) || self.lanes.begun(0).is_some();
        own.lane.is_begun() || own.holds_back || !is_busy()
    }

    /// Returns the lane of the next message.
    #[inline]
    fn next_lane(&self) -> Option<&Lane> {
        match &self.own {
            None => self.lanes.next(),
            Some(own) => self.next_of_two(own),
        }
    }

    #[inline(never)]
    fn next_of_two<'a>(&'a self, own: &'a Own) -> Option<&'a Lane> {
        if self.is_own_next() {
            return Some(&own.lane);
        }
        self.lanes.next().filter(|_| !own.holds_back)
    }

    #[inline(never)]
    fn take_own(&mut self, len: usize) -> Option<Fragment> {
        let lane = &mut self.own.as_mut()?.lane;
        let fragment = lane.take(len, len >= lane.next_len()?, &mut self.numbers);
        self.release_own();
        fragment
    }

    /// Returns the bytes of user data waiting to be sent, of the messages of the association itself those of the next one.
    pub(crate) fn bytes(&self) -> usize {
        let own = self.own.as_ref().and_then(|own| own.lane.next_len());
        let held = if self.holds_back() { 0 } else { self.held.bytes };
        held + own.unwrap_or(0)
    }

    /// Returns all messages, without what was taken.
    pub(crate) fn held(&self) -> Buffered {
        match &self.kept {
            None => self.held,
            Some(kept) => self.held + kept.held(),
        }
    }

    /// Keeps back further messages of these streams, which are about to be reset (RFC 6525 §5.1.2 A1).
    pub(crate) fn keep_back(&mut self, streams: StreamList) {
        let before = self.lanes.count(&streams);
        self.kept.get_or_insert_default().add(streams, before);
    }

    /// Returns whether one of these streams is about to be reset.
    pub(crate) fn is_kept_back(&self, streams: &StreamList) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.overlaps(streams))
    }

    /// Returns whether all messages of these streams that are not kept back have been taken.
    pub(crate) fn are_drained(&self, streams: &StreamList) -> bool {
        self.kept.as_ref().is_some_and(|kept| kept.are_drained(streams))
    }

    /// The request to reset these streams is sent. `first_after`: the position of the next TSN.
    pub(crate) fn on_reset_requested(&mut self, streams: &StreamList, first_after: Seq) {
        if let Some(kept) = &mut self.kept {
            kept.on_requested(streams, first_after);
        }
    }

    /// Returns the position behind the last TSN that the outstanding request to reset streams names.
    pub(crate) fn first_after_reset(&self) -> Option<Seq> {
        self.kept.as_ref()?.first_after()
    }

    /// Ends the reset of these streams. If it `is_done`, their numbers start at 0 again. The messages that were kept back are queued.
    pub(crate) fn end_reset(&mut self, streams: &StreamList, is_done: bool) {
        let Some(kept) = &mut self.kept else { return };
        let later = kept.take(streams);
        if kept.is_empty() {
            self.kept = None;
        }
        if is_done {
            self.numbers.reset(streams);
        }
        for (message, limit, held) in later {
            self.held += held;
            self.lanes.push(message, limit, held.long > 0);
        }
    }

    /// Returns whether the next numbered messages of these streams have the number 0. Unordered messages in DATA chunks have none.
    pub(crate) fn are_fresh(&self, streams: &StreamList) -> bool {
        self.numbers.are_fresh(streams)
    }

    #[inline]
    pub(crate) fn push(&mut self, message: Message, now: Time) {
        let limit = Limit::of(message.reliability, now);
        self.has_limits |= limit != Limit::Never;
        let is_long = self.is_long(&message);
        let held = Buffered::one(message.len(), is_long);
        let message = match &mut self.kept {
            None => message,
            Some(kept) => match kept.keep(message, limit, held) {
                None => return,
                Some(message) => message,
            },
        };
        self.held += held;
        self.lanes.push(message, limit, is_long);
    }

    /// Returns the bytes left of the next message. With round robin by packet, there may be none until the packet ends, although messages of
    /// other streams wait.
    #[inline]
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.next_lane()?.next_len()
    }

    /// Returns the stream of the next message.
    pub(crate) fn next_stream(&self) -> Option<u16> {
        self.next_lane()?.next_stream()
    }

    /// Returns the stream of the next message, if the message is ordered and no part of it has been sent.
    pub(crate) fn next_ordered(&self) -> Option<u16> {
        self.next_lane()?.next_ordered()
    }

    /// Returns when the next message is given up.
    #[inline]
    pub(crate) fn next_limit(&self) -> Limit {
        if !self.has_limits {
            return Limit::Never;
        }
        self.next_lane().map_or(Limit::Never, |lane| lane.next_limit())
    }

    /// Returns whether a part of the next message has been sent.
    #[inline]
    pub(crate) fn is_begun(&self) -> bool {
        self.next_lane().is_some_and(|lane| lane.is_begun())
    }

    /// Cuts the next `len` bytes off the next message. `len` is at least 1 and at most [`SendQueue::next_len`].
    #[inline]
    pub(crate) fn take(&mut self, len: usize) -> Option<Fragment> {
        if self.own.is_some() && self.is_own_next() {
            return self.take_own(len);
        }
        // Before: the fragment is passed on without a copy.
        let lane = self.lanes.next()?;
        let (left, is_long) = (lane.next_len()?, lane.next_is_long());
        let is_last = len >= left;
        if is_last {
            let stream = lane.next_stream()?;
            self.on_gone(stream, Buffered::one(left, is_long));
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
    fn on_gone(&mut self, stream: u16, last: Buffered) {
        self.held -= last;
        self.has_limits &= self.held.count > 0 || self.kept.is_some();
        if let Some(kept) = &mut self.kept {
            kept.on_gone(stream);
        }
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
        self.on_gone(dropped.0.stream, rest);
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
        self.on_gone(stream, rest);
        Some(last)
    }

    /// Removes the last message that gives way to one with this limit, of those with the largest number, if no part of it has been sent and
    /// its number is at least `least`.
    pub(crate) fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        // Of those with the same number, what is kept back would be sent last.
        let kept = self.kept.as_ref().and_then(|kept| kept.last_for(limit, least));
        let beyond = match kept {
            None => Some(least),
            Some((number, _)) => number.checked_add(1),
        };
        let Some(message) = beyond.and_then(|beyond| self.lanes.drop_for(limit, beyond)) else {
            let (_, place) = kept?;
            return self.kept.as_mut()?.drop_at(place);
        };
        self.held -= Buffered::one(message.len(), self.is_long(&message));
        if let Some(kept) = &mut self.kept {
            kept.on_gone(message.stream);
        }
        Some(message)
    }

    /// Returns what would give way to a message with this limit, besides the messages of which a part has been sent.
    pub(crate) fn yields(&self, limit: Limit) -> Buffered {
        let kept = self
            .kept
            .as_ref()
            .map_or_else(Buffered::default, |kept| kept.yields(limit));
        self.lanes.yields(limit) + kept
    }

    /// Returns when a message that is kept back has to be given up, or earlier.
    #[inline]
    pub(crate) fn kept_expiry(&self) -> Time {
        self.kept.as_ref().map_or(NEVER, |kept| kept.first_expiry())
    }

    /// Removes the messages that are kept back and whose lifetime is over. Calls `each` with each of them.
    pub(crate) fn drop_expired_kept(&mut self, now: Time, each: impl FnMut(&Message)) {
        if let Some(kept) = &mut self.kept {
            kept.drop_expired(now, each);
        }
    }

    /// Removes all messages, as the association restarted or ended. Calls `each` with each message, and whether a part
    /// of it was sent. Numbers start at 0 again; the values of streams and interleaving remain.
    pub(crate) fn clear(&mut self, mut each: impl FnMut(&Message, bool)) {
        self.lanes.clear(&mut each);
        if let Some(mut kept) = self.kept.take() {
            kept.clear().for_each(|message| each(&message, false));
        }
        self.numbers.clear();
        self.own = None;
        self.held = Buffered::default();
        self.has_limits = false;
    }

    /// Drops the messages for the streams from `from` on, except those of which a part was sent. Calls `each` with each
    /// message dropped. Happens in the handshake, before streams are reset.
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
        let kept = self.kept.as_ref().map_or(0, |kept| kept.heap_bytes());
        self.lanes.heap_bytes() + self.numbers.heap_bytes() + kept
    }
}
