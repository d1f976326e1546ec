//! The primary path fails in the midst of a transfer, and the data goes over the other one. Linux: it uses several addresses of 127.0.0.0/8.
//!
//! `cargo run -p whimbrel --example failover`
//!
//! ```text
//! client 127.0.0.3 --- relay 127.0.0.2 ---.
//!                                          server 127.0.0.1
//! client 127.0.0.4 -----------------------'
//! ```

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::UdpSocket;
use whimbrel::{
    AssociationConfig, AssociationError, Listener, Message, PathChange, PathEvent, Span, Stack, StackConfig,
};

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const MESSAGES: u32 = 200;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let (received, events) = run().await?;
    println!("{received} messages received");
    let start = events.first().map(|event| event.time);
    for event in events {
        let after = start.map_or(Duration::ZERO, |start| event.time - start);
        println!(
            "{:>5} ms: path {} ({} -> {}) {}",
            after.as_millis(),
            event.path,
            event.local,
            event.remote,
            event.change
        );
    }
    Ok(())
}

/// A path counts as failed after one timeout of at least 50 ms, so that the example is short.
fn config(addrs: impl IntoIterator<Item = SocketAddr>) -> StackConfig {
    let association = AssociationConfig {
        rto_initial: Some(Span::from_millis(100)),
        rto_min: Span::from_millis(50),
        sack_delay: Span::from_millis(10),
        path_max_retrans: 1,
        ..StackConfig::default().association
    };
    StackConfig {
        association,
        ..StackConfig::local(addrs)
    }
}

/// Returns the number of messages received, and the client's path events.
pub(crate) async fn run() -> Outcome<(u32, Vec<PathEvent>)> {
    // An end with one address does not list it: the second one makes the server name both.
    let listener = Listener::bind(config(["127.0.0.1:0".parse()?, "127.0.0.5:0".parse()?]))?;
    let (server_addr, port) = (listener.stack().local_addrs()[0], listener.stack().port());
    let server = tokio::spawn(async move {
        let association = listener.accept().await?;
        let mut received = 0;
        while association.recv().await?.is_some() {
            received += 1;
        }
        Ok::<u32, AssociationError>(received)
    });

    let stack = Stack::bind(config(["127.0.0.3:0".parse()?, "127.0.0.4:0".parse()?]))?;
    // Addresses that a handshake lists share one UDP port at each end: the relay has the server's on one side, the client's on the other.
    let client_port = stack.local_addrs()[0].port();
    let front = UdpSocket::bind(("127.0.0.2", server_addr.port())).await?;
    let back = UdpSocket::bind(("127.0.0.2", client_port)).await?;
    let first = front.local_addr()?;
    let relay = tokio::spawn(relay(front, back, server_addr));

    let association = stack.connect(&[first, server_addr], port).await?;
    let mut watch = association.path_events();
    let events = tokio::spawn(async move {
        let mut events = Vec::new();
        while let Some(event) = watch.next().await {
            events.push(event);
        }
        events
    });
    for number in 0..MESSAGES {
        if number == MESSAGES / 4 {
            let primary = association.paths().into_iter().find(|path| path.primary);
            assert_eq!(
                primary.map(|path| path.remote),
                Some(first),
                "the first address is the primary one"
            );
            relay.abort();
        }
        if number == MESSAGES / 2 {
            // The path that is left becomes the primary one.
            while association
                .paths()
                .iter()
                .all(|path| path.remote != first || path.errors == 0)
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let other = association.paths().into_iter().find(|path| path.remote == server_addr);
            association.set_primary(other.ok_or("the second path is gone")?.id);
        }
        association.send(Message::new(0, number.to_be_bytes().to_vec())).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    association.flush().await?;
    while association
        .paths()
        .iter()
        .all(|path| path.state != whimbrel::PathState::Inactive)
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    association.shutdown().await?;
    let received = server.await??;
    stack.wait_idle().await;
    let events = events.await?;
    assert!(
        events
            .iter()
            .any(|event| event.remote == first && event.change == PathChange::Down)
    );
    Ok((received, events))
}

/// Forwards datagrams between the client, which sends to `front`, and the server, which sees `back`.
async fn relay(front: UdpSocket, back: UdpSocket, server: SocketAddr) -> std::io::Result<()> {
    let mut client = None;
    let (mut from_client, mut from_server) = ([0; 2048], [0; 2048]);
    loop {
        tokio::select! {
            received = front.recv_from(&mut from_client) => {
                let (len, from) = received?;
                client = Some(from);
                back.send_to(&from_client[..len], server).await?;
            }
            received = back.recv_from(&mut from_server) => {
                let (len, _) = received?;
                if let Some(client) = client {
                    front.send_to(&from_server[..len], client).await?;
                }
            }
        }
    }
}
