//! Random early detection: the decision to mark or drop (Floyd and Jacobson 1993, figure 2).

use whimbrel_control::Rng;

use super::{QueueUnit, RedConfig};

/// RED's decision on an arriving packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Strike {
    /// No mark or drop.
    No,
    /// A random mark or drop.
    Early,
    /// A mark or drop of every packet.
    Forced,
}

/// The marking rule with its state.
#[derive(Clone, Debug)]
pub(super) struct Red {
    config: RedConfig,
    /// Consecutive packets without a mark or drop since the average rose above the minimum threshold, or since the last one.
    spared: u64,
    rng: Rng,
}

impl Red {
    pub(super) fn new(config: RedConfig, rng: Rng) -> Self {
        Red { config, spared: 0, rng }
    }

    pub(super) fn config(&self) -> &RedConfig {
        &self.config
    }

    /// Decides on a packet of `size` bytes. `average` includes its arrival, `length` is the queue before it, both in the configured
    /// unit.
    pub(super) fn judge(&mut self, average: f64, length: f64, size: u32) -> Strike {
        let Some(base) = self.base_probability(average, length, size) else {
            self.spared = 0;
            return Strike::No;
        };
        if base >= 1.0 {
            self.spared = 0;
            return Strike::Forced;
        }
        let probability = if self.config.wait {
            spread_late(base, self.spared)
        } else {
            spread(base, self.spared)
        };
        if self.rng.chance(probability) {
            self.spared = 0;
            return Strike::Early;
        }
        self.spared += 1;
        Strike::No
    }

    /// Returns the probability before it is spread evenly; 1 if every packet is marked, `None` if none is.
    fn base_probability(&self, average: f64, length: f64, size: u32) -> Option<f64> {
        let red = &self.config;
        // Ye 2004, 4.6.3: the current queue has to exceed the same threshold.
        let exceeds = |threshold: f64| !red.enhanced || length > threshold;
        if average < red.min || red.least > 0.0 && length <= red.least {
            return None;
        }
        let probability = if average < red.max {
            exceeds(red.min).then(|| red.max_p * (average - red.min) / (red.max - red.min))?
        } else if !exceeds(red.max) {
            return None;
        } else if red.gentle && average < 2.0 * red.max {
            red.max_p + (1.0 - red.max_p) * (average - red.max) / red.max
        } else {
            return Some(1.0);
        };
        Some(match red.unit {
            QueueUnit::Packets => probability,
            // Below 1, which would mean a forced mark.
            QueueUnit::Bytes => (probability * f64::from(size) / f64::from(red.typical_packet)).min(1.0 - f64::EPSILON),
        })
    }
}

/// Spreads marks evenly instead of geometrically: with a constant `base` the distance between two is uniform from 1 to 1/`base`
/// (section VII, method 2). `spared` is the number of packets since the last mark. The paper's figure 2 also counts the current
/// one, which would make the shortest distance twice as likely and the longest impossible.
fn spread(base: f64, spared: u64) -> f64 {
    let left = 1.0 - spared as f64 * base;
    if left <= base { 1.0 } else { base / left }
}

/// The same with ns-2's `wait_`: the distance is uniform from 1/`base` to just below 2/`base`.
fn spread_late(base: f64, spared: u64) -> f64 {
    let steps = (spared + 1) as f64 * base;
    if steps < 1.0 {
        0.0
    } else if steps < 2.0 {
        (base / (2.0 - steps)).min(1.0)
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(change: impl FnOnce(&mut RedConfig)) -> Red {
        let mut config = RedConfig {
            max_p: 0.5,
            ..RedConfig::new(100, 10.0, 20.0)
        };
        change(&mut config);
        Red::new(config, Rng::stream(1, "red"))
    }

    #[track_caller]
    fn assert_base(red: &Red, average: f64, length: f64, size: u32, expected: Option<f64>) {
        let found = red.base_probability(average, length, size);
        let near = match (found, expected) {
            (Some(a), Some(b)) => (a - b).abs() < 1e-12,
            (a, b) => a == b,
        };
        assert!(near, "{found:?} at {average}, not {expected:?}");
    }

    #[test]
    fn the_probability_rises_from_min_to_max() {
        // Floyd and Jacobson 1993, figure 2: p_b = max_p (avg - min) / (max - min)
        let red = red(|_| ());
        for (average, expected) in [
            (9.99, None),
            (10.0, Some(0.0)),
            (12.0, Some(0.1)),
            (15.0, Some(0.25)),
            (20.0, Some(1.0)),
            (35.0, Some(1.0)),
        ] {
            assert_base(&red, average, 0.0, 1500, expected);
        }
    }

    #[test]
    fn the_gentle_probability_rises_to_1_at_twice_max() {
        // Floyd 2000: from max_p at max to 1 at 2 max
        let red = red(|config| config.gentle = true);
        assert_base(&red, 20.0, 0.0, 1500, Some(0.5));
        assert_base(&red, 30.0, 0.0, 1500, Some(0.75));
        assert_base(&red, 40.0, 0.0, 1500, Some(1.0));
    }

    #[test]
    fn small_packets_are_marked_less_often_with_unit_bytes() {
        // p_b = p_b * PacketSize / MaximumPacketSize
        let red = red(|config| config.unit = QueueUnit::Bytes);
        assert_base(&red, 15.0, 0.0, 1500, Some(0.25));
        assert_base(&red, 15.0, 0.0, 300, Some(0.05));
    }

    #[test]
    fn enhanced_red_also_checks_the_current_queue() {
        // Ye 2004, 4.6.3: average and actual length, each against both thresholds
        let red = red(|config| config.enhanced = true);
        for (average, length, expected) in [
            (15.0, 10.0, None),
            (15.0, 11.0, Some(0.25)),
            (15.0, 50.0, Some(0.25)),
            (25.0, 15.0, None),
            (25.0, 20.0, None),
            (25.0, 21.0, Some(1.0)),
            (5.0, 50.0, None),
        ] {
            assert_base(&red, average, length, 1500, expected);
        }
    }

    #[test]
    fn a_queue_no_longer_than_least_is_spared() {
        // ns-2: the average above min, and more than one packet in the queue
        for (least, length, expected) in [
            (0.0, 0.0, Some(0.25)),
            (1.0, 0.0, None),
            (1.0, 1.0, None),
            (1.0, 2.0, Some(0.25)),
        ] {
            let red = red(|config| config.least = least);
            assert_base(&red, 15.0, length, 1500, expected);
        }
    }

    #[test]
    fn the_probability_grows_with_packets_since_the_last_mark() {
        // p_a = p_b / (1 - count p_b), computed by hand for p_b = 1/4: 1/4, 1/3, 1/2, 1
        for (spared, expected) in [(0, 0.25), (1, 1.0 / 3.0), (2, 0.5), (3, 1.0), (4, 1.0), (100, 1.0)] {
            assert!((spread(0.25, spared) - expected).abs() < 1e-12, "after {spared}");
        }
        assert_eq!(spread(0.0, 1_000_000), 0.0);
    }

    #[test]
    fn with_wait_no_packet_is_marked_before_count_reaches_one_over_p() {
        // ns-2, wait_: 0 while count p_b < 1, then p_b / (2 - count p_b); count includes the packet. Computed by hand for p_b = 1/4.
        for (spared, expected) in [
            (0, 0.0),
            (2, 0.0),
            (3, 0.25),
            (4, 1.0 / 3.0),
            (5, 0.5),
            (6, 1.0),
            (7, 1.0),
        ] {
            assert!((spread_late(0.25, spared) - expected).abs() < 1e-12, "after {spared}");
        }
        assert_eq!(spread_late(0.0, 1_000_000), 0.0);
    }

    /// With p_b = 1/8 the distance is uniform over eight values: 1/8 of the time each, to 4.5 standard deviations of 20 000 in either direction.
    fn assert_uniform_from(least: usize, wait: bool) {
        let mut red = red(|config| config.wait = wait);
        let mut counts = [0_u32; 17];
        let (mut distance, n) = (0, 20_000);
        while counts.iter().sum::<u32>() < n {
            distance += 1;
            if red.judge(12.5, 0.0, 1500) == Strike::Early {
                counts[distance] += 1;
                distance = 0;
            }
        }
        let (expected, deviation) = (f64::from(n) / 8.0, (f64::from(n) * 7.0 / 64.0).sqrt());
        for (distance, count) in counts.iter().enumerate() {
            let wanted = if (least..least + 8).contains(&distance) {
                expected
            } else {
                0.0
            };
            let slack = if wanted > 0.0 { 4.5 * deviation } else { 0.0 };
            assert!(
                (f64::from(*count) - wanted).abs() <= slack,
                "{count} distances of {distance}, expected {wanted}"
            );
        }
    }

    #[test]
    fn distances_between_marks_are_uniform() {
        assert_uniform_from(1, false);
        assert_uniform_from(8, true);
    }

    #[test]
    fn the_count_restarts_below_min() {
        let mut red = red(|_| ());
        assert_eq!(red.judge(25.0, 0.0, 1500), Strike::Forced);
        for expected in 1..=3 {
            // A probability of zero
            assert_eq!(red.judge(10.0, 0.0, 1500), Strike::No);
            assert_eq!(red.spared, expected);
        }
        assert_eq!(red.judge(5.0, 0.0, 1500), Strike::No);
        assert_eq!(red.spared, 0);
    }
}
