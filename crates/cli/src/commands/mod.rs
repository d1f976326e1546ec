//! One file per command.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod demo;
pub(crate) mod echo;
pub(crate) mod emulate;
pub(crate) mod enter;
pub(crate) mod export;
pub(crate) mod keygen;
pub(crate) mod merge;
pub(crate) mod metrics;
pub(crate) mod perf;
pub(crate) mod ping;
pub(crate) mod plot;
pub(crate) mod recv;
pub(crate) mod report;
pub(crate) mod rerun;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod schemes;
pub(crate) mod send;
pub(crate) mod show;
pub(crate) mod study;
pub(crate) mod tunnel;
pub(crate) mod why;
