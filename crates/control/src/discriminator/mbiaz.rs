//! mBiaz: Biaz with a narrower window (Cen, Cosman and Voelker 2003).

use super::Discriminate;
use super::biaz::Biaz;
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Parameters of mBiaz: those of Biaz with a narrower range of gaps.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct MBiazParameters {
    /// u: n lost packets are transmission losses if the gap lasts from n + 1 to n + u of the shortest inter-arrival times, 1 to 10.
    pub upper: f64,
}

impl Default for MBiazParameters {
    fn default() -> Self {
        MBiazParameters { upper: 1.25 }
    }
}

impl Part<dyn Discriminate> for MBiazParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("upper", self.upper, 1.0, 10.0, "inter-arrival times")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Biaz::new(self.upper))
    }
}
