//! Who hears whom: powers and delays from positions, and what a receiver makes of signals that overlap.

use whimbrel_control::{Rate, Rng, Span, Time};

use super::errors::bit_error_rate;
use super::mac::{Failure, Frame};
use super::mobility::{Motion, Point};
use super::phy::Modulation;
use super::propagation::Propagation;
use super::{NodeId, RadioId};
use crate::config::{ChannelConfig, Interference};
use crate::routing::Datagram;

/// Nanoseconds that a signal takes for a metre.
const NANOS_PER_METRE: f64 = 1e9 / 299_792_458.0;

/// Somebody who hears a transmission.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hearer {
    pub(crate) radio: RadioId,
    /// Propagation delay, ns.
    pub(crate) delay: u32,
    /// Power received, W.
    pub(crate) power: f64,
}

/// A frame under way, and those who hear it.
#[derive(Debug)]
pub(crate) struct Transmission {
    pub(crate) frame: Frame,
    pub(crate) began: Time,
    /// In the order of their delays.
    pub(crate) hearers: Vec<Hearer>,
    /// Whom its beginning and its end reach next.
    pub(crate) next_begin: usize,
    pub(crate) next_end: usize,
    /// The channel that it is on.
    pub(crate) channel: u32,
    /// What routing knows of its packet, if somebody may listen.
    pub(crate) datagram: Datagram,
}

/// The thresholds of a channel, W.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) receive: f64,
    pub(crate) sense: f64,
    /// Weaker signals are nobody's business.
    pub(crate) floor: f64,
    pub(crate) noise: f64,
    /// Ratio of powers.
    pub(crate) capture: f64,
    pub(crate) interference: Interference,
    /// Whether frames are lost by errors of their bits instead of by a threshold.
    pub(crate) bit_errors: bool,
}

/// What frames need to be understood.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Ratio of signal to noise and interference.
    pub(crate) sinr: f64,
    pub(crate) rate: Rate,
    pub(crate) modulation: Modulation,
    /// Time of the preamble, in which there are no bits of the frame.
    pub(crate) preamble: Span,
}

/// Who may hear a radio, for some time to come.
#[derive(Debug, Default)]
struct Candidates {
    /// When they were looked for: the number of the epoch, or zero.
    epoch: u64,
    radios: Vec<RadioId>,
    /// If nobody moves and power does not vary: powers and delays for good.
    fixed: Vec<Hearer>,
}

/// The radios of a channel, and who hears whom.
#[derive(Debug)]
pub(crate) struct Air {
    pub(crate) propagation: Propagation,
    pub(crate) thresholds: Thresholds,
    power: f64,
    /// Whether all its nodes stay where they are.
    is_static: bool,
    /// Farther radios hear nothing, m.
    reach: f64,
    /// How far radios may move towards each other before candidates are looked for again, m.
    slack: f64,
    /// For how long candidates are good.
    lifetime: Span,
    epoch: u64,
    epoch_ends: Time,
    radios: Vec<RadioId>,
    /// Cells of the grid with a radio in each, sorted by cell.
    grid: Vec<((i64, i64), RadioId)>,
    candidates: Vec<Candidates>,
}

impl Air {
    /// A channel. `top_speed` is the greatest of all its nodes.
    pub(crate) fn new(config: &ChannelConfig, radios: Vec<RadioId>, total: usize, top_speed: f64) -> Self {
        let propagation = Propagation::new(&config.propagation);
        let at = |distance: f64| config.power * propagation.gain(distance * distance);
        let noise = libm::pow(10.0, config.noise_dbm / 10.0) / 1000.0;
        let sense = at(config.sense_range());
        let floor = match config.interference {
            Interference::Threshold => sense,
            // Ten of them together are as strong as the noise.
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
        // A hair more, so that rounding leaves nobody out.
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

    /// A radio comes to the channel.
    pub(crate) fn add(&mut self, radio: RadioId) {
        self.radios.push(radio);
        self.radios.sort_unstable();
        self.epoch_ends = Time::ZERO;
    }

    /// A radio leaves the channel.
    pub(crate) fn remove(&mut self, radio: RadioId) {
        self.radios.retain(|other| *other != radio);
        self.epoch_ends = Time::ZERO;
    }

    /// Looks where everybody is. The grid's cells are as large as the reach, so that only neighbouring cells matter.
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

    /// Finds who may hear a radio until the epoch ends.
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
        // The order must not depend on the grid, which far-away radios could change.
        found.radios.sort_unstable();
    }

    /// Fills in who hears a transmission that begins now, in the order of their delays.
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
            // Whether a number is drawn must depend on these two alone.
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
        // One number to compare: the delay, then the radio.
        hearers.sort_unstable_by_key(|hearer| u64::from(hearer.delay) << 32 | u64::from(hearer.radio));
        if is_fixed {
            candidates.fixed.clone_from(hearers);
        }
    }

    /// Whether one radio senses another, in the mean.
    pub(crate) fn senses(&self, a: Point, b: Point) -> bool {
        self.power * self.propagation.gain(a.distance_squared(b)) >= self.thresholds.sense
    }

    /// Whether one radio understands another, in the mean, if nothing interferes.
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

/// The frame that a receiver tries to understand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) transmission: u32,
    pub(crate) power: f64,
    pub(crate) began: Time,
    needs: Needs,
    /// What spoilt it.
    pub(crate) damage: Option<Damage>,
    /// Logarithm of the probability that none of its bits has been wrong up to some time.
    pub(crate) survival: f64,
    counted_to: Time,
    /// A radio that was heard beside it.
    pub(crate) beside: Option<RadioId>,
}

/// What spoils a frame at a receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// It is too weak.
    Weak,
    /// Another frame, of this radio.
    Overlap(RadioId),
    /// Bad luck.
    Channel,
}

impl Damage {
    /// The failure it means for the frame's sender, which hears the other sender or does not.
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
    /// Whether the medium is busy as far as signals tell.
    #[inline]
    pub(crate) fn is_busy(&self, thresholds: &Thresholds) -> bool {
        match thresholds.interference {
            Interference::Threshold => !self.signals.is_empty(),
            Interference::Sinr => self.lock.is_some() || self.total() >= thresholds.sense,
        }
    }

    /// Power of all signals, W.
    fn total(&self) -> f64 {
        self.signals.iter().map(|signal| signal.power).sum()
    }

    /// A signal begins. If the receiver does not even try to understand it, says whose signal is in the way; `None` in that place means
    /// the receiver's own.
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
        // What was locked before feels the new one.
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
                    // Too weak for the preamble to be found: it is noise.
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

    /// Spoils the locked frame if it is not strong enough beside all others.
    fn check_ratio(&mut self, thresholds: &Thresholds, newest: RadioId) {
        let total = self.total();
        let Some(lock) = &mut self.lock else { return };
        let ratio = lock.power / (thresholds.noise + (total - lock.power).max(0.0));
        if lock.damage.is_none() && ratio < lock.needs.sinr {
            lock.damage = Some(Damage::Overlap(newest));
        }
    }

    /// Counts the bits of the locked frame that have passed since signals last changed.
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

    /// Whether the receiver has noticed a transmission.
    pub(crate) fn has(&self, transmission: u32) -> bool {
        self.signals.iter().any(|signal| signal.transmission == transmission)
    }

    /// Forgets everything that is on the air.
    pub(crate) fn clear(&mut self) -> Option<Lock> {
        self.signals.clear();
        self.lock.take()
    }

    /// A signal ends. Gives back the lock if it was the locked one.
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

    /// The radio begins to transmit, and hears nothing any more.
    pub(crate) fn deafen(&mut self) -> Option<Lock> {
        self.lock.take()
    }
}
