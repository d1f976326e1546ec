//! Where packets come from and go to.

use std::net::SocketAddr;

use crate::ids::{AssocId, PathId};

/// An IP address and, for SCTP inside UDP (RFC 6951), the UDP port of the encapsulation; port 0 is plain SCTP over IP.
///
/// The SCTP port is not part of it: it is the same for all addresses of an endpoint (RFC 9260 §1.3).
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

/// What a driver knows of an arriving packet besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketMeta {
    /// Our address that the packet arrived at.
    pub local: TransportAddr,
    /// The address it came from.
    pub remote: TransportAddr,
    /// The ECN bits it arrived with.
    pub ecn: Ecn,
    /// Routers indicated congestion by other means than the ECN bits; no header of today can, simulated ones do.
    pub congestion_indicated: bool,
}

/// Says where the packet just written into the sink goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmit {
    /// The association it belongs to; none for replies made without one.
    pub association: Option<AssocId>,
    /// The path it is sent on; none for replies made without an association.
    pub path: Option<PathId>,
    /// Our address to send from.
    pub local: TransportAddr,
    /// The address to send to.
    pub remote: TransportAddr,
    /// ECN bits to send it with.
    pub ecn: Ecn,
    /// Length of the SCTP packet in bytes, without IP and UDP headers.
    pub wire_len: usize,
}
