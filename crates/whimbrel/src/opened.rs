//! Messages that wait for the readers of an association's streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
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
    /// How often the peer has restarted, as far as this knows.
    restarts: u32,
    /// The streams that ended when the peer restarted. What arrived before, and is still in the receive buffer, ends with them.
    ended: BTreeSet<u16>,
}

#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) stream: u16,
    pub(crate) ppid: u32,
    pub(crate) unordered: bool,
    /// It arrived before the peer restarted.
    pub(crate) is_old: bool,
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
    /// No stream, of an association whose peer has restarted this number of times.
    pub(crate) fn new(restarts: u32) -> Self {
        Opened {
            restarts,
            ..Opened::default()
        }
    }

    /// Opens a stream; returns false if it is open already. Messages that wait for it already belong to it, but for those from before a
    /// restart of the peer.
    pub(crate) fn open(&mut self, stream: u16) -> bool {
        if self.queues.contains_key(&stream) {
            return false;
        }
        let all = std::mem::take(&mut self.others).into_iter();
        let (own, others) = all.partition(|waiting| waiting.stream == stream && !waiting.is_old);
        self.others = others;
        self.queues.insert(stream, own);
        true
    }

    /// Closes a stream: what waits there goes to who reads all other streams.
    pub(crate) fn close(&mut self, stream: u16) {
        self.others.extend(self.queues.remove(&stream).unwrap_or_default());
    }

    /// Notes how often the peer has restarted. What it sent before a restart and what it sends now are not one stream of bytes: all streams
    /// are closed. Returns whether it has restarted since the last call.
    pub(crate) fn note_restarts(&mut self, restarts: u32) -> bool {
        if self.restarts == restarts {
            return false;
        }
        self.restarts = restarts;
        for (stream, queue) in std::mem::take(&mut self.queues) {
            self.ended.insert(stream);
            self.bytes -= queue.iter().map(Waiting::memory).sum::<usize>();
        }
        for waiting in &mut self.others {
            waiting.is_old = true;
        }
        true
    }

    /// How often the peer has restarted.
    pub(crate) fn restarts(&self) -> u32 {
        self.restarts
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
    pub(crate) fn reader(&self, stream: u16, is_old: bool) -> Option<u16> {
        (self.queues.contains_key(&stream) && !is_old).then_some(stream)
    }

    /// Whether the message that comes next from the receive buffer has ended with its stream when the peer restarted.
    pub(crate) fn has_ended(&mut self, stream: u16, is_old: bool) -> bool {
        if !is_old {
            // What arrived before comes first: nothing of it is left.
            self.ended.clear();
        }
        self.ended.contains(&stream)
    }

    /// Keeps a message for its reader.
    pub(crate) fn keep(&mut self, waiting: Waiting) {
        self.bytes += waiting.memory();
        let own = self.queues.get_mut(&waiting.stream).filter(|_| !waiting.is_old);
        own.unwrap_or(&mut self.others).push_back(waiting);
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
