//! Scenario files through the public interface.

mod errors;
mod hostile;
mod reference;
mod same_as_run;
mod short;
