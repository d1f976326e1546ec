//! HEARTBEAT (4) and HEARTBEAT ACK (5), RFC 9260 §3.3.5 and §3.3.6.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  type 4 or 5  |     zero      |       length: 8 + info        |
//! +---------------+---------------+-------------------------------+
//! |   parameter: heartbeat info 1 |       length: 4 + info        |
//! +-------------------------------+-------------------------------+
//! |  opaque, defined by the sender of HEARTBEAT   | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};
use crate::parameter::{RawParameter, parameter_type};
use crate::tlv::{RawTlvs, TLV_HEADER_LEN};

/// The value of the Heartbeat Info parameter. Its format is private to the sender of the HEARTBEAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatInfo<'a>(pub &'a [u8]);

impl<'a> HeartbeatInfo<'a> {
    /// Length before the info in bytes, including the chunk header.
    pub const HEADER_LEN: usize = CHUNK_HEADER_LEN + TLV_HEADER_LEN;

    const MAX_LEN: usize = MAX_CHUNK_VALUE_LEN - TLV_HEADER_LEN;

    // [9260:3.2.1-4]
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let tlv = RawTlvs::new(value).next()?.ok()?;
        let parameter = RawParameter::from_bytes(tlv.bytes())?;
        (parameter.parameter_type() == parameter_type::HEARTBEAT_INFO).then(|| Self(parameter.value()))
    }

    fn info(&self) -> &'a [u8] {
        &self.0[..self.0.len().min(Self::MAX_LEN)]
    }

    pub(super) fn value_len(&self) -> usize {
        TLV_HEADER_LEN + self.info().len()
    }

    pub(super) fn encode(&self, chunk_type: ChunkType, out: &mut Vec<u8>) {
        let info = self.info();
        let value_len = TLV_HEADER_LEN + info.len();
        let ([t0, t1], [l0, l1]) = (
            parameter_type::HEARTBEAT_INFO.to_be_bytes(),
            (value_len as u16).to_be_bytes(),
        );
        out.extend_from_slice(&chunk_header(chunk_type, 0, value_len));
        out.extend_from_slice(&[t0, t1, l0, l1]);
        out.extend_from_slice(info);
        pad_value(value_len, out);
    }
}
