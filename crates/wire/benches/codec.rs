//! Cost of the codec per packet: `cargo bench -p whimbrel-wire`.

use divan::{Bencher, black_box, counter::BytesCount};
use whimbrel_wire::{
    ByteSink, Checksum, ChecksumField, Chunk, CommonHeader, Data, DuplicateTsns, GapBlock, GapBlocks, MessageNumber,
    OwnedPacket, PacketSink, PacketView, Payload, Sack, Ssn, Tsn, crc32c, packet_checksum,
};

/// User data that makes a packet of 1500 bytes with an IPv4 header.
const PAYLOAD_LEN: usize = 1452;

fn main() {
    divan::main();
}

fn header() -> CommonHeader {
    CommonHeader {
        source_port: 5001,
        destination_port: 5002,
        verification_tag: 0x1234_5678,
    }
}

fn data(payload: Payload<'_>) -> Chunk<'_> {
    Chunk::Data(Data {
        tsn: Tsn(77),
        stream: 3,
        number: MessageNumber::Ssn(Ssn(9)),
        fsn: 0,
        ppid: 51,
        unordered: false,
        begin: true,
        end: true,
        immediate: false,
        payload,
    })
}

fn gap_bytes(count: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for i in 0..count {
        GapBlock {
            start: 3 * i + 2,
            end: 3 * i + 3,
        }
        .emit(&mut bytes);
    }
    bytes
}

fn sack(gaps: &[u8]) -> Chunk<'_> {
    Chunk::Sack(Sack {
        congestion_indicated: false,
        packets: 0,
        cumulative_tsn_ack: Tsn(76),
        a_rwnd: 65536,
        gaps: GapBlocks::from_wire_bytes(gaps),
        duplicates: DuplicateTsns::default(),
    })
}

fn packet(chunk: &Chunk<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
    sink.begin(header());
    sink.push(chunk);
    sink.finish();
    bytes
}

/// Reads everything a receiver reads and sums it up, so that nothing is optimised away.
fn consume(view: &PacketView<'_>) -> u64 {
    let mut sum = u64::from(view.header().verification_tag);
    for chunk in view.chunks() {
        sum += match chunk {
            Ok(Chunk::Data(data)) => u64::from(data.tsn.0) + data.payload.len() as u64,
            Ok(Chunk::Sack(sack)) => {
                let gaps: u64 = sack.gaps.iter().map(|block| u64::from(block.end - block.start)).sum();
                u64::from(sack.cumulative_tsn_ack.0) + u64::from(sack.a_rwnd) + gaps
            }
            _ => 1,
        };
    }
    sum
}

#[divan::bench(args = [Checksum::Ignore, Checksum::Verify])]
fn parse_data_1452(bencher: Bencher<'_, '_>, checksum: Checksum) {
    let bytes = packet(&data(Payload::Bytes(&[7; PAYLOAD_LEN])));
    bencher.bench(|| consume(&PacketView::parse(black_box(&bytes), checksum).expect("a valid packet")));
}

#[divan::bench(args = [0, 4, 40])]
fn parse_sack_with_gaps(bencher: Bencher<'_, '_>, gaps: u16) {
    let bytes = packet(&sack(&gap_bytes(gaps)));
    bencher.bench(|| consume(&PacketView::parse(black_box(&bytes), Checksum::Ignore).expect("a valid packet")));
}

#[divan::bench(args = [ChecksumField::Zero, ChecksumField::Compute])]
fn encode_data_1452(bencher: Bencher<'_, '_>, checksum: ChecksumField) {
    let chunk = data(Payload::Bytes(&[7; PAYLOAD_LEN]));
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        let mut sink = ByteSink::new(&mut out, checksum);
        sink.begin(header());
        sink.push(black_box(&chunk));
        sink.finish()
    });
}

#[divan::bench]
fn encode_sack_4_gaps(bencher: Bencher<'_, '_>) {
    let gaps = gap_bytes(4);
    let mut out = Vec::new();
    bencher.bench_local(|| {
        out.clear();
        let mut sink = ByteSink::new(&mut out, ChecksumField::Compute);
        sink.begin(header());
        sink.push(black_box(&sack(&gaps)));
        sink.finish()
    });
}

#[divan::bench]
fn owned_write_data_zeros(bencher: Bencher<'_, '_>) {
    let chunk = data(Payload::Zeros(PAYLOAD_LEN as u32));
    let mut packet = OwnedPacket::new();
    bencher.bench_local(|| {
        let sink: &mut dyn PacketSink = black_box(&mut packet);
        sink.begin(header());
        sink.push(black_box(&chunk));
        sink.finish()
    });
}

#[divan::bench]
fn owned_read_data_zeros(bencher: Bencher<'_, '_>) {
    let mut packet = OwnedPacket::new();
    packet.begin(header());
    packet.push(&data(Payload::Zeros(PAYLOAD_LEN as u32)));
    bencher.bench_local(|| consume(&black_box(&packet).view()));
}

#[divan::bench]
fn owned_write_data_bytes(bencher: Bencher<'_, '_>) {
    let chunk = data(Payload::Bytes(&[7; PAYLOAD_LEN]));
    let mut packet = OwnedPacket::new();
    bencher.bench_local(|| {
        let sink: &mut dyn PacketSink = black_box(&mut packet);
        sink.begin(header());
        sink.push(black_box(&chunk));
        sink.finish()
    });
}

#[divan::bench]
fn owned_write_and_read_sack_4_gaps(bencher: Bencher<'_, '_>) {
    let gaps = gap_bytes(4);
    let mut packet = OwnedPacket::new();
    bencher.bench_local(|| {
        packet.begin(header());
        packet.push(black_box(&sack(&gaps)));
        packet.finish();
        consume(&black_box(&packet).view())
    });
}

#[divan::bench(args = [12, 64, 1200, 1500, 9000])]
fn crc32c_of(bencher: Bencher<'_, '_>, len: usize) {
    let bytes = vec![0xa5; len];
    bencher
        .counter(BytesCount::new(len))
        .bench(|| crc32c(black_box(&bytes)));
}

#[divan::bench(args = [64, 1200, 1500, 9000])]
fn packet_checksum_of(bencher: Bencher<'_, '_>, len: usize) {
    let bytes = vec![0xa5; len];
    bencher
        .counter(BytesCount::new(len))
        .bench(|| packet_checksum(black_box(&bytes)));
}
