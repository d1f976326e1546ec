//! Packets that no endpoint sent: changed ones, and invented ones with tags and numbers that are nearly right.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use whimbrel_wire::{
    Asconf, Auth, ByteSink, Cause, Causes, Checksum, ChecksumField, Chunk, CommonHeader, Data, DuplicateTsns, ForwardTsn, GapBlock,
    GapBlocks, HeartbeatInfo, Init, MessageNumber, Mid, NewGaps, NrSack, NumberList, PacketSink, PacketView, Parameter, Parameters, Payload, RawChunk,
    Sack, SackLists, SkippedStream, SkippedStreams, Ssn, Tsn, hmac_id,
};

use crate::input::Input;
use crate::port;

/// What an observer of the wire knows, by sending host.
#[derive(Default)]
pub struct Knowledge {
    tags: [u32; 2],
    /// The last TSN sent.
    tsns: [u32; 2],
    /// The last cumulative TSN ack sent.
    acks: [u32; 2],
    /// The number of the last request of RE-CONFIG sent.
    requests: [u32; 2],
    /// The last serial number of an ASCONF sent.
    serials: [u32; 2],
    /// What keys are made of (RFC 4895 §6.1): RANDOM, CHUNKS and HMAC-ALGO as they were sent.
    vectors: [Vec<u8>; 2],
    cookie: Vec<u8>,
    heartbeat: Vec<u8>,
    /// The data sent last was in I-DATA chunks.
    interleaves: bool,
}

impl Knowledge {
    pub fn learn(&mut self, from: usize, bytes: &[u8]) {
        let Ok(packet) = PacketView::parse(bytes, Checksum::Ignore) else { return };
        if packet.header().verification_tag != 0 {
            self.tags[1 - from] = packet.header().verification_tag;
        }
        for chunk in packet.chunks().flatten() {
            match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => {
                    self.tags[from] = init.initiate_tag;
                    self.tsns[from] = init.initial_tsn.0.wrapping_sub(1);
                    self.serials[from] = self.tsns[from];
                    self.requests[from] = self.tsns[from];
                    self.vectors[from].clear();
                    for kind in [0x8002, 0x8003, 0x8004] {
                        let mut all = init.parameters.raw().map_while(Result::ok);
                        if let Some(raw) = all.find(|raw| raw.parameter_type() == kind) {
                            self.vectors[from].extend_from_slice(raw.bytes());
                        }
                    }
                    if let Some(cookie) = init.parameters.state_cookie() {
                        self.cookie = cookie.to_vec();
                    }
                }
                Chunk::Data(data) => {
                    self.tsns[from] = data.tsn.0;
                    self.interleaves = data.number.is_mid();
                }
                Chunk::Asconf(asconf) => self.serials[from] = asconf.serial,
                Chunk::ReConfig { parameters } => {
                    for parameter in parameters.iter().flatten() {
                        if let Parameter::OutgoingReset { request, .. }
                        | Parameter::IncomingReset { request, .. }
                        | Parameter::AddOutgoingStreams { request, .. }
                        | Parameter::AddIncomingStreams { request, .. } = parameter
                        {
                            self.requests[from] = request;
                        }
                    }
                }
                Chunk::Sack(sack) => self.acks[from] = sack.cumulative_tsn_ack.0,
                Chunk::Heartbeat(info) => self.heartbeat = info.0.to_vec(),
                _ => {}
            }
        }
    }
}

impl Knowledge {
    /// The key of whoever has seen the handshake.
    fn key(&self) -> Vec<u8> {
        let [a, b] = &self.vectors;
        // The smaller number first, the shorter one of the same.
        let number = |vector: &[u8]| {
            let mut bytes = vec![0; a.len().max(b.len()) - vector.len()];
            bytes.extend_from_slice(vector);
            bytes
        };
        let in_order = (number(a), a.len()) <= (number(b), b.len());
        if in_order { [&a[..], b].concat() } else { [&b[..], a].concat() }
    }
}

/// Makes the checksum right, mostly: otherwise hardly anything would get past it.
fn seal(bytes: &mut [u8], input: &mut Input<'_>) {
    let Some(correct) = whimbrel_wire::packet_checksum(bytes) else { return };
    let checksum = match input.below(16) {
        15 => return,
        // RFC 9653
        14 => 0,
        _ => correct,
    };
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
}

pub fn mutate(bytes: &mut Vec<u8>, input: &mut Input<'_>) {
    for _ in 0..1 + input.below(4) {
        let at = usize::from(input.half()) % bytes.len().max(1);
        match input.below(6) {
            0 => bytes[at] = input.byte(),
            1 => bytes[at] ^= 1 << input.below(8),
            2 => bytes.truncate(at.max(12)),
            3 => bytes.extend_from_slice(input.bytes(8)),
            4 => {
                // Chunks of it once more.
                let copy = bytes[12.min(bytes.len())..].to_vec();
                bytes.extend_from_slice(&copy);
            }
            _ => {
                let four = input.bytes(4);
                let end = (at + four.len()).min(bytes.len());
                bytes[at..end].copy_from_slice(&four[..end - at]);
            }
        }
        bytes.truncate(4000);
    }
    seal(bytes, input);
}

pub fn invent(knowledge: &Knowledge, to: usize, input: &mut Input<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
    let tag = match input.below(12) {
        0 => 0,
        1 => knowledge.tags[1 - to],
        2 => input.word(),
        _ => knowledge.tags[to],
    };
    sink.begin(CommonHeader { source_port: port(1 - to), destination_port: port(to), verification_tag: tag });
    let insider = input.below(3) == 0;
    if insider {
        sink.push(&Chunk::Auth(Auth { key_id: 0, hmac_id: hmac_id::SHA256, hmac: &[0; 32] }));
    }
    for _ in 0..1 + input.below(4) {
        if insider && input.below(4) != 0 {
            push_asconf(knowledge, to, input, &mut sink);
        } else {
            push_chunk(knowledge, to, input, &mut sink);
        }
    }
    if insider {
        let mut mac = Hmac::<Sha256>::new_from_slice(&knowledge.key()).expect("any length");
        if sink.authenticated(&mut |part| mac.update(part)) {
            sink.set_hmac(&mac.finalize().into_bytes());
        }
    }
    sink.finish();
    seal(&mut bytes, input);
    bytes
}

/// A number near one that would be right, or any.
fn near(right: u32, input: &mut Input<'_>) -> Tsn {
    match input.below(8) {
        0 => Tsn(input.word()),
        1 => Tsn(right.wrapping_sub(input.byte().into())),
        2 => Tsn(right.wrapping_add(u32::from(input.byte()) * 16)),
        _ => Tsn(right.wrapping_add(input.below(4) as u32)),
    }
}

const ZEROS: [u8; 2000] = [0; 2000];

fn push_asconf(knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let from = 1 - to;
    let mut list = Vec::new();
    let mut causes = Vec::new();
    Cause::OutOfResource.emit(&mut causes);
    if input.below(8) != 0 {
        Parameter::Ipv4([10, 0, input.byte() % 6, 1 + from as u8].into()).emit(&mut list);
    }
    for correlation in 1..1 + input.below(5) as u32 {
        let address = match input.below(8) {
            0 => [0; 4],
            1 => [127, 0, 0, 1],
            _ => [10, 0, input.byte() % 40, 1 + from as u8],
        };
        let address = std::net::Ipv4Addr::from(address).into();
        match input.below(6) {
            0 | 1 => Parameter::AddIp { correlation, address },
            2 => Parameter::DeleteIp { correlation, address },
            3 => Parameter::SetPrimary { correlation, address },
            4 => Parameter::Success { correlation },
            _ => Parameter::ErrorCauseIndication { correlation, causes: Causes::from_wire_bytes(&causes) },
        }
        .emit(&mut list);
    }
    let parameters = Parameters::from_wire_bytes(&list);
    let is_answer = input.below(4) == 0;
    let right = if is_answer { knowledge.serials[to] } else { knowledge.serials[from].wrapping_add(1) };
    let asconf = Asconf { serial: near(right, input).0, parameters };
    sink.push(&if is_answer { Chunk::AsconfAck(asconf) } else { Chunk::Asconf(asconf) });
}

fn push_chunk(knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    match input.below(25) {
        0..=3 => push_data(knowledge, to, input, sink),
        4..=6 => push_sack(SackKind::Sack, knowledge, to, input, sink),
        7 => sink.push(&Chunk::Heartbeat(HeartbeatInfo(&ZEROS[..usize::from(input.half()) % 1500]))),
        8 => {
            let own = if input.below(2) == 0 { &knowledge.heartbeat[..] } else { input.bytes(17) };
            sink.push(&Chunk::HeartbeatAck(HeartbeatInfo(own)));
        }
        9 => sink.push(&Chunk::Shutdown { cumulative_tsn_ack: near(knowledge.tsns[to], input) }),
        10 => sink.push(&Chunk::ShutdownAck),
        11 => sink.push(&Chunk::ShutdownComplete { tag_reflected: input.below(2) == 0 }),
        12 => push_abort_or_error(input, sink),
        13 => sink.push(&Chunk::CookieAck),
        14 => {
            let cookie = if input.below(4) == 0 { input.bytes(40) } else { &knowledge.cookie };
            sink.push(&Chunk::CookieEcho { cookie });
        }
        15..=16 => push_init(knowledge, to, input, sink),
        18 => push_sack(SackKind::NrSack, knowledge, to, input, sink),
        19 => push_sack(SackKind::NewGaps, knowledge, to, input, sink),
        20..=21 => push_forward(knowledge, to, input, sink),
        23..=24 => push_reconfig(knowledge, to, input, sink),
        _ => {
            let value = input.bytes(12);
            let mut raw = vec![input.byte() | 0x20, input.byte(), 0, 4 + value.len() as u8];
            raw.extend_from_slice(value);
            if let Some(chunk) = RawChunk::from_bytes(&raw) {
                sink.push(&Chunk::Unknown(chunk));
            }
        }
    }
}

/// The number of a message: mostly of the kind that is in use.
fn number(knowledge: &Knowledge, input: &mut Input<'_>) -> MessageNumber {
    let near_zero = input.below(6) as u32;
    let value = if near_zero < 5 { near_zero } else { input.word() };
    if knowledge.interleaves != (input.below(16) == 0) {
        MessageNumber::Mid(Mid(value))
    } else {
        MessageNumber::Ssn(Ssn(value as u16))
    }
}

fn push_data(knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let flags = input.byte();
    let len = [1, 1, 4, 1000, 1448, 0][input.below(6)];
    let number = number(knowledge, input);
    let begin = flags & 2 == 0;
    sink.push(&Chunk::Data(Data {
        tsn: near(knowledge.tsns[1 - to].wrapping_add(1), input),
        stream: [0, 0, 1, 2, 999][input.below(5)],
        number,
        fsn: if begin || !number.is_mid() { 0 } else { near(1, input).0 },
        ppid: 0,
        unordered: flags & 4 != 0,
        begin,
        end: flags & 1 == 0,
        immediate: flags & 8 != 0,
        payload: Payload::Bytes(&ZEROS[..len]),
    }));
}

fn push_reconfig(knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let mut list = Vec::new();
    for place in 0..1 + input.below(2) as u32 {
        let request = near(knowledge.requests[1 - to].wrapping_add(1 + place), input).0;
        let response = near(knowledge.requests[to], input).0;
        let streams = [0, input.byte() % 3, 0, 1, 3, 231];
        let streams = NumberList::from_wire_bytes(&streams[..2 * input.below(4)]);
        let count = [0, 1, 3, 65_535][input.below(4)];
        match input.below(8) {
            0..=2 => Parameter::OutgoingReset { request, response, last_tsn: near(knowledge.tsns[1 - to], input), streams },
            3 => Parameter::IncomingReset { request, streams },
            4 => Parameter::TsnReset { request },
            5 => Parameter::AddOutgoingStreams { request, count },
            6 => Parameter::AddIncomingStreams { request, count },
            _ => Parameter::ReconfigResponse { response, result: input.below(8) as u32, next_tsns: None },
        }
        .emit(&mut list);
    }
    sink.push(&Chunk::ReConfig { parameters: Parameters::from_wire_bytes(&list) });
}

fn push_forward(knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let is_mid = number(knowledge, input).is_mid();
    let mut list = Vec::new();
    for _ in 0..input.below(4) {
        let value = input.below(6) as u32;
        let entry = SkippedStream {
            stream: [0, 0, 1, 2, 999][input.below(5)],
            unordered: is_mid && input.below(2) == 0,
            number: if is_mid { MessageNumber::Mid(Mid(value)) } else { MessageNumber::Ssn(Ssn(value as u16)) },
        };
        SkippedStreams::append(&mut list, entry);
    }
    sink.push(&Chunk::ForwardTsn(ForwardTsn {
        new_cumulative_tsn: near(knowledge.tsns[1 - to], input),
        skipped: if is_mid { SkippedStreams::interleaved(&list) } else { SkippedStreams::from_wire_bytes(&list) },
    }));
}

enum SackKind {
    Sack,
    NrSack,
    NewGaps,
}

fn push_sack(kind: SackKind, knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let (mut blocks, mut duplicates) = (Vec::new(), Vec::new());
    for _ in 0..input.below(6) {
        let start = 1 + u16::from(input.byte()) % 40;
        GapBlock { start, end: start.wrapping_add(input.below(5) as u16) }.emit(&mut blocks);
    }
    for _ in 0..input.below(3) {
        DuplicateTsns::append(&mut duplicates, near(knowledge.tsns[to], input));
    }
    let base = if input.below(2) == 0 { knowledge.acks[1 - to] } else { knowledge.tsns[to].wrapping_sub(4) };
    let cumulative_tsn_ack = near(base, input);
    let a_rwnd = [0, 1, 700, 1500, 65_536, u32::MAX][input.below(6)];
    let lists = SackLists::from_wire_bytes(&blocks, input.below(4), input.below(4));
    let (congestion_indicated, packets) = (false, 0);
    sink.push(&match kind {
        SackKind::Sack => Chunk::Sack(Sack {
            congestion_indicated,
            packets,
            cumulative_tsn_ack,
            a_rwnd,
            gaps: GapBlocks::from_wire_bytes(&blocks),
            duplicates: DuplicateTsns::from_wire_bytes(&duplicates),
        }),
        SackKind::NrSack => Chunk::NrSack(NrSack { cumulative_tsn_ack, a_rwnd, lists, congestion_indicated, packets }),
        SackKind::NewGaps => {
            let (serial, everything) = (u16::from(input.byte()), input.below(4) == 0);
            Chunk::NewGaps(NewGaps { cumulative_tsn_ack, a_rwnd, lists, congestion_indicated, packets, everything, serial })
        }
    });
}

fn push_abort_or_error(input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let cause = [
        Cause::StaleCookie { staleness_us: input.word() },
        Cause::OutOfResource,
        Cause::UserInitiatedAbort(input.bytes(20)),
    ][input.below(3)];
    let mut list = Vec::new();
    cause.emit(&mut list);
    let causes = Causes::from_wire_bytes(&list);
    let is_abort = input.below(8) == 0;
    sink.push(&if is_abort { Chunk::Abort { tag_reflected: input.below(2) == 0, causes } } else { Chunk::Error { causes } });
}

fn push_init(knowledge: &Knowledge, to: usize, input: &mut Input<'_>, sink: &mut dyn PacketSink) {
    let from = 1 - to;
    let mut list = Vec::new();
    for _ in 0..input.below(5) {
        parameter(knowledge, input).emit(&mut list);
    }
    let init = Init {
        initiate_tag: if input.below(4) == 0 { knowledge.tags[from] } else { input.word() },
        a_rwnd: [1500, 65_536, 0, u32::MAX][input.below(4)],
        outbound_streams: [1, 10, u16::MAX, 0][input.below(4)],
        inbound_streams: [1, 10, u16::MAX, 0][input.below(4)],
        initial_tsn: near(knowledge.tsns[from], input),
        parameters: Parameters::from_wire_bytes(&list),
    };
    sink.push(&if input.below(2) == 0 { Chunk::Init(init) } else { Chunk::InitAck(init) });
}

fn parameter<'a, 'i: 'a>(knowledge: &'a Knowledge, input: &mut Input<'i>) -> Parameter<'a> {
    match input.below(9) {
        0 => Parameter::Ipv4([10, 0, input.byte() % 5, 1 + input.byte() % 2].into()),
        1 => Parameter::Ipv6([0; 16].into()),
        2 => Parameter::StateCookie(&knowledge.cookie),
        3 => Parameter::CookiePreservative { increment_ms: input.word() },
        4 => Parameter::Unrecognized(input.bytes(4)),
        5 => Parameter::SupportedExtensions(input.bytes(3)),
        6 => Parameter::NewGaps,
        7 => Parameter::ZeroChecksumAcceptable { method: input.below(3) as u32 },
        _ => Parameter::HostName(b"x"),
    }
}
