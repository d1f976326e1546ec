//! Estimators: what the arrival of acknowledgements says about a path.

mod rtt;

pub use rtt::{RttConfig, RttEstimator};
