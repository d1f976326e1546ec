//! The interface of a discriminator.

use core::fmt;

use crate::sample::{AckSample, LossEvent, MarkEvent, Needs, Verdict};
use crate::view::WindowView;

/// The interface of a discriminator.
pub trait Discriminate: fmt::Debug + Send + Sync {
    /// Handles an acknowledgement. It is called for each one, before any loss that the same acknowledgement reveals.
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) {
        let _ = (window, ack);
    }

    /// Handles a mark.
    fn on_mark(&mut self, mark: &MarkEvent) {
        let _ = mark;
    }

    /// Returns the verdict on a loss.
    fn judge(&mut self, window: WindowView, loss: &LossEvent) -> Verdict;

    /// Handles a loss that has a verdict: one of a loss episode that has reduced the window.
    fn on_inherited(&mut self, loss: &LossEvent) {
        let _ = loss;
    }

    /// Returns the strength of congestion, as a multiple of the threshold for that verdict: 1 or more is congestion.
    /// `None` if the part has no such measure.
    fn strength(&self, window: WindowView) -> Option<f64> {
        let _ = window;
        None
    }

    /// Returns the optional samples that the part needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}
