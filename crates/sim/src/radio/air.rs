//! Reception: powers and delays from positions, and the effect of overlapping signals at a receiver.

use whimbrel_control::{Rng, Span, Time};

use super::errors::bit_error_rate;
use super::mac::{Failure, Frame};
use super::mobility::{Motion, Point};
use super::phy::Needs;
use super::propagation::Propagation;
use super::{NodeId, RadioId};
use crate::config::{ChannelConfig, Interference};
use crate::routing::Datagram;

/// Nanoseconds that a signal takes for a metre.
const NANOS_PER_METRE: f64 = 1e9 / 299_792_458.0;

/// A radio that receives a transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hearer {
    pub(crate) radio: RadioId,
    /// Propagation delay, ns.
    pub(crate) delay: u32,
    /// Power received, W.
    pub(crate) power: f64,
}

/// A frame in transmission, and the radios that receive it.
#[derive(Debug)]
pub(crate) struct Transmission {
    pub(crate) frame: Frame,
    pub(crate) began: Time,
    /// Ordered by delay.
    pub(crate) hearers: Vec<Hearer>,
    /// Index of the radio that its start and its end reach next.
    pub(crate) next_begin: usize,
    pub(crate) next_end: usize,
    /// The channel that it is on.
    pub(crate) channel: u32,
    /// Routing state of its packet, if radios overhear.
    pub(crate) datagram: Datagram,
}

/// The thresholds of a channel, W.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) receive: f64,
    pub(crate) sense: f64,
    /// Signals weaker than this are ignored.
    pub(crate) floor: f64,
    pub(crate) noise: f64,
    /// Ratio of powers.
    pub(crate) capture: f64,
    pub(crate) interference: Interference,
    /// Whether bit errors corrupt frames, instead of a threshold.
    pub(crate) bit_errors: bool,
}

/// The radios that may receive from a radio during an epoch.
#[derive(Debug, Default)]
struct Candidates {
    /// When they were computed: the number of the epoch, or zero.
    epoch: u64,
    radios: Vec<RadioId>,
    /// Constant powers and delays, if no node moves and power does not vary.
    fixed: Vec<Hearer>,
}

/// The radios of a channel and their mutual reception.
#[derive(Debug)]
pub(crate) struct Air {
    pub(crate) propagation: Propagation,
    pub(crate) thresholds: Thresholds,
    power: f64,
    /// Whether no node moves.
    is_static: bool,
    /// Radios beyond this distance receive nothing, m.
    reach: f64,
    /// Distance by which radios may approach each other before candidates are computed again, m.
    slack: f64,
    /// Lifetime of candidates.
    lifetime: Span,
    epoch: u64,
    epoch_ends: Time,
    radios: Vec<RadioId>,
    /// Grid cells with one radio each, sorted by cell.
    grid: Vec<((i64, i64), RadioId)>,
    candidates: Vec<Candidates>,
}

impl Air {
    /// Creates a channel. `top_speed` is the highest speed of all its nodes.
    pub(crate) fn new(config: &ChannelConfig, radios: Vec<RadioId>, total: usize, top_speed: f64) -> Self {
        let propagation = Propagation::new(&config.propagation);
        let at = |distance: f64| config.power * propagation.gain(distance * distance);
        let noise = libm::pow(10.0, config.noise_dbm / 10.0) / 1000.0;
        let sense = at(config.sense_range());
        let floor = match config.interference {
            Interference::Threshold => sense,
            // Ten such signals together equal the noise.
            Interference::Sinr => sense.min(0.1 * noise),
        };
        let thresholds = Thresholds {
            receive: at(config.range),
            sense,
            floor,
            noise,
            capture: libm::pow(10.0, config.capture_db / 10.0),
            interference: config.interference,
            bit_errors: config.bit_errors,
        };
        // A small margin, so that rounding excludes no radio.
        let reach = 1.000_001 * propagation.distance(floor / propagation.headroom() / config.power);
        let slack = 0.1 * reach;
        let is_static = top_speed == 0.0;
        Air {
            propagation,
            thresholds,
            power: config.power,
            is_static,
            reach,
            slack: if is_static { 0.0 } else { slack },
            lifetime: if is_static {
                Span::MAX
            } else {
                Span::from_secs_f64(slack / (2.0 * top_speed))
            },
            epoch: 0,
            epoch_ends: Time::ZERO,
            radios,
            grid: Vec::new(),
            candidates: (0..total).map(|_| Candidates::default()).collect(),
        }
    }

    fn cell(&self, at: Point) -> (i64, i64) {
        let side = self.reach + self.slack;
        (libm::floor(at.x / side) as i64, libm::floor(at.y / side) as i64)
    }

    /// Adds a radio to the channel.
    pub(crate) fn add(&mut self, radio: RadioId) {
        self.radios.push(radio);
        self.radios.sort_unstable();
        self.epoch_ends = Time::ZERO;
    }

    /// Removes a radio from the channel.
    pub(crate) fn remove(&mut self, radio: RadioId) {
        self.radios.retain(|other| *other != radio);
        self.epoch_ends = Time::ZERO;
    }

    /// Updates all positions. The grid's cells are as large as the reach, so only neighbouring cells matter.
    fn begin_epoch(&mut self, now: Time, nodes: &[NodeId], motions: &mut [Motion]) {
        self.epoch += 1;
        self.epoch_ends = Time::from_nanos(now.as_nanos().saturating_add(self.lifetime.as_nanos()));
        self.grid.clear();
        for i in 0..self.radios.len() {
            let radio = self.radios[i];
            let at = motions[nodes[radio as usize] as usize].at(now);
            let cell = self.cell(at);
            self.grid.push((cell, radio));
        }
        self.grid.sort_unstable();
    }

    /// Finds the radios that may receive from a radio until the epoch ends.
    fn find_candidates(&mut self, now: Time, radio: RadioId, nodes: &[NodeId], motions: &mut [Motion]) {
        let at = motions[nodes[radio as usize] as usize].at(now);
        let (column, row) = self.cell(at);
        let reach = self.reach + self.slack;
        let found = &mut self.candidates[radio as usize];
        found.epoch = self.epoch;
        found.radios.clear();
        for x in column - 1..=column + 1 {
            let first = self.grid.partition_point(|(cell, _)| *cell < (x, row - 1));
            for &((x_here, y_here), other) in &self.grid[first..] {
                if x_here != x || y_here > row + 1 {
                    break;
                }
                let there = motions[nodes[other as usize] as usize].at(now);
                if other != radio && there.distance_squared(at) <= reach * reach {
                    found.radios.push(other);
                }
            }
        }
        // The order must not depend on the grid, which distant radios could change.
        found.radios.sort_unstable();
    }

    /// Fills in the radios that receive a transmission that starts now, ordered by delay.
    pub(crate) fn hearers(
        &mut self,
        now: Time,
        radio: RadioId,
        nodes: &[NodeId],
        motions: &mut [Motion],
        random: &mut [Rng],
        hearers: &mut Vec<Hearer>,
    ) {
        hearers.clear();
        if now >= self.epoch_ends {
            self.begin_epoch(now, nodes, motions);
        }
        let is_new = self.candidates[radio as usize].epoch != self.epoch;
        if is_new {
            self.find_candidates(now, radio, nodes, motions);
        }
        let is_random = self.propagation.is_random();
        let is_fixed = self.is_static && !is_random;
        let candidates = &mut self.candidates[radio as usize];
        if is_fixed && !is_new {
            return hearers.extend_from_slice(&candidates.fixed);
        }
        let at = motions[nodes[radio as usize] as usize].at(now);
        for &other in &candidates.radios {
            let square = motions[nodes[other as usize] as usize].at(now).distance_squared(at);
            // Whether a random number is drawn must depend only on these two radios.
            if square > self.reach * self.reach {
                continue;
            }
            let mut power = self.power * self.propagation.gain(square);
            if is_random {
                power *= self.propagation.draw(&mut random[other as usize]);
            }
            if power >= self.thresholds.floor {
                hearers.push(Hearer {
                    radio: other,
                    delay: (libm::sqrt(square) * NANOS_PER_METRE) as u32,
                    power,
                });
            }
        }
        // A single number to compare: the delay, then the radio.
        hearers.sort_unstable_by_key(|hearer| u64::from(hearer.delay) << 32 | u64::from(hearer.radio));
        if is_fixed {
            candidates.fixed.clone_from(hearers);
        }
    }

    /// Returns whether one radio senses another at the mean power.
    pub(crate) fn senses(&self, a: Point, b: Point) -> bool {
        self.power * self.propagation.gain(a.distance_squared(b)) >= self.thresholds.sense
    }

    /// Returns whether one radio can decode another's frames at the mean power, without interference.
    pub(crate) fn understands(&self, a: Point, b: Point) -> bool {
        self.power * self.propagation.gain(a.distance_squared(b)) >= self.thresholds.receive
    }
}

/// A signal at a receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signal {
    pub(crate) transmission: u32,
    pub(crate) from: RadioId,
    pub(crate) power: f64,
}

/// The frame that a receiver is decoding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) transmission: u32,
    pub(crate) power: f64,
    pub(crate) began: Time,
    needs: Needs,
    /// What corrupted the frame.
    pub(crate) damage: Option<Damage>,
    /// Logarithm of the probability that no bit has been wrong until now.
    pub(crate) survival: f64,
    counted_to: Time,
    /// A radio that was received at the same time.
    pub(crate) beside: Option<RadioId>,
}

/// What corrupts a frame at a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// The signal is too weak.
    Weak,
    /// Overlap with a frame of this radio.
    Overlap(RadioId),
    /// Random loss of the channel.
    Channel,
}

impl Damage {
    /// Returns the corresponding failure for the frame's sender, which may or may not sense the other sender.
    pub(crate) fn failure(self, senses: impl FnOnce(RadioId) -> bool) -> Failure {
        match self {
            Damage::Weak => Failure::OutOfRange,
            Damage::Channel => Failure::Channel,
            Damage::Overlap(other) if senses(other) => Failure::Collision,
            Damage::Overlap(_) => Failure::HiddenNode,
        }
    }
}

/// The receiver of a radio.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    signals: Vec<Signal>,
    pub(crate) lock: Option<Lock>,
}

impl Receiver {
    /// Returns whether physical carrier sensing reports a busy medium.
    #[inline]
    pub(crate) fn is_busy(&self, thresholds: &Thresholds) -> bool {
        match thresholds.interference {
            Interference::Threshold => !self.signals.is_empty(),
            Interference::Sinr => self.lock.is_some() || self.total() >= thresholds.sense,
        }
    }

    /// Returns the power of all signals, W.
    fn total(&self) -> f64 {
        self.signals.iter().map(|signal| signal.power).sum()
    }

    /// Handles the start of a signal. If the receiver does not try to decode it, returns the radio whose signal prevents this;
    /// `None` in that place means the receiver's own transmission.
    pub(crate) fn begin(
        &mut self,
        now: Time,
        signal: Signal,
        transmitting: bool,
        thresholds: &Thresholds,
        needs: &Needs,
    ) -> Option<Option<RadioId>> {
        self.count_errors(now, thresholds);
        let lost = self.try_lock(now, signal, transmitting, thresholds, needs);
        self.signals.push(signal);
        // The new signal interferes with the locked frame.
        if thresholds.interference == Interference::Sinr && !thresholds.bit_errors {
            self.check_ratio(thresholds, signal.from);
        }
        lost
    }

    fn try_lock(
        &mut self,
        now: Time,
        signal: Signal,
        transmitting: bool,
        thresholds: &Thresholds,
        needs: &Needs,
    ) -> Option<Option<RadioId>> {
        if transmitting {
            return Some(None);
        }
        if let Some(lock) = &mut self.lock {
            let other = self.signals.iter().find(|s| s.transmission == lock.transmission);
            let other = other.map(|s| s.from);
            if thresholds.interference == Interference::Threshold && lock.power < thresholds.capture * signal.power {
                lock.damage = lock.damage.or(Some(Damage::Overlap(signal.from)));
            }
            return Some(other);
        }
        let strongest = self.signals.iter().copied().max_by(|a, b| a.power.total_cmp(&b.power));
        let damage = match thresholds.interference {
            Interference::Threshold => {
                let spoilt = strongest.filter(|other| signal.power < thresholds.capture * other.power);
                if signal.power < thresholds.receive {
                    Some(Damage::Weak)
                } else {
                    spoilt.map(|other| Damage::Overlap(other.from))
                }
            }
            Interference::Sinr => {
                if signal.power < thresholds.receive {
                    // Too weak for preamble detection: the signal is noise.
                    return strongest.map(|other| Some(other.from));
                }
                let ratio = signal.power / (thresholds.noise + self.total());
                (ratio < needs.sinr && !thresholds.bit_errors)
                    .then(|| strongest.map_or(Damage::Weak, |other| Damage::Overlap(other.from)))
            }
        };
        self.lock = Some(Lock {
            transmission: signal.transmission,
            power: signal.power,
            began: now,
            needs: *needs,
            damage,
            survival: 0.0,
            counted_to: now + needs.preamble,
            beside: None,
        });
        None
    }

    /// Marks the locked frame as corrupted if it is too weak relative to all other signals.
    fn check_ratio(&mut self, thresholds: &Thresholds, newest: RadioId) {
        let total = self.total();
        let Some(lock) = &mut self.lock else { return };
        let ratio = lock.power / (thresholds.noise + (total - lock.power).max(0.0));
        if lock.damage.is_none() && ratio < lock.needs.sinr {
            lock.damage = Some(Damage::Overlap(newest));
        }
    }

    /// Counts the bits of the locked frame since signals last changed.
    #[inline]
    fn count_errors(&mut self, now: Time, thresholds: &Thresholds) {
        if !thresholds.bit_errors {
            return;
        }
        let total = self.total();
        let Some(lock) = &mut self.lock else { return };
        let other = self
            .signals
            .iter()
            .find(|signal| signal.transmission != lock.transmission);
        lock.beside = lock.beside.or(other.map(|other| other.from));
        let passed = now.since(lock.counted_to);
        if passed.is_zero() {
            return;
        }
        lock.counted_to = now;
        let ratio = lock.power / (thresholds.noise + (total - lock.power).max(0.0));
        let bits = passed.as_secs_f64() * lock.needs.rate.as_bps() as f64;
        lock.survival += bits * libm::log1p(-bit_error_rate(lock.needs.modulation, ratio));
    }

    /// Returns whether the receiver has detected a transmission.
    pub(crate) fn has(&self, transmission: u32) -> bool {
        self.signals.iter().any(|signal| signal.transmission == transmission)
    }

    /// Removes all signals.
    pub(crate) fn clear(&mut self) -> Option<Lock> {
        self.signals.clear();
        self.lock.take()
    }

    /// Handles the end of a signal. Returns the lock if the signal was the locked one.
    #[inline]
    pub(crate) fn end(&mut self, now: Time, transmission: u32, thresholds: &Thresholds) -> Option<Lock> {
        self.count_errors(now, thresholds);
        match self
            .signals
            .iter()
            .position(|signal| signal.transmission == transmission)
        {
            Some(place) if place + 1 == self.signals.len() => _ = self.signals.pop(),
            Some(place) => _ = self.signals.remove(place),
            None => {}
        }
        self.lock.take_if(|lock| lock.transmission == transmission)
    }

    /// Handles the start of the radio's own transmission, during which it receives nothing.
    pub(crate) fn deafen(&mut self) -> Option<Lock> {
        self.lock.take()
    }
}
