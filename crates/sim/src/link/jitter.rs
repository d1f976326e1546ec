//! Random delay of each packet.

use whimbrel_control::{Rng, Span};

use crate::config::JitterConfig;

/// Draws delays.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    config: JitterConfig,
    rng: Rng,
}

impl Jitter {
    pub(crate) fn new(config: JitterConfig, rng: Rng) -> Self {
        Jitter { config, rng }
    }

    /// Returns whether packets may overtake each other.
    pub(crate) fn reorders(&self) -> bool {
        match self.config {
            JitterConfig::Uniform { reorder, .. }
            | JitterConfig::Normal { reorder, .. }
            | JitterConfig::Exponential { reorder, .. } => reorder,
        }
    }

    /// Returns the next packet's delay.
    pub(crate) fn draw(&mut self) -> Span {
        let rng = &mut self.rng;
        match self.config {
            JitterConfig::Uniform { min, max, .. } => {
                min + Span::from_nanos(rng.below((max - min).as_nanos().saturating_add(1)))
            }
            JitterConfig::Normal { mean, deviation, .. } => {
                // Box and Muller; the second number of the pair is not kept, so that a draw always costs two.
                let radius = libm::sqrt(rng.exponential(2.0));
                let normal = radius * libm::cos(core::f64::consts::TAU * rng.unit());
                Span::from_secs_f64(mean.as_secs_f64() + normal * deviation.as_secs_f64())
            }
            JitterConfig::Exponential { mean, .. } => Span::from_secs_f64(rng.exponential(mean.as_secs_f64())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(config: JitterConfig) -> (f64, f64) {
        let mut jitter = Jitter::new(config, Rng::stream(5, "jitter"));
        let draws: Vec<f64> = (0..50_000).map(|_| jitter.draw().as_secs_f64() * 1e3).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn distributions_have_their_moments() {
        let ms = Span::from_millis;
        let (mean, deviation) = moments(JitterConfig::Uniform {
            min: ms(2),
            max: ms(8),
            reorder: false,
        });
        assert!((mean - 5.0).abs() < 0.04 && (deviation - 6.0 / 12_f64.sqrt()).abs() < 0.03);
        let (mean, deviation) = moments(JitterConfig::Normal {
            mean: ms(50),
            deviation: ms(5),
            reorder: true,
        });
        assert!(
            (mean - 50.0).abs() < 0.1 && (deviation - 5.0).abs() < 0.1,
            "{mean} {deviation}"
        );
        let (mean, deviation) = moments(JitterConfig::Exponential {
            mean: ms(3),
            reorder: false,
        });
        assert!(
            (mean - 3.0).abs() < 0.06 && (deviation - 3.0).abs() < 0.1,
            "{mean} {deviation}"
        );
    }
}
