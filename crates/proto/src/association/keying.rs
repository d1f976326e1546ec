//! Key management with messages (draft-porfiri-tsvwg-sctp-dtls-handshake): the messages as user data of the association, what is allowed before
//! its packets are encrypted, and the renewal of keys. `crate::protection` has the handshakes and the keys.
//!
//! Before the packets are encrypted, whoever sees them can change and invent some. Chunks that could have an effect later are not accepted: those of
//! changes of addresses and streams, those that give up messages, and data other than that of the handshake, which must come in the order of
//! its TSNs. Otherwise a fragment that an attacker sends ahead would become a part of a message that is encrypted.
//!
//! Nothing in the handshake of TLS depends on TSNs and message numbers. Whoever inserts messages before encryption, or cuts them, shifts them at the
//! receiver, which would take the first encrypted messages for duplicates. So the client of the handshake sends no messages of the user
//! before an encrypted SACK has acknowledged its last message, and both ends refuse numbers that they have seen in plaintext.

use whimbrel_control::Time;
use whimbrel_wire::{Cause, Chunk, Data, key_management};

use super::Association;
use crate::config::NEVER;
use crate::context::Context;
use crate::error::Discard;
use crate::event::CloseReason;
use crate::message::Message;
use crate::protection::{KeyFailure, Protection, Role, Step};
use crate::trace::TimerKind;

/// Most bytes of a reason that an ABORT names.
const MAX_REASON: usize = 256;

impl Association {
    /// Begins the exchange of messages for the first keys.
    pub(super) fn begin_keying(&mut self, ctx: &mut Context<'_>) {
        if let Some(protection) = self.agreed.protection_mut() {
            let step = protection.begin_management(ctx.now);
            self.apply_step(ctx, step);
        }
    }

    /// Renews the keys if that is due.
    pub(super) fn renew_keys_if_due(&mut self, ctx: &mut Context<'_>) {
        let is_due = |protection: &Protection| protection.needs_new_keys(ctx.now);
        if self.state.may_send_data()
            && self.agreed.protection().is_some_and(is_due)
            && let Some(protection) = self.agreed.protection_mut()
        {
            let step = protection.renew(ctx.now);
            self.apply_step(ctx, step);
        }
    }

    /// Returns when the time for a handshake of key management is over, or keys have to be renewed.
    pub(super) fn keying_due(&self) -> Time {
        match self.state.may_send_data() {
            true => self.agreed.protection().map_or(NEVER, Protection::management_due),
            false => NEVER,
        }
    }

    pub(super) fn on_keying_timer(&mut self, ctx: &mut Context<'_>) {
        self.trace_timer(ctx, TimerKind::KeyManagement, None);
        if let Some(protection) = self.agreed.protection_mut() {
            let step = protection.on_management_timer(ctx.now);
            self.apply_step(ctx, step);
        }
    }

    /// Returns whether a chunk of a packet in plaintext is processed while keys are being exchanged.
    pub(super) fn is_for_keying(&self, chunk: &Chunk<'_>) -> bool {
        let cumulative = match chunk {
            Chunk::Sack(sack) => Some(sack.cumulative_tsn_ack),
            Chunk::NrSack(sack) => Some(sack.cumulative_tsn_ack),
            Chunk::NewGaps(sack) => Some(sack.cumulative_tsn_ack),
            _ => None,
        };
        if let Some(cumulative) = cumulative {
            // The server has the keys when it has received the last message of the client, and acknowledges that encrypted.
            let waits = self.agreed.protection().is_some_and(Protection::waits_for_peer);
            let is_of_last = !self.sending.last_tsn().is_after(cumulative);
            return !(waits && is_of_last && self.sending.has_sent_own());
        }
        !matches!(
            chunk,
            Chunk::Asconf(_)
                | Chunk::AsconfAck(_)
                | Chunk::ReConfig { .. }
                | Chunk::ForwardTsn(_)
                | Chunk::Shutdown { .. }
                | Chunk::ShutdownAck
                | Chunk::ShutdownComplete { .. }
                | Chunk::Error { .. }
                | Chunk::Ecne { .. }
                | Chunk::Cwr { .. }
                | Chunk::Timestamp(_)
        )
    }

    /// Plaintext ends with the first encrypted packet: what comes in plaintext later is not the peer's. Returns false if something other than the
    /// handshake has been received, and ends the association then.
    pub(super) fn end_plaintext(&mut self, ctx: &mut Context<'_>) -> bool {
        let receiver = self.receiving.receiver.as_ref();
        let holds_nothing = receiver.is_none_or(|receiver| receiver.holds_no_user_data());
        let number = receiver.map_or(0, |receiver| receiver.expected_number(0));
        let Some(protection) = self
            .agreed
            .protection_mut()
            .filter(|known| known.first_number().is_none())
        else {
            return true;
        };
        protection.end_plaintext(number);
        if !holds_nothing {
            self.abort_for_violation(ctx, "user data before encryption");
        }
        holds_nothing
    }

    /// Checks a DATA chunk: what may come in plaintext, and what may follow it.
    ///
    /// # Errors
    /// Returns an error if it is not processed. The association may have ended.
    #[inline]
    pub(super) fn check_data(&mut self, ctx: &mut Context<'_>, data: &Data<'_>, is_plain: bool) -> Result<(), Discard> {
        match is_plain {
            true => self.check_keying_data(ctx, data),
            false => self.check_first_numbers(ctx, data),
        }
    }

    /// Checks an encrypted DATA chunk, until the first message has come that was encrypted.
    ///
    /// # Errors
    /// Returns an error, and ends the association, if its message number was used in plaintext: that message was not the peer's.
    #[inline]
    fn check_first_numbers(&mut self, ctx: &mut Context<'_>, data: &Data<'_>) -> Result<(), Discard> {
        let first = self.agreed.protection().and_then(Protection::first_number);
        let (Some(first), Some(receiver)) = (first, self.receiving.receiver.as_ref()) else {
            return Ok(());
        };
        let is_new = data.stream == 0 && !data.unordered && data.tsn.is_after(receiver.cumulative_tsn());
        if is_new && receiver.expected_number(0) == first && receiver.is_before_expected(data) {
            self.abort_for_violation(ctx, "messages were inserted before encryption");
            return Err(Discard::Unprotected);
        }
        Ok(())
    }

    /// Checks a DATA chunk in plaintext.
    ///
    /// # Errors
    /// Returns an error if it is not the next one of the handshake. If it is no data of a handshake at all, the association ends.
    fn check_keying_data(&mut self, ctx: &mut Context<'_>, data: &Data<'_>) -> Result<(), Discard> {
        // Only the first fragment in I-DATA names the identifier (RFC 8260 §2.1).
        let has_ppid = data.begin || !data.number.is_mid();
        let is_other = has_ppid && data.ppid != key_management::PPID;
        if is_other || data.stream != 0 || data.unordered {
            self.abort_for_violation(ctx, "user data before encryption");
            return Err(Discard::Unprotected);
        }
        let has_ended = self
            .agreed
            .protection()
            .is_some_and(|known| known.first_number().is_some());
        let receiver = self.receiving.receiver.as_ref();
        let is_ahead =
            has_ended || receiver.is_some_and(|receiver| data.tsn.is_after(receiver.cumulative_tsn().next()));
        if is_ahead {
            return Err(Discard::Unprotected);
        }
        let protection = self.agreed.protection_mut();
        if let Some(Err(failure)) = protection.map(|protection| protection.count_plaintext(data.payload.len())) {
            self.end_keying(ctx, failure);
            return Err(Discard::Limit);
        }
        Ok(())
    }

    /// Processes the messages of key management that have arrived.
    pub(super) fn take_key_messages(&mut self, ctx: &mut Context<'_>) {
        while let Some((received, content)) = self
            .receiving
            .receiver
            .as_mut()
            .and_then(|receiver| receiver.take_aside())
        {
            if received.stream != 0 || received.unordered {
                self.abort_for_violation(ctx, "a message of key management that is not ordered on stream 0");
                return;
            }
            let Some(protection) = self.agreed.protection_mut() else {
                return;
            };
            let step = protection.on_key_message(ctx.now, &content);
            self.apply_step(ctx, step);
        }
    }

    fn apply_step(&mut self, ctx: &mut Context<'_>, step: Result<Step, KeyFailure>) {
        let step = match step {
            Ok(step) => step,
            Err(failure) => return self.end_keying(ctx, failure),
        };
        // An end waits for the acknowledgement before it reports the association: a delayed one would cost 200 ms (RFC 7053). On another path the
        // peer verifies the address again, encrypted, before it sends anything else there.
        let immediate = self.sending.uses_primary();
        for content in step.messages {
            self.sending.enqueue_own(Message {
                ppid: key_management::PPID,
                immediate,
                ..Message::new(0, content)
            });
        }
        if step.is_established && !self.is_in_use() && self.end_plaintext(ctx) {
            let exchange = self.agreed.protection().map(Protection::exchange);
            if exchange.is_some_and(|exchange| exchange.role() == Role::Server) {
                self.take_as_received(ctx);
            }
            self.release_if_acknowledged(ctx);
        }
    }

    /// Lets the messages of the user go once the packets are encrypted and the peer has shown, encrypted, that it has received this end's last
    /// message of the handshake, and no other one under its TSN.
    #[inline]
    pub(super) fn release_if_acknowledged(&mut self, ctx: &mut Context<'_>) {
        if self.sending.is_held_back() && self.requires_protection() && self.sending.nothing_outstanding() {
            self.sending.hold_back(false);
            self.announce(ctx.now);
            self.begin_use(ctx);
        }
    }

    /// The peer has received all messages of the handshake, as it shows by its last one. Acknowledgements in plaintext that are still under way
    /// are discarded, and without them the next message could not be sent (RFC 9260 §7.2.3).
    fn take_as_received(&mut self, ctx: &mut Context<'_>) {
        if !self.sending.nothing_outstanding() {
            let last = self.sending.last_tsn();
            // It is a TSN that was sent.
            let _ = self.on_cumulative_ack(ctx, last);
        }
    }

    /// Returns whether the user knows of the association, or will once the peer has shown that it has the keys.
    fn is_in_use(&self) -> bool {
        !self.sending.is_held_back()
    }

    /// Ends the association. The ABORT says why.
    fn end_keying(&mut self, ctx: &mut Context<'_>, failure: KeyFailure) {
        let (text, reason) = match failure {
            KeyFailure::Handshake(error) => {
                let text = error.to_string();
                // In plaintext, it would show others who the peer is, which TLS hides.
                let shown = match self.requires_protection() {
                    true => text.clone(),
                    false => "no keys: the peer is not trusted, or messages were changed on their way".to_owned(),
                };
                (shown, CloseReason::NotAuthenticated(text))
            }
            KeyFailure::Violation(what) => return self.abort_for_violation(ctx, what),
            KeyFailure::Limit(what) => (what.to_owned(), CloseReason::OverLimit(what)),
            KeyFailure::Timeout => {
                let what = "no end of the exchange of keys in time";
                (what.to_owned(), CloseReason::OverLimit(what))
            }
        };
        let mut causes = Vec::new();
        let shown = text.len().min(MAX_REASON).min(self.sending.largest_chunk() - 8);
        Cause::UserInitiatedAbort(&text.as_bytes()[..shown]).emit(&mut causes);
        self.abort_with(ctx, &causes, reason);
    }
}
