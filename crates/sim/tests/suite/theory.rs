//! Links and queues compared with theory.

use std::sync::Arc;

use crate::common::{flow, nodes, paced, pair, run};
use whimbrel_control::{Rate, Rng, Span};
use whimbrel_sim::config::{
    FlowKind, JitterConfig, LinkConfig, LinkValues, LossConfig, MessageSizes, OneOrMany, QueueConfig, ScheduleStep,
    TraceConfig, TrafficKind,
};
use whimbrel_sim::topology::DirectionId;
use whimbrel_sim::{CapacityTrace, DropCause, LossKind, Resources, RunOptions, World};

/// Bytes of a datagram's headers on the wire.
const HEADERS: u32 = 28;

fn mm1_like(load: f64, queue: QueueConfig, seconds: u64) -> whimbrel_sim::RunResult {
    // 1250 bytes on the wire take 10 ms at 1 Mbit/s.
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(5), seconds);
    config.link[0].queue = queue;
    let message = 1250 - HEADERS;
    let rate = Rate::from_bps((load * 1e6 * f64::from(message) / 1250.0) as u64);
    config.flow = vec![flow("cross", FlowKind::Udp, paced(TrafficKind::Poisson, rate, message))];
    config.measure.from = Span::from_secs(10);
    run(&config, 11)
}

#[test]
fn an_m_d_1_queue_waits_as_pollaczek_and_khinchine_say() {
    for load in [0.3, 0.6, 0.8] {
        let result = mm1_like(
            load,
            QueueConfig::DropTail {
                packets: Some(100_000),
                bytes: None,
            },
            4000,
        );
        let link = &result.links[0];
        // Mean queueing delay: load / (2 (1 - load)) service times; mean queue by Little's law.
        let wait = load / (2.0 * (1.0 - load)) * 0.010;
        let queue = load / 0.010 * wait;
        assert!(
            (link.utilisation / load - 1.0).abs() < 0.02,
            "{load}: utilisation {}",
            link.utilisation
        );
        assert!(
            (link.mean_queue_packets / queue - 1.0).abs() < 0.08,
            "{load}: queue {}",
            link.mean_queue_packets
        );
        assert!((link.mean_queue_bytes / (queue * 1250.0) - 1.0).abs() < 0.08);
        // Delay: queueing, transmission and propagation.
        let delay = result.flows[0].delay.mean.as_secs_f64();
        assert!((delay / (wait + 0.015) - 1.0).abs() < 0.03, "{load}: delay {delay}");
    }
}

#[test]
fn an_m_m_1_queue_waits_as_pollaczek_and_khinchine_say() {
    // Mean 8000 bytes of user data: the headers change the coefficient of variation by 0.4 % only.
    let (message, rate) = (8000, 10e6);
    for load in [0.3, 0.6, 0.8] {
        let mut config = pair(Rate::from_mbps(10), Span::from_millis(5), 4000);
        config.link[0].mtu = 65_535;
        config.link[0].queue = QueueConfig::DropTail {
            packets: Some(100_000),
            bytes: None,
        };
        let service = f64::from(message + HEADERS) * 8.0 / rate;
        let offered = Rate::from_bps((load * f64::from(message) * 8.0 / service) as u64);
        let mut traffic = paced(TrafficKind::Poisson, offered, message);
        traffic.message_sizes = MessageSizes::Exponential;
        config.flow = vec![flow("cross", FlowKind::Udp, traffic)];
        config.measure.from = Span::from_secs(10);
        let result = run(&config, 12);
        let variation = f64::from(message) * 8.0 / rate / service;
        let wait = load / (1.0 - load) * service * (1.0 + variation * variation) / 2.0;
        let delay = result.flows[0].delay.mean.as_secs_f64();
        assert!(
            (result.links[0].utilisation / load - 1.0).abs() < 0.01,
            "{load}: utilisation {}",
            result.links[0].utilisation
        );
        assert!(
            ((delay - 0.005 - service) / wait - 1.0).abs() < 0.04,
            "{load}: wait {}, {wait} in theory",
            delay - 0.005 - service
        );
    }
}

#[test]
fn an_overloaded_queue_is_full_and_drops_the_excess() {
    let result = mm1_like(
        1.5,
        QueueConfig::DropTail {
            packets: Some(20),
            bytes: None,
        },
        1000,
    );
    let link = &result.links[0];
    assert!(link.utilisation > 0.999);
    assert_eq!(link.max_queue_packets, 20);
    let dropped = result.drops.of(DropCause::QueueFull) as f64;
    let share = dropped / (dropped + link.packets as f64);
    assert!((share - 1.0 / 3.0).abs() < 0.01, "{share}");
    let bytes = mm1_like(
        1.5,
        QueueConfig::DropTail {
            packets: None,
            bytes: Some(10_000),
        },
        100,
    );
    assert_eq!(bytes.links[0].max_queue_bytes, 10_000);
    assert_eq!(bytes.links[0].max_queue_packets, 8);
}

#[test]
fn every_packet_is_delivered_dropped_or_in_transit() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(5), 200);
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(5),
        bytes: None,
    };
    config.link[0].loss = OneOrMany(vec![
        LossConfig::Bernoulli { rate: 0.02 },
        LossConfig::GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.2,
            good_loss: 0.0,
            bad_loss: 0.5,
        },
    ]);
    config.link[0].duplicate = 0.0;
    config.flow = vec![flow(
        "cross",
        FlowKind::Udp,
        paced(TrafficKind::Poisson, Rate::from_bps(950_000), 1222),
    )];
    let result = run(&config, 3);
    let flow = &result.flows[0];
    let lost = result.ledger.counts().total();
    let under_way = flow.sender_packets - flow.messages_delivered - lost;
    assert!(under_way < 10, "{under_way}");
    assert_eq!(result.ledger.entries().len() as u64, lost);
    assert!(result.drops.of(DropCause::ChannelLoss(LossKind::Bernoulli)) > 100);
    assert!(result.drops.of(DropCause::ChannelLoss(LossKind::GilbertElliott)) > 100);
    assert!(result.drops.of(DropCause::QueueFull) > 100);
    // The loss model applies to packets that passed the queue.
    let carried = result.links[0].packets as f64;
    let share = result.drops.of(DropCause::ChannelLoss(LossKind::Bernoulli)) as f64 / carried;
    assert!((share - 0.02).abs() < 4.0 * (0.02 * 0.98 / carried).sqrt(), "{share}");
}

#[test]
fn duplicates_arrive_with_the_configured_probability() {
    let mut config = pair(Rate::from_mbps(10), Span::from_millis(5), 200);
    config.link[0].duplicate = 0.1;
    config.flow = vec![flow(
        "cross",
        FlowKind::Udp,
        paced(TrafficKind::Cbr, Rate::from_mbps(1), 1000),
    )];
    let result = run(&config, 3);
    let (sent, got) = (
        result.flows[0].messages_sent as f64,
        result.flows[0].messages_delivered as f64,
    );
    assert!((got / sent - 1.1).abs() < 4.0 * (0.09 / sent).sqrt(), "{sent} {got}");
}

#[test]
fn a_recorded_capacity_is_delivered_exactly() {
    // A rate that varies between 0 and 24 Mbit/s.
    let mut rng = Rng::stream(8, "capacity");
    let mut text = String::new();
    let mut rate = 1.0_f64;
    for ms in 1..=9_000 {
        rate = (rate + 0.2 * (rng.unit() - 0.5)).clamp(0.0, 2.0);
        for _ in 0..(rate as u32 + u32::from(rng.chance(rate.fract()))) {
            text.push_str(&format!("{ms}\n"));
        }
    }
    text.push_str("9000\n");
    let trace = Arc::new(CapacityTrace::parse(&text).expect("a trace"));
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(5), 27);
    config.link[0].rate = None;
    config.link[0].trace = Some(TraceConfig {
        file: "wander".into(),
        offset: Span::ZERO,
        random_offset: false,
    });
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(50),
        bytes: None,
    };
    // More than it can carry, in packets of odd sizes: no capacity is unused.
    config.flow = vec![
        flow(
            "large",
            FlowKind::Udp,
            paced(TrafficKind::Cbr, Rate::from_mbps(40), 1444),
        ),
        flow(
            "small",
            FlowKind::Udp,
            paced(TrafficKind::Poisson, Rate::from_mbps(5), 200),
        ),
    ];
    let mut resources = Resources::default();
    resources.traces.insert("wander".into(), trace.clone());
    let world = World::new(&config, 5, &resources, RunOptions::default()).expect("a world");
    let result = world.run();
    let received: u64 = result
        .flows
        .iter()
        .map(|f| f.goodput_bytes + f.messages_delivered * u64::from(HEADERS))
        .sum();
    // Three rounds in 27 s; the last opportunities are still in transit for 5 ms, and the first few precede the first packet.
    let capacity = 3 * trace.len() as u64 * 1500;
    assert!(received <= capacity, "{received} of {capacity}");
    assert!(capacity - received < 60 * 1500, "{received} of {capacity}");
    let link = &result.links[0];
    assert!((link.utilisation - 1.0).abs() < 0.01, "{}", link.utilisation);

    // Three rounds from a random offset have the same number of bytes, a third of a round does not.
    config.link[0].trace.as_mut().expect("a trace").random_offset = true;
    let carried = |config: &whimbrel_sim::config::SimConfig, seed| {
        let world = World::new(config, seed, &resources, RunOptions::default()).expect("a world");
        let result = world.run();
        assert!((result.links[0].utilisation - 1.0).abs() < 0.01, "seed {seed}");
        let bytes = result
            .flows
            .iter()
            .map(|f| f.goodput_bytes + f.messages_delivered * u64::from(HEADERS));
        bytes.sum::<u64>()
    };
    let whole = carried(&config, 6);
    assert!(capacity.abs_diff(whole) < 60 * 1500, "{whole} of {capacity}");
    config.duration = Span::from_secs(3);
    let (one, other) = (carried(&config, 6), carried(&config, 7));
    assert!(one.abs_diff(other) > 60 * 1500, "{one} and {other}");
    assert_eq!(one, carried(&config, 6));
}

#[test]
fn jitter_adds_its_mean_and_reorders_only_if_configured() {
    struct Order(Vec<u32>);
    impl whimbrel_sim::Observer for Order {
        fn wants(&self, interest: whimbrel_sim::Interest) -> bool {
            interest == whimbrel_sim::Interest::HostPackets
        }
        fn packet(&mut self, event: &whimbrel_sim::PacketEvent<'_>) {
            if event.fate == whimbrel_sim::PacketFate::Delivered {
                self.0.push(event.number);
            }
        }
    }
    for reorder in [false, true] {
        let mut config = pair(Rate::from_mbps(10), Span::from_millis(5), 60);
        let (min, max) = (Span::ZERO, Span::from_millis(40));
        config.link[0].jitter = Some(JitterConfig::Uniform { min, max, reorder });
        config.flow = vec![flow(
            "cross",
            FlowKind::Udp,
            paced(TrafficKind::Cbr, Rate::from_mbps(1), 1000),
        )];
        let mut order = Order(Vec::new());
        let result = crate::common::watch(&config, 4, &mut order);
        let delay = result.flows[0].delay.mean.as_secs_f64();
        let in_order = order.0.is_sorted();
        assert_eq!(in_order, !reorder);
        let plain = 0.005 + 1028.0 * 8.0 / 10e6;
        if reorder {
            assert!((delay - plain - 0.020).abs() < 0.001, "{delay}");
        } else {
            assert!(delay > plain + 0.020, "held back: {delay}");
        }
    }
}

#[test]
fn a_link_that_is_down_carries_nothing_and_reports_the_cause() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(5), 30);
    let step = |at, up| whimbrel_sim::config::ScheduleStep::up(Span::from_secs(at), up);
    config.link[0].schedule = vec![step(10, false), step(20, true)];
    config.flow = vec![flow(
        "cross",
        FlowKind::Udp,
        paced(TrafficKind::Cbr, Rate::from_bps(80_000), 100),
    )];
    let result = run(&config, 1);
    let lost = result.drops.of(DropCause::LinkDown);
    assert!((999..=1001).contains(&lost), "{lost}");
    assert!(
        result
            .ledger
            .entries()
            .iter()
            .all(|entry| entry.cause == DropCause::LinkDown && entry.direction == Some(DirectionId::of_link(0, 0)))
    );
    let at = |i: usize| result.ledger.entries()[i].at.as_secs_f64();
    assert!(at(0) >= 10.0 && at(lost as usize - 1) < 20.0);
    assert_eq!(result.flows[0].messages_delivered + lost, 3000);
}

#[test]
fn rate_delay_and_losses_change_at_their_time() {
    for queue in [
        QueueConfig::DropTail {
            packets: Some(100),
            bytes: None,
        },
        QueueConfig::FqCodel(Default::default()),
    ] {
        // 1250 bytes take 10 ms at 1 Mbit/s, of which 80 % are used; 40 ms at a quarter of it, which is an overload.
        let mut config = pair(Rate::from_mbps(1), Span::from_millis(5), 40);
        config.link[0].queue = queue;
        let step = |at| ScheduleStep {
            at: Span::from_secs(at),
            ..ScheduleStep::default()
        };
        config.link[0].schedule = vec![
            ScheduleStep {
                rate: Some(Rate::from_bps(250_000)),
                ..step(10)
            },
            ScheduleStep {
                rate: Some(Rate::from_mbps(4)),
                ..step(20)
            },
            ScheduleStep {
                loss: Some(LossConfig::Bernoulli { rate: 0.2 }.into()),
                reverse: Some(LinkValues {
                    loss: Some(OneOrMany(Vec::new())),
                    ..LinkValues::default()
                }),
                ..step(25)
            },
            ScheduleStep {
                loss: Some(OneOrMany(Vec::new())),
                delay: Some(Span::from_millis(55)),
                ..step(30)
            },
        ];
        let message = 1250 - HEADERS;
        let rate = Rate::from_bps(u64::from(message) * 8 * 80);
        config.flow = vec![flow("cross", FlowKind::Udp, paced(TrafficKind::Cbr, rate, message))];
        let measured = |from, to| {
            let mut config = config.clone();
            config.measure.from = Span::from_secs(from);
            config.measure.to = Some(Span::from_secs(to));
            let result = run(&config, 1);
            let flow = &result.flows[0];
            (
                flow.goodput_bps / rate.as_bps() as f64,
                result.links[0].utilisation,
                result.drops.of(DropCause::ChannelLoss(LossKind::Bernoulli)),
                flow.delay.mean.as_nanos() / 1000,
            )
        };
        let near = |a: f64, b: f64| assert!((a - b).abs() < 0.01, "{a} instead of {b}");
        let (goodput, utilisation, lost, delay) = measured(2, 10);
        near(goodput, 1.0);
        near(utilisation, 0.8);
        assert_eq!((lost, delay), (0, 15_000));
        let (goodput, utilisation, lost, _) = measured(11, 20);
        // 25 of 80 packets per second.
        near(goodput, 0.3125);
        near(utilisation, 1.0);
        assert_eq!(lost, 0);
        // Packets queued at 20 s leave at the new rate: 100 packets take 250 ms.
        let (goodput, utilisation, ..) = measured(21, 25);
        near(goodput, 1.0);
        near(utilisation, 0.2);
        let (_, _, lost, delay) = measured(25, 30);
        // 400 packets, four standard deviations.
        assert!((48..=112).contains(&lost), "{lost}");
        assert_eq!(delay, 7_500);
        let (goodput, utilisation, lost, delay) = measured(31, 40);
        near(goodput, 1.0);
        near(utilisation, 0.2);
        assert_eq!((lost, delay), (0, 57_500));
    }
}

#[test]
fn a_chain_behaves_the_same_with_and_without_entry_ahead_of_time() {
    // A slow link in the middle, so that queues and drops occur inside the chain.
    let mut config = nodes(&["a", "r", "s", "t", "b"], 60);
    let link = |from: &str, to: &str, rate| LinkConfig {
        queue: QueueConfig::DropTail {
            packets: Some(6),
            bytes: None,
        },
        ..LinkConfig::new(from, to, Rate::from_bps(rate), Span::from_millis(3))
    };
    config.link = vec![
        link("a", "r", 4_000_000),
        link("r", "s", 1_000_000),
        link("s", "t", 3_000_000),
        link("t", "b", 900_000),
    ];
    config.flow = vec![
        flow("bulk", FlowKind::Sctp, Default::default()),
        flow(
            "cross",
            FlowKind::Udp,
            paced(TrafficKind::Poisson, Rate::from_bps(300_000), 400),
        ),
    ];
    config.measure.from = Span::from_secs(1);
    config.measure.to = Some(Span::from_secs(50));
    let ahead = run(&config, 9);
    // A loss model without losses causes one event per hop.
    for link in &mut config.link {
        link.loss = LossConfig::List { packets: Vec::new() }.into();
    }
    let stepwise = run(&config, 9);
    assert!(
        stepwise.events > ahead.events * 3 / 2,
        "{} and {}",
        stepwise.events,
        ahead.events
    );
    assert!(ahead.drops.of(DropCause::QueueFull) > 50, "{:?}", ahead.drops);
    assert_eq!((ahead.packet_hops, ahead.drops), (stepwise.packet_hops, stepwise.drops));
    assert_eq!(ahead.ledger.entries(), stepwise.ledger.entries());
    for (a, b) in ahead.flows.iter().zip(&stepwise.flows) {
        assert_eq!(
            (a.goodput_bytes, a.delay, a.sender),
            (b.goodput_bytes, b.delay, b.sender)
        );
    }
    for (a, b) in ahead.links.iter().zip(&stepwise.links) {
        assert_eq!(
            (a.packets, a.bytes, a.drops),
            (b.packets, b.bytes, b.drops),
            "{} {}",
            a.name,
            a.forward
        );
        assert_eq!(
            (a.max_queue_packets, a.max_queue_bytes),
            (b.max_queue_packets, b.max_queue_bytes)
        );
        assert_eq!(
            (a.utilisation, a.mean_queue_packets),
            (b.utilisation, b.mean_queue_packets)
        );
    }
}

#[test]
fn a_datagram_above_the_mtu_arrives_as_fragments() {
    let mut config = nodes(&["a", "m", "b"], 10);
    config.link = vec![
        LinkConfig::new("a", "m", Rate::from_mbps(1), Span::ZERO),
        LinkConfig {
            mtu: 1000,
            ..LinkConfig::new("m", "b", Rate::from_mbps(1), Span::ZERO)
        },
    ];
    config.flow = vec![
        flow(
            "large",
            FlowKind::Udp,
            paced(TrafficKind::Cbr, Rate::from_bps(80_000), 973),
        ),
        flow(
            "small",
            FlowKind::Udp,
            paced(TrafficKind::Cbr, Rate::from_bps(80_000), 972),
        ),
    ];
    let result = run(&config, 1);
    let [large, small] = [&result.flows[0], &result.flows[1]].map(|flow| flow.messages_delivered);
    assert!(large > 100 && small > 100, "{large}, {small}");
    assert_eq!(result.drops.total(), 0);
    // The one byte more needs another packet.
    let narrow = |forward| {
        result
            .links
            .iter()
            .find(|link| link.from == "m" && link.forward == forward)
    };
    let packets = narrow(true).expect("the second link").packets;
    assert!(packets.abs_diff(2 * large + small) <= 3, "{packets} packets");
}
