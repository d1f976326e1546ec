//! The plan of a measurement.

use std::time::Duration;

use crate::transfer::idle::Patience;

/// What an end does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) sends: bool,
    pub(crate) receives: bool,
    pub(crate) message_bytes: u32,
    /// How long it sends.
    pub(crate) time: Duration,
    /// How much it sends at most.
    pub(crate) bytes: Option<u64>,
    pub(crate) interval: Duration,
    /// Whether the peer gets the reports of this end's paths.
    pub(crate) reports: bool,
    /// How long a server lets the peer be idle.
    pub(crate) patience: Option<Patience>,
}
