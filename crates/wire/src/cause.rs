//! Error causes of ERROR, ABORT and ASCONF-ACK: RFC 9260 §3.3.10, RFC 5061 §4.3, RFC 4895 §4.1,
//! draft-ietf-tsvwg-sctp-dtls-chunk.

use std::fmt;

use crate::number::Tsn;
use crate::parameter::Parameters;
use crate::tlv::{self, NumberList, RawTlv, RawTlvs, TlvError};

/// Cause codes, RFC 9260 §3.3.10.
pub mod cause_code {
    /// Invalid Stream Identifier, §3.3.10.1.
    pub const INVALID_STREAM_IDENTIFIER: u16 = 1;
    /// Missing Mandatory Parameter, §3.3.10.2.
    pub const MISSING_MANDATORY_PARAMETER: u16 = 2;
    /// Stale Cookie, §3.3.10.3.
    pub const STALE_COOKIE: u16 = 3;
    /// Out of Resource, §3.3.10.4.
    pub const OUT_OF_RESOURCE: u16 = 4;
    /// Unresolvable Address, §3.3.10.5.
    pub const UNRESOLVABLE_ADDRESS: u16 = 5;
    /// Unrecognized Chunk Type, §3.3.10.6.
    pub const UNRECOGNIZED_CHUNK_TYPE: u16 = 6;
    /// Invalid Mandatory Parameter, §3.3.10.7.
    pub const INVALID_MANDATORY_PARAMETER: u16 = 7;
    /// Unrecognized Parameters, §3.3.10.8.
    pub const UNRECOGNIZED_PARAMETERS: u16 = 8;
    /// No User Data, §3.3.10.9.
    pub const NO_USER_DATA: u16 = 9;
    /// Cookie Received While Shutting Down, §3.3.10.10.
    pub const COOKIE_RECEIVED_WHILE_SHUTTING_DOWN: u16 = 10;
    /// Restart of an Association with New Addresses, §3.3.10.11.
    pub const RESTART_WITH_NEW_ADDRESSES: u16 = 11;
    /// User-Initiated Abort, §3.3.10.12.
    pub const USER_INITIATED_ABORT: u16 = 12;
    /// Protocol Violation, §3.3.10.13.
    pub const PROTOCOL_VIOLATION: u16 = 13;
    /// Missing DTLS Chunk Support, draft-ietf-tsvwg-sctp-dtls-chunk.
    pub const MISSING_DTLS_SUPPORT: u16 = 100;
    /// No Common DTLS Key Management Method, draft-ietf-tsvwg-sctp-dtls-chunk.
    pub const NO_COMMON_KEY_MANAGEMENT: u16 = 101;
    /// DTLS Key Management Tie Breaker Collision, draft-ietf-tsvwg-sctp-dtls-chunk.
    pub const TIE_BREAKER_COLLISION: u16 = 102;
    /// Incompatible DTLS Key Management Roles, draft-ietf-tsvwg-sctp-dtls-chunk.
    pub const INCOMPATIBLE_ROLES: u16 = 103;
    /// Request to Delete Last Remaining IP Address, RFC 5061 §4.3.1.
    pub const DELETE_LAST_ADDRESS: u16 = 0xa0;
    /// Operation Refused Due to Resource Shortage, RFC 5061 §4.3.2.
    pub const RESOURCE_SHORTAGE: u16 = 0xa1;
    /// Request to Delete Source IP Address, RFC 5061 §4.3.3.
    pub const DELETE_SOURCE_ADDRESS: u16 = 0xa2;
    /// Association Aborted Due to Illegal ASCONF-ACK, RFC 5061 §4.3.4.
    pub const ILLEGAL_ASCONF_ACK: u16 = 0xa3;
    /// Request Refused - No Authorization, RFC 5061 §4.3.5.
    pub const NO_AUTHORIZATION: u16 = 0xa4;
    /// Unsupported HMAC Identifier, RFC 4895 §4.1.
    pub const UNSUPPORTED_HMAC: u16 = 0x0105;
}

/// An error cause with a code that this crate does not support.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawCause<'a>(RawTlv<'a>);

impl<'a> RawCause<'a> {
    /// Parses one cause in wire form; `None` if the length field disagrees with `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        RawTlv::from_bytes(bytes).map(Self)
    }

    /// Returns the cause code.
    // [dtls:4.3-1, 4.3-3, 4.3-5, 4.3-7]
    #[must_use]
    pub fn code(self) -> u16 {
        self.0.tlv_type()
    }

    /// Returns the cause-specific information.
    #[must_use]
    pub fn value(self) -> &'a [u8] {
        self.0.value()
    }

    /// Returns code, length and information, without padding.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0.bytes()
    }
}

/// One error cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause<'a> {
    /// DATA arrived on a stream that does not exist (1).
    InvalidStreamIdentifier {
        /// The stream.
        stream: u16,
    },
    /// INIT or INIT ACK lacks parameters of these types (2).
    MissingMandatoryParameter(NumberList<'a>),
    /// The State Cookie is genuine but too old (3).
    StaleCookie {
        /// Microseconds since it expired, rounded up; 0 if unknown.
        staleness_us: u32,
    },
    /// The sender lacks memory or another resource (4).
    OutOfResource,
    /// An address parameter that cannot be used (5), complete with type and length.
    UnresolvableAddress(&'a [u8]),
    /// An unrecognized chunk (6), complete with type, flags and length.
    UnrecognizedChunkType(&'a [u8]),
    /// A fixed field of INIT or INIT ACK has an invalid value (7).
    InvalidMandatoryParameter,
    /// Unrecognized parameters of an INIT ACK (8).
    UnrecognizedParameters(Parameters<'a>),
    /// A DATA chunk without user data (9).
    NoUserData {
        /// Its TSN.
        tsn: Tsn,
    },
    /// COOKIE ECHO arrived in SHUTDOWN-ACK-SENT (10).
    CookieReceivedWhileShuttingDown,
    /// An INIT for an existing association added new addresses (11), given as address parameters.
    RestartWithNewAddresses(Parameters<'a>),
    /// The peer's user aborted the association (12), with a reason in any format.
    UserInitiatedAbort(&'a [u8]),
    /// A violation that other causes do not cover (13), with information in any format.
    ProtocolViolation(&'a [u8]),
    /// DTLS chunks are required, and the INIT or INIT ACK does not offer them (100).
    MissingDtlsSupport,
    /// The ends have no key management method in common (101).
    NoCommonKeyManagement,
    /// Both ends have chosen the same tie breaker (102).
    TieBreakerCollision,
    /// Both ends can only be the client of the key management, or only the server (103).
    IncompatibleRoles,
    /// An ASCONF would delete the last address (0xa0); with the request.
    DeleteLastAddress(&'a [u8]),
    /// An ASCONF requests more resources than available (0xa1); with the request.
    ResourceShortage(&'a [u8]),
    /// An ASCONF would delete its source address (0xa2); with the request.
    DeleteSourceAddress(&'a [u8]),
    /// An ASCONF-ACK without a matching request (0xa3).
    IllegalAsconfAck,
    /// A request without authorization (0xa4), complete with type and length.
    NoAuthorization(&'a [u8]),
    /// An AUTH chunk with an HMAC that was not negotiated (0x0105).
    UnsupportedHmac {
        /// Its identifier.
        hmac_id: u16,
    },
    /// A code that this crate does not support.
    Unknown(RawCause<'a>),
}

impl<'a> Cause<'a> {
    fn decode(raw: RawCause<'a>) -> Result<Self, TlvError> {
        let value = raw.value();
        let bad_value = raw.0.bad_value();
        Ok(match raw.code() {
            cause_code::INVALID_STREAM_IDENTIFIER => {
                let [s0, s1, _, _]: [u8; 4] = value.try_into().map_err(|_| bad_value)?;
                Self::InvalidStreamIdentifier {
                    stream: u16::from_be_bytes([s0, s1]),
                }
            }
            cause_code::MISSING_MANDATORY_PARAMETER => {
                let (count, types) = value.split_first_chunk().ok_or(bad_value)?;
                let count = u32::from_be_bytes(*count) as usize;
                let types = count.checked_mul(2).and_then(|len| types.get(..len)).ok_or(bad_value)?;
                Self::MissingMandatoryParameter(NumberList::from_wire_bytes(types))
            }
            cause_code::STALE_COOKIE => {
                let staleness = value.try_into().map_err(|_| bad_value)?;
                Self::StaleCookie {
                    staleness_us: u32::from_be_bytes(staleness),
                }
            }
            // These have no information; additional bytes are ignored.
            cause_code::OUT_OF_RESOURCE => Self::OutOfResource,
            cause_code::INVALID_MANDATORY_PARAMETER => Self::InvalidMandatoryParameter,
            cause_code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN => Self::CookieReceivedWhileShuttingDown,
            cause_code::MISSING_DTLS_SUPPORT => Self::MissingDtlsSupport,
            cause_code::NO_COMMON_KEY_MANAGEMENT => Self::NoCommonKeyManagement,
            cause_code::TIE_BREAKER_COLLISION => Self::TieBreakerCollision,
            cause_code::INCOMPATIBLE_ROLES => Self::IncompatibleRoles,
            cause_code::UNRESOLVABLE_ADDRESS => Self::UnresolvableAddress(value),
            cause_code::UNRECOGNIZED_CHUNK_TYPE => Self::UnrecognizedChunkType(value),
            cause_code::UNRECOGNIZED_PARAMETERS => Self::UnrecognizedParameters(Parameters::from_wire_bytes(value)),
            cause_code::NO_USER_DATA => {
                let tsn = value.try_into().map_err(|_| bad_value)?;
                Self::NoUserData {
                    tsn: Tsn(u32::from_be_bytes(tsn)),
                }
            }
            cause_code::RESTART_WITH_NEW_ADDRESSES => Self::RestartWithNewAddresses(Parameters::from_wire_bytes(value)),
            cause_code::USER_INITIATED_ABORT => Self::UserInitiatedAbort(value),
            cause_code::PROTOCOL_VIOLATION => Self::ProtocolViolation(value),
            cause_code::DELETE_LAST_ADDRESS => Self::DeleteLastAddress(value),
            cause_code::RESOURCE_SHORTAGE => Self::ResourceShortage(value),
            cause_code::DELETE_SOURCE_ADDRESS => Self::DeleteSourceAddress(value),
            cause_code::ILLEGAL_ASCONF_ACK => Self::IllegalAsconfAck,
            cause_code::NO_AUTHORIZATION => Self::NoAuthorization(value),
            cause_code::UNSUPPORTED_HMAC => {
                let hmac_id = value.try_into().map_err(|_| bad_value)?;
                Self::UnsupportedHmac {
                    hmac_id: u16::from_be_bytes(hmac_id),
                }
            }
            _ => Self::Unknown(raw),
        })
    }

    /// Returns the cause code on the wire.
    #[must_use]
    pub fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier { .. } => cause_code::INVALID_STREAM_IDENTIFIER,
            Self::MissingMandatoryParameter(_) => cause_code::MISSING_MANDATORY_PARAMETER,
            Self::StaleCookie { .. } => cause_code::STALE_COOKIE,
            Self::OutOfResource => cause_code::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => cause_code::UNRESOLVABLE_ADDRESS,
            Self::UnrecognizedChunkType(_) => cause_code::UNRECOGNIZED_CHUNK_TYPE,
            Self::InvalidMandatoryParameter => cause_code::INVALID_MANDATORY_PARAMETER,
            Self::UnrecognizedParameters(_) => cause_code::UNRECOGNIZED_PARAMETERS,
            Self::NoUserData { .. } => cause_code::NO_USER_DATA,
            Self::CookieReceivedWhileShuttingDown => cause_code::COOKIE_RECEIVED_WHILE_SHUTTING_DOWN,
            Self::RestartWithNewAddresses(_) => cause_code::RESTART_WITH_NEW_ADDRESSES,
            Self::UserInitiatedAbort(_) => cause_code::USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => cause_code::PROTOCOL_VIOLATION,
            Self::MissingDtlsSupport => cause_code::MISSING_DTLS_SUPPORT,
            Self::NoCommonKeyManagement => cause_code::NO_COMMON_KEY_MANAGEMENT,
            Self::TieBreakerCollision => cause_code::TIE_BREAKER_COLLISION,
            Self::IncompatibleRoles => cause_code::INCOMPATIBLE_ROLES,
            Self::DeleteLastAddress(_) => cause_code::DELETE_LAST_ADDRESS,
            Self::ResourceShortage(_) => cause_code::RESOURCE_SHORTAGE,
            Self::DeleteSourceAddress(_) => cause_code::DELETE_SOURCE_ADDRESS,
            Self::IllegalAsconfAck => cause_code::ILLEGAL_ASCONF_ACK,
            Self::NoAuthorization(_) => cause_code::NO_AUTHORIZATION,
            Self::UnsupportedHmac { .. } => cause_code::UNSUPPORTED_HMAC,
            Self::Unknown(raw) => raw.code(),
        }
    }

    /// Returns the name of the cause in RFC 9260; `None` for an unknown one.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        Some(match self {
            Self::InvalidStreamIdentifier { .. } => "invalid stream identifier",
            Self::MissingMandatoryParameter(_) => "missing mandatory parameter",
            Self::StaleCookie { .. } => "stale cookie",
            Self::OutOfResource => "out of resource",
            Self::UnresolvableAddress(_) => "unresolvable address",
            Self::UnrecognizedChunkType(_) => "unrecognized chunk type",
            Self::InvalidMandatoryParameter => "invalid mandatory parameter",
            Self::UnrecognizedParameters(_) => "unrecognized parameters",
            Self::NoUserData { .. } => "no user data",
            Self::CookieReceivedWhileShuttingDown => "cookie received while shutting down",
            Self::RestartWithNewAddresses(_) => "restart of an association with new addresses",
            Self::UserInitiatedAbort(_) => "user-initiated abort",
            Self::ProtocolViolation(_) => "protocol violation",
            Self::MissingDtlsSupport => "missing DTLS chunk support",
            Self::NoCommonKeyManagement => "no common DTLS key management method",
            Self::TieBreakerCollision => "DTLS key management tie breaker collision",
            Self::IncompatibleRoles => "incompatible DTLS key management roles",
            Self::DeleteLastAddress(_) => "request to delete the last address",
            Self::ResourceShortage(_) => "operation refused due to resource shortage",
            Self::DeleteSourceAddress(_) => "request to delete the source address",
            Self::IllegalAsconfAck => "illegal ASCONF-ACK",
            Self::NoAuthorization(_) => "request refused, no authorization",
            Self::UnsupportedHmac { .. } => "unsupported HMAC identifier",
            Self::Unknown(_) => return None,
        })
    }

    /// Appends the cause to a list that starts at a multiple of four in `list` (an empty vector, for one).
    ///
    /// Padding is inserted in front of the cause if the list needs it, never after it; see [`tlv::append_tlv`]. Information longer
    /// than [`tlv::MAX_TLV_VALUE_LEN`] is truncated.
    pub fn emit(&self, list: &mut Vec<u8>) {
        let code = self.code();
        match self {
            Self::InvalidStreamIdentifier { stream } => {
                let [s0, s1] = stream.to_be_bytes();
                tlv::append(list, code, &[s0, s1, 0, 0]);
            }
            Self::MissingMandatoryParameter(types) => {
                // The count has to match the truncated list when a list is too long for one cause.
                const MAX_TYPES: usize = (tlv::MAX_TLV_VALUE_LEN - 4) / 2;
                let count = types.len().min(MAX_TYPES);
                let types = &types.wire_bytes()[..2 * count];
                tlv::append_parts(list, code, &(count as u32).to_be_bytes(), types);
            }
            Self::StaleCookie { staleness_us } => tlv::append(list, code, &staleness_us.to_be_bytes()),
            Self::UnsupportedHmac { hmac_id } => tlv::append(list, code, &hmac_id.to_be_bytes()),
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieReceivedWhileShuttingDown
            | Self::MissingDtlsSupport
            | Self::NoCommonKeyManagement
            | Self::TieBreakerCollision
            | Self::IncompatibleRoles
            | Self::IllegalAsconfAck => {
                tlv::append(list, code, &[]);
            }
            Self::UnrecognizedParameters(parameters) | Self::RestartWithNewAddresses(parameters) => {
                let whole = tlv::whole_within(parameters.wire_bytes(), tlv::MAX_TLV_VALUE_LEN);
                tlv::append(list, code, whole);
            }
            Self::NoUserData { tsn } => tlv::append(list, code, &tsn.0.to_be_bytes()),
            Self::UnresolvableAddress(value)
            | Self::UnrecognizedChunkType(value)
            | Self::UserInitiatedAbort(value)
            | Self::ProtocolViolation(value)
            | Self::DeleteLastAddress(value)
            | Self::ResourceShortage(value)
            | Self::DeleteSourceAddress(value)
            | Self::NoAuthorization(value) => tlv::append(list, code, value),
            Self::Unknown(raw) => raw.0.emit(list),
        }
    }
}

/// The causes of an ERROR or ABORT, borrowed in wire form.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Causes<'a> {
    bytes: &'a [u8],
}

impl<'a> Causes<'a> {
    /// Borrows a list of causes in wire form, without checks.
    #[must_use]
    pub const fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the list in wire form.
    #[must_use]
    pub const fn wire_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether there is no cause.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the causes in order. An invalid length is reported once and ends the iteration, an invalid value does not.
    #[must_use]
    pub fn iter(self) -> CauseIter<'a> {
        CauseIter(RawTlvs::new(self.bytes))
    }
}

impl<'a> IntoIterator for Causes<'a> {
    type Item = Result<Cause<'a>, TlvError>;
    type IntoIter = CauseIter<'a>;

    fn into_iter(self) -> CauseIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Causes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`Causes::iter`].
#[derive(Clone, Debug)]
pub struct CauseIter<'a>(RawTlvs<'a>);

impl<'a> Iterator for CauseIter<'a> {
    type Item = Result<Cause<'a>, TlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.and_then(|raw| Cause::decode(RawCause(raw))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(bytes: &[u8]) -> Result<Cause<'_>, TlvError> {
        let mut causes = Causes::from_wire_bytes(bytes).iter();
        let first = causes.next().expect("one cause");
        assert_eq!(causes.next(), None);
        first
    }

    /// Parses `bytes` as `cause`, and writes `cause` as `bytes`.
    fn both_ways(bytes: &[u8], cause: Cause<'_>) {
        assert_eq!(one(bytes), Ok(cause));
        let mut out = Vec::new();
        cause.emit(&mut out);
        assert_eq!(out, bytes);
    }

    // RFC 9260 §3.3.10.1 to §3.3.10.13, field by field.
    // [dtls:4.3-1, 4.3-3, 4.3-5, 4.3-7]
    #[test]
    fn every_cause_on_the_wire() {
        both_ways(
            &[0, 1, 0, 8, 1, 2, 0, 0],
            Cause::InvalidStreamIdentifier { stream: 0x102 },
        );
        both_ways(
            &[0, 2, 0, 12, 0, 0, 0, 2, 0, 5, 0, 6],
            Cause::MissingMandatoryParameter(NumberList::from_wire_bytes(&[0, 5, 0, 6])),
        );
        both_ways(
            &[0, 2, 0, 10, 0, 0, 0, 1, 0, 7],
            Cause::MissingMandatoryParameter(NumberList::STATE_COOKIE),
        );
        both_ways(&[0, 3, 0, 8, 0, 1, 0, 0], Cause::StaleCookie { staleness_us: 65536 });
        both_ways(&[0, 4, 0, 4], Cause::OutOfResource);
        both_ways(
            &[0, 5, 0, 12, 0, 11, 0, 8, b'h', b'o', b's', b't'],
            Cause::UnresolvableAddress(b"\0\x0b\0\x08host"),
        );
        both_ways(
            &[0, 6, 0, 9, 0xfe, 0, 0, 5, 1],
            Cause::UnrecognizedChunkType(&[0xfe, 0, 0, 5, 1]),
        );
        both_ways(&[0, 7, 0, 4], Cause::InvalidMandatoryParameter);
        both_ways(
            &[0, 8, 0, 12, 0xc0, 0, 0, 8, 1, 2, 3, 4],
            Cause::UnrecognizedParameters(Parameters::from_wire_bytes(&[0xc0, 0, 0, 8, 1, 2, 3, 4])),
        );
        both_ways(&[0, 9, 0, 8, 0, 0, 0, 77], Cause::NoUserData { tsn: Tsn(77) });
        both_ways(&[0, 10, 0, 4], Cause::CookieReceivedWhileShuttingDown);
        both_ways(
            &[0, 11, 0, 12, 0, 5, 0, 8, 10, 0, 0, 1],
            Cause::RestartWithNewAddresses(Parameters::from_wire_bytes(&[0, 5, 0, 8, 10, 0, 0, 1])),
        );
        both_ways(&[0, 12, 0, 7, b'b', b'y', b'e'], Cause::UserInitiatedAbort(b"bye"));
        both_ways(&[0, 13, 0, 4], Cause::ProtocolViolation(b""));
        // draft-ietf-tsvwg-sctp-dtls-chunk, "New Error Causes"
        both_ways(&[0, 100, 0, 4], Cause::MissingDtlsSupport);
        both_ways(&[0, 101, 0, 4], Cause::NoCommonKeyManagement);
        both_ways(&[0, 102, 0, 4], Cause::TieBreakerCollision);
        both_ways(&[0, 103, 0, 4], Cause::IncompatibleRoles);
        // RFC 5061 §4.3, RFC 4895 §4.1
        both_ways(&[0, 0xa0, 0, 6, 1, 2], Cause::DeleteLastAddress(&[1, 2]));
        both_ways(&[0, 0xa1, 0, 6, 1, 2], Cause::ResourceShortage(&[1, 2]));
        both_ways(&[0, 0xa2, 0, 6, 1, 2], Cause::DeleteSourceAddress(&[1, 2]));
        both_ways(&[0, 0xa3, 0, 4], Cause::IllegalAsconfAck);
        both_ways(&[0, 0xa4, 0, 6, 1, 2], Cause::NoAuthorization(&[1, 2]));
        both_ways(&[1, 5, 0, 6, 0, 2], Cause::UnsupportedHmac { hmac_id: 2 });
        let raw = [0, 0xa5, 0, 6, 1, 2];
        both_ways(&raw, Cause::Unknown(RawCause::from_bytes(&raw).expect("length agrees")));
    }

    #[test]
    fn values_of_the_wrong_size() {
        let bad = |tlv_type, value_len| Err(TlvError::BadValue { tlv_type, value_len });
        assert_eq!(one(&[0, 1, 0, 6, 1, 2]), bad(1, 2));
        assert_eq!(one(&[0, 2, 0, 6, 0, 0]), bad(2, 2));
        assert_eq!(one(&[0, 2, 0, 10, 0, 0, 0, 2, 0, 7]), bad(2, 6)); // two announced, one there
        assert_eq!(one(&[0, 2, 0, 8, 0xff, 0xff, 0xff, 0xff]), bad(2, 4));
        assert_eq!(one(&[0, 3, 0, 7, 0, 0, 0]), bad(3, 3));
        assert_eq!(one(&[0, 9, 0, 4]), bad(9, 0));
        assert_eq!(one(&[1, 5, 0, 5, 0]), bad(0x105, 1));
    }

    #[test]
    fn superfluous_information_is_ignored() {
        assert_eq!(one(&[0, 4, 0, 8, 1, 2, 3, 4]), Ok(Cause::OutOfResource));
        assert_eq!(one(&[0, 7, 0, 6, 1, 2]), Ok(Cause::InvalidMandatoryParameter));
    }

    #[test]
    fn too_long_lists_stay_consistent() {
        let types = vec![0; 80_000];
        let mut out = Vec::new();
        Cause::MissingMandatoryParameter(NumberList::from_wire_bytes(&types)).emit(&mut out);
        let Ok(Cause::MissingMandatoryParameter(read)) = one(&out) else {
            panic!("must be readable")
        };
        assert_eq!(read.len(), (65535 - 8) / 2);

        let parameters = [0xc0, 0x77, 0, 7, 1, 2, 3, 0].repeat(9000);
        out.clear();
        Cause::UnrecognizedParameters(Parameters::from_wire_bytes(&parameters)).emit(&mut out);
        let Ok(Cause::UnrecognizedParameters(read)) = one(&out) else {
            panic!("must be readable")
        };
        assert_eq!(read.iter().filter(Result::is_ok).count(), read.iter().count());
        assert_eq!(read.iter().count(), 8191); // 8191 * 8 - 1 bytes fit into 65531, 8 more do not
    }

    #[test]
    fn names_only_what_it_knows() {
        assert_eq!(Cause::OutOfResource.name(), Some("out of resource"));
        assert_eq!(one(&[0, 99, 0, 4]).map(|cause| cause.name()), Ok(None));
    }
}
