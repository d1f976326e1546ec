//! Packets with a checksum of zero, where the layer below detects errors (RFC 9653).

use crate::support::{
    Fate, Host, Net, Sent, addrs, causes, data, endpoint, extended, has_zero_checksum, init, meta, packet, parameters,
    port,
};
use whimbrel_control::multipath::policy::{IceParameters, PathPolicySpec};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, Association, AssociationConfig, AuthConfig, CloseReason, Discard, Endpoint, EndpointConfig,
    ErrorDetection, Message, State,
};
use whimbrel_wire::{
    Cause, Causes, Chunk, ChunkType, HeartbeatInfo, Parameter, Tsn, error_detection_method, packet_checksum,
};

const OFFER: Parameter<'_> = Parameter::ZeroChecksumAcceptable {
    method: error_detection_method::DTLS,
};
const HEARTBEAT: Chunk<'_> = Chunk::Heartbeat(HeartbeatInfo(b"from elsewhere"));

fn over_dtls(is: bool) -> AssociationConfig {
    AssociationConfig {
        zero_checksum: is.then_some(ErrorDetection::Dtls),
        ..AssociationConfig::default()
    }
}

/// An association between ends that do or do not have the method.
fn between(own: bool, other: bool) -> (Net, AssocId, AssocId) {
    let mut net = Net::with_config(1, &over_dtls(other), 1);
    let a = net.connect(&over_dtls(own), 1);
    net.run_for(Span::from_millis(100));
    let b = net.only(Host::B);
    (net, a, b)
}

fn association(net: &mut Net, host: Host, id: AssocId) -> &Association {
    net.host(host).association(id).expect("it exists")
}

/// Returns the packet with a checksum of zero.
fn zeroed(bytes: &[u8]) -> Vec<u8> {
    assert_ne!(packet_checksum(bytes), Some(0), "a correct checksum, for once");
    [&bytes[..8], &[0; 4], &bytes[12..]].concat()
}

/// Returns a packet from the peer of a host, with a checksum of zero.
fn forged(net: &Net, to: Host, chunks: &[Chunk<'_>]) -> Vec<u8> {
    zeroed(&packet(port(to.other()), port(to), net.tag_of(to), chunks))
}

fn offers(sent: &Sent) -> bool {
    let offers = sent
        .init()
        .parameters
        .iter()
        .filter(|parameter| *parameter == Ok(OFFER));
    let count = offers.count();
    assert!(count <= 1, "RFC 9653 §4");
    count == 1
}

/// Lets messages of several packets pass both ways, from stream 0 on, and checks that they arrive.
fn exchange(net: &mut Net, a: AssocId, b: AssocId) {
    net.messages.clear();
    for (host, id) in [(Host::A, a), (Host::B, b)] {
        for number in 0..20_u8 {
            net.send(host, id, Message::new(u16::from(number) % 3, vec![number; 5000]));
        }
    }
    net.run_for(Span::from_secs(20));
    for host in [Host::A, Host::B] {
        let mut read = net.contents(host);
        read.sort();
        assert!(
            read == (0..20).map(|number| vec![number; 5000]).collect::<Vec<_>>(),
            "{host:?}"
        );
    }
}

/// Returns whether a host's packets had a checksum of zero, by whether they may have one.
fn zeros(net: &Net, host: Host) -> (bool, bool) {
    let never = [
        ChunkType::INIT,
        ChunkType::INIT_ACK,
        ChunkType::COOKIE_ECHO,
        ChunkType::ASCONF,
        // The association has ended.
        ChunkType::SHUTDOWN_COMPLETE,
    ];
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    let (with, without): (Vec<&Sent>, Vec<&Sent>) =
        sent.partition(|sent| never.iter().any(|chunk_type| sent.has(*chunk_type)));
    let all_or_none = |list: &[&Sent]| {
        let count = list.iter().filter(|sent| has_zero_checksum(&sent.bytes)).count();
        assert!(count == 0 || count == list.len(), "{count} of {}", list.len());
        count > 0
    };
    (all_or_none(&with), all_or_none(&without))
}

// [9653:4-2, 4-3, 5.1-1, 5.2-1, 5.2-4, 5.2-7]
#[test]
fn rfc_9653_5_1_each_end_offers_what_it_accepts() {
    for (own, other) in [(true, true), (true, false), (false, true), (false, false)] {
        let (mut net, a, b) = between(own, other);
        assert_eq!(offers(&net.last(Host::A, ChunkType::INIT)), own);
        // Also if the INIT does not offer it: each direction has its own agreement.
        assert_eq!(offers(&net.last(Host::B, ChunkType::INIT_ACK)), other);
        assert_eq!(association(&mut net, Host::A, a).accepts_zero_checksum(), own);
        assert_eq!(association(&mut net, Host::B, b).accepts_zero_checksum(), other);
        for (host, id) in [(Host::A, a), (Host::B, b)] {
            assert_eq!(association(&mut net, host, id).sends_zero_checksum(), own && other);
        }
        exchange(&mut net, a, b);
        let now = net.now;
        net.a.shutdown(now, a);
        net.run_for(Span::from_secs(1));
        assert_eq!(net.close_reason(Host::B), Some(CloseReason::Graceful));
        for host in [Host::A, Host::B] {
            assert_eq!(zeros(&net, host), (false, own && other), "{host:?} {own} {other}");
        }
    }
}

// Both ends of one association: what A accepts does not follow from what it sends.
// [9653:5.3-1]
#[test]
fn rfc_9653_5_3_a_peer_may_send_what_it_does_not_accept() {
    let (mut net, _, _) = between(true, false);
    let bytes = forged(&net, Host::A, &[HEARTBEAT]);
    net.deliver(Host::A, &bytes).expect("A has offered it");
    assert!(!has_zero_checksum(&net.last(Host::A, ChunkType::HEARTBEAT_ACK).bytes));
    let bytes = forged(&net, Host::B, &[HEARTBEAT]);
    assert_eq!(net.deliver(Host::B, &bytes), Err(Discard::Checksum));
    assert_eq!(net.count(Host::B, ChunkType::HEARTBEAT_ACK), 0);
}

#[test]
fn rfc_9653_5_3_correct_checksums_are_accepted_and_wrong_ones_are_not() {
    let (mut net, _, _) = between(true, true);
    for to in [Host::A, Host::B] {
        net.as_peer(to, &[HEARTBEAT]).expect("it is correct");
        let good = packet(port(to.other()), port(to), net.tag_of(to), &[HEARTBEAT]);
        let answers = net.count(to, ChunkType::HEARTBEAT_ACK);
        for bit in 0..32 {
            for start in [good.clone(), zeroed(&good)] {
                let mut bad = start;
                bad[8 + bit / 8] ^= 1 << (bit % 8);
                assert_eq!(net.deliver(to, &bad), Err(Discard::Checksum), "bit {bit}");
            }
        }
        assert_eq!(net.count(to, ChunkType::HEARTBEAT_ACK), answers);
    }
}

// [9653:5.3-2]
#[test]
fn rfc_9653_5_3_without_an_offer_a_zero_checksum_is_a_wrong_one() {
    for (own, other) in [(false, true), (false, false)] {
        let (mut net, a, _) = between(own, other);
        let abort = Chunk::Abort {
            tag_reflected: false,
            causes: Causes::from_wire_bytes(&[]),
        };
        let bytes = forged(&net, Host::A, &[abort]);
        assert_eq!(net.deliver(Host::A, &bytes), Err(Discard::Checksum));
        assert_eq!(net.state(Host::A, a), State::Established);
        assert_eq!(net.a.stats().discarded[Discard::Checksum as usize], 1);
    }
}

/// An endpoint has associations with and without the method; the checksum is checked with the rules of the packet's own.
#[test]
fn rfc_9653_5_3_the_agreement_of_one_association_is_not_that_of_another() {
    let (mut net, _, _) = between(true, true);
    let bytes = forged(&net, Host::A, &[HEARTBEAT]);
    let others = [addrs(Host::B, 2)[1]];
    let now = net.now;
    let second = net
        .a
        .connect(now, over_dtls(false), port(Host::B), &others)
        .expect("valid");
    net.drain(Host::A);
    let init_of_second = net.last(Host::A, ChunkType::INIT);
    let tag = init_of_second.init().initiate_tag;
    let answer = parameters(&[Parameter::StateCookie(b"cookie"), OFFER]);
    let init_ack = packet(port(Host::B), port(Host::A), tag, &[Chunk::InitAck(init(77, &answer))]);
    let from_other = meta(addrs(Host::A, 1)[0], others[0]);
    assert_eq!(
        net.deliver_from(Host::A, from_other, &zeroed(&init_ack)),
        Err(Discard::Checksum)
    );
    net.deliver_from(Host::A, from_other, &init_ack).expect("correct");
    let ack = packet(port(Host::B), port(Host::A), tag, &[Chunk::CookieAck]);
    net.deliver_from(Host::A, from_other, &ack).expect("correct");
    assert_eq!(net.state(Host::A, second), State::Established);
    assert!(
        !association(&mut net, Host::A, second).sends_zero_checksum(),
        "the method is not A's"
    );
    let heartbeat = packet(port(Host::B), port(Host::A), tag, &[HEARTBEAT]);
    assert_eq!(
        net.deliver_from(Host::A, from_other, &zeroed(&heartbeat)),
        Err(Discard::Checksum)
    );
    // From the addresses of the association that has agreed, too.
    assert_eq!(net.deliver(Host::A, &zeroed(&heartbeat)), Err(Discard::Checksum));
    net.deliver(Host::A, &bytes).expect("this one has agreed");
}

#[test]
fn rfc_9653_5_3_packets_of_no_association_need_a_checksum() {
    let (mut net, _, _) = between(true, true);
    let sent = net.wire.len();
    let (tag, other_tag) = (net.tag_of(Host::B), net.tag_of(Host::A));
    let reflected = Chunk::Abort {
        tag_reflected: true,
        causes: Causes::from_wire_bytes(&[]),
    };
    for bytes in [
        packet(4001, 4002, 77, &[HEARTBEAT]),
        packet(4009, 4002, tag, &[HEARTBEAT]),
        packet(4001, 4009, tag, &[HEARTBEAT]),
        packet(4001, 4002, 0, &[Chunk::Init(init(5, &[]))]),
        packet(4001, 4002, tag, &[Chunk::Init(init(5, &[]))]),
        // The peer reflects its own tag if it has no association (RFC 9260 §8.5.1 B).
        packet(4001, 4002, other_tag, &[reflected]),
    ] {
        assert_eq!(net.deliver(Host::B, &zeroed(&bytes)), Err(Discard::Checksum));
    }
    assert_eq!(net.deliver(Host::B, &[0; 8]), Err(Discard::Malformed));
    assert_eq!(net.deliver(Host::B, &[0; 12]), Err(Discard::Checksum));
    assert_eq!(net.wire.len(), sent, "no answer");
    assert_eq!(net.b.stats().discarded[Discard::Flood as usize], 0);
}

// [9653:5.2-3]
#[test]
fn rfc_9653_5_2_answers_to_packets_of_no_association_have_a_checksum() {
    let (mut net, _, _) = between(true, true);
    let _ = net.deliver(Host::B, &packet(4009, 4002, 77, &[HEARTBEAT]));
    let answer = net.last(Host::B, ChunkType::ABORT);
    assert!(!has_zero_checksum(&answer.bytes));
}

#[test]
fn a_zero_checksum_does_not_evade_the_budget_of_packets_without_association() {
    let config = EndpointConfig {
        local_port: port(Host::B),
        local_addrs: addrs(Host::B, 1),
        listen: true,
        association: over_dtls(true).into(),
        max_unassociated: Some(1000),
        ..EndpointConfig::default()
    };
    let mut net = Net::new(1);
    net.b = Endpoint::new(config, Box::new(Rng::stream(1, "b"))).expect("valid");
    let bytes = zeroed(&packet(4001, 4002, 77, &[HEARTBEAT]));
    let results: Vec<_> = (0..3).map(|_| net.deliver(Host::B, &bytes)).collect();
    assert_eq!(
        results,
        [Err(Discard::Checksum), Err(Discard::Flood), Err(Discard::Flood)]
    );
}

#[test]
fn rfc_9653_5_2_a_cookie_echo_needs_a_checksum() {
    let mut net = Net::with_config(1, &over_dtls(true), 1);
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.connect(&over_dtls(true), 1);
    net.run_for(Span::from_millis(1));
    let bytes = net.last(Host::A, ChunkType::INIT).bytes;
    assert_eq!(net.deliver(Host::B, &zeroed(&bytes)), Err(Discard::Checksum));
    net.deliver(Host::B, &bytes).expect("correct");
    net.run_for(Span::from_millis(50));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO).bytes;
    let cookie = extended(&echo, &[]);
    assert_eq!(net.deliver(Host::B, &zeroed(&cookie)), Err(Discard::Checksum));
    assert_eq!(net.b.associations().count(), 0);
    net.deliver(Host::B, &echo).expect("correct");
    let b = net.only(Host::B);
    assert!(association(&mut net, Host::B, b).accepts_zero_checksum());
    // The association exists, and its tag is that of the packet. The cookie would be processed all the same.
    assert_eq!(net.deliver(Host::B, &zeroed(&echo)), Err(Discard::Checksum));
    net.deliver(Host::B, &echo).expect("correct");
}

/// AUTH precedes the COOKIE ECHO (RFC 4895 §6.2).
#[test]
fn rfc_9653_5_2_an_authenticated_cookie_echo_needs_a_checksum() {
    let config = AssociationConfig {
        auth: AuthConfig {
            enabled: true,
            chunks: vec![ChunkType::DATA.0, ChunkType::COOKIE_ECHO.0],
            ..AuthConfig::default()
        },
        ..over_dtls(true)
    };
    let (mut net, a, b) = Net::established(1, &config);
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(echo.types()[0], ChunkType::AUTH);
    assert_eq!(net.deliver(Host::B, &zeroed(&echo.bytes)), Err(Discard::Checksum));
    net.deliver(Host::B, &echo.bytes).expect("a repetition");
    exchange(&mut net, a, b);
    assert_eq!(zeros(&net, Host::A), (false, true));
}

#[test]
fn rfc_9653_5_2_an_init_ack_may_have_a_zero_checksum() {
    for own in [true, false] {
        let mut net = Net::with_config(1, &over_dtls(true), 1);
        net.filter = Box::new(|packet| {
            if packet.from == Host::B {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        let a = net.connect(&over_dtls(own), 1);
        net.run_for(Span::from_millis(100));
        let init_ack = net.last(Host::B, ChunkType::INIT_ACK);
        // No association: it has a correct one.
        assert!(!has_zero_checksum(&init_ack.bytes));
        let result = net.deliver(Host::A, &zeroed(&init_ack.bytes));
        let (expected, state) = if own {
            (Ok(()), State::CookieEchoed)
        } else {
            (Err(Discard::Checksum), State::CookieWait)
        };
        assert_eq!((result, net.state(Host::A, a)), (expected, state));
    }
}

#[test]
fn rfc_9653_5_2_chunks_bundled_with_a_cookie_echo_are_under_its_checksum() {
    let mut net = Net::with_config(1, &over_dtls(true), 1);
    let a = net.connect(&over_dtls(true), 1);
    net.send(Host::A, a, Message::new(0, vec![1; 100]));
    // The first COOKIE ECHO, with data, is lost.
    let mut lost = false;
    net.filter = Box::new(move |packet| {
        if packet.has(ChunkType::COOKIE_ECHO) && !std::mem::replace(&mut lost, true) {
            return Fate::Drop;
        }
        Fate::Deliver
    });
    net.run_for(Span::from_secs(5));
    let echoes = net.sent(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(echoes[0].types(), [ChunkType::COOKIE_ECHO, ChunkType::DATA]);
    assert_eq!(echoes.len(), 2);
    assert_eq!(net.contents(Host::B), [vec![1; 100]]);
    assert_eq!(zeros(&net, Host::A), (false, true));
}

#[test]
fn a_bundle_with_a_zero_checksum_is_processed_completely() {
    let (mut net, a, _) = between(true, true);
    let tsn = net.last(Host::B, ChunkType::INIT_ACK).init().initial_tsn;
    let chunks = [
        HEARTBEAT,
        Chunk::Data(data(tsn.0, 0, b"first")),
        Chunk::Data(data(tsn.0 + 1, 1, b"second")),
    ];
    let bytes = forged(&net, Host::A, &chunks);
    net.deliver(Host::A, &bytes).expect("A has offered it");
    net.read(Host::A, a);
    assert_eq!(net.contents(Host::A), [b"first".to_vec(), b"second".to_vec()]);
    let answer = net.last(Host::A, ChunkType::HEARTBEAT_ACK);
    assert!(has_zero_checksum(&answer.bytes));
    // The budget of replies to one packet is that of any other (RFC 9260 §12.4).
    assert_eq!(answer.types(), [ChunkType::HEARTBEAT_ACK, ChunkType::SACK]);
}

// [9653:5.2-5]
#[test]
fn rfc_9653_5_2_asconf_has_a_checksum_and_its_answer_has_none() {
    let config = AssociationConfig {
        dynamic_addresses: true,
        ..over_dtls(true)
    };
    let (mut net, a, b) = Net::established(1, &config);
    let now = net.now;
    let added = addrs(Host::A, 2)[1];
    net.a.add_local_address(now, a, added).expect("possible");
    net.send(Host::A, a, Message::new(0, vec![1; 100]));
    net.run_for(Span::from_secs(5));
    assert!(association(&mut net, Host::A, a).local_addrs().contains(&added));
    assert_eq!(net.count(Host::A, ChunkType::ASCONF), 1);
    assert!(has_zero_checksum(&net.last(Host::B, ChunkType::ASCONF_ACK).bytes));
    exchange(&mut net, a, b);
    assert_eq!(zeros(&net, Host::A), (false, true));
}

#[test]
fn rfc_9653_4_only_the_own_method_counts() {
    let dtls = error_detection_method::DTLS;
    for (methods, sends) in [
        (&[][..], false),
        (&[dtls], true),
        (&[0], false),
        (&[2], false),
        (&[dtls << 24], false),
        (&[u32::MAX], false),
        (&[2, dtls], true),
    ] {
        for has_method in [true, false] {
            let mut net = Net::with_config(1, &over_dtls(has_method), 1);
            let list: Vec<_> = methods
                .iter()
                .map(|&method| Parameter::ZeroChecksumAcceptable { method })
                .collect();
            let list = parameters(&list);
            net.forge(Host::B, 0, &[Chunk::Init(init(77, &list))])
                .expect("answered");
            let answer = net.last(Host::B, ChunkType::INIT_ACK);
            assert_eq!(offers(&answer), has_method, "{methods:?}");
            let unrecognized = |parameter| matches!(parameter, Ok(Parameter::Unrecognized(_)));
            assert!(!answer.init().parameters.iter().any(unrecognized), "{methods:?}");
            let cookie = answer.init().parameters.state_cookie().expect("a cookie");
            let tag = answer.init().initiate_tag;
            net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie }])
                .expect("accepted");
            let b = net.only(Host::B);
            assert_eq!(
                association(&mut net, Host::B, b).sends_zero_checksum(),
                sends && has_method
            );
            let ack = net.last(Host::B, ChunkType::COOKIE_ACK);
            assert_eq!(has_zero_checksum(&ack.bytes), sends && has_method, "{methods:?}");
        }
    }
}

#[test]
fn rfc_9653_4_a_wrong_length_is_a_protocol_violation() {
    for (value, padding) in [
        (&[][..], 0),
        (&[0, 0, 1], 1),
        (&[0, 0, 0, 1, 0], 3),
        (&[0, 0, 0, 1, 0, 0, 0, 0], 0),
    ] {
        let mut list = vec![0x80, 1, 0, 4 + value.len() as u8];
        list.extend_from_slice(value);
        list.resize(list.len() + padding, 0);
        let mut net = Net::with_config(1, &over_dtls(true), 1);
        let result = net.forge(Host::B, 0, &[Chunk::Init(init(77, &list))]);
        assert_eq!(result, Err(Discard::InvalidChunk), "{value:?}");
        assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [13]);
    }
}

/// A loses its state and opens the association again.
fn restart(net: &mut Net, config: &AssociationConfig) -> AssocId {
    net.a = endpoint(Host::A, 1, config, net.now.as_nanos());
    let a = net.connect(config, 1);
    net.drain(Host::A);
    net.wire.clear();
    net.run_for(Span::from_secs(1));
    a
}

#[test]
fn a_restart_brings_the_agreement_of_the_new_peer() {
    let (mut net, mut a, b) = between(true, true);
    for has_method in [false, true, true, false] {
        exchange(&mut net, a, b);
        a = restart(&mut net, &over_dtls(has_method));
        assert_eq!(association(&mut net, Host::B, b).sends_zero_checksum(), has_method);
        assert!(
            association(&mut net, Host::B, b).accepts_zero_checksum(),
            "B has offered it"
        );
        exchange(&mut net, a, b);
        for host in [Host::A, Host::B] {
            assert_eq!(zeros(&net, host), (false, has_method), "{host:?} {has_method}");
        }
    }
    assert_eq!(association(&mut net, Host::B, b).restarts(), 4);
}

/// The INIT ACK to a restarted peer carries what the association offers, not the endpoint.
#[test]
fn an_offer_holds_if_the_association_ends_before_the_cookie_returns() {
    let (mut net, _, _) = Net::established(1, &over_dtls(false));
    // B opens an association over DTLS to another host, which restarts.
    let elsewhere = addrs(Host::A, 2)[1];
    let now = net.now;
    let opened = net
        .b
        .connect(now, over_dtls(true), port(Host::A), &[elsewhere])
        .expect("valid");
    net.drain(Host::B);
    let tag = net.last(Host::B, ChunkType::INIT).init().initiate_tag;
    let from = meta(addrs(Host::B, 1)[0], elsewhere);
    let pass = |net: &mut Net, tag, chunk| {
        net.deliver_from(Host::B, from, &packet(port(Host::A), port(Host::B), tag, &[chunk]))
    };
    let answer = parameters(&[Parameter::StateCookie(b"cookie")]);
    pass(&mut net, tag, Chunk::InitAck(init(77, &answer))).expect("accepted");
    pass(&mut net, tag, Chunk::CookieAck).expect("accepted");
    pass(&mut net, 0, Chunk::Init(init(78, &[]))).expect("answered");
    let init_ack = net.last(Host::B, ChunkType::INIT_ACK);
    assert!(offers(&init_ack));
    net.b.abort(now, opened, "over");
    net.drain(Host::B);
    let cookie = init_ack.init().parameters.state_cookie().expect("a cookie").to_vec();
    let tag = init_ack.init().initiate_tag;
    pass(&mut net, tag, Chunk::CookieEcho { cookie: &cookie }).expect("accepted");
    let bytes = packet(port(Host::A), port(Host::B), tag, &[HEARTBEAT]);
    net.deliver_from(Host::B, from, &zeroed(&bytes))
        .expect("offered in the INIT ACK");
}

fn listening(host: Host, config: &AssociationConfig) -> Endpoint {
    let config = EndpointConfig {
        local_port: port(host),
        local_addrs: addrs(host, 1),
        listen: true,
        association: config.clone().into(),
        ..EndpointConfig::default()
    };
    Endpoint::new(config, Box::new(Rng::stream(1, &format!("{host:?}")))).expect("valid")
}

#[test]
fn a_collision_of_inits_leads_to_the_same_agreement() {
    for (own, other) in [(true, true), (true, false), (false, true)] {
        for lead in [0, 1, 5, 12, 25, 35] {
            let mut net = Net::new(1);
            net.a = listening(Host::A, &over_dtls(own));
            net.b = listening(Host::B, &over_dtls(other));
            net.connect(&over_dtls(own), 1);
            net.run_for(Span::from_millis(lead));
            let now = net.now;
            // Later, B knows the association with A.
            let _ = net.b.connect(now, over_dtls(other), port(Host::A), &addrs(Host::A, 1));
            net.run_for(Span::from_secs(10));
            let (a, b) = (net.only(Host::A), net.only(Host::B));
            for (host, id, offered) in [(Host::A, a, own), (Host::B, b, other)] {
                let association = association(&mut net, host, id);
                assert_eq!(association.state(), State::Established, "{lead}");
                assert_eq!(association.accepts_zero_checksum(), offered);
                assert_eq!(association.sends_zero_checksum(), own && other);
            }
            exchange(&mut net, a, b);
        }
    }
}

/// RFC 9260 §5.2.4 case B: the peer has sent its INIT, with another tag, after its INIT ACK. Its cookie comes last.
#[test]
fn the_latest_cookie_of_a_collision_decides() {
    for (first, second) in [(true, false), (false, true)] {
        let mut net = Net::new(1);
        net.filter = Box::new(|_| Fate::Drop);
        let a = net.connect(&over_dtls(true), 1);
        net.run_for(Span::from_millis(1));
        let own_tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
        let offer = |is| if is { vec![OFFER] } else { Vec::new() };
        let list = parameters(&[&[Parameter::StateCookie(b"cookie")], &offer(first)[..]].concat());
        net.forge(Host::A, own_tag, &[Chunk::InitAck(init(77, &list))])
            .expect("accepted");
        let list = parameters(&offer(second));
        net.forge(Host::A, 0, &[Chunk::Init(init(78, &list))])
            .expect("answered");
        let init_ack = net.last(Host::A, ChunkType::INIT_ACK);
        net.forge(Host::A, own_tag, &[Chunk::CookieAck]).expect("established");
        assert_eq!(association(&mut net, Host::A, a).sends_zero_checksum(), first);
        let cookie = init_ack.init().parameters.state_cookie().expect("a cookie");
        net.forge(Host::A, own_tag, &[Chunk::CookieEcho { cookie }])
            .expect("accepted");
        assert_eq!(net.state(Host::A, a), State::Established);
        let association = association(&mut net, Host::A, a);
        assert_eq!(
            (association.peer_tag(), association.sends_zero_checksum()),
            (78, second)
        );
        assert!(association.accepts_zero_checksum());
    }
}

/// RFC 9260 §5.2.4 case D: the association is known already.
#[test]
fn a_cookie_with_the_known_tags_changes_nothing() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let a = net.connect(&over_dtls(true), 1);
    net.run_for(Span::from_millis(1));
    let own_tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let mut init_acks = Vec::new();
    for list in [parameters(&[]), parameters(&[OFFER])] {
        net.forge(Host::A, 0, &[Chunk::Init(init(78, &list))])
            .expect("answered");
        init_acks.push(net.last(Host::A, ChunkType::INIT_ACK));
    }
    for init_ack in init_acks.iter().rev() {
        let cookie = init_ack.init().parameters.state_cookie().expect("a cookie");
        net.forge(Host::A, own_tag, &[Chunk::CookieEcho { cookie }])
            .expect("accepted");
        assert!(association(&mut net, Host::A, a).sends_zero_checksum());
    }
    assert_eq!(net.count(Host::A, ChunkType::COOKIE_ACK), 2);
}

/// The INIT that follows a stale cookie has a checksum, although an agreement is known.
// [9653:5.2-2]
#[test]
fn rfc_9653_5_2_an_init_after_a_stale_cookie_has_a_checksum() {
    let mut net = Net::with_config(1, &over_dtls(true), 1);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = net.connect(&over_dtls(true), 1);
    net.run_for(Span::from_millis(100));
    assert!(association(&mut net, Host::A, a).sends_zero_checksum());
    let stale = causes(&[Cause::StaleCookie { staleness_us: 1 }]);
    let causes = Causes::from_wire_bytes(&stale);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    net.forge(Host::A, tag, &[Chunk::Error { causes }]).expect("expected");
    assert_eq!(net.count(Host::A, ChunkType::INIT), 2);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    exchange(&mut net, a, b);
    assert_eq!(zeros(&net, Host::A), (false, true));
}

/// Zero can be a correct CRC32c: that of the packet in RFC 9653 §3, Figure 1.
#[test]
fn rfc_9653_3_a_correct_checksum_of_zero_needs_no_agreement() {
    let mut net = Net::new(1);
    let config = EndpointConfig {
        local_port: 5001,
        local_addrs: addrs(Host::B, 1),
        listen: true,
        ..EndpointConfig::default()
    };
    net.b = Endpoint::new(config, Box::new(Rng::stream(1, "b"))).expect("valid");
    let init = whimbrel_wire::Init {
        initiate_tag: 0xfcb7_5cca,
        a_rwnd: 1500,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn(0),
        ..init(0, &[])
    };
    let bytes = packet(5001, 5001, 0, &[Chunk::Init(init)]);
    assert!(has_zero_checksum(&bytes));
    net.deliver(Host::B, &bytes).expect("a correct checksum");
    assert_eq!(net.count(Host::B, ChunkType::INIT_ACK), 1);
}

#[test]
fn messages_arrive_over_paths_that_lose_packets() {
    let (mut net, a, b) = between(true, true);
    let mut rng = Rng::stream(1, "loss");
    net.filter = Box::new(move |_| if rng.chance(0.1) { Fate::Drop } else { Fate::Deliver });
    exchange(&mut net, a, b);
    assert_eq!(zeros(&net, Host::B), (false, true));
}

/// Probes of a path policy are packets of their own.
#[test]
fn rfc_9653_5_2_probes_have_no_checksum() {
    let config = AssociationConfig {
        path_policy: Some(PathPolicySpec::Ice(IceParameters {
            first: Span::from_secs(5),
            ..IceParameters::default()
        })),
        ..over_dtls(true)
    };
    let (mut net, a, _) = Net::established(2, &config);
    for _ in 0..200 {
        net.send(Host::A, a, Message::zeros(0, 1452));
        net.run_for(Span::from_millis(50));
    }
    assert!(association(&mut net, Host::A, a).stats().path_probes_sent > 10);
    assert_eq!(zeros(&net, Host::A), (false, true));
    assert_eq!(zeros(&net, Host::B), (false, true));
}
