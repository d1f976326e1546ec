//! A standard window that is reduced to a share of itself after a transmission loss: the reaction of ModReno and Veno.

use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::epoch::RecoveryEpoch;
use crate::sample::{AckSample, LossEvent, Verdict};

/// The reaction to loss of a window that a transmission loss reduces partially, and any other loss as in the standard.
#[derive(Clone, Debug, Default)]
pub(super) struct PartialReduction {
    /// The window that grows.
    pub(super) standard: StandardWindow,
    /// The window of data for which the window has been reduced; it is reduced only once.
    reduced: RecoveryEpoch,
}

impl PartialReduction {
    pub(super) fn new(hystart: bool) -> Self {
        PartialReduction {
            standard: StandardWindow::new(hystart),
            reduced: RecoveryEpoch::default(),
        }
    }

    /// Handles an acknowledgement, which may end the window of data. The caller determines the growth.
    pub(super) fn on_ack(&mut self, ack: &AckSample) {
        if let Some(acked) = ack.acked_to.checked_sub(1) {
            self.reduced.on_cumulative_ack(acked);
        }
    }

    pub(super) fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.reduced.enter(loss.next.saturating_sub(1));
        self.standard.on_congestion(window, loss)
    }

    /// Reduces the window to the share `keep`, 0 to 1, once per window of data, not below the floor.
    pub(super) fn on_transmission_loss(&mut self, window: WindowView, loss: &LossEvent, keep: f64) -> WindowUpdate {
        if self.reduced.is_active() {
            return window.unchanged();
        }
        self.reduced.enter(loss.next.saturating_sub(1));
        self.standard.restart();
        WindowUpdate::both(window.scaled(keep).max(window.floor.min(window.cwnd)))
    }

    pub(super) fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.reduced.leave();
        self.standard.on_timeout(window, loss, verdict)
    }
}
