//! Checks of series: trends, level ones, best values, straight lines.

use serde_json::Value;

use super::certainty::Distance;
use super::figure::graded;
use super::part_finding::{PartFinding, nothing};
use crate::stats::TAIL;
use crate::study::case::Change;
use crate::study::figures::{Case, StudyProblem, combined, label, same};
use crate::study::file::{Check, Direction};
use crate::study::verdict::Verdict;
use crate::text::text;

/// What a series came to: its class, and that without noise; what there is to say, how far it is from the claim, and the difference that
/// decides.
struct Judged {
    verdict: Verdict,
    exact: Verdict,
    said: String,
    margin: f64,
    away: Option<Distance>,
}

/// How far a difference, the worst of this number, is from what decides.
fn away(change: Change, distance: f64, comparisons: usize) -> Distance {
    Distance {
        n: change.n,
        half_width: change.noise,
        distance,
        comparisons,
    }
}

/// A point of a series.
struct Dot<'c> {
    value: &'c Value,
    case: &'c Case,
    mean: f64,
}

pub(super) fn series_part(
    check: &Check,
    over: &str,
    at: &[(String, Value)],
    cases: &[&Case],
) -> Result<PartFinding, StudyProblem> {
    let mut dots = Vec::with_capacity(cases.len());
    for case in cases {
        let (_, Some(value)) = case.split(over) else { continue };
        let Some(mean) = case.summary().mean else {
            return Ok(nothing(label(at)));
        };
        dots.push(Dot { value, case, mean });
    }
    if dots.len() < 2 {
        return Err(StudyProblem::new(
            "over",
            format!("`{over}` needs two values or more"),
            None,
        ));
    }
    let judged = match check {
        Check::Trend {
            direction,
            slack,
            ties,
            every_step,
            ..
        } => {
            if *ties && *every_step {
                return Err(StudyProblem::new(
                    "every_step",
                    "either `ties` or `every_step` expected",
                    None,
                ));
            }
            trend(&dots, *direction, *slack, *ties, *every_step)
        }
        Check::Flat { within, .. } => flat(&dots, *within),
        Check::Best { is, slack, .. } => best(&dots, is, *slack)?,
        Check::Linear {
            direction,
            r2,
            r2_partly,
            ..
        } => linear(&dots, *direction, *r2, *r2_partly)?,
        Check::Bounds { .. } | Check::Near { .. } => return Err(StudyProblem::new("", "a series expected", None)),
    };
    let identities: Option<Vec<u64>> = dots.iter().map(|dot| dot.case.identity()).collect();
    Ok(PartFinding {
        label: label(at),
        verdict: judged.verdict,
        exact: judged.exact,
        text: format!("{}{}", listed(&dots), judged.said),
        figure: None,
        margin: judged.margin,
        away: judged.away,
        tail: TAIL,
        identity: identities.map(combined),
    })
}

/// Whether the axis changes nothing: all points are the same runs.
fn untouched(dots: &[Dot<'_>]) -> bool {
    let first = dots[0].case.identity();
    first.is_some() && dots.iter().all(|dot| dot.case.identity() == first)
}

/// What there is to say where the axis changes nothing.
fn all_the_same(dots: &[Dot<'_>]) -> Option<String> {
    untouched(dots).then(|| "; all of them are the same runs".to_owned())
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

fn trend(dots: &[Dot<'_>], direction: Direction, slack: f64, ties: bool, every_step: bool) -> Judged {
    let sign = if direction == Direction::Rising { 1.0 } else { -1.0 };
    let (mut against, mut level, mut worst) = (0, 0, f64::INFINITY);
    let mut back: Option<Distance> = None;
    let steps = dots.len() - 1;
    for pair in dots.windows(2) {
        let step = pair[0].case.change_to(pair[1].case);
        let change = step.by * sign;
        let size = pair[0].mean.abs().max(pair[1].mean.abs());
        worst = worst.min(change / size.max(1e-12));
        // The worst of all steps is looked for: chance makes one of many go the other way.
        if change < 0.0 && -change > step.noise_among(steps) && -change > slack * size {
            against += 1;
            back = back
                .filter(|back| back.distance * step.noise < change * back.half_width)
                .or(Some(away(step, change, steps)));
        } else if every_step && change <= step.noise {
            level += 1;
        }
    }
    let (first, last) = (&dots[0], &dots[dots.len() - 1]);
    let ends = first.case.change_to(last.case);
    let (change, noise) = (ends.by * sign, ends.noise);
    let size = first.mean.abs().max(last.mean.abs());
    let limit = if ties { slack * size } else { 0.0 };
    let said = all_the_same(dots).filter(|_| ties).unwrap_or_else(|| {
        let count_of = |count, one, many| match count {
            0 => String::new(),
            1 => format!("; 1 step {one}"),
            n => format!("; {n} steps {many}"),
        };
        count_of(against, "goes the other way", "go the other way")
            + &count_of(level, "is within noise", "are within noise")
    });
    let end = if ties {
        at_most(-change, [noise; 2], limit)
    } else if change.abs() <= noise && noise > 0.0 {
        Verdict::Inconclusive
    } else {
        graded(change > noise, false)
    };
    let exact = if ties { -change <= limit } else { change > 0.0 };
    let ends = away(ends, change + limit, 1);
    let right = end == Verdict::Reproduced;
    let (verdict, away) = match end {
        _ if ties && untouched(dots) => (Verdict::Vacuous, None),
        // Neither up nor down beyond noise, but a step clearly goes the other way.
        Verdict::Inconclusive if against > 0 => (Verdict::Not, back),
        Verdict::Inconclusive => (Verdict::Inconclusive, Some(ends)),
        _ => (graded(right && against + level == 0, right), Some(ends)),
    };
    Judged {
        verdict,
        exact: graded(exact && against + level == 0, exact),
        said,
        margin: worst,
        away,
    }
}

/// The class of a difference that must be at most `limit`, with the noise below and above the limit.
fn at_most(difference: f64, [below, above]: [f64; 2], limit: f64) -> Verdict {
    let noise = if difference > limit { above } else { below };
    if noise > 0.0 && (difference - limit).abs() < noise {
        Verdict::Inconclusive
    } else {
        graded(difference <= limit, false)
    }
}

fn flat(dots: &[Dot<'_>], within: f64) -> Judged {
    let (mut low, mut high) = (&dots[0], &dots[0]);
    for dot in dots {
        low = if dot.mean < low.mean { dot } else { low };
        high = if dot.mean > high.mean { dot } else { high };
    }
    let mean = (dots.iter().map(|dot| dot.mean).sum::<f64>() / dots.len() as f64).abs();
    let span = high.mean - low.mean;
    let change = low.case.change_to(high.case);
    // The largest difference of all pairs.
    let pairs = dots.len() * (dots.len() - 1) / 2;
    let noise = [change.noise, change.noise_among(pairs)];
    let share = if span == 0.0 { 0.0 } else { span / mean };
    let limit = within * mean;
    let verdict = match untouched(dots) {
        true => Verdict::Vacuous,
        false => at_most(span, noise, limit),
    };
    let said = all_the_same(dots).unwrap_or_else(|| format!("; they span {:.2} % of their mean", share * 100.0));
    Judged {
        verdict,
        exact: graded(span <= limit, false),
        said,
        margin: -share,
        away: Some(away(change, span - limit, pairs)),
    }
}

fn best(dots: &[Dot<'_>], is: &Value, slack: f64) -> Result<Judged, StudyProblem> {
    let meant = |value: &Value| match is {
        Value::Array(several) => several.iter().any(|one| same(one, value)),
        one => same(one, value),
    };
    let (ours, others): (Vec<_>, Vec<_>) = dots.iter().partition(|dot| meant(dot.value));
    let Some(top) = ours.into_iter().max_by(|a, b| a.mean.total_cmp(&b.mean)) else {
        return Err(StudyProblem::new("is", format!("the axis has no value {is}"), None));
    };
    let mut worst: Option<(Verdict, f64, Distance)> = None;
    // What is the same runs is neither ahead nor behind.
    let differs = |other: &&&Dot<'_>| other.case.identity().is_none() || other.case.identity() != top.case.identity();
    let rivals: Vec<_> = others.iter().filter(differs).collect();
    for other in &rivals {
        let change = top.case.change_to(other.case);
        let size = other.mean.abs();
        let limit = slack * size;
        let margin = (limit - change.by) / size.max(1e-12);
        // The worst of all rivals is looked for: chance puts one of many ahead.
        let noise = [change.noise, change.noise_among(rivals.len())];
        let away = away(change, change.by - limit, rivals.len());
        let found = (at_most(change.by, noise, limit), margin, away);
        if worst.is_none_or(|worst| found.0.cmp(&worst.0).then(found.1.total_cmp(&worst.1)).is_lt()) {
            worst = Some(found);
        }
    }
    let highest = others.iter().copied().max_by(|a, b| a.mean.total_cmp(&b.mean));
    let highest = highest.filter(|other| other.mean > top.mean).unwrap_or(top);
    let Some((verdict, margin, away)) = worst else {
        return Ok(Judged {
            verdict: Verdict::Vacuous,
            exact: Verdict::Vacuous,
            said: all_the_same(dots).unwrap_or_default(),
            margin: 0.0,
            away: None,
        });
    };
    Ok(Judged {
        verdict,
        exact: graded(margin >= 0.0, false),
        said: format!("; highest at {}", text(highest.value)),
        margin,
        away: Some(away),
    })
}

fn linear(dots: &[Dot<'_>], direction: Direction, r2: f64, r2_partly: Option<f64>) -> Result<Judged, StudyProblem> {
    let mut points = Vec::with_capacity(dots.len());
    for dot in dots {
        let Some(x) = dot.value.as_f64() else {
            return Err(StudyProblem::new(
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
    Ok(Judged {
        verdict,
        exact: verdict,
        said: format!("; slope {slope:.3}, R² {explained:.3}"),
        margin: explained - r2,
        away: None,
    })
}
