//! LIA, the linked increases of MPTCP (RFC 6356): all paths together are no more aggressive than one flow on the best
//! path.

use super::Couple;
use super::rates::{counted, round, total_rate, window};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Linked increases. They have no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct LiaParameters {}

impl Part<dyn Couple> for LiaParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Couple> {
        Box::new(*self)
    }
}

impl Couple for LiaParameters {
    /// RFC 6356 §3, equations 1 and 2: an acknowledgement adds min(alpha / total, 1 / window) units for each
    /// acknowledged unit, with alpha = total * max(w / rtt^2) / (sum of w / rtt)^2. Without coupling it adds 1 /
    /// window.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        let Some(own) = paths.get(path) else { return 1.0 };
        let best = counted(path, paths)
            .map(|view| window(view) / (round(view) * round(view)))
            .fold(0.0, f64::max);
        let total = total_rate(path, paths);
        (window(own) * best / (total * total)).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::two;
    use super::*;

    #[test]
    fn the_formula_of_rfc_6356() {
        // max(20 / 0.1^2, 10 / 0.025^2) = 16000; (200 + 400)^2 = 360000; times the windows: 0.889 and 0.444.
        let paths = two();
        let mut part = LiaParameters {};
        assert!((part.growth(0, &paths) - 20.0 * 16000.0 / 360_000.0).abs() < 1e-9);
        assert!((part.growth(1, &paths) - 10.0 * 16000.0 / 360_000.0).abs() < 1e-9);
        // Never more than an uncoupled flow: 30 * 16000 / 700^2 = 0.98, but 100 * 16000 / 500^2 with 1 s for the first
        // path's round-trip time is 6.4 times the uncoupled growth.
        let mut paths = two();
        paths[0].cwnd = 30_000;
        assert!((part.growth(0, &paths) - 0.979_591).abs() < 1e-5);
        paths[0].cwnd = 100_000;
        paths[0].srtt = None;
        assert_eq!(part.growth(0, &paths), 1.0);
        assert_eq!(part.reduced(0, &paths), None, "RFC 6356 §3: halving stays");
    }

    #[test]
    fn equal_paths_grow_like_one_flow_and_a_failed_one_does_not_count() {
        let mut paths = two();
        paths[1] = paths[0];
        // n equal paths: each grows by 1 / n^2, so that together they grow by a unit and their sum is n windows of 1 /
        // n.
        let mut part = LiaParameters {};
        assert!((part.growth(0, &paths) - 0.25).abs() < 1e-9);
        paths[1].usable = false;
        assert!((part.growth(0, &paths) - 1.0).abs() < 1e-9);
    }
}
