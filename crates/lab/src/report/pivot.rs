//! The tables of a sweep: points in rows and columns by the values of axes, one table for each metric.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Table, presets};
use whimbrel_scenario::visible;

use super::table::{MOST_FLOW_COLUMNS, figure, short, table_of};
use super::{PointReport, Summaries};
use crate::metric::{Metric, default_metrics, find_metric, metrics};
use crate::text::text as text_of;

/// The content of tables.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// Names of metrics; none: the most important ones.
    pub metrics: Vec<String>,
    /// Axes whose values become columns, by their names or the part after a dot; `flow` and `metric` are axes as well. None: the
    /// last axis, or with a single axis the metrics.
    pub by: Vec<String>,
}

/// Number of default metrics of a sweep with several axes, which has a table for each.
const USUAL_TABLES: usize = 3;

/// Maximum number of points that are named below the table.
const MOST_NAMED: usize = 4;

/// Maximum number of flows with rows of their own, unless `flow` is requested as an axis.
const MOST_FLOWS: usize = 4;

/// Terms in tables that need a definition, by metric.
const TERMS: [(&str, &str); 9] = [
    ("a_c", "A_c"),
    ("a_w", "A_w"),
    ("a_c_gap", "A_c, gaps"),
    ("a_w_gap", "A_w, gaps"),
    ("tr_ratio", "T-R ratio"),
    ("jain_index", "Jain index"),
    ("spurious_retransmissions", "spurious retransmissions"),
    ("fast_retransmits", "fast retransmits"),
    ("packet_delivery_ratio", "packet delivery ratio"),
];

const FLOW: &str = "flow";
const METRIC: &str = "metric";

/// A problem of a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewError {
    /// No metric has this name.
    #[error("there is no metric `{name}`{}", remedy(.hint))]
    Metric {
        /// The name.
        name: String,
        /// The nearest known one.
        hint: Option<String>,
    },
    /// No axis has this name.
    #[error("there is no axis `{name}` to make columns by{}", remedy(.hint))]
    Axis {
        /// The name.
        name: String,
        /// The known ones.
        hint: Option<String>,
    },
}

fn remedy(hint: &Option<String>) -> String {
    hint.as_ref().map_or_else(String::new, |hint| format!("; {hint}"))
}

impl View {
    /// Checks the names of metrics and axes before anything runs.
    ///
    /// # Errors
    /// A metric or an axis that there is not.
    pub fn check(&self, axes: &[String]) -> Result<(), ViewError> {
        self.places()?;
        let known: Vec<_> = axes.iter().map(String::as_str).chain([FLOW, METRIC]).collect();
        for name in &self.by {
            if find_axis(&known, name).is_none() {
                return Err(ViewError::Axis {
                    name: name.clone(),
                    hint: whimbrel_scenario::word_hint(name, &known, "axes"),
                });
            }
        }
        Ok(())
    }

    /// Returns the requested metrics with their indices.
    fn places(&self) -> Result<Vec<(usize, Metric)>, ViewError> {
        let place = |name: &String| {
            find_metric(name).ok_or_else(|| ViewError::Metric {
                name: name.clone(),
                hint: whimbrel_scenario::word_hint(
                    name,
                    &metrics().map(|metric| metric.name).collect::<Vec<_>>(),
                    "metrics",
                ),
            })
        };
        self.metrics.iter().map(place).collect()
    }

    /// Returns the indices of the axes whose values become columns.
    fn columns(&self, keys: &[&str]) -> Vec<usize> {
        let mut columns: Vec<usize> = Vec::new();
        for column in self.by.iter().filter_map(|name| find_axis(keys, name)) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        if columns.is_empty() {
            // Flow and metric are the last two keys.
            let axes = keys.len() - 2;
            columns.push(if axes > 1 { axes - 1 } else { keys.len() - 1 });
        }
        columns
    }
}

/// A value of an axis: its place among the values, and its text. Values may have the same text, as a flow with the name `all` and all flows.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    place: usize,
    text: String,
}

/// A figure with the values of all its axes, including `flow` and `metric`.
struct Entry {
    keys: Vec<Key>,
    figure: String,
}

impl Entry {
    /// Returns its values of these axes.
    fn values(&self, places: &[usize]) -> Vec<Key> {
        places.iter().map(|place| self.keys[*place].clone()).collect()
    }
}

/// Formats the tables of all points, with a line for each term that needs a definition. Without a sweep there is a row for each
/// metric and a column for each flow. A sweep has a row for each point, or with several axes a table for each metric.
///
/// # Errors
/// A metric or an axis that there is not.
pub fn tables(points: &[PointReport], view: &View, width: usize) -> Result<String, ViewError> {
    let Some(first) = points.first() else {
        return Ok(String::new());
    };
    let axes: Vec<&str> = first.params.iter().map(|(axis, _)| axis.as_str()).collect();
    view.check(&axes.iter().map(|axis| (*axis).to_owned()).collect::<Vec<_>>())?;
    let chosen = view.places()?;
    if points.len() == 1 && view.by.is_empty() {
        return Ok(table_of_point(first, &chosen, width));
    }
    let metrics = if chosen.is_empty() {
        usual(points, axes.len())
    } else {
        chosen
    };
    let mut keys: Vec<&str> = axes;
    keys.extend([FLOW, METRIC]);
    let columns = view.columns(&keys);
    let metric_key = keys.len() - 1;
    let most = if columns.contains(&(metric_key - 1)) {
        usize::MAX
    } else {
        MOST_FLOWS
    };
    let entries = entries(points, &metrics, most);
    let labels: Vec<Option<&str>> = if columns.contains(&metric_key) {
        vec![None]
    } else {
        metrics.iter().map(|(_, metric)| Some(metric.label)).collect()
    };
    let tables = labels.into_iter().map(|label| {
        let is_shown = |entry: &&Entry| label.is_none_or(|label| entry.keys[metric_key].text == label);
        let shown: Vec<&Entry> = entries.iter().filter(is_shown).collect();
        let table = Cross::new(&shown, &keys, &columns, label.map(|_| metric_key));
        heading(label, &keys, &columns) + &table.text(width)
    });
    let mut text = tables.collect::<Vec<_>>().join("\n");
    text.push_str(&deterministic(points));
    text.push_str(&terms(&metrics.iter().map(|(place, _)| *place).collect::<Vec<_>>()));
    Ok(text)
}

/// Returns the table of a scenario without a sweep: metrics as rows, flows as columns.
fn table_of_point(point: &PointReport, chosen: &[(usize, Metric)], width: usize) -> String {
    let only: Option<Vec<usize>> = (!chosen.is_empty()).then(|| chosen.iter().map(|(place, _)| *place).collect());
    let (mut text, shown) = table_of(std::slice::from_ref(point), only.as_deref(), width);
    let flows = point.flows.len();
    if flows > MOST_FLOW_COLUMNS {
        let _ = writeln!(
            text,
            "\n{flows} flows: the least, the median and the greatest value of a flow; `--by flow` shows every flow"
        );
    }
    text.push_str(&terms(&shown));
    text
}

/// Returns the line above a table: its metric, if it has a single one, and the axes of its columns.
fn heading(metric: Option<&str>, keys: &[&str], columns: &[usize]) -> String {
    let names = columns.iter().filter(|column| keys[**column] != METRIC);
    let names: Vec<_> = names.map(|column| visible(short(keys[*column]))).collect();
    let names = (!names.is_empty()).then(|| format!("columns: {}", names.join(", ")));
    match (metric, names) {
        (Some(metric), Some(names)) => format!("{metric}; {names}\n"),
        (Some(metric), None) => format!("{metric}\n"),
        (None, Some(names)) => format!("{names}\n"),
        (None, None) => String::new(),
    }
}

/// Returns a line with the points at which every seed gives the same, if there are any.
fn deterministic(points: &[PointReport]) -> String {
    let fixed: Vec<String> = points
        .iter()
        .filter(|point| point.deterministic)
        .map(|point| {
            let values = point
                .params
                .iter()
                .map(|(axis, value)| visible(&format!("{} {}", short(axis), text_of(value))));
            values.collect::<Vec<_>>().join(", ")
        })
        .collect();
    if fixed.len() == points.len() {
        return "\ndeterministic: every seed gives the same at every point\n".to_owned();
    }
    if fixed.is_empty() {
        return String::new();
    }
    let more = if fixed.len() > MOST_NAMED {
        format!(" and {} more points", fixed.len() - MOST_NAMED)
    } else {
        String::new()
    };
    let named = fixed[..fixed.len().min(MOST_NAMED)].join("; ");
    format!("\ndeterministic: every seed gives the same at {named}{more}\n")
}

/// Returns the default metrics that have values.
fn usual(points: &[PointReport], axes: usize) -> Vec<(usize, Metric)> {
    let flows = points.iter().map(|point| point.flows.len()).max().unwrap_or(0);
    let most = if axes > 1 { USUAL_TABLES } else { usize::MAX };
    let has_value = |(place, _): &(usize, Metric)| points.iter().any(|point| point.metrics[*place].mean.is_some());
    default_metrics(flows).take(most).filter(has_value).collect()
}

/// Returns the figures of all flows together, and of each one where there are 2 to `most` flows.
fn entries(points: &[PointReport], metrics: &[(usize, Metric)], most: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut known: Vec<Vec<&serde_json::Value>> = Vec::new();
    for point in points {
        known.resize_with(point.params.len().max(known.len()), Vec::new);
        let params = point.params.iter().zip(&mut known).map(|((_, value), known)| {
            let place = known.iter().position(|other| *other == value).unwrap_or_else(|| {
                known.push(value);
                known.len() - 1
            });
            let text = visible(&text_of(value));
            Key { place, text }
        });
        let params: Vec<Key> = params.collect();
        let mut push = |flow: Key, summaries: &Summaries, of_run: bool| {
            for (place, metric) in metrics.iter().filter(|(_, metric)| of_run || !metric.of_run) {
                let mut keys = params.clone();
                let text = metric.label.to_owned();
                keys.extend([flow.clone(), Key { place: *place, text }]);
                entries.push(Entry {
                    keys,
                    figure: figure(&summaries[*place], point.deterministic),
                });
            }
        };
        let is_taken = point.flows.iter().any(|(name, _)| name == "all");
        let text = if is_taken { "all flows" } else { "all" }.to_owned();
        push(Key { place: 0, text }, &point.metrics, true);
        if (2..=most).contains(&point.flows.len()) {
            for (place, (name, summaries)) in (1..).zip(&point.flows) {
                let text = visible(name);
                push(Key { place, text }, summaries, false);
            }
        }
    }
    entries
}

/// A table with some axes as columns and the others as rows.
struct Cross<'e> {
    entries: &'e [&'e Entry],
    /// Names of all axes.
    keys: &'e [&'e str],
    /// The axes of columns and rows.
    columns: &'e [usize],
    rows: Vec<usize>,
    /// The values of the axes of each column and each row.
    heads: Vec<Vec<Key>>,
    lines: Vec<Vec<Key>>,
}

impl<'e> Cross<'e> {
    /// Creates a table without the axis `hidden`.
    fn new(entries: &'e [&'e Entry], keys: &'e [&'e str], columns: &'e [usize], hidden: Option<usize>) -> Self {
        let varies = |key: &usize| entries.iter().any(|entry| entry.keys[*key] != entries[0].keys[*key]);
        let rows: Vec<usize> = (0..keys.len())
            .filter(|key| Some(*key) != hidden && !columns.contains(key))
            .filter(|key| keys[*key] != FLOW || varies(key))
            .collect();
        let unique = |places: &[usize]| {
            let mut found: Vec<Vec<Key>> = Vec::new();
            for entry in entries {
                let values = entry.values(places);
                if !found.contains(&values) {
                    found.push(values);
                }
            }
            found
        };
        Cross {
            heads: unique(columns),
            lines: unique(&rows),
            entries,
            keys,
            columns,
            rows,
        }
    }

    /// Returns the figure in this row and column.
    fn figure(&self, line: &[Key], head: &[Key]) -> &str {
        let found = self
            .entries
            .iter()
            .find(|entry| entry.values(&self.rows) == line && entry.values(self.columns) == head);
        found.map_or("", |entry| entry.figure.as_str())
    }

    /// Returns the width of a column with its space.
    fn column_width(&self, head: &[Key]) -> usize {
        let figures = self.lines.iter().map(|line| self.figure(line, head).chars().count());
        let heading = column_heading(head);
        let widths = figures.chain(heading.lines().map(|line| line.chars().count()));
        widths.max().unwrap_or(0) + 2
    }

    /// Returns the width of the columns with the values of the rows' axes.
    fn left_width(&self) -> usize {
        let width = |(i, place): (usize, &usize)| {
            let values = self.lines.iter().map(|line| line[i].text.chars().count());
            let name = short(self.keys[*place]).chars().count();
            values.chain([name]).max().unwrap_or(0) + 2
        };
        self.rows.iter().enumerate().map(width).sum()
    }

    /// Returns its text, wrapped into blocks of columns that fit.
    fn text(&self, width: usize) -> String {
        let widths: Vec<usize> = self.heads.iter().map(|head| self.column_width(head)).collect();
        let left = self.left_width();
        let mut text = String::new();
        let mut next = 0;
        while next < self.heads.len() {
            let mut used = left;
            let fitting = widths[next..]
                .iter()
                .take_while(|column| {
                    used += **column;
                    used <= width
                })
                .count()
                .max(1);
            if !text.is_empty() {
                text.push('\n');
            }
            for line in self.block(&self.heads[next..next + fitting]).lines() {
                text.push_str(line.trim_end());
                text.push('\n');
            }
            next += fitting;
        }
        text
    }

    /// Returns a table with these columns.
    fn block(&self, heads: &[Vec<Key>]) -> Table {
        let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let names = self
            .rows
            .iter()
            .map(|place| Cell::new(visible(short(self.keys[*place]))));
        let header = names.chain(heads.iter().map(|head| right(&column_heading(head))));
        table.set_header(header.collect::<Vec<_>>());
        let mut before: Option<&Vec<Key>> = None;
        for line in &self.lines {
            // A value equal to the one above is omitted.
            let same = before.map_or(0, |before| line.iter().zip(before).take_while(|(a, b)| a == b).count());
            let values = line.iter().enumerate().map(|(i, value)| {
                let is_omitted = i < same && i + 1 < line.len();
                Cell::new(if is_omitted { "" } else { &value.text })
            });
            let row = values.chain(heads.iter().map(|head| right(self.figure(line, head))));
            table.add_row(row.collect::<Vec<_>>());
            before = Some(line);
        }
        table
    }
}

/// Returns the heading of a column: a line for the value of each axis.
fn column_heading(head: &[Key]) -> String {
    head.iter().map(|key| key.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns a line with the definition of each shown term.
fn terms(shown: &[usize]) -> String {
    let mut text = String::new();
    for (name, term) in TERMS {
        if let Some((_, metric)) = find_metric(name).filter(|(place, _)| shown.contains(place)) {
            let _ = writeln!(
                text,
                "{}{term}: {}",
                if text.is_empty() { "\n" } else { "" },
                metric.doc
            );
        }
    }
    text
}

/// Returns the axis of this name, or the only axis whose last part is this name.
fn find_axis(keys: &[&str], name: &str) -> Option<usize> {
    let exact = keys.iter().position(|key| *key == name);
    exact.or_else(|| {
        let ending = format!(".{name}");
        let mut found = (0..keys.len()).filter(|place| keys[*place].ends_with(&ending));
        found.next().filter(|_| found.next().is_none())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::COUNT;
    use crate::stats::Summary;

    fn summary(mean: f64) -> Summary {
        Summary {
            mean: Some(mean),
            ci95: Some(0.5),
            n: 3,
        }
    }

    fn points() -> Vec<PointReport> {
        let mut points = Vec::new();
        for (i, scheme) in ["standard", "cubic"].into_iter().enumerate() {
            for (j, rate) in [0.0, 0.01, 0.05].into_iter().enumerate() {
                let mut metrics = [Summary {
                    mean: None,
                    ci95: None,
                    n: 0,
                }; COUNT];
                metrics[0] = summary(f64::from(10 * i as u32 + j as u32));
                let (place, _) = find_metric("tr_ratio").expect("a metric");
                metrics[place] = summary(1.25);
                points.push(PointReport {
                    params: vec![
                        ("flow.bulk.sctp.scheme".to_owned(), scheme.into()),
                        ("link.radio.loss.rate".to_owned(), rate.into()),
                    ],
                    runs: 3,
                    deterministic: false,
                    metrics,
                    flows: vec![("bulk".to_owned(), metrics)],
                });
            }
        }
        points
    }

    fn shown(metrics: &[&str], by: &[&str], width: usize) -> String {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let view = View {
            metrics: names(metrics),
            by: names(by),
        };
        tables(&points(), &view, width).unwrap_or_else(|error| error.to_string())
    }

    #[test]
    fn the_last_axis_gives_the_columns_of_a_table_per_metric() {
        let text = shown(&["goodput_mbps"], &[], 100);
        let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0], ["goodput,", "Mbit/s;", "columns:", "loss.rate"]);
        assert_eq!(words[1], ["sctp.scheme", "0.0", "0.01", "0.05"]);
        assert_eq!(words[2][..4], ["standard", "0.00", "±", "0.50"]);
        assert_eq!(words[3][0], "cubic");
        assert_eq!(words.len(), 4, "{text}");
    }

    #[test]
    fn any_axis_and_metrics_can_be_columns() {
        let text = shown(&["goodput_mbps"], &["scheme"], 100);
        assert!(
            text.contains("columns: sctp.scheme") && text.lines().count() == 5,
            "{text}"
        );
        let text = shown(&["goodput_mbps", "tr_ratio"], &["metric"], 100);
        assert!(
            text.contains("T-R ratio") && text.lines().nth(1).is_some_and(|line| line.contains("1.25")),
            "{text}"
        );
        assert_eq!(text.lines().count(), 1 + 6 + 2, "{text}");
    }

    #[test]
    fn every_flow_is_shown_if_flow_is_an_axis() {
        let mut points = points();
        points.truncate(1);
        points[0].flows = (0..MOST_FLOW_COLUMNS + 1)
            .map(|number| (format!("f{number}"), points[0].metrics))
            .collect();
        let by = |axes: &[&str]| View {
            metrics: vec!["goodput_mbps".to_owned()],
            by: axes.iter().map(|axis| (*axis).to_owned()).collect(),
        };
        let text = tables(&points, &by(&["flow"]), 1000).expect("an axis");
        assert!(text.contains(" all ") && text.contains("f12"), "{text}");
        let text = tables(&points, &by(&["metric"]), 1000).expect("an axis");
        assert!(!text.contains("f12"), "{text}");
        let text = tables(&points, &by(&[]), 1000).expect("a table");
        assert!(text.contains("greatest") && text.contains("\n13 flows: "), "{text}");
    }

    #[test]
    fn values_with_the_same_text_have_figures_of_their_own() {
        let mut points = points();
        for (number, point) in points.iter_mut().enumerate() {
            let flow = |name: &str, goodput: f64| {
                let mut metrics = point.metrics;
                metrics[0] = summary(goodput + number as f64);
                (name.to_owned(), metrics)
            };
            point.flows = vec![flow("all", 100.0), flow("all flows", 200.0), flow("\u{1b}x", 300.0)];
        }
        let view = View {
            metrics: vec!["goodput_mbps".to_owned()],
            by: vec!["flow".to_owned()],
        };
        points.truncate(2);
        // The number and the text are different values.
        points[1].params[1].1 = "0.0".into();
        points[1].params[0].1 = points[0].params[0].1.clone();
        let text = tables(&points, &view, 1000).expect("an axis");
        for figure in [
            "0.00", "100.00", "200.00", "300.00", "1.00", "101.00", "201.00", "301.00",
        ] {
            assert!(text.contains(&format!(" {figure} ±")), "{figure} in {text}");
        }
        assert!(text.contains("\\u{1b}x"), "{text}");
    }

    #[test]
    fn terms_are_defined_below_and_lines_fit() {
        let text = shown(&["goodput_mbps", "tr_ratio"], &[], 50);
        assert!(text.contains("\nT-R ratio: bytes of IP packets sent"), "{text}");
        let tables = text.split("\nT-R ratio: ").next().unwrap_or_default();
        assert!(tables.lines().all(|line| line.chars().count() <= 50), "{text}");
    }

    #[test]
    fn unknown_names_are_errors_with_a_hint() {
        assert_eq!(
            shown(&["goodput"], &[], 100),
            "there is no metric `goodput`; did you mean `goodput_mbps`?"
        );
        assert!(shown(&[], &["shceme"], 100).starts_with("there is no axis `shceme` to make columns by"));
    }
}
