//! CMT/RPv1, resource pooling by slow-start thresholds (Dreibholz, Becke, Pulinthanath and Rathgeb 2010).

use super::Couple;
use super::rates::counted;
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Resource pooling, version 1. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Rpv1Parameters {}

impl Part<dyn Couple> for Rpv1Parameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Couple> {
        Box::new(*self)
    }
}

/// Returns ssthresh, or the window of a path without a loss so far.
fn threshold(path: &PathView) -> f64 {
    let known = if path.ssthresh == u64::MAX {
        path.cwnd
    } else {
        path.ssthresh
    };
    known.max(1) as f64
}

fn share(path: usize, paths: &[PathView]) -> f64 {
    let sum: f64 = counted(path, paths).map(threshold).sum();
    paths.get(path).map_or(1.0, |own| threshold(own) / sum)
}

impl Couple for Rpv1Parameters {
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        share(path, paths)
    }

    fn slow_start_growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        share(path, paths)
    }

    /// Reduces this window by half of the sum of all windows, but at least to its share of the usual floor of four
    /// units, and to one unit.
    fn reduced(&mut self, path: usize, paths: &[PathView]) -> Option<u64> {
        let own = paths.get(path)?;
        let all: u64 = counted(path, paths).fold(0, |sum, view| sum.saturating_add(view.cwnd));
        let floor = (4.0 * own.unit as f64 * share(path, paths)) as u64;
        Some(own.cwnd.saturating_sub(all / 2).max(floor).max(own.unit))
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::two;
    use super::*;

    #[test]
    fn growth_by_the_share_of_thresholds_and_half_of_all_windows_lost() {
        let mut paths = two();
        paths[0].ssthresh = 30_000;
        let mut part = Rpv1Parameters {};
        assert!((part.growth(0, &paths) - 0.75).abs() < 1e-9);
        assert!((part.slow_start_growth(1, &paths) - 0.25).abs() < 1e-9);
        // 20 - (20 + 10) / 2 = 5 units is more than 0.75 * 4; the other path keeps one unit.
        assert_eq!(
            (part.reduced(0, &paths), part.reduced(1, &paths)),
            (Some(5000), Some(1000))
        );
        paths[0].cwnd = 16_000;
        assert_eq!(part.reduced(0, &paths), Some(3000));
        // No loss so far: the window of 10 units is used.
        paths[1].ssthresh = u64::MAX;
        assert!((part.growth(1, &paths) - 0.25).abs() < 1e-9);
    }
}
