//! The MTU of a path: what it is taken for, and what changes it (RFC 9260 §7.3, RFC 8899).

use whimbrel_control::Time;
use whimbrel_wire::{CHUNK_HEADER_LEN, COMMON_HEADER_LEN};

use super::controller::{max_packet, rules};
use super::mtu_search::{Found, MtuSearch};
use super::{BASE_MTU, Path, PathState};
use crate::TransportAddr;
use crate::config::Resolved;

/// Shortest path MTU in bytes by IPv4: hosts need not take longer packets (RFC 1122 §3.3.2). By IPv6 it is [`BASE_MTU`] (RFC 8201 §4).
const LEAST_MTU: u16 = 576;

/// Returns the shortest path MTU in bytes to this address.
fn least_mtu(remote: TransportAddr) -> u16 {
    if remote.is_ipv4() { LEAST_MTU } else { BASE_MTU }
}

impl Path {
    /// Returns the largest SCTP packet on this path in bytes, without IP and UDP headers.
    // [9260:7.3-2, 6.10-1, 6.10-2]
    // [8899:3-1]
    pub(crate) fn max_packet(&self) -> usize {
        max_packet(self.mtu, self.remote)
    }

    // [8899:3-21, 4.4-1]
    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Changes the path MTU, and with it the unit of the congestion control.
    // [8899:3-15]
    pub(in crate::send) fn set_mtu(&mut self, config: &Resolved, mtu: u16) {
        self.mtu = mtu;
        self.control.set_rules(rules(config, mtu, self.remote));
    }

    /// Packets of more than this number of bytes do not pass, but not less than the protocol allows. Returns whether the path MTU is lower now.
    // [8899:3-10, 4.6.2-1, 4.6.2-2, 6.2.1.4-2, 6.2.2.4-2]
    pub(in crate::send) fn limit_mtu(&mut self, config: &Resolved, now: Time, mtu: u16) -> bool {
        let mtu = mtu.max(least_mtu(self.remote));
        let is_lower = mtu < self.mtu;
        if is_lower {
            // RFC 8899 §4.6.2: to the base, if a search finds out what really passes.
            let base = self.mtu_search.as_ref().map_or(u16::MAX, |_| BASE_MTU);
            self.set_mtu(config, mtu.min(base));
        }
        if let Some(search) = &mut self.mtu_search {
            search.on_report(now, mtu, self.mtu);
        }
        is_lower
    }

    /// The host has not sent the probe of the path MTU: its interface carries packets of `mtu` bytes.
    pub(in crate::send) fn on_probe_refused(&mut self, now: Time, mtu: u16) {
        let own = self.mtu;
        if let Some(search) = &mut self.mtu_search {
            search.on_refused(now, mtu, own);
        }
    }

    /// Returns the length of the padding that makes IP fragment an SCTP packet of this length, which is longer than the path MTU. By IPv6, only the
    /// sender fragments, and Linux only what is longer than the interface allows.
    pub(in crate::send) fn padding_to_fragment(&self, len: usize) -> Option<usize> {
        let device = self.mtu_search.as_ref()?.device()?;
        let least = max_packet(device, self.remote) + CHUNK_HEADER_LEN;
        (self.remote.is_ipv6() && len > self.max_packet() && len < least).then(|| least - len - CHUNK_HEADER_LEN)
    }

    /// Long packets do not arrive any more (RFC 8899 §4.3).
    // [6951:5.5-2, 5.6-3]
    pub(in crate::send) fn on_black_hole(&mut self, config: &Resolved, now: Time) {
        let lost = self.mtu;
        self.black_hole = None;
        let mtu = self.fallback_mtu();
        self.set_mtu(config, mtu);
        if let Some(search) = &mut self.mtu_search {
            search.on_black_hole(now, lost, mtu);
        }
    }

    /// Returns the path MTU in bytes after long packets have been lost. A search finds out what passes beyond the least one.
    pub(in crate::send) fn fallback_mtu(&self) -> u16 {
        match &self.mtu_search {
            Some(_) if self.mtu <= BASE_MTU => least_mtu(self.remote),
            _ => BASE_MTU,
        }
    }

    /// Returns whether chunks have to fit into packets on this path. If MTUs are searched for, that of a path which has never responded, or does
    /// not any more, is not known. A chunk that is sent there all the same is fragmented.
    pub(in crate::send) fn limits_chunks(&self, config: &Resolved) -> bool {
        let is_up = matches!(self.state, PathState::Active | PathState::PotentiallyFailed);
        !self.removed && (is_up || config.max_mtu.is_none())
    }

    /// The path responds, or not any more: its MTU is searched for, or not.
    pub(in crate::send) fn search_mtu(&mut self, config: &Resolved, now: Time) {
        let Some(most) = config.max_mtu else { return };
        let (mtu, least) = (self.mtu, least_mtu(self.remote));
        if self.in_use() && self.state == PathState::Active {
            let new = || Box::new(MtuSearch::new(config.mtu, most, least));
            self.mtu_search.get_or_insert_with(new).resume(now, mtu);
        } else if let Some(search) = &mut self.mtu_search {
            search.suspend();
        }
    }

    /// Returns the length of the SCTP packet with which the path MTU is probed now.
    #[inline]
    pub(in crate::send) fn mtu_probe(&self, now: Time) -> Option<usize> {
        let size = self.mtu_search.as_ref()?.due(now)?;
        Some(max_packet(size, self.remote))
    }

    /// A probe of the path MTU is sent. Returns the nonce of its HEARTBEAT; `random`: a new one.
    pub(in crate::send) fn send_mtu_probe(&mut self, now: Time, random: u64) -> u64 {
        let rto = self.rtt.rto();
        let Some(search) = &mut self.mtu_search else {
            return random;
        };
        let nonce = search.nonce(random);
        search.on_sent(now, rto);
        nonce
    }

    /// Chunks of this length on average have been acknowledged on the path. At least one of them was as long.
    // [8899:3-4]
    #[inline]
    pub(in crate::send) fn on_chunks_acked(&mut self, mean: u64) {
        let (mtu, most) = (self.mtu, self.max_packet());
        let Some(search) = self.mtu_search.as_mut().filter(|search| search.doubts(mtu)) else {
            return;
        };
        let packet = mean as usize + COMMON_HEADER_LEN;
        // IP fragments what was packed before the path MTU fell: that shows nothing.
        if packet <= most {
            search.on_data(mtu - (most - packet) as u16);
        }
    }

    /// A short packet has arrived on the path.
    pub(in crate::send) fn on_life(&mut self, now: Time) {
        let mtu = self.mtu;
        if let Some(search) = &mut self.mtu_search {
            search.on_life(now, mtu);
        }
    }

    /// Handles a HEARTBEAT ACK with this nonce. `None`: it does not answer the probe of the path MTU.
    // [8899:3-4]
    pub(in crate::send) fn on_mtu_probe_answer(&mut self, now: Time, nonce: u64) -> Option<Found> {
        let mtu = self.mtu;
        let search = self.mtu_search.as_mut().filter(|search| search.is_answer(nonce))?;
        Some(search.on_answer(now, mtu))
    }

    /// Handles the timer of the search. `last_data`: when data was last sent on any path, as its chunks fit into packets on all of them.
    // [8899:3-13, 3-14]
    pub(in crate::send) fn on_mtu_timer(&mut self, now: Time, last_data: Time) -> Found {
        let mtu = self.mtu;
        match &mut self.mtu_search {
            Some(search) => search.on_timer(now, mtu, last_data),
            None => Found::Nothing,
        }
    }
}
