//! The data sender: messages waiting, chunks outstanding, and what SACKs say about them.

mod copies;
mod gap_blocks;
mod lost;
#[cfg(test)]
mod model;
#[cfg(test)]
mod model_cmt;
#[cfg(test)]
mod model_paths;
mod outstanding;
mod path_sequence;
#[cfg(test)]
mod path_tests;
mod queue;
mod sack;

pub(crate) use lost::LostChunk;
#[cfg(test)]
pub(crate) use model::fragment;
pub(crate) use outstanding::{Outstanding, PathAck};
pub(crate) use queue::SendQueue;
pub(crate) use sack::{MissingRules, SackObserver, SackOutcome, Surprise};
