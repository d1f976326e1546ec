//! Earliest arrival: a packet goes where it will arrive first, counting what waits before it at the bottleneck. Where that path's
//! window is full, the next one takes it, unless that would stall the others, which share the receive window with it, or unless what
//! waits would be there sooner by waiting.

use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

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
        Box::new(*self)
    }
}

/// A path as a pipe with a bottleneck.
#[derive(Clone, Copy, Debug)]
struct Pipe {
    /// Bytes per second.
    rate: f64,
    /// The way there without any queue, in seconds: half of the shortest round-trip time.
    way: f64,
    /// What the next packet waits at the bottleneck, in seconds.
    queue: f64,
}

impl Pipe {
    fn of(path: &PathView) -> Self {
        let base = path.min_rtt.unwrap_or(path.round()).as_secs_f64();
        let rate = path.cwnd as f64 / path.round().as_secs_f64().max(1e-9);
        let load = path.flight.saturating_add(path.unit) as f64;
        Pipe {
            rate,
            way: base / 2.0,
            queue: (load / rate.max(1.0) - base).max(0.0),
        }
    }

    /// When a packet that is sent now arrives, in seconds from now.
    fn arrival(&self) -> f64 {
        self.way + self.queue
    }

    /// When it is acknowledged.
    fn answer(&self) -> f64 {
        self.arrival() + self.way
    }
}

impl Distribute for EarliestArrivalParameters {
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize> {
        let earliest = |is_meant: &dyn Fn(&PathView) -> bool| {
            let meant = paths.iter().enumerate().filter(|(_, path)| is_meant(path));
            meant
                .map(|(index, path)| (index, Pipe::of(path)))
                .min_by(|a, b| a.1.arrival().total_cmp(&b.1.arrival()))
        };
        let (best, best_pipe) = earliest(&|path| path.usable)?;
        let (open, pipe) = earliest(&|path| path.open)?;
        if open == best {
            return Some(open);
        }
        // A send buffer that is nearly full has hidden what else there is to send.
        let more_comes = demand.queued.saturating_add(demand.unacknowledged) >= demand.send_buffer / 4 * 3;
        let drained = best_pipe.arrival() + demand.queued as f64 / best_pipe.rate.max(1.0);
        if !more_comes && drained < pipe.arrival() {
            return None;
        }
        // Until it is acknowledged the faster paths send so much, and all of it has to have room behind it.
        let answer = pipe.answer();
        let faster: f64 = paths
            .iter()
            .enumerate()
            .filter(|&(index, path)| path.usable && index != open)
            .map(|(_, path)| Pipe::of(path))
            .filter(|other| other.answer() < answer)
            .map(|other| other.rate * answer)
            .sum();
        let own = paths[open].flight.saturating_add(paths[open].unit) as f64;
        (faster + own <= demand.shared_window() as f64).then_some(open)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{UNIT, demand, path};
    use super::*;
    use crate::Span;

    fn choose(demand: &Demand, paths: &[PathView]) -> Option<usize> {
        EarliestArrivalParameters {}.choose(demand, paths)
    }

    #[test]
    fn a_queue_counts_as_part_of_the_way() {
        // 50 units in 100 ms: 500 in a second. 46 of them take 92 ms, 20 of which the path itself: 10 + 72 ms against 40.
        let queued = PathView {
            min_rtt: Some(Span::from_millis(20)),
            ..path(50, 45, 100)
        };
        assert_eq!(choose(&demand(9, 999), &[queued, path(10, 0, 80)]), Some(1));
        // 25 units take 50 ms: 10 + 30 ms against 40; one unit more is in time, too, the next one is not.
        let at = |flight| {
            let queued = PathView {
                flight: flight * UNIT,
                ..queued
            };
            choose(&demand(9, 999), &[queued, path(10, 0, 81)])
        };
        assert_eq!((at(23), at(24), at(25)), (Some(0), Some(0), Some(1)));
    }

    #[test]
    fn the_slow_path_is_spared_if_the_others_would_stall() {
        // Full: 500 units in a second, which is 40 units until the slow path's packet is acknowledged after 80 ms.
        let paths = [path(10, 10, 20), path(10, 0, 80)];
        assert_eq!(choose(&demand(100, 41), &paths), Some(1));
        assert_eq!(choose(&demand(100, 40), &paths), None);
        let paths = [path(10, 10, 20), path(10, 3, 80)];
        assert_eq!(choose(&demand(100, 43), &paths), None);
        assert_eq!(choose(&demand(100, 44), &paths), Some(1));
    }

    #[test]
    fn little_waits_for_the_fast_path() {
        // 11 units in flight: 12 ms to arrive, and 2 ms for each unit that waits, against 40 ms.
        let paths = [path(10, 10, 20), path(10, 0, 80)];
        assert_eq!(choose(&demand(13, 999), &paths), None);
        assert_eq!(choose(&demand(14, 999), &paths), Some(1));
        // A full send buffer hides that more is to come.
        let full = Demand {
            send_buffer: 50 * UNIT,
            unacknowledged: 40 * UNIT,
            ..demand(10, 999)
        };
        assert_eq!(choose(&full, &paths), Some(1));
        assert_eq!(choose(&demand(1, 999), &[path(1, 1, 9)]), None);
    }
}
