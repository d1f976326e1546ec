//! Redundant: every chunk is sent on every path, so that the fastest path determines its arrival (ReMP TCP; Froemmgen,
//! Erbshaeusser, Buchmann, Zimmermann and Wehrle 2016). Each path sends independently as its window allows: first
//! chunks that have not been sent on it and are not acknowledged, oldest first, then new data. Chunks lost on a path
//! are retransmitted on the same path. The goodput is that of the best path, which is less than the sum.

use super::lowest_rtt::fastest;
use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Redundant. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct RedundantParameters {}

impl Part<dyn Distribute> for RedundantParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(*self)
    }
}

impl Distribute for RedundantParameters {
    fn choose(&mut self, _demand: &Demand, paths: &[PathView]) -> Option<usize> {
        fastest(paths, |path| path.open)
    }

    fn sends_copies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{demand, path};
    use super::*;

    #[test]
    fn new_data_goes_first_where_it_arrives_first() {
        let mut part = RedundantParameters {};
        assert!(part.sends_copies());
        assert_eq!(part.choose(&demand(1, 9), &[path(9, 0, 80), path(3, 2, 20)]), Some(1));
        assert_eq!(part.choose(&demand(1, 9), &[path(9, 0, 80), path(3, 3, 20)]), Some(0));
        assert_eq!(part.choose(&demand(1, 9), &[path(1, 1, 9)]), None);
    }
}
