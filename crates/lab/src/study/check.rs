//! From figures to verdicts.

use serde::Serialize;
use serde_json::Value;
use whimbrel_scenario::word_hint;

use super::figures::{At, Case, Figured, Trouble, axis_of, expected_fits, label, same};
use super::file::{Check, ClaimEntry, Direction, Expected, Selection};
use crate::output::text;
use crate::report::figure;
use crate::stats::Summary;

/// Whether a claim came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It did not.
    Not,
    /// Only within the wider bounds, or not at all points.
    Partly,
    /// It did.
    Reproduced,
}

impl Verdict {
    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Partly => "partly",
            Verdict::Not => "not",
        }
    }
}

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// In words and numbers.
    pub(crate) text: String,
    /// The figure, if the claim is about a single one.
    pub(crate) figure: Option<Summary>,
    /// How far its worst part is from the claim: smaller is worse.
    margin: f64,
}

/// What a series or a single figure came to.
struct Part {
    label: String,
    verdict: Verdict,
    text: String,
    figure: Option<Summary>,
    /// How far from the claim, for finding the worst: smaller is worse.
    margin: f64,
}

/// Checks a claim.
pub(crate) fn evaluate(claim: &ClaimEntry, data: &Figured<'_>) -> Result<Finding, Trouble> {
    let (selection, over) = claim.check.subject();
    let cases = data.cases(selection).map_err(|trouble| trouble.within("of"))?;
    let over = over.map(|given| known_axis("over", given, &cases)).transpose()?;
    let Some(given) = &claim.for_some else {
        return Ok(whole(&parts(&claim.check, &cases, over.as_deref(), data.thinned)?));
    };
    let some = known_axis("for_some", given, &cases)?;
    let mut best: Option<Finding> = None;
    for (value, cases) in grouped(&cases, |case| {
        let (_, value) = case.split(&some);
        value
            .map(|value| vec![(some.clone(), value.clone())])
            .unwrap_or_default()
    }) {
        let inner: Vec<_> = cases
            .iter()
            .map(|case| Case {
                at: case.split(&some).0,
                samples: case.samples.clone(),
            })
            .collect();
        let mut finding = whole(&parts(&claim.check, &inner, over.as_deref(), data.thinned)?);
        finding.text = format!("with {}: {}", label(&value), finding.text);
        if best.as_ref().is_none_or(|best| finding.is_better_than(best)) {
            best = Some(finding);
        }
    }
    best.ok_or_else(|| Trouble::new("of", "nothing is selected", None))
}

impl Finding {
    /// Of equal verdicts the one is better that keeps farther within its bounds.
    fn is_better_than(&self, other: &Finding) -> bool {
        let order = self.verdict.cmp(&other.verdict);
        order.then(self.margin.total_cmp(&other.margin)).is_gt()
    }
}

fn known_axis(field: &str, given: &str, cases: &[Case]) -> Result<String, Trouble> {
    axis_of(given, cases).ok_or_else(|| {
        let names: Vec<_> = cases
            .iter()
            .take(1)
            .flat_map(|case| &case.at)
            .map(|(name, _)| name)
            .collect();
        Trouble::new(
            field,
            format!("there is no free axis `{given}`"),
            word_hint(given, &names, "axes"),
        )
    })
}

impl Check {
    /// What is looked at, and along which axis.
    fn subject(&self) -> (&Selection, Option<&str>) {
        match self {
            Check::Bounds { of, .. } | Check::Near { of, .. } => (of, None),
            Check::Trend { of, over, .. }
            | Check::Flat { of, over, .. }
            | Check::Best { of, over, .. }
            | Check::Linear { of, over, .. } => (of, Some(over)),
        }
    }
}

/// What all parts say together: the claim must hold for each of them.
fn whole(parts: &[Part]) -> Finding {
    let best = parts.iter().map(|part| part.verdict).max().unwrap_or(Verdict::Not);
    let least = parts.iter().map(|part| part.verdict).min().unwrap_or(Verdict::Not);
    let verdict = if least == best { least } else { Verdict::Partly };
    if let [part] = parts {
        return Finding {
            verdict,
            text: part.text.clone(),
            figure: part.figure,
            margin: part.known_margin(),
        };
    }
    let worst = parts.iter().min_by(|a, b| {
        a.verdict
            .cmp(&b.verdict)
            .then(a.known_margin().total_cmp(&b.known_margin()))
    });
    let hold = parts.iter().filter(|part| part.verdict == Verdict::Reproduced).count();
    let text = match worst {
        Some(worst) => {
            let name = if worst.label.is_empty() {
                String::new()
            } else {
                format!(" at {}", worst.label)
            };
            let closest = if hold == parts.len() { "closest" } else { "worst" };
            format!("{hold} of {} hold; {closest}: {}{name}", parts.len(), worst.text)
        }
        None => "nothing was measured".to_owned(),
    };
    Finding {
        verdict,
        text,
        figure: worst.and_then(|worst| worst.figure),
        margin: worst.map_or(f64::NEG_INFINITY, Part::known_margin),
    }
}

impl Part {
    /// Nothing measured is farthest from any claim.
    fn known_margin(&self) -> f64 {
        if self.margin.is_nan() {
            f64::NEG_INFINITY
        } else {
            self.margin
        }
    }
}

fn parts(check: &Check, cases: &[Case], over: Option<&str>, thinned: bool) -> Result<Vec<Part>, Trouble> {
    match check {
        Check::Bounds { .. } => cases.iter().map(|case| bounds(check, case)).collect(),
        Check::Near {
            value,
            values,
            within,
            within_partly,
            ..
        } => near(cases, (*value, values), *within, *within_partly, thinned),
        Check::Trend { .. } | Check::Flat { .. } | Check::Best { .. } | Check::Linear { .. } => {
            let over = over.unwrap_or_default();
            let series = grouped(cases, |case| case.split(over).0);
            series
                .iter()
                .map(|(at, cases)| series_part(check, over, at, cases))
                .collect()
        }
    }
}

/// Cases by what `key` says of them, in the order of their first ones.
fn grouped(cases: &[Case], key: impl Fn(&Case) -> At) -> Vec<(At, Vec<&Case>)> {
    let mut groups: Vec<(At, Vec<&Case>)> = Vec::new();
    for case in cases {
        let key = key(case);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(case),
            None => groups.push((key, vec![case])),
        }
    }
    groups
}

fn nothing(label: String) -> Part {
    Part {
        label,
        verdict: Verdict::Not,
        text: "nothing was measured".to_owned(),
        figure: None,
        margin: f64::NAN,
    }
}

/// Reproduced within the strict bound, partly within the other one.
fn graded(strict: bool, partly: bool) -> Verdict {
    match (strict, partly) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::Partly,
        (false, false) => Verdict::Not,
    }
}

fn bounds(check: &Check, case: &Case) -> Result<Part, Trouble> {
    let Check::Bounds {
        at_least,
        at_most,
        at_least_partly,
        at_most_partly,
        noise,
        surely,
        ..
    } = check
    else {
        return Err(Trouble::new("", "bounds expected", None));
    };
    if at_least.is_none() && at_most.is_none() {
        return Err(Trouble::new("", "`at_least`, `at_most` or both expected", None));
    }
    if *noise && *surely {
        return Err(Trouble::new("surely", "either `noise` or `surely` expected", None));
    }
    for (strict, partly, field) in [
        (at_least, at_least_partly, "at_least_partly"),
        (at_most, at_most_partly, "at_most_partly"),
    ] {
        let wider = match (strict, partly) {
            (Some(strict), Some(partly)) if field == "at_least_partly" => partly <= strict,
            (Some(strict), Some(partly)) => partly >= strict,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        if !wider {
            return Err(Trouble::new(field, "a bound wider than the strict one expected", None));
        }
    }
    let summary = case.summary();
    let Some(mean) = summary.mean else {
        return Ok(nothing(label(&case.at)));
    };
    // What is a bound by decimals may miss it in binary.
    let dust = 1e-9 * mean.abs();
    // By how much the mean may miss a bound, or must be beyond it; of one run nothing is sure.
    let reach = match (*noise, *surely) {
        (true, _) => summary.ci95.unwrap_or(0.0) + dust,
        (_, true) => -summary.ci95.unwrap_or(f64::INFINITY) - dust,
        _ => dust,
    };
    let within = |low: Option<f64>, high: Option<f64>| {
        low.is_none_or(|low| mean + reach >= low) && high.is_none_or(|high| mean - reach <= high)
    };
    let partly = at_least_partly.is_some() || at_most_partly.is_some();
    let wide = partly && within(at_least_partly.or(*at_least), at_most_partly.or(*at_most));
    let scale = |bound: f64| bound.abs().max(1e-12);
    let margins = [
        at_least.map(|low| (mean + reach - low) / scale(low)),
        at_most.map(|high| (high - mean + reach) / scale(high)),
    ];
    Ok(Part {
        label: label(&case.at),
        verdict: graded(within(*at_least, *at_most), wide),
        text: figure(&summary),
        figure: Some(summary),
        margin: margins.into_iter().flatten().fold(f64::INFINITY, f64::min),
    })
}

fn near(
    cases: &[Case],
    (value, values): (Option<f64>, &[Expected]),
    within: f64,
    within_partly: Option<f64>,
    thinned: bool,
) -> Result<Vec<Part>, Trouble> {
    if value.is_some() != values.is_empty() {
        return Err(Trouble::new("", "either `value` or `values` expected", None));
    }
    let mut parts = Vec::new();
    let mut part = |case: &Case, expected: f64| {
        let summary = case.summary();
        parts.push(match summary.mean {
            None => nothing(label(&case.at)),
            Some(mean) => {
                let off = (mean / expected - 1.0).abs();
                Part {
                    label: label(&case.at),
                    verdict: graded(off <= within, within_partly.is_some_and(|within| off <= within)),
                    text: if value.is_some() {
                        figure(&summary)
                    } else {
                        format!("{} for {expected}", figure(&summary))
                    },
                    figure: Some(summary),
                    margin: -off,
                }
            }
        });
    };
    if let Some(value) = value {
        cases.iter().for_each(|case| part(case, value));
        return Ok(parts);
    }
    for (number, expected) in values.iter().enumerate() {
        let mut found = false;
        for case in cases {
            let names: Vec<_> = case.at.iter().map(|(name, _)| name.clone()).collect();
            let fits = expected_fits(expected, &case.at, &names);
            if fits.map_err(|trouble| trouble.within(&format!("values[{number}].at")))? {
                part(case, expected.value);
                found = true;
            }
        }
        if !found && !thinned {
            let message = format!("there is no point {}", label(&expected.at.0));
            return Err(Trouble::new(format!("values[{number}].at"), message, None));
        }
    }
    Ok(parts)
}

/// A point of a series.
struct Dot<'c> {
    value: &'c Value,
    case: &'c Case,
    mean: f64,
}

fn series_part(check: &Check, over: &str, at: &[(String, Value)], cases: &[&Case]) -> Result<Part, Trouble> {
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
            trend(&dots, *direction, *slack, *ties, *every_step, *factor)
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
    })
}

/// The figures along the axis; of many, the ends and some between.
fn listed(dots: &[Dot<'_>]) -> String {
    const MOST: usize = 8;
    let one = |dot: &Dot<'_>| format!("{} at {}", figure(&dot.case.summary()), text(dot.value));
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
    let told = |count, one, many| match count {
        0 => String::new(),
        1 => format!("; 1 step {one}"),
        n => format!("; {n} steps {many}"),
    };
    let said =
        told(against, "goes the other way", "go the other way") + &told(level, "is within noise", "are within noise");
    (graded(right && enough && against + level == 0, right), said, worst)
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

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
