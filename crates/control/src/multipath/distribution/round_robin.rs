//! Round robin weighted by window: a path with twice the window carries twice the packets, evenly interleaved.

use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Weighted round robin. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct RoundRobinParameters {}

impl Part<dyn Distribute> for RoundRobinParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(RoundRobin { credits: Vec::new() })
    }
}

/// The turn goes to the path with the most credit. In each turn every open path gains its window as credit, and the
/// path with the turn pays the sum.
#[derive(Debug)]
struct RoundRobin {
    credits: Vec<i64>,
}

/// Larger windows are limited to this value, so that sums cannot overflow.
const LARGEST: u64 = 1 << 40;

impl Distribute for RoundRobin {
    fn choose(&mut self, _demand: &Demand, paths: &[PathView]) -> Option<usize> {
        self.credits.resize(paths.len(), 0);
        let (mut sum, mut chosen) = (0, None);
        for (index, (path, credit)) in paths.iter().zip(&mut self.credits).enumerate() {
            if !path.open {
                // Credit is not accumulated while the path cannot send.
                *credit = (*credit).min(0);
                continue;
            }
            let weight = path.cwnd.clamp(1, LARGEST) as i64;
            *credit += weight;
            sum += weight;
            if chosen.is_none_or(|(_, most)| *credit > most) {
                chosen = Some((index, *credit));
            }
        }
        let (index, _) = chosen?;
        // A debt from a time with larger windows is limited.
        self.credits[index] = (self.credits[index] - sum).max(-(LARGEST as i64));
        Some(index)
    }

    fn on_replaced(&mut self, path: usize) {
        if let Some(credit) = self.credits.get_mut(path) {
            *credit = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{demand, path};
    use super::*;

    fn part() -> Box<dyn Distribute> {
        RoundRobinParameters {}.build(&BuildContext::default())
    }

    #[test]
    fn turns_are_in_proportion_to_the_windows() {
        // Windows of 6, 2 and 1 make a round of nine turns. Credits by hand, in units, before each turn: (6, 2, 1), (3,
        // 4, 2), (9, -3, 3), (6, -1, 4), (3, 1, 5), (9, 3, -3), (6, 5, -2), (3, 7, -1), (9, 0, 0); the path with the
        // largest credit has the turn and pays 9.
        let mut part = part();
        let paths = [path(6, 0, 50), path(2, 0, 10), path(1, 0, 10)];
        let turns: Vec<_> = (0..9).filter_map(|_| part.choose(&demand(10, 100), &paths)).collect();
        assert_eq!(turns, [0, 1, 0, 0, 2, 0, 0, 1, 0]);
    }

    #[test]
    fn a_path_in_the_place_of_another_has_no_debts() {
        let mut part = part();
        let paths = [path(2, 0, 1), path(2, 0, 1)];
        assert_eq!(part.choose(&demand(1, 9), &paths), Some(0));
        part.on_replaced(0);
        part.on_replaced(1);
        assert_eq!(part.choose(&demand(1, 9), &paths), Some(0));
    }

    #[test]
    fn who_cannot_send_loses_the_turn() {
        let mut part = part();
        let (open, full) = ([path(2, 0, 1), path(2, 0, 1)], [path(2, 0, 1), path(2, 2, 1)]);
        for _ in 0..5 {
            assert_eq!(part.choose(&demand(1, 9), &full), Some(0));
        }
        // No debt and no credit was accumulated: the paths take turns again.
        let turns: Vec<_> = (0..4).filter_map(|_| part.choose(&demand(1, 9), &open)).collect();
        assert_eq!(turns, [0, 1, 0, 1]);
        assert_eq!(part.choose(&demand(1, 9), &[path(1, 1, 1)]), None);
    }
}
