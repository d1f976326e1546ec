//! Studies that check published claims.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use pyo3::prelude::*;
use whimbrel_lab::{Options, Part, Results, Study};

use crate::error::{folder_error, run_error, study_error};
use crate::json::from_json;
use crate::parts::Failure;
use crate::scenario::{Reporter, execute};

/// Returns folder, title and source of every study in a folder of studies.
#[pyfunction]
pub(crate) fn studies(py: Python<'_>, folder: PathBuf) -> PyResult<Vec<(PathBuf, String, String)>> {
    let wrong = |error| study_error(py, &error);
    let mut found = Vec::new();
    for folder in Study::folders(&folder).map_err(wrong)? {
        let study = Study::load(&folder).map_err(wrong)?;
        found.push((folder, study.title().to_owned(), study.source().to_owned()));
    }
    Ok(found)
}

/// Runs the study in a folder. Returns its claims with verdicts, as `whimbrel study run --json` does, and the points of its figures.
#[pyfunction]
#[pyo3(signature = (folder, *, quick, jobs, out=None, replace=false, progress=None))]
pub(crate) fn run_study<'py>(
    py: Python<'py>,
    folder: PathBuf,
    quick: bool,
    jobs: usize,
    out: Option<PathBuf>,
    replace: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, String)> {
    let study = Study::load(&folder).map_err(|error| study_error(py, &error))?;
    let planned = study.plan(quick).map_err(|error| study_error(py, &error))?;
    let mut command = vec!["whimbrel", "study", "run", study.id()];
    command.extend(quick.then_some("--quick"));
    let folders: Vec<_> = planned
        .iter()
        .map(|planned| out.as_ref().map(|out| out.join(study.id()).join(&planned.name)))
        .collect();
    let mut locks = Vec::new();
    for folder in folders.iter().flatten() {
        locks.push(whimbrel_lab::prepare(folder, replace).map_err(|error| folder_error(py, error))?);
    }
    let mut runs = Vec::with_capacity(planned.len());
    for (planned, folder) in planned.iter().zip(&folders) {
        let scenario = &planned.scenario;
        let owned = || command.iter().map(|&word| word.to_owned()).collect();
        let results = folder
            .as_ref()
            .map(|folder| Results::create(folder, scenario, owned(), Part::ALL));
        let results = results.transpose().map_err(|error| run_error(py, error))?;
        let interrupted = AtomicBool::new(false);
        let options = Options {
            jobs,
            watch: planned.watch,
            timeline: planned.timeline,
            ..Options::new(&interrupted)
        };
        let function = progress.as_ref().map(|progress| progress.clone_ref(py));
        let mut reporter = Reporter::new(function, &interrupted, Failure::default());
        let done = py.detach(|| execute(scenario, &options, &mut reporter, results));
        if let Some(error) = reporter.raised {
            return Err(error);
        }
        runs.push(done.map_err(|error| run_error(py, error))?);
    }
    let judged = study.judge(&planned, &runs, quick);
    let report = judged.map_err(|error| study_error(py, &error))?;
    let kept = report.kept(&command.join(" "));
    Ok((from_json(py, &kept.to_string())?, report.table(100)))
}
