//! Scenarios, and running them.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use whimbrel_lab::{Manifest, Options, Part, Progress, Results, Run, RunError};
use whimbrel_scenario::Resolved;

use crate::error::{folder_error, run_error, scenario_error};
use crate::json::from_json;
use crate::parts::{Failure, PartRequest, apply};
use crate::runs::Runs;

/// Interval of calls of a progress function.
const TICK: Duration = Duration::from_millis(100);

/// A checked scenario.
#[pyclass(frozen, module = "whimbrel._core")]
#[derive(Debug)]
pub(crate) struct Scenario(Arc<whimbrel_scenario::Scenario>);

impl Scenario {
    pub(crate) fn new(scenario: Arc<whimbrel_scenario::Scenario>) -> Self {
        Scenario(scenario)
    }

    pub(crate) fn inner(&self) -> &Arc<whimbrel_scenario::Scenario> {
        &self.0
    }
}

#[pymethods]
impl Scenario {
    /// Reads and checks a scenario file, with `key=value` changes.
    #[staticmethod]
    fn from_file(py: Python<'_>, path: PathBuf, changes: Vec<String>) -> PyResult<Self> {
        let read = py.detach(|| whimbrel_scenario::Scenario::load(&path, &changes));
        read.map(|scenario| Scenario(Arc::new(scenario)))
            .map_err(|error| scenario_error(py, &error))
    }

    /// Checks a scenario in TOML; `path` is its name.
    #[staticmethod]
    fn from_text(py: Python<'_>, path: PathBuf, text: String, changes: Vec<String>) -> PyResult<Self> {
        let read = py.detach(|| whimbrel_scenario::Scenario::from_text(&path, &text, &changes));
        read.map(|scenario| Scenario(Arc::new(scenario)))
            .map_err(|error| scenario_error(py, &error))
    }

    #[getter]
    fn path(&self) -> PathBuf {
        self.0.source.path.clone()
    }

    #[getter]
    fn text(&self) -> &str {
        &self.0.source.text
    }

    #[getter]
    fn changes(&self) -> Vec<String> {
        self.0.source.changes.clone()
    }

    #[getter]
    fn title(&self) -> &str {
        &self.0.title
    }

    #[getter]
    fn description(&self) -> &str {
        &self.0.description
    }

    #[getter]
    fn seed(&self) -> u64 {
        self.0.seed
    }

    #[getter]
    fn seeds(&self) -> u32 {
        self.0.seeds
    }

    #[getter]
    fn axes(&self) -> Vec<String> {
        self.0.axes.clone()
    }

    /// The number of runs: points times seeds.
    #[getter]
    fn runs(&self) -> usize {
        self.0.runs()
    }

    /// The values of the axes at each point.
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let points = self.0.points.iter();
        let points: serde_json::Value = points
            .map(|point| serde_json::Value::from_iter(point.params.iter().cloned()))
            .collect();
        from_json(py, &points.to_string())
    }

    /// The scenario at its first point with all defaults.
    #[getter]
    fn resolved<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let resolved = Resolved::of(&self.0);
        let value = serde_json::to_string(&resolved).map_err(|error| run_error(py, error))?;
        from_json(py, &value)
    }

    /// The SHA-256 of everything that determines the results.
    #[getter]
    fn hash(&self) -> String {
        whimbrel_scenario::hash(&self.0)
    }

    /// Simulated seconds of all runs.
    #[getter]
    fn simulated_s(&self) -> f64 {
        let durations = self.0.points.iter().map(|point| point.config.duration.as_secs_f64());
        durations.sum::<f64>() * f64::from(self.0.seeds)
    }

    /// The files that the scenario names, with the SHA-256 of their contents.
    #[getter]
    fn inputs(&self, py: Python<'_>) -> PyResult<Vec<(PathBuf, String)>> {
        let inputs = whimbrel_lab::inputs(&self.0).map_err(|error| run_error(py, error))?;
        Ok(inputs.into_iter().map(|input| (input.path, input.sha256)).collect())
    }

    fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// Returns the scenario with all defaults and all changes, as `whimbrel check --explain` prints it.
    fn explain(&self) -> String {
        Resolved::of(&self.0).map_or_else(String::new, |resolved| resolved.to_toml(&self.0))
    }

    /// Runs every point with every seed, or only the runs with these numbers.
    ///
    /// `out` is a folder for results as `whimbrel run --out` writes them; `scratch` one for recorded files only.
    #[pyo3(signature = (jobs, *, out=None, scratch=None, command=vec![], replace=false, resume=false, only=None, watch=false, parts=vec![], progress=None))]
    #[expect(
        clippy::too_many_arguments,
        reason = "keyword arguments of one function of the package"
    )]
    fn run(
        &self,
        py: Python<'_>,
        jobs: usize,
        out: Option<PathBuf>,
        scratch: Option<PathBuf>,
        command: Vec<String>,
        replace: bool,
        resume: bool,
        mut only: Option<Vec<usize>>,
        watch: bool,
        parts: Vec<PartRequest>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Runs> {
        let failure = Failure::default();
        let mut scenario = Arc::clone(&self.0);
        if !parts.is_empty() {
            if out.is_some() {
                let message = "results of parts in Python cannot be repeated by `whimbrel rerun`: leave out out=";
                return Err(PyValueError::new_err(message));
            }
            apply(py, Arc::make_mut(&mut scenario), &parts, &failure)?;
        }
        if let Some(only) = &mut only {
            only.sort_unstable();
        }
        let mut earlier = Vec::new();
        let mut results = None;
        let mut _lock = None;
        if let Some(out) = &out {
            let opened = whimbrel_lab::open_folder(out, &self.0, Part::ALL, replace, resume);
            let (lock, known) = opened.map_err(|error| folder_error(py, error))?;
            _lock = Some(lock);
            if known {
                earlier = whimbrel_lab::load_runs(out).map_err(|error| folder_error(py, error))?;
            }
            let created = Results::create(out, &self.0, command, Part::ALL);
            results = Some(created.map_err(|error| run_error(py, error))?);
        }
        let interrupted = AtomicBool::new(false);
        let options = Options {
            jobs,
            folder: out.as_deref().or(scratch.as_deref()),
            journal: out.is_some(),
            earlier: &earlier,
            watch,
            only: only.as_deref(),
            ..Options::new(&interrupted)
        };
        let mut reporter = Reporter::new(progress, &interrupted, failure.clone());
        let done = py.detach(|| execute(&scenario, &options, &mut reporter, results));
        if let Some(error) = failure.take().or(reporter.raised) {
            return Err(error);
        }
        let runs = done.map_err(|error| run_error(py, error))?;
        Ok(Runs::new(Arc::clone(&self.0), runs))
    }
}

/// Runs a scenario and completes its folder.
pub(crate) fn execute(
    scenario: &whimbrel_scenario::Scenario,
    options: &Options<'_>,
    progress: &mut dyn Progress,
    mut results: Option<Results>,
) -> Result<Vec<Run>, RunError> {
    let mut runs = Vec::new();
    let end = whimbrel_lab::run(scenario, options, progress, &mut |run| {
        if let Some(results) = &mut results {
            results.add(&run)?;
        }
        runs.push(run);
        Ok(())
    });
    let written: Result<Option<Manifest>, _> = results.map(|results| results.finish((&end).into())).transpose();
    match end.error {
        Some(error) => Err(error),
        None => written.map(|_| runs).map_err(RunError::from),
    }
}

/// Calls a Python function with the progress, and lets Python handle signals: Ctrl-C ends the runs.
pub(crate) struct Reporter<'f> {
    function: Option<Py<PyAny>>,
    interrupted: &'f AtomicBool,
    /// Exceptions of parts.
    failure: Failure,
    /// The exception that ended the runs.
    pub(crate) raised: Option<PyErr>,
    last: Instant,
}

impl<'f> Reporter<'f> {
    pub(crate) fn new(function: Option<Py<PyAny>>, interrupted: &'f AtomicBool, failure: Failure) -> Self {
        Reporter {
            function,
            interrupted,
            failure,
            raised: None,
            last: Instant::now(),
        }
    }
}

impl Progress for Reporter<'_> {
    fn update(&mut self, fraction: f64, done: usize, total: usize) {
        if self.failure.is_set() {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        let is_due = self.last.elapsed() >= TICK || done == total;
        if self.raised.is_some() || !is_due {
            return;
        }
        self.last = Instant::now();
        let called = Python::attach(|py| {
            py.check_signals()?;
            match &self.function {
                Some(function) => function.call1(py, (fraction, done, total)).map(|_| ()),
                None => Ok(()),
            }
        });
        if let Err(error) = called {
            self.interrupted.store(true, Ordering::Relaxed);
            self.raised = Some(error);
        }
    }
}
