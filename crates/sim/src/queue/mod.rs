//! Queues in front of transmitters.

mod active;
mod average;
mod codel;
mod config;
mod drop_tail;
mod dual_pi2;
mod fq_codel;
mod red;
mod scheduler;

pub(crate) use self::active::{Active, Advice};
pub(crate) use self::codel::Waiting;
pub use self::config::{
    AboveMax, CodelConfig, CongestionWarningConfig, DualPi2Config, FqCodelConfig, QueueConfig, QueueUnit, RedConfig,
    StepConfig, WarningMark,
};
pub(crate) use self::drop_tail::{DropTail, Occupancy};
pub(crate) use self::scheduler::Scheduler;
