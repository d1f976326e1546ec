//! Redundant: every chunk is sent on every path, so that the best path of the moment decides when it arrives (ReMP TCP; Froemmgen,
//! Erbshaeusser, Buchmann, Zimmermann and Wehrle 2016). Each path sends on its own, as fast as its window allows: what has not been
//! sent there and is not acknowledged, the oldest first, then new data; what is lost there goes there again. So the goodput is that of
//! the best path, and less than the sum.

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
