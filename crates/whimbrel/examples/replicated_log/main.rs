//! A replicated log, tested over simulated networks in virtual time: Wi-Fi fails for some seconds, one of three servers crashes.
//!
//! ```text
//! cargo run --release -p whimbrel --features simulated --example replicated_log            # 1000 seeds
//! cargo run --release -p whimbrel --features simulated --example replicated_log -- 17      # one seed, with its events
//! cargo run --release -p whimbrel --features simulated --example replicated_log -- --hasty # with a mistake, to see it found
//! ```
//!
//! A robot appends an entry every 50 ms. An entry is committed when two of three servers have confirmed it, and a server confirms what is
//! on its disk. Whatever fails, an entry that counts as committed has to be on two disks.

mod log;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use whimbrel::simulated::{Rng, RunSummary, Scenario, Simulation, SimulationError};
use whimbrel::{Span, StackConfig};

use log::{Disk, Journal};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const SERVERS: [&str; 3] = ["a", "b", "c"];
pub(crate) const NETWORK: &str = include_str!("network.toml");

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let hasty = arguments.iter().any(|argument| argument == "--hasty");
    let scenario = Scenario::from_text("network.toml", NETWORK)?;
    if let Some(seed) = arguments.iter().find_map(|argument| argument.parse().ok()) {
        // The text of an error, not its fields.
        let outcome = run(&scenario, seed, hasty, true).map_err(|error| error.to_string());
        let outcome = outcome.unwrap_or_else(|error| {
            println!("{error}");
            std::process::exit(1);
        });
        let seconds = outcome.elapsed.as_secs_f64();
        println!(
            "seed {seed}: all servers have everything after {seconds:.3} s, {} datagrams",
            outcome.datagrams
        );
        return Ok(());
    }
    let start = Instant::now();
    let failures = failures(&scenario, hasty);
    for failure in failures.iter().take(3) {
        println!("{failure}");
    }
    println!(
        "1000 seeds in {:.1} s, {} failures",
        start.elapsed().as_secs_f64(),
        failures.len()
    );
    Ok(())
}

/// The failures of 1000 seeds, in their order. Runs share nothing, so that each processor can have its own.
fn failures(scenario: &Scenario, hasty: bool) -> Vec<SimulationError> {
    let next = AtomicU64::new(0);
    let failures = Mutex::new(BTreeMap::new());
    let work = || {
        while let seed @ 0..1000 = next.fetch_add(1, Ordering::Relaxed) {
            if let Err(failure) = run(scenario, seed, hasty, false) {
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.insert(seed, failure);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.into_values().collect()
}

/// Runs the robot and its servers with the faults of a seed.
pub(crate) fn run(scenario: &Scenario, seed: u64, hasty: bool, prints: bool) -> Result<RunSummary, SimulationError> {
    let mut random = Rng::stream(seed, "faults");
    let mut simulation = Simulation::new(scenario, seed);
    let disks: Vec<Disk> = SERVERS.iter().map(|_| Disk::default()).collect();
    for (name, disk) in SERVERS.into_iter().zip(&disks) {
        let disk = disk.clone();
        simulation.node(name, move || {
            log::serve(StackConfig::local([any(9899)]), disk.clone(), hasty)
        });
    }
    let servers: Vec<_> = SERVERS.iter().map(|name| scenario.addrs(name, 9899)).collect();
    simulation.client("robot", move || {
        let journal = Journal::new(disks.clone(), prints);
        log::write(StackConfig::local([any(0)]), servers.clone(), journal)
    });

    let cut = Span::from_millis(500 + random.below(2000));
    let back = cut + Span::from_millis(1000 + random.below(3000));
    simulation.cut("wifi", cut, back);
    let victim = SERVERS[random.below(3) as usize];
    let crash = Span::from_millis(500 + random.below(4000));
    let restart = crash + Span::from_millis(500 + random.below(3000));
    simulation.crash(victim, crash);
    simulation.restart(victim, restart);
    if prints {
        println!("seed {seed}: wifi is cut from {cut} to {back}, server {victim} is down from {crash} to {restart}");
    }
    simulation.run()
}

/// All addresses of the node.
fn any(port: u16) -> std::net::SocketAddr {
    (std::net::Ipv4Addr::UNSPECIFIED, port).into()
}
