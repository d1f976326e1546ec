//! Progress and cancellation of a run from another thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use whimbrel_control::Time;

/// Shared between a run and a thread that observes it.
#[derive(Debug, Default)]
pub struct RunControl {
    cancelled: AtomicBool,
    reached: AtomicU64,
    events: AtomicU64,
}

impl RunControl {
    /// Creates a control without cancellation.
    pub const fn new() -> Self {
        RunControl {
            cancelled: AtomicBool::new(false),
            reached: AtomicU64::new(0),
            events: AtomicU64::new(0),
        }
    }

    /// Stops the run at its next check. Its result covers the time up to there.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns whether the run was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Returns the simulated time that the run has reached, at most a few thousand events ago.
    pub fn reached(&self) -> Time {
        Time::from_nanos(self.reached.load(Ordering::Relaxed))
    }

    /// Returns the number of events processed at that time.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(crate) fn report(&self, reached: Time, events: u64) {
        self.reached.store(reached.as_nanos(), Ordering::Relaxed);
        self.events.store(events, Ordering::Relaxed);
    }
}
