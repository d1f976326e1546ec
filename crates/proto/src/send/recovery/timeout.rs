//! Expiration of T3-rtx, and other losses of all data in flight on a path (RFC 9260 §6.3.3).

use whimbrel_control::{CouplingLimits, LossSignal, Time, Verdict};

use crate::PathId;
use crate::config::NEVER;
use crate::context::Context;
use crate::send::Sending;
use crate::send::path::Path;
use crate::send::progress::{End, Progress};
use crate::send::recovery::LostTogether;
use crate::send::timers::Timers;
use crate::trace::{LossRule, TimerKind, TraceEvent, TraceKinds};

/// Consecutive timeouts of data, over all paths, after which an association ends although HEARTBEATs are answered; at least twice
/// Association.Max.Retrans. With RTO.Max = 60 s they take a quarter of an hour on one path.
const TIMEOUTS_WITHOUT_ACK: u32 = 20;

impl Sending {
    /// Returns when the next timer expires.
    pub(crate) fn next_timeout(&self) -> Time {
        let own = self
            .timers
            .as_ref()
            .map_or(NEVER, |timers| timers.next())
            .min(self.window.probe_at())
            .min(self.queue.kept_expiry());
        self.paths.iter().fold(own, |next, path| next.min(path.next_timeout()))
    }

    /// Handles the timers of a path that have expired, except that of its heartbeats.
    pub(crate) fn on_path_timers(&mut self, ctx: &mut Context<'_>, index: PathId) -> Progress {
        if self.paths[index].t3_expired(ctx.now) {
            self.on_t3_rtx(ctx, index);
        }
        if self.paths[index].take_release(ctx.now) {
            self.allow_burst();
            if self.paths[index].sends_bursts() {
                // The pacer allows the data of the time since the last expiration, so Max.Burst does not apply.
                self.paths[index].allow_burst(u32::MAX);
            }
        }
        if self.paths[index].answer_due() <= ctx.now {
            self.on_silence(ctx, index);
        }
        if self.paths[index].tail_probe() <= ctx.now {
            self.on_tail_probe(ctx, index);
        }
        self.on_mtu_timer(ctx.now, index);
        self.take_progress()
    }

    /// No acknowledgement has come in time (`spread/silence.rs`).
    fn on_silence(&mut self, ctx: &mut Context<'_>, path: PathId) {
        self.paths[path].set_answer_due(NEVER);
        if !self.is_usable(path) || !self.paths.ids().any(|other| other != path && self.answers(other)) {
            return;
        }
        self.trace_timer(ctx, TimerKind::Silence, Some(path));
        if self.begin_silence(ctx.now, path) {
            self.probe_soon(ctx.now, path);
        }
        self.allow_burst();
    }

    fn is_due(&self, now: Time, timer: impl Fn(&Timers) -> Time) -> bool {
        self.timers.as_ref().is_some_and(|timers| timer(timers) <= now)
    }

    /// Handles the timers that belong to no path. `may_send`: the state of the association allows data.
    pub(crate) fn on_timers(&mut self, ctx: &mut Context<'_>, may_send: bool) -> Progress {
        if self.window.probe_at() <= ctx.now {
            self.trace_timer(ctx, TimerKind::ZeroWindowProbe, None);
            self.window.permit_probe();
            self.allow_burst();
        }
        if self.is_due(ctx.now, |timers| timers.probing) {
            self.on_probe_timer(ctx);
        }
        if self.is_due(ctx.now, |timers| {
            timers.heartbeat.as_ref().map_or(NEVER, |timer| timer.due)
        }) {
            self.on_shared_heartbeat_timer(ctx, may_send);
        }
        if self.is_due(ctx.now, |timers| timers.policy) {
            self.on_policy_timer(ctx);
        }
        if self.queue.kept_expiry() <= ctx.now {
            // No packet may be due for long: a user who waits for room would wait on.
            self.give_up_kept(ctx.now);
            self.notify_user_of_progress();
        }
        self.take_progress()
    }

    pub(in crate::send) fn trace_timer(&self, ctx: &mut Context<'_>, timer: TimerKind, path: Option<PathId>) {
        ctx.trace
            .emit(TraceKinds::STATES, ctx.now, Some(self.id), || TraceEvent::Timer {
                timer,
                path,
            });
    }

    /// T3-rtx expired (RFC 9260 §6.3.3).
    // [9260:6.1-6, 6.3.3-1, 6.3.3-2, 7.2.3-2, 7.2.1-2]
    fn on_t3_rtx(&mut self, ctx: &mut Context<'_>, index: PathId) {
        self.trace_timer(ctx, TimerKind::T3Rtx, Some(index));
        self.paths[index].stop_t3();
        let Some(lost) = self.lose_all(ctx, index) else {
            if self.forward_waits() {
                // It protected a FORWARD TSN.
                self.back_off(ctx, index);
                self.count_path_error(ctx, index, true);
                self.queue_forward();
            }
            return;
        };
        self.rescue_again();
        // RFC 9260 §6.1 A: a peer that responds may keep its window closed indefinitely. That is not congestion.
        let only_probed = self.window.on_timeout();
        let coupled = self.coupled_window(ctx.now, index, only_probed);
        let (probes, keeps_window) = (
            self.config.parts.recovery.probe_after_timeout,
            self.config.parts.recovery.keep_window_on_transmission_timeout,
        );
        let mut is_transmission = false;
        if !only_probed {
            self.paths[index].unanswered.on_data_timeout();
            let loss = self.loss_event(ctx.now, index, &lost);
            let path = &self.paths[index];
            let (marked, cwnd_before) = (path.is_marked(), path.control.cwnd());
            // ns-2 changes nothing if an earlier timeout has left a window of one packet.
            let keeps_ssthresh =
                marked || !self.config.rules.repeated_timeout_lowers_ssthresh && cwnd_before <= path.control.unit();
            self.epochs_mut(index).episode += 1;
            let verdict = self.judge(index, &loss, None);
            is_transmission = verdict == Verdict::Transmission;
            // With a probe after the timeout, the window does not change, so that it can be used when the path responds
            // (Ye 2004, 5.3.4).
            let reacts = !(is_transmission && (probes || keeps_window));
            if reacts {
                self.react(index, &loss, verdict, keeps_ssthresh, CouplingLimits::reduced(coupled));
            }
            self.trace_verdicts(ctx, index, LossSignal::Timeout, verdict, cwnd_before);
            self.paths[index].limit_to_one_packet(!is_transmission);
            self.enter_mode(ctx, index, verdict);
            self.watch_timeout(ctx, index, reacts);
        }
        let is_counted = self.paths[index].take_counted();
        if !is_counted {
            self.back_off(ctx, index);
        }
        self.paths[index].stop_timing();
        if self.config.rules.timeout_ends_recovery {
            self.epochs_mut(index).leave();
        }
        if !only_probed {
            self.paths[index].quality.on_timeout();
            if !is_transmission {
                self.note_reduction_by_loss(index);
            }
            if !is_counted {
                self.count_path_error(ctx, index, true);
            }
            self.count_unanswered_data();
        }
        if self.progress.end.is_none() {
            self.heartbeat_after_failure(ctx, index);
            if is_transmission && probes {
                self.probe_path(ctx, index);
            } else {
                // Rule E3: one packet is sent at once.
                let to = self.retransmission_path(index, true);
                self.paths[index].set_urgent();
                self.heartbeat_after_timeout(ctx, index, to);
            }
            self.watch_mtu(ctx.now, index, if only_probed { 0 } else { lost.bytes });
            self.trace_window(ctx, index);
        }
    }

    /// Counts a timeout of data, which an acknowledgement of data clears and a HEARTBEAT ACK does not. RFC 9260 §8.1 counts both as
    /// responses; an association whose data never arrives would never end.
    fn count_unanswered_data(&mut self) {
        self.timeouts_without_ack = self.timeouts_without_ack.saturating_add(1);
        let limit = TIMEOUTS_WITHOUT_ACK.max(self.config.association_max_retrans.saturating_mul(2));
        let answers = |path: &Path| path.in_use() && path.unanswered.loses_data_only();
        if self.progress.end.is_none() && self.timeouts_without_ack > limit && self.paths.iter().any(answers) {
            self.end(End::DataUnanswered);
        }
    }

    /// Declares all data in flight on a path lost. Returns `None` if there was none.
    fn lose_all(&mut self, ctx: &mut Context<'_>, index: PathId) -> Option<LostTogether> {
        let flight_before = self.outstanding.flight(index);
        let (trace, lost, now, association) = (&mut *ctx.trace, &mut ctx.scratch.lost, ctx.now, self.id);
        lost.clear();
        let (mut packets, mut last) = (0, 0);
        let (first, tsn) = self.outstanding.lose_path(index, |position, tsn| {
            packets += 1;
            last = position.max(last);
            if trace.wants(TraceKinds::VERDICTS) {
                lost.push((index.0, tsn));
            }
            trace.emit(TraceKinds::TSNS, now, Some(association), || TraceEvent::TsnLost {
                path: index,
                tsn,
                rule: LossRule::Timeout,
            });
        })?;
        self.stats.timeouts += 1;
        self.paths[index].quality.losses.on_lost(packets);
        if let Some(rates) = &mut self.rates {
            rates.on_lost(index, flight_before);
        }
        Some(LostTogether {
            signal: LossSignal::Timeout,
            first,
            last,
            packets,
            copies: 0,
            bytes: flight_before,
            tsn,
            flight_before,
        })
    }
}
