//! The interface of a path policy.

use core::fmt;

use crate::multipath::PathView;
use crate::{Span, Time};

/// Whether a path can be used, as far as the sender knows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fitness {
    /// In use or ready for use.
    Active,
    /// New data is sent on other paths while one of them is active, and the path is probed once per RTO (RFC 7829).
    PotentiallyFailed,
    /// Not in use until a packet sent there is acknowledged.
    Inactive,
}

/// An event that gives information about a path.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum PolicyEvent {
    /// Data packets were newly acknowledged.
    Delivered {
        /// Number of packets.
        packets: u32,
        /// Number of bytes.
        bytes: u64,
        /// The path's window was full before: the window, and not the application or the peer, limited the rate.
        filled: bool,
    },
    /// The retransmission timer expired, or a heartbeat timed out, for the `consecutive`th time in a row.
    Timeout {
        /// Consecutive number, from 1; not counted beyond the limit of the standard's error counter.
        consecutive: u32,
    },
    /// A SACK arrived that acknowledged packets of the path, or none at all while the path carries new data.
    Report {
        /// Number of gap ack blocks in the SACK.
        gaps: u32,
        /// Number of duplicate TSNs in the SACK.
        duplicates: u32,
    },
    /// A HEARTBEAT ACK arrived.
    Answered {
        /// Its round-trip time.
        rtt: Span,
    },
    /// All heartbeats of a train were acknowledged or are lost.
    Train {
        /// Number of heartbeats sent.
        sent: u32,
        /// Number of heartbeats acknowledged.
        answered: u32,
        /// Bytes of each packet with IP and UDP headers; a HEARTBEAT ACK has the same length.
        bytes: u64,
        /// Time from the first HEARTBEAT ACK to the last.
        spread: Span,
    },
    /// The user made the path the primary path.
    Chosen,
}

/// The paths of an association at one instant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paths<'a> {
    /// Current time.
    pub now: Time,
    /// The primary path.
    pub primary: usize,
    /// The path for new data.
    pub current: usize,
    /// The view of each path.
    pub views: &'a [PathView],
    /// Congestion window in bytes of the probes on each path with probes that follow the data ([`Order::Follow`]). May
    /// be shorter than the list of views.
    pub probes: &'a [Option<u64>],
}

impl Paths<'_> {
    /// Returns the path if it may carry new data.
    pub fn usable(&self, path: usize) -> Option<usize> {
        self.views.get(path).filter(|view| view.usable).map(|_| path)
    }

    /// Returns the paths other than the current one that may carry new data.
    pub fn others(&self) -> impl Iterator<Item = (usize, &PathView)> + '_ {
        let current = self.current;
        self.views
            .iter()
            .enumerate()
            .filter(move |(path, view)| *path != current && view.usable)
    }
}

/// An action requested by a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Send a heartbeat on the path, unless one is outstanding.
    Heartbeat,
    /// Send this number of heartbeats as large as data packets, back to back. [`PolicyEvent::Train`] reports the result.
    Train {
        /// Number of heartbeats.
        packets: u32,
    },
    /// From now on send a heartbeat as large as a data packet for each data packet on the current path, limited by a
    /// separate congestion window, which is reset.
    Follow {
        /// The window of the probes grows although it is not fully utilized, up to the peer's receive buffer. The
        /// standard's rule (RFC 9260 §7.2.1, §7.2.2) would limit it to the rate of the current path.
        unfilled: bool,
    },
    /// Stop the probes that follow the data.
    Rest,
    /// Set the path's congestion window to this number of units (ns-2's CMT-PF).
    Restart {
        /// New size in units of the window.
        units: u32,
    },
}

/// The interface of a path policy. There is one state for all paths of an association, whose number may grow.
pub trait ManagePaths: fmt::Debug + Send + Sync {
    /// Handles an event on `path`.
    fn on_event(&mut self, paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        let _ = (paths, path, event);
    }

    /// A new path has reused the number `path`: discards the state of the earlier path.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// Handles the expiration of the policy's timer.
    fn on_timer(&mut self, paths: &Paths<'_>) {
        let _ = paths;
    }

    /// Returns when [`on_timer`](ManagePaths::on_timer) is to be called.
    fn next_timer(&self) -> Time {
        Time::MAX
    }

    /// Returns the fitness of a path; `counted` is the fitness by the standard's error counter (RFC 9260 §8.2, RFC
    /// 7829).
    fn fitness(&self, path: usize, counted: Fitness, paths: &Paths<'_>) -> Fitness {
        let _ = (path, paths);
        counted
    }

    /// Returns the path for new data; `standard` is the standard's choice, the primary path while it is active. A path
    /// that is not usable is ignored.
    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        let _ = paths;
        standard
    }

    /// Returns the path that should become the primary path.
    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        paths.primary
    }

    /// Returns the next requested action and its path; called until it returns `None`.
    fn next_order(&mut self) -> Option<(usize, Order)> {
        None
    }
}

/// Resets the entry of a path.
pub(super) fn forget<T: Default>(all: &mut [T], path: usize) {
    if let Some(entry) = all.get_mut(path) {
        *entry = T::default();
    }
}

/// Returns the entry of a path in a list with one entry per path, which grows on demand.
pub(super) fn entry<T: Default>(all: &mut Vec<T>, path: usize) -> &mut T {
    if all.len() <= path {
        all.resize_with(path + 1, T::default);
    }
    &mut all[path]
}
