//! The state cookie: all data needed to create an association. The peer stores it until it has proved that it receives
//! at its address (RFC 9260 §5.1.3 [9260:5.1.3-2, 5.1.3-7]).
//!
//! ```text
//! version 1 | key 1 | flags 1 | supports 2 | created 8 | life 4 | local addresses 4 | local tag 4 | peer tag 4 |
//! local initial TSN 4 | peer initial TSN 4 | peer a_rwnd 4 | outbound streams 2 | inbound streams 2 | local port 2 |
//! peer port 2 | local tie tag 4 | peer tie tag 4 | peer addresses 1 | local address | peer addresses ... |
//! if flagged: local random 32, peer key vector length 1, vector ... |
//! if flagged: local tie breaker 4, length of the peer's offer of DTLS chunks 1, offer ... | HMAC-SHA256, truncated 16
//! ```
//! Numbers are big-endian. `created` is in nanoseconds, `life` in milliseconds; `local addresses` is the CRC32c of the
//! addresses. An address consists of its family (4, 6, or 7: IPv6 with a scope), the UDP port, the IP address and the
//! scope if there is one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use whimbrel_control::{Span, Time};
use whimbrel_wire::{Tsn, crc32c};

use crate::MAX_ADDRESSES;
use crate::association::{AuthAgreement, KeyVector};
use crate::protection::{Offer, ProtectionAgreement};

const VERSION: u8 = 2;
/// [9260:5.1.3-1, 5.1.3-3] Half of the hash, the minimum that RFC 2104 §5 recommends, to keep the cookie small.
const MAC_LEN: usize = 16;
const FLAG_ECN: u8 = 1;
const FLAG_AUTH: u8 = 2;
const FLAG_PROTECTION: u8 = 4;
const FAMILY_V4: u8 = 4;
const FAMILY_V6: u8 = 6;
const FAMILY_V6_SCOPED: u8 = 7;

/// A list of up to [`MAX_ADDRESSES`] addresses without heap allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddressList {
    len: u8,
    addresses: [SocketAddr; MAX_ADDRESSES],
}

impl AddressList {
    /// Returns an empty list.
    pub(crate) fn new() -> Self {
        AddressList {
            len: 0,
            addresses: [SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0); MAX_ADDRESSES],
        }
    }

    /// Adds the address unless the list contains it. Returns false if the list is full.
    pub(crate) fn push(&mut self, address: SocketAddr) -> bool {
        if self.as_slice().contains(&address) {
            return true;
        }
        let Some(place) = self.addresses.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = address;
        self.len += 1;
        true
    }

    /// Returns the addresses in the order in which they were added.
    pub(crate) fn as_slice(&self) -> &[SocketAddr] {
        &self.addresses[..usize::from(self.len)]
    }
}

/// The content of a state cookie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cookie {
    /// Time of creation.
    pub(crate) created: Time,
    /// How long the cookie is valid. The cookie stores it in whole milliseconds.
    pub(crate) life: Span,
    /// Fingerprint of the local addresses listed in the INIT ACK, see [`fingerprint`].
    pub(crate) local_addrs: u32,
    /// Local verification tag.
    pub(crate) local_tag: u32,
    /// The peer's verification tag.
    pub(crate) peer_tag: u32,
    /// Local initial TSN.
    pub(crate) local_initial_tsn: Tsn,
    /// The peer's initial TSN.
    pub(crate) peer_initial_tsn: Tsn,
    /// The peer's a_rwnd in bytes.
    pub(crate) peer_rwnd: u32,
    /// Number of outbound streams.
    pub(crate) outbound_streams: u16,
    /// Number of inbound streams.
    pub(crate) inbound_streams: u16,
    /// Local SCTP port.
    pub(crate) local_port: u16,
    /// The peer's SCTP port.
    pub(crate) peer_port: u16,
    /// Local Tie-Tag: a random number of the association that existed when the cookie was created; zero if there was
    /// none (RFC 9260 §5.2.2). It is not the verification tag, because the cookie is not encrypted.
    pub(crate) local_tie_tag: u32,
    /// The peer's Tie-Tag, likewise.
    pub(crate) peer_tie_tag: u32,
    /// Both endpoints support ECN.
    pub(crate) ecn: bool,
    /// Further extensions that both endpoints support, one bit each.
    pub(crate) supports: u16,
    /// Local address at which the INIT arrived.
    pub(crate) local: SocketAddr,
    /// The peer's addresses. The first one is the source address of the INIT.
    pub(crate) peer_addrs: AddressList,
    /// The authentication parameters of both endpoints (RFC 4895 §6.1).
    pub(crate) auth: Option<AuthAgreement>,
    /// The offers of DTLS chunks of both endpoints (draft-ietf-tsvwg-sctp-dtls-chunk).
    pub(crate) protection: Option<ProtectionAgreement>,
}

/// Why a state cookie is not valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CookieError {
    /// The cookie does not have the format of this endpoint.
    Malformed,
    /// The cookie was signed with a key that has been dropped.
    UnknownKey,
    /// The MAC is wrong.
    Forged,
}

impl Cookie {
    /// Returns by how much the cookie has exceeded its life, if it has (RFC 9260 §5.1.5 [9260:5.1.5-4, 5.2.4-1]).
    pub(crate) fn stale_by(&self, now: Time) -> Option<Span> {
        let age = now.since(self.created);
        (age > self.life).then(|| age - self.life)
    }
}

/// The current and the previous key that sign cookies, as HMAC states that have absorbed the key.
#[derive(Clone)]
pub(crate) struct CookieKey {
    current: Hmac<Sha256>,
    previous: Option<Box<Hmac<Sha256>>>,
    /// Number of the current key, modulo 256.
    generation: u8,
}

/// Does not show the keys.
impl core::fmt::Debug for CookieKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("CookieKey")
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

impl CookieKey {
    /// Creates the first key.
    pub(crate) fn new(secret: [u8; 32]) -> Self {
        CookieKey {
            current: keyed(&secret),
            previous: None,
            generation: 0,
        }
    }

    /// Replaces the key (RFC 9260 §5.1.3 [9260:5.1.3-5]). Cookies signed with the previous key remain valid until the
    /// next replacement.
    pub(crate) fn rotate(&mut self, secret: [u8; 32]) {
        self.previous = Some(Box::new(core::mem::replace(&mut self.current, keyed(&secret))));
        self.generation = self.generation.wrapping_add(1);
    }

    /// Appends the signed cookie to `out`.
    pub(crate) fn seal(&self, cookie: &Cookie, out: &mut Vec<u8>) {
        let start = out.len();
        cookie.write(self.generation, out);
        let mac = self.current.clone().chain_update(&out[start..]).finalize().into_bytes();
        out.extend_from_slice(&mac[..MAC_LEN]);
    }

    /// Verifies a cookie and returns its content (RFC 9260 §5.1.5, steps 1 and 2 [9260:5.1.5-1, 5.1.5-2]). The
    /// comparison takes constant time. The caller checks ports, tags and age.
    ///
    /// # Errors
    /// Returns an error if this endpoint did not create the cookie. The packet must be silently discarded.
    pub(crate) fn open(&self, bytes: &[u8]) -> Result<Cookie, CookieError> {
        let signed = bytes.len().checked_sub(MAC_LEN).ok_or(CookieError::Malformed)?;
        let (content, mac) = bytes.split_at(signed);
        let [VERSION, generation, ..] = *content else {
            return Err(CookieError::Malformed);
        };
        let key = match (self.generation.wrapping_sub(generation), &self.previous) {
            (0, _) => &self.current,
            (1, Some(previous)) => previous,
            _ => return Err(CookieError::UnknownKey),
        };
        key.clone()
            .chain_update(content)
            .verify_truncated_left(mac)
            .map_err(|_| CookieError::Forged)?;
        Cookie::parse(content).ok_or(CookieError::Malformed)
    }
}

// [9260:5.1.3-3]
fn keyed(secret: &[u8; 32]) -> Hmac<Sha256> {
    Hmac::new_from_slice(secret).expect("HMAC takes keys of any length")
}

impl Cookie {
    // [9260:3.3.11-3, 5.1.3-6]
    fn write(&self, generation: u8, out: &mut Vec<u8>) {
        let mut flags = if self.ecn { FLAG_ECN } else { 0 };
        flags |= if self.auth.is_some() { FLAG_AUTH } else { 0 };
        flags |= if self.protection.is_some() { FLAG_PROTECTION } else { 0 };
        out.extend_from_slice(&[VERSION, generation, flags]);
        out.extend_from_slice(&self.supports.to_be_bytes());
        out.extend_from_slice(&self.created.as_nanos().to_be_bytes());
        let life = u32::try_from(self.life.as_nanos().div_ceil(1_000_000)).unwrap_or(u32::MAX);
        let (local_tsn, peer_tsn) = (self.local_initial_tsn.0, self.peer_initial_tsn.0);
        let (tags, tsns) = ([self.local_tag, self.peer_tag], [local_tsn, peer_tsn]);
        for word in [life, self.local_addrs]
            .into_iter()
            .chain(tags)
            .chain(tsns)
            .chain([self.peer_rwnd])
        {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for half in [
            self.outbound_streams,
            self.inbound_streams,
            self.local_port,
            self.peer_port,
        ] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        for word in [self.local_tie_tag, self.peer_tie_tag] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.push(self.peer_addrs.len);
        write_address(&self.local, out);
        for address in self.peer_addrs.as_slice() {
            write_address(address, out);
        }
        if let Some(auth) = &self.auth {
            out.extend_from_slice(&auth.random);
            let vector = auth.peer.as_bytes();
            // A vector has at most 255 bytes.
            out.push(vector.len() as u8);
            out.extend_from_slice(vector);
        }
        if let Some(protection) = &self.protection {
            out.extend_from_slice(&protection.tie_breaker.to_be_bytes());
            let offer = protection.peer.as_bytes();
            // An offer has at most 264 bytes.
            out.extend_from_slice(&(offer.len() as u16).to_be_bytes());
            out.extend_from_slice(offer);
        }
    }

    /// The inverse of `write`. Returns `None` if anything is missing, left over or out of range.
    fn parse(content: &[u8]) -> Option<Self> {
        let mut reader = Reader(content);
        let [_version, _generation, flags] = reader.take()?;
        let supports = u16::from_be_bytes(reader.take()?);
        if flags & !(FLAG_ECN | FLAG_AUTH | FLAG_PROTECTION) != 0 {
            return None;
        }
        let created = Time::from_nanos(u64::from_be_bytes(reader.take()?));
        let life = Span::from_millis(reader.word()?.into());
        let local_addrs = reader.word()?;
        let (local_tag, peer_tag) = (reader.word()?, reader.word()?);
        let (local_initial_tsn, peer_initial_tsn) = (Tsn(reader.word()?), Tsn(reader.word()?));
        let peer_rwnd = reader.word()?;
        let (outbound_streams, inbound_streams) = (reader.half()?, reader.half()?);
        let (local_port, peer_port) = (reader.half()?, reader.half()?);
        let (local_tie_tag, peer_tie_tag) = (reader.word()?, reader.word()?);
        let [count] = reader.take()?;
        let local = reader.address()?;
        let mut peer_addrs = AddressList::new();
        for _ in 0..count {
            if !peer_addrs.push(reader.address()?) {
                return None;
            }
        }
        let auth = if flags & FLAG_AUTH != 0 {
            let random = reader.take()?;
            let [len] = reader.take()?;
            let (vector, rest) = reader.0.split_at_checked(len.into())?;
            reader.0 = rest;
            let peer = KeyVector::from_bytes(vector)?;
            Some(AuthAgreement { random, peer })
        } else {
            None
        };
        let protection = if flags & FLAG_PROTECTION != 0 {
            let tie_breaker = reader.word()?;
            let len = reader.half()?;
            let (offer, rest) = reader.0.split_at_checked(len.into())?;
            reader.0 = rest;
            let peer = Offer::from_bytes(offer)?;
            Some(ProtectionAgreement { tie_breaker, peer })
        } else {
            None
        };
        reader.0.is_empty().then_some(Cookie {
            created,
            life,
            local_addrs,
            local_tag,
            peer_tag,
            local_initial_tsn,
            peer_initial_tsn,
            peer_rwnd,
            outbound_streams,
            inbound_streams,
            local_port,
            peer_port,
            local_tie_tag,
            peer_tie_tag,
            ecn: flags & FLAG_ECN != 0,
            supports,
            local,
            peer_addrs,
            auth,
            protection,
        })
    }
}

/// Returns a checksum of the local addresses. It detects cookies that were created before the addresses changed.
pub(crate) fn fingerprint(addresses: &[SocketAddr]) -> u32 {
    let mut bytes = Vec::new();
    for address in addresses {
        write_address(address, &mut bytes);
    }
    crc32c(&bytes)
}

fn write_address(address: &SocketAddr, out: &mut Vec<u8>) {
    let family = match address {
        SocketAddr::V4(_) => FAMILY_V4,
        SocketAddr::V6(v6) if v6.scope_id() == 0 => FAMILY_V6,
        SocketAddr::V6(_) => FAMILY_V6_SCOPED,
    };
    out.push(family);
    out.extend_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => out.extend_from_slice(&v4.ip().octets()),
        SocketAddr::V6(v6) => {
            out.extend_from_slice(&v6.ip().octets());
            if family == FAMILY_V6_SCOPED {
                out.extend_from_slice(&v6.scope_id().to_be_bytes());
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*taken)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn half(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn address(&mut self) -> Option<SocketAddr> {
        let [family] = self.take()?;
        let port = self.half()?;
        if family == FAMILY_V4 {
            return Some(SocketAddr::new(Ipv4Addr::from(self.take::<4>()?).into(), port));
        }
        let ip = Ipv6Addr::from(self.take::<16>()?);
        match family {
            FAMILY_V6 => Some(SocketAddr::new(ip.into(), port)),
            FAMILY_V6_SCOPED => Some(SocketAddrV6::new(ip, port, 0, self.word()?).into()),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn addresses(texts: &[&str]) -> AddressList {
        let mut list = AddressList::new();
        for text in texts {
            assert!(list.push(text.parse().expect(text)));
        }
        list
    }

    /// A cookie with every field set.
    pub(in crate::endpoint) fn cookie() -> Cookie {
        Cookie {
            created: Time::from_nanos(1_234_567_890),
            life: Span::from_secs(60),
            local_addrs: fingerprint(addresses(&["192.0.2.1:9899", "[2001:db8::1]:9899"]).as_slice()),
            local_tag: 0x0102_0304,
            peer_tag: 0xf1f2_f3f4,
            local_initial_tsn: Tsn(u32::MAX),
            peer_initial_tsn: Tsn(7),
            peer_rwnd: 262_144,
            outbound_streams: 16,
            inbound_streams: 65_535,
            local_port: 5000,
            peer_port: 5001,
            local_tie_tag: 0x1111_1111,
            peer_tie_tag: 0x2222_2222,
            ecn: true,
            supports: 0x15a,
            local: "192.0.2.1:9899".parse().expect("an address"),
            peer_addrs: addresses(&["192.0.2.9:40000", "[2001:db8::9]:40000", "[fe80::1%3]:40000"]),
            auth: KeyVector::from_bytes(&[0x80, 2, 0, 5, 9, 0x80, 4, 0, 6, 0, 1])
                .map(|peer| AuthAgreement { random: [3; 32], peer }),
            protection: Offer::from_bytes(&[0x80, 6, 0, 10, 1, 2, 3, 4, 3, 0])
                .map(|peer| ProtectionAgreement { tie_breaker: 9, peer }),
        }
    }

    fn sealed(key: &CookieKey, cookie: &Cookie) -> Vec<u8> {
        let mut out = Vec::new();
        key.seal(cookie, &mut out);
        out
    }

    // [9260:5.1.3-2, 5.1.3-7, 3.3.11-3]
    #[test]
    fn a_sealed_cookie_can_be_opened() {
        let key = CookieKey::new([7; 32]);
        let mut out = b"in front".to_vec();
        key.seal(&cookie(), &mut out);
        assert_eq!(key.open(&out[8..]), Ok(cookie()));
        // Three addresses have 49 bytes, the parameters of RFC 4895 have 44, and the offers of DTLS chunks 16.
        assert_eq!(out.len(), 8 + 190);
        assert_eq!(&out[..8], b"in front");
        let smallest = Cookie {
            peer_addrs: addresses(&["192.0.2.9:0"]),
            auth: None,
            protection: None,
            ..cookie()
        };
        assert_eq!(
            sealed(&key, &smallest).len(),
            88,
            "the cookie is to be small (RFC 9260 §5.1.3)"
        );
    }

    // [9260:5.1.3-6]
    #[test]
    fn section_5_1_3_the_cookie_contains_no_part_of_the_key() {
        let secret = core::array::from_fn(|n| 0xa1 ^ (n as u8).wrapping_mul(37));
        let cookie = sealed(&CookieKey::new(secret), &cookie());
        let held = |part: &[u8]| cookie.windows(part.len()).any(|window| window == part);
        assert!(!secret.windows(4).any(held));
    }

    // [9260:5.1.3-1, 5.1.3-3, 5.1.5-2]
    #[test]
    fn section_5_1_5_any_changed_byte_and_any_other_length_is_refused() {
        let key = CookieKey::new([7; 32]);
        let good = sealed(&key, &cookie());
        for index in 0..good.len() {
            for bit in 0..8 {
                let mut bad = good.clone();
                bad[index] ^= 1 << bit;
                let expected = match index {
                    0 => CookieError::Malformed,
                    1 => CookieError::UnknownKey,
                    _ => CookieError::Forged,
                };
                assert_eq!(key.open(&bad), Err(expected), "byte {index} bit {bit}");
            }
            assert!(key.open(&good[..index]).is_err(), "cut to {index}");
            assert!(key.open(&good[index + 1..]).is_err(), "from {index}");
        }
        let mut longer = good.clone();
        longer.push(0);
        assert_eq!(key.open(&longer), Err(CookieError::Forged));
        assert_eq!(CookieKey::new([8; 32]).open(&good), Err(CookieError::Forged));
    }

    // [9260:5.1.3-5, 5.1.5-1]
    #[test]
    fn section_5_1_3_the_previous_key_remains_valid() {
        let mut key = CookieKey::new([1; 32]);
        let first = sealed(&key, &cookie());
        key.rotate([2; 32]);
        let second = sealed(&key, &cookie());
        assert_eq!((key.open(&first), key.open(&second)), (Ok(cookie()), Ok(cookie())));
        key.rotate([3; 32]);
        assert_eq!(
            (key.open(&first), key.open(&second)),
            (Err(CookieError::UnknownKey), Ok(cookie()))
        );
        for secret in 0..254 {
            key.rotate([secret; 32]);
        }
        assert_eq!(
            key.open(&first),
            Err(CookieError::Forged),
            "key numbers repeat, keys do not"
        );
    }

    // [9260:5.1.5-4]
    #[test]
    fn section_5_1_5_a_cookie_is_stale_when_older_than_its_life() {
        let cookie = cookie();
        let end = cookie.created + cookie.life;
        assert_eq!(cookie.stale_by(Time::ZERO), None, "the clock was set back");
        assert_eq!(cookie.stale_by(end), None);
        assert_eq!(cookie.stale_by(end + Span::from_micros(3)), Some(Span::from_micros(3)));
    }

    #[test]
    fn an_address_list_holds_max_addresses_without_duplicates() {
        let mut list = AddressList::new();
        for port in (0..MAX_ADDRESSES as u16).chain(0..3) {
            assert!(list.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port)));
        }
        assert_eq!(list.as_slice().len(), MAX_ADDRESSES);
        assert!(!list.push(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 99)));
        let key = CookieKey::new([7; 32]);
        let full = Cookie {
            peer_addrs: list,
            ..cookie()
        };
        assert_eq!(key.open(&sealed(&key, &full)), Ok(full));
    }

    #[test]
    fn fingerprints_of_different_local_addresses_differ() {
        let lists: [&[&str]; 6] = [
            &["192.0.2.1:9899"],
            &["192.0.2.2:9899"],
            &["192.0.2.1:9900"],
            &["192.0.2.1:9899", "192.0.2.2:9899"],
            &["[fe80::1%3]:9899"],
            &["[fe80::1%4]:9899"],
        ];
        let mut all: Vec<u32> = lists
            .iter()
            .map(|list| fingerprint(addresses(list).as_slice()))
            .collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), lists.len());
    }

    #[test]
    fn debug_output_contains_no_secret() {
        assert_eq!(
            format!("{:?}", CookieKey::new([7; 32])),
            "CookieKey { generation: 0, .. }"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = CookieKey::new([7; 32]).open(&bytes);
            if let Some(cookie) = Cookie::parse(&bytes) {
                let mut again = Vec::new();
                cookie.write(0, &mut again);
                prop_assert_eq!(Cookie::parse(&again), Some(cookie));
            }
        }

        /// Tests the parser without the signature, with contents that are almost cookies.
        #[test]
        fn a_mutated_content_is_parsed_without_panic(at in 0_usize..120, value in any::<u8>(), cut in 0_usize..120) {
            let mut content = Vec::new();
            cookie().write(0, &mut content);
            let len = content.len();
            content[at % len] = value;
            content.truncate(cut.max(at % len + 1));
            if let Some(parsed) = Cookie::parse(&content) {
                prop_assert!(parsed.peer_addrs.as_slice().len() <= MAX_ADDRESSES);
            }
        }
    }
}
