//! Two endpoints talk through a network that loses, repeats, reorders, changes and invents packets, while their users do as
//! they please. Whatever happens: no panic, no endless sending, no timer that is always due, packets that are well-formed
//! and within the path MTU, memory within bounds.
#![no_main]

mod input;
mod packets;

use std::collections::VecDeque;

use libfuzzer_sys::fuzz_target;
use whimbrel_control::multipath::{ReportingChanges, RetransmitPath};
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, AuthConfig, Endpoint, EndpointConfig, ErrorDetection, Message, PacketMeta, PathId, Preset, Reliability, Scheduler, StreamChange,
    StreamList, TransportAddr,
};
use whimbrel_wire::{ByteSink, Checksum, ChecksumField, ChunkType, PacketView, stored_checksum};

use input::Input;
use packets::Knowledge;

/// Packets that an endpoint may send without anything happening in between.
const MAX_SENT_AT_ONCE: usize = 3000;
/// Bytes that an association may hold: buffers of 64 KiB with their overhead, and the limits on everything else.
const MAX_MEMORY: usize = 2 << 20;
const MAX_ASSOCIATIONS: usize = 4;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut world = World::new(&mut input);
    while !input.is_empty() {
        world.act(&mut input);
        world.settle();
    }
    // The network falls silent: everything comes to an end by itself, or waits without hurry.
    world.in_flight.clear();
    for _ in 0..50 {
        world.jump();
        world.settle();
        world.in_flight.clear();
    }
});

#[derive(Clone)]
struct Packet {
    to: usize,
    meta: PacketMeta,
    bytes: Vec<u8>,
}

struct World {
    now: Time,
    mtu: usize,
    endpoints: [Endpoint; 2],
    in_flight: VecDeque<Packet>,
    /// Packets seen before, to be sent again.
    history: VecDeque<Packet>,
    knowledge: Knowledge,
    paths: usize,
}

fn addr(host: usize, path: usize) -> TransportAddr {
    TransportAddr::new([10, 0, path as u8, 1 + host as u8].into(), 0)
}

fn port(host: usize) -> u16 {
    4001 + host as u16
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let paths = 1 + input.below(3);
        let seed = u64::from(input.byte());
        let mtu = [1500, 576, 9000][input.below(3)];
        let endpoints = [0, 1].map(|host| {
            let config = EndpointConfig {
                local_port: port(host),
                local_addrs: (0..paths).map(|path| addr(host, path)).collect(),
                listen: true,
                association: association(input, mtu).into(),
                max_associations: MAX_ASSOCIATIONS,
                max_pending_replies: 64,
                ..EndpointConfig::default()
            };
            Endpoint::new(config, Box::new(Rng::stream(seed, ["a", "b"][host]))).expect("valid configuration")
        });
        let mut world = World {
            now: Time::from_nanos(1),
            mtu: mtu.into(),
            endpoints,
            in_flight: VecDeque::new(),
            history: VecDeque::new(),
            knowledge: Knowledge::default(),
            paths,
        };
        world.connect(input, 0);
        world.settle();
        world
    }

    fn connect(&mut self, input: &mut Input<'_>, host: usize) {
        let config = association(input, self.mtu as u16);
        let peers: Vec<_> = (0..1 + input.below(self.paths)).map(|path| addr(1 - host, path)).collect();
        let _ = self.endpoints[host].connect(self.now, config, port(1 - host), &peers);
    }

    fn act(&mut self, input: &mut Input<'_>) {
        match input.byte() % 24 {
            0..=5 => self.deliver_next(),
            6 => drop(self.in_flight.pop_front()),
            7 => {
                let again = self.in_flight.front().cloned();
                again.into_iter().for_each(|packet| self.deliver(packet));
            }
            8 => {
                let which = input.below(self.in_flight.len().max(1));
                let packet = self.in_flight.remove(which);
                packet.into_iter().for_each(|packet| self.deliver(packet));
            }
            9..=11 => {
                if let Some(mut packet) = self.in_flight.pop_front() {
                    packets::mutate(&mut packet.bytes, input);
                    self.deliver(packet);
                }
            }
            12 => {
                let which = input.below(self.history.len().max(1));
                let packet = self.history.get(which).cloned();
                packet.into_iter().for_each(|packet| self.deliver(packet));
            }
            13..=16 => self.invent(input),
            17 => self.jump(),
            18 => self.now = self.now + Span::from_micros(1 << input.below(28)),
            19..=20 => self.send(input),
            21 => self.receive(input.below(2)),
            22 => self.user(input),
            _ => {
                let (host, path) = (input.below(2), input.below(self.paths));
                self.in_flight.retain(|packet| packet.to != host || packet.meta.local != addr(host, path));
            }
        }
    }

    fn deliver_next(&mut self) {
        match self.in_flight.pop_front() {
            Some(packet) => self.deliver(packet),
            None => self.jump(),
        }
    }

    fn deliver(&mut self, packet: Packet) {
        let _ = self.endpoints[packet.to].handle_datagram(self.now, packet.meta, &packet.bytes);
    }

    /// A forged packet with the source of the other host.
    fn invent(&mut self, input: &mut Input<'_>) {
        let to = input.below(2);
        let bytes = packets::invent(&self.knowledge, to, input);
        let path = input.below(self.paths + 1);
        let remote = if path == self.paths { addr(1 - to, 77) } else { addr(1 - to, path) };
        let meta = PacketMeta { local: addr(to, 0), remote, ecn: Default::default(), congestion_indicated: false };
        self.deliver(Packet { to, meta, bytes });
    }

    /// On to the next thing due.
    fn jump(&mut self) {
        let next = self.endpoints.iter().filter_map(Endpoint::next_timeout).min();
        self.now = next.unwrap_or(self.now).max(self.now);
    }

    fn ids(&self, host: usize) -> Vec<AssocId> {
        self.endpoints[host].associations().collect()
    }

    fn send(&mut self, input: &mut Input<'_>) {
        let host = input.below(2);
        let Some(&id) = self.ids(host).first() else { return };
        let message = Message {
            unordered: input.below(4) == 0,
            immediate: input.below(8) == 0,
            reliability: match input.below(6) {
                0 => Reliability::Retransmissions(input.below(2) as u32),
                1 => Reliability::Lifetime(Span::from_millis(u64::from(input.byte()) * 8)),
                2 => Reliability::Priority(input.below(3) as u16),
                _ => Reliability::Full,
            },
            ..Message::zeros(input.below(3) as u16, 1 + (u32::from(input.byte()) << input.below(9)))
        };
        let _ = self.endpoints[host].send(self.now, id, message);
    }

    fn receive(&mut self, host: usize) {
        for id in self.ids(host) {
            while self.endpoints[host].recv(self.now, id, &mut |_| ()).is_some() {}
        }
    }

    fn user(&mut self, input: &mut Input<'_>) {
        let host = input.below(2);
        let which = input.below(11);
        let place = input.below(256);
        let path = PathId((place % self.paths) as u8);
        // One of the first addresses or another.
        let local = addr(host, place % 6);
        if which == 0 {
            return self.connect(input, host);
        }
        let Some(&id) = self.ids(host).first() else { return };
        let (now, endpoint) = (self.now, &mut self.endpoints[host]);
        match which {
            1 => endpoint.shutdown(now, id),
            2 => endpoint.abort(now, id, "no more"),
            3 => drop(endpoint.set_primary(now, id, path)),
            4 => drop(endpoint.request_heartbeat(now, id, path)),
            6 => drop(endpoint.add_local_address(now, id, local)),
            7 => drop(endpoint.remove_local_address(now, id, local)),
            8 => drop(endpoint.set_peer_primary(now, id, local)),
            9..=10 => {
                let streams = match place % 3 {
                    0 => StreamList::ALL,
                    listed => StreamList::of((0..listed).map(|stream| stream as u16)),
                };
                let change = match input.below(4) {
                    0 => StreamChange::ResetInbound(streams),
                    1 => StreamChange::AddOutbound(place as u16 % 4),
                    2 => StreamChange::AddInbound(place as u16 % 4),
                    _ => StreamChange::ResetOutbound(streams),
                };
                let _ = endpoint.change_streams(now, id, change);
            }
            _ => endpoint.peer_refused(now, id),
        }
    }

    /// Lets the timers that are due go off and collects packets and events.
    fn settle(&mut self) {
        for host in [0, 1] {
            for rounds in 0.. {
                assert!(rounds < 100, "a timer is always due");
                if self.endpoints[host].next_timeout().is_none_or(|due| due > self.now) {
                    break;
                }
                self.endpoints[host].handle_timeout(self.now);
                self.drain(host);
            }
            self.drain(host);
            self.check(host);
        }
    }

    fn drain(&mut self, host: usize) {
        for sent in 0.. {
            assert!(sent < MAX_SENT_AT_ONCE, "does not stop sending");
            let mut bytes = Vec::new();
            let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
            let Some(transmit) = self.endpoints[host].poll_transmit(self.now, &mut sink) else { break };
            assert_eq!(transmit.wire_len, bytes.len());
            self.check_packet(&bytes);
            self.knowledge.learn(host, &bytes);
            let meta = PacketMeta { local: transmit.remote, remote: transmit.local, ecn: transmit.ecn, congestion_indicated: false };
            let packet = Packet { to: 1 - host, meta, bytes };
            self.history.push_back(packet.clone());
            self.in_flight.push_back(packet);
            if self.history.len() > 32 {
                self.history.pop_front();
            }
            if self.in_flight.len() > 64 {
                self.in_flight.pop_front();
            }
        }
        for events in 0.. {
            assert!(events < 100_000, "does not stop sending events");
            if self.endpoints[host].poll_event().is_none() {
                break;
            }
        }
    }

    fn check_packet(&self, bytes: &[u8]) {
        // Without CRC32c where the ends agree on it (RFC 9653): what the other end makes of the packet shows whether they do.
        let checksum = if stored_checksum(bytes) == Some(0) { Checksum::Ignore } else { Checksum::Verify };
        let packet = PacketView::parse(bytes, checksum).expect("a well-formed packet");
        let chunks: Vec<_> = packet.chunks().map(|chunk| chunk.expect("a well-formed chunk")).collect();
        assert!(!chunks.is_empty(), "an empty packet");
        // An INIT ACK lists what it has to list, and IP fragments it if need be (RFC 9260 §3.3.3).
        let may_be_large = chunks[0].chunk_type() == ChunkType::INIT_ACK;
        assert!(bytes.len() + 20 <= self.mtu || may_be_large, "{} bytes: {chunks:?}", bytes.len());
        let alone = chunks.iter().any(|chunk| chunk.chunk_type().must_be_alone());
        assert!(!alone || chunks.len() == 1, "in company: {chunks:?}");
        let is_data = |chunk: &whimbrel_wire::Chunk<'_>| matches!(chunk, whimbrel_wire::Chunk::Data(_));
        let control_after_data = chunks.windows(2).any(|pair| is_data(&pair[0]) && !is_data(&pair[1]));
        assert!(!control_after_data, "control chunks behind DATA: {chunks:?}");
    }

    fn check(&self, host: usize) {
        let endpoint = &self.endpoints[host];
        let ids = self.ids(host);
        assert!(ids.len() <= MAX_ASSOCIATIONS);
        for id in ids {
            let association = endpoint.association(id).expect("listed");
            assert!(association.memory() < MAX_MEMORY, "{} bytes held", association.memory());
            for path in association.paths() {
                assert!(path.cwnd > 0 && path.rto <= Span::from_secs(60), "{path:?}");
            }
        }
    }
}

fn association(input: &mut Input<'_>, mtu: u16) -> AssociationConfig {
    let (flags, others, order) = (input.byte(), input.byte(), input.byte());
    let max_burst = [0, 1, 4][input.below(3)];
    AssociationConfig {
        interleaving: order & 3 != 0,
        partial_reliability: order & 4 != 0,
        stream_changes: others & 2 != 0,
        scheduler: Scheduler::ALL[usize::from(order >> 3 & 15) % 6],
        preset: [Preset::Rfc9260, Preset::Rfc4960, Preset::Rfc2960, Preset::Ns2][input.below(4)],
        recv_buffer: [1500, 5000, 65_536][input.below(3)],
        send_buffer: [1500, 65_536][usize::from(flags & 1)],
        mtu,
        max_burst,
        retransmit_path: [
            None,
            Some(RetransmitPath::Standard),
            Some(RetransmitPath::Same),
            Some(RetransmitPath::Alternate),
        ][input.below(4)],
        reporting: ReportingChanges {
            // More arrivals per SACK than a burst has would stop the sender: refused.
            arrivals_per_sack: (others & 1 != 0 && max_burst == 0).then_some(5),
            ..reporting(others)
        },
        dynamic_addresses: flags & 128 != 0,
        auth: AuthConfig {
            enabled: others & 64 != 0,
            // DATA, SACK, ABORT.
            chunks: if others & 192 == 192 { vec![0, 3, 6] } else { Vec::new() },
            ..AuthConfig::default()
        },
        potentially_failed_max_retrans: (flags & 2 != 0).then_some(0),
        path_max_retrans: if flags & 4 != 0 { 1 } else { 5 },
        hb_interval: Span::from_secs(if flags & 8 != 0 { 0 } else { 5 }),
        hb_max_burst: if flags & 16 != 0 { 2 } else { 1 },
        zero_checksum: (order & 128 != 0).then_some(ErrorDetection::Dtls),
        autoclose: (flags & 32 != 0).then_some(Span::from_secs(20)),
        sack_frequency: if flags & 64 != 0 { 1 } else { 2 },
        ..AssociationConfig::default()
    }
}

fn reporting(flags: u8) -> ReportingChanges {
    ReportingChanges {
        dac: Some(flags & 2 != 0),
        two_level_buffer: Some(flags & 4 != 0),
        second_level_buffer: Some(if flags & 8 != 0 { 1500 } else { 65_536 }),
        nr_sack: Some(flags & 16 != 0),
        new_gaps_only: Some(flags & 32 != 0),
        ..ReportingChanges::default()
    }
}
