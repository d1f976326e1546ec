//! The commands for scenarios and studies, as processes.

mod documented;
mod files;
#[path = "../common/identity.rs"]
mod identity;
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
mod terminal;
mod tunnel;
mod wireshark;
