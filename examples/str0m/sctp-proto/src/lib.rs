//! The calls of sctp-proto 0.10 that str0m makes, on [`whimbrel_datachannel::Session`]. `docs/datachannel.md` of Whimbrel explains its use.
//!
//! It is a replacement by name (`[patch.crates-io]`) and not published. What str0m does not call is missing: the traits of association
//! identifiers, high thresholds, statistics, chunks and packets. One association exists with each remote address.

mod association;
mod clock;
mod config;
mod endpoint;
mod error;
mod event;
mod stream;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use bytes::Bytes;

pub use association::Association;
pub use config::{ClientConfig, DEFAULT_SCTP_PORT, EndpointConfig, ServerConfig, TransportConfig, generate_snap_token, set_scheme};
pub use endpoint::{AssociationEvent, AssociationHandle, ConnectError, DatagramEvent, Endpoint, EndpointEvent};
pub use error::{AssociationError, Error, StreamResetError};
pub use event::{Event, StreamEvent};
pub use stream::{Chunk, Chunks, PayloadProtocolIdentifier, ReliabilityType, Stream, StreamId};

/// A codepoint of explicit congestion notification. DTLS carries none: it has no effect.
#[derive(Debug, Copy, Clone, Eq, PartialEq)]
pub enum EcnCodepoint {
    /// ECT(0)
    Ect0 = 0b10,
    /// ECT(1)
    Ect1 = 0b01,
    /// CE
    Ce = 0b11,
}

/// What is to be sent.
#[derive(Debug)]
#[non_exhaustive]
pub enum Payload {
    /// Packets, one for each datagram.
    RawEncode(Vec<Bytes>),
}

/// Packets to send.
#[derive(Debug)]
pub struct Transmit {
    /// The time that was given to `poll_transmit`.
    pub now: Instant,
    /// Where they are sent to.
    pub remote: SocketAddr,
    /// None.
    pub ecn: Option<EcnCodepoint>,
    /// None.
    pub local_ip: Option<IpAddr>,
    /// The packets.
    pub payload: Payload,
}
