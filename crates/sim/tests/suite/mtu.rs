//! Links with a smaller MTU than the packets of hosts: reports, fragments, and routers that report nothing.

use crate::common::{build, file, flow, nodes, paced, pair, run};
use whimbrel_control::{Rate, Rng, Scheme, Span, Time};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    DirectionConfig, FlowConfig, FlowKind, JitterConfig, LinkConfig, LossConfig, NodeConfig, SimConfig, TcpConfig,
    TcpFlavour, TrafficConfig, TrafficKind,
};
use whimbrel_sim::{DropCause, Entry, FlowOutcome, OpenWorld, Oversize, Resources, RunResult};

/// Returns a chain of links from `a` to `b` with these MTUs, 10 Mbit/s and 5 ms each.
fn chain(mtus: &[u32], seconds: u64) -> SimConfig {
    let names: Vec<_> = (1..mtus.len()).map(|n| format!("r{n}")).collect();
    let mut all = vec!["a"];
    all.extend(names.iter().map(String::as_str));
    all.push("b");
    let mut config = nodes(&all, seconds);
    config.link = mtus
        .iter()
        .zip(all.windows(2))
        .map(|(mtu, ends)| LinkConfig {
            mtu: *mtu,
            ..LinkConfig::new(ends[0], ends[1], Rate::from_mbps(10), Span::from_millis(5))
        })
        .collect();
    config
}

/// Returns endless messages that are longer than any packet.
fn endless(kind: FlowKind) -> FlowConfig {
    let traffic = TrafficConfig {
        message_bytes: 60_000,
        ..TrafficConfig::default()
    };
    flow("data", kind, traffic)
}

/// Returns the goodput in Mbit/s of a transport over such a chain after six seconds: each report costs SCTP a timeout.
fn goodput(mtus: &[u32], kind: FlowKind) -> (f64, RunResult) {
    let mut config = chain(mtus, 15);
    config.measure.from = Span::from_secs(6);
    config.flow = vec![endless(kind)];
    let result = run(&config, 1);
    (result.flows[0].goodput_bps / 1e6, result)
}

#[test]
fn a_flow_starts_with_the_mtu_of_its_first_link() {
    for kind in [FlowKind::Sctp, FlowKind::Tcp] {
        for mtu in [1492, 1400, 1000, 600] {
            let (mbps, result) = goodput(&[mtu], kind);
            // Headers of 48 and 52 bytes; SCTP packets have a multiple of four bytes.
            let most = 10.0 * f64::from(mtu - 52) / f64::from(mtu);
            assert!(mbps > 0.93 * most, "{kind:?}, {mtu}: {mbps} of {most} Mbit/s");
            assert_eq!(result.drops.of(DropCause::TooBig), 0, "{kind:?}, {mtu}");
            let packet = result.links[0].bytes / result.links[0].packets;
            assert!(
                packet > u64::from(mtu) * 8 / 10 && packet <= mtu.into(),
                "{kind:?}: {packet} bytes"
            );
        }
    }
}

#[test]
fn a_report_lowers_the_path_mtu() {
    for kind in [FlowKind::Sctp, FlowKind::Tcp] {
        // By TCP, the receiver announces the MSS of its own first link.
        for mtus in [
            &[1500, 1492][..],
            &[1500, 1400, 1300, 1500],
            &[1500, 600, 1500],
            &[1400, 1500, 1399, 1200, 1400],
        ] {
            let (mbps, _) = goodput(mtus, kind);
            let least = mtus.iter().min().copied().unwrap_or_default();
            let most = 10.0 * f64::from(least - 52) / f64::from(least);
            assert!(mbps > 0.9 * most, "{kind:?}, {mtus:?}: {mbps} of {most} Mbit/s");
        }
    }
}

#[test]
fn a_link_with_less_than_the_smallest_packet_of_a_transport_gets_fragments() {
    for kind in [FlowKind::Sctp, FlowKind::Tcp] {
        for mtus in [&[300][..], &[68], &[1500, 300], &[1500, 68], &[200, 68]] {
            let (mbps, result) = goodput(mtus, kind);
            assert!(mbps > 1.5, "{kind:?}, {mtus:?}: {mbps} Mbit/s");
            assert_eq!(result.flows[0].outcome, FlowOutcome::Running);
        }
    }
}

#[test]
fn the_reverse_direction_has_its_own_mtu() {
    for kind in [FlowKind::Sctp, FlowKind::Tcp] {
        for (forward, reverse) in [(1500, 68), (1000, 1500), (1500, 1000)] {
            let mut config = chain(&[1500, 1500], 10);
            config.link[1].forward = Some(DirectionConfig {
                mtu: Some(forward),
                ..DirectionConfig::default()
            });
            config.link[1].reverse = Some(DirectionConfig {
                mtu: Some(reverse),
                ..DirectionConfig::default()
            });
            // Losses, so that acknowledgements carry blocks.
            config.link[0].loss = LossConfig::Periodic { every: 100, offset: 0 }.into();
            config.flow = vec![flow("file", kind, file(1_000_000))];
            let result = run(&config, 1);
            assert_eq!(
                result.flows[0].outcome,
                FlowOutcome::Completed,
                "{kind:?}, {forward}, {reverse}"
            );
        }
    }
}

#[test]
fn black_hole_detection_helps_where_a_router_reports_nothing() {
    let over = |kind: FlowKind, detects: bool, icmp: bool| {
        let mut config = chain(&[1500, 1400, 1500], 60);
        config.node[1].icmp = icmp;
        config.measure.from = Span::from_secs(30);
        config.flow = vec![endless(kind)];
        if kind == FlowKind::Sctp {
            config.flow[0].sctp = Some(AssociationConfig {
                black_hole_detection: detects,
                ..AssociationConfig::default()
            });
        }
        run(&config, 1).flows[0].goodput_bps / 1e6
    };
    assert_eq!(over(FlowKind::Sctp, false, false), 0.0);
    assert_eq!(over(FlowKind::Tcp, false, false), 0.0);
    let detected = over(FlowKind::Sctp, true, false);
    assert!(detected > 9.0, "{detected} Mbit/s");
    assert!(
        over(FlowKind::Sctp, true, true) > detected,
        "1280 bytes are less than 1400"
    );
}

#[test]
fn the_first_node_knows_its_own_links_even_if_it_reports_nothing() {
    for kind in [FlowKind::Sctp, FlowKind::Tcp] {
        let mut config = chain(&[1400], 10);
        config.node.iter_mut().for_each(|node| node.icmp = false);
        config.flow = vec![endless(kind)];
        assert!(run(&config, 1).flows[0].goodput_bps > 8e6, "{kind:?}");
    }
}

#[test]
fn a_report_takes_the_propagation_delay_back() {
    // The first data packet is sent after the handshake; the report about it comes 2 x 100 ms later, and TCP retransmits at once.
    let mut config = chain(&[1500, 1400, 1500], 10);
    config.link[0].delay = Span::from_millis(100);
    config.flow = vec![flow("file", FlowKind::Tcp, file(10_000))];
    let flow = &run(&config, 1).flows[0];
    // Handshake of 220 ms, 200 ms to the router and back, 110 ms for the file, and up to 30 ms of transmission.
    let done = flow.completion.expect("the file arrives").as_secs_f64();
    assert!((0.53..0.56).contains(&done), "{done}");
    assert_eq!(flow.sender.timeouts, 0);
}

#[test]
fn one_lost_fragment_loses_the_datagram() {
    // 4000 bytes and the headers: eight fragments of 544 bytes or less.
    let mut config = chain(&[576], 400);
    config.link[0].rate = Some(Rate::from_mbps(100));
    config.link[0].loss = LossConfig::Bernoulli { rate: 0.05 }.into();
    config.flow = vec![flow(
        "data",
        FlowKind::Udp,
        paced(TrafficKind::Cbr, Rate::from_mbps(1), 4000),
    )];
    let flow = &run(&config, 1).flows[0];
    assert_eq!(flow.messages_sent, 12_500);
    let arrived = flow.messages_delivered as f64 / flow.messages_sent as f64;
    let expected = 0.95_f64.powi(8);
    assert!((arrived - expected).abs() < 0.015, "{arrived} of {expected}");
    assert_eq!(flow.delivered_packets, flow.messages_delivered);
    // Each lost fragment counts as a dropped packet.
    let dropped = flow.drops.total() as f64 / (8.0 * 12_500.0);
    assert!((dropped - 0.05).abs() < 0.003, "{dropped}");
}

#[test]
fn fragments_arrive_in_any_order_and_repeatedly() {
    let mut config = chain(&[1500, 576, 200], 100);
    for link in &mut config.link {
        link.duplicate = 0.2;
        link.jitter = Some(JitterConfig::Uniform {
            min: Span::ZERO,
            max: Span::from_millis(10),
            reorder: true,
        });
    }
    config.flow = vec![flow(
        "data",
        FlowKind::Udp,
        paced(TrafficKind::Poisson, Rate::from_bps(200_000), 1472),
    )];
    let flow = &run(&config, 3).flows[0];
    assert_eq!(flow.drops.total(), 0);
    assert!(flow.messages_sent > 1000);
    assert!(
        flow.messages_delivered + 3 >= flow.messages_sent,
        "{}",
        flow.messages_delivered
    );
    assert!(flow.delivered_packets <= flow.sender_packets);
}

#[test]
fn a_flow_with_several_links_uses_the_smallest_of_their_mtus() {
    let mut config = pair(Rate::from_mbps(5), Span::from_millis(10), 20);
    config.link.push(config.link[0].clone());
    for (link, (name, mtu)) in config.link.iter_mut().zip([("x", 1500), ("y", 1400)]) {
        (link.name, link.mtu) = (Some(name.to_owned()), mtu);
    }
    config.flow = vec![endless(FlowKind::Sctp)];
    config.flow[0].sctp = Some(AssociationConfig {
        scheme: Scheme::by_name("multipath").expect("it is registered"),
        ..AssociationConfig::default()
    });
    let result = run(&config, 1);
    assert!(result.flows[0].goodput_bps > 8.5e6, "{}", result.flows[0].goodput_bps);
    assert_eq!(result.drops.of(DropCause::TooBig), 0);
}

#[test]
fn large_mtus_change_nothing_unless_a_flow_asks() {
    let with = |mtu: u32, own: Option<u16>| {
        let mut config = chain(&[mtu], 10);
        config.flow = vec![endless(FlowKind::Sctp)];
        config.flow[0].sctp = own.map(|mtu| AssociationConfig {
            mtu,
            ..AssociationConfig::default()
        });
        run(&config, 1).fingerprint
    };
    assert_eq!(with(9000, None), with(1500, None));
    assert_ne!(with(9000, Some(9000)), with(1500, None));
}

#[test]
fn files_arrive_whole_over_random_chains() {
    for seed in seeds(40) {
        let mut rng = Rng::stream(seed, "mtu");
        let mut pick = |from: u64, to: u64| from + rng.below(to - from + 1);
        let mtus: Vec<_> = (0..pick(1, 4)).map(|_| pick(68, 1500) as u32).collect();
        let mut config = chain(&mtus, 3000);
        for link in &mut config.link {
            link.loss = LossConfig::Bernoulli {
                rate: pick(0, 2) as f64 / 1000.0,
            }
            .into();
            link.duplicate = pick(0, 3) as f64 / 100.0;
            link.jitter = (pick(0, 2) == 0).then_some(JitterConfig::Uniform {
                min: Span::ZERO,
                max: Span::from_millis(3),
                reorder: true,
            });
        }
        let flavour = [
            TcpFlavour::Reno,
            TcpFlavour::NewReno,
            TcpFlavour::Sack,
            TcpFlavour::Fack,
        ][pick(0, 3) as usize];
        config.flow = vec![
            flow("sctp", FlowKind::Sctp, file(100_000)),
            FlowConfig {
                tcp: Some(TcpConfig {
                    flavour,
                    ..TcpConfig::default()
                }),
                ..flow("tcp", FlowKind::Tcp, file(100_000))
            },
            flow(
                "udp",
                FlowKind::Udp,
                paced(TrafficKind::Poisson, Rate::from_bps(100_000), pick(1, 3000) as u32),
            ),
        ];
        let result = run(&config, seed);
        for flow in &result.flows[..2] {
            let intact = flow.file.is_some_and(|file| file.intact);
            assert!(intact, "seed {seed}, {mtus:?}: {} {:?}", flow.name, flow.outcome);
        }
    }
}

fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("WHIMBREL_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => vec![seed],
        None => (0..count).collect(),
    }
}

#[test]
fn programs_outside_choose_what_happens_to_long_packets() {
    let mut config = chain(&[1500, 1400], 10);
    config.flow = vec![endless(FlowKind::Udp)];
    config.flow[0].traffic = paced(TrafficKind::Cbr, Rate::from_mbps(1), 1000);
    let arrivals = |oversize: Oversize| {
        let mut world = OpenWorld::new(&config, 1, &Resources::default(), &[0]).expect("a network");
        let entry = Entry {
            oversize,
            tag: 7,
            ..Entry::default()
        };
        assert!(world.send(Time::ZERO, &entry, &[9; 1480]));
        world.advance(Time::ZERO + Span::from_secs(1));
        let mut seen = Vec::new();
        world.deliver(&mut |delivery| {
            assert!(delivery.forward && delivery.tag == 7 && delivery.payload == [9; 1480]);
            seen.push((delivery.at.as_nanos() / 1_000_000, delivery.too_long));
        });
        seen
    };
    assert!(arrivals(Oversize::Drop).is_empty());
    // 1.2 ms of transmission and 5 ms to the router; 5 ms back.
    assert_eq!(arrivals(Oversize::Report), [(11, Some(1400))]);
    assert_eq!(arrivals(Oversize::Fragment), [(12, None)]);
    let world = OpenWorld::new(&config, 1, &Resources::default(), &[0]).expect("a network");
    let mtus: Vec<_> = world
        .path_mtus(&Entry::default())
        .iter()
        .map(|limit| limit.mtu)
        .collect();
    assert_eq!(mtus, [1500, 1400]);
}

#[test]
fn a_silent_node_is_known_to_programs_outside() {
    let mut config = chain(&[1500, 1400, 1300], 10);
    config.node[2] = NodeConfig {
        icmp: false,
        ..config.node[2].clone()
    };
    config.flow = vec![endless(FlowKind::Sctp)];
    let world = OpenWorld::new(&config, 1, &Resources::default(), &[0]).expect("a network");
    let limits = world.path_mtus(&Entry::default());
    let facts: Vec<_> = limits.iter().map(|limit| (limit.mtu, limit.is_reported)).collect();
    assert_eq!(facts, [(1500, true), (1400, true), (1300, false)]);
    let drops = build(&config, 1).run().drops;
    assert!(drops.of(DropCause::TooBig) > 0);
}

/// RFC 8899: no data is needed to find the path MTU, and none is lost.
#[test]
fn a_search_finds_the_mtu_where_a_router_reports_nothing() {
    let run_with = |icmp: bool| {
        let mut config = chain(&[1500, 1400, 1500], 60);
        config.node[1].icmp = icmp;
        config.measure.from = Span::from_secs(30);
        config.flow = vec![endless(FlowKind::Sctp)];
        config.flow[0].sctp = Some(AssociationConfig {
            max_mtu: Some(9000),
            ..AssociationConfig::default()
        });
        run(&config, 1).flows.remove(0)
    };
    let [silent, reported] = [false, true].map(run_with);
    // Of 10 Mbit/s, 1400 bytes carry 1352 in the chunks of messages.
    for flow in [&silent, &reported] {
        assert!(flow.goodput_bps > 9.5e6, "{}", flow.goodput_bps);
    }
    assert!((silent.goodput_bps / reported.goodput_bps - 1.0).abs() < 0.01);
}
