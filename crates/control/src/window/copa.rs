//! Copa: a target rate from the queueing delay, and a competitive mode beside flows that fill queues (Arun and Balakrishnan 2018).
//!
//! With d_q the queueing delay, the target rate is 1 / (delta d_q) packets per second: then 1 / delta packets of the flow are
//! queued on average. The window moves towards that rate by v / delta packets per round-trip time, so that the queue becomes
//! empty every few round-trip times. If it does not become empty, another flow fills it, and 1 / delta grows and shrinks like the
//! window of Reno.
//!
//! Loss changes nothing in the default mode, as in the paper. It has no rule for a timeout: here the window restarts from one unit
//! in slow start, because all data in flight counts as lost.

use super::{WindowControl, WindowUpdate, WindowView};
use crate::estimator::{Rounds, WindowedMax, WindowedMin};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::{Rate, Span, Time};

/// Parameters of Copa.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct CopaParameters {
    /// Weight of delay against throughput in the default mode, 0.004 to 1 (section 2.1: 0.5). About 1 / `delta` packets are queued.
    pub delta: f64,
    /// Whether 1 / `delta` grows beside flows that fill the queue (section 2.2).
    pub competitive: bool,
    /// Length of the window of the minimum filter of the round-trip time, 1 s to 1 h (section 2.1: 10 s).
    pub min_rtt_window: Span,
}

impl Default for CopaParameters {
    fn default() -> Self {
        CopaParameters {
            delta: 0.5,
            competitive: true,
            min_rtt_window: Span::from_secs(10),
        }
    }
}

impl Part<dyn WindowControl> for CopaParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("delta", self.delta, 0.004, 1.0, "")?;
        in_range("min_rtt_window", self.min_rtt_window.as_secs_f64(), 1.0, 3600.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Copa::new(*self))
    }
}

/// The window doubles its speed after this number of rounds in one direction: in the steady state a direction lasts 2.5 (section 2.1).
const STEADY_ROUNDS: u32 = 3;
/// The queue is nearly empty below this share of the range of the delay (section 2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// The queue of Copa flows becomes nearly empty at least once in this number of round-trip times (section 2.2).
const EMPTY_RTTS: f64 = 5.0;
/// The range of the delay is that of this number of round-trip times (section 2.2).
const RANGE_RTTS: f64 = 4.0;
/// The smallest window, in units.
const MIN_UNITS: u64 = 2;

/// The round-trip times from which Copa derives the queueing delay, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Delays {
    /// RTTmin: the least of a long time.
    min: WindowedMin,
    /// RTTstanding: the least of half a smoothed round-trip time, which jitter and compressed acknowledgements do not raise.
    standing: WindowedMin,
    /// The least of the last five round-trip times, and the greatest of the last four.
    recent: WindowedMin,
    max: WindowedMax,
}

impl Delays {
    fn take(&mut self, now: Time, rtt: Span, srtt: Span, min_rtt_window: Span) {
        let (at, rtt, srtt) = (now.as_nanos(), rtt.as_nanos() as f64, srtt.as_nanos() as f64);
        self.min.take(at, rtt, min_rtt_window.as_nanos());
        self.standing.take(at, rtt, (srtt / 2.0) as u64);
        self.recent.take(at, rtt, (EMPTY_RTTS * srtt) as u64);
        self.max.take(at, rtt, (RANGE_RTTS * srtt) as u64);
    }

    /// Returns RTTstanding and the queueing delay d_q, or `None` before the first measurement.
    fn queueing(&self) -> Option<(f64, f64)> {
        let (min, standing) = (self.min.get()?, self.standing.get()?);
        Some((standing, (standing - min).max(0.0)))
    }

    /// Returns whether the queue has recently been nearly empty: no other flow fills it.
    fn was_nearly_empty(&self) -> bool {
        match (self.min.get(), self.recent.get()) {
            (Some(min), Some(recent)) => recent - min <= NEARLY_EMPTY * (self.max.get() - min).max(0.0),
            _ => true,
        }
    }
}

/// The speed of the window: v, and the direction of the last rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Velocity {
    v: f64,
    is_up: bool,
    /// Rounds for which the direction has remained the same.
    rounds: u32,
    /// cwnd at the start of the round.
    cwnd: u64,
}

impl Velocity {
    fn new(cwnd: u64) -> Self {
        Velocity {
            v: 1.0,
            is_up: true,
            rounds: 0,
            cwnd,
        }
    }

    /// A round has ended: v doubles if the direction has remained the same for three rounds (section 2.1, step 4).
    fn on_round(&mut self, cwnd: u64) {
        let is_up = cwnd > self.cwnd;
        if is_up == self.is_up && cwnd != self.cwnd {
            self.rounds += 1;
            if self.rounds >= STEADY_ROUNDS {
                self.v *= 2.0;
            }
        } else {
            *self = Velocity {
                is_up,
                ..Velocity::new(cwnd)
            };
        }
        self.cwnd = cwnd;
    }
}

#[derive(Clone, Debug)]
struct Copa {
    parameters: CopaParameters,
    delays: Delays,
    rounds: Rounds,
    velocity: Velocity,
    slow_start: bool,
    /// 1 / delta in packets: more than that of the parameters only in competitive mode.
    packets: f64,
    is_competitive: bool,
    /// Whether congestion was reported since the start of the round.
    congested: bool,
    /// The part of a byte by which the window has not changed yet.
    fraction: f64,
    /// Whether slow start was active before the last timeout.
    before_timeout: bool,
}

impl Copa {
    fn new(parameters: CopaParameters) -> Self {
        Copa {
            parameters,
            delays: Delays::default(),
            rounds: Rounds::default(),
            velocity: Velocity::new(0),
            slow_start: true,
            packets: 1.0 / parameters.delta,
            is_competitive: false,
            congested: false,
            fraction: 0.0,
            before_timeout: true,
        }
    }

    /// Chooses the mode (section 2.2), and in competitive mode 1 / delta: one more per round-trip time without loss.
    fn update_mode(&mut self, round_over: bool) {
        let is_competitive = self.parameters.competitive && !self.delays.was_nearly_empty();
        if !is_competitive {
            self.packets = 1.0 / self.parameters.delta;
        } else if self.is_competitive && round_over && !self.congested {
            self.packets += 1.0;
        }
        self.is_competitive = is_competitive;
        self.congested &= !round_over;
    }

    /// Moves the window towards the target rate (section 2.1, step 3): by v / (delta cwnd) packets for each acknowledged one.
    fn step(&mut self, window: WindowView, ack: &AckSample, is_below: bool) -> u64 {
        let (cwnd, unit) = (window.cwnd.max(1) as f64, window.unit as f64);
        // At most one packet for each acknowledged one, as in slow start.
        let share = (self.velocity.v * self.packets * unit / cwnd).min(1.0);
        let step = share * ack.acked as f64;
        let change = self.fraction + if is_below { step } else { -step };
        let whole = libm::trunc(change);
        self.fraction = change - whole;
        let moved = if whole >= 0.0 {
            window.cwnd.saturating_add(whole as u64)
        } else {
            window.cwnd.saturating_sub(-whole as u64)
        };
        moved.max(MIN_UNITS * window.unit)
    }
}

impl WindowControl for Copa {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            let srtt = ack.srtt.unwrap_or(rtt);
            self.delays.take(ack.now, rtt, srtt, self.parameters.min_rtt_window);
        }
        let round_over = self.rounds.on_ack(ack);
        self.update_mode(round_over);
        // Section 2.1, steps 1 to 3: lambda = cwnd / RTTstanding against lambda_t = 1 / (delta d_q), multiplied by both denominators.
        let is_below = self.delays.queueing().is_none_or(|(standing, queueing)| {
            window.cwnd as f64 * queueing <= self.packets * window.unit as f64 * standing
        });
        if self.slow_start && !is_below {
            self.slow_start = false;
            self.velocity = Velocity::new(window.cwnd);
        } else if !self.slow_start && round_over {
            self.velocity.on_round(window.cwnd);
        }
        // A user that sends less than half of the window measures no queue, whatever the window.
        let is_used = ack.flight_before.saturating_add(window.unit) > window.cwnd / 2;
        let cwnd = if is_below && !is_used {
            window.cwnd
        } else if self.slow_start {
            window.cwnd.saturating_add(ack.acked)
        } else {
            self.step(window, ack, is_below)
        };
        WindowUpdate {
            cwnd,
            ssthresh: window.ssthresh,
        }
    }

    fn on_congestion(&mut self, window: WindowView, _loss: &LossEvent) -> WindowUpdate {
        // Section 2.2: 1 / delta is halved, but delta stays at most that of the default mode.
        self.packets = (self.packets / 2.0).max(1.0 / self.parameters.delta);
        self.congested = true;
        window.unchanged()
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, _verdict: Verdict) -> WindowUpdate {
        self.on_congestion(window, loss);
        self.before_timeout = self.slow_start;
        self.slow_start = true;
        WindowUpdate {
            cwnd: window.unit,
            ssthresh: window.ssthresh,
        }
    }

    fn on_spurious_timeout(&mut self) {
        self.slow_start = self.before_timeout;
    }

    fn pacing_rate(&self, window: WindowView, srtt: Option<Span>) -> Option<Rate> {
        // Section 2.1: twice the rate of the window, so that pacing never limits it.
        let standing = self.delays.standing.get().map(|nanos| Span::from_nanos(nanos as u64));
        let rate = Rate::of(window.cwnd.saturating_mul(2), standing.or(srtt)?);
        Some(rate.max(Rate::from_bps(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::testing::{UNIT, gap, timeout, view};

    /// A path with acknowledgements of single packets.
    struct Path {
        copa: Copa,
        window: WindowView,
        now: Time,
        seq: u64,
    }

    impl Path {
        /// Creates a path with a minimum round-trip time of 100 ms and this window, after slow start.
        fn new(units: u64) -> Self {
            let mut path = Path::in_slow_start(units);
            path.acks(1, 100);
            path.copa.slow_start = false;
            path.copa.velocity = Velocity::new(path.window.cwnd);
            path.window.cwnd = units * UNIT;
            path
        }

        fn in_slow_start(units: u64) -> Self {
            Path {
                copa: Copa::new(CopaParameters::default()),
                window: view(units * UNIT, u64::MAX),
                now: Time::from_nanos(1_000_000_000),
                seq: 0,
            }
        }

        /// Acknowledges `count` packets within a round-trip time of `rtt` ms.
        fn acks(&mut self, count: u64, rtt: u64) {
            let rtt = Span::from_millis(rtt);
            let next = self.seq + count;
            for _ in 0..count {
                self.now += rtt / count;
                let ack = AckSample {
                    newest: self.seq,
                    acked_to: self.seq + 1,
                    next,
                    rtt: Some(rtt),
                    srtt: Some(rtt),
                    ..AckSample::of(self.now, UNIT, self.window.cwnd)
                };
                self.seq += 1;
                self.window.cwnd = self.copa.on_ack(self.window, &ack).cwnd;
            }
        }

        fn units(&self) -> f64 {
            self.window.cwnd as f64 / UNIT as f64
        }
    }

    #[test]
    fn the_window_moves_by_one_over_delta_per_round_towards_the_target() {
        // Section 2.1. 40 packets, 100 ms, 1 / delta = 2. d_q = 5 ms: target 2 / 5 ms = 400/s, rate 40 / 105 ms = 381/s: up by
        // 2 / cwnd for each packet, 2 in 40. d_q = 6 ms: target 333/s, rate 40 / 106 ms = 377/s: down.
        let mut up = Path::new(40);
        up.acks(1, 105);
        let first = up.units();
        assert!((first - (40.0 + 2.0 / 40.0)).abs() < 2e-3, "{first}");
        up.acks(39, 105);
        assert!((up.units() - 41.95).abs() < 0.02, "{}", up.units());
        let mut down = Path::new(40);
        down.acks(1, 100);
        // RTTstanding stays 100 ms for half a smoothed round-trip time: 53 ms.
        down.acks(40, 106);
        down.window.cwnd = 40 * UNIT;
        down.acks(1, 106);
        assert!((down.units() - (40.0 - 2.0 / 40.0)).abs() < 2e-3, "{}", down.units());
    }

    #[test]
    fn v_doubles_from_the_third_round_in_one_direction_and_restarts_at_one() {
        // Section 2.1, step 4
        let mut velocity = Velocity::new(100);
        let speeds: Vec<f64> = [110, 120, 130, 140, 150, 140, 130, 120, 110, 110]
            .iter()
            .map(|&cwnd| {
                velocity.on_round(cwnd);
                velocity.v
            })
            .collect();
        assert_eq!(speeds, [1.0, 1.0, 2.0, 4.0, 8.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
    }

    #[test]
    fn the_window_moves_by_a_packet_for_each_acknowledged_one_at_most_and_keeps_two() {
        // v / delta = 32 * 2 packets: more than the window of 40, and of 3.
        for (units, is_below, expected) in [(40, true, 41), (40, false, 39), (3, false, 2), (2, false, 2)] {
            let mut path = Path::new(units);
            path.copa.velocity.v = 32.0;
            let ack = AckSample::of(path.now, UNIT, path.window.cwnd);
            assert_eq!(path.copa.step(path.window, &ack, is_below), expected * UNIT, "{units}");
        }
    }

    #[test]
    fn slow_start_ends_when_the_rate_exceeds_the_target() {
        // 4, 8, 16 packets without a queue. Then d_q = 25 ms: target 80/s, rate 16 / 125 ms = 128/s.
        let mut path = Path::in_slow_start(4);
        path.acks(4, 100);
        path.acks(8, 100);
        assert!((path.units() - 16.0).abs() < 1e-9 && path.copa.slow_start);
        path.acks(16, 125);
        assert!(!path.copa.slow_start);
        assert!(path.units() < 32.0, "{}", path.units());
    }

    #[test]
    fn a_queue_that_is_not_nearly_empty_for_five_rounds_starts_the_competitive_mode() {
        // Section 2.2. RTTmin 100 ms, greatest 200 ms: nearly empty is below 110 ms.
        let mut path = Path::new(20);
        for rtt in [200, 150, 150, 150] {
            path.acks(20, rtt);
            assert!(!path.copa.is_competitive);
        }
        for _ in 0..4 {
            path.acks(20, 200);
        }
        assert!(path.copa.is_competitive);
        let packets = path.copa.packets;
        path.acks(20, 200);
        assert!((path.copa.packets - packets - 1.0).abs() < 1e-9, "one more per round");
        // 1 / delta: 1 more per round, half after a loss, at least 2.
        path.copa.packets = 12.0;
        let cwnd = path.window.cwnd;
        assert_eq!(path.copa.on_congestion(path.window, &gap()).cwnd, cwnd);
        assert!((path.copa.packets - 6.0).abs() < 1e-9);
        path.acks(20, 200);
        assert!(
            (path.copa.packets - 6.0).abs() < 1e-9,
            "no growth in a round with a loss"
        );
        path.copa.packets = 3.0;
        path.copa.on_congestion(path.window, &gap());
        assert!((path.copa.packets - 2.0).abs() < 1e-9);
        // 108 ms are below 110 ms, 112 ms are not.
        path.copa.packets = 12.0;
        path.acks(20, 112);
        assert!(path.copa.is_competitive);
        path.acks(20, 108);
        assert!(!path.copa.is_competitive);
        assert!(
            (path.copa.packets - 2.0).abs() < 1e-9,
            "delta is that of the default mode"
        );
    }

    #[test]
    fn a_loss_changes_nothing_in_the_default_mode_and_a_timeout_restarts_slow_start() {
        let mut path = Path::new(40);
        assert_eq!(path.copa.on_congestion(path.window, &gap()), path.window.unchanged());
        assert!((path.copa.packets - 2.0).abs() < 1e-9);
        let update = path.copa.on_timeout(path.window, &timeout(), Verdict::Congestion);
        assert_eq!((update.cwnd, path.copa.slow_start), (UNIT, true));
        path.copa.on_spurious_timeout();
        assert!(!path.copa.slow_start);
    }

    #[test]
    fn pacing_is_twice_the_rate_of_the_window() {
        // 2 * 40 * 1468 bytes in 100 ms
        let path = Path::new(40);
        let rate = path
            .copa
            .pacing_rate(path.window, Some(Span::from_millis(900)))
            .unwrap();
        assert_eq!(rate, Rate::from_bps(2 * 40 * UNIT * 8 * 10));
    }

    #[test]
    fn a_window_of_which_less_than_half_is_used_does_not_grow() {
        let mut path = Path::new(40);
        let ack = |flight| AckSample {
            rtt: Some(Span::from_millis(100)),
            ..AckSample::of(path.now, UNIT, flight)
        };
        let (idle, busy) = (ack(10 * UNIT), ack(20 * UNIT));
        assert_eq!(path.copa.on_ack(path.window, &idle).cwnd, path.window.cwnd);
        assert!(path.copa.on_ack(path.window, &busy).cwnd > path.window.cwnd);
    }
}
