//! The weighted count cycle of QA-SCTP (Pan et al. 2010, 4.1.1, Figures 4 and 7): a path fails by the cost of its
//! timeouts in a cycle of delivered packets, so that many short outages count like a long one.
//!
//! A timeout costs 2 to the power of its consecutive number (equation 1): 2 for a single one, 62 for five in a row. The
//! path becomes inactive when the cost reaches the threshold. Then the cost restarts at zero, as it does after each
//! cycle of delivered packets.
//!
//! The paper does not specify when data returns to a failed path that responds again. A lossy path answers its next
//! heartbeat in about half of the cases. With `returns` off, the default in Whimbrel, data stays on the other path
//! while that path is usable.

use super::manage::{entry, forget};
use super::{Fitness, ManagePaths, Paths, PolicyEvent};
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Failure by the cost of timeouts in a cycle.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct CycleCountParameters {
    /// Packets delivered in a cycle, 1 to 1000000.
    pub cycle: u32,
    /// The path fails if its cost reaches this fraction of the cycle: above 0, up to 1.
    pub threshold: f64,
    /// Whether data returns to the primary path as soon as it answers.
    pub returns: bool,
}

impl Default for CycleCountParameters {
    fn default() -> Self {
        CycleCountParameters {
            cycle: 220,
            threshold: 0.15,
            returns: false,
        }
    }
}

/// The cycle of one path.
#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    cost: u64,
    delivered: u32,
    failed: bool,
}

#[derive(Debug)]
pub(super) struct CycleCount {
    parameters: CycleCountParameters,
    cycles: Vec<Cycle>,
    /// The user has selected a primary path to which data has not moved yet.
    chosen: bool,
}

impl CycleCount {
    pub(super) fn new(parameters: CycleCountParameters) -> Self {
        CycleCount {
            parameters,
            cycles: Vec::new(),
            chosen: false,
        }
    }
}

impl Part<dyn ManagePaths> for CycleCountParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("cycle", self.cycle.into(), 1.0, 1e6, "packets")?;
        if !(self.threshold > 0.0 && self.threshold <= 1.0) {
            return Err(ParameterError::new(
                "threshold",
                self.threshold,
                "allowed is a number above 0 and up to 1",
            ));
        }
        Ok(())
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(CycleCount::new(*self))
    }
}

impl ManagePaths for CycleCount {
    fn on_event(&mut self, _paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        let limit = self.parameters.threshold * f64::from(self.parameters.cycle);
        let cycle = entry(&mut self.cycles, path);
        match event {
            // Equation 1
            PolicyEvent::Timeout { consecutive } if !cycle.failed => {
                cycle.cost = cycle.cost.saturating_add(1 << (*consecutive).min(62));
                if cycle.cost as f64 >= limit {
                    *cycle = Cycle {
                        failed: true,
                        ..Cycle::default()
                    };
                }
            }
            PolicyEvent::Delivered { packets, .. } => {
                cycle.failed = false;
                cycle.delivered = cycle.delivered.saturating_add(*packets);
                if cycle.delivered >= self.parameters.cycle {
                    *cycle = Cycle::default();
                }
            }
            PolicyEvent::Answered { .. } => cycle.failed = false,
            PolicyEvent::Chosen => self.chosen = true,
            PolicyEvent::Timeout { .. } | PolicyEvent::Report { .. } | PolicyEvent::Train { .. } => {}
        }
    }

    fn on_replaced(&mut self, path: usize) {
        forget(&mut self.cycles, path);
    }

    fn fitness(&self, path: usize, counted: Fitness, _paths: &Paths<'_>) -> Fitness {
        match self.cycles.get(path) {
            Some(Cycle { failed: true, .. }) => Fitness::Inactive,
            _ => counted,
        }
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        if self.parameters.returns || core::mem::take(&mut self.chosen) {
            return standard;
        }
        paths.usable(paths.current).unwrap_or(standard)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench(parameters: CycleCountParameters) -> Bench {
        let context = BuildContext::default();
        Bench::new(parameters.build(&context), &[100, 100])
    }

    fn is_fit(bench: &mut Bench, path: usize) -> bool {
        bench.ask(|policy, paths| policy.fitness(path, Fitness::Active, paths)) == Fitness::Active
    }

    #[test]
    fn equation_1_a_long_outage_fails_at_the_fifth_timeout() {
        // Pan et al. 2010, 4.1.1 and 5.2.1: 15 % of a cycle of 220 packets is a cost of 33; 2 + 4 + 8 + 16 = 30.
        let mut bench = bench(CycleCountParameters::default());
        for consecutive in 1..=4 {
            bench.timeout(0, consecutive);
            assert!(is_fit(&mut bench, 0), "{consecutive}");
        }
        bench.timeout(0, 5);
        assert!(!is_fit(&mut bench, 0));
        assert!(is_fit(&mut bench, 1), "each path has its own");
    }

    #[test]
    fn figure_4_many_short_outages_fail_the_path_as_well() {
        // Figure 2: 23 timeouts in half a minute, never six in a row, leave the standard's path active. A single
        // timeout costs 2: the seventeenth makes 34, unless 220 packets have been delivered before.
        let mut bench = bench(CycleCountParameters::default());
        for _ in 1..=16 {
            bench.timeout(0, 1);
            assert!(is_fit(&mut bench, 0));
            bench.delivered(0, 13);
        }
        bench.timeout(0, 1);
        assert!(!is_fit(&mut bench, 0));
        // Two in a row cost 2 + 4: the sixth pair makes 36.
        let mut bench = self::bench(CycleCountParameters::default());
        for pair in 1..=6 {
            assert!(is_fit(&mut bench, 0), "{pair}");
            bench.timeout(0, 1);
            bench.timeout(0, 2);
            assert_eq!(is_fit(&mut bench, 0), pair < 6);
            if pair < 6 {
                bench.delivered(0, 10);
            }
        }
    }

    #[test]
    fn figure_7_the_cost_returns_to_zero_with_a_cycle_and_with_failure() {
        let mut bench = bench(CycleCountParameters::default());
        for consecutive in 1..=4 {
            bench.timeout(0, consecutive);
        }
        bench.delivered(0, 219);
        bench.timeout(0, 1);
        assert!(is_fit(&mut bench, 0), "32 of 33");
        bench.delivered(0, 1);
        for consecutive in 1..=4 {
            bench.timeout(0, consecutive);
            assert!(is_fit(&mut bench, 0), "a new cycle");
        }
        bench.timeout(0, 5);
        assert!(!is_fit(&mut bench, 0));
        bench.timeout(0, 6);
        assert!(!is_fit(&mut bench, 0), "until it answers");
        bench.answered(0);
        assert!(is_fit(&mut bench, 0));
        bench.timeout(0, 4);
        assert!(is_fit(&mut bench, 0), "16: nothing is left of before");
    }

    #[test]
    fn another_path_in_its_place_begins_with_nothing() {
        let mut bench = bench(CycleCountParameters::default());
        bench.timeout(0, 4);
        bench.timeout(0, 5);
        assert!(!is_fit(&mut bench, 0));
        bench.policy.on_replaced(0);
        assert!(is_fit(&mut bench, 0));
        bench.timeout(0, 4);
        assert!(is_fit(&mut bench, 0), "16 of 33");
    }

    #[test]
    fn data_stays_on_the_other_path_unless_it_is_to_return() {
        for returns in [false, true] {
            let mut bench = bench(CycleCountParameters {
                returns,
                ..CycleCountParameters::default()
            });
            bench.views[0].usable = false;
            bench.timeout(0, 5);
            assert_eq!(bench.current, 1);
            bench.views[0].usable = true;
            bench.answered(0);
            assert_eq!(bench.current, usize::from(!returns));
            bench.event(0, PolicyEvent::Chosen);
            assert_eq!(bench.current, 0, "the user wants it");
        }
    }
}
