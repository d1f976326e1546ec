//! A packet: common header and chunks, RFC 9260 §3 and §3.1.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |          source port          |       destination port        |
//! +-------------------------------+-------------------------------+
//! |                       verification tag                        |
//! +---------------------------------------------------------------+
//! |          CRC32c, least significant byte first (§6.8)          |
//! +---------------------------------------------------------------+
//! |  chunks, each a multiple of four bytes ...                    |
//! +---------------------------------------------------------------+
//! ```

use std::iter::FusedIterator;

use thiserror::Error;

use crate::chunk::{CHUNK_HEADER_LEN, Chunk, ChunkError, ChunkType, Data, ELIDED, RawChunk};
use crate::crc;
use crate::sink::PacketSink;
use crate::tlv;

/// Bytes of the common header (§3.1).
pub const COMMON_HEADER_LEN: usize = 12;

/// The common header without its checksum, which [`PacketView::parse`] verifies and [`crate::ByteSink`] writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommonHeader {
    /// SCTP port of the sender. Zero is forbidden by §3.1 but parsed unchanged.
    pub source_port: u16,
    /// SCTP port of the receiver. Zero is forbidden by §3.1 but parsed unchanged.
    pub destination_port: u16,
    /// Verification Tag.
    pub verification_tag: u32,
}

/// Whether to verify the CRC32c of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// A wrong checksum makes the packet invalid (§6.8).
    Verify,
    /// The checksum is ignored: it was verified before, or the packet cannot have changed.
    Ignore,
}

/// Why a packet could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PacketError {
    /// Shorter than a common header.
    #[error("packet of {len} bytes is shorter than the common header")]
    TooShort {
        /// Bytes received.
        len: usize,
    },
    /// The checksum is wrong (§6.8).
    #[error("checksum is {found:#010x} where {expected:#010x} was computed")]
    BadChecksum {
        /// CRC32c computed over the packet.
        expected: u32,
        /// CRC32c that the packet carries.
        found: u32,
    },
}

/// A parsed packet: bytes from the network or the content of an [`crate::OwnedPacket`].
#[derive(Clone, Debug)]
pub struct PacketView<'a> {
    header: CommonHeader,
    chunks: Chunks<'a>,
    wire_len: usize,
}

impl<'a> PacketView<'a> {
    /// Borrows a packet that starts with the common header. Chunks are checked individually when they are read.
    ///
    /// # Errors
    /// Returns an error if the common header is incomplete, or the checksum has to be verified and is wrong.
    // [9260:6.8-3]
    #[inline]
    pub fn parse(packet: &'a [u8], checksum: Checksum) -> Result<Self, PacketError> {
        let Some((header, chunks)) = packet.split_first_chunk::<COMMON_HEADER_LEN>() else {
            return Err(PacketError::TooShort { len: packet.len() });
        };
        let [s0, s1, d0, d1, v0, v1, v2, v3, c0, c1, c2, c3] = *header;
        if checksum == Checksum::Verify {
            let found = u32::from_le_bytes([c0, c1, c2, c3]);
            let expected = crc::checksum_of_parts(header, chunks);
            if found != expected {
                return Err(PacketError::BadChecksum { expected, found });
            }
        }
        Ok(Self {
            header: CommonHeader {
                source_port: u16::from_be_bytes([s0, s1]),
                destination_port: u16::from_be_bytes([d0, d1]),
                verification_tag: u32::from_be_bytes([v0, v1, v2, v3]),
            },
            chunks: Chunks {
                rest: chunks,
                elided: false,
            },
            wire_len: packet.len(),
        })
    }

    /// Creates a view of chunks in the format of [`crate::OwnedPacket`].
    #[inline]
    pub(crate) fn of_elided(header: CommonHeader, chunks: &'a [u8], wire_len: usize) -> Self {
        Self {
            header,
            chunks: Chunks {
                rest: chunks,
                elided: true,
            },
            wire_len,
        }
    }

    /// Returns the common header.
    #[must_use]
    #[inline]
    pub fn header(&self) -> CommonHeader {
        self.header
    }

    /// Returns the packet with these chunks instead of its own, which it had encrypted: a packet whose DTLS chunk has been opened.
    #[must_use]
    pub fn with_chunks<'c>(&self, chunks: &'c [u8]) -> PacketView<'c> {
        PacketView {
            header: self.header,
            chunks: Chunks {
                rest: chunks,
                elided: false,
            },
            wire_len: self.wire_len,
        }
    }

    /// Returns the chunks from first to last.
    #[must_use]
    #[inline]
    pub fn chunks(&self) -> Chunks<'a> {
        self.chunks.clone()
    }

    /// Returns the length of the SCTP packet on the wire in bytes, including the common header.
    #[must_use]
    #[inline]
    pub fn wire_len(&self) -> usize {
        self.wire_len
    }

    /// Returns the type of the first chunk, if its header is complete.
    #[must_use]
    pub fn first_chunk_type(&self) -> Option<ChunkType> {
        self.chunks
            .rest
            .first_chunk::<CHUNK_HEADER_LEN>()
            .map(|header| ChunkType(header[0]))
    }

    /// Passes the bytes covered by the first AUTH chunk to `each`, piece by piece (RFC 4895 §6.2): the chunk itself, with zeros for
    /// the HMAC, and everything after it. Returns false if there is none.
    pub fn authenticated(&self, each: &mut dyn FnMut(&[u8])) -> bool {
        crate::chunk::auth::authenticated(self.chunks.rest, self.chunks.elided, each)
    }

    /// Writes the packet into `sink`: from structures to bytes or back. Returns its length on the wire.
    ///
    /// # Errors
    /// Returns an error for the first chunk that cannot be parsed; the sink then contains an incomplete packet.
    pub fn copy_to(&self, sink: &mut dyn PacketSink) -> Result<usize, ChunkError> {
        sink.begin(self.header);
        for chunk in self.chunks() {
            sink.push(&chunk?);
        }
        Ok(sink.finish())
    }
}

/// Iterator over the chunks of a packet.
///
/// An invalid length is reported once and ends the iteration. A chunk with malformed content is reported, and the iteration
/// continues.
#[derive(Clone, Debug)]
pub struct Chunks<'a> {
    rest: &'a [u8],
    /// The bytes come from an [`crate::OwnedPacket`]: DATA and I-DATA chunks with the [`ELIDED`] flag have no user data.
    elided: bool,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(rest: &'a [u8], elided: bool) -> Self {
        Chunks { rest, elided }
    }

    pub(crate) fn rest_len(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Chunks<'a> {
    type Item = Result<Chunk<'a>, ChunkError>;

    // [9260:6.10-7, 3.2-4]
    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest;
        let Some(&[chunk_type, flags, l0, l1]) = rest.first_chunk() else {
            self.rest = &[];
            return (!rest.is_empty()).then_some(Err(ChunkError::Truncated { available: rest.len() }));
        };
        let is_data = chunk_type == ChunkType::DATA.0 || chunk_type == ChunkType::I_DATA.0;
        if self.elided && is_data && flags & ELIDED != 0 {
            let (data, behind) = Data::decode_elided(rest)?;
            self.rest = behind;
            return Some(Ok(Chunk::Data(data)));
        }
        let length = u16::from_be_bytes([l0, l1]);
        match rest.get(..usize::from(length)) {
            Some(bytes) if bytes.len() >= CHUNK_HEADER_LEN => {
                // §3.2: padding is skipped. A last chunk without its padding is accepted.
                self.rest = rest.get(tlv::padded(bytes.len())..).unwrap_or_default();
                Some(Chunk::decode(RawChunk::new(bytes)))
            }
            _ => {
                self.rest = &[];
                let chunk_type = ChunkType(chunk_type);
                Some(Err(ChunkError::BadLength {
                    chunk_type,
                    length,
                    available: rest.len(),
                }))
            }
        }
    }
}

impl FusedIterator for Chunks<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ByteSink, ChecksumField, HeartbeatInfo, OwnedPacket, Tsn};

    const HEADER: CommonHeader = CommonHeader {
        source_port: 5001,
        destination_port: 9899,
        verification_tag: 0xa1b2_c3d4,
    };

    fn written(chunks: &[Chunk<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
        sink.begin(HEADER);
        chunks.iter().for_each(|chunk| sink.push(chunk));
        assert_eq!(sink.finish(), bytes.len());
        bytes
    }

    // §3.1, §6.8: a packet with one COOKIE ACK. The checksum comes from a bitwise computation in Python.
    // [9260:3-2, 6.8-1, 6.8-2]
    #[test]
    fn common_header_on_the_wire() {
        let bytes = written(&[Chunk::CookieAck]);
        assert_eq!(bytes[..8], [0x13, 0x89, 0x26, 0xab, 0xa1, 0xb2, 0xc3, 0xd4]);
        assert_eq!(bytes[8..], [0x36, 0x68, 0x48, 0xdd, 11, 0, 0, 4]);
        let view = PacketView::parse(&bytes, Checksum::Verify).expect("a valid packet");
        assert_eq!((view.header(), view.wire_len()), (HEADER, 16));
        assert_eq!(view.first_chunk_type(), Some(ChunkType::COOKIE_ACK));
    }

    // §6.8: a wrong checksum makes the packet invalid.
    // [9260:6.8-3, 6.8-4]
    #[test]
    fn any_flipped_bit_is_noticed() {
        let good = written(&[Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(7),
        }]);
        for bit in 0..8 * good.len() {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let error = PacketView::parse(&bad, Checksum::Verify).expect_err("one bit is wrong");
            assert!(matches!(error, PacketError::BadChecksum { .. }), "bit {bit}");
            assert!(PacketView::parse(&bad, Checksum::Ignore).is_ok());
        }
    }

    #[test]
    fn shorter_than_a_header() {
        for len in 0..COMMON_HEADER_LEN {
            let error = PacketView::parse(&[0; COMMON_HEADER_LEN][..len], Checksum::Ignore).expect_err("too short");
            assert_eq!(error, PacketError::TooShort { len });
        }
        let view = PacketView::parse(&[0; 12], Checksum::Ignore).expect("a common header");
        assert_eq!((view.chunks().next(), view.first_chunk_type()), (None, None));
    }

    // §6.10: bundled chunks are consecutive, each padded.
    // [9260:6.10-6]
    #[test]
    fn bundled_chunks() {
        let chunks = [
            Chunk::CookieEcho { cookie: &[1, 2, 3] },
            Chunk::Heartbeat(HeartbeatInfo(&[9; 5])),
            Chunk::Shutdown {
                cumulative_tsn_ack: Tsn(7),
            },
        ];
        let bytes = written(&chunks);
        assert_eq!(bytes.len(), 12 + 8 + 16 + 8);
        let view = PacketView::parse(&bytes, Checksum::Verify).expect("a valid packet");
        assert!(view.chunks().eq(chunks.map(Ok)));
        let mut owned = OwnedPacket::new();
        assert_eq!(view.copy_to(&mut owned), Ok(bytes.len()));
        assert!(owned.view().chunks().eq(chunks.map(Ok)));
        let mut copy = Vec::new();
        let copied = owned
            .view()
            .copy_to(&mut ByteSink::new(&mut copy, ChecksumField::Compute));
        assert_eq!((copied, copy), (Ok(bytes.len()), bytes));
    }

    // §3.2: the last chunk's padding may be missing, padding bytes are ignored.
    // [9260:3.2-4]
    #[test]
    fn padding_is_not_read() {
        let mut bytes = written(&[Chunk::CookieEcho { cookie: &[1, 2, 3] }]);
        bytes[19] = 0xff;
        for len in [19, 20] {
            let view = PacketView::parse(&bytes[..len], Checksum::Ignore).expect("a common header");
            assert!(view.chunks().eq([Ok(Chunk::CookieEcho { cookie: &[1, 2, 3] })]));
        }
    }

    // §6.10: a partial chunk at the end is dropped, the chunks before it are parsed.
    // [9260:6.10-7]
    #[test]
    fn a_bad_length_is_reported_once_and_ends_the_packet() {
        for length in [0, 1, 2, 3, 13, 0xffff_u16] {
            let [l0, l1] = length.to_be_bytes();
            let mut bytes = written(&[Chunk::CookieAck]);
            bytes.extend([7, 0, l0, l1, 0, 0, 0, 1, 11, 0, 0, 4]);
            let view = PacketView::parse(&bytes, Checksum::Ignore).expect("a common header");
            let error = ChunkError::BadLength {
                chunk_type: ChunkType::SHUTDOWN,
                length,
                available: 12,
            };
            assert!(view.chunks().eq([Ok(Chunk::CookieAck), Err(error)]), "{length}");
            assert_eq!(view.copy_to(&mut OwnedPacket::new()), Err(error));
        }
        for stray in 1..4 {
            let mut bytes = written(&[Chunk::CookieAck]);
            bytes.extend(&[0; 3][..stray]);
            let view = PacketView::parse(&bytes, Checksum::Ignore).expect("a common header");
            assert!(
                view.chunks()
                    .eq([Ok(Chunk::CookieAck), Err(ChunkError::Truncated { available: stray })])
            );
        }
    }

    #[test]
    fn errors_read_as_sentences() {
        let error = ChunkError::BadLength {
            chunk_type: ChunkType::SACK,
            length: 3,
            available: 8,
        };
        assert_eq!(error.to_string(), "SACK chunk has length 3, 8 bytes are left");
        assert_eq!(
            PacketError::TooShort { len: 3 }.to_string(),
            "packet of 3 bytes is shorter than the common header"
        );
    }
}
