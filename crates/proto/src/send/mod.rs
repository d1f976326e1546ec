//! The data sender: queued messages, outstanding chunks, and the processing of SACKs.

mod copies;
mod gap_blocks;
mod lost;
mod ordered;
mod outstanding;
mod path_ack;
mod path_sequence;
mod process_sack;
mod queue;
mod slot;
#[cfg(test)]
mod tests;

pub(crate) use lost::LostChunk;
pub(crate) use outstanding::Outstanding;
pub(crate) use path_ack::{PathAck, SackReport};
pub(crate) use process_sack::{Implausibility, MissingRules, SackObserver, SackOutcome};
pub(crate) use queue::SendQueue;
#[cfg(test)]
pub(crate) use tests::fragment;
