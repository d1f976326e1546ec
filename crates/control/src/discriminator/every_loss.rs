//! The standard: every loss means congestion (RFC 9260 §7.2.3).

use super::Discriminate;
use crate::sample::{AckSample, LossEvent, Verdict};

/// Judges every loss as congestion.
#[derive(Clone, Copy, Debug, Default)]
pub struct EveryLoss;

impl Discriminate for EveryLoss {
    fn on_ack(&mut self, _ack: &AckSample) {}

    fn judge(&mut self, _loss: &LossEvent) -> Verdict {
        Verdict::Congestion
    }
}
