//! Test harness: two endpoints, virtual time, and a network whose packets a test can delay, drop or change.

#![allow(unreachable_pub, reason = "a module of test binaries")]
#![allow(dead_code, reason = "each test binary uses its own part of the harness")]

pub mod attacker;
pub mod messages;
mod packets;
pub mod paths;
pub(crate) mod scripted;
mod states;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, Association, AssociationConfig, CloseReason, Ecn, Endpoint, EndpointConfig, Event, Message, PacketMeta,
    State, StreamChange, Transmit, TransportAddr,
};
use whimbrel_wire::{ByteSink, Checksum, ChecksumField, Chunk, ChunkType, PacketView, Tsn, stored_checksum};

pub use packets::*;

/// One of the two hosts: A opens associations, B listens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Host {
    A,
    B,
}

impl Host {
    pub fn other(self) -> Host {
        match self {
            Host::A => Host::B,
            Host::B => Host::A,
        }
    }
}

/// What the network does to a packet.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fate {
    Deliver,
    Drop,
    Delay(Span),
    Duplicate,
    /// Deliver with a CE mark.
    Mark,
    /// Deliver with ECI set: ECT(0), if the packet can be marked.
    Indicate,
    /// Deliver with a congestion warning.
    Warn,
}

/// A packet on its way, as the test's `filter` sees it.
pub struct InFlight<'a> {
    pub now: Time,
    pub from: Host,
    pub local: TransportAddr,
    pub remote: TransportAddr,
    pub ecn: Ecn,
    pub bytes: &'a [u8],
    /// IP may fragment it.
    pub fragment: bool,
}

impl InFlight<'_> {
    pub fn chunk_types(&self) -> Vec<ChunkType> {
        chunk_types(self.bytes)
    }

    pub fn has(&self, chunk_type: ChunkType) -> bool {
        self.chunk_types().contains(&chunk_type)
    }

    /// Returns the TSNs of its DATA chunks.
    pub fn tsns(&self) -> Vec<Tsn> {
        view(self.bytes)
            .chunks()
            .filter_map(|chunk| match chunk {
                Ok(Chunk::Data(data)) => Some(data.tsn),
                _ => None,
            })
            .collect()
    }
}

pub fn view(bytes: &[u8]) -> PacketView<'_> {
    let checksum = if has_zero_checksum(bytes) {
        Checksum::Ignore
    } else {
        Checksum::Verify
    };
    PacketView::parse(bytes, checksum).expect("an endpoint sent a malformed packet")
}

/// Returns whether a packet has no CRC32c (RFC 9653). `Net` checks that its sender may leave it out.
pub fn has_zero_checksum(bytes: &[u8]) -> bool {
    stored_checksum(bytes) == Some(0)
}

/// Only a path that is known to carry longer packets gets them, besides probes.
fn check_length(sender: &Endpoint, sent: &Transmit) {
    let paths = sent.association.and_then(|id| sender.association(id));
    let known = paths.and_then(|all| all.paths().find(|path| Some(path.id) == sent.path));
    let most = known.map_or(1500, |path| usize::from(path.mtu).max(1500));
    assert!(
        sent.wire_len + 20 <= most || sent.probes_mtu || sent.fragment,
        "a packet of {} bytes",
        sent.wire_len
    );
}

/// RFC 9653 §5.2: an association may leave out the CRC32c if the peer accepts that, and not in packets with one of these chunks.
fn check_zero_checksum(association: Option<&Association>, bytes: &[u8]) {
    let types = chunk_types(bytes);
    let association = association.unwrap_or_else(|| panic!("no association sent {types:?} without CRC32c"));
    assert!(association.sends_zero_checksum(), "{types:?} without CRC32c");
    for needs_one in [ChunkType::INIT, ChunkType::COOKIE_ECHO, ChunkType::ASCONF] {
        assert!(!types.contains(&needs_one), "{types:?} without CRC32c");
    }
}

pub fn chunk_types(bytes: &[u8]) -> Vec<ChunkType> {
    view(bytes)
        .chunks()
        .map(|chunk| chunk.expect("an endpoint sent a malformed chunk").chunk_type())
        .collect()
}

type Filter = Box<dyn FnMut(&InFlight<'_>) -> Fate>;

struct Packet {
    to: Host,
    meta: PacketMeta,
    bytes: Vec<u8>,
}

/// The network and both endpoints.
pub struct Net {
    pub now: Time,
    pub a: Endpoint,
    pub b: Endpoint,
    /// One-way delay.
    pub delay: Span,
    pub filter: Filter,
    /// NATs in front of A: the source addresses that B sees, by A's addresses. If there are any, nothing else reaches A.
    pub nats: BTreeMap<TransportAddr, TransportAddr>,
    /// They also put packets into UDP, and take them out: to and from port 9899 of B if the public port is not 0.
    pub is_gateway: bool,
    /// Reads messages as soon as they are ready.
    pub auto_read: bool,
    /// Events in the order of their arrival, by host.
    pub events: BTreeMap<Host, Vec<(AssocId, Event)>>,
    /// Messages read, by host: stream, unordered, content.
    pub messages: BTreeMap<Host, Vec<(u16, bool, Vec<u8>)>>,
    changes: BTreeMap<Host, Vec<(usize, StreamChange)>>,
    /// Number of messages read on each association.
    pub read_on: BTreeMap<(Host, AssocId), usize>,
    /// Every packet sent: time, sender, destination, chunk types.
    pub log: Vec<(Time, Host, TransportAddr, Vec<ChunkType>)>,
    /// Every packet sent, with all its bytes, unless `capture` is off.
    pub wire: Vec<Sent>,
    pub capture: bool,
    partial: BTreeMap<(Host, AssocId, u16, bool), Vec<u8>>,
    packets: BinaryHeap<Reverse<(Time, u64)>>,
    in_flight: BTreeMap<u64, Packet>,
    next_packet: u64,
}

/// The UDP port of hosts that encapsulate (RFC 6951 §5.1).
pub const ENCAPSULATION: u16 = 9899;

pub fn addr(text: &str) -> TransportAddr {
    text.parse().expect("an address of the test")
}

/// Addresses of a host: 10.0.PATH.1 for A, 10.0.PATH.2 for B.
pub fn addrs(host: Host, paths: usize) -> Vec<TransportAddr> {
    let last = if host == Host::A { 1 } else { 2 };
    (0..paths).map(|path| addr(&format!("10.0.{path}.{last}:0"))).collect()
}

pub fn endpoint(host: Host, paths: usize, association: &AssociationConfig, seed: u64) -> Endpoint {
    let config = EndpointConfig {
        local_port: if host == Host::A { 4001 } else { 4002 },
        local_addrs: addrs(host, paths),
        listen: host == Host::B,
        association: association.clone().into(),
        ..EndpointConfig::default()
    };
    Endpoint::new(
        config,
        Box::new(Rng::stream(seed, if host == Host::A { "a" } else { "b" })),
    )
    .expect("valid configuration")
}

impl Net {
    /// Two hosts with `paths` paths between them, with a one-way delay of 10 ms and without loss.
    pub fn new(paths: usize) -> Net {
        Net::with_config(paths, &AssociationConfig::default(), 1)
    }

    pub fn with_config(paths: usize, config: &AssociationConfig, seed: u64) -> Net {
        Net {
            now: Time::from_nanos(1_000_000),
            a: endpoint(Host::A, paths, config, seed),
            b: endpoint(Host::B, paths, config, seed),
            delay: Span::from_millis(10),
            filter: Box::new(|_| Fate::Deliver),
            nats: BTreeMap::new(),
            is_gateway: false,
            auto_read: true,
            events: BTreeMap::new(),
            messages: BTreeMap::new(),
            changes: BTreeMap::new(),
            read_on: BTreeMap::new(),
            log: Vec::new(),
            wire: Vec::new(),
            capture: true,
            partial: BTreeMap::new(),
            packets: BinaryHeap::new(),
            in_flight: BTreeMap::new(),
            next_packet: 0,
        }
    }

    pub fn host(&mut self, host: Host) -> &mut Endpoint {
        match host {
            Host::A => &mut self.a,
            Host::B => &mut self.b,
        }
    }

    /// Opens an association from A to B.
    pub fn connect(&mut self, config: &AssociationConfig, paths: usize) -> AssocId {
        let now = self.now;
        self.a
            .connect(now, config.clone(), 4002, &addrs(Host::B, paths))
            .expect("the association can be opened")
    }

    /// Returns an association that is established at both ends.
    pub fn established(paths: usize, config: &AssociationConfig) -> (Net, AssocId, AssocId) {
        let mut net = Net::with_config(paths, config, 1);
        let a = net.connect(config, paths);
        net.run_for(Span::from_millis(100));
        let b = net.only(Host::B);
        assert_eq!(net.state(Host::A, a), State::Established);
        assert_eq!(net.state(Host::B, b), State::Established);
        (net, a, b)
    }

    /// Returns the only association of a host.
    pub fn only(&mut self, host: Host) -> AssocId {
        let all: Vec<_> = self.host(host).associations().collect();
        assert_eq!(all.len(), 1, "{host:?} has {all:?}");
        all[0]
    }

    /// Returns the state of an association; closed if it was removed.
    pub fn state(&mut self, host: Host, id: AssocId) -> State {
        self.host(host)
            .association(id)
            .map_or(State::Closed, |association| association.state())
    }

    pub fn send(&mut self, host: Host, id: AssocId, message: Message) {
        let now = self.now;
        self.host(host).send(now, id, message).expect("the message is accepted");
        self.drain(host);
    }

    /// Injects a packet into the network as if from `local`, although no endpoint sent it.
    pub fn inject(&mut self, to: Host, local: TransportAddr, remote: TransportAddr, bytes: Vec<u8>) {
        let meta = PacketMeta {
            local,
            remote,
            ecn: Default::default(),
            congestion_indicated: false,
        };
        self.deliver_at(self.now, Packet { to, meta, bytes });
    }

    fn deliver_at(&mut self, at: Time, packet: Packet) {
        self.packets.push(Reverse((at, self.next_packet)));
        self.in_flight.insert(self.next_packet, packet);
        self.next_packet += 1;
    }

    /// Sends all waiting packets of a host and records its events.
    pub fn drain(&mut self, host: Host) {
        let now = self.now;
        for packets in 0.. {
            assert!(
                packets < 10_000,
                "{host:?} does not stop sending: {:?}",
                self.log.last()
            );
            let mut bytes = Vec::new();
            let endpoint = self.host(host);
            let Some(sent) = endpoint.poll_transmit(now, &mut ByteSink::new(&mut bytes, ChecksumField::Compute)) else {
                break;
            };
            assert_eq!(sent.wire_len, bytes.len());
            check_length(endpoint, &sent);
            if has_zero_checksum(&bytes) {
                let sender = sent.association.and_then(|id| endpoint.association(id));
                check_zero_checksum(sender, &bytes);
            }
            self.log.push((now, host, sent.remote, chunk_types(&bytes)));
            if self.capture {
                self.wire.push(Sent {
                    at: now,
                    from: host,
                    local: sent.local,
                    remote: sent.remote,
                    ecn: sent.ecn,
                    bytes: bytes.clone(),
                });
            }
            let in_flight = InFlight {
                now,
                from: host,
                local: sent.local,
                remote: sent.remote,
                ecn: sent.ecn,
                bytes: &bytes,
                fragment: sent.fragment,
            };
            let fate = (self.filter)(&in_flight);
            let Some((source, destination)) = self.translate(host, sent.local, sent.remote) else {
                continue;
            };
            let meta = PacketMeta {
                local: destination,
                remote: source,
                ecn: match fate {
                    Fate::Mark => Ecn::Ce,
                    Fate::Indicate if sent.ecn != Ecn::NotEct => Ecn::Ect0,
                    _ => sent.ecn,
                },
                congestion_indicated: fate == Fate::Warn,
            };
            let at = now + self.delay;
            let packet = |bytes| Packet {
                to: host.other(),
                meta,
                bytes,
            };
            match fate {
                Fate::Drop => {}
                Fate::Deliver | Fate::Mark | Fate::Indicate | Fate::Warn => self.deliver_at(at, packet(bytes)),
                Fate::Delay(extra) => self.deliver_at(at + extra, packet(bytes)),
                Fate::Duplicate => {
                    self.deliver_at(at, packet(bytes.clone()));
                    self.deliver_at(at, packet(bytes));
                }
            }
        }
        while let Some((id, event)) = self.host(host).poll_event() {
            if event == Event::DataReady && self.auto_read {
                self.read(host, id);
            }
            if let Event::StreamsChanged(change) = &event {
                let read = self.messages.get(&host).map_or(0, Vec::len);
                self.changes.entry(host).or_default().push((read, change.clone()));
            }
            self.events.entry(host).or_default().push((id, event));
        }
    }

    /// Returns the addresses of a packet behind the NATs, or `None` if it does not reach A.
    fn translate(
        &self,
        from: Host,
        source: TransportAddr,
        to: TransportAddr,
    ) -> Option<(TransportAddr, TransportAddr)> {
        if self.nats.is_empty() {
            return Some((source, to));
        }
        let like = |addr: TransportAddr, other: TransportAddr| match (self.is_gateway, other.port()) {
            (false, _) => addr,
            (true, 0) => TransportAddr::new(addr.ip(), 0),
            (true, _) => TransportAddr::new(addr.ip(), ENCAPSULATION),
        };
        match from {
            Host::A => {
                let public = *self.nats.get(&source)?;
                Some((public, like(to, public)))
            }
            Host::B => {
                let mut all = self.nats.iter();
                let private = *all.find(|(_, public)| **public == to)?.0;
                Some((like(source, private), private))
            }
        }
    }

    /// Returns the changes of streams that a host has been notified of, each with the number of messages that it had read before.
    pub fn changes_of(&self, host: Host) -> Vec<(usize, StreamChange)> {
        self.changes.get(&host).cloned().unwrap_or_default()
    }

    /// Reads every message that is ready.
    pub fn read(&mut self, host: Host, id: AssocId) {
        let now = self.now;
        loop {
            let mut part = Vec::new();
            let Some(received) = self.host(host).recv(now, id, &mut |piece| piece.append_to(&mut part)) else {
                break;
            };
            // Complete messages may arrive between the parts of a message that is larger than the buffer.
            let key = (host, id, received.stream, received.unordered);
            let mut content = self.partial.remove(&key).unwrap_or_default();
            if received.begin {
                // The rest of the message before was given up.
                content.clear();
            }
            content.append(&mut part);
            if received.end {
                *self.read_on.entry((host, id)).or_default() += 1;
                self.messages
                    .entry(host)
                    .or_default()
                    .push((received.stream, received.unordered, content));
            } else {
                self.partial.insert(key, content);
            }
        }
    }

    fn next_due(&self) -> Option<Time> {
        let packet = self.packets.peek().map(|&Reverse((at, _))| at);
        [packet, self.a.next_timeout(), self.b.next_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Processes the next event. Returns false if none is due until `end`.
    pub fn step(&mut self, end: Time) -> bool {
        let Some(due) = self.next_due().filter(|&due| due <= end) else {
            self.now = end.max(self.now);
            return false;
        };
        self.now = due.max(self.now);
        let now = self.now;
        if let Some(&Reverse((at, id))) = self.packets.peek()
            && at <= now
        {
            self.packets.pop();
            let packet = self
                .in_flight
                .remove(&id)
                .expect("every packet in the heap is in the map");
            // The endpoint counts discarded packets.
            let _ = self.host(packet.to).handle_datagram(now, packet.meta, &packet.bytes);
            if self.auto_read {
                let ids: Vec<_> = self.host(packet.to).associations().collect();
                ids.into_iter().for_each(|id| self.read(packet.to, id));
            }
            self.drain(packet.to);
            return true;
        }
        for host in [Host::A, Host::B] {
            if self.host(host).next_timeout().is_some_and(|at| at <= now) {
                self.host(host).handle_timeout(now);
                self.drain(host);
            }
        }
        true
    }

    /// Runs for this time.
    pub fn run_for(&mut self, span: Span) {
        self.drain(Host::A);
        self.drain(Host::B);
        let end = self.now + span;
        while self.step(end) {}
    }

    /// Runs until `done`, for at most `span`; panics if `done` does not return true within it.
    pub fn run_until(&mut self, span: Span, what: &str, mut done: impl FnMut(&mut Net) -> bool) {
        self.drain(Host::A);
        self.drain(Host::B);
        let end = self.now + span;
        while !done(self) {
            assert!(self.step(end), "not within {span}: {what}");
        }
    }

    /// Returns the events of a host without their association.
    pub fn events_of(&self, host: Host) -> Vec<Event> {
        self.events
            .get(&host)
            .map(|events| events.iter().map(|(_, event)| event.clone()).collect())
            .unwrap_or_default()
    }

    /// Returns why the association of a host ended.
    pub fn close_reason(&self, host: Host) -> Option<CloseReason> {
        self.events_of(host).into_iter().rev().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }

    /// Returns the contents of the messages that a host has read.
    pub fn contents(&self, host: Host) -> Vec<Vec<u8>> {
        self.messages
            .get(&host)
            .map(|all| all.iter().map(|(_, _, content)| content.clone()).collect())
            .unwrap_or_default()
    }

    /// Forgets the messages that the hosts have read.
    pub fn forget_contents(&mut self) {
        self.messages.clear();
    }

    /// Returns the number of packets of a host that carried a chunk of this type.
    pub fn count(&self, host: Host, chunk_type: ChunkType) -> usize {
        self.log
            .iter()
            .filter(|(_, from, _, types)| *from == host && types.contains(&chunk_type))
            .count()
    }
}
