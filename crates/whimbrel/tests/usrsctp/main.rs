//! Whimbrel and usrsctp (Debian's libusrsctp-examples) over UDP on loopback: each as client and as server, data both ways,
//! shutdown by either end. Every test captures its packets, and tshark must decode them all.
//!
//! `cargo xtask test` installs what this needs. Without the privilege to capture, that part of each test is reported as not run.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod capture;
mod openings;
mod peer;
#[path = "../support/relay.rs"]
mod relay;

use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;
use tokio::time::timeout;
use whimbrel::{Association, Listener, Message, Reliability, Stack, StackConfig};
use whimbrel_testkit::needs;

use capture::{Capture, Chunk};
use peer::{Peer, free_udp_port};

const PATIENCE: Duration = Duration::from_secs(60);
/// Payload protocol identifiers from here on mean nothing to tshark, which would else decode the content.
const PPID: u32 = 1_000_000;

/// Our end: UDP on loopback, one packet a system call so that captures show packets as they are.
fn config(udp_port: u16, sctp_port: u16) -> StackConfig {
    StackConfig {
        local: vec![([127, 0, 0, 1], udp_port).into()],
        port: sctp_port,
        segmentation_offload: false,
        ..StackConfig::default()
    }
}

async fn connect(ours: u16, theirs: u16, port: u16) -> Association {
    let stack = Stack::bind(config(ours, 0)).unwrap();
    timeout(PATIENCE, stack.connect(&[([127, 0, 0, 1], theirs).into()], port))
        .await
        .unwrap()
        .unwrap()
}

async fn accept(listener: &Listener) -> Association {
    timeout(PATIENCE, listener.accept())
        .await
        .expect("usrsctp did not connect")
        .unwrap()
}

fn content(i: usize) -> Vec<u8> {
    let len = 1 + (i * 911) % 9000;
    (0..len).map(|at| (at * 7 + i) as u8).collect()
}

// [6951:5.3-1, 5.3-4]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_client_and_their_echo_server() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &ours.to_string()], theirs);
    let association = connect(ours, theirs, 7).await;
    let sending = async {
        for i in 0..200_usize {
            let message = Message {
                ppid: PPID + i as u32,
                unordered: i.is_multiple_of(5),
                ..Message::new(i as u16 % 10, content(i))
            };
            association.send(message).await.unwrap();
        }
    };
    let receiving = async {
        let mut seen = [false; 200];
        for _ in 0..200 {
            let message = association.recv().await.unwrap().expect("usrsctp echoes everything");
            let i = (message.ppid - PPID) as usize;
            assert_eq!(
                (message.stream, message.unordered),
                (i as u16 % 10, i.is_multiple_of(5))
            );
            assert!(message.data == content(i), "message {i} came back changed");
            assert!(!std::mem::replace(&mut seen[i], true), "message {i} came twice");
        }
    };
    timeout(PATIENCE, async { tokio::join!(sending, receiving) })
        .await
        .expect("the echo stopped");
    timeout(PATIENCE, association.shutdown())
        .await
        .expect("usrsctp did not shut down")
        .unwrap();

    let decoded = capture.decode();
    decoded.must_hold(&[
        Chunk::INIT,
        Chunk::INIT_ACK,
        Chunk::COOKIE_ECHO,
        Chunk::COOKIE_ACK,
        Chunk::DATA,
        Chunk::SACK,
        Chunk::SHUTDOWN,
        Chunk::SHUTDOWN_ACK,
        Chunk::SHUTDOWN_COMPLETE,
    ]);
}

/// Passes packets between two UDP ports of loopback through a third one, and loses every seventh packet from `ours` that begins with DATA.
async fn lossy_relay(relay: UdpSocket, ours: u16, theirs: u16) {
    const FIRST_CHUNK: usize = 12;
    let (mut buffer, mut count) = (vec![0; 1 << 16], 0);
    while let Ok((len, from)) = relay.recv_from(&mut buffer).await {
        let is_ours = from.port() == ours;
        if is_ours && buffer[FIRST_CHUNK] == 0 {
            count += 1;
            if count % 7 == 0 {
                continue;
            }
        }
        let to = if is_ours { theirs } else { ours };
        let _ = relay.send_to(&buffer[..len], ("127.0.0.1", to)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_server_moves_on_when_messages_are_given_up() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let between = relay.local_addr().unwrap().port();
    let capture = Capture::start(theirs);
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &between.to_string()], theirs);
    let relaying = tokio::spawn(lossy_relay(relay, ours, theirs));
    let association = connect(ours, between, 7).await;
    let sent = 300_usize;
    for i in 0..sent {
        let message = Message {
            ppid: PPID + i as u32,
            unordered: i.is_multiple_of(7),
            reliability: Reliability::Retransmissions(0),
            ..Message::new(i as u16 % 10, content(i))
        };
        association.send(message).await.unwrap();
    }
    // In order behind all others of its stream, and never given up.
    let last = Message {
        ppid: PPID + sent as u32,
        ..Message::new(3, content(sent))
    };
    association.send(last).await.unwrap();
    let mut echoed = Vec::new();
    // A message may be given up after the last echo has come.
    let mut look = tokio::time::interval(Duration::from_millis(100));
    let all = async {
        loop {
            tokio::select! {
                message = association.recv() => {
                    let message = message.unwrap().expect("usrsctp echoes everything");
                    let i = (message.ppid - PPID) as usize;
                    assert!(message.data == content(i), "message {i} came back changed");
                    echoed.push(i);
                }
                _ = look.tick() => {}
            }
            let stats = association.stats().expect("it is open");
            let given_up = stats.messages_given_up_sent + stats.messages_given_up_unsent;
            if echoed.contains(&sent) && echoed.len() as u64 + given_up > sent as u64 {
                return given_up;
            }
        }
    };
    let given_up = timeout(PATIENCE, all).await.expect("the echo stopped");
    assert!(given_up > 10, "{given_up} messages were given up");
    for stream in 0..10 {
        let of_stream = echoed
            .iter()
            .filter(|&&i| i % 10 == stream && !i.is_multiple_of(7) && i < sent);
        assert!(of_stream.is_sorted(), "{echoed:?}");
    }
    timeout(PATIENCE, association.shutdown())
        .await
        .expect("usrsctp did not shut down")
        .unwrap();
    relaying.abort();
    capture
        .decode()
        .must_hold(&[Chunk::DATA, Chunk::FORWARD_TSN, Chunk::SACK]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_client_talks_and_shuts_down() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(ours);
    let listener = Listener::bind(config(ours, 5010)).unwrap();
    let mut peer = Peer::start(
        "client",
        &["127.0.0.1", "5010", "0", &theirs.to_string(), &ours.to_string()],
        theirs,
    );
    let association = accept(&listener).await;
    for i in 0..20 {
        peer.write_line(&format!("line {i}"));
        let message = timeout(PATIENCE, association.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(message.data, format!("line {i}\n").as_bytes());
        association.send(Message::new(0, format!("echo {i}\n"))).await.unwrap();
        peer.expect(&[&format!("echo {i}")]);
    }
    peer.close_input();
    assert_eq!(
        timeout(PATIENCE, association.recv()).await.expect("no shutdown came"),
        Ok(None)
    );
    peer.expect_end();
    capture
        .decode()
        .must_hold(&[Chunk::SHUTDOWN, Chunk::SHUTDOWN_ACK, Chunk::SHUTDOWN_COMPLETE]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_shut_their_client_down() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(ours);
    let listener = Listener::bind(config(ours, 5011)).unwrap();
    let mut peer = Peer::start(
        "client",
        &["127.0.0.1", "5011", "0", &theirs.to_string(), &ours.to_string()],
        theirs,
    );
    let association = accept(&listener).await;
    peer.write_line("hello");
    assert_eq!(
        timeout(PATIENCE, association.recv())
            .await
            .unwrap()
            .unwrap()
            .unwrap()
            .data,
        b"hello\n"
    );
    association.send(Message::new(0, "goodbye\n")).await.unwrap();
    timeout(PATIENCE, association.shutdown())
        .await
        .expect("usrsctp did not shut down")
        .unwrap();
    peer.expect(&["goodbye"]);
    // It looks at its association again when its input ends.
    peer.expect_end();
    capture
        .decode()
        .must_hold(&[Chunk::SHUTDOWN, Chunk::SHUTDOWN_ACK, Chunk::SHUTDOWN_COMPLETE]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_daytime_server_shuts_us_down() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let _peer = Peer::start("daytime_server", &[&theirs.to_string(), &ours.to_string()], theirs);
    let association = connect(ours, theirs, 13).await;
    let time = timeout(PATIENCE, association.recv())
        .await
        .unwrap()
        .unwrap()
        .expect("the time of day");
    assert!(time.data.contains(&b':'), "{:?}", String::from_utf8_lossy(&time.data));
    assert_eq!(
        timeout(PATIENCE, association.recv()).await.expect("no shutdown came"),
        Ok(None)
    );
    capture
        .decode()
        .must_hold(&[Chunk::SHUTDOWN, Chunk::SHUTDOWN_ACK, Chunk::SHUTDOWN_COMPLETE]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_bulk_sender_fills_us() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(ours);
    let listener = Listener::bind(config(ours, 5012)).unwrap();
    let (theirs_text, ours_text) = (theirs.to_string(), ours.to_string());
    let options = [
        "-E",
        &theirs_text,
        "-U",
        &ours_text,
        "-p",
        "5012",
        "-n",
        "3000",
        "-l",
        "5000",
        "127.0.0.1",
    ];
    let mut peer = Peer::start("tsctp", &options, theirs);
    let association = accept(&listener).await;
    let (mut messages, mut data) = (0, Vec::new());
    let receiving = async {
        while association.recv_into(&mut data).await.unwrap().is_some() {
            assert_eq!(data.len(), 5000);
            messages += 1;
        }
    };
    timeout(PATIENCE, receiving).await.expect("the bulk stopped");
    assert_eq!(messages, 3000);
    peer.expect_end();
    capture.decode().must_hold(&[Chunk::DATA, Chunk::SACK]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn we_fill_their_bulk_receiver() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let (theirs_text, ours_text) = (theirs.to_string(), ours.to_string());
    let mut peer = Peer::start("tsctp", &["-E", &theirs_text, "-U", &ours_text, "-p", "5013"], theirs);
    let association = connect(ours, theirs, 5013).await;
    let payload = Bytes::from(vec![0x55; 5000]);
    let sending = async {
        for _ in 0..3000 {
            association.send(Message::new(0, payload.clone())).await.unwrap();
        }
        association.shutdown().await.unwrap();
    };
    timeout(PATIENCE, sending).await.expect("the bulk stopped");
    // First length, messages, receive calls, bytes in all, ...
    peer.expect(&["5000, 3000, ", ", 15000000, "]);
    capture.decode().must_hold(&[Chunk::DATA, Chunk::SACK]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_of_ours_ends_their_server_s_association() {
    needs!(peer::installed());
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let (theirs_text, ours_text) = (theirs.to_string(), ours.to_string());
    let mut peer = Peer::start("tsctp", &["-E", &theirs_text, "-U", &ours_text, "-p", "5014"], theirs);
    let association = connect(ours, theirs, 5014).await;
    association.send(Message::new(0, vec![1; 100])).await.unwrap();
    association.flush().await.unwrap();
    association.abort("that is enough");
    // It prints a line per connection once that has ended: first length, messages, ...
    peer.expect(&["100, 1, "]);
    capture.decode().must_hold(&[Chunk::ABORT]);
}

/// Our end with everything that both ends would have to agree on.
fn with_extensions(udp_port: u16, sctp_port: u16) -> StackConfig {
    let mut config = config(udp_port, sctp_port);
    config.association.ecn = Some(true);
    config.association.eci = Some(true);
    config.association.timestamps = Some(true);
    config
}

async fn echo(association: &Association, messages: usize) {
    for i in 0..messages {
        let message = Message {
            ppid: PPID + i as u32,
            ..Message::new(0, content(i))
        };
        association.send(message).await.unwrap();
        let back = timeout(PATIENCE, association.recv()).await.expect("the echo stopped");
        assert!(back.unwrap().expect("everything comes back").data == content(i));
    }
    timeout(PATIENCE, association.shutdown())
        .await
        .expect("no shutdown")
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_extensions_are_passed_over_by_their_server() {
    needs!(peer::installed());
    // RFC 9260 §3.2.1: parameters of unknown types that ask to be skipped; without agreement there are no TIMESTAMP chunks.
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &ours.to_string()], theirs);
    let stack = Stack::bind(with_extensions(ours, 0)).unwrap();
    let peer = [([127, 0, 0, 1], theirs).into()];
    let association = timeout(PATIENCE, stack.connect(&peer, 7)).await.unwrap().unwrap();
    echo(&association, 20).await;
    let decoded = capture.decode();
    decoded.must_hold(&[Chunk::INIT, Chunk::DATA, Chunk::SHUTDOWN_COMPLETE]);
    decoded.must_not_hold(&[Chunk::TIMESTAMP]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tshark_reads_past_our_timestamps() {
    // RFC 9260 §3.2: a chunk of unknown type that asks to be skipped, in front of DATA and SACK.
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let listener = Listener::bind(with_extensions(theirs, 7)).unwrap();
    let stack = Stack::bind(with_extensions(ours, 0)).unwrap();
    let peer = [([127, 0, 0, 1], theirs).into()];
    let (connected, accepted) = tokio::join!(timeout(PATIENCE, stack.connect(&peer, 7)), accept(&listener));
    let association = connected.unwrap().unwrap();
    let server = tokio::spawn(async move {
        while let Ok(Some(message)) = accepted.recv().await {
            accepted.send(Message::new(message.stream, message.data)).await.unwrap();
        }
    });
    echo(&association, 20).await;
    timeout(PATIENCE, server).await.unwrap().unwrap();
    let decoded = capture.decode();
    decoded.must_hold(&[Chunk::TIMESTAMP, Chunk::DATA, Chunk::SACK, Chunk::SHUTDOWN_COMPLETE]);
}

// RFC 4895, RFC 5061: usrsctp authenticates, takes our second address, sends there first, and forgets the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_server_follows_us_to_another_address() {
    needs!(peer::installed());
    follow_us(false).await;
}

// RFC 5061 §4.2.1, §4.2.2: the same with wildcard addresses, as behind a NAT.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn their_server_takes_the_source_address() {
    needs!(peer::installed());
    follow_us(true).await;
}

async fn follow_us(by_source: bool) {
    let (ours, theirs) = (free_udp_port(), free_udp_port());
    let capture = Capture::start(theirs);
    let _peer = Peer::start("echo_server", &[&theirs.to_string(), &ours.to_string()], theirs);
    let mut config = config(ours, 0);
    config.association.dynamic_addresses = true;
    config.association.address_translation = Some(by_source);
    let stack = Stack::bind(config).unwrap();
    let server = [([127, 0, 0, 1], theirs).into()];
    let association = timeout(PATIENCE, stack.connect(&server, 7)).await.unwrap().unwrap();
    let first = stack.local_addrs()[0];
    let talk = async |from: usize| {
        for i in from..from + 20 {
            let message = Message {
                ppid: PPID + i as u32,
                ..Message::new(0, content(i))
            };
            association.send(message).await.unwrap();
            let back = timeout(PATIENCE, association.recv()).await.expect("the echo stopped");
            assert!(back.unwrap().expect("everything comes back").data == content(i));
        }
    };
    talk(0).await;
    let second = stack.add_local_address(([127, 0, 0, 2], 0).into()).unwrap();
    association.prefer_local_address(second).unwrap();
    talk(20).await;
    assert_eq!(
        association.local_addrs(),
        [first, second],
        "usrsctp has taken the address"
    );
    stack.remove_local_address(first).unwrap();
    talk(40).await;
    // The socket is closed when usrsctp has answered.
    let free = async {
        while std::net::UdpSocket::bind(first).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, free)
        .await
        .expect("usrsctp did not let go of the first address");
    talk(60).await;
    assert_eq!(association.local_addrs(), [second]);
    assert_eq!(association.stats().unwrap().timeouts, 0);
    timeout(PATIENCE, association.shutdown())
        .await
        .expect("no shutdown")
        .unwrap();
    let decoded = capture.decode();
    decoded.must_hold(&[Chunk::AUTH, Chunk::ASCONF, Chunk::ASCONF_ACK, Chunk::SHUTDOWN_COMPLETE]);
}
