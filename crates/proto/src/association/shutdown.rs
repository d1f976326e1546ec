//! The end of an association: shutdown and abort (RFC 9260 §9).

use whimbrel_control::Time;
use whimbrel_wire::{Cause, Causes, Parameter, Tsn};

use super::{Association, State};
use crate::config::NEVER;
use crate::context::Context;
use crate::endpoint::{Reply, ReplyChunk};
use crate::error::Discard;
use crate::event::{CloseReason, Event};
use crate::send::path::Path;
use crate::send::{Outgoing, pair_address};
use crate::trace::TimerKind;
use crate::{PathId, TransportAddr};

impl Association {
    /// SHUTDOWN primitive (RFC 9260 §11.1.3): queued messages are still delivered, new ones are refused.
    // [9260:9.2-7]
    pub(crate) fn shutdown(&mut self, ctx: &mut Context<'_>) {
        match self.state {
            State::CookieWait | State::CookieEchoed => self.user.notices.shutdown_wanted = true,
            State::Established if self.agreed.is_keying(self.state) => self.user.notices.shutdown_wanted = true,
            State::Established => {
                self.set_state(ctx, State::ShutdownPending);
                self.guard_shutdown(ctx.now);
                self.advance_shutdown(ctx);
            }
            // RFC 9260 §9.2: in SHUTDOWN-RECEIVED the request is ignored; elsewhere it has been made already.
            _ => {}
        }
    }

    /// Executes a shutdown that was requested before the association was established.
    pub(super) fn shutdown_if_wanted(&mut self, ctx: &mut Context<'_>) {
        if self.user.notices.shutdown_wanted {
            self.shutdown(ctx);
        }
    }

    /// Proceeds with the shutdown if all data is acknowledged.
    // [9260:9.2-1, 9.2-11, 9.2-12, 9.2-13, 9.2-20, 3.3.8-1, 3.3.9-1]
    pub(super) fn advance_shutdown(&mut self, ctx: &mut Context<'_>) {
        // The exchange waits until a path may be used for it.
        if !self.sending.is_idle() || self.sending.is_held() {
            return;
        }
        match self.state {
            State::ShutdownPending => {
                self.set_state(ctx, State::ShutdownSent);
                self.guard_shutdown(ctx.now);
                // All data is acknowledged, so a primary path that has failed since need not be tried again.
                let path = self
                    .sending
                    .control_path(self.sending.sending_path(), false, Path::is_open);
                let path = path.unwrap_or(self.sending.sending_path());
                self.begin_shutdown_exchange(ctx.now, path, Outgoing::Shutdown);
            }
            State::ShutdownReceived => {
                self.set_state(ctx, State::ShutdownAckSent);
                let path = self.sending.confirmed_or_sending(self.sending.shutdown_path());
                self.begin_shutdown_exchange(ctx.now, path, Outgoing::ShutdownAck);
            }
            _ => {}
        }
    }

    /// Starts T5-shutdown-guard, and notes how far the data is.
    fn guard_shutdown(&mut self, now: Time) {
        let guard = self.config.shutdown_guard.unwrap_or(self.config.rto_max * 5);
        self.timers.t5_shutdown_guard = now + guard;
        self.timers.guarded_progress = self.data_progress();
    }

    /// Returns a number that grows whenever the peer acknowledges data or the user reads some, while nothing new is sent.
    fn data_progress(&self) -> u64 {
        let unacknowledged = self.sending.buffered() as u64;
        self.user.stats.bytes_delivered.wrapping_sub(unacknowledged)
    }

    /// T5-shutdown-guard expired. While data is left to be sent, the peer may take its time (RFC 9260 §6.1 A), unless this end blocks the peer:
    /// where both users shut down with full buffers and neither reads, nothing would ever end it.
    pub(super) fn on_shutdown_guard(&mut self, ctx: &mut Context<'_>) {
        self.trace_timer(ctx, TimerKind::T5ShutdownGuard, None);
        let receiver = self.receiving.receiver.as_ref();
        let is_blocking = receiver.is_some_and(|receiver| receiver.advertised_window() < u32::from(self.config.mtu));
        let has_progressed = self.timers.guarded_progress != self.data_progress();
        // A peer whose user does not read has the data, and answers a reset never.
        let is_blocked = is_blocking || self.sending.waits_for_reset();
        if self.state == State::ShutdownPending && (has_progressed || !is_blocked) {
            self.guard_shutdown(ctx.now);
        } else {
            self.abort_with(ctx, &[], CloseReason::ShutdownTimeout);
        }
    }

    fn begin_shutdown_exchange(&mut self, now: Time, path: PathId, chunk: Outgoing) {
        self.sending.clear_errors();
        self.timers.autoclose = NEVER;
        self.send_with_t2(now, path, chunk);
    }

    /// Sends SHUTDOWN or SHUTDOWN ACK on this path, and starts T2-shutdown with its RTO.
    fn send_with_t2(&mut self, now: Time, path: PathId, chunk: Outgoing) {
        self.sending.set_shutdown_path(path);
        self.sending.control().push(path, chunk);
        self.restart_t2(now);
    }

    fn restart_t2(&mut self, now: Time) {
        self.timers.t2_shutdown = now + self.sending.paths()[self.sending.shutdown_path()].rtt().rto();
    }

    /// T2-shutdown expired: retransmits the chunk, on another path if one may respond (RFC 9260 §6.4, §9.2).
    // [9260:6.4-4, 9.2-2, 9.2-3, 9.2-4, 9.2-5, 9.2-14, 9.2-15, 9.2-16]
    pub(super) fn on_t2_shutdown(&mut self, ctx: &mut Context<'_>) {
        let index = self.sending.shutdown_path();
        self.trace_timer(ctx, TimerKind::T2Shutdown, Some(index));
        self.timers.t2_shutdown = NEVER;
        let progress = self.sending.on_control_timeout(ctx, index);
        self.apply(ctx, progress);
        let chunk = match self.state {
            State::ShutdownSent => Outgoing::Shutdown,
            State::ShutdownAckSent => Outgoing::ShutdownAck,
            _ => return,
        };
        let next = self.sending.control_path(index, true, Path::is_open);
        self.send_with_t2(ctx.now, next.unwrap_or(self.sending.sending_path()), chunk);
    }

    /// A packet arrived while waiting for SHUTDOWN ACK: the peer responds, so T2-shutdown is restarted (RFC 9260 §9.2).
    // [9260:9.2-6]
    pub(super) fn on_packet_in_shutdown_sent(&mut self, now: Time) {
        self.sending.clear_errors();
        self.restart_t2(now);
    }

    /// Data arrived while waiting for SHUTDOWN ACK: it is answered at once with SHUTDOWN (RFC 9260 §9.2).
    // [9260:9.2-9, 9.2-10, 4-9, 6.2-18]
    pub(super) fn on_data_in_shutdown_sent(&mut self, now: Time, from: PathId) {
        self.send_with_t2(now, self.sending.confirmed_or_sending(from), Outgoing::Shutdown);
        if let Some(receiver) = &mut self.receiving.receiver
            && receiver.has_gap()
        {
            receiver.request_sack();
        }
    }

    // [9260:9.2-8, 9.2-25, 4-11, 3.3.8-2]
    pub(super) fn on_shutdown(
        &mut self,
        ctx: &mut Context<'_>,
        from: PathId,
        cumulative_tsn_ack: Tsn,
    ) -> Result<(), Discard> {
        // RFC 9260 §6.4: SHUTDOWN ACK is sent to the source of SHUTDOWN.
        let reply_path = self.sending.confirmed_or_sending(from);
        match self.state {
            State::Established | State::ShutdownPending => {
                self.sending.set_shutdown_path(reply_path);
                self.set_state(ctx, State::ShutdownReceived);
                // The peer guards the shutdown from here on.
                self.timers.t5_shutdown_guard = NEVER;
                self.user.events.push_back(Event::PeerShutdown);
                // A SHUTDOWN that a SACK has overtaken acknowledges nothing, but is still valid.
                let acknowledged = self.on_cumulative_ack(ctx, cumulative_tsn_ack);
                self.advance_shutdown(ctx);
                return acknowledged;
            }
            State::ShutdownReceived => {
                self.sending.set_shutdown_path(reply_path);
                self.on_cumulative_ack(ctx, cumulative_tsn_ack)?;
            }
            State::ShutdownSent => {
                // Both endpoints shut down at the same time.
                self.set_state(ctx, State::ShutdownAckSent);
                self.send_with_t2(ctx.now, reply_path, Outgoing::ShutdownAck);
            }
            State::ShutdownAckSent => self.sending.control().push(reply_path, Outgoing::ShutdownAck),
            State::CookieWait | State::CookieEchoed | State::Closed => return Err(Discard::Unexpected),
        }
        Ok(())
    }

    /// Handles SHUTDOWN ACK. The caller has handled the states before ESTABLISHED, in which the chunk is out of the
    /// blue (RFC 9260 §8.5.1 E).
    // [9260:9.2-17, 9.2-26, 8.5.1-8, 3.3.13-1, 5.4-2]
    pub(super) fn on_shutdown_ack(&mut self, ctx: &mut Context<'_>, from: PathId) -> Result<(), Discard> {
        if !matches!(self.state, State::ShutdownSent | State::ShutdownAckSent) {
            return Err(Discard::Unexpected);
        }
        let to = self.sending.confirmed_or_sending(from);
        self.reply_last(ctx, to, ReplyChunk::ShutdownComplete { reflected: false });
        self.close(ctx, CloseReason::Graceful);
        Ok(())
    }

    // [9260:9.2-18, 9.2-19, 8.5.1-11]
    pub(crate) fn on_shutdown_complete(&mut self, ctx: &mut Context<'_>) -> Result<(), Discard> {
        if self.state != State::ShutdownAckSent {
            return Err(Discard::Unexpected);
        }
        self.close(ctx, CloseReason::Graceful);
        Ok(())
    }

    /// Handles ABORT. `reflected`: the peer has no such association (RFC 9260 §8.4 rule 8).
    // [9260:9.1-4, 9.1-6, 9.1-7, 3.3.7-4]
    pub(crate) fn on_abort(&mut self, ctx: &mut Context<'_>, reflected: bool, causes: Causes<'_>) {
        let cause = causes.iter().find_map(Result::ok).map(|first| first.code());
        let text = causes.iter().find_map(|cause| match cause {
            // The reason comes from the network, so only its beginning is kept.
            Ok(Cause::UserInitiatedAbort(text)) => Some(&text[..text.len().min(256)]),
            _ => None,
        });
        let reason = String::from_utf8_lossy(text.unwrap_or_default()).into_owned();
        if self.state == State::CookieWait {
            self.close(ctx, CloseReason::Refused { cause });
        } else if self.state == State::ShutdownAckSent && reflected {
            // All data is delivered in both directions: the peer has finished, and its SHUTDOWN COMPLETE was lost.
            self.close(ctx, CloseReason::Graceful);
        } else {
            self.close(ctx, CloseReason::AbortedByPeer { cause, reason });
        }
    }

    /// ABORT primitive (RFC 9260 §11.1.4).
    // [9260:9.1-1, 9.1-3]
    pub(crate) fn abort(&mut self, ctx: &mut Context<'_>, reason: &str) {
        let mut causes = Vec::new();
        // Truncated to the room after the headers of chunk and cause.
        let len = reason.len().min(self.sending.largest_chunk() - 8);
        Cause::UserInitiatedAbort(&reason.as_bytes()[..len]).emit(&mut causes);
        self.abort_with(ctx, &causes, CloseReason::AbortedLocally(reason.to_owned()));
    }

    /// Aborts because the peer's message exceeds the configured limit. The limit is the upper layer's, so the cause is
    /// User-Initiated Abort (RFC 9260 §3.3.10.12).
    pub(super) fn refuse_long_message(&mut self, ctx: &mut Context<'_>) {
        let limit = self.config.max_message.unwrap_or(u32::MAX);
        let reason = format!("message longer than {limit} bytes");
        let mut causes = Vec::new();
        Cause::UserInitiatedAbort(reason.as_bytes()).emit(&mut causes);
        self.abort_with(ctx, &causes, CloseReason::OverLimit("a message is too long"));
    }

    /// Aborts the association to free resources: ABORT with the cause Out of Resource (RFC 9260 §3.3.10.4), and the limit as the reason of a
    /// User-Initiated Abort. Unread data is dropped.
    pub(crate) fn abort_for_resources(&mut self, ctx: &mut Context<'_>, limit: &'static str) {
        let mut causes = Vec::new();
        Cause::OutOfResource.emit(&mut causes);
        Cause::UserInitiatedAbort(limit.as_bytes()).emit(&mut causes);
        self.receiving.receiver = None;
        self.receiving.before_restart = None;
        self.abort_with(ctx, &causes, CloseReason::OverLimit(limit));
    }

    /// Sends ABORT, if the peer's tag is known, and ends the association. No packet follows the ABORT.
    // [9260:3.3.7-2]
    pub(super) fn abort_with(&mut self, ctx: &mut Context<'_>, causes: &[u8], reason: CloseReason) {
        if self.state != State::Closed && self.ends.peer_tag != 0 {
            let to = self.sending.sending_path();
            self.reply_last(
                ctx,
                to,
                ReplyChunk::Abort {
                    reflected: false,
                    causes: causes.into(),
                },
            );
        }
        self.close(ctx, reason);
    }

    /// Queues a packet that is sent after the association's end.
    // [9260:9.1-2, 3.3.7-1, 8.5.1-4]
    fn reply_last(&mut self, ctx: &mut Context<'_>, path: PathId, chunk: ReplyChunk) {
        let (local, remote) = self.sending.path_addrs(path);
        // RFC 4895 §3.2: SHUTDOWN COMPLETE is never authenticated and not bundled.
        let is_signed = !matches!(chunk, ReplyChunk::ShutdownComplete { .. });
        let every_packet = self.agreed.auth.as_ref().is_some_and(|auth| auth.every_packet);
        let Some(guard) = self.guard(every_packet && is_signed) else {
            return;
        };
        ctx.replies.push(Reply {
            local,
            remote,
            source_port: self.ends.local_port,
            destination_port: self.ends.peer_port,
            verification_tag: self.ends.peer_tag,
            chunk,
            guard,
        });
    }

    /// Returns the addresses that a restarting peer must not add (RFC 9260 §5.2.2), as parameters. Those that no local address reaches are
    /// not new: the association left them out when it began.
    // [9260:5.2.1-9, 5.2.2-4]
    pub(crate) fn new_addresses(&self, addrs: &[TransportAddr]) -> Vec<u8> {
        let mut parameters = Vec::new();
        let is_reached = |addr: &TransportAddr| pair_address(&self.ends.local_addrs, &[], *addr).is_some();
        let is_new = |addr: &&TransportAddr| !self.sending.has_remote(addr.ip()) && is_reached(addr);
        for addr in addrs.iter().filter(is_new) {
            match addr.ip() {
                std::net::IpAddr::V4(ip) => Parameter::Ipv4(ip).emit(&mut parameters),
                std::net::IpAddr::V6(ip) => Parameter::Ipv6(ip).emit(&mut parameters),
            }
        }
        parameters
    }
}
