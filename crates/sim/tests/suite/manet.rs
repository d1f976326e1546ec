//! Ad hoc networks: routing protocols over 802.11.
//!
//! `WHIMBREL_MANET_SEEDS=N` tries N seeds, `WHIMBREL_MANET_SEED=N` only that seed.

use std::path::PathBuf;
use std::sync::Arc;

use crate::common::{file, paced, run};
use whimbrel_control::multipath::Accounting;
use whimbrel_control::multipath::policy::{GapTrendParameters, PathPolicySpec};
use whimbrel_control::{Rate, Rng, Span, Time};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    AodvConfig, ChannelConfig, ChannelRouting, DsrConfig, FlowConfig, FlowKind, JitterConfig, LinkConfig,
    MobilityConfig, NodeConfig, PhyKind, RadioConfig, SimConfig, TrafficKind,
};
use whimbrel_sim::{
    DropCause, Interest, Movements, Observer, Resources, RouteEvent, RunControl, RunOptions, RunResult, World,
};

const PROTOCOLS: [&str; 3] = ["aodv", "dsdv", "dsr"];

fn network(routing: &str, seconds: u64) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    let mut channel = ChannelConfig::new("air");
    channel.phy = PhyKind::Dsss2;
    channel.routing = ChannelRouting::by_name(routing).expect("a protocol");
    config.channel = vec![channel];
    config
}

fn add(config: &mut SimConfig, node: NodeConfig) {
    config.radio.push(RadioConfig::new(&node.name, "air"));
    config.node.push(node);
}

/// Returns nodes `n0`, `n1`, ... 200 m apart: each receives only from its neighbours.
fn line(routing: &str, nodes: usize, seconds: u64) -> SimConfig {
    let mut config = network(routing, seconds);
    for node in 0..nodes {
        add(
            &mut config,
            NodeConfig::at(&format!("n{node}"), 200.0 * node as f64, 0.0),
        );
    }
    config
}

fn udp(name: &str, from: usize, to: usize, rate: Rate) -> FlowConfig {
    FlowConfig {
        traffic: paced(TrafficKind::Cbr, rate, 512),
        ..FlowConfig::new(name, FlowKind::Udp, &format!("n{from}"), &format!("n{to}"))
    }
}

fn control(result: &RunResult) -> (u64, u64) {
    let sum = |of: fn(&whimbrel_sim::RadioResult) -> u64| result.radios.iter().map(of).sum();
    (sum(|radio| radio.control), sum(|radio| radio.control_bytes))
}

#[test]
fn each_protocol_finds_the_route_along_a_line() {
    for routing in PROTOCOLS {
        let mut config = line(routing, 5, 60);
        let mut flow = udp("data", 0, 4, Rate::from_bps(40_000));
        // DSDV needs time to learn all routes.
        flow.start = Span::from_secs(30);
        flow.stop = Some(Span::from_secs(55));
        config.flow = vec![flow];
        let result = run(&config, 1);
        let flow = &result.flows[0];
        assert!(flow.messages_sent > 200);
        assert!(flow.messages_delivered + 3 >= flow.messages_sent, "{routing}: {flow:?}");
        assert_eq!(
            flow.messages_sent,
            flow.messages_delivered + flow.drops.total(),
            "{routing}"
        );
        let (packets, bytes) = control(&result);
        assert!(packets > 5 && bytes > packets * 20, "{routing}: {packets} {bytes}");
        // Each hop of the data is a frame.
        let data: u64 = result.radios.iter().map(|radio| radio.data).sum();
        assert!(data >= flow.messages_delivered * 4 + packets, "{routing}: {data}");
    }
}

#[test]
fn discovery_over_the_air_matches_the_rfc() {
    // 0 - 1 - 2: requests with TTL 1 by 0, and with TTL 3 by 0 and 1 (the destination sends none); replies by 2 and 1.
    let mut config = line("aodv", 3, 10);
    let mut flow = udp("data", 0, 2, Rate::from_bps(40_000));
    flow.traffic.count = Some(1);
    flow.start = Span::from_secs(1);
    config.flow = vec![flow];
    let result = run(&config, 1);
    assert_eq!(result.flows[0].messages_delivered, 1);
    assert_eq!(
        result.radios.iter().map(|radio| radio.control).collect::<Vec<_>>(),
        [2, 2, 1]
    );
    assert_eq!(control(&result).1, 3 * 52 + 2 * 48);
    // The first ring, 2 * 40 ms * (1 + 2), found nothing.
    let delay = result.flows[0].delay.mean;
    assert!(
        delay > Span::from_millis(240) && delay < Span::from_millis(290),
        "{delay}"
    );
}

#[test]
fn hidden_nodes_with_simultaneous_requests_succeed_eventually() {
    // n0 and n2 do not sense each other, and their first requests always collide at n1.
    for routing in ["aodv", "dsr"] {
        for seed in 1..=10 {
            let mut config = line(routing, 3, 20);
            config.channel[0].sense_range = Some(250.0);
            let flow = |name, from, to| FlowConfig {
                start: Span::from_secs(1),
                ..udp(name, from, to, Rate::from_bps(40_000))
            };
            config.flow = vec![flow("there", 0, 2), flow("back", 2, 0)];
            let result = run(&config, seed);
            for flow in &result.flows {
                assert!(flow.messages_delivered > 100, "{routing}, seed {seed}: {flow:?}");
            }
        }
    }
}

#[test]
fn headers_of_source_routes_are_on_the_air() {
    // Three hops: 16 additional bytes in each frame at 2 Mbit/s.
    let air = |routing: &str| {
        let mut config = line(routing, 4, 20);
        let mut flow = udp("data", 0, 3, Rate::from_bps(40_000));
        flow.traffic.count = Some(50);
        flow.start = Span::from_secs(1);
        config.flow = vec![flow];
        let result = run(&config, 1);
        assert_eq!(result.flows[0].messages_delivered, 50, "{routing}");
        (
            result.flows[0].air_time.as_secs_f64(),
            result.radios.iter().map(|radio| radio.retries).sum::<u64>(),
        )
    };
    let (with, without) = (air("dsr"), air("static"));
    assert_eq!((with.1, without.1), (0, 0), "no other air time");
    let expected = 150.0 * 16.0 * 8.0 / 2e6;
    assert!((with.0 - without.0 - expected).abs() < 1e-6, "{with:?} {without:?}");
}

#[test]
fn a_node_that_moves_away_is_replaced_by_another_route() {
    // n1 leaves its position between n0 and n2; n3 replaces it.
    for routing in PROTOCOLS {
        let mut config = network(routing, 120);
        for (name, x, y) in [("n0", 0.0, 0.0), ("n2", 400.0, 0.0), ("n3", 200.0, 100.0)] {
            add(&mut config, NodeConfig::at(name, x, y));
        }
        let mut walker = NodeConfig::at("n1", 200.0, 0.0);
        walker.mobility = Some(MobilityConfig::RandomWaypoint {
            area: [1.0, 1.0],
            speed: [10.0, 10.0],
            pause: Span::from_secs(1000),
            steady_state: false,
        });
        add(&mut config, walker);
        let mut flow = udp("data", 0, 2, Rate::from_bps(40_000));
        flow.stop = Some(Span::from_secs(100));
        config.flow = vec![flow];
        let result = run(&config, 1);
        let flow = &result.flows[0];
        let share = flow.messages_delivered as f64 / flow.messages_sent as f64;
        assert!(
            share > if routing == "dsdv" { 0.8 } else { 0.97 },
            "{routing}: {share} {:?}",
            flow.drops
        );
        assert_eq!(
            flow.messages_sent,
            flow.messages_delivered + flow.drops.total(),
            "{routing}"
        );
    }
}

#[test]
fn packets_without_a_route_are_dropped_with_that_cause() {
    for (routing, cause) in [
        ("aodv", DropCause::NoRoute),
        ("dsdv", DropCause::RouteBufferFull),
        ("dsr", DropCause::RouteTimeout),
    ] {
        let mut config = line(routing, 2, 100);
        add(&mut config, NodeConfig::at("n2", 5000.0, 0.0));
        let mut flow = udp("data", 0, 2, Rate::from_bps(4000));
        flow.stop = Some(Span::from_secs(50));
        config.flow = vec![flow];
        let result = run(&config, 1);
        let flow = &result.flows[0];
        assert_eq!(
            (flow.messages_delivered, flow.messages_sent),
            (0, flow.drops.total()),
            "{routing}"
        );
        assert!(flow.drops.of(cause) > 0, "{routing}: {:?}", flow.drops);
    }
}

/// Adds moving nodes.
fn walkers(config: &mut SimConfig, nodes: usize, side: f64, speed: f64) {
    for node in 0..nodes {
        let mut node = NodeConfig::new(&format!("n{node}"));
        node.mobility = Some(MobilityConfig::RandomWaypoint {
            area: [side, side],
            speed: [1.0, speed.max(1.0)],
            pause: Span::from_secs(1),
            steady_state: true,
        });
        add(config, node);
    }
}

#[test]
fn every_packet_is_accounted_for_in_random_mobile_networks() {
    let number = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect("a number"))
    };
    let seeds = match number("WHIMBREL_MANET_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WHIMBREL_MANET_SEEDS").unwrap_or(9),
    };
    for seed in seeds {
        let rng = &mut Rng::stream(seed, "manet torture");
        let routing = PROTOCOLS[(seed % 3) as usize];
        let mut config = network(routing, 200);
        let nodes = 5 + rng.below(25) as usize;
        walkers(&mut config, nodes, 400.0 + 800.0 * rng.unit(), 30.0 * rng.unit());
        config.channel[0].frame_loss = 0.1 * rng.unit();
        config.channel[0].queue = 5 + rng.below(50) as u32;
        match &mut config.channel[0].routing {
            ChannelRouting::Aodv(aodv) => {
                *aodv = AodvConfig {
                    hello: rng.chance(0.3),
                    local_repair: rng.chance(0.7),
                    ..aodv.clone()
                }
            }
            ChannelRouting::Dsr(dsr) => {
                *dsr = DsrConfig {
                    promiscuous: rng.chance(0.7),
                    ..dsr.clone()
                }
            }
            _ => {}
        }
        for f in 0..4 {
            let from = rng.below(nodes as u64) as usize;
            let to = (from + 1 + rng.below(nodes as u64 - 1) as usize) % nodes;
            let mut flow = udp(
                &format!("udp{f}"),
                from,
                to,
                Rate::from_bps(10_000 + rng.below(300_000)),
            );
            flow.stop = Some(Span::from_secs(40));
            config.flow.push(flow);
            let mut flow = FlowConfig::new(
                &format!("sctp{f}"),
                FlowKind::Sctp,
                &format!("n{to}"),
                &format!("n{from}"),
            );
            flow.traffic = file(20_000);
            config.flow.push(flow);
        }
        // Endless, so that the run continues until nothing is queued.
        let mut endless = FlowConfig::new("endless", FlowKind::Sctp, "n0", "n1");
        endless.traffic = paced(TrafficKind::Cbr, Rate::from_bps(1000), 100);
        config.flow.push(endless);
        let result = run(&config, seed);
        let place = format!("WHIMBREL_MANET_SEED={seed}, {routing}");
        assert_eq!(result.fingerprint, run(&config, seed).fingerprint, "{place}");
        for flow in &result.flows {
            assert_eq!(
                (flow.messages_repeated, flow.messages_disordered),
                (0, 0),
                "{place}, {}",
                flow.name
            );
            if flow.kind == FlowKind::Udp {
                let ended = flow.messages_delivered + flow.drops.total();
                assert_eq!(flow.messages_sent, ended, "{place}, {}: {:?}", flow.name, flow.drops);
            } else {
                assert!(flow.file.is_none_or(|file| file.wrong == 0), "{place}, {}", flow.name);
            }
        }
    }
}

#[test]
fn a_distant_network_changes_nothing() {
    for routing in PROTOCOLS {
        let mut config = line(routing, 5, 40);
        config.flow = vec![udp("data", 0, 4, Rate::from_bps(40_000))];
        let first = run(&config, 7);
        add(&mut config, NodeConfig::at("far0", 1e5, 0.0));
        add(&mut config, NodeConfig::at("far1", 1e5 + 100.0, 0.0));
        let traffic = paced(TrafficKind::Cbr, Rate::from_bps(100_000), 512);
        config.flow.push(FlowConfig {
            traffic,
            ..FlowConfig::new("far", FlowKind::Udp, "far0", "far1")
        });
        let more = run(&config, 7);
        assert!(more.flows[1].messages_delivered > 100, "{routing}");
        assert_eq!(more.flows[0].fingerprint, first.flows[0].fingerprint, "{routing}");
    }
}

/// Stores the route events that an observer receives.
#[derive(Default)]
struct Routes(Vec<RouteEvent>);

impl Observer for Routes {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::Routes
    }

    fn route(&mut self, event: &RouteEvent) {
        self.0.push(*event);
    }
}

/// Returns 0 - 1 - 3 and 0 - 2 - 3 with DSR and an association from 0 to 3 with `addresses` addresses at each end. Node 1 moves far
/// away at 60 s if `leaves`.
fn diamond(addresses: u8, leaves: bool) -> (SimConfig, Resources) {
    let mut config = network("dsr", 120);
    for (node, [x, y]) in [[0.0, 0.0], [200.0, 120.0], [200.0, -120.0], [400.0, 0.0]]
        .into_iter()
        .enumerate()
    {
        add(&mut config, NodeConfig::at(&format!("n{node}"), x, y));
        config.radio[node].addresses = addresses;
    }
    let mut resources = Resources::default();
    if leaves {
        let script =
            "$node_(0) set X_ 200.0\n$node_(0) set Y_ 120.0\n$ns_ at 60.0 \"$node_(0) setdest 200.0 9000.0 1000.0\"\n";
        let walk = PathBuf::from("walk");
        config.node[1].position = None;
        config.node[1].mobility = Some(MobilityConfig::File {
            file: walk.clone(),
            node: 0,
        });
        resources
            .movements
            .insert(walk, Arc::new(Movements::parse(script).expect("a script")));
    }
    config.flow = vec![FlowConfig {
        sctp: Some(AssociationConfig {
            accounting: Some(Accounting::Path),
            ..AssociationConfig::default()
        }),
        traffic: paced(TrafficKind::Cbr, Rate::from_bps(200_000), 1000),
        ..FlowConfig::new("data", FlowKind::Sctp, "n0", "n3")
    }];
    (config, resources)
}

#[test]
fn two_addresses_of_a_radio_use_disjoint_routes() {
    let passed = |addresses: u8, leaves: bool| {
        let (config, resources) = diamond(addresses, leaves);
        let world = World::new(&config, 1, &resources, RunOptions::default()).expect("a valid scenario");
        let mut routes = Routes::default();
        let result = world.run_with(&mut routes, &RunControl::new());
        let flow = &result.flows[0];
        println!("{addresses} addresses: {:?} {flow:?}", routes.0);
        assert!(flow.messages_delivered > 2900, "{flow:?}");
        let by: [u64; 2] = [1, 2].map(|node| result.radios[node].data);
        (by, routes.0)
    };
    let ([one, other], _) = passed(1, false);
    assert!(one.min(other) * 20 < one.max(other), "one route: {one} and {other}");
    let ([one, other], routes) = passed(2, false);
    assert!(one.min(other) * 2 > one.max(other), "two routes: {one} and {other}");
    // Both routes keep their nodes once they are known.
    let late = Time::ZERO + Span::from_secs(10);
    assert!(routes.iter().all(|event| event.at < late), "{routes:?}");
    // Without node 1 the other route carries all data.
    let ([one, other], routes) = passed(2, true);
    assert!(other > one + one / 2, "{one} and {other}");
    let broken = Time::ZERO + Span::from_secs(60);
    let after: Vec<_> = routes
        .iter()
        .filter(|event| event.at > broken && event.radio == 0)
        .collect();
    assert!(
        after.iter().all(|event| event.next_hop == Some(2)) && after.len() <= 2,
        "{after:?}"
    );
}

#[test]
fn only_dsr_supports_more_than_one_address() {
    let refused = |change: &dyn Fn(&mut SimConfig)| {
        let (mut config, _) = diamond(2, false);
        config.validate().expect("it is valid");
        change(&mut config);
        config.validate().expect_err("it is not").path
    };
    for routing in ["aodv", "dsdv", "static", "direct"] {
        let path = refused(&|config| config.channel[0].routing = ChannelRouting::by_name(routing).expect("a protocol"));
        assert_eq!(path, "radio[0].addresses");
    }
    assert_eq!(refused(&|config| config.radio[2].addresses = 0), "radio[2].addresses");
    assert_eq!(refused(&|config| config.radio[2].addresses = 5), "radio[2].addresses");
}

#[test]
fn an_observer_sees_routes_change_as_nodes_move() {
    for routing in ["static", "aodv", "dsdv", "dsr"] {
        let mut config = line(routing, 3, 60);
        // The last node moves from behind its neighbour to a place where only the first node receives it.
        let script =
            "$node_(0) set X_ 400.0\n$node_(0) set Y_ 0.0\n$ns_ at 20.0 \"$node_(0) setdest 1.0 200.0 40.0\"\n";
        let walk = PathBuf::from("walk");
        config.node[2].position = None;
        config.node[2].mobility = Some(MobilityConfig::File {
            file: walk.clone(),
            node: 0,
        });
        let mut flow = udp("data", 0, 2, Rate::from_bps(40_000));
        flow.start = Span::from_secs(15);
        config.flow = vec![flow];
        let mut resources = Resources::default();
        let movements = Movements::parse(script).expect("a script");
        resources.movements.insert(walk, Arc::new(movements));
        let mut routes = Routes::default();
        let world = World::new(&config, 1, &resources, RunOptions::default()).expect("a valid scenario");
        let result = world.run_with(&mut routes, &RunControl::new());
        let taken: Vec<_> = routes.0.iter().map(|e| (e.radio, e.destination, e.next_hop)).collect();
        assert_eq!(taken[..2], [(0, 2, Some(1)), (1, 2, Some(2))], "{routing}");
        if routing == "static" {
            // Routes change with the movement only if a protocol finds them.
            continue;
        }
        assert_eq!(
            taken.iter().rfind(|(from, to, _)| (*from, *to) == (0, 2)),
            Some(&(0, 2, Some(2))),
            "{routing}"
        );
        assert!(routes.0.is_sorted_by_key(|event| event.at), "{routing}");
        assert!(result.flows[0].messages_delivered > 300, "{routing}");
    }
}

/// Returns an association between `a` and `b` with three paths: a link to `q` that reorders and duplicates packets, a radio path
/// through `q`, and a slightly slower one on another channel through `r`.
fn three_ways(routing: &str, policy: PathPolicySpec) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(60));
    for (name, x, y) in [
        ("a", 0.0, 0.0),
        ("q", 200.0, 10.0),
        ("r", 200.0, -10.0),
        ("b", 400.0, 0.0),
    ] {
        config.node.push(NodeConfig::at(name, x, y));
    }
    let mut bad = LinkConfig::new("a", "q", Rate::from_mbps(2), Span::from_millis(20));
    bad.duplicate = 0.3;
    bad.jitter = Some(JitterConfig::Uniform {
        min: Span::ZERO,
        max: Span::from_millis(40),
        reorder: true,
    });
    config.link = vec![
        bad,
        LinkConfig::new("q", "b", Rate::from_mbps(2), Span::from_millis(20)),
    ];
    for (name, middle) in [("near", "q"), ("far", "r")] {
        let mut channel = ChannelConfig::new(name);
        channel.phy = PhyKind::Dsss2;
        channel.routing = ChannelRouting::by_name(routing).expect("a protocol");
        // It is slower because of RTS and CTS.
        channel.rts_threshold = if name == "far" { 0 } else { 2347 };
        config.channel.push(channel);
        for node in ["a", middle, "b"] {
            config.radio.push(RadioConfig::new(node, name));
        }
    }
    let sctp = AssociationConfig {
        path_policy: Some(policy),
        hb_interval: Span::from_secs(1),
        ..AssociationConfig::default()
    };
    let traffic = paced(TrafficKind::Cbr, Rate::from_bps(400_000), 1000);
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        traffic,
        // DSDV first has to learn all routes.
        start: Span::from_secs(18),
        ..FlowConfig::new("data", FlowKind::Sctp, "a", "b")
    }];
    config
}

#[test]
fn a_sctp_leaves_for_a_path_that_ends_over_another_node() {
    // Pongaliur 2005, Figure 4.7.
    let policy = |rtt_ratio| {
        PathPolicySpec::GapTrend(GapTrendParameters {
            threshold: 1,
            period: Span::from_millis(200),
            rtt_ratio,
            shift: 10.0,
            ..GapTrendParameters::default()
        })
    };
    let sent = |routing: &str, rtt_ratio: f64| {
        let result = run(&three_ways(routing, policy(rtt_ratio)), 1);
        assert!(result.flows[0].sender.path_switches > 0, "{routing}");
        ["a-near", "a-far"].map(|name| {
            let radio = result.radios.iter().find(|radio| radio.name == name);
            radio.map_or(0, |radio| radio.data)
        })
    };
    for routing in ["static", "aodv", "dsdv", "dsr"] {
        let [near, far] = sent(routing, 5.0);
        assert!(far > 10 * near && far > 500, "{routing}: {near} over q, {far} over r");
    }
    // With the lowest round-trip time as the only criterion, it is the other path.
    let [near, far] = sent("static", 1.0);
    assert!(near > 10 * far && near > 500, "{near} over q, {far} over r");
}
