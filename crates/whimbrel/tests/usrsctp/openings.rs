//! Both ends open an association at once, either starts again, messages of 1 byte to 1 MiB, losses, and probes of the path MTU.

use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use whimbrel::{Association, CloseReason, Listener, Message, Stack};
use whimbrel_testkit::needs;

use super::capture::{Capture, Chunk};
use super::peer::{self, Peer, free_udp_port};
use super::relay::{Relay, Rules};
use super::{PATIENCE, accept, config, connect, echo};

const INIT: u8 = 1;

/// Starts their client with an SCTP port of its own.
fn client(our_port: u16, their_port: u16, ours: u16, theirs: u16) -> Peer {
    let (our_port, their_port) = (our_port.to_string(), their_port.to_string());
    let (ours, theirs_text) = (ours.to_string(), theirs.to_string());
    Peer::start(
        "client",
        &["127.0.0.1", &our_port, &their_port, &theirs_text, &ours],
        theirs,
    )
}

/// They send a line, and we answer.
async fn talk(association: &Association, peer: &mut Peer) {
    peer.write_line("hello");
    let message = timeout(PATIENCE, association.recv()).await.unwrap().unwrap().unwrap();
    assert_eq!(message.data, b"hello\n");
    association.send(Message::new(0, "answer\n")).await.unwrap();
    peer.expect(&["answer"]);
}

// RFC 9260 §5.2.1: the INITs of both ends meet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_ends_open_it_at_once() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let rules = Rules {
        lose_each: None,
        holds: true,
    };
    let relay = Relay::start(ours, theirs, rules).await;
    let mut peer = client(5020, 5021, relay.port, theirs);
    let stack = Stack::bind(config(ours, 5020)).unwrap();
    let to = [([127, 0, 0, 1], relay.port).into()];
    let association = timeout(PATIENCE, stack.connect(&to, 5021)).await.unwrap().unwrap();
    let first = relay.first.lock().unwrap().clone().map(|chunks| chunks[0]);
    assert_eq!(first, [INIT; 2]);
    talk(&association, &mut peer).await;
    peer.close_input();
    assert_eq!(timeout(PATIENCE, association.recv()).await.unwrap(), Ok(None));
    peer.expect_end();
}

// RFC 9260 §5.2.4 A: their process is killed, and starts again with the same ports.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_notice_the_restart_of_their_client() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let listener = Listener::bind(config(ours, 5022)).unwrap();
    let mut peer = client(5022, 5023, ours, theirs);
    let association = accept(&listener).await;
    talk(&association, &mut peer).await;
    drop(peer);
    let mut peer = client(5022, 5023, ours, theirs);
    let again = accept(&listener).await;
    assert_eq!(association.closed().await, CloseReason::PeerRestarted);
    talk(&again, &mut peer).await;
    peer.close_input();
    assert_eq!(timeout(PATIENCE, again.recv()).await.unwrap(), Ok(None));
    peer.expect_end();
}

// The same at our end: the runtime ends with all tasks, so that nothing is sent.
#[test]
fn their_server_notices_our_restart() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &ours.to_string()], theirs);
    let open = async || {
        let stack = Stack::bind(config(ours, 5024)).unwrap();
        let to = [([127, 0, 0, 1], theirs).into()];
        let association = timeout(PATIENCE, stack.connect(&to, 7)).await.unwrap().unwrap();
        association.send(Message::new(0, "hello")).await.unwrap();
        let back = timeout(PATIENCE, association.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(back.data, b"hello");
        (stack, association)
    };
    let first = Runtime::new().unwrap();
    let lost = first.block_on(open());
    first.shutdown_timeout(PATIENCE);
    drop(lost);
    let second = Runtime::new().unwrap();
    second.block_on(async {
        let (_stack, association) = open().await;
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
    });
    let decoded = capture.decode();
    decoded.must_hold(&[Chunk::INIT, Chunk::COOKIE_ACK, Chunk::SHUTDOWN_COMPLETE]);
    decoded.must_not_hold(&[Chunk::ABORT]);
}

/// Their bulk sender sends messages of this length.
async fn they_send(len: usize, sctp_port: u16, options: &[&str]) {
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let listener = Listener::bind(config(ours, sctp_port)).unwrap();
    let texts = [theirs.into(), ours.into(), sctp_port.into(), len].map(|number: usize| number.to_string());
    let [theirs_text, ours_text, port, len_text] = texts.each_ref().map(String::as_str);
    let fixed = [
        "-E",
        theirs_text,
        "-U",
        ours_text,
        "-p",
        port,
        "-l",
        len_text,
        "-n",
        "5",
        "-S",
        "4000000",
    ];
    let arguments = [&fixed, options, &["127.0.0.1"]].concat();
    let mut peer = Peer::start("tsctp", &arguments, theirs);
    let association = accept(&listener).await;
    let (mut messages, mut data) = (0, Vec::new());
    while let Some((_, _, unordered)) = timeout(PATIENCE, association.recv_into(&mut data))
        .await
        .unwrap()
        .unwrap()
    {
        assert_eq!((data.len(), unordered), (len, options.contains(&"-u")));
        messages += 1;
    }
    assert_eq!(messages, 5);
    peer.expect_end();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn they_send_messages_of_1_byte_to_1_mib() {
    needs!(peer::installed());
    for len in [1, 2, 1452, 1453, 65_536, 1 << 20] {
        they_send(len, 5025, &[]).await;
        they_send(len, 5025, &["-u"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_send_messages_of_1_byte_to_1_mib() {
    needs!(peer::installed());
    for len in [1, 2, 1452, 1453, 65_536, 1 << 20] {
        let (ours, theirs) = (free_udp_port(), free_udp_port());
        let (theirs_text, ours_text) = (theirs.to_string(), ours.to_string());
        let arguments = ["-E", &theirs_text, "-U", &ours_text, "-p", "5026", "-R", "4000000"];
        let mut peer = Peer::start("tsctp", &arguments, theirs);
        let association = connect(ours, theirs, 5026).await;
        for number in 0..5 {
            let message = Message {
                unordered: number % 2 == 0,
                ..Message::new(0, Bytes::from(vec![0x55; len]))
            };
            timeout(PATIENCE, association.send(message)).await.unwrap().unwrap();
        }
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
        // First length, messages, receive calls, bytes in all, ...
        peer.expect(&[&format!(", {}, ", 5 * len)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn losses_in_both_directions_are_made_good() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let rules = Rules {
        lose_each: Some(29),
        holds: false,
    };
    let relay = Relay::start(ours, theirs, rules).await;
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &relay.port.to_string()], theirs);
    let association = connect(ours, relay.port, 7).await;
    echo(&association, 100).await;
    assert!(relay.first.lock().unwrap().iter().all(|chunks| chunks.len() > 200));
}

/// It skips the padding of probes, and returns their HEARTBEATs (RFC 8899 §6.2.1.2).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_of_the_path_mtu_are_answered() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &ours.to_string()], theirs);
    let association = connect(ours, theirs, 7).await;
    association.send(Message::new(0, vec![1; 9000])).await.unwrap();
    let found = async {
        while association.paths()[0].mtu < 1500 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, found).await.expect("the path MTU");
}
