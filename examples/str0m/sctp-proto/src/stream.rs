//! Streams.

use std::fmt;

use bytes::Bytes;
use whimbrel_datachannel::{Incoming, Outgoing, Reliability, SendError, Span};

use crate::association::Association;
use crate::error::Error;

/// The number of a stream.
pub type StreamId = u16;

/// What a message is (RFC 8831 §8).
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub enum PayloadProtocolIdentifier {
    /// A message of the Data Channel Establishment Protocol.
    Dcep = 50,
    /// Text.
    String = 51,
    /// Bytes.
    Binary = 53,
    /// Empty text.
    StringEmpty = 56,
    /// No bytes.
    BinaryEmpty = 57,
    /// Anything else.
    #[default]
    Unknown = 0,
}

impl From<u32> for PayloadProtocolIdentifier {
    fn from(value: u32) -> Self {
        use PayloadProtocolIdentifier::{Binary, BinaryEmpty, Dcep, String, StringEmpty, Unknown};
        let known = [Dcep, String, Binary, StringEmpty, BinaryEmpty];
        known
            .into_iter()
            .find(|known| *known as u32 == value)
            .unwrap_or(Unknown)
    }
}

impl fmt::Display for PayloadProtocolIdentifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// When a message is given up.
#[derive(Debug, Copy, Clone, PartialEq, Default)]
pub enum ReliabilityType {
    /// Never.
    #[default]
    Reliable = 0,
    /// After a number of retransmissions.
    Rexmit = 1,
    /// After a number of milliseconds.
    Timed = 2,
}

impl fmt::Display for ReliabilityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl From<u8> for ReliabilityType {
    fn from(value: u8) -> Self {
        match value {
            1 => ReliabilityType::Rexmit,
            2 => ReliabilityType::Timed,
            _ => ReliabilityType::Reliable,
        }
    }
}

/// What the messages of a stream have in common.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Settings {
    payload_type: PayloadProtocolIdentifier,
    unordered: bool,
    reliability: Reliability,
    threshold: usize,
}

impl Settings {
    pub(crate) fn with_payload_type(payload_type: PayloadProtocolIdentifier) -> Self {
        Settings {
            payload_type,
            ..Settings::default()
        }
    }
}

/// A piece of a message.
#[derive(Debug, PartialEq)]
pub struct Chunk {
    /// Its content.
    pub bytes: Bytes,
}

/// A message that has arrived.
#[derive(Debug, Clone, Default)]
pub struct Chunks {
    /// What it is.
    pub ppi: PayloadProtocolIdentifier,
    content: Bytes,
    /// Bytes that `next` has returned.
    taken: usize,
}

impl Chunks {
    fn of(message: Incoming) -> Self {
        Chunks {
            ppi: message.ppid.into(),
            content: message.content.into(),
            taken: 0,
        }
    }

    /// Returns whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.is_empty()
    }

    /// Returns its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Copies it. Returns its length.
    ///
    /// # Errors
    /// Returns an error if the buffer is shorter.
    pub fn read(&self, buf: &mut [u8]) -> Result<usize, Error> {
        let to = buf.get_mut(..self.content.len()).ok_or(Error::ErrShortBuffer)?;
        to.copy_from_slice(&self.content);
        Ok(self.content.len())
    }

    /// Returns the next piece of it, of this length at most.
    pub fn next(&mut self, max_length: usize) -> Option<Chunk> {
        let len = max_length.min(self.content.len() - self.taken);
        let bytes = self.content.slice(self.taken..self.taken + len);
        self.taken += len;
        (len > 0).then_some(Chunk { bytes })
    }
}

/// A stream of an association.
pub struct Stream<'a> {
    id: StreamId,
    association: &'a mut Association,
}

impl<'a> Stream<'a> {
    pub(crate) fn new(id: StreamId, association: &'a mut Association) -> Self {
        Stream { id, association }
    }

    /// Returns its number.
    #[must_use]
    pub fn stream_identifier(&self) -> StreamId {
        self.id
    }

    /// Returns the next message.
    ///
    /// # Errors
    /// Returns an error if the stream is closed for reading.
    pub fn read(&mut self) -> Result<Option<Chunks>, Error> {
        if !self.is_readable() {
            return Err(Error::ErrStreamClosed);
        }
        let now = self.association.clock().now();
        Ok(self.association.session().read(now, self.id).map(Chunks::of))
    }

    /// Sends a message with the default payload protocol identifier.
    ///
    /// # Errors
    /// Returns an error as [`Stream::write_with_ppi`] does.
    pub fn write(&mut self, data: &[u8]) -> Result<usize, Error> {
        let ppi = self.association.settings(self.id).payload_type;
        self.write_with_ppi(data, ppi)
    }

    /// Sends a message. An empty one is sent as one byte, as RFC 8831 §6.6 requires it for the payload protocol identifiers of empty messages.
    /// Returns its length.
    ///
    /// # Errors
    /// Returns an error if the stream or the association does not take it.
    pub fn write_with_ppi(&mut self, data: &[u8], ppi: PayloadProtocolIdentifier) -> Result<usize, Error> {
        let (id, now) = (self.id, self.association.clock().now());
        if !self.association.session().is_writable(id) || self.association.is_closing() {
            return Err(Error::ErrStreamClosed);
        }
        if data.len() > self.association.max_send() as usize {
            return Err(Error::ErrOutboundPacketTooLarge);
        }
        if !self.association.session().is_established() {
            return Err(Error::ErrPayloadDataStateNotExist);
        }
        let settings = *self.association.settings(id);
        // RFC 8832 §6: messages of DCEP are ordered and reliable.
        let is_dcep = ppi == PayloadProtocolIdentifier::Dcep;
        let content = if data.is_empty() { &[0] } else { data };
        let message = Outgoing {
            stream: id,
            ppid: ppi as u32,
            unordered: settings.unordered && !is_dcep,
            reliability: if is_dcep {
                Reliability::Full
            } else {
                settings.reliability
            },
            content: Bytes::copy_from_slice(content),
        };
        match self.association.session().send(now, message) {
            Ok(()) => Ok(data.len()),
            Err(SendError::Closed) => Err(Error::ErrStreamClosed),
            Err(SendError::NoSuchStream { .. }) => Err(Error::ErrStreamNotExisted),
            Err(SendError::TooLong { .. }) => Err(Error::ErrOutboundPacketTooLarge),
            Err(other) => Err(Error::other(other)),
        }
    }

    /// Returns whether messages can be read from it.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.association.with(|session| session.is_readable(self.id))
    }

    /// Returns whether messages can be sent on it.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.association.with(|session| session.is_writable(self.id))
    }

    /// Reads nothing more from it, and resets it.
    ///
    /// # Errors
    /// Returns an error if the association is not established.
    pub fn stop(&mut self) -> Result<(), Error> {
        let now = self.association.clock().now();
        let session = self.association.session();
        if !session.is_resetting(self.id) && !session.is_established() {
            return Err(Error::ErrResetPacketInStateNotExist);
        }
        session.reset(now, self.id);
        Ok(())
    }

    /// Sends nothing more on it.
    ///
    /// # Errors
    /// Never.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.association.session().finish(self.id);
        Ok(())
    }

    /// Sends and reads nothing more, and resets it.
    ///
    /// # Errors
    /// Returns an error if the association is not established.
    pub fn close(&mut self) -> Result<(), Error> {
        self.finish()?;
        self.stop()
    }

    /// Sets how the messages that follow are delivered.
    ///
    /// # Errors
    /// Never.
    pub fn set_reliability_params(
        &mut self,
        unordered: bool,
        rel_type: ReliabilityType,
        rel_val: u32,
    ) -> Result<(), Error> {
        let settings = self.association.settings(self.id);
        settings.unordered = unordered;
        settings.reliability = match rel_type {
            ReliabilityType::Reliable => Reliability::Full,
            ReliabilityType::Rexmit => Reliability::Retransmissions(rel_val),
            ReliabilityType::Timed => Reliability::Lifetime(Span::from_millis(rel_val.into())),
        };
        Ok(())
    }

    /// Returns the bytes that wait to be sent or acknowledged.
    ///
    /// # Errors
    /// Never.
    pub fn buffered_amount(&self) -> Result<usize, Error> {
        Ok(self.association.with(|session| session.buffered(self.id)))
    }

    /// Returns the number of bytes at which `BufferedAmountLow` is reported.
    ///
    /// # Errors
    /// Never.
    pub fn buffered_amount_low_threshold(&self) -> Result<usize, Error> {
        Ok(self.association.settings_of(self.id).threshold)
    }

    /// Sets the number of bytes at which `BufferedAmountLow` is reported.
    ///
    /// # Errors
    /// Never.
    pub fn set_buffered_amount_low_threshold(&mut self, threshold: usize) -> Result<(), Error> {
        self.association.settings(self.id).threshold = threshold;
        self.association.session().set_buffered_low(self.id, threshold);
        Ok(())
    }
}
