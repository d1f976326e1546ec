//! Paths and their addresses: lookup, addition and removal.
//!
//! A path keeps its number for life. The entry of a removed path is kept but not used. Entries are reused only when
//! there are [`MAX_PATHS`] of them, and only if no outstanding chunk refers to them.

use std::net::IpAddr;

use whimbrel_control::Time;

use super::pairing::{candidates, extra_pairs, pair_address};
use crate::config::{MAX_ADDRESSES, NEVER};
use crate::context::Context;
use crate::send::Sending;
use crate::send::outgoing::Outgoing;
use crate::send::path::{Path, Trust};
use crate::send::progress::Progress;
use crate::{PacketMeta, PathId, PathState, TransportAddr};

/// Number of path entries above which the entries of removed paths are reused.
const MAX_PATHS: usize = 2 * MAX_ADDRESSES;

impl Sending {
    /// Returns the path on which a packet arrived: the one with both its addresses, or else one with its remote
    /// address.
    pub(crate) fn path_for(&self, meta: &PacketMeta) -> Option<PathId> {
        let mut found = None;
        for (index, path) in self.paths.numbered() {
            if path.leads_to(&meta.remote) {
                if path.leaves_from(&meta.local) {
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
    pub(crate) fn path_of_host(&self, meta: &PacketMeta) -> Option<PathId> {
        let same_host = |path: &Path| path.remote().ip() == meta.remote.ip() && !path.is_removed();
        self.paths
            .position(|path| same_host(path) && path.local() == meta.local)
            .or_else(|| self.paths.position(same_host))
    }

    /// Returns whether this was an address of the peer that has been removed.
    pub(crate) fn was_removed(&self, remote: TransportAddr) -> bool {
        self.paths
            .iter()
            .any(|path| path.is_removed() && path.remote().ip() == remote.ip())
    }

    /// Returns the peer's addresses.
    pub(crate) fn live_remotes(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let live = self.paths.iter().filter(|path| !path.is_removed());
        live.map(|path| path.remote().ip())
    }

    /// Returns whether data must wait: the peer does not know the remaining local address yet (RFC 5061 §5.3), or the
    /// remaining peer address is not verified yet (RFC 9260 §5.4).
    pub(crate) fn is_held(&self) -> bool {
        !self.paths[self.choice.sending()].is_open()
    }

    /// Returns whether a control chunk may be sent on this path (RFC 9260 §5.4; RFC 5061 §5.2, §5.3).
    pub(in crate::send) fn may_go(&self, to: PathId, chunk: &Outgoing) -> bool {
        let path = &self.paths[to];
        match chunk {
            Outgoing::Asconf | Outgoing::Init { .. } | Outgoing::CookieEcho | Outgoing::CookieAck => true,
            Outgoing::AsconfAck { .. } | Outgoing::Heartbeat { .. } | Outgoing::HeartbeatAck(_) => path.in_use(),
            _ => path.is_open(),
        }
    }

    /// Adds a path, and verifies its address at once unless the peer has to be asked first. Returns its number, or `None` if there are too
    /// many.
    pub(crate) fn add_path(
        &mut self,
        ctx: &mut Context<'_>,
        local: TransportAddr,
        remote: TransportAddr,
        trust: Trust,
    ) -> Option<(PathId, Progress)> {
        let mut path = self.new_path(local, remote, trust == Trust::Confirmed);
        // Also over another local address.
        let is_of_source = |other: &Path| other.remote().ip() == remote.ip() && !other.is_named_or_verified();
        if trust == Trust::ToVerifyThere || self.paths.iter().any(is_of_source) {
            path.require_answer_from_there();
        }
        if trust == Trust::Pending {
            path.wait_for_peer();
        } else {
            path.heartbeat.request(ctx.now);
        }
        let index = self.place_path(path)?;
        self.search_mtu(ctx.now, index);
        self.trace_path(ctx, index);
        self.measure_with_data();
        Some((index, self.take_progress()))
    }

    /// Gives a path an entry, and returns its number.
    fn place_path(&mut self, path: Path) -> Option<PathId> {
        let index = if self.paths.len() < MAX_PATHS {
            let index = self.paths.push(path);
            self.count_paths();
            index
        } else {
            let is_free = |index: &PathId| self.paths[*index].is_removed() && !self.outstanding.remembers(*index);
            let index = self.paths.ids().find(is_free)?;
            let epochs = self.paths[index].epochs;
            self.paths[index] = path;
            if !self.outstanding.is_per_path() {
                // The first path holds the epochs of the association.
                self.paths[index].epochs = epochs;
            }
            self.forget_path(index);
            index
        };
        self.progress.renamed = true;
        self.limit_data();
        self.start_spread();
        Some(index)
    }

    /// Paths were added: what is kept for each of them has as many entries.
    fn count_paths(&mut self) {
        self.outstanding.set_paths(self.paths.len());
        if let Some(rates) = &mut self.rates {
            rates.set_paths(self.paths.len());
        }
    }

    /// A new path has reused this entry: discards all state of the earlier path.
    fn forget_path(&mut self, index: PathId) {
        self.outstanding.forget_path(index);
        if let Some(rates) = &mut self.rates {
            rates.forget_path(index);
        }
        if let Some(spread) = &mut self.spread {
            spread.forget_path(index);
        }
        if let Some(policy) = &mut self.policy {
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
    pub(crate) fn add_candidate_path(&mut self, ctx: &mut Context<'_>, local: TransportAddr) -> Progress {
        let same_version = |path: &Path| !path.is_removed() && path.remote().is_ipv4() == local.is_ipv4();
        let shares = |index: &PathId| {
            let path = &self.paths[*index];
            let others = self.paths.numbered();
            same_version(path)
                && path.is_confirmed()
                && *index != self.choice.primary()
                && *index != self.choice.sending()
                && others
                    .filter(|(other, path)| other != index && !path.is_removed())
                    .any(|(_, other)| other.local() == path.local())
        };
        let remote = self.paths.ids().find(shares).or_else(|| {
            let primary = self.choice.primary();
            Some(primary)
                .filter(|&index| same_version(&self.paths[index]))
                .or_else(|| self.paths.position(same_version))
        });
        let added = remote.and_then(|index| self.add_path(ctx, local, self.paths[index].remote(), Trust::Pending));
        added.map_or_else(Progress::default, |(_, progress)| progress)
    }

    /// The peer knows a local address: verifies its paths, which are then used. `works` is a path that is verified
    /// already.
    pub(crate) fn open_paths_from(
        &mut self,
        ctx: &mut Context<'_>,
        local: TransportAddr,
        works: Option<PathId>,
    ) -> Progress {
        for index in self.paths.ids() {
            let path = &mut self.paths[index];
            if path.local() != local || !path.is_pending() {
                continue;
            }
            path.open(ctx.now);
            if works == Some(index) {
                self.path_answered(ctx, index);
                self.paths[index].heartbeat.timer = ctx.now;
            }
        }
        self.allow_burst();
        self.take_progress()
    }

    /// Replaces the peer's addresses by those that it lists (RFC 9260 §5.1.2 C). Confirmed are the addresses that the
    /// user specified and the destination address of a sent INIT ACK (§5.4 rules 1 to 3).
    // [9260:5.1.2-1, 5.1.2-4, 5.1.2-5, 3.3.3-20]
    pub(crate) fn take_addresses(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        locals: &[TransportAddr],
        addrs: &[TransportAddr],
        init_ack_to: Option<TransportAddr>,
    ) -> Progress {
        let is_named = |path: &Path| !path.is_removed() && addrs.iter().any(|addr| addr.ip() == path.remote().ip());
        if self.outstanding.is_empty() {
            self.paths.retain(is_named);
        } else {
            // Data sent with a COOKIE ECHO refers to its path by number.
            for index in self.paths.ids() {
                if !self.paths[index].is_removed() && !is_named(&self.paths[index]) {
                    self.remove_path(ctx, index);
                }
            }
        }
        for &remote in addrs {
            if self.has_remote(remote.ip()) {
                continue;
            }
            let local = if remote == meta.remote {
                Some(meta.local)
            } else {
                pair_address(locals, &self.paths, remote)
            };
            if let Some(local) = local {
                let path = self.new_path(local, remote, init_ack_to == Some(remote));
                self.paths.push(path);
            }
        }
        self.pair_every_local_address(locals);
        self.progress.renamed = true;
        self.limit_data();
        self.count_paths();
        let confirmed = |path: &Path| path.is_confirmed();
        // The first address that the user specified stays the primary path if the peer lists it.
        let first = self.paths.position(confirmed);
        let first = first.or_else(|| self.paths.position(|path| !path.is_removed()));
        self.choice.set_primary(first.unwrap_or(PathId(0)));
        let arrival = self.path_for(&meta).filter(|&index| self.paths[index].is_confirmed());
        self.choice.set_sending(arrival.unwrap_or(self.choice.primary()));
        self.take_progress()
    }

    /// Adds the paths for `path_per_local_address`, once the peer's addresses are known. A path is confirmed if the
    /// peer's address is confirmed: RFC 9260 §5.4 verifies peer addresses.
    fn pair_every_local_address(&mut self, locals: &[TransportAddr]) {
        if !self.config.path_per_local_address {
            return;
        }
        let live = || self.paths.iter().filter(|path| !path.is_removed());
        let pairs: Vec<_> = live().map(|path| (path.local(), path.remote())).collect();
        for (local, remote) in extra_pairs(locals, &pairs) {
            let confirmed = self
                .paths
                .iter()
                .any(|path| path.remote() == remote && path.is_confirmed());
            let path = self.new_path(local, remote, confirmed);
            self.paths.push(path);
        }
    }

    /// Removes local addresses from the paths before the peer knows them. A path keeps its peer address with another local address, unless
    /// another path leads there.
    pub(crate) fn hide_local_addresses(&mut self, hidden: &[TransportAddr], known: &[TransportAddr]) {
        for index in self.paths.ids() {
            let path = &self.paths[index];
            if !hidden.contains(&path.local()) {
                continue;
            }
            let remote = path.remote();
            let other = candidates(known, remote).next();
            let is_double = self.paths.iter().filter(|path| path.remote() == remote).count() > 1;
            match other {
                Some(other) if !is_double => self.paths[index].set_local(other),
                _ => self.paths[index].remove(),
            }
        }
    }

    /// Stops the heartbeat timer of a path. If the path waited as the peer does not know its local address, returns that address.
    pub(crate) fn stop_heartbeat_timer(&mut self, index: PathId) -> Option<TransportAddr> {
        let path = &mut self.paths[index];
        path.heartbeat.timer = NEVER;
        (path.is_pending() && !path.is_removed()).then_some(path.local())
    }

    /// The peer is asked to add a local address again after this time, unless it has.
    pub(crate) fn wait_again(&mut self, local: TransportAddr, until: Time) {
        for path in self.paths.iter_mut() {
            if path.local() == local && path.is_pending() && !path.is_removed() {
                path.heartbeat.timer = until;
            }
        }
    }

    /// The peer has another UDP port, or is reached without UDP or with it. Returns `None` if the path has other addresses by now. `new`: local and
    /// remote address.
    pub(crate) fn move_to_port(
        &mut self,
        ctx: &mut Context<'_>,
        index: PathId,
        old: TransportAddr,
        new: (TransportAddr, TransportAddr),
    ) -> Option<Progress> {
        let path = &mut self.paths[index];
        if path.is_removed() || path.remote() != old {
            return None;
        }
        path.move_to_port(&self.config, ctx.now, new);
        if path.state() != PathState::Active {
            // Its HEARTBEATs went to the old port.
            path.heartbeat.pending = None;
            path.heartbeat.requested = true;
            path.heartbeat.timer = ctx.now;
        }
        self.limit_data();
        self.progress.renamed = true;
        self.path_answered(ctx, index);
        Some(self.take_progress())
    }

    /// Returns the peer's addresses, and whether each is verified.
    pub(crate) fn peer_addresses(&self) -> Vec<(TransportAddr, Trust)> {
        let mut ways: Vec<(TransportAddr, Trust)> = Vec::new();
        for path in self.paths.iter().filter(|path| !path.is_removed()) {
            match ways.iter_mut().find(|(remote, _)| *remote == path.remote()) {
                Some((_, trust)) if path.is_confirmed() => *trust = Trust::Confirmed,
                Some(_) => {}
                None => ways.push((path.remote(), path.trust())),
            }
        }
        ways
    }

    /// Returns the peer address that has failed first, of those of which all paths are inactive and none is used.
    pub(crate) fn longest_failed(&self) -> Option<IpAddr> {
        let is_used = |ip: IpAddr| {
            self.paths.numbered().any(|(index, path)| {
                let is_chosen = index == self.choice.primary() || index == self.choice.sending();
                path.remote().ip() == ip && !path.is_removed() && (is_chosen || path.state() != PathState::Inactive)
            })
        };
        let failed = self
            .paths
            .iter()
            .filter(|path| path.in_use() && !is_used(path.remote().ip()));
        failed
            .min_by_key(|path| path.failed_at())
            .map(|path| path.remote().ip())
    }

    /// Removes a path. Data in flight on it is retransmitted on other paths, without a congestion reaction.
    pub(crate) fn retire_path(&mut self, ctx: &mut Context<'_>, index: PathId) -> Progress {
        self.remove_path(ctx, index);
        self.take_progress()
    }

    fn remove_path(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let flight = self.outstanding.flight(index);
        self.outstanding.lose_path(index, |_, _| ());
        if let Some(rates) = &mut self.rates {
            rates.on_lost(index, flight);
        }
        self.end_probe(index);
        let path = &mut self.paths[index];
        path.remove();
        self.limit_data();
        self.set_path_state(ctx, index, PathState::Inactive);
        self.progress.renamed = true;
    }

    /// After the removal of paths, selects a primary path and a sending path among the remaining ones, and moves queued
    /// chunks there.
    pub(crate) fn choose_other_path(&mut self, ctx: &mut Context<'_>) -> Progress {
        let best = |sending: &Sending| {
            let rank = |path: &Path| match path.state() {
                _ if path.is_removed() => None,
                PathState::Active => Some(0),
                PathState::PotentiallyFailed => Some(1),
                PathState::Unconfirmed => Some(2),
                PathState::Inactive if !path.is_pending() => Some(3),
                PathState::Inactive => Some(4),
            };
            let ranked = sending.paths.numbered();
            let ranked = ranked.filter_map(|(index, path)| Some((rank(path)?, index)));
            ranked.min().map(|(_, index)| index)
        };
        let Some(best) = best(self) else {
            return Progress::default();
        };
        if self.paths[self.choice.primary()].is_removed() {
            self.replace_primary(best);
        }
        if self.paths[self.choice.sending()].is_removed() {
            self.choice.switch(ctx.now, best);
            self.stats.path_switches += 1;
            if let Some(lost) = self.outstanding.next_lost() {
                self.paths[lost.from].set_urgent();
            }
        }
        self.choose_sending_path(ctx);
        let sending = self.choice.sending();
        if self.paths[self.choice.shutdown()].is_removed() {
            self.choice.set_shutdown(sending);
        }
        for index in self.paths.ids() {
            if self.paths[index].is_removed() {
                self.outgoing.redirect(index, sending);
            }
        }
        self.allow_burst();
        self.take_progress()
    }

    /// Records a new path in the trace.
    fn trace_path(&self, ctx: &mut Context<'_>, index: PathId) {
        let (path, state) = (index, self.paths[index].state());
        ctx.trace
            .emit(crate::trace::TraceKinds::STATES, ctx.now, Some(self.id), || {
                crate::trace::TraceEvent::PathState { path, state }
            });
    }

    /// Returns whether a SACK on this path would probably be lost, and another path answers.
    pub(crate) fn should_avoid(&self, index: PathId) -> bool {
        let has_failed = matches!(
            self.paths[index].state(),
            PathState::PotentiallyFailed | PathState::Inactive
        );
        has_failed && self.paths.position(Path::answers).is_some()
    }

    /// Uses the paths from a local address again that did not answer: data is retransmitted now, and a path without data is
    /// probed. The errors of the paths remain until data or a heartbeat is acknowledged.
    pub(crate) fn try_again(&mut self, ctx: &mut Context<'_>, addr: TransportAddr) {
        for path in self.paths.iter_mut() {
            if path.local() != addr || !path.in_use() || path.errors() == 0 {
                continue;
            }
            if path.t3_runs() {
                // Once the path has failed, its timeouts keep their distance: they count until the association ends.
                if path.errors() <= self.config.path_max_retrans {
                    path.expire_t3(ctx.now);
                }
            } else if path.state() != PathState::Active {
                path.heartbeat.pending = None;
                path.heartbeat.requested = true;
                path.heartbeat.timer = ctx.now;
            }
        }
    }

    pub(crate) fn remote_addrs(&self) -> impl Iterator<Item = TransportAddr> + '_ {
        let live = self.paths.iter().filter(|path| !path.is_removed());
        live.map(|path| path.remote())
    }

    /// Returns whether this is an address of the peer.
    pub(crate) fn has_remote(&self, ip: std::net::IpAddr) -> bool {
        let live = || self.paths.iter().filter(|path| !path.is_removed());
        live().any(|path| path.remote().ip() == ip)
    }

    // [6951:5.1-1, 5.3-2]
    pub(crate) fn path_addrs(&self, index: PathId) -> (TransportAddr, TransportAddr) {
        let path = &self.paths[index];
        (path.local(), path.remote())
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

    use super::*;
    use crate::send::delivery_rates::DeliveryRates;
    use crate::send::testing;

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
        let mut sending = testing::sending(MAX_PATHS);
        let recorder = Recorder::default();
        sending.spread = Some(testing::spread(
            Some(Box::new(recorder.clone())),
            Some(Box::new(recorder.clone())),
        ));
        sending.policy = Some(testing::policy(Box::new(recorder.clone())));
        for index in [PathId(0), PathId(5)] {
            let place = index.index();
            sending.paths[index].remove();
            sending.paths[index].epochs.recovery.enter(7);
            let path = sending.new_path(testing::addr(99), testing::addr(98), true);
            assert_eq!(sending.place_path(path), Some(index));
            assert_eq!(*recorder.0.lock().unwrap(), [place, 100 + place, 200 + place]);
            recorder.0.lock().unwrap().clear();
        }
        assert!(
            sending.epochs(PathId(0)).recovery.is_active(),
            "the association is in fast recovery, whatever its first path is"
        );
    }

    #[test]
    fn a_path_in_a_reused_entry_has_sent_nothing() {
        let mut sending = testing::sending(MAX_PATHS);
        // All data was sent on two of the paths; no data was sent on the paths that reuse their entries.
        testing::send(&mut sending, Accounting::Path, &[(0, 100), (5, 100)]);
        sending.outstanding.allow_copies();
        sending.rates = Some(Box::new(DeliveryRates::new(0, MAX_PATHS)));
        let (at, later) = (Time::from_nanos(1), Time::from_nanos(50_000_000));
        for (seq, here) in [(0, PathId(0)), (1, PathId(5))] {
            let index = here;
            sending.stamp_chunk(at, seq, index, 116);
            if let Some(rates) = &mut sending.rates {
                rates.on_acked(seq, index.0, at);
            }
            // The chunk was sent here first, and then on another path.
            let mut past = sending.outstanding.next_copy(here, |_, _| true);
            while let Some(seq) = past {
                sending.outstanding.copy(seq, here, at);
                past = sending.outstanding.next_copy(here, |_, _| true);
            }
            sending.outstanding.lose_path(here, |_, _| {});
            sending.outstanding.retransmit(seq, PathId(1), at);
            sending.paths[index].remove();
            let path = sending.new_path(testing::addr(99), testing::addr(98), true);
            assert_eq!(sending.place_path(path), Some(index));
            let rates = sending.rates.as_mut().expect("they are measured");
            assert_eq!(rates.on_delivered(later, index, 116, None), None, "of another path");
            let next = sending.outstanding.next_copy(here, |_, _| true);
            assert_eq!(next, Some(0), "nothing has been sent here");
        }
    }
}
