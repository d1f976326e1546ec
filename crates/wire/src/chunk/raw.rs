//! A chunk of a type that this crate does not know, as it stands in the packet: RFC 9260 §3.2.

use std::fmt;

use super::{CHUNK_HEADER_LEN, ChunkType, UnknownAction};

/// An unrecognized chunk with its header, without padding. The length field equals the number of bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RawChunk<'a> {
    bytes: &'a [u8],
}

impl<'a> RawChunk<'a> {
    /// Takes exactly one chunk without padding. `None` when `bytes` is shorter than a chunk header, disagrees with
    /// the length field, or has a type that this crate knows.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let [chunk_type, _, l0, l1] = *bytes.first_chunk()?;
        let fits = usize::from(u16::from_be_bytes([l0, l1])) == bytes.len();
        (fits && !ChunkType(chunk_type).is_known()).then_some(Self { bytes })
    }

    /// For `bytes` of at least a chunk header that the length field agrees with.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The type.
    #[must_use]
    #[inline]
    pub fn chunk_type(self) -> ChunkType {
        ChunkType(self.bytes.first().copied().unwrap_or_default())
    }

    /// The flags.
    #[must_use]
    #[inline]
    pub fn flags(self) -> u8 {
        self.bytes.get(1).copied().unwrap_or_default()
    }

    /// Everything behind the chunk header.
    #[must_use]
    #[inline]
    pub fn value(self) -> &'a [u8] {
        self.bytes.get(CHUNK_HEADER_LEN..).unwrap_or_default()
    }

    /// Header and value: what an Unrecognized Chunk Type cause carries (§3.3.10.6).
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// What to do when the type is not recognized (§3.2).
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
