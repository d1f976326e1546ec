//! The state machine of BBR version 3, and its search for bandwidth.

use crate::{Span, Time};

/// The state of the state machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Returns whether the state probes for bandwidth: losses do not lower the short-term bounds then.
    pub(super) fn is_probing(self) -> bool {
        matches!(self, State::Startup | State::Refill | State::Up)
    }

    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, State::Down | State::Cruise | State::Refill | State::Up)
    }
}

/// The packets to which the arriving acknowledgements refer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum AckPhase {
    #[default]
    None,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// State of the search for bandwidth.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    pub(super) acks: AckPhase,
    /// Samples may still show that the probe exceeded the capacity.
    pub(super) samples: bool,
    pub(super) cycle_at: Time,
    pub(super) wait: Span,
    pub(super) rounds: u32,
    /// The long-term bound grows by a unit each time this many bytes are acknowledged.
    pub(super) up_bytes: Option<u64>,
    pub(super) up_rounds: u32,
    pub(super) up_acked: u64,
    /// The last probe had too much data in flight.
    pub(super) too_high: bool,
    /// The last probe ended at the flight at which the previous one had too much loss, without such loss. The next
    /// probe follows at once.
    pub(super) precautionary: bool,
}
