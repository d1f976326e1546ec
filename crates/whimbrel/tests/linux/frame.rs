//! Ethernet, ARP and IPv4 as far as two hosts on a cable need them.

use std::net::{Ipv4Addr, SocketAddrV4};

use whimbrel_proto::Ecn;

/// Cables between us and them, each with a network of its own.
pub(crate) const INTERFACES: usize = 2;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TYPE_IPV4: u16 = 0x0800;
const TYPE_ARP: u16 = 0x0806;
const PROTOCOL_SCTP: u8 = 132;
const PROTOCOL_UDP: u8 = 17;
const UDP: usize = 8;

type Mac = [u8; 6];

pub(crate) fn our_address(interface: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1 + interface as u8, 0, 1)
}

pub(crate) fn their_address(interface: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 1 + interface as u8, 0, 2)
}

/// The cable that an address, ours or theirs, belongs to.
pub(crate) fn interface_of(address: Ipv4Addr) -> usize {
    usize::from(address.octets()[1]) - 1
}

fn our_mac(interface: usize) -> Mac {
    [2, 0, 0, 0, interface as u8, 1]
}

pub(crate) fn their_mac(interface: usize) -> Mac {
    [2, 0, 0, 0, interface as u8, 2]
}

pub(crate) fn text(mac: Mac) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// What came in a frame.
#[derive(PartialEq, Debug)]
pub(crate) enum Content<'a> {
    /// An SCTP packet, with source, destination and ECN bits. Without UDP, the ports are 0.
    Sctp {
        source: SocketAddrV4,
        destination: SocketAddrV4,
        ecn: Ecn,
        packet: &'a [u8],
    },
    /// Returns the frame that answers an ARP request for one of our addresses.
    Question {
        answer: Vec<u8>,
    },
    Other,
}

/// Whether the frame holds an INIT.
pub(crate) fn is_init(interface: usize, frame: &[u8]) -> bool {
    const FIRST_CHUNK: usize = 12;
    matches!(read(interface, frame), Content::Sctp { packet, .. } if packet.get(FIRST_CHUNK) == Some(&1))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn ethernet(interface: usize, kind: u16) -> Vec<u8> {
    let mut frame = Vec::with_capacity(1514);
    frame.extend_from_slice(&their_mac(interface));
    frame.extend_from_slice(&our_mac(interface));
    frame.extend_from_slice(&kind.to_be_bytes());
    frame
}

/// Takes a frame apart.
pub(crate) fn read(interface: usize, frame: &[u8]) -> Content<'_> {
    if frame.len() < ETHERNET + IPV4 {
        return Content::Other;
    }
    let body = &frame[ETHERNET..];
    match u16_at(frame, 12) {
        TYPE_IPV4 => read_ipv4(body),
        TYPE_ARP => read_arp(interface, body),
        _ => Content::Other,
    }
}

fn read_ipv4(body: &[u8]) -> Content<'_> {
    let header = usize::from(body[0] & 0x0f) * 4;
    let len = usize::from(u16_at(body, 2));
    if !matches!(body[9], PROTOCOL_SCTP | PROTOCOL_UDP) || body[0] >> 4 != 4 {
        return Content::Other;
    }
    assert_eq!(sum(&body[..header]), 0xffff, "checksum of an IPv4 header");
    assert_eq!(
        u16_at(body, 6) & 0x3fff,
        0,
        "a fragment, although packets fit the cable"
    );
    let (ports, packet) = match body[9] {
        PROTOCOL_UDP => ([header, header + 2].map(|at| u16_at(body, at)), header + UDP),
        _ => ([0, 0], header),
    };
    let address = |at: usize| Ipv4Addr::new(body[at], body[at + 1], body[at + 2], body[at + 3]);
    Content::Sctp {
        source: SocketAddrV4::new(address(12), ports[0]),
        destination: SocketAddrV4::new(address(16), ports[1]),
        ecn: match body[1] & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        },
        packet: &body[packet..len],
    }
}

/// An ARP packet (RFC 826): kinds and lengths of addresses, operation, then both addresses of the sender and of the target.
fn read_arp(interface: usize, body: &[u8]) -> Content<'_> {
    let ours = our_address(interface).octets();
    if body.len() < 28 || u16_at(body, 6) != 1 || body[24..28] != ours {
        return Content::Other;
    }
    let mut answer = ethernet(interface, TYPE_ARP);
    answer.extend_from_slice(&body[..6]);
    answer.extend_from_slice(&2_u16.to_be_bytes());
    answer.extend_from_slice(&our_mac(interface));
    answer.extend_from_slice(&ours);
    answer.extend_from_slice(&body[8..18]);
    Content::Question { answer }
}

/// A frame for the guest that holds an SCTP packet.
pub(crate) fn write(source: SocketAddrV4, destination: SocketAddrV4, ecn: Ecn, packet: &[u8]) -> Vec<u8> {
    let interface = interface_of(*destination.ip());
    let has_udp = destination.port() != 0;
    let mut frame = ethernet(interface, TYPE_IPV4);
    let ecn = match ecn {
        Ecn::NotEct => 0,
        Ecn::Ect1 => 1,
        Ecn::Ect0 => 2,
        Ecn::Ce => 3,
    };
    frame.extend_from_slice(&[0x45, ecn]);
    let (protocol, udp) = if has_udp {
        (PROTOCOL_UDP, UDP)
    } else {
        (PROTOCOL_SCTP, 0)
    };
    frame.extend_from_slice(&((IPV4 + udp + packet.len()) as u16).to_be_bytes());
    // No identification, do not fragment, 64 hops.
    frame.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    frame.extend_from_slice(&source.ip().octets());
    frame.extend_from_slice(&destination.ip().octets());
    let checksum = !sum(&frame[ETHERNET..]);
    frame[ETHERNET + 10..ETHERNET + 12].copy_from_slice(&checksum.to_be_bytes());
    if has_udp {
        // No checksum (RFC 768).
        for field in [source.port(), destination.port(), (UDP + packet.len()) as u16, 0] {
            frame.extend_from_slice(&field.to_be_bytes());
        }
    }
    frame.extend_from_slice(packet);
    frame
}

/// The ones' complement sum (RFC 1071).
fn sum(header: &[u8]) -> u16 {
    let mut sum: u32 = (0..header.len())
        .step_by(2)
        .map(|at| u32::from(u16_at(header, at)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn what_is_written_is_read() {
    for (port, header) in [(0, 0), (9899, 8)] {
        let [source, destination] = [our_address(1), their_address(1)].map(|ip| SocketAddrV4::new(ip, port));
        let frame = write(source, destination, Ecn::Ect0, &[7; 33]);
        assert_eq!(frame.len(), 14 + 20 + header + 33);
        let read = read(1, &frame);
        let written = Content::Sctp {
            source,
            destination,
            ecn: Ecn::Ect0,
            packet: &[7; 33],
        };
        assert_eq!(read, written);
    }
}
