//! Simulated time for the drivers of stacks, exact to the nanosecond.

use std::sync::Arc;
use std::task::Context;
use std::time::{Duration, Instant};

use whimbrel_control::{Span, Time};

use super::network::Shared;

/// The time of a simulation, as a node sees it.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    pub(super) shared: Arc<Shared>,
    pub(super) node: usize,
    /// What tokio's clock of the node showed at the start of the simulation.
    pub(super) base: Instant,
}

impl Clock {
    pub(crate) fn now(&self) -> Time {
        self.shared.now()
    }

    pub(crate) fn instant(&self, time: Time) -> Option<Instant> {
        let elapsed: Span = time.since(Time::ZERO);
        self.base.checked_add(Duration::from_nanos(elapsed.as_nanos()))
    }

    pub(crate) fn timer(&self) -> Timer {
        Timer {
            clock: self.clone(),
            pending: None,
        }
    }
}

/// A timer of a driver. The simulation wakes the driver's node when it is due.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    /// Its deadline and its number among the timers of the simulation.
    pending: Option<(Time, u64)>,
}

impl Timer {
    /// Sets the timer and arranges a wake-up; returns whether it is due.
    pub(crate) fn poll(&mut self, cx: &Context<'_>, deadline: Option<Time>) -> bool {
        let due = deadline.is_some_and(|deadline| deadline <= self.clock.now());
        let wanted = deadline.filter(|_| !due);
        if self.pending.map(|(at, _)| at) != wanted {
            self.clear();
            if let Some(at) = wanted {
                let mut network = self.clock.shared.lock();
                self.pending = Some((at, network.set_timer(at, self.clock.node, cx.waker())));
            }
        }
        due
    }

    fn clear(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.clock.shared.lock().clear_timer(pending);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.clear();
    }
}
