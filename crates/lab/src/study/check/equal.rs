//! Ratios and differences whose two sides are the same runs: nothing that happens there can make one side worse than the other.

use serde_json::Value;

use crate::study::figures::{At, Case, names_axis, same};
use crate::study::file::Selection;

/// The value that says neither more nor less: of a ratio one, of a difference zero.
pub(super) fn neutral(of: &Selection) -> Option<f64> {
    match (&of.to, &of.minus) {
        _ if of.harm.is_some() => Some(1.0),
        (Some(_), None) => Some(1.0),
        (None, Some(_)) => Some(0.0),
        _ => None,
    }
}

/// Whether the other side of a ratio or difference is the same configuration at this point: the baseline beside itself.
pub(super) fn is_itself(of: &Selection, at: &At) -> bool {
    let harm = of.harm.as_ref().map(|harm| &harm.like);
    let Some(other) = of.to.as_deref().or(of.minus.as_deref()).or(harm) else {
        return false;
    };
    let here = |given: &str| -> Option<&Value> {
        // An axis may be given in full on one side and by its last part on the other.
        let is_one = |name: &String| names_axis(given, name) || names_axis(name, given);
        let fixed = || of.at.0.iter().filter(|(_, value)| !value.is_array());
        let exact = at.iter().chain(fixed()).find(|(name, _)| name == given);
        let similar = || at.iter().chain(fixed()).find(|(name, _)| is_one(name));
        exact.or_else(similar).map(|(_, value)| value)
    };
    let mut others = other.at.0.iter();
    let points = others.all(|(name, value)| here(name).is_some_and(|here| same(here, value)));
    // Without a name it is the only scenario.
    points && (of.scenario.is_none() || other.scenario.is_none() || other.scenario == of.scenario)
}

/// Marks the points of which both sides are the same runs, where that was not kept: they have the same hash as the baseline beside itself.
/// Without any such point they are those whose figures are equal in every run.
pub(super) fn mark(of: &Selection, cases: &mut [Case]) {
    let other = of.to.as_deref().or(of.minus.as_deref());
    let Some((other, neutral)) = other.zip(neutral(of)) else {
        return;
    };
    if !other.is_same_figure(of) {
        return;
    }
    let equal = |case: &Case| {
        let summary = case.summary();
        summary.n > 1 && summary.mean == Some(neutral) && summary.ci95 == Some(0.0)
    };
    let baselines = cases.iter().filter(|case| equal(case) && is_itself(of, &case.at));
    let hashes: Option<Vec<u64>> = baselines.map(|case| case.runs).collect();
    let hashes = hashes.filter(|hashes| !hashes.is_empty());
    for case in cases {
        let of_baseline = |hashes: &Vec<u64>| case.runs.is_some_and(|runs| hashes.contains(&runs));
        case.equal = equal(case) && hashes.as_ref().is_none_or(of_baseline);
    }
}
