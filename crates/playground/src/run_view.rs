//! The results of a run as the page reads them.

use serde::Serialize;
use whimbrel_sim::{EndReason, FlowOutcome, FlowResult, LinkResult, RunResult};

use crate::record::Recorded;

/// A run.
#[derive(Debug, Serialize)]
pub(crate) struct RunView {
    title: String,
    /// Points of the scenario's sweep; only the first one was run.
    pub(crate) points: usize,
    pub(crate) warnings: Vec<String>,
    seed: u64,
    /// Simulated seconds.
    ended: f64,
    /// Processed events.
    events: u64,
    /// A hash of the sequence of events, hexadecimal: equal for equal runs on every machine.
    fingerprint: String,
    flows: Vec<Flow>,
    links: Vec<Link>,
    recorded: Recorded,
}

/// A flow's figures.
#[derive(Debug, Serialize)]
struct Flow {
    name: String,
    kind: String,
    outcome: String,
    goodput_mbps: f64,
    /// Seconds; only of a finite flow that is complete.
    completion: Option<f64>,
    /// Milliseconds; none without a delivered message.
    delay_mean_ms: Option<f64>,
    delay_p95_ms: Option<f64>,
    packets: u64,
    retransmissions: u64,
    timeouts: u64,
    /// Packets dropped by queues and by everything else.
    lost_in_queues: u64,
    lost_elsewhere: u64,
    /// Fractions of the losses by congestion, and of the other losses, that were judged right; none without such losses.
    a_c: Option<f64>,
    a_w: Option<f64>,
}

/// The figures of a direction of a link.
#[derive(Debug, Serialize)]
struct Link {
    name: String,
    from: String,
    utilisation: f64,
    mean_queue_packets: f64,
    drops: u64,
}

impl RunView {
    pub(crate) fn new(title: &str, result: &RunResult, recorded: Recorded) -> Self {
        RunView {
            title: title.to_owned(),
            points: 1,
            warnings: Vec::new(),
            seed: result.seed,
            ended: result.ended_at.as_nanos() as f64 / 1e9,
            events: result.events,
            fingerprint: format!("{:016x}", result.fingerprint),
            flows: result.flows.iter().map(Flow::of).collect(),
            links: result.links.iter().map(Link::of).collect(),
            recorded: Recorded {
                cut: recorded.cut && result.end == EndReason::Cancelled,
                ..recorded
            },
        }
    }
}

impl Flow {
    fn of(flow: &FlowResult) -> Self {
        let millis = |span: whimbrel_control::Span| (flow.delay.count > 0).then(|| span.as_nanos() as f64 / 1e6);
        let lost = flow.drops.iter();
        let (queues, elsewhere) = lost.fold((0, 0), |(queues, elsewhere), (cause, count)| {
            if cause.is_congestion() {
                (queues + count, elsewhere)
            } else {
                (queues, elsewhere + count)
            }
        });
        Flow {
            name: flow.name.clone(),
            kind: format!("{:?}", flow.kind).to_lowercase(),
            outcome: match &flow.outcome {
                FlowOutcome::NotStarted => "not started".to_owned(),
                FlowOutcome::Connecting => "connecting".to_owned(),
                FlowOutcome::Running => "running".to_owned(),
                FlowOutcome::Completed => "completed".to_owned(),
                FlowOutcome::Failed(reason) => format!("failed: {reason}"),
            },
            goodput_mbps: flow.goodput_bps / 1e6,
            completion: flow.completion.map(|span| span.as_nanos() as f64 / 1e9),
            delay_mean_ms: millis(flow.delay.mean),
            delay_p95_ms: millis(flow.delay.p95),
            packets: flow.sender_packets,
            retransmissions: flow.sender.retransmissions,
            timeouts: flow.sender.timeouts,
            lost_in_queues: queues,
            lost_elsewhere: elsewhere,
            a_c: flow.verdicts.a_c(),
            a_w: flow.verdicts.a_w(),
        }
    }
}

impl Link {
    fn of(link: &LinkResult) -> Self {
        Link {
            name: link.name.clone(),
            from: link.from.clone(),
            utilisation: link.utilisation,
            mean_queue_packets: link.mean_queue_packets,
            drops: link.drops.total(),
        }
    }
}
