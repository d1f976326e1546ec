//! BBR's model of the path: rounds, bandwidth, round-trip times, and the bounds set by loss.

use super::super::WindowView;
use super::parameters::BbrParameters;
use crate::estimator::WindowedMax;
use crate::sample::{AckSample, RateSample};
use crate::{Span, Time};

/// If the rate grows by less than this factor in three rounds, the pipe is full (BBRCheckFullBWReached).
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;

/// Number of rounds for which aggregated acknowledgements are recorded (BBRExtraAckedFilterLen).
const EXTRA_ROUNDS: u64 = 10;

#[derive(Clone, Debug)]
pub(super) struct Model {
    /// The maximum rate of the previous probing cycle and of the current one, in bytes per second.
    max_bw: [f64; 2],
    pub(super) bw_shortterm: f64,
    pub(super) inflight_shortterm: u64,
    pub(super) inflight_longterm: u64,
    pub(super) bw_latest: f64,
    pub(super) inflight_latest: u64,
    pub(super) min_rtt: Option<Span>,
    min_rtt_at: Time,
    probe_rtt_min: Option<Span>,
    pub(super) probe_rtt_at: Time,
    /// End of the round in bytes delivered: packets sent later belong to the next round.
    round_end: u64,
    pub(super) round_count: u64,
    pub(super) round_start: bool,
    loss_round_end: u64,
    loss_round_start: bool,
    loss_in_round: bool,
    /// Bytes declared lost up to the last acknowledgement.
    lost: u64,
    /// Rates of packets sent before this many bytes were delivered are limited by ProbeRTT.
    pub(super) limited_until: u64,
    full_bandwidth: f64,
    full_count: u32,
    pub(super) full_now: bool,
    pub(super) filled_pipe: bool,
    extra: WindowedMax,
    extra_since: Option<Time>,
    extra_delivered: u64,
}

impl Default for Model {
    fn default() -> Self {
        Model {
            max_bw: [0.0; 2],
            bw_shortterm: f64::INFINITY,
            inflight_shortterm: u64::MAX,
            inflight_longterm: u64::MAX,
            bw_latest: 0.0,
            inflight_latest: 0,
            min_rtt: None,
            min_rtt_at: Time::ZERO,
            probe_rtt_min: None,
            probe_rtt_at: Time::ZERO,
            round_end: 0,
            round_count: 0,
            round_start: false,
            loss_round_end: 0,
            loss_round_start: false,
            loss_in_round: false,
            lost: 0,
            limited_until: 0,
            full_bandwidth: 0.0,
            full_count: 0,
            full_now: false,
            filled_pipe: false,
            extra: WindowedMax::default(),
            extra_since: None,
            extra_delivered: 0,
        }
    }
}

/// Returns the rate in bytes per second; zero for a sample without a duration.
pub(super) fn rate_of(sample: &RateSample) -> f64 {
    let seconds = sample.interval.as_secs_f64();
    if seconds > 0.0 {
        sample.delivered as f64 / seconds
    } else {
        0.0
    }
}

impl Model {
    /// Returns the maximum bandwidth of two cycles in bytes per second.
    pub(super) fn max_bandwidth(&self) -> f64 {
        self.max_bw[0].max(self.max_bw[1])
    }

    /// Returns the bandwidth for sending.
    pub(super) fn bandwidth(&self) -> f64 {
        self.max_bandwidth().min(self.bw_shortterm)
    }

    /// Returns the bandwidth-delay product times `gain`, or `None` before a measurement.
    pub(super) fn bdp(&self, gain: f64) -> Option<u64> {
        let bandwidth = self.bandwidth();
        (bandwidth > 0.0).then_some(())?;
        Some((gain * bandwidth * self.min_rtt?.as_secs_f64()) as u64)
    }

    /// Returns the bandwidth-delay product of the maximum bandwidth, without the bounds set by loss.
    pub(super) fn max_bdp(&self) -> Option<u64> {
        let bandwidth = self.max_bandwidth();
        (bandwidth > 0.0).then_some(())?;
        Some((bandwidth * self.min_rtt?.as_secs_f64()) as u64)
    }

    /// Restarts the measurement of aggregation with the next acknowledgement.
    pub(super) fn restart_extra(&mut self) {
        self.extra_since = None;
    }

    /// Returns the data that may be acknowledged at once beyond the data expected from the bandwidth.
    pub(super) fn extra_acked(&self) -> u64 {
        self.extra.get() as u64
    }

    pub(super) fn is_limited(&self, rate: &RateSample) -> bool {
        rate.app_limited || rate.prior_delivered < self.limited_until
    }

    /// Starts a new round with the data sent from now on.
    pub(super) fn start_round(&mut self, delivered: u64) {
        self.round_end = delivered;
    }

    /// Discards the rates of the previous cycle (BBRAdvanceMaxBwFilter).
    pub(super) fn advance_cycle(&mut self) {
        if self.max_bw[1] > 0.0 {
            self.max_bw = [self.max_bw[1], 0.0];
        }
    }

    pub(super) fn reset_short_term(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = u64::MAX;
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.loss_in_round = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0;
    }

    pub(super) fn reset_full_bandwidth(&mut self) {
        self.full_bandwidth = 0.0;
        self.full_count = 0;
        self.full_now = false;
    }

    /// Restarts the search for a full pipe: it is full when rates do not grow beyond this one.
    pub(super) fn restart_full_bandwidth(&mut self, rate: f64) {
        self.reset_full_bandwidth();
        self.full_bandwidth = rate;
    }

    /// Handles an acknowledgement. Returns whether data was declared lost since the last one. `probing`: short-term
    /// bounds are not lowered.
    pub(super) fn update(
        &mut self,
        window: WindowView,
        ack: &AckSample,
        parameters: &BbrParameters,
        probing: bool,
    ) -> bool {
        self.round_start = false;
        self.loss_round_start = false;
        let Some(rate) = ack.rate else { return false };
        let has_lost = rate.lost_so_far > self.lost;
        self.lost = rate.lost_so_far;
        if has_lost && !self.loss_in_round {
            // BBRNoteLoss
            self.loss_in_round = true;
            self.loss_round_end = ack.delivered;
        }
        let sample = rate_of(&rate);
        self.bw_latest = self.bw_latest.max(sample);
        self.inflight_latest = self.inflight_latest.max(rate.delivered);
        if rate.prior_delivered >= self.loss_round_end {
            self.loss_round_end = ack.delivered;
            self.loss_round_start = true;
        }
        if rate.prior_delivered >= self.round_end {
            self.round_end = ack.delivered;
            self.round_count += 1;
            self.round_start = true;
        }
        if sample > 0.0 && (sample >= self.max_bandwidth() || !self.is_limited(&rate)) {
            self.max_bw[1] = self.max_bw[1].max(sample);
        }
        if self.loss_round_start {
            if self.loss_in_round && !probing {
                self.lower_short_term(window, parameters.beta);
            }
            self.loss_in_round = false;
        }
        self.update_extra(window, ack);
        self.check_full_bandwidth(&rate, sample);
        has_lost
    }

    /// BBRInitLowerBounds, BBRLossLowerBounds.
    fn lower_short_term(&mut self, window: WindowView, beta: f64) {
        if self.bw_shortterm.is_infinite() {
            self.bw_shortterm = self.max_bandwidth();
        }
        if self.inflight_shortterm == u64::MAX {
            self.inflight_shortterm = window.cwnd;
        }
        self.bw_shortterm = self.bw_latest.max(beta * self.bw_shortterm);
        let lowered = (self.inflight_shortterm as f64 * beta) as u64;
        self.inflight_shortterm = self.inflight_latest.max(lowered);
    }

    /// Resets the latest signals at the start of each loss round (BBRAdvanceLatestDeliverySignals).
    pub(super) fn advance_latest(&mut self, ack: &AckSample) {
        if let Some(rate) = ack.rate.filter(|_| self.loss_round_start) {
            self.bw_latest = rate_of(&rate);
            self.inflight_latest = rate.delivered;
        }
    }

    /// BBRUpdateACKAggregation.
    fn update_extra(&mut self, window: WindowView, ack: &AckSample) {
        let elapsed = self.extra_since.map(|since| ack.now.since(since));
        let expected = elapsed.map_or(0.0, |elapsed| self.bandwidth() * elapsed.as_secs_f64()) as u64;
        let (expected, delivered) = if elapsed.is_none() || self.extra_delivered <= expected {
            self.extra_since = Some(ack.now);
            (0, ack.acked)
        } else {
            (expected, self.extra_delivered.saturating_add(ack.acked))
        };
        self.extra_delivered = delivered;
        let extra = delivered.saturating_sub(expected).min(window.cwnd);
        let rounds = if self.filled_pipe { EXTRA_ROUNDS } else { 1 };
        self.extra.take(self.round_count, extra as f64, rounds);
    }

    /// BBRCheckFullBWReached.
    fn check_full_bandwidth(&mut self, rate: &RateSample, sample: f64) {
        if self.full_now || !self.round_start || self.is_limited(rate) {
            return;
        }
        if sample >= self.full_bandwidth * FULL_GROWTH {
            self.restart_full_bandwidth(sample);
        } else {
            self.full_count += 1;
            self.full_now = self.full_count >= FULL_ROUNDS;
            self.filled_pipe |= self.full_now;
        }
    }

    /// BBRUpdateMinRTT: returns whether ProbeRTT is due.
    pub(super) fn update_min_rtt(&mut self, ack: &AckSample, parameters: &BbrParameters) -> bool {
        let expired = self.probe_rtt_min.is_some() && ack.now.since(self.probe_rtt_at) > parameters.probe_rtt_interval;
        if let Some(rtt) = ack.rtt
            && (expired || self.probe_rtt_min.is_none_or(|min| rtt < min))
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_at = ack.now;
        }
        let is_old = ack.now.since(self.min_rtt_at) > parameters.min_rtt_window;
        if let Some(recent) = self.probe_rtt_min
            && (is_old || self.min_rtt.is_none_or(|min| recent < min))
        {
            self.min_rtt = Some(recent);
            self.min_rtt_at = self.probe_rtt_at;
        }
        expired
    }
}
