//! Which addresses this host has, and from which one it reaches a peer.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};

use crate::transport::Transport;

/// Replaces unspecified addresses by the host's addresses: `0.0.0.0` by those of IPv4, `[::]` by those of both versions. An IPv4 address in
/// its IPv6-mapped form is the IPv4 address.
pub(crate) fn expand(addr: SocketAddr, transport: &dyn Transport) -> Vec<SocketAddr> {
    let addr = canonical(addr);
    if !addr.ip().is_unspecified() {
        return vec![addr];
    }
    let mut found = Vec::new();
    for ip in transport.local_addrs() {
        let candidate = SocketAddr::new(ip, addr.port());
        if (addr.is_ipv6() || ip.is_ipv4()) && !found.contains(&candidate) {
            found.push(candidate);
        }
    }
    // IPv6 first, as the address asked for.
    found.sort_by_key(|found: &SocketAddr| found.is_ipv4());
    found
}

/// The addresses of this host's interfaces that are up, without link-local ones.
#[cfg(unix)]
pub(crate) fn local_addrs() -> Vec<IpAddr> {
    listed().unwrap_or_default()
}

/// The same, or why they cannot be listed.
#[cfg(unix)]
pub(crate) fn listed() -> io::Result<Vec<IpAddr>> {
    let unusable = unusable_addrs();
    let found = named()?.into_iter().map(|(_, ip)| ip);
    Ok(found.filter(|ip| !unusable.contains(ip)).collect())
}

/// IPv6 addresses that cannot be bound: their uniqueness is not verified yet, or they are duplicates (RFC 4862 §5.4).
#[cfg(unix)]
fn unusable_addrs() -> Vec<IpAddr> {
    // linux/if_addr.h
    const OPTIMISTIC: u32 = 0x04;
    const DUPLICATE: u32 = 0x08;
    const TENTATIVE: u32 = 0x40;
    // Address, index, prefix length, scope, flags and name; only Linux has it.
    let table = std::fs::read_to_string("/proc/thread-self/net/if_inet6").unwrap_or_default();
    let unusable = |line: &str| {
        let mut fields = line.split_whitespace();
        let ip = u128::from_str_radix(fields.next()?, 16).ok()?;
        let flags = u32::from_str_radix(fields.nth(3)?, 16).ok()?;
        let is_tentative = flags & TENTATIVE != 0 && flags & OPTIMISTIC == 0;
        (is_tentative || flags & DUPLICATE != 0).then_some(IpAddr::V6(Ipv6Addr::from(ip)))
    };
    table.lines().filter_map(unusable).collect()
}

/// The interface that has this address, if another one has addresses as well. Loopback interfaces do not count.
#[cfg(target_os = "linux")]
pub(crate) fn one_of_several(local: IpAddr) -> Option<String> {
    let found = named().ok()?.into_iter().filter(|(_, ip)| !ip.is_loopback());
    // The name of an IPv4 address is its label, such as `eth0:1` (ip-address(8)).
    let found = found.map(|(label, ip)| (label.split(':').next().unwrap_or_default().to_owned(), ip));
    let found: Vec<_> = found.collect();
    let (own, _) = found.iter().find(|(_, ip)| *ip == local)?;
    let is_choice = found.iter().any(|(name, _)| name != own);
    is_choice.then(|| own.clone())
}

#[cfg(unix)]
fn named() -> io::Result<Vec<(String, IpAddr)>> {
    let interfaces = nix::ifaddrs::getifaddrs()?;
    let mut found = Vec::new();
    for interface in interfaces {
        let Some(storage) = interface.address else { continue };
        let ip = match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
            (Some(v4), _) => IpAddr::V4(v4.ip()),
            (_, Some(v6)) => IpAddr::V6(v6.ip()),
            _ => continue,
        };
        let up = interface.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP);
        let link_local = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if up && !link_local {
            found.push((interface.interface_name, ip));
        }
    }
    Ok(found)
}

/// Without a way to list them there are none.
#[cfg(not(unix))]
pub(crate) fn local_addrs() -> Vec<IpAddr> {
    Vec::new()
}

#[cfg(not(unix))]
pub(crate) fn listed() -> io::Result<Vec<IpAddr>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The address in the form that is compared: as IPv4 if it is an IPv4 address in its IPv6-mapped form (RFC 4291 §2.5.5.2), without a flow label, and
/// with the interface of a link-local address only (RFC 4007 §6).
pub(crate) fn canonical(addr: SocketAddr) -> SocketAddr {
    with_scope(addr.ip().to_canonical(), addr.port(), addr)
}

/// This IP address and port, with the interface of `other` if both are link-local IPv6 addresses.
pub(crate) fn with_scope(ip: IpAddr, port: u16, other: SocketAddr) -> SocketAddr {
    match (ip, other) {
        (IpAddr::V6(v6), SocketAddr::V6(other)) if v6.is_unicast_link_local() && other.ip().is_unicast_link_local() => {
            SocketAddrV6::new(v6, port, 0, other.scope_id()).into()
        }
        _ => SocketAddr::new(ip, port),
    }
}

/// Whether this host has IPv6: at least the loopback address.
pub(crate) fn has_ipv6() -> bool {
    UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// The local address from which the routing table reaches `peer`. Nothing is sent.
pub(crate) fn source_toward(peer: SocketAddr) -> io::Result<IpAddr> {
    let any = match peer {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(peer)?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Udp;

    #[test]
    fn loopback_is_reached_from_loopback() {
        let peer = "127.0.0.1:9".parse().unwrap();
        assert_eq!(source_toward(peer).unwrap(), IpAddr::V4(Ipv4Addr::LOCALHOST));
    }

    #[test]
    fn unspecified_stands_for_the_addresses_of_this_host() {
        let all = expand("0.0.0.0:7".parse().unwrap(), &Udp);
        assert!(all.contains(&"127.0.0.1:7".parse().unwrap()), "{all:?}");
        assert!(all.iter().all(|a| a.is_ipv4() && a.port() == 7));
        let both = expand("[::]:7".parse().unwrap(), &Udp);
        assert!(all.iter().all(|addr| both.contains(addr)), "{both:?}");
        assert_eq!(both.iter().any(SocketAddr::is_ipv6), has_ipv6(), "{both:?}");
        assert!(both.is_sorted_by_key(SocketAddr::is_ipv4), "{both:?}");
    }

    #[test]
    fn only_link_local_addresses_have_an_interface() {
        let v6 = |ip: &str, flow, scope| SocketAddr::from(SocketAddrV6::new(ip.parse().unwrap(), 7, flow, scope));
        assert_eq!(canonical(v6("fe80::1", 9, 3)), v6("fe80::1", 0, 3));
        assert_eq!(canonical(v6("fd00::1", 9, 3)), v6("fd00::1", 0, 0));
        let ip = |text: &str| text.parse().unwrap();
        assert_eq!(with_scope(ip("fe80::2"), 7, v6("fe80::1", 0, 3)), v6("fe80::2", 0, 3));
        assert_eq!(with_scope(ip("fd00::2"), 7, v6("fe80::1", 0, 3)), v6("fd00::2", 0, 0));
        assert_eq!(with_scope(ip("fe80::2"), 7, v6("fd00::1", 0, 3)), v6("fe80::2", 0, 0));
    }

    #[test]
    fn mapped_addresses_become_ipv4() {
        let mapped = "[::ffff:127.0.0.1]:7".parse().unwrap();
        assert_eq!(expand(mapped, &Udp), ["127.0.0.1:7".parse().unwrap()]);
        let any = expand("[::ffff:0.0.0.0]:7".parse().unwrap(), &Udp);
        assert!(
            any.contains(&"127.0.0.1:7".parse().unwrap()) && any.iter().all(SocketAddr::is_ipv4),
            "{any:?}"
        );
    }
}
