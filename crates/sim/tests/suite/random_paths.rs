//! Every scheme over random networks of one hop and two to four paths, with queues, buffers, losses and flaps of all sizes: the whole file
//! arrives, and no stall is longer than three RTOs of the worst path. The scheme `multipath` does not take longer than over the best path
//! alone, with known exceptions; docs/multipath.md says why other schemes do.
//!
//! `WHIMBREL_PATHS_SEEDS=N` tries N networks (with each scheme), `WHIMBREL_PATHS_SEED=N` that one alone; `WHIMBREL_PATHS_SCHEME=NAME` one scheme only.

use crate::common::{file, flow, pair, run};
use whimbrel_control::{Rate, Rng, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::FlowOutcome;
use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, LossConfig, QueueConfig, ScheduleStep, SimConfig};

/// Networks for each scheme.
const ROUNDS: u64 = 4;
/// Simulated seconds after which a file must have arrived.
const PATIENCE: u64 = 3000;
const PACKET_BITS: u64 = 8 * 1500;
/// Networks in which the best path alone is compared.
const COMPARED: u64 = 40;
/// Those in which `multipath` is known to take longer, by up to a fifth (docs/multipath.md).
const SLOWER: [u64; 2] = [20, 34];
/// Runs of which the mean decides if the first one does not: random losses and flaps differ from run to run.
const RUNS: u64 = 8;

/// Log-uniform.
fn drawn(rng: &mut Rng, low: f64, high: f64) -> f64 {
    (low.ln() + (high / low).ln() * rng.unit()).exp()
}

/// A network, and how long deliveries may stop.
struct Network {
    config: SimConfig,
    patience: Span,
}

fn network(seed: u64, scheme: Scheme) -> Network {
    let rng = &mut Rng::stream(seed, "random-paths");
    let count = 2 + rng.below(3);
    let buffer = drawn(rng, 65_536.0, 8_388_608.0) as u32;
    let (mut worst, mut outage, mut best) = (Span::from_secs(1), Span::ZERO, 0);
    let mut config = pair(Rate::from_mbps(1), Span::ZERO, PATIENCE);
    config.link.clear();
    for n in 0..count {
        let bps = drawn(rng, 1e6, 1e8) as u64;
        let rtt = Span::from_micros(drawn(rng, 4e3, 3e5) as u64);
        let packets = drawn(rng, 5.0, 500.0) as u32;
        let mut link = LinkConfig::new("a", "b", Rate::from_bps(bps), rtt / 2);
        link.name = Some(format!("l{n}"));
        link.queue = QueueConfig::DropTail {
            packets: Some(packets),
            bytes: None,
        };
        if rng.chance(0.4) {
            let rate = drawn(rng, 1e-4, 0.03);
            link.loss = LossConfig::Bernoulli { rate }.into();
        }
        if rng.chance(0.25) {
            // It fails twice, at most for 4 s each time.
            let mut at = Span::from_millis(500 + rng.below(4000));
            for _ in 0..2 {
                let down = Span::from_millis(200 + rng.below(3800));
                link.schedule.push(ScheduleStep::up(at, false));
                link.schedule.push(ScheduleStep::up(at + down, true));
                outage = outage.max(down);
                at += down + Span::from_secs(6);
            }
        }
        // RTO = SRTT + 4 RTTVAR, where the round-trip time lies between that of an empty queue and that of a full one.
        let queue = Span::from_micros(PACKET_BITS * 1_000_000 * u64::from(packets) / bps);
        worst = worst.max(rtt + queue * 2);
        best = best.max(bps);
        config.link.push(link);
    }
    let traffic = file(best / 8 * 4);
    config.flow = vec![FlowConfig {
        sctp: Some(AssociationConfig {
            scheme,
            recv_buffer: buffer,
            send_buffer: buffer,
            ..AssociationConfig::default()
        }),
        ..flow("file", FlowKind::Sctp, traffic)
    }];
    // The timer that goes off first after a failure was set before, to no more than the failure had lasted.
    let patience = worst * 3 + outage * 2;
    Network { config, patience }
}

/// Returns the networks to try.
fn seeds(usual: u64) -> core::ops::Range<u64> {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    match number("WHIMBREL_PATHS_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WHIMBREL_PATHS_SEEDS").unwrap_or(usual),
    }
}

/// Returns the networks to try with a scheme. They do not depend on the other schemes: a new one does not change what the others are tried with.
fn networks_of(scheme: Scheme) -> core::ops::Range<u64> {
    let seeds = seeds(ROUNDS);
    if std::env::var("WHIMBREL_PATHS_SEED").is_ok() {
        return seeds;
    }
    let first = Rng::stream(0, scheme.name()).below(1 << 32);
    first + seeds.start..first + seeds.end
}

fn problem(seed: u64, scheme: Scheme) -> Option<String> {
    let Network { config, patience } = network(seed, scheme);
    let flow = run(&config, seed).flows.remove(0);
    let silence = flow.longest_silence.unwrap_or(Span::MAX);
    let intact = flow.file.as_ref().is_some_and(|check| check.intact);
    if flow.outcome != FlowOutcome::Completed || !intact {
        let delivered = flow.messages_delivered;
        Some(format!(
            "{seed} {scheme}: {:?}, {delivered} of {}",
            flow.outcome, flow.messages_sent
        ))
    } else if silence > patience {
        Some(format!(
            "{seed} {scheme}: nothing for {silence}, {patience} are allowed"
        ))
    } else {
        None
    }
}

/// Returns the seconds that a file takes over these links of the network.
fn seconds(config: &SimConfig, links: &[LinkConfig], seed: u64) -> f64 {
    let config = SimConfig {
        link: links.to_vec(),
        ..config.clone()
    };
    let flow = run(&config, seed).flows.remove(0);
    flow.completion.map_or(f64::INFINITY, Span::as_secs_f64)
}

/// Says where all paths together have less than this share of the goodput of the best one. The handshake is over the first path,
/// which may be a slow one: two round-trip times there do not count.
fn worse_than_the_best_path(seed: u64, scheme: Scheme, share: f64) -> Option<String> {
    let Network { config, .. } = network(seed, scheme);
    let paths = || config.link.iter().map(core::slice::from_ref);
    let handshake = |link: &LinkConfig| 4.0 * link.delay.as_secs_f64();
    let (mut all, mut alone) = (0.0, vec![0.0; config.link.len()]);
    for run in 0..RUNS {
        all += seconds(&config, &config.link, seed + (run << 32)) - handshake(&config.link[0]);
        for (sum, path) in alone.iter_mut().zip(paths()) {
            *sum += seconds(&config, path, seed + (run << 32)) - handshake(&path[0]);
        }
        let best = alone.iter().copied().fold(f64::INFINITY, f64::min);
        if best >= share * all {
            return None;
        }
    }
    let mean = |sum: f64| sum / RUNS as f64;
    let alone: Vec<f64> = alone.into_iter().map(mean).collect();
    Some(format!("{seed} {scheme}: {:.2} s, alone {alone:.2?}", mean(all)))
}

#[test]
fn multipath_takes_no_longer_than_over_the_best_path() {
    let name = std::env::var("WHIMBREL_PATHS_SCHEME");
    let scheme = Scheme::by_name(name.as_deref().unwrap_or("multipath")).expect("it is registered");
    let seeds = seeds(COMPARED);
    let wrong: Vec<String> = seeds
        .clone()
        .filter_map(|seed| {
            let share = if SLOWER.contains(&seed) { 0.8 } else { 0.95 };
            worse_than_the_best_path(seed, scheme, share)
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {seeds:?}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_scheme_delivers_without_a_stall_over_random_paths() {
    let only = std::env::var("WHIMBREL_PATHS_SCHEME").ok();
    let asked = |scheme: &Scheme| only.as_deref().is_none_or(|name| name == scheme.name());
    let networks: Vec<(Scheme, u64)> = Scheme::all()
        .filter(asked)
        .flat_map(|scheme| networks_of(scheme).map(move |seed| (scheme, seed)))
        .collect();
    let wrong: Vec<String> = networks
        .iter()
        .filter_map(|(scheme, seed)| problem(*seed, *scheme))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        networks.len(),
        wrong.join("\n")
    );
}
