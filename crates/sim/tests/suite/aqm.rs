//! Queues of current networks end to end: controlled delay, flow queueing, the step marker.

use crate::common::{build, flow, nodes, run};
use whimbrel_control::{Rate, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    CodelConfig, FlowConfig, FlowKind, FqCodelConfig, LinkConfig, QueueConfig, ScheduleStep, SimConfig, StepConfig,
    TrafficConfig, TrafficKind,
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

#[test]
fn queued_packets_are_lost_when_the_link_goes_down_and_the_flow_continues() {
    for queue in [
        QueueConfig::Codel(CodelConfig::default()),
        QueueConfig::FqCodel(FqCodelConfig::default()),
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
    ] {
        let config = with_call(bottleneck(queue, false));
        let result = run(&config, 7);
        assert!(result.links[2].max_queue_packets <= 10);
        assert!(result.ledger.counts().of(DropCause::QueueFull) > 0);
        assert_eq!(build(&config, 7).run().fingerprint, result.fingerprint);
    }
}
