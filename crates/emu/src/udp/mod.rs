//! A gate of UDP sockets: programs send to the emulator instead of each other.
//!
//! The emulator translates ports, not hosts. Its sockets have the IP addresses of the programs' own hosts and other ports:
//!
//! ```text
//! sending program        emulator                                 receiving program
//! 127.0.1.1:p   ──────►  127.0.2.1:listen ═ links ═ 127.0.1.1:q  ──────►  127.0.2.1:to
//! 127.0.1.2:p   ──────►  127.0.2.2:listen ═ links ═ 127.0.1.2:q  ──────►  127.0.2.2:to
//! ```
//!
//! The receiver's side has one socket for each of its addresses (left), the sender's side one for each of the sender's (right). An
//! SCTP packet lists the IP addresses of its sender, and the peer uses them with the source UDP port of the packet (RFC 6951,
//! section 5.4). As the addresses on both sides are the same and only ports differ, these are the emulator's sockets: neither end
//! can bypass the emulator, and no packet has to be changed. The source address and the receiving socket of a packet identify its
//! route.
//!
//! Each UDP port of a sending program is a client with its own sockets towards the receiver, so that several programs can share the
//! links.

mod outgoing;
mod socket;

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use quinn_udp::RecvMeta;
use whimbrel_sim::{Delivery, Entry, Oversize, UDP_HEADER};

use self::outgoing::{Outgoing, Target};
use self::socket::{Socket, bind_all, ecn};
use crate::{Arrival, Gate, GateCounts};

/// Maximum number of clients; a further one replaces the oldest.
const MOST_CLIENTS: usize = 32;
/// Messages read by one system call. Each may contain several packets of equal length that the system has merged (GRO).
const BATCH: usize = 16;
const BUFFER_BYTES: usize = 65_536;

/// Addresses of a [`UdpGate`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UdpAddresses {
    /// Index of the flow in the scenario.
    pub flow: usize,
    /// Addresses that programs send to instead of the receiver: one for each interface of the receiver. Port 0 selects a free port,
    /// the same for all.
    pub listen: Vec<SocketAddr>,
    /// Addresses of the receiving program: one for each interface of the receiver.
    pub to: Vec<SocketAddr>,
    /// IP addresses of the sending program: one for each interface of the sender. They are the source addresses of packets to the
    /// receiving program.
    pub from: Vec<IpAddr>,
}

/// Why a gate could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum UdpError {
    /// A socket cannot be bound.
    #[error("cannot listen on UDP {addr}: {source}")]
    Bind {
        /// Its address.
        addr: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A gate for programs that use UDP; see the module's documentation.
#[derive(Debug)]
pub struct UdpGate {
    addresses: UdpAddresses,
    /// Sockets that sending programs send to, one for each interface of the receiver.
    front: Vec<Socket>,
    clients: VecDeque<Client>,
    /// The number of the oldest client.
    first_client: u32,
    buffer: Vec<u8>,
    /// Which sockets are readable: first those in front, then those of the clients.
    ready: Vec<bool>,
    outgoing: Outgoing,
    counts: GateCounts,
    /// Packets that the system dropped at sockets of former clients.
    overrun: u64,
}

/// A sending program.
#[derive(Debug)]
struct Client {
    port: u16,
    /// Address of each interface of the sender: the last source address or, before its first packet, the one with the client's port. The
    /// receiver may send there first, for example a HEARTBEAT that confirms the path.
    addrs: Vec<SocketAddr>,
    /// Sockets towards the receiver, one for each interface of the sender.
    back: Vec<Socket>,
}

impl UdpGate {
    /// Opens the sockets that programs send to.
    ///
    /// # Errors
    /// Returns an error if an address cannot be bound.
    pub fn open(mut addresses: UdpAddresses) -> Result<Self, UdpError> {
        let front = bind_all(&addresses.listen)?;
        addresses.listen = front.iter().map(Socket::local).collect();
        // Detects unusable sender addresses at the start instead of at the first packet.
        let probe: Vec<_> = addresses.from.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        drop(bind_all(&probe)?);
        Ok(UdpGate {
            addresses,
            front,
            clients: VecDeque::new(),
            first_client: 0,
            buffer: vec![0; BATCH * BUFFER_BYTES],
            ready: Vec::new(),
            outgoing: Outgoing::default(),
            counts: GateCounts::default(),
            overrun: 0,
        })
    }

    /// Returns the addresses, with the ports chosen by the system.
    pub fn addresses(&self) -> &UdpAddresses {
        &self.addresses
    }

    /// Reads everything from a socket in front.
    fn read_front(&mut self, to: usize, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<()> {
        let mut buffer = core::mem::take(&mut self.buffer);
        let result = loop {
            let mut meta = [RecvMeta::default(); BATCH];
            let mut parts = parts(&mut buffer);
            let count = match self.front[to].receive(&mut parts, &mut meta) {
                Ok(count) => count,
                Err(error) => break Err(error),
            };
            for (part, meta) in parts.iter().zip(&meta).take(count) {
                let Some((client, from)) = self.client(meta.addr) else {
                    self.counts.foreign += 1;
                    continue;
                };
                let tag = self.first_client.wrapping_add(client as u32);
                let entry = self.entry(true, from, to, meta, tag);
                self.counts.received += each(entry, part, meta, take);
            }
            if count < BATCH {
                break Ok(());
            }
        };
        self.buffer = buffer;
        result
    }

    /// Reads everything from a socket towards the receiver.
    fn read_back(&mut self, client: usize, to: usize, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<()> {
        let mut buffer = core::mem::take(&mut self.buffer);
        let result = loop {
            let mut meta = [RecvMeta::default(); BATCH];
            let mut parts = parts(&mut buffer);
            let count = match self.clients[client].back[to].receive(&mut parts, &mut meta) {
                Ok(count) => count,
                Err(error) => break Err(error),
            };
            for (part, meta) in parts.iter().zip(&meta).take(count) {
                let Some(from) = self.receiver(meta.addr) else {
                    self.counts.foreign += 1;
                    continue;
                };
                let tag = self.first_client.wrapping_add(client as u32);
                let entry = self.entry(false, from, to, meta, tag);
                self.counts.received += each(entry, part, meta, take);
            }
            if count < BATCH {
                break Ok(());
            }
        };
        self.buffer = buffer;
        result
    }

    fn entry(&self, forward: bool, from: usize, to: usize, meta: &RecvMeta, tag: u32) -> Entry {
        Entry {
            flow: self.addresses.flow,
            forward,
            from,
            to,
            ecn: ecn(meta.ecn),
            headers: Some(UDP_HEADER),
            tag,
            oversize: Oversize::Drop,
        }
    }

    /// Returns the interface of the receiver that sent an answer.
    fn receiver(&self, addr: SocketAddr) -> Option<usize> {
        match self.addresses.to[..] {
            // A program that listens on all addresses of the host may answer from another one.
            [only] => (only.port() == addr.port()).then_some(0),
            ref all => all.iter().position(|to| *to == addr),
        }
    }

    /// Returns the client that sent a packet, and the interface of the sender; a new client if it is unknown.
    fn client(&mut self, addr: SocketAddr) -> Option<(usize, usize)> {
        let from = match self.addresses.from[..] {
            [_] => 0,
            ref all => all.iter().position(|ip| *ip == addr.ip())?,
        };
        let known = self.clients.iter().position(|client| client.port == addr.port());
        let client = match known {
            Some(client) => client,
            None => self.add_client(addr.port())?,
        };
        self.clients[client].addrs[from] = addr;
        Some((client, from))
    }

    #[cold]
    fn add_client(&mut self, port: u16) -> Option<usize> {
        let wanted: Vec<_> = self.addresses.from.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        let back = bind_all(&wanted).ok()?;
        if self.clients.len() >= MOST_CLIENTS
            && let Some(oldest) = self.clients.pop_front()
        {
            self.first_client = self.first_client.wrapping_add(1);
            self.overrun += socket::overrun(&oldest.back).unwrap_or(0);
        }
        let addrs = self.addresses.from.iter().map(|ip| SocketAddr::new(*ip, port));
        self.clients.push_back(Client {
            port,
            addrs: addrs.collect(),
            back,
        });
        Some(self.clients.len() - 1)
    }
}

/// Returns the buffers of a batch.
fn parts(buffer: &mut [u8]) -> [IoSliceMut<'_>; BATCH] {
    let mut rest = buffer.chunks_exact_mut(BUFFER_BYTES);
    std::array::from_fn(|_| IoSliceMut::new(rest.next().unwrap_or_default()))
}

/// Passes the packets of a message to `take`; returns their number.
fn each(entry: Entry, part: &[u8], meta: &RecvMeta, take: &mut dyn FnMut(&Arrival<'_>)) -> u64 {
    let mut count = 0;
    for payload in part[..meta.len].chunks(meta.stride.max(1)) {
        take(&Arrival {
            entry,
            timestamp: meta.timestamp,
            payload,
        });
        count += 1;
    }
    count
}

impl Gate for UdpGate {
    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let sockets = self
            .front
            .iter()
            .chain(self.clients.iter().flat_map(|client| &client.back));
        let mut fds: Vec<_> = sockets
            .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
            .collect();
        self.ready.clear();
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        // An error report about an earlier packet makes a socket readable, too; reading clears it.
        let ready = fds
            .iter()
            .map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
        self.ready.extend(ready);
        Ok(())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<()> {
        let ready = core::mem::take(&mut self.ready);
        let width = self.addresses.from.len();
        let (fronts, backs) = ready.split_at(self.front.len().min(ready.len()));
        // Clients first: reading in front may change their number.
        for (place, _) in backs.iter().enumerate().filter(|(_, ready)| **ready) {
            self.read_back(place / width, place % width, take)?;
        }
        for (place, _) in fronts.iter().enumerate().filter(|(_, ready)| **ready) {
            self.read_front(place, take)?;
        }
        self.ready = ready;
        self.ready.clear();
        Ok(())
    }

    fn send(&mut self, delivery: &Delivery<'_>) {
        let client = delivery.tag.wrapping_sub(self.first_client) as usize;
        let Some(known) = self.clients.get(client) else {
            self.counts.unsendable += 1;
            return;
        };
        let target = if delivery.forward {
            Target {
                client: Some((delivery.tag, delivery.from)),
                front: 0,
                to: self.addresses.to[delivery.to],
            }
        } else {
            Target {
                client: None,
                front: delivery.from,
                to: known.addrs[delivery.to],
            }
        };
        self.outgoing.push(target, delivery.ecn, delivery.payload);
    }

    fn flush(&mut self) {
        for lane in self.outgoing.lanes() {
            let target = &lane.target;
            let socket = match target.client {
                None => self.front.get(target.front),
                Some((tag, from)) => self
                    .clients
                    .get(tag.wrapping_sub(self.first_client) as usize)
                    .and_then(|client| client.back.get(from)),
            };
            for (group, contents) in lane.groups() {
                match socket.map(|socket| socket.send(target.to, group.ecn, contents, group.segment)) {
                    Some(Ok(())) => self.counts.sent += group.count,
                    _ => self.counts.unsendable += group.count,
                }
            }
        }
        self.outgoing.clear();
    }

    fn counts(&mut self) -> GateCounts {
        let now = self
            .front
            .iter()
            .chain(self.clients.iter().flat_map(|client| &client.back));
        GateCounts {
            overrun: socket::overrun(now).map(|now| now + self.overrun),
            ..self.counts
        }
    }
}

#[cfg(test)]
mod tests;
