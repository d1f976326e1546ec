//! Two stacks of this crate over UDP on loopback.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{
    Association, AssociationConfig, AssociationError, CloseReason, ConnectError, Listener, Message, PathChange,
    SendFailureCause, Stack, StackConfig, Trouble, TrySendError,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn on(addrs: &[&str]) -> StackConfig {
    StackConfig::local(addrs.iter().map(|addr| addr.parse().unwrap()))
}

/// A client's and a server's end of one association, and the listener it came from.
async fn pair(server: StackConfig, client: StackConfig) -> (Association, Association, Listener) {
    let listener = Listener::bind(server).unwrap();
    let stack = Stack::bind(client).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let connecting = tokio::spawn(async move { stack.connect(&addrs, port).await });
    let accepted = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    (connecting.await.unwrap().unwrap(), accepted, listener)
}

#[tokio::test]
async fn messages_keep_their_content_and_order_in_both_directions() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    let talk = |from: Association| async move {
        for i in 0..500_u32 {
            let len = 1 + (i as usize * 37) % 6000;
            let message = Message {
                ppid: i,
                ..Message::new((i % 3) as u16, vec![i as u8; len])
            };
            from.send(message).await.unwrap();
        }
        from.flush().await.unwrap();
        assert_eq!(from.buffered(), 0);
    };
    let hear = |from: Association| async move {
        let mut last = [None; 3];
        for _ in 0..500 {
            let message = from.recv().await.unwrap().unwrap();
            let i = message.ppid;
            assert_eq!(message.data, vec![i as u8; 1 + (i as usize * 37) % 6000]);
            let last = &mut last[usize::from(message.stream)];
            assert!(
                last.is_none_or(|last| last < i),
                "stream {} out of order",
                message.stream
            );
            *last = Some(i);
        }
    };
    let all = async { tokio::join!(talk(a.clone()), talk(b.clone()), hear(a.clone()), hear(b.clone())) };
    timeout(PATIENCE, all).await.unwrap();
    let (ended, heard) = tokio::join!(a.shutdown(), b.recv());
    assert_eq!((ended, heard), (Ok(()), Ok(None)));
}

#[tokio::test]
async fn messages_may_go_with_the_handshake() {
    let config = on(&["127.0.0.1:0"]);
    let listener = Listener::bind(config.clone()).unwrap();
    let stack = Stack::bind(config).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let words = || ["one", "two"].map(|word| Message::new(0, word));
    let (a, b) = tokio::join!(stack.connect_and_send(&addrs, port, words()), listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());
    for word in ["one", "two"] {
        assert_eq!(
            timeout(PATIENCE, b.recv()).await.unwrap().unwrap().unwrap().data,
            word.as_bytes()
        );
    }
    a.flush().await.unwrap();
    // INIT, and COOKIE ECHO with both.
    assert_eq!(a.stats().unwrap().packets_sent, 2);
    let nowhere = stack
        .connect_and_send(&addrs, port ^ 1, [Message::new(u16::MAX, "x")])
        .await;
    assert!(
        matches!(nowhere, Err(ConnectError::Closed(AssociationError::Message(_)))),
        "{nowhere:?}"
    );
    timeout(PATIENCE, a.shutdown()).await.unwrap().unwrap();
    // Nothing is left of what was not begun.
    timeout(PATIENCE, stack.wait_idle()).await.unwrap();
}

#[tokio::test]
async fn several_addresses_on_both_ends_make_paths() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0", "127.0.0.2:0"]), on(&["127.0.0.3:0", "127.0.0.4:0"])).await;
    a.send(Message::new(0, "hello")).await.unwrap();
    assert_eq!(b.recv().await.unwrap().unwrap().data, b"hello");
    let ips = |association: &Association| {
        let mut ips: Vec<String> = association
            .peer_addrs()
            .iter()
            .map(|addr| addr.ip().to_string())
            .collect();
        ips.sort();
        ips.dedup();
        ips
    };
    assert_eq!(ips(&a), ["127.0.0.1", "127.0.0.2"]);
    assert_eq!(ips(&b), ["127.0.0.3", "127.0.0.4"]);
    let paths = a.paths();
    assert_eq!(paths.len(), 2);
    assert!(
        paths[0].primary && paths[0].srtt.is_some() && paths[0].quality.loss == 0.0,
        "{paths:?}"
    );
    timeout(PATIENCE, a.shutdown()).await.unwrap().unwrap();
}

#[tokio::test]
async fn ipv6_works() {
    whimbrel_testkit::needs!(whimbrel_testkit::ipv6());
    let (a, b, _listener) = pair(on(&["[::1]:0"]), on(&["[::1]:0"])).await;
    a.send(Message::new(0, "hello")).await.unwrap();
    assert_eq!(b.recv().await.unwrap().unwrap().data, b"hello");
}

#[tokio::test]
async fn a_closed_port_refuses_at_once() {
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap();
    drop(free);
    let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    let refused = timeout(Duration::from_secs(2), stack.connect(&[closed], 5000))
        .await
        .unwrap();
    assert!(
        matches!(&refused, Err(ConnectError::Refused(why)) if why.contains(&closed.to_string())),
        "{refused:?}"
    );
}

// [9260:10-4]
// [6951:5.5-3, 5.5-4, 5.5-5]
#[tokio::test]
async fn section_10_a_report_about_one_peer_ends_no_association_with_another() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap();
    drop(free);
    let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    let (other, peer) = (stack.clone(), silent.local_addr().unwrap());
    let waiting = tokio::spawn(async move { other.connect(&[peer], 5000).await.map(drop) });
    // The INIT to the silent peer has been sent.
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    let arrived = tokio::task::spawn_blocking(move || silent.recv(&mut [0; 2048]).map(|_| silent));
    let silent = arrived.await.unwrap().unwrap();
    let refused = timeout(PATIENCE, stack.connect(&[closed], 5000)).await.unwrap();
    assert!(matches!(refused, Err(ConnectError::Refused(_))), "{refused:?}");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished(), "{:?}", waiting.await);
    drop(silent);
}

// [9260:10-2]
#[test]
fn section_10_port_unreachable_ends_no_established_association() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let dies = tokio::runtime::Runtime::new().unwrap();
    let listener = dies.block_on(async { Listener::bind(on(&["127.0.0.1:0"])).unwrap() });
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let accepting = dies.spawn(async move { (listener.accept().await.unwrap(), listener) });
    runtime.block_on(async {
        let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
        let client = timeout(PATIENCE, stack.connect(&addrs, port)).await.unwrap().unwrap();
        let server = timeout(PATIENCE, accepting).await.unwrap().unwrap();
        // Its tasks end, its sockets are closed, and nothing more is sent.
        dies.shutdown_background();
        let mut events = client.path_events();
        let reported = async {
            loop {
                client.send(Message::new(0, "lost")).await.unwrap();
                let event = timeout(Duration::from_millis(100), events.next()).await;
                if let Ok(Some(event)) = event
                    && event.change == PathChange::Trouble(Trouble::PortUnreachable)
                {
                    break;
                }
            }
        };
        timeout(PATIENCE, reported).await.expect("a report");
        let ended = timeout(Duration::from_millis(100), client.closed()).await;
        assert!(ended.is_err(), "{ended:?}");
        client.try_send(Message::new(0, "more")).unwrap();
        drop(server);
    });
}

#[tokio::test]
async fn an_sctp_port_without_listener_refuses() {
    let other = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    let refused = timeout(PATIENCE, stack.connect(other.local_addrs(), other.port()))
        .await
        .unwrap();
    assert!(matches!(refused, Err(ConnectError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_silent_peer_times_out() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut config = on(&["127.0.0.1:0"]);
    config.association = AssociationConfig {
        rto_initial: Some(whimbrel_control::Span::from_millis(50)),
        rto_min: whimbrel_control::Span::from_millis(50),
        max_init_retransmits: 2,
        ..AssociationConfig::default()
    };
    let stack = Stack::bind(config).unwrap();
    let outcome = timeout(PATIENCE, stack.connect(&[silent.local_addr().unwrap()], 5000))
        .await
        .unwrap();
    assert!(
        matches!(outcome, Err(ConnectError::TimedOut(CloseReason::HandshakeTimeout))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn the_peer_hears_why_it_was_aborted() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    a.abort("the disk is full");
    let reason = timeout(PATIENCE, b.closed()).await.unwrap();
    assert_eq!(
        reason,
        CloseReason::AbortedByPeer {
            cause: Some(12),
            reason: "the disk is full".into()
        }
    );
    assert_eq!(b.recv().await, Err(AssociationError::Closed(reason.clone())));
    assert_eq!(
        b.send(Message::new(0, "x")).await,
        Err(AssociationError::Closed(reason))
    );
}

// [9260:9-1]
#[tokio::test]
async fn a_dropped_association_is_aborted() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    drop(a);
    assert!(matches!(
        timeout(PATIENCE, b.closed()).await.unwrap(),
        CloseReason::AbortedByPeer { .. }
    ));
}

#[tokio::test]
async fn a_reader_that_waits_holds_the_sender_up() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    let limit =
        2 * AssociationConfig::default().recv_buffer as usize + 2 * AssociationConfig::default().send_buffer as usize;
    let mut sent = 0_usize;
    // The peer reads nothing: soon nothing more is taken, for as long as we care to wait.
    while let Ok(result) = timeout(Duration::from_millis(700), a.send(Message::new(0, vec![7; 1000]))).await {
        result.unwrap();
        sent += 1000;
        assert!(sent <= limit, "{sent} bytes were taken");
    }
    while a.try_send(Message::new(0, vec![7; 1000])).is_ok() {
        sent += 1000;
    }
    assert!(matches!(
        a.try_send(Message::new(0, vec![7; 1000])),
        Err(TrySendError::Full(_))
    ));
    assert!(sent <= limit, "{sent} bytes were taken");
    let reading = async {
        let mut received = 0;
        while received < sent {
            received += b.recv().await.unwrap().unwrap().data.len();
        }
        received
    };
    assert_eq!(timeout(PATIENCE, reading).await.unwrap(), sent);
    timeout(PATIENCE, a.send(Message::new(0, "more")))
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_megabyte_message_arrives_whole() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    let limit = AssociationConfig::default().send_buffer as usize;
    let content: Vec<u8> = (0..limit).map(|i| (i * 31 % 251) as u8).collect();
    a.send(Message::new(0, content.clone())).await.unwrap();
    let message = timeout(PATIENCE, b.recv()).await.unwrap().unwrap().unwrap();
    assert!(message.data == content);
    let nowhere = a.try_send(Message::new(u16::MAX, "x"));
    assert!(
        matches!(nowhere, Err(TrySendError::Failed(AssociationError::Message(_)))),
        "{nowhere:?}"
    );
}

#[tokio::test]
async fn both_ends_may_shut_down_at_once() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    let both = timeout(PATIENCE, async { tokio::join!(a.shutdown(), b.shutdown()) })
        .await
        .unwrap();
    assert_eq!(both, (Ok(()), Ok(())));
    assert_eq!(
        a.send(Message::new(0, "x")).await,
        Err(AssociationError::Closed(CloseReason::Graceful))
    );
}

#[tokio::test]
async fn what_was_sent_before_the_shutdown_is_delivered() {
    let (a, b, listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    for i in 0..100_u8 {
        a.send(Message::new(0, vec![i; 2000])).await.unwrap();
    }
    let ending = tokio::spawn(async move { a.shutdown().await });
    let mut count = 0;
    while let Some(message) = timeout(PATIENCE, b.recv()).await.unwrap().unwrap() {
        assert_eq!(message.data, vec![count; 2000]);
        count += 1;
    }
    assert_eq!(count, 100);
    assert_eq!(ending.await.unwrap(), Ok(()));
    timeout(PATIENCE, listener.stack().wait_idle()).await.unwrap();
}

/// A server that has said its word and shut down before the client looks: the association was there, and so is what was said.
#[tokio::test]
async fn a_server_may_be_done_before_its_client_looks() {
    let listener = Listener::bind(on(&["127.0.0.1:0"])).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    let connecting = stack.connect(&addrs, port);
    let client = async {
        tokio::pin!(connecting);
        // Asked once, so that it begins; and again when all is over.
        let early = tokio::select! {
            biased;
            outcome = &mut connecting => Some(outcome),
            () = std::future::ready(()) => None,
        };
        assert!(early.is_none());
        stack.wait_idle().await;
        connecting.await
    };
    let server = async {
        let association = listener.accept().await.unwrap();
        association.send(Message::new(0, "so late")).await.unwrap();
        association.shutdown().await
    };
    let (connected, served) = timeout(PATIENCE, async { tokio::join!(client, server) }).await.unwrap();
    assert_eq!(served, Ok(()));
    let association = connected.unwrap();
    assert_eq!(association.recv().await.unwrap().unwrap().data, b"so late");
    assert_eq!(association.recv().await, Ok(None));
}

#[tokio::test]
async fn nobody_accepts_after_the_listener_is_gone() {
    let listener = Listener::bind(on(&["127.0.0.1:0"])).unwrap();
    let kept = listener.stack().clone();
    let addrs: Vec<SocketAddr> = kept.local_addrs().to_vec();
    drop(listener);
    let stack = Stack::bind(on(&["127.0.0.1:0"])).unwrap();
    match timeout(PATIENCE, stack.connect(&addrs, kept.port())).await.unwrap() {
        // The handshake ends before the peer's user has its say.
        Ok(association) => {
            let reason = timeout(PATIENCE, association.closed()).await.unwrap();
            assert!(matches!(reason, CloseReason::AbortedByPeer { .. }), "{reason:?}");
        }
        Err(ConnectError::Refused(_) | ConnectError::Closed(_)) => {}
        Err(other) => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn many_associations_share_a_stack() {
    let listener = Listener::bind(on(&["127.0.0.1:0"])).unwrap();
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let server = tokio::spawn(async move {
        for _ in 0..50 {
            let association = listener.accept().await.unwrap();
            tokio::spawn(async move {
                while let Some(message) = association.recv().await.unwrap() {
                    association.send(Message::new(0, message.data)).await.unwrap();
                }
            });
        }
        listener.stack().wait_idle().await;
    });
    let mut clients = Vec::new();
    for i in 0..50_u8 {
        let addrs = addrs.clone();
        clients.push(tokio::spawn(async move {
            let stack = Stack::toward(StackConfig::default(), &addrs).unwrap();
            let association = stack.connect(&addrs, port).await.unwrap();
            association.send(Message::new(0, vec![i; 3000])).await.unwrap();
            assert_eq!(association.recv().await.unwrap().unwrap().data, vec![i; 3000]);
            association.shutdown().await.unwrap();
        }));
    }
    for client in clients {
        timeout(PATIENCE, client).await.unwrap().unwrap();
    }
    timeout(PATIENCE, server).await.unwrap().unwrap();
}

/// Messages that the peer has not acknowledged when the association ends are reported once (RFC 9260 §11.2.2).
#[tokio::test]
async fn messages_that_are_not_delivered_are_reported_once() {
    let (a, b, _listener) = pair(on(&["127.0.0.1:0"]), on(&["127.0.0.1:0"])).await;
    a.send(Message::new(0, "heard")).await.unwrap();
    a.flush().await.unwrap();
    assert_eq!(a.send_failures(), []);
    // The driver has no turn between these.
    for context in [7, 8] {
        let message = Message {
            context,
            ..Message::new(1, "unheard")
        };
        a.try_send(message).unwrap();
    }
    a.abort("over");
    timeout(PATIENCE, a.closed()).await.unwrap();
    let failures = a.send_failures();
    let reported: Vec<_> = failures
        .iter()
        .map(|f| (f.stream, f.context, f.sent, f.cause))
        .collect();
    let ended = SendFailureCause::Ended;
    assert_eq!(reported, [(1, 7, false, ended), (1, 8, false, ended)]);
    assert_eq!(a.send_failures(), [], "each once");
    timeout(PATIENCE, b.closed()).await.unwrap();
}

/// A peer whose process dies and restarts on the same ports (RFC 9260 §5.2.4 A): waiting calls end, and a shutdown that was
/// asked for is made.
#[test]
fn a_peer_that_restarts_leaves_nobody_waiting() {
    let start = |port| {
        let mut config = on(&["127.0.0.1:0"]);
        config.local[0].set_port(port);
        config.port = 4321;
        Stack::bind(config).unwrap()
    };
    for ends in [false, true] {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let dies = tokio::runtime::Runtime::new().unwrap();
        let (b, listener, udp, addrs, first) = runtime.block_on(async {
            let listener = Listener::bind(StackConfig {
                continue_after_restart: true,
                ..on(&["127.0.0.1:0"])
            })
            .unwrap();
            let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
            let to = addrs.clone();
            let client = dies.spawn(async move {
                let stack = start(0);
                let association = stack.connect(&to, port).await.unwrap();
                (stack.local_addrs()[0].port(), stack, association)
            });
            let accepted = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
            let (udp, stack, association) = client.await.unwrap();
            (accepted, listener, udp, (addrs, port), (stack, association))
        });
        // Its tasks end, and nothing more is sent.
        dies.shutdown_timeout(PATIENCE);
        runtime.block_on(async {
            let message = || Message::new(0, vec![1; 10_000]);
            while b.try_send(message()).is_ok() {}
            let waiting = b.clone();
            let sending = tokio::spawn(async move { waiting.send(message()).await });
            let waiting = b.clone();
            let ending = tokio::spawn(async move {
                if ends {
                    waiting.shutdown().await
                } else {
                    waiting.flush().await
                }
            });
            tokio::time::sleep(Duration::from_millis(100)).await;
            let stack = start(udp);
            let a = timeout(PATIENCE, stack.connect(&addrs.0, addrs.1))
                .await
                .unwrap()
                .unwrap();
            let ended = timeout(PATIENCE, ending).await.expect("hangs").unwrap();
            let sent = timeout(PATIENCE, sending).await.expect("hangs").unwrap();
            let failures = b.send_failures();
            assert!(!failures.is_empty());
            assert!(
                failures
                    .iter()
                    .all(|failure| failure.cause == SendFailureCause::Restarted)
            );
            if ends {
                assert_eq!(ended, Ok(()));
                assert_eq!(timeout(PATIENCE, a.closed()).await.unwrap(), CloseReason::Graceful);
            } else {
                assert_eq!(ended, Err(AssociationError::Undelivered(failures.len() as u64)));
                assert_eq!(sent, Ok(()), "there is room again");
                let heard = timeout(PATIENCE, a.recv()).await.unwrap().unwrap().unwrap();
                assert_eq!(heard.data, vec![1; 10_000]);
                b.flush().await.unwrap();
            }
        });
        drop((listener, first));
    }
}

fn dynamic(mut config: StackConfig) -> StackConfig {
    config.association.dynamic_addresses = true;
    config
}

/// Waits until no socket is bound to this address.
async fn until_free(addr: SocketAddr) {
    let free = async {
        while std::net::UdpSocket::bind(addr).is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, free).await.unwrap();
}

/// A host changes networks while it connects: nothing can be asked for before the handshake is over, and then is (RFC 5061).
#[tokio::test]
async fn addresses_that_change_during_the_handshake_are_sent_after_it() {
    let listener = Listener::bind(dynamic(on(&["127.0.0.9:0"]))).unwrap();
    let stack = Stack::bind(dynamic(on(&["127.0.0.1:0", "127.0.0.2:0"]))).unwrap();
    let [first, second] = *stack.local_addrs() else {
        panic!("two addresses were bound")
    };
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let connecting = stack.connect(&addrs, port);
    let change = async {
        // The association has been begun, and its INIT not been answered.
        let added = stack.add_local_address("127.0.0.3:0".parse().unwrap()).unwrap();
        stack.remove_local_address(second).unwrap();
        added
    };
    let (a, third, b) = tokio::join!(connecting, change, listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());
    let both_know = async {
        while b.peer_addrs() != [first, third] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, both_know).await.expect("the peer sees the end");
    assert_eq!(a.local_addrs(), [first, third]);
    until_free(second).await;
}

/// Sockets that were bound to every address of the host make no changes.
#[tokio::test]
async fn a_stack_on_every_address_asks_for_no_changes() {
    let (a, b, _listener) = pair(dynamic(on(&["0.0.0.0:0"])), dynamic(on(&["0.0.0.0:0"]))).await;
    let before = (a.local_addrs(), b.local_addrs());
    a.send(Message::new(0, "x")).await.unwrap();
    assert_eq!(b.recv().await.unwrap().unwrap().data, b"x");
    a.flush().await.unwrap();
    assert_eq!((a.local_addrs(), b.local_addrs()), before);
    assert_eq!(a.peer_addrs().len(), before.1.len());
}

/// An address that is removed and comes back before the peer has answered is there in the end.
#[tokio::test]
async fn an_address_may_come_back_at_once() {
    let listener = Listener::bind(dynamic(on(&["127.0.0.9:0"]))).unwrap();
    let stack = Stack::bind(dynamic(on(&["127.0.0.1:0", "127.0.0.2:0"]))).unwrap();
    let [first, second] = *stack.local_addrs() else {
        panic!("two addresses were bound")
    };
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let (a, b) = tokio::join!(stack.connect(&addrs, port), listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());
    stack.remove_local_address(second).unwrap();
    assert_eq!(stack.add_local_address(second).unwrap(), second);
    let both = async {
        while a.local_addrs() != [first, second] || b.peer_addrs() != [first, second] {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, both).await.expect("it came back");
}

/// An association that is over may still be read from, and needs no socket for that.
#[tokio::test]
async fn what_is_read_after_the_end_keeps_no_address() {
    // Without dynamic addresses the association keeps the one that is given up.
    let listener = Listener::bind(on(&["127.0.0.1:0", "127.0.0.2:0"])).unwrap();
    let stack = Stack::bind(on(&["127.0.0.9:0"])).unwrap();
    let [first, second] = *listener.stack().local_addrs() else {
        panic!("two addresses were bound")
    };
    let (addrs, port) = ([first], listener.stack().port());
    let (a, b) = tokio::join!(stack.connect(&addrs, port), listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());
    listener.stack().remove_local_address(second).unwrap();
    a.send(Message::new(0, "last words")).await.unwrap();
    a.flush().await.unwrap();
    assert!(std::net::UdpSocket::bind(second).is_err(), "the association has it");
    a.abort("over");
    timeout(PATIENCE, b.closed()).await.unwrap();
    until_free(second).await;
    assert_eq!(b.recv().await.unwrap().unwrap().data, b"last words");
}

/// A process moves from one interface to another in mid-transfer (RFC 5061): 127.0.0.1 goes, 127.0.0.2 stays.
#[tokio::test]
async fn a_transfer_survives_the_loss_of_its_address() {
    use sha2::{Digest, Sha256};

    let listener = Listener::bind(dynamic(on(&["127.0.0.9:0"]))).unwrap();
    let stack = Stack::bind(dynamic(on(&["127.0.0.1:0"]))).unwrap();
    let first = stack.local_addrs()[0];
    let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
    let connecting = stack.connect(&addrs, port);
    let (a, b) = tokio::join!(connecting, listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());

    let chunk = |i: u32| i.to_le_bytes().repeat(8_000);
    let sender = a.clone();
    let sending = tokio::spawn(async move {
        let mut hash = Sha256::new();
        for i in 0..1_000 {
            hash.update(chunk(i));
            sender.send(Message::new(0, chunk(i))).await.unwrap();
        }
        sender.flush().await.unwrap();
        hash.finalize()
    });
    let mut hash = Sha256::new();
    let mut second = None;
    for i in 0..1_000 {
        hash.update(timeout(PATIENCE, b.recv()).await.unwrap().unwrap().unwrap().data);
        if i == 200 {
            let added = stack.add_local_address("127.0.0.2:0".parse().unwrap()).unwrap();
            a.prefer_local_address(added).unwrap();
            second = Some(added);
        }
        if i == 500 {
            assert_eq!(b.peer_addrs(), [first, second.unwrap()], "the peer knows both");
            stack.remove_local_address(first).unwrap();
        }
    }
    let second = second.unwrap();
    assert_eq!(sending.await.unwrap(), hash.finalize());
    assert_eq!((a.local_addrs(), b.peer_addrs()), (vec![second], vec![second]));
    // Nothing was lost on the way, and the old socket is closed.
    assert_eq!(a.stats().unwrap().timeouts, 0);
    until_free(first).await;
    assert!(stack.remove_local_address(second).is_err(), "the last one stays");
    b.send(Message::new(0, "back")).await.unwrap();
    assert_eq!(
        timeout(PATIENCE, a.recv()).await.unwrap().unwrap().unwrap().data,
        b"back"
    );
    let (ended, heard) = tokio::join!(a.shutdown(), b.recv());
    assert_eq!((ended, heard), (Ok(()), Ok(None)));
}
