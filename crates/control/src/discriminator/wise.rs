//! WiSE: a loss is a transmission loss while the window does not exceed the capacity of the path (Fracchia et al.
//! 2005).

use super::Discriminate;
use crate::Span;
use crate::estimator::WestwoodFilter;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of the comparison of rates.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct WiseParameters {
    /// A loss is a transmission loss while the window is at most this factor times the estimated bandwidth x the shortest round-trip
    /// time, 0.1 to 10.
    pub margin: f64,
}

impl Default for WiseParameters {
    fn default() -> Self {
        WiseParameters { margin: 1.0 }
    }
}

impl Part<dyn Discriminate> for WiseParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("margin", self.margin, 0.1, 10.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Wise {
            margin: self.margin,
            bandwidth: WestwoodFilter::default(),
            min_rtt: None,
        })
    }
}

/// cwnd <= ABE RTTmin, with the bandwidth estimate of Westwood+. According to the papers that describe WiSE (Chen et
/// al. 2011, 2.1; Pan et al. 2010), it uses Westwood's estimate.
#[derive(Clone, Debug)]
struct Wise {
    margin: f64,
    bandwidth: WestwoodFilter,
    min_rtt: Option<Span>,
}

impl Discriminate for Wise {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        self.bandwidth.on_ack(ack);
        self.min_rtt = ack.min_rtt.or(self.min_rtt);
    }

    fn judge(&mut self, window: WindowView, _loss: &LossEvent) -> Verdict {
        let Some((bandwidth, min_rtt)) = self.bandwidth.bytes_per_second().zip(self.min_rtt) else {
            return Verdict::Unsure;
        };
        if window.cwnd as f64 <= self.margin * bandwidth * min_rtt.as_secs_f64() {
            Verdict::Transmission
        } else {
            Verdict::Congestion
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::discriminator::testing::{UNIT, VIEW, ack_to, gap};

    #[test]
    fn the_window_is_compared_with_what_the_path_carries() {
        let mut wise = Wise {
            margin: 1.0,
            bandwidth: WestwoodFilter::default(),
            min_rtt: None,
        };
        assert_eq!(wise.judge(VIEW, &gap(1)), Verdict::Unsure);
        // 10 units per 100 ms, 80 ms at the shortest: the path holds 8 units.
        for step in 0..20 {
            wise.on_ack(
                VIEW,
                &AckSample {
                    now: Time::from_nanos(step * 100_000_000),
                    acked: 10 * UNIT,
                    srtt: Some(Span::from_millis(100)),
                    min_rtt: Some(Span::from_millis(80)),
                    ..ack_to(10 * step)
                },
            );
        }
        let at = |units| WindowView {
            cwnd: units * UNIT,
            ..VIEW
        };
        assert_eq!(wise.judge(at(7), &gap(1)), Verdict::Transmission);
        assert_eq!(wise.judge(at(9), &gap(1)), Verdict::Congestion);
    }
}
