//! How an IP packet inside the tunnel is carried: with the share of its flow, and in order with the others of it or at once.
//!
//! TCP, SCTP and QUIC take a packet that others have overtaken for a lost one, and send slower. Several paths overtake each other all the time.
//! Speech, video, games and DNS do not need the order, and a packet that waits for another one comes too late for them.

use std::hash::{BuildHasher as _, Hash as _, Hasher, RandomState};
use std::sync::LazyLock;

use etherparse::{IpNumber, LaxNetSlice, LaxSlicedPacket};

use super::protocol::FLOWS;

/// The UDP port of HTTP/3 (RFC 9114 §3.2), whose packets are those of QUIC.
const QUIC_PORT: u16 = 443;

/// How a packet is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handling {
    /// Below [`FLOWS`]. All flows have the same share of the paths.
    pub(crate) flow: u16,
    /// Whether it must not overtake packets of its flow that were sent before, unless these take too long.
    pub(crate) in_order: bool,
}

impl Handling {
    /// Returns what this IP packet needs.
    pub(crate) fn of(packet: &[u8]) -> Self {
        // Otherwise others could make up connections that share the flow of a victim.
        static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        let mut flow = SECRET.build_hasher();
        let in_order = LaxSlicedPacket::from_ip(packet).is_ok_and(|packet| Self::read(&packet, &mut flow));
        let flow = (flow.finish() % u64::from(FLOWS)) as u16;
        Handling { flow, in_order }
    }

    /// Feeds what distinguishes flows to the hash, and returns whether the order matters.
    fn read(packet: &LaxSlicedPacket<'_>, flow: &mut impl Hasher) -> bool {
        let (dscp, content) = match &packet.net {
            Some(LaxNetSlice::Ipv4(ip)) => {
                let header = ip.header();
                (header.source(), header.destination()).hash(flow);
                (header.dcp().value(), ip.payload())
            }
            Some(LaxNetSlice::Ipv6(ip)) => {
                let header = ip.header();
                (header.source(), header.destination()).hash(flow);
                (header.traffic_class() >> 2, ip.payload())
            }
            _ => return false,
        };
        content.ip_number.0.hash(flow);
        // All of these begin with the ports. Only the first of the fragments of a packet has them: all of them are of one flow without.
        let has_ports = matches!(content.ip_number, IpNumber::TCP | IpNumber::UDP | IpNumber::SCTP);
        let ports = content
            .payload
            .first_chunk()
            .filter(|_| has_ports && !content.fragmented);
        ports.hash(flow);
        let is_quic = |[a, b, c, d]: [u8; 4]| [[a, b], [c, d]].contains(&QUIC_PORT.to_be_bytes());
        match content.ip_number {
            IpNumber::TCP | IpNumber::SCTP => true,
            IpNumber::UDP => ports.copied().is_some_and(is_quic) && !is_real_time(dscp),
            _ => false,
        }
    }
}

/// Returns whether this codepoint is one of speech, video conferences or games (RFC 4594 §2, RFC 5865).
fn is_real_time(dscp: u8) -> bool {
    // EF, VOICE-ADMIT, CS5, CS4, AF41 to AF43.
    matches!(dscp, 46 | 44 | 40 | 32 | 34 | 36 | 38)
}

#[cfg(test)]
mod tests {
    use etherparse::PacketBuilder;

    use super::*;

    const HERE: [u8; 4] = [10, 9, 0, 2];
    const THERE: [u8; 4] = [10, 9, 0, 1];

    fn tcp(port: u16) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(HERE, THERE, 64).tcp(port, 80, 0, 1000);
        builder.write(&mut packet, b"content").unwrap();
        packet
    }

    fn udp(port: u16, dscp: u8) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv4(HERE, THERE, 64).udp(5000, port);
        builder.write(&mut packet, b"content").unwrap();
        packet[1] = dscp << 2;
        packet
    }

    fn flow(packet: &[u8]) -> u16 {
        Handling::of(packet).flow
    }

    fn in_order(packet: &[u8]) -> bool {
        Handling::of(packet).in_order
    }

    #[test]
    fn packets_of_a_connection_are_a_flow() {
        assert_eq!(flow(&tcp(1000)), flow(&tcp(1000)));
        let flows: std::collections::BTreeSet<_> = (0..100).map(|port| flow(&tcp(port))).collect();
        assert!(flows.len() > 80 && flows.iter().all(|flow| *flow < FLOWS), "{flows:?}");
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6([1; 16], [2; 16], 64).tcp(1000, 80, 0, 1000);
        builder.write(&mut packet, b"content").unwrap();
        assert!(in_order(&packet) && in_order(&tcp(1000)));
    }

    #[test]
    fn datagrams_wait_for_nothing_unless_they_are_of_quic() {
        assert!(!in_order(&udp(53, 0)) && in_order(&udp(443, 0)));
        assert!(!in_order(&udp(443, 46)), "marked as speech");
        assert_ne!(flow(&udp(53, 0)), flow(&udp(443, 0)));
        let mut ping = Vec::new();
        let builder = PacketBuilder::ipv4(HERE, THERE, 64).icmpv4_echo_request(1, 1);
        builder.write(&mut ping, b"content").unwrap();
        assert!(!in_order(&ping));
    }

    #[test]
    fn all_fragments_of_a_packet_are_of_one_flow() {
        let fragment = |offset: u16, more: bool| {
            let mut packet = tcp(1000);
            let field = offset | if more { 0x2000 } else { 0 };
            packet[6..8].copy_from_slice(&field.to_be_bytes());
            assert!(in_order(&packet));
            flow(&packet)
        };
        assert_eq!(fragment(0, true), fragment(10, true));
        assert_eq!(fragment(0, true), fragment(20, false));
    }

    #[test]
    fn headers_before_the_ports_are_passed_over() {
        // IPv6 with hop-by-hop options, and 20 bytes of TCP.
        let with_options = |port: u16, next: u8| {
            let mut packet = vec![0x60, 0, 0, 0, 0, 28, 0, 64];
            packet.extend([[1; 16], [2; 16]].concat());
            packet.extend([next, 0, 1, 4, 0, 0, 0, 0]);
            packet.extend(port.to_be_bytes());
            packet.extend([0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0, 0, 0, 0]);
            packet
        };
        let flows: std::collections::BTreeSet<_> = (0..100).map(|port| flow(&with_options(port, 6))).collect();
        assert!(flows.len() > 80, "{flows:?}");
        assert!(in_order(&with_options(1000, 6)) && !in_order(&with_options(1000, 58)));
        // Fragments have no ports: the same whatever these bytes are.
        let fragment = |port| {
            let mut packet = with_options(port, 6);
            packet[6] = 44;
            packet[42..48].copy_from_slice(&[0, 9, 0, 0, 0, 1]);
            assert!(in_order(&packet));
            flow(&packet)
        };
        assert_eq!(fragment(1), fragment(2));
    }

    #[test]
    fn associations_of_sctp_are_flows() {
        let sctp = |port: u16| {
            let mut packet = tcp(port);
            packet[9] = 132;
            packet
        };
        let flows: std::collections::BTreeSet<_> = (0..100).map(|port| flow(&sctp(port))).collect();
        assert!(flows.len() > 80 && in_order(&sctp(1)), "{flows:?}");
    }

    #[test]
    fn nonsense_is_carried_at_once() {
        let whole = tcp(1000);
        for len in 0..20 {
            assert!(!in_order(&whole[..len]), "{len}");
        }
        // The header of IP is enough.
        for len in 20..whole.len() {
            assert!(in_order(&whole[..len]), "{len}");
        }
        for byte in 0..=255 {
            assert!(!in_order(&[byte; 60]), "{byte}");
        }
    }
}
