//! Queues in front of transmitters.

mod config;

pub use self::config::QueueConfig;
