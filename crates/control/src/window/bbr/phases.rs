//! The cycle of ProbeBW: Down, Cruise, Refill, Up (draft-ietf-ccwg-bbr, "Probing for bandwidth").

use super::model::rate_of;
use super::state::{AckPhase, Probe, State};
use super::{Bbr, MIN_UNITS};
use crate::Span;
use crate::sample::{AckSample, RateSample};
use crate::window::WindowView;

impl Probe {
    pub(super) fn stop_sampling(&mut self) {
        self.acks = AckPhase::Stopping;
    }
}

/// Rounds of Reno's cycle after which a probe does not disturb it (BBRIsRenoCoexistenceProbeTime).
const MOST_ROUNDS: u64 = 63;

impl Bbr {
    /// BBRUpdateProbeBWCyclePhase.
    pub(super) fn update_phase(&mut self, window: WindowView, ack: &AckSample) {
        if !self.model.filled_pipe {
            return;
        }
        if self.model.round_start {
            self.probe.rounds += 1;
        }
        if let Some(rate) = ack.rate
            && self.adapt_long_term(window, ack, &rate)
        {
            return;
        }
        let state = self.state;
        if matches!(state, State::Down | State::Cruise) && self.try_refill(window, ack) {
            return;
        }
        if state == State::Down && self.may_cruise(window, ack) {
            self.state = State::Cruise;
        } else if state == State::Refill && self.model.round_start {
            self.probe.samples = true;
            self.start_up(window, ack);
        } else if state == State::Up && self.may_go_down(window, ack) {
            self.probe.too_high = false;
            self.start_down(window, ack);
        }
    }

    /// BBRStartProbeBW_DOWN.
    pub(super) fn start_down(&mut self, window: WindowView, ack: &AckSample) {
        self.model.reset_congestion_signals();
        self.probe.up_bytes = None;
        // BBRPickProbeWait, with the delivered bytes in place of a random number.
        let packets = ack.delivered / window.unit.max(1);
        self.probe.rounds = (packets & 1) as u32;
        self.probe.wait = self.parameters.probe_wait + Span::from_millis(packets % 1000);
        self.probe.cycle_at = ack.now;
        self.probe.acks = AckPhase::Stopping;
        self.model.start_round(ack.delivered);
        self.state = State::Down;
    }

    /// BBRStartProbeBW_UP.
    fn start_up(&mut self, window: WindowView, ack: &AckSample) {
        self.probe.acks = AckPhase::Starting;
        self.model.start_round(ack.delivered);
        self.model
            .restart_full_bandwidth(ack.rate.as_ref().map_or(0.0, rate_of));
        self.probe.cycle_at = ack.now;
        self.state = State::Up;
        self.raise_slope(window);
    }

    /// BBRIsTimeToProbeBW: the wait is over, or Reno would need this number of rounds for the same number of packets.
    fn try_refill(&mut self, window: WindowView, ack: &AckSample) -> bool {
        let target = self.model.bdp(1.0).unwrap_or(window.cwnd).min(window.cwnd);
        let rounds = (target / window.unit.max(1)).min(MOST_ROUNDS);
        let is_time =
            ack.now.since(self.probe.cycle_at) > self.probe.wait || u64::from(self.probe.rounds) >= rounds.max(1);
        if is_time {
            self.start_refill(ack);
        }
        is_time
    }

    /// BBRStartProbeBW_REFILL.
    fn start_refill(&mut self, ack: &AckSample) {
        self.model.reset_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.precautionary = false;
        self.probe.acks = AckPhase::Refilling;
        self.model.start_round(ack.delivered);
        self.state = State::Refill;
    }

    /// BBRIsTimeToCruise.
    fn may_cruise(&self, window: WindowView, ack: &AckSample) -> bool {
        let bdp = self
            .model
            .max_bdp()
            .map_or(window.initial_cwnd, |bdp| self.quantised(bdp, window));
        ack.flight <= self.inflight_with_headroom(window.unit) && ack.flight <= bdp
    }

    /// BBRIsTimeToGoDown.
    fn may_go_down(&mut self, window: WindowView, ack: &AckSample) -> bool {
        if self.probe.too_high && ack.flight >= self.model.inflight_longterm {
            // Precautionary probing: at this flight the last probe had too much loss.
            self.probe.precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && window.cwnd >= self.model.inflight_longterm {
            // The bound limits the rate, so the bound must grow first.
            self.model
                .restart_full_bandwidth(ack.rate.as_ref().map_or(0.0, rate_of));
            return false;
        }
        self.model.full_now
    }

    /// BBRAdaptLongTermModel. Returns whether it changed the state.
    fn adapt_long_term(&mut self, window: WindowView, ack: &AckSample, rate: &RateSample) -> bool {
        if self.model.round_start {
            match self.probe.acks {
                AckPhase::Starting => self.probe.acks = AckPhase::Feedback,
                AckPhase::Stopping => {
                    // Data acknowledged from now on was sent after the probe.
                    self.probe.acks = AckPhase::None;
                    self.probe.samples = false;
                    if self.state.is_probe_bw() && !self.model.is_limited(rate) {
                        self.model.advance_cycle();
                    }
                    if self.state.is_probe_bw() && self.probe.precautionary && !self.probe.too_high {
                        self.start_refill(ack);
                        return true;
                    }
                }
                _ => {}
            }
        }
        if rate.lost as f64 > rate.flight_at_send as f64 * self.parameters.loss_threshold {
            if self.probe.samples {
                self.take_too_much(window, ack, rate);
            }
        } else if self.model.inflight_longterm != u64::MAX {
            let bound = &mut self.model.inflight_longterm;
            *bound = (*bound).max(rate.flight_at_send);
            if self.state == State::Up {
                self.raise_bound(window, ack);
            }
        }
        false
    }

    /// BBRHandleInflightTooHigh.
    fn take_too_much(&mut self, window: WindowView, ack: &AckSample, rate: &RateSample) {
        self.probe.too_high = true;
        self.probe.samples = false;
        if !rate.app_limited {
            let target = self.model.bdp(1.0).unwrap_or(window.cwnd).min(window.cwnd);
            let lowered = (target as f64 * self.parameters.beta) as u64;
            self.model.inflight_longterm = rate.flight_at_send.max(lowered).max(MIN_UNITS * window.unit);
        }
        if self.state == State::Up {
            self.start_down(window, ack);
        }
    }

    /// BBRProbeInflightLongtermUpward.
    fn raise_bound(&mut self, window: WindowView, ack: &AckSample) {
        if !self.is_cwnd_limited() || window.cwnd < self.model.inflight_longterm {
            return;
        }
        self.probe.up_acked += ack.acked;
        if let Some(each) = self.probe.up_bytes {
            let units = self.probe.up_acked / each.max(1);
            self.probe.up_acked -= units * each.max(1);
            let bound = &mut self.model.inflight_longterm;
            *bound = bound.saturating_add(units * window.unit);
        }
        if self.model.round_start {
            self.raise_slope(window);
        }
    }

    /// BBRRaiseInflightLongtermSlope: by one unit in the first round, and twice as much in each further round.
    fn raise_slope(&mut self, window: WindowView) {
        let growth = 1u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.up_bytes = Some((window.cwnd / growth).max(window.unit));
    }
}
