//! The standard: the windows of the paths are independent.

use super::Couple;
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// No coupling. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct UncoupledParameters {}

impl Part<dyn Couple> for UncoupledParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Couple> {
        Box::new(*self)
    }
}

impl Couple for UncoupledParameters {
    fn growth(&mut self, _path: usize, _paths: &[PathView]) -> f64 {
        1.0
    }
}
