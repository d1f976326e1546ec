//! BBR version 1: a model of bandwidth and round-trip time instead of a reaction to loss (Cardwell et al. 2016;
//! draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! Loss and marks do not change the model. In the first round of a recovery the sender sends as much as is delivered
//! (draft §4.2.3.4). Features of single implementations are omitted: the detection of policers and the allowance for
//! aggregated acknowledgements. The first phase of the gain cycle is derived from the bytes delivered instead of a
//! random number.

use super::saved::SavedWindow;
use super::{WindowControl, WindowUpdate, WindowView};
use crate::estimator::WindowedMax;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, MarkEvent, Needs, RateSample, Verdict};
use crate::{Rate, Span, Time};

/// Parameters of BBR.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct Bbr1Parameters {
    /// Gain of pacing rate and window in Startup, 1.5 to 4 (draft §4.3.2.1: 2 / ln 2).
    pub startup_gain: f64,
    /// Gain of the window in ProbeBW, 1 to 8 (draft §4.3.4.1: 2).
    pub cwnd_gain: f64,
    /// Gain of the pacing rate in the phase that probes for bandwidth, 1 to 2 (draft §4.3.4.2: 1.25); the next phase drains what it queued.
    pub probe_gain: f64,
    /// Length of the window of the maximum filter of the bandwidth, in round-trip times, 2 to 100 (draft §4.1.1.3: 10).
    pub bandwidth_rounds: u32,
    /// Length of the window of the minimum filter of the round-trip time, 1 s to 1 h (draft §4.1.2.2: 10 s). ProbeRTT follows if no
    /// sample in it was lower.
    pub min_rtt_window: Span,
    /// Minimum duration of ProbeRTT, 10 ms to 10 s (draft §4.3.5: 200 ms).
    pub probe_rtt_time: Span,
}

impl Default for Bbr1Parameters {
    fn default() -> Self {
        Bbr1Parameters {
            startup_gain: 2.885,
            cwnd_gain: 2.0,
            probe_gain: 1.25,
            bandwidth_rounds: 10,
            min_rtt_window: Span::from_secs(10),
            probe_rtt_time: Span::from_millis(200),
        }
    }
}

impl Part<dyn WindowControl> for Bbr1Parameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("startup_gain", self.startup_gain, 1.5, 4.0, "")?;
        in_range("cwnd_gain", self.cwnd_gain, 1.0, 8.0, "")?;
        in_range("probe_gain", self.probe_gain, 1.0, 2.0, "")?;
        in_range(
            "bandwidth_rounds",
            f64::from(self.bandwidth_rounds),
            2.0,
            100.0,
            "round-trip times",
        )?;
        in_range("min_rtt_window", self.min_rtt_window.as_secs_f64(), 1.0, 3600.0, "s")?;
        in_range("probe_rtt_time", self.probe_rtt_time.as_secs_f64(), 0.01, 10.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Bbr::new(*self))
    }
}

/// Phases of the gain cycle: one probes, one drains, six cruise (draft §4.3.4.2).
const PHASES: u8 = 8;

/// The window of ProbeRTT and the minimum window, in units (draft §4.2.3.1).
const MIN_UNITS: u64 = 4;

/// If the rate grows by less than this factor in three rounds, the pipe is full (draft §4.3.2.2).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Clone, Debug)]
struct Bbr {
    parameters: Bbr1Parameters,
    mode: Mode,
    /// Bandwidth in bytes per second.
    bandwidth: WindowedMax,
    /// End of the round in bytes delivered: packets sent later belong to the next round.
    round_end: u64,
    round_count: u64,
    round_start: bool,
    /// Rates of packets sent before this many bytes were delivered are limited by ProbeRTT.
    limited_until: u64,
    full_bandwidth: f64,
    full_count: u32,
    filled_pipe: bool,
    min_rtt: Option<Span>,
    min_rtt_at: Time,
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    phase: u8,
    phase_at: Time,
    /// Pacing rate in bytes per second.
    pacing: f64,
    /// The window before a recovery or ProbeRTT, to be restored.
    saved: SavedWindow,
    conserve: bool,
}

impl Bbr {
    fn new(parameters: Bbr1Parameters) -> Self {
        Bbr {
            parameters,
            mode: Mode::Startup,
            bandwidth: WindowedMax::default(),
            round_end: 0,
            round_count: 0,
            round_start: false,
            limited_until: 0,
            full_bandwidth: 0.0,
            full_count: 0,
            filled_pipe: false,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            phase: 0,
            phase_at: Time::ZERO,
            pacing: 0.0,
            saved: SavedWindow::default(),
            conserve: false,
        }
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => self.parameters.startup_gain,
            Mode::Drain => 1.0 / self.parameters.startup_gain,
            Mode::ProbeBw => match self.phase {
                0 => self.parameters.probe_gain,
                1 => 2.0 - self.parameters.probe_gain,
                _ => 1.0,
            },
            Mode::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => self.parameters.startup_gain,
            Mode::ProbeBw => self.parameters.cwnd_gain,
            Mode::ProbeRtt => 1.0,
        }
    }

    /// Returns `gain` times the bandwidth-delay product (draft §4.2.3.2), or the initial window before a measurement.
    fn inflight(&self, gain: f64, window: WindowView) -> u64 {
        match self.min_rtt {
            Some(rtt) if self.bandwidth.get() > 0.0 => {
                let bdp = gain * self.bandwidth.get() * rtt.as_secs_f64();
                // Room for delayed acknowledgements.
                (bdp as u64).saturating_add(3 * window.unit)
            }
            _ => window.initial_cwnd,
        }
    }

    /// Draft §4.1.1: rounds and bandwidth.
    fn update_bandwidth(&mut self, ack: &AckSample) {
        self.round_start = false;
        let Some(rate) = ack.rate else {
            return;
        };
        if rate.prior_delivered >= self.round_end {
            self.round_end = ack.delivered;
            self.round_count += 1;
            self.round_start = true;
            self.conserve = false;
        }
        let seconds = rate.interval.as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        let sample = rate.delivered as f64 / seconds;
        if !self.is_limited(&rate) || sample >= self.bandwidth.get() {
            let window = u64::from(self.parameters.bandwidth_rounds);
            self.bandwidth.take(self.round_count, sample, window);
        }
    }

    fn is_limited(&self, rate: &RateSample) -> bool {
        rate.app_limited || self.mode == Mode::ProbeRtt || rate.prior_delivered < self.limited_until
    }

    /// Starts the next phase of the cycle when it is due (draft §4.3.4.3).
    fn update_phase(&mut self, window: WindowView, ack: &AckSample) {
        if self.mode != Mode::ProbeBw {
            return;
        }
        let elapsed = ack.now.since(self.phase_at) > self.min_rtt.unwrap_or(Span::ZERO);
        let over = match self.phase {
            0 => {
                let lost = ack.rate.is_some_and(|rate| rate.lost > 0);
                elapsed && (lost || ack.flight_before >= self.inflight(self.parameters.probe_gain, window))
            }
            1 => elapsed || ack.flight_before <= self.inflight(1.0, window),
            _ => elapsed,
        };
        if over {
            self.phase = (self.phase + 1) % PHASES;
            self.phase_at = ack.now;
        }
    }

    /// Draft §4.3.2.2.
    fn check_full_pipe(&mut self, ack: &AckSample) {
        if self.filled_pipe || !self.round_start || ack.rate.is_none_or(|rate| rate.app_limited) {
            return;
        }
        if self.bandwidth.get() >= self.full_bandwidth * FULL_GROWTH {
            self.full_bandwidth = self.bandwidth.get();
            self.full_count = 0;
        } else {
            self.full_count += 1;
            self.filled_pipe = self.full_count >= FULL_ROUNDS;
        }
    }

    fn enter_probe_bw(&mut self, ack: &AckSample, unit: u64) {
        self.mode = Mode::ProbeBw;
        // Any phase but the draining one (draft §4.3.4.3).
        let start = (ack.delivered / unit.max(1) % u64::from(PHASES - 1)) as u8;
        self.phase = if start == 0 { 0 } else { start + 1 };
        self.phase_at = ack.now;
    }

    fn check_drain(&mut self, window: WindowView, ack: &AckSample) {
        if self.mode == Mode::Startup && self.filled_pipe {
            self.mode = Mode::Drain;
        }
        if self.mode == Mode::Drain && ack.flight <= self.inflight(1.0, window) {
            self.enter_probe_bw(ack, window.unit);
        }
    }

    /// Updates the minimum round-trip time and ProbeRTT (draft §4.1.2 and §4.3.5). Returns the window to restore when
    /// ProbeRTT ends.
    fn update_min_rtt(&mut self, window: WindowView, ack: &AckSample) -> Option<u64> {
        let expired = self.min_rtt.is_some() && ack.now.since(self.min_rtt_at) > self.parameters.min_rtt_window;
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|min| rtt <= min))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        if expired && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.saved.save(window, true);
            self.probe_rtt_done = None;
        }
        if self.mode != Mode::ProbeRtt {
            return None;
        }
        match self.probe_rtt_done {
            None => {
                if ack.flight <= MIN_UNITS * window.unit {
                    self.probe_rtt_done = Some(ack.now + self.parameters.probe_rtt_time);
                    self.probe_rtt_round_done = false;
                    self.round_end = ack.delivered;
                }
                None
            }
            Some(done) => {
                self.probe_rtt_round_done |= self.round_start;
                if !self.probe_rtt_round_done || ack.now <= done {
                    return None;
                }
                self.min_rtt_at = ack.now;
                self.limited_until = ack.delivered.saturating_add(ack.flight);
                if self.filled_pipe {
                    self.enter_probe_bw(ack, window.unit);
                } else {
                    self.mode = Mode::Startup;
                }
                Some(self.saved.cwnd())
            }
        }
    }

    /// Draft §4.2.1.
    fn set_pacing(&mut self, window: WindowView, srtt: Option<Span>) {
        if self.pacing <= 0.0
            && let Some(srtt) = srtt
        {
            // The first samples come from a small window, and do not lower the initial rate.
            self.pacing = self.initial_pacing(window, srtt);
        }
        let rate = self.pacing_gain() * self.bandwidth.get();
        if self.filled_pipe || rate > self.pacing {
            self.pacing = rate;
        }
    }

    /// Draft §4.2.1: before the first sample, the initial window per round-trip time.
    fn initial_pacing(&self, window: WindowView, srtt: Span) -> f64 {
        self.parameters.startup_gain * window.initial_cwnd as f64 / srtt.as_secs_f64().max(1e-6)
    }

    /// Draft §4.2.3.
    fn set_cwnd(&self, window: WindowView, ack: &AckSample, mut cwnd: u64) -> u64 {
        if self.conserve {
            cwnd = cwnd.max(ack.flight.saturating_add(ack.acked));
        } else {
            let target = self.inflight(self.cwnd_gain(), window);
            if self.filled_pipe {
                cwnd = cwnd.saturating_add(ack.acked).min(target);
            } else if cwnd < target || ack.delivered < window.initial_cwnd {
                cwnd = cwnd.saturating_add(ack.acked);
            }
        }
        cwnd = cwnd.max(MIN_UNITS * window.unit);
        if self.mode == Mode::ProbeRtt {
            cwnd = cwnd.min(MIN_UNITS * window.unit);
        }
        cwnd
    }
}

impl WindowControl for Bbr {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.update_bandwidth(ack);
        self.update_phase(window, ack);
        self.check_full_pipe(ack);
        self.check_drain(window, ack);
        let mut cwnd = window.cwnd;
        if let Some(prior) = self.update_min_rtt(window, ack) {
            cwnd = cwnd.max(prior);
        }
        if let Some(prior) = self.saved.on_ack(ack) {
            self.conserve = false;
            cwnd = cwnd.max(prior);
        }
        self.set_pacing(window, ack.srtt);
        WindowUpdate {
            cwnd: self.set_cwnd(window, ack, cwnd),
            ssthresh: window.ssthresh,
        }
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        // Draft §4.2.3.4: for one round, the sender sends as much as is delivered. A window that is already reduced is not saved.
        self.saved.enter(window, loss, self.mode == Mode::ProbeRtt);
        self.conserve = true;
        let flight = loss.flight_before.saturating_sub(loss.bytes);
        WindowUpdate {
            cwnd: flight.saturating_add(window.unit).min(window.cwnd),
            ssthresh: window.ssthresh,
        }
    }

    fn on_mark(&mut self, window: WindowView, _mark: &MarkEvent) -> WindowUpdate {
        window.unchanged()
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, _verdict: Verdict) -> WindowUpdate {
        // Draft §4.2.3.4: a window that is already reduced is not saved.
        self.saved.enter(window, loss, self.mode == Mode::ProbeRtt);
        self.conserve = false;
        // The bandwidth may have changed: Startup checks again whether the pipe is full.
        self.full_bandwidth = 0.0;
        WindowUpdate {
            cwnd: window.unit,
            ssthresh: window.ssthresh,
        }
    }

    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        // Draft §4.3.4.4: pacing at the known bandwidth suffices for a gentle restart.
        window.unchanged()
    }

    fn on_spurious_timeout(&mut self) {
        self.saved.leave();
    }

    fn pacing_rate(&self, window: WindowView, srtt: Option<Span>) -> Option<Rate> {
        let bytes_per_second = if self.pacing > 0.0 {
            self.pacing
        } else {
            self.initial_pacing(window, srtt?)
        };
        Some(Rate::from_bps((8.0 * bytes_per_second) as u64).max(Rate::from_bps(1)))
    }

    fn needs(&self) -> Needs {
        Needs { rate: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::testing::{PacketClock, UNIT, gap, timeout, view};

    type Path = PacketClock<Bbr>;

    fn new_path() -> Path {
        PacketClock::new(Bbr::new(Bbr1Parameters::default()))
    }

    #[test]
    fn a_first_small_sample_does_not_lower_the_initial_pacing_rate() {
        // Draft §4.2.1. A message of 100 bytes is acknowledged after 20 ms: 5 kB/s, where the initial window allows 2.885 * 3 * 1468 / 0.02.
        let mut bbr = Bbr::new(Bbr1Parameters::default());
        let (window, rtt) = (view(3 * UNIT, u64::MAX), Span::from_millis(20));
        let before = bbr.pacing_rate(window, Some(rtt)).unwrap();
        let sample = RateSample {
            delivered: 116,
            interval: rtt,
            prior_delivered: 0,
            lost: 0,
            lost_so_far: 0,
            flight_at_send: 116,
            app_limited: true,
        };
        let ack = AckSample {
            rtt: Some(rtt),
            srtt: Some(rtt),
            delivered: 116,
            rate: Some(sample),
            ..AckSample::of(Time::from_nanos(1_000_000_000), 116, 116)
        };
        bbr.on_ack(window, &ack);
        assert_eq!(bbr.pacing_rate(window, Some(rtt)).unwrap(), before);
    }

    #[test]
    fn startup_ends_after_three_rounds_without_growth_and_drains() {
        // Draft §4.3.2 and §4.3.3
        let mut path = new_path();
        path.flight = 30;
        path.acks(20);
        assert_eq!(path.control.mode, Mode::Startup);
        assert!((path.pacing() - 288.5).abs() < 1.0, "{}", path.pacing());
        path.acks(150);
        assert_eq!(path.control.mode, Mode::Drain);
        assert!((path.pacing() - 100.0 / 2.885).abs() < 1.0, "{}", path.pacing());
        path.flight = 9;
        path.ack();
        assert_eq!(path.control.mode, Mode::ProbeBw);
    }

    /// Returns a path in ProbeBW.
    fn probing() -> Path {
        let mut path = new_path();
        path.acks(100);
        assert_eq!(path.control.mode, Mode::ProbeBw);
        path
    }

    #[test]
    fn the_gain_cycle_probes_drains_and_cruises() {
        // Draft §4.3.4: 1.25, 0.75, then six phases of 1, a round-trip time each
        let mut path = probing();
        let mut gains = Vec::new();
        for _ in 0..400 {
            path.flight = if path.control.phase == 0 { 20 } else { 10 };
            path.ack();
            let gain = path.control.pacing_gain();
            if gains.last() != Some(&gain) {
                gains.push(gain);
            }
        }
        let from = gains.iter().position(|&gain| gain > 1.0).unwrap();
        assert_eq!(gains[from..from + 4], [1.25, 0.75, 1.0, 1.25]);
        // The window: twice the bandwidth-delay product, and three units for delayed acknowledgements
        assert!(path.window.cwnd.abs_diff(23 * UNIT) <= UNIT, "{}", path.window.cwnd);
    }

    #[test]
    fn bandwidth_is_the_greatest_of_ten_rounds() {
        // Draft §4.1.1
        let mut path = probing();
        let fast = path.control.bandwidth.get();
        path.rate = 50;
        path.acks(30);
        assert!(
            (path.control.bandwidth.get() - fast).abs() < 1.0,
            "kept for some rounds"
        );
        path.acks(200);
        assert!((path.control.bandwidth.get() - 50.0 * UNIT as f64).abs() < 2.0 * UNIT as f64);
        path.rate = 25;
        path.app_limited = true;
        path.acks(400);
        assert!(
            path.control.bandwidth.get() > 45.0 * UNIT as f64,
            "the user's pauses do not count"
        );
    }

    #[test]
    fn probe_rtt_shrinks_the_window_to_four_units_for_200_ms() {
        // Draft §4.3.5
        let mut path = probing();
        path.rtt = Span::from_millis(120);
        let before = path.window.cwnd;
        while path.control.mode == Mode::ProbeBw {
            path.ack();
        }
        assert_eq!(path.control.mode, Mode::ProbeRtt);
        assert_eq!(path.window.cwnd, 4 * UNIT);
        let entered = path.now;
        path.flight = 4;
        while path.control.mode == Mode::ProbeRtt {
            assert_eq!(path.window.cwnd, 4 * UNIT);
            path.ack();
        }
        let lasted = path.now.since(entered).as_millis();
        assert!((200..300).contains(&lasted), "{lasted}");
        assert!(path.window.cwnd + 2 * UNIT >= before, "{} {before}", path.window.cwnd);
        assert_eq!(path.control.min_rtt, Some(Span::from_millis(120)));
        assert!(
            path.control.bandwidth.get() > 95.0 * UNIT as f64,
            "its rates do not count"
        );
    }

    #[test]
    fn loss_leaves_the_model_alone() {
        // Draft §4.2.3.4
        let mut path = probing();
        let before = path.window.cwnd;
        let pacing = path.pacing();
        let loss = LossEvent {
            flight_before: 10 * UNIT,
            bytes: UNIT,
            next: path.seq + 10,
            ..gap()
        };
        let update = path.control.on_congestion(path.window, &loss);
        assert_eq!((update.cwnd, update.ssthresh), (10 * UNIT, u64::MAX));
        path.window.cwnd = update.cwnd;
        path.acks(30);
        assert!(path.window.cwnd >= before, "back after the recovery");
        assert!((path.control.bandwidth.get() * 1.25 >= pacing * UNIT as f64 * 0.99));
        let update = path.control.on_timeout(path.window, &timeout(), Verdict::Congestion);
        assert_eq!(update.cwnd, UNIT);
        let mark = MarkEvent::of(path.now, 3);
        assert_eq!(path.control.on_mark(path.window, &mark), path.window.unchanged());
    }
}
