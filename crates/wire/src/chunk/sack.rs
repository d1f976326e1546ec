//! SACK (3), RFC 9260 §3.3.4.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    type 3     | K | zero  |I|0|      length: 16 + 4N + 4M     |
//! +---------------+---------------+-------------------------------+
//! |            cumulative TSN ack: all up to it received          |
//! +---------------------------------------------------------------+
//! |             advertised receiver window, bytes                 |
//! +-------------------------------+-------------------------------+
//! |       gap ack blocks N        |       duplicate TSNs M        |
//! +-------------------------------+-------------------------------+
//! | N times: first offset of the  | last offset of the block,     |
//! | block, from the cumulative TSN| inclusive                     |
//! +-------------------------------+-------------------------------+
//! |  M times: a duplicate TSN                                     |
//! +---------------------------------------------------------------+
//! ```
//!
//! The I bit is an extension (the RFC has all flags zero): between ends that have negotiated it ([`Parameter::EciCapable`]), it
//! indicates that a router signalled congestion on a packet that this SACK acknowledges. K is the number of packets with DATA since
//! the previous SACK, 3 for three or more, or 0 if the receiver does not report it (DAC: Iyengar, Amer and Stewart 2006, with the
//! bits that FreeBSD's SCTP uses). The bits of other extensions are not used.
//!
//! [`Parameter::EciCapable`]: crate::Parameter::EciCapable

use std::fmt;
use std::iter::Copied;
use std::slice;

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header};
use crate::number::Tsn;

/// Length of a SACK before the gap blocks in bytes, including the chunk header.
pub const SACK_HEADER_LEN: usize = 16;

/// Largest packet count in a SACK.
pub const MAX_PACKETS_REPORTED: u8 = 3;

/// The I bit.
const INDICATED: u8 = 0x02;
/// Position of K.
const PACKETS_SHIFT: u32 = 6;

const FIELDS_LEN: usize = SACK_HEADER_LEN - CHUNK_HEADER_LEN;

/// Maximum number of gap blocks and duplicates in one chunk.
const MAX_ENTRIES: usize = (MAX_CHUNK_VALUE_LEN - FIELDS_LEN) / 4;

/// A run of TSNs that arrived above the Cumulative TSN Ack, as offsets from it, both ends included.
///
/// A received block may have any values, including `start` above `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GapBlock {
    /// Offset of the first TSN.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

impl GapBlock {
    /// Appends the block in wire form.
    pub fn emit(self, out: &mut Vec<u8>) {
        let ([s0, s1], [e0, e1]) = (self.start.to_be_bytes(), self.end.to_be_bytes());
        out.extend_from_slice(&[s0, s1, e0, e1]);
    }

    fn from_wire([s0, s1, e0, e1]: [u8; 4]) -> Self {
        Self {
            start: u16::from_be_bytes([s0, s1]),
            end: u16::from_be_bytes([e0, e1]),
        }
    }
}

/// Gap Ack Blocks, borrowed in wire form.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct GapBlocks<'a> {
    blocks: &'a [[u8; 4]],
}

impl<'a> GapBlocks<'a> {
    /// Borrows blocks in wire form, four bytes each; an incomplete last one is ignored.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        Self {
            blocks: bytes.as_chunks().0,
        }
    }

    /// Returns the blocks in wire form.
    #[must_use]
    pub fn wire_bytes(self) -> &'a [u8] {
        self.blocks.as_flattened()
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn len(self) -> usize {
        self.blocks.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the blocks in the order of the wire.
    #[must_use]
    pub fn iter(self) -> GapBlockIter<'a> {
        GapBlockIter(self.blocks.iter().copied())
    }
}

impl<'a> IntoIterator for GapBlocks<'a> {
    type Item = GapBlock;
    type IntoIter = GapBlockIter<'a>;

    fn into_iter(self) -> GapBlockIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for GapBlocks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`GapBlocks::iter`].
#[derive(Clone, Debug)]
pub struct GapBlockIter<'a>(Copied<slice::Iter<'a, [u8; 4]>>);

impl Iterator for GapBlockIter<'_> {
    type Item = GapBlock;

    #[inline]
    fn next(&mut self) -> Option<GapBlock> {
        self.0.next().map(GapBlock::from_wire)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for GapBlockIter<'_> {
    fn next_back(&mut self) -> Option<GapBlock> {
        self.0.next_back().map(GapBlock::from_wire)
    }
}

impl ExactSizeIterator for GapBlockIter<'_> {}

/// Duplicate TSNs, borrowed in wire form.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct DuplicateTsns<'a> {
    tsns: &'a [[u8; 4]],
}

impl<'a> DuplicateTsns<'a> {
    /// Borrows TSNs in wire form, four bytes each; an incomplete last one is ignored.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        Self {
            tsns: bytes.as_chunks().0,
        }
    }

    /// Appends one TSN in wire form.
    pub fn append(out: &mut Vec<u8>, tsn: Tsn) {
        out.extend_from_slice(&tsn.0.to_be_bytes());
    }

    /// Returns the TSNs in wire form.
    #[must_use]
    pub fn wire_bytes(self) -> &'a [u8] {
        self.tsns.as_flattened()
    }

    /// Returns the number of TSNs.
    #[must_use]
    pub fn len(self) -> usize {
        self.tsns.len()
    }

    /// Returns whether there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.tsns.is_empty()
    }

    /// Returns the TSNs in the order of the wire.
    #[must_use]
    pub fn iter(self) -> DuplicateTsnIter<'a> {
        DuplicateTsnIter(self.tsns.iter().copied())
    }
}

impl<'a> IntoIterator for DuplicateTsns<'a> {
    type Item = Tsn;
    type IntoIter = DuplicateTsnIter<'a>;

    fn into_iter(self) -> DuplicateTsnIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for DuplicateTsns<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`DuplicateTsns::iter`].
#[derive(Clone, Debug)]
pub struct DuplicateTsnIter<'a>(Copied<slice::Iter<'a, [u8; 4]>>);

impl Iterator for DuplicateTsnIter<'_> {
    type Item = Tsn;

    #[inline]
    fn next(&mut self) -> Option<Tsn> {
        self.0.next().map(|bytes| Tsn(u32::from_be_bytes(bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for DuplicateTsnIter<'_> {}

/// Three consecutive lists in wire form: blocks, blocks of another kind, duplicate TSNs.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct SackLists<'a> {
    first: u16,
    second: u16,
    entries: &'a [[u8; 4]],
}

impl<'a> SackLists<'a> {
    /// Borrows lists in wire form, four bytes per entry: `first` blocks, `second` blocks (fewer if there are fewer), and
    /// duplicates.
    #[must_use]
    pub fn from_wire_bytes(bytes: &'a [u8], first: usize, second: usize) -> Self {
        Self::of(bytes.as_chunks().0, first, second)
    }

    /// Creates lists of the entries that fit into one chunk.
    fn of(entries: &'a [[u8; 4]], first: usize, second: usize) -> Self {
        let entries = &entries[..entries.len().min(MAX_ENTRIES - 1)];
        let first = first.min(entries.len());
        Self {
            first: first as u16,
            second: second.min(entries.len() - first) as u16,
            entries,
        }
    }

    /// Returns the first list.
    #[must_use]
    pub fn first(self) -> GapBlocks<'a> {
        GapBlocks {
            blocks: &self.entries[..usize::from(self.first)],
        }
    }

    /// Returns the second list.
    #[must_use]
    pub fn second(self) -> GapBlocks<'a> {
        let rest = &self.entries[usize::from(self.first)..];
        GapBlocks {
            blocks: &rest[..usize::from(self.second)],
        }
    }

    /// Returns the third list.
    #[must_use]
    pub fn duplicates(self) -> DuplicateTsns<'a> {
        DuplicateTsns {
            tsns: &self.entries[usize::from(self.first) + usize::from(self.second)..],
        }
    }

    /// Returns the number of all entries.
    #[must_use]
    pub fn len(self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no entry.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.entries.is_empty()
    }
}

impl fmt::Debug for SackLists<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.first(), self.second(), self.duplicates()).fmt(f)
    }
}

/// The common fields of chunks with two lists of blocks, and their number.
pub(super) struct TwoLists<'a> {
    pub(super) cumulative_tsn_ack: Tsn,
    pub(super) a_rwnd: u32,
    pub(super) lists: SackLists<'a>,
    pub(super) number: u16,
    /// The flags of a SACK, and others.
    pub(super) flags: u8,
}

/// Length of such a chunk before the lists in bytes, including the chunk header.
pub(super) const TWO_LISTS_HEADER_LEN: usize = 20;

impl<'a> TwoLists<'a> {
    /// Parses such a chunk. Bytes after the announced entries are ignored; fewer than announced make the chunk malformed.
    pub(super) fn decode(flags: u8, value: &'a [u8]) -> Option<Self> {
        let (fields, lists) = value.split_first_chunk::<{ TWO_LISTS_HEADER_LEN - CHUNK_HEADER_LEN }>()?;
        let [c0, c1, c2, c3, w0, w1, w2, w3, n0, n1, m0, m1, x0, x1, s0, s1] = *fields;
        let count = |bytes: [u8; 2]| usize::from(u16::from_be_bytes(bytes));
        let (first, second) = (count([n0, n1]), count([m0, m1]));
        let entries = lists.as_chunks().0.get(..first + second + count([x0, x1]))?;
        Some(Self {
            cumulative_tsn_ack: Tsn(u32::from_be_bytes([c0, c1, c2, c3])),
            a_rwnd: u32::from_be_bytes([w0, w1, w2, w3]),
            lists: SackLists::of(entries, first, second),
            number: u16::from_be_bytes([s0, s1]),
            flags,
        })
    }

    pub(super) fn encode(&self, chunk_type: ChunkType, out: &mut Vec<u8>) {
        let mut header = [0; TWO_LISTS_HEADER_LEN];
        header[..4].copy_from_slice(&chunk_header(chunk_type, self.flags, two_lists_value_len(self.lists)));
        header[4..8].copy_from_slice(&self.cumulative_tsn_ack.0.to_be_bytes());
        header[8..12].copy_from_slice(&self.a_rwnd.to_be_bytes());
        header[12..14].copy_from_slice(&self.lists.first.to_be_bytes());
        header[14..16].copy_from_slice(&self.lists.second.to_be_bytes());
        header[16..18].copy_from_slice(&(self.lists.duplicates().len() as u16).to_be_bytes());
        header[18..].copy_from_slice(&self.number.to_be_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(self.lists.entries.as_flattened());
    }
}

/// Returns the length of such a chunk's value in bytes.
pub(super) fn two_lists_value_len(lists: SackLists<'_>) -> usize {
    TWO_LISTS_HEADER_LEN - CHUNK_HEADER_LEN + 4 * lists.len()
}

/// Parses the flags of a SACK: congestion indicated, packets.
pub(super) fn read_flags(flags: u8) -> (bool, u8) {
    (flags & INDICATED != 0, flags >> PACKETS_SHIFT)
}

/// Returns the flags of a SACK.
pub(super) fn write_flags(congestion_indicated: bool, packets: u8) -> u8 {
    let indicated = if congestion_indicated { INDICATED } else { 0 };
    indicated | packets.min(MAX_PACKETS_REPORTED) << PACKETS_SHIFT
}

/// A SACK chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sack<'a> {
    /// All TSNs up to this one were received.
    pub cumulative_tsn_ack: Tsn,
    /// Remaining receiver window, bytes.
    pub a_rwnd: u32,
    /// Blocks received above the Cumulative TSN Ack.
    pub gaps: GapBlocks<'a>,
    /// TSNs received more than once since the last SACK.
    pub duplicates: DuplicateTsns<'a>,
    /// The I bit: a router indicated congestion. Valid only if both ends have negotiated it.
    pub congestion_indicated: bool,
    /// Packets with DATA since the previous SACK, at most [`MAX_PACKETS_REPORTED`], which means that number or more; 0 if not reported.
    pub packets: u8,
}

impl<'a> Sack<'a> {
    /// Parses a SACK. Bytes after the announced blocks and duplicates are ignored; fewer than announced make the chunk malformed.
    #[inline]
    pub(super) fn decode(flags: u8, value: &'a [u8]) -> Option<Self> {
        let (fields, lists) = value.split_first_chunk::<FIELDS_LEN>()?;
        let [c0, c1, c2, c3, w0, w1, w2, w3, n0, n1, m0, m1] = *fields;
        let entries = lists.as_chunks().0;
        let (gaps, rest) = entries.split_at_checked(usize::from(u16::from_be_bytes([n0, n1])))?;
        let duplicates = rest.get(..usize::from(u16::from_be_bytes([m0, m1])))?;
        let (congestion_indicated, packets) = read_flags(flags);
        Some(Self {
            cumulative_tsn_ack: Tsn(u32::from_be_bytes([c0, c1, c2, c3])),
            a_rwnd: u32::from_be_bytes([w0, w1, w2, w3]),
            gaps: GapBlocks { blocks: gaps },
            duplicates: DuplicateTsns { tsns: duplicates },
            congestion_indicated,
            packets,
        })
    }

    /// Returns the blocks and duplicates that fit into one chunk; the last ones are omitted.
    #[inline]
    fn lists(&self) -> (&'a [[u8; 4]], &'a [[u8; 4]]) {
        let gaps = &self.gaps.blocks[..self.gaps.len().min(MAX_ENTRIES)];
        let duplicates = &self.duplicates.tsns[..self.duplicates.len().min(MAX_ENTRIES - gaps.len())];
        (gaps, duplicates)
    }

    pub(super) fn value_len(&self) -> usize {
        let (gaps, duplicates) = self.lists();
        FIELDS_LEN + 4 * (gaps.len() + duplicates.len())
    }

    // [9260:3.3.4-1]
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let (gaps, duplicates) = self.lists();
        let value_len = FIELDS_LEN + 4 * (gaps.len() + duplicates.len());
        let mut header = [0; SACK_HEADER_LEN];
        header[..4].copy_from_slice(&chunk_header(
            ChunkType::SACK,
            write_flags(self.congestion_indicated, self.packets),
            value_len,
        ));
        header[4..8].copy_from_slice(&self.cumulative_tsn_ack.0.to_be_bytes());
        header[8..12].copy_from_slice(&self.a_rwnd.to_be_bytes());
        header[12..14].copy_from_slice(&(gaps.len() as u16).to_be_bytes());
        header[14..].copy_from_slice(&(duplicates.len() as u16).to_be_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(gaps.as_flattened());
        out.extend_from_slice(duplicates.as_flattened());
    }
}
