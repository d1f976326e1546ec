//! Message sequences computed by hand from RFC 3561, and random networks.

mod breaks;

use whimbrel_control::{Span, Time};

use super::Aodv;
use crate::config::AodvConfig;
use crate::routing::harness::{FRAME, Net, PacketState, each_seed, most_arrive, torture};
use crate::routing::{Action, Address, Agent, Cause, Context, Message, MessageKind, Rerr, Rrep, Rreq, Unreachable};

fn config() -> AodvConfig {
    AodvConfig {
        broadcast_jitter: Span::ZERO,
        ..AodvConfig::default()
    }
}

fn agent(config: &AodvConfig, address: Address) -> Agent {
    Agent::Aodv(Box::new(Aodv::new(config, address)))
}

fn net(config: &AodvConfig, nodes: usize, links: &[(usize, usize)]) -> Net {
    let agents = (0..nodes as Address).map(|address| agent(config, address)).collect();
    Net::new(agents, links, 1)
}

fn line(config: &AodvConfig, nodes: usize) -> Net {
    let links: Vec<_> = (1..nodes).map(|node| (node - 1, node)).collect();
    net(config, nodes, &links)
}

fn aodv(net: &Net, node: usize) -> &Aodv {
    match &net.agents[node] {
        Agent::Aodv(aodv) => aodv,
        _ => unreachable!("all nodes use AODV"),
    }
}

fn requests(net: &Net, from: Address) -> Vec<(Time, Rreq)> {
    let seen = net.air.iter().filter(|seen| seen.from == from);
    seen.filter_map(|seen| match &seen.message {
        Message::Rreq(rreq) => Some((seen.at, *rreq)),
        _ => None,
    })
    .collect()
}

fn replies(net: &Net) -> Vec<(Address, Address, Rrep)> {
    let seen = net.air.iter();
    seen.filter_map(|seen| match (&seen.message, seen.to) {
        (Message::Rrep(rrep), Some(to)) => Some((seen.from, to, *rrep)),
        _ => None,
    })
    .collect()
}

fn errors(net: &Net) -> Vec<(Address, Option<Address>, Rerr)> {
    let seen = net.air.iter();
    seen.filter_map(|seen| match &seen.message {
        Message::Rerr(rerr) => Some((seen.from, seen.to, rerr.clone())),
        _ => None,
    })
    .collect()
}

#[test]
fn requests_flood_growing_rings_until_the_destination_replies() {
    // 0 - 1 - 2 - 3. §6.4: TTL 1, 3; the second reaches 3 (0 sends with 3, 1 with 2, 2 with 1).
    let config = config();
    let mut net = line(&config, 4);
    let packet = net.send(0, 3);
    net.run_for(Span::from_secs(1));
    let asked: Vec<_> = requests(&net, 0)
        .iter()
        .map(|(at, rreq)| (*at, rreq.ttl, rreq.id, rreq.originator_seq))
        .collect();
    // RING_TRAVERSAL_TIME = 2 * 40 ms * (1 + 2)
    let second = Time::ZERO + Span::from_millis(240);
    assert_eq!(asked, [(Time::ZERO, 1, 1, 1), (second, 3, 2, 2)]);
    assert!(
        requests(&net, 0)
            .iter()
            .all(|(_, rreq)| rreq.destination_seq.is_none() && rreq.hops == 0)
    );
    assert_eq!(
        requests(&net, 1)
            .iter()
            .map(|(_, rreq)| (rreq.ttl, rreq.hops))
            .collect::<Vec<_>>(),
        [(2, 1)]
    );
    assert_eq!(
        requests(&net, 2)
            .iter()
            .map(|(_, rreq)| (rreq.ttl, rreq.hops))
            .collect::<Vec<_>>(),
        [(1, 2)]
    );
    // §6.6.1, §6.7: the reply returns hop by hop with a growing hop count.
    let answered: Vec<_> = replies(&net)
        .iter()
        .map(|(from, to, rrep)| (*from, *to, rrep.hops, rrep.destination))
        .collect();
    assert_eq!(answered, [(3, 2, 0, 3), (2, 1, 1, 3), (1, 0, 2, 3)]);
    assert!(
        replies(&net)
            .iter()
            .all(|(_, _, rrep)| rrep.lifetime == Span::from_secs(6) && rrep.originator == 0)
    );
    // Three hops for the request, three for the reply, three for the packet.
    assert_eq!(net.places[packet as usize], PacketState::Delivered(second + FRAME * 9));
    assert_eq!(net.way(packet), [0, 1, 2]);
    assert_eq!(aodv(&net, 0).route(net.now, 3), Some((0, 3)));
    assert_eq!(aodv(&net, 3).route(net.now, 0), Some((2, 3)));
    assert_eq!(net.agents[0].counters().messages[MessageKind::Request as usize], 2);
    assert_eq!(net.agents[0].counters().bytes, 2 * 52);
}

#[test]
fn forwards_a_reply_whose_sender_already_created_the_route() {
    // 0 - 1 - 2. The routes of a first packet expire. Node 1 keeps the sequence number of 2 and requests with it. When 2 replies,
    // node 1 already has a route to 2 because it received its frame (§6.5), with the number of the reply. It forwards the reply to
    // 0 nevertheless (§6.7).
    let config = config();
    let mut net = line(&config, 3);
    net.send(0, 2);
    net.run_for(Span::from_secs(12));
    assert_eq!(aodv(&net, 0).route(net.now, 2), None);
    let (asked, began) = (requests(&net, 0).len(), net.now);
    let packet = net.send(0, 2);
    net.run_for(Span::from_secs(5));
    assert_eq!(requests(&net, 0).len(), asked + 1, "one request is enough");
    // Two hops for the request, two for the reply, two for the packet.
    assert_eq!(net.places[packet as usize], PacketState::Delivered(began + FRAME * 6));
}

#[test]
fn packets_are_dropped_after_three_floods_without_reply() {
    let config = config();
    let mut net = net(&config, 2, &[]);
    let packets = [net.send(0, 1), net.send(0, 1)];
    net.run_for(Span::from_secs(60));
    let times: Vec<_> = requests(&net, 0)
        .iter()
        .map(|(at, rreq)| (at.as_nanos() / 1_000_000, rreq.ttl))
        .collect();
    // TTL 1, 3, 5, 7: 80 ms for each of TTL + 2 hops. Then NET_TRAVERSAL_TIME = 2.8 s, 5.6 s, 11.2 s.
    let expected = [
        (0, 1),
        (240, 3),
        (640, 5),
        (1200, 7),
        (1920, 35),
        (4720, 35),
        (10_320, 35),
    ];
    assert_eq!(times, expected);
    for packet in packets {
        assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::NoRoute, 0));
    }
    assert_eq!(net.agents[0].counters().discoveries_failed, 1);
    net.check_conservation();
}

#[test]
fn failed_discoveries_are_held_off_and_waits_grow_linearly() {
    let config = AodvConfig {
        ttl_start: 35,
        binary_backoff: false,
        discovery_holdoff: Span::from_secs(10),
        ..config()
    };
    let mut net = net(&config, 2, &[]);
    net.send(0, 1);
    // 2.8 s, 5.6 s, 8.4 s for three floods: the discovery fails at 16.8 s.
    net.run_for(Span::from_secs(17));
    let late = net.send(0, 1);
    net.run_for(Span::from_secs(9));
    assert_eq!(net.places[late as usize], PacketState::Agent(0));
    net.run_for(Span::from_secs(2));
    let times = |net: &Net| -> Vec<_> {
        let asked = requests(net, 0);
        asked.iter().map(|(at, _)| at.as_nanos() / 1_000_000).collect()
    };
    assert_eq!(times(&net), [0, 2800, 8400, 26_800]);
    // No packet waits, so no request is sent.
    net.run_for(Span::from_secs(100));
    assert_eq!(times(&net), [0, 2800, 8400, 26_800, 29_600, 35_200]);
    assert_eq!(net.places[late as usize], PacketState::Dropped(Cause::NoRoute, 0));
    assert_eq!(net.agents[0].counters().discoveries_failed, 2);
    // A route ends the hold-off.
    let config = AodvConfig {
        net_diameter: 1,
        ..config
    };
    let mut net = self::net(&config, 2, &[]);
    net.send(0, 1);
    net.run_for(Span::from_secs(1));
    let waits = net.send(0, 1);
    net.set_link(0, 1, true);
    net.send(1, 0);
    net.run_for(Span::from_millis(10));
    assert!(matches!(net.places[waits as usize], PacketState::Delivered(_)));
}

#[test]
fn keep_failed_decides_whether_a_packet_waits_after_a_broken_link() {
    for keep_failed in [true, false] {
        let config = AodvConfig {
            keep_failed,
            ..config()
        };
        let mut net = net(&config, 4, &[(0, 1), (1, 3)]);
        net.send(0, 3);
        net.run_for(Span::from_secs(1));
        net.set_link(0, 1, false);
        net.set_link(0, 2, true);
        net.set_link(2, 3, true);
        let packets = [net.send(0, 3), net.send(0, 3)];
        net.run_for(Span::from_secs(1));
        for packet in packets {
            let place = net.places[packet as usize];
            if keep_failed {
                assert!(matches!(place, PacketState::Delivered(_)), "{place:?}");
                assert_eq!(net.way(packet).last(), Some(&2));
            } else {
                assert_eq!(place, PacketState::Dropped(Cause::LinkBroken, 0));
            }
        }
    }
}

#[test]
fn an_intermediate_node_replies_and_sends_a_gratuitous_reply() {
    // 0 - 1 - 2 - 3, and 4 next to 1. Once 0 has a route to 3, node 1 replies to 4 (§6.6.2) and sends 3 a route to 4 (§6.6.3).
    let config = config();
    let mut net = net(&config, 5, &[(0, 1), (1, 2), (2, 3), (1, 4)]);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    net.air.clear();
    let packet = net.send(4, 3);
    net.run_for(Span::from_millis(100));
    assert_eq!(requests(&net, 4).len(), 1);
    assert!(requests(&net, 1).is_empty(), "it replies instead");
    let seen: Vec<_> = replies(&net)
        .iter()
        .map(|(from, to, rrep)| (*from, *to, rrep.hops, rrep.destination))
        .collect();
    assert_eq!(seen, [(1, 4, 2, 3), (1, 2, 1, 4), (2, 3, 2, 4)]);
    assert_eq!(aodv(&net, 3).route(net.now, 4), Some((1, 3)));
    assert!(matches!(net.places[packet as usize], PacketState::Delivered(_)));
    // The lifetime is the rest of the route's lifetime at 1: MY_ROUTE_TIMEOUT after the first reply.
    let left = replies(&net)[0].2.lifetime;
    assert!(left > Span::from_secs(5) && left < Span::from_millis(5300), "{left}");
}

#[test]
fn only_the_destination_replies_to_requests_with_flag_d() {
    let config = AodvConfig {
        destination_only: true,
        ..config()
    };
    let mut net = net(&config, 5, &[(0, 1), (1, 2), (2, 3), (1, 4)]);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    net.air.clear();
    net.send(4, 3);
    net.run_for(Span::from_secs(1));
    assert_eq!(
        replies(&net).first().map(|(from, _, rrep)| (*from, rrep.hops)),
        Some((3, 0))
    );
}

#[test]
fn waiting_times_use_the_measured_traversal_time() {
    let config = AodvConfig {
        measured_traversal_time: true,
        ttl_start: 35,
        ttl_threshold: 0,
        ..config()
    };
    let mut net = line(&config, 4);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    for place in 0..3 {
        net.set_link(place, place + 1, false);
    }
    net.run_for(Span::from_secs(100));
    net.air.clear();
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    let asked = requests(&net, 0);
    // Three hops each way: two frames per hop. 2 * 35 of them, and then twice as long.
    assert_eq!(asked[1].0.since(asked[0].0), FRAME * 140);
    assert_eq!(asked[2].0.since(asked[1].0), FRAME * 280);
    // For another destination nothing was measured.
    net.air.clear();
    net.send(0, 2);
    net.run_for(Span::from_secs(3));
    let asked = requests(&net, 0);
    assert_eq!(asked[1].0.since(asked[0].0), Span::from_millis(2800));
}

#[test]
fn a_packet_without_a_route_triggers_a_route_error() {
    // The route at 1 has expired while a long timeout keeps that at 0.
    let config = config();
    let mut net = line(&config, 3);
    net.send(0, 2);
    net.run_for(Span::from_secs(1));
    if let Agent::Aodv(middle) = &mut net.agents[1] {
        let now = net.now;
        middle.table.valid(now, 2).expect("there is a route").expires = now;
    }
    net.air.clear();
    let packet = net.send(0, 2);
    net.run_for(Span::from_millis(10));
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::NoRoute, 1));
    assert_eq!(
        errors(&net)
            .iter()
            .map(|(from, to, _)| (*from, *to))
            .collect::<Vec<_>>(),
        [(1, Some(0))]
    );
    assert_eq!(net.agents[0].next_hop(net.now, 2), None);
}

#[test]
fn the_destination_adopts_a_higher_requested_sequence_number() {
    // §6.1: a lost route is requested with a number that the destination itself has not reached yet.
    let config = config();
    let mut net = line(&config, 2);
    let rreq = Rreq {
        ttl: 1,
        hops: 0,
        id: 1,
        destination: 1,
        destination_seq: Some(41),
        originator: 0,
        originator_seq: 1,
        gratuitous: false,
        destination_only: false,
    };
    net.call(1, |agent, cx| agent.receive_control(cx, 0, &Message::Rreq(rreq)));
    net.run_for(Span::from_millis(10));
    assert_eq!(replies(&net)[0].2.destination_seq, 41);
}

#[test]
fn an_unacknowledged_reply_blacklists_its_receiver() {
    // 1 does not receive from 2, though 2 receives from 1: replies of 2 to 1 fail (§6.8). 0 - 1 - 3 - 2 works.
    let config = config();
    let mut net = net(&config, 4, &[(0, 1), (1, 3), (3, 2)]);
    net.hears[1][2] = true;
    let packet = net.send(0, 2);
    net.run_for(Span::from_secs(5));
    assert!(
        matches!(net.places[packet as usize], PacketState::Delivered(_)),
        "{:?}",
        net.places
    );
    assert_eq!(net.way(packet), [0, 1, 3]);
    assert!(aodv(&net, 2).blacklist.iter().any(|(neighbour, _)| *neighbour == 1));
}

#[test]
fn replies_with_flag_a_are_acknowledged() {
    let config = AodvConfig {
        reply_ack: true,
        ..config()
    };
    let mut net = line(&config, 3);
    net.send(0, 2);
    net.run_for(Span::from_secs(1));
    let acks: Vec<_> = net
        .air
        .iter()
        .filter(|seen| seen.message == Message::RrepAck)
        .map(|seen| (seen.from, seen.to))
        .collect();
    assert_eq!(acks, [(1, Some(2)), (0, Some(1))]);
    assert!(
        net.agents
            .iter()
            .all(|agent| matches!(agent, Agent::Aodv(aodv) if aodv.blacklist.is_empty()))
    );
}

#[test]
fn hello_messages_detect_broken_links_without_link_layer_feedback() {
    let config = AodvConfig {
        hello: true,
        link_layer_feedback: false,
        local_repair: false,
        ..config()
    };
    let mut net = line(&config, 4);
    for tenth in 0..100 {
        net.send_at(Time::ZERO + Span::from_millis(tenth * 100), 0, 3);
    }
    net.run_for(Span::from_secs(4));
    let hellos = |net: &Net| {
        net.air
            .iter()
            .filter(|seen| matches!(seen.message, Message::Hello { .. }))
            .count()
    };
    assert!(hellos(&net) >= 8, "{}", hellos(&net));
    assert!(errors(&net).is_empty());
    net.set_link(1, 2, false);
    net.run_for(Span::from_secs(3));
    assert_eq!(
        errors(&net).first().map(|(from, to, _)| (*from, *to)),
        Some((1, Some(0)))
    );
    assert_eq!(net.agents[0].next_hop(net.now, 3), None);
    // No node is on an active route any more: no hello messages.
    net.run_for(Span::from_secs(20));
    let before = hellos(&net);
    net.run_for(Span::from_secs(20));
    assert_eq!(hellos(&net), before);
}

#[test]
fn requests_and_errors_respect_their_rate_limits() {
    let config = AodvConfig {
        rreq_ratelimit: 3,
        ..config()
    };
    let mut net = net(&config, 12, &[]);
    for destination in 1..12 {
        net.send(0, destination);
    }
    net.run_for(Span::from_secs(20));
    let times: Vec<_> = requests(&net, 0).iter().map(|(at, _)| *at).collect();
    assert!(times.len() > 30);
    // Frames wait for each other in the queue.
    let second = Span::from_millis(990);
    assert!(
        times.windows(4).all(|four| four[3].since(four[0]) >= second),
        "{times:?}"
    );
}

#[test]
fn the_last_hop_is_known_nearby_or_from_the_extension() {
    for (extension, far) in [(false, None), (true, Some(3))] {
        let config = AodvConfig {
            last_hop_extension: extension,
            ..config()
        };
        let mut net = line(&config, 5);
        net.send(0, 4);
        net.run_for(Span::from_secs(2));
        let last = |from: usize| net.agents[from].last_hop(net.now, 4, 0);
        assert_eq!([last(3), last(2), last(0)], [Some(3), Some(3), far]);
    }
}

#[test]
fn a_packet_is_dropped_when_its_ttl_expires() {
    let mut net = line(&config(), 4);
    net.send(0, 3);
    net.run_for(Span::from_secs(1));
    let packet = net.datagrams.len() as u32;
    net.datagrams.push(crate::routing::Datagram {
        ttl: 2,
        ..crate::routing::Datagram::new(0, 3, packet)
    });
    net.places.push(PacketState::Agent(0));
    net.call(0, |agent, cx| agent.originate(cx, packet));
    net.run_for(Span::from_millis(10));
    assert_eq!(net.places[packet as usize], PacketState::Dropped(Cause::TtlExpired, 2));
}

#[test]
fn forwarding_on_a_known_route_allocates_nothing() {
    let config = config();
    let mut node = Aodv::new(&config, 1);
    let mut rng = whimbrel_control::Rng::stream(1, "node");
    let mut datagrams = [crate::routing::Datagram::new(0, 2, 0)];
    let mut actions: Vec<Action> = Vec::with_capacity(4);
    let until = Time::ZERO + Span::from_secs(3);
    node.table.neighbour(Time::ZERO, 2, 1, until, Some(1));
    let capacity = actions.capacity();
    for step in 0..1000 {
        actions.clear();
        datagrams[0].ttl = 64;
        let mut cx = Context {
            now: Time::ZERO + Span::from_millis(step * 10),
            rng: &mut rng,
            datagrams: &mut datagrams,
            actions: &mut actions,
        };
        crate::routing::Protocol::receive_data(&mut node, &mut cx, 0, 0);
        assert_eq!(actions, [Action::Send { packet: 0, next_hop: 2 }]);
    }
    assert_eq!(actions.capacity(), capacity);
}

#[test]
fn random_networks_have_no_loops_and_account_for_every_packet() {
    each_seed(60, |seed| {
        torture(seed, |address, rng| {
            // The same for all nodes of a network.
            let kind = seed % 8;
            let hello = kind & 1 == 1;
            let config = AodvConfig {
                hello,
                link_layer_feedback: !hello || kind & 2 == 2,
                local_repair: kind & 4 == 0,
                reply_ack: seed % 5 == 0,
                destination_only: seed % 7 == 0,
                gratuitous_reply: seed % 3 != 0,
                last_hop_extension: rng.chance(0.5),
                binary_backoff: seed % 4 != 1,
                discovery_holdoff: Span::from_secs([0, 10][(seed % 3 == 1) as usize]),
                keep_failed: seed % 5 != 2,
                persistent_repair: seed % 5 == 3,
                measured_traversal_time: seed % 4 == 3,
                ..AodvConfig::default()
            };
            agent(&config, address)
        });
    });
}

#[test]
fn most_packets_arrive() {
    most_arrive(|address| agent(&AodvConfig::default(), address));
}
