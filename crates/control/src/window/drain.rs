//! CUBIC that finds out which flow fills the queue. The window falls to what the path holds. If the queue goes away, it was this flow's own,
//! and the window stays small. If the queue stays, another flow fills it, and the window competes as CUBIC.

use super::cubic::{Cubic, CubicParameters};
use super::{WindowControl, WindowUpdate, WindowView};
use crate::estimator::{ArrivalRate, Rounds, WindowedMax, WindowedMin};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, Verdict};
use crate::{Span, Time};

/// Parameters of the window with drain probes.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct DrainParameters {
    /// C of CUBIC in packets per second cubed, 0.001 to 10 (RFC 9438 §5.1: 0.4).
    pub c: f64,
    /// Fraction of the window that remains after congestion, 0.1 to 0.95 (RFC 9438 §4.6: 0.7).
    pub beta: f64,
    /// Losing flows make room for newcomers (RFC 9438 §4.7).
    pub fast_convergence: bool,
    /// Slow start ends when round-trip times rise (HyStart++, RFC 9406).
    pub hystart: bool,
    /// Round trips in a row with a standing queue before a probe, 1 to 1000.
    pub patience: u32,
    /// Time for which the queue must stand as well, in round-trip times without a queue, 0 to 1000, unless the last probe has shown that no other
    /// flow fills it.
    pub doubt: u32,
    /// A queue stands if the least round-trip time of a round trip exceeds the least one of all by more than this share of it, 0 to 1.
    pub share: f64,
    /// A queue stands only if the excess is longer than this, 0 s to 1 s.
    pub margin: Span,
    /// Round trips of a probe after which a queue belongs to another flow, 2 to 100. A queue that still becomes shorter has more time.
    pub rounds: u32,
    /// Time for which the window competes after a probe whose queue has stayed, 0 s to 600 s, and at least 20 round-trip times
    /// without a queue. It doubles with each such probe in a row, up to 32 times.
    pub compete: Span,
    /// Share of the window by which a round trip enlarges it at least, while the last probe has shown that no other flow fills the queue
    /// and no queue stands, 0 to 1.
    pub growth: f64,
    /// After a probe whose queue has gone away, the window is the greatest one that the path has held in this number of round trips, 0 to
    /// 1000. 0: the latest one.
    #[cfg_attr(feature = "config", schemars(range(max = 1000)))]
    pub memory: u32,
}

impl Default for DrainParameters {
    fn default() -> Self {
        let CubicParameters {
            c,
            beta,
            fast_convergence,
            hystart,
        } = CubicParameters::default();
        DrainParameters {
            c,
            beta,
            fast_convergence,
            hystart,
            patience: 3,
            doubt: 10,
            share: 0.1,
            margin: Span::from_millis(3),
            rounds: 5,
            compete: Span::from_secs(2),
            growth: 0.05,
            memory: 10,
        }
    }
}

impl DrainParameters {
    fn cubic(&self) -> CubicParameters {
        CubicParameters {
            c: self.c,
            beta: self.beta,
            fast_convergence: self.fast_convergence,
            hystart: self.hystart,
        }
    }
}

impl Part<dyn WindowControl> for DrainParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        self.cubic().validate()?;
        in_range("patience", self.patience.into(), 1.0, 1000.0, "round trips")?;
        in_range("doubt", self.doubt.into(), 0.0, 1000.0, "round-trip times")?;
        in_range("share", self.share, 0.0, 1.0, "")?;
        in_range("margin", self.margin.as_secs_f64(), 0.0, 1.0, "s")?;
        in_range("rounds", self.rounds.into(), 2.0, 100.0, "round trips")?;
        in_range("compete", self.compete.as_secs_f64(), 0.0, 600.0, "s")?;
        in_range("growth", self.growth, 0.0, 1.0, "")?;
        in_range("memory", self.memory.into(), 0.0, 1000.0, "round trips")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Drain::new(*self))
    }
}

/// Time after which the least round-trip time is forgotten: a route may have become longer.
const BASE_WINDOW: Span = Span::from_secs(600);
/// The least window of a probe in units.
const LEAST: u64 = 4;
/// Smaller windows, in units, do not probe: their queue is a few packets.
const LEAST_PROBED: u64 = 8;
/// A probe takes at least this many units away.
const WORTHWHILE: u64 = 2;
/// The first round trip of a probe that shows its effect: the one before acknowledges what was sent before the probe.
const FIRST: u32 = 2;
/// Weight of a round trip in the spread of round-trip times.
const SPREAD_WEIGHT: f64 = 0.125;
/// A queue stands if it exceeds the spread this many times.
const SPREADS: f64 = 2.0;
/// Round trips after which a probe ends although the queue still becomes shorter.
const LONGEST: u32 = 12;
/// A probe is given up after this many smoothed round-trip times: round trips without a measured time do not count.
const PATIENCE: u64 = 32;
/// The share of the window that remains in the first step of a probe after one that failed.
const STEP: f64 = 0.75;
/// The probe goes on if the round-trip time falls by at least this share of the fall that an own queue would have.
const OWN_FALL: f64 = 0.4;
/// Probes in a row that found no other flow, after which congestion does not take the window below what the path holds.
const CERTAIN: u32 = 2;
/// Packets that even pacing permits at once: an initial window (RFC 9002 §7.7). Spaced one by one, the packets of a small window seldom arrive
/// at a full queue, and the flow beside it loses instead; those of a large one often do.
const EVEN_BURST: u32 = 10;
/// `compete` is at least this many round-trip times without a queue.
const COMPETE_ROUNDS: f64 = 20.0;
/// `compete` doubles at most this many times.
const MOST_DOUBLINGS: u32 = 5;

/// A round trip that has ended. In seconds.
#[derive(Clone, Copy, Debug)]
struct Round {
    /// The least round-trip time.
    low: f64,
    /// The mean round-trip time.
    mean: f64,
    /// The excess over the least one of all from which a queue stands.
    threshold: f64,
    stands: bool,
}

/// What acknowledgements say about the path.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    rounds: Rounds,
    /// The least round-trip time of [`BASE_WINDOW`], in seconds.
    base: WindowedMin,
    /// That of the current round trip, if one was measured.
    low: Option<f64>,
    /// The sum of the round-trip times of the current round trip, and their number.
    sum: (f64, u32),
    /// By how much the mean of a round trip exceeds its least time, smoothed, in seconds: what varies without a standing queue.
    spread: f64,
    /// The time without a queue after which data is acknowledged, in seconds: longer than `base` if acknowledgements return on several paths,
    /// whose times are made comparable with the fastest one ([`AckSample::rtt`], [`AckSample::min_rtt`]).
    unqueued: f64,
    rate: ArrivalRate,
    /// The greatest rate of the last round trips, in bytes per second.
    greatest: WindowedMax,
    /// The most bytes in flight in the current round trip.
    flight: u64,
    /// The most that the last round trip can have passed, in bytes per second, if its round-trip time was measured.
    most: Option<f64>,
}

impl Path {
    /// Handles an acknowledgement. Returns the round trip that it ends.
    fn on_ack(&mut self, parameters: &DrainParameters, window: WindowView, ack: &AckSample) -> Option<Round> {
        if let Some(srtt) = ack.srtt {
            self.rate.take(ack.now, ack.acked, srtt);
        }
        let over = self.rounds.on_ack(ack);
        let (rounds, rate) = (self.rounds.count(), self.rate());
        self.greatest.take(rounds, rate, parameters.memory.into());
        let ended = if over { self.low.take() } else { None };
        let mean = if over { self.take_mean() } else { None };
        let round = ended.map(|low| {
            let base = self.base.get().unwrap_or(low);
            self.spread += (mean.unwrap_or(low) - low - self.spread) * SPREAD_WEIGHT;
            let threshold = self.threshold(parameters, base, window);
            self.most = Some(self.flight as f64 / (low + self.extra()));
            Round {
                low,
                mean: mean.unwrap_or(low),
                threshold,
                stands: low > base + threshold,
            }
        });
        self.flight = if over {
            ack.flight_before
        } else {
            self.flight.max(ack.flight_before)
        };
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            let seconds = rtt.as_secs_f64();
            self.base.take(ack.now.as_nanos(), seconds, BASE_WINDOW.as_nanos());
            self.low = Some(self.low.map_or(seconds, |low| low.min(seconds)));
            self.sum = (self.sum.0 + seconds, self.sum.1 + 1);
        }
        if let Some(least) = ack.min_rtt {
            self.unqueued = least.as_secs_f64();
        }
        round
    }

    /// Returns the mean of the round trip that has ended.
    fn take_mean(&mut self) -> Option<f64> {
        let (sum, count) = core::mem::take(&mut self.sum);
        (count > 0).then(|| sum / f64::from(count))
    }

    /// Returns by how much the time after which data is acknowledged exceeds the comparable round-trip time, in seconds.
    fn extra(&self) -> f64 {
        let base = self.base.get();
        base.map_or(0.0, |base| (self.unqueued - base).max(0.0))
    }

    /// Returns the time without a queue after which data is acknowledged, in seconds.
    fn unqueued_rtt(&self) -> Option<f64> {
        self.base.get().map(|base| base + self.extra())
    }

    /// Returns the rate of the path in bytes per second. What is in flight passes once in a round-trip time: acknowledgements that arrive
    /// together show a higher rate.
    fn rate(&self) -> f64 {
        self.rate.bytes_per_second().min(self.most.unwrap_or(f64::INFINITY))
    }

    /// Returns the excess over the least round-trip time `base` from which a queue stands, in seconds.
    fn threshold(&self, parameters: &DrainParameters, base: f64, window: WindowView) -> f64 {
        let rate = self.rate();
        // A slow path holds less than the least window of a probe. The rest is a queue that does not go away.
        let rest = if rate > 0.0 {
            (LEAST * window.unit) as f64 / rate - (base + self.extra())
        } else {
            0.0
        };
        let least = (parameters.share * base).max(parameters.margin.as_secs_f64());
        least.max(self.spread * SPREADS) + rest.max(0.0)
    }

    /// Returns the bytes that the path holds without a queue, at least those of the least window. `None` before the first measurement.
    fn content(&self, window: WindowView) -> Option<u64> {
        let bytes = self.rate() * (self.unqueued_rtt()? + self.spread);
        Some((bytes as u64).max(LEAST * window.unit))
    }

    /// Returns the window less the queue that stood in the round trip whose least time is `low`. Acknowledgements that arrive in bunches, or on
    /// several paths, leave more of the window in flight than what the rate explains.
    fn without_queue(&self, window: WindowView, low: f64) -> u64 {
        let queue = self.rate() * (low - self.base.get().unwrap_or(low)).max(0.0);
        window.cwnd.saturating_sub(queue as u64)
    }

    /// Returns the greatest content of the last round trips in bytes, without a queue in the one that has ended. Its round-trip times vary where
    /// packets wait for a radio: a window for the least of them would not fill the path.
    fn greatest_content(&self, round: Round) -> u64 {
        (self.greatest.get() * (round.mean + self.extra()).max(self.unqueued_rtt().unwrap_or(0.0))) as u64
    }
}

/// Whose queue is it?
#[derive(Clone, Debug)]
enum Mode {
    /// Not known, or this flow's own.
    Own,
    /// A probe runs.
    Probing {
        /// The window before it, and CUBIC's state then.
        before: u64,
        cubic: Box<Cubic>,
        /// Round trips so far, and the least round-trip time of the last one in seconds.
        rounds: u32,
        low: f64,
        since: Time,
        /// The window does not fall below this.
        floor: u64,
        /// The first step: the round-trip time that shows that the queue is this flow's own. `None` in the second one.
        own_rtt: Option<f64>,
    },
    /// Another flow's: the window returns to that before the probe.
    Returning { to: u64, until: Time },
    /// Another flow's, as far as is known until this time.
    Competing { until: Time },
}

#[derive(Clone, Debug)]
struct Drain {
    parameters: DrainParameters,
    cubic: Cubic,
    mode: Mode,
    path: Path,
    /// Round trips in a row with a standing queue.
    standing: u32,
    /// When the first one of them ended.
    since: Time,
    /// Probes in a row whose queue went away, and probes in a row whose queue stayed.
    own: u32,
    failures: u32,
    /// Whether the queue of the last probe went away, without congestion, timeouts or idle periods since.
    is_alone: bool,
    /// The window that was returned last. A smaller one was set by others: a penalty, a new path.
    returned: u64,
}

/// Returns a window in congestion avoidance.
fn avoidance(cwnd: u64) -> WindowUpdate {
    WindowUpdate {
        cwnd,
        ssthresh: cwnd.saturating_sub(1),
    }
}

impl Drain {
    fn new(parameters: DrainParameters) -> Self {
        Drain {
            parameters,
            cubic: Cubic::new(parameters.cubic()),
            mode: Mode::Own,
            path: Path::default(),
            standing: 0,
            since: Time::ZERO,
            own: 0,
            failures: 0,
            is_alone: false,
            returned: 0,
        }
    }

    /// Starts a probe if a queue has stood for long enough.
    fn probe(&mut self, window: WindowView, ack: &AckSample, low: f64) -> Option<WindowUpdate> {
        let least = self.path.unqueued_rtt()?;
        let doubt = if self.is_alone {
            0.0
        } else {
            least * f64::from(self.parameters.doubt)
        };
        let has_stood = self.standing >= self.parameters.patience && ack.now.since(self.since).as_secs_f64() >= doubt;
        let may_probe = !window.in_slow_start() && !ack.in_recovery && window.is_used(ack);
        if !has_stood || !may_probe || window.cwnd < LEAST_PROBED * window.unit {
            return None;
        }
        let content = self.path.content(window)?.max(self.path.without_queue(window, low));
        if window.cwnd <= content + WORTHWHILE * window.unit {
            return None;
        }
        // After a probe that has failed, the next one gives away less at first. Alone, the round-trip time is the window over the rate of
        // the path. Beside another flow it falls less.
        let step = if self.failures > 0 { window.scaled(STEP) } else { 0 };
        let own_rtt = (step > content).then_some(low - (low + self.path.extra()) * OWN_FALL * (1.0 - STEP));
        self.mode = Mode::Probing {
            before: window.cwnd,
            cubic: Box::new(self.cubic.clone()),
            rounds: 0,
            low: f64::INFINITY,
            since: ack.now,
            floor: content / 2,
            own_rtt,
        };
        Some(avoidance(content.max(step)))
    }

    /// Handles the end of a round trip of a probe.
    fn on_probed(&mut self, window: WindowView, now: Time, round: Round) -> WindowUpdate {
        let Mode::Probing {
            before,
            cubic,
            rounds,
            low,
            floor,
            own_rtt,
            ..
        } = &mut self.mode
        else {
            return window.unchanged();
        };
        *rounds += 1;
        let second = own_rtt.is_none();
        if let Some(rtt) = *own_rtt
            && *rounds >= FIRST
            && round.stands
            && round.low <= rtt
        {
            *own_rtt = None;
            *rounds = 0;
            *low = f64::INFINITY;
            let content = self.path.content(window).unwrap_or(window.cwnd);
            return avoidance(content.min(window.cwnd));
        }
        let falls = second && round.low < *low - round.threshold / 2.0 && *rounds < LONGEST;
        *low = round.low;
        let (before, rounds, floor) = (*before, *rounds, *floor);
        if rounds >= FIRST && !round.stands {
            return self.on_own(window, before, round);
        }
        let most = if second { self.parameters.rounds } else { FIRST };
        if rounds >= most && !falls {
            self.cubic = (**cubic).clone();
            self.on_shared(now, before);
            return window.unchanged();
        }
        // The path may hold less than it did. Beside another flow a smaller window has a smaller rate, down to nothing.
        let content = self.path.content(window).filter(|_| second && rounds >= FIRST);
        avoidance(content.map_or(window.cwnd, |content| content.max(floor).min(window.cwnd)))
    }

    /// Returns whether a probe has lasted too long.
    fn has_lasted(&self, ack: &AckSample) -> bool {
        match (&self.mode, ack.srtt) {
            (Mode::Probing { since, .. }, Some(srtt)) => ack.now.since(*since) > srtt * PATIENCE,
            _ => false,
        }
    }

    /// Returns the window after an acknowledgement that has `ended` a round trip or not.
    fn next(&mut self, window: WindowView, ack: &AckSample, ended: Option<Round>) -> WindowUpdate {
        match self.mode {
            Mode::Probing { .. } => {
                return ended.map_or(window.unchanged(), |round| self.on_probed(window, ack.now, round));
            }
            Mode::Returning { to, until } => {
                // As in slow start.
                let growth = if ack.in_recovery { 0 } else { ack.acked };
                let cwnd = window.cwnd.saturating_add(growth).min(to.max(window.cwnd));
                if cwnd >= to {
                    self.cubic.resume(ack.now);
                    self.mode = Mode::Competing { until };
                }
                return avoidance(cwnd);
            }
            Mode::Competing { until } if ack.now < until => {}
            Mode::Competing { .. } => {
                self.mode = Mode::Own;
                self.standing = 0;
            }
            Mode::Own => {
                if let Some(update) = ended.and_then(|round| self.probe(window, ack, round.low)) {
                    return update;
                }
            }
        }
        let update = self.cubic.on_ack(window, ack);
        let is_short = self.is_alone && self.standing == 0 && matches!(self.mode, Mode::Own);
        if !is_short || window.in_slow_start() || ack.in_recovery || !window.is_used(ack) {
            return update;
        }
        let growth = (ack.acked as f64 * self.parameters.growth) as u64;
        WindowUpdate {
            cwnd: update.cwnd.max(window.cwnd.saturating_add(growth)),
            ..update
        }
    }

    /// Ends a probe without a result. What the path holds may have changed.
    fn give_up(&mut self) {
        match self.mode {
            Mode::Probing { .. } => self.mode = Mode::Own,
            Mode::Returning { until, .. } => self.mode = Mode::Competing { until },
            Mode::Own | Mode::Competing { .. } => {}
        }
        self.standing = 0;
        self.own = 0;
        self.is_alone = false;
    }

    /// The queue has gone away.
    fn on_own(&mut self, window: WindowView, before: u64, round: Round) -> WindowUpdate {
        self.mode = Mode::Own;
        self.own = self.own.saturating_add(1);
        self.failures = 0;
        self.is_alone = true;
        self.standing = 0;
        let cwnd = if self.parameters.memory > 0 {
            self.path.greatest_content(round).min(before).max(window.cwnd)
        } else {
            window.cwnd
        };
        self.cubic.plateau(WindowView { cwnd, ..window });
        avoidance(cwnd)
    }

    /// The queue has stayed.
    fn on_shared(&mut self, now: Time, before: u64) {
        let least = self.path.unqueued_rtt().unwrap_or(0.0);
        let least = self.parameters.compete.max(Span::from_secs_f64(least * COMPETE_ROUNDS));
        self.mode = Mode::Returning {
            to: before,
            until: now + least * (1 << self.failures.min(MOST_DOUBLINGS)),
        };
        self.failures = self.failures.saturating_add(1);
        self.own = 0;
        self.is_alone = false;
        self.standing = 0;
    }
}

impl WindowControl for Drain {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        let in_probe = matches!(self.mode, Mode::Probing { .. } | Mode::Returning { .. });
        if in_probe && (window.cwnd < self.returned || self.has_lasted(ack)) {
            self.give_up();
            self.cubic.plateau(window);
        }
        let ended = self.path.on_ack(&self.parameters, window, ack);
        if let Some(round) = ended {
            self.standing = if round.stands {
                self.standing.saturating_add(1)
            } else {
                0
            };
            if self.standing <= 1 {
                self.since = ack.now;
            }
        }
        let update = self.next(window, ack, ended);
        self.returned = update.cwnd;
        update
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        let is_certain = matches!(self.mode, Mode::Own) && self.own >= CERTAIN;
        let content = self.path.content(window).filter(|_| is_certain);
        self.is_alone = false;
        let update = match &mut self.mode {
            Mode::Probing { before, cubic, .. } => {
                let asked = WindowView {
                    cwnd: *before,
                    ..window
                };
                *before = cubic.on_congestion(asked, loss).cwnd;
                avoidance(window.cwnd.min(*before))
            }
            Mode::Returning { to, .. } => {
                let asked = WindowView {
                    cwnd: (*to).max(window.cwnd),
                    ..window
                };
                *to = self.cubic.on_congestion(asked, loss).cwnd;
                avoidance(window.cwnd.min(*to))
            }
            Mode::Own | Mode::Competing { .. } => {
                let update = self.cubic.on_congestion(window, loss);
                avoidance(content.map_or(update.cwnd, |content| content.min(window.cwnd).max(update.cwnd)))
            }
        };
        self.returned = update.cwnd;
        update
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        let cwnd = match self.mode {
            Mode::Probing { before, .. } => before,
            Mode::Returning { to, .. } => to,
            Mode::Own | Mode::Competing { .. } => window.cwnd,
        };
        self.give_up();
        self.returned = 0;
        self.cubic.on_timeout(
            WindowView {
                cwnd: cwnd.max(window.cwnd),
                ..window
            },
            loss,
            verdict,
        )
    }

    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        self.give_up();
        self.returned = 0;
        self.cubic.on_idle(window)
    }

    fn even_burst(&self) -> u32 {
        EVEN_BURST
    }

    fn on_spurious_timeout(&mut self) {
        self.cubic.on_spurious_timeout();
    }
}

#[cfg(test)]
mod tests;
