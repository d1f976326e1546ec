//! Recorded packets that a host without the key sends again: they open no association, and nothing is delivered twice. RFC 9260 §5.3.1: a new
//! association has new tags. RFC 4895 §6.1: the key depends on random numbers of both ends, which are in the cookie.

use crate::support::{Host, Net, Sent, addrs, endpoint, meta};
use whimbrel_control::Span;
use whimbrel_proto::{
    AssociationConfig, AuthConfig, Discard, Endpoint, EndpointConfig, Event, Message, State, TransportAddr,
};
use whimbrel_wire::ChunkType;

fn keyed() -> AssociationConfig {
    AssociationConfig {
        auth: AuthConfig::shared_key(b"a shared key of some length"),
        ..AssociationConfig::default()
    }
}

/// Sends one message from A to B in an association of its own, which `end` ends, and returns A's packets.
fn recorded(net: &mut Net, config: &AssociationConfig, text: &'static [u8], end: impl Fn(&mut Net)) -> Vec<Sent> {
    let start = net.wire.len();
    let id = net.connect(config, 1);
    net.send(Host::A, id, Message::new(0, text));
    net.run_for(Span::from_millis(200));
    end(net);
    net.run_for(Span::from_secs(1));
    net.wire[start..]
        .iter()
        .filter(|sent| sent.from == Host::A)
        .cloned()
        .collect()
}

fn shut_down(net: &mut Net) {
    let (id, now) = (net.only(Host::A), net.now);
    net.a.shutdown(now, id);
}

fn abort(net: &mut Net) {
    let (id, now) = (net.only(Host::A), net.now);
    net.a.abort(now, id, "enough");
}

/// Sends the packets to B once more, from this UDP port of the same address, and returns whether B has an association then.
fn replay(net: &mut Net, packets: &[Sent], port: u16) -> bool {
    for sent in packets.iter().filter(|sent| !sent.has(ChunkType::INIT)) {
        let from = TransportAddr::new(addrs(Host::A, 1)[0].ip(), port);
        let _ = net.deliver_from(Host::B, meta(sent.remote, from), &sent.bytes);
        net.run_for(Span::from_millis(5));
    }
    net.b.associations().count() > 0
}

#[test]
fn recorded_association_cannot_be_replayed_after_its_end() {
    let unkeyed = AssociationConfig::default();
    for config in [keyed(), unkeyed] {
        for end in [shut_down, abort] {
            for port in [0, 40_000] {
                let mut net = Net::with_config(1, &config, 1);
                let packets = recorded(&mut net, &config, b"pay 100", end);
                assert_eq!(net.b.associations().count(), 0);
                assert_eq!(net.contents(Host::B), [b"pay 100"]);
                let before = net.wire.len();
                assert!(!replay(&mut net, &packets, port));
                assert_eq!(net.contents(Host::B), [b"pay 100"], "{end:?} {port}");
                let answered = net.wire[before..].iter().any(|sent| sent.has(ChunkType::COOKIE_ACK));
                assert!(!answered, "a repeated cookie gets no answer");
                // An honest peer is not affected.
                recorded(&mut net, &config, b"pay 200", end);
                assert_eq!(net.contents(Host::B).len(), 2);
            }
        }
    }
}

#[test]
fn recorded_association_cannot_be_replayed_into_a_later_one() {
    let config = keyed();
    let mut net = Net::with_config(1, &config, 1);
    let first = recorded(&mut net, &config, b"version 1", shut_down);
    let id = net.connect(&config, 1);
    net.send(Host::A, id, Message::new(0, &b"version 2"[..]));
    net.run_for(Span::from_millis(200));
    replay(&mut net, &first, 0);
    replay(&mut net, &first, 40_000);
    assert_eq!(net.contents(Host::B), [b"version 1", b"version 2"]);
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
    assert!(!net.events_of(Host::B).contains(&Event::Restarted));
    assert_eq!(net.state(Host::A, id), State::Established);
}

/// The peer crashes and connects again: both cookies are consumed, that of the first association and that of its restart.
#[test]
fn recorded_restart_cannot_be_replayed() {
    let config = keyed();
    let mut net = Net::with_config(1, &config, 1);
    net.connect(&config, 1);
    net.run_for(Span::from_millis(200));
    net.a = endpoint(Host::A, 1, &config, 9);
    let packets = recorded(&mut net, &config, b"after the restart", shut_down);
    assert_eq!(net.b.associations().count(), 0);
    let all: Vec<Sent> = net.wire.iter().filter(|sent| sent.from == Host::A).cloned().collect();
    for packets in [packets, all] {
        assert!(!replay(&mut net, &packets, 0));
        assert_eq!(net.contents(Host::B).len(), 1);
    }
}

/// Both ends open the association at once. The cookie that B has given belongs to the association that B has opened, whether it is used or not.
#[test]
fn cookie_of_a_collision_is_of_no_use_after_the_end() {
    let config = keyed();
    let mut net = Net::with_config(1, &config, 1);
    let now = net.now;
    let a = net.connect(&config, 1);
    let port = crate::support::port(Host::A);
    net.b
        .connect(now, config.clone(), port, &addrs(Host::A, 1))
        .expect("opened");
    net.drain(Host::B);
    net.run_for(Span::from_millis(15));
    // A's COOKIE ECHO is recorded and does not arrive; the association is opened by that of B.
    net.filter = Box::new(
        |packet| match packet.from == Host::A && packet.has(ChunkType::COOKIE_ECHO) {
            true => crate::support::Fate::Drop,
            false => crate::support::Fate::Deliver,
        },
    );
    net.run_for(Span::from_millis(100));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
    net.send(Host::A, a, Message::new(0, &b"once"[..]));
    net.run_for(Span::from_millis(200));
    shut_down(&mut net);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.b.associations().count(), 0);
    let all: Vec<Sent> = net.wire.iter().filter(|sent| sent.from == Host::A).cloned().collect();
    assert!(all.iter().any(|sent| sent.has(ChunkType::COOKIE_ECHO)));
    assert!(!replay(&mut net, &all, 0));
    assert_eq!(net.contents(Host::B), [b"once"]);
}

fn listener(config: &AssociationConfig, change: impl FnOnce(&mut EndpointConfig)) -> Endpoint {
    let mut settings = EndpointConfig {
        local_port: crate::support::port(Host::B),
        local_addrs: addrs(Host::B, 1),
        listen: true,
        association: config.clone().into(),
        ..EndpointConfig::default()
    };
    change(&mut settings);
    Endpoint::new(settings, Box::new(whimbrel_control::Rng::stream(1, "b"))).expect("valid")
}

/// Without memory for consumed cookies, associations with a key are refused silently until a cookie is stale. None is forgotten.
#[test]
fn full_memory_of_consumed_cookies_refuses_keyed_associations() {
    for (config, refused) in [(keyed(), true), (AssociationConfig::default(), false)] {
        let mut net = Net::with_config(1, &config, 1);
        net.b = listener(&config, |settings| settings.max_consumed_cookies = 2);
        let first = recorded(&mut net, &config, b"1", shut_down);
        recorded(&mut net, &config, b"2", shut_down);
        let id = net.connect(&config, 1);
        net.run_for(Span::from_secs(1));
        assert_eq!(net.state(Host::A, id) == State::CookieEchoed, refused);
        assert_eq!(net.b.stats().discarded[Discard::Limit as usize] > 0, refused);
        if refused {
            assert!(!replay(&mut net, &first, 0), "the first one is remembered");
            // The first cookies are stale after 60 s; T1-cookie has repeated the COOKIE ECHO by then.
            net.run_for(Span::from_secs(70));
        }
        assert_eq!(net.state(Host::A, id), State::Established);
    }
}

/// A COOKIE ECHO that was refused for lack of resources has not been used.
#[test]
fn refused_cookie_is_not_consumed() {
    let config = keyed();
    let mut net = Net::with_config(1, &config, 1);
    net.b = listener(&config, |settings| settings.max_associations = 1);
    net.connect(&config, 1);
    net.run_for(Span::from_millis(15));
    let echo = {
        net.filter = Box::new(|_| crate::support::Fate::Drop);
        net.run_for(Span::from_millis(20));
        net.last(Host::A, ChunkType::COOKIE_ECHO)
    };
    // Another association takes the only place.
    let now = net.now;
    let other = net
        .b
        .connect(now, config.clone(), 7, &[crate::support::addr("10.0.9.9:0")])
        .expect("opened");
    assert_eq!(net.deliver_from(Host::B, echo.meta(), &echo.bytes), Err(Discard::Limit));
    net.b.abort(now, other, "");
    net.drain(Host::B);
    assert_eq!(net.deliver_from(Host::B, echo.meta(), &echo.bytes), Ok(()));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
}
