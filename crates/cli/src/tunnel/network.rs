//! The addresses inside a tunnel.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The address of a device and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network {
    pub(crate) addr: IpAddr,
    pub(crate) prefix: u8,
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

/// Source and destination of an IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addrs {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
}

/// Parses ADDR/PREFIX.
pub(crate) fn parse_network(text: &str) -> Result<Network, String> {
    let wrong =
        || format!("`{text}` is not an IP address with the length of its prefix, such as 10.9.0.1/24 or fd00:9::1/64");
    let (addr, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let addr: IpAddr = addr.parse().map_err(|_| wrong())?;
    let longest = if addr.is_ipv4() { 32 } else { 128 };
    let prefix = prefix
        .parse()
        .ok()
        .filter(|prefix| (1..=longest).contains(prefix))
        .ok_or_else(wrong)?;
    Ok(Network { addr, prefix })
}

impl Network {
    /// Returns whether an address of another host is in this network.
    pub(crate) fn has_host(&self, addr: IpAddr) -> bool {
        let differ = match (self.addr, addr) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => u128::from(ours.to_bits() ^ theirs.to_bits()) << 96,
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => ours.to_bits() ^ theirs.to_bits(),
            _ => return false,
        };
        differ != 0 && differ.leading_zeros() >= u32::from(self.prefix)
    }
}

impl Addrs {
    /// Returns the addresses of a packet, if it is one of IPv4 or IPv6.
    pub(crate) fn of(packet: &[u8]) -> Option<Self> {
        let (source, destination) = match packet.first()? >> 4 {
            4 if packet.len() >= 20 => (v4(packet, 12)?, v4(packet, 16)?),
            6 if packet.len() >= 40 => (v6(packet, 8)?, v6(packet, 24)?),
            _ => return None,
        };
        Some(Addrs { source, destination })
    }
}

fn v4(packet: &[u8], place: usize) -> Option<IpAddr> {
    let bytes = packet.get(place..)?.first_chunk::<4>()?;
    Some(Ipv4Addr::from(*bytes).into())
}

fn v6(packet: &[u8], place: usize) -> Option<IpAddr> {
    let bytes = packet.get(place..)?.first_chunk::<16>()?;
    Some(Ipv6Addr::from(*bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_packets_are_read() {
        let mut packet = [0; 60];
        packet[0] = 0x45;
        packet[12..20].copy_from_slice(&[10, 9, 0, 2, 10, 9, 0, 1]);
        let addrs = Addrs::of(&packet[..20]).expect("a packet");
        assert_eq!(
            (addrs.source.to_string(), addrs.destination.to_string()),
            ("10.9.0.2".into(), "10.9.0.1".into())
        );
        assert_eq!(Addrs::of(&packet[..19]), None);
        packet[0] = 0x60;
        packet[8..24].copy_from_slice(&"fd00::2".parse::<Ipv6Addr>().expect("an address").octets());
        packet[24..40].copy_from_slice(&"fd00::1".parse::<Ipv6Addr>().expect("an address").octets());
        let addrs = Addrs::of(&packet[..40]).expect("a packet");
        assert_eq!(
            (addrs.source.to_string(), addrs.destination.to_string()),
            ("fd00::2".into(), "fd00::1".into())
        );
        assert_eq!(Addrs::of(&packet[..39]), None);
        assert_eq!((Addrs::of(&[]), Addrs::of(&[0x50; 60])), (None, None));
    }

    #[test]
    fn hosts_of_other_networks_are_recognized() {
        let has = |network: &str, addr: &str| {
            let network = parse_network(network).expect("a network");
            network.has_host(addr.parse().expect("an address"))
        };
        assert!(has("10.9.0.1/24", "10.9.0.77") && !has("10.9.0.1/24", "10.9.1.77"));
        assert!(!has("10.9.0.1/24", "10.9.0.1"), "its own address");
        assert!(!has("10.9.0.1/32", "10.9.0.2") && has("10.9.0.1/1", "10.200.0.2"));
        assert!(has("fd00::1/64", "fd00::2") && !has("fd00::1/64", "fd00:0:0:1::2"));
        assert!(!has("fd00::1/128", "fd00::2") && !has("fd00::1/64", "10.9.0.1"));
        for wrong in ["", "10.9.0.1", "10.9.0.1/0", "10.9.0.1/33", "::1/129", "::1", "x/24"] {
            assert!(parse_network(wrong).is_err(), "{wrong}");
        }
    }
}
