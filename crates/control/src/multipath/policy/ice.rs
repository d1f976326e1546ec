//! ICE (Pan et al. 2010, 4.1.2, Figures 5 and 6): every 100 s the idle paths carry as many probes as the current path
//! carries data packets, for 30 s and with their own congestion windows. Then data moves to the path with the largest
//! mean window.
//!
//! Additions of Whimbrel: a margin, because one of two equal paths is always slightly better; data stays while the
//! current path carries all available data (`filled`); and no result if fewer than 30 data packets were delivered,
//! because without data there are no probes. A HEARTBEAT ACK is as large as its probe, and its loss counts as the loss
//! of the probe, whereas the loss of a SACK loses no data. If both directions lose packets, an idle path therefore
//! appears worse than it is.

use super::ManagePaths;
use super::measure::{Estimation, Plan};
use crate::Span;
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Measurements of idle paths.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct IceParameters {
    /// Start of the first measurement, up to 24 h after the association is established: 100 s in the third experiment of the paper, 0 s
    /// in the fourth.
    pub first: Span,
    /// Time from the start of a measurement to the start of the next one, 1 s to 24 h.
    pub period: Span,
    /// Length of a measurement, 100 ms up to the period.
    pub length: Span,
    /// Fraction by which the mean window of an idle path must be larger, 0 to 10; 0 in the paper.
    pub margin: f64,
    /// Fraction of the packets delivered during a measurement for which the current path's window must have been full, 0 to 1. Below
    /// it, data stays on the current path: the application limits the rate, and a window that is not full grows only with the
    /// round-trip time. The paper has 0, because its sender always has data.
    pub filled: f64,
    /// Whether the window of the probes grows although it is not filled, up to what the peer's receive buffer takes. There is one
    /// probe for each packet of the current path, so that the standard's rule, by which a window grows only while it is filled, keeps
    /// an idle path's window at what the current path's rate needs; the paper does not say.
    pub unfilled_growth: bool,
}

impl Default for IceParameters {
    fn default() -> Self {
        IceParameters {
            first: Span::from_secs(100),
            period: Span::from_secs(100),
            length: Span::from_secs(30),
            margin: 0.1,
            filled: 0.5,
            unfilled_growth: false,
        }
    }
}

impl IceParameters {
    pub(super) fn plan(&self) -> Plan {
        Plan {
            first: self.first,
            period: self.period,
            length: self.length,
            margin: self.margin,
            filled: self.filled,
            unfilled_growth: self.unfilled_growth,
            early: None,
        }
    }

    pub(super) fn check(&self) -> Result<(), ParameterError> {
        in_range("first", self.first.as_secs_f64(), 0.0, 86_400.0, "s")?;
        in_range("period", self.period.as_secs_f64(), 1.0, 86_400.0, "s")?;
        in_range("length", self.length.as_secs_f64(), 0.1, self.period.as_secs_f64(), "s")?;
        in_range("margin", self.margin, 0.0, 10.0, "")?;
        in_range("filled", self.filled, 0.0, 1.0, "")
    }
}

impl Part<dyn ManagePaths> for IceParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        self.check()
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(Estimation::new(self.plan()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench(parameters: IceParameters, paths: &[u64]) -> Bench {
        let context = BuildContext::default();
        Bench::new(parameters.build(&context), paths)
    }

    /// Data flows with these windows for this duration.
    fn flow(bench: &mut Bench, windows: &[u64], span: Span) {
        let end = bench.now + span;
        bench.views[bench.current].cwnd = windows[bench.current];
        while bench.now < end {
            let probed = bench.probed.clone();
            bench.probes = (0..windows.len())
                .map(|path| probed.contains(&path).then_some(windows[path]))
                .collect();
            let current = bench.current;
            bench.delivered(current, 1);
            bench.pass(Span::from_millis(100));
        }
    }

    #[test]
    fn figure_5_idle_paths_are_probed_for_30_s_in_each_100_s() {
        // Pan et al. 2010, 5.2.3
        let mut bench = bench(IceParameters::default(), &[100, 100, 100]);
        let mut probed = Vec::new();
        let begin = bench.now;
        for _ in 0..2400 {
            flow(&mut bench, &[10, 10, 10], Span::from_millis(100));
            let second = bench.now.since(begin).as_millis() as f64 / 1000.0;
            if probed.last().is_none_or(|(_, paths)| *paths != bench.probed) {
                probed.push((second, bench.probed.clone()));
            }
        }
        let expected = [
            (0.1, vec![]),
            (100.0, vec![2, 1]),
            (130.0, vec![]),
            (200.0, vec![2, 1]),
            (230.0, vec![]),
        ];
        for ((at, paths), (when, which)) in probed.iter().zip(&expected) {
            assert!((at - when).abs() < 0.15 && paths == which, "{probed:?}");
        }
        assert_eq!(probed.len(), expected.len());
        assert_eq!(bench.current, 0, "all are equal");
    }

    #[test]
    fn figure_6_data_moves_to_the_idle_path_with_the_larger_mean_window() {
        for (windows, expected) in [
            ([40, 30, 20], 0),
            ([20, 30, 21], 1),
            ([20, 30, 40], 2),
            // Within the margin of a tenth.
            ([20, 21, 22], 0),
        ] {
            let mut bench = bench(IceParameters::default(), &[100, 100, 100]);
            flow(&mut bench, &windows, Span::from_secs(129));
            assert_eq!(bench.current, 0, "while it is measured");
            flow(&mut bench, &windows, Span::from_secs(2));
            assert_eq!((bench.current, bench.primary), (expected, expected), "{windows:?}");
        }
    }

    #[test]
    fn means_are_weighted_by_time() {
        let parameters = IceParameters {
            first: Span::ZERO,
            margin: 0.0,
            ..IceParameters::default()
        };
        // 10 s at 60 and 20 s at 15 give a mean of 30; 29 and 31 are on either side.
        for (steady, expected) in [(31, 0), (29, 1)] {
            let mut bench = bench(parameters, &[100, 100]);
            flow(&mut bench, &[steady, 60], Span::from_secs(10));
            flow(&mut bench, &[steady, 15], Span::from_secs(21));
            assert_eq!(bench.current, expected, "{steady}");
        }
    }

    #[test]
    fn rfc_7661_a_window_that_is_not_filled_says_nothing_of_its_path() {
        // Of 300 packets in a measurement, `full` are acknowledged while the window is full.
        let chosen = |parameters: IceParameters, full: u32| {
            let mut bench = bench(parameters, &[100, 300]);
            flow(&mut bench, &[10, 30], Span::from_secs(100));
            for packet in 0..300 {
                bench.filled = packet < full;
                flow(&mut bench, &[10, 30], Span::from_millis(100));
            }
            flow(&mut bench, &[10, 30], Span::from_secs(1));
            bench.current
        };
        let ours = IceParameters::default();
        for (full, expected) in [(0, 0), (140, 0), (160, 1), (300, 1)] {
            assert_eq!(chosen(ours, full), expected, "{full}");
        }
        // The paper compares the windows in any case.
        let paper = IceParameters { filled: 0.0, ..ours };
        assert_eq!(chosen(paper, 0), 1);
    }

    #[test]
    fn without_data_nothing_is_decided() {
        let mut bench = bench(IceParameters::default(), &[100, 100]);
        bench.probes = vec![None, Some(100_000)];
        bench.pass(Span::from_secs(1000));
        assert_eq!(bench.current, 0);
    }

    #[test]
    fn another_path_in_its_place_is_not_what_was_measured() {
        let mut bench = bench(IceParameters::default(), &[100, 100]);
        flow(&mut bench, &[10, 90], Span::from_secs(110));
        assert_eq!(bench.probed, [1]);
        bench.policy.on_replaced(1);
        flow(&mut bench, &[10, 90], Span::from_secs(60));
        assert_eq!(
            (bench.current, bench.probed.len()),
            (0, 0),
            "the next measurement decides"
        );
        flow(&mut bench, &[10, 90], Span::from_secs(61));
        assert_eq!(bench.current, 1);
    }

    #[test]
    fn a_measurement_ends_when_the_path_it_compares_with_fails() {
        let mut bench = bench(IceParameters::default(), &[100, 100]);
        flow(&mut bench, &[10, 90], Span::from_secs(110));
        assert_eq!(bench.probed, [1]);
        bench.views[0].usable = false;
        bench.timeout(0, 6);
        assert_eq!(bench.current, 1);
        bench.answered(1);
        assert_eq!(bench.probed, [0; 0]);
        bench.views[0].usable = true;
        bench.answered(0);
        assert_eq!(bench.current, 0, "nothing was decided");
    }

    #[test]
    fn parameters_are_checked() {
        let parameters = IceParameters {
            length: Span::from_secs(101),
            ..IceParameters::default()
        };
        assert_eq!(parameters.validate().map_err(|e| e.field), Err("length"));
        let parameters = IceParameters {
            filled: 1.1,
            ..IceParameters::default()
        };
        assert_eq!(parameters.validate().map_err(|e| e.field), Err("filled"));
    }
}
