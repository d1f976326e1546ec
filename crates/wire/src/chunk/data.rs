//! DATA (0), RFC 9260 §3.3.1; the I bit from RFC 7053.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |    type 0     | zero  |I|U|B|E|    length: 16 + user data     |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |            stream             |    stream sequence number     |
//! +-------------------------------+-------------------------------+
//! |              payload protocol identifier (opaque)             |
//! +---------------------------------------------------------------+
//! |  user data ...                                | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};
use crate::number::{Ssn, Tsn};

/// Length of a DATA chunk before the user data in bytes, including the chunk header.
pub const DATA_HEADER_LEN: usize = 16;

/// Maximum user data of a DATA chunk, bytes.
pub const MAX_DATA_PAYLOAD_LEN: usize = u16::MAX as usize - DATA_HEADER_LEN;

const FIELDS_LEN: usize = DATA_HEADER_LEN - CHUNK_HEADER_LEN;

const IMMEDIATE: u8 = 0x08;
const UNORDERED: u8 = 0x04;
const BEGIN: u8 = 0x02;
const END: u8 = 0x01;
/// A reserved bit (zero on the wire). Inside [`crate::OwnedPacket`] it marks user data that was omitted because it is all zeros.
pub(crate) const ELIDED: u8 = 0x80;

/// User data of a DATA chunk: bytes or, in simulations, a number of zero bytes.
///
/// Two payloads are equal if their bytes are, independent of their form.
#[derive(Clone, Copy, Debug)]
pub enum Payload<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This number of zero bytes.
    Zeros(u32),
}

impl Payload<'_> {
    /// Returns the number of bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        match *self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Zeros(len) => len as usize,
        }
    }

    /// Returns whether the payload is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        match *self {
            Self::Bytes(bytes) => out.extend_from_slice(bytes),
            Self::Zeros(len) => out.resize(out.len() + len as usize, 0),
        }
    }
}

impl PartialEq for Payload<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (*self, *other) {
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Zeros(a), Self::Zeros(b)) => a == b,
            (Self::Bytes(bytes), Self::Zeros(len)) | (Self::Zeros(len), Self::Bytes(bytes)) => {
                bytes.len() == len as usize && bytes.iter().all(|byte| *byte == 0)
            }
        }
    }
}

impl Eq for Payload<'_> {}

/// A DATA chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Transmission Sequence Number.
    pub tsn: Tsn,
    /// Stream Identifier.
    pub stream: u16,
    /// Stream Sequence Number; undefined if `unordered`.
    pub ssn: Ssn,
    /// Payload Protocol Identifier of the application; never interpreted.
    pub ppid: u32,
    /// U bit: deliver without waiting for earlier messages of the stream.
    pub unordered: bool,
    /// B bit: first fragment of a message.
    pub begin: bool,
    /// E bit: last fragment of a message.
    pub end: bool,
    /// I bit: acknowledge without delay.
    pub immediate: bool,
    /// User data. RFC 9260 forbids empty user data; it is parsed nevertheless, so that the receiver can respond with a No User Data
    /// cause (§6.2).
    pub payload: Payload<'a>,
}

impl<'a> Data<'a> {
    #[inline]
    pub(super) fn decode(flags: u8, value: &'a [u8]) -> Option<Self> {
        let (fields, payload) = value.split_first_chunk::<FIELDS_LEN>()?;
        Some(Self::from_fields(flags, fields, Payload::Bytes(payload)))
    }

    /// Parses a chunk header whose user data was omitted.
    #[inline]
    pub(crate) fn decode_elided(header: &[u8; DATA_HEADER_LEN]) -> Self {
        let [_, flags, l0, l1, fields @ ..] = header;
        let len = usize::from(u16::from_be_bytes([*l0, *l1])).saturating_sub(DATA_HEADER_LEN);
        Self::from_fields(*flags, fields, Payload::Zeros(len as u32))
    }

    #[inline]
    fn from_fields(flags: u8, fields: &[u8; FIELDS_LEN], payload: Payload<'a>) -> Self {
        let [t0, t1, t2, t3, i0, i1, n0, n1, p0, p1, p2, p3] = *fields;
        Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: u16::from_be_bytes([i0, i1]),
            ssn: Ssn(u16::from_be_bytes([n0, n1])),
            ppid: u32::from_be_bytes([p0, p1, p2, p3]),
            unordered: flags & UNORDERED != 0,
            begin: flags & BEGIN != 0,
            end: flags & END != 0,
            immediate: flags & IMMEDIATE != 0,
            payload,
        }
    }

    pub(super) fn value_len(&self) -> usize {
        FIELDS_LEN + self.payload.len()
    }

    /// Returns the header before the user data, with `extra` added to the flags.
    ///
    /// # Panics
    /// Panics if the user data does not fit into one chunk: a defect of the code that fragments messages.
    #[inline]
    pub(crate) fn header(&self, extra: u8) -> [u8; DATA_HEADER_LEN] {
        let value_len = self.value_len();
        assert!(
            value_len <= MAX_CHUNK_VALUE_LEN,
            "DATA with {} bytes: the sender did not fragment",
            value_len
        );
        let flags = extra
            | (u8::from(self.immediate) * IMMEDIATE)
            | (u8::from(self.unordered) * UNORDERED)
            | (u8::from(self.begin) * BEGIN)
            | (u8::from(self.end) * END);
        let mut header = [0; DATA_HEADER_LEN];
        header[..4].copy_from_slice(&chunk_header(ChunkType::DATA, flags, value_len));
        header[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        header[8..10].copy_from_slice(&self.stream.to_be_bytes());
        header[10..12].copy_from_slice(&self.ssn.0.to_be_bytes());
        header[12..].copy_from_slice(&self.ppid.to_be_bytes());
        header
    }

    // [9260:3.3.1-1, 3.3.1-5, 3.3.1-9, 3-2, 6.10-5]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.header(0));
        self.payload.append_to(out);
        pad_value(self.payload.len(), out);
    }
}
