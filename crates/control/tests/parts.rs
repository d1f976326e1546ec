//! What holds for every registered part, whatever acknowledgements, losses and marks come.

use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::window::WindowSpec;
use whimbrel_control::{
    AckSample, BuildContext, Controller, LossEvent, LossSignal, MarkEvent, RateSample, Rng, Span, Stamps, Time,
    WindowRules,
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
    let context = BuildContext {
        unit: UNIT,
        floor: 4 * UNIT,
        truth: None,
    };
    let rules = WindowRules {
        initial_cwnd: 3 * UNIT,
        unit: UNIT,
        floor: 4 * UNIT,
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
                path.on_loss(&loss, in_recovery);
                // RFC 9260 §7.2.3 lifts a window below the floor to it; JSCTP's goes to the optimum after a timeout by the channel.
                let limit = if window.name() == "tabe" {
                    u64::MAX
                } else {
                    before.max(4 * UNIT)
                };
                assert!(path.cwnd() <= limit, "{place}: a loss enlarges the window");
                if in_recovery && loss.signal == LossSignal::Gap {
                    assert_eq!(path.cwnd(), before, "{place}: reduced already");
                }
            }
            2 => path.on_mark(&mark(&mut rng, now, seq)),
            3 => path.on_idle(rng.below(3)),
            4 => path.on_spurious_timeout(),
            _ => {
                let ack = ack(&mut rng, now, seq, before);
                path.on_ack(&ack);
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
        let context = BuildContext {
            unit: UNIT,
            floor: 4 * UNIT,
            truth: None,
        };
        let rules = WindowRules {
            initial_cwnd: 3 * UNIT,
            unit: UNIT,
            floor: 4 * UNIT,
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
                        flight_at_send: packets * UNIT,
                        app_limited: false,
                    }),
                    ..AckSample::of(now + rtt * n / packets, UNIT, path.cwnd())
                };
                seq += 1;
                path.on_ack(&ack);
            }
            now += rtt;
        }
        assert!(path.cwnd() >= 100 * UNIT, "{}: {} units", info.name, path.cwnd() / UNIT);
    }
}
