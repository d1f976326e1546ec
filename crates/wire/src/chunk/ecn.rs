//! ECNE (12) and CWR (13), RFC 4960 Appendix A; RFC 9260 §3.2 keeps the types reserved for them.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! | type 12 or 13 |     zero      |        length: 8 or 12        |
//! +---------------+---------------+-------------------------------+
//! |         lowest TSN of the packet that was marked CE           |
//! +---------------------------------------------------------------+
//! |           ECNE: number of marked packets, if present          |
//! +---------------------------------------------------------------+
//! ```
//!
//! The number is that of draft-stewart-tsvwg-sctpecn-05.

use crate::number::Tsn;

/// Parses the TSN.
pub(super) fn decode(value: &[u8]) -> Option<Tsn> {
    value.first_chunk().map(|tsn| Tsn(u32::from_be_bytes(*tsn)))
}

/// Parses the number of marked packets in an ECNE.
pub(super) fn decode_count(value: &[u8]) -> Option<u32> {
    value.get(4..)?.first_chunk().map(|count| u32::from_be_bytes(*count))
}
