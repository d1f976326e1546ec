//! SCTP packets on the wire: RFC 9260 §3, with ECNE, CWR and the ECN-capable parameter of RFC 4960 Appendix A.
//!
//! Parsing borrows: a [`PacketView`] verifies the checksum, [`PacketView::chunks`] iterates over [`Chunk`]s, and lists inside
//! chunks ([`Parameters`], [`Causes`], [`GapBlocks`]) are iterators over the same bytes. Nothing is copied or allocated, and no
//! input causes a panic or an endless loop. Writing uses a [`PacketSink`]: [`ByteSink`] appends bytes, [`OwnedPacket`] stores a
//! packet for a simulator without its zeros.
//!
//! The crate implements formats, not procedures. Values that RFC 9260 forbids but that the format permits (port 0, DATA without
//! user data, INIT bundled with other chunks) are returned; the caller decides.
//!
//! ```
//! use whimbrel_wire::{ByteSink, Checksum, ChecksumField, Chunk, CommonHeader, Data, PacketSink, PacketView};
//! use whimbrel_wire::{MessageNumber, Payload, Ssn, Tsn};
//!
//! let mut bytes = Vec::new();
//! let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
//! sink.begin(CommonHeader { source_port: 5001, destination_port: 5002, verification_tag: 0xfeed_f00d });
//! sink.push(&Chunk::Data(Data {
//!     tsn: Tsn(1),
//!     stream: 0,
//!     number: MessageNumber::Ssn(Ssn(0)),
//!     fsn: 0,
//!     ppid: 0,
//!     unordered: false,
//!     begin: true,
//!     end: true,
//!     immediate: false,
//!     payload: Payload::Bytes(b"curlew"),
//! }));
//! assert_eq!(sink.finish(), 12 + 16 + 8); // the six bytes of user data are padded to eight
//!
//! let packet = PacketView::parse(&bytes, Checksum::Verify)?;
//! assert_eq!(packet.header().verification_tag, 0xfeed_f00d);
//! for chunk in packet.chunks() {
//!     let Chunk::Data(data) = chunk? else { unreachable!("one DATA chunk was written") };
//!     assert_eq!(data.payload, Payload::Bytes(b"curlew"));
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cause;
mod chunk;
mod crc;
pub mod key_management;
mod number;
mod owned;
mod packet;
mod parameter;
mod sink;
pub mod tlv;

pub use cause::{Cause, CauseIter, Causes, RawCause, cause_code};
pub use chunk::{
    ASCONF_HEADER_LEN, AUTH_HEADER_LEN, Asconf, Auth, CHUNK_HEADER_LEN, Chunk, ChunkError, ChunkType, DATA_HEADER_LEN,
    DTLS_HEADER_LEN, Data, Dtls, DuplicateTsnIter, DuplicateTsns, FORWARD_TSN_HEADER_LEN, ForwardTsn, GapBlock,
    GapBlockIter, GapBlocks, HeartbeatInfo, I_DATA_HEADER_LEN, INIT_HEADER_LEN, Init, MAX_CHUNK_VALUE_LEN,
    MAX_DATA_PAYLOAD_LEN, MAX_PACKETS_REPORTED, MAX_RECORD_CONTENT, MIN_RECORD_LEN, NEW_GAPS_HEADER_LEN,
    NR_SACK_HEADER_LEN, NewGaps, NrSack, Payload, RECORD_HEADER_LEN, RawChunk, SACK_HEADER_LEN, Sack, SackLists,
    SkippedStream, SkippedStreams, TIMESTAMP_LEN, Timestamp, UnknownAction, hmac_id, record_header,
};
pub use crc::{crc32c, packet_checksum, stored_checksum};
pub use key_management::KeyManagement;
pub use number::{MessageNumber, Mid, Ssn, Tsn};
pub use owned::OwnedPacket;
pub use packet::{COMMON_HEADER_LEN, Checksum, Chunks, CommonHeader, PacketError, PacketView};
pub use parameter::{
    Parameter, ParameterIter, Parameters, RawParameter, RawParameterIter, error_detection_method, parameter_type,
    reconfig_result,
};
pub use sink::{ByteSink, ChecksumField, PacketSink};
pub use tlv::{NumberList, RawTlv, RawTlvs, TlvError};
