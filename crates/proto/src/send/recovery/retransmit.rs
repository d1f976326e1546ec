//! Retransmission without a timeout, and its rate.
//!
//! - One packet per round-trip time (Ye 2004, 5.3.3): in loss recovery, chunks declared lost by missing reports are
//!   retransmitted slowly, in case a mark was lost and the cause was congestion. New data continues as the window allows.
//!   The alternative, retransmission as the window allows, needs no code: lost bytes have left the flight, and lost data
//!   has priority.
//! - Small-window recovery (Ye 2004, 3.4).
//! - Early retransmit (RFC 5827 §3.2): if too few chunks are outstanding for the required missing reports, one less than
//!   the number of outstanding chunks suffices.
//! - Tail-loss probe (after RFC 8985 §7).

use whimbrel_control::recovery::TransmissionRetransmit;
use whimbrel_control::{CouplingLimits, LossSignal, Span, Time, Verdict};
use whimbrel_wire::Sack;

use super::fast_recovery::LostTogether;
use crate::PathId;
use crate::config::NEVER;
use crate::context::Context;
use crate::send::Sending;
use crate::send::path::Tail;
use crate::send::ring::{PathAck, SackReport};
use crate::trace::{LossRule, TimerKind, TraceEvent, TraceKinds};

impl Sending {
    /// Returns whether retransmissions must wait although cwnd of path `to` may allow them. Records when the wait ends.
    #[inline]
    pub(in crate::send) fn holds_back(&mut self, now: Time, to: PathId, timed_out: bool) -> bool {
        let path = &mut self.paths[to];
        let Some(recovery) = &path.recovery else { return false };
        if recovery.probing {
            return true;
        }
        let at = recovery.next_retransmission;
        let holds = at > now && !timed_out && path.in_loss_recovery();
        if holds {
            path.release_at(at);
        }
        holds
    }

    /// A packet with retransmissions is sent on the path.
    pub(in crate::send) fn note_retransmission(&mut self, now: Time, index: PathId) {
        let slowly = self.config.parts.recovery.transmission_retransmit == TransmissionRetransmit::OnePerRtt;
        let path = &mut self.paths[index];
        if slowly && path.in_loss_recovery() {
            let round = path.rtt.srtt().unwrap_or(path.rtt.rto());
            if let Some(recovery) = &mut path.recovery {
                recovery.next_retransmission = now + round;
            }
        }
    }

    /// Early retransmit: returns the number of missing reports after which a chunk is declared lost.
    #[inline]
    pub(in crate::send) fn missing_limit(&self) -> u8 {
        let limit = self.config.missing_reports;
        // With accounting per path, each path considers only its own outstanding chunks.
        if self.outstanding.is_per_path() {
            return limit;
        }
        if self.outstanding.len() <= limit.into() && !self.may_send_new() {
            return (self.outstanding.len() as u8).saturating_sub(1).max(1);
        }
        limit
    }

    /// Early retransmit with accounting per path: returns whether fewer missing reports suffice if fewer chunks are outstanding.
    pub(in crate::send) fn retransmits_early(&self) -> bool {
        self.outstanding.is_per_path() && !self.may_send_new()
    }

    /// Small-window recovery (Ye 2004, 3.4): the highest outstanding chunk has been received, so the lowest one is
    /// lost. Too few chunks are outstanding for a fast retransmit, and no new data may be sent. The chunk is
    /// retransmitted once, in the idle time. The congestion parameters do not change.
    pub(in crate::send) fn recover_small_window(&mut self, ctx: &mut Context<'_>) {
        if self.outstanding.is_per_path() {
            for index in self.paths.ids() {
                self.recover_small_window_of(ctx, index);
            }
        } else {
            self.recover_small_window_of(ctx, self.choice.sending());
        }
    }

    /// Small-window recovery of a path, or of the association.
    fn recover_small_window_of(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let is_small = self.outstanding.span(index) <= self.config.missing_reports.into();
        if !is_small || !self.outstanding.newest_is_reported(index) {
            return;
        }
        let is_open = if self.outstanding.is_per_path() {
            self.window_open(index)
        } else {
            self.any_window_open()
        };
        if is_open && self.may_send_new() {
            return;
        }
        if let Some((tsn, from)) = self.outstanding.lose_lowest(index) {
            self.retransmit_at_once(ctx, tsn, from, LossRule::SmallWindow);
        }
    }

    fn retransmit_at_once(&mut self, ctx: &mut Context<'_>, tsn: whimbrel_wire::Tsn, from: PathId, rule: LossRule) {
        ctx.trace
            .emit(TraceKinds::TSNS, ctx.now, Some(self.id), || TraceEvent::TsnLost {
                path: from,
                tsn,
                rule,
            });
        self.paths[from].set_urgent();
    }

    /// Restarts the tail-loss probe timers of the paths whose earliest chunk in flight a SACK has acknowledged.
    pub(in crate::send) fn renew_tail_probes(&mut self, now: Time, report: &SackReport) {
        for index in self.paths.ids() {
            if report.of(index).earliest_acked {
                self.renew_tail_probe(now, index, true);
            }
        }
    }

    /// Restarts the tail-loss probe timer, because new data was sent on the path or the earliest chunk in flight was
    /// acknowledged. No other event restarts it (RFC 8985 §7.2). If every acknowledgement restarted it, it would
    /// repeatedly expire before T3-rtx and postpone it, although only T3-rtx repairs the loss of a retransmission.
    pub(in crate::send) fn renew_tail_probe(&mut self, now: Time, index: PathId, acknowledged: bool) {
        let chunks = self.outstanding.chunks_in_flight(index);
        let in_recovery = self.epochs(index).recovery.is_active();
        let path = &mut self.paths[index];
        let sack_delay = path.delay_of_lone_sack(self.config.sack_delay);
        let t3 = path.t3();
        let Some(recovery) = &mut path.recovery else { return };
        recovery.tail_probed &= !acknowledged;
        recovery.tail_probe = NEVER;
        if chunks == 0 || in_recovery || recovery.tail_probed {
            return;
        }
        // RFC 8985 §7.2: a delayed SACK must not trigger the probe.
        let patience = if chunks == 1 { sack_delay } else { Span::ZERO };
        let silence = path.rtt.srtt().map_or(Span::from_secs(1), |srtt| srtt * 2 + patience);
        // If T3-rtx expires first, a probe has no benefit.
        let at = now + silence;
        recovery.tail_probe = if at < t3 { at } else { NEVER };
    }

    /// No acknowledgement for two round-trip times: retransmits the last chunk in flight, so that missing reports
    /// arrive before a timeout.
    pub(in crate::send) fn on_tail_probe(&mut self, ctx: &mut Context<'_>, index: PathId) {
        let in_recovery = self.epochs(index).recovery.is_active();
        // A HEARTBEAT asks whether a silent path works. If its answer is late too, a probe would only postpone T3-rtx.
        let path = &mut self.paths[index];
        let waits_until = path.is_silent().then(|| path.left_at());
        let Some(recovery) = &mut path.recovery else {
            return;
        };
        recovery.tail_probe = NEVER;
        if let Some(at) = waits_until {
            recovery.tail_probe = if at > ctx.now { at } else { NEVER };
            return;
        }
        if in_recovery || recovery.tail_probed || recovery.probing || self.outstanding.any_lost_on(index) {
            return;
        }
        let Some((seq, tsn)) = self.outstanding.lose_last(index) else {
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
        self.retransmit_at_once(ctx, tsn, index, LossRule::TailProbe);
        let path = &mut self.paths[index];
        path.start_t3(ctx.now);
    }

    /// Detects whether a tail-loss probe repaired a loss: its chunk was acknowledged, and up to the next
    /// acknowledgement no duplicate was reported (RFC 8985 §7.4). The loss counts like one indicated by a gap.
    pub(in crate::send) fn check_tail_probe(
        &mut self,
        ctx: &mut Context<'_>,
        index: PathId,
        sack: &Sack<'_>,
        ack: &PathAck,
    ) {
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
        if self.epochs(index).reduced.is_active() {
            return;
        }
        let loss = LostTogether {
            signal: LossSignal::Gap,
            first: tail.position,
            last: tail.position,
            packets: 1,
            copies: 0,
            bytes: 0,
            tsn,
            flight_before: ack.flight_before,
        };
        let loss = self.loss_event(ctx.now, index, &loss);
        if !self.epochs(index).recovery.is_active() {
            self.epochs_mut(index).episode += 1;
        }
        let verdict = self.apply_loss(ctx, index, &loss, false, CouplingLimits::NONE);
        if verdict != Verdict::Transmission {
            self.stats.recoveries += 1;
            let highest = self.outstanding.next_position(index).saturating_sub(1);
            self.epochs_mut(index).enter_reduced(highest, verdict);
        }
    }
}
