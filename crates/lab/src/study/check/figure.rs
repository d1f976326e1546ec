//! Checks of single figures: bounds, and values of a paper.

use super::certainty::Distance;
use super::equal::{is_itself, neutral};
use super::part::{Part, nothing};
use crate::stats::TAIL;
use crate::study::figures::{Case, Trouble, combined, expected_fits, label};
use crate::study::file::{Check, Expected, Selection};
use crate::study::verdict::Verdict;

/// Reproduced within the strict bound, in direction only within the other one.
pub(super) fn graded(strict: bool, partly: bool) -> Verdict {
    match (strict, partly) {
        (true, _) => Verdict::Reproduced,
        (false, true) => Verdict::Direction,
        (false, false) => Verdict::Not,
    }
}

/// Checks that the bounds for the direction, the lower and the upper one, are wider than the strict ones.
fn wider([(low, low_partly), (high, high_partly)]: [(Option<f64>, Option<f64>); 2]) -> Result<(), Trouble> {
    let trouble = |field| Err(Trouble::new(field, "a bound wider than the strict one expected", None));
    if low_partly.is_some_and(|partly| low.is_none_or(|low| partly > low)) {
        return trouble("at_least_partly");
    }
    if high_partly.is_some_and(|partly| high.is_none_or(|high| partly < high)) {
        return trouble("at_most_partly");
    }
    Ok(())
}

/// Refuses infinities and what is not a number.
fn finite(field: &str, value: f64) -> Result<(), Trouble> {
    if value.is_finite() {
        return Ok(());
    }
    Err(Trouble::new(
        field,
        format!("a finite number expected, found {value}"),
        None,
    ))
}

pub(super) fn bounds(check: &Check, case: &Case) -> Result<Part, Trouble> {
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
    for (field, bound) in [
        ("at_least", at_least),
        ("at_most", at_most),
        ("at_least_partly", at_least_partly),
        ("at_most_partly", at_most_partly),
    ] {
        finite(field, bound.unwrap_or_default())?;
    }
    wider([(*at_least, *at_least_partly), (*at_most, *at_most_partly)])?;
    let summary = case.summary();
    let Some(mean) = summary.mean else {
        return Ok(nothing(label(&case.at)));
    };
    // What is a bound by decimals may miss it in binary.
    let dust = 1e-9 * mean.abs();
    // By how much the mean may miss a bound, or must be beyond it; of one run nothing is sure.
    let reach = match (*noise, *surely) {
        (true, _) => summary.ci95.unwrap_or(0.0) + dust,
        (_, true) => -summary.ci95.unwrap_or(f64::INFINITY) - dust.max(1e-12),
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
    // Of one run nothing is sure, neither that it holds nor that it fails.
    let open = open || (*surely && summary.ci95.is_none());
    let strict = within(*at_least, *at_most);
    let exact = graded(strict, wide || signed);
    let equality = at_least.is_some() && at_most.is_some();
    let mut text = case.text();
    if *surely && summary.ci95.is_none() {
        text += "; a single run";
    }
    Ok(Part {
        label: label(&case.at),
        verdict: if open { Verdict::Inconclusive } else { exact },
        exact,
        text,
        figure: Some(summary),
        margin: margins.into_iter().flatten().fold(f64::INFINITY, f64::min),
        away: distance(case, nearest, if equality { 2 } else { 1 }),
        tail: TAIL,
        identity: case.identity(),
    }
    .unless_vacuous(of, case, equality))
}

/// How far a figure is from what decides; none without an interval.
fn distance(case: &Case, distance: f64, comparisons: usize) -> Option<Distance> {
    let summary = case.summary();
    let half_width = summary.ci95.filter(|_| !case.deterministic)?;
    Some(Distance {
        n: summary.n,
        half_width,
        distance,
        comparisons,
    })
}

impl Part {
    /// A point that holds because both sides are the same runs is vacuous, unless the claim is that two configurations are equal: then it
    /// could have failed.
    fn unless_vacuous(mut self, of: &Selection, case: &Case, equality: bool) -> Self {
        let could_fail = equality && !is_itself(of, &case.at);
        if case.equal && self.verdict == Verdict::Reproduced && !could_fail {
            self.verdict = Verdict::Vacuous;
            self.text += "; both sides are the same runs";
        }
        self
    }
}

pub(super) fn near(
    of: &Selection,
    cases: &[Case],
    (value, values): (Option<f64>, &[Expected]),
    within: f64,
    within_partly: Option<f64>,
    thinned: bool,
) -> Result<Vec<Part>, Trouble> {
    let given = [value.is_some(), !values.is_empty(), of.theory.is_some()];
    if given.into_iter().filter(|given| *given).count() != 1 {
        let message = "one of `value`, `values` and the selection's `theory` expected";
        return Err(Trouble::new("", message, None));
    }
    let given = value.map(|value| ("value".to_owned(), value)).into_iter();
    let listed = values.iter().enumerate();
    for (field, value) in
        given.chain(listed.map(|(number, expected)| (format!("values[{number}].value"), expected.value)))
    {
        finite(&field, value)?;
        if value == 0.0 {
            let message = "there is no relative difference from 0: a check of kind `bounds` expected";
            return Err(Trouble::new(field, message, None));
        }
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
                let beyond = ((mean - expected).abs() - within * expected.abs()).abs();
                let open = !case.deterministic && ci95 > beyond;
                let near = graded(
                    off <= within,
                    signed || within_partly.is_some_and(|within| off <= within),
                );
                Part {
                    label: label(&case.at),
                    verdict: if open { Verdict::Inconclusive } else { near },
                    exact: near,
                    text: match (value, case.theory) {
                        (Some(_), _) => case.text(),
                        (None, Some(theory)) => format!("{} for {theory:.4}", case.text()),
                        (None, None) => format!("{} for {expected}", case.text()),
                    },
                    figure: Some(summary),
                    margin: -off,
                    away: distance(case, beyond, 2),
                    tail: TAIL,
                    identity: case.identity().map(|identity| combined([identity, expected.to_bits()])),
                }
                .unless_vacuous(of, case, true)
            }
        });
    };
    if let Some(value) = value {
        cases.iter().for_each(|case| part(case, value));
        return Ok(parts);
    }
    if of.theory.is_some() {
        cases
            .iter()
            .for_each(|case| part(case, case.theory.unwrap_or(f64::NAN)));
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
