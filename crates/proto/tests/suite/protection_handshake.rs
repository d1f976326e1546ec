//! The handshake of encrypted associations (draft-ietf-tsvwg-sctp-dtls-chunk): agreement, downgrades, cookies.

use crate::protection::*;
use crate::support::{Fate, Host, Net, Sent, addrs, data, extended, init, packet, parameters};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, AuthConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, Message, State,
};
use whimbrel_wire::{Chunk, ChunkType, Dtls, KeyManagement, Parameter, Parameters, parameter_type};

// RFC 9260 §5.2.2 answers an INIT; the draft discards the COOKIE ECHO that is not protected ("SCTP Restart Considerations").
// [dtls:5.4-2]
#[test]
fn an_injected_init_does_not_restart_an_association() {
    let (mut net, a, b) = established(1);
    let offer = |methods| {
        parameters(&[Parameter::DtlsKeyManagement(KeyManagement {
            tie_breaker: 5,
            restart: false,
            server: true,
            client: true,
            methods,
        })])
    };
    for (list, cause) in [(offer(&[0]), None), (offer(&[192]), Some(101)), (Vec::new(), Some(100))] {
        let _ = net.forge(Host::B, 0, &[Chunk::Init(init(77, &list))]);
        let answer = net.wire.last().expect("an answer").clone();
        assert_eq!(answer.tag(), 77);
        match cause {
            Some(cause) => assert_eq!(answer.causes(), [cause]),
            None => {
                let ack = answer.init();
                // The tie breaker is a new one for each.
                let _ = net.forge(Host::B, 0, &[Chunk::Init(init(78, &list))]);
                let other = net.wire.last().expect("an answer").clone();
                let tie_breaker = |sent: &Sent| {
                    sent.init().parameters.iter().find_map(|parameter| match parameter {
                        Ok(Parameter::DtlsKeyManagement(offer)) => Some(offer.tie_breaker),
                        _ => None,
                    })
                };
                assert_ne!(tie_breaker(&answer), None);
                assert_ne!(tie_breaker(&answer), tie_breaker(&other));
                let cookie = ack.parameters.state_cookie().expect("a cookie");
                let sent = net.wire.len();
                let result = net.forge(Host::B, ack.initiate_tag, &[Chunk::CookieEcho { cookie }]);
                assert_eq!(result, Err(Discard::Unprotected));
                assert_eq!(net.wire.len(), sent, "silently");
            }
        }
    }
    assert_eq!(net.b.associations().count(), 1);
    assert!(!net.events_of(Host::B).contains(&Event::Restarted));
    // The COOKIE ECHO of the association itself is not answered any more, as the peer has shown that it has the COOKIE ACK.
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(net.deliver(Host::B, &echo.bytes), Err(Discard::Unprotected));
    still_works(&mut net, a, b);
}

/// Delivers the handshake with INIT or INIT ACK changed by `change`, which gets its parameters.
fn with_changed_offer(of: ChunkType, change: impl Fn(&mut Vec<u8>)) -> (Net, AssocId) {
    let config = config();
    let mut net = Net::with_config(1, &config, 1);
    net.filter = Box::new(move |packet| if packet.has(of) { Fate::Drop } else { Fate::Deliver });
    let a = net.connect(&config, 1);
    net.run_for(Span::from_millis(100));
    let sent = net.wire.iter().find(|sent| sent.has(of)).expect("it was sent").clone();
    let (source, destination) = sent.ports();
    let original = sent.init();
    let mut list = Vec::new();
    for raw in original.parameters.raw().flatten() {
        if raw.parameter_type() == parameter_type::DTLS_KEY_MANAGEMENT {
            let mut bytes = raw.bytes().to_vec();
            change(&mut bytes);
            whimbrel_wire::tlv::append_tlv(&mut list, &bytes);
        } else {
            whimbrel_wire::tlv::append_tlv(&mut list, raw.bytes());
        }
    }
    let changed = whimbrel_wire::Init {
        parameters: Parameters::from_wire_bytes(&list),
        ..original
    };
    let chunk = match of {
        ChunkType::INIT => Chunk::Init(changed),
        _ => Chunk::InitAck(changed),
    };
    let bytes = packet(source, destination, sent.tag(), &[chunk]);
    net.filter = Box::new(|_| Fate::Deliver);
    net.inject(sent.from.other(), sent.remote, sent.local, bytes);
    net.run_for(Span::from_millis(100));
    (net, a)
}

// The draft, "Establishment of a Protected Association" and "Downgrade Attacks".
// [dtls:5.1-3]
#[test]
fn a_removed_offer_ends_the_handshake() {
    // A parameter of this type is skipped by everyone.
    let remove = |bytes: &mut Vec<u8>| *bytes = vec![0x80, 0x77, 0, 4];
    let (net, _) = with_changed_offer(ChunkType::INIT, remove);
    assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [100]);
    assert_eq!(
        net.close_reason(Host::A),
        Some(CloseReason::Refused { cause: Some(100) })
    );
    assert_eq!(net.b.associations().count(), 0);
    let (net, _) = with_changed_offer(ChunkType::INIT_ACK, remove);
    assert_eq!(net.last(Host::A, ChunkType::ABORT).causes(), [100]);
    let reason = CloseReason::ProtocolViolation("an INIT ACK without the required encryption");
    assert_eq!(net.close_reason(Host::A), Some(reason));
    assert_eq!(net.b.associations().count(), 0);
}

/// A change of the bytes of an offer.
type Change = fn(&mut Vec<u8>);

// [dtls:6-4]
#[test]
fn a_changed_offer_makes_keys_that_do_not_fit() {
    for of in [ChunkType::INIT, ChunkType::INIT_ACK] {
        let changes: [(&str, Change); 4] = [
            ("tie breaker", |bytes| bytes[7] ^= 1),
            ("reserved bits", |bytes| bytes[8] ^= 0x80),
            ("restart", |bytes| bytes[8] |= 4),
            ("a further method", |bytes| {
                bytes.push(192);
                bytes[3] += 1;
            }),
        ];
        for (what, change) in changes {
            let (mut net, a) = with_changed_offer(of, change);
            assert_eq!(net.state(Host::A, a), State::CookieEchoed, "{of}: {what}");
            let b = net.only(Host::B);
            let now = net.now;
            net.b.send(now, b, Message::new(0, TEXT)).expect("there is room");
            net.run_for(Span::from_secs(300));
            assert_eq!(
                net.close_reason(Host::A),
                Some(CloseReason::HandshakeTimeout),
                "{of}: {what}"
            );
            assert!(net.contents(Host::A).is_empty() && net.contents(Host::B).is_empty());
        }
    }
}

#[test]
fn another_secret_does_not_fit() {
    let mut net = Net::with_config(1, &config(), 1);
    let a = net.connect(&keyed(&[8; 32]), 1);
    let now = net.now;
    net.a.send(now, a, Message::new(0, TEXT)).expect("there is room");
    net.run_for(Span::from_secs(300));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
    assert!(net.contents(Host::B).is_empty());
}

// [dtls:1.1-2, 3.2-1, 3.2-3]
#[test]
fn ends_that_do_not_agree_on_encryption_are_refused_if_it_is_required() {
    let plain = AssociationConfig {
        dynamic_addresses: true,
        ..AssociationConfig::default()
    };
    let strict = config();
    let mut loose = config();
    loose.protection.required = false;
    for (a_has, b_has, is_up, is_protected) in [
        (&strict, &plain, false, false),
        (&plain, &strict, false, false),
        (&loose, &plain, true, false),
        (&plain, &loose, true, false),
        (&loose, &strict, true, true),
        (&strict, &loose, true, true),
        (&loose, &loose, true, true),
    ] {
        let mut net = Net::with_config(1, b_has, 1);
        let a = net.connect(a_has, 1);
        net.run_for(Span::from_secs(1));
        assert_eq!(net.state(Host::A, a) == State::Established, is_up);
        if is_up {
            let b = net.only(Host::B);
            assert_eq!(net.a.association(a).expect("A").is_protected(), is_protected);
            assert_eq!(net.b.association(b).expect("B").is_protected(), is_protected);
            // ASCONF without protection has to be authenticated, and RFC 4895 is not offered.
            let may_change = net.a.association(a).expect("A").has_dynamic_addresses();
            assert_eq!(may_change, is_protected);
            still_works(&mut net, a, b);
        } else {
            assert_eq!(net.b.associations().count(), 0);
        }
        // "Its support MUST NOT be negotiated in combination": no AUTH beside it.
        let offers = |sent: &Sent, wanted| {
            let mut all = sent.init().parameters.raw().flatten();
            all.any(|raw| raw.parameter_type() == wanted)
        };
        for sent in net
            .wire
            .iter()
            .filter(|sent| sent.has(ChunkType::INIT) || sent.has(ChunkType::INIT_ACK))
        {
            let names_auth = sent.init().parameters.iter().any(|parameter| match parameter {
                Ok(Parameter::SupportedExtensions(types)) => types.contains(&ChunkType::AUTH.0),
                _ => false,
            });
            let has_auth = names_auth || offers(sent, parameter_type::RANDOM);
            assert!(!(offers(sent, parameter_type::DTLS_KEY_MANAGEMENT) && has_auth));
        }
    }
    let both = AssociationConfig {
        auth: AuthConfig::shared_key(b"a key for AUTH"),
        ..config()
    };
    assert!(both.validate().is_err());
}

#[test]
fn the_handshake_survives_losses() {
    for lost in [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::DTLS,
    ] {
        let mut net = Net::with_config(1, &config(), 1);
        let mut left = 2;
        net.filter = Box::new(move |packet| {
            let is_lost = left > 0 && packet.has(lost);
            left -= u32::from(is_lost);
            if is_lost { Fate::Drop } else { Fate::Deliver }
        });
        let a = net.connect(&config(), 1);
        net.run_for(Span::from_secs(20));
        let b = net.only(Host::B);
        still_works(&mut net, a, b);
    }
}

// RFC 9260 §5.2.4: both ends open the association at once. The offers of INIT and INIT ACK are the same then.
#[test]
fn both_ends_open_the_association_at_once() {
    for lost in [None, Some(Host::A), Some(Host::B)] {
        let mut net = Net::with_config(1, &config(), 1);
        net.filter = Box::new(move |packet| {
            let is_lost = Some(packet.from) == lost && packet.has(ChunkType::INIT_ACK);
            if is_lost { Fate::Drop } else { Fate::Deliver }
        });
        let a = net.connect(&config(), 1);
        let now = net.now;
        let b = net
            .b
            .connect(now, config(), 4001, &addrs(Host::A, 1))
            .expect("it can be opened");
        net.run_for(Span::from_secs(10));
        still_works(&mut net, a, b);
        assert_eq!(net.b.associations().count(), 1);
    }
}

// RFC 9260 §5.2.6: the answer to a stale cookie comes from an end without keys.
#[test]
fn a_stale_cookie_starts_the_handshake_again() {
    let mut net = Net::with_config(1, &config(), 1);
    net.filter = Box::new(|packet| match packet.has(ChunkType::COOKIE_ECHO) {
        true => Fate::Delay(Span::from_secs(70)),
        false => Fate::Deliver,
    });
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_secs(69));
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(60));
    assert!(net.count(Host::B, ChunkType::ERROR) > 0, "a stale cookie");
    let b = net.only(Host::B);
    still_works(&mut net, a, b);
}

// RFC 9260 §3.2: an end without DTLS chunks reports the type, and processes nothing of the packet.
#[test]
fn without_an_agreement_the_chunk_is_unknown() {
    let (mut net, ..) = Net::established(1, &AssociationConfig::default());
    let chunk = Chunk::Dtls(Dtls {
        restart: false,
        epoch: 3,
        number: 5,
        record: &[1; 40],
    });
    assert_eq!(
        net.as_peer(Host::B, &[chunk, Chunk::ShutdownAck]),
        Err(Discard::InvalidChunk)
    );
    assert_eq!(net.last(Host::B, ChunkType::ERROR).causes(), [6]);
}

// [dtls:4.3-2, 4.3-4, 4.3-6, 4.3-8]
#[test]
fn refusals_name_their_cause() {
    let config = config();
    let offer = |server, client, methods| {
        parameters(&[Parameter::DtlsKeyManagement(KeyManagement {
            tie_breaker: 5,
            restart: false,
            server,
            client,
            methods,
        })])
    };
    for (list, cause) in [
        (Vec::new(), 100),
        (offer(true, true, &[192]), 101),
        (offer(false, false, &[0]), 103),
    ] {
        let mut net = Net::with_config(1, &config, 1);
        assert_eq!(
            net.forge(Host::B, 0, &[Chunk::Init(init(7, &list))]),
            Err(Discard::Unprotected)
        );
        assert_eq!(net.wire.last().expect("an ABORT").causes(), [cause]);
        assert_eq!(discards(&mut net, Host::B, Discard::Unprotected), 1);
    }
    // Both ends open it with the same tie breaker.
    let mut net = Net::with_config(1, &config, 1);
    net.filter = Box::new(|_| Fate::Drop);
    let a = net.connect(&config, 1);
    net.run_for(Span::from_millis(1));
    let sent = net.last(Host::A, ChunkType::INIT);
    let offer = sent.init().parameters.raw().flatten();
    let offer = offer.filter(|raw| raw.parameter_type() == parameter_type::DTLS_KEY_MANAGEMENT);
    let list = offer.map(|raw| raw.bytes().to_vec()).next().expect("an offer");
    assert!(net.forge(Host::A, 0, &[Chunk::Init(init(7, &list))]).is_err());
    assert_eq!(net.wire.last().expect("an ABORT").causes(), [102]);
    assert_eq!(net.state(Host::A, a), State::CookieWait);
}

// COOKIE ECHO is not encrypted. What an attacker adds to its packet is not processed.
#[test]
fn nothing_behind_the_cookie_is_processed() {
    let mut net = Net::with_config(1, &config(), 1);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_millis(100));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    let tsn = net.sent(Host::A, ChunkType::INIT)[0].init().initial_tsn.0;
    net.filter = Box::new(|_| Fate::Deliver);
    let more = [Chunk::Data(data(tsn, 0, b"forged"))];
    assert_eq!(net.deliver(Host::B, &extended(&echo.bytes, &more)), Ok(()));
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    assert!(net.contents(Host::B).is_empty());
    still_works(&mut net, a, b);
}

// Before the COOKIE ACK nothing can be sent but the COOKIE ECHO, so that nothing else is answered.
#[test]
fn nothing_is_sent_with_the_cookie() {
    let config = config();
    let mut net = Net::with_config(2, &config, 1);
    let a = net.connect(&config, 2);
    // COOKIE ACK is lost, and HEARTBEATs to the other address arrive.
    let from = net.now;
    net.filter = Box::new(move |packet| {
        let is_first = packet.remote == addrs(Host::A, 1)[0] && packet.has(ChunkType::DTLS);
        match is_first && packet.now.since(from) < Span::from_secs(8) {
            true => Fate::Drop,
            false => Fate::Deliver,
        }
    });
    // Before T1-cookie expires.
    net.run_for(Span::from_millis(900));
    assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    let arrived = net
        .log
        .iter()
        .filter(|(_, host, to, _)| *host == Host::B && *to == addrs(Host::A, 2)[1]);
    assert!(arrived.count() > 0, "a HEARTBEAT");
    for sent in net.wire.iter().filter(|sent| sent.from == Host::A) {
        assert!(
            matches!(sent.types()[..], [ChunkType::INIT | ChunkType::COOKIE_ECHO]),
            "{:?}",
            sent.types()
        );
    }
    net.run_for(Span::from_secs(20));
    let b = net.only(Host::B);
    still_works(&mut net, a, b);
}

// Decision 0027: a cookie that cannot be remembered might be used again, with the same keys and sequence numbers.
#[test]
fn a_cookie_that_cannot_be_remembered_is_refused() {
    let mut net = Net::with_config(1, &config(), 1);
    let endpoint = EndpointConfig {
        max_consumed_cookies: 0,
        ..net.b.config().clone()
    };
    net.b = Endpoint::new(endpoint, Box::new(Rng::stream(5, "b"))).expect("a valid configuration");
    net.connect(&config(), 1);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.b.associations().count(), 0);
    assert!(discards(&mut net, Host::B, Discard::Limit) > 0);
}

// A COOKIE ECHO from another port is answered, as a NAT may have moved its sender, and moves nothing.
#[test]
fn a_repeated_cookie_from_another_port_moves_nothing() {
    let mut net = Net::with_config(1, &config(), 1);
    net.filter = Box::new(|packet| match packet.from == Host::B && packet.has(ChunkType::DTLS) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    net.connect(&config(), 1);
    net.run_for(Span::from_millis(100));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    let mut other = echo.meta();
    other.remote.set_port(7777);
    assert_eq!(net.deliver_from(Host::B, other, &echo.bytes), Ok(()));
    let to_other = |net: &Net| net.wire.iter().filter(|sent| sent.remote.port() == 7777).count();
    assert_eq!(to_other(&net), 1, "COOKIE ACK");
    net.run_for(Span::from_secs(10));
    assert_eq!(to_other(&net), 1, "no HEARTBEAT asks there");
}
