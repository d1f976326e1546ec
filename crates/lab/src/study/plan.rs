//! From a study file to scenarios that can be run.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use whimbrel_scenario::{Document, Origin, Point, Problem, Record, Recorded, Scenario, ScenarioError, word_hint};

use super::check::{evaluate, pictured};
use super::figures::{Figured, Figures, Measured, PointRuns, Subject, matches, same, wanted_links};
use super::file::{
    AxisEntry, AxisValue, ClaimEntry, ClaimKind, FigureEntry, LineEntry, ScenarioEntry, Selection, Snapshot, StudyFile,
};
use super::{PlannedScenario, Study, StudyError};
use crate::metric::is_watched;
use crate::timeline::Timeline;

/// The file that makes a folder a study.
pub(crate) const FILE: &str = "study.toml";

impl Study {
    /// Reads the study in `folder` and checks everything in it: scenarios, sweeps, and that each claim finds its figures, in the
    /// full form and in the short one.
    ///
    /// # Errors
    /// A file cannot be read, or everything that is wrong.
    pub fn load(folder: &Path) -> Result<Study, StudyError> {
        let path = folder.join(FILE);
        let read = |path: &Path| {
            std::fs::read_to_string(path).map_err(|error| StudyError::Unreadable {
                path: path.to_owned(),
                reason: crate::write::file::plain(&error),
            })
        };
        let document = Document::from_text(&path, &read(&path)?).map_err(invalid)?;
        let file: StudyFile = document.read().map_err(invalid)?;
        let study = Study {
            id: folder
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            folder: folder.to_owned(),
            file,
            document,
            wrong: None,
        };
        study.check_names()?;
        for quick in [false, true] {
            study.check_claims(&study.plan(quick)?, quick)?;
        }
        study.check_wrong()?;
        Ok(study)
    }

    /// The studies in a folder of studies, in the order of their names.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn folders(studies: &Path) -> Result<Vec<PathBuf>, StudyError> {
        let unreadable = |error: std::io::Error| StudyError::Unreadable {
            path: studies.to_owned(),
            reason: crate::write::file::plain(&error),
        };
        let mut folders = Vec::new();
        for entry in std::fs::read_dir(studies).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.join(FILE).is_file() {
                folders.push(path);
            }
        }
        folders.sort();
        Ok(folders)
    }

    /// The scenarios to run, in the full form or in the short one.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn plan(&self, quick: bool) -> Result<Vec<PlannedScenario>, StudyError> {
        let mut planned = Vec::with_capacity(self.file.scenario.len());
        let mut problems = Vec::new();
        for (number, entry) in self.file.scenario.iter().enumerate() {
            match self.plan_one(number, entry, quick) {
                Ok(scenario) => planned.push(scenario),
                Err(StudyError::Invalid(found)) => problems.extend(found),
                Err(error) => return Err(error),
            }
        }
        if problems.is_empty() {
            Ok(planned)
        } else {
            Err(StudyError::Invalid(problems))
        }
    }

    fn plan_one(&self, number: usize, entry: &ScenarioEntry, quick: bool) -> Result<PlannedScenario, StudyError> {
        let place = format!("scenario[{number}]");
        let path = self.folder.join(&entry.file);
        let text = self.scenario_text(&path, entry, &place)?;
        let mut changes = Changes::default();
        changes.set(&entry.set.0, &format!("{place}.set"));
        if quick {
            changes.set(&self.file.quick.set.0, "quick.set");
            changes.set(&entry.quick.set.0, &format!("{place}.quick.set"));
        }
        let seeds = if quick {
            entry.quick.seeds.or(self.file.quick.seeds).or(entry.seeds)
        } else {
            entry.seeds
        };
        if let Some(seeds) = seeds {
            changes.one("seeds", &seeds.into(), &format!("{place}.seeds"));
        }
        let axes = self.axes(entry, &place, quick)?;
        let mut whole: Option<Scenario> = None;
        for combination in product(&axes) {
            let mut changes = changes.clone();
            let mut params = Vec::with_capacity(axes.len());
            for (axis, &(index, value)) in axes.iter().zip(&combination) {
                let at = format!("{place}.axis[{}].values[{index}]", axis.number);
                for field in &axis.entry.fields {
                    changes.one(field, &value.is, &at);
                }
                changes.set(&value.set.0, &format!("{at}.set"));
                params.push((axis.entry.name.clone(), value.is.clone()));
            }
            if let Some(wrong) = self.wrong.as_ref().filter(|wrong| wrong.is_at(&entry.name, &params)) {
                let number = self.file.wrong.iter().position(|other| other.name == wrong.name);
                changes.set(&wrong.set.0, &format!("wrong[{}].set", number.unwrap_or(0)));
            }
            let scenario = Scenario::from_text(&path, &text, &changes.arguments())
                .map_err(|error| self.relocated(error, &changes))?;
            let points = scenario.points.iter().map(|point| Point {
                params: params.iter().chain(&point.params).cloned().collect(),
                ..point.clone()
            });
            match &mut whole {
                Some(whole) => whole.points.extend(points),
                None => {
                    let points = points.collect();
                    let axes = axes.iter().map(|axis| axis.entry.name.clone());
                    let first = whole.insert(scenario);
                    first.axes = axes.chain(std::mem::take(&mut first.axes)).collect();
                    first.points = points;
                    first.record = Record {
                        series: Recorded::None,
                        events: Recorded::None,
                        packets: Recorded::None,
                        ..first.record
                    };
                }
            }
        }
        let mut scenario = whole.ok_or_else(|| {
            let message = "an axis needs one value or more";
            StudyError::Invalid(vec![self.document.problem(&format!("{place}.axis"), message, None)])
        })?;
        // Where the study lies does not matter to its results.
        let folder = Path::new(&self.id);
        scenario.source.path = folder.join(&entry.file);
        Ok(PlannedScenario {
            name: entry.name.clone(),
            scenario,
            watch: self.watched(&entry.name),
            timeline: self.timeline(&entry.name),
        })
    }

    /// Reads a scenario, which must be in the study's folder: its errors repeat values of it.
    fn scenario_text(&self, path: &Path, entry: &ScenarioEntry, place: &str) -> Result<String, StudyError> {
        let is_inside = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let text = if Path::new(&entry.file).components().all(is_inside) {
            std::fs::read_to_string(path).map_err(|error| crate::write::file::plain(&error))
        } else {
            Err("it is not in the folder".to_owned())
        };
        text.map_err(|reason| {
            let reason = format!("{}: {reason}", path.display());
            let message = format!(
                "{:?} given, allowed is a scenario file in the study's folder",
                entry.file
            );
            StudyError::Invalid(vec![self.document.problem(
                &format!("{place}.file"),
                message,
                Some(reason),
            )])
        })
    }

    /// The axes with the values that are run.
    fn axes<'e>(&self, entry: &'e ScenarioEntry, place: &str, quick: bool) -> Result<Vec<Axis<'e>>, StudyError> {
        let mut axes = Vec::with_capacity(entry.axis.len());
        for (number, axis) in entry.axis.iter().enumerate() {
            let mut values: Vec<_> = axis.values.iter().enumerate().collect();
            if let Some(kept) = axis.quick.as_ref().filter(|_| quick) {
                if let Some((index, value)) = kept
                    .iter()
                    .enumerate()
                    .find(|(_, kept)| !axis.values.iter().any(|value| same(&value.is, kept)))
                {
                    let message = format!("{value} given, allowed are the values of the axis");
                    let field = format!("{place}.axis[{number}].quick[{index}]");
                    return Err(StudyError::Invalid(vec![self.document.problem(&field, message, None)]));
                }
                values.retain(|(_, value)| kept.iter().any(|kept| same(&value.is, kept)));
            }
            axes.push(Axis {
                number,
                entry: axis,
                values,
            });
        }
        Ok(axes)
    }

    /// Whether a claim looks at a figure of this scenario for which the run has to be watched.
    fn watched(&self, scenario: &str) -> bool {
        fn any(selection: &Selection, scenario: &str) -> bool {
            let here = selection.scenario.as_deref().is_none_or(|name| name == scenario);
            let own = here && selection.metric.as_deref().is_some_and(is_watched);
            let harm = selection.harm.iter().flat_map(|harm| [&harm.alone, &harm.like]);
            let others = selection.to.iter().chain(&selection.minus).map(Box::as_ref).chain(harm);
            own || others.into_iter().any(|other| {
                let inherited = other.metric.is_none() && selection.metric.as_deref().is_some_and(is_watched);
                any(other, scenario) || (inherited && other.scenario.as_deref().is_none_or(|name| name == scenario))
            })
        }
        let claims = self.file.claim.iter().map(|claim| claim.check.of());
        let figures = self.file.figure.iter().filter_map(|figure| figure.of.as_ref());
        self.timeline(scenario).is_some() || claims.chain(figures).any(|selection| any(selection, scenario))
    }

    /// The part of this scenario's runs that figures show.
    fn timeline(&self, scenario: &str) -> Option<Timeline> {
        let snapshots = self.file.figure.iter().filter_map(|figure| figure.snapshot.as_ref());
        let mut here = snapshots.filter(|snapshot| snapshot.is_of(scenario));
        here.next().map(Snapshot::timeline)
    }

    /// Problems with the fields that the study sets, reported at the line of the study.
    fn relocated(&self, error: ScenarioError, changes: &Changes) -> StudyError {
        let ScenarioError::Invalid(problems) = error else {
            return invalid(error);
        };
        let relocate = |problem: Problem| {
            let Origin::Argument(argument) = &problem.origin else {
                return problem;
            };
            let known = changes
                .0
                .iter()
                .find(|change| format!("--set {}", change.argument) == *argument);
            match known {
                Some(change) => Problem {
                    origin: self.document.problem(&change.place, "", None).origin,
                    ..problem
                },
                None => problem,
            }
        };
        StudyError::Invalid(problems.into_iter().map(relocate).collect())
    }

    fn check_names(&self) -> Result<(), StudyError> {
        let mut problems = Vec::new();
        let mut unique = |field: &str, names: &[&str]| {
            for (number, name) in names.iter().enumerate() {
                let good = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
                let message = if !good {
                    format!("{name:?} given, allowed are letters, digits, `-`, `_` and `.`")
                } else if names[..number].contains(name) {
                    format!("`{name}` is there twice")
                } else {
                    continue;
                };
                let key = if field == "scenario" || field == "wrong" {
                    "name"
                } else {
                    "id"
                };
                problems.push(
                    self.document
                        .problem(&format!("{field}[{number}].{key}"), message, None),
                );
            }
        };
        unique(
            "scenario",
            &self
                .file
                .scenario
                .iter()
                .map(|entry| entry.name.as_str())
                .collect::<Vec<_>>(),
        );
        unique(
            "claim",
            &self
                .file
                .claim
                .iter()
                .map(|claim| claim.id.as_str())
                .collect::<Vec<_>>(),
        );
        let wrong: Vec<_> = self.file.wrong.iter().map(|wrong| wrong.name.as_str()).collect();
        unique("wrong", &wrong);
        unique(
            "figure",
            &self
                .file
                .figure
                .iter()
                .map(|figure| figure.id.as_str())
                .collect::<Vec<_>>(),
        );
        for (number, figure) in self.file.figure.iter().enumerate() {
            if self.file.claim.iter().any(|claim| claim.id == figure.id) {
                let message = format!("`{}` is a claim's, and a plot has the name of either", figure.id);
                problems.push(self.document.problem(&format!("figure[{number}].id"), message, None));
            }
        }
        for (number, claim) in self.file.claim.iter().enumerate() {
            let kind = claim.kind.or(self.file.kind).unwrap_or(ClaimKind::Paper);
            if claim.for_some.is_some() && kind != ClaimKind::Own {
                let message = "a paper's claim has one reading, and so have all claims of a study: state it in `at`";
                let field = format!("claim[{number}].for_some");
                problems.push(self.document.problem(&field, message, None));
            }
        }
        if self.file.scenario.is_empty() || self.file.claim.is_empty() {
            problems.push(
                self.document
                    .problem("", "a study has one scenario or more, and one claim or more", None),
            );
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(StudyError::Invalid(problems))
        }
    }

    /// Evaluates every claim on made-up figures: what is asked for must be there.
    pub(super) fn check_claims(&self, planned: &[PlannedScenario], quick: bool) -> Result<(), StudyError> {
        let probes: Vec<Vec<Probe<'_>>> = planned
            .iter()
            .map(|planned| planned.scenario.points.iter().map(Probe).collect())
            .collect();
        let scenarios = planned.iter().zip(&probes).map(|(planned, probes)| {
            let points = planned
                .scenario
                .points
                .iter()
                .zip(probes)
                .map(|(point, probe)| PointRuns {
                    params: point.params.clone(),
                    config: Some(&point.config),
                    runs: vec![probe as &dyn Figures; 2],
                });
            measured(planned, points.collect())
        });
        let data = Figured {
            scenarios: scenarios.collect(),
            thinned: quick,
        };
        let mut problems = Vec::new();
        for (number, claim) in self.file.claim.iter().enumerate() {
            if let Err(problem) = evaluate(claim, &data) {
                problems.push(self.claim_problem(number, claim, problem, quick));
            }
        }
        for (number, figure) in self.file.figure.iter().enumerate() {
            let sampled = figure.snapshot.as_ref().is_none_or(|snapshot| {
                let mut here = planned.iter().filter(|planned| snapshot.is_of(&planned.name));
                here.all(|planned| planned.timeline == Some(snapshot.timeline()))
            });
            if !sampled {
                let message = "another snapshot of the same scenario covers another time";
                let problem = super::figures::StudyProblem::new("snapshot", message, None);
                problems.push(self.figure_problem(number, figure, problem, quick));
            } else if let Err(problem) = pictured(figure, &data) {
                problems.push(self.figure_problem(number, figure, problem, quick));
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(StudyError::Invalid(problems))
        }
    }

    pub(super) fn figure_problem(
        &self,
        number: usize,
        figure: &FigureEntry,
        problem: super::figures::StudyProblem,
        quick: bool,
    ) -> Problem {
        let form = if quick { " (in the quick form)" } else { "" };
        let field = format!("figure[{number}].{}", problem.field);
        let mut problem = self
            .document
            .problem(&field, format!("{}{form}", problem.message), problem.hint);
        let numbered = format!("figure[{number}]");
        problem.field = problem.field.replacen(&numbered, &format!("figure.{}", figure.id), 1);
        problem
    }

    pub(super) fn claim_problem(
        &self,
        number: usize,
        claim: &ClaimEntry,
        problem: super::figures::StudyProblem,
        quick: bool,
    ) -> Problem {
        let field = match problem.field.as_str() {
            "for_some" => format!("claim[{number}].for_some"),
            "" => format!("claim[{number}].check"),
            field => format!("claim[{number}].check.{field}"),
        };
        let form = if quick { " (in the quick form)" } else { "" };
        let message = format!("{}{form}", problem.message);
        let mut problem = self.document.problem(&field, message, problem.hint);
        problem.field = problem
            .field
            .replacen(&format!("claim[{number}]"), &format!("claim.{}", claim.id), 1);
        problem
    }
}

/// A scenario with what was measured at its points.
pub(crate) fn measured<'r>(planned: &PlannedScenario, points: Vec<PointRuns<'r>>) -> Measured<'r> {
    let axes = planned.scenario.axes.iter().enumerate().map(|(number, name)| {
        let mut values: Vec<Value> = Vec::new();
        for point in &planned.scenario.points {
            let value = &point.params[number].1;
            if !values.iter().any(|known| same(known, value)) {
                values.push(value.clone());
            }
        }
        (name.clone(), values)
    });
    Measured {
        name: planned.name.clone(),
        axes: axes.collect(),
        points,
    }
}

fn invalid(error: ScenarioError) -> StudyError {
    match error {
        ScenarioError::Invalid(problems) => StudyError::Invalid(problems),
        ScenarioError::Unreadable { path, reason } => StudyError::Unreadable { path, reason },
    }
}

/// An axis with the values that are run and their places in the file.
struct Axis<'e> {
    number: usize,
    entry: &'e AxisEntry,
    values: Vec<(usize, &'e AxisValue)>,
}

/// Every combination of values, last axis fastest.
fn product<'e>(axes: &[Axis<'e>]) -> Vec<Vec<(usize, &'e AxisValue)>> {
    axes.iter().fold(vec![Vec::new()], |combinations, axis| {
        let longer = combinations.iter().flat_map(|combination| {
            axis.values.iter().map(move |value| {
                let mut longer = combination.clone();
                longer.push(*value);
                longer
            })
        });
        longer.collect()
    })
}

/// A change to a scenario, and where the study makes it.
#[derive(Clone, Debug)]
struct Change {
    argument: String,
    place: String,
}

#[derive(Clone, Debug, Default)]
struct Changes(Vec<Change>);

impl Changes {
    fn one(&mut self, field: &str, value: &Value, place: &str) {
        self.0.push(Change {
            argument: format!("{field}={}", toml_text(value)),
            place: place.to_owned(),
        });
    }

    fn set(&mut self, pairs: &[(String, Value)], place: &str) {
        for (field, value) in pairs {
            self.one(field, value, place);
        }
    }

    fn arguments(&self) -> Vec<String> {
        self.0.iter().map(|change| change.argument.clone()).collect()
    }
}

/// A value as TOML writes it.
fn toml_text(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(toml_text).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(entries) => {
            let entries: Vec<_> = entries
                .iter()
                .map(|(key, value)| format!("{key:?} = {}", toml_text(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        other => other.to_string(),
    }
}

/// Stands for a run: it has every flow and link of its point, and all figures are 1.
struct Probe<'s>(&'s Point);

impl Figures for Probe<'_> {
    fn line(&self, line: &LineEntry) -> Option<Vec<f64>> {
        let config = &self.0.config;
        line.place(
            config.flow.iter().map(|flow| flow.name.as_str()),
            config.link.iter().map(|link| link.display_name()),
        )
        .map(|_| vec![1.0; 3])
    }

    fn figures(&self, subject: Subject<'_>, _: &str) -> Vec<f64> {
        let config = &self.0.config;
        let count = match subject {
            Subject::Run => 1,
            Subject::Flow(wanted) => config.flow.iter().filter(|flow| matches(&flow.name, wanted)).count(),
            Subject::Link(wanted) => {
                let names = config.link.iter().map(|link| link.display_name());
                wanted_links(wanted, names, String::as_str).len()
            }
        };
        vec![1.0; count]
    }
}

/// The study of that name among those there are, or the names that there are.
pub(crate) fn find(folders: &[PathBuf], id: &str) -> Result<PathBuf, Option<String>> {
    let name = |folder: &PathBuf| {
        folder
            .file_name()
            .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    match folders.iter().find(|folder| name(folder) == id) {
        Some(folder) => Ok(folder.clone()),
        None => Err(word_hint(id, &folders.iter().map(name).collect::<Vec<_>>(), "studies")),
    }
}
