//! Parts of loss recovery and congestion control, and their units.
//!
//! Discriminators and window controls contain no term of SCTP: samples and loss events contain bytes and times, so that any transport can
//! use these parts. [`multipath`] and [`SchemeParts`] do use terms of SCTP.
//!
//! - [`estimator`]: round-trip time, retransmission timeout, bandwidth, delivery rate and backlog.
//! - [`discriminator`]: was a loss caused by congestion?
//! - [`window`]: how much data may be in flight?
//! - [`recovery`]: what is retransmitted, when, and with which timer?
//! - [`multipath`]: which path carries which data, and which paths are usable?
//! - [`Pacer`]: when may the next packet be sent?
//! - [`Scheme`]: named bundles of parts.
//! - [`Controller`]: owns the window of a path and calls the parts in a fixed order.

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
mod epoch;
mod overridable;
mod pacer;
mod scheme;
mod view;

pub use controller::{Controller, WindowRules};
pub use epoch::RecoveryEpoch;
pub use pacer::Pacer;
pub use part::{BuildContext, Cause, GroundTruth};
pub use rng::Rng;
pub use sample::{AckSample, LossEvent, LossSignal, MarkEvent, Needs, RateSample, Seq, Stamps, Verdict};
pub use scheme::{Scheme, SchemeParts};
pub use time::{Rate, Span, Time};
pub use view::CouplingLimits;
