//! Each kind of check with data made to pass, to pass in part, and to fail.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;
use crate::study::figures::{Figures, Measured, PointRuns, Subject};

/// A run with one figure, whatever is asked for; flows have one each.
struct Fake(BTreeMap<&'static str, f64>);

impl Figures for Fake {
    fn figures(&self, subject: Subject<'_>, _: &str) -> Vec<f64> {
        match subject {
            Subject::Run => vec![self.0[""]],
            Subject::Flow(wanted) => {
                let meant = self
                    .0
                    .iter()
                    .filter(|(name, _)| crate::study::figures::matches(name, wanted));
                meant.map(|(_, value)| *value).collect()
            }
            Subject::Link(_) => Vec::new(),
        }
    }
}

/// Runs of points on the axes `x` and `scheme`.
pub(super) struct Data(Vec<(f64, &'static str, Vec<Fake>)>);

impl Data {
    pub(super) fn of(points: &[(f64, &'static str, &[f64])]) -> Self {
        let fakes = |samples: &[f64]| {
            samples
                .iter()
                .map(|&sample| Fake(BTreeMap::from([("", sample)])))
                .collect()
        };
        Data(
            points
                .iter()
                .map(|(x, scheme, samples)| (*x, *scheme, fakes(samples)))
                .collect(),
        )
    }

    pub(super) fn figured(&self, thinned: bool) -> Figured<'_> {
        let (mut xs, mut schemes): (Vec<Value>, Vec<Value>) = Default::default();
        for (x, scheme, _) in &self.0 {
            for (values, value) in [(&mut xs, json!(*x as i64)), (&mut schemes, json!(scheme))] {
                if !values.contains(&value) {
                    values.push(value);
                }
            }
        }
        let points = self.0.iter().map(|(x, scheme, runs)| PointRuns {
            params: vec![
                ("link.radio.x".to_owned(), json!(*x as i64)),
                ("scheme".to_owned(), json!(scheme)),
            ],
            config: None,
            runs: runs.iter().map(|run| run as &dyn Figures).collect(),
        });
        Figured {
            scenarios: vec![Measured {
                name: "only".to_owned(),
                axes: vec![("link.radio.x".to_owned(), xs), ("scheme".to_owned(), schemes)],
                points: points.collect(),
            }],
            thinned,
        }
    }

    pub(super) fn find(&self, claim: &Value) -> Result<Finding, StudyProblem> {
        let claim = serde_json::from_value(claim.clone()).expect("a claim");
        evaluate(&claim, &self.figured(false))
    }
}

/// A claim with this check, about the scheme `a`.
pub(super) fn claim(check: Value) -> Value {
    let mut check = check;
    let of = json!({ "metric": "goodput_mbps", "at": { "scheme": "a" } });
    if check["of"].is_null() {
        check["of"] = of;
    }
    json!({ "id": "c", "claim": "c", "paper": "p", "check": check })
}

fn verdict(data: &Data, check: Value) -> Verdict {
    data.find(&claim(check)).expect("everything is there").verdict
}

const R: Verdict = Verdict::Reproduced;
const P: Verdict = Verdict::Direction;
const N: Verdict = Verdict::Not;
/// Half of the points or more.
const M: Verdict = Verdict::Mostly;
/// The interval includes both.
const I: Verdict = Verdict::Inconclusive;

fn line(values: &[f64]) -> Data {
    let samples: Vec<[f64; 1]> = values.iter().map(|&value| [value]).collect();
    let points: Vec<(f64, &'static str, &[f64])> = samples
        .iter()
        .enumerate()
        .map(|(x, sample)| (x as f64, "a", sample.as_slice()))
        .collect();
    Data::of(&points)
}

#[test]
fn bounds_hold_hold_in_part_or_do_not() {
    let check = || json!({ "kind": "bounds", "at_least": 5.0, "at_least_partly": 2.0, "at_most": 9.0 });
    for (value, expected) in [(5.0, R), (9.0, R), (4.9, P), (2.0, P), (1.9, N), (9.1, N)] {
        assert_eq!(verdict(&line(&[value]), check()), expected, "{value}");
    }
    // Two points of which one holds: half of them.
    let finding = line(&[6.0, 1.0]).find(&claim(check())).expect("good");
    assert_eq!(
        (finding.verdict, finding.text.as_str()),
        (M, "1 of 2 hold, 1 fails; worst: 1 at link.radio.x 1")
    );
    assert_eq!(verdict(&line(&[1.0, 1.5]), check()), N);
}

#[test]
fn a_bound_may_be_reached_by_the_interval() {
    let data = Data::of(&[(0.0, "a", &[0.9, 1.0, 1.0, 0.98])]);
    let strict = json!({ "kind": "bounds", "at_least": 1.0 });
    assert_eq!(verdict(&data, strict.clone()), I);
    let mut noise = strict;
    noise["noise"] = true.into();
    assert_eq!(verdict(&data, noise.clone()), R);
    let below = Data::of(&[(0.0, "a", &[0.9, 0.91, 0.9])]);
    assert_eq!(verdict(&below, noise), N);
}

#[test]
fn where_it_must_be_sure_no_effect_is_not_enough() {
    let of = |samples| Data::of(&[(0.0, "a", samples)]);
    let above = json!({ "kind": "bounds", "at_least": 1.1, "at_least_partly": 1.0, "surely": true });
    let below = json!({ "kind": "bounds", "at_most": 0.9, "at_most_partly": 1.0, "surely": true });
    // Means of 1.2 and 0.8, first clear of the bounds, then with intervals that include them; then no effect at all.
    for (above_one, verdict_above, below_one) in [
        (&[1.19, 1.2, 1.21], R, &[0.81, 0.8, 0.79]),
        (&[1.15, 1.2, 1.25], I, &[0.85, 0.8, 0.75]),
        (&[0.8, 1.2, 1.6], I, &[1.2, 0.8, 0.4]),
        (&[1.0, 1.0, 1.0], N, &[1.0, 1.0, 1.0]),
    ] {
        assert_eq!(verdict(&of(above_one), above.clone()), verdict_above, "{above_one:?}");
        assert_eq!(verdict(&of(below_one), below.clone()), verdict_above, "{below_one:?}");
    }
    // Of one run nothing is sure, neither that it holds nor that it fails.
    assert_eq!(verdict(&of(&[1.2]), above.clone()), I);
    assert_eq!(verdict(&of(&[0.2]), above.clone()), I);
    let mut both = above;
    both["noise"] = true.into();
    let problem = of(&[1.2, 1.2]).find(&claim(both)).expect_err("they exclude each other");
    assert_eq!(problem.message, "either `noise` or `surely` expected");
}

#[test]
fn figures_are_near_the_papers() {
    let one = |value: f64| {
        verdict(
            &line(&[value]),
            json!({ "kind": "near", "value": 100.0, "within": 0.1, "within_partly": 0.2 }),
        )
    };
    assert_eq!((one(109.0), one(91.0), one(115.0), one(125.0)), (R, R, P, N));
    let table = json!({
        "kind": "near", "within": 0.1,
        "values": [{ "at": { "x": 0 }, "value": 10.0 }, { "at": { "x": 1 }, "value": 20.0 }],
    });
    assert_eq!(verdict(&line(&[10.5, 19.0]), table.clone()), R);
    let finding = line(&[10.5, 15.0]).find(&claim(table.clone())).expect("good");
    assert_eq!(finding.verdict, M);
    assert!(finding.text.contains("15 for 20 at link.radio.x 1"), "{}", finding.text);
    assert_eq!(verdict(&line(&[20.0, 15.0]), table.clone()), N);
    // A point that the table names is there, except in the short form.
    let claim = serde_json::from_value(claim(table)).expect("a claim");
    let data = line(&[10.5]);
    let problem = evaluate(&claim, &data.figured(false)).expect_err("the point x = 1 is missing");
    assert_eq!(problem.field, "values[1].at");
    assert_eq!(evaluate(&claim, &data.figured(true)).expect("thinned").verdict, R);
}

#[test]
fn trends_go_their_way_at_each_step_or_only_from_end_to_end() {
    let rising = |values: &[f64]| {
        verdict(
            &line(values),
            json!({ "kind": "trend", "over": "x", "direction": "rising" }),
        )
    };
    assert_eq!(rising(&[1.0, 2.0, 3.0]), R);
    assert_eq!(rising(&[1.0, 3.0, 2.0]), P);
    assert_eq!(rising(&[3.0, 2.0, 1.0]), N);
    assert_eq!(rising(&[1.0, 1.0]), N);
    let falling = |values: &[f64], slack: f64, ties: bool| {
        let check = json!({ "kind": "trend", "over": "x", "direction": "falling", "slack": slack, "ties": ties });
        verdict(&line(values), check)
    };
    assert_eq!(falling(&[3.0, 1.0, 1.01], 0.0, false), P);
    assert_eq!(falling(&[3.0, 1.0, 1.01], 0.02, false), R);
    assert_eq!(falling(&[1.0, 1.0], 0.0, true), R);
    assert_eq!(falling(&[1.0, 1.1], 0.0, true), N);
}

#[test]
fn a_tie_of_the_ends_is_undecided_where_the_interval_includes_a_fall() {
    let tied = |first: &[f64], last: &[f64]| {
        let check = json!({ "kind": "trend", "over": "x", "direction": "rising", "ties": true, "slack": 0.05 });
        verdict(&Data::of(&[(0.0, "a", first), (1.0, "a", last)]), check)
    };
    let first = [100.0, 100.0, 100.0];
    // -5 ± 10, then -5 ± 0.25 and 1 ± 2.5 with a slack of 5, then a clear fall.
    assert_eq!(tied(&first, &[91.0, 95.0, 99.0]), I);
    assert_eq!(tied(&first, &[95.9, 96.0, 96.1]), R);
    assert_eq!(tied(&first, &[100.0, 101.0, 102.0]), R);
    assert_eq!(tied(&first, &[89.0, 90.0, 91.0]), N);
}

#[test]
fn steps_within_noise_do_not_count() {
    // Down by 0.1 in the mean, with pairs that go both ways.
    let noisy = Data::of(&[
        (0.0, "a", &[1.0, 2.0, 3.0]),
        (1.0, "a", &[1.5, 1.5, 2.7]),
        (2.0, "a", &[4.0, 5.0, 6.0]),
    ]);
    let check = json!({ "kind": "trend", "over": "x", "direction": "rising" });
    assert_eq!(verdict(&noisy, check.clone()), R);
    // The same step, each pair alike.
    let clear = Data::of(&[
        (0.0, "a", &[1.0, 2.0, 3.0]),
        (1.0, "a", &[0.9, 1.9, 2.9]),
        (2.0, "a", &[4.0, 5.0, 6.0]),
    ]);
    assert_eq!(verdict(&clear, check), P);
}

#[test]
fn where_every_step_counts_a_level_one_is_not_enough() {
    let data = |middle| {
        Data::of(&[
            (0.0, "a", &[1.0, 1.1, 1.2]),
            (1.0, "a", middle),
            (2.0, "a", &[2.0, 2.1, 2.2]),
        ])
    };
    let check = json!({ "kind": "trend", "over": "x", "direction": "rising", "every_step": true });
    let find = |middle| data(middle).find(&claim(check.clone())).expect("good");
    assert_eq!(find(&[1.5, 1.6, 1.7]).verdict, R);
    // Higher by a hair, the differences of equal seeds being 0.3, 0.1 and -0.3.
    let level = find(&[1.3, 1.2, 0.9]);
    assert_eq!(level.verdict, P);
    assert!(level.text.ends_with("; 1 step is within noise"), "{}", level.text);
    let loose = json!({ "kind": "trend", "over": "x", "direction": "rising" });
    assert_eq!(verdict(&data(&[1.3, 1.2, 0.9]), loose.clone()), R);
    let mut both = loose;
    both["ties"] = true.into();
    both["every_step"] = true.into();
    assert!(data(&[1.5, 1.6, 1.7]).find(&claim(both)).is_err());
}

#[test]
fn a_list_gives_the_order() {
    let data = Data::of(&[(0.0, "a", &[1.0]), (0.0, "b", &[3.0]), (0.0, "c", &[2.0])]);
    let order = |schemes: Value| {
        let check = json!({
            "kind": "trend", "over": "scheme", "direction": "falling",
            "of": { "metric": "goodput_mbps", "at": { "x": 0, "scheme": schemes } },
        });
        verdict(&data, check)
    };
    assert_eq!(order(json!(["b", "c", "a"])), R);
    assert_eq!(order(json!(["c", "b", "a"])), P);
    assert_eq!(order(json!(["a", "c", "b"])), N);
}

#[test]
fn lines_are_straight_and_go_their_way() {
    let linear = |values: &[f64], direction: &str| {
        let check = json!({ "kind": "linear", "over": "x", "direction": direction, "r2": 0.95, "r2_partly": 0.8 });
        verdict(&line(values), check)
    };
    assert_eq!(linear(&[1.0, 2.0, 3.1, 4.0], "rising"), R);
    assert_eq!(linear(&[1.0, 2.0, 3.1, 4.0], "falling"), N);
    assert_eq!(linear(&[0.0, 1.0, 4.0, 9.0], "rising"), P);
    assert_eq!(linear(&[0.0, 3.0, 0.0, 3.0], "rising"), N);
}

#[test]
fn ratios_and_differences_pair_the_points() {
    let data = Data::of(&[
        (0.0, "a", &[4.0]),
        (0.0, "b", &[2.0]),
        (1.0, "a", &[9.0]),
        (1.0, "b", &[3.0]),
    ]);
    let of = |other: &str, at: Value| {
        let mut of = json!({ "metric": "goodput_mbps", "at": { "scheme": "a" } });
        of[other] = json!({ "at": at });
        claim(json!({ "kind": "trend", "over": "x", "direction": "rising", "of": of }))
    };
    let text = |claim: &Value| data.find(claim).expect("good").text;
    assert_eq!(text(&of("to", json!({ "scheme": "b" }))), "2 at 0, 3 at 1");
    assert_eq!(text(&of("minus", json!({ "scheme": "b" }))), "2 at 0, 6 at 1");
    // The other side may stay at one point.
    assert_eq!(text(&of("to", json!({ "scheme": "b", "x": 0 }))), "2 at 0, 4.500 at 1");
}

#[test]
fn harm_is_what_is_lost_beside_one_flow_over_what_is_lost_beside_another() {
    let data = Data::of(&[
        (0.0, "ours", &[4.0]),
        (0.0, "like", &[6.0]),
        (0.0, "alone", &[10.0]),
        (1.0, "ours", &[9.0]),
        (1.0, "like", &[9.5]),
        (1.0, "alone", &[10.0]),
    ]);
    let harm = json!({ "alone": { "at": { "scheme": "alone" } }, "like": { "at": { "scheme": "like" } } });
    let of = json!({ "metric": "goodput_mbps", "at": { "scheme": "ours" }, "harm": harm });
    let check = json!({ "kind": "trend", "over": "x", "direction": "rising", "of": of.clone() });
    let finding = data.find(&claim(check)).expect("good");
    assert_eq!(finding.text, "1.500 at 0, 2 at 1");
    for other in ["to", "minus"] {
        let mut both = of.clone();
        both[other] = json!({ "at": { "scheme": "like" } });
        let check = json!({ "kind": "trend", "over": "x", "direction": "rising", "of": both });
        let problem = data.find(&claim(check)).expect_err("harm is a ratio already");
        assert_eq!(problem.field, "of.harm");
    }
}

#[test]
fn ratios_have_no_unit() {
    let data = Data::of(&[(0.0, "ours", &[4.0]), (0.0, "like", &[6.0]), (0.0, "alone", &[10.0])]);
    let like = json!({ "at": { "scheme": "like" } });
    let harm = json!({ "alone": { "at": { "scheme": "alone" } }, "like": like });
    for (name, other) in [("to", like), ("harm", harm)] {
        let mut of =
            json!({ "metric": "goodput_mbps", "at": { "scheme": "ours" }, "per": 2.0, "unit": "halves of a Mbit/s" });
        let bounds = |of: &Value| claim(json!({ "kind": "bounds", "of": of, "at_least": 0.1 }));
        assert!(data.find(&bounds(&of)).is_ok());
        of[name] = other;
        let problem = data.find(&bounds(&of)).expect_err("a ratio");
        assert_eq!(problem.field, "of.unit");
    }
}

#[test]
fn constants_divide_point_by_point() {
    let data = line(&[10.0, 30.0]);
    let per = json!([{ "at": { "x": 0 }, "value": 10.0 }, { "at": { "x": 1 }, "value": 15.0 }]);
    let check = |per: Value| json!({ "kind": "flat", "over": "x", "within": 10.0, "of": { "metric": "goodput_mbps", "at": { "scheme": "a" }, "per": per } });
    let finding = data.find(&claim(check(per))).expect("good");
    assert!(finding.text.starts_with("1 at 0, 2 at 1"), "{}", finding.text);
    let problem = data
        .find(&claim(check(json!([{ "at": { "x": 0 }, "value": 1.0 }]))))
        .expect_err("x = 1 has none");
    assert_eq!(problem.field, "of.per");
}

#[test]
fn one_value_of_an_axis_may_be_enough() {
    let data = Data::of(&[
        (0.0, "a", &[4.0]),
        (1.0, "a", &[1.0]),
        (0.0, "b", &[3.0]),
        (1.0, "b", &[3.0]),
    ]);
    let mut claim = claim(json!({ "kind": "bounds", "at_least": 2.0, "of": { "metric": "goodput_mbps" } }));
    assert_eq!(data.find(&claim).expect("good").verdict, M);
    claim["for_some"] = json!("scheme");
    let finding = data.find(&claim).expect("good");
    assert_eq!(finding.verdict, R);
    assert_eq!(finding.text, "with scheme b: 2 of 2 hold; closest: 3 at link.radio.x 0");
}

#[test]
fn of_equal_verdicts_the_one_counts_that_keeps_farther_within_its_bounds() {
    let data = Data::of(&[(0.0, "a", &[0.9]), (0.0, "b", &[0.2]), (0.0, "c", &[0.5])]);
    for (bound, best) in [("at_most", "b"), ("at_least", "a")] {
        let mut check = json!({ "kind": "bounds", "of": { "metric": "goodput_mbps" } });
        check[bound] = json!(if bound == "at_most" { 1.0 } else { 0.1 });
        let mut claim = claim(check);
        claim["for_some"] = json!("scheme");
        let finding = data.find(&claim).expect("good");
        assert_eq!(finding.verdict, R);
        assert!(
            finding.text.starts_with(&format!("with scheme {best}:")),
            "{}",
            finding.text
        );
    }
}

#[test]
fn flows_are_summed_or_compared() {
    let runs = vec![Fake(BTreeMap::from([("tcp1", 1.0), ("tcp2", 3.0), ("sctp", 7.0)]))];
    let data = Data(vec![(0.0, "a", runs)]);
    let text = |across: &str| {
        let of = json!({ "metric": "goodput_mbps", "flow": "tcp*", "across": across });
        data.find(&claim(json!({ "kind": "bounds", "at_least": 0.0, "of": of })))
            .expect("good")
            .text
    };
    assert_eq!(
        (text("sum").as_str(), text("min").as_str(), text("mean").as_str()),
        ("4", "1", "2")
    );
    let of = json!({ "metric": "goodput_mbps", "flow": "udp" });
    let problem = data
        .find(&claim(json!({ "kind": "bounds", "at_least": 0.0, "of": of })))
        .expect_err("no such flow");
    assert_eq!(
        (problem.field.as_str(), problem.message.as_str()),
        ("of.flow", "there is no flow `udp`")
    );
}

#[test]
fn nothing_measured_is_not_reproduced() {
    for check in [
        json!({ "kind": "bounds", "at_most": 1.0 }),
        json!({ "kind": "near", "value": 1.0, "within": 0.1 }),
        json!({ "kind": "flat", "over": "x", "within": 1.0 }),
    ] {
        let finding = line(&[f64::NAN, f64::NAN]).find(&claim(check)).expect("good");
        assert_eq!(finding.verdict, N);
        assert!(finding.text.contains("nothing was measured"), "{}", finding.text);
    }
}

#[test]
fn points_without_a_value_may_be_left_out() {
    let check = |where_measured: bool| {
        let of = json!({ "metric": "goodput_mbps", "where_measured": where_measured });
        json!({ "kind": "bounds", "at_least": 1.0, "of": of })
    };
    let data = line(&[1.0, f64::NAN, 2.0]);
    assert_eq!((verdict(&data, check(false)), verdict(&data, check(true))), (M, R));
    assert_eq!(verdict(&line(&[f64::NAN]), check(true)), N);
}

#[test]
fn the_share_of_runs_with_a_value_counts_each_run_once() {
    // Three runs of four have a value, whatever it is; at the second point no run has one.
    let none = [f64::NAN; 4];
    let data = Data::of(&[(1.0, "a", &[7.0, f64::NAN, 300.0, 0.0]), (2.0, "a", &none)]);
    let find = |more: Value| {
        let mut of = json!({ "metric": "first_switch_s", "share_measured": true });
        of.as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        data.find(&claim(json!({ "kind": "bounds", "at_least": 0.7, "of": of })))
    };
    let finding = find(json!({})).expect("good");
    let means: Vec<_> = finding.points.iter().map(|point| point.mean).collect();
    assert_eq!(means, [0.75, 0.0]);
    // The other side of a difference is a share as well.
    let finding = find(json!({ "at": { "x": 1 }, "minus": { "at": { "x": 2 } } })).expect("good");
    assert_eq!(finding.figure.and_then(|figure| figure.mean), Some(0.75));
    assert_eq!(
        find(json!({ "where_measured": true })).expect_err("both").field,
        "of.share_measured"
    );
}

#[test]
fn what_a_claim_asks_for_must_be_there() {
    let data = line(&[1.0, 2.0]);
    let problem = |check: Value| {
        let problem = data.find(&claim(check)).expect_err("wrong");
        format!("{}: {}", problem.field, problem.message)
    };
    let of = |of: Value| json!({ "kind": "bounds", "at_least": 1.0, "of": of });
    assert_eq!(
        problem(of(json!({ "metric": "goodput" }))),
        "of.metric: there is no metric `goodput` here"
    );
    assert_eq!(problem(of(json!({}))), "of: `metric` is missing");
    let metric = "goodput_mbps";
    assert_eq!(
        problem(of(json!({ "metric": metric, "at": { "y": 1 } }))),
        "of.at.y: there is no axis `y`"
    );
    assert_eq!(
        problem(of(json!({ "metric": metric, "at": { "x": 7 } }))),
        "of.at.x: the axis has no value 7"
    );
    assert_eq!(
        problem(of(json!({ "metric": metric, "scenario": "other" }))),
        "of.scenario: there is no scenario `other`"
    );
    assert_eq!(
        problem(json!({ "kind": "flat", "over": "scheme", "within": 1.0 })),
        "over: there is no free axis `scheme`"
    );
    assert_eq!(
        problem(json!({ "kind": "bounds" })),
        ": `at_least`, `at_most` or both expected"
    );
    assert_eq!(
        problem(json!({ "kind": "bounds", "at_least": 1.0, "at_least_partly": 2.0 })),
        "at_least_partly: a bound wider than the strict one expected"
    );
}

#[test]
fn a_figure_of_the_paper_has_our_values_and_the_papers_where_they_are_known() {
    let figure = |paper: Value| {
        let figure = json!({
            "id": "f", "title": "Figure 7", "of": { "metric": "goodput_mbps", "at": { "scheme": "a" } }, "over": "x", "paper": paper,
        });
        pictured(
            &serde_json::from_value(figure).expect("a figure"),
            &line(&[1.0, 2.0, 4.0]).figured(false),
        )
    };
    let points = figure(json!([{ "at": { "x": 1.0 }, "value": 2.5 }])).expect("points");
    let means: Vec<_> = points.iter().map(|point| (point.mean, point.paper)).collect();
    assert_eq!(means, [(1.0, None), (2.0, Some(2.5)), (4.0, None)]);
    let problem = figure(json!([{ "at": { "x": 9.0 }, "value": 1.0 }])).expect_err("no such point");
    assert_eq!(
        (problem.field.as_str(), problem.message.as_str()),
        ("paper[0].at", "there is no point x 9.0")
    );
}

#[test]
fn what_must_surely_differ_from_nothing_is_not_met_by_nothing() {
    let check = |bound: &str| json!({ "kind": "bounds", bound: 0.0, "surely": true });
    let data = Data::of(&[(0.0, "a", &[0.0, 0.0, 0.0])]);
    assert_eq!(verdict(&data, check("at_least")), N);
    assert_eq!(verdict(&data, check("at_most")), N);
    let data = Data::of(&[(0.0, "a", &[0.1, 0.1, 0.1])]);
    assert_eq!(verdict(&data, check("at_least")), R);
}

#[test]
fn theory_replaces_the_value_of_a_check() {
    let check = json!({ "kind": "near", "of": { "metric": "goodput_mbps", "theory": "bianchi" }, "within": 0.1 });
    let claim = json!({ "id": "c", "claim": "as theory says", "paper": "theory", "check": check });
    let problem = Data::of(&[(1.0, "a", &[1.0, 1.0])])
        .find(&claim)
        .expect_err("no scenario");
    assert_eq!(problem.field, "of.theory");
    let mut both = claim.clone();
    both["check"]["value"] = json!(1.0);
    let checks: Check = serde_json::from_value(both["check"].clone()).expect("a check");
    let case = |theory| Case {
        at: Vec::new(),
        samples: vec![1.049, 1.051],
        deterministic: false,
        theory,
        runs: None,
        equal: false,
        kept: None,
    };
    let Check::Near { of, within, .. } = &checks else {
        panic!("near")
    };
    let found = |value, theory| {
        let near = Near {
            of,
            value,
            values: &[],
            within: *within,
            within_partly: None,
        };
        near.parts(&[case(theory)], false)
    };
    assert!(found(Some(1.0), Some(1.0)).is_err(), "a value beside theory");
    let part = |theory| found(None, Some(theory)).expect("a part").remove(0);
    assert_eq!(part(0.96).verdict, Verdict::Inconclusive, "{}", part(0.96).text);
    assert_eq!(part(1.0).verdict, Verdict::Reproduced);
    assert_eq!(part(1.0).text, "1.050 ± 0.013 for 1.0000");
    assert_eq!(part(3.0).verdict, Verdict::Not);
}

#[test]
fn a_claim_names_the_point_that_more_seeds_would_decide() {
    let claim = json!({ "id": "c", "claim": "above one", "paper": 1,
        "check": { "kind": "bounds", "of": { "metric": "goodput_mbps" }, "at_least": 1.0 } });
    let data = Data::of(&[(1.0, "a", &[0.6, 0.9, 1.1]), (2.0, "a", &[0.9, 1.0, 1.2])]);
    let finding = data.find(&claim).expect("a finding");
    assert_eq!(finding.verdict, Verdict::Inconclusive, "{}", finding.text);
    assert!(finding.text.contains("worst: 0.87"), "{}", finding.text);
    assert!(
        finding
            .text
            .contains("; open: 1.03 ± 0.38 at link.radio.x 2, scheme a, about"),
        "{}",
        finding.text
    );
}
