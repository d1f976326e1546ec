//! Estimators: what the arrival of acknowledgements says about a path.

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
