//! The laboratory: runs a scenario's points with every seed on all cores, says what they achieved with 95 % confidence
//! intervals, and writes results, series, events and packets from which every figure can be traced and every run repeated.
//!
//! Same scenario, same seed: same files, byte for byte, however many threads. Only the wall-clock times in the JSON report
//! differ.

mod metric;
mod output;
mod record;
mod report;
mod runner;
mod stats;
mod study;
mod watch;
mod write;

pub use metric::{COUNT, Metric, Values, metrics};
pub use output::{Input, Manifest, ManifestScenario, Results, Status};
pub use report::{PointReport, Summaries, json, summarise, table};
pub use runner::{FlowRun, LinkRun, Options, Outcome, Progress, Run, RunError, run};
pub use stats::{Summary, jain_index};
pub use study::{ClaimReport, PlannedScenario, Study, StudyError, StudyReport, Verdict, markdown, run_planned};
pub use write::file::{Digested, WriteError};
pub use write::folder::{FolderError, prepare};
