//! Congestion warning: the acknowledgement that reveals a loss reports whether a queue was long (Xu, Tian and Ansari
//! 2004).

use super::Discriminate;
use crate::part::{BuildContext, Part};
use crate::sample::{AckSample, LossEvent, MarkEvent, Verdict};
use crate::view::WindowView;
use crate::{Span, Time};

/// Parameters of the congestion warning: none. Its routers mark every packet while their queue is long on average.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct WarningParameters {}

impl Part<dyn Discriminate> for WarningParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Warning::default())
    }
}

/// TCP Jersey: a loss is congestion if the duplicate acknowledgements carry a warning, and a transmission loss
/// otherwise (as described by Chen et al. 2011, 2.2). The warning is an echoed indication, or an echoed mark in the
/// last round-trip time.
#[derive(Clone, Copy, Debug, Default)]
struct Warning {
    indicated: bool,
    last_mark: Option<Time>,
}

impl Discriminate for Warning {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        self.indicated = ack.eci.unwrap_or(self.indicated);
    }

    fn on_mark(&mut self, mark: &MarkEvent) {
        self.last_mark = Some(mark.now);
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let recent = |at: Time| loss.now.since(at) <= loss.srtt.unwrap_or(Span::MAX);
        if self.indicated || self.last_mark.is_some_and(recent) {
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, ack_to, gap};

    #[test]
    fn the_latest_warning_decides() {
        // Chen, 2.2 on TCP Jersey
        let echo = |eci| AckSample {
            eci: Some(eci),
            ..ack_to(4)
        };
        let mut warning = Warning::default();
        assert_eq!(warning.judge(VIEW, &gap(5)), Verdict::Transmission);
        warning.on_ack(VIEW, &echo(true));
        assert_eq!(warning.judge(VIEW, &gap(5)), Verdict::Congestion);
        warning.on_ack(VIEW, &echo(false));
        assert_eq!(warning.judge(VIEW, &gap(5)), Verdict::Transmission);
        warning.on_mark(&MarkEvent::of(Time::ZERO, 5));
        let late = LossEvent {
            now: Time::from_nanos(100_000_001),
            srtt: Some(Span::from_millis(100)),
            ..gap(5)
        };
        assert_eq!(warning.judge(VIEW, &late), Verdict::Transmission);
        assert_eq!(
            warning.judge(
                VIEW,
                &LossEvent {
                    now: Time::from_nanos(100_000_000),
                    ..late
                }
            ),
            Verdict::Congestion
        );
    }
}
