//! Socket addresses in the layout of Linux.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Bytes of `struct sockaddr_storage`.
pub(crate) const STORAGE: usize = 128;

const AF_INET: u16 = libc::AF_INET as u16;
const AF_INET6: u16 = libc::AF_INET6 as u16;

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

/// Returns the bytes that an address of this family has, `None` for families that SCTP does not use.
pub(crate) fn len_of(family: u16) -> Option<usize> {
    match family {
        AF_INET => Some(16),
        AF_INET6 => Some(28),
        _ => None,
    }
}

/// Returns the address at the beginning of `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(array(bytes, 2)?);
    match u16::from_ne_bytes(array(bytes, 0)?) {
        AF_INET => Some(SocketAddr::new(IpAddr::from(array::<4>(bytes, 4)?), port)),
        AF_INET6 => {
            let ip = Ipv6Addr::from(array::<16>(bytes, 8)?);
            let scope = u32::from_ne_bytes(array(bytes, 24)?);
            Some(SocketAddrV6::new(ip, port, 0, scope).into())
        }
        _ => None,
    }
}

/// Returns the addresses of a packed list, as those of `sctp_bindx`.
pub(crate) fn parse_list(mut bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        found.push(parse(bytes)?);
        let len = len_of(u16::from_ne_bytes(array(bytes, 0)?))?;
        bytes = bytes.get(len..)?;
    }
    Some(found)
}

/// Returns the address as `struct sockaddr_in` or `struct sockaddr_in6`.
pub(crate) fn bytes(addr: SocketAddr) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(28);
    match addr {
        SocketAddr::V4(v4) => {
            bytes.extend(AF_INET.to_ne_bytes());
            bytes.extend(v4.port().to_be_bytes());
            bytes.extend(v4.ip().octets());
            bytes.resize(16, 0);
        }
        SocketAddr::V6(v6) => {
            bytes.extend(AF_INET6.to_ne_bytes());
            bytes.extend(v6.port().to_be_bytes());
            bytes.extend([0; 4]);
            bytes.extend(v6.ip().octets());
            bytes.extend(v6.scope_id().to_ne_bytes());
        }
    }
    bytes
}

/// Returns the address as `struct sockaddr_storage`.
pub(crate) fn storage(addr: SocketAddr) -> [u8; STORAGE] {
    let mut storage = [0; STORAGE];
    let bytes = bytes(addr);
    storage[..bytes.len()].copy_from_slice(&bytes);
    storage
}

/// Returns the address as a socket of this family shows it: IPv4 addresses in their mapped form on IPv6 (RFC 6458 §7.1.24).
pub(crate) fn shown(addr: SocketAddr, v6: bool) -> SocketAddr {
    match addr {
        SocketAddr::V4(v4) if v6 => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_layout() {
        let addrs: [SocketAddr; 2] = ["192.0.2.1:5001".parse().unwrap(), "[2001:db8::1]:7".parse().unwrap()];
        let packed: Vec<u8> = addrs.into_iter().flat_map(bytes).collect();
        assert_eq!(packed.len(), 16 + 28);
        assert_eq!(parse_list(&packed).unwrap(), addrs);
        assert_eq!(parse_list(&packed[..40]), None);
        assert_eq!(parse(&storage(addrs[1])), Some(addrs[1]));
        assert_eq!(parse(&[0; 16]), None);
        assert_eq!(shown(addrs[0], true).to_string(), "[::ffff:192.0.2.1]:5001");
    }
}
