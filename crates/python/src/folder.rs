//! A folder of results that is filled from outside of this process, by the workers of a cluster.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use whimbrel_lab::{FolderLock, Journal, Manifest, Part, Results, Run, Status, StoredRuns, WriteError};

use crate::error::{folder_error, run_error, scenario_error};
use crate::runs::Runs;
use crate::scenario::Scenario;

/// A folder of results in progress, as `whimbrel run --out` writes it: `runs.jsonl` has a line for each finished run, so that a killed
/// sweep can be continued by either program. No other process writes to it until `close`.
#[pyclass(module = "whimbrel._core")]
#[derive(Debug)]
pub(crate) struct Folder {
    folder: PathBuf,
    scenario: Arc<whimbrel_scenario::Scenario>,
    command: Vec<String>,
    /// The journal and the lock of the folder; none after `close`.
    open: Option<(Journal, FolderLock)>,
}

#[pymethods]
impl Folder {
    /// Prepares or continues a folder.
    #[new]
    fn new(
        py: Python<'_>,
        folder: PathBuf,
        scenario: &Scenario,
        command: Vec<String>,
        replace: bool,
        resume: bool,
    ) -> PyResult<Self> {
        let scenario = Arc::clone(scenario.inner());
        let (lock, known) = whimbrel_lab::open_folder(&folder, &scenario, Part::ALL, replace, resume)
            .map_err(|error| folder_error(py, error))?;
        if !known {
            // The manifest of a run in progress: without it the folder cannot be continued.
            Results::create(&folder, &scenario, command.clone(), Part::ALL).map_err(|error| run_error(py, error))?;
        }
        let journal = Journal::open(&folder).map_err(|error| run_error(py, error))?;
        Ok(Folder {
            folder,
            scenario,
            command,
            open: Some((journal, lock)),
        })
    }

    /// Loads a folder of results: its scenario and its finished runs.
    #[staticmethod]
    fn load(py: Python<'_>, folder: PathBuf) -> PyResult<(Scenario, Runs)> {
        let wrong = |error| folder_error(py, error);
        let manifest = Manifest::load(&folder.join("manifest.json")).map_err(wrong)?;
        let source = &manifest.scenario;
        let read = whimbrel_scenario::Scenario::from_text(&source.path, &source.text, &source.changes);
        let scenario = Arc::new(read.map_err(|error| scenario_error(py, &error))?);
        let runs = py.detach(|| whimbrel_lab::load_runs(&folder)).map_err(wrong)?;
        Ok((Scenario::new(Arc::clone(&scenario)), Runs::new(scenario, runs)))
    }

    /// The numbers of the finished runs.
    fn finished(&self, py: Python<'_>) -> PyResult<Vec<usize>> {
        let stored = StoredRuns::open(&self.folder).map_err(|error| run_error(py, error))?;
        Ok(stored.numbers().collect())
    }

    /// Adds a finished run: its line of `runs.jsonl` and its recorded files. The line is in the file when this function returns.
    fn add(&mut self, py: Python<'_>, line: &str, files: Vec<(String, Bound<'_, PyBytes>)>) -> PyResult<()> {
        let run = Run::from_line(line).ok_or_else(|| run_error(py, "a worker returned an incomplete run"))?;
        let expected: Vec<_> = run.recorded_files().collect();
        for (path, content) in &files {
            if !expected.contains(&path.as_str()) {
                return Err(run_error(py, format!("a worker returned an unexpected file: {path}")));
            }
            let path = self.folder.join(path);
            let written = path
                .parent()
                .map_or(Ok(()), std::fs::create_dir_all)
                .and_then(|()| std::fs::write(&path, content.as_bytes()));
            written.map_err(|error| run_error(py, WriteError { path, error }))?;
        }
        match &mut self.open {
            Some((journal, _)) => journal.add(&run).map_err(|error| run_error(py, error)),
            None => Err(closed(py)),
        }
    }

    /// Reads finished runs, by their numbers.
    fn read(&self, py: Python<'_>, numbers: Vec<usize>) -> PyResult<Runs> {
        let wrong = |error| run_error(py, error);
        let mut stored = StoredRuns::open(&self.folder).map_err(wrong)?;
        let mut runs = Vec::with_capacity(numbers.len());
        for number in numbers {
            runs.extend(stored.read(number).map_err(wrong)?);
        }
        Ok(Runs::new(Arc::clone(&self.scenario), runs))
    }

    /// Writes the results of all finished runs in their order: the files that `whimbrel run --out` writes. `status` is "complete",
    /// "stopped" (by a stopping rule), "failed" or "interrupted". Without all runs the results are not "complete" but "interrupted".
    /// Returns the number of runs.
    fn finish(&self, py: Python<'_>, status: &str) -> PyResult<usize> {
        if self.open.is_none() {
            return Err(closed(py));
        }
        let status = match status {
            "complete" => Status::Complete,
            "stopped" => Status::Stopped,
            "failed" => Status::Failed,
            _ => Status::Interrupted,
        };
        py.detach(|| self.write(status)).map_err(|error| run_error(py, error))
    }

    /// Lets other processes write to the folder.
    fn close(&mut self) {
        self.open = None;
    }
}

fn closed(py: Python<'_>) -> PyErr {
    run_error(py, "the folder is closed")
}

impl Folder {
    fn write(&self, status: Status) -> Result<usize, String> {
        let text = |error: WriteError| error.to_string();
        let mut stored = StoredRuns::open(&self.folder)?;
        let numbers: Vec<_> = stored.numbers().collect();
        let status = match status {
            Status::Complete if numbers.len() < self.scenario.runs() => Status::Interrupted,
            status => status,
        };
        let mut results =
            Results::create(&self.folder, &self.scenario, self.command.clone(), Part::ALL).map_err(text)?;
        for number in &numbers {
            if let Some(run) = stored.read(*number)? {
                results.add(&run).map_err(text)?;
            }
        }
        results.finish(status).map_err(text)?;
        Ok(numbers.len())
    }
}
