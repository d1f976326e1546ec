//! CMT/RPv2, resource pooling by bandwidths (Dreibholz, Becke, Adhari and Rathgeb 2011): like RPv1, but with windows
//! divided by round-trip times instead of thresholds, so that paths may differ.

use super::Couple;
use super::rates::{is_alone, rate, total_rate};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Resource pooling, version 2. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Rpv2Parameters {}

impl Part<dyn Couple> for Rpv2Parameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Couple> {
        Box::new(*self)
    }
}

fn share(path: usize, paths: &[PathView]) -> f64 {
    paths.get(path).map_or(1.0, |own| rate(own) / total_rate(path, paths))
}

impl Couple for Rpv2Parameters {
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        share(path, paths)
    }

    fn slow_start_growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        share(path, paths)
    }

    /// Reduces the window by the fraction 0.5 / (the path's share of the total bandwidth), at least by half, down to
    /// one unit.
    fn reduced(&mut self, path: usize, paths: &[PathView]) -> Option<u64> {
        if is_alone(path, paths) {
            return None;
        }
        let own = paths.get(path)?;
        let lost = (0.5 / share(path, paths)).clamp(0.5, 1.0);
        Some(((own.cwnd as f64 * (1.0 - lost)) as u64).max(own.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::two;
    use super::*;

    #[test]
    fn growth_by_the_share_of_bandwidth_and_half_of_all_of_it_lost() {
        // 200 and 400 units per second
        let mut paths = two();
        let mut part = Rpv2Parameters {};
        assert!((part.growth(0, &paths) - 1.0 / 3.0).abs() < 1e-9);
        assert!((part.slow_start_growth(1, &paths) - 2.0 / 3.0).abs() < 1e-9);
        // Half of 600 is more than the 200, and 3/4 of the 400.
        assert_eq!(
            (part.reduced(0, &paths), part.reduced(1, &paths)),
            (Some(1000), Some(2500))
        );
        // A single path behaves like the standard.
        paths[1].usable = false;
        assert_eq!((part.growth(0, &paths), part.reduced(0, &paths)), (1.0, None));
    }
}
