//! From figures to verdicts.

mod certainty;
mod equal;
mod figure;
mod part_finding;
mod series;
mod together;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use whimbrel_scenario::word_hint;

pub(crate) use self::certainty::Seeds;
use self::figure::{Near, bounds};
use self::part_finding::PartFinding;
use self::series::series_part;
use self::together::decide_together;
use super::figures::{At, Case, Figured, StudyProblem, axis_of, expected_fits, label};
use super::file::{Check, ClaimEntry, Expected, FigureEntry, Selection};
use super::verdict::Verdict;
use crate::stats::Summary;

/// What came out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) verdict: Verdict,
    /// In words and numbers.
    pub(crate) text: String,
    /// The figure, if the claim is about a single one.
    pub(crate) figure: Option<Summary>,
    /// Seeds that would decide it, if it is open.
    pub(crate) seeds: Option<Seeds>,
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
    /// Runs with a value; older results have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) n: Option<usize>,
    /// Whether every seed gave the same run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) deterministic: bool,
    /// A hash of the runs behind the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) runs: Option<String>,
    /// Whether the other side of the ratio or difference is the same runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) equal: bool,
}

/// Checks a claim.
pub(crate) fn evaluate(claim: &ClaimEntry, data: &Figured<'_>) -> Result<Finding, StudyProblem> {
    let (selection, over) = claim.check.subject();
    let cases = data.cases(selection).map_err(|problem| problem.within("of"))?;
    judge(claim, &cases, over, data.thinned)
}

/// Checks a claim by the figures that were kept of `seeds` runs of each point; `marked` if points of which both sides are the same runs were
/// marked.
pub(crate) fn regrade(
    claim: &ClaimEntry,
    points: &[Plotted],
    seeds: usize,
    marked: bool,
) -> Result<Finding, StudyProblem> {
    let of = claim.check.of();
    let mut cases: Vec<Case> = points
        .iter()
        .map(|point| point.case(of.theory.is_some(), seeds))
        .collect();
    if !marked {
        equal::mark(of, &mut cases);
    }
    judge(claim, &cases, claim.check.subject().1, true)
}

fn judge(claim: &ClaimEntry, cases: &[Case], over: Option<&str>, thinned: bool) -> Result<Finding, StudyProblem> {
    let over = over.map(|given| known_axis("over", given, cases)).transpose()?;
    let points = plotted(&claim.check, cases);
    let judge = |cases: &[Case]| {
        let mut parts = parts(&claim.check, cases, over.as_deref(), thinned)?;
        // No number of seeds decides a claim that cannot fail.
        let vacuous = parts.iter_mut().filter(|_| claim.vacuous.is_some());
        vacuous.for_each(|part| part.away = None);
        Ok(whole(parts))
    };
    let conclude = |mut finding: Finding| {
        if claim.vacuous.is_some() {
            finding.verdict = Verdict::Vacuous;
        }
        Finding { points, ..finding }
    };
    let Some(given) = &claim.for_some else {
        return judge(cases).map(conclude);
    };
    let some = known_axis("for_some", given, cases)?;
    let mut best: Option<Finding> = None;
    for (value, cases) in grouped(cases, |case| {
        let (_, value) = case.split(&some);
        value
            .map(|value| vec![(some.clone(), value.clone())])
            .unwrap_or_default()
    }) {
        let inner: Vec<_> = cases
            .iter()
            .map(|case| Case {
                at: case.split(&some).0,
                ..(*case).clone()
            })
            .collect();
        let mut finding = judge(&inner)?;
        finding.text = format!("with {}: {}", label(&value), finding.text);
        if best.as_ref().is_none_or(|best| finding.is_better_than(best)) {
            best = Some(finding);
        }
    }
    best.map(conclude)
        .ok_or_else(|| StudyProblem::new("of", "nothing is selected", None))
}

/// The figures of all points that have any.
fn plotted(check: &Check, cases: &[Case]) -> Vec<Plotted> {
    let expected = |case: &Case| match check {
        Check::Near { value, values, .. } => {
            let known = values.iter().find(|expected| fits(expected, case).unwrap_or(false));
            value.or_else(|| known.map(|expected| expected.value)).or(case.theory)
        }
        _ => case.theory,
    };
    cases.iter().filter_map(|case| point(case, expected(case))).collect()
}

/// The points of a figure of the paper, with the paper's values where they are known.
pub(crate) fn pictured(figure: &FigureEntry, data: &Figured<'_>) -> Result<Vec<Plotted>, StudyProblem> {
    let cases = match (&figure.of, &figure.snapshot) {
        (Some(of), None) => data.cases(of).map_err(|problem| problem.within("of"))?,
        (None, Some(snapshot)) => data.lines(snapshot).map_err(|problem| problem.within("snapshot"))?,
        _ => return Err(StudyProblem::new("", "either `of` or `snapshot` expected", None)),
    };
    if let Some(over) = &figure.over {
        known_axis("over", over, &cases)?;
    }
    for (number, expected) in figure.paper.iter().enumerate() {
        let mut found = false;
        for case in &cases {
            found |= fits(expected, case).map_err(|problem| problem.within(&format!("paper[{number}].at")))?;
        }
        if !found && !data.thinned {
            let message = format!("there is no point {}", label(&expected.at.0));
            return Err(StudyProblem::new(format!("paper[{number}].at"), message, None));
        }
    }
    let paper = |case: &Case| {
        let known = figure
            .paper
            .iter()
            .find(|expected| fits(expected, case).unwrap_or(false));
        known.map(|expected| expected.value).or(case.theory)
    };
    Ok(cases.iter().filter_map(|case| point(case, paper(case))).collect())
}

fn fits(expected: &Expected, case: &Case) -> Result<bool, StudyProblem> {
    let names: Vec<_> = case.at.iter().map(|(name, _)| name.clone()).collect();
    expected_fits(expected, &case.at, &names)
}

/// A figure as a point of a plot, if there is one.
fn point(case: &Case, paper: Option<f64>) -> Option<Plotted> {
    let summary = case.summary();
    Some(Plotted {
        at: case.at.clone(),
        mean: summary.mean?,
        ci95: summary.ci95,
        paper,
        n: Some(summary.n),
        deterministic: case.deterministic,
        runs: case.runs.map(|runs| format!("{runs:016x}")),
        equal: case.equal,
    })
}

impl Plotted {
    /// The figure that was kept. Without a hash of the runs, points are the same runs if they have the same figures to the last digit, unless those
    /// are shares or counts, which can be equal by chance.
    fn case(&self, theory: bool, seeds: usize) -> Case {
        let n = self.n.unwrap_or(seeds);
        let sum = self.mean * n as f64;
        let measured = self.ci95.is_some_and(|ci95| ci95 > 0.0) && (sum - sum.round()).abs() > 1e-6;
        let runs = match &self.runs {
            Some(runs) => u64::from_str_radix(runs, 16).ok(),
            None => measured.then_some(0),
        };
        Case {
            at: self.at.clone(),
            samples: Vec::new(),
            deterministic: self.deterministic,
            theory: self.paper.filter(|_| theory),
            runs,
            equal: self.equal,
            kept: Some(Summary {
                mean: Some(self.mean),
                ci95: self.ci95,
                n,
            }),
        }
    }
}

impl Finding {
    /// Of equal verdicts the one is better that keeps farther within its bounds.
    fn is_better_than(&self, other: &Finding) -> bool {
        let order = self.verdict.cmp(&other.verdict);
        order.then(self.margin.total_cmp(&other.margin)).is_gt()
    }
}

fn known_axis(field: &str, given: &str, cases: &[Case]) -> Result<String, StudyProblem> {
    axis_of(given, cases).ok_or_else(|| {
        let names: Vec<_> = cases
            .iter()
            .take(1)
            .flat_map(|case| &case.at)
            .map(|(name, _)| name)
            .collect();
        StudyProblem::new(
            field,
            format!("there is no free axis `{given}`"),
            word_hint(given, &names, "axes"),
        )
    })
}

impl Check {
    /// Whether it is about single points, so that their figures decide again at any time.
    pub(super) fn is_of_points(&self) -> bool {
        matches!(self, Check::Bounds { .. } | Check::Near { .. })
    }

    /// What is looked at, and along which axis.
    pub(super) fn subject(&self) -> (&Selection, Option<&str>) {
        match self {
            Check::Bounds { of, .. } | Check::Near { of, .. } => (of, None),
            Check::Trend { of, over, .. }
            | Check::Flat { of, over, .. }
            | Check::Best { of, over, .. }
            | Check::Linear { of, over, .. } => (of, Some(over)),
        }
    }
}

/// The parts without those that are the same runs as one before them, and how many those are.
fn distinct(parts: Vec<PartFinding>) -> (Vec<PartFinding>, usize) {
    let all = parts.len();
    let mut known = Vec::new();
    let mut kept: Vec<PartFinding> = Vec::with_capacity(all);
    for part in parts {
        if part.identity.is_none_or(|identity| !known.contains(&identity)) {
            known.extend(part.identity);
            kept.push(part);
        }
    }
    let same = all - kept.len();
    (kept, same)
}

/// `one` or the plural, with the number.
fn counted(count: usize, one: &str, many: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    }
}

/// What all parts say together.
fn whole(parts: Vec<PartFinding>) -> Finding {
    let (vacuous, parts): (Vec<_>, Vec<_>) = parts.into_iter().partition(|part| part.verdict == Verdict::Vacuous);
    let (mut parts, same) = distinct(parts);
    decide_together(&mut parts);
    let count = |verdict: Verdict| parts.iter().filter(|part| part.verdict == verdict).count();
    let holds = count(Verdict::Reproduced);
    let (direction, fails, open) = (
        count(Verdict::Direction),
        count(Verdict::Not),
        count(Verdict::Inconclusive),
    );
    let verdict = Verdict::of_points(holds, direction, fails, open);
    let undecided = deciding(&parts).filter(|_| verdict == Verdict::Inconclusive);
    let seeds = undecided.and_then(PartFinding::seeds);
    let decide = seeds.map_or_else(String::new, Seeds::text);
    let besides = besides(same, vacuous.len());
    if let [part] = parts.as_slice() {
        let decide = seeds.map_or_else(String::new, |_| format!("; {decide}"));
        let at = match part.label.as_str() {
            "" => String::new(),
            _ if besides.is_empty() => String::new(),
            label => format!(" at {label}"),
        };
        return Finding {
            verdict,
            text: format!("{}{at}{besides}{decide}", part.text),
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
    let text = match (worst, vacuous.as_slice()) {
        (Some(worst), _) => {
            let name = if worst.label.is_empty() {
                String::new()
            } else {
                format!(" at {}", worst.label)
            };
            let all = parts.len();
            let closest = if holds == all { "closest" } else { "worst" };
            // The worst point may be decided although others are not.
            let decide = match (seeds, undecided) {
                (None, _) | (_, None) => String::new(),
                (Some(_), Some(part)) if part.label == worst.label => format!("; {decide}"),
                (Some(_), Some(part)) => format!("; open: {} at {}, {decide}", part.text, part.label),
            };
            let mut counts = format!("{holds} of {all} hold");
            let others = [
                (direction, counted(direction, "in direction only", "in direction only")),
                (fails, counted(fails, "fails", "fail")),
                (open, counted(open, "undecided", "undecided")),
            ];
            for (_, said) in others.into_iter().filter(|(count, _)| *count > 0) {
                counts = format!("{counts}, {said}");
            }
            format!("{counts}{besides}; {closest}: {}{name}{decide}", worst.text)
        }
        (None, [one]) => one.text.clone(),
        (None, [first, ..]) => format!("{}; all {} points are vacuous", first.text, vacuous.len()),
        (None, []) => "none of its points was run".to_owned(),
    };
    Finding {
        verdict,
        text,
        figure: worst.or(vacuous.first()).and_then(|part| part.figure),
        seeds,
        points: Vec::new(),
        margin: worst.map_or(f64::NEG_INFINITY, PartFinding::known_margin),
    }
}

/// The undecided part whose seeds decide the claim: from that number on, its class stays what it is with any number if all figures stay.
fn deciding(parts: &[PartFinding]) -> Option<&PartFinding> {
    let (mut open, decided): (Vec<_>, Vec<_>) = parts.iter().partition(|part| part.verdict == Verdict::Inconclusive);
    // Parts that no number of seeds decides come last.
    open.sort_by_key(|part| (part.seeds().is_none(), part.seeds()));
    let mut verdicts: Vec<Verdict> = decided.iter().map(|part| part.verdict).collect();
    let mut deciding = None;
    for (resolved, part) in open.iter().enumerate() {
        verdicts.push(part.exact);
        let count = |wanted: Verdict| verdicts.iter().filter(|verdict| **verdict == wanted).count();
        let class = Verdict::of_points(
            count(Verdict::Reproduced),
            count(Verdict::Direction),
            count(Verdict::Not),
            open.len() - resolved - 1,
        );
        deciding = deciding.filter(|(known, _)| *known == class).or(Some((class, *part)));
    }
    deciding.map(|(_, part)| part)
}

/// The points that do not count, in brackets: the same runs as others, and those at which nothing could fail.
fn besides(same: usize, vacuous: usize) -> String {
    let same = (same > 0).then(|| format!("{} the same runs", counted(same, "more point is", "more points are")));
    let vacuous = (vacuous > 0).then(|| format!("{} vacuous", counted(vacuous, "point is", "points are")));
    let said: Vec<_> = same.into_iter().chain(vacuous).collect();
    if said.is_empty() {
        String::new()
    } else {
        format!(" ({})", said.join("; "))
    }
}

fn parts(check: &Check, cases: &[Case], over: Option<&str>, thinned: bool) -> Result<Vec<PartFinding>, StudyProblem> {
    match check {
        Check::Bounds { .. } => cases.iter().map(|case| bounds(check, case)).collect(),
        Check::Near {
            of,
            value,
            values,
            within,
            within_partly,
        } => {
            let near = Near {
                of,
                value: *value,
                values,
                within: *within,
                within_partly: *within_partly,
            };
            near.parts(cases, thinned)
        }
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

#[cfg(test)]
mod classes;
#[cfg(test)]
mod tests;
