//! Explicit congestion notification: the echo of marks to the sender. `send/ecn.rs` has the sender's reaction.
//!
//! Without CWR (Ye 2004, Figure 17): one ECNE chunk is sent at once for each marked data packet. A repeated or
//! late ECNE is harmless, because its TSN identifies the window of data.
//!
//! With CWR (RFC 4960 appendix A, RFC 3168 §6.1.3): from the first marked packet on, ECNE is sent with each
//! SACK until a CWR chunk arrives. The sender sends CWR only when it reduces its window. An ECNE that is repeated after
//! that window of data counts as new congestion: the rules are those of TCP, whose flag identifies no packet. Ye 2004
//! (4.6.1) shows the weakness: each lost CWR causes another reduction.

use whimbrel_wire::{Chunk, PacketView, Tsn};

use super::Association;
use super::eci::EciState;
use crate::PathId;
use crate::context::Context;
use crate::error::Discard;
use crate::extensions::Extensions;
use crate::packet::Packet;
use crate::send::Outgoing;
use crate::trace::{TraceEvent, TraceKinds};

impl Association {
    /// Returns whether both endpoints echo the congestion that routers indicate.
    pub fn uses_eci(&self) -> bool {
        self.agreed.eci.in_use
    }

    pub(super) fn agree_on_eci(&mut self, both: Extensions) {
        self.agreed.eci = EciState::new(both.has(Extensions::ECI));
    }

    /// Returns whether both endpoints have announced support for ECN.
    pub fn uses_ecn(&self) -> bool {
        self.sending.uses_ecn()
    }

    /// A data packet with a CE mark arrived.
    #[cold]
    pub(super) fn on_ce(&mut self, ctx: &mut Context<'_>, packet: &PacketView<'_>, from: PathId) {
        let tsns = packet.chunks().flatten().filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.tsn),
            _ => None,
        });
        let Some(lowest) = tsns.reduce(|a, b| if b.is_before(a) { b } else { a }) else {
            return;
        };
        self.user.stats.ce_received += 1;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id()), || TraceEvent::CeReceived {
                path: from,
                tsn: lowest,
            });
        if !self.sending.uses_ecn() {
            return;
        }
        self.agreed.ecn.on_mark(lowest);
        if !self.config.parts.ecn_cwr {
            let to = self.sending.confirmed_or_sending(from);
            self.sending.control().push(to, Outgoing::Ecne { lowest_tsn: lowest });
        }
    }

    /// Adds an ECNE chunk if it fits. With CWR, a later SACK carries it otherwise. Without CWR it always fits, because
    /// a control chunk that does not fit starts a new packet.
    #[cold]
    pub(super) fn push_ecne(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, lowest_tsn: Tsn) {
        let chunk = Chunk::Ecne {
            lowest_tsn,
            marked: self.config.ecn_count.then(|| self.agreed.ecn.marked()),
        };
        if !packet.fits(&chunk) {
            return;
        }
        packet.push(&chunk);
        self.user.stats.ecne_sent += 1;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id()), || TraceEvent::EcneSent {
                path: packet.path(),
                tsn: lowest_tsn,
            });
    }

    pub(super) fn on_cwr(&mut self, lowest_tsn: Tsn) -> Result<(), Discard> {
        if !self.sending.uses_ecn() {
            return Ok(());
        }
        self.user.stats.cwr_received += 1;
        self.agreed.ecn.on_cwr(lowest_tsn);
        Ok(())
    }
}
