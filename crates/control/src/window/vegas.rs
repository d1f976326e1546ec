//! Vegas: keeps a small number of packets queued at the bottleneck (Brakmo and Peterson 1995).

use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::estimator::Backlog;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};

/// Parameters of Vegas, with the values of Linux.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct VegasParameters {
    /// The window grows while fewer packets than this are queued, 0 to 1000.
    pub alpha: f64,
    /// The window shrinks while more packets than this are queued, `alpha` to 1000.
    pub beta: f64,
    /// Slow start ends when more packets than this are queued, 0 to 1000.
    pub gamma: f64,
}

impl Default for VegasParameters {
    fn default() -> Self {
        VegasParameters {
            alpha: 2.0,
            beta: 4.0,
            gamma: 1.0,
        }
    }
}

impl Part<dyn WindowControl> for VegasParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("alpha", self.alpha, 0.0, 1000.0, "packets")?;
        in_range("beta", self.beta, self.alpha, 1000.0, "packets")?;
        in_range("gamma", self.gamma, 0.0, 1000.0, "packets")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Vegas {
            parameters: *self,
            backlog: Backlog::default(),
            standard: StandardWindow::default(),
        })
    }
}

/// Once per round-trip time the window grows or shrinks by one unit or stays the same. The reaction to loss is the
/// standard's.
#[derive(Clone, Debug)]
struct Vegas {
    parameters: VegasParameters,
    backlog: Backlog,
    standard: StandardWindow,
}

impl WindowControl for Vegas {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        let round_over = self.backlog.on_ack(ack);
        // With one or two measurements a delayed acknowledgement cannot be distinguished from a queue: the standard's
        // growth is used, as in Linux.
        let waiting = match self.backlog.packets(window.cwnd, window.unit) {
            Some(waiting) if self.backlog.samples_in_round() > 2 => waiting,
            _ => return self.standard.on_ack(window, ack),
        };
        if window.in_slow_start() {
            if round_over && waiting > self.parameters.gamma {
                // Removes the queued packets except one from the window.
                let surplus = ((waiting - 1.0).max(0.0) * window.unit as f64) as u64;
                let cwnd = window.cwnd.saturating_sub(surplus).max(2 * window.unit);
                return WindowUpdate {
                    cwnd,
                    ssthresh: cwnd - window.unit,
                };
            }
            return self.standard.on_ack(window, ack);
        }
        if !round_over || ack.in_recovery {
            return window.unchanged();
        }
        if waiting > self.parameters.beta {
            let cwnd = window.cwnd.saturating_sub(window.unit).max(2 * window.unit);
            WindowUpdate {
                cwnd,
                // With a window below ssthresh, slow start would begin.
                ssthresh: window.ssthresh.min(cwnd - window.unit),
            }
        } else if waiting < self.parameters.alpha && window.is_used(ack) {
            WindowUpdate {
                cwnd: window.cwnd.saturating_add(window.unit),
                ssthresh: window.ssthresh,
            }
        } else {
            window.unchanged()
        }
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.backlog.restart();
        self.standard.on_congestion(window, loss)
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.backlog.restart();
        self.standard.on_timeout(window, loss, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::testing::{UNIT, gap, round, view};
    use crate::{Span, Time};

    /// Returns the window after three rounds of congestion avoidance with this round-trip time; the minimum is 100 ms.
    fn settled(rtt: u64) -> u64 {
        let mut part = VegasParameters::default().build(&BuildContext::default());
        let (mut window, mut seq) = (view(20 * UNIT, 10 * UNIT), 0);
        round(part.as_mut(), &mut window, &mut seq, Time::ZERO, Span::from_millis(100));
        window.cwnd = 20 * UNIT;
        for _ in 0..3 {
            round(part.as_mut(), &mut window, &mut seq, Time::ZERO, Span::from_millis(rtt));
        }
        window.cwnd
    }

    #[test]
    fn the_window_follows_the_backlog() {
        // 20 packets: below 111 ms fewer than 2 are queued, up to 125 ms 2 to 4. Brakmo and Peterson 1995, 3.2
        assert!(settled(105) > 20 * UNIT, "{}", settled(105));
        assert!(settled(118).abs_diff(20 * UNIT) <= UNIT, "{}", settled(118));
        assert!(settled(140) < 20 * UNIT, "{}", settled(140));
    }

    #[test]
    fn slow_start_ends_when_more_than_one_packet_waits() {
        // Brakmo and Peterson 1995, 3.3
        let mut part = Vegas {
            parameters: VegasParameters::default(),
            backlog: Backlog::default(),
            standard: StandardWindow::default(),
        };
        let (mut window, mut seq) = (view(8 * UNIT, u64::MAX), 0);
        round(&mut part, &mut window, &mut seq, Time::ZERO, Span::from_millis(100));
        assert!(window.in_slow_start() && window.cwnd > 8 * UNIT);
        for _ in 0..2 {
            round(&mut part, &mut window, &mut seq, Time::ZERO, Span::from_millis(130));
        }
        assert!(!window.in_slow_start(), "{window:?}");
        assert_eq!(part.on_congestion(view(20 * UNIT, UNIT), &gap()).cwnd, 10 * UNIT);
    }
}
