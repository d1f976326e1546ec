//! The controller: owns a path's congestion state and calls the parts in a fixed order.

use crate::discriminator::Discriminator;
use crate::sample::{AckSample, LossEvent, LossSignal, MarkEvent, Needs, Verdict};
use crate::view::{CouplingLimits, GrowthRule, WindowUpdate, WindowView};
use crate::window::Window;
use crate::{Rate, Span};

/// Constants of a transport's standard for its windows, all in bytes. A controller takes more than 4 GiB for 4 GiB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowRules {
    /// Initial congestion window.
    pub initial_cwnd: u64,
    /// The unit of growth: PMDCS, or MSS for TCP.
    pub unit: u64,
    /// Smallest ssthresh after a loss.
    pub floor: u64,
    /// How an acknowledgement counts towards growth.
    pub growth: GrowthRule,
}

/// The same in little memory, as there is one for each path.
#[derive(Debug)]
struct Rules {
    initial_cwnd: u32,
    unit: u32,
    floor: u32,
    growth: GrowthRule,
}

impl From<WindowRules> for Rules {
    fn from(rules: WindowRules) -> Self {
        let short = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        Rules {
            initial_cwnd: short(rules.initial_cwnd),
            unit: short(rules.unit),
            floor: short(rules.floor),
            growth: rules.growth,
        }
    }
}

/// Congestion state of one path: cwnd and ssthresh in bytes, a discriminator, a window control.
///
/// For each acknowledgement it calls the discriminator, then the window control; the transport keeps the estimators. For each loss the
/// transport calls [`Controller::judge`] and passes the verdict to [`Controller::react`]. The transport's recovery decides what is
/// retransmitted.
#[derive(Debug)]
pub struct Controller {
    cwnd: u64,
    ssthresh: u64,
    rules: Rules,
    discriminator: Discriminator,
    window: Window,
    /// The window before the last timeout, to be restored if the timeout was spurious.
    before_timeout: WindowUpdate,
    /// ssthresh before the penalties since the last reaction to congestion; zero if there were none.
    before_penalties: u64,
}

impl Controller {
    /// Creates a controller at the start of slow start: ssthresh is arbitrarily high (RFC 9260 §7.2.1).
    // [9260:7.2.1-3]
    pub fn new(rules: WindowRules, discriminator: Discriminator, window: Window) -> Self {
        let rules = Rules::from(rules);
        let cwnd = rules.initial_cwnd.into();
        Controller {
            cwnd,
            ssthresh: u64::MAX,
            rules,
            discriminator,
            window,
            before_timeout: WindowUpdate {
                cwnd,
                ssthresh: u64::MAX,
            },
            before_penalties: 0,
        }
    }

    /// Replaces the discriminator.
    pub fn set_discriminator(&mut self, discriminator: Discriminator) {
        self.discriminator = discriminator;
    }

    /// Replaces the window control. cwnd and ssthresh do not change.
    pub fn set_window(&mut self, window: Window) {
        self.window = window;
    }

    /// Returns the congestion window in bytes.
    #[inline]
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Changes the constants: the path MTU has changed, in which they are counted. The window stays as it is.
    pub fn set_rules(&mut self, rules: WindowRules) {
        self.rules = rules.into();
    }

    /// Sets ssthresh in bytes, so that slow start ends there even without a loss.
    pub fn set_ssthresh(&mut self, ssthresh: u64) {
        self.ssthresh = ssthresh;
        self.before_timeout.ssthresh = ssthresh;
    }

    /// Returns the slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// Returns whether the window is in slow start.
    pub fn in_slow_start(&self) -> bool {
        self.view().in_slow_start()
    }

    /// Returns the unit of growth in bytes.
    pub fn unit(&self) -> u64 {
        self.rules.unit.into()
    }

    /// Returns the optional samples that the parts need.
    pub fn needs(&self) -> Needs {
        self.discriminator.needs().or(self.window.needs())
    }

    /// Returns whether the window control may set a pacing rate. The standard's does not.
    #[inline]
    pub fn may_pace(&self) -> bool {
        matches!(self.window, Window::Other(_))
    }

    /// Returns the pacing rate, if the window control sets one.
    #[inline]
    pub fn pacing_rate(&self, srtt: Option<Span>) -> Option<Rate> {
        self.window.pacing_rate(self.view(), srtt)
    }

    /// Returns the rate that spreads a window over a round-trip time, for window controls without a pacing rate: twice
    /// that rate in slow start, so that the window can grow, and 1.2 times that rate afterwards.
    pub fn even_rate(&self, srtt: Span) -> Rate {
        let view = self.view();
        let gain = if view.in_slow_start() { 10 } else { 6 };
        Rate::of(self.cwnd.saturating_mul(gain) / 5, srtt)
    }

    /// Returns the packets that [`Controller::even_rate`] permits at once after a pause.
    pub fn even_burst(&self) -> u32 {
        self.window.even_burst()
    }

    /// Handles an acknowledgement that newly acknowledged data of this path.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckSample, limits: CouplingLimits) {
        let view = self.view();
        self.discriminator.on_ack(view, ack);
        let update = self.window.on_ack(WindowView { limits, ..view }, ack);
        self.apply(update);
    }

    /// Asks the discriminator for its verdict on a loss. The window does not change before [`Controller::react`].
    pub fn judge(&mut self, loss: &LossEvent) -> Verdict {
        let view = self.view();
        self.discriminator.as_part().judge(view, loss)
    }

    /// Handles a loss that inherits the verdict of its episode. The discriminator is only informed.
    pub fn on_inherited(&mut self, loss: &LossEvent) {
        self.discriminator.as_part().on_inherited(loss);
    }

    /// Returns the strength of congestion, as a multiple of the threshold for that verdict, or `None` if the
    /// discriminator has no such measure.
    pub fn strength(&mut self) -> Option<f64> {
        let view = self.view();
        self.discriminator.as_part().strength(view)
    }

    /// Asks the window control for the reaction to a loss with this verdict. `has_reacted`: a reaction to this window of data has already
    /// taken place. Then a gap changes nothing more, and a timeout keeps the ssthresh of that reaction (Ye 2004, Figure 16).
    // [9260:7.2.4-5]
    pub fn react(&mut self, loss: &LossEvent, verdict: Verdict, has_reacted: bool, limits: CouplingLimits) {
        let view = WindowView { limits, ..self.view() };
        let window = self.window.as_part();
        match loss.signal {
            LossSignal::Gap if has_reacted => {}
            LossSignal::Gap if verdict == Verdict::Transmission => {
                let update = window.on_transmission_loss(view, loss);
                self.apply(update);
            }
            LossSignal::Gap => {
                let update = window.on_congestion(view, loss);
                self.apply(update);
                self.before_penalties = 0;
            }
            LossSignal::Timeout => {
                self.before_timeout = view.unchanged();
                let mut update = window.on_timeout(view, loss, verdict);
                if has_reacted {
                    update.ssthresh = view.ssthresh;
                }
                self.apply(update);
                self.before_penalties = 0;
            }
        }
    }

    /// Makes a window equal to ssthresh belong to congestion avoidance. RFC 5681 §3.1 permits both; RFC 9260 §7.2.1
    /// specifies slow start, which adds one unit after each recovery.
    pub fn begin_avoidance(&mut self) {
        if self.cwnd == self.ssthresh {
            self.ssthresh -= 1;
        }
    }

    /// Restarts the path with a window of this many units. ssthresh does not change.
    pub fn restart(&mut self, units: u32) {
        let cwnd = u64::from(self.rules.unit) * u64::from(units);
        self.apply(WindowUpdate {
            cwnd,
            ssthresh: self.ssthresh,
        });
    }

    /// Halves the window because data sent on this path blocks the other paths, and ends slow start there (Raiciu et
    /// al. 2012, 4.2). Returns whether the window is not larger than the minimum after congestion (RFC 9260 §7.2.3).
    pub fn penalise(&mut self) -> bool {
        let cwnd = (self.cwnd / 2).max(self.rules.unit.into());
        self.before_penalties = self.before_penalties.max(self.ssthresh);
        self.apply(WindowUpdate { cwnd, ssthresh: cwnd });
        cwnd <= u64::from(self.rules.floor)
    }

    /// Restores the ssthresh from before the penalties, if nothing but penalties has reduced it: the paths that waited for this one have
    /// failed. Otherwise a path penalised while it was idle would grow by one unit per round-trip time now that it carries all data.
    pub fn lift_penalties(&mut self) {
        self.ssthresh = self.ssthresh.max(self.before_penalties);
        self.before_penalties = 0;
    }

    /// Restores the window from before the last timeout, which was spurious.
    pub fn on_spurious_timeout(&mut self) {
        self.window.as_part().on_spurious_timeout();
        self.apply(self.before_timeout);
    }

    /// Handles a mark. It is congestion without a verdict of the discriminator, which is only informed.
    pub fn on_mark(&mut self, mark: &MarkEvent, limits: CouplingLimits) {
        self.discriminator.as_part().on_mark(mark);
        let view = WindowView { limits, ..self.view() };
        let update = self.window.as_part().on_mark(view, mark);
        self.apply(update);
    }

    /// Handles an idle period of `timeouts` retransmission timeouts (RFC 9260 §7.2.1, last rule).
    pub fn on_idle(&mut self, timeouts: u64) {
        let before = self.cwnd;
        // The window is halved each time: after 64 times it no longer changes.
        for _ in 0..timeouts.min(64) {
            let view = self.view();
            let update = self.window.as_part().on_idle(view);
            self.apply(update);
        }
        if self.cwnd < before {
            // [9260:7.2.1-11] ssthresh is set to the former window, so that slow start leads back to it. If the window does not shrink,
            // for instance because it is small after a timeout, ssthresh does not change.
            self.ssthresh = before;
        }
    }

    #[inline]
    fn view(&self) -> WindowView {
        WindowView {
            cwnd: self.cwnd,
            ssthresh: self.ssthresh,
            unit: self.rules.unit.into(),
            initial_cwnd: self.rules.initial_cwnd.into(),
            floor: self.rules.floor.into(),
            growth: self.rules.growth,
            limits: CouplingLimits::NONE,
        }
    }

    #[inline]
    fn apply(&mut self, update: WindowUpdate) {
        // The window is never smaller than one packet.
        self.cwnd = update.cwnd.max(self.rules.unit.min(self.rules.initial_cwnd).into());
        self.ssthresh = update.ssthresh;
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

    fn lose(path: &mut Controller, loss: &LossEvent, in_recovery: bool) -> Verdict {
        let verdict = path.judge(loss);
        path.react(loss, verdict, in_recovery, CouplingLimits::NONE);
        verdict
    }

    #[derive(Debug)]
    struct Always(Verdict);

    impl Discriminate for Always {
        fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
            self.0
        }
    }

    #[test]
    fn a_penalty_ends_with_the_failure_of_the_paths_that_waited() {
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Congestion))));
        path.penalise();
        path.penalise();
        assert_eq!((path.cwnd(), path.ssthresh()), (5 * UNIT, 5 * UNIT));
        path.lift_penalties();
        assert_eq!((path.cwnd(), path.ssthresh()), (5 * UNIT, u64::MAX));

        // A reduction by congestion stays.
        path.penalise();
        lose(&mut path, &gap(), false);
        let reduced = path.ssthresh();
        path.lift_penalties();
        assert_eq!(path.ssthresh(), reduced);
    }

    // [9260:7.2.4-5]
    #[test]
    fn only_the_first_gap_of_a_recovery_reduces() {
        // RFC 9260 §7.2.4 item 6
        let mut path = controller(Discriminator::default());
        assert_eq!(lose(&mut path, &gap(), false), Verdict::Congestion);
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
        lose(&mut path, &gap(), true);
        assert_eq!(path.cwnd(), 10 * UNIT);
    }

    #[test]
    fn a_transmission_loss_leaves_the_window_alone_and_an_unsure_one_does_not() {
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Transmission))));
        lose(&mut path, &gap(), false);
        assert_eq!(path.cwnd(), 20 * UNIT);
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Unsure))));
        lose(&mut path, &gap(), false);
        assert_eq!(path.cwnd(), 10 * UNIT);
    }

    // [9260:7.2.3-2, 7.2.1-2]
    #[test]
    fn a_timeout_restarts_from_one_unit() {
        // RFC 9260 §7.2.3
        let mut path = controller(Discriminator::default());
        let timeout = LossEvent {
            signal: LossSignal::Timeout,
            ..gap()
        };
        lose(&mut path, &timeout, false);
        assert_eq!((path.cwnd(), path.ssthresh()), (UNIT, 10 * UNIT));
    }

    #[test]
    fn a_mark_halves_and_is_congestion_whatever_the_discriminator_says() {
        // Ye 2004, Figure 16
        let mark = MarkEvent::of(Time::ZERO, 3);
        let mut path = controller(Discriminator::Other(Box::new(Always(Verdict::Transmission))));
        path.on_mark(&MarkEvent { reduces: false, ..mark }, CouplingLimits::NONE);
        assert_eq!(path.cwnd(), 20 * UNIT, "once per window of data");
        path.on_mark(&mark, CouplingLimits::NONE);
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
        let timeout = LossEvent {
            signal: LossSignal::Timeout,
            ..gap()
        };
        lose(&mut path, &timeout, true);
        assert_eq!((path.cwnd(), path.ssthresh()), (UNIT, 10 * UNIT), "reduced already");
        path.on_spurious_timeout();
        assert_eq!((path.cwnd(), path.ssthresh()), (10 * UNIT, 10 * UNIT));
    }

    // [9260:7.2.1-10, 7.2.1-11, 7.2.2-4]
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
}
