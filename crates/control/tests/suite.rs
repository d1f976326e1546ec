//! What holds for every registered part, whatever acknowledgements, losses and marks come.

use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::multipath::PathView;
use whimbrel_control::multipath::coupling::CouplingSpec;
use whimbrel_control::multipath::distribution::{Demand, DistributionSpec};
use whimbrel_control::multipath::policy::{Fitness, PathPolicySpec, Paths, PolicyEvent};
use whimbrel_control::window::{GrowthRule, WindowSpec};
use whimbrel_control::{
    AckSample, BuildContext, Controller, CouplingLimits, LossEvent, LossSignal, MarkEvent, RateSample, Rng, Span,
    Stamps, Time, Verdict, WindowRules,
};

const UNIT: u64 = 1468;

/// A number of any magnitude: small ones, and now and then the largest.
fn any(rng: &mut Rng) -> u64 {
    match rng.below(20) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX / 2,
        _ => rng.next_u64() >> rng.below(64),
    }
}

fn plausible(rng: &mut Rng, limit: u64) -> u64 {
    if rng.chance(0.02) { any(rng) } else { rng.below(limit) }
}

fn span(rng: &mut Rng) -> Option<Span> {
    rng.chance(0.9).then(|| Span::from_nanos(plausible(rng, 2_000_000_000)))
}

fn ack(rng: &mut Rng, now: Time, seq: u64, cwnd: u64) -> AckSample {
    AckSample {
        acked: plausible(rng, 4 * UNIT),
        packets: plausible(rng, 4) as u32,
        flight_before: plausible(rng, cwnd.max(1).saturating_mul(2)),
        flight: plausible(rng, cwnd.max(1)),
        cumulative_advanced: rng.chance(0.8),
        all_acked: rng.chance(0.05),
        in_recovery: rng.chance(0.2),
        acked_to: plausible(rng, seq + 1),
        newest: plausible(rng, seq + 1),
        next: seq.saturating_add(plausible(rng, 100)),
        rtt: span(rng),
        srtt: span(rng),
        min_rtt: span(rng),
        delivered: plausible(rng, 1 << 30),
        rate: rng.chance(0.8).then(|| RateSample {
            delivered: plausible(rng, 1 << 20),
            interval: Span::from_nanos(plausible(rng, 1_000_000_000)),
            prior_delivered: plausible(rng, 1 << 30),
            lost: plausible(rng, 10 * UNIT),
            lost_so_far: plausible(rng, 1 << 30),
            flight_at_send: plausible(rng, 1 << 20),
            app_limited: rng.chance(0.2),
        }),
        stamps: rng.chance(0.5).then(|| Stamps {
            sent: Time::from_nanos(any(rng)),
            received: Time::from_nanos(any(rng)),
        }),
        eci: rng.chance(0.5).then(|| rng.chance(0.5)),
        ..AckSample::of(now, UNIT, cwnd)
    }
}

fn loss(rng: &mut Rng, now: Time, seq: u64, cwnd: u64) -> LossEvent {
    let signal = if rng.chance(0.8) {
        LossSignal::Gap
    } else {
        LossSignal::Timeout
    };
    let first_lost = plausible(rng, seq + 1).min(u64::MAX - 1);
    LossEvent {
        last_lost: first_lost.saturating_add(rng.below(10)),
        packets: plausible(rng, 10) as u32,
        bytes: plausible(rng, 10 * UNIT),
        next: seq.saturating_add(plausible(rng, 100)),
        flight_before: plausible(rng, cwnd.max(1).saturating_mul(2)),
        srtt: span(rng),
        min_rtt: span(rng),
        ..LossEvent::of(now, signal, first_lost)
    }
}

fn mark(rng: &mut Rng, now: Time, seq: u64) -> MarkEvent {
    MarkEvent {
        packets: plausible(rng, 4) as u32,
        next: seq.saturating_add(plausible(rng, 100)),
        flight: plausible(rng, 100 * UNIT),
        srtt: span(rng),
        min_rtt: span(rng),
        reduces: rng.chance(0.5),
        ..MarkEvent::of(now, plausible(rng, seq + 1).min(u64::MAX - 1))
    }
}

fn torture(discriminator: &DiscriminatorSpec, window: &WindowSpec, seed: u64) {
    let mut rng = Rng::stream(seed, "parts");
    let context = BuildContext::default();
    let rules = WindowRules {
        initial_cwnd: 3 * UNIT,
        unit: UNIT,
        floor: 4 * UNIT,
        growth: GrowthRule::EveryAck,
    };
    let mut path = Controller::new(rules, discriminator.build(&context), window.build(&context));
    let (mut now, mut seq) = (Time::ZERO, 0);
    let place = format!("{} and {}, seed {seed}", discriminator.name(), window.name());
    for _ in 0..1500 {
        now += Span::from_nanos(plausible(&mut rng, 100_000_000));
        seq += rng.below(5);
        let before = path.cwnd();
        match rng.below(20) {
            0 | 1 => {
                let loss = loss(&mut rng, now, seq, before);
                let in_recovery = rng.chance(0.3);
                let verdict = path.judge(&loss);
                path.react(&loss, verdict, in_recovery, CouplingLimits::NONE);
                // RFC 9260 §7.2.3 lifts a window below the floor to it. JSCTP sets the window to its optimum, even a larger one, after a
                // timeout that was a transmission loss (Chen et al. 2011, 3.2).
                let may_enlarge =
                    window.name() == "tabe" && loss.signal == LossSignal::Timeout && verdict == Verdict::Transmission;
                let limit = if may_enlarge { u64::MAX } else { before.max(4 * UNIT) };
                assert!(path.cwnd() <= limit, "{place}: a loss enlarges the window");
                if in_recovery && loss.signal == LossSignal::Gap {
                    assert_eq!(path.cwnd(), before, "{place}: reduced already");
                }
            }
            2 => path.on_mark(&mark(&mut rng, now, seq), CouplingLimits::NONE),
            3 => path.on_idle(rng.below(3)),
            4 => path.on_spurious_timeout(),
            _ => {
                let ack = ack(&mut rng, now, seq, before);
                path.on_ack(&ack, CouplingLimits::NONE);
            }
        }
        assert!(path.cwnd() >= UNIT, "{place}: cwnd {}", path.cwnd());
        assert!(path.ssthresh() >= UNIT - 1, "{place}: ssthresh {}", path.ssthresh());
        if let Some(rate) = path.pacing_rate(span(&mut rng)) {
            assert!(rate.as_bps() > 0, "{place}: pacing at nothing");
        }
    }
}

fn seeds() -> Vec<u64> {
    match std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (1..=20).collect(),
    }
}

#[test]
fn no_discriminator_panics_whatever_comes() {
    for info in DiscriminatorSpec::ALL {
        let spec = DiscriminatorSpec::by_name(info.name).unwrap();
        assert_eq!((spec.name(), spec.validate()), (info.name, Ok(())));
        for seed in seeds() {
            torture(&spec, &WindowSpec::default(), seed);
        }
    }
}

#[test]
fn every_window_stays_within_bounds_whatever_comes() {
    for info in WindowSpec::ALL {
        let spec = WindowSpec::by_name(info.name).unwrap();
        assert_eq!((spec.name(), spec.validate()), (info.name, Ok(())));
        for seed in seeds() {
            torture(&DiscriminatorSpec::default(), &spec, seed);
            torture(&DiscriminatorSpec::by_name("jitter").unwrap(), &spec, seed);
        }
    }
}

/// A clean path of 10 packets in 100 ms without queue: every window reaches it and goes on growing as far as it may.
#[test]
fn every_window_opens_on_a_clean_path() {
    for info in WindowSpec::ALL {
        let context = BuildContext::default();
        let rules = WindowRules {
            initial_cwnd: 3 * UNIT,
            unit: UNIT,
            floor: 4 * UNIT,
            growth: GrowthRule::EveryAck,
        };
        let window = WindowSpec::by_name(info.name).unwrap().build(&context);
        let mut path = Controller::new(rules, DiscriminatorSpec::default().build(&context), window);
        let (mut seq, mut delivered, mut now) = (0, 0, Time::ZERO);
        let rtt = Span::from_millis(100);
        for _ in 0..10 {
            let packets = path.cwnd() / UNIT;
            let prior = delivered;
            for n in 0..packets {
                delivered += UNIT;
                let ack = AckSample {
                    newest: seq,
                    acked_to: seq + 1,
                    next: seq + packets,
                    rtt: Some(rtt),
                    srtt: Some(rtt),
                    min_rtt: Some(rtt),
                    delivered,
                    rate: Some(RateSample {
                        delivered: packets * UNIT,
                        interval: rtt,
                        prior_delivered: prior,
                        lost: 0,
                        lost_so_far: 0,
                        flight_at_send: packets * UNIT,
                        app_limited: false,
                    }),
                    ..AckSample::of(now + rtt * n / packets, UNIT, path.cwnd())
                };
                seq += 1;
                path.on_ack(&ack, CouplingLimits::NONE);
            }
            now += rtt;
        }
        assert!(path.cwnd() >= 100 * UNIT, "{}: {} units", info.name, path.cwnd() / UNIT);
    }
}

/// A path of any kind.
fn view(rng: &mut Rng) -> PathView {
    let usable = rng.chance(0.8);
    PathView {
        usable,
        open: usable && rng.chance(0.7),
        cwnd: plausible(rng, 100 * UNIT),
        ssthresh: plausible(rng, 100 * UNIT),
        flight: plausible(rng, 100 * UNIT),
        unit: if rng.chance(0.02) { any(rng) } else { UNIT },
        srtt: span(rng),
        rttvar: Span::from_nanos(plausible(rng, 500_000_000)),
        min_rtt: span(rng),
        rto: Span::from_nanos(plausible(rng, 60_000_000_000)),
        loss: rng.below(101) as f64 / 100.0,
        errors: plausible(rng, 6) as u32,
        last_hop: rng.chance(0.2).then(|| rng.below(3) as u32),
    }
}

fn views(rng: &mut Rng) -> Vec<PathView> {
    (0..rng.below(5)).map(|_| view(rng)).collect()
}

fn context() -> BuildContext {
    BuildContext::default()
}

#[test]
fn every_distribution_names_an_open_path_or_none_whatever_comes() {
    for info in DistributionSpec::ALL {
        let spec = DistributionSpec::by_name(info.name).unwrap();
        assert_eq!((spec.name(), spec.validate()), (info.name, Ok(())));
        for seed in seeds() {
            let mut rng = Rng::stream(seed, "distributions");
            let Some(mut part) = spec.build_unless_default(&context()) else {
                continue;
            };
            let mut now = Time::ZERO;
            for _ in 0..1500 {
                now += Span::from_nanos(plausible(&mut rng, 100_000_000));
                let paths = views(&mut rng);
                let demand = Demand {
                    now,
                    queued: plausible(&mut rng, 1 << 20),
                    in_flight: plausible(&mut rng, 1 << 20),
                    window: plausible(&mut rng, 1 << 20),
                    unacknowledged: plausible(&mut rng, 1 << 20),
                    send_buffer: plausible(&mut rng, 1 << 20),
                    sending: plausible(&mut rng, 4) as usize,
                };
                if rng.chance(0.1) {
                    part.on_stall(&demand, &paths);
                }
                if let Some(chosen) = part.choose(&demand, &paths) {
                    let is_open = paths.get(chosen).is_some_and(|path| path.open);
                    assert!(is_open, "{}, seed {seed}: {chosen} of {paths:?}", info.name);
                }
            }
        }
    }
}

#[test]
fn every_coupling_answers_with_numbers_whatever_comes() {
    for info in CouplingSpec::ALL {
        let spec = CouplingSpec::by_name(info.name).unwrap();
        assert_eq!((spec.name(), spec.validate()), (info.name, Ok(())));
        for seed in seeds() {
            let mut rng = Rng::stream(seed, "couplings");
            let Some(mut part) = spec.build_unless_default(&context()) else {
                continue;
            };
            for _ in 0..1500 {
                let mut paths = views(&mut rng);
                paths.push(view(&mut rng));
                let path = rng.below(paths.len() as u64) as usize;
                let growth = match rng.below(5) {
                    0 => {
                        part.on_loss(path);
                        part.reduced(path, &paths);
                        continue;
                    }
                    1 => part.slow_start_growth(path, &paths),
                    _ => {
                        part.on_delivered(path, plausible(&mut rng, 10 * UNIT));
                        part.growth(path, &paths)
                    }
                };
                let place = format!("{}, seed {seed}: {growth} for {path} of {paths:?}", info.name);
                // OLIA's shift takes a whole unit at most.
                assert!(growth.is_finite() && growth >= -1.0, "{place}");
            }
        }
    }
}

fn event(rng: &mut Rng) -> PolicyEvent {
    let few = |rng: &mut Rng| plausible(rng, 10) as u32;
    match rng.below(12) {
        0 => PolicyEvent::Chosen,
        1 => PolicyEvent::Answered {
            rtt: Span::from_nanos(plausible(rng, 2_000_000_000)),
        },
        2 | 3 => PolicyEvent::Timeout {
            consecutive: 1 + few(rng).min(u32::MAX - 1),
        },
        4 | 5 => PolicyEvent::Train {
            sent: few(rng),
            answered: few(rng),
            bytes: plausible(rng, 1500),
            spread: Span::from_nanos(plausible(rng, 100_000_000)),
        },
        6..=8 => PolicyEvent::Report {
            gaps: few(rng),
            duplicates: few(rng),
        },
        _ => PolicyEvent::Delivered {
            packets: few(rng),
            bytes: plausible(rng, 10 * UNIT),
            filled: rng.below(2) == 0,
        },
    }
}

#[test]
fn no_path_policy_panics_or_gives_orders_without_end_whatever_comes() {
    for info in PathPolicySpec::ALL {
        let spec = PathPolicySpec::by_name(info.name).unwrap();
        assert_eq!((spec.name(), spec.validate()), (info.name, Ok(())));
        for seed in seeds() {
            let mut rng = Rng::stream(seed, "policies");
            let Some(mut part) = spec.build_unless_default(&context()) else {
                continue;
            };
            let mut now = Time::ZERO;
            let mut all = vec![view(&mut rng)];
            for _ in 0..1500 {
                now += Span::from_nanos(plausible(&mut rng, 100_000_000));
                // Their number may grow.
                if all.len() < 5 && rng.chance(0.01) {
                    all.push(view(&mut rng));
                }
                all.iter_mut().for_each(|path| *path = view(&mut rng));
                let count = all.len() as u64;
                let probes: Vec<_> = (0..rng.below(count + 1))
                    .map(|_| rng.chance(0.5).then(|| plausible(&mut rng, 10 * UNIT)))
                    .collect();
                let paths = Paths {
                    now,
                    primary: rng.below(count) as usize,
                    current: rng.below(count) as usize,
                    views: &all,
                    probes: &probes,
                };
                let about = rng.below(count) as usize;
                part.on_event(&paths, about, &event(&mut rng));
                if part.next_timer() <= now {
                    part.on_timer(&paths);
                }
                let counted = [Fitness::Active, Fitness::PotentiallyFailed, Fitness::Inactive][rng.below(3) as usize];
                part.fitness(about, counted, &paths);
                part.sending(rng.below(count) as usize, &paths);
                let primary = part.primary(&paths);
                assert!(primary < all.len(), "{}, seed {seed}: path {primary}", info.name);
                let orders = (0..100).take_while(|_| part.next_order().is_some()).count();
                assert!(orders < 100, "{}, seed {seed}: no end of orders", info.name);
            }
        }
    }
}
