//! The standard: a path becomes inactive after more than `path_max_retrans` consecutive timeouts, and potentially
//! failed after more than `potentially_failed_max_retrans`, if that is set (RFC 9260 §8.2, RFC 7829).

use super::ManagePaths;
use crate::part::{BuildContext, Part};

/// Error counting. Its limits are the transport's.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct ErrorCountParameters {}

impl Part<dyn ManagePaths> for ErrorCountParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(*self)
    }
}

impl ManagePaths for ErrorCountParameters {}
