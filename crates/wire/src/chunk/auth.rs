//! AUTH (15), RFC 4895 §4.1: authenticates the chunks after it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    type 15    |     zero      |       length: 8 + HMAC        |
//! +---------------+---------------+-------------------------------+
//! |     shared key identifier     |        HMAC identifier        |
//! +-------------------------------+-------------------------------+
//! |  HMAC ...                                     | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```
//!
//! The HMAC covers the chunk itself, with zeros in place of the HMAC, and everything after it in the packet.

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};
use crate::packet::Chunks;
use crate::{Chunk, tlv};

/// Length of an AUTH chunk before the HMAC in bytes, including the chunk header.
pub const AUTH_HEADER_LEN: usize = 8;

const FIELDS_LEN: usize = AUTH_HEADER_LEN - CHUNK_HEADER_LEN;

/// HMAC identifiers, RFC 4895 §3.3.
pub mod hmac_id {
    /// HMAC with SHA-1, 20 bytes: mandatory for every implementation.
    pub const SHA1: u16 = 1;
    /// HMAC with SHA-256, 32 bytes.
    pub const SHA256: u16 = 3;
}

/// An AUTH chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth<'a> {
    /// Identifier of the endpoint pair shared key.
    pub key_id: u16,
    /// Identifier of the hash; see [`hmac_id`].
    pub hmac_id: u16,
    /// The HMAC.
    pub hmac: &'a [u8],
}

impl<'a> Auth<'a> {
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let ([k0, k1, h0, h1], hmac) = value.split_first_chunk::<FIELDS_LEN>()?;
        Some(Auth {
            key_id: u16::from_be_bytes([*k0, *k1]),
            hmac_id: u16::from_be_bytes([*h0, *h1]),
            hmac,
        })
    }

    fn hmac(&self) -> &'a [u8] {
        &self.hmac[..self.hmac.len().min(MAX_CHUNK_VALUE_LEN - FIELDS_LEN)]
    }

    pub(super) fn value_len(&self) -> usize {
        FIELDS_LEN + self.hmac().len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&chunk_header(ChunkType::AUTH, 0, self.value_len()));
        out.extend_from_slice(&self.key_id.to_be_bytes());
        out.extend_from_slice(&self.hmac_id.to_be_bytes());
        out.extend_from_slice(self.hmac());
        pad_value(self.value_len(), out);
    }
}

/// Offsets of the first AUTH chunk: its first byte, its HMAC, and the first byte after it.
struct AuthOffsets {
    start: usize,
    hmac: core::ops::Range<usize>,
    end: usize,
}

fn find(bytes: &[u8], elided: bool) -> Option<AuthOffsets> {
    let mut chunks = Chunks::new(bytes, elided);
    loop {
        let start = bytes.len() - chunks.rest_len();
        match chunks.next()? {
            Ok(Chunk::Auth(auth)) => {
                let hmac = start + AUTH_HEADER_LEN..start + AUTH_HEADER_LEN + auth.hmac.len();
                let end = (start + tlv::padded(hmac.end - start)).min(bytes.len());
                return Some(AuthOffsets { start, hmac, end });
            }
            Ok(_) | Err(super::ChunkError::Malformed { .. }) => {}
            Err(_) => return None,
        }
    }
}

/// Passes the bytes covered by the first AUTH chunk of a packet to `each`, piece by piece: the chunk, with zeros for the HMAC, and
/// everything after it. Returns false if there is none.
pub(crate) fn authenticated(bytes: &[u8], elided: bool, each: &mut dyn FnMut(&[u8])) -> bool {
    let Some(place) = find(bytes, elided) else {
        return false;
    };
    each(&bytes[place.start..place.hmac.start]);
    let mut left = place.hmac.len();
    while left > 0 {
        let len = left.min(32);
        each(&[0; 32][..len]);
        left -= len;
    }
    each(&bytes[place.hmac.end..place.end]);
    let behind = &bytes[place.end..];
    if !elided {
        each(behind);
        return true;
    }
    // Omitted user data counts as zeros.
    let mut buffer = Vec::new();
    for chunk in Chunks::new(behind, true).map_while(Result::ok) {
        buffer.clear();
        chunk.encode(&mut buffer);
        each(&buffer);
    }
    true
}

/// Writes the HMAC into the first AUTH chunk of a packet, as far as there is room.
pub(crate) fn set_hmac(bytes: &mut [u8], elided: bool, hmac: &[u8]) {
    if let Some(place) = find(bytes, elided) {
        let len = hmac.len().min(place.hmac.len());
        bytes[place.hmac.start..place.hmac.start + len].copy_from_slice(&hmac[..len]);
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        Auth, ByteSink, Checksum, ChecksumField, Chunk, CommonHeader, Data, MessageNumber, OwnedPacket, PacketSink,
        PacketView, Payload, Ssn, Tsn, hmac_id,
    };

    const HEADER: CommonHeader = CommonHeader {
        source_port: 1,
        destination_port: 2,
        verification_tag: 3,
    };

    fn chunks() -> [Chunk<'static>; 4] {
        let data = Data {
            tsn: Tsn(1),
            stream: 0,
            number: MessageNumber::Ssn(Ssn(0)),
            fsn: 0,
            ppid: 0,
            unordered: false,
            begin: true,
            end: true,
            immediate: false,
            payload: Payload::Zeros(9),
        };
        let auth = Auth {
            key_id: 0,
            hmac_id: hmac_id::SHA1,
            hmac: &[0; 20],
        };
        [
            Chunk::Data(data),
            Chunk::Auth(auth),
            Chunk::CookieAck,
            Chunk::Data(data),
        ]
    }

    fn signed(sink: &mut dyn PacketSink) -> Vec<u8> {
        sink.begin(HEADER);
        chunks().iter().for_each(|chunk| sink.push(chunk));
        let mut covered = Vec::new();
        assert!(sink.authenticated(&mut |part| covered.extend_from_slice(part)));
        sink.set_hmac(&[7; 20]);
        sink.finish();
        covered
    }

    // RFC 4895 §6.2: from the AUTH chunk to the end of the packet, with zeros for the HMAC.
    #[test]
    fn bytes_and_structures_authenticate_the_same_content() {
        let mut bytes = Vec::new();
        let written = signed(&mut ByteSink::new(&mut bytes, ChecksumField::Compute));
        let mut owned = OwnedPacket::new();
        assert_eq!(signed(&mut owned), written);
        // AUTH 28, COOKIE ACK 4, DATA 16 + 9 + 3
        assert_eq!(written.len(), 28 + 4 + 28);
        assert_eq!(written[..9], [15, 0, 0, 28, 0, 0, 0, 1, 0]);
        for view in [
            PacketView::parse(&bytes, Checksum::Verify).expect("a packet"),
            owned.view(),
        ] {
            let mut read = Vec::new();
            assert!(view.authenticated(&mut |part| read.extend_from_slice(part)));
            assert_eq!(read, written);
            let found = view.chunks().nth(1);
            assert!(matches!(found, Some(Ok(Chunk::Auth(auth))) if auth.hmac == [7; 20]));
        }
    }

    #[test]
    fn without_auth_there_is_nothing() {
        let mut owned = OwnedPacket::new();
        owned.begin(HEADER);
        owned.push(&Chunk::CookieAck);
        assert!(!owned.authenticated(&mut |_| ()));
        owned.set_hmac(&[1; 20]);
        assert!(owned.view().chunks().eq([Ok(Chunk::CookieAck)]));
    }

    // Invalid lengths end the search.
    #[test]
    fn broken_packets_are_searched_without_panic() {
        let mut bytes = vec![0; 12];
        bytes.extend([15, 0, 0, 9, 0, 0, 0, 1, 5]);
        let view = PacketView::parse(&bytes, Checksum::Ignore).expect("a common header");
        let mut read = Vec::new();
        assert!(view.authenticated(&mut |part| read.extend_from_slice(part)));
        assert_eq!(read, [15, 0, 0, 9, 0, 0, 0, 1, 0]);
        bytes[12 + 3] = 200;
        let view = PacketView::parse(&bytes, Checksum::Ignore).expect("a common header");
        assert!(!view.authenticated(&mut |_| ()));
    }
}
