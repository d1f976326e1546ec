//! The simulator as a Python package: the extension module `whimbrel._core`.
//!
//! It contains what must be native: scenarios, runs, tables as Arrow data, folders of results, studies. The package `whimbrel`, in
//! Python, is built on it; users import that one. The interpreter's lock is released while runs are in progress.

mod error;
mod folder;
mod json;
mod parts;
mod runs;
mod samples;
mod scenario;
mod study;
mod table;

use pyo3::prelude::*;

/// The native part of the package `whimbrel`.
#[pymodule(gil_used = true)]
mod _core {
    use pyo3::prelude::*;
    use whimbrel_lab::metrics as all_metrics;
    use whimbrel_scenario::{Scheme, families, schema as scenario_schema, scheme_snippet};

    #[pymodule_export]
    use crate::folder::Folder;
    #[pymodule_export]
    use crate::runs::Runs;
    #[pymodule_export]
    use crate::samples::{Ack, Event, Loss, Mark, PathState, PathsState, Window};
    #[pymodule_export]
    use crate::scenario::Scenario;
    #[pymodule_export]
    use crate::study::run_study;
    #[pymodule_export]
    use crate::study::studies;
    #[pymodule_export]
    use crate::table::Table;

    /// Returns name, heading and definition of every metric, and whether it describes the run as a whole.
    #[pyfunction]
    fn metrics() -> Vec<(&'static str, &'static str, &'static str, bool)> {
        all_metrics()
            .map(|metric| (metric.name, metric.label, metric.doc, metric.of_run))
            .collect()
    }

    /// Returns name, summary and source of every scheme.
    #[pyfunction]
    fn schemes() -> Vec<(&'static str, &'static str, &'static str)> {
        Scheme::all()
            .map(|scheme| (scheme.name(), scheme.summary(), scheme.source()))
            .collect()
    }

    /// Returns a scheme as scenario text, or nothing if there is none of this name.
    #[pyfunction]
    fn scheme_text(name: &str) -> Option<String> {
        Scheme::all().find(|scheme| scheme.name() == name).map(scheme_snippet)
    }

    /// Returns family, name, summary and source of every part.
    #[pyfunction]
    fn parts() -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
        let families = families().into_iter();
        families
            .flat_map(|(family, parts)| {
                parts
                    .into_iter()
                    .map(move |part| (family, part.info.name, part.info.summary, part.info.source))
            })
            .collect()
    }

    /// Returns the JSON schema of scenario files.
    #[pyfunction]
    fn schema() -> String {
        scenario_schema().to_string()
    }

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
