//! Timestamps of an association: agreement, sending and receipt. `stamping.rs` explains them; `send/acknowledge.rs` makes round-trip times of
//! them.

use whimbrel_control::Time;
use whimbrel_wire::Timestamp;

use super::Association;
use super::stamping::Stamping;
use crate::extensions::Extensions;

impl Association {
    /// Returns whether timestamps were negotiated.
    pub fn uses_timestamps(&self) -> bool {
        self.agreed.stamping.is_some()
    }

    pub(super) fn agree_on_timestamps(&mut self, both: Extensions) {
        self.agreed.stamping = both
            .has(Extensions::TIMESTAMPS)
            .then(|| Box::new(Stamping::new(both.has(Extensions::REPEATED_TIMESTAMPS))));
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
}
