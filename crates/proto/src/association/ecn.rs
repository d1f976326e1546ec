//! Explicit congestion notification: the echo of marks, and the sender's reaction.
//!
//! Sender: packets of new data are sent as ECT(0), with `l4s` as ECT(1), once both endpoints have announced support for ECN. Following RFC
//! 3168, packets that contain only control chunks (§6.1.4: their loss does not slow down data), retransmissions
//! (§6.1.5: an attacker could mark old data) and probes of a closed window (§6.1.6) are sent as Not-ECT, although Ye
//! 2004 (4.4.2) sets ECT on all SCTP packets. An ECNE chunk reduces the cwnd of the path on which its TSN was sent,
//! once per window of data, whatever reduced it before: ECNE, missing reports or a timeout (Ye 2004, Figure 16; RFC
//! 3168 §6.1.2). Loss within a window of data that an ECNE has reduced causes no second reduction. A timeout within it
//! sets cwnd to one packet and keeps ssthresh.
//!
//! Receiver without CWR (Ye 2004, Figure 17): one ECNE chunk is sent at once for each marked data packet. A repeated or
//! late ECNE is harmless, because its TSN identifies the window of data.
//!
//! Receiver with CWR (RFC 4960 appendix A, RFC 3168 §6.1.3): from the first marked packet on, ECNE is sent with each
//! SACK until a CWR chunk arrives. The sender sends CWR only when it reduces its window. An ECNE that is repeated after
//! that window of data counts as new congestion: the rules are those of TCP, whose flag identifies no packet. Ye 2004
//! (4.6.1) shows the weakness: each lost CWR causes another reduction.

use whimbrel_control::{CouplingLimits, MarkEvent, Seq, Verdict};
use whimbrel_wire::{Chunk, PacketView, Tsn};

use super::components::EcnState;
use super::eci::EciState;
use super::packet::Packet;
use super::{Association, Context, Outgoing};
use crate::error::Discard;
use crate::extensions::Extensions;
use crate::send::Outstanding;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{Ecn, PathId};

impl Association {
    /// Returns whether both endpoints echo the congestion that routers indicate.
    pub fn uses_eci(&self) -> bool {
        self.agreed.eci.in_use
    }

    pub(super) fn agree_on_eci(&mut self, both: Extensions) {
        self.agreed.eci = EciState::new(both.has(Extensions::ECI));
    }

    /// Returns the codepoint of packets of new data while ECN is in use. ECT(1) is also the identifier of L4S (RFC 9331 §4.1).
    pub(super) fn capable_codepoint(&self, path: PathId) -> Ecn {
        if !self.paths[path].unanswered.may_use_ect() {
            Ecn::NotEct
        } else if self.agreed.eci.in_use || self.config.parts.l4s {
            Ecn::Ect1
        } else {
            Ecn::Ect0
        }
    }

    /// Returns whether both endpoints have announced support for ECN.
    pub fn uses_ecn(&self) -> bool {
        self.agreed.ecn.in_use
    }

    /// Sets up ECN after the handshake.
    pub(super) fn agree_on_ecn(&mut self, both_capable: bool) {
        self.agreed.ecn = EcnState {
            in_use: both_capable && self.config.parts.ecn,
            echo: None,
        };
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
            .emit(TraceKinds::ECN, ctx.now, Some(self.id), || TraceEvent::CeReceived {
                path: from,
                tsn: lowest,
            });
        if !self.agreed.ecn.in_use {
            return;
        }
        if self.config.parts.ecn_cwr {
            self.agreed.ecn.echo.get_or_insert(lowest);
        } else {
            let to = self.confirmed_or_sending(from);
            self.outgoing.push(to, Outgoing::Ecne { lowest_tsn: lowest });
        }
    }

    /// Adds an ECNE chunk if it fits. With CWR, a later SACK carries it otherwise. Without CWR it always fits, because
    /// a control chunk that does not fit starts a new packet.
    #[cold]
    pub(super) fn push_ecne(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, lowest_tsn: Tsn) {
        let chunk = Chunk::Ecne { lowest_tsn };
        if !packet.fits(&chunk) {
            return;
        }
        packet.push(&chunk);
        self.user.stats.ecne_sent += 1;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id), || TraceEvent::EcneSent {
                path: packet.path(),
                tsn: lowest_tsn,
            });
    }

    #[cold]
    pub(super) fn on_ecne(&mut self, ctx: &mut Context<'_>, lowest_tsn: Tsn, from: PathId) -> Result<(), Discard> {
        // Without negotiation, ECNE is handled like an unknown chunk that requires no report.
        if !self.agreed.ecn.in_use {
            return Ok(());
        }
        let seq = self.sender.outstanding.seq_of(lowest_tsn).ok_or(Discard::Unexpected)?;
        self.user.stats.ecne_received += 1;
        let index = self
            .sender
            .outstanding
            .path_of(seq)
            .map_or(from, |path| PathId(path).min(PathId::at(self.paths.len() - 1)));
        // A chunk that is no longer stored is only known to be acknowledged.
        let position = self
            .sender
            .outstanding
            .position(seq)
            .unwrap_or_else(|| self.sender.outstanding.acked_to(index).saturating_sub(1));
        let reductions = self.paths[index].reductions.get_or_insert_default();
        let is_belated = !self.config.parts.ecn_cwr && seq < reductions.below;
        let reduces = !reductions.by_any.is_active() && !is_belated;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id), || TraceEvent::EcneReceived {
                path: index,
                tsn: lowest_tsn,
                reduces,
            });
        let coupled = self.coupled_window(ctx.now, index, !reduces);
        let path = &mut self.paths[index];
        let before = path.control.cwnd();
        let mark = MarkEvent {
            now: ctx.now,
            seq: position,
            packets: 1,
            next: self.sender.outstanding.next_position(index),
            flight: self.sender.outstanding.flight(index),
            srtt: path.rtt.srtt(),
            min_rtt: path.unqueued_rtt(),
            reduces,
        };
        path.control.on_mark(&mark, CouplingLimits::reduced(coupled));
        self.user.stats.window_reductions += u64::from(path.control.cwnd() < before);
        if reduces {
            let (on_path, of_all) = highest_positions(&self.sender.outstanding, index);
            let reductions = path.reductions.get_or_insert_default();
            reductions.by_mark.enter(on_path);
            reductions.enter(on_path, of_all);
            self.user.stats.ecn_reductions += 1;
            self.enter_mode(ctx, index, Verdict::Congestion);
            if self.config.parts.ecn_cwr {
                let to = self.confirmed_or_sending(index);
                self.outgoing.push(to, Outgoing::Cwr { lowest_tsn });
            }
            self.trace_window(ctx, index);
        }
        Ok(())
    }

    pub(super) fn on_cwr(&mut self, lowest_tsn: Tsn) -> Result<(), Discard> {
        if !self.agreed.ecn.in_use {
            return Ok(());
        }
        self.user.stats.cwr_received += 1;
        // A CWR that answers an earlier echo is late.
        if self
            .agreed
            .ecn
            .echo
            .is_some_and(|echo| echo.is_at_or_before(lowest_tsn))
        {
            self.agreed.ecn.echo = None;
        }
        Ok(())
    }

    /// A loss has reduced a path's window for all outstanding data.
    pub(super) fn note_reduction_by_loss(&mut self, index: PathId) {
        if self.agreed.ecn.in_use {
            let (on_path, of_all) = highest_positions(&self.sender.outstanding, index);
            let reductions = self.paths[index].reductions.get_or_insert_default();
            reductions.enter(on_path, of_all);
        }
    }
}

/// Returns the highest position sent, in the path's and in the association's numbering.
fn highest_positions(outstanding: &Outstanding, index: PathId) -> (Seq, Seq) {
    let on_path = outstanding.next_position(index).saturating_sub(1);
    (on_path, outstanding.next_seq().saturating_sub(1))
}
