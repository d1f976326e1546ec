//! Transport-neutral parts of loss recovery and congestion control, and the units they are written in.
//!
//! Nothing here knows SCTP: samples and loss events hold bytes and times, so that any transport can use the same parts.
//!
//! - [`estimator`]: round-trip time and retransmission timeout.
//! - [`discriminator`]: did a loss mean congestion?
//! - [`window`]: how much may be in flight?
//! - [`Controller`]: owns the window of a path and asks the parts in a fixed order.

pub mod discriminator;
pub mod estimator;
pub mod rng;
pub mod sample;
pub mod time;
pub mod window;

#[cfg(feature = "config")]
mod config;
mod controller;

pub use controller::{Controller, RecoveryEpoch};
pub use rng::Rng;
pub use sample::{AckSample, LossEvent, LossSignal, Seq, Verdict};
pub use time::{Rate, Span, Time};
