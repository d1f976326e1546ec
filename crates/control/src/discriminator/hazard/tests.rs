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
        standing_loss_share: 1.0,
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
fn few_packets_at_low_delays_count_against_the_bursts_of_all_losses() {
    // 120 of 2000 packets are below the band and none of them is lost, 95 of the others are.
    let sure = |parameters, (times, losses): (u32, u32)| {
        let mut hazard = Hazard::new(parameters);
        hazard.noise = 0.01 * MS as f64;
        hazard.profile.add(0, 0, Count::of(120, 0));
        hazard.profile.add(0, 2 * MS as i64, Count::of(1880, 0));
        for _ in 0..times {
            hazard.profile.add(0, 2 * MS as i64, Count::of(0, losses));
        }
        let view = hazard.view().expect("there are packets");
        hazard.excess(&view, 2 * MS as i64).sure
    };
    // e = 1940/60/4, sigma = sqrt(e (1 + 1940/60))
    let expected = 1880.0 / 120.0 / 4.0;
    let by_hand = (95.0 - expected - 3.0 * (expected * (1.0f64 + 1880.0 / 120.0)).sqrt()) / 95.0;
    let single = sure(plain(), (95, 1));
    assert!(by_hand > 0.3 && (single - by_hand).abs() < 1e-9, "{single} {by_hand}");
    assert!(
        sure(plain(), (19, 5)).abs() < 1e-12,
        "no burst may have struck so few packets by chance"
    );
    let strict = HazardParameters { below: 0.1, ..plain() };
    assert!(sure(strict, (95, 1)).abs() < 1e-12, "the least share can be set");
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
fn a_smaller_share_of_losses_is_congestion_while_a_queue_stands() {
    // One of 15 packets is lost at a delay of 40 ms. The least delay ever is older than the memory.
    let last = |base: u64, seconds: u64, before: u64| {
        let mut bench = Bench::new(HazardParameters {
            loss_share: 0.08,
            standing_loss_share: 0.04,
            ..plain()
        });
        bench.arrive(1, base * MS);
        bench.arrive(RECENT as u64, 40 * MS);
        bench.now += seconds * 1000 * MS;
        bench.arrive(before, 40 * MS);
        let mut last = Verdict::Unsure;
        for _ in 0..40 {
            bench.arrive(13, 40 * MS);
            last = bench.lose(40 * MS);
        }
        last
    };
    assert_eq!(last(20, 120, 0), Verdict::Congestion);
    assert_eq!(
        last(20, 700, 0),
        Verdict::Transmission,
        "perhaps the path has become longer"
    );
    assert_eq!(last(20, 120, 2000), Verdict::Transmission, "not yet for long");
    assert_eq!(last(40, 120, 0), Verdict::Transmission, "the queue has been empty");
}

#[test]
fn a_timeout_has_no_verdict() {
    let mut bench = Bench::new(plain());
    bench.cycle(&[30, 68, 69]);
    assert_eq!(bench.hazard.judge(VIEW, &timeout(bench.seq)), Verdict::Unsure);
    assert_eq!(Hazard::new(plain()).judge(VIEW, &timeout(1)), Verdict::Unsure);
}

#[test]
fn a_loss_belongs_to_an_arrival_beside_it() {
    let outcome = |before| {
        let mut bench = Bench::new(HazardParameters { before, ..plain() });
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
        (slots[..5].to_vec(), bench.hazard.count_loss(&loss, false))
    };
    let (slots, delay) = outcome(false);
    assert_eq!(
        slots,
        [(2, 0), (2, 0), (9, 0), (9, 1), (5, 0)],
        "and a slot has the delay before it too"
    );
    assert_eq!(delay, Some(9 * MS as i64));
    let (slots, delay) = outcome(true);
    assert_eq!(slots, [(2, 0), (2, 0), (9, 0), (9, 0), (5, 1)]);
    assert_eq!(delay, Some(5 * MS as i64));
}

#[test]
fn a_loss_without_an_arrival_on_that_side_has_the_other_one() {
    let delay = |before, lost| {
        let mut bench = Bench::new(HazardParameters { before, ..plain() });
        bench.seq = 10;
        bench.arrive(1, 5 * MS);
        let loss = LossEvent::of(Time::from_nanos(bench.now), LossSignal::Gap, lost);
        bench.hazard.count_loss(&loss, false)
    };
    assert_eq!(delay(true, 3), Some(5 * MS as i64), "nothing arrived before");
    assert_eq!(delay(false, 30), Some(5 * MS as i64), "nothing arrived after it yet");
    let mut empty = Hazard::new(plain());
    let loss = LossEvent::of(Time::ZERO, LossSignal::Gap, 1);
    assert_eq!(empty.count_loss(&loss, false), None);
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
    assert_eq!(bad(|p| p.few = 1.1), "few");
    assert_eq!(bad(|p| p.standing_loss_share = 1.1), "standing_loss_share");
}

#[test]
fn what_a_recovery_reports_at_a_long_queue_may_be_left_out() {
    let counted = |aftermath, delay: u64| {
        let mut bench = Bench::new(HazardParameters { aftermath, ..plain() });
        bench.arrive(4, 2 * MS);
        bench.seq += 1;
        let lost = bench.seq;
        bench.seq += 1;
        bench.now += MS;
        let ack = AckSample {
            in_recovery: true,
            ..bench.ack(delay)
        };
        bench.hazard.on_ack(VIEW, &ack);
        let loss = LossEvent::of(Time::from_nanos(bench.now), LossSignal::Gap, lost);
        bench.hazard.on_inherited(&loss);
        let slot = bench.hazard.latest_first().next().copied().expect("a slot");
        assert_eq!(slot.delay, (delay as i64).max(2 * MS as i64));
        (slot.packets, slot.losses)
    };
    assert_eq!(counted(true, 12 * MS), (1, 1));
    assert_eq!(counted(false, 12 * MS), (0, 0), "10 ms of queue");
    assert_eq!(counted(false, 4 * MS), (1, 1), "2 ms of queue do not overflow");
}
