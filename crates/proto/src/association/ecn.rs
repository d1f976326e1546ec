//! Explicit congestion notification: marks echoed to the sender, and what the sender makes of them.
//!
//! Sender. Packets of new data are sent as ECT(0) once both ends have said that they are capable of ECN. As RFC 3168 says, packets
//! of control chunks alone (§6.1.4: their loss is no sign that data slows down), of retransmissions (§6.1.5: an attacker could mark
//! old data) and probes of a closed window (§6.1.6) are not, although Ye 2004 (4.4.2) writes of all SCTP packets. An ECNE chunk
//! reduces the window of the path that its TSN was sent on, once per window of data, whatever reduced it before: ECNE, missing
//! reports or a timeout (Ye 2004, Figure 16; RFC 3168 §6.1.2). Loss within a window of data that an ECNE has reduced brings no second
//! reduction; a timeout within it sets cwnd to one packet and leaves ssthresh alone.
//!
//! Receiver without CWR (Ye 2004, Figure 17): one ECNE chunk at once for each marked packet of data, none otherwise. A repeated or
//! belated ECNE does no harm, since its TSN shows which window of data it belongs to.
//!
//! Receiver with CWR (RFC 4960 appendix A, RFC 3168 §6.1.3): ECNE goes with each SACK from the first marked packet on until a
//! CWR chunk answers it. The sender sends CWR as it reduces its window, and only then; an ECNE that goes on after that window of data
//! counts as new congestion, since TCP's flag names no packet. That is the weakness which Ye 2004 (4.6.1) shows: each CWR
//! that is lost costs a reduction.

use whimbrel_control::{MarkEvent, RecoveryEpoch, Seq, Verdict};
use whimbrel_wire::{Chunk, PacketView, Tsn};

use super::transmit::Packet;
use super::{Association, Context, Outgoing};
use crate::PathId;
use crate::error::Discard;
use crate::send::Outstanding;
use crate::trace::{TraceEvent, TraceKinds};

/// What both ends agreed on, and what the receiver repeats.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EcnState {
    /// Both ends are capable of ECN.
    pub(super) in_use: bool,
    /// With CWR: the lowest TSN of the first packet that arrived marked since the last CWR.
    pub(super) echo: Option<Tsn>,
}

/// For which windows of data a path's congestion window has been reduced. Kept only while ECN is in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reductions {
    /// By an ECNE chunk.
    by_mark: RecoveryEpoch,
    /// By anything.
    by_any: RecoveryEpoch,
    /// Positions of the association below this one were outstanding at the last one; 0 before the first.
    below: Seq,
}

impl Reductions {
    /// `on_path`: the highest position outstanding as the path counts; `of_all`: as the association counts.
    fn enter(&mut self, on_path: Seq, of_all: Seq) {
        self.by_any.enter(on_path);
        self.below = of_all.saturating_add(1);
    }

    /// Everything up to and including `acked` is acknowledged.
    pub(super) fn on_cumulative_ack(&mut self, acked: Seq) {
        self.by_mark.on_cumulative_ack(acked);
        self.by_any.on_cumulative_ack(acked);
    }

    /// Whether a mark has reduced the window for data that is still outstanding.
    pub(super) fn marked(&self) -> bool {
        self.by_mark.is_active()
    }
}

impl Association {
    /// Whether both ends have said that they are capable of ECN.
    pub fn uses_ecn(&self) -> bool {
        self.ecn.in_use
    }

    /// What an association agrees on with a peer that is capable of ECN or not.
    pub(super) fn agree_on_ecn(&mut self, both_capable: bool) {
        self.ecn = EcnState {
            in_use: both_capable && self.switches.ecn,
            echo: None,
        };
    }

    /// A packet of data has arrived marked.
    #[cold]
    pub(super) fn on_ce(&mut self, ctx: &mut Context<'_>, packet: &PacketView<'_>, from: usize) {
        let tsns = packet.chunks().flatten().filter_map(|chunk| match chunk {
            Chunk::Data(data) => Some(data.tsn),
            _ => None,
        });
        let Some(lowest) = tsns.reduce(|a, b| if b.is_before(a) { b } else { a }) else {
            return;
        };
        self.stats.ce_received += 1;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id), || TraceEvent::CeReceived {
                path: PathId(from as u8),
                tsn: lowest,
            });
        if !self.ecn.in_use {
            return;
        }
        if self.switches.ecn_cwr {
            self.ecn.echo.get_or_insert(lowest);
        } else {
            let to = self.confirmed_or_sending(from);
            self.outgoing.push(to as u8, Outgoing::Ecne { lowest_tsn: lowest });
        }
    }

    /// Adds an ECNE chunk, unless the packet is full: the next SACK carries it if CWR is used, and otherwise it comes first.
    #[cold]
    pub(super) fn push_ecne(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, lowest_tsn: Tsn) {
        let chunk = Chunk::Ecne { lowest_tsn };
        if !packet.fits(&chunk) {
            return;
        }
        packet.push(&chunk);
        self.stats.ecne_sent += 1;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id), || TraceEvent::EcneSent {
                path: PathId(packet.path() as u8),
                tsn: lowest_tsn,
            });
    }

    #[cold]
    pub(super) fn on_ecne(&mut self, ctx: &mut Context<'_>, lowest_tsn: Tsn, from: usize) -> Result<(), Discard> {
        // Who has not agreed to ECN passes it over like an unknown chunk that asks for no report.
        if !self.ecn.in_use {
            return Ok(());
        }
        let seq = self.outstanding.seq_of(lowest_tsn).ok_or(Discard::Unexpected)?;
        self.stats.ecne_received += 1;
        let index = self
            .outstanding
            .path_of(seq)
            .map_or(from, |path| usize::from(path).min(self.paths.len() - 1));
        // Of one that is not held any more nothing is known but that it is acknowledged.
        let on_path = PathId(index as u8);
        let position = self
            .outstanding
            .position(seq)
            .unwrap_or_else(|| self.outstanding.acked_to(on_path).saturating_sub(1));
        let reductions = &self.paths[index].reductions;
        let is_belated = !self.switches.ecn_cwr && seq < reductions.below;
        let reduces = !reductions.by_any.is_active() && !is_belated;
        ctx.trace
            .emit(TraceKinds::ECN, ctx.now, Some(self.id), || TraceEvent::EcneReceived {
                path: PathId(index as u8),
                tsn: lowest_tsn,
                reduces,
            });
        let coupled = self.coupled_window(ctx.now, index, !reduces);
        let path = &mut self.paths[index];
        let before = path.control.cwnd();
        path.control.on_mark(&MarkEvent {
            now: ctx.now,
            seq: position,
            packets: 1,
            next: self.outstanding.next_position(PathId(index as u8)),
            flight: self.outstanding.flight(PathId(index as u8)),
            srtt: path.rtt.srtt(),
            min_rtt: path.rtt.min_rtt(),
            reduces,
            coupled,
        });
        self.stats.window_reductions += u64::from(path.control.cwnd() < before);
        if reduces {
            let (on_path, of_all) = highest_positions(&self.outstanding, index);
            path.reductions.by_mark.enter(on_path);
            path.reductions.enter(on_path, of_all);
            self.stats.ecn_reductions += 1;
            self.enter_mode(ctx, index, Verdict::Congestion);
            if self.switches.ecn_cwr {
                let to = self.confirmed_or_sending(index);
                self.outgoing.push(to as u8, Outgoing::Cwr { lowest_tsn });
            }
            self.trace_window(ctx, index);
        }
        Ok(())
    }

    pub(super) fn on_cwr(&mut self, lowest_tsn: Tsn) -> Result<(), Discard> {
        if !self.ecn.in_use {
            return Ok(());
        }
        self.stats.cwr_received += 1;
        // One that answers an earlier echo is late.
        if self.ecn.echo.is_some_and(|echo| echo.is_at_or_before(lowest_tsn)) {
            self.ecn.echo = None;
        }
        Ok(())
    }

    /// Loss has reduced a path's window for all that is outstanding.
    pub(super) fn note_reduction_by_loss(&mut self, index: usize) {
        if self.ecn.in_use {
            let (on_path, of_all) = highest_positions(&self.outstanding, index);
            self.paths[index].reductions.enter(on_path, of_all);
        }
    }
}

/// The highest position sent, as the path counts and as the association counts.
fn highest_positions(outstanding: &Outstanding, index: usize) -> (Seq, Seq) {
    let on_path = outstanding.next_position(PathId(index as u8)).saturating_sub(1);
    (on_path, outstanding.next_seq().saturating_sub(1))
}
