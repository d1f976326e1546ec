//! How certain it is that points fail, and how many seeds would decide.

use super::Part;
use crate::stats::{TAIL, t_above, t_quantile};
use crate::study::verdict::Verdict;

/// How far a figure is from what decides, and the half-width of its 95 % interval over `n` runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    pub(super) n: usize,
    pub(super) half_width: f64,
    pub(super) distance: f64,
}

/// Seeds that would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seeds {
    About(usize),
    /// More than are worth a run: the figure lies where it is decided, or very near.
    TooMany,
}

/// Most seeds that are named.
const MOST: usize = 1000;

impl Seeds {
    /// The number, if there is one.
    pub(crate) fn number(self) -> Option<usize> {
        match self {
            Seeds::About(number) => Some(number),
            Seeds::TooMany => None,
        }
    }

    /// For a sentence: `about 20 seeds would decide`.
    pub(crate) fn text(self) -> String {
        match self {
            Seeds::About(number) => format!("about {number} seeds would decide"),
            Seeds::TooMany => format!("more than {MOST} seeds would decide"),
        }
    }
}

impl Distance {
    /// The probability of a figure at least as far on its side, if the true one were what decides. Without an interval it is certain.
    fn chance(self) -> f64 {
        if self.n < 2 || self.half_width <= 0.0 {
            return 0.0;
        }
        let t = self.distance.abs() / self.half_width * t_quantile(self.n - 1, TAIL);
        t_above(self.n - 1, t)
    }

    /// The least number of seeds whose interval, with `tail` beyond each end, is as narrow as the distance. The quantile is that of the larger
    /// number: the one of two seeds is six times as large as that of many.
    pub(super) fn seeds(self, tail: f64) -> Option<Seeds> {
        if self.n < 2 {
            return None;
        }
        let deviation = self.half_width * (self.n as f64).sqrt() / t_quantile(self.n - 1, TAIL);
        let decides = |n: usize| t_quantile(n - 1, tail) * deviation / (n as f64).sqrt() <= self.distance.abs();
        if !decides(MOST) {
            return Some(Seeds::TooMany);
        }
        let (mut low, mut high) = (self.n, MOST.max(self.n + 1));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if decides(middle) {
                high = middle;
            } else {
                low = middle;
            }
        }
        Some(Seeds::About(high))
    }
}

/// Makes failing points undecided that chance explains. If points lie at their bounds, each fails with a probability of 2.5 %. So many fail
/// truly that it has at most that probability (binomial), or those do that are so far away (Benjamini and Hochberg 1995, at 2.5 %). If none
/// fails truly, the probability that one counts as failing is at most 5 %, however many they are. Of one point its interval decides.
pub(super) fn decide_together(parts: &mut [Part]) {
    let failing = parts.iter().filter(|part| part.verdict == Verdict::Not).count();
    if parts.len() < 2 || at_least_by_chance(failing, parts.len()) <= TAIL {
        return;
    }
    let all = parts.len() as f64;
    let chance = |part: &Part| part.away.map_or(0.0, Distance::chance);
    let fails = |part: &&Part| part.verdict == Verdict::Not;
    let mut chances: Vec<f64> = parts.iter().filter(fails).map(chance).collect();
    chances.sort_by(f64::total_cmp);
    let ranked = chances.iter().enumerate().rev();
    let mut clear = ranked.filter(|(rank, chance)| **chance <= TAIL * (rank + 1) as f64 / all);
    let limit = clear.next().map_or(-1.0, |(_, chance)| *chance);
    for part in parts {
        if part.verdict == Verdict::Not && chance(part) > limit {
            part.verdict = Verdict::Inconclusive;
            part.tail = TAIL / all;
        }
    }
}

/// The probability that of `all` points at their bounds these or more fail.
fn at_least_by_chance(failing: usize, all: usize) -> f64 {
    let mut exactly = (1.0 - TAIL).powf(all as f64);
    let mut fewer = 0.0;
    for count in 0..failing {
        fewer += exactly;
        exactly *= (all - count) as f64 / (count + 1) as f64 * TAIL / (1.0 - TAIL);
    }
    1.0 - fewer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Summary;

    fn failing(n: usize, half_width: f64, distance: f64) -> Part {
        Part {
            away: Some(Distance {
                n,
                half_width,
                distance,
            }),
            verdict: Verdict::Not,
            ..super::super::nothing(String::new())
        }
    }

    fn failures(mut parts: Vec<Part>) -> usize {
        decide_together(&mut parts);
        parts.iter().filter(|part| part.verdict == Verdict::Not).count()
    }

    #[test]
    fn seeds_are_those_of_the_quantile_of_their_own_number() {
        let seeds = |n, half_width, distance| {
            let away = Distance {
                n,
                half_width,
                distance,
            };
            away.seeds(TAIL)
        };
        // Of two seeds t is 12.7: s = 94.1 * sqrt(2) / 12.706 = 10.47, and 1.966 * 10.47 / sqrt(424) = 1.
        assert_eq!(seeds(2, 94.1, 1.0), Some(Seeds::About(424)));
        // s = 1.4 * sqrt(10) / 2.262 = 1.957; 2.110 * 1.957 / sqrt(18) = 0.973, of 17 it is 1.006.
        assert_eq!(seeds(10, 1.4, -1.0), Some(Seeds::About(18)));
        assert_eq!(seeds(30, 1.001, 1.0), Some(Seeds::About(31)));
        assert_eq!(seeds(10, 1.0, 1e-3), Some(Seeds::TooMany));
        assert_eq!(seeds(10, 1.0, 0.0), Some(Seeds::TooMany));
        assert_eq!(seeds(1, 0.0, 1.0), None);
        assert_eq!(Seeds::TooMany.text(), "more than 1000 seeds would decide");
    }

    #[test]
    fn a_failure_that_chance_makes_among_many_points_is_undecided() {
        let open = || Part {
            verdict: Verdict::Inconclusive,
            ..failing(10, 1.0, 0.5)
        };
        let among = |all: usize, parts: Vec<Part>| {
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
        assert_eq!(among(24, vec![super::super::nothing(String::new())]), 1);
    }

    #[test]
    fn the_probability_of_failures_by_chance_is_the_binomial_one() {
        assert!((at_least_by_chance(1, 24) - 0.4554).abs() < 1e-4);
        assert!((at_least_by_chance(3, 24) - 0.02136).abs() < 1e-4);
        assert!((at_least_by_chance(0, 24) - 1.0).abs() < 1e-12);
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
            let points: Vec<Part> = (0..24)
                .filter_map(|_| {
                    let samples: Vec<f64> = (0..10).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect();
                    let summary = Summary::of(samples);
                    let (mean, ci95) = (summary.mean?, summary.ci95?);
                    let fails = mean + ci95 < 0.0;
                    let verdict = if fails { Verdict::Not } else { Verdict::Inconclusive };
                    Some(Part {
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
