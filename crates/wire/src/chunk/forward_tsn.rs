//! FORWARD TSN (192) and I-FORWARD-TSN (194): the sender gives up data, and the receiver moves on (RFC 3758 §3.2, RFC 8260 §2.3.1).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   type 192    |     zero      |       length: 8 + 4N          |
//! +---------------+---------------+-------------------------------+
//! |     new cumulative TSN: none up to this one is sent again     |
//! +-------------------------------+-------------------------------+
//! |            stream 1           |   sequence number skipped 1   |
//! +-------------------------------+-------------------------------+
//! |                              ...                              |
//! +-------------------------------+-------------------------------+
//! |            stream N           |   sequence number skipped N   |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! A sender lists each stream once, with the largest stream sequence number of its ordered messages that are given up. Unordered messages
//! are not listed.
//!
//! Each entry of I-FORWARD-TSN has eight bytes. A stream can be listed twice, for its ordered and for its unordered messages:
//!
//! ```text
//! +-------------------------------+-----------------------------+-+
//! |            stream             |            zero             |U|
//! +-------------------------------+-----------------------------+-+
//! |                  message identifier skipped                   |
//! +---------------------------------------------------------------+
//! ```

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header};
use crate::number::{MessageNumber, Mid, Ssn, Tsn};

/// Length of a FORWARD TSN or I-FORWARD-TSN chunk before the streams in bytes, including the chunk header.
pub const FORWARD_TSN_HEADER_LEN: usize = CHUNK_HEADER_LEN + TSN_LEN;

const TSN_LEN: usize = 4;
/// The U bit in the first four bytes of an entry of I-FORWARD-TSN.
const UNORDERED: u8 = 1;

/// A FORWARD TSN chunk, or an I-FORWARD-TSN chunk if its list is [interleaved](SkippedStreams::interleaved).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// No TSN up to this one will be sent again.
    pub new_cumulative_tsn: Tsn,
    /// The streams whose messages are given up.
    pub skipped: SkippedStreams<'a>,
}

/// A stream whose messages are given up, in FORWARD TSN or I-FORWARD-TSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStream {
    /// The stream.
    pub stream: u16,
    /// The entry is about the unordered messages of the stream. False in FORWARD TSN.
    pub unordered: bool,
    /// The largest number that is skipped.
    pub number: MessageNumber,
}

/// Streams whose messages are given up, borrowed in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStreams<'a>(Entries<'a>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entries<'a> {
    Ssn(&'a [[u8; 4]]),
    Mid(&'a [[u8; 8]]),
}

impl<'a> SkippedStreams<'a> {
    /// Borrows the list of a FORWARD TSN chunk in wire form, four bytes for each stream; an incomplete last one is ignored.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        let entries = bytes.as_chunks().0;
        SkippedStreams(Entries::Ssn(&entries[..entries.len().min(most(4))]))
    }

    /// Borrows the list of an I-FORWARD-TSN chunk in wire form, eight bytes for each entry; an incomplete last one is ignored.
    #[must_use]
    pub fn interleaved(bytes: &'a [u8]) -> Self {
        let entries = bytes.as_chunks().0;
        SkippedStreams(Entries::Mid(&entries[..entries.len().min(most(8))]))
    }

    /// Returns whether it is the list of an I-FORWARD-TSN chunk.
    #[must_use]
    pub fn is_interleaved(self) -> bool {
        matches!(self.0, Entries::Mid(_))
    }

    /// Returns the entries.
    // [8260:2.3.1-5]
    pub fn iter(self) -> impl Iterator<Item = SkippedStream> + 'a {
        let (by_ssn, by_mid): (&[[u8; 4]], &[[u8; 8]]) = match self.0 {
            Entries::Ssn(entries) => (entries, &[]),
            Entries::Mid(entries) => (&[], entries),
        };
        let by_ssn = by_ssn.iter().map(|&[s0, s1, n0, n1]| SkippedStream {
            stream: u16::from_be_bytes([s0, s1]),
            unordered: false,
            number: MessageNumber::Ssn(Ssn(u16::from_be_bytes([n0, n1]))),
        });
        let by_mid = by_mid.iter().map(|&[s0, s1, _, flags, m0, m1, m2, m3]| SkippedStream {
            stream: u16::from_be_bytes([s0, s1]),
            unordered: flags & UNORDERED != 0,
            number: MessageNumber::Mid(Mid(u32::from_be_bytes([m0, m1, m2, m3]))),
        });
        by_ssn.chain(by_mid)
    }

    /// Appends an entry to a list in wire form. All entries of a list have the same kind of number.
    // [8260:2.3.1-4]
    pub fn append(list: &mut Vec<u8>, entry: SkippedStream) {
        list.extend_from_slice(&entry.stream.to_be_bytes());
        match entry.number {
            MessageNumber::Ssn(ssn) => list.extend_from_slice(&ssn.0.to_be_bytes()),
            MessageNumber::Mid(mid) => {
                list.extend_from_slice(&[0, u8::from(entry.unordered) * UNORDERED]);
                list.extend_from_slice(&mid.0.to_be_bytes());
            }
        }
    }

    /// Returns the bytes that an entry takes.
    #[must_use]
    pub const fn entry_len(interleaved: bool) -> usize {
        if interleaved { 8 } else { 4 }
    }

    fn wire_bytes(self) -> &'a [u8] {
        match self.0 {
            Entries::Ssn(entries) => entries.as_flattened(),
            Entries::Mid(entries) => entries.as_flattened(),
        }
    }
}

/// Returns how many entries of this length fit into a chunk.
const fn most(entry_len: usize) -> usize {
    (MAX_CHUNK_VALUE_LEN - TSN_LEN) / entry_len
}

impl<'a> ForwardTsn<'a> {
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let (tsn, streams) = value.split_first_chunk()?;
        streams.len().is_multiple_of(4).then_some(ForwardTsn {
            new_cumulative_tsn: Tsn(u32::from_be_bytes(*tsn)),
            skipped: SkippedStreams::from_wire_bytes(streams),
        })
    }

    // [8260:2.3.1-3]
    pub(super) fn decode_interleaved(value: &'a [u8]) -> Option<Self> {
        let (tsn, streams) = value.split_first_chunk()?;
        streams.len().is_multiple_of(8).then_some(ForwardTsn {
            new_cumulative_tsn: Tsn(u32::from_be_bytes(*tsn)),
            skipped: SkippedStreams::interleaved(streams),
        })
    }

    pub(super) fn chunk_type(&self) -> ChunkType {
        if self.skipped.is_interleaved() {
            ChunkType::I_FORWARD_TSN
        } else {
            ChunkType::FORWARD_TSN
        }
    }

    pub(super) fn value_len(&self) -> usize {
        TSN_LEN + self.skipped.wire_bytes().len()
    }

    // [8260:2.3.1-2]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&chunk_header(self.chunk_type(), 0, self.value_len()));
        out.extend_from_slice(&self.new_cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(self.skipped.wire_bytes());
    }
}
