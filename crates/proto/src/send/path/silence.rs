//! Whether acknowledgements of what was sent on a path stay away. `spread/silence.rs` decides and acts.

use whimbrel_control::{Span, Time};

use super::Path;
use super::pacing::Silence;
use crate::config::NEVER;

/// The least lateness of an acknowledgement that counts as silence. Programs and links pause for some milliseconds.
const LEAST_LATENESS: Span = Span::from_millis(10);

impl Path {
    fn silence(&self) -> Option<&Silence> {
        self.restraint.as_deref().map(|restraint| &restraint.silence)
    }

    fn silence_mut(&mut self) -> &mut Silence {
        &mut self.restraint.get_or_insert_default().silence
    }

    /// Returns whether nothing that was sent on the path was acknowledged in time.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.silence().is_some_and(|silence| silence.since != NEVER)
    }

    /// The path is silent from now on. Returns whether a HEARTBEAT is to be sent: none is under way.
    pub(crate) fn begin_silence(&mut self, now: Time) -> bool {
        let asks = self.heartbeat.pending.is_none() && !self.heartbeat.requested;
        let silence = self.silence_mut();
        silence.since = now;
        silence.has_asked = asks;
        asks
    }

    pub(crate) fn end_silence(&mut self) {
        if let Some(restraint) = &mut self.restraint {
            restraint.silence.since = NEVER;
            restraint.silence.answer_due = NEVER;
        }
    }

    /// Returns whether the HEARTBEAT under way was sent because the path was silent.
    pub(crate) fn take_question(&mut self) -> bool {
        let silence = self.restraint.as_mut().map(|restraint| &mut restraint.silence);
        silence.is_some_and(|silence| core::mem::take(&mut silence.has_asked))
    }

    /// The HEARTBEAT under way has no answer. Returns whether a timeout of data has counted the same failure already: `sent` is when the HEARTBEAT
    /// was sent. Two timers of one failure must not double the RTO twice.
    pub(crate) fn on_question_unanswered(&mut self, sent: Time) -> bool {
        if !self.take_question() {
            return false;
        }
        let is_first = self.failed_at < sent;
        self.silence_mut().has_failed = is_first;
        !is_first
    }

    /// Returns whether the loss of a HEARTBEAT has counted the failure of what is in flight on the path.
    pub(crate) fn take_failure(&mut self) -> bool {
        let silence = self.restraint.as_mut().map(|restraint| &mut restraint.silence);
        silence.is_some_and(|silence| core::mem::take(&mut silence.has_failed))
    }

    /// Returns when the answer to the HEARTBEAT is late that was sent when the path became silent.
    pub(crate) fn left_at(&self) -> Time {
        self.silence()
            .map_or(NEVER, |silence| self.late_at(silence.since, silence.since, Span::ZERO))
    }

    /// Returns when a chunk that was sent on the silent path at `sent` is to be sent on another one: when its acknowledgement is late, and at once
    /// if it was sent in the silence.
    #[inline]
    pub(crate) fn rescue_at(&self, sent: Time) -> Time {
        if self.silence().is_some_and(|silence| sent >= silence.since) {
            return sent;
        }
        self.late_at(sent, sent, Span::ZERO)
    }

    /// Returns when the path is silent, if nothing that was sent on it is acknowledged before.
    #[inline]
    pub(crate) fn answer_due(&self) -> Time {
        self.silence().map_or(NEVER, |silence| silence.answer_due)
    }

    pub(crate) fn set_answer_due(&mut self, at: Time) {
        if at != NEVER || self.restraint.is_some() {
            self.silence_mut().answer_due = at;
        }
    }

    /// The last chunk sent on the path asks for a SACK at once, or not.
    #[inline]
    pub(crate) fn note_request(&mut self, asks: bool) {
        if asks || self.restraint.is_some() {
            let silence = self.silence_mut();
            silence.asks_for_sack = asks;
            silence.has_failed = false;
        }
    }

    /// Returns how long the SACK for a chunk may be delayed that is alone in flight on the path.
    pub(crate) fn delay_of_lone_sack(&self, sack_delay: Span) -> Span {
        let asks = self.silence().is_some_and(|silence| silence.asks_for_sack);
        if asks { Span::ZERO } else { sack_delay }
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
