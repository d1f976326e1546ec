//! Studies: what papers claim, as data, and what comes out here.
//!
//! A study is a folder with a `study.toml` and scenario files. It names what is run (scenarios with changes and axes) and what is
//! claimed; [`Study::load`] checks that each claim finds its figures, [`run_planned`] runs a scenario, [`Study::judge`] gives each
//! claim a verdict.

mod case;
mod check;
mod criterion;
mod falsify;
mod figures;
mod file;
mod pages;
mod pairs;
mod plan;
mod plot;
mod report;
mod stored;
mod theory;
mod verdict;

use std::path::PathBuf;

use whimbrel_scenario::{Document, Problem, Scenario};

use self::figures::{Figured, Figures, PointRuns};
use self::file::{Check, Selection, StudyFile, WrongEntry};
use crate::run::Run;
use crate::runner::{Options, Progress, RunEnd, RunError, run};
use crate::timeline::Timeline;

pub use self::falsify::{Falsified, WrongStudy, write_falsified};
pub use self::file::ClaimKind;
pub use self::pages::{Page, outcomes, pages};
pub use self::report::{ClaimReport, StudyReport};
pub use self::verdict::Verdict;

/// A study, checked.
#[derive(Clone, Debug)]
pub struct Study {
    id: String,
    folder: PathBuf,
    file: StudyFile,
    document: Document,
    /// The wrong implementation that replaces the right one.
    wrong: Option<WrongEntry>,
}

/// A scenario of a study, ready to run: the points of all its axes.
#[derive(Clone, Debug)]
pub struct PlannedScenario {
    /// Its name in the study.
    pub name: String,
    /// All its points; nothing is recorded.
    pub scenario: Scenario,
    /// Whether its runs are watched.
    pub watch: bool,
    /// Part of its runs that is sampled, for figures that are snapshots.
    pub timeline: Option<Timeline>,
}

/// Why there is no study.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StudyError {
    /// A file could not be read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// Everything that is wrong.
    #[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<Problem>),
}

impl Check {
    fn of(&self) -> &Selection {
        match self {
            Check::Bounds { of, .. }
            | Check::Near { of, .. }
            | Check::Trend { of, .. }
            | Check::Flat { of, .. }
            | Check::Best { of, .. }
            | Check::Linear { of, .. } => of,
        }
    }
}

impl Study {
    /// The name of its folder.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What it is called.
    pub fn title(&self) -> &str {
        &self.file.title
    }

    /// Paper and section, or who asks.
    pub fn source(&self) -> &str {
        &self.file.source
    }

    /// What is done.
    pub fn description(&self) -> &str {
        &self.file.description
    }

    /// What was chosen where the paper is silent.
    pub fn chosen(&self) -> &[String] {
        &self.file.chosen
    }

    /// The ids of its claims.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.file.claim.iter().map(|claim| claim.id.as_str())
    }

    /// The folder in which it lies.
    pub fn folder(&self) -> &std::path::Path {
        &self.folder
    }

    /// The study of that id among `folders`.
    ///
    /// # Errors
    /// There is none; a hint if a name is near.
    pub fn find(folders: &[PathBuf], id: &str) -> Result<PathBuf, Option<String>> {
        plan::find(folders, id)
    }

    /// Judges its claims by finished runs, scenario by scenario in the order of the plan.
    ///
    /// # Errors
    /// A claim asks for what was not measured.
    pub fn judge(
        &self,
        planned: &[PlannedScenario],
        runs: &[Vec<Run>],
        quick: bool,
    ) -> Result<StudyReport, StudyError> {
        let scenarios = planned.iter().zip(runs).map(|(planned, runs)| {
            let points = planned
                .scenario
                .points
                .iter()
                .enumerate()
                .map(|(number, point)| PointRuns {
                    params: point.params.clone(),
                    config: Some(&point.config),
                    runs: runs
                        .iter()
                        .filter(|run| run.point == number)
                        .map(|run| run as &dyn Figures)
                        .collect(),
                });
            plan::measured(planned, points.collect())
        });
        let data = Figured {
            scenarios: scenarios.collect(),
            thinned: quick,
        };
        report::report(self, &data)
    }
}

/// Runs a scenario of a study.
pub fn run_planned(
    planned: &PlannedScenario,
    options: &Options<'_>,
    progress: &mut dyn Progress,
    finished: &mut dyn FnMut(Run) -> Result<(), RunError>,
) -> RunEnd {
    let options = Options {
        jobs: options.jobs,
        folder: options.folder,
        watch: planned.watch,
        timeline: planned.timeline,
        ..Options::new(options.interrupted)
    };
    run(&planned.scenario, &options, progress, finished)
}
