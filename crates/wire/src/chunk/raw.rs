//! A chunk of an unsupported type, unchanged: RFC 9260 §3.2.

use std::fmt;

use super::{CHUNK_HEADER_LEN, ChunkType, UnknownAction};

/// An unrecognized chunk with its header, without padding. The length field equals the number of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawChunk<'a> {
    bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Parses one chunk without padding. `None` if `bytes` is shorter than a chunk header, disagrees with the length field, or has
    /// a type that this crate supports.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let [chunk_type, _, l0, l1] = *bytes.first_chunk()?;
        let fits = usize::from(u16::from_be_bytes([l0, l1])) == bytes.len();
        (fits && !ChunkType(chunk_type).is_known()).then_some(Self { bytes })
    }

    /// Creates a chunk from `bytes` with a complete header whose length field matches.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the type.
    #[must_use]
    #[inline]
    pub fn chunk_type(self) -> ChunkType {
        ChunkType(self.bytes.first().copied().unwrap_or_default())
    }

    /// Returns the flags.
    #[must_use]
    #[inline]
    pub fn flags(self) -> u8 {
        self.bytes.get(1).copied().unwrap_or_default()
    }

    /// Returns everything after the chunk header.
    #[must_use]
    #[inline]
    pub fn value(self) -> &'a [u8] {
        self.bytes.get(CHUNK_HEADER_LEN..).unwrap_or_default()
    }

    /// Returns header and value: the content of an Unrecognized Chunk Type cause (§3.3.10.6).
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the action for an unrecognized type (§3.2).
    #[must_use]
    pub fn action(self) -> UnknownAction {
        self.chunk_type().action()
    }
}

impl fmt::Debug for RawChunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RawChunk({}, flags {:#04x}, {:02x?})",
            self.chunk_type(),
            self.flags(),
            self.value()
        )
    }
}
