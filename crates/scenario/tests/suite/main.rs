//! Scenario files from outside.

mod errors;
mod hostile;
