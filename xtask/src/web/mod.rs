//! What runs in browsers: the program of reports, and the playground.

pub(crate) mod bundle;
pub(crate) mod playground;
