//! Queues in front of transmitters.

mod active;
mod average;
mod config;
mod drop_tail;
mod red;

pub(crate) use self::active::{Active, Advice};
pub use self::config::{AboveMax, CongestionWarningConfig, QueueConfig, QueueUnit, RedConfig, WarningMark};
pub(crate) use self::drop_tail::{DropTail, Occupancy};
