//! Whether acknowledgements of what was sent on a path stay away. `spread/silence.rs` decides and acts.

use whimbrel_control::{Span, Time};

use super::Path;
use crate::config::NEVER;

/// The least lateness of an acknowledgement that counts as silence. Programs and links pause for some milliseconds.
const LEAST_LATENESS: Span = Span::from_millis(10);

impl Path {
    /// Returns whether nothing that was sent on the path was acknowledged in time.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_since != NEVER
    }

    /// The path is silent from now on. Returns whether a HEARTBEAT is to be sent: none is under way.
    pub(crate) fn begin_silence(&mut self, now: Time) -> bool {
        self.silent_since = now;
        self.asked_in_silence = self.heartbeat.pending.is_none() && !self.heartbeat.requested;
        self.asked_in_silence
    }

    /// Returns whether the HEARTBEAT under way was sent because the path was silent.
    pub(crate) fn take_question(&mut self) -> bool {
        core::mem::take(&mut self.asked_in_silence)
    }

    pub(crate) fn end_silence(&mut self) {
        self.silent_since = NEVER;
        self.answer_due = NEVER;
    }

    /// The HEARTBEAT under way has no answer. Returns whether a timeout of data has counted the same failure already: `sent` is when the HEARTBEAT
    /// was sent. Two timers of one failure must not double the RTO twice.
    pub(crate) fn on_question_unanswered(&mut self, sent: Time) -> bool {
        if !self.take_question() {
            return false;
        }
        self.failed_in_silence = self.failed_at < sent;
        !self.failed_in_silence
    }

    /// Returns whether the loss of a HEARTBEAT has counted the failure of what is in flight on the path.
    pub(crate) fn take_failure(&mut self) -> bool {
        core::mem::take(&mut self.failed_in_silence)
    }

    /// Returns when the answer to the HEARTBEAT is late that was sent when the path became silent.
    pub(crate) fn left_at(&self) -> Time {
        self.late_at(self.silent_since, self.silent_since, Span::ZERO)
    }

    /// Returns when a chunk that was sent on the silent path at `sent` is to be sent on another one: when its acknowledgement is late, and at once
    /// if it was sent in the silence.
    #[inline]
    pub(crate) fn rescue_at(&self, sent: Time) -> Time {
        if sent >= self.silent_since {
            return sent;
        }
        self.late_at(sent, sent, Span::ZERO)
    }

    /// Returns when the path is silent, if nothing that was sent on it is acknowledged before.
    #[inline]
    pub(crate) fn answer_due(&self) -> Time {
        self.answer_due
    }

    pub(crate) fn set_answer_due(&mut self, at: Time) {
        self.answer_due = at;
    }

    /// The last chunk sent on the path asks for a SACK at once, or not.
    #[inline]
    pub(crate) fn note_request(&mut self, asks: bool) {
        self.asks_for_sack = asks;
        self.failed_in_silence = false;
    }

    /// Returns how long the SACK for a chunk may be delayed that is alone in flight on the path.
    pub(crate) fn delay_of_lone_sack(&self, sack_delay: Span) -> Span {
        if self.asks_for_sack { Span::ZERO } else { sack_delay }
    }

    /// Returns when an acknowledgement is late: of a chunk sent at `sent`, or of data in flight when the last one came, now.
    pub(crate) fn late_at(&self, sent: Time, now: Time, patience: Span) -> Time {
        let Some(srtt) = self.rtt.srtt() else {
            return NEVER;
        };
        let lateness = (self.rtt.rttvar() * 4).max(srtt / 4).max(LEAST_LATENESS);
        (sent + srtt + patience).max(now) + lateness
    }
}
