//! Two thresholds (Caro, Iyengar, Amer, Heinz and Stewart, "A two-level threshold recovery mechanism for SCTP", 2002).
//! After a few consecutive timeouts, data moves to another path until the path responds, so that a short outage loses
//! little data. After more timeouts, the primary path changes permanently, so that data does not return to an
//! intermittent path each time. ns-2 has the same rule as `pathMaxRetrans_` and `changePrimaryThresh_`.
//!
//! Between the thresholds the path is probed once per RTO, as in RFC 7829, which is based on this idea. The paper
//! studies several pairs of thresholds; the defaults are chosen by Whimbrel.

use super::manage::{entry, forget};
use super::{Fitness, ManagePaths, Paths, PolicyEvent};
use crate::part::{BuildContext, ParameterError, Part};

/// Two thresholds of timeouts in a row.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct TwoLevelParameters {
    /// After more consecutive timeouts of a path than this, new data is sent on another path, 0 to 255.
    pub redirect: u32,
    /// After more consecutive timeouts of the primary path than this, the path that carries its data becomes the primary path, `redirect`
    /// to 255; counted up to `path_max_retrans` + 1.
    pub change: u32,
}

impl Default for TwoLevelParameters {
    fn default() -> Self {
        TwoLevelParameters { redirect: 1, change: 3 }
    }
}

#[derive(Debug)]
struct TwoLevel {
    parameters: TwoLevelParameters,
    /// Consecutive timeouts of each path.
    errors: Vec<u32>,
}

impl Part<dyn ManagePaths> for TwoLevelParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        if self.redirect > 255 {
            return Err(ParameterError::new(
                "redirect",
                self.redirect,
                "allowed are 0 to 255 timeouts",
            ));
        }
        if self.change > 255 || self.change < self.redirect {
            return Err(ParameterError::new(
                "change",
                self.change,
                "allowed are redirect to 255 timeouts",
            ));
        }
        Ok(())
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(TwoLevel {
            parameters: *self,
            errors: Vec::new(),
        })
    }
}

impl ManagePaths for TwoLevel {
    fn on_event(&mut self, _paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        match event {
            PolicyEvent::Timeout { consecutive } => *entry(&mut self.errors, path) = *consecutive,
            PolicyEvent::Delivered { .. } | PolicyEvent::Answered { .. } => *entry(&mut self.errors, path) = 0,
            PolicyEvent::Report { .. } | PolicyEvent::Train { .. } | PolicyEvent::Chosen => {}
        }
    }

    fn on_replaced(&mut self, path: usize) {
        forget(&mut self.errors, path);
    }

    fn fitness(&self, path: usize, counted: Fitness, _paths: &Paths<'_>) -> Fitness {
        let errors = self.errors.get(path).copied().unwrap_or(0);
        if errors > self.parameters.change {
            Fitness::Inactive
        } else if errors > self.parameters.redirect {
            counted.max(Fitness::PotentiallyFailed)
        } else {
            counted
        }
    }

    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        let errors = self.errors.get(paths.primary).copied().unwrap_or(0);
        let stands_in = paths.usable(paths.current).is_some() && self.errors.get(paths.current).is_none_or(|n| *n == 0);
        if errors > self.parameters.change && stands_in {
            paths.current
        } else {
            paths.primary
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench() -> Bench {
        let context = BuildContext::default();
        let parameters = TwoLevelParameters { redirect: 0, change: 2 };
        Bench::new(parameters.build(&context), &[100, 100])
    }

    #[test]
    fn the_lower_threshold_redirects_and_the_upper_one_changes_the_primary() {
        // Caro et al. 2002
        let mut bench = bench();
        let fitness = |bench: &mut Bench| bench.ask(|policy, paths| policy.fitness(0, Fitness::Active, paths));
        bench.timeout(0, 1);
        assert_eq!(fitness(&mut bench), Fitness::PotentiallyFailed);
        bench.views[0].usable = false;
        bench.timeout(0, 2);
        assert_eq!((bench.primary, bench.current), (0, 1));
        // It responds: data returns.
        bench.views[0].usable = true;
        bench.answered(0);
        assert_eq!((bench.primary, bench.current), (0, 0));
        assert_eq!(fitness(&mut bench), Fitness::Active);
        // It does not respond: the other path becomes the primary path.
        for errors in 1..=3 {
            bench.timeout(0, errors);
            bench.views[0].usable = false;
        }
        assert_eq!(fitness(&mut bench), Fitness::Inactive);
        bench.follow_now();
        assert_eq!((bench.primary, bench.current), (1, 1));
        bench.views[0].usable = true;
        bench.answered(0);
        assert_eq!((bench.primary, bench.current), (1, 1));
    }

    #[test]
    fn the_upper_threshold_is_not_below_the_lower() {
        let parameters = TwoLevelParameters { redirect: 3, change: 2 };
        assert_eq!(parameters.validate().map_err(|e| e.field), Err("change"));
    }
}
