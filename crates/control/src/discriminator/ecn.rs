//! Congestion coherence: queues mark packets before they drop any, so a loss without a mark nearby is no congestion
//! loss (Ye 2004, 5.3.1).

use super::Discriminate;
use crate::epoch::RecoveryEpoch;
use crate::part::{BuildContext, Part};
use crate::sample::{AckSample, LossEvent, MarkEvent, Seq, Verdict};
use crate::view::WindowView;

/// Parameters of the coherence rule: none. It needs ECN, and queues on the way that mark.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct EcnParameters {}

impl Part<dyn Discriminate> for EcnParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Ecn::default())
    }
}

/// A loss is congestion if the current window of data has been marked: from a mark until all data outstanding at the
/// arrival of its echo is acknowledged (Ye 2004, 5.3.1 and Figure 31). Any other loss is a transmission loss: a random
/// one if detected by a gap, a burst if detected by a timeout.
#[derive(Clone, Copy, Debug, Default)]
struct Ecn {
    marked: RecoveryEpoch,
    /// The highest position of the last marked window of data.
    last: Option<Seq>,
}

impl Discriminate for Ecn {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        if let Some(acked) = ack.acked_to.checked_sub(1) {
            self.marked.on_cumulative_ack(acked);
        }
    }

    fn on_mark(&mut self, mark: &MarkEvent) {
        // A second echo for the same window of data does not start a new one.
        if mark.reduces || self.last.is_none_or(|last| mark.seq > last) {
            let highest = mark.next.saturating_sub(1);
            self.marked.enter(highest);
            self.last = Some(highest);
        }
    }

    fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
        if self.marked.is_active() {
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::discriminator::testing::{VIEW, ack_to, gap, timeout};

    fn mark(seq: Seq, next: Seq) -> MarkEvent {
        MarkEvent {
            next,
            ..MarkEvent::of(Time::ZERO, seq)
        }
    }

    #[test]
    fn the_four_branches_of_figure_31() {
        // Ye 2004, Figure 31: gap or timeout, with or without an ECN message in the current window of data
        let mut ecn = Ecn::default();
        assert_eq!(ecn.judge(VIEW, &gap(10)), Verdict::Transmission);
        assert_eq!(ecn.judge(VIEW, &timeout(10)), Verdict::Transmission);
        ecn.on_mark(&mark(12, 30));
        assert_eq!(ecn.judge(VIEW, &gap(10)), Verdict::Congestion);
        assert_eq!(ecn.judge(VIEW, &timeout(10)), Verdict::Congestion);
    }

    #[test]
    fn a_window_of_data_lasts_until_everything_outstanding_at_the_mark_is_acknowledged() {
        // Ye 2004, 4.2 and 5.3.1
        let mut ecn = Ecn::default();
        ecn.on_mark(&mark(12, 30));
        ecn.on_ack(VIEW, &ack_to(29));
        assert_eq!(ecn.judge(VIEW, &gap(29)), Verdict::Congestion);
        ecn.on_ack(VIEW, &ack_to(30));
        assert_eq!(ecn.judge(VIEW, &gap(31)), Verdict::Transmission);
        // A late echo for data of the old window.
        ecn.on_mark(&MarkEvent {
            reduces: false,
            ..mark(29, 45)
        });
        assert_eq!(ecn.judge(VIEW, &gap(31)), Verdict::Transmission);
        // A mark on new data, although the window has already been reduced for another reason.
        ecn.on_mark(&MarkEvent {
            reduces: false,
            ..mark(33, 50)
        });
        assert_eq!(ecn.judge(VIEW, &gap(31)), Verdict::Congestion);
    }

    #[test]
    fn further_marks_of_the_window_do_not_lengthen_it() {
        let mut ecn = Ecn::default();
        ecn.on_mark(&mark(12, 30));
        ecn.on_mark(&MarkEvent {
            reduces: false,
            ..mark(25, 40)
        });
        ecn.on_ack(VIEW, &ack_to(30));
        assert_eq!(ecn.judge(VIEW, &gap(31)), Verdict::Transmission);
    }
}
