//! A first-in, first-out queue of messages, and their fragmentation into chunks.

use std::collections::VecDeque;

use bytes::Bytes;

use super::buffered::Buffered;
use super::fragment::Fragment;
use super::limit::Limit;
use super::numbers::Numbers;
use super::run::{Kind, Run};
use crate::message::{Message, MessagePayload};
use crate::streams::StreamList;

/// Contents of the messages that have one, in the same order.
#[derive(Debug, Default)]
struct Contents(VecDeque<Bytes>);

/// Messages that are sent one after the other: only the first one can have been begun.
#[derive(Debug, Default)]
pub(super) struct Lane {
    waiting: VecDeque<Run>,
    /// None before the first message with content.
    contents: Option<Box<Contents>>,
    /// Bytes of the first message already sent.
    offset: u32,
    /// The number of the first message, if a part of it has been sent.
    number: u32,
}

impl Lane {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether a part of the first message has been sent.
    #[inline]
    pub(super) fn is_begun(&self) -> bool {
        self.offset > 0
    }

    /// Returns the stream of the first message.
    #[inline]
    pub(super) fn next_stream(&self) -> Option<u16> {
        self.waiting.front().map(|first| first.kind.stream)
    }

    /// Returns the stream of the first message, if the message is ordered and no part of it has been sent.
    #[inline]
    pub(super) fn next_ordered(&self) -> Option<u16> {
        let first = self.waiting.front()?;
        (!first.kind.unordered && self.offset == 0).then_some(first.kind.stream)
    }

    /// Returns when the first message is given up.
    #[inline]
    pub(super) fn next_limit(&self) -> Limit {
        self.waiting.front().map_or(Limit::Never, |first| first.kind.limit)
    }

    /// Returns the bytes left of the first message.
    #[inline]
    pub(super) fn next_len(&self) -> Option<usize> {
        let first = self.waiting.front()?;
        let len = if first.kind.has_content {
            self.contents.as_ref()?.0.front()?.len()
        } else {
            first.zeros as usize
        };
        Some(len - self.offset as usize)
    }

    /// Returns whether the first message is long.
    #[inline]
    pub(super) fn next_is_long(&self) -> bool {
        self.waiting.front().is_some_and(|first| first.kind.is_long)
    }

    /// Returns what is left of the first message.
    pub(super) fn next_rest(&self) -> Option<Buffered> {
        Some(Buffered::one(self.next_len()?, self.next_is_long()))
    }

    #[inline]
    pub(super) fn push(&mut self, message: Message, limit: Limit, is_long: bool) {
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
                is_long,
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
    }

    /// Cuts the next `len` bytes off the first message. `len` is at least 1 and at most [`Lane::next_len`]; `end`: it is as much.
    // [9260:6.9-9, 6.9-12, 6.9-13, 3.3.1-4, 3.3.1-6, 3.3.1-7, 3.3.1-11]
    #[inline]
    // [8260:2.1-8, 2.2.2-1, 2.2.2-2, 2.2.2-3, 2.2.2-5]
    pub(super) fn take(&mut self, len: usize, end: bool, numbers: &mut Numbers) -> Option<Fragment> {
        let begin = self.offset == 0;
        if begin {
            // Not before: a message that is given up before has no number.
            let kind = self.waiting.front()?.kind;
            self.number = numbers.take(kind.stream, kind.unordered);
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
            number: self.number,
            fsn: numbers.take_fsn(first.kind.stream),
            ppid: first.ppid,
            context: first.context,
            unordered: first.kind.unordered,
            // RFC 7053 §4.1: the I bit is set in the last chunk of the message.
            immediate: first.kind.immediate && end,
            begin,
            end,
            is_long: first.kind.is_long,
            payload,
        };
        self.offset += len as u32;
        if end {
            if first.count > 1 {
                first.drop_first();
            } else {
                self.waiting.pop_front();
            }
            self.offset = 0;
        }
        Some(fragment)
    }

    /// Removes what is left of the first message. Returns the message, and the numbers of its last fragment if a part of it has been sent.
    pub(super) fn drop_next(&mut self, numbers: &mut Numbers) -> Option<(Message, Option<Fragment>)> {
        let left = self.next_len()?;
        let last = if self.is_begun() {
            let fragment = self.take(left, true, numbers)?;
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
        Some((message, None))
    }

    /// Returns the last message that gives way to one with this limit, of those with the largest number, if no part of it has been sent and
    /// its number is at least `least`: its number and the place of its run, of which it is the last message.
    pub(super) fn last_for(&self, limit: Limit, least: u16) -> Option<(u16, usize)> {
        let number = |run: &Run| match run.kind.limit {
            Limit::Priority(number) if number >= least && run.kind.limit.gives_way_to(limit) => Some(number),
            _ => None,
        };
        let is_begun = self.is_begun();
        let may_go = |place: usize, run: &Run| place > 0 || !is_begun || run.count > 1;
        let runs = self.waiting.iter().enumerate();
        runs.filter(|&(place, run)| may_go(place, run))
            .filter_map(|(place, run)| Some((number(run)?, place)))
            .max()
    }

    /// Removes the last message of a run.
    pub(super) fn drop_at(&mut self, place: usize) -> Option<Message> {
        let after: usize = self.waiting.iter().skip(place + 1).map(Run::contents).sum();
        let run = self.waiting.get_mut(place)?;
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
        Some(message)
    }

    /// Returns what would give way to a message with this limit, besides a message of which a part has been sent.
    pub(super) fn yields(&self, limit: Limit) -> Buffered {
        let mut contents = self.contents.iter().flat_map(|contents| &contents.0);
        let mut held = Buffered::default();
        for (place, run) in self.waiting.iter().enumerate() {
            let gives_way = run.kind.limit.gives_way_to(limit);
            let kept = u32::from(place == 0 && self.is_begun());
            let lens = (0..run.count).map(|_| match run.kind.has_content {
                true => contents.next().map_or(0, Bytes::len),
                false => run.zeros as usize,
            });
            let len: usize = lens.skip(kept as usize).sum();
            if gives_way {
                held += Buffered {
                    count: (run.count - kept) as usize,
                    ..Buffered::of(len, run.kind.is_long)
                };
            }
        }
        held
    }

    /// Returns the number of messages of these streams.
    pub(super) fn count(&self, streams: &StreamList) -> usize {
        let runs = self.waiting.iter().filter(|run| streams.contains(run.kind.stream));
        runs.map(|run| run.count as usize).sum()
    }

    /// Removes all messages, as the association restarted or ended. Calls `each` with each message, and whether a part
    /// of it was sent.
    pub(super) fn clear(&mut self, mut each: impl FnMut(&Message, bool)) {
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
        self.offset = 0;
    }

    /// Drops the messages for the streams from `from` on, except one of which a part was sent. Calls `each` with each
    /// message dropped.
    pub(super) fn drop_streams(&mut self, from: u16, mut each: impl FnMut(&Message)) {
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
    pub(super) fn release_memory(&mut self) {
        self.waiting.shrink_to_fit();
        self.contents.take_if(|contents| contents.0.is_empty());
        if let Some(contents) = &mut self.contents {
            contents.0.shrink_to_fit();
        }
    }

    /// Returns the bytes that this lane has allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        let contents = self.contents.as_ref().map_or(0, |contents| {
            size_of::<Contents>() + contents.0.capacity() * size_of::<Bytes>()
        });
        self.waiting.capacity() * size_of::<Run>() + contents
    }

    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.waiting.len()
    }
}
