//! The table that `whimbrel run` prints: a row per metric, a column per point and flow.

use comfy_table::{Cell, CellAlignment, Table, presets};
use whimbrel_scenario::visible;

use super::{PointReport, Summaries};
use crate::metric::{COUNT, metrics};
use crate::stats::Summary;
use crate::text::text;

/// Maximum number of flows with a column of their own.
pub(super) const MOST_FLOW_COLUMNS: usize = 12;

/// A column: its heading and its figures.
struct Column {
    heading: String,
    summaries: Summaries,
    deterministic: bool,
    width: usize,
}

/// Returns the tables of all points, wrapped into blocks of columns that fit `width` characters, and the indices of the metrics in
/// them. Unless rows are selected by `only`, metrics without values are omitted, and quiet metrics that are zero everywhere.
pub(super) fn table_of(points: &[PointReport], only: Option<&[usize]>, width: usize) -> (String, Vec<usize>) {
    let columns = columns(points);
    let rows: Vec<usize> = metrics()
        .enumerate()
        .filter(|(place, metric)| {
            if let Some(only) = only {
                return only.contains(place);
            }
            let any = |wanted: &dyn Fn(f64) -> bool| {
                columns
                    .iter()
                    .any(|column| column.summaries[*place].mean.is_some_and(wanted))
            };
            if metric.quiet {
                any(&|mean| mean != 0.0)
            } else {
                any(&|_| true)
            }
        })
        .map(|(place, _)| place)
        .collect();
    let labels: Vec<_> = metrics().map(|metric| metric.label).collect();
    let label_width = rows.iter().map(|&place| labels[place].len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let mut used = label_width;
        let fitting = rest
            .iter()
            .take_while(|column| {
                used += column.width + 2;
                used <= width
            })
            .count();
        let (block, later) = rest.split_at(fitting.max(1));
        rest = later;
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&block_text(block, &rows, &labels));
    }
    (text, rows)
}

fn block_text(columns: &[Column], rows: &[usize], labels: &[&str]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let mut header = vec![Cell::new("")];
    header.extend(
        columns
            .iter()
            .map(|column| Cell::new(&column.heading).set_alignment(CellAlignment::Right)),
    );
    table.set_header(header);
    for &place in rows {
        let mut row = vec![Cell::new(labels[place])];
        row.extend(columns.iter().map(|column| {
            Cell::new(figure(&column.summaries[place], column.deterministic)).set_alignment(CellAlignment::Right)
        }));
        table.add_row(row);
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn columns(points: &[PointReport]) -> Vec<Column> {
    let mut columns = Vec::new();
    for point in points {
        let params: Vec<_> = point
            .params
            .iter()
            .map(|(path, value)| visible(&format!("{} {}", short(path), text(value))))
            .collect();
        let heading = |flow: Option<&str>| {
            let mut lines = params.clone();
            match flow {
                Some(flow) => lines.push(visible(flow)),
                None if point.flows.len() > 1 => lines.push("all flows".to_owned()),
                None if params.is_empty() => lines.extend(point.flows.first().map(|(name, _)| visible(name))),
                None => {}
            }
            lines.join("\n")
        };
        let mut push = |heading: String, summaries: &Summaries| {
            let lines = heading.lines().map(|line| line.chars().count());
            let width = lines
                .chain(
                    summaries
                        .iter()
                        .map(|summary| figure(summary, point.deterministic).chars().count()),
                )
                .max();
            columns.push(Column {
                width: width.unwrap_or(0),
                heading,
                summaries: *summaries,
                deterministic: point.deterministic,
            });
        };
        push(heading(None), &point.metrics);
        if point.flows.len() > MOST_FLOW_COLUMNS {
            for (name, summaries) in spread(&point.flows) {
                push(heading(Some(name)), &summaries);
            }
        } else if point.flows.len() > 1 {
            point
                .flows
                .iter()
                .for_each(|(name, summaries)| push(heading(Some(name)), summaries));
        }
    }
    columns
}

/// Returns the least, the median and the greatest value of each metric among flows. They have no interval.
fn spread(flows: &[(String, Summaries)]) -> [(&'static str, Summaries); 3] {
    let sorted: [Vec<f64>; COUNT] = std::array::from_fn(|place| {
        let mut means: Vec<f64> = flows
            .iter()
            .filter_map(|(_, summaries)| summaries[place].mean)
            .collect();
        means.sort_unstable_by(f64::total_cmp);
        means
    });
    let at = |rank: &dyn Fn(&[f64]) -> Option<f64>| {
        sorted.each_ref().map(|means| Summary {
            mean: rank(means),
            ci95: None,
            n: means.len(),
        })
    };
    [
        ("least", at(&|means| means.first().copied())),
        ("median", at(&median)),
        ("greatest", at(&|means| means.last().copied())),
    ]
}

/// Returns the median of sorted values, none of no values.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = sorted.get(sorted.len() / 2)?;
    let lower = sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}

/// Returns the last two steps of a path: `link.wifi.loss.rate` is `loss.rate`.
pub(crate) fn short(path: &str) -> &str {
    match path.rmatch_indices('.').nth(1) {
        Some((at, _)) => &path[at + 1..],
        None => path,
    }
}

/// Returns the mean and half the width of the interval; the mean alone without randomness.
pub(crate) fn figure(summary: &Summary, deterministic: bool) -> String {
    match (summary.mean, summary.ci95.filter(|_| !deterministic)) {
        (None, _) => "-".to_owned(),
        (Some(mean), None) => number(mean),
        (Some(mean), Some(ci95)) => {
            let digits = digits(mean, ci95);
            let unit = 0.1_f64.powi(digits as i32);
            // "± 0" is said of equal runs alone.
            if ci95 > 0.0 && ci95 < unit / 2.0 {
                return format!("{mean:.digits$} ± <{unit:.digits$}");
            }
            format!("{mean:.digits$} ± {ci95:.digits$}")
        }
    }
}

/// Returns the figure for a sentence: with its interval, or with the words that there is none, because no randomness enters or because it
/// does not change the figure.
pub(crate) fn with_interval(summary: &Summary, deterministic: bool) -> String {
    match (summary.mean, summary.ci95) {
        (Some(mean), _) if deterministic => format!("{} (deterministic)", number(mean)),
        (Some(mean), Some(0.0)) => format!("{} in every run", number(mean)),
        _ => figure(summary, false),
    }
}

/// Returns a number with four significant digits, at least the integer part.
fn number(mean: f64) -> String {
    if mean == mean.trunc() && mean.abs() < 1e9 {
        return format!("{mean:.0}");
    }
    format!("{mean:.*}", digits(mean, f64::NAN))
}

/// Returns the number of decimals: two significant digits of the interval, four of a mean without one.
fn digits(mean: f64, ci95: f64) -> usize {
    let (value, significant) = if ci95.is_finite() && ci95 > 0.0 {
        (ci95, 2)
    } else {
        (mean.abs(), 4)
    };
    if value == 0.0 || !value.is_finite() || (mean == mean.trunc() && ci95 == 0.0) {
        return 0;
    }
    let magnitude = |value: f64| {
        if value == 0.0 {
            1
        } else {
            value.abs().log10().floor() as i32 + 1
        }
    };
    // At most five digits of the mean.
    (significant - magnitude(value)).min(5 - magnitude(mean)).clamp(0, 6) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(mean: f64, ci95: f64, n: usize) -> Summary {
        Summary {
            mean: Some(mean),
            ci95: ci95.is_finite().then_some(ci95),
            n,
        }
    }

    #[test]
    fn figures_have_significant_digits() {
        assert_eq!(figure(&summary(18.734_56, 0.123, 10), false), "18.73 ± 0.12");
        assert_eq!(figure(&summary(1234.5, 56.0, 10), false), "1234 ± 56");
        assert_eq!(figure(&summary(0.000_123_4, f64::NAN, 1), false), "0.000123");
        assert_eq!(figure(&summary(42.0, f64::NAN, 1), false), "42");
        assert_eq!(figure(&summary(42.0, 0.0, 3), false), "42 ± 0");
        assert_eq!(figure(&summary(42.0, 0.0, 3), true), "42");
        assert_eq!(figure(&summary(168.800_094, 0.000_012, 3), false), "168.80 ± <0.01");
        assert_eq!(figure(&summary(19_999.4, 0.3, 3), false), "19999 ± <1");
        assert_eq!(with_interval(&summary(42.0, 0.0, 3), false), "42 in every run");
        assert_eq!(with_interval(&summary(42.0, 0.0, 3), true), "42 (deterministic)");
        assert_eq!(with_interval(&summary(42.0, f64::NAN, 1), false), "42");
        assert_eq!(
            figure(
                &Summary {
                    mean: None,
                    ci95: None,
                    n: 0
                },
                false
            ),
            "-"
        );
    }

    #[test]
    fn many_flows_have_three_columns() {
        let flow = |goodput: f64| {
            let mut summaries = [summary(f64::NAN, f64::NAN, 0); COUNT];
            summaries.iter_mut().for_each(|summary| summary.mean = None);
            summaries[0] = summary(goodput, 0.1, 3);
            ("f".to_owned(), summaries)
        };
        let flows: Vec<_> = [7.0, 1.0, 3.0, 4.0].into_iter().map(flow).collect();
        let found = spread(&flows).map(|(name, summaries)| (name, summaries[0].mean, summaries[1].mean));
        let expected = [("least", 1.0), ("median", 3.5), ("greatest", 7.0)];
        assert_eq!(found, expected.map(|(name, goodput)| (name, Some(goodput), None)));
        let point = |count: usize| PointReport {
            params: Vec::new(),
            runs: 3,
            deterministic: false,
            metrics: flows[0].1,
            flows: flows.iter().cycle().take(count).cloned().collect(),
        };
        assert_eq!(columns(&[point(MOST_FLOW_COLUMNS)]).len(), MOST_FLOW_COLUMNS + 1);
        assert_eq!(columns(&[point(MOST_FLOW_COLUMNS + 1)]).len(), 4);
    }

    #[test]
    fn points_are_columns_that_wrap() {
        let mut metrics = [Summary {
            mean: None,
            ci95: None,
            n: 0,
        }; COUNT];
        metrics[0] = summary(18.73, 0.12, 10);
        metrics[14] = summary(3.0, 1.0, 10);
        let point = |rate: f64| PointReport {
            params: vec![("link.wifi.loss.rate".to_owned(), rate.into())],
            runs: 10,
            deterministic: false,
            metrics,
            flows: vec![("upload".to_owned(), metrics)],
        };
        let points = [point(0.0), point(0.01)];
        let wide = table_of(&points, None, 100).0;
        assert_eq!(wide.lines().count(), 3, "{wide}");
        assert!(wide.lines().all(|line| line.chars().count() <= 100));
        assert!(
            wide.contains("loss.rate 0.01") && wide.contains("goodput, Mbit/s"),
            "{wide}"
        );
        let narrow = table_of(&points, None, 40).0;
        assert_eq!(narrow.lines().count(), 7, "{narrow}");
    }
}
