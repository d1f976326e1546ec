//! A claim's figures as a static SVG: ours with their intervals, and the paper's where they are known.

use std::fmt::Write as _;

use serde_json::Value;
use whimbrel_scenario::visible_xml;

use super::check::Plotted;
use crate::report::short;
use crate::text::text;

const WIDTH: f64 = 640.0;
const LEFT: f64 = 76.0;
const RIGHT: f64 = 624.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 256.0;
/// Space between the frame and the outermost points.
const INSET: f64 = 24.0;
/// Width of a character of a label, on average.
const CHARACTER: f64 = 6.5;
/// Colours that remain distinguishable with red-green colour blindness (Okabe and Ito 2008).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
];
/// Dashes of lines whose colours repeat.
const DASHES: [&str; 4] = ["", "6 3", "2 3", "8 3 2 3"];
/// Distance of the columns of the legend, and where its lines of text begin.
const COLUMN: f64 = 280.0;
const TEXT: f64 = 18.0;
/// Points of a line that have a mark.
const MOST_MARKS: usize = 40;
/// The least number of figures, ours and the paper's, that a plot shows. A sentence says more about two.
const FEWEST_FIGURES: usize = 3;

/// What a plot says beside its points.
pub(super) struct Titles<'t> {
    /// The axis along the bottom; by default the one with most values.
    pub(super) over: Option<&'t str>,
    /// Units of axes, by their names.
    pub(super) units: &'t [(String, String)],
    /// What the values are, with their unit.
    pub(super) values: &'t str,
    /// What they are compared with.
    pub(super) beside: &'t str,
}

impl Titles<'_> {
    /// Returns the title of an axis along the bottom, with its unit.
    fn bottom(&self, name: &str) -> String {
        let name = short(name);
        match self.units.iter().find(|(known, _)| known == name) {
            Some((_, unit)) => format!("{name}, {unit}"),
            None => name.to_owned(),
        }
    }
}

/// The points of a line, with what its label says.
struct Series<'p> {
    label: String,
    points: Vec<&'p Plotted>,
}

/// The values along the bottom.
struct Bottom<'p> {
    axis: usize,
    values: Vec<&'p Value>,
    /// Their numbers, if all of them are; otherwise they are categories.
    numbers: Option<Vec<f64>>,
}

/// The heights of values.
struct Heights {
    low: f64,
    high: f64,
    step: f64,
}

/// The plot of these points; none if there are too few.
pub(super) fn plot(points: &[Plotted], titles: &Titles<'_>) -> Option<String> {
    let papers = points.iter().filter_map(|point| point.paper).count();
    if points.len() + papers < FEWEST_FIGURES {
        return None;
    }
    let first = points.first()?;
    let bottom = Bottom::of(points, titles.over)?;
    let series = series(points, bottom.axis);
    let heights = Heights::of(points);
    let turned = bottom.turned();
    let below = BOTTOM + if turned { 96.0 } else { 38.0 };
    let labelled = series.iter().any(|series| !series.label.is_empty());
    let columns = columns(&series);
    let legend = if labelled {
        16.0 * series.len().div_ceil(columns) as f64 + 16.0
    } else {
        16.0
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{0}\" fill=\"#ffffff\"/>\n",
        below + legend
    );
    heights.frame(&mut svg, titles.values);
    bottom.labels(&mut svg, turned);
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{below}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        visible_xml(
            &first
                .at
                .get(bottom.axis)
                .map_or(String::new(), |(name, _)| titles.bottom(name))
        )
    );
    for (number, line) in series.iter().enumerate() {
        let aside = bottom.aside(number, series.len());
        draw(&mut svg, line, number, &bottom, &heights, aside);
        if !line.label.is_empty() {
            let (x, y) = (
                LEFT + COLUMN * (number % columns) as f64,
                below + 24.0 + 16.0 * (number / columns) as f64,
            );
            entry(&mut svg, &line.label, number, (x, y));
        }
    }
    if points.iter().any(|point| point.paper.is_some()) {
        let beside = titles.beside;
        let _ = writeln!(
            svg,
            "<text x=\"{RIGHT}\" y=\"18\" text-anchor=\"end\">hollow squares: {beside}</text>"
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The points by the values of the axes that are not along the bottom.
fn series(points: &[Plotted], bottom: usize) -> Vec<Series<'_>> {
    let mut series: Vec<Series<'_>> = Vec::new();
    for point in points {
        let rest = point.at.iter().enumerate().filter(|(axis, _)| *axis != bottom);
        let label: Vec<String> = rest
            .map(|(_, (name, value))| format!("{} {}", short(name), text(value)))
            .collect();
        let label = label.join(", ");
        match series.iter_mut().find(|known| known.label == label) {
            Some(known) => known.points.push(point),
            None => series.push(Series {
                label,
                points: vec![point],
            }),
        }
    }
    series
}

impl<'p> Bottom<'p> {
    fn of(points: &'p [Plotted], over: Option<&str>) -> Option<Self> {
        let first = points.first()?;
        let values = |axis: usize| -> Vec<&'p Value> {
            let mut found: Vec<&Value> = Vec::new();
            for point in points {
                if let Some((_, value)) = point.at.get(axis)
                    && !found.contains(&value)
                {
                    found.push(value);
                }
            }
            found
        };
        let axes = 0..first.at.len();
        let named = over.and_then(|over| {
            axes.clone()
                .find(|axis| first.at[*axis].0 == over || first.at[*axis].0.ends_with(&format!(".{over}")))
        });
        // A single figure lies in the middle.
        let axis = named
            .or_else(|| axes.max_by_key(|axis| (values(*axis).len(), *axis)))
            .unwrap_or(0);
        let values = values(axis);
        let numbers = values.iter().map(|value| value.as_f64()).collect();
        Some(Bottom { axis, values, numbers })
    }

    /// Where a value lies between the ends, 0 to 1.
    fn share(&self, value: Option<&Value>) -> f64 {
        match (&self.numbers, value.and_then(Value::as_f64)) {
            _ if self.values.len() < 2 => 0.5,
            (Some(numbers), Some(number)) => {
                let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
                let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (number - low) / (high - low).max(1e-300)
            }
            _ => {
                let index = self.values.iter().position(|known| Some(*known) == value).unwrap_or(0);
                (index as f64 + 0.5) / self.values.len() as f64
            }
        }
    }

    fn place(&self, value: Option<&Value>) -> f64 {
        LEFT + INSET + self.share(value) * (RIGHT - LEFT - 2.0 * INSET)
    }

    /// By how much a series lies beside the middle of its category, so that marks and intervals do not cover each other.
    fn aside(&self, number: usize, series: usize) -> f64 {
        if self.numbers.is_some() {
            return 0.0;
        }
        let room = 0.7 * (RIGHT - LEFT - 2.0 * INSET) / self.values.len() as f64;
        let step = (room / series as f64).min(12.0);
        (number as f64 - (series - 1) as f64 / 2.0) * step
    }

    /// Whether the names of the categories are too long to stand side by side.
    fn turned(&self) -> bool {
        let room = (RIGHT - LEFT - 2.0 * INSET) / self.values.len() as f64;
        let longest = self.values.iter().map(|value| text(value).chars().count()).max();
        self.numbers.is_none() && longest.unwrap_or(0) as f64 * CHARACTER > room
    }

    /// The values, without those for which there is no room.
    fn labels(&self, svg: &mut String, turned: bool) {
        let mut ordered: Vec<_> = self
            .values
            .iter()
            .map(|value| (self.place(Some(value)), text(value)))
            .collect();
        ordered.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut end = f64::NEG_INFINITY;
        for (x, name) in ordered {
            let y = BOTTOM + 18.0;
            if turned {
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"end\" transform=\"rotate(-35 {x:.1} {y})\">{}</text>",
                    visible_xml(&name)
                );
                continue;
            }
            let half = name.chars().count() as f64 * CHARACTER / 2.0;
            if x - half >= end + 4.0 {
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>",
                    visible_xml(&name)
                );
                end = x + half;
            }
        }
    }
}

impl Heights {
    /// A range of round steps that includes all points, their intervals and the paper's figures, and zero if it is near.
    fn of(points: &[Plotted]) -> Self {
        let reach = |point: &Plotted| {
            let ci95 = point.ci95.unwrap_or(0.0);
            [Some(point.mean - ci95), Some(point.mean + ci95), point.paper]
        };
        let ys = points.iter().flat_map(reach).flatten();
        let (mut low, mut high) = ys.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
            (low.min(y), high.max(y))
        });
        if low > 0.0 && low < 0.6 * high {
            low = 0.0;
        } else if high < 0.0 && high > 0.6 * low {
            high = 0.0;
        }
        // Of equal values the range is a fifth of them.
        let size = low.abs().max(high.abs());
        let span = if high - low < 1e-3 * size {
            0.2 * size
        } else {
            high - low
        };
        let span = span.max(1e-9);
        let rough = span / 4.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 2.5, 5.0, 10.0]
            .into_iter()
            .map(|round| round * power)
            .find(|step| *step >= rough * (1.0 - 1e-9));
        let step = step.unwrap_or(10.0 * power);
        let dust = 1e-6;
        let (mut low, mut high) = ((low / step + dust).floor() * step, (high / step - dust).ceil() * step);
        if high - low < step / 2.0 {
            (low, high) = (low - step, high + step);
        }
        Heights { low, high, step }
    }

    fn at(&self, y: f64) -> f64 {
        BOTTOM - (y - self.low) / (self.high - self.low) * (BOTTOM - TOP)
    }

    /// The frame, with a line across at each step.
    fn frame(&self, svg: &mut String, title: &str) {
        let steps = ((self.high - self.low) / self.step).round() as usize;
        // A longer number reaches into the title.
        let (unit, letter) = match self.low.abs().max(self.high.abs()) {
            size if size >= 1e6 => (1e6, " M"),
            size if size >= 1e5 => (1e3, " k"),
            _ => (1.0, ""),
        };
        // As many decimals as the step has: 2.5 has one more than 2.
        let decimals = (0..9).find(|decimals| {
            let scaled = self.step / unit * 10_f64.powi(*decimals);
            (scaled - scaled.round()).abs() < 1e-6
        });
        let decimals = decimals.unwrap_or(9) as usize;
        for number in 0..=steps {
            let y = self.low + self.step * number as f64;
            // Not minus zero.
            let y = if y.abs() < self.step * 1e-6 { 0.0 } else { y };
            let (at, y) = (self.at(y), y / unit);
            let letter = if y == 0.0 { "" } else { letter };
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\n\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{y:.decimals$}{letter}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        let middle = (TOP + BOTTOM) / 2.0;
        let _ = writeln!(
            svg,
            "<text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" transform=\"rotate(-90 14 {middle})\">{}</text>",
            visible_xml(title)
        );
    }
}

/// A series: a mark and an interval for each point, the paper's figures, and over an axis of numbers a line.
fn draw(svg: &mut String, series: &Series<'_>, number: usize, bottom: &Bottom<'_>, heights: &Heights, aside: f64) {
    let colour = COLOURS[number % COLOURS.len()];
    let place = |point: &Plotted| {
        let value = point.at.get(bottom.axis).map(|(_, value)| value);
        (bottom.place(value) + aside, heights.at(point.mean))
    };
    let points = &series.points;
    if bottom.numbers.is_some() && points.len() > 1 {
        let places: Vec<String> = points
            .iter()
            .map(|point| {
                let (x, y) = place(point);
                format!("{x:.1},{y:.1}")
            })
            .collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"{}/>",
            places.join(" "),
            dashes(number)
        );
    }
    for point in points {
        let (x, y) = place(point);
        if let Some(ci95) = point.ci95.filter(|ci95| *ci95 > 0.0) {
            let (top, bottom) = (heights.at(point.mean + ci95), heights.at(point.mean - ci95));
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{colour}\"/>"
            );
        }
        // A line of many points needs no marks.
        if points.len() <= MOST_MARKS {
            let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        if let Some(paper) = point.paper {
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"none\" stroke=\"{colour}\"/>",
                x - 4.0,
                heights.at(paper) - 4.0
            );
        }
    }
}

/// The dashes of a line whose colour another one has.
fn dashes(number: usize) -> String {
    match DASHES[number / COLOURS.len() % DASHES.len()] {
        "" => String::new(),
        dashes => format!(" stroke-dasharray=\"{dashes}\""),
    }
}

/// Series in a line of the legend: two if all labels fit into their column.
fn columns(series: &[Series<'_>]) -> usize {
    let longest = series.iter().map(|series| series.label.chars().count()).max();
    let room = COLUMN - TEXT - 24.0;
    if longest.unwrap_or(0) as f64 * CHARACTER > room {
        1
    } else {
        2
    }
}

/// A series in the legend.
fn entry(svg: &mut String, label: &str, number: usize, (x, y): (f64, f64)) {
    let colour = COLOURS[number % COLOURS.len()];
    let _ = writeln!(
        svg,
        "<line x1=\"{}\" y1=\"{1}\" x2=\"{2}\" y2=\"{1}\" stroke=\"{colour}\"{3}/>\n\
         <circle cx=\"{x}\" cy=\"{1}\" r=\"3\" fill=\"{colour}\"/>\n\
         <text x=\"{4}\" y=\"{y}\">{5}</text>",
        x - 12.0,
        y - 4.0,
        x + 12.0,
        dashes(number),
        x + TEXT,
        visible_xml(label)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: Titles<'static> = Titles {
        over: Some("loss"),
        units: &[],
        values: "goodput, Mbit/s",
        beside: "the paper",
    };

    fn point(x: impl Into<Value>, scheme: &str, mean: f64, paper: Option<f64>) -> Plotted {
        Plotted {
            at: vec![
                ("link.a.loss".to_owned(), x.into()),
                ("scheme".to_owned(), scheme.into()),
            ],
            mean,
            ci95: Some(0.1),
            paper,
            n: None,
            deterministic: false,
            runs: None,
            equal: false,
        }
    }

    /// The texts at the y axis.
    fn ticks(svg: &str) -> Vec<&str> {
        let at = format!("<text x=\"{}\" ", LEFT - 6.0);
        let lines = svg.lines().filter(|line| line.starts_with(&at));
        lines
            .filter_map(|line| line.split_once('>')?.1.strip_suffix("</text>"))
            .collect()
    }

    #[test]
    fn each_point_has_a_mark_its_interval_and_the_papers_figure() {
        let points = [
            point(0, "a<b", 1.0, None),
            point(10, "a<b", 2.0, Some(2.5)),
            point(30, "a<b", 3.0, None),
            point(0, "c", 2.0, None),
            point(10, "c", 2.0, None),
            point(30, "c", 2.0, None),
        ];
        let svg = plot(&points, &TITLES).expect("a plot");
        assert_eq!(svg.matches("<polyline").count(), 2);
        // Six points, and two entries of the legend.
        assert_eq!(svg.matches("r=\"3\"").count(), 8);
        assert_eq!(
            svg.matches("fill=\"none\" stroke=\"#0072b2\"/>").count(),
            2,
            "a line and the paper's square"
        );
        assert!(svg.contains("scheme a&lt;b") && svg.contains(">a.loss<"), "{svg}");
        let units = [("a.loss".to_owned(), "%".to_owned())];
        let titles = Titles {
            units: &units,
            ..TITLES
        };
        let with_unit = plot(&points, &titles).expect("a plot");
        assert!(with_unit.contains(">a.loss, %<"), "{with_unit}");
        // 10 lies a third of the way from 0 to 30.
        let x = LEFT + INSET + (RIGHT - LEFT - 2.0 * INSET) / 3.0;
        assert!(svg.contains(&format!("cx=\"{x:.1}\"")), "{svg}");
    }

    #[test]
    fn two_figures_make_no_plot() {
        let ours = |x: i32| point(x, "a", 2.0, None);
        let of_paper = |x: i32| point(x, "a", 2.0, Some(2.5));
        for few in [&[][..], &[ours(1)], &[of_paper(1)], &[ours(1), ours(5)]] {
            assert_eq!(plot(few, &TITLES), None);
        }
        for (marks, points) in [(3, &[ours(1), ours(5), ours(9)][..]), (2, &[ours(1), of_paper(5)])] {
            let svg = plot(points, &TITLES).expect("a plot");
            assert_eq!(svg.matches("cx=").count() - 1, marks, "{svg}");
        }
        let no_axes = Plotted {
            at: Vec::new(),
            ..ours(1)
        };
        assert!(plot(&vec![no_axes; 3], &TITLES).expect("a plot").contains("<circle"));
    }

    #[test]
    fn categories_are_not_joined_and_lie_side_by_side() {
        let points = [
            point("droptail", "a", 1.0, None),
            point("red", "a", 2.0, None),
            point("droptail", "c", 1.0, None),
            point("red", "c", 2.0, None),
        ];
        let svg = plot(&points, &TITLES).expect("a plot");
        assert!(!svg.contains("<polyline"), "{svg}");
        let places: std::collections::BTreeSet<&str> = svg
            .split("<circle cx=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .filter(|x| x.contains('.'))
            .collect();
        assert_eq!(places.len(), 4, "each mark has its own place: {places:?}");
    }

    #[test]
    fn the_axis_of_values_has_round_steps_and_a_title() {
        let of = |values: &[f64]| {
            // The values again, as a plot has at least three.
            let points: Vec<_> = values
                .iter()
                .chain(values)
                .enumerate()
                .map(|(x, value)| Plotted {
                    ci95: None,
                    ..point(x, "a", *value, None)
                })
                .collect();
            plot(&points, &TITLES).expect("a plot")
        };
        assert!(of(&[1.0, 2.0]).contains(">goodput, Mbit/s</text>"));
        assert_eq!(ticks(&of(&[0.1, 1.873])), ["0.0", "0.5", "1.0", "1.5", "2.0"]);
        assert_eq!(ticks(&of(&[1.91, 1.937])), ["1.91", "1.92", "1.93", "1.94"]);
        assert_eq!(ticks(&of(&[-3.0, 41.0])), ["-20", "0", "20", "40", "60"]);
        assert_eq!(ticks(&of(&[1.0, 1.0])), ["0.95", "1.00", "1.05"]);
        assert_eq!(ticks(&of(&[0.0, 0.0])).len(), 3);
        assert_eq!(ticks(&of(&[0.0, 2e6])), ["0.0", "0.5 M", "1.0 M", "1.5 M", "2.0 M"]);
        assert_eq!(ticks(&of(&[1e5, 1.2e5])), ["100 k", "105 k", "110 k", "115 k", "120 k"]);
    }

    #[test]
    fn long_labels_of_the_legend_have_a_line_each() {
        let drawn = |label: &str| {
            let points: Vec<_> = ["a", "b", "c"]
                .map(|end| point(0, &format!("{label}{end}"), 1.0, None))
                .into();
            let svg = plot(&points, &TITLES).expect("a plot");
            let height = svg
                .split("viewBox=\"0 0 640 ")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let height: f64 = height.and_then(|height| height.parse().ok()).expect("a height");
            let columns = svg.matches(&format!("<text x=\"{}\"", LEFT + COLUMN + TEXT)).count();
            (columns, height)
        };
        let ((short, low), (long, high)) = (drawn("x"), drawn("routing aodv, transport udp-256, speed 25 "));
        assert_eq!((short, long), (1, 0), "entries in the second column");
        assert!((high - low - 16.0).abs() < 1e-9, "{low} {high}");
    }

    #[test]
    fn more_series_than_colours_are_all_there() {
        let points: Vec<_> = (0..9)
            .flat_map(|scheme| [0, 1].map(|x| point(x, &format!("s{scheme}"), f64::from(scheme), None)))
            .collect();
        let svg = plot(&points, &TITLES).expect("a plot");
        assert_eq!(svg.matches("<polyline").count(), 9);
        assert!(svg.contains("scheme s8") && svg.contains("stroke-dasharray"), "{svg}");
    }
}
