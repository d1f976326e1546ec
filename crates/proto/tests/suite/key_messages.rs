//! Key management with messages (draft-porfiri-tsvwg-sctp-dtls-handshake): the first handshake, and attackers who see, change and invent its
//! messages. `whimbrel-secure` runs these tests with TLS.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::identities::{NOT_TRUSTED, REFUSED, end, fingerprint};
use crate::support::paths::is_on;
use crate::support::{Fate, Host, Net, Sent, addrs, data, resealed, view};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Event, KeySource, Message, PathState, ProtectionConfig, Role,
    Scheduler, SendError, State,
};
use whimbrel_wire::{Asconf, Causes, Chunk, ChunkType, Data, Parameters, Payload, Tsn, key_management};

const TEXT: &[u8] = b"the quick brown fox jumps over the lazy dog";

pub(crate) fn with(keys: Arc<dyn KeySource>) -> AssociationConfig {
    AssociationConfig {
        protection: ProtectionConfig::required(keys),
        dynamic_addresses: true,
        ..AssociationConfig::default()
    }
}

/// Returns the configurations of A and B, which trust each other.
pub(crate) fn friends() -> (AssociationConfig, AssociationConfig) {
    (with(end(1, &[2])), with(end(2, &[1])))
}

/// Returns a network in which A has opened an association with B. The seed decides on the roles.
pub(crate) fn opened(paths: usize, seed: u64, (at_a, at_b): &(AssociationConfig, AssociationConfig)) -> (Net, AssocId) {
    let mut net = Net::with_config(paths, at_b, seed);
    let a = net.connect(at_a, paths);
    (net, a)
}

pub(crate) fn connected(net: &Net, host: Host) -> usize {
    let is_connected = |event: &&Event| matches!(event, Event::Connected { .. });
    net.events_of(host).iter().filter(is_connected).count()
}

/// Runs until both ends are connected.
pub(crate) fn connect(net: &mut Net, within: Span) -> (AssocId, AssocId) {
    net.run_until(within, "both ends are connected", |net| {
        let reasons = [Host::A, Host::B].map(|host| net.close_reason(host));
        assert_eq!(reasons, [None, None]);
        connected(net, Host::A) > 0 && connected(net, Host::B) > 0
    });
    (net.only(Host::A), net.only(Host::B))
}

/// Checks that messages pass in both directions.
pub(crate) fn exchange(net: &mut Net, (a, b): (AssocId, AssocId)) {
    net.run_for(Span::from_secs(1));
    net.forget_contents();
    net.send(Host::A, a, Message::new(0, &b"ping"[..]));
    net.send(Host::B, b, Message::new(0, &b"pong"[..]));
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B), [b"ping"]);
    assert_eq!(net.contents(Host::A), [b"pong"]);
}

/// Returns the DATA chunks in plaintext.
fn in_plaintext(net: &Net) -> Vec<(Host, u32, u16, Vec<u8>)> {
    let mut all = Vec::new();
    for sent in &net.wire {
        for data in sent.data() {
            let mut content = Vec::new();
            data.payload.append_to(&mut content);
            all.push((sent.from, data.ppid, data.stream, content));
        }
    }
    all
}

/// Returns why the key management of a host has ended an association.
fn failure(net: &Net, host: Host) -> String {
    match net.close_reason(host) {
        Some(CloseReason::NotAuthenticated(reason)) => reason,
        other => panic!("{host:?}: {other:?}"),
    }
}

// The draft, "Initial Establishment": the handshake is in plaintext, and nothing else.
#[test]
fn the_handshake_is_in_plaintext_and_everything_else_encrypted() {
    let mut servers = Vec::new();
    for seed in 1..6 {
        let ends = friends();
        let (mut net, a) = opened(2, seed, &ends);
        // It waits for the keys.
        net.send(Host::A, a, Message::new(0, TEXT));
        net.send(Host::A, a, Message::new(3, TEXT));
        let (a, b) = connect(&mut net, Span::from_millis(300));
        let at = net.now;
        net.send(Host::B, b, Message::new(0, vec![b'x'; 50_000]));
        net.run_for(Span::from_secs(3));
        assert_eq!(net.contents(Host::B), [TEXT, TEXT]);
        assert_eq!(net.contents(Host::A), [vec![b'x'; 50_000]]);
        for (from, ppid, stream, content) in in_plaintext(&net) {
            assert_eq!((ppid, stream), (key_management::PPID, 0), "{from:?}");
            assert_eq!(content[0], 3, "T = 0, and the first epoch is 3");
        }
        for sent in net.wire.iter().filter(|sent| sent.at > at) {
            assert_eq!(sent.types(), [ChunkType::DTLS]);
            if let Chunk::Dtls(dtls) = sent.chunks()[0] {
                assert_eq!(dtls.epoch, 3);
            }
        }
        for (host, id, peer) in [(Host::A, a, 2), (Host::B, b, 1)] {
            let association = net.host(host).association(id).expect("it is established");
            let identity = association.peer_identity().expect("it is authenticated");
            assert_eq!(*identity.fingerprint(), fingerprint(peer));
            assert!(!identity.certificate().is_empty());
            assert_eq!(association.key_management_method(), Some(192));
        }
        servers.push(in_plaintext(&net)[0].0);
    }
    assert!(
        servers.contains(&Host::A) && servers.contains(&Host::B),
        "either end can be the client"
    );
}

// The keys of both directions are used before an end is connected.
#[test]
fn an_end_is_connected_when_its_packets_are_encrypted_and_the_peer_has_shown_the_keys() {
    for seed in 1..6 {
        let (mut net, _) = opened(1, seed, &friends());
        net.drain(Host::A);
        while connected(&net, Host::A) + connected(&net, Host::B) < 2 {
            let before = (connected(&net, Host::A), connected(&net, Host::B));
            assert!(net.step(Time::from_nanos(1_000_000_000)), "not in a second");
            for (host, had) in [(Host::A, before.0), (Host::B, before.1)] {
                if connected(&net, host) > had {
                    let opened = net.only(host);
                    let stats = net.host(host).association(opened).expect("it is").protection_stats();
                    assert!(stats.opened > 0, "{stats:?}");
                    net.run_for(Span::from_millis(250));
                    let last = net
                        .wire
                        .iter()
                        .rfind(|sent| sent.from == host)
                        .expect("it has sent something");
                    assert_eq!(last.types(), [ChunkType::DTLS], "what it sends from then on");
                }
            }
        }
    }
}

// RFC 7053: a delayed acknowledgement would hold up an end by 200 ms, while the other one has nothing to send.
#[test]
fn an_exchange_of_keys_waits_for_no_delayed_acknowledgement() {
    for seed in 1..6 {
        let (mut net, _) = opened(1, seed, &friends());
        // Two round trips of SCTP, two of the exchange, and Protection Established with its acknowledgement: 20 ms each.
        connect(&mut net, Span::from_millis(130));
    }
}

// The draft, "Role Determination": the server has the keys first, and seals the first packet (Protection Established).
#[test]
fn an_end_has_the_role_that_it_offers() {
    for seed in 1..6 {
        for (of_a, of_b) in [(Role::Client, Role::Server), (Role::Server, Role::Client)] {
            let (mut at_a, mut at_b) = friends();
            (at_a.protection.role, at_b.protection.role) = (Some(of_a), Some(of_b));
            let (mut net, _) = opened(1, seed, &(at_a, at_b));
            let ends = connect(&mut net, Span::from_millis(130));
            exchange(&mut net, ends);
            let first = net.wire.iter().find(|sent| sent.types() == [ChunkType::DTLS]);
            let from_a = first.expect("packets are encrypted").from == Host::A;
            assert_eq!(from_a, of_a == Role::Server, "{of_a:?}, seed {seed}");
        }
        for role in [Role::Client, Role::Server] {
            let (mut at_a, mut at_b) = friends();
            (at_a.protection.role, at_b.protection.role) = (Some(role), Some(role));
            let (mut net, _) = opened(1, seed, &(at_a, at_b));
            net.run_for(Span::from_secs(1));
            let reason = net.close_reason(Host::A).expect("it ended").to_string();
            assert!(reason.contains("incompatible roles"), "{reason}");
            assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (0, 0));
        }
    }
}

// The draft, "Authentication and Identity", "Error Handling".
#[test]
fn an_end_that_is_not_trusted_is_refused_with_a_reason() {
    for seed in 1..6 {
        for (at_a, at_b, who) in [
            (end(1, &[9]), end(2, &[1]), Host::A),
            (end(1, &[2]), end(2, &[9]), Host::B),
        ] {
            let (mut net, a) = opened(1, seed, &(with(at_a), with(at_b)));
            net.send(Host::A, a, Message::new(0, TEXT));
            net.run_for(Span::from_secs(2));
            let (own, peer) = (failure(&net, who), failure(&net, who.other()));
            assert!(own.contains(NOT_TRUSTED), "{own}");
            assert!(peer.contains(REFUSED), "{peer}");
            assert_eq!(connected(&net, who) + connected(&net, who.other()), 0);
            assert!(net.contents(Host::B).is_empty());
            assert!(
                !net.wire
                    .iter()
                    .any(|sent| sent.bytes.windows(8).any(|part| part == &TEXT[..8])),
                "nothing of the user was sent"
            );
            let is_foreign =
                |event: &Event| matches!(event, Event::SendFailed(failed) if failed.ppid == key_management::PPID);
            assert!(!net.events_of(Host::A).iter().any(is_foreign));
        }
    }
}

#[test]
fn the_abort_names_the_reason_if_the_alert_is_lost() {
    let (mut net, _) = opened(1, 1, &(with(end(1, &[2])), with(end(2, &[9]))));
    net.filter = Box::new(|packet| match packet.from == Host::B && packet.has(ChunkType::DATA) {
        true if view(packet.bytes).chunks().count() == 1 && packet.bytes.len() < 90 => Fate::Drop,
        _ => Fate::Deliver,
    });
    net.run_for(Span::from_secs(2));
    let reason = net.close_reason(Host::A).expect("it ended").to_string();
    assert!(reason.contains("trust"), "{reason}");
}

/// Returns the number of packets until both ends have exchanged messages without a loss.
fn packets_of_a_handshake(seed: u64) -> usize {
    let (mut net, _) = opened(1, seed, &friends());
    connect(&mut net, Span::from_secs(1));
    net.wire.len()
}

// Messages of the handshake are ordinary data: they are retransmitted.
#[test]
fn the_handshake_survives_the_loss_and_the_repetition_of_each_packet() {
    for seed in [1, 2, 3] {
        for lost in 0..packets_of_a_handshake(seed) + 2 {
            for fate in [Fate::Drop, Fate::Duplicate, Fate::Delay(Span::from_millis(700))] {
                let (mut net, a) = opened(1, seed, &friends());
                net.send(Host::A, a, Message::new(0, TEXT));
                let mut number = 0;
                net.filter = Box::new(move |_| {
                    number += 1;
                    if number == lost + 1 { fate } else { Fate::Deliver }
                });
                let ends = connect(&mut net, Span::from_secs(9));
                net.run_for(Span::from_secs(5));
                assert_eq!(net.contents(Host::B), [TEXT], "{lost}: {fate:?}");
                exchange(&mut net, ends);
            }
        }
    }
}

#[test]
fn the_handshake_survives_losses_and_reordering_at_random() {
    for seed in 0..40_u64 {
        let (mut at_a, mut at_b) = friends();
        for config in [&mut at_a, &mut at_b] {
            config.protection.handshake_timeout = Span::from_secs(60);
        }
        let (mut net, _) = opened(2, seed, &(at_a, at_b));
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        net.filter = Box::new(move |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match state % 10 {
                0 => Fate::Drop,
                1 => Fate::Duplicate,
                other => Fate::Delay(Span::from_millis(other * 9)),
            }
        });
        let ends = connect(&mut net, Span::from_secs(60));
        net.filter = Box::new(|_| Fate::Deliver);
        exchange(&mut net, ends);
    }
}

#[test]
fn the_handshake_goes_on_if_a_path_fails_during_it() {
    for seed in [1, 2, 3] {
        for after in 0..4 {
            let (mut net, _) = opened(2, seed, &friends());
            let mut with_data = 0;
            net.filter = Box::new(move |packet| {
                with_data += usize::from(packet.has(ChunkType::DATA));
                let is_cut = with_data > after && is_on(packet, 0);
                if is_cut { Fate::Drop } else { Fate::Deliver }
            });
            let ends = connect(&mut net, Span::from_secs(9));
            exchange(&mut net, ends);
        }
    }
}

#[test]
fn both_ends_open_the_association_at_once() {
    for seed in 1..6 {
        for lost in [
            None,
            Some(ChunkType::INIT),
            Some(ChunkType::INIT_ACK),
            Some(ChunkType::COOKIE_ACK),
        ] {
            let (at_a, at_b) = friends();
            let mut net = Net::with_config(1, &at_b, seed);
            net.filter = Box::new(move |packet| match lost {
                Some(lost)
                    if packet.from == Host::A && packet.has(lost) && packet.now < Time::from_nanos(500_000_000) =>
                {
                    Fate::Drop
                }
                _ => Fate::Deliver,
            });
            net.connect(&at_a, 1);
            let now = net.now;
            net.b
                .connect(now, at_b, 4001, &addrs(Host::A, 1))
                .expect("it can be opened");
            let ends = connect(&mut net, Span::from_secs(9));
            exchange(&mut net, ends);
        }
    }
}

// The messages of key management go before those of the user, whatever the order of those is.
#[test]
fn the_handshake_precedes_messages_of_the_user_with_every_scheduler() {
    for scheduler in [Scheduler::FirstCome, Scheduler::RoundRobin] {
        for interleaving in [true, false] {
            let (mut at_a, mut at_b) = friends();
            for config in [&mut at_a, &mut at_b] {
                config.scheduler = scheduler;
                config.interleaving = interleaving;
                config.protection.rekey_interval = Span::from_secs(1);
            }
            let (mut net, a) = opened(1, 1, &(at_a, at_b));
            for stream in 0..4 {
                net.send(Host::A, a, Message::new(stream, vec![stream as u8; 20_000]));
            }
            let (a, b) = connect(&mut net, Span::from_secs(1));
            for _ in 0..10 {
                net.send(Host::A, a, Message::new(0, vec![9; 30_000]));
                net.run_for(Span::from_millis(500));
            }
            net.run_for(Span::from_secs(2));
            assert_eq!(net.contents(Host::B).len(), 14);
            let epochs = net.b.association(b).expect("B").protection_stats().epochs_received;
            assert!(epochs >= 2, "{epochs}");
        }
    }
}

// What has answered a HEARTBEAT in plaintext may have been anyone.
#[test]
fn addresses_that_answered_in_plaintext_have_to_answer_encrypted() {
    for may_answer in [true, false] {
        let (mut net, _) = opened(2, 1, &friends());
        net.filter = Box::new(move |packet| match packet.has(ChunkType::DTLS) && is_on(packet, 1) {
            true if !may_answer => Fate::Drop,
            _ => Fate::Deliver,
        });
        let (_, b) = connect(&mut net, Span::from_secs(1));
        net.run_for(Span::from_secs(20));
        let second = net.b.association(b).expect("B").paths().nth(1).expect("two paths");
        assert_eq!(second.state == PathState::Active, may_answer, "{second:?}");
        assert!(may_answer || second.state == PathState::Unconfirmed);
    }
}

/// Returns a network whose ends are in the middle of the handshake: nothing of A's data arrives.
fn in_the_middle(seed: u64) -> (Net, AssocId, AssocId) {
    let (mut net, a) = opened(1, seed, &friends());
    net.filter = Box::new(|packet| match packet.from == Host::A && packet.has(ChunkType::DATA) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    net.run_for(Span::from_millis(200));
    let b = net.only(Host::B);
    assert_eq!(net.state(Host::B, b), State::Established);
    (net, a, b)
}

/// Returns the next TSN that B expects of A.
fn next_tsn(net: &Net) -> u32 {
    let cookie_echo = net.wire.iter().find(|sent| sent.has(ChunkType::INIT)).expect("an INIT");
    cookie_echo.init().initial_tsn.0
}

pub(crate) fn key_data(tsn: u32, ssn: u16, payload: &[u8]) -> Data<'_> {
    Data {
        ppid: key_management::PPID,
        ..data(tsn, ssn, payload)
    }
}

#[test]
fn user_data_in_plaintext_ends_the_association() {
    let cases: [fn(&mut Data<'_>); 3] = [
        |data| data.ppid = 0,
        |data| data.stream = 1,
        |data| data.unordered = true,
    ];
    for change in cases {
        let (mut net, _, _) = in_the_middle(1);
        let tsn = next_tsn(&net);
        let mut chunk = key_data(tsn, 0, b"an order");
        change(&mut chunk);
        let _ = net.as_peer(Host::B, &[Chunk::Data(chunk)]);
        let reason = CloseReason::ProtocolViolation("user data before encryption");
        assert_eq!(net.close_reason(Host::B), Some(reason));
        assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [13]);
        assert!(net.contents(Host::B).is_empty());
    }
}

// A fragment that is sent ahead in plaintext must not become a part of an encrypted message.
#[test]
fn data_ahead_of_the_handshake_is_not_kept() {
    let (mut net, a, _) = in_the_middle(1);
    let tsn = next_tsn(&net);
    for ahead in 1..40 {
        let mut chunk = key_data(tsn + ahead, 0, b"evil");
        (chunk.begin, chunk.end) = (ahead % 2 == 0, ahead % 3 == 0);
        assert_eq!(net.as_peer(Host::B, &[Chunk::Data(chunk)]), Err(Discard::Unprotected));
    }
    net.filter = Box::new(|_| Fate::Deliver);
    net.send(Host::A, a, Message::new(0, vec![b'x'; 30_000]));
    connect(&mut net, Span::from_secs(9));
    net.run_for(Span::from_secs(3));
    assert_eq!(net.contents(Host::B), [vec![b'x'; 30_000]]);
}

#[test]
fn other_chunks_in_plaintext_have_no_effect() {
    let (mut net, _, b) = in_the_middle(1);
    let none = Parameters::from_wire_bytes(&[]);
    for chunk in [
        Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(1),
        },
        Chunk::Asconf(Asconf {
            serial: next_tsn(&net),
            parameters: none,
        }),
        Chunk::ReConfig { parameters: none },
        Chunk::ShutdownAck,
        Chunk::Error {
            causes: Causes::from_wire_bytes(&[0, 13, 0, 4]),
        },
        Chunk::Cwr { lowest_tsn: Tsn(1) },
    ] {
        assert_eq!(net.as_peer(Host::B, &[chunk]), Err(Discard::Unprotected), "{chunk:?}");
    }
    let is_error = |event: &&Event| matches!(event, Event::RemoteError { .. });
    assert_eq!(net.events_of(Host::B).iter().filter(is_error).count(), 0);
    assert_eq!(net.state(Host::B, b), State::Established);
    // The user of A waits with its request until the packets are encrypted.
    let a = net.only(Host::A);
    let now = net.now;
    net.a.shutdown(now, a);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(9));
    for host in [Host::A, Host::B] {
        assert_eq!(connected(&net, host), 1, "{host:?}");
        assert_eq!(net.close_reason(host), Some(CloseReason::Graceful));
    }
    assert!(net.wire.iter().all(|sent| !sent.has(ChunkType::SHUTDOWN)));
}

// RFC 9260 §5.1: a host that has sent a COOKIE ECHO and nothing else keeps an association for the time of a handshake.
#[test]
fn a_handshake_that_is_never_finished_ends_in_time() {
    for silent in [Host::A, Host::B] {
        for seed in [1, 2, 3] {
            let (mut net, _) = opened(1, seed, &friends());
            net.filter = Box::new(
                move |packet| match packet.from == silent && packet.has(ChunkType::DATA) {
                    true => Fate::Drop,
                    false => Fate::Deliver,
                },
            );
            net.run_for(Span::from_millis(9_500));
            assert_eq!(net.close_reason(silent.other()), None);
            net.run_for(Span::from_secs(2));
            let reason = net.close_reason(silent.other()).expect("it ended").to_string();
            assert!(
                reason.contains("exchange of keys") || reason.contains("aborted by the peer"),
                "{reason}"
            );
            assert_eq!(connected(&net, Host::A) + connected(&net, Host::B), 0);
        }
    }
    let (mut at_a, at_b) = friends();
    at_a.protection.handshake_timeout = Span::from_millis(1_500);
    let (mut net, _) = opened(1, 1, &(at_a, at_b));
    net.filter = Box::new(|packet| match packet.has(ChunkType::DATA) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    net.run_for(Span::from_secs(2));
    assert_eq!(
        net.close_reason(Host::A),
        Some(CloseReason::OverLimit("no end of the exchange of keys in time"))
    );
    assert_eq!(net.b.stats().unproven, 1);
}

// Before the peer is known, it makes this end keep no more than a handshake needs.
#[test]
fn an_endless_message_ends_the_association() {
    let (mut net, _, b) = in_the_middle(2);
    let (tsn, mut sent) = (next_tsn(&net), 0);
    let content = vec![7; 1000];
    for number in 0..100 {
        if net.state(Host::B, b) == State::Closed {
            break;
        }
        let mut chunk = key_data(tsn + number, 0, &content);
        (chunk.begin, chunk.end) = (number == 0, false);
        let _ = net.as_peer(Host::B, &[Chunk::Data(chunk)]);
        sent += content.len();
    }
    assert!((64_000..70_000).contains(&sent), "{sent}");
    let reason = net.close_reason(Host::B).expect("it ended");
    assert!(matches!(reason, CloseReason::OverLimit(_)), "{reason:?}");
}

/// Lets the network change the message of key management with this number.
fn with_changed_message(seed: u64, number: usize, change: impl Fn(&mut Vec<u8>) + 'static) -> Net {
    let (mut net, _) = opened(1, seed, &friends());
    let held: Rc<RefCell<Option<Sent>>> = Rc::default();
    let (place, mut seen) = (held.clone(), 0);
    net.filter = Box::new(move |packet| {
        if !packet.has(ChunkType::DATA) {
            return Fate::Deliver;
        }
        seen += 1;
        if seen != number + 1 {
            return Fate::Deliver;
        }
        *place.borrow_mut() = Some(Sent::from(packet));
        Fate::Drop
    });
    net.drain(Host::A);
    let end = net.now + Span::from_secs(20);
    while net.step(end) {
        let taken = held.borrow_mut().take();
        if let Some(sent) = taken {
            let mut bytes = sent.bytes.clone();
            change(&mut bytes);
            bytes[8..12].fill(0);
            net.inject(sent.from.other(), sent.remote, sent.local, resealed(bytes));
        }
    }
    net
}

#[test]
fn a_changed_message_ends_the_association_at_both_ends() {
    for seed in [1, 2] {
        for number in 0..3 {
            for (what, change) in [
                (
                    "near the end",
                    (|bytes| {
                        let at = bytes.len() - 9;
                        bytes[at] ^= 1;
                    }) as fn(&mut Vec<u8>),
                ),
                ("further before", |bytes| {
                    let at = bytes.len() - 25;
                    bytes[at] ^= 0x40;
                }),
            ] {
                let net = with_changed_message(seed, number, change);
                for host in [Host::A, Host::B] {
                    assert_eq!(connected(&net, host), 0, "{host:?}: {number}, {what}");
                    assert!(net.close_reason(host).is_some(), "{host:?}: {number}, {what}");
                }
            }
        }
    }
}

// The draft, "Downgrade Attacks": what the ends have offered is a part of the keys.
// [dtls:6-4]
#[test]
fn a_changed_offer_makes_keys_that_do_not_fit() {
    for of in [ChunkType::INIT, ChunkType::INIT_ACK] {
        for (at, bit) in [(7, 1), (8, 0x80), (8, 4)] {
            let net = with_changed_parameter(of, move |bytes| bytes[at] ^= bit);
            for host in [Host::A, Host::B] {
                assert_eq!(connected(&net, host), 0, "{host:?}: byte {at} of the offer in {of}");
            }
            assert!(net.contents(Host::B).is_empty());
            assert!(net.close_reason(Host::A).is_some());
        }
    }
}

// [dtls:5.1-3]
#[test]
fn a_removed_offer_ends_the_handshake() {
    for of in [ChunkType::INIT, ChunkType::INIT_ACK] {
        // A parameter of this type is skipped by everyone.
        let net = with_changed_parameter(of, |bytes| bytes[1] = 0x77);
        assert!(net.close_reason(Host::A).is_some());
        assert_eq!(connected(&net, Host::A) + connected(&net, Host::B), 0);
        let aborts = net.wire.iter().filter(|sent| sent.has(ChunkType::ABORT));
        let causes: Vec<_> = aborts.flat_map(Sent::causes).collect();
        assert_eq!(causes, [100]);
    }
}

/// Delivers the handshake of SCTP with the DTLS Key Management parameter of INIT or INIT ACK changed by `change`.
fn with_changed_parameter(of: ChunkType, change: impl Fn(&mut [u8])) -> Net {
    let (mut net, a) = opened(1, 1, &friends());
    net.filter = Box::new(move |packet| if packet.has(of) { Fate::Drop } else { Fate::Deliver });
    net.send(Host::A, a, Message::new(0, TEXT));
    net.run_for(Span::from_millis(100));
    let sent = net.wire.iter().find(|sent| sent.has(of)).expect("it was sent").clone();
    let mut bytes = sent.bytes.clone();
    let at = bytes
        .windows(4)
        .rposition(|part| part[..2] == [0x80, 6] && part[2] == 0 && part[3] == 10)
        .expect("the parameter with one method");
    change(&mut bytes[at..]);
    bytes[8..12].fill(0);
    net.filter = Box::new(|_| Fate::Deliver);
    net.inject(sent.from.other(), sent.remote, sent.local, resealed(bytes));
    net.run_for(Span::from_secs(30));
    net
}

#[test]
fn packets_of_the_handshake_have_no_effect_after_it() {
    let (mut net, _) = opened(1, 1, &friends());
    let ends = connect(&mut net, Span::from_secs(1));
    net.run_for(Span::from_secs(1));
    let recorded = net.wire.clone();
    for sent in recorded.iter().filter(|sent| !sent.has(ChunkType::INIT)) {
        assert!(net.deliver_from(sent.from.other(), sent.meta(), &sent.bytes).is_err());
    }
    assert_eq!(net.close_reason(Host::A), None);
    exchange(&mut net, ends);
}

#[test]
fn users_cannot_send_messages_of_key_management() {
    let reserved = || Message {
        ppid: key_management::PPID,
        ..Message::new(0, TEXT)
    };
    let (mut net, a) = opened(1, 1, &friends());
    let now = net.now;
    assert_eq!(net.a.send(now, a, reserved()), Err(SendError::Reserved));
    let (a, b) = connect(&mut net, Span::from_secs(1));
    let now = net.now;
    assert_eq!(net.a.send(now, a, reserved()), Err(SendError::Reserved));
    assert_eq!(net.b.send(now, b, reserved()), Err(SendError::Reserved));
    // Others may use the number.
    let (mut net, a, _) = Net::established(1, &AssociationConfig::default());
    net.send(Host::A, a, reserved());
    net.run_for(Span::from_millis(100));
    assert_eq!(net.contents(Host::B), [TEXT]);
}

// It is not reported before, and nothing of it can be read.
#[test]
fn nothing_is_read_before_the_end_of_the_handshake() {
    let (mut net, a, b) = in_the_middle(1);
    let now = net.now;
    assert!(net.a.recv(now, a, &mut |_: Payload<'_>| {}).is_none());
    assert!(net.b.recv(now, b, &mut |_: Payload<'_>| {}).is_none());
    assert!(!net.events_of(Host::A).contains(&Event::DataReady));
    assert_eq!(connected(&net, Host::A) + connected(&net, Host::B), 0);
}
