//! The command that runs scenarios and studies, as a user calls it.

mod lab;
mod results;
mod schemes;
mod study;
mod support;
