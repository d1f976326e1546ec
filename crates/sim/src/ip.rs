//! IP packets of programs outside the simulation: their addresses, ECN bits and transport.
//!
//! A packet that is shorter than its headers say has no transport; nothing here fails.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whimbrel_proto::Ecn;
use whimbrel_wire::{Checksum, PacketView};

use crate::segment::{TcpFlags, TcpSegment};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
/// UDP port of SCTP over UDP (RFC 6951 §5.1).
const ENCAPSULATION_PORT: [u8; 2] = 9899_u16.to_be_bytes();
const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;

/// Source and destination address of an IP packet, and its ECN bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The ECN bits.
    pub ecn: Ecn,
}

impl IpHeader {
    /// Reads the header of an IPv4 or IPv6 packet.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<IpHeader> {
        match packet.first()? >> 4 {
            4 => {
                let header: &[u8; V4_HEADER] = packet.first_chunk()?;
                let address = |at: usize| {
                    let octets = [header[at], header[at + 1], header[at + 2], header[at + 3]];
                    IpAddr::V4(Ipv4Addr::from(octets))
                };
                Some(IpHeader {
                    source: address(12),
                    destination: address(16),
                    ecn: ecn_of(header[1]),
                })
            }
            6 => {
                let header: &[u8; V6_HEADER] = packet.first_chunk()?;
                let address = |at: usize| {
                    let mut octets = [0; 16];
                    octets.copy_from_slice(&header[at..at + 16]);
                    IpAddr::V6(Ipv6Addr::from(octets))
                };
                Some(IpHeader {
                    source: address(8),
                    destination: address(24),
                    ecn: ecn_of(header[1] >> 4),
                })
            }
            _ => None,
        }
    }
}

fn ecn_of(bits: u8) -> Ecn {
    match bits & 3 {
        0 => Ecn::NotEct,
        1 => Ecn::Ect1,
        2 => Ecn::Ect0,
        _ => Ecn::Ce,
    }
}

/// Sets CE in the header of an IPv4 or IPv6 packet, and updates the checksum of an IPv4 header (RFC 1624, equation 3).
pub fn set_ce(packet: &mut [u8]) {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= V4_HEADER => {
            let old = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] |= 3;
            let new = u16::from_be_bytes([packet[0], packet[1]]);
            let checksum = u16::from_be_bytes([packet[10], packet[11]]);
            let mut sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
            while sum > 0xffff {
                sum = (sum & 0xffff) + (sum >> 16);
            }
            packet[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Some(6) if packet.len() >= V6_HEADER => packet[1] |= 0x30,
        _ => {}
    }
}

/// Returns the protocol and the bytes after the IP header; none for a fragment.
fn transport(packet: &[u8]) -> Option<(u8, &[u8])> {
    match packet.first()? >> 4 {
        4 => {
            let header: &[u8; V4_HEADER] = packet.first_chunk()?;
            // More fragments, or an offset.
            if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
                return None;
            }
            let len = usize::from(header[0] & 15) * 4;
            Some((header[9], packet.get(len..)?))
        }
        6 => Some((*packet.get(6)?, packet.get(V6_HEADER..)?)),
        _ => None,
    }
}

/// Returns the SCTP packet in an IP packet, directly or over UDP on the port of RFC 6951.
pub(crate) fn sctp(packet: &[u8]) -> Option<PacketView<'_>> {
    let bytes = match transport(packet)? {
        (SCTP, bytes) => bytes,
        (UDP, bytes) => {
            let header: &[u8; 8] = bytes.first_chunk()?;
            let is_ours = [&header[..2], &header[2..4]].contains(&&ENCAPSULATION_PORT[..]);
            is_ours.then(|| &bytes[8..])?
        }
        _ => return None,
    };
    PacketView::parse(bytes, Checksum::Ignore).ok()
}

/// Returns the ports, numbers and flags of the TCP segment in an IP packet, and the length of its payload.
pub(crate) fn tcp(packet: &[u8]) -> Option<TcpSegment> {
    let (TCP, bytes) = transport(packet)? else { return None };
    let header: &[u8; 20] = bytes.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let len = usize::from(header[12] >> 4) * 4;
    let flags = [(1, TcpFlags::FIN), (2, TcpFlags::SYN), (16, TcpFlags::ACK)];
    Some(TcpSegment {
        source_port: (word(0) >> 16) as u16,
        destination_port: word(0) as u16,
        seq: word(4),
        ack: word(8),
        flags: flags.iter().fold(TcpFlags::NONE, |all, (bit, flag)| {
            all.with_if(*flag, header[13] & bit != 0)
        }),
        payload: bytes.len().saturating_sub(len) as u32,
        ..TcpSegment::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::ChunkKinds;
    use crate::loss::ChunkKind;
    use crate::packet::{Body, Form};

    /// The worked example of Wikipedia's article on the IPv4 header checksum, with ECT(0).
    const HEADER: [u8; 20] = [
        0x45, 2, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x5f, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
    ];

    fn sum(bytes: &[u8]) -> u32 {
        let sum: u32 = bytes
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        (sum & 0xffff) + (sum >> 16)
    }

    #[test]
    fn ce_keeps_the_checksum_of_a_header_valid() {
        let mut packet = HEADER;
        assert_eq!(sum(&packet), 0xffff, "the example is valid");
        let header = IpHeader::parse(&packet).expect("an IPv4 header");
        assert_eq!(header.ecn, Ecn::Ect0);
        assert_eq!(header.source, IpAddr::from([192, 168, 0, 1]));
        assert_eq!(header.destination, IpAddr::from([192, 168, 0, 199]));
        set_ce(&mut packet);
        assert_eq!(IpHeader::parse(&packet).expect("an IPv4 header").ecn, Ecn::Ce);
        assert_eq!(sum(&packet), 0xffff);
    }

    #[test]
    fn ce_is_set_in_an_ipv6_header() {
        let mut packet = [0; 40];
        packet[0] = 0x60;
        packet[1] = 0x1f;
        packet[39] = 9;
        assert_eq!(IpHeader::parse(&packet).expect("an IPv6 header").ecn, Ecn::Ect1);
        set_ce(&mut packet);
        let header = IpHeader::parse(&packet).expect("an IPv6 header");
        assert_eq!((header.ecn, packet[1]), (Ecn::Ce, 0x3f));
        assert_eq!(header.destination, IpAddr::from(Ipv6Addr::from(9)));
    }

    #[test]
    fn content_of_a_packet_is_known_to_loss_models() {
        let kinds = |protocol: u8, transport: &[u8]| {
            let mut bytes = HEADER.to_vec();
            bytes[9] = protocol;
            bytes.extend(transport);
            let body = Body {
                bytes,
                form: Form::Ip,
                ..Body::default()
            };
            body.kinds()
        };
        // A COOKIE ACK (11) on its own, directly and over UDP.
        let sctp = [0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 11, 0, 0, 4];
        let cookie_ack = ChunkKinds::of(ChunkKind::CookieAck);
        assert_eq!(kinds(SCTP, &sctp), cookie_ack);
        let [high, low] = ENCAPSULATION_PORT;
        assert_eq!(
            kinds(UDP, &[&[9, 9, high, low, 0, 24, 0, 0], &sctp[..]].concat()),
            cookie_ack
        );
        assert_eq!(
            kinds(UDP, &[&[9, 9, 8, 8, 0, 24, 0, 0], &sctp[..]].concat()),
            ChunkKinds::of(ChunkKind::Udp)
        );
        let mut segment = [0; 24];
        (segment[12], segment[13]) = (0x50, 0x10);
        assert_eq!(kinds(TCP, &segment), ChunkKinds::of(ChunkKind::Data));
        assert_eq!(kinds(TCP, &segment[..20]), ChunkKinds::of(ChunkKind::Sack));
        assert_eq!(kinds(TCP, &segment[..19]), ChunkKinds::of(ChunkKind::Udp), "cut short");
    }
}
