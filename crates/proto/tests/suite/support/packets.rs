//! Packets seen on the wire, and packets built by hand.

use whimbrel_control::Time;
use whimbrel_proto::{Discard, Ecn, PacketMeta, TransportAddr};
use whimbrel_wire::{
    ByteSink, Cause, ChecksumField, Chunk, ChunkType, CommonHeader, Data, Init, MessageNumber, PacketSink, Parameter,
    Parameters, Payload, Ssn, Tsn,
};

use super::{Host, InFlight, Net, addrs, chunk_types, view};

/// A packet that an endpoint sent.
#[derive(Clone, PartialEq)]
pub struct Sent {
    pub at: Time,
    pub from: Host,
    pub local: TransportAddr,
    pub remote: TransportAddr,
    pub ecn: Ecn,
    pub bytes: Vec<u8>,
}

/// Cumulative TSN ack, a_rwnd, gap ack blocks, duplicate TSNs.
pub type SackFields = (u32, u32, Vec<(u16, u16)>, Vec<u32>);

impl From<&InFlight<'_>> for Sent {
    fn from(packet: &InFlight<'_>) -> Sent {
        Sent {
            at: packet.now,
            from: packet.from,
            local: packet.local,
            remote: packet.remote,
            ecn: packet.ecn,
            bytes: packet.bytes.to_vec(),
        }
    }
}

impl Sent {
    pub fn tag(&self) -> u32 {
        view(&self.bytes).header().verification_tag
    }

    /// Returns the source port and the destination port.
    pub fn ports(&self) -> (u16, u16) {
        let header = view(&self.bytes).header();
        (header.source_port, header.destination_port)
    }

    pub fn types(&self) -> Vec<ChunkType> {
        chunk_types(&self.bytes)
    }

    pub fn has(&self, chunk_type: ChunkType) -> bool {
        self.types().contains(&chunk_type)
    }

    pub fn chunks(&self) -> Vec<Chunk<'_>> {
        view(&self.bytes)
            .chunks()
            .map(|chunk| chunk.expect("well-formed"))
            .collect()
    }

    /// Returns its DATA chunks.
    pub fn data(&self) -> Vec<Data<'_>> {
        let data = |chunk| match chunk {
            Chunk::Data(data) => Some(data),
            _ => None,
        };
        self.chunks().into_iter().filter_map(data).collect()
    }

    pub fn tsns(&self) -> Vec<u32> {
        self.data().iter().map(|data| data.tsn.0).collect()
    }

    /// Returns its INIT or INIT ACK chunk.
    pub fn init(&self) -> Init<'_> {
        self.chunks()
            .into_iter()
            .find_map(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => Some(init),
                _ => None,
            })
            .expect("an INIT or INIT ACK")
    }

    /// Returns its SACK: cumulative TSN ack, a_rwnd, gap ack blocks, duplicate TSNs.
    pub fn sack(&self) -> Option<SackFields> {
        self.chunks().into_iter().find_map(|chunk| match chunk {
            Chunk::Sack(sack) => Some((
                sack.cumulative_tsn_ack.0,
                sack.a_rwnd,
                sack.gaps.iter().map(|gap| (gap.start, gap.end)).collect(),
                sack.duplicates.iter().map(|tsn| tsn.0).collect(),
            )),
            _ => None,
        })
    }

    /// Returns the codes of the causes in its ABORT or ERROR chunk.
    pub fn causes(&self) -> Vec<u16> {
        self.chunks()
            .into_iter()
            .find_map(|chunk| match chunk {
                Chunk::Abort { causes, .. } | Chunk::Error { causes } => {
                    Some(causes.iter().map(|cause| cause.expect("well-formed").code()).collect())
                }
                _ => None,
            })
            .expect("an ABORT or ERROR")
    }

    /// Returns whether its ABORT or SHUTDOWN COMPLETE has the T bit.
    pub fn is_reflected(&self) -> bool {
        self.chunks().iter().any(|chunk| {
            matches!(
                chunk,
                Chunk::Abort {
                    tag_reflected: true,
                    ..
                } | Chunk::ShutdownComplete { tag_reflected: true }
            )
        })
    }

    /// Returns the addresses of the packet from the point of view of its receiver.
    pub fn meta(&self) -> PacketMeta {
        meta(self.remote, self.local)
    }
}

pub fn meta(local: TransportAddr, remote: TransportAddr) -> PacketMeta {
    PacketMeta {
        local,
        remote,
        ecn: Default::default(),
        congestion_indicated: false,
    }
}

pub fn port(host: Host) -> u16 {
    if host == Host::A { 4001 } else { 4002 }
}

/// Builds a packet with a correct checksum.
pub fn packet(source_port: u16, destination_port: u16, verification_tag: u32, chunks: &[Chunk<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
    sink.begin(CommonHeader {
        source_port,
        destination_port,
        verification_tag,
    });
    chunks.iter().for_each(|chunk| sink.push(chunk));
    sink.finish();
    bytes
}

/// Returns the packet with further chunks after its own.
pub fn extended(bytes: &[u8], more: &[Chunk<'_>]) -> Vec<u8> {
    let original = view(bytes);
    let header = original.header();
    let mut chunks: Vec<_> = original.chunks().map(|chunk| chunk.expect("well-formed")).collect();
    chunks.extend_from_slice(more);
    packet(
        header.source_port,
        header.destination_port,
        header.verification_tag,
        &chunks,
    )
}

/// Returns the packet with its checksum recomputed after a change.
pub fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = whimbrel_wire::packet_checksum(&bytes).expect("a common header");
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Returns an INIT chunk with usual values.
pub fn init(tag: u32, parameters: &[u8]) -> Init<'_> {
    Init {
        initiate_tag: tag,
        a_rwnd: 65_536,
        outbound_streams: 10,
        inbound_streams: 20,
        initial_tsn: Tsn(1000),
        parameters: Parameters::from_wire_bytes(parameters),
    }
}

/// Encodes a parameter list.
pub fn parameters(list: &[Parameter<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.iter().for_each(|parameter| parameter.emit(&mut bytes));
    bytes
}

/// Encodes a list of error causes.
pub fn causes(list: &[Cause<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.iter().for_each(|cause| cause.emit(&mut bytes));
    bytes
}

/// Returns a complete ordered message on stream 0.
pub fn data(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data {
        tsn: Tsn(tsn),
        stream: 0,
        number: MessageNumber::Ssn(Ssn(ssn)),
        fsn: 0,
        ppid: 0,
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload: Payload::Bytes(payload),
    }
}

impl Net {
    /// Returns the packets of a host that carried a chunk of this type.
    pub fn sent(&self, host: Host, chunk_type: ChunkType) -> Vec<&Sent> {
        self.wire
            .iter()
            .filter(|sent| sent.from == host && sent.has(chunk_type))
            .collect()
    }

    /// Returns the times of those packets, in milliseconds since `start`.
    pub fn times(&self, host: Host, chunk_type: ChunkType, start: Time) -> Vec<u64> {
        self.sent(host, chunk_type)
            .iter()
            .filter(|sent| sent.at >= start)
            .map(|sent| sent.at.since(start).as_millis())
            .collect()
    }

    /// Returns the last packet of a host with a chunk of this type.
    pub fn last(&self, host: Host, chunk_type: ChunkType) -> Sent {
        let all = self.sent(host, chunk_type);
        (*all.last().unwrap_or_else(|| panic!("{host:?} sent no {chunk_type:?}"))).clone()
    }

    /// Returns the verification tag of a host, which its peer sends.
    pub fn tag_of(&self, host: Host) -> u32 {
        let special = [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::ABORT,
            ChunkType::ERROR,
            ChunkType::SHUTDOWN_COMPLETE,
        ];
        self.wire
            .iter()
            .rev()
            .find(|sent| sent.from != host && !special.iter().any(|chunk_type| sent.has(*chunk_type)))
            .map(Sent::tag)
            .expect("the peer has sent something")
    }

    /// Passes a datagram to a host as if it arrived on the first path.
    pub fn deliver(&mut self, to: Host, bytes: &[u8]) -> Result<(), Discard> {
        let meta = meta(addrs(to, 1)[0], addrs(to.other(), 1)[0]);
        self.deliver_from(to, meta, bytes)
    }

    pub fn deliver_from(&mut self, to: Host, meta: PacketMeta, bytes: &[u8]) -> Result<(), Discard> {
        let now = self.now;
        let result = self.host(to).handle_datagram(now, meta, bytes);
        self.drain(to);
        result
    }

    /// Passes chunks with the correct ports and this tag to a host, as if from the other host.
    pub fn forge(&mut self, to: Host, tag: u32, chunks: &[Chunk<'_>]) -> Result<(), Discard> {
        let bytes = packet(port(to.other()), port(to), tag, chunks);
        self.deliver(to, &bytes)
    }

    /// Passes chunks with the correct tag to a host, as a misbehaving peer could send them.
    pub fn as_peer(&mut self, to: Host, chunks: &[Chunk<'_>]) -> Result<(), Discard> {
        let tag = self.tag_of(to);
        self.forge(to, tag, chunks)
    }
}
