//! Veno: a loss is congestion if many packets are queued (Fu and Liew 2003).

use super::Discriminate;
use crate::estimator::{Backlog, LossShare};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::view::WindowView;

/// Parameters of Veno's rule.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct VenoParameters {
    /// Beta in packets, 0 to 1000: a loss while at least this number are queued is congestion (Fu and Liew 2003, II.A).
    pub beta: f64,
    /// A loss is also congestion if queueing makes up at least this share of the round-trip time, 0 to 1. The default of 1 turns this rule
    /// off, as in Veno. Small windows never have beta packets queued, however long the shared queue is.
    pub share: f64,
    /// A loss is also congestion while at least this share of packets is lost, 0 to 1. The default of 1 turns this rule off, as in Veno.
    /// If many flows keep a shared queue full, no flow ever measures the round-trip time without queueing.
    pub loss_share: f64,
}

impl Default for VenoParameters {
    fn default() -> Self {
        VenoParameters {
            beta: 3.0,
            share: 1.0,
            loss_share: 1.0,
        }
    }
}

impl Part<dyn Discriminate> for VenoParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("beta", self.beta, 0.0, 1000.0, "packets")?;
        in_range("share", self.share, 0.0, 1.0, "")?;
        in_range("loss_share", self.loss_share, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Veno {
            parameters: *self,
            backlog: Backlog::default(),
            losses: LossShare::default(),
        })
    }
}

#[derive(Clone, Debug)]
struct Veno {
    parameters: VenoParameters,
    backlog: Backlog,
    losses: LossShare,
}

impl Discriminate for Veno {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        self.backlog.on_ack(ack);
        self.losses.on_arrival(ack.packets);
    }

    fn judge(&mut self, window: WindowView, loss: &LossEvent) -> Verdict {
        self.losses.on_loss(loss);
        let VenoParameters {
            beta,
            share,
            loss_share,
        } = self.parameters;
        let units = window.cwnd as f64 / window.unit as f64;
        match self.backlog.packets(window.cwnd, window.unit) {
            None => Verdict::Unsure,
            Some(_) if self.losses.reaches(loss_share) => Verdict::Congestion,
            Some(waiting) if waiting < beta && waiting < share * units => Verdict::Transmission,
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
        // Fu and Liew 2003, II.A: of 10 packets, 10 (1 - 70/RTT) are queued: 3 at RTT = 100 ms, fewer below.
        let judge_with = |share, rtt| {
            let mut veno = Veno {
                parameters: VenoParameters {
                    share,
                    ..VenoParameters::default()
                },
                backlog: Backlog::default(),
                losses: LossShare::default(),
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
        let judge = |rtt| judge_with(1.0, rtt);
        assert_eq!(judge(100), Verdict::Congestion);
        assert_eq!(judge(99), Verdict::Transmission);
        assert_eq!(judge(70), Verdict::Transmission);
        // A share of 0.2 of the round-trip time is queueing: 14 of 84 ms is less, 18 of 88 ms is more.
        assert_eq!(judge_with(0.2, 84), Verdict::Transmission);
        assert_eq!(judge_with(0.2, 88), Verdict::Congestion);
    }
}
