//! Helpers for the tests of window controls.

use super::{CouplingLimits, GrowthRule, WindowControl, WindowView};
use crate::sample::{AckSample, LossEvent, LossSignal, RateSample};
use crate::{Span, Time};

pub(super) const UNIT: u64 = 1468;

pub(super) fn view(cwnd: u64, ssthresh: u64) -> WindowView {
    WindowView {
        cwnd,
        ssthresh,
        unit: UNIT,
        initial_cwnd: 3 * UNIT,
        floor: 4 * UNIT,
        growth: GrowthRule::EveryAck,
        limits: CouplingLimits::NONE,
    }
}

pub(super) fn gap() -> LossEvent {
    LossEvent::of(Time::ZERO, LossSignal::Gap, 3)
}

pub(super) fn timeout() -> LossEvent {
    LossEvent::of(Time::ZERO, LossSignal::Timeout, 3)
}

/// Feeds a round of acknowledgements of single packets, one window of them, with this round-trip time, starting at
/// `now`. Returns the window after it. `seq` counts packets.
pub(super) fn round(part: &mut dyn WindowControl, window: &mut WindowView, seq: &mut u64, now: Time, rtt: Span) {
    let packets = (window.cwnd / UNIT).max(1);
    for n in 0..packets {
        let ack = AckSample {
            newest: *seq,
            acked_to: *seq + 1,
            next: *seq + packets,
            rtt: Some(rtt),
            srtt: Some(rtt),
            min_rtt: Some(rtt),
            ..AckSample::of(now + rtt * n / packets, UNIT, window.cwnd)
        };
        *seq += 1;
        let update = part.on_ack(*window, &ack);
        window.cwnd = update.cwnd;
        window.ssthresh = update.ssthresh;
    }
}

/// A path that acknowledges packets one at a time: 100 packets per second and 100 ms, so its bandwidth-delay product is
/// 10 units.
#[derive(Debug)]
pub(super) struct PacketClock<C> {
    pub(super) control: C,
    pub(super) window: WindowView,
    pub(super) now: Time,
    pub(super) delivered: u64,
    pub(super) seq: u64,
    /// Packets delivered per second, and round-trip time of the next acknowledgements.
    pub(super) rate: u64,
    pub(super) rtt: Span,
    pub(super) app_limited: bool,
    pub(super) flight: u64,
    pub(super) lost: u64,
    pub(super) lost_at_once: u64,
}

impl<C: WindowControl> PacketClock<C> {
    pub(super) fn new(control: C) -> Self {
        PacketClock {
            control,
            window: view(4 * UNIT, u64::MAX),
            now: Time::from_nanos(1_000_000_000),
            delivered: 0,
            seq: 0,
            rate: 100,
            rtt: Span::from_millis(100),
            app_limited: false,
            flight: 10,
            lost: 0,
            lost_at_once: 0,
        }
    }

    pub(super) fn ack(&mut self) {
        let interval = Span::from_nanos(1_000_000_000 / self.rate);
        self.now += interval;
        let prior = self.delivered.saturating_sub(self.flight * UNIT);
        self.delivered += UNIT;
        self.seq += 1;
        self.lost += self.lost_at_once;
        let sample = RateSample {
            delivered: self.delivered - prior,
            interval: interval * ((self.delivered - prior) / UNIT),
            prior_delivered: prior,
            lost: self.lost_at_once,
            lost_so_far: self.lost,
            flight_at_send: self.flight * UNIT,
            app_limited: self.app_limited,
        };
        let ack = AckSample {
            delivered: self.delivered,
            newest: self.seq - 1,
            acked_to: self.seq,
            next: self.seq + self.flight,
            flight: self.flight * UNIT,
            rtt: Some(self.rtt),
            srtt: Some(self.rtt),
            rate: Some(sample),
            ..AckSample::of(self.now, UNIT, (self.flight + 1) * UNIT)
        };
        let update = self.control.on_ack(self.window, &ack);
        (self.window.cwnd, self.window.ssthresh) = (update.cwnd, update.ssthresh);
    }

    pub(super) fn acks(&mut self, n: u64) {
        (0..n).for_each(|_| self.ack());
    }

    /// Returns the pacing rate in packets per second.
    pub(super) fn pacing(&self) -> f64 {
        let rate = self.control.pacing_rate(self.window, None).expect("it paces");
        rate.as_bps() as f64 / 8.0 / UNIT as f64
    }
}
