//! The standard window: slow start, congestion avoidance with partial_bytes_acked, halving.
//!
//! RFC 9260 §7.2.1 to §7.2.3. Earlier RFCs differ in constants and in the bytes that count towards partial_bytes_acked
//! ([`GrowthRule`]).

use super::hystart::{HyStart, SlowStart};
use super::{GrowthRule, WindowControl, WindowUpdate, WindowView};
use crate::part::{BuildContext, Part};
use crate::sample::{AckSample, LossEvent};

/// Parameters of the standard window. What editions of the standard set differently, the unit, the initial window, the floor and the
/// rule of growth, is the transport's.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct StandardParameters {
    /// The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the first loss.
    pub hystart: bool,
}

impl Part<dyn WindowControl> for StandardParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(StandardWindow::new(self.hystart))
    }
}

/// State of the standard window control. Window controls that differ from it only in their reaction to loss use it for
/// growth.
#[derive(Clone, Debug, Default)]
pub struct StandardWindow {
    /// Negative if a coupling moves growth to other paths (OLIA).
    partial_bytes_acked: i64,
    /// State of the first slow start. It is boxed, because most associations do not use it, and idle associations
    /// should be small.
    hystart: Option<Box<HyStart>>,
}

impl StandardWindow {
    /// Creates the window control, with or without HyStart++ in the first slow start.
    pub fn new(hystart: bool) -> Self {
        StandardWindow {
            partial_bytes_acked: 0,
            hystart: hystart.then(|| Box::new(HyStart::following_the_rate())),
        }
    }

    /// The first slow start with HyStart++ (RFC 9406 §4.2).
    fn start_slowly(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        let growth = self.growth(window, ack);
        let Some(hystart) = &mut self.hystart else {
            return grown(window, growth);
        };
        match hystart.on_ack(ack) {
            SlowStart::Full => grown(window, growth),
            SlowStart::Conservative => grown(window, hystart.slowed(growth)),
            // In congestion avoidance cwnd exceeds ssthresh.
            SlowStart::Over => WindowUpdate {
                cwnd: window.cwnd,
                ssthresh: window.cwnd.saturating_sub(1),
            },
        }
    }

    /// Returns the bytes by which an acknowledgement lets the congestion window grow.
    // [9260:7.2-1, 7.2-2, 7.2.1-5, 7.2.1-6, 7.2.1-7, 7.2.1-8, 7.2.2-1, 7.2.2-2, 7.2.2-3]
    #[inline]
    pub fn growth(&mut self, window: WindowView, ack: &AckSample) -> u64 {
        // A coupling with other paths may reduce the growth, or shrink the window.
        let scaled = |bytes: u64| {
            if window.limits.growth == 1.0 {
                bytes.min(i64::MAX as u64) as i64
            } else {
                (bytes as f64 * window.limits.growth) as i64
            }
        };
        if window.in_slow_start() {
            // RFC 9260 §7.2.1: only with a fully utilized window, outside of fast recovery, and when the cumulative TSN
            // ack point advances (kept from RFC 4960), by at most one unit.
            let grows = ack.cumulative_advanced && ack.flight_before >= window.cwnd && !ack.in_recovery;
            return if grows {
                scaled(ack.acked.min(window.unit)).max(0) as u64
            } else {
                0
            };
        }
        // Fast recovery is not tested here: a reduction sets cwnd to ssthresh, which is slow start, and the test above holds until it ends.
        // RFC 9260 §7.2.2; RFC 4960 and RFC 2960 §7.2.2 count only "each SACK arrival that advances the Cumulative TSN Ack Point".
        let counts = match window.growth {
            GrowthRule::EveryAck => true,
            GrowthRule::CumulativeAdvance => ack.cumulative_advanced,
            GrowthRule::FullWindow => ack.cumulative_advanced && ack.flight_before >= window.cwnd,
        };
        if counts {
            self.partial_bytes_acked = self.partial_bytes_acked.saturating_add(scaled(ack.acked));
        }
        let mut growth = 0;
        let cwnd = window.cwnd.min(i64::MAX as u64) as i64;
        if window.growth == GrowthRule::FullWindow && ack.in_recovery {
            // In ns-2, the window grows only after all data outstanding at the loss is acknowledged.
        } else if self.partial_bytes_acked >= cwnd {
            if ack.flight_before >= window.cwnd {
                self.partial_bytes_acked -= cwnd;
                growth = window.unit;
            } else if window.growth == GrowthRule::EveryAck {
                self.partial_bytes_acked = cwnd;
            }
        }
        if ack.all_acked {
            self.partial_bytes_acked = self.partial_bytes_acked.min(0);
        }
        growth
    }

    /// Returns the window reduced by a unit because of a coupling: once per window of negative growth, down to one
    /// unit. It stays in congestion avoidance.
    fn shrunk(&mut self, window: WindowView) -> Option<WindowUpdate> {
        let cwnd = window.cwnd.min(i64::MAX as u64) as i64;
        if window.in_slow_start() || self.partial_bytes_acked > -cwnd {
            return None;
        }
        self.partial_bytes_acked += cwnd;
        let cwnd = window
            .cwnd
            .saturating_sub(window.unit)
            .max(window.unit)
            .min(window.cwnd);
        Some(WindowUpdate {
            cwnd,
            ssthresh: window.ssthresh.min(cwnd.saturating_sub(1)),
        })
    }

    /// Resets the bytes acknowledged towards the next step of growth.
    pub fn restart(&mut self) {
        self.partial_bytes_acked = 0;
    }
}

fn grown(window: WindowView, growth: u64) -> WindowUpdate {
    WindowUpdate {
        cwnd: window.cwnd.saturating_add(growth),
        ssthresh: window.ssthresh,
    }
}

impl WindowControl for StandardWindow {
    #[inline]
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        if self.hystart.is_some() && window.ssthresh == u64::MAX {
            return self.start_slowly(window, ack);
        }
        let growth = self.growth(window, ack);
        self.shrunk(window).unwrap_or_else(|| grown(window, growth))
    }

    // [9260:7.2.3-1]
    fn on_congestion(&mut self, window: WindowView, _loss: &LossEvent) -> WindowUpdate {
        // RFC 9260 §7.2.3
        self.restart();
        WindowUpdate::both(window.reduced())
    }

    // [9260:7.2.1-10, 7.2.2-4]
    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        // RFC 9260 §7.2.1, last rule: decreases towards the floor, and never increases.
        self.restart();
        WindowUpdate {
            cwnd: window.halved().min(window.cwnd),
            ssthresh: window.ssthresh,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::sample::{LossSignal, Verdict};
    use crate::window::CouplingLimits;
    use crate::window::testing::round;

    const UNIT: u64 = 1468;

    fn ack(acked: u64, flight_before: u64) -> AckSample {
        AckSample::of(Time::ZERO, acked, flight_before)
    }

    fn view(cwnd: u64, ssthresh: u64) -> WindowView {
        WindowView {
            cwnd,
            ssthresh,
            unit: UNIT,
            initial_cwnd: 3 * UNIT,
            floor: 4 * UNIT,
            growth: GrowthRule::EveryAck,
            limits: CouplingLimits::NONE,
        }
    }

    fn loss(signal: LossSignal) -> LossEvent {
        LossEvent::of(Time::ZERO, signal, 0)
    }

    // [9260:7.2-1, 7.2-2, 7.2.1-7, 7.2.1-8]
    #[test]
    fn slow_start_grows_by_what_was_acked_up_to_one_unit() {
        // RFC 9260 §7.2.1
        let mut window = StandardWindow::default();
        assert_eq!(window.growth(view(2 * UNIT, u64::MAX), &ack(2 * UNIT, 2 * UNIT)), UNIT);
        assert_eq!(window.growth(view(2 * UNIT, u64::MAX), &ack(100, 2 * UNIT)), 100);
    }

    // [9260:7.2.1-5, 7.2.1-6]
    #[test]
    fn slow_start_needs_a_full_window_progress_and_no_recovery() {
        // RFC 9260 §7.2.1
        let mut window = StandardWindow::default();
        let at = view(4 * UNIT, u64::MAX);
        assert_eq!(window.growth(at, &ack(UNIT, 4 * UNIT - 1)), 0);
        assert_eq!(
            window.growth(
                at,
                &AckSample {
                    cumulative_advanced: false,
                    ..ack(UNIT, 4 * UNIT)
                }
            ),
            0
        );
        assert_eq!(
            window.growth(
                at,
                &AckSample {
                    in_recovery: true,
                    ..ack(UNIT, 4 * UNIT)
                }
            ),
            0
        );
    }

    // [9260:7.2-1, 7.2-2, 7.2.2-1, 7.2.2-2, 7.2.2-3]
    #[test]
    fn avoidance_grows_by_one_unit_per_window_acked() {
        // RFC 9260 §7.2.2
        let mut window = StandardWindow::default();
        let at = view(4 * UNIT, 2 * UNIT);
        let grown: u64 = (0..8).map(|_| window.growth(at, &ack(UNIT, 4 * UNIT))).sum();
        assert_eq!(grown, 2 * UNIT);
    }

    #[test]
    fn older_editions_count_only_acknowledgements_that_advance_the_cumulative_tsn() {
        // RFC 4960 §7.2.2 and RFC 2960 §7.2.2, by hand, a window of four units. Three gap reports of a unit each do not
        // count. Then the gap is closed, which acknowledges one more unit, and three more advances complete the window.
        let at = WindowView {
            growth: GrowthRule::CumulativeAdvance,
            ..view(4 * UNIT, 2 * UNIT)
        };
        let gap_report = AckSample {
            cumulative_advanced: false,
            ..ack(UNIT, 4 * UNIT)
        };
        let mut window = StandardWindow::default();
        let mut grown = Vec::new();
        for sample in [gap_report; 3].iter().chain(&[ack(UNIT, 4 * UNIT); 4]) {
            grown.push(window.growth(at, sample));
        }
        assert_eq!(grown, [0, 0, 0, 0, 0, 0, UNIT]);
        // RFC 9260 §7.2.2 counts all of them.
        let at = view(4 * UNIT, 2 * UNIT);
        let mut window = StandardWindow::default();
        let grown: u64 = [gap_report; 4].iter().map(|sample| window.growth(at, sample)).sum();
        assert_eq!(grown, UNIT);
    }

    #[test]
    fn older_editions_do_not_cap_the_credit() {
        // RFC 4960 §7.2.2: partial_bytes_acked is not lowered while the window is not full. By hand: 20 units of credit
        // with a window of four units give five steps.
        let at = WindowView {
            growth: GrowthRule::CumulativeAdvance,
            ..view(4 * UNIT, 2 * UNIT)
        };
        let mut window = StandardWindow::default();
        for _ in 0..19 {
            assert_eq!(window.growth(at, &ack(UNIT, UNIT)), 0);
        }
        let grown: Vec<_> = (0..6).map(|_| window.growth(at, &ack(UNIT, 4 * UNIT))).collect();
        assert_eq!(grown, [UNIT; 6], "19 + 6 units acknowledged, six windows of four");
    }

    #[test]
    fn ns_2_counts_only_acknowledgements_that_find_the_window_full() {
        // By hand, a window of four units: six advances with three units in flight, then three with four units. With
        // RFC 4960 the credit is one and a half windows when the window is full for the first time, with ns-2 it is
        // zero.
        let grown = |growth, in_recovery| {
            let at = WindowView {
                growth,
                ..view(4 * UNIT, 2 * UNIT)
            };
            let mut window = StandardWindow::default();
            let mut all = Vec::new();
            for flight in [3, 3, 3, 3, 3, 3, 4, 4, 4, 4] {
                let sample = AckSample {
                    in_recovery,
                    ..ack(UNIT, flight * UNIT)
                };
                all.push(window.growth(at, &sample) / UNIT);
            }
            all
        };
        let (older, ns2) = (GrowthRule::CumulativeAdvance, GrowthRule::FullWindow);
        assert_eq!(grown(older, false), [0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
        assert_eq!(grown(ns2, false), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(grown(ns2, true), [0; 10], "nothing grows in fast recovery");
        assert_eq!(grown(older, true), [0, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
    }

    #[test]
    fn avoidance_keeps_one_window_of_credit_while_the_window_is_not_full() {
        // RFC 9260 §7.2.2: partial_bytes_acked is capped at cwnd, then used up by the first full window
        let mut window = StandardWindow::default();
        let at = view(4 * UNIT, 2 * UNIT);
        for _ in 0..20 {
            assert_eq!(window.growth(at, &ack(UNIT, UNIT)), 0);
        }
        assert_eq!(window.growth(at, &ack(UNIT, 4 * UNIT)), UNIT);
        assert_eq!(window.growth(at, &ack(UNIT, 4 * UNIT)), 0);
    }

    #[test]
    fn credit_ends_when_everything_is_acked() {
        // RFC 9260 §7.2.2, last rule
        let mut window = StandardWindow::default();
        let at = view(4 * UNIT, 2 * UNIT);
        window.growth(
            at,
            &AckSample {
                all_acked: true,
                ..ack(3 * UNIT, 3 * UNIT)
            },
        );
        assert_eq!(window.growth(at, &ack(3 * UNIT, 4 * UNIT)), 0);
    }

    #[test]
    fn a_coupling_scales_growth_and_decides_what_is_left() {
        let mut window = StandardWindow::default();
        let coupled = |at: WindowView, growth| WindowView {
            limits: CouplingLimits::growth(growth),
            ..at
        };
        let sample = ack(UNIT, 8 * UNIT);
        assert_eq!(
            window.growth(coupled(view(8 * UNIT, u64::MAX), 0.25), &sample),
            UNIT / 4
        );
        let at = view(8 * UNIT, 2 * UNIT);
        let grown: u64 = (0..64).map(|_| window.growth(coupled(at, 0.25), &sample)).sum();
        assert_eq!(grown, 2 * UNIT, "64 / 8 windows, a quarter each");
        // Negative growth: one unit less per window of it, and never slow start because of it.
        let mut shrinking = StandardWindow::default();
        let mut left = view(8 * UNIT, 7 * UNIT);
        for _ in 0..16 + 14 + 12 {
            let WindowUpdate { cwnd, ssthresh } = shrinking.on_ack(coupled(left, -0.5), &sample);
            left = view(cwnd, ssthresh);
        }
        assert_eq!((left.cwnd, left.ssthresh), (5 * UNIT, 5 * UNIT - 1));
        let mut smallest = view(UNIT, 0);
        for _ in 0..9 {
            let WindowUpdate { cwnd, ssthresh } = shrinking.on_ack(coupled(smallest, -1.0), &sample);
            smallest = view(cwnd, ssthresh);
        }
        assert_eq!(smallest.cwnd, UNIT, "no less than one unit");
        let left = |bytes| WindowView {
            limits: CouplingLimits::reduced(Some(bytes)),
            ..at
        };
        let gap = loss(LossSignal::Gap);
        assert_eq!(window.on_congestion(left(3 * UNIT), &gap), WindowUpdate::both(3 * UNIT));
        assert_eq!(window.on_congestion(left(0), &gap), WindowUpdate::both(UNIT));
        assert_eq!(window.on_congestion(left(9 * UNIT), &gap), WindowUpdate::both(8 * UNIT));
        let timeout = window.on_timeout(left(3 * UNIT), &loss(LossSignal::Timeout), Verdict::Congestion);
        assert_eq!(timeout.ssthresh, 3 * UNIT);
    }

    // [9260:7.2.3-1, 7.2.3-2]
    #[test]
    fn losses_halve_down_to_the_floor() {
        // RFC 9260 §7.2.3
        let mut window = StandardWindow::default();
        let gap = loss(LossSignal::Gap);
        assert_eq!(
            window.on_congestion(view(20 * UNIT, 40 * UNIT), &gap),
            WindowUpdate {
                cwnd: 10 * UNIT,
                ssthresh: 10 * UNIT
            }
        );
        assert_eq!(
            window.on_congestion(view(5 * UNIT, 40 * UNIT), &gap),
            WindowUpdate {
                cwnd: 4 * UNIT,
                ssthresh: 4 * UNIT
            }
        );
        let timeout = loss(LossSignal::Timeout);
        assert_eq!(
            window.on_timeout(view(20 * UNIT, 40 * UNIT), &timeout, Verdict::Congestion),
            WindowUpdate {
                cwnd: UNIT,
                ssthresh: 10 * UNIT
            }
        );
        let old_floor = WindowView {
            floor: 2 * UNIT,
            ..view(2 * UNIT, 40 * UNIT)
        };
        assert_eq!(
            window.on_congestion(old_floor, &gap),
            WindowUpdate {
                cwnd: 2 * UNIT,
                ssthresh: 2 * UNIT
            }
        );
    }

    #[test]
    fn hystart_ends_the_first_slow_start_when_round_trip_times_rise() {
        // RFC 9406 §4.2: 80 ms without a queue, and 200 packets per second: conservative for five rounds with a quarter of the growth,
        // then congestion avoidance.
        let millis = crate::Span::from_millis;
        let run = |hystart| {
            let mut part = StandardWindow::new(hystart);
            let mut window = view(10 * UNIT, u64::MAX);
            let (mut seq, mut now, mut sizes) = (0, Time::ZERO, Vec::new());
            for _ in 0..8 {
                let rtt = millis((window.cwnd / UNIT * 5).max(80));
                round(&mut part, &mut window, &mut seq, now, rtt);
                now += rtt;
                sizes.push(window.cwnd / UNIT);
            }
            (sizes, window.ssthresh)
        };
        let (sizes, ssthresh) = run(false);
        assert_eq!((sizes[6], sizes[7], ssthresh), (1280, 2560, u64::MAX));
        let (sizes, ssthresh) = run(true);
        assert_eq!(sizes[0], 20, "the first round gives no information");
        assert!(sizes[1] < 32 && sizes[5] < 80, "{sizes:?}");
        assert_eq!(sizes[7], sizes[6] + 1, "{sizes:?}: congestion avoidance");
        assert!(ssthresh < sizes[7] * UNIT);
    }

    // [9260:7.2.1-10, 7.2.2-4]
    #[test]
    fn idle_time_halves_but_never_grows_the_window() {
        // RFC 9260 §7.2.1, last rule
        let mut window = StandardWindow::default();
        assert_eq!(window.on_idle(view(20 * UNIT, 20 * UNIT)).cwnd, 10 * UNIT);
        assert_eq!(window.on_idle(view(5 * UNIT, 20 * UNIT)).cwnd, 4 * UNIT);
        // RFC 9260 §7.2.2: the same in congestion avoidance.
        assert_eq!(window.on_idle(view(20 * UNIT, 8 * UNIT)).cwnd, 10 * UNIT);
        assert_eq!(window.on_idle(view(UNIT, 20 * UNIT)).cwnd, UNIT);
    }
}
