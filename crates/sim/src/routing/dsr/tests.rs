//! Message sequences computed by hand from RFC 4728, and random networks.

use whimbrel_control::{Rng, Span, Time};

use super::Dsr;
use crate::config::DsrConfig;
use crate::routing::harness::{FRAME, GIVE_UP, Net, PacketState, each_seed, most_arrive, torture};
use crate::routing::{
    Action, Address, Agent, BrokenLink, Cause, Context, Datagram, DsrError, DsrReply, DsrRequest, Message, Protocol,
    SourceRoute,
};

fn config() -> DsrConfig {
    DsrConfig {
        broadcast_jitter: Span::ZERO,
        ..DsrConfig::default()
    }
}

fn agent(config: &DsrConfig, address: Address) -> Agent {
    Agent::Dsr(Box::new(Dsr::new(config, address)))
}

fn net(config: &DsrConfig, nodes: usize, links: &[(usize, usize)]) -> Net {
    let agents = (0..nodes as Address).map(|address| agent(config, address)).collect();
    Net::new(agents, links, 1)
}

fn line(config: &DsrConfig, nodes: usize) -> Net {
    let links: Vec<_> = (1..nodes).map(|node| (node - 1, node)).collect();
    net(config, nodes, &links)
}

fn route(nodes: &[Address]) -> SourceRoute {
    SourceRoute::new(nodes).expect("it is short")
}

/// Calls a node without neighbours. Returns its actions.
fn alone(now: Time, datagrams: &mut [Datagram], call: impl FnOnce(&mut Context<'_>)) -> Vec<Action> {
    let (mut rng, mut actions) = (Rng::stream(1, "node"), Vec::new());
    call(&mut Context {
        now,
        rng: &mut rng,
        datagrams,
        actions: &mut actions,
    });
    actions
}

/// Returns node 1, which has this route, and its actions after it received a request of node 0 for node 4.
fn asked_by_0_for_4(has: &[Address]) -> (Dsr, Vec<Action>) {
    let mut node = Dsr::new(&config(), 1);
    node.cache.add(Time::ZERO, route(has));
    let request = DsrRequest {
        ttl: 255,
        id: 1,
        target: 4,
        route: route(&[0]),
        error: None,
    };
    let actions = alone(Time::ZERO, &mut [], |cx| {
        node.receive_control(cx, 0, &Message::DsrRequest(request));
    });
    (node, actions)
}

fn known(net: &Net, node: usize, destination: Address) -> Vec<Address> {
    match &net.agents[node] {
        Agent::Dsr(dsr) => dsr
            .route(net.now, destination)
            .map_or(Vec::new(), |route| route.nodes().to_vec()),
        _ => unreachable!("all nodes use DSR"),
    }
}

fn requests(net: &Net, from: Address) -> Vec<(Time, DsrRequest)> {
    let seen = net.air.iter().filter(|seen| seen.from == from);
    seen.filter_map(|seen| match seen.message {
        Message::DsrRequest(request) => Some((seen.at, request)),
        _ => None,
    })
    .collect()
}

fn replies(net: &Net) -> Vec<(Address, Address, DsrReply)> {
    let seen = net.air.iter();
    seen.filter_map(|seen| match (&seen.message, seen.to) {
        (Message::DsrReply(reply), Some(to)) => Some((seen.from, to, *reply)),
        _ => None,
    })
    .collect()
}

fn errors(net: &Net) -> Vec<(Address, Address, DsrError)> {
    let seen = net.air.iter();
    seen.filter_map(|seen| match (&seen.message, seen.to) {
        (Message::DsrError(error), Some(to)) => Some((seen.from, to, *error)),
        _ => None,
    })
    .collect()
}

#[test]
fn requests_go_to_neighbours_first_and_then_to_the_whole_network() {
    // 0 - 1 - 2 - 3
    let mut net = line(&config(), 4);
    let packet = net.send(0, 3);
    net.run_for(Span::from_secs(1));
    let asked: Vec<_> = requests(&net, 0)
        .iter()
        .map(|(at, request)| (*at, request.ttl))
        .collect();
    let second = Time::ZERO + Span::from_millis(30);
    assert_eq!(asked, [(Time::ZERO, 1), (second, 255)]);
    // §8.2.2: each node adds itself.
    assert_eq!(
        requests(&net, 1)
            .iter()
            .map(|(_, request)| request.route)
            .collect::<Vec<_>>(),
        [route(&[0, 1])]
    );
    assert_eq!(
        requests(&net, 2)
            .iter()
            .map(|(_, request)| request.route)
            .collect::<Vec<_>>(),
        [route(&[0, 1, 2])]
    );
    // The reply uses the reverse route.
    let found = route(&[0, 1, 2, 3]);
    let way: Vec<_> = replies(&net)
        .iter()
        .map(|(from, to, reply)| (*from, *to, reply.found))
        .collect();
    assert_eq!(way, [(3, 2, found), (2, 1, found), (1, 0, found)]);
    assert_eq!(net.places[packet as usize], PacketState::Delivered(second + FRAME * 9));
    // Two intermediate nodes: 4 bytes of DSR's header, 4 of the option, 2 addresses.
    assert_eq!(net.datagrams[packet as usize].header_bytes(), 16);
    // Intermediate nodes know the route too, in both directions.
    assert_eq!((known(&net, 1, 3), known(&net, 2, 0)), (vec![1, 2, 3], vec![2, 1, 0]));
    assert_eq!(net.agents[0].last_hop(net.now, 3, 0), Some(2));
}

#[test]
fn requests_are_repeated_with_exponential_backoff() {
    let mut net = net(&config(), 2, &[]);
    let packet = net.send(0, 1);
    net.run_for(Span::from_secs(60));
    let times: Vec<_> = requests(&net, 0)
        .iter()
        .map(|(at, _)| at.as_nanos() / 1_000_000)
        .collect();
    // §4.3 and §9: 30 ms, then 500 ms doubled up to 10 s, while the packet waits (30 s).
    assert_eq!(times, [0, 30, 530, 1530, 3530, 7530, 15_530, 25_530]);
    assert_eq!(
        net.places[packet as usize],
        PacketState::Dropped(Cause::BufferTimeout, 0)
    );
    net.check_conservation();
}

#[test]
fn a_discovery_ends_after_max_request_rexmt_requests() {
    let config = DsrConfig {
        max_request_rexmt: 3,
        ..config()
    };
    let mut net = net(&config, 2, &[]);
    let packet = net.send(0, 1);
    net.run_for(Span::from_secs(60));
    assert_eq!(requests(&net, 0).len(), 4);
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::NoRoute, 0));
    assert_eq!(net.agents[0].counters().discoveries_failed, 1);
}

#[test]
fn a_node_with_a_cached_route_replies_after_a_delay() {
    // 0 - 1 - 2 - 3, and 4 next to 1.
    let mut net = net(&config(), 5, &[(0, 1), (1, 2), (2, 3), (1, 4)]);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    net.air.clear();
    let start = net.now;
    let packet = net.send(4, 3);
    net.run_for(Span::from_millis(28));
    // Node 4 knows the route from overhearing: 1 sent along 0, 1, 2, 3.
    assert_eq!(known(&net, 4, 3), [4, 1, 2, 3]);
    assert!(requests(&net, 4).is_empty() && matches!(net.places[packet as usize], PacketState::Delivered(_)));
    // Without overhearing it has to send a request, and 1 replies: 2 ms * (3 hops - 1 + r) later (§3.3.2).
    let deaf = DsrConfig {
        promiscuous: false,
        ..config()
    };
    net.agents[4] = agent(&deaf, 4);
    net.air.clear();
    let packet = net.send(4, 3);
    net.run_for(Span::from_millis(28));
    assert_eq!(requests(&net, 4).len(), 1, "a neighbour knows a route");
    let answer = net
        .air
        .iter()
        .find(|seen| matches!(seen.message, Message::DsrReply(_)))
        .expect("1 answers");
    let held = answer.at.since(start + Span::from_millis(28)) - FRAME;
    assert!(held >= Span::from_millis(4) && held < Span::from_millis(6), "{held}");
    assert_eq!(replies(&net)[0].2.found, route(&[4, 1, 2, 3]));
    assert!(requests(&net, 1).is_empty(), "it replies instead");
    assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
}

#[test]
fn a_delayed_reply_is_cancelled_if_a_shorter_route_is_in_use() {
    let (mut node, mut actions) = asked_by_0_for_4(&[1, 2, 3, 4]);
    assert_eq!(node.held.len(), 1);
    let heard = |nodes: &[Address]| Datagram {
        route: route(nodes),
        ..Datagram::new(0, 4, 0)
    };
    let hear = |node: &mut Dsr, nodes| alone(Time::ZERO, &mut [], |cx| node.overhear_data(cx, 0, 7, &heard(nodes)));
    actions.extend(hear(&mut node, &[0, 7, 8, 6, 5, 4]));
    assert_eq!(node.held.len(), 1, "longer");
    actions.extend(hear(&mut node, &[0, 7, 4]));
    assert!(node.held.is_empty());
    assert!(actions.is_empty());
}

#[test]
fn a_reply_from_a_cache_never_contains_a_node_twice() {
    // §3.3.1: node 1 knows a route to 4 that passes the requesting node.
    let (node, actions) = asked_by_0_for_4(&[1, 0, 3, 4]);
    assert!(node.held.is_empty());
    assert!(
        matches!(&actions[..], [Action::Broadcast { message: Message::DsrRequest(passed), .. }] if passed.route == route(&[0, 1]))
    );
}

#[test]
fn packets_of_two_ranks_use_disjoint_routes_until_one_breaks() {
    // 0 - 1 - 3, 0 - 2 - 3: the target replies to each copy of the request.
    let mut net = net(&config(), 4, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    let both = |net: &mut Net| {
        [0, 1].map(|rank| {
            let packet = net.send_ranked(0, 3, rank);
            // The return path refreshes the routes of the nodes on it.
            net.send_ranked(3, 0, rank);
            net.run_for(Span::from_millis(100));
            assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
            let last = net.agents[0].last_hop(net.now, 3, rank);
            let way = net.way(packet);
            assert_eq!(way.last().copied(), last);
            way
        })
    };
    let first = both(&mut net);
    let mut sorted = first.clone();
    sorted.sort();
    assert_eq!(sorted, [[0, 1], [0, 2]]);
    for _ in 0..20 {
        assert_eq!(both(&mut net), first);
    }
    net.set_link(0, 1, false);
    net.send_ranked(0, 3, 0);
    net.send_ranked(0, 3, 1);
    net.run_for(Span::from_millis(100));
    assert_eq!(both(&mut net), [[0, 2], [0, 2]]);
}

#[test]
fn the_source_gets_a_route_error_and_uses_another_route() {
    // 0 - 1 - 2 - 3 and 0 - 4 - 5 - 6 - 3.
    let mut net = net(&config(), 7, &[(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (6, 3)]);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    assert_eq!(known(&net, 0, 3), [0, 1, 2, 3]);
    net.air.clear();
    net.set_link(2, 3, false);
    let lost = net.send(0, 3);
    net.run_for(Span::from_millis(50));
    // Node 2 has no other route, so the packet is dropped (it receives only from 1).
    assert_eq!(net.places[lost as usize], PacketState::Dropped(Cause::LinkBroken, 2));
    let broken = BrokenLink { from: 2, to: 3 };
    assert_eq!(
        errors(&net)
            .iter()
            .map(|(from, to, error)| (*from, *to, error.broken))
            .collect::<Vec<_>>(),
        [(2, 1, broken), (1, 0, broken)]
    );
    let packet = net.send(0, 3);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.way(packet), [0, 4, 5, 6]);
    assert!(requests(&net, 0).is_empty(), "the other route was in the cache");
}

#[test]
fn a_packet_is_salvaged_by_a_node_with_a_route_of_its_own() {
    // 0 - 1 - 2, and 1 - 3 - 2: node 1 loses 2 and knows the route over 3.
    let mut net = net(&config(), 4, &[(0, 1), (1, 2), (1, 3), (3, 2)]);
    net.send(3, 2);
    net.send(0, 2);
    net.run_for(Span::from_secs(1));
    if let Agent::Dsr(dsr) = &mut net.agents[1] {
        dsr.cache.add(net.now, route(&[1, 3, 2]));
    }
    net.air.clear();
    net.set_link(1, 2, false);
    let packet = net.send(0, 2);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.way(packet), [0, 1, 1, 3]);
    assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
    assert_eq!(net.datagrams[packet as usize].route.salvaged(), 1);
    assert_eq!(net.agents[1].counters().repairs, 1);
    // The source gets a route error nevertheless, and its next request includes the link (§3.4.4).
    let broken = BrokenLink { from: 1, to: 2 };
    assert_eq!(
        errors(&net)
            .iter()
            .map(|(from, to, error)| (*from, *to, error.broken))
            .collect::<Vec<_>>(),
        [(1, 0, broken)]
    );
    net.send(0, 9);
    net.run_for(Span::from_millis(10));
    assert_eq!(
        requests(&net, 0)
            .iter()
            .map(|(_, request)| request.error)
            .collect::<Vec<_>>(),
        [Some(broken)]
    );
}

/// Ye 2004, 3.2: the packet that the radio gives up is lost; those that wait in its queue are not, and the source looks for a route.
#[test]
fn a_packet_that_the_radio_gave_up_is_lost_if_so_configured() {
    for keep_failed in [true, false] {
        let config = DsrConfig {
            keep_failed,
            ..config()
        };
        let mut net = net(&config, 4, &[(0, 1), (1, 2), (0, 3), (3, 2)]);
        net.send(0, 2);
        net.run_for(Span::from_secs(1));
        let by = known(&net, 0, 2)[1];
        net.set_link(0, usize::from(by), false);
        let first = net.send(0, 2);
        // The second one is on the air when the first one fails.
        net.send(0, 2);
        let third = net.send(0, 2);
        net.run_for(Span::from_secs(1));
        let fate = |packet: u32| net.places[packet as usize];
        if keep_failed {
            assert!(matches!(fate(first), PacketState::Delivered(_)));
        } else {
            assert_eq!(fate(first), PacketState::Dropped(Cause::LinkBroken, 0));
        }
        assert!(matches!(fate(third), PacketState::Delivered(_)), "{:?}", fate(third));
    }
}

#[test]
fn a_packet_is_dropped_after_max_salvage_count_salvages() {
    let config = DsrConfig {
        max_salvage_count: 0,
        ..config()
    };
    let mut net = net(&config, 4, &[(0, 1), (1, 2), (1, 3), (3, 2)]);
    net.send(0, 2);
    net.run_for(Span::from_secs(1));
    if let Agent::Dsr(dsr) = &mut net.agents[1] {
        dsr.cache.add(net.now, route(&[1, 3, 2]));
    }
    net.set_link(1, 2, false);
    let packet = net.send(0, 2);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::LinkBroken, 1));
}

#[test]
fn a_route_is_shortened_when_a_later_node_overhears_the_packet() {
    // 0 - 1 - 2 - 3; then 2 moves near 0.
    let mut net = line(&config(), 4);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    net.set_link(0, 2, true);
    net.air.clear();
    let first = net.send(0, 3);
    net.run_for(Span::from_millis(100));
    assert_eq!(net.way(first), [0, 1, 2]);
    let gratuitous: Vec<_> = replies(&net)
        .iter()
        .map(|(from, to, reply)| (*from, *to, reply.found))
        .collect();
    assert_eq!(gratuitous, [(2, 0, route(&[0, 2, 3]))]);
    let second = net.send(0, 3);
    net.run_for(Span::from_millis(100));
    assert_eq!(net.way(second), [0, 2]);
}

#[test]
fn a_gratuitous_reply_is_sent_once_per_second() {
    let mut node = Dsr::new(&config(), 3);
    let mut actions = Vec::new();
    let datagram = Datagram {
        route: route(&[0, 1, 2, 3, 4]).at_place(1),
        ..Datagram::new(0, 4, 0)
    };
    for (at, expected) in [(0, 1), (999, 1), (1000, 2)] {
        let now = Time::ZERO + Span::from_millis(at);
        actions.extend(alone(now, &mut [], |cx| node.overhear_data(cx, 1, 2, &datagram)));
        assert_eq!(actions.len(), expected, "after {at} ms");
    }
    let reply = DsrReply {
        source_route: route(&[3, 1, 0]),
        found: route(&[0, 1, 3, 4]),
    };
    assert!(
        matches!(actions[0], Action::Unicast { message: Message::DsrReply(sent), next_hop: 1, .. } if sent == reply)
    );
}

#[test]
fn a_link_without_passive_acknowledgements_counts_as_broken() {
    let config = DsrConfig {
        passive_ack: true,
        ..config()
    };
    let fresh = |id| Datagram {
        route: route(&[0, 1, 2, 3]),
        ..Datagram::new(0, 3, id)
    };
    for heard in [None, Some(1_u32)] {
        let mut node = Dsr::new(&config, 1);
        let mut datagrams = [fresh(0), fresh(1), fresh(2)];
        let mut broken = 0;
        for packet in 0..3_u32 {
            let now = Time::ZERO + Span::from_millis(u64::from(packet) * 200);
            assert_eq!(
                alone(now, &mut datagrams, |cx| node.receive_data(cx, 0, packet)),
                [Action::Send { packet, next_hop: 2 }]
            );
            if heard == Some(packet) {
                let passed = datagrams[packet as usize];
                let passed = Datagram {
                    route: passed.route.at_place(2),
                    ..passed
                };
                let heard = now + Span::from_millis(50);
                alone(heard, &mut [], |cx| node.overhear_data(cx, 2, 3, &passed));
            }
            let over = now + Span::from_millis(100);
            let actions = alone(over, &mut [], |cx| node.handle_timeout(cx));
            broken += actions
                .iter()
                .filter(|action| {
                    matches!(
                        action,
                        Action::Unicast {
                            message: Message::DsrError(_),
                            next_hop: 0,
                            ..
                        }
                    )
                })
                .count();
        }
        // Three in a row, unless one was overheard.
        assert_eq!(broken, usize::from(heard.is_none()));
        assert_eq!(node.route(Time::ZERO, 3).is_some(), heard.is_some());
    }
}

#[test]
fn an_own_packet_waits_for_another_route_when_the_first_hop_breaks() {
    let mut net = net(&config(), 4, &[(0, 1), (1, 3)]);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    net.set_link(0, 1, false);
    net.set_link(0, 2, true);
    net.set_link(2, 3, true);
    let packet = net.send(0, 3);
    net.run_for(GIVE_UP + Span::from_millis(1));
    assert_eq!(net.places[packet as usize], PacketState::Agent(0));
    net.run_for(Span::from_secs(1));
    assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
    assert_eq!(net.way(packet), [0, 0, 2]);
}

#[test]
fn random_networks_have_no_loops_and_account_for_every_packet() {
    each_seed(60, |seed| {
        torture(seed, |address, rng| {
            let config = DsrConfig {
                promiscuous: seed % 2 == 0,
                passive_ack: seed % 4 == 0 && rng.chance(0.5),
                salvage: seed % 3 != 0,
                reply_from_cache: seed % 5 != 0,
                nonpropagating_request: seed % 7 != 0,
                cache_routes: [64, 3][(seed % 11 == 0) as usize],
                ..DsrConfig::default()
            };
            agent(&config, address)
        });
    });
}

#[test]
fn most_packets_arrive() {
    most_arrive(|address| agent(&DsrConfig::default(), address));
}
