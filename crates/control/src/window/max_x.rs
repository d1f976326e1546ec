//! Reduction to max(x, 2 MTU): the reactions to a mark that Ye (2004, 4.5 and 4.6.5) compares.

use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::part::{BuildContext, ParameterError, Part};
use crate::sample::{AckSample, LossEvent, MarkEvent, Verdict};
use crate::{Rate, Span};

/// What x is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
pub enum Reduction {
    /// Half of the window.
    #[default]
    #[cfg_attr(feature = "config", serde(rename = "cwnd/2"))]
    Half,
    /// A quarter of the window.
    #[cfg_attr(feature = "config", serde(rename = "cwnd/4"))]
    Quarter,
    /// A sixth of the window.
    #[cfg_attr(feature = "config", serde(rename = "cwnd/6"))]
    Sixth,
    /// An eighth of the window.
    #[cfg_attr(feature = "config", serde(rename = "cwnd/8"))]
    Eighth,
    /// RTT S / 8 + MTU, with S the `bandwidth` given and RTT the shortest one measured (Ye 2004, equation 1).
    #[cfg_attr(feature = "config", serde(rename = "bdp"))]
    Bdp,
    /// The number given as `bytes`.
    #[cfg_attr(feature = "config", serde(rename = "fixed"))]
    Fixed,
}

/// Parameters of the reduction.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct MaxXParameters {
    /// What x is.
    pub x: Reduction,
    /// S, the bandwidth of the bottleneck, or the part of it that this sender may use; only with x = "bdp".
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub bandwidth: Option<Rate>,
    /// x in bytes; only with x = "fixed".
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "Option::is_none"))]
    pub bytes: Option<u64>,
    /// Losses judged congestion reduce to max(x, 2 MTU) too; otherwise only marks do (Ye 2004, Figure 16), and losses halve.
    pub on_loss: bool,
}

impl Part<dyn WindowControl> for MaxXParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        match (self.x, self.bandwidth, self.bytes) {
            (Reduction::Bdp, None, _) => Err(ParameterError::new("bandwidth", "absent", "x = \"bdp\" needs one")),
            (Reduction::Bdp, Some(Rate::ZERO), _) => {
                Err(ParameterError::new("bandwidth", Rate::ZERO, "allowed is more"))
            }
            (Reduction::Fixed, _, None | Some(0)) => {
                Err(ParameterError::new("bytes", "absent", "x = \"fixed\" needs some"))
            }
            (Reduction::Fixed, _, Some(bytes)) if bytes > 1 << 40 => {
                Err(ParameterError::new("bytes", bytes, "allowed are up to 1 TiB"))
            }
            _ => Ok(()),
        }
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(MaxX {
            parameters: *self,
            standard: StandardWindow::default(),
        })
    }
}

/// Grows like the standard and reduces to max(x, 2 MTU). A window smaller than x does not change.
#[derive(Clone, Debug)]
struct MaxX {
    parameters: MaxXParameters,
    standard: StandardWindow,
}

impl MaxX {
    fn reduced(&mut self, window: WindowView, min_rtt: Option<Span>) -> WindowUpdate {
        self.standard.restart();
        let x = match self.parameters.x {
            Reduction::Half => window.cwnd / 2,
            Reduction::Quarter => window.cwnd / 4,
            Reduction::Sixth => window.cwnd / 6,
            Reduction::Eighth => window.cwnd / 8,
            Reduction::Bdp => match (self.parameters.bandwidth, min_rtt) {
                (Some(bandwidth), Some(rtt)) => bandwidth.bytes_in(rtt).saturating_add(window.unit),
                _ => window.cwnd / 2,
            },
            Reduction::Fixed => self.parameters.bytes.unwrap_or(window.cwnd / 2),
        };
        WindowUpdate::both(x.min(window.cwnd).max(2 * window.unit))
    }
}

impl WindowControl for MaxX {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.standard.on_ack(window, ack)
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        if self.parameters.on_loss {
            self.reduced(window, loss.min_rtt)
        } else {
            self.standard.on_congestion(window, loss)
        }
    }

    fn on_mark(&mut self, window: WindowView, mark: &MarkEvent) -> WindowUpdate {
        if mark.reduces {
            self.reduced(window, mark.min_rtt)
        } else {
            window.unchanged()
        }
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.standard.on_timeout(window, loss, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::window::testing::{UNIT, gap, view};

    fn on_mark(parameters: MaxXParameters, cwnd: u64) -> u64 {
        assert_eq!(parameters.validate(), Ok(()));
        let mut part = MaxX {
            parameters,
            standard: StandardWindow::default(),
        };
        let mark = MarkEvent {
            min_rtt: Some(Span::from_micros(79_600)),
            ..MarkEvent::of(Time::ZERO, 7)
        };
        let unreduced = part.on_mark(view(cwnd, cwnd), &MarkEvent { reduces: false, ..mark });
        assert_eq!(unreduced, view(cwnd, cwnd).unchanged());
        let update = part.on_mark(view(cwnd, cwnd), &mark);
        assert_eq!(update.cwnd, update.ssthresh);
        update.cwnd
    }

    #[test]
    fn every_policy_by_hand() {
        // Ye 2004, 4.6.5: 24 packets
        let with = |x| MaxXParameters {
            x,
            ..MaxXParameters::default()
        };
        for (x, units) in [
            (Reduction::Half, 12),
            (Reduction::Quarter, 6),
            (Reduction::Sixth, 4),
            (Reduction::Eighth, 3),
        ] {
            assert_eq!(on_mark(with(x), 24 * UNIT), units * UNIT, "{x:?}");
        }
        assert_eq!(on_mark(with(Reduction::Eighth), 8 * UNIT), 2 * UNIT, "not below 2 MTU");
        // Equation 1: 79.6 ms at 2 Mbit/s is 19900 bytes, plus one packet
        let bdp = MaxXParameters {
            bandwidth: Some(Rate::from_mbps(2)),
            ..with(Reduction::Bdp)
        };
        assert_eq!(on_mark(bdp, 24 * UNIT), 19_900 + UNIT);
        let fixed = MaxXParameters {
            bytes: Some(21_400),
            ..with(Reduction::Fixed)
        };
        assert_eq!(on_mark(fixed, 24 * UNIT), 21_400);
        assert_eq!(on_mark(fixed, 10 * UNIT), 10 * UNIT, "a reduction never enlarges");
    }

    #[test]
    fn losses_halve_unless_x_is_for_them_too() {
        // Ye 2004, Figure 16 describes only ECNE
        let mut parameters = MaxXParameters {
            x: Reduction::Eighth,
            ..MaxXParameters::default()
        };
        let at = |parameters| {
            let mut part = MaxX {
                parameters,
                standard: StandardWindow::default(),
            };
            part.on_congestion(view(24 * UNIT, 24 * UNIT), &gap()).cwnd
        };
        assert_eq!(at(parameters), 12 * UNIT);
        parameters.on_loss = true;
        assert_eq!(at(parameters), 3 * UNIT);
    }

    #[test]
    fn what_a_policy_needs_must_be_given() {
        let field = |x| {
            MaxXParameters {
                x,
                ..MaxXParameters::default()
            }
            .validate()
            .unwrap_err()
            .field
        };
        assert_eq!(field(Reduction::Bdp), "bandwidth");
        assert_eq!(field(Reduction::Fixed), "bytes");
    }
}
