//! Streams that are reset and used again (RFC 6525), over a lossy network.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/network.rs"]
mod network;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use whimbrel::simulated::Simulation;
use whimbrel::{
    AssociationConfig, ChangeStreamsError, Listener, Message, Stack, StackConfig, StreamChange, StreamChangeError,
    StreamList,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LOSSY: &[&str] = &[r#"
name = "link"
rate = "10 Mbit/s"
delay = "50 ms"
loss = { kind = "bernoulli", rate = 0.03 }"#];

fn config(local: &str, port: u16, stream_changes: bool) -> StackConfig {
    let association = AssociationConfig {
        stream_changes,
        outbound_streams: 4,
        ..StackConfig::default().association
    };
    StackConfig {
        port,
        association,
        ..StackConfig::local([local.parse().unwrap()])
    }
}

/// The uses of a stream, as the receiver distinguishes them.
#[test]
fn each_use_of_a_stream_ends_with_a_reset() {
    const USES: usize = 20;
    let scenario = network::scenario("10 min", LOSSY);
    let mut simulation = Simulation::new(&scenario, 1);
    let server = simulation.addrs("b", 9899);
    let seen: Arc<Mutex<Vec<Vec<u8>>>> = Arc::default();
    let by_receiver = seen.clone();
    simulation.node("b", move || {
        let seen = by_receiver.clone();
        async move {
            let association = Listener::bind(config("0.0.0.0:9899", 7, true))?.accept().await?;
            for number in 0..USES {
                let mut content = Vec::new();
                loop {
                    tokio::select! {
                        biased;
                        received = association.recv() => content.push(received?.unwrap().data[0]),
                        change = association.next_stream_change() => {
                            assert_eq!(change?, StreamChange::ResetInbound(StreamList::of([1])), "{number}");
                            break;
                        }
                    }
                }
                seen.lock().unwrap().push(content);
                // It resets its own direction too, which ends the use for both.
                association.send(Message::new(1, vec![number as u8])).await?;
                association
                    .change_streams(StreamChange::ResetOutbound(StreamList::of([1])))
                    .await?;
            }
            assert_eq!(association.next_stream_change().await?, StreamChange::AddInbound(2));
            assert_eq!(association.recv().await?.unwrap().stream, 5);
            assert!(association.recv().await?.is_none());
            Ok::<(), Failure>(())
        }
    });
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let association = Stack::bind(config("0.0.0.0:0", 0, true))?.connect(&server, 7).await?;
            for number in 0..USES {
                for _ in 0..=number {
                    association.send(Message::new(1, vec![number as u8; 3000])).await?;
                }
                association
                    .change_streams(StreamChange::ResetOutbound(StreamList::of([1])))
                    .await?;
                assert_eq!(association.recv().await?.unwrap().data, [number as u8]);
                let change = association.next_stream_change().await?;
                assert_eq!(change, StreamChange::ResetInbound(StreamList::of([1])));
            }
            association.change_streams(StreamChange::AddOutbound(2)).await?;
            association.send(Message::new(5, "on a stream that was added")).await?;
            let refused = association.change_streams(StreamChange::AddInbound(1)).await;
            assert_eq!(refused, Err(ChangeStreamsError::Refused(2)));
            association.shutdown().await?;
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap();
    let seen = seen.lock().unwrap();
    let wanted: Vec<Vec<u8>> = (0..USES).map(|number| vec![number as u8; number + 1]).collect();
    assert_eq!(*seen, wanted);
}

#[tokio::test]
async fn peers_that_do_not_agree_and_ends_are_errors() {
    let listener = Listener::bind(config("127.0.0.1:0", 0, false)).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let server = tokio::spawn(async move {
        let association = listener.accept().await.unwrap();
        sleep(Duration::from_millis(300)).await;
        association.abort("the end");
    });
    let stack = Stack::bind(config("127.0.0.1:0", 0, true)).unwrap();
    let association = stack.connect(&addrs, port).await.unwrap();
    let refused = association.change_streams(StreamChange::AddOutbound(1)).await;
    assert_eq!(
        refused,
        Err(ChangeStreamsError::Request(StreamChangeError::NotSupported))
    );
    let next = timeout(Duration::from_secs(10), association.next_stream_change())
        .await
        .unwrap();
    assert!(next.is_err(), "{next:?}");
    server.await.unwrap();
}
