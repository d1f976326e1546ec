//! Checks of the code: tests, its structure, and comparisons with other revisions.

pub(crate) mod cycles;
pub(crate) mod faults;
pub(crate) mod format;
pub(crate) mod fuzz;
pub(crate) mod peers;
pub(crate) mod requirements;
pub(crate) mod same;
pub(crate) mod test;
