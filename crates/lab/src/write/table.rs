//! Tables in the Parquet format, written row by row with bounded memory.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

/// Rows held in memory before they are written.
const ROWS_PER_GROUP: usize = 65_536;

/// Type of a column. Every column may have missing values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers of 64 bits.
    Integer,
    /// Numbers of 64 bits.
    Float,
    /// Words.
    Text,
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell<'c> {
    Integer(i64),
    Float(f64),
    Text(&'c str),
    Gap,
}

/// Values of a column in memory.
#[derive(Debug)]
struct Column {
    /// One level per row: 1 where there is a value.
    levels: Vec<i16>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Integer(Vec<i64>),
    Float(Vec<f64>),
    /// Texts repeat: each is stored once and referenced.
    Text(Vec<ByteArray>, BTreeMap<String, ByteArray>),
}

/// Writes a table.
pub(crate) struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Column>,
    rows: usize,
}

impl<W: Write + Send> std::fmt::Debug for Table<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("columns", &self.columns.len())
            .field("rows", &self.rows)
            .finish()
    }
}

impl<W: Write + Send> Table<W> {
    /// Starts a table with these columns.
    pub(crate) fn new(out: W, columns: &[(&str, Kind)]) -> io::Result<Self> {
        let fields = columns
            .iter()
            .map(|(name, kind)| {
                let physical = match kind {
                    Kind::Integer => PhysicalType::INT64,
                    Kind::Float => PhysicalType::DOUBLE,
                    Kind::Text => PhysicalType::BYTE_ARRAY,
                };
                Type::primitive_type_builder(name, physical)
                    .with_repetition(Repetition::OPTIONAL)
                    .with_logical_type((*kind == Kind::Text).then_some(LogicalType::String))
                    .build()
                    .map(Arc::new)
            })
            .collect::<Result<Vec<_>, _>>()
            .map_err(io::Error::other)?;
        let schema = Type::group_type_builder("whimbrel")
            .with_fields(fields)
            .build()
            .map_err(io::Error::other)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties)).map_err(io_error)?;
        let columns = columns
            .iter()
            .map(|(_, kind)| Column {
                levels: Vec::new(),
                values: match kind {
                    Kind::Integer => Values::Integer(Vec::new()),
                    Kind::Float => Values::Float(Vec::new()),
                    Kind::Text => Values::Text(Vec::new(), BTreeMap::new()),
                },
            })
            .collect();
        Ok(Table {
            writer,
            columns,
            rows: 0,
        })
    }

    /// Adds a row: one cell per column. A cell of another type than its column is a missing value.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()> {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell per column");
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            let present = match (&mut column.values, *cell) {
                (Values::Integer(values), Cell::Integer(value)) => {
                    values.push(value);
                    true
                }
                (Values::Float(values), Cell::Float(value)) if value.is_finite() => {
                    values.push(value);
                    true
                }
                (Values::Text(values, known), Cell::Text(text)) => {
                    let value = match known.get(text) {
                        Some(value) => value.clone(),
                        None => known
                            .entry(text.to_owned())
                            .or_insert_with(|| ByteArray::from(text))
                            .clone(),
                    };
                    values.push(value);
                    true
                }
                _ => false,
            };
            column.levels.push(i16::from(present));
        }
        self.rows += 1;
        if self.rows >= ROWS_PER_GROUP {
            self.write_group()
        } else {
            Ok(())
        }
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        for column in &mut self.columns {
            let mut writer = group
                .next_column()
                .map_err(io_error)?
                .ok_or_else(|| io::Error::other("the table has fewer columns than its schema"))?;
            let levels = Some(column.levels.as_slice());
            match &mut column.values {
                Values::Integer(values) => {
                    writer
                        .typed::<Int64Type>()
                        .write_batch(values, levels, None)
                        .map_err(io_error)?;
                    values.clear();
                }
                Values::Float(values) => {
                    writer
                        .typed::<DoubleType>()
                        .write_batch(values, levels, None)
                        .map_err(io_error)?;
                    values.clear();
                }
                Values::Text(values, _) => {
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(values, levels, None)
                        .map_err(io_error)?;
                    values.clear();
                }
            }
            column.levels.clear();
            writer.close().map_err(io_error)?;
        }
        group.close().map_err(io_error)?;
        self.rows = 0;
        Ok(())
    }

    /// Writes the remaining rows and the end of the file, and returns the underlying writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.write_group()?;
        self.writer.into_inner().map_err(io_error)
    }
}

/// Returns the error of the underlying file, if there is one.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    #[test]
    fn rows_with_missing_values_are_read_back_over_several_groups() {
        let mut table = Table::new(
            Vec::new(),
            &[("t", Kind::Integer), ("name", Kind::Text), ("value", Kind::Float)],
        )
        .expect("memory");
        let rows = ROWS_PER_GROUP + 10;
        for i in 0..rows {
            let value = if i % 2 == 0 {
                Cell::Float(i as f64 / 2.0)
            } else {
                Cell::Float(f64::NAN)
            };
            table
                .row(&[Cell::Integer(i as i64), Cell::Text(["a", "b"][i % 2]), value])
                .expect("memory");
        }
        let bytes = table.finish().expect("memory");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a parquet file");
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let mut count = 0;
        for (i, row) in reader.get_row_iter(None).expect("rows").enumerate() {
            let row = row.expect("a row");
            assert_eq!(row.get_long(0).expect("an integer"), i as i64);
            assert_eq!(row.get_string(1).expect("text"), ["a", "b"][i % 2]);
            match row.get_double(2) {
                Ok(value) => assert_eq!(value, i as f64 / 2.0),
                Err(_) => assert_eq!(i % 2, 1, "only odd rows have a gap"),
            }
            count += 1;
        }
        assert_eq!(count, rows);
    }

    #[test]
    fn a_full_disk_is_reported_as_such() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::Error::from(io::ErrorKind::StorageFull))
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let result = Table::new(Full, &[("t", Kind::Integer)]).and_then(|mut table| {
            table.row(&[Cell::Integer(1)])?;
            table.finish().map(|_| ())
        });
        assert_eq!(result.map_err(|error| error.kind()), Err(io::ErrorKind::StorageFull));
    }
}
