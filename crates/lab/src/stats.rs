//! Means and confidence intervals over the runs of a point.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Statistics of a metric over several runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The mean; none without a value.
    pub mean: Option<f64>,
    /// Half the width of the 95 % confidence interval of the mean (Student's t): 95 of 100 such intervals `mean ± ci95` contain the
    /// true mean. None with fewer than two values.
    pub ci95: Option<f64>,
    /// Number of runs with a value.
    pub n: usize,
}

impl Summary {
    /// Computes the summary of these values; values that are not finite are ignored.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        // Welford's recurrence: no cancellation, independent of the offset of the values.
        let (mut n, mut mean, mut squares) = (0_usize, 0.0, 0.0);
        for value in values.into_iter().filter(|value| value.is_finite()) {
            n += 1;
            let deviation = value - mean;
            mean += deviation / n as f64;
            squares += deviation * (value - mean);
        }
        let ci95 = (n > 1).then(|| {
            let variance = squares / (n - 1) as f64;
            t_quantile(n - 1, TAIL) * (variance / n as f64).sqrt()
        });
        Summary {
            mean: (n > 0).then_some(mean),
            ci95,
            n,
        }
    }
}

/// What a 95 % interval leaves on each side.
pub(crate) const TAIL: f64 = 0.025;

fn student(freedom: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom as f64).expect("degrees of freedom are one or more")
}

/// Returns the value that Student's t with one or more degrees of freedom exceeds with this probability.
pub(crate) fn t_quantile(freedom: usize, above: f64) -> f64 {
    student(freedom).inverse_cdf(1.0 - above)
}

/// Returns the probability that Student's t with one or more degrees of freedom exceeds this value.
pub(crate) fn t_above(freedom: usize, value: f64) -> f64 {
    student(freedom).sf(value)
}

/// Returns Jain's fairness index, (sum x)^2 / (n sum x^2): 1 if all are equal, 1/n if a single one is not zero. None if all are
/// zero.
pub fn jain_index(shares: &[f64]) -> Option<f64> {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

/// Returns Pearson's correlation coefficient, -1 to 1; NaN for fewer than three pairs, or if either number is constant.
pub(crate) fn correlation(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let (xx, xy, yy) = moments(pairs);
    xy / (xx.sqrt() * yy.sqrt())
}

/// Returns the slope of the regression line of the second numbers over the first ones; NaN for fewer than three pairs, or if the first
/// number is constant.
pub(crate) fn slope(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let (xx, xy, _) = moments(pairs);
    if xx > 0.0 { xy / xx } else { f64::NAN }
}

/// Returns the sums of squares and of products about the means; NaN for fewer than three pairs.
fn moments(pairs: impl Iterator<Item = (f64, f64)> + Clone) -> (f64, f64, f64) {
    let count = pairs.clone().count() as f64;
    if count < 3.0 {
        return (f64::NAN, f64::NAN, f64::NAN);
    }
    let (x, y) = pairs.clone().fold((0.0, 0.0), |(x, y), pair| (x + pair.0, y + pair.1));
    let (x, y) = (x / count, y / count);
    pairs.fold((0.0, 0.0, 0.0), |(xx, xy, yy), (a, b)| {
        (xx + (a - x) * (a - x), xy + (a - x) * (b - y), yy + (b - y) * (b - y))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_computed_by_hand() {
        // About (1, 2): sums of -1 * -1 + 0 * 2 + 1 * -1 = 0 and of 1 + 1 = 2; and a straight line.
        assert!(slope([(0.0, 1.0), (1.0, 4.0), (2.0, 1.0)].into_iter()).abs() < 1e-12);
        assert!((slope([(0.0, 1.0), (2.0, 2.0), (4.0, 3.0)].into_iter()) - 0.5).abs() < 1e-12);
        assert!(slope([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)].into_iter()).is_nan());
        assert!(slope([(0.0, 1.0), (1.0, 2.0)].into_iter()).is_nan());
    }

    #[test]
    fn t_quantiles_match_the_tables() {
        // NIST/SEMATECH e-Handbook, table 1.3.6.7.2, column 0.975.
        for (freedom, quantile) in [
            (1, 12.706),
            (2, 4.303),
            (4, 2.776),
            (9, 2.262),
            (29, 2.045),
            (100, 1.984),
        ] {
            assert!(
                (t_quantile(freedom, TAIL) - quantile).abs() < 5e-4,
                "{freedom}: {}",
                t_quantile(freedom, TAIL)
            );
            assert!((t_above(freedom, quantile) - TAIL).abs() < 5e-5, "{freedom}");
        }
    }

    #[test]
    fn an_interval_computed_by_hand() {
        // Mean 3, sample variance 2.5, standard error sqrt(0.5), t(4) = 2.776445.
        let summary = Summary::of([1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!((summary.mean, summary.n), (Some(3.0), 5));
        let ci95 = summary.ci95.expect("five values");
        assert!((ci95 - 1.963_243).abs() < 1e-5, "{ci95}");
    }

    #[test]
    fn few_values_have_no_interval() {
        assert_eq!(
            Summary::of([]),
            Summary {
                mean: None,
                ci95: None,
                n: 0
            }
        );
        assert_eq!(
            Summary::of([7.0]),
            Summary {
                mean: Some(7.0),
                ci95: None,
                n: 1
            }
        );
        assert_eq!(
            Summary::of([7.0, f64::NAN]),
            Summary {
                mean: Some(7.0),
                ci95: None,
                n: 1
            }
        );
        assert_eq!(Summary::of([4.0, 4.0, 4.0]).ci95, Some(0.0));
    }

    #[test]
    fn jain_index_of_equal_and_unequal_shares() {
        assert_eq!(jain_index(&[5.0, 5.0]), Some(1.0));
        assert_eq!(jain_index(&[5.0, 0.0]), Some(0.5));
        assert_eq!(jain_index(&[0.0]), None);
        // (1+2+3)^2 / (3 * 14)
        assert!((jain_index(&[1.0, 2.0, 3.0]).expect("shares") - 36.0 / 42.0).abs() < 1e-12);
    }

    #[test]
    fn correlations_computed_by_hand() {
        let of = |pairs: &[(f64, f64)]| correlation(pairs.iter().copied());
        // Sums of squares 2 and 2, products 1.
        assert!((of(&[(1.0, 1.0), (2.0, 3.0), (3.0, 2.0)]) - 0.5).abs() < 1e-12);
        assert!((of(&[(1.0, 6.0), (2.0, 4.0), (4.0, 0.0)]) + 1.0).abs() < 1e-12);
        assert!(of(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]).is_nan());
        assert!(of(&[(1.0, 1.0), (2.0, 2.0)]).is_nan());
    }
}
