//! Several paths: which one takes new data, where lost data goes, how the windows of paths depend on each other, which path is fit,
//! and what the receiver reports.
//!
//! | file | question |
//! |---|---|
//! | [`distribution`] | which path takes the next packet of new data? |
//! | [`policy`] | is a path fit, and which one should carry data? |
//! | [`coupling`] | what does one path's window have to do with the others'? |
//! | [`Accounting`] | whose sequence numbers drive congestion control? |
//! | [`RetransmitPath`] | where does lost data go? |
//! | [`BufferSplit`] | may one path fill the buffers? |
//! | [`Reporting`] | when and how does the receiver report what has arrived? |
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
