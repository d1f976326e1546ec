//! Explicit congestion notification: the reaction to echoed marks. `association/ecn.rs` has the receiver's side.
//!
//! Packets of new data are sent as ECT(0), with `l4s` as ECT(1), once both endpoints have announced support for ECN. Following RFC
//! 3168, packets that contain only control chunks (§6.1.4: their loss does not slow down data), retransmissions
//! (§6.1.5: an attacker could mark old data) and probes of a closed window (§6.1.6) are sent as Not-ECT, although Ye
//! 2004 (4.4.2) sets ECT on all SCTP packets. An ECNE chunk reduces the cwnd of the path on which its TSN was sent,
//! once per window of data, whatever reduced it before: ECNE, missing reports or a timeout (Ye 2004, Figure 16; RFC
//! 3168 §6.1.2). Loss within a window of data that an ECNE has reduced causes no second reduction. A timeout within it
//! sets cwnd to one packet and keeps ssthresh.

use whimbrel_control::{CouplingLimits, MarkEvent, Seq, Verdict};
use whimbrel_wire::Tsn;

use super::Sending;
use super::outgoing::Outgoing;
use super::ring::Outstanding;
use crate::context::Context;
use crate::error::Discard;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{Ecn, PathId};

impl Sending {
    /// Returns the codepoint of packets of new data while ECN is in use. ECT(1) is also the identifier of L4S (RFC 9331 §4.1).
    pub(in crate::send) fn capable_codepoint(&self, path: PathId) -> Ecn {
        if !self.paths[path].unanswered.may_use_ect() {
            Ecn::NotEct
        } else if self.agreed.eci || self.config.parts.l4s {
            Ecn::Ect1
        } else {
            Ecn::Ect0
        }
    }

    /// Returns whether both endpoints have announced support for ECN.
    pub(crate) fn uses_ecn(&self) -> bool {
        self.agreed.ecn
    }

    #[cold]
    pub(crate) fn on_ecne(&mut self, ctx: &mut Context<'_>, lowest_tsn: Tsn, from: PathId) -> Result<(), Discard> {
        // Without negotiation, ECNE is handled like an unknown chunk that requires no report.
        if !self.agreed.ecn {
            return Ok(());
        }
        let seq = self.outstanding.seq_of(lowest_tsn).ok_or(Discard::Unexpected)?;
        self.stats.ecne_received += 1;
        let index = self
            .outstanding
            .path_of(seq)
            .map_or(from, |path| PathId(path).min(PathId::at(self.paths.len() - 1)));
        // A chunk that is no longer stored is only known to be acknowledged.
        let position = self
            .outstanding
            .position(seq)
            .unwrap_or_else(|| self.outstanding.acked_to(index).saturating_sub(1));
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
            next: self.outstanding.next_position(index),
            flight: self.outstanding.flight(index),
            srtt: path.rtt.srtt(),
            min_rtt: path.unqueued_rtt(),
            reduces,
        };
        path.control.on_mark(&mark, CouplingLimits::reduced(coupled));
        self.stats.window_reductions += u64::from(path.control.cwnd() < before);
        if reduces {
            let (on_path, of_all) = highest_positions(&self.outstanding, index);
            let reductions = path.reductions.get_or_insert_default();
            reductions.by_mark.enter(on_path);
            reductions.enter(on_path, of_all);
            self.stats.ecn_reductions += 1;
            self.enter_mode(ctx, index, Verdict::Congestion);
            if self.config.parts.ecn_cwr {
                let to = self.confirmed_or_sending(index);
                self.outgoing.push(to, Outgoing::Cwr { lowest_tsn });
            }
            self.trace_window(ctx, index);
        }
        Ok(())
    }

    /// A loss has reduced a path's window for all outstanding data.
    pub(in crate::send) fn note_reduction_by_loss(&mut self, index: PathId) {
        if self.agreed.ecn {
            let (on_path, of_all) = highest_positions(&self.outstanding, index);
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
