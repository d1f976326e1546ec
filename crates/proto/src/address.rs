//! Addresses of packets, and the data that a driver passes with them.

use std::net::SocketAddr;

use crate::ids::{AssocId, PathId};

/// An IP address and, for SCTP inside UDP (RFC 6951), the UDP port of the encapsulation; port 0 is plain SCTP over IP.
///
/// The SCTP port is not part of it, as it is the same for all addresses of an endpoint (RFC 9260 §1.3).
pub type TransportAddr = SocketAddr;

/// The two ECN bits of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Ecn {
    /// Not ECN-capable transport.
    #[default]
    NotEct,
    /// ECN-capable transport, codepoint ECT(0).
    Ect0,
    /// ECN-capable transport, codepoint ECT(1).
    Ect1,
    /// Congestion experienced: set by a router.
    Ce,
}

/// The data of an arriving packet that is not in its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketMeta {
    /// The local address at which the packet arrived.
    pub local: TransportAddr,
    /// The address it was sent from.
    pub remote: TransportAddr,
    /// The ECN bits it arrived with.
    pub ecn: Ecn,
    /// Whether routers indicated congestion by other means than the ECN bits. No header in use can carry this;
    /// simulated headers can.
    pub congestion_indicated: bool,
}

/// Addresses and path of the packet just written into the sink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The association it belongs to; none for replies sent without one.
    pub association: Option<AssocId>,
    /// The path it is sent on; none for replies sent without an association.
    pub path: Option<PathId>,
    /// The local address to send from.
    pub local: TransportAddr,
    /// The address to send to.
    pub remote: TransportAddr,
    /// ECN bits to send it with.
    pub ecn: Ecn,
    /// Length of the SCTP packet in bytes, without IP and UDP headers.
    pub wire_len: usize,
    /// The packet is longer than the path MTU, which has become smaller: IP has to fragment it.
    pub fragment: bool,
}
