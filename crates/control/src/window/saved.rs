//! The window to restore after a recovery or ProbeRTT: BBRSaveCwnd and BBRRestoreCwnd, the same in versions 1 and 3.

use crate::epoch::RecoveryEpoch;
use crate::sample::{AckSample, LossEvent};
use crate::view::WindowView;

/// A recovery, and the window before it.
#[derive(Clone, Debug, Default)]
pub(super) struct SavedWindow {
    recovery: RecoveryEpoch,
    cwnd: u64,
}

impl SavedWindow {
    /// Saves the window. A window reduced by a recovery or ProbeRTT does not replace a larger saved one.
    pub(super) fn save(&mut self, window: WindowView, in_probe_rtt: bool) {
        self.cwnd = if self.is_recovering() || in_probe_rtt {
            self.cwnd.max(window.cwnd)
        } else {
            window.cwnd
        };
    }

    /// Starts a recovery after a loss.
    pub(super) fn enter(&mut self, window: WindowView, loss: &LossEvent, in_probe_rtt: bool) {
        self.save(window, in_probe_rtt);
        self.recovery.enter(loss.next.saturating_sub(1));
    }

    /// Returns the saved window.
    pub(super) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    pub(super) fn is_recovering(&self) -> bool {
        self.recovery.is_active()
    }

    /// Returns the window to restore if this acknowledgement ends the recovery.
    pub(super) fn on_ack(&mut self, ack: &AckSample) -> Option<u64> {
        let acked = ack.acked_to.checked_sub(1)?;
        self.recovery.on_cumulative_ack(acked).then_some(self.cwnd)
    }

    /// Ends the recovery, because the loss was spurious.
    pub(super) fn leave(&mut self) {
        self.recovery.leave();
    }
}
