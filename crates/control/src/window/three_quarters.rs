//! ModReno: a transmission loss reduces the window by a quarter, any other loss by half (Shishir 2000, III.D).

use super::partial::PartialReduction;
use super::{WindowControl, WindowUpdate, WindowView};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};

/// Parameters of ModReno's window.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct ThreeQuartersParameters {
    /// Fraction of the window that remains after a loss judged a transmission loss, 0.5 to 1.
    pub keep: f64,
    /// The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the first loss.
    pub hystart: bool,
}

impl Default for ThreeQuartersParameters {
    fn default() -> Self {
        ThreeQuartersParameters {
            keep: 0.75,
            hystart: false,
        }
    }
}

impl Part<dyn WindowControl> for ThreeQuartersParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("keep", self.keep, 0.5, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(ThreeQuarters {
            keep: self.keep,
            inner: PartialReduction::new(self.hystart),
        })
    }
}

#[derive(Clone, Debug)]
struct ThreeQuarters {
    keep: f64,
    inner: PartialReduction,
}

impl WindowControl for ThreeQuarters {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.inner.on_ack(ack);
        self.inner.standard.on_ack(window, ack)
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.inner.on_congestion(window, loss)
    }

    fn on_transmission_loss(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.inner.on_transmission_loss(window, loss, self.keep)
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.inner.on_timeout(window, loss, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::testing::{UNIT, gap, timeout, view};

    fn part() -> ThreeQuarters {
        ThreeQuarters {
            keep: 0.75,
            inner: PartialReduction::default(),
        }
    }

    #[test]
    fn a_quarter_for_the_channel_and_half_for_congestion() {
        // Shishir 2000, III.D, step 3 b
        let at = view(20 * UNIT, 40 * UNIT);
        assert_eq!(part().on_transmission_loss(at, &gap()), WindowUpdate::both(15 * UNIT));
        assert_eq!(part().on_congestion(at, &gap()), WindowUpdate::both(10 * UNIT));
        assert_eq!(part().on_timeout(at, &timeout(), Verdict::Transmission).cwnd, UNIT);
        let small = part().on_transmission_loss(view(2 * UNIT, UNIT), &gap());
        assert_eq!(small.cwnd, 2 * UNIT, "never enlarges");
    }

    #[test]
    fn one_reduction_in_a_window_of_data() {
        let mut part = part();
        let at = view(20 * UNIT, 40 * UNIT);
        let loss = LossEvent { next: 10, ..gap() };
        assert_eq!(part.on_transmission_loss(at, &loss).cwnd, 15 * UNIT);
        assert_eq!(part.on_transmission_loss(at, &loss).cwnd, 20 * UNIT);
        let ack = AckSample {
            acked_to: 10,
            ..AckSample::of(crate::Time::ZERO, UNIT, UNIT)
        };
        part.on_ack(at, &ack);
        assert_eq!(part.on_transmission_loss(at, &loss).cwnd, 15 * UNIT);
    }
}
