//! Message classes in one association: deadlines, rules by which messages are given up, priorities.

use whimbrel_control::{Rate, Span, Time};
use whimbrel_proto::{AssociationConfig, Scheduler};
use whimbrel_sim::config::{
    FlowConfig, FlowKind, LossConfig, QueueConfig, ScheduleStep, SimConfig, TrafficConfig, TrafficKind,
};
use whimbrel_sim::{FlowOutcome, FlowResult, OpenWorld, Resources};

use crate::common::{flow, paced, pair, run};

/// 30 frames per second of 3000 bytes.
fn video() -> TrafficConfig {
    paced(TrafficKind::Cbr, Rate::from_bps(720_000), 3000)
}

/// 100 messages per second of 60 bytes.
fn control() -> TrafficConfig {
    TrafficConfig {
        stream_value: Some(0),
        deadline: Some(Span::from_millis(100)),
        ..paced(TrafficKind::Cbr, Rate::from_bps(48_000), 60)
    }
}

fn association() -> AssociationConfig {
    AssociationConfig {
        partial_reliability: true,
        interleaving: true,
        scheduler: Scheduler::Priority,
        ..AssociationConfig::default()
    }
}

/// A path of 2 Mbit/s and 50 ms with this loss rate, and a video of 60 seconds.
fn lossy(loss: f64, traffic: TrafficConfig) -> SimConfig {
    let mut config = pair(Rate::from_mbps(2), Span::from_millis(25), 70);
    config.link[0].loss = LossConfig::Bernoulli { rate: loss }.into();
    config.flow = vec![FlowConfig {
        sctp: Some(association()),
        stop: Some(Span::from_secs(60)),
        ..flow("video", FlowKind::Sctp, traffic)
    }];
    config
}

/// Adds control messages to the association of the video.
fn with_control(mut config: SimConfig) -> SimConfig {
    config.flow.push(FlowConfig {
        with: Some("video".into()),
        stop: Some(Span::from_secs(60)),
        ..flow("control", FlowKind::Sctp, control())
    });
    config
}

fn only(config: &SimConfig) -> FlowResult {
    run(config, 1).flows.remove(0)
}

#[test]
fn a_lifetime_delivers_more_frames_in_time_than_full_reliability() {
    let deadline = Some(Span::from_millis(150));
    let full = only(&lossy(0.05, TrafficConfig { deadline, ..video() }));
    let limited = only(&lossy(
        0.05,
        TrafficConfig {
            lifetime: deadline,
            ..video()
        },
    ));
    assert_eq!(full.messages_given_up, 0);
    assert_eq!(full.messages_delivered, full.messages_sent);
    assert!(limited.messages_given_up > 0);
    assert_eq!(limited.outcome, FlowOutcome::Completed);
    assert!(limited.completion.is_some(), "all frames are delivered or given up");
    let (full, limited) = (full.in_time().expect("frames"), limited.in_time().expect("frames"));
    assert!(limited > full + 0.05, "{limited} in time, {full} with full reliability");
}

#[test]
fn no_retransmission_costs_as_many_frames_as_packets_were_lost() {
    let traffic = TrafficConfig {
        retransmissions: Some(0),
        unordered: true,
        deadline: Some(Span::from_millis(150)),
        message_bytes: 1000,
        rate: Some(Rate::from_bps(240_000)),
        ..video()
    };
    let found = only(&lossy(0.05, traffic));
    let lost = found.messages_sent - found.messages_delivered;
    assert_eq!(found.sender.retransmissions, 0);
    assert_eq!(
        (found.messages_due, found.messages_in_time),
        (1800, found.messages_delivered)
    );
    assert!(
        found.messages_given_up >= lost,
        "some arrived, and no SACK said so in time"
    );
    assert!((60..=120).contains(&lost), "{lost} of 1800 messages at 5 % loss");
}

#[test]
fn classes_of_one_association_are_measured_one_by_one() {
    let mut config = with_control(lossy(0.0, video()));
    // The first messages wait for the handshake.
    config.measure.from = Span::from_secs(1);
    let result = run(&config, 1);
    let [video, control] = &result.flows[..] else {
        panic!("two flows")
    };
    assert_eq!((video.messages_sent, video.messages_delivered), (1800, 1800));
    assert_eq!((control.messages_sent, control.messages_delivered), (6000, 6000));
    assert_eq!((control.messages_due, control.messages_in_time), (5900, 5900));
    assert_eq!(control.messages_disordered + video.messages_disordered, 0);
    assert_eq!(video.carried_bytes, video.goodput_bytes + control.goodput_bytes);
    assert_eq!(control.sender_packets, 0);
    assert!(control.is_class && control.completion.is_some());
    assert_eq!(
        (&video.outcome, &control.outcome),
        (&FlowOutcome::Completed, &FlowOutcome::Completed)
    );
}

#[test]
fn a_priority_keeps_control_messages_ahead_of_an_endless_transfer() {
    let p99 = |scheduler| {
        let mut config = with_control(lossy(0.0, TrafficConfig::default()));
        config.flow[0].traffic.message_bytes = 1_000_000;
        config.flow[0].traffic.stream_value = Some(1);
        config.flow[0].sctp = Some(AssociationConfig {
            scheduler,
            ..association()
        });
        config.link[0].queue = QueueConfig::DropTail {
            packets: Some(10),
            bytes: None,
        };
        run(&config, 1).flows[1].delay.p99
    };
    let (first_come, priority) = (p99(Scheduler::FirstCome), p99(Scheduler::Priority));
    // A way of 25 ms, a queue of 10 packets of 6 ms each, and a packet with a retransmission.
    assert!(priority < Span::from_millis(250), "{priority}");
    assert!(first_come > priority * 4, "{first_come}");
}

#[test]
fn messages_of_low_priority_make_room() {
    let mut config = lossy(0.0, TrafficConfig::default());
    config.flow[0].traffic = TrafficConfig {
        priority: Some(9),
        ..paced(TrafficKind::Cbr, Rate::from_mbps(4), 1000)
    };
    config.flow[0].sctp = Some(AssociationConfig {
        send_buffer: 30_000,
        ..association()
    });
    let mut config = with_control(config);
    config.flow[1].traffic = TrafficConfig {
        priority: Some(0),
        ..paced(TrafficKind::Cbr, Rate::from_bps(240_000), 3000)
    };
    let result = run(&config, 1);
    let [bulk, control] = &result.flows[..] else {
        panic!("two flows")
    };
    assert_eq!(control.messages_given_up, 0);
    assert_eq!(control.messages_delivered, control.messages_sent);
    assert!(bulk.messages_given_up > 100, "{}", bulk.messages_given_up);
}

#[test]
fn a_class_needs_a_flow_that_can_carry_it() {
    let base = with_control(lossy(0.0, video()));
    let refused = |change: fn(&mut SimConfig)| {
        let mut config = base.clone();
        change(&mut config);
        config.validate().expect_err("a wrong scenario").to_string()
    };
    base.validate().expect("a good scenario");
    for (change, field) in [
        (
            (|c| c.flow[1].with = Some("film".into())) as fn(&mut SimConfig),
            "flow[1].with",
        ),
        (|c| c.flow[1].with = Some("control".into()), "flow[1].with"),
        (|c| c.flow[0].kind = FlowKind::Tcp, "flow[0]"),
        (|c| c.flow[1].to_links = vec!["a-b".into()], "flow[1]"),
        (|c| c.flow[1].sctp = Some(association()), "flow[1].sctp"),
        (|c| c.flow[0].traffic.streams = 16, "flow[0].sctp.outbound_streams"),
        (|c| c.flow[1].traffic.lifetime = Some(Span::ZERO), ""),
        (
            |c| {
                c.flow[1].traffic.retransmissions = Some(0);
                c.flow[0].sctp = Some(AssociationConfig::default());
            },
            "flow[1].traffic.retransmissions",
        ),
    ] {
        if field.is_empty() {
            let mut config = base.clone();
            change(&mut config);
            config.validate().expect("never sent, which is allowed");
        } else {
            let error = refused(change);
            assert!(error.contains(field), "{error}");
        }
    }
}

#[test]
fn a_flow_whose_association_failed_is_not_complete() {
    let mut config = lossy(0.0, TrafficConfig::default());
    config.flow[0].traffic = TrafficConfig {
        count: Some(20),
        ..TrafficConfig::of(TrafficKind::Messages)
    };
    config.flow[0].stop = None;
    let complete = only(&config);
    assert!(complete.completion.is_some());
    config.duration = Span::from_secs(1000);
    config.link[0].schedule = vec![ScheduleStep::up(Span::from_millis(120), false)];
    let failed = only(&config);
    assert!(matches!(failed.outcome, FlowOutcome::Failed(_)), "{:?}", failed.outcome);
    assert_eq!(failed.messages_sent, 20);
    assert!(failed.messages_given_up > 0);
    assert_eq!(failed.completion, None);
}

#[test]
fn messages_that_are_still_under_way_do_not_complete_a_flow() {
    let traffic = TrafficConfig {
        retransmissions: Some(0),
        unordered: true,
        ..paced(TrafficKind::Cbr, Rate::from_bps(240_000), 1000)
    };
    let mut config = lossy(0.05, traffic);
    // Before the last messages can arrive.
    config.duration = Span::from_millis(60_010);
    let found = only(&config);
    assert!(found.messages_given_up > 0);
    assert_eq!(found.completion, None);
}

#[test]
fn copies_by_the_network_are_in_time_once() {
    let mut config = lossy(0.0, TrafficConfig::default());
    config.flow[0].kind = FlowKind::Udp;
    config.flow[0].sctp = None;
    config.flow[0].traffic = TrafficConfig {
        deadline: Some(Span::from_millis(100)),
        ..paced(TrafficKind::Cbr, Rate::from_bps(240_000), 1000)
    };
    config.link[0].duplicate = 0.5;
    let found = only(&config);
    assert!(found.messages_delivered > found.messages_sent);
    assert_eq!(found.in_time(), Some(1.0));
}

#[test]
fn programs_in_place_of_a_flow_have_their_own_messages() {
    let config = with_control(lossy(0.0, video()));
    let mut open = OpenWorld::new(&config, 1, &Resources::default(), &[0]).expect("an open world");
    open.advance(Time::ZERO + Span::from_secs(30));
    let result = open.finish();
    assert_eq!((result.flows[1].messages_sent, result.flows[1].is_class), (0, false));
}

#[test]
fn wrong_rules_are_refused() {
    let refused = |change: fn(&mut TrafficConfig)| {
        let mut traffic = video();
        change(&mut traffic);
        traffic.validate().expect_err("wrong traffic").to_string()
    };
    let two = |t: &mut TrafficConfig| (t.lifetime, t.priority) = (Some(Span::from_secs(1)), Some(1));
    assert!(refused(two).contains("priority"));
    assert!(refused(|t| t.deadline = Some(Span::ZERO)).contains("deadline"));
    assert!(refused(|t| t.key_bytes = Some(9)).contains("key_bytes"));
    assert!(refused(|t| t.key_every = Some(9)).contains("key_bytes"));
    assert!(refused(|t| (t.key_every, t.key_bytes) = (Some(1), Some(9))).contains("key_every"));
    let mut udp = pair(Rate::from_mbps(2), Span::from_millis(25), 70);
    udp.flow = vec![flow(
        "video",
        FlowKind::Udp,
        TrafficConfig {
            priority: Some(1),
            ..video()
        },
    )];
    let error = udp.validate().expect_err("UDP has no priorities").to_string();
    assert!(error.contains("flow[0].traffic.priority"), "{error}");
    udp.flow[0].traffic = TrafficConfig {
        deadline: Some(Span::from_millis(30)),
        ..video()
    };
    // A way of 25 ms, and three fragments of which the last one takes 16 ms.
    assert_eq!(only(&udp).in_time(), Some(0.0));
    udp.flow[0].traffic.deadline = Some(Span::from_millis(50));
    assert_eq!(only(&udp).in_time(), Some(1.0));
}
