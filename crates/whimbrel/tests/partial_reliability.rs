//! Messages that may be given up (RFC 3758), over long, lossy and interrupted paths.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/network.rs"]
mod network;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::sleep;
use whimbrel::simulated::Simulation;
use whimbrel::{
    AssociationConfig, AssociationStats, Listener, Message, Reliability, Scheme, SendFailureCause, Span, Stack,
    StackConfig,
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A round-trip time of 200 ms, links with an MTU of 1400 that lose 3 % of the packets.
const PATHS: &[&str] = &[
    r#"
name = "first"
rate = "10 Mbit/s"
delay = "100 ms"
mtu = 1400
loss = { kind = "bernoulli", rate = 0.03 }"#,
    r#"
name = "second"
rate = "5 Mbit/s"
delay = "100 ms"
mtu = 1400
loss = { kind = "bernoulli", rate = 0.03 }"#,
];

const MESSAGES: u32 = 500;

fn config(local: &str, port: u16) -> StackConfig {
    let association = AssociationConfig {
        scheme: Scheme::by_name("whimbrel").unwrap(),
        ..StackConfig::default().association
    };
    StackConfig {
        port,
        association,
        ..StackConfig::local([local.parse().unwrap()])
    }
}

/// Every tenth message has to arrive. The others are frames of a video: of no use when they are late.
fn message(number: u32) -> Message {
    let is_frame = !number.is_multiple_of(10);
    let mut content = vec![
        number as u8;
        if is_frame {
            1000 + 97 * (number as usize % 89)
        } else {
            100
        }
    ];
    content[..4].copy_from_slice(&number.to_be_bytes());
    Message {
        context: number,
        unordered: number.is_multiple_of(3),
        reliability: if is_frame {
            Reliability::Lifetime(Span::from_millis(400))
        } else {
            Reliability::Full
        },
        ..Message::new(u16::from(is_frame), content)
    }
}

/// What both ends have seen of a run.
#[derive(Debug, Default)]
struct Seen {
    received: Vec<u32>,
    failed: Vec<u32>,
    sender: AssociationStats,
    receiver: AssociationStats,
}

async fn receive(seen: Arc<Mutex<Seen>>) -> Result<(), Failure> {
    let listener = Listener::bind(config("0.0.0.0:9899", 7))?;
    let association = listener.accept().await?;
    while let Some(received) = association.recv().await? {
        let number = u32::from_be_bytes(received.data[..4].try_into()?);
        assert_eq!(received.data.len(), message(number).len());
        assert!(received.data[4..].iter().all(|byte| *byte == number as u8));
        let mut seen = seen.lock().unwrap();
        seen.received.push(number);
        seen.receiver = association.stats().unwrap_or_default();
    }
    Ok(())
}

fn run(seed: u64, cut: &[(u64, u64)]) -> Seen {
    let scenario = network::scenario("5 min", PATHS);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut simulation = Simulation::new(&scenario, seed);
    let server = simulation.addrs("b", 9899);
    let by_receiver = seen.clone();
    simulation.node("b", move || receive(by_receiver.clone()));
    let by_sender = seen.clone();
    simulation.client("a", move || {
        let (server, seen) = (server.clone(), by_sender.clone());
        async move {
            let association = Stack::bind(config("0.0.0.0:0", 0))?.connect(&server, 7).await?;
            for number in 0..MESSAGES {
                association.send(message(number)).await?;
                sleep(Duration::from_millis(20)).await;
            }
            // What was given up as permitted is no error.
            association.flush().await?;
            let failures = association.send_failures();
            assert!(
                failures
                    .iter()
                    .all(|failure| failure.cause == SendFailureCause::GivenUp)
            );
            {
                let mut seen = seen.lock().unwrap();
                seen.failed = failures.iter().map(|failure| failure.context).collect();
                seen.sender = association.stats().unwrap();
            }
            association.shutdown().await?;
            Ok::<(), Failure>(())
        }
    });
    for &(from, to) in cut {
        simulation.cut("first", Span::from_secs(from), Span::from_secs(to));
    }
    simulation.run().unwrap();
    let mut seen = seen.lock().unwrap();
    std::mem::take(&mut *seen)
}

#[test]
fn every_message_arrives_or_is_reported_as_given_up() {
    // Of 2 Mbit/s, all would fit through the first path.
    for (seed, cut, least) in [(1, &[][..], 400), (2, &[(3, 6)], 100), (3, &[(2, 4), (5, 9)], 60)] {
        let seen = run(seed, cut);
        let received: BTreeSet<u32> = seen.received.iter().copied().collect();
        let failed: BTreeSet<u32> = seen.failed.iter().copied().collect();
        assert_eq!(received.len(), seen.received.len(), "{seed}: none arrives twice");
        assert_eq!(failed.len(), seen.failed.len(), "{seed}: none is reported twice");
        for number in 0..MESSAGES {
            let arrived = received.contains(&number);
            assert!(arrived || failed.contains(&number), "{seed}: {number}");
            assert!(arrived || !number.is_multiple_of(10), "{seed}: {number} has to arrive");
        }
        assert!(
            received.len() >= least && !failed.is_empty(),
            "{seed}: {}",
            received.len()
        );
        // The counters of both ends add up.
        let (sender, receiver) = (&seen.sender, &seen.receiver);
        assert_eq!(sender.messages_sent, u64::from(MESSAGES));
        assert_eq!(
            sender.messages_given_up_sent + sender.messages_given_up_unsent,
            failed.len() as u64
        );
        assert_eq!(receiver.messages_delivered, received.len() as u64);
        assert_eq!(
            receiver.bytes_delivered,
            received.iter().map(|number| message(*number).len() as u64).sum::<u64>()
        );
    }
}
