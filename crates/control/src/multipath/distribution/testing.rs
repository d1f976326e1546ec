//! Paths for the tests of distributions.

use super::Demand;
use crate::multipath::PathView;
use crate::{Span, Time};

pub(super) const UNIT: u64 = 1000;

/// Returns a path with an open window: the window and the flight in units, and the smoothed round-trip time in
/// milliseconds.
pub(super) fn path(cwnd: u64, flight: u64, srtt_ms: u64) -> PathView {
    PathView {
        usable: true,
        open: flight < cwnd,
        cwnd: cwnd * UNIT,
        ssthresh: u64::MAX,
        flight: flight * UNIT,
        unit: UNIT,
        srtt: Some(Span::from_millis(srtt_ms)),
        rttvar: Span::ZERO,
        min_rtt: Some(Span::from_millis(srtt_ms)),
        rto: Span::from_secs(1),
        loss: 0.0,
        errors: 0,
        last_hop: None,
    }
}

/// Returns a demand with this number of queued units and this room in the peer's window in units.
pub(super) fn demand(queued: u64, window: u64) -> Demand {
    Demand {
        now: Time::ZERO,
        queued: queued * UNIT,
        in_flight: 0,
        window: window * UNIT,
        unacknowledged: 0,
        send_buffer: 1 << 30,
        sending: 0,
    }
}
