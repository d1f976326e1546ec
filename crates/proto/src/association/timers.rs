//! Timers of an association: the next expiration, and its handling.

use whimbrel_control::{Span, Time};

use super::{Association, State};
use crate::PathId;
use crate::config::NEVER;
use crate::context::Context;
use crate::event::CloseReason;
use crate::send::Outgoing;
use crate::trace::{TimerKind, TraceEvent, TraceKinds};

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
    pub(crate) autoclose: Time,
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
            autoclose: NEVER,
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
            .min(self.autoclose)
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
        let reconfig = self.agreed.reconfig.as_ref();
        let reconfig = reconfig.map_or(NEVER, |reconfig| reconfig.next_timeout());
        let own = self
            .timers
            .next()
            .min(sack)
            .min(ports)
            .min(reconfig)
            .min(self.proof_due())
            .min(self.keying_due());
        own.min(self.sending.next_timeout())
    }

    /// Handles every timer that has expired.
    // [9260:9.2-11, 6.1-7]
    pub(crate) fn handle_timeout(&mut self, ctx: &mut Context<'_>) {
        if self.has_spent_keys() {
            // Nothing can be sent any more, not even an ABORT.
            self.close(ctx, CloseReason::OverLimit("the keys of this association are used up"));
            return;
        }
        if self.timers.t1 <= ctx.now {
            if self.ends.accepted {
                self.trace_timer(ctx, TimerKind::FirstMessage, None);
                self.abort_for_resources(ctx, "no message in time");
                return;
            }
            self.on_t1(ctx);
        }
        if self.proof_due() <= ctx.now {
            self.on_proof_timer(ctx);
        }
        if self.keying_due() <= ctx.now {
            self.on_keying_timer(ctx);
        }
        for index in self.sending.paths().ids() {
            let progress = self.sending.on_path_timers(ctx, index);
            self.apply(ctx, progress);
            let path = self.sending.paths().get(index);
            if path.is_some_and(|path| path.heartbeat_due() <= ctx.now) {
                self.on_heartbeat_timer(ctx, index);
            }
        }
        if self.timers.t2_shutdown <= ctx.now {
            self.on_t2_shutdown(ctx);
        }
        if self.timers.t4 <= ctx.now {
            self.on_t4(ctx);
        }
        let reconfig = self.agreed.reconfig.as_ref();
        if reconfig.is_some_and(|reconfig| reconfig.next_timeout() <= ctx.now) {
            self.on_reconfig_timer(ctx);
        }
        if self.timers.t5_shutdown_guard <= ctx.now {
            self.on_shutdown_guard(ctx);
        }
        if self
            .port_changes
            .as_ref()
            .is_some_and(|changes| changes.next_timeout() <= ctx.now)
        {
            self.on_port_timer(ctx);
        }
        let progress = self.sending.on_timers(ctx, self.state.may_send_data());
        self.apply(ctx, progress);
        if self.timers.autoclose <= ctx.now {
            self.on_autoclose(ctx);
        }
        if let Some(receiver) = &mut self.receiving.receiver
            && receiver.sack_deadline().is_some_and(|deadline| deadline <= ctx.now)
        {
            receiver.request_sack();
        }
    }

    /// Asks again for a packet that opens, or ends the association.
    fn on_proof_timer(&mut self, ctx: &mut Context<'_>) {
        self.trace_timer(ctx, TimerKind::Proof, None);
        if self.awaits_proof_again(ctx.now) {
            let path = self.sending.sending_path();
            self.sending.bundle_heartbeat(ctx, path);
        } else {
            self.close(ctx, CloseReason::HandshakeTimeout);
        }
    }

    /// A timer of requests for changes of streams has expired.
    // [6525:5.1.1-10, 5.1.1-11, 5.2.7-3, 5.2.7-4]
    fn on_reconfig_timer(&mut self, ctx: &mut Context<'_>) {
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return;
        };
        reconfig.ask_again(ctx.now);
        let Some((path, is_answered)) = reconfig.on_timer(ctx.now) else {
            return;
        };
        self.trace_timer(ctx, TimerKind::Reconfig, Some(path));
        // RFC 6525 §5.2.7 H2: the peer has answered, and waits itself.
        if self.state.may_send_data() && !is_answered {
            let progress = self.sending.on_control_timeout(ctx, path);
            self.apply(ctx, progress);
        }
        if self.state.may_send_data() {
            self.send_request(ctx.now, true);
        }
    }

    /// Sets the deadline for the peer's first message.
    pub(crate) fn expect_message(&mut self, deadline: Time) {
        self.timers.t1 = deadline;
    }

    /// Returns whether the association waits for the peer's first message, or its first acknowledgement of data, with a deadline
    /// ([`EndpointConfig::first_message_timeout`](crate::EndpointConfig::first_message_timeout)).
    pub fn is_silent(&self) -> bool {
        self.ends.accepted && (self.timers.t1 != NEVER || self.awaits_proof())
    }

    /// A message has arrived, or the peer has acknowledged data: it is no handshake without a purpose.
    pub(super) fn note_use(&mut self) {
        // Whoever has sent no more than messages for the keys may be anyone.
        if self.ends.accepted && !self.awaits_proof() {
            self.timers.t1 = NEVER;
        }
    }

    /// Returns when a message was last accepted from the user, or user data was last received.
    pub(crate) fn last_activity(&self) -> Time {
        self.timers.last_activity
    }

    /// The heartbeat timer of a path expired (RFC 9260 §8.3).
    fn on_heartbeat_timer(&mut self, ctx: &mut Context<'_>, index: PathId) {
        if !self.state.may_send_data() {
            // RFC 9260 §8.3: no heartbeats after SHUTDOWN has been sent.
            self.sending.stop_heartbeat_timer(index);
        } else if self.sending.paths()[index].is_pending() {
            self.retry_pending_path(ctx, index);
        } else {
            let (is_idle, progress) = self.sending.on_heartbeat_timer(ctx, index);
            self.apply(ctx, progress);
            if is_idle {
                self.release_memory();
                if self.tuning.is_some() && self.is_quiet(ctx.now, self.config.path_hb_interval) {
                    self.reset_buffers(ctx);
                }
            }
        }
    }

    pub(super) fn trace_timer(&self, ctx: &mut Context<'_>, timer: TimerKind, path: Option<PathId>) {
        ctx.trace
            .emit(TraceKinds::STATES, ctx.now, Some(self.id()), || TraceEvent::Timer {
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
        self.handshake.init_retransmits = self.handshake.init_retransmits.saturating_add(1);
        if self.handshake.init_retransmits > self.config.max_init_retransmits {
            self.close(ctx, CloseReason::HandshakeTimeout);
            return;
        }
        self.sending.try_next_path();
        if waits_for_init_ack {
            self.sending.push_on_sending_path(Outgoing::Init { preserve_ms: None });
        } else {
            self.sending.lose_early_data(ctx);
            self.sending.push_on_sending_path(Outgoing::CookieEcho);
        }
        self.timers.t1 = ctx.now + self.sending.handshake_timeout();
    }
}
