//! Hazard of loss by delay: losses of a full queue strike where the delay is near its top, losses of the channel strike
//! at every delay alike.

use super::Discriminate;
use crate::estimator::{Count, DelayProfile, LevelView, LossShare, WindowedMax};
use crate::part::{BuildContext, ParameterError, Part, in_range};
use crate::sample::{AckSample, LossEvent, LossSignal, Seq, Verdict};
use crate::view::WindowView;
use crate::{Span, Time};

/// Parameters of the hazard rule.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct HazardParameters {
    /// Time for which packets and losses are remembered, 1 s to 10 min.
    pub memory: Span,
    /// Standard deviations by which the losses of a band must exceed the expected ones, 0 to 10.
    pub sigmas: f64,
    /// Tolerance of a delay, as a multiple of the mean difference of two successive delays, 0 to 100: delays that differ by less count as
    /// equal.
    pub near: f64,
    /// Minimum tolerance of a delay, as a fraction of the smoothed round-trip time, 0 to 0.5.
    pub least: f64,
    /// The losses of a band are compared with those at lower delays only if at least this fraction of the packets had a lower delay,
    /// 0.001 to 0.9.
    pub below: f64,
    /// If fewer than this fraction of the packets had a lower delay, bursts are taken to be at least as long as those of all losses are
    /// on average, 0 to 1. `standing_loss_share` uses the same limit.
    pub few: f64,
    /// A loss is congestion if the estimated probability that the losses of its round trip are more than those at lower delays explain is
    /// at least this, 0.01 to 1.
    pub certainty: f64,
    /// Fraction of that probability that a round trip without a verdict passes on to the next one, 0 to 1.
    pub carry: f64,
    /// A loss is congestion while at least this share of the packets is lost, 0 to 1; 1 turns this rule off. If many flows keep a
    /// queue full, no delay is low.
    pub loss_share: f64,
    /// The same while a queue stands: less than the share `few` of the packets has a delay below the middle between the least one of
    /// the last 10 min and the greatest one of the memory. Of the last 2048 packets, 3/4 of this share must be lost as well.
    pub standing_loss_share: f64,
    /// Whether packets and losses count that are reported in the recovery after a reduction, while the queue is long: its delay is 3 ms
    /// and a tenth of srtt or more. One overflow drops many packets, of which only the first one gets a verdict.
    pub aftermath: bool,
    /// Whether a loss has the delay of the last arrival before it, rather than that of the first one after it. A SACK follows each packet
    /// after a loss, but only every second one before it: the delays after losses are not drawn as those of other packets are.
    pub before: bool,
}

impl Default for HazardParameters {
    fn default() -> Self {
        HazardParameters {
            memory: Span::from_secs(30),
            sigmas: 3.0,
            near: 2.0,
            least: 0.015,
            below: 0.05,
            few: 0.1,
            certainty: 0.5,
            carry: 0.9,
            loss_share: 0.08,
            standing_loss_share: 0.04,
            aftermath: true,
            before: false,
        }
    }
}

impl Part<dyn Discriminate> for HazardParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        let memory = self.memory.as_secs_f64();
        in_range("memory", memory, 1.0, 600.0, "s")?;
        in_range("sigmas", self.sigmas, 0.0, 10.0, "")?;
        in_range("near", self.near, 0.0, 100.0, "")?;
        in_range("least", self.least, 0.0, 0.5, "")?;
        in_range("below", self.below, 0.001, 0.9, "")?;
        in_range("few", self.few, 0.0, 1.0, "")?;
        in_range("certainty", self.certainty, 0.01, 1.0, "")?;
        in_range("carry", self.carry, 0.0, 1.0, "")?;
        in_range("loss_share", self.loss_share, 0.0, 1.0, "")?;
        in_range("standing_loss_share", self.standing_loss_share, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Discriminate> {
        Box::new(Hazard::new(*self))
    }
}

/// Slots of a round-trip time.
const SLOTS_PER_RTT: u64 = 16;
/// Slots that have not been added to the profile: two round-trip times or more, so that a loss finds its slot.
const RECENT: usize = 32;
/// Weight of a sample in the noise.
const NOISE_WEIGHT: f64 = 1.0 / 64.0;
/// Share of `standing_loss_share` that the longer memory must reach.
const LASTING: f64 = 0.75;
/// Time after which the least delay is forgotten: a route may have become longer, and clocks drift apart (50 ppm are 30 ms in this time).
const BASE_WINDOW: Span = Span::from_secs(600);
/// A queue is short if its delay is less than this, or less than this part of srtt.
const SHORT_QUEUE: Span = Span::from_millis(3);
const SHORT_SHARE: u64 = 10;
/// Greatest delay, in nanoseconds.
const LONGEST: i64 = 1 << 60;

/// Packets that arrived in a short time, as if they had the same delay.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Time of its first acknowledgement.
    start: Time,
    /// The newest packet.
    newest: Seq,
    /// The greatest delay, and that before the slot.
    delay: i64,
    packets: u32,
    losses: u32,
}

/// Compares the loss rate at the delay of a lost packet with the loss rate at lower delays.
#[derive(Clone, Debug)]
struct Hazard {
    parameters: HazardParameters,
    profile: DelayProfile,
    losses: LossShare,
    /// The same with a longer memory, which single bursts hardly move.
    lasting: LossShare<2048>,
    /// A ring; the slot at `head` is the current one.
    recent: [Slot; RECENT],
    head: usize,
    used: usize,
    /// Whether delays are the receiver's timestamps.
    stamped: bool,
    last_delay: Option<i64>,
    /// The least delay of the last [`BASE_WINDOW`], with the opposite sign.
    base: WindowedMax,
    noise: f64,
    srtt: Span,
    /// The current round ends with this packet.
    round_end: Seq,
    /// Probability that no loss of the round is in excess.
    innocent: f64,
    /// Probability of congestion that earlier rounds have left.
    carried: f64,
}

/// What the losses around a delay are compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Excess {
    /// P: the share of losses above the expected ones and their deviation.
    sure: f64,
    /// Losses that count as one.
    burst: f64,
}

/// Returns the mean number of losses that come together, weighted with the losses.
fn mean_burst(losses: u64, squares: u64) -> f64 {
    (squares as f64 + 0.25) / (losses as f64 + 0.25)
}

impl Hazard {
    fn new(parameters: HazardParameters) -> Self {
        Hazard {
            parameters,
            profile: DelayProfile::new(parameters.memory.as_nanos()),
            losses: LossShare::default(),
            lasting: LossShare::default(),
            recent: [Slot::default(); RECENT],
            head: 0,
            used: 0,
            stamped: false,
            last_delay: None,
            base: WindowedMax::default(),
            noise: 0.0,
            srtt: Span::ZERO,
            round_end: 0,
            innocent: 1.0,
            carried: 0.0,
        }
    }

    /// Starts a round that ends with this packet.
    fn begin_round(&mut self, end: Seq) {
        self.round_end = end;
        self.carried = self.parameters.carry * (self.carried + 1.0 - self.innocent);
        self.innocent = 1.0;
    }

    /// Returns the delay of the packet that an acknowledgement acknowledges, in nanoseconds. Once there are timestamps,
    /// nothing else is used: the two clocks differ.
    fn delay_of(&mut self, ack: &AckSample) -> Option<i64> {
        let delay = match (ack.stamps, ack.rtt) {
            (Some(stamps), _) => {
                if !self.stamped {
                    *self = Hazard {
                        stamped: true,
                        ..Hazard::new(self.parameters)
                    };
                }
                i128::from(stamps.received.as_nanos()) - i128::from(stamps.sent.as_nanos())
            }
            (None, Some(rtt)) if !self.stamped => i128::from(rtt.as_nanos()),
            _ => return None,
        };
        Some(delay.clamp(i128::from(-LONGEST), i128::from(LONGEST)) as i64)
    }

    /// Returns the recent slots, the latest first.
    fn latest_first(&self) -> impl Iterator<Item = &Slot> {
        (0..self.used).filter_map(|back| self.recent.get((self.head + RECENT - back) % RECENT))
    }

    fn open_slot(&mut self, slot: Slot) {
        self.head = (self.head + 1) % RECENT;
        let head = self.head;
        if let Some(place) = self.recent.get_mut(head) {
            let old = core::mem::replace(place, slot);
            if self.used == RECENT {
                self.profile
                    .add(slot.start.as_nanos(), old.delay, Count::of(old.packets, old.losses));
            }
        }
        self.used = (self.used + 1).min(RECENT);
    }

    /// Counts lost packets, in the recovery `after` a reduction or not, in the slot of the first arrival after the loss, or of the last one
    /// before it. Returns that slot's delay.
    fn count_loss(&mut self, loss: &LossEvent, after: bool) -> Option<i64> {
        let (mut later, mut earlier) = (None, None);
        for back in 0..self.used {
            let place = (self.head + RECENT - back) % RECENT;
            if self.recent.get(place)?.newest <= loss.first_lost {
                earlier = Some(place);
                break;
            }
            later = Some(place);
        }
        let (first, second) = if self.parameters.before {
            (earlier, later)
        } else {
            (later, earlier)
        };
        let place = first.or(second)?;
        let delay = self.recent.get(place)?.delay;
        if self.counts(after, delay) {
            let slot = self.recent.get_mut(place)?;
            slot.losses = slot.losses.saturating_add(loss.lost());
        }
        Some(delay)
    }

    /// Returns the packets and losses by delay.
    fn view(&self) -> Option<LevelView> {
        let recent = self.latest_first().map(|slot| (slot.delay, slot.delay));
        let ranges = recent.chain(self.profile.range());
        let (low, high) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))?;
        let mut view = LevelView::new(low, high);
        self.profile.show(&mut view);
        for slot in self.latest_first() {
            view.add(slot.delay, Count::of(slot.packets, slot.losses));
        }
        Some(view)
    }

    /// Returns whether packets and losses at this delay count, in the recovery `after` a reduction or not.
    fn counts(&self, after: bool, delay: i64) -> bool {
        let short = (self.srtt / SHORT_SHARE).max(SHORT_QUEUE);
        self.parameters.aftermath || !after || delay.saturating_sub(-self.base.get() as i64) < short.as_nanos() as i64
    }

    fn near(&self) -> i64 {
        let least = self.parameters.least * self.srtt.as_nanos() as f64;
        (self.parameters.near * self.noise).max(least).min(LONGEST as f64) as i64
    }

    /// Returns whether too many packets are lost to ask for the reason.
    fn is_lossy(&self, view: &LevelView) -> bool {
        let standing = self.parameters.standing_loss_share;
        self.losses.reaches(self.parameters.loss_share)
            || (self.losses.reaches(standing) && self.lasting.reaches(LASTING * standing) && self.stands(view))
    }

    /// Returns whether a queue stands: few packets have a delay below the middle between the least one of [`BASE_WINDOW`] and the
    /// greatest one.
    fn stands(&self, view: &LevelView) -> bool {
        let (base, high) = (-self.base.get() as i64, view.high());
        if high - base <= 2 * self.near() {
            return false;
        }
        let middle = base + (high - base) / 2;
        let (mut low, mut all) = (0u64, 0u64);
        for (level, count) in view.levels.iter().enumerate() {
            all += u64::from(count.packets);
            if middle >= view.low() && level <= view.place(middle) {
                low += u64::from(count.packets);
            }
        }
        (low as f64) < self.parameters.few * all as f64
    }

    /// Compares the losses of all bands from just above `delay` down to a level below it with the losses below the band.
    fn excess(&self, view: &LevelView, delay: i64) -> Excess {
        let near = self.near();
        let (top, middle) = (view.place(delay + near), view.place(delay - near));
        let known = view.levels.get(..=top).unwrap_or_default();
        let total: u64 = known.iter().map(|count| u64::from(count.packets)).sum();
        let mut below = known
            .iter()
            .fold((0u64, 0u64, 0u64), |(packets, losses, squares), count| {
                (
                    packets + u64::from(count.packets),
                    losses + u64::from(count.losses),
                    squares + u64::from(count.squares),
                )
            });
        let bursts = mean_burst(below.1, below.2);
        let mut band = (0u64, 0u64);
        let mut excess = Excess::default();
        for (level, count) in known.iter().enumerate().rev() {
            below.0 -= u64::from(count.packets);
            below.1 -= u64::from(count.losses);
            below.2 -= u64::from(count.squares);
            band = (band.0 + u64::from(count.packets), band.1 + u64::from(count.losses));
            if below.0 == 0 || (below.0 as f64) < self.parameters.below * total as f64 {
                break;
            }
            if level > middle || band.1 == 0 {
                continue;
            }
            let ratio = band.0 as f64 / below.0 as f64;
            let own = mean_burst(below.1, below.2);
            let few = (below.0 as f64) < self.parameters.few * total as f64;
            let (burst, unseen) = if few {
                (own.max(bursts), own.max(bursts))
            } else {
                (own, 1.0)
            };
            let expected = (below.1 as f64 + 0.25 * unseen) * ratio;
            let deviation = (expected * (1.0 + ratio) * burst).sqrt();
            let losses = band.1 as f64;
            excess.burst = excess.burst.max(own);
            excess.sure = excess
                .sure
                .max((losses - expected - self.parameters.sigmas * deviation) / losses);
        }
        excess
    }
}

impl Discriminate for Hazard {
    fn on_ack(&mut self, _window: WindowView, ack: &AckSample) {
        self.losses.on_arrival(ack.packets);
        self.lasting.on_arrival(ack.packets);
        if ack.newest >= self.round_end {
            self.begin_round(ack.next.max(ack.newest.saturating_add(1)));
        }
        let delay = self.delay_of(ack);
        if let Some(srtt) = ack.srtt {
            self.srtt = srtt;
        }
        let Some(delay) = delay else {
            let at = self.latest_first().next().map_or(0, |slot| slot.delay);
            if self.counts(ack.in_recovery, at)
                && let Some(slot) = self.recent.get_mut(self.head).filter(|_| self.used > 0)
            {
                slot.packets = slot.packets.saturating_add(ack.packets);
            }
            return;
        };
        let at = ack.now.as_nanos();
        let before = self.last_delay.replace(delay).unwrap_or_else(|| {
            self.base.reset(at, -(delay as f64));
            delay
        });
        self.base.take(at, -(delay as f64), BASE_WINDOW.as_nanos());
        self.noise += NOISE_WEIGHT * ((delay - before).abs() as f64 - self.noise);
        let length = self.srtt / SLOTS_PER_RTT;
        let packets = if self.counts(ack.in_recovery, delay) {
            ack.packets
        } else {
            0
        };
        match self.recent.get_mut(self.head).filter(|_| self.used > 0) {
            Some(slot) if ack.now.since(slot.start) < length => {
                slot.newest = slot.newest.max(ack.newest);
                slot.delay = slot.delay.max(delay);
                slot.packets = slot.packets.saturating_add(packets);
            }
            current => {
                let newest = current.map_or(0, |slot| slot.newest).max(ack.newest);
                self.open_slot(Slot {
                    start: ack.now,
                    newest,
                    delay: delay.max(before),
                    packets,
                    losses: 0,
                });
            }
        }
    }

    fn on_inherited(&mut self, loss: &LossEvent) {
        self.losses.on_loss(loss);
        self.lasting.on_loss(loss);
        if loss.signal == LossSignal::Gap {
            self.count_loss(loss, true);
        }
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        self.losses.on_loss(loss);
        self.lasting.on_loss(loss);
        if loss.signal == LossSignal::Timeout {
            return Verdict::Unsure;
        }
        if loss.first_lost >= self.round_end {
            self.begin_round(loss.next.max(loss.first_lost.saturating_add(1)));
        }
        let Some(delay) = self.count_loss(loss, false) else {
            return Verdict::Unsure;
        };
        let Some(view) = self.view() else {
            return Verdict::Unsure;
        };
        let excess = self.excess(&view, delay);
        let events = f64::from(loss.lost()) / excess.burst.max(1.0);
        self.innocent *= libm::pow(1.0 - excess.sure, events);
        let guilt = self.carried + 1.0 - self.innocent;
        if self.is_lossy(&view) || guilt >= self.parameters.certainty {
            self.carried = self.parameters.carry * (guilt - 1.0).clamp(-0.5, 0.0);
            self.innocent = 1.0;
            Verdict::Congestion
        } else {
            Verdict::Transmission
        }
    }

    fn strength(&self, _window: WindowView) -> Option<f64> {
        Some((self.carried + 1.0 - self.innocent) / self.parameters.certainty)
    }
}

#[cfg(test)]
mod tests;
