//! The pings of a user that have no answer yet.

use std::collections::VecDeque;

use whimbrel_control::Time;

use crate::PathId;

/// Pings without an answer, the oldest first. Present once the user has sent one.
#[derive(Debug, Default)]
pub(super) struct Pings(pub(super) VecDeque<Ping>);

/// A ping without an answer.
#[derive(Debug)]
pub(super) struct Ping {
    pub(super) nonce: u64,
    pub(super) path: PathId,
    pub(super) number: u32,
    /// None while it is queued.
    pub(super) sent_at: Option<Time>,
}
