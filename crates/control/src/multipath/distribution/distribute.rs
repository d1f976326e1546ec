//! The interface of a distribution.

use core::fmt;

use crate::Time;
use crate::multipath::PathView;

/// The data to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Demand {
    /// Current time.
    pub now: Time,
    /// Bytes of queued messages.
    pub queued: u64,
    /// Bytes in flight on all paths.
    pub in_flight: u64,
    /// Bytes of room in the peer's receive window.
    pub window: u64,
    /// Bytes of messages sent and not cumulatively acknowledged, which occupy the send buffer.
    pub unacknowledged: u64,
    /// Size of the send buffer: maximum bytes of messages that are queued or not cumulatively acknowledged.
    pub send_buffer: u64,
    /// The path for new data chosen by the path policy: the primary path while it is usable.
    pub sending: usize,
}

impl Demand {
    /// Returns the window that all paths share, counted from the first byte that is not cumulatively acknowledged: the
    /// room in the peer's receive buffer, limited by the send buffer.
    pub fn shared_window(&self) -> u64 {
        self.window.saturating_add(self.unacknowledged).min(self.send_buffer)
    }
}

/// The interface of a distribution.
pub trait Distribute: fmt::Debug + Send + Sync {
    /// Returns the path for the next packet of new data, among those that are [open](PathView::open), or `None` if it
    /// is better to wait. It is called for each packet.
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize>;

    /// A new path has reused the number `path`: discards the state of the earlier path.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// Returns whether every chunk is sent on every path. Then an [open](PathView::open) path first carries chunks that
    /// have been sent on other paths and are not acknowledged, oldest first, and then new data.
    fn sends_copies(&self) -> bool {
        false
    }

    /// The buffers that all paths share are full, while the window of some path is open.
    fn on_stall(&mut self, demand: &Demand, paths: &[PathView]) {
        let _ = (demand, paths);
    }
}
