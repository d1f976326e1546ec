//! A change of the UDP port of a peer (RFC 6951 §5.4): a NAT may cause it, and so may a packet that anyone on the peer's host has sent.

use crate::support::{Fate, Host, Net, Sent, addr, addrs, endpoint, meta, packet, port};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, AuthConfig, Event, Message, PathState, TransportAddr};
use whimbrel_wire::{Chunk, ChunkType, HeartbeatInfo, RawChunk};

fn keyed() -> AssociationConfig {
    AssociationConfig {
        auth: AuthConfig::shared_key(b"a shared key of some length"),
        ..AssociationConfig::default()
    }
}

fn both() -> [AssociationConfig; 2] {
    [AssociationConfig::default(), keyed()]
}

const OLD: u16 = 40_000;
const NEW: u16 = 50_000;

fn at_port(port: u16) -> TransportAddr {
    TransportAddr::new(addrs(Host::A, 1)[0].ip(), port)
}

/// The NAT in front of A gives it this port from now on.
fn set_nat(net: &mut Net, port: u16) {
    net.nats = [(addrs(Host::A, 1)[0], at_port(port))].into();
}

/// A behind a NAT has opened an association with B.
fn behind_nat(config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let mut net = Net::with_config(1, config, 1);
    set_nat(&mut net, OLD);
    let a = net.connect(config, 1);
    net.run_for(Span::from_millis(200));
    let b = net.only(Host::B);
    (net, a, b)
}

/// Returns the port to which B sends data.
fn used_port(net: &Net, id: AssocId) -> u16 {
    let association = net.b.association(id).expect("established");
    association.paths().next().expect("a path").remote.port()
}

/// Returns the packets of B to this port since `start`.
fn sent_to(net: &Net, port: u16, start: usize) -> Vec<&Sent> {
    let sent = net.wire[start..].iter();
    sent.filter(|sent| sent.from == Host::B && sent.remote == at_port(port))
        .collect()
}

/// The packet with which an attacker that knows the tag begins: a chunk type that is skipped.
fn junk(net: &Net) -> Vec<u8> {
    let unknown = RawChunk::from_bytes(&[0xbf, 0, 0, 4]).expect("well-formed");
    packet(
        port(Host::A),
        port(Host::B),
        net.tag_of(Host::B),
        &[Chunk::Unknown(unknown)],
    )
}

// [6951:5.1-1, 5.3-2, 5.4-1]
#[test]
fn data_follows_a_nat_that_changes_the_port() {
    for config in both() {
        let (mut net, a, b) = behind_nat(&config);
        for (host, id) in [(Host::A, a), (Host::B, b)] {
            net.send(host, id, Message::zeros(0, 3000));
        }
        net.run_for(Span::from_secs(1));
        set_nat(&mut net, NEW);
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 3000));
        net.send(Host::B, b, Message::zeros(0, 3000));
        net.run_until(Span::from_secs(10), "both messages", |net| {
            net.contents(Host::A).len() == 2 && net.contents(Host::B).len() == 2
        });
        assert_eq!(used_port(&net, b), NEW);
        // The data was lost with the old port: RTO.Min is a second.
        let took = net.now.since(start);
        assert!(took < Span::from_millis(1500), "{took}");
        let failed = |event: &Event| {
            matches!(
                event,
                Event::PathState {
                    state: PathState::Inactive,
                    ..
                }
            )
        };
        assert!(!net.events_of(Host::B).iter().any(failed));
    }
}

/// The same if nothing is sent but heartbeats, and if the first of the packets that verify the ports are lost.
#[test]
fn an_idle_association_follows_a_nat_although_packets_are_lost() {
    for config in both() {
        let (mut net, _, b) = behind_nat(&config);
        set_nat(&mut net, NEW);
        let mut losses = 2;
        net.filter = Box::new(move |packet| {
            let is_first = packet.from == Host::B && packet.has(ChunkType::HEARTBEAT) && losses > 0;
            losses -= u32::from(is_first);
            if is_first { Fate::Drop } else { Fate::Deliver }
        });
        net.run_until(Span::from_secs(60), "the new port", |net| used_port(net, b) == NEW);
        let state = net
            .b
            .association(b)
            .expect("open")
            .paths()
            .next()
            .expect("a path")
            .state;
        assert_eq!(state, PathState::Active);
    }
}

/// B sends, and A only acknowledges: after a few packets A has no reason to send any more. What follows must suffice.
fn follows_for_a_receiver(config: &AssociationConfig, lost_rounds: usize, second_change: Option<Span>) -> Span {
    let (mut net, _, b) = behind_nat(config);
    net.send(Host::B, b, Message::zeros(0, 5000));
    net.run_for(Span::from_secs(1));
    net.send(Host::B, b, Message::zeros(0, 20_000));
    // The first packets of data are under way; their acknowledgements come from the new port.
    net.run_for(Span::from_millis(5));
    set_nat(&mut net, NEW);
    let mut losses = lost_rounds;
    net.filter = Box::new(move |packet| {
        let asked = packet.from == Host::B && packet.remote == at_port(NEW) && packet.has(ChunkType::HEARTBEAT);
        let lost = asked && losses > 0;
        losses -= usize::from(lost);
        if lost { Fate::Drop } else { Fate::Deliver }
    });
    let start = net.now;
    let last = match second_change {
        Some(after) => {
            net.run_until(Span::from_secs(2), "a HEARTBEAT to the new port", |net| {
                !sent_to(net, NEW, 0).is_empty()
            });
            net.run_for(after);
            set_nat(&mut net, NEW + 1);
            NEW + 1
        }
        None => NEW,
    };
    net.run_until(Span::from_secs(25), "the message", |net| {
        net.contents(Host::A).len() == 2
    });
    assert_eq!(used_port(&net, b), last);
    if second_change.is_some() {
        // Its HEARTBEAT was answered from another port: that says nothing about this one.
        let there = sent_to(&net, NEW, 0);
        assert!(
            !there.iter().any(|sent| sent.has(ChunkType::DATA)),
            "data to a port that did not answer"
        );
    }
    net.now.since(start)
}

/// Neither port has answered in time: both are asked again, as the peer may have nothing to send.
#[test]
fn neither_port_answers_at_first() {
    for config in both() {
        for (losses, most) in [(0, 1500), (2, 2500), (4, 4000), (6, 10_000)] {
            let took = follows_for_a_receiver(&config, losses, None);
            assert!(took < Span::from_millis(most), "{losses} lost: {took}");
        }
    }
}

/// The port changes once more before it has answered: the answers come from a third port, and nothing comes afterwards.
#[test]
fn the_port_changes_again_while_it_is_verified() {
    for config in both() {
        for after in [0, 5, 9].map(Span::from_millis) {
            let took = follows_for_a_receiver(&config, 0, Some(after));
            assert!(took < Span::from_millis(4000), "{after}: {took}");
        }
    }
}

/// The port changes while nothing is under way: data times out again and again until the peer's next HEARTBEAT, and then goes on at once.
#[test]
fn data_goes_on_at_once_when_a_silent_peer_is_heard_again() {
    let (mut net, _, b) = behind_nat(&AssociationConfig::default());
    net.send(Host::B, b, Message::zeros(0, 5000));
    net.run_for(Span::from_secs(1));
    set_nat(&mut net, NEW);
    net.send(Host::B, b, Message::zeros(0, 5000));
    net.run_until(Span::from_secs(60), "the new port", |net| used_port(net, b) == NEW);
    let stats = net.b.association(b).expect("open").stats();
    assert!(stats.timeouts >= 4, "{}", stats.timeouts);
    let start = net.now;
    net.run_until(Span::from_secs(60), "the message", |net| {
        net.contents(Host::A).len() == 2
    });
    let took = net.now.since(start);
    assert!(took < Span::from_millis(500), "{took}");
}

/// The peer has moved and has nothing to send, and someone with the right tag sends junk from a new port every 20 ms: the right port, which
/// answers, has its turn. The junk causes few packets.
#[test]
fn junk_does_not_keep_a_silent_peer_from_being_followed() {
    let (mut net, _, b) = behind_nat(&AssociationConfig::default());
    net.send(Host::B, b, Message::zeros(0, 5000));
    net.run_for(Span::from_secs(1));
    net.send(Host::B, b, Message::zeros(0, 20_000));
    net.run_for(Span::from_millis(5));
    set_nat(&mut net, NEW);
    let start = net.now;
    let first = net.wire.len();
    let mut round = 0;
    while net.contents(Host::A).len() < 2 {
        let bytes = junk(&net);
        let from = meta(addrs(Host::B, 1)[0], at_port(NEW + 1 + round % 1000));
        let _ = net.deliver_from(Host::B, from, &bytes);
        net.run_for(Span::from_millis(20));
        round += 1;
        assert!(net.now.since(start) < Span::from_secs(60), "the message");
    }
    assert_eq!(used_port(&net, b), NEW);
    let astray = (NEW + 1..=NEW + 1000).map(|port| sent_to(&net, port, first).len());
    let astray: usize = astray.sum();
    assert!(astray <= usize::from(round), "{astray} packets for {round}");
}

/// Someone on the host of the peer, or behind the same NAT, sends packets with the right tag from ports of its own.
#[test]
fn packets_from_another_port_redirect_nothing() {
    for config in both() {
        let is_keyed = !config.auth.key.is_empty();
        let (mut net, _, b) = behind_nat(&config);
        let start = net.wire.len();
        let mut answers = 0;
        for round in 0..300_u16 {
            if round % 10 == 0 {
                net.send(Host::B, b, Message::zeros(0, 2000));
            }
            let from = meta(addrs(Host::B, 1)[0], at_port(NEW + round % 50));
            let bytes = junk(&net);
            let _ = net.deliver_from(Host::B, from, &bytes);
            net.run_for(Span::from_millis(3));
            // It answers what it receives, as it has no key.
            let asked: Vec<Sent> = net.wire[start + answers..].to_vec();
            answers += asked.len();
            for sent in asked
                .iter()
                .filter(|sent| sent.from == Host::B && sent.remote.port() >= NEW)
            {
                for chunk in sent.chunks() {
                    if let Chunk::Heartbeat(info) = chunk {
                        let tag = net.tag_of(Host::B);
                        let ack = packet(port(Host::A), port(Host::B), tag, &[Chunk::HeartbeatAck(info)]);
                        let _ = net.deliver_from(Host::B, meta(sent.local, sent.remote), &ack);
                    }
                }
            }
        }
        net.run_for(Span::from_secs(5));
        assert_eq!(used_port(&net, b), OLD, "keyed: {is_keyed}");
        assert_eq!(net.contents(Host::A).len(), 30);
        let astray: Vec<Sent> = (NEW..NEW + 50)
            .flat_map(|port| sent_to(&net, port, start))
            .cloned()
            .collect();
        assert!(
            astray
                .iter()
                .all(|sent| !sent.has(ChunkType::DATA) && !sent.has(ChunkType::SACK))
        );
        if is_keyed {
            assert!(astray.is_empty(), "a packet without authentication causes nothing");
        } else {
            assert!(astray.len() <= 30, "{} packets", astray.len());
        }
        // Nothing was lost.
        let stats = net.b.association(b).expect("open").stats();
        assert_eq!((stats.retransmissions, stats.timeouts), (0, 0));
    }
}

/// Recorded packets with valid authentication, from another port: they start the verification, and it fails.
#[test]
fn recorded_packets_from_another_port_redirect_nothing() {
    let (mut net, a, b) = behind_nat(&keyed());
    net.send(Host::A, a, Message::zeros(0, 5000));
    net.send(Host::B, b, Message::zeros(0, 5000));
    net.run_for(Span::from_secs(61));
    let recorded: Vec<Sent> = net.wire.iter().filter(|sent| sent.from == Host::A).cloned().collect();
    assert!(recorded.iter().any(|sent| sent.has(ChunkType::HEARTBEAT_ACK)));
    let start = net.wire.len();
    for sent in recorded.iter().filter(|sent| !sent.has(ChunkType::INIT)) {
        let _ = net.deliver_from(Host::B, meta(sent.remote, at_port(NEW)), &sent.bytes);
        net.run_for(Span::from_millis(40));
        // What B sends to the old port, sent on to it once more by the attacker; and answers of A from the wrong port.
        let answer = net.wire[start..]
            .iter()
            .rfind(|sent| sent.from == Host::A && sent.has(ChunkType::HEARTBEAT_ACK));
        if let Some(answer) = answer.cloned() {
            let _ = net.deliver_from(Host::B, meta(answer.remote, at_port(NEW)), &answer.bytes);
        }
        let asked = sent_to(&net, NEW, start)
            .into_iter()
            .rfind(|sent| sent.has(ChunkType::HEARTBEAT));
        if let Some(asked) = asked.cloned() {
            net.inject(Host::A, addrs(Host::A, 1)[0], asked.local, asked.bytes);
        }
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(used_port(&net, b), OLD);
    assert!(sent_to(&net, NEW, start).iter().all(|sent| !sent.has(ChunkType::DATA)));
}

/// A COOKIE ECHO from another port than the INIT: COOKIE ACK goes to its source, data to the port to which the INIT ACK was sent.
#[test]
fn a_cookie_from_another_port_does_not_move_the_path() {
    for config in both() {
        let mut net = Net::with_config(1, &config, 1);
        set_nat(&mut net, OLD);
        net.connect(&config, 1);
        net.run_for(Span::from_millis(15));
        net.filter = Box::new(|packet| {
            if packet.has(ChunkType::COOKIE_ECHO) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        net.run_for(Span::from_millis(20));
        let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
        net.filter = Box::new(|_| Fate::Deliver);
        let start = net.wire.len();
        net.deliver_from(Host::B, meta(echo.remote, at_port(NEW)), &echo.bytes)
            .expect("accepted");
        let b = net.only(Host::B);
        net.send(Host::B, b, Message::zeros(0, 100));
        net.run_for(Span::from_secs(4));
        assert_eq!(used_port(&net, b), OLD);
        let astray = sent_to(&net, NEW, start);
        assert!(astray.iter().any(|sent| sent.has(ChunkType::COOKIE_ACK)));
        assert!(astray.iter().all(|sent| !sent.has(ChunkType::DATA)));
        assert_eq!(net.contents(Host::A).len(), 1, "the peer has repeated its COOKIE ECHO");
    }
}

/// A HEARTBEAT is answered where it came from (RFC 9260 §8.3): the peer verifies its path behind another NAT without waiting.
#[test]
fn a_heartbeat_is_answered_at_its_port() {
    let (mut net, _, _) = behind_nat(&AssociationConfig::default());
    let start = net.wire.len();
    let ping = [Chunk::Heartbeat(HeartbeatInfo(b"verification"))];
    let bytes = packet(port(Host::A), port(Host::B), net.tag_of(Host::B), &ping);
    net.deliver_from(Host::B, meta(addrs(Host::B, 1)[0], at_port(NEW)), &bytes)
        .expect("accepted");
    let answers = sent_to(&net, NEW, start);
    assert_eq!(answers.first().expect("an answer").types(), [ChunkType::HEARTBEAT_ACK]);
}

/// Packets without authentication do not keep an association waiting for SHUTDOWN ACK.
#[test]
fn unauthenticated_packets_do_not_prolong_a_shutdown() {
    let (mut net, _, b) = behind_nat(&keyed());
    let bytes = junk(&net);
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let now = net.now;
    net.b.shutdown(now, b);
    net.drain(Host::B);
    for _ in 0..200 {
        let _ = net.deliver_from(Host::B, meta(addrs(Host::B, 1)[0], at_port(OLD)), &bytes);
        net.run_for(Span::from_millis(500));
    }
    let shutdowns = net.sent(Host::B, ChunkType::SHUTDOWN).len();
    assert!(shutdowns >= 6, "T2-shutdown has expired {shutdowns} times");
}

/// The peer has moved to another host that has the same SCTP port: nothing of this association goes there.
#[test]
fn another_host_is_not_followed() {
    let (mut net, _, b) = behind_nat(&AssociationConfig::default());
    let bytes = junk(&net);
    let start = net.wire.len();
    let other = addr("10.9.9.9:40000");
    let _ = net.deliver_from(Host::B, meta(addrs(Host::B, 1)[0], other), &bytes);
    net.run_for(Span::from_secs(3));
    assert!(net.wire[start..].iter().all(|sent| sent.remote != other));
    assert_eq!(used_port(&net, b), OLD);
    net.a = endpoint(Host::A, 1, &AssociationConfig::default(), 3);
}
