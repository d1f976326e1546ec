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
    PotentiallyFailed(potentially_failed::PotentiallyFailedParameters) = "potentially-failed", "Data leaves a path after the first timeout, and a probe per timeout asks for its return.", "RFC 7829";
    TwoLevel(two_level::TwoLevelParameters) = "two-level", "A few timeouts send data elsewhere for a while, more make another path the primary one.", "Caro et al. 2002";
    CycleCount(cycle_count::CycleCountParameters) = "cycle-count", "Each timeout costs twice as much as the one before; a path fails by its cost per cycle of packets.", "Pan et al. 2010, 4.1.1";
    GapTrend(gap_trend::GapTrendParameters) = "gap-trend", "A-SCTP: gap ack blocks and duplicate TSNs that keep rising send data to the co-primary path.", "Pongaliur 2005, 4";
    DelayCentric(delay_centric::DelayCentricParameters) = "delay-centric", "The path with the lowest smoothed round-trip time carries data.", "Kelly et al. 2004";
    Bandwidth(bandwidth::BandwidthParameters) = "bandwidth", "Pairs of large heartbeats estimate each path's bandwidth; the widest path carries data.", "AISLE: Casetti et al. 2006";
    Ice(ice::IceParameters) = "ice", "Probes with their own windows measure idle paths periodically; the largest mean window carries data.", "Pan et al. 2010, 4.1.2";
    IceSparse(ice_sparse::IceSparseParameters) = "ice-sparse", "ICE with fewer probes: a measurement ends as soon as its answer is clear.", "Whimbrel, after Pan et al. 2010, 7";
    QaSctp(qa_sctp::QaSctpParameters) = "qa-sctp", "The count cycle says when a path fails, ICE which one is best.", "Pan et al. 2010, 4";
}
