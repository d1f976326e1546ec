//! NR-SACK (16), draft-tuexen-tsvwg-sctp-multipath: a SACK that identifies data beyond gaps that will never be renounced.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    type 16    | K | zero  |I|0|  length: 20 + 4N + 4M + 4X    |
//! +---------------+---------------+-------------------------------+
//! |            cumulative TSN ack: all up to it received          |
//! +---------------------------------------------------------------+
//! |             advertised receiver window, bytes                 |
//! +-------------------------------+-------------------------------+
//! |       gap ack blocks N        |     NR gap ack blocks M       |
//! +-------------------------------+-------------------------------+
//! |       duplicate TSNs X        |             zero              |
//! +-------------------------------+-------------------------------+
//! | N times: first and last offset of a block that may be dropped |
//! +---------------------------------------------------------------+
//! | M times: first and last offset of a block that will be kept   |
//! +---------------------------------------------------------------+
//! |  X times: a duplicate TSN                                     |
//! +---------------------------------------------------------------+
//! ```
//!
//! K and I are those of SACK. The two highest bits of the type are 00: it is sent only to peers that list it in their Supported
//! Extensions (RFC 5061 §4.2.7).

use super::sack::{SackLists, TwoLists, read_flags, two_lists_value_len, write_flags};
use super::{ChunkType, Sack};
use crate::number::Tsn;

/// Length of an NR-SACK before the gap blocks in bytes, including the chunk header.
pub const NR_SACK_HEADER_LEN: usize = super::sack::TWO_LISTS_HEADER_LEN;

/// An NR-SACK chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NrSack<'a> {
    /// All TSNs up to this one were received.
    pub cumulative_tsn_ack: Tsn,
    /// Remaining receiver window, bytes.
    pub a_rwnd: u32,
    /// Blocks received above the Cumulative TSN Ack that may be renounced, blocks that never will be, and duplicate TSNs.
    pub lists: SackLists<'a>,
    /// As in [`Sack`].
    pub congestion_indicated: bool,
    /// As in [`Sack`].
    pub packets: u8,
}

impl<'a> NrSack<'a> {
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
        })
    }

    pub(super) fn value_len(&self) -> usize {
        two_lists_value_len(self.lists)
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let whole = TwoLists {
            cumulative_tsn_ack: self.cumulative_tsn_ack,
            a_rwnd: self.a_rwnd,
            lists: self.lists,
            number: 0,
            flags: write_flags(self.congestion_indicated, self.packets),
        };
        whole.encode(ChunkType::NR_SACK, out);
    }
}
