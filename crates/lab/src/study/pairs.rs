//! Figures of which several selections make one: ratios and harm.

use super::case::{Case, StudyProblem, label, same};

/// Returns the one case among `others` that has the values of this case on the axes that it has.
pub(crate) fn partner<'o>(case: &Case, others: &'o [Case], field: &str) -> Result<&'o Case, StudyProblem> {
    let fits = |other: &&Case| {
        other.at.iter().all(|(name, value)| {
            let here = case.at.iter().find(|(known, _)| known == name);
            here.is_none_or(|(_, here)| same(here, value))
        })
    };
    let mut fitting = others.iter().filter(fits);
    match (fitting.next(), fitting.next()) {
        (Some(partner), None) => Ok(partner),
        _ => Err(StudyProblem::new(
            field,
            format!("not one figure for the point {}", label(&case.at)),
            Some("fix the axes that the other selection does not have".to_owned()),
        )),
    }
}

/// Samples of the ratio of two means: the jackknife's pseudo-values, whose mean is the ratio with its first-order bias taken off
/// and whose spread is that of the ratio. Where a value is missing on one side, the sample is NaN, so that the others stay with their seeds.
pub(crate) fn jackknife_ratio(a: &[f64], b: &[f64]) -> Vec<f64> {
    let seeds = a.iter().zip(b).map(|(a, b)| [*a, *b]);
    pseudo_values(&seeds.collect::<Vec<_>>(), |[a, b]| a / b)
}

/// The jackknife's pseudo-values of a function of sums; NaN for seeds with a value that is not finite, which are left out of the sums.
fn pseudo_values<const N: usize>(seeds: &[[f64; N]], of: impl Fn([f64; N]) -> f64) -> Vec<f64> {
    let is_complete = |figures: &[f64; N]| figures.iter().all(|figure| figure.is_finite());
    let (mut sums, mut n) = ([0.0; N], 0.0);
    for figures in seeds.iter().filter(|figures| is_complete(figures)) {
        sums = std::array::from_fn(|i| sums[i] + figures[i]);
        n += 1.0;
    }
    let whole = of(sums);
    let pseudo = |figures: &[f64; N]| match is_complete(figures) {
        true if n < 2.0 => whole,
        true => n * whole - (n - 1.0) * of(std::array::from_fn(|i| sums[i] - figures[i])),
        false => f64::NAN,
    };
    seeds.iter().map(pseudo).collect()
}

/// Least harm that counts as such, as a share of what the flow has alone.
const LEAST_HARM: f64 = 0.05;

/// Samples of the harm done to a flow over the harm that another flow does to it (Ware et al. 2019), as jackknife
/// pseudo-values: what it loses of `alone` beside the one, over what it loses beside the other, at least 5 % of `alone`.
pub(crate) fn jackknife_harm(with: &[f64], alone: &[f64], like: &[f64]) -> Vec<f64> {
    let seeds = with.iter().zip(alone).zip(like);
    let seeds: Vec<_> = seeds.map(|((with, alone), like)| [*with, *alone, *like]).collect();
    pseudo_values(&seeds, |[with, alone, like]| {
        (alone - with) / (alone - like).max(LEAST_HARM * alone)
    })
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
        assert!(jackknife_harm(&[f64::NAN], &[10.0], &[6.0])[0].is_nan());
    }

    #[test]
    fn a_seed_without_a_value_keeps_its_place() {
        let samples = jackknife_ratio(&[1.0, f64::NAN, 3.0], &[1.0, 5.0, 2.0]);
        let without = jackknife_ratio(&[1.0, 3.0], &[1.0, 2.0]);
        assert!(samples[1].is_nan(), "{samples:?}");
        assert_eq!([samples[0], samples[2]], [without[0], without[1]]);
    }
}
