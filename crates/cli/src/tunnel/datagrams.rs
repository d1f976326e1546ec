//! The socket of a local UDP port. Answers leave from the address that the program has sent to, also if the port is open at all addresses.

use std::io::Result;
use std::net::{IpAddr, SocketAddr};

use tokio::net::UdpSocket;

/// Where a datagram came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) addr: SocketAddr,
    /// The address of this host that it was sent to, if the socket has several.
    pub(crate) sent_to: Option<IpAddr>,
}

impl From<SocketAddr> for Source {
    fn from(addr: SocketAddr) -> Self {
        Source { addr, sent_to: None }
    }
}

/// A socket that reports to which address of this host a datagram was sent.
#[derive(Debug)]
pub(crate) struct LocalSocket {
    socket: UdpSocket,
    /// Its address is that of all interfaces.
    is_at_all: bool,
}

impl LocalSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// Returns an error if the address is in use or not of this host.
    pub(crate) async fn bind(local: SocketAddr) -> Result<Self> {
        let socket = UdpSocket::bind(local).await?;
        let is_at_all = local.ip().is_unspecified();
        if is_at_all {
            imp::request(&socket, local)?;
        }
        Ok(LocalSocket { socket, is_at_all })
    }

    /// Returns its address.
    ///
    /// # Errors
    /// Returns the error of the system.
    pub(crate) fn local_addr(&self) -> Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits for a datagram. Returns its length and its source.
    ///
    /// # Errors
    /// Returns an error of the socket, such as a report about an earlier datagram.
    ///
    /// # Cancel safety
    /// No datagram is lost if the returned future is dropped before it is ready.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> Result<(usize, Source)> {
        if self.is_at_all {
            return imp::receive(&self.socket, buffer).await;
        }
        let (len, source) = self.socket.recv_from(buffer).await?;
        Ok((len, source.into()))
    }

    /// Sends a datagram to the source of others, from the address that they were sent to, or drops it.
    pub(crate) fn answer(&self, datagram: &[u8], to: Source) {
        let from = to.sent_to;
        let is_sent = from.is_some_and(|from| imp::send(&self.socket, datagram, to.addr, from).is_ok());
        // The system chooses an address if there is none, or if the host has it no longer.
        if !is_sent {
            let _ = self.socket.try_send_to(datagram, to.addr);
        }
    }
}

#[cfg(target_os = "linux")]
mod imp {
    use std::io::{Error, ErrorKind, IoSlice, IoSliceMut, Result};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::os::fd::AsRawFd as _;

    use nix::libc;
    use nix::sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, SockaddrIn6, SockaddrLike, SockaddrStorage, recvmsg,
        sendmsg, setsockopt, sockopt,
    };
    use tokio::io::Interest;
    use tokio::net::UdpSocket;

    use super::Source;

    /// Asks the system for the address that each datagram was sent to.
    pub(super) fn request(socket: &UdpSocket, local: SocketAddr) -> Result<()> {
        match local {
            SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?,
            // IPv4 datagrams have a mapped address.
            SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?,
        }
        Ok(())
    }

    pub(super) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<(usize, Source)> {
        let receive = || receive_now(socket, buffer);
        socket.async_io(Interest::READABLE, receive).await
    }

    fn receive_now(socket: &UdpSocket, buffer: &mut [u8]) -> Result<(usize, Source)> {
        let mut space = nix::cmsg_space!(libc::in6_pktinfo);
        let mut parts = [IoSliceMut::new(buffer)];
        let flags = MsgFlags::empty();
        let received = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
        let to = received.cmsgs()?.find_map(|message| match message {
            // For a broadcast, it is the address of the interface.
            ControlMessageOwned::Ipv4PacketInfo(info) => {
                Some(Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes()).into())
            }
            ControlMessageOwned::Ipv6PacketInfo(info) => Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into()),
            _ => None,
        });
        let source = received.address.as_ref().and_then(addr_of);
        let source = source.ok_or_else(|| Error::new(ErrorKind::InvalidData, "a datagram without a source"))?;
        Ok((
            received.bytes,
            Source {
                addr: source,
                sent_to: to,
            },
        ))
    }

    fn addr_of(addr: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = addr.as_sockaddr_in().map(|addr| SocketAddr::V4((*addr).into()));
        v4.or_else(|| addr.as_sockaddr_in6().map(|addr| SocketAddr::V6((*addr).into())))
    }

    pub(super) fn send(socket: &UdpSocket, datagram: &[u8], to: SocketAddr, from: IpAddr) -> Result<()> {
        match (to, from) {
            (SocketAddr::V4(to), IpAddr::V4(from)) => {
                let none = libc::in_addr { s_addr: 0 };
                let spec_dst = libc::in_addr {
                    s_addr: u32::from_ne_bytes(from.octets()),
                };
                let info = libc::in_pktinfo {
                    ipi_ifindex: 0,
                    ipi_spec_dst: spec_dst,
                    ipi_addr: none,
                };
                let message = ControlMessage::Ipv4PacketInfo(&info);
                send_now(socket, datagram, &SockaddrIn::from(to), message)
            }
            (SocketAddr::V6(to), IpAddr::V6(from)) => {
                let addr = libc::in6_addr { s6_addr: from.octets() };
                let info = libc::in6_pktinfo {
                    ipi6_addr: addr,
                    ipi6_ifindex: 0,
                };
                let message = ControlMessage::Ipv6PacketInfo(&info);
                send_now(socket, datagram, &SockaddrIn6::from(to), message)
            }
            _ => Err(ErrorKind::InvalidInput.into()),
        }
    }

    fn send_now(
        socket: &UdpSocket,
        datagram: &[u8],
        to: &impl SockaddrLike,
        message: ControlMessage<'_>,
    ) -> Result<()> {
        let parts = [IoSlice::new(datagram)];
        socket.try_io(Interest::WRITABLE, || {
            sendmsg(socket.as_raw_fd(), &parts, &[message], MsgFlags::empty(), Some(to))?;
            Ok(())
        })
    }
}

/// Systems on which the routing table selects the source of answers.
#[cfg(not(target_os = "linux"))]
mod imp {
    use std::io::{ErrorKind, Result};
    use std::net::{IpAddr, SocketAddr};

    use tokio::net::UdpSocket;

    use super::Source;

    pub(super) fn request(_: &UdpSocket, _: SocketAddr) -> Result<()> {
        Ok(())
    }

    pub(super) async fn receive(socket: &UdpSocket, buffer: &mut [u8]) -> Result<(usize, Source)> {
        let (len, source) = socket.recv_from(buffer).await?;
        Ok((len, source.into()))
    }

    pub(super) fn send(_: &UdpSocket, _: &[u8], _: SocketAddr, _: IpAddr) -> Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}
