//! The data sender: messages waiting, chunks outstanding, and what SACKs say about them.

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
