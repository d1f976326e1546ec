//! The data sender: queued messages, outstanding chunks, and the processing of SACKs.

mod copies;
mod lost;
mod ordered;
mod outstanding;
mod path_sequence;
mod process_copies;
mod process_paths;
mod process_sack;
mod queue;
mod report;
mod reported;
mod slot;
#[cfg(test)]
mod tests;

pub(crate) use lost::LostChunk;
pub(crate) use outstanding::Outstanding;
pub(crate) use queue::SendQueue;
pub(crate) use report::{Extent, Implausibility, MissingRules, PathAck, SackObserver, SackOutcome, SackReport};
#[cfg(test)]
pub(crate) use tests::fragment;
