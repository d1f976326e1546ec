//! Earliest arrival: a packet is sent on the path where it arrives first, including the queueing delay at the
//! bottleneck. If the window of that path is full, the next path is used, except in two cases: if that would block the
//! other paths, which share the receive window, or if waiting for the faster path delivers the queued data earlier. The
//! share of the receive window that the other paths need is estimated from their windows and round-trip times. If the
//! receive window fills up nevertheless, a larger share is reserved for them, as in BLEST.

use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};
use crate::{Span, Time};

/// Earliest arrival. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct EarliestArrivalParameters {}

impl Part<dyn Distribute> for EarliestArrivalParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(EarliestArrival::default())
    }
}

/// Minimum margin for the error in the estimates of the data that faster paths will send.
const MARGIN: f64 = 1.1;
/// The margin grows by this factor with each round-trip time in which the shared window was full, up to the maximum.
const STEP: f64 = 1.25;
const GREATEST: f64 = 4.0;
/// It shrinks by this factor with each other round-trip time.
const DECAY: f64 = 0.98;

#[derive(Debug)]
struct EarliestArrival {
    /// Factor for the estimates.
    margin: f64,
    /// The shared window has been full in this round.
    has_stalled: bool,
    round_began: Time,
}

impl Default for EarliestArrival {
    fn default() -> Self {
        EarliestArrival {
            margin: MARGIN,
            has_stalled: false,
            round_began: Time::ZERO,
        }
    }
}

/// A model of a path with a bottleneck.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    /// Bytes per second.
    rate: f64,
    /// Round-trip time without queueing, in seconds.
    base: f64,
    /// Queueing delay of the next packet at the bottleneck, in seconds.
    queue: f64,
}

impl Pipe {
    fn of(path: &PathView) -> Self {
        let base = base(path);
        let rate = path.cwnd as f64 / path.round().as_secs_f64().max(1e-9);
        let load = path.flight.saturating_add(path.unit) as f64;
        Pipe {
            rate,
            base,
            queue: (load / rate.max(1.0) - base).max(0.0),
        }
    }

    /// Returns when a packet sent now is acknowledged, in seconds from now. It arrives earlier by the delay of the
    /// return path, which is the same for all paths, because the first acknowledgement counts, and that is the one on
    /// the fastest path.
    fn answer(&self) -> f64 {
        self.base + self.queue
    }
}

/// Returns the round-trip time without queueing, in seconds.
fn base(path: &PathView) -> f64 {
    path.min_rtt.unwrap_or(path.round()).as_secs_f64()
}

impl EarliestArrival {
    /// Returns whether a packet on this path would block the others: until it is acknowledged, the other paths with a
    /// smaller round-trip time send data that must also fit into the window. `fastest` is the path with the smallest
    /// round-trip time without queueing: for it, the others count only while its queueing delay exceeds the difference.
    fn would_stall(&self, index: usize, fastest: usize, window: u64, paths: &[PathView]) -> bool {
        let pipe = Pipe::of(&paths[index]);
        let is_sooner = |path: &PathView| {
            if index == fastest {
                Pipe::of(path).answer() < pipe.answer()
            } else {
                base(path) <= pipe.base
            }
        };
        let faster: f64 = paths
            .iter()
            .enumerate()
            .filter(|&(other, path)| path.usable && other != index && is_sooner(path))
            .map(|(_, path)| Pipe::of(path).rate * pipe.answer())
            .sum();
        if faster == 0.0 {
            return false;
        }
        let own = paths[index].flight.saturating_add(paths[index].unit) as f64;
        // The throughput of a path that is faster than all the others together must not be lost.
        let margin = if pipe.rate * pipe.answer() < faster {
            self.margin
        } else {
            MARGIN
        };
        margin * faster + own > window as f64
    }

    /// Adapts the margin. If the shared window fills up, the faster paths send more than estimated, because their
    /// windows are smaller for a while after a loss.
    fn adapt(&mut self, now: Time, paths: &[PathView]) {
        let slowest = paths.iter().filter(|path| path.usable).map(PathView::round).max();
        if now.since(self.round_began) < slowest.unwrap_or(Span::ZERO) {
            return;
        }
        self.round_began = now;
        let step = if core::mem::take(&mut self.has_stalled) {
            STEP
        } else {
            DECAY
        };
        self.margin = (self.margin * step).clamp(MARGIN, GREATEST);
    }
}

impl Distribute for EarliestArrival {
    fn on_stall(&mut self, _demand: &Demand, _paths: &[PathView]) {
        self.has_stalled = true;
    }

    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize> {
        self.adapt(demand.now, paths);
        let earliest = |is_meant: &dyn Fn(usize, &PathView) -> bool| {
            let meant = paths.iter().enumerate().filter(|(index, path)| is_meant(*index, path));
            meant
                .map(|(index, path)| (index, Pipe::of(path)))
                .min_by(|a, b| a.1.answer().total_cmp(&b.1.answer()))
        };
        // The fastest path without queueing, whatever its current queue.
        let fastest = (0..paths.len())
            .filter(|&index| paths[index].usable)
            .min_by(|&a, &b| base(&paths[a]).total_cmp(&base(&paths[b])))?;
        let (best, best_pipe) = earliest(&|_, path| path.usable)?;
        // If the send buffer is nearly full, the application probably has more data.
        let more_comes = demand.queued.saturating_add(demand.unacknowledged) >= demand.send_buffer / 4 * 3;
        let drained = best_pipe.answer() + demand.queued as f64 / best_pipe.rate.max(1.0);
        // A path without a measurement is used once. Otherwise it might stay unused for a long time while other paths
        // fill the shared window, or their queues.
        let is_new = |path: &PathView| path.open && path.srtt.is_none() && path.flight == 0;
        if (more_comes || !paths[best].open)
            && let Some(index) = paths.iter().position(is_new)
        {
            return Some(index);
        }
        let is_fit = |index: usize, path: &PathView| {
            let pipe = Pipe::of(path);
            let waits = index != best && !more_comes && drained < pipe.answer();
            path.open && !waits && !self.would_stall(index, fastest, demand.shared_window(), paths)
        };
        earliest(&is_fit).map(|(index, _)| index)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{UNIT, demand, path};
    use super::*;

    fn choose(demand: &Demand, paths: &[PathView]) -> Option<usize> {
        EarliestArrival::default().choose(demand, paths)
    }

    #[test]
    fn a_full_window_shows_that_the_faster_path_needs_more_of_it() {
        let paths = [path(10, 10, 20), path(10, 0, 80)];
        let at = |ms: u64, window| Demand {
            now: Time::from_nanos(ms * 1_000_000),
            ..demand(100, window)
        };
        let mut part = EarliestArrival::default();
        assert_eq!(part.choose(&at(0, 46), &paths), Some(1));
        part.on_stall(&at(50, 46), &paths);
        assert_eq!(part.choose(&at(80, 46), &paths), None);
        // A quarter more for each such round: 1.375 times 40 units, and one unit of the path itself.
        assert_eq!(part.choose(&at(90, 57), &paths), Some(1));
        // The margin decreases slowly.
        let back = (2..60).find(|round| part.choose(&at(80 * round, 46), &paths).is_some());
        assert!(back.is_some_and(|round| (10..14).contains(&round)), "{back:?}");
    }

    #[test]
    fn a_queue_counts_as_part_of_the_way() {
        // 50 units in 100 ms: 500 per second. 46 units take 92 ms, including the path's own 20 ms, against 80 ms.
        let queued = PathView {
            min_rtt: Some(Span::from_millis(20)),
            ..path(50, 45, 100)
        };
        assert_eq!(choose(&demand(9, 999), &[queued, path(10, 0, 80)]), Some(1));
        // 40 units take 80 ms against 81 ms, one more takes 82 ms.
        let at = |flight| {
            let queued = PathView {
                flight: flight * UNIT,
                ..queued
            };
            choose(&demand(9, 999), &[queued, path(10, 0, 81)])
        };
        assert_eq!((at(38), at(39), at(40)), (Some(0), Some(0), Some(1)));
    }

    #[test]
    fn the_slow_path_is_spared_if_the_others_would_stall() {
        // Full: 500 units per second, which is 40 units until the slow path's packet is acknowledged after 80 ms, and a
        // margin of one tenth.
        let paths = [path(10, 10, 20), path(10, 0, 80)];
        assert_eq!(choose(&demand(100, 46), &paths), Some(1));
        assert_eq!(choose(&demand(100, 44), &paths), None);
        let paths = [path(10, 10, 20), path(10, 3, 80)];
        assert_eq!(choose(&demand(100, 47), &paths), None);
        assert_eq!(choose(&demand(100, 49), &paths), Some(1));
    }

    #[test]
    fn the_fastest_path_is_spared_while_its_queue_would_stall_the_others() {
        // 100 units in 1 s on the path of 20 ms: 1000 ms. The other path has a round-trip time of 80 ms and sends 125
        // units per second: 137.5 with the margin, and 91 in flight.
        let queued = PathView {
            min_rtt: Some(Span::from_millis(20)),
            ..path(100, 90, 1000)
        };
        let paths = [queued, path(10, 10, 80)];
        assert_eq!(choose(&demand(900, 206), &paths), None);
        assert_eq!(choose(&demand(900, 220), &paths), Some(0));
        // Without its queue no path is faster: it is used whatever the window.
        let paths = [path(100, 90, 20), path(10, 10, 80)];
        assert_eq!(choose(&demand(900, 92), &paths), Some(0));
    }

    #[test]
    fn a_path_without_a_measurement_is_used_once_when_the_best_is_full() {
        let new = PathView {
            srtt: None,
            min_rtt: None,
            rto: Span::from_secs(1),
            ..path(4, 0, 20)
        };
        let with = |flight, new: PathView| choose(&demand(3, 999), &[path(10, flight, 20), new]);
        assert_eq!(with(9, new), Some(0), "the known path has room");
        assert_eq!(with(10, new), Some(1));
        let used = PathView { flight: UNIT, ..new };
        assert_eq!(with(10, used), None, "until there is an answer");
    }

    #[test]
    fn little_waits_for_the_fast_path() {
        // 11 units in flight: a round-trip time of 22 ms, and 2 ms for each queued unit, against 80 ms.
        let paths = [path(10, 10, 20), path(10, 0, 80)];
        assert_eq!(choose(&demand(28, 999), &paths), None);
        assert_eq!(choose(&demand(30, 999), &paths), Some(1));
        // With a full send buffer, more data may follow.
        let full = Demand {
            send_buffer: 50 * UNIT,
            unacknowledged: 40 * UNIT,
            ..demand(10, 999)
        };
        assert_eq!(choose(&full, &paths), Some(1));
        assert_eq!(choose(&demand(1, 999), &[path(1, 1, 9)]), None);
    }
}
