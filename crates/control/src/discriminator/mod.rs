//! Loss discrimination: did this loss mean congestion, a transmission error, or is there no telling?

mod every_loss;

use core::fmt;

pub use every_loss::EveryLoss;

use crate::sample::{AckSample, LossEvent, Verdict};

/// The question a discriminator answers.
pub trait Discriminate: fmt::Debug + Send + Sync {
    /// Learns from an acknowledgement; called for each, before any loss that the same acknowledgement reveals.
    fn on_ack(&mut self, ack: &AckSample);

    /// Judges a loss.
    fn judge(&mut self, loss: &LossEvent) -> Verdict;
}

/// The discriminator of a path.
#[derive(Debug)]
pub enum Discriminator {
    /// Every loss is congestion: the standard.
    EveryLoss(EveryLoss),
    /// A part from outside this crate: an oracle, a prototype.
    Custom(Box<dyn Discriminate>),
}

impl Discriminator {
    pub(crate) fn as_part(&mut self) -> &mut dyn Discriminate {
        match self {
            Discriminator::EveryLoss(part) => part,
            Discriminator::Custom(part) => part.as_mut(),
        }
    }
}

impl Default for Discriminator {
    fn default() -> Self {
        Discriminator::EveryLoss(EveryLoss)
    }
}
