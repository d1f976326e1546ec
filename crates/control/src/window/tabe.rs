//! The optimal window of TCP Jersey, New Jersey and JSCTP: the estimated bandwidth times the round-trip time (Chen et
//! al. 2011, 3.2).

use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::Span;
use crate::epoch::RecoveryEpoch;
use crate::estimator::{ArrivalRate, Rounds, WindowedMax};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, LossSignal, Verdict};

/// The clock for the bandwidth estimate.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum ArrivalClock {
    /// The receiver's timestamps: TABE (New Jersey, JSCTP); without timestamps, the arrival times of acknowledgements.
    #[default]
    Receiver,
    /// The arrival times of acknowledgements: ABE (Jersey).
    Acknowledgements,
}

/// The round-trip time by which the bandwidth is multiplied.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum PipeRtt {
    /// The shortest one, without queueing delay: a queue that has overflowed drains.
    #[default]
    Min,
    /// The smoothed one: window and queue stay about the same.
    Smoothed,
}

/// Parameters of the optimal window.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct TabeParameters {
    /// The clock for the bandwidth estimate.
    pub clock: ArrivalClock,
    /// The round-trip time by which the bandwidth is multiplied. Chen (equation 10) does not state which one.
    pub rtt: PipeRtt,
    /// Whether congestion indicated by routers also sets the window to the optimum, once per window of data: Jersey's rate control.
    pub on_warning: bool,
    /// M round-trip times, 0 to 1000. For M round-trip times after an outage, the largest bandwidth estimate of the last M round-trip
    /// times is used, because the latest one is too low. An outage is a loss of an eighth of the window or more at once. 0: always the
    /// latest estimate, as in the papers.
    #[cfg_attr(feature = "config", schemars(range(max = 1000)))]
    pub memory: u32,
    /// Smallest optimum in units of the window, 1 to 1000. The papers have 2. A starved flow measures only its own small rate, so
    /// without a larger minimum its window stays small after each loss.
    #[cfg_attr(feature = "config", schemars(range(min = 1, max = 1000)))]
    pub least: u32,
    /// Largest fraction of the window that remains after a congestion loss detected by missing reports, for windows below 32 units, 0.5
    /// to 1. 1: no limit, as in the papers. If the queue never drains, the shortest measured round-trip time includes the queue, the
    /// computed optimum equals the current window, and a flow with a large share would keep it.
    pub most: f64,
    /// Smallest fraction of the window that remains after a congestion loss detected by missing reports, for windows of 48 units or
    /// more, 0 to 1. 0: no limit, as in the papers. Without a limit, a paced flow loses its share of the queue to flows that only halve
    /// their windows or reduce them to 0.7 (CUBIC).
    pub floor: f64,
    /// The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the first loss.
    pub hystart: bool,
}

impl Default for TabeParameters {
    fn default() -> Self {
        TabeParameters {
            clock: ArrivalClock::default(),
            rtt: PipeRtt::default(),
            on_warning: false,
            memory: 0,
            least: 2,
            most: 1.0,
            floor: 0.0,
            hystart: false,
        }
    }
}

impl Part<dyn WindowControl> for TabeParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("memory", self.memory.into(), 0.0, 1000.0, "round-trip times")?;
        in_range("least", self.least.into(), 1.0, 1000.0, "units")?;
        in_range("most", self.most, 0.5, 1.0, "")?;
        in_range("floor", self.floor, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Tabe::new(*self))
    }
}

/// Smaller windows, in units, may be those of many flows that share a queue.
const SMALL: u64 = 32;
/// Windows of at least this size, in units, are those of few flows.
const LARGE: u64 = 48;

/// Grows like the standard. A congestion loss sets ssthresh to the optimum, and cwnd too if it is larger (Algorithm 1).
/// A timeout sets ssthresh to the optimum; it sets cwnd to one unit after congestion and to the optimum after a
/// transmission loss (Algorithm 2).
#[derive(Clone, Debug)]
struct Tabe {
    parameters: TabeParameters,
    rate: ArrivalRate,
    rounds: Rounds,
    /// The maximum estimate of the last rounds in bytes per second.
    greatest: WindowedMax,
    /// The round until which the maximum is used, because of a recent outage.
    remembers_until: u64,
    min_rtt: Option<Span>,
    srtt: Option<Span>,
    warned: RecoveryEpoch,
    standard: StandardWindow,
}

impl Tabe {
    fn new(parameters: TabeParameters) -> Self {
        Tabe {
            parameters,
            rate: ArrivalRate::default(),
            rounds: Rounds::default(),
            greatest: WindowedMax::default(),
            remembers_until: 0,
            min_rtt: None,
            srtt: None,
            warned: RecoveryEpoch::default(),
            standard: StandardWindow::new(parameters.hystart),
        }
    }

    /// Returns RTT R (equation 10), but at least `least` units; half of the window before the first measurement.
    fn optimum(&mut self, window: WindowView, loss: Option<&LossEvent>) -> u64 {
        let rtt = match self.parameters.rtt {
            PipeRtt::Min => self.min_rtt,
            PipeRtt::Smoothed => self.srtt,
        };
        if loss.is_some_and(|loss| loss.bytes >= window.cwnd / 8) {
            self.remembers_until = self.rounds.count() + u64::from(self.parameters.memory);
        }
        let remembers = self.rounds.count() < self.remembers_until;
        let pipe = |rtt: Span| match self.parameters.memory {
            1.. if remembers => (self.greatest.get() * rtt.as_secs_f64()) as u64,
            _ => self.rate.pipe(rtt),
        };
        let optimum = rtt.map_or(window.halved(), pipe);
        let is_gap = loss.is_some_and(|loss| loss.signal == LossSignal::Gap);
        let most = if is_gap && window.cwnd < SMALL * window.unit {
            window.scaled(self.parameters.most).max(window.unit)
        } else {
            u64::MAX
        };
        let floor = if is_gap && window.cwnd >= LARGE * window.unit {
            window.scaled(self.parameters.floor)
        } else {
            0
        };
        let least = u64::from(self.parameters.least) * window.unit;
        optimum.max(floor).min(most).max(if rtt.is_some() { least } else { 0 })
    }

    fn adjust(&mut self, window: WindowView, loss: Option<&LossEvent>) -> WindowUpdate {
        self.standard.restart();
        let optimum = self.optimum(window, loss);
        WindowUpdate {
            cwnd: optimum.min(window.cwnd),
            ssthresh: optimum,
        }
    }
}

impl WindowControl for Tabe {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.min_rtt = ack.min_rtt.or(self.min_rtt);
        self.srtt = ack.srtt.or(self.srtt);
        if let Some(rtt) = self.srtt {
            let arrived = match (self.parameters.clock, ack.stamps) {
                (ArrivalClock::Receiver, Some(stamps)) => stamps.received,
                _ => ack.now,
            };
            self.rate.take(arrived, ack.acked, rtt);
            if self.parameters.memory > 0 {
                self.rounds.on_ack(ack);
                let window = self.parameters.memory.into();
                self.greatest
                    .take(self.rounds.count(), self.rate.bytes_per_second(), window);
            }
        }
        if self.parameters.on_warning {
            if let Some(acked) = ack.acked_to.checked_sub(1) {
                self.warned.on_cumulative_ack(acked);
            }
            if ack.eci == Some(true) && !self.warned.is_active() {
                self.warned.enter(ack.next.saturating_sub(1));
                return self.adjust(window, None);
            }
        }
        self.standard.on_ack(window, ack)
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        self.adjust(window, Some(loss))
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        self.standard.restart();
        let optimum = self.optimum(window, Some(loss));
        WindowUpdate {
            cwnd: match verdict {
                Verdict::Transmission => optimum,
                Verdict::Congestion | Verdict::Unsure => window.unit,
            },
            ssthresh: optimum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::sample::Stamps;
    use crate::window::testing::{UNIT, gap, timeout, view};

    /// A packet every 10 ms by the receiver's clock, acknowledged in pairs every 20 ms, with an RTT of 120 ms, 100 ms
    /// without queue.
    fn fed(parameters: TabeParameters) -> Tabe {
        let mut part = Tabe::new(parameters);
        for step in 1..400 {
            let ms = |n: u64| Time::from_nanos(n * 1_000_000);
            let ack = AckSample {
                srtt: Some(Span::from_millis(120)),
                min_rtt: Some(Span::from_millis(100)),
                stamps: Some(Stamps {
                    sent: ms(20 * step),
                    // Received at half the rate at which acknowledgements arrive, to distinguish the clocks.
                    received: ms(40 * step),
                }),
                newest: 2 * step,
                acked_to: 2 * step + 1,
                next: 2 * step + 12,
                ..AckSample::of(ms(20 * step), 2 * UNIT, 20 * UNIT)
            };
            part.on_ack(view(20 * UNIT, 10 * UNIT), &ack);
        }
        part
    }

    fn units(window: u64) -> f64 {
        window as f64 / UNIT as f64
    }

    #[test]
    fn the_optimum_by_hand() {
        // Chen, equations 9 and 10: 50 packets per second by the receiver, 100 by the acknowledgements; times 100 or
        // 120 ms
        use ArrivalClock::{Acknowledgements, Receiver};
        for (clock, rtt, expected) in [
            (Receiver, PipeRtt::Min, 5.0),
            (Receiver, PipeRtt::Smoothed, 6.0),
            (Acknowledgements, PipeRtt::Min, 10.0),
            (Acknowledgements, PipeRtt::Smoothed, 12.0),
        ] {
            let mut part = fed(TabeParameters {
                clock,
                rtt,
                ..TabeParameters::default()
            });
            let optimum = units(part.optimum(view(20 * UNIT, 10 * UNIT), None));
            assert!((optimum - expected).abs() < 0.01, "{clock:?} {rtt:?}: {optimum}");
        }
    }

    #[test]
    fn algorithm_1_sets_both_to_the_optimum() {
        let mut part = fed(TabeParameters::default());
        let update = part.on_congestion(view(20 * UNIT, 40 * UNIT), &gap());
        assert!((units(update.cwnd) - 5.0).abs() < 0.01, "{update:?}");
        assert_eq!(update.cwnd, update.ssthresh);
        let small = part.on_congestion(view(3 * UNIT, 40 * UNIT), &gap());
        assert_eq!(small.cwnd, 3 * UNIT, "loss never enlarges the window");
        let at = view(20 * UNIT, 40 * UNIT);
        assert_eq!(part.on_transmission_loss(at, &gap()), at.unchanged());
    }

    #[test]
    fn algorithm_2_restarts_after_congestion_only() {
        let mut part = fed(TabeParameters::default());
        let at = view(20 * UNIT, 40 * UNIT);
        let congestion = part.on_timeout(at, &timeout(), Verdict::Congestion);
        assert_eq!(congestion.cwnd, UNIT);
        assert!((units(congestion.ssthresh) - 5.0).abs() < 0.01);
        let transmission = part.on_timeout(at, &timeout(), Verdict::Transmission);
        assert_eq!(
            (transmission.cwnd, transmission.ssthresh),
            (congestion.ssthresh, congestion.ssthresh)
        );
    }

    #[test]
    fn with_memory_an_outage_does_not_shrink_the_optimum() {
        let low = 10.0 * 120.0 / 220.0;
        for (memory, lost, expected) in [(0, 3, low), (10, 2, low), (10, 3, 10.0)] {
            let mut part = fed(TabeParameters {
                clock: ArrivalClock::Acknowledgements,
                memory,
                ..TabeParameters::default()
            });
            // 399 steps of 20 ms, then 100 ms without arrivals and a packet without weight (equation 9).
            let late = AckSample {
                srtt: Some(Span::from_millis(120)),
                min_rtt: Some(Span::from_millis(100)),
                ..AckSample::of(Time::from_nanos((399 * 20 + 100) * 1_000_000), 0, 20 * UNIT)
            };
            part.on_ack(view(20 * UNIT, 10 * UNIT), &late);
            let loss = LossEvent {
                bytes: lost * UNIT,
                ..gap()
            };
            let optimum = units(part.optimum(view(20 * UNIT, 10 * UNIT), Some(&loss)));
            assert!((optimum - expected).abs() < 0.05, "{memory}, {lost}: {optimum}");
        }
    }

    #[test]
    fn the_floor_keeps_a_share_of_large_windows_only() {
        // The optimum is 5 units. A timeout has no floor.
        let after = |floor, cwnd, loss: &LossEvent| {
            let mut part = fed(TabeParameters {
                floor,
                ..TabeParameters::default()
            });
            units(part.optimum(view(cwnd * UNIT, 10 * UNIT), Some(loss)))
        };
        for (floor, cwnd, expected) in [(0.0, 60, 5.0), (0.7, 60, 42.0), (0.7, 47, 5.0)] {
            let optimum = after(floor, cwnd, &gap());
            assert!((optimum - expected).abs() < 0.01, "{floor}, {cwnd}: {optimum}");
        }
        assert!((after(0.7, 60, &timeout()) - 5.0).abs() < 0.01);
    }

    #[test]
    fn before_any_measurement_loss_halves() {
        let mut part = Tabe::new(TabeParameters::default());
        assert_eq!(
            part.on_congestion(view(20 * UNIT, 40 * UNIT), &gap()),
            WindowUpdate::both(10 * UNIT)
        );
    }

    #[test]
    fn a_warning_is_rate_control_once_in_a_window_of_data() {
        // TCP Jersey, as described by Chen, 2.2
        let mut part = fed(TabeParameters {
            clock: ArrivalClock::Acknowledgements,
            on_warning: true,
            ..TabeParameters::default()
        });
        let warned = |seq| AckSample {
            newest: seq,
            acked_to: seq + 1,
            next: seq + 12,
            eci: Some(true),
            srtt: Some(Span::from_millis(120)),
            ..AckSample::of(Time::from_nanos(7_990_000_000), UNIT, 20 * UNIT)
        };
        let at = view(20 * UNIT, 10 * UNIT);
        let first = part.on_ack(at, &warned(1000)).cwnd;
        assert!(first < 12 * UNIT, "{first}");
        assert_eq!(part.on_ack(at, &warned(1001)).cwnd, 20 * UNIT);
        assert!(
            part.on_ack(at, &warned(1011)).cwnd < 20 * UNIT,
            "the next window of data"
        );
    }
}
