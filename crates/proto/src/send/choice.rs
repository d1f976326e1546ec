//! The paths chosen for each purpose.

use whimbrel_control::Time;

use crate::PathId;
use crate::config::NEVER;

/// The paths chosen for each purpose.
#[derive(Debug)]
pub(crate) struct Choice {
    primary: PathId,
    sending: PathId,
    shutdown: PathId,
    /// Time of the first switch of the sending path; [`NEVER`] before it.
    first_switch: Time,
}

impl Default for Choice {
    fn default() -> Self {
        Choice {
            primary: PathId(0),
            sending: PathId(0),
            shutdown: PathId(0),
            first_switch: NEVER,
        }
    }
}

impl Choice {
    /// Returns the primary path (RFC 9260 §6.4).
    #[inline]
    pub(crate) fn primary(&self) -> PathId {
        self.primary
    }

    /// Returns the path for new data.
    #[inline]
    pub(crate) fn sending(&self) -> PathId {
        self.sending
    }

    /// Returns the path on which SHUTDOWN or SHUTDOWN ACK was last sent or will be sent.
    pub(crate) fn shutdown(&self) -> PathId {
        self.shutdown
    }

    /// Sets the primary path. Returns whether it was another one.
    pub(crate) fn set_primary(&mut self, path: PathId) -> bool {
        core::mem::replace(&mut self.primary, path) != path
    }

    /// Sets the path for new data, in the handshake or for a question to the policy. Returns the earlier one.
    pub(crate) fn set_sending(&mut self, path: PathId) -> PathId {
        core::mem::replace(&mut self.sending, path)
    }

    /// New data moves to another path.
    pub(crate) fn switch(&mut self, now: Time, path: PathId) {
        self.sending = path;
        self.first_switch = self.first_switch.min(now);
    }

    pub(crate) fn set_shutdown(&mut self, path: PathId) {
        self.shutdown = path;
    }

    /// Returns when new data first moved to another path.
    pub(crate) fn first_switch(&self) -> Option<Time> {
        Some(self.first_switch).filter(|at| *at != NEVER)
    }
}
