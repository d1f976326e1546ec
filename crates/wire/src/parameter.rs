//! Parameters of INIT, INIT ACK, HEARTBEAT and HEARTBEAT ACK: RFC 9260 §3.2.1, §3.3.2.1, §3.3.3.1, §3.3.5.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::UnknownAction;
use crate::tlv::{self, RawTlv, RawTlvs, TlvError, TypeList};

/// Parameter types that this crate knows.
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
    /// ECN Capable, RFC 4960 Appendix A.
    pub const ECN_CAPABLE: u16 = 0x8000;
}

/// A parameter this crate has no reading for. [`RawParameter::action`] tells what RFC 9260 §3.2.1 asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawParameter<'a>(RawTlv<'a>);

impl<'a> RawParameter<'a> {
    /// Takes one parameter in wire form; `None` when the length field disagrees with `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        RawTlv::from_bytes(bytes).map(Self)
    }

    /// The parameter type.
    #[must_use]
    pub fn parameter_type(self) -> u16 {
        self.0.tlv_type()
    }

    /// The value, without type, length and padding.
    #[must_use]
    pub fn value(self) -> &'a [u8] {
        self.0.value()
    }

    /// Type, length and value, without padding: what a report of an unrecognized parameter carries (§3.2.2).
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.0.bytes()
    }

    /// What to do when the type is not recognized (§3.2.1).
    #[must_use]
    pub fn action(self) -> UnknownAction {
        UnknownAction::of_parameter_type(self.parameter_type())
    }

    /// Reads the value according to the type.
    ///
    /// # Errors
    /// [`TlvError::BadValue`] when a known type has a value of the wrong size.
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
    /// What the sender of INIT ACK wants back in COOKIE ECHO (7).
    StateCookie(&'a [u8]),
    /// A parameter of the peer's INIT that was not recognized (8), complete with type and length.
    Unrecognized(&'a [u8]),
    /// Asks for a longer life of the State Cookie (9).
    CookiePreservative {
        /// Milliseconds to add to the default life.
        increment_ms: u32,
    },
    /// A host name (11). Deprecated: never sent, and answered with ABORT.
    HostName(&'a [u8]),
    /// Address types the sender can use (12), as parameter types.
    SupportedAddressTypes(TypeList<'a>),
    /// The sender understands ECNE and CWR (0x8000).
    EcnCapable,
    /// Opaque to everybody but the sender of a HEARTBEAT (1).
    HeartbeatInfo(&'a [u8]),
    /// Everything else.
    Unknown(RawParameter<'a>),
}

impl<'a> Parameter<'a> {
    fn decode(raw: RawParameter<'a>) -> Result<Self, TlvError> {
        let value = raw.value();
        let bad_value = raw.0.bad_value();
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
            parameter_type::COOKIE_PRESERVATIVE => {
                let increment = value.try_into().map_err(|_| bad_value)?;
                Self::CookiePreservative {
                    increment_ms: u32::from_be_bytes(increment),
                }
            }
            parameter_type::HOST_NAME_ADDRESS => Self::HostName(value),
            parameter_type::SUPPORTED_ADDRESS_TYPES if value.len().is_multiple_of(2) => {
                Self::SupportedAddressTypes(TypeList::from_wire_bytes(value))
            }
            parameter_type::SUPPORTED_ADDRESS_TYPES => return Err(bad_value),
            parameter_type::ECN_CAPABLE if value.is_empty() => Self::EcnCapable,
            parameter_type::ECN_CAPABLE => return Err(bad_value),
            _ => Self::Unknown(raw),
        })
    }

    /// The parameter type on the wire.
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
            Self::Unknown(raw) => raw.parameter_type(),
        }
    }

    /// Appends the parameter to a list that starts at a multiple of four in `list` (an empty vector, for one).
    ///
    /// Padding goes in front of the parameter where the list needs it, never behind; see [`tlv::append_tlv`]. A value
    /// longer than [`tlv::MAX_TLV_VALUE_LEN`] is cut there.
    pub fn emit(&self, list: &mut Vec<u8>) {
        let code = self.parameter_type();
        match self {
            Self::Ipv4(address) => tlv::append(list, code, &address.octets()),
            Self::Ipv6(address) => tlv::append(list, code, &address.octets()),
            Self::StateCookie(value)
            | Self::Unrecognized(value)
            | Self::HostName(value)
            | Self::HeartbeatInfo(value) => tlv::append(list, code, value),
            Self::CookiePreservative { increment_ms } => tlv::append(list, code, &increment_ms.to_be_bytes()),
            Self::SupportedAddressTypes(types) => tlv::append(list, code, types.wire_bytes()),
            Self::EcnCapable => tlv::append(list, code, &[]),
            Self::Unknown(raw) => raw.0.emit(list),
        }
    }
}

/// The parameters of an INIT or INIT ACK, borrowed in wire form.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Parameters<'a> {
    bytes: &'a [u8],
}

impl<'a> Parameters<'a> {
    /// Borrows a parameter list in wire form. Nothing is checked before it is read.
    #[must_use]
    pub const fn from_wire_bytes(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The list in wire form.
    #[must_use]
    pub const fn wire_bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// Whether there is no parameter.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// The parameters one after the other. A bad length is reported once and ends the iteration, a bad value does not.
    #[must_use]
    pub fn iter(self) -> ParameterIter<'a> {
        ParameterIter(RawTlvs::new(self.bytes))
    }

    /// The same, undecoded: for whoever needs the exact bytes of a parameter that it does know.
    #[must_use]
    pub fn raw(self) -> RawParameterIter<'a> {
        RawParameterIter(RawTlvs::new(self.bytes))
    }

    /// The first State Cookie, if any.
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
