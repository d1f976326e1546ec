//! First in, first out, with a limit.

use super::QueueConfig;

/// Length of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Occupancy {
    pub(crate) packets: u32,
    pub(crate) bytes: u64,
}

/// The limit of a queue: all of a drop-tail queue, and part of [`super::Active`] queues.
///
/// Such a queue decides at arrivals, and so does RED; with first-in-first-out order the departure times are then known, and no
/// event is needed. A queue that decides at departures (CoDel) or that reorders (FQ) needs an event for each departure: see the
/// second kind of transmitter in `link`.
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

    /// Returns whether there is room for a packet of `size` bytes.
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
