//! IP headers around simulated packets, for captures.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_SCTP: u8 = 132;

/// The fields of the header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    /// The two ECN bits.
    pub(crate) ecn: u8,
    /// A number for the identification field.
    pub(crate) identification: u16,
    pub(crate) dont_fragment: bool,
    pub(crate) protocol: Protocol,
}

/// The protocol above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Sctp,
    Tcp,
    Udp,
}

/// Appends an IPv4 header (20 bytes, valid checksum) and, for UDP, a UDP header for a payload of `length` bytes.
///
/// Simulated nodes have IPv4 addresses only; an IPv6 address is shown as 0.0.0.0.
pub(crate) fn emit(header: Header, length: usize, out: &mut Vec<u8>) {
    let udp_header = if header.protocol == Protocol::Udp { 8 } else { 0 };
    let total = (20 + udp_header + length).min(usize::from(u16::MAX)) as u16;
    let at = out.len();
    out.extend([0x45, header.ecn & 3]);
    out.extend(total.to_be_bytes());
    out.extend(header.identification.to_be_bytes());
    // Don't Fragment; time to live 64.
    out.extend([
        if header.dont_fragment { 0x40 } else { 0 },
        0,
        64,
        match header.protocol {
            Protocol::Sctp => PROTOCOL_SCTP,
            Protocol::Tcp => PROTOCOL_TCP,
            Protocol::Udp => PROTOCOL_UDP,
        },
        0,
        0,
    ]);
    out.extend(v4(header.from.ip()).octets());
    out.extend(v4(header.to.ip()).octets());
    let checksum = internet_checksum(&out[at..]);
    out[at + 10..at + 12].copy_from_slice(&checksum.to_be_bytes());
    if header.protocol == Protocol::Udp {
        out.extend(header.from.port().to_be_bytes());
        out.extend(header.to.port().to_be_bytes());
        out.extend((total - 20).to_be_bytes());
        // Zero: no checksum.
        out.extend([0; 2]);
    }
}

pub(super) fn v4(address: IpAddr) -> Ipv4Addr {
    match address {
        IpAddr::V4(address) => address,
        IpAddr::V6(address) => address.to_ipv4().unwrap_or(Ipv4Addr::UNSPECIFIED),
    }
}

/// Returns the ones' complement sum of RFC 1071 over an even number of bytes.
pub(super) fn internet_checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks_exact(2)
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_of_a_known_header() {
        // The worked example of Wikipedia's article on the IPv4 header checksum: b861.
        let bytes = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
        ];
        assert_eq!(internet_checksum(&bytes), 0xb861);
    }

    #[test]
    fn a_header_sums_to_zero_and_has_lengths() {
        let header = Header {
            from: "10.0.0.1:9".parse().expect("an address"),
            to: "10.0.0.2:10".parse().expect("an address"),
            ecn: 2,
            identification: 7,
            dont_fragment: true,
            protocol: Protocol::Udp,
        };
        let mut out = vec![0xff];
        emit(header, 100, &mut out);
        assert_eq!(internet_checksum(&out[1..21]), 0);
        assert_eq!(out[2], 2);
        assert_eq!(u16::from_be_bytes([out[3], out[4]]), 128);
        assert_eq!(u16::from_be_bytes([out[25], out[26]]), 108);
        assert_eq!(out.len(), 29);
    }
}
