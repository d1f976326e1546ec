//! The object that `--json` prints.

use serde_json::{Map, Value, json};
use whimbrel_scenario::Scenario;

use super::{PointReport, Summaries};
use crate::metric::metrics;
use crate::runner::Run;

/// Returns one object: `{"scenario", "points": [{"params", "metrics": {NAME: {"mean", "ci95", "n"}}, "flows": {NAME: {the same}}}],
/// "runs": [{"seed", "params", "wall_s", "packet_hops", "events"}]}`. A mean without values and an interval with fewer than
/// two are null.
pub fn json(scenario: &Scenario, points: &[PointReport], runs: &[Run]) -> Value {
    let points: Vec<_> = points
        .iter()
        .map(|point| {
            let flows: Map<_, _> = point
                .flows
                .iter()
                .map(|(name, summaries)| (name.clone(), metrics_json(summaries)))
                .collect();
            json!({
                "params": params(&point.params),
                "metrics": metrics_json(&point.metrics),
                "flows": flows,
            })
        })
        .collect();
    let runs: Vec<_> = runs
        .iter()
        .map(|run| {
            json!({
                "seed": run.seed,
                "params": params(&scenario.points[run.point].params),
                "wall_s": run.wall_s,
                "packet_hops": run.packet_hops,
                "events": run.events,
            })
        })
        .collect();
    json!({ "scenario": scenario.title, "points": points, "runs": runs })
}

fn params(params: &[(String, Value)]) -> Value {
    Value::Object(params.iter().cloned().collect())
}

fn metrics_json(summaries: &Summaries) -> Value {
    let named = metrics().zip(summaries).map(|(metric, summary)| {
        (
            metric.name.to_owned(),
            json!({ "mean": summary.mean, "ci95": summary.ci95, "n": summary.n }),
        )
    });
    Value::Object(named.collect())
}
