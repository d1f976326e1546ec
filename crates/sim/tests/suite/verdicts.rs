//! The sender's verdicts by the true causes of its losses.

use crate::common::{flow, pair, run};
use whimbrel_control::{Cause, LossSignal, Rate, Span, Verdict};
use whimbrel_sim::config::{FlowKind, LossConfig, QueueConfig, SimConfig, TrafficConfig};
use whimbrel_sim::{DropCause, RunResult};

fn network(loss: f64, packets: u32) -> SimConfig {
    let mut config = pair(Rate::from_mbps(5), Span::from_millis(20), 120);
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(packets),
        bytes: None,
    };
    config.link[0].loss = LossConfig::Bernoulli { rate: loss }.into();
    config.flow = vec![flow("f", FlowKind::Sctp, TrafficConfig::default())];
    config
}

fn dropped_by(result: &RunResult, congestion: bool) -> u64 {
    let entries = result.ledger.entries().iter();
    let data = entries.filter(|entry| entry.forward && entry.tsn.is_some());
    data.filter(|entry| entry.cause.is_congestion() == congestion).count() as u64
}

#[test]
fn counts_by_cause_match_the_ledger() {
    for (loss, queue, congestion) in [(0.02, 1000, false), (0.0, 10, true)] {
        let result = run(&network(loss, queue), 3);
        let counts = &result.flows[0].verdicts;
        let (cause, other) = if congestion {
            (Cause::Congestion, Cause::Transmission)
        } else {
            (Cause::Transmission, Cause::Congestion)
        };
        let dropped = dropped_by(&result, congestion);
        assert!(dropped > 20, "{dropped}");
        let noticed = counts.noticed(Some(cause));
        // All but those that could not be detected before the end.
        assert!(noticed <= dropped && dropped - noticed < 30, "{noticed} of {dropped}");
        assert_eq!(counts.noticed(Some(other)), 0);
        // Standard SCTP judges every loss as congestion.
        if congestion {
            assert_eq!((counts.a_c(), counts.a_w()), (Some(1.0), None));
            assert_eq!(counts.unnecessary_reductions, 0);
        } else {
            assert_eq!((counts.a_c(), counts.a_w()), (None, Some(0.0)));
            assert!(counts.unnecessary_reductions > 10);
        }
        assert_eq!(counts.missed_congestion, 0);
    }
}

#[test]
fn distinguishes_both_causes_on_one_path() {
    let result = run(&network(0.002, 15), 5);
    let counts = &result.flows[0].verdicts;
    assert!(result.ledger.counts().of(DropCause::QueueFull) > 5);
    for cause in [Cause::Congestion, Cause::Transmission] {
        assert!(counts.noticed(Some(cause)) > 5);
    }
    let by_gap = counts.of(Some(Cause::Transmission), LossSignal::Gap, Verdict::Congestion);
    assert!(by_gap > 5, "{by_gap}");
    assert_eq!(
        counts.of(Some(Cause::Transmission), LossSignal::Gap, Verdict::Transmission),
        0
    );
}
