//! The inbound streams: the next message of each stream, and the messages that wait for it (RFC 9260 §6.6).

use std::collections::VecDeque;

use whimbrel_wire::MessageNumber;

use crate::streams::StreamList;

const PAGE: usize = 16;
const NO_QUEUE: u32 = u32::MAX;

/// An inbound stream on which data was received. Its ordered messages are numbered with 32 bits, from 0: by their Message Identifiers, or by
/// stream sequence numbers that continue after 65535.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// The number of the next message to deliver to the reader.
    pub(super) expected: u32,
    queue: u32,
}

impl Stream {
    /// Whether messages wait for an earlier message.
    pub(super) fn has_parked(&self) -> bool {
        self.queue != NO_QUEUE
    }
}

/// A complete message that waits for an earlier one of its stream.
#[derive(Clone, Copy, Debug)]
struct Parked {
    number: u32,
    head: u32,
}

/// Returns how far a message is ahead of the expected one, as its number can be read: by up to 65535 for a stream sequence number.
pub(super) fn ahead(number: MessageNumber, expected: u32) -> u32 {
    match number {
        MessageNumber::Ssn(ssn) => ssn.0.wrapping_sub(expected as u16).into(),
        MessageNumber::Mid(mid) => mid.0.wrapping_sub(expected),
    }
}

/// Returns whether a number that is this far ahead is one before the expected one, in the serial arithmetic of its kind (RFC 9260 §1.6).
pub(super) fn is_before(number: MessageNumber, ahead: u32) -> bool {
    let bits = if number.is_mid() { 32 } else { 16 };
    ahead >> (bits - 1) != 0
}

/// The streams in pages of sixteen, allocated on first use, and the queues of the streams in which messages wait.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pages: Vec<Option<Box<[Stream; PAGE]>>>,
    queues: Vec<VecDeque<Parked>>,
    /// Queues not in use. The last of them may still have memory; the others have none.
    free_queues: Vec<u32>,
}

impl Streams {
    /// Returns the stream, which begins with message 0 (RFC 9260 §6.5, RFC 8260 §2.1).
    pub(super) fn get_mut(&mut self, stream: u16) -> &mut Stream {
        let page = usize::from(stream) / PAGE;
        if page >= self.pages.len() {
            self.pages.resize_with(page + 1, || None);
        }
        let unused = || {
            Box::new(
                [Stream {
                    expected: 0,
                    queue: NO_QUEUE,
                }; PAGE],
            )
        };
        &mut self.pages[page].get_or_insert_with(unused)[usize::from(stream) % PAGE]
    }

    /// Returns the number of the next message on the stream.
    pub(super) fn expected(&self, stream: u16) -> u32 {
        let page = self.pages.get(usize::from(stream) / PAGE).and_then(Option::as_ref);
        page.map_or(0, |page| page[usize::from(stream) % PAGE].expected)
    }

    /// Returns whether no message waits for an earlier one.
    pub(super) fn have_none_parked(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// Parks a complete message until all earlier messages of its stream are delivered. `missing`: earlier messages that may still be
    /// incomplete. Returns false if the stream already has or had a message with this number.
    ///
    /// All messages between the two numbers are parked or missing. A number further ahead is an old number.
    // [9260:1.6-5]
    pub(super) fn park(&mut self, stream: u16, number: u32, head: u32, missing: u32) -> bool {
        let Stream { expected, mut queue } = *self.get_mut(stream);
        if queue == NO_QUEUE {
            queue = self.free_queues.pop().unwrap_or_else(|| {
                self.queues.push(VecDeque::new());
                (self.queues.len() - 1) as u32
            });
            self.get_mut(stream).queue = queue;
        }
        let queue_index = queue;
        let queue = &mut self.queues[queue as usize];
        let ahead = number.wrapping_sub(expected);
        let is_behind = |last: &Parked| last.number.wrapping_sub(expected) < ahead;
        let place = if queue.back().is_none_or(is_behind) {
            Some(queue.len())
        } else {
            queue
                .binary_search_by_key(&ahead, |parked| parked.number.wrapping_sub(expected))
                .err()
        };
        match place.filter(|&place| ahead <= missing.saturating_add(place as u32)) {
            Some(place) => {
                queue.insert(place, Parked { number, head });
                true
            }
            None => {
                self.release_if_empty(stream, queue_index);
                false
            }
        }
    }

    /// Takes the message with the expected number, if it is parked, and increments the expected number.
    pub(super) fn take_next(&mut self, stream: u16) -> Option<u32> {
        let Stream { expected, queue } = *self.get_mut(stream);
        if queue == NO_QUEUE || self.queues[queue as usize].front()?.number != expected {
            return None;
        }
        let parked = self.queues[queue as usize].pop_front()?;
        self.get_mut(stream).expected = expected.wrapping_add(1);
        self.release_if_empty(stream, queue);
        Some(parked.head)
    }

    /// Takes the first parked message with a number up to `last`, which is not before the expected number.
    pub(super) fn take_up_to(&mut self, stream: u16, last: u32) -> Option<u32> {
        let Stream { expected, queue } = *self.get_mut(stream);
        if queue == NO_QUEUE {
            return None;
        }
        let first = self.queues[queue as usize].front()?.number;
        if first.wrapping_sub(expected) > last.wrapping_sub(expected) {
            return None;
        }
        let parked = self.queues[queue as usize].pop_front()?;
        self.release_if_empty(stream, queue);
        Some(parked.head)
    }

    /// Takes all parked messages of these streams, in the order of their numbers on each stream.
    pub(super) fn take_parked(&mut self, streams: &StreamList) -> Vec<u32> {
        let mut heads = Vec::new();
        for stream in self.used(streams) {
            let queue = self.get_mut(stream).queue;
            if queue != NO_QUEUE {
                heads.extend(self.queues[queue as usize].drain(..).map(|parked| parked.head));
                self.release_if_empty(stream, queue);
            }
        }
        heads
    }

    /// These streams begin with message 0 again. No message of them is parked.
    pub(super) fn reset(&mut self, streams: &StreamList) {
        if *streams == StreamList::ALL && self.free_queues.len() == self.queues.len() {
            // Further resets of streams that are not used have nothing to do.
            self.pages = Vec::new();
            return;
        }
        for stream in self.used(streams) {
            self.get_mut(stream).expected = 0;
        }
    }

    /// Returns those of the streams that have an entry.
    fn used(&self, streams: &StreamList) -> Vec<u16> {
        let is_used = |page: usize| self.pages.get(page).is_some_and(Option::is_some);
        match streams.listed() {
            None => {
                let pages = (0..self.pages.len()).filter(|&page| is_used(page));
                pages
                    .flat_map(|page| page * PAGE..(page + 1) * PAGE)
                    .map(|stream| stream as u16)
                    .collect()
            }
            Some(streams) => {
                let used = streams.iter().filter(|&&stream| is_used(usize::from(stream) / PAGE));
                used.copied().collect()
            }
        }
    }

    /// Removes a parked message because a part of it is dropped.
    pub(super) fn unpark(&mut self, stream: u16, number: u32) {
        let Stream { expected, queue } = *self.get_mut(stream);
        if queue == NO_QUEUE {
            return;
        }
        let parked = &mut self.queues[queue as usize];
        let ahead = number.wrapping_sub(expected);
        if let Ok(place) = parked.binary_search_by_key(&ahead, |parked| parked.number.wrapping_sub(expected)) {
            parked.remove(place);
        }
        self.release_if_empty(stream, queue);
    }

    fn release_if_empty(&mut self, stream: u16, queue: u32) {
        if !self.queues[queue as usize].is_empty() {
            return;
        }
        self.get_mut(stream).queue = NO_QUEUE;
        // One emptied queue keeps its memory for the next gap. If all did, a peer could fill many queues in turn.
        if let Some(&spare) = self.free_queues.last() {
            self.queues[spare as usize] = VecDeque::new();
        }
        self.free_queues.push(queue);
    }

    /// Frees the memory of queues not in use.
    pub(super) fn release_spare(&mut self) {
        if self.free_queues.len() == self.queues.len() {
            (self.queues, self.free_queues) = (Vec::new(), Vec::new());
        }
    }

    /// Returns the bytes on the heap, for tests of the limits.
    pub(super) fn heap_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count() * size_of::<[Stream; PAGE]>() + self.pages.capacity() * 8;
        let queued: usize = self.queues.iter().map(|q| q.capacity() * size_of::<Parked>()).sum();
        pages + queued + self.queues.capacity() * size_of::<VecDeque<Parked>>() + self.free_queues.capacity() * 4
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_wire::{Mid, Ssn};

    use super::*;

    #[test]
    fn a_stream_costs_memory_only_once_it_is_used() {
        let mut streams = Streams::default();
        assert_eq!(streams.expected(65_535), 0);
        assert_eq!(streams.heap_bytes(), 0);
        streams.get_mut(0).expected = 1;
        assert!(streams.heap_bytes() <= 200, "{}", streams.heap_bytes());
        streams.get_mut(65_535);
        assert!(streams.heap_bytes() <= 70_000, "{}", streams.heap_bytes());
    }

    // [9260:1.6-5]
    #[test]
    fn parked_messages_are_returned_in_order_across_the_wrap() {
        // RFC 9260 §6.5: 0 follows 65535.
        let mut streams = Streams::default();
        streams.get_mut(3).expected = 65_533;
        let full = |ssn| 65_533 + ahead(MessageNumber::Ssn(Ssn(ssn)), 65_533);
        for ssn in [1, 65_534, 0, 65_535] {
            assert!(streams.park(3, full(ssn), u32::from(ssn), 4));
            assert_eq!(streams.take_next(3), None);
        }
        assert!(!streams.park(3, full(0), 9, 4), "the number is in use");
        assert!(!streams.park(3, full(65_532), 9, 4), "the number was delivered");
        streams.unpark(3, full(65_535));
        streams.get_mut(3).expected = full(65_534);
        assert_eq!(streams.take_next(3), Some(65_534));
        assert_eq!(streams.take_next(3), None);
        assert!(streams.park(3, full(65_535), 7, 0));
        assert_eq!(
            [streams.take_next(3), streams.take_next(3), streams.take_next(3)],
            [Some(7), Some(0), Some(1)]
        );
        assert_eq!(streams.take_next(3), None);
        assert_eq!(streams.expected(3), full(2));
    }

    // RFC 8260 §2.1: serial number arithmetic with 32 bits.
    #[test]
    fn message_identifiers_wrap() {
        let mut streams = Streams::default();
        let expected = u32::MAX - 1;
        streams.get_mut(3).expected = expected;
        for mid in [0, u32::MAX, expected] {
            let ahead = ahead(MessageNumber::Mid(Mid(mid)), expected);
            assert!(streams.park(3, expected.wrapping_add(ahead), mid, 4));
        }
        let taken: Vec<_> = std::iter::from_fn(|| streams.take_next(3)).collect();
        assert_eq!((taken, streams.expected(3)), (vec![expected, u32::MAX, 0], 1));
        for (mid, is_old) in [(1, false), (0, true), (1 << 31, false), ((1 << 31) + 1, true)] {
            let number = MessageNumber::Mid(Mid(mid));
            assert_eq!(is_before(number, ahead(number, 1)), is_old, "{mid}");
        }
        for (ssn, is_old) in [(1, false), (0, true), (1 << 15, false), ((1 << 15) + 1, true)] {
            let number = MessageNumber::Ssn(Ssn(ssn));
            assert_eq!(is_before(number, ahead(number, 65_537)), is_old, "{ssn}");
        }
    }

    #[test]
    fn only_one_emptied_queue_keeps_its_memory() {
        let mut streams = Streams::default();
        for stream in 0..100 {
            for number in (1..=1000).rev() {
                assert!(streams.park(stream, number, 0, 1000));
            }
            streams.get_mut(stream).expected = 1;
            while streams.take_next(stream).is_some() {}
        }
        assert!(streams.heap_bytes() < 20_000, "{}", streams.heap_bytes());
        streams.release_spare();
        assert!(streams.heap_bytes() < 2000, "{}", streams.heap_bytes());
    }
}
