//! Which figures there are, and the data in them.

use std::path::Path;

use serde_json::Value;
use whimbrel_lab::{find_metric, metrics};

use super::chart::{Across, Chart, Curve, Look};
use super::scale::Scale;
use super::time::{COLUMNS, MOST_CURVES, over_time};
use super::{Plot, senders};
use crate::error::ReportError;
use crate::events::Events;
use crate::recorded::Files;
use crate::recording::Recording;
use crate::results::{Axis, Figures, Points, Results};
use crate::series::{Line, Series};
use crate::study::{Claim, Claims, Point};

/// What is drawn.
#[derive(Clone, Debug, Default)]
pub struct PlotOptions {
    /// Metrics by their names; none: those that matter most.
    pub metrics: Vec<String>,
    /// The swept field along the x axis, by its name or the end of it after a dot; none: the one with most numbers.
    pub over: Option<String>,
}

/// A figure over time.
struct OverTime {
    file: &'static str,
    /// Values of the series with their names in the legend.
    values: &'static [(&'static str, &'static str)],
    label: &'static str,
}

const OVER_TIME: [OverTime; 5] = [
    OverTime {
        file: "cwnd",
        values: &[
            ("cwnd_bytes", "cwnd"),
            ("ssthresh_bytes", "ssthresh"),
            ("flight_bytes", "flight"),
        ],
        label: "bytes",
    },
    OverTime {
        file: "goodput",
        values: &[("goodput_mbps", "goodput")],
        label: "goodput, Mbit/s",
    },
    OverTime {
        file: "acknowledged",
        values: &[("acked_mbps", "acknowledged")],
        label: "acknowledged data, Mbit/s",
    },
    OverTime {
        file: "rtt",
        values: &[("srtt_ms", "SRTT"), ("rto_ms", "RTO")],
        label: "ms",
    },
    OverTime {
        file: "queue",
        values: &[("queue_packets", "queue")],
        label: "packets in the queue",
    },
];

/// All figures of a folder.
pub(crate) fn plots(
    study: Option<&Claims>,
    results: &[(std::path::PathBuf, Results)],
    recordings: &[Recording],
    options: &PlotOptions,
) -> Result<Vec<Plot>, ReportError> {
    if let Some(unknown) = options.metrics.iter().find(|name| find_metric(name).is_none()) {
        let known: Vec<_> = metrics().map(|metric| metric.name).collect();
        let hint = whimbrel_scenario::word_hint(unknown, &known, "metrics");
        let hint = hint.unwrap_or_else(|| "`whimbrel metrics` lists them".to_owned());
        return Err(ReportError::NoFigure(format!("there is no metric `{unknown}`; {hint}")));
    }
    let asks_for_metrics = !options.metrics.is_empty() || options.over.is_some();
    if asks_for_metrics && study.is_none() && results.is_empty() {
        let why = "a recording of a live transfer has no metrics and no sweep; leave out --metric and --over";
        return Err(ReportError::NoFigure(why.to_owned()));
    }
    let mut plots = Vec::new();
    for claim in study.iter().flat_map(|study| &study.claims) {
        plots.extend(claim_plot(claim));
    }
    for (folder, results) in results {
        let prefix = if results.name.is_empty() {
            String::new()
        } else {
            format!("{}/", results.name)
        };
        metric_plots(results, options, &prefix, &mut plots)?;
        // With metrics asked for, these and no others.
        if options.metrics.is_empty() {
            recorded_plots(folder, results, &prefix, &mut plots)?;
        }
    }
    for recording in recordings {
        let (events, series) = recording.read()?;
        run_plots(&recording.name, Some(&series), Some(&events), "", &mut plots);
    }
    Ok(plots)
}

fn metric_plots(
    results: &Results,
    options: &PlotOptions,
    prefix: &str,
    plots: &mut Vec<Plot>,
) -> Result<(), ReportError> {
    let points = results.points();
    let x = match &options.over {
        None => main_axis(&points.axes),
        Some(name) => {
            let fits = |axis: &Axis| axis.name == *name || axis.name.ends_with(&format!(".{name}"));
            let place = points.axes.iter().position(fits);
            let known: Vec<_> = points.axes.iter().map(|axis| axis.name.as_str()).collect();
            Some(place.ok_or_else(|| {
                let known = if known.is_empty() {
                    "nothing is swept".to_owned()
                } else {
                    format!("the swept fields are: {}", known.join(", "))
                };
                ReportError::NoFigure(format!("there is no axis `{name}`; {known}"))
            })?)
        }
    };
    let names: Vec<_> = metrics().map(|metric| metric.name).collect();
    let usual = points.usual();
    let is_wanted = |metric: usize| {
        if options.metrics.is_empty() {
            usual.contains(&metric)
        } else {
            options.metrics.iter().any(|wanted| wanted == names[metric])
        }
    };
    let all_flows = points.figures.first().map(|figures| figures.flow.clone());
    for figures in points
        .figures
        .iter()
        .filter(|figures| Some(&figures.flow) == all_flows.as_ref() && is_wanted(figures.metric))
    {
        plots.push(Plot {
            path: format!("{prefix}{}", names[figures.metric]),
            chart: metric_chart(&points, figures, x, &results.title()),
        });
    }
    Ok(())
}

/// The axis of numbers with most values, or the one with most values.
fn main_axis(axes: &[Axis]) -> Option<usize> {
    let rank = |axis: &Axis| (axis.values.iter().all(Value::is_number), axis.values.len());
    (0..axes.len()).max_by_key(|place| rank(&axes[*place]))
}

/// The x axis of these values, and the place of each on it.
fn across(values: &[Value]) -> (Across, Vec<f64>) {
    let numbers: Option<Vec<f64>> = values.iter().map(Value::as_f64).collect();
    match numbers.filter(|numbers| numbers.len() > 1) {
        Some(numbers) => {
            let mut scale = Scale::of(numbers.iter().copied(), false);
            scale.logarithmic = scale.least > 0.0 && numbers.len() > 3 && scale.most / scale.least >= 50.0;
            (Across::Numbers(scale), numbers)
        }
        None => {
            let names = values.iter().map(text).collect();
            (
                Across::Names(names),
                (0..values.len()).map(|place| place as f64).collect(),
            )
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn metric_chart(points: &Points, figures: &Figures, x: Option<usize>, title: &str) -> Chart {
    let metric = metrics()
        .nth(figures.metric)
        .expect("figures have a metric of the list");
    let one = [Value::from("all")];
    let values = x.map_or(&one[..], |x| &points.axes[x].values);
    let (across, places) = across(values);
    let mut curves: Vec<Curve> = Vec::new();
    for (point, summary) in points.places.iter().zip(&figures.summaries) {
        let Some(mean) = summary.mean else { continue };
        let others = points
            .axes
            .iter()
            .enumerate()
            .filter(|(axis, known)| Some(*axis) != x && known.values.len() > 1);
        let name: Vec<String> = others
            .map(|(axis, known)| {
                let value = &known.values[point[axis]];
                if value.is_number() {
                    format!("{} {}", known.short(), text(value))
                } else {
                    text(value)
                }
            })
            .collect();
        let place = x.map_or(0.0, |x| places[point[x]]);
        add(
            &mut curves,
            name.join(", "),
            Look::Means,
            (place, mean, summary.ci95.unwrap_or(f64::NAN)),
        );
    }
    finish(&mut curves, &across);
    Chart {
        title: format!("{}: {title}", metric.label),
        x_label: x.map_or_else(String::new, |x| points.axes[x].name.clone()),
        y_label: metric.label.to_owned(),
        across,
        curves,
    }
}

fn add(curves: &mut Vec<Curve>, name: String, look: Look, point: (f64, f64, f64)) {
    match curves.iter_mut().find(|curve| curve.name == name && curve.look == look) {
        Some(curve) => curve.points.push(point),
        None => {
            let style = curves.iter().filter(|curve| curve.look == look).count();
            curves.push(Curve {
                name,
                look,
                points: vec![point],
                style,
            });
        }
    }
}

/// Sorts points along numbers; along names curves stand side by side.
fn finish(curves: &mut [Curve], across: &Across) {
    let n = curves.len() as f64;
    for (place, curve) in curves.iter_mut().enumerate() {
        curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if matches!(across, Across::Names(_)) {
            let shift = (place as f64 - (n - 1.0) / 2.0) * (0.7 / n).min(0.16);
            curve.points.iter_mut().for_each(|point| point.0 += shift);
        }
    }
}

/// A claim's figures and the paper's; none of fewer than three points.
fn claim_plot(claim: &Claim) -> Option<Plot> {
    let first = claim.points.first()?;
    let values = |axis: usize| -> Vec<Value> {
        let mut found: Vec<Value> = Vec::new();
        for value in claim.points.iter().filter_map(|point| Some(&point.at.get(axis)?.1)) {
            if !found.contains(value) {
                found.push(value.clone());
            }
        }
        found
    };
    let named = claim.over.as_ref().and_then(|over| {
        let fits = |(name, _): &(String, Value)| name == over || name.ends_with(&format!(".{over}"));
        first.at.iter().position(fits)
    });
    let x = named.or_else(|| (0..first.at.len()).max_by_key(|axis| values(*axis).len()))?;
    let found = values(x);
    if claim.points.len() < 3 || found.len() < 2 {
        return None;
    }
    let (across, places) = across(&found);
    let mut curves = Vec::new();
    for point in &claim.points {
        let Some(place) = point
            .at
            .get(x)
            .and_then(|(_, value)| found.iter().position(|known| known == value))
        else {
            continue;
        };
        let name = rest(point, x);
        add(
            &mut curves,
            name.clone(),
            Look::Means,
            (places[place], point.mean, point.ci95.unwrap_or(f64::NAN)),
        );
        if let Some(paper) = point.paper {
            let name = if name.is_empty() {
                "paper".to_owned()
            } else {
                format!("{name}, paper")
            };
            add(&mut curves, name, Look::Paper, (places[place], paper, f64::NAN));
        }
    }
    if curves.len() > 1 {
        curves
            .iter_mut()
            .filter(|curve| curve.name.is_empty())
            .for_each(|curve| curve.name = "ours".to_owned());
    }
    finish(&mut curves, &across);
    let metric = claim.metric.as_deref().and_then(find_metric);
    let label = metric.map_or_else(
        || claim.metric.clone().unwrap_or_default(),
        |(_, metric)| metric.label.to_owned(),
    );
    Some(Plot {
        path: format!("claim-{}", claim.id),
        chart: Chart {
            title: claim.claim.clone(),
            x_label: first.at[x].0.clone(),
            y_label: match &claim.of {
                Some(of) => format!("{}, {of}", label.split(',').next().unwrap_or_default()),
                None => label,
            },
            across,
            curves,
        },
    })
}

/// The values of the other axes of a point.
fn rest(point: &Point, x: usize) -> String {
    let others = point.at.iter().enumerate().filter(|(axis, _)| *axis != x);
    let parts: Vec<String> = others
        .map(|(_, (name, value))| format!("{} {}", name.rsplit('.').next().unwrap_or_default(), text(value)))
        .collect();
    parts.join(", ")
}

fn recorded_plots(folder: &Path, results: &Results, prefix: &str, plots: &mut Vec<Plot>) -> Result<(), ReportError> {
    for run in &results.runs {
        let files = Files::of(folder, run);
        let series = files.series.as_deref().map(Series::read).transpose()?;
        let events = files.events.as_deref().map(Events::read).transpose()?;
        run_plots(&files.name, series.as_ref(), events.as_ref(), prefix, plots);
    }
    Ok(())
}

/// The figures of one run over time.
fn run_plots(run: &str, series: Option<&Series>, events: Option<&Events>, prefix: &str, plots: &mut Vec<Plot>) {
    let mut flows: Vec<&str> = series
        .iter()
        .flat_map(|series| &series.lines)
        .map(|(about, _)| about[1].as_str())
        .collect();
    flows.retain(|flow| !flow.is_empty());
    flows.sort_unstable();
    flows.dedup();
    for OverTime { file, values, label } in series.iter().flat_map(|_| OVER_TIME) {
        let lines = series.iter().flat_map(|series| &series.lines);
        let mut curves = Vec::new();
        for (about, line) in lines {
            let [node, flow, side, path, path_name, link, name] = about;
            let Some((_, short)) = values.iter().find(|(known, _)| known == name) else {
                continue;
            };
            if side == "receiver" && !path.is_empty() {
                continue;
            }
            let mut parts = vec![(*short).to_owned()];
            parts.extend((!path.is_empty()).then(|| path_name.clone()));
            parts.extend((!link.is_empty()).then(|| format!("{link} from {node}")));
            let names_flow = (values.len() == 1 || flows.len() > 1) && !flow.is_empty();
            parts.extend(names_flow.then(|| flow.clone()));
            // The values of a live transfer are those after a change; acknowledged data is counted over intervals.
            let steps = events.is_some_and(|events| events.live.is_some()) && name != "acked_mbps";
            curves.push(Curve {
                name: parts.join(" "),
                look: Look::Samples,
                points: if steps { stepped(&thinned(line)) } else { thinned(line) },
                style: curves.len(),
            });
        }
        curves.truncate(MOST_CURVES);
        plots.extend(over_time(format!("{prefix}{run}/{file}"), label, curves, run));
    }
    if let Some(events) = events {
        let folder = format!("{prefix}{run}");
        let name = |node: &str, flow: &str, path: u32| path_name(series, [node, flow], path);
        plots.extend(senders::paths(events, &folder, &name));
        plots.extend(senders::tsns(events, &folder));
    }
}

/// The name of a path of the end of a flow at a node.
fn path_name(series: Option<&Series>, end: [&str; 2], path: u32) -> String {
    let mut lines = series.iter().flat_map(|series| &series.lines);
    let named = lines.find(|(about, _)| about[..2] == end && about[3] == path.to_string());
    named.map_or_else(|| format!("path {path}"), |(about, _)| about[4].clone())
}

/// Of each pixel column the least and the greatest sample, in their order.
fn thinned(line: &Line) -> Vec<(f64, f64, f64)> {
    let end = line.times.last().map_or(1, |end| end.max(&1) + 1);
    let point = |place: usize| (line.times[place] as f64 / 1e9, line.values[place], f64::NAN);
    let column = |place: usize| i128::from(line.times[place]) * COLUMNS as i128 / i128::from(end);
    if line.times.len() <= 2 * COLUMNS {
        return (0..line.times.len()).map(point).collect();
    }
    let mut points = Vec::with_capacity(2 * COLUMNS);
    let mut start = 0;
    while start < line.times.len() {
        let (mut least, mut most, mut next) = (start, start, start);
        while next < line.times.len() && column(next) == column(start) {
            least = if line.values[next] < line.values[least] {
                next
            } else {
                least
            };
            most = if line.values[next] > line.values[most] {
                next
            } else {
                most
            };
            next += 1;
        }
        points.push(point(least.min(most)));
        points.extend((least != most).then(|| point(least.max(most))));
        start = next;
    }
    points
}

/// Each value until the next one.
fn stepped(points: &[(f64, f64, f64)]) -> Vec<(f64, f64, f64)> {
    let before = points
        .windows(2)
        .flat_map(|pair| [pair[0], (pair[1].0, pair[0].1, pair[1].2)]);
    before.chain(points.last().copied()).collect()
}
