//! Whimbrel and pion/sctp, the SCTP of WebRTC in Go, over UDP on loopback (RFC 6951): each opens associations, sends both ways, resets
//! streams, ends and starts again, also over a relay that loses packets.
//!
//! Go builds the peer and downloads its modules; without them, the tests are reported as not run. Tests whose name begins with `defect` show
//! what pion/sctp 1.12.1 gets wrong; docs/peers.md lists it. If one fails, pion has changed.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod peer;
#[path = "../support/relay.rs"]
mod relay;

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{
    Association, CloseReason, Listener, Message, ReceivedMessage, Reliability, Span, Stack, StackConfig, StreamChange,
    StreamList,
};
use whimbrel_testkit::needs;

use peer::Peer;
use relay::{Relay, Rules};

const PATIENCE: Duration = Duration::from_secs(60);
/// It has no other SCTP port.
const PORT: u16 = 5000;
/// Binary data of WebRTC: it writes nothing else.
const PPID: u32 = 53;
/// Its window can stay at one packet until a message ends (docs/peers.md). Each packet then waits for an acknowledgement that is delayed.
const SACK_DELAY: Span = Span::from_millis(10);
/// Of the messages, in bytes.
const LENS: [usize; 12] = [1, 2, 100, 1131, 1132, 1133, 1199, 1200, 1201, 5000, 65_536, 1 << 20];
/// Chunk types (RFC 9260 §3.2).
const DATA: u8 = 0;
const INIT: u8 = 1;
const I_DATA: u8 = 64;
const FORWARD_TSN: u8 = 192;
/// A relay that changes nothing.
const PLAIN: Rules = Rules {
    lose_each: None,
    holds: false,
};

fn config() -> StackConfig {
    let mut config = StackConfig {
        local: vec![([127, 0, 0, 1], 0).into()],
        port: PORT,
        ..StackConfig::default()
    };
    config.association.sack_delay = SACK_DELAY;
    config
}

async fn accept(listener: &Listener) -> Association {
    timeout(PATIENCE, listener.accept())
        .await
        .expect("pion did not connect")
        .unwrap()
}

async fn recv(association: &Association) -> ReceivedMessage {
    let received = timeout(PATIENCE, association.recv()).await.expect("nothing comes");
    received.unwrap().expect("it is open")
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + number) as u8).collect()
}

fn message(stream: u16, number: usize, len: usize) -> Message {
    Message {
        ppid: PPID,
        ..Message::new(stream, content(number, len))
    }
}

/// Opens an association from their end, with a relay in between.
async fn opened(config: StackConfig, options: &[&str], rules: Rules) -> (Listener, Association, Peer, Relay) {
    let listener = Listener::bind(config).unwrap();
    let (mut peer, relay) = beside(listener.stack(), options, rules).await;
    peer.command("connect");
    let association = accept(&listener).await;
    peer.expect("connected");
    (listener, association, peer, relay)
}

/// Starts pion, and a relay between it and our stack.
async fn beside(stack: &Stack, options: &[&str], rules: Rules) -> (Peer, Relay) {
    let mut peer = Peer::start(0, options);
    let relay = Relay::start(stack.local_addrs()[0].port(), peer.port, rules).await;
    peer.reach(relay.port);
    (peer, relay)
}

/// Sends messages of all sizes, and takes their echoes.
async fn echo(association: &Association, rounds: usize) {
    for round in 0..rounds {
        for (number, len) in LENS.into_iter().enumerate() {
            let stream = (number % 7) as u16;
            let unordered = Message {
                unordered: number % 5 == 0,
                ..message(stream, number + round, len)
            };
            association.send(unordered).await.unwrap();
            let back = recv(association).await;
            assert_eq!((back.stream, back.ppid), (stream, PPID));
            assert!(
                back.data == content(number + round, len),
                "{len} bytes came back changed"
            );
        }
    }
}

async fn shut_down(association: &Association) {
    let done = timeout(PATIENCE, association.shutdown()).await;
    done.expect("pion did not shut down").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_of_all_sizes_come_back_and_we_shut_down() {
    needs!(peer::built());
    let (_listener, association, mut peer, _relay) = opened(config(), &[], PLAIN).await;
    echo(&association, 2).await;
    shut_down(&association).await;
    peer.expect("ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_send_messages_of_all_sizes_and_shut_down() {
    needs!(peer::built());
    let (_listener, association, mut peer, _relay) = opened(config(), &[], PLAIN).await;
    peer.quiet();
    for (number, len) in LENS.into_iter().enumerate() {
        let unordered = number % 2 == 0;
        peer.command(&format!("send 3 {len} {number} {} -1", u8::from(unordered)));
        let received = recv(&association).await;
        assert_eq!((received.stream, received.unordered), (3, unordered));
        assert!(received.data == content(number, len), "{len} bytes");
        association.send(message(4, number, len)).await.unwrap();
        peer.expect(&format!("got 4 {len}"));
    }
    peer.command("shutdown");
    let end = timeout(PATIENCE, association.recv()).await.expect("no shutdown came");
    assert_eq!(end, Ok(None));
    peer.expect("shutdown");
    assert_eq!(association.closed().await, CloseReason::Graceful);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_open_it_at_once() {
    needs!(peer::built());
    let stack = Stack::bind(config()).unwrap();
    let (mut peer, relay) = beside(&stack, &[], Rules { holds: true, ..PLAIN }).await;
    peer.command("connect");
    let to = [([127, 0, 0, 1], relay.port).into()];
    let association = timeout(PATIENCE, stack.connect(&to, PORT)).await.unwrap().unwrap();
    peer.expect("connected");
    let first = relay.first.lock().unwrap().clone().map(|chunks| chunks[0]);
    assert_eq!(first, [INIT; 2]);
    echo(&association, 1).await;
    shut_down(&association).await;
    peer.expect("ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_in_both_directions_are_made_good() {
    needs!(peer::built());
    let rules = Rules {
        lose_each: Some(29),
        ..PLAIN
    };
    let (_listener, association, mut peer, _relay) = opened(config(), &[], rules).await;
    echo(&association, 1).await;
    assert!(association.stats().unwrap().retransmissions > 0);
    shut_down(&association).await;
    peer.expect("ended");
}

/// RFC 3758: messages that are lost are not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_end_gives_messages_up() {
    const MESSAGES: usize = 200;
    needs!(peer::built());
    let rules = Rules {
        lose_each: Some(7),
        ..PLAIN
    };
    let (_listener, association, mut peer, relay) = opened(config(), &[], rules).await;
    peer.quiet();
    for number in 0..MESSAGES {
        let given_up = Message {
            reliability: Reliability::Retransmissions(0),
            ..message(1, number, 3000)
        };
        association.send(given_up).await.unwrap();
        peer.command(&format!("send 2 3000 {number} 0 0"));
    }
    // The last ones arrive.
    association.send(message(1, 0, 10)).await.unwrap();
    peer.command("send 2 10 0 0 -1");
    let mut numbers = BTreeSet::new();
    loop {
        let data = recv(&association).await.data;
        let number = usize::from(data[0]);
        if data.len() == 10 {
            break;
        }
        assert!(
            data == content(number, 3000),
            "{} bytes of message {number}",
            data.len()
        );
        assert!(numbers.insert(number), "message {number} came twice");
    }
    let received = numbers.len();
    assert!((MESSAGES / 4..MESSAGES).contains(&received), "{received}");
    peer.expect("got 1 10");
    assert!(association.stats().unwrap().messages_given_up_sent > 0);
    let first = relay.first.lock().unwrap().clone();
    assert!(first.iter().all(|chunks| chunks.contains(&FORWARD_TSN)));
    shut_down(&association).await;
}

/// RFC 8260
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_interleaved() {
    needs!(peer::built());
    let mut config = config();
    config.association.interleaving = true;
    let rules = Rules {
        lose_each: Some(41),
        ..PLAIN
    };
    let (_listener, association, mut peer, relay) = opened(config, &["interleaving"], rules).await;
    assert!(association.uses_interleaving());
    echo(&association, 1).await;
    let first = relay.first.lock().unwrap().clone();
    assert!(
        first
            .iter()
            .all(|chunks| chunks.contains(&I_DATA) && !chunks.contains(&DATA))
    );
    shut_down(&association).await;
    peer.expect("ended");
}

/// RFC 6525: a stream is reset by both ends, as for data channels (RFC 8831 §6.7), and used again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_are_reset_by_either_end_and_used_again() {
    needs!(peer::built());
    let mut config = config();
    config.association.stream_changes = true;
    let (_listener, association, mut peer, _relay) = opened(config, &[], PLAIN).await;
    let ours = StreamChange::ResetOutbound(StreamList::of([2]));
    let theirs = StreamChange::ResetInbound(StreamList::of([2]));
    let changed = async || {
        let change = timeout(PATIENCE, association.next_stream_change()).await;
        change.expect("no reset came").unwrap()
    };
    for round in 0..4 {
        for number in 0..3 {
            association.send(message(2, number, 3000)).await.unwrap();
            assert!(recv(&association).await.data == content(number, 3000));
        }
        if round % 2 == 0 {
            association.change_streams(ours.clone()).await.unwrap();
            peer.expect("stream 2 ended");
            peer.command("reset 2");
            assert_eq!(changed().await, theirs);
        } else {
            peer.command("reset 2");
            assert_eq!(changed().await, theirs);
            association.change_streams(ours.clone()).await.unwrap();
            peer.expect("stream 2 ended");
        }
    }
    shut_down(&association).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_abort() {
    needs!(peer::built());
    let (_listener, association, mut peer, _relay) = opened(config(), &[], PLAIN).await;
    echo(&association, 1).await;
    association.abort("that is enough");
    peer.expect("ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_abort() {
    needs!(peer::built());
    let (_listener, association, mut peer, _relay) = opened(config(), &[], PLAIN).await;
    echo(&association, 1).await;
    peer.command("abort enough");
    let reason = CloseReason::AbortedByPeer {
        cause: Some(12),
        reason: "enough".to_owned(),
    };
    assert_eq!(timeout(PATIENCE, association.closed()).await, Ok(reason));
}

/// Their process starts again, and takes up the same association (RFC 9260 §5.2.4 A).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_restart() {
    needs!(peer::built());
    let (listener, association, peer, relay) = opened(config(), &[], PLAIN).await;
    echo(&association, 1).await;
    let port = peer.port;
    drop(peer);
    let mut peer = Peer::start(port, &[]);
    peer.reach(relay.port);
    peer.command("connect");
    let again = accept(&listener).await;
    assert_eq!(association.closed().await, CloseReason::PeerRestarted);
    peer.expect("connected");
    echo(&again, 1).await;
    shut_down(&again).await;
    peer.expect("ended");
}

/// RFC 9260 §3.2.1: parameters of unknown types that ask to be skipped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_extensions_are_passed_over() {
    needs!(peer::built());
    let mut config = config();
    config.association.ecn = Some(true);
    config.association.eci = Some(true);
    config.association.timestamps = Some(true);
    config.association.dynamic_addresses = true;
    let (_listener, association, mut peer, _relay) = opened(config, &[], PLAIN).await;
    echo(&association, 1).await;
    shut_down(&association).await;
    peer.expect("ended");
}

/// RFC 9260 §3.3.2.1.6: INIT may have Supported Address Types. It discards the INIT without an answer, as the upper bits say for types that it does not
/// know. So it cannot notice our restart either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_our_init_is_discarded() {
    needs!(peer::built());
    let stack = Stack::bind(config()).unwrap();
    let (mut peer, relay) = beside(&stack, &[], PLAIN).await;
    peer.command("accept");
    peer.expect("accept");
    let to = [([127, 0, 0, 1], relay.port).into()];
    let connecting = timeout(Duration::from_secs(4), stack.connect(&to, PORT)).await;
    assert!(connecting.is_err(), "{connecting:?}");
    let [ours, theirs] = relay.first.lock().unwrap().clone();
    assert!(ours.len() > 1 && ours.iter().all(|chunk| *chunk == INIT), "{ours:?}");
    assert_eq!(theirs, [0; 0]);
}

/// RFC 9260 §3.2: a chunk of an unknown type with these upper bits is skipped. It discards the packet, with a HEARTBEAT in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn defect_a_packet_with_pad_is_discarded() {
    needs!(peer::built());
    let (_listener, association, _peer, _relay) = opened(config(), &[], PLAIN).await;
    // The first long message starts the search for the path MTU. Loopback carries the first probe.
    echo(&association, 1).await;
    let three = async {
        while association.stats().unwrap().mtu_probes_sent < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, three).await.expect("three probes");
    assert_eq!(association.paths()[0].mtu, 1280);
    // Data arrives all the same.
    echo(&association, 1).await;
}
