//! Errors as exceptions of the package: the classes of `whimbrel._errors`.

use std::fmt;

use pyo3::prelude::*;
use whimbrel_lab::StudyError;
use whimbrel_scenario::{Origin, Problem, ScenarioError};

/// Creates an exception of a class of `whimbrel._errors`.
fn exception(py: Python<'_>, class: &str, args: impl for<'py> pyo3::call::PyCallArgs<'py>) -> PyErr {
    let made = py
        .import("whimbrel._errors")
        .and_then(|module| module.getattr(class))
        .and_then(|class| class.call1(args));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Returns the exception for a scenario that cannot be read or has problems.
pub(crate) fn scenario_error(py: Python<'_>, error: &ScenarioError) -> PyErr {
    let found: &[Problem] = match error {
        ScenarioError::Invalid(found) => found,
        ScenarioError::Unreadable { .. } => &[],
    };
    exception(py, "ScenarioError", (error.to_string(), problems(found)))
}

/// Returns the exception for a study that cannot be read or has problems.
pub(crate) fn study_error(py: Python<'_>, error: &StudyError) -> PyErr {
    let found: &[Problem] = match error {
        StudyError::Invalid(found) => found,
        StudyError::Unreadable { .. } => &[],
    };
    exception(py, "ScenarioError", (error.to_string(), problems(found)))
}

/// Returns the exception for runs that failed, or results that cannot be written.
pub(crate) fn run_error(py: Python<'_>, error: impl fmt::Display) -> PyErr {
    exception(py, "RunError", (error.to_string(),))
}

/// Returns the exception for a folder that cannot be used. Options have other names here than on the command line.
pub(crate) fn folder_error(py: Python<'_>, error: impl fmt::Display) -> PyErr {
    let message = error
        .to_string()
        .replace("with --replace", "with replace=True")
        .replace("with --resume", "with resume=True")
        .replace("with --out", "with out=");
    exception(py, "FolderError", (message,))
}

type ProblemFields = (
    Option<String>,
    Option<usize>,
    Option<usize>,
    String,
    String,
    Option<String>,
);

/// Returns the fields of problems: file (or argument), line, column, field, message, hint.
fn problems(problems: &[Problem]) -> Vec<ProblemFields> {
    let fields = problems.iter().map(|problem| {
        let (place, line, column) = match &problem.origin {
            Origin::File { path, line, column } => (path.display().to_string(), Some(*line), Some(*column)),
            Origin::Argument(argument) => (argument.clone(), None, None),
        };
        let (field, message) = (problem.field.clone(), problem.message.clone());
        (Some(place), line, column, field, message, problem.hint.clone())
    });
    fields.collect()
}
