//! What the paper says, by hand, and random networks.

use whimbrel_control::{Rng, Span, Time};

use super::Dsdv;
use crate::config::DsdvConfig;
use crate::routing::harness::{Movement, Net, Place, each_seed, torture};
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

fn tell(net: &mut Net, from: Address, to: Address, entries: &[DsdvEntry]) {
    let entries = entries.to_vec();
    net.call(to, |agent, cx| {
        agent.receive_control(cx, from, &Message::Update { full: false, entries })
    });
}

/// What a node has told since some time.
fn told(net: &Net, from: Address, since: Time) -> Vec<(Time, bool, Vec<DsdvEntry>)> {
    let seen = net.air.iter().filter(|seen| seen.from == from && seen.at >= since);
    seen.filter_map(|seen| match &seen.message {
        Message::Update { full, entries } => Some((seen.at, *full, entries.clone())),
        _ => None,
    })
    .collect()
}

#[test]
fn newer_numbers_win_and_with_equal_ones_shorter_routes() {
    let mut net = net(&DsdvConfig::default(), 10, &[]);
    tell(&mut net, 1, 0, &[entry(9, 3, 100)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((100, 4)));
    tell(&mut net, 2, 0, &[entry(9, 3, 100)]);
    assert_eq!(net.agents[0].next_hop(net.now, 9), Some(1), "as long");
    tell(&mut net, 2, 0, &[entry(9, 2, 100)]);
    assert_eq!(net.agents[0].next_hop(net.now, 9), Some(2), "shorter");
    tell(&mut net, 3, 0, &[entry(9, 0, 98)]);
    assert_eq!(net.agents[0].next_hop(net.now, 9), Some(2), "older");
    tell(&mut net, 3, 0, &[entry(9, 7, 102)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((102, 8)), "newer");
    tell(&mut net, 4, 0, &[entry(9, DsdvEntry::INFINITY, 103)]);
    assert_eq!(dsdv(&net, 0).route(9), None, "broken");
    tell(&mut net, 3, 0, &[entry(9, 7, 102)]);
    assert_eq!(dsdv(&net, 0).route(9), None, "older than the break");
    tell(&mut net, 3, 0, &[entry(9, 7, 104)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((104, 8)), "the destination is back");
}

#[test]
fn a_broken_link_is_told_under_the_next_odd_number() {
    // 0 - 1 - 2
    let mut net = net(&DsdvConfig::default(), 3, &[(0, 1), (1, 2)]);
    net.run_for(Span::from_secs(100));
    let (seq, hops) = dsdv(&net, 1).route(2).expect("it is a neighbour");
    assert!(seq.is_multiple_of(2) && hops == 1);
    net.set_link(1, 2, false);
    let broken_at = net.now;
    let packet = net.send(0, 2);
    net.run_for(Span::from_millis(1200));
    let news = told(&net, 1, broken_at);
    assert!(!news[0].1, "an incremental dump");
    // Its own entry, and the break.
    assert!(
        news[0].2.contains(&entry(2, DsdvEntry::INFINITY, seq + 1)) && news[0].2.len() == 2,
        "{news:?}"
    );
    assert_eq!(dsdv(&net, 0).route(2), None);
    assert_eq!(net.places[packet as usize], Place::Agent(1), "it waits for a way");
    net.run_for(Span::from_secs(40));
    assert_eq!(net.places[packet as usize], Place::Dropped(Cause::BufferTimeout, 1));
    net.check_conservation();
}

#[test]
fn a_silent_neighbour_is_gone_after_three_periods() {
    let config = DsdvConfig {
        link_layer_feedback: false,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 2, &[(0, 1)]);
    net.run_for(Span::from_secs(20));
    let last = told(&net, 1, Time::ZERO).last().expect("it said something").0;
    net.set_link(0, 1, false);
    let gone = last + Span::from_secs(45);
    net.run_for(gone.since(net.now) - Span::from_millis(2));
    assert!(dsdv(&net, 0).route(1).is_some());
    let packet = net.send(0, 1);
    net.run_for(Span::from_millis(1500));
    assert!(dsdv(&net, 0).route(1).is_none());
    assert_eq!(
        net.places[packet as usize],
        Place::Dropped(Cause::LinkBroken, 0),
        "without feedback nobody keeps it"
    );
}

#[test]
fn a_route_is_told_when_it_has_settled_and_before_that_the_old_one() {
    // Two neighbours tell each number of node 9: 1 at once with 5 hops, 2 after 2 s with 3 hops.
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 3, &[]);
    tell(&mut net, 1, 0, &[entry(9, 4, 100)]);
    net.run_for(Span::from_secs(2));
    tell(&mut net, 2, 0, &[entry(9, 2, 100)]);
    net.run_for(Span::from_secs(100));
    // The average was 6 s, and this number took 2 s: 0.875 * 6 + 0.125 * 2 = 5.5 s. Twice that it waits.
    let start = net.now;
    tell(&mut net, 1, 0, &[entry(9, 4, 102)]);
    assert_eq!(dsdv(&net, 0).route(9), Some((102, 5)), "it is used at once");
    net.run_for(Span::from_secs(2));
    // Somebody else breaks, which brings about an incremental dump; 9 is not in it.
    tell(&mut net, 2, 0, &[entry(8, 1, 50)]);
    net.run_for(Span::from_millis(1100));
    assert!(
        told(&net, 0, start)
            .iter()
            .all(|(_, _, entries)| entries.iter().all(|entry| entry.destination != 9))
    );
    net.run_for(Span::from_secs(6));
    assert!(
        told(&net, 0, start)
            .iter()
            .all(|(_, _, entries)| entries.iter().all(|entry| entry.destination != 9))
    );
    net.run_for(Span::from_secs(3));
    let news: Vec<_> = told(&net, 0, start)
        .iter()
        .flat_map(|(at, _, entries)| entries.iter().map(|entry| (*at, *entry)).collect::<Vec<_>>())
        .collect();
    let (at, _) = *news
        .iter()
        .find(|(_, e)| *e == entry(9, 5, 102))
        .expect("it is told in the end");
    let waited = at.since(start);
    assert!(
        waited >= Span::from_secs(11) && waited < Span::from_millis(11_100),
        "{waited}"
    );
}

#[test]
fn a_better_route_of_the_same_number_that_goes_back_to_what_was_told_is_not_told_again() {
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 3, &[]);
    tell(&mut net, 2, 0, &[entry(9, 2, 100)]);
    net.run_for(Span::from_secs(100));
    let start = net.now;
    tell(&mut net, 1, 0, &[entry(9, 4, 102)]);
    net.run_for(Span::from_secs(2));
    tell(&mut net, 2, 0, &[entry(9, 2, 102)]);
    net.run_for(Span::from_secs(100));
    assert!(told(&net, 0, start).is_empty(), "damped: {:?}", told(&net, 0, start));
}

#[test]
fn many_changes_make_a_full_dump_and_few_an_incremental_one() {
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
    tell(&mut net, 1, 0, &entries);
    net.run_for(Span::from_secs(1));
    let dumps = told(&net, 0, start);
    // 21 routes, 10 in a packet.
    assert_eq!(
        dumps
            .iter()
            .map(|(_, full, entries)| (*full, entries.len()))
            .collect::<Vec<_>>(),
        [(true, 10), (true, 10), (true, 1)]
    );
    assert_eq!(dumps[0].2[0], entry(0, 0, 4), "its own number went up by two again");
    assert_eq!(net.air.last().expect("it spoke").message.bytes(), 28 + 12);
    let later = net.now;
    tell(
        &mut net,
        1,
        0,
        &[entry(10, DsdvEntry::INFINITY, 11), entry(11, DsdvEntry::INFINITY, 11)],
    );
    net.run_for(Span::from_secs(1));
    assert_eq!(
        told(&net, 0, later)
            .iter()
            .map(|(_, full, entries)| (*full, entries.len()))
            .collect::<Vec<_>>(),
        [(false, 3)]
    );
    let counters = net.agents[0].counters();
    assert_eq!(counters.messages[MessageKind::FullDump as usize], 4);
    assert_eq!(counters.messages[MessageKind::IncrementalDump as usize], 1);
}

/// Tells node 0 of a network without links, which dumps its table only when it must, routes to 5, 6, 7 and 8.
fn with_four_routes(config: DsdvConfig) -> Net {
    let config = DsdvConfig {
        period: Span::from_secs(1000),
        startup_jitter: Span::ZERO,
        ..config
    };
    let mut net = net(&config, 3, &[]);
    let routes: Vec<_> = (5..9).map(|destination| entry(destination, 1, 100)).collect();
    tell(&mut net, 1, 0, &routes);
    net.run_for(Span::from_secs(100));
    net
}

/// What node 0 tells of others, a dump after the other.
fn told_of_others(net: &Net, since: Time) -> Vec<Vec<DsdvEntry>> {
    let of_others = |(_, _, entries): (Time, bool, Vec<DsdvEntry>)| entries.into_iter().skip(1).collect();
    told(net, 0, since).into_iter().map(of_others).collect()
}

#[test]
fn an_incremental_dump_tells_what_changed_since_the_last_full_one() {
    // Section "Route advertisements" of the paper: an incremental dump has what changed since the last full dump.
    let mut net = with_four_routes(DsdvConfig::default());
    let start = net.now;
    let broken = |destination| entry(destination, DsdvEntry::INFINITY, 101);
    for destination in [5, 6] {
        tell(&mut net, 1, 0, &[broken(destination)]);
        net.run_for(Span::from_secs(5));
    }
    assert_eq!(
        told_of_others(&net, start),
        [vec![broken(5)], vec![broken(5), broken(6)]]
    );
    // It says that it is there, in a full dump.
    tell(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 1001)]);
    net.run_for(Span::from_secs(5));
    let start = net.now;
    tell(&mut net, 1, 0, &[broken(7)]);
    net.run_for(Span::from_secs(5));
    assert_eq!(told_of_others(&net, start), [vec![broken(7)]]);
}

#[test]
fn a_change_under_a_newer_number_may_wait_for_the_next_dump() {
    let mut net = with_four_routes(DsdvConfig {
        trigger_on_new_number: false,
        ..DsdvConfig::default()
    });
    let start = net.now;
    let broken = entry(5, DsdvEntry::INFINITY, 101);
    tell(&mut net, 1, 0, &[broken]);
    net.run_for(Span::from_secs(20));
    assert!(told(&net, 0, start).is_empty());
    // Old news of a break are put right at once, and the other goes with them.
    tell(&mut net, 2, 0, &[entry(6, DsdvEntry::INFINITY, 99)]);
    net.run_for(Span::from_secs(5));
    assert_eq!(told_of_others(&net, start), [vec![broken, entry(6, 2, 100)]]);
}

#[test]
fn numbers_alone_are_told_if_that_is_wanted() {
    for tell_new_numbers in [false, true] {
        let mut net = with_four_routes(DsdvConfig {
            tell_new_numbers,
            ..DsdvConfig::default()
        });
        tell(&mut net, 1, 0, &[entry(5, 1, 102)]);
        net.run_for(Span::from_secs(20));
        let start = net.now;
        for destination in [6, 7] {
            tell(&mut net, 1, 0, &[entry(destination, DsdvEntry::INFINITY, 101)]);
            net.run_for(Span::from_secs(5));
        }
        let times = |entries: &[Vec<DsdvEntry>]| entries.iter().flatten().filter(|told| told.destination == 5).count();
        let dumps = told_of_others(&net, start);
        assert_eq!(
            times(&dumps),
            usize::from(tell_new_numbers),
            "once, or never: {dumps:?}"
        );
    }
}

#[test]
fn while_a_route_settles_full_dumps_tell_the_one_before_or_none() {
    for advertise_previous in [true, false] {
        let mut net = with_four_routes(DsdvConfig {
            advertise_previous,
            ..DsdvConfig::default()
        });
        // A full dump under way tells all.
        tell(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 1001)]);
        net.run_for(Span::from_secs(5));
        tell(&mut net, 1, 0, &[entry(5, 3, 102)]);
        let start = net.now;
        tell(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 2001)]);
        net.run_for(Span::from_secs(1));
        let dumps = told_of_others(&net, start);
        let of_five = dumps[0].iter().find(|told| told.destination == 5);
        assert_eq!(of_five.copied(), advertise_previous.then(|| entry(5, 2, 100)));
        assert_eq!(dumps[0].len(), 3 + usize::from(advertise_previous));
    }
}

#[test]
fn who_is_said_to_be_gone_says_that_it_is_there() {
    let config = DsdvConfig {
        startup_jitter: Span::ZERO,
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 2, &[]);
    net.run_for(Span::from_secs(1));
    let start = net.now;
    tell(&mut net, 1, 0, &[entry(0, DsdvEntry::INFINITY, 7)]);
    net.run_for(Span::from_millis(100));
    assert_eq!(told(&net, 0, start)[0].2[0], entry(0, 0, 10));
}

#[test]
fn old_news_of_a_break_are_put_right() {
    let config = DsdvConfig {
        startup_jitter: Span::ZERO,
        period: Span::from_secs(1000),
        ..DsdvConfig::default()
    };
    let mut net = net(&config, 3, &[]);
    tell(&mut net, 1, 0, &[entry(9, 1, 100)]);
    net.run_for(Span::from_secs(100));
    let start = net.now;
    tell(&mut net, 2, 0, &[entry(9, DsdvEntry::INFINITY, 99)]);
    net.run_for(Span::from_millis(100));
    assert!(told(&net, 0, start)[0].2.contains(&entry(9, 2, 100)));
}

/// Whether all tables lead to where there is a way, and to nowhere else.
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

/// The fewest hops that each table has had within some periods: a newer number over a longer way may come first.
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
fn tables_converge_to_shortest_ways_after_any_change() {
    each_seed(12, |seed| {
        let mut rng = Rng::stream(seed, "graph");
        let nodes = 4 + rng.below(12) as usize;
        // Damped, a node that hears the best route of a number late tells it late, and others go by the newer number of a longer way:
        // there is always a way then, but not always the shortest.
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
            // The silence of neighbours is found out, and then numbers go round.
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
fn random_networks_have_no_loops_and_lose_no_packet_out_of_sight() {
    each_seed(40, |seed| {
        torture(seed, |address, _| {
            let config = DsdvConfig {
                link_layer_feedback: seed % 2 == 0,
                advertise_new_at_once: seed % 3 != 0,
                advertise_previous: seed % 4 < 2,
                trigger_on_new_number: seed % 5 != 1,
                tell_new_numbers: seed % 3 == 1,
                period: Span::from_secs([15, 3][(seed % 5 == 0) as usize]),
                buffer_packets: [5, 0][(seed % 7 == 0) as usize],
                ..DsdvConfig::default()
            };
            agent(&config, address)
        });
    });
}
