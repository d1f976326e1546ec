//! Rounds in which a policy asks something of several paths.

use super::Paths;
use crate::{Span, Time};

/// When the next round begins, and the paths still to be asked in this one.
#[derive(Debug)]
pub(super) struct Rounds {
    interval: Span,
    next: Time,
    to_ask: Vec<usize>,
}

impl Rounds {
    /// Rounds so far apart; the first one begins at once.
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

    /// Whether a round is due.
    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next <= now
    }

    /// A round begins, in which each path is asked that `asks` names.
    pub(super) fn begin(&mut self, paths: &Paths<'_>, asks: impl Fn(usize) -> bool) {
        self.next = paths.now + self.interval;
        self.to_ask.clear();
        self.to_ask.extend((0..paths.views.len()).filter(|path| asks(*path)));
    }

    /// A path to be asked.
    pub(super) fn take(&mut self) -> Option<usize> {
        self.to_ask.pop()
    }
}
