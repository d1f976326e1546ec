//! One UDP socket: datagrams in batches with their ECN bits, and what the network says about datagrams that did not arrive.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use whimbrel_proto::Ecn;

use crate::StackConfig;
#[cfg(target_os = "linux")]
use crate::flood;

#[derive(Debug)]
pub(crate) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    segmentation_offload: bool,
}

/// What the network or the host said about datagrams to an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No program listens on the UDP port (ICMP port unreachable).
    PortUnreachable,
    /// No way to the host or network.
    HostUnreachable,
}

impl Socket {
    /// Binds `addr` with the buffers and offloads that the configuration asks for.
    pub(crate) fn bind(addr: SocketAddr, config: &StackConfig) -> io::Result<Self> {
        let socket = std::net::UdpSocket::bind(addr)?;
        let reference = UdpSockRef::from(&socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        state.enable_transport_errors(reference)?;
        // A system that grants less only loses more packets in bursts.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), config.socket_buffer);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), config.socket_buffer);
        force_buffers(&socket, &state, config.socket_buffer);
        let local = socket.local_addr()?;
        Ok(Socket {
            io: UdpSocket::from_std(socket)?,
            state,
            local,
            segmentation_offload: config.segmentation_offload,
        })
    }

    /// The address it is bound to.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// How many datagrams of equal length one send may carry.
    pub(crate) fn max_segments(&self) -> usize {
        if self.segmentation_offload {
            self.state.max_gso_segments()
        } else {
            1
        }
    }

    /// Bytes that the system has granted for the receive buffer and for the send buffer.
    pub(crate) fn granted_buffers(&self) -> io::Result<(usize, usize)> {
        let reference = || UdpSockRef::from(&self.io);
        Ok((
            self.state.recv_buffer_size(reference())?,
            self.state.send_buffer_size(reference())?,
        ))
    }

    /// Receives a batch; gives the number of buffers filled.
    pub(crate) fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        loop {
            ready!(self.io.poll_recv_ready(cx))?;
            let mut count = 0;
            let received = self.io.try_io(Interest::READABLE, || {
                count = self.state.recv(UdpSockRef::from(&self.io), buffers, meta)?;
                // A batch that is not full has emptied the socket: the next look can wait until it is readable again.
                if count < buffers.len() {
                    Err(io::ErrorKind::WouldBlock.into())
                } else {
                    Ok(())
                }
            });
            match received {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && count == 0 => continue,
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(e)),
                _ => return Poll::Ready(Ok(count)),
            }
        }
    }

    /// Sends one datagram, or several of equal length to one address.
    pub(crate) fn poll_send(
        &self,
        cx: &mut Context<'_>,
        remote: SocketAddr,
        ecn: Ecn,
        contents: &[u8],
        segment: usize,
    ) -> Poll<io::Result<()>> {
        let transmit = Transmit {
            destination: remote,
            ecn: codepoint(ecn),
            contents,
            segment_size: (segment < contents.len()).then_some(segment),
            src_ip: None,
        };
        loop {
            ready!(self.io.poll_send_ready(cx))?;
            let sent = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send(UdpSockRef::from(&self.io), &transmit)
            });
            match sent {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                other => return Poll::Ready(other),
            }
        }
    }

    /// Lets the system discard what comes from these sources, and from no other. Where it cannot, their packets arrive.
    #[cfg(target_os = "linux")]
    pub(crate) fn discard_from(&self, sources: impl Iterator<Item = SocketAddr>) {
        let mut sources = sources.peekable();
        let socket = socket2::SockRef::from(&self.io);
        let _ = if sources.peek().is_some() {
            socket.attach_filter(&flood::program(sources))
        } else {
            socket.detach_filter()
        };
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn discard_from(&self, _: impl Iterator<Item = SocketAddr>) {}

    /// Waits for a report about a datagram that did not arrive; gives the address it was meant for.
    pub(crate) async fn trouble(&self) -> io::Result<(SocketAddr, Trouble)> {
        loop {
            self.io.ready(Interest::ERROR).await?;
            match self.io.try_io(Interest::ERROR, || self.take_trouble()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Ok(None) => continue,
                Ok(Some(report)) => return Ok(report),
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes the oldest report from the socket's error queue; `None` if it reports something else.
    #[cfg(target_os = "linux")]
    fn take_trouble(&self) -> io::Result<Option<(SocketAddr, Trouble)>> {
        use std::os::fd::AsRawFd;

        use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

        let mut payload = [0_u8; 1];
        let mut parts = [IoSliceMut::new(&mut payload)];
        let mut control = vec![0_u8; 256];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(self.io.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
        let address = message.address.as_ref().and_then(socket_addr);
        let errno = message.cmsgs()?.find_map(|cmsg| match cmsg {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                i32::try_from(error.ee_errno).ok()
            }
            _ => None,
        });
        Ok(address.zip(errno.and_then(trouble)))
    }

    /// Other systems report nothing about unconnected sockets.
    #[cfg(not(target_os = "linux"))]
    fn take_trouble(&self) -> io::Result<Option<(SocketAddr, Trouble)>> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// The administrator may exceed the system's limits, net.core.rmem_max and net.core.wmem_max.
#[cfg(target_os = "linux")]
fn force_buffers(socket: &std::net::UdpSocket, state: &UdpSocketState, wanted: usize) {
    use nix::sys::socket::{setsockopt, sockopt};

    // Who may not gets an error, and keeps what was granted. Linux reports twice what can be used.
    let is_short = |granted: io::Result<usize>| granted.is_ok_and(|granted| granted / 2 < wanted);
    if is_short(state.recv_buffer_size(UdpSockRef::from(socket))) {
        let _ = setsockopt(socket, sockopt::RcvBufForce, &wanted);
    }
    if is_short(state.send_buffer_size(UdpSockRef::from(socket))) {
        let _ = setsockopt(socket, sockopt::SndBufForce, &wanted);
    }
}

#[cfg(not(target_os = "linux"))]
fn force_buffers(_: &std::net::UdpSocket, _: &UdpSocketState, _: usize) {}

#[cfg(target_os = "linux")]
fn socket_addr(storage: &nix::sys::socket::SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::from((v4.ip(), v4.port())));
    }
    storage
        .as_sockaddr_in6()
        .map(|v6| SocketAddr::from((v6.ip(), v6.port())))
}

#[cfg(target_os = "linux")]
fn trouble(errno: i32) -> Option<Trouble> {
    of_kind(io::Error::from_raw_os_error(errno).kind())
}

/// What an error of a system call says about the way to the peer; nothing for errors of another kind.
pub(crate) fn of_kind(kind: io::ErrorKind) -> Option<Trouble> {
    match kind {
        io::ErrorKind::ConnectionRefused => Some(Trouble::PortUnreachable),
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
            Some(Trouble::HostUnreachable)
        }
        _ => None,
    }
}

fn codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

/// The ECN bits that a datagram arrived with.
pub(crate) fn ecn(meta: &RecvMeta) -> Ecn {
    match meta.ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}
