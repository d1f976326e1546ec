//! DATA (0), RFC 9260 §3.3.1, and I-DATA (64), RFC 8260 §2.1; the I bit from RFC 7053.
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
//!
//! I-DATA numbers the messages with 32 bits and their fragments one by one, so that fragments of several messages can be interleaved:
//!
//! ```text
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |    type 64    | zero  |I|U|B|E|    length: 20 + user data     |
//! +---------------+-------+-+-+-+-+-------------------------------+
//! |                              TSN                              |
//! +-------------------------------+-------------------------------+
//! |            stream             |             zero              |
//! +-------------------------------+-------------------------------+
//! |                       message identifier                      |
//! +---------------------------------------------------------------+
//! | B = 1: payload protocol identifier. B = 0: number of fragment |
//! +---------------------------------------------------------------+
//! |  user data ...                                | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};
use crate::number::{MessageNumber, Mid, Ssn, Tsn};

/// Length of a DATA chunk before the user data in bytes, including the chunk header.
pub const DATA_HEADER_LEN: usize = 16;

/// Length of an I-DATA chunk before the user data in bytes, including the chunk header.
pub const I_DATA_HEADER_LEN: usize = 20;

/// Maximum user data of a DATA chunk, bytes; an I-DATA chunk has four bytes less.
pub const MAX_DATA_PAYLOAD_LEN: usize = u16::MAX as usize - DATA_HEADER_LEN;

const FIELDS_LEN: usize = DATA_HEADER_LEN - CHUNK_HEADER_LEN;
const I_FIELDS_LEN: usize = I_DATA_HEADER_LEN - CHUNK_HEADER_LEN;

const IMMEDIATE: u8 = 0x08;
const UNORDERED: u8 = 0x04;
const BEGIN: u8 = 0x02;
const END: u8 = 0x01;
/// A reserved bit (zero on the wire). Inside [`crate::OwnedPacket`] it marks user data that was omitted because it is all zeros.
pub(crate) const ELIDED: u8 = 0x80;

/// User data of a DATA or I-DATA chunk: bytes or, in simulations, a number of zero bytes.
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

/// A DATA chunk, or an I-DATA chunk if the message has a Message Identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Transmission Sequence Number.
    pub tsn: Tsn,
    /// Stream Identifier.
    pub stream: u16,
    /// The number of the message.
    pub number: MessageNumber,
    /// Fragment Sequence Number in the message. Only I-DATA carries it, and not in the first fragment: 0 there and in DATA.
    pub fsn: u32,
    /// Payload Protocol Identifier of the application; never interpreted. Of the fragments of an I-DATA message, only the first one carries
    /// it: 0 in the others.
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
        let (fields, payload) = value.split_first_chunk()?;
        Some(Self::from_fields(flags, fields, Payload::Bytes(payload)))
    }

    #[inline]
    // [8260:2.1-2, 2.1-5]
    pub(super) fn decode_interleaved(flags: u8, value: &'a [u8]) -> Option<Self> {
        let (fields, payload) = value.split_first_chunk()?;
        Some(Self::from_interleaved_fields(flags, fields, Payload::Bytes(payload)))
    }

    /// Parses a chunk whose user data was omitted. Returns it, and the bytes behind it.
    #[inline]
    pub(crate) fn decode_elided(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (&[chunk_type, flags, l0, l1], rest) = bytes.split_first_chunk()?;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let zeros = |header: usize| Payload::Zeros(length.saturating_sub(header) as u32);
        if chunk_type == ChunkType::I_DATA.0 {
            let (fields, behind) = rest.split_first_chunk()?;
            let data = Self::from_interleaved_fields(flags, fields, zeros(I_DATA_HEADER_LEN));
            return Some((data, behind));
        }
        let (fields, behind) = rest.split_first_chunk()?;
        Some((Self::from_fields(flags, fields, zeros(DATA_HEADER_LEN)), behind))
    }

    #[inline]
    fn from_fields(flags: u8, fields: &[u8; FIELDS_LEN], payload: Payload<'a>) -> Self {
        let [t0, t1, t2, t3, i0, i1, n0, n1, p0, p1, p2, p3] = *fields;
        Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: u16::from_be_bytes([i0, i1]),
            number: MessageNumber::Ssn(Ssn(u16::from_be_bytes([n0, n1]))),
            fsn: 0,
            ppid: u32::from_be_bytes([p0, p1, p2, p3]),
            unordered: flags & UNORDERED != 0,
            begin: flags & BEGIN != 0,
            end: flags & END != 0,
            immediate: flags & IMMEDIATE != 0,
            payload,
        }
    }

    // RFC 8260 §2.1: the reserved field is ignored.
    #[inline]
    fn from_interleaved_fields(flags: u8, fields: &[u8; I_FIELDS_LEN], payload: Payload<'a>) -> Self {
        let [t0, t1, t2, t3, i0, i1, _, _, m0, m1, m2, m3, p0, p1, p2, p3] = *fields;
        let begin = flags & BEGIN != 0;
        let last = u32::from_be_bytes([p0, p1, p2, p3]);
        let (fsn, ppid) = if begin { (0, last) } else { (last, 0) };
        Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: u16::from_be_bytes([i0, i1]),
            number: MessageNumber::Mid(Mid(u32::from_be_bytes([m0, m1, m2, m3]))),
            fsn,
            ppid,
            unordered: flags & UNORDERED != 0,
            begin,
            end: flags & END != 0,
            immediate: flags & IMMEDIATE != 0,
            payload,
        }
    }

    pub(super) fn chunk_type(&self) -> ChunkType {
        if self.number.is_mid() {
            ChunkType::I_DATA
        } else {
            ChunkType::DATA
        }
    }

    /// Returns the length in bytes of the chunk before the user data.
    #[must_use]
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.number.is_mid() {
            I_DATA_HEADER_LEN
        } else {
            DATA_HEADER_LEN
        }
    }

    pub(super) fn value_len(&self) -> usize {
        self.header_len() - CHUNK_HEADER_LEN + self.payload.len()
    }

    /// Appends the header before the user data, with `extra` added to the flags.
    ///
    /// # Panics
    /// Panics if the user data does not fit into one chunk: a defect of the code that fragments messages.
    #[inline]
    // [8260:2.1-1, 2.1-4]
    pub(crate) fn encode_header(&self, extra: u8, out: &mut Vec<u8>) {
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
        let mut header = [0; I_DATA_HEADER_LEN];
        header[..4].copy_from_slice(&chunk_header(self.chunk_type(), flags, value_len));
        header[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        header[8..10].copy_from_slice(&self.stream.to_be_bytes());
        match self.number {
            MessageNumber::Ssn(ssn) => {
                header[10..12].copy_from_slice(&ssn.0.to_be_bytes());
                header[12..16].copy_from_slice(&self.ppid.to_be_bytes());
                out.extend_from_slice(&header[..DATA_HEADER_LEN]);
            }
            MessageNumber::Mid(mid) => {
                let last = if self.begin { self.ppid } else { self.fsn };
                header[12..16].copy_from_slice(&mid.0.to_be_bytes());
                header[16..].copy_from_slice(&last.to_be_bytes());
                out.extend_from_slice(&header);
            }
        }
    }

    // [9260:3.3.1-1, 3.3.1-5, 3.3.1-9, 3-2, 6.10-5]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_header(0, out);
        self.payload.append_to(out);
        pad_value(self.payload.len(), out);
    }
}
