//! The laboratory: runs a scenario's points with all seeds on all cores, computes statistics with 95 % confidence intervals, and
//! writes results, series, events and packets from which every figure can be traced and every run repeated.
//!
//! The same scenario and seed give the same files, byte for byte, with any number of threads. Only the wall-clock times in the JSON
//! report differ.

mod emulated;
mod estimate;
mod export;
mod metric;
mod output;
mod record;
mod recorded;
mod report;
mod rows;
mod run;
mod runner;
mod stats;
mod stored;
mod study;
mod text;
mod timeline;
mod watch;
mod why;
mod write;

pub use emulated::Recording;
pub use estimate::Estimate;
pub use export::{ExportError, ExportFormat, export};
pub use metric::{COUNT, Metric, Values, default_metrics, find_metric, metrics};
pub use output::{Input, Manifest, ManifestScenario, Results, Status, inputs};
pub use report::{PointReport, Summaries, View, ViewError, json, summarise, tables};
pub use rows::{Field, Rows};
pub use run::{FlowRun, LinkRun, Run};
pub use runner::{Options, Part, Progress, RunEnd, RunError, run};
pub use stats::{Summary, jain_index};
pub use stored::{Journal, StoredRuns, load_runs, open_folder};
pub use study::{
    ClaimKind, ClaimReport, Falsified, Page, PlannedScenario, Study, StudyError, StudyReport, Verdict, WrongStudy,
    outcomes, pages, run_planned, write_falsified,
};
pub use text::{file_name, json_problem};
pub use timeline::Timeline;
pub use why::{Asked, History, why};
pub use write::events::event_line;
pub use write::file::{Digested, WriteError};
pub use write::folder::{FolderError, prepare};
pub use write::lock::{FolderLock, LockError};
pub use write::table::Kind;
