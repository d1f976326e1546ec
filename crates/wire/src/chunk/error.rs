//! ABORT (6) and ERROR (9), RFC 9260 §3.3.7 and §3.3.10: lists of [error causes](crate::Cause).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------------+-+-------------------------------+
//! |  type 6 or 9  |    zero     |T|      length: 4 + causes       |
//! +---------------+-------------+-+-------------------------------+
//! |  causes, each a TLV ...                       | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```
//!
//! The T bit exists only in ABORT: it is set if the Verification Tag of the packet is the one that the receiver itself sends.

use super::MAX_CHUNK_VALUE_LEN;
use crate::cause::Causes;
use crate::tlv;

/// Returns the complete causes that fit into one chunk.
pub(super) fn value(causes: Causes<'_>) -> &[u8] {
    tlv::whole_within(causes.wire_bytes(), MAX_CHUNK_VALUE_LEN)
}
