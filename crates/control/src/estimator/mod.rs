//! Estimators: properties of a path derived from the arrival of acknowledgements.

mod backlog;
mod bandwidth;
mod delivery;
mod extreme;
mod rounds;
mod rtt;

pub use backlog::Backlog;
pub use bandwidth::{ArrivalRate, WestwoodFilter};
pub use delivery::{DeliveryEstimator, SendStamp};
pub use extreme::WindowedMax;
pub use rounds::Rounds;
pub use rtt::{RttConfig, RttEstimator};
