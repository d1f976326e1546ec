//! The skeleton that owns a path's congestion state and asks the parts, always in the same order.

use crate::discriminator::Discriminator;
use crate::sample::{AckSample, LossEvent, LossSignal, Seq, Verdict};
use crate::window::{Reduction, Window, WindowView};

/// Congestion state of one path: cwnd and ssthresh in bytes, a discriminator, a window control.
///
/// For each acknowledgement: estimators (held by the transport), discriminator, window. For each loss: discriminator, then
/// window if the verdict asks for it. What to send again is the transport's recovery.
#[derive(Debug)]
pub struct Controller {
    cwnd: u64,
    ssthresh: u64,
    unit: u64,
    initial_cwnd: u64,
    discriminator: Discriminator,
    window: Window,
}

impl Controller {
    /// A controller at the start of slow start: ssthresh is arbitrarily high (RFC 9260 §7.2.1). All in bytes.
    // [9260:7.2.1-3]
    pub fn new(initial_cwnd: u64, unit: u64, discriminator: Discriminator, window: Window) -> Self {
        Controller {
            cwnd: initial_cwnd,
            ssthresh: u64::MAX,
            unit,
            initial_cwnd,
            discriminator,
            window,
        }
    }

    /// Congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// The unit of growth in bytes.
    pub fn unit(&self) -> u64 {
        self.unit
    }

    /// Takes an acknowledgement that newly acknowledged data of this path.
    pub fn on_ack(&mut self, ack: &AckSample) {
        self.discriminator.as_part().on_ack(ack);
        let view = self.view();
        self.cwnd = self.cwnd.saturating_add(self.window.as_part().growth(view, ack));
    }

    /// Takes a loss or a mark and returns how it was judged. `in_recovery`: a reaction to this window of data has been made already,
    /// so a gap or a mark changes nothing more, and a timeout leaves ssthresh as that reaction has set it (Ye 2004, Figure 16).
    ///
    /// A mark is congestion without asking the discriminator; the window is asked as for a gap, and may look at the signal.
    // [9260:7.2.4-5]
    pub fn on_loss(&mut self, loss: &LossEvent, in_recovery: bool) -> Verdict {
        let verdict = match loss.signal {
            LossSignal::Mark => Verdict::Congestion,
            LossSignal::Gap | LossSignal::Timeout => self.discriminator.as_part().judge(loss),
        };
        let view = self.view();
        match loss.signal {
            LossSignal::Gap if in_recovery || verdict == Verdict::Transmission => {}
            LossSignal::Mark if in_recovery => {}
            LossSignal::Gap | LossSignal::Mark => {
                let reduction = self.window.as_part().on_gap(view, loss);
                self.apply(reduction);
            }
            LossSignal::Timeout => {
                let mut reduction = self.window.as_part().on_timeout(view, loss);
                if in_recovery {
                    reduction.ssthresh = view.ssthresh;
                }
                self.apply(reduction);
            }
        }
        verdict
    }

    /// The path has not been used for `timeouts` retransmission timeouts (RFC 9260 §7.2.1, last rule).
    pub fn on_idle(&mut self, timeouts: u64) {
        let before = self.cwnd;
        // The window halves each time: after 64 halvings nothing changes any more.
        for _ in 0..timeouts.min(64) {
            let view = self.view();
            let reduction = self.window.as_part().on_idle(view);
            self.apply(reduction);
        }
        if self.cwnd < before {
            // ssthresh keeps the window that was reached, so that slow start leads back to it. A window that is small already,
            // after a timeout for instance, keeps the threshold that it has.
            self.ssthresh = before;
        }
    }

    /// Starts over on an unknown network (RFC 9260 §7.2.5).
    // [9260:7.2.5-1]
    pub fn reinitialize(&mut self) {
        self.cwnd = self.initial_cwnd;
        self.ssthresh = u64::MAX;
    }

    fn view(&self) -> WindowView {
        WindowView {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            unit: self.unit,
        }
    }

    fn apply(&mut self, reduction: Reduction) {
        // At least one packet can always be sent.
        self.cwnd = reduction.cwnd.max(self.unit.min(self.initial_cwnd));
        self.ssthresh = reduction.ssthresh;
    }
}

/// A window of data in which one reaction to loss has been made: until everything that was outstanding then is acknowledged,
/// further gaps bring no further reduction (RFC 9260 §7.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryEpoch {
    exit: Option<Seq>,
}

impl RecoveryEpoch {
    /// Whether a recovery is going on.
    pub fn is_active(&self) -> bool {
        self.exit.is_some()
    }

    /// Begins a recovery that lasts until `highest_outstanding` is acknowledged cumulatively.
    pub fn enter(&mut self, highest_outstanding: Seq) {
        self.exit = Some(highest_outstanding);
    }

    /// Everything up to and including `acked` is acknowledged; returns whether that ended a recovery.
    pub fn on_cumulative_ack(&mut self, acked: Seq) -> bool {
        let over = self.exit.is_some_and(|exit| acked >= exit);
        if over {
            self.exit = None;
        }
        over
    }

    /// Ends the recovery, for instance because a timeout began another phase.
    pub fn leave(&mut self) {
        self.exit = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::discriminator::Discriminate;
    use crate::window::StandardWindow;

    const UNIT: u64 = 1468;

    fn gap() -> LossEvent {
        LossEvent {
            now: Time::ZERO,
            signal: LossSignal::Gap,
            first_lost: 3,
            packets: 1,
            flight_before: 0,
            srtt: None,
            min_rtt: None,
        }
    }

    fn controller(discriminator: Discriminator) -> Controller {
        Controller::new(
            20 * UNIT,
            UNIT,
            discriminator,
            Window::Standard(StandardWindow::default()),
        )
    }

    #[derive(Debug)]
    struct Always(Verdict);

    impl Discriminate for Always {
        fn on_ack(&mut self, _ack: &AckSample) {}

        fn judge(&mut self, _loss: &LossEvent) -> Verdict {
            self.0
        }
    }

    // [9260:7.2.4-5]
    #[test]
    fn only_the_first_gap_of_a_recovery_reduces() {
        // RFC 9260 §7.2.4 item 6
        let mut path = controller(Discriminator::default());
        assert_eq!(path.on_loss(&gap(), false), Verdict::Congestion);
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
        path.on_loss(&gap(), true);
        assert_eq!(path.cwnd(), 10 * UNIT);
    }

    #[test]
    fn a_transmission_loss_leaves_the_window_alone_and_an_unsure_one_does_not() {
        let mut path = controller(Discriminator::Custom(Box::new(Always(Verdict::Transmission))));
        path.on_loss(&gap(), false);
        assert_eq!(path.cwnd(), 20 * UNIT);
        let mut path = controller(Discriminator::Custom(Box::new(Always(Verdict::Unsure))));
        path.on_loss(&gap(), false);
        assert_eq!(path.cwnd(), 10 * UNIT);
    }

    // [9260:7.2.3-2, 7.2.1-2]
    #[test]
    fn a_timeout_restarts_from_one_unit() {
        // RFC 9260 §7.2.3
        let mut path = controller(Discriminator::default());
        path.on_loss(
            &LossEvent {
                signal: LossSignal::Timeout,
                ..gap()
            },
            false,
        );
        assert_eq!((path.cwnd(), path.ssthresh()), (UNIT, 10 * UNIT));
    }

    // [9260:7.2.1-10, 7.2.1-11]
    #[test]
    fn a_mark_halves_and_is_congestion_whatever_the_discriminator_says() {
        // Ye 2004, Figure 16
        let mark = LossEvent {
            signal: LossSignal::Mark,
            packets: 0,
            ..gap()
        };
        let mut path = controller(Discriminator::Custom(Box::new(Always(Verdict::Transmission))));
        assert_eq!(path.on_loss(&mark, true), Verdict::Congestion);
        assert_eq!(path.cwnd(), 20 * UNIT, "once per window of data");
        path.on_loss(&mark, false);
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
        let timeout = LossEvent {
            signal: LossSignal::Timeout,
            ..gap()
        };
        path.on_loss(&timeout, true);
        assert_eq!((path.cwnd(), path.ssthresh()), (UNIT, 10 * UNIT), "reduced already");
    }

    #[test]
    fn idle_timeouts_decay_the_window_and_remember_it() {
        // RFC 9260 §7.2.1, last rule
        let mut path = controller(Discriminator::default());
        path.on_idle(1);
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 20 * UNIT));
        path.on_idle(u64::MAX);
        assert_eq!((path.cwnd(), path.ssthresh()), (4 * UNIT, 10 * UNIT));
        path.on_idle(1);
        assert_eq!((path.cwnd(), path.ssthresh()), (4 * UNIT, 10 * UNIT));
        path.reinitialize();
        assert_eq!((path.cwnd(), path.ssthresh()), (20 * UNIT, u64::MAX));
    }

    #[test]
    fn a_recovery_ends_with_its_window_of_data() {
        // RFC 9260 §7.2.4 item 6
        let mut epoch = RecoveryEpoch::default();
        assert!(!epoch.on_cumulative_ack(100));
        epoch.enter(7);
        assert!(!epoch.on_cumulative_ack(6));
        assert!(epoch.is_active());
        assert!(epoch.on_cumulative_ack(7));
        assert!(!epoch.is_active());
    }
}
