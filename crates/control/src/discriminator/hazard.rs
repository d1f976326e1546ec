//! Hazard of loss by delay: losses of a full queue strike where the delay is near its top, losses of the channel strike
//! at every delay alike.

use super::Discriminate;
use crate::estimator::{Count, DelayProfile, LevelView, LossShare};
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
    /// Tolerance of a delay, as a multiple of the mean difference of two successive delays, 0 to 100.
    pub near: f64,
    /// Least tolerance of a delay as a share of the smoothed round-trip time, 0 to 0.5.
    pub least: f64,
    /// Least share of the packets with a delay below a band, 0.001 to 0.9.
    pub below: f64,
    /// A loss is congestion if this probability or more of the losses of its round is in excess, 0.01 to 1.
    pub certainty: f64,
    /// Share of the probability that rounds without a verdict leave to later rounds, 0 to 1.
    pub carry: f64,
    /// A loss is congestion while at least this share of the packets is lost, 0 to 1; 1 turns this rule off. If many flows keep a
    /// queue full, no delay is low.
    pub loss_share: f64,
}

impl Default for HazardParameters {
    fn default() -> Self {
        HazardParameters {
            memory: Span::from_secs(30),
            sigmas: 3.0,
            near: 2.0,
            least: 0.015,
            below: 0.1,
            certainty: 0.5,
            carry: 0.9,
            loss_share: 0.08,
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
        in_range("certainty", self.certainty, 0.01, 1.0, "")?;
        in_range("carry", self.carry, 0.0, 1.0, "")?;
        in_range("loss_share", self.loss_share, 0.0, 1.0, "")
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
    /// A ring; the slot at `head` is the current one.
    recent: [Slot; RECENT],
    head: usize,
    used: usize,
    /// Whether delays are the receiver's timestamps.
    stamped: bool,
    last_delay: Option<i64>,
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

impl Hazard {
    fn new(parameters: HazardParameters) -> Self {
        Hazard {
            parameters,
            profile: DelayProfile::new(parameters.memory.as_nanos()),
            losses: LossShare::default(),
            recent: [Slot::default(); RECENT],
            head: 0,
            used: 0,
            stamped: false,
            last_delay: None,
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

    /// Counts lost packets in the slot of the first arrival after the loss. Returns that slot's delay.
    fn count_loss(&mut self, loss: &LossEvent) -> Option<i64> {
        let mut found = None;
        for back in 0..self.used {
            let place = (self.head + RECENT - back) % RECENT;
            match self.recent.get(place) {
                Some(slot) if slot.newest > loss.first_lost => found = Some(place),
                _ if found.is_none() => found = Some(self.head),
                _ => break,
            }
        }
        let slot = self.recent.get_mut(found?)?;
        slot.losses = slot.losses.saturating_add(loss.lost());
        Some(slot.delay)
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

    fn near(&self) -> i64 {
        let least = self.parameters.least * self.srtt.as_nanos() as f64;
        (self.parameters.near * self.noise).max(least).min(LONGEST as f64) as i64
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
            let expected = (below.1 as f64 + 0.25) * ratio;
            let burst = (below.2 as f64 + 0.25) / (below.1 as f64 + 0.25);
            let deviation = (expected * (1.0 + ratio) * burst).sqrt();
            let losses = band.1 as f64;
            excess.burst = excess.burst.max(burst);
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
        if ack.newest >= self.round_end {
            self.begin_round(ack.next.max(ack.newest.saturating_add(1)));
        }
        let delay = self.delay_of(ack);
        if let Some(srtt) = ack.srtt {
            self.srtt = srtt;
        }
        let Some(delay) = delay else {
            if let Some(slot) = self.recent.get_mut(self.head).filter(|_| self.used > 0) {
                slot.packets = slot.packets.saturating_add(ack.packets);
            }
            return;
        };
        let before = self.last_delay.replace(delay).unwrap_or(delay);
        self.noise += NOISE_WEIGHT * ((delay - before).abs() as f64 - self.noise);
        let length = self.srtt / SLOTS_PER_RTT;
        match self.recent.get_mut(self.head).filter(|_| self.used > 0) {
            Some(slot) if ack.now.since(slot.start) < length => {
                slot.newest = slot.newest.max(ack.newest);
                slot.delay = slot.delay.max(delay);
                slot.packets = slot.packets.saturating_add(ack.packets);
            }
            current => {
                let newest = current.map_or(0, |slot| slot.newest).max(ack.newest);
                self.open_slot(Slot {
                    start: ack.now,
                    newest,
                    delay: delay.max(before),
                    packets: ack.packets,
                    losses: 0,
                });
            }
        }
    }

    fn on_inherited(&mut self, loss: &LossEvent) {
        self.losses.on_loss(loss);
        if loss.signal == LossSignal::Gap {
            self.count_loss(loss);
        }
    }

    fn judge(&mut self, _window: WindowView, loss: &LossEvent) -> Verdict {
        self.losses.on_loss(loss);
        if loss.signal == LossSignal::Timeout {
            return Verdict::Unsure;
        }
        if loss.first_lost >= self.round_end {
            self.begin_round(loss.next.max(loss.first_lost.saturating_add(1)));
        }
        let Some(delay) = self.count_loss(loss) else {
            return Verdict::Unsure;
        };
        let Some(view) = self.view() else {
            return Verdict::Unsure;
        };
        let excess = self.excess(&view, delay);
        let events = f64::from(loss.lost()) / excess.burst.max(1.0);
        self.innocent *= libm::pow(1.0 - excess.sure, events);
        let guilt = self.carried + 1.0 - self.innocent;
        if self.losses.reaches(self.parameters.loss_share) || guilt >= self.parameters.certainty {
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
mod tests {
    use super::*;
    use crate::discriminator::testing::{VIEW, ack_to, timeout};
    use crate::sample::Stamps;

    const MS: u64 = 1_000_000;

    /// A path on which a packet arrives each millisecond, so that each packet is a slot: 16 slots in 16 ms.
    struct Bench {
        hazard: Hazard,
        now: u64,
        seq: Seq,
    }

    impl Bench {
        fn new(parameters: HazardParameters) -> Self {
            Bench {
                hazard: Hazard::new(parameters),
                now: 0,
                seq: 0,
            }
        }

        fn ack(&self, delay: u64) -> AckSample {
            AckSample {
                now: Time::from_nanos(self.now),
                newest: self.seq,
                next: self.seq + 16,
                packets: 1,
                rtt: Some(Span::from_nanos(delay)),
                srtt: Some(Span::from_millis(16)),
                ..ack_to(self.seq + 1)
            }
        }

        /// Packets that arrive with this delay.
        fn arrive(&mut self, packets: u64, delay: u64) {
            for _ in 0..packets {
                self.seq += 1;
                self.now += MS;
                let ack = self.ack(delay);
                self.hazard.on_ack(VIEW, &ack);
            }
        }

        /// A lost packet, and the arrival after it with this delay.
        fn lose(&mut self, delay: u64) -> Verdict {
            self.seq += 1;
            let lost = self.seq;
            self.arrive(1, delay);
            let loss = LossEvent {
                now: Time::from_nanos(self.now),
                next: self.seq + 16,
                ..LossEvent::of(Time::ZERO, LossSignal::Gap, lost)
            };
            self.hazard.judge(VIEW, &loss)
        }

        /// A queue that grows from 0 to 50 ms and drains, 10 packets at each millisecond, with these losses at delays.
        fn cycle(&mut self, losses: &[u64]) -> Vec<Verdict> {
            let mut verdicts = Vec::new();
            for level in 20..70 {
                self.arrive(10, level * MS);
                for _ in losses.iter().filter(|at| **at == level) {
                    verdicts.push(self.lose(level * MS));
                }
            }
            verdicts
        }
    }

    /// The rule without its extensions.
    fn plain() -> HazardParameters {
        HazardParameters {
            sigmas: 3.0,
            carry: 0.0,
            least: 0.0,
            loss_share: 1.0,
            ..HazardParameters::default()
        }
    }

    #[test]
    fn losses_at_the_top_are_congestion_and_losses_at_every_delay_are_not() {
        use Verdict::{Congestion, Transmission};
        let mut full = Bench::new(plain());
        for _ in 0..4 {
            full.cycle(&[68, 69, 69]);
        }
        assert_eq!(
            full.cycle(&[30, 68, 69, 69])[0],
            Transmission,
            "what lies above does not count"
        );
        assert_eq!(full.cycle(&[69]), [Congestion]);
        let mut radio = Bench::new(plain());
        let everywhere = [21, 26, 31, 36, 41, 46, 51, 56, 61, 66, 69];
        for _ in 0..4 {
            let verdicts = radio.cycle(&everywhere);
            assert!(verdicts.iter().all(|verdict| *verdict == Transmission), "{verdicts:?}");
        }
        assert_eq!(
            radio.cycle(&[68, 69, 69, 69, 69, 69, 69, 69, 69, 69]).last(),
            Some(&Congestion),
            "and both"
        );
    }

    /// Returns the excess of a loss at 2 ms: below 80 packets with one loss, in the band 20 packets with five.
    fn excess(parameters: HazardParameters, above: u32) -> Excess {
        let mut hazard = Hazard::new(parameters);
        hazard.noise = 0.01 * MS as f64;
        for (delay, packets, losses) in [(0, 80, 1), (2 * MS as i64, 20, 5), (4 * MS as i64, 50, above)] {
            hazard.profile.add(0, delay, Count::of(packets, 0));
            for _ in 0..losses {
                hazard.profile.add(0, delay, Count::of(0, 1));
            }
        }
        let view = hazard.view().expect("there are packets");
        hazard.excess(&view, 2 * MS as i64)
    }

    #[test]
    fn the_excess_by_hand() {
        // e = (1 + 1/4) 20/80 = 0.3125, sigma = sqrt(0.3125 (1 + 20/80)) = 0.625: P = (5 - 0.3125 - 1.875)/5
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let found = excess(plain(), 40);
        assert!(near(found.sure, 0.5625), "{found:?}");
        assert_eq!(found, excess(plain(), 0), "losses above the delay are left out");
        let none = excess(HazardParameters { sigmas: 8.0, ..plain() }, 0);
        assert_eq!(none.sure, 0.0, "never negative");
        let none = excess(HazardParameters { below: 0.81, ..plain() }, 0);
        assert_eq!(none, Excess::default(), "too few packets below");
    }

    #[test]
    fn losses_of_a_round_count_together_and_those_of_others_do_not() {
        let mut hazard = Hazard::new(plain());
        hazard.noise = 0.01 * MS as f64;
        hazard.profile.add(0, 0, Count::of(800, 0));
        let mut bench = Bench {
            hazard,
            now: MS,
            seq: 100,
        };
        // One loss of 1 + n packets: e = n/3200 and little more, so that P = 1 - e - 3 sqrt(e (1 + n/800)).
        bench.arrive(150, 5 * MS);
        let first = bench.lose(5 * MS);
        let alone = bench.hazard.innocent;
        assert!(alone > 0.5 && alone < 1.0, "{alone}");
        assert_eq!(first, Verdict::Transmission);
        assert_eq!(bench.lose(5 * MS), Verdict::Congestion, "the second in the round");
        let mut others = Bench {
            hazard: bench.hazard.clone(),
            now: bench.now,
            seq: bench.seq,
        };
        others.hazard.innocent = alone;
        others.hazard.begin_round(others.seq + 1);
        assert!((others.hazard.innocent - 1.0).abs() < 1e-12, "a new round");
        assert!(others.hazard.carried.abs() < 1e-12);
        others.hazard.parameters.carry = 1.0;
        others.hazard.innocent = alone;
        others.hazard.begin_round(others.seq + 1);
        assert!((others.hazard.carried - (1.0 - alone)).abs() < 1e-12, "carried on");
    }

    #[test]
    fn a_verdict_of_congestion_uses_up_one_unit_of_the_excess() {
        let mut hazard = Hazard::new(HazardParameters { carry: 1.0, ..plain() });
        hazard.noise = 0.01 * MS as f64;
        hazard.profile.add(0, 0, Count::of(8000, 0));
        let mut bench = Bench {
            hazard,
            now: MS,
            seq: 100,
        };
        bench.arrive(20, 5 * MS);
        assert_eq!(bench.lose(5 * MS), Verdict::Congestion);
        let left = bench.hazard.carried;
        assert!((-0.5..0.0).contains(&left), "{left}");
        bench.hazard.carried = -0.5;
        bench.hazard.innocent = 0.5;
        bench.hazard.begin_round(bench.seq + 1);
        assert!(bench.hazard.carried.abs() < 1e-12, "{}", bench.hazard.carried);
    }

    #[test]
    fn bursts_below_a_band_raise_the_deviation() {
        // The same five losses below the band, one by one or together: D = 25.25 / 5.25
        let excess = |together: bool| {
            let mut hazard = Hazard::new(plain());
            hazard.noise = 0.01 * MS as f64;
            hazard.profile.add(0, 0, Count::of(80, 0));
            let (times, losses) = if together { (1, 5) } else { (5, 1) };
            for _ in 0..times {
                hazard.profile.add(0, 0, Count::of(0, losses));
            }
            hazard.profile.add(0, 2 * MS as i64, Count::of(20, 20));
            let view = hazard.view().expect("there are packets");
            hazard.excess(&view, 2 * MS as i64)
        };
        let (single, bursts) = (excess(false), excess(true));
        assert!((single.burst - 1.0).abs() < 1e-12, "{single:?}");
        assert!((bursts.burst - 25.25 / 5.25).abs() < 1e-12, "{bursts:?}");
        // e = 5.25/4, sigma = sqrt(e 1.25) = 1.281; P = (20 - 1.3125 - 3 sigma sqrt(D)) / 20
        assert!((single.sure - (20.0 - 1.3125 - 3.0 * 1.640_625f64.sqrt()) / 20.0).abs() < 1e-12);
        let deviation = (1.640_625f64 * 25.25 / 5.25).sqrt();
        assert!((bursts.sure - (20.0 - 1.3125 - 3.0 * deviation) / 20.0).abs() < 1e-12);
    }

    #[test]
    fn delays_within_a_share_of_the_round_trip_time_are_alike() {
        let sure = |least: f64| {
            let mut hazard = Hazard::new(HazardParameters { least, ..plain() });
            hazard.srtt = Span::from_millis(100);
            hazard.profile.add(0, 0, Count::of(80, 1));
            hazard.profile.add(0, 2 * MS as i64, Count::of(20, 5));
            let view = hazard.view().expect("there are packets");
            hazard.excess(&view, 2 * MS as i64).sure
        };
        assert!(sure(0.015) > 0.5, "2 ms are more than 1.5 ms");
        assert!(sure(0.025).abs() < 1e-12, "and less than 2.5 ms");
    }

    #[test]
    fn a_loss_is_congestion_while_a_large_share_of_the_packets_is_lost() {
        let judge = |loss_share: f64| {
            let mut bench = Bench::new(HazardParameters { loss_share, ..plain() });
            let mut last = Verdict::Unsure;
            for _ in 0..40 {
                bench.arrive(8, 20 * MS);
                last = bench.lose(20 * MS);
            }
            last
        };
        // One of ten.
        assert_eq!(judge(0.09), Verdict::Congestion);
        assert_eq!(judge(0.11), Verdict::Transmission);
        assert_eq!(judge(1.0), Verdict::Transmission, "the rule is off");
    }

    #[test]
    fn a_timeout_has_no_verdict() {
        let mut bench = Bench::new(plain());
        bench.cycle(&[30, 68, 69]);
        assert_eq!(bench.hazard.judge(VIEW, &timeout(bench.seq)), Verdict::Unsure);
        assert_eq!(Hazard::new(plain()).judge(VIEW, &timeout(1)), Verdict::Unsure);
    }

    #[test]
    fn a_loss_belongs_to_the_first_arrival_after_it() {
        let mut bench = Bench::new(plain());
        bench.arrive(10, 5 * MS);
        bench.seq += 1;
        let lost = bench.seq;
        bench.arrive(1, 9 * MS);
        bench.arrive(3, 2 * MS);
        let loss = LossEvent::of(Time::from_nanos(bench.now), LossSignal::Gap, lost);
        bench.hazard.on_inherited(&loss);
        let slots: Vec<_> = bench
            .hazard
            .latest_first()
            .map(|slot| (slot.delay / MS as i64, slot.losses))
            .collect();
        assert_eq!(
            slots[..5],
            [(2, 0), (2, 0), (9, 0), (9, 1), (5, 0)],
            "and a slot has the delay before it too"
        );
        assert_eq!(bench.hazard.count_loss(&loss), Some(9 * MS as i64));
    }

    #[test]
    fn packets_within_a_sixteenth_of_the_round_trip_time_share_a_slot() {
        let mut bench = Bench::new(plain());
        for step in 0..32 {
            bench.now += MS / 4;
            bench.seq += 1;
            let ack = bench.ack((step + 1) * MS);
            bench.hazard.on_ack(VIEW, &ack);
        }
        let slots: Vec<_> = bench
            .hazard
            .latest_first()
            .map(|slot| (slot.packets, slot.delay / MS as i64))
            .collect();
        assert_eq!(
            slots,
            [(4, 32), (4, 28), (4, 24), (4, 20), (4, 16), (4, 12), (4, 8), (4, 4)]
        );
    }

    #[test]
    fn timestamps_replace_round_trip_times() {
        let mut bench = Bench::new(plain());
        bench.arrive(5, 50 * MS);
        bench.seq += 1;
        let stamped = AckSample {
            stamps: Some(Stamps {
                sent: Time::from_nanos(100 * MS),
                received: Time::from_nanos(93 * MS),
            }),
            ..bench.ack(50 * MS)
        };
        bench.hazard.on_ack(VIEW, &stamped);
        assert_eq!(
            bench.hazard.last_delay,
            Some(-7 * MS as i64),
            "the receiver's clock is late"
        );
        assert_eq!(bench.hazard.used, 1, "what the round-trip times gave is discarded");
        bench.arrive(5, 50 * MS);
        assert_eq!((bench.hazard.used, bench.hazard.last_delay), (1, Some(-7 * MS as i64)));
        assert_eq!(
            bench.hazard.latest_first().next().map(|slot| slot.packets),
            Some(6),
            "but the packets count"
        );
    }

    #[test]
    fn parameters_have_ranges() {
        let bad = |change: fn(&mut HazardParameters)| {
            let mut parameters = HazardParameters::default();
            change(&mut parameters);
            parameters.validate().unwrap_err().field
        };
        assert_eq!(HazardParameters::default().validate(), Ok(()));
        assert_eq!(bad(|p| p.memory = Span::ZERO), "memory");
        assert_eq!(bad(|p| p.sigmas = -1.0), "sigmas");
        assert_eq!(bad(|p| p.near = 101.0), "near");
        assert_eq!(bad(|p| p.least = 0.6), "least");
        assert_eq!(bad(|p| p.below = 0.0), "below");
        assert_eq!(bad(|p| p.certainty = 0.0), "certainty");
        assert_eq!(bad(|p| p.carry = 1.1), "carry");
        assert_eq!(bad(|p| p.loss_share = -0.1), "loss_share");
    }
}
