//! What both ends agree on in INIT and INIT ACK: the role of each end, the key management method, and what the keys are bound to.

use core::fmt;

use whimbrel_wire::{Cause, KeyManagement, Parameter, RawParameter};

use super::ProtectionConfig;

/// The longest parameter in bytes: each of the 255 methods once.
const MAX_OFFER: usize = 264;

/// The role of an end in key management. It does not depend on which end opens the association.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The client. If both ends offer both roles, the one with the smaller tie breaker.
    Client,
    /// The server. If both ends offer both roles, the one with the larger tie breaker.
    Server,
}

impl Role {
    /// Returns the role of the peer.
    #[must_use]
    pub fn other(self) -> Role {
        match self {
            Role::Client => Role::Server,
            Role::Server => Role::Client,
        }
    }
}

/// DTLS Key Management as an end sent it: header and value, without padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    len: u16,
    bytes: [u8; MAX_OFFER],
}

impl fmt::Debug for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parse().fmt(f)
    }
}

impl Offer {
    /// Returns the offer in these bytes; `None` if they are not one, or too long.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut offer = Offer {
            len: u16::try_from(bytes.len()).ok()?,
            bytes: [0; MAX_OFFER],
        };
        offer.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        offer.parse().is_some().then_some(offer)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or_default()
    }

    fn parse(&self) -> Option<KeyManagement<'_>> {
        match RawParameter::from_bytes(self.as_bytes())?.decode() {
            Ok(Parameter::DtlsKeyManagement(offer)) => Some(offer),
            _ => None,
        }
    }

    pub(crate) fn tie_breaker(&self) -> u32 {
        self.parse().map_or(0, |offer| offer.tie_breaker)
    }
}

/// Returns the offer of an end with this configuration and tie breaker; `None` if it does not offer DTLS chunks. The R bit is clear: protected
/// restarts need keys that outlive the process, and are not supported.
pub(crate) fn own_offer(config: &ProtectionConfig, tie_breaker: u32) -> Option<Offer> {
    let mut list = Vec::new();
    Parameter::DtlsKeyManagement(KeyManagement {
        tie_breaker,
        restart: false,
        server: config.role != Some(Role::Client),
        client: config.role != Some(Role::Server),
        methods: config.keys.as_ref()?.methods(),
    })
    .emit(&mut list);
    Offer::from_bytes(&list)
}

/// Determines the role of the local end and the method (draft, "Establishment of a Protected Association").
///
/// # Errors
/// Returns the error cause for the ABORT if the offers do not fit together.
// [dtls:5.1-4, 5.1-5, 5.1-6, 4.3-4, 4.3-6, 4.3-8]
pub(crate) fn negotiate(own: &Offer, peer: &Offer) -> Result<(Role, u8), Cause<'static>> {
    let (Some(own), Some(peer)) = (own.parse(), peer.parse()) else {
        return Err(Cause::MissingDtlsSupport);
    };
    if !own.methods.iter().any(|method| peer.methods.contains(method)) {
        return Err(Cause::NoCommonKeyManagement);
    }
    let role = match (own.server && peer.client, own.client && peer.server) {
        (true, false) => Role::Server,
        (false, true) => Role::Client,
        (false, false) => return Err(Cause::IncompatibleRoles),
        (true, true) if own.tie_breaker == peer.tie_breaker => return Err(Cause::TieBreakerCollision),
        (true, true) if own.tie_breaker > peer.tie_breaker => Role::Server,
        (true, true) => Role::Client,
    };
    let (server, client) = match role {
        Role::Server => (own, peer),
        Role::Client => (peer, own),
    };
    let mut preferred = server.methods.iter().copied();
    let method = preferred.find(|method| client.methods.contains(method));
    Ok((role, method.ok_or(Cause::NoCommonKeyManagement)?))
}

/// The offers of both ends, stored in the cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ProtectionAgreement {
    /// The local tie breaker.
    pub(crate) tie_breaker: u32,
    /// The peer's offer.
    pub(crate) peer: Offer,
}

/// What the handshake says about one end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Party {
    pub(crate) offer: Offer,
    pub(crate) tag: u32,
    pub(crate) initial_tsn: u32,
}

impl Party {
    /// Returns an end with this DTLS Key Management parameter (header and value, without padding), Verification Tag and initial TSN; `None` if the
    /// parameter is not valid or longer than 264 bytes. Associations do this themselves; it is for tests of a [`KeySource`](super::KeySource).
    pub fn new(parameter: &[u8], tag: u32, initial_tsn: u32) -> Option<Self> {
        Some(Party {
            offer: Offer::from_bytes(parameter)?,
            tag,
            initial_tsn,
        })
    }

    /// Returns its DTLS Key Management parameter as it was sent: header and value, without padding.
    pub fn parameter(&self) -> &[u8] {
        self.offer.as_bytes()
    }

    /// Returns the Verification Tag of packets to it.
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// Returns its initial TSN.
    pub fn initial_tsn(&self) -> u32 {
        self.initial_tsn
    }
}

/// What the keys of an association are bound to. Both ends have the same values, unless the parameter, the tag or the initial TSN of one of
/// them was changed in a packet of the handshake: then their keys differ, and nothing opens (draft, "Downgrade Attacks").
///
/// The tie breakers, tags and initial TSNs are random numbers of both ends, so that no two associations have the same keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyExchange {
    pub(crate) role: Role,
    pub(crate) method: u8,
    pub(crate) client: Party,
    pub(crate) server: Party,
}

impl KeyExchange {
    /// Returns the exchange of the local end with its peer; `None` if their offers do not fit together.
    pub fn of(own: Party, peer: Party) -> Option<Self> {
        let (role, method) = negotiate(&own.offer, &peer.offer).ok()?;
        let (client, server) = match role {
            Role::Client => (own, peer),
            Role::Server => (peer, own),
        };
        Some(KeyExchange {
            role,
            method,
            client,
            server,
        })
    }

    /// Returns the role of the local end.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Returns the identifier of the key management method.
    pub fn method(&self) -> u8 {
        self.method
    }

    /// Returns the end with this role.
    pub fn party(&self, role: Role) -> &Party {
        match role {
            Role::Client => &self.client,
            Role::Server => &self.server,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(tie_breaker: u32, server: bool, client: bool, methods: &[u8]) -> Offer {
        let mut list = Vec::new();
        Parameter::DtlsKeyManagement(KeyManagement {
            tie_breaker,
            restart: false,
            server,
            client,
            methods,
        })
        .emit(&mut list);
        Offer::from_bytes(&list).expect("short")
    }

    // [dtls:5.1-4]
    #[test]
    fn an_end_offers_the_role_that_it_is_given_or_both() {
        let offered = |role| {
            let config = ProtectionConfig {
                role,
                ..ProtectionConfig::required(std::sync::Arc::new(crate::protection::InsecureNullKeys))
            };
            let offer = own_offer(&config, 7).expect("it has keys");
            let parsed = offer.parse().expect("valid");
            (parsed.client, parsed.server)
        };
        assert_eq!(offered(None), (true, true));
        assert_eq!(offered(Some(Role::Client)), (true, false));
        assert_eq!(offered(Some(Role::Server)), (false, true));
    }

    // The draft, "Establishment of a Protected Association": the server's list decides on the method, the tie breaker on the server.
    // [dtls:5.1-4, 5.1-5, 5.1-6]
    #[test]
    fn roles_and_method_follow_from_both_offers() {
        let both = |tie, methods: &[u8]| offer(tie, true, true, methods);
        let (one, two) = (both(1, &[0, 192]), both(2, &[192, 0]));
        assert_eq!(negotiate(&one, &two), Ok((Role::Client, 192)));
        assert_eq!(negotiate(&two, &one), Ok((Role::Server, 192)));
        // The larger number, unsigned.
        assert_eq!(
            negotiate(&both(0x8000_0000, &[0]), &both(1, &[0])),
            Ok((Role::Server, 0))
        );
        // An end with one role takes it, whatever the tie breakers are; equal ones do not matter then.
        assert_eq!(
            negotiate(&offer(9, false, true, &[0]), &both(1, &[0])),
            Ok((Role::Client, 0))
        );
        assert_eq!(
            negotiate(&both(1, &[0]), &offer(1, false, true, &[0])),
            Ok((Role::Server, 0))
        );
        assert_eq!(
            negotiate(&both(7, &[0]), &both(7, &[0])),
            Err(Cause::TieBreakerCollision)
        );
        assert_eq!(
            negotiate(&both(1, &[0]), &both(2, &[192])),
            Err(Cause::NoCommonKeyManagement)
        );
        for (server, client) in [(true, false), (false, true)] {
            let other = offer(2, server, client, &[0]);
            assert_eq!(
                negotiate(&offer(1, server, client, &[0]), &other),
                Err(Cause::IncompatibleRoles)
            );
        }
        assert_eq!(
            negotiate(&both(1, &[0]), &offer(2, false, false, &[0])),
            Err(Cause::IncompatibleRoles)
        );
    }

    #[test]
    fn both_ends_derive_from_the_same_exchange() {
        let party = |tie, tag| Party {
            offer: offer(tie, true, true, &[0]),
            tag,
            initial_tsn: tag + 1,
        };
        let (a, b) = (party(1, 10), party(2, 20));
        let (at_a, at_b) = (
            KeyExchange::of(a, b).expect("fits"),
            KeyExchange::of(b, a).expect("fits"),
        );
        assert_eq!((at_a.role(), at_b.role()), (Role::Client, Role::Server));
        for role in [Role::Client, Role::Server] {
            assert_eq!(at_a.party(role), at_b.party(role));
        }
        assert_eq!(at_a.party(Role::Server).tag(), 20);
        assert!(
            KeyExchange::of(a, a).is_none(),
            "a reflected offer has the same tie breaker"
        );
    }

    #[test]
    fn no_bytes_of_a_cookie_cause_a_panic() {
        for len in 0..300 {
            for byte in [0, 1, 0x80, 0xff] {
                assert_eq!(Offer::from_bytes(&vec![byte; len]), None);
            }
        }
        let long = |methods: usize| {
            let mut list = vec![0x80, 6, 0, 0, 0, 0, 0, 1, 3];
            list[2..4].copy_from_slice(&(9 + methods as u16).to_be_bytes());
            list.resize(9 + methods, 7);
            Offer::from_bytes(&list)
        };
        assert!(long(255).is_some() && long(256).is_none());
    }
}
