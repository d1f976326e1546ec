//! Potentially failed paths (RFC 7829): data leaves a path after few timeouts, long before the path becomes inactive,
//! and returns as soon as a probe is answered.
//!
//! The transport sends the probes, one per RTO, and chooses the path with the lowest error count while no path is
//! active (RFC 7829 §3.2). The transport's setting `potentially_failed_max_retrans` has the same effect without the two
//! additions of this policy: another primary path after more timeouts (RFC 7829 §5), and a reset of the window.

use super::manage::{entry, forget};
use super::{Fitness, ManagePaths, Order, Paths, PolicyEvent};
use crate::part::{BuildContext, ParameterError, Part};

/// Potentially failed paths.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct PotentiallyFailedParameters {
    /// Potentially.Failed.Max.Retrans (PFMR): timeouts in a row that a path may have before data goes elsewhere, 0 to 255.
    pub max_retrans: u32,
    /// Primary.Switchover.Max.Retrans (PSMR): number of consecutive timeouts after which the path that carries data becomes the
    /// primary path, `max_retrans` to 255. Absent: never; data returns as soon as the primary path answers.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub switchover_max_retrans: Option<u32>,
    /// Congestion window of a path that answers a heartbeat after it failed, in units of the window, 0 to 100. 0 keeps the window
    /// that the last timeout set (RFC 7829); 2 is the value of CMT-PF in ns-2.
    pub restart_units: u32,
}

#[derive(Debug)]
struct PotentiallyFailed {
    parameters: PotentiallyFailedParameters,
    /// Paths that have exceeded the limit since their last acknowledgement.
    exceeded: Vec<bool>,
    restart: Option<usize>,
}

impl Part<dyn ManagePaths> for PotentiallyFailedParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        if self.max_retrans > 255 {
            return Err(ParameterError::new(
                "max_retrans",
                self.max_retrans,
                "allowed are 0 to 255 timeouts",
            ));
        }
        if let Some(psmr) = self
            .switchover_max_retrans
            .filter(|psmr| *psmr > 255 || *psmr < self.max_retrans)
        {
            return Err(ParameterError::new(
                "switchover_max_retrans",
                psmr,
                "allowed are max_retrans to 255 timeouts",
            ));
        }
        if self.restart_units > 100 {
            return Err(ParameterError::new(
                "restart_units",
                self.restart_units,
                "allowed are 0 to 100 units",
            ));
        }
        Ok(())
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(PotentiallyFailed {
            parameters: *self,
            exceeded: Vec::new(),
            restart: None,
        })
    }
}

impl ManagePaths for PotentiallyFailed {
    fn on_event(&mut self, _paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        let exceeded = entry(&mut self.exceeded, path);
        match event {
            PolicyEvent::Timeout { consecutive } => *exceeded = *consecutive > self.parameters.max_retrans,
            PolicyEvent::Answered { .. } if core::mem::take(exceeded) && self.parameters.restart_units > 0 => {
                self.restart = Some(path);
            }
            PolicyEvent::Answered { .. } | PolicyEvent::Delivered { .. } => *exceeded = false,
            PolicyEvent::Report { .. } | PolicyEvent::Train { .. } | PolicyEvent::Chosen => {}
        }
    }

    fn on_replaced(&mut self, path: usize) {
        forget(&mut self.exceeded, path);
        self.restart.take_if(|restart| *restart == path);
    }

    fn fitness(&self, path: usize, counted: Fitness, _paths: &Paths<'_>) -> Fitness {
        if self.exceeded.get(path) == Some(&true) {
            counted.max(Fitness::PotentiallyFailed)
        } else {
            counted
        }
    }

    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        let limit = self.parameters.switchover_max_retrans;
        let errors = paths.views.get(paths.primary).map_or(0, |view| view.errors);
        // RFC 7829 §5: only if another path can take over.
        let takes_over = limit.is_some_and(|limit| errors > limit)
            && paths
                .views
                .get(paths.current)
                .is_some_and(|view| view.usable && view.errors == 0);
        if takes_over { paths.current } else { paths.primary }
    }

    fn next_order(&mut self) -> Option<(usize, Order)> {
        let units = self.parameters.restart_units;
        self.restart.take().map(|path| (path, Order::Restart { units }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench(parameters: PotentiallyFailedParameters) -> Bench {
        let context = BuildContext::default();
        Bench::new(parameters.build(&context), &[100, 100])
    }

    fn fitness(bench: &mut Bench, path: usize) -> Fitness {
        bench.ask(|policy, paths| policy.fitness(path, Fitness::Active, paths))
    }

    #[test]
    fn section_3_a_path_is_potentially_failed_when_its_errors_exceed_pfmr() {
        // RFC 7829 §3.2
        for max_retrans in [0, 2] {
            let mut bench = bench(PotentiallyFailedParameters {
                max_retrans,
                ..PotentiallyFailedParameters::default()
            });
            for errors in 1..=max_retrans {
                bench.timeout(0, errors);
                assert_eq!(fitness(&mut bench, 0), Fitness::Active);
            }
            bench.timeout(0, max_retrans + 1);
            assert_eq!(fitness(&mut bench, 0), Fitness::PotentiallyFailed);
            assert_eq!(fitness(&mut bench, 1), Fitness::Active);
            let failed = bench.ask(|policy, paths| policy.fitness(0, Fitness::Inactive, paths));
            assert_eq!(failed, Fitness::Inactive, "the error counter goes further");
            bench.answered(0);
            assert_eq!(fitness(&mut bench, 0), Fitness::Active);
            assert_eq!(bench.orders, [], "RFC 7829 leaves the window alone");
        }
    }

    #[test]
    fn section_5_the_primary_switches_over_when_its_errors_exceed_psmr() {
        // RFC 7829 §5
        let mut bench = bench(PotentiallyFailedParameters {
            switchover_max_retrans: Some(2),
            ..PotentiallyFailedParameters::default()
        });
        for errors in 1..=2 {
            bench.timeout(0, errors);
            bench.views[0].usable = false;
        }
        bench.follow_now();
        assert_eq!((bench.primary, bench.current), (0, 1), "for the time being");
        bench.timeout(0, 3);
        assert_eq!((bench.primary, bench.current), (1, 1), "for good");
        bench.views[0].usable = true;
        bench.answered(0);
        assert_eq!((bench.primary, bench.current), (1, 1));
    }

    #[test]
    fn without_another_path_the_primary_stays() {
        let mut bench = bench(PotentiallyFailedParameters {
            switchover_max_retrans: Some(0),
            ..PotentiallyFailedParameters::default()
        });
        bench.views[1].usable = false;
        bench.timeout(0, 1);
        assert_eq!((bench.primary, bench.current), (0, 0));
    }

    #[test]
    fn a_window_may_begin_anew_as_in_ns_2() {
        let mut bench = bench(PotentiallyFailedParameters {
            restart_units: 2,
            ..PotentiallyFailedParameters::default()
        });
        bench.answered(0);
        assert_eq!(bench.orders, [], "nothing had failed");
        bench.timeout(0, 1);
        bench.answered(0);
        assert_eq!(bench.orders, [(0, Order::Restart { units: 2 })]);
    }

    #[test]
    fn limits_are_checked() {
        let parameters = PotentiallyFailedParameters {
            max_retrans: 3,
            switchover_max_retrans: Some(2),
            ..PotentiallyFailedParameters::default()
        };
        assert_eq!(
            parameters.validate().map_err(|e| e.field),
            Err("switchover_max_retrans")
        );
    }
}
