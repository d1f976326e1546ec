//! The interface of a window control.

use core::fmt;

use crate::sample::{AckSample, LossEvent, LossSignal, MarkEvent, Needs, Verdict};
use crate::view::{WindowUpdate, WindowView};
use crate::{Rate, Span};

/// The interface of a window control.
///
/// | method | event | called | default |
/// |---|---|---|---|
/// | `on_ack` | an acknowledgement of new data of the path | for each one | none: required |
/// | `on_congestion` | a gap, judged congestion or unsure | for the first one in a window of data; with `recovery.reduce_at_each_loss` for each | none: required |
/// | `on_transmission_loss` | a gap, judged a transmission loss | for each one until a reduction for congestion, then not before the next window of data | window unchanged |
/// | `on_mark` | reported ECN marks | for each report; [`MarkEvent::reduces`] is set if the window has not been reduced for this window of data | if `reduces`: as `on_congestion` |
/// | `on_timeout` | T3-rtx expired | for each one | cwnd is one unit, ssthresh that of `on_congestion` |
/// | `on_idle` | an idle period | for each RTO of it | half, at least the floor |
/// | `on_spurious_timeout` | a timeout was spurious | after the [`Controller`](crate::Controller) has decided to restore its window | nothing to revert; a part whose `on_timeout` changes its own state saves that state there, see `cubic.rs` |
/// | `pacing_rate` | | before packets are sent | no rate |
/// | `even_burst` | | before packets are sent | no burst |
/// | `needs` | | when the path is created | no optional samples |
///
/// `on_mark` and `on_timeout` take their values from `on_congestion`, so a part that only differs in the share that congestion leaves
/// implements `on_ack` and `on_congestion`.
///
/// # Limits
/// A part applies the floor and the limits of a coupling itself. [`WindowView::reduced`] and [`WindowView::reduced_to`] do both for a
/// reduction, [`StandardWindow`](super::StandardWindow) the latter for growth. The controller adds only that cwnd is never less than one
/// unit, and that a timeout in a window of data with a reduction keeps ssthresh.
pub trait WindowControl: fmt::Debug + Send + Sync {
    /// Returns the window after an acknowledgement.
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate;

    /// Returns the window after a loss that counts as congestion and was detected by a gap; called once per window of
    /// data, or for each loss with `reduce_at_each_loss`. By default `on_mark` and `on_timeout` call it too.
    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate;

    /// Returns the window after a loss that was detected by a gap and judged as a transmission loss; by default
    /// unchanged.
    fn on_transmission_loss(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        let _ = loss;
        window.unchanged()
    }

    /// Returns the window after a mark; called for each mark. By default the first mark of a window of data counts as a
    /// congestion loss.
    fn on_mark(&mut self, window: WindowView, mark: &MarkEvent) -> WindowUpdate {
        if !mark.reduces {
            return window.unchanged();
        }
        let loss = LossEvent {
            packets: 0,
            next: mark.next,
            flight_before: mark.flight,
            srtt: mark.srtt,
            min_rtt: mark.min_rtt,
            ..LossEvent::of(mark.now, LossSignal::Gap, mark.seq)
        };
        self.on_congestion(window, &loss)
    }

    /// Returns the window after a retransmission timeout with this verdict. By default the verdict has no effect: cwnd is one unit, and
    /// ssthresh is that after congestion (RFC 9260 §7.2.3).
    // [9260:7.2.3-2, 7.2.1-2]
    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        let _ = verdict;
        WindowUpdate {
            cwnd: window.unit,
            ssthresh: self.on_congestion(window, loss).ssthresh,
        }
    }

    /// Returns the window after an idle period of one RTO: by default half, but at least the floor (RFC 9260 §7.2.1).
    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        WindowUpdate {
            cwnd: window.halved().min(window.cwnd),
            ssthresh: window.ssthresh,
        }
    }

    /// The timeout was spurious: reverts its effects in the part, as the controller does for its window.
    fn on_spurious_timeout(&mut self) {}

    /// Returns the pacing rate, if the part sets one.
    fn pacing_rate(&self, window: WindowView, srtt: Option<Span>) -> Option<Rate> {
        let _ = (window, srtt);
        None
    }

    /// Returns the packets that may be sent at once if a part without a pacing rate is paced evenly.
    fn even_burst(&self) -> u32 {
        0
    }

    /// Returns the optional samples that the part needs.
    fn needs(&self) -> Needs {
        Needs::default()
    }
}
