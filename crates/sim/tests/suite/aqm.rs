//! Queues of current networks end to end: controlled delay, flow queueing, the step marker.

use crate::common::{build, flow, nodes, run};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    CodelConfig, DualPi2Config, FlowConfig, FlowKind, FqCodelConfig, LinkConfig, QueueConfig, ScheduleStep, SimConfig,
    StepConfig, TrafficConfig, TrafficKind,
};
use whimbrel_sim::{DropCause, EndReason, RunResult};

/// Hosts on links of 100 Mbit/s with a bottleneck of 10 Mbit/s in between; 42 ms of round-trip time.
fn bottleneck(queue: QueueConfig, ecn: bool) -> SimConfig {
    let mut config = nodes(&["s", "r1", "r2", "d"], 60);
    let link = |a, b, mbps, ms| LinkConfig::new(a, b, Rate::from_mbps(mbps), Span::from_millis(ms));
    config.link = vec![
        link("s", "r1", 100, 1),
        link("r1", "r2", 10, 19),
        link("r2", "d", 100, 1),
    ];
    config.link[1].queue = queue;
    config.flow = vec![FlowConfig {
        sctp: Some(AssociationConfig {
            ecn: Some(ecn),
            recv_buffer: 4_000_000,
            send_buffer: 4_000_000,
            ..AssociationConfig::default()
        }),
        from: "s".to_owned(),
        to: "d".to_owned(),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }];
    config.measure.from = Span::from_secs(20);
    config
}

/// Returns a telephone call beside the bulk flow.
fn with_call(mut config: SimConfig) -> SimConfig {
    config.flow.push(FlowConfig {
        from: "s".to_owned(),
        to: "d".to_owned(),
        ..flow(
            "call",
            FlowKind::Udp,
            TrafficConfig {
                rate: Some(Rate::from_bps(64_000)),
                message_bytes: 160,
                ..TrafficConfig::of(TrafficKind::Cbr)
            },
        )
    });
    config
}

fn large_buffer() -> QueueConfig {
    QueueConfig::DropTail {
        packets: Some(1000),
        bytes: None,
    }
}

/// Returns the mean queueing delay by Little's law, in ms.
fn mean_wait(result: &RunResult) -> f64 {
    let link = &result.links[2];
    let seconds = result.to.since(result.from).as_secs_f64();
    link.mean_queue_packets / (link.packets as f64 / seconds) * 1e3
}

#[test]
fn codel_keeps_a_large_buffer_nearly_empty() {
    let bloated = run(&bottleneck(large_buffer(), false), 1);
    let controlled = run(&bottleneck(QueueConfig::Codel(CodelConfig::default()), false), 1);
    let marked = run(&bottleneck(QueueConfig::Codel(CodelConfig::default()), true), 1);
    assert!(mean_wait(&bloated) > 200.0, "{}", mean_wait(&bloated));
    // RFC 8289 §3.2: a delay near the target at a small cost in throughput.
    assert!(mean_wait(&controlled) < 15.0, "{}", mean_wait(&controlled));
    assert!(mean_wait(&marked) < 15.0, "{}", mean_wait(&marked));
    assert!(
        controlled.flows[0].goodput_bps > 8.0e6,
        "{}",
        controlled.flows[0].goodput_bps
    );
    assert!(marked.flows[0].goodput_bps > 8.0e6, "{}", marked.flows[0].goodput_bps);
    assert!(controlled.drops.of(DropCause::Codel) > 5);
    assert_eq!(controlled.drops.total(), controlled.drops.of(DropCause::Codel));
    assert_eq!(marked.drops.total(), 0);
    assert!(marked.links[2].marked > 5);
}

#[test]
fn fq_codel_separates_a_sparse_flow_from_a_bulk_flow() {
    let together = run(&with_call(bottleneck(large_buffer(), false)), 1);
    let apart = run(
        &with_call(bottleneck(QueueConfig::FqCodel(FqCodelConfig::default()), false)),
        1,
    );
    // One-way delay 21 ms, and at most one packet of the other flow in transmission: 1.2 ms.
    let p99 = |result: &RunResult| result.flows[1].delay.p99.as_secs_f64() * 1e3;
    assert!(p99(&together) > 200.0, "{}", p99(&together));
    assert!(p99(&apart) < 24.0, "{}", p99(&apart));
    assert!(apart.flows[0].goodput_bps > 8.0e6, "{}", apart.flows[0].goodput_bps);
}

#[test]
fn a_step_marks_early_and_drops_nothing() {
    let step = QueueConfig::Step(StepConfig {
        packets: Some(1000),
        bytes: None,
        threshold: Span::from_millis(2),
        classic: true,
    });
    let result = run(&bottleneck(step, true), 1);
    assert_eq!(result.drops.total(), 0);
    assert!(result.links[2].marked > 20);
    assert!(mean_wait(&result) < 10.0, "{}", mean_wait(&result));
}

/// Returns flows of these schemes through coupled queues at this rate: goodput in Mbit/s, and the queueing delay of their packets in ms.
fn coupled(schemes: &[&str], mbps: u64) -> (RunResult, Vec<[f64; 2]>) {
    coupled_by(DualPi2Config::default(), schemes, mbps)
}

fn coupled_by(rules: DualPi2Config, schemes: &[&str], mbps: u64) -> (RunResult, Vec<[f64; 2]>) {
    let mut config = bottleneck(QueueConfig::DualPi2(rules), false);
    config.link[1].rate = Some(Rate::from_mbps(mbps));
    let flow = config.flow.remove(0);
    for (n, scheme) in schemes.iter().enumerate() {
        let sctp = AssociationConfig {
            ecn: None,
            scheme: Scheme::by_name(scheme).expect("it is registered"),
            ..flow.sctp.clone().expect("it has a table")
        };
        config.flow.push(FlowConfig {
            name: format!("f{n}"),
            sctp: Some(sctp),
            start_within: Span::from_secs(1),
            ..flow.clone()
        });
    }
    let result = run(&config, 1);
    // The delay of a packet without queues: 21 ms of propagation, and the transmission of 1500 bytes on three links.
    let base = 21.0 + 2.0 * 0.12 + 12.0 / mbps as f64;
    let of = |flow: &whimbrel_sim::FlowResult| {
        let delay = flow.packet_delay.expect("packets arrived").as_secs_f64() * 1e3;
        [flow.goodput_bps / 1e6, delay - base]
    };
    let flows = result.flows.iter().map(of).collect();
    (result, flows)
}

#[test]
fn coupled_queues_give_prague_a_short_delay_and_cubic_the_same_rate() {
    // RFC 9332 §2.1, k = 2: about the same rate. Delays: at most about the threshold of 1 ms, and the target of 15 ms.
    for (mbps, each) in [(10, 1), (40, 4)] {
        let schemes: Vec<_> = (0..2 * each)
            .map(|n| if n < each { "prague" } else { "cubic" })
            .collect();
        let (result, flows) = coupled(&schemes, mbps);
        let mean =
            |flows: &[[f64; 2]], value: usize| flows.iter().map(|flow| flow[value]).sum::<f64>() / flows.len() as f64;
        let (l4s, classic) = flows.split_at(each);
        let [prague, cubic] = [mean(l4s, 0), mean(classic, 0)];
        let [short, long] = [mean(l4s, 1), mean(classic, 1)];
        println!("{mbps} Mbit/s: prague {prague:.1} Mbit/s, {short:.2} ms; cubic {cubic:.1} Mbit/s, {long:.1} ms");
        let ratio = prague / cubic;
        assert!((0.8..1.45).contains(&ratio), "{mbps} Mbit/s: {prague} and {cubic}");
        assert!(
            short < 1.2 && (13.0..18.0).contains(&long),
            "{mbps} Mbit/s: {short} and {long} ms"
        );
        let sum = each as f64 * (prague + cubic);
        assert!(sum > 0.95 * mbps as f64, "{mbps} Mbit/s: {sum}");
        assert!(result.drops.of(DropCause::DualPi2) > 20 && result.links[2].marked > 1000);
        assert_eq!(result.drops.total(), result.drops.of(DropCause::DualPi2));
    }
}

#[test]
fn a_weaker_coupling_gives_prague_more() {
    // RFC 9332 §2.1: the rate of an L4S flow is inversely proportional to k.
    let config = |coupling| DualPi2Config {
        coupling,
        ..DualPi2Config::default()
    };
    let ratio = |coupling| {
        let (_, flows) = coupled_by(config(coupling), &["prague", "cubic"], 10);
        flows[0][0] / flows[1][0]
    };
    let (coupled, hardly) = (ratio(2.0), ratio(1.0));
    println!("k = 2: {coupled:.2}, k = 1: {hardly:.2}");
    assert!(hardly > 1.3 * coupled, "{coupled} {hardly}");
}

#[test]
fn coupled_queues_keep_each_kind_of_flow_alone_at_its_target() {
    let (result, flows) = coupled(&["prague"], 40);
    println!("prague: {flows:.2?}");
    assert!(flows[0][0] > 36.0 && flows[0][1] < 1.5, "{flows:?}");
    assert_eq!(result.drops.total(), 0);
    let (result, flows) = coupled(&["cubic"], 40);
    println!("cubic: {flows:.2?}");
    assert!(flows[0][0] > 34.0 && flows[0][1] < 20.0, "{flows:?}");
    assert!(result.drops.of(DropCause::DualPi2) > 5);
    // ECT(0): marks instead of drops, in the classic queue.
    let (result, flows) = coupled(&["ecn"], 40);
    println!("ecn: {flows:.2?}");
    assert!(flows[0][0] > 30.0 && flows[0][1] < 20.0, "{flows:?}");
    assert_eq!((result.drops.total(), result.links[2].marked > 5), (0, true));
}

#[test]
fn coupled_queues_hold_their_target_against_a_flow_that_reacts_to_nothing() {
    // 12 Mbit/s of Not-ECT over 10 Mbit/s would fill the queue to its limit. The overload of the low-latency queue has unit tests.
    let mut config = bottleneck(QueueConfig::DualPi2(DualPi2Config::default()), false);
    config.flow.truncate(0);
    config.flow.push(FlowConfig {
        from: "s".to_owned(),
        to: "d".to_owned(),
        ..flow(
            "flood",
            FlowKind::Udp,
            TrafficConfig {
                rate: Some(Rate::from_mbps(12)),
                message_bytes: 1000,
                ..TrafficConfig::of(TrafficKind::Cbr)
            },
        )
    });
    let result = run(&config, 1);
    println!("flood: {:.1} ms, {:?}", mean_wait(&result), result.drops);
    // A fifth of the packets is too much: p' = sqrt(0.2), and the delay is the target.
    assert!((10.0..20.0).contains(&mean_wait(&result)), "{}", mean_wait(&result));
    assert_eq!(result.drops.total(), result.drops.of(DropCause::DualPi2));
}

#[test]
fn queued_packets_are_lost_when_the_link_goes_down_and_the_flow_continues() {
    for queue in [
        QueueConfig::Codel(CodelConfig::default()),
        QueueConfig::FqCodel(FqCodelConfig::default()),
        QueueConfig::DualPi2(DualPi2Config::default()),
    ] {
        let mut config = bottleneck(queue, false);
        config.link[1].schedule = [(30, false), (33, true)]
            .map(|(at, up)| ScheduleStep::up(Span::from_secs(at), up))
            .into();
        config.measure.from = Span::from_secs(45);
        let result = run(&config, 1);
        assert!(result.ledger.counts().of(DropCause::LinkDown) > 0);
        assert!(result.flows[0].goodput_bps > 8.0e6, "{}", result.flows[0].goodput_bps);
        assert_eq!(result.end, EndReason::Duration);
    }
}

#[test]
fn small_limits_hold_and_runs_repeat() {
    for queue in [
        QueueConfig::Codel(CodelConfig {
            packets: Some(10),
            ..CodelConfig::default()
        }),
        QueueConfig::FqCodel(FqCodelConfig {
            packets: Some(10),
            queues: 1,
            ..FqCodelConfig::default()
        }),
        QueueConfig::DualPi2(DualPi2Config {
            packets: Some(10),
            ..DualPi2Config::default()
        }),
    ] {
        let config = with_call(bottleneck(queue, false));
        let result = run(&config, 7);
        assert!(result.links[2].max_queue_packets <= 10);
        assert!(result.ledger.counts().of(DropCause::QueueFull) > 0);
        assert_eq!(build(&config, 7).run().fingerprint, result.fingerprint);
    }
}
