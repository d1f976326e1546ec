//! Random parameters, causes, chunks and packets, as values that own their bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use whimbrel_wire::{
    Asconf, Auth, ByteSink, Cause, Causes, ChecksumField, Chunk, CommonHeader, Data, Dtls, DuplicateTsns, ForwardTsn,
    GapBlocks, HeartbeatInfo, Init, KeyManagement, MessageNumber, Mid, NewGaps, NrSack, NumberList, PacketSink,
    Parameter, Parameters, Payload, RawCause, RawChunk, RawParameter, Sack, SackLists, SkippedStream, SkippedStreams,
    Ssn, Timestamp, Tsn,
};

/// User data that a test owns.
#[derive(Clone, Debug)]
pub(crate) enum OwnedPayload {
    Bytes(Vec<u8>),
    Zeros(u32),
}

/// The kinds of chunk with more than plain numbers.
#[derive(Clone, Debug)]
pub(crate) enum OwnedChunk {
    Data {
        numbers: (u32, u16, u16, u32),
        flags: u8,
        payload: OwnedPayload,
    },
    Init {
        ack: bool,
        numbers: (u32, u32, u16, u16, u32),
        parameters: Vec<u8>,
    },
    Sack {
        indicated: bool,
        packets: u8,
        numbers: (u32, u32),
        gaps: Vec<[u8; 4]>,
        duplicates: Vec<[u8; 4]>,
    },
    /// NR-SACK, or NEW GAPS with its serial number and E bit.
    TwoLists {
        new_gaps: Option<(u16, bool)>,
        packets: u8,
        numbers: (u32, u32),
        counts: [usize; 2],
        lists: Vec<[u8; 4]>,
    },
    Heartbeat {
        ack: bool,
        info: Vec<u8>,
    },
    Abort {
        tag_reflected: bool,
        causes: Vec<u8>,
    },
    Error {
        causes: Vec<u8>,
    },
    CookieEcho {
        cookie: Vec<u8>,
    },
    /// The R bit, the epoch and the sequence number.
    Dtls {
        fields: (bool, u8, u16),
        record: Vec<u8>,
    },
    Auth {
        ids: (u16, u16),
        hmac: Vec<u8>,
    },
    Asconf {
        ack: bool,
        serial: u32,
        parameters: Vec<u8>,
    },
    ReConfig {
        parameters: Vec<u8>,
    },
    Pad(usize),
    IData {
        numbers: (u32, u16, u32, u32),
        flags: u8,
        payload: OwnedPayload,
    },
    ForwardTsn {
        tsn: u32,
        skipped: Vec<[u8; 4]>,
    },
    IForwardTsn {
        tsn: u32,
        list: Vec<u8>,
    },
    Plain(Chunk<'static>),
    Unknown(Vec<u8>),
}

impl OwnedPayload {
    fn as_payload(&self) -> Payload<'_> {
        match self {
            Self::Bytes(bytes) => Payload::Bytes(bytes),
            Self::Zeros(len) => Payload::Zeros(*len),
        }
    }
}

impl OwnedChunk {
    pub(crate) fn as_chunk(&self) -> Chunk<'_> {
        match self {
            Self::Data {
                numbers,
                flags,
                payload,
            } => data_chunk(*numbers, *flags, payload),
            Self::IData {
                numbers,
                flags,
                payload,
            } => i_data_chunk(*numbers, *flags, payload),
            Self::Init {
                ack,
                numbers,
                parameters,
            } => init_chunk(*ack, *numbers, parameters),
            Self::Sack {
                indicated,
                packets,
                numbers: (tsn, a_rwnd),
                gaps,
                duplicates,
            } => Chunk::Sack(Sack {
                cumulative_tsn_ack: Tsn(*tsn),
                a_rwnd: *a_rwnd,
                gaps: GapBlocks::from_wire_bytes(gaps.as_flattened()),
                duplicates: DuplicateTsns::from_wire_bytes(duplicates.as_flattened()),
                congestion_indicated: *indicated,
                packets: *packets,
            }),
            Self::TwoLists {
                new_gaps,
                packets,
                numbers,
                counts: [first, second],
                lists,
            } => {
                let lists = SackLists::from_wire_bytes(lists.as_flattened(), *first, *second);
                two_list_chunk(*new_gaps, *packets, *numbers, lists)
            }
            Self::ForwardTsn { tsn, skipped } => Chunk::ForwardTsn(ForwardTsn {
                new_cumulative_tsn: Tsn(*tsn),
                skipped: SkippedStreams::from_wire_bytes(skipped.as_flattened()),
            }),
            Self::IForwardTsn { tsn, list } => Chunk::ForwardTsn(ForwardTsn {
                new_cumulative_tsn: Tsn(*tsn),
                skipped: SkippedStreams::interleaved(list),
            }),
            Self::Heartbeat { ack: false, info } => Chunk::Heartbeat(HeartbeatInfo(info)),
            Self::Heartbeat { ack: true, info } => Chunk::HeartbeatAck(HeartbeatInfo(info)),
            Self::Abort { tag_reflected, causes } => Chunk::Abort {
                tag_reflected: *tag_reflected,
                causes: Causes::from_wire_bytes(causes),
            },
            Self::Error { causes } => Chunk::Error {
                causes: Causes::from_wire_bytes(causes),
            },
            Self::CookieEcho { cookie } => Chunk::CookieEcho { cookie },
            Self::Auth {
                ids: (key_id, hmac_id),
                hmac,
            } => Chunk::Auth(Auth {
                key_id: *key_id,
                hmac_id: *hmac_id,
                hmac,
            }),
            Self::Asconf {
                ack,
                serial,
                parameters,
            } => asconf_chunk(*ack, *serial, parameters),
            Self::Dtls { fields, record } => dtls_chunk(*fields, record),
            Self::Pad(len) => Chunk::Pad { len: *len },
            Self::ReConfig { parameters } => Chunk::ReConfig {
                parameters: Parameters::from_wire_bytes(parameters),
            },
            Self::Plain(chunk) => *chunk,
            Self::Unknown(bytes) => Chunk::Unknown(RawChunk::from_bytes(bytes).expect("built as one unknown chunk")),
        }
    }
}

fn data_chunk((tsn, stream, ssn, ppid): (u32, u16, u16, u32), flags: u8, payload: &OwnedPayload) -> Chunk<'_> {
    Chunk::Data(Data {
        tsn: Tsn(tsn),
        stream,
        number: MessageNumber::Ssn(Ssn(ssn)),
        fsn: 0,
        ppid,
        unordered: flags & 1 != 0,
        begin: flags & 2 != 0,
        end: flags & 4 != 0,
        immediate: flags & 8 != 0,
        payload: payload.as_payload(),
    })
}

/// The last number is that of the fragment, or the payload protocol identifier of the first one.
fn i_data_chunk((tsn, stream, mid, last): (u32, u16, u32, u32), flags: u8, payload: &OwnedPayload) -> Chunk<'_> {
    let begin = flags & 2 != 0;
    let (fsn, ppid) = if begin { (0, last) } else { (last, 0) };
    Chunk::Data(Data {
        tsn: Tsn(tsn),
        stream,
        number: MessageNumber::Mid(Mid(mid)),
        fsn,
        ppid,
        unordered: flags & 1 != 0,
        begin,
        end: flags & 4 != 0,
        immediate: flags & 8 != 0,
        payload: payload.as_payload(),
    })
}

fn init_chunk(
    ack: bool,
    (tag, a_rwnd, outbound, inbound, tsn): (u32, u32, u16, u16, u32),
    parameters: &[u8],
) -> Chunk<'_> {
    let init = Init {
        initiate_tag: tag,
        a_rwnd,
        outbound_streams: outbound,
        inbound_streams: inbound,
        initial_tsn: Tsn(tsn),
        parameters: Parameters::from_wire_bytes(parameters),
    };
    if ack { Chunk::InitAck(init) } else { Chunk::Init(init) }
}

fn two_list_chunk<'a>(
    new_gaps: Option<(u16, bool)>,
    packets: u8,
    (tsn, a_rwnd): (u32, u32),
    lists: SackLists<'a>,
) -> Chunk<'a> {
    let cumulative_tsn_ack = Tsn(tsn);
    let congestion_indicated = packets & 1 != 0;
    match new_gaps {
        None => Chunk::NrSack(NrSack {
            cumulative_tsn_ack,
            a_rwnd,
            lists,
            congestion_indicated,
            packets,
        }),
        Some((serial, everything)) => Chunk::NewGaps(NewGaps {
            cumulative_tsn_ack,
            a_rwnd,
            lists,
            congestion_indicated,
            packets,
            serial,
            everything,
        }),
    }
}

fn dtls_chunk((restart, epoch, number): (bool, u8, u16), record: &[u8]) -> Chunk<'_> {
    Chunk::Dtls(Dtls {
        restart,
        epoch,
        number,
        record,
    })
}

fn asconf_chunk(ack: bool, serial: u32, parameters: &[u8]) -> Chunk<'_> {
    let asconf = Asconf {
        serial,
        parameters: Parameters::from_wire_bytes(parameters),
    };
    if ack {
        Chunk::AsconfAck(asconf)
    } else {
        Chunk::Asconf(asconf)
    }
}

/// Returns one TLV with a type from `types` and a random value.
fn raw_tlv(types: impl Strategy<Value = u16>) -> impl Strategy<Value = Vec<u8>> {
    (types, vec(any::<u8>(), 0..40)).prop_map(|(tlv_type, value)| {
        let [t0, t1] = tlv_type.to_be_bytes();
        let mut tlv = vec![t0, t1, 0, 4 + value.len() as u8];
        tlv.extend(value);
        tlv
    })
}

/// Passes every parameter of the crate in turn, with content from `bytes`, to `with`.
pub(crate) fn every_parameter(bytes: &[u8], number: u128, raw: &[u8], mut with: impl FnMut(Parameter<'_>)) {
    with(Parameter::Ipv4((number as u32).into()));
    with(Parameter::Ipv6(number.into()));
    with(Parameter::StateCookie(bytes));
    with(Parameter::Unrecognized(raw));
    with(Parameter::CookiePreservative {
        increment_ms: number as u32,
    });
    with(Parameter::HostName(bytes));
    with(Parameter::SupportedAddressTypes(NumberList::from_wire_bytes(bytes)));
    with(Parameter::EcnCapable);
    with(Parameter::ZeroChecksumAcceptable { method: number as u32 });
    with(Parameter::Timestamps);
    with(Parameter::EciCapable);
    with(Parameter::NewGaps);
    with(Parameter::RepeatedTimestamps);
    with(Parameter::ForwardTsnSupported);
    with(Parameter::HeartbeatInfo(bytes));
    with(Parameter::Random(bytes));
    with(Parameter::ChunkList(bytes));
    with(Parameter::HmacAlgorithms(NumberList::from_wire_bytes(bytes)));
    with(Parameter::SupportedExtensions(bytes));
    if !bytes.is_empty() {
        with(Parameter::DtlsKeyManagement(KeyManagement {
            tie_breaker: number as u32,
            restart: number & 1 != 0,
            server: number & 2 != 0,
            client: number & 4 != 0,
            methods: bytes,
        }));
    }
    let (correlation, address) = (
        number as u32,
        if number & 1 == 0 {
            std::net::Ipv4Addr::from(number as u32).into()
        } else {
            std::net::Ipv6Addr::from(number).into()
        },
    );
    with(Parameter::AddIp { correlation, address });
    with(Parameter::DeleteIp { correlation, address });
    with(Parameter::SetPrimary { correlation, address });
    with(Parameter::ErrorCauseIndication {
        correlation,
        causes: Causes::from_wire_bytes(raw),
    });
    with(Parameter::OutgoingReset {
        request: correlation,
        response: (number >> 32) as u32,
        last_tsn: Tsn((number >> 64) as u32),
        streams: NumberList::from_wire_bytes(bytes),
    });
    with(Parameter::IncomingReset {
        request: correlation,
        streams: NumberList::from_wire_bytes(bytes),
    });
    with(Parameter::TsnReset { request: correlation });
    with(Parameter::ReconfigResponse {
        response: correlation,
        result: (number >> 32) as u32 % 7,
        next_tsns: (number & 2 == 0).then_some((Tsn((number >> 64) as u32), Tsn((number >> 96) as u32))),
    });
    let count = (number >> 32) as u16;
    with(Parameter::AddOutgoingStreams {
        request: correlation,
        count,
    });
    with(Parameter::AddIncomingStreams {
        request: correlation,
        count,
    });
    with(Parameter::Success { correlation });
    with(Parameter::AdaptationLayer {
        indication: correlation,
    });
    with(Parameter::Unknown(
        RawParameter::from_bytes(raw).expect("built as one TLV"),
    ));
}

/// Passes every cause of the crate in turn, with content from `bytes`, to `with`.
pub(crate) fn every_cause(bytes: &[u8], number: u128, raw: &[u8], mut with: impl FnMut(Cause<'_>)) {
    with(Cause::InvalidStreamIdentifier { stream: number as u16 });
    with(Cause::MissingMandatoryParameter(NumberList::from_wire_bytes(bytes)));
    with(Cause::StaleCookie {
        staleness_us: number as u32,
    });
    with(Cause::OutOfResource);
    with(Cause::UnresolvableAddress(raw));
    with(Cause::UnrecognizedChunkType(bytes));
    with(Cause::InvalidMandatoryParameter);
    with(Cause::UnrecognizedParameters(Parameters::from_wire_bytes(raw)));
    with(Cause::NoUserData {
        tsn: Tsn(number as u32),
    });
    with(Cause::CookieReceivedWhileShuttingDown);
    with(Cause::MissingDtlsSupport);
    with(Cause::NoCommonKeyManagement);
    with(Cause::TieBreakerCollision);
    with(Cause::IncompatibleRoles);
    with(Cause::RestartWithNewAddresses(Parameters::from_wire_bytes(raw)));
    with(Cause::UserInitiatedAbort(bytes));
    with(Cause::ProtocolViolation(bytes));
    with(Cause::DeleteLastAddress(raw));
    with(Cause::ResourceShortage(raw));
    with(Cause::DeleteSourceAddress(raw));
    with(Cause::IllegalAsconfAck);
    with(Cause::NoAuthorization(raw));
    with(Cause::UnsupportedHmac { hmac_id: number as u16 });
    with(Cause::Unknown(RawCause::from_bytes(raw).expect("built as one TLV")));
}

/// Returns one TLV whose type is neither a known parameter nor a known cause.
pub(crate) fn unknown_tlv() -> impl Strategy<Value = Vec<u8>> {
    raw_tlv(prop_oneof![
        19_u16..100,
        104_u16..0xa0,
        0xa5_u16..0x0105,
        0x0106_u16..0x8000,
        0x8009_u16..0xbe00,
        0xbe05_u16..0xc000,
        0xc007_u16..
    ])
}

fn parameter_list() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 0..40), any::<u128>(), unknown_tlv(), any::<u64>()).prop_map(|(bytes, number, raw, mask)| {
        let (mut list, mut bit) = (Vec::new(), 0);
        every_parameter(&bytes, number, &raw, |parameter| {
            if mask >> bit & 1 == 1 {
                parameter.emit(&mut list);
            }
            bit += 1;
        });
        list
    })
}

fn cause_list() -> impl Strategy<Value = Vec<u8>> {
    (vec(any::<u8>(), 0..40), any::<u128>(), unknown_tlv(), any::<u32>()).prop_map(|(bytes, number, raw, mask)| {
        let (mut list, mut bit) = (Vec::new(), 0);
        every_cause(&bytes, number, &raw, |cause| {
            if mask >> bit & 1 == 1 {
                cause.emit(&mut list);
            }
            bit += 1;
        });
        list
    })
}

fn payload() -> impl Strategy<Value = OwnedPayload> {
    prop_oneof![
        vec(any::<u8>(), 0..100).prop_map(OwnedPayload::Bytes),
        (0_u32..3000).prop_map(OwnedPayload::Zeros),
        vec(Just(0_u8), 0..10).prop_map(OwnedPayload::Bytes),
    ]
}

fn plain() -> impl Strategy<Value = Chunk<'static>> {
    (any::<u32>(), any::<bool>(), 0..7).prop_map(|(number, tag_reflected, kind)| match kind {
        0 => Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(number),
        },
        1 => Chunk::ShutdownAck,
        2 => Chunk::CookieAck,
        3 => Chunk::Ecne {
            lowest_tsn: Tsn(number),
            marked: tag_reflected.then_some(number ^ 9),
        },
        4 => Chunk::Cwr {
            lowest_tsn: Tsn(number),
        },
        5 => Chunk::Timestamp(Timestamp {
            sent: number,
            received: tag_reflected.then_some(number ^ 7),
        }),
        _ => Chunk::ShutdownComplete { tag_reflected },
    })
}

/// Returns any well-formed chunk.
pub(crate) fn chunk() -> impl Strategy<Value = OwnedChunk> {
    prop_oneof![
        4 => (any::<(u32, u16, u16, u32)>(), any::<u8>(), payload())
            .prop_map(|(numbers, flags, payload)| OwnedChunk::Data { numbers, flags, payload }),
        1 => (any::<bool>(), any::<(u32, u32, u16, u16, u32)>(), parameter_list())
            .prop_map(|(ack, numbers, parameters)| OwnedChunk::Init { ack, numbers, parameters }),
        3 => (any::<bool>(), 0_u8..4, any::<(u32, u32)>(), vec(any::<[u8; 4]>(), 0..30), vec(any::<[u8; 4]>(), 0..30))
            .prop_map(|(indicated, packets, numbers, gaps, duplicates)| OwnedChunk::Sack {
                indicated, packets, numbers, gaps, duplicates
            }),
        2 => (any::<Option<(u16, bool)>>(), 0_u8..4, any::<(u32, u32)>(), any::<[u8; 2]>(), vec(any::<[u8; 4]>(), 0..60))
            .prop_map(|(new_gaps, packets, numbers, counts, lists)| OwnedChunk::TwoLists {
                new_gaps, packets, numbers, counts: counts.map(|count| usize::from(count % 40)), lists
            }),
        1 => (any::<bool>(), vec(any::<u8>(), 0..60)).prop_map(|(ack, info)| OwnedChunk::Heartbeat { ack, info }),
        1 => (any::<bool>(), cause_list())
            .prop_map(|(tag_reflected, causes)| OwnedChunk::Abort { tag_reflected, causes }),
        1 => cause_list().prop_map(|causes| OwnedChunk::Error { causes }),
        1 => vec(any::<u8>(), 0..200).prop_map(|cookie| OwnedChunk::CookieEcho { cookie }),
        1 => (any::<(u16, u16)>(), vec(any::<u8>(), 0..70)).prop_map(|(ids, hmac)| OwnedChunk::Auth { ids, hmac }),
        1 => (any::<bool>(), any::<u32>(), parameter_list())
            .prop_map(|(ack, serial, parameters)| OwnedChunk::Asconf { ack, serial, parameters }),
        1 => parameter_list().prop_map(|parameters| OwnedChunk::ReConfig { parameters }),
        1 => (0_usize..100).prop_map(OwnedChunk::Pad),
        1 => ((any::<bool>(), 0_u8..4, any::<u16>()), vec(any::<u8>(), 16..80))
            .prop_map(|(fields, record)| OwnedChunk::Dtls { fields, record }),
        1 => (any::<u32>(), vec(any::<[u8; 4]>(), 0..30))
            .prop_map(|(tsn, skipped)| OwnedChunk::ForwardTsn { tsn, skipped }),
        2 => (any::<(u32, u16, u32, u32)>(), any::<u8>(), payload())
            .prop_map(|(numbers, flags, payload)| OwnedChunk::IData { numbers, flags, payload }),
        1 => (any::<u32>(), vec(any::<(u16, bool, u32)>(), 0..30)).prop_map(|(tsn, skipped)| {
            let mut list = Vec::new();
            for (stream, unordered, mid) in skipped {
                let number = MessageNumber::Mid(Mid(mid));
                SkippedStreams::append(&mut list, SkippedStream { stream, unordered, number });
            }
            OwnedChunk::IForwardTsn { tsn, list }
        }),
        3 => plain().prop_map(OwnedChunk::Plain),
        1 => (prop_oneof![17_u8..64, 66_u8..128, 129_u8..130, 131_u8..132, 133_u8..189, 191_u8..192, 195_u8..], any::<u8>(), vec(any::<u8>(), 0..60)).prop_map(|(chunk_type, flags, value)| {
            let mut bytes = vec![chunk_type, flags, 0, 4 + value.len() as u8];
            bytes.extend(value);
            OwnedChunk::Unknown(bytes)
        }),
    ]
}

/// Returns any common header.
pub(crate) fn header() -> impl Strategy<Value = CommonHeader> {
    any::<(u16, u16, u32)>().prop_map(|(source_port, destination_port, verification_tag)| CommonHeader {
        source_port,
        destination_port,
        verification_tag,
    })
}

/// Returns the packet as bytes with its checksum.
pub(crate) fn packet_bytes(header: CommonHeader, chunks: &[OwnedChunk]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
    sink.begin(header);
    chunks.iter().for_each(|chunk| sink.push(&chunk.as_chunk()));
    sink.finish();
    bytes
}
