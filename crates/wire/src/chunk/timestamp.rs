//! TIMESTAMP (190): departure and arrival times of a packet (Chen et al. 2011, 3.1.1, which does not specify the format).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |   type 190    |     zero    |R|          length: 12           |
//! +---------------+---------------+-------------------------------+
//! |   microseconds, modulo 2^32: when the packet was sent         |
//! +---------------------------------------------------------------+
//! |   microseconds, modulo 2^32: when it arrived; zero without R  |
//! +---------------------------------------------------------------+
//! ```
//!
//! Without the R bit the times are those of the packet that contains the chunk: the first is the sender's, the second is not known
//! yet. With it they are those of the last data packet in the other direction: the first as sent, the second by the clock of its
//! receiver, which returns both in front of a SACK. The epoch of each clock is arbitrary.
//!
//! If both ends requested it ([`Parameter::RepeatedTimestamps`](crate::Parameter::RepeatedTimestamps)), a SACK returns the times of the
//! last packets, one chunk for each in the order of arrival, and the sender uses each departure time for one packet only.
//!
//! The two highest bits of the type are 10: receivers without support skip the chunk without a report (RFC 9260 §3.2).

use super::{ChunkType, chunk_header};

/// Bytes of a TIMESTAMP chunk.
pub const TIMESTAMP_LEN: usize = 12;

/// The R bit.
const RETURNED: u8 = 0x01;

/// Times of a packet, in microseconds modulo 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// Departure time, by the sender's clock.
    pub sent: u32,
    /// Arrival time, by the receiver's clock, if the receiver returns both; none in the packet itself.
    pub received: Option<u32>,
}

impl Timestamp {
    pub(super) fn decode(flags: u8, value: &[u8]) -> Option<Self> {
        let [s0, s1, s2, s3, r0, r1, r2, r3] = *value.first_chunk()?;
        Some(Timestamp {
            sent: u32::from_be_bytes([s0, s1, s2, s3]),
            received: (flags & RETURNED != 0).then(|| u32::from_be_bytes([r0, r1, r2, r3])),
        })
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let flags = if self.received.is_some() { RETURNED } else { 0 };
        let mut bytes = [0; TIMESTAMP_LEN];
        bytes[..4].copy_from_slice(&chunk_header(ChunkType::TIMESTAMP, flags, TIMESTAMP_LEN - 4));
        bytes[4..8].copy_from_slice(&self.sent.to_be_bytes());
        bytes[8..].copy_from_slice(&self.received.unwrap_or(0).to_be_bytes());
        out.extend_from_slice(&bytes);
    }
}
