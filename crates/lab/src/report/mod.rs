//! Summaries of runs: a table for people, JSON for programs.

mod json;
mod pivot;
mod table;

use whimbrel_scenario::Scenario;

use crate::metric::COUNT;
use crate::run::Run;
use crate::stats::Summary;

pub use json::json;
pub use pivot::{View, ViewError, tables};
pub(crate) use table::{short, with_interval};

/// The summary of every metric, in order.
pub type Summaries = [Summary; COUNT];

/// The summary of a point's runs.
#[derive(Clone, Debug)]
pub struct PointReport {
    /// The value of each axis.
    pub params: Vec<(String, serde_json::Value)>,
    /// Number of complete runs.
    pub runs: usize,
    /// Whether no randomness is used: several seeds gave the same sequence of events.
    pub deterministic: bool,
    /// All flows together.
    pub metrics: Summaries,
    /// Each flow, in the order of the scenario.
    pub flows: Vec<(String, Summaries)>,
}

/// Summarises runs by point, in the order of the points. Points without a complete run are omitted.
pub fn summarise(scenario: &Scenario, runs: &[Run]) -> Vec<PointReport> {
    let mut reports = Vec::with_capacity(scenario.points.len());
    for (number, point) in scenario.points.iter().enumerate() {
        let runs: Vec<_> = runs.iter().filter(|run| run.point == number).collect();
        if runs.is_empty() {
            continue;
        }
        let over = |values: &dyn Fn(&Run) -> Option<&crate::metric::Values>| -> Summaries {
            std::array::from_fn(|place| {
                Summary::of(
                    runs.iter()
                        .filter_map(|run| values(run))
                        .filter_map(|values| values.get(place)),
                )
            })
        };
        let flow = |(index, flow): (usize, &whimbrel_sim::config::FlowConfig)| {
            (
                flow.name.clone(),
                over(&|run| run.flows.get(index).map(|flow| &flow.values)),
            )
        };
        reports.push(PointReport {
            params: point.params.clone(),
            runs: runs.len(),
            deterministic: runs.len() > 1 && runs.iter().all(|run| run.fingerprint == runs[0].fingerprint),
            metrics: over(&|run| Some(&run.values)),
            flows: point.config.flow.iter().enumerate().map(flow).collect(),
        });
    }
    reports
}
