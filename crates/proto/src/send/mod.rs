//! The data sender: queued messages, outstanding chunks, and the processing of SACKs.

mod copies;
mod gap_blocks;
mod lost;
mod outstanding;
mod path_sequence;
mod queue;
mod sack;
#[cfg(test)]
mod tests;

pub(crate) use lost::LostChunk;
pub(crate) use outstanding::{Outstanding, PathAck, SackReport};
pub(crate) use queue::SendQueue;
pub(crate) use sack::{MissingRules, SackObserver, SackOutcome, Surprise};
#[cfg(test)]
pub(crate) use tests::fragment;
