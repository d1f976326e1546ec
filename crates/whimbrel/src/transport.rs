//! What carries the datagrams of a stack: UDP sockets, raw IP, or what a user provides instead.

use std::fmt::Debug;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Ecn, StackConfig};

/// Most buffers that one call of [`Socket::poll_recv`] has to fill.
pub const BATCH: usize = quinn_udp::BATCH_SIZE;

/// A way to exchange datagrams with peers.
///
/// [`Udp`](crate::Udp) is the one that a stack uses unless [`StackConfig::transport`] names another, such as [`RawIp`](crate::RawIp). A
/// transport of one's own may carry the datagrams through a tunnel, through an encrypting layer, or between tasks of one process. Each datagram is one SCTP packet of at most
/// [`AssociationConfig::mtu`](crate::AssociationConfig::mtu) bytes less the headers of IP and, where addresses have ports, UDP. Datagrams may be lost, duplicated and
/// reordered; a transport must not change their bytes.
///
/// Addresses name the ends of paths. They have to be addresses of IP because SCTP lists them in its handshake, but a transport gives them
/// any meaning it likes.
///
/// # Examples
///
/// Datagrams between stacks of one process:
///
/// ```
/// # use std::collections::HashMap;
/// # use std::io::{self, IoSliceMut};
/// # use std::net::SocketAddr;
/// # use std::sync::{Arc, Mutex, PoisonError};
/// # use std::task::{Context, Poll};
/// use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
/// use whimbrel::transport::{Arrival, Datagrams, Socket, Transport};
/// use whimbrel::{Ecn, Listener, Message, Stack, StackConfig};
///
/// type Packet = (SocketAddr, Vec<u8>);
///
/// #[derive(Debug, Default)]
/// struct InMemory(Arc<Mutex<HashMap<SocketAddr, UnboundedSender<Packet>>>>);
///
/// #[derive(Debug)]
/// struct End {
///     local: SocketAddr,
///     arrived: Mutex<UnboundedReceiver<Packet>>,
///     ends: Arc<Mutex<HashMap<SocketAddr, UnboundedSender<Packet>>>>,
/// }
///
/// impl Transport for InMemory {
///     fn bind(&self, addr: SocketAddr, _: &StackConfig) -> io::Result<Box<dyn Socket>> {
///         let (sender, arrived) = unbounded_channel();
///         self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(addr, sender);
///         Ok(Box::new(End { local: addr, arrived: Mutex::new(arrived), ends: self.0.clone() }))
///     }
/// }
///
/// impl Socket for End {
///     fn local_addr(&self) -> SocketAddr {
///         self.local
///     }
///
///     fn poll_recv(
///         &self,
///         cx: &mut Context<'_>,
///         buffers: &mut [IoSliceMut<'_>],
///         arrivals: &mut [Arrival],
///     ) -> Poll<io::Result<usize>> {
///         let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
///         let Poll::Ready(Some((remote, bytes))) = arrived.poll_recv(cx) else { return Poll::Pending };
///         buffers[0][..bytes.len()].copy_from_slice(&bytes);
///         arrivals[0] = Arrival { remote, len: bytes.len(), stride: bytes.len(), ecn: Ecn::NotEct };
///         Poll::Ready(Ok(1))
///     }
///
///     fn poll_send(&self, _: &mut Context<'_>, datagrams: &Datagrams<'_>) -> Poll<io::Result<()>> {
///         let ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
///         if let Some(end) = ends.get(&datagrams.remote) {
///             let _ = end.send((self.local, datagrams.bytes.to_vec()));
///         }
///         Poll::Ready(Ok(()))
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let transport = Arc::new(InMemory::default());
/// let config = |addr: &str| -> Result<StackConfig, Box<dyn std::error::Error>> {
///     let transport: Arc<dyn Transport> = transport.clone();
///     Ok(StackConfig { transport: Some(transport), ..StackConfig::local([addr.parse()?]) })
/// };
/// let listener = Listener::bind(config("192.0.2.1:1")?)?;
/// let stack = Stack::bind(config("192.0.2.2:1")?)?;
/// let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
/// let (client, server) = tokio::join!(stack.connect(&addrs, port), listener.accept());
/// let (client, server) = (client?, server?);
/// client.send(Message::new(0, "over channels")).await?;
/// assert_eq!(server.recv().await?.ok_or("nothing came")?.data, b"over channels");
/// # Ok(())
/// # }
/// ```
pub trait Transport: Debug + Send + Sync + 'static {
    /// Opens a socket at a local address. With port 0 the transport chooses one. The configuration has the wishes of the user, such as the
    /// size of buffers; the SCTP port in it is that of the stack.
    ///
    /// # Errors
    /// Returns an error if the address does not belong to this host or is in use.
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>>;

    /// Returns the addresses of this host, for which `0.0.0.0` (those of IPv4) and `[::]` (all) stand. Default: none, so that the user has to
    /// name them.
    fn local_addrs(&self) -> Vec<IpAddr> {
        Vec::new()
    }

    /// Returns the local address from which a peer is reached.
    ///
    /// # Errors
    /// Returns an error if there is no route. Default: there is none.
    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        let _ = peer;
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns whether addresses have ports, as those of UDP. Without, the packets of all SCTP ports may arrive at a socket: those to other ports
    /// are not answered, unless [`StackConfig::answer_all_ports`] asks for it. Default: all have one.
    fn ports(&self) -> Ports {
        Ports::All
    }
}

/// Which addresses of a transport have ports, at both ends. Those without have port 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ports {
    /// All: a local address with port 0 gets one that is free.
    All,
    /// None, as with SCTP directly over IP.
    None,
    /// Some: port 0 is for addresses without.
    Some,
}

/// A socket of a [`Transport`]: one local address. The stack sends the packets of a path through the socket of the path's local address.
pub trait Socket: Debug + Send + Sync + 'static {
    /// Returns the address that it is bound to.
    fn local_addr(&self) -> SocketAddr;

    /// Receives datagrams into `buffers`, of at least 65 536 bytes each, and describes them in `arrivals`, which has the same length. Returns
    /// how many of them it filled, at least one. `Pending` arranges a wake-up.
    ///
    /// # Errors
    /// `ConnectionRefused`, `HostUnreachable`, `NetworkUnreachable` and `ConnectionReset` are reports about earlier datagrams; the stack goes
    /// on. Others end the stack.
    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        arrivals: &mut [Arrival],
    ) -> Poll<io::Result<usize>>;

    /// Sends one datagram or several. `Pending` arranges a wake-up; the stack then offers the same datagrams again.
    ///
    /// # Errors
    /// Whatever the error, the datagrams count as sent, and the protocol notices their loss. `ConnectionRefused` and the errors about
    /// unreachable hosts are reported to the user if nothing else reaches the peer.
    fn poll_send(&self, cx: &mut Context<'_>, datagrams: &Datagrams<'_>) -> Poll<io::Result<()>>;

    /// Returns how many datagrams of equal length one call of [`poll_send`](Self::poll_send) may carry. Default: 1.
    fn max_segments(&self) -> usize {
        1
    }

    /// Waits for a report about a datagram that did not arrive, such as an ICMP error. Default: never ends.
    fn report(&self) -> Pin<Box<dyn Future<Output = io::Result<Report>> + Send + '_>> {
        Box::pin(std::future::pending())
    }

    /// Discards these datagrams from now on, and no others, before they are received. Default: does nothing.
    fn discard(&self, unwanted: &Unwanted<'_>) {
        let _ = unwanted;
    }

    /// Returns the bytes that the receive buffer and the send buffer have. Default: unknown.
    fn buffers(&self) -> Option<(usize, usize)> {
        None
    }
}

/// Datagrams that a socket need not receive. The stack would discard them; that costs less processor time before they are received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Unwanted<'a> {
    /// All from these sources.
    pub sources: &'a [SocketAddr],
    /// Those whose Verification Tag (bytes 4 to 7) is none of these, by the type of their first chunk (byte 12). Datagrams that are too short for
    /// that belong to them.
    pub strangers: Option<Strangers<'a>>,
}

/// Packets that belong to no association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strangers<'a> {
    /// The tags of associations.
    pub tags: &'a [u32],
    /// Whether seven of eight INITs are unwanted.
    pub init: bool,
    /// Whether seven of eight packets that begin with COOKIE ECHO or AUTH are unwanted.
    pub cookie_echo: bool,
    /// Whether all others are unwanted: they would be answered with an ABORT (RFC 9260 §8.4).
    pub out_of_the_blue: bool,
}

/// A received datagram, or several of equal length from one source, in one buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// Where it came from.
    pub remote: SocketAddr,
    /// Bytes in the buffer.
    pub len: usize,
    /// Bytes of each datagram; the last one may be shorter.
    pub stride: usize,
    /// The ECN bits of its IP header.
    pub ecn: Ecn,
}

impl Arrival {
    /// A place that is not filled yet.
    pub(crate) const NONE: Arrival = Arrival {
        remote: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0),
        len: 0,
        stride: 0,
        ecn: Ecn::NotEct,
    };
}

/// A datagram to send, or several of equal length to one destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagrams<'a> {
    /// The destination.
    pub remote: SocketAddr,
    /// The ECN bits of the IP header.
    pub ecn: Ecn,
    /// The datagrams, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of each; the last one may be shorter.
    pub segment: usize,
    /// The datagram is longer than the path MTU, which has become smaller: IP has to fragment it.
    pub fragment: bool,
    /// The datagram is longer than the path MTU to find out whether it arrives: neither this host nor a router may fragment it. What the host cannot
    /// send is [`Trouble::TooLong`].
    pub probes_mtu: bool,
}

/// What the network or the host reported about a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its destination.
    pub remote: SocketAddr,
    /// What is wrong.
    pub trouble: Trouble,
    /// The Verification Tag of the datagram, bytes 4 to 7, if the report quotes it. [`TooLong`](Trouble::TooLong) has no effect without the tag
    /// of the association, as anyone can forge reports (RFC 9260 §10).
    pub tag: Option<u32>,
}

/// Why a datagram did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Trouble {
    /// No program listens on the UDP port (ICMP port unreachable).
    PortUnreachable,
    /// The host does not know the protocol that carries the datagrams (ICMP protocol unreachable, ICMPv6 unrecognized next header): over raw IP,
    /// no program there uses SCTP over IP.
    ProtocolUnreachable,
    /// There is no route to the host or network (ICMP destination unreachable, or no route on this host).
    HostUnreachable,
    /// The datagram is longer than a link on the path allows (ICMP fragmentation needed, packet too big), which allows IP packets of this
    /// many bytes; 0 if it is not known.
    TooLong(u32),
}

impl Trouble {
    /// The error of a system call that stands for this.
    pub(crate) fn too_long(mtu: u32) -> io::Error {
        io::Error::other(TooLong(mtu))
    }

    /// What an error of a system call means for the route to the peer; nothing for errors of another kind.
    pub(crate) fn of(error: &io::Error) -> Option<Trouble> {
        if let Some(&TooLong(mtu)) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
            return Some(Trouble::TooLong(mtu));
        }
        #[cfg(unix)]
        if error.raw_os_error() == Some(nix::errno::Errno::EMSGSIZE as i32) {
            return Some(Trouble::TooLong(0));
        }
        #[cfg(target_os = "linux")]
        {
            use nix::errno::Errno;
            // Protocol not supported (RFC 792, RFC 1122 §3.2.2.1).
            if error.raw_os_error() == Some(Errno::ENOPROTOOPT as i32) {
                return Some(Trouble::ProtocolUnreachable);
            }
            // Host down or unknown, or administratively prohibited there (RFC 1122 §3.2.2.1, RFC 4443 §3.1).
            let unreachable = [Errno::EHOSTDOWN, Errno::ENONET, Errno::EACCES];
            if unreachable
                .iter()
                .any(|errno| error.raw_os_error() == Some(*errno as i32))
            {
                return Some(Trouble::HostUnreachable);
            }
        }
        match error.kind() {
            // [6951:5.5-3, 5.5-4, 5.5-5]
            io::ErrorKind::ConnectionRefused => Some(Trouble::PortUnreachable),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable | io::ErrorKind::NetworkDown => {
                Some(Trouble::HostUnreachable)
            }
            _ => None,
        }
    }
}

/// A datagram is longer than the path MTU of this many bytes.
#[derive(Debug, thiserror::Error)]
#[error("datagram too long for an MTU of {0}")]
struct TooLong(u32);

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Trouble::PortUnreachable => f.write_str("port unreachable"),
            Trouble::ProtocolUnreachable => f.write_str("protocol unreachable"),
            Trouble::HostUnreachable => f.write_str("host unreachable"),
            Trouble::TooLong(0) => f.write_str("datagram too long"),
            Trouble::TooLong(mtu) => write!(f, "datagram too long for an MTU of {mtu}"),
        }
    }
}
