//! Tables as Arrow data. Any library that knows the Arrow PyCapsule interface reads them without a copy: pyarrow, polars, pandas, DuckDB.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field as ArrowField, Schema};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use whimbrel_lab::{Field, Kind};

/// A table in memory.
#[pyclass(frozen, module = "whimbrel._core")]
#[derive(Debug)]
pub(crate) struct Table {
    batch: RecordBatch,
}

#[pymethods]
impl Table {
    /// The number of rows.
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        let (rows, columns) = (self.batch.num_rows(), self.batch.num_columns());
        format!("<whimbrel.Table: {rows} rows, {columns} columns>")
    }

    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(arrow_error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// Exports the table; the consumer shares its memory. The table has one layout: `requested_schema` is ignored, as the interface
    /// allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

fn arrow_error(error: ArrowError) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A column in progress.
enum Column {
    Integer(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
}

/// Collects rows.
pub(crate) struct TableBuilder {
    fields: Vec<ArrowField>,
    columns: Vec<Column>,
}

impl TableBuilder {
    pub(crate) fn new<N: AsRef<str>>(columns: &[(N, Kind)]) -> Self {
        let field = |(name, kind): &(N, Kind)| {
            let kind = match kind {
                Kind::Integer => DataType::Int64,
                Kind::Float => DataType::Float64,
                Kind::Text => DataType::Utf8,
            };
            ArrowField::new(name.as_ref(), kind, true)
        };
        let column = |(_, kind): &(N, Kind)| match kind {
            Kind::Integer => Column::Integer(Int64Builder::new()),
            Kind::Float => Column::Float(Float64Builder::new()),
            Kind::Text => Column::Text(StringBuilder::new()),
        };
        TableBuilder {
            fields: columns.iter().map(field).collect(),
            columns: columns.iter().map(column).collect(),
        }
    }

    /// Adds a row. A value of another type than its column is a missing value.
    pub(crate) fn row(&mut self, cells: &[Field]) {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            match (column, cell) {
                (Column::Integer(values), Field::Integer(value)) => values.append_value(*value as i64),
                (Column::Float(values), Field::Number(value)) => values.append_option(*value),
                (Column::Text(values), Field::Text(value)) => values.append_value(value),
                (Column::Integer(values), _) => values.append_null(),
                (Column::Float(values), _) => values.append_null(),
                (Column::Text(values), _) => values.append_null(),
            }
        }
    }

    pub(crate) fn finish(self) -> PyResult<Table> {
        let arrays = self.columns.into_iter().map(|column| match column {
            Column::Integer(mut values) => Arc::new(values.finish()) as ArrayRef,
            Column::Float(mut values) => Arc::new(values.finish()),
            Column::Text(mut values) => Arc::new(values.finish()),
        });
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema, arrays.collect()).map_err(arrow_error)?;
        Ok(Table { batch })
    }
}
