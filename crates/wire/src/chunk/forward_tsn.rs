//! FORWARD TSN (192): the sender gives up data, and the receiver moves on (RFC 3758 §3.2).
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

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header};
use crate::number::{Ssn, Tsn};

/// Length of a FORWARD TSN chunk before the streams in bytes, including the chunk header.
pub const FORWARD_TSN_HEADER_LEN: usize = CHUNK_HEADER_LEN + TSN_LEN;

const TSN_LEN: usize = 4;

/// A FORWARD TSN chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// No TSN up to this one will be sent again.
    pub new_cumulative_tsn: Tsn,
    /// The streams whose messages are given up.
    pub skipped: SkippedStreams<'a>,
}

/// Streams, each with the largest stream sequence number that is skipped, borrowed in wire form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStreams<'a> {
    entries: &'a [[u8; 4]],
}

impl<'a> SkippedStreams<'a> {
    /// Borrows a list in wire form, four bytes for each stream; an incomplete last one is ignored.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        let entries = bytes.as_chunks().0;
        let most = (MAX_CHUNK_VALUE_LEN - TSN_LEN) / 4;
        SkippedStreams {
            entries: &entries[..entries.len().min(most)],
        }
    }

    /// Returns each stream with the number that is skipped.
    pub fn iter(self) -> impl Iterator<Item = (u16, Ssn)> + 'a {
        self.entries
            .iter()
            .map(|&[s0, s1, n0, n1]| (u16::from_be_bytes([s0, s1]), Ssn(u16::from_be_bytes([n0, n1]))))
    }

    /// Appends a stream to a list in wire form.
    pub fn append(list: &mut Vec<u8>, stream: u16, ssn: Ssn) {
        let ([s0, s1], [n0, n1]) = (stream.to_be_bytes(), ssn.0.to_be_bytes());
        list.extend_from_slice(&[s0, s1, n0, n1]);
    }
}

impl<'a> ForwardTsn<'a> {
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let (tsn, streams) = value.split_first_chunk()?;
        streams.len().is_multiple_of(4).then_some(ForwardTsn {
            new_cumulative_tsn: Tsn(u32::from_be_bytes(*tsn)),
            skipped: SkippedStreams::from_wire_bytes(streams),
        })
    }

    pub(super) fn value_len(&self) -> usize {
        TSN_LEN + self.skipped.entries.as_flattened().len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&chunk_header(ChunkType::FORWARD_TSN, 0, self.value_len()));
        out.extend_from_slice(&self.new_cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(self.skipped.entries.as_flattened());
    }
}
