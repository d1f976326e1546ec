//! Delay-centric handover (Kelly, Muntean, Perry and Murphy, "Delay-centric handover in SCTP over WLAN", 2004): the
//! path with the lowest smoothed round-trip time carries data. Idle paths are measured by additional heartbeats.
//!
//! The paper does not discuss flapping. Additions of Whimbrel: the round-trip time of another path must be smaller by a
//! margin for some time. Data increases the delay by its own queue at the bottleneck. Therefore a path that data has
//! left is rated by its delay under load, or by its current delay if that is longer, until the former has expired.

use super::manage::{entry, forget};
use super::rounds::Rounds;
use super::{ManagePaths, Order, Paths, PolicyEvent};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::{Span, Time};

/// The path with the lowest delay.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct DelayCentricParameters {
    /// Fraction by which the smoothed round-trip time of the other path must be shorter, 0 to 0.99.
    pub margin: f64,
    /// Time for which it must be shorter before data moves, up to 1 h.
    pub hold: Span,
    /// Time between the heartbeats that measure an idle path, 10 ms to 1 h.
    pub interval: Span,
    /// Time for which a delay that was measured under load is remembered, up to 24 h.
    pub memory: Span,
}

impl Default for DelayCentricParameters {
    fn default() -> Self {
        DelayCentricParameters {
            margin: 0.2,
            hold: Span::from_secs(1),
            interval: Span::from_secs(1),
            memory: Span::from_secs(60),
        }
    }
}

/// The round-trip time of a path under load, and when it expires.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    srtt: Span,
    until: Time,
}

#[derive(Debug)]
struct DelayCentric {
    parameters: DelayCentricParameters,
    loaded: Vec<Loaded>,
    /// The selected path, after the first selection.
    chosen: Option<usize>,
    /// A path that has been better, and since when.
    better: Option<(usize, Time)>,
    rounds: Rounds,
}

impl Part<dyn ManagePaths> for DelayCentricParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("margin", self.margin, 0.0, 0.99, "")?;
        in_range("hold", self.hold.as_secs_f64(), 0.0, 3600.0, "s")?;
        in_range("interval", self.interval.as_secs_f64(), 0.01, 3600.0, "s")?;
        in_range("memory", self.memory.as_secs_f64(), 0.0, 86_400.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(DelayCentric {
            parameters: *self,
            loaded: Vec::new(),
            chosen: None,
            better: None,
            rounds: Rounds::new(self.interval),
        })
    }
}

impl DelayCentric {
    /// Returns the expected round-trip time of an idle path with data on it.
    fn expected(&self, path: usize, now: Time, srtt: Span) -> Span {
        match self.loaded.get(path) {
            Some(loaded) if now < loaded.until => srtt.max(loaded.srtt),
            _ => srtt,
        }
    }

    fn compare(&mut self, paths: &Paths<'_>) {
        let now = paths.now;
        let Some(here) = paths.views.get(paths.current).and_then(|view| view.srtt) else {
            return;
        };
        let best = paths
            .others()
            .filter_map(|(path, view)| Some((self.expected(path, now, view.srtt?), path)))
            .min();
        let limit = here.as_secs_f64() * (1.0 - self.parameters.margin);
        let Some((_, path)) = best.filter(|(srtt, _)| srtt.as_secs_f64() < limit) else {
            self.better = None;
            return;
        };
        let since = match self.better {
            Some((known, since)) if known == path => since,
            _ => now,
        };
        self.better = Some((path, since));
        if now.since(since) >= self.parameters.hold {
            self.better = None;
            self.chosen = Some(path);
            *entry(&mut self.loaded, paths.current) = Loaded {
                srtt: here,
                until: now + self.parameters.memory,
            };
        }
    }
}

impl ManagePaths for DelayCentric {
    fn on_event(&mut self, paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        match event {
            PolicyEvent::Delivered { .. } | PolicyEvent::Answered { .. } => self.compare(paths),
            PolicyEvent::Chosen => {
                self.chosen = Some(path);
                self.better = None;
            }
            PolicyEvent::Timeout { .. } | PolicyEvent::Report { .. } | PolicyEvent::Train { .. } => {}
        }
    }

    fn on_replaced(&mut self, path: usize) {
        forget(&mut self.loaded, path);
        self.chosen.take_if(|chosen| *chosen == path);
        self.better.take_if(|(better, _)| *better == path);
    }

    fn on_timer(&mut self, paths: &Paths<'_>) {
        if self.rounds.is_due(paths.now) {
            self.rounds.begin(paths, |path| path != paths.current);
        }
    }

    fn next_timer(&self) -> Time {
        self.rounds.next()
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        self.chosen.and_then(|path| paths.usable(path)).unwrap_or(standard)
    }

    fn next_order(&mut self) -> Option<(usize, Order)> {
        self.rounds.take().map(|path| (path, Order::Heartbeat))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench(srtts: &[u64]) -> Bench {
        let context = BuildContext::default();
        Bench::new(DelayCentricParameters::default().build(&context), srtts)
    }

    fn acks(bench: &mut Bench, millis: u64) {
        for _ in 0..millis / 100 {
            bench.pass(Span::from_millis(100));
            let current = bench.current;
            bench.delivered(current, 1);
        }
    }

    #[test]
    fn the_shorter_path_takes_over_once_it_has_been_shorter_for_a_while() {
        let mut bench = bench(&[100, 70]);
        acks(&mut bench, 1000);
        assert_eq!(bench.current, 0, "the first event was after 100 ms");
        acks(&mut bench, 100);
        assert_eq!(bench.current, 1);
        // No change within the margin.
        let mut bench = self::bench(&[100, 81]);
        acks(&mut bench, 10_000);
        assert_eq!(bench.current, 0);
        // A path that is better only intermittently is not selected.
        let mut bench = self::bench(&[100, 70]);
        for _ in 0..10 {
            acks(&mut bench, 500);
            bench.views[1].srtt = Some(Span::from_millis(100));
            acks(&mut bench, 100);
            bench.views[1].srtt = Some(Span::from_millis(70));
        }
        assert_eq!(bench.current, 0);
    }

    #[test]
    fn the_queue_that_data_makes_itself_does_not_send_it_to_and_fro() {
        // 50 ms when idle, 100 ms with data on it, for both paths.
        let mut bench = bench(&[100, 50]);
        let mut switches = 0;
        for _ in 0..600 {
            let before = bench.current;
            acks(&mut bench, 100);
            if bench.current != before {
                switches += 1;
                bench.views[before].srtt = Some(Span::from_millis(50));
                let current = bench.current;
                bench.views[current].srtt = Some(Span::from_millis(100));
            }
        }
        assert!(switches <= 2, "{switches} in a minute");
    }

    #[test]
    fn idle_paths_are_measured_in_rounds() {
        let mut bench = bench(&[100, 100, 100]);
        bench.pass(Span::from_millis(3500));
        let asked: Vec<_> = bench.orders.iter().map(|(path, _)| *path).collect();
        assert_eq!(asked, [2, 1].repeat(4));
    }

    #[test]
    fn a_path_without_a_measurement_is_not_chosen() {
        let mut bench = bench(&[100, 10]);
        bench.views[1].srtt = None;
        acks(&mut bench, 5000);
        assert_eq!(bench.current, 0);
    }
}
