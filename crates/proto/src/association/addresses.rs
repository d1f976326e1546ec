//! Addresses that are added and removed during an association (RFC 5061).

use std::net::IpAddr;

use whimbrel_wire::cause_code;

use super::Association;
use crate::address::listed_address;
use crate::config::MAX_ADDRESSES;
use crate::context::Context;
use crate::event::Event;
use crate::send::{Trust, candidates, pair_address};
use crate::{PacketMeta, PathId, TransportAddr};

impl Association {
    /// The peer knows a local address: verifies its paths, which are then used. `works` is a path that is verified
    /// already.
    pub(super) fn open_paths_from(&mut self, ctx: &mut Context<'_>, local: TransportAddr, works: Option<PathId>) {
        let progress = self.sending.open_paths_from(ctx, local, works);
        self.apply(ctx, progress);
        self.advance_shutdown(ctx);
    }

    /// A local address was removed: replaces its paths by paths from another local address, if there is one.
    pub(super) fn leave_local_address(&mut self, ctx: &mut Context<'_>, local: TransportAddr) {
        for index in self.sending.paths().ids() {
            let path = &self.sending.paths()[index];
            if path.local() != local || path.is_removed() {
                continue;
            }
            let (remote, is_pending, trust) = (path.remote(), path.is_pending(), path.trust());
            self.retire_path(ctx, index);
            let mut rest = self.sending.paths().iter().filter(|path| !path.is_removed());
            if rest.any(|path| path.remote() == remote) || is_pending {
                continue;
            }
            // RFC 9260 §7.2.5: a different local address makes it a different path.
            if let Some(other) = pair_address(&self.ends.local_addrs, &[], remote) {
                self.add_path(ctx, other, remote, trust);
            } else if let Some(other) = self.pending_address(remote) {
                self.add_path(ctx, other, remote, Trust::Pending);
            }
        }
        self.choose_other_path(ctx);
    }

    /// Adds paths to these addresses from the local addresses.
    pub(super) fn reopen_paths(&mut self, ctx: &mut Context<'_>, remotes: &[(TransportAddr, Trust)]) {
        for &(remote, trust) in remotes {
            if let Some(local) = pair_address(&self.ends.local_addrs, &[], remote) {
                self.add_path(ctx, local, remote, trust);
            }
        }
        self.choose_other_path(ctx);
    }

    /// Adds an address of the peer, which has to be verified (RFC 5061 §4.2.1).
    ///
    /// # Errors
    /// Returns the code of the error cause.
    pub(super) fn take_peer_address(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        ip: IpAddr,
        trust: Trust,
    ) -> Result<(), u16> {
        // Encryption does not cover the source. Port and scope of an address that is named do not depend on who has forwarded the packet.
        let is_forwarded = self.is_protected() && meta.remote.ip() != ip && self.sending.path_for(&meta).is_none();
        let source = match is_forwarded {
            true => self.sending.path_addrs(self.sending.sending_path()).1,
            false => meta.remote,
        };
        let remote = listed_address(ip, source, &self.ends.local_addrs).ok_or(cause_code::UNRESOLVABLE_ADDRESS)?;
        if self.sending.has_remote(ip) {
            return Ok(());
        }
        let mut known: Vec<IpAddr> = self.sending.live_remotes().collect();
        known.sort_unstable();
        known.dedup();
        let is_source = meta.remote.ip() == ip;
        let local = if is_source && self.ends.local_addrs.contains(&meta.local) {
            Some(meta.local)
        } else {
            let paths = self.sending.paths();
            let in_use: Vec<_> = paths.iter().filter(|path| !path.is_removed()).collect();
            let free = candidates(&self.ends.local_addrs, remote)
                .find(|local| in_use.iter().all(|path| path.local() != *local));
            free.or_else(|| pair_address(&self.ends.local_addrs, &[], remote))
        };
        let local = local.ok_or(cause_code::UNRESOLVABLE_ADDRESS)?;
        if known.len() >= MAX_ADDRESSES {
            // The addresses that a NAT has given the peer earlier do not respond any more.
            let gone = self.sending.longest_failed().ok_or(cause_code::RESOURCE_SHORTAGE)?;
            self.drop_peer_addresses(ctx, |ip| ip == gone);
        }
        // A packet's source address proves nothing, because AUTH does not cover it. The heartbeat that verifies the
        // address (RFC 9260 §5.4) is sent at once, because all data waits for it if no other address is left.
        let path = self
            .add_path(ctx, local, remote, trust)
            .ok_or(cause_code::RESOURCE_SHORTAGE)?;
        self.user
            .events
            .push_back(Event::PeerAddressAdded { path, addr: remote });
        self.choose_other_path(ctx);
        Ok(())
    }

    /// Removes addresses of the peer (RFC 5061 §4.2.2).
    pub(super) fn drop_peer_addresses(&mut self, ctx: &mut Context<'_>, is_gone: impl Fn(IpAddr) -> bool) {
        for path in self.sending.paths().ids() {
            let addr = self.sending.paths()[path].remote();
            if self.sending.paths()[path].is_removed() || !is_gone(addr.ip()) {
                continue;
            }
            self.retire_path(ctx, path);
            self.user.events.push_back(Event::PeerAddressRemoved { path, addr });
        }
        self.choose_other_path(ctx);
    }

    /// Makes this path the primary path at the peer's request (RFC 5061 §4.2.4).
    pub(super) fn make_primary(&mut self, ctx: &mut Context<'_>, index: PathId) {
        self.set_primary(ctx, index);
        self.user.events.push_back(Event::PrimaryRequested { path: index });
    }

    /// Sets the primary path (RFC 9260 §11.1.6). Returns false if there is no such path.
    pub(crate) fn set_primary(&mut self, ctx: &mut Context<'_>, path: PathId) -> bool {
        let progress = self.sending.set_primary(ctx, path);
        progress.map(|progress| self.apply(ctx, progress)).is_some()
    }

    /// The peer restarted: removes the paths from local addresses that the peer does not know.
    pub(super) fn forget_candidates(&mut self, ctx: &mut Context<'_>) {
        for index in self.sending.paths().ids() {
            if self.sending.paths()[index].is_pending() {
                self.retire_path(ctx, index);
            }
        }
        self.choose_other_path(ctx);
    }

    fn add_path(
        &mut self,
        ctx: &mut Context<'_>,
        local: TransportAddr,
        remote: TransportAddr,
        trust: Trust,
    ) -> Option<PathId> {
        let (path, progress) = self.sending.add_path(ctx, local, remote, trust)?;
        self.apply(ctx, progress);
        Some(path)
    }

    /// Removes a path.
    pub(super) fn retire_path(&mut self, ctx: &mut Context<'_>, index: PathId) {
        self.forget_port_changes(Some(index));
        // An answer names its path by number, which another path may have by then.
        if let Some(pings) = &mut self.user.pings {
            pings.0.retain(|ping| ping.path != index);
        }
        let progress = self.sending.retire_path(ctx, index);
        self.apply(ctx, progress);
    }

    /// After the removal of paths, selects a primary path and a sending path among the remaining ones.
    pub(super) fn choose_other_path(&mut self, ctx: &mut Context<'_>) {
        let progress = self.sending.choose_other_path(ctx);
        self.apply(ctx, progress);
    }
}
