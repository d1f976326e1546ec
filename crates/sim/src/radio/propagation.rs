//! Propagation models: received power as a function of distance, and its variation.

use core::f64::consts::PI;

use whimbrel_control::Rng;

use crate::config::{FadingConfig, PropagationConfig};

/// Speed of light, m/s.
const LIGHT: f64 = 299_792_458.0;

/// The fraction of the transmitted power that is received at a distance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Propagation {
    /// Up to this distance the power falls with the square of the distance, m.
    near: f64,
    /// Gain at a distance of 1 m in free space.
    free: f64,
    /// Beyond `near`.
    law: Law,
    shadowing_db: f64,
    fading: FadingConfig,
}

#[derive(Clone, Copy, Debug)]
enum Law {
    /// Gain times distance to the fourth.
    Fourth(f64),
    Square,
    /// Gain at the end of the near field, and the exponent.
    Power(f64, f64),
}

impl Propagation {
    pub(crate) fn new(config: &PropagationConfig) -> Self {
        // Friis: (wavelength / 4 pi d)^2, antennas with unit gain.
        let free = |frequency: f64| {
            let gain = LIGHT / frequency / (4.0 * PI);
            gain * gain
        };
        let (near, free, law, shadowing_db) = match *config {
            PropagationConfig::TwoRay { frequency, height, .. } => {
                // The two laws meet at 4 pi h^2 / wavelength; beyond it (h h / d^2)^2.
                let near = 4.0 * PI * height * height * frequency / LIGHT;
                let fourth = height * height * height * height;
                (near, free(frequency), Law::Fourth(fourth), 0.0)
            }
            PropagationConfig::FreeSpace { frequency, .. } => (f64::INFINITY, free(frequency), Law::Square, 0.0),
            PropagationConfig::LogDistance {
                frequency,
                reference,
                exponent,
                shadowing_db,
                ..
            } => {
                let free = free(frequency);
                let law = Law::Power(free / (reference * reference), exponent);
                (reference, free, law, shadowing_db)
            }
        };
        Propagation {
            near,
            free,
            law,
            shadowing_db,
            fading: config.fading(),
        }
    }

    /// Returns the mean received fraction of the power at the square of a distance.
    #[inline]
    pub(crate) fn gain(&self, distance_squared: f64) -> f64 {
        // Nodes at the same position are separated by a centimetre, so that the gain stays finite.
        let square = distance_squared.max(1e-4);
        if square <= self.near * self.near {
            return (self.free / square).min(1.0);
        }
        match self.law {
            Law::Fourth(gain) => gain / (square * square),
            Law::Square => self.free / square,
            Law::Power(gain, exponent) => gain * libm::pow(square / (self.near * self.near), -exponent / 2.0),
        }
    }

    /// Returns whether power varies from frame to frame.
    pub(crate) fn is_random(&self) -> bool {
        self.shadowing_db > 0.0 || self.fading != FadingConfig::None {}
    }

    /// Returns how far the power of a frame may exceed its mean: less than one frame in ten thousand exceeds it by more.
    pub(crate) fn headroom(&self) -> f64 {
        let shadowing = libm::pow(10.0, 0.4 * self.shadowing_db);
        let fading = match self.fading {
            FadingConfig::None {} => 1.0,
            _ => 10.0,
        };
        shadowing * fading
    }

    /// Returns the factor of the power of a frame at a receiver.
    pub(crate) fn draw(&self, random: &mut Rng) -> f64 {
        let mut factor = match self.fading {
            FadingConfig::None {} => 1.0,
            FadingConfig::Rayleigh {} => random.exponential(1.0),
            FadingConfig::Rician { k } => {
                // A fixed component of power k / (k + 1), and a complex normal one.
                let spread = libm::sqrt(0.5 / (k + 1.0));
                let (x, y) = normal_pair(random);
                let direct = libm::sqrt(k / (k + 1.0));
                let (re, im) = (direct + spread * x, spread * y);
                re * re + im * im
            }
            FadingConfig::Nakagami { m } => gamma(random, m) / m,
        };
        if self.shadowing_db > 0.0 {
            factor *= libm::pow(10.0, 0.1 * self.shadowing_db * normal_pair(random).0);
        }
        factor
    }

    /// Returns the distance at which the mean gain falls to `gain`, m.
    pub(crate) fn distance(&self, gain: f64) -> f64 {
        let near = libm::sqrt(self.free / gain);
        if near <= self.near {
            return near;
        }
        match self.law {
            Law::Square => near,
            Law::Fourth(at_one) => libm::pow(at_one / gain, 0.25).max(self.near),
            Law::Power(at_near, exponent) => self.near * libm::pow(at_near / gain, 1.0 / exponent).max(1.0),
        }
    }
}

/// Returns two independent normally distributed numbers (Box and Muller).
pub(super) fn normal_pair(random: &mut Rng) -> (f64, f64) {
    let radius = libm::sqrt(2.0 * random.exponential(1.0));
    let angle = 2.0 * PI * random.unit();
    (radius * libm::cos(angle), radius * libm::sin(angle))
}

/// Returns a gamma distributed number of this shape and scale 1 (Marsaglia and Tsang).
fn gamma(random: &mut Rng, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = libm::pow(1.0 - random.unit(), 1.0 / shape);
        return gamma(random, shape + 1.0) * boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / libm::sqrt(9.0 * d);
    loop {
        let x = normal_pair(random).0;
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let v = v * v * v;
        if libm::log(1.0 - random.unit()) < 0.5 * x * x + d - d * v + d * libm::log(v) {
            return d * v;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ray_ground_gives_the_well_known_thresholds() {
        // 0.28183815 W: 3.652e-10 W at 250 m, 1.559e-11 W at 550 m.
        let law = Propagation::new(&PropagationConfig::default());
        let power = |d: f64| 0.281_838_15 * law.gain(d * d);
        assert!((power(250.0) - 3.652e-10).abs() < 1e-13);
        assert!((power(550.0) - 1.559e-11).abs() < 1e-14);
        // Cross-over at 86.2 m: free space before it, and no jump.
        assert!((law.near - 86.2).abs() < 0.1);
        assert!((law.gain(86.1 * 86.1) / law.gain(86.3 * 86.3) - 1.0).abs() < 0.01);
        assert!((law.gain(100.0) / law.gain(400.0) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn distances_and_gains_are_inverse() {
        let log = PropagationConfig::LogDistance {
            frequency: 2.4e9,
            reference: 1.0,
            exponent: 3.0,
            shadowing_db: 0.0,
            fading: FadingConfig::None {},
        };
        let free = PropagationConfig::FreeSpace {
            frequency: 2.4e9,
            fading: FadingConfig::None {},
        };
        for config in [log, free, PropagationConfig::default()] {
            let law = Propagation::new(&config);
            for d in [5.0, 50.0, 86.0, 250.0, 1000.0_f64] {
                let back = law.distance(law.gain(d * d));
                assert!((back / d - 1.0).abs() < 1e-9, "{config:?}: {d} becomes {back}");
            }
        }
    }

    #[test]
    fn fading_keeps_the_mean_power_and_has_the_right_spread() {
        // Variance of the power over its squared mean: 1 for Rayleigh, (2 k + 1) / (k + 1)^2, 1 / m.
        let cases = [
            (FadingConfig::Rayleigh {}, 1.0),
            (FadingConfig::Rician { k: 4.0 }, 9.0 / 25.0),
            (FadingConfig::Nakagami { m: 3.0 }, 1.0 / 3.0),
            (FadingConfig::Nakagami { m: 0.5 }, 2.0),
        ];
        for (fading, variance) in cases {
            let law = Propagation::new(&PropagationConfig::FreeSpace { frequency: 1e9, fading });
            let mut random = Rng::stream(1, "fading");
            let n = 200_000;
            let (mut sum, mut squares) = (0.0, 0.0);
            for _ in 0..n {
                let factor = law.draw(&mut random);
                sum += factor;
                squares += factor * factor;
            }
            let mean = sum / f64::from(n);
            let spread = squares / f64::from(n) - mean * mean;
            assert!((mean - 1.0).abs() < 0.015, "{fading:?}: mean {mean}");
            assert!((spread / variance - 1.0).abs() < 0.06, "{fading:?}: variance {spread}");
        }
    }
}
