//! When an acknowledgement of what was sent on a path is late, and what its silence means.

use whimbrel_control::{Span, Time};

use super::Path;
use super::silence::Silence;
use crate::config::NEVER;

/// The least lateness of an acknowledgement that counts as silence. Programs and links pause for some milliseconds.
const LEAST_LATENESS: Span = Span::from_millis(10);

impl Path {
    #[inline]
    fn silence(&self) -> Option<&Silence> {
        self.restraint.as_deref().map(|restraint| &restraint.silence)
    }

    /// Returns the state if there is any: most schemes need none.
    #[inline]
    fn silence_there(&mut self) -> Option<&mut Silence> {
        self.restraint.as_deref_mut().map(|restraint| &mut restraint.silence)
    }

    fn silence_mut(&mut self) -> &mut Silence {
        &mut self.restraint.get_or_insert_default().silence
    }

    /// Returns whether nothing that was sent on the path was acknowledged in time.
    #[inline]
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_since().is_some()
    }

    /// Returns since when nothing that was sent on the path was acknowledged in time, if so.
    #[inline]
    pub(crate) fn silent_since(&self) -> Option<Time> {
        self.silence().and_then(Silence::since)
    }

    /// The path is silent from now on. Returns whether a HEARTBEAT is to be sent: none is under way.
    pub(crate) fn begin_silence(&mut self, now: Time) -> bool {
        let asks = self.heartbeat.pending.is_none() && !self.heartbeat.requested;
        self.silence_mut().begin(now, asks);
        asks
    }

    pub(crate) fn end_silence(&mut self) {
        if let Some(silence) = self.silence_there() {
            silence.end();
        }
    }

    /// Returns whether the HEARTBEAT under way was sent because the path was silent; once.
    pub(crate) fn take_question(&mut self) -> bool {
        self.silence_there().is_some_and(Silence::take_question)
    }

    /// Returns whether the loss of the HEARTBEAT under way is that of a failure that a timeout of data has counted since it was sent.
    pub(crate) fn has_failed_since_heartbeat(&self) -> bool {
        self.failed_at >= self.heartbeat.sent_at
    }

    /// The loss of a HEARTBEAT that was sent in silence was counted as a failure of the path.
    pub(crate) fn note_counted(&mut self) {
        self.silence_mut().on_counted();
    }

    /// Returns whether the loss of a HEARTBEAT has counted the failure of what is in flight on the path; once.
    pub(crate) fn take_counted(&mut self) -> bool {
        self.silence_there().is_some_and(Silence::take_counted)
    }

    /// Returns when the answer to the HEARTBEAT is late that was sent when the path became silent; [`NEVER`] if it is not silent.
    pub(crate) fn left_at(&self) -> Time {
        self.silent_since()
            .map_or(NEVER, |since| self.late_at(since, since, Span::ZERO))
    }

    /// Returns when a chunk that was sent on the silent path at `sent` is to be sent on another one: when its acknowledgement is late, and at once
    /// if it was sent in the silence.
    #[inline]
    pub(crate) fn rescue_at(&self, sent: Time) -> Time {
        if self.silent_since().is_some_and(|since| sent >= since) {
            return sent;
        }
        self.late_at(sent, sent, Span::ZERO)
    }

    /// Returns when the path is silent, if nothing that was sent on it is acknowledged before.
    #[inline]
    pub(crate) fn answer_due(&self) -> Time {
        self.silence().map_or(NEVER, Silence::due)
    }

    pub(crate) fn set_answer_due(&mut self, at: Time) {
        match self.silence_there() {
            Some(silence) => silence.set_due(at),
            None if at == NEVER => {}
            None => self.silence_mut().set_due(at),
        }
    }

    /// A chunk was sent on the path, which asks for a SACK at once or not.
    #[inline]
    pub(crate) fn note_request(&mut self, asks: bool) {
        match self.silence_there() {
            Some(silence) => silence.on_chunk(asks),
            None if !asks => {}
            None => self.silence_mut().on_chunk(asks),
        }
    }

    /// Returns how long the SACK for a chunk may be delayed that is alone in flight on the path.
    pub(crate) fn delay_of_lone_sack(&self, sack_delay: Span) -> Span {
        let asks = self.silence().is_some_and(Silence::asks_for_sack);
        if asks { Span::ZERO } else { sack_delay }
    }

    /// Returns when an acknowledgement is late: of a chunk sent at `sent`, or of data in flight when the last one came, now. [`NEVER`] if no
    /// round-trip time is known.
    pub(crate) fn late_at(&self, sent: Time, now: Time, patience: Span) -> Time {
        let Some(srtt) = self.rtt.srtt() else {
            return NEVER;
        };
        let lateness = (self.rtt.rttvar() * 4).max(srtt / 4).max(LEAST_LATENESS);
        (sent + srtt + patience).max(now) + lateness
    }
}
