//! Propagation of radio waves: received power as a function of distance, and its variation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ConfigError;

/// Received power as a function of distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum PropagationConfig {
    /// Two-ray ground: free space up to the cross-over distance 4 pi h h / wavelength; beyond it, power falls with the fourth power
    /// of the distance.
    TwoRay {
        /// Carrier frequency in Hz. Default: 914 MHz.
        #[serde(default = "default_frequency")]
        #[schemars(range(min = 1))]
        frequency: f64,
        /// Height of all antennas above the ground in metres. Default: 1.5 m.
        #[serde(default = "default_height")]
        #[schemars(range(min = 0))]
        height: f64,
        /// Random variation of the power of each frame.
        #[serde(default)]
        fading: FadingConfig,
    },
    /// Free space: power falls with the square of the distance.
    FreeSpace {
        /// Carrier frequency in Hz. Default: 914 MHz.
        #[serde(default = "default_frequency")]
        #[schemars(range(min = 1))]
        frequency: f64,
        /// Random variation of the power of each frame.
        #[serde(default)]
        fading: FadingConfig,
    },
    /// Log-distance: free space up to a reference distance, a configurable exponent beyond it, and shadowing.
    LogDistance {
        /// Carrier frequency in Hz. Default: 914 MHz.
        #[serde(default = "default_frequency")]
        #[schemars(range(min = 1))]
        frequency: f64,
        /// Reference distance in metres, above 0. Default: 1 m.
        #[serde(default = "default_reference")]
        #[schemars(range(min = 0))]
        reference: f64,
        /// Path-loss exponent, 1 to 10: 2 in free space, 2.7 to 5 in urban areas.
        #[schemars(range(min = 1, max = 10))]
        exponent: f64,
        /// Standard deviation of shadowing in dB, 0 to 20, drawn for each frame and receiver. Default: 0.
        #[serde(default)]
        #[schemars(range(min = 0, max = 20))]
        shadowing_db: f64,
        /// Random variation of the power of each frame.
        #[serde(default)]
        fading: FadingConfig,
    },
}

/// Random variation of the power of a frame around its mean (multipath fading), drawn for each frame and receiver.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FadingConfig {
    /// No fading.
    // Braces: for a variant without them serde accepts unknown keys.
    None {},
    /// No path dominates: the power is exponentially distributed.
    Rayleigh {},
    /// One path dominates.
    Rician {
        /// Power of that path divided by the power of all others, 0 to 1000.
        #[schemars(range(min = 0, max = 1000))]
        k: f64,
    },
    /// The power is gamma distributed.
    Nakagami {
        /// Shape of the distribution, 0.5 to 100; 1 is Rayleigh.
        #[schemars(range(min = 0.5, max = 100))]
        m: f64,
    },
}

impl Default for FadingConfig {
    fn default() -> Self {
        FadingConfig::None {}
    }
}

fn default_frequency() -> f64 {
    914e6
}

fn default_height() -> f64 {
    1.5
}

fn default_reference() -> f64 {
    1.0
}

impl Default for PropagationConfig {
    /// Two-ray ground at 914 MHz between antennas 1.5 m above the ground.
    fn default() -> Self {
        PropagationConfig::TwoRay {
            frequency: default_frequency(),
            height: default_height(),
            fading: FadingConfig::None {},
        }
    }
}

impl PropagationConfig {
    /// Returns the variation of the power of each frame.
    pub(crate) fn fading(&self) -> FadingConfig {
        match self {
            PropagationConfig::TwoRay { fading, .. }
            | PropagationConfig::FreeSpace { fading, .. }
            | PropagationConfig::LogDistance { fading, .. } => *fading,
        }
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |path: &str, value: f64, low: f64, high: f64, unit: &str| {
            if value >= low && value <= high {
                return Ok(());
            }
            Err(ConfigError::new(path, value, format!("{low} to {high}{unit}")))
        };
        match self {
            PropagationConfig::TwoRay { frequency, height, .. } => {
                within("frequency", *frequency, 1e6, 1e12, " Hz")?;
                within("height", *height, 0.01, 1000.0, " m")?;
            }
            PropagationConfig::FreeSpace { frequency, .. } => within("frequency", *frequency, 1e6, 1e12, " Hz")?,
            PropagationConfig::LogDistance {
                frequency,
                reference,
                exponent,
                shadowing_db,
                ..
            } => {
                within("frequency", *frequency, 1e6, 1e12, " Hz")?;
                within("reference", *reference, 0.01, 1e5, " m")?;
                within("exponent", *exponent, 1.0, 10.0, "")?;
                within("shadowing_db", *shadowing_db, 0.0, 20.0, " dB")?;
            }
        }
        match self.fading() {
            FadingConfig::None {} | FadingConfig::Rayleigh {} => Ok(()),
            FadingConfig::Rician { k } => within("fading.k", k, 0.0, 1000.0, ""),
            FadingConfig::Nakagami { m } => within("fading.m", m, 0.5, 100.0, ""),
        }
    }
}
