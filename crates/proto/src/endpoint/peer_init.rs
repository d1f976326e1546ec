//! Validation of INIT and INIT ACK (RFC 9260 §3.3.2, §3.3.3, §5.1.1, §5.1.2).

use whimbrel_wire::{Cause, Init, NumberList, Parameter, Tsn, UnknownAction, parameter_type};

use super::cookie::AddressList;
use crate::TransportAddr;
use crate::address::listed_address;
use crate::association::KeyVector;
use crate::config::AssociationConfig;
use crate::extensions::Extensions;
use crate::protection::{Offer, negotiate, own_offer};

/// The peer's values from its INIT or INIT ACK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerInit {
    pub(crate) tag: u32,
    pub(crate) rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    pub(crate) initial_tsn: Tsn,
    /// The source address of the packet, followed by the listed addresses.
    pub(crate) addrs: AddressList,
    /// Milliseconds by which the peer asks to extend the life of its cookie (Cookie Preservative).
    pub(crate) preserve_ms: u32,
    /// The peer supports ECN.
    pub(crate) ecn: bool,
    /// Extensions that the peer supports.
    pub(crate) extensions: Extensions,
    /// The peer's authentication parameters, if they are complete.
    pub(crate) auth: Option<KeyVector>,
    /// The peer's offer of DTLS chunks, if it is of use.
    pub(crate) offer: Option<Offer>,
    /// A parameter DTLS Key Management has a value of the wrong length. It is ignored where DTLS chunks are not offered.
    has_bad_offer: bool,
}

/// Maximum bytes of a host name that the error cause contains.
const MAX_SHOWN: usize = 256;

/// The smallest a_rwnd that an INIT or INIT ACK may advertise, in bytes (RFC 9260 §3.3.2).
pub(crate) const MIN_RWND: u32 = 1500;

/// Why an INIT or INIT ACK cannot be accepted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Reply with ABORT and these causes.
    Abort(Vec<u8>),
    /// Reply with ABORT and these causes, but continue a local attempt to connect as if nothing had arrived (RFC 9260
    /// §3.3.3, a_rwnd).
    AbortOnly(Vec<u8>),
    /// Silently discard: there is no tag for a reply.
    Silent,
}

impl PeerInit {
    /// Reads a chunk from `source`; `own` are the local addresses. The caller's `report` wraps each unrecognized parameter that must be reported and
    /// appends it to `unrecognized`.
    // [9260:3.3.2-3, 3.3.2-7, 3.3.2-9, 3.3.2-12, 3.3.2-14, 3.3.2.1.4-2, 3.3.3-2, 5.1.2-2, 5.1.2-8, 5.1.2-9, 5.1.2-10]
    // [9260:5.1.2-1, 5.1.2-11, 3.3.2.1.2-2]
    // [4820:4-3, 4-4, 4-5]
    pub(crate) fn read(
        init: &Init<'_>,
        source: TransportAddr,
        own: &[TransportAddr],
        unrecognized: &mut Vec<u8>,
        report: impl Fn(&[u8], &mut Vec<u8>),
    ) -> Result<PeerInit, Refusal> {
        if init.initiate_tag == 0 {
            // RFC 9260 §3.3.2: the tag must not be zero. Without a tag, no reply is possible.
            return Err(Refusal::Silent);
        }
        let mut invalid = Vec::new();
        Cause::InvalidMandatoryParameter.emit(&mut invalid);
        if init.outbound_streams == 0 || init.inbound_streams == 0 {
            return Err(Refusal::Abort(invalid));
        }
        if init.a_rwnd < MIN_RWND {
            return Err(Refusal::AbortOnly(invalid));
        }
        let mut peer = PeerInit {
            tag: init.initiate_tag,
            rwnd: init.a_rwnd,
            outbound_streams: init.outbound_streams,
            inbound_streams: init.inbound_streams,
            initial_tsn: init.initial_tsn,
            addrs: AddressList::new(),
            preserve_ms: 0,
            ecn: false,
            extensions: Extensions::default(),
            auth: None,
            offer: None,
            has_bad_offer: false,
        };
        // RFC 9260 §5.1.2 A and C: the list always includes the source address.
        peer.addrs.push(source);
        for raw in init.parameters.raw() {
            let Ok(raw) = raw else {
                return Err(Refusal::Abort(violation("a parameter has an impossible length")));
            };
            if raw.parameter_type() == parameter_type::DTLS_KEY_MANAGEMENT && raw.decode().is_err() {
                peer.has_bad_offer = true;
                continue;
            }
            let Ok(parameter) = raw.decode() else {
                return Err(Refusal::Abort(violation("a parameter has a value of the wrong length")));
            };
            match parameter {
                Parameter::Ipv4(ip) => peer.add_address(ip.into(), source, own),
                Parameter::Ipv6(ip) => peer.add_address(ip.into(), source, own),
                Parameter::CookiePreservative { increment_ms } => peer.preserve_ms = increment_ms,
                Parameter::HostName(_) => {
                    // RFC 9260 §5.1.2 B
                    let mut causes = Vec::new();
                    let bytes = raw.bytes();
                    Cause::UnresolvableAddress(&bytes[..bytes.len().min(MAX_SHOWN)]).emit(&mut causes);
                    return Err(Refusal::Abort(causes));
                }
                Parameter::Unknown(raw) => {
                    // RFC 9260 §3.2.1: the two highest bits of the type specify the action.
                    let (stop, reported) = match raw.action() {
                        UnknownAction::Stop => (true, false),
                        UnknownAction::StopAndReport => (true, true),
                        UnknownAction::Skip => (false, false),
                        UnknownAction::SkipAndReport => (false, true),
                    };
                    if reported {
                        report(raw.bytes(), unrecognized);
                    }
                    if stop {
                        break;
                    }
                }
                // Parameters of other chunks, without effect here: handled as unrecognized (RFC 9260 §3.2.1, highest
                // bits 11).
                Parameter::AdaptationLayer { .. } | Parameter::SetPrimary { .. } => report(raw.bytes(), unrecognized),
                Parameter::DtlsKeyManagement(_) => peer.offer = peer.offer.or(Offer::from_bytes(raw.bytes())),
                Parameter::EcnCapable => peer.ecn = true,
                // The caller that expects a cookie reads it. The other parameters need no action.
                other => peer.extensions.take(&other),
            }
        }
        Ok(peer)
    }

    /// Ignores the listed addresses: another layer hides those of the peer (RFC 8261 §6.1).
    pub(crate) fn with_one_address(mut self, source: TransportAddr) -> PeerInit {
        self.addrs = AddressList::new();
        self.addrs.push(source);
        self
    }

    /// Reads the authentication parameters, if the local endpoint supports authentication.
    pub(crate) fn with_auth(mut self, init: &Init<'_>, config: &AssociationConfig) -> Result<PeerInit, Refusal> {
        if config.wants_auth() {
            self.auth = KeyVector::read(init.parameters).map_err(|what| Refusal::Abort(violation(what)))?;
        }
        self.extensions.add(self.auth.is_some(), Extensions::AUTH);
        if self.auth.is_none() && config.auth.is_required() {
            // Removing the parameters, on the path or at the peer, must not disable required authentication.
            let mut causes = Vec::new();
            Cause::MissingMandatoryParameter(NumberList::AUTHENTICATION).emit(&mut causes);
            return Err(Refusal::Abort(causes));
        }
        Ok(self)
    }

    /// Compares the peer's offer of DTLS chunks with that of this end, which has this tie breaker (draft-ietf-tsvwg-sctp-dtls-chunk,
    /// "Establishment of a Protected Association").
    ///
    /// # Errors
    /// Returns an error if DTLS chunks are required and the peer's offer is not compatible, or if both have the same tie breaker.
    // [dtls:5.1-3, 4.3-2]
    pub(crate) fn with_protection(
        mut self,
        config: &AssociationConfig,
        tie_breaker: Option<u32>,
    ) -> Result<Self, Refusal> {
        let Some(own) = tie_breaker.and_then(|tie_breaker| own_offer(&config.protection, tie_breaker)) else {
            self.offer = None;
            return Ok(self);
        };
        if self.has_bad_offer {
            return Err(Refusal::Abort(violation("a parameter has a value of the wrong length")));
        }
        let fit = self
            .offer
            .ok_or(Cause::MissingDtlsSupport)
            .and_then(|peer| negotiate(&own, &peer));
        match fit {
            Ok(_) => {}
            Err(cause) if config.protection.required || cause == Cause::TieBreakerCollision => {
                let mut causes = Vec::new();
                cause.emit(&mut causes);
                return Err(Refusal::Abort(causes));
            }
            // "Loose DTLS mode"
            Err(_) => self.offer = None,
        }
        Ok(self)
    }

    /// Adds a listed address. Addresses that cannot be those of the peer are ignored.
    // [9260:5.1.2-4]
    fn add_address(&mut self, ip: std::net::IpAddr, source: TransportAddr, own: &[TransportAddr]) {
        if let Some(addr) = listed_address(ip, source, own) {
            // A full list ignores further addresses: the peer remains reachable at the others.
            self.addrs.push(addr);
        }
    }
}

fn violation(what: &str) -> Vec<u8> {
    let mut causes = Vec::new();
    Cause::ProtocolViolation(what.as_bytes()).emit(&mut causes);
    causes
}

/// Returns the error cause for an INIT ACK without a cookie (RFC 9260 §3.3.10.2).
pub(crate) fn missing_cookie() -> Vec<u8> {
    let mut causes = Vec::new();
    Cause::MissingMandatoryParameter(NumberList::STATE_COOKIE).emit(&mut causes);
    causes
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_wire::Parameters;

    fn read(parameters: &[u8], change: impl FnOnce(&mut Init<'_>)) -> (Result<PeerInit, Refusal>, Vec<u8>) {
        let mut init = Init {
            initiate_tag: 7,
            a_rwnd: 65_536,
            outbound_streams: 10,
            inbound_streams: 20,
            initial_tsn: Tsn(1),
            parameters: Parameters::from_wire_bytes(parameters),
        };
        change(&mut init);
        let mut unrecognized = Vec::new();
        let source = "10.0.0.1:9899".parse().unwrap();
        let peer = PeerInit::read(&init, source, &[], &mut unrecognized, |raw, out| {
            Parameter::Unrecognized(raw).emit(out)
        });
        (peer, unrecognized)
    }

    fn first_cause(refusal: Result<PeerInit, Refusal>) -> u16 {
        let Err(Refusal::Abort(causes)) = refusal else {
            panic!("expected an ABORT")
        };
        whimbrel_wire::Causes::from_wire_bytes(&causes)
            .iter()
            .next()
            .unwrap()
            .unwrap()
            .code()
    }

    #[test]
    fn the_source_and_the_listed_addresses_are_used_once_each() {
        // RFC 9260 §5.1.2 C
        let mut parameters = Vec::new();
        Parameter::Ipv4([10, 0, 1, 1].into()).emit(&mut parameters);
        Parameter::Ipv4([10, 0, 0, 1].into()).emit(&mut parameters);
        Parameter::Ipv4([224, 0, 0, 1].into()).emit(&mut parameters);
        Parameter::Ipv4([0, 0, 0, 0].into()).emit(&mut parameters);
        let peer = read(&parameters, |_| ()).0.unwrap();
        let expected: Vec<TransportAddr> = vec!["10.0.0.1:9899".parse().unwrap(), "10.0.1.1:9899".parse().unwrap()];
        assert_eq!(peer.addrs.as_slice(), expected);
    }

    #[test]
    fn a_zero_tag_is_silently_discarded_and_zero_streams_are_refused() {
        // RFC 9260 §3.3.2
        assert_eq!(read(&[], |init| init.initiate_tag = 0).0.unwrap_err(), Refusal::Silent);
        assert_eq!(first_cause(read(&[], |init| init.outbound_streams = 0).0), 7);
        assert_eq!(first_cause(read(&[], |init| init.inbound_streams = 0).0), 7);
    }

    #[test]
    fn a_host_name_is_refused() {
        // RFC 9260 §5.1.2 B
        let mut parameters = Vec::new();
        Parameter::HostName(b"example").emit(&mut parameters);
        assert_eq!(first_cause(read(&parameters, |_| ()).0), 5);
    }

    #[test]
    fn unknown_parameters_follow_their_action_bits() {
        // RFC 9260 §3.2.1: 00 stop, 01 stop and report, 10 skip, 11 skip and report
        let address = [0, 5, 0, 8, 10, 0, 1, 1];
        for (high, goes_on, reports) in [
            (0x00, false, false),
            (0x40, false, true),
            (0x80, true, false),
            (0xc0, true, true),
        ] {
            let mut parameters = vec![high, 0x77, 0, 4];
            parameters.extend_from_slice(&address);
            let (peer, unrecognized) = read(&parameters, |_| ());
            assert_eq!(peer.unwrap().addrs.as_slice().len() == 2, goes_on, "{high:#x}");
            assert_eq!(!unrecognized.is_empty(), reports, "{high:#x}");
        }
    }

    #[test]
    fn a_broken_parameter_list_is_refused() {
        assert_eq!(first_cause(read(&[0, 5, 0, 3], |_| ()).0), 13);
        assert_eq!(first_cause(read(&[0, 5, 0, 7, 1, 2, 3], |_| ()).0), 13);
    }
}
