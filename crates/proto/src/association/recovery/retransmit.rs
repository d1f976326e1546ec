//! What is sent again without waiting for a timeout, and how fast.
//!
//! - One packet in each round-trip time (Ye 2004, 5.3.3): in loss recovery, what missing reports gave up is sent again slowly, in
//!   case that a mark was lost and it was congestion after all. New data goes on as the window allows. The other policy, as much as
//!   the window allows, needs no code: the lost bytes have left the flight, and what was lost goes first.
//! - Small-window recovery (Ye 2004, 3.4).
//! - Early retransmit (RFC 5827 §3.2): where too little is outstanding for enough missing reports, one fewer than there are chunks
//!   outstanding is enough.
//! - Tail-loss probe (after RFC 8985 §7).

use whimbrel_control::recovery::TransmissionRetransmit;
use whimbrel_control::{LossEvent, LossSignal, Span, Time, Verdict};
use whimbrel_wire::Sack;

use super::super::{Association, Context};
use super::mode::Tail;
use crate::PathId;
use crate::config::NEVER;
use crate::trace::{LossRule, TimerKind, TraceEvent, TraceKinds};

impl Association {
    /// Whether what was lost has to wait although the window of path `to` may be open. Notes when it need not any more.
    #[inline]
    pub(in super::super) fn holds_back(&mut self, now: Time, to: usize, timed_out: bool) -> bool {
        let path = &mut self.paths[to];
        let Some(recovery) = &path.recovery else { return false };
        if recovery.probing {
            return true;
        }
        let at = recovery.next_retransmission;
        let holds = at > now && !timed_out && path.in_loss_recovery();
        if holds {
            path.release = path.release.min(at);
        }
        holds
    }

    /// A packet of what was lost goes out on the path.
    pub(in super::super) fn note_retransmission(&mut self, now: Time, index: usize) {
        let slowly = self.switches.recovery.transmission_retransmit == TransmissionRetransmit::OnePerRtt;
        let path = &mut self.paths[index];
        if slowly && path.in_loss_recovery() {
            let round = path.rtt.srtt().unwrap_or(path.rtt.rto());
            if let Some(recovery) = &mut path.recovery {
                recovery.next_retransmission = now + round;
            }
        }
    }

    /// Missing reports that make a loss.
    #[inline]
    pub(in super::super) fn missing_limit(&self) -> u8 {
        let limit = self.switches.missing_reports;
        // Paths that are accounted for by themselves look at what they have outstanding.
        if self.outstanding.is_per_path() {
            return limit;
        }
        if self.switches.recovery.early_retransmit && self.outstanding.len() <= limit.into() && !self.may_send_new() {
            return (self.outstanding.len() as u8).saturating_sub(1).max(1);
        }
        limit
    }

    /// With accounting for each path: fewer missing reports are enough where fewer chunks are outstanding.
    pub(in super::super) fn retransmits_early(&self) -> bool {
        self.outstanding.is_per_path() && self.switches.recovery.early_retransmit && !self.may_send_new()
    }

    /// Small-window recovery (Ye 2004, 3.4): the highest chunk outstanding has arrived, so the lowest one is lost; too few are
    /// outstanding for a fast retransmit, and no new one may be sent. It is sent again once, in the idle time, and the congestion
    /// parameters stay as they are.
    pub(in super::super) fn recover_small_window(&mut self, ctx: &mut Context<'_>) {
        if self.outstanding.is_per_path() {
            for index in 0..self.paths.len() {
                self.recover_small_window_of(ctx, index);
            }
        } else {
            self.recover_small_window_of(ctx, self.sending.into());
        }
    }

    /// The same for a path, or for the association which sends there.
    fn recover_small_window_of(&mut self, ctx: &mut Context<'_>, index: usize) {
        let id = PathId(index as u8);
        let is_small = self.outstanding.span(id) <= self.switches.missing_reports.into();
        if !is_small || !self.outstanding.newest_is_reported(id) {
            return;
        }
        let is_open = if self.outstanding.is_per_path() {
            self.window_open(id, index)
        } else {
            self.any_window_open()
        };
        if is_open && self.may_send_new() {
            return;
        }
        if let Some((tsn, from, len)) = self.outstanding.lose_lowest(id) {
            self.send_again_at_once(ctx, tsn, from, len, LossRule::SmallWindow);
        }
    }

    fn send_again_at_once(
        &mut self,
        ctx: &mut Context<'_>,
        tsn: whimbrel_wire::Tsn,
        from: PathId,
        len: u64,
        rule: LossRule,
    ) {
        // RFC 9260 §6.2.1 C
        self.peer_rwnd = self.peer_rwnd.saturating_add(u32::try_from(len).unwrap_or(u32::MAX));
        ctx.trace
            .emit(TraceKinds::TSNS, ctx.now, Some(self.id), || TraceEvent::TsnLost {
                path: from,
                tsn,
                rule,
            });
        self.paths[usize::from(from.0)].urgent = true;
    }

    /// After a SACK: the earliest chunk in flight on a path was acknowledged, or its fast recovery has begun.
    pub(in super::super) fn renew_tail_probes(&mut self, now: Time) {
        for index in 0..self.paths.len() {
            if self.outstanding.acks()[index].earliest_acked {
                self.renew_tail_probe(now, index, true);
            }
        }
    }

    /// New data was sent on the path, or the earliest chunk in flight was acknowledged: the tail-loss probe waits for silence from now
    /// on. Nothing else restarts it (RFC 8985 §7.2). Restarted by any acknowledgement it would come before T3-rtx again and again while
    /// the loss of a retransmission, which no probe repairs, waits for T3-rtx.
    pub(in super::super) fn renew_tail_probe(&mut self, now: Time, index: usize, acknowledged: bool) {
        let chunks = self.outstanding.chunks_in_flight(PathId(index as u8));
        let in_recovery = self.epochs(index).recovery.is_active();
        let path = &mut self.paths[index];
        let t3 = path.t3;
        let Some(recovery) = &mut path.recovery else { return };
        recovery.tail_probed &= !acknowledged;
        recovery.tail_probe = NEVER;
        if chunks == 0 || in_recovery || recovery.tail_probed {
            return;
        }
        // RFC 8985 §7.2: a receiver that waits for a second packet must not make it go off.
        let patience = if chunks == 1 {
            self.config.sack_delay
        } else {
            Span::ZERO
        };
        let silence = path.rtt.srtt().map_or(Span::from_secs(1), |srtt| srtt * 2 + patience);
        // Where the timeout comes first there is nothing to gain.
        let at = now + silence;
        recovery.tail_probe = if at < t3 { at } else { NEVER };
    }

    /// Two round-trip times of silence: the last chunk in flight is sent again, so that missing reports come before a timeout.
    pub(in super::super) fn on_tail_probe(&mut self, ctx: &mut Context<'_>, index: usize) {
        let in_recovery = self.epochs(index).recovery.is_active();
        let Some(recovery) = &mut self.paths[index].recovery else {
            return;
        };
        recovery.tail_probe = NEVER;
        if in_recovery || recovery.tail_probed || recovery.probing || self.outstanding.any_lost_on(PathId(index as u8))
        {
            return;
        }
        let id = PathId(index as u8);
        let Some((seq, tsn, len)) = self.outstanding.lose_last(id) else {
            return;
        };
        let position = self.outstanding.position(seq).unwrap_or(seq);
        recovery.tail_probed = true;
        recovery.tail = Some(Tail {
            seq,
            position,
            acked: false,
        });
        self.stats.probes += 1;
        self.trace_timer(ctx, TimerKind::TailLossProbe, Some(index));
        self.send_again_at_once(ctx, tsn, id, len, LossRule::TailProbe);
        let path = &mut self.paths[index];
        path.t3 = ctx.now + path.timeout();
    }

    /// Finds out whether a tail-loss probe repaired a loss: what it sent again was acknowledged and, up to the next acknowledgement
    /// after that, not reported as a duplicate (RFC 8985 §7.4). The loss counts like one seen by a gap.
    pub(in super::super) fn check_tail_probe(&mut self, ctx: &mut Context<'_>, index: usize, sack: &Sack<'_>) {
        let ack = self.outstanding.acks()[index];
        let path = &mut self.paths[index];
        let Some(recovery) = &mut path.recovery else { return };
        let Some(tail) = recovery.tail else { return };
        let tsn = self.outstanding.tsn(tail.seq);
        if sack.duplicates.iter().any(|duplicate| duplicate == tsn) {
            recovery.tail = None;
            return;
        }
        if !tail.acked || ack.acked == 0 {
            recovery.tail = Some(Tail {
                acked: self.outstanding.is_acked(tail.seq),
                ..tail
            });
            return;
        }
        recovery.tail = None;
        let (srtt, min_rtt) = (path.rtt.srtt(), path.rtt.min_rtt());
        if self.epochs(index).reduced.is_active() {
            return;
        }
        let loss = LossEvent {
            label: tsn.0,
            next: self.outstanding.next_position(PathId(index as u8)),
            flight_before: ack.flight_before,
            srtt,
            min_rtt,
            ..LossEvent::of(ctx.now, LossSignal::Gap, tail.position)
        };
        if !self.epochs(index).recovery.is_active() {
            self.epochs_mut(index).episode += 1;
        }
        let verdict = self.take_loss(ctx, index, &loss, false);
        if verdict != Verdict::Transmission {
            self.stats.recoveries += 1;
            let highest = self.outstanding.next_position(PathId(index as u8)).saturating_sub(1);
            self.epochs_mut(index).enter_reduced(highest, verdict);
        }
    }
}
