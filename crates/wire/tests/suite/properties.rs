//! Properties of the codec on random packets and on random bytes.

use crate::common::{OwnedChunk, chunk, every_cause, every_parameter, header, packet_bytes, unknown_tlv};
use proptest::collection::vec;
use proptest::prelude::*;
use whimbrel_wire::{
    ByteSink, Causes, Checksum, ChecksumField, Chunk, OwnedPacket, PacketSink, PacketView, Parameters, packet_checksum,
    stored_checksum,
};

/// Parses everything and returns the number of items. Panics where parsing would.
fn read_everything(bytes: &[u8]) -> usize {
    let Ok(view) = PacketView::parse(bytes, Checksum::Ignore) else {
        return 0;
    };
    let _ = PacketView::parse(bytes, Checksum::Verify);
    let mut seen = 0;
    for chunk in view.chunks() {
        seen += 1;
        seen += match chunk {
            Ok(Chunk::Data(data)) => data.payload.len().min(1),
            Ok(Chunk::Sack(sack)) => sack.gaps.iter().count() + sack.duplicates.iter().count(),
            Ok(Chunk::Init(init) | Chunk::InitAck(init)) => {
                assert_eq!(init.parameters.iter().count(), init.parameters.raw().count());
                let _ = format!("{init:?}");
                init.parameters.iter().count()
            }
            Ok(Chunk::Abort { causes, .. } | Chunk::Error { causes }) => {
                let _ = format!("{causes:?}");
                causes.iter().count()
            }
            Ok(_) | Err(_) => 0,
        };
    }
    seen
}

/// Checks that a parsed packet is written and parsed again unchanged, as bytes and as structures.
fn assert_round_trip(bytes: &[u8]) {
    let Ok(view) = PacketView::parse(bytes, Checksum::Ignore) else {
        return;
    };
    let chunks: Vec<_> = view.chunks().map_while(Result::ok).collect();
    let (mut copy, mut owned) = (Vec::new(), OwnedPacket::new());
    let mut sink = ByteSink::new(&mut copy, ChecksumField::Compute);
    sink.begin(view.header());
    owned.begin(view.header());
    for chunk in &chunks {
        sink.push(chunk);
        owned.push(chunk);
    }
    assert_eq!(sink.finish(), owned.finish());
    let again = PacketView::parse(&copy, Checksum::Verify).expect("just written");
    assert_eq!(again.header(), view.header());
    assert_eq!(again.chunks().collect::<Result<Vec<_>, _>>().as_ref(), Ok(&chunks));
    assert_eq!(
        owned.view().chunks().collect::<Result<Vec<_>, _>>().as_ref(),
        Ok(&chunks)
    );
}

proptest! {
    // RFC 9260 §3: parsing returns what was written; lengths agree before, during and after writing.
    #[test]
    fn packets_round_trip(header in header(), chunks in vec(chunk(), 0..6)) {
        let bytes = packet_bytes(header, &chunks);
        prop_assert_eq!(bytes.len(), 12 + chunks.iter().map(|chunk| chunk.as_chunk().wire_len()).sum::<usize>());
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(packet_checksum(&bytes), stored_checksum(&bytes));
        let view = PacketView::parse(&bytes, Checksum::Verify).expect("just written");
        prop_assert_eq!(view.header(), header);
        prop_assert_eq!(view.wire_len(), bytes.len());
        prop_assert!(view.chunks().eq(chunks.iter().map(|chunk| Ok(chunk.as_chunk()))));
    }

    // The simulator's packets and bytes are equivalent, in either direction.
    #[test]
    fn structures_and_bytes_agree(header in header(), packets in vec(vec(chunk(), 0..5), 1..4)) {
        let (mut owned, mut from_bytes) = (OwnedPacket::new(), OwnedPacket::new());
        for chunks in packets {
            let bytes = packet_bytes(header, &chunks);
            owned.begin(header);
            chunks.iter().for_each(|chunk| owned.push(&chunk.as_chunk()));
            prop_assert_eq!(owned.finish(), bytes.len());
            prop_assert_eq!(owned.view().wire_len(), bytes.len());
            prop_assert_eq!(owned.view().header(), header);
            let view = PacketView::parse(&bytes, Checksum::Verify).expect("just written");
            prop_assert!(owned.view().chunks().eq(view.chunks()));
            prop_assert_eq!(view.copy_to(&mut from_bytes), Ok(bytes.len()));
            prop_assert!(from_bytes.view().chunks().eq(owned.view().chunks()));
            let mut copy = Vec::new();
            prop_assert_eq!(
                owned.view().copy_to(&mut ByteSink::new(&mut copy, ChecksumField::Compute)),
                Ok(bytes.len())
            );
            prop_assert_eq!(copy, bytes);
        }
    }

    // RFC 9260 §3.2.1: lists of parameters.
    #[test]
    fn parameters_round_trip(bytes in vec(any::<u8>(), 0..50), number: u128, raw in unknown_tlv()) {
        let (mut list, mut written) = (Vec::new(), 0);
        every_parameter(&bytes, number, &raw, |parameter| {
            let mut alone = Vec::new();
            parameter.emit(&mut alone);
            assert!(Parameters::from_wire_bytes(&alone).iter().eq([Ok(parameter)]));
            parameter.emit(&mut list);
            assert_eq!(Parameters::from_wire_bytes(&list).iter().nth(written), Some(Ok(parameter)));
            written += 1;
        });
        prop_assert_eq!(Parameters::from_wire_bytes(&list).iter().count(), written);
        let mut copy = Vec::new();
        for parameter in Parameters::from_wire_bytes(&list) {
            parameter.expect("just written").emit(&mut copy);
        }
        prop_assert_eq!(copy, list);
    }

    // RFC 9260 §3.3.10: lists of causes.
    #[test]
    fn causes_round_trip(bytes in vec(any::<u8>(), 0..50), number: u128, raw in unknown_tlv()) {
        let (mut list, mut written) = (Vec::new(), 0);
        every_cause(&bytes, number, &raw, |cause| {
            cause.emit(&mut list);
            assert_eq!(Causes::from_wire_bytes(&list).iter().nth(written), Some(Ok(cause)));
            written += 1;
        });
        prop_assert_eq!(Causes::from_wire_bytes(&list).iter().count(), written);
    }

    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..2000)) {
        prop_assert!(read_everything(&bytes) <= bytes.len());
        assert_round_trip(&bytes);
    }

    #[test]
    fn mutated_packets_never_panic(
        header in header(),
        chunks in vec(chunk(), 1..6),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = packet_bytes(header, &chunks);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        prop_assert!(read_everything(&bytes) <= bytes.len());
        assert_round_trip(&bytes);
    }

    // RFC 9260 §6.10: the chunks before the truncation are parsed.
    #[test]
    fn truncated_packets(header in header(), chunks in vec(chunk(), 1..5)) {
        let bytes = packet_bytes(header, &chunks);
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            read_everything(cut);
            let Ok(view) = PacketView::parse(cut, Checksum::Ignore) else {
                prop_assert!(len < 12);
                continue;
            };
            let mut end = 12;
            let whole = |chunk: &&OwnedChunk| {
                end += chunk.as_chunk().wire_len();
                end <= len
            };
            let expected: Vec<_> = chunks.iter().take_while(whole).map(OwnedChunk::as_chunk).collect();
            let read: Vec<_> = view.chunks().take(expected.len()).collect::<Result<_, _>>().expect("before the cut");
            prop_assert_eq!(read, expected);
        }
    }
}
