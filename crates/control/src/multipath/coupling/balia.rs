//! BALIA, the balanced linked adaptation (Peng, Walid, Hwang and Low 2016; draft-walid-mptcp-congestion-control).

use super::Couple;
use super::rates::{counted, is_alone, rate, total_rate};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Balanced linked adaptation. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct BaliaParameters {}

impl Part<dyn Couple> for BaliaParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Couple> {
        Box::new(*self)
    }
}

/// Returns the rate of the fastest path divided by the rate of this one.
fn alpha(path: usize, paths: &[PathView]) -> f64 {
    let fastest = counted(path, paths).map(rate).fold(0.0, f64::max);
    paths.get(path).map_or(1.0, |own| fastest / rate(own))
}

impl Couple for BaliaParameters {
    /// Peng et al. 2016, equation 25: x / (rtt (sum of x)^2) * (1 + alpha) / 2 * (4 + alpha) / 5 for each acknowledged
    /// unit; 1 / window if uncoupled.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        let Some(own) = paths.get(path) else { return 1.0 };
        let alpha = alpha(path, paths);
        let share = rate(own) / total_rate(path, paths);
        share * share * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0
    }

    /// Equation 26: the window is reduced by half of itself times min(alpha, 1.5).
    fn reduced(&mut self, path: usize, paths: &[PathView]) -> Option<u64> {
        if is_alone(path, paths) {
            return None;
        }
        let own = paths.get(path)?;
        let lost = alpha(path, paths).min(1.5) / 2.0;
        Some((own.cwnd as f64 * (1.0 - lost)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::two;
    use super::*;

    #[test]
    fn the_formulas_of_the_paper() {
        // 200 and 400 units per second: alpha 2 and 1, shares 1/3 and 2/3.
        let paths = two();
        let mut part = BaliaParameters {};
        assert!((part.growth(0, &paths) - 1.0 / 9.0 * 1.5 * 1.2).abs() < 1e-9);
        assert!((part.growth(1, &paths) - 4.0 / 9.0).abs() < 1e-9);
        // The slower path loses 3/4 of its window, the faster one half.
        assert_eq!(
            (part.reduced(0, &paths), part.reduced(1, &paths)),
            (Some(5000), Some(5000))
        );
    }

    #[test]
    fn a_path_alone_is_the_standard() {
        let paths = &two()[..1];
        let mut part = BaliaParameters {};
        assert!((part.growth(0, paths) - 1.0).abs() < 1e-9);
        assert_eq!(part.reduced(0, paths), None);
    }
}
