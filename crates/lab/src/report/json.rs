//! The object that `--json` prints.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::Value;
use whimbrel_scenario::Scenario;

use super::{PointReport, Summaries};
use crate::metric::metrics;
use crate::run::Run;

/// Returns one object: `{"scenario", "points": [{"params", "metrics": {NAME: {"mean", "ci95", "n"}}, "flows": {NAME: {the same}}}],
/// "runs": [{"seed", "params", "wall_s", "packet_hops", "events"}]}`, with sorted names. A mean without values and an interval with
/// fewer than two are null.
pub fn json(scenario: &Scenario, points: &[PointReport], runs: &[Run]) -> String {
    let mut order: Vec<_> = metrics().map(|metric| metric.name).enumerate().collect();
    order.sort_unstable_by_key(|(_, name)| *name);
    let of_metrics = |summaries| Metrics {
        summaries,
        order: &order,
    };
    let points = points.iter().map(|point| Point {
        flows: point
            .flows
            .iter()
            .map(|(name, summaries)| (name.as_str(), of_metrics(summaries)))
            .collect(),
        metrics: of_metrics(&point.metrics),
        params: params(&point.params),
    });
    let runs = runs.iter().map(|run| RunCost {
        events: run.events,
        packet_hops: run.packet_hops,
        params: params(&scenario.points[run.point].params),
        seed: run.seed,
        wall_s: run.wall_s,
    });
    let results = Results {
        points: points.collect(),
        runs: runs.collect(),
        scenario: scenario.title.as_str(),
    };
    // Not by way of a tree of values, which takes 1.2 GB for 10,000 flows.
    serde_json::to_string(&results).expect("names are text, and memory does not fail")
}

/// The fields of each object are in the order of their names.
#[derive(Serialize)]
struct Results<'r> {
    points: Vec<Point<'r>>,
    runs: Vec<RunCost<'r>>,
    scenario: &'r str,
}

#[derive(Serialize)]
struct Point<'r> {
    flows: BTreeMap<&'r str, Metrics<'r>>,
    metrics: Metrics<'r>,
    params: Params<'r>,
}

#[derive(Serialize)]
struct RunCost<'r> {
    events: u64,
    packet_hops: u64,
    params: Params<'r>,
    seed: u64,
    wall_s: Option<f64>,
}

type Params<'r> = BTreeMap<&'r str, &'r Value>;

fn params(params: &[(String, Value)]) -> Params<'_> {
    params.iter().map(|(name, value)| (name.as_str(), value)).collect()
}

struct Metrics<'r> {
    summaries: &'r Summaries,
    /// Place and name of each metric, sorted by name.
    order: &'r [(usize, &'static str)],
}

impl Serialize for Metrics<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Mean {
            ci95: Option<f64>,
            mean: Option<f64>,
            n: usize,
        }
        serializer.collect_map(self.order.iter().map(|(place, name)| {
            let summary = &self.summaries[*place];
            let mean = Mean {
                ci95: summary.ci95,
                mean: summary.mean,
                n: summary.n,
            };
            (name, mean)
        }))
    }
}
