//! Congestion control that the user replaces while the association is in use.

use std::sync::Arc;

use whimbrel_control::BuildContext;
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::window::WindowSpec;

use super::Association;
use crate::PathId;
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
        config.validate_truth(self.ends.truth.is_some())?;
        self.config = Arc::new(Resolved::new(config));
        let context = BuildContext {
            truth: self.ends.truth.as_ref().map(|truth| truth.0.clone()),
        };
        for path in 0..self.paths.len() {
            let Some(path) = self.paths.get_mut(PathId(path as u8)) else {
                continue;
            };
            if let Some(discriminator) = &discriminator {
                path.control.set_discriminator(discriminator.build(&context));
            }
            if let Some(window) = &window {
                path.control.set_window(window.build(&context));
            }
        }
        if self.sender.rates.is_none() {
            self.start_rates();
        }
        Ok(())
    }
}
