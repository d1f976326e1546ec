//! A configuration with all that follows from it.

use core::ops::Deref;

use whimbrel_control::SchemeParts;
use whimbrel_control::recovery::Recovery;

use super::{AssociationConfig, Rules};

/// A configuration, with preset, scheme and changes to single parts resolved: made once, and shared by the associations that use it.
///
/// Settings that need no resolving are read through [`Deref`].
#[derive(Debug)]
pub(crate) struct Resolved {
    config: AssociationConfig,
    /// The scheme's parts with the changes to single ones.
    pub(crate) parts: SchemeParts,
    /// The preset's rules with single ones overridden.
    pub(crate) rules: Rules,
    /// Missing reports that make a loss.
    pub(crate) missing_reports: u8,
    /// Whether authentication is offered.
    pub(crate) offers_auth: bool,
    /// Whether the recovery differs from the standard's.
    pub(crate) recovers: bool,
}

impl Resolved {
    pub(crate) fn new(config: AssociationConfig) -> Self {
        let parts = config.parts();
        Resolved {
            rules: config.resolved_rules(),
            missing_reports: config.resolved_missing_reports().min(255) as u8,
            offers_auth: config.wants_auth(),
            recovers: parts.recovery != Recovery::default(),
            parts,
            config,
        }
    }
}

impl Deref for Resolved {
    type Target = AssociationConfig;

    fn deref(&self) -> &AssociationConfig {
        &self.config
    }
}
