//! Idle-path window estimation (ICE: Pan et al. 2010, 4.1.2): the common part of `ice`, `ice-sparse` and `qa-sctp`.
//!
//! Periodically each idle path carries probes, one for each data packet on the current path, with their own congestion
//! window. The time-weighted means of the windows over the measurement are compared. If the mean of an idle path is
//! larger, data moves to it.
//!
//! A window that was not filled only shows that this much data fits (the idea of RFC 7661): two paths that carry the
//! same messages at a constant rate have windows in proportion to their round-trip times, so the longer path would be
//! selected. Data stays where the application, and not the window, limits the rate ([`Plan::filled`]).
//!
//! A probe counts as delivered when its HEARTBEAT ACK arrives, so a lost HEARTBEAT ACK counts as a lost probe. For data
//! this is different, because SACKs repeat earlier reports. Where HEARTBEAT ACKs are lost, an idle path appears worse
//! than it is.

use super::manage::entry;
use super::{ManagePaths, Order, Paths, PolicyEvent};
use crate::{Span, Time};

/// Schedule and rules of the measurements.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Plan {
    /// Delay of the first measurement after the association is established.
    pub(super) first: Span,
    /// Interval between the starts of two measurements.
    pub(super) period: Span,
    /// Maximum duration of a measurement.
    pub(super) length: Span,
    /// Margin, as a fraction, by which an idle path's mean window must be larger.
    pub(super) margin: f64,
    /// Minimum share of the delivered packets that the current path delivered with a full window.
    pub(super) filled: f64,
    /// The window of the probes grows although it is not fully utilized.
    pub(super) unfilled_growth: bool,
    /// The measurement ends as soon as the result is clear.
    pub(super) early: Option<Early>,
}

/// Criterion for a clear result: batches of nearly equal length, whose means are treated as independent observations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Early {
    /// Length of a batch. The first one is ignored, because the probes' window starts small.
    pub(super) batch: Span,
    /// Minimum number of batches.
    pub(super) least: u32,
    /// Standard errors by which the mean difference must differ from zero.
    pub(super) confidence: f64,
}

/// Minimum number of data packets delivered in a measurement with a result: without data there are no probes.
const LEAST_PACKETS: u32 = 30;

/// Mean window of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    /// The window since `Measurement::seen`.
    now: u64,
    /// Bytes times nanoseconds, for the whole measurement and for the batch.
    total: f64,
    batch: f64,
    /// Differences from the current path's window: number, mean, sum of squared deviations (Welford).
    count: u32,
    difference: f64,
    squares: f64,
}

impl Mean {
    fn observe(&mut self, difference: f64) {
        self.count += 1;
        let off = difference - self.difference;
        self.difference += off / f64::from(self.count);
        self.squares += off * (difference - self.difference);
    }

    /// Returns whether the mean difference differs from zero by the required number of standard errors.
    fn is_clear(&self, early: &Early) -> bool {
        let n = f64::from(self.count);
        self.count >= early.least.max(2)
            && self.difference * self.difference * n * (n - 1.0) >= early.confidence * early.confidence * self.squares
    }
}

/// One measurement.
#[derive(Debug)]
struct Measurement {
    /// The path that carried data at the start.
    base: usize,
    begun: Time,
    until: Time,
    batch_begun: Time,
    batch_end: Time,
    batches: u32,
    /// The time up to which the means are computed.
    seen: Time,
    /// Packets delivered by the current path, and the number of those delivered with a full window.
    delivered: u32,
    filled: u32,
    means: Vec<Mean>,
}

/// State of the estimation of an association.
#[derive(Debug)]
pub(super) struct Estimation {
    plan: Plan,
    /// When the next measurement starts; `None` before the first call.
    next: Option<Time>,
    running: Option<Measurement>,
    orders: Vec<(usize, Order)>,
    /// The best path, until it has become the primary path.
    found: Option<usize>,
}

impl Estimation {
    pub(super) fn new(plan: Plan) -> Self {
        Estimation {
            plan,
            next: None,
            running: None,
            orders: Vec::new(),
            found: None,
        }
    }

    /// Advances the measurement to the current time.
    fn advance(&mut self, paths: &Paths<'_>) {
        self.found = self.found.and_then(|path| paths.usable(path));
        let next = *self.next.get_or_insert(paths.now + self.plan.first);
        if self.running.is_none() && next <= paths.now {
            self.begin(paths);
        }
        let Some(running) = &mut self.running else { return };
        running.integrate(paths);
        if paths.current != running.base {
            // Data has moved for another reason: the comparison is no longer possible.
            self.end(paths, false);
        } else if running.until <= paths.now {
            self.end(paths, true);
        } else if let Some(early) = self.plan.early.filter(|_| running.batch_end <= paths.now) {
            running.end_batch(&early, self.plan.margin);
            if running.is_clear(&early) {
                self.end(paths, true);
            }
        }
    }

    fn begin(&mut self, paths: &Paths<'_>) {
        self.next = Some(paths.now + self.plan.period);
        self.found = None;
        let unfilled = self.plan.unfilled_growth;
        let mut means = Vec::with_capacity(paths.views.len());
        means.resize_with(paths.views.len(), Mean::default);
        self.orders
            .extend(paths.others().map(|(path, _)| (path, Order::Follow { unfilled })));
        if self.orders.is_empty() {
            return;
        }
        let mut running = Measurement {
            base: paths.current,
            begun: paths.now,
            until: paths.now + self.plan.length,
            batch_begun: paths.now,
            batch_end: self.plan.early.map_or(Time::MAX, |early| paths.now + early.batch),
            batches: 0,
            seen: paths.now,
            delivered: 0,
            filled: 0,
            means,
        };
        running.integrate(paths);
        self.running = Some(running);
    }

    fn end(&mut self, paths: &Paths<'_>, is_complete: bool) {
        let Some(running) = self.rest() else { return };
        if !is_complete || running.delivered < LEAST_PACKETS {
            return;
        }
        if f64::from(running.filled) < self.plan.filled * f64::from(running.delivered) {
            // The current path carries all available data.
            return;
        }
        let base = running.means.get(running.base).map_or(0.0, |mean| mean.total);
        let limit = base * (1.0 + self.plan.margin);
        self.found = paths
            .others()
            .filter_map(|(path, _)| Some((path, running.means.get(path)?.total)))
            .filter(|(_, total)| *total > limit)
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(path, _)| path);
    }

    /// Ends the measurement.
    fn rest(&mut self) -> Option<Measurement> {
        let running = self.running.take()?;
        let others = (0..running.means.len()).filter(|path| *path != running.base);
        self.orders.extend(others.map(|path| (path, Order::Rest)));
        Some(running)
    }
}

impl ManagePaths for Estimation {
    fn on_event(&mut self, paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        if let (Some(running), PolicyEvent::Delivered { packets, filled, .. }) = (&mut self.running, event)
            && path == running.base
        {
            running.delivered = running.delivered.saturating_add(*packets);
            if *filled {
                running.filled = running.filled.saturating_add(*packets);
            }
        }
        if matches!(event, PolicyEvent::Chosen) {
            self.found = None;
        }
        self.advance(paths);
    }

    fn on_replaced(&mut self, path: usize) {
        self.found.take_if(|found| *found == path);
        self.rest();
    }

    fn on_timer(&mut self, paths: &Paths<'_>) {
        self.advance(paths);
    }

    fn next_timer(&self) -> Time {
        match (&self.running, self.next) {
            (Some(running), _) => running.until.min(running.batch_end),
            (None, Some(next)) => next,
            // At the next opportunity.
            (None, None) => Time::ZERO,
        }
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        self.found.and_then(|path| paths.usable(path)).unwrap_or(standard)
    }

    /// The selected path becomes the primary path once data is sent on it.
    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        self.found
            .take_if(|path| *path == paths.current)
            .unwrap_or(paths.primary)
    }

    fn next_order(&mut self) -> Option<(usize, Order)> {
        self.orders.pop()
    }
}

impl Measurement {
    fn integrate(&mut self, paths: &Paths<'_>) {
        let passed = paths.now.min(self.until).since(self.seen).as_nanos() as f64;
        self.seen = paths.now;
        for (path, view) in paths.views.iter().enumerate() {
            let window = if path == self.base {
                Some(view.cwnd)
            } else {
                paths.probes.get(path).copied().flatten()
            };
            let mean = entry(&mut self.means, path);
            mean.total += mean.now as f64 * passed;
            mean.batch += mean.now as f64 * passed;
            mean.now = window.unwrap_or(0);
        }
    }

    fn end_batch(&mut self, early: &Early, margin: f64) {
        self.batches += 1;
        // After a late call, the elapsed time counts as one long batch, without empty batches.
        let lasted = self.seen.since(self.batch_begun).as_nanos().max(1) as f64;
        self.batch_begun = self.seen;
        self.batch_end = self.seen + early.batch;
        let base = self.means.get(self.base).map_or(0.0, |mean| mean.batch) * (1.0 + margin);
        for mean in &mut self.means {
            let sum = core::mem::take(&mut mean.batch);
            if self.batches > 1 {
                mean.observe((sum - base) / lasted);
            } else {
                // Data before the end of the first batch is not part of the result.
                mean.total = 0.0;
            }
        }
    }

    fn is_clear(&self, early: &Early) -> bool {
        let others = self
            .means
            .iter()
            .enumerate()
            .filter(|(path, mean)| *path != self.base && mean.now > 0);
        let mut clear = others.map(|(_, mean)| mean.is_clear(early));
        self.begun < self.seen && clear.next() == Some(true) && clear.all(|clear| clear)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::view;
    use super::*;
    use crate::multipath::PathView;

    fn paths(views: &[PathView], now: u64) -> Paths<'_> {
        Paths {
            now: Time::from_nanos(now * 1_000_000_000),
            primary: 0,
            current: 0,
            views,
            probes: &[],
        }
    }

    #[test]
    fn what_was_found_is_forgotten_once_it_cannot_be_used_or_is_measured_again() {
        let plan = super::super::IceParameters::default().plan();
        let found = || Estimation {
            found: Some(1),
            next: Some(Time::from_nanos(100_000_000_000)),
            ..Estimation::new(plan)
        };
        let mut views = [view(100), view(100)];
        let mut estimation = found();
        estimation.on_timer(&paths(&views, 10));
        assert_eq!(estimation.sending(0, &paths(&views, 10)), 1);
        views[1].usable = false;
        estimation.on_timer(&paths(&views, 11));
        views[1].usable = true;
        estimation.on_timer(&paths(&views, 12));
        assert_eq!(estimation.sending(0, &paths(&views, 12)), 0, "that was long ago");
        let mut estimation = found();
        estimation.on_timer(&paths(&views, 100));
        assert_eq!(estimation.sending(0, &paths(&views, 100)), 0);
    }

    #[test]
    fn whoever_wakes_late_has_had_one_long_batch() {
        let early = Early {
            batch: Span::from_secs(1),
            least: 4,
            confidence: 2.0,
        };
        let mut running = Measurement {
            base: 0,
            begun: Time::ZERO,
            until: Time::from_nanos(30_000_000_000),
            batch_begun: Time::ZERO,
            batch_end: Time::from_nanos(1_000_000_000),
            batches: 0,
            seen: Time::ZERO,
            delivered: 0,
            filled: 0,
            means: vec![Mean::default(); 2],
        };
        let views = [view(100), view(100)];
        let probes = [None, Some(3 * views[0].cwnd)];
        for second in [0, 1, 8, 9] {
            let paths = Paths {
                probes: &probes,
                ..paths(&views, second)
            };
            running.integrate(&paths);
            if running.batch_end <= paths.now {
                running.end_batch(&early, 0.0);
            }
        }
        // Of the three batches the first one is ignored; the other two show the same difference.
        let Mean {
            count,
            difference,
            squares,
            ..
        } = running.means[1];
        assert_eq!((count, difference), (2, 2.0 * views[0].cwnd as f64));
        assert!(squares < 1e-6, "{squares}");
    }
}
