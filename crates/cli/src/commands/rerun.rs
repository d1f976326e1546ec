//! `whimbrel rerun`: repeats the runs of a manifest, and compares the files.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use whimbrel_lab::Manifest;
use whimbrel_scenario::Scenario;

use crate::execute::{Common, Destination, execute_and, print_results};
use crate::output::{EXIT_CODES, FAILED, Outcome, WRONG_USE, count, exit, fail, note, print_json, scenario_error};

/// Repeat the runs of a manifest.json, and compare the files
///
/// With --json, the object also has "comparison": {"identical", "files", "differences"}. The exit code is 1 if a file differs.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// The manifest.json of an earlier run
    manifest: PathBuf,
    /// Folder to write. Default: the folder of the manifest with -rerun appended to its name
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the results of an earlier run in that folder
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let path = if args.manifest.is_dir() {
        args.manifest.join("manifest.json")
    } else {
        args.manifest.clone()
    };
    let earlier = Manifest::load(&path).map_err(|error| fail(WRONG_USE, error))?;
    if earlier.command.get(1).is_some_and(|word| word == "study") {
        let message = format_args!(
            "these are results of a study\n  hint: {} --out DIR repeats them",
            earlier.command.join(" ")
        );
        return Err(fail(WRONG_USE, message));
    }
    if earlier.command.get(1).is_some_and(|word| word == "emulate") {
        let message = format_args!(
            "these are results of an emulation, which real time makes different each time\n  hint: whimbrel run {} simulates \
             the scenario",
            earlier.scenario.path.display()
        );
        return Err(fail(WRONG_USE, message));
    }
    let source = &earlier.scenario;
    let scenario =
        Scenario::from_text(&source.path, &source.text, &source.changes).map_err(|error| scenario_error(&error))?;
    let folder = args.out.clone().unwrap_or_else(|| beside(&path));
    let destination = Destination {
        folder: folder.clone(),
        replace: args.replace,
        resume: false,
        command: earlier.command.clone(),
    };
    let (part, common) = (earlier.part, &args.common);
    let object = OnceCell::new();
    let executed = execute_and(&scenario, Some(&destination), part, common, &|runs| {
        if !common.json {
            return if runs.is_empty() {
                Ok(())
            } else {
                print_results(&scenario, runs, false, &common.view)
            };
        }
        // It is printed with the comparison.
        let points = whimbrel_lab::summarise(&scenario, runs);
        let _ = object.set(whimbrel_lab::json(&scenario, &points, runs));
        Ok(())
    });
    let manifest = executed.as_ref().ok().and_then(|executed| executed.manifest.as_ref());
    let differences = manifest.map_or_else(Vec::new, |manifest| differences(&earlier, manifest));
    if let Some(object) = object.into_inner() {
        print_object(object, executed.is_ok(), &earlier, &differences)?;
    }
    executed?;
    if differences.is_empty() {
        note(format_args!(
            "identical: all {} in {}",
            count(earlier.files.len() as u64, "file"),
            folder.display()
        ));
        return Ok(());
    }
    for difference in &differences {
        note(format_args!("  {difference}"));
    }
    Err(fail(
        FAILED,
        format_args!(
            "the results in {} differ from those of {}",
            folder.display(),
            path.display()
        ),
    ))
}

/// Prints the object of `run --json`, with the member `comparison` if the runs are complete.
fn print_object(object: String, is_complete: bool, earlier: &Manifest, differences: &[String]) -> Outcome {
    let mut object: Value = serde_json::from_str(&object).map_err(|error| fail(FAILED, error))?;
    if is_complete {
        object["comparison"] = json!({
            "identical": differences.is_empty(),
            "files": earlier.files.len(),
            "differences": differences,
        });
    }
    print_json(&object)
}

/// Returns the folder of the manifest with `-rerun` appended.
fn beside(manifest: &Path) -> PathBuf {
    let folder = manifest
        .parent()
        .filter(|folder| *folder != Path::new(""))
        .unwrap_or(Path::new("."));
    match folder.file_name() {
        Some(name) => folder.with_file_name(format!("{}-rerun", name.to_string_lossy())),
        None => folder.join("rerun"),
    }
}

fn differences(earlier: &Manifest, now: &Manifest) -> Vec<String> {
    let mut differences = Vec::new();
    if earlier.whimbrel != now.whimbrel {
        differences.push(format!("version: {} then, {} now", earlier.whimbrel, now.whimbrel));
    }
    for input in &earlier.inputs {
        if !now.inputs.contains(input) {
            differences.push(format!("the input {} has changed", input.path.display()));
        }
    }
    for file in &earlier.files {
        match now.files.iter().find(|other| other.path == file.path) {
            None => differences.push(format!("{} is missing", file.path)),
            Some(other) if other != file => differences.push(format!("{} differs", file.path)),
            Some(_) => {}
        }
    }
    for file in &now.files {
        if !earlier.files.iter().any(|other| other.path == file.path) {
            differences.push(format!("{} is new", file.path));
        }
    }
    differences
}
