//! ABBA: CUBIC that grows faster while the round-trip time is below a line through the points (cwnd, round-trip time) of the last
//! congestion and of the least round-trip time since (draft-kazuho-ccwg-abba; quicly, pull requests 689 and 698).

use super::cubic::{Cubic, CubicParameters};
use super::{WindowControl, WindowUpdate, WindowView};
use crate::Span;
use crate::epoch::RecoveryEpoch;
use crate::estimator::Rounds;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, MarkEvent, Seq, Verdict};

/// Parameters of ABBA.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct AbbaParameters {
    /// C of CUBIC in packets per second cubed, 0.001 to 10 (RFC 9438 §5.1: 0.4).
    pub c: f64,
    /// Fraction of the window that remains after congestion, 0.1 to 0.95 (RFC 9438 §4.6: 0.7).
    pub beta: f64,
    /// Losing flows make room for newcomers (RFC 9438 §4.7).
    pub fast_convergence: bool,
    /// Slow start ends when round-trip times rise (HyStart++, RFC 9406).
    pub hystart: bool,
    /// RTT_SPAN_THRESH: the line is flat until the round-trip times differ by this, 0 s to 10 s (draft: 5 ms).
    pub rtt_span: Span,
    /// MAX_SLOPE_RATIO: share of the slope between the two points that the line has, 0.01 to 1 (draft: 2/3).
    pub slope: f64,
    /// Share of the difference between cwnd and the window of the line that a round adds, 0 to 1 (draft: 2/3). With 0 the window is
    /// CUBIC's.
    pub gain: f64,
}

impl Default for AbbaParameters {
    fn default() -> Self {
        let CubicParameters {
            c,
            beta,
            fast_convergence,
            hystart,
        } = CubicParameters::default();
        AbbaParameters {
            c,
            beta,
            fast_convergence,
            hystart,
            rtt_span: Span::from_millis(5),
            slope: 2.0 / 3.0,
            gain: 2.0 / 3.0,
        }
    }
}

impl AbbaParameters {
    fn cubic(&self) -> CubicParameters {
        CubicParameters {
            c: self.c,
            beta: self.beta,
            fast_convergence: self.fast_convergence,
            hystart: self.hystart,
        }
    }
}

impl Part<dyn WindowControl> for AbbaParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        self.cubic().validate()?;
        in_range("rtt_span", self.rtt_span.as_secs_f64(), 0.0, 10.0, "s")?;
        in_range("slope", self.slope, 0.01, 1.0, "")?;
        in_range("gain", self.gain, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Abba::new(*self))
    }
}

/// A window and a round-trip time. In bytes and seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Point {
    cwnd: f64,
    rtt: f64,
}

/// The round-trip time that a window should have: `a` cwnd + `b`. In seconds per byte, and seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Line {
    a: f64,
    b: f64,
}

impl Line {
    fn at(self, cwnd: f64) -> f64 {
        self.a * cwnd + self.b
    }
}

/// What is known of the path since a congestion event.
#[derive(Clone, Copy, Debug)]
struct Model {
    /// The window before the reduction, and the round-trip time of the full queue.
    high: Point,
    /// Whether a mark was the event. Then the round-trip time is that before the mark.
    by_mark: bool,
    /// The recovery after the event.
    recovery: RecoveryEpoch,
    /// The point of the least round-trip time since the recovery.
    low: Option<Point>,
    line: Option<Line>,
}

impl Model {
    fn new(high: Point, by_mark: bool, next: Seq) -> Self {
        let mut recovery = RecoveryEpoch::default();
        recovery.enter(next.saturating_sub(1));
        Model {
            high,
            by_mark,
            recovery,
            low: None,
            line: None,
        }
    }

    /// Returns whether the acknowledgement belongs to the recovery.
    fn is_recovering(&mut self, ack: &AckSample) -> bool {
        if let Some(acked) = ack.acked_to.checked_sub(1) {
            self.recovery.on_cumulative_ack(acked);
        }
        self.recovery.is_active() || ack.in_recovery
    }

    /// Handles a round-trip time of the recovery (draft, The High Point).
    fn on_recovery(&mut self, rtt: f64) {
        if !self.by_mark && self.low.is_none() {
            self.high.rtt = self.high.rtt.min(rtt);
        }
    }

    /// Handles a round-trip time of congestion avoidance outside of the recovery (draft, The Low Point). `floor` is the least one of the
    /// last round.
    fn on_avoidance(&mut self, parameters: &AbbaParameters, now: Point, floor: f64) {
        // The line is flat until a lower round-trip time is found.
        let start = Point {
            cwnd: now.cwnd,
            rtt: self.high.rtt,
        };
        let low = self.low.unwrap_or(start);
        let lower = if now.rtt < low.rtt { now } else { low };
        if self.low != Some(lower) {
            self.low = Some(lower);
            self.fit(parameters, lower);
        }
        self.extrapolate(parameters, now.cwnd, floor);
    }

    /// Draws the line through both points (draft, Fitting the Line). Keeps it if the windows are in the wrong order.
    fn fit(&mut self, parameters: &AbbaParameters, low: Point) {
        let high = self.high;
        if high.cwnd <= low.cwnd {
            return;
        }
        let rise = high.rtt - low.rtt;
        let a = if rise < parameters.rtt_span.as_secs_f64() {
            0.0
        } else {
            // On the line through the origin the window is bandwidth times round-trip time. No path has a steeper one.
            (rise / (high.cwnd - low.cwnd)).min(low.rtt / low.cwnd) * parameters.slope
        };
        self.line = Some(Line {
            a,
            b: low.rtt - a * low.cwnd,
        });
    }

    /// Draws a line through the origin once the window is far above that of the congestion (draft, Beyond the Observed Range).
    fn extrapolate(&mut self, parameters: &AbbaParameters, cwnd: f64, floor: f64) {
        let is_proportional = self.line.is_some_and(|line| line.b <= 0.0);
        if is_proportional || cwnd <= self.high.cwnd * (2.0 - parameters.beta) {
            return;
        }
        let target = self.line.map_or(floor, |line| line.at(cwnd).max(floor));
        self.line = Some(Line {
            a: target / cwnd,
            b: 0.0,
        });
    }

    /// Returns the bytes by which an acknowledgement of `acked` bytes enlarges the window (draft, Accelerated Increase).
    fn increase(&self, parameters: &AbbaParameters, now: Point, acked: u64) -> f64 {
        let Some(line) = self.line.filter(|line| line.a > 0.0 && now.rtt < line.at(now.cwnd)) else {
            return 0.0;
        };
        let reference = (now.rtt - line.b) / line.a;
        let gain = parameters.gain * (1.0 - reference / now.cwnd);
        (acked as f64 * gain).min(now.cwnd / 2.0)
    }
}

/// The least round-trip time of the current and the previous round, in seconds.
#[derive(Clone, Copy, Debug)]
struct Floor {
    rounds: Rounds,
    current: f64,
    previous: f64,
}

impl Floor {
    fn on_ack(&mut self, ack: &AckSample, rtt: f64) {
        if self.rounds.on_ack(ack) {
            self.previous = self.current;
            self.current = f64::INFINITY;
        }
        self.current = self.current.min(rtt);
    }

    fn get(&self) -> f64 {
        self.current.min(self.previous)
    }
}

#[derive(Clone, Debug)]
struct Abba {
    parameters: AbbaParameters,
    cubic: Cubic,
    /// The latest round-trip time in seconds.
    latest: Option<f64>,
    floor: Floor,
    /// `None` before the first congestion event, and after a timeout: the draft does not treat timeouts.
    model: Option<Model>,
    before_timeout: Option<Model>,
}

impl Abba {
    fn new(parameters: AbbaParameters) -> Self {
        Abba {
            parameters,
            cubic: Cubic::new(parameters.cubic()),
            latest: None,
            floor: Floor {
                rounds: Rounds::default(),
                current: f64::INFINITY,
                previous: f64::INFINITY,
            },
            model: None,
            before_timeout: None,
        }
    }

    /// Returns the window that ABBA's own growth gives.
    fn accelerate(&mut self, window: WindowView, ack: &AckSample) -> u64 {
        let (Some(model), Some(rtt)) = (&mut self.model, self.latest) else {
            return window.cwnd;
        };
        let now = Point {
            cwnd: window.cwnd.max(1) as f64,
            rtt,
        };
        if model.is_recovering(ack) {
            model.on_recovery(rtt);
            return window.cwnd;
        }
        if window.in_slow_start() {
            return window.cwnd;
        }
        model.on_avoidance(&self.parameters, now, self.floor.get());
        if !window.is_used(ack) {
            return window.cwnd;
        }
        let increase = model.increase(&self.parameters, now, ack.acked);
        window.cwnd.saturating_add(increase as u64)
    }
}

impl WindowControl for Abba {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        if let Some(rtt) = ack.rtt {
            let rtt = rtt.as_secs_f64();
            self.latest = Some(rtt);
            self.floor.on_ack(ack, rtt);
        }
        let accelerated = self.accelerate(window, ack);
        let update = self.cubic.on_ack(window, ack);
        WindowUpdate {
            cwnd: update.cwnd.max(accelerated),
            ..update
        }
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        let rtt = self.latest.or(loss.srtt.map(Span::as_secs_f64));
        let cwnd = window.cwnd as f64;
        self.model = rtt.map(|rtt| Model::new(Point { cwnd, rtt }, false, loss.next));
        self.cubic.on_congestion(window, loss)
    }

    fn on_mark(&mut self, window: WindowView, mark: &MarkEvent) -> WindowUpdate {
        if mark.reduces {
            // A mark reports a queue that stood before it. What comes after it is lower already.
            let rtt = self
                .latest
                .map(|_| self.floor.get())
                .or(mark.srtt.map(Span::as_secs_f64));
            let cwnd = window.cwnd as f64;
            self.model = rtt.map(|rtt| Model::new(Point { cwnd, rtt }, true, mark.next));
        }
        self.cubic.on_mark(window, mark)
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.before_timeout = self.model.take();
        self.cubic.on_timeout(window, loss, verdict)
    }

    fn on_spurious_timeout(&mut self) {
        self.model = self.before_timeout;
        self.cubic.on_spurious_timeout();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::window::testing::{UNIT, gap, round, timeout, view};

    fn plain() -> AbbaParameters {
        AbbaParameters {
            hystart: false,
            ..AbbaParameters::default()
        }
    }

    /// Returns a point in units and milliseconds.
    fn point(units: u64, ms: f64) -> Point {
        Point {
            cwnd: (units * UNIT) as f64,
            rtt: ms / 1000.0,
        }
    }

    /// Returns the slope in ms per unit, and the intercept in ms, of a line.
    fn by_hand(line: Option<Line>) -> Option<(f64, f64)> {
        let rounded = |value: f64| (value * 1e6).round() / 1e6;
        line.map(|line| (rounded(line.a * UNIT as f64 * 1000.0), rounded(line.b * 1000.0)))
    }

    fn fitted(high: Point, low: Point) -> Model {
        let mut model = Model::new(high, false, 10);
        model.fit(&plain(), low);
        model
    }

    /// Returns the growth in units by an acknowledgement of six units at this window, in units, and round-trip time, in ms.
    fn growth(model: &Model, units: u64, ms: f64) -> f64 {
        model.increase(&plain(), point(units, ms), 6 * UNIT) / UNIT as f64
    }

    fn assert_near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    #[test]
    fn the_line_through_both_points_by_hand() {
        // Draft, Fitting the Line: 30 ms in 40 units are 0.75 ms per unit, below the 1 ms of the line through the origin; two thirds are
        // 0.5 ms. 60 - 0.5 x 60 = 30 ms.
        let model = fitted(point(100, 90.0), point(60, 60.0));
        assert_eq!(by_hand(model.line), Some((0.5, 30.0)));
        // 140 ms in 40 units are more than 60 ms in 60 units: two thirds of 1 ms, 60 - 40 = 20 ms.
        let steep = fitted(point(100, 200.0), point(60, 60.0));
        assert_eq!(by_hand(steep.line), Some((0.666_667, 20.0)));
        // Flat below 5 ms: 5 ms in 40 units are 0.125 ms per unit, two thirds 0.083333 ms.
        assert_eq!(
            by_hand(fitted(point(100, 64.999), point(60, 60.0)).line),
            Some((0.0, 60.0))
        );
        assert_eq!(
            by_hand(fitted(point(100, 65.001), point(60, 60.0)).line),
            Some((0.08335, 54.999))
        );
        // The low point at the window of the congestion: the line stays.
        let mut kept = model;
        kept.fit(&plain(), point(100, 50.0));
        assert_eq!(kept.line, model.line);
    }

    #[test]
    fn the_window_grows_by_the_difference_from_the_line() {
        // Draft, Accelerated Increase: at 80 units the line has 70 ms. At 60 ms it has w = (60 - 30) / 0.5 = 60 units: 6 units
        // acknowledged add 6 x 2/3 (1 - 60/80) = 1 unit; at 65 ms, w = 70, half of it.
        let model = fitted(point(100, 90.0), point(60, 60.0));
        assert_near(growth(&model, 80, 60.0), 1.0);
        assert_near(growth(&model, 80, 65.0), 0.5);
        assert_near(growth(&model, 80, 70.0), 0.0);
        assert_near(growth(&model, 80, 75.0), 0.0);
        // At most half of the window: at 2 units and 1 ms, w = (1 - 30) / 0.5 = -58, and 6 x 2/3 x 30 = 120 units.
        assert_near(growth(&model, 2, 1.0), 1.0);
        // A flat line predicts nothing.
        assert_near(growth(&fitted(point(100, 64.0), point(60, 60.0)), 80, 40.0), 0.0);
    }

    #[test]
    fn beyond_the_window_of_the_congestion_the_line_goes_through_the_origin() {
        // Draft, Beyond the Observed Range: from 100 (2 - 0.7) = 130 units on.
        let mut model = fitted(point(100, 90.0), point(60, 60.0));
        let before = model.line;
        model.extrapolate(&plain(), (130 * UNIT) as f64, 0.060);
        assert_eq!(model.line, before);
        // At 160 units the line has 0.5 x 160 + 30 = 110 ms, more than the least round-trip time of 60 ms: 110 / 160 ms per unit.
        model.extrapolate(&plain(), (160 * UNIT) as f64, 0.060);
        assert_eq!(by_hand(model.line), Some((0.6875, 0.0)));
        model.extrapolate(&plain(), (200 * UNIT) as f64, 0.300);
        assert_eq!(by_hand(model.line), Some((0.6875, 0.0)), "drawn once");
        // Above the line, and without any line, the least round-trip time counts: 160 ms at 160 units.
        for line in [before, None] {
            let mut model = Model { line, ..model };
            model.extrapolate(&plain(), (160 * UNIT) as f64, 0.160);
            assert_eq!(by_hand(model.line), Some((1.0, 0.0)));
        }
    }

    fn ack(rtt: u64, acked_to: Seq) -> AckSample {
        AckSample {
            rtt: Some(Span::from_millis(rtt)),
            newest: acked_to - 1,
            acked_to,
            next: acked_to + 100,
            ..AckSample::of(Time::ZERO, UNIT, u64::MAX)
        }
    }

    /// A loss at 100 units and 100 ms, with packets up to 199 outstanding.
    fn congested() -> Abba {
        let mut abba = Abba::new(plain());
        abba.on_ack(view(100 * UNIT, UNIT), &ack(100, 100));
        let update = abba.on_congestion(view(100 * UNIT, UNIT), &LossEvent { next: 200, ..gap() });
        assert_eq!(update.cwnd, 70 * UNIT, "CUBIC's reduction");
        abba
    }

    fn high(abba: &Abba) -> Option<Point> {
        abba.model.map(|model| model.high)
    }

    fn low(abba: &Abba) -> Option<Point> {
        abba.model.and_then(|model| model.low)
    }

    #[test]
    fn the_high_point_has_the_least_round_trip_time_of_the_recovery() {
        let mut abba = congested();
        assert_eq!(high(&abba), Some(point(100, 100.0)));
        let window = view(70 * UNIT, UNIT);
        abba.on_ack(window, &ack(95, 150));
        abba.on_ack(window, &ack(98, 199));
        assert_eq!((high(&abba), low(&abba)), (Some(point(100, 95.0)), None));
        // The recovery ends: the low point starts with the round-trip time of the high one, and moves with lower ones.
        abba.on_ack(window, &ack(97, 200));
        assert_eq!(low(&abba), Some(point(70, 95.0)));
        abba.on_ack(view(75 * UNIT, UNIT), &ack(80, 210));
        abba.on_ack(view(80 * UNIT, UNIT), &ack(80, 220));
        assert_eq!(
            (high(&abba), low(&abba)),
            (Some(point(100, 95.0)), Some(point(75, 80.0)))
        );
        // 15 ms in 25 units: 0.6 ms per unit, two thirds 0.4; 80 - 0.4 x 75 = 50 ms
        assert_eq!(by_hand(abba.model.and_then(|model| model.line)), Some((0.4, 50.0)));
        abba.on_congestion(view(80 * UNIT, UNIT), &LossEvent { next: 300, ..gap() });
        assert_eq!((high(&abba), low(&abba)), (Some(point(80, 80.0)), None), "discarded");
        assert!(abba.model.is_some_and(|model| model.line.is_none()));
    }

    #[test]
    fn the_high_point_of_a_mark_has_the_least_round_trip_time_of_the_round_before() {
        let mut abba = Abba::new(plain());
        let window = view(100 * UNIT, UNIT);
        // Rounds begin with the packets 0, 101 and 202.
        for (rtt, acked_to) in [(50, 1), (70, 102), (90, 203), (95, 250)] {
            abba.on_ack(window, &ack(rtt, acked_to));
        }
        let mark = MarkEvent {
            next: 300,
            ..MarkEvent::of(Time::ZERO, 240)
        };
        abba.on_mark(window, &MarkEvent { reduces: false, ..mark });
        assert_eq!(high(&abba), None);
        assert_eq!(abba.on_mark(window, &mark).cwnd, 70 * UNIT);
        assert_eq!(high(&abba), Some(point(100, 70.0)));
        abba.on_ack(view(70 * UNIT, UNIT), &ack(60, 299));
        assert_eq!(high(&abba), Some(point(100, 70.0)), "only a loss fills the queue");
        abba.on_ack(view(70 * UNIT, UNIT), &ack(60, 300));
        assert_eq!(low(&abba), Some(point(70, 60.0)));
    }

    #[test]
    fn a_timeout_discards_the_line_and_a_spurious_one_restores_it() {
        let mut abba = congested();
        abba.on_ack(view(70 * UNIT, UNIT), &ack(80, 200));
        let before = low(&abba);
        assert_eq!(before, Some(point(70, 80.0)));
        let update = abba.on_timeout(view(80 * UNIT, UNIT), &timeout(), Verdict::Congestion);
        assert_eq!((update.cwnd, update.ssthresh, low(&abba)), (UNIT, 56 * UNIT, None));
        abba.on_spurious_timeout();
        assert_eq!(low(&abba), before);
    }

    #[test]
    fn only_a_full_window_in_avoidance_is_accelerated() {
        let mut abba = congested();
        abba.on_ack(view(70 * UNIT, UNIT), &ack(80, 200));
        // At 90 units the line has 80 + 20 x 4/9 = 88.9 ms.
        let faster = |abba: &Abba, window: WindowView, ack: AckSample| {
            let alone = abba.cubic.clone().on_ack(window, &ack).cwnd;
            abba.clone().on_ack(window, &ack).cwnd > alone
        };
        let window = view(90 * UNIT, UNIT);
        assert!(faster(&abba, window, ack(80, 210)));
        assert!(!faster(&abba, window, ack(89, 210)), "above the line");
        let unused = AckSample {
            flight_before: 10 * UNIT,
            ..ack(80, 210)
        };
        assert!(!faster(&abba, window, unused));
        let recovering = AckSample {
            in_recovery: true,
            ..ack(80, 210)
        };
        assert!(!faster(&abba, window, recovering));
        let before = low(&abba);
        abba.on_ack(view(60 * UNIT, u64::MAX), &ack(60, 210));
        assert_eq!(low(&abba), before, "slow start");
    }

    #[test]
    fn after_a_loss_without_a_queue_growth_is_faster_beyond_its_window() {
        // The round-trip time is always 50 ms: the line is flat up to 130 units, then it has 50 ms at 131 units.
        let mut abba = Abba::new(plain());
        abba.on_ack(view(100 * UNIT, UNIT), &ack(50, 100));
        abba.on_congestion(view(100 * UNIT, UNIT), &LossEvent { next: 200, ..gap() });
        let mut grown = |units: u64, acked_to| {
            let window = view(units * UNIT, UNIT);
            let cubic = abba.cubic.clone().on_ack(window, &ack(50, acked_to)).cwnd;
            abba.on_ack(window, &ack(50, acked_to)).cwnd - cubic
        };
        assert_eq!(grown(70, 200), 0);
        assert_eq!(grown(130, 210), 0);
        assert_eq!(grown(131, 220), 0);
        assert!(grown(140, 230) > 0);
        assert_eq!(by_hand(abba.model.and_then(|model| model.line)), Some((0.381_679, 0.0)));
    }

    #[test]
    fn it_is_cubic_until_the_capacity_grows() {
        // A path of 50 ms that delivers a unit per ms: at 100 units it loses, then it delivers two.
        let mut abba = congested();
        let mut cubic = abba.cubic.clone();
        let mut windows = [view(70 * UNIT, UNIT); 2];
        let (mut now, mut seq) = (Time::ZERO, [200, 200]);
        let mut rounds = |count, rate: u64| {
            for _ in 0..count {
                let rtt = |window: &WindowView| Span::from_millis((window.cwnd / UNIT / rate).max(50));
                let rtts = [rtt(&windows[0]), rtt(&windows[1])];
                round(&mut abba, &mut windows[0], &mut seq[0], now, rtts[0]);
                round(&mut cubic, &mut windows[1], &mut seq[1], now, rtts[1]);
                now += rtts[0];
            }
            windows.map(|window| window.cwnd / UNIT)
        };
        let [abba, cubic] = rounds(10, 1);
        assert_eq!(abba, cubic);
        let [abba, cubic] = rounds(10, 2);
        assert!(abba > cubic + 20, "{abba} and {cubic} units");
    }
}
