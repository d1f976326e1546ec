//! What the tests with stacks in memory share: our endpoint with what it has read, and the network between it and theirs.

use std::collections::BTreeMap;
use std::time::Duration;

use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Ecn, Endpoint, EndpointConfig, Event, Message, PacketMeta, State,
    TransportAddr,
};
use whimbrel_wire::{ByteSink, ChecksumField};

pub(crate) const OUR_PORT: u16 = 5001;
pub(crate) const THEIR_PORT: u16 = 5002;
/// One way.
const DELAY: Duration = Duration::from_millis(10);

/// A message that was read: its stream and its content.
pub(crate) type Content = (u16, Vec<u8>);

fn address(last: u8) -> TransportAddr {
    TransportAddr::from(([10, 0, 0, last], 0))
}

pub(crate) fn our_config() -> AssociationConfig {
    AssociationConfig {
        mtu: 1300,
        partial_reliability: true,
        stream_changes: true,
        hb_interval: Span::ZERO,
        rto_min: Span::from_millis(200),
        send_buffer: 4 << 20,
        outbound_streams: 100,
        ..AssociationConfig::default()
    }
}

pub(crate) fn time(now: Duration) -> Time {
    Time::from_nanos(now.as_nanos() as u64)
}

/// A network that may lose, delay and reorder packets.
pub(crate) struct Network {
    rng: Rng,
    /// Packets under way: arrival, number, whether they go to us.
    packets: BTreeMap<(Duration, u64), (bool, Vec<u8>)>,
    sent: u64,
    /// Share of packets lost.
    pub(crate) loss: f64,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Network {
            rng: Rng::stream(seed, "network"),
            packets: BTreeMap::new(),
            sent: 0,
            loss: 0.0,
        }
    }

    pub(crate) fn carry(&mut self, now: Duration, to_us: bool, bytes: Vec<u8>) {
        self.sent += 1;
        if self.rng.chance(self.loss) {
            return;
        }
        let jitter = if self.loss > 0.0 { self.rng.below(8000) } else { 0 };
        let at = now + DELAY + Duration::from_micros(jitter);
        self.packets.insert((at, self.sent), (to_us, bytes));
    }

    /// Returns when the next packet arrives.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        self.packets.keys().next().map(|key| key.0)
    }

    /// Returns the next packet that has arrived, and whether it is for us.
    pub(crate) fn take(&mut self, now: Duration) -> Option<(bool, Vec<u8>)> {
        let entry = self.packets.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}

/// Our endpoint.
pub(crate) struct Ours {
    pub(crate) endpoint: Endpoint,
    pub(crate) events: Vec<Event>,
    pub(crate) read: Vec<Content>,
    partial: BTreeMap<(u16, bool), Vec<u8>>,
}

impl Ours {
    pub(crate) fn new(config: &AssociationConfig, seed: u64) -> Self {
        let endpoint = EndpointConfig {
            local_port: OUR_PORT,
            local_addrs: vec![address(1)],
            listen: true,
            association: config.clone().into(),
            ..EndpointConfig::default()
        };
        Ours {
            endpoint: Endpoint::new(endpoint, Box::new(Rng::stream(seed, "ours"))).expect("valid"),
            events: Vec::new(),
            read: Vec::new(),
            partial: BTreeMap::new(),
        }
    }

    /// Our process starts again. `seed`: another one, as the tag must be another one. What was read stays.
    pub(crate) fn restart(&mut self, config: &AssociationConfig, seed: u64) {
        let read = std::mem::take(&mut self.read);
        *self = Ours {
            read,
            ..Ours::new(config, seed)
        };
    }

    pub(crate) fn open(&mut self, now: Duration, config: &AssociationConfig) {
        let opened = self
            .endpoint
            .connect(time(now), config.clone(), THEIR_PORT, &[address(2)]);
        opened.expect("valid");
    }

    pub(crate) fn id(&self) -> Option<AssocId> {
        self.endpoint.associations().next()
    }

    pub(crate) fn state(&self) -> Option<State> {
        Some(self.endpoint.association(self.id()?)?.state())
    }

    pub(crate) fn send(&mut self, now: Duration, message: Message) {
        let id = self.id().expect("an association");
        self.endpoint.send(time(now), id, message).expect("there is room");
    }

    /// Returns the packets that are ready, and takes the events.
    pub(crate) fn transmit(&mut self, now: Duration) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        loop {
            let mut bytes = Vec::new();
            let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
            if self.endpoint.poll_transmit(time(now), &mut sink).is_none() {
                break;
            }
            packets.push(bytes);
        }
        self.events
            .extend(std::iter::from_fn(|| self.endpoint.poll_event()).map(|(_, event)| event));
        packets
    }

    /// Handles a packet of theirs.
    pub(crate) fn handle(&mut self, now: Duration, bytes: &[u8]) -> Result<(), Discard> {
        let meta = PacketMeta {
            local: address(1),
            remote: address(2),
            ecn: Ecn::NotEct,
            congestion_indicated: false,
        };
        self.endpoint.handle_datagram(time(now), meta, bytes)
    }

    /// Reads what has arrived.
    pub(crate) fn read_all(&mut self, now: Duration) {
        let ids: Vec<AssocId> = self.endpoint.associations().collect();
        for id in ids {
            self.read_one(now, id);
        }
    }

    fn read_one(&mut self, now: Duration, id: AssocId) {
        loop {
            let mut part = Vec::new();
            let received = self
                .endpoint
                .recv(time(now), id, &mut |bytes| bytes.append_to(&mut part));
            let Some(received) = received else { return };
            let content = self.partial.entry((received.stream, received.unordered)).or_default();
            if received.begin {
                content.clear();
            }
            content.append(&mut part);
            if received.end {
                self.read.push((received.stream, std::mem::take(content)));
            }
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        self.endpoint
            .next_timeout()
            .map(|at| Duration::from_nanos(at.as_nanos()))
    }

    pub(crate) fn gave_up(&self) -> usize {
        let all = self.events.iter();
        all.filter(|event| matches!(event, Event::SendFailed(_))).count()
    }

    pub(crate) fn closed(&self) -> Option<&CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }
}

/// Returns `len` bytes that differ from message to message.
pub(crate) fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + number) as u8).collect()
}
