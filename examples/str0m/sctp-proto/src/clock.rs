//! Times of the caller and of Whimbrel.

use std::time::{Duration, Instant};

use whimbrel_datachannel::{Span, Time};

/// Translates times. Whimbrel's begin with 0 at the first time that the caller gives: what the caller does before happens then.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    origin: Option<Instant>,
    now: Time,
}

impl Clock {
    /// Takes in a time of the caller. Times do not go back.
    pub(crate) fn set(&mut self, now: Instant) -> Time {
        let origin = *self.origin.get_or_insert(now);
        let nanos = now.saturating_duration_since(origin).as_nanos();
        let time = Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2));
        self.now = self.now.max(time);
        self.now
    }

    /// Returns the latest time of the caller.
    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Returns a time of Whimbrel as one of the caller.
    pub(crate) fn instant(&self, time: Time) -> Option<Instant> {
        self.origin?.checked_add(Duration::from_nanos(time.as_nanos()))
    }
}

/// Returns a number of milliseconds.
pub(crate) fn millis(millis: u64) -> Span {
    // Longer than any timer.
    Span::from_millis(millis.min(86_400_000))
}
