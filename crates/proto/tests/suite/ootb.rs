//! Packets that belong to no association, or to one but with the wrong tag, port, checksum or bundling (RFC 9260 §6.8, §6.10, §8.4, §8.5).

use crate::support::{
    Fate, Host, Net, Sent, addr, addrs, causes, data, endpoint, init, meta, packet, parameters, resealed,
};
use whimbrel_control::Span;
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Endpoint, EndpointConfig, PacketMeta, PathState, State,
};
use whimbrel_wire::{Cause, Causes, Chunk, ChunkType, DuplicateTsns, GapBlocks, HeartbeatInfo, Parameter, Sack, Tsn};

/// Passes a packet with tag 77 to B, which has no association. Returns B's replies.
fn out_of_the_blue(chunks: &[Chunk<'_>]) -> Vec<Sent> {
    let mut net = Net::new(1);
    assert_eq!(net.forge(Host::B, 77, chunks), Err(Discard::OutOfTheBlue));
    assert_eq!((net.b.associations().count(), net.b.next_timeout()), (0, None));
    for sent in &net.wire {
        assert_eq!((sent.tag(), sent.is_reflected()), (77, true));
        assert_eq!((sent.local, sent.remote), (addrs(Host::B, 1)[0], addrs(Host::A, 1)[0]));
    }
    net.wire
}

fn abort<'a>(tag_reflected: bool) -> Chunk<'a> {
    Chunk::Abort {
        tag_reflected,
        causes: Causes::from_wire_bytes(&[]),
    }
}

// [9260:8.4-1]
#[test]
fn section_8_4_rule_1_packets_with_a_non_unicast_address_are_discarded() {
    for (local, remote) in [
        ("10.0.0.2:0", "224.0.0.1:0"),
        ("10.0.0.2:0", "255.255.255.255:0"),
        ("10.0.0.2:0", "0.0.0.0:0"),
        ("224.0.0.1:0", "10.0.0.1:0"),
        ("[ff02::1]:0", "[2001:db8::1]:0"),
    ] {
        let mut net = Net::new(1);
        for chunk in [
            Chunk::ShutdownAck,
            Chunk::Init(init(5, &[])),
            Chunk::Data(data(1, 0, b"x")),
        ] {
            let tag = if matches!(chunk, Chunk::Init(_)) { 0 } else { 77 };
            let bytes = packet(4001, 4002, tag, &[chunk]);
            let result = net.deliver_from(Host::B, meta(addr(local), addr(remote)), &bytes);
            assert_eq!(
                (result, net.wire.len()),
                (Err(Discard::OutOfTheBlue), 0),
                "{remote} to {local}"
            );
        }
    }
}

// [9260:8.4-2, 9.1-4]
// [9260:3.3.7-3]
#[test]
fn section_8_4_rule_2_an_abort_is_discarded() {
    assert!(out_of_the_blue(&[abort(false)]).is_empty());
    assert!(out_of_the_blue(&[abort(true)]).is_empty());
    assert!(out_of_the_blue(&[Chunk::ShutdownAck, abort(false)]).is_empty());
}

// [9260:3.3.7-3]
#[test]
fn section_3_3_7_an_abort_with_an_impossible_length_is_discarded() {
    let mut bytes = packet(4001, 4002, 77, &[abort(false)]);
    for length in [0, 3, 5] {
        bytes[15] = length;
        let mut net = Net::new(1);
        let result = net.deliver(Host::B, &resealed(bytes.clone()));
        assert_eq!((result, net.wire.len()), (Err(Discard::Malformed), 0), "{length}");
    }
}

// [9260:8.4-3, 8.4-4]
#[test]
fn section_8_4_rule_3_an_init_is_processed_normally() {
    let mut net = Net::new(1);
    net.forge(Host::B, 0, &[Chunk::Init(init(5, &[]))]).expect("answered");
    assert_eq!(net.wire[0].types(), [ChunkType::INIT_ACK]);
    // A does not accept associations.
    assert_eq!(
        net.forge(Host::A, 0, &[Chunk::Init(init(5, &[]))]),
        Err(Discard::NotListening)
    );
    let refusal = net.last(Host::A, ChunkType::ABORT);
    assert_eq!((refusal.tag(), refusal.is_reflected()), (5, false));
}

// [9260:8.4-5, 8.4-12]
#[test]
fn section_8_4_rule_4_a_cookie_echo_as_first_chunk_is_processed_normally() {
    let mut net = Net::new(1);
    net.forge(Host::B, 0, &[Chunk::Init(init(5, &[]))]).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let tag = answer.init().initiate_tag;
    let echo = Chunk::CookieEcho { cookie: &cookie };
    // If it is not the first chunk, the packet is out of the blue.
    assert_eq!(
        net.forge(Host::B, tag, &[Chunk::Data(data(1000, 0, b"x")), echo]),
        Err(Discard::OutOfTheBlue)
    );
    assert_eq!(net.b.associations().count(), 0);
    net.forge(Host::B, tag, &[echo, Chunk::Data(data(1000, 0, b"x"))])
        .expect("accepted");
    assert_eq!(net.contents(Host::B), [b"x"]);
}

// [9260:8.4-6, 8.4-7, 8.5.1-9, 3.1-5]
#[test]
fn section_8_4_rule_5_a_shutdown_ack_is_answered_with_shutdown_complete() {
    let answers = out_of_the_blue(&[Chunk::ShutdownAck]);
    assert_eq!(
        answers.iter().map(Sent::types).collect::<Vec<_>>(),
        [[ChunkType::SHUTDOWN_COMPLETE]]
    );
}

// [9260:8.4-8]
#[test]
fn section_8_4_rule_6_a_shutdown_complete_is_discarded() {
    for tag_reflected in [false, true] {
        assert!(out_of_the_blue(&[Chunk::ShutdownComplete { tag_reflected }]).is_empty());
    }
}

// [9260:8.4-9]
#[test]
fn section_8_4_rule_7_a_stale_cookie_error_or_a_cookie_ack_is_discarded() {
    let stale = causes(&[Cause::OutOfResource, Cause::StaleCookie { staleness_us: 1 }]);
    let error = |list| Chunk::Error {
        causes: Causes::from_wire_bytes(list),
    };
    assert!(out_of_the_blue(&[error(&stale)]).is_empty());
    assert!(out_of_the_blue(&[Chunk::CookieAck]).is_empty());
    let other = causes(&[Cause::OutOfResource]);
    assert_eq!(out_of_the_blue(&[error(&other)]).len(), 1, "rule 8 for other errors");
}

// [9260:8.4-10, 8.4-11, 8.4-12, 6-3, 6-6, 8.5.1-5]
#[test]
fn section_8_4_rule_8_other_chunks_are_answered_with_abort() {
    let unknown = whimbrel_wire::RawChunk::from_bytes(&[0xfe, 0, 0, 4]).expect("a chunk of an unknown type");
    for chunk in [
        Chunk::Data(data(1, 0, b"x")),
        Chunk::Sack(Sack {
            congestion_indicated: false,
            packets: 0,
            cumulative_tsn_ack: Tsn(1),
            a_rwnd: 65_536,
            gaps: GapBlocks::from_wire_bytes(&[]),
            duplicates: DuplicateTsns::from_wire_bytes(&[]),
        }),
        Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(1),
        },
        Chunk::Heartbeat(HeartbeatInfo(b"?")),
        Chunk::HeartbeatAck(HeartbeatInfo(b"?")),
        Chunk::InitAck(init(5, &[])),
        Chunk::Unknown(unknown),
    ] {
        let answers = out_of_the_blue(&[chunk]);
        assert_eq!(
            answers.iter().map(Sent::types).collect::<Vec<_>>(),
            [[ChunkType::ABORT]],
            "{chunk:?}"
        );
    }
}

#[test]
fn section_8_4_replies_can_be_disabled_for_shared_addresses() {
    let mut net = Net::new(1);
    let quiet = EndpointConfig {
        local_port: 4002,
        local_addrs: addrs(Host::B, 1),
        answer_out_of_the_blue: false,
        ..EndpointConfig::default()
    };
    net.b = Endpoint::new(quiet, Box::new(whimbrel_control::Rng::stream(1, "b"))).expect("valid");
    assert_eq!(
        net.forge(Host::B, 77, &[Chunk::ShutdownAck]),
        Err(Discard::OutOfTheBlue)
    );
    assert_eq!(
        net.forge(Host::B, 77, &[Chunk::Data(data(1, 0, b"x"))]),
        Err(Discard::OutOfTheBlue)
    );
    assert_eq!(
        net.forge(Host::B, 0, &[Chunk::Init(init(5, &[]))]),
        Err(Discard::NotListening)
    );
    assert!(net.wire.is_empty());
}

fn established() -> (Net, AssocId, AssocId) {
    Net::established(1, &AssociationConfig::default())
}

// [9260:8.5-1, 8.5-2, 8.5-3]
#[test]
fn section_8_5_a_wrong_tag_is_silently_dropped() {
    let (mut net, _, b) = established();
    let tag = net.tag_of(Host::B);
    let before = net.wire.len();
    for chunk in [
        Chunk::Data(data(1, 0, b"x")),
        Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(1),
        },
        Chunk::Heartbeat(HeartbeatInfo(b"?")),
        Chunk::CookieAck,
    ] {
        for wrong in [tag ^ 1, net.tag_of(Host::A)] {
            assert_eq!(
                net.forge(Host::B, wrong, &[chunk]),
                Err(Discard::VerificationTag),
                "{chunk:?}"
            );
        }
    }
    assert_eq!((net.wire.len(), net.state(Host::B, b)), (before, State::Established));
}

// [9260:8.5.1-2, 8.5.1-3]
#[test]
fn section_8_5_1_a_tag_of_zero_is_valid_only_for_init() {
    let (mut net, _, b) = established();
    let before = net.wire.len();
    assert_eq!(
        net.forge(Host::B, 0, &[Chunk::Data(data(1, 0, b"x"))]),
        Err(Discard::VerificationTag)
    );
    assert_eq!(net.forge(Host::B, 0, &[abort(true)]), Err(Discard::VerificationTag));
    let bundled = [Chunk::Init(init(5, &[])), Chunk::Data(data(1, 0, b"x"))];
    assert_eq!(net.forge(Host::B, 0, &bundled), Err(Discard::Bundled));
    // An INIT must have no other tag (RFC 9260 §12.3).
    assert_eq!(
        net.as_peer(Host::B, &[Chunk::Init(init(5, &[]))]),
        Err(Discard::VerificationTag)
    );
    assert_eq!((net.wire.len(), net.state(Host::B, b)), (before, State::Established));
}

// [9260:8.5.1-6, 8.5.1-7, 9.1-5, 9.1-6]
#[test]
fn section_8_5_1_b_tags_and_t_bits_that_an_abort_may_have() {
    for (ours, tag_reflected, accepted) in [
        (true, false, true),
        (true, true, false),
        (false, true, true),
        (false, false, false),
    ] {
        let (mut net, _, b) = established();
        let tag = net.tag_of(if ours { Host::B } else { Host::A });
        let before = net.wire.len();
        let result = net.forge(Host::B, tag, &[abort(tag_reflected)]);
        assert_eq!(result.is_ok(), accepted, "local tag: {ours}, T bit: {tag_reflected}");
        let state = if accepted { State::Closed } else { State::Established };
        assert_eq!((net.state(Host::B, b), net.wire.len()), (state, before));
        if accepted {
            let reason = CloseReason::AbortedByPeer {
                cause: None,
                reason: String::new(),
            };
            assert_eq!(net.close_reason(Host::B), Some(reason));
        }
    }
    let (mut net, _, b) = established();
    let tag = net.tag_of(Host::B);
    assert!(net.forge(Host::B, tag ^ 1, &[abort(false)]).is_err());
    assert!(net.forge(Host::B, tag ^ 1, &[abort(true)]).is_err());
    assert_eq!(net.state(Host::B, b), State::Established);
}

// [9260:8.5.1-8, 8.5.1-10, 8.5.1-11, 9.2-18, 9.2-19]
#[test]
fn section_8_5_1_c_tags_and_t_bits_that_a_shutdown_complete_may_have() {
    for (ours, tag_reflected, accepted) in [
        (true, false, true),
        (true, true, false),
        (false, true, true),
        (false, false, false),
    ] {
        let (mut net, a, b) = established();
        let chunk = [Chunk::ShutdownComplete { tag_reflected }];
        let tag = net.tag_of(if ours { Host::B } else { Host::A });
        assert!(net.forge(Host::B, tag, &chunk).is_err());
        assert_eq!(
            net.state(Host::B, b),
            State::Established,
            "accepted only in SHUTDOWN-ACK-SENT"
        );
        net.filter = Box::new(|packet| {
            if packet.has(ChunkType::SHUTDOWN_ACK) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        let now = net.now;
        net.a.shutdown(now, a);
        net.run_for(Span::from_millis(50));
        assert_eq!(net.state(Host::B, b), State::ShutdownAckSent);
        assert!(net.forge(Host::B, tag ^ 1, &chunk).is_err());
        assert_eq!(net.forge(Host::B, tag, &chunk).is_ok(), accepted);
        let state = if accepted {
            State::Closed
        } else {
            State::ShutdownAckSent
        };
        assert_eq!(
            net.state(Host::B, b),
            state,
            "local tag: {ours}, T bit: {tag_reflected}"
        );
    }
}

// [9260:8.5.1-13, 9.2-23, 9.2-24]
#[test]
fn section_8_5_1_e_a_shutdown_ack_while_connecting_is_out_of_the_blue() {
    for echoed in [false, true] {
        let mut net = Net::new(1);
        net.filter = Box::new(move |packet| {
            if echoed && !packet.has(ChunkType::COOKIE_ECHO) {
                Fate::Deliver
            } else {
                Fate::Drop
            }
        });
        let id = net.connect(&AssociationConfig::default(), 1);
        net.run_for(Span::from_millis(30));
        let state = if echoed { State::CookieEchoed } else { State::CookieWait };
        let own = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
        for tag in [own, 77] {
            let before = net.wire.len();
            assert_eq!(
                net.forge(Host::A, tag, &[Chunk::ShutdownAck]),
                Err(Discard::OutOfTheBlue)
            );
            assert_eq!(net.wire.len(), before + 1);
            let answer = net.last(Host::A, ChunkType::SHUTDOWN_COMPLETE);
            assert_eq!((answer.tag(), answer.is_reflected()), (tag, true));
        }
        let shutdown = Chunk::Shutdown {
            cumulative_tsn_ack: Tsn(1),
        };
        let before = net.wire.len();
        assert_eq!(net.forge(Host::A, own, &[shutdown]), Err(Discard::Unexpected));
        assert_eq!((net.wire.len(), net.state(Host::A, id)), (before, state));
    }
}

// [9260:3-1, 6.10-8]
#[test]
fn section_6_10_chunks_that_must_be_alone_are_discarded_if_bundled() {
    let (mut net, a, b) = established();
    let before = net.wire.len();
    let cookie = parameters(&[Parameter::StateCookie(b"biscuit")]);
    for alone in [
        Chunk::InitAck(init(5, &cookie)),
        Chunk::ShutdownComplete { tag_reflected: false },
        Chunk::Init(init(5, &[])),
    ] {
        for bundle in [[alone, Chunk::CookieAck], [Chunk::CookieAck, alone]] {
            assert!(net.as_peer(Host::B, &bundle).is_err(), "{bundle:?}");
        }
    }
    assert_eq!((net.wire.len(), net.state(Host::B, b)), (before, State::Established));
    // The same in states where the chunks would have an effect.
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::SHUTDOWN_ACK) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let now = net.now;
    net.a.shutdown(now, a);
    net.run_for(Span::from_millis(50));
    let complete = Chunk::ShutdownComplete { tag_reflected: false };
    assert_eq!(
        net.as_peer(Host::B, &[complete, Chunk::CookieAck]),
        Err(Discard::Bundled)
    );
    let second = net.as_peer(Host::B, &[Chunk::HeartbeatAck(HeartbeatInfo(b"?")), complete]);
    assert!(second.is_err());
    assert_eq!(net.state(Host::B, b), State::ShutdownAckSent);
}

// [9260:6.10-6, 6.10-7]
#[test]
fn section_6_10_chunks_are_processed_in_order_and_a_partial_one_is_dropped() {
    let (mut net, _, _) = established();
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let tag = net.tag_of(Host::B);
    let chunks = [
        Chunk::Data(data(tsn, 0, b"one ")),
        Chunk::Data(data(tsn.wrapping_add(1), 1, b"two ")),
    ];
    let mut bytes = packet(4001, 4002, tag, &chunks);
    bytes.truncate(bytes.len() - 4);
    assert_eq!(net.deliver(Host::B, &resealed(bytes)), Err(Discard::Malformed));
    assert_eq!(net.contents(Host::B), [b"one "]);
    let whole = packet(4001, 4002, tag, &chunks);
    net.deliver(Host::B, &whole).expect("accepted");
    assert_eq!(net.contents(Host::B), [b"one ", b"two "]);
    // The answers are in the order of the chunks.
    let (first, second) = (HeartbeatInfo(b"first"), HeartbeatInfo(b"second"));
    net.as_peer(Host::B, &[Chunk::Heartbeat(first), Chunk::Heartbeat(second)])
        .expect("accepted");
    assert_eq!(
        net.last(Host::B, ChunkType::HEARTBEAT_ACK).chunks(),
        [Chunk::HeartbeatAck(first), Chunk::HeartbeatAck(second)]
    );
}

// [9260:3.1-1, 3.1-2]
#[test]
fn section_3_1_ports() {
    let (mut net, _, b) = established();
    let tag = net.tag_of(Host::B);
    let chunk = [Chunk::Heartbeat(HeartbeatInfo(b"?"))];
    let before = net.wire.len();
    for (source, destination, reason) in [
        (0, 4002, Discard::Malformed),
        (4001, 0, Discard::Malformed),
        (4001, 4003, Discard::NotForUs),
    ] {
        assert_eq!(
            net.deliver(Host::B, &packet(source, destination, tag, &chunk)),
            Err(reason)
        );
    }
    assert_eq!(net.wire.len(), before);
    // The tag is correct by chance, but the port belongs to another peer.
    assert_eq!(
        net.deliver(Host::B, &packet(4009, 4002, tag, &chunk)),
        Err(Discard::OutOfTheBlue)
    );
    // From an address that the peer does not have.
    let other_source = meta(addrs(Host::B, 1)[0], addr("10.9.9.9:0"));
    assert_eq!(
        net.deliver_from(Host::B, other_source, &packet(4001, 4002, tag, &chunk)),
        Err(Discard::OutOfTheBlue)
    );
    assert_eq!(net.state(Host::B, b), State::Established);
}

// [9260:6.8-1, 6.8-2, 6.8-3, 6.8-4]
#[test]
fn section_6_8_a_wrong_checksum_is_silently_dropped_and_counted() {
    let (mut net, _, b) = established();
    let tag = net.tag_of(Host::B);
    let before = net.wire.len();
    let good = packet(4001, 4002, tag, &[abort(false)]);
    for bit in 0..8 * good.len() {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(net.deliver(Host::B, &bad), Err(Discard::Checksum));
    }
    for len in 0..12 {
        assert_eq!(
            net.deliver(Host::B, &good[..len]),
            Err(Discard::Malformed),
            "{len} bytes"
        );
    }
    assert_eq!((net.wire.len(), net.state(Host::B, b)), (before, State::Established));
    let discarded = net.b.stats().discarded;
    let count = |reason| discarded[Discard::ALL.iter().position(|known| *known == reason).expect("listed")];
    assert_eq!(count(Discard::Checksum), 8 * good.len() as u64);
    assert_eq!(count(Discard::Malformed), 12);
}

#[test]
fn section_3_a_packet_without_a_valid_first_chunk_is_discarded() {
    let mut net = Net::new(1);
    assert_eq!(net.forge(Host::B, 77, &[]), Err(Discard::Malformed));
    for length in [0_u8, 3] {
        let mut bytes = packet(4001, 4002, 77, &[Chunk::CookieAck]);
        bytes[15] = length;
        // A chunk that cannot be delimited is not processed: the rest of the packet is out of the blue, or empty.
        assert!(net.deliver(Host::B, &resealed(bytes)).is_err());
    }
    assert_eq!(net.b.associations().count(), 0);
}

/// Returns an endpoint that has accepted an association over UDP, and the verification tag of packets to it. `parameters`: those of the INIT.
fn accepted_over_udp(first: PacketMeta, local: &[&str], parameters: &[u8]) -> (Net, AssocId, u32) {
    let mut net = Net::new(1);
    let b = EndpointConfig {
        local_port: 4002,
        local_addrs: local.iter().map(|text| addr(text)).collect(),
        listen: true,
        ..EndpointConfig::default()
    };
    net.b = Endpoint::new(b, Box::new(whimbrel_control::Rng::stream(1, "b"))).expect("valid");
    net.filter = Box::new(|_| Fate::Drop);
    let hello = packet(4001, 4002, 0, &[Chunk::Init(init(5, parameters))]);
    net.deliver_from(Host::B, first, &hello).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    assert_eq!(answer.remote, first.remote);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let tag = answer.init().initiate_tag;
    let echo = packet(4001, 4002, tag, &[Chunk::CookieEcho { cookie: &cookie }]);
    net.deliver_from(Host::B, first, &echo).expect("accepted");
    let id = net.only(Host::B);
    (net, id, tag)
}

/// RFC 6951: the port of a second address is not known before its first packet, if each address is behind another NAT.
#[test]
fn rfc_6951_section_5_4_a_path_without_an_answer_is_probed_at_its_new_port() {
    let first = meta(addr("10.0.0.2:9899"), addr("10.0.0.1:40000"));
    let both = [[10, 0, 0, 1], [10, 0, 1, 1]].map(|ip| Parameter::Ipv4(ip.into()));
    let (mut net, id, tag) = accepted_over_udp(first, &["10.0.0.2:9899", "10.0.1.2:9899"], &parameters(&both));
    let probes = |net: &Net, remote: &str| {
        let sent = net.sent(Host::B, ChunkType::HEARTBEAT);
        sent.iter().filter(|sent| sent.remote == addr(remote)).count()
    };
    // The second address is probed at the port of the first, where nobody answers, until the path has failed.
    net.run_for(Span::from_secs(65));
    assert_eq!(probes(&net, "10.0.1.1:40000"), 6);
    let other = meta(addr("10.0.1.2:9899"), addr("10.0.1.1:50000"));
    let ping = [Chunk::Heartbeat(HeartbeatInfo(b"ping"))];
    for (tag, expected) in [(tag ^ 1, 0), (tag, 1)] {
        let _ = net.deliver_from(Host::B, other, &packet(4001, 4002, tag, &ping));
        net.run_for(Span::from_millis(1));
        assert_eq!(probes(&net, "10.0.1.1:50000"), expected);
    }
    let answer = net.last(Host::B, ChunkType::HEARTBEAT);
    let chunks = answer.chunks();
    let Some(Chunk::Heartbeat(info)) = chunks.last() else {
        panic!("{chunks:?}");
    };
    let confirm = packet(4001, 4002, tag, &[Chunk::HeartbeatAck(*info)]);
    net.deliver_from(Host::B, other, &confirm).expect("accepted");
    let states = net
        .b
        .association(id)
        .expect("established")
        .paths()
        .map(|path| path.state);
    assert_eq!(states.last(), Some(PathState::Active));
}

/// RFC 6951: the association is the same if only the UDP port of the peer changes.
#[test]
fn rfc_6951_section_5_4_the_peers_udp_port_is_updated_if_it_answers() {
    let first = meta(addr("10.0.0.2:9899"), addr("10.0.0.1:40000"));
    let (mut net, id, tag) = accepted_over_udp(first, &["10.0.0.2:9899"], &[]);
    let moved = meta(addr("10.0.0.2:9899"), addr("10.0.0.1:50000"));
    let ping = [Chunk::Heartbeat(HeartbeatInfo(b"ping"))];
    assert!(
        net.deliver_from(Host::B, moved, &packet(4001, 4002, tag ^ 1, &ping))
            .is_err()
    );
    let port = |net: &Net| {
        net.b
            .association(id)
            .expect("established")
            .paths()
            .next()
            .expect("a path")
            .remote
            .port()
    };
    assert_eq!(port(&net), 40000, "a wrong tag does not change the port");
    net.deliver_from(Host::B, moved, &packet(4001, 4002, tag, &ping))
        .expect("accepted");
    assert_eq!(net.last(Host::B, ChunkType::HEARTBEAT_ACK).remote, moved.remote);
    // Both ports are asked, and only the new one answers.
    net.run_for(Span::from_millis(1));
    let asked = net.sent(Host::B, ChunkType::HEARTBEAT);
    let asked = asked
        .iter()
        .rfind(|sent| sent.remote == moved.remote)
        .expect("asked")
        .bytes
        .clone();
    assert_eq!(port(&net), 40000);
    let chunks: Vec<_> = crate::support::view(&asked).chunks().map_while(Result::ok).collect();
    let [Chunk::Heartbeat(info)] = chunks[..] else {
        panic!("{chunks:?}")
    };
    let answer = packet(4001, 4002, tag, &[Chunk::HeartbeatAck(info)]);
    net.deliver_from(Host::B, moved, &answer).expect("accepted");
    net.run_for(Span::from_secs(1));
    assert_eq!(port(&net), 50000);
    // The old address is free: the peer may open another association from there.
    net.forge(Host::B, 0, &[]).expect_err("nothing in it");
    let again = packet(4001, 4002, 0, &[Chunk::Init(init(6, &[]))]);
    net.deliver_from(Host::B, first, &again).expect("answered");
    assert_eq!(net.state(Host::B, id), State::Established);
    net.deliver_from(Host::B, moved, &packet(4001, 4002, tag, &[abort(false)]))
        .expect("accepted");
    // After the end, neither address belongs to an association.
    for from in [first, moved] {
        let result = net.deliver_from(Host::B, from, &again);
        assert_eq!(result, Ok(()), "{from:?}");
    }
}

#[test]
fn a_packet_for_the_wrong_host_is_ignored() {
    let mut net = Net::new(1);
    let mut other = endpoint(Host::A, 1, &AssociationConfig::default(), 5);
    let now = net.now;
    let bytes = packet(4001, 4002, 77, &[Chunk::ShutdownAck]);
    let wrong = other.handle_datagram(now, meta(addrs(Host::A, 1)[0], addrs(Host::B, 1)[0]), &bytes);
    assert_eq!(wrong, Err(Discard::NotForUs));
    net.drain(Host::A);
    assert!(net.wire.is_empty());
}
