//! Explicit congestion indication: routers indicate on every packet whether they are congested (Shishir 2000, III).

use super::Discriminate;
use super::history::History;
use crate::Time;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, LossSignal, MarkEvent, Verdict};
use crate::view::WindowView;

/// Parameters of explicit congestion indication.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct EciParameters {
    /// Weight of an indication in their average, 0 to 1 (Shishir 2000, IV.A: 0.25).
    pub weight: f64,
    /// A loss is congestion if the average of the indications exceeds this, 0 to 1. The thesis names no value.
    pub threshold: f64,
}

impl Default for EciParameters {
    fn default() -> Self {
        EciParameters {
            weight: 0.25,
            threshold: 0.5,
        }
    }
}

impl Part<dyn Discriminate> for EciParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("weight", self.weight, 0.0, 1.0, "")?;
        in_range("threshold", self.threshold, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Eci {
            parameters: *self,
            average: 0.0,
            echoes: History::default(),
            last_mark: None,
        })
    }
}

/// A loss is a transmission loss only if the packets before and after it carried no indication, the average is low, and
/// no mark was echoed in the last round-trip time. All other losses are congestion, also timeouts: Shishir's rule
/// applies only to duplicate acknowledgements.
#[derive(Clone, Debug)]
struct Eci {
    parameters: EciParameters,
    average: f64,
    echoes: History<bool>,
    last_mark: Option<Time>,
}

impl Discriminate for Eci {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        let Some(indicated) = ack.eci else {
            return;
        };
        let new = if indicated { 1.0 } else { 0.0 };
        self.average += self.parameters.weight * (new - self.average);
        self.echoes.note(ack.newest, ack.acked_to, indicated);
    }

    fn on_mark(&mut self, mark: &MarkEvent) {
        self.last_mark = Some(mark.now);
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        let marked = match (self.last_mark, loss.srtt) {
            (Some(at), Some(srtt)) => loss.now.since(at) <= srtt,
            (Some(_), None) => true,
            (None, _) => false,
        };
        let (before, _) = self.echoes.around(loss.first_lost);
        let (_, after) = self.echoes.around(loss.last_lost);
        let clear = matches!((before, after), (Some((_, false)), Some((_, false))));
        if loss.signal == LossSignal::Gap && !marked && clear && self.average <= self.parameters.threshold {
            Verdict::Transmission
        } else {
            Verdict::Congestion
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::discriminator::testing::{VIEW, ack_to, gap, timeout};
    use crate::sample::Seq;

    fn eci() -> Eci {
        Eci {
            parameters: EciParameters::default(),
            average: 0.0,
            echoes: History::default(),
            last_mark: None,
        }
    }

    fn echo(seq: Seq, acked_to: Seq, indicated: bool) -> AckSample {
        AckSample {
            newest: seq,
            eci: Some(indicated),
            ..ack_to(acked_to)
        }
    }

    #[test]
    fn the_average_by_hand() {
        // Shishir 2000, III.D: 0.75 of the old average and 0.25 of the new indication
        let mut eci = eci();
        eci.on_ack(VIEW, &echo(0, 1, true));
        assert!((eci.average - 0.25).abs() < 1e-12);
        eci.on_ack(VIEW, &echo(1, 2, true));
        assert!((eci.average - 0.4375).abs() < 1e-12);
        eci.on_ack(VIEW, &echo(2, 3, false));
        assert!((eci.average - 0.328_125).abs() < 1e-12);
    }

    #[test]
    fn both_neighbours_of_the_loss_must_be_clear() {
        // Shishir 2000, III.D: packet 5 is lost between 4 and 6.
        let judge = |before, after| {
            let mut eci = eci();
            eci.on_ack(VIEW, &echo(4, 5, before));
            eci.on_ack(VIEW, &echo(6, 5, after));
            eci.on_ack(VIEW, &echo(7, 5, false));
            eci.judge(VIEW, &gap(5))
        };
        assert_eq!(judge(false, false), Verdict::Transmission);
        assert_eq!(judge(true, false), Verdict::Congestion);
        assert_eq!(judge(false, true), Verdict::Congestion);
        let mut silent = eci();
        assert_eq!(
            silent.judge(VIEW, &gap(5)),
            Verdict::Congestion,
            "no packet indicated that the path is clear"
        );
    }

    #[test]
    fn a_high_average_a_recent_mark_or_a_timeout_are_congestion() {
        let clear = || {
            let mut eci = eci();
            eci.on_ack(VIEW, &echo(4, 5, false));
            eci.on_ack(VIEW, &echo(6, 5, false));
            eci
        };
        assert_eq!(clear().judge(VIEW, &timeout(5)), Verdict::Congestion);
        let mut busy = clear();
        busy.average = 0.51;
        assert_eq!(busy.judge(VIEW, &gap(5)), Verdict::Congestion);
        busy.average = 0.5;
        assert_eq!(busy.judge(VIEW, &gap(5)), Verdict::Transmission);
        let mut marked = clear();
        marked.on_mark(&MarkEvent::of(Time::from_nanos(1_000_000), 3));
        let at = |ms: u64| LossEvent {
            now: Time::from_nanos(ms * 1_000_000),
            srtt: Some(Span::from_millis(50)),
            ..gap(5)
        };
        assert_eq!(
            marked.judge(VIEW, &at(51)),
            Verdict::Congestion,
            "in the last round-trip time"
        );
        assert_eq!(marked.judge(VIEW, &at(52)), Verdict::Transmission);
    }
}
