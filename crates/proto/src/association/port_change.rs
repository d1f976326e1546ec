//! A change of the UDP port of a peer's address, as a NAT causes it (RFC 6951 §5.4).
//!
//! RFC 6951 §5.4 stores the new port as soon as a packet with the right verification tag arrives from it. Then one packet of 16 bytes moves
//! the data of an association to another socket of the peer's host, or behind the same NAT. Here both ports are asked, with HEARTBEATs that
//! have a random nonce each, and the path moves only if the new port answers and the old one does not (decision 0028). With a shared key, the
//! packet that starts this and the answers must be authenticated; a recorded packet has the wrong nonce. Without a key, a host that sees
//! the packets of the association and can keep the old port from answering is not stopped.

use whimbrel_control::{Span, Time};

use super::{Association, Context};
use crate::config::NEVER;
use crate::endpoint::{Reply, ReplyChunk};
use crate::error::Discard;
use crate::path::Path;
use crate::{PacketMeta, PathId, PathState, TransportAddr};

/// How often each port is asked, so that a single loss decides nothing.
const ROUNDS: u32 = 2;
/// The least time that the old port has to answer. Round-trip times of radio links vary more than a few samples show.
const LEAST_WAIT: Span = Span::from_millis(100);

/// A path whose peer may have another UDP port.
#[derive(Debug)]
struct PortChange {
    path: PathId,
    local: TransportAddr,
    old: TransportAddr,
    new: TransportAddr,
    /// Of the HEARTBEATs to the old and the new port.
    nonces: [u64; 2],
    new_answered: bool,
    /// The port has not changed. The entry stays until it is due, so that packets from other ports cause few HEARTBEATs.
    old_answered: bool,
    /// Rounds of HEARTBEATs that have been sent.
    rounds: u32,
    /// When the next round is due, or the decision.
    due: Time,
}

/// The ports that are being verified, at most one for each path.
#[derive(Debug, Default)]
pub(super) struct PortChanges(Vec<PortChange>);

impl PortChanges {
    pub(super) fn next_timeout(&self) -> Time {
        self.0.iter().map(|change| change.due).min().unwrap_or(NEVER)
    }

    /// Removes and returns a change that is due.
    fn take_due(&mut self, now: Time) -> Option<PortChange> {
        let index = self.0.iter().position(|change| change.due <= now)?;
        Some(self.0.swap_remove(index))
    }
}

impl Association {
    /// Sends a chunk to the source of a packet, whose UDP port is not known to be the peer's.
    pub(super) fn reply_to_source(&self, ctx: &mut Context<'_>, meta: PacketMeta, chunk: ReplyChunk) {
        let auth = self.agreed.auth.as_ref().filter(|auth| auth.every_packet);
        ctx.replies.push(Reply {
            local: meta.local,
            remote: meta.remote,
            source_port: self.ends.local_port,
            destination_port: self.ends.peer_port,
            verification_tag: self.ends.peer_tag,
            signer: auth.map(|auth| auth.signer.clone()),
            chunk,
        });
    }

    /// A packet of the peer has arrived: if it comes from another UDP port than that of its path, verifies both ports.
    #[inline]
    pub(super) fn watch_port(&mut self, now: Time, meta: PacketMeta) {
        let is_known = |path: &Path| path.remote == meta.remote && path.local == meta.local && !path.removed;
        if !self.paths.iter().any(is_known) {
            self.watch_other_port(now, meta);
        }
    }

    fn watch_other_port(&mut self, now: Time, meta: PacketMeta) {
        if !self.state.may_send_data() {
            return;
        }
        let Some(path) = self.path_of_host(&meta) else { return };
        let old = self.paths[path].remote;
        let changes = self.port_changes.get_or_insert_default();
        if old.port() != meta.remote.port() && changes.0.iter().all(|change| change.path != path) {
            changes.0.push(PortChange {
                path,
                local: self.paths[path].local,
                old,
                new: meta.remote,
                nonces: [0; 2],
                new_answered: false,
                old_answered: false,
                rounds: 0,
                due: now,
            });
        }
        self.drop_port_changes(|_| false);
    }

    /// Ends the verification of ports for which `is_over` holds.
    fn drop_port_changes(&mut self, is_over: impl Fn(&PortChange) -> bool) {
        if let Some(changes) = &mut self.port_changes {
            changes.0.retain(|change| !is_over(change));
            if changes.0.is_empty() {
                self.port_changes = None;
            }
        }
    }

    /// The addresses of a path change, or the path is removed: its ports are not verified any more.
    pub(super) fn forget_port_changes(&mut self, path: Option<PathId>) {
        self.drop_port_changes(|change| path.is_none_or(|path| change.path == path));
    }

    /// Asks both ports, or decides.
    pub(super) fn on_port_timer(&mut self, ctx: &mut Context<'_>) {
        while let Some(mut change) = self.port_changes.as_mut().and_then(|changes| changes.take_due(ctx.now)) {
            if change.rounds >= ROUNDS || !self.state.may_send_data() {
                if change.new_answered && !change.old_answered {
                    self.move_to_port(ctx, &change);
                }
                continue;
            }
            if change.rounds == 0 {
                change.nonces = [ctx.random.next_u64(), ctx.random.next_u64()];
            }
            for (remote, nonce) in [change.old, change.new].into_iter().zip(change.nonces) {
                if remote == change.new && change.new_answered {
                    continue;
                }
                let meta = PacketMeta {
                    local: change.local,
                    remote,
                    ecn: crate::Ecn::NotEct,
                    congestion_indicated: false,
                };
                self.reply_to_source(ctx, meta, ReplyChunk::Heartbeat(nonce.to_be_bytes().into()));
            }
            change.rounds += 1;
            change.due = ctx.now + self.wait_for_port(change.path) / u64::from(ROUNDS);
            self.port_changes.get_or_insert_default().0.push(change);
        }
        self.drop_port_changes(|_| false);
    }

    /// Returns how long the old port of a path has to answer: an RTO, which is not bounded by RTO.Min, because a wrong decision is possible only
    /// if the new port belongs to the peer or to a host that can see its packets.
    fn wait_for_port(&self, path: PathId) -> Span {
        let rtt = &self.paths[path].rtt;
        rtt.computed()
            .map_or(rtt.rto(), |rto| rto.max(LEAST_WAIT))
            .min(rtt.rto())
    }

    /// Handles the answer to a HEARTBEAT that verifies a port.
    ///
    /// # Errors
    /// Returns an error if there is none with this nonce, or if the answer comes from another address.
    pub(super) fn on_port_answer(
        &mut self,
        ctx: &mut Context<'_>,
        meta: PacketMeta,
        nonce: u64,
    ) -> Result<(), Discard> {
        let changes = self.port_changes.as_mut().ok_or(Discard::Unexpected)?;
        let asked = |change: &PortChange, place: usize, addr: TransportAddr| {
            change.rounds > 0 && change.nonces[place] == nonce && addr == meta.remote
        };
        if let Some(change) = changes.0.iter_mut().find(|change| asked(change, 1, change.new)) {
            change.new_answered = true;
            // The old port of a path that does not answer has been asked before.
            if !change.old_answered && self.paths[change.path].state != PathState::Active {
                change.rounds = ROUNDS;
                change.due = ctx.now;
                self.on_port_timer(ctx);
            }
            return Ok(());
        }
        let change = changes.0.iter_mut().find(|change| asked(change, 0, change.old));
        let change = change.ok_or(Discard::Unexpected)?;
        change.old_answered = true;
        change.rounds = ROUNDS;
        let path = change.path;
        self.path_answered(ctx, path);
        Ok(())
    }

    /// The peer's port has changed. The HEARTBEAT has verified the address (RFC 9260 §5.4).
    fn move_to_port(&mut self, ctx: &mut Context<'_>, change: &PortChange) {
        let path = &mut self.paths[change.path];
        if path.removed || path.remote != change.old {
            return;
        }
        path.remote = change.new;
        if path.state != PathState::Active {
            // Its HEARTBEATs went to the old port.
            path.heartbeat.pending = None;
            path.heartbeat.requested = true;
            path.heartbeat.timer = ctx.now;
        }
        self.user.notices.renamed = true;
        self.path_answered(ctx, change.path);
    }
}
