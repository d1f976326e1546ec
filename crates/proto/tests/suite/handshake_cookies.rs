//! State cookies: listeners without state, and cookies that are forged, changed, expired or replayed (RFC 9260 §5.1.3 to §5.1.5).

use crate::support::{Fate, Host, Net, addr, data, endpoint, extended, init, meta, packet, resealed};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, Discard, EndpointConfig};
use whimbrel_wire::{Cause, Causes, Chunk, ChunkType};

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

fn first(causes: Causes<'_>) -> Cause<'_> {
    causes.iter().next().expect("a cause").expect("well-formed")
}

// [9260:5.1-7, 5.1-8, 5.1-18, 5.1.5-5, 5.1.5-6, 5.1.5-7, 6.10-6]
// [9260:3.3.12-1]
#[test]
fn section_5_1_5_data_bundled_with_the_cookie_echo_is_accepted() {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ECHO, usize::MAX);
    net.run_for(Span::from_millis(30));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    assert_eq!(echo.types(), [ChunkType::COOKIE_ECHO]);
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let bytes = extended(&echo.bytes, &[Chunk::Data(data(tsn, 0, b"early"))]);
    let before = net.wire.len();
    net.deliver_from(Host::B, echo.meta(), &bytes).expect("accepted");
    assert_eq!(net.contents(Host::B), [b"early"]);
    let answer = &net.wire[before];
    assert_eq!(answer.types(), [ChunkType::COOKIE_ACK, ChunkType::SACK]);
    assert_eq!(answer.sack().expect("a SACK").0, tsn);
}

// [9260:5.1-6, 5.1.5-2]
#[test]
fn section_5_1_3_a_flood_of_inits_creates_no_state() {
    let mut net = Net::new(1);
    net.capture = false;
    for tag in 1..=10_000 {
        let from = meta(addr("10.0.0.2:0"), addr(&format!("10.9.{}.{}:0", tag / 250, tag % 250)));
        let bytes = packet(4001, 4002, 0, &[Chunk::Init(init(tag, &[]))]);
        net.deliver_from(Host::B, from, &bytes).expect("answered");
    }
    assert_eq!(net.b.associations().count(), 0);
    assert_eq!(net.b.next_timeout(), None);
    assert_eq!(net.count(Host::B, ChunkType::INIT_ACK), 10_000);
    // If the replies cannot be sent as fast as the INITs arrive, only a limited number of them waits.
    let bytes = packet(4001, 4002, 0, &[Chunk::Init(init(5, &[]))]);
    let from = meta(addr("10.0.0.2:0"), addr("10.0.0.1:0"));
    let now = net.now;
    let accepted = (0..10_000)
        .filter(|_| net.b.handle_datagram(now, from, &bytes).is_ok())
        .count();
    assert_eq!(accepted, EndpointConfig::default().max_pending_replies);
}

/// Returns a COOKIE ECHO of A that B has not received yet.
fn fresh_cookie_echo() -> (Net, crate::support::Sent) {
    let mut net = Net::new(1);
    net.connect(&config(), 1);
    lose(&mut net, ChunkType::COOKIE_ECHO, usize::MAX);
    net.run_for(Span::from_millis(30));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    (net, echo)
}

// [9260:5.1.5-2]
// [9260:4-1, 3.3.3.1.1-1]
#[test]
fn section_5_1_5_changed_cookies_are_silently_dropped() {
    let (mut net, echo) = fresh_cookie_echo();
    let before = net.wire.len();
    for at in 16..echo.bytes.len() {
        let mut bytes = echo.bytes.clone();
        bytes[at] ^= 0x10;
        let result = net.deliver_from(Host::B, echo.meta(), &resealed(bytes));
        // The last bytes may be padding, which is ignored.
        if result.is_ok() {
            assert!(at >= echo.bytes.len() - 3, "byte {at} can be changed");
            break;
        }
        assert_eq!(result, Err(Discard::Cookie), "byte {at}");
        assert_eq!(net.wire.len(), before, "byte {at} was answered");
    }
    let (mut net, _) = fresh_cookie_echo();
    let tag = net.tag_of(Host::B);
    assert_eq!(
        net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie: &[0; 100] }]),
        Err(Discard::Cookie)
    );
    assert_eq!(
        net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie: &[] }]),
        Err(Discard::Cookie)
    );
}

/// Returns the cookie of B's INIT ACK to an INIT from A.
fn cookie_of_b(net: &mut Net) -> Vec<u8> {
    net.forge(Host::B, 0, &[Chunk::Init(init(77, &[]))]).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    answer.init().parameters.state_cookie().expect("a cookie").to_vec()
}

// [9260:5.1.3-4, 14.1-1]
#[test]
fn section_5_1_3_an_endpoint_with_other_random_numbers_has_another_key() {
    let (mut net, echo) = fresh_cookie_echo();
    net.b = endpoint(Host::B, 1, &config(), 2);
    assert_eq!(
        net.deliver_from(Host::B, echo.meta(), &echo.bytes),
        Err(Discard::Cookie)
    );
}

// [9260:5.1.3-5]
#[test]
fn section_5_1_3_the_key_is_replaced_every_hour() {
    let mut net = Net::new(1);
    let mut keys = Vec::new();
    for minutes in [0, 59, 2, 30, 31] {
        net.now += Span::from_secs(60 * minutes);
        // The second byte is the number of the key.
        keys.push(cookie_of_b(&mut net)[1]);
    }
    assert_eq!(
        keys.iter().map(|key| key - keys[0]).collect::<Vec<_>>(),
        [0, 0, 1, 1, 2]
    );
}

// [9260:5.1.5-3]
#[test]
fn section_5_1_5_cookies_are_valid_only_for_their_ports_tag_and_addresses() {
    let (mut net, echo) = fresh_cookie_echo();
    let Chunk::CookieEcho { cookie } = echo.chunks()[0] else {
        panic!("no COOKIE ECHO")
    };
    let chunk = [Chunk::CookieEcho { cookie }];
    let before = net.wire.len();
    let tag = echo.tag();
    for (bytes, from) in [
        (packet(4009, 4002, tag, &chunk), echo.local),
        (packet(4001, 4002, tag ^ 1, &chunk), echo.local),
        (packet(4001, 4002, tag, &chunk), addr("10.0.0.9:0")),
    ] {
        assert_eq!(
            net.deliver_from(Host::B, meta(echo.remote, from), &bytes),
            Err(Discard::Cookie)
        );
    }
    assert_eq!(
        net.deliver(Host::B, &packet(4001, 4003, tag, &chunk)),
        Err(Discard::NotForUs)
    );
    assert_eq!((net.wire.len(), net.b.associations().count()), (before, 0));
    net.deliver_from(Host::B, echo.meta(), &echo.bytes)
        .expect("the genuine one is accepted");
}

// [9260:5.1.5-4]
// [9260:4-2]
#[test]
fn section_5_1_5_an_expired_cookie_is_answered_with_stale_cookie() {
    let (mut net, echo) = fresh_cookie_echo();
    net.filter = Box::new(|_| Fate::Drop);
    net.now += Span::from_secs(61);
    let before = net.wire.len();
    assert_eq!(
        net.deliver_from(Host::B, echo.meta(), &echo.bytes),
        Err(Discard::StaleCookie)
    );
    assert_eq!((net.wire.len(), net.b.associations().count()), (before + 1, 0));
    let error = net.last(Host::B, ChunkType::ERROR);
    assert_eq!(
        (error.causes(), error.tag()),
        (vec![3], net.last(Host::A, ChunkType::INIT).init().initiate_tag)
    );
    let Chunk::Error { causes } = error.chunks()[0] else {
        panic!("not an ERROR")
    };
    // The cookie was created 10 ms after the start, and 30 ms later the clock was set forward.
    assert_eq!(
        first(causes),
        Cause::StaleCookie {
            staleness_us: 1_020_000
        }
    );
}

/// The INIT ACK listed local addresses that have changed since: the stale-cookie error makes the peer send a new INIT. There is no measure of
/// staleness.
// [9260:3.3.10.3-1]
#[test]
fn a_cookie_created_before_a_change_of_addresses_is_stale() {
    let (mut net, echo) = fresh_cookie_echo();
    net.filter = Box::new(|_| Fate::Deliver);
    let now_ours = [addr("10.0.0.2:0"), addr("10.0.1.2:0")];
    net.b.set_local_addrs(&now_ours).expect("valid addresses");
    assert_eq!(
        net.deliver_from(Host::B, echo.meta(), &echo.bytes),
        Err(Discard::StaleCookie)
    );
    let error = net.last(Host::B, ChunkType::ERROR);
    let Chunk::Error { causes } = error.chunks()[0] else {
        panic!("not an ERROR")
    };
    assert_eq!(first(causes), Cause::StaleCookie { staleness_us: 0 });
    assert_eq!(net.b.associations().count(), 0);
    net.run_for(Span::from_secs(1));
    let (a, b) = (net.only(Host::A), net.only(Host::B));
    assert_eq!(net.b.association(b).expect("established").local_addrs(), now_ours);
    let known = net
        .a
        .association(a)
        .expect("established")
        .paths()
        .map(|path| path.remote);
    assert_eq!(known.collect::<Vec<_>>(), now_ours);
    // After it has created its association, the cookie is answered whatever has changed since (RFC 9260 §5.2.4 D).
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    net.b.set_local_addrs(&now_ours[..1]).expect("valid addresses");
    net.deliver_from(Host::B, echo.meta(), &echo.bytes).expect("answered");
    assert_eq!(net.only(Host::B), b);
}

/// An association keeps its addresses when those of its endpoint change. A peer that restarts receives the addresses of the association.
#[test]
fn a_restarted_peer_receives_the_addresses_of_its_association() {
    let (mut net, _, b) = Net::established(2, &config());
    net.b.set_local_addrs(&[addr("10.0.7.2:0")]).expect("valid addresses");
    net.a = crate::support::endpoint(Host::A, 2, &config(), 99);
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    let ours = net.b.association(b).expect("established").local_addrs().to_vec();
    assert_eq!(ours, crate::support::addrs(Host::B, 2));
    let known = net
        .a
        .association(a)
        .expect("established")
        .paths()
        .map(|path| path.remote);
    assert_eq!(known.collect::<Vec<_>>(), ours);
}
