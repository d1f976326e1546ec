//! Transport-neutral parts of loss recovery and congestion control, and the units they are written in.
//!
//! Nothing here knows SCTP: samples and loss events hold bytes and times, so that any transport can use the same parts.
//!
//! - [`estimator`]: round-trip time and retransmission timeout.
//! - [`discriminator`]: did a loss mean congestion?
//! - [`window`]: how much may be in flight?
//! - [`recovery`]: what is sent again, when, with which timer?
//! - [`multipath`]: which path takes what, and which one is fit?
//! - [`Pacer`]: when the next packet may go out.
//! - [`Scheme`]: named bundles of parts.
//! - [`Controller`]: owns the window of a path and asks the parts in a fixed order.

pub mod discriminator;
pub mod estimator;
pub mod multipath;
pub mod part;
pub mod recovery;
pub mod rng;
pub mod sample;
pub mod time;
pub mod window;

#[cfg(feature = "config")]
mod config;
mod controller;
mod overridable;
mod pacer;
mod scheme;

pub use controller::{Controller, RecoveryEpoch, WindowRules};
pub use pacer::Pacer;
pub use part::{BuildContext, Cause, GroundTruth};
pub use rng::Rng;
pub use sample::{AckSample, LossEvent, LossSignal, MarkEvent, Needs, RateSample, Seq, Stamps, Verdict};
pub use scheme::{Scheme, SchemeParts};
pub use time::{Rate, Span, Time};
