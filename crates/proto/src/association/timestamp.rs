//! Timestamps of an association: agreement, and their use as round-trip times. `stamping.rs` explains them.

use whimbrel_control::multipath::SackPath;
use whimbrel_control::{Span, Time};
use whimbrel_wire::{TIMESTAMP_LEN, Timestamp};

use super::Association;
use super::stamping::{Echo, Stamping};
use crate::PathId;
use crate::extensions::Extensions;
use crate::send::PathAck;

impl Association {
    /// Returns whether timestamps were negotiated.
    pub fn uses_timestamps(&self) -> bool {
        self.agreed.stamping.is_some()
    }

    pub(super) fn agree_on_timestamps(&mut self, both: Extensions) {
        self.agreed.stamping = both
            .has(Extensions::TIMESTAMPS)
            .then(|| Box::new(Stamping::new(both.has(Extensions::REPEATED_TIMESTAMPS))));
        self.limit_data();
    }

    /// Returns the bytes that the timestamp takes of a data packet.
    pub(super) fn stamp_len(&self) -> usize {
        if self.agreed.stamping.is_some() {
            TIMESTAMP_LEN
        } else {
            0
        }
    }

    /// Returns the timestamp of a data packet that is sent now.
    pub(super) fn stamp(&mut self, now: Time) -> Option<Timestamp> {
        let stamping = self.agreed.stamping.as_mut()?;
        Some(Timestamp {
            sent: stamping.next(now),
            received: None,
        })
    }

    pub(super) fn on_timestamp(&mut self, timestamp: Timestamp) {
        // Without negotiation, TIMESTAMP is handled like an unknown chunk that requires no report.
        if let Some(stamping) = &mut self.agreed.stamping {
            stamping.on_chunk(timestamp);
        }
    }

    /// Returns the round-trip time that the timestamp before a SACK measures, if no chunk that was sent once measures
    /// it. The timestamp identifies the transmission, so retransmissions can be measured too (as in RFC 7323 §4 for
    /// TCP). At most one measurement per round trip.
    pub(super) fn stamped_rtt(&self, now: Time, index: PathId, echo: &Echo, ack: &PathAck) -> Option<Span> {
        let sent = echo.stamps?.sent;
        let path = &self.paths[index];
        // A SACK is sent on the path of the data that it acknowledges (RFC 9260 §6.4), unless configured otherwise.
        let is_about_it =
            echo.path == Some(index) && self.config.parts.reporting.sack_path == SackPath::LastArrival && ack.acked > 0;
        (is_about_it && path.timed.is_none() && sent >= path.sampled_at).then(|| now.since(sent))
    }

    /// Returns the information that accompanied a SACK on this path.
    pub(super) fn take_echo(&mut self, now: Time, from: PathId, indicated: bool) -> Echo {
        let mut echo = Echo {
            path: Some(from),
            eci: self.agreed.eci.in_use.then_some(indicated),
            ..Echo::NONE
        };
        match self.agreed.stamping.as_deref_mut() {
            Some(stamping) if stamping.repeats() => (echo.stamps, echo.overtaken) = stamping.take_all_returned(),
            Some(stamping) => echo.stamps = stamping.take_returned(now),
            None => {}
        }
        echo
    }
}
