//! Control chunks waiting to be sent.

use std::collections::VecDeque;

use whimbrel_wire::Tsn;

/// A control chunk waiting to be sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outgoing {
    /// INIT, with the milliseconds of cookie life to ask for.
    Init {
        preserve_ms: Option<u32>,
    },
    CookieEcho,
    CookieAck,
    Heartbeat {
        nonce: u64,
    },
    /// Carries back what the HEARTBEAT brought.
    HeartbeatAck(Box<[u8]>),
    /// A list of error causes.
    Error(Box<[u8]>),
    /// The lowest TSN of a packet that arrived marked.
    Ecne {
        lowest_tsn: Tsn,
    },
    /// The TSN of the ECNE that reduced the window.
    Cwr {
        lowest_tsn: Tsn,
    },
    /// The ASCONF that is unanswered.
    Asconf,
    AsconfAck {
        serial: u32,
        answer: Box<[u8]>,
    },
    Shutdown,
    ShutdownAck,
}

/// First in, first out, each with the path it goes to. A peer can make it grow only so far.
#[derive(Debug, Default)]
pub(crate) struct OutgoingQueue {
    waiting: VecDeque<(u8, Outgoing)>,
}

/// Answers to HEARTBEATs, marks and unknown chunks that may wait; what comes beyond is dropped, and the peer asks again.
const LIMIT: usize = 32;

impl OutgoingQueue {
    pub(crate) fn push(&mut self, path: u8, chunk: Outgoing) {
        // What is no answer to the peer is bounded by our own timers, and is queued once only.
        let is_answer = matches!(
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

    /// Puts the chunk before all others.
    pub(crate) fn push_first(&mut self, path: u8, chunk: Outgoing) {
        self.waiting.retain(|waiting| *waiting != (path, chunk.clone()));
        self.waiting.push_front((path, chunk));
    }

    /// The place of the first chunk that may go out now.
    #[inline]
    pub(crate) fn next(&self, may_go: impl Fn(u8, &Outgoing) -> bool) -> Option<usize> {
        // Mostly nothing waits, and this is asked for every packet.
        if self.waiting.is_empty() {
            return None;
        }
        self.waiting.iter().position(|(path, chunk)| may_go(*path, chunk))
    }

    /// The chunk at that place, and its path.
    pub(crate) fn get(&self, place: usize) -> Option<&(u8, Outgoing)> {
        self.waiting.get(place)
    }

    pub(crate) fn take(&mut self, place: usize) -> Option<Outgoing> {
        self.waiting.remove(place).map(|(_, chunk)| chunk)
    }

    /// What waits for a path that is gone goes to another one; what says something about that path is of no use.
    pub(crate) fn redirect(&mut self, from: u8, to: u8) {
        let is_of_path = |chunk: &Outgoing| matches!(chunk, Outgoing::Heartbeat { .. } | Outgoing::HeartbeatAck(_));
        self.waiting.retain(|(path, chunk)| *path != from || !is_of_path(chunk));
        for (path, _) in self.waiting.iter_mut().filter(|(path, _)| *path == from) {
            *path = to;
        }
    }

    /// The ASCONF is answered, or goes another way.
    pub(crate) fn drop_asconf(&mut self) {
        self.waiting.retain(|(_, chunk)| *chunk != Outgoing::Asconf);
    }

    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Gives back memory that is not in use.
    pub(crate) fn release_memory(&mut self) {
        self.waiting.shrink_to_fit();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.waiting.capacity() * size_of::<(u8, Outgoing)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_heartbeats_fills_a_bounded_queue() {
        let mut queue = OutgoingQueue::default();
        for _ in 0..1000 {
            queue.push(0, Outgoing::HeartbeatAck(Box::default()));
        }
        assert_eq!(std::iter::from_fn(|| queue.take(0)).count(), LIMIT);
    }

    #[test]
    fn what_our_own_timers_send_is_queued_once_and_always() {
        let mut queue = OutgoingQueue::default();
        for _ in 0..100 {
            queue.push(0, Outgoing::HeartbeatAck(Box::default()));
            queue.push(0, Outgoing::Shutdown);
        }
        let shutdowns = std::iter::from_fn(|| queue.take(0))
            .filter(|chunk| *chunk == Outgoing::Shutdown)
            .count();
        assert_eq!(shutdowns, 1);
    }
}
