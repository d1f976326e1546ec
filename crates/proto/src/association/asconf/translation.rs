//! Local addresses that a network address translator (NAT) replaces, so that the peer sees other ones (RFC 5061 §4.2.1,
//! §4.2.2).
//!
//! Neither end knows the address that the peer sees. The peer takes it from the source of an ASCONF with the wildcard
//! address. Such an ASCONF contains no other requests and is sent from the local address that it announces.

use std::net::IpAddr;

use super::super::{Association, Context};
use super::request::Request;
use crate::config::NEVER;
use crate::event::Event;
use crate::path::Path;
use crate::{PathId, TransportAddr};

/// Number of times that an ASCONF with the wildcard address is sent from its local address. After that, another path
/// with an active state ends it, so that it does not delay other requests.
const ATTEMPTS: u32 = 3;

/// Consecutive errors of a path after which the peer may see another source address. The first one is often a loss.
const SUSPICIOUS_ERRORS: u32 = 2;

/// Returns whether this is an IPv4 address that is valid only within a network: RFC 1918, RFC 6598 (shared by the
/// customers of a provider), loopback and link-local addresses.
fn is_private(ip: IpAddr) -> bool {
    let IpAddr::V4(ip) = ip.to_canonical() else {
        return false;
    };
    let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
    ip.is_private() || is_shared || ip.is_loopback() || ip.is_link_local()
}

impl Association {
    /// Returns whether the peer sees another address than this local one.
    pub(in super::super) fn is_translated(&self, local: TransportAddr) -> bool {
        // The end that was called can be reached at its address.
        !self.ends.accepted
            && self.config.address_translation.unwrap_or_else(|| {
                let is_public = |ip: IpAddr| ip.to_canonical().is_ipv4() && !is_private(ip);
                self.config.dynamic_addresses && is_private(local.ip()) && self.live_remotes().any(is_public)
            })
    }

    /// Returns the local addresses for the INIT to list. If the list is complete, a single address is omitted (RFC 9260
    /// §5.1.2 A).
    pub(in super::super) fn listed_addresses(&self) -> Vec<TransportAddr> {
        let local = &self.ends.local_addrs;
        let listed: Vec<_> = local
            .iter()
            .copied()
            .filter(|addr| !self.is_translated(*addr))
            .collect();
        if local.len() == 1 { Vec::new() } else { listed }
    }

    /// The handshake has used this local address. The peer does not know the other translated ones yet: removes them from
    /// the local addresses and from the paths, and returns them.
    pub(in super::super) fn hide_translated(&mut self, used: TransportAddr) -> Vec<TransportAddr> {
        let is_hidden = |addr: &TransportAddr| *addr != used && self.is_translated(*addr);
        let (hidden, known): (Vec<_>, Vec<_>) = self.ends.local_addrs.iter().partition(|addr| is_hidden(addr));
        if hidden.is_empty() || known.is_empty() {
            return Vec::new();
        }
        self.ends.local_addrs = known.into();
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if !hidden.contains(&path.local) {
                continue;
            }
            let remote = path.remote;
            let same_version = |addr: &&TransportAddr| addr.is_ipv4() == remote.is_ipv4();
            let other = self.ends.local_addrs.iter().find(same_version).copied();
            let is_double = self.paths.iter().filter(|path| path.remote == remote).count() > 1;
            match other {
                Some(other) if !is_double => self.paths[index].local = other,
                _ => self.paths[index].removed = true,
            }
        }
        hidden
    }

    /// Stores the local addresses that the INIT did not list until the association is established.
    pub(in super::super) fn announce_later(&mut self, hidden: Vec<TransportAddr>) {
        if let Some(state) = &mut self.agreed.asconf {
            state.hidden = hidden;
        }
    }

    /// The association is established: asks the peer to add the local addresses that the INIT did not list.
    pub(in super::super) fn announce_hidden(&mut self, ctx: &mut Context<'_>) {
        let Some(state) = self.agreed.asconf.as_mut() else {
            return;
        };
        for addr in core::mem::take(&mut state.hidden) {
            let _ = self.add_local_address(ctx, addr);
        }
    }

    /// Returns the request that adds this local address.
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

    /// Asks the peer to add the source address of packets from this local address, and to remove all other addresses if
    /// this end has no other local address.
    pub(super) fn ask_for_source(&mut self, ctx: &mut Context<'_>, local: TransportAddr) {
        let Some(state) = self.agreed.asconf.as_ref() else {
            return;
        };
        if !self.may_change_addresses() || state.requests().any(|r| r == Request::AddSource(local)) {
            return;
        }
        let has_requests = state.requests().next().is_some();
        let mut in_use = self.paths.iter().filter(|path| path.in_use());
        let is_only = in_use.next().is_some_and(|path| path.local == local) && in_use.next().is_none() && !has_requests;
        self.ask_peer(ctx, Request::AddSource(local));
        if is_only {
            self.ask_peer(ctx, Request::KeepSource(local));
        }
    }

    /// Removes a local address that the peer does not know by name. `after`: the local addresses, this one included, when all
    /// requests have been fulfilled. If one other remains, the peer is asked to remove all others. If several remain, the
    /// peer notices the failure itself.
    pub(super) fn remove_translated(&mut self, ctx: &mut Context<'_>, addr: TransportAddr, after: &[TransportAddr]) {
        if let Some(state) = self.agreed.asconf.as_mut() {
            state.announced.retain(|known| *known != addr);
            state.waiting.retain(|request| request.addr() != addr);
        }
        self.user.events.push_back(Event::LocalAddressRemoved { addr });
        let mut rest = after.iter().copied().filter(|other| *other != addr);
        if let (Some(last), None) = (rest.next(), rest.next()) {
            self.ask_peer(ctx, Request::AddSource(last));
            self.ask_peer(ctx, Request::KeepSource(last));
        }
    }

    /// A path does not respond. A translator may have lost its state, so that the peer sees another source address and
    /// discards the packets.
    pub(in super::super) fn suspect_translation(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let path = &self.paths[index];
        let may_be = !self.ends.accepted && self.config.address_translation != Some(false);
        if may_be && path.errors >= SUSPICIOUS_ERRORS && path.in_use() {
            self.ask_for_source(ctx, path.local);
        }
    }

    /// The timer of a path from a local address that the peer does not know expired: asks the peer again.
    pub(in super::super) fn retry_pending_path(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let path = &mut self.paths[index];
        path.heartbeat.timer = NEVER;
        if path.pending && !path.removed {
            let local = path.local;
            self.ask_for_source(ctx, local);
        }
    }

    /// Returns the path for an ASCONF that must be sent from this local address: the one that has failed, if there are
    /// several.
    pub(super) fn path_from(&self, local: TransportAddr) -> Option<PathId> {
        let all = self.paths.numbered();
        all.filter(|(_, path)| path.local == local && !path.removed)
            .min_by_key(|(_, path)| u32::MAX - path.errors)
            .map(|(index, _)| index)
    }

    /// Returns the path for the retransmission of an ASCONF that must be sent from this local address.
    pub(super) fn source_path_again(&self, local: TransportAddr) -> PathId {
        let pending = self.agreed.asconf.as_ref().and_then(|state| state.pending.as_ref());
        let is_late = pending.is_some_and(|pending| pending.attempts >= ATTEMPTS);
        // From another source, the removal of all other addresses would remove this one.
        let stays = pending.is_some_and(|pending| pending.requests.contains(&Request::KeepSource(local)));
        let works = |path: &Path| path.is_active() && path.confirmed && (path.local == local || !stays);
        let other = self.control_path(self.choice.sending, false, works);
        let own = self.path_from(local);
        own.filter(|_| !is_late || other.is_none())
            .or(other)
            .unwrap_or(self.choice.sending)
    }

    /// The peer has added the source address of packets from this local address. `answered`: the path of the ASCONF, if the
    /// ASCONF-ACK arrived there. If the ASCONF was `misplaced`, it has added another one and is asked again later.
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
        if !misplaced && !is_known {
            self.settle_addition(ctx, addr, answered);
        } else if !misplaced {
            for index in self.paths.ids() {
                if answered == Some(index) {
                    self.path_answered(ctx, index);
                }
                let path = &mut self.paths[index];
                if path.local == addr && path.in_use() {
                    path.heartbeat.requested = true;
                    path.heartbeat.timer = ctx.now;
                }
            }
        } else if !is_known {
            let interval = self.path_hb_interval();
            let interval = if interval.is_zero() {
                self.config.rto_max
            } else {
                interval
            };
            for path in self.paths.iter_mut() {
                if path.local == addr && path.pending && !path.removed {
                    path.heartbeat.timer = ctx.now + interval;
                }
            }
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
            "127.0.0.1",
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
        ] {
            assert!(!is_private(text.parse().expect("an address")), "{text}");
        }
    }
}
