//! What programs do by mistake: an error says so, and nothing panics or waits without end.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{
    AddressWatch, Association, AssociationConfig, AssociationError, BindError, CloseReason, ConnectError, Listener,
    Message, Span, Stack, StackConfig, TrySendError,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn config() -> StackConfig {
    StackConfig::local(["127.0.0.1:0".parse().unwrap()])
}

fn place(stack: &Stack) -> (Vec<SocketAddr>, u16) {
    (stack.local_addrs().to_vec(), stack.port())
}

async fn pair(server: StackConfig, client: StackConfig) -> (Association, Association, Stack, Listener) {
    let listener = Listener::bind(server).unwrap();
    let stack = Stack::bind(client).unwrap();
    let (addrs, port) = place(listener.stack());
    let (a, b) = tokio::join!(stack.connect(&addrs, port), listener.accept());
    (a.unwrap(), b.unwrap(), stack, listener)
}

#[test]
fn binding_outside_a_runtime_is_an_error() {
    let no_runtime = |outcome: Result<(), BindError>| matches!(outcome, Err(BindError::NoRuntime));
    assert!(no_runtime(Stack::bind(config()).map(drop)));
    assert!(no_runtime(Listener::bind(config()).map(drop)));
    assert!(no_runtime(
        Stack::toward(StackConfig::default(), &["127.0.0.1:9".parse().unwrap()]).map(drop)
    ));
    assert!(AddressWatch::new().is_err());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (a, _b, stack, _listener) = runtime.block_on(pair(config(), config()));
    assert!(no_runtime(
        stack.add_local_address("127.0.0.2:0".parse().unwrap()).map(drop)
    ));
    assert!(stack.follow_addresses(|_| true).is_err());
    let mut statistics = a.statistics(Duration::from_secs(1));
    assert!(runtime.block_on(async { timeout(PATIENCE, statistics.next()).await.unwrap().is_some() }));
}

#[test]
fn a_stopped_stack_takes_no_messages() {
    let stopped = tokio::runtime::Runtime::new().unwrap();
    let (a, b, stack, listener) = stopped.block_on(pair(config(), config()));
    let mut stream = b.stream(1).unwrap();
    stopped.shutdown_timeout(PATIENCE);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let is_stopped = |error: &AssociationError| matches!(error, AssociationError::StackStopped(_));
        let message = || Message::new(0, "into the void");
        let sent = timeout(PATIENCE, a.send(message())).await.unwrap();
        assert!(sent.as_ref().is_err_and(is_stopped), "{sent:?}");
        let Err(TrySendError::Failed(error)) = a.try_send(message()) else {
            panic!("it was taken")
        };
        assert!(is_stopped(&error), "{error:?}");
        let written = tokio::io::AsyncWriteExt::write(&mut stream, b"into the void").await;
        assert!(written.is_err(), "{written:?}");
        assert!(timeout(PATIENCE, a.flush()).await.unwrap().is_err());
        assert!(timeout(PATIENCE, a.recv()).await.unwrap().is_err());
        assert!(timeout(PATIENCE, a.shutdown()).await.unwrap().is_err());
        assert!(timeout(PATIENCE, listener.accept()).await.unwrap().is_err());
        let added = stack.add_local_address("127.0.0.2:0".parse().unwrap());
        assert!(matches!(added, Err(BindError::StackStopped(_))), "{added:?}");
        let (addrs, port) = place(listener.stack());
        let connected = timeout(PATIENCE, stack.connect(&addrs, port)).await.unwrap();
        let Err(ConnectError::Closed(error)) = connected else {
            panic!("{connected:?}")
        };
        assert!(is_stopped(&error), "{error:?}");
    });
}

#[tokio::test]
async fn a_stack_does_not_connect_to_itself() {
    let listener = Listener::bind(StackConfig::local(
        ["127.0.0.1:0", "127.0.0.2:0"].map(|addr| addr.parse().unwrap()),
    ))
    .unwrap();
    let stack = Stack::bind(config()).unwrap();
    let mapped = |addr: SocketAddr| match addr {
        SocketAddr::V4(v4) => SocketAddr::from((v4.ip().to_ipv6_mapped(), v4.port())),
        v6 => v6,
    };
    for own in [&stack, listener.stack()] {
        let (addrs, port) = place(own);
        let last = *addrs.last().unwrap();
        let other: SocketAddr = "127.0.0.9:9".parse().unwrap();
        for to in [vec![addrs[0]], vec![last], vec![mapped(last)], vec![other, last]] {
            let outcome = timeout(PATIENCE, own.connect(&to, port)).await.expect("hangs");
            let Err(ConnectError::Invalid(error)) = &outcome else {
                panic!("{to:?}: {outcome:?}")
            };
            assert!(error.to_string().contains("this end itself"), "{error}");
        }
        assert_eq!(own.associations(), 0);
    }
    // Another stack may have the same SCTP port, or the same address with another one.
    let twin = Stack::bind(StackConfig {
        port: listener.stack().port(),
        ..config()
    })
    .unwrap();
    let (addrs, port) = place(listener.stack());
    timeout(PATIENCE, twin.connect(&addrs, port)).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_second_association_with_the_same_peer_needs_a_second_stack() {
    let (_a, _b, stack, listener) = pair(config(), config()).await;
    let (addrs, port) = place(listener.stack());
    let second = timeout(PATIENCE, stack.connect(&addrs, port)).await.unwrap();
    let error = second.unwrap_err().to_string();
    assert!(error.contains("a stack of its own"), "{error}");
    let other = Stack::bind(config()).unwrap();
    timeout(PATIENCE, other.connect(&addrs, port)).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_first_message_may_be_as_long_as_the_limit() {
    const LIMIT: usize = StackConfig::MAX_MESSAGE as usize;
    let (a, b, _stack, _listener) = pair(config(), config()).await;
    let long = || Message::zeros(0, LIMIT as u32 + 1);
    let error = AssociationError::MessageTooLong {
        len: LIMIT + 1,
        limit: LIMIT,
    };
    assert_eq!(a.send(long()).await, Err(error.clone()));
    let text = error.to_string();
    assert!(text.contains("16777217") && text.contains("16777216"), "{text}");
    // Others send at the same time, so that the buffer is never empty.
    let (other, done) = (
        a.clone(),
        std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)),
    );
    let stop = done.clone();
    let others = tokio::spawn(async move {
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            other.send(Message::zeros(1, 10_000)).await.unwrap();
        }
    });
    let sender = a.clone();
    let sending = tokio::spawn(async move {
        for len in [LIMIT as u32, (1 << 20) + 1, 2 << 20] {
            sender.send(Message::zeros(0, len)).await.unwrap();
        }
    });
    let mut lengths = Vec::new();
    while lengths.len() < 3 {
        let message = timeout(PATIENCE, b.recv()).await.unwrap().unwrap().unwrap();
        if message.stream == 0 {
            lengths.push(message.data.len());
        }
    }
    assert_eq!(lengths, [LIMIT, (1 << 20) + 1, 2 << 20]);
    sending.await.unwrap();
    done.store(true, std::sync::atomic::Ordering::Relaxed);
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = b.recv().await {} });
    others.await.unwrap();
    timeout(PATIENCE, a.shutdown()).await.unwrap().unwrap();
    reading.await.unwrap();
}

#[tokio::test]
async fn a_long_message_may_go_with_the_handshake() {
    let listener = Listener::bind(config()).unwrap();
    let stack = Stack::bind(config()).unwrap();
    let (addrs, port) = place(listener.stack());
    let connecting = stack.connect_and_send(&addrs, port, [Message::zeros(0, 3 << 20)]);
    let (a, b) = tokio::join!(connecting, listener.accept());
    let (a, b) = (a.unwrap(), b.unwrap());
    let message = timeout(PATIENCE, b.recv()).await.unwrap().unwrap().unwrap();
    assert_eq!(message.data.len(), 3 << 20);
    let too_long = Message::zeros(0, (16 << 20) + 1);
    let other = Stack::bind(config()).unwrap();
    let outcome = other.connect_and_send(&addrs, port, [too_long]).await;
    let Err(ConnectError::Closed(AssociationError::MessageTooLong { limit, .. })) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(limit, 16 << 20);
    drop(a);
}

/// Nobody reads at either end, and both shut down.
#[tokio::test]
async fn a_shutdown_of_both_ends_with_full_buffers_ends() {
    let guarded = || StackConfig {
        association: AssociationConfig {
            shutdown_guard: Some(Span::from_millis(500)),
            recv_buffer: 100_000,
            recv_buffer_max: None,
            send_buffer_max: None,
            ..config().association
        },
        ..config()
    };
    let (a, b, _stack, _listener) = pair(guarded(), guarded()).await;
    let fill = |association: Association| async move {
        let message = || Message::zeros(0, 60_000);
        while let Ok(sent) = timeout(Duration::from_millis(300), association.send(message())).await {
            sent.unwrap();
        }
    };
    tokio::join!(fill(a.clone()), fill(b.clone()));
    let both = async { tokio::join!(a.shutdown(), b.shutdown()) };
    let (x, y) = timeout(PATIENCE, both).await.expect("hangs");
    let timed_out = Err(AssociationError::Closed(CloseReason::ShutdownTimeout));
    assert!(x == timed_out || y == timed_out, "{x:?} {y:?}");
    assert!(x.is_err() && y.is_err());
}
