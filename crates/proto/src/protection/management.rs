//! Handshakes of a key management method with messages: what they bring about in the keys of an association. `manager.rs` has their state.

use std::sync::Arc;

use whimbrel_control::Time;

use super::handshake::{EpochKeys, HandshakeError};
use super::manager::{
    Attempt, CONTROL, KeyFailure, LEAST_INTERVAL, MAX_HANDSHAKE, MAX_HURRIED, PROTECTION_ESTABLISHED, Step, TAG_LEN,
    TOO_LONG, bits,
};
use super::opening::OpenKeys;
use super::sealing::SealKeys;
use super::state::Protection;
use super::{Protect, Role};
use crate::config::NEVER;

impl Protection {
    /// The handshake of SCTP is done. Begins the first one of key management, with the role that was negotiated.
    ///
    /// # Errors
    /// Returns an error if this end cannot begin.
    pub(crate) fn begin_management(&mut self, now: Time) -> Result<Step, KeyFailure> {
        let role = self.exchange.role;
        if let Some(manager) = &mut self.manager {
            manager.due = now + manager.timeout;
        }
        self.begin_attempt(now, role)
    }

    /// Begins a handshake with this role in the place of any other.
    fn begin_attempt(&mut self, now: Time, role: Role) -> Result<Step, KeyFailure> {
        let handshake = self.source.begin(&self.exchange, role)?;
        if let Some(manager) = &mut self.manager {
            manager.attempt = Some(Attempt {
                handshake,
                role,
                received: 0,
                waiting: None,
            });
        }
        self.advance(now)
    }

    /// Returns whether the keys have to be renewed by a new handshake, and none is under way: half of their uses are spent, or they are old.
    pub(crate) fn needs_new_keys(&self, now: Time) -> bool {
        let Some(manager) = self.manager.as_deref().filter(|manager| manager.is_in_force()) else {
            return false;
        };
        manager.attempt.is_none()
            && manager.failed.is_none()
            && manager.renewed + LEAST_INTERVAL <= now
            && (manager.due <= now
                || manager.bytes >= manager.max_bytes
                || self.sealing.as_ref().is_some_and(SealKeys::is_half_spent)
                || self.opening.as_ref().is_some_and(OpenKeys::is_half_spent))
    }

    /// Begins to renew the keys. The end that begins is the client (draft, "Rekeying").
    ///
    /// # Errors
    /// Returns an error if this end cannot begin.
    pub(crate) fn renew(&mut self, now: Time) -> Result<Step, KeyFailure> {
        if let Some(manager) = &mut self.manager {
            manager.due = manager.last_moment();
        }
        self.begin_attempt(now, Role::Client)
    }

    /// Returns when [`on_management_timer`](Self::on_management_timer) has to be called.
    pub(crate) fn management_due(&self) -> Time {
        self.manager.as_ref().map_or(NEVER, |manager| manager.due)
    }

    /// The time for a handshake is over, or the keys have to be renewed.
    ///
    /// # Errors
    /// Returns an error if the association has to end.
    pub(crate) fn on_management_timer(&mut self, now: Time) -> Result<Step, KeyFailure> {
        let Some(manager) = self.manager.as_deref().filter(|manager| manager.due <= now) else {
            return Ok(Step::default());
        };
        if let Some(error) = &manager.failed {
            return Err(error.clone().into());
        }
        if !manager.is_in_force() {
            return Err(KeyFailure::Timeout);
        }
        if manager.last_moment() <= now {
            return Err(KeyFailure::Limit("the keys are too old and could not be renewed"));
        }
        if manager.attempt.is_none() {
            return self.renew(now);
        }
        // The peer has begun to renew them.
        if let Some(manager) = &mut self.manager {
            manager.due = manager.last_moment();
        }
        Ok(Step::default())
    }

    /// Returns whether this end is the client of the first handshake, and has sent its last message.
    pub(crate) fn waits_for_peer(&self) -> bool {
        let manager = self.manager.as_deref().filter(|manager| !manager.is_in_force());
        manager.is_some_and(|manager| {
            manager
                .attempt
                .as_ref()
                .is_some_and(|attempt| attempt.waiting.is_some())
        })
    }

    /// Plaintext has ended. `number`: that of the next message on stream 0.
    pub(crate) fn end_plaintext(&mut self, number: u32) {
        if let Some(manager) = &mut self.manager {
            manager.first_number.get_or_insert(number);
        }
    }

    /// Returns the number of the first message on stream 0 that is encrypted, once plaintext has ended.
    #[inline]
    pub(crate) fn first_number(&self) -> Option<u32> {
        self.manager.as_ref()?.first_number
    }

    /// Counts user data that has arrived in plaintext.
    ///
    /// # Errors
    /// Returns an error if there is more than a handshake needs: it is kept before the peer is known.
    pub(crate) fn count_plaintext(&mut self, bytes: usize) -> Result<(), KeyFailure> {
        match &mut self.manager {
            Some(manager) => {
                manager.plaintext += bytes;
                let fits = manager.plaintext <= MAX_HANDSHAKE;
                fits.then_some(()).ok_or(TOO_LONG)
            }
            None => Ok(()),
        }
    }

    /// Processes a message of the peer. If the handshake fails, an alert is sent before the association ends by the timer.
    ///
    /// # Errors
    /// Returns an error if the association has to end.
    pub(crate) fn on_key_message(&mut self, now: Time, message: &[u8]) -> Result<Step, KeyFailure> {
        if self.manager.as_ref().is_some_and(|manager| manager.failed.is_some()) {
            return Ok(Step::default());
        }
        let result = match message.split_first() {
            None => Err(KeyFailure::Violation("a message of key management without content")),
            Some((&first, payload)) if first & CONTROL != 0 => self.on_control(now, bits(first.into()), payload),
            Some((&epoch, payload)) => self.on_payload(now, epoch, payload),
        };
        let Err(KeyFailure::Handshake(error)) = result else {
            return result;
        };
        // The alert of TLS (draft, "Error Handling"). There is none if the peer has sent one.
        let mut step = Step::default();
        self.collect(&mut step);
        if step.messages.is_empty() {
            return Err(error.into());
        }
        if let Some(manager) = &mut self.manager {
            manager.attempt = None;
            manager.failed = Some(error);
            manager.due = now;
        }
        Ok(step)
    }

    /// A control message. Unknown ones are ignored.
    fn on_control(&mut self, now: Time, epoch: u8, payload: &[u8]) -> Result<Step, KeyFailure> {
        let is_confirmed = self.is_confirmed;
        let Some(manager) = &mut self.manager else {
            return Ok(Step::default());
        };
        if payload.first() != Some(&PROTECTION_ESTABLISHED) {
            return Ok(Step::default());
        }
        let is_expected = is_confirmed && epoch == manager.next_bits();
        let waiting = manager.attempt.as_mut().filter(|_| is_expected);
        let Some((seal, peer)) = waiting.and_then(|attempt| attempt.waiting.take()) else {
            // Once the packets are encrypted, it is a repeated or late one of the peer's.
            let is_early = !manager.is_in_force();
            return match is_early {
                true => Err(KeyFailure::Violation("Protection Established before the keys")),
                false => Ok(Step::default()),
            };
        };
        manager.begin_epoch(now, peer, self.exchange.role);
        self.send_with(seal);
        Ok(Step {
            messages: Vec::new(),
            is_established: true,
        })
    }

    /// A message of the method.
    fn on_payload(&mut self, now: Time, epoch: u8, payload: &[u8]) -> Result<Step, KeyFailure> {
        let Some(manager) = &mut self.manager else {
            return Ok(Step::default());
        };
        if epoch != manager.next_bits() {
            // What follows a handshake that is done, such as a ticket, has no meaning here.
            return match manager.is_in_force() {
                true => Ok(Step::default()),
                false => Err(KeyFailure::Violation("a message of key management for another epoch")),
            };
        }
        let is_first = self.source.is_first(self.exchange.method, payload);
        let mut before = Step::default();
        match &manager.attempt {
            Some(attempt) if attempt.role == Role::Client && is_first => {
                // Draft, "Simultaneous Rekey Resolution": that of the key management client counts.
                if self.exchange.role == Role::Client {
                    return Ok(before);
                }
                before = self.begin_attempt(now, Role::Server)?;
            }
            Some(_) => {}
            None if !is_first => return Ok(before),
            None => {
                let is_hurried = now < manager.renewed + LEAST_INTERVAL;
                manager.hurried = if is_hurried { manager.hurried + 1 } else { 0 };
                if manager.hurried > MAX_HURRIED {
                    return Err(KeyFailure::Violation("keys are renewed too often"));
                }
                before = self.begin_attempt(now, Role::Server)?;
            }
        }
        let attempt = self.manager.as_mut().and_then(|manager| manager.attempt.as_mut());
        if let Some(attempt) = attempt {
            attempt.received += payload.len();
            if attempt.received > MAX_HANDSHAKE {
                return Err(TOO_LONG);
            }
            attempt.handshake.on_message(payload)?;
        }
        let mut step = self.advance(now)?;
        before.messages.append(&mut step.messages);
        before.is_established = step.is_established;
        Ok(before)
    }

    /// Takes the messages that the handshake sends.
    fn collect(&mut self, step: &mut Step) {
        let Some(manager) = &mut self.manager else { return };
        let first = manager.next_bits();
        if let Some(attempt) = &mut manager.attempt {
            while let Some(message) = attempt.handshake.poll_message() {
                step.messages.push([&[first], &message[..]].concat());
            }
        }
    }

    /// Takes what the handshake has brought about: messages, and perhaps keys.
    // [dtls:6-3]
    fn advance(&mut self, now: Time) -> Result<Step, KeyFailure> {
        let mut step = Step::default();
        self.collect(&mut step);
        let Some(manager) = &mut self.manager else {
            return Ok(step);
        };
        let (next, known) = (manager.epoch + 1, manager.peer.clone());
        let Some(attempt) = &mut manager.attempt else {
            return Ok(step);
        };
        let Some(EpochKeys { seal, open, peer }) = attempt.handshake.take_keys()? else {
            return Ok(step);
        };
        if seal.overhead() != TAG_LEN || open.overhead() != TAG_LEN {
            return Err(HandshakeError::new("the keys of this method have another length").into());
        }
        // Draft, "Authentication and Identity".
        if known.is_some_and(|known| known != peer) {
            return Err(HandshakeError::new("the peer has another identity than when the association began").into());
        }
        let is_client = attempt.role == Role::Client;
        if is_client {
            attempt.waiting = Some((seal, peer));
            self.receive_with(next, open);
        } else {
            manager.begin_epoch(now, peer, self.exchange.role);
            step.messages.push(vec![CONTROL | bits(next), PROTECTION_ESTABLISHED]);
            step.is_established = true;
            self.receive_with(next, open);
            self.send_with(seal);
        }
        Ok(step)
    }

    /// Opens the records of an epoch with these keys, besides those of the epochs before.
    fn receive_with(&mut self, epoch: u64, keys: Arc<dyn Protect>) {
        match &mut self.opening {
            Some(opening) => opening.expect(epoch, keys),
            None => self.opening = Some(OpenKeys::with(keys)),
        }
    }

    /// Seals the records of the next epoch with these keys.
    fn send_with(&mut self, keys: Arc<dyn Protect>) {
        match &mut self.sealing {
            Some(sealing) => {
                sealing.renew(keys);
                self.stats.epochs_sent += 1;
            }
            None => self.sealing = Some(SealKeys::with(keys)),
        }
    }
}
