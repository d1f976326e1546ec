//! Figures of which several selections make one: ratios and harm.

use super::case::{Case, Trouble, label, same};

/// Returns the one case among `others` that has the values of this case on the axes that it has.
pub(crate) fn partner<'o>(case: &Case, others: &'o [Case], field: &str) -> Result<&'o Case, Trouble> {
    let fits = |other: &&Case| {
        other.at.iter().all(|(name, value)| {
            let here = case.at.iter().find(|(known, _)| known == name);
            here.is_none_or(|(_, here)| same(here, value))
        })
    };
    let mut fitting = others.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(partner), None) => Ok(partner),
        _ => Err(Trouble::new(
            field,
            format!("not one figure for the point {}", label(&case.at)),
            Some("fix the axes that the other selection does not have".to_owned()),
        )),
    }
}

/// Samples of the ratio of two means: the jackknife's pseudo-values, whose mean is the ratio with its first-order bias taken off
/// and whose spread is that of the ratio. A pair that is missing on one side is missing; a ratio to nothing is none.
pub(crate) fn jackknife_ratio(a: &[f64], b: &[f64]) -> Vec<f64> {
    let pairs: Vec<(f64, f64)> = a
        .iter()
        .copied()
        .zip(b.iter().copied())
        .filter(|(a, b)| a.is_finite() && b.is_finite())
        .collect();
    let n = pairs.len() as f64;
    let (sum_a, sum_b) = pairs.iter().fold((0.0, 0.0), |(a, b), pair| (a + pair.0, b + pair.1));
    let ratio = sum_a / sum_b;
    if pairs.len() < 2 {
        return vec![ratio; pairs.len()];
    }
    let without = pairs.iter().map(|pair| (sum_a - pair.0) / (sum_b - pair.1));
    without.map(|other| n * ratio - (n - 1.0) * other).collect()
}

/// Least harm that counts as such, as a share of what the flow has alone.
const LEAST_HARM: f64 = 0.05;

/// Samples of the harm done to a flow over the harm that another flow does to it (Ware et al. 2019), as jackknife
/// pseudo-values: what it loses of `alone` beside the one, over what it loses beside the other, at least 5 % of `alone`.
pub(crate) fn jackknife_harm(with: &[f64], alone: &[f64], like: &[f64]) -> Vec<f64> {
    let figures = with
        .iter()
        .zip(alone)
        .zip(like)
        .map(|((with, alone), like)| [*with, *alone, *like]);
    let figures: Vec<[f64; 3]> = figures
        .filter(|figures| figures.iter().all(|figure| figure.is_finite()))
        .collect();
    let n = figures.len() as f64;
    let sums = figures
        .iter()
        .fold([0.0; 3], |sums, figures| [0, 1, 2].map(|i| sums[i] + figures[i]));
    let harm = |[with, alone, like]: [f64; 3]| (alone - with) / (alone - like).max(LEAST_HARM * alone);
    if figures.len() < 2 {
        return vec![harm(sums); figures.len()];
    }
    let without = figures
        .iter()
        .map(|figures| harm([0, 1, 2].map(|i| sums[i] - figures[i])));
    without.map(|other| n * harm(sums) - (n - 1.0) * other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jackknife_of_a_constant_ratio_is_that_ratio_without_spread() {
        let samples = jackknife_ratio(&[2.0, 4.0, 6.0], &[1.0, 2.0, 3.0]);
        assert!(samples.iter().all(|sample| (sample - 2.0).abs() < 1e-12), "{samples:?}");
        assert_eq!(jackknife_ratio(&[3.0], &[2.0]), [1.5]);
        // 1/1 and 3/2: the ratio of means is 4/3, those without one of them 3/2 and 1.
        let samples = jackknife_ratio(&[1.0, 3.0], &[1.0, 2.0]);
        assert!((samples[0] - (8.0 / 3.0 - 1.5)).abs() < 1e-12, "{samples:?}");
        assert!((samples[1] - (8.0 / 3.0 - 1.0)).abs() < 1e-12, "{samples:?}");
    }

    #[test]
    fn harm_is_relative_to_that_of_another_flow() {
        // 10 alone, 4 beside us, 6 beside the other: 6/4. The seeds differ by a factor only.
        let samples = jackknife_harm(&[4.0, 8.0], &[10.0, 20.0], &[6.0, 12.0]);
        assert!(samples.iter().all(|sample| (sample - 1.5).abs() < 1e-12), "{samples:?}");
        assert_eq!(jackknife_harm(&[4.0], &[10.0], &[6.0]), [1.5]);
        // The other flow does hardly any harm: 5 % of what there is alone counts.
        assert!((jackknife_harm(&[9.0], &[10.0], &[9.9])[0] - 2.0).abs() < 1e-12);
        assert_eq!(jackknife_harm(&[f64::NAN], &[10.0], &[6.0]), [] as [f64; 0]);
    }
}
