//! Authenticated chunks (RFC 4895): which are accepted and which are refused.

use crate::support::attacker::*;
use crate::support::{Fate, Host, Net, addr, addrs, init, packet, parameters, port, resealed};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, AuthConfig, CloseReason, Discard, State};
use whimbrel_wire::{Cause, Causes, Chunk, ChunkType, NumberList, Parameter};

fn with_auth(auth: AuthConfig) -> AssociationConfig {
    AssociationConfig {
        auth,
        ..AssociationConfig::default()
    }
}

fn keyed(key: &str) -> AssociationConfig {
    with_auth(AuthConfig {
        key: key.into(),
        ..AuthConfig::default()
    })
}

fn chunks(chunks: &[u8]) -> AssociationConfig {
    with_auth(AuthConfig {
        chunks: chunks.to_vec(),
        ..AuthConfig::default()
    })
}

// A peer cannot evade required authentication by omitting the parameters, nor can an attacker by removing them in transit.
#[test]
fn a_peer_without_required_authentication_is_refused() {
    let plain = AssociationConfig::default();
    let offered = with_auth(AuthConfig {
        enabled: true,
        ..AuthConfig::default()
    });
    for (a_wants, b_wants, fits) in [
        (keyed("one"), plain.clone(), false),
        (plain.clone(), keyed("one"), false),
        (chunks(&[0]), plain.clone(), false),
        (plain.clone(), chunks(&[0]), false),
        (plain.clone(), offered.clone(), true),
        (offered.clone(), keyed("one"), true),
        (chunks(&[0]), offered, true),
    ] {
        let mut net = Net::with_config(1, &b_wants, 1);
        let a = net.connect(&a_wants, 1);
        net.run_for(Span::from_secs(2));
        let up = net.state(Host::A, a) == State::Established;
        assert_eq!(up, fits, "{a_wants:?} {b_wants:?}");
        if !fits {
            let abort = net
                .wire
                .iter()
                .find(|sent| sent.has(ChunkType::ABORT))
                .expect("an ABORT");
            assert_eq!(abort.causes(), [2], "missing mandatory parameter");
            let why = net.close_reason(Host::A);
            let is_right = matches!(
                why,
                Some(CloseReason::Refused { cause: Some(2) } | CloseReason::ProtocolViolation(_))
            );
            assert!(is_right, "{why:?}");
            assert_eq!(net.b.associations().count(), 0);
        }
    }
}

// RFC 4895 §6.1: 32 bytes.
#[test]
fn a_random_number_has_32_bytes() {
    for (config, aborted) in [(dynamic(), true), (AssociationConfig::default(), false)] {
        let mut net = Net::with_config(1, &config, 1);
        let random = [1; 31];
        let list = parameters(&[
            Parameter::Random(&random),
            Parameter::HmacAlgorithms(NumberList::from_wire_bytes(&[0, 1])),
        ]);
        let bytes = packet(port(Host::A), port(Host::B), 0, &[Chunk::Init(init(7, &list))]);
        let _ = net.deliver(Host::B, &bytes);
        let answer = net.wire.last().expect("a reply");
        assert_eq!(answer.has(ChunkType::ABORT), aborted);
        if aborted {
            assert_eq!((answer.tag(), answer.causes()), (7, vec![13]));
        }
    }
}

// RFC 4895 §6.3: not even with the peer's own tag, which an eavesdropper knows.
#[test]
fn a_reflected_abort_cannot_be_authenticated() {
    let aborted = CloseReason::AbortedByPeer {
        cause: None,
        reason: String::new(),
    };
    for (config, result, reason) in [
        (chunks(&[6]), Err(Discard::Unauthenticated), None),
        (AssociationConfig::default(), Ok(()), Some(aborted)),
    ] {
        let (mut net, _, b) = Net::established(1, &config);
        let abort = Chunk::Abort {
            tag_reflected: true,
            causes: Causes::from_wire_bytes(&[]),
        };
        let tag = net.tag_of(Host::A);
        assert_eq!(net.forge(Host::B, tag, &[abort]), result);
        let state = if result.is_ok() {
            State::Closed
        } else {
            State::Established
        };
        assert_eq!((net.state(Host::B, b), net.close_reason(Host::B)), (state, reason));
        assert_eq!(net.count(Host::B, ChunkType::ABORT), 0, "an ABORT is not answered");
    }
}

/// Returns A's packet with COOKIE ECHO, which was lost.
fn cookie_echo(config: &AssociationConfig) -> (Net, Vec<u8>) {
    let mut net = Net::with_config(1, config, 1);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.connect(config, 1);
    net.run_for(Span::from_millis(100));
    let bytes = net.last(Host::A, ChunkType::COOKIE_ECHO).bytes;
    (net, bytes)
}

// RFC 4895 §6.3: it is verified with the key from the cookie, before the association exists.
#[test]
fn a_cookie_is_accepted_only_after_a_valid_auth_chunk() {
    let (mut net, good) = cookie_echo(&chunks(&[0, 10]));
    assert_eq!(
        crate::support::chunk_types(&good),
        [ChunkType::AUTH, ChunkType::COOKIE_ECHO]
    );
    // With one bit of the HMAC changed; then without AUTH.
    let mut changed = good.clone();
    changed[30] ^= 1;
    assert_eq!(net.deliver(Host::B, &resealed(changed)), Err(Discard::Unauthenticated));
    let view = crate::support::view(&good);
    let all: Vec<_> = view.chunks().map_while(Result::ok).collect();
    let bare = packet(port(Host::A), port(Host::B), view.header().verification_tag, &all[1..]);
    assert_eq!(net.deliver(Host::B, &bare), Err(Discard::Unauthenticated));
    assert_eq!(net.b.associations().count(), 0);
    assert_eq!(net.deliver(Host::B, &good), Ok(()));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
}

#[test]
fn an_invalid_auth_chunk_is_refused_even_if_none_is_required() {
    let (mut net, good) = cookie_echo(&chunks(&[0]));
    let mut changed = good.clone();
    changed[30] ^= 1;
    assert_eq!(net.deliver(Host::B, &resealed(changed)), Err(Discard::Unauthenticated));
    assert_eq!(net.b.associations().count(), 0);
    assert_eq!(net.deliver(Host::B, &good), Ok(()));
}

// RFC 4895 §3.3, §6.1: every implementation supports SHA-1; the key identifier must match as well as the key.
#[test]
fn sha_1_is_accepted_and_another_key_identifier_is_not() {
    let config = AssociationConfig {
        auth: AuthConfig {
            key_id: 5,
            ..AuthConfig::default()
        },
        ..dynamic()
    };
    let (mut net, _, b) = Net::established(1, &config);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let (correlation, address) = (1, addr("10.6.6.6:0").ip());
    let request = [Parameter::AddIp { correlation, address }];
    for (key_id, sha1, accepted) in [(0, false, false), (5, true, true)] {
        (attacker.key_id, attacker.sha1) = (key_id, sha1);
        let serial = attacker.serial;
        let bytes = attacker.asconf(&request);
        attacker.serial = if accepted { attacker.serial } else { serial };
        net.inject(Host::B, addrs(Host::B, 1)[0], wifi(), bytes);
        net.run_for(Span::from_millis(5));
        assert_eq!(remotes(&mut net, Host::B, b).len() == 2, accepted);
        assert_eq!(unauthenticated(&mut net, Host::B), 1);
    }
}

#[test]
fn a_key_can_be_hexadecimal() {
    let mut net = Net::with_config(
        1,
        &AssociationConfig {
            dynamic_addresses: true,
            ..keyed("abc")
        },
        1,
    );
    let a = net.connect(
        &AssociationConfig {
            dynamic_addresses: true,
            ..keyed("hex:616263")
        },
        1,
    );
    net.run_for(Span::from_secs(1));
    add(&mut net, a, lte()).expect("the request is valid");
    net.run_for(Span::from_secs(1));
    assert_eq!(locals(&net, a), [wifi(), lte()]);
    for wrong in [
        "hex:",
        "hex:6",
        "hex:6g",
        "hex:+1",
        &"x".repeat(129),
        &format!("hex:{}", "00".repeat(129)),
    ] {
        let error = keyed(wrong).validate().expect_err("no key").to_string();
        assert!(error.contains("auth.key") && !error.contains("xxx"), "{error}");
    }
    assert_eq!(keyed(&"x".repeat(128)).validate(), Ok(()));
    assert_eq!(chunks(&[10]).validate(), Ok(()));
}

#[test]
fn a_log_shows_no_secrets() {
    let config = keyed("a secret");
    let (net, a, _) = Net::established(1, &config);
    let shown = format!("{config:?} {:?} {:?}", net.a, net.a.association(a));
    assert!(!shown.contains("a secret"), "{shown}");
    assert!(shown.contains("OwnRandom") && shown.contains("has_key: true"));
    let init = net.wire.iter().find(|sent| sent.has(ChunkType::INIT)).expect("an INIT");
    let random = init.init().parameters.iter().find_map(|parameter| match parameter {
        Ok(Parameter::Random(random)) => Some(format!("{random:?}")),
        _ => None,
    });
    let random = random.expect("random bytes");
    assert!(!shown.contains(random.trim_matches(['[', ']'])), "{random}");
}

// RFC 4895 §6.3: a packet with a wrong HMAC is discarded without any reply.
#[test]
fn cookie_echo_with_another_key_is_silently_discarded() {
    let shared = |key: &[u8]| with_auth(AuthConfig::shared_key(key));
    let mut net = Net::with_config(1, &shared(b"one"), 1);
    let a = net.connect(&shared(b"other"), 1);
    net.run_for(Span::from_millis(900));
    assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    assert_eq!(net.b.associations().count(), 0);
    assert_eq!(unauthenticated(&mut net, Host::B), 1);
    let from_b: Vec<_> = net.wire.iter().filter(|sent| sent.from == Host::B).collect();
    assert!(
        from_b.len() == 1 && from_b[0].has(ChunkType::INIT_ACK),
        "{}",
        from_b.len()
    );
    net.run_for(Span::from_secs(600));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
}

// RFC 4895 §6.3: a sender without the key cannot end the handshake either.
#[test]
fn unauthenticated_refusal_of_the_cookie_is_discarded() {
    let mut stale = Vec::new();
    Cause::StaleCookie { staleness_us: 1000 }.emit(&mut stale);
    let refusals = [
        Chunk::Abort {
            tag_reflected: false,
            causes: Causes::from_wire_bytes(&[]),
        },
        Chunk::Error {
            causes: Causes::from_wire_bytes(&stale),
        },
    ];
    for (refusal, config, is_taken) in [
        (refusals[0], chunks(&[6, 9]), false),
        (refusals[1], chunks(&[6, 9]), false),
        (refusals[0], with_auth(AuthConfig::shared_key(b"one")), false),
        (refusals[0], chunks(&[0]), true),
        (refusals[1], chunks(&[0]), true),
    ] {
        let (mut net, _) = cookie_echo(&config);
        let a = net.only(Host::A);
        let tag = net.last(Host::B, ChunkType::INIT_ACK).tag();
        let accepted = net.forge(Host::A, tag, &[refusal]);
        assert_eq!(
            accepted == Err(Discard::Unauthenticated),
            !is_taken,
            "{refusal:?} {accepted:?}"
        );
        assert_eq!(net.state(Host::A, a) == State::CookieEchoed, !is_taken, "{refusal:?}");
    }
}

// The endpoint keeps no state; the cookie contains all data needed (RFC 4895 §6.3).
#[test]
fn error_about_a_stale_cookie_is_authenticated() {
    let shared = with_auth(AuthConfig::shared_key(b"one"));
    let mut net = Net::with_config(1, &shared, 1);
    // The first cookie arrives too late.
    let mut held = 0;
    net.filter = Box::new(move |packet| {
        if packet.has(ChunkType::COOKIE_ECHO) && held == 0 {
            held += 1;
            Fate::Delay(Span::from_secs(61))
        } else if packet.has(ChunkType::COOKIE_ECHO) && held < 7 {
            held += 1;
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = net.connect(&shared, 1);
    net.run_for(Span::from_secs(200));
    let errors: Vec<_> = net.wire.iter().filter(|sent| sent.has(ChunkType::ERROR)).collect();
    assert!(
        !errors.is_empty() && errors.iter().all(|sent| sent.has(ChunkType::AUTH)),
        "{}",
        errors.len()
    );
    assert_eq!(net.state(Host::A, a), State::Established);
}

#[test]
fn shared_key_authenticates_every_packet_after_the_init_ack() {
    let shared = with_auth(AuthConfig::shared_key(&[0, 255, 7]));
    let (mut net, a, b) = Net::established(1, &shared);
    let abort = Chunk::Abort {
        tag_reflected: false,
        causes: Causes::from_wire_bytes(&[]),
    };
    let tag = net.tag_of(Host::B);
    assert_eq!(net.forge(Host::B, tag, &[abort]), Err(Discard::Unauthenticated));
    assert_eq!(net.state(Host::B, b), State::Established);
    net.run_for(Span::from_secs(40));
    assert_eq!(net.state(Host::A, a), State::Established);
    for sent in &net.wire {
        let handshake = sent.has(ChunkType::INIT) || sent.has(ChunkType::INIT_ACK);
        assert!(handshake || sent.has(ChunkType::AUTH), "{:?}", sent.bytes);
    }
}

#[test]
fn a_peer_that_requires_a_key_is_not_connected_to_without_one() {
    let keyed = AssociationConfig {
        auth: AuthConfig::shared_key(b"a shared key of some length"),
        ..AssociationConfig::default()
    };
    for (enabled, reason) in [(false, Some(CloseReason::KeyRequired)), (true, None)] {
        let config = AssociationConfig {
            dynamic_addresses: true,
            auth: AuthConfig {
                enabled,
                ..AuthConfig::default()
            },
            ..AssociationConfig::default()
        };
        let mut net = Net::with_config(1, &keyed, 1);
        net.connect(&config, 1);
        net.run_for(Span::from_secs(1));
        assert_eq!(net.close_reason(Host::A), reason);
        assert_eq!(net.count(Host::A, ChunkType::COOKIE_ECHO), usize::from(enabled));
    }
}
