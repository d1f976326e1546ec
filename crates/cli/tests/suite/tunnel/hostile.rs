//! A server and a client that does not keep to the protocol.

use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use whimbrel::{Association, AssociationConfig, AssociationError, CloseReason, Message, Stack, StackConfig};

use whimbrel_testkit::process::Process;

use super::{VERSION, server};
use crate::identity::encrypted;
use crate::support::in_time;

/// The message types of the protocol, which are the last byte of the payload protocol identifier.
pub(super) const OPEN: u32 = 0;
pub(super) const OPENED: u32 = 1;
const DATA: u32 = 2;
const EOF: u32 = 4;
pub(super) const CLOSE: u32 = 5;
const HELLO: u32 = 7;
const ACCEPTED: u32 = 9;
const IN_ORDER: u32 = 10;

pub(super) const BASE: u32 = 0x5748_5401;

/// A target that reads and is silent.
pub(super) fn sink() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let addr = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut tcp in listener.incoming().flatten() {
            std::thread::spawn(move || std::io::copy(&mut tcp.by_ref(), &mut std::io::sink()));
        }
    });
    addr
}

pub(super) struct Peer {
    pub(super) association: Association,
    _stack: Stack,
}

impl Peer {
    /// A client that the server has accepted.
    pub(super) async fn connect(addrs: &str) -> Self {
        Self::with_token(addrs, [0; 16]).await
    }

    pub(super) async fn with_token(addrs: &str, token: [u8; 16]) -> Self {
        let peer = Self::silent(addrs).await;
        peer.send(HELLO, VERSION, &token).await;
        assert_eq!(peer.expect(ACCEPTED).await, VERSION);
        peer
    }

    /// A client that has not greeted.
    async fn silent(addrs: &str) -> Self {
        let to: Vec<SocketAddr> = addrs.split(',').map(|addr| addr.parse().expect("an address")).collect();
        let config = StackConfig {
            association: AssociationConfig {
                outbound_streams: 64,
                ..AssociationConfig::default()
            },
            ..StackConfig::default()
        };
        let stack = Stack::toward(encrypted(config), &to).expect("bound");
        let association = in_time(stack.connect(&to, 5000)).await.expect("connected");
        Peer {
            association,
            _stack: stack,
        }
    }

    pub(super) async fn send(&self, kind: u32, channel: u32, rest: &[u8]) {
        let message = Message {
            ppid: BASE + kind,
            ..Message::new((channel % 64) as u16, [&channel.to_be_bytes()[..], rest].concat())
        };
        // The server may have ended the association already.
        let _ = in_time(self.association.send(message)).await;
    }

    /// Waits for a message of this type. Returns the channel.
    async fn expect(&self, kind: u32) -> u32 {
        loop {
            let message = in_time(self.association.recv()).await;
            let message = message.expect("open").expect("a message");
            if message.ppid == BASE + kind {
                return u32::from_be_bytes(message.data[..4].try_into().expect("a number"));
            }
        }
    }

    /// The reason of the server for ending the association.
    async fn reason(&self) -> String {
        let ended = async {
            loop {
                match self.association.recv().await {
                    Ok(Some(_)) => {}
                    Ok(None) => return "the end in good order".to_owned(),
                    Err(AssociationError::Closed(CloseReason::AbortedByPeer { reason, .. })) => return reason,
                    Err(error) => return error.to_string(),
                }
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(5), ended).await;
        ended.unwrap_or_else(|_| "it goes on".to_owned())
    }
}

fn with_peer<F: Future<Output = ()>>(test: impl FnOnce(Peer, String, Process) -> F) {
    let target = sink();
    let (server, addrs) = server(&["--allow", &target]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let peer = Peer::connect(&addrs).await;
        test(peer, target, server).await;
    });
}

/// What a server says of these messages on an open channel.
#[track_caller]
fn refused(messages: &[(u32, &[u8])], reason: &str) {
    with_peer(async |peer, target, _server| {
        peer.send(OPEN, 9, target.as_bytes()).await;
        assert_eq!(peer.expect(OPENED).await, 9);
        for (kind, rest) in messages {
            peer.send(*kind, 9, rest).await;
        }
        let said = peer.reason().await;
        assert!(said.contains(reason), "{said}");
    });
}

#[test]
fn empty_data_is_refused() {
    refused(&[(DATA, b"x"), (DATA, b"")], "empty");
}

#[test]
fn a_second_end_of_data_is_refused() {
    refused(&[(EOF, b""), (EOF, b"")], "after the end");
}

#[test]
fn data_after_its_end_is_refused() {
    refused(&[(EOF, b""), (DATA, b"x")], "after the end");
}

#[test]
fn the_answer_of_a_server_is_refused_by_a_server() {
    refused(&[(OPENED, b"")], "an answer");
}

#[test]
fn small_messages_use_up_credit_too() {
    // The server reads nothing while it is stopped, so that no credit returns.
    with_peer(async |peer, target, server| {
        peer.send(OPEN, 9, target.as_bytes()).await;
        peer.expect(OPENED).await;
        server.signal("-STOP");
        for _ in 0..100_000 {
            let message = Message {
                ppid: BASE + DATA,
                ..Message::new(9, [0, 0, 0, 9, b'x'].to_vec())
            };
            if peer.association.try_send(message).is_err() {
                break;
            }
        }
        server.signal("-CONT");
        assert!(peer.reason().await.contains("more data"));
    });
}

#[test]
fn channels_that_are_closed_leave_their_places() {
    with_peer(async |peer, target, _server| {
        for round in 0..3 {
            for channel in 0..256 {
                peer.send(OPEN, round * 1000 + channel, target.as_bytes()).await;
                peer.send(EOF, round * 1000 + channel, b"").await;
            }
            for _ in 0..256 {
                peer.expect(OPENED).await;
            }
            for channel in 0..256 {
                peer.send(CLOSE, round * 1000 + channel, b"").await;
            }
            // The channels of a stream are ordered, different streams are not.
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    });
}

#[test]
fn numbers_of_closed_channels_may_be_used_again() {
    with_peer(async |peer, target, _server| {
        for _ in 0..3 {
            peer.send(OPEN, 9, target.as_bytes()).await;
            assert_eq!(peer.expect(OPENED).await, 9);
            peer.send(DATA, 9, &[1; 5000]).await;
            peer.send(CLOSE, 9, b"").await;
        }
        peer.send(OPEN, 9, target.as_bytes()).await;
        peer.expect(OPENED).await;
        // It ends if the server still knows it.
        peer.send(EOF, 9, b"").await;
        peer.send(DATA, 9, b"x").await;
        assert!(peer.reason().await.contains("after the end"));
    });
}

#[test]
fn packets_whose_predecessors_never_come_do_not_stop_the_server() {
    with_peer(async |peer, target, _server| {
        for number in 1..300 {
            // They ask to wait for 65 s, and come twice, with other lengths.
            for len in [10, 1000] {
                let content = [&u16::MAX.to_be_bytes()[..], &vec![0x45; len]].concat();
                peer.send(IN_ORDER, number * 0x10_0001, &content).await;
            }
        }
        // They have waited long enough.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        peer.send(IN_ORDER, 0, &[0, 0, 0x45]).await;
        peer.send(OPEN, 9, target.as_bytes()).await;
        assert_eq!(peer.expect(OPENED).await, 9);
        peer.send(IN_ORDER, 1, &[0]).await;
        assert!(peer.reason().await.contains("too short"));
    });
}

#[tokio::test]
async fn a_client_of_another_version_is_refused() {
    let (_server, addrs) = server(&["--allow", "any"]);
    let peer = Peer::silent(&addrs).await;
    peer.send(HELLO, VERSION + 1, &[0; 16]).await;
    let said = peer.reason().await;
    assert!(
        said.contains(&format!(
            "the client has version {} of the tunnel's protocol, the server version {VERSION}",
            VERSION + 1
        )),
        "{said}"
    );
}

#[tokio::test]
async fn a_client_that_returns_with_its_token_ends_its_earlier_association() {
    let (_server, addrs) = server(&["--allow", "any"]);
    let lost = Peer::with_token(&addrs, [7; 16]).await;
    let other = Peer::with_token(&addrs, [8; 16]).await;
    let back = Peer::with_token(&addrs, [7; 16]).await;
    let said = lost.reason().await;
    assert!(said.contains("its client has connected again"), "{said}");
    // The end of the earlier one does not affect the later one, nor those of other clients.
    let target = sink();
    for peer in [&back, &other] {
        peer.send(OPEN, 9, target.as_bytes()).await;
        assert_eq!(peer.expect(OPENED).await, 9);
    }
    // It is known by its later one now.
    let _again = Peer::with_token(&addrs, [7; 16]).await;
    let said = back.reason().await;
    assert!(said.contains("its client has connected again"), "{said}");
}

#[tokio::test]
async fn requests_that_are_refused_do_not_fill_the_log() {
    let (mut server, addrs) = server(&["--allow", "localhost:9"]);
    let peer = Peer::connect(&addrs).await;
    for channel in 0..2000 {
        peer.send(OPEN, channel, b"localhost:10").await;
    }
    for _ in 0..2000 {
        peer.expect(CLOSE).await;
    }
    let _ = in_time(peer.association.shutdown()).await;
    server.signal("-INT");
    let said = server.errors.rest();
    let refused = said
        .lines()
        .filter(|line| line.contains("refused a connection"))
        .count();
    assert!((1..100).contains(&refused), "{refused}");
    let left_out = said
        .lines()
        .filter_map(|line| line.split_once(" more messages")?.0.parse::<usize>().ok());
    assert_eq!(refused + left_out.sum::<usize>(), 2000, "{said}");
}
