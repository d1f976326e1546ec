//! The skeleton that owns a path's congestion state and asks the parts, always in the same order.

use core::num::NonZeroU64;

use crate::discriminator::Discriminator;
use crate::sample::{AckSample, LossEvent, LossSignal, MarkEvent, Needs, Seq, Verdict};
use crate::window::{GrowthRule, Window, WindowUpdate, WindowView};
use crate::{Rate, Span};

/// What a transport's standard sets for its windows, all in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowRules {
    /// The window at the start.
    pub initial_cwnd: u64,
    /// The unit of growth: PMDCS, or MSS for TCP.
    pub unit: u64,
    /// Smallest ssthresh after a loss.
    pub floor: u64,
    /// How an acknowledgement counts towards growth.
    pub growth: GrowthRule,
}

/// Congestion state of one path: cwnd and ssthresh in bytes, a discriminator, a window control.
///
/// For each acknowledgement: estimators (held by the transport), discriminator, window. For each loss: discriminator, then
/// window by the verdict. What to send again is the transport's recovery.
#[derive(Debug)]
pub struct Controller {
    cwnd: u64,
    ssthresh: u64,
    rules: WindowRules,
    discriminator: Discriminator,
    window: Window,
    /// The window before the last timeout, for the case that it was spurious.
    before_timeout: WindowUpdate,
}

impl Controller {
    /// A controller at the start of slow start: ssthresh is arbitrarily high (RFC 9260 §7.2.1).
    // [9260:7.2.1-3]
    pub fn new(rules: WindowRules, discriminator: Discriminator, window: Window) -> Self {
        Controller {
            cwnd: rules.initial_cwnd,
            ssthresh: u64::MAX,
            rules,
            discriminator,
            window,
            before_timeout: WindowUpdate {
                cwnd: rules.initial_cwnd,
                ssthresh: u64::MAX,
            },
        }
    }

    /// Asks another discriminator from now on.
    pub fn set_discriminator(&mut self, discriminator: Discriminator) {
        self.discriminator = discriminator;
    }

    /// Lets another window control decide from now on. It finds the window as it is.
    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// Congestion window in bytes.
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Slow start ends at so many bytes even before the first loss.
    pub fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
        self.before_timeout.ssthresh = ssthresh;
    }

    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// The unit of growth in bytes.
    pub fn unit(&self) -> u64 {
        self.rules.unit
    }

    /// What the parts want to be told beyond the usual.
    pub fn needs(&self) -> Needs {
        self.discriminator.needs().or(self.window.needs())
    }

    /// Whether the window control may have an opinion about rates; the standard has none.
    #[inline]
    pub fn may_pace(&self) -> bool {
        matches!(self.window, Window::Other(_))
    }

    /// The rate at which packets are to be sent, if the window control has an opinion.
    #[inline]
    pub fn pacing_rate(&self, srtt: Option<Span>) -> Option<Rate> {
        self.window.pacing_rate(self.view(), srtt)
    }

    /// The rate that spreads a window over a round-trip time, for windows without an opinion: twice that in slow start, so that the
    /// window can grow, and a fifth more afterwards.
    pub fn even_rate(&self, srtt: Span) -> Rate {
        let view = self.view();
        let gain = if view.in_slow_start() { 10 } else { 6 };
        Rate::of(self.cwnd.saturating_mul(gain) / 5, srtt)
    }

    /// Takes an acknowledgement that newly acknowledged data of this path.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckSample) {
        let view = self.view();
        self.discriminator.on_ack(view, ack);
        let update = self.window.on_ack(view, ack);
        self.apply(update);
    }

    /// Takes a loss and returns how it was judged. `in_recovery`: a reaction to this window of data has been made already, so a gap
    /// changes nothing more, and a timeout leaves ssthresh as that reaction has set it (Ye 2004, Figure 16).
    // [9260:7.2.4-5]
    pub fn on_loss(&mut self, loss: &LossEvent, in_recovery: bool) -> Verdict {
        let verdict = self.judge(loss);
        self.react(loss, verdict, in_recovery);
        verdict
    }

    /// Judges a loss without reacting to it.
    pub fn judge(&mut self, loss: &LossEvent) -> Verdict {
        let view = self.view();
        self.discriminator.as_part().judge(view, loss)
    }

    /// How strongly congestion shows now, as a multiple of what it takes for that verdict; none if the discriminator has no such measure.
    pub fn strength(&mut self) -> Option<f64> {
        let view = self.view();
        self.discriminator.as_part().strength(view)
    }

    /// Reacts to a loss that was judged so.
    pub fn react(&mut self, loss: &LossEvent, verdict: Verdict, in_recovery: bool) {
        let view = self.view();
        let window = self.window.as_part();
        match loss.signal {
            LossSignal::Gap if in_recovery => {}
            LossSignal::Gap if verdict == Verdict::Transmission => {
                let update = window.on_transmission_loss(view, loss);
                self.apply(update);
            }
            LossSignal::Gap => {
                let update = window.on_congestion(view, loss);
                self.apply(update);
            }
            LossSignal::Timeout => {
                self.before_timeout = view.unchanged();
                let mut update = window.on_timeout(view, loss, verdict);
                if in_recovery {
                    update.ssthresh = view.ssthresh;
                }
                self.apply(update);
            }
        }
    }

    /// A window equal to ssthresh belongs to congestion avoidance from now on. RFC 5681 §3.1 leaves the choice, RFC 9260 §7.2.1 says
    /// slow start: which is one more unit after each recovery.
    pub fn begin_avoidance(&mut self) {
        if self.cwnd == self.ssthresh {
            self.ssthresh -= 1;
        }
    }

    /// The path begins anew with a window of so many units; ssthresh stays.
    pub fn restart(&mut self, units: u32) {
        let cwnd = self.rules.unit.saturating_mul(units.into());
        self.apply(WindowUpdate {
            cwnd,
            ssthresh: self.ssthresh,
        });
    }

    /// What was sent here holds the other paths up: the window is halved, and slow start ends there (Raiciu et al. 2012, 4.2). Returns
    /// whether it is no larger than what congestion leaves at least (RFC 9260 §7.2.3).
    pub fn penalise(&mut self) -> bool {
        let cwnd = (self.cwnd / 2).max(self.rules.unit);
        self.apply(WindowUpdate { cwnd, ssthresh: cwnd });
        cwnd <= self.rules.floor
    }

    /// The last timeout was spurious: the window is as before it again.
    pub fn on_spurious_timeout(&mut self) {
        self.window.as_part().on_spurious_timeout();
        self.apply(self.before_timeout);
    }

    /// Takes a mark: congestion without asking the discriminator, which may learn from it.
    pub fn on_mark(&mut self, mark: &MarkEvent) {
        self.discriminator.as_part().on_mark(mark);
        let view = self.view();
        let update = self.window.as_part().on_mark(view, mark);
        self.apply(update);
    }

    /// The path has not been used for `timeouts` retransmission timeouts (RFC 9260 §7.2.1, last rule).
    pub fn on_idle(&mut self, timeouts: u64) {
        let before = self.cwnd;
        // The window halves each time: after 64 halvings nothing changes any more.
        for _ in 0..timeouts.min(64) {
            let view = self.view();
            let update = self.window.as_part().on_idle(view);
            self.apply(update);
        }
        if self.cwnd < before {
            // ssthresh keeps the window that was reached, so that slow start leads back to it. A window that is small already,
            // after a timeout for instance, keeps the threshold that it has.
            self.ssthresh = before;
        }
    }

    #[inline]
    fn view(&self) -> WindowView {
        WindowView {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            unit: self.rules.unit,
            initial_cwnd: self.rules.initial_cwnd,
            floor: self.rules.floor,
            growth: self.rules.growth,
        }
    }

    #[inline]
    fn apply(&mut self, update: WindowUpdate) {
        // At least one packet can always be sent.
        self.cwnd = update.cwnd.max(self.rules.unit.min(self.rules.initial_cwnd));
        self.ssthresh = update.ssthresh;
    }
}

/// A window of data in which one reaction to loss has been made: until everything that was outstanding then is acknowledged,
/// further gaps bring no further reduction (RFC 9260 §7.2.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryEpoch {
    /// The first position behind the window of data in recovery. An idle path keeps several of these: 8 bytes each, not 16.
    end: Option<NonZeroU64>,
}

impl RecoveryEpoch {
    /// Whether a recovery is going on.
    pub fn is_active(&self) -> bool {
        self.end.is_some()
    }

    /// Whether a recovery is going on that this belongs to: it was outstanding when the recovery began.
    pub fn covers(&self, position: Seq) -> bool {
        self.end.is_some_and(|end| position < end.get())
    }

    /// Begins a recovery that lasts until `highest_outstanding` is acknowledged cumulatively.
    pub fn enter(&mut self, highest_outstanding: Seq) {
        self.end = NonZeroU64::new(highest_outstanding.saturating_add(1));
    }

    /// Everything up to and including `acked` is acknowledged; returns whether that ended a recovery.
    pub fn on_cumulative_ack(&mut self, acked: Seq) -> bool {
        let over = self.end.is_some_and(|end| acked >= end.get() - 1);
        if over {
            self.end = None;
        }
        over
    }

    /// Ends the recovery, for instance because a timeout began another phase.
    pub fn leave(&mut self) {
        self.end = None;
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
        LossEvent::of(Time::ZERO, LossSignal::Gap, 3)
    }

    fn controller(discriminator: Discriminator) -> Controller {
        let rules = WindowRules {
            initial_cwnd: 20 * UNIT,
            unit: UNIT,
            floor: 4 * UNIT,
            growth: GrowthRule::default(),
        };
        Controller::new(rules, discriminator, Window::Standard(StandardWindow::default()))
    }

    #[derive(Debug)]
    struct Always(Verdict);

    impl Discriminate for Always {
        fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
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
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Transmission))));
        path.on_loss(&gap(), false);
        assert_eq!(path.cwnd(), 20 * UNIT);
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Unsure))));
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
        let mark = MarkEvent::of(Time::ZERO, 3);
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Transmission))));
        path.on_mark(&MarkEvent { reduces: false, ..mark });
        assert_eq!(path.cwnd(), 20 * UNIT, "once per window of data");
        path.on_mark(&mark);
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
        let timeout = LossEvent {
            signal: LossSignal::Timeout,
            ..gap()
        };
        path.on_loss(&timeout, true);
        assert_eq!((path.cwnd(), path.ssthresh()), (UNIT, 10 * UNIT), "reduced already");
        path.on_spurious_timeout();
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
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
