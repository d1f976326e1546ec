//! Encrypted associations over UDP on loopback.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{Listener, Message, PathState, ProtectionConfig, Stack, StackConfig};
use whimbrel_secure::PreSharedKey;

const PATIENCE: Duration = Duration::from_secs(20);

fn on(addrs: &[&str], secret: Option<&[u8]>) -> StackConfig {
    let mut config = StackConfig::local(addrs.iter().map(|addr| addr.parse().unwrap()));
    if let Some(secret) = secret {
        config.association.protection = ProtectionConfig::required(Arc::new(PreSharedKey::new(secret).unwrap()));
    }
    config.association.max_init_retransmits = 0;
    config
}

#[tokio::test]
async fn messages_arrive_over_two_encrypted_paths() {
    let secret = [9; 32];
    let server = on(&["127.0.0.1:0", "127.0.0.2:0"], Some(&secret));
    let listener = Listener::bind(server).unwrap();
    let stack = Stack::bind(on(&["127.0.0.3:0", "127.0.0.4:0"], Some(&secret))).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let connecting = tokio::spawn(async move { (stack.connect(&addrs, port).await.unwrap(), stack) });
    let b = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let (a, stack) = connecting.await.unwrap();
    assert!(a.is_encrypted() && b.is_encrypted());
    let content: Vec<u8> = (0..3_000_000_u32).map(|n| (n / 7) as u8).collect();
    for from in [&a, &b] {
        from.send(Message::new(1, content.clone())).await.unwrap();
    }
    for to in [&a, &b] {
        let message = timeout(PATIENCE, to.recv()).await.unwrap().unwrap().unwrap();
        assert!(message.data == content);
    }
    // HEARTBEATs have confirmed the second path.
    let both = async {
        while a.paths().iter().filter(|path| path.state == PathState::Active).count() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, both).await.unwrap();
    let (sent, received) = (a.protection_stats(), b.protection_stats());
    // Packets have up to 16 KiB on loopback.
    assert!(sent.sealed > 180 && received.opened > 180, "{sent:?} {received:?}");
    assert_eq!((received.failed, received.replayed, received.unprotected), (0, 0, 0));
    a.shutdown().await.unwrap();
    assert!(matches!(timeout(PATIENCE, b.recv()).await.unwrap(), Ok(None)));
    stack.wait_idle().await;
}

#[tokio::test]
async fn peers_without_the_secret_are_refused() {
    let listener = Listener::bind(on(&["127.0.0.1:0"], Some(&[9; 32]))).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let plain = Stack::bind(on(&["127.0.0.1:0"], None)).unwrap();
    let refused = timeout(PATIENCE, plain.connect(&addrs, port)).await.unwrap();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "connection refused: refused by the peer: the peer requires encryption"
    );
    let other = Stack::bind(on(&["127.0.0.1:0"], Some(&[8; 32]))).unwrap();
    let failed = timeout(PATIENCE, other.connect(&addrs, port)).await.unwrap();
    assert_eq!(
        failed.unwrap_err().to_string(),
        "timed out: no answer to the opening handshake"
    );
}
