//! How certain it is that a figure lies beyond what decides, and how many seeds would decide.

use crate::stats::{TAIL, t_above, t_quantile};

/// How far a figure is from what decides, and the half-width of its 95 % interval over `n` runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Distance {
    pub(super) n: usize,
    pub(super) half_width: f64,
    pub(super) distance: f64,
    /// From how many differences it was picked as the worst; two for a figure that can fail on two sides.
    pub(super) comparisons: usize,
}

/// Seeds that would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seeds {
    About(usize),
    /// More than are worth a run: the figure lies at its bound, or very near it.
    TooMany,
}

/// Most seeds that are named.
const MOST: usize = 1000;

impl Seeds {
    /// This number, unless it is too large to be named.
    pub(crate) fn of(number: usize) -> Self {
        if number <= MOST {
            Seeds::About(number)
        } else {
            Seeds::TooMany
        }
    }

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
    /// At most the probability of a figure at least as far beyond, if the true one were what decides. Zero without an interval: then the figure is
    /// certain.
    pub(super) fn chance(self) -> f64 {
        if !self.is_random() {
            return 0.0;
        }
        if !self.distance.is_finite() {
            return 1.0;
        }
        let t = self.distance.abs() / self.half_width * t_quantile(self.n - 1, TAIL);
        (t_above(self.n - 1, t) * self.comparisons as f64).min(1.0)
    }

    /// Whether chance moves it.
    pub(super) fn is_random(self) -> bool {
        self.n > 1 && self.half_width > 0.0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_those_of_the_quantile_of_their_own_number() {
        let seeds = |n, half_width, distance| {
            let away = Distance {
                n,
                half_width,
                distance,
                comparisons: 1,
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
}
