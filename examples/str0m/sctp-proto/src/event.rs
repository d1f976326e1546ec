//! Events.

use crate::error::{AssociationError, StreamResetError};
use crate::stream::StreamId;

/// What has happened to an association.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// It is established.
    Connected,
    /// It has ended.
    AssociationLost {
        /// Why.
        reason: AssociationError,
    },
    /// Something has happened to a stream.
    Stream(StreamEvent),
}

/// What has happened to a stream.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamEvent {
    /// The peer has sent on a stream that was not in use.
    Opened {
        /// The stream.
        id: StreamId,
    },
    /// A message can be read.
    Readable {
        /// The stream.
        id: StreamId,
    },
    /// Not reported: a message is never refused for lack of room.
    Writable {
        /// The stream.
        id: StreamId,
    },
    /// Not reported: nothing that str0m's peers send asks for it.
    Stopped {
        /// The stream.
        id: StreamId,
        /// The error code.
        error_code: u16,
    },
    /// The peer has reset the stream, and everything before has been read.
    Finished {
        /// The stream.
        id: StreamId,
    },
    /// Both directions have been reset.
    ResetComplete {
        /// The stream.
        id: StreamId,
    },
    /// The peer has refused the reset.
    ResetFailed {
        /// The stream.
        id: StreamId,
        /// Why.
        reason: StreamResetError,
    },
    /// The bytes that wait have fallen to the threshold.
    BufferedAmountLow {
        /// The stream.
        id: StreamId,
    },
}
