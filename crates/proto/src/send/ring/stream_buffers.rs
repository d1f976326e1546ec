//! What each outbound stream has in the send buffer: the bufferedAmount of a data channel.

use std::collections::{BTreeMap, BTreeSet};

/// The bytes of user data of each stream that wait or are not acknowledged.
#[derive(Debug, Default)]
pub(crate) struct StreamBuffers {
    /// Streams with bytes or with a threshold.
    streams: BTreeMap<u16, StreamBuffer>,
    /// Streams whose bytes have fallen to their threshold, and that have not been taken.
    low: BTreeSet<u16>,
}

#[derive(Debug, Default)]
struct StreamBuffer {
    bytes: usize,
    threshold: usize,
}

impl StreamBuffers {
    /// Returns the bytes of a stream.
    pub(crate) fn of(&self, stream: u16) -> usize {
        self.streams.get(&stream).map_or(0, |known| known.bytes)
    }

    /// Sets the number of bytes of a stream at which it is low.
    pub(crate) fn set_threshold(&mut self, stream: u16, threshold: usize) {
        self.streams.entry(stream).or_default().threshold = threshold;
        self.forget_if_idle(stream);
    }

    /// A message of this length has been accepted.
    pub(crate) fn add(&mut self, stream: u16, bytes: usize) {
        self.streams.entry(stream).or_default().bytes += bytes;
    }

    /// Bytes are acknowledged or given up.
    pub(crate) fn release(&mut self, stream: u16, bytes: usize) {
        let Some(known) = self.streams.get_mut(&stream).filter(|_| bytes > 0) else {
            return;
        };
        let before = known.bytes;
        known.bytes = before.saturating_sub(bytes);
        if before > known.threshold && known.bytes <= known.threshold {
            self.low.insert(stream);
        }
        self.forget_if_idle(stream);
    }

    /// All bytes are given up.
    pub(crate) fn release_all(&mut self) {
        let all: Vec<(u16, usize)> = self
            .streams
            .iter()
            .map(|(&stream, known)| (stream, known.bytes))
            .collect();
        for (stream, bytes) in all {
            self.release(stream, bytes);
        }
    }

    fn forget_if_idle(&mut self, stream: u16) {
        if self
            .streams
            .get(&stream)
            .is_some_and(|known| known.bytes == 0 && known.threshold == 0)
        {
            self.streams.remove(&stream);
        }
    }

    /// Takes the streams that have become low.
    pub(crate) fn take_low(&mut self) -> BTreeSet<u16> {
        std::mem::take(&mut self.low)
    }

    pub(crate) fn has_low(&self) -> bool {
        !self.low.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.streams.len() * size_of::<(u16, StreamBuffer)>() + self.low.len() * size_of::<u16>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_low_once_when_its_bytes_fall_to_the_threshold() {
        let mut buffers = StreamBuffers::default();
        buffers.set_threshold(3, 100);
        buffers.add(3, 250);
        buffers.release(3, 100);
        assert!(!buffers.has_low());
        buffers.release(3, 50);
        assert_eq!((buffers.of(3), buffers.take_low()), (100, BTreeSet::from([3])));
        buffers.release(3, 60);
        assert!(!buffers.has_low(), "it was low before");
        buffers.add(3, 61);
        buffers.release_all();
        assert_eq!((buffers.of(3), buffers.take_low()), (0, BTreeSet::from([3])));
    }

    #[test]
    fn a_stream_without_bytes_and_threshold_takes_no_memory() {
        let mut buffers = StreamBuffers::default();
        buffers.add(7, 10);
        buffers.release(7, 10);
        assert!(buffers.streams.is_empty());
        assert_eq!(buffers.take_low(), BTreeSet::from([7]), "the threshold is 0 by default");
    }
}
