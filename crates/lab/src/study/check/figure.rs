//! Checks of single figures: bounds, and values of a paper.

use super::certainty::Distance;
use super::equal::{is_itself, neutral};
use super::part_finding::{PartFinding, nothing};
use crate::stats::TAIL;
use crate::study::figures::{Case, StudyProblem, combined, expected_fits, label};
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

/// The bounds of a figure, as far as they are given.
#[derive(Clone, Copy)]
struct Bounds {
    least: Option<f64>,
    most: Option<f64>,
}

impl Bounds {
    fn iter(self) -> impl Iterator<Item = f64> {
        self.least.into_iter().chain(self.most)
    }

    /// These bounds, and those of `other` where there are none.
    fn or(self, other: Bounds) -> Bounds {
        Bounds {
            least: self.least.or(other.least),
            most: self.most.or(other.most),
        }
    }

    /// Whether a figure is within them, or misses them by at most `reach`.
    fn include(self, mean: f64, reach: f64) -> bool {
        self.least.is_none_or(|least| mean + reach >= least) && self.most.is_none_or(|most| mean - reach <= most)
    }

    /// How far a figure is within them, relative to the bound that is nearer in this sense.
    fn margin(self, mean: f64, reach: f64) -> f64 {
        let scale = |bound: f64| bound.abs().max(1e-12);
        let margins = [
            self.least.map(|least| (mean + reach - least) / scale(least)),
            self.most.map(|most| (most - mean + reach) / scale(most)),
        ];
        margins.into_iter().flatten().fold(f64::INFINITY, f64::min)
    }

    /// Distance of a figure from the nearest bound.
    fn distance(self, mean: f64) -> f64 {
        self.iter()
            .map(|bound| (mean - bound).abs())
            .fold(f64::INFINITY, f64::min)
    }

    /// Whether the whole interval lies on the side of the neutral value on which a bound is.
    fn have_sign_of(self, neutral: f64, mean: f64, ci95: f64) -> bool {
        let above = self.least.is_some_and(|least| least > neutral) && mean - ci95 > neutral;
        let below = self.most.is_some_and(|most| most < neutral) && mean + ci95 < neutral;
        above || below
    }
}

/// Checks the fields of a check: the strict bounds, and those for the direction, which must be wider.
fn consistent(strict: Bounds, partly: Bounds, noise: bool, surely: bool) -> Result<(), StudyProblem> {
    if strict.iter().next().is_none() {
        return Err(StudyProblem::new("", "`at_least`, `at_most` or both expected", None));
    }
    if noise && surely {
        return Err(StudyProblem::new("surely", "either `noise` or `surely` expected", None));
    }
    for (field, bound) in [
        ("at_least", strict.least),
        ("at_most", strict.most),
        ("at_least_partly", partly.least),
        ("at_most_partly", partly.most),
    ] {
        finite(field, bound.unwrap_or_default())?;
    }
    let problem = |field| {
        Err(StudyProblem::new(
            field,
            "a bound wider than the strict one expected",
            None,
        ))
    };
    if partly
        .least
        .is_some_and(|partly| strict.least.is_none_or(|least| partly > least))
    {
        return problem("at_least_partly");
    }
    if partly
        .most
        .is_some_and(|partly| strict.most.is_none_or(|most| partly < most))
    {
        return problem("at_most_partly");
    }
    Ok(())
}

/// Refuses infinities and what is not a number.
fn finite(field: &str, value: f64) -> Result<(), StudyProblem> {
    if value.is_finite() {
        return Ok(());
    }
    Err(StudyProblem::new(
        field,
        format!("a finite number expected, found {value}"),
        None,
    ))
}

pub(super) fn bounds(check: &Check, case: &Case) -> Result<PartFinding, StudyProblem> {
    let Check::Bounds {
        of,
        at_least: least,
        at_most: most,
        at_least_partly: least_partly,
        at_most_partly: most_partly,
        noise,
        surely,
    } = check
    else {
        return Err(StudyProblem::new("", "bounds expected", None));
    };
    let strict = Bounds {
        least: *least,
        most: *most,
    };
    let partly = Bounds {
        least: *least_partly,
        most: *most_partly,
    };
    consistent(strict, partly, *noise, *surely)?;
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
    let wide = partly.iter().next().is_some() && partly.or(strict).include(mean, reach);
    // The sign is right if the whole interval lies on the side of the bound.
    let ci95 = summary.ci95.unwrap_or(0.0);
    let signed = neutral(of).is_some_and(|neutral| strict.have_sign_of(neutral, mean, ci95));
    let exact = graded(strict.include(mean, reach), wide || signed);
    // What the interval includes: both that the claim holds and that it does not.
    let distance_to_bound = strict.distance(mean);
    let open = !*noise && !case.deterministic && ci95 > 0.0 && distance_to_bound + dust < ci95;
    // Of one run nothing is sure, neither that it holds nor that it fails.
    let unsure = *surely && summary.ci95.is_none();
    let equality = least.is_some() && most.is_some();
    let mut text = case.text();
    if unsure {
        text += "; a single run";
    }
    Ok(PartFinding {
        label: label(&case.at),
        verdict: if open || unsure { Verdict::Inconclusive } else { exact },
        exact,
        text,
        figure: Some(summary),
        margin: strict.margin(mean, reach),
        away: distance(case, distance_to_bound, if equality { 2 } else { 1 }),
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

impl PartFinding {
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

/// A check that figures are those of a paper, or of theory, up to a share of them.
pub(super) struct Near<'c> {
    pub(super) of: &'c Selection,
    /// The same value at all points.
    pub(super) value: Option<f64>,
    /// Values by point.
    pub(super) values: &'c [Expected],
    pub(super) within: f64,
    /// The share within which it is reproduced in direction.
    pub(super) within_partly: Option<f64>,
}

impl Near<'_> {
    pub(super) fn parts(&self, cases: &[Case], thinned: bool) -> Result<Vec<PartFinding>, StudyProblem> {
        self.consistent()?;
        if let Some(value) = self.value {
            return Ok(cases.iter().map(|case| self.part(case, value)).collect());
        }
        if self.of.theory.is_some() {
            let expected = |case: &Case| case.theory.unwrap_or(f64::NAN);
            return Ok(cases.iter().map(|case| self.part(case, expected(case))).collect());
        }
        self.parts_by_point(cases, thinned)
    }

    /// Checks the expected values: of one source, and such that there is a relative difference from them.
    fn consistent(&self) -> Result<(), StudyProblem> {
        let given = [self.value.is_some(), !self.values.is_empty(), self.of.theory.is_some()];
        if given.into_iter().filter(|given| *given).count() != 1 {
            let message = "one of `value`, `values` and the selection's `theory` expected";
            return Err(StudyProblem::new("", message, None));
        }
        let given = self.value.map(|value| ("value".to_owned(), value)).into_iter();
        let listed = self.values.iter().enumerate();
        for (field, value) in
            given.chain(listed.map(|(number, expected)| (format!("values[{number}].value"), expected.value)))
        {
            finite(&field, value)?;
            if value == 0.0 {
                let message = "there is no relative difference from 0: a check of kind `bounds` expected";
                return Err(StudyProblem::new(field, message, None));
            }
        }
        Ok(())
    }

    /// The points for which values are listed, in the order of the list.
    fn parts_by_point(&self, cases: &[Case], thinned: bool) -> Result<Vec<PartFinding>, StudyProblem> {
        let mut parts = Vec::new();
        for (number, expected) in self.values.iter().enumerate() {
            let mut found = false;
            for case in cases {
                let names: Vec<_> = case.at.iter().map(|(name, _)| name.clone()).collect();
                let fits = expected_fits(expected, &case.at, &names);
                if fits.map_err(|problem| problem.within(&format!("values[{number}].at")))? {
                    parts.push(self.part(case, expected.value));
                    found = true;
                }
            }
            if !found && !thinned {
                let message = format!("there is no point {}", label(&expected.at.0));
                return Err(StudyProblem::new(format!("values[{number}].at"), message, None));
            }
        }
        Ok(parts)
    }

    /// The check of a point.
    fn part(&self, case: &Case, expected: f64) -> PartFinding {
        let summary = case.summary();
        let Some(mean) = summary.mean else {
            return nothing(label(&case.at));
        };
        let off = (mean / expected - 1.0).abs();
        let ci95 = summary.ci95.unwrap_or(0.0);
        let signed = neutral(self.of).is_some_and(|neutral| {
            let side = (expected - neutral).signum();
            expected != neutral && (mean - neutral) * side - ci95 > 0.0
        });
        let beyond = ((mean - expected).abs() - self.within * expected.abs()).abs();
        let open = !case.deterministic && ci95 > beyond;
        let partly = signed || self.within_partly.is_some_and(|within| off <= within);
        let exact = graded(off <= self.within, partly);
        PartFinding {
            label: label(&case.at),
            verdict: if open { Verdict::Inconclusive } else { exact },
            exact,
            text: match (self.value, case.theory) {
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
        .unless_vacuous(self.of, case, true)
    }
}
