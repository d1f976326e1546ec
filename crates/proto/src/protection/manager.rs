//! The messages of a key management method (draft-porfiri-tsvwg-sctp-dtls-handshake): their format, the handshakes that they belong to, and when
//! the keys that come of them are used.
//!
//! The first handshake takes place in plaintext. The server of a handshake has the keys of both directions when it has received the last message of the
//! client. It uses them from then on, and says so (Protection Established), which is the first encrypted message. The client can open packets
//! from its last message on, and encrypts from Protection Established on.
//!
//! ```text
//! a message:  T 1 bit | epoch 7 bits | payload
//! T = 0: the payload is a message of the method.  T = 1: type 1 byte (1: Protection Established) | data
//! ```

use std::sync::Arc;

use whimbrel_control::{Span, Time};

use super::handshake::{HandshakeError, KeyHandshake, PeerIdentity};
use super::{FIRST_EPOCH, Protect, ProtectionConfig, Role};
use crate::config::NEVER;

/// Most bytes of messages of one handshake that are taken from a peer. Before the end of the first handshake anyone can send them.
pub(crate) const MAX_HANDSHAKE: usize = 64 << 10;

/// Bytes of the tags of records: those of all cipher suites of TLS 1.3. Room for them is left from the beginning on.
pub(super) const TAG_LEN: usize = 16;

/// Keys are not renewed more often than this. If the peer begins renewals at shorter intervals, more than this number in a row, the association ends. A
/// few are no fault: what the peer sends may arrive late.
pub(super) const LEAST_INTERVAL: Span = Span::from_secs(1);
pub(super) const MAX_HURRIED: u32 = 16;

/// The least time for a renewal of keys.
const LEAST_GRACE: Span = Span::from_secs(300);

/// The T bit.
pub(super) const CONTROL: u8 = 0x80;

/// Control message: protection has been enforced.
pub(super) const PROTECTION_ESTABLISHED: u8 = 1;

/// What the association has to do.
#[derive(Debug, Default)]
pub(crate) struct Step {
    /// Messages to send, in this order.
    pub(crate) messages: Vec<Vec<u8>>,
    /// The keys of the next epoch are used from now on. Of the first one: all packets are encrypted now.
    pub(crate) is_established: bool,
}

/// Why key management ends the association.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum KeyFailure {
    /// The handshake has failed.
    Handshake(HandshakeError),
    /// The peer has sent what it must not.
    Violation(&'static str),
    /// A limit of this end.
    Limit(&'static str),
    /// The first handshake has taken too long.
    Timeout,
}

impl From<HandshakeError> for KeyFailure {
    fn from(error: HandshakeError) -> Self {
        KeyFailure::Handshake(error)
    }
}

/// A handshake in progress.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) handshake: Box<dyn KeyHandshake>,
    pub(super) role: Role,
    /// Bytes of messages received.
    pub(super) received: usize,
    /// The client has its keys, and waits for Protection Established.
    pub(super) waiting: Option<(Arc<dyn Protect>, PeerIdentity)>,
}

/// The state of a key management method with messages.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(super) attempt: Option<Attempt>,
    /// The latest epoch whose keys are used for sending. Before the first one: the one before it.
    pub(super) epoch: u64,
    pub(super) peer: Option<PeerIdentity>,
    /// When the first handshake must be done, or when the keys have to be renewed.
    pub(super) due: Time,
    /// When keys were last renewed.
    pub(super) renewed: Time,
    /// How often in a row the peer has begun to renew them too early.
    pub(super) hurried: u32,
    /// Bytes of packets since then.
    pub(super) bytes: u64,
    /// Bytes of user messages received in plaintext.
    pub(super) plaintext: usize,
    /// The number of the next message on stream 0 when plaintext ended.
    pub(super) first_number: Option<u32>,
    /// The handshake has failed. The association ends when the alert has been sent.
    pub(super) failed: Option<HandshakeError>,
    pub(super) timeout: Span,
    pub(super) interval: Span,
    pub(super) max_bytes: u64,
}

impl Manager {
    pub(super) fn new(config: &ProtectionConfig) -> Self {
        Manager {
            attempt: None,
            epoch: FIRST_EPOCH - 1,
            peer: None,
            due: NEVER,
            renewed: Time::ZERO,
            hurried: 0,
            bytes: 0,
            plaintext: 0,
            first_number: None,
            failed: None,
            timeout: config.handshake_timeout,
            interval: config.rekey_interval,
            max_bytes: config.rekey_bytes,
        }
    }

    /// Returns whether all packets are encrypted.
    pub(super) fn is_in_force(&self) -> bool {
        self.epoch >= FIRST_EPOCH
    }

    pub(super) fn peer(&self) -> Option<&PeerIdentity> {
        self.peer.as_ref()
    }

    pub(super) fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// The association has ended.
    pub(super) fn end(&mut self) {
        self.attempt = None;
        self.due = NEVER;
    }

    /// Returns when keys must have been renewed. A path that fails delays that.
    pub(super) fn last_moment(&self) -> Time {
        self.renewed + self.interval + self.interval.max(LEAST_GRACE)
    }

    /// Returns the seven low bits of the epoch that the next handshake is for.
    pub(super) fn next_bits(&self) -> u8 {
        bits(self.epoch + 1)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.peer.as_ref().map_or(0, |peer| peer.certificate().len())
    }
}

/// Returns the seven low bits of an epoch.
pub(super) fn bits(epoch: u64) -> u8 {
    epoch as u8 & !CONTROL
}

impl Manager {
    /// The handshake is done: from now on, packets are sealed with the keys of the next epoch. `role`: that of this end in the association.
    pub(super) fn begin_epoch(&mut self, now: Time, peer: PeerIdentity, role: Role) {
        self.attempt = None;
        self.epoch += 1;
        self.peer = Some(peer);
        self.renewed = now;
        self.bytes = 0;
        // Not both ends at once.
        let grace = match role {
            Role::Client => Span::ZERO,
            Role::Server => (self.interval / 8).min(self.timeout),
        };
        self.due = now + self.interval + grace;
    }
}

/// There is more than a handshake needs.
pub(super) const TOO_LONG: KeyFailure = KeyFailure::Limit("the messages of key management are too long");
