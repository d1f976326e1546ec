//! Cancel safety of each method that waits, back-pressure, streams of bytes, snapshots, and congestion control that changes, over simulated
//! links: deterministic, and in milliseconds.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/network.rs"]
mod network;

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use whimbrel::simulated::{RunSummary, Scenario, Simulation, SimulationError};
use whimbrel::{
    Association, AssociationConfig, AssociationError, CloseReason, Listener, Message, PathChange, Scheme, Span, Stack,
    StackConfig, TrySendError,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const PORT: u16 = 7;
const BUFFER: u32 = 64 * 1024;

fn scenario(extra: &str) -> Scenario {
    network::scenario(
        "10 min",
        &[&format!("rate = \"10 Mbit/s\"\ndelay = \"10 ms\"\n{extra}")],
    )
}

fn config() -> StackConfig {
    let association = AssociationConfig {
        recv_buffer: BUFFER,
        recv_buffer_max: None,
        send_buffer: BUFFER,
        send_buffer_max: None,
        max_message: None,
        rto_initial: Some(Span::from_millis(300)),
        rto_min: Span::from_millis(200),
        path_max_retrans: 1,
        ..StackConfig::default().association
    };
    StackConfig {
        association,
        port: PORT,
        ..StackConfig::local(["0.0.0.0:9899".parse().unwrap()])
    }
}

/// Runs a server on `b` and a client on `a`, each with its association; both have to end.
fn pair<S, C>(
    extra: &str,
    server: impl Fn(Listener, Association) -> S + 'static,
    client: impl Fn(Stack, Association) -> C + 'static,
) -> Result<RunSummary, SimulationError>
where
    S: Future<Output = Result<(), Failure>> + 'static,
    C: Future<Output = Result<(), Failure>> + 'static,
{
    pair_with(config, extra, server, client)
}

/// The same with another configuration.
fn pair_with<S, C>(
    config: fn() -> StackConfig,
    extra: &str,
    server: impl Fn(Listener, Association) -> S + 'static,
    client: impl Fn(Stack, Association) -> C + 'static,
) -> Result<RunSummary, SimulationError>
where
    S: Future<Output = Result<(), Failure>> + 'static,
    C: Future<Output = Result<(), Failure>> + 'static,
{
    let mut simulation = Simulation::new(&scenario(extra), 1);
    let addrs = simulation.addrs("b", 9899);
    let server = std::rc::Rc::new(server);
    simulation.client("b", move || {
        let server = server.clone();
        async move {
            let listener = Listener::bind(config())?;
            let association = listener.accept().await?;
            server(listener, association).await
        }
    });
    let client = std::rc::Rc::new(client);
    simulation.client("a", move || {
        let (addrs, client) = (addrs.clone(), client.clone());
        async move {
            let stack = Stack::bind(config())?;
            let association = stack.connect(&addrs, PORT).await?;
            client(stack, association).await
        }
    });
    simulation.run()
}

/// Polls a future once and drops it unless it is ready.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(value) => std::task::Poll::Ready(Some(value)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

/// Makes a future again and again and drops it, a millisecond apart, until one is ready at once. Returns how many were dropped.
async fn patient<T>(mut make: impl AsyncFnMut() -> T) -> (T, u32) {
    let mut dropped = 0;
    loop {
        if let Some(value) = once(make()).await {
            return (value, dropped);
        }
        dropped += 1;
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_dropped_recv_loses_no_message() {
    let receive = |_: Listener, association: Association| async move {
        let mut dropped = 0;
        for number in 0..100_u32 {
            let message = if number % 2 == 0 {
                let (message, count) = patient(|| association.recv()).await;
                dropped += count;
                message?.ok_or("the end")?.data
            } else {
                let mut data = Vec::new();
                loop {
                    if let Some(received) = once(association.recv_into(&mut data)).await {
                        received?.ok_or("the end")?;
                        break data;
                    }
                    dropped += 1;
                    sleep(Duration::from_millis(1)).await;
                }
            };
            assert_eq!(message, number.to_be_bytes());
        }
        assert!(dropped > 100, "{dropped} dropped");
        assert_eq!(association.recv().await?, None);
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        for number in 0..100_u32 {
            association.send(Message::new(0, number.to_be_bytes().to_vec())).await?;
            sleep(Duration::from_millis(3)).await;
        }
        Ok(association.shutdown().await?)
    };
    pair("", receive, send).unwrap();
}

#[test]
fn a_dropped_send_sends_nothing_and_a_finished_one_sends_once() {
    let receive = |_: Listener, association: Association| async move {
        let mut expected = 0_u32;
        while let Some(message) = association.recv().await? {
            assert_eq!(message.data[..4], expected.to_be_bytes());
            expected += 1;
        }
        assert_eq!(expected, 60);
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        let mut dropped = 0;
        for number in 0..60_u32 {
            let mut data = vec![0; 10_000];
            data[..4].copy_from_slice(&number.to_be_bytes());
            dropped += patient(|| association.send(Message::new(0, data.clone()))).await.1;
        }
        assert!(dropped > 100, "the buffer was full: {dropped} dropped");
        let ((), waits) = patient(|| async { association.flush().await.unwrap() }).await;
        assert!(waits > 10 && association.buffered() == 0);
        Ok(association.shutdown().await?)
    };
    pair("", receive, send).unwrap();
}

#[test]
fn dropped_connect_leaves_nothing_behind_and_dropped_accept_loses_no_association() {
    let mut simulation = Simulation::new(&scenario(""), 2);
    let addrs = simulation.addrs("b", 9899);
    simulation.client("b", || async {
        let listener = Listener::bind(config())?;
        let (association, dropped) = patient(|| listener.accept()).await;
        assert!(dropped > 20, "{dropped}");
        let association = association?;
        assert_eq!(association.recv().await?.ok_or("the end")?.data, b"hello");
        // The attempts that were given up are not associations.
        assert!(once(listener.accept()).await.is_none());
        sleep(Duration::from_millis(100)).await;
        Ok::<(), Failure>(())
    });
    simulation.client("a", move || {
        let addrs = addrs.clone();
        async move {
            let stack = Stack::bind(config())?;
            for _ in 0..3 {
                assert!(once(stack.connect(&addrs, PORT)).await.is_none());
                assert!(
                    timeout(Duration::from_millis(5), stack.connect(&addrs, PORT))
                        .await
                        .is_err()
                );
                stack.wait_idle().await;
                assert_eq!(stack.associations(), 0);
            }
            let association = stack.connect_and_send(&addrs, PORT, [Message::new(0, "hello")]).await?;
            let (reason, dropped) = patient(|| association.closed()).await;
            assert!(
                dropped > 5 && matches!(reason, CloseReason::AbortedByPeer { .. }),
                "{reason:?}"
            );
            let ((), _) = patient(|| stack.wait_idle()).await;
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap();
}

#[test]
fn a_dropped_shutdown_goes_on() {
    let receive = |_: Listener, association: Association| async move {
        let mut bytes = 0;
        while let Some(message) = association.recv().await? {
            bytes += message.data.len();
        }
        assert_eq!(bytes, 50_000);
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        association.send(Message::new(0, vec![1; 50_000])).await?;
        assert!(once(association.shutdown()).await.is_none());
        let refused = association.try_send(Message::new(0, "more")).unwrap_err();
        assert_eq!(refused, TrySendError::Failed(AssociationError::ShuttingDown));
        assert_eq!(association.closed().await, CloseReason::Graceful);
        Ok(())
    };
    pair("", receive, send).unwrap();
}

#[test]
fn dropped_waits_for_path_events_and_snapshots_lose_none() {
    let serve = |_: Listener, association: Association| async move {
        while association.recv().await?.is_some() {}
        Ok(())
    };
    let watch = |_: Stack, association: Association| async move {
        let mut events = association.path_events();
        let mut statistics = association.statistics(Duration::from_secs(1));
        let start = Instant::now();
        let (first, _) = patient(async || statistics.next().await).await;
        assert_eq!(first.ok_or("no snapshot")?.paths.len(), 1);
        let sender = association.clone();
        let sending = tokio::spawn(async move {
            while start.elapsed() < Duration::from_secs(20) {
                sender.send(Message::new(0, vec![1; 1000])).await?;
                sleep(Duration::from_millis(100)).await;
            }
            sender.shutdown().await
        });
        let mut seen = Vec::new();
        while seen.last() != Some(&PathChange::Up) {
            let (event, dropped) = patient(async || events.next().await).await;
            assert!(dropped > 100);
            seen.push(event.ok_or("no event")?.change);
        }
        assert_eq!(seen, [PathChange::Down, PathChange::Up]);
        let mut snapshots = Vec::new();
        while let (Some(snapshot), _) = patient(async || statistics.next().await).await {
            snapshots.push(snapshot);
        }
        // Missed ticks are skipped; one is at the end.
        assert!((8..=18).contains(&snapshots.len()), "{}", snapshots.len());
        assert!(snapshots.is_sorted_by_key(|snapshot| (snapshot.time, snapshot.stats.data_chunks_sent)));
        assert_eq!(snapshots.last().map(|last| last.buffered), Some(0));
        assert!(patient(async || events.next().await).await.0.is_none());
        Ok(sending.await??)
    };
    let cut = r#"schedule = [{ at = "1 s", up = false }, { at = "4 s", up = true }]"#;
    pair(cut, serve, watch).unwrap();
}

#[test]
fn a_reader_that_stops_makes_the_sender_wait_and_memory_stays_bounded() {
    let receive = |listener: Listener, association: Association| async move {
        sleep(Duration::from_secs(30)).await;
        let held = listener.stack().receive_memory();
        assert!(held < 6 * u64::from(BUFFER), "{held} bytes held");
        let mut messages = 0;
        while association.recv().await?.is_some() {
            messages += 1;
        }
        assert_eq!(messages, 300);
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        let start = Instant::now();
        let mut taken = 0;
        for _ in 0..300 {
            association.send(Message::new(0, vec![1; 1000])).await?;
            if start.elapsed() < Duration::from_secs(30) {
                taken += 1;
            }
        }
        // Both buffers are full, and nothing more is taken.
        assert!(
            (100..=2 * BUFFER as usize / 1000 + 5).contains(&taken),
            "{taken} messages taken"
        );
        assert!(association.buffered() <= BUFFER as usize);
        Ok(association.shutdown().await?)
    };
    pair("", receive, send).unwrap();
}

#[test]
fn streams_carry_bytes_in_order_and_messages_of_others_reach_recv() {
    let receive = |_: Listener, association: Association| async move {
        // Opened late: what has arrived is there.
        sleep(Duration::from_millis(100)).await;
        let mut second = association.stream(2)?;
        assert_eq!(association.stream(2).unwrap_err(), AssociationError::StreamInUse(2));
        let mut text = Vec::new();
        let mut third = association.stream(3)?;
        let others = async {
            let message = association.recv().await?.ok_or("the end")?;
            assert_eq!((message.stream, &message.data[..]), (0, &b"whole"[..]));
            assert_eq!(association.recv().await?, None);
            Ok::<(), Failure>(())
        };
        let mut numbers = Vec::new();
        let (read, read_too, others) =
            tokio::join!(second.read_to_end(&mut text), third.read_to_end(&mut numbers), others);
        assert_eq!((read?, text), (100_000, pattern(100_000)));
        assert_eq!((read_too?, &numbers[..]), (7, &b"1234567"[..]));
        others?;
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        let mut second = association.stream(2)?;
        let mut third = association.stream(3)?;
        third.write_all(b"123").await?;
        association.send(Message::new(0, "whole")).await?;
        second.write_all(&pattern(100_000)).await?;
        third.write_all(b"4567").await?;
        Ok(association.shutdown().await?)
    };
    pair(r#"loss = { kind = "bernoulli", rate = 0.02 }"#, receive, send).unwrap();
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|place| (place * 31 % 251) as u8).collect()
}

#[test]
fn a_dropped_read_or_write_of_a_stream_moves_nothing() {
    let receive = |_: Listener, association: Association| async move {
        let mut stream = association.stream(1)?;
        let (mut all, mut dropped) = (Vec::new(), 0);
        loop {
            let mut part = [0; 700];
            match once(stream.read(&mut part)).await {
                None => {
                    dropped += 1;
                    sleep(Duration::from_millis(1)).await;
                }
                Some(read) => match read? {
                    0 => break,
                    len => all.extend_from_slice(&part[..len]),
                },
            }
        }
        assert!(
            all == pattern(300_000) && dropped > 50,
            "{} bytes, {dropped} dropped",
            all.len()
        );
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        let mut stream = association.stream(1)?;
        let all = pattern(300_000);
        let (mut sent, mut dropped) = (0, 0);
        while sent < all.len() {
            match once(stream.write(&all[sent..])).await {
                Some(written) => sent += written?,
                None => {
                    dropped += 1;
                    sleep(Duration::from_millis(1)).await;
                }
            }
        }
        assert!(dropped > 50, "{dropped} dropped");
        Ok(association.shutdown().await?)
    };
    pair("", receive, send).unwrap();
}

#[test]
fn an_unread_stream_makes_the_peer_wait_and_ends_of_associations_are_errors_of_io() {
    let receive = |_: Listener, association: Association| async move {
        let mut read = association.stream(1)?;
        let _unread = association.stream(2)?;
        let mut part = [0; 4];
        read.read_exact(&mut part).await?;
        sleep(Duration::from_secs(20)).await;
        association.abort("enough");
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        association.stream(1)?.write_all(b"1234").await?;
        let mut unread = association.stream(2)?;
        let start = Instant::now();
        let mut written = 0;
        let error = loop {
            match unread.write(&[1; 8192]).await {
                Ok(len) => written += len,
                Err(error) => break error,
            }
            assert!(start.elapsed() < Duration::from_secs(19));
        };
        // Both buffers hold the bytes: the data behind those of the first stream has not been taken out.
        let most = 2 * BUFFER as usize + 32 * 1024;
        assert!((BUFFER as usize..most).contains(&written), "{written} bytes written");
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
        assert!(error.to_string().contains("enough"), "{error}");
        Ok(())
    };
    pair("", receive, send).unwrap();
}

#[test]
fn options_of_messages_arrive() {
    let receive = |_: Listener, association: Association| async move {
        let first = association.recv().await?.ok_or("the end")?;
        assert_eq!((first.stream, first.ppid, first.unordered), (5, 51, true));
        let second = association.recv().await?.ok_or("the end")?;
        assert_eq!((second.stream, second.ppid, second.unordered), (5, 0, false));
        assert_eq!(association.recv().await?, None);
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        let options = Message {
            ppid: 51,
            unordered: true,
            ..Message::new(5, "unordered")
        };
        association.send(options).await?;
        association.send(Message::new(5, "ordered")).await?;
        Ok(association.shutdown().await?)
    };
    pair("", receive, send).unwrap();
}

/// On a link that loses packets, the discriminator that is set in the midst of a transfer makes it faster.
#[test]
fn congestion_control_that_is_replaced_takes_effect() {
    let time = |changes: bool| {
        let receive = |_: Listener, association: Association| async move {
            while association.recv().await?.is_some() {}
            Ok(())
        };
        let send = move |_: Stack, association: Association| async move {
            for number in 0..3000 {
                if changes && number == 300 {
                    let parts = Scheme::by_name("veno").ok_or("no such scheme")?.parts();
                    association.set_congestion_control(Some(parts.discriminator), Some(parts.window))?;
                }
                association.send(Message::new(0, vec![1; 1400])).await?;
            }
            Ok(association.shutdown().await?)
        };
        let lossy = r#"loss = { kind = "bernoulli", rate = 0.03 }"#;
        pair(lossy, receive, send).unwrap().elapsed
    };
    let (kept, replaced) = (time(false), time(true));
    assert!(
        replaced.as_nanos() * 5 < kept.as_nanos() * 4,
        "{kept} kept, {replaced} replaced"
    );
    assert!(kept > Span::from_secs(5));
}

#[test]
fn an_end_is_noticed_although_another_reader_has_not_read() {
    let receive = |_: Listener, association: Association| async move {
        let mut unread = association.stream(2)?;
        sleep(Duration::from_secs(5)).await;
        // What waits for the other reader fills its place.
        assert!(once(association.recv()).await.is_none());
        let error = timeout(Duration::from_secs(60), association.recv()).await?;
        assert!(matches!(error, Err(AssociationError::Closed(_))), "{error:?}");
        let mut bytes = Vec::new();
        let error = unread.read_to_end(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        assert!(bytes.len() >= 256 * 1024, "{}", bytes.len());
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        let mut stream = association.stream(2)?;
        for _ in 0..19 {
            stream.write_all(&[1; 16 * 1024]).await?;
        }
        sleep(Duration::from_secs(10)).await;
        association.abort("enough");
        Ok(())
    };
    pair("", receive, send).unwrap();
}

#[test]
fn what_waits_for_another_reader_counts_with_all_of_its_memory() {
    let receive = |listener: Listener, association: Association| async move {
        let _slow = association.stream(3)?;
        let mut data = Vec::with_capacity(16 << 20);
        let mut most = 0;
        while association.recv_into(&mut data).await?.is_some() {
            // The buffer stays where it is.
            assert!(data.capacity() >= 16 << 20);
            most = most.max(listener.stack().receive_memory());
        }
        // 1000 messages of one byte, each with its place.
        assert!((64_000..200_000).contains(&most), "{most}");
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        for number in 0..1000 {
            association.send(Message::new(3, "1")).await?;
            association.send(Message::new(0, vec![1; 1 + number % 7])).await?;
        }
        Ok(association.shutdown().await?)
    };
    pair("", receive, send).unwrap();
}

#[test]
fn writes_fit_a_small_send_buffer() {
    let receive = |_: Listener, association: Association| async move {
        let mut bytes = Vec::new();
        association.stream(1)?.read_to_end(&mut bytes).await?;
        assert_eq!(bytes, pattern(30_000));
        Ok(())
    };
    let send = |_: Stack, association: Association| async move {
        association.stream(1)?.write_all(&pattern(30_000)).await?;
        Ok(association.shutdown().await?)
    };
    let small = || {
        let mut config = config();
        config.association.send_buffer = 8192;
        config
    };
    pair_with(small, "", receive, send).unwrap();
}
