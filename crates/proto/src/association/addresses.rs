//! Addition and removal of paths during an association (RFC 5061).
//!
//! A path keeps its number for life. The entry of a removed path is kept but not used. Entries are reused only when
//! there are [`MAX_PATHS`] of them, and only if no outstanding chunk refers to them.

use std::net::IpAddr;

use whimbrel_wire::cause_code;

use super::pairing::{candidates, pair_address};
use super::{Association, Context, Outgoing};
use crate::address::listed_address;
use crate::config::{MAX_ADDRESSES, NEVER};
use crate::event::Event;
use crate::path::{HeartbeatState, Path};
use crate::{PacketMeta, PathId, PathState, TransportAddr};

/// Number of path entries above which the entries of removed paths are reused.
const MAX_PATHS: usize = 2 * MAX_ADDRESSES;

impl Association {
    /// Returns the path on which a packet arrived: the one with both its addresses, or else one with its remote
    /// address.
    pub(crate) fn path_for(&self, meta: &PacketMeta) -> Option<PathId> {
        let mut found = None;
        for (index, path) in self.paths.numbered() {
            if path.remote == meta.remote && !path.removed {
                if path.local == meta.local {
                    return Some(index);
                }
                found = found.or(Some(index));
            }
        }
        found
    }

    /// Like [`path_for`](Self::path_for), or else a path with the remote IP address of the packet: a NAT may have given the peer another UDP
    /// port (RFC 6951 §5.4). The path keeps its port until the new one is verified.
    pub(crate) fn path_of_packet(&self, meta: &PacketMeta) -> Option<PathId> {
        self.path_for(meta).or_else(|| self.path_of_host(meta))
    }

    /// Returns the path with the local address and the remote IP address of the packet, or else one with its remote IP address.
    pub(super) fn path_of_host(&self, meta: &PacketMeta) -> Option<PathId> {
        let same_host = |path: &Path| path.remote.ip() == meta.remote.ip() && !path.removed;
        self.paths
            .position(|path| same_host(path) && path.local == meta.local)
            .or_else(|| self.paths.position(same_host))
    }

    /// Returns whether this was an address of the peer that has been removed.
    pub(crate) fn was_removed(&self, remote: TransportAddr) -> bool {
        self.paths
            .iter()
            .any(|path| path.removed && path.remote.ip() == remote.ip())
    }

    /// Returns the peer's addresses.
    pub(super) fn live_remotes(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let live = self.paths.iter().filter(|path| !path.removed);
        live.map(|path| path.remote.ip())
    }

    /// Returns whether data must wait: the peer does not know the remaining local address yet (RFC 5061 §5.3), or the
    /// remaining peer address is not verified yet (RFC 9260 §5.4).
    pub(super) fn is_held(&self) -> bool {
        !self.paths[self.choice.sending].is_open()
    }

    /// Returns whether a control chunk may be sent on this path (RFC 9260 §5.4; RFC 5061 §5.2, §5.3).
    pub(super) fn may_go(&self, to: PathId, chunk: &Outgoing) -> bool {
        let path = &self.paths[to];
        match chunk {
            Outgoing::Asconf | Outgoing::Init { .. } | Outgoing::CookieEcho | Outgoing::CookieAck => true,
            Outgoing::AsconfAck { .. } | Outgoing::Heartbeat { .. } | Outgoing::HeartbeatAck(_) => path.in_use(),
            _ => path.is_open(),
        }
    }

    /// Adds a path and returns its number, or `None` if there are too many.
    fn add_path(&mut self, path: Path) -> Option<PathId> {
        let index = if self.paths.len() < MAX_PATHS {
            let index = self.paths.push(path);
            self.sender.outstanding.set_paths(self.paths.len());
            if let Some(rates) = &mut self.sender.rates {
                rates.set_paths(self.paths.len());
            }
            index
        } else {
            let is_free = |index: &PathId| self.paths[*index].removed && !self.sender.outstanding.remembers(*index);
            let index = self.paths.ids().find(is_free)?;
            let epochs = self.paths[index].epochs;
            self.paths[index] = path;
            if !self.sender.outstanding.is_per_path() {
                // The first path holds the epochs of the association.
                self.paths[index].epochs = epochs;
            }
            self.forget_path(index);
            index
        };
        self.user.notices.renamed = true;
        self.limit_data();
        self.start_spread();
        Some(index)
    }

    /// A new path has reused this entry: discards all state of the earlier path.
    fn forget_path(&mut self, index: PathId) {
        self.sender.outstanding.forget_path(index);
        if let Some(rates) = &mut self.sender.rates {
            rates.forget_path(index);
        }
        if let Some(spread) = &mut self.multipath.spread {
            spread.forget_path(index);
        }
        if let Some(policy) = &mut self.multipath.policy {
            policy.forget_path(index);
        }
        self.forget_probes(index);
    }

    fn new_path(&self, local: TransportAddr, remote: TransportAddr, confirmed: bool) -> Path {
        Path::new(&self.config, self.truth(), local, remote, confirmed)
    }

    /// Adds a path from a new local address. The path leads to a verified peer address whose path shares its local address with
    /// another path, if there is one, and otherwise to the address of the primary path. Until the peer knows the local
    /// address, the path carries only the ASCONF that adds it.
    pub(super) fn add_candidate_path(&mut self, ctx: &mut Context<'_>, local: TransportAddr) {
        let same_version = |path: &Path| !path.removed && path.remote.is_ipv4() == local.is_ipv4();
        let shares = |index: &PathId| {
            let path = &self.paths[*index];
            let others = self.paths.numbered();
            same_version(path)
                && path.confirmed
                && *index != self.choice.primary
                && *index != self.choice.sending
                && others
                    .filter(|(other, path)| other != index && !path.removed)
                    .any(|(_, other)| other.local == path.local)
        };
        let remote = self.paths.ids().find(shares).or_else(|| {
            let primary = self.choice.primary;
            Some(primary)
                .filter(|&index| same_version(&self.paths[index]))
                .or_else(|| self.paths.position(same_version))
        });
        let Some(remote) = remote.map(|index| self.paths[index].remote) else {
            return;
        };
        let mut path = self.new_path(local, remote, false);
        path.pending = true;
        path.state = PathState::Inactive;
        let added = self.add_path(path);
        if let Some(index) = added {
            self.trace_path(ctx, index);
        }
    }

    /// The peer knows a local address: verifies its paths, which are then used. `works` is a path that is verified
    /// already.
    pub(super) fn open_paths_from(&mut self, ctx: &mut Context<'_>, local: TransportAddr, works: Option<PathId>) {
        for index in self.paths.ids() {
            let path = &mut self.paths[index];
            if path.local != local || !path.pending {
                continue;
            }
            path.pending = false;
            path.state = PathState::Unconfirmed;
            path.errors = 0;
            path.heartbeat.last_probe = ctx.now;
            path.heartbeat.timer = ctx.now;
            path.heartbeat.requested = true;
            if works == Some(index) {
                self.path_answered(ctx, index);
                self.paths[index].heartbeat.timer = ctx.now;
            }
        }
        self.advance_shutdown(ctx);
        self.allow_burst();
    }

    /// A local address was removed: replaces its paths by paths from another local address, if there is one.
    pub(super) fn leave_local_address(&mut self, ctx: &mut Context<'_>, local: TransportAddr) {
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if path.local != local || path.removed {
                continue;
            }
            let (remote, pending) = (path.remote, path.pending);
            let confirmed = path.confirmed;
            self.retire_path(ctx, index);
            let reached = self.paths.iter().any(|path| !path.removed && path.remote == remote);
            if reached || pending {
                continue;
            }
            // RFC 9260 §7.2.5: a different local address makes it a different path.
            if let Some(other) = pair_address(&self.ends.local_addrs, &[], remote) {
                let path = self.new_path(other, remote, confirmed);
                if let Some(index) = self.add_path(path) {
                    self.paths[index].heartbeat.timer = ctx.now;
                    self.paths[index].heartbeat.requested = true;
                    self.trace_path(ctx, index);
                }
            } else if let Some(other) = self.pending_address(remote) {
                let mut path = self.new_path(other, remote, false);
                path.pending = true;
                path.state = PathState::Inactive;
                self.add_path(path);
            }
        }
        self.choose_other_path(ctx);
    }

    /// Returns the peer's addresses, and whether each is verified.
    pub(super) fn peer_addresses(&self) -> Vec<(TransportAddr, bool)> {
        let mut ways: Vec<(TransportAddr, bool)> = Vec::new();
        for path in self.paths.iter().filter(|path| !path.removed) {
            match ways.iter_mut().find(|(remote, _)| *remote == path.remote) {
                Some((_, confirmed)) => *confirmed |= path.confirmed,
                None => ways.push((path.remote, path.confirmed)),
            }
        }
        ways
    }

    /// Adds paths to these addresses from the local addresses.
    pub(super) fn reopen_paths(&mut self, ctx: &mut Context<'_>, remotes: &[(TransportAddr, bool)]) {
        for &(remote, confirmed) in remotes {
            let Some(local) = pair_address(&self.ends.local_addrs, &[], remote) else {
                continue;
            };
            let path = self.new_path(local, remote, confirmed);
            if let Some(index) = self.add_path(path) {
                self.paths[index].heartbeat.timer = ctx.now;
                self.paths[index].heartbeat.requested = true;
                self.trace_path(ctx, index);
            }
        }
        self.choose_other_path(ctx);
    }

    /// Adds an address of the peer (RFC 5061 §4.2.1).
    ///
    /// # Errors
    /// Returns the code of the error cause.
    pub(super) fn take_peer_address(&mut self, ctx: &mut Context<'_>, meta: PacketMeta, ip: IpAddr) -> Result<(), u16> {
        let remote = listed_address(ip, meta.remote, &self.ends.local_addrs).ok_or(cause_code::UNRESOLVABLE_ADDRESS)?;
        if self.has_remote(ip) {
            return Ok(());
        }
        let mut known: Vec<IpAddr> = self.live_remotes().collect();
        known.sort_unstable();
        known.dedup();
        let is_source = meta.remote.ip() == ip;
        let local = if is_source && self.ends.local_addrs.contains(&meta.local) {
            Some(meta.local)
        } else {
            let in_use: Vec<_> = self.paths.iter().filter(|path| !path.removed).collect();
            let free =
                candidates(&self.ends.local_addrs, remote).find(|local| in_use.iter().all(|path| path.local != *local));
            free.or_else(|| pair_address(&self.ends.local_addrs, &[], remote))
        };
        let local = local.ok_or(cause_code::UNRESOLVABLE_ADDRESS)?;
        if known.len() >= MAX_ADDRESSES {
            // The addresses that a NAT has given the peer earlier do not respond any more.
            let gone = self.longest_failed().ok_or(cause_code::RESOURCE_SHORTAGE)?;
            self.drop_peer_addresses(ctx, |ip| ip == gone);
        }
        // A packet's source address proves nothing, because AUTH does not cover it. The heartbeat that verifies the
        // address (RFC 9260 §5.4) is sent at once, because all data waits for it if no other address is left.
        let mut path = self.new_path(local, remote, false);
        path.heartbeat.last_probe = ctx.now;
        path.heartbeat.timer = ctx.now;
        path.heartbeat.requested = true;
        let index = self.add_path(path).ok_or(cause_code::RESOURCE_SHORTAGE)?;
        self.trace_path(ctx, index);
        self.user.events.push_back(Event::PeerAddressAdded {
            path: index,
            addr: remote,
        });
        self.choose_other_path(ctx);
        self.allow_burst();
        Ok(())
    }

    /// Returns the peer address that has failed first, of those of which all paths are inactive and none is used.
    fn longest_failed(&self) -> Option<IpAddr> {
        let is_used = |ip: IpAddr| {
            self.paths.numbered().any(|(index, path)| {
                let is_chosen = index == self.choice.primary || index == self.choice.sending;
                path.remote.ip() == ip && !path.removed && (is_chosen || path.state != PathState::Inactive)
            })
        };
        let failed = self
            .paths
            .iter()
            .filter(|path| path.in_use() && !is_used(path.remote.ip()));
        failed.min_by_key(|path| path.failed_at).map(|path| path.remote.ip())
    }

    /// Removes addresses of the peer (RFC 5061 §4.2.2).
    pub(super) fn drop_peer_addresses(&mut self, ctx: &mut Context<'_>, is_gone: impl Fn(IpAddr) -> bool) {
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if path.removed || !is_gone(path.remote.ip()) {
                continue;
            }
            let addr = path.remote;
            self.retire_path(ctx, index);
            self.user
                .events
                .push_back(Event::PeerAddressRemoved { path: index, addr });
        }
        self.choose_other_path(ctx);
    }

    /// Makes this path the primary path at the peer's request (RFC 5061 §4.2.4).
    pub(super) fn make_primary(&mut self, ctx: &mut Context<'_>, index: PathId) {
        self.set_primary(ctx, index);
        self.user.events.push_back(Event::PrimaryRequested { path: index });
    }

    /// Removes a path. Data in flight on it is retransmitted on other paths, without a congestion reaction.
    pub(super) fn retire_path(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let before = self.sender.outstanding.data_in_flight();
        let flight = self.sender.outstanding.flight(index);
        self.sender.outstanding.lose_path(index, |_, _| ());
        if let Some(rates) = &mut self.sender.rates {
            rates.on_lost(index, flight);
        }
        // RFC 9260 §6.2.1 C: data marked for retransmission is added to rwnd.
        let lost = before - self.sender.outstanding.data_in_flight();
        self.sender.peer_rwnd = self
            .sender
            .peer_rwnd
            .saturating_add(u32::try_from(lost).unwrap_or(u32::MAX));
        self.end_probe(index);
        self.forget_port_changes(Some(index));
        // An answer names its path by number, which another path may have by then.
        if let Some(pings) = &mut self.user.pings {
            pings.0.retain(|ping| ping.path != index);
        }
        let path = &mut self.paths[index];
        path.removed = true;
        path.pending = false;
        path.confirmed = false;
        path.t3 = NEVER;
        path.release = NEVER;
        path.timed = None;
        path.urgent = false;
        path.one_packet_only = false;
        path.recovery = None;
        path.heartbeat = HeartbeatState::default();
        self.limit_data();
        self.set_path_state(ctx, index, PathState::Inactive);
        self.user.notices.renamed = true;
    }

    /// After the removal of paths, selects a primary path and a sending path among the remaining ones, and moves queued
    /// chunks there.
    pub(super) fn choose_other_path(&mut self, ctx: &mut Context<'_>) {
        let best = |association: &Association| {
            let rank = |path: &Path| match path.state {
                _ if path.removed => None,
                PathState::Active => Some(0),
                PathState::PotentiallyFailed => Some(1),
                PathState::Unconfirmed => Some(2),
                PathState::Inactive if !path.pending => Some(3),
                PathState::Inactive => Some(4),
            };
            let ranked = association.paths.numbered();
            let ranked = ranked.filter_map(|(index, path)| Some((rank(path)?, index)));
            ranked.min().map(|(_, index)| index)
        };
        let Some(best) = best(self) else { return };
        if self.paths[self.choice.primary].removed {
            self.replace_primary(best);
        }
        if self.paths[self.choice.sending].removed {
            self.choice.sending = best;
            self.note_switch(ctx.now);
            if let Some(lost) = self.sender.outstanding.next_lost() {
                self.paths[lost.from].urgent = true;
            }
        }
        self.choose_sending_path(ctx);
        let sending = self.choice.sending;
        if self.paths[self.choice.shutdown_path].removed {
            self.choice.shutdown_path = sending;
        }
        for index in self.paths.ids() {
            if self.paths[index].removed {
                self.outgoing.redirect(index, sending);
            }
        }
        self.allow_burst();
    }

    /// The peer restarted: removes the paths from local addresses that the peer does not know.
    pub(super) fn forget_candidates(&mut self, ctx: &mut Context<'_>) {
        for index in self.paths.ids() {
            if self.paths[index].pending {
                self.retire_path(ctx, index);
            }
        }
        self.choose_other_path(ctx);
    }

    /// Records a new path in the trace.
    fn trace_path(&self, ctx: &mut Context<'_>, index: PathId) {
        let (path, state) = (index, self.paths[index].state);
        ctx.trace
            .emit(crate::trace::TraceKinds::STATES, ctx.now, Some(self.id), || {
                crate::trace::TraceEvent::PathState { path, state }
            });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use whimbrel_control::Time;
    use whimbrel_control::multipath::coupling::Couple;
    use whimbrel_control::multipath::distribution::{Demand, Distribute};
    use whimbrel_control::multipath::policy::ManagePaths;
    use whimbrel_control::multipath::{Accounting, PathView};

    use super::super::delivery_rates::DeliveryRates;
    use super::super::testing;
    use super::*;

    /// A part of any kind that records the paths that were replaced.
    #[derive(Clone, Debug, Default)]
    struct Recorder(Arc<Mutex<Vec<usize>>>);

    impl Distribute for Recorder {
        fn choose(&mut self, _demand: &Demand, _paths: &[PathView]) -> Option<usize> {
            None
        }

        fn on_replaced(&mut self, path: usize) {
            self.0.lock().unwrap().push(path);
        }
    }

    impl Couple for Recorder {
        fn growth(&mut self, _path: usize, _paths: &[PathView]) -> f64 {
            1.0
        }

        fn on_replaced(&mut self, path: usize) {
            self.0.lock().unwrap().push(100 + path);
        }
    }

    impl ManagePaths for Recorder {
        fn on_replaced(&mut self, path: usize) {
            self.0.lock().unwrap().push(200 + path);
        }
    }

    #[test]
    fn the_state_of_a_removed_path_is_discarded_when_its_entry_is_reused() {
        let mut association = testing::association(MAX_PATHS);
        let recorder = Recorder::default();
        association.multipath.spread = Some(testing::spread(
            Some(Box::new(recorder.clone())),
            Some(Box::new(recorder.clone())),
        ));
        association.multipath.policy = Some(testing::policy(Box::new(recorder.clone())));
        for index in [PathId(0), PathId(5)] {
            let place = index.index();
            association.paths[index].removed = true;
            association.paths[index].epochs.recovery.enter(7);
            let path = association.new_path(testing::addr(99), testing::addr(98), true);
            assert_eq!(association.add_path(path), Some(index));
            assert_eq!(*recorder.0.lock().unwrap(), [place, 100 + place, 200 + place]);
            recorder.0.lock().unwrap().clear();
        }
        assert!(
            association.epochs(PathId(0)).recovery.is_active(),
            "the association is in fast recovery, whatever its first path is"
        );
    }

    #[test]
    fn a_path_in_a_reused_entry_has_sent_nothing() {
        let mut association = testing::association(MAX_PATHS);
        // All data was sent on two of the paths; no data was sent on the paths that reuse their entries.
        testing::send(&mut association, Accounting::Path, &[(0, 100), (5, 100)]);
        association.sender.outstanding.allow_copies();
        association.sender.rates = Some(Box::new(DeliveryRates::new(0, MAX_PATHS)));
        let (at, later) = (Time::from_nanos(1), Time::from_nanos(50_000_000));
        for (seq, here) in [(0, PathId(0)), (1, PathId(5))] {
            let index = here;
            association.stamp_chunk(at, seq, index, 116);
            if let Some(rates) = &mut association.sender.rates {
                rates.on_acked(seq, index.0, at);
            }
            // The chunk was sent here first, and then on another path.
            let mut past = association.sender.outstanding.next_copy(here, |_, _| true);
            while let Some(seq) = past {
                association.sender.outstanding.copy(seq, here, at);
                past = association.sender.outstanding.next_copy(here, |_, _| true);
            }
            association.sender.outstanding.lose_path(here, |_, _| {});
            association.sender.outstanding.retransmit(seq, PathId(1), at);
            association.paths[index].removed = true;
            let path = association.new_path(testing::addr(99), testing::addr(98), true);
            assert_eq!(association.add_path(path), Some(index));
            let rates = association.sender.rates.as_mut().expect("they are measured");
            assert_eq!(rates.on_delivered(later, index, 116, None), None, "of another path");
            let next = association.sender.outstanding.next_copy(here, |_, _| true);
            assert_eq!(next, Some(0), "nothing has been sent here");
        }
    }
}
