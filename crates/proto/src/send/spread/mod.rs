//! Concurrent use of several paths.

mod copies;
mod distribution;
mod silence;
