//! Control messages as structures, with their length on the air.

use whimbrel_control::Span;

use super::Address;
use super::source_route::{DSR_ADDRESS, DSR_FIXED, SourceRoute};
use crate::packet::{IP_HEADER, UDP_HEADER};

/// Bytes of the IP and UDP headers in front of messages of AODV (port 654) and DSDV.
pub const AODV_PORT_HEADERS: u32 = IP_HEADER + UDP_HEADER;

/// A control message. Fields of the IP header that the protocol uses are included; the driver reports sender and receiver of a hop.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Route request of AODV.
    Rreq(Rreq),
    /// Route reply of AODV.
    Rrep(Rrep),
    /// Route error of AODV.
    Rerr(Rerr),
    /// Acknowledgement of a route reply of AODV.
    RrepAck,
    /// Hello message of AODV: a route reply for the sender itself.
    Hello {
        /// The sender's sequence number.
        seq: u32,
        /// Lifetime of the route.
        lifetime: Span,
    },
    /// Full or incremental dump of DSDV.
    Update {
        /// Whether it is a full dump.
        full: bool,
        /// The routes, the sender's own among them.
        entries: Vec<DsdvEntry>,
    },
    /// Route request of DSR.
    DsrRequest(DsrRequest),
    /// Route reply of DSR.
    DsrReply(DsrReply),
    /// Route error of DSR.
    DsrError(DsrError),
}

/// The kind of a message, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// Route request.
    Request,
    /// Route reply.
    Reply,
    /// Route error.
    Error,
    /// Acknowledgement of a route reply.
    ReplyAck,
    /// Hello.
    Hello,
    /// Full dump of a table.
    FullDump,
    /// Incremental dump of a table.
    IncrementalDump,
}

impl MessageKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [MessageKind; 7] = [
        MessageKind::Request,
        MessageKind::Reply,
        MessageKind::Error,
        MessageKind::ReplyAck,
        MessageKind::Hello,
        MessageKind::FullDump,
        MessageKind::IncrementalDump,
    ];

    /// Returns the name used in results.
    pub const fn name(self) -> &'static str {
        match self {
            MessageKind::Request => "request",
            MessageKind::Reply => "reply",
            MessageKind::Error => "error",
            MessageKind::ReplyAck => "reply-ack",
            MessageKind::Hello => "hello",
            MessageKind::FullDump => "full-dump",
            MessageKind::IncrementalDump => "incremental-dump",
        }
    }
}

/// RREQ (RFC 3561 §5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rreq {
    /// TTL in the IP header.
    pub ttl: u8,
    /// Hops from the originator to the node that sends it.
    pub hops: u8,
    /// Sequence number of the request at its originator.
    pub id: u32,
    /// Destination of the requested route.
    pub destination: Address,
    /// The last sequence number of the destination that the originator knew; `None` is the flag U.
    pub destination_seq: Option<u32>,
    /// Node that requests the route.
    pub originator: Address,
    /// The originator's sequence number.
    pub originator_seq: u32,
    /// Flag G: an intermediate node that replies also sends a gratuitous reply to the destination.
    pub gratuitous: bool,
    /// Flag D: only the destination may reply.
    pub destination_only: bool,
}

/// RREP (RFC 3561 §5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rrep {
    /// Hops from the destination to the node that sends it.
    pub hops: u8,
    /// Destination of the route.
    pub destination: Address,
    /// Its sequence number.
    pub destination_seq: u32,
    /// Node that requested the route.
    pub originator: Address,
    /// Lifetime of the route.
    pub lifetime: Span,
    /// Flag A: the receiver acknowledges it.
    pub acknowledge: bool,
    /// The last node before the destination on this route, in an extension (type, length, address), if it is used and known.
    pub last_hop: Option<Address>,
}

/// RERR (RFC 3561 §5.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rerr {
    /// Flag N: a local repair was made; the routes are longer but must not be deleted.
    pub no_delete: bool,
    /// Destinations that became unreachable.
    pub unreachable: Vec<Unreachable>,
}

/// A destination that became unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// The destination.
    pub destination: Address,
    /// Its new sequence number.
    pub seq: u32,
}

/// A route in a dump of DSDV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsdvEntry {
    /// Destination of the route.
    pub destination: Address,
    /// Hops from the sender to the destination; [`DsdvEntry::INFINITY`] if it is unreachable.
    pub metric: u8,
    /// Sequence number: even if set by the destination, odd if set after a broken link.
    pub seq: u32,
}

impl DsdvEntry {
    /// Metric of an unreachable destination.
    pub const INFINITY: u8 = 250;
    /// Bytes on the air: address, metric and sequence number in words of four bytes each.
    pub const BYTES: u32 = 12;
}

/// A link that a node could not send over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenLink {
    /// The node that could not send.
    pub from: Address,
    /// The node it could not reach.
    pub to: Address,
}

/// Route Request option of DSR (RFC 4728 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsrRequest {
    /// TTL of its IP header.
    pub ttl: u8,
    /// Sequence number of the request at its initiator.
    pub id: u32,
    /// Node a route is wanted to.
    pub target: Address,
    /// The initiator and the nodes the request has passed.
    pub route: SourceRoute,
    /// A broken link that was reported to the initiator (RFC 4728 §3.4.4).
    pub error: Option<BrokenLink>,
}

/// Route Reply option of DSR (RFC 4728 §6.3) with the source route it travels along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsrReply {
    /// The source route of the packet that carries the reply.
    pub source_route: SourceRoute,
    /// The route that was found, from the initiator to the target.
    pub found: SourceRoute,
}

/// Route Error option of DSR (RFC 4728 §6.4) with the source route it travels along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DsrError {
    /// The source route of the packet that carries the error.
    pub source_route: SourceRoute,
    /// The broken link.
    pub broken: BrokenLink,
    /// Number of times that the packet which detected it had been salvaged.
    pub salvage: u8,
}

impl Message {
    /// Returns the length of the IP packet in bytes.
    pub fn bytes(&self) -> u32 {
        match self {
            Message::Rreq(_) => AODV_PORT_HEADERS + 24,
            Message::Rrep(rrep) => AODV_PORT_HEADERS + 20 + if rrep.last_hop.is_some() { 6 } else { 0 },
            Message::Rerr(rerr) => AODV_PORT_HEADERS + 4 + 8 * rerr.unreachable.len() as u32,
            Message::RrepAck => AODV_PORT_HEADERS + 2,
            Message::Hello { .. } => AODV_PORT_HEADERS + 20,
            Message::Update { entries, .. } => AODV_PORT_HEADERS + DsdvEntry::BYTES * entries.len() as u32,
            Message::DsrRequest(request) => {
                // The initiator's address is the source of the IP header.
                let passed = (request.route.nodes().len() as u32).saturating_sub(1);
                let error = if request.error.is_some() { 16 } else { 0 };
                IP_HEADER + DSR_FIXED + 8 + DSR_ADDRESS * passed + error
            }
            Message::DsrReply(reply) => {
                // The initiator's address is the destination of the IP header.
                let listed = (reply.found.nodes().len() as u32).saturating_sub(1);
                IP_HEADER + DSR_FIXED + 3 + DSR_ADDRESS * listed + reply.source_route.option()
            }
            Message::DsrError(error) => IP_HEADER + DSR_FIXED + 16 + error.source_route.option(),
        }
    }

    /// Returns the kind of the message.
    pub const fn kind(&self) -> MessageKind {
        match self {
            Message::Rreq(_) | Message::DsrRequest(_) => MessageKind::Request,
            Message::Rrep(_) | Message::DsrReply(_) => MessageKind::Reply,
            Message::Rerr(_) | Message::DsrError(_) => MessageKind::Error,
            Message::RrepAck => MessageKind::ReplyAck,
            Message::Hello { .. } => MessageKind::Hello,
            Message::Update { full: true, .. } => MessageKind::FullDump,
            Message::Update { full: false, .. } => MessageKind::IncrementalDump,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(nodes: &[Address]) -> SourceRoute {
        SourceRoute::new(nodes).expect("it is short")
    }

    #[test]
    fn sizes_of_aodv_are_those_of_rfc_3561() {
        // §5.1 to §5.4: 24, 20, 4 + 8 n and 2 bytes, behind 20 of IP and 8 of UDP.
        let rreq = Rreq {
            ttl: 1,
            hops: 0,
            id: 1,
            destination: 2,
            destination_seq: None,
            originator: 1,
            originator_seq: 1,
            gratuitous: false,
            destination_only: false,
        };
        assert_eq!(Message::Rreq(rreq).bytes(), 52);
        let mut rrep = Rrep {
            hops: 0,
            destination: 2,
            destination_seq: 1,
            originator: 1,
            lifetime: Span::ZERO,
            acknowledge: false,
            last_hop: None,
        };
        assert_eq!(Message::Rrep(rrep).bytes(), 48);
        rrep.last_hop = Some(3);
        assert_eq!(Message::Rrep(rrep).bytes(), 54);
        let unreachable = vec![Unreachable { destination: 1, seq: 2 }; 3];
        let rerr = Rerr {
            no_delete: false,
            unreachable,
        };
        assert_eq!(Message::Rerr(rerr).bytes(), 28 + 4 + 24);
        assert_eq!(Message::RrepAck.bytes(), 30);
    }

    #[test]
    fn sizes_of_dsr_are_those_of_rfc_4728() {
        // §6.2: 8 bytes and 4 for each node passed.
        let request = |nodes: &[Address]| {
            Message::DsrRequest(DsrRequest {
                ttl: 1,
                id: 0,
                target: 9,
                route: route(nodes),
                error: None,
            })
            .bytes()
        };
        assert_eq!(request(&[1]), 20 + 4 + 8);
        assert_eq!(request(&[1, 2, 3]), 20 + 4 + 8 + 8);
        // §6.3, with the source route option of §6.7 in front: 1 -> 2 -> 3 -> 9 was found, 9 -> 3 -> 2 -> 1 is the return path.
        let found = route(&[1, 2, 3, 9]);
        let reply = DsrReply {
            source_route: found.reversed(),
            found,
        };
        assert_eq!(Message::DsrReply(reply).bytes(), 20 + 4 + (3 + 12) + (4 + 8));
        // §6.4
        let error = DsrError {
            source_route: route(&[2, 1]),
            broken: BrokenLink { from: 2, to: 3 },
            salvage: 0,
        };
        assert_eq!(Message::DsrError(error).bytes(), 20 + 4 + 16);
        // Data over three hops: two addresses.
        assert_eq!(found.header_bytes(), 4 + 4 + 8);
        assert_eq!(route(&[1, 2]).header_bytes(), 0);
    }
}
