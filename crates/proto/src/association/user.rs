//! The user interface: messages sent and received, and notifications of failures (RFC 9260 §11).

use std::collections::VecDeque;

use whimbrel_wire::{Payload, Tsn, key_management};

use super::{Association, State};
use crate::context::Context;
use crate::error::SendError;
use crate::event::{Event, SendFailureCause};
use crate::message::{Message, Received};
use crate::receive::Receiver;

impl Association {
    /// Queues a message (RFC 9260 §11.1.5).
    // [9260:4-10, 4-12, 9.2-21, 6.2-32, 6.5-1, 3.3.1-5]
    pub(crate) fn send(&mut self, ctx: &mut Context<'_>, message: Message) -> Result<(), SendError> {
        let takes_data = matches!(self.state, State::CookieWait | State::CookieEchoed | State::Established);
        if !takes_data || self.user.notices.shutdown_wanted {
            return Err(SendError::Closed);
        }
        if message.is_empty() {
            return Err(SendError::Empty);
        }
        self.check_ppid(message.ppid)?;
        if message.stream >= self.ends.outbound_streams {
            return Err(SendError::NoSuchStream {
                stream: message.stream,
                available: self.ends.outbound_streams,
            });
        }
        let (len, limit) = (message.len(), self.longest_message());
        if len > limit {
            return Err(SendError::TooLong { len, limit });
        }
        let (mut progress, queued) = self.sending.enqueue(ctx.now, message);
        self.user.events.extend(progress.take_news());
        queued.map_err(SendError::Full)?;
        self.user.stats.messages_sent += 1;
        self.timers.touch_autoclose(ctx.now);
        Ok(())
    }

    /// Returns the length in bytes of the longest message that can be sent.
    pub fn longest_message(&self) -> usize {
        self.config.max_message.unwrap_or(self.config.send_buffer) as usize
    }

    /// Reads the next message (RFC 9260 §11.1.7).
    pub(crate) fn recv(&mut self, part: &mut dyn FnMut(Payload<'_>)) -> Option<Received> {
        if self.agreed.is_keying(self.state) {
            return None;
        }
        let mut received = match self
            .receiving
            .before_restart
            .as_mut()
            .and_then(|before| before.recv(part))
        {
            None => {
                self.receiving.before_restart = None;
                self.receiving
                    .receiver
                    .as_mut()
                    .and_then(|receiver| receiver.recv(part))
            }
            Some(unread) => Some(Received {
                before_restart: true,
                ..unread
            }),
        };
        let mut more = false;
        if let Some(received) = &mut received {
            self.user.stats.bytes_delivered += received.len as u64;
            self.user.stats.messages_delivered += u64::from(received.end);
            more = self.has_message();
            received.more = more;
        }
        self.user.notices.data_ready &= more;
        received
    }

    /// Returns how often the peer has restarted (RFC 9260 §5.2.4 A), also before [`Event::Restarted`] is polled.
    pub fn restarts(&self) -> u32 {
        self.receiving.restarts
    }

    /// Returns whether a message can be read.
    pub fn has_message(&self) -> bool {
        self.receivers().any(Receiver::has_message)
    }

    pub(super) fn receivers(&self) -> impl Iterator<Item = &Receiver> + '_ {
        self.receiving
            .before_restart
            .iter()
            .chain(&self.receiving.receiver)
            .map(|receiver| &**receiver)
    }

    /// Keeps the complete messages received before the peer restarted. After several restarts without a reader, those
    /// before the first one are kept.
    pub(super) fn keep_unread(&mut self) {
        if let Some(mut receiver) = self.receiving.receiver.take()
            && self.receiving.before_restart.is_none()
        {
            receiver.give_up_incomplete();
            self.receiving.before_restart = receiver.has_message().then_some(receiver);
        }
    }

    /// Returns whether there is an event for the user.
    #[inline]
    pub(crate) fn has_event(&self) -> bool {
        !self.user.events.is_empty()
    }

    /// Returns the next event for the user. The endpoint collects events after each change.
    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        let event = self.user.events.pop_front();
        if matches!(event, Some(Event::Connected { .. })) && self.user.events.is_empty() {
            // Many associations are idle after the handshake.
            self.user.events = VecDeque::new();
        }
        event
    }

    /// Records that the user has polled the event of the association's end.
    pub(crate) fn note_closed_polled(&mut self) {
        self.user.notices.closed_polled = true;
    }

    /// Returns whether the association can be removed.
    pub(crate) fn is_done(&self) -> bool {
        self.user.notices.closed_polled && !self.has_message()
    }

    /// Gives up all messages that are not acknowledged and notifies the user (RFC 9260 §11.2.2). Later data starts with
    /// this TSN.
    pub(super) fn give_up_messages(&mut self, cause: SendFailureCause, initial_tsn: Tsn) {
        let events = self.sending.give_up_all(cause, initial_tsn);
        self.user.events.extend(self.without_key_messages(events));
    }

    /// Gives up messages of streams that the peer does not allow (RFC 9260 §5.1.1).
    pub(super) fn give_up_streams(&mut self) {
        let mut progress = self.sending.give_up_streams(self.ends.outbound_streams);
        self.user.events.extend(progress.take_news());
    }

    /// Returns whether the user may not send a message with this payload protocol identifier.
    ///
    /// # Errors
    /// Returns an error if it is that of key management, and this association uses it.
    pub(super) fn check_ppid(&self, ppid: u32) -> Result<(), SendError> {
        // Before the handshake, the method is not known yet.
        let may_have_messages =
            self.agreed.has_key_messages() || self.offers_key_messages() && !self.state.is_established();
        match ppid == key_management::PPID && may_have_messages {
            true => Err(SendError::Reserved),
            false => Ok(()),
        }
    }

    fn offers_key_messages(&self) -> bool {
        let keys = self.config.protection.keys.as_ref();
        keys.is_some_and(|keys| keys.methods().iter().any(|method| keys.has_messages(*method)))
    }

    /// Removes what is not the user's from the events of messages that are given up.
    pub(super) fn without_key_messages(&self, mut events: Vec<Event>) -> Vec<Event> {
        if self.agreed.has_key_messages() {
            events.retain(|event| !matches!(event, Event::SendFailed(failed) if failed.ppid == key_management::PPID));
        }
        events
    }
}
