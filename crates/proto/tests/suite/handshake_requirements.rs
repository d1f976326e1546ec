//! Requirements of RFC 9260 on INIT and INIT ACK that the other files do not test.

use std::collections::BTreeSet;
use std::convert::Infallible;

use crate::support::paths::quiet;
use crate::support::{Fate, Host, Net, addr, addrs, init, parameters, resealed};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssociationConfig, Discard, Endpoint, EndpointConfig, PathId, State, TransportAddr};
use whimbrel_wire::{Chunk, ChunkType, Init, Parameter, Tsn};

/// A configuration that offers every extension.
fn all_extensions() -> AssociationConfig {
    AssociationConfig {
        dynamic_addresses: true,
        ..quiet()
    }
}

fn types(init: &Init<'_>) -> Vec<u16> {
    init.parameters
        .iter()
        .map(|parameter| parameter.expect("well-formed").parameter_type())
        .collect()
}

const HOST_NAME: u16 = 11;

// [9260:3.3.2-1, 3.3.2-2, 3.3.2-8, 3.3.2-11, 3.3.2-13, 3.3.2.1.4-1, 3.3.2.1.5-1]
// [9260:3.3.3-1, 3.3.3-5, 3.3.3-8, 3.3.3-11, 3.3.3-14, 3.3.3.1-1]
#[test]
fn section_3_3_what_init_and_init_ack_announce() {
    for config in [quiet(), all_extensions()] {
        let smallest = AssociationConfig {
            outbound_streams: 20,
            max_inbound_streams: 3,
            ..config
        };
        let mut net = Net::with_config(2, &smallest, 1);
        net.connect(&smallest, 2);
        net.run_for(Span::from_secs(1));
        let (init, ack) = (
            net.last(Host::A, ChunkType::INIT),
            net.last(Host::B, ChunkType::INIT_ACK),
        );
        for sent in [&init, &ack] {
            let chunk = sent.init();
            assert!(chunk.initiate_tag != 0 && chunk.a_rwnd >= 1500);
            assert!(chunk.outbound_streams > 0 && chunk.inbound_streams > 0);
            let mut seen = BTreeSet::new();
            for number in types(&chunk) {
                assert_ne!(number, HOST_NAME);
                // Only addresses occur several times.
                assert!(seen.insert(number) || number == 5, "parameter {number} twice");
            }
            for parameter in chunk.parameters.iter() {
                if let Ok(Parameter::SupportedAddressTypes(list)) = parameter {
                    assert!(!list.contains(HOST_NAME));
                }
            }
        }
        assert_eq!(ack.init().outbound_streams, 3, "no more than the INIT allows");
    }
    for (recv_buffer, is_allowed) in [(1499, false), (1500, true)] {
        let config = AssociationConfig { recv_buffer, ..quiet() };
        assert_eq!(config.validate().is_ok(), is_allowed);
    }
    for streams in [(0, 1), (1, 0)] {
        let config = AssociationConfig {
            outbound_streams: streams.0,
            max_inbound_streams: streams.1,
            ..quiet()
        };
        assert!(config.validate().is_err());
    }
}

fn is_reached_at(net: &mut Net, host: Host) -> Vec<TransportAddr> {
    let id = net.only(host);
    let paths = net.host(host).association(id).expect("established").paths();
    paths.map(|path| path.remote).collect()
}

// [9260:3.3.2.1.2-1]
#[test]
fn section_3_3_2_1_2_mapped_addresses_are_listed_as_ipv4() {
    let config = EndpointConfig {
        local_port: 4001,
        local_addrs: vec![addr("10.0.0.1:0"), addr("[::ffff:10.0.1.1]:0")],
        ..EndpointConfig::default()
    };
    let mut net = Net::new(2);
    net.a = Endpoint::new(config, Box::new(Rng::stream(1, "a"))).expect("valid");
    net.connect(&quiet(), 1);
    net.drain(Host::A);
    let sent = net.last(Host::A, ChunkType::INIT);
    let listed: Vec<_> = types(&sent.init())
        .into_iter()
        .filter(|number| [5, 6].contains(number))
        .collect();
    assert_eq!(listed, [5, 5]);
}

// [9260:3.3.2.1.2-2, 3.3.3-20]
#[test]
fn section_3_3_without_a_list_the_source_is_the_only_address_of_either_end() {
    let mut net = Net::new(1);
    // A sends INITs to two addresses. The INIT ACK lists none, so its source is B's only address.
    net.connect(&quiet(), 2);
    net.run_for(Span::from_secs(1));
    assert_eq!(is_reached_at(&mut net, Host::A), addrs(Host::B, 1));
    assert_eq!(is_reached_at(&mut net, Host::B), addrs(Host::A, 1));
}

// [9260:3.3.3-7, 3.3.3-13, 3.3.3-16]
#[test]
fn section_3_3_3_an_invalid_init_ack_is_silently_dropped_in_other_states() {
    let cookie = parameters(&[Parameter::StateCookie(b"biscuit")]);
    let impossible = [
        Init {
            initiate_tag: 0,
            ..init(9, &cookie)
        },
        Init {
            outbound_streams: 0,
            ..init(9, &cookie)
        },
        Init {
            inbound_streams: 0,
            ..init(9, &cookie)
        },
    ];
    for echoed in [true, false] {
        let mut net = Net::new(1);
        net.filter = Box::new(move |packet| {
            if echoed && packet.has(ChunkType::COOKIE_ECHO) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        net.connect(&quiet(), 1);
        net.run_for(Span::from_millis(100));
        let a = net.only(Host::A);
        let state = net.state(Host::A, a);
        let expected = if echoed {
            State::CookieEchoed
        } else {
            State::Established
        };
        assert_eq!(state, expected);
        let before = net.wire.len();
        let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
        for chunk in impossible {
            assert!(net.forge(Host::A, tag, &[Chunk::InitAck(chunk)]).is_err());
        }
        assert_eq!((net.wire.len(), net.state(Host::A, a)), (before, state));
    }
}

// [9260:3.1-3]
#[test]
fn section_3_1_nothing_is_reported_before_the_tag_of_the_peer_is_known() {
    let unknown = whimbrel_wire::RawChunk::from_bytes(&[0xfe, 0, 0, 4]).expect("a chunk of an unknown type");
    for (state, is_reported) in [(State::CookieWait, false), (State::Established, true)] {
        let (mut net, _, tag, _) = Net::in_state(&quiet(), state);
        let before = net.wire.len();
        net.forge(Host::A, tag, &[Chunk::Unknown(unknown)]).expect("skipped");
        let tags: Vec<_> = net.wire[before..].iter().map(crate::support::Sent::tag).collect();
        assert_eq!(tags, if is_reported { vec![9] } else { vec![] }, "{state:?}");
    }
}

// [9260:3.3.3-3, 3.3.3-18, 3.3.3-19]
#[test]
fn section_3_3_3_a_long_init_ack_with_flags_is_accepted() {
    let mut net = Net::new(1);
    let a = net.connect(&quiet(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    // A parameter that is skipped.
    let mut list = vec![0; 2000];
    list[..4].copy_from_slice(&[0x80, 0x77, 7, 208]);
    list.extend(parameters(&[Parameter::StateCookie(b"biscuit")]));
    let mut bytes = crate::support::packet(4002, 4001, tag, &[Chunk::InitAck(init(9, &list))]);
    assert_eq!((bytes.len() > 1500, bytes[13]), (true, 0));
    bytes[13] = 0xff;
    net.deliver(Host::A, &resealed(bytes)).expect("accepted");
    assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(echo.chunks(), [Chunk::CookieEcho { cookie: b"biscuit" }]);
}

/// Random numbers of which the first ones are zero.
struct ZerosFirst(u32, Rng);

impl rand_core::TryRng for ZerosFirst {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        if self.0 > 0 {
            self.0 -= 1;
            return Ok(0);
        }
        Ok((rand_core::Rng::next_u64(&mut self.1) >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(rand_core::Rng::next_u64(&mut self.1))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(1);
        Ok(())
    }
}

// [9260:5.3.1-1, 5.1-2, 3.3.3-5]
#[test]
fn section_5_3_1_a_random_number_of_zero_is_not_used_as_tag() {
    let mut net = Net::new(1);
    for host in [Host::A, Host::B] {
        let config = EndpointConfig {
            local_port: crate::support::port(host),
            local_addrs: addrs(host, 1),
            listen: host == Host::B,
            ..EndpointConfig::default()
        };
        let endpoint = Endpoint::new(config, Box::new(ZerosFirst(3, Rng::stream(1, "x")))).expect("valid");
        *net.host(host) = endpoint;
    }
    net.connect(&quiet(), 1);
    net.run_for(Span::from_secs(1));
    for (host, chunk_type) in [(Host::A, ChunkType::INIT), (Host::B, ChunkType::INIT_ACK)] {
        assert_ne!(net.last(host, chunk_type).init().initiate_tag, 0, "{host:?}");
    }
}

/// A secret for the cookie key, and other random numbers that are the same for every secret.
struct WithSecret([u8; 32], Rng);

impl rand_core::TryRng for WithSecret {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((rand_core::Rng::next_u64(&mut self.1) >> 32) as u32)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(rand_core::Rng::next_u64(&mut self.1))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for (byte, secret) in bytes.iter_mut().zip(self.0) {
            *byte = secret;
        }
        Ok(())
    }
}

// [9260:5.1.3-4, 14.1-1]
#[test]
fn section_14_1_each_of_256_random_bits_changes_the_cookie_key() {
    let listening = |secret: [u8; 32]| {
        let mut net = Net::new(1);
        let config = EndpointConfig {
            local_port: crate::support::port(Host::B),
            local_addrs: addrs(Host::B, 1),
            listen: true,
            ..EndpointConfig::default()
        };
        net.b = Endpoint::new(config, Box::new(WithSecret(secret, Rng::stream(1, "b")))).expect("valid");
        net
    };
    let mut first = listening([0; 32]);
    first.forge(Host::B, 0, &[Chunk::Init(init(5, &[]))]).expect("answered");
    let answer = first.last(Host::B, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let (tag, echo) = (answer.init().initiate_tag, [Chunk::CookieEcho { cookie: &cookie }]);
    for bit in 0..256 {
        let mut secret = [0; 32];
        secret[bit / 8] = 1 << (bit % 8);
        assert_eq!(
            listening(secret).forge(Host::B, tag, &echo),
            Err(Discard::Cookie),
            "bit {bit}"
        );
    }
    listening([0; 32]).forge(Host::B, tag, &echo).expect("the same key");
}

// [9260:6.2-14]
#[test]
fn section_6_2_a_sack_delay_above_500_ms_is_refused() {
    for (ms, is_allowed) in [(0, true), (500, true), (501, false)] {
        let config = AssociationConfig {
            sack_delay: Span::from_millis(ms),
            ..quiet()
        };
        assert_eq!(config.validate().is_ok(), is_allowed, "{ms} ms");
    }
}

// [9260:3.3.8-2]
#[test]
fn section_3_3_8_a_shutdown_does_not_renege_on_gap_ack_blocks() {
    let (mut net, a, _) = Net::established(1, &quiet());
    net.filter = Box::new(|_| Fate::Drop);
    for _ in 0..3 {
        net.send(Host::A, a, whimbrel_proto::Message::zeros(0, 1000));
    }
    let first = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let mut gaps = Vec::new();
    whimbrel_wire::GapBlock { start: 2, end: 3 }.emit(&mut gaps);
    let sack = Chunk::Sack(whimbrel_wire::Sack {
        cumulative_tsn_ack: Tsn(first.wrapping_sub(1)),
        a_rwnd: 60_000,
        gaps: whimbrel_wire::GapBlocks::from_wire_bytes(&gaps),
        duplicates: whimbrel_wire::DuplicateTsns::from_wire_bytes(&[]),
        congestion_indicated: false,
        packets: 0,
    });
    let flight = |net: &Net| {
        let mut paths = net.a.association(a).expect("established").paths();
        paths.find(|path| path.id == PathId(0)).expect("a path").flight
    };
    net.as_peer(Host::A, &[sack]).expect("accepted");
    assert_eq!(flight(&net), 1016);
    let cumulative_tsn_ack = Tsn(first.wrapping_sub(1));
    net.as_peer(Host::A, &[Chunk::Shutdown { cumulative_tsn_ack }])
        .expect("accepted");
    assert_eq!(flight(&net), 1016);
    // With the first chunk, the two others would have been acknowledged if they were still held.
    let cumulative_tsn_ack = Tsn(first);
    net.as_peer(Host::A, &[Chunk::Shutdown { cumulative_tsn_ack }])
        .expect("accepted");
    assert_eq!(flight(&net), 2 * 1016);
}
