//! `whimbrel study falsify`: claims about a mechanism, run with wrong implementations of it.

use serde_json::{Value, json};
use whimbrel_lab::{Falsified, Study, WrongStudy, write_falsified};
use whimbrel_scenario::visible;

use super::runs::run_scenario;
use super::shelf::{ChosenArgs, Shelf, ShelfArgs, study_error};
use crate::interrupt::listen;
use crate::output::{FAILED, Outcome, WRONG_USE, count, fail, note, print, print_json};

#[derive(clap::Args, Debug)]
pub(super) struct Args {
    #[command(flatten)]
    chosen: ChosenArgs,
    /// Run the short form of each study, with fewer seeds and shorter sweeps
    #[arg(long)]
    quick: bool,
    /// Print JSON instead of tables: [{"study", "outcomes": [{"claim", "wrong", "verdict", "text", "asked"}]}]
    #[arg(long)]
    json: bool,
    /// Store the outcome in the study's folder as falsified.json, for its page
    #[arg(long, conflicts_with = "quick")]
    keep: bool,
    /// Number of concurrent runs. Default: the number of processors. It does not affect the results
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Print only errors
    #[arg(long, short)]
    quiet: bool,
    #[command(flatten)]
    shelf: ShelfArgs,
}

pub(super) fn falsify(args: &Args) -> Outcome {
    let shelf = Shelf::open(&args.shelf)?;
    shelf.check_keep(args.keep)?;
    let folders = shelf.chosen(&args.chosen)?;
    let studies = folders
        .iter()
        .map(|folder| shelf.load(folder))
        .collect::<Outcome<Vec<_>>>()?;
    if let Some(without) = studies
        .iter()
        .find(|study| !args.chosen.all && study.falsified().is_empty())
    {
        return Err(fail(
            WRONG_USE,
            format_args!(
                "study {} has no wrong implementations\n  hint: [[wrong]] in its study.toml names them",
                visible(without.id())
            ),
        ));
    }
    let interrupted = listen()?;
    let mut values = Vec::new();
    for study in &studies {
        let wrongs = study.falsified();
        if wrongs.is_empty() {
            continue;
        }
        let mut outcomes = Vec::new();
        for wrong in &wrongs {
            outcomes.extend(outcome(study, wrong, args, &interrupted)?);
        }
        if args.keep {
            let written = write_falsified(study, &outcomes);
            written
                .map_err(|(path, reason)| fail(FAILED, format_args!("cannot write {}: {reason}", path.display())))?;
        }
        if args.json {
            values.push(json!({ "study": study.id(), "outcomes": outcomes }));
        } else {
            print(&table(study, &outcomes))?;
        }
    }
    if args.json {
        print_json(&Value::from(values))?;
    }
    Ok(())
}

/// Runs a study with one wrong implementation, and judges its claims.
fn outcome(
    study: &Study,
    wrong: &WrongStudy,
    args: &Args,
    interrupted: &std::sync::atomic::AtomicBool,
) -> Outcome<Vec<Falsified>> {
    let planned = wrong.study.plan(args.quick).map_err(|error| study_error(&error))?;
    let mut runs = Vec::with_capacity(planned.len());
    for planned in &planned {
        if !args.quiet {
            let size = crate::output::size(&planned.scenario);
            let what = format!("{} with {}: {}", study.id(), wrong.name, planned.name);
            note(format_args!("{}: {size}", visible(&what)));
        }
        runs.push(run_scenario(planned, None, &[], (args.jobs, args.quiet), interrupted)?);
    }
    let report = wrong
        .study
        .judge(&planned, &runs, args.quick)
        .map_err(|error| study_error(&error))?;
    Ok(wrong.study.outcomes_of_wrong(&report))
}

fn table(study: &Study, outcomes: &[Falsified]) -> String {
    let widest =
        |cell: fn(&Falsified) -> &String| outcomes.iter().map(|row| cell(row).chars().count()).max().unwrap_or(0);
    let (wrong, claim, verdict) = (
        widest(|row| &row.wrong),
        widest(|row| &row.claim),
        widest(|row| &row.verdict),
    );
    let passes = outcomes.iter().filter(|row| row.passes()).count();
    let mut text = format!(
        "{}: {} with a wrong implementation, {passes} of them hold nevertheless\n",
        visible(study.id()),
        count(outcomes.len(), "outcome")
    );
    for row in outcomes {
        let mark = if row.passes() { "HOLDS" } else { "fails" };
        text.push_str(&format!(
            "  {mark}  {:wrong$}  {:claim$}  {:verdict$}  {}\n",
            visible(&row.wrong),
            visible(&row.claim),
            row.verdict,
            visible(&row.text)
        ));
    }
    text
}
