//! Addresses of packets, and the data that a driver passes with them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::ids::{AssocId, PathId};

/// An IP address and, for SCTP inside UDP (RFC 6951), the UDP port of the encapsulation; port 0 is plain SCTP over IP.
///
/// The SCTP port is not part of it, as it is the same for all addresses of an endpoint (RFC 9260 §1.3).
pub type TransportAddr = SocketAddr;

/// Returns whether packets between such addresses are inside UDP.
pub(crate) fn is_encapsulated(addr: TransportAddr) -> bool {
    addr.port() != 0
}

/// Returns whether these are one IP address, with and without UDP.
pub(crate) fn is_one_ip(addrs: &[TransportAddr]) -> bool {
    addrs.iter().all(|addr| addr.ip() == addrs[0].ip())
}

/// Returns whether the address can be the address of a single host.
pub(crate) fn is_unicast(ip: IpAddr) -> bool {
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast
}

/// Returns whether the address is reserved, or an IPv6 address that a translator may turn into an IPv4 address of this host: networks 0/8 and
/// 240/4 (RFC 6890), and loopback addresses embedded by RFC 4291 §2.5.5, RFC 2765, RFC 6052 or RFC 3056.
fn is_reserved(ip: IpAddr) -> bool {
    let is_special = |ip: Ipv4Addr| ip.is_loopback() || ip.octets()[0] == 0 || ip.octets()[0] >= 240;
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 0 || ip.octets()[0] >= 240,
        IpAddr::V6(ip) => {
            let segments = ip.segments();
            let embedded = |at: usize| Ipv4Addr::from(u32::from(segments[at]) << 16 | u32::from(segments[at + 1]));
            match segments {
                [0, 0, 0, 0, 0, 0, ..] => !ip.is_loopback(),
                [0, 0, 0, 0, 0xffff, 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => is_special(embedded(6)),
                [0x2002, ..] => is_special(embedded(1)),
                _ => false,
            }
        }
    }
}

fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

/// Returns the address of a peer that lists `ip` in a packet from `source`, or `None` if it must not be used. It has the UDP port of the
/// source (RFC 6951 §5.4), and as a link-local address its interface. An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2) is converted to IPv4.
///
/// RFC 9260 has no scopes. Without a rule, a peer could list addresses that mean another host here than there, and so make this host send
/// to itself: reserved addresses are not taken, loopback ones from loopback addresses only, link-local ones from link-local ones, and those of this host, `own`,
/// only from this host, and not with the port of this endpoint.
pub(crate) fn listed_address(ip: IpAddr, source: TransportAddr, own: &[TransportAddr]) -> Option<TransportAddr> {
    let (ip, from) = (ip.to_canonical(), source.ip().to_canonical());
    let is_own = |ip: IpAddr| own.iter().any(|addr| addr.ip().to_canonical() == ip);
    let mut addr = TransportAddr::new(ip, source.port());
    if let (SocketAddr::V6(addr), SocketAddr::V6(source)) = (&mut addr, source)
        && addr.ip().is_unicast_link_local()
    {
        addr.set_scope_id(source.scope_id());
    }
    let is_ours = own
        .iter()
        .any(|own| own.ip().to_canonical() == ip && own.port() == addr.port());
    let is_usable = is_unicast(ip)
        && !is_reserved(ip)
        && (!ip.is_loopback() || from.is_loopback())
        && (!is_link_local(ip) || is_link_local(from))
        && (!is_own(ip) || (is_own(from) || from.is_loopback()) && !is_ours);
    (ip == from && is_unicast(ip) || is_usable).then_some(addr)
}

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
    /// The packet is longer than the path MTU to find out whether it arrives (RFC 8899): it must not be fragmented, and is lost if a link does not
    /// carry it.
    pub probes_mtu: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_addresses_lead_to_the_host_that_lists_them() {
        let own: [TransportAddr; 3] =
            ["192.0.2.1:9899", "[2001:db8::1]:9899", "[fe80::1%2]:9899"].map(|text| text.parse().unwrap());
        let listed = |ip: &str, source: &str| {
            let addr = listed_address(ip.parse().unwrap(), source.parse().unwrap(), &own);
            addr.map(|addr| addr.to_string()).unwrap_or_default()
        };
        // From another host.
        let far = "203.0.113.5:40000";
        for (ip, expected) in [
            ("203.0.113.5", far),
            ("203.0.113.6", "203.0.113.6:40000"),
            ("::ffff:203.0.113.6", "203.0.113.6:40000"),
            ("10.1.2.3", "10.1.2.3:40000"),
            ("2001:db8::2", "[2001:db8::2]:40000"),
            ("127.0.0.1", ""),
            ("127.9.9.9", ""),
            ("::1", ""),
            ("::ffff:127.0.0.1", ""),
            ("169.254.169.254", ""),
            ("fe80::9", ""),
            ("192.0.2.1", ""),
            ("::ffff:192.0.2.1", ""),
            ("2001:db8::1", ""),
            ("0.0.0.0", ""),
            ("::", ""),
            ("224.0.0.1", ""),
            ("ff02::1", ""),
            ("255.255.255.255", ""),
            ("0.1.2.3", ""),
            ("240.0.0.1", ""),
            ("::127.0.0.1", ""),
            ("::ffff:0:127.0.0.1", ""),
            ("64:ff9b::7f00:1", ""),
            ("2002:7f00:1::1", ""),
            ("64:ff9b::cb00:7106", "[64:ff9b::cb00:7106]:40000"),
            ("2002:cb00:7106::1", "[2002:cb00:7106::1]:40000"),
        ] {
            assert_eq!(listed(ip, far), expected, "{ip}");
        }
        // From this host: another program, with another port.
        assert_eq!(listed("127.0.0.2", "127.0.0.1:40000"), "127.0.0.2:40000");
        assert_eq!(listed("192.0.2.1", "127.0.0.1:40000"), "192.0.2.1:40000");
        assert_eq!(listed("2001:db8::1", "192.0.2.1:40000"), "[2001:db8::1]:40000");
        assert_eq!(listed("192.0.2.1", "127.0.0.1:9899"), "");
        assert_eq!(listed("2001:db8::1", "192.0.2.1:9899"), "");
        // On a link: the interface of the source.
        assert_eq!(listed("fe80::9", "[fe80::5%3]:40000"), "[fe80::9%3]:40000");
        assert_eq!(listed("fe80::1", "[fe80::5%3]:40000"), "", "an own address");
        assert_eq!(listed("169.254.1.2", "169.254.1.1:40000"), "169.254.1.2:40000");
    }
}
