//! The rows of `results.csv` and `results.parquet`: one for each flow of each run.

use whimbrel_scenario::Scenario;

use crate::metric::metrics;
use crate::run::Run;
use crate::text::{outcome_word, text};
use crate::write::table::{Cell, Kind};

/// The columns of a scenario's results, and the rows of its runs.
#[derive(Clone, Debug)]
pub struct Rows {
    columns: Vec<(String, Kind)>,
    /// The value of each axis, by point.
    params: Vec<Vec<Field>>,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// A whole number.
    Integer(u64),
    /// A number; `None`: there is no value.
    Number(Option<f64>),
    /// A word.
    Text(String),
}

impl Rows {
    /// Returns the rows of this scenario.
    pub fn of(scenario: &Scenario) -> Self {
        let numeric: Vec<_> = (0..scenario.axes.len())
            .map(|axis| scenario.points.iter().all(|point| point.params[axis].1.is_number()))
            .collect();
        let params = scenario.points.iter().map(|point| {
            let values = point.params.iter().zip(&numeric);
            let field = |(value, number): (&serde_json::Value, bool)| match value.as_f64().filter(|_| number) {
                Some(number) => Field::Number(Some(number)),
                None => Field::Text(text(value)),
            };
            values.map(|((_, value), &number)| field((value, number))).collect()
        });
        Rows {
            params: params.collect(),
            columns: columns(scenario, &numeric),
        }
    }

    /// Returns the columns: labels of the run, then the metrics of [`metrics`](crate::metrics()).
    pub fn columns(&self) -> &[(String, Kind)] {
        &self.columns
    }

    /// Returns the rows of a run, one for each flow.
    pub fn of_run<'r>(&'r self, run: &'r Run) -> impl Iterator<Item = Vec<Field>> + 'r {
        run.flows.iter().map(|flow| {
            let mut cells = vec![Field::Integer(run.number as u64), Field::Integer(run.seed)];
            cells.extend(self.params[run.point].iter().cloned());
            cells.push(Field::Text(flow.name.clone()));
            cells.push(Field::Text(outcome_word(&flow.outcome).to_owned()));
            cells.push(
                flow.file
                    .map_or(Field::Number(None), |file| Field::Text(file.intact.to_string())),
            );
            for (place, metric) in metrics().enumerate() {
                let values = if metric.of_run { &run.values } else { &flow.values };
                cells.push(Field::Number(values.get(place)));
            }
            cells.extend([Field::Integer(run.packet_hops), Field::Integer(run.events)]);
            cells.push(Field::Text(format!("{:016x}", run.fingerprint)));
            cells
        })
    }
}

fn columns(scenario: &Scenario, numeric: &[bool]) -> Vec<(String, Kind)> {
    let mut columns = vec![("run".to_owned(), Kind::Integer), ("seed".to_owned(), Kind::Integer)];
    columns.extend(
        scenario
            .axes
            .iter()
            .zip(numeric)
            .map(|(axis, &number)| (axis.clone(), if number { Kind::Float } else { Kind::Text })),
    );
    columns.push(("flow".to_owned(), Kind::Text));
    columns.push(("outcome".to_owned(), Kind::Text));
    columns.push(("file_intact".to_owned(), Kind::Text));
    columns.extend(metrics().map(|metric| (metric.name.to_owned(), Kind::Float)));
    columns.push(("packet_hops".to_owned(), Kind::Integer));
    columns.push(("events".to_owned(), Kind::Integer));
    columns.push(("fingerprint".to_owned(), Kind::Text));
    columns
}

impl Field {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Field::Integer(n) => n.to_string(),
            Field::Number(Some(x)) => x.to_string(),
            Field::Number(None) => String::new(),
            Field::Text(text) => text.clone(),
        }
    }

    pub(crate) fn to_cell(&self) -> Cell<'_> {
        match self {
            Field::Integer(n) => Cell::Integer(*n as i64),
            Field::Number(Some(x)) => Cell::Float(*x),
            Field::Number(None) => Cell::Gap,
            Field::Text(text) => Cell::Text(text),
        }
    }
}
