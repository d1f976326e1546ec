//! Parameters of INIT, INIT ACK, HEARTBEAT and HEARTBEAT ACK: RFC 9260 §3.2.1, §3.3.2.1, §3.3.3.1, §3.3.5; of authentication,
//! RFC 4895 §3; of ASCONF and ASCONF-ACK, RFC 5061 §4.2; of RE-CONFIG, RFC 6525 §4; of zero checksums, RFC 9653 §4; of DTLS chunks, draft-ietf-tsvwg-sctp-dtls-chunk.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::UnknownAction;
use crate::cause::Causes;
use crate::key_management::KeyManagement;
use crate::number::Tsn;
use crate::tlv::{self, NumberList, RawTlv, RawTlvs, TlvError};

/// Parameter types that this crate supports.
pub mod parameter_type {
    /// Heartbeat Info, §3.3.5.
    pub const HEARTBEAT_INFO: u16 = 1;
    /// IPv4 Address, §3.3.2.1.1.
    pub const IPV4_ADDRESS: u16 = 5;
    /// IPv6 Address, §3.3.2.1.2.
    pub const IPV6_ADDRESS: u16 = 6;
    /// State Cookie, §3.3.3.1.1.
    pub const STATE_COOKIE: u16 = 7;
    /// Unrecognized Parameter, §3.3.3.1.2.
    pub const UNRECOGNIZED_PARAMETER: u16 = 8;
    /// Cookie Preservative, §3.3.2.1.3.
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    /// Host Name Address (deprecated), §3.3.2.1.4.
    pub const HOST_NAME_ADDRESS: u16 = 11;
    /// Supported Address Types, §3.3.2.1.5.
    pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    /// Outgoing SSN Reset Request, RFC 6525 §4.1.
    pub const OUTGOING_RESET: u16 = 13;
    /// Incoming SSN Reset Request, RFC 6525 §4.2.
    pub const INCOMING_RESET: u16 = 14;
    /// SSN/TSN Reset Request, RFC 6525 §4.3.
    pub const TSN_RESET: u16 = 15;
    /// Re-configuration Response, RFC 6525 §4.4.
    pub const RECONFIG_RESPONSE: u16 = 16;
    /// Add Outgoing Streams Request, RFC 6525 §4.5.
    pub const ADD_OUTGOING_STREAMS: u16 = 17;
    /// Add Incoming Streams Request, RFC 6525 §4.6.
    pub const ADD_INCOMING_STREAMS: u16 = 18;
    /// ECN Capable, RFC 4960 Appendix A.
    pub const ECN_CAPABLE: u16 = 0x8000;
    /// Zero Checksum Acceptable, RFC 9653 §4.
    pub const ZERO_CHECKSUM_ACCEPTABLE: u16 = 0x8001;
    /// Random, RFC 4895 §3.1.
    pub const RANDOM: u16 = 0x8002;
    /// Chunk List, RFC 4895 §3.2.
    pub const CHUNK_LIST: u16 = 0x8003;
    /// Requested HMAC Algorithm, RFC 4895 §3.3.
    pub const HMAC_ALGORITHMS: u16 = 0x8004;
    /// DTLS Key Management, draft-ietf-tsvwg-sctp-dtls-chunk.
    pub const DTLS_KEY_MANAGEMENT: u16 = 0x8006;
    /// Supported Extensions, RFC 5061 §4.2.7.
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    /// Forward-TSN-Supported, RFC 3758 §3.1.
    pub const FORWARD_TSN_SUPPORTED: u16 = 0xc000;
    /// Add IP Address, RFC 5061 §4.2.1.
    pub const ADD_IP: u16 = 0xc001;
    /// Delete IP Address, RFC 5061 §4.2.2.
    pub const DELETE_IP: u16 = 0xc002;
    /// Error Cause Indication, RFC 5061 §4.2.3.
    pub const ERROR_CAUSE_INDICATION: u16 = 0xc003;
    /// Set Primary IP Address, RFC 5061 §4.2.4.
    pub const SET_PRIMARY: u16 = 0xc004;
    /// Success Indication, RFC 5061 §4.2.5.
    pub const SUCCESS: u16 = 0xc005;
    /// Adaptation Layer Indication, RFC 5061 §4.2.6.
    pub const ADAPTATION_LAYER: u16 = 0xc006;
    /// TIMESTAMP chunks are supported; not in an RFC.
    pub const TIMESTAMPS: u16 = 0xbe01;
    /// Congestion indications of routers are echoed with each SACK (Shishir 2000); not in an RFC.
    pub const ECI_CAPABLE: u16 = 0xbe02;
    /// NEW GAPS chunks are supported; not in an RFC.
    pub const NEW_GAPS: u16 = 0xbe03;
    /// SACKs return the timestamps of several packets, and each timestamp is used for one packet; not in an RFC.
    pub const REPEATED_TIMESTAMPS: u16 = 0xbe04;
}

/// Alternate error detection methods (RFC 9653 §8).
pub mod error_detection_method {
    /// SCTP over DTLS, RFC 8261.
    pub const DTLS: u32 = 1;
}

/// Results of a request of RE-CONFIG (RFC 6525 §4.4).
pub mod reconfig_result {
    /// Success: nothing to do.
    pub const NOTHING_TO_DO: u32 = 0;
    /// Success.
    pub const PERFORMED: u32 = 1;
    /// The receiver is not willing.
    pub const DENIED: u32 = 2;
    /// A stream number is wrong.
    pub const WRONG_SSN: u32 = 3;
    /// Another request is in progress.
    pub const ALREADY_IN_PROGRESS: u32 = 4;
    /// The number of the request is wrong.
    pub const BAD_SEQUENCE_NUMBER: u32 = 5;
    /// The request will be performed.
    pub const IN_PROGRESS: u32 = 6;
}

/// A parameter that this crate does not support. [`RawParameter::action`] is the action of RFC 9260 §3.2.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawParameter<'a>(RawTlv<'a>);

impl<'a> RawParameter<'a> {
    /// Parses one parameter in wire form; `None` if the length field disagrees with `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        RawTlv::from_bytes(bytes).map(Self)
    }

    /// Returns the parameter type.
    #[must_use]
    pub fn parameter_type(self) -> u16 {
        self.0.tlv_type()
    }

    /// Returns the value, without type, length and padding.
    #[must_use]
    pub fn value(self) -> &'a [u8] {
        self.0.value()
    }

    /// Returns type, length and value, without padding: the content of a report of an unrecognized parameter (§3.2.2).
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0.bytes()
    }

    /// Returns the action for an unrecognized type (§3.2.1).
    #[must_use]
    pub fn action(self) -> UnknownAction {
        UnknownAction::of_parameter_type(self.parameter_type())
    }

    /// Parses the value according to the type.
    ///
    /// # Errors
    /// Returns [`TlvError::BadValue`] if a known type has a value of the wrong size.
    // [9260:3.2.1-4, 3.2.1-5]
    pub fn decode(self) -> Result<Parameter<'a>, TlvError> {
        Parameter::decode(self)
    }
}

/// One parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Parameter<'a> {
    /// An address of the sender (5): 4 bytes.
    Ipv4(Ipv4Addr),
    /// An address of the sender (6): 16 bytes.
    Ipv6(Ipv6Addr),
    /// State Cookie, which the peer returns in COOKIE ECHO (7).
    StateCookie(&'a [u8]),
    /// An unrecognized parameter of the peer's INIT (8), complete with type and length.
    Unrecognized(&'a [u8]),
    /// Requests a longer lifetime of the State Cookie (9).
    CookiePreservative {
        /// Milliseconds to add to the default lifetime.
        increment_ms: u32,
    },
    /// A host name (11). Deprecated: never sent; received ones are answered with ABORT.
    HostName(&'a [u8]),
    /// Address types that the sender supports (12), as parameter types.
    SupportedAddressTypes(NumberList<'a>),
    /// The sender supports ECNE and CWR (0x8000).
    EcnCapable,
    /// The sender accepts packets with a checksum of zero that are protected by this alternate error detection method (0x8001).
    ZeroChecksumAcceptable {
        /// The method (EDMID), see [`error_detection_method`].
        method: u32,
    },
    /// The sender supports and requests TIMESTAMP chunks (0xbe01).
    Timestamps,
    /// The sender echoes the congestion indications of routers (0xbe02).
    EciCapable,
    /// The sender supports and requests NEW GAPS chunks (0xbe03).
    NewGaps,
    /// The sender supports and requests SACKs that return the timestamps of several packets (0xbe04).
    RepeatedTimestamps,
    /// Random bytes, from which the association's key is derived (0x8002).
    Random(&'a [u8]),
    /// Chunk types that the sender accepts only if they are authenticated (0x8003), one byte each.
    ChunkList(&'a [u8]),
    /// HMAC identifiers that the sender supports (0x8004), in order of preference.
    HmacAlgorithms(NumberList<'a>),
    /// The sender supports DTLS chunks (0x8006), with these ways to agree on keys.
    DtlsKeyManagement(KeyManagement<'a>),
    /// Chunk types of extensions that the sender supports (0x8008), one byte each.
    SupportedExtensions(&'a [u8]),
    /// The sender supports FORWARD TSN chunks (0xc000).
    ForwardTsnSupported,
    /// Request to add this address to the association (0xc001).
    AddIp {
        /// Correlates the response.
        correlation: u32,
        /// The address; all zeros: the source address of the packet.
        address: IpAddr,
    },
    /// Request to delete this address from the association (0xc002).
    DeleteIp {
        /// Correlates the response.
        correlation: u32,
        /// The address; all zeros: all except the source address of the packet.
        address: IpAddr,
    },
    /// Error of a request (0xc003).
    ErrorCauseIndication {
        /// Correlates the request.
        correlation: u32,
        /// The causes.
        causes: Causes<'a>,
    },
    /// Request to use this address as the primary one (0xc004).
    SetPrimary {
        /// Correlates the response.
        correlation: u32,
        /// The address; all zeros: the source address of the packet.
        address: IpAddr,
    },
    /// Success of a request (0xc005).
    Success {
        /// Correlates the request.
        correlation: u32,
    },
    /// Adaptation layer indication (0xc006).
    AdaptationLayer {
        /// Code point of the upper layers.
        indication: u32,
    },
    /// The sender resets the numbers of its messages on these streams, or on all if none is listed (13).
    OutgoingReset {
        /// Number of the request.
        request: u32,
        /// The peer's request that this one answers, or its latest one.
        response: u32,
        /// The last TSN that the sender has assigned.
        last_tsn: Tsn,
        /// The streams.
        streams: NumberList<'a>,
    },
    /// Asks the receiver to reset its numbers on these streams, or on all if none is listed (14).
    IncomingReset {
        /// Number of the request.
        request: u32,
        /// The streams.
        streams: NumberList<'a>,
    },
    /// Asks for new TSNs and numbers of messages in both directions (15).
    TsnReset {
        /// Number of the request.
        request: u32,
    },
    /// Answers a request (16).
    ReconfigResponse {
        /// Number of the request.
        response: u32,
        /// The result, see [`reconfig_result`].
        result: u32,
        /// The next TSN of the sender, and that of the receiver, if the request was [`Parameter::TsnReset`].
        next_tsns: Option<(Tsn, Tsn)>,
    },
    /// Asks for more streams from the sender to the receiver (17).
    AddOutgoingStreams {
        /// Number of the request.
        request: u32,
        /// Streams to add.
        count: u16,
    },
    /// Asks for more streams from the receiver to the sender (18).
    AddIncomingStreams {
        /// Number of the request.
        request: u32,
        /// Streams to add.
        count: u16,
    },
    /// Heartbeat info; its format is private to the sender of the HEARTBEAT (1).
    HeartbeatInfo(&'a [u8]),
    /// Any other type.
    Unknown(RawParameter<'a>),
}

impl<'a> Parameter<'a> {
    fn decode(raw: RawParameter<'a>) -> Result<Self, TlvError> {
        let value = raw.value();
        let bad_value = raw.0.bad_value();
        let number = || value.try_into().map(u32::from_be_bytes).map_err(|_| bad_value);
        Ok(match raw.parameter_type() {
            parameter_type::HEARTBEAT_INFO => Self::HeartbeatInfo(value),
            parameter_type::IPV4_ADDRESS => {
                let octets: [u8; 4] = value.try_into().map_err(|_| bad_value)?;
                Self::Ipv4(octets.into())
            }
            parameter_type::IPV6_ADDRESS => {
                let octets: [u8; 16] = value.try_into().map_err(|_| bad_value)?;
                Self::Ipv6(octets.into())
            }
            parameter_type::STATE_COOKIE => Self::StateCookie(value),
            parameter_type::UNRECOGNIZED_PARAMETER => Self::Unrecognized(value),
            parameter_type::COOKIE_PRESERVATIVE => Self::CookiePreservative {
                increment_ms: number()?,
            },
            parameter_type::HOST_NAME_ADDRESS => Self::HostName(value),
            parameter_type::SUPPORTED_ADDRESS_TYPES if value.len().is_multiple_of(2) => {
                Self::SupportedAddressTypes(NumberList::from_wire_bytes(value))
            }
            parameter_type::SUPPORTED_ADDRESS_TYPES => return Err(bad_value),
            parameter_type::ECN_CAPABLE if value.is_empty() => Self::EcnCapable,
            parameter_type::ECN_CAPABLE => return Err(bad_value),
            parameter_type::ZERO_CHECKSUM_ACCEPTABLE => Self::ZeroChecksumAcceptable { method: number()? },
            parameter_type::TIMESTAMPS if value.is_empty() => Self::Timestamps,
            parameter_type::ECI_CAPABLE if value.is_empty() => Self::EciCapable,
            parameter_type::NEW_GAPS if value.is_empty() => Self::NewGaps,
            parameter_type::REPEATED_TIMESTAMPS if value.is_empty() => Self::RepeatedTimestamps,
            parameter_type::FORWARD_TSN_SUPPORTED if value.is_empty() => Self::ForwardTsnSupported,
            parameter_type::TIMESTAMPS
            | parameter_type::ECI_CAPABLE
            | parameter_type::NEW_GAPS
            | parameter_type::REPEATED_TIMESTAMPS
            | parameter_type::FORWARD_TSN_SUPPORTED => return Err(bad_value),
            parameter_type::RANDOM => Self::Random(value),
            parameter_type::CHUNK_LIST => Self::ChunkList(value),
            parameter_type::HMAC_ALGORITHMS if value.len().is_multiple_of(2) => {
                Self::HmacAlgorithms(NumberList::from_wire_bytes(value))
            }
            parameter_type::HMAC_ALGORITHMS => return Err(bad_value),
            parameter_type::DTLS_KEY_MANAGEMENT => {
                Self::DtlsKeyManagement(KeyManagement::decode(value).ok_or(bad_value)?)
            }
            parameter_type::SUPPORTED_EXTENSIONS => Self::SupportedExtensions(value),
            parameter_type::ADD_IP => {
                let (correlation, address) = request(value).ok_or(bad_value)?;
                Self::AddIp { correlation, address }
            }
            parameter_type::DELETE_IP => {
                let (correlation, address) = request(value).ok_or(bad_value)?;
                Self::DeleteIp { correlation, address }
            }
            parameter_type::SET_PRIMARY => {
                let (correlation, address) = request(value).ok_or(bad_value)?;
                Self::SetPrimary { correlation, address }
            }
            parameter_type::ERROR_CAUSE_INDICATION => {
                let (correlation, causes) = value.split_first_chunk().ok_or(bad_value)?;
                Self::ErrorCauseIndication {
                    correlation: u32::from_be_bytes(*correlation),
                    causes: Causes::from_wire_bytes(causes),
                }
            }
            parameter_type::SUCCESS => Self::Success { correlation: number()? },
            parameter_type::ADAPTATION_LAYER => Self::AdaptationLayer { indication: number()? },
            parameter_type::OUTGOING_RESET
            | parameter_type::INCOMING_RESET
            | parameter_type::TSN_RESET
            | parameter_type::RECONFIG_RESPONSE
            | parameter_type::ADD_OUTGOING_STREAMS
            | parameter_type::ADD_INCOMING_STREAMS => reconfiguration(raw.parameter_type(), value).ok_or(bad_value)?,
            _ => Self::Unknown(raw),
        })
    }

    /// Returns the parameter type on the wire.
    #[must_use]
    pub fn parameter_type(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => parameter_type::HEARTBEAT_INFO,
            Self::Ipv4(_) => parameter_type::IPV4_ADDRESS,
            Self::Ipv6(_) => parameter_type::IPV6_ADDRESS,
            Self::StateCookie(_) => parameter_type::STATE_COOKIE,
            Self::Unrecognized(_) => parameter_type::UNRECOGNIZED_PARAMETER,
            Self::CookiePreservative { .. } => parameter_type::COOKIE_PRESERVATIVE,
            Self::HostName(_) => parameter_type::HOST_NAME_ADDRESS,
            Self::SupportedAddressTypes(_) => parameter_type::SUPPORTED_ADDRESS_TYPES,
            Self::EcnCapable => parameter_type::ECN_CAPABLE,
            Self::ZeroChecksumAcceptable { .. } => parameter_type::ZERO_CHECKSUM_ACCEPTABLE,
            Self::Timestamps => parameter_type::TIMESTAMPS,
            Self::EciCapable => parameter_type::ECI_CAPABLE,
            Self::NewGaps => parameter_type::NEW_GAPS,
            Self::RepeatedTimestamps => parameter_type::REPEATED_TIMESTAMPS,
            Self::Random(_) => parameter_type::RANDOM,
            Self::ChunkList(_) => parameter_type::CHUNK_LIST,
            Self::HmacAlgorithms(_) => parameter_type::HMAC_ALGORITHMS,
            Self::DtlsKeyManagement(_) => parameter_type::DTLS_KEY_MANAGEMENT,
            Self::SupportedExtensions(_) => parameter_type::SUPPORTED_EXTENSIONS,
            Self::ForwardTsnSupported => parameter_type::FORWARD_TSN_SUPPORTED,
            Self::AddIp { .. } => parameter_type::ADD_IP,
            Self::DeleteIp { .. } => parameter_type::DELETE_IP,
            Self::ErrorCauseIndication { .. } => parameter_type::ERROR_CAUSE_INDICATION,
            Self::SetPrimary { .. } => parameter_type::SET_PRIMARY,
            Self::Success { .. } => parameter_type::SUCCESS,
            Self::AdaptationLayer { .. } => parameter_type::ADAPTATION_LAYER,
            Self::OutgoingReset { .. } => parameter_type::OUTGOING_RESET,
            Self::IncomingReset { .. } => parameter_type::INCOMING_RESET,
            Self::TsnReset { .. } => parameter_type::TSN_RESET,
            Self::ReconfigResponse { .. } => parameter_type::RECONFIG_RESPONSE,
            Self::AddOutgoingStreams { .. } => parameter_type::ADD_OUTGOING_STREAMS,
            Self::AddIncomingStreams { .. } => parameter_type::ADD_INCOMING_STREAMS,
            Self::Unknown(raw) => raw.parameter_type(),
        }
    }

    /// Appends the parameter to a list that starts at a multiple of four in `list` (an empty vector, for one).
    ///
    /// Padding is inserted in front of the parameter if the list needs it, never after it; see [`tlv::append_tlv`]. A value longer
    /// than [`tlv::MAX_TLV_VALUE_LEN`] is truncated.
    // [9653:4-1]
    pub fn emit(&self, list: &mut Vec<u8>) {
        let code = self.parameter_type();
        match self {
            Self::Ipv4(address) => tlv::append(list, code, &address.octets()),
            Self::Ipv6(address) => tlv::append(list, code, &address.octets()),
            Self::StateCookie(value)
            | Self::Unrecognized(value)
            | Self::HostName(value)
            | Self::HeartbeatInfo(value)
            | Self::Random(value)
            | Self::ChunkList(value)
            | Self::SupportedExtensions(value) => tlv::append(list, code, value),
            Self::CookiePreservative { increment_ms } => tlv::append(list, code, &increment_ms.to_be_bytes()),
            Self::HmacAlgorithms(types) | Self::SupportedAddressTypes(types) => {
                tlv::append(list, code, types.wire_bytes())
            }
            Self::DtlsKeyManagement(offer) => offer.emit(code, list),
            Self::EcnCapable
            | Self::Timestamps
            | Self::EciCapable
            | Self::NewGaps
            | Self::RepeatedTimestamps
            | Self::ForwardTsnSupported => {
                tlv::append(list, code, &[]);
            }
            Self::AddIp { correlation, address }
            | Self::DeleteIp { correlation, address }
            | Self::SetPrimary { correlation, address } => {
                let mut inner = Vec::with_capacity(20);
                Parameter::address(*address).emit(&mut inner);
                tlv::append_parts(list, code, &correlation.to_be_bytes(), &inner);
            }
            Self::ErrorCauseIndication { correlation, causes } => {
                let causes = tlv::whole_within(causes.wire_bytes(), tlv::MAX_TLV_VALUE_LEN - 4);
                tlv::append_parts(list, code, &correlation.to_be_bytes(), causes);
            }
            Self::Success { correlation: number }
            | Self::AdaptationLayer { indication: number }
            | Self::ZeroChecksumAcceptable { method: number } => {
                tlv::append(list, code, &number.to_be_bytes());
            }
            Self::OutgoingReset {
                request,
                response,
                last_tsn,
                streams,
            } => {
                let mut fields = Vec::with_capacity(12);
                for field in [*request, *response, last_tsn.0] {
                    fields.extend(field.to_be_bytes());
                }
                tlv::append_parts(list, code, &fields, whole_numbers(*streams, fields.len()));
            }
            Self::IncomingReset { request, streams } => {
                tlv::append_parts(list, code, &request.to_be_bytes(), whole_numbers(*streams, 4));
            }
            Self::TsnReset { request } => tlv::append(list, code, &request.to_be_bytes()),
            Self::ReconfigResponse {
                response,
                result,
                next_tsns,
            } => {
                let mut fields = Vec::with_capacity(16);
                fields.extend(response.to_be_bytes());
                fields.extend(result.to_be_bytes());
                if let Some((own, others)) = next_tsns {
                    fields.extend(own.0.to_be_bytes());
                    fields.extend(others.0.to_be_bytes());
                }
                tlv::append(list, code, &fields);
            }
            Self::AddOutgoingStreams { request, count } | Self::AddIncomingStreams { request, count } => {
                let [c0, c1] = count.to_be_bytes();
                tlv::append_parts(list, code, &request.to_be_bytes(), &[c0, c1, 0, 0]);
            }
            Self::Unknown(raw) => raw.0.emit(list),
        }
    }

    /// Returns the parameter for an address.
    #[must_use]
    pub fn address(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(ip) => Self::Ipv4(ip),
            IpAddr::V6(ip) => Self::Ipv6(ip),
        }
    }
}

/// Returns the numbers of a list that fit into a parameter behind its fields.
fn whole_numbers(list: NumberList<'_>, fields: usize) -> &[u8] {
    let room = (tlv::MAX_TLV_VALUE_LEN - fields) & !1;
    &list.wire_bytes()[..list.wire_bytes().len().min(room)]
}

/// Parses a parameter of RE-CONFIG (RFC 6525 §4).
// [6525:4.1-1, 4.2-1, 4.3-1, 4.4-1, 4.4-2, 4.5-1, 4.5-2, 4.6-1, 4.6-2]
fn reconfiguration(code: u16, value: &[u8]) -> Option<Parameter<'_>> {
    let number = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes);
    let (first, rest) = value.split_first_chunk()?;
    let request = number(first);
    let is_whole = rest.len().is_multiple_of(2);
    Some(match code {
        parameter_type::OUTGOING_RESET if is_whole => {
            let (response, rest) = rest.split_first_chunk()?;
            let (last_tsn, streams) = rest.split_first_chunk()?;
            Parameter::OutgoingReset {
                request,
                response: number(response),
                last_tsn: Tsn(number(last_tsn)),
                streams: NumberList::from_wire_bytes(streams),
            }
        }
        parameter_type::INCOMING_RESET if is_whole => Parameter::IncomingReset {
            request,
            streams: NumberList::from_wire_bytes(rest),
        },
        parameter_type::TSN_RESET if rest.is_empty() => Parameter::TsnReset { request },
        parameter_type::RECONFIG_RESPONSE => {
            let (result, rest) = rest.split_first_chunk()?;
            let next_tsns = match rest.as_chunks() {
                ([], []) => None,
                ([own, others], []) => Some((Tsn(number(own)), Tsn(number(others)))),
                _ => return None,
            };
            Parameter::ReconfigResponse {
                response: request,
                result: number(result),
                next_tsns,
            }
        }
        parameter_type::ADD_OUTGOING_STREAMS | parameter_type::ADD_INCOMING_STREAMS => {
            // Two reserved bytes follow.
            let &[c0, c1, _, _] = rest else { return None };
            let count = u16::from_be_bytes([c0, c1]);
            if code == parameter_type::ADD_OUTGOING_STREAMS {
                Parameter::AddOutgoingStreams { request, count }
            } else {
                Parameter::AddIncomingStreams { request, count }
            }
        }
        _ => return None,
    })
}

/// Parses a request: a correlation identifier and one address parameter.
fn request(value: &[u8]) -> Option<(u32, IpAddr)> {
    let (correlation, address) = value.split_first_chunk()?;
    let mut parameters = Parameters::from_wire_bytes(address).iter();
    let address = match (parameters.next()?, parameters.next()) {
        (Ok(Parameter::Ipv4(ip)), None) => ip.into(),
        (Ok(Parameter::Ipv6(ip)), None) => ip.into(),
        _ => return None,
    };
    Some((u32::from_be_bytes(*correlation), address))
}

/// The parameters of an INIT or INIT ACK, borrowed in wire form.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Borrows a parameter list in wire form, without checks.
    #[must_use]
    pub const fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the list in wire form.
    #[must_use]
    pub const fn wire_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns whether there is no parameter.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the parameters in order. An invalid length is reported once and ends the iteration, an invalid value does not.
    #[must_use]
    pub fn iter(self) -> ParameterIter<'a> {
        ParameterIter(RawTlvs::new(self.bytes))
    }

    /// Returns the undecoded parameters, for callers that need the exact bytes.
    #[must_use]
    pub fn raw(self) -> RawParameterIter<'a> {
        RawParameterIter(RawTlvs::new(self.bytes))
    }

    /// Returns the first State Cookie, if any.
    #[must_use]
    pub fn state_cookie(self) -> Option<&'a [u8]> {
        self.iter().find_map(|parameter| match parameter {
            Ok(Parameter::StateCookie(cookie)) => Some(cookie),
            _ => None,
        })
    }
}

impl<'a> IntoIterator for Parameters<'a> {
    type Item = Result<Parameter<'a>, TlvError>;
    type IntoIter = ParameterIter<'a>;

    fn into_iter(self) -> ParameterIter<'a> {
        self.iter()
    }
}

impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator of [`Parameters::iter`].
#[derive(Clone, Debug)]
pub struct ParameterIter<'a>(RawTlvs<'a>);

impl<'a> Iterator for ParameterIter<'a> {
    type Item = Result<Parameter<'a>, TlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.and_then(|raw| Parameter::decode(RawParameter(raw))))
    }
}

/// Iterator of [`Parameters::raw`].
#[derive(Clone, Debug)]
pub struct RawParameterIter<'a>(RawTlvs<'a>);

impl<'a> Iterator for RawParameterIter<'a> {
    type Item = Result<RawParameter<'a>, TlvError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.0.next()?.map(RawParameter))
    }
}

#[cfg(test)]
mod tests;
