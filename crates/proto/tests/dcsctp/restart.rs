//! Restarts of our end, the longest messages that dcsctp takes, and extensions that it does not have.

use std::time::Duration;

use dcsctp::api::{SendOptions, SocketState};
use whimbrel_proto::{AssociationConfig, Message, State};
use whimbrel_wire::ChunkType;

use super::{Content, Pair, both, content, our_config, their_options};

/// Both ends send and read a message.
fn talk(pair: &mut Pair) {
    pair.send(Message::new(3, content(3, 5000)));
    pair.they_send(4, content(4, 5000), &SendOptions::default());
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read_by_them.last(), Some(&(3, content(3, 5000))));
    assert_eq!(pair.ours.read.last(), Some(&(4, content(4, 5000))));
}

/// Our process starts again, and takes up the same association (RFC 9260 §5.2.4 A).
#[test]
fn it_notices_our_restart() {
    for (config, options) in both() {
        let (mut pair, _) = Pair::established(&config, &options, true);
        talk(&mut pair);
        pair.ours.restart(&config, 2);
        pair.ours.open(pair.now, &config);
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.ours.state(), Some(State::Established));
        assert_eq!(pair.theirs.state(), SocketState::Connected);
        assert_eq!(pair.restarts, 1);
        talk(&mut pair);
        assert_eq!(pair.errors, [""; 0]);
    }
}

/// 1 MiB, ordered and unordered, both ways at once, without and with losses.
#[test]
fn messages_of_1_mib_arrive_both_ways() {
    const LEN: usize = 1 << 20;
    for loss in [0.0, 0.03] {
        for (config, options) in both() {
            let (mut pair, _) = Pair::established(&config, &options, true);
            pair.network.loss = loss;
            let mut wanted: Vec<Content> = Vec::new();
            for number in 0..4 {
                let (stream, unordered) = (number as u16, number % 2 == 0);
                pair.send(Message {
                    unordered,
                    ..Message::new(stream, content(number, LEN))
                });
                let options = SendOptions {
                    unordered,
                    ..SendOptions::default()
                };
                pair.they_send(stream, content(number, LEN), &options);
                wanted.push((stream, content(number, LEN)));
                pair.run(Duration::from_secs(60));
            }
            assert_eq!(pair.errors, [""; 0]);
            for read in [&mut pair.ours.read, &mut pair.read_by_them] {
                read.sort();
                assert!(*read == wanted, "{} messages at {loss}", read.len());
            }
        }
    }
}

/// RFC 9260 §3.2.1: parameters of unknown types that ask to be skipped.
#[test]
fn our_extensions_are_passed_over() {
    let config = AssociationConfig {
        ecn: Some(true),
        eci: Some(true),
        timestamps: Some(true),
        dynamic_addresses: true,
        ..our_config()
    };
    for we_open in [true, false] {
        let (mut pair, _) = Pair::established(&config, &their_options(), we_open);
        talk(&mut pair);
        assert_eq!(pair.errors, [""; 0]);
        let none = [ChunkType::AUTH, ChunkType::ECNE, ChunkType::TIMESTAMP];
        assert!(
            none.iter().all(|chunk| !pair.chunks[0].contains(chunk)),
            "{:?}",
            pair.chunks
        );
    }
}
