//! QA-SCTP (Pan et al. 2010, 4, Figure 3): failure by the count cycle, and path selection by measurements of idle
//! paths.

use super::cycle_count::{CycleCount, CycleCountParameters};
use super::ice::IceParameters;
use super::measure::Estimation;
use super::{Fitness, ManagePaths, Order, Paths, PolicyEvent};
use crate::Time;
use crate::part::{BuildContext, ParameterError, Part};

/// The count cycle and ICE together.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct QaSctpParameters {
    /// When a path fails.
    pub failure: CycleCountParameters,
    /// How idle paths are measured.
    pub ice: IceParameters,
}

#[derive(Debug)]
struct QaSctp {
    failure: CycleCount,
    estimation: Estimation,
}

impl Part<dyn ManagePaths> for QaSctpParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        self.failure.validate()?;
        self.ice.validate()
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(QaSctp {
            failure: CycleCount::new(self.failure),
            estimation: Estimation::new(self.ice.plan()),
        })
    }
}

impl ManagePaths for QaSctp {
    fn on_event(&mut self, paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        self.failure.on_event(paths, path, event);
        self.estimation.on_event(paths, path, event);
    }

    fn on_replaced(&mut self, path: usize) {
        self.failure.on_replaced(path);
        self.estimation.on_replaced(path);
    }

    fn on_timer(&mut self, paths: &Paths<'_>) {
        self.estimation.on_timer(paths);
    }

    fn next_timer(&self) -> Time {
        self.estimation.next_timer()
    }

    fn fitness(&self, path: usize, counted: Fitness, paths: &Paths<'_>) -> Fitness {
        self.failure.fitness(path, counted, paths)
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        let stays = self.failure.sending(standard, paths);
        self.estimation.sending(stays, paths)
    }

    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        self.estimation.primary(paths)
    }

    fn next_order(&mut self) -> Option<(usize, Order)> {
        self.estimation.next_order()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;
    use crate::Span;

    #[test]
    fn it_leaves_a_path_by_cost_and_returns_by_measurement() {
        // Pan et al. 2010, Figure 3
        let context = BuildContext::default();
        let mut bench = Bench::new(QaSctpParameters::default().build(&context), &[100, 100]);
        bench.pass(Span::from_secs(50));
        bench.timeout(0, 4);
        bench.timeout(0, 5);
        let failed = bench.ask(|policy, paths| policy.fitness(0, Fitness::Active, paths));
        assert_eq!(failed, Fitness::Inactive);
        bench.views[0].usable = false;
        bench.follow_now();
        assert_eq!(bench.current, 1);
        bench.views[0].usable = true;
        bench.answered(0);
        assert_eq!(bench.current, 1, "an answer alone is not enough");
        for _ in 0..900 {
            bench.views[1].cwnd = 20_000;
            bench.probes = vec![Some(40_000), None];
            bench.delivered(1, 1);
            bench.pass(Span::from_millis(100));
        }
        assert_eq!((bench.current, bench.primary), (0, 0), "the larger mean window is");
    }
}
