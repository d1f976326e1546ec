//! Our endpoint, theirs, and the network between them.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Event as TheirEvent, PayloadProtocolIdentifier,
    ReliabilityType, ServerConfig, StreamEvent, TransportConfig,
};
use whimbrel_control::Time;
use whimbrel_proto::{AssocId, AssociationConfig, Message, State};
use whimbrel_wire::{Checksum, Chunk, ChunkType, PacketView, Tsn};

use crate::memory_network::{Content, Network, OUR_PORT, Ours, THEIR_PORT, time};

const BINARY: PayloadProtocolIdentifier = PayloadProtocolIdentifier::Binary;

/// How they send a message.
#[derive(Clone, Copy)]
pub(crate) struct Sending {
    pub(crate) unordered: bool,
    pub(crate) reliability: (ReliabilityType, u32),
}

pub(crate) const RELIABLE: Sending = Sending {
    unordered: false,
    reliability: (ReliabilityType::Reliable, 0),
};

/// Their endpoint with its associations: more than one after a collision or a restart.
pub(crate) struct Theirs {
    endpoint: sctp_proto::Endpoint,
    pub(crate) associations: Vec<(AssociationHandle, Association)>,
    /// Number of associations that were established and lost, and what they said of the loss.
    pub(crate) connected: usize,
    pub(crate) lost: Vec<String>,
    /// Streams whose reset by us was announced, and streams that they have reset.
    pub(crate) finished: Vec<u16>,
    pub(crate) reset: Vec<u16>,
    pub(crate) read: Vec<Content>,
}

pub(crate) struct Pair {
    pub(crate) ours: Ours,
    pub(crate) theirs: Theirs,
    pub(crate) network: Network,
    pub(crate) now: Duration,
    /// The time of their clock at our zero.
    base: Instant,
    /// Types of the chunks sent by us and by them.
    pub(crate) chunks: [BTreeSet<ChunkType>; 2],
    /// Of the latest chunks sent by us and by them.
    pub(crate) tsn: [Option<Tsn>; 2],
    /// Of their INIT ACK: outbound streams.
    pub(crate) their_streams: Option<u16>,
    /// Of their SHUTDOWN: the cumulative TSN ack.
    pub(crate) shutdown: Option<Tsn>,
}

/// Port 0 is not allowed in theirs.
fn their_address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 9))
}

fn their_transport() -> Arc<TransportConfig> {
    let config = TransportConfig::default()
        .with_max_receive_buffer_size(4 << 20)
        .with_max_send_message_size(1 << 20)
        .with_max_receive_message_size(1 << 20)
        .with_rto_min_ms(200)
        .with_local_port(THEIR_PORT)
        .with_remote_port(OUR_PORT);
    Arc::new(config)
}

impl Theirs {
    fn new() -> Self {
        let mut server = ServerConfig::new();
        server.transport = their_transport();
        let config = Arc::new(sctp_proto::EndpointConfig::new());
        Theirs {
            endpoint: sctp_proto::Endpoint::new(config, Some(Arc::new(server))),
            associations: Vec::new(),
            connected: 0,
            lost: Vec::new(),
            finished: Vec::new(),
            reset: Vec::new(),
            read: Vec::new(),
        }
    }

    fn connect(&mut self) {
        let mut client = ClientConfig::new();
        client.transport = their_transport();
        let opened = self.endpoint.connect(client, their_address(1));
        self.associations.push(opened.expect("valid"));
    }

    fn handle(&mut self, now: Instant, packet: Vec<u8>) {
        match self.endpoint.handle(now, their_address(1), None, None, packet.into()) {
            Some((handle, DatagramEvent::NewAssociation(association))) => self.associations.push((handle, association)),
            Some((handle, DatagramEvent::AssociationEvent(event))) => {
                let found = self.associations.iter_mut().find(|(known, _)| *known == handle);
                found.expect("it was announced").1.handle_event(event);
            }
            None => {}
        }
    }

    /// Returns the packets that they send, and takes their events and messages.
    fn exchange(&mut self, now: Instant) -> Vec<Bytes> {
        let mut packets = Vec::new();
        let mut take = |transmit: sctp_proto::Transmit| match transmit.payload {
            sctp_proto::Payload::RawEncode(sent) => packets.extend(sent),
            sctp_proto::Payload::PartialDecode(_) => {}
        };
        std::iter::from_fn(|| self.endpoint.poll_transmit()).for_each(&mut take);
        for (handle, association) in &mut self.associations {
            for stream in association.stream_ids() {
                let Ok(mut reading) = association.stream(stream) else {
                    continue;
                };
                while let Ok(Some(message)) = reading.read_sctp() {
                    let mut content = vec![0; message.len()];
                    message.read(&mut content).expect("it has this length");
                    self.read.push((stream, content));
                }
            }
            while let Some(event) = association.poll() {
                match event {
                    TheirEvent::Connected => self.connected += 1,
                    TheirEvent::AssociationLost { reason } | TheirEvent::HandshakeFailed { reason } => {
                        self.lost.push(reason.to_string());
                    }
                    TheirEvent::Stream(StreamEvent::Finished { id }) => self.finished.push(id),
                    TheirEvent::Stream(StreamEvent::ResetComplete { id }) => self.reset.push(id),
                    _ => {}
                }
            }
            std::iter::from_fn(|| association.poll_transmit(now)).for_each(&mut take);
            while let Some(event) = association.poll_endpoint_event() {
                self.endpoint.handle_event(*handle, event);
            }
        }
        packets
    }

    /// Returns the latest association.
    pub(crate) fn latest(&mut self) -> &mut Association {
        &mut self.associations.last_mut().expect("an association").1
    }

    /// Sends on the latest association.
    pub(crate) fn send(&mut self, stream: u16, content: Vec<u8>, sending: Sending) {
        Self::send_on(self.latest(), stream, content, sending);
    }

    pub(crate) fn send_on(association: &mut Association, stream: u16, content: Vec<u8>, sending: Sending) {
        if association.stream(stream).is_err() {
            association.open_stream(stream, BINARY).expect("not open");
        }
        let mut stream = association.stream(stream).expect("open");
        let (kind, value) = sending.reliability;
        let set = stream.set_reliability_params(sending.unordered, kind, value);
        set.expect("open");
        stream.write_sctp(&content.into(), BINARY).expect("there is room");
    }
}

impl Pair {
    pub(crate) fn new(config: &AssociationConfig, seed: u64) -> Self {
        Pair {
            ours: Ours::new(config, seed),
            theirs: Theirs::new(),
            network: Network::new(seed),
            now: Duration::from_secs(1),
            base: Instant::now(),
            chunks: Default::default(),
            tsn: [None; 2],
            their_streams: None,
            shutdown: None,
        }
    }

    /// Returns a pair with an association, opened by either end.
    pub(crate) fn established(config: &AssociationConfig, we_open: bool) -> (Self, AssocId) {
        let mut pair = Pair::new(config, 1);
        if we_open {
            pair.ours.open(pair.now, config);
        } else {
            pair.theirs.connect();
        }
        pair.run(Duration::from_secs(1));
        let id = pair.ours.id().expect("an association");
        assert_eq!(pair.ours.state(), Some(State::Established));
        assert_eq!((pair.theirs.connected, pair.theirs.lost.len()), (1, 0));
        (pair, id)
    }

    pub(crate) fn they_open(&mut self) {
        self.theirs.connect();
    }

    /// Our process starts again.
    pub(crate) fn restart_ours(&mut self, config: &AssociationConfig) {
        self.ours.restart(config, 2);
    }

    /// Their process starts again.
    pub(crate) fn restart_theirs(&mut self) {
        self.theirs = Theirs::new();
    }

    pub(crate) fn time(&self) -> Time {
        time(self.now)
    }

    fn carry(&mut self, to_us: bool, bytes: Vec<u8>) {
        let packet = PacketView::parse(&bytes, Checksum::Verify).expect("well formed");
        for chunk in packet.chunks() {
            let chunk = chunk.expect("well formed");
            self.chunks[usize::from(to_us)].insert(chunk.chunk_type());
            match chunk {
                Chunk::Data(data) => self.tsn[usize::from(to_us)] = Some(data.tsn),
                Chunk::InitAck(init) if to_us => self.their_streams = Some(init.outbound_streams),
                Chunk::Shutdown { cumulative_tsn_ack } if to_us => self.shutdown = Some(cumulative_tsn_ack),
                _ => {}
            }
        }
        self.network.carry(self.now, to_us, bytes);
    }

    /// Sends and reads what is ready at both ends.
    fn exchange(&mut self) {
        for packet in self.ours.transmit(self.now) {
            self.carry(false, packet);
        }
        for packet in self.theirs.exchange(self.base + self.now) {
            self.carry(true, packet.to_vec());
        }
        self.ours.read_all(self.now);
    }

    pub(crate) fn run(&mut self, span: Duration) {
        let end = self.now + span;
        self.exchange();
        loop {
            let (packet, ours) = (self.network.next_arrival(), self.ours.next_timeout());
            let theirs = self.theirs.associations.iter();
            let theirs = theirs.filter_map(|(_, association)| association.poll_timeout()).min();
            let theirs = theirs.map(|at| at.saturating_duration_since(self.base));
            let due = [packet, ours, theirs].into_iter().flatten().min();
            let Some(due) = due.filter(|due| *due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            for (_, association) in &mut self.theirs.associations {
                association.handle_timeout(self.base + self.now);
            }
            self.ours.endpoint.handle_timeout(self.time());
            while let Some((to_us, bytes)) = self.network.take(self.now) {
                if to_us {
                    // What is discarded is counted by the endpoint, and shows in what does not arrive.
                    let _ = self.ours.handle(self.now, &bytes);
                } else {
                    self.theirs.handle(self.base + self.now, bytes);
                }
            }
            self.exchange();
        }
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.ours.send(self.now, message);
    }
}
