//! Helpers for the tests of discriminators.

use crate::Time;
use crate::sample::{AckSample, LossEvent, LossSignal, Seq, Stamps};
use crate::view::{CouplingLimits, GrowthRule, WindowView};

pub(super) const UNIT: u64 = 1456;

/// A window of ten units in congestion avoidance.
pub(super) const VIEW: WindowView = WindowView {
    cwnd: 10 * UNIT,
    ssthresh: 5 * UNIT,
    unit: UNIT,
    initial_cwnd: 3 * UNIT,
    floor: 4 * UNIT,
    growth: GrowthRule::EveryAck,
    limits: CouplingLimits::NONE,
};

pub(super) fn gap(first_lost: Seq) -> LossEvent {
    LossEvent::of(Time::ZERO, LossSignal::Gap, first_lost)
}

pub(super) fn timeout(first_lost: Seq) -> LossEvent {
    LossEvent::of(Time::ZERO, LossSignal::Timeout, first_lost)
}

/// Returns the acknowledgement of all packets below `acked_to`.
pub(super) fn ack_to(acked_to: Seq) -> AckSample {
    AckSample {
        acked_to,
        newest: acked_to.saturating_sub(1),
        next: acked_to + 10,
        ..AckSample::of(Time::ZERO, UNIT, 10 * UNIT)
    }
}

/// Returns the acknowledgement of packet `seq`, which arrived at this time after this one-way time, both in
/// microseconds. All packets below `acked_to` have arrived.
pub(super) fn arrival(seq: Seq, acked_to: Seq, received: u64, one_way: u64) -> AckSample {
    AckSample {
        newest: seq,
        stamps: Some(Stamps {
            sent: Time::from_nanos((1_000_000_000 + received - one_way) * 1000),
            received: Time::from_nanos((1_000_000_000 + received) * 1000),
        }),
        ..ack_to(acked_to)
    }
}
