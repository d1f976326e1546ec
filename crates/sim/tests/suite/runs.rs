//! Whole runs with SCTP: throughput, and repeatability independent of carriage and observers.

use crate::common::{build, file, flow, nodes, paced, pair, run, two_paths, watch};
use whimbrel_control::{Rate, Span, Time};
use whimbrel_proto::{AssociationConfig, TraceKinds, TraceRecord};
use whimbrel_sim::config::{
    Carriage, ChunkKind, FlowConfig, FlowKind, JitterConfig, LinkConfig, LossConfig, NodeConfig, OneOrMany,
    QueueConfig, ScheduleStep, SimConfig, TrafficConfig, TrafficKind,
};
use whimbrel_sim::{
    DropCause, EndReason, FlowOutcome, Interest, Observer, PacketEvent, Resources, RunControl, RunOptions, Sample,
    World,
};

fn endless(name: &str) -> FlowConfig {
    flow(name, FlowKind::Sctp, TrafficConfig::default())
}

/// A file with pacing over a link with a rate far above that of the window. Returns the longest queue in packets.
fn longest_queue(granularity: Span) -> u32 {
    let mut config = pair(Rate::from_mbps(100), Span::from_millis(100), 60);
    config
        .node
        .iter_mut()
        .for_each(|node| node.timer_granularity = granularity);
    let mut paced = flow("file", FlowKind::Sctp, file(200_000));
    paced.sctp = Some(AssociationConfig {
        pacing: Some(true),
        max_burst: 16,
        ..AssociationConfig::default()
    });
    config.flow = vec![paced];
    let result = run(&config, 1);
    assert_eq!(result.flows[0].outcome, FlowOutcome::Completed);
    result.links[0].max_queue_packets
}

#[test]
fn coarse_timer_sends_paced_packets_in_bursts() {
    let (ideal, coarse) = (longest_queue(Span::ZERO), longest_queue(Span::from_micros(250)));
    assert!(ideal <= 3 && coarse >= 2 * ideal, "{ideal}, {coarse} packets");
}

#[test]
fn timer_granularity_has_a_range() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(1), 1);
    config.flow = vec![endless("f")];
    config.node[1].timer_granularity = Span::from_millis(101);
    let error = World::new(&config, 1, &Resources::default(), RunOptions::default()).expect_err("too coarse");
    assert_eq!(
        error.to_string(),
        "node[1].timer_granularity = 101 ms: allowed is 0 s to 100 ms"
    );
}

/// A scenario with losses, bursts, jitter, duplicates, a full queue, and a path that goes down.
fn eventful() -> SimConfig {
    let mut config = two_paths(60);
    config.link[0].loss = LossConfig::Bernoulli { rate: 0.02 }.into();
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(8),
        bytes: None,
    };
    config.link[0].schedule = vec![
        ScheduleStep::up(Span::from_secs(20), false),
        ScheduleStep::up(Span::from_secs(40), true),
    ];
    config.link[1].jitter = Some(JitterConfig::Exponential {
        mean: Span::from_millis(5),
        reorder: true,
    });
    config.link[1].duplicate = 0.01;
    config.flow = vec![
        endless("bulk"),
        FlowConfig {
            start: Span::from_secs(5),
            ..flow("file", FlowKind::Sctp, file(300_000))
        },
        flow(
            "cross",
            FlowKind::Udp,
            paced(TrafficKind::Poisson, Rate::from_bps(200_000), 500),
        ),
    ];
    config
}

#[test]
fn a_chain_of_five_hops_is_fully_used() {
    let mut config = nodes(&["n0", "n1", "n2", "n3", "n4", "n5"], 60);
    config.link = (0..5)
        .map(|i| {
            LinkConfig::new(
                &format!("n{i}"),
                &format!("n{}", i + 1),
                Rate::from_mbps(2),
                Span::from_micros(10),
            )
        })
        .collect();
    let sctp = AssociationConfig {
        recv_buffer: 65_536,
        ..AssociationConfig::default()
    };
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..FlowConfig::new("f", FlowKind::Sctp, "n0", "n5")
    }];
    config.measure.from = Span::from_secs(5);
    let result = run(&config, 1);
    let flow = &result.flows[0];
    // 1452 bytes of user data per 1500 bytes.
    assert!(
        (flow.goodput_bps / (2e6 * 1452.0 / 1500.0) - 1.0).abs() < 1e-3,
        "{}",
        flow.goodput_bps
    );
    assert!(result.links[0].utilisation > 0.999);
    assert_eq!(result.drops.total(), 0);
    assert_eq!((flow.messages_repeated, flow.messages_disordered), (0, 0));
    assert_eq!(flow.sender.retransmissions, 0);
    // Every second packet is acknowledged, each in a packet of 48 bytes.
    let ratio = flow.receiver_packets as f64 / flow.sender_packets as f64;
    assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
    let overhead = flow.transmit_ratio().expect("data was delivered");
    assert!((overhead - (1500.0 + 24.0) / 1452.0).abs() < 0.005, "{overhead}");
}

#[test]
fn a_file_arrives_unchanged_and_ends_the_run() {
    let mut config = two_paths(600);
    config.link[0].loss = LossConfig::Bernoulli { rate: 0.03 }.into();
    let traffic = TrafficConfig {
        message_bytes: 10_000,
        streams: 4,
        ..file(1_000_003)
    };
    config.flow = vec![flow("file", FlowKind::Sctp, traffic)];
    let result = run(&config, 2);
    let flow = &result.flows[0];
    assert_eq!(
        (result.end, &flow.outcome),
        (EndReason::AllDone, &FlowOutcome::Completed)
    );
    let check = flow.file.expect("a file was sent");
    assert!(check.intact && check.received == 1_000_003, "{check:?}");
    assert_eq!((flow.messages_sent, flow.messages_delivered), (101, 101));
    let took = flow.completion.expect("it completed").as_secs_f64();
    // At 2 Mbit/s it takes at least 4.1 s.
    assert!(took > 4.1 && took < 60.0, "{took}");
    assert!(flow.sender.retransmissions >= result.drops.of(DropCause::QueueFull));
    assert_eq!(flow.goodput_bytes, 1_000_003);
}

#[test]
fn equal_seeds_give_equal_runs_and_others_different_ones() {
    let config = eventful();
    let (a, b, c) = (run(&config, 7), run(&config, 7), run(&config, 8));
    assert_eq!(
        (a.fingerprint, a.events, a.packet_hops),
        (b.fingerprint, b.events, b.packet_hops)
    );
    assert_ne!(a.fingerprint, c.fingerprint);
    assert_eq!(a.ledger.entries(), b.ledger.entries());
    // All features of the scenario were used.
    for cause in [DropCause::QueueFull, DropCause::LinkDown] {
        assert!(a.ledger.counts().of(cause) > 0, "{cause:?}: {:?}", a.ledger.counts());
    }
}

#[test]
fn structures_and_bytes_give_the_same_run() {
    let mut config = eventful();
    let structures = run(&config, 7);
    config.carriage = Carriage::Bytes;
    let bytes = run(&config, 7);
    assert_eq!(structures.fingerprint, bytes.fingerprint);
    assert_eq!(
        (structures.events, structures.packet_hops),
        (bytes.events, bytes.packet_hops)
    );
    assert_eq!(structures.ledger.entries(), bytes.ledger.entries());
    for (a, b) in structures.flows.iter().zip(&bytes.flows) {
        assert_eq!(
            (a.goodput_bytes, a.delay, &a.sender),
            (b.goodput_bytes, b.delay, &b.sender)
        );
    }
}

#[test]
fn distant_nodes_do_not_change_a_run() {
    let config = eventful();
    let alone = run(&config, 7);
    let mut larger = config.clone();
    larger.node.splice(0..0, ["x", "y", "z"].map(NodeConfig::new));
    larger.link.push(LinkConfig {
        loss: LossConfig::Bernoulli { rate: 0.1 }.into(),
        ..LinkConfig::new("x", "y", Rate::from_mbps(3), Span::from_millis(3))
    });
    larger.flow.push(FlowConfig::new("far", FlowKind::Sctp, "x", "y"));
    let accompanied = run(&larger, 7);
    for (a, b) in alone.flows.iter().zip(&accompanied.flows) {
        assert_eq!(a.fingerprint, b.fingerprint, "{}", a.name);
        assert_eq!((a.goodput_bytes, a.sender), (b.goodput_bytes, b.sender));
    }
    assert!(accompanied.flows[3].goodput_bytes > 0);
}

#[derive(Default)]
struct Everything {
    packets: u64,
    dropped: u64,
    samples: u64,
    records: u64,
    chunks: u64,
}

impl Observer for Everything {
    fn wants(&self, _: Interest) -> bool {
        true
    }
    fn trace_kinds(&self) -> TraceKinds {
        TraceKinds::ALL
    }
    fn packet(&mut self, event: &PacketEvent<'_>) {
        self.packets += 1;
        self.dropped += u64::from(matches!(event.fate, whimbrel_sim::PacketFate::Dropped(_)));
        self.chunks += event
            .sctp
            .as_ref()
            .map_or(0, |packet| packet.chunks().flatten().count() as u64);
    }
    fn sample(&mut self, _: &Sample) {
        self.samples += 1;
    }
    fn trace(&mut self, _: u32, _: bool, _: &TraceRecord) {
        self.records += 1;
    }
}

#[test]
fn an_observer_does_not_change_a_run() {
    let config = eventful();
    let unseen = run(&config, 7);
    let mut everything = Everything::default();
    let seen = watch(&config, 7, &mut everything);
    assert_eq!(unseen.fingerprint, seen.fingerprint);
    assert_eq!(unseen.packet_hops, seen.packet_hops);
    assert_eq!(everything.dropped, seen.ledger.counts().total());
    assert!(everything.packets > 2 * seen.packet_hops);
    assert!(everything.chunks > seen.packet_hops);
    // 59 samples of three goodputs, four queues, and the paths that are established.
    assert!(everything.samples >= 59 * 7, "{}", everything.samples);
    assert!(everything.records > 1000, "{}", everything.records);
}

#[test]
fn a_measurement_window_covers_a_part_of_the_run() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(10), 30);
    // The receiver's window keeps the queue short and even.
    let sctp = AssociationConfig {
        recv_buffer: 30_000,
        ..AssociationConfig::default()
    };
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..endless("bulk")
    }];
    let whole = run(&config, 1);
    config.measure.from = Span::from_secs(10);
    config.measure.to = Some(Span::from_secs(20));
    let part = run(&config, 1);
    assert_eq!(whole.fingerprint, part.fingerprint, "measuring changes nothing");
    let (whole, part) = (&whole.flows[0], &part.flows[0]);
    assert!(
        (part.goodput_bps / 968_000.0 - 1.0).abs() < 0.005,
        "{}",
        part.goodput_bps
    );
    assert!((part.goodput_bytes as f64 * 3.0 / whole.goodput_bytes as f64 - 1.0).abs() < 0.05);
    assert!((part.sender.data_bytes_sent as f64 / part.goodput_bytes as f64 - 1.0).abs() < 0.02);
    assert!((part.sender_wire_bytes as f64 * 8.0 / 10.0 / 1e6 - 1.0).abs() < 0.01);
}

#[test]
fn a_run_that_ends_before_its_window_has_no_measurements() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(10), 100);
    config.flow = vec![flow("file", FlowKind::Sctp, file(10_000))];
    config.measure.from = Span::from_secs(50);
    let result = run(&config, 1);
    let flow = &result.flows[0];
    assert_eq!((result.end, flow.completion.is_some()), (EndReason::AllDone, true));
    assert_eq!(
        (flow.goodput_bytes, flow.sender_packets, flow.sender.packets_sent),
        (0, 0, 0)
    );
    assert_eq!((flow.goodput_bps, result.links[0].utilisation), (0.0, 0.0));
}

#[test]
fn paths_are_disjoint_and_a_failed_primary_is_replaced() {
    let mut config = nodes(&["a", "r", "s", "b"], 150);
    let queue = QueueConfig::DropTail {
        packets: Some(20),
        bytes: None,
    };
    let link = |from: &str, to: &str| LinkConfig {
        queue: queue.clone(),
        ..LinkConfig::new(from, to, Rate::from_mbps(1), Span::from_millis(10))
    };
    config.link = vec![link("a", "r"), link("a", "s"), link("r", "b"), link("s", "b")];
    config.link[2].schedule = vec![ScheduleStep::up(Span::from_secs(20), false)];
    config.flow = vec![endless("bulk")];
    let result = run(&config, 1);
    // The second path carries heartbeats and retransmissions until the first one fails after six timeouts, 1 + 2 + .. + 32 s later;
    // then it carries everything, 1 Mbit/s for the last 67 s.
    let bytes = |link: usize| result.links[link * 2].bytes as f64;
    assert!((bytes(0) / 2.5e6 - 1.0).abs() < 0.1, "{}", bytes(0));
    assert!((bytes(1) / 8.4e6 - 1.0).abs() < 0.1, "{}", bytes(1));
    assert!((bytes(1) / bytes(3) - 1.0).abs() < 0.05, "{} {}", bytes(1), bytes(3));
    assert!(result.drops.of(DropCause::LinkDown) > 5);
    let flow = &result.flows[0];
    assert_eq!((flow.messages_repeated, flow.messages_disordered), (0, 0));
    assert_eq!(flow.sender.path_switches, 1);
    assert!(
        flow.goodput_bytes as f64 > 0.9 * (2.4e6 + 8.0e6),
        "{}",
        flow.goodput_bytes
    );
}

/// The first INIT and the 20th packet with data are lost, as DATA or as I-DATA chunks.
fn lose_chunk_types(interleaving: bool) {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(10), 100);
    let aim = |kind, model| LossConfig::ChunkType {
        chunks: vec![kind],
        model: Box::new(model),
    };
    config.link[0].loss = OneOrMany(vec![
        aim(ChunkKind::Init, LossConfig::List { packets: vec![1] }),
        aim(ChunkKind::Data, LossConfig::List { packets: vec![20] }),
    ]);
    // A chunk per message: the header of I-DATA is 4 bytes longer.
    let traffic = TrafficConfig {
        message_bytes: 1448,
        ..file(100_000)
    };
    config.flow = vec![FlowConfig {
        sctp: Some(AssociationConfig {
            interleaving,
            ..AssociationConfig::default()
        }),
        ..flow("file", FlowKind::Sctp, traffic)
    }];
    let result = run(&config, 1);
    let kinds: Vec<Vec<_>> = result
        .ledger
        .entries()
        .iter()
        .map(|entry| entry.kinds.iter().collect())
        .collect();
    assert_eq!(kinds, [vec![ChunkKind::Init], vec![ChunkKind::Data]]);
    let flow = &result.flows[0];
    assert_eq!(flow.sender.retransmissions, 1);
    assert_eq!((flow.sender.fast_retransmits, flow.sender.timeouts), (1, 0));
    assert_eq!(flow.outcome, FlowOutcome::Completed);
}

#[test]
fn losses_can_select_chunk_types() {
    lose_chunk_types(false);
    lose_chunk_types(true);
}

#[test]
fn paced_traffic_has_the_delay_of_the_path() {
    let mut config = pair(Rate::from_mbps(10), Span::from_millis(30), 60);
    let sctp = Some(AssociationConfig {
        sack_frequency: 1,
        ..AssociationConfig::default()
    });
    let traffic = paced(TrafficKind::Cbr, Rate::from_bps(400_000), 500);
    config.flow = vec![FlowConfig {
        sctp,
        stop: Some(Span::from_secs(50)),
        ..flow("voice", FlowKind::Sctp, traffic)
    }];
    config.measure.from = Span::from_secs(10);
    let result = run(&config, 1);
    let flow = &result.flows[0];
    // 500 + 48 bytes at 10 Mbit/s.
    let delay = 0.030 + 548.0 * 8.0 / 10e6;
    assert!(
        (flow.delay.p50.as_secs_f64() / delay - 1.0).abs() < 0.005,
        "{}",
        flow.delay.p50
    );
    assert!(
        (flow.delay.max.as_secs_f64() / delay - 1.0).abs() < 0.01,
        "{}",
        flow.delay.max
    );
    assert_eq!(flow.outcome, FlowOutcome::Completed);
    assert_eq!(flow.messages_sent, 5000);
    assert!(flow.completion.is_some_and(|span| span.as_secs_f64() < 50.1));
}

#[test]
fn a_run_reports_progress_and_can_be_cancelled() {
    let mut config = pair(Rate::from_mbps(10), Span::from_millis(1), 100_000);
    config.flow = vec![endless("bulk")];
    let control = RunControl::new();
    let result = std::thread::scope(|scope| {
        let run = scope.spawn(|| build(&config, 1).run_with(&mut whimbrel_sim::NoObserver, &control));
        while control.events() == 0 {
            std::thread::yield_now();
        }
        control.cancel();
        run.join().expect("the run does not panic")
    });
    assert_eq!(result.end, EndReason::Cancelled);
    assert!(result.ended_at.as_secs_f64() < 100_000.0);
    assert!(control.reached() > whimbrel_control::Time::ZERO);
    assert!(
        result.flows[0].goodput_bps > 1e6,
        "the result covers the time until then"
    );
}

#[test]
fn a_receiver_may_differ_from_its_sender() {
    let mut config = pair(Rate::from_mbps(10), Span::from_millis(50), 20);
    let overrides = serde_json::json!({ "recv_buffer": 15_000 });
    let receiver = overrides.as_object().cloned();
    config.flow = vec![FlowConfig {
        receiver,
        ..endless("bulk")
    }];
    let result = run(&config, 1);
    // At most one window of 15000 bytes per round trip of 100 ms.
    assert!(result.flows[0].goodput_bps < 1.21e6, "{}", result.flows[0].goodput_bps);
    config.flow[0].receiver = serde_json::json!({ "recv_bufer": 15_000 }).as_object().cloned();
    let error = config.validate().expect_err("an unknown key");
    assert!(
        error.path == "flow[0].receiver" && error.to_string().contains("recv_bufer"),
        "{error}"
    );
}

#[test]
fn no_more_packets_are_delivered_than_were_sent_in_the_window() {
    // A window that starts with a full queue: more packets arrive in it than are sent.
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(100), 10);
    let burst = TrafficConfig {
        rate: Some(Rate::from_mbps(2)),
        ..TrafficConfig::of(TrafficKind::Cbr)
    };
    let mut burst = flow("burst", FlowKind::Udp, burst);
    burst.stop = Some(Span::from_millis(500));
    config.flow = vec![burst];
    config.measure.from = Span::from_millis(400);
    let result = &run(&config, 1).flows[0];
    assert!(result.arrived_packets > result.sender_packets, "{result:?}");
    assert!(
        result.delivered_packets <= result.sender_packets && result.delivered_packets > 0,
        "{result:?}"
    );
}

#[test]
fn start_within_differs_by_seed_and_repeats() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(10), 10);
    let mut late = flow("late", FlowKind::Sctp, file(10_000));
    late.start = Span::from_secs(1);
    config.flow = vec![late];
    let ended = |config: &SimConfig, seed| run(config, seed).ended_at;
    assert_eq!(ended(&config, 1), ended(&config, 2), "nothing is random");
    config.flow[0].start_within = Span::from_secs(2);
    let ends: Vec<_> = (1..=8).map(|seed| ended(&config, seed)).collect();
    assert_eq!(ends[0], ended(&config, 1));
    let (first, last) = (ends.iter().min().expect("eight"), ends.iter().max().expect("eight"));
    assert!(last.since(*first) > Span::from_millis(500), "{ends:?}");
    assert!(
        *first > Time::ZERO + Span::from_secs(1) && *last < Time::ZERO + Span::from_secs(4),
        "{ends:?}"
    );
}

#[test]
fn a_generated_file_of_gigabytes_arrives_intact_without_being_in_memory() {
    let mut config = pair(Rate::from_mbps(100), Span::from_millis(1), 2);
    for kind in [FlowKind::Sctp, FlowKind::Tcp] {
        config.flow = vec![flow("huge", kind, file(1 << 32))];
        let result = run(&config, 1);
        let check = result.flows[0].file.expect("a file");
        assert!(
            check.bytes == 1 << 32 && check.received > 10_000_000 && check.wrong == 0,
            "{check:?}"
        );
    }
}

#[test]
fn windows_below_1500_bytes_and_an_mtu_of_544_work() {
    let mut config = pair(Rate::from_mbps(1), Span::from_millis(10), 60);
    let traffic = TrafficConfig {
        message_bytes: 400,
        ..file(20_000)
    };
    let mut small = flow("small", FlowKind::Sctp, traffic);
    let sctp = small.sctp.get_or_insert_default();
    (sctp.mtu, sctp.recv_buffer, sctp.send_buffer, sctp.initial_cwnd) = (544, 1000, 1200, Some(512));
    config.flow = vec![small];
    let result = run(&config, 1);
    assert_eq!(result.flows[0].outcome, FlowOutcome::Completed, "{:?}", result.flows[0]);
    assert!(result.flows[0].file.is_some_and(|file| file.intact));
    assert_eq!(result.flows[0].sender.timeouts, 0);
}
