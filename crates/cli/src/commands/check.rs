//! `whimbrel check`: reports the errors of a scenario, or prints it with all defaults.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};
use whimbrel_lab::{Estimate, Part};
use whimbrel_scenario::{Origin, Problem, Resolved, Scenario, ScenarioError, hash};

use crate::execute::{VERY_MUCH, announce_size};
use crate::output::{EXIT_CODES, FAILED, Outcome, count, exit, fail, note, print, print_json, scenario_error, size};

/// Check a scenario without running it, and estimate large runs
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The scenario file
    file: PathBuf,
    /// Change a field, given by its dotted path: --set link.wifi.loss.rate=0.01
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the scenario with all defaults and all changes, as a scenario file
    #[arg(long)]
    explain: bool,
    /// Print one JSON object: {"file", "valid", "errors": [{"message", "hint", "file", "line", "column", "argument", "field"}], "warnings": [TEXT, ...],
    /// "summary": {"title", "nodes", "links", "flows", "axes", "points", "seeds", "runs", "simulated_s", "hash"}}; an invalid scenario has no
    /// summary (null). With --explain, "scenario" has all defaults. The exit code is 2 if the scenario is invalid
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let loaded = Scenario::load(&args.file, &args.set);
    if args.json {
        return print_object(args, &loaded);
    }
    let scenario = loaded.map_err(|error| scenario_error(&error))?;
    if args.explain {
        return match Resolved::of(&scenario) {
            Some(resolved) => print(&resolved.to_toml(&scenario)),
            None => Ok(()),
        };
    }
    for warning in scenario.warnings() {
        note(format_args!("warning: {warning}"));
    }
    announce_size(&scenario, &Estimate::of(&scenario, Part::ALL, true), VERY_MUCH);
    let config = &scenario.points[0].config;
    print(&format!(
        "{}: ok: {}, {}, {}, {}; hash {}\n",
        args.file.display(),
        count(config.node.len(), "node"),
        count(config.link.len(), "link"),
        count(config.flow.len(), "flow"),
        size(&scenario),
        &hash(&scenario)[..16],
    ))
}

/// Prints the result of the check as JSON; errors and warnings also to standard error, as other commands do.
fn print_object(args: &Args, loaded: &Result<Scenario, ScenarioError>) -> Outcome {
    let mut object = json!({
        "file": args.file.display().to_string(),
        "valid": loaded.is_ok(),
        "errors": [],
        "warnings": [],
        "summary": null,
    });
    match loaded {
        Ok(scenario) => {
            let warnings = scenario.warnings();
            warnings
                .iter()
                .for_each(|warning| note(format_args!("warning: {warning}")));
            object["warnings"] = warnings.into();
            object["summary"] = summary(scenario);
            if args.explain {
                let resolved = serde_json::to_value(Resolved::of(scenario)).map_err(|error| fail(FAILED, error))?;
                object["scenario"] = resolved;
            }
            print_json(&object)
        }
        Err(error) => {
            object["errors"] = errors(args, error);
            let ended = scenario_error(error);
            // Also if the reader of the object has gone, the scenario is invalid.
            let _ = print_json(&object);
            Err(ended)
        }
    }
}

fn summary(scenario: &Scenario) -> Value {
    let config = &scenario.points[0].config;
    let estimate = Estimate::of(scenario, Part::ALL, false);
    json!({
        "title": scenario.title,
        "nodes": config.node.len(),
        "links": config.link.len(),
        "flows": config.flow.len(),
        "axes": scenario.axes,
        "points": scenario.points.len(),
        "seeds": scenario.seeds,
        "runs": estimate.runs,
        "simulated_s": estimate.simulated_s,
        "hash": hash(scenario),
    })
}

fn errors(args: &Args, error: &ScenarioError) -> Value {
    match error {
        ScenarioError::Invalid(problems) => problems.iter().map(problem).collect(),
        ScenarioError::Unreadable { .. } => {
            let file = args.file.display().to_string();
            json!([{
                "message": error.to_string(), "hint": null, "file": file, "line": null, "column": null, "argument": null, "field": null,
            }])
        }
    }
}

fn problem(problem: &Problem) -> Value {
    let (file, line, column, argument) = match &problem.origin {
        Origin::File { path, line, column } => (Some(path.display().to_string()), Some(line), Some(column), None),
        Origin::Argument(argument) => (None, None, None, Some(argument)),
    };
    json!({
        "message": problem.message,
        "hint": problem.hint,
        "file": file,
        "line": line,
        "column": column,
        "argument": argument,
        // Empty for the file as a whole.
        "field": Some(&problem.field).filter(|field| !field.is_empty()),
    })
}
