//! OLIA, the opportunistic linked increases (Khalili, Gast, Popovic and Le Boudec 2013;
//! draft-khalili-mptcp-congestion-control). The total growth is that of LIA. In addition, growth moves from the paths
//! with the largest windows to better paths with smaller windows.
//!
//! The implementation uses equation 1 of the draft and its sets of best paths (ranked by l^2 / rtt, or as in kernels)
//! and of paths with the largest window. As in the draft, the term that moves growth may exceed the other one: then the
//! largest window shrinks. It shrinks by whole units, down to one unit, and stays in congestion avoidance.

use super::Couple;
use super::rates::{rate, round, total_rate};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// How paths are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Ranking {
    /// By l^2 / rtt, as in the draft.
    #[default]
    Draft,
    /// By l / rtt^2, as kernels have it.
    Kernel,
}

/// Parameters of the opportunistic linked increases.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct OliaParameters {
    /// How paths are ranked, with l the bytes delivered between losses.
    pub ranking: Ranking,
}

impl Part<dyn Couple> for OliaParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Couple> {
        Box::new(Olia {
            ranking: self.ranking,
            deliveries: Vec::new(),
        })
    }
}

/// Bytes delivered on a path.
#[derive(Clone, Copy, Debug, Default)]
struct Deliveries {
    since_loss: u64,
    /// Between the last two losses.
    before: u64,
}

#[derive(Debug)]
struct Olia {
    ranking: Ranking,
    deliveries: Vec<Deliveries>,
}

impl Olia {
    fn of(&mut self, path: usize) -> &mut Deliveries {
        if path >= self.deliveries.len() {
            self.deliveries.resize(path + 1, Deliveries::default());
        }
        &mut self.deliveries[path]
    }

    fn rank(&self, index: usize, path: &PathView) -> f64 {
        let l = self.deliveries.get(index).map_or(0, |d| d.since_loss.max(d.before)) as f64;
        match self.ranking {
            Ranking::Draft => l * l / round(path),
            Ranking::Kernel => l / (round(path) * round(path)),
        }
    }

    /// Returns the growth moved to the path, as a fraction of a unit per window.
    fn shift(&self, path: usize, paths: &[PathView]) -> f64 {
        let in_use = || paths.iter().enumerate().filter(|(_, view)| view.usable);
        let best = in_use().map(|(index, view)| self.rank(index, view)).fold(0.0, f64::max);
        let largest = in_use().map(|(_, view)| view.cwnd).max().unwrap_or(0);
        let is_largest = |view: &PathView| view.cwnd == largest;
        let deserves = |index: usize, view: &PathView| self.rank(index, view) >= best && !is_largest(view);
        let (count, deserving) = (
            in_use().count(),
            in_use().filter(|(n, view)| deserves(*n, view)).count(),
        );
        let Some(own) = paths.get(path).filter(|own| own.usable && deserving > 0) else {
            return 0.0;
        };
        if deserves(path, own) {
            1.0 / (count * deserving) as f64
        } else if is_largest(own) {
            let largest = in_use().filter(|(_, view)| is_largest(view)).count();
            -1.0 / (count * largest) as f64
        } else {
            0.0
        }
    }
}

impl Couple for Olia {
    /// Khalili et al., equation 1: (w / rtt^2) / (sum of w / rtt)^2 + shift / w for each acknowledged unit; 1 / w if
    /// uncoupled.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        let Some(own) = paths.get(path) else { return 1.0 };
        let share = rate(own) / total_rate(path, paths);
        share * share + self.shift(path, paths)
    }

    fn on_delivered(&mut self, path: usize, bytes: u64) {
        let deliveries = self.of(path);
        deliveries.since_loss = deliveries.since_loss.saturating_add(bytes);
    }

    fn on_loss(&mut self, path: usize) {
        let deliveries = self.of(path);
        *deliveries = Deliveries {
            since_loss: 0,
            before: deliveries.since_loss,
        };
    }

    fn on_replaced(&mut self, path: usize) {
        *self.of(path) = Deliveries::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::two;
    use super::*;

    fn olia(ranking: Ranking) -> Olia {
        Olia {
            ranking,
            deliveries: Vec::new(),
        }
    }

    #[test]
    fn growth_moves_to_the_better_path_with_the_smaller_window() {
        // Shares 1/3 and 2/3. The second path is the best (400^2 / 0.025 against 600^2 / 0.1) and has the smaller
        // window: it gets 1/2 of a unit from the first one.
        let paths = two();
        let mut part = olia(Ranking::Draft);
        part.on_delivered(0, 600_000);
        part.on_delivered(1, 400_000);
        assert!((part.growth(1, &paths) - (4.0 / 9.0 + 0.5)).abs() < 1e-9);
        assert!((part.growth(0, &paths) - (1.0 / 9.0 - 0.5)).abs() < 1e-9, "it shrinks");
        // After a loss the larger one of the last two intervals is used: (100 + ...) / 0.1 against 400.
        part.on_loss(1);
        part.on_delivered(1, 1000);
        assert!((part.growth(1, &paths) - (4.0 / 9.0 + 0.5)).abs() < 1e-9);
        part.on_loss(1);
        // Now the first path is the best, and it has the largest window: no growth is moved.
        assert!((part.growth(0, &paths) - 1.0 / 9.0).abs() < 1e-9);
        assert!((part.growth(1, &paths) - 4.0 / 9.0).abs() < 1e-9);
    }

    #[test]
    fn a_path_in_the_place_of_another_begins_anew() {
        let paths = two();
        let mut part = olia(Ranking::Draft);
        part.on_delivered(1, 400_000);
        assert!(part.shift(1, &paths) > 0.0);
        part.on_replaced(1);
        part.on_delivered(0, 1000);
        assert_eq!(part.shift(1, &paths), 0.0);
    }

    #[test]
    fn kernels_rank_otherwise() {
        // 900 and 400 kB: 900^2 / 0.1 is more than 400^2 / 0.025, but 900 / 0.01 is less than 400 / 0.000625.
        let paths = two();
        for (ranking, moves) in [(Ranking::Draft, false), (Ranking::Kernel, true)] {
            let mut part = olia(ranking);
            part.on_delivered(0, 900_000);
            part.on_delivered(1, 400_000);
            assert_eq!(part.shift(1, &paths) > 0.0, moves, "{ranking:?}");
        }
    }
}
