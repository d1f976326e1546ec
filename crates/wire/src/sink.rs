//! Destinations of packets: bytes for the network, or [structures](crate::OwnedPacket) for a simulator.

use crate::chunk::{Chunk, ChunkType, auth, dtls};
use crate::crc;
use crate::packet::{COMMON_HEADER_LEN, CommonHeader};

/// A writer of packets: [`begin`](Self::begin), [`push`](Self::push) for each chunk, [`finish`](Self::finish).
///
/// The sink does not enforce bundling rules and path MTU; [`Chunk::wire_len`] returns the length of a chunk in advance.
pub trait PacketSink {
    /// Starts a packet.
    fn begin(&mut self, header: CommonHeader);

    /// Adds a chunk at the end of the packet.
    ///
    /// # Panics
    /// Panics if a DATA chunk has more than [`MAX_DATA_PAYLOAD_LEN`](crate::MAX_DATA_PAYLOAD_LEN) bytes of user data.
    fn push(&mut self, chunk: &Chunk<'_>);

    /// Passes the bytes covered by the first AUTH chunk of the packet to `each`; see [`crate::PacketView::authenticated`].
    fn authenticated(&self, each: &mut dyn FnMut(&[u8])) -> bool;

    /// Writes the HMAC into the first AUTH chunk, which must have an HMAC of the same length.
    fn set_hmac(&mut self, hmac: &[u8]);

    /// Starts a DTLS chunk, the first and only one of the packet: chunks that are added from here on are its content.
    fn begin_sealed(&mut self);

    /// Ends the DTLS chunk: appends `trailer` zeros for content type and tag to the content, and passes the record to `seal`, which fills in its
    /// header ([`record_header`](crate::record_header)) and encrypts it in place. Does nothing if the packet does not begin with a DTLS chunk.
    fn seal(&mut self, trailer: usize, seal: &mut dyn FnMut(&mut [u8]));

    /// Ends the packet and returns its length on the wire in bytes, including the common header.
    // [9260:6.8-2]
    fn finish(&mut self) -> usize;

    /// Ends the packet with a checksum of zero and returns its length. Only a receiver that has offered it accepts the packet
    /// (RFC 9653 §5.3). A destination without a checksum field does the same as in [`finish`](Self::finish).
    fn finish_without_checksum(&mut self) -> usize {
        self.finish()
    }
}

/// The checksum field that [`ByteSink`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumField {
    /// The CRC32c of the packet (§6.8).
    Compute,
    /// Zero: the packet never leaves memory, or hardware computes the checksum.
    Zero,
}

/// Appends packets in wire form to a vector.
#[derive(Debug)]
pub struct ByteSink<'b> {
    out: &'b mut Vec<u8>,
    checksum: ChecksumField,
    /// Start of the current packet in `out`.
    start: usize,
}

impl<'b> ByteSink<'b> {
    /// Creates a sink that appends to `out`.
    pub fn new(out: &'b mut Vec<u8>, checksum: ChecksumField) -> Self {
        let start = out.len();
        Self { out, checksum, start }
    }
}

impl PacketSink for ByteSink<'_> {
    fn begin(&mut self, header: CommonHeader) {
        self.start = self.out.len();
        self.out.extend_from_slice(&crc::header_bytes(&header));
    }

    fn push(&mut self, chunk: &Chunk<'_>) {
        chunk.encode(self.out);
    }

    fn authenticated(&self, each: &mut dyn FnMut(&[u8])) -> bool {
        let chunks = self.out.get(self.start + COMMON_HEADER_LEN..).unwrap_or_default();
        auth::authenticated(chunks, false, each)
    }

    fn set_hmac(&mut self, hmac: &[u8]) {
        let chunks = self.out.get_mut(self.start + COMMON_HEADER_LEN..);
        auth::set_hmac(chunks.unwrap_or_default(), false, hmac);
    }

    fn begin_sealed(&mut self) {
        dtls::begin(self.out);
    }

    fn seal(&mut self, trailer: usize, seal: &mut dyn FnMut(&mut [u8])) {
        let start = self.start + COMMON_HEADER_LEN;
        if self.out.get(start) == Some(&ChunkType::DTLS.0) {
            dtls::finish(self.out, start, trailer, seal);
        }
    }

    fn finish(&mut self) -> usize {
        let packet = &mut self.out[self.start..];
        if self.checksum == ChecksumField::Compute && packet.len() >= COMMON_HEADER_LEN {
            // The field is still zero, as §6.8 requires for the computation.
            let crc = crc::crc32c(packet);
            packet[crc::CHECKSUM_FIELD].copy_from_slice(&crc.to_le_bytes());
        }
        packet.len()
    }

    fn finish_without_checksum(&mut self) -> usize {
        // The field is zero since the start of the packet.
        self.out.len() - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Checksum, PacketView};

    #[test]
    fn appends_packet_after_packet() {
        let header = |tag| CommonHeader {
            source_port: 1,
            destination_port: 2,
            verification_tag: tag,
        };
        let mut out = vec![0xee; 3];
        let mut sink = ByteSink::new(&mut out, ChecksumField::Compute);
        for tag in [10, 11] {
            sink.begin(header(tag));
            sink.push(&Chunk::CookieEcho {
                cookie: &[1, 2, 3, 4, 5],
            });
            assert_eq!(sink.finish(), 24);
        }
        assert_eq!((out.len(), &out[..3]), (51, &[0xee; 3][..]));
        for (start, tag) in [(3, 10), (27, 11)] {
            let view = PacketView::parse(&out[start..start + 24], Checksum::Verify).expect("a valid packet");
            assert_eq!(view.header(), header(tag));
            assert!(view.chunks().eq([Ok(Chunk::CookieEcho {
                cookie: &[1, 2, 3, 4, 5]
            })]));
        }
    }

    #[test]
    fn checksum_can_stay_zero() {
        let mut out = Vec::new();
        let mut sink = ByteSink::new(&mut out, ChecksumField::Zero);
        sink.begin(CommonHeader::default());
        sink.push(&Chunk::CookieAck);
        sink.finish();
        assert_eq!(out, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 4]);
    }

    // RFC 9653 §5.2: packet by packet.
    #[test]
    fn a_packet_without_checksum_does_not_change_its_neighbours() {
        let mut out = Vec::new();
        let mut sink = ByteSink::new(&mut out, ChecksumField::Compute);
        for with_checksum in [true, false, true] {
            sink.begin(CommonHeader::default());
            sink.push(&Chunk::CookieAck);
            let len = if with_checksum {
                sink.finish()
            } else {
                sink.finish_without_checksum()
            };
            assert_eq!(len, 16);
        }
        let [first, second, third] = [0, 16, 32].map(|start| &out[start..start + 16]);
        assert_eq!(crc::stored_checksum(second), Some(0));
        assert_eq!(
            (first, crc::packet_checksum(second)),
            (third, crc::stored_checksum(first))
        );
    }
}
