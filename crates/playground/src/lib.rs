//! The simulator behind the playground's page.
//!
//! [`answer`] takes a request as JSON (a scenario's text, changes of its fields, a seed), runs the first point of the scenario once
//! and returns the results as JSON. It reads no file, no clock and no random numbers of the machine, so that a browser returns the
//! same bytes as a native build.

#[cfg(target_arch = "wasm32")]
mod exports;
mod record;
mod run_view;

use std::path::Path;

use serde::{Deserialize, Serialize};
use whimbrel_scenario::{Origin, Problem, Scenario, ScenarioError, Scheme};
use whimbrel_sim::{RunControl, RunOptions, World};

use self::record::Recorder;
use self::run_view::RunView;

/// Name of the scenario in messages.
const NAME: &str = "scenario.toml";

/// A request of the page.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    /// The scenario file.
    #[serde(default)]
    text: String,
    /// Changes by dotted path, as of `--set`.
    #[serde(default)]
    set: Vec<String>,
    /// The seed; that of the scenario by default.
    #[serde(default)]
    seed: Option<u64>,
    /// Only check the scenario.
    #[serde(default)]
    check: bool,
    /// Only list the schemes.
    #[serde(default)]
    schemes: bool,
}

/// What the page shows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// All schemes.
    Schemes(Vec<SchemeText>),
    /// The scenario is valid; nothing was run.
    Valid { points: usize, warnings: Vec<String> },
    /// The run's results.
    Outcome(Box<RunView>),
    /// Problems of the scenario.
    Problems(Vec<ProblemText>),
}

/// A scheme.
#[derive(Debug, Serialize)]
struct SchemeText {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
}

/// A problem of the scenario, as `whimbrel check` prints it.
#[derive(Debug, Default, Serialize)]
struct ProblemText {
    /// Line and column in the text, from 1; absent for a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    place: Option<(usize, usize)>,
    field: String,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl ProblemText {
    fn of(problem: Problem) -> Self {
        let place = match problem.origin {
            Origin::File { line, column, .. } => Some((line, column)),
            Origin::Argument(_) => None,
        };
        ProblemText {
            place,
            field: problem.field,
            message: problem.message,
            hint: problem.hint,
        }
    }

    fn plain(message: String) -> Self {
        ProblemText {
            message,
            ..ProblemText::default()
        }
    }
}

/// Runs a request, and returns `{"outcome": ...}`, `{"valid": ...}` or `{"problems": [...]}`.
pub fn answer(request: &str) -> String {
    let answer = serde_json::from_str(request)
        .map_err(|error| vec![ProblemText::plain(format!("the request is not valid: {error}"))])
        .and_then(|request| run(&request))
        .unwrap_or_else(Answer::Problems);
    serde_json::to_string(&answer)
        .unwrap_or_else(|error| format!("{{\"problems\":[{{\"field\":\"\",\"message\":\"{error}\"}}]}}"))
}

fn run(request: &Request) -> Result<Answer, Vec<ProblemText>> {
    if request.schemes {
        let text = |scheme: Scheme| SchemeText {
            name: scheme.name(),
            summary: scheme.summary(),
            source: scheme.source(),
        };
        return Ok(Answer::Schemes(Scheme::all().map(text).collect()));
    }
    let scenario = Scenario::from_text(Path::new(NAME), &request.text, &request.set).map_err(|error| match error {
        ScenarioError::Invalid(problems) => problems.into_iter().map(ProblemText::of).collect(),
        unreadable @ ScenarioError::Unreadable { .. } => vec![ProblemText::plain(unreadable.to_string())],
    })?;
    let points = scenario.points.len();
    let Some(point) = scenario.points.first() else {
        return Err(vec![ProblemText::plain("the sweep has no points".to_owned())]);
    };
    if request.check {
        return Ok(Answer::Valid {
            points,
            warnings: scenario.warnings(),
        });
    }
    let seed = request.seed.unwrap_or(scenario.seed);
    let world = World::new(&point.config, seed, &point.resources, RunOptions::default())
        .map_err(|error| vec![ProblemText::plain(error.to_string())])?;
    let control = RunControl::new();
    let mut recorder = Recorder::new(&point.config, &control);
    let result = world.run_with(&mut recorder, &control);
    let mut view = RunView::new(&scenario.title, &result, recorder.finish());
    view.points = points;
    view.warnings = scenario.warnings();
    Ok(Answer::Outcome(Box::new(view)))
}
