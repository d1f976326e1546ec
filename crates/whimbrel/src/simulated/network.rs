//! The network between the nodes of a simulation, and a transport for the stacks of each node.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use whimbrel_control::Time;
use whimbrel_proto::Ecn;
use whimbrel_sim::{Delivery, Entry, Mesh, OpenWorld, Oversize, UDP_HEADER, topology};

use crate::StackConfig;
use crate::transport::{Arrival, Datagrams, Report, Socket, Transport, Trouble};

/// RFC 6335 §6: the first of the dynamic ports.
const FIRST_PORT: u16 = 49_152;

/// What a datagram carries in the place of the UDP header: both ports, and whether it is an ICMP message.
const HEADER: usize = UDP_HEADER as usize;
const DATA: u8 = 0;
const PORT_UNREACHABLE: u8 = 1;

/// The network and the time of a simulation, shared by the stacks of all nodes.
#[derive(Debug)]
pub(crate) struct Shared {
    now: AtomicU64,
    network: Mutex<Network>,
}

impl Shared {
    pub(super) fn new(network: Network) -> Arc<Self> {
        Arc::new(Shared {
            now: AtomicU64::new(0),
            network: Mutex::new(network),
        })
    }

    pub(super) fn now(&self) -> Time {
        Time::from_nanos(self.now.load(Ordering::Relaxed))
    }

    /// Sets the time; it never decreases.
    pub(super) fn set_now(&self, now: Time) {
        self.now.fetch_max(now.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Network> {
        // Each call leaves the network whole, even where a program panics later.
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub(crate) struct Network {
    mesh: Arc<Mesh>,
    world: OpenWorld,
    hosts: Vec<Host>,
    /// Timers of drivers: node and waker, by deadline and number.
    timers: BTreeMap<(Time, u64), (usize, Waker)>,
    next_timer: u64,
    next_socket: u64,
    pub(super) traffic: Traffic,
}

/// Counters over all datagrams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    /// FNV-1a over times, ends and contents.
    pub(super) digest: u64,
}

/// A node's sockets.
#[derive(Debug, Default)]
struct Host {
    addrs: Vec<IpAddr>,
    is_up: bool,
    is_woken: bool,
    sockets: BTreeMap<SocketAddr, Inbox>,
    next_port: u16,
}

/// What has arrived at a socket.
#[derive(Debug, Default)]
struct Inbox {
    /// Differs from that of a later socket at the same address.
    id: u64,
    queue: VecDeque<(SocketAddr, Ecn, Vec<u8>)>,
    bytes: usize,
    limit: usize,
    reports: VecDeque<Report>,
    reader: Option<Waker>,
    watcher: Option<Waker>,
}

impl Network {
    pub(super) fn new(mesh: Arc<Mesh>, world: OpenWorld) -> Self {
        let host = |node: &whimbrel_sim::MeshNode| Host {
            addrs: node.interfaces.iter().map(|i| topology::address(*i)).collect(),
            next_port: FIRST_PORT,
            ..Host::default()
        };
        Network {
            hosts: mesh.nodes.iter().map(host).collect(),
            mesh,
            world,
            timers: BTreeMap::new(),
            next_timer: 0,
            next_socket: 0,
            traffic: Traffic {
                datagrams: 0,
                bytes: 0,
                digest: 0xcbf2_9ce4_8422_2325,
            },
        }
    }

    /// Returns the time of the next event of the network or of a driver.
    pub(super) fn next_event(&self) -> Option<Time> {
        let timer = self.timers.first_key_value().map(|((at, _), _)| *at);
        self.world.next_event().into_iter().chain(timer).min()
    }

    pub(super) fn set_timer(&mut self, at: Time, node: usize, waker: &Waker) -> u64 {
        self.next_timer += 1;
        self.timers.insert((at, self.next_timer), (node, waker.clone()));
        self.next_timer
    }

    pub(super) fn clear_timer(&mut self, pending: (Time, u64)) {
        self.timers.remove(&pending);
    }

    /// Processes everything that is due, and wakes those that wait for it.
    pub(super) fn advance(&mut self, now: Time) {
        self.world.advance(now);
        let (mesh, hosts) = (&*self.mesh, &mut self.hosts);
        let mut refused = Vec::new();
        self.world.deliver(&mut |delivery| {
            refused.extend(deliver(mesh, hosts, &delivery));
        });
        for (node, from, to) in refused {
            // RFC 792: an ICMP message carries the IP header and 8 more bytes of the packet.
            let (ecn, oversize) = (Ecn::NotEct, Oversize::Drop);
            self.route(now, node, from, to, (ecn, oversize), PORT_UNREACHABLE, &[0; 28]);
        }
        while let Some(entry) = self.timers.first_entry().filter(|entry| entry.key().0 <= now) {
            let (node, waker) = entry.remove();
            self.hosts[node].is_woken = true;
            waker.wake();
        }
    }

    /// Takes the mark that something has happened to a node.
    pub(super) fn take_woken(&mut self, node: usize) -> bool {
        std::mem::take(&mut self.hosts[node].is_woken)
    }

    /// Starts or stops a node: what arrives at a stopped one is lost, and its sockets are gone.
    pub(super) fn set_up(&mut self, node: usize, is_up: bool) {
        let host = &mut self.hosts[node];
        host.is_up = is_up;
        host.sockets.clear();
    }

    pub(super) fn addrs(&self, node: usize) -> &[IpAddr] {
        &self.hosts[node].addrs
    }

    fn send(&mut self, now: Time, node: usize, local: SocketAddr, datagrams: &Datagrams<'_>) -> io::Result<()> {
        for datagram in datagrams.bytes.chunks(datagrams.segment.max(1)) {
            self.note(now, local, datagrams.remote, datagram);
            let remote = datagrams.remote;
            if is_local(&self.hosts[node], remote.ip()) {
                let host = &mut self.hosts[node];
                match host.sockets.get_mut(&remote) {
                    Some(inbox) => inbox.push(local, datagrams.ecn, datagram),
                    None => return Err(io::ErrorKind::ConnectionRefused.into()),
                }
                host.is_woken = true;
                continue;
            }
            let oversize = if datagrams.fragment {
                Oversize::Fragment
            } else {
                Oversize::Report
            };
            if !self.route(now, node, local, remote, (datagrams.ecn, oversize), DATA, datagram) {
                return Err(io::ErrorKind::NetworkUnreachable.into());
            }
        }
        Ok(())
    }

    /// Passes a packet to the simulated network; returns whether there is a route.
    #[allow(clippy::too_many_arguments, reason = "the fields of a packet")]
    fn route(
        &mut self,
        now: Time,
        node: usize,
        from: SocketAddr,
        to: SocketAddr,
        (ecn, oversize): (Ecn, Oversize),
        kind: u8,
        data: &[u8],
    ) -> bool {
        let own = self.mesh.place(from.ip());
        let (Some(own), Some(other)) = (own, self.mesh.place(to.ip())) else {
            return false;
        };
        let Some((flow, forward)) = self.mesh.flow(node as u16, other.node) else {
            return false;
        };
        let mut payload = Vec::with_capacity(HEADER + data.len());
        payload.extend_from_slice(&from.port().to_be_bytes());
        payload.extend_from_slice(&to.port().to_be_bytes());
        payload.extend_from_slice(&[kind, 0, 0, 0]);
        payload.extend_from_slice(data);
        let entry = Entry {
            flow: flow as usize,
            forward,
            from: own.interface.into(),
            to: other.interface.into(),
            ecn,
            oversize,
            ..Entry::default()
        };
        self.world.send(now, &entry, &payload)
    }

    fn note(&mut self, now: Time, local: SocketAddr, remote: SocketAddr, datagram: &[u8]) {
        let traffic = &mut self.traffic;
        traffic.datagrams += 1;
        traffic.bytes += datagram.len() as u64;
        let mut hash = traffic.digest;
        let mut add = |word: u64| hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
        add(now.as_nanos());
        for addr in [local, remote] {
            add(addr.port().into());
            match addr.ip() {
                IpAddr::V4(ip) => add(u32::from(ip).into()),
                IpAddr::V6(ip) => add(u128::from(ip) as u64),
            }
        }
        for word in datagram.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            add(u64::from_le_bytes(bytes));
        }
        traffic.digest = hash;
    }
}

fn is_local(host: &Host, ip: IpAddr) -> bool {
    ip.is_loopback() || host.addrs.contains(&ip)
}

/// Puts an arrived packet into its socket. Returns the answer if the node has no such socket: the node, and the addresses from and to which
/// it is sent.
fn deliver(mesh: &Mesh, hosts: &mut [Host], delivery: &Delivery<'_>) -> Option<(usize, SocketAddr, SocketAddr)> {
    let node = usize::from(mesh.target(delivery.flow, delivery.forward)?);
    let peer = usize::from(mesh.target(delivery.flow, !delivery.forward)?);
    if let Some(mtu) = delivery.too_long {
        report_too_long(mesh, &mut hosts[peer], delivery, (peer, node), mtu);
        return None;
    }
    let (header, data) = delivery.payload.split_at_checked(HEADER)?;
    let [from, to] = ends(mesh, delivery, (peer, node), header)?;
    let host = &mut hosts[node];
    if !host.is_up {
        return None;
    }
    let Some(inbox) = host.sockets.get_mut(&to) else {
        return (header[4] == DATA).then_some((node, to, from));
    };
    host.is_woken = true;
    if header[4] == DATA {
        inbox.push(from, delivery.ecn, data);
    } else {
        inbox.report(Report {
            remote: from,
            trouble: Trouble::PortUnreachable,
            tag: None,
        });
    }
    None
}

/// Returns the source and the destination of a datagram between two nodes.
fn ends(mesh: &Mesh, delivery: &Delivery<'_>, (from, to): (usize, usize), header: &[u8]) -> Option<[SocketAddr; 2]> {
    let address = |node: usize, interface: usize, port: [u8; 2]| {
        let interface = mesh.nodes[node].interfaces.get(interface)?;
        Some(SocketAddr::new(topology::address(*interface), u16::from_be_bytes(port)))
    };
    Some([
        address(from, delivery.from, [header[0], header[1]])?,
        address(to, delivery.to, [header[2], header[3]])?,
    ])
}

/// Passes a report about a datagram that was too long to the socket of its source.
fn report_too_long(
    mesh: &Mesh,
    source: &mut Host,
    delivery: &Delivery<'_>,
    nodes: (usize, usize),
    mtu: u32,
) -> Option<()> {
    let (header, data) = delivery.payload.split_at_checked(HEADER)?;
    let [from, to] = ends(mesh, delivery, nodes, header)?;
    let inbox = source.sockets.get_mut(&from).filter(|_| source.is_up)?;
    source.is_woken = true;
    let tag = data.get(4..8)?.first_chunk().copied();
    inbox.report(Report {
        remote: to,
        trouble: Trouble::TooLong(mtu),
        tag: tag.map(u32::from_be_bytes),
    });
    Some(())
}

impl Inbox {
    fn push(&mut self, from: SocketAddr, ecn: Ecn, datagram: &[u8]) {
        if self.bytes + datagram.len() > self.limit {
            return;
        }
        self.bytes += datagram.len();
        self.queue.push_back((from, ecn, datagram.to_vec()));
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn report(&mut self, report: Report) {
        self.reports.push_back(report);
        if let Some(watcher) = self.watcher.take() {
            watcher.wake();
        }
    }
}

/// The transport of a node: sockets at the ends of its links and radios, and at its loopback addresses.
#[derive(Clone, Debug)]
pub(crate) struct NodeTransport {
    pub(super) shared: Arc<Shared>,
    pub(super) node: usize,
}

#[derive(Debug)]
struct NodeSocket {
    transport: NodeTransport,
    local: SocketAddr,
    id: u64,
}

impl Transport for NodeTransport {
    fn bind(&self, addr: SocketAddr, config: &StackConfig) -> io::Result<Box<dyn Socket>> {
        let mut network = self.shared.lock();
        network.next_socket += 1;
        let id = network.next_socket;
        let host = &mut network.hosts[self.node];
        if !is_local(host, addr.ip()) {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        }
        let mut local = addr;
        if addr.port() == 0 {
            // The port is free on every address, so that several addresses can share it.
            let is_free = |port: u16| host.sockets.keys().all(|bound| bound.port() != port);
            let after = (host.next_port..=u16::MAX).chain(FIRST_PORT..host.next_port);
            let port = after.into_iter().find(|port| is_free(*port));
            local.set_port(port.ok_or(io::ErrorKind::AddrInUse)?);
            host.next_port = local.port().checked_add(1).unwrap_or(FIRST_PORT);
        }
        if host.sockets.contains_key(&local) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let inbox = Inbox {
            id,
            limit: config.socket_buffer,
            ..Inbox::default()
        };
        host.sockets.insert(local, inbox);
        let transport = self.clone();
        Ok(Box::new(NodeSocket { transport, local, id }))
    }

    fn local_addrs(&self) -> Vec<IpAddr> {
        self.shared.lock().addrs(self.node).to_vec()
    }

    fn source_toward(&self, peer: SocketAddr) -> io::Result<IpAddr> {
        let network = self.shared.lock();
        if is_local(&network.hosts[self.node], peer.ip()) {
            return Ok(peer.ip());
        }
        let node = &network.mesh.nodes[self.node];
        let route = node.routes.iter().find(|(to, _)| *to == peer.ip());
        let interface = route.and_then(|(_, interface)| node.interfaces.get(usize::from(*interface)));
        let interface = interface.ok_or(io::ErrorKind::NetworkUnreachable)?;
        Ok(topology::address(*interface))
    }
}

impl NodeSocket {
    /// Calls `f` with what has arrived, unless the node has crashed.
    fn with_inbox<R>(&self, f: impl FnOnce(&mut Inbox) -> R) -> Option<R> {
        let mut network = self.transport.shared.lock();
        let inbox = network.hosts[self.transport.node].sockets.get_mut(&self.local);
        inbox.filter(|inbox| inbox.id == self.id).map(f)
    }
}

impl Socket for NodeSocket {
    fn local_addr(&self) -> SocketAddr {
        self.local
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
        arrivals: &mut [Arrival],
    ) -> Poll<io::Result<usize>> {
        let count = self.with_inbox(|inbox| {
            let mut count = 0;
            for (buffer, arrival) in buffers.iter_mut().zip(arrivals) {
                let Some((remote, ecn, bytes)) = inbox.queue.pop_front() else {
                    break;
                };
                inbox.bytes -= bytes.len();
                let len = bytes.len().min(buffer.len());
                buffer[..len].copy_from_slice(&bytes[..len]);
                *arrival = Arrival {
                    remote,
                    len,
                    stride: len,
                    ecn,
                };
                count += 1;
            }
            if count == 0 {
                inbox.reader = Some(cx.waker().clone());
            }
            count
        });
        match count.unwrap_or(0) {
            0 => Poll::Pending,
            count => Poll::Ready(Ok(count)),
        }
    }

    fn poll_send(&self, _: &mut Context<'_>, datagrams: &Datagrams<'_>) -> Poll<io::Result<()>> {
        let NodeTransport { shared, node } = &self.transport;
        let now = shared.now();
        Poll::Ready(shared.lock().send(now, *node, self.local, datagrams))
    }

    fn report(&self) -> Pin<Box<dyn Future<Output = io::Result<Report>> + Send + '_>> {
        Box::pin(std::future::poll_fn(|cx| {
            let report = self.with_inbox(|inbox| {
                inbox.watcher = Some(cx.waker().clone());
                inbox.reports.pop_front()
            });
            report.flatten().map_or(Poll::Pending, |report| Poll::Ready(Ok(report)))
        }))
    }
}

impl Drop for NodeSocket {
    fn drop(&mut self) {
        let mut network = self.transport.shared.lock();
        let sockets = &mut network.hosts[self.transport.node].sockets;
        if sockets.get(&self.local).is_some_and(|inbox| inbox.id == self.id) {
            sockets.remove(&self.local);
        }
    }
}
