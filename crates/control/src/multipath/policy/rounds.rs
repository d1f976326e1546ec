//! Rounds in which a policy requests an action on several paths.

use super::Paths;
use crate::{Span, Time};

/// When the next round starts, and the remaining paths of this round.
#[derive(Debug)]
pub(super) struct Rounds {
    interval: Span,
    next: Time,
    to_ask: Vec<usize>,
}

impl Rounds {
    /// Creates rounds with this interval; the first one starts at once.
    pub(super) fn new(interval: Span) -> Self {
        Rounds {
            interval,
            next: Time::ZERO,
            to_ask: Vec::new(),
        }
    }

    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Returns whether a round is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    /// Starts a round with the paths for which `asks` returns true.
    pub(super) fn begin(&mut self, paths: &Paths<'_>, asks: impl Fn(usize) -> bool) {
        self.next = paths.now + self.interval;
        self.to_ask.clear();
        self.to_ask.extend((0..paths.views.len()).filter(|path| asks(*path)));
    }

    /// Returns the next path of the round.
    pub(super) fn take(&mut self) -> Option<usize> {
        self.to_ask.pop()
    }
}
