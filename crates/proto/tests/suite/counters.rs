//! The counters of both ends of random runs, compared with the packets on the wire and with each other.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::support::paths::{confirmed, cut, mend, path};
use crate::support::{Fate, Host, Net, addrs, view};
use whimbrel_control::multipath::Accounting;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::{Rate, Rng, Scheme, Span};
use whimbrel_proto::{AssocId, AssociationConfig, AssociationStats, Endpoint, Message, State};
use whimbrel_wire::{Chunk, ChunkType};

const HOSTS: [Host; 2] = [Host::A, Host::B];

/// What the network saw of the packets of one host.
#[derive(Clone, Debug, Default)]
struct Seen {
    packets: u64,
    bytes: u64,
    arrived_packets: u64,
    arrived_bytes: u64,
    /// Transmissions of each TSN: length of the chunk and of its user data, and the paths.
    tsns: BTreeMap<u32, (u64, u64, Vec<usize>)>,
    chunks: u64,
    data: u64,
    arrived_chunks: u64,
    arrived_tsns: BTreeSet<u32>,
    sacks: u64,
    heartbeats: u64,
}

impl Seen {
    fn note(&mut self, bytes: &[u8], path: usize, copies: u64) {
        self.packets += 1;
        self.bytes += bytes.len() as u64;
        self.arrived_packets += copies;
        self.arrived_bytes += copies * bytes.len() as u64;
        for chunk in view(bytes).chunks().flatten() {
            if chunk.chunk_type() == ChunkType::HEARTBEAT {
                self.heartbeats += 1;
            }
            match chunk {
                Chunk::Data(data) => {
                    let len = data.payload.len() as u64;
                    let sent = self.tsns.entry(data.tsn.0).or_default();
                    (sent.0, sent.1) = ((16 + len).next_multiple_of(4), len);
                    sent.2.push(path);
                    self.chunks += 1;
                    self.data += len;
                    self.arrived_chunks += copies;
                    if copies > 0 {
                        self.arrived_tsns.insert(data.tsn.0);
                    }
                }
                Chunk::Sack(_) | Chunk::NrSack(_) => self.sacks += 1,
                _ => {}
            }
        }
    }

    fn user_data(&self) -> u64 {
        self.tsns.values().map(|(_, data, _)| data).sum()
    }
}

#[derive(Debug)]
struct Run {
    /// By host.
    seen: [Seen; 2],
    stats: [AssociationStats; 2],
    /// Paths, by the index of their destination, and the bytes delivered on each.
    delivered: [Vec<(usize, u64)>; 2],
    submitted: [(u64, u64); 2],
}

/// Sends messages in both directions over paths with losses, delays and duplicates, until everything has arrived and was acknowledged.
fn random_run(seed: u64) -> Run {
    const SCHEMES: [&str; 6] = ["standard", "multipath", "cmt", "cmt-pf", "pf", "whimbrel"];
    let mut rng = Rng::stream(seed, "counters");
    let mut pick = |from: u64, to: u64| from + rng.below(to - from + 1);
    let scheme = SCHEMES[pick(0, SCHEMES.len() as u64 - 1) as usize];
    let paths = pick(1, 3) as usize;
    let copies = pick(0, 4) == 0;
    let config = AssociationConfig {
        scheme: Scheme::by_name(scheme).expect("it is registered"),
        distribution: copies.then(|| DistributionSpec::by_name("redundant").expect("it is registered")),
        accounting: copies.then_some(Accounting::Path),
        ..AssociationConfig::default()
    };
    let seen: Rc<RefCell<[Seen; 2]>> = Rc::default();
    let mut net = Net::with_config(paths, &config, seed);
    let (loss, late) = (pick(0, 8), pick(0, 30));
    let mut fates = Rng::stream(seed, "fates");
    let log = seen.clone();
    net.filter = Box::new(move |packet| {
        let path = addrs(packet.from.other(), paths)
            .iter()
            .position(|addr| *addr == packet.remote);
        let fate = match fates.below(100) {
            n if n < loss => Fate::Drop,
            n if n < loss + 3 => Fate::Duplicate,
            n if n < loss + 3 + late => Fate::Delay(Span::from_micros(fates.below(60_000))),
            _ => Fate::Deliver,
        };
        let copies = match fate {
            Fate::Drop => 0,
            Fate::Duplicate => 2,
            _ => 1,
        };
        let mut seen = log.borrow_mut();
        seen[usize::from(packet.from == Host::B)].note(packet.bytes, path.expect("an address"), copies);
        fate
    });
    let a = net.connect(&config, paths);
    net.run_until(Span::from_secs(60), "it is established", |net| {
        let is_up = |endpoint: &Endpoint| {
            let mut all = endpoint.associations().filter_map(|id| endpoint.association(id));
            all.any(|association| association.state() == State::Established)
        };
        is_up(&net.a) && is_up(&net.b)
    });
    let ids = [a, net.only(Host::B)];
    let mut submitted = [(0, 0); 2];
    for _ in 0..pick(5, 60) {
        for (end, host) in HOSTS.into_iter().enumerate() {
            let len = [pick(1, 200), pick(1000, 1452), pick(1453, 6000)][pick(0, 2) as usize];
            let message = Message::zeros(pick(0, 3) as u16, len as u32);
            net.send(host, ids[end], message);
            submitted[end].0 += 1;
            submitted[end].1 += len;
        }
        net.run_for(Span::from_millis(pick(0, 40)));
    }
    // Longer than all timers of acknowledgements and retransmissions.
    net.run_for(Span::from_secs(300));
    let [(stats_a, paths_a), (stats_b, paths_b)] =
        [facts(&net, Host::A, ids[0], paths), facts(&net, Host::B, ids[1], paths)];
    let seen = seen.borrow().clone();
    Run {
        seen,
        stats: [stats_a, stats_b],
        delivered: [paths_a, paths_b],
        submitted,
    }
}

/// Returns the counters of an association, and its paths: the index of the destination, and the bytes delivered.
fn facts(net: &Net, host: Host, id: AssocId, paths: usize) -> (AssociationStats, Vec<(usize, u64)>) {
    let endpoint = if host == Host::A { &net.a } else { &net.b };
    let association = endpoint.association(id).unwrap_or_else(|| panic!("{host:?} has ended"));
    let destinations = addrs(host.other(), paths);
    let place = |remote| {
        destinations
            .iter()
            .position(|addr| *addr == remote)
            .expect("an address")
    };
    let delivered = association.paths().map(|path| (place(path.remote), path.delivered));
    (association.stats(), delivered.collect())
}

#[test]
fn counters_of_both_ends_agree_with_the_wire_and_with_each_other() {
    for seed in seeds(150) {
        let run = random_run(seed);
        for (end, other) in [(0, 1), (1, 0)] {
            let (own, peer) = (&run.stats[end], &run.stats[other]);
            let (seen, back) = (&run.seen[end], &run.seen[other]);
            let place = format!("seed {seed}, end {end}");
            // Sent. The INIT ACK of B and what precedes its association belong to none.
            let (packets, bytes) = (own.packets_sent, own.bytes_sent);
            assert!(
                packets <= seen.packets && packets + 20 >= seen.packets,
                "{place}: {packets}"
            );
            assert!(bytes <= seen.bytes, "{place}: {bytes}");
            assert_eq!(own.data_chunks_sent, seen.chunks, "{place}");
            assert_eq!(own.data_bytes_sent, seen.data, "{place}");
            assert_eq!(own.heartbeats_sent, seen.heartbeats, "{place}");
            assert_eq!(own.sacks_sent, seen.sacks, "{place}");
            assert_eq!(own.messages_sent, run.submitted[end].0, "{place}");
            let again = seen.chunks - seen.tsns.len() as u64;
            assert_eq!(own.retransmissions + own.copies, again, "{place}");
            // Received.
            let (packets, bytes) = (own.packets_received, own.bytes_received);
            assert!(
                packets <= back.arrived_packets && packets + 20 >= back.arrived_packets,
                "{place}: {packets}"
            );
            assert!(bytes <= back.arrived_bytes, "{place}: {bytes}");
            assert_eq!(own.data_chunks_received, back.arrived_tsns.len() as u64, "{place}");
            let duplicates = back.arrived_chunks - back.arrived_tsns.len() as u64;
            assert_eq!(own.duplicates_received, duplicates, "{place}");
            assert!(own.sacks_received <= 2 * peer.sacks_sent, "{place}");
            // Acknowledged.
            let total = run.submitted[end].1;
            assert_eq!(seen.user_data(), total, "{place}");
            assert_eq!(own.data_bytes_acked, total, "{place}");
            assert_eq!(peer.bytes_delivered, total, "{place}");
            assert_eq!(peer.messages_delivered, run.submitted[end].0, "{place}");
            assert!(own.data_bytes_freed_early <= own.data_bytes_acked, "{place}");
            // Per path: each chunk counts once, on a path on which it was sent; copies count on each.
            let chunks: u64 = seen.tsns.values().map(|(chunk, _, _)| chunk).sum();
            let delivered: u64 = run.delivered[end].iter().map(|(_, delivered)| delivered).sum();
            if own.copies > 0 {
                assert!(delivered >= chunks, "{place}: {delivered} of {chunks}");
            } else {
                assert_eq!(delivered, chunks, "{place}: {:?}", run.delivered[end]);
            }
            for (path, delivered) in &run.delivered[end] {
                let on_path = seen.tsns.values().filter(|(_, _, paths)| paths.contains(path));
                let most: u64 = on_path.map(|(chunk, _, _)| chunk).sum();
                assert!(
                    *delivered <= most,
                    "{place}: path {path} delivered {delivered} of {most}"
                );
            }
        }
    }
}

#[test]
fn acknowledged_data_is_the_sum_over_the_paths_at_any_time() {
    let config = AssociationConfig {
        scheme: Scheme::by_name("cmt").expect("it is registered"),
        ..AssociationConfig::default()
    };
    let (mut net, a, _) = confirmed(2, &config);
    let slow = addrs(Host::B, 2)[1];
    net.filter = Box::new(move |packet| {
        if packet.remote == slow {
            Fate::Delay(Span::from_millis(200))
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..200 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    let mut ahead = 0;
    loop {
        net.run_for(Span::from_millis(5));
        let association = net.a.association(a).expect("established");
        let stats = association.stats();
        let delivered: u64 = association.paths().map(|path| path.delivered).sum();
        // A chunk has a header of 16 bytes.
        assert_eq!(stats.data_bytes_acked / 1452 * 1468, delivered, "{:?}", net.now);
        let arrived = net.contents(Host::B).len() as u64 * 1452;
        ahead += u32::from(stats.data_bytes_acked > arrived);
        if stats.data_bytes_acked == 200 * 1452 {
            break;
        }
    }
    // Data after a gap is acknowledged before it can be delivered.
    assert!(ahead > 5, "{ahead}");
}

#[test]
fn the_delivery_rate_of_a_path_is_zero_while_it_is_cut() {
    let (mut net, a, _) = confirmed(1, &AssociationConfig::default());
    let rate = |net: &Net| path(net, a, 0).quality.delivery_rate.map(Rate::as_bps);
    let fill = |net: &mut Net| (0..200).for_each(|_| net.send(Host::A, a, Message::zeros(0, 1452)));
    fill(&mut net);
    net.run_for(Span::from_secs(2));
    assert!(rate(&net).is_some_and(|rate| rate > 100_000), "{:?}", rate(&net));
    fill(&mut net);
    cut(&mut net, &[0]);
    net.run_for(Span::from_secs(2));
    assert_eq!(rate(&net), Some(0));
    mend(&mut net);
    net.run_for(Span::from_secs(20));
    assert!(rate(&net).is_some_and(|rate| rate > 100_000), "{:?}", rate(&net));
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}
