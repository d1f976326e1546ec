//! INIT, INIT ACK, COOKIE ECHO and COOKIE ACK during an existing association: collision, restart, duplicates (RFC 9260 §5.2, every row of
//! Table 12).

use crate::support::{Fate, Host, Net, addr, addrs, data, init, meta, packet, parameters};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, Message, State,
};
use whimbrel_wire::{Cause, Chunk, ChunkType, Init, Parameter};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

/// Two hosts that both accept and open associations.
fn equals(seed: u64, paths: usize) -> Net {
    let mut net = Net::with_config(paths, &config(), seed);
    net.a = listening(Host::A, paths, seed);
    net
}

fn listening(host: Host, paths: usize, seed: u64) -> Endpoint {
    let config = EndpointConfig {
        local_port: crate::support::port(host),
        local_addrs: addrs(host, paths),
        listen: true,
        ..EndpointConfig::default()
    };
    Endpoint::new(config, Box::new(Rng::stream(seed, &format!("{host:?}")))).expect("valid")
}

fn connect(net: &mut Net, from: Host, paths: usize) -> AssocId {
    let (now, port) = (net.now, crate::support::port(from.other()));
    let id = net.host(from).connect(now, config(), port, &addrs(from.other(), paths));
    let id = id.expect("the association can be opened");
    net.drain(from);
    id
}

/// Checks that both ends have one association, with each other, which carries data in both directions.
fn assert_one_association(net: &mut Net, what: &str) {
    let (a, b) = (net.only(Host::A), net.only(Host::B));
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, b)),
        (State::Established, State::Established),
        "{what}"
    );
    net.send(Host::A, a, Message::new(1, what.as_bytes().to_vec()));
    net.send(Host::B, b, Message::new(2, what.as_bytes().to_vec()));
    net.run_for(Span::from_secs(2));
    for host in [Host::A, Host::B] {
        assert_eq!(
            net.contents(host).last().map(Vec::as_slice),
            Some(what.as_bytes()),
            "{host:?} {what}"
        );
        let connected = net
            .events_of(host)
            .iter()
            .filter(|event| matches!(event, Event::Connected { .. }))
            .count();
        assert_eq!(connected, 1, "{host:?} {what}");
        assert!(!net.events_of(host).contains(&Event::Restarted), "{host:?} {what}");
    }
}

// [9260:5.2.1-1, 5.2.1-6, 5.2.4-7, 5.2.4-10]
#[test]
fn section_5_2_1_both_ends_may_connect_at_the_same_time() {
    for later in 0..45 {
        let mut net = equals(later, 1);
        connect(&mut net, Host::A, 1);
        net.run_for(Span::from_millis(later));
        let now = net.now;
        let attempt = net.b.connect(now, config(), 4001, &addrs(Host::A, 1));
        // After A's COOKIE ECHO has arrived, an association exists already.
        assert_eq!(attempt.is_ok(), later < 30, "{later} ms later");
        net.run_for(Span::from_secs(3));
        assert_one_association(&mut net, &format!("{later} ms later"));
    }
}

#[test]
fn section_5_2_1_collisions_in_networks_that_lose_and_reorder_create_one_association() {
    for seed in 0..500 {
        let mut rng = Rng::stream(seed, "collision");
        let paths = 1 + rng.below(2) as usize;
        let mut net = equals(seed, paths);
        let wait = Span::from_millis(rng.below(60));
        net.filter = Box::new(move |_| match rng.below(8) {
            0 | 1 => Fate::Drop,
            2 => Fate::Duplicate,
            3 => Fate::Delay(Span::from_millis(rng.below(2500))),
            _ => Fate::Deliver,
        });
        let words = |host: Host| (0..5).map(move |number| vec![number; if host == Host::A { 700 } else { 300 }]);
        let speak = |net: &mut Net, host: Host, id: AssocId| {
            words(host).for_each(|word| net.send(host, id, Message::new(0, word)));
        };
        let id = connect(&mut net, Host::A, paths);
        speak(&mut net, Host::A, id);
        net.run_for(wait);
        let now = net.now;
        let opened = net.b.connect(now, config(), 4001, &addrs(Host::A, paths));
        // Otherwise A's COOKIE ECHO has arrived before.
        let b = opened.unwrap_or_else(|_| net.only(Host::B));
        speak(&mut net, Host::B, b);
        net.run_until(Span::from_secs(600), &format!("seed {seed}: both ends up"), |net| {
            let both = [Host::A, Host::B].map(|host| {
                let ids: Vec<_> = net.host(host).associations().collect();
                ids.len() == 1 && net.state(host, ids[0]) == State::Established
            });
            both == [true; 2]
        });
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(70));
        for host in [Host::A, Host::B] {
            let received = net.contents(host.other());
            assert_eq!(received, words(host).collect::<Vec<_>>(), "seed {seed}: from {host:?}");
        }
        net.messages.clear();
        assert_one_association(&mut net, &format!("seed {seed}"));
    }
}

// [9260:5.2.1-1, 5.2.1-2, 5.2.1-5, 5.2.1-10, 5.2.1-11]
#[test]
fn section_5_2_1_an_init_in_cookie_wait_is_answered_with_the_values_of_the_own_init() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let start = net.now;
    let id = net.connect(&config(), 1);
    net.run_for(Span::from_millis(500));
    net.forge(Host::A, 0, &[Chunk::Init(init(77, &[]))]).expect("answered");
    let (own, answer) = (
        net.last(Host::A, ChunkType::INIT),
        net.last(Host::A, ChunkType::INIT_ACK),
    );
    assert_eq!(answer.tag(), 77);
    let (own, answer) = (own.init(), answer.init());
    assert_eq!(
        (answer.initiate_tag, answer.initial_tsn),
        (own.initiate_tag, own.initial_tsn)
    );
    assert_eq!(answer.inbound_streams, own.inbound_streams);
    assert!(answer.parameters.state_cookie().is_some());
    assert_eq!(net.state(Host::A, id), State::CookieWait);
    net.run_for(Span::from_secs(4));
    assert_eq!(
        net.times(Host::A, ChunkType::INIT, start),
        [0, 1000, 3000],
        "T1 is still running"
    );
}

// [9260:5.2.1-2, 5.2.1-4, 5.2.1-5]
#[test]
fn section_5_2_1_in_cookie_wait_the_answer_goes_to_the_source_of_the_init() {
    // The user gave both addresses of B. The INIT comes from the second one and lists it alone, or both.
    let both = parameters(&[
        Parameter::Ipv4([10, 0, 1, 2].into()),
        Parameter::Ipv4([10, 0, 0, 2].into()),
    ]);
    for list in [&[][..], &both] {
        let mut net = Net::new(2);
        net.filter = Box::new(|_| Fate::Drop);
        net.connect(&config(), 2);
        net.drain(Host::A);
        let bytes = packet(4002, 4001, 0, &[Chunk::Init(init(77, list))]);
        let (local, source) = (addrs(Host::A, 2)[1], addrs(Host::B, 2)[1]);
        net.deliver_from(Host::A, meta(local, source), &bytes)
            .expect("answered");
        let answer = net.last(Host::A, ChunkType::INIT_ACK);
        assert_eq!((answer.local, answer.remote), (local, source));
    }
}

// [9260:5.2.1-3]
#[test]
fn section_5_2_1_in_cookie_wait_only_addresses_from_the_user_are_answered() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    net.connect(&config(), 1);
    net.drain(Host::A);
    let list = parameters(&[Parameter::Ipv4([10, 0, 0, 2].into())]);
    let bytes = packet(4002, 4001, 0, &[Chunk::Init(init(77, &list))]);
    let before = net.wire.len();
    let result = net.deliver_from(Host::A, meta(addr("10.0.0.1:0"), addr("10.0.9.9:0")), &bytes);
    assert_eq!((result, net.wire.len()), (Err(Discard::Unexpected), before));
}

/// A in COOKIE-ECHOED, whose COOKIE ECHOs are lost.
fn cookie_echoed() -> (Net, AssocId) {
    let mut net = Net::new(1);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let id = net.connect(&config(), 1);
    net.run_for(Span::from_millis(30));
    assert_eq!(net.state(Host::A, id), State::CookieEchoed);
    (net, id)
}

// [9260:5.2.1-6, 5.2.1-10, 5.2.1-11]
#[test]
fn section_5_2_1_an_init_in_cookie_echoed_is_answered_likewise() {
    let (mut net, id) = cookie_echoed();
    net.forge(Host::A, 0, &[Chunk::Init(init(77, &[]))]).expect("answered");
    let (own, answer) = (
        net.last(Host::A, ChunkType::INIT),
        net.last(Host::A, ChunkType::INIT_ACK),
    );
    assert_eq!(answer.tag(), 77);
    assert_eq!(answer.init().initiate_tag, own.init().initiate_tag);
    assert_eq!(answer.init().initial_tsn, own.init().initial_tsn);
    assert_eq!(net.state(Host::A, id), State::CookieEchoed);
    // The cookie creates an association with the last tag.
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    net.forge(
        Host::A,
        own.init().initiate_tag,
        &[Chunk::CookieEcho { cookie: &cookie }],
    )
    .expect("accepted");
    assert_eq!(net.state(Host::A, id), State::Established);
    assert_eq!(net.last(Host::A, ChunkType::COOKIE_ACK).tag(), 77);
}

// [9260:5.2.1-7, 5.2.1-8, 5.2.1-9]
#[test]
fn section_5_2_1_an_init_in_cookie_echoed_must_not_add_addresses() {
    let (mut net, id) = cookie_echoed();
    let list = parameters(&[Parameter::Ipv4([10, 0, 7, 7].into())]);
    let result = net.forge(Host::A, 0, &[Chunk::Init(init(77, &list))]);
    assert_eq!(result, Err(Discard::InvalidChunk));
    assert_names_new_address(&net, Host::A, [10, 0, 7, 7]);
    assert_eq!(net.state(Host::A, id), State::CookieEchoed);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(2));
    assert_eq!(net.state(Host::A, id), State::Established, "the handshake continued");
}

/// Returns A in COOKIE-ECHOED with `paths` paths; its COOKIE ECHO and the data in it are lost. The peer's INIT arrives on path `on` and
/// lists no other address; its COOKIE ECHO follows. All other packets are dropped.
fn collision_with_early_data(paths: usize, on: usize, a_rwnd: u32) -> (Net, AssocId) {
    let mut net = Net::new(paths);
    net.filter = Box::new(|packet| match () {
        () if packet.has(ChunkType::COOKIE_ECHO) || packet.bytes[4..8] == [0, 0, 0, 77] => Fate::Drop,
        () => Fate::Deliver,
    });
    let id = net.connect(&config(), paths);
    net.send(Host::A, id, Message::new(0, vec![1; 1000]));
    net.run_for(Span::from_millis(30));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(echo.types(), [ChunkType::COOKIE_ECHO, ChunkType::DATA]);
    assert_eq!(echo.remote, addrs(Host::B, 1)[0]);
    let from = meta(addrs(Host::A, paths)[on], addrs(Host::B, paths)[on]);
    let theirs = Init {
        a_rwnd,
        ..init(77, &[])
    };
    let bytes = packet(4002, 4001, 0, &[Chunk::Init(theirs)]);
    net.deliver_from(Host::A, from, &bytes).expect("answered");
    let answer = net.last(Host::A, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let tag = answer.init().initiate_tag;
    let bytes = packet(4002, 4001, tag, &[Chunk::CookieEcho { cookie: &cookie }]);
    net.deliver_from(Host::A, from, &bytes).expect("accepted");
    assert_eq!(net.state(Host::A, id), State::Established);
    (net, id)
}

/// Data sent with COOKIE ECHO counts in the peer's window, whichever of both handshakes creates the association.
#[test]
fn section_5_2_1_early_data_counts_in_the_window_of_the_other_handshake() {
    let (mut net, id) = collision_with_early_data(1, 0, 1500);
    assert_eq!(net.a.association(id).expect("established").peer_rwnd(), 500);
    net.send(Host::A, id, Message::new(0, vec![2; 1000]));
    net.run_for(Span::from_millis(500));
    assert_eq!(net.sent(Host::A, ChunkType::DATA).len(), 1, "there is no room for more");
}

/// The peer has only one of the addresses that the user specified: data sent to the other one with COOKIE ECHO is retransmitted there at
/// once.
// [9260:5.1.2-1]
#[test]
fn section_5_2_1_early_data_is_retransmitted_if_the_peer_lacks_its_address() {
    let (mut net, id) = collision_with_early_data(2, 1, 65_536);
    net.run_for(Span::from_millis(500));
    let paths: Vec<_> = net.a.association(id).expect("established").paths().collect();
    assert_eq!(
        paths.iter().map(|path| path.remote).collect::<Vec<_>>(),
        addrs(Host::B, 2)[1..]
    );
    let again = net.last(Host::A, ChunkType::DATA);
    assert_eq!((again.remote, again.tag()), (addrs(Host::B, 2)[1], 77));
    assert_eq!(paths[0].flight, 1016, "in flight on its new path");
    assert_eq!(net.a.association(id).expect("established").stats().timeouts, 0);
}

/// Checks that the last ABORT has error cause 11 with the new address.
fn assert_names_new_address(net: &Net, host: Host, ip: [u8; 4]) {
    let abort = net.last(host, ChunkType::ABORT);
    assert_eq!(
        (abort.tag(), abort.is_reflected(), abort.causes()),
        (77, false, vec![11])
    );
    let Chunk::Abort { causes, .. } = abort.chunks()[0] else {
        panic!("not an ABORT")
    };
    let Some(Ok(Cause::RestartWithNewAddresses(list))) = causes.iter().next() else {
        panic!("no list")
    };
    assert_eq!(list.iter().collect::<Vec<_>>(), [Ok(Parameter::Ipv4(ip.into()))]);
}

// [9260:5.2.2-1, 5.2.2-6, 5.2.2-7, 5.2.2-8, 5.2.2-9, 5.3.1-2]
#[test]
fn section_5_2_2_an_init_in_established_is_answered_with_a_new_tag_and_changes_nothing() {
    let (mut net, a, b) = Net::established(1, &config());
    let first = net.last(Host::B, ChunkType::INIT_ACK);
    net.forge(Host::B, 0, &[Chunk::Init(init(77, &[]))]).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    assert_eq!(answer.tag(), 77);
    assert_ne!(answer.init().initiate_tag, first.init().initiate_tag);
    assert_ne!(answer.init().initiate_tag, 0);
    assert_eq!(answer.init().inbound_streams, first.init().inbound_streams);
    assert_eq!(net.state(Host::B, b), State::Established);
    net.send(Host::A, a, Message::new(0, &b"as before"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B), [b"as before"]);
}

// [9260:5.2.2-2, 5.2.2-3, 5.2.2-4, 5.2.2-9, 5.1.2-6]
#[test]
fn section_5_2_2_an_init_with_new_addresses_is_refused_without_effect() {
    let (mut net, a, b) = Net::established(2, &config());
    let list = parameters(&[
        Parameter::Ipv4([10, 0, 1, 1].into()),
        Parameter::Ipv4([10, 0, 7, 7].into()),
    ]);
    assert_eq!(
        net.forge(Host::B, 0, &[Chunk::Init(init(77, &list))]),
        Err(Discard::InvalidChunk)
    );
    assert_names_new_address(&net, Host::B, [10, 0, 7, 7]);
    // The INIT also belongs to the association if only a listed address does; then its source is new.
    let bytes = packet(4001, 4002, 0, &[Chunk::Init(init(77, &list[..8]))]);
    let from = meta(addrs(Host::B, 1)[0], addr("10.0.7.8:0"));
    assert_eq!(net.deliver_from(Host::B, from, &bytes), Err(Discard::InvalidChunk));
    assert_names_new_address(&net, Host::B, [10, 0, 7, 8]);
    assert_eq!(net.state(Host::B, b), State::Established);
    net.send(Host::A, a, Message::new(0, &b"as before"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B), [b"as before"]);
}

/// A peer with IPv6 lists the same addresses as before when it restarts. This end has IPv4 only, and no path to the others.
#[test]
fn section_5_2_2_addresses_that_cannot_be_reached_are_not_new() {
    let (mut net, _, b) = Net::established(1, &config());
    let list = parameters(&[
        Parameter::Ipv4([10, 0, 0, 1].into()),
        Parameter::Ipv6([0xfd00, 0, 0, 0, 0, 0, 0, 1].into()),
    ]);
    net.forge(Host::B, 0, &[Chunk::Init(init(77, &list))])
        .expect("answered");
    assert_eq!(net.last(Host::B, ChunkType::INIT_ACK).tag(), 77);
    assert_eq!(net.state(Host::B, b), State::Established);
}

// [9260:5.2.3-1]
#[test]
fn section_5_2_3_an_unexpected_init_ack_is_dropped() {
    let cookie = parameters(&[Parameter::StateCookie(b"biscuit")]);
    let init_ack = [Chunk::InitAck(init(77, &cookie))];
    let (mut net, id) = cookie_echoed();
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    assert_eq!(net.forge(Host::A, tag, &init_ack), Err(Discard::Unexpected));
    assert_eq!(net.state(Host::A, id), State::CookieEchoed);
    let (mut net, a, _) = Net::established(1, &config());
    let before = net.wire.len();
    assert_eq!(net.as_peer(Host::A, &init_ack), Err(Discard::Unexpected));
    assert_eq!((net.state(Host::A, a), net.wire.len()), (State::Established, before));
}

// [9260:5.2.5-1]
#[test]
fn section_5_2_5_an_unexpected_cookie_ack_is_dropped() {
    let (mut net, a, b) = Net::established(1, &config());
    for host in [Host::A, Host::B] {
        assert_eq!(net.as_peer(host, &[Chunk::CookieAck]), Err(Discard::Unexpected));
    }
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, b)),
        (State::Established, State::Established)
    );
    let mut net = Net::new(1);
    let id = net.connect(&config(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    assert_eq!(net.forge(Host::A, tag, &[Chunk::CookieAck]), Err(Discard::Unexpected));
    assert_eq!(net.state(Host::A, id), State::CookieWait);
}

// [9260:5.2.4-7]
#[test]
fn section_5_2_4_b_a_cookie_with_the_own_tag_establishes_the_association() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let id = net.connect(&config(), 1);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    net.forge(Host::A, 0, &[Chunk::Init(init(77, &[]))]).expect("answered");
    let answer = net.last(Host::A, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    net.forge(
        Host::A,
        tag,
        &[
            Chunk::CookieEcho { cookie: &cookie },
            Chunk::Data(data(1000, 0, b"hello")),
        ],
    )
    .expect("accepted");
    assert_eq!(net.state(Host::A, id), State::Established);
    assert_eq!(net.contents(Host::A), [b"hello"]);
    let ack = net.last(Host::A, ChunkType::COOKIE_ACK);
    assert_eq!((ack.tag(), ack.types()[0]), (77, ChunkType::COOKIE_ACK));
    let inits = net.count(Host::A, ChunkType::INIT);
    net.run_for(Span::from_secs(20));
    assert_eq!(net.count(Host::A, ChunkType::INIT), inits, "T1 has been stopped");
}

/// Returns the tag and the cookie of B's INIT ACK to an INIT with this tag.
fn init_ack_for(net: &mut Net, tag: u32) -> (u32, Vec<u8>) {
    net.forge(Host::B, 0, &[Chunk::Init(init(tag, &[]))]).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    (
        answer.init().initiate_tag,
        answer.init().parameters.state_cookie().expect("a cookie").to_vec(),
    )
}

// [9260:5.2.4-8, 5.2.4-9]
#[test]
fn section_5_2_4_c_a_late_cookie_is_silently_dropped() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    // The peer's INIT with tag 77 is answered without state. Then B connects, and the peer answers with its tag 77.
    let (tag, cookie) = init_ack_for(&mut net, 77);
    let id = connect(&mut net, Host::B, 1);
    let own = net.last(Host::B, ChunkType::INIT).init().initiate_tag;
    let list = parameters(&[Parameter::StateCookie(b"biscuit")]);
    net.forge(Host::B, own, &[Chunk::InitAck(init(77, &list))])
        .expect("accepted");
    assert_eq!(net.state(Host::B, id), State::CookieEchoed);
    let before = net.wire.len();
    let late = [Chunk::CookieEcho { cookie: &cookie }];
    assert_eq!(net.forge(Host::B, tag, &late), Err(Discard::Cookie));
    assert_eq!((net.state(Host::B, id), net.wire.len()), (State::CookieEchoed, before));
    net.run_for(Span::from_millis(1100));
    assert_eq!(
        net.count(Host::B, ChunkType::COOKIE_ECHO),
        2,
        "T1-cookie is still running"
    );
}

// [9260:5.2.4-3]
#[test]
fn section_5_2_4_tag_combinations_outside_the_table_are_dropped() {
    let mut net = Net::new(1);
    // No association: the tie-tags are zero.
    let (old_tag, old_cookie) = init_ack_for(&mut net, 55);
    net.connect(&config(), 1);
    net.run_for(Span::from_millis(100));
    let b = net.only(Host::B);
    let peer_tag = net.tag_of(Host::A);
    let before = net.wire.len();
    let old = [Chunk::CookieEcho { cookie: &old_cookie }];
    assert_eq!(net.forge(Host::B, old_tag, &old), Err(Discard::Cookie), "X X 0 0");
    assert_eq!(net.wire.len(), before);
    let (tag, cookie) = init_ack_for(&mut net, peer_tag);
    let repeated = [Chunk::CookieEcho { cookie: &cookie }];
    assert_eq!(net.forge(Host::B, tag, &repeated), Err(Discard::Cookie), "X M M M");
    assert_eq!(net.wire.len(), before + 1, "only the INIT was answered");
    assert_eq!(net.state(Host::B, b), State::Established);
    assert!(!net.events_of(Host::B).contains(&Event::Restarted));
}

// [9260:5.2.4-10, 5.2.4-11]
#[test]
fn section_5_2_4_d_a_cookie_with_both_tags_establishes_in_cookie_echoed() {
    let (mut net, id) = cookie_echoed();
    let own = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let peer = net.last(Host::A, ChunkType::COOKIE_ECHO).tag();
    // B has no association and would refuse what A sends from here on.
    net.filter = Box::new(|_| Fate::Drop);
    net.forge(Host::A, 0, &[Chunk::Init(init(peer, &[]))])
        .expect("answered");
    let answer = net.last(Host::A, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    net.forge(Host::A, own, &[Chunk::CookieEcho { cookie: &cookie }])
        .expect("accepted");
    assert_eq!(net.state(Host::A, id), State::Established);
    let ack = net.last(Host::A, ChunkType::COOKIE_ACK);
    assert_eq!((ack.tag(), ack.types()), (peer, vec![ChunkType::COOKIE_ACK]));
    let echoes = net.count(Host::A, ChunkType::COOKIE_ECHO);
    net.run_for(Span::from_secs(20));
    assert_eq!(
        net.count(Host::A, ChunkType::COOKIE_ECHO),
        echoes,
        "T1-cookie has been stopped"
    );
    assert_eq!(net.state(Host::A, id), State::Established);
}

// [9260:5.2.4-10, 5.2.4-11, 5.1.5-8]
#[test]
fn section_5_2_4_d_a_repeated_cookie_echo_is_answered_even_when_expired() {
    let (mut net, a, b) = Net::established(1, &config());
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    for seconds in [0, 100] {
        net.run_for(Span::from_secs(seconds));
        let acks = net.count(Host::B, ChunkType::COOKIE_ACK);
        net.deliver_from(Host::B, echo.meta(), &echo.bytes).expect("accepted");
        assert_eq!(net.count(Host::B, ChunkType::COOKIE_ACK), acks + 1);
        assert_eq!(net.only(Host::B), b);
    }
    net.send(Host::A, a, Message::new(0, &b"as before"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(
        (net.state(Host::B, b), net.contents(Host::B)),
        (State::Established, vec![b"as before".to_vec()])
    );
}

/// A network in which a COOKIE ECHO takes longer than the life of B's cookies.
fn slow_cookies() -> Net {
    let mut net = Net::new(1);
    let short = EndpointConfig {
        local_port: 4002,
        local_addrs: addrs(Host::B, 1),
        listen: true,
        valid_cookie_life: Span::from_millis(100),
        ..EndpointConfig::default()
    };
    net.b = Endpoint::new(short, Box::new(Rng::stream(1, "b"))).expect("valid");
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Delay(Span::from_millis(150))
        } else {
            Fate::Deliver
        }
    });
    net
}

// [9260:5.2.6-1, 5.2.6-3, 3.1-4, 5.3.1-2]
#[test]
fn section_5_2_6_a_longer_cookie_life_is_requested_after_a_stale_cookie() {
    let mut net = slow_cookies();
    let id = net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::A, id), State::Established);
    let inits = net.sent(Host::A, ChunkType::INIT);
    // The peer's tag is known when the second one is sent.
    assert!(inits.iter().all(|sent| sent.tag() == 0));
    let own = inits[0].init().initiate_tag;
    assert!(inits.iter().all(|sent| sent.init().initiate_tag == own));
    let requested: Vec<_> = inits
        .iter()
        .map(|sent| {
            sent.init().parameters.iter().find_map(|parameter| match parameter {
                Ok(Parameter::CookiePreservative { increment_ms }) => Some(increment_ms),
                _ => None,
            })
        })
        .collect();
    // COOKIE ECHO to ERROR took 170 ms; one second is added.
    assert_eq!(requested, [None, Some(1170)]);
}

#[test]
fn section_5_2_6_attempts_without_a_cookie_preservative_are_limited() {
    let mut net = slow_cookies();
    let modest = AssociationConfig {
        extend_stale_cookie: false,
        ..config()
    };
    net.connect(&modest, 1);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
    assert_eq!(net.count(Host::A, ChunkType::INIT), 1 + 8, "Max.Init.Retransmits");
}

// [9260:5.2.6-2]
#[test]
fn section_5_2_6_stale_cookie_in_other_states_is_dropped() {
    let stale = crate::support::causes(&[Cause::StaleCookie { staleness_us: 5 }]);
    let error = [Chunk::Error {
        causes: whimbrel_wire::Causes::from_wire_bytes(&stale),
    }];
    let (mut net, a, _) = Net::established(1, &config());
    let (events, packets) = (net.events_of(Host::A).len(), net.wire.len());
    assert_eq!(net.as_peer(Host::A, &error), Err(Discard::Unexpected));
    assert_eq!(net.state(Host::A, a), State::Established);
    assert_eq!((net.events_of(Host::A).len(), net.wire.len()), (events, packets));
}
