//! Messages that wait for the readers of an association's streams.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;

/// Bytes of memory that messages take in the opened streams of an association before nothing more is taken out of its receive buffer.
pub(crate) const WAITING_BYTES: usize = 256 * 1024;

/// A future that a poll function keeps until it is ready.
pub(crate) type Wait = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// What has been taken out of the receive buffer of an association with opened streams and not been read yet.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// Messages of the opened streams.
    queues: BTreeMap<u16, VecDeque<Waiting>>,
    /// Messages of all others.
    others: VecDeque<Waiting>,
    bytes: usize,
    incarnation: u32,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    pub(crate) data: Vec<u8>,
}

/// Bytes of memory that a waiting message takes beside its data: its place in the queue, and what the allocator adds.
const OVERHEAD: usize = size_of::<Waiting>() + 32;

impl Waiting {
    fn memory(&self) -> usize {
        self.data.capacity() + OVERHEAD
    }
}

impl Opened {
    /// Opens a stream; returns false if it is open already.
    pub(crate) fn open(&mut self, stream: u16) -> bool {
        if self.queues.contains_key(&stream) {
            return false;
        }
        let all = std::mem::take(&mut self.others).into_iter();
        let (own, others) = all.partition(|waiting| waiting.stream == stream);
        self.others = others;
        self.queues.insert(stream, own);
        true
    }

    /// Closes a stream: what waits there goes to who reads all other streams.
    pub(crate) fn close(&mut self, stream: u16) {
        self.others.extend(self.queues.remove(&stream).unwrap_or_default());
    }

    /// The peer has restarted: what was sent before and what comes now are not one stream of bytes. Closes all streams.
    pub(crate) fn on_restart(&mut self) {
        self.incarnation += 1;
        let queues = std::mem::take(&mut self.queues).into_values().flatten();
        for gone in queues.chain(std::mem::take(&mut self.others)) {
            self.bytes -= gone.memory();
        }
    }

    /// How often the peer has restarted.
    pub(crate) fn incarnation(&self) -> u32 {
        self.incarnation
    }

    /// Whether as much waits as may.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= WAITING_BYTES
    }

    /// Bytes of memory that waiting messages take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The reader of a message of `stream`: that of the opened stream, or of all others.
    pub(crate) fn reader(&self, stream: u16) -> Option<u16> {
        self.queues.contains_key(&stream).then_some(stream)
    }

    /// Keeps a message for its reader.
    pub(crate) fn keep(&mut self, waiting: Waiting) {
        self.bytes += waiting.memory();
        let queue = self.queues.get_mut(&waiting.stream).unwrap_or(&mut self.others);
        queue.push_back(waiting);
    }

    /// Takes the next message of a reader.
    pub(crate) fn take(&mut self, reader: Option<u16>) -> Option<Waiting> {
        let queue = match reader {
            Some(stream) => self.queues.get_mut(&stream)?,
            None => &mut self.others,
        };
        let taken = queue.pop_front()?;
        self.bytes -= taken.memory();
        Some(taken)
    }
}
