//! Local addresses that a network address translator (NAT) replaces, so that the peer sees other ones (RFC 5061 §4.2.1,
//! §4.2.2).
//!
//! This end does not know its address as the peer sees it. The peer takes it from the source of an ASCONF with the wildcard
//! address (0.0.0.0 or ::). Such an ASCONF has only requests for one local address and is sent from that address. Only a
//! late retransmission may leave from another one: `misplaced`.

use std::net::IpAddr;

use whimbrel_control::Span;

use super::super::Association;
use super::request::Request;
use crate::address::is_one_ip;
use crate::context::Context;
use crate::event::Event;
use crate::send::path::Path;
use crate::{PathId, TransportAddr};

/// Number of times that an ASCONF with the wildcard address is sent from its local address. After that, it is
/// retransmitted on another path, if there is one. Otherwise it would delay other requests, because only one ASCONF may
/// be outstanding (RFC 5061 §5.1). If other requests wait, one time is enough.
const ATTEMPTS: u32 = 3;

/// The longest time to wait for an answer to each of these.
const LONGEST_TEST: Span = Span::from_secs(4);

/// Consecutive errors of a path after which the peer may see another source address. A single error is
/// often one lost packet.
const SUSPICIOUS_ERRORS: u32 = 2;

/// Returns whether this is an IPv4 address that is valid only within a network: RFC 1918, RFC 6598 (shared by the
/// customers of a provider), and link-local addresses.
fn is_private(ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip.to_canonical() else {
        return false;
    };
    let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
    ip.is_private() || is_shared || ip.is_link_local()
}

impl Association {
    /// Returns whether a NAT is assumed to replace this local address.
    pub(in super::super) fn is_translated(&self, local: TransportAddr) -> bool {
        // The end that accepted the association can be reached at its address.
        !self.ends.accepted
            && self.config.address_translation.unwrap_or_else(|| {
                let is_public = |ip: IpAddr| ip.to_canonical().is_ipv4() && !is_private(ip);
                self.config.dynamic_addresses && is_private(local.ip()) && self.sending.live_remotes().any(is_public)
            })
    }

    /// Returns the addresses that the INIT lists: the local ones that are not translated; none if there is only one local
    /// address (RFC 9260 §5.1.2 A).
    // [6951:3.2-1, 3.2-3, 5.7-1]
    pub(in super::super) fn listed_addresses(&self) -> Vec<TransportAddr> {
        let local = &self.ends.local_addrs;
        let listed: Vec<_> = local
            .iter()
            .copied()
            .filter(|addr| !self.is_translated(*addr))
            .collect();
        if is_one_ip(local) { Vec::new() } else { listed }
    }

    /// Removes the translated addresses from the local addresses and from the paths, except the one that the handshake used.
    /// The peer does not know them yet. Returns them.
    pub(in super::super) fn hide_translated(&mut self, used: TransportAddr) -> Vec<TransportAddr> {
        // A second INIT ACK finds those that the first one has hidden.
        let earlier = self
            .agreed
            .asconf
            .as_mut()
            .map(|state| core::mem::take(&mut state.hidden));
        let is_hidden = |addr: &TransportAddr| *addr != used && self.is_translated(*addr);
        let (hidden, known): (Vec<_>, Vec<_>) = self.ends.local_addrs.iter().partition(|addr| is_hidden(addr));
        if hidden.is_empty() || known.is_empty() {
            return earlier.unwrap_or_default();
        }
        self.ends.local_addrs = known.into();
        self.sending.hide_local_addresses(&hidden, &self.ends.local_addrs);
        let earlier = earlier.into_iter().flatten().filter(|addr| !hidden.contains(addr));
        earlier.chain(hidden.iter().copied()).collect()
    }

    /// Stores the local addresses that the INIT did not list until the association is established.
    pub(in super::super) fn announce_later(&mut self, hidden: Vec<TransportAddr>) {
        if let Some(state) = &mut self.agreed.asconf {
            state.hidden = hidden;
        }
    }

    /// Asks the peer to add the local addresses that the INIT did not list. To be called when the association is established.
    pub(in super::super) fn announce_hidden(&mut self, ctx: &mut Context<'_>) {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        for addr in core::mem::take(&mut state.hidden) {
            let _ = self.add_local_address(ctx, addr);
        }
    }

    /// Returns the request that adds this local address.
    // [6951:3.2-2, 5.7-2]
    pub(super) fn addition(&self, addr: TransportAddr) -> Request {
        if self.is_translated(addr) {
            Request::AddSource(addr)
        } else {
            Request::Add(addr)
        }
    }

    /// Returns the request that makes this local address the peer's primary destination.
    pub(super) fn preference(&self, addr: TransportAddr) -> Request {
        if self.is_translated(addr) {
            Request::PreferSource(addr)
        } else {
            Request::SetPrimary(addr)
        }
    }

    /// Asks the peer to add the source address of packets from this local address.
    pub(super) fn ask_for_source(&mut self, ctx: &mut Context<'_>, local: TransportAddr) {
        let Some(state) = self.agreed.asconf.as_ref() else {
            return;
        };
        if !self.may_change_addresses() || state.requests().any(|r| r == Request::AddSource(local)) {
            return;
        }
        self.ask_peer(ctx, Request::AddSource(local));
    }

    /// Removes a translated local address. `after`: the local addresses once the outstanding requests have succeeded, this one
    /// included. If one other remains, asks the peer to keep only that one (RFC 5061 §4.2.2). If several remain, the peer
    /// detects the failure of the path itself (RFC 9260 §8.2).
    pub(super) fn remove_translated(&mut self, ctx: &mut Context<'_>, addr: TransportAddr, after: &[TransportAddr]) {
        if let Some(state) = self.agreed.asconf.as_mut() {
            state.announced.retain(|known| *known != addr);
            state.waiting.retain(|request| request.addr() != addr);
            if let Some(pending) = &mut state.pending
                && pending.source() == Some(addr)
            {
                // Its outcome does not matter any more.
                pending.requests.clear();
            }
        }
        self.user.events.push_back(Event::LocalAddressRemoved { addr });
        let mut rest = after.iter().copied().filter(|other| *other != addr);
        if let (Some(last), None) = (rest.next(), rest.next()) {
            self.ask_for_source(ctx, last);
            self.ask_to_keep_source(ctx, last);
        }
        self.send_asconf(ctx);
    }

    /// Asks for the source address again if the path has [`SUSPICIOUS_ERRORS`]. A NAT may have assigned another public
    /// address, so that the peer discards the packets.
    pub(in super::super) fn suspect_translation(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let path = &self.sending.paths()[index];
        let (local, errors) = (path.local(), path.errors());
        let may_change = match self.config.address_translation {
            Some(is_translated) => is_translated,
            None => is_private(local.ip()),
        };
        // Later, once per heartbeat of a path that has failed.
        let is_time = errors == SUSPICIOUS_ERRORS || errors > self.config.path_max_retrans;
        if may_change && is_time && path.in_use() && !self.ends.accepted {
            self.ask_for_source(ctx, local);
        }
    }

    /// Repeats the request for a path whose local address the peer has not added, when its timer expires.
    pub(in super::super) fn retry_pending_path(&mut self, ctx: &mut Context<'_>, index: PathId) {
        if let Some(local) = self.sending.stop_heartbeat_timer(index) {
            self.ask_for_source(ctx, local);
        }
    }

    /// Returns the path from this local address with the most consecutive errors, for an ASCONF that must be sent from there.
    pub(super) fn path_from(&self, local: TransportAddr) -> Option<PathId> {
        let all = self.sending.paths().numbered();
        all.filter(|(_, path)| path.local() == local && !path.is_removed())
            .min_by_key(|(_, path)| u32::MAX - path.errors())
            .map(|(index, _)| index)
    }

    /// Returns the path for the retransmission of an ASCONF that must be sent from this local address.
    pub(super) fn source_path_again(&self, local: TransportAddr) -> PathId {
        let state = self.agreed.asconf.as_deref();
        let pending = state.and_then(|state| state.pending.as_ref());
        let others_wait = state.is_some_and(|state| !state.waiting.is_empty());
        let is_late = others_wait || pending.is_some_and(|pending| pending.attempts >= ATTEMPTS);
        let own = self.path_from(local);
        // From another address that the peer knows, the removal of all other addresses would remove this one. From one that
        // it does not know, it is refused.
        let keeps = pending.is_some_and(|pending| pending.requests.contains(&Request::KeepSource(local)));
        let tried = own.map(|index| {
            (
                self.sending.paths()[index].local(),
                self.sending.paths()[index].remote(),
            )
        });
        let works = |path: &Path| {
            let is_known = path.is_active() && path.is_confirmed() && !(keeps && path.local() != local);
            Some((path.local(), path.remote())) != tried && (is_known || path.is_pending() && !path.is_removed())
        };
        let other = self.sending.control_path(self.sending.sending_path(), false, works);
        own.filter(|_| !is_late || other.is_none())
            .or(other)
            .unwrap_or(self.sending.sending_path())
    }

    /// Returns the time to wait for the answer to an ASCONF with the wildcard address. While it tests a path that has failed
    /// and backed off, it is short.
    pub(super) fn source_timeout(&self, path: PathId) -> Span {
        let pending = self.agreed.asconf.as_ref().and_then(|state| state.pending.as_ref());
        let timeout = self.sending.paths()[path].timeout();
        if pending.is_some_and(|pending| pending.attempts < ATTEMPTS) {
            timeout.min(LONGEST_TEST)
        } else {
            timeout
        }
    }

    /// Handles the success of `AddSource`. `answered`: the path of the ASCONF, if the ASCONF-ACK arrived there. If the ASCONF was
    /// `misplaced`, the peer has added the source address of another local address. The request is repeated after the heartbeat
    /// interval.
    pub(super) fn settle_source(
        &mut self,
        ctx: &mut Context<'_>,
        addr: TransportAddr,
        misplaced: bool,
        answered: Option<PathId>,
    ) {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        let is_known = state.announced.contains(&addr);
        let has_path = self
            .sending
            .paths()
            .iter()
            .any(|path| path.local() == addr && !path.is_removed());
        if !is_known && !has_path {
            // The peer has removed the address to which the path led.
            let progress = self.sending.add_candidate_path(ctx, addr);
            self.apply(ctx, progress);
        }
        if !misplaced && !is_known {
            self.settle_addition(ctx, addr, answered);
            if let Some(index) = answered {
                self.replace_double(ctx, index);
            }
        } else if !misplaced {
            self.sending.try_again(ctx, addr);
            self.keep_source(ctx, addr);
        } else if !is_known {
            let interval = self.config.path_hb_interval;
            let interval = if interval.is_zero() {
                self.config.rto_max
            } else {
                interval
            };
            self.sending.wait_again(addr, ctx.now + interval);
        }
    }

    /// The handshake has reached all addresses of the peer from one local address. A path from another local address to one of
    /// them replaces the first one there, so that no network has two windows.
    fn replace_double(&mut self, ctx: &mut Context<'_>, new: PathId) {
        let remote = self.sending.paths()[new].remote();
        let in_use = || self.sending.paths().numbered().filter(|(_, path)| path.in_use());
        let from = |local: TransportAddr| in_use().filter(move |(_, path)| path.local() == local).count();
        let double = in_use().find(|&(index, path)| index != new && path.remote() == remote && from(path.local()) > 1);
        if let Some((index, _)) = double {
            self.retire_path(ctx, index);
            self.choose_other_path(ctx);
        }
    }

    /// Asks the peer to remove the earlier addresses of this end if it has only this local address.
    fn keep_source(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) {
        let Some(state) = self.agreed.asconf.as_ref() else {
            return;
        };
        let is_only = state.announced == [addr]
            && !self
                .sending
                .paths()
                .iter()
                .any(|path| path.is_pending() && !path.is_removed());
        if is_only && self.is_translated(addr) && state.waiting.is_empty() {
            self.ask_to_keep_source(ctx, addr);
        }
    }

    /// With encryption the peer refuses that, and the earlier addresses fail by themselves.
    fn ask_to_keep_source(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) {
        if !self.is_protected() {
            self.ask_peer(ctx, Request::KeepSource(addr));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_those_of_rfc_1918_and_rfc_6598() {
        for text in [
            "10.1.2.3",
            "172.16.0.1",
            "172.31.9.9",
            "192.168.1.20",
            "100.64.0.1",
            "100.127.255.254",
        ] {
            assert!(is_private(text.parse().expect("an address")), "{text}");
            assert!(
                is_private(format!("::ffff:{text}").parse().expect("an address")),
                "{text}"
            );
        }
        for text in [
            "11.0.0.1",
            "172.32.0.1",
            "192.169.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "203.0.113.1",
            "fd00::1",
            "127.0.0.1",
        ] {
            assert!(!is_private(text.parse().expect("an address")), "{text}");
        }
    }
}
