//! Congestion control that the user replaces while the association is in use.

use std::sync::Arc;

use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::window::WindowSpec;

use super::Association;
use crate::config::{AssociationConfig, Resolved};
use crate::error::ConfigError;

impl Association {
    /// Replaces the discriminator, the window control or both on all paths, also on those that are added later. cwnd and ssthresh remain.
    ///
    /// # Errors
    /// Returns an error if a parameter is out of range, or if the part needs what the association lacks.
    pub(crate) fn set_congestion_control(
        &mut self,
        discriminator: Option<DiscriminatorSpec>,
        window: Option<WindowSpec>,
    ) -> Result<(), ConfigError> {
        let mut config = AssociationConfig::clone(&self.config);
        config.discriminator = discriminator.clone().or(config.discriminator);
        config.window = window.clone().or(config.window);
        config.validate()?;
        config.validate_truth(self.sending.has_truth())?;
        self.config = Arc::new(Resolved::new(config));
        self.sending
            .set_congestion_control(self.config.clone(), discriminator.as_ref(), window.as_ref());
        Ok(())
    }
}
