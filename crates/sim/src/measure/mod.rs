//! Measurements of a run.

mod histogram;
mod result;
mod verdicts;

pub use self::histogram::{DelaySummary, Histogram};
pub(crate) use self::result::stats_since;
pub use self::result::{EndReason, FileCheck, FlowOutcome, FlowResult, LinkResult, RadioResult, RunResult};
pub use self::verdicts::VerdictCounts;
pub(crate) use self::verdicts::{Episodes, Occasions};
