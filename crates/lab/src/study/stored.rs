//! The class of a claim from what a study's folder keeps of its last full run.

use serde::Deserialize;
#[cfg(test)]
use serde_json::Value;

use super::check::{Plotted, Seeds, regrade};
use super::figures::StudyProblem;
use super::file::{Check, ClaimEntry, Selection};
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
    #[serde(default)]
    selection: Option<String>,
    pub(super) points: Vec<Plotted>,
}

/// What is kept of a claim.
#[derive(Debug, Deserialize)]
pub(super) struct KeptClaim {
    pub(super) id: String,
    pub(super) text: String,
    /// The class of the run; none if the figures are those of another claim of the same run, made for a check that was written later.
    #[serde(default)]
    verdict: Option<String>,
    #[serde(default)]
    seeds: Option<usize>,
    /// Whether more seeds would decide it than are named.
    #[serde(default)]
    too_many: bool,
    /// A hash of what was measured; older results have none.
    #[serde(default)]
    selection: Option<String>,
    #[serde(default)]
    metric: Option<String>,
    #[serde(default)]
    over: Option<String>,
    /// A hash of the check; older results have none.
    #[serde(default)]
    check: Option<String>,
    /// Figures of all points.
    pub(super) points: Vec<Plotted>,
}

/// A claim's class, what came out in words, and how many seeds would decide it if it is open.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Class {
    pub(super) verdict: Verdict,
    pub(super) text: String,
    pub(super) seeds: Option<Seeds>,
}

impl KeptFigure {
    /// Whether this is what the figure shows now.
    pub(super) fn is_of(&self, of: Option<&Selection>, over: Option<&str>) -> bool {
        let now = of.map(|of| of.hash(over));
        self.selection.is_none() || self.selection == now
    }
}

impl KeptClaim {
    /// Whether this was measured for the claim as it is now: the same selection along the same axis.
    pub(super) fn is_of(&self, claim: &ClaimEntry) -> bool {
        let (of, over) = claim.check.subject();
        if !claim.check.is_of_points() && self.check.as_ref().is_some_and(|check| *check != claim.hash()) {
            return false;
        }
        match &self.selection {
            Some(kept) => *kept == of.hash(over),
            None => {
                let metric = self.metric.is_none() || self.metric == of.metric;
                metric && (self.over.is_none() || self.over.as_deref() == over)
            }
        }
    }

    /// Returns the class by the current check where the stored figures of `seeds` runs suffice: those of single points do. Along an
    /// axis the class is that of the run, where the figures were compared seed by seed.
    ///
    /// # Errors
    /// Returns an error if the check as it stands now is wrong.
    pub(super) fn class(&self, claim: &ClaimEntry, seeds: usize) -> Result<Class, StudyProblem> {
        let current = self.points.iter().all(|point| point.runs.is_some());
        let unpaired = matches!(claim.check, Check::Flat { .. } | Check::Best { .. }) && !current;
        let by_points = claim.check.is_of_points() || unpaired || self.verdict.is_none();
        // Points of which nothing was measured are not kept.
        let complete = !self.points.is_empty() && !self.text.contains("nothing was measured");
        if by_points && complete {
            let finding = regrade(claim, &self.points, seeds, self.selection.is_some())?;
            return Ok(Class {
                verdict: finding.verdict,
                text: finding.text,
                seeds: finding.seeds,
            });
        }
        let known = Verdict::ALL
            .into_iter()
            .find(|verdict| Some(verdict.name()) == self.verdict.as_deref());
        let vacuous = claim.vacuous.as_ref().map(|_| Verdict::Vacuous);
        let seeds = if self.too_many {
            Some(Seeds::TooMany)
        } else {
            self.seeds.map(Seeds::of)
        };
        Ok(Class {
            verdict: vacuous.or(known).unwrap_or(Verdict::Not),
            text: self.text.clone(),
            seeds: seeds.filter(|_| vacuous.is_none()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The class of a claim with these figures at `x` 0, 1, 2, ..., of which `said` was kept.
    fn class(check: &str, said: &str, figures: &[(f64, f64)]) -> (Verdict, Option<usize>, String) {
        let claim = claim(check);
        let points = figures
            .iter()
            .enumerate()
            .map(|(x, (mean, ci95))| serde_json::json!({ "at": [["x", x]], "mean": mean, "ci95": ci95 }));
        let points: Vec<Value> = points.collect();
        let verdict = (said != "later").then_some("direction only");
        let kept = serde_json::json!({ "id": "x", "text": said, "verdict": verdict, "points": points });
        let kept: KeptClaim = serde_json::from_value(kept).expect("a kept claim");
        let class = kept.class(&claim, 10).expect("a good check");
        (class.verdict, class.seeds.and_then(Seeds::number), class.text)
    }

    fn claim(check: &str) -> ClaimEntry {
        let check: Value = serde_json::from_str(check).expect("JSON");
        let claim = serde_json::json!({ "id": "x", "claim": "x", "paper": 1, "check": check });
        serde_json::from_value(claim).expect("a claim")
    }

    const ABOVE: &str = r#"{ "kind": "bounds", "of": { "metric": "m", "to": {} }, "at_least": 1.2 }"#;

    #[test]
    fn figures_that_were_kept_give_the_class_by_the_rules_of_today() {
        let of = |mean: f64, ci95: f64| {
            let (verdict, seeds, _) = class(ABOVE, "", &[(mean, ci95)]);
            (verdict, seeds)
        };
        assert_eq!(of(1.10, 0.14), (Verdict::Inconclusive, Some(18)));
        assert_eq!(of(1.30, 0.14), (Verdict::Inconclusive, Some(18)));
        assert_eq!(of(1.40, 0.14), (Verdict::Reproduced, None));
        assert_eq!(of(1.05, 0.04), (Verdict::Direction, None));
        assert_eq!(of(0.95, 0.04), (Verdict::Not, None));
        let (verdict, _, text) = class(ABOVE, "", &[(1.1, 0.14), (0.9512, 0.04), (0.9512, 0.04)]);
        assert_eq!(verdict, Verdict::Not);
        assert_eq!(
            text,
            "0 of 2 hold, 1 fails, 1 undecided (1 more point is the same runs); worst: 0.951 ± 0.040 at x 1"
        );
    }

    #[test]
    fn where_figures_were_not_kept_the_class_of_the_run_remains() {
        let trend = r#"{ "kind": "trend", "of": { "metric": "m" }, "over": "x", "direction": "rising" }"#;
        let falling = [(2.0, 0.1), (1.0, 0.1)];
        assert_eq!(
            class(trend, "said", &falling),
            (Verdict::Direction, None, "said".to_owned())
        );
        // A check that was written after the run has its figures alone.
        let (verdict, _, text) = class(trend, "later", &falling);
        assert_eq!(
            (verdict, text.as_str()),
            (
                Verdict::Not,
                "2.00 ± 0.10 at 0, 1.00 ± 0.10 at 1; 1 step goes the other way"
            )
        );
        let said = "0 of 3 hold; worst: nothing was measured at x 2";
        assert_eq!(class(ABOVE, said, &[(1.4, 0.1)]).0, Verdict::Direction);
    }

    #[test]
    fn figures_of_another_selection_are_not_of_the_claim() {
        let kept = |selection: &str, metric: &str| -> KeptClaim {
            let mut kept = serde_json::json!({ "id": "x", "text": "said", "verdict": "reproduced", "points": [], "metric": metric });
            if !selection.is_empty() {
                kept["selection"] = selection.into();
            }
            serde_json::from_value(kept).expect("a kept claim")
        };
        let of = |at: &str| {
            claim(&format!(
                r#"{{ "kind": "bounds", "of": {{ "metric": "m", "at": {{ {at} }}, "to": {{}} }}, "at_least": 1 }}"#
            ))
        };
        let (now, other) = (of(r#""x": 1"#), of(r#""x": 2"#));
        let hash = now.check.of().hash(None);
        assert!(kept(&hash, "m").is_of(&now));
        assert!(!kept(&hash, "m").is_of(&other));
        // The bounds are no part of it, nor is the unit.
        let text = r#"{ "kind": "bounds", "of": { "metric": "m", "at": { "x": 1 }, "to": {}, "unit": "kB/s" }, "at_most": 2 }"#;
        assert!(kept(&hash, "m").is_of(&claim(text)));
        // The way in which a series is judged is part of it: its class is kept.
        let trend = |direction: &str| {
            claim(&format!(
                r#"{{ "kind": "trend", "of": {{ "metric": "m" }}, "over": "x", "direction": "{direction}" }}"#
            ))
        };
        let mut of_trend = kept(&trend("rising").check.of().hash(Some("x")), "m");
        assert!(
            of_trend.is_of(&trend("rising")) && of_trend.is_of(&trend("falling")),
            "without a hash"
        );
        of_trend.check = Some(trend("rising").hash());
        assert!(of_trend.is_of(&trend("rising")) && !of_trend.is_of(&trend("falling")));
        // Results without the hash are known by their metric alone.
        assert!(kept("", "m").is_of(&other) && !kept("", "n").is_of(&other));
    }

    #[test]
    fn points_of_the_baseline_beside_itself_are_vacuous() {
        let check = |bounds: &str| {
            let of = r#"{ "metric": "goodput_mbps", "to": { "at": { "x": 0 } } }"#;
            format!(r#"{{ "kind": "bounds", "of": {of}, {bounds} }}"#)
        };
        let figures = [(1.0, 0.0), (1.2, 0.05), (1.0, 0.0)];
        let (verdict, _, text) = class(&check(r#""at_least": 0.9"#), "", &figures);
        assert_eq!(verdict, Verdict::Reproduced);
        assert_eq!(text, "1.200 ± 0.050 at x 1 (2 points are vacuous)");
        let (verdict, ..) = class(&check(r#""at_least": 0.9"#), "", &figures[..1]);
        assert_eq!(verdict, Verdict::Vacuous);
    }
}
