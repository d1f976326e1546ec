//! The report of one SACK about one path.

use whimbrel_control::{Seq, Time};
use whimbrel_wire::Tsn;

use crate::PathId;

/// The new information of a SACK about one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathAck {
    /// Bytes acknowledged for the first time, chunk headers and padding included.
    pub(crate) acked: u64,
    /// Bytes in flight before the SACK.
    pub(crate) flight_before: u64,
    /// The earliest chunk in flight on the path was among them.
    pub(crate) earliest_acked: bool,
    /// When the newest of them was sent, if it was sent only once.
    pub(crate) newest_sent_at: Option<Time>,
    /// When the newest of them was sent last.
    pub(crate) newest_at: Option<Time>,
    /// Time of sending and position of the chunk among them that was sent last, without chunks whose acknowledgement may belong to an
    /// earlier transmission.
    pub(crate) latest: Option<(Time, Seq)>,
    /// Chunks declared lost by missing reports.
    pub(crate) lost: u32,
    /// Position of the first of them.
    pub(crate) first_lost: Seq,
    /// Position of the last of them.
    pub(crate) last_lost: Seq,
    /// TSN of the first of them.
    pub(crate) lost_tsn: Tsn,
    /// Their bytes, chunk headers and padding included.
    pub(crate) lost_bytes: u64,
    /// The number of copies among them; the loss of a copy is no loss of data.
    pub(crate) lost_copies: u32,
    /// Chunks acknowledged for the first time.
    pub(crate) packets: u32,
    /// Position of the newest of them.
    pub(crate) newest: Seq,
    /// With accounting per path: the cumulative ack point of the path advanced.
    pub(crate) advanced: bool,
}

impl PathAck {
    /// Records a chunk acknowledged for the first time.
    #[inline]
    pub(super) fn credit(&mut self, position: Seq, bytes: u64, sent_at: Time, retransmitted: bool) {
        self.acked += bytes;
        self.packets += 1;
        // TSNs are in ascending order; the PSNs of a path may not be.
        if position >= self.newest {
            self.newest = position;
            self.newest_sent_at = (!retransmitted).then_some(sent_at);
            self.newest_at = Some(sent_at);
        }
    }

    /// Records that a chunk sent at that time has arrived.
    #[inline]
    pub(super) fn note_latest(&mut self, sent_at: Time, position: Seq) {
        self.latest = self.latest.max(Some((sent_at, position)));
    }

    /// Records a chunk declared lost.
    pub(super) fn lose(&mut self, position: Seq, tsn: Tsn, bytes: u64) {
        if self.lost == 0 {
            self.first_lost = position;
            self.lost_tsn = tsn;
        }
        self.lost += 1;
        self.last_lost = position;
        self.lost_bytes += bytes;
    }
}

/// The report of a SACK, by path.
#[derive(Debug)]
pub(crate) struct SackReport(pub(super) Vec<PathAck>);

impl SackReport {
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &PathAck {
        &self.0[path.index()]
    }
}
