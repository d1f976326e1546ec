//! User messages, sent and received.

use bytes::Bytes;
use whimbrel_control::Span;
use whimbrel_wire::{Payload, Ssn};

/// A user message to send (RFC 9260 §11.1.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The stream to send it on, `0..outbound_streams`.
    pub stream: u16,
    /// Payload protocol identifier, passed unchanged.
    pub ppid: u32,
    /// Whether the receiver delivers it as soon as it is complete, without regard to the order of the stream.
    pub unordered: bool,
    /// Whether the receiver is asked to acknowledge it without delay (the I bit, RFC 7053).
    pub immediate: bool,
    /// A number chosen by the user, not sent to the peer. [`Event::SendFailed`](crate::Event::SendFailed) returns it if the message
    /// cannot be delivered.
    pub context: u32,
    /// When the association stops trying to deliver it.
    pub reliability: Reliability,
    /// The content, at least one byte.
    pub payload: MessagePayload,
}

/// When an association stops trying to deliver a message (RFC 3758 §4.1, RFC 7496 §3). It is given up as a whole, and
/// [`Event::SendFailed`](crate::Event::SendFailed) reports it.
///
/// A message of which a part has been sent is given up only if both ends have agreed on that
/// ([`AssociationConfig::partial_reliability`](crate::AssociationConfig::partial_reliability)); one that still waits, in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reliability {
    /// It is never given up.
    #[default]
    Full,
    /// After this time since it was passed to the association, its transmission does not begin, and nothing of it is retransmitted. If a part
    /// of it has been sent by then, the rest has one RTO more. With zero it is never sent.
    Lifetime(Span),
    /// It is given up once a part of it would be retransmitted more often than this.
    Retransmissions(u32),
    /// It is given up when the send buffer has no room for a message of higher priority or with another reliability. Zero is the highest
    /// priority.
    Priority(u16),
}

/// The content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessagePayload {
    /// Real bytes, shared with the caller and not copied before they are written into a packet.
    Bytes(Bytes),
    /// The given number of zero bytes, which exist only where a packet is encoded. Simulations send these.
    Zeros(u32),
}

impl Message {
    /// Returns an ordered message with real content on `stream`.
    pub fn new(stream: u16, payload: impl Into<Bytes>) -> Self {
        Message {
            stream,
            ppid: 0,
            unordered: false,
            immediate: false,
            context: 0,
            reliability: Reliability::Full,
            payload: MessagePayload::Bytes(payload.into()),
        }
    }

    /// Returns an ordered message of `len` zero bytes on `stream`.
    pub fn zeros(stream: u16, len: u32) -> Self {
        Message {
            stream,
            ppid: 0,
            unordered: false,
            immediate: false,
            context: 0,
            reliability: Reliability::Full,
            payload: MessagePayload::Zeros(len),
        }
    }

    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Whether it is empty. An empty message cannot be sent (RFC 9260 §6.2).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MessagePayload {
    /// Returns its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            MessagePayload::Bytes(bytes) => bytes.len(),
            MessagePayload::Zeros(len) => *len as usize,
        }
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn as_wire(&self) -> Payload<'_> {
        match self {
            MessagePayload::Bytes(bytes) => Payload::Bytes(bytes),
            MessagePayload::Zeros(len) => Payload::Zeros(*len),
        }
    }
}

/// Describes a message, or a part of one, that was just delivered to the reader (RFC 9260 §11.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The stream on which it arrived.
    pub stream: u16,
    /// Its stream sequence number, or with interleaving the lower half of its message identifier (RFC 8260 §4.1); zero and without meaning if
    /// the message is unordered.
    pub ssn: Ssn,
    /// Payload protocol identifier set by the sender.
    pub ppid: u32,
    /// Whether it was sent unordered.
    pub unordered: bool,
    /// Bytes delivered by this call.
    pub len: usize,
    /// Whether the message begins here. If the next message of the same stream and order begins before this one has ended, the peer
    /// has restarted, and the rest of this one will never arrive.
    pub begin: bool,
    /// Whether the message ends here. False only if a message larger than the receive buffer is delivered in parts; with interleaving, one
    /// larger than half of it, or one that stays incomplete while others fill it. Whole messages of other streams, or of the other order, may
    /// come between the parts, and with interleaving also parts of such messages.
    pub end: bool,
    /// Whether the peer has given up the message whose parts were delivered before (RFC 3758): its rest will never arrive. Then there is no
    /// content, and `begin` and `end` are false.
    pub given_up: bool,
    /// Whether it arrived before the peer restarted last: it does not belong to what the peer sends now.
    pub before_restart: bool,
    /// Whether more can be read now. If not, the next call returns `None`, unless a packet arrives before it.
    pub more: bool,
}
