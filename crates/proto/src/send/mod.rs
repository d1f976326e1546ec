//! The data sender: messages waiting, chunks outstanding, and what SACKs say about them.

#[cfg(test)]
mod model;
mod outstanding;
mod queue;
mod sack;

pub(crate) use outstanding::{Outstanding, PathAck};
pub(crate) use queue::SendQueue;
pub(crate) use sack::{MissingRules, SackObserver, SackOutcome};
