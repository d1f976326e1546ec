//! The timers of a path, and the chunk whose round-trip time is being measured.

use whimbrel_control::{Seq, Span, Time};

use super::Path;
use super::timed::Timed;
use crate::config::NEVER;

impl Path {
    /// Returns when T3-rtx expires.
    #[inline]
    pub(crate) fn t3(&self) -> Time {
        self.t3
    }

    #[inline]
    pub(crate) fn t3_runs(&self) -> bool {
        self.t3 != NEVER
    }

    #[inline]
    pub(crate) fn t3_expired(&self, now: Time) -> bool {
        self.t3 <= now
    }

    #[inline]
    pub(crate) fn start_t3(&mut self, now: Time) {
        self.t3 = now + self.timeout();
    }

    #[inline]
    pub(crate) fn stop_t3(&mut self) {
        self.t3 = NEVER;
    }

    /// Lets T3-rtx expire now, if it runs.
    pub(crate) fn expire_t3(&mut self, now: Time) {
        if self.t3_runs() {
            self.t3 = now;
        }
    }

    /// A chunk was sent on the path. T3-rtx starts if it does not run (RFC 9260 §6.3.2 rule R1). A retransmission of the earliest chunk in
    /// flight restarts it (§6.1, §7.2.4 item 4); a new chunk is the earliest one only if no other chunk is in flight.
    #[inline]
    pub(crate) fn on_chunk_sent(&mut self, now: Time, is_earliest: bool) {
        if !self.t3_runs() || is_earliest {
            self.start_t3(now);
        }
    }

    /// Measures the round-trip time of this chunk, unless one is being measured (RFC 9260 §6.3.1 rule C4).
    #[inline]
    pub(crate) fn time_chunk(&mut self, seq: Seq, now: Time) {
        if self.timed.is_none() {
            self.timed = Some(Timed::new(seq, now));
        }
    }

    /// Returns the chunk whose round-trip time is being measured.
    pub(crate) fn timed_chunk(&self) -> Option<Seq> {
        self.timed.map(Timed::seq)
    }

    pub(crate) fn stop_timing(&mut self) {
        self.timed = None;
    }

    /// Ends the measurement if it is that of this transmission. Returns whether it is.
    #[inline]
    pub(crate) fn end_timing(&mut self, seq: Seq, sent_at: Time) -> bool {
        self.timed.take_if(|timed| *timed == Timed::new(seq, sent_at)).is_some()
    }

    /// A round-trip time has been measured.
    #[inline]
    pub(crate) fn on_sampled(&mut self, now: Time) {
        self.timed = None;
        self.sampled_at = now;
    }

    /// Returns whether a packet sent at this time may measure the round-trip time: no chunk is being measured, and none was since then.
    #[inline]
    pub(crate) fn may_sample(&self, sent: Time) -> bool {
        self.timed_chunk().is_none() && sent >= self.sampled_at
    }

    /// Returns the retransmission timeout in use.
    #[inline]
    pub(crate) fn timeout(&self) -> Span {
        match &self.recovery {
            Some(recovery) if !recovery.timeout.is_zero() => recovery.timeout,
            _ => self.rtt.rto(),
        }
    }

    /// Returns when the timer of heartbeats expires.
    #[inline]
    pub(crate) fn heartbeat_due(&self) -> Time {
        self.heartbeat.timer
    }

    /// Returns when the path's next timer expires.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Time {
        let mut next = self
            .t3
            .min(self.heartbeat.timer)
            .min(self.release)
            .min(self.answer_due());
        if let Some(search) = &self.mtu_search {
            next = next.min(search.timer());
        }
        match &self.recovery {
            None => next,
            Some(recovery) => next.min(recovery.tail_probe),
        }
    }
}
