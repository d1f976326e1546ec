//! Programs over a simulated network in virtual time.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/network.rs"]
mod network;

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep, timeout};
use whimbrel::simulated::{RunSummary, Scenario, Simulation, SimulationError};
use whimbrel::{
    AssociationConfig, AssociationError, CloseReason, ConnectError, Listener, Message, PathChange, Scheme, Span, Stack,
    StackConfig,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TWO_LINKS: &[&str] = &[
    r#"
name = "first"
rate = "10 Mbit/s"
delay = "10 ms""#,
    r#"
name = "second"
rate = "10 Mbit/s"
delay = "25 ms""#,
];

const PORT: u16 = 7;

fn two_links(loss: f64) -> Scenario {
    let loss = format!("\nloss = {{ kind = \"bernoulli\", rate = {loss} }}");
    network::scenario("2 min", &[TWO_LINKS[0], &(TWO_LINKS[1].to_owned() + &loss)])
}

fn config() -> StackConfig {
    let association = AssociationConfig {
        rto_initial: Some(Span::from_millis(200)),
        rto_min: Span::from_millis(100),
        path_max_retrans: 1,
        hb_interval: Span::from_secs(1),
        ..StackConfig::default().association
    };
    StackConfig {
        association,
        ..StackConfig::local(["0.0.0.0:0".parse().unwrap()])
    }
}

fn listener() -> Result<Listener, Failure> {
    Ok(Listener::bind(StackConfig {
        port: PORT,
        local: vec!["0.0.0.0:9899".parse()?],
        // Only programs with fixed ports restart.
        continue_after_restart: true,
        ..config()
    })?)
}

async fn echo() -> Result<(), Failure> {
    let listener = listener()?;
    loop {
        let association = listener.accept().await?;
        tokio::spawn(async move {
            while let Ok(Some(message)) = association.recv().await {
                if association
                    .send(Message::new(message.stream, message.data))
                    .await
                    .is_err()
                {
                    break;
                }
            }
        });
    }
}

/// Values that programs report to the test.
#[derive(Clone, Debug)]
struct Notes<T>(Arc<Mutex<Vec<T>>>);

impl<T> Notes<T> {
    fn new() -> Self {
        Notes(Arc::default())
    }

    fn add(&self, value: T) {
        self.0.lock().unwrap().push(value);
    }

    fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// A client on `a` that sends messages to the echo server on `b` and sleeps between them.
fn echo_run(
    scenario: &Scenario,
    seed: u64,
    prepare: impl FnOnce(&mut Simulation),
) -> Result<RunSummary, SimulationError> {
    let mut simulation = Simulation::new(scenario, seed);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", echo);
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let association = Stack::bind(config())?.connect(&server, PORT).await?;
            for number in 0..20_u32 {
                let text = vec![number as u8; 3000];
                association.send(Message::new(0, text.clone())).await?;
                let answer = association
                    .recv()
                    .await?
                    .ok_or("the server has ended the association")?;
                assert_eq!(answer.data, text);
                sleep(Duration::from_millis(100)).await;
            }
            association.shutdown().await?;
            Ok::<(), Failure>(())
        }
    });
    prepare(&mut simulation);
    simulation.run()
}

#[test]
fn equal_seeds_give_equal_bytes_and_others_do_not() {
    let scenario = two_links(0.05);
    let runs: Vec<_> = [1, 1, 2]
        .map(|seed| echo_run(&scenario, seed, |_| {}).unwrap())
        .to_vec();
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0].digest, runs[2].digest);
    assert!(runs[0].datagrams > 100 && runs[0].bytes > 2 * 20 * 3000, "{runs:?}");
}

#[test]
fn long_datagrams_are_reported_and_fragmented_as_on_a_real_network() {
    let chain = |icmp: bool, first: u16| {
        let text = format!(
            r#"
duration = "2 min"
node = [{{ name = "a" }}, {{ name = "r", icmp = {icmp} }}, {{ name = "b" }}]
flow = [{{ name = "data", from = "a", to = "b" }}]
link = [
    {{ between = ["a", "r"], rate = "10 Mbit/s", delay = "10 ms", mtu = {first} }},
    {{ between = ["r", "b"], rate = "10 Mbit/s", delay = "10 ms", mtu = 1300 }},
]
"#
        );
        Scenario::from_text("chain", &text).unwrap()
    };
    // Without reports, the library finds out by its timers.
    for (icmp, first) in [(true, 1500), (true, 1400), (false, 1500)] {
        let outcome = echo_run(&chain(icmp, first), 1, |_| {});
        assert!(outcome.is_ok(), "{icmp}, {first}: {outcome:?}");
    }
}

#[test]
fn time_is_that_of_the_links_and_timers() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 1);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", echo);
    let seen = notes.clone();
    simulation.client("a", move || {
        let (server, seen) = (server.clone(), seen.clone());
        async move {
            let start = Instant::now();
            let association = Stack::bind(config())?.connect(&server, PORT).await?;
            seen.add(start.elapsed());
            let sent = Instant::now();
            association.send(Message::new(0, "x")).await?;
            association.recv().await?;
            seen.add(sent.elapsed());
            let slept = Instant::now();
            sleep(Duration::from_secs(60)).await;
            seen.add(slept.elapsed());
            association.shutdown().await?;
            Ok::<(), Failure>(())
        }
    });
    let real = std::time::Instant::now();
    let outcome = simulation.run().unwrap();
    assert!(real.elapsed() < Duration::from_secs(50), "nothing waits in real time");
    let times = notes.take();
    // The handshake takes two round trips of 20 ms; the packets are short at 10 Mbit/s.
    let close = |time: Duration, ms: u64| (0..=1500).contains(&(time.as_micros() as i128 - i128::from(ms) * 1000));
    assert!(close(times[0], 40) && close(times[1], 20), "{times:?}");
    assert!(close(times[2], 60_000), "{times:?}");
    assert!(outcome.elapsed > Span::from_millis(60_060) && outcome.elapsed < Span::from_millis(60_200));
}

#[test]
fn data_moves_to_the_other_link_while_one_is_cut() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 3);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", echo);
    let seen = notes.clone();
    simulation.client("a", move || {
        let (server, seen) = (server.clone(), seen.clone());
        async move {
            let association = Stack::bind(config())?.connect(&server, PORT).await?;
            let mut events = association.path_events();
            let start = Instant::now();
            let watch = tokio::spawn(async move {
                while let Some(event) = events.next().await {
                    seen.add((event.time.duration_since(start.into_std()), event.remote, event.change));
                }
            });
            while start.elapsed() < Duration::from_secs(10) {
                association.send(Message::new(0, vec![1; 1000])).await?;
                let answer = timeout(Duration::from_secs(2), association.recv()).await??;
                answer.ok_or("the association has ended")?;
                sleep(Duration::from_millis(50)).await;
            }
            association.shutdown().await?;
            watch.await?;
            Ok::<(), Failure>(())
        }
    });
    let first = simulation.addrs("b", 9899)[0];
    simulation.cut("first", Span::from_secs(2), Span::from_secs(6));
    simulation.run().unwrap();
    let events = notes.take();
    let of = |change| events.iter().find(|(_, remote, c)| *remote == first && *c == change);
    let (down, up) = (of(PathChange::Down).unwrap(), of(PathChange::Up).unwrap());
    assert!(
        down.0 > Duration::from_secs(1) && down.0 < Duration::from_secs(5),
        "{events:?}"
    );
    assert!(up.0 > Duration::from_secs(5), "{events:?}");
}

/// The server counts in memory and on its "disk". A crash takes the first and leaves the second.
#[test]
fn crash_takes_memory_and_tasks_and_restart_runs_the_program_again() {
    let disk = Notes::new();
    let zombie = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 4);
    let server = simulation.addrs("b", 9899);
    let (written, alive) = (disk.clone(), zombie.clone());
    simulation.node("b", move || {
        let (disk, alive) = (written.clone(), alive.clone());
        async move {
            let start = Instant::now();
            tokio::spawn(async move {
                loop {
                    alive.add((start, start.elapsed()));
                    sleep(Duration::from_millis(500)).await;
                }
            });
            let listener = listener()?;
            let mut memory = 0;
            loop {
                let association = listener.accept().await?;
                while let Ok(Some(message)) = association.recv().await {
                    memory += 1;
                    disk.add((memory, message.data[0]));
                    association.send(Message::new(0, message.data)).await?;
                }
            }
            #[allow(unreachable_code, reason = "gives the type")]
            Ok::<(), Failure>(())
        }
    });
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let stack = Stack::bind(config())?;
            let mut number = 0;
            while number < 40 {
                // The restarted server answers with an ABORT; until then connecting takes its time.
                let Ok(association) = stack.connect(&server, PORT).await else {
                    continue;
                };
                while number < 40 {
                    if association.send(Message::new(0, vec![number])).await.is_err() {
                        break;
                    }
                    match association.recv().await {
                        Ok(Some(_)) => number += 1,
                        _ => break,
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            }
            Ok::<(), Failure>(())
        }
    });
    simulation.crash("b", Span::from_millis(2040));
    simulation.restart("b", Span::from_secs(5));
    simulation.run().unwrap();
    let written = disk.take();
    // No number is missing; one that was written and not answered comes twice.
    let mut numbers: Vec<_> = written.iter().map(|(_, number)| *number).collect();
    numbers.dedup();
    assert_eq!(numbers, (0..40).collect::<Vec<_>>());
    let restarts = written.iter().filter(|(memory, _)| *memory == 1).count();
    assert_eq!(restarts, 2, "{written:?}");
    let ticks = zombie.take();
    let first = ticks[0].0;
    let of_first: Vec<_> = ticks.iter().filter(|(start, _)| *start == first).collect();
    assert_eq!(of_first.len(), 5, "0 to 2 s, no longer: {ticks:?}");
}

#[test]
fn a_crash_sends_nothing_and_peers_notice_by_their_timers() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 5);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", echo);
    let seen = notes.clone();
    simulation.client("a", move || {
        let (server, seen) = (server.clone(), seen.clone());
        async move {
            let association = Stack::bind(config())?.connect(&server, PORT).await?;
            sleep(Duration::from_secs(2)).await;
            let sent = Instant::now();
            association.send(Message::new(0, "to a crashed node")).await?;
            let reason = association.closed().await;
            seen.add((sent.elapsed(), reason));
            Ok::<(), Failure>(())
        }
    });
    simulation.crash("b", Span::from_secs(1));
    simulation.run().unwrap();
    let (after, reason) = notes.take().remove(0);
    assert_eq!(reason, CloseReason::PeerUnreachable);
    assert!(after > Duration::from_secs(1), "{after:?}");
}

#[test]
fn port_without_a_listener_refuses_and_an_address_without_a_route_is_unreachable() {
    let mut simulation = Simulation::new(&two_links(0.0), 6);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", || async {
        sleep(Duration::from_secs(3600)).await;
        Ok::<(), Failure>(())
    });
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let stack = Stack::bind(config())?;
            let start = Instant::now();
            let refused = stack.connect(&server[..1], PORT).await;
            assert!(matches!(refused, Err(ConnectError::Refused(_))), "{refused:?}");
            assert!(start.elapsed() < Duration::from_millis(30));
            let unknown = stack.connect(&["10.77.0.1:9899".parse()?], PORT).await;
            assert!(matches!(unknown, Err(ConnectError::Unreachable(_))), "{unknown:?}");
            let foreign = Stack::bind(StackConfig::local([server[0]]));
            assert!(foreign.is_err(), "an address of another node");
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap();
}

/// Node `a` sends 2 MB to `b`.
fn bulk_run(scenario: &Scenario, scheme: &'static str) -> RunSummary {
    let mut simulation = Simulation::new(scenario, 7);
    let server = simulation.addrs("b", 9899);
    let with_scheme = move || StackConfig {
        association: AssociationConfig {
            scheme: Scheme::by_name(scheme).unwrap(),
            ..config().association
        },
        ..config()
    };
    simulation.node("b", echo);
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let association = Stack::bind(with_scheme())?.connect(&server, PORT).await?;
            for _ in 0..200 {
                association.send(Message::new(0, vec![1; 10_000])).await?;
            }
            association.flush().await?;
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap()
}

#[test]
fn stacks_have_the_timer_granularity_of_their_node() {
    let with_timer_of_a = |granularity: &str| {
        let node = format!("{{ name = \"a\", timer_granularity = \"{granularity}\" }}");
        let text = network::text("2 min", TWO_LINKS).replace("{ name = \"a\" }", &node);
        bulk_run(&Scenario::from_text("timer", &text).unwrap(), "cubic").digest
    };
    let ideal = bulk_run(&two_links(0.0), "cubic").digest;
    assert_eq!(with_timer_of_a("0 s"), ideal);
    assert_ne!(with_timer_of_a("10 ms"), ideal, "paced packets leave in bursts");
}

#[test]
fn both_links_carry_data_with_the_scheme_multipath() {
    let time = |scheme| bulk_run(&two_links(0.0), scheme).elapsed;
    let (one, both) = (time("standard"), time("multipath"));
    assert!(
        both.as_nanos() * 10 < one.as_nanos() * 7,
        "{one} with one path, {both} with two"
    );
}

#[test]
fn failures_name_the_seed_the_node_and_the_time() {
    let fail = |error: &'static str| {
        let mut simulation = Simulation::new(&two_links(0.0), 42);
        simulation.client("a", move || async move {
            sleep(Duration::from_millis(250)).await;
            if error.is_empty() {
                std::future::pending::<()>().await;
            }
            Err::<(), Failure>(error.into())
        });
        simulation.run().unwrap_err().to_string()
    };
    assert_eq!(fail("disk full"), "seed 42: node a failed at 0.250 s: disk full");
    assert_eq!(fail(""), "seed 42: a had not ended after 120.000 s");
    let mut wrong = Simulation::new(&two_links(0.0), 1);
    wrong.cut("third", Span::ZERO, Span::from_secs(1));
    assert_eq!(
        wrong.run().unwrap_err().to_string(),
        "the scenario has no link \"third\""
    );
    let none = Simulation::new(&two_links(0.0), 1).run().unwrap_err();
    assert_eq!(none.to_string(), "the simulation has no client");
}

/// Tasks of tokio and two stacks of one node, over its loopback addresses.
#[test]
fn stacks_of_one_node_talk_over_loopback() {
    let mut simulation = Simulation::new(&two_links(0.0), 8);
    simulation.client("a", || async {
        let listener = Listener::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
        let (addrs, port) = (listener.stack().local_addrs().to_vec(), listener.stack().port());
        let server = tokio::spawn(async move {
            let association = listener.accept().await?;
            association.recv().await
        });
        let stack = Stack::bind(StackConfig::local(["127.0.0.1:0".parse()?]))?;
        let start = Instant::now();
        let association = stack.connect(&addrs, port).await?;
        association.send(Message::new(0, "near")).await?;
        assert_eq!(server.await??.ok_or("nothing")?.data, b"near");
        assert_eq!(start.elapsed(), Duration::ZERO);
        Ok::<(), Failure>(())
    });
    simulation.run().unwrap();
}

#[test]
fn the_listener_s_end_is_seen_as_an_end_in_good_order() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.02), 9);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", || async {
        let listener = listener()?;
        let association = listener.accept().await?;
        association.recv().await?;
        association.shutdown().await?;
        Ok::<(), Failure>(())
    });
    let seen = notes.clone();
    simulation.client("a", move || {
        let (server, seen) = (server.clone(), seen.clone());
        async move {
            let association = Stack::bind(config())?.connect(&server, PORT).await?;
            association.send(Message::new(0, "bye")).await?;
            seen.add(association.recv().await);
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap();
    assert_eq!(notes.take(), [Ok::<_, AssociationError>(None)]);
}

/// Tasks that cannot move between threads run in simulated time as well, and end with their node.
#[test]
fn spawn_local_runs_tasks_of_a_node() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 7);
    let server = simulation.addrs("b", 9899);
    simulation.node("b", || {
        let greeting = std::rc::Rc::new(std::cell::RefCell::new(0_u8));
        async move {
            let listener = listener()?;
            loop {
                let (association, greeting) = (listener.accept().await?, greeting.clone());
                tokio::task::spawn_local(async move {
                    *greeting.borrow_mut() += 1;
                    sleep(Duration::from_secs(1)).await;
                    let number = *greeting.borrow();
                    association.send(Message::new(0, vec![number])).await?;
                    association.shutdown().await
                });
            }
            #[allow(unreachable_code, reason = "gives the type")]
            Ok::<(), Failure>(())
        }
    });
    let seen = notes.clone();
    simulation.client("a", move || {
        let (server, seen) = (server.clone(), seen.clone());
        async move {
            let start = Instant::now();
            let both = [0, 1].map(|_| {
                let server = server.clone();
                tokio::task::spawn_local(async move {
                    let association = Stack::bind(config())?.connect(&server, PORT).await?;
                    let message = association.recv().await?.ok_or("no greeting")?;
                    Ok::<_, Failure>(message.data)
                })
            });
            for task in both {
                seen.add((task.await??, start.elapsed() > Duration::from_secs(1)));
            }
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap();
    assert_eq!(notes.take(), [(vec![2], true), (vec![2], true)]);
}

/// A program that starts again with these ports restarts its association, if that may continue.
fn fixed_ports() -> StackConfig {
    StackConfig {
        port: 77,
        local: vec![(Ipv4Addr::UNSPECIFIED, 9898).into()],
        ..config()
    }
}

#[test]
fn a_stream_ends_with_an_error_where_its_peer_restarts() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 8);
    let server = simulation.addrs("b", 9899);
    let seen = notes.clone();
    simulation.node("b", move || {
        let seen = seen.clone();
        async move {
            let listener = listener()?;
            let association = listener.accept().await?;
            loop {
                let mut stream = association.stream(1)?;
                let mut bytes = Vec::new();
                let end = stream.read_to_end(&mut bytes).await.map_err(|error| error.kind());
                let write = stream.write(b"answer").await.map_err(|error| error.kind());
                seen.add((bytes.len(), end, write));
                if end.is_ok() {
                    return Ok::<(), Failure>(());
                }
            }
        }
    });
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let stack = Stack::bind(fixed_ports())?;
            let association = stack.connect(&server, PORT).await?;
            let mut stream = association.stream(1)?;
            for _ in 0..10 {
                stream.write_all(&[1; 100]).await?;
                sleep(Duration::from_millis(100)).await;
            }
            association.shutdown().await?;
            // The server notices it.
            sleep(Duration::from_secs(1)).await;
            Ok::<(), Failure>(())
        }
    });
    simulation.crash("a", Span::from_millis(550));
    simulation.restart("a", Span::from_millis(700));
    simulation.run().unwrap();
    let ends = notes.take();
    let reset = Err(std::io::ErrorKind::ConnectionReset);
    assert_eq!(ends.len(), 2, "{ends:?}");
    assert!(
        (ends[0].1, ends[0].2) == (reset.map(|()| 0), reset.map(|()| 0)),
        "{ends:?}"
    );
    assert_eq!((ends[1].0, ends[1].1), (1000, Ok(1000)));
}

#[test]
fn what_a_peer_sent_before_it_restarted_does_not_reach_the_reopened_stream() {
    let notes = Notes::new();
    let mut simulation = Simulation::new(&two_links(0.0), 8);
    let server = simulation.addrs("b", 9899);
    let seen = notes.clone();
    simulation.node("b", move || {
        let seen = seen.clone();
        async move {
            let listener = listener()?;
            let association = listener.accept().await?;
            let mut stream = association.stream(1)?;
            // The message of stream 0 is taken out of the receive buffer; most bytes of stream 1 stay there.
            stream.read_exact(&mut [0; 1]).await?;
            sleep(Duration::from_millis(1200)).await;
            let end = stream.read_to_end(&mut Vec::new()).await.map_err(|error| error.kind());
            drop(stream);
            let mut bytes = Vec::new();
            association.stream(1)?.read_to_end(&mut bytes).await?;
            let mut others = Vec::new();
            while let Some(message) = association.recv().await? {
                others.push((message.stream, message.data.len()));
            }
            seen.add((end, bytes, others));
            Ok::<(), Failure>(())
        }
    });
    simulation.client("a", move || {
        let server = server.clone();
        async move {
            let stack = Stack::bind(fixed_ports())?;
            let association = stack.connect(&server, PORT).await?;
            association.send(Message::new(0, "before")).await?;
            association.send(Message::new(2, "also before")).await?;
            association.stream(1)?.write_all(&[1; 100_000]).await?;
            sleep(Duration::from_millis(400)).await;
            association.shutdown().await?;
            sleep(Duration::from_secs(1)).await;
            Ok::<(), Failure>(())
        }
    });
    simulation.crash("a", Span::from_millis(350));
    simulation.restart("a", Span::from_millis(700));
    simulation.run().unwrap();
    let found = notes.take();
    let [(end, bytes, others)] = found.as_slice() else {
        panic!("{found:?}")
    };
    assert_eq!(*end, Err(std::io::ErrorKind::ConnectionReset));
    assert_eq!(bytes.len(), 100_000, "those after the restart alone");
    assert_eq!(*others, [(0, 6), (2, 11), (0, 6), (2, 11)], "of both times");
}
