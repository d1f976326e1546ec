//! When a message is given up (RFC 3758, RFC 7496).

use whimbrel_control::Time;

use crate::message::Reliability;

/// When a message is given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    #[default]
    Never,
    /// At this time.
    At(Time),
    /// If it had to be retransmitted more often than this.
    Retransmissions(u32),
    /// If a message of higher priority, or without a priority, needs its room. Zero is the highest.
    Priority(u16),
    /// It has been given up.
    Reached,
}

impl Limit {
    pub(crate) fn of(reliability: Reliability, now: Time) -> Self {
        match reliability {
            Reliability::Full => Limit::Never,
            Reliability::Lifetime(span) => Limit::At(now + span),
            Reliability::Retransmissions(most) => Limit::Retransmissions(most),
            Reliability::Priority(priority) => Limit::Priority(priority),
        }
    }

    /// Returns whether a message that would be sent now, or retransmitted, is given up instead.
    // [3758:4.1-2]
    pub(crate) fn is_reached(self, now: Time, again: bool) -> bool {
        match self {
            Limit::At(end) => end <= now,
            Limit::Retransmissions(0) => again,
            _ => false,
        }
    }

    /// Returns whether the message gives way to one with this limit.
    pub(crate) fn gives_way_to(self, other: Limit) -> bool {
        match (self, other) {
            (Limit::Priority(own), Limit::Priority(other)) => own > other,
            (Limit::Priority(_), _) => true,
            _ => false,
        }
    }
}
