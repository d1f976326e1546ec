//! INIT (1) and INIT ACK (2), RFC 9260 §3.3.2 and §3.3.3: the same fields, different parameters.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  type 1 or 2  |     zero      |   length: 20 + parameters     |
//! +---------------+---------------+-------------------------------+
//! |          initiate tag: verification tag of the peer           |
//! +---------------------------------------------------------------+
//! |             advertised receiver window, bytes                 |
//! +-------------------------------+-------------------------------+
//! |  outbound streams requested   |  maximum inbound streams      |
//! +-------------------------------+-------------------------------+
//! |                         initial TSN                           |
//! +---------------------------------------------------------------+
//! |  parameters ...                               | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};
use crate::number::Tsn;
use crate::parameter::Parameters;
use crate::tlv;

/// Length of INIT and INIT ACK before the parameters in bytes, including the chunk header.
pub const INIT_HEADER_LEN: usize = 20;

const FIELDS_LEN: usize = INIT_HEADER_LEN - CHUNK_HEADER_LEN;

/// An INIT or INIT ACK chunk. Values that RFC 9260 forbids (tag 0, no streams, a small window) are parsed unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Init<'a> {
    /// Verification Tag that the receiver of this chunk has to send.
    pub initiate_tag: u32,
    /// Receiver window of the sender, bytes.
    pub a_rwnd: u32,
    /// Number of outbound streams requested by the sender (OS).
    pub outbound_streams: u16,
    /// Maximum number of inbound streams of the sender (MIS).
    pub inbound_streams: u16,
    /// First TSN the sender will use.
    pub initial_tsn: Tsn,
    /// Addresses, State Cookie and other parameters.
    pub parameters: Parameters<'a>,
}

impl<'a> Init<'a> {
    // [9260:3.3.3-18]
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let (fields, parameters) = value.split_first_chunk::<FIELDS_LEN>()?;
        let [g0, g1, g2, g3, w0, w1, w2, w3, o0, o1, i0, i1, t0, t1, t2, t3] = *fields;
        Some(Self {
            initiate_tag: u32::from_be_bytes([g0, g1, g2, g3]),
            a_rwnd: u32::from_be_bytes([w0, w1, w2, w3]),
            outbound_streams: u16::from_be_bytes([o0, o1]),
            inbound_streams: u16::from_be_bytes([i0, i1]),
            initial_tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            parameters: Parameters::from_wire_bytes(parameters),
        })
    }

    /// Returns the complete parameters that fit.
    fn parameter_bytes(&self) -> &'a [u8] {
        tlv::whole_within(self.parameters.wire_bytes(), MAX_CHUNK_VALUE_LEN - FIELDS_LEN)
    }

    pub(super) fn value_len(&self) -> usize {
        FIELDS_LEN + self.parameter_bytes().len()
    }

    // [9260:3.3.2-5, 3.3.3-3, 3.3.2.1-1, 3.3.3.1-2]
    pub(super) fn encode(&self, chunk_type: ChunkType, out: &mut Vec<u8>) {
        let parameters = self.parameter_bytes();
        out.extend_from_slice(&chunk_header(chunk_type, 0, FIELDS_LEN + parameters.len()));
        out.extend_from_slice(&self.initiate_tag.to_be_bytes());
        out.extend_from_slice(&self.a_rwnd.to_be_bytes());
        out.extend_from_slice(&self.outbound_streams.to_be_bytes());
        out.extend_from_slice(&self.inbound_streams.to_be_bytes());
        out.extend_from_slice(&self.initial_tsn.0.to_be_bytes());
        out.extend_from_slice(parameters);
        pad_value(parameters.len(), out);
    }
}
