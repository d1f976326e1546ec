//! Every chunk as bytes, written by hand from the diagrams of RFC 9260 §3.3, parsed and written.

use super::*;
use crate::number::{MessageNumber, Mid, Ssn};
use crate::parameter::{Parameter, Parameters};
use crate::{Cause, Checksum, Chunks, CommonHeader, NumberList, OwnedPacket, PacketSink, PacketView};

const COMMON_HEADER: [u8; 12] = [0x13, 0x89, 0x13, 0x8a, 0xfe, 0xed, 0xf0, 0x0d, 0, 0, 0, 0];

/// Parses `chunks` after a common header and passes the iterator to `check`.
fn with_chunks<R>(chunks: &[u8], check: impl FnOnce(Chunks<'_>) -> R) -> R {
    let packet = [&COMMON_HEADER, chunks].concat();
    check(
        PacketView::parse(&packet, Checksum::Ignore)
            .expect("a common header is there")
            .chunks(),
    )
}

fn encoded(chunk: &Chunk<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    chunk.encode(&mut out);
    out
}

/// Parses `bytes` as `chunk`, writes `chunk` as `bytes`, and passes it through an [`OwnedPacket`].
fn both_ways(bytes: &[u8], chunk: Chunk<'_>) {
    with_chunks(bytes, |mut chunks| {
        assert_eq!(chunks.next(), Some(Ok(chunk)));
        assert_eq!(chunks.next(), None);
    });
    assert_eq!(encoded(&chunk), bytes);
    assert_eq!(chunk.wire_len(), bytes.len());
    assert_eq!(chunk.length(), usize::from(u16::from_be_bytes([bytes[2], bytes[3]])));
    assert_eq!(chunk.chunk_type(), ChunkType(bytes[0]));
    let mut owned = OwnedPacket::new();
    owned.begin(CommonHeader::default());
    owned.push(&chunk);
    assert_eq!(owned.finish(), 12 + bytes.len());
    assert!(owned.view().chunks().eq([Ok(chunk)]));
}

/// Checks that `bytes` is a complete chunk with invalid content, and that the COOKIE ACK after it is still parsed.
fn malformed(bytes: &[u8]) {
    let chunk_type = ChunkType(bytes[0]);
    let value_len = usize::from(u16::from_be_bytes([bytes[2], bytes[3]])) - 4;
    with_chunks(&[bytes, &[11, 0, 0, 4]].concat(), |mut chunks| {
        assert_eq!(
            chunks.next(),
            Some(Err(ChunkError::Malformed { chunk_type, value_len })),
            "{bytes:?}"
        );
        assert_eq!(chunks.next(), Some(Ok(Chunk::CookieAck)));
        assert_eq!(chunks.next(), None);
    });
}

fn data(payload: Payload<'_>) -> Data<'_> {
    Data {
        tsn: Tsn(0x0102_0304),
        stream: 0x0506,
        number: MessageNumber::Ssn(Ssn(0x0708)),
        fsn: 0,
        ppid: 0x090a_0b0c,
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload,
    }
}

// RFC 9260 §3.3.1: one byte of user data gives length 17 and three bytes of padding.
// [9260:3.3.1-1, 3.3.1-5, 3.3.1-8, 3.3.1-9, 3-2, 3.2-1, 3.2-2]
// [9260:3.2-3, 3.3.1-10, 6.10-5]
#[test]
fn data_on_the_wire() {
    both_ways(
        &[0, 3, 0, 17, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, b'x', 0, 0, 0],
        Chunk::Data(data(Payload::Bytes(b"x"))),
    );
    let whole = [
        0, 0, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, b'c', b'u', b'r', b'l',
    ];
    let flags = [
        (
            0x08,
            Data {
                begin: false,
                end: false,
                immediate: true,
                ..data(Payload::Bytes(b"curl"))
            },
        ),
        (
            0x04,
            Data {
                begin: false,
                end: false,
                unordered: true,
                ..data(Payload::Bytes(b"curl"))
            },
        ),
        (
            0x02,
            Data {
                end: false,
                ..data(Payload::Bytes(b"curl"))
            },
        ),
        (
            0x01,
            Data {
                begin: false,
                ..data(Payload::Bytes(b"curl"))
            },
        ),
    ];
    for (bits, data) in flags {
        let mut bytes = whole;
        bytes[1] = bits;
        both_ways(&bytes, Chunk::Data(data));
    }
}

// §3.3.1: reserved flags are ignored, including the one for omitted data inside an OwnedPacket.
#[test]
fn data_with_reserved_flags() {
    let bytes = [
        0, 0xf3, 0, 18, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, b'h', b'i', 0xff, 0xff,
    ];
    with_chunks(&bytes, |chunks| {
        assert!(chunks.eq([Ok(Chunk::Data(data(Payload::Bytes(b"hi"))))]))
    });
}

// §6.2: DATA without user data must be parsed, so that the receiver can respond.
#[test]
fn data_without_user_data() {
    let bytes = [0, 3, 0, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    both_ways(&bytes, Chunk::Data(data(Payload::Bytes(b""))));
    both_ways(&bytes, Chunk::Data(data(Payload::Zeros(0))));
    malformed(&[0, 3, 0, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0]);
    malformed(&[0, 3, 0, 4]);
}

#[test]
fn zeros_are_bytes_on_the_wire() {
    both_ways(
        &[0, 3, 0, 19, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0, 0, 0, 0],
        Chunk::Data(data(Payload::Zeros(3))),
    );
    assert_eq!(Payload::Zeros(2), Payload::Bytes(&[0, 0]));
    assert_ne!(Payload::Zeros(2), Payload::Bytes(&[0, 1]));
    assert_ne!(Payload::Zeros(2), Payload::Zeros(3));
    assert_ne!(Payload::Bytes(&[0]), Payload::Zeros(2));
}

#[test]
fn longest_data() {
    let payload = vec![7; MAX_DATA_PAYLOAD_LEN];
    let chunk = Chunk::Data(data(Payload::Bytes(&payload)));
    let bytes = encoded(&chunk);
    assert_eq!((bytes.len(), bytes[2], bytes[3]), (65536, 0xff, 0xff));
    both_ways(&bytes, chunk);
    assert_eq!(
        encoded(&Chunk::Data(data(Payload::Zeros(MAX_DATA_PAYLOAD_LEN as u32)))).len(),
        65536
    );
}

#[test]
#[should_panic(expected = "did not fragment")]
fn data_that_does_not_fit_is_a_bug() {
    encoded(&Chunk::Data(data(Payload::Zeros(MAX_DATA_PAYLOAD_LEN as u32 + 1))));
}

// §3.3.2, §3.3.3.
// [9260:3.3.2-5, 3.3.3-3, 3.3.2.1-1, 3.3.3.1-2]
#[test]
fn init_on_the_wire() {
    let bytes = [
        1, 0, 0, 33, 0xde, 0xad, 0xbe, 0xef, 0, 1, 0, 0, 0, 10, 0xff, 0xff, 0, 0, 0, 9, // fixed fields
        0, 12, 0, 6, 0, 5, 0, 0, 0, 7, 0, 5, 0xcc, 0, 0, 0, // parameters, the last one unpadded in the length
    ];
    let init = Init {
        initiate_tag: 0xdead_beef,
        a_rwnd: 65536,
        outbound_streams: 10,
        inbound_streams: 65535,
        initial_tsn: Tsn(9),
        parameters: Parameters::from_wire_bytes(&bytes[20..33]),
    };
    both_ways(&bytes, Chunk::Init(init));
    let mut ack = bytes;
    ack[0] = 2;
    both_ways(&ack, Chunk::InitAck(init));
    // The flags are ignored.
    for (mut flagged, expected) in [(bytes, Chunk::Init(init)), (ack, Chunk::InitAck(init))] {
        flagged[1] = 0xff;
        with_chunks(&flagged, |mut chunks| assert_eq!(chunks.next(), Some(Ok(expected))));
    }
    let parameters: Vec<_> = init.parameters.into_iter().collect();
    assert_eq!(
        parameters,
        [
            Ok(Parameter::SupportedAddressTypes(NumberList::IPV4)),
            Ok(Parameter::StateCookie(&[0xcc]))
        ]
    );
    malformed(&[1, 0, 0, 19, 0, 0, 0, 1, 0, 1, 0, 0, 0, 10, 0, 10, 0, 0, 0, 0]);
}

#[test]
fn init_leaves_out_parameters_that_do_not_fit() {
    let parameters = [0, 5, 0, 8, 10, 0, 0, 1].repeat(9000);
    let init = Init {
        initiate_tag: 1,
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(0),
        parameters: Parameters::from_wire_bytes(&parameters),
    };
    let bytes = encoded(&Chunk::Init(init));
    assert_eq!(bytes.len(), 20 + 8 * ((65535 - 20) / 8));
    assert_eq!(Chunk::Init(init).wire_len(), bytes.len());
}

// §3.3.4: the example there, with cumulative TSN ack 12 and two blocks.
// [9260:3.3.4-1, 3.3.4-3]
#[test]
fn sack_on_the_wire() {
    let bytes = [
        3, 0, 0, 28, 0, 0, 0, 12, 0, 0, 0x12, 0x34, 0, 2, 0, 1, 0, 2, 0, 3, 0, 5, 0, 5, 0, 0, 0, 19,
    ];
    let (mut gaps, mut duplicates) = (Vec::new(), Vec::new());
    GapBlock { start: 2, end: 3 }.emit(&mut gaps);
    GapBlock { start: 5, end: 5 }.emit(&mut gaps);
    DuplicateTsns::append(&mut duplicates, Tsn(19));
    let sack = Sack {
        cumulative_tsn_ack: Tsn(12),
        a_rwnd: 4660,
        gaps: GapBlocks::from_wire_bytes(&gaps),
        duplicates: DuplicateTsns::from_wire_bytes(&duplicates),
        congestion_indicated: false,
        packets: 0,
    };
    both_ways(&bytes, Chunk::Sack(sack));
    let indicated = Sack {
        congestion_indicated: true,
        packets: 2,
        ..sack
    };
    let with_flag = [&[3, 0x82][..], &bytes[2..]].concat();
    both_ways(&with_flag, Chunk::Sack(indicated));
    let many = Chunk::Sack(Sack { packets: 200, ..sack });
    assert_eq!(encoded(&many)[1], 0xc0, "what two bits can hold");
    assert_eq!(
        sack.gaps.iter().collect::<Vec<_>>(),
        [GapBlock { start: 2, end: 3 }, GapBlock { start: 5, end: 5 }]
    );
    assert_eq!(
        sack.gaps.iter().rev().map(|block| block.start).collect::<Vec<_>>(),
        [5, 2]
    );
    assert_eq!(
        (sack.gaps.len(), sack.gaps.iter().len(), sack.duplicates.iter().len()),
        (2, 2, 1)
    );
    assert!(sack.duplicates.into_iter().eq([Tsn(19)]));
    assert_eq!(
        (sack.gaps.wire_bytes(), sack.duplicates.wire_bytes()),
        (&gaps[..], &duplicates[..])
    );
}

// RFC 3758 §3.2
#[test]
fn forward_tsn_on_the_wire() {
    let bytes = [192, 0, 0, 16, 0, 0, 0, 103, 0, 5, 0xff, 0xff, 0, 7, 0, 0];
    let streams = [0, 5, 0xff, 0xff, 0, 7, 0, 0];
    let forward_tsn = ForwardTsn {
        new_cumulative_tsn: Tsn(103),
        skipped: SkippedStreams::from_wire_bytes(&streams),
    };
    both_ways(&bytes, Chunk::ForwardTsn(forward_tsn));
    let entry = |stream, ssn| SkippedStream {
        stream,
        unordered: false,
        number: MessageNumber::Ssn(Ssn(ssn)),
    };
    let listed: Vec<_> = forward_tsn.skipped.iter().collect();
    assert_eq!(listed, [entry(5, 0xffff), entry(7, 0)]);
    let mut appended = Vec::new();
    listed
        .iter()
        .for_each(|&skipped| SkippedStreams::append(&mut appended, skipped));
    assert_eq!(appended, streams);
    let none = SkippedStreams::from_wire_bytes(&[]);
    let new_cumulative_tsn = Tsn(103);
    both_ways(
        &[192, 0, 0, 8, 0, 0, 0, 103],
        Chunk::ForwardTsn(ForwardTsn {
            new_cumulative_tsn,
            skipped: none,
        }),
    );
    malformed(&[192, 0, 0, 7, 0, 0, 0, 0]);
    malformed(&[192, 0, 0, 10, 0, 0, 0, 103, 0, 5, 0, 0]);
    // Flags are ignored, and what would not fit into a chunk.
    with_chunks(&[192, 0xff, 0, 12, 0, 0, 0, 103, 0, 5, 0, 9], |mut chunks| {
        let is_meant = |chunk: ForwardTsn<'_>| chunk.skipped.iter().eq([entry(5, 9)]);
        assert!(matches!(chunks.next(), Some(Ok(Chunk::ForwardTsn(chunk))) if is_meant(chunk)));
    });
    let count = |len: usize| SkippedStreams::from_wire_bytes(&vec![0; len]).iter().count();
    assert_eq!([5, 1 << 17].map(count), [1, 16_381]);
}

// RFC 8260 §2.3.1
// [8260:2.3.1-2, 2.3.1-3, 2.3.1-4, 2.3.1-5]
#[test]
fn i_forward_tsn_on_the_wire() {
    let bytes = [
        194, 0, 0, 24, 0, 0, 0, 103, 0, 5, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 5, 0, 1, 0, 1, 0, 2,
    ];
    let entries = [(false, u32::MAX), (true, 0x1_0002)].map(|(unordered, mid)| SkippedStream {
        stream: 5,
        unordered,
        number: MessageNumber::Mid(Mid(mid)),
    });
    let mut list = Vec::new();
    entries
        .iter()
        .for_each(|&entry| SkippedStreams::append(&mut list, entry));
    assert_eq!(list, bytes[8..]);
    let skipped = SkippedStreams::interleaved(&list);
    assert!(skipped.is_interleaved() && skipped.iter().eq(entries));
    let new_cumulative_tsn = Tsn(103);
    both_ways(
        &bytes,
        Chunk::ForwardTsn(ForwardTsn {
            new_cumulative_tsn,
            skipped,
        }),
    );
    both_ways(
        &[194, 0, 0, 8, 0, 0, 0, 103],
        Chunk::ForwardTsn(ForwardTsn {
            new_cumulative_tsn,
            skipped: SkippedStreams::interleaved(&[]),
        }),
    );
    malformed(&[194, 0, 0, 7, 0, 0, 0, 0]);
    malformed(&[194, 0, 0, 12, 0, 0, 0, 103, 0, 5, 0, 0]);
    // Flags and reserved bits are ignored.
    with_chunks(
        &[194, 0xff, 0, 16, 0, 0, 0, 103, 0, 5, 0xff, 0xff, 0, 1, 0, 2],
        |mut chunks| {
            let is_meant = |chunk: ForwardTsn<'_>| chunk.skipped.iter().eq([entries[1]]);
            assert!(matches!(chunks.next(), Some(Ok(Chunk::ForwardTsn(chunk))) if is_meant(chunk)));
        },
    );
    let count = |len: usize| SkippedStreams::interleaved(&vec![0; len]).iter().count();
    assert_eq!([15, 1 << 17].map(count), [1, 8190]);
}

// RFC 8260 §2.1: the last field of the header is the payload protocol identifier in the first fragment, and its number in the others.
// [8260:2.1-1, 2.1-2, 2.1-4, 2.1-5]
#[test]
fn i_data_on_the_wire() {
    let first = Data {
        number: MessageNumber::Mid(Mid(0x0708_0102)),
        end: false,
        ..data(Payload::Bytes(b"x"))
    };
    both_ways(
        &[
            64, 2, 0, 21, 1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 1, 2, 9, 10, 11, 12, b'x', 0, 0, 0,
        ],
        Chunk::Data(first),
    );
    let last = Data {
        fsn: 0x1000_0003,
        ppid: 0,
        begin: false,
        end: true,
        unordered: true,
        immediate: true,
        ..first
    };
    let bytes = [
        64, 13, 0, 21, 1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 1, 2, 16, 0, 0, 3, b'x', 0, 0, 0,
    ];
    both_ways(&bytes, Chunk::Data(last));
    assert_eq!(Chunk::Data(last).chunk_type(), ChunkType::I_DATA);
    assert_eq!((last.header_len(), data(Payload::Zeros(1)).header_len()), (20, 16));
    // Reserved bits are ignored.
    let mut reserved = bytes;
    (reserved[1], reserved[10], reserved[11]) = (0xfd, 0xff, 0xff);
    with_chunks(&reserved, |mut chunks| {
        assert_eq!(chunks.next(), Some(Ok(Chunk::Data(last))))
    });
    malformed(&[64, 3, 0, 19, 1, 2, 3, 4, 5, 6, 0, 0, 7, 8, 1, 2, 9, 10, 11, 0]);
    let longest = vec![7; MAX_DATA_PAYLOAD_LEN - 4];
    assert_eq!(
        encoded(&Chunk::Data(Data {
            payload: Payload::Bytes(&longest),
            ..last
        }))
        .len(),
        1 << 16
    );
}

// draft-tuexen-tsvwg-sctp-multipath, with the blocks of the example in RFC 9260 §3.3.4, the second of them kept.
#[test]
fn nr_sack_and_new_gaps_on_the_wire() {
    let value = [
        0, 0, 0, 12, 0, 0, 0x12, 0x34, 0, 1, 0, 2, 0, 1, 0, 0, 0, 2, 0, 3, 0, 5, 0, 5, 0, 7, 0, 9, 0, 0, 0, 19,
    ];
    let lists = [0, 2, 0, 3, 0, 5, 0, 5, 0, 7, 0, 9, 0, 0, 0, 19];
    let nr_sack = NrSack {
        cumulative_tsn_ack: Tsn(12),
        a_rwnd: 4660,
        lists: SackLists::from_wire_bytes(&lists, 1, 2),
        congestion_indicated: true,
        packets: 1,
    };
    both_ways(&[&[16, 0x42, 0, 36][..], &value].concat(), Chunk::NrSack(nr_sack));
    let block = |start, end| GapBlock { start, end };
    assert!(nr_sack.lists.second().iter().eq([block(5, 5), block(7, 9)]));
    let sack = nr_sack.sack();
    assert!(sack.gaps.iter().eq([block(2, 3)]) && sack.duplicates.iter().eq([Tsn(19)]));
    let new_gaps = NewGaps {
        cumulative_tsn_ack: Tsn(12),
        a_rwnd: 4660,
        lists: nr_sack.lists,
        congestion_indicated: true,
        packets: 1,
        serial: 0xabcd,
        everything: true,
    };
    assert_eq!(new_gaps.sack(), sack);
    let mut numbered = value;
    numbered[14..16].copy_from_slice(&[0xab, 0xcd]);
    both_ways(&[&[189, 0x43, 0, 36][..], &numbered].concat(), Chunk::NewGaps(new_gaps));
    // The E bit has no meaning in an NR-SACK, and its reserved field none at all.
    with_chunks(&[&[16, 0x43, 0, 36][..], &numbered].concat(), |mut chunks| {
        assert_eq!(chunks.next(), Some(Ok(Chunk::NrSack(nr_sack))));
    });
    for chunk_type in [16, 189] {
        malformed(&[&[chunk_type, 0, 0, 19][..], &value[..15], &[0]].concat());
        malformed(&[&[chunk_type, 0, 0, 32][..], &value[..28]].concat());
        malformed(
            &[
                &[chunk_type, 0, 0, 20][..],
                &[0; 8],
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0],
            ]
            .concat(),
        );
        malformed(
            &[
                &[chunk_type, 0, 0, 24][..],
                &[0; 8],
                &[0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0, 3],
            ]
            .concat(),
        );
    }
}

#[test]
fn nr_sack_leaves_out_what_does_not_fit() {
    let entries = [0, 2, 0, 2].repeat(30_000);
    let nr_sack = Chunk::NrSack(NrSack {
        cumulative_tsn_ack: Tsn(0),
        a_rwnd: 0,
        lists: SackLists::from_wire_bytes(&entries, 10_000, 10_000),
        congestion_indicated: false,
        packets: 0,
    });
    let bytes = encoded(&nr_sack);
    assert_eq!((bytes.len(), nr_sack.wire_len()), (65_532, 65_532));
    with_chunks(&bytes, |mut chunks| {
        let Some(Ok(Chunk::NrSack(read))) = chunks.next() else {
            panic!("an NR-SACK")
        };
        assert_eq!(
            (
                read.lists.first().len(),
                read.lists.second().len(),
                read.lists.duplicates().len()
            ),
            (10_000, 6378, 0)
        );
    });
}

#[test]
fn sack_counts_must_fit() {
    malformed(&[3, 0, 0, 15, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0]);
    malformed(&[3, 0, 0, 16, 0, 0, 0, 12, 0, 0, 0, 0, 0, 1, 0, 0]);
    malformed(&[3, 0, 0, 20, 0, 0, 0, 12, 0, 0, 0, 0, 0, 1, 0, 1, 0, 2, 0, 3]);
    malformed(&[3, 0, 0, 20, 0, 0, 0, 12, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 2, 0, 3]);
    // More than announced is ignored.
    with_chunks(
        &[3, 0, 0, 20, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 2, 0, 3],
        |mut chunks| {
            let Some(Ok(Chunk::Sack(sack))) = chunks.next() else {
                panic!("a SACK")
            };
            assert!(sack.gaps.is_empty() && sack.duplicates.is_empty() && sack.a_rwnd == 1);
        },
    );
}

#[test]
fn sack_leaves_out_what_does_not_fit() {
    let entries = [0, 2, 0, 2].repeat(20_000);
    let all = GapBlocks::from_wire_bytes(&entries);
    let sack = |gaps, duplicates| Sack {
        cumulative_tsn_ack: Tsn(0),
        a_rwnd: 0,
        gaps,
        duplicates,
        congestion_indicated: false,
        packets: 0,
    };
    let duplicates = DuplicateTsns::from_wire_bytes(&entries);
    for sack in [
        sack(all, duplicates),
        sack(GapBlocks::from_wire_bytes(&entries[..40]), duplicates),
    ] {
        let bytes = encoded(&Chunk::Sack(sack));
        assert_eq!(bytes.len(), 65532);
        assert_eq!(Chunk::Sack(sack).wire_len(), 65532);
        with_chunks(&bytes, |mut chunks| {
            let Some(Ok(Chunk::Sack(read))) = chunks.next() else {
                panic!("a SACK")
            };
            assert_eq!(read.gaps.len() + read.duplicates.len(), 16_379);
            assert_eq!(read.gaps.len(), sack.gaps.len().min(16_379));
        });
    }
}

// §3.3.5, §3.3.6.
// [9260:3.2.1-4]
#[test]
fn heartbeat_on_the_wire() {
    both_ways(
        &[4, 0, 0, 11, 0, 1, 0, 7, 1, 2, 3, 0],
        Chunk::Heartbeat(HeartbeatInfo(&[1, 2, 3])),
    );
    both_ways(
        &[5, 0, 0, 12, 0, 1, 0, 8, 1, 2, 3, 4],
        Chunk::HeartbeatAck(HeartbeatInfo(&[1, 2, 3, 4])),
    );
    // The padding of the parameter may be counted in the chunk's length.
    with_chunks(&[4, 0, 0, 12, 0, 1, 0, 7, 1, 2, 3, 0], |chunks| {
        assert!(chunks.eq([Ok(Chunk::Heartbeat(HeartbeatInfo(&[1, 2, 3])))]));
    });
    malformed(&[4, 0, 0, 4]);
    malformed(&[4, 0, 0, 8, 0, 2, 0, 4]);
    malformed(&[4, 0, 0, 8, 0, 1, 0, 5]);
    malformed(&[5, 0, 0, 8, 0, 1, 0, 3]);
}

// §3.3.7, §3.3.10, §3.3.13 and the T bit of §8.5.1.
// [9260:3.3.7-5, 3.3.13-2]
#[test]
fn abort_error_and_shutdown_complete_on_the_wire() {
    let mut causes = Vec::new();
    Cause::UserInitiatedAbort(b"bye").emit(&mut causes);
    let causes = Causes::from_wire_bytes(&causes);
    both_ways(
        &[6, 0, 0, 11, 0, 12, 0, 7, b'b', b'y', b'e', 0],
        Chunk::Abort {
            tag_reflected: false,
            causes,
        },
    );
    both_ways(
        &[6, 1, 0, 4],
        Chunk::Abort {
            tag_reflected: true,
            causes: Causes::default(),
        },
    );
    both_ways(
        &[9, 0, 0, 11, 0, 12, 0, 7, b'b', b'y', b'e', 0],
        Chunk::Error { causes },
    );
    both_ways(&[14, 0, 0, 4], Chunk::ShutdownComplete { tag_reflected: false });
    both_ways(&[14, 1, 0, 4], Chunk::ShutdownComplete { tag_reflected: true });
    with_chunks(&[6, 0xfe, 0, 4], |chunks| {
        assert!(chunks.eq([Ok(Chunk::Abort {
            tag_reflected: false,
            causes: Causes::default()
        })]));
    });
    malformed(&[14, 0, 0, 5, 0, 0, 0, 0]);
}

// §3.3.8, §3.3.9, §3.3.11, §3.3.12; RFC 4960 Appendix A.
#[test]
fn small_chunks_on_the_wire() {
    both_ways(
        &[7, 0, 0, 8, 0, 0, 1, 0],
        Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(256),
        },
    );
    both_ways(&[8, 0, 0, 4], Chunk::ShutdownAck);
    both_ways(
        &[10, 0, 0, 9, 1, 2, 3, 4, 5, 0, 0, 0],
        Chunk::CookieEcho {
            cookie: &[1, 2, 3, 4, 5],
        },
    );
    both_ways(&[10, 0, 0, 4], Chunk::CookieEcho { cookie: &[] });
    both_ways(&[11, 0, 0, 4], Chunk::CookieAck);
    let echo = |marked| Chunk::Ecne {
        lowest_tsn: Tsn(5),
        marked,
    };
    both_ways(&[12, 0, 0, 8, 0, 0, 0, 5], echo(None));
    both_ways(&[12, 0, 0, 12, 0, 0, 0, 5, 0, 0, 0, 1], echo(Some(1)));
    both_ways(&[13, 0, 0, 8, 0, 0, 0, 5], Chunk::Cwr { lowest_tsn: Tsn(5) });
    malformed(&[7, 0, 0, 4]);
    malformed(&[7, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0]);
    malformed(&[8, 0, 0, 8, 0, 0, 0, 0]);
    malformed(&[11, 0, 0, 5, 0, 0, 0, 0]);
    malformed(&[12, 0, 0, 7, 0, 0, 0, 0]);
    malformed(&[13, 0, 0, 4]);
}

// RFC 6525 §3.1
#[test]
fn a_reconfiguration_on_the_wire() {
    let parameters = [0, 15, 0, 8, 0, 0, 0, 9];
    let bytes = [130, 0, 0, 12, 0, 15, 0, 8, 0, 0, 0, 9];
    let parameters = Parameters::from_wire_bytes(&parameters);
    both_ways(&bytes, Chunk::ReConfig { parameters });
    let requests: Vec<_> = parameters.iter().collect();
    assert_eq!(requests, [Ok(Parameter::TsnReset { request: 9 })]);
}

// RFC 4820 §3
// [4820:3-1, 3-2, 3-3, 3-4, 3-5]
#[test]
fn a_padding_chunk_on_the_wire() {
    both_ways(&[0x84, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0], Chunk::Pad { len: 6 });
    both_ways(&[0x84, 0, 0, 4], Chunk::Pad { len: 0 });
    let other = [0x84, 0xff, 0, 8, 1, 2, 3, 4];
    with_chunks(&other, |mut chunks| {
        assert_eq!(
            chunks.next(),
            Some(Ok(Chunk::Pad { len: 4 })),
            "flags and bytes are ignored"
        );
    });
    assert_eq!(Chunk::Pad { len: 70_000 }.length(), 65_535);
}

// draft-ietf-tsvwg-sctp-dtls-chunk, "DTLS Chunk"
// [dtls:3.1-3, 3.1-4, 4.2-1, 4.2-2, 4.2-3, 4.2-4, 4.2-5, 4.2-6, 4.2-9]
#[test]
fn a_dtls_chunk_on_the_wire() {
    let record = [7; 17];
    let mut bytes = vec![0x41, 1, 0, 25, 0, 0b0010_1010, 0x12, 0x34];
    bytes.extend([7; 17]);
    bytes.extend([0; 3]);
    let chunk = Chunk::Dtls(Dtls {
        restart: true,
        epoch: 2,
        number: 0x1234,
        record: &record,
    });
    both_ways(&bytes, chunk);
    // "MUST be ignored by the receiver": reserved flags and both paddings.
    for (place, value) in [(1, 0xff), (4, 0xff), (25, 0xff), (27, 0xff)] {
        let mut other = bytes.clone();
        other[place] = value;
        with_chunks(&other, |mut chunks| assert_eq!(chunks.next(), Some(Ok(chunk))));
    }
    // A connection identifier, 8 bits of sequence number, a length, and three other kinds of records.
    for form in [
        0b0011_1010,
        0b0010_0010,
        0b0010_1110,
        0b0000_1010,
        0b0110_1010,
        0b1010_1010,
    ] {
        let mut other = bytes.clone();
        other[5] = form;
        malformed(&other);
    }
    // Too short for the encryption of the sequence number.
    for len in 4..24_u8 {
        let mut short = bytes[..usize::from(len)].to_vec();
        short[3] = len;
        short.resize(short.len().next_multiple_of(4), 0);
        malformed(&short);
    }
}

// §3.2: the two highest bits of the type select the action for an unknown chunk.
#[test]
fn unknown_chunks() {
    for (chunk_type, action) in [
        (0x3f, UnknownAction::Stop),
        (0x42, UnknownAction::StopAndReport),
        (0x83, UnknownAction::Skip),
        (0xc8, UnknownAction::SkipAndReport),
    ] {
        let bytes = [chunk_type, 0xff, 0, 6, 8, 9, 0, 0];
        let raw = RawChunk::from_bytes(&bytes[..6]).expect("length agrees and the type is unknown");
        both_ways(&bytes, Chunk::Unknown(raw));
        assert_eq!((raw.action(), raw.flags(), raw.value()), (action, 0xff, &[8, 9][..]));
        assert_eq!(UnknownAction::of_chunk_type(chunk_type), action);
        let mut report = Vec::new();
        Cause::UnrecognizedChunkType(raw.bytes()).emit(&mut report);
        assert_eq!(report, [0, 6, 0, 10, chunk_type, 0xff, 0, 6, 8, 9]);
    }
    assert!(UnknownAction::StopAndReport.stops() && UnknownAction::StopAndReport.reports());
    assert!(!UnknownAction::Skip.stops() && !UnknownAction::Skip.reports());
    assert!(UnknownAction::Stop.stops() && !UnknownAction::Stop.reports());
    assert!(!UnknownAction::SkipAndReport.stops() && UnknownAction::SkipAndReport.reports());
    for bad in [
        &[0x3f, 0, 0][..],
        &[0x3f, 0, 0, 3],
        &[0x3f, 0, 0, 5],
        &[0, 0, 0, 4],
        &[14, 0, 0, 4],
    ] {
        assert_eq!(RawChunk::from_bytes(bad), None, "{bad:?}");
    }
}

// [9260:3-1]
#[test]
fn names_and_bundling() {
    assert_eq!(ChunkType::INIT_ACK.to_string(), "INIT ACK");
    assert_eq!(ChunkType(200).to_string(), "type 200");
    for number in 0..=255 {
        let chunk_type = ChunkType(number);
        assert_eq!(chunk_type.is_known(), chunk_type.name().is_some());
        assert_eq!(chunk_type.must_be_alone(), [1, 2, 14].contains(&number)); // RFC 9260 §3
    }
}

// Common structures stay small.
#[test]
fn sizes() {
    assert!(size_of::<Chunk<'_>>() <= 56);
    assert!(size_of::<Result<Chunk<'_>, ChunkError>>() <= 56);
    assert_eq!(size_of::<OwnedPacket>(), 40);
}

#[test]
fn control_values_are_cut_where_the_length_field_ends() {
    let long = vec![1; 70_000];
    for chunk in [
        Chunk::CookieEcho { cookie: &long },
        Chunk::Heartbeat(HeartbeatInfo(&long)),
    ] {
        let bytes = encoded(&chunk);
        assert_eq!(
            (bytes.len(), bytes[2], bytes[3], chunk.wire_len()),
            (65536, 0xff, 0xff, 65536)
        );
        with_chunks(&bytes, |mut chunks| assert!(matches!(chunks.next(), Some(Ok(_)))));
    }
    let causes = [0, 4, 0, 4].repeat(17_000);
    let chunk = Chunk::Error {
        causes: Causes::from_wire_bytes(&causes),
    };
    assert_eq!((encoded(&chunk).len(), chunk.wire_len()), (65532, 65532));
}

#[test]
fn timestamp_on_the_wire() {
    both_ways(
        &[190, 0, 0, 12, 1, 2, 3, 4, 0, 0, 0, 0],
        Chunk::Timestamp(Timestamp {
            sent: 0x0102_0304,
            received: None,
        }),
    );
    both_ways(
        &[190, 1, 0, 12, 1, 2, 3, 4, 0, 0, 0, 5],
        Chunk::Timestamp(Timestamp {
            sent: 0x0102_0304,
            received: Some(5),
        }),
    );
    malformed(&[190, 0, 0, 8, 1, 2, 3, 4]);
    // RFC 9260 §3.2: receivers without support skip it and do not report it.
    assert_eq!(ChunkType::TIMESTAMP.action(), UnknownAction::Skip);
}

// RFC 4895 §4.1
#[test]
fn auth_on_the_wire() {
    both_ways(
        &[15, 0, 0, 11, 0, 7, 0, 3, 1, 2, 3, 0],
        Chunk::Auth(Auth {
            key_id: 7,
            hmac_id: hmac_id::SHA256,
            hmac: &[1, 2, 3],
        }),
    );
    malformed(&[15, 0, 0, 7, 0, 7, 0, 0]);
    // Receivers without support stop processing.
    assert_eq!(ChunkType::AUTH.action(), UnknownAction::Stop);
}

// RFC 5061 §4.1.1, §4.1.2
#[test]
fn asconf_and_its_answer_on_the_wire() {
    let bytes = |chunk_type| {
        let head = [chunk_type, 0, 0, 32, 0, 0, 1, 0, 0, 5, 0, 8, 10, 0, 0, 1];
        [head, [0xc0, 1, 0, 16, 0, 0, 0, 9, 0, 5, 0, 8, 10, 0, 1, 1]].concat()
    };
    let whole = bytes(0);
    let asconf = Asconf {
        serial: 256,
        parameters: Parameters::from_wire_bytes(&whole[8..]),
    };
    both_ways(&bytes(0xc1), Chunk::Asconf(asconf));
    both_ways(&bytes(0x80), Chunk::AsconfAck(asconf));
    both_ways(
        &[0x80, 0, 0, 8, 0, 0, 0, 5],
        Chunk::AsconfAck(Asconf {
            serial: 5,
            parameters: Parameters::from_wire_bytes(&[]),
        }),
    );
    malformed(&[0xc1, 0, 0, 7, 0, 0, 0, 0]);
    assert_eq!(ChunkType::ASCONF.action(), UnknownAction::SkipAndReport);
    assert_eq!(ChunkType::ASCONF_ACK.action(), UnknownAction::Skip);
}
