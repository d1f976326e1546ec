//! Whether a claim about a mechanism can fail: it is run with wrong implementations of the mechanism, which must not fulfil it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::case::same;
use super::figures::{inherit, names_axis};
use super::file::{ClaimEntry, ScenarioEntry, Selection, StudyFile, WrongEntry};
use super::report::StudyReport;
use super::verdict::Verdict;
use super::{Study, StudyError};
use crate::text::json_problem;

/// Outcomes of the claims under wrong implementations, as the study's folder keeps them.
pub(crate) const FALSIFIED: &str = "falsified.json";

/// Stands for the class of what was not run.
const NOT_RUN: &str = "not run yet";

/// A study whose mechanism is replaced by a wrong one, with the claims that must then fail.
#[derive(Clone, Debug)]
pub struct WrongStudy {
    /// What the wrong implementation is called.
    pub name: String,
    /// The study, ready to plan, run and judge.
    pub study: Study,
}

/// The class of a claim under a wrong implementation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Falsified {
    /// The claim.
    pub claim: String,
    /// The wrong implementation.
    pub wrong: String,
    /// The class.
    pub verdict: String,
    /// The figures in words.
    pub text: String,
    /// A hash of the check and of the wrong implementation.
    pub asked: String,
}

impl Falsified {
    pub(super) fn was_run(&self) -> bool {
        self.verdict != NOT_RUN
    }

    /// Returns whether the claim holds although the implementation is wrong: it tests something else.
    pub fn passes(&self) -> bool {
        [Verdict::Reproduced, Verdict::Mostly]
            .iter()
            .any(|verdict| verdict.name() == self.verdict)
    }
}

impl WrongEntry {
    /// Whether it replaces something at this point of a scenario.
    pub(super) fn is_at(&self, scenario: &str, params: &[(String, Value)]) -> bool {
        let here = self.scenario.as_deref().is_none_or(|name| name == scenario);
        here && self.at.0.iter().all(|(given, wanted)| {
            let point = params.iter().find(|(name, _)| names_axis(given, name));
            point.is_some_and(|(_, value)| match wanted {
                Value::Array(any) => any.iter().any(|wanted| same(wanted, value)),
                one => same(one, value),
            })
        })
    }
}

impl Study {
    /// Returns the study once for each of its wrong implementations.
    pub fn falsified(&self) -> Vec<WrongStudy> {
        let one = |wrong: &WrongEntry| {
            let mut study = self.clone();
            study.file.claim.retain(|claim| wrong.claims.contains(&claim.id));
            study.file.figure.clear();
            let asked: Vec<Selection> = study.file.claim.iter().flat_map(selections).collect();
            study
                .file
                .scenario
                .retain(|entry| asked.iter().any(|of| is_of(of, &entry.name)));
            for entry in &mut study.file.scenario {
                keep_asked(entry, &asked);
            }
            study.wrong = Some(wrong.clone());
            WrongStudy {
                name: wrong.name.clone(),
                study,
            }
        };
        self.file.wrong.iter().map(one).collect()
    }

    /// Returns the outcomes under one of the wrong implementations.
    pub fn outcomes_of_wrong(&self, report: &StudyReport) -> Vec<Falsified> {
        let row = |claim: &ClaimEntry| {
            let found = report.claims.iter().find(|found| found.id == claim.id)?;
            let wrong = self.wrong.as_ref()?;
            Some(Falsified {
                claim: claim.id.clone(),
                wrong: wrong.name.clone(),
                verdict: found.verdict.name().to_owned(),
                text: found.text.clone(),
                asked: wrong.asked(claim),
            })
        };
        self.file.claim.iter().filter_map(row).collect()
    }

    /// Returns the stored outcome of each pair of claim and wrong implementation, if it is of both as they are now; otherwise one that says that
    /// it was not run.
    pub(super) fn kept_falsified(&self) -> Result<Vec<Falsified>, String> {
        let path = self.folder.join(FALSIFIED);
        let kept: Vec<Falsified> = match std::fs::read_to_string(&path) {
            Ok(text) => {
                serde_json::from_str(&text).map_err(|error| format!("{}: {}", path.display(), json_problem(&error)))?
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let mut rows = Vec::new();
        for wrong in &self.file.wrong {
            for claim in self.file.claim.iter().filter(|claim| wrong.claims.contains(&claim.id)) {
                let asked = wrong.asked(claim);
                let is_this = |row: &&Falsified| row.claim == claim.id && row.wrong == wrong.name && row.asked == asked;
                let kept = kept.iter().find(is_this).cloned();
                rows.push(kept.unwrap_or_else(|| Falsified {
                    claim: claim.id.clone(),
                    wrong: wrong.name.clone(),
                    verdict: NOT_RUN.to_owned(),
                    text: String::new(),
                    asked,
                }));
            }
        }
        Ok(rows)
    }

    /// Checks that the wrong implementations name claims of the study, and that their scenarios can be planned.
    pub(super) fn check_wrong(&self) -> Result<(), StudyError> {
        let mut problems = Vec::new();
        for (number, wrong) in self.file.wrong.iter().enumerate() {
            for (place, id) in wrong.claims.iter().enumerate() {
                if !self.file.claim.iter().any(|claim| claim.id == *id) {
                    let ids: Vec<_> = self.claims().collect();
                    let hint = whimbrel_scenario::word_hint(id, &ids, "claims");
                    let field = format!("wrong[{number}].claims[{place}]");
                    problems.push(self.document.problem(&field, format!("there is no claim `{id}`"), hint));
                }
            }
            if wrong.claims.is_empty() {
                let field = format!("wrong[{number}].claims");
                problems.push(self.document.problem(&field, "it needs one claim or more", None));
            }
        }
        if !problems.is_empty() {
            return Err(StudyError::Invalid(problems));
        }
        for (number, wrong) in self.falsified().iter().enumerate() {
            for quick in [false, true] {
                let planned = wrong.study.plan(quick)?;
                wrong.study.check_claims(&planned, quick)?;
                let entry = &self.file.wrong[number];
                let mut points = planned.iter().flat_map(|planned| {
                    let points = planned.scenario.points.iter();
                    points.map(|point| (planned.name.as_str(), &point.params))
                });
                if !quick && !points.any(|(scenario, params)| entry.is_at(scenario, params)) {
                    let field = format!("wrong[{number}].at");
                    let message = "it replaces nothing at the points of its claims";
                    return Err(StudyError::Invalid(vec![self.document.problem(&field, message, None)]));
                }
            }
        }
        Ok(())
    }
}

/// Everything that a claim looks at.
fn selections(claim: &ClaimEntry) -> Vec<Selection> {
    let of = claim.check.of();
    let harm = of.harm.iter().flat_map(|harm| [&harm.alone, &harm.like]);
    let others = of.to.iter().chain(&of.minus).map(Box::as_ref).chain(harm);
    [of.clone()]
        .into_iter()
        .chain(others.map(|other| inherit(other, of)))
        .collect()
}

fn is_of(of: &Selection, scenario: &str) -> bool {
    of.scenario.as_deref().is_none_or(|name| name == scenario)
}

/// Keeps the values of axes that one of the selections of this scenario looks at.
fn keep_asked(entry: &mut ScenarioEntry, asked: &[Selection]) {
    let name = entry.name.clone();
    for axis in &mut entry.axis {
        let wanted: Option<Vec<&Value>> = asked
            .iter()
            .filter(|of| is_of(of, &name))
            .map(|of| of.at.0.iter().find(|(given, _)| names_axis(given, &axis.name)))
            .map(|found| found.map(|(_, value)| value))
            .collect();
        let Some(wanted) = wanted else { continue };
        let is_wanted = |value: &Value| {
            wanted.iter().any(|wanted| match wanted {
                Value::Array(any) => any.iter().any(|wanted| same(wanted, value)),
                one => same(one, value),
            })
        };
        axis.values.retain(|value| is_wanted(&value.is));
        if let Some(quick) = &mut axis.quick {
            quick.retain(is_wanted);
        }
    }
}

/// Stores the outcomes in the study's folder.
///
/// # Errors
/// Returns the file that could not be written and the reason.
pub fn write_falsified(study: &Study, outcomes: &[Falsified]) -> Result<(), (PathBuf, std::io::Error)> {
    let path = study.folder.join(FALSIFIED);
    let text = serde_json::to_string_pretty(outcomes).unwrap_or_default() + "\n";
    std::fs::write(&path, text).map_err(|error| (path, error))
}

/// Returns the problem of each claim that a wrong implementation fulfils without being marked `no_test`.
pub(super) fn unmarked(file: &StudyFile, kept: &[Falsified]) -> Vec<String> {
    let mut problems = Vec::new();
    for claim in &file.claim {
        let passed: Vec<&str> = kept
            .iter()
            .filter(|row| row.claim == claim.id && row.passes())
            .map(|row| row.wrong.as_str())
            .collect();
        if !passed.is_empty() && claim.no_test.is_none() {
            problems.push(format!(
                "claim {}: it holds with `{}` too: it needs another bound, or `no_test` with the reason",
                claim.id,
                passed.join("`, `")
            ));
        }
    }
    problems
}
