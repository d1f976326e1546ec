//! The handshake: INIT, INIT ACK, COOKIE ECHO, COOKIE ACK (RFC 9260 §3.3.2, §3.3.3, §5.1, §5.4).

use crate::support::{Fate, Host, Net, addr, addrs};
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssociationConfig, CloseReason, Endpoint, EndpointConfig, Event, Message, SendFailureCause, State,
};
use whimbrel_wire::{Chunk, ChunkType};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

/// Drops the first `count` packets with a chunk of this type.
fn lose(net: &mut Net, chunk_type: ChunkType, mut count: usize) {
    net.filter = Box::new(move |packet| {
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
// [9260:3.3.2-4, 3.3.2-6, 3.3.3-4, 3.3.3-19, 12.3-1, 5-1, 8.5-1]
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
    let tags: Vec<_> = net.wire.iter().map(crate::support::Sent::tag).collect();
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
// [9260:3.3.2-15, 3.3.3-17]
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
            assert!(
                seen.insert(sent.init().initiate_tag),
                "round {round}: a tag was repeated"
            );
            assert!(
                seen.insert(sent.init().initial_tsn.0),
                "round {round}: an initial TSN was repeated"
            );
        }
    }
}

// [9260:5.1-12, 5.1.6-1]
#[test]
fn section_5_1_lost_inits_are_retransmitted_after_1_2_4_seconds_at_most_eight_times() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let start = net.now;
    net.connect(&config(), 1);
    net.run_until(Span::from_secs(1000), "the end after the last attempt", |net| {
        net.close_reason(Host::A).is_some()
    });
    // RTO.Initial 1 s, doubled up to RTO.Max 60 s; Max.Init.Retransmits 8.
    let expected: Vec<u64> = [0, 1, 3, 7, 15, 31, 63, 123, 183].map(|s| s * 1000).into();
    assert_eq!(net.times(Host::A, ChunkType::INIT, start), expected);
    assert_eq!(net.now.since(start), Span::from_secs(243));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
    net.run_for(Span::from_secs(10));
    assert_eq!(net.a.associations().count(), 0);
    assert_eq!(net.a.next_timeout(), None, "no state remains");
}

// [9260:5.1.4-2, 5.1.4-3, 5.1.6-1]
#[test]
fn section_5_1_4_lost_cookie_echos_are_retransmitted_up_to_the_limit() {
    let mut net = Net::new(1);
    lose(&mut net, ChunkType::COOKIE_ECHO, usize::MAX);
    let start = net.now;
    net.connect(&config(), 1);
    net.run_until(Span::from_secs(1000), "the end after the last attempt", |net| {
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
        net.run_until(Span::from_secs(10), "both ends established", is_up);
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
        net.filter = Box::new(move |_| match rng.below(4) {
            0 => Fate::Drop,
            1 => Fate::Duplicate,
            2 => Fate::Delay(Span::from_millis(rng.below(3000))),
            _ => Fate::Deliver,
        });
        net.connect(&config(), 2);
        net.run_until(Span::from_secs(300), &format!("seed {seed}"), is_up);
        net.filter = Box::new(|_| Fate::Deliver);
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
    net.filter = Box::new(|packet| {
        let is_third = packet.remote == addrs(Host::B, 3)[2] || packet.local == addrs(Host::B, 3)[2];
        if is_third { Fate::Deliver } else { Fate::Drop }
    });
    net.connect(&config(), 3);
    net.run_until(Span::from_secs(100), "both ends established", is_up);
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
fn section_8_4_an_endpoint_that_does_not_listen_refuses() {
    let mut net = Net::new(1);
    let now = net.now;
    let id = net
        .b
        .connect(now, config(), 4001, &addrs(Host::A, 1))
        .expect("the association can be opened");
    net.run_for(Span::from_millis(100));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::Refused { cause: None }));
    assert_eq!(net.state(Host::B, id), State::Closed);
    let abort = net.last(Host::A, ChunkType::ABORT);
    assert_eq!(abort.tag(), net.last(Host::B, ChunkType::INIT).init().initiate_tag);
    assert!(!abort.is_reflected());
}

#[test]
fn section_10_the_driver_may_report_that_no_endpoint_listens() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let id = net.connect(&config(), 1);
    let now = net.now;
    net.a.peer_refused(now, id);
    net.run_for(Span::ZERO);
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Refused { cause: None }));
}

// [9260:5.1-15, 5.1-16, 5.1-17]
#[test]
fn section_5_1_an_association_above_the_limit_is_refused() {
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
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Refused { cause: Some(4) }));
    assert_eq!(net.b.associations().count(), 1);
}

// [9260:5.1.1-1, 5.1.1-2, 5.1.1-3]
#[test]
fn section_5_1_1_streams_are_the_lesser_of_requested_and_allowed() {
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
    // Messages for streams that turn out not to exist are reported as failed; the other messages are sent.
    let mut net = Net::with_config(1, &theirs, 1);
    let id = net.connect(&ours, 1);
    for stream in [30, 29, 99] {
        net.send(Host::A, id, Message::new(stream, vec![stream as u8]));
    }
    net.run_for(Span::from_secs(1));
    let events = net.events_of(Host::A).into_iter();
    let failed = events.filter_map(|event| match event {
        Event::SendFailed(failure) => Some((failure.stream, failure.sent, failure.cause)),
        _ => None,
    });
    let none = SendFailureCause::NoSuchStream;
    assert_eq!(failed.collect::<Vec<_>>(), [(30, false, none), (99, false, none)]);
    assert_eq!(net.contents(Host::B), [[29]]);
    // RFC 9260 §3.3.3: INIT ACK requests no more streams than the INIT allowed.
    assert_eq!(net.last(Host::B, ChunkType::INIT_ACK).init().outbound_streams, 7);
}

/// Returns the packets that A has sent: time in milliseconds, and chunk types.
fn flow(net: &Net, start: Time) -> Vec<(u64, Vec<ChunkType>)> {
    let of_a = net.wire.iter().filter(|sent| sent.from == Host::A);
    of_a.map(|sent| (sent.at.since(start).as_millis(), sent.types()))
        .collect()
}

// [9260:5.1-7, 5.1-18, 3.3.11-1]
#[test]
fn section_5_1_waiting_data_is_bundled_with_the_cookie_echo() {
    let mut net = Net::new(1);
    let start = net.now;
    let id = net.connect(&config(), 1);
    for number in 0..4 {
        net.send(Host::A, id, Message::new(0, vec![number; 600]));
    }
    net.run_for(Span::from_secs(1));
    let (echo, data) = (ChunkType::COOKIE_ECHO, ChunkType::DATA);
    // As many messages as fit into the packet, and no further packet before COOKIE ACK; then the other messages share one packet.
    let sent = flow(&net, start);
    assert_eq!(
        sent[1..],
        [(20, vec![echo, data, data]), (40, vec![data, data])],
        "{sent:?}"
    );
    // The data is acknowledged at once.
    let answer = net.last(Host::B, ChunkType::COOKIE_ACK);
    assert_eq!(answer.types(), [ChunkType::COOKIE_ACK, ChunkType::SACK]);
    assert_eq!(
        net.contents(Host::B),
        (0..4).map(|number| vec![number; 600]).collect::<Vec<_>>()
    );
    let association = net.a.association(id).expect("established");
    assert_eq!(
        (association.stats().timeouts, association.stats().retransmissions),
        (0, 0)
    );
    assert_eq!(association.buffered_send(), 0);
}

/// The COOKIE ECHO is lost with its data: T1-cookie retransmits the COOKIE ECHO, and the data follows the COOKIE ACK. This is one loss, not
/// two.
// [9260:5.1.4-3]
#[test]
fn section_5_1_data_lost_with_a_cookie_echo_follows_the_cookie_ack() {
    let mut net = Net::new(1);
    let start = net.now;
    let id = net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ECHO, 1);
    net.send(Host::A, id, Message::new(0, &b"early"[..]));
    net.run_for(Span::from_millis(1500));
    let sent = flow(&net, start);
    let (echo, data) = (ChunkType::COOKIE_ECHO, ChunkType::DATA);
    assert_eq!(
        sent[1..],
        [(20, vec![echo, data]), (1020, vec![echo]), (1040, vec![data])]
    );
    assert_eq!(net.contents(Host::B), [b"early"]);
    let association = net.a.association(id).expect("established");
    assert_eq!(
        (association.stats().timeouts, association.stats().retransmissions),
        (0, 1)
    );
    let path = association.paths().next().expect("a path");
    assert_eq!((path.cwnd, path.flight, path.errors), (4404, 0, 0));
}

/// Data queued only after the first COOKIE ECHO waits for COOKIE ACK.
// [9260:6-1]
#[test]
fn section_6_data_is_not_bundled_with_a_repeated_cookie_echo() {
    let mut net = Net::new(1);
    let start = net.now;
    let id = net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ECHO, 1);
    net.run_for(Span::from_millis(100));
    net.send(Host::A, id, Message::new(0, &b"early"[..]));
    net.run_for(Span::from_millis(1400));
    let (echo, data) = (ChunkType::COOKIE_ECHO, ChunkType::DATA);
    assert_eq!(
        flow(&net, start)[1..],
        [(20, vec![echo]), (1020, vec![echo]), (1040, vec![data])]
    );
    assert_eq!(net.contents(Host::B), [b"early"]);
}

/// Only the reply is lost: the data has arrived, and is not delivered twice.
#[test]
fn section_5_1_data_bundled_with_a_cookie_echo_is_delivered_once() {
    let mut net = Net::new(1);
    let id = net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ACK, 1);
    net.send(Host::A, id, Message::new(0, &b"early"[..]));
    net.run_for(Span::from_millis(500));
    assert_eq!(net.contents(Host::B), [b"early"]);
    assert_eq!(net.state(Host::A, id), State::CookieEchoed);
    net.send(Host::A, id, Message::new(0, &b"later"[..]));
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B), [&b"early"[..], b"later"]);
    let association = net.a.association(id).expect("established");
    assert_eq!((association.stats().timeouts, association.buffered_send()), (0, 0));
}

/// The peer accepts the cookie but not the data: from COOKIE ACK on, T3-rtx covers the data.
#[test]
fn section_5_1_data_not_accepted_with_the_cookie_times_out() {
    let mut net = Net::new(1);
    let id = net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ECHO, 1);
    net.send(Host::A, id, Message::new(0, &b"early"[..]));
    net.run_for(Span::from_millis(30));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    let bare = crate::support::packet(4001, 4002, echo.tag(), &echo.chunks()[..1]);
    net.deliver_from(Host::B, echo.meta(), &bare).expect("accepted");
    net.run_for(Span::from_millis(900));
    assert_eq!(net.state(Host::A, id), State::Established);
    assert_eq!(net.contents(Host::B), [[0; 0]; 0]);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B), [b"early"]);
    assert_eq!(net.a.association(id).expect("established").stats().timeouts, 1);
}

/// T1-cookie covers data bundled with COOKIE ECHO: neither T3-rtx nor a tail-loss probe declares it lost while the reply is late.
// [9260:5.1.4-3]
#[test]
fn section_5_1_no_timer_of_its_own_runs_for_early_data() {
    let config = AssociationConfig {
        recovery: RecoveryChanges {
            tail_loss_probe: Some(true),
            ..RecoveryChanges::default()
        },
        ..config()
    };
    let mut net = Net::new(1);
    let id = net.connect(&config, 1);
    net.filter = Box::new(|packet| match () {
        () if packet.has(ChunkType::COOKIE_ACK) => Fate::Delay(Span::from_millis(500)),
        () => Fate::Deliver,
    });
    net.send(Host::A, id, Message::new(0, &b"early"[..]));
    net.run_for(Span::from_secs(2));
    assert_eq!(net.contents(Host::B), [b"early"]);
    let stats = net.a.association(id).expect("established").stats();
    assert_eq!((stats.probes, stats.timeouts, stats.retransmissions), (0, 0, 0));
}

/// DATA after COOKIE ACK in the same packet is accepted: the association is established before the DATA chunk is processed.
#[test]
fn section_5_1_data_may_be_bundled_with_the_cookie_ack() {
    let mut net = Net::new(1);
    let id = net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ACK, usize::MAX);
    net.run_for(Span::from_millis(50));
    let ack = net.last(Host::B, ChunkType::COOKIE_ACK);
    let tsn = net.last(Host::B, ChunkType::INIT_ACK).init().initial_tsn.0;
    let bytes = crate::support::extended(&ack.bytes, &[Chunk::Data(crate::support::data(tsn, 0, b"welcome"))]);
    net.deliver_from(Host::A, ack.meta(), &bytes).expect("accepted");
    assert_eq!(net.state(Host::A, id), State::Established);
    assert_eq!(net.contents(Host::A), [b"welcome"]);
}

/// Every scheme and accounting handles data bundled with COOKIE ECHO.
#[test]
fn section_5_1_early_data_with_every_scheme() {
    for scheme in whimbrel_control::Scheme::all() {
        let config = AssociationConfig { scheme, ..config() };
        if config.parts().discriminator.asks_for_truth() {
            continue;
        }
        for lost in [None, Some(ChunkType::COOKIE_ECHO), Some(ChunkType::COOKIE_ACK)] {
            let mut net = Net::with_config(2, &config, 1);
            let id = net.connect(&config, 2);
            if let Some(lost) = lost {
                lose(&mut net, lost, 1);
            }
            for number in 0..20 {
                net.send(Host::A, id, Message::new(0, vec![number; 1000]));
            }
            net.run_for(Span::from_secs(20));
            let what = format!("{} with {lost:?} lost", scheme.name());
            let all: Vec<_> = (0..20).map(|number| vec![number; 1000]).collect();
            assert_eq!(net.contents(Host::B), all, "{what}");
            let association = net.a.association(id).expect("established");
            assert_eq!(association.buffered_send(), 0, "{what}");
            assert_eq!(association.paths().map(|path| path.flight).sum::<u64>(), 0, "{what}");
            let echoes = net.count(Host::A, ChunkType::COOKIE_ECHO);
            assert_eq!(echoes, 1 + usize::from(lost.is_some()), "{what}");
        }
    }
}
