//! SCTP directly over IP: protocol 132.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::StackConfig;
use crate::interface;
use crate::transport::{Ports, Socket, Transport};
use crate::udp::Udp;

/// SCTP directly over IP (protocol 132), without UDP: a [`Transport`] for [`StackConfig::transport`].
///
/// It needs Linux and the capability CAP_NET_RAW (capabilities(7)), and a kernel without its own SCTP, which would abort the associations.
/// There are no UDP ports: all addresses have port 0. Routers that translate addresses (NAT) seldom know SCTP; use UDP across them.
///
/// Several stacks of a host may use the same address, with an SCTP port each. The system passes all packets of the protocol to each of
/// them: a filter in the kernel takes those for the stack's own port, and others are not answered. With
/// [`StackConfig::answer_all_ports`] there is no filter, and packets to other ports are answered with an ABORT (RFC 9260 §8.4): that is for a
/// stack that is the only one at its addresses.
///
/// Routes and interfaces are chosen as by [`Udp`].
///
/// # Examples
///
/// ```no_run
/// use std::sync::Arc;
///
/// use whimbrel::{RawIp, Stack, StackConfig};
///
/// # async fn connect() -> Result<(), Box<dyn std::error::Error>> {
/// let config = StackConfig {
///     transport: Some(Arc::new(RawIp)),
///     ..StackConfig::local(["192.0.2.1:0".parse()?])
/// };
/// let association = Stack::bind(config)?.connect(&["198.51.100.1:0".parse()?], 5000).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RawIp;

impl Transport for RawIp {
    /// Opens a raw socket at `addr` for packets to the SCTP port of the configuration, or to all if that is 0.
    ///
    /// # Errors
    /// Returns an error if the address has a port or does not belong to this host; `PermissionDenied` without CAP_NET_RAW; `AddrInUse` if
    /// another stack has the SCTP port there, or the kernel has SCTP; `Unsupported` on systems other than Linux.
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>> {
        #[cfg(target_os = "linux")]
        return Ok(Box::new(linux::bind(addr, config)?));
        #[cfg(not(target_os = "linux"))]
        {
            let _ = (addr, config);
            let message = "only Linux is supported: use UDP";
            Err(io::Error::new(io::ErrorKind::Unsupported, message))
        }
    }

    fn local_addrs(&self) -> Vec<IpAddr> {
        interface::local_addrs()
    }

    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        interface::source_toward(peer)
    }

    fn ports(&self) -> Ports {
        Ports::None
    }
}

/// SCTP directly over IP and inside UDP, for one stack: local addresses with port 0 are of the first kind ([`RawIp`]), others of the second
/// ([`Udp`]). An IP address may be of both.
///
/// It serves peers of both kinds at one address, and follows a peer that leaves UDP or begins to use it (RFC 6951 §5.4), once the addresses
/// that it used before do not answer. Paths of one association may differ: the peer's addresses have port 0, or the UDP port of the peer.
/// [`Stack::follow_addresses`](crate::Stack::follow_addresses) adds new addresses without UDP.
///
/// # Examples
///
/// ```no_run
/// use std::sync::Arc;
///
/// use whimbrel::{Listener, RawIpAndUdp, StackConfig};
///
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// let config = StackConfig {
///     port: 3868,
///     transport: Some(Arc::new(RawIpAndUdp)),
///     ..StackConfig::local(["192.0.2.1:0".parse()?, "192.0.2.1:9899".parse()?])
/// };
/// let association = Listener::bind(config)?.accept().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RawIpAndUdp;

impl Transport for RawIpAndUdp {
    /// Opens a raw socket if the port of `addr` is 0, or else a UDP socket.
    ///
    /// # Errors
    /// Returns the errors of [`RawIp`] and [`Udp`].
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>> {
        match addr.port() {
            0 => RawIp.bind(addr, config),
            _ => Udp.bind(addr, config),
        }
    }

    fn local_addrs(&self) -> Vec<IpAddr> {
        interface::local_addrs()
    }

    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        interface::source_toward(peer)
    }

    fn ports(&self) -> Ports {
        Ports::Some
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::OwnedFd;
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::UnixDatagram;
    use std::path::Path;

    use nix::sys::socket::{setsockopt, sockopt};
    use socket2::{Domain, Protocol, SockAddr, Type};

    use crate::StackConfig;
    use crate::filter;
    use crate::ip::{SCTP, Share};
    use crate::system::{Encapsulation, SystemSocket};

    /// Where the kernel's own SCTP describes itself, in each network namespace.
    const KERNEL_SCTP: &str = "/proc/thread-self/net/sctp";

    /// Why raw IP cannot be used.
    #[derive(Debug, thiserror::Error)]
    enum Refusal {
        #[error(
            "SCTP over IP needs the capability CAP_NET_RAW: run the program as root, or once `setcap cap_net_raw+ep PROGRAM` as root, or use UDP"
        )]
        NotPermitted,
        #[error(
            "the kernel has its own SCTP, which aborts associations of other programs: remove it (`modprobe -r sctp` as root), or use UDP"
        )]
        Kernel,
        #[error("another stack of this host has SCTP port {0} at this address")]
        PortInUse(u16),
        #[error("SCTP over IP has no UDP ports: use port 0")]
        HasPort,
    }

    impl From<Refusal> for io::Error {
        fn from(refusal: Refusal) -> Self {
            let kind = match refusal {
                Refusal::NotPermitted => io::ErrorKind::PermissionDenied,
                Refusal::Kernel | Refusal::PortInUse(_) => io::ErrorKind::AddrInUse,
                Refusal::HasPort => io::ErrorKind::InvalidInput,
            };
            io::Error::new(kind, refusal)
        }
    }

    /// Opens a raw socket at this address.
    pub(crate) fn bind(addr: SocketAddr, config: &StackConfig) -> io::Result<SystemSocket> {
        if addr.port() != 0 {
            return Err(Refusal::HasPort.into());
        }
        let socket = open(addr.ip())?;
        if has_kernel_sctp(Path::new(KERNEL_SCTP)) {
            return Err(Refusal::Kernel.into());
        }
        let claim = match config.port {
            0 => None,
            port => Some(claim(addr, port)?),
        };
        socket.bind(&SockAddr::from(addr))?;
        let port = Some(config.port).filter(|port| *port != 0 && config.answer_all_ports != Some(true));
        let share = Share::new(port, claim);
        let socket = std::net::UdpSocket::from(OwnedFd::from(socket));
        let socket = SystemSocket::new(socket, addr, Encapsulation::None(share), config)?;
        socket.take_wanted()?;
        Ok(socket)
    }

    /// Returns a raw socket that takes no packets yet: before it is bound, it would take those for all addresses of the host.
    fn open(ip: IpAddr) -> io::Result<socket2::Socket> {
        let domain = if ip.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
        let socket = match socket2::Socket::new(domain, Type::RAW, Some(Protocol::from(i32::from(SCTP)))) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(Refusal::NotPermitted.into()),
            other => other?,
        };
        socket.attach_filter(&filter::nothing())?;
        socket.set_nonblocking(true)?;
        // What has arrived before the filter.
        while socket.recv(&mut []).is_ok() {}
        match ip {
            IpAddr::V4(_) => setsockopt(&socket, sockopt::Ipv4RecvErr, &true)?,
            IpAddr::V6(_) => setsockopt(&socket, sockopt::Ipv6RecvErr, &true)?,
        }
        Ok(socket)
    }

    /// Whether the kernel has SCTP. To open a socket of it would load its module where it is not active.
    fn has_kernel_sctp(folder: &Path) -> bool {
        folder.exists()
    }

    /// Takes an SCTP port at an address for this stack, as far as other stacks of Whimbrel in this network namespace are concerned.
    fn claim(addr: SocketAddr, port: u16) -> io::Result<UnixDatagram> {
        let name = match addr {
            // The same address may be there on several interfaces (RFC 4007 §6).
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("whimbrel/sctp/{}%{}/{port}", v6.ip(), v6.scope_id()),
            _ => format!("whimbrel/sctp/{}/{port}", addr.ip()),
        };
        // The name is free again when the socket is closed, however its process ends (unix(7)).
        let name = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
        UnixDatagram::bind_addr(&name).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => Refusal::PortInUse(port).into(),
            _ => error,
        })
    }

    #[cfg(test)]
    mod tests {
        use std::net::SocketAddrV6;

        use super::*;

        #[test]
        fn the_sctp_of_the_kernel_is_found_by_its_folder() {
            assert!(has_kernel_sctp(Path::new("/proc/thread-self/net")));
            assert!(!has_kernel_sctp(Path::new("/proc/thread-self/net/no-such-protocol")));
        }

        #[test]
        fn a_port_is_claimed_until_it_is_released() {
            let addr: SocketAddr = "192.0.2.77:0".parse().unwrap();
            let first = claim(addr, 4711).unwrap();
            let second = claim(addr, 4711).unwrap_err();
            assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
            assert_eq!(
                second.to_string(),
                "another stack of this host has SCTP port 4711 at this address"
            );
            claim(addr, 4712).unwrap();
            drop(first);
            claim(addr, 4711).unwrap();
        }

        #[test]
        fn link_local_addresses_are_claimed_per_interface() {
            let addr = |scope| SocketAddr::from(SocketAddrV6::new("fe80::77".parse().unwrap(), 0, 0, scope));
            let _first = claim(addr(1), 4711).unwrap();
            let _second = claim(addr(2), 4711).unwrap();
            assert!(claim(addr(1), 4711).is_err());
        }
    }
}
