//! UDP sockets: datagrams in batches with their ECN bits, and what the network says about datagrams that did not arrive.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use tokio::io::Interest;
use whimbrel_proto::Ecn;

use crate::StackConfig;
use crate::egress::Egress;
#[cfg(target_os = "linux")]
use crate::filter;
use crate::interface;
use crate::mtu::{self, Fragmenting};
use crate::transport::{Arrival, BATCH, Datagrams, Report, Socket, Transport, Trouble, Unwanted};

/// UDP sockets of the operating system (RFC 6951), one for each local address: the transport of a stack whose configuration names no other.
///
/// On Linux, where several interfaces have a default route, packets leave by the interface that has their source address, so that each path
/// uses its own network; with IPv6 only if the default routes have the same metric. Destinations with a route of their own, and those that
/// a rule (ip-rule(8)) sends to another table, as a VPN does, follow that route.
#[derive(Clone, Copy, Debug, Default)]
pub struct Udp;

#[derive(Debug)]
struct UdpSocket {
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    segmentation_offload: bool,
    egress: Egress,
    /// Until when the socket is not polled, if the runtime does not report when it is ready.
    pause: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
}

/// Time after which a full send buffer is tried again, and a socket that has nothing but errors.
const PAUSE: Duration = Duration::from_millis(1);
/// Errors in a row, without a datagram, after which a socket is left alone for a while.
const MOST_ERRORS: usize = 64;

impl Transport for Udp {
    /// Binds `addr` with the buffers and offloads that the configuration asks for.
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>> {
        let socket = std::net::UdpSocket::bind(addr)?;
        let reference = UdpSockRef::from(&socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        state.enable_transport_errors(reference)?;
        let local = socket.local_addr()?;
        // A system that grants less only loses more packets in bursts.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), config.socket_buffer);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), config.socket_buffer);
        force_buffers(&socket, &state, config.socket_buffer);
        Ok(Box::new(UdpSocket {
            io: tokio::net::UdpSocket::from_std(socket)?,
            state,
            local,
            segmentation_offload: config.segmentation_offload,
            egress: Egress::of(local),
            pause: Mutex::default(),
        }))
    }

    fn local_addrs(&self) -> Vec<IpAddr> {
        interface::local_addrs()
    }

    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        interface::source_toward(peer)
    }
}

impl Socket for UdpSocket {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        if self.segmentation_offload {
            self.state.max_gso_segments()
        } else {
            1
        }
    }

    fn buffers(&self) -> Option<(usize, usize)> {
        let reference = || UdpSockRef::from(&self.io);
        let receive = self.state.recv_buffer_size(reference()).ok()?;
        Some((receive, self.state.send_buffer_size(reference()).ok()?))
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        arrivals: &mut [Arrival],
    ) -> Poll<io::Result<usize>> {
        let mut meta = [RecvMeta::default(); BATCH];
        let most = buffers.len().min(BATCH);
        let (buffers, meta) = (&mut buffers[..most], &mut meta[..most]);
        for _ in 0..MOST_ERRORS {
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
                // A report about an earlier datagram, which anyone can forge by ICMP. `report` reads the details.
                Err(e) if e.kind() != io::ErrorKind::WouldBlock && !is_of_socket(&e) => continue,
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Poll::Ready(Err(e)),
                _ => {}
            }
            for (arrival, meta) in arrivals.iter_mut().zip(meta).take(count) {
                *arrival = Arrival {
                    remote: meta.addr,
                    len: meta.len,
                    stride: meta.stride,
                    ecn: ecn(meta),
                };
            }
            return Poll::Ready(Ok(count));
        }
        self.poll_pause(cx);
        Poll::Pending
    }

    fn poll_send(&self, cx: &mut Context<'_>, datagrams: &Datagrams<'_>) -> Poll<io::Result<()>> {
        let transmit = Transmit {
            destination: datagrams.remote,
            ecn: codepoint(datagrams.ecn),
            contents: datagrams.bytes,
            segment_size: (datagrams.segment < datagrams.bytes.len()).then_some(datagrams.segment),
            src_ip: None,
        };
        self.egress.prepare(&self.io, datagrams.remote.ip());
        let _fragmenting = datagrams
            .fragment
            .then(|| Fragmenting::begin(&self.io, self.local.ip()));
        let (mut is_full, mut had_error) = (false, false);
        loop {
            ready!(self.io.poll_send_ready(cx))?;
            let sent = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send(UdpSockRef::from(&self.io), &transmit)
            });
            let is_group = transmit.segment_size.is_some();
            if had_error && sent.as_ref().is_err_and(|error| is_too_long(error, is_group)) {
                return Poll::Ready(Err(self.send_fragmented(&transmit)));
            }
            match sent {
                // After an error of the socket (EPOLLERR), tokio takes it as writable from then on.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && is_full => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => is_full = true,
                // It may be the report about an earlier datagram: then this one is sent now.
                Err(_) if !had_error => had_error = true,
                other => return Poll::Ready(other),
            }
        }
        self.poll_pause(cx);
        Poll::Pending
    }

    /// Lets the system discard their packets. Where it cannot, the packets arrive.
    #[cfg(target_os = "linux")]
    fn discard(&self, unwanted: &Unwanted<'_>) {
        let socket = socket2::SockRef::from(&self.io);
        let _ = if *unwanted == Unwanted::default() {
            socket.detach_filter()
        } else {
            socket.attach_filter(&filter::program(unwanted))
        };
    }

    fn report(&self) -> Pin<Box<dyn Future<Output = io::Result<Report>> + Send + '_>> {
        Box::pin(async {
            let mut reported = pin!(self.reported());
            let mut routes = pin!(self.egress.follow());
            std::future::poll_fn(|cx| {
                // Never ready.
                let _ = routes.as_mut().poll(cx);
                reported.as_mut().poll(cx)
            })
            .await
        })
    }
}

impl UdpSocket {
    /// Arranges a wake-up after a pause.
    fn poll_pause(&self, cx: &mut Context<'_>) {
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
        pause.as_mut().reset(tokio::time::Instant::now() + PAUSE);
        if pause.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Sends datagrams that are longer than the path MTU as fragments. Returns the report about their length.
    fn send_fragmented(&self, group: &Transmit<'_>) -> io::Error {
        let _fragmenting = Fragmenting::begin(&self.io, self.local.ip());
        // The system fragments one at a time.
        for contents in group
            .contents
            .chunks(group.segment_size.unwrap_or(group.contents.len()).max(1))
        {
            let single = Transmit {
                contents,
                segment_size: None,
                ..group.clone()
            };
            // What cannot be sent is lost.
            let _ = self.io.try_io(Interest::WRITABLE, || {
                self.state.try_send(UdpSockRef::from(&self.io), &single)
            });
        }
        let headers = if self.local.is_ipv4() { 28 } else { 48 };
        let length = group.segment_size.unwrap_or(group.contents.len()) + headers;
        // What the system knows may concern another interface: then it does not explain the refusal.
        let mtu = mtu::of_route(self.local.ip(), group.destination).filter(|&mtu| (mtu as usize) < length);
        Trouble::too_long(mtu.unwrap_or(0))
    }

    async fn reported(&self) -> io::Result<Report> {
        loop {
            self.io.ready(Interest::ERROR).await?;
            match self.io.try_io(Interest::ERROR, || self.take_report()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Ok(None) => {}
                Ok(Some(report)) => return Ok(report),
                Err(e) => return Err(e),
            }
        }
    }

    /// Takes the oldest report from the socket's error queue; `None` if it reports something else.
    #[cfg(target_os = "linux")]
    fn take_report(&self) -> io::Result<Option<Report>> {
        use std::os::fd::AsRawFd;

        use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

        // What the report quotes of the datagram: its ports and the Verification Tag.
        let mut quoted = [0_u8; 8];
        let mut parts = [IoSliceMut::new(&mut quoted)];
        let mut control = vec![0_u8; 256];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<SockaddrStorage>(self.io.as_raw_fd(), &mut parts, Some(&mut control), flags)?;
        let length = message.bytes;
        let address = message.address.as_ref().and_then(socket_addr);
        let trouble = message.cmsgs()?.find_map(|cmsg| match cmsg {
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                trouble(i32::try_from(error.ee_errno).ok()?, error.ee_info)
            }
            _ => None,
        });
        let tag = (length == 8).then(|| u32::from_be_bytes([quoted[4], quoted[5], quoted[6], quoted[7]]));
        Ok(address
            .zip(trouble)
            .map(|(remote, trouble)| Report { remote, trouble, tag }))
    }

    /// Other systems report nothing about unconnected sockets.
    #[cfg(not(target_os = "linux"))]
    fn take_report(&self) -> io::Result<Option<Report>> {
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Whether an error means that a datagram is too long. For a group, older Linux kernels say that an argument is invalid.
fn is_too_long(error: &io::Error, is_group: bool) -> bool {
    let is_invalid = error.kind() == io::ErrorKind::InvalidInput;
    is_group && is_invalid || matches!(Trouble::of(error), Some(Trouble::TooLong(_)))
}

/// Whether an error says that the socket itself cannot be used, rather than what became of a datagram.
fn is_of_socket(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use nix::errno::Errno;
        let fatal = [Errno::EBADF, Errno::ENOTSOCK, Errno::EINVAL, Errno::EFAULT];
        fatal.iter().any(|errno| error.raw_os_error() == Some(*errno as i32))
    }
    #[cfg(not(unix))]
    {
        Trouble::of(error).is_none() && error.kind() != io::ErrorKind::ConnectionReset
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

/// What an entry of the error queue means. `info` is the MTU of the next hop where the datagram is too long (ip(7), ipv6(7)).
#[cfg(target_os = "linux")]
fn trouble(errno: i32, info: u32) -> Option<Trouble> {
    if errno == nix::errno::Errno::EMSGSIZE as i32 {
        return Some(Trouble::TooLong(info));
    }
    Trouble::of(&io::Error::from_raw_os_error(errno))
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
fn ecn(meta: &RecvMeta) -> Ecn {
    match meta.ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}
