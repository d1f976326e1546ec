//! SCTP inside UDP and without it (RFC 6951), at one host.

use crate::support::{ENCAPSULATION, Fate, Host, Net, Sent, addr, endpoint, meta, packet, port};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, AuthConfig, Endpoint, EndpointConfig, Event, Message, State, TransportAddr,
};
use whimbrel_wire::{Chunk, ChunkType, Parameter, RawChunk};

/// The addresses of A and B.
const FAMILIES: [[&str; 2]; 2] = [["10.0.0.1", "10.0.0.2"], ["2001:db8::1", "2001:db8::2"]];

fn both() -> [AssociationConfig; 2] {
    let keyed = AssociationConfig {
        auth: AuthConfig::shared_key(b"a shared key of some length"),
        ..AssociationConfig::default()
    };
    [AssociationConfig::default(), keyed]
}

fn at(ip: &str, port: u16) -> TransportAddr {
    TransportAddr::new(ip.parse().expect("an address"), port)
}

/// Both hosts take packets inside UDP and without it.
fn two_kinds(ips: [&str; 2], config: &AssociationConfig) -> Net {
    let mut net = Net::with_config(1, config, 1);
    let new = |ip: &str, local_port, listen, seed| {
        let config = EndpointConfig {
            local_port,
            local_addrs: [ENCAPSULATION, 0].map(|port| at(ip, port)).into(),
            listen,
            association: config.clone().into(),
            ..EndpointConfig::default()
        };
        Endpoint::new(config, Box::new(Rng::stream(1, seed))).expect("a valid configuration")
    };
    net.a = new(ips[0], port(Host::A), false, "a");
    net.b = new(ips[1], port(Host::B), true, "b");
    net.is_gateway = true;
    net
}

/// What leaves A with this port arrives from that port of A.
fn translate(net: &mut Net, ip: &str, from: u16, to: u16) {
    net.nats = [(at(ip, from), at(ip, to))].into();
}

fn connect(net: &mut Net, config: &AssociationConfig, remote: TransportAddr) -> (AssocId, AssocId) {
    let now = net.now;
    let a = net
        .a
        .connect(now, config.clone(), port(Host::B), &[remote])
        .expect("valid");
    net.drain(Host::A);
    net.run_for(Span::from_millis(200));
    assert_eq!(net.state(Host::A, a), State::Established);
    (a, net.only(Host::B))
}

/// Returns the ports at both ends of the path of B, local first.
fn ports_of_b(net: &Net, b: AssocId) -> [u16; 2] {
    let mut paths = net.b.association(b).expect("established").paths();
    let path = paths.next().expect("a path");
    assert!(paths.next().is_none());
    [path.local.port(), path.remote.port()]
}

/// Returns the user data of the longest chunk that B has sent since `start`.
fn longest(net: &Net, start: usize) -> usize {
    let sent = net.wire[start..].iter().filter(|sent| sent.from == Host::B);
    let lengths = sent.flat_map(|sent| sent.data()).map(|data| data.payload.len());
    lengths.max().expect("data")
}

// [6951:5.4-2]
#[test]
fn data_follows_a_peer_that_leaves_udp_or_begins_to_use_it() {
    for ips in FAMILIES {
        for (before, after) in [(ENCAPSULATION, 0), (0, ENCAPSULATION), (40_000, 0), (0, 40_000)] {
            for config in both() {
                let mut net = two_kinds(ips, &config);
                let own = if before == 0 { 0 } else { ENCAPSULATION };
                translate(&mut net, ips[0], own, before);
                let (a, b) = connect(&mut net, &config, at(ips[1], own));
                let kind = |port: u16| if port == 0 { 0 } else { ENCAPSULATION };
                assert_eq!(ports_of_b(&net, b), [kind(before), before]);
                net.send(Host::B, b, Message::zeros(0, 5000));
                net.run_for(Span::from_secs(1));
                let first = longest(&net, 0);
                translate(&mut net, ips[0], own, after);
                let begun = net.now;
                net.send(Host::A, a, Message::zeros(0, 3000));
                net.send(Host::B, b, Message::zeros(0, 5000));
                net.run_until(Span::from_secs(10), "both messages", |net| {
                    net.contents(Host::A).len() == 2 && net.contents(Host::B).len() == 1
                });
                let took = net.now.since(begun);
                assert!(took < Span::from_millis(1500), "{took}");
                assert_eq!(ports_of_b(&net, b), [kind(after), after]);
                net.run_for(Span::from_secs(1));
                let start = net.wire.len();
                net.send(Host::B, b, Message::zeros(0, 5000));
                net.run_for(Span::from_secs(1));
                assert_eq!(net.contents(Host::A).len(), 3);
                // The UDP header takes 8 bytes.
                let change = longest(&net, start) as isize - first as isize;
                assert_eq!(change, if after == 0 { 8 } else { -8 });
                let of_b = net.wire[start..].iter().filter(|sent| sent.from == Host::B);
                assert!(
                    of_b.clone()
                        .all(|sent| (sent.local.port(), sent.remote.port()) == (kind(after), after))
                );
            }
        }
    }
}

// [6951:5.6-1, 5.6-2]
/// After a timeout the window has one PMDCS (RFC 9260 §7.2.3), which has no room for a UDP header any more, or has it again.
#[test]
fn the_window_counts_without_the_udp_header() {
    let config = AssociationConfig::default();
    for ips in FAMILIES {
        let mut net = two_kinds(ips, &config);
        translate(&mut net, ips[0], ENCAPSULATION, ENCAPSULATION);
        let (a, b) = connect(&mut net, &config, at(ips[1], ENCAPSULATION));
        translate(&mut net, ips[0], ENCAPSULATION, 0);
        net.send(Host::A, a, Message::zeros(0, 100));
        net.send(Host::B, b, Message::zeros(0, 100));
        net.run_for(Span::from_secs(10));
        assert_eq!(ports_of_b(&net, b), [0, 0]);
        net.filter = Box::new(|_| Fate::Drop);
        net.send(Host::B, b, Message::zeros(0, 100));
        net.run_for(Span::from_millis(1500));
        let path = net.b.association(b).expect("open").paths().next().expect("a path");
        let ip = if path.remote.is_ipv4() { 20 } else { 40 };
        assert_eq!(path.cwnd, 1500 - ip - 12);
    }
}

/// A plain packet with the right tag, which every program with raw sockets on the way can send, does not end the encapsulation.
#[test]
fn a_packet_of_the_other_kind_redirects_nothing() {
    for ips in FAMILIES {
        for (used, other) in [(ENCAPSULATION, 0), (0, ENCAPSULATION)] {
            for config in both() {
                let is_keyed = !config.auth.key.is_empty();
                let mut net = two_kinds(ips, &config);
                let (_, b) = connect(&mut net, &config, at(ips[1], used));
                let unknown = RawChunk::from_bytes(&[0xbf, 0, 0, 4]).expect("well-formed");
                let tag = net.tag_of(Host::B);
                let junk = packet(port(Host::A), port(Host::B), tag, &[Chunk::Unknown(unknown)]);
                let start = net.wire.len();
                // Whoever sends them answers nothing: A would.
                net.filter = Box::new(move |packet| match packet.remote.port() == other {
                    true => Fate::Drop,
                    false => Fate::Deliver,
                });
                for _ in 0..100 {
                    net.send(Host::B, b, Message::zeros(0, 2000));
                    let _ = net.deliver_from(Host::B, meta(at(ips[1], other), at(ips[0], other)), &junk);
                    net.run_for(Span::from_millis(20));
                }
                net.run_for(Span::from_secs(5));
                assert_eq!(ports_of_b(&net, b), [used; 2]);
                assert_eq!(net.contents(Host::A).len(), 100);
                let is_astray = |sent: &&Sent| sent.from == Host::B && sent.remote.port() == other;
                let astray: Vec<_> = net.wire[start..].iter().filter(is_astray).collect();
                assert!(astray.iter().all(|sent| sent.types() == [ChunkType::HEARTBEAT]));
                assert!(astray.len() <= if is_keyed { 0 } else { 100 }, "{}", astray.len());
                let stats = net.b.association(b).expect("open").stats();
                assert_eq!((stats.retransmissions, stats.timeouts), (0, 0));
            }
        }
    }
}

// [6951:3.2-1]
#[test]
fn an_address_of_both_kinds_is_one_address() {
    let config = AssociationConfig {
        dynamic_addresses: true,
        ..AssociationConfig::default()
    };
    for ips in FAMILIES {
        let mut net = two_kinds(ips, &config);
        translate(&mut net, ips[0], 0, 0);
        let (a, _) = connect(&mut net, &config, at(ips[1], 0));
        for (host, chunk) in [(Host::A, ChunkType::INIT), (Host::B, ChunkType::INIT_ACK)] {
            let sent = net.last(host, chunk);
            let Some(Chunk::Init(init) | Chunk::InitAck(init)) = sent.chunks().into_iter().next() else {
                panic!("{chunk:?}");
            };
            let listed = init.parameters.iter().filter_map(Result::ok);
            let listed = listed.filter(|parameter| matches!(parameter, Parameter::Ipv4(_) | Parameter::Ipv6(_)));
            assert_eq!(listed.count(), 0);
        }
        // One of them leaves and comes again: the peer need not be asked.
        for _ in 0..2 {
            let now = net.now;
            net.a
                .remove_local_address(now, a, at(ips[0], ENCAPSULATION))
                .expect("known");
            net.drain(Host::A);
            net.a.add_local_address(now, a, at(ips[0], ENCAPSULATION)).expect("new");
            net.drain(Host::A);
        }
        net.run_for(Span::from_secs(1));
        assert_eq!(net.count(Host::A, ChunkType::ASCONF), 0);
        let changes = net.events_of(Host::A);
        let is_change = |event: &&Event| {
            matches!(
                event,
                Event::LocalAddressAdded { .. } | Event::LocalAddressRemoved { .. }
            )
        };
        assert_eq!(changes.iter().filter(is_change).count(), 4);
        net.send(Host::A, a, Message::zeros(0, 5000));
        net.run_for(Span::from_secs(1));
        assert_eq!(net.contents(Host::B).len(), 1);
    }
}

/// Hosts behind one NAT have one address, and often one SCTP port: an INIT from another UDP port must not end the association of the first host.
/// So a peer that restarts there opens another association, and the old one ends when nothing answers.
#[test]
fn a_peer_that_restarts_at_another_udp_port_opens_another_association() {
    let config = AssociationConfig::default();
    let mut net = Net::with_config(1, &config, 1);
    let own = addr("10.0.0.1:0");
    net.nats = [(own, at("10.0.0.1", 40_000))].into();
    let first = net.connect(&config, 1);
    net.run_for(Span::from_millis(200));
    let old = net.only(Host::B);
    net.send(Host::A, first, Message::zeros(0, 100));
    net.run_for(Span::from_secs(1));
    net.a = endpoint(Host::A, 1, &config, 7);
    net.nats = [(own, at("10.0.0.1", 50_000))].into();
    let second = net.connect(&config, 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::A, second), State::Established);
    let all: Vec<_> = net.b.associations().collect();
    assert_eq!(all.len(), 2);
    assert_eq!(net.state(Host::B, old), State::Established);
    let new = all.into_iter().find(|id| *id != old).expect("the second one");
    for _ in 0..20 {
        net.send(Host::A, second, Message::zeros(0, 3000));
        net.send(Host::B, new, Message::zeros(0, 3000));
        net.run_for(Span::from_secs(60));
    }
    assert_eq!((net.contents(Host::A).len(), net.contents(Host::B).len()), (20, 21));
    assert_eq!(
        net.state(Host::B, old),
        State::Closed,
        "its HEARTBEATs were not answered"
    );
    assert_eq!(net.state(Host::B, new), State::Established);
}

/// The NAT of a host that accepts associations gives it another port.
// [6951:5.1-1]
#[test]
fn the_opener_follows_a_port_that_changes_at_the_other_side() {
    for config in both() {
        let mut net = Net::with_config(1, &config, 1);
        let (own, peer) = (addr("10.0.0.1:0"), addr("10.0.0.2:0"));
        let of_a = EndpointConfig {
            local_port: port(Host::A),
            local_addrs: vec![own],
            listen: true,
            association: config.clone().into(),
            ..EndpointConfig::default()
        };
        net.a = Endpoint::new(of_a, Box::new(Rng::stream(1, "a"))).expect("a valid configuration");
        net.nats = [(own, at("10.0.0.1", 40_000))].into();
        let now = net.now;
        let b = net
            .b
            .connect(now, config.clone(), port(Host::A), &[at("10.0.0.1", 40_000)]);
        let b = b.expect("valid");
        net.drain(Host::B);
        net.run_for(Span::from_millis(200));
        let a = net.only(Host::A);
        net.nats = [(own, at("10.0.0.1", 50_000))].into();
        net.send(Host::A, a, Message::zeros(0, 3000));
        net.send(Host::B, b, Message::zeros(0, 3000));
        net.run_until(Span::from_secs(10), "both messages", |net| {
            net.contents(Host::A).len() == 1 && net.contents(Host::B).len() == 1
        });
        assert_eq!(ports_of_b(&net, b), [peer.port(), 50_000]);
        let failed = |event: &Event| matches!(event, Event::Closed { .. });
        assert!(!net.events_of(Host::B).iter().any(failed));
    }
}
