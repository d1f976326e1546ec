//! Blocking estimation (BLEST; Ferlin, Alay, Mehani and Boreli 2016): a packet is sent on the slower path only if the
//! shared window also has room for all data that the faster path will send until that packet is acknowledged.

use super::lowest_rtt::fastest;
use super::{Demand, Distribute};
use crate::Time;
use crate::multipath::PathView;
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Parameters of blocking estimation.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct BlestParameters {
    /// Initial lambda, 1 to 1.3: a factor of the estimated amount of data that the faster path sends. It grows by 0.04 with each
    /// round-trip time in which the shared window was full, and shrinks by 0.01 with each other one.
    pub lambda: f64,
}

impl Default for BlestParameters {
    fn default() -> Self {
        BlestParameters { lambda: 1.2 }
    }
}

impl Part<dyn Distribute> for BlestParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("lambda", self.lambda, LOWEST, HIGHEST, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(Blest {
            lambda: self.lambda,
            has_stalled: false,
            round_began: Time::ZERO,
        })
    }
}

const LOWEST: f64 = 1.0;
const HIGHEST: f64 = 1.3;

#[derive(Debug)]
struct Blest {
    lambda: f64,
    /// The shared window has been full in this round.
    has_stalled: bool,
    round_began: Time,
}

impl Blest {
    fn adapt(&mut self, now: Time, fast: &PathView) {
        if now.since(self.round_began) < fast.round() {
            return;
        }
        self.round_began = now;
        let step = if core::mem::take(&mut self.has_stalled) {
            0.04
        } else {
            -0.01
        };
        self.lambda = (self.lambda + step).clamp(LOWEST, HIGHEST);
    }
}

impl Distribute for Blest {
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize> {
        let fast = fastest(paths, |path| path.usable)?;
        self.adapt(demand.now, &paths[fast]);
        let slow = fastest(paths, |path| path.open)?;
        if slow == fast {
            return Some(fast);
        }
        let (fast, path) = (&paths[fast], &paths[slow]);
        // Ferlin et al. 2016, equations 1 and 2: the rounds of the fast path until the packet on the slow path is
        // acknowledged, and the data that it sends in them if its window grows by one unit per round.
        let rounds = path.round().as_secs_f64() / fast.round().as_secs_f64().max(1e-9);
        let units = fast.cwnd as f64 / fast.unit.max(1) as f64;
        let sent = (units + (rounds - 1.0) / 2.0) * rounds * fast.unit as f64;
        let left = demand
            .shared_window()
            .saturating_sub(path.flight.saturating_add(path.unit));
        (self.lambda * sent <= left as f64).then_some(slow)
    }

    fn on_stall(&mut self, _demand: &Demand, _paths: &[PathView]) {
        self.has_stalled = true;
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{UNIT, demand, path};
    use super::*;
    use crate::Span;

    fn part(lambda: f64) -> Blest {
        Blest {
            lambda,
            has_stalled: false,
            round_began: Time::ZERO,
        }
    }

    #[test]
    fn the_slow_path_is_used_while_the_fast_one_will_have_room() {
        // 20 and 80 ms: 4 rounds with windows of at least 10 units, (10 + 3/2) * 4 = 46 units; the slow path has 5
        // units and this one.
        let paths = [path(10, 10, 20), path(10, 5, 80)];
        assert_eq!(part(1.0).choose(&demand(9, 52), &paths), Some(1));
        assert_eq!(part(1.0).choose(&demand(9, 51), &paths), None);
        // 1.2 * 46 = 55.2 units
        assert_eq!(part(1.2).choose(&demand(9, 61), &paths), None);
        assert_eq!(part(1.2).choose(&demand(9, 62), &paths), Some(1));
        // Outstanding data is part of the window, but not more than the send buffer holds.
        let mut demand = Demand {
            unacknowledged: 15 * UNIT,
            ..demand(9, 47)
        };
        assert_eq!(part(1.2).choose(&demand, &paths), Some(1));
        demand.send_buffer = 61 * UNIT;
        assert_eq!(part(1.2).choose(&demand, &paths), None);
        assert_eq!(part(1.2).choose(&demand, &[path(10, 9, 20), path(10, 5, 80)]), Some(0));
    }

    #[test]
    fn lambda_follows_the_stalls() {
        let paths = [path(10, 9, 20), path(10, 5, 80)];
        let mut part = part(1.2);
        let at = |ms| Demand {
            now: Time::ZERO + Span::from_millis(ms),
            ..demand(9, 9)
        };
        part.on_stall(&at(1), &paths);
        part.choose(&at(10), &paths);
        assert_eq!(part.lambda, 1.2, "the round is not over");
        part.choose(&at(20), &paths);
        assert!((part.lambda - 1.24).abs() < 1e-9);
        part.choose(&at(40), &paths);
        assert!((part.lambda - 1.23).abs() < 1e-9);
        for round in 3..100 {
            part.choose(&at(20 * round), &paths);
        }
        assert_eq!(part.lambda, LOWEST);
        for round in 100..110 {
            part.on_stall(&at(20 * round), &paths);
            part.choose(&at(20 * round), &paths);
        }
        assert_eq!(part.lambda, HIGHEST);
    }
}
