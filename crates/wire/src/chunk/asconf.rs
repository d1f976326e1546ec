//! ASCONF (193) and ASCONF-ACK (128), RFC 5061 §4.1: changes of addresses.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! | type 193, 128 |     zero      |    length: 8 + parameters     |
//! +---------------+---------------+-------------------------------+
//! |                         serial number                         |
//! +---------------------------------------------------------------+
//! |  parameters ...                               | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```
//!
//! The first parameter of an ASCONF is an address of its sender, by which the association may be found; the requests follow. An
//! ASCONF-ACK contains only responses.

use super::{CHUNK_HEADER_LEN, ChunkType, MAX_CHUNK_VALUE_LEN, chunk_header, pad_value};
use crate::parameter::Parameters;
use crate::tlv;

/// Length of ASCONF and ASCONF-ACK before the parameters in bytes, including the chunk header.
pub const ASCONF_HEADER_LEN: usize = 8;

const FIELDS_LEN: usize = ASCONF_HEADER_LEN - CHUNK_HEADER_LEN;

/// An ASCONF or ASCONF-ACK chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asconf<'a> {
    /// Serial number, or that of the acknowledged ASCONF.
    pub serial: u32,
    /// An address and requests, or responses.
    pub parameters: Parameters<'a>,
}

impl<'a> Asconf<'a> {
    pub(super) fn decode(value: &'a [u8]) -> Option<Self> {
        let (serial, parameters) = value.split_first_chunk()?;
        Some(Asconf {
            serial: u32::from_be_bytes(*serial),
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

    pub(super) fn encode(&self, chunk_type: ChunkType, out: &mut Vec<u8>) {
        out.extend_from_slice(&chunk_header(chunk_type, 0, self.value_len()));
        out.extend_from_slice(&self.serial.to_be_bytes());
        out.extend_from_slice(self.parameter_bytes());
        pad_value(self.value_len(), out);
    }
}
