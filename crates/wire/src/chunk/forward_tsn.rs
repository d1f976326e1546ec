//! FORWARD TSN (192): the sender gives up data, and the receiver moves on (RFC 3758 §3.2).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   type 192    |     zero      |       length: 8 + 4N          |
//! +---------------+---------------+-------------------------------+
//! |        new cumulative TSN: no earlier TSN is sent again       |
//! +-------------------------------+-------------------------------+
//! |            stream 1           |   sequence number skipped 1   |
//! +-------------------------------+-------------------------------+
//! |                              ...                              |
//! +-------------------------------+-------------------------------+
//! |            stream N           |   sequence number skipped N   |
//! +-------------------------------+-------------------------------+
//! ```
//!
//! Each stream is listed once, with the largest stream sequence number of its ordered messages that are given up. Unordered messages
//! are not listed.

use super::{CHUNK_HEADER_LEN, ChunkType, chunk_header};
use crate::number::{Ssn, Tsn};

/// Length of a FORWARD TSN chunk before the streams in bytes, including the chunk header.
pub const FORWARD_TSN_HEADER_LEN: usize = CHUNK_HEADER_LEN + 4;

/// Bytes of a stream in the list.
const ENTRY_LEN: usize = 4;

/// A FORWARD TSN chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    /// No TSN up to this one will be sent again.
    pub new_cumulative_tsn: Tsn,
    /// The streams whose messages are given up.
    pub skipped: SkippedStreams<'a>,
}

/// Streams, each with the largest stream sequence number that is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkippedStreams<'a>(&'a [u8]);

impl<'a> SkippedStreams<'a> {
    /// Returns the list with these bytes: four for each stream. Further bytes are ignored.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        let entries = (bytes.len() / ENTRY_LEN).min((usize::from(u16::MAX) - FORWARD_TSN_HEADER_LEN) / ENTRY_LEN);
        SkippedStreams(&bytes[..entries * ENTRY_LEN])
    }

    /// Returns each stream with the number that is skipped.
    pub fn iter(self) -> impl Iterator<Item = (u16, Ssn)> + 'a {
        self.0.chunks_exact(ENTRY_LEN).map(|entry| {
            let word = |at: usize| u16::from_be_bytes([entry[at], entry[at + 1]]);
            (word(0), Ssn(word(2)))
        })
    }

    /// Returns the number of streams.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.len() / ENTRY_LEN
    }

    /// Returns whether no stream is listed.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Appends a stream to the bytes of a list.
    pub fn push(list: &mut Vec<u8>, stream: u16, ssn: Ssn) {
        list.extend_from_slice(&stream.to_be_bytes());
        list.extend_from_slice(&ssn.0.to_be_bytes());
    }
}

impl<'a> ForwardTsn<'a> {
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let (tsn, streams) = value.split_first_chunk::<4>()?;
        (streams.len() % ENTRY_LEN == 0).then_some(ForwardTsn {
            new_cumulative_tsn: Tsn(u32::from_be_bytes(*tsn)),
            skipped: SkippedStreams(streams),
        })
    }

    pub(super) fn value_len(&self) -> usize {
        4 + self.skipped.0.len()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&chunk_header(ChunkType::FORWARD_TSN, 0, self.value_len()));
        out.extend_from_slice(&self.new_cumulative_tsn.0.to_be_bytes());
        out.extend_from_slice(self.skipped.0);
    }
}
