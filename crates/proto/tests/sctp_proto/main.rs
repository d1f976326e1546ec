//! The protocol core and sctp-proto, the SCTP of str0m (WebRTC in Rust), in memory: handshakes from either end, messages of all sizes, partial
//! reliability, resets of streams, endings and restarts, over a network that may lose, delay and reorder packets.
//!
//! Tests whose name begins with `defect` show what sctp-proto 0.10.8 gets wrong; docs/peers.md lists it. If one fails, sctp-proto has changed.

#[path = "../memory_network/mod.rs"]
mod memory_network;
mod pair;

use std::time::Duration;

use sctp_proto::ReliabilityType;
use whimbrel_control::Span;
use whimbrel_proto::{
    AssociationConfig, CloseReason, ErrorDetection, Event, Message, Reliability, State, StreamChange, StreamList,
};
use whimbrel_wire::ChunkType;

use memory_network::{Content, content, our_config};
use pair::{Pair, RELIABLE, Sending, Theirs};

const UNORDERED: Sending = Sending {
    unordered: true,
    ..RELIABLE
};

/// Both ends send and read a message.
fn talk(pair: &mut Pair) {
    pair.send(Message::new(3, content(3, 5000)));
    pair.theirs.send(4, content(4, 5000), RELIABLE);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.theirs.read.last(), Some(&(3, content(3, 5000))));
    assert_eq!(pair.ours.read.last(), Some(&(4, content(4, 5000))));
}

#[test]
fn either_end_opens_the_association() {
    for we_open in [true, false] {
        let (mut pair, _) = Pair::established(&our_config(), we_open);
        talk(&mut pair);
    }
}

/// 1 byte to 1 MiB, ordered and unordered, both ways at once, without and with losses.
#[test]
fn messages_of_all_sizes_arrive_both_ways() {
    for loss in [0.0, 0.03] {
        let (mut pair, _) = Pair::established(&our_config(), false);
        pair.network.loss = loss;
        let lens = [1, 2, 100, 1131, 1132, 1133, 1199, 1200, 1201, 5000, 65_536, 1 << 20];
        let mut wanted = Vec::new();
        for number in 0..36 {
            let (stream, len) = (number as u16 % 7, lens[number % lens.len()]);
            let unordered = number % 5 == 0;
            pair.send(Message {
                unordered,
                ..Message::new(stream, content(number, len))
            });
            let sending = if unordered { UNORDERED } else { RELIABLE };
            pair.theirs.send(stream, content(number, len), sending);
            wanted.push((stream, content(number, len)));
            pair.run(Duration::from_millis(500));
        }
        pair.run(Duration::from_secs(300));
        assert_eq!(pair.theirs.lost, [""; 0]);
        wanted.sort();
        for read in [&mut pair.ours.read, &mut pair.theirs.read] {
            read.sort();
            assert_eq!(read.len(), wanted.len(), "{loss}");
            assert!(*read == wanted, "another content");
        }
    }
}

/// Messages that are given up by us and by them leave the others as they are.
#[test]
fn messages_are_given_up_by_either_end() {
    let (mut pair, id) = Pair::established(&our_config(), true);
    pair.network.loss = 0.1;
    for number in 0..300_usize {
        let stream = number as u16 % 4;
        let unordered = number.is_multiple_of(3);
        let (reliability, theirs) = match number % 4 {
            0 => (Reliability::Retransmissions(0), (ReliabilityType::Rexmit, 0)),
            2 => (
                Reliability::Lifetime(Span::from_millis(100)),
                (ReliabilityType::Timed, 100),
            ),
            _ => (Reliability::Full, (ReliabilityType::Reliable, 0)),
        };
        pair.send(Message {
            unordered,
            reliability,
            ..Message::new(stream, content(number, 3000))
        });
        let sending = Sending {
            unordered,
            reliability: theirs,
        };
        pair.theirs.send(stream, content(number, 3000), sending);
        pair.run(Duration::from_millis(30));
    }
    pair.network.loss = 0.0;
    pair.run(Duration::from_secs(120));
    for (chunks, read) in pair.chunks.iter().zip([&pair.theirs.read, &pair.ours.read]) {
        assert!(chunks.contains(&ChunkType::FORWARD_TSN), "{chunks:?}");
        for number in (1..300).step_by(2) {
            let wanted: Content = (number as u16 % 4, content(number, 3000));
            assert!(read.contains(&wanted), "{number} of {}", read.len());
        }
        assert!(read.len() < 300, "none was given up");
    }
    assert!(pair.ours.gave_up() > 10, "{}", pair.ours.gave_up());
    let association = pair.ours.endpoint.association(id).expect("established");
    assert_eq!((association.buffered_send(), association.buffered_receive()), (0, 0));
    assert_eq!(pair.theirs.lost, [""; 0]);
}

/// Streams are used, reset and used again in both directions. A stream is reset by both ends, as for data channels (RFC 8831 §6.7).
#[test]
fn streams_are_reset_by_either_end_and_used_again() {
    for loss in [0.0, 0.05] {
        let (mut pair, id) = Pair::established(&our_config(), true);
        pair.network.loss = loss;
        for round in 0..10 {
            for number in 0..5 {
                pair.send(Message::new(1, content(round + number, 1500)));
                pair.theirs.send(1, content(round + number, 1500), RELIABLE);
                pair.send(Message::new(3, content(round + number, 100)));
            }
            pair.run(Duration::from_secs(30));
            let (now, change) = (pair.time(), StreamChange::ResetOutbound(StreamList::of([1])));
            let we_begin = round % 2 == 0;
            if we_begin {
                pair.ours
                    .endpoint
                    .change_streams(now, id, change.clone())
                    .expect("not about to be reset");
                pair.run(Duration::from_secs(60));
                assert_eq!(pair.theirs.finished.len(), round + 1, "{:?}", pair.ours.events);
                let _ = pair.theirs.latest().stream(1).map(|mut stream| stream.close());
            } else {
                pair.theirs.latest().stream(1).expect("open").close().expect("open");
                pair.run(Duration::from_secs(60));
                pair.ours
                    .endpoint
                    .change_streams(pair.time(), id, change.clone())
                    .expect("not about to be reset");
            }
            pair.run(Duration::from_secs(60));
        }
        pair.network.loss = 0.0;
        pair.run(Duration::from_secs(60));
        assert_eq!(
            (&pair.theirs.finished, &pair.theirs.reset),
            (&vec![1; 10], &vec![1; 10])
        );
        let done = Event::StreamsChanged(StreamChange::ResetOutbound(StreamList::of([1])));
        assert_eq!(pair.ours.events.iter().filter(|event| **event == done).count(), 10);
        assert_eq!(pair.theirs.lost, [""; 0]);
        let of_stream = |messages: &[Content], stream: u16| messages.iter().filter(|(of, _)| *of == stream).count();
        assert_eq!(of_stream(&pair.theirs.read, 1), 50);
        assert_eq!(of_stream(&pair.ours.read, 1), 50);
        assert_eq!(of_stream(&pair.theirs.read, 3), 50);
    }
}

#[test]
fn we_shut_down() {
    let (mut pair, id) = Pair::established(&our_config(), true);
    talk(&mut pair);
    let now = pair.time();
    pair.ours.endpoint.shutdown(now, id);
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.ours.closed(), Some(&CloseReason::Graceful));
    // It says so of every end.
    assert_eq!(pair.theirs.lost, ["aborted by peer"]);
}

#[test]
fn we_abort() {
    let (mut pair, id) = Pair::established(&our_config(), true);
    talk(&mut pair);
    let now = pair.time();
    pair.ours.endpoint.abort(now, id, "the end");
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.theirs.lost, ["aborted by peer"]);
}

/// Their process starts again, and takes up the same association (RFC 9260 §5.2.4 A).
#[test]
fn they_restart() {
    let (mut pair, _) = Pair::established(&our_config(), true);
    talk(&mut pair);
    pair.restart_theirs();
    pair.they_open();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.ours.state(), Some(State::Established));
    assert!(pair.ours.events.contains(&Event::Restarted), "{:?}", pair.ours.events);
    talk(&mut pair);
}

/// RFC 9260 §3.2.1: parameters of unknown types that ask to be skipped.
#[test]
fn our_extensions_are_passed_over() {
    let config = AssociationConfig {
        interleaving: true,
        ecn: Some(true),
        eci: Some(true),
        timestamps: Some(true),
        dynamic_addresses: true,
        zero_checksum: Some(ErrorDetection::Dtls),
        ..our_config()
    };
    for we_open in [true, false] {
        let (mut pair, id) = Pair::established(&config, we_open);
        talk(&mut pair);
        let association = pair.ours.endpoint.association(id).expect("established");
        assert!(!association.uses_interleaving());
        assert!(!association.sends_zero_checksum());
        let only = [
            ChunkType::DATA,
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::SACK,
            ChunkType::COOKIE_ECHO,
            ChunkType::COOKIE_ACK,
        ];
        for chunks in &pair.chunks {
            assert!(chunks.iter().all(|chunk| only.contains(chunk)), "{chunks:?}");
        }
    }
}

/// RFC 9260 §5.2.1: an INIT that meets one of the own end belongs to the same association. It opens a second one, and keeps both.
#[test]
fn defect_a_collision_leaves_two_associations() {
    let mut pair = Pair::new(&our_config(), 3);
    pair.ours.open(pair.now, &our_config());
    pair.they_open();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.ours.state(), Some(State::Established));
    assert_eq!((pair.theirs.connected, pair.theirs.associations.len()), (2, 2));
    // One of the two has our end.
    pair.send(Message::new(3, content(3, 5000)));
    for (number, (_, association)) in pair.theirs.associations.iter_mut().enumerate() {
        Theirs::send_on(association, 4, content(number, 5000), RELIABLE);
    }
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.theirs.read, [(3, content(3, 5000))]);
    assert_eq!(pair.ours.read.len(), 1);
}

/// RFC 9260 §3.3.8: the cumulative TSN ack of SHUTDOWN is that of a SACK. It sends the last TSN of its own data that we have acknowledged.
#[test]
fn defect_its_shutdown_acknowledges_its_own_data() {
    let (mut pair, _) = Pair::established(&our_config(), true);
    talk(&mut pair);
    pair.theirs.latest().shutdown().expect("established");
    pair.run(Duration::from_secs(1));
    let [ours, theirs] = pair.tsn;
    assert_eq!(pair.shutdown, theirs);
    assert_ne!(pair.shutdown, ours);
}

/// RFC 9260 §9.1: the user can abort. Its user can only close, which sends nothing: our end remains open.
#[test]
fn defect_its_end_is_silent() {
    let (mut pair, _) = Pair::established(&our_config(), true);
    talk(&mut pair);
    pair.theirs.latest().close().expect("established");
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.theirs.lost, ["aborted by peer"]);
    assert!(!pair.chunks[1].contains(&ChunkType::ABORT));
    assert_eq!(pair.ours.state(), Some(State::Established));
}

/// RFC 9260 §5.2.4 A: the old association ends, and its user is notified. It keeps it beside the new one, and its user learns nothing.
#[test]
fn defect_our_restart_leaves_the_old_association() {
    let (mut pair, _) = Pair::established(&our_config(), true);
    talk(&mut pair);
    pair.restart_ours(&our_config());
    pair.ours.open(pair.now, &our_config());
    pair.run(Duration::from_secs(5));
    talk(&mut pair);
    assert_eq!((pair.theirs.connected, pair.theirs.associations.len()), (2, 2));
    assert_eq!(pair.theirs.lost, [""; 0]);
}

/// RFC 9260 §3.2: a chunk of an unknown type with these upper bits is skipped. It discards the packet, with a HEARTBEAT in it.
#[test]
fn defect_a_packet_with_pad_is_discarded() {
    let config = AssociationConfig {
        max_mtu: Some(9000),
        ..our_config()
    };
    let (mut pair, id) = Pair::established(&config, true);
    for number in 0..20 {
        pair.send(Message::new(1, content(number, 20_000)));
        pair.run(Duration::from_secs(5));
    }
    assert!(pair.chunks[0].contains(&ChunkType::PAD));
    // Data arrives all the same.
    assert_eq!(pair.theirs.read.len(), 20);
    let association = pair.ours.endpoint.association(id).expect("established");
    // No probe was answered, but data of this size was acknowledged.
    let probes = association.stats().mtu_probes_sent;
    let mtus: Vec<u16> = association.paths().map(|path| path.mtu).collect();
    assert!(probes >= 6 && mtus == [1280], "{probes} {mtus:?}");
}

/// RFC 9260 §5.1.1: the responder has at most as many outbound streams as the INIT allows. It has as many as we have.
/// §3.3.10: ERROR does not end an association. It ends it, without a word.
#[test]
fn defect_it_exceeds_our_streams_and_ends_at_an_error() {
    let config = AssociationConfig {
        max_inbound_streams: 10,
        ..our_config()
    };
    let (mut pair, _) = Pair::established(&config, true);
    assert_eq!(pair.their_streams, Some(100));
    pair.theirs.send(20, content(1, 100), RELIABLE);
    pair.run(Duration::from_secs(10));
    assert!(pair.chunks[0].contains(&ChunkType::ERROR));
    assert_eq!(pair.theirs.lost, ["aborted by peer"]);
    assert!(!pair.chunks[1].contains(&ChunkType::ABORT));
    assert_eq!(pair.ours.state(), Some(State::Established));
}
