//! Errors: a type for each operation.

use std::io;
use std::net::{IpAddr, SocketAddr};

use whimbrel_proto::{CloseReason, ConfigError, Message, SendError};

/// Why a stack could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindError {
    /// The configuration cannot work.
    #[error("invalid configuration: {0}")]
    Config(#[from] ConfigError),
    /// A UDP socket could not be bound.
    #[error("cannot bind UDP address {addr}: {source}")]
    Bind {
        /// The address asked for.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// SCTP directly over IP cannot be used at an address: without the capability for it, beside the kernel's own SCTP, or with an SCTP port that
    /// another stack has there.
    #[error("cannot use SCTP over IP at {addr}: {source}")]
    Raw {
        /// The address asked for.
        addr: IpAddr,
        /// What the system said, or what is to be done.
        source: io::Error,
    },
    /// The address is one of IPv6, and this host has no IPv6.
    #[error("cannot bind address {0}: this host has no IPv6")]
    NoIpv6(SocketAddr),
    /// An unspecified address was asked for, and this host has no address that it could stand for.
    #[error("{0} stands for every address of this host, but none was found; name the addresses")]
    NoAddress(SocketAddr),
    /// There is no way to a peer.
    #[error("no route to {addr}: {source}")]
    NoRoute {
        /// The peer's address.
        addr: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// It was called outside a tokio runtime, which drives the sockets.
    #[error("no tokio runtime: call it within one, for example in a function with #[tokio::main]")]
    NoRuntime,
    /// The task that drives the stack is gone.
    #[error("the stack has stopped: {0}")]
    StackStopped(String),
    /// The system gave no random numbers.
    #[error("no random numbers from the system: {0}")]
    Random(String),
}

/// Why no association with the peer came about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The addresses or the configuration cannot work.
    #[error(transparent)]
    Invalid(#[from] whimbrel_proto::ConnectError),
    /// The address of the peer has a UDP port, and the stack uses SCTP directly over IP.
    #[error("cannot connect to {0}: SCTP over IP has no UDP ports: use port 0")]
    HasPort(SocketAddr),
    /// No program listens on the peer's UDP ports (ICMP port unreachable), none uses SCTP over IP there (ICMP protocol unreachable), or the peer
    /// answered with an ABORT.
    #[error("connection refused: {0}")]
    Refused(String),
    /// The network says that it cannot reach any of the peer's addresses.
    #[error("peer unreachable: {0}")]
    Unreachable(String),
    /// The peer did not answer.
    #[error("timed out: {0}")]
    TimedOut(CloseReason),
    /// It ended before it was established.
    #[error(transparent)]
    Closed(#[from] AssociationError),
}

/// Why an association, or the stack below it, is gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssociationError {
    /// The association ended.
    #[error("{0}")]
    Closed(CloseReason),
    /// It is shutting down, or the peer is shutting it down, and takes no more messages.
    #[error("the association is shutting down")]
    ShuttingDown,
    /// The message cannot be sent on this association: its stream does not exist, or it is empty.
    #[error("{0}")]
    Message(String),
    /// The message is longer than [`AssociationConfig::max_message`](crate::AssociationConfig::max_message).
    #[error("a message of {len} bytes is longer than the limit of {limit} bytes (max_message)")]
    MessageTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest message that can be sent, in bytes.
        limit: usize,
    },
    /// The given number of messages were given up because the peer restarted; [`Association::send_failures`](crate::Association::send_failures)
    /// returns them.
    #[error("{0} messages could not be delivered: the peer has restarted")]
    Undelivered(u64),
    /// A [`Stream`](crate::Stream) of this number is open already.
    #[error("stream {0} is read elsewhere already")]
    StreamInUse(u16),
    /// The peer has restarted, so that a [`Stream`](crate::Stream) opened before has lost bytes in both directions. It can be dropped and
    /// opened again.
    #[error("the peer has restarted")]
    PeerRestarted,
    /// The task that drives the stack is gone, because its runtime ended or a socket failed.
    #[error("the stack has stopped: {0}")]
    StackStopped(String),
}

impl From<SendError> for AssociationError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::TooLong { len, limit } => AssociationError::MessageTooLong { len, limit },
            SendError::Closed => AssociationError::ShuttingDown,
            other => AssociationError::Message(other.to_string()),
        }
    }
}

/// Why a message was not taken at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// The send buffer is full; here is the message again.
    #[error("the send buffer is full")]
    Full(Message),
    /// It cannot be sent.
    #[error(transparent)]
    Failed(#[from] AssociationError),
}
