//! Whether acknowledgements of what was sent on a path stay away: the state of one path. `answers.rs` asks it, and `spread/silence.rs` acts.

use whimbrel_control::Time;

use crate::config::NEVER;

/// What is known of the acknowledgements of a path.
#[derive(Debug)]
pub(super) struct Silence {
    /// Since when nothing that was sent on the path was acknowledged in time; [`NEVER`] if it was.
    since: Time,
    /// When the path is silent, if nothing that was sent on it is acknowledged before.
    due: Time,
    /// The last chunk sent on the path asks for a SACK at once.
    asks_for_sack: bool,
    /// The HEARTBEAT under way was sent because the path is silent.
    has_asked: bool,
    /// The loss of that HEARTBEAT was counted, and no data has been sent on the path since.
    is_counted: bool,
}

impl Default for Silence {
    fn default() -> Self {
        Silence {
            since: NEVER,
            due: NEVER,
            asks_for_sack: false,
            has_asked: false,
            is_counted: false,
        }
    }
}

impl Silence {
    /// Returns since when the path is silent, if it is.
    #[inline]
    pub(super) fn since(&self) -> Option<Time> {
        (self.since != NEVER).then_some(self.since)
    }

    #[inline]
    pub(super) fn due(&self) -> Time {
        self.due
    }

    pub(super) fn set_due(&mut self, due: Time) {
        self.due = due;
    }

    /// The path is silent from now on; `asks`: a HEARTBEAT is sent.
    pub(super) fn begin(&mut self, now: Time, asks: bool) {
        self.since = now;
        self.has_asked = asks;
    }

    pub(super) fn end(&mut self) {
        self.since = NEVER;
        self.due = NEVER;
    }

    /// A chunk was sent on the path, which asks for a SACK at once or not.
    #[inline]
    pub(super) fn on_chunk(&mut self, asks: bool) {
        self.asks_for_sack = asks;
        self.is_counted = false;
    }

    pub(super) fn asks_for_sack(&self) -> bool {
        self.asks_for_sack
    }

    /// Returns whether the HEARTBEAT under way was sent because the path was silent; once.
    pub(super) fn take_question(&mut self) -> bool {
        core::mem::take(&mut self.has_asked)
    }

    /// The loss of that HEARTBEAT was counted.
    pub(super) fn on_counted(&mut self) {
        self.is_counted = true;
    }

    /// Returns whether the loss of the HEARTBEAT has counted the failure of what is in flight on the path; once.
    pub(super) fn take_counted(&mut self) -> bool {
        core::mem::take(&mut self.is_counted)
    }
}
