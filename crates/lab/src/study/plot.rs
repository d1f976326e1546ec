//! A claim's figures as a static SVG: ours with their intervals, and the paper's where they are known.

use std::fmt::Write as _;

use serde_json::Value;

use super::check::Plotted;
use crate::report::short;
use crate::text::text;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 624.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 256.0;
/// Colours that remain distinguishable with red-green colour blindness (Okabe and Ito 2008).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
];

/// Points of a line that have a mark.
const MOST_MARKS: usize = 40;

/// The plot of these points over the axis with most values; none of fewer than three points. `beside` names what they are compared with.
pub(super) fn plot(points: &[Plotted], over: Option<&str>, beside: &str) -> Option<String> {
    let first = points.first()?;
    let values = |axis: usize| -> Vec<&Value> {
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
    let x_axis = named.or_else(|| axes.max_by_key(|axis| (values(*axis).len(), *axis)))?;
    let xs = values(x_axis);
    if points.len() < 3 || xs.len() < 2 {
        return None;
    }
    let mut series: Vec<(String, Vec<&Plotted>)> = Vec::new();
    for point in points {
        let rest = point.at.iter().enumerate().filter(|(axis, _)| *axis != x_axis);
        let label: Vec<String> = rest
            .map(|(_, (name, value))| format!("{} {}", short(name), text(value)))
            .collect();
        let label = label.join(", ");
        match series.iter_mut().find(|(known, _)| *known == label) {
            Some((_, points)) => points.push(point),
            None => series.push((label, vec![point])),
        }
    }
    let numbers: Option<Vec<f64>> = xs.iter().map(|value| value.as_f64()).collect();
    let place = |value: &Value| -> f64 {
        let share = match (&numbers, value.as_f64()) {
            (Some(numbers), Some(number)) => {
                let low = numbers.iter().copied().fold(f64::INFINITY, f64::min);
                let high = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                (number - low) / (high - low).max(1e-300)
            }
            _ => {
                let index = xs.iter().position(|known| *known == value).unwrap_or(0);
                index as f64 / (xs.len() - 1) as f64
            }
        };
        LEFT + 24.0 + share * (RIGHT - LEFT - 48.0)
    };
    let reach = |point: &Plotted| {
        let ci95 = point.ci95.unwrap_or(0.0);
        [Some(point.mean - ci95), Some(point.mean + ci95), point.paper]
    };
    let ys: Vec<f64> = points.iter().flat_map(reach).flatten().collect();
    let (mut low, mut high) = ys.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), y| {
        (low.min(*y), high.max(*y))
    });
    if low > 0.0 && low < 0.6 * high {
        low = 0.0;
    }
    let margin = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-12);
    (low, high) = (if low == 0.0 { 0.0 } else { low - margin }, high + margin);
    let height = |y: f64| BOTTOM - (y - low) / (high - low) * (BOTTOM - TOP);
    let legend = series.len().min(COLOURS.len()).div_ceil(2) as f64;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{0}\" fill=\"#ffffff\"/>\n",
        HEIGHT + 16.0 * legend
    );
    frame(&mut svg, low, high, &height);
    // Of many values some are enough.
    const MOST_LABELS: usize = 12;
    for value in xs.iter().step_by(xs.len().div_ceil(MOST_LABELS)) {
        let x = place(value);
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            BOTTOM + 18.0,
            escaped(&text(value))
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        BOTTOM + 38.0,
        escaped(short(&first.at[x_axis].0))
    );
    for (number, (label, points)) in series.iter().take(COLOURS.len()).enumerate() {
        let colour = COLOURS[number];
        line(
            &mut svg,
            points,
            colour,
            &|point| (place(&point.at[x_axis].1), height(point.mean)),
            &height,
        );
        if !label.is_empty() {
            let (x, y) = (
                LEFT + 280.0 * (number % 2) as f64,
                HEIGHT - 4.0 + 16.0 * (number / 2) as f64,
            );
            let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{}\" r=\"4\" fill=\"{colour}\"/>", y - 4.0);
            let _ = writeln!(svg, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 10.0, escaped(label));
        }
    }
    if points.iter().any(|point| point.paper.is_some()) {
        let _ = writeln!(
            svg,
            "<text x=\"{RIGHT}\" y=\"18\" text-anchor=\"end\">hollow squares: {beside}</text>"
        );
    }
    svg.push_str("</svg>\n");
    Some(svg)
}

/// The frame, with four lines across.
fn frame(svg: &mut String, low: f64, high: f64, height: &dyn Fn(f64) -> f64) {
    for step in 0..=4 {
        let y = low + (high - low) * f64::from(step) / 4.0;
        let at = height(y);
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{RIGHT}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>"
        );
        let digits = if high - low >= 40.0 {
            0
        } else if high - low >= 0.4 {
            2
        } else {
            4
        };
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{y:.digits$}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
}

/// A series: its line, a mark and an interval for each point, the paper's figures.
fn line(
    svg: &mut String,
    points: &[&Plotted],
    colour: &str,
    place: &dyn Fn(&Plotted) -> (f64, f64),
    height: &dyn Fn(f64) -> f64,
) {
    let places: Vec<String> = points
        .iter()
        .map(|point| {
            let (x, y) = place(point);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\"/>",
        places.join(" ")
    );
    for point in points {
        let (x, y) = place(point);
        if let Some(ci95) = point.ci95.filter(|ci95| *ci95 > 0.0) {
            let (top, bottom) = (height(point.mean + ci95), height(point.mean - ci95));
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
            let y = height(paper);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\" fill=\"none\" stroke=\"{colour}\"/>",
                x - 4.0,
                y - 4.0
            );
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_point_has_a_mark_its_interval_and_the_papers_figure() {
        let point = |x: i64, scheme: &str, mean: f64, paper: Option<f64>| Plotted {
            at: vec![
                ("link.a.loss".to_owned(), x.into()),
                ("scheme".to_owned(), scheme.into()),
            ],
            mean,
            ci95: Some(0.1),
            paper,
        };
        let points = [
            point(0, "a<b", 1.0, None),
            point(10, "a<b", 2.0, Some(2.5)),
            point(30, "a<b", 3.0, None),
            point(0, "c", 2.0, None),
            point(10, "c", 2.0, None),
            point(30, "c", 2.0, None),
        ];
        let svg = plot(&points, Some("loss"), "the paper").expect("a plot");
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("r=\"3\"").count(), 6);
        assert_eq!(
            svg.matches("fill=\"none\" stroke=\"#0072b2\"/>").count(),
            2,
            "a line and the paper's square"
        );
        assert!(svg.contains("scheme a&lt;b") && svg.contains(">a.loss<"), "{svg}");
        // 10 lies a third of the way from 0 to 30.
        let x = LEFT + 24.0 + (RIGHT - LEFT - 48.0) / 3.0;
        assert!(svg.contains(&format!("cx=\"{x:.1}\"")), "{svg}");
        assert_eq!(plot(&points[..2], None, "the paper"), None);
    }
}
