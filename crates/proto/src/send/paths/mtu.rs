//! The path MTU, and the largest chunk that fits on every path (RFC 9260 §7.3).

use whimbrel_control::Time;
use whimbrel_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN, Chunk, HeartbeatInfo};

use crate::config::Resolved;
use crate::context::Context;
use crate::packet::Packet;
use crate::send::Sending;
use crate::send::path::{BASE_MTU, Found, HeartbeatContent, Path};
use crate::{PathId, TransportAddr};

impl Sending {
    /// Updates the maximum user data of a chunk, so that it fits into a packet on every path.
    // [8899:3-20]
    pub(in crate::send) fn limit_data(&mut self) {
        let before = self.stamp_len() + usize::from(self.agreed.auth_len) + self.outstanding.header_len();
        self.max_data = max_data(&self.paths, &self.config, before);
        self.queue.limit_chunks(self.max_data);
    }

    /// Lowers the MTU of the paths to this address of the peer. Chunks that were sent before may be longer than a packet on these paths then;
    /// when they are sent again, IP has to fragment the packet (RFC 9260 §6.9).
    pub(crate) fn limit_mtu(&mut self, now: Time, remote: TransportAddr, mtu: u16) {
        let config = &self.config;
        let paths = self
            .paths
            .iter_mut()
            .filter(|path| path.remote() == remote && !path.is_removed());
        let mut is_lower = false;
        for path in paths {
            is_lower |= path.limit_mtu(config, now, mtu);
        }
        if is_lower {
            self.limit_data();
        }
    }

    /// The host has not sent a probe on this path: its interface carries packets of `mtu` bytes.
    pub(crate) fn on_probe_refused(&mut self, now: Time, index: PathId, mtu: u16) {
        if let Some(path) = self.paths.get_mut(index) {
            path.on_probe_refused(now, mtu.max(BASE_MTU));
        }
    }

    /// These bytes of data have timed out on a path: looks for a router that drops long packets and does not report it. HEARTBEATs, which are
    /// short, show whether the path carries packets.
    // [8899:3-22, 4.3-1]
    pub(in crate::send) fn watch_mtu(&mut self, now: Time, index: PathId, lost: u64) {
        let path = &mut self.paths[index];
        let fallback = path.fallback_mtu();
        let fit_in_short_packet = lost <= u64::from(fallback) - (path.mtu() as usize - path.max_packet()) as u64;
        if !self.config.black_hole_detection || path.mtu() <= fallback || fit_in_short_packet {
            return;
        }
        if path.black_hole.get_or_insert_default().on_timeout() {
            path.on_black_hole(&self.config, now);
            self.limit_data();
        } else if path.heartbeat.pending.is_none() && !path.heartbeat.requested {
            path.heartbeat.asks_about_mtu = true;
            self.probe_soon(now, index);
        }
    }

    /// Data has been put into a packet. The first one that is nearly full starts the search for the MTUs of all paths that respond (RFC 8899
    /// §5.2): associations with little data have no use for longer packets.
    pub(crate) fn finish_data(&mut self, now: Time, packet: &mut Packet<'_>) {
        let most = self.paths[packet.path].max_packet();
        if !self.searches_mtu && self.config.max_mtu.is_some() && 8 * packet.len >= 7 * most {
            self.searches_mtu = true;
            self.search_mtus(now);
        }
        if let Some(len) = self.paths[packet.path].padding_to_fragment(packet.len) {
            packet.push(&Chunk::Pad { len });
        }
    }

    /// Searches for the MTU of each path that responds, if that has begun.
    pub(in crate::send) fn search_mtus(&mut self, now: Time) {
        self.paths.ids().for_each(|index| self.search_mtu(now, index));
    }

    /// The path responds, or not any more.
    pub(in crate::send) fn search_mtu(&mut self, now: Time, index: PathId) {
        if self.searches_mtu {
            self.paths[index].search_mtu(&self.config, now);
        }
    }

    /// Returns the path whose MTU is to be probed now, and the length in bytes of the SCTP packet for that.
    // [8899:3-2, 3-17]
    pub(crate) fn next_mtu_probe(&self, now: Time) -> Option<(PathId, usize)> {
        if !self.searches_mtu {
            return None;
        }
        let probe = |index: PathId| Some((index, self.paths[index].mtu_probe(now)?));
        self.paths.ids().find_map(probe)
    }

    /// Writes a probe of the path MTU: a HEARTBEAT, and padding that fills the packet (RFC 8899 §6.2.1.2). Its loss is no sign of congestion, and no
    /// error of the path.
    // [8899:3-5, 4.1-1, 6.2-1, 6.2-2, 6.2.2-1]
    pub(crate) fn write_mtu_probe(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) {
        let random = ctx.random.next_u64();
        let nonce = self.paths[packet.path].send_mtu_probe(ctx.now, random);
        let content = HeartbeatContent {
            nonce,
            sent_at: ctx.now,
            path: packet.path,
        };
        packet.push(&Chunk::Heartbeat(HeartbeatInfo(&content.to_bytes())));
        if let Some(len) = packet.room.checked_sub(CHUNK_HEADER_LEN) {
            packet.push(&Chunk::Pad { len });
        }
        self.stats.mtu_probes_sent += 1;
    }

    /// Handles the HEARTBEAT ACK of a probe of the path MTU. Returns false if it is another one.
    pub(in crate::send) fn on_mtu_probe_answer(&mut self, now: Time, content: &HeartbeatContent) -> bool {
        let path = self.paths.get_mut(content.path);
        let Some(found) = path.and_then(|path| path.on_mtu_probe_answer(now, content.nonce)) else {
            return false;
        };
        self.take_mtu(now, content.path, found);
        true
    }

    pub(in crate::send) fn on_mtu_timer(&mut self, now: Time, index: PathId) {
        let last_data = self.paths.iter().map(Path::last_data).max();
        let found = self.paths[index].on_mtu_timer(now, last_data.unwrap_or(now));
        self.take_mtu(now, index, found);
    }

    fn take_mtu(&mut self, now: Time, index: PathId, found: Found) {
        match found {
            Found::Nothing => {}
            Found::Mtu(mtu) => {
                self.paths[index].set_mtu(&self.config, mtu);
                self.limit_data();
            }
            Found::Doubt => self.probe_soon(now, index),
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
fn max_data(paths: &[Path], config: &Resolved, before: usize) -> u16 {
    let live = paths.iter().filter(|path| path.limits_chunks(config));
    let smallest = live.map(Path::max_packet).min();
    let smallest = smallest.or(paths.first().map(Path::max_packet)).unwrap_or(0);
    smallest.saturating_sub(COMMON_HEADER_LEN + before) as u16
}
