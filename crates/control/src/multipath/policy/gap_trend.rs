//! A-SCTP (Pongaliur 2005, chapter 4): gap ack blocks and duplicate TSNs that keep rising from SACK to SACK indicate that a
//! path is degrading, long before its timer expires. Data moves to the co-primary path, and returns if
//! no data is acknowledged there within little more than a round-trip time.
//!
//! The thesis's Figure 4.6 with the exact counter is lost. `counter`, `reset` and `period` select among the readings that the surviving
//! text allows (studies/asctp-gain). A further addition of Whimbrel: no switch for some time after one was reverted.

use super::{ManagePaths, Paths, PolicyEvent};
use crate::multipath::PathView;
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::{Span, Time};

/// What must exceed the threshold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Counter {
    /// The number of rises of the gap ack blocks, or that of the duplicate TSNs.
    #[default]
    Either,
    /// Both of these numbers. A SACK hardly ever has two duplicate TSNs, so that this does not happen in practice.
    Both,
    /// The number of rises of the sum of gap ack blocks and duplicate TSNs.
    Sum,
    /// That sum itself; over a period, its mean for each SACK.
    Level,
}

/// What sets the number of rises back to zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum Reset {
    /// An observation that is smaller than the one before.
    #[default]
    Fall,
    /// An observation that is not larger than the one before.
    NoRise,
    /// A switch only.
    Never,
}

/// Trends of gaps and duplicates.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct GapTrendParameters {
    /// The path is degrading if `counter` exceeds this number, 1 to 1000. In the thesis, 2 leaves paths too early and 4 too late.
    pub threshold: u32,
    /// What must exceed the threshold.
    pub counter: Counter,
    /// What sets a number of rises back to zero.
    pub reset: Reset,
    /// Duration of an observation, up to 60 s: the numbers of its SACKs are added. 0 s: each SACK is an observation.
    pub period: Span,
    /// Largest round-trip time of the co-primary path, as a multiple of the shortest one of all paths, 1 to 100.
    pub rtt_ratio: f64,
    /// path_shift: round-trip times of the primary path in which something must be acknowledged on the new one, 1 to 100.
    pub shift: f64,
    /// Minimum time between the return from a failed switch and the next switch, up to 1 h.
    pub hold: Span,
}

impl Default for GapTrendParameters {
    fn default() -> Self {
        GapTrendParameters {
            threshold: 3,
            counter: Counter::Either,
            reset: Reset::Fall,
            period: Span::ZERO,
            rtt_ratio: 1.1,
            shift: 1.1,
            hold: Span::from_secs(1),
        }
    }
}

/// A number that is observed repeatedly.
#[derive(Clone, Copy, Debug, Default)]
struct Trend {
    last: u32,
    rising: u32,
}

impl Trend {
    /// Returns the number of rises with this observation.
    fn observe(&mut self, value: u32, reset: Reset) -> u32 {
        use core::cmp::Ordering::{Equal, Greater, Less};
        match (value.cmp(&self.last), reset) {
            (Greater, _) => self.rising = self.rising.saturating_add(1),
            (Less, Reset::Fall) | (Less | Equal, Reset::NoRise) => self.rising = 0,
            (Less | Equal, Reset::Never) | (Equal, Reset::Fall) => {}
        }
        self.last = value;
        self.rising
    }
}

/// What one SACK reports, or those of a period.
#[derive(Clone, Copy, Debug, Default)]
struct Observation {
    gaps: u32,
    duplicates: u32,
    sacks: u32,
}

impl Observation {
    fn add(&mut self, other: Observation) {
        self.gaps = self.gaps.saturating_add(other.gaps);
        self.duplicates = self.duplicates.saturating_add(other.duplicates);
        self.sacks = self.sacks.saturating_add(other.sacks);
    }

    fn sum(&self) -> u32 {
        self.gaps.saturating_add(self.duplicates)
    }
}

/// A switch that is not confirmed yet.
#[derive(Clone, Copy, Debug)]
struct Shift {
    to: usize,
    until: Time,
}

#[derive(Debug)]
struct GapTrend {
    parameters: GapTrendParameters,
    gaps: Trend,
    duplicates: Trend,
    sum: Trend,
    /// Numbers of the current period, and its end.
    current: Observation,
    period_end: Time,
    shift: Option<Shift>,
    /// The new path is confirmed, and becomes the primary path.
    accepted: Option<usize>,
    /// No switch before this time.
    held_until: Time,
}

impl Part<dyn ManagePaths> for GapTrendParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("threshold", self.threshold.into(), 1.0, 1000.0, "observations")?;
        in_range("period", self.period.as_secs_f64(), 0.0, 60.0, "s")?;
        in_range("rtt_ratio", self.rtt_ratio, 1.0, 100.0, "")?;
        in_range("shift", self.shift, 1.0, 100.0, "round-trip times")?;
        in_range("hold", self.hold.as_secs_f64(), 0.0, 3600.0, "s")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn ManagePaths> {
        Box::new(GapTrend {
            parameters: *self,
            gaps: Trend::default(),
            duplicates: Trend::default(),
            sum: Trend::default(),
            current: Observation::default(),
            period_end: Time::ZERO,
            shift: None,
            accepted: None,
            held_until: Time::ZERO,
        })
    }
}

impl GapTrend {
    fn observe(&mut self, paths: &Paths<'_>, gaps: u32, duplicates: u32) {
        let sack = Observation {
            gaps,
            duplicates,
            sacks: 1,
        };
        let observation = if self.parameters.period.is_zero() {
            sack
        } else if paths.now < self.period_end {
            self.current.add(sack);
            return;
        } else {
            self.period_end = paths.now + self.parameters.period;
            core::mem::replace(&mut self.current, sack)
        };
        if self.is_degrading(observation) && self.shift.is_none() && paths.now >= self.held_until {
            self.switch(paths);
        }
    }

    fn is_degrading(&mut self, observation: Observation) -> bool {
        let (limit, reset) = (self.parameters.threshold, self.parameters.reset);
        let gaps = self.gaps.observe(observation.gaps, reset) > limit;
        let duplicates = self.duplicates.observe(observation.duplicates, reset) > limit;
        let sum = self.sum.observe(observation.sum(), reset) > limit;
        match self.parameters.counter {
            Counter::Both => gaps && duplicates,
            Counter::Either => gaps || duplicates,
            Counter::Sum => sum,
            Counter::Level => u64::from(observation.sum()) > u64::from(limit) * u64::from(observation.sacks),
        }
    }

    fn switch(&mut self, paths: &Paths<'_>) {
        let Some(to) = self.co_primary(paths) else { return };
        let rtt = paths.views.get(paths.current).map_or(Span::ZERO, PathView::round);
        let wait = Span::from_secs_f64(rtt.as_secs_f64() * self.parameters.shift);
        self.shift = Some(Shift {
            to,
            until: paths.now + wait,
        });
        self.begin_anew();
    }

    /// Returns the fastest path among those with nearly the shortest round-trip time whose last hop differs from that
    /// of the current path. If there is none, or the last hops are unknown, returns the fastest path (Pongaliur 2005,
    /// Figure 4.7).
    fn co_primary(&self, paths: &Paths<'_>) -> Option<usize> {
        let shortest = paths.others().map(|(_, view)| view.round()).min()?;
        let limit = shortest.as_secs_f64() * self.parameters.rtt_ratio;
        let here = paths.views.get(paths.current).and_then(|view| view.last_hop);
        let is_apart = |view: &PathView| here.is_some() && view.last_hop.is_some() && view.last_hop != here;
        paths
            .others()
            .filter(|(_, view)| view.round().as_secs_f64() <= limit)
            .min_by_key(|(_, view)| (!is_apart(view), view.round()))
            .map(|(path, _)| path)
    }

    fn begin_anew(&mut self) {
        self.gaps = Trend::default();
        self.duplicates = Trend::default();
        self.sum = Trend::default();
        self.current = Observation::default();
    }
}

impl ManagePaths for GapTrend {
    fn on_event(&mut self, paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        match event {
            PolicyEvent::Report { gaps, duplicates } if path == paths.current => {
                self.observe(paths, *gaps, *duplicates)
            }
            PolicyEvent::Delivered { .. } => {
                if let Some(shift) = self.shift.take_if(|shift| shift.to == path) {
                    self.accepted = Some(shift.to);
                }
            }
            PolicyEvent::Chosen => {
                self.shift = None;
                self.begin_anew();
            }
            PolicyEvent::Report { .. }
            | PolicyEvent::Timeout { .. }
            | PolicyEvent::Answered { .. }
            | PolicyEvent::Train { .. } => {}
        }
    }

    fn on_replaced(&mut self, path: usize) {
        self.shift.take_if(|shift| shift.to == path);
        self.accepted.take_if(|accepted| *accepted == path);
    }

    fn on_timer(&mut self, paths: &Paths<'_>) {
        if self.shift.take_if(|shift| shift.until <= paths.now).is_some() {
            self.held_until = paths.now + self.parameters.hold;
        }
    }

    fn next_timer(&self) -> Time {
        self.shift.map_or(Time::MAX, |shift| shift.until)
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        let to = self.shift.map(|shift| shift.to).or(self.accepted);
        to.and_then(|to| paths.usable(to)).unwrap_or(standard)
    }

    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        self.accepted.take().unwrap_or(paths.primary)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench(parameters: GapTrendParameters, srtts: &[u64]) -> Bench {
        let context = BuildContext::default();
        Bench::new(parameters.build(&context), srtts)
    }

    fn report(bench: &mut Bench, gaps: u32, duplicates: u32) {
        let current = bench.current;
        bench.event(current, PolicyEvent::Report { gaps, duplicates });
    }

    /// Four observations, each larger than the previous one.
    fn degrade(bench: &mut Bench) {
        for n in 0..=4 {
            report(bench, n, n);
        }
    }

    #[test]
    fn chapter_4_both_numbers_must_rise_more_often_than_the_threshold() {
        // Pongaliur 2005, 4.3: a threshold of 3.
        let both = GapTrendParameters {
            counter: Counter::Both,
            ..GapTrendParameters::default()
        };
        let mut bench = self::bench(both, &[100, 100]);
        for n in 0..=3 {
            report(&mut bench, n, 2 * n);
            assert_eq!(bench.current, 0, "{n}");
        }
        report(&mut bench, 3, 6);
        assert_eq!(bench.current, 0, "as before: neither rises");
        report(&mut bench, 4, 7);
        assert_eq!(bench.current, 1);
        // Gaps alone have no effect, and neither has a trend that is interrupted.
        let mut bench = self::bench(both, &[100, 100]);
        for n in 0..20 {
            report(&mut bench, n, 1);
        }
        for n in [1, 2, 3, 0, 1, 2, 3, 0] {
            report(&mut bench, n, n);
        }
        assert_eq!(bench.current, 0);
    }

    #[test]
    fn each_counter_has_its_rule() {
        // Gap ack blocks and duplicate TSNs of SACKs, and by which of them each counter has indicated degradation with a threshold of 2.
        let switches = |counter, reset, sacks: &[(u32, u32)]| {
            let parameters = GapTrendParameters {
                threshold: 2,
                counter,
                reset,
                ..GapTrendParameters::default()
            };
            let mut bench = self::bench(parameters, &[100, 100]);
            sacks.iter().position(|&(gaps, duplicates)| {
                report(&mut bench, gaps, duplicates);
                bench.current == 1
            })
        };
        let gaps_only = [(1, 0), (2, 0), (3, 0)];
        assert_eq!(switches(Counter::Both, Reset::Fall, &gaps_only), None);
        assert_eq!(switches(Counter::Either, Reset::Fall, &gaps_only), Some(2));
        assert_eq!(switches(Counter::Sum, Reset::Fall, &gaps_only), Some(2));
        assert_eq!(switches(Counter::Level, Reset::Fall, &gaps_only), Some(2));
        let in_turn = [(1, 0), (1, 1), (2, 1)];
        assert_eq!(switches(Counter::Either, Reset::Fall, &in_turn), None);
        assert_eq!(switches(Counter::Sum, Reset::Fall, &in_turn), Some(2));
        let with_pauses = [(1, 0), (1, 0), (2, 0), (2, 0), (3, 0)];
        assert_eq!(switches(Counter::Either, Reset::Fall, &with_pauses), Some(4));
        assert_eq!(switches(Counter::Either, Reset::NoRise, &with_pauses), None);
        let with_falls = [(1, 0), (0, 0), (1, 0), (0, 0), (1, 0)];
        assert_eq!(switches(Counter::Either, Reset::Fall, &with_falls), None);
        assert_eq!(switches(Counter::Either, Reset::Never, &with_falls), Some(4));
        assert_eq!(switches(Counter::Level, Reset::Fall, &[(1, 1), (9, 0)]), Some(1));
    }

    #[test]
    fn a_level_over_a_period_is_its_mean() {
        let parameters = GapTrendParameters {
            threshold: 2,
            counter: Counter::Level,
            period: Span::from_millis(500),
            ..GapTrendParameters::default()
        };
        // Six SACKs report 8 and the last number.
        for (last, switched) in [(4, false), (5, true)] {
            let mut bench = self::bench(parameters, &[100, 50]);
            report(&mut bench, 0, 0);
            for gaps in [2, 1, 3, last] {
                report(&mut bench, gaps, 0);
            }
            report(&mut bench, 0, 2);
            bench.pass(Span::from_millis(500));
            report(&mut bench, 0, 0);
            assert_eq!(bench.current == 1, switched, "{last}");
        }
    }

    #[test]
    fn the_co_primary_is_nearly_the_fastest_and_ends_elsewhere() {
        // Pongaliur 2005, Figure 4.7: t_a = 50 ms, and all paths up to 55 ms.
        let mut bench = self::bench(GapTrendParameters::default(), &[100, 50, 54, 60]);
        degrade(&mut bench);
        assert_eq!(bench.current, 1, "last hops are unknown: the fastest path");
        let mut bench = self::bench(GapTrendParameters::default(), &[100, 50, 54, 60]);
        for (view, hop) in bench.views.iter_mut().zip([7, 7, 8, 9]) {
            view.last_hop = Some(hop);
        }
        degrade(&mut bench);
        assert_eq!(bench.current, 2, "60 ms is beyond 1.1 t_a");
        let mut bench = self::bench(GapTrendParameters::default(), &[100, 50, 54]);
        bench.views[1].usable = false;
        degrade(&mut bench);
        assert_eq!(bench.current, 2);
        let mut bench = self::bench(GapTrendParameters::default(), &[100]);
        degrade(&mut bench);
        assert_eq!(bench.current, 0, "there is no other");
    }

    #[test]
    fn path_shift_takes_the_switch_back_unless_something_is_acknowledged() {
        // Pongaliur 2005, 4.3: 1.1 RTT of the primary path, which is 100 ms.
        let mut bench = self::bench(GapTrendParameters::default(), &[100, 50]);
        degrade(&mut bench);
        assert_eq!((bench.current, bench.primary), (1, 0));
        bench.pass(Span::from_millis(109));
        assert_eq!(bench.current, 1);
        bench.pass(Span::from_millis(1));
        assert_eq!((bench.current, bench.primary), (0, 0));
        degrade(&mut bench);
        assert_eq!(bench.current, 0, "not again at once");
        bench.pass(Span::from_secs(1));
        degrade(&mut bench);
        degrade(&mut bench);
        assert_eq!(bench.current, 1);
        bench.delivered(0, 1);
        assert_eq!(bench.primary, 0, "it is about the other path");
        bench.delivered(1, 1);
        bench.pass(Span::from_secs(10));
        assert_eq!((bench.current, bench.primary), (1, 1), "it stays the primary one");
    }

    #[test]
    fn a_user_who_chooses_a_primary_is_obeyed() {
        let mut bench = self::bench(GapTrendParameters::default(), &[100, 50]);
        degrade(&mut bench);
        bench.event(0, PolicyEvent::Chosen);
        assert_eq!(bench.current, 0);
        assert_eq!(bench.policy.next_timer(), Time::MAX);
    }

    #[test]
    fn an_observation_may_be_what_a_period_adds_up_to() {
        let parameters = GapTrendParameters {
            period: Span::from_millis(500),
            ..GapTrendParameters::default()
        };
        let mut bench = self::bench(parameters, &[100, 50]);
        // One block in each SACK, and more SACKs in each period.
        for period in 1..=5 {
            for _ in 0..period {
                assert_eq!(bench.current, 0, "in period {period}");
                report(&mut bench, 1, 1);
                if bench.current == 1 {
                    break;
                }
            }
            if period < 5 {
                bench.pass(Span::from_millis(500));
            }
        }
        assert_eq!(bench.current, 1, "0, 1, 2, 3, 4: known as the fifth period begins");
    }
}
