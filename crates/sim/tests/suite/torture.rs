//! Random networks with all features. Every message arrives once, in order within its stream, and unchanged, or the association
//! ends with an error and a reason.
//!
//! `WHIMBREL_TORTURE_SEEDS=N` tries N seeds; `WHIMBREL_TORTURE_SEED=N` tries only that seed.

use crate::common::{file, flow, nodes, run};
use whimbrel_control::multipath::policy::PathPolicySpec;
use whimbrel_control::multipath::{Accounting, ReportingChanges, RetransmitPath, SackPath};
use whimbrel_control::{Rate, Rng, Span};
use whimbrel_proto::{AssociationConfig, Preset};
use whimbrel_sim::config::{
    Carriage, ChunkKind, FlowConfig, FlowKind, JitterConfig, LinkConfig, LossConfig, OneOrMany, QueueConfig,
    ScheduleStep, SimConfig, TrafficConfig,
};
use whimbrel_sim::{EndReason, FlowOutcome, RunResult};

const DEFAULT_SEEDS: u64 = 3000;
/// Simulated time after which a run must have ended by itself.
const PATIENCE: u64 = 20_000;

fn between(rng: &mut Rng, low: u64, high: u64) -> u64 {
    low + rng.below(high - low + 1)
}

fn loss(rng: &mut Rng) -> LossConfig {
    match rng.below(6) {
        0 => LossConfig::Bernoulli {
            rate: 0.15 * rng.unit(),
        },
        1 => LossConfig::BitErrors {
            rate: 2e-5 * rng.unit(),
        },
        2 => LossConfig::GilbertElliott {
            good_to_bad: 0.05 * rng.unit(),
            bad_to_good: 0.1 + 0.5 * rng.unit(),
            good_loss: 0.01 * rng.unit(),
            bad_loss: 0.3 + 0.7 * rng.unit(),
        },
        3 => LossConfig::Markov {
            mean_good: Span::from_millis(between(rng, 100, 5000)),
            mean_bad: Span::from_millis(between(rng, 10, 500)),
            good_loss: 0.0,
            bad_loss: 0.9,
            shared: false,
        },
        4 => LossConfig::List {
            packets: (0..between(rng, 1, 12)).map(|_| between(rng, 1, 30)).collect(),
        },
        _ => {
            let kind = ChunkKind::ALL[rng.below(15) as usize];
            let model = Box::new(LossConfig::Bernoulli { rate: 0.4 * rng.unit() });
            LossConfig::ChunkType {
                chunks: vec![kind],
                model,
            }
        }
    }
}

fn link(rng: &mut Rng, name: String, ends: [&str; 2]) -> LinkConfig {
    let rate = Rate::from_bps(between(rng, 100_000, 20_000_000));
    let mut link = LinkConfig::new(ends[0], ends[1], rate, Span::from_micros(between(rng, 0, 150_000)));
    link.name = Some(name);
    link.queue = if rng.chance(0.5) {
        QueueConfig::DropTail {
            packets: Some(between(rng, 2, 60) as u32),
            bytes: None,
        }
    } else {
        QueueConfig::DropTail {
            packets: None,
            bytes: Some(between(rng, 3000, 60_000)),
        }
    };
    link.loss = OneOrMany((0..rng.below(3)).map(|_| loss(rng)).collect());
    if rng.chance(0.4) {
        let reorder = rng.chance(0.7);
        let max = Span::from_millis(between(rng, 1, 200));
        link.jitter = Some(match rng.below(2) {
            0 => JitterConfig::Uniform {
                min: Span::ZERO,
                max,
                reorder,
            },
            _ => JitterConfig::Exponential { mean: max / 4, reorder },
        });
    }
    if rng.chance(0.3) {
        link.duplicate = 0.2 * rng.unit();
    }
    if rng.chance(0.4) {
        // The path goes down and up again, sometimes permanently down.
        let mut at = Span::from_millis(between(rng, 1, 20_000));
        let mut up = false;
        for _ in 0..between(rng, 1, 6) {
            let mut step = ScheduleStep::up(at, up);
            if rng.chance(0.3) {
                step.rate = Some(Rate::from_bps(between(rng, 20_000, 20_000_000)));
            }
            if rng.chance(0.3) {
                step.delay = Some(Span::from_millis(between(rng, 0, 400)));
            }
            if rng.chance(0.3) {
                let rate = 0.2 * rng.unit();
                step.loss = Some(LossConfig::Bernoulli { rate }.into());
            }
            let changes = step.rate.is_some() || step.delay.is_some() || step.loss.is_some();
            if changes && rng.chance(0.5) {
                step.up = None;
            }
            link.schedule.push(step);
            at += Span::from_millis(between(rng, 100, 60_000));
            up = !up;
        }
    }
    link
}

fn association(rng: &mut Rng) -> AssociationConfig {
    let defaults = AssociationConfig::default();
    let tiny = rng.chance(0.3);
    let buffer = if tiny {
        between(rng, 1500, 8000)
    } else {
        between(rng, 8000, 300_000)
    } as u32;
    let reporting = reporting(rng);
    // A window opens only with a SACK, so a burst must be longer than the packets per SACK.
    let longest = reporting.arrivals_per_sack.unwrap_or(0);
    let max_burst = match between(rng, 0, 8) as u32 {
        burst if burst <= longest => 0,
        burst => burst,
    };
    AssociationConfig {
        preset: [Preset::Rfc9260, Preset::Rfc4960, Preset::Rfc2960, Preset::Ns2][rng.below(4) as usize],
        recv_buffer: buffer,
        outbound_streams: between(rng, 1, 20) as u16,
        mtu: between(rng, 576, 1500) as u16,
        sack_frequency: between(rng, 1, 3) as u32,
        sack_delay: Span::from_millis(between(rng, 0, 500)),
        max_burst,
        potentially_failed_max_retrans: rng.chance(0.3).then_some(1),
        retransmit_path: Some(RetransmitPath::ALL[rng.below(RetransmitPath::ALL.len() as u64) as usize]),
        accounting: Some([Accounting::Association, Accounting::Path, Accounting::Cmt][rng.below(3) as usize]),
        hb_interval: Span::from_secs(between(rng, 1, 30)),
        reporting,
        path_policy: PathPolicySpec::by_name(
            PathPolicySpec::ALL[rng.below(PathPolicySpec::ALL.len() as u64) as usize].name,
        ),
        ..defaults
    }
}

/// Half of the receivers use other reporting rules than the standard's.
fn reporting(rng: &mut Rng) -> ReportingChanges {
    if rng.chance(0.5) {
        return ReportingChanges::default();
    }
    ReportingChanges {
        arrivals_per_sack: Some(between(rng, 0, 10) as u32),
        dac: Some(rng.chance(0.3)),
        two_level_buffer: Some(rng.chance(0.3)),
        sack_path: Some(
            [
                SackPath::LastArrival,
                SackPath::Primary,
                SackPath::LowestRtt,
                SackPath::All,
            ][rng.below(4) as usize],
        ),
        nr_sack: Some(rng.chance(0.3)),
        new_gaps_only: Some(rng.chance(0.3)),
        second_level_buffer: Some(between(rng, 1500, 100_000) as u32),
    }
}

fn scenario(seed: u64) -> SimConfig {
    let rng = &mut Rng::stream(seed, "torture");
    let mut config = nodes(&["a", "r", "b"], PATIENCE);
    let paths = between(rng, 1, 3);
    for path in 0..paths {
        if rng.chance(0.3) {
            config.link.push(link(rng, format!("a{path}"), ["a", "r"]));
            config.link.push(link(rng, format!("b{path}"), ["r", "b"]));
        } else {
            config.link.push(link(rng, format!("p{path}"), ["a", "b"]));
        }
    }
    let association = association(rng);
    // A message must fit into the send buffer; messages larger than the receive buffer are delivered in parts.
    let traffic = TrafficConfig {
        message_bytes: if rng.chance(0.5) {
            between(rng, 1, 1400)
        } else {
            between(rng, 1000, 30_000)
        } as u32,
        streams: between(rng, 1, 12) as u16,
        unordered: rng.chance(0.3),
        ..file(between(rng, 1, 150_000))
    };
    let sctp = AssociationConfig {
        send_buffer: between(rng, 30_000, 200_000) as u32,
        ..association
    };
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..flow("file", FlowKind::Sctp, traffic)
    }];
    if rng.chance(0.3) {
        config.carriage = Carriage::Bytes;
    }
    config
}

/// Returns an error that describes what is wrong with a run.
fn verdict(result: &RunResult) -> Result<(), String> {
    let flow = &result.flows[0];
    let check = flow.file.ok_or("no file was sent")?;
    let is = |good: bool, what: &str| {
        if good {
            Ok(())
        } else {
            Err(format!("{what}: {check:?} {:?}", flow.outcome))
        }
    };
    is(check.wrong == 0, "bytes were changed")?;
    is(flow.messages_repeated == 0, "a message was delivered twice")?;
    is(
        flow.messages_disordered == 0,
        "messages of a stream changed their order",
    )?;
    match &flow.outcome {
        FlowOutcome::Completed => {
            is(check.intact, "it completed with a part missing")?;
            is(
                flow.messages_delivered == flow.messages_sent,
                "it completed with messages missing",
            )?;
            is(result.end == EndReason::AllDone, "the run did not end")
        }
        FlowOutcome::Failed(reason) => is(!reason.is_empty(), "it failed without a reason"),
        outcome => Err(format!("neither completed nor failed: {outcome:?} {check:?}")),
    }
}

#[test]
fn every_message_arrives_once_in_order_or_the_association_fails_with_a_reason() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let seeds = match number("WHIMBREL_TORTURE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WHIMBREL_TORTURE_SEEDS").unwrap_or(DEFAULT_SEEDS),
    };
    let alone = seeds.clone().count() == 1;
    let (mut completed, mut failed) = (0, Vec::new());
    let mut wrong = Vec::new();
    for seed in seeds {
        let result = run(&scenario(seed), seed);
        match (verdict(&result), &result.flows[0].outcome) {
            (Err(problem), _) => wrong.push(format!("WHIMBREL_TORTURE_SEED={seed}: {problem}")),
            (Ok(()), FlowOutcome::Failed(reason)) => failed.push((seed, reason.clone())),
            (Ok(()), _) => completed += 1,
        }
    }
    println!(
        "{completed} completed, {} failed with a reason: {failed:?}",
        failed.len()
    );
    assert!(wrong.is_empty(), "{} of them\n{}", wrong.len(), wrong.join("\n"));
    assert!(
        alone || completed > 4 * failed.len(),
        "most networks deliver the file: {failed:?}"
    );
}
