//! A change of the UDP port of a peer's address, as a NAT causes it (RFC 6951 §5.4), and the change to packets without UDP or back (port 0).
//!
//! RFC 6951 §5.4 stores the new port as soon as a packet with the right verification tag arrives from it. Then one packet of 16 bytes moves
//! the data of an association to another socket of the peer's host, or behind the same NAT. Here both ports are asked, with HEARTBEATs that
//! have a random nonce each, and the path moves only if the new port answers and the old one does not (decision 0028). With a shared key, the
//! packet that starts this and the answers must be authenticated; a recorded packet has the wrong nonce. Likewise with DTLS chunks: a packet counts
//! after it has been opened and was no replay. Without a key, a host that sees
//! the packets of the association and can keep the old port from answering is not stopped.

use whimbrel_control::{Span, Time};

use super::Association;
use super::port_changes::{AddressPair, PortAnswer, PortChange, PortStep};
use crate::address::is_encapsulated;
use crate::context::Context;
use crate::endpoint::{Reply, ReplyChunk};
use crate::error::Discard;
use crate::send::path::Path;
use crate::{PacketMeta, PathId, PathState};

/// The least time that the old port has to answer. Round-trip times of radio links vary more than a few samples show.
const LEAST_WAIT: Span = Span::from_millis(100);

impl Association {
    /// Sends a chunk to the source of a packet, whose UDP port is not known to be the peer's.
    pub(super) fn reply_to_source(&mut self, ctx: &mut Context<'_>, meta: PacketMeta, chunk: ReplyChunk) {
        let is_signed = self.agreed.auth.as_ref().is_some_and(|auth| auth.every_packet);
        let Some(guard) = self.guard(is_signed) else { return };
        ctx.replies.push(Reply {
            local: meta.local,
            remote: meta.remote,
            source_port: self.ends.local_port,
            destination_port: self.ends.peer_port,
            verification_tag: self.ends.peer_tag,
            guard,
            chunk,
        });
    }

    /// A packet of the peer has arrived: if it comes from another UDP port than that of its path, verifies both ports.
    #[inline]
    pub(super) fn watch_port(&mut self, now: Time, meta: PacketMeta) {
        let is_known = |path: &Path| path.leads_to(&meta.remote) && path.leaves_from(&meta.local);
        if !self.sending.paths().iter().any(is_known) {
            self.watch_other_port(now, meta);
        }
    }

    // [6951:5.4-1, 5.4-2]
    fn watch_other_port(&mut self, now: Time, meta: PacketMeta) {
        let Some(path) = self.sending.path_of_host(&meta).filter(|_| self.state.may_send_data()) else {
            return;
        };
        let (local, remote) = self.sending.path_addrs(path);
        if remote.port() == meta.remote.port() {
            return;
        }
        let is_same_kind = is_encapsulated(remote) == is_encapsulated(meta.remote);
        let new = AddressPair {
            local: if is_same_kind { local } else { meta.local },
            remote: meta.remote,
        };
        let old = AddressPair { local, remote };
        let changes = self.port_changes.get_or_insert_default();
        changes.begin(now, PortChange { path, old, new });
    }

    /// The addresses of a path change, or it is removed: its ports are not verified any more. `None`: those of all paths.
    pub(super) fn forget_port_changes(&mut self, path: Option<PathId>) {
        if let Some(changes) = &mut self.port_changes {
            changes.forget(path);
        }
        self.port_changes.take_if(|changes| changes.is_empty());
    }

    /// Asks both ports, or decides.
    pub(super) fn on_port_timer(&mut self, ctx: &mut Context<'_>) {
        if !self.state.may_send_data() {
            self.port_changes = None;
        }
        let Some(mut changes) = self.port_changes.take() else {
            return;
        };
        while let Some(step) = changes.next_step(ctx.now, |path| self.wait_for_port(path), ctx.random) {
            match step {
                PortStep::Ask(asked) => {
                    for (pair, nonce) in asked {
                        let meta = PacketMeta {
                            local: pair.local,
                            remote: pair.remote,
                            ecn: crate::Ecn::NotEct,
                            congestion_indicated: false,
                        };
                        self.reply_to_source(ctx, meta, ReplyChunk::Heartbeat(nonce.to_be_bytes().into()));
                    }
                }
                PortStep::Move(change) => self.move_to_port(ctx, change),
                PortStep::Keep => {}
            }
        }
        self.port_changes = Some(changes).filter(|changes| !changes.is_empty());
    }

    /// Returns how long the old port of a path has to answer: an RTO, which is not bounded by RTO.Min, because a wrong decision is possible only
    /// if the new port belongs to the peer or to a host that can see its packets.
    fn wait_for_port(&self, path: PathId) -> Span {
        let rtt = self.sending.paths()[path].rtt();
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
        let answer = changes.on_answer(ctx.now, nonce, meta.remote);
        match answer.ok_or(Discard::Unexpected)? {
            PortAnswer::Old(path) => {
                let progress = self.sending.on_answer(ctx, path);
                self.apply(ctx, progress);
            }
            PortAnswer::New(path) => {
                if self.sending.paths()[path].state() != PathState::Active {
                    // The old port has been asked before.
                    changes.decide(ctx.now, path);
                }
                self.on_port_timer(ctx);
            }
        }
        Ok(())
    }

    /// The peer's port has changed. The HEARTBEAT has verified the address (RFC 9260 §5.4).
    fn move_to_port(&mut self, ctx: &mut Context<'_>, change: PortChange) {
        let PortChange { path, old, new } = change;
        if let Some(progress) = self
            .sending
            .move_to_port(ctx, path, old.remote, (new.local, new.remote))
        {
            self.apply(ctx, progress);
        }
    }
}
