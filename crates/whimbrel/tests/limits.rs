//! What peers may make a stack hold, each limit by itself. Peers are made by hand on loopback.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/raw.rs"]
mod raw;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use raw::Raw;
use tokio::time::timeout;
use whimbrel::{
    Association, AssociationConfig, CloseReason, ConnectError, Listener, Message, Span, Stack, StackConfig,
};
use whimbrel_wire::Chunk;

const PATIENCE: Duration = Duration::from_secs(20);

fn config() -> StackConfig {
    StackConfig::local(["127.0.0.1:0".parse().unwrap()])
}

fn place(listener: &Listener) -> (SocketAddr, u16) {
    (listener.stack().local_addrs()[0], listener.stack().port())
}

/// Accepts and reads everything; counts the complete messages.
fn serve(listener: Listener) -> (Stack, tokio::sync::mpsc::UnboundedReceiver<usize>) {
    let stack = listener.stack().clone();
    let (messages, received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok(association) = listener.accept().await {
            let messages = messages.clone();
            tokio::spawn(async move {
                while let Ok(Some(message)) = association.recv().await {
                    let _ = messages.send(message.data.len());
                }
            });
        }
    });
    (stack, received)
}

async fn client(server: (SocketAddr, u16)) -> Association {
    let stack = Stack::bind(config()).unwrap();
    timeout(PATIENCE, stack.connect(&[server.0], server.1))
        .await
        .unwrap()
        .unwrap()
}

/// Runs blocking code of a peer made by hand beside the stack.
async fn by_hand<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> T {
    timeout(PATIENCE, tokio::task::spawn_blocking(f))
        .await
        .unwrap()
        .unwrap()
}

#[tokio::test]
async fn silent_handshakes_from_one_socket_do_not_lock_others_out() {
    let listener = Listener::bind(StackConfig {
        max_associations_per_address: 100,
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let (stack, mut messages) = serve(listener);
    let good = client(server).await;
    good.send(Message::new(0, "first")).await.unwrap();
    assert_eq!(messages.recv().await, Some(5));
    let opened = by_hand(move || {
        let raw = Raw::new("127.0.0.1", server.0, server.1).unwrap();
        (1..=2000).filter(|port| raw.open(*port).unwrap().is_some()).count()
    })
    .await;
    assert_eq!(opened, 2000);
    assert!(stack.associations() <= 100, "{} associations", stack.associations());
    // From the same address: one that was there before, and one that comes after.
    good.send(Message::new(0, "second")).await.unwrap();
    assert_eq!(messages.recv().await, Some(6));
    let late = client(server).await;
    late.send(Message::new(0, "latecomer")).await.unwrap();
    assert_eq!(messages.recv().await, Some(9));
}

#[tokio::test]
async fn every_client_that_is_connected_is_accepted() {
    const BACKLOG: usize = 3;
    const CLIENTS: u8 = 12;
    let listener = Listener::bind(StackConfig {
        backlog: BACKLOG,
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..CLIENTS {
        clients.spawn(async move {
            let stack = Stack::bind(StackConfig {
                association: AssociationConfig {
                    rto_initial: Some(Span::from_millis(200)),
                    rto_min: Span::from_millis(100),
                    ..config().association
                },
                ..config()
            })
            .unwrap();
            let to = [server.0];
            let connecting = stack.connect(&to, server.1);
            let association = timeout(PATIENCE, connecting).await.unwrap().unwrap();
            // A client that thinks before it speaks.
            tokio::time::sleep(Duration::from_millis(300)).await;
            association.send(Message::new(0, vec![number])).await.unwrap();
            association.shutdown().await.unwrap();
            number
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(
        listener.stack().associations(),
        BACKLOG,
        "no more before any is accepted"
    );
    let (stack, mut messages) = serve(listener);
    for _ in 0..CLIENTS {
        assert_eq!(timeout(PATIENCE, messages.recv()).await.unwrap(), Some(1));
    }
    let mut served = Vec::new();
    while let Some(number) = timeout(PATIENCE, clients.join_next()).await.unwrap() {
        served.push(number.unwrap());
    }
    served.sort_unstable();
    assert_eq!(served, (0..CLIENTS).collect::<Vec<_>>());
    assert!(
        stack
            .discarded()
            .iter()
            .any(|(reason, _)| *reason == whimbrel::Discard::Limit)
    );
}

/// Silent peers fill the backlog. They keep nothing from those that come later once the program accepts.
#[tokio::test]
async fn a_full_backlog_of_silent_associations_lets_others_through() {
    let listener = Listener::bind(StackConfig { backlog: 8, ..config() }).unwrap();
    let server = place(&listener);
    by_hand(move || {
        let raw = Raw::new("127.0.0.1", server.0, server.1).unwrap();
        for port in 1..=8 {
            assert!(raw.open(port).unwrap().is_some());
        }
    })
    .await;
    let hello = tokio::spawn(async move {
        let good = client(server).await;
        good.send(Message::new(0, "hello")).await.unwrap();
        good
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!hello.is_finished(), "there is no place");
    let (stack, mut messages) = serve(listener);
    assert_eq!(timeout(PATIENCE, messages.recv()).await.unwrap(), Some(5));
    assert_eq!(stack.associations(), 9);
    hello.await.unwrap();
}

/// A place in the backlog is free again when the association in it has ended.
#[tokio::test]
async fn an_association_that_ends_in_the_backlog_gives_its_place_back() {
    let listener = Listener::bind(StackConfig { backlog: 1, ..config() }).unwrap();
    let server = place(&listener);
    for _ in 0..5 {
        client(server).await.abort("changed its mind");
    }
    let last = client(server).await;
    last.send(Message::new(0, "the last one")).await.unwrap();
    let accepted = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert_eq!(accepted.recv().await.unwrap().unwrap().data, b"the last one");
}

/// Without a listener a handshake is refused, instead of an association that was established.
#[tokio::test]
async fn a_stack_whose_listener_is_dropped_refuses_associations() {
    let listener = Listener::bind(config()).unwrap();
    let server = place(&listener);
    let before = client(server).await;
    let accepted = listener.accept().await.unwrap();
    let stack = listener.stack().clone();
    drop(listener);
    let other = Stack::bind(config()).unwrap();
    let late = timeout(PATIENCE, other.connect(&[server.0], server.1)).await.unwrap();
    assert!(matches!(late, Err(ConnectError::Refused(_))), "{late:?}");
    assert_eq!(stack.associations(), 1);
    before.send(Message::new(0, "still there")).await.unwrap();
    assert_eq!(accepted.recv().await.unwrap().unwrap().data, b"still there");
}

/// What this end sends and the peer acknowledges counts like a message of the peer.
#[tokio::test]
async fn a_peer_that_only_listens_is_not_aborted() {
    let listener = Listener::bind(StackConfig {
        first_message_timeout: Some(Span::from_millis(400)),
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let subscriber = client(server).await;
    let publisher = listener.accept().await.unwrap();
    for tick in 0..10 {
        publisher.send(Message::new(0, vec![tick])).await.unwrap();
        let heard = timeout(PATIENCE, subscriber.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(heard.data, [tick]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn associations_without_a_message_end_in_time() {
    let listener = Listener::bind(StackConfig {
        first_message_timeout: Some(Span::from_millis(300)),
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let (talker, silent) = (client(server).await, client(server).await);
    talker.send(Message::new(0, "hello")).await.unwrap();
    let reason = timeout(PATIENCE, silent.closed()).await.unwrap();
    assert_eq!(
        reason,
        CloseReason::AbortedByPeer {
            cause: Some(4),
            reason: "no message in time".to_owned()
        }
    );
    // Only the one with a message is left to be accepted.
    let accepted = listener.accept().await.unwrap();
    assert_eq!(accepted.recv().await.unwrap().unwrap().data, b"hello");
    assert!(timeout(Duration::from_millis(100), listener.accept()).await.is_err());
}

#[tokio::test]
async fn a_message_beyond_the_limit_ends_the_association_as_it_grows() {
    let listener = Listener::bind(StackConfig {
        association: AssociationConfig {
            max_message: Some(100_000),
            ..config().association
        },
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let (stack, mut messages) = serve(listener);
    let sender = client(server).await;
    sender.send(Message::new(0, vec![1; 100_000])).await.unwrap();
    assert_eq!(messages.recv().await, Some(100_000));
    sender.send(Message::new(0, vec![1; 900_000])).await.unwrap();
    let reason = timeout(PATIENCE, sender.closed()).await.unwrap();
    assert_eq!(
        reason,
        CloseReason::AbortedByPeer {
            cause: Some(12),
            reason: "message longer than 100000 bytes".to_owned()
        }
    );
    assert!(stack.receive_memory() < 700_000, "{}", stack.receive_memory());
}

#[tokio::test]
async fn unfinished_messages_of_many_peers_stay_within_the_memory_limit() {
    const LIMIT: u64 = 8 << 20;
    let listener = Listener::bind(StackConfig {
        buffer_memory: LIMIT,
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let (stack, mut messages) = serve(listener);
    let good = client(server).await;
    let flood = tokio::task::spawn_blocking(move || {
        let raw = Raw::new("127.0.0.1", server.0, server.1).unwrap();
        let payload = [3; 1400];
        for port in 1..=30 {
            let tag = raw.open(port).unwrap().unwrap();
            for number in 0..700 {
                raw.send(port, tag, &[raw::part(number, &payload)]).unwrap();
                if number % 50 == 49 {
                    // Within the socket buffer of the server.
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    });
    let (mut peak, mut sent) = (0, 0);
    while !flood.is_finished() || sent < 100 {
        timeout(PATIENCE, good.send(Message::new(0, vec![1; 1000])))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(timeout(PATIENCE, messages.recv()).await.unwrap(), Some(1000));
        sent += 1;
        peak = peak.max(stack.receive_memory());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    flood.await.unwrap();
    assert!(peak > LIMIT / 2, "the peers filled only {peak} bytes");
    assert!(peak <= LIMIT + (1 << 20), "{peak} bytes");
    assert!(stack.associations() < 30, "none was aborted");
}

#[tokio::test]
async fn the_number_of_associations_and_those_of_an_address_are_bounded() {
    for total in [true, false] {
        let limits = StackConfig {
            max_associations: if total { 2 } else { 100 },
            max_associations_per_address: if total { 100 } else { 2 },
            first_message_timeout: None,
            ..config()
        };
        let listener = Listener::bind(limits).unwrap();
        let server = place(&listener);
        let (first, _second) = (client(server).await, client(server).await);
        let stack = Stack::bind(config()).unwrap();
        let third = timeout(PATIENCE, stack.connect(&[server.0], server.1)).await.unwrap();
        let Err(ConnectError::Refused(why)) = third else {
            panic!("{third:?}");
        };
        assert!(why.contains("out of resource"), "{why}");
        first.shutdown().await.unwrap();
        client(server).await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_flood_from_one_socket_is_discarded_before_it_is_received() {
    let listener = Listener::bind(StackConfig {
        max_unassociated_per_address: Some(100),
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let (stack, mut messages) = serve(listener);
    let before = client(server).await;
    let discarded = || stack.discarded().iter().map(|(_, count)| count).sum::<u64>();
    let raw = std::sync::Arc::new(Raw::new("127.0.0.1", server.0, server.1).unwrap());
    let flood = raw.clone();
    let start = Instant::now();
    by_hand(move || {
        for number in 0..20_000_u32 {
            flood.send(1 + number as u16, number | 1, &[raw::part(0, b"")]).unwrap();
            if number % 50 == 49 {
                // Within the socket buffer of the server.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    })
    .await;
    // From the same address, but not from the same socket.
    before.send(Message::new(0, "hello")).await.unwrap();
    assert_eq!(timeout(PATIENCE, messages.recv()).await.unwrap(), Some(5));
    // The flood is let through until it is recognised, which may be once a second.
    let limit = 2500 * (1 + start.elapsed().as_secs());
    assert!((1000..limit).contains(&discarded()), "{} of 20000", discarded());
    // The block ends with the flood.
    let opened = by_hand(move || raw.open(30_000).unwrap()).await;
    assert!(opened.is_some());
}

/// Each packet has another source, so that no budget of an address is used up. What belongs to no association does not reach the stack; an
/// association goes on, and another one can be opened.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_flood_from_forged_sources_is_discarded_before_it_is_received() {
    let listener = Listener::bind(config()).unwrap();
    let server = place(&listener);
    let (stack, mut messages) = serve(listener);
    let before = client(server).await;
    let shutdown = Chunk::Shutdown {
        cumulative_tsn_ack: whimbrel_wire::Tsn(1),
    };
    let abort = Chunk::Abort {
        tag_reflected: false,
        causes: whimbrel_wire::Causes::default(),
    };
    let packets = [shutdown, abort].map(|chunk| raw::packet((9, server.1), 99, &[chunk]));
    let truncated = packets[0][..10].to_vec();
    let packets = [packets[0].clone(), packets[1].clone(), truncated];
    let start = Instant::now();
    let flood = tokio::task::spawn_blocking(move || {
        let forger = raw::Forger::new(server.0).unwrap();
        for number in 0..60_000_u32 {
            forger.send(number, &packets[number as usize % 3]);
            if number % 50 == 49 {
                // Within the socket buffer of the server.
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    let during = client(server).await;
    for association in [&before, &during] {
        association.send(Message::new(0, "hello")).await.unwrap();
        assert_eq!(timeout(PATIENCE, messages.recv()).await.unwrap(), Some(5));
    }
    assert!(!flood.is_finished(), "too early");
    flood.await.unwrap();
    let discarded: u64 = stack.discarded().iter().map(|(_, count)| count).sum();
    // The flood is let through until it is recognised, which may be once a second.
    let limit = 6000 * (1 + start.elapsed().as_secs());
    assert!((2000..limit).contains(&discarded), "{discarded} of 60000");
    // Afterwards a packet that is out of the blue is answered again.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let other = Stack::bind(config()).unwrap();
    let refused = timeout(PATIENCE, other.connect(&[server.0], server.1 ^ 1))
        .await
        .unwrap();
    assert!(matches!(refused, Err(ConnectError::Refused(_))), "{refused:?}");
}

// [9260:8.4-3, 8.4-4]
#[tokio::test]
async fn the_wrong_sctp_port_is_refused_at_once() {
    for listening in [true, false] {
        let (stack, listener) = if listening {
            let listener = Listener::bind(config()).unwrap();
            (listener.stack().clone(), Some(listener))
        } else {
            (Stack::bind(config()).unwrap(), None)
        };
        let (addr, port) = (stack.local_addrs()[0], stack.port());
        let start = Instant::now();
        let client = Stack::bind(config()).unwrap();
        let outcome = timeout(PATIENCE, client.connect(&[addr], port ^ 1)).await.unwrap();
        assert!(matches!(outcome, Err(ConnectError::Refused(_))), "{outcome:?}");
        assert!(start.elapsed() < Duration::from_secs(1));
        drop(listener);
    }
}

#[tokio::test]
async fn a_shared_udp_port_leaves_other_sctp_ports_unanswered() {
    let quiet = Listener::bind(StackConfig {
        answer_all_ports: Some(false),
        ..config()
    })
    .unwrap();
    let (addr, port) = place(&quiet);
    let silent = by_hand(move || {
        let raw = Raw::new("127.0.0.1", addr, port ^ 1).unwrap();
        raw.socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
        raw.send(5, 0, &[raw::init()]).unwrap();
        raw.receive(5, |packet| {
            matches!(packet.chunks().next(), Some(Ok(Chunk::Abort { .. }))).then_some(())
        })
        .is_err()
    })
    .await;
    assert!(silent);
}

#[tokio::test]
async fn an_association_that_ends_unaccepted_leaves_no_memory_behind() {
    let listener = Listener::bind(StackConfig {
        first_message_timeout: None,
        ..config()
    })
    .unwrap();
    let server = place(&listener);
    let stack = listener.stack().clone();
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = client(server).await;
        client.send(Message::new(0, vec![1; 1000])).await.unwrap();
        client.flush().await.unwrap();
        clients.push(client);
    }
    assert_eq!(stack.associations(), 20);
    assert!(stack.receive_memory() >= 20_000);
    drop(listener);
    for client in clients {
        timeout(PATIENCE, client.closed()).await.unwrap();
    }
    timeout(PATIENCE, stack.wait_idle()).await.unwrap();
    assert_eq!((stack.associations(), stack.receive_memory()), (0, 0));
}

#[tokio::test]
async fn a_backlog_of_nothing_is_an_error() {
    let outcome = Listener::bind(StackConfig { backlog: 0, ..config() });
    assert!(outcome.is_err_and(|error| error.to_string().contains("backlog = 0: allowed is at least 1")));
}
