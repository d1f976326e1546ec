//! A chunk in the ring of outstanding chunks, and its state.

use whimbrel_control::Time;

use crate::send::queue::Fragment;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Sent, neither acknowledged nor declared lost.
    InFlight,
    /// Acknowledged by a gap ack block.
    Acked,
    /// Declared lost, waiting for its retransmission.
    Lost,
}

/// A chunk in the ring.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) fragment: Fragment,
    pub(super) sent_at: Time,
    /// Length of the chunk before the user data.
    pub(super) header: u8,
    pub(super) fate: Fate,
    /// The path of its last transmission.
    pub(super) path: u8,
    /// Number of missing reports.
    pub(super) missing: u8,
    pub(super) retransmitted: bool,
    /// Retransmitted on another path than before: its PSN is that of a retransmission.
    pub(super) moved: bool,
    /// Declared lost by a timeout instead of missing reports.
    pub(super) timed_out: bool,
    /// Declared lost by missing reports: not eligible for another fast retransmit (RFC 9260 §7.2.4 item 5).
    pub(super) fast_retransmitted: bool,
    /// Acknowledged before, even if the receiver reneged later.
    pub(super) credited: bool,
    /// A copy was sent on another path.
    pub(super) copied: bool,
    /// Without a report, but no longer in the network: a chunk sent after it on the path has arrived, and the SACKs had no room to report
    /// on it. Its bytes do not count as in flight.
    pub(super) unreported: bool,
}

impl Slot {
    /// Bytes that count for congestion control: the chunk with header and padding (RFC 9260 §7.2).
    // [9260:7.2-4]
    pub(super) fn chunk_len(&self) -> u64 {
        (usize::from(self.header) + self.fragment.payload.len()).next_multiple_of(4) as u64
    }

    pub(super) fn data_len(&self) -> u64 {
        self.fragment.payload.len() as u64
    }

    /// The bytes of user data, if they are those of a long message.
    pub(super) fn long_len(&self) -> u64 {
        if self.fragment.is_long { self.data_len() } else { 0 }
    }

    /// Returns the share of a chunk in the bytes in flight and in the user data in flight.
    pub(super) fn bytes_in_flight(&self) -> (u64, u64) {
        if self.unreported {
            (0, 0)
        } else {
            (self.chunk_len(), self.data_len())
        }
    }
}
