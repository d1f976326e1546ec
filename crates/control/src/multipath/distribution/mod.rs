//! Distribution: which path takes the next packet of new data?

mod blest;
mod earliest_arrival;
mod ecf;
mod fill_in_order;
mod lowest_rtt;
mod primary;
mod redundant;
mod round_robin;

#[cfg(test)]
mod testing;

use core::fmt;

pub use blest::BlestParameters;
pub use earliest_arrival::EarliestArrivalParameters;
pub use ecf::EcfParameters;
pub use fill_in_order::FillInOrderParameters;
pub use lowest_rtt::LowestRttParameters;
pub use primary::PrimaryParameters;
pub use redundant::RedundantParameters;
pub use round_robin::RoundRobinParameters;

use super::PathView;
use crate::Time;
use crate::part::registry;

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// The time now.
    pub now: Time,
    /// Bytes of messages that wait.
    pub queued: u64,
    /// Bytes in flight on all paths.
    pub in_flight: u64,
    /// Bytes that the peer's receive window still has room for.
    pub window: u64,
    /// Bytes of messages sent and not acknowledged without a gap: what they keep of the send buffer.
    pub unacknowledged: u64,
    /// The send buffer: bytes of messages that wait or are not acknowledged without a gap, at most.
    pub send_buffer: u64,
    /// The path that carries new data by the path policy: the primary one while it is fit.
    pub sending: usize,
}

impl Demand {
    /// The window that all paths share, counted from the first byte that is not acknowledged without a gap: what the peer's receive
    /// buffer has room for, and no more than the send buffer holds.
    pub fn shared_window(&self) -> u64 {
        self.window.saturating_add(self.unacknowledged).min(self.send_buffer)
    }
}

/// The question a distribution answers.
pub trait Distribute: fmt::Debug + Send + Sync {
    /// The path that takes the next packet of new data, among those that are [open](PathView::open); none: it is better to wait.
    /// Asked again for each packet; what was answered need not be remembered.
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize>;

    /// Another path has taken the place of `path`, whose number it has now: what was known of the earlier one is forgotten.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// Whether every chunk goes out on every path. Then a path that is [open](PathView::open) carries what has been sent elsewhere and
    /// is not acknowledged, the oldest first, before any new data.
    fn sends_copies(&self) -> bool {
        false
    }

    /// The buffers that all paths share are full, while the window of some path is open.
    fn on_stall(&mut self, demand: &Demand, paths: &[PathView]) {
        let _ = (demand, paths);
    }
}

registry! {
    /// A distribution by its name and parameters.
    DistributionSpec for dyn Distribute, default Primary;
    Primary(primary::PrimaryParameters) = "primary", "The primary path takes all new data: the standard.", "RFC 9260 §6.4";
    FillInOrder(fill_in_order::FillInOrderParameters) = "fill-in-order", "The sending path until its window is full, then the next one.", "Ye 2004, 6.5.2";
    RoundRobin(round_robin::RoundRobinParameters) = "round-robin", "The paths in turn, in proportion to their windows.", "weighted round robin";
    LowestRtt(lowest_rtt::LowestRttParameters) = "lowest-rtt", "The path with the lowest round-trip time whose window is open.", "Paasch et al. 2014";
    Blest(blest::BlestParameters) = "blest", "Skips a slow path that would block the shared send window.", "Ferlin et al. 2016";
    Ecf(ecf::EcfParameters) = "ecf", "Skips a slow path if waiting for the fast one completes sooner.", "Lim et al. 2017";
    Redundant(redundant::RedundantParameters) = "redundant", "Every path carries all data; the first arrival counts.", "Froemmgen et al. 2016";
    EarliestArrival(earliest_arrival::EarliestArrivalParameters) = "earliest-arrival", "The path on which the packet arrives first, unless it would block the shared window.", "Whimbrel";
}
