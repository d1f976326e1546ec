//! Timers of an association: the next expiration, and its handling.

use whimbrel_control::{CouplingLimits, LossSignal, Span, Time, Verdict};

use super::recovery::LostTogether;
use super::shared_heartbeat::SharedTimer;
use super::{Association, Context, Outgoing, State};
use crate::config::NEVER;
use crate::event::CloseReason;
use crate::path::Path;
use crate::trace::{LossRule, TimerKind, TraceEvent, TraceKinds};
use crate::{PathId, PathState};

/// Consecutive timeouts of data, over all paths, after which an association ends although HEARTBEATs are answered; at least twice
/// Association.Max.Retrans. With RTO.Max = 60 s they take a quarter of an hour on one path.
const TIMEOUTS_WITHOUT_ACK: u32 = 20;

/// Timers of the association as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// T1-init or T1-cookie, depending on the state. If the peer opened the association: the deadline for its first
    /// message.
    pub(crate) t1: Time,
    pub(crate) t2_shutdown: Time,
    /// T4-rto: waiting for an ASCONF-ACK (RFC 5061 §5.1.1).
    pub(crate) t4: Time,
    pub(crate) t5_shutdown_guard: Time,
    /// How far the data was when T5-shutdown-guard was started.
    pub(super) guarded_progress: u64,
    pub(crate) zero_window_probe: Time,
    pub(crate) autoclose: Time,
    /// The path policy asked to be called.
    pub(crate) policy: Time,
    /// Outstanding probes of a path are declared lost.
    pub(crate) probing: Time,
    /// The heartbeat timer shared by all paths, if there is one.
    pub(crate) heartbeat: Option<Box<SharedTimer>>,
    /// When a message was last accepted from the user, or user data was last received.
    last_activity: Time,
}

impl Default for Timers {
    fn default() -> Self {
        Timers {
            t1: NEVER,
            t2_shutdown: NEVER,
            t4: NEVER,
            t5_shutdown_guard: NEVER,
            guarded_progress: 0,
            zero_window_probe: NEVER,
            autoclose: NEVER,
            policy: NEVER,
            probing: NEVER,
            heartbeat: None,
            last_activity: Time::ZERO,
        }
    }
}

impl Timers {
    fn next(&self) -> Time {
        self.t1
            .min(self.t2_shutdown)
            .min(self.t4)
            .min(self.t5_shutdown_guard)
            .min(self.zero_window_probe)
            .min(self.autoclose)
            .min(self.policy)
            .min(self.probing)
            .min(self.heartbeat.as_ref().map_or(NEVER, |timer| timer.due))
    }

    /// Records a message accepted from the user, or received user data. The autoclose timer checks this when it expires.
    pub(crate) fn touch_autoclose(&mut self, now: Time) {
        self.last_activity = now;
    }
}

impl Association {
    /// Returns when the next timer expires.
    pub(crate) fn next_timeout(&self) -> Time {
        let sack = self
            .receiving
            .receiver
            .as_ref()
            .and_then(|receiver| receiver.sack_deadline())
            .unwrap_or(NEVER);
        let ports = self
            .port_changes
            .as_ref()
            .map_or(NEVER, |changes| changes.next_timeout());
        let own = self.timers.next().min(sack).min(ports);
        self.paths.iter().fold(own, |next, path| next.min(path.next_timeout()))
    }

    /// Handles every timer that has expired.
    // [9260:9.2-11, 6.1-7]
    pub(crate) fn handle_timeout(&mut self, ctx: &mut Context<'_>) {
        if self.timers.t1 <= ctx.now {
            if self.is_silent() {
                self.trace_timer(ctx, TimerKind::FirstMessage, None);
                self.abort_for_resources(ctx, "no message in time");
                return;
            }
            self.on_t1(ctx);
        }
        for index in self.paths.ids() {
            if self.paths[index].t3 <= ctx.now {
                self.on_t3_rtx(ctx, index);
            }
            if self.paths[index].release <= ctx.now {
                self.paths[index].release = NEVER;
                self.allow_burst();
                if self.paths[index].sends_bursts() {
                    // The pacer allows the data of the time since the last expiration, so Max.Burst does not apply.
                    self.paths[index].burst_left = u32::MAX;
                }
            }
            if self.paths[index].tail_probe() <= ctx.now {
                self.on_tail_probe(ctx, index);
            }
            if self
                .paths
                .get(index)
                .is_some_and(|path| path.heartbeat.timer <= ctx.now)
            {
                self.on_heartbeat_timer(ctx, index);
            }
        }
        if self.timers.t2_shutdown <= ctx.now {
            self.on_t2_shutdown(ctx);
        }
        if self.timers.t4 <= ctx.now {
            self.on_t4(ctx);
        }
        if self.timers.t5_shutdown_guard <= ctx.now {
            self.on_shutdown_guard(ctx);
        }
        if self.timers.zero_window_probe <= ctx.now {
            self.trace_timer(ctx, TimerKind::ZeroWindowProbe, None);
            self.timers.zero_window_probe = NEVER;
            self.sender.probe.permitted = true;
            self.allow_burst();
        }
        if self
            .port_changes
            .as_ref()
            .is_some_and(|changes| changes.next_timeout() <= ctx.now)
        {
            self.on_port_timer(ctx);
        }
        if self.timers.probing <= ctx.now {
            self.on_probe_timer(ctx);
        }
        if self.timers.heartbeat.as_ref().is_some_and(|timer| timer.due <= ctx.now) {
            self.on_shared_heartbeat_timer(ctx);
        }
        if self.timers.policy <= ctx.now {
            self.on_policy_timer(ctx);
        }
        if self.timers.autoclose <= ctx.now {
            self.on_autoclose(ctx);
        }
        if let Some(receiver) = &mut self.receiving.receiver
            && receiver.sack_deadline().is_some_and(|deadline| deadline <= ctx.now)
        {
            receiver.request_sack();
        }
    }

    /// Sets the deadline for the peer's first message.
    pub(crate) fn expect_message(&mut self, deadline: Time) {
        self.timers.t1 = deadline;
    }

    /// Returns whether the association waits for the peer's first message, or its first acknowledgement of data, with a deadline
    /// ([`EndpointConfig::first_message_timeout`](crate::EndpointConfig::first_message_timeout)).
    pub fn is_silent(&self) -> bool {
        self.ends.accepted && self.timers.t1 != NEVER
    }

    /// A message has arrived, or the peer has acknowledged data: it is no handshake without a purpose.
    pub(super) fn note_use(&mut self) {
        if self.ends.accepted {
            self.timers.t1 = NEVER;
        }
    }

    /// Returns when a message was last accepted from the user, or user data was last received.
    pub(crate) fn last_activity(&self) -> Time {
        self.timers.last_activity
    }

    pub(super) fn trace_timer(&self, ctx: &mut Context<'_>, timer: TimerKind, path: Option<PathId>) {
        ctx.trace
            .emit(TraceKinds::STATES, ctx.now, Some(self.id), || TraceEvent::Timer {
                timer,
                path,
            });
    }

    /// Returns whether the user has sent and received no data during `span`, and no data is buffered.
    pub(super) fn is_quiet(&self, now: Time, span: Span) -> bool {
        now.since(self.timers.last_activity) >= span && self.buffered_send() == 0 && self.buffered_receive() == 0
    }

    pub(super) fn start_autoclose(&mut self, now: Time) {
        self.timers.last_activity = now;
        self.timers.autoclose = self.config.autoclose.map_or(NEVER, |span| now + span);
    }

    fn on_autoclose(&mut self, ctx: &mut Context<'_>) {
        let due = self.timers.last_activity + self.config.autoclose.unwrap_or(Span::MAX);
        if due > ctx.now {
            self.timers.autoclose = due;
            return;
        }
        self.trace_timer(ctx, TimerKind::Autoclose, None);
        self.timers.autoclose = NEVER;
        self.shutdown(ctx);
    }

    /// T3-rtx expired (RFC 9260 §6.3.3).
    // [9260:6.1-6, 6.3.3-1, 6.3.3-2, 7.2.3-2, 7.2.1-2]
    fn on_t3_rtx(&mut self, ctx: &mut Context<'_>, index: PathId) {
        self.trace_timer(ctx, TimerKind::T3Rtx, Some(index));
        self.paths[index].t3 = NEVER;
        let Some(lost) = self.lose_all(ctx, index) else {
            return;
        };
        // RFC 9260 §6.1 A: a peer that responds may keep its window closed indefinitely. That is not congestion.
        let only_probed = self.sender.probe.in_flight && self.sender.probe.answered;
        self.sender.probe.answered = false;
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
            self.paths[index].one_packet_only = !is_transmission;
            self.enter_mode(ctx, index, verdict);
            self.watch_timeout(ctx, index, reacts);
        }
        self.back_off(ctx, index);
        self.paths[index].timed = None;
        if self.config.rules.timeout_ends_recovery {
            self.epochs_mut(index).leave();
        }
        if !only_probed {
            self.paths[index].quality.on_timeout();
            if !is_transmission {
                self.note_reduction_by_loss(index);
            }
            self.count_path_error(ctx, index, true);
            self.count_unanswered_data(ctx);
        }
        if self.state != State::Closed {
            self.heartbeat_after_failure(ctx, index);
            if is_transmission && probes {
                self.probe_path(ctx, index);
            } else {
                // Rule E3: one packet is sent at once.
                let to = self.retransmission_path(index, true);
                self.paths[index].urgent = true;
                self.heartbeat_after_timeout(ctx, index, to);
            }
            self.watch_mtu(ctx.now, index, if only_probed { 0 } else { lost.bytes });
            self.trace_window(ctx, index);
        }
    }

    /// Counts a timeout of data, which an acknowledgement of data clears and a HEARTBEAT ACK does not. RFC 9260 §8.1 counts both as
    /// responses; an association whose data never arrives would never end.
    fn count_unanswered_data(&mut self, ctx: &mut Context<'_>) {
        self.sender.timeouts_without_ack = self.sender.timeouts_without_ack.saturating_add(1);
        let limit = TIMEOUTS_WITHOUT_ACK.max(self.config.association_max_retrans.saturating_mul(2));
        let answers = |path: &Path| path.in_use() && path.unanswered.loses_data_only();
        if self.state != State::Closed && self.sender.timeouts_without_ack > limit && self.paths.iter().any(answers) {
            self.close(ctx, CloseReason::DataUnanswered);
        }
    }

    /// Declares all data in flight on a path lost. Returns `None` if there was none.
    fn lose_all(&mut self, ctx: &mut Context<'_>, index: PathId) -> Option<LostTogether> {
        let flight_before = self.sender.outstanding.flight(index);
        let in_flight_before = self.sender.outstanding.data_in_flight();
        let (trace, lost, now, association) = (&mut *ctx.trace, &mut ctx.scratch.lost, ctx.now, self.id);
        lost.clear();
        let (mut packets, mut last) = (0, 0);
        let (first, tsn) = self.sender.outstanding.lose_path(index, |position, tsn| {
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
        self.user.stats.timeouts += 1;
        self.paths[index].quality.losses.on_lost(packets);
        if let Some(rates) = &mut self.sender.rates {
            rates.on_lost(index, flight_before);
        }
        // RFC 9260 §6.2.1 C: data marked for retransmission is added to rwnd.
        let data_lost = in_flight_before - self.sender.outstanding.data_in_flight();
        self.sender.peer_rwnd = self
            .sender
            .peer_rwnd
            .saturating_add(u32::try_from(data_lost).unwrap_or(u32::MAX));
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

    /// T1-init or T1-cookie expired: retransmits INIT or COOKIE ECHO, on all addresses in turn (RFC 9260 §5.1.4, §5.1).
    // [9260:4-3, 4-4, 4-5, 4-6, 4-7, 4-8, 5.1-12, 5.1.4-3, 5.1.6-1]
    fn on_t1(&mut self, ctx: &mut Context<'_>) {
        let waits_for_init_ack = self.state == State::CookieWait;
        self.trace_timer(
            ctx,
            if waits_for_init_ack {
                TimerKind::T1Init
            } else {
                TimerKind::T1Cookie
            },
            None,
        );
        self.handshake.init_retransmits += 1;
        if self.handshake.init_retransmits > self.config.max_init_retransmits {
            self.close(ctx, CloseReason::HandshakeTimeout);
            return;
        }
        self.paths[self.choice.sending].rtt.back_off();
        self.choice.sending = self.next_handshake_path();
        self.outgoing.clear();
        if waits_for_init_ack {
            self.outgoing
                .push(self.choice.sending, Outgoing::Init { preserve_ms: None });
        } else {
            self.lose_early_data(ctx);
            self.outgoing.push(self.choice.sending, Outgoing::CookieEcho);
        }
        self.timers.t1 = ctx.now + self.paths[self.choice.sending].rtt.rto();
    }

    /// Returns the next confirmed path in turn.
    // [9260:5.1-13, 5.1-14]
    fn next_handshake_path(&self) -> PathId {
        let count = self.paths.len();
        (1..=count)
            .map(|step| self.paths.after(self.choice.sending, step))
            .find(|&index| !self.paths[index].removed && self.paths[index].state != PathState::Unconfirmed)
            .unwrap_or(self.choice.sending)
    }
}
