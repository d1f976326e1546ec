//! An oracle with configured error rates.

use super::Discriminate;
use super::oracle::Oracle;
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Parameters of an oracle that errs: it separates a better verdict from a better reaction.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct NoisyParameters {
    /// A_c: the fraction of congestion losses that it recognises, 0 to 1.
    pub a_c: f64,
    /// A_w: the fraction of transmission losses that it recognises, 0 to 1.
    pub a_w: f64,
}

impl Default for NoisyParameters {
    fn default() -> Self {
        NoisyParameters { a_c: 0.9, a_w: 0.9 }
    }
}

impl Part<dyn Discriminate> for NoisyParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("a_c", self.a_c, 0.0, 1.0, "")?;
        in_range("a_w", self.a_w, 0.0, 1.0, "")
    }

    fn build(&self, context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Oracle {
            truth: context.truth.clone(),
            recognised: Some((self.a_c, self.a_w)),
        })
    }
}
