//! Contents of INIT and INIT ACK: streams, addresses, unknown and invalid parameters (RFC 9260 §3.2.1, §3.3.2, §3.3.3, §5.1.2, §5.4).

use crate::support::{Fate, Host, Net, addr, addrs, data, endpoint, init, meta, packet, parameters};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssociationConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, PathState, State};
use whimbrel_wire::{Cause, Causes, Chunk, ChunkType, Data, NumberList, Parameter};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

fn is_up(net: &mut Net) -> bool {
    let states = [Host::A, Host::B].map(|host| {
        let ids: Vec<_> = net.host(host).associations().collect();
        ids.first().map_or(State::Closed, |&id| net.state(host, id))
    });
    states == [State::Established; 2]
}

fn first(causes: Causes<'_>) -> Cause<'_> {
    causes.iter().next().expect("a cause").expect("well-formed")
}

/// Returns B's reply to an INIT with these parameters and changes.
fn answer_to(list: &[u8], change: impl FnOnce(&mut whimbrel_wire::Init<'_>)) -> (Result<(), Discard>, Net) {
    let mut net = Net::new(1);
    let mut chunk = init(77, list);
    change(&mut chunk);
    let result = net.deliver(Host::B, &packet(4001, 4002, 0, &[Chunk::Init(chunk)]));
    (result, net)
}

fn refused_with(list: &[u8], change: impl FnOnce(&mut whimbrel_wire::Init<'_>)) -> Vec<u16> {
    let (result, net) = answer_to(list, change);
    assert_eq!(result, Err(Discard::InvalidChunk));
    assert_eq!(net.wire.len(), 1);
    assert_eq!((net.wire[0].tag(), net.wire[0].is_reflected()), (77, false));
    net.wire[0].causes()
}

// [9260:5.1-15, 5.1-16, 5.1-17]
// [9260:3.3.2-7, 3.3.2-9, 3.3.2-12, 3.3.2-14]
#[test]
fn section_3_3_2_invalid_inits_are_refused() {
    assert_eq!(refused_with(&[], |init| init.outbound_streams = 0), [7]);
    assert_eq!(refused_with(&[], |init| init.inbound_streams = 0), [7]);
    assert_eq!(refused_with(&[], |init| init.a_rwnd = 1499), [7]);
    assert!(answer_to(&[], |init| init.a_rwnd = 1500).0.is_ok());
    let (result, net) = answer_to(&[], |init| init.initiate_tag = 0);
    assert_eq!(
        (result, net.wire.len()),
        (Err(Discard::InvalidChunk), 0),
        "silently discarded"
    );
}

// [9260:5.1-3, 5.1-11, 5.1.2-3, 5.1.2-7]
#[test]
fn section_5_1_2_an_init_is_answered_to_its_source() {
    // The INIT comes from the second of two addresses that it lists.
    let both = [
        Parameter::Ipv4([10, 0, 1, 1].into()),
        Parameter::Ipv4([10, 0, 0, 1].into()),
    ];
    let (local, source) = (addrs(Host::B, 2)[1], addrs(Host::A, 2)[1]);
    for (last, answer) in [
        (Parameter::EcnCapable, ChunkType::INIT_ACK),
        (Parameter::HostName(b"peer.example"), ChunkType::ABORT),
    ] {
        let mut net = Net::new(2);
        let list = parameters(&[both[0], both[1], last]);
        let bytes = packet(4001, 4002, 0, &[Chunk::Init(init(77, &list))]);
        let result = net.deliver_from(Host::B, meta(local, source), &bytes);
        assert_eq!(result.is_ok(), answer == ChunkType::INIT_ACK);
        let sent = net.last(Host::B, answer);
        assert_eq!((sent.local, sent.remote), (local, source));
    }
}

// [9260:5.1.2-2]
// [9260:3.3.2-3, 3.3.2.1.4-2, 12.2.4.1-1]
#[test]
fn section_5_1_2_host_names_are_refused() {
    assert_eq!(
        refused_with(&parameters(&[Parameter::HostName(b"peer.example")]), |_| ()),
        [5]
    );
}

#[test]
fn section_3_2_1_unknown_parameters_of_an_init_follow_their_two_high_bits() {
    // 00: stop, 01: stop and report, 10: skip, 11: skip and report
    for (high, reported, goes_on) in [
        (0x00, false, false),
        (0x40, true, false),
        (0x80, false, true),
        (0xc0, true, true),
    ] {
        let mut list = vec![high, 0x99, 0, 5, 1, 0, 0, 0];
        list.extend_from_slice(&parameters(&[Parameter::Ipv4([10, 0, 9, 1].into())]));
        let (result, mut net) = answer_to(&list, |_| ());
        assert_eq!(result, Ok(()));
        let answer = net.last(Host::B, ChunkType::INIT_ACK);
        let report = answer.init().parameters.iter().find_map(|parameter| match parameter {
            Ok(Parameter::Unrecognized(raw)) => Some(raw.to_vec()),
            _ => None,
        });
        assert_eq!(report.is_some(), reported, "{high:#x}");
        if let Some(report) = report {
            assert_eq!(report[..5], [high, 0x99, 0, 5, 1]);
        }
        let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
        let tag = answer.init().initiate_tag;
        net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie: &cookie }])
            .expect("accepted");
        let b = net.only(Host::B);
        let paths = net.b.association(b).expect("accepted").paths().count();
        assert_eq!(paths == 2, goes_on, "{high:#x}");
    }
}

fn reports(sent: &crate::support::Sent) -> Vec<Vec<u8>> {
    let report = |parameter| match parameter {
        Ok(Parameter::Unrecognized(raw)) => Some(raw.to_vec()),
        _ => None,
    };
    sent.init().parameters.iter().filter_map(report).collect()
}

/// Returns a parameter of an unknown type that requires a report.
fn unknown(number: u8, len: u16) -> Vec<u8> {
    let mut raw = vec![number; usize::from(len)];
    raw[..2].copy_from_slice(&[0xc0, 0x99]);
    raw[2..4].copy_from_slice(&len.to_be_bytes());
    raw
}

// [9260:3.2.2-1, 3.3.3.1.2-1, 12.4-5]
#[test]
fn section_3_2_2_unknown_parameters_of_an_init_are_reported_as_far_as_they_fit() {
    let list = [unknown(1, 400), unknown(2, 400)];
    let (result, net) = answer_to(&list.concat(), |_| ());
    assert_eq!(result, Ok(()));
    assert_eq!(reports(&net.last(Host::B, ChunkType::INIT_ACK)), list);
    // RFC 9260 §12.4: parameters that would make the reply too large are omitted.
    let list = [unknown(1, 400), unknown(2, 1000), unknown(3, 8), unknown(4, 400)];
    let (result, net) = answer_to(&list.concat(), |_| ());
    assert_eq!(result, Ok(()));
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    assert_eq!(reports(&answer), [&list[0], &list[2], &list[3]].map(Vec::clone));
    assert!(answer.bytes.len() <= 1480);
}

// [9260:3.2.2-2, 3.2.2-3]
#[test]
fn section_3_2_2_an_error_bundled_with_a_cookie_echo_reports_what_fits() {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let cookie = parameters(&[Parameter::StateCookie(&[7; 1000])]);
    let list = [cookie, unknown(1, 400), unknown(2, 400), unknown(3, 8)].concat();
    net.forge(Host::A, tag, &[Chunk::InitAck(init(9, &list))])
        .expect("accepted");
    let sent = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(sent.types(), [ChunkType::COOKIE_ECHO, ChunkType::ERROR]);
    let Chunk::Error { causes } = sent.chunks()[1] else {
        panic!("an ERROR")
    };
    let Cause::UnrecognizedParameters(shown) = first(causes) else {
        panic!("unrecognized parameters")
    };
    let lengths: Vec<_> = shown.raw().flatten().map(|raw| raw.bytes().len()).collect();
    assert_eq!(lengths, [400, 8]);
}

// RFC 5061 §4.2.4, §4.2.6: known types without any effect.
#[test]
fn section_3_2_1_parameters_without_effect_are_reported_too() {
    // Adaptation Layer Indication; Set Primary Address, which contains an address.
    for raw in [
        vec![0xc0, 6, 0, 8, 1, 2, 3, 4],
        vec![0xc0, 4, 0, 16, 0, 0, 0, 1, 0, 5, 0, 8, 10, 0, 0, 1],
    ] {
        let (result, net) = answer_to(&raw, |_| ());
        assert_eq!(result, Ok(()));
        let answer = net.last(Host::B, ChunkType::INIT_ACK);
        let report = answer.init().parameters.iter().find_map(|parameter| match parameter {
            Ok(Parameter::Unrecognized(raw)) => Some(raw.to_vec()),
            _ => None,
        });
        assert_eq!(report, Some(raw));
    }
}

// [9260:3.2.2-2, 3.2.2-3]
// [9260:3.3.11-2]
#[test]
fn section_3_2_2_unknown_parameters_of_an_init_ack_are_reported_with_the_cookie_echo() {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let mut list = vec![0xc0, 0x99, 0, 4];
    list.extend_from_slice(&parameters(&[Parameter::StateCookie(b"biscuit")]));
    net.forge(Host::A, tag, &[Chunk::InitAck(init(9, &list))])
        .expect("accepted");
    let sent = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(sent.types(), [ChunkType::COOKIE_ECHO, ChunkType::ERROR]);
    assert_eq!((sent.tag(), sent.causes()), (9, vec![8]));
    assert_eq!(sent.chunks()[0], Chunk::CookieEcho { cookie: b"biscuit" });
}

// [9260:5.1.2-8, 5.1.2-9, 5.1.2-10, 5.1.2-11]
#[test]
fn section_5_1_2_unusable_address_families_are_skipped() {
    let mut list = parameters(&[
        Parameter::Ipv4([10, 0, 1, 1].into()),
        Parameter::Ipv6("2001:db8::1".parse().expect("an address")),
        Parameter::SupportedAddressTypes(NumberList::IPV6),
    ]);
    let (result, mut net) = answer_to(&list, |_| ());
    assert_eq!(result, Ok(()), "no error although it lists IPv6 and uses IPv4");
    list.clear();
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    assert_eq!(reports(&answer), [[0; 0]; 0], "IPv6 is not reported as unrecognized");
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let tag = answer.init().initiate_tag;
    net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie: &cookie }])
        .expect("accepted");
    let b = net.only(Host::B);
    let remotes: Vec<_> = net
        .b
        .association(b)
        .expect("there")
        .paths()
        .map(|path| path.remote)
        .collect();
    assert_eq!(remotes, [addr("10.0.0.1:0"), addr("10.0.1.1:0")]);
}

#[test]
fn section_3_3_2_1_5_supported_address_types_are_listed() {
    let types = |local: Vec<_>, peer| {
        let mut net = Net::new(1);
        let config = EndpointConfig {
            local_port: 4001,
            local_addrs: local,
            ..EndpointConfig::default()
        };
        net.a = Endpoint::new(config, Box::new(Rng::stream(1, "a"))).expect("valid");
        let now = net.now;
        net.a
            .connect(now, AssociationConfig::default(), 4002, &[peer])
            .expect("the association can be opened");
        net.drain(Host::A);
        let sent = net.last(Host::A, ChunkType::INIT);
        let listed = sent.init().parameters.iter().find_map(|parameter| match parameter {
            Ok(Parameter::SupportedAddressTypes(types)) => Some(types.iter().collect::<Vec<_>>()),
            _ => None,
        });
        listed.expect("the parameter")
    };
    assert_eq!(types(vec![addr("10.0.0.1:0")], addr("10.0.0.2:0")), [5]);
    assert_eq!(types(vec![addr("[2001:db8::1]:0")], addr("[2001:db8::2]:0")), [6]);
    assert_eq!(
        types(vec![addr("10.0.0.1:0"), addr("[2001:db8::1]:0")], addr("10.0.0.2:0")),
        [5, 6]
    );
}

/// Passes an INIT ACK built by hand to A.
fn on_init_ack(list: &[u8], change: impl FnOnce(&mut whimbrel_wire::Init<'_>)) -> Net {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let mut chunk = init(9, list);
    change(&mut chunk);
    let bytes = packet(4002, 4001, tag, &[Chunk::InitAck(chunk)]);
    assert_eq!(net.deliver(Host::A, &bytes), Err(Discard::InvalidChunk));
    net
}

// [9260:5.1-15, 5.1-16, 5.1-17]
// [9260:3.3.3-2, 3.3.3-6, 3.3.3-12, 3.3.3-15]
#[test]
fn section_3_3_3_invalid_init_acks_end_the_attempt() {
    let cookie = parameters(&[Parameter::StateCookie(b"biscuit")]);
    let is_over = |net: &Net| matches!(net.close_reason(Host::A), Some(CloseReason::ProtocolViolation(_)));
    let net = on_init_ack(&[], |_| ());
    let abort = net.last(Host::A, ChunkType::ABORT);
    assert_eq!((abort.tag(), abort.is_reflected()), (9, false));
    let Chunk::Abort { causes, .. } = abort.chunks()[0] else {
        panic!("not an ABORT")
    };
    assert_eq!(
        first(causes),
        Cause::MissingMandatoryParameter(NumberList::STATE_COOKIE)
    );
    assert!(is_over(&net));
    for net in [
        on_init_ack(&cookie, |init| init.outbound_streams = 0),
        on_init_ack(&cookie, |init| init.inbound_streams = 0),
    ] {
        assert_eq!(net.last(Host::A, ChunkType::ABORT).tag(), 9);
        assert!(is_over(&net));
    }
    let net = on_init_ack(
        &parameters(&[Parameter::HostName(b"x"), Parameter::StateCookie(b"biscuit")]),
        |_| (),
    );
    assert_eq!(net.last(Host::A, ChunkType::ABORT).causes(), [5]);
    let net = on_init_ack(&cookie, |init| init.initiate_tag = 0);
    assert!(is_over(&net));
    assert!(
        net.last(Host::A, ChunkType::ABORT).is_reflected(),
        "no tag of the peer is known"
    );
}

// [9260:3.3.3-9]
#[test]
fn section_3_3_3_an_init_ack_with_a_tiny_window_is_refused_and_the_attempt_continues() {
    let cookie = parameters(&[Parameter::StateCookie(b"biscuit")]);
    let mut net = on_init_ack(&cookie, |init| init.a_rwnd = 1499);
    assert_eq!(net.last(Host::A, ChunkType::ABORT).tag(), 9);
    net.run_until(Span::from_secs(10), "the INIT ACK of the real peer", is_up);
}

#[test]
fn section_5_1_3_a_cookie_larger_than_a_packet_is_refused() {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let list = parameters(&[Parameter::StateCookie(&[7; 2000])]);
    assert!(net.forge(Host::A, tag, &[Chunk::InitAck(init(9, &list))]).is_err());
    assert!(net.close_reason(Host::A).is_some());
}

// [9260:5.1.2-1]
#[test]
fn section_5_1_2_without_a_list_the_source_is_the_only_address() {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    let paths: Vec<_> = net.b.association(b).expect("there").paths().collect();
    assert_eq!(
        (paths.len(), paths[0].remote, paths[0].state),
        (1, addr("10.0.0.1:0"), PathState::Active)
    );
}

// [9260:5.1.1-2, 5.1.1-4]
#[test]
fn section_5_1_1_data_on_a_stream_beyond_the_lesser_number_is_refused() {
    // A takes up to 65535 streams; its peer has asked for 10 of them.
    let (mut net, _, tag, _) = Net::in_state(&config(), State::Established);
    let on_stream = |tsn, stream| {
        [Chunk::Data(Data {
            stream,
            ..data(tsn, 0, b"x")
        })]
    };
    net.forge(Host::A, tag, &on_stream(1000, 9)).expect("accepted");
    assert_eq!(
        net.forge(Host::A, tag, &on_stream(1001, 10)),
        Err(Discard::InvalidChunk)
    );
    assert_eq!(net.last(Host::A, ChunkType::ERROR).causes(), [1]);
    assert_eq!(net.contents(Host::A), [b"x"]);
}

// [9260:5.1.2-4, 5.1.2-5, 5.4-2]
#[test]
fn section_5_1_2_listed_addresses_are_verified_before_they_are_used() {
    let mut net = Net::new(3);
    // A knows only one address of B; B receives all three addresses of A.
    net.connect(&config(), 1);
    net.run_for(Span::from_millis(30));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
    for host in [Host::A, Host::B] {
        let id = net.only(host);
        net.run_for(Span::from_millis(if host == Host::A { 10 } else { 0 }));
        let states: Vec<_> = net
            .host(host)
            .association(id)
            .expect("established")
            .paths()
            .map(|path| path.state)
            .collect();
        assert_eq!(states.len(), 3, "{host:?}");
        assert_eq!(states[0], PathState::Active, "{host:?}");
    }
    net.run_for(Span::from_secs(5));
    for host in [Host::A, Host::B] {
        let id = net.only(host);
        let all: Vec<_> = net.host(host).association(id).expect("established").paths().collect();
        assert!(
            all.iter().all(|path| path.state == PathState::Active),
            "{host:?}: {all:?}"
        );
        let confirmed = |event: &Event| {
            matches!(
                event,
                Event::PathState {
                    state: PathState::Active,
                    ..
                }
            )
        };
        assert_eq!(
            net.events_of(host).iter().filter(|event| confirmed(event)).count(),
            2,
            "{host:?}"
        );
    }
}

// [9260:5.1.2-5]
#[test]
fn section_5_1_2_only_addresses_that_the_peer_listed_are_used() {
    let mut net = Net::new(2);
    net.b = endpoint(Host::B, 1, &config(), 1);
    // The user of A specified a second address, which B does not have.
    let id = net.connect(&config(), 2);
    net.run_for(Span::from_secs(1));
    let remotes: Vec<_> = net
        .a
        .association(id)
        .expect("established")
        .paths()
        .map(|path| path.remote)
        .collect();
    assert_eq!(remotes, addrs(Host::B, 1));
    // The address can be used for another association as soon as this one does not use it.
    let now = net.now;
    let other = net.a.connect(now, config(), 4002, &addrs(Host::B, 2)[1..]);
    assert!(other.is_ok(), "{other:?}");
}

// [9260:5.1.2-6]
#[test]
fn section_5_1_2_an_init_ack_from_another_address_of_the_peer_is_accepted() {
    let mut net = Net::new(2);
    net.connect(&config(), 1);
    net.drain(Host::A);
    let init = net.last(Host::A, ChunkType::INIT);
    let now = net.now;
    net.b.handle_datagram(now, init.meta(), &init.bytes).expect("answered");
    net.filter = Box::new(|_| Fate::Drop);
    net.drain(Host::B);
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    net.filter = Box::new(|_| Fate::Deliver);
    // B's routing selected its other address.
    net.deliver_from(Host::A, meta(answer.remote, addrs(Host::B, 2)[1]), &answer.bytes)
        .expect("accepted");
    // Only the address that the user specified is confirmed.
    assert_eq!(net.last(Host::A, ChunkType::COOKIE_ECHO).remote, addrs(Host::B, 2)[0]);
    net.run_until(Span::from_secs(1), "both ends established", is_up);
    net.run_for(Span::from_secs(5));
    let a = net.only(Host::A);
    let paths: Vec<_> = net
        .a
        .association(a)
        .expect("established")
        .paths()
        .map(|path| (path.remote, path.state))
        .collect();
    let expected: Vec<_> = addrs(Host::B, 2)
        .into_iter()
        .map(|remote| (remote, PathState::Active))
        .collect();
    assert_eq!(paths, expected);
}
