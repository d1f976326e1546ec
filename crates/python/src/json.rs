//! JSON texts as Python values.

use pyo3::prelude::*;

/// Returns a JSON text as a Python value.
pub(crate) fn from_json<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
