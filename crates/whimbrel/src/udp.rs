//! SCTP in UDP.

use std::io;
use std::net::{IpAddr, SocketAddr};

use crate::StackConfig;
use crate::interface;
use crate::system::{Encapsulation, SystemSocket};
use crate::transport::{Socket, Transport};

/// UDP sockets of the operating system (RFC 6951), one for each local address: the transport of a stack whose configuration names no other.
///
/// On Linux, where several interfaces have a default route, packets leave by the interface that has their source address, so that each path
/// uses its own network; with IPv6 only if the default routes have the same metric. Destinations with a route of their own, and those that
/// a rule (ip-rule(8)) sends to another table, as a VPN does, follow that route.
#[derive(Clone, Copy, Debug, Default)]
pub struct Udp;

impl Transport for Udp {
    /// Binds `addr` with the buffers and offloads that the configuration asks for.
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>> {
        let socket = std::net::UdpSocket::bind(addr)?;
        let local = socket.local_addr()?;
        let socket = SystemSocket::new(socket, local, Encapsulation::Udp, config)?;
        Ok(Box::new(socket))
    }

    fn local_addrs(&self) -> Vec<IpAddr> {
        interface::local_addrs()
    }

    // [6951:5.3-1]
    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        interface::source_toward(peer)
    }
}
