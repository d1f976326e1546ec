//! Queues in front of transmitters.

mod config;
mod drop_tail;

pub use self::config::QueueConfig;
pub(crate) use self::drop_tail::{DropTail, Occupancy};
