//! Examples from the paper, computed by hand, and random networks.

use whimbrel_control::{Rng, Span, Time};

use super::Dsdv;
use crate::config::DsdvConfig;
use crate::routing::harness::{Movement, Net, PacketState, each_seed, torture};
use crate::routing::{Address, Agent, Cause, DsdvEntry, Message, MessageKind};

fn agent(config: &DsdvConfig, address: Address) -> Agent {
    Agent::Dsdv(Box::new(Dsdv::new(config, address)))
}

fn net(config: &DsdvConfig, nodes: usize, links: &[(usize, usize)]) -> Net {
    let agents = (0..nodes as Address).map(|address| agent(config, address)).collect();
    Net::new(agents, links, 1)
}

fn dsdv(net: &Net, node: usize) -> &Dsdv {
    match &net.agents[node] {
        Agent::Dsdv(dsdv) => dsdv,
        _ => unreachable!("all nodes use DSDV"),
    }
}

fn entry(destination: Address, metric: u8, seq: u32) -> DsdvEntry {
    DsdvEntry {
        destination,
        metric,
        seq,
    }
}

fn advertise(net: &mut Net, from: Address, to: Address, entries: &[DsdvEntry]) {
    let entries = entries.to_vec();
    net.call(to, |agent, cx| {
        agent.receive_control(cx, from, &Message::Update { full: false, entries })
    });
}

/// Returns the dumps that a node has sent since a time.
fn advertised(net: &Net, from: Address, since: Time) -> Vec<(Time, bool, Vec<DsdvEntry>)> {
    let seen = net.air.iter().filter(|seen| seen.from == from && seen.at >= since);
    seen.filter_map(|seen| match &seen.message {
        Message::Update { full, entries } => Some((seen.at, *full, entries.clone())),
        _ => None,
    })
    .collect()
}

#[test]
fn prefers_newer_numbers_then_shorter_routes() {
    let mut net = net(&DsdvConfig::default(), 10, &[]);
    advertise(&mut net, 1, 0, &[entry(9, 3, 100)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((100, 4)));
    advertise(&mut net, 2, 0, &[entry(9, 3, 100)]);
    assert_eq!(net.agents[0].next_hop(net.now, 9), Some(1), "as long");
    advertise(&mut net, 2, 0, &[entry(9, 2, 100)]);
    assert_eq!(net.agents[0].next_hop(net.now, 9), Some(2), "shorter");
    advertise(&mut net, 3, 0, &[entry(9, 0, 98)]);
    assert_eq!(net.agents[0].next_hop(net.now, 9), Some(2), "older");
    advertise(&mut net, 3, 0, &[entry(9, 7, 102)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((102, 8)), "newer");
    advertise(&mut net, 4, 0, &[entry(9, DsdvEntry::INFINITY, 103)]);
    assert_eq!(dsdv(&net, 0).route(9), None, "broken");
    advertise(&mut net, 3, 0, &[entry(9, 7, 102)]);
    assert_eq!(dsdv(&net, 0).route(9), None, "older than the broken link");
    advertise(&mut net, 3, 0, &[entry(9, 7, 104)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((104, 8)), "the destination is back");
}

#[test]
fn a_broken_link_is_advertised_with_the_next_odd_number() {
    // 0 - 1 - 2
    let mut net = net(&DsdvConfig::default(), 3, &[(0, 1), (1, 2)]);
    net.run_for(Span::from_secs(100));
    let (seq, hops) = dsdv(&net, 1).route(2).expect("it is a neighbour");
    assert!(seq.is_multiple_of(2) && hops == 1);
    net.set_link(1, 2, false);
    let broken_at = net.now;
    let packet = net.send(0, 2);
    net.run_for(Span::from_millis(1200));
    let news = advertised(&net, 1, broken_at);
    assert!(!news[0].1, "an incremental dump");
    // Its own entry, and the broken route.
    assert!(
        news[0].2.contains(&entry(2, DsdvEntry::INFINITY, seq + 1)) && news[0].2.len() == 2,
        "{news:?}"
    );
    assert_eq!(dsdv(&net, 0).route(2), None);
    assert_eq!(
        net.places[packet as usize],
        PacketState::Agent(1),
        "it waits for a route"
    );
    net.run_for(Span::from_secs(40));
    assert_eq!(
        net.places[packet as usize],
        PacketState::Dropped(Cause::BufferTimeout, 1)
    );
    net.check_conservation();
}

#[test]
fn a_silent_neighbour_is_lost_after_three_periods() {
    let config = DsdvConfig {
        link_layer_feedback: false,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 2, &[(0, 1)]);
    net.run_for(Span::from_secs(20));
    let last = advertised(&net, 1, Time::ZERO).last().expect("it said something").0;
    net.set_link(0, 1, false);
    let gone = last + Span::from_secs(45);
    net.run_for(gone.since(net.now) - Span::from_millis(2));
    assert!(dsdv(&net, 0).route(1).is_some());
    let packet = net.send(0, 1);
    net.run_for(Span::from_millis(1500));
    assert!(dsdv(&net, 0).route(1).is_none());
    assert_eq!(
        net.places[packet as usize],
        PacketState::Dropped(Cause::LinkBroken, 0),
        "without feedback no node keeps it"
    );
}

#[test]
fn advertises_a_new_route_after_its_settling_time_and_the_old_one_before() {
    // Two neighbours advertise each number of node 9: 1 at once with 5 hops, 2 after 2 s with 3 hops.
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 3, &[]);
    advertise(&mut net, 1, 0, &[entry(9, 4, 100)]);
    net.run_for(Span::from_secs(2));
    advertise(&mut net, 2, 0, &[entry(9, 2, 100)]);
    net.run_for(Span::from_secs(100));
    // The average was 6 s, and this number took 2 s: 0.875 * 6 + 0.125 * 2 = 5.5 s. The route waits twice that time.
    let start = net.now;
    advertise(&mut net, 1, 0, &[entry(9, 4, 102)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((102, 5)), "it is used at once");
    net.run_for(Span::from_secs(2));
    // Another link breaks, which triggers an incremental dump; 9 is not in it.
    advertise(&mut net, 2, 0, &[entry(8, 1, 50)]);
    net.run_for(Span::from_millis(1100));
    assert!(
        advertised(&net, 0, start)
            .iter()
            .all(|(_, _, entries)| entries.iter().all(|entry| entry.destination != 9))
    );
    net.run_for(Span::from_secs(6));
    assert!(
        advertised(&net, 0, start)
            .iter()
            .all(|(_, _, entries)| entries.iter().all(|entry| entry.destination != 9))
    );
    net.run_for(Span::from_secs(3));
    let news: Vec<_> = advertised(&net, 0, start)
        .iter()
        .flat_map(|(at, _, entries)| entries.iter().map(|entry| (*at, *entry)).collect::<Vec<_>>())
        .collect();
    let (at, _) = *news
        .iter()
        .find(|(_, e)| *e == entry(9, 5, 102))
        .expect("it is advertised in the end");
    let waited = at.since(start);
    assert!(
        waited >= Span::from_secs(11) && waited < Span::from_millis(11_100),
        "{waited}"
    );
}

#[test]
fn a_route_that_settles_to_its_advertised_metric_is_not_advertised_again() {
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 3, &[]);
    advertise(&mut net, 2, 0, &[entry(9, 2, 100)]);
    net.run_for(Span::from_secs(100));
    let start = net.now;
    advertise(&mut net, 1, 0, &[entry(9, 4, 102)]);
    net.run_for(Span::from_secs(2));
    advertise(&mut net, 2, 0, &[entry(9, 2, 102)]);
    net.run_for(Span::from_secs(100));
    assert!(
        advertised(&net, 0, start).is_empty(),
        "damped: {:?}",
        advertised(&net, 0, start)
    );
}

#[test]
fn many_changes_cause_a_full_dump_and_few_an_incremental_one() {
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        packet_routes: 10,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 2, &[]);
    net.run_for(Span::from_secs(2));
    let start = net.now;
    let entries: Vec<_> = (10..30).map(|destination| entry(destination, 1, 10)).collect();
    advertise(&mut net, 1, 0, &entries);
    net.run_for(Span::from_secs(1));
    let dumps = advertised(&net, 0, start);
    // 21 routes, 10 in a packet.
    assert_eq!(
        dumps
            .iter()
            .map(|(_, full, entries)| (*full, entries.len()))
            .collect::<Vec<_>>(),
        [(true, 10), (true, 10), (true, 1)]
    );
    assert_eq!(dumps[0].2[0], entry(0, 0, 4), "its own number increased by two again");
    assert_eq!(net.air.last().expect("it spoke").message.bytes(), 28 + 12);
    let later = net.now;
    advertise(
        &mut net,
        1,
        0,
        &[entry(10, DsdvEntry::INFINITY, 11), entry(11, DsdvEntry::INFINITY, 11)],
    );
    net.run_for(Span::from_secs(1));
    assert_eq!(
        advertised(&net, 0, later)
            .iter()
            .map(|(_, full, entries)| (*full, entries.len()))
            .collect::<Vec<_>>(),
        [(false, 3)]
    );
    let counters = net.agents[0].counters();
    assert_eq!(counters.messages[MessageKind::FullDump as usize], 4);
    assert_eq!(counters.messages[MessageKind::IncrementalDump as usize], 1);
}

/// Advertises routes to 5, 6, 7 and 8 to node 0 of a network without links, which sends full dumps only when required.
fn with_four_routes(config: DsdvConfig) -> Net {
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        ..config
    };
    let mut net = net(&config, 3, &[]);
    let routes: Vec<_> = (5..9).map(|destination| entry(destination, 1, 100)).collect();
    advertise(&mut net, 1, 0, &routes);
    net.run_for(Span::from_secs(100));
    net
}

/// Returns what node 0 advertises about other nodes, one dump after the other.
fn advertised_of_others(net: &Net, since: Time) -> Vec<Vec<DsdvEntry>> {
    let of_others = |(_, _, entries): (Time, bool, Vec<DsdvEntry>)| entries.into_iter().skip(1).collect();
    advertised(net, 0, since).into_iter().map(of_others).collect()
}

#[test]
fn an_incremental_dump_has_the_changes_since_the_last_full_one() {
    // Section "Route advertisements" of the paper: an incremental dump has what changed since the last full dump.
    let mut net = with_four_routes(DsdvConfig::default());
    let start = net.now;
    let broken = |destination| entry(destination, DsdvEntry::INFINITY, 101);
    for destination in [5, 6] {
        advertise(&mut net, 1, 0, &[broken(destination)]);
        net.run_for(Span::from_secs(5));
    }
    assert_eq!(
        advertised_of_others(&net, start),
        [vec![broken(5)], vec![broken(5), broken(6)]]
    );
    // It advertises itself in a full dump.
    advertise(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 1001)]);
    net.run_for(Span::from_secs(5));
    let start = net.now;
    advertise(&mut net, 1, 0, &[broken(7)]);
    net.run_for(Span::from_secs(5));
    assert_eq!(advertised_of_others(&net, start), [vec![broken(7)]]);
}

#[test]
fn trigger_on_new_number_decides_whether_a_change_waits() {
    let mut net = with_four_routes(DsdvConfig {
        trigger_on_new_number: false,
        ..DsdvConfig::default()
    });
    let start = net.now;
    let broken = entry(5, DsdvEntry::INFINITY, 101);
    advertise(&mut net, 1, 0, &[broken]);
    net.run_for(Span::from_secs(20));
    assert!(advertised(&net, 0, start).is_empty());
    // An outdated broken link is corrected at once, and the other change is included.
    advertise(&mut net, 2, 0, &[entry(6, DsdvEntry::INFINITY, 99)]);
    net.run_for(Span::from_secs(5));
    assert_eq!(advertised_of_others(&net, start), [vec![broken, entry(6, 2, 100)]]);
}

#[test]
fn new_numbers_alone_are_advertised_if_configured() {
    for advertise_new_numbers in [false, true] {
        let mut net = with_four_routes(DsdvConfig {
            advertise_new_numbers,
            ..DsdvConfig::default()
        });
        advertise(&mut net, 1, 0, &[entry(5, 1, 102)]);
        net.run_for(Span::from_secs(20));
        let start = net.now;
        for destination in [6, 7] {
            advertise(&mut net, 1, 0, &[entry(destination, DsdvEntry::INFINITY, 101)]);
            net.run_for(Span::from_secs(5));
        }
        let times = |entries: &[Vec<DsdvEntry>]| {
            entries
                .iter()
                .flatten()
                .filter(|advertised| advertised.destination == 5)
                .count()
        };
        let dumps = advertised_of_others(&net, start);
        assert_eq!(
            times(&dumps),
            usize::from(advertise_new_numbers),
            "once, or never: {dumps:?}"
        );
    }
}

#[test]
fn full_dumps_have_the_previous_route_or_none_while_one_settles() {
    for advertise_previous in [true, false] {
        let mut net = with_four_routes(DsdvConfig {
            advertise_previous,
            ..DsdvConfig::default()
        });
        // A full dump in progress includes everything.
        advertise(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 1001)]);
        net.run_for(Span::from_secs(5));
        advertise(&mut net, 1, 0, &[entry(5, 3, 102)]);
        let start = net.now;
        advertise(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 2001)]);
        net.run_for(Span::from_secs(1));
        let dumps = advertised_of_others(&net, start);
        let of_five = dumps[0].iter().find(|advertised| advertised.destination == 5);
        assert_eq!(of_five.copied(), advertise_previous.then(|| entry(5, 2, 100)));
        assert_eq!(dumps[0].len(), 3 + usize::from(advertise_previous));
    }
}

#[test]
fn a_node_advertised_as_unreachable_advertises_itself() {
    let config = DsdvConfig {
        startup_jitter: Span::ZERO,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 2, &[]);
    net.run_for(Span::from_secs(1));
    let start = net.now;
    advertise(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 7)]);
    net.run_for(Span::from_millis(100));
    assert_eq!(advertised(&net, 0, start)[0].2[0], entry(0, 0, 10));
}

#[test]
fn an_outdated_broken_link_is_corrected() {
    let config = DsdvConfig {
        startup_jitter: Span::ZERO,
        period: Span::from_secs(1000),
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 3, &[]);
    advertise(&mut net, 1, 0, &[entry(9, 1, 100)]);
    net.run_for(Span::from_secs(100));
    let start = net.now;
    advertise(&mut net, 2, 0, &[entry(9, DsdvEntry::INFINITY, 99)]);
    net.run_for(Span::from_millis(100));
    assert!(advertised(&net, 0, start)[0].2.contains(&entry(9, 2, 100)));
}

/// Returns whether every table has routes to exactly the reachable nodes.
fn complete(net: &Net) -> bool {
    let distances = net.distances();
    (0..net.agents.len()).all(|from| {
        (0..net.agents.len() as Address)
            .filter(|to| usize::from(*to) != from)
            .all(|to| {
                let real = distances[from][usize::from(to)];
                match (net.agents[from].next_hop(net.now, to), real) {
                    (None, None) => true,
                    (Some(_), Some(_)) => {
                        let mut at = from;
                        let mut hops = 0;
                        while at != usize::from(to) && hops <= net.agents.len() {
                            let Some(next) = net.agents[at].next_hop(net.now, to) else {
                                return false;
                            };
                            if !net.hears[at][usize::from(next)] {
                                return false;
                            }
                            at = usize::from(next);
                            hops += 1;
                        }
                        at == usize::from(to)
                    }
                    _ => false,
                }
            })
    })
}

/// Returns the fewest hops that each table has had within some periods: a newer number may first arrive over a longer route.
fn best(net: &mut Net) -> Vec<Vec<Option<u32>>> {
    let nodes = net.agents.len();
    let mut least = vec![vec![None; nodes]; nodes];
    for _ in 0..150 {
        net.run_for(Span::from_millis(500));
        for (from, row) in least.iter_mut().enumerate() {
            for (to, least) in row.iter_mut().enumerate() {
                let hops = if from == to {
                    Some(0)
                } else {
                    dsdv(net, from).route(to as Address).map(|(_, hops)| u32::from(hops))
                };
                *least = [*least, hops].into_iter().flatten().min();
            }
        }
    }
    least
}

#[test]
fn tables_converge_to_shortest_routes_after_any_change() {
    each_seed(12, |seed| {
        let mut rng = Rng::stream(seed, "graph");
        let nodes = 4 + rng.below(12) as usize;
        // With damping, a node that receives the best route of a number late advertises it late, and others use the newer number of
        // a longer route. Then there is always a route, but not always the shortest one.
        let damped = seed % 2 == 1;
        let config = DsdvConfig {
            settling_factor: if damped { 2 } else { 0 },
            ..DsdvConfig::default()
        };
        let agents = (0..nodes as Address).map(|address| agent(&config, address)).collect();
        let mut net = Net::new(agents, &[], seed);
        for change in 0..4 {
            let movement = Movement::new(nodes, 0.35 + 0.2 * rng.unit(), 0.0, Time::ZERO, &mut rng);
            net.hears = movement.hears();
            // Silent neighbours are detected first, and then new numbers spread.
            net.run_for(Span::from_secs(400));
            assert!(complete(&net), "seed {seed}, change {change}");
            let (distances, best) = (net.distances(), best(&mut net));
            if !damped {
                assert_eq!(best, distances, "seed {seed}, change {change}");
            }
            let sum = |hops: &[Vec<Option<u32>>]| hops.iter().flatten().flatten().sum::<u32>();
            let (least, found) = (sum(&distances), sum(&best));
            assert!(
                found >= least && found * 20 <= least * 21,
                "seed {seed}, change {change}: {found} for {least}"
            );
        }
    });
}

#[test]
fn random_networks_have_no_loops_and_account_for_every_packet() {
    each_seed(40, |seed| {
        torture(seed, |address, _| {
            let config = DsdvConfig {
                link_layer_feedback: seed % 2 == 0,
                advertise_new_at_once: seed % 3 != 0,
                advertise_previous: seed % 4 < 2,
                trigger_on_new_number: seed % 5 != 1,
                advertise_new_numbers: seed % 3 == 1,
                period: Span::from_secs([15, 3][(seed % 5 == 0) as usize]),
                buffer_packets: [5, 0][(seed % 7 == 0) as usize],
                ..DsdvConfig::default()
            };
            agent(&config, address)
        });
    });
}
