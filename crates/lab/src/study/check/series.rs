//! Checks of series: trends, level ones, best values, straight lines.

use serde_json::Value;

use super::figure::{deciding_seeds, graded};
use super::{Part, nothing};
use crate::stats::Summary;
use crate::study::figures::{Case, Trouble, label, same};
use crate::study::file::{Check, Direction};
use crate::study::verdict::Verdict;
use crate::text::text;

/// A point of a series.
struct Dot<'c> {
    value: &'c Value,
    case: &'c Case,
    mean: f64,
}

pub(super) fn series_part(check: &Check, over: &str, at: &[(String, Value)], cases: &[&Case]) -> Result<Part, Trouble> {
    let mut dots = Vec::with_capacity(cases.len());
    for case in cases {
        let (_, Some(value)) = case.split(over) else { continue };
        let Some(mean) = case.summary().mean else {
            return Ok(nothing(label(at)));
        };
        dots.push(Dot { value, case, mean });
    }
    if dots.len() < 2 {
        return Err(Trouble::new("over", format!("`{over}` needs two values or more"), None));
    }
    let mut seeds = None;
    let (verdict, said, margin) = match check {
        Check::Trend {
            direction,
            slack,
            ties,
            every_step,
            factor,
            ..
        } => {
            if *ties && *every_step {
                return Err(Trouble::new(
                    "every_step",
                    "either `ties` or `every_step` expected",
                    None,
                ));
            }
            let judged = trend(&dots, *direction, *slack, *ties, *every_step, *factor);
            if judged.0 == Verdict::Inconclusive {
                let (change, noise) = difference(&dots[0], &dots[dots.len() - 1]);
                seeds = deciding_seeds(dots[0].case.samples.len(), noise, change);
            }
            judged
        }
        Check::Flat {
            within, within_partly, ..
        } => flat(&dots, *within, *within_partly),
        Check::Best {
            is,
            slack,
            slack_partly,
            ..
        } => best(&dots, is, *slack, *slack_partly)?,
        Check::Linear {
            direction,
            r2,
            r2_partly,
            ..
        } => linear(&dots, *direction, *r2, *r2_partly)?,
        Check::Bounds { .. } | Check::Near { .. } => return Err(Trouble::new("", "a series expected", None)),
    };
    Ok(Part {
        label: label(at),
        verdict,
        text: format!("{}{said}", listed(&dots)),
        figure: None,
        margin,
        seeds,
    })
}

/// The figures along the axis; of many, the ends and some between.
fn listed(dots: &[Dot<'_>]) -> String {
    const MOST: usize = 8;
    let one = |dot: &Dot<'_>| format!("{} at {}", dot.case.text(), text(dot.value));
    if dots.len() <= MOST {
        return dots.iter().map(one).collect::<Vec<_>>().join(", ");
    }
    let step = (dots.len() - 1) as f64 / (MOST - 1) as f64;
    let some: Vec<_> = (0..MOST)
        .filter_map(|i| dots.get((i as f64 * step).round() as usize))
        .map(one)
        .collect();
    some.join(", ")
}

/// By how much `b` is more than `a`, pair by pair of seeds, and the half-width of its interval.
fn difference(a: &Dot<'_>, b: &Dot<'_>) -> (f64, f64) {
    let pairs = a.case.samples.iter().zip(&b.case.samples).map(|(a, b)| b - a);
    let summary = Summary::of(pairs);
    (summary.mean.unwrap_or(b.mean - a.mean), summary.ci95.unwrap_or(0.0))
}

fn trend(
    dots: &[Dot<'_>],
    direction: Direction,
    slack: f64,
    ties: bool,
    every_step: bool,
    factor: Option<f64>,
) -> (Verdict, String, f64) {
    let sign = if direction == Direction::Rising { 1.0 } else { -1.0 };
    let (mut against, mut level, mut worst) = (0, 0, f64::INFINITY);
    for pair in dots.windows(2) {
        let (change, noise) = difference(&pair[0], &pair[1]);
        let change = change * sign;
        let size = pair[0].mean.abs().max(pair[1].mean.abs());
        worst = worst.min(change / size.max(1e-12));
        if change < 0.0 && -change > noise && -change > slack * size {
            against += 1;
        } else if every_step && change <= noise {
            level += 1;
        }
    }
    let (first, last) = (&dots[0], &dots[dots.len() - 1]);
    let (change, noise) = difference(first, last);
    let size = first.mean.abs().max(last.mean.abs());
    let right = if ties {
        change * sign >= -noise.max(slack * size)
    } else {
        change * sign > noise
    };
    let enough = factor.is_none_or(|factor| {
        let (low, high) = if sign > 0.0 {
            (first.mean, last.mean)
        } else {
            (last.mean, first.mean)
        };
        high >= factor * low
    });
    let count_of = |count, one, many| match count {
        0 => String::new(),
        1 => format!("; 1 step {one}"),
        n => format!("; {n} steps {many}"),
    };
    let said = count_of(against, "goes the other way", "go the other way")
        + &count_of(level, "is within noise", "are within noise");
    let verdict = graded(right && enough && against + level == 0, right);
    // Neither up nor down beyond noise.
    let open = !right && !ties && change.abs() <= noise && noise > 0.0;
    (if open { Verdict::Inconclusive } else { verdict }, said, worst)
}

fn flat(dots: &[Dot<'_>], within: f64, within_partly: Option<f64>) -> (Verdict, String, f64) {
    let low = dots.iter().map(|dot| dot.mean).fold(f64::INFINITY, f64::min);
    let high = dots.iter().map(|dot| dot.mean).fold(f64::NEG_INFINITY, f64::max);
    let mean = dots.iter().map(|dot| dot.mean).sum::<f64>() / dots.len() as f64;
    let span = if high == low { 0.0 } else { (high - low) / mean.abs() };
    let verdict = graded(span <= within, within_partly.is_some_and(|within| span <= within));
    (
        verdict,
        format!("; they span {:.2} % of their mean", span * 100.0),
        -span,
    )
}

fn best(
    dots: &[Dot<'_>],
    is: &Value,
    slack: f64,
    slack_partly: Option<f64>,
) -> Result<(Verdict, String, f64), Trouble> {
    let meant = |value: &Value| match is {
        Value::Array(several) => several.iter().any(|one| same(one, value)),
        one => same(one, value),
    };
    let top = |wanted: bool| {
        dots.iter()
            .filter(|dot| meant(dot.value) == wanted)
            .max_by(|a, b| a.mean.total_cmp(&b.mean))
    };
    let Some(ours) = top(true) else {
        return Err(Trouble::new("is", format!("the axis has no value {is}"), None));
    };
    let Some(other) = top(false) else {
        return Ok((Verdict::Reproduced, String::new(), 0.0));
    };
    let (behind, noise) = difference(ours, other);
    let share = behind / other.mean.abs().max(1e-12);
    let tied = |slack: f64| behind <= noise.max(slack * other.mean.abs());
    let said = format!(
        "; highest at {}",
        text(if behind > 0.0 { other.value } else { ours.value })
    );
    Ok((graded(tied(slack), slack_partly.is_some_and(tied)), said, -share))
}

fn linear(
    dots: &[Dot<'_>],
    direction: Direction,
    r2: f64,
    r2_partly: Option<f64>,
) -> Result<(Verdict, String, f64), Trouble> {
    let mut points = Vec::with_capacity(dots.len());
    for dot in dots {
        let Some(x) = dot.value.as_f64() else {
            return Err(Trouble::new(
                "over",
                format!("an axis of numbers expected, it has {}", dot.value),
                None,
            ));
        };
        points.push((x, dot.mean));
    }
    let n = points.len() as f64;
    let (mx, my) = points
        .iter()
        .fold((0.0, 0.0), |(mx, my), (x, y)| (mx + x / n, my + y / n));
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(|&(x, y)| of(x - mx, y - my)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    let slope = xy / xx;
    let explained = if yy > 0.0 { xy * xy / (xx * yy) } else { 0.0 };
    let right = match direction {
        Direction::Rising => slope > 0.0,
        Direction::Falling => slope < 0.0,
    };
    let verdict = graded(
        right && explained >= r2,
        right && r2_partly.is_some_and(|least| explained >= least),
    );
    Ok((
        verdict,
        format!("; slope {slope:.3}, R² {explained:.3}"),
        explained - r2,
    ))
}
