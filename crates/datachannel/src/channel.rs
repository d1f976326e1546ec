//! What a user sets and learns of data channels.

use std::fmt;

use whimbrel_proto::{CloseReason, Reliability, SendError};

/// The DTLS role of this end. It decides which stream numbers this end chooses (RFC 8832 §6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DtlsRole {
    /// It opens channels on streams with even numbers.
    Client,
    /// It opens channels on streams with odd numbers.
    Server,
}

impl DtlsRole {
    /// Returns the lowest stream number of this end.
    pub(crate) fn first_stream(self) -> u16 {
        match self {
            DtlsRole::Client => 0,
            DtlsRole::Server => 1,
        }
    }

    /// Returns whether the peer chooses this stream.
    pub(crate) fn is_of_peer(self, stream: u16) -> bool {
        stream % 2 != self.first_stream()
    }
}

/// The number of a channel at this end. Each is used once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelId(pub(crate) u64);

/// What both ends know of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChannelConfig {
    /// Its name, at most 65535 bytes. Several channels may have the same.
    pub label: String,
    /// A name of the WebSocket Subprotocol Name Registry, at most 65535 bytes, or empty.
    pub protocol: String,
    /// Whether messages are delivered without regard to their order.
    pub unordered: bool,
    /// When a message is given up: [`Reliability::Full`], [`Reliability::Retransmissions`] or [`Reliability::Lifetime`], which is rounded down to
    /// milliseconds.
    pub reliability: Reliability,
    /// Its share of the capacity, in proportion to that of other channels with waiting messages: 128, 256, 512 or 1024 (RFC 8831 §6.4).
    pub priority: u16,
}

impl Default for ChannelConfig {
    /// Ordered, reliable, of normal priority.
    fn default() -> Self {
        ChannelConfig {
            label: String::new(),
            protocol: String::new(),
            unordered: false,
            reliability: Reliability::Full,
            priority: 256,
        }
    }
}

/// A message of a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelMessage {
    /// Text.
    Text(String),
    /// Bytes.
    Binary(Vec<u8>),
}

/// What has happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChannelEvent {
    /// The association is established.
    Connected,
    /// A channel is open: the peer has acknowledged one of this end or has sent on it, or has opened it.
    Opened {
        /// Its number.
        channel: ChannelId,
        /// Whether the peer has opened it.
        by_peer: bool,
    },
    /// There are messages to read. Read until there is none: several messages may be reported once, and one several times.
    Readable(ChannelId),
    /// The bytes that wait in the send buffer have fallen to the threshold of the channel, or there is room for a message that was refused with
    /// [`SendError::Full`].
    BufferedLow(ChannelId),
    /// A channel has ended. Its number is not used again.
    Closed {
        /// Its number.
        channel: ChannelId,
        /// Why.
        why: ChannelEnd,
    },
    /// The peer has used a stream that is no channel in a way that opens none. It has been reset.
    Refused {
        /// The stream.
        stream: u16,
        /// What was wrong.
        flaw: Flaw,
    },
    /// The association has ended, and with it all channels. It is the last event, unless this end or the peer opens an association again.
    Ended(CloseReason),
}

/// Why a channel has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChannelEnd {
    /// This end has closed it.
    Local,
    /// The peer has closed it, or has not accepted it.
    Peer,
    /// The peer has made an error.
    Flaw(Flaw),
    /// No stream is free.
    NoStream,
    /// The association has ended.
    Association,
}

/// An error of the peer (RFC 8832 §6 and §7, RFC 8831 §6.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flaw {
    /// A message with the PPID of DCEP is neither DATA_CHANNEL_OPEN nor DATA_CHANNEL_ACK.
    NotDcep,
    /// The lengths in a DATA_CHANNEL_OPEN do not fit its own.
    Lengths,
    /// The channel type is unknown.
    ChannelType(u8),
    /// A label, protocol or text is not UTF-8.
    NotUtf8,
    /// A DATA_CHANNEL_OPEN came on a stream whose number this end chooses.
    Parity,
    /// A DATA_CHANNEL_OPEN came on a stream in use.
    InUse,
    /// The first message on a stream was not a DATA_CHANNEL_OPEN.
    NotOpen,
    /// The peer has more channels, or longer names, than this end accepts.
    TooMany,
    /// The PPID of a message is unknown.
    Ppid(u32),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::NotDcep => f.write_str("unknown DCEP message"),
            Flaw::Lengths => f.write_str("wrong lengths in DATA_CHANNEL_OPEN"),
            Flaw::ChannelType(kind) => write!(f, "unknown channel type {kind:#04x}"),
            Flaw::NotUtf8 => f.write_str("text that is not UTF-8"),
            Flaw::Parity => f.write_str("DATA_CHANNEL_OPEN on a stream of this end's DTLS role"),
            Flaw::InUse => f.write_str("DATA_CHANNEL_OPEN on a stream in use"),
            Flaw::NotOpen => f.write_str("a stream that begins without DATA_CHANNEL_OPEN"),
            Flaw::TooMany => f.write_str("more channels, or longer names, than accepted"),
            Flaw::Ppid(ppid) => write!(f, "unknown payload protocol identifier {ppid}"),
        }
    }
}

/// Why a channel was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The label or the protocol is longer than DCEP can say.
    #[error("label and protocol of a channel have at most 65535 bytes each")]
    NameTooLong,
    /// DCEP has no such reliability.
    #[error(
        "a channel is reliable, or has a limit of retransmissions or of time; priorities of messages are not possible"
    )]
    Reliability,
    /// The stream has a channel already, or its last one is not closed yet.
    #[error("stream {0} is in use")]
    StreamInUse(u16),
    /// There are only 65535 streams.
    #[error("stream 65535 does not exist")]
    NoSuchStream,
    /// The association has ended.
    #[error("the association has ended")]
    Ended,
}

/// Why a message was not sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelSendError {
    /// The channel is not open yet, is being closed, or has ended.
    #[error("the channel is not open")]
    NotOpen,
    /// The peer does not accept a message of this length.
    #[error("the message has {len} bytes; the peer accepts {max} (max-message-size)")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// The most that the peer accepts.
        max: usize,
    },
    /// The association does not take it.
    #[error(transparent)]
    Association(#[from] SendError),
}
