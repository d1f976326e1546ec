//! The end of a transfer.

use std::time::{Duration, Instant};

use whimbrel::{Listener, Message, StackConfig};

use super::{content, sender, wait};

/// Payload protocol identifiers of the sender's digest and the receiver's confirmation.
const TRAILER: u32 = 0x5748_4203;
const DONE: u32 = 0x5748_4205;

#[tokio::test]
async fn sender_exits_promptly_when_the_receiver_is_silent_after_its_confirmation() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, content(100_000)).unwrap();
    let config = StackConfig {
        port: 5000,
        ..StackConfig::local(["127.0.0.1:0".parse().unwrap()])
    };
    let listener = Listener::bind(config).unwrap();
    let mut child = sender(&listener.stack().local_addrs()[0].to_string(), &file)
        .spawn()
        .unwrap();
    let association = listener.accept().await.unwrap();
    while association.recv().await.unwrap().unwrap().ppid != TRAILER {}
    let done = Message {
        ppid: DONE,
        ..Message::new(0, vec![0])
    };
    association.send(done).await.unwrap();
    // The stack sends it. From then on the runtime is blocked: the receiver does not answer.
    tokio::task::yield_now().await;
    let start = Instant::now();
    assert_eq!(wait(&mut child), Some(0));
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}
