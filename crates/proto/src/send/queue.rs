//! Messages that wait for their first transmission, and their fragmentation into DATA chunks.

use std::collections::VecDeque;

use bytes::Bytes;
use whimbrel_control::Time;
use whimbrel_wire::Ssn;

use crate::message::{Message, MessagePayload, Reliability};

/// User data of one DATA chunk, cut from a message (RFC 9260 §6.9).
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) ppid: u32,
    /// The user's number for the message.
    pub(crate) context: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) begin: bool,
    pub(crate) end: bool,
    pub(crate) payload: MessagePayload,
}

/// Waiting messages that follow each other and differ only in content and in a PPID that grows evenly. The send buffer of an endless
/// flow of the simulator, which numbers its messages by PPID, holds hundreds of such messages.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    context: u32,
    /// Of the first message.
    ppid: u32,
    /// From each message to the next, modulo 2^32; 0 as long as there is one.
    ppid_step: u32,
    /// Number of zero bytes of each message, if they have no content.
    zeros: u32,
    /// Number of messages, at least 1.
    count: u32,
}

/// What is the same for all messages of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    stream: u16,
    has_content: bool,
    unordered: bool,
    immediate: bool,
    limit: Limit,
}

/// When a message is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    #[default]
    Never,
    /// At this time.
    At(Time),
    /// If it had to be retransmitted more often than this.
    Retransmissions(u32),
    /// If a message with a smaller number, or without one, needs its room.
    Priority(u16),
    /// It has been given up.
    Reached,
}

impl Limit {
    pub(crate) fn of(reliability: Reliability, now: Time) -> Self {
        match reliability {
            Reliability::Full => Limit::Never,
            Reliability::Lifetime(span) => Limit::At(now + span),
            Reliability::Retransmissions(most) => Limit::Retransmissions(most),
            Reliability::Priority(number) => Limit::Priority(number),
        }
    }

    /// Returns whether a message that would be sent now, or retransmitted, is given up instead.
    pub(crate) fn is_reached(self, now: Time, again: bool) -> bool {
        match self {
            Limit::At(end) => end <= now,
            Limit::Retransmissions(0) => again,
            _ => false,
        }
    }

    /// Returns whether the message gives way to one with this limit.
    pub(crate) fn gives_way_to(self, other: Limit) -> bool {
        match (self, other) {
            (Limit::Priority(own), Limit::Priority(other)) => own > other,
            (Limit::Priority(_), _) => true,
            _ => false,
        }
    }
}

impl Run {
    /// Returns the first message.
    fn message(&self, content: Option<Bytes>) -> Message {
        Message {
            stream: self.kind.stream,
            ppid: self.ppid,
            unordered: self.kind.unordered,
            immediate: self.kind.immediate,
            context: self.context,
            reliability: Reliability::Full,
            payload: content.map_or(MessagePayload::Zeros(self.zeros), MessagePayload::Bytes),
        }
    }

    /// Appends a message, unless it differs.
    #[inline]
    fn join(&mut self, next: &Run) -> bool {
        let alike = self.kind == next.kind && self.context == next.context && self.zeros == next.zeros;
        let step = if self.count == 1 {
            next.ppid.wrapping_sub(self.ppid)
        } else {
            self.ppid_step
        };
        let follows = next.ppid == self.ppid.wrapping_add(step.wrapping_mul(self.count));
        if alike && follows {
            self.ppid_step = step;
            self.count += 1;
        }
        alike && follows
    }

    /// Returns the number of its messages that have content.
    fn contents(&self) -> usize {
        if self.kind.has_content { self.count as usize } else { 0 }
    }

    /// Removes the first message. Unless it is the only one, the next one becomes the first.
    fn drop_first(&mut self) {
        self.count -= 1;
        self.ppid = self.ppid.wrapping_add(self.ppid_step);
    }
}

/// Contents of the messages that have one, in the same order.
#[derive(Debug, Default)]
struct Contents(VecDeque<Bytes>);

/// A first-in, first-out queue; all fragments of a message get consecutive TSNs (RFC 9260 §6.9).
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    waiting: VecDeque<Run>,
    /// Number of messages in them.
    messages: u32,
    /// None before the first message with content.
    contents: Option<Box<Contents>>,
    bytes: usize,
    /// Bytes of the first message already sent.
    offset: u32,
    /// The SSN of the first message, if a part of it has been sent.
    ssn: Ssn,
    /// Some messages in the queue may be given up.
    has_limits: bool,
    /// Next SSN of each stream used so far.
    next_ssn: Vec<Ssn>,
}

impl SendQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the number of messages waiting, including the one that is partly sent.
    pub(crate) fn len(&self) -> usize {
        self.messages as usize
    }

    /// Returns the stream of the next message, if the message is ordered and no part of it has been sent.
    pub(crate) fn next_ordered(&self) -> Option<u16> {
        let first = self.waiting.front()?;
        (!first.kind.unordered && self.offset == 0).then_some(first.kind.stream)
    }

    /// Returns the bytes of user data waiting.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, message: Message, now: Time) {
        let limit = Limit::of(message.reliability, now);
        self.has_limits |= limit != Limit::Never;
        self.bytes += message.len();
        let (zeros, has_content) = match message.payload {
            MessagePayload::Zeros(len) => (len, false),
            MessagePayload::Bytes(content) => {
                self.contents.get_or_insert_default().0.push_back(content);
                (0, true)
            }
        };
        let next = Run {
            kind: Kind {
                stream: message.stream,
                has_content,
                unordered: message.unordered,
                immediate: message.immediate,
                limit,
            },
            context: message.context,
            ppid: message.ppid,
            ppid_step: 0,
            zeros,
            count: 1,
        };
        if !self.waiting.back_mut().is_some_and(|last| last.join(&next)) {
            self.waiting.push_back(next);
        }
        self.messages += 1;
    }

    /// Stream sequence numbers count ordered messages, from 0 (RFC 9260 §6.5).
    // [9260:6.5-3, 6.5-4, 6.5-5, 6.5-6]
    fn take_ssn(&mut self, stream: u16) -> Ssn {
        let index = usize::from(stream);
        if index >= self.next_ssn.len() {
            self.next_ssn.resize(index + 1, Ssn(0));
        }
        let ssn = self.next_ssn[index];
        self.next_ssn[index] = Ssn(ssn.0.wrapping_add(1));
        ssn
    }

    /// Returns the bytes left of the next message.
    pub(crate) fn next_len(&self) -> Option<usize> {
        let first = self.waiting.front()?;
        let len = if first.kind.has_content {
            self.contents.as_ref()?.0.front()?.len()
        } else {
            first.zeros as usize
        };
        Some(len - self.offset as usize)
    }

    /// Cuts the next `len` bytes off the next message. `len` is at least 1 and at most [`SendQueue::next_len`].
    // [9260:6.9-9, 6.9-12, 6.9-13, 3.3.1-4, 3.3.1-6, 3.3.1-7, 3.3.1-11]
    pub(crate) fn take(&mut self, len: usize) -> Option<Fragment> {
        let end = len >= self.next_len()?;
        let begin = self.offset == 0;
        let kind = self.waiting.front()?.kind;
        if begin {
            // Not before: a message that is given up before has no number.
            self.ssn = if kind.unordered {
                Ssn(0)
            } else {
                self.take_ssn(kind.stream)
            };
        }
        let first = self.waiting.front_mut()?;
        let payload = match &mut self.contents {
            Some(contents) if first.kind.has_content => MessagePayload::Bytes(if begin && end {
                contents.0.pop_front()?
            } else {
                let part = contents
                    .0
                    .front()?
                    .slice(self.offset as usize..self.offset as usize + len);
                if end {
                    contents.0.pop_front();
                }
                part
            }),
            _ => MessagePayload::Zeros(len as u32),
        };
        let fragment = Fragment {
            stream: first.kind.stream,
            ssn: self.ssn,
            ppid: first.ppid,
            context: first.context,
            unordered: first.kind.unordered,
            // RFC 7053 §4.1: the I bit is set in the last chunk of the message.
            immediate: first.kind.immediate && end,
            begin,
            end,
            payload,
        };
        self.bytes -= len;
        self.offset += len as u32;
        if end {
            self.messages -= 1;
            if first.count > 1 {
                first.drop_first();
            } else {
                self.waiting.pop_front();
                self.has_limits &= !self.waiting.is_empty();
            }
            self.offset = 0;
        }
        Some(fragment)
    }

    /// Returns whether a message may be given up.
    #[inline]
    pub(crate) fn has_limits(&self) -> bool {
        self.has_limits
    }

    /// Returns when the first message is given up.
    pub(crate) fn next_limit(&self) -> Limit {
        self.waiting.front().map_or(Limit::Never, |first| first.kind.limit)
    }

    /// Returns whether a part of the first message has been sent.
    pub(crate) fn is_begun(&self) -> bool {
        self.offset > 0
    }

    /// Removes what is left of the first message. Returns the message, and the numbers of its last fragment if a part of it has been sent.
    pub(crate) fn drop_next(&mut self) -> Option<(Message, Option<Fragment>)> {
        let left = self.next_len()?;
        let is_begun = self.is_begun();
        let last = if is_begun {
            let fragment = self.take(left)?;
            Some(Fragment {
                payload: MessagePayload::Zeros(0),
                immediate: false,
                ..fragment
            })
        } else {
            None
        };
        if let Some(last) = last {
            let message = Message {
                stream: last.stream,
                ppid: last.ppid,
                unordered: last.unordered,
                context: last.context,
                ..Message::zeros(last.stream, 0)
            };
            return Some((message, Some(last)));
        }
        let first = self.waiting.front_mut()?;
        let content = match &mut self.contents {
            Some(contents) if first.kind.has_content => contents.0.pop_front(),
            _ => None,
        };
        let message = first.message(content);
        if first.count > 1 {
            first.drop_first();
        } else {
            self.waiting.pop_front();
        }
        self.messages -= 1;
        self.bytes -= left;
        self.has_limits &= !self.waiting.is_empty();
        Some((message, None))
    }

    /// Removes the last message that gives way to one with this limit, of those with the largest number, if no part of it has been sent and
    /// its number is at least `least`.
    pub(crate) fn drop_for(&mut self, limit: Limit, least: u16) -> Option<Message> {
        let number = |run: &Run| match run.kind.limit {
            Limit::Priority(number) if number >= least && run.kind.limit.gives_way_to(limit) => Some(number),
            _ => None,
        };
        let is_begun = self.is_begun();
        let may_go = |place: usize, run: &Run| place > 0 || !is_begun || run.count > 1;
        let runs = self.waiting.iter().enumerate();
        let (_, place) = runs
            .filter(|&(place, run)| may_go(place, run))
            .filter_map(|(place, run)| Some((number(run)?, place)))
            .max()?;
        let after: usize = self.waiting.iter().skip(place + 1).map(Run::contents).sum();
        let run = &mut self.waiting[place];
        let content = match &mut self.contents {
            Some(contents) if run.kind.has_content => {
                let last = contents.0.len().checked_sub(after + 1)?;
                contents.0.remove(last)
            }
            _ => None,
        };
        run.count -= 1;
        let mut dropped = *run;
        dropped.ppid = run.ppid.wrapping_add(run.ppid_step.wrapping_mul(run.count));
        let message = dropped.message(content);
        if run.count == 0 {
            self.waiting.remove(place);
        }
        self.messages -= 1;
        self.bytes -= message.len();
        Some(message)
    }

    /// Returns how many bytes and messages would give way to a message with this limit, besides one of which a part has been sent.
    pub(crate) fn yields(&self, limit: Limit) -> (usize, usize) {
        let mut contents = self.contents.iter().flat_map(|contents| &contents.0);
        let (mut bytes, mut messages) = (0, 0);
        for (place, run) in self.waiting.iter().enumerate() {
            let gives_way = run.kind.limit.gives_way_to(limit);
            let kept = u32::from(place == 0 && self.is_begun());
            let lens = (0..run.count).map(|_| match run.kind.has_content {
                true => contents.next().map_or(0, Bytes::len),
                false => run.zeros as usize,
            });
            let len: usize = lens.skip(kept as usize).sum();
            if gives_way {
                bytes += len;
                messages += (run.count - kept) as usize;
            }
        }
        (bytes, messages)
    }

    /// Removes all messages, as the association restarted or ended. Calls `each` with each message, and whether a part
    /// of it was sent.
    pub(crate) fn clear(&mut self, mut each: impl FnMut(&Message, bool)) {
        let mut contents = self.contents.take().unwrap_or_default().0;
        let mut was_begun = self.offset > 0;
        for mut run in self.waiting.drain(..) {
            while run.count > 0 {
                let content = if run.kind.has_content {
                    contents.pop_front()
                } else {
                    None
                };
                each(&run.message(content), core::mem::take(&mut was_begun));
                run.drop_first();
            }
        }
        (self.messages, self.bytes, self.offset) = (0, 0, 0);
        self.has_limits = false;
        self.next_ssn.clear();
    }

    /// Drops the messages for the streams from `from` on, except one of which a part was sent. Calls `each` with each
    /// message dropped.
    pub(crate) fn drop_streams(&mut self, from: u16, mut each: impl FnMut(&Message)) {
        let mut contents = self.contents.take().unwrap_or_default();
        let mut was_begun = self.offset > 0;
        let mut left = contents.0.len();
        self.waiting.retain_mut(|run| {
            let all = run.kind.stream < from;
            // Of a run that is dropped, the first message stays if a part of it was sent.
            let kept = if all {
                run.count
            } else {
                u32::from(core::mem::take(&mut was_begun))
            };
            let mut rest = *run;
            run.count = kept;
            for number in 0..rest.count {
                let content = if rest.kind.has_content {
                    left -= 1;
                    contents.0.pop_front()
                } else {
                    None
                };
                if number < kept {
                    // The content is put behind the contents that have not been checked yet.
                    contents.0.extend(content);
                } else {
                    let message = rest.message(content);
                    self.messages -= 1;
                    self.bytes -= message.len();
                    each(&message);
                }
                rest.drop_first();
            }
            was_begun = false;
            kept > 0
        });
        debug_assert_eq!(left, 0, "each content has its message");
        self.contents = Some(contents).filter(|contents| !contents.0.is_empty());
    }

    /// Frees memory that is not in use.
    pub(crate) fn release_memory(&mut self) {
        self.waiting.shrink_to_fit();
        self.contents.take_if(|contents| contents.0.is_empty());
        if let Some(contents) = &mut self.contents {
            contents.0.shrink_to_fit();
        }
    }

    /// Returns the bytes that this queue has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        let contents = self.contents.as_ref().map_or(0, |contents| {
            size_of::<Contents>() + contents.0.capacity() * size_of::<Bytes>()
        });
        self.waiting.capacity() * size_of::<Run>() + contents + self.next_ssn.capacity() * size_of::<Ssn>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [9260:6.9-9, 6.9-12, 6.9-13, 3.3.1-4, 3.3.1-6, 3.3.1-11]
    #[test]
    fn a_long_message_is_fragmented_with_b_and_e_bits() {
        // RFC 9260 §6.9
        let mut queue = SendQueue::default();
        let mut message = Message::new(3, &b"abcdefghij"[..]);
        message.immediate = true;
        queue.push(message, Time::ZERO);
        let cut: Vec<_> = [4, 4, 2].into_iter().map(|len| queue.take(len).unwrap()).collect();
        let marks: Vec<_> = cut.iter().map(|f| (f.begin, f.end, f.immediate)).collect();
        assert_eq!(
            marks,
            [(true, false, false), (false, false, false), (false, true, true)]
        );
        assert!(cut.iter().all(|f| f.ssn == Ssn(0) && f.stream == 3));
        assert_eq!(
            cut[1].payload,
            MessagePayload::Bytes(bytes::Bytes::from_static(b"efgh"))
        );
        assert_eq!((queue.bytes(), queue.next_len()), (0, None));
        assert!(queue.take(1).is_none());
        // A message that fits into one chunk has both bits; all fragments of an unordered one have the U bit.
        queue.push(Message::zeros(3, 4), Time::ZERO);
        let whole = queue.take(4).unwrap();
        assert_eq!((whole.begin, whole.end, whole.unordered), (true, true, false));
        queue.push(
            Message {
                unordered: true,
                ..Message::zeros(3, 6)
            },
            Time::ZERO,
        );
        let cut: Vec<_> = [2, 2, 2].into_iter().map(|len| queue.take(len).unwrap()).collect();
        assert!(cut.iter().all(|f| f.unordered && f.ssn == cut[0].ssn));
    }

    // [9260:6.5-3, 6.5-4, 6.5-6]
    #[test]
    fn ordered_messages_are_numbered_by_stream_and_unordered_ones_are_not() {
        // RFC 9260 §6.5, §6.6
        let mut queue = SendQueue::default();
        for (stream, unordered) in [(0, false), (5, false), (0, true), (0, false), (5, false)] {
            queue.push(
                Message {
                    unordered,
                    ..Message::zeros(stream, 1)
                },
                Time::ZERO,
            );
        }
        let numbers: Vec<_> = std::iter::from_fn(|| queue.take(1))
            .map(|f| (f.stream, f.ssn.0))
            .collect();
        assert_eq!(numbers, [(0, 0), (5, 0), (0, 0), (0, 1), (5, 1)]);
    }

    #[test]
    fn messages_alike_share_one_entry_and_keep_their_numbers() {
        let mut queue = SendQueue::default();
        for ppid in 0..1000 {
            queue.push(
                Message {
                    ppid,
                    ..Message::zeros(3, 100)
                },
                Time::ZERO,
            );
        }
        queue.push(Message::zeros(3, 99), Time::ZERO);
        assert_eq!((queue.waiting.len(), queue.len()), (2, 1001));
        // The first one was begun and stays, with its number.
        queue.take(40);
        queue.drop_streams(4, |_| panic!("stream 3 stays"));
        for number in 0..10 {
            let fragment = queue.take(queue.next_len().unwrap()).unwrap();
            assert_eq!(
                (fragment.ssn.0, fragment.ppid, fragment.end),
                (number, u32::from(number), true)
            );
        }
        queue.take(1);
        let mut dropped = Vec::new();
        queue.drop_streams(0, |message| dropped.push((message.ppid, message.len())));
        assert_eq!((dropped.len(), dropped[0], dropped[989]), (990, (11, 100), (0, 99)));
        let begun = queue.take(queue.next_len().unwrap()).unwrap();
        assert_eq!((begun.ssn.0, begun.ppid, begun.payload.len()), (10, 10, 99));
        assert!(queue.is_empty() && queue.bytes() == 0);
        // Messages that were dropped have had no numbers.
        queue.push(Message::zeros(3, 100), Time::ZERO);
        assert_eq!(queue.take(100).unwrap().ssn.0, 11);
    }

    #[test]
    fn every_message_keeps_its_ppid() {
        let ppids = [7, 7, 7, 8, 9, 9, 5, 3, 1, u32::MAX, 0, 1, 1 << 31, 0, 1 << 31];
        let numbered = ppids.map(|ppid| Message {
            ppid,
            ..Message::zeros(0, 1)
        });
        let mut queue = SendQueue::default();
        numbered.into_iter().for_each(|message| queue.push(message, Time::ZERO));
        assert!(queue.waiting.len() < ppids.len() / 2, "{:?}", queue.waiting);
        let taken: Vec<_> = std::iter::from_fn(|| queue.take(1)).map(|f| f.ppid).collect();
        assert_eq!(taken, ppids);
    }

    #[test]
    fn contents_stay_with_their_messages_when_others_are_dropped() {
        let mut queue = SendQueue::default();
        for (stream, text) in [(0, "first"), (7, "gone"), (1, ""), (2, "second"), (9, ""), (3, "third")] {
            queue.push(
                if text.is_empty() {
                    Message::zeros(stream, 4)
                } else {
                    Message::new(stream, text)
                },
                Time::ZERO,
            );
        }
        queue.take(2);
        let mut dropped = Vec::new();
        queue.drop_streams(7, |message| dropped.push(message.payload.clone()));
        assert_eq!(
            dropped,
            [MessagePayload::Bytes("gone".into()), MessagePayload::Zeros(4)]
        );
        let rest: Vec<_> = std::iter::from_fn(|| queue.take(queue.next_len()?)).collect();
        let payloads: Vec<_> = rest.iter().map(|fragment| fragment.payload.clone()).collect();
        let text = |text: &'static str| MessagePayload::Bytes(text.into());
        assert_eq!(
            payloads,
            [text("rst"), MessagePayload::Zeros(4), text("second"), text("third")]
        );
        assert_eq!(
            rest.iter().map(|f| f.begin).collect::<Vec<_>>(),
            [false, true, true, true]
        );
    }

    #[test]
    fn dropped_messages_are_reported_and_no_longer_counted() {
        let mut queue = SendQueue::default();
        for (context, stream) in [(1, 5), (2, 0), (3, 7), (4, 5)] {
            queue.push(
                Message {
                    context,
                    ..Message::zeros(stream, 10)
                },
                Time::ZERO,
            );
        }
        queue.take(4);
        let mut dropped = Vec::new();
        queue.drop_streams(5, |message| dropped.push(message.context));
        // A part of the first message has been sent.
        assert_eq!((dropped, queue.bytes()), (vec![3, 4], 16));
        let mut dropped = Vec::new();
        queue.clear(|message, sent| dropped.push((message.context, sent)));
        assert_eq!((dropped, queue.bytes()), (vec![(1, true), (2, false)], 0));
    }

    // [9260:6.5-5]
    #[test]
    fn stream_sequence_numbers_wrap() {
        // RFC 9260 §6.5: 0 follows 65535
        let mut queue = SendQueue::default();
        let mut last = Ssn(0);
        for _ in 0..=65536_u32 {
            queue.push(Message::zeros(0, 1), Time::ZERO);
            last = queue.take(1).unwrap().ssn;
        }
        assert_eq!(last, Ssn(0));
    }
}
