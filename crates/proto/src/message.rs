//! User messages on their way in and out.

use bytes::Bytes;
use whimbrel_wire::{Payload, Ssn};

/// A user message to send (RFC 9260 §11.1.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The stream it is sent on, `0..outbound_streams`.
    pub stream: u16,
    /// Payload protocol identifier: passed through unchanged.
    pub ppid: u32,
    /// Deliver it as soon as it is complete, without regard to the order of the stream.
    pub unordered: bool,
    /// Ask the receiver to acknowledge it without delay (the I bit, RFC 7053).
    pub immediate: bool,
    /// A number of the user's, not sent to the peer: [`Event::SendFailed`](crate::Event::SendFailed) tells it if the message cannot be
    /// delivered.
    pub context: u32,
    /// What it says. At least one byte.
    pub payload: MessagePayload,
}

/// The content of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MessagePayload {
    /// Real bytes, shared with the caller and never copied before they are put into a packet.
    Bytes(Bytes),
    /// So many zero bytes, which exist only where a packet is encoded: what simulations send.
    Zeros(u32),
}

impl Message {
    /// An ordered message with real content on `stream`.
    pub fn new(stream: u16, payload: impl Into<Bytes>) -> Self {
        Message {
            stream,
            ppid: 0,
            unordered: false,
            immediate: false,
            context: 0,
            payload: MessagePayload::Bytes(payload.into()),
        }
    }

    /// An ordered message of `len` zero bytes on `stream`.
    pub fn zeros(stream: u16, len: u32) -> Self {
        Message {
            stream,
            ppid: 0,
            unordered: false,
            immediate: false,
            context: 0,
            payload: MessagePayload::Zeros(len),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.payload.len()
    }

    /// Whether it is empty, which cannot be sent (RFC 9260 §6.2).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl MessagePayload {
    /// Its length in bytes.
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

/// Describes a message, or a part of one, just handed to the reader (RFC 9260 §11.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The stream it came on.
    pub stream: u16,
    /// Its stream sequence number; zero and without meaning if unordered.
    pub ssn: Ssn,
    /// Payload protocol identifier as the sender set it.
    pub ppid: u32,
    /// Whether it was sent without regard to order.
    pub unordered: bool,
    /// Bytes handed over by this call.
    pub len: usize,
    /// Whether the message begins here. A message that is begun and not ended before the next one of its stream and order begins never
    /// will be: the peer has restarted.
    pub begin: bool,
    /// Whether the message ends here. False only when a message larger than the receive buffer is handed over in parts; whole
    /// messages of other streams, or of the other order, may come between the parts.
    pub end: bool,
}
