//! Which of many points fail more clearly than chance explains.

use super::certainty::Distance;
use super::part_finding::PartFinding;
use crate::stats::TAIL;
use crate::study::verdict::Verdict;

/// Makes failing points undecided that chance explains. A point exactly at its bound fails with a probability of 2.5 %, or 5 % if it can fail on
/// two sides. All failures count if their number has a probability of at most 2.5 % under this hypothesis (binomial). Otherwise those count that
/// the procedure of Benjamini and Hochberg (1995) finds at 2.5 %. If no point truly fails, the probability that one counts as a failure is at
/// most 5 %, for any number of points. For a single point its interval decides. Points that chance does not move are certain.
pub(super) fn decide_together(parts: &mut [PartFinding]) {
    let is_random = |part: &&PartFinding| part.away.is_some_and(Distance::is_random);
    let fails = |part: &&PartFinding| part.verdict == Verdict::Not;
    let random = parts.iter().filter(is_random).count();
    let failing = parts.iter().filter(is_random).filter(fails).count();
    let probability = |part: &PartFinding| part.tail_of_failure();
    let probability = parts.iter().filter(is_random).map(probability).fold(TAIL, f64::max);
    if random < 2 || at_least_by_chance(failing, random, probability) <= TAIL {
        return;
    }
    let all = random as f64;
    let chance = |part: &PartFinding| part.away.map_or(0.0, Distance::chance);
    let mut chances: Vec<f64> = parts.iter().filter(is_random).filter(fails).map(chance).collect();
    chances.sort_by(f64::total_cmp);
    let ranked = chances.iter().enumerate().rev();
    let mut clear = ranked.filter(|(rank, chance)| **chance <= TAIL * (rank + 1) as f64 / all);
    let limit = clear.next().map_or(-1.0, |(_, chance)| *chance);
    for part in parts {
        if part.verdict == Verdict::Not && chance(part) > limit.max(0.0) {
            part.verdict = Verdict::Inconclusive;
            part.tail = TAIL / all;
        }
    }
}

/// The probability that of `all` points these or more fail, if each does so with this probability.
fn at_least_by_chance(failing: usize, all: usize, probability: f64) -> f64 {
    let mut exactly = (1.0 - probability).powf(all as f64);
    let mut fewer = 0.0;
    for count in 0..failing {
        fewer += exactly;
        exactly *= (all - count) as f64 / (count + 1) as f64 * probability / (1.0 - probability);
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;
    use crate::study::check::part_finding::nothing;

    fn failing(n: usize, half_width: f64, distance: f64) -> PartFinding {
        PartFinding {
            away: Some(Distance {
                n,
                half_width,
                distance,
                comparisons: 1,
            }),
            verdict: Verdict::Not,
            ..nothing(String::new())
        }
    }

    fn failures(mut parts: Vec<PartFinding>) -> usize {
        decide_together(&mut parts);
        parts.iter().filter(|part| part.verdict == Verdict::Not).count()
    }

    #[test]
    fn a_failure_that_chance_makes_among_many_points_is_undecided() {
        let open = || PartFinding {
            verdict: Verdict::Inconclusive,
            ..failing(10, 1.0, 0.5)
        };
        let among = |all: usize, parts: Vec<PartFinding>| {
            let rest = all - parts.len();
            failures(parts.into_iter().chain((0..rest).map(|_| open())).collect())
        };
        // 1.1 half-widths away: 1.8 % by chance.
        let slight = || failing(10, 1.0, 1.1);
        assert_eq!(among(1, vec![slight()]), 1);
        assert_eq!(among(24, vec![slight()]), 0);
        assert_eq!(among(24, vec![slight(), slight()]), 0);
        // Three of 24 seldom do so by chance (2.1 %), nor do all.
        assert_eq!(among(24, vec![slight(), slight(), slight()]), 3);
        assert_eq!(among(24, (0..24).map(|_| slight()).collect()), 24);
        // One that is far away, or has no interval, is enough.
        assert_eq!(among(24, vec![failing(10, 1.0, 2.5)]), 1);
        assert_eq!(among(24, vec![failing(10, 0.0, 0.1)]), 1);
        assert_eq!(among(24, vec![nothing(String::new())]), 1);
    }

    #[test]
    fn the_probability_of_failures_by_chance_is_the_binomial_one() {
        assert!((at_least_by_chance(1, 24, TAIL) - 0.4554).abs() < 1e-4);
        assert!((at_least_by_chance(3, 24, TAIL) - 0.02136).abs() < 1e-4);
        assert!((at_least_by_chance(0, 24, TAIL) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn points_at_a_bound_seldom_make_a_claim_fail() {
        // Normal figures by the sum of twelve uniform ones.
        let mut state = 1_u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let (mut alone, mut together) = (0, 0);
        const TRIALS: usize = 1000;
        for _ in 0..TRIALS {
            let points: Vec<PartFinding> = (0..24)
                .filter_map(|_| {
                    let samples: Vec<f64> = (0..10).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect();
                    let summary = Summary::of(samples);
                    let (mean, ci95) = (summary.mean?, summary.ci95?);
                    let fails = mean + ci95 < 0.0;
                    let verdict = if fails { Verdict::Not } else { Verdict::Inconclusive };
                    Some(PartFinding {
                        verdict,
                        ..failing(10, ci95, mean)
                    })
                })
                .collect();
            alone += usize::from(points.iter().any(|part| part.verdict == Verdict::Not));
            together += usize::from(failures(points) > 0);
        }
        // 1 - 0.975^24 is 45.5 %.
        assert!((400..510).contains(&alone), "{alone}");
        assert!((20..60).contains(&together), "{together}");
    }
}
