//! A host behind NATs: its peer sees other addresses, which it takes from the sources of ASCONFs (RFC 5061
//! §4.2.1, §4.2.2).

use crate::support::{Fate, Host, Net, addr, packet};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssocId, AssociationConfig, Endpoint, EndpointConfig, Event, Message, PathState, TransportAddr};
use whimbrel_wire::{Chunk, ChunkType, Parameter};

fn config() -> AssociationConfig {
    AssociationConfig {
        dynamic_addresses: true,
        path_per_local_address: true,
        ..AssociationConfig::default()
    }
}

fn wifi() -> TransportAddr {
    addr("192.168.1.20:0")
}

fn lte() -> TransportAddr {
    addr("10.155.3.7:0")
}

fn server() -> TransportAddr {
    addr("203.0.113.1:0")
}

/// The address that the server sees for a local address, when the NAT has lost its state `changes` times.
fn public(local: TransportAddr, changes: u8) -> TransportAddr {
    let network = if local == wifi() { "198.51.100" } else { "192.0.2" };
    addr(&format!("{network}.{}:0", 1 + changes))
}

fn endpoint(local: &[TransportAddr], config: &AssociationConfig) -> Endpoint {
    let listen = local[0] != wifi();
    let settings = EndpointConfig {
        local_port: if listen { 4002 } else { 4001 },
        local_addrs: local.to_vec(),
        listen,
        association: config.clone().into(),
        ..EndpointConfig::default()
    };
    Endpoint::new(settings, Box::new(Rng::stream(1, if listen { "b" } else { "a" }))).expect("a valid configuration")
}

/// A robot with these local addresses, behind a NAT each, and a server with a public address.
fn robot(local: &[TransportAddr], config: &AssociationConfig) -> Net {
    let mut net = Net::with_config(1, config, 1);
    net.a = endpoint(local, config);
    net.b = endpoint(&[server()], config);
    net.nats = local.iter().map(|local| (*local, public(*local, 0))).collect();
    net
}

fn connect(net: &mut Net, config: &AssociationConfig) -> AssocId {
    let now = net.now;
    net.a
        .connect(now, config.clone(), 4002, &[server()])
        .expect("a valid request")
}

fn established(local: &[TransportAddr], config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let mut net = robot(local, config);
    let a = connect(&mut net, config);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    (net, a, b)
}

/// Local address, remote address and state of each path.
fn paths(endpoint: &Endpoint, id: AssocId) -> Vec<(TransportAddr, TransportAddr, PathState)> {
    let paths = endpoint.association(id).expect("it exists").paths();
    paths.map(|path| (path.local, path.remote, path.state)).collect()
}

fn remotes(net: &Net, b: AssocId) -> Vec<TransportAddr> {
    paths(&net.b, b).into_iter().map(|(_, remote, _)| remote).collect()
}

fn send(net: &mut Net, host: Host, id: AssocId, messages: u32) {
    for number in 0..messages {
        net.send(host, id, Message::new(0, number.to_be_bytes().repeat(300)));
    }
}

/// Drops all packets from a local address of the robot.
fn cut(net: &mut Net, local: TransportAddr) {
    net.filter = Box::new(move |packet| {
        if packet.from == Host::A && packet.local == local {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
}

// [6951:3.2-2, 3.2-3, 5.7-1, 5.7-2]
#[test]
fn two_radios_behind_two_nats_are_both_used() {
    let (mut net, a, b) = established(&[wifi(), lte()], &config());
    let active = PathState::Active;
    assert_eq!(
        paths(&net.a, a),
        [(wifi(), server(), active), (lte(), server(), active)]
    );
    assert_eq!(
        paths(&net.b, b),
        [
            (server(), public(wifi(), 0), active),
            (server(), public(lte(), 0), active)
        ]
    );
    assert!(
        net.events_of(Host::A)
            .contains(&Event::LocalAddressAdded { addr: lte() })
    );
    let init = net.sent(Host::A, ChunkType::INIT)[0].clone();
    let lists = |parameter: &Parameter<'_>| matches!(parameter, Parameter::Ipv4(_) | Parameter::Ipv6(_));
    assert!(
        !init
            .init()
            .parameters
            .iter()
            .flatten()
            .any(|parameter| lists(&parameter))
    );
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
    send(&mut net, Host::A, a, 50);
    send(&mut net, Host::B, b, 50);
    cut(&mut net, wifi());
    // Path.Max.Retrans of RFC 9260: 63 s until the path has failed.
    net.run_for(Span::from_secs(100));
    assert_eq!((net.contents(Host::A).len(), net.contents(Host::B).len()), (50, 50));
}

/// The same with encryption, which does not cover the addresses that the NATs change.
fn encrypted() -> AssociationConfig {
    AssociationConfig {
        protection: crate::protection::config().protection,
        ..config()
    }
}

#[test]
fn two_encrypted_radios_behind_two_nats_are_both_used() {
    let (mut net, a, b) = established(&[wifi(), lte()], &encrypted());
    let active = PathState::Active;
    net.run_for(Span::from_secs(5));
    assert_eq!(
        paths(&net.a, a),
        [(wifi(), server(), active), (lte(), server(), active)]
    );
    assert_eq!(
        paths(&net.b, b),
        [
            (server(), public(wifi(), 0), active),
            (server(), public(lte(), 0), active)
        ]
    );
    send(&mut net, Host::A, a, 50);
    send(&mut net, Host::B, b, 50);
    cut(&mut net, wifi());
    net.run_for(Span::from_secs(100));
    assert_eq!((net.contents(Host::A).len(), net.contents(Host::B).len()), (50, 50));
}

// The address from which it is repeated is not known yet.
#[test]
fn a_lost_answer_to_an_encrypted_radio_behind_a_nat_is_sent_again() {
    let mut net = robot(&[wifi(), lte()], &encrypted());
    let mut lost = 0;
    net.filter = Box::new(move |packet| {
        if packet.from == Host::B && packet.remote == public(lte(), 0) && lost < 2 {
            lost += 1;
            return Fate::Drop;
        }
        Fate::Deliver
    });
    let a = connect(&mut net, &encrypted());
    net.run_for(Span::from_secs(8));
    let b = net.only(Host::B);
    let active = PathState::Active;
    assert_eq!(
        paths(&net.b, b),
        [
            (server(), public(wifi(), 0), active),
            (server(), public(lte(), 0), active)
        ]
    );
    assert!(paths(&net.a, a).iter().all(|(.., state)| *state == active));
}

#[test]
fn an_encrypted_association_outlives_two_changes_of_the_public_address_in_a_row() {
    let (mut net, a, b) = established(&[wifi()], &encrypted());
    // What is answered there does not arrive.
    net.filter = Box::new(|packet| match packet.remote == public(wifi(), 1) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    net.nats = [(wifi(), public(wifi(), 1))].into();
    send(&mut net, Host::A, a, 5);
    net.run_until(Span::from_secs(100), "the server learns the address", |net| {
        remotes(net, b).contains(&public(wifi(), 1))
    });
    net.nats = [(wifi(), public(wifi(), 2))].into();
    send(&mut net, Host::B, b, 5);
    net.run_for(Span::from_secs(400));
    assert_eq!((net.contents(Host::A).len(), net.contents(Host::B).len()), (5, 5));
}

// The old address is not removed at the request of the peer: the server sends elsewhere once it has failed.
#[test]
fn an_encrypted_transfer_goes_on_after_changes_of_the_public_address() {
    for (host, seconds) in [(Host::A, 150), (Host::B, 400)] {
        let (mut net, a, b) = established(&[wifi()], &encrypted());
        let sender = if host == Host::A { a } else { b };
        for change in 1..=40 {
            send(&mut net, host, sender, 5);
            net.run_for(Span::from_millis(1));
            net.nats = [(wifi(), public(wifi(), change))].into();
            net.run_for(Span::from_secs(seconds));
            assert!(
                remotes(&net, b).contains(&public(wifi(), change)),
                "{host:?}, change {change}"
            );
            assert_eq!(
                net.contents(host.other()).len(),
                5 * usize::from(change),
                "{host:?}, change {change}"
            );
            assert!(remotes(&net, b).len() <= 16);
        }
    }
}

// RFC 5061 §5.3: the peer answers other packets from an address that it does not know with an ABORT.
#[test]
fn an_address_that_the_peer_does_not_know_sends_only_asconf() {
    let mut net = robot(&[wifi(), lte()], &config());
    let a = connect(&mut net, &config());
    net.run_until(Span::from_secs(1), "the address is added", |net| {
        net.events_of(Host::A)
            .contains(&Event::LocalAddressAdded { addr: lte() })
    });
    let from_lte: Vec<_> = net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::A && sent.local == lte())
        .collect();
    assert_eq!(from_lte.len(), 1);
    assert_eq!(from_lte[0].types(), [ChunkType::AUTH, ChunkType::ASCONF]);
    assert_eq!(net.a.association(a).expect("it exists").local_addrs(), [wifi(), lte()]);
}

#[test]
fn a_server_with_two_addresses_is_reached_over_both_radios() {
    let mut net = robot(&[wifi(), lte()], &config());
    let second = addr("203.0.113.2:0");
    net.b = endpoint(&[server(), second], &config());
    let now = net.now;
    let a = net
        .a
        .connect(now, config(), 4002, &[server(), second])
        .expect("a valid request");
    net.run_for(Span::from_secs(5));
    let b = net.only(Host::B);
    let active = PathState::Active;
    let pairs = [(wifi(), server(), active), (lte(), second, active)];
    assert_eq!(paths(&net.a, a), pairs, "no network has two windows");
    assert!(remotes(&net, b).contains(&public(lte(), 0)), "{:?}", remotes(&net, b));
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
}

#[test]
fn a_radio_that_is_dead_at_first_is_added_later() {
    let mut net = robot(&[wifi(), lte()], &config());
    cut(&mut net, lte());
    let a = connect(&mut net, &config());
    net.run_for(Span::from_secs(100));
    assert_eq!(net.a.association(a).expect("it exists").local_addrs(), [wifi()]);
    // The ASCONF that nobody answers does not delay other requests, whenever they are made.
    for _ in 0..40 {
        let (now, sent_before) = (net.now, net.wire.len());
        net.a.set_peer_primary(now, a, wifi()).expect("it is known");
        net.run_for(Span::from_millis(4100));
        let of_wifi = |sent: &crate::support::Sent| sent.local == wifi() && sent.has(ChunkType::ASCONF);
        assert!(net.wire[sent_before..].iter().any(of_wifi), "{}", net.now.since(now));
    }
    send(&mut net, Host::A, a, 10);
    net.run_for(Span::from_secs(10));
    assert_eq!(net.contents(Host::B).len(), 10);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(100));
    let b = net.only(Host::B);
    assert_eq!(remotes(&net, b), [public(wifi(), 0), public(lte(), 0)]);
    assert_eq!(net.a.association(a).expect("it exists").local_addrs(), [wifi(), lte()]);
}

#[test]
fn a_new_public_address_does_not_end_the_only_path() {
    for host in [Host::A, Host::B] {
        let (mut net, a, b) = established(&[wifi()], &config());
        let sender = if host == Host::A { a } else { b };
        for change in 1..=40 {
            send(&mut net, host, sender, 5);
            net.run_for(Span::from_millis(1));
            net.nats = [(wifi(), public(wifi(), change))].into();
            net.run_for(Span::from_secs(150));
            assert_eq!(remotes(&net, b), [public(wifi(), change)], "{host:?}, change {change}");
            assert_eq!(
                net.contents(host.other()).len(),
                5 * usize::from(change),
                "{host:?}, change {change}"
            );
        }
        assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
    }
}

#[test]
fn a_transfer_goes_on_within_seconds_after_a_change_of_the_public_address() {
    let (mut net, a, _) = established(&[wifi()], &config());
    send(&mut net, Host::A, a, 20);
    net.run_for(Span::from_millis(1));
    net.nats = [(wifi(), public(wifi(), 1))].into();
    let start = net.now;
    net.run_until(Span::from_secs(60), "all data arrives", |net| {
        net.contents(Host::B).len() == 20
    });
    // The RTO doubles from 1 s; the second timeout sends the ASCONF.
    assert!(net.now.since(start) < Span::from_secs(8), "{}", net.now.since(start));
}

#[test]
fn public_addresses_that_have_changed_make_room() {
    let (mut net, a, b) = established(&[wifi(), lte()], &config());
    for change in 1..=40 {
        net.nats.insert(lte(), public(lte(), change));
        net.run_for(Span::from_secs(400));
        assert!(remotes(&net, b).contains(&public(lte(), change)), "change {change}");
        assert!(remotes(&net, b).len() <= 16);
    }
    let of_lte: Vec<_> = paths(&net.a, a)
        .into_iter()
        .filter(|(local, ..)| *local == lte())
        .collect();
    assert_eq!(of_lte, [(lte(), server(), PathState::Active)]);
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
}

#[test]
fn a_translated_address_that_is_removed_leaves_the_peer() {
    let (mut net, a, b) = established(&[wifi(), lte()], &config());
    let now = net.now;
    net.a.remove_local_address(now, a, wifi()).expect("one of two");
    cut(&mut net, wifi());
    send(&mut net, Host::B, b, 20);
    let start = net.now;
    net.run_until(Span::from_secs(1), "data arrives", |net| {
        net.contents(Host::A).len() == 20
    });
    assert_eq!(remotes(&net, b), [public(lte(), 0)]);
    assert!(
        net.now.since(start) < Span::from_millis(200),
        "{}",
        net.now.since(start)
    );
    assert!(
        net.events_of(Host::A)
            .contains(&Event::LocalAddressRemoved { addr: wifi() })
    );
}

#[test]
fn the_peer_sends_first_to_the_translated_address_that_it_is_asked_for() {
    let (mut net, a, b) = established(&[wifi(), lte()], &config());
    let now = net.now;
    net.a.set_peer_primary(now, a, lte()).expect("it is known");
    net.run_for(Span::from_millis(100));
    let primary = |path: &whimbrel_proto::PathInfo| path.primary;
    let of_server = net.b.association(b).expect("it exists").paths().find(primary);
    assert_eq!(of_server.expect("one is primary").remote, public(lte(), 0));
}

// The peer may list addresses that cannot be reached. A verified one is used for the ASCONF.
#[test]
fn an_address_is_added_over_a_verified_address_of_the_peer() {
    let mut net = robot(&[wifi(), lte()], &config());
    let inner = addr("203.0.113.77:0");
    net.b = endpoint(&[server(), inner], &config());
    net.filter = Box::new(move |packet| {
        if packet.remote == inner {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    connect(&mut net, &config());
    net.run_until(Span::from_millis(200), "the address is added", |net| {
        net.events_of(Host::A)
            .contains(&Event::LocalAddressAdded { addr: lte() })
    });
}

#[test]
fn a_peer_without_dynamic_addresses_keeps_the_address_of_the_handshake() {
    let mut net = robot(&[wifi(), lte()], &config());
    let fixed = AssociationConfig {
        dynamic_addresses: false,
        ..config()
    };
    net.b = endpoint(&[server()], &fixed);
    let a = connect(&mut net, &config());
    net.run_for(Span::from_secs(1));
    send(&mut net, Host::A, a, 20);
    net.run_for(Span::from_secs(100));
    assert_eq!(net.contents(Host::B).len(), 20);
    assert!(net.wire.iter().all(|sent| sent.local != lte()));
}

// A NAT between private networks is not detected: the INIT lists addresses that the peer cannot reach.
#[test]
fn a_nat_that_is_not_detected_delays_the_second_path() {
    let private = addr("172.16.0.1:0");
    let config = AssociationConfig {
        hb_interval: Span::from_secs(5),
        ..config()
    };
    let mut net = robot(&[wifi(), lte()], &config);
    net.b = endpoint(&[private], &config);
    let now = net.now;
    let a = net.a.connect(now, config, 4002, &[private]).expect("a valid request");
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    net.run_for(Span::from_secs(200));
    assert!(remotes(&net, b).contains(&public(lte(), 0)), "{:?}", remotes(&net, b));
    assert!(paths(&net.a, a).iter().all(|(.., state)| *state == PathState::Active));
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
}

#[test]
fn a_packet_with_the_right_tag_from_an_unknown_source_is_not_answered() {
    let (mut net, a, b) = established(&[wifi()], &config());
    let tag = net.tag_of(Host::B);
    for chunk in [Chunk::CookieAck, Chunk::ShutdownAck] {
        net.inject(
            Host::B,
            server(),
            addr("192.0.2.99:0"),
            packet(4001, 4002, tag, &[chunk]),
        );
    }
    let sent = net.wire.len();
    net.run_for(Span::from_millis(100));
    assert!(net.wire[sent..].iter().all(|sent| sent.remote != addr("192.0.2.99:0")));
    assert_eq!(remotes(&net, b), [public(wifi(), 0)]);
    assert_eq!(paths(&net.a, a).len(), 1);
}

#[test]
fn without_translation_the_source_is_never_added() {
    let fixed = AssociationConfig {
        address_translation: Some(false),
        ..config()
    };
    let (mut net, ..) = established(&[wifi()], &fixed);
    net.nats = [(wifi(), public(wifi(), 1))].into();
    net.run_for(Span::from_secs(500));
    assert_eq!(net.count(Host::A, ChunkType::ASCONF), 0);
}

/// A new local address, behind a NAT.
fn appear(net: &mut Net, a: AssocId, local: TransportAddr) {
    net.nats.insert(local, public(local, 0));
    let now = net.now;
    net.a.add_local_address(now, a, local).expect("a new address");
}

#[test]
fn a_new_network_takes_over_when_the_only_one_has_failed() {
    for public_server in [true, false] {
        let remote = if public_server { server() } else { addr("172.16.0.1:0") };
        let config = AssociationConfig {
            address_translation: Some(true),
            ..config()
        };
        let mut net = robot(&[wifi()], &config);
        net.b = endpoint(&[remote], &config);
        let now = net.now;
        let a = net.a.connect(now, config, 4002, &[remote]).expect("a valid request");
        net.run_for(Span::from_secs(1));
        send(&mut net, Host::A, a, 20);
        net.run_for(Span::from_millis(1));
        cut(&mut net, wifi());
        // Two timeouts: the peer has been asked for the source address of the dead path.
        net.run_for(Span::from_secs(10));
        assert!(net.count(Host::A, ChunkType::ASCONF) > 0);
        appear(&mut net, a, lte());
        let start = net.now;
        net.run_until(Span::from_secs(60), "the new address is added", |net| {
            net.events_of(Host::A)
                .contains(&Event::LocalAddressAdded { addr: lte() })
        });
        assert!(net.now.since(start) < Span::from_secs(6), "{}", net.now.since(start));
        net.run_for(Span::from_secs(60));
        assert_eq!(net.contents(Host::B).len(), 20);
    }
}

#[test]
fn one_network_replaces_another_in_one_step() {
    let (mut net, a, b) = established(&[wifi(), lte()], &config());
    let ethernet = addr("192.168.7.7:0");
    net.nats.insert(ethernet, addr("198.51.100.99:0"));
    let now = net.now;
    net.a.add_local_address(now, a, ethernet).expect("a new address");
    net.a.remove_local_address(now, a, wifi()).expect("one of three");
    net.run_for(Span::from_secs(1));
    assert_eq!(
        net.a.association(a).expect("it exists").local_addrs(),
        [lte(), ethernet]
    );
    assert!(remotes(&net, b).contains(&addr("198.51.100.99:0")));
    send(&mut net, Host::A, a, 20);
    net.run_for(Span::from_secs(10));
    assert_eq!(net.contents(Host::B).len(), 20);
}

/// Loses all data from wifi, but nothing else.
fn lose_data(net: &mut Net) {
    net.filter = Box::new(|packet| {
        let is_lost = packet.from == Host::A && packet.local == wifi() && packet.has(ChunkType::DATA);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
}

// The answers to small packets do not show that data arrives.
#[test]
fn a_path_that_loses_only_data_fails() {
    let (mut net, a, _) = established(&[wifi(), lte()], &config());
    lose_data(&mut net);
    send(&mut net, Host::A, a, 20);
    net.run_for(Span::from_secs(200));
    assert_eq!(net.contents(Host::B).len(), 20);
}

#[test]
fn a_test_of_the_source_address_causes_few_retransmissions() {
    let sent = |address_translation| {
        let config = AssociationConfig {
            address_translation,
            ..config()
        };
        let (mut net, a, _) = established(&[wifi()], &config);
        lose_data(&mut net);
        send(&mut net, Host::A, a, 20);
        net.run_for(Span::from_secs(600));
        assert_eq!(net.close_reason(Host::A), None, "heartbeats are answered");
        net.count(Host::A, ChunkType::DATA)
    };
    let (with, without) = (sent(None), sent(Some(false)));
    assert!(with <= without + without / 4, "{with} with tests, {without} without");
}

#[test]
fn addresses_that_the_peer_knows_by_name_are_not_removed() {
    let config = AssociationConfig {
        path_per_local_address: false,
        ..config()
    };
    let private = addr("172.16.0.1:0");
    let mut net = robot(&[wifi(), lte()], &config);
    net.nats.clear();
    net.b = endpoint(&[private], &config);
    let now = net.now;
    let a = net.a.connect(now, config, 4002, &[private]).expect("a valid request");
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    let before = remotes(&net, b);
    net.filter = Box::new(|_| Fate::Drop);
    send(&mut net, Host::A, a, 20);
    net.run_for(Span::from_secs(6));
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(30));
    assert!(net.count(Host::A, ChunkType::ASCONF) > 0);
    assert_eq!(net.contents(Host::B).len(), 20);
    assert_eq!(remotes(&net, b), before);
}

#[test]
fn an_association_with_only_an_address_that_cannot_be_added_ends() {
    let (mut net, a, _) = established(&[wifi()], &config());
    cut(&mut net, lte());
    appear(&mut net, a, lte());
    let now = net.now;
    net.a
        .remove_local_address(now, a, wifi())
        .expect("the other one is requested");
    net.run_for(Span::from_secs(1500));
    assert_eq!(
        net.close_reason(Host::A),
        Some(whimbrel_proto::CloseReason::PeerUnreachable)
    );
}

#[test]
fn an_address_that_comes_and_goes_is_used_in_the_end() {
    let (mut net, a, b) = established(&[wifi()], &config());
    for pause in [0, 5, 15, 25, 1100, 3500] {
        appear(&mut net, a, lte());
        net.run_for(Span::from_millis(pause));
        let now = net.now;
        net.a.remove_local_address(now, a, lte()).expect("it was added");
        net.run_for(Span::from_millis(7));
        assert_eq!(
            net.a.association(a).expect("it exists").local_addrs(),
            [wifi()],
            "{pause} ms"
        );
    }
    appear(&mut net, a, lte());
    net.run_for(Span::from_secs(40));
    assert_eq!(net.a.association(a).expect("it exists").local_addrs(), [wifi(), lte()]);
    assert!(remotes(&net, b).contains(&public(lte(), 0)));
    assert!(paths(&net.a, a).iter().all(|(.., state)| *state == PathState::Active));
}

#[test]
fn a_stale_cookie_does_not_hide_an_address_for_ever() {
    let mut net = robot(&[wifi(), lte()], &config());
    let mut echoes = 0;
    // The first COOKIE ECHO arrives when the cookie has expired.
    net.filter = Box::new(move |packet| {
        echoes += u32::from(packet.has(ChunkType::COOKIE_ECHO));
        if packet.has(ChunkType::COOKIE_ECHO) && echoes == 1 {
            Fate::Delay(Span::from_secs(70))
        } else if packet.has(ChunkType::COOKIE_ECHO) && echoes < 8 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = connect(&mut net, &config());
    net.run_for(Span::from_secs(300));
    assert!(net.count(Host::B, ChunkType::ERROR) > 0, "the cookie was stale");
    assert_eq!(net.a.association(a).expect("it exists").local_addrs(), [wifi(), lte()]);
}
