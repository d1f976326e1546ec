//! Veno: grows at half speed while packets are queued, and reduces the window by a fifth after a transmission loss (Fu
//! and Liew 2003).

use super::partial::PartialReduction;
use super::{WindowControl, WindowUpdate, WindowView};
use crate::estimator::Backlog;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};

/// Parameters of Veno's window. The discriminator `veno` belongs to it.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct VenoParameters {
    /// Beta in packets, 0 to 1000: while at least this number are queued, the window grows only in every second round-trip time.
    pub beta: f64,
    /// Fraction of the window that remains after a loss judged a transmission loss, 0.5 to 1 (Fu and Liew 2003, II.C: 4/5).
    pub keep: f64,
    /// The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the first loss.
    pub hystart: bool,
}

impl Default for VenoParameters {
    fn default() -> Self {
        VenoParameters {
            beta: 3.0,
            keep: 0.8,
            hystart: false,
        }
    }
}

impl Part<dyn WindowControl> for VenoParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("beta", self.beta, 0.0, 1000.0, "packets")?;
        in_range("keep", self.keep, 0.5, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Veno {
            parameters: *self,
            backlog: Backlog::default(),
            inner: PartialReduction::new(self.hystart),
            skipped: false,
        })
    }
}

#[derive(Clone, Debug)]
struct Veno {
    parameters: VenoParameters,
    backlog: Backlog,
    inner: PartialReduction,
    /// The last step of growth was skipped.
    skipped: bool,
}

impl WindowControl for Veno {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.backlog.on_ack(ack);
        self.inner.on_ack(ack);
        if window.in_slow_start() {
            return self.inner.standard.on_ack(window, ack);
        }
        let mut growth = self.inner.standard.growth(window, ack);
        if growth > 0 {
            let waiting = self.backlog.packets(window.cwnd, window.unit);
            let is_busy = waiting.is_some_and(|waiting| waiting >= self.parameters.beta);
            self.skipped = is_busy && !self.skipped;
            if self.skipped {
                growth = 0;
            }
        }
        WindowUpdate {
            cwnd: window.cwnd.saturating_add(growth),
            ssthresh: window.ssthresh,
        }
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.inner.on_congestion(window, loss)
    }

    fn on_transmission_loss(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.inner.on_transmission_loss(window, loss, self.parameters.keep)
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.inner.on_timeout(window, loss, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::testing::{UNIT, gap, round, view};
    use crate::{Span, Time};

    #[test]
    fn growth_is_half_as_fast_while_packets_wait() {
        // Fu and Liew 2003, II.B
        let grown = |rtt| {
            let mut part = Veno {
                parameters: VenoParameters::default(),
                backlog: Backlog::default(),
                inner: PartialReduction::default(),
                skipped: false,
            };
            let (mut window, mut seq) = (view(20 * UNIT, 10 * UNIT), 0);
            for rtt in [100, rtt, rtt] {
                round(&mut part, &mut window, &mut seq, Time::ZERO, Span::from_millis(rtt));
            }
            let before = window.cwnd;
            for _ in 0..8 {
                round(&mut part, &mut window, &mut seq, Time::ZERO, Span::from_millis(rtt));
            }
            (window.cwnd - before) / UNIT
        };
        assert!((7..=8).contains(&grown(105)), "{}", grown(105));
        assert!((3..=4).contains(&grown(140)), "{}", grown(140));
    }

    #[test]
    fn a_fifth_for_the_channel_and_half_for_congestion() {
        // Fu and Liew 2003, II.C
        let part = || VenoParameters::default().build(&BuildContext::default());
        let at = view(20 * UNIT, 10 * UNIT);
        assert_eq!(part().on_transmission_loss(at, &gap()), WindowUpdate::both(16 * UNIT));
        assert_eq!(part().on_congestion(at, &gap()), WindowUpdate::both(10 * UNIT));
    }
}
