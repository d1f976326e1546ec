//! The commands for scenarios and studies, as processes.

mod files;
mod idle;
mod json;
mod lab;
mod perf;
mod ping;
mod report;
mod results;
mod schemes;
mod study;
mod support;
mod tunnel;
mod wireshark;
