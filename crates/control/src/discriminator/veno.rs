//! Veno: many packets waiting in queues make a loss congestion (Fu and Liew 2003).

use super::Discriminate;
use crate::estimator::Backlog;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::window::WindowView;

/// Parameters of Veno's rule.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct VenoParameters {
    /// Beta in packets, 0 to 1000: a loss while at least so many wait is congestion (Fu and Liew 2003, II.A).
    pub beta: f64,
}

impl Default for VenoParameters {
    fn default() -> Self {
        VenoParameters { beta: 3.0 }
    }
}

impl Part<dyn Discriminate> for VenoParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("beta", self.beta, 0.0, 1000.0, "packets")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Veno {
            beta: self.beta,
            backlog: Backlog::default(),
        })
    }
}

#[derive(Clone, Debug)]
struct Veno {
    beta: f64,
    backlog: Backlog,
}

impl Discriminate for Veno {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        self.backlog.on_ack(ack);
    }

    fn judge(&mut self, window: WindowView, _loss: &LossEvent) -> Verdict {
        match self.backlog.packets(window.cwnd, window.unit) {
            None => Verdict::Unsure,
            Some(waiting) if waiting < self.beta => Verdict::Transmission,
            Some(_) => Verdict::Congestion,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::discriminator::testing::{VIEW, ack_to, gap};

    #[test]
    fn three_packets_waiting_are_congestion() {
        // Fu and Liew 2003, II.A: of 10 packets, 10 (1 - 70/RTT) wait: 3 at RTT = 100 ms, fewer below.
        let judge = |rtt| {
            let mut veno = Veno {
                beta: 3.0,
                backlog: Backlog::default(),
            };
            assert_eq!(veno.judge(VIEW, &gap(5)), Verdict::Unsure);
            for (seq, rtt) in [(1, 70), (20, rtt)] {
                veno.on_ack(
                    VIEW,
                    &AckSample {
                        rtt: Some(Span::from_millis(rtt)),
                        ..ack_to(seq)
                    },
                );
            }
            veno.judge(VIEW, &gap(21))
        };
        assert_eq!(judge(100), Verdict::Congestion);
        assert_eq!(judge(99), Verdict::Transmission);
        assert_eq!(judge(70), Verdict::Transmission);
    }
}
