//! The queue of control chunks.

use std::collections::VecDeque;

use whimbrel_wire::Tsn;

use crate::PathId;

/// A control chunk waiting to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outgoing {
    /// INIT, with the requested extension of the cookie's life in milliseconds.
    Init {
        preserve_ms: Option<u32>,
    },
    CookieEcho,
    CookieAck,
    Heartbeat {
        nonce: u64,
    },
    /// A heartbeat that the user has ordered, with the length of its Heartbeat Info.
    Ping {
        nonce: u64,
        len: u16,
    },
    /// Returns the Heartbeat Info of a HEARTBEAT.
    HeartbeatAck(Box<[u8]>),
    /// A list of error causes.
    Error(Box<[u8]>),
    /// The lowest TSN of a packet that arrived with a CE mark.
    Ecne {
        lowest_tsn: Tsn,
    },
    /// The TSN of the ECNE that reduced cwnd.
    Cwr {
        lowest_tsn: Tsn,
    },
    /// What has been given up.
    ForwardTsn,
    /// The outstanding ASCONF.
    Asconf,
    AsconfAck {
        serial: u32,
        answer: Box<[u8]>,
    },
    /// Responses to changes of streams, and the outstanding request (RFC 6525).
    Reconfig {
        answer: Box<[u8]>,
        has_request: bool,
    },
    Shutdown,
    ShutdownAck,
}

/// A FIFO queue of control chunks with their paths. A peer cannot make it grow without bound.
#[derive(Debug, Default)]
pub(crate) struct OutgoingQueue {
    waiting: VecDeque<(PathId, Outgoing)>,
}

/// Maximum number of queued replies to HEARTBEATs, marks, unknown chunks and ASCONFs. Further replies are dropped; the
/// peer repeats its request.
const LIMIT: usize = 32;

impl OutgoingQueue {
    pub(crate) fn push(&mut self, path: PathId, chunk: Outgoing) {
        // Chunks that are not replies are bounded by local timers. Each is queued only once.
        let is_answer = matches!(
            &chunk,
            Outgoing::Reconfig { answer, .. } if !answer.is_empty()
        ) || matches!(
            chunk,
            Outgoing::HeartbeatAck(_)
                | Outgoing::Error(_)
                | Outgoing::Ecne { .. }
                | Outgoing::Cwr { .. }
                | Outgoing::AsconfAck { .. }
        );
        let known = if is_answer {
            self.waiting.len() >= LIMIT
        } else {
            self.waiting
                .iter()
                .any(|(to, waiting)| *to == path && *waiting == chunk)
        };
        if !known {
            self.waiting.push_back((path, chunk));
        }
    }

    /// Queues the chunk before all others.
    pub(crate) fn push_first(&mut self, path: PathId, chunk: Outgoing) {
        self.waiting.retain(|waiting| *waiting != (path, chunk.clone()));
        self.waiting.push_front((path, chunk));
    }

    /// Returns the position of the first chunk that may be sent now.
    #[inline]
    pub(in crate::send) fn next(&self, may_go: impl Fn(PathId, &Outgoing) -> bool) -> Option<usize> {
        // Fast path: the queue is mostly empty, and this is called for every packet.
        if self.waiting.is_empty() {
            return None;
        }
        self.waiting.iter().position(|(path, chunk)| may_go(*path, chunk))
    }

    /// Returns the chunk at this position, and its path.
    pub(in crate::send) fn get(&self, place: usize) -> Option<&(PathId, Outgoing)> {
        self.waiting.get(place)
    }

    /// Removes the chunk at this position. After a chunk of the handshake, a HEARTBEAT or a HEARTBEAT ACK, an empty queue takes no memory: many
    /// associations are idle then. Other chunks may follow each other with every packet.
    pub(in crate::send) fn take(&mut self, place: usize) -> Option<Outgoing> {
        let (_, chunk) = self.waiting.remove(place)?;
        let idles = matches!(
            chunk,
            Outgoing::Init { .. }
                | Outgoing::CookieEcho
                | Outgoing::CookieAck
                | Outgoing::Heartbeat { .. }
                | Outgoing::HeartbeatAck(_)
        );
        if idles && self.waiting.is_empty() {
            self.waiting = VecDeque::new();
        }
        Some(chunk)
    }

    /// Moves the chunks of a removed path to another path. Chunks that concern the removed path itself are dropped.
    pub(in crate::send) fn redirect(&mut self, from: PathId, to: PathId) {
        let is_of_path = |chunk: &Outgoing| {
            matches!(
                chunk,
                Outgoing::Heartbeat { .. } | Outgoing::HeartbeatAck(_) | Outgoing::Ping { .. }
            )
        };
        self.waiting.retain(|(path, chunk)| *path != from || !is_of_path(chunk));
        for (path, _) in self.waiting.iter_mut().filter(|(path, _)| *path == from) {
            *path = to;
        }
    }

    /// Returns the number of queued pings.
    pub(crate) fn pings(&self) -> usize {
        let is_ping = |chunk: &Outgoing| matches!(chunk, Outgoing::Ping { .. });
        self.waiting.iter().filter(|(_, chunk)| is_ping(chunk)).count()
    }

    /// Removes a queued FORWARD TSN, because the peer knows.
    pub(in crate::send) fn drop_forward(&mut self) {
        self.waiting.retain(|(_, chunk)| *chunk != Outgoing::ForwardTsn);
    }

    /// Removes a queued ASCONF, because it was answered or is sent on another path.
    pub(crate) fn drop_asconf(&mut self) {
        self.waiting.retain(|(_, chunk)| *chunk != Outgoing::Asconf);
    }

    /// Removes a queued request of RE-CONFIG, because it was answered or is sent on another path.
    pub(crate) fn drop_request(&mut self) {
        let is_request =
            |chunk: &Outgoing| matches!(chunk, Outgoing::Reconfig { answer, has_request: true } if answer.is_empty());
        self.waiting.retain(|(_, chunk)| !is_request(chunk));
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Releases unused memory.
    pub(in crate::send) fn release_memory(&mut self) {
        self.waiting.shrink_to_fit();
    }

    pub(in crate::send) fn heap_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<(PathId, Outgoing)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_heartbeats_fills_a_bounded_queue() {
        let mut queue = OutgoingQueue::default();
        for _ in 0..1000 {
            queue.push(PathId(0), Outgoing::HeartbeatAck(Box::default()));
        }
        assert_eq!(std::iter::from_fn(|| queue.take(0)).count(), LIMIT);
    }

    #[test]
    fn chunks_of_local_timers_are_always_queued_once() {
        let mut queue = OutgoingQueue::default();
        for _ in 0..100 {
            queue.push(PathId(0), Outgoing::HeartbeatAck(Box::default()));
            queue.push(PathId(0), Outgoing::Shutdown);
        }
        let shutdowns = std::iter::from_fn(|| queue.take(0))
            .filter(|chunk| *chunk == Outgoing::Shutdown)
            .count();
        assert_eq!(shutdowns, 1);
    }
}
