//! Path policy: is a path fit, and which one should carry data?

mod bandwidth;
mod cycle_count;
mod delay_centric;
mod error_count;
mod gap_trend;
mod ice;
mod ice_sparse;
mod measure;
mod potentially_failed;
mod qa_sctp;
mod rounds;
mod two_level;

#[cfg(test)]
mod testing;

use core::fmt;

pub use bandwidth::BandwidthParameters;
pub use cycle_count::CycleCountParameters;
pub use delay_centric::DelayCentricParameters;
pub use error_count::ErrorCountParameters;
pub use gap_trend::GapTrendParameters;
pub use ice::IceParameters;
pub use ice_sparse::IceSparseParameters;
pub use potentially_failed::PotentiallyFailedParameters;
pub use qa_sctp::QaSctpParameters;
pub use two_level::TwoLevelParameters;

use super::PathView;
use crate::part::{Part, registry};
use crate::{Span, Time};

/// Whether a path can be used, as far as the sender can tell.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fitness {
    /// In use or ready for use.
    Active,
    /// Data goes elsewhere while another path is active, and it is probed once per retransmission timeout (RFC 7829).
    PotentiallyFailed,
    /// Out of use until something that was sent there is answered.
    Inactive,
}

/// Something that tells about a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PathSign {
    /// Packets of data were acknowledged for the first time.
    Delivered {
        /// How many.
        packets: u32,
        /// Their bytes.
        bytes: u64,
        /// The path's window was full before: it, and not the user or the peer, was what set the rate.
        filled: bool,
    },
    /// The retransmission timer went off, or a heartbeat was not answered, for the `consecutive`th time in a row.
    Timeout {
        /// Times in a row, from 1; not counted beyond the limit of the standard's error counter.
        consecutive: u32,
    },
    /// A SACK arrived that acknowledged packets of the path, or none at all while the path carries new data.
    Report {
        /// Gap ack blocks in it.
        gaps: u32,
        /// Duplicate TSNs in it.
        duplicates: u32,
    },
    /// A heartbeat was answered.
    Answered {
        /// Its round-trip time.
        rtt: Span,
    },
    /// Heartbeats that went out back to back have been answered, or will not be.
    Train {
        /// How many went out.
        sent: u32,
        /// How many were answered.
        answered: u32,
        /// Bytes of each packet with IP and UDP headers; an answer has as many.
        bytes: u64,
        /// From the first answer to the last.
        spread: Span,
    },
    /// The user made it the primary path.
    Chosen,
}

/// The paths of an association at one moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paths<'a> {
    /// The time now.
    pub now: Time,
    /// The primary path.
    pub primary: usize,
    /// The path that carries new data.
    pub current: usize,
    /// Each path.
    pub views: &'a [PathView],
    /// Congestion window of the probes on each path that follows the data ([`Order::Follow`]), in bytes; may be shorter
    /// than the views.
    pub probes: &'a [Option<u64>],
}

impl Paths<'_> {
    /// The path, if it may carry new data.
    pub fn usable(&self, path: usize) -> Option<usize> {
        self.views.get(path).filter(|view| view.usable).map(|_| path)
    }

    /// The paths besides the current one that may carry new data.
    pub fn others(&self) -> impl Iterator<Item = (usize, &PathView)> + '_ {
        let current = self.current;
        self.views
            .iter()
            .enumerate()
            .filter(move |(path, view)| *path != current && view.usable)
    }
}

/// Something that a policy wants done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Send a heartbeat on the path, unless one is under way.
    Heartbeat,
    /// Send so many heartbeats as large as packets of data, back to back; [`PathSign::Train`] tells what became of them.
    Train {
        /// How many.
        packets: u32,
    },
    /// From now on send a heartbeat as large as a packet of data for each packet of data on the current path, under a congestion
    /// window of their own, which begins anew.
    Follow {
        /// Their window grows although it is not filled, up to what the peer's receive buffer takes. The standard's rule (RFC 9260
        /// §7.2.1, §7.2.2) ties it to the rate of the current path.
        unfilled: bool,
    },
    /// No more of that.
    Rest,
    /// Set the path's congestion window to so many units (ns-2's CMT-PF).
    Restart {
        /// Its new size in units of the window.
        units: u32,
    },
}

/// The questions a path policy answers. It has one state for all paths of an association, whose number may grow.
pub trait ManagePaths: fmt::Debug + Send + Sync {
    /// Learns from a sign about `path`.
    fn on_sign(&mut self, paths: &Paths<'_>, path: usize, sign: &PathSign) {
        let _ = (paths, path, sign);
    }

    /// Another path has taken the place of `path`, whose number it has now: what was known of the earlier one is forgotten.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// The time it asked for has come.
    fn on_timer(&mut self, paths: &Paths<'_>) {
        let _ = paths;
    }

    /// When it wants [`on_timer`](ManagePaths::on_timer) to be called.
    fn next_timer(&self) -> Time {
        Time::MAX
    }

    /// Whether a path is fit; `counted` is the answer of the standard's error counter (RFC 9260 §8.2, RFC 7829).
    fn fitness(&self, path: usize, counted: Fitness, paths: &Paths<'_>) -> Fitness {
        let _ = (path, paths);
        counted
    }

    /// The path that should carry new data; `standard` is the standard's answer: the primary one while it is active. An answer
    /// that is not usable is not followed.
    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        let _ = paths;
        standard
    }

    /// The path that should be the primary one from now on.
    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        paths.primary
    }

    /// Something to be done, and on which path; asked until there is nothing more.
    fn next_order(&mut self) -> Option<(usize, Order)> {
        None
    }
}

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
    Ice(ice::IceParameters) = "ice", "Probes under windows of their own measure idle paths now and then; the largest mean window wins.", "Pan et al. 2010, 4.1.2";
    IceSparse(ice_sparse::IceSparseParameters) = "ice-sparse", "ICE with fewer probes: a measurement ends as soon as its answer is clear.", "Whimbrel, after Pan et al. 2010, 7";
    QaSctp(qa_sctp::QaSctpParameters) = "qa-sctp", "The count cycle says when a path fails, ICE which one is best.", "Pan et al. 2010, 4";
}

/// Forgets the entry of a path.
fn forget<T: Default>(all: &mut [T], path: usize) {
    if let Some(entry) = all.get_mut(path) {
        *entry = T::default();
    }
}

/// The entry of a path in a list with one for each, which grows as paths appear.
fn entry<T: Default>(all: &mut Vec<T>, path: usize) -> &mut T {
    if all.len() <= path {
        all.resize_with(path + 1, T::default);
    }
    &mut all[path]
}
