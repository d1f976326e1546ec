//! SHUTDOWN (7), RFC 9260 §3.3.8. SHUTDOWN ACK (8, §3.3.9), SHUTDOWN COMPLETE (14, §3.3.13) and COOKIE ACK
//! (11, §3.3.12) are bare chunk headers; COOKIE ECHO (10, §3.3.11) is a header and the cookie.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |    type 7     |     zero      |           length: 8           |
//! +---------------+---------------+-------------------------------+
//! |            cumulative TSN ack: all up to it received          |
//! +---------------------------------------------------------------+
//!
//! +---------------+-------------+-+-------------------------------+
//! |    type 14    |    zero     |T|           length: 4           |
//! +---------------+-------------+-+-------------------------------+
//! ```

use super::Chunk;
use crate::number::Tsn;

/// Parses the value of SHUTDOWN, which has exactly four bytes.
pub(super) fn decode(value: &[u8]) -> Option<Chunk<'_>> {
    let tsn = value.try_into().ok()?;
    Some(Chunk::Shutdown {
        cumulative_tsn_ack: Tsn(u32::from_be_bytes(tsn)),
    })
}
