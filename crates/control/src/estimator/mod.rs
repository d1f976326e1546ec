//! Estimators: properties of a path derived from the arrival of acknowledgements.

mod backlog;
mod bandwidth;
mod delivery;
mod extreme;
mod loss_share;
mod profile;
mod rounds;
mod rtt;

pub use backlog::Backlog;
pub use bandwidth::{ArrivalRate, WestwoodFilter};
pub use delivery::{DeliveryEstimator, SendStamp};
pub use extreme::{WindowedMax, WindowedMin};
pub(crate) use loss_share::LossShare;
pub(crate) use profile::{Count, DelayProfile, LevelView};
pub use rounds::Rounds;
pub use rtt::{RttConfig, RttEstimator};
