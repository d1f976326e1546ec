//! Packets of a broken or hostile peer, built by hand, and effects that they must not have (RFC 9260 §9.1, §12.3, §12.4).

use crate::support::paths::{confirmed, cut, path, quiet};
use crate::support::{Fate, Host, Net, addrs, causes, data, init, meta, packet, port};
use whimbrel_control::Span;
use whimbrel_proto::{AssocId, AssociationConfig, CloseReason, Discard, Event, Message, PathState, State};
use whimbrel_wire::{
    Cause, Causes, Chunk, ChunkType, DuplicateTsns, GapBlock, GapBlocks, HeartbeatInfo, RawChunk, Sack, Tsn,
};

fn established() -> (Net, AssocId, AssocId) {
    Net::established(1, &AssociationConfig::default())
}

fn abort<'a>(tag_reflected: bool) -> Chunk<'a> {
    Chunk::Abort {
        tag_reflected,
        causes: Causes::from_wire_bytes(&[]),
    }
}

fn empty_data(tsn: u32) -> Chunk<'static> {
    Chunk::Data(data(tsn, 0, b""))
}

/// Returns the initial TSN of a host.
fn first_tsn(net: &Net, host: Host) -> u32 {
    let chunk_type = if host == Host::A {
        ChunkType::INIT
    } else {
        ChunkType::INIT_ACK
    };
    net.last(host, chunk_type).init().initial_tsn.0
}

// [9260:12.4-4]
#[test]
fn section_12_4_a_gap_block_for_a_tsn_never_sent_aborts() {
    // Four chunks are outstanding. Only the first list is valid.
    let lists: [&[(u16, u16)]; 5] = [
        &[(2, 2), (4, 4)],
        &[(2, 5)],
        &[(2, 2), (5, 5)],
        &[(1, 5)],
        &[(5, 60_000), (2, 2)],
    ];
    for (number, list) in lists.into_iter().enumerate() {
        let (mut net, a, _) = established();
        net.filter = Box::new(|_| Fate::Drop);
        for _ in 0..4 {
            net.send(Host::A, a, Message::zeros(0, 100));
        }
        let mut bytes = Vec::new();
        list.iter()
            .for_each(|&(start, end)| GapBlock { start, end }.emit(&mut bytes));
        let sack = Chunk::Sack(Sack {
            cumulative_tsn_ack: Tsn(first_tsn(&net, Host::A).wrapping_sub(1)),
            a_rwnd: 65_536,
            gaps: GapBlocks::from_wire_bytes(&bytes),
            duplicates: DuplicateTsns::from_wire_bytes(&[]),
            congestion_indicated: false,
            packets: 0,
        });
        let result = net.as_peer(Host::A, &[sack]);
        if number == 0 {
            assert_eq!((result, net.state(Host::A, a)), (Ok(()), State::Established));
            continue;
        }
        assert_eq!(result, Err(Discard::Unexpected), "{list:?}");
        assert_eq!(net.last(Host::A, ChunkType::ABORT).causes(), [13], "{list:?}");
        let reason = net.close_reason(Host::A);
        assert!(matches!(reason, Some(CloseReason::ProtocolViolation(_))), "{list:?}");
    }
}

// [9260:12.3-2]
#[test]
fn section_12_3_an_init_with_a_tag_is_silently_dropped() {
    // Out of the blue: §12.3 (MUST) before rule 8 of §8.4 (SHOULD).
    let mut net = Net::new(1);
    let result = net.forge(Host::B, 77, &[Chunk::Init(init(5, &[]))]);
    assert_eq!((result, net.wire.len()), (Err(Discard::VerificationTag), 0));
    // With the tag of an association.
    let (mut net, _, b) = established();
    let before = net.wire.len();
    let result = net.as_peer(Host::B, &[Chunk::Init(init(5, &[]))]);
    assert_eq!(result, Err(Discard::VerificationTag));
    // Bundled with other chunks: the chunks after the INIT are discarded with it, the chunks before it are not.
    let tsn = first_tsn(&net, Host::A);
    let chunks = [
        Chunk::Data(data(tsn, 0, b"before")),
        Chunk::Init(init(5, &[])),
        Chunk::Data(data(tsn.wrapping_add(1), 1, b"after")),
    ];
    assert_eq!(net.as_peer(Host::B, &chunks), Err(Discard::Bundled));
    assert_eq!(net.as_peer(Host::B, &chunks[1..]), Err(Discard::Bundled));
    assert_eq!(net.contents(Host::B), [b"before"]);
    let answers: Vec<_> = net.wire[before..].iter().map(|sent| sent.types()).collect();
    assert_eq!(answers, [[ChunkType::SACK]], "for the DATA");
    assert_eq!(net.state(Host::B, b), State::Established);
}

// [9260:5.4-2]
#[test]
fn section_5_4_shutdown_complete_is_not_sent_to_an_unconfirmed_address() {
    let mut net = Net::with_config(2, &quiet(), 1);
    cut(&mut net, &[1]);
    let a = net.connect(&quiet(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(path(&net, a, 1).state, PathState::Unconfirmed);
    net.filter = Box::new(|_| Fate::Drop);
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    let bytes = packet(port(Host::B), port(Host::A), net.tag_of(Host::A), &[Chunk::ShutdownAck]);
    let from_unconfirmed = meta(addrs(Host::A, 2)[1], addrs(Host::B, 2)[1]);
    net.deliver_from(Host::A, from_unconfirmed, &bytes).expect("accepted");
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
    assert_eq!(
        net.last(Host::A, ChunkType::SHUTDOWN_COMPLETE).remote,
        addrs(Host::B, 1)[0]
    );
}

// [9260:9.1-4, 3.3.7-4]
#[test]
fn section_9_1_a_packet_with_an_abort_is_not_answered() {
    let (net, ..) = established();
    let tsn = first_tsn(&net, Host::A);
    let unknown = RawChunk::from_bytes(&[0xfe, 0, 0, 4]).expect("a chunk of an unknown type");
    let impossible = Chunk::Shutdown {
        cumulative_tsn_ack: Tsn(first_tsn(&net, Host::B).wrapping_add(5)),
    };
    for first in [
        empty_data(tsn),
        impossible,
        Chunk::Heartbeat(HeartbeatInfo(b"?")),
        Chunk::Unknown(unknown),
        Chunk::Data(data(tsn, 0, b"data")),
    ] {
        let (mut net, _, b) = established();
        let before = net.wire.len();
        let _ = net.as_peer(Host::B, &[first, abort(false)]);
        assert_eq!(net.wire.len(), before, "{first:?}");
        assert_eq!(net.state(Host::B, b), State::Closed, "{first:?}");
    }
    // While connecting, a SHUTDOWN ACK would be answered.
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let a = net.connect(&quiet(), 1);
    net.drain(Host::A);
    let own = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let _ = net.forge(Host::A, own, &[Chunk::ShutdownAck, abort(false)]);
    assert_eq!((net.wire.len(), net.state(Host::A, a)), (1, State::Closed));
}

// [9260:8.5.1-6, 9.1-5]
#[test]
fn section_8_5_1_an_abort_that_reflects_the_tag_may_follow_other_chunks() {
    let (mut net, _, b) = established();
    let (tag, before) = (net.tag_of(Host::A), net.wire.len());
    let heartbeat = Chunk::Heartbeat(HeartbeatInfo(b"?"));
    let other_tag = net.forge(Host::B, tag ^ 1, &[heartbeat, abort(true)]);
    assert_eq!(other_tag, Err(Discard::VerificationTag));
    assert_eq!(net.state(Host::B, b), State::Established);
    net.forge(Host::B, tag, &[heartbeat, abort(true)]).expect("accepted");
    assert_eq!((net.state(Host::B, b), net.wire.len()), (State::Closed, before));
}

// [9260:12.4-2]
#[test]
fn section_12_4_a_packet_is_answered_with_at_most_one_packet() {
    // 32 reports of 52 bytes need more than one packet.
    let mut raw = [7; 44];
    raw[..4].copy_from_slice(&[0xfe, 0, 0, 44]);
    let unknown = Chunk::Unknown(RawChunk::from_bytes(&raw).expect("a chunk of an unknown type"));
    let heartbeat = Chunk::Heartbeat(HeartbeatInfo(&[1; 600]));
    let stream = Chunk::Data(whimbrel_wire::Data {
        stream: 60_000,
        ..data(0, 0, b"no such stream")
    });
    for chunks in [
        vec![unknown; 32],
        vec![heartbeat; 4],
        [vec![heartbeat; 2], vec![unknown; 32]].concat(),
    ] {
        let (mut net, ..) = established();
        let before = net.wire.len();
        net.as_peer(Host::B, &chunks).expect("skipped");
        assert_eq!(net.wire.len(), before + 1);
        assert!(net.wire[before].chunks().len() >= 2, "as many as fit");
    }
    // A SACK does not count as a reply.
    let (mut net, ..) = established();
    let (before, tsn) = (net.wire.len(), first_tsn(&net, Host::A));
    let mut chunks = vec![unknown; 32];
    let Chunk::Data(mut on_stream) = stream else {
        panic!("DATA")
    };
    on_stream.tsn = Tsn(tsn);
    chunks.push(Chunk::Data(on_stream));
    assert_eq!(net.as_peer(Host::B, &chunks), Err(Discard::InvalidChunk));
    let control = net.wire[before..]
        .iter()
        .filter(|sent| sent.types() != [ChunkType::SACK]);
    assert_eq!(control.count(), 1);
    // While connecting, each SHUTDOWN ACK is out of the blue.
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    net.connect(&quiet(), 1);
    net.drain(Host::A);
    let own = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let _ = net.forge(Host::A, own, &[Chunk::ShutdownAck; 20]);
    assert_eq!(net.wire.len(), 2);
}

// [9260:12.4-2, 5.4-2]
#[test]
fn section_12_4_answers_to_one_packet_go_to_one_address() {
    let mut net = Net::with_config(2, &quiet(), 1);
    cut(&mut net, &[1]);
    net.connect(&quiet(), 1);
    net.run_for(Span::from_secs(1));
    // HEARTBEAT ACK may be sent to the unconfirmed address; ERROR may not.
    let unknown = RawChunk::from_bytes(&[0xfe, 0, 0, 4]).expect("a chunk of an unknown type");
    let chunks = [Chunk::Heartbeat(HeartbeatInfo(b"?")), Chunk::Unknown(unknown)];
    let bytes = packet(port(Host::B), port(Host::A), net.tag_of(Host::A), &chunks);
    let before = net.wire.len();
    let from_unconfirmed = meta(addrs(Host::A, 2)[1], addrs(Host::B, 2)[1]);
    net.deliver_from(Host::A, from_unconfirmed, &bytes).expect("accepted");
    let answers: Vec<_> = net.wire[before..].iter().map(|sent| sent.types()).collect();
    assert_eq!(answers, [[ChunkType::HEARTBEAT_ACK]]);
}

// [9260:5.2.6-1]
#[test]
fn section_5_2_6_a_stale_cookie_cause_is_handled_after_another_cause() {
    let mut net = Net::new(1);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = net.connect(&quiet(), 1);
    net.run_for(Span::from_millis(30));
    assert_eq!(net.state(Host::A, a), State::CookieEchoed);
    let list = causes(&[Cause::OutOfResource, Cause::StaleCookie { staleness_us: 5 }]);
    let error = Chunk::Error {
        causes: Causes::from_wire_bytes(&list),
    };
    let own = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    net.forge(Host::A, own, &[error]).expect("accepted");
    assert_eq!(net.state(Host::A, a), State::CookieWait);
    assert_eq!(net.count(Host::A, ChunkType::INIT), 2);
}

// [9260:8.3-12]
#[test]
fn section_8_3_the_time_in_a_heartbeat_ack_is_not_used() {
    let (mut net, a, _) = confirmed(1, &quiet());
    let rto = path(&net, a, 0).rto;
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::HEARTBEAT_ACK) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for time in [0, 1 << 40, u64::MAX] {
        let now = net.now;
        assert!(net.a.request_heartbeat(now, a, whimbrel_proto::PathId(0)));
        net.run_for(Span::from_millis(20));
        let sent = net.last(Host::A, ChunkType::HEARTBEAT);
        let Chunk::Heartbeat(HeartbeatInfo(info)) = sent.chunks()[0] else {
            panic!("HEARTBEAT")
        };
        let mut forged = info.to_vec();
        forged[8..16].copy_from_slice(&u64::to_be_bytes(time));
        let _ = net.as_peer(Host::A, &[Chunk::HeartbeatAck(HeartbeatInfo(&forged))]);
        assert_eq!(path(&net, a, 0).rto, rto, "time {time}");
        assert_eq!(path(&net, a, 0).srtt, Some(Span::from_millis(20)), "time {time}");
    }
}

// [9260:8.3-12]
#[test]
fn section_8_3_a_heartbeat_sent_twice_gives_no_rtt_sample() {
    // COOKIE ACKs to an unconfirmed address carry the same HEARTBEAT.
    let mut net = Net::new(2);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.connect(&quiet(), 2);
    net.run_for(Span::from_millis(30));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO).bytes;
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let second = meta(addrs(Host::B, 2)[1], addrs(Host::A, 2)[1]);
    net.deliver_from(Host::B, second, &echo).expect("accepted");
    net.run_for(Span::from_millis(100));
    net.deliver_from(Host::B, second, &echo).expect("accepted");
    let sent = net.last(Host::B, ChunkType::HEARTBEAT);
    let Some(Chunk::Heartbeat(HeartbeatInfo(info))) = sent.chunks().last().copied() else {
        panic!("HEARTBEAT")
    };
    let bytes = packet(
        4001,
        4002,
        net.tag_of(Host::B),
        &[Chunk::HeartbeatAck(HeartbeatInfo(info))],
    );
    net.deliver_from(Host::B, second, &bytes).expect("accepted");
    let b = net.only(Host::B);
    let path = net
        .b
        .association(b)
        .expect("established")
        .paths()
        .nth(1)
        .expect("a path");
    assert_eq!((path.state, path.srtt), (PathState::Active, None));
}

// RFC 9260 §6.5: stream sequence numbers increase.
#[test]
fn section_6_6_a_delivered_stream_sequence_number_is_a_violation() {
    for again in [0, 2, 40_000] {
        let (mut net, _, b) = established();
        let tsn = first_tsn(&net, Host::A);
        for number in 0..3 {
            let chunk = Chunk::Data(data(tsn.wrapping_add(number), number as u16, b"x"));
            net.as_peer(Host::B, &[chunk]).expect("accepted");
        }
        let chunk = Chunk::Data(data(tsn.wrapping_add(3), again, b"again"));
        assert_eq!(
            net.as_peer(Host::B, &[chunk]),
            Err(Discard::InvalidChunk),
            "SSN {again}"
        );
        assert_eq!(net.state(Host::B, b), State::Closed);
    }
    // Numbers of messages that may still be missing are valid.
    let (mut net, _, b) = established();
    let tsn = first_tsn(&net, Host::A);
    for (ahead, ssn) in [(2, 2), (4, 3), (1, 1), (0, 0)] {
        let chunk = Chunk::Data(data(tsn.wrapping_add(ahead), ssn, b"x"));
        net.as_peer(Host::B, &[chunk]).expect("accepted");
    }
    assert_eq!(net.contents(Host::B).len(), 4);
    let buffered = net.b.association(b).expect("established").buffered_receive();
    assert_eq!(buffered, 0);
    assert!(!net.events_of(Host::B).contains(&Event::PeerShutdown));
}
