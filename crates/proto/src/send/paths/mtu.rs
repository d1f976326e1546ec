//! The path MTU, and the largest chunk that fits on every path (RFC 9260 §7.3).

use whimbrel_control::Time;
use whimbrel_wire::COMMON_HEADER_LEN;

use crate::send::Sending;
use crate::send::path::{BASE_MTU, Path};
use crate::{PathId, TransportAddr};

impl Sending {
    /// Updates the maximum user data of a chunk, so that it fits into a packet on every path.
    pub(in crate::send) fn limit_data(&mut self) {
        let before = self.stamp_len() + usize::from(self.agreed.auth_len) + self.outstanding.header_len();
        self.max_data = max_data(&self.paths, before);
        self.queue.limit_chunks(self.max_data);
    }

    /// Lowers the MTU of the paths to this address of the peer. Chunks that were sent before may be longer than a packet on these paths then;
    /// when they are sent again, IP has to fragment the packet (RFC 9260 §6.9).
    pub(crate) fn limit_mtu(&mut self, remote: TransportAddr, mtu: u16) {
        let paths = self
            .paths
            .iter_mut()
            .filter(|path| path.remote() == remote && !path.is_removed());
        let mut is_lower = false;
        for path in paths {
            is_lower |= path.limit_mtu(mtu);
        }
        if is_lower {
            self.limit_data();
        }
    }

    /// These bytes of data have timed out on a path: looks for a router that drops long packets and does not report it. HEARTBEATs, which are
    /// short, show whether the path carries packets.
    pub(in crate::send) fn watch_mtu(&mut self, now: Time, index: PathId, lost: u64) {
        let path = &mut self.paths[index];
        let fit_in_short_packet = lost <= u64::from(BASE_MTU) - (path.mtu() as usize - path.max_packet()) as u64;
        if !self.config.black_hole_detection || path.mtu() <= BASE_MTU || fit_in_short_packet {
            return;
        }
        if path.black_hole.get_or_insert_default().on_timeout() {
            path.black_hole = None;
            path.limit_mtu(BASE_MTU);
            self.limit_data();
        } else if path.heartbeat.pending.is_none() && !path.heartbeat.requested {
            path.heartbeat.asks_about_mtu = true;
            self.probe_soon(now, index);
        }
    }

    /// Returns the maximum length in bytes of a chunk that fits into a packet on every path.
    pub(crate) fn largest_chunk(&self) -> usize {
        usize::from(self.max_data) + self.outstanding.header_len()
    }

    /// Returns the largest SCTP packet on a path in bytes.
    pub(crate) fn max_packet(&self, index: PathId) -> usize {
        self.paths[index].max_packet()
    }
}

/// `before`: bytes of a packet between the common header and the user data.
// [9260:7.3-3, 7.3-4, 6-9]
fn max_data(paths: &[Path], before: usize) -> u16 {
    let live = paths.iter().filter(|path| !path.is_removed());
    let smallest = live.map(Path::max_packet).min();
    let smallest = smallest.or(paths.first().map(Path::max_packet)).unwrap_or(0);
    smallest.saturating_sub(COMMON_HEADER_LEN + before) as u16
}
