//! Timers of sending that belong to no single path. Those of a path are in [`Path`](super::path::Path).

use whimbrel_control::Time;

use super::forward::Forward;
use crate::config::NEVER;

/// Timers of all paths together.
#[derive(Debug)]
pub(crate) struct Timers {
    /// The path policy asked to be called.
    pub(crate) policy: Time,
    /// Outstanding probes of a path are declared lost.
    pub(crate) probing: Time,
    /// The heartbeat timer shared by all paths, if there is one.
    pub(crate) heartbeat: Option<Box<SharedTimer>>,
    /// A FORWARD TSN that the peer has not answered.
    pub(crate) last_forward: Option<Forward>,
}

/// A heartbeat timer that all paths share.
#[derive(Clone, Debug)]
pub(crate) struct SharedTimer {
    pub(crate) due: Time,
    pub(crate) started: Time,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            policy: NEVER,
            probing: NEVER,
            heartbeat: None,
            last_forward: None,
        }
    }
}

impl Timers {
    pub(crate) fn next(&self) -> Time {
        self.policy
            .min(self.probing)
            .min(self.heartbeat.as_ref().map_or(NEVER, |timer| timer.due))
    }
}
