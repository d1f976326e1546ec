//! NEW GAPS (189): a SACK that reports beyond gaps only what is new, and what was renounced (Ye 2004, 6.6, which does not specify
//! the format).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   type 189    | K | zero  |I|E|  length: 20 + 4N + 4R + 4X    |
//! +---------------+---------------+-------------------------------+
//! |            cumulative TSN ack: all up to it received          |
//! +---------------------------------------------------------------+
//! |             advertised receiver window, bytes                 |
//! +-------------------------------+-------------------------------+
//! |       gap ack blocks N        |     renounced blocks R        |
//! +-------------------------------+-------------------------------+
//! |       duplicate TSNs X        |        serial number          |
//! +-------------------------------+-------------------------------+
//! | N times: first and last offset of a received block            |
//! +---------------------------------------------------------------+
//! | R times: first and last offset of a renounced block           |
//! +---------------------------------------------------------------+
//! |  X times: a duplicate TSN                                     |
//! +---------------------------------------------------------------+
//! ```
//!
//! K and I are those of SACK. With the E bit the blocks are all blocks beyond gaps, as in a SACK; without it they add to the blocks
//! reported before. The serial number counts these chunks modulo 2^16, which reveals reordering.
//!
//! It is used only between ends that have negotiated it ([`Parameter::NewGaps`](crate::Parameter::NewGaps)). The two highest bits
//! of the type are 10: other receivers skip it (RFC 9260 §3.2).

use super::sack::{SackLists, TwoLists, read_flags, two_lists_value_len, write_flags};
use super::{ChunkType, Sack};
use crate::number::Tsn;

/// Length of a NEW GAPS chunk before the blocks in bytes, including the chunk header.
pub const NEW_GAPS_HEADER_LEN: usize = super::sack::TWO_LISTS_HEADER_LEN;

/// The E bit.
const EVERYTHING: u8 = 0x01;

/// A NEW GAPS chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewGaps<'a> {
    /// All TSNs up to this one were received.
    pub cumulative_tsn_ack: Tsn,
    /// Remaining receiver window, bytes.
    pub a_rwnd: u32,
    /// Blocks received above the Cumulative TSN Ack, blocks reported before and dropped since, and duplicate TSNs.
    pub lists: SackLists<'a>,
    /// As in [`Sack`].
    pub congestion_indicated: bool,
    /// As in [`Sack`].
    pub packets: u8,
    /// Whether the blocks are all blocks beyond gaps.
    pub everything: bool,
    /// Serial number of these chunks modulo 2^16.
    pub serial: u16,
}

impl<'a> NewGaps<'a> {
    /// Returns the corresponding SACK.
    #[must_use]
    pub fn sack(&self) -> Sack<'a> {
        Sack {
            cumulative_tsn_ack: self.cumulative_tsn_ack,
            a_rwnd: self.a_rwnd,
            gaps: self.lists.first(),
            duplicates: self.lists.duplicates(),
            congestion_indicated: self.congestion_indicated,
            packets: self.packets,
        }
    }

    pub(super) fn decode(flags: u8, value: &'a [u8]) -> Option<Self> {
        let read = TwoLists::decode(flags, value)?;
        let (congestion_indicated, packets) = read_flags(flags);
        Some(Self {
            cumulative_tsn_ack: read.cumulative_tsn_ack,
            a_rwnd: read.a_rwnd,
            lists: read.lists,
            congestion_indicated,
            packets,
            everything: flags & EVERYTHING != 0,
            serial: read.number,
        })
    }

    pub(super) fn value_len(&self) -> usize {
        two_lists_value_len(self.lists)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let everything = if self.everything { EVERYTHING } else { 0 };
        let whole = TwoLists {
            cumulative_tsn_ack: self.cumulative_tsn_ack,
            a_rwnd: self.a_rwnd,
            lists: self.lists,
            number: self.serial,
            flags: write_flags(self.congestion_indicated, self.packets) | everything,
        };
        whole.encode(ChunkType::NEW_GAPS, out);
    }
}
