//! Limits of the state that peers can create: message length, associations in total and per address, silent associations.

use crate::support::{Fate, Host, Net, addr, addrs, data, init, packet};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssociationConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, Message, PacketMeta, State,
};
use whimbrel_wire::{Chunk, ChunkType, Data, Tsn};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

/// Returns a network in which B has other limits.
pub(crate) fn limited(change: impl FnOnce(&mut EndpointConfig)) -> Net {
    let mut net = Net::new(1);
    let mut limits = EndpointConfig {
        local_port: 4002,
        local_addrs: addrs(Host::B, 1),
        listen: true,
        ..EndpointConfig::default()
    };
    change(&mut limits);
    net.b = Endpoint::new(limits, Box::new(Rng::stream(1, "b"))).expect("valid");
    net
}

pub(crate) fn from(ip: &str) -> PacketMeta {
    crate::support::meta(addrs(Host::B, 1)[0], addr(&format!("{ip}:0")))
}

/// Performs a handshake with B by hand from any address and port. Returns whether B has accepted it. `more` is bundled with the COOKIE
/// ECHO.
pub(crate) fn handshake(net: &mut Net, ip: &str, source_port: u16, more: &[Chunk<'_>]) -> bool {
    net.wire.clear();
    // The tag changes with time: a peer that opens an association again has restarted.
    let tag = 7 + u32::try_from(net.now.as_nanos() / 1_000_000_000).expect("a short test");
    let opening = packet(source_port, 4002, 0, &[Chunk::Init(init(tag, &[]))]);
    if net.deliver_from(Host::B, from(ip), &opening).is_err() {
        return false;
    }
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let mut chunks = vec![Chunk::CookieEcho { cookie: &cookie }];
    chunks.extend_from_slice(more);
    let echo = packet(source_port, 4002, answer.init().initiate_tag, &chunks);
    net.deliver_from(Host::B, from(ip), &echo).is_ok()
}

pub(crate) fn live(net: &Net) -> usize {
    net.b.associations().count()
}

fn fragment(tsn: u32, begin: bool, payload: &[u8]) -> Data<'_> {
    Data {
        begin,
        end: false,
        ..data(tsn, 0, payload)
    }
}

#[test]
fn a_message_is_refused_as_soon_as_its_parts_exceed_the_limit() {
    for (limit, accepted) in [(2999, 2), (3000, 3)] {
        let limits = AssociationConfig {
            max_message: Some(limit),
            ..config()
        };
        let (mut net, _, b) = Net::established(1, &limits);
        let tag = net.tag_of(Host::B);
        let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
        let payload = [7; 1000];
        for part in 0..3 {
            assert_eq!(
                net.b.association(b).expect("established").buffered_receive(),
                part * 1000
            );
            let part = part as u32;
            let chunk = Chunk::Data(fragment(tsn.wrapping_add(part), part == 0, &payload));
            let result = net.forge(Host::B, tag, &[chunk]);
            assert_eq!(result.is_ok(), part < accepted, "part {part} of {limit}");
        }
        let expected = (accepted == 2).then_some(CloseReason::OverLimit("a message is too long"));
        assert_eq!(net.close_reason(Host::B), expected);
        if accepted == 2 {
            assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [12]);
        }
    }
}

#[test]
fn a_message_delivered_in_parts_is_refused_when_it_exceeds_the_limit() {
    let limits = AssociationConfig {
        recv_buffer: 20_000,
        send_buffer: 200_000,
        max_message: Some(100_000),
        ..config()
    };
    for (len, fits) in [(100_000, true), (100_001, false)] {
        let mut net = Net::with_config(1, &limits, 1);
        let sender = AssociationConfig {
            max_message: None,
            ..limits.clone()
        };
        let a = net.connect(&sender, 1);
        net.send(Host::A, a, Message::zeros(0, len));
        net.run_for(Span::from_secs(20));
        let lengths: Vec<_> = net.contents(Host::B).iter().map(Vec::len).collect();
        let reason = net.close_reason(Host::B);
        if fits {
            assert_eq!((lengths, reason), (vec![100_000], None));
        } else {
            assert_eq!(lengths.len(), 0);
            assert_eq!(reason, Some(CloseReason::OverLimit("a message is too long")));
        }
    }
}

#[test]
fn parts_of_a_message_that_arrive_in_any_order_count_alike() {
    let limits = AssociationConfig {
        max_message: Some(2500),
        ..config()
    };
    for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1]] {
        let (mut net, _, _) = Net::established(1, &limits);
        let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn;
        let tag = net.tag_of(Host::B);
        let payload = [7; 1000];
        let results = order.map(|part| {
            let chunk = Chunk::Data(Data {
                tsn: Tsn(tsn.0.wrapping_add(part)),
                ..fragment(0, part == 0, &payload)
            });
            net.forge(Host::B, tag, &[chunk])
        });
        assert_eq!(results, [Ok(()), Ok(()), Err(Discard::Limit)], "{order:?}");
    }
}

// [9260:5.1-15, 5.1-16, 5.1-17]
#[test]
fn an_address_at_its_limit_is_refused_and_others_are_not() {
    let mut net = limited(|limits| limits.max_associations_per_address = 3);
    for port in 1..=3 {
        assert!(handshake(&mut net, "10.0.0.1", port, &[]));
    }
    assert!(
        !handshake(&mut net, "10.0.0.1", 4, &[]),
        "refused without a timeout for silence"
    );
    let refusal = net.last(Host::B, ChunkType::ABORT);
    assert_eq!(
        (refusal.causes(), refusal.tag(), refusal.is_reflected()),
        (vec![4], 7, false)
    );
    assert!(handshake(&mut net, "10.0.0.9", 1, &[]));
    assert_eq!(live(&net), 4);
    // An association that ends makes room.
    let first = net.b.associations().next().expect("there are some");
    let now = net.now;
    net.b.abort(now, first, "");
    net.drain(Host::B);
    assert!(handshake(&mut net, "10.0.0.1", 5, &[]));
}

// [9260:5.1-15, 5.1-16, 5.1-17]
#[test]
fn a_cookie_echo_is_refused_if_the_limit_was_reached_after_its_init() {
    let mut net = limited(|limits| limits.max_associations = 1);
    let cookies: Vec<_> = (1..=2)
        .map(|source_port| {
            let opening = packet(source_port, 4002, 0, &[Chunk::Init(init(7, &[]))]);
            net.deliver_from(Host::B, from("10.0.0.1"), &opening).expect("answered");
            let answer = net.last(Host::B, ChunkType::INIT_ACK);
            let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
            (source_port, answer.init().initiate_tag, cookie)
        })
        .collect();
    let results: Vec<_> = cookies
        .iter()
        .map(|(source_port, tag, cookie)| {
            let echo = packet(*source_port, 4002, *tag, &[Chunk::CookieEcho { cookie }]);
            net.deliver_from(Host::B, from("10.0.0.1"), &echo)
        })
        .collect();
    assert_eq!(results, [Ok(()), Err(Discard::Limit)]);
    let refusal = net.last(Host::B, ChunkType::ABORT);
    assert_eq!((refusal.causes(), refusal.tag()), (vec![4], 7));
}

#[test]
fn the_oldest_silent_association_is_aborted_for_a_new_one() {
    let timeout = Span::from_secs(30);
    for by_address in [true, false] {
        let mut net = limited(|limits| {
            limits.first_message_timeout = Some(timeout);
            if by_address {
                limits.max_associations_per_address = 8;
            } else {
                limits.max_associations = 8;
            }
        });
        assert!(handshake(
            &mut net,
            "10.0.0.1",
            1,
            &[Chunk::Data(data(1000, 0, b"a message"))]
        ));
        for port in 2..10_000 {
            assert!(handshake(&mut net, "10.0.0.1", port, &[]), "{port}");
            assert!(live(&net) <= 8);
        }
        // The association with a message has outlived ten thousand without.
        assert_eq!(net.contents(Host::B), [b"a message"]);
        let (first, later): (Vec<_>, Vec<_>) = net
            .b
            .associations()
            .map(|id| net.b.association(id).expect("established").peer_port())
            .partition(|port| *port == 1);
        assert_eq!((first.len(), later.len()), (1, 7));
        assert!(later.iter().all(|port| *port > 9_990), "{later:?}");
        let reason = net.close_reason(Host::B);
        assert_eq!(reason, Some(CloseReason::OverLimit("associations without a message")));
    }
}

#[test]
fn associations_with_messages_are_not_aborted_for_new_ones() {
    for by_address in [true, false] {
        let mut net = limited(|limits| {
            limits.first_message_timeout = Some(Span::from_secs(30));
            if by_address {
                limits.max_associations_per_address = 3;
            } else {
                limits.max_associations = 3;
            }
        });
        // Nothing answers for the peers.
        net.filter = Box::new(|_| Fate::Drop);
        let tags = [1, 2, 3].map(|port| {
            let message = Chunk::Data(data(1000, 0, b"x"));
            assert!(handshake(&mut net, "10.0.0.1", port, &[message]));
            net.last(Host::B, ChunkType::INIT_ACK).init().initiate_tag
        });
        // Also after the time in which a first message has to come.
        for port in 4..100 {
            net.run_for(Span::from_secs(1));
            assert!(!handshake(&mut net, "10.0.0.1", port, &[]));
            let aborts = net.sent(Host::B, ChunkType::ABORT);
            let aborts: Vec<_> = aborts.iter().map(|sent| (sent.ports().1, sent.causes())).collect();
            assert_eq!(aborts, [(port, vec![4])], "the newcomer alone");
        }
        assert_eq!(net.close_reason(Host::B), None);
        let left: Vec<_> = net.b.associations().collect();
        let peers: Vec<_> = left
            .iter()
            .map(|id| net.b.association(*id).expect("it is there"))
            .map(|association| (association.peer_port(), association.state()))
            .collect();
        assert_eq!(peers, [1, 2, 3].map(|port| (port, State::Established)));
        // They still take messages.
        for (port, tag) in (1..).zip(tags) {
            let second = packet(port, 4002, tag, &[Chunk::Data(data(1001, 1, b"y"))]);
            assert_eq!(net.deliver_from(Host::B, from("10.0.0.1"), &second), Ok(()));
        }
        net.drain(Host::B);
        assert_eq!(net.contents(Host::B).len(), 6);
    }
}

// The peer sends its COOKIE ECHO again (T1-cookie), and is not connected before there is a place.
#[test]
fn a_cookie_echo_is_dropped_silently_while_the_backlog_is_full() {
    let mut net = limited(|limits| limits.backlog = Some(2));
    for port in 1..=2 {
        assert!(handshake(&mut net, "10.0.0.1", port, &[]));
    }
    let a = net.connect(&config(), 1);
    net.wire.clear();
    net.run_for(Span::from_millis(3500));
    assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    assert_eq!((live(&net), net.count(Host::B, ChunkType::ABORT)), (2, 0));
    let replies: Vec<_> = net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::B)
        .map(|sent| sent.types())
        .collect();
    assert_eq!(replies, [[ChunkType::INIT_ACK]]);
    assert_eq!(net.sent(Host::A, ChunkType::COOKIE_ECHO).len(), 3, "at 0, 1 and 3 s");
    net.b.on_taken();
    net.run_for(Span::from_secs(4));
    assert_eq!(net.state(Host::A, a), State::Established);
    assert_eq!(live(&net), 3);
    // One was taken, so that there is a place for one.
    assert!(!handshake(&mut net, "10.0.0.1", 3, &[]));
}

// [9260:8.4-4]
#[test]
fn an_endpoint_that_has_stopped_listening_refuses_init_and_cookie_echo() {
    let mut net = limited(|_| {});
    assert!(handshake(&mut net, "10.0.0.1", 1, &[]));
    let opening = packet(2, 4002, 0, &[Chunk::Init(init(7, &[]))]);
    net.deliver_from(Host::B, from("10.0.0.1"), &opening).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    net.b.stop_listening();
    let echo = packet(
        2,
        4002,
        answer.init().initiate_tag,
        &[Chunk::CookieEcho { cookie: &cookie }],
    );
    for refused in [echo, packet(3, 4002, 0, &[Chunk::Init(init(7, &[]))])] {
        net.wire.clear();
        let result = net.deliver_from(Host::B, from("10.0.0.1"), &refused);
        assert_eq!(result, Err(Discard::NotListening));
        let abort = net.last(Host::B, ChunkType::ABORT);
        assert_eq!((abort.tag(), abort.is_reflected()), (7, false));
    }
    assert_eq!(live(&net), 1, "the one from before");
}

#[test]
fn acknowledged_data_counts_like_a_first_message() {
    let mut net = limited(|limits| limits.first_message_timeout = Some(Span::from_secs(5)));
    let (a, other) = (net.connect(&config(), 1), addr("10.0.0.7:0"));
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    // A peer that does not acknowledge what it is sent is silent.
    assert!(handshake(&mut net, "10.0.0.7", 1, &[]));
    let silent = net.b.associations().find(|id| *id != b).expect("accepted");
    net.filter = Box::new(move |packet| {
        if packet.remote == other {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for id in [b, silent] {
        net.send(Host::B, id, Message::new(0, &b"greeting"[..]));
    }
    net.run_for(Span::from_secs(60));
    assert_eq!(net.state(Host::B, silent), State::Closed);
    assert_eq!(
        (net.state(Host::B, b), net.state(Host::A, a)),
        (State::Established, State::Established)
    );
}

#[test]
fn a_peer_learns_why_it_was_aborted() {
    let mut net = limited(|limits| limits.first_message_timeout = Some(Span::from_secs(5)));
    net.connect(&config(), 1);
    net.run_for(Span::from_secs(6));
    let reason = net.close_reason(Host::A).expect("aborted");
    let expected = CloseReason::AbortedByPeer {
        cause: Some(4),
        reason: "no message in time".to_owned(),
    };
    assert_eq!(reason, expected);
    assert_eq!(
        reason.to_string(),
        "aborted by the peer: out of resource: no message in time"
    );
}

#[test]
fn a_peer_without_a_message_is_aborted_in_time() {
    let mut net = limited(|limits| limits.first_message_timeout = Some(Span::from_secs(5)));
    let unfinished = [3; 100];
    assert!(handshake(&mut net, "10.0.0.1", 1, &[]));
    assert!(handshake(
        &mut net,
        "10.0.0.1",
        2,
        &[Chunk::Data(fragment(1000, true, &unfinished))]
    ));
    assert!(handshake(&mut net, "10.0.0.1", 3, &[Chunk::Data(data(1000, 0, b"x"))]));
    let start = net.now;
    net.run_for(Span::from_millis(4_900));
    assert_eq!(live(&net), 3);
    net.run_for(Span::from_millis(200));
    let left: Vec<_> = net.b.associations().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(net.b.association(left[0]).map(|left| left.peer_port()), Some(3));
    let aborts: Vec<_> = net
        .sent(Host::B, ChunkType::ABORT)
        .iter()
        .map(|sent| (sent.at.since(start), sent.causes()))
        .collect();
    let causes = vec![4, 12];
    assert_eq!(
        aborts,
        [(Span::from_secs(5), causes.clone()), (Span::from_secs(5), causes)]
    );
    let reasons = net
        .events_of(Host::B)
        .into_iter()
        .filter(|event| *event == Event::Closed(CloseReason::OverLimit("no message in time")));
    assert_eq!(reasons.count(), 2);
}

#[test]
fn a_restart_does_not_extend_the_deadline_of_a_silent_peer() {
    let mut net = limited(|limits| limits.first_message_timeout = Some(Span::from_secs(5)));
    assert!(handshake(&mut net, "10.0.0.1", 1, &[]));
    net.run_for(Span::from_secs(3));
    assert!(handshake(&mut net, "10.0.0.1", 1, &[]), "the peer restarts");
    assert_eq!(live(&net), 1);
    net.run_for(Span::from_millis(2_100));
    assert_eq!(live(&net), 0);
}

#[test]
fn received_data_is_counted_over_all_associations() {
    let mut net = limited(|_| ());
    net.auto_read = false;
    assert_eq!(net.b.receive_memory(), 0);
    for port in 1..=10 {
        let payload = [1; 1000];
        assert!(handshake(
            &mut net,
            "10.0.0.1",
            port,
            &[Chunk::Data(data(1000, 0, &payload))]
        ));
    }
    let held = net.b.receive_memory();
    assert!((10_000..20_000).contains(&held), "{held}");
    let sum: usize = net
        .b
        .associations()
        .filter_map(|id| net.b.association(id))
        .map(|a| a.receive_memory())
        .sum();
    assert_eq!(held, sum);
    let now = net.now;
    let all: Vec<_> = net.b.associations().collect();
    for id in &all {
        assert!(net.b.recv(now, *id, &mut |_| ()).is_some());
    }
    net.b.release_memory();
    assert_eq!(net.b.receive_memory(), 0);
    // Unread data counts until it is read, even after the end of the association.
    for id in all {
        net.b.abort(now, id, "");
    }
    net.drain(Host::B);
    assert_eq!((net.b.receive_memory(), live(&net)), (0, 0));
}

// [9260:8.4-2, 8.4-3, 8.4-4, 8.4-5, 8.4-7, 8.4-8, 8.4-9, 8.4-11]
#[test]
fn section_8_4_unused_ports_are_answered_if_configured() {
    use whimbrel_wire::{Causes, HeartbeatInfo};
    let nothing = Causes::from_wire_bytes(&[]);
    let answer = |tag: u32, chunk: Chunk<'_>, change: &dyn Fn(&mut EndpointConfig)| {
        let mut net = limited(|limits| {
            limits.answer_all_ports = true;
            change(limits);
        });
        let bytes = packet(4001, 4003, tag, &[chunk]);
        assert_eq!(net.deliver(Host::B, &bytes), Err(Discard::NotForUs));
        let sent = net
            .sent(Host::B, ChunkType::ABORT)
            .into_iter()
            .chain(net.sent(Host::B, ChunkType::SHUTDOWN_COMPLETE));
        sent.map(|sent| (sent.types()[0], sent.tag(), sent.is_reflected()))
            .collect::<Vec<_>>()
    };
    let ours = &|_: &mut EndpointConfig| ();
    let (abort, complete) = (ChunkType::ABORT, ChunkType::SHUTDOWN_COMPLETE);
    assert_eq!(answer(0, Chunk::Init(init(7, &[])), ours), [(abort, 7, false)]);
    assert_eq!(answer(77, Chunk::Data(data(1, 0, b"x")), ours), [(abort, 77, true)]);
    assert_eq!(
        answer(77, Chunk::Heartbeat(HeartbeatInfo(b"x")), ours),
        [(abort, 77, true)]
    );
    assert_eq!(answer(77, Chunk::ShutdownAck, ours), [(complete, 77, true)]);
    for silent in [
        Chunk::Abort {
            tag_reflected: false,
            causes: nothing,
        },
        Chunk::Abort {
            tag_reflected: true,
            causes: nothing,
        },
        Chunk::ShutdownComplete { tag_reflected: false },
        Chunk::CookieAck,
        Chunk::CookieEcho {
            cookie: b"not a chunk of this endpoint",
        },
    ] {
        assert_eq!(answer(77, silent, ours), [], "{silent:?}");
    }
    assert_eq!(answer(0, Chunk::Data(data(1, 0, b"x")), ours), [], "a tag of zero");
    let shared = &|limits: &mut EndpointConfig| limits.answer_all_ports = false;
    assert_eq!(answer(0, Chunk::Init(init(7, &[])), shared), []);
    let quiet = &|limits: &mut EndpointConfig| limits.answer_out_of_the_blue = false;
    assert_eq!(answer(0, Chunk::Init(init(7, &[])), quiet), []);
}

#[test]
fn replies_for_other_ports_are_bounded() {
    let mut net = limited(|limits| {
        limits.answer_all_ports = true;
        limits.max_pending_replies = 10;
    });
    let now = net.now;
    for port in 5000..6000 {
        let bytes = packet(4001, port, 0, &[Chunk::Init(init(7, &[]))]);
        let _ = net.b.handle_datagram(now, from("10.0.0.1"), &bytes);
    }
    net.drain(Host::B);
    assert_eq!(net.sent(Host::B, ChunkType::ABORT).len(), 10);
    assert_eq!(net.b.stats().replies_dropped, 990);
}

#[test]
fn unassociated_packets_of_one_address_are_limited_per_window() {
    use whimbrel_wire::HeartbeatInfo;
    // 100 ms are a tenth of a second: 10 packets.
    let mut net = limited(|limits| {
        limits.max_unassociated_per_address = Some(100);
        limits.answer_all_ports = true;
    });
    let beat = Chunk::Heartbeat(HeartbeatInfo(b"x"));
    for (port, tag, chunk) in [(4002, 0, Chunk::Init(init(7, &[]))), (4002, 77, beat), (4003, 77, beat)] {
        for ip in ["10.0.0.1", "10.0.0.9"] {
            net.wire.clear();
            let bytes = packet(4001, port, tag, &[chunk]);
            for _ in 0..50 {
                let _ = net.deliver_from(Host::B, from(ip), &bytes);
            }
            assert_eq!(net.wire.len(), 10, "{port} {chunk:?} {ip}");
        }
        // The next window.
        net.now += Span::from_millis(100);
    }
    // An association is not affected.
    assert!(handshake(&mut net, "10.0.0.1", 1, &[]));
    let tag = net
        .wire
        .iter()
        .rev()
        .find(|sent| sent.has(ChunkType::INIT_ACK))
        .expect("one")
        .init()
        .initiate_tag;
    let bytes = packet(1, 4002, tag, &[Chunk::Heartbeat(HeartbeatInfo(b"x"))]);
    for _ in 0..50 {
        assert_eq!(net.deliver_from(Host::B, from("10.0.0.1"), &bytes), Ok(()));
    }
}

#[test]
fn unassociated_packets_of_all_addresses_are_limited_together() {
    let mut net = limited(|limits| limits.max_unassociated = Some(1000));
    assert!(handshake(&mut net, "10.0.0.1", 1, &[]));
    let tag = net.last(Host::B, ChunkType::INIT_ACK).init().initiate_tag;
    let cookie = vec![3; 100];
    let packets = [
        packet(9, 4002, 0, &[Chunk::Init(init(7, &[]))]),
        packet(9, 4002, 77, &[Chunk::CookieEcho { cookie: &cookie }]),
        packet(9, 4002, 77, &[Chunk::ShutdownAck]),
    ];
    for window in 1..=3 {
        net.now += Span::from_millis(10);
        net.wire.clear();
        let mut results = Vec::new();
        for bytes in &packets {
            let all: Vec<_> = (0..200)
                .map(|host| net.deliver_from(Host::B, from(&format!("10.{window}.1.{host}")), bytes))
                .collect();
            let flood = all.iter().filter(|result| **result == Err(Discard::Flood)).count();
            results.push((flood, all[0]));
        }
        let expected = [
            (190, Ok(())),
            (190, Err(Discard::Cookie)),
            (199, Err(Discard::OutOfTheBlue)),
        ];
        assert_eq!(results, expected, "10, 10 and 1 in 10 ms");
        assert_eq!(net.wire.len(), 11, "answers to INIT and SHUTDOWN ACK");
        // Those of the association are not limited, nor by it.
        let beat = packet(1, 4002, tag, &[Chunk::Heartbeat(whimbrel_wire::HeartbeatInfo(b"x"))]);
        for _ in 0..300 {
            assert_eq!(net.deliver_from(Host::B, from("10.0.0.1"), &beat), Ok(()));
        }
    }
    assert_eq!(net.b.stats().discarded[Discard::Flood as usize], 3 * (190 + 190 + 199));
}
