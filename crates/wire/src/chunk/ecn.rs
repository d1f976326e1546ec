//! ECNE (12) and CWR (13), RFC 4960 Appendix A; RFC 9260 §3.2 keeps the types reserved for them.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! | type 12 or 13 |     zero      |           length: 8           |
//! +---------------+---------------+-------------------------------+
//! |         lowest TSN of the packet that was marked CE           |
//! +---------------------------------------------------------------+
//! ```

use crate::number::Tsn;

/// Parses the TSN. usrsctp's ECNE has an additional counter, which is ignored.
pub(super) fn decode(value: &[u8]) -> Option<Tsn> {
    value.first_chunk().map(|tsn| Tsn(u32::from_be_bytes(*tsn)))
}
