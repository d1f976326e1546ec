//! ICE with fewer probes for the same selection, which Pan et al. (2010, 7) leave to future work: a measurement ends as
//! soon as the result is clear. This is an addition of Whimbrel.
//!
//! The windows are averaged over batches of one second. The differences between an idle path's and the current path's
//! windows are treated as independent observations. When their mean differs from zero by enough standard errors, for
//! every idle path, no more probes are sent. The first batch is ignored, because the probes' window has yet to grow.

use super::ManagePaths;
use super::ice::IceParameters;
use super::measure::{Early, Estimation, Plan};
use crate::Span;
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Measurements that end when their answer is clear.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct IceSparseParameters {
    /// When the first measurement begins, up to 24 h after the association is up.
    pub first: Span,
    /// From the beginning of a measurement to that of the next one, 1 s to 24 h.
    pub period: Span,
    /// Maximum length of a measurement, 100 ms up to the period.
    pub length: Span,
    /// Fraction by which the mean window of an idle path must be larger, 0 to 10.
    pub margin: f64,
    /// Fraction of the packets delivered during a measurement for which the current path's window must have been full, 0 to 1. Below it,
    /// data stays on the current path.
    pub filled: f64,
    /// Whether the window of the probes grows although it is not filled, up to what the peer's receive buffer takes.
    pub unfilled_growth: bool,
    /// Length of a batch, 10 ms to 60 s. It should be several round-trip times.
    pub batch: Span,
    /// Minimum number of batches, 2 to 1000.
    pub least: u32,
    /// The measurement ends when the mean difference of the windows exceeds this number of standard errors, 0 to 100.
    pub confidence: f64,
}

impl Default for IceSparseParameters {
    fn default() -> Self {
        let ice = IceParameters::default();
        IceSparseParameters {
            first: ice.first,
            period: ice.period,
            length: ice.length,
            margin: ice.margin,
            filled: ice.filled,
            unfilled_growth: ice.unfilled_growth,
            batch: Span::from_secs(1),
            least: 4,
            confidence: 2.0,
        }
    }
}

impl IceSparseParameters {
    fn ice(&self) -> IceParameters {
        IceParameters {
            first: self.first,
            period: self.period,
            length: self.length,
            margin: self.margin,
            filled: self.filled,
            unfilled_growth: self.unfilled_growth,
        }
    }
}

impl Part<dyn ManagePaths> for IceSparseParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        self.ice().check()?;
        in_range("batch", self.batch.as_secs_f64(), 0.01, 60.0, "s")?;
        in_range("least", self.least.into(), 2.0, 1000.0, "batches")?;
        in_range("confidence", self.confidence, 0.0, 100.0, "standard errors")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(Estimation::new(Plan {
            early: Some(Early {
                batch: self.batch,
                least: self.least,
                confidence: self.confidence,
            }),
            ..self.ice().plan()
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    /// Returns the duration of the measurement in seconds, and the selected path. `windows` returns the windows of each
    /// second.
    fn measured(windows: impl Fn(u64) -> [u64; 2]) -> (u64, usize) {
        let context = BuildContext::default();
        let parameters = IceSparseParameters {
            first: Span::ZERO,
            ..IceSparseParameters::default()
        };
        let mut bench = Bench::new(parameters.build(&context), &[100, 100]);
        let begin = bench.now;
        bench.pass(Span::ZERO);
        let mut ended = None;
        for tenth in 0..400 {
            let windows = windows(tenth / 10);
            bench.views[0].cwnd = windows[0];
            bench.probes = vec![None, Some(windows[1])];
            let current = bench.current;
            bench.delivered(current, 1);
            bench.pass(Span::from_millis(100));
            if bench.probed.is_empty() {
                ended = ended.or(Some(bench.now.since(begin).as_millis() / 1000));
            }
        }
        (ended.expect("it ends"), bench.current)
    }

    #[test]
    fn a_clear_answer_ends_the_measurement_after_the_least_number_of_batches() {
        assert_eq!(measured(|_| [20, 60]), (5, 1));
        assert_eq!(measured(|_| [60, 20]), (5, 0));
    }

    #[test]
    fn an_unclear_one_takes_as_long_as_with_ice() {
        // The windows alternate between 20 and 40, so their means do not differ.
        let (seconds, path) = measured(|second| if second % 2 == 0 { [20, 42] } else { [40, 20] });
        assert_eq!(path, 0);
        assert!(seconds >= 29, "{seconds}");
    }

    #[test]
    fn the_first_batch_does_not_count() {
        assert_eq!(
            measured(|second| if second == 0 { [1000, 1] } else { [20, 60] }),
            (5, 1)
        );
    }
}
