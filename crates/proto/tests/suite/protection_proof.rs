//! The peer of an encrypted association has to show that it has the keys before the user learns of it.

use crate::protection::*;
use crate::support::{Fate, Host, Net, Sent, addr, addrs, init, meta, packet, parameters, port};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssociationConfig, AuthConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, Message, State, TransportAddr,
};
use whimbrel_wire::{Causes, Chunk, ChunkType, Dtls, KeyManagement, Parameter, parameter_type};

fn offer(tie_breaker: u32, methods: &[u8]) -> Vec<u8> {
    parameters(&[Parameter::DtlsKeyManagement(KeyManagement {
        tie_breaker,
        restart: false,
        server: true,
        client: true,
        methods,
    })])
}

/// Opens an association at a host in the name of its peer, by a host without the keys that sees the answers. Returns the result of its COOKIE
/// ECHO.
fn open_without_keys(net: &mut Net, at: Host, tie_breaker: u32, tag: u32) -> Result<(), Discard> {
    let list = offer(tie_breaker, &[0]);
    net.forge(at, 0, &[Chunk::Init(init(tag, &list))])
        .expect("an INIT ACK answers");
    let answer = net.wire.last().expect("an answer").clone();
    let ack = answer.init();
    let cookie = ack.parameters.state_cookie().expect("a cookie");
    net.forge(at, ack.initiate_tag, &[Chunk::CookieEcho { cookie }])
}

fn connected(net: &Net, host: Host) -> usize {
    let is_connected = |event: &&Event| matches!(event, Event::Connected { .. });
    net.events_of(host).iter().filter(is_connected).count()
}

#[test]
fn both_ends_are_connected_once_each_has_shown_the_keys() {
    let mut net = Net::with_config(1, &config(), 1);
    net.connect(&config(), 1);
    // 10 ms each way: INIT, INIT ACK, COOKIE ECHO. What opens the COOKIE ACK is answered at once.
    net.run_for(Span::from_millis(39));
    assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (0, 0));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
    net.run_for(Span::from_millis(3));
    assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (1, 0));
    net.run_for(Span::from_millis(12));
    assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (1, 1));
}

#[test]
fn a_lost_proof_is_asked_for_again() {
    let mut net = Net::with_config(1, &config(), 1);
    let mut lost = 0;
    net.filter = Box::new(move |packet| {
        if packet.from == Host::A && packet.has(ChunkType::DTLS) && lost < 3 {
            lost += 1;
            return Fate::Drop;
        }
        Fate::Deliver
    });
    net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (1, 0));
    net.run_for(Span::from_secs(5));
    assert_eq!(connected(&net, Host::B), 1);
}

#[test]
fn an_association_of_a_host_without_the_keys_is_never_reported_and_ends_soon() {
    let mut net = Net::with_config(1, &config(), 1);
    let endpoint = EndpointConfig {
        backlog: Some(1),
        ..net.b.config().clone()
    };
    net.b = Endpoint::new(endpoint, Box::new(Rng::stream(1, "b"))).expect("a valid configuration");
    assert_eq!(open_without_keys(&mut net, Host::B, 5, 77), Ok(()));
    // No other host has its address: all answers are lost.
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
    assert!(
        net.b.association(b).expect("it exists").is_silent(),
        "the first to give way"
    );
    net.run_for(Span::from_secs(20));
    assert_eq!(connected(&net, Host::B), 0);
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::HandshakeTimeout));
    assert_eq!(net.state(Host::B, b), State::Closed);
    assert_eq!(net.b.stats().unproven, 1);
    // It had no place in the backlog, which has one.
    net.filter = Box::new(|_| Fate::Deliver);
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_millis(100));
    assert_eq!(connected(&net, Host::B), 1);
    let b = net.only(Host::B);
    still_works(&mut net, a, b);
    let now = net.now;
    net.b.abort(now, b, "enough");
    net.run_for(Span::from_secs(1));
    assert_eq!(net.b.stats().unproven, 1, "the peer has shown its keys");
}

// The keys of associations that have ended are kept for the peer. Hosts without the keys would take the room.
#[test]
fn an_association_of_a_host_without_the_keys_leaves_nothing_behind() {
    let mut net = Net::with_config(1, &config(), 1);
    assert_eq!(open_without_keys(&mut net, Host::B, 5, 77), Ok(()));
    let tag = net.last(Host::B, ChunkType::INIT_ACK).init().initiate_tag;
    let forged = Chunk::Dtls(Dtls {
        restart: false,
        epoch: 3,
        number: 5,
        record: &[1; 40],
    });
    assert_eq!(net.forge(Host::B, tag, &[forged]), Err(Discard::Unprotected));
    net.run_for(Span::from_secs(20));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::HandshakeTimeout));
    assert_eq!(net.forge(Host::B, tag, &[forged]), Err(Discard::OutOfTheBlue));
    let answer = net.wire.last().expect("an answer");
    assert!(answer.has(ChunkType::ABORT), "as if there had been no association");
}

#[test]
fn a_host_without_the_keys_does_not_keep_the_peer_out() {
    for attempts in [1, 3] {
        let mut net = Net::with_config(2, &config(), 1);
        for attempt in 0..attempts {
            assert_eq!(open_without_keys(&mut net, Host::B, 5 + attempt, 77 + attempt), Ok(()));
        }
        // The peer has an address that the INIT of the other host did not list.
        let a = net.connect(&config(), 2);
        net.run_for(Span::from_millis(200));
        assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (1, 1));
        let b = net.only(Host::B);
        still_works(&mut net, a, b);
        // What has shown the keys stays.
        assert_eq!(open_without_keys(&mut net, Host::B, 50, 99), Err(Discard::Unprotected));
        still_works(&mut net, a, b);
    }
}

/// Opens an association at B by a host with this address, which lists these addresses as its own. Returns the result of its COOKIE ECHO.
fn open_from(net: &mut Net, from: TransportAddr, listed: &[[u8; 4]], tag: u32) -> Result<(), Discard> {
    let mut list = parameters(
        &listed
            .iter()
            .map(|ip| Parameter::Ipv4((*ip).into()))
            .collect::<Vec<_>>(),
    );
    list.extend(offer(tag, &[0]));
    let to = meta(addrs(Host::B, 1)[0], from);
    let first = packet(port(Host::A), port(Host::B), 0, &[Chunk::Init(init(tag, &list))]);
    net.deliver_from(Host::B, to, &first).expect("an INIT ACK answers");
    let answer = net.wire.last().expect("an answer").clone();
    assert_eq!(answer.remote, from);
    let ack = answer.init();
    let cookie = ack.parameters.state_cookie().expect("a cookie");
    let second = packet(
        port(Host::A),
        port(Host::B),
        ack.initiate_tag,
        &[Chunk::CookieEcho { cookie }],
    );
    net.deliver_from(Host::B, to, &second)
}

// A host that lists an address of the peer has not shown that it receives there. One that the peer opens an association from ends that of such a host.
#[test]
fn only_listing_an_address_of_the_peer_neither_ends_its_association_nor_keeps_it_out() {
    let (own, stranger) = (addrs(Host::A, 2), addr("192.0.2.77:0"));
    let listed = [[10, 0, 0, 1], [10, 0, 1, 1]];
    // The association of the peer, which has not shown the keys yet.
    for (from, alone) in own.iter().zip(listed) {
        let mut net = Net::with_config(2, &config(), 1);
        assert_eq!(open_from(&mut net, *from, &listed, 5), Ok(()));
        let known = net.only(Host::B);
        for tag in 6..9 {
            assert_eq!(open_from(&mut net, stranger, &[alone], tag), Err(Discard::Unprotected));
            assert_eq!(open_from(&mut net, stranger, &listed, tag), Err(Discard::Unprotected));
        }
        assert_eq!(net.state(Host::B, known), State::Established);
        // The peer begins once more, from either address.
        assert_eq!(open_from(&mut net, own[1], &listed, 9), Ok(()));
        assert_eq!(net.state(Host::B, known), State::Closed);
    }
    // The association of the other host.
    for from in &own {
        let mut net = Net::with_config(2, &config(), 1);
        assert_eq!(open_from(&mut net, stranger, &listed[..1], 5), Ok(()));
        let squatter = net.only(Host::B);
        assert_eq!(open_from(&mut net, *from, &listed, 6), Ok(()));
        assert_eq!(net.state(Host::B, squatter), State::Closed);
    }
}

#[test]
fn an_injected_init_connects_nobody() {
    for echoed in [false, true] {
        let mut net = Net::with_config(1, &config(), 1);
        // Nothing of the peer arrives, or its INIT ACK does.
        net.filter = Box::new(move |packet| match packet.from {
            Host::A => Fate::Deliver,
            Host::B if echoed && packet.has(ChunkType::INIT_ACK) => Fate::Deliver,
            Host::B => Fate::Drop,
        });
        let a = net.connect(&config(), 1);
        net.run_for(Span::from_millis(100));
        let _ = open_without_keys(&mut net, Host::A, 5, 77);
        net.run_for(Span::from_secs(1));
        assert_eq!(connected(&net, Host::A), 0, "{echoed}");
        net.run_for(Span::from_secs(600));
        assert_eq!(connected(&net, Host::A), 0, "{echoed}");
        assert_eq!(net.state(Host::A, a), State::Closed);
    }
}

#[test]
fn ends_that_open_at_once_are_connected_once() {
    let mut net = Net::with_config(1, &config(), 1);
    let a = net.connect(&config(), 1);
    let now = net.now;
    let b = (net.b.connect(now, config(), port(Host::A), &addrs(Host::A, 1))).expect("it opens");
    net.run_for(Span::from_secs(1));
    assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (1, 1));
    still_works(&mut net, a, b);
}

// Decision 0037: the COOKIE ACK is encrypted, and shows that the peer has the keys.
#[test]
fn a_cookie_ack_without_encryption_connects_nobody() {
    let mut net = Net::with_config(1, &config(), 1);
    net.filter = Box::new(|packet| {
        if packet.from == Host::B && packet.has(ChunkType::DTLS) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_millis(100));
    assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    let error = Chunk::Error {
        causes: Causes::from_wire_bytes(&[]),
    };
    for chunks in [
        &[Chunk::CookieAck][..],
        &[error, Chunk::CookieAck],
        &[Chunk::CookieAck, error],
    ] {
        assert_eq!(net.as_peer(Host::A, chunks), Err(Discard::Unprotected), "{chunks:?}");
        assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    }
    assert_eq!(connected(&net, Host::A), 0);
    // A refusal comes from an end without keys.
    let abort = Chunk::Abort {
        tag_reflected: false,
        causes: Causes::from_wire_bytes(&[]),
    };
    assert_eq!(net.as_peer(Host::A, &[abort]), Ok(()));
    assert_eq!(net.state(Host::A, a), State::Closed);
}

/// A host has opened an association without protection, and its peer sends an INIT as it would without protection. The answer is a cookie for
/// the configuration of the association. When the association has ended, the cookie comes to an endpoint that requires protection.
fn late_cookie(strict: &AssociationConfig, plain: &AssociationConfig) -> (Net, Result<(), Discard>) {
    let mut net = Net::with_config(1, strict, 1);
    let listening = EndpointConfig {
        listen: true,
        association: plain.clone().into(),
        ..net.a.config().clone()
    };
    net.a = Endpoint::new(listening, Box::new(Rng::stream(1, "a"))).expect("a valid configuration");
    let now = net.now;
    let b = (net.b.connect(now, plain.clone(), port(Host::A), &addrs(Host::A, 1))).expect("it opens");
    net.run_for(Span::from_millis(200));
    assert_eq!(net.state(Host::B, b), State::Established);
    net.filter = Box::new(|_| Fate::Drop);
    net.forge(Host::B, 0, &[Chunk::Init(init(77, &[]))])
        .expect("an INIT ACK answers");
    let answer = net.wire.last().expect("an answer").clone();
    let ack = answer.init();
    let abort = Chunk::Abort {
        tag_reflected: false,
        causes: Causes::from_wire_bytes(&[]),
    };
    net.as_peer(Host::B, &[abort]).expect("it ends");
    net.drain(Host::B);
    assert_eq!(net.state(Host::B, b), State::Closed);
    let cookie = ack.parameters.state_cookie().expect("a cookie");
    let result = net.forge(Host::B, ack.initiate_tag, &[Chunk::CookieEcho { cookie }]);
    (net, result)
}

#[test]
fn a_cookie_for_another_configuration_opens_no_association_without_protection() {
    let plain = AssociationConfig::default();
    let (net, result) = late_cookie(&config(), &plain);
    assert_eq!(result, Err(Discard::Unprotected));
    assert_eq!(net.b.associations().count(), 0);
    let signed = AssociationConfig {
        auth: AuthConfig::shared_key(&[7; 32]),
        ..AssociationConfig::default()
    };
    let (net, result) = late_cookie(&signed, &plain);
    assert_eq!(result, Err(Discard::Unauthenticated));
    assert_eq!(net.b.associations().count(), 0);
    let (_, result) = late_cookie(&plain, &plain);
    assert_eq!(result, Ok(()), "nothing is required");
}

// The draft, "DTLS Key Management Parameter": an end without support ignores it.
#[test]
fn a_malformed_offer_is_ignored_without_support_and_refused_with_it() {
    let malformed = [0x80, 6, 0, 6, 0, 0, 0, 0];
    let mut net = Net::new(1);
    assert_eq!(net.forge(Host::B, 0, &[Chunk::Init(init(7, &malformed))]), Ok(()));
    assert!(net.wire.last().expect("an answer").has(ChunkType::INIT_ACK));
    let mut net = Net::with_config(1, &config(), 1);
    assert!(net.forge(Host::B, 0, &[Chunk::Init(init(7, &malformed))]).is_err());
    assert!(net.wire.last().expect("an answer").has(ChunkType::ABORT));
}

// The draft, "DTLS Key Management Parameter": the length limits the list, nothing else.
#[test]
fn an_offer_of_all_methods_fits() {
    let methods: Vec<u8> = (0..=254).rev().collect();
    let mut net = Net::with_config(1, &config(), 1);
    assert_eq!(
        net.forge(Host::B, 0, &[Chunk::Init(init(7, &offer(5, &methods)))]),
        Ok(())
    );
    let answer: Sent = net.wire.last().expect("an answer").clone();
    let ack = answer.init();
    let answered = ack.parameters.raw().flatten();
    let mut answered = answered.filter(|raw| raw.parameter_type() == parameter_type::DTLS_KEY_MANAGEMENT);
    assert!(answered.next().is_some());
    let cookie = ack.parameters.state_cookie().expect("a cookie");
    assert_eq!(
        net.forge(Host::B, ack.initiate_tag, &[Chunk::CookieEcho { cookie }]),
        Ok(())
    );
}

#[test]
fn messages_wait_for_the_proof() {
    // Ends that open at once are established before either has seen a packet that opens: what the user has given already is sent, encrypted.
    let mut net = Net::with_config(1, &config(), 1);
    let a = net.connect(&config(), 1);
    net.send(Host::A, a, Message::new(0, TEXT));
    net.run_for(Span::from_millis(200));
    assert_eq!(net.contents(Host::B), [TEXT]);
    let events = net.events_of(Host::B);
    let at = |wanted: fn(&Event) -> bool| events.iter().position(wanted).expect("an event");
    assert!(at(|event| matches!(event, Event::Connected { .. })) < at(|event| matches!(event, Event::DataReady)));
}
