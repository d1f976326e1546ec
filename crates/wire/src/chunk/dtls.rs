//! DTLS (65): the other chunks of a packet, encrypted as a DTLS 1.3 record (draft-ietf-tsvwg-sctp-dtls-chunk, "DTLS Chunk").
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    type 65    |     zero    |R|     length: 8 + encrypted     |
//! +---------------+---------------+-------------------------------+
//! |  zero         |0|0|1|0|1|0| E |   encrypted sequence number   |
//! +---------------+---------------+-------------------------------+
//! |  encrypted record: chunks, their content type, tag            |
//! |                                               +---------------+
//! |                                               | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```
//!
//! R: the keys are those of a restart. E: the two low bits of the epoch. The seven bytes before the encrypted record are one of padding and
//! the header of the record (RFC 9147 §4), always in this form: no connection identifier, 16 bits of sequence number, no length. The chunk
//! is the only one of its packet.

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};

/// Bytes of a DTLS chunk before the encrypted record, including the chunk header.
pub const DTLS_HEADER_LEN: usize = 8;

/// Bytes of the header of a record.
pub const RECORD_HEADER_LEN: usize = 3;

/// Shortest encrypted record in bytes: its sequence number is encrypted with the first 16 bytes (RFC 9147 §4.2.3).
pub const MIN_RECORD_LEN: usize = 16;

/// Most bytes of chunks that a record contains (RFC 9147 §4, RFC 8446 §5.1).
pub const MAX_RECORD_CONTENT: usize = 1 << 14;

const FIELDS_LEN: usize = DTLS_HEADER_LEN - CHUNK_HEADER_LEN;

/// The R bit.
const RESTART: u8 = 0x01;

/// The fixed bits of the header of a record: 001, no connection identifier, long sequence number, no length.
const FORM: u8 = 0b0010_1000;
const EPOCH_BITS: u8 = 0b11;

/// A DTLS chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtls<'a> {
    /// The R bit: protected with the keys of a restart.
    pub restart: bool,
    /// The two low bits of the epoch.
    pub epoch: u8,
    /// The low 16 bits of the sequence number, encrypted.
    pub number: u16,
    /// The encrypted record, at least [`MIN_RECORD_LEN`] bytes.
    pub record: &'a [u8],
}

/// Returns the header of a record with this epoch, of which two bits are sent, and these low bits of the sequence number.
#[must_use]
pub fn record_header(epoch: u64, number: u16) -> [u8; RECORD_HEADER_LEN] {
    let [n0, n1] = number.to_be_bytes();
    [FORM | epoch as u8 & EPOCH_BITS, n0, n1]
}

impl<'a> Dtls<'a> {
    // [dtls:3.1-3, 3.1-4, 4.2-3, 4.2-5, 4.2-6, 4.2-9]
    pub(super) fn decode(flags: u8, value: &'a [u8]) -> Option<Self> {
        // The padding is ignored.
        let ([_, form, n0, n1], record) = value.split_first_chunk::<FIELDS_LEN>()?;
        let is_valid = form & !EPOCH_BITS == FORM && record.len() >= MIN_RECORD_LEN;
        is_valid.then_some(Dtls {
            restart: flags & RESTART != 0,
            epoch: form & EPOCH_BITS,
            number: u16::from_be_bytes([*n0, *n1]),
            record,
        })
    }

    fn record(&self) -> &'a [u8] {
        &self.record[..self.record.len().min(MAX_CHUNK_VALUE_LEN - FIELDS_LEN)]
    }

    pub(super) fn value_len(&self) -> usize {
        FIELDS_LEN + self.record().len()
    }

    // [dtls:4.2-1, 4.2-2, 4.2-4]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&chunk_header(ChunkType::DTLS, u8::from(self.restart), self.value_len()));
        out.push(0);
        out.extend_from_slice(&record_header(self.epoch.into(), self.number));
        out.extend_from_slice(self.record());
        pad_value(self.value_len(), out);
    }
}

/// Starts a DTLS chunk: what is appended from here on is its content.
pub(crate) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[ChunkType::DTLS.0, 0, 0, 0, 0, 0, 0, 0]);
}

/// Ends the DTLS chunk that starts at `start`: appends `trailer` zeros, passes the record to `seal`, and sets length and padding.
// [dtls:4.2-7, 4.2-8]
pub(crate) fn finish(out: &mut Vec<u8>, start: usize, trailer: usize, seal: &mut dyn FnMut(&mut [u8])) {
    out.resize(out.len() + trailer, 0);
    let record = start + DTLS_HEADER_LEN - RECORD_HEADER_LEN;
    let Some(bytes) = out.get_mut(record..) else { return };
    seal(bytes);
    let value_len = (out.len() - start - CHUNK_HEADER_LEN).min(MAX_CHUNK_VALUE_LEN);
    out[start..start + CHUNK_HEADER_LEN].copy_from_slice(&chunk_header(ChunkType::DTLS, 0, value_len));
    pad_value(value_len, out);
}

#[cfg(test)]
mod tests {
    use crate::{
        ByteSink, Checksum, ChecksumField, Chunk, CommonHeader, DTLS_HEADER_LEN, Data, Dtls, HeartbeatInfo,
        MessageNumber, OwnedPacket, PacketSink, PacketView, Payload, Ssn, Tsn, record_header,
    };

    const TRAILER: usize = 17;

    /// Writes chunks as the content of a DTLS chunk that is not encrypted.
    fn write(sink: &mut dyn PacketSink, chunks: &[Chunk<'_>]) -> usize {
        sink.begin(CommonHeader::default());
        sink.begin_sealed();
        chunks.iter().for_each(|chunk| sink.push(chunk));
        sink.seal(TRAILER, &mut |record| {
            record[..3].copy_from_slice(&record_header(7, 0x1234));
            let len = record.len();
            record[len - 1] = 0xee;
        });
        sink.finish()
    }

    fn zeros(len: u32) -> Chunk<'static> {
        Chunk::Data(Data {
            tsn: Tsn(1),
            stream: 0,
            number: MessageNumber::Ssn(Ssn(0)),
            fsn: 0,
            ppid: 0,
            unordered: false,
            begin: true,
            end: true,
            immediate: false,
            payload: Payload::Zeros(len),
        })
    }

    // The draft, "DTLS Chunk": 28 bytes more than the chunks, of which 17 are those of content type and tag.
    // [dtls:4.2-7, 4.2-8]
    #[test]
    fn chunks_are_sealed_in_place() {
        for len in 0..9 {
            let info = vec![9; len];
            let chunks = [Chunk::CookieAck, Chunk::Heartbeat(HeartbeatInfo(&info)), zeros(5)];
            let content: usize = chunks.iter().map(Chunk::wire_len).sum();
            let mut bytes = vec![0xaa; 5];
            let written = write(&mut ByteSink::new(&mut bytes, ChecksumField::Compute), &chunks);
            assert_eq!((written, bytes.len()), (12 + content + 28, 5 + 12 + content + 28));
            let view = PacketView::parse(&bytes[5..], Checksum::Verify).expect("a valid packet");
            let mut read = view.chunks();
            let Some(Ok(Chunk::Dtls(dtls))) = read.next() else {
                panic!("a DTLS chunk")
            };
            assert_eq!(
                (read.next(), dtls.restart, dtls.epoch, dtls.number),
                (None, false, 3, 0x1234)
            );
            assert_eq!(dtls.record.len(), content + TRAILER);
            assert_eq!((dtls.record[content], dtls.record[content + TRAILER - 1]), (0, 0xee));
            let inner = view.with_chunks(&dtls.record[..content]);
            assert!(inner.chunks().eq(chunks.map(Ok)));
            assert_eq!((inner.header(), inner.wire_len()), (view.header(), view.wire_len()));
            let mut owned = OwnedPacket::new();
            assert_eq!(write(&mut owned, &chunks), written);
            assert!(
                owned.view().chunks().eq(view.chunks()),
                "bytes and structures are the same"
            );
            // The next packet omits zeros again.
            owned.begin(CommonHeader::default());
            owned.push(&zeros(5000));
            assert!(owned.capacity() < 500);
        }
    }

    #[test]
    fn a_chunk_that_was_not_begun_is_not_sealed() {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Zero);
        sink.begin(CommonHeader::default());
        sink.push(&Chunk::CookieAck);
        sink.seal(TRAILER, &mut |_| panic!("there is no record"));
        assert_eq!(sink.finish(), 16);
    }

    #[test]
    fn a_record_that_is_too_long_is_cut() {
        let record = vec![0; 70_000];
        let chunk = Chunk::Dtls(Dtls {
            restart: false,
            epoch: 0,
            number: 0,
            record: &record,
        });
        assert_eq!(chunk.length(), 65_535);
        let mut bytes = Vec::new();
        chunk.encode(&mut bytes);
        assert_eq!(bytes.len(), 65_536);
        assert_eq!(bytes[..DTLS_HEADER_LEN], [0x41, 0, 0xff, 0xff, 0, 0x28, 0, 0]);
    }
}
