//! The outstanding chunks in a ring, and what a SACK says about them. It knows neither the clock nor the states of paths:
//! it asks a `SackObserver`.

mod copies;
mod give_up;
mod give_up_message;
mod lost;
mod ordered;
mod outstanding;
mod path_sequence;
mod process_copies;
mod process_paths;
mod process_sack;
mod report;
mod reported;
mod slot;
mod stream_buffers;
#[cfg(test)]
mod tests;
mod watched;

pub(crate) use give_up_message::GivenUp;
pub(crate) use lost::LostChunk;
pub(crate) use outstanding::Outstanding;
pub(crate) use report::{Extent, Implausibility, MissingRules, PathAck, SackObserver, SackOutcome, SackReport};
pub(crate) use stream_buffers::StreamBuffers;
#[cfg(test)]
pub(crate) use tests::fragment;
