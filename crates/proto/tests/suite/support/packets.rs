//! Packets seen on the wire, and packets made by hand.

use whimbrel_control::Time;
use whimbrel_proto::{Discard, Ecn, PacketMeta, TransportAddr};
use whimbrel_wire::{
    ByteSink, Cause, ChecksumField, Chunk, ChunkType, CommonHeader, Data, Init, PacketSink, Parameter, Parameters,
    Payload, Ssn, Tsn,
};

use super::{Host, Net, addrs, chunk_types, view};

/// A packet that an endpoint sent.
#[derive(Clone)]
pub struct Sent {
    pub at: Time,
    pub from: Host,
    pub local: TransportAddr,
    pub remote: TransportAddr,
    pub ecn: Ecn,
    pub bytes: Vec<u8>,
}

/// Cumulative TSN, window, gaps, duplicates.
pub type SackFields = (u32, u32, Vec<(u16, u16)>, Vec<u32>);

impl Sent {
    pub fn tag(&self) -> u32 {
        view(&self.bytes).header().verification_tag
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

    /// Its DATA chunks.
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

    /// Its INIT or INIT ACK chunk.
    pub fn init(&self) -> Init<'_> {
        self.chunks()
            .into_iter()
            .find_map(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => Some(init),
                _ => None,
            })
            .expect("an INIT or INIT ACK")
    }

    /// Its SACK: cumulative TSN, window, gaps, duplicates.
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

    /// Codes of the causes of its ABORT or ERROR chunk.
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

    /// Whether its ABORT or SHUTDOWN COMPLETE has the T bit.
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

    /// How its receiver would see where it came from.
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

/// A packet with a right checksum.
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

/// The packet with other chunks behind its own.
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

/// A packet with its checksum made right again after a change.
pub fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = whimbrel_wire::packet_checksum(&bytes).expect("a common header");
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// An INIT chunk as a host without peculiarities sends it.
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

/// A parameter list.
pub fn parameters(list: &[Parameter<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.iter().for_each(|parameter| parameter.emit(&mut bytes));
    bytes
}

/// A list of error causes.
pub fn causes(list: &[Cause<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.iter().for_each(|cause| cause.emit(&mut bytes));
    bytes
}

/// A whole ordered message on stream 0.
pub fn data(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data {
        tsn: Tsn(tsn),
        stream: 0,
        ssn: Ssn(ssn),
        ppid: 0,
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload: Payload::Bytes(payload),
    }
}

impl Net {
    /// Packets of a host that carried such a chunk.
    pub fn sent(&self, host: Host, chunk_type: ChunkType) -> Vec<&Sent> {
        self.wire
            .iter()
            .filter(|sent| sent.from == host && sent.has(chunk_type))
            .collect()
    }

    /// When they were sent, in milliseconds since `start`.
    pub fn times(&self, host: Host, chunk_type: ChunkType, start: Time) -> Vec<u64> {
        self.sent(host, chunk_type)
            .iter()
            .filter(|sent| sent.at >= start)
            .map(|sent| sent.at.since(start).as_millis())
            .collect()
    }

    /// The last packet of a host with such a chunk.
    pub fn last(&self, host: Host, chunk_type: ChunkType) -> Sent {
        let all = self.sent(host, chunk_type);
        (*all.last().unwrap_or_else(|| panic!("{host:?} sent no {chunk_type:?}"))).clone()
    }

    /// Verification tag of a host, as its peer uses it.
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

    /// Hands a datagram to a host as if it came on the first path.
    pub fn hand(&mut self, to: Host, bytes: &[u8]) -> Result<(), Discard> {
        let meta = meta(addrs(to, 1)[0], addrs(to.other(), 1)[0]);
        self.hand_from(to, meta, bytes)
    }

    pub fn hand_from(&mut self, to: Host, meta: PacketMeta, bytes: &[u8]) -> Result<(), Discard> {
        let now = self.now;
        let result = self.host(to).handle_datagram(now, meta, bytes);
        self.drain(to);
        result
    }

    /// Hands over chunks with the right ports and this tag, as if from the other host.
    pub fn forge(&mut self, to: Host, tag: u32, chunks: &[Chunk<'_>]) -> Result<(), Discard> {
        let bytes = packet(port(to.other()), port(to), tag, chunks);
        self.hand(to, &bytes)
    }

    /// Hands over chunks with the right tag: what a misbehaving peer could send.
    pub fn as_peer(&mut self, to: Host, chunks: &[Chunk<'_>]) -> Result<(), Discard> {
        let tag = self.tag_of(to);
        self.forge(to, tag, chunks)
    }
}
