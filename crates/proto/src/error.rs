//! Errors of user calls, and the reasons for discarding packets.

use std::borrow::Cow;

use crate::Message;

/// An invalid value of the configuration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{field} = {value}: {hint}")]
pub struct ConfigError {
    /// The field, spelled as in configuration files.
    pub field: Cow<'static, str>,
    /// The value given.
    pub value: String,
    /// The allowed values, with the unit.
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

/// The reason why an association could not be started.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// No peer address was given.
    #[error("no address of the peer was given")]
    NoAddress,
    /// No local address has the IP version of this peer address.
    #[error("no local address has the IP version of {0}")]
    NoLocalAddress(crate::TransportAddr),
    /// An association with this peer address and port exists. There is one between two ports of two hosts (RFC 9260 §1.3).
    #[error(
        "an association with {0} exists already: another one with the same peer needs another local SCTP port, and so a stack of its own"
    )]
    Exists(crate::TransportAddr),
    /// The address and the port are those of this endpoint. Both ends of an association need names of their own (RFC 9260 §1.3).
    #[error("{0} with this SCTP port is this end itself")]
    Own(crate::TransportAddr),
    /// The endpoint has reached its limit of associations.
    #[error("the endpoint holds as many associations as it may")]
    TooMany,
    /// The association's configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The INIT chunks that the ends have exchanged do not start an association.
    #[error(transparent)]
    Init(#[from] InitError),
}

/// One end of an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// This end.
    Local,
    /// The peer.
    Peer,
}

impl core::fmt::Display for End {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            End::Local => "this end",
            End::Peer => "the peer",
        })
    }
}

/// The reason why two INIT chunks that were exchanged by other means do not start an association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InitError {
    /// The settings need what only a handshake provides: several addresses, authentication or encryption.
    #[error(
        "two INIT chunks start an association only if it is single-homed, without authentication and encryption of its own"
    )]
    Settings,
    /// The bytes are not one INIT chunk.
    #[error("the bytes of {0} are not one INIT chunk")]
    NotAnInit(End),
    /// The values of the chunk cannot be accepted (RFC 9260 §3.3.2).
    #[error("the INIT of {end} cannot be accepted: {flaw}")]
    Refused {
        /// Whose INIT it is.
        end: End,
        /// What is wrong.
        flaw: &'static str,
    },
    /// Both ends have the same tag and the same initial TSN: the peer has returned the INIT of this end instead of sending its own.
    #[error("the INIT of the peer is that of this end")]
    Same,
    /// An association of this endpoint has, or has had, the tag.
    #[error("the tag of this end's INIT has been used")]
    TagInUse,
}

/// The reason why a change of addresses was not requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// The association is not established, or has ended.
    #[error("the association is not established")]
    NotEstablished,
    /// One of the ends does not support changes of addresses (RFC 5061), or has not enabled them.
    #[error("the association cannot change addresses: both ends have to agree on that as it begins")]
    NotSupported,
    /// Only a unicast address can be added.
    #[error("{0} is no unicast address")]
    NotUnicast(crate::TransportAddr),
    /// The association already has the address.
    #[error("{0} is an address of the association already")]
    Exists(crate::TransportAddr),
    /// The association has no such local address.
    #[error("{0} is no address of the association")]
    Unknown(crate::TransportAddr),
    /// The last address cannot be removed.
    #[error("the last address cannot be removed")]
    Last,
    /// The association has reached its limit of addresses.
    #[error("the association has as many addresses as it may")]
    TooMany,
}

/// The reason why a message was not accepted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The send buffer is full. The error returns the message, and [`Event::SendSpace`](crate::Event::SendSpace) reports when to try
    /// again.
    #[error("the send buffer is full")]
    Full(Message),
    /// The association does not exist, or accepts no more messages because it is shutting down.
    #[error("the association is closed for sending")]
    Closed,
    /// The stream does not exist.
    #[error("stream {stream} does not exist: the peer accepts {available}")]
    NoSuchStream {
        /// The stream given.
        stream: u16,
        /// The number of streams.
        available: u16,
    },
    /// The payload protocol identifier 4242 belongs to key management, which this association uses.
    #[error("payload protocol identifier 4242 is reserved: it is that of key management")]
    Reserved,
    /// An empty message cannot be sent (RFC 9260 §6.2).
    #[error("an empty message cannot be sent")]
    Empty,
    /// The message is longer than [`AssociationConfig::max_message`](crate::AssociationConfig::max_message), or without such a limit than the
    /// send buffer.
    #[error("a message of {len} bytes is longer than the limit of {limit} bytes (max_message)")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest message that can be sent, in bytes.
        limit: usize,
    },
}

/// The reason why an arriving packet, or the rest of it, was not processed. None of these ends an association by
/// itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
pub enum Discard {
    /// The packet is shorter than a common header, or has an invalid length.
    #[error("malformed packet")]
    Malformed,
    /// The CRC32c is wrong.
    #[error("wrong checksum")]
    Checksum,
    /// The destination port or address does not belong to this endpoint.
    #[error("not addressed to this endpoint")]
    NotForUs,
    /// The verification tag is neither that of this endpoint nor an allowed exception (RFC 9260 §8.5).
    #[error("wrong verification tag")]
    VerificationTag,
    /// The packet belongs to no association (RFC 9260 §8.4); a reply may have been queued.
    #[error("out of the blue")]
    OutOfTheBlue,
    /// INIT, INIT ACK or SHUTDOWN COMPLETE bundled with other chunks (RFC 9260 §6.10).
    #[error("chunks that must stand alone were bundled")]
    Bundled,
    /// A state cookie that this endpoint did not create, or created for other ports or tags (RFC 9260 §5.1.5), or one that was used
    /// for an association that has ended.
    #[error("cookie not authentic")]
    Cookie,
    /// A state cookie that has expired; a Stale Cookie error was queued.
    #[error("stale cookie")]
    StaleCookie,
    /// A chunk that is not valid in the association's state.
    #[error("unexpected chunk")]
    Unexpected,
    /// A SACK that another one overtook: its cumulative TSN ack is before the cumulative ack point (RFC 9260 §6.2.1 D i). With several paths
    /// of different delay this happens often, and nothing is lost by it.
    #[error("SACK overtaken by a newer one")]
    OldSack,
    /// A chunk or parameter with invalid content.
    #[error("invalid chunk")]
    InvalidChunk,
    /// Too many associations or pending replies, according to the limits of the configuration.
    #[error("out of resources")]
    Limit,
    /// More packets that belong to no association than the configuration allows in this time, from one address or from all.
    #[error("too many packets without an association")]
    Flood,
    /// The endpoint does not accept associations.
    #[error("not listening")]
    NotListening,
    /// A chunk that must be authenticated and is not, or an AUTH chunk that is not valid (RFC 4895 §6.3).
    #[error("not authenticated")]
    Unauthenticated,
    /// A packet of an encrypted association that is not encrypted, or not with its keys (draft-ietf-tsvwg-sctp-dtls-chunk); an INIT that does not
    /// offer the encryption that this end requires.
    #[error("not encrypted with the keys of the association")]
    Unprotected,
    /// An encrypted packet that had been received before, or that is older than the replay window.
    #[error("encrypted packet received before")]
    Replayed,
}

impl Discard {
    /// Every reason, in the order in which they are counted.
    pub const ALL: [Discard; 17] = [
        Discard::Malformed,
        Discard::Checksum,
        Discard::NotForUs,
        Discard::VerificationTag,
        Discard::OutOfTheBlue,
        Discard::Bundled,
        Discard::Cookie,
        Discard::StaleCookie,
        Discard::Unexpected,
        Discard::OldSack,
        Discard::InvalidChunk,
        Discard::Limit,
        Discard::Flood,
        Discard::NotListening,
        Discard::Unauthenticated,
        Discard::Unprotected,
        Discard::Replayed,
    ];
}
