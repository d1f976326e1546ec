//! The path with the largest estimated bandwidth (AISLE: Casetti, Chiasserini, Fracchia and Meo 2006; WiSE: Fracchia et
//! al. 2005).
//!
//! Heartbeats as large as data packets are periodically sent back to back on each path. The bottleneck spaces them by
//! its transmission time of one packet, so the HEARTBEAT ACKs arrive with this spacing (packet pair). HEARTBEAT ACKs
//! are as large as the heartbeats, so the measurement gives the bandwidth of the slower direction.
//!
//! Additions of Whimbrel: estimates are smoothed, and the bandwidth of another path must be larger by a margin several
//! times in a row.

use super::manage::{entry, forget};
use super::rounds::Rounds;
use super::{ManagePaths, Order, Paths, PolicyEvent};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::{Rate, Span, Time};

/// Packet pairs on all paths.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct BandwidthParameters {
    /// Number of heartbeats sent back to back, 2 to 32.
    pub packets: u32,
    /// Time between two measurements of a path, 10 ms to 1 h.
    pub interval: Span,
    /// Weight of a new estimate, above 0 and up to 1.
    pub weight: f64,
    /// Fraction by which the estimated bandwidth of another path must be larger, 0 to 10.
    pub margin: f64,
    /// Number of consecutive measurements in which it must be larger, 1 to 1000.
    pub patience: u32,
}

impl Default for BandwidthParameters {
    fn default() -> Self {
        BandwidthParameters {
            packets: 2,
            interval: Span::from_secs(1),
            weight: 0.25,
            margin: 0.2,
            patience: 4,
        }
    }
}

/// State of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    /// Smoothed bandwidth in bits per second; zero before the first measurement.
    bps: f64,
    /// It has been measured since the last comparison.
    is_new: bool,
}

#[derive(Debug)]
struct Bandwidth {
    parameters: BandwidthParameters,
    estimates: Vec<Estimate>,
    chosen: Option<usize>,
    /// The path with the larger bandwidth, and the number of consecutive comparisons in which it was.
    better: Option<(usize, u32)>,
    rounds: Rounds,
}

impl Part<dyn ManagePaths> for BandwidthParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("packets", self.packets.into(), 2.0, 32.0, "heartbeats")?;
        in_range("interval", self.interval.as_secs_f64(), 0.01, 3600.0, "s")?;
        if !(self.weight > 0.0 && self.weight <= 1.0) {
            return Err(ParameterError::new(
                "weight",
                self.weight,
                "allowed is a number above 0 and up to 1",
            ));
        }
        in_range("margin", self.margin, 0.0, 10.0, "")?;
        in_range("patience", self.patience.into(), 1.0, 1000.0, "measurements")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(Bandwidth {
            parameters: *self,
            estimates: Vec::new(),
            chosen: None,
            better: None,
            rounds: Rounds::new(self.interval),
        })
    }
}

impl Bandwidth {
    fn learn(&mut self, path: usize, rate: Rate) {
        let estimate = entry(&mut self.estimates, path);
        let rate = rate.as_bps() as f64;
        estimate.bps = if estimate.bps == 0.0 {
            rate
        } else {
            estimate.bps + self.parameters.weight * (rate - estimate.bps)
        };
        estimate.is_new = true;
    }

    fn compare(&mut self, paths: &Paths<'_>) {
        let here = self.estimates.get(paths.current).map_or(0.0, |estimate| estimate.bps);
        let limit = here * (1.0 + self.parameters.margin);
        let best = paths
            .others()
            .filter_map(|(path, _)| Some((path, *self.estimates.get(path)?)))
            .filter(|(_, estimate)| here > 0.0 && estimate.bps > limit)
            .max_by(|a, b| a.1.bps.total_cmp(&b.1.bps));
        let Some((path, estimate)) = best else {
            self.better = None;
            return;
        };
        if !estimate.is_new {
            // The packet pair was lost, so there is no new measurement.
            return;
        }
        *entry(&mut self.estimates, path) = Estimate {
            is_new: false,
            ..estimate
        };
        let times = match self.better {
            Some((known, times)) if known == path => times + 1,
            _ => 1,
        };
        self.better = Some((path, times));
        if times >= self.parameters.patience {
            self.better = None;
            self.chosen = Some(path);
        }
    }
}

impl ManagePaths for Bandwidth {
    fn on_event(&mut self, _paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        match event {
            PolicyEvent::Train {
                answered,
                bytes,
                spread,
                ..
            } if *answered >= 2 && !spread.is_zero() => {
                let rate = Rate::of(bytes.saturating_mul(u64::from(*answered) - 1), *spread);
                self.learn(path, rate);
            }
            PolicyEvent::Chosen => {
                self.chosen = Some(path);
                self.better = None;
            }
            _ => {}
        }
    }

    fn on_replaced(&mut self, path: usize) {
        forget(&mut self.estimates, path);
        self.chosen.take_if(|chosen| *chosen == path);
        self.better.take_if(|(better, _)| *better == path);
    }

    fn on_timer(&mut self, paths: &Paths<'_>) {
        if self.rounds.is_due(paths.now) {
            self.compare(paths);
            self.rounds.begin(paths, |_| true);
        }
    }

    fn next_timer(&self) -> Time {
        self.rounds.next()
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        self.chosen.and_then(|path| paths.usable(path)).unwrap_or(standard)
    }

    fn next_order(&mut self) -> Option<(usize, Order)> {
        let packets = self.parameters.packets;
        self.rounds.take().map(|path| (path, Order::Train { packets }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench(paths: &[u64]) -> Bench {
        let context = BuildContext::default();
        Bench::new(BandwidthParameters::default().build(&context), paths)
    }

    /// A pair of packets of 1500 bytes each, spaced by a bottleneck of `mbps` Mbit/s.
    fn pair(bench: &mut Bench, path: usize, mbps: u64) {
        let spread = Rate::from_mbps(mbps).time_for(1500);
        let event = PolicyEvent::Train {
            sent: 2,
            answered: 2,
            bytes: 1500,
            spread,
        };
        bench.event(path, event);
    }

    fn rounds(bench: &mut Bench, count: u32, mbps: &[u64]) {
        for _ in 0..count {
            bench.pass(Span::from_secs(1));
            for (path, mbps) in mbps.iter().enumerate().filter(|(_, mbps)| **mbps > 0) {
                pair(bench, path, *mbps);
            }
        }
    }

    #[test]
    fn the_wider_path_is_chosen_after_a_few_measurements() {
        // Casetti et al. 2006: bandwidth = length / spread.
        let mut bench = bench(&[100, 100, 100]);
        rounds(&mut bench, 4, &[2, 11, 6]);
        assert_eq!(bench.current, 0, "patience");
        rounds(&mut bench, 1, &[2, 11, 6]);
        assert_eq!(bench.current, 1);
        rounds(&mut bench, 100, &[10, 11, 6]);
        assert_eq!(bench.current, 1);
        rounds(&mut bench, 100, &[12, 11, 6]);
        assert_eq!(bench.current, 1, "within the margin");
        rounds(&mut bench, 100, &[14, 11, 6]);
        assert_eq!(bench.current, 0);
    }

    #[test]
    fn a_path_that_loses_its_pairs_is_not_known() {
        let mut bench = bench(&[100, 100]);
        for _ in 0..20 {
            rounds(&mut bench, 1, &[2, 0]);
            bench.event(
                1,
                PolicyEvent::Train {
                    sent: 2,
                    answered: 1,
                    bytes: 1500,
                    spread: Span::ZERO,
                },
            );
        }
        assert_eq!(bench.current, 0);
    }

    #[test]
    fn patience_counts_measurements_and_not_rounds() {
        let mut bench = bench(&[100, 100]);
        rounds(&mut bench, 2, &[2, 11]);
        // From now on its pairs are lost: the estimate is old and gives no new information.
        rounds(&mut bench, 20, &[2, 0]);
        assert_eq!(bench.current, 0);
        rounds(&mut bench, 3, &[2, 11]);
        assert_eq!(bench.current, 1);
    }

    #[test]
    fn another_path_in_its_place_begins_with_nothing() {
        let mut bench = bench(&[100, 100]);
        rounds(&mut bench, 5, &[2, 11]);
        assert_eq!(bench.current, 1);
        bench.policy.on_replaced(1);
        rounds(&mut bench, 20, &[2, 0]);
        assert_eq!(bench.current, 0);
    }

    #[test]
    fn every_path_is_measured_in_each_round() {
        let mut bench = bench(&[100, 100]);
        bench.pass(Span::from_millis(2500));
        let pair = Order::Train { packets: 2 };
        assert_eq!(bench.orders, [(1, pair), (0, pair)].repeat(3));
    }
}
