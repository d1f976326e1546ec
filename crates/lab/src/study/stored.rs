//! The class of a claim from what a study's folder keeps of its last full run.

use serde::Deserialize;
use serde_json::Value;

use super::check::{Plotted, grade_figure};
use super::file::{Check, ClaimEntry};
use super::verdict::Verdict;

/// What a study's folder keeps.
#[derive(Debug, Deserialize)]
pub(super) struct Kept {
    pub(super) whimbrel: String,
    pub(super) command: String,
    pub(super) claims: Vec<KeptClaim>,
    /// Figures of papers, by their ids.
    #[serde(default)]
    pub(super) figures: Vec<KeptFigure>,
}

/// What is kept of a figure.
#[derive(Debug, Deserialize)]
pub(super) struct KeptFigure {
    pub(super) id: String,
    pub(super) points: Vec<Plotted>,
}

/// What is kept of a claim.
#[derive(Debug, Deserialize)]
pub(super) struct KeptClaim {
    pub(super) id: String,
    pub(super) text: String,
    verdict: String,
    #[serde(default)]
    seeds: Option<usize>,
    /// Figures of all points; results of version 0.1 do not have them.
    #[serde(default)]
    pub(super) points: Option<Vec<Plotted>>,
}

/// A claim's class, and how many seeds would decide it if it is open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Class {
    pub(super) verdict: Verdict,
    pub(super) seeds: Option<usize>,
}

impl KeptClaim {
    /// The class. Results without the figures of all points give the share of points that hold, and the figure of the worst one: if fewer
    /// than half hold, the class is that of the worst point. `runs` is the number of seeds that were run.
    pub(super) fn class(&self, claim: &ClaimEntry, runs: usize) -> Class {
        let fixed = |verdict| Class { verdict, seeds: None };
        if claim.vacuous.is_some() {
            return fixed(Verdict::Vacuous);
        }
        let known = Verdict::ALL.into_iter().find(|verdict| verdict.name() == self.verdict);
        if self.points.is_some()
            && let Some(verdict) = known
        {
            return Class {
                verdict,
                seeds: self.seeds,
            };
        }
        if let Some((holds, all)) = shares(&self.text) {
            let by_share = Verdict::of_shares(holds, 0, 0, all);
            if by_share > Verdict::Not {
                return fixed(by_share);
            }
        }
        let figure = mean_and_interval(worst(&self.text));
        let graded = figure.and_then(|(mean, ci95)| grade_figure(&claim.check, mean, ci95, expected(&self.text), runs));
        match (graded, self.verdict.as_str()) {
            // The worst point of several of which most do not hold cannot hold itself.
            (Some((verdict, seeds)), _) if shares(&self.text).is_none() || verdict != Verdict::Reproduced => {
                Class { verdict, seeds }
            }
            (_, "reproduced") => fixed(Verdict::Reproduced),
            (_, "partly") => fixed(Verdict::Direction),
            _ => fixed(Verdict::Not),
        }
    }

    /// The figures along an axis that the text lists, `1.2 ± 0.1 at 900, 1.3 at 1200`, for plots of results without the figures of all points.
    pub(super) fn listed(&self, check: &Check) -> Vec<Plotted> {
        if matches!(check, Check::Bounds { .. } | Check::Near { .. }) {
            return Vec::new();
        }
        let list = worst(&self.text).split(';').next().unwrap_or_default();
        let entries = list.split(", ").map(|entry| {
            let (figure, at) = entry.split_once(" at ")?;
            let (mean, ci95) = mean_and_interval(figure)?;
            let value = at.parse::<f64>().map_or_else(|_| Value::from(at), Value::from);
            Some(Plotted {
                at: vec![(String::new(), value)],
                mean,
                ci95,
                paper: None,
            })
        });
        entries.collect::<Option<Vec<_>>>().unwrap_or_default()
    }
}

/// `5 of 8 hold` at the beginning of a text, or behind `with x: `.
fn shares(text: &str) -> Option<(usize, usize)> {
    let before = &text[..text.find(" hold")?];
    let mut words = before.rsplit(' ');
    let all = words.next()?.parse().ok()?;
    (words.next()? == "of").then_some(())?;
    Some((words.next()?.parse().ok()?, all))
}

/// What follows `worst: ` or `closest: `, or all of it.
fn worst(text: &str) -> &str {
    let marks = ["worst: ", "closest: "];
    let found = marks
        .iter()
        .find_map(|mark| text.split_once(mark))
        .map(|(_, rest)| rest);
    found.unwrap_or_else(|| match text.split_once(": ") {
        Some((head, rest)) if head.starts_with("with ") => rest,
        _ => text,
    })
}

/// `1.10 ± 0.14` at the beginning of a text.
fn mean_and_interval(text: &str) -> Option<(f64, Option<f64>)> {
    let mut words = text.split([' ', ',', ';']);
    let mean = words.next()?.parse().ok()?;
    let interval = (words.next() == Some("±"))
        .then(|| words.next()?.parse().ok())
        .flatten();
    Some((mean, interval))
}

/// The paper's figure in `3.1 ± 0.2 for 4 at x`.
fn expected(text: &str) -> Option<f64> {
    let (_, rest) = worst(text).split_once(" for ")?;
    rest.split([' ', ',', ';']).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(check: &str, verdict: &str, text: &str) -> (Verdict, Option<usize>) {
        let check: Value = serde_json::from_str(check).expect("JSON");
        let claim = serde_json::json!({ "id": "x", "claim": "x", "paper": 1, "check": check });
        let claim: ClaimEntry = serde_json::from_value(claim).expect("a claim");
        let kept = serde_json::json!({ "id": "x", "text": text, "verdict": verdict });
        let kept: KeptClaim = serde_json::from_value(kept).expect("a kept claim");
        let class = kept.class(&claim, 10);
        (class.verdict, class.seeds)
    }

    const ABOVE: &str = r#"{ "kind": "bounds", "of": { "metric": "m", "to": {} }, "at_least": 1.2 }"#;

    #[test]
    fn shares_of_points_give_the_class() {
        let of = |text: &str| class(ABOVE, "partly", text).0;
        assert_eq!(of("9 of 10 hold; worst: 1.1 ± 0.01 at x 1"), Verdict::Reproduced);
        assert_eq!(of("5 of 10 hold; worst: 0.9 ± 0.01 at x 1"), Verdict::Mostly);
        assert_eq!(
            of("with s a: 4 of 10 hold; worst: 1.1 ± 0.01 at x 1"),
            Verdict::Direction
        );
        assert_eq!(of("0 of 10 hold; worst: 0.9 ± 0.01 at x 1"), Verdict::Not);
    }

    #[test]
    fn an_interval_that_includes_both_is_inconclusive_with_the_seeds_that_would_decide() {
        assert_eq!(class(ABOVE, "not", "1.10 ± 0.14"), (Verdict::Inconclusive, Some(20)));
        assert_eq!(
            class(ABOVE, "reproduced", "1.30 ± 0.14"),
            (Verdict::Inconclusive, Some(20))
        );
        assert_eq!(class(ABOVE, "reproduced", "1.40 ± 0.14"), (Verdict::Reproduced, None));
        assert_eq!(class(ABOVE, "not", "1.05 ± 0.04"), (Verdict::Direction, None));
        assert_eq!(class(ABOVE, "not", "0.95 ± 0.04"), (Verdict::Not, None));
    }

    #[test]
    fn figures_listed_along_an_axis_can_be_plotted() {
        let kept = serde_json::json!({ "id": "x", "verdict": "not", "text": "1.2 ± 0.1 at 900, 1.3 at 1200; 1 step goes the other way" });
        let kept: KeptClaim = serde_json::from_value(kept).expect("a kept claim");
        let check = serde_json::json!({ "kind": "flat", "of": { "metric": "m" }, "over": "x", "within": 0.1 });
        let check: Check = serde_json::from_value(check).expect("a check");
        let listed: Vec<_> = kept
            .listed(&check)
            .iter()
            .map(|point| (point.at[0].1.clone(), point.mean, point.ci95))
            .collect();
        assert_eq!(
            listed,
            [(Value::from(900.0), 1.2, Some(0.1)), (Value::from(1200.0), 1.3, None)]
        );
    }
}
