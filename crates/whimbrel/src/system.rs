//! Sockets of the operating system, for UDP and for raw IP: datagrams in batches with their ECN bits, and what the network says about datagrams
//! that did not arrive.

use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
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
#[cfg(target_os = "linux")]
use crate::ip;
use crate::mtu::{self, Fragmenting};
use crate::transport::{Arrival, BATCH, Datagrams, Report, Socket, Trouble, Unwanted};

/// What is between the headers of IP and SCTP.
#[derive(Debug)]
pub(crate) enum Encapsulation {
    /// A UDP header (RFC 6951).
    Udp,
    /// Nothing.
    #[cfg(target_os = "linux")]
    None(ip::Share),
}

/// A socket that is bound to one address.
#[derive(Debug)]
pub(crate) struct SystemSocket {
    /// A raw socket is one of UDP for tokio and quinn-udp: they only wait for it, and use the system calls for datagrams.
    io: tokio::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    encapsulation: Encapsulation,
    segmentation_offload: bool,
    egress: Egress,
    /// Bytes that the system has taken of the datagrams being sent.
    taken: AtomicUsize,
    /// Until when the socket is not polled, if the runtime does not report when it is ready.
    pause: Mutex<Option<Pin<Box<tokio::time::Sleep>>>>,
}

/// Time after which a full send buffer is tried again, and a socket that has nothing but errors.
const PAUSE: Duration = Duration::from_millis(1);
/// Errors in a row, without a datagram, after which a socket is left alone for a while.
const MOST_ERRORS: usize = 64;

impl Socket for SystemSocket {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn max_segments(&self) -> usize {
        match self.encapsulation {
            Encapsulation::Udp if self.segmentation_offload => self.state.max_gso_segments(),
            Encapsulation::Udp => 1,
            #[cfg(target_os = "linux")]
            Encapsulation::None(_) => BATCH,
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
            let filled = buffers.iter_mut().zip(meta).take(count);
            for (arrival, (buffer, meta)) in arrivals.iter_mut().zip(filled) {
                *arrival = Arrival {
                    remote: meta.addr,
                    len: meta.len,
                    stride: meta.stride,
                    ecn: ecn(meta),
                };
                self.strip_header(arrival, buffer);
            }
            return Poll::Ready(Ok(count));
        }
        self.poll_pause(cx);
        Poll::Pending
    }

    fn poll_send(&self, cx: &mut Context<'_>, datagrams: &Datagrams<'_>) -> Poll<io::Result<()>> {
        let transmit = |contents| Transmit {
            destination: datagrams.remote,
            ecn: codepoint(datagrams.ecn),
            contents,
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
            let taken = self.taken.load(Ordering::Relaxed).min(datagrams.bytes.len());
            let transmit = transmit(&datagrams.bytes[taken..]);
            let sent = self.io.try_io(Interest::WRITABLE, || self.try_send(&transmit));
            let is_group = transmit.segment_size.is_some();
            if had_error && sent.as_ref().is_err_and(|error| is_too_long(error, is_group)) {
                self.taken.store(0, Ordering::Relaxed);
                if !datagrams.probes_mtu {
                    self.send_fragmented(&transmit);
                }
                return Poll::Ready(Err(self.too_long(&transmit)));
            }
            match sent {
                Ok(bytes) if bytes < transmit.contents.len() => {
                    self.taken.store(taken + bytes, Ordering::Relaxed);
                    had_error = false;
                }
                // After an error of the socket (EPOLLERR), tokio takes it as writable from then on.
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && is_full => break,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => is_full = true,
                Err(e) if self.is_out_of_room(&e) => break,
                // It may be the report about an earlier datagram: then this one is sent now.
                Err(_) if !had_error => had_error = true,
                other => {
                    self.taken.store(0, Ordering::Relaxed);
                    return Poll::Ready(other.map(|_| ()));
                }
            }
        }
        self.poll_pause(cx);
        Poll::Pending
    }

    /// Lets the system discard their packets. Where it cannot, the packets arrive.
    #[cfg(target_os = "linux")]
    fn discard(&self, unwanted: &Unwanted<'_>) {
        let _ = self.filter(unwanted);
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

impl SystemSocket {
    /// Makes it of a socket that is bound to `local`, with the buffers and offloads that the configuration asks for.
    pub(crate) fn new(
        socket: std::net::UdpSocket,
        local: SocketAddr,
        encapsulation: Encapsulation,
        config: &StackConfig,
    ) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        if matches!(encapsulation, Encapsulation::Udp) {
            state.enable_transport_errors(UdpSockRef::from(&socket))?;
        }
        // A system that grants less only loses more packets in bursts.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), config.socket_buffer);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), config.socket_buffer);
        force_buffers(&socket, &state, config.socket_buffer);
        Ok(SystemSocket {
            io: tokio::net::UdpSocket::from_std(socket)?,
            state,
            local,
            encapsulation,
            segmentation_offload: config.segmentation_offload,
            egress: Egress::of(local),
            taken: AtomicUsize::new(0),
            pause: Mutex::default(),
        })
    }

    /// Returns the number of bytes that the system has taken: over UDP all of them, over raw IP perhaps only those of the first datagrams.
    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<usize> {
        #[cfg(target_os = "linux")]
        if let Encapsulation::None(share) = &self.encapsulation {
            let length = transmit.segment_size.unwrap_or(transmit.contents.len());
            let ecn = transmit.ecn.map_or(0, |ecn| ecn as u8);
            return share
                .marks
                .send_batch(&self.io, transmit.destination, ecn, transmit.contents, length);
        }
        self.state.try_send(UdpSockRef::from(&self.io), transmit)?;
        Ok(transmit.contents.len())
    }

    /// Whether an error means that the send buffer is full. Raw sockets of Linux say so by ENOBUFS, instead of EAGAIN; it may also be the queue of
    /// the interface.
    fn is_out_of_room(&self, error: &io::Error) -> bool {
        match self.encapsulation {
            Encapsulation::Udp => false,
            #[cfg(target_os = "linux")]
            Encapsulation::None(_) => error.raw_os_error() == Some(nix::errno::Errno::ENOBUFS as i32),
        }
    }

    /// Lets the socket take packets, those that it is for.
    ///
    /// # Errors
    /// Returns an error if the system has no filters.
    #[cfg(target_os = "linux")]
    pub(crate) fn take_wanted(&self) -> io::Result<()> {
        self.filter(&Unwanted::default())
    }

    #[cfg(target_os = "linux")]
    fn filter(&self, unwanted: &Unwanted<'_>) -> io::Result<()> {
        let socket = socket2::SockRef::from(&self.io);
        let program = filter::program(unwanted, self.layout());
        if program.is_empty() {
            socket.detach_filter()
        } else {
            socket.attach_filter(&program)
        }
    }

    /// Where the filter finds the SCTP header, and which packets it takes.
    #[cfg(target_os = "linux")]
    fn layout(&self) -> filter::Layout {
        match (&self.encapsulation, self.local.is_ipv4()) {
            (Encapsulation::Udp, _) => filter::Layout::Udp,
            (Encapsulation::None(share), true) => filter::Layout::RawV4(share.port),
            (Encapsulation::None(share), false) => filter::Layout::RawV6(share.port),
        }
    }

    /// Takes the IP header off a packet: raw sockets of IPv4 deliver it, others do not (raw(7)). Of what is no packet of SCTP nothing is left.
    #[cfg(target_os = "linux")]
    fn strip_header(&self, arrival: &mut Arrival, buffer: &mut [u8]) {
        if self.local.is_ipv4() && matches!(self.encapsulation, Encapsulation::None(_)) {
            arrival.len = ip::strip_header(buffer.get_mut(..arrival.len).unwrap_or_default());
            arrival.stride = arrival.len;
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn strip_header(&self, _: &mut Arrival, _: &mut [u8]) {}

    /// Bytes of the headers in front of SCTP.
    fn headers(&self) -> usize {
        let ip = if self.local.is_ipv4() { 20 } else { 40 };
        match self.encapsulation {
            Encapsulation::Udp => ip + 8,
            #[cfg(target_os = "linux")]
            Encapsulation::None(_) => ip,
        }
    }

    /// Arranges a wake-up after a pause.
    fn poll_pause(&self, cx: &mut Context<'_>) {
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(PAUSE)));
        pause.as_mut().reset(tokio::time::Instant::now() + PAUSE);
        if pause.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
    }

    /// Sends datagrams that are longer than the path MTU as fragments.
    fn send_fragmented(&self, group: &Transmit<'_>) {
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
            let _ = self.io.try_io(Interest::WRITABLE, || self.try_send(&single));
        }
    }

    /// Returns the report that these datagrams are too long.
    fn too_long(&self, group: &Transmit<'_>) -> io::Error {
        let length = group.segment_size.unwrap_or(group.contents.len()) + self.headers();
        // What the system knows may concern another interface: then it does not explain the refusal.
        let mtu = mtu::of_route(self.local, group.destination).filter(|&mtu| (mtu as usize) < length);
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
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => trouble(&error),
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
    let v6 = storage.as_sockaddr_in6()?;
    Some(std::net::SocketAddrV6::new(v6.ip(), v6.port(), 0, v6.scope_id()).into())
}

/// What an entry of the error queue means. Its `ee_info` is the MTU of the next hop where the datagram is too long (ip(7), ipv6(7)).
#[cfg(target_os = "linux")]
fn trouble(error: &nix::libc::sock_extended_err) -> Option<Trouble> {
    // linux/errqueue.h and linux/icmpv6.h. RFC 4443 §3.4: parameter problem, unrecognized next header.
    const ORIGIN_ICMPV6: u8 = 3;
    const UNKNOWN_HEADER: (u8, u8) = (4, 1);

    let errno = i32::try_from(error.ee_errno).ok()?;
    if errno == nix::errno::Errno::EMSGSIZE as i32 {
        return Some(Trouble::TooLong(error.ee_info));
    }
    if error.ee_origin == ORIGIN_ICMPV6 && (error.ee_type, error.ee_code) == UNKNOWN_HEADER {
        return Some(Trouble::ProtocolUnreachable);
    }
    Trouble::of(&io::Error::from_raw_os_error(errno))
}

// [6951:5.8-1]
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
