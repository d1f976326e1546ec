//! Errors.

use whimbrel_datachannel::CloseReason;

/// Why a call was refused.
#[derive(Debug, thiserror::Error, Eq, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The stream is in use.
    #[error("stream is in use")]
    ErrStreamAlreadyExist,
    /// The number is not free yet.
    #[error("stream waits for its reset")]
    ErrStreamResetPending,
    /// The association has no such stream.
    #[error("no such stream")]
    ErrStreamNotExisted,
    /// The stream takes or gives no more messages.
    #[error("stream is closed")]
    ErrStreamClosed,
    /// The message is longer than the peer accepts.
    #[error("message is longer than the limit")]
    ErrOutboundPacketTooLarge,
    /// The association is not established.
    #[error("association is not established: no shutdown")]
    ErrShutdownNonEstablished,
    /// The association is not established.
    #[error("association is not established: no data")]
    ErrPayloadDataStateNotExist,
    /// The association is not established.
    #[error("association is not established: no reset")]
    ErrResetPacketInStateNotExist,
    /// The message does not fit.
    #[error("buffer is too short")]
    ErrShortBuffer,
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl Error {
    pub(crate) fn other(error: impl ToString) -> Self {
        Error::Other(error.to_string())
    }
}

/// Why a stream was not reset.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamResetError {
    /// The peer has refused it.
    Denied,
}

/// Why an association has ended.
#[derive(Debug, thiserror::Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum AssociationError {
    /// Both ends have shut it down.
    #[error("closed")]
    ApplicationClosed,
    /// The peer has aborted it.
    #[error("aborted by peer")]
    AssociationClosed,
    /// This end has aborted it.
    #[error("aborted: {0}")]
    LocallyClosed(String),
    /// The peer does not answer.
    #[error("timed out")]
    TimedOut,
    /// Another reason.
    #[error("{0}")]
    TransportError(String),
}

impl From<CloseReason> for AssociationError {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Graceful => AssociationError::ApplicationClosed,
            CloseReason::AbortedLocally(why) => AssociationError::LocallyClosed(why),
            CloseReason::AbortedByPeer { .. } | CloseReason::Refused { .. } => AssociationError::AssociationClosed,
            CloseReason::HandshakeTimeout | CloseReason::PeerUnreachable | CloseReason::ShutdownTimeout => {
                AssociationError::TimedOut
            }
            other => AssociationError::TransportError(other.to_string()),
        }
    }
}
