//! Long and short messages over one association (RFC 8260), over a full path and over two lossy ones.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

#[path = "support/network.rs"]
mod network;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use whimbrel::simulated::Simulation;
use whimbrel::{AssociationConfig, Listener, Message, MessagePayload, Scheduler, Scheme, Stack, StackConfig};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const LINK: &[&str] = &[r#"
name = "link"
rate = "10 Mbit/s"
delay = "20 ms"
queue = { kind = "drop-tail", packets = 1000 }"#];

const LOSSY: &[&str] = &[
    r#"
name = "first"
rate = "10 Mbit/s"
delay = "20 ms"
loss = { kind = "bernoulli", rate = 0.02 }"#,
    r#"
name = "second"
rate = "5 Mbit/s"
delay = "50 ms"
loss = { kind = "bernoulli", rate = 0.02 }"#,
];

const LONG: u32 = 64 << 20;

#[derive(Clone, Copy)]
struct Case {
    interleaving: bool,
    scheme: &'static str,
}

impl Case {
    fn config(self, local: &str, port: u16) -> StackConfig {
        let association = AssociationConfig {
            interleaving: self.interleaving,
            scheduler: Scheduler::Priority,
            scheme: Scheme::by_name(self.scheme).unwrap(),
            max_message: Some(LONG),
            // The queue of the link holds what the window allows.
            recv_buffer_max: None,
            recv_buffer: 256 << 10,
            ..StackConfig::default().association
        };
        StackConfig {
            port,
            association,
            ..StackConfig::local([local.parse().unwrap()])
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    /// Of short messages, until they were received.
    delays: Vec<Duration>,
    /// Round-trip times that the sender has measured.
    rounds: Vec<Duration>,
    /// Length of the long message that has arrived.
    long: usize,
}

/// Sends a long message on stream 1, and a short one on stream 0 each 100 ms until it has arrived.
fn run(case: Case, links: &[&str], len: u32) -> Seen {
    let scenario = network::scenario("10 min", links);
    let seen = Arc::new(Mutex::new(Seen::default()));
    let mut simulation = Simulation::new(&scenario, 1);
    let server = simulation.addrs("b", 9899);
    // All programs of a simulation share its clock.
    let sent: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let (by_receiver, times) = (seen.clone(), sent.clone());
    simulation.node("b", move || {
        let (seen, times) = (by_receiver.clone(), times.clone());
        async move {
            let association = Listener::bind(case.config("0.0.0.0:9899", 7))?.accept().await?;
            while let Some(received) = association.recv().await? {
                let mut seen = seen.lock().unwrap();
                if received.stream == 1 {
                    seen.long = received.data.len();
                } else {
                    let number = u32::from_be_bytes(received.data[..4].try_into()?);
                    seen.delays.push(times.lock().unwrap()[number as usize].elapsed());
                }
            }
            Ok::<(), Failure>(())
        }
    });
    let (by_sender, times) = (seen.clone(), sent);
    simulation.client("a", move || {
        let (server, seen, times) = (server.clone(), by_sender.clone(), times.clone());
        async move {
            let association = Stack::bind(case.config("0.0.0.0:0", 0))?.connect(&server, 7).await?;
            assert_eq!(association.uses_interleaving(), case.interleaving);
            assert!(association.set_stream_value(1, 9));
            let long = Message {
                payload: MessagePayload::Zeros(len),
                ..Message::new(1, "")
            };
            association.send(long).await?;
            let mut number = 0_u32;
            while seen.lock().unwrap().long == 0 {
                sleep(Duration::from_millis(100)).await;
                let mut content = vec![0; 100];
                content[..4].copy_from_slice(&number.to_be_bytes());
                times.lock().unwrap().push(Instant::now());
                association.send(Message::new(0, content)).await?;
                number += 1;
                let round = association.paths().iter().filter_map(|path| path.srtt).max();
                seen.lock()
                    .unwrap()
                    .rounds
                    .extend(round.map(|srtt| Duration::from_nanos(srtt.as_nanos())));
            }
            association.shutdown().await?;
            Ok::<(), Failure>(())
        }
    });
    simulation.run().unwrap();
    let mut seen = seen.lock().unwrap();
    std::mem::take(&mut *seen)
}

fn percentile(values: &[Duration], share: f64) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted[((sorted.len() - 1) as f64 * share) as usize]
}

/// 64 MiB take about a minute. Short messages pass them within two round-trip times, the queue included.
#[test]
fn a_long_message_does_not_delay_short_ones_on_a_full_path() {
    let with = |interleaving| {
        let case = Case {
            interleaving,
            scheme: "standard",
        };
        run(case, LINK, LONG)
    };
    let seen = with(true);
    assert_eq!(seen.long, LONG as usize);
    let (worst, round) = (percentile(&seen.delays, 0.99), percentile(&seen.rounds, 0.5));
    assert!(seen.delays.len() > 500, "{}", seen.delays.len());
    assert!(round > Duration::from_millis(100), "the path is not full: {round:?}");
    assert!(worst < 2 * round, "{worst:?} with a round-trip time of {round:?}");
    // Without interleaving they wait for its end.
    let before = with(false);
    assert!(
        percentile(&before.delays, 0.5) > Duration::from_secs(10),
        "{:?}",
        before.delays
    );
}

#[test]
fn a_long_message_does_not_delay_short_ones_on_two_lossy_paths() {
    let case = Case {
        interleaving: true,
        scheme: "multipath",
    };
    let seen = run(case, LOSSY, 8 << 20);
    assert_eq!(seen.long, 8 << 20);
    let worst = percentile(&seen.delays, 0.9);
    assert!(worst < Duration::from_millis(600), "{worst:?} of {}", seen.delays.len());
}
