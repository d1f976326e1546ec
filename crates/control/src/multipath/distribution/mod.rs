//! Distribution: which path carries the next packet of new data?

mod distribute;

#[cfg(test)]
mod testing;

pub use distribute::{Demand, Distribute};

use crate::part::registry;

registry! {
    /// A distribution by its name and parameters.
    DistributionSpec for dyn Distribute, default Primary;
    Primary(primary::PrimaryParameters) = "primary", "The primary path takes all new data: the standard.", "RFC 9260 §6.4";
    FillInOrder(fill_in_order::FillInOrderParameters) = "fill-in-order", "The current path until its window is full, then the next one.", "Ye 2004, 6.5.2";
    RoundRobin(round_robin::RoundRobinParameters) = "round-robin", "The paths in turn, in proportion to their windows.", "weighted round robin";
    LowestRtt(lowest_rtt::LowestRttParameters) = "lowest-rtt", "The path with the lowest round-trip time whose window is open.", "Paasch et al. 2014";
    Blest(blest::BlestParameters) = "blest", "Skips a slow path that would block the shared send window.", "Ferlin et al. 2016";
    Ecf(ecf::EcfParameters) = "ecf", "Skips a slow path if waiting for the fast one completes sooner.", "Lim et al. 2017";
    Redundant(redundant::RedundantParameters) = "redundant", "Every path carries all data; the first arrival counts.", "Froemmgen et al. 2016";
    EarliestArrival(earliest_arrival::EarliestArrivalParameters) = "earliest-arrival", "The path on which the packet arrives first, unless it would block the shared window.", "Whimbrel";
}
