//! Loss models of channels.

mod config;
mod model;

pub use self::config::{ChunkKind, LossConfig};
pub(crate) use self::model::{LossModel, any_needs_kinds};
