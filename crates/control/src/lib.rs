//! Transport-neutral parts of loss recovery and congestion control, and the units they are written in.
//!
//! Nothing here knows SCTP: samples and loss events hold bytes and times, so that any transport can use the same parts.

#[cfg(feature = "config")]
pub mod config;
pub mod rng;
pub mod time;

pub use rng::Rng;
pub use time::{Rate, Span, Time};
