//! A CSV file as columns.

use std::path::Path;

use serde_json::{Value, json};

use crate::columns::{Blobs, Precision, Words};
use crate::error::ReportError;

/// Columns that are no numbers, whatever they look like.
const NAMES: [&str; 2] = ["fingerprint", "seed"];

/// The cells of a CSV file with a header.
#[derive(Debug)]
pub(crate) struct Table {
    names: Vec<String>,
    columns: Vec<Vec<String>>,
}

impl Table {
    /// Reads a file. A line that is cut off, because the program is killed or still writes it, is left out.
    pub(crate) fn read(path: &Path) -> Result<Self, ReportError> {
        let error = ReportError::at(path);
        let mut reader = csv::ReaderBuilder::new()
            .flexible(true)
            .from_path(path)
            .map_err(|e| error(&e))?;
        let names: Vec<String> = reader
            .headers()
            .map_err(|e| error(&e))?
            .iter()
            .map(str::to_owned)
            .collect();
        let mut columns = vec![Vec::new(); names.len()];
        for record in reader.records() {
            let record = record.map_err(|e| error(&e))?;
            if record.len() == names.len() {
                for (column, cell) in columns.iter_mut().zip(&record) {
                    column.push(cell.to_owned());
                }
            }
        }
        Ok(Table { names, columns })
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    pub(crate) fn rows(&self) -> usize {
        self.columns.first().map_or(0, Vec::len)
    }

    /// The cells of a column; none if there is no such column.
    pub(crate) fn column(&self, name: &str) -> &[String] {
        let place = self.names.iter().position(|known| known == name);
        place.map_or(&[], |place| &self.columns[place])
    }

    /// A cell as a number if all of its column are numbers, otherwise as text.
    pub(crate) fn value(&self, name: &str, row: usize) -> Value {
        let column = self.column(name);
        let text = column.get(row).map_or("", String::as_str);
        match numbers(name, column) {
            Some(numbers) if numbers[row].is_finite() => json!(numbers[row]),
            _ => json!(text),
        }
    }

    /// Its columns with a name each; those that are empty everywhere are left out.
    pub(crate) fn json(&self, blobs: &mut Blobs) -> Vec<Value> {
        let filled = self
            .names
            .iter()
            .zip(&self.columns)
            .filter(|(_, column)| column.iter().any(|cell| !cell.is_empty()));
        filled
            .map(|(name, column)| match numbers(name, column) {
                Some(numbers) => json!({ "name": name, "numbers": blobs.numbers(&numbers, Precision::Exact) }),
                None => {
                    let mut words = Words::default();
                    let codes: Vec<f64> = column.iter().map(|cell| words.number(cell) as f64).collect();
                    json!({ "name": name, "words": words.list(), "codes": blobs.numbers(&codes, Precision::Exact) })
                }
            })
            .collect()
    }
}

/// The numbers in cells, NaN in empty ones; none if a cell is no number.
fn numbers(name: &str, cells: &[String]) -> Option<Vec<f64>> {
    if NAMES.contains(&name) {
        return None;
    }
    let number = |cell: &String| {
        if cell.is_empty() {
            return Some(f64::NAN);
        }
        let plain = cell
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        cell.parse::<f64>().ok().filter(|number| plain && number.is_finite())
    };
    cells.iter().map(number).collect()
}
