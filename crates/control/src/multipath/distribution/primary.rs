//! The standard: new data is sent on the primary path, or on the path that replaces it (RFC 9260 §6.4).

use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// All new data on one path. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct PrimaryParameters {}

impl Part<dyn Distribute> for PrimaryParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(*self)
    }
}

impl Distribute for PrimaryParameters {
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize> {
        paths
            .get(demand.sending)
            .filter(|path| path.open)
            .map(|_| demand.sending)
    }
}
