//! One folder of results: what was run, the figures of every point with their intervals, and the rows behind them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use whimbrel_lab::{Manifest, Run, Status, Summary, default_metrics, load_runs, metrics};
use whimbrel_scenario::Scenario;

use crate::columns::{Blobs, Precision};
use crate::error::ReportError;
use crate::table::Table;

/// Figures of all flows of a run together.
const ALL_FLOWS: &str = "all flows";

/// A folder that `run --out` wrote, or that of a scenario of a study.
#[derive(Debug)]
pub(crate) struct Results {
    pub(crate) name: String,
    pub(crate) manifest: Manifest,
    /// The scenario as it was run; none of a study's, whose points stand in the study, or if its files are gone.
    pub(crate) scenario: Option<Scenario>,
    pub(crate) runs: Vec<Run>,
    pub(crate) table: Table,
    pub(crate) links: Option<Table>,
    pub(crate) radios: Option<Table>,
}

/// A point of the sweep with its figures.
#[derive(Debug)]
pub(crate) struct Points {
    pub(crate) axes: Vec<Axis>,
    /// For each point the place of its value on each axis.
    pub(crate) places: Vec<Vec<usize>>,
    /// Runs of each point.
    pub(crate) runs: Vec<usize>,
    /// Number of flows.
    pub(crate) flows: usize,
    /// Whether all seeds of a point, several of them, gave the same.
    pub(crate) deterministic: Vec<bool>,
    /// A line for each metric of all flows together and of each flow.
    pub(crate) figures: Vec<Figures>,
}

/// A swept field.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
}

/// What the runs of all points say of a metric.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) flow: String,
    /// The metric's place in `metrics()`.
    pub(crate) metric: usize,
    /// For each point.
    pub(crate) summaries: Vec<Summary>,
}

impl Axis {
    /// The last part of the name, behind the thing it belongs to: `loss.rate` of `link.wifi.loss.rate`.
    pub(crate) fn short(&self) -> &str {
        let mut dots = self.name.match_indices('.').rev();
        let cut = dots.nth(1).map_or(0, |(place, _)| place + 1);
        &self.name[cut..]
    }
}

impl Results {
    /// Reads a folder.
    pub(crate) fn read(folder: &Path, name: String) -> Result<Self, ReportError> {
        let path = folder.join("manifest.json");
        let manifest = Manifest::load(&path).map_err(|reason| ReportError::Unreadable { path, reason })?;
        let source = &manifest.scenario;
        // Points of a study are not those of its scenario file.
        let of_study = manifest.command.get(1).is_some_and(|word| word == "study");
        let scenario = Scenario::from_text(&source.path, &source.text, &source.changes).ok();
        let scenario = scenario.filter(|scenario| !of_study && scenario.points.len() == manifest.points);
        let runs = load_runs(folder).map_err(|reason| ReportError::Unreadable {
            path: folder.join("runs.jsonl"),
            reason,
        })?;
        let optional = |name: &str| {
            let path = folder.join(name);
            path.is_file().then(|| Table::read(&path)).transpose()
        };
        Ok(Results {
            name,
            scenario,
            runs,
            table: Table::read(&folder.join("results.csv"))?,
            links: optional("links.csv")?,
            radios: optional("radios.csv")?,
            manifest,
        })
    }

    /// What it is called: the scenario's title, or its file.
    pub(crate) fn title(&self) -> String {
        match &self.scenario {
            Some(scenario) => scenario.title.clone(),
            None => self.name.clone(),
        }
    }

    /// The names of swept fields: the columns between the seed and the flow.
    fn axes(&self) -> Vec<&str> {
        let names = self.table.names().skip(2);
        names.take_while(|name| *name != "flow").collect()
    }

    /// Figures by point.
    pub(crate) fn points(&self) -> Points {
        let names = self.axes();
        let mut axes: Vec<Axis> = names
            .iter()
            .map(|name| Axis {
                name: (*name).to_owned(),
                values: Vec::new(),
            })
            .collect();
        let run_numbers = self.table.column("run");
        let rows: BTreeMap<String, usize> = run_numbers
            .iter()
            .enumerate()
            .map(|(row, run)| (run.clone(), row))
            .collect();
        let mut by_point: BTreeMap<usize, Vec<&Run>> = BTreeMap::new();
        for run in &self.runs {
            by_point.entry(run.point).or_default().push(run);
        }
        let mut places = Vec::with_capacity(by_point.len());
        by_point.retain(|_, runs| {
            let row = runs.iter().find_map(|run| rows.get(&run.number.to_string()));
            let Some(&row) = row else { return false };
            let place = axes.iter_mut().map(|axis| {
                let value = self.table.value(&axis.name, row);
                axis.values.iter().position(|known| *known == value).unwrap_or_else(|| {
                    axis.values.push(value);
                    axis.values.len() - 1
                })
            });
            places.push(place.collect());
            true
        });
        let runs: Vec<Vec<&Run>> = by_point.into_values().collect();
        let same = |runs: &Vec<&Run>| runs.len() > 1 && runs.iter().all(|run| run.fingerprint == runs[0].fingerprint);
        Points {
            places,
            deterministic: runs.iter().map(same).collect(),
            flows: flows(&runs).len(),
            figures: figures(&runs),
            runs: runs.iter().map(Vec::len).collect(),
            axes,
        }
    }

    /// What the page contains about it.
    pub(crate) fn json(&self, blobs: &mut Blobs) -> Value {
        let points = self.points();
        let manifest = &self.manifest;
        let expected = match manifest.status {
            Status::Stopped => manifest.runs,
            _ => manifest.part.count(manifest.points * manifest.seeds as usize),
        };
        let failures = self.runs.iter().flat_map(|run| {
            run.flows.iter().filter_map(move |flow| {
                Some(format!(
                    "flow {} failed with seed {}: {}",
                    flow.name,
                    run.seed,
                    flow.failure()?
                ))
            })
        });
        let failures: Vec<_> = failures.collect();
        let status = match manifest.status {
            Status::Complete | Status::Stopped => "complete",
            Status::Running => "running",
            Status::Interrupted => "interrupted",
            Status::Failed => "failed",
        };
        json!({
            "name": self.name,
            "title": self.title(),
            "description": self.scenario.as_ref().map_or("", |scenario| scenario.description.trim()),
            "path": manifest.scenario.path,
            "text": manifest.scenario.text,
            "hash": manifest.scenario.hash,
            "changes": manifest.scenario.changes,
            "command": manifest.command,
            "whimbrel": manifest.whimbrel,
            "status": status,
            "seed": manifest.seed.to_string(),
            "seeds": manifest.seeds,
            "runs": self.runs.len(),
            "expected": expected,
            "failures": failures.iter().take(MOST_FAILURES).collect::<Vec<_>>(),
            "failed": failures.len(),
            "cut": manifest.cut,
            "packet_hops": self.runs.iter().map(|run| run.packet_hops).sum::<u64>(),
            "points": points.json(blobs),
            "tables": self.tables(blobs),
        })
    }

    fn tables(&self, blobs: &mut Blobs) -> Vec<Value> {
        let tables = [
            ("results.csv", "a row for each run and flow", Some(&self.table)),
            (
                "links.csv",
                "what each direction of a link carried",
                self.links.as_ref(),
            ),
            ("radios.csv", "what each radio did", self.radios.as_ref()),
        ];
        let present = tables
            .into_iter()
            .filter_map(|(name, what, table)| Some((name, what, table?)));
        present
            .map(|(name, what, table)| json!({ "name": name, "what": what, "rows": table.rows(), "columns": table.json(blobs) }))
            .collect()
    }
}

/// Failures that are named in the page, at most.
const MOST_FAILURES: usize = 20;

/// Returns the names of the flows, in the order in which they occur.
fn flows<'r>(points: &[Vec<&'r Run>]) -> Vec<&'r str> {
    let mut flows: Vec<&str> = Vec::new();
    for flow in points.iter().flatten().flat_map(|run| &run.flows) {
        if !flows.contains(&flow.name.as_str()) {
            flows.push(&flow.name);
        }
    }
    flows
}

/// The figures of points with these runs; metrics without any value are left out.
fn figures(points: &[Vec<&Run>]) -> Vec<Figures> {
    let mut flows = flows(points);
    // One flow says the same as all of them.
    if flows.len() < 2 || flows.len() > MOST_FLOWS {
        flows.clear();
    }
    let mut figures = Vec::new();
    for flow in std::iter::once(None).chain(flows.into_iter().map(Some)) {
        for (place, _) in metrics()
            .enumerate()
            .filter(|(_, metric)| flow.is_none() || !metric.of_run)
        {
            let value = |run: &&Run| match flow {
                None => run.values.get(place),
                Some(name) => run.flows.iter().find(|flow| flow.name == name)?.values.get(place),
            };
            let summaries: Vec<_> = points
                .iter()
                .map(|runs| Summary::of(runs.iter().filter_map(value)))
                .collect();
            if summaries.iter().any(|summary| summary.mean.is_some()) {
                figures.push(Figures {
                    flow: flow.unwrap_or(ALL_FLOWS).to_owned(),
                    metric: place,
                    summaries,
                });
            }
        }
    }
    figures
}

/// Flows that have figures of their own in the page, at most; the table has all of them.
const MOST_FLOWS: usize = 64;

impl Points {
    /// The metrics that are shown unless others are chosen, by their places in `metrics()`.
    pub(crate) fn usual(&self) -> Vec<usize> {
        default_metrics(self.flows).map(|(place, _)| place).collect()
    }

    fn json(&self, blobs: &mut Blobs) -> Value {
        let axes: Vec<_> = self
            .axes
            .iter()
            .map(|axis| json!({ "name": axis.name, "short": axis.short(), "values": axis.values }))
            .collect();
        let names: Vec<_> = metrics().map(|metric| metric.name).collect();
        let mut column = |values: Vec<f64>| blobs.numbers(&values, Precision::Exact);
        let figures: Vec<_> = self
            .figures
            .iter()
            .map(|figures| {
                let of = |part: &dyn Fn(&Summary) -> Option<f64>| -> Vec<f64> {
                    figures
                        .summaries
                        .iter()
                        .map(|summary| part(summary).unwrap_or(f64::NAN))
                        .collect()
                };
                json!({
                    "flow": figures.flow,
                    "metric": names[figures.metric],
                    "mean": column(of(&|summary| summary.mean)),
                    "ci95": column(of(&|summary| summary.ci95)),
                    "n": column(of(&|summary| Some(summary.n as f64))),
                })
            })
            .collect();
        let usual: Vec<_> = self.usual().into_iter().map(|place| names[place]).collect();
        json!({ "axes": axes, "usual": usual, "places": self.places, "runs": self.runs, "deterministic": self.deterministic, "figures": figures })
    }
}
