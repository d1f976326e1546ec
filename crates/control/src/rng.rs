//! Named streams of random numbers.
//!
//! A stream is derived from the run's seed and the name of its purpose ("node3/if0/loss"). A node added to a scenario
//! uses its own stream and does not change any other.

use core::convert::Infallible;

use rand_core::{Rng as _, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A deterministic stream of random numbers (xoshiro256++). The same seed and name give the same numbers on any
/// machine.
///
/// Not cryptographically secure: a driver of real sockets uses the operating system's generator for verification tags
/// and cookie keys.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Creates the stream of `name` for the run with this `seed`.
    pub fn stream(seed: u64, name: &str) -> Self {
        // FNV-1a over the name; `seed_from_u64` then spreads the bits over the whole state.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Rng(Xoshiro256PlusPlus::seed_from_u64(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32) ^ hash,
        ))
    }

    /// Creates a stream from 32 bytes of entropy.
    pub fn from_entropy(seed: [u8; 32]) -> Self {
        Rng(Xoshiro256PlusPlus::from_seed(seed))
    }

    /// Returns a uniformly distributed 64-bit number.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniformly distributed 32-bit number.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// Returns a uniformly distributed number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns a uniformly distributed number in `0..bound`; zero if `bound` is zero. The bias is below 2^-32 for
    /// bounds below 2^32.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with probability `p`.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Returns an exponentially distributed number with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.unit())
    }
}

/// Allows the use of a stream as a `rand_core` generator.
impl TryRng for Rng {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.next_u32())
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        self.0.try_fill_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_repeatable_and_differ_by_name_and_seed() {
        let first = |seed, name| Rng::stream(seed, name).next_u64();
        assert_eq!(first(1, "a"), first(1, "a"));
        assert_ne!(first(1, "a"), first(1, "b"));
        assert_ne!(first(1, "a"), first(2, "a"));
    }

    #[test]
    fn draws_have_the_right_means() {
        let mut rng = Rng::stream(7, "means");
        let n = 100_000;
        let unit: f64 = (0..n).map(|_| rng.unit()).sum::<f64>() / f64::from(n);
        let exponential: f64 = (0..n).map(|_| rng.exponential(3.0)).sum::<f64>() / f64::from(n);
        let below: u64 = (0..n).map(|_| rng.below(10)).sum();
        assert!((unit - 0.5).abs() < 0.005, "{unit}");
        assert!((exponential - 3.0).abs() < 0.05, "{exponential}");
        assert!((below as f64 / f64::from(n) - 4.5).abs() < 0.05);
        assert_eq!(rng.below(0), 0);
        assert!(!rng.chance(0.0));
        assert!(rng.chance(1.0));
    }
}
