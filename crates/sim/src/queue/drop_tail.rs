//! First in, first out, with a limit.

use super::QueueConfig;

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
}

/// The limit of a queue: with nothing else a drop-tail queue, and what [`super::Active`] queues have besides their rules.
///
/// Such a queue decides when a packet comes in, and so does RED; with a first-in-first-out order the time at which each
/// packet will leave is then known, and no event is needed for it. A queue that decides as packets leave (CoDel) or that reorders
/// (FQ) needs an event for each departure: it becomes a second kind of transmitter beside the one in `link`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DropTail {
    packets: u32,
    bytes: u64,
}

impl DropTail {
    pub(crate) fn new(config: &QueueConfig) -> Self {
        let (packets, bytes) = config.limits();
        DropTail {
            packets: packets.unwrap_or(u32::MAX),
            bytes: bytes.unwrap_or(u64::MAX),
        }
    }

    /// Whether a packet of `size` bytes finds room behind those that wait.
    #[inline]
    pub(crate) fn admits(&self, waiting: Occupancy, size: u32) -> bool {
        waiting.packets < self.packets && waiting.bytes + u64::from(size) <= self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_in_packets_and_bytes_hold() {
        let queue = |packets, bytes| DropTail::new(&QueueConfig::DropTail { packets, bytes });
        let waiting = |packets, bytes| Occupancy { packets, bytes };
        assert!(queue(Some(2), None).admits(waiting(1, 1 << 40), 1500));
        assert!(!queue(Some(2), None).admits(waiting(2, 2), 1));
        assert!(queue(None, Some(3000)).admits(waiting(100, 1500), 1500));
        assert!(!queue(None, Some(3000)).admits(waiting(1, 1501), 1500));
        assert!(!queue(Some(1), Some(3000)).admits(waiting(1, 10), 10));
    }
}
