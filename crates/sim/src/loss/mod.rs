//! What makes a channel lose packets.

mod config;

pub use self::config::{ChunkKind, LossConfig};
