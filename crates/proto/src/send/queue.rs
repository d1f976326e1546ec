//! Messages that wait for their first transmission, and how they are cut into DATA chunks.

use std::collections::VecDeque;

use whimbrel_wire::Ssn;

use crate::message::{Message, MessagePayload};

/// User data of one DATA chunk, cut from a message (RFC 9260 §6.9).
#[derive(Clone, Debug)]
pub(crate) struct Fragment {
    pub(crate) stream: u16,
    pub(crate) ssn: Ssn,
    pub(crate) ppid: u32,
    /// The user's number of the message.
    pub(crate) context: u32,
    pub(crate) unordered: bool,
    pub(crate) immediate: bool,
    pub(crate) begin: bool,
    pub(crate) end: bool,
    pub(crate) payload: MessagePayload,
}

#[derive(Debug)]
struct Waiting {
    message: Message,
    ssn: Ssn,
    /// Bytes of it already sent.
    offset: usize,
}

/// First come, first sent; all fragments of a message get consecutive TSNs (RFC 9260 §6.9).
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Next SSN of each stream used so far.
    next_ssn: Vec<Ssn>,
}

impl SendQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Messages waiting, the one that is being sent included.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The stream of the message whose turn it is, if that is ordered and nothing of it has been sent.
    pub(crate) fn next_ordered(&self) -> Option<u16> {
        let first = self.waiting.front()?;
        (!first.message.unordered && first.offset == 0).then_some(first.message.stream)
    }

    /// Bytes of user data waiting.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn push(&mut self, message: Message) {
        let ssn = if message.unordered {
            Ssn(0)
        } else {
            self.take_ssn(message.stream)
        };
        self.bytes += message.len();
        self.waiting.push_back(Waiting {
            message,
            ssn,
            offset: 0,
        });
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

    /// Bytes left of the message whose turn it is.
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.waiting.front().map(|first| first.message.len() - first.offset)
    }

    /// Cuts the next `len` bytes off the message whose turn it is. `len` is at least 1 and at most [`SendQueue::next_len`].
    // [9260:6.9-9, 6.9-12, 6.9-13, 3.3.1-4, 3.3.1-6, 3.3.1-7, 3.3.1-11]
    pub(crate) fn take(&mut self, len: usize) -> Option<Fragment> {
        let first = self.waiting.front_mut()?;
        let begin = first.offset == 0;
        let end = first.offset + len >= first.message.len();
        let fragment = Fragment {
            stream: first.message.stream,
            ssn: first.ssn,
            ppid: first.message.ppid,
            context: first.message.context,
            unordered: first.message.unordered,
            // RFC 7053 §4.1: the I bit of the last chunk of the message.
            immediate: first.message.immediate && end,
            begin,
            end,
            payload: MessagePayload::Zeros(0),
        };
        self.bytes -= len;
        let payload = if begin && end {
            self.waiting.pop_front().map(|whole| whole.message.payload)?
        } else {
            let part = first.message.payload.part(first.offset, len);
            first.offset += len;
            if end {
                self.waiting.pop_front();
            }
            part
        };
        Some(Fragment { payload, ..fragment })
    }

    /// Forgets everything: the association restarted or ended. Tells each message, and whether a part of it was sent.
    pub(crate) fn clear(&mut self, mut each: impl FnMut(&Message, bool)) {
        for waiting in self.waiting.drain(..) {
            each(&waiting.message, waiting.offset > 0);
        }
        self.bytes = 0;
        self.next_ssn.clear();
    }

    /// Drops what waits for streams from this one on, unless a part of it was sent; tells each message.
    pub(crate) fn drop_streams(&mut self, from: u16, mut each: impl FnMut(&Message)) {
        let bytes = &mut self.bytes;
        self.waiting.retain(|waiting| {
            let stays = waiting.message.stream < from || waiting.offset > 0;
            if !stays {
                *bytes -= waiting.message.len();
                each(&waiting.message);
            }
            stays
        });
    }

    /// Gives back memory that is not in use.
    pub(crate) fn release_memory(&mut self) {
        self.waiting.shrink_to_fit();
    }

    /// Bytes this queue has allocated.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<Waiting>() + self.next_ssn.capacity() * size_of::<Ssn>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // [9260:6.9-9, 6.9-12, 6.9-13, 3.3.1-4, 3.3.1-6, 3.3.1-11]
    #[test]
    fn a_long_message_is_cut_and_marked_at_both_ends() {
        // RFC 9260 §6.9
        let mut queue = SendQueue::default();
        let mut message = Message::new(3, &b"abcdefghij"[..]);
        message.immediate = true;
        queue.push(message);
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
    }

    // [9260:6.5-3, 6.5-4, 6.5-6]
    #[test]
    fn ordered_messages_are_numbered_by_stream_and_unordered_ones_are_not() {
        // RFC 9260 §6.5, §6.6
        let mut queue = SendQueue::default();
        for (stream, unordered) in [(0, false), (5, false), (0, true), (0, false), (5, false)] {
            queue.push(Message {
                unordered,
                ..Message::zeros(stream, 1)
            });
        }
        let numbers: Vec<_> = std::iter::from_fn(|| queue.take(1))
            .map(|f| (f.stream, f.ssn.0))
            .collect();
        assert_eq!(numbers, [(0, 0), (5, 0), (0, 0), (0, 1), (5, 1)]);
    }

    #[test]
    fn what_is_dropped_is_told_and_leaves_the_books_right() {
        let mut queue = SendQueue::default();
        for (context, stream) in [(1, 5), (2, 0), (3, 7), (4, 5)] {
            queue.push(Message {
                context,
                ..Message::zeros(stream, 10)
            });
        }
        queue.take(4);
        let mut told = Vec::new();
        queue.drop_streams(5, |message| told.push(message.context));
        // The first one has been begun.
        assert_eq!((told, queue.bytes()), (vec![3, 4], 16));
        let mut told = Vec::new();
        queue.clear(|message, sent| told.push((message.context, sent)));
        assert_eq!((told, queue.bytes()), (vec![(1, true), (2, false)], 0));
    }

    // [9260:6.5-5]
    #[test]
    fn stream_sequence_numbers_wrap() {
        // RFC 9260 §6.5: after 65535 comes 0
        let mut queue = SendQueue::default();
        let mut last = Ssn(0);
        for _ in 0..=65536_u32 {
            queue.push(Message::zeros(0, 1));
            last = queue.take(1).unwrap().ssn;
        }
        assert_eq!(last, Ssn(0));
    }
}
