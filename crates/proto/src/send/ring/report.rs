//! What the processing of a SACK by the ring of outstanding chunks needs from `Sending`, and what it reports.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::Tsn;

use crate::PathId;

/// The new information of a SACK about one path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PathAck {
    /// Bytes acknowledged for the first time, chunk headers and padding included.
    pub(crate) acked: u64,
    /// Bytes in flight before the SACK.
    pub(crate) flight_before: u64,
    /// Data was acknowledged again, after the receiver had reneged on it.
    pub(crate) again: bool,
    /// The earliest chunk in flight on the path was acknowledged.
    pub(crate) earliest_acked: bool,
    /// When the newest chunk acknowledged for the first time was sent, if it was sent only once.
    pub(crate) newest_sent_at: Option<Time>,
    /// The latest time at which a chunk acknowledged for the first time was sent, of those that were sent on this path only: the
    /// acknowledgement of any other may belong to a transmission on another path.
    pub(crate) sent_here_at: Option<Time>,
    /// The latest time at which a chunk that was sent on several paths was sent on this one, of those acknowledged for the first time, too early for
    /// any other transmission.
    pub(crate) only_this_at: Option<Time>,
    /// Time of sending and position of the chunk that was sent last, of those acknowledged for the first time and without those whose
    /// acknowledgement may belong to an earlier transmission.
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
    /// The number of chunks among them whose message had been given up: they are not retransmitted.
    pub(crate) lost_given_up: u32,
    /// Chunks acknowledged for the first time.
    pub(crate) packets: u32,
    /// Position of the newest of them.
    pub(crate) newest: Seq,
    /// With accounting per path: the cumulative ack point of the path advanced.
    pub(crate) advanced: bool,
    /// The window had been reduced for this window of data when the SACK arrived. Set by `acknowledge.rs`.
    pub(crate) was_reduced: bool,
    /// cwnd was fully utilized before the SACK. Set by `acknowledge.rs`.
    pub(crate) filled: bool,
}

impl PathAck {
    /// Records a chunk acknowledged for the first time. `only_here`: it was sent on this path only, or this transmission is known to have
    /// arrived.
    #[inline]
    pub(super) fn credit(&mut self, position: Seq, bytes: u64, sent_at: Time, retransmitted: bool, only_here: bool) {
        self.acked += bytes;
        self.packets += 1;
        // TSNs are in ascending order; the PSNs of a path may not be.
        if position >= self.newest {
            self.newest = position;
            self.newest_sent_at = (!retransmitted).then_some(sent_at);
        }
        if only_here {
            self.sent_here_at = self.sent_here_at.max(Some(sent_at));
        }
    }

    /// Records that a chunk sent at that time has arrived.
    #[inline]
    pub(super) fn note_latest(&mut self, sent_at: Time, position: Seq) {
        self.latest = self.latest.max(Some((sent_at, position)));
    }

    /// Records a chunk declared lost.
    pub(super) fn lose(&mut self, position: Seq, tsn: Tsn, bytes: u64) {
        if self.lost == 0 || position < self.first_lost {
            self.first_lost = position;
            self.lost_tsn = tsn;
        }
        self.lost += 1;
        self.last_lost = self.last_lost.max(position);
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

    #[inline]
    pub(crate) fn of_mut(&mut self, path: PathId) -> &mut PathAck {
        &mut self.0[path.index()]
    }
}

/// The result of processing a SACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SackOutcome {
    /// Its cumulative TSN ack is before the cumulative ack point: another SACK overtook it, and it is dropped (RFC 9260
    /// §6.2.1 D i).
    Old,
    /// Its cumulative TSN ack is before the cumulative ack point, but it reported copies that have arrived.
    /// [`Outstanding::take_report`](super::Outstanding::take_report) returns the report for each path.
    OldWithCopies,
    /// It acknowledges a TSN that was never sent.
    Impossible,
    /// It was processed; [`Outstanding::take_report`](super::Outstanding::take_report) returns the report for each path.
    Processed {
        /// The cumulative ack point moved.
        advanced: bool,
        /// At least one chunk was acknowledged, for the first time or after the receiver had reneged on it.
        newly_acked: bool,
        /// The receiver reneged on an acknowledged chunk.
        reneged: bool,
    },
}

/// Callbacks of `SackRecorder` for single chunks while a SACK is processed.
pub(crate) trait SackObserver {
    /// Called when a chunk was acknowledged for the first time.
    fn acked(&mut self, seq: Seq, tsn: Tsn, path: u8, sent_at: Time, retransmitted: bool);
    /// Called when missing reports declared a chunk lost.
    fn lost(&mut self, tsn: Tsn, path: u8);
    /// Whether a transmission on the path at that time can have been acknowledged by now.
    fn may_answer(&self, path: u8, sent_at: Time) -> bool;
    /// Whether a transmission on the path at that time is too recent to be acknowledged by this SACK: it was sent less than the
    /// shortest round-trip time ago.
    fn is_too_recent(&self, path: u8, sent_at: Time) -> bool;
    /// How much earlier this SACK has arrived than one that was sent at the same time on this path: a duplicate that the receiver
    /// reported there before may still be on its way.
    fn lead(&self, path: u8) -> Span;
    /// With accounting for each path: whether the path is in fast recovery.
    fn in_recovery(&self, path: usize) -> bool;
    /// For a chunk that was sent on several paths: how unlikely it is that this SACK reports the transmission on this path at that
    /// time, or `None` if that is impossible. `again`: the SACK reports the chunk as a duplicate.
    fn implausibility(&self, path: u8, sent_at: Time, again: bool) -> Option<Implausibility>;
    /// Called when a copy sent on this path at that time has arrived after the chunk. `doubtful`: the order may have been the
    /// opposite.
    fn copy_arrived(&mut self, seq: Seq, path: u8, sent_at: Time, doubtful: bool);
    /// For a chunk that was sent on several paths: called when the transmission on this path at that time is lost, as opposed to its
    /// retransmission.
    fn given_up(&mut self, seq: Seq, path: u8, sent_at: Time);

    /// Returns a timestamp of a packet that has arrived, if timestamps identify packets; the first one has index 0.
    fn echo(&self, index: usize) -> Option<u64> {
        let _ = index;
        None
    }

    /// Whether the timestamps show that a SACK sent later has arrived before.
    fn is_overtaken(&self) -> bool {
        false
    }

    /// Whether the SACK arrived on this path. The first packet of a path that is not confirmed yet is acknowledged on another one, which
    /// does not measure the round-trip time of the path.
    fn arrived_here(&self, path: u8) -> bool {
        let _ = path;
        true
    }

    /// Called instead of [`acked`](Self::acked) if timestamps report which transmission has arrived.
    fn acked_by_some(&mut self, tsn: Tsn, path: u8) {
        let _ = (tsn, path);
    }

    /// Called when a timestamp reports that the transmission of a chunk on this path at that time has arrived.
    fn echoed(&mut self, seq: Seq, path: u8, sent_at: Time) {
        let _ = (seq, path, sent_at);
    }
}

/// How unlikely an explanation is. The least value is the most likely one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Implausibility {
    /// Another path is more likely.
    pub(crate) elsewhere: bool,
    /// The difference between the time taken and the expected time.
    pub(crate) off: Span,
    /// The path has no RTT sample yet, so that any time is possible.
    pub(crate) unmeasured: bool,
}

/// The rules for counting missing reports of this SACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MissingRules {
    /// Number of missing reports that declare a loss.
    pub(crate) limit: u8,
    /// Whether the association is in fast recovery. With accounting for each path, [`SackObserver::in_recovery`] is used instead.
    pub(crate) in_recovery: bool,
    /// With accounting for each path: if fewer chunks than the limit are outstanding on a path, fewer reports are enough.
    pub(crate) early: bool,
    /// Packets received since the previous SACK according to the receiver, 0 if it does not report them; CMT counts
    /// them (DAC).
    pub(crate) arrivals: u8,
    pub(crate) extent: Extent,
}

/// What a SACK says about TSNs above its last Gap Ack Block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extent {
    /// They are not held.
    Whole,
    /// The packet had room for more blocks: they are not held, unless the peer limits the number of blocks further.
    Roomy,
    /// Nothing: the packet had no room for more blocks, or the chunk has none. Only what directly follows its last block, or its cumulative
    /// TSN ack, is not held.
    Cut,
}
