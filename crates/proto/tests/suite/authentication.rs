//! Authenticated chunks (RFC 4895): what is refused, and what is taken.

use crate::support::insider::*;
use crate::support::{Fate, Host, Net, addr, addrs, init, packet, parameters, port, resealed};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, AuthConfig, CloseReason, Discard, State};
use whimbrel_wire::{Cause, Causes, Chunk, ChunkType, Parameter, TypeList};

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

// Leaving the parameters out, or taking them out on the way, is no way around what was configured.
#[test]
fn whoever_has_to_authenticate_is_refused_if_it_does_not() {
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
            Parameter::HmacAlgorithms(TypeList::from_wire_bytes(&[0, 1])),
        ]);
        let bytes = packet(port(Host::A), port(Host::B), 0, &[Chunk::Init(init(7, &list))]);
        let _ = net.hand(Host::B, &bytes);
        let answer = net.wire.last().expect("an answer");
        assert_eq!(answer.has(ChunkType::ABORT), aborted);
        if aborted {
            assert_eq!((answer.tag(), answer.causes()), (7, vec![13]));
        }
    }
}

// RFC 4895 §6.3: not even with the peer's own tag, which whoever listens has seen.
#[test]
fn a_reflected_abort_cannot_be_authenticated() {
    for (config, lives) in [(chunks(&[6]), true), (AssociationConfig::default(), false)] {
        let (mut net, _, b) = Net::established(1, &config);
        let abort = Chunk::Abort {
            tag_reflected: true,
            causes: Causes::from_wire_bytes(&[]),
        };
        let tag = net.tag_of(Host::A);
        let taken = net.forge(Host::B, tag, &[abort]);
        assert_eq!(taken == Err(Discard::Unauthenticated), lives);
        assert_eq!(net.state(Host::B, b) == State::Established, lives);
    }
}

/// A's packet with COOKIE ECHO, which did not arrive.
fn cookie_echo(config: &AssociationConfig) -> (Net, Vec<u8>) {
    let mut net = Net::with_config(1, config, 1);
    net.knob = Box::new(|packet| {
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

// RFC 4895 §6.3: it is checked with the key that the cookie tells, before there is an association.
#[test]
fn a_cookie_is_taken_only_behind_an_auth_chunk_that_is_right() {
    let (mut net, good) = cookie_echo(&chunks(&[0, 10]));
    assert_eq!(
        crate::support::chunk_types(&good),
        [ChunkType::AUTH, ChunkType::COOKIE_ECHO]
    );
    // A bit of the HMAC; then without AUTH.
    let mut spoiled = good.clone();
    spoiled[30] ^= 1;
    assert_eq!(net.hand(Host::B, &resealed(spoiled)), Err(Discard::Unauthenticated));
    let view = crate::support::view(&good);
    let all: Vec<_> = view.chunks().map_while(Result::ok).collect();
    let bare = packet(port(Host::A), port(Host::B), view.header().verification_tag, &all[1..]);
    assert_eq!(net.hand(Host::B, &bare), Err(Discard::Unauthenticated));
    assert_eq!(net.b.associations().count(), 0);
    assert_eq!(net.hand(Host::B, &good), Ok(()));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
}

#[test]
fn a_wrong_auth_chunk_counts_even_if_none_is_needed() {
    let (mut net, good) = cookie_echo(&chunks(&[0]));
    let mut spoiled = good.clone();
    spoiled[30] ^= 1;
    assert_eq!(net.hand(Host::B, &resealed(spoiled)), Err(Discard::Unauthenticated));
    assert_eq!(net.b.associations().count(), 0);
    assert_eq!(net.hand(Host::B, &good), Ok(()));
}

// RFC 4895 §3.3, §6.1: everybody knows SHA-1; the number of the key counts besides the key.
#[test]
fn sha_1_is_taken_and_another_number_of_the_key_is_not() {
    let config = AssociationConfig {
        auth: AuthConfig {
            key_id: 5,
            ..AuthConfig::default()
        },
        ..dynamic()
    };
    let (mut net, _, b) = Net::established(1, &config);
    let mut insider = Insider::new(&net);
    mute(&mut net, Host::B);
    let (correlation, address) = (1, addr("10.6.6.6:0").ip());
    let request = [Parameter::AddIp { correlation, address }];
    for (key_id, sha1, taken) in [(0, false, false), (5, true, true)] {
        (insider.key_id, insider.sha1) = (key_id, sha1);
        let serial = insider.serial;
        let bytes = insider.asconf(&request);
        insider.serial = if taken { insider.serial } else { serial };
        net.inject(Host::B, addrs(Host::B, 1)[0], wifi(), bytes);
        net.run_for(Span::from_millis(5));
        assert_eq!(remotes(&mut net, Host::B, b).len() == 2, taken);
        assert_eq!(unauthenticated(&mut net, Host::B), 1);
    }
}

#[test]
fn a_key_may_be_written_as_digits() {
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
    add(&mut net, a, lte()).expect("can be asked for");
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

// RFC 4895 §6.3: a packet whose HMAC is wrong is discarded, and no answer shows that it came.
#[test]
fn cookie_echo_with_another_key_is_discarded_in_silence() {
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

// RFC 4895 §6.3: whoever does not have the key cannot end the handshake either.
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
        let taken = net.forge(Host::A, tag, &[refusal]);
        assert_eq!(
            taken == Err(Discard::Unauthenticated),
            !is_taken,
            "{refusal:?} {taken:?}"
        );
        assert_eq!(net.state(Host::A, a) == State::CookieEchoed, !is_taken, "{refusal:?}");
    }
}

// The end that keeps no state has what it needs in the cookie (RFC 4895 §6.3).
#[test]
fn error_about_a_stale_cookie_is_authenticated() {
    let shared = with_auth(AuthConfig::shared_key(b"one"));
    let mut net = Net::with_config(1, &shared, 1);
    // The first cookie comes too late.
    let mut held = 0;
    net.knob = Box::new(move |packet| {
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
