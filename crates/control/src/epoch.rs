//! Windows of data in which one reaction to loss has been made.

use core::num::NonZeroU64;

use crate::sample::Seq;

/// A window of data for which one reaction to loss has taken place. Until all data outstanding at that time is
/// acknowledged, further gaps cause no further reduction (RFC 9260 §7.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryEpoch {
    /// The first position after the window of data in recovery. An idle path stores several epochs, so an epoch has 8
    /// bytes and not 16.
    end: Option<NonZeroU64>,
}

impl RecoveryEpoch {
    /// Returns whether a recovery is in progress.
    pub fn is_active(&self) -> bool {
        self.end.is_some()
    }

    /// Returns whether a recovery is in progress and this position was outstanding when it began.
    pub fn covers(&self, position: Seq) -> bool {
        self.end.is_some_and(|end| position < end.get())
    }

    /// Starts a recovery that lasts until `highest_outstanding` is cumulatively acknowledged.
    pub fn enter(&mut self, highest_outstanding: Seq) {
        self.end = NonZeroU64::new(highest_outstanding.saturating_add(1));
    }

    /// Handles the cumulative acknowledgement of all data up to and including `acked`. Returns whether that ended a
    /// recovery.
    pub fn on_cumulative_ack(&mut self, acked: Seq) -> bool {
        let over = self.end.is_some_and(|end| acked >= end.get() - 1);
        if over {
            self.end = None;
        }
        over
    }

    /// Ends the recovery, for instance because of a timeout.
    pub fn leave(&mut self) {
        self.end = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_ends_with_its_window_of_data() {
        // RFC 9260 §7.2.4 item 6
        let mut epoch = RecoveryEpoch::default();
        assert!(!epoch.on_cumulative_ack(100));
        epoch.enter(7);
        assert!(!epoch.on_cumulative_ack(6));
        assert!(epoch.is_active());
        assert!(epoch.on_cumulative_ack(7));
        assert!(!epoch.is_active());
    }
}
