//! The end of a transfer.

use std::time::{Duration, Instant};

use super::peer::{DONE, Peer, TRAILER, message};
use super::{content, wait};

#[tokio::test]
async fn sender_exits_promptly_when_the_receiver_is_silent_after_its_confirmation() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a");
    std::fs::write(&file, content(100_000)).unwrap();
    let (peer, mut child) = Peer::accept(&file).await;
    while peer.hear().await.0 != TRAILER {}
    peer.say(message(DONE, [0])).await;
    // The stack sends it. From then on the runtime is blocked: the receiver does not answer.
    tokio::task::yield_now().await;
    let start = Instant::now();
    assert_eq!(wait(&mut child), Some(0));
    assert!(start.elapsed() < Duration::from_secs(6), "{:?}", start.elapsed());
}
