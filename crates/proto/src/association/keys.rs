//! The keys and codes of authenticated chunks (RFC 4895).
//!
//! In INIT and INIT ACK both endpoints exchange random bytes and the types of the chunks that they accept only if
//! authenticated. From these, and from an optional endpoint pair shared key, each endpoint computes the association
//! shared key. Without an endpoint pair shared key, AUTH protects only against attackers that did not see the
//! handshake. This suffices to prevent an off-path attacker from removing addresses.

use core::cmp::Ordering;

use hmac::{Hmac, KeyInit, Mac};
use rand_core::Rng;
use sha1::Sha1;
use sha2::Sha256;
use whimbrel_wire::{Auth, Chunk, ChunkType, NumberList, PacketSink, PacketView, Parameter, Parameters, hmac_id};

use crate::config::AssociationConfig;
use crate::error::Discard;

/// Length of the random number of each endpoint (RFC 4895 §6.1).
pub(crate) const RANDOM_LEN: usize = 32;

/// Longest key vector of a peer that is accepted, in bytes. A longer one does not fit into a cookie.
const MAX_VECTOR: usize = 255;

/// Supported HMAC identifiers in order of preference. Every implementation supports SHA-1 (RFC 4895 §3.3).
const ALGORITHMS: [u8; 4] = [0, hmac_id::SHA256 as u8, 0, hmac_id::SHA1 as u8];

/// A set of chunk types.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ChunkSet([u64; 4]);

impl ChunkSet {
    /// Returns the set of these types without INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH, which are never authenticated
    /// (RFC 4895 §3.2).
    pub(crate) fn of(types: &[u8]) -> Self {
        let mut set = ChunkSet::default();
        for &chunk_type in types {
            let never = [
                ChunkType::INIT,
                ChunkType::INIT_ACK,
                ChunkType::SHUTDOWN_COMPLETE,
                ChunkType::AUTH,
            ];
            if !never.contains(&ChunkType(chunk_type)) {
                set.0[usize::from(chunk_type >> 6)] |= 1 << (chunk_type & 63);
            }
        }
        set
    }

    pub(crate) fn has(self, chunk_type: ChunkType) -> bool {
        self.0[usize::from(chunk_type.0 >> 6)] >> (chunk_type.0 & 63) & 1 == 1
    }
}

/// RANDOM, CHUNKS and HMAC-ALGO as an endpoint sent them, concatenated without padding (RFC 4895 §6.1).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyVector {
    len: u8,
    bytes: [u8; MAX_VECTOR],
}

impl core::fmt::Debug for KeyVector {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "KeyVector({} bytes)", self.len)
    }
}

impl KeyVector {
    /// Reads a vector from a cookie. Returns `None` if it is too long or lacks the random number or a supported HMAC.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut vector = KeyVector {
            len: u8::try_from(bytes.len()).ok()?,
            bytes: [0; MAX_VECTOR],
        };
        vector.bytes[..bytes.len()].copy_from_slice(bytes);
        (vector.find(0).is_some() && vector.algorithm().is_some()).then_some(vector)
    }

    /// Reads the parameters of an INIT or INIT ACK. Returns `None` if the peer does not support authentication, or not
    /// as required.
    ///
    /// # Errors
    /// Returns an error if the random number does not have 32 bytes: such an association is aborted (RFC 4895 §6.1).
    pub(crate) fn read(parameters: Parameters<'_>) -> Result<Option<Self>, &'static str> {
        let mut parts: [Option<&[u8]>; 3] = [None; 3];
        for raw in parameters.raw().map_while(Result::ok) {
            let place = match raw.decode() {
                Ok(Parameter::Random(random)) if random.len() != RANDOM_LEN => {
                    return Err("a random number of other than 32 bytes");
                }
                Ok(Parameter::Random(_)) => 0,
                Ok(Parameter::ChunkList(_)) => 1,
                // RFC 4895 §3.3: every list contains SHA-1.
                Ok(Parameter::HmacAlgorithms(ids)) if !ids.iter().any(|id| id == hmac_id::SHA1) => continue,
                Ok(Parameter::HmacAlgorithms(_)) => 2,
                _ => continue,
            };
            parts[place].get_or_insert(raw.bytes());
        }
        let (mut bytes, mut len) = ([0; MAX_VECTOR], 0);
        for part in parts.into_iter().flatten() {
            let Some(room) = bytes.get_mut(len..len + part.len()) else {
                return Ok(None);
            };
            room.copy_from_slice(part);
            len += part.len();
        }
        Ok(KeyVector::from_bytes(&bytes[..len]))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the parameter at this place of the order: random number, chunks, HMACs.
    fn find(&self, place: u16) -> Option<Parameter<'_>> {
        let mut rest = self.as_bytes();
        while let Some(&[t0, t1, l0, l1]) = rest.first_chunk() {
            let len = usize::from(u16::from_be_bytes([l0, l1]));
            let bytes = rest.get(..len)?;
            if u16::from_be_bytes([t0, t1]) == 0x8002 + place {
                return whimbrel_wire::RawParameter::from_bytes(bytes)?.decode().ok();
            }
            rest = rest.get(len.max(4)..)?;
        }
        None
    }

    /// Returns the first HMAC of the peer's list that is supported (RFC 4895 §6.2).
    fn algorithm(&self) -> Option<Algorithm> {
        match self.find(2)? {
            Parameter::HmacAlgorithms(ids) => ids.iter().find_map(Algorithm::of),
            _ => None,
        }
    }

    /// Returns whether the handshake must be authenticated. This has a purpose only with a shared key.
    pub(crate) fn requires_shared_key(&self) -> bool {
        self.chunks().has(ChunkType::COOKIE_ECHO)
    }

    fn chunks(&self) -> ChunkSet {
        match self.find(1) {
            Some(Parameter::ChunkList(types)) => ChunkSet::of(types),
            _ => ChunkSet::default(),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Algorithm {
    Sha1,
    Sha256,
}

impl Algorithm {
    fn of(id: u16) -> Option<Self> {
        match id {
            hmac_id::SHA1 => Some(Algorithm::Sha1),
            hmac_id::SHA256 => Some(Algorithm::Sha256),
            _ => None,
        }
    }

    fn id(self) -> u16 {
        match self {
            Algorithm::Sha1 => hmac_id::SHA1,
            Algorithm::Sha256 => hmac_id::SHA256,
        }
    }

    fn len(self) -> usize {
        match self {
            Algorithm::Sha1 => 20,
            Algorithm::Sha256 => 32,
        }
    }
}

/// The association shared key, its identifier and the HMAC.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Signer {
    key: Box<[u8]>,
    key_id: u16,
    algorithm: Algorithm,
}

/// Does not show the key.
impl core::fmt::Debug for Signer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Signer({:?})", self.algorithm)
    }
}

impl Signer {
    /// Returns the length of an AUTH chunk in bytes.
    pub(crate) fn chunk_len(&self) -> usize {
        whimbrel_wire::AUTH_HEADER_LEN + self.algorithm.len()
    }

    /// Adds an AUTH chunk. [`Signer::seal`] fills in its HMAC.
    pub(crate) fn push(&self, sink: &mut dyn PacketSink) {
        sink.push(&Chunk::Auth(Auth {
            key_id: self.key_id,
            hmac_id: self.algorithm.id(),
            hmac: &[0; 32][..self.algorithm.len()],
        }));
    }

    /// Fills in the HMAC of a complete packet.
    pub(crate) fn seal(&self, sink: &mut dyn PacketSink) {
        match self.algorithm {
            Algorithm::Sha1 => {
                let mut mac = sha1_mac(&self.key);
                sink.authenticated(&mut |part| mac.update(part));
                sink.set_hmac(&mac.finalize().into_bytes());
            }
            Algorithm::Sha256 => {
                let mut mac = sha256_mac(&self.key);
                sink.authenticated(&mut |part| mac.update(part));
                sink.set_hmac(&mac.finalize().into_bytes());
            }
        }
    }

    /// Returns whether the HMAC of a packet's AUTH chunk is correct. The comparison takes constant time.
    fn verifies(&self, auth: &Auth<'_>, algorithm: Algorithm, packet: &PacketView<'_>) -> bool {
        match algorithm {
            Algorithm::Sha1 => {
                let mut mac = sha1_mac(&self.key);
                packet.authenticated(&mut |part| mac.update(part)) && mac.verify_slice(auth.hmac).is_ok()
            }
            Algorithm::Sha256 => {
                let mut mac = sha256_mac(&self.key);
                packet.authenticated(&mut |part| mac.update(part)) && mac.verify_slice(auth.hmac).is_ok()
            }
        }
    }
}

fn sha1_mac(key: &[u8]) -> Hmac<Sha1> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

fn sha256_mac(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC takes keys of any length")
}

/// The negotiated authentication.
#[derive(Debug)]
pub(crate) struct AuthState {
    pub(crate) signer: std::sync::Arc<Signer>,
    /// Chunk types that the peer accepts only if authenticated.
    pub(super) peer_requires: ChunkSet,
    /// Chunk types that the local endpoint accepts only if authenticated.
    requires: ChunkSet,
    /// The peer requires authentication of chunks other than ASCONF and ASCONF-ACK: every packet is authenticated from
    /// its first chunk on.
    pub(crate) every_packet: bool,
}

impl AuthState {
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + size_of::<Signer>() + self.signer.key.len()
    }

    /// Computes the negotiated authentication, or `None` if there is none.
    pub(crate) fn of(config: &AssociationConfig, agreement: &AuthAgreement) -> Option<Self> {
        let algorithm = agreement.peer.algorithm()?;
        let peer_requires = agreement.peer.chunks();
        let vector = local_vector(config, &agreement.random);
        let every_packet = (0..=u8::MAX)
            .map(ChunkType)
            .any(|t| peer_requires.has(t) && !matches!(t, ChunkType::ASCONF | ChunkType::ASCONF_ACK));
        Some(AuthState {
            signer: std::sync::Arc::new(Signer {
                key: association_key(&config.auth.key_bytes(), &vector, agreement.peer.as_bytes()),
                key_id: config.auth.key_id,
                algorithm,
            }),
            peer_requires,
            requires: ChunkSet::of(&required_chunks(config)),
            every_packet,
        })
    }

    pub(crate) fn requires(&self, chunk_type: ChunkType) -> bool {
        self.requires.has(chunk_type)
    }

    /// Verifies the AUTH chunk of a packet. The inner error value is an HMAC identifier that was not negotiated.
    pub(super) fn verify(&self, auth: &Auth<'_>, packet: &PacketView<'_>) -> Result<(), Option<u16>> {
        let algorithm = Algorithm::of(auth.hmac_id).ok_or(Some(auth.hmac_id))?;
        if auth.key_id == self.signer.key_id && self.signer.verifies(auth, algorithm, packet) {
            Ok(())
        } else {
            Err(None)
        }
    }
}

/// Verifies a packet with a COOKIE ECHO if the cookie requires authentication. It is verified before the association is
/// created or restarted (RFC 4895 §6.3).
///
/// # Errors
/// Returns an error if the packet must be discarded.
pub(crate) fn check_cookie_echo(
    config: &AssociationConfig,
    agreement: Option<&AuthAgreement>,
    packet: &PacketView<'_>,
) -> Result<(), Discard> {
    if config.auth.is_required() && agreement.is_none() {
        // The INIT was answered with another configuration.
        return Err(Discard::Unauthenticated);
    }
    let state = agreement.and_then(|agreement| AuthState::of(config, agreement));
    match (packet.chunks().next(), state) {
        (Some(Ok(Chunk::Auth(auth))), Some(state)) => state.verify(&auth, packet).map_err(|_| Discard::Unauthenticated),
        // Without negotiation, AUTH is an unknown chunk, and processing stops (RFC 9260 §3.2).
        (Some(Ok(Chunk::Auth(_))), None) => Err(Discard::InvalidChunk),
        (_, Some(state)) if state.requires(ChunkType::COOKIE_ECHO) => Err(Discard::Unauthenticated),
        _ => Ok(()),
    }
}

/// Returns the signer for a reply to a COOKIE ECHO that creates no association, if the peer requires authentication.
/// The cookie contains all the data needed (RFC 4895 §6.3).
pub(crate) fn answer_signer(
    config: &AssociationConfig,
    agreement: Option<&AuthAgreement>,
    chunk_type: ChunkType,
) -> Option<std::sync::Arc<Signer>> {
    let state = AuthState::of(config, agreement?)?;
    state.peer_requires.has(chunk_type).then_some(state.signer)
}

/// Returns the chunk types that an endpoint with these settings accepts only if authenticated.
fn required_chunks(config: &AssociationConfig) -> Vec<u8> {
    let mut types = Vec::new();
    if config.dynamic_addresses {
        // RFC 5061 §4.2.7: both are always authenticated.
        types.extend([ChunkType::ASCONF.0, ChunkType::ASCONF_ACK.0]);
    }
    let mut add = |chunk_type| {
        if !types.contains(&chunk_type) {
            types.push(chunk_type);
        }
    };
    for &chunk_type in &config.auth.chunks {
        add(chunk_type);
        // What is required of one chunk is required of the one that replaces it (RFC 8260). Also without interleaving: a chunk of the other
        // kind ends the association.
        match ChunkType(chunk_type) {
            ChunkType::DATA => add(ChunkType::I_DATA.0),
            ChunkType::FORWARD_TSN => add(ChunkType::I_FORWARD_TSN.0),
            _ => {}
        }
    }
    types
}

fn parameters<'a>(random: &'a [u8; RANDOM_LEN], chunks: &'a [u8]) -> impl Iterator<Item = Parameter<'a>> {
    let chunks = (!chunks.is_empty()).then_some(Parameter::ChunkList(chunks));
    let algorithms = Parameter::HmacAlgorithms(NumberList::from_wire_bytes(&ALGORITHMS));
    [Some(Parameter::Random(random)), chunks, Some(algorithms)]
        .into_iter()
        .flatten()
}

/// Adds the local parameters to those of an INIT or INIT ACK (RFC 4895 §3).
pub(crate) fn emit_parameters(config: &AssociationConfig, random: &[u8; RANDOM_LEN], list: &mut Vec<u8>) {
    parameters(random, &required_chunks(config)).for_each(|parameter| parameter.emit(list));
}

fn local_vector(config: &AssociationConfig, random: &[u8; RANDOM_LEN]) -> Vec<u8> {
    let mut vector = Vec::new();
    for parameter in parameters(random, &required_chunks(config)) {
        let mut one = Vec::new();
        parameter.emit(&mut one);
        vector.extend_from_slice(&one);
    }
    vector
}

/// Returns random bytes for an INIT or INIT ACK.
pub(crate) fn fresh_random(random: &mut dyn Rng) -> [u8; RANDOM_LEN] {
    let mut bytes = [0; RANDOM_LEN];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Computes the association shared key: the endpoint pair shared key, the smaller key vector and the larger one. The
/// vectors are compared as big-endian numbers; of equal numbers the shorter vector comes first (RFC 4895 §6.1).
fn association_key(shared: &[u8], one: &[u8], other: &[u8]) -> Box<[u8]> {
    let number = |vector: &[u8]| {
        let zeros = vector.iter().take_while(|byte| **byte == 0).count();
        vector[zeros..].to_vec()
    };
    let (a, b) = (number(one), number(other));
    let order = a.len().cmp(&b.len()).then_with(|| a.cmp(&b));
    let one_first = match order {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => one.len() <= other.len(),
    };
    let (first, second) = if one_first { (one, other) } else { (other, one) };
    [shared, first, second].concat().into()
}

/// The authentication parameters of both endpoints, stored in the cookie.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct AuthAgreement {
    /// Local random bytes.
    pub(crate) random: [u8; RANDOM_LEN],
    /// The peer's parameters.
    pub(crate) peer: KeyVector,
}

/// Does not show the key material.
impl core::fmt::Debug for AuthAgreement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AuthAgreement({:?})", self.peer)
    }
}

/// Local random bytes. They are not shown in logs.
#[derive(Clone, Copy)]
pub(super) struct OwnRandom(pub(super) [u8; RANDOM_LEN]);

impl core::fmt::Debug for OwnRandom {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("OwnRandom")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 4895 §6.1: as numbers, not as strings.
    #[test]
    fn key_vectors_are_ordered_as_numbers() {
        let key = |a: &[u8], b: &[u8]| association_key(b"k", a, b).to_vec();
        assert_eq!(key(&[2, 0], &[1, 9]), [b'k', 1, 9, 2, 0]);
        assert_eq!(key(&[1, 9], &[2, 0]), [b'k', 1, 9, 2, 0]);
        assert_eq!(
            key(&[1, 0, 0], &[9, 9]),
            [b'k', 9, 9, 1, 0, 0],
            "the longer number is larger"
        );
        assert_eq!(
            key(&[0, 0, 5], &[5]),
            [b'k', 5, 0, 0, 5],
            "of equal numbers the shorter one first"
        );
    }

    #[test]
    fn a_vector_keeps_the_order_whatever_the_order_of_the_parameters() {
        let config = AssociationConfig {
            dynamic_addresses: true,
            ..AssociationConfig::default()
        };
        let mut list = Vec::new();
        let (random, chunks) = ([7; RANDOM_LEN], required_chunks(&config));
        let mut all: Vec<_> = parameters(&random, &chunks).collect();
        all.reverse();
        all.iter().for_each(|parameter| parameter.emit(&mut list));
        let vector = KeyVector::read(Parameters::from_wire_bytes(&list))
            .expect("valid")
            .expect("complete");
        assert_eq!(vector.as_bytes(), local_vector(&config, &random));
        // RANDOM 36, CHUNKS 6 without its padding, HMAC-ALGO 8
        assert_eq!(vector.as_bytes().len(), 50);
        assert_eq!(vector.algorithm(), Some(Algorithm::Sha256));
        assert!(vector.chunks().has(ChunkType::ASCONF) && !vector.chunks().has(ChunkType::DATA));
        assert_eq!(KeyVector::from_bytes(vector.as_bytes()), Some(vector));
    }

    // RFC 4895 §3.2, §3.3
    #[test]
    fn unusable_parameters_disable_authentication() {
        let read = |list: &[Parameter<'_>]| {
            let mut bytes = Vec::new();
            list.iter().for_each(|parameter| parameter.emit(&mut bytes));
            KeyVector::read(Parameters::from_wire_bytes(&bytes))
        };
        let sha1 = Parameter::HmacAlgorithms(NumberList::from_wire_bytes(&[0, 1]));
        let random = Parameter::Random(&[1; 32]);
        // A list without SHA-1 is ignored.
        let unknown = Parameter::HmacAlgorithms(NumberList::from_wire_bytes(&[0, 2, 0, 9]));
        let sha256 = Parameter::HmacAlgorithms(NumberList::from_wire_bytes(&[0, 3]));
        assert_eq!(read(&[sha1]), Ok(None));
        assert_eq!(read(&[random]), Ok(None));
        assert_eq!(read(&[random, unknown]), Ok(None));
        assert_eq!(read(&[random, sha256]), Ok(None));
        let long = Parameter::ChunkList(&[0; 220]);
        assert_eq!(read(&[random, long, sha1]), Ok(None), "too long for a cookie");
        for len in [0, 31, 33, 60_000] {
            assert!(read(&[Parameter::Random(&vec![1; len]), sha1]).is_err(), "{len}");
        }
        let vector = read(&[random, sha1, Parameter::ChunkList(&[0, 1, 2, 14, 15])]).expect("valid");
        let set = vector.expect("complete").chunks();
        assert!(set.has(ChunkType::DATA));
        for never in [1, 2, 14, 15] {
            assert!(!set.has(ChunkType(never)), "{never}");
        }
    }

    #[test]
    fn no_bytes_of_a_cookie_cause_a_panic() {
        for len in 0..=64 {
            for byte in [0, 1, 0x80, 0xff] {
                let _ = KeyVector::from_bytes(&vec![byte; len]);
            }
        }
        assert_eq!(KeyVector::from_bytes(&[0x80, 2, 0, 0, 0x80, 4, 0, 0]), None);
    }
}
