//! Settings of associations that endpoints share.

use core::ops::Deref;
use std::sync::Arc;

use super::{AssociationConfig, Resolved};

/// Settings of associations with everything that follows from them. Clones share one copy, so that thousands of endpoints with equal
/// settings, as in a simulation, take the memory of one.
#[derive(Clone, Debug)]
pub struct SharedConfig(Arc<Resolved>);

impl SharedConfig {
    pub(crate) fn resolved(&self) -> &Arc<Resolved> {
        &self.0
    }
}

impl From<AssociationConfig> for SharedConfig {
    fn from(config: AssociationConfig) -> Self {
        SharedConfig(Arc::new(Resolved::new(config)))
    }
}

impl Default for SharedConfig {
    fn default() -> Self {
        AssociationConfig::default().into()
    }
}

impl Deref for SharedConfig {
    type Target = AssociationConfig;

    fn deref(&self) -> &AssociationConfig {
        &self.0
    }
}
