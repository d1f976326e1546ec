//! From figures to verdicts.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use whimbrel_scenario::word_hint;

use super::figures::{At, Case, Figured, Trouble, axis_of, expected_fits, label, same};
use super::file::{Check, ClaimEntry, Direction, Expected, Selection};
use crate::output::text;
use crate::stats::Summary;

/// Whether a claim came out. Of several points or series the share decides for which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Verdict {
    /// Nothing happened that could fail it, or it holds by definition.
    #[serde(rename = "vacuous")]
    Vacuous,
    /// It does not come out.
    #[serde(rename = "not")]
    Not,
    /// The interval includes both that it does and that it does not.
    #[serde(rename = "inconclusive")]
    Inconclusive,
    /// The sign is right, the size is not.
    #[serde(rename = "direction only")]
    Direction,
    /// It comes out for half of the points or more.
    #[serde(rename = "mostly")]
    Mostly,
    /// It comes out for nine points of ten or more.
    #[serde(rename = "reproduced")]
    Reproduced,
}

/// Least share of points for a claim to be reproduced, and for it to be mostly reproduced.
const SHARES: [f64; 2] = [0.9, 0.5];

impl Verdict {
    /// All of them, the best one first.
    pub const ALL: [Verdict; 6] = [
        Verdict::Reproduced,
        Verdict::Mostly,
        Verdict::Direction,
        Verdict::Not,
        Verdict::Inconclusive,
        Verdict::Vacuous,
    ];

    /// The word in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::Mostly => "mostly",
            Verdict::Direction => "direction only",
            Verdict::Not => "not",
            Verdict::Inconclusive => "inconclusive",
            Verdict::Vacuous => "vacuous",
        }
    }

    /// The class of a claim that comes out for `holds` of `all` points, whose direction is right for `direction` others, and of which
    /// `open` more cannot be told.
    pub(crate) fn of_shares(holds: usize, direction: usize, open: usize, all: usize) -> Verdict {
        let share = |count: usize| count as f64 / all.max(1) as f64;
        if all == 0 {
            Verdict::Vacuous
        } else if share(holds) >= SHARES[0] {
            Verdict::Reproduced
        } else if share(holds) >= SHARES[1] {
            Verdict::Mostly
        } else if share(holds + direction) >= SHARES[1] {
            Verdict::Direction
        } else if share(holds + direction + open) >= SHARES[1] {
            Verdict::Inconclusive
        } else {
            Verdict::Not
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
    /// Seeds that would decide it, if it is open.
    pub(crate) seeds: Option<usize>,
    /// The figures of all points, for plots.
    pub(crate) points: Vec<Plotted>,
    /// How far its worst part is from the claim: smaller is worse.
    margin: f64,
}

/// A figure at a point, and the paper's if it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plotted {
    /// The values of the free axes.
    pub(crate) at: Vec<(String, Value)>,
    pub(crate) mean: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ci95: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paper: Option<f64>,
}

/// What a series or a single figure came to.
struct Part {
    label: String,
    verdict: Verdict,
    text: String,
    figure: Option<Summary>,
    /// How far from the claim, for finding the worst: smaller is worse.
    margin: f64,
    /// Seeds that would decide it, if it is open.
    seeds: Option<usize>,
}

/// Checks a claim.
pub(crate) fn evaluate(claim: &ClaimEntry, data: &Figured<'_>) -> Result<Finding, Trouble> {
    let (selection, over) = claim.check.subject();
    let cases = data.cases(selection).map_err(|trouble| trouble.within("of"))?;
    let over = over.map(|given| known_axis("over", given, &cases)).transpose()?;
    let points = plotted(&claim.check, &cases);
    let judge = |cases: &[Case]| parts(&claim.check, cases, over.as_deref(), data.thinned).map(|parts| whole(&parts));
    let conclude = |mut finding: Finding| {
        if claim.vacuous.is_some() {
            finding.verdict = Verdict::Vacuous;
        }
        Finding { points, ..finding }
    };
    let Some(given) = &claim.for_some else {
        return judge(&cases).map(conclude);
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
                deterministic: case.deterministic,
            })
            .collect();
        let mut finding = judge(&inner)?;
        finding.text = format!("with {}: {}", label(&value), finding.text);
        if best.as_ref().is_none_or(|best| finding.is_better_than(best)) {
            best = Some(finding);
        }
    }
    best.map(conclude)
        .ok_or_else(|| Trouble::new("of", "nothing is selected", None))
}

/// The figures of all points that have any.
fn plotted(check: &Check, cases: &[Case]) -> Vec<Plotted> {
    let expected = |case: &Case| match check {
        Check::Near { value, values, .. } => {
            let names: Vec<_> = case.at.iter().map(|(name, _)| name.clone()).collect();
            let fits = |expected: &&Expected| expected_fits(expected, &case.at, &names).unwrap_or(false);
            value.or_else(|| values.iter().find(fits).map(|expected| expected.value))
        }
        _ => None,
    };
    let point = |case: &Case| {
        let summary = case.summary();
        Some(Plotted {
            at: case.at.clone(),
            mean: summary.mean?,
            ci95: summary.ci95,
            paper: expected(case),
        })
    };
    cases.iter().filter_map(point).collect()
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

/// What all parts say together.
fn whole(parts: &[Part]) -> Finding {
    let count = |verdict: Verdict| parts.iter().filter(|part| part.verdict == verdict).count();
    let holds = count(Verdict::Reproduced);
    let (direction, open) = (count(Verdict::Direction), count(Verdict::Inconclusive));
    let verdict = Verdict::of_shares(holds, direction, open, parts.len());
    let open = parts.iter().filter(|part| part.verdict == Verdict::Inconclusive);
    let seeds = open.filter_map(|part| part.seeds).max();
    let seeds = seeds.filter(|_| verdict == Verdict::Inconclusive);
    let decide = seeds.map_or_else(String::new, |seeds| format!("; about {seeds} seeds would decide"));
    if let [part] = parts {
        return Finding {
            verdict,
            text: format!("{}{decide}", part.text),
            figure: part.figure,
            seeds,
            points: Vec::new(),
            margin: part.known_margin(),
        };
    }
    let worst = parts.iter().min_by(|a, b| {
        a.verdict
            .cmp(&b.verdict)
            .then(a.known_margin().total_cmp(&b.known_margin()))
    });
    let text = match worst {
        Some(worst) => {
            let name = if worst.label.is_empty() {
                String::new()
            } else {
                format!(" at {}", worst.label)
            };
            let closest = if holds == parts.len() { "closest" } else { "worst" };
            let right = match direction {
                0 => String::new(),
                n => format!(", {n} in direction only"),
            };
            format!(
                "{holds} of {} hold{right}; {closest}: {}{name}{decide}",
                parts.len(),
                worst.text
            )
        }
        None => "nothing was measured".to_owned(),
    };
    Finding {
        verdict,
        text,
        figure: worst.and_then(|worst| worst.figure),
        seeds,
        points: Vec::new(),
        margin: worst.map_or(f64::NEG_INFINITY, Part::known_margin),
    }
}

/// Seeds after which an interval of this half-width over `n` seeds would be as narrow as the distance to what decides; none if that is
/// beyond any run.
fn deciding_seeds(n: usize, half_width: f64, distance: f64) -> Option<usize> {
    const MOST: f64 = 1e6;
    let seeds = n as f64 * (half_width / distance.abs()).powi(2);
    (seeds <= MOST).then(|| (seeds.ceil() as usize).max(n + 1))
}

/// The value that says neither more nor less: of a ratio one, of a difference zero.
fn neutral(of: &Selection) -> Option<f64> {
    match (&of.to, &of.minus) {
        (Some(_), None) => Some(1.0),
        (None, Some(_)) => Some(0.0),
        _ => None,
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
            of,
            value,
            values,
            within,
            within_partly,
        } => near(of, cases, (*value, values), *within, *within_partly, thinned),
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

/// The grade of a figure of which only the mean and the interval over `n` seeds are known, and the seeds that would decide it; none if the check
/// is about series. `paper` is the figure it is compared with, if it is one of a list.
pub(crate) fn grade_figure(
    check: &Check,
    mean: f64,
    ci95: Option<f64>,
    paper: Option<f64>,
    n: usize,
) -> Option<(Verdict, Option<usize>)> {
    // Two samples with this mean and this interval.
    let spread = ci95.map_or(0.0, |ci95| ci95 / Summary::of([-1.0, 1.0]).ci95.unwrap_or(1.0));
    let samples = match ci95 {
        Some(_) => vec![mean - spread, mean + spread],
        None => vec![mean],
    };
    let two = samples.len();
    let case = Case {
        at: Vec::new(),
        samples,
        deterministic: false,
    };
    let part = match check {
        Check::Bounds { .. } => bounds(check, &case).ok()?,
        Check::Near {
            of,
            value,
            within,
            within_partly,
            ..
        } => {
            let expected = value.or(paper);
            let parts = near(of, &[case], (expected, &[]), *within, *within_partly, true).ok()?;
            parts.into_iter().next()?
        }
        _ => return None,
    };
    let seeds = part.seeds.map(|seeds| (seeds * n).div_ceil(two).max(n + 1));
    Some((part.verdict, seeds))
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
        seeds: None,
    }
}

/// Reproduced within the strict bound, in direction only within the other one.
fn graded(strict: bool, partly: bool) -> Verdict {
    match (strict, partly) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::Direction,
        (false, false) => Verdict::Not,
    }
}

fn bounds(check: &Check, case: &Case) -> Result<Part, Trouble> {
    let Check::Bounds {
        of,
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
    // The sign is right if the whole interval lies on the side of the bound.
    let ci95 = summary.ci95.unwrap_or(0.0);
    let signed = neutral(of).is_some_and(|neutral| {
        let above = at_least.is_some_and(|low| low > neutral) && mean - ci95 > neutral;
        let below = at_most.is_some_and(|high| high < neutral) && mean + ci95 < neutral;
        above || below
    });
    // What the interval includes: both that the claim holds and that it does not.
    let nearest = [at_least, at_most]
        .into_iter()
        .flatten()
        .map(|bound| (mean - bound).abs())
        .fold(f64::INFINITY, f64::min);
    let open = !*noise && !case.deterministic && ci95 > 0.0 && nearest + dust < ci95;
    let strict = within(*at_least, *at_most);
    let verdict = if open {
        Verdict::Inconclusive
    } else {
        graded(strict, wide || signed)
    };
    Ok(Part {
        label: label(&case.at),
        verdict,
        text: case.told(),
        figure: Some(summary),
        margin: margins.into_iter().flatten().fold(f64::INFINITY, f64::min),
        seeds: open.then(|| deciding_seeds(summary.n, ci95, nearest)).flatten(),
    })
}

fn near(
    of: &Selection,
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
                let ci95 = summary.ci95.unwrap_or(0.0);
                let signed = neutral(of).is_some_and(|neutral| {
                    let side = (expected - neutral).signum();
                    expected != neutral && (mean - neutral) * side - ci95 > 0.0
                });
                let distance = ((mean - expected).abs() - within * expected.abs()).abs();
                let open = !case.deterministic && ci95 > distance;
                let near = graded(
                    off <= within,
                    signed || within_partly.is_some_and(|within| off <= within),
                );
                Part {
                    label: label(&case.at),
                    verdict: if open { Verdict::Inconclusive } else { near },
                    text: if value.is_some() {
                        case.told()
                    } else {
                        format!("{} for {expected}", case.told())
                    },
                    figure: Some(summary),
                    margin: -off,
                    seeds: open.then(|| deciding_seeds(summary.n, ci95, distance)).flatten(),
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
    let one = |dot: &Dot<'_>| format!("{} at {}", dot.case.told(), text(dot.value));
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

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
