//! What a layer above needs of an association and of a stack: its status, the peer's shutdown, and listening later.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{AssociationState, Message, Stack, StackConfig};

const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn stack_that_listens_later_accepts_and_peers_know_of_a_shutdown() {
    let server = Stack::bind(StackConfig::local(["127.0.0.1:0".parse().unwrap()])).unwrap();
    let client = Stack::bind(StackConfig::local(["127.0.0.1:0".parse().unwrap()])).unwrap();
    let (addrs, port) = (server.local_addrs().to_vec(), server.port());
    client.connect(&addrs, port).await.unwrap_err();
    let listener = server.listen().unwrap();
    assert!(server.listen().is_none());
    let (a, b) = tokio::join!(client.connect(&addrs, port), listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());
    let (own, peer) = (a.status().unwrap(), b.status().unwrap());
    assert_eq!((own.state, own.peer_port), (AssociationState::Established, port));
    assert_eq!(own.outbound_streams, peer.inbound_streams);
    assert!(own.peer_rwnd > 0);

    b.send(Message::new(0, "the last")).await.unwrap();
    let begun = timeout(Duration::from_millis(50), a.peer_shutdown()).await;
    assert!(begun.is_err(), "the peer has not begun it");
    let ending = tokio::spawn(async move { b.shutdown().await });
    timeout(PATIENCE, a.peer_shutdown()).await.unwrap();
    assert_eq!(a.recv().await.unwrap().unwrap().data, b"the last");
    assert!(a.recv().await.unwrap().is_none());
    ending.await.unwrap().unwrap();
    drop(listener);
    assert!(server.listen().is_some(), "there may be another one");
}
