//! BBR version 3: a model of the path with bounds set by loss, instead of a reaction to each loss (draft-ietf-ccwg-bbr).
//!
//! The model consists of the bandwidth of the last two probing cycles, the lowest round-trip time, and two kinds of bounds:
//! a long-term bound on the data in flight (`inflight_longterm`), lowered while probing loses more than `loss_threshold`,
//! and short-term bounds (`bw_shortterm`, `inflight_shortterm`), lowered in each round with loss and reset before the next
//! probe.
//!
//! Checked against the draft as of August 2026. Differences:
//!
//! - The times between probes are derived from the bytes delivered instead of random numbers, because parts draw none.
//! - Excessive data in flight is detected from the samples of acknowledgements only, not for each lost packet
//!   (HandleLostPacket): the data in flight is that of the newest acknowledged packet, not of the lost packet
//!   (InflightAtLoss).
//! - A spurious timeout restores window and bounds, but not the state (`undo_state`): Startup or the probe continue with the
//!   next cycle. Other spurious recoveries are not detected.
//! - After a timeout the search for a full pipe restarts, as in Linux.
//! - The QuantizationBudget is three times the data of a millisecond at the pacing rate, which counts as 2 packets to
//!   64 KiB.
//! - Marks (ECN) are ignored, which the draft permits.

mod model;
mod parameters;
mod phases;
mod state;

#[cfg(test)]
mod tests;

pub use parameters::BbrParameters;

use model::Model;
use state::{Probe, State};

use super::saved::SavedWindow;
use super::{WindowControl, WindowUpdate, WindowView};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, MarkEvent, Needs, Verdict};
use crate::{Rate, Span, Time};

impl Part<dyn WindowControl> for BbrParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("startup_gain", self.startup_gain, 1.5, 4.0, "")?;
        in_range("cwnd_gain", self.cwnd_gain, 1.0, 8.0, "")?;
        in_range("probe_gain", self.probe_gain, 1.0, 2.0, "")?;
        in_range("loss_threshold", self.loss_threshold, 0.0, 0.5, "")?;
        in_range("beta", self.beta, 0.1, 1.0, "")?;
        in_range("headroom", self.headroom, 0.0, 0.9, "")?;
        in_range("probe_wait", self.probe_wait.as_secs_f64(), 0.1, 60.0, "s")?;
        in_range("min_rtt_window", self.min_rtt_window.as_secs_f64(), 1.0, 3600.0, "s")?;
        let interval = self.probe_rtt_interval.as_secs_f64();
        in_range("probe_rtt_interval", interval, 1.0, 3600.0, "s")?;
        in_range("probe_rtt_time", self.probe_rtt_time.as_secs_f64(), 0.01, 10.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Bbr::new(*self))
    }
}

/// BBRMinPipeCwnd, in units.
const MIN_UNITS: u64 = 4;

/// Drain ends after this many rounds, whatever is in flight.
const DRAIN_ROUNDS: u64 = 3;

/// The pacing rate stays this share below the estimate (BBRPacingMarginPercent).
const PACING_MARGIN: f64 = 0.01;

/// State of one path.
#[derive(Clone, Debug)]
struct Bbr {
    parameters: BbrParameters,
    model: Model,
    state: State,
    probe: Probe,
    /// When ProbeRTT may end; `None` before its window is reached.
    probe_rtt_done: Option<Time>,
    probe_rtt_round_done: bool,
    /// Pacing rate in bytes per second; `None` before the first sample.
    pacing: Option<f64>,
    /// The window before a recovery or ProbeRTT.
    saved: SavedWindow,
    /// Number of loss events in this round, and of rounds since the recovery began, to detect a full pipe in Startup.
    loss_events: u32,
    recovery_rounds: u32,
    /// The round in which Drain began.
    drain_round: u64,
    /// No data has been acknowledged since the path was idle.
    idle_restart: bool,
    /// Bounds before the last loss: the short-term bounds of the rate and of the data in flight, and the long-term
    /// bound of the data in flight.
    undo: (f64, u64, u64),
    /// The window was fully used in this round or the last one.
    limited: [bool; 2],
}

impl Bbr {
    fn new(parameters: BbrParameters) -> Self {
        Bbr {
            parameters,
            model: Model::default(),
            state: State::Startup,
            probe: Probe::default(),
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            pacing: None,
            saved: SavedWindow::default(),
            loss_events: 0,
            recovery_rounds: 0,
            drain_round: 0,
            idle_restart: false,
            undo: (0.0, 0, 0),
            limited: [false; 2],
        }
    }

    fn is_cwnd_limited(&self) -> bool {
        self.limited[0] || self.limited[1]
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => self.parameters.startup_gain,
            State::Drain => 0.5,
            State::Down => 0.9,
            State::Up => self.parameters.probe_gain,
            State::Cruise | State::Refill | State::ProbeRtt => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.state {
            State::ProbeRtt => self.parameters.cwnd_gain / 4.0,
            State::Up => self.parameters.cwnd_gain * 1.125,
            _ => self.parameters.cwnd_gain,
        }
    }

    /// Returns `gain` times the bandwidth-delay product, at least the quantization budget, or the initial window before
    /// a measurement: BBRInflight.
    fn inflight(&self, gain: f64, window: WindowView) -> u64 {
        let Some(bdp) = self.model.bdp(gain) else {
            return window.initial_cwnd;
        };
        self.quantised(bdp, window)
    }

    /// BBRQuantizationBudget: raises the limit to the data that is sent or acknowledged at once.
    fn quantised(&self, inflight: u64, window: WindowView) -> u64 {
        let per_millisecond = (self.pacing.unwrap_or(0.0) / 1e3) as u64;
        let quantum = per_millisecond.min(64 << 10).max(2 * window.unit);
        let inflight = inflight.max(3 * quantum).max(MIN_UNITS * window.unit);
        if self.state == State::Up {
            inflight + 2 * window.unit
        } else {
            inflight
        }
    }

    /// Returns the long-term bound minus the headroom, or `u64::MAX` without a bound.
    fn inflight_with_headroom(&self, unit: u64) -> u64 {
        let bound = self.model.inflight_longterm;
        if bound == u64::MAX {
            return bound;
        }
        let headroom = ((bound as f64 * self.parameters.headroom) as u64).max(unit);
        bound.saturating_sub(headroom).max(MIN_UNITS * unit)
    }

    /// SaveStateUponLoss.
    fn save_bounds(&mut self) {
        let model = &self.model;
        self.undo = (model.bw_shortterm, model.inflight_shortterm, model.inflight_longterm);
    }

    fn probe_rtt_cwnd(&self, window: WindowView) -> u64 {
        let half = self.model.bdp(self.parameters.cwnd_gain / 4.0).unwrap_or(0);
        half.max(MIN_UNITS * window.unit)
    }

    /// Checks whether loss in Startup shows that the pipe is full (BBRCheckStartupHighLoss): six loss events and more
    /// than the threshold in the same round, after at least one full round of recovery.
    fn check_startup_loss(&mut self, ack: &AckSample) {
        if self.state != State::Startup || self.model.filled_pipe {
            return;
        }
        let Some(rate) = ack.rate else { return };
        let too_much = rate.lost as f64 > rate.flight_at_send as f64 * self.parameters.loss_threshold;
        if self.recovery_rounds >= 1 && self.loss_events >= 6 && too_much && self.model.round_start {
            self.model.filled_pipe = true;
            let bdp = self.model.bdp(1.0).unwrap_or(0);
            self.model.inflight_longterm = bdp.max(self.model.inflight_latest);
        }
        if self.model.round_start {
            self.loss_events = 0;
        }
    }

    /// BBRCheckProbeRTT, after BBRUpdateMinRTT. Returns the window to restore when ProbeRTT ends.
    fn check_probe_rtt(&mut self, window: WindowView, ack: &AckSample, expired: bool) -> Option<u64> {
        if self.state != State::ProbeRtt && expired && !self.idle_restart {
            self.saved.save(window, false);
            self.state = State::ProbeRtt;
            self.probe_rtt_done = None;
            self.probe.stop_sampling();
            self.model.start_round(ack.delivered);
        }
        if self.state != State::ProbeRtt {
            return None;
        }
        // BBRHandleProbeRTT: ProbeRTT limits the rates.
        self.model.limited_until = ack.delivered.saturating_add(ack.flight).max(1);
        match self.probe_rtt_done {
            None => {
                if ack.flight <= self.probe_rtt_cwnd(window) {
                    self.probe_rtt_done = Some(ack.now + self.parameters.probe_rtt_time);
                    self.probe_rtt_round_done = false;
                    self.model.start_round(ack.delivered);
                }
                None
            }
            Some(done) => {
                self.probe_rtt_round_done |= self.model.round_start;
                if !self.probe_rtt_round_done || ack.now <= done {
                    return None;
                }
                self.model.probe_rtt_at = ack.now;
                self.model.reset_short_term();
                if self.model.filled_pipe {
                    self.start_down(window, ack);
                    self.state = State::Cruise;
                } else {
                    self.state = State::Startup;
                }
                Some(self.saved.cwnd())
            }
        }
    }

    /// BBRSetPacingRateWithGain.
    fn set_pacing(&mut self, window: WindowView, ack: &AckSample) {
        let initial = || Some(self.parameters.startup_gain * window.initial_cwnd as f64 / seconds(ack.srtt?));
        let known = self.pacing.or_else(initial);
        let rate = self.pacing_gain() * self.model.bandwidth() * (1.0 - PACING_MARGIN);
        // The first samples come from a small window. Until the pipe is full, they do not lower the rate.
        self.pacing = match known {
            Some(known) if !self.model.filled_pipe && rate <= known => Some(known),
            _ if rate > 0.0 => Some(rate),
            known => known,
        };
    }

    /// BBRSetCwnd.
    fn set_cwnd(&self, window: WindowView, ack: &AckSample, mut cwnd: u64) -> u64 {
        let least = MIN_UNITS * window.unit;
        let aggregated = self.model.extra_acked();
        let bdp = self.model.bdp(self.cwnd_gain());
        let most = bdp.map_or(window.initial_cwnd, |bdp| {
            self.quantised(bdp.saturating_add(aggregated), window)
        });
        if self.model.filled_pipe {
            cwnd = cwnd.saturating_add(ack.acked).min(most);
        } else if cwnd < most || ack.delivered < window.initial_cwnd {
            cwnd = cwnd.saturating_add(ack.acked);
        }
        cwnd = cwnd.max(least);
        if self.state == State::ProbeRtt {
            cwnd = cwnd.min(self.probe_rtt_cwnd(window));
        }
        // BBRBoundCwndForModel
        let long_term = match self.state {
            State::Down | State::Refill | State::Up => self.model.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(window.unit),
            State::Startup | State::Drain => u64::MAX,
        };
        cwnd.min(long_term.min(self.model.inflight_shortterm).max(least))
    }
}

fn seconds(span: Span) -> f64 {
    span.as_secs_f64().max(1e-6)
}

impl WindowControl for Bbr {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        let lost = self
            .model
            .update(window, ack, &self.parameters, self.state.is_probing());
        self.loss_events += u32::from(lost);
        if self.model.round_start {
            self.limited = [false, self.limited[0]];
            self.recovery_rounds += u32::from(self.saved.is_recovering());
        }
        self.limited[0] |= window.is_used(ack);
        self.check_startup_loss(ack);
        if self.state == State::Startup && self.model.filled_pipe {
            self.state = State::Drain;
            self.drain_round = self.model.round_count;
        }
        let drained = || ack.flight <= self.inflight(1.0, window);
        if self.state == State::Drain && (drained() || self.model.round_count > self.drain_round + DRAIN_ROUNDS) {
            self.start_down(window, ack);
        }
        self.update_phase(window, ack);
        let expired = self.model.update_min_rtt(ack, &self.parameters);
        let mut cwnd = window.cwnd;
        if let Some(prior) = self.check_probe_rtt(window, ack, expired) {
            cwnd = cwnd.max(prior);
        }
        self.idle_restart = false;
        self.model.advance_latest(ack);
        if let Some(prior) = self.saved.on_ack(ack) {
            cwnd = cwnd.max(prior);
        }
        self.set_pacing(window, ack);
        WindowUpdate {
            cwnd: self.set_cwnd(window, ack, cwnd),
            ssthresh: window.ssthresh,
        }
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        // OnEnterFastRecovery: the model reacts, the window does not change.
        self.saved.enter(window, loss, self.state == State::ProbeRtt);
        self.save_bounds();
        self.recovery_rounds = 0;
        window.unchanged()
    }

    fn on_mark(&mut self, window: WindowView, _mark: &MarkEvent) -> WindowUpdate {
        window.unchanged()
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, _verdict: Verdict) -> WindowUpdate {
        self.saved.enter(window, loss, self.state == State::ProbeRtt);
        self.save_bounds();
        // The route may have changed: Startup checks again whether the pipe is full.
        self.model.reset_full_bandwidth();
        WindowUpdate {
            cwnd: window.unit,
            ssthresh: window.ssthresh,
        }
    }

    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        // HandleRestartFromIdle: the window does not change, and the known bandwidth paces the data.
        self.idle_restart = true;
        self.model.restart_extra();
        if self.state.is_probe_bw() && self.pacing.is_some() {
            self.pacing = Some(self.model.bandwidth() * (1.0 - PACING_MARGIN)).filter(|pacing| *pacing > 0.0);
        }
        window.unchanged()
    }

    fn on_spurious_timeout(&mut self) {
        // HandleSpuriousLossDetection
        let (bandwidth, short_term, long_term) = self.undo;
        self.saved.leave();
        let model = &mut self.model;
        model.reset_full_bandwidth();
        model.bw_shortterm = model.bw_shortterm.max(bandwidth);
        model.inflight_shortterm = model.inflight_shortterm.max(short_term);
        model.inflight_longterm = model.inflight_longterm.max(long_term);
    }

    fn pacing_rate(&self, window: WindowView, srtt: Option<Span>) -> Option<Rate> {
        let bytes_per_second = match self.pacing {
            Some(pacing) => pacing,
            // Before the first sample: the initial window per round-trip time.
            None => self.parameters.startup_gain * window.initial_cwnd as f64 / seconds(srtt?),
        };
        Some(Rate::from_bps((8.0 * bytes_per_second) as u64).max(Rate::from_bps(1)))
    }

    fn needs(&self) -> Needs {
        Needs { rate: true }
    }
}
