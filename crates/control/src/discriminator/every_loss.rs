//! The standard: every loss means congestion (RFC 9260 §7.2.3).

use super::Discriminate;
use crate::part::{BuildContext, Part};
use crate::sample::{LossEvent, Verdict};
use crate::view::WindowView;

/// Judges every loss as congestion. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct EveryLoss {}

impl Part<dyn Discriminate> for EveryLoss {
    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(*self)
    }
}

impl Discriminate for EveryLoss {
    fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
        Verdict::Congestion
    }
}
