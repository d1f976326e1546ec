//! `series.parquet`: each value that was sampled over time as a line of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use serde_json::{Value, json};

use crate::columns::{Blobs, Precision};
use crate::error::ReportError;

/// Columns that say what a value is about, in the order of [`About`].
const ABOUT: [&str; 7] = ["node", "flow", "side", "path", "path_name", "link", "name"];

/// What a line is about: the cells of the columns [`ABOUT`], empty where there is none.
pub(crate) type About = [String; ABOUT.len()];

/// A value over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Line {
    /// Nanoseconds since the run began.
    pub(crate) times: Vec<i64>,
    pub(crate) values: Vec<f64>,
}

/// The series of a run.
#[derive(Debug, Default)]
pub(crate) struct Series {
    pub(crate) lines: Vec<(About, Line)>,
}

impl Series {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, ReportError> {
        let error = ReportError::at(path);
        let file = File::open(path).map_err(|e| error(&e))?;
        let reader = SerializedFileReader::new(file).map_err(|e| error(&e))?;
        let schema = reader.metadata().file_metadata().schema_descr_ptr();
        let place = |name: &str| (0..schema.num_columns()).find(|column| schema.column(*column).name() == name);
        let places: Option<Vec<usize>> = ABOUT.iter().copied().chain(["t_ns", "value"]).map(place).collect();
        let places = places.ok_or_else(|| error(&"it lacks a column of a series"))?;
        let mut lines = Lines::default();
        for group in 0..reader.num_row_groups() {
            let group = reader.get_row_group(group).map_err(|e| error(&e))?;
            lines.take(group.as_ref(), &places).map_err(|e| error(&e))?;
        }
        Ok(lines.finish())
    }

    /// Values in all lines.
    pub(crate) fn len(&self) -> usize {
        self.lines.iter().map(|(_, line)| line.values.len()).sum()
    }

    /// What the page contains about them.
    pub(crate) fn json(&self, blobs: &mut Blobs) -> Vec<Value> {
        // Many lines are sampled at the same times.
        let mut times: BTreeMap<&[i64], Value> = BTreeMap::new();
        let mut lines = Vec::with_capacity(self.lines.len());
        for (about, line) in &self.lines {
            let t = times
                .entry(&line.times)
                .or_insert_with(|| blobs.steps(&line.times, 1e-9))
                .clone();
            let mut object = json!({ "t": t, "v": blobs.numbers(&line.values, Precision::Drawn) });
            for (name, cell) in ABOUT.iter().zip(about).filter(|(_, cell)| !cell.is_empty()) {
                object[*name] = json!(cell);
            }
            lines.push(object);
        }
        lines
    }
}

/// Lines while they are read.
#[derive(Default)]
struct Lines {
    places: BTreeMap<About, usize>,
    lines: Vec<(About, Line)>,
    /// The texts of cells by their numbers.
    words: BTreeMap<Vec<u8>, u32>,
    texts: Vec<String>,
    /// Lines by the numbers of their cells: most rows find theirs here.
    known: BTreeMap<[u32; ABOUT.len()], usize>,
}

impl Lines {
    fn take(&mut self, group: &dyn RowGroupReader, places: &[usize]) -> parquet::errors::Result<()> {
        let rows = group.metadata().num_rows() as usize;
        let mut about: Vec<Vec<u32>> = Vec::with_capacity(ABOUT.len());
        for &place in &places[..ABOUT.len()] {
            let reader = group.get_column_reader(place)?;
            about.push(match reader {
                ColumnReader::Int64ColumnReader(_) => {
                    let cells = column::<Int64Type>(reader, rows)?;
                    cells
                        .into_iter()
                        .map(|cell| cell.map_or(0, |n| self.word(n.to_string().as_bytes())))
                        .collect()
                }
                _ => {
                    let cells = column::<ByteArrayType>(reader, rows)?;
                    let empty = ByteArray::from("");
                    cells
                        .into_iter()
                        .map(|cell| self.word(cell.as_ref().unwrap_or(&empty).data()))
                        .collect()
                }
            });
        }
        let times = column::<Int64Type>(group.get_column_reader(places[ABOUT.len()])?, rows)?;
        let values = column::<DoubleType>(group.get_column_reader(places[ABOUT.len() + 1])?, rows)?;
        for (row, (time, value)) in times.into_iter().zip(values).enumerate() {
            let (Some(time), Some(value)) = (time, value) else {
                continue;
            };
            let key: [u32; ABOUT.len()] = std::array::from_fn(|column| about[column][row]);
            let place = match self.known.get(&key) {
                Some(place) => *place,
                None => self.place(key),
            };
            let line = &mut self.lines[place].1;
            line.times.push(time);
            line.values.push(value);
        }
        Ok(())
    }

    fn place(&mut self, key: [u32; ABOUT.len()]) -> usize {
        let about: About = key.map(|word| self.texts.get(word as usize).cloned().unwrap_or_default());
        let lines = &mut self.lines;
        let place = *self.places.entry(about.clone()).or_insert_with(|| {
            lines.push((about, Line::default()));
            lines.len() - 1
        });
        self.known.insert(key, place);
        place
    }

    /// The number of a word; 0 is the empty one.
    fn word(&mut self, word: &[u8]) -> u32 {
        if self.texts.is_empty() {
            self.texts.push(String::new());
            self.words.insert(Vec::new(), 0);
        }
        if let Some(number) = self.words.get(word) {
            return *number;
        }
        let number = self.texts.len() as u32;
        self.texts.push(String::from_utf8_lossy(word).into_owned());
        self.words.insert(word.to_vec(), number);
        number
    }

    fn finish(self) -> Series {
        Series { lines: self.lines }
    }
}

/// The cells of a column that may have gaps.
fn column<T: DataType>(reader: ColumnReader, rows: usize) -> parquet::errors::Result<Vec<Option<T::T>>> {
    let wrong = || parquet::errors::ParquetError::General("a column has another type than in a series".to_owned());
    let mut reader = T::get_column_reader(reader).ok_or_else(wrong)?;
    let (mut levels, mut values) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    while levels.len() < rows {
        let (read, _, _) = reader.read_records(rows - levels.len(), Some(&mut levels), None, &mut values)?;
        if read == 0 {
            break;
        }
    }
    let mut values = values.into_iter();
    Ok(levels
        .iter()
        .map(|level| if *level > 0 { values.next() } else { None })
        .collect())
}
