//! Recovery from loss beyond the standard: what was meant by it, what is sent again, when, and with which timer.

mod verdict;

pub(crate) use verdict::Lost;
