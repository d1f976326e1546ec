//! Errors of user calls, and the reasons for which packets are discarded.

use std::borrow::Cow;

use crate::Message;

/// A value of the configuration that cannot work.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} = {value}: {hint}")]
pub struct ConfigError {
    /// The field as it is spelled in configuration files.
    pub field: Cow<'static, str>,
    /// The value given.
    pub value: String,
    /// What is allowed, with the unit.
    pub hint: String,
}

impl ConfigError {
    pub(crate) fn new(field: impl Into<Cow<'static, str>>, value: impl ToString, hint: impl Into<String>) -> Self {
        ConfigError {
            field: field.into(),
            value: value.to_string(),
            hint: hint.into(),
        }
    }
}

/// Why an association could not be begun.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No peer address was given.
    #[error("no address of the peer was given")]
    NoAddress,
    /// None of our addresses has the IP version of this peer address.
    #[error("no local address has the IP version of {0}")]
    NoLocalAddress(crate::TransportAddr),
    /// An association with this peer address and port exists.
    #[error("an association with {0} exists already")]
    Exists(crate::TransportAddr),
    /// The endpoint holds as many associations as it may.
    #[error("the endpoint holds as many associations as it may")]
    TooMany,
    /// The association's configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Why a change of addresses was not asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// The association is not established, or over.
    #[error("the association is not established")]
    NotEstablished,
    /// One of the ends cannot change addresses (RFC 5061), or does not want to.
    #[error("the association cannot change addresses: both ends have to agree on that as it begins")]
    NotSupported,
    /// Only a unicast address can be added.
    #[error("{0} is no unicast address")]
    NotUnicast(crate::TransportAddr),
    /// The address is there already.
    #[error("{0} is an address of the association already")]
    Exists(crate::TransportAddr),
    /// There is no such address of this end.
    #[error("{0} is no address of the association")]
    Unknown(crate::TransportAddr),
    /// The last address cannot be removed.
    #[error("the last address cannot be removed")]
    Last,
    /// There are as many addresses as there may be.
    #[error("the association has as many addresses as it may")]
    TooMany,
}

/// Why a message was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The send buffer is full; the message comes back, and [`Event::SendSpace`](crate::Event::SendSpace) says when to try again.
    #[error("the send buffer is full")]
    Full(Message),
    /// There is no such association, or it takes no more messages because it is shutting down.
    #[error("the association is closed for sending")]
    Closed,
    /// The stream does not exist.
    #[error("stream {stream} does not exist: the peer accepts {available}")]
    NoSuchStream {
        /// The stream asked for.
        stream: u16,
        /// Streams there are.
        available: u16,
    },
    /// An empty message cannot be sent (RFC 9260 §6.2).
    #[error("an empty message cannot be sent")]
    Empty,
    /// The message is larger than the send buffer.
    #[error("a message of {len} bytes is larger than the send buffer of {limit} bytes")]
    TooLong {
        /// Its length.
        len: usize,
        /// The send buffer.
        limit: usize,
    },
}

/// Why an arriving packet, or the rest of it, was not processed. Nothing here ends an association by itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Discard {
    /// Shorter than a common header, or with a length that does not fit.
    #[error("malformed packet")]
    Malformed,
    /// The CRC32c is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// Destination port or addresses are not ours.
    #[error("not addressed to this endpoint")]
    NotForUs,
    /// The verification tag is neither ours nor an allowed exception (RFC 9260 §8.5).
    #[error("wrong verification tag")]
    VerificationTag,
    /// Belongs to no association (RFC 9260 §8.4); an answer may have been queued.
    #[error("out of the blue")]
    OutOfTheBlue,
    /// INIT, INIT ACK or SHUTDOWN COMPLETE bundled with other chunks (RFC 9260 §6.10).
    #[error("chunks that must stand alone were bundled")]
    Bundled,
    /// A state cookie that we did not make, or made for other ports or tags (RFC 9260 §5.1.5).
    #[error("cookie not authentic")]
    Cookie,
    /// A state cookie that has expired; a Stale Cookie error was queued.
    #[error("stale cookie")]
    StaleCookie,
    /// A chunk that makes no sense in the association's state.
    #[error("unexpected chunk")]
    Unexpected,
    /// A chunk or parameter whose content is impossible.
    #[error("invalid chunk")]
    InvalidChunk,
    /// Too many associations or pending replies: the limits of the configuration.
    #[error("out of resources")]
    Limit,
    /// The endpoint does not accept associations.
    #[error("not listening")]
    NotListening,
    /// A chunk that has to be authenticated and is not, or an AUTH chunk that proves nothing (RFC 4895 §6.3).
    #[error("not authenticated")]
    Unauthenticated,
}

impl Discard {
    /// Every reason, in the order in which they are counted.
    pub const ALL: [Discard; 13] = [
        Discard::Malformed,
        Discard::Checksum,
        Discard::NotForUs,
        Discard::VerificationTag,
        Discard::OutOfTheBlue,
        Discard::Bundled,
        Discard::Cookie,
        Discard::StaleCookie,
        Discard::Unexpected,
        Discard::InvalidChunk,
        Discard::Limit,
        Discard::NotListening,
        Discard::Unauthenticated,
    ];
}
