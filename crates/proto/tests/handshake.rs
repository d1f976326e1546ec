//! How associations begin: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 §3.3.2, §3.3.3, §5.1, §5.4).

mod support;

use support::{Fate, Host, Net, addr, addrs};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssociationConfig, CloseReason, Endpoint, EndpointConfig, Event, Message, State};
use whimbrel_wire::ChunkType;

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

/// Drops the first `count` packets with such a chunk.
fn lose(net: &mut Net, chunk_type: ChunkType, mut count: usize) {
    net.knob = Box::new(move |packet| {
        if packet.has(chunk_type) && count > 0 {
            count -= 1;
            return Fate::Drop;
        }
        Fate::Deliver
    });
}

fn is_up(net: &mut Net) -> bool {
    let states = [Host::A, Host::B].map(|host| {
        let ids: Vec<_> = net.host(host).associations().collect();
        ids.first().map_or(State::Closed, |&id| net.state(host, id))
    });
    states == [State::Established; 2]
}

// [9260:5.1-1, 5.1-3, 5.1-4, 5.1-5, 5.1-9, 5.1-10, 5.1-11, 5.1.1-1, 5.1.2-7, 5.1.4-1, 8.5.1-1, 8.5.1-12, 3.1-3, 3.1-4]
#[test]
fn section_5_1_four_packets_make_an_association() {
    let mut net = Net::new(1);
    let start = net.now;
    let id = net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    let flow: Vec<_> = net
        .wire
        .iter()
        .map(|sent| (sent.at.since(start).as_millis(), sent.from, sent.types()))
        .collect();
    assert_eq!(
        flow,
        [
            (0, Host::A, vec![ChunkType::INIT]),
            (10, Host::B, vec![ChunkType::INIT_ACK]),
            (20, Host::A, vec![ChunkType::COOKIE_ECHO]),
            (30, Host::B, vec![ChunkType::COOKIE_ACK]),
        ]
    );
    let (ours, theirs) = (net.wire[0].init(), net.wire[1].init());
    assert_ne!(ours.initiate_tag, 0);
    let tags: Vec<_> = net.wire.iter().map(support::Sent::tag).collect();
    assert_eq!(tags, [0, ours.initiate_tag, theirs.initiate_tag, ours.initiate_tag]);
    assert_eq!(net.wire[1].remote, net.wire[0].local);
    assert!(theirs.parameters.state_cookie().is_some());
    let connected = |accepted| Event::Connected {
        accepted,
        outbound_streams: 16,
        inbound_streams: 16,
    };
    assert_eq!(net.events_of(Host::A), [connected(false)]);
    assert_eq!(net.events_of(Host::B), [connected(true)]);
    assert_eq!(net.state(Host::A, id), State::Established);
}

// [9260:5.1-2, 5.3.1-1, 5.3.1-3, 5.2.2-10]
#[test]
fn section_5_3_1_tags_and_tsns_are_new_for_each_association() {
    let mut net = Net::new(1);
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..5 {
        let id = net.connect(&config(), 1);
        net.run_for(Span::from_millis(100));
        let now = net.now;
        net.a.shutdown(now, id);
        net.run_for(Span::from_secs(1));
        for chunk_type in [ChunkType::INIT, ChunkType::INIT_ACK] {
            let host = if chunk_type == ChunkType::INIT {
                Host::A
            } else {
                Host::B
            };
            let sent = net.last(host, chunk_type);
            assert!(seen.insert(sent.init().initiate_tag), "round {round}: a tag came twice");
            assert!(
                seen.insert(sent.init().initial_tsn.0),
                "round {round}: an initial TSN came twice"
            );
        }
    }
}

// [9260:5.1-12, 5.1.6-1]
#[test]
fn section_5_1_lost_inits_are_repeated_after_1_2_4_seconds_and_given_up_after_eight() {
    let mut net = Net::new(1);
    net.knob = Box::new(|_| Fate::Drop);
    let start = net.now;
    net.connect(&config(), 1);
    net.run_until(Span::from_secs(1000), "giving up", |net| {
        net.close_reason(Host::A).is_some()
    });
    // RTO.Initial 1 s, doubled up to RTO.Max 60 s; Max.Init.Retransmits 8.
    let expected: Vec<u64> = [0, 1, 3, 7, 15, 31, 63, 123, 183].map(|s| s * 1000).into();
    assert_eq!(net.times(Host::A, ChunkType::INIT, start), expected);
    assert_eq!(net.now.since(start), Span::from_secs(243));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
    net.run_for(Span::from_secs(10));
    assert_eq!(net.a.associations().count(), 0);
    assert_eq!(net.a.next_timeout(), None, "nothing is left behind");
}

// [9260:5.1.4-2, 5.1.4-3, 5.1.6-1]
#[test]
fn section_5_1_4_lost_cookie_echos_are_repeated_and_given_up() {
    let mut net = Net::new(1);
    lose(&mut net, ChunkType::COOKIE_ECHO, usize::MAX);
    let start = net.now;
    net.connect(&config(), 1);
    net.run_until(Span::from_secs(1000), "giving up", |net| {
        net.close_reason(Host::A).is_some()
    });
    let expected: Vec<u64> = [0, 1, 3, 7, 15, 31, 63, 123, 183].map(|s| s * 1000 + 20).into();
    assert_eq!(net.times(Host::A, ChunkType::COOKIE_ECHO, start), expected);
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
    assert_eq!(net.b.associations().count(), 0);
    let echoes = net.sent(Host::A, ChunkType::COOKIE_ECHO);
    assert!(echoes.iter().all(|sent| sent.bytes == echoes[0].bytes));
}

#[test]
fn section_5_1_any_one_lost_packet_delays_the_handshake_by_one_timeout() {
    for (chunk_type, accepted_at) in [
        (ChunkType::INIT, 1040),
        (ChunkType::INIT_ACK, 1040),
        (ChunkType::COOKIE_ECHO, 1040),
        (ChunkType::COOKIE_ACK, 1040),
    ] {
        let mut net = Net::new(1);
        lose(&mut net, chunk_type, 1);
        let start = net.now;
        net.connect(&config(), 1);
        net.run_until(Span::from_secs(10), "both ends up", is_up);
        assert_eq!(net.now.since(start).as_millis(), accepted_at, "{chunk_type:?}");
        net.run_for(Span::from_secs(10));
        assert_eq!((net.a.associations().count(), net.b.associations().count()), (1, 1));
    }
}

#[test]
fn section_5_1_duplicated_and_delayed_handshake_packets_make_one_association() {
    for seed in 0..200 {
        let mut rng = Rng::stream(seed, "handshake");
        let mut net = Net::with_config(2, &config(), seed);
        net.knob = Box::new(move |_| match rng.below(4) {
            0 => Fate::Drop,
            1 => Fate::Duplicate,
            2 => Fate::Delay(Span::from_millis(rng.below(3000))),
            _ => Fate::Deliver,
        });
        net.connect(&config(), 2);
        net.run_until(Span::from_secs(300), &format!("seed {seed}"), is_up);
        net.knob = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(10));
        let (a, b) = (net.only(Host::A), net.only(Host::B));
        net.send(Host::A, a, Message::new(0, &b"there"[..]));
        net.send(Host::B, b, Message::new(0, &b"back"[..]));
        net.run_for(Span::from_secs(10));
        assert_eq!(
            (net.contents(Host::B), net.contents(Host::A)),
            (vec![b"there".to_vec()], vec![b"back".to_vec()])
        );
    }
}

// [9260:5.1-13, 5.1-14]
#[test]
fn section_5_1_repeated_inits_and_cookie_echos_try_every_address() {
    let mut net = Net::new(3);
    net.knob = Box::new(|packet| {
        let is_third = packet.remote == addrs(Host::B, 3)[2] || packet.local == addrs(Host::B, 3)[2];
        if is_third { Fate::Deliver } else { Fate::Drop }
    });
    net.connect(&config(), 3);
    net.run_until(Span::from_secs(100), "both ends up", is_up);
    let remotes: Vec<_> = net
        .sent(Host::A, ChunkType::INIT)
        .iter()
        .map(|sent| sent.remote)
        .collect();
    assert_eq!(remotes, addrs(Host::B, 3));
    assert_eq!(net.last(Host::A, ChunkType::COOKIE_ECHO).remote, addrs(Host::B, 3)[2]);
}

// [9260:8.4-3, 8.4-4, 5.1-15, 5.1-17]
#[test]
fn section_8_4_whoever_does_not_listen_refuses() {
    let mut net = Net::new(1);
    let now = net.now;
    let id = net
        .b
        .connect(now, config(), 4001, &addrs(Host::A, 1))
        .expect("can be begun");
    net.run_for(Span::from_millis(100));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::Refused { cause: None }));
    assert_eq!(net.state(Host::B, id), State::Closed);
    let abort = net.last(Host::A, ChunkType::ABORT);
    assert_eq!(abort.tag(), net.last(Host::B, ChunkType::INIT).init().initiate_tag);
    assert!(!abort.is_reflected());
}

#[test]
fn section_10_the_driver_may_say_that_nobody_is_there() {
    let mut net = Net::new(1);
    net.knob = Box::new(|_| Fate::Drop);
    let id = net.connect(&config(), 1);
    let now = net.now;
    net.a.peer_refused(now, id);
    net.run_for(Span::ZERO);
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Refused { cause: None }));
}

// [9260:5.1-15, 5.1-16, 5.1-17]
#[test]
fn section_5_1_no_room_for_another_association() {
    let mut net = Net::new(1);
    let full = EndpointConfig {
        local_port: 4002,
        local_addrs: addrs(Host::B, 1),
        listen: true,
        max_associations: 1,
        ..EndpointConfig::default()
    };
    net.b = Endpoint::new(full, Box::new(Rng::stream(1, "b"))).expect("valid");
    net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    let third = EndpointConfig {
        local_port: 4003,
        local_addrs: vec![addr("10.0.0.1:0")],
        ..EndpointConfig::default()
    };
    net.a = Endpoint::new(third, Box::new(Rng::stream(2, "a"))).expect("valid");
    net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [4], "out of resource");
    let reason = CloseReason::AbortedByPeer {
        cause: Some(4),
        reason: String::new(),
    };
    assert_eq!(net.close_reason(Host::A), Some(reason));
    assert_eq!(net.b.associations().count(), 1);
}

// [9260:5.1.1-2, 5.1.1-3, 5.1.1-4]
#[test]
fn section_5_1_1_streams_are_the_lesser_of_wanted_and_allowed() {
    let ours = AssociationConfig {
        outbound_streams: 100,
        max_inbound_streams: 7,
        ..config()
    };
    let theirs = AssociationConfig {
        outbound_streams: 50,
        max_inbound_streams: 30,
        ..config()
    };
    let mut net = Net::with_config(1, &theirs, 1);
    let a = net.connect(&ours, 1);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    let numbers = |endpoint: &Endpoint, id| endpoint.association(id).map(|a| a.outbound_streams());
    assert_eq!((numbers(&net.a, a), numbers(&net.b, b)), (Some(30), Some(7)));
    let now = net.now;
    net.send(Host::A, a, Message::zeros(29, 1));
    assert!(net.a.send(now, a, Message::zeros(30, 1)).is_err());
    // RFC 9260 §3.3.3: INIT ACK asks for no more streams than INIT allowed.
    assert_eq!(net.last(Host::B, ChunkType::INIT_ACK).init().outbound_streams, 7);
}

// [9260:5.1-7]
#[test]
fn section_5_1_data_waits_for_the_cookie_ack() {
    let mut net = Net::new(1);
    let start = net.now;
    let id = net.connect(&config(), 1);
    net.send(Host::A, id, Message::new(0, &b"patience"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.times(Host::A, ChunkType::DATA, start), [40]);
    // The first DATA is acknowledged at once.
    assert_eq!(net.times(Host::B, ChunkType::SACK, start), [50]);
}
