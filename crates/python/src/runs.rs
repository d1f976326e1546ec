//! Finished runs.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whimbrel_lab::{Field, Kind, Rows, Run, View, find_metric};

use crate::json::from_json;
use crate::scenario::Scenario;
use crate::table::{Table, TableBuilder};

/// Finished runs of a scenario, in their order.
#[pyclass(frozen, module = "whimbrel._core")]
#[derive(Debug)]
pub(crate) struct Runs {
    scenario: Arc<whimbrel_scenario::Scenario>,
    runs: Vec<Run>,
}

impl Runs {
    pub(crate) fn new(scenario: Arc<whimbrel_scenario::Scenario>, runs: Vec<Run>) -> Self {
        Runs { scenario, runs }
    }
}

const LINKS: [(&str, Kind); 13] = [
    ("run", Kind::Integer),
    ("seed", Kind::Integer),
    ("link", Kind::Text),
    ("from", Kind::Text),
    ("to", Kind::Text),
    ("packets", Kind::Integer),
    ("bytes", Kind::Integer),
    ("utilisation", Kind::Float),
    ("queue_utilisation", Kind::Float),
    ("mean_queue_packets", Kind::Float),
    ("max_queue_packets", Kind::Integer),
    ("marked", Kind::Integer),
    ("drops", Kind::Integer),
];

#[pymethods]
impl Runs {
    fn __len__(&self) -> usize {
        self.runs.len()
    }

    /// Reads lines of `runs.jsonl`.
    #[staticmethod]
    fn parse(scenario: &Scenario, lines: Vec<String>) -> PyResult<Self> {
        let read =
            |line: &String| Run::from_line(line).ok_or_else(|| PyValueError::new_err("not a line of runs.jsonl"));
        let runs = lines.iter().map(read).collect::<PyResult<_>>()?;
        Ok(Runs::new(Arc::clone(scenario.inner()), runs))
    }

    /// The numbers of the runs.
    #[getter]
    fn numbers(&self) -> Vec<usize> {
        self.runs.iter().map(|run| run.number).collect()
    }

    /// The seeds of the runs.
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.seed).collect()
    }

    /// The points of the runs.
    #[getter]
    fn points(&self) -> Vec<usize> {
        self.runs.iter().map(|run| run.point).collect()
    }

    /// The value of a metric for each run, all flows together.
    fn values(&self, metric: &str) -> PyResult<Vec<Option<f64>>> {
        let Some((place, _)) = find_metric(metric) else {
            return Err(PyValueError::new_err(format!("there is no metric `{metric}`")));
        };
        Ok(self.runs.iter().map(|run| run.values.get(place)).collect())
    }

    /// The rows of `results.csv`: one for each flow of each run.
    fn results(&self) -> PyResult<Table> {
        let rows = Rows::of(&self.scenario);
        let mut table = TableBuilder::new(rows.columns());
        for run in &self.runs {
            rows.of_run(run).for_each(|row| table.row(&row));
        }
        table.finish()
    }

    /// One row for each direction of a link and each run.
    fn links(&self) -> PyResult<Table> {
        let mut table = TableBuilder::new(&LINKS);
        for run in &self.runs {
            for link in &run.links {
                let text = |text: &String| Field::Text(text.clone());
                let number = |number| Field::Number(Some(number));
                table.row(&[
                    Field::Integer(run.number as u64),
                    Field::Integer(run.seed),
                    text(&link.name),
                    text(&link.from),
                    text(&link.to),
                    Field::Integer(link.packets),
                    Field::Integer(link.bytes),
                    number(link.utilisation),
                    number(link.queue_utilisation),
                    number(link.mean_queue_packets),
                    Field::Integer(link.max_queue_packets.into()),
                    Field::Integer(link.marked),
                    Field::Integer(link.drops.iter().map(|(_, count)| count).sum()),
                ]);
            }
        }
        table.finish()
    }

    /// The lines of `runs.jsonl`, one for each run.
    fn lines(&self) -> Vec<String> {
        self.runs.iter().map(Run::to_line).collect()
    }

    /// The paths of recorded files inside the folder, by the number of their run.
    fn recorded(&self) -> Vec<(usize, Vec<String>)> {
        let files = |run: &Run| run.recorded_files().map(str::to_owned).collect();
        self.runs.iter().map(|run| (run.number, files(run))).collect()
    }

    /// Failed associations: number of the run, seed, flow, reason.
    fn failures(&self) -> Vec<(usize, u64, String, String)> {
        let failures = self.runs.iter().flat_map(|run| {
            run.flows.iter().filter_map(move |flow| {
                let reason = flow.failure()?.to_owned();
                Some((run.number, run.seed, flow.name.clone(), reason))
            })
        });
        failures.collect()
    }

    /// The time that the runs took, in seconds, without those that were loaded from a folder.
    fn wall_s(&self) -> f64 {
        self.runs.iter().filter_map(|run| run.wall_s).sum()
    }

    /// The tables that `whimbrel run` prints.
    fn text(&self, metrics: Vec<String>, by: Vec<String>, width: usize) -> PyResult<String> {
        let view = View { metrics, by };
        let wrong = |error| PyValueError::new_err(format!("{error}"));
        view.check(&self.scenario.axes).map_err(wrong)?;
        let points = whimbrel_lab::summarise(&self.scenario, &self.runs);
        whimbrel_lab::tables(&points, &view, width).map_err(wrong)
    }

    /// The object that `whimbrel run --json` prints.
    fn summary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let points = whimbrel_lab::summarise(&self.scenario, &self.runs);
        from_json(py, &whimbrel_lab::json(&self.scenario, &points, &self.runs).to_string())
    }
}
