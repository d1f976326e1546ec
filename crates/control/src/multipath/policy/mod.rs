//! Path policy: is a path usable, and which one should carry data?

mod manage;
mod measure;
mod rounds;

#[cfg(test)]
mod testing;

pub use manage::{Fitness, ManagePaths, Order, Paths, PolicyEvent};

use crate::part::registry;

registry! {
    /// A path policy by its name and parameters.
    PathPolicySpec for dyn ManagePaths, default ErrorCount;
    ErrorCount(error_count::ErrorCountParameters) = "error-count", "A path fails after path_max_retrans consecutive timeouts: the standard.", "RFC 9260 §8.2";
    PotentiallyFailed(potentially_failed::PotentiallyFailedParameters) = "potentially-failed", "Data leaves a path after the first timeout and returns when the path answers a heartbeat.", "RFC 7829";
    TwoLevel(two_level::TwoLevelParameters) = "two-level", "After a few timeouts data moves to another path for a while; after more, that path becomes the primary path.", "Caro et al. 2002";
    CycleCount(cycle_count::CycleCountParameters) = "cycle-count", "Each consecutive timeout costs twice as much as the one before; a path fails if its cost in a cycle of packets is too high.", "Pan et al. 2010, 4.1.1";
    GapTrend(gap_trend::GapTrendParameters) = "gap-trend", "A-SCTP: data moves to the co-primary path if the numbers of gap ack blocks and duplicate TSNs keep rising.", "Pongaliur 2005, 4";
    DelayCentric(delay_centric::DelayCentricParameters) = "delay-centric", "The path with the lowest smoothed round-trip time carries data.", "Kelly et al. 2004";
    Bandwidth(bandwidth::BandwidthParameters) = "bandwidth", "Pairs of large heartbeats estimate each path's bandwidth; the path with the highest estimate carries data.", "AISLE: Casetti et al. 2006";
    Ice(ice::IceParameters) = "ice", "Probes with their own windows measure idle paths periodically; the path with the largest mean window carries data.", "Pan et al. 2010, 4.1.2";
    IceSparse(ice_sparse::IceSparseParameters) = "ice-sparse", "ICE with fewer probes: a measurement ends as soon as the difference is significant.", "Whimbrel, after Pan et al. 2010, 7";
    QaSctp(qa_sctp::QaSctpParameters) = "qa-sctp", "`cycle-count` decides when a path fails, `ice` which path is best.", "Pan et al. 2010, 4";
}
