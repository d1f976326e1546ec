//! Chunks: RFC 9260 §3.2 and §3.3; ECNE and CWR from RFC 4960 Appendix A; AUTH from RFC 4895; ASCONF and ASCONF-ACK from
//! RFC 5061; RE-CONFIG from RFC 6525; DTLS from draft-ietf-tsvwg-sctp-dtls-chunk; FORWARD TSN from RFC 3758; TIMESTAMP for Chen et al. 2011; NR-SACK from draft-tuexen-tsvwg-sctp-multipath; NEW GAPS for Ye 2004.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |     type      |     flags     |   length: 4 + bytes of value  |
//! +---------------+---------------+-------------------------------+
//! |  value ...                                    | 0..3 zeros    |
//! +-----------------------------------------------+---------------+
//! ```
//!
//! The length includes neither the padding of the chunk nor that of its last parameter.

mod asconf;
pub(crate) mod auth;
mod chunk_type;
mod data;
pub(crate) mod dtls;
mod ecn;
mod error;
mod forward_tsn;
mod heartbeat;
mod init;
mod new_gaps;
mod nr_sack;
mod raw;
mod sack;
mod shutdown;
mod timestamp;

pub use asconf::{ASCONF_HEADER_LEN, Asconf};
pub use auth::{AUTH_HEADER_LEN, Auth, hmac_id};
pub use chunk_type::{ChunkType, UnknownAction};
pub use data::{DATA_HEADER_LEN, Data, I_DATA_HEADER_LEN, MAX_DATA_PAYLOAD_LEN, Payload};
pub use dtls::{DTLS_HEADER_LEN, Dtls, MAX_RECORD_CONTENT, MIN_RECORD_LEN, RECORD_HEADER_LEN, record_header};
pub use forward_tsn::{FORWARD_TSN_HEADER_LEN, ForwardTsn, SkippedStream, SkippedStreams};
pub use heartbeat::HeartbeatInfo;
pub use init::{INIT_HEADER_LEN, Init};
pub use new_gaps::{NEW_GAPS_HEADER_LEN, NewGaps};
pub use nr_sack::{NR_SACK_HEADER_LEN, NrSack};
pub use raw::RawChunk;
pub use sack::{
    DuplicateTsnIter, DuplicateTsns, GapBlock, GapBlockIter, GapBlocks, MAX_PACKETS_REPORTED, SACK_HEADER_LEN, Sack,
    SackLists,
};
pub use timestamp::{TIMESTAMP_LEN, Timestamp};

pub(crate) use data::ELIDED;

use thiserror::Error;

use crate::cause::Causes;
use crate::number::Tsn;
use crate::parameter::Parameters;
use crate::tlv;

/// Length of type, flags and length fields before every chunk's value, in bytes (§3.2).
pub const CHUNK_HEADER_LEN: usize = 4;

/// Maximum length of a chunk's value, bytes.
pub const MAX_CHUNK_VALUE_LEN: usize = u16::MAX as usize - CHUNK_HEADER_LEN;

/// The T bit of ABORT and SHUTDOWN COMPLETE (§3.3.7, §3.3.13).
const T_BIT: u8 = 0x01;

/// Why a chunk could not be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChunkError {
    /// Fewer bytes are left than a chunk header needs. The packet ends here.
    #[error("{available} stray bytes where a chunk should be")]
    Truncated {
        /// Remaining bytes.
        available: usize,
    },
    /// The length field is below 4 or exceeds the packet. The packet ends here (§6.10: a partial chunk is dropped).
    #[error("{chunk_type} chunk has length {length}, {available} bytes are left")]
    BadLength {
        /// Type of the chunk.
        chunk_type: ChunkType,
        /// The length field as received.
        length: u16,
        /// Remaining bytes in the packet, from the chunk's type field on.
        available: usize,
    },
    /// The value is too short, too long or inconsistent. The following chunks can still be parsed.
    #[error("{chunk_type} chunk with a value of {value_len} bytes is malformed")]
    Malformed {
        /// Type of the chunk.
        chunk_type: ChunkType,
        /// Bytes of value.
        value_len: usize,
    },
}

/// A chunk, which borrows its parts of variable length.
///
/// Reserved flag bits are ignored when parsed and zero when written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Chunk<'a> {
    /// User data: DATA (0), §3.3.1, or I-DATA (64), RFC 8260 §2.1, depending on its number.
    Data(Data<'a>),
    /// Opens an association (1), §3.3.2. Always alone in its packet.
    Init(Init<'a>),
    /// Answers INIT (2), §3.3.3. Always alone in its packet.
    InitAck(Init<'a>),
    /// Selective acknowledgement (3), §3.3.4.
    Sack(Sack<'a>),
    /// Probes a path (4), §3.3.5.
    Heartbeat(HeartbeatInfo<'a>),
    /// Answers HEARTBEAT (5), §3.3.6.
    HeartbeatAck(HeartbeatInfo<'a>),
    /// Ends the association at once (6), §3.3.7.
    Abort {
        /// The T bit: the packet's Verification Tag is the receiver's own, reflected (§8.5.1).
        tag_reflected: bool,
        /// Reasons, possibly none.
        causes: Causes<'a>,
    },
    /// Asks for a graceful end (7), §3.3.8.
    Shutdown {
        /// All TSNs up to this one were received.
        cumulative_tsn_ack: Tsn,
    },
    /// Answers SHUTDOWN (8), §3.3.9.
    ShutdownAck,
    /// Reports errors that do not end the association (9), §3.3.10.
    Error {
        /// What went wrong.
        causes: Causes<'a>,
    },
    /// Returns the State Cookie of INIT ACK (10), §3.3.11. Always the first chunk of its packet.
    CookieEcho {
        /// The cookie, as it was received.
        cookie: &'a [u8],
    },
    /// Answers COOKIE ECHO (11), §3.3.12.
    CookieAck,
    /// A packet was marked Congestion Experienced (12), RFC 4960 Appendix A.
    Ecne {
        /// Lowest TSN in the marked packet.
        lowest_tsn: Tsn,
        /// Number of marked packets since the last CWR (draft-stewart-tsvwg-sctpecn-05). usrsctp needs it.
        marked: Option<u32>,
    },
    /// The congestion window was reduced in response to ECNE (13), RFC 4960 Appendix A.
    Cwr {
        /// The TSN of the ECNE.
        lowest_tsn: Tsn,
    },
    /// Answers SHUTDOWN ACK (14), §3.3.13. Always alone in its packet.
    ShutdownComplete {
        /// The T bit: the packet's Verification Tag is the receiver's own, reflected (§8.5.1).
        tag_reflected: bool,
    },
    /// Selective acknowledgement with data that is never renounced (16).
    NrSack(NrSack<'a>),
    /// Selective acknowledgement of new data (189).
    NewGaps(NewGaps<'a>),
    /// Authenticates the following chunks (15), RFC 4895 §4.1.
    Auth(Auth<'a>),
    /// Requests a change of addresses (193), RFC 5061 §4.1.1.
    Asconf(Asconf<'a>),
    /// Acknowledges ASCONF (128), RFC 5061 §4.1.2.
    AsconfAck(Asconf<'a>),
    /// Gives up data: FORWARD TSN (192), RFC 3758 §3.2, or I-FORWARD-TSN (194), RFC 8260 §2.3.1, depending on its list.
    ForwardTsn(ForwardTsn<'a>),
    /// Resets or adds streams (130), RFC 6525 §3.1.
    ReConfig {
        /// One or two requests or responses.
        parameters: Parameters<'a>,
    },
    /// Makes the packet longer (132), RFC 4820 §3. Its bytes are ignored when parsed and zero when written.
    Pad {
        /// Bytes after the chunk header.
        len: usize,
    },
    /// The other chunks of the packet, encrypted (65), draft-ietf-tsvwg-sctp-dtls-chunk. Always alone in its packet.
    Dtls(Dtls<'a>),
    /// Departure and arrival times of a packet (190).
    Timestamp(Timestamp),
    /// Any other type; see [`ChunkType::action`].
    Unknown(RawChunk<'a>),
}

impl<'a> Chunk<'a> {
    /// Parses the value of a chunk whose header has been checked.
    // [9260:3.3.2-5, 3.3.3-3]
    // [4820:3-3, 3-4, 3-5]
    #[inline]
    pub(crate) fn decode(raw: RawChunk<'a>) -> Result<Self, ChunkError> {
        let (chunk_type, value) = (raw.chunk_type(), raw.value());
        let malformed = ChunkError::Malformed {
            chunk_type,
            value_len: value.len(),
        };
        let tag_reflected = raw.flags() & T_BIT != 0;
        let chunk = match chunk_type {
            ChunkType::DATA => Data::decode(raw.flags(), value).map(Self::Data),
            ChunkType::I_DATA => Data::decode_interleaved(raw.flags(), value).map(Self::Data),
            ChunkType::SACK => Sack::decode(raw.flags(), value).map(Self::Sack),
            ChunkType::INIT => Init::decode(value).map(Self::Init),
            ChunkType::INIT_ACK => Init::decode(value).map(Self::InitAck),
            ChunkType::HEARTBEAT => HeartbeatInfo::decode(value).map(Self::Heartbeat),
            ChunkType::HEARTBEAT_ACK => HeartbeatInfo::decode(value).map(Self::HeartbeatAck),
            ChunkType::ABORT => Some(Self::Abort {
                tag_reflected,
                causes: Causes::from_wire_bytes(value),
            }),
            ChunkType::SHUTDOWN => shutdown::decode(value),
            ChunkType::SHUTDOWN_ACK => value.is_empty().then_some(Self::ShutdownAck),
            ChunkType::ERROR => Some(Self::Error {
                causes: Causes::from_wire_bytes(value),
            }),
            ChunkType::COOKIE_ECHO => Some(Self::CookieEcho { cookie: value }),
            ChunkType::COOKIE_ACK => value.is_empty().then_some(Self::CookieAck),
            ChunkType::ECNE => ecn::decode(value).map(|lowest_tsn| Self::Ecne {
                lowest_tsn,
                marked: ecn::decode_count(value),
            }),
            ChunkType::CWR => ecn::decode(value).map(|lowest_tsn| Self::Cwr { lowest_tsn }),
            ChunkType::SHUTDOWN_COMPLETE => value.is_empty().then_some(Self::ShutdownComplete { tag_reflected }),
            ChunkType::NR_SACK => NrSack::decode(raw.flags(), value).map(Self::NrSack),
            ChunkType::NEW_GAPS => NewGaps::decode(raw.flags(), value).map(Self::NewGaps),
            ChunkType::AUTH => Auth::decode(value).map(Self::Auth),
            ChunkType::ASCONF => Asconf::decode(value).map(Self::Asconf),
            ChunkType::ASCONF_ACK => Asconf::decode(value).map(Self::AsconfAck),
            ChunkType::FORWARD_TSN => ForwardTsn::decode(value).map(Self::ForwardTsn),
            ChunkType::I_FORWARD_TSN => ForwardTsn::decode_interleaved(value).map(Self::ForwardTsn),
            ChunkType::RE_CONFIG => Some(Self::ReConfig {
                parameters: Parameters::from_wire_bytes(value),
            }),
            ChunkType::PAD => Some(Self::Pad { len: value.len() }),
            ChunkType::DTLS => Dtls::decode(raw.flags(), value).map(Self::Dtls),
            ChunkType::TIMESTAMP => Timestamp::decode(raw.flags(), value).map(Self::Timestamp),
            _ => Some(Self::Unknown(raw)),
        };
        chunk.ok_or(malformed)
    }

    /// Returns the type on the wire.
    #[must_use]
    pub fn chunk_type(&self) -> ChunkType {
        match self {
            Self::Data(data) => data.chunk_type(),
            Self::Init(_) => ChunkType::INIT,
            Self::InitAck(_) => ChunkType::INIT_ACK,
            Self::Sack(_) => ChunkType::SACK,
            Self::Heartbeat(_) => ChunkType::HEARTBEAT,
            Self::HeartbeatAck(_) => ChunkType::HEARTBEAT_ACK,
            Self::Abort { .. } => ChunkType::ABORT,
            Self::Shutdown { .. } => ChunkType::SHUTDOWN,
            Self::ShutdownAck => ChunkType::SHUTDOWN_ACK,
            Self::Error { .. } => ChunkType::ERROR,
            Self::CookieEcho { .. } => ChunkType::COOKIE_ECHO,
            Self::CookieAck => ChunkType::COOKIE_ACK,
            Self::Ecne { .. } => ChunkType::ECNE,
            Self::Cwr { .. } => ChunkType::CWR,
            Self::ShutdownComplete { .. } => ChunkType::SHUTDOWN_COMPLETE,
            Self::NrSack(_) => ChunkType::NR_SACK,
            Self::NewGaps(_) => ChunkType::NEW_GAPS,
            Self::Auth(_) => ChunkType::AUTH,
            Self::Asconf(_) => ChunkType::ASCONF,
            Self::AsconfAck(_) => ChunkType::ASCONF_ACK,
            Self::ForwardTsn(forward_tsn) => forward_tsn.chunk_type(),
            Self::ReConfig { .. } => ChunkType::RE_CONFIG,
            Self::Pad { .. } => ChunkType::PAD,
            Self::Dtls(_) => ChunkType::DTLS,
            Self::Timestamp(_) => ChunkType::TIMESTAMP,
            Self::Unknown(raw) => raw.chunk_type(),
        }
    }

    /// Returns the Chunk Length field: header and value without final padding, bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        CHUNK_HEADER_LEN
            + match self {
                Self::Data(data) => data.value_len(),
                Self::Init(init) | Self::InitAck(init) => init.value_len(),
                Self::Sack(sack) => sack.value_len(),
                Self::Heartbeat(heartbeat) | Self::HeartbeatAck(heartbeat) => heartbeat.value_len(),
                Self::Abort { causes, .. } | Self::Error { causes } => error::value(*causes).len(),
                Self::CookieEcho { cookie } => cookie.len().min(MAX_CHUNK_VALUE_LEN),
                Self::Shutdown { .. } | Self::Ecne { marked: None, .. } | Self::Cwr { .. } => 4,
                Self::Ecne { marked: Some(_), .. } => 8,
                Self::ShutdownAck | Self::CookieAck | Self::ShutdownComplete { .. } => 0,
                Self::NrSack(nr_sack) => nr_sack.value_len(),
                Self::NewGaps(new_gaps) => new_gaps.value_len(),
                Self::Auth(auth) => auth.value_len(),
                Self::Asconf(asconf) | Self::AsconfAck(asconf) => asconf.value_len(),
                Self::ForwardTsn(forward_tsn) => forward_tsn.value_len(),
                Self::ReConfig { parameters } => parameter_bytes(*parameters).len(),
                Self::Pad { len } => (*len).min(MAX_CHUNK_VALUE_LEN),
                Self::Dtls(dtls) => dtls.value_len(),
                Self::Timestamp(_) => TIMESTAMP_LEN - CHUNK_HEADER_LEN,
                Self::Unknown(raw) => raw.value().len(),
            }
    }

    /// Returns the length of the chunk in a packet in bytes, including padding: a multiple of four.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        tlv::padded(self.length())
    }

    /// Appends the chunk with its padding; `out` must start at a multiple of four from the start of the packet.
    // [9260:3.3.7-5, 3.3.13-2]
    // [4820:3-1, 3-2]
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data(data) => data.encode(out),
            Self::Sack(sack) => sack.encode(out),
            Self::Init(init) => init.encode(ChunkType::INIT, out),
            Self::InitAck(init) => init.encode(ChunkType::INIT_ACK, out),
            Self::Heartbeat(heartbeat) => heartbeat.encode(ChunkType::HEARTBEAT, out),
            Self::HeartbeatAck(heartbeat) => heartbeat.encode(ChunkType::HEARTBEAT_ACK, out),
            Self::Abort { tag_reflected, causes } => {
                encode_plain(ChunkType::ABORT, u8::from(*tag_reflected), error::value(*causes), out);
            }
            Self::Shutdown { cumulative_tsn_ack } => {
                encode_plain(ChunkType::SHUTDOWN, 0, &cumulative_tsn_ack.0.to_be_bytes(), out);
            }
            Self::ShutdownAck => encode_plain(ChunkType::SHUTDOWN_ACK, 0, &[], out),
            Self::Error { causes } => encode_plain(ChunkType::ERROR, 0, error::value(*causes), out),
            Self::CookieEcho { cookie } => {
                let cookie = &cookie[..cookie.len().min(MAX_CHUNK_VALUE_LEN)];
                encode_plain(ChunkType::COOKIE_ECHO, 0, cookie, out);
            }
            Self::CookieAck => encode_plain(ChunkType::COOKIE_ACK, 0, &[], out),
            Self::Ecne { lowest_tsn, marked } => {
                let mut value = [0; 8];
                value[..4].copy_from_slice(&lowest_tsn.0.to_be_bytes());
                value[4..].copy_from_slice(&marked.unwrap_or(0).to_be_bytes());
                let len = if marked.is_some() { 8 } else { 4 };
                encode_plain(ChunkType::ECNE, 0, &value[..len], out);
            }
            Self::Cwr { lowest_tsn } => encode_plain(ChunkType::CWR, 0, &lowest_tsn.0.to_be_bytes(), out),
            Self::ShutdownComplete { tag_reflected } => {
                encode_plain(ChunkType::SHUTDOWN_COMPLETE, u8::from(*tag_reflected), &[], out);
            }
            Self::NrSack(nr_sack) => nr_sack.encode(out),
            Self::NewGaps(new_gaps) => new_gaps.encode(out),
            Self::Auth(auth) => auth.encode(out),
            Self::Asconf(asconf) => asconf.encode(ChunkType::ASCONF, out),
            Self::AsconfAck(asconf) => asconf.encode(ChunkType::ASCONF_ACK, out),
            Self::ForwardTsn(forward_tsn) => forward_tsn.encode(out),
            Self::ReConfig { parameters } => {
                encode_plain(ChunkType::RE_CONFIG, 0, parameter_bytes(*parameters), out);
            }
            Self::Pad { len } => {
                let len = (*len).min(MAX_CHUNK_VALUE_LEN);
                out.extend_from_slice(&chunk_header(ChunkType::PAD, 0, len));
                out.resize(out.len() + tlv::padded(len), 0);
            }
            Self::Dtls(dtls) => dtls.encode(out),
            Self::Timestamp(timestamp) => timestamp.encode(out),
            Self::Unknown(raw) => encode_plain(raw.chunk_type(), raw.flags(), raw.value(), out),
        }
    }
}

/// Returns the complete parameters that fit into a chunk that has nothing else.
fn parameter_bytes(parameters: Parameters<'_>) -> &[u8] {
    tlv::whole_within(parameters.wire_bytes(), MAX_CHUNK_VALUE_LEN)
}

/// Returns type, flags and length of a chunk whose value has `value_len` bytes, at most [`MAX_CHUNK_VALUE_LEN`].
fn chunk_header(chunk_type: ChunkType, flags: u8, value_len: usize) -> [u8; CHUNK_HEADER_LEN] {
    debug_assert!(value_len <= MAX_CHUNK_VALUE_LEN);
    let [l0, l1] = ((CHUNK_HEADER_LEN + value_len) as u16).to_be_bytes();
    [chunk_type.0, flags, l0, l1]
}

/// Appends a chunk with this value, with its padding.
fn encode_plain(chunk_type: ChunkType, flags: u8, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&chunk_header(chunk_type, flags, value.len()));
    out.extend_from_slice(value);
    pad_value(value.len(), out);
}

/// Appends the padding after a value of `len` bytes (§3.2).
// [9260:3.2-1, 3.2-2, 3.2-3, 3.3.1-8, 3.3.1-10]
fn pad_value(len: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 3][..len.wrapping_neg() & 3]);
}

#[cfg(test)]
mod tests;
