//! The lowest round-trip time: the path with the lowest round-trip time among those with an open window. This is the
//! default of multipath stacks (minRTT; Paasch, Ferlin, Alay and Bonaventure 2014).

use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// The lowest round-trip time. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct LowestRttParameters {}

impl Part<dyn Distribute> for LowestRttParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(*self)
    }
}

impl Distribute for LowestRttParameters {
    fn choose(&mut self, _demand: &Demand, paths: &[PathView]) -> Option<usize> {
        fastest(paths, |path| path.open)
    }
}

/// Returns the path with the lowest round-trip time among those for which `is_meant` returns true; the first one of
/// equals. For a path without a measurement, the RTO is used.
pub(super) fn fastest(paths: &[PathView], is_meant: impl Fn(&PathView) -> bool) -> Option<usize> {
    let meant = paths.iter().enumerate().filter(|(_, path)| is_meant(path));
    meant.min_by_key(|(_, path)| path.round()).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{demand, path};
    use super::*;

    #[test]
    fn the_fastest_open_path_takes_the_packet() {
        let mut part = LowestRttParameters {};
        let mut paths = [path(9, 0, 80), path(3, 2, 20), path(9, 0, 40)];
        assert_eq!(part.choose(&demand(1, 9), &paths), Some(1));
        paths[1] = path(3, 3, 20);
        assert_eq!(part.choose(&demand(1, 9), &paths), Some(2));
        // Not measured: its RTO of one second is used.
        paths[2].srtt = None;
        assert_eq!(part.choose(&demand(1, 9), &paths), Some(0));
        assert_eq!(part.choose(&demand(1, 9), &[path(1, 1, 9)]), None);
    }
}
