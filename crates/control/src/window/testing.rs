//! What the tests of window controls share.

use super::{GrowthRule, WindowControl, WindowView};
use crate::sample::{AckSample, LossEvent, LossSignal};
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
    }
}

pub(super) fn gap() -> LossEvent {
    LossEvent::of(Time::ZERO, LossSignal::Gap, 3)
}

pub(super) fn timeout() -> LossEvent {
    LossEvent::of(Time::ZERO, LossSignal::Timeout, 3)
}

/// Feeds a round of acknowledgements of single packets, as many as the window holds, with this round-trip time, beginning at `now`;
/// returns the window after it. `seq` counts packets.
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
