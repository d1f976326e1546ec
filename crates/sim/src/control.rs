//! A run seen from outside while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use whimbrel_control::Time;

/// Shared between a run and whoever watches over it from another thread.
#[derive(Debug, Default)]
pub struct RunControl {
    cancelled: AtomicBool,
    reached: AtomicU64,
    events: AtomicU64,
}

impl RunControl {
    /// A control that lets the run go on.
    pub const fn new() -> Self {
        RunControl {
            cancelled: AtomicBool::new(false),
            reached: AtomicU64::new(0),
            events: AtomicU64::new(0),
        }
    }

    /// Tells the run to stop at its next opportunity. Its result covers the time up to there.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether the run was told to stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// The simulated time that the run has reached, a few thousand events ago at most.
    pub fn reached(&self) -> Time {
        Time::from_nanos(self.reached.load(Ordering::Relaxed))
    }

    /// The events it had processed then.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(crate) fn report(&self, reached: Time, events: u64) {
        self.reached.store(reached.as_nanos(), Ordering::Relaxed);
        self.events.store(events, Ordering::Relaxed);
    }
}
