//! A peer that loses its state and opens its association again, from the same addresses and ports (RFC 9260 §5.2.4 A).

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/network.rs"]
mod network;

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{sleep, timeout};
use whimbrel::simulated::{Scenario, Simulation};
use whimbrel::{
    Association, AssociationError, CloseReason, ConnectError, Listener, Message, Span, Stack, StackConfig, TrySendError,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const NETWORK: &[&str] = &[r#"
name = "cable"
rate = "10 Mbit/s"
delay = "10 ms""#];

/// SCTP ports of the nodes; their UDP ports are 9000 more.
const A: u16 = 77;
const B: u16 = 7;

fn network() -> Scenario {
    network::scenario("2 min", NETWORK)
}

fn on(port: u16) -> StackConfig {
    StackConfig {
        port,
        ..StackConfig::local([format!("0.0.0.0:{}", 9000 + port).parse().unwrap()])
    }
}

/// What the programs report.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    fn add(&self, note: impl Into<String>) {
        self.0.lock().unwrap().push(note.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// Notes everything that arrives until the association ends.
    async fn read(&self, name: &str, association: &Association) {
        loop {
            match association.recv().await {
                Ok(Some(message)) => self.add(format!("{name}: {}", String::from_utf8_lossy(&message.data))),
                Ok(None) => return self.add(format!("{name}: end")),
                Err(error) => return self.add(format!("{name}: {error}")),
            }
        }
    }
}

/// A program that is killed after 5 s and starts again after 6 s, and one that is not.
fn run<P, Q>(dies: impl Fn(u32) -> P + 'static, stays: impl Fn() -> Q + 'static)
where
    P: Future<Output = Result<(), Failure>> + 'static,
    Q: Future<Output = Result<(), Failure>> + 'static,
{
    let mut simulation = Simulation::new(&network(), 1);
    let lives = std::cell::Cell::new(0);
    simulation.client("a", move || {
        lives.set(lives.get() + 1);
        dies(lives.get())
    });
    simulation.node("b", stays);
    simulation.crash("a", Span::from_secs(5));
    simulation.restart("a", Span::from_secs(6));
    simulation.run().unwrap();
}

/// Says two lines, and in its second life ends in good order.
async fn talk(life: u32) -> Result<(), Failure> {
    let stack = Stack::bind(on(A))?;
    let server = Simulation::new(&network(), 1).addrs("b", 9000 + B);
    let association = stack.connect(&server, B).await?;
    for line in 1..=2 {
        association
            .send(Message::new(0, format!("life {life} line {line}")))
            .await?;
    }
    if life == 1 {
        std::future::pending::<()>().await;
    }
    association.shutdown().await?;
    // The server reads the end.
    sleep(Duration::from_secs(1)).await;
    Ok(())
}

#[test]
fn the_old_association_ends_and_the_listener_hands_out_the_new_one() {
    let notes = Notes::default();
    let seen = notes.clone();
    run(talk, move || {
        let seen = seen.clone();
        async move {
            let listener = Listener::bind(on(B))?;
            for number in 1.. {
                let association = listener.accept().await?;
                let seen = seen.clone();
                tokio::spawn(async move { seen.read(&number.to_string(), &association).await });
            }
            Ok(())
        }
    });
    let expected = [
        "1: life 1 line 1",
        "1: life 1 line 2",
        "1: the peer has restarted",
        "2: life 2 line 1",
        "2: life 2 line 2",
        "2: end",
    ];
    assert_eq!(notes.take(), expected);
}

#[test]
fn what_arrived_before_is_read_first_and_every_other_call_reports_the_restart() {
    let notes = Notes::default();
    let seen = notes.clone();
    run(talk, move || {
        let seen = seen.clone();
        async move {
            let listener = Listener::bind(on(B))?;
            let association = listener.accept().await?;
            association.send(Message::new(0, "unheard")).await?;
            // Nothing is read meanwhile.
            let reason = association.closed().await;
            assert_eq!(reason, CloseReason::PeerRestarted);
            let closed = AssociationError::Closed(reason);
            let message = || Message::new(0, "for the dead");
            assert_eq!(association.send(message()).await, Err(closed.clone()));
            assert_eq!(
                association.try_send(message()),
                Err(TrySendError::Failed(closed.clone()))
            );
            assert_eq!(association.flush().await, Err(closed.clone()));
            assert_eq!(association.shutdown().await, Err(closed));
            seen.read("1", &association).await;
            let next = listener.accept().await?;
            drop(association);
            seen.read("2", &next).await;
            Ok(())
        }
    });
    let expected = [
        "1: life 1 line 1",
        "1: life 1 line 2",
        "1: the peer has restarted",
        "2: life 2 line 1",
        "2: life 2 line 2",
        "2: end",
    ];
    assert_eq!(notes.take(), expected);
}

#[test]
fn an_association_that_may_continue_delivers_both_lives() {
    let notes = Notes::default();
    let seen = notes.clone();
    run(talk, move || {
        let seen = seen.clone();
        async move {
            let listener = Listener::bind(StackConfig {
                continue_after_restart: true,
                ..on(B)
            })?;
            let association = listener.accept().await?;
            assert_eq!(association.restarts(), 0);
            for _ in 0..2 {
                association.recv().await?;
            }
            let third = association.recv().await?.ok_or("no third message")?;
            assert_eq!(
                (third.data.as_slice(), association.restarts()),
                (&b"life 2 line 1"[..], 1)
            );
            seen.read("both", &association).await;
            Ok(())
        }
    });
    assert_eq!(notes.take(), ["both: life 2 line 2", "both: end"]);
}

/// The server connects to its client after it has lost its state: a client that does not listen has one association less, and the server
/// is refused.
#[test]
fn without_a_listener_the_association_ends_and_the_new_one_is_refused() {
    let notes = Notes::default();
    let (seen, heard) = (notes.clone(), notes.clone());
    let mut simulation = Simulation::new(&network(), 1);
    let (client, server) = (simulation.addrs("a", 9000 + A), simulation.addrs("b", 9000 + B));
    let lives = std::cell::Cell::new(0);
    simulation.node("b", move || {
        lives.set(lives.get() + 1);
        let (life, client, seen) = (lives.get(), client.clone(), seen.clone());
        async move {
            let listener = Listener::bind(on(B))?;
            if life == 1 {
                let association = listener.accept().await?;
                association.send(Message::new(0, "life 1")).await?;
                std::future::pending::<()>().await;
            }
            let refused = match listener.stack().connect(&client, A).await {
                // The ABORT answers its COOKIE ECHO.
                Err(ConnectError::Closed(AssociationError::Closed(CloseReason::AbortedByPeer { .. }))) => "refused",
                Ok(_) => "connected",
                Err(_) => "failed otherwise",
            };
            seen.add(refused);
            Ok::<(), Failure>(())
        }
    });
    simulation.client("a", move || {
        let (server, heard) = (server.clone(), heard.clone());
        async move {
            let association = Stack::bind(on(A))?.connect(&server, B).await?;
            heard.read("a", &association).await;
            sleep(Duration::from_secs(1)).await;
            Ok::<(), Failure>(())
        }
    });
    simulation.crash("b", Span::from_secs(5));
    simulation.restart("b", Span::from_secs(6));
    simulation.run().unwrap();
    assert_eq!(notes.take(), ["a: life 1", "a: the peer has restarted", "refused"]);
}

/// The new process tries again until there is room for it, and the old association lasts until then.
#[test]
fn a_restart_waits_for_a_place_in_the_backlog() {
    let notes = Notes::default();
    let seen = notes.clone();
    run(talk, move || {
        let seen = seen.clone();
        async move {
            let listener = Listener::bind(StackConfig { backlog: 1, ..on(B) })?;
            let first = listener.accept().await?;
            let (addrs, stack) = (listener.stack().local_addrs().to_vec(), Stack::bind(on(B + 1))?);
            let _other = stack.connect(&addrs, B).await?;
            let early = timeout(Duration::from_secs(8), first.closed()).await;
            assert!(early.is_err(), "{early:?}");
            listener.accept().await?;
            seen.read("1", &first).await;
            let second = listener.accept().await?;
            seen.read("2", &second).await;
            Ok(())
        }
    });
    let expected = [
        "1: life 1 line 1",
        "1: life 1 line 2",
        "1: the peer has restarted",
        "2: life 2 line 1",
        "2: life 2 line 2",
        "2: end",
    ];
    assert_eq!(notes.take(), expected);
}
