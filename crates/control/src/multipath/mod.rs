//! Several paths: the path for new data, the path for retransmissions, the coupling of the windows, the state of the paths,
//! and the receiver's reports.
//!
//! | file | question |
//! |---|---|
//! | [`distribution`] | which path carries the next packet of new data? |
//! | [`policy`] | is a path usable, and which one should carry data? |
//! | [`coupling`] | how do the windows of the paths depend on each other? |
//! | [`Accounting`] | whose sequence numbers drive congestion control? |
//! | [`RetransmitPath`] | which path carries retransmissions? |
//! | [`BufferSplit`] | may one path fill the buffers? |
//! | [`Reporting`] | when and how does the receiver report arrivals? |
//!
//! Parts see paths as [`PathView`]s, in the order of their numbers.

pub mod coupling;
pub mod distribution;
pub mod policy;

mod options;
mod reporting;
mod view;

pub use options::{Accounting, BufferSplit, RetransmitPath, SackPath};
pub use reporting::{Reporting, ReportingChanges};
pub use view::PathView;
