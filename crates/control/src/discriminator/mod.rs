//! Loss discrimination: did this loss mean congestion, a transmission error, or is there no telling?

mod every_loss;

use core::fmt;

pub use every_loss::EveryLoss;

use crate::part::{BuildContext, registry};
use crate::sample::{AckSample, LossEvent, MarkEvent, Needs, Verdict};
use crate::window::WindowView;

/// The questions a discriminator answers.
pub trait Discriminate: fmt::Debug + Send + Sync {
    /// Learns from an acknowledgement; called for each, before any loss that the same acknowledgement reveals.
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) {
        let _ = (window, ack);
    }

    /// Learns from a mark.
    fn on_mark(&mut self, mark: &MarkEvent) {
        let _ = mark;
    }

    /// Judges a loss.
    fn judge(&mut self, window: WindowView, loss: &LossEvent) -> Verdict;

    /// What it wants to be told beyond the usual.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}

registry! {
    /// A discriminator by its name and parameters.
    DiscriminatorSpec for dyn Discriminate, default EveryLoss;
    EveryLoss(every_loss::EveryLoss) = "every-loss", "Every loss is congestion: the standard.", "RFC 9260 §7.2.3";
}

impl DiscriminatorSpec {
    /// Whether it cannot be built without [`GroundTruth`](crate::GroundTruth).
    pub fn asks_for_truth(&self) -> bool {
        false
    }

    /// The discriminator of one path.
    pub fn build(&self, context: &BuildContext) -> Discriminator {
        match self {
            DiscriminatorSpec::EveryLoss(part) => Discriminator::EveryLoss(*part),
            #[allow(unreachable_patterns, reason = "the register may hold the standard alone")]
            other => Discriminator::Other(other.build_boxed(context)),
        }
    }
}

/// The discriminator of a path. The standard one costs no call through a pointer and no memory.
#[derive(Debug)]
pub enum Discriminator {
    /// Every loss is congestion: the standard.
    EveryLoss(EveryLoss),
    /// Any other, also from outside this crate.
    Other(Box<dyn Discriminate>),
}

impl Discriminator {
    #[inline]
    pub(crate) fn on_ack(&mut self, window: WindowView, ack: &AckSample) {
        if let Discriminator::Other(part) = self {
            part.on_ack(window, ack);
        }
    }

    pub(crate) fn as_part(&mut self) -> &mut dyn Discriminate {
        match self {
            Discriminator::EveryLoss(part) => part,
            Discriminator::Other(part) => part.as_mut(),
        }
    }

    pub(crate) fn needs(&self) -> Needs {
        match self {
            Discriminator::EveryLoss(_) => Needs::default(),
            Discriminator::Other(part) => part.needs(),
        }
    }
}

impl Default for Discriminator {
    fn default() -> Self {
        Discriminator::EveryLoss(EveryLoss {})
    }
}
