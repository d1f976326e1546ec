//! The tables of a sweep: points in rows and columns by the values of axes, one table for each metric.

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, Table, presets};

use super::table::{MOST_FLOW_COLUMNS, figure, short, table_of};
use super::{PointReport, Summaries};
use crate::metric::{Metric, find_metric, metrics};
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

/// Default metrics of a sweep's tables; those without values are omitted.
const USUAL: [&str; 7] = [
    "goodput_mbps",
    "completion_s",
    "delay_p95_ms",
    "retransmissions",
    "timeouts",
    "tr_ratio",
    "jain_index",
];

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
}

/// A figure with the values of all its axes, including `flow` and `metric`.
struct Entry {
    keys: Vec<String>,
    figure: String,
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
        let only: Option<Vec<usize>> = (!chosen.is_empty()).then(|| chosen.iter().map(|(place, _)| *place).collect());
        let (mut text, shown) = table_of(points, only.as_deref(), width);
        let flows = first.flows.len();
        if flows > MOST_FLOW_COLUMNS {
            let _ = writeln!(
                text,
                "\n{flows} flows: the least, the median and the greatest value of a flow; `--by flow` shows every flow"
            );
        }
        text.push_str(&terms(&shown));
        return Ok(text);
    }
    let metrics = if chosen.is_empty() {
        usual(points, axes.len())
    } else {
        chosen
    };
    let mut keys: Vec<&str> = axes.clone();
    keys.extend([FLOW, METRIC]);
    let mut columns: Vec<usize> = Vec::new();
    for column in view.by.iter().filter_map(|name| find_axis(&keys, name)) {
        if !columns.contains(&column) {
            columns.push(column);
        }
    }
    if columns.is_empty() {
        columns = if axes.len() > 1 {
            vec![axes.len() - 1]
        } else {
            vec![keys.len() - 1]
        };
    }
    let metric_key = keys.len() - 1;
    let most = if columns.contains(&(metric_key - 1)) {
        usize::MAX
    } else {
        MOST_FLOWS
    };
    let entries = entries(points, &metrics, most);
    let split = !columns.contains(&metric_key);
    let mut text = String::new();
    let labels: Vec<&str> = metrics.iter().map(|(_, metric)| metric.label).collect();
    for label in if split { labels.as_slice() } else { &[""] } {
        let of_metric: Vec<&Entry> = entries
            .iter()
            .filter(|entry| !split || entry.keys[metric_key] == *label)
            .collect();
        if !text.is_empty() {
            text.push('\n');
        }
        let names = columns.iter().filter(|column| keys[**column] != METRIC);
        let names: Vec<&str> = names.map(|column| short(keys[*column])).collect();
        match (split, names.is_empty()) {
            (true, true) => {
                let _ = writeln!(text, "{label}");
            }
            (true, false) => {
                let _ = writeln!(text, "{label}; columns: {}", names.join(", "));
            }
            (false, false) => {
                let _ = writeln!(text, "columns: {}", names.join(", "));
            }
            (false, true) => {}
        }
        text.push_str(&cross(&of_metric, &keys, &columns, split.then_some(metric_key), width));
    }
    let fixed: Vec<String> = points
        .iter()
        .filter(|point| point.deterministic)
        .map(|point| {
            let values = point
                .params
                .iter()
                .map(|(axis, value)| format!("{} {}", short(axis), text_of(value)));
            values.collect::<Vec<_>>().join(", ")
        })
        .collect();
    if fixed.len() == points.len() {
        text.push_str("\ndeterministic: every seed gives the same at every point\n");
    } else if !fixed.is_empty() {
        let more = if fixed.len() > MOST_NAMED {
            format!(" and {} more points", fixed.len() - MOST_NAMED)
        } else {
            String::new()
        };
        let named = fixed[..fixed.len().min(MOST_NAMED)].join("; ");
        let _ = writeln!(text, "\ndeterministic: every seed gives the same at {named}{more}");
    }
    text.push_str(&terms(&metrics.iter().map(|(place, _)| *place).collect::<Vec<_>>()));
    Ok(text)
}

/// Returns the default metrics that have values.
fn usual(points: &[PointReport], axes: usize) -> Vec<(usize, Metric)> {
    let most = if axes > 1 { USUAL_TABLES } else { USUAL.len() };
    let known = USUAL.iter().take(most).filter_map(|name| find_metric(name));
    known
        .filter(|(place, metric)| {
            let has_value = |point: &PointReport| point.metrics[*place].mean.is_some();
            // A single flow is always fair to itself.
            let needed = metric.name != "jain_index" || points.iter().any(|point| point.flows.len() > 1);
            needed && points.iter().any(has_value)
        })
        .collect()
}

/// Returns the figures of all flows together, and of each one where there are 2 to `most` flows.
fn entries(points: &[PointReport], metrics: &[(usize, Metric)], most: usize) -> Vec<Entry> {
    let mut entries = Vec::new();
    for point in points {
        let params: Vec<String> = point.params.iter().map(|(_, value)| text_of(value)).collect();
        let mut push = |flow: &str, summaries: &Summaries, of_run: bool| {
            for (place, metric) in metrics.iter().filter(|(_, metric)| of_run || !metric.of_run) {
                let mut keys = params.clone();
                keys.extend([flow.to_owned(), metric.label.to_owned()]);
                entries.push(Entry {
                    keys,
                    figure: figure(&summaries[*place], point.deterministic),
                });
            }
        };
        push("all", &point.metrics, true);
        if (2..=most).contains(&point.flows.len()) {
            for (name, summaries) in &point.flows {
                push(name, summaries, false);
            }
        }
    }
    entries
}

/// Returns a table with the axes `columns` as columns and the others as rows, wrapped into blocks that fit.
fn cross(entries: &[&Entry], keys: &[&str], columns: &[usize], hidden: Option<usize>, width: usize) -> String {
    let varies = |key: &usize| entries.iter().any(|entry| entry.keys[*key] != entries[0].keys[*key]);
    let rows: Vec<usize> = (0..keys.len())
        .filter(|key| Some(*key) != hidden && !columns.contains(key))
        .filter(|key| keys[*key] != FLOW || varies(key))
        .collect();
    let of = |entry: &Entry, places: &[usize]| -> Vec<String> {
        places.iter().map(|place| entry.keys[*place].clone()).collect()
    };
    let unique = |places: &[usize]| {
        let mut found: Vec<Vec<String>> = Vec::new();
        for entry in entries {
            let key = of(entry, places);
            if !found.contains(&key) {
                found.push(key);
            }
        }
        found
    };
    let (heads, lines) = (unique(columns), unique(&rows));
    let figure = |line: &[String], head: &[String]| -> &str {
        let found = entries
            .iter()
            .find(|entry| of(entry, &rows) == line && of(entry, columns) == head);
        found.map_or("", |entry| entry.figure.as_str())
    };
    let heading = |head: &[String]| head.join("\n");
    let widths: Vec<usize> = heads
        .iter()
        .map(|head| {
            let figures = lines.iter().map(|line| figure(line, head).chars().count());
            let heading = heading(head);
            figures
                .chain(heading.lines().map(|line| line.chars().count()))
                .max()
                .unwrap_or(0)
                + 2
        })
        .collect();
    let left: usize = rows
        .iter()
        .enumerate()
        .map(|(i, place)| {
            let values = lines.iter().map(|line| line[i].chars().count());
            values.chain([short(keys[*place]).chars().count()]).max().unwrap_or(0) + 2
        })
        .sum();
    let mut text = String::new();
    let mut next = 0;
    while next < heads.len() {
        let mut used = left;
        let fitting = widths[next..]
            .iter()
            .take_while(|column| {
                used += **column;
                used <= width
            })
            .count()
            .max(1);
        let block = &heads[next..next + fitting];
        next += fitting;
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let mut header: Vec<Cell> = rows.iter().map(|place| Cell::new(short(keys[*place]))).collect();
        header.extend(
            block
                .iter()
                .map(|head| Cell::new(heading(head)).set_alignment(CellAlignment::Right)),
        );
        table.set_header(header);
        let mut before: Option<&Vec<String>> = None;
        for line in &lines {
            let mut row: Vec<Cell> = Vec::with_capacity(rows.len() + block.len());
            // A value equal to the one above is omitted.
            let same = before.map_or(0, |before| line.iter().zip(before).take_while(|(a, b)| a == b).count());
            row.extend(line.iter().enumerate().map(|(i, value)| {
                let shown = if i < same && i + 1 < line.len() {
                    ""
                } else {
                    value.as_str()
                };
                Cell::new(shown)
            }));
            row.extend(
                block
                    .iter()
                    .map(|head| Cell::new(figure(line, head)).set_alignment(CellAlignment::Right)),
            );
            table.add_row(row);
            before = Some(line);
        }
        if !text.is_empty() {
            text.push('\n');
        }
        for line in table.lines() {
            text.push_str(line.trim_end());
            text.push('\n');
        }
    }
    text
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
