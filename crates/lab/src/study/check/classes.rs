//! Which class a claim gets where points fail, are undecided, or are the same runs.

use serde_json::{Value, json};

use super::tests::{Data, claim};
use super::*;
use crate::study::figures::{Figures, Measured, PointRuns, Subject};

/// A run with one figure and the hash of its events.
struct Printed(f64, u64);

impl Figures for Printed {
    fn figures(&self, _: Subject<'_>, _: &str) -> Vec<f64> {
        vec![self.0]
    }

    fn fingerprint(&self) -> Option<u64> {
        Some(self.1)
    }
}

/// The verdict and the text of a check of points on the axis `x`, each with its figures and fingerprints by seed.
fn judged(points: &[&[(f64, u64)]], check: Value) -> (Verdict, String) {
    let runs: Vec<Vec<Printed>> = points
        .iter()
        .map(|point| point.iter().map(|(value, print)| Printed(*value, *print)).collect())
        .collect();
    let points = runs.iter().enumerate().map(|(x, runs)| PointRuns {
        params: vec![("x".to_owned(), json!(x))],
        config: None,
        runs: runs.iter().map(|run| run as &dyn Figures).collect(),
    });
    let xs = (0..runs.len()).map(|x| json!(x)).collect();
    let data = Figured {
        scenarios: vec![Measured {
            name: "only".to_owned(),
            axes: vec![("x".to_owned(), xs)],
            points: points.collect(),
        }],
        thinned: false,
    };
    let mut check = check;
    check["of"]["metric"] = json!("goodput_mbps");
    let claim = serde_json::from_value(claim(check)).expect("a claim");
    let finding = evaluate(&claim, &data).expect("everything is there");
    (finding.verdict, finding.text)
}

fn series(points: &[&[f64]], check: Value) -> Verdict {
    let points: Vec<(f64, &'static str, &[f64])> = points
        .iter()
        .enumerate()
        .map(|(x, samples)| (x as f64, "a", *samples))
        .collect();
    Data::of(&points)
        .find(&claim(check))
        .expect("everything is there")
        .verdict
}

#[test]
fn a_claim_with_a_point_that_clearly_fails_is_not_inconclusive() {
    let check = json!({ "kind": "bounds", "at_least": 1.0 });
    let open: &[f64] = &[0.9, 1.0, 1.2];
    assert_eq!(series(&[open, open, open], check.clone()), Verdict::Inconclusive);
    let failing = [open, open, &[0.5, 0.5, 0.51]];
    assert_eq!(series(&failing, check.clone()), Verdict::Not);
    let claim = claim(check);
    let points: Vec<(f64, &'static str, &[f64])> = (0..3).map(|x| (f64::from(x), "a", failing[x as usize])).collect();
    let text = Data::of(&points).find(&claim).expect("good").text;
    assert!(
        text.starts_with("0 of 3 hold, 1 fails, 2 undecided; worst: 0.503"),
        "{text}"
    );
}

#[test]
fn a_point_that_fails_by_a_hair_among_others_is_undecided() {
    let check = || json!({ "kind": "bounds", "at_least": 1.0 });
    let open: &[f64] = &[0.9, 1.0, 1.2];
    // 0.920 ± 0.075
    let slight: &[f64] = &[0.89, 0.92, 0.95];
    assert_eq!(series(&[slight], check()), Verdict::Not);
    assert_eq!(series(&[open, slight, open], check()), Verdict::Inconclusive);
    assert_eq!(series(&[slight, slight, open], check()), Verdict::Not);
}

#[test]
fn a_trend_with_a_clear_step_the_other_way_is_not_inconclusive() {
    let rising = json!({ "kind": "trend", "over": "x", "direction": "rising" });
    let ends: &[f64] = &[1.0, 1.2, 0.9];
    let again: &[f64] = &[1.1, 1.0, 1.0];
    assert_eq!(
        series(&[ends, &[1.1, 1.0, 1.0], again], rising.clone()),
        Verdict::Inconclusive
    );
    // Up, and down again to where it was.
    assert_eq!(series(&[ends, &[5.0, 5.1, 5.0], again], rising), Verdict::Not);
}

#[test]
fn a_level_figure_is_level_or_not_and_has_no_direction() {
    let flat = json!({ "kind": "flat", "over": "x", "within": 0.1 });
    assert_eq!(series(&[&[1.0], &[1.05]], flat.clone()), Verdict::Reproduced);
    assert_eq!(series(&[&[1.0], &[1.2]], flat.clone()), Verdict::Not);
    // They differ by 0.15 ± 0.4: it may be less than a tenth, and it may be more.
    assert_eq!(
        series(&[&[1.0, 1.0, 1.0], &[1.0, 1.15, 1.3]], flat),
        Verdict::Inconclusive
    );
    let partly = json!({ "kind": "flat", "of": {}, "over": "x", "within": 0.1, "within_partly": 0.3 });
    assert!(serde_json::from_value::<Check>(partly).is_err());
}

#[test]
fn the_best_must_be_ahead_by_more_than_noise_or_tied_by_less_than_the_slack() {
    let best = |slack: f64| json!({ "kind": "best", "over": "x", "is": 0, "slack": slack });
    let ours: &[f64] = &[1.0, 1.1, 1.2];
    assert_eq!(series(&[ours, &[0.5, 0.6, 0.7]], best(0.0)), Verdict::Reproduced);
    // Behind by 0.05 ± 0.43, which says nothing.
    assert_eq!(series(&[ours, &[1.3, 1.1, 1.05]], best(0.0)), Verdict::Inconclusive);
    assert_eq!(series(&[ours, &[1.5, 1.6, 1.7]], best(0.0)), Verdict::Not);
    // Behind by exactly 0.01, a tie within 5 %.
    assert_eq!(series(&[ours, &[1.01, 1.11, 1.21]], best(0.0)), Verdict::Not);
    assert_eq!(series(&[ours, &[1.01, 1.11, 1.21]], best(0.05)), Verdict::Reproduced);
    // Each of the others counts, not the highest alone.
    assert_eq!(
        series(&[ours, &[1.5, 0.4, 1.52], &[1.12, 1.22, 1.32]], best(0.0)),
        Verdict::Not
    );
    // One of several is enough.
    let either = json!({ "kind": "best", "over": "x", "is": [0, 1] });
    assert_eq!(
        series(&[ours, &[1.5, 1.6, 1.7], &[0.4, 0.5, 0.6]], either),
        Verdict::Reproduced
    );
    let partly = json!({ "kind": "best", "of": {}, "over": "x", "is": 0, "slack_partly": 0.3 });
    assert!(serde_json::from_value::<Check>(partly).is_err());
}

#[test]
fn points_of_the_same_runs_count_once() {
    let check = || json!({ "kind": "bounds", "at_least": 1.0 });
    let good: &[(f64, u64)] = &[(2.0, 1), (2.1, 2)];
    let bad: &[(f64, u64)] = &[(0.1, 3), (0.11, 4)];
    let other: &[(f64, u64)] = &[(0.2, 5), (0.21, 6)];
    // Three of five points hold; of the runs that differ, one of three.
    let (verdict, text) = judged(&[good, good, good, bad, other], check());
    assert_eq!(verdict, Verdict::Not);
    assert!(
        text.starts_with("1 of 3 hold, 2 fail (2 more points are the same runs); worst: 0.105"),
        "{text}"
    );
    // Equal figures of other runs are points of their own.
    let (verdict, _) = judged(&[good, &[(2.0, 7), (2.1, 8)], good, bad, other], check());
    assert_eq!(verdict, Verdict::Mostly);
}

#[test]
fn runs_compared_with_themselves_are_vacuous() {
    let standard: &[(f64, u64)] = &[(2.0, 1), (2.1, 2)];
    let other: &[(f64, u64)] = &[(2.3, 3), (2.4, 4)];
    // Other runs with the same figures.
    let equal: &[(f64, u64)] = &[(2.0, 5), (2.1, 6)];
    let check = |mut bounds: Value| {
        bounds["of"] = json!({ "to": { "at": { "x": 0 } } });
        bounds
    };
    let harmless = || check(json!({ "kind": "bounds", "at_least": 0.9 }));
    let (verdict, text) = judged(&[standard, standard, other], harmless());
    assert_eq!(verdict, Verdict::Reproduced);
    assert!(
        text.starts_with("1.14") && text.ends_with(" (2 points are vacuous)"),
        "{text}"
    );
    assert_eq!(judged(&[standard, standard], harmless()).0, Verdict::Vacuous);
    let (verdict, text) = judged(&[standard, equal, other], harmless());
    assert_eq!(verdict, Verdict::Reproduced);
    assert!(text.starts_with("2 of 2 hold (1 point is vacuous)"), "{text}");
    // A gain that is not there is a failure.
    let gain = check(json!({ "kind": "bounds", "at_least": 1.1, "surely": true }));
    assert_eq!(judged(&[standard, standard], gain).0, Verdict::Not);
    // That two configurations are equal could have failed; that one equals itself could not.
    let (verdict, text) = judged(
        &[standard, standard, standard],
        check(json!({ "kind": "near", "value": 1.0, "within": 0.01 })),
    );
    assert_eq!(verdict, Verdict::Reproduced);
    assert!(
        text.ends_with(" (1 more point is the same runs; 1 point is vacuous)"),
        "{text}"
    );
    let both = check(json!({ "kind": "bounds", "at_least": 0.99, "at_most": 1.01 }));
    assert_eq!(judged(&[standard, standard], both).0, Verdict::Reproduced);
}

#[test]
fn series_of_the_same_runs_are_vacuous_unless_they_must_change() {
    let same: &[(f64, u64)] = &[(2.0, 1), (2.1, 2)];
    let better: &[(f64, u64)] = &[(2.5, 3), (2.6, 4)];
    let best = || json!({ "kind": "best", "over": "x", "is": 0, "slack": 0.01 });
    assert_eq!(judged(&[same, same], best()).0, Verdict::Vacuous);
    assert_eq!(judged(&[better, same, same], best()).0, Verdict::Reproduced);
    assert_eq!(judged(&[same, same, better], best()).0, Verdict::Not);
    let rising = |ties: bool| json!({ "kind": "trend", "over": "x", "direction": "rising", "ties": ties });
    let (verdict, text) = judged(&[same, same], rising(true));
    assert_eq!(verdict, Verdict::Vacuous);
    assert!(text.ends_with("; all of them are the same runs"), "{text}");
    assert_eq!(judged(&[same, same], rising(false)).0, Verdict::Not);
}

#[test]
fn what_an_axis_does_not_touch_is_level_by_definition() {
    let flat = || json!({ "kind": "flat", "over": "x", "within": 0.1 });
    let same: &[(f64, u64)] = &[(2.0, 1), (2.1, 2)];
    assert_eq!(judged(&[same, same, same], flat()).0, Verdict::Vacuous);
    assert_eq!(
        judged(&[same, same, &[(2.0, 1), (2.1, 3)]], flat()).0,
        Verdict::Reproduced
    );
}

#[test]
fn seeds_that_decide_are_those_after_which_the_class_stays() {
    let check = || json!({ "kind": "bounds", "at_least": 1.0 });
    let seeds = |points: &[&[f64]]| {
        let points: Vec<_> = points
            .iter()
            .enumerate()
            .map(|(x, samples)| (x as f64, "a", *samples))
            .collect();
        let finding = Data::of(&points).find(&claim(check())).expect("good");
        assert_eq!(finding.verdict, Verdict::Inconclusive);
        finding.seeds.expect("it is open")
    };
    let open: &[f64] = &[0.9, 1.1, 1.3];
    let close: &[f64] = &[0.9, 1.0001, 1.1];
    let alone = seeds(&[open]);
    assert!(alone.number().is_some(), "{alone:?}");
    assert_eq!(seeds(&[close]), Seeds::TooMany);
    // Nine of ten are enough, five of ten are not.
    let mut ten = [open; 10];
    ten[3] = close;
    assert_eq!(seeds(&ten), alone);
    ten[5..].fill(close);
    assert_eq!(seeds(&ten), Seeds::TooMany);
}

#[test]
fn the_worst_of_many_differences_is_compared_with_what_chance_makes_of_many() {
    let best = json!({ "kind": "best", "over": "x", "is": 0 });
    let ours: &[f64] = &[1.0, 1.1, 1.2, 1.1];
    // Ahead by 0.095 ± 0.066.
    let rival: &[f64] = &[1.14, 1.2, 1.24, 1.2];
    let level: &[f64] = &[1.05, 1.15, 1.2, 1.1];
    assert_eq!(series(&[ours, rival], best.clone()), Verdict::Not);
    assert_eq!(series(&[ours, rival, level, level, level], best), Verdict::Inconclusive);
    let flat = json!({ "kind": "flat", "over": "x", "within": 0.0 });
    assert_eq!(series(&[ours, rival], flat.clone()), Verdict::Not);
    assert_eq!(series(&[ours, rival, level, level, level], flat), Verdict::Inconclusive);
}

#[test]
fn a_claim_that_cannot_fail_needs_no_seeds() {
    let mut claim = claim(json!({ "kind": "bounds", "at_least": 1.0 }));
    claim["vacuous"] = json!("nothing is lost");
    let points: [(f64, &'static str, &[f64]); 1] = [(0.0, "a", &[0.9, 1.1, 1.3])];
    let finding = Data::of(&points).find(&claim).expect("good");
    assert_eq!((finding.verdict, finding.seeds), (Verdict::Vacuous, None));
    assert!(!finding.text.contains("seeds"), "{}", finding.text);
}

#[test]
fn bounds_that_are_not_finite_and_a_relative_difference_from_zero_are_refused() {
    let points: [(f64, &'static str, &[f64]); 2] = [(0.0, "a", &[0.9, 1.1]), (1.0, "a", &[0.9, 1.2])];
    let problem = |check: Value| {
        let error = Data::of(&points).find(&claim(check)).expect_err("wrong");
        format!("{}: {}", error.field, error.message)
    };
    assert_eq!(
        problem(json!({ "kind": "near", "value": 0.0, "within": 0.1 })),
        "value: there is no relative difference from 0: a check of kind `bounds` expected"
    );
    // TOML has nan and inf.
    let check = json!({ "kind": "bounds", "at_least": 1.0 });
    let mut of: ClaimEntry = serde_json::from_value(claim(check)).expect("a claim");
    if let Check::Bounds { at_least, .. } = &mut of.check {
        *at_least = Some(f64::NAN);
    }
    let error = evaluate(&of, &Data::of(&points).figured(false)).expect_err("wrong");
    assert_eq!(error.field, "at_least");
}
