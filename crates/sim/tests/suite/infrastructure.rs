//! Access points, stations and hand-offs: times, shares of the medium, silences, and drops.

use crate::common::radio::every_message_has_an_end;
use crate::common::{file, paced, run, watch};
use whimbrel_control::{Rate, Rng, Span, Time};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    ChannelConfig, ChannelRouting, FlowConfig, FlowKind, HandoffConfig, LinkConfig, NodeConfig, PhyKind, RadioConfig,
    SimConfig, TrafficKind,
};
use whimbrel_sim::{DropCause, Entry, Interest, Observer, OpenWorld, PacketEvent, PacketFate, Resources, RunResult};

/// Returns a server, a switch, and access points `ap0`, `ap1`, ... 200 m apart in a row, on separate channels `ch0`, `ch1`, ... or
/// all on `ch0`. No stations.
fn network(access_points: usize, phy: PhyKind, one_channel: bool, seconds: u64) -> SimConfig {
    let mut config = SimConfig::empty(Span::from_secs(seconds));
    config.node = vec![NodeConfig::new("server"), NodeConfig::new("switch")];
    let core = LinkConfig::new("server", "switch", Rate::from_mbps(100), Span::from_millis(10));
    config.link = vec![core];
    for i in 0..access_points {
        let name = format!("ap{i}");
        config.node.push(NodeConfig::at(&name, 200.0 * i as f64, 0.0));
        let wire = LinkConfig::new("switch", &name, Rate::from_mbps(100), Span::from_micros(100));
        config.link.push(wire);
        let medium = if one_channel {
            "ch0".to_owned()
        } else {
            format!("ch{i}")
        };
        if i == 0 || !one_channel {
            let mut channel = ChannelConfig::new(&medium);
            channel.phy = phy;
            config.channel.push(channel);
        }
        config.radio.push(RadioConfig {
            name: Some(name.clone()),
            ..RadioConfig::new(&name, &medium)
        });
    }
    config
}

/// Adds a station at `ap0`.
fn station(config: &mut SimConfig, name: &str, [x, y]: [f64; 2]) {
    config.node.push(NodeConfig::at(name, x, y));
    config.radio.push(RadioConfig {
        name: Some(name.to_owned()),
        access_point: Some("ap0".to_owned()),
        ..RadioConfig::new(name, "ch0")
    });
}

/// Adds a hand-off of the last station.
fn handoff(config: &mut SimConfig, at: Span, to: &str, takes: Span) {
    let radio = config.radio.last_mut().expect("a station");
    let to = to.to_owned();
    radio.handoff.push(HandoffConfig { at, to, takes });
}

/// Returns datagrams in IP packets of `bytes`.
fn datagrams(from: &str, to: &str, rate: Rate, bytes: u32) -> FlowConfig {
    FlowConfig {
        traffic: paced(TrafficKind::Cbr, rate, bytes - 28),
        ..FlowConfig::new(&format!("{from}-{to}"), FlowKind::Udp, from, to)
    }
}

/// Returns five hundred small datagrams per second: half of the capacity of the channel.
fn each_two_milliseconds(from: &str, to: &str) -> FlowConfig {
    datagrams(from, to, Rate::from_bps(8 * 100 * 500), 128)
}

/// Delivery times of the first flow's packets.
#[derive(Default)]
struct Arrivals(Vec<Time>);

impl Observer for Arrivals {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::HostPackets
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.flow == 0 && event.fate == PacketFate::Delivered {
            self.0.push(event.at);
        }
    }
}

impl Arrivals {
    /// Returns the longest time without a delivery, in milliseconds, and its start.
    fn silence(&self) -> (f64, f64) {
        let gaps = self.0.windows(2).map(|pair| (pair[1].since(pair[0]), pair[0]));
        let (gap, from) = gaps.max().expect("several packets");
        (gap.as_secs_f64() * 1e3, from.as_secs_f64())
    }
}

fn ended(result: &RunResult) -> bool {
    result
        .flows
        .iter()
        .all(|flow| flow.messages_sent == flow.messages_delivered + flow.drops.total())
}

#[test]
fn a_downlink_exchange_has_the_exact_duration_of_the_standard() {
    for rts in [false, true] {
        let mut config = network(1, PhyKind::B11, false, 2);
        station(&mut config, "sta", [150.0, 0.0]);
        if rts {
            config.channel[0].rts_threshold = 0;
        }
        let mut flow = datagrams("server", "sta", Rate::from_bps(1000), 1000);
        flow.traffic.count = Some(1);
        flow.start = Span::from_secs(1);
        config.flow = vec![flow];
        let result = run(&config, 1);
        // Two links: 80 us each at 100 Mbit/s, 10 ms and 100 us of delay. Then 192 us of preamble, 8 * 1036 bits at 11 Mbit/s
        // signalled as 754 us, and 500 ns of propagation. RTS 352 us, CTS 304 us, each with a SIFS of 10 us and the propagation.
        let wires = 80.0 + 10_000.0 + 80.0 + 100.0;
        let reserved = if rts { 352.0 + 10.0 + 304.0 + 10.0 + 1.0 } else { 0.0 };
        let expected = wires + reserved + 192.0 + 754.0 + 0.5;
        let delay = result.flows[0].delay.mean.as_secs_f64() * 1e6;
        assert!((delay - expected).abs() < 0.02, "{delay} us, not {expected}");
        let [point, station] = &result.radios[..] else {
            panic!("two radios")
        };
        assert_eq!((point.data, station.received, station.ack), (1, 1, 1));
        assert_eq!((point.rts, station.cts), (u64::from(rts), u64::from(rts)));
    }
}

#[test]
fn two_stations_communicate_through_their_access_point() {
    let mut config = network(1, PhyKind::B11, false, 10);
    station(&mut config, "a", [-100.0, 0.0]);
    station(&mut config, "b", [100.0, 0.0]);
    config.flow = vec![datagrams("a", "b", Rate::from_bps(10 * 8 * 972), 1000)];
    config.flow[0].start = Span::from_millis(10);
    let result = run(&config, 1);
    let flow = &result.flows[0];
    assert!((99..=100).contains(&flow.messages_delivered));
    let sent: Vec<_> = result.radios.iter().map(|radio| radio.data).collect();
    assert_eq!(sent, [flow.messages_sent, flow.messages_sent, 0]);
    // Twice 946 us; in between SIFS, ACK (304 us), DIFS and a back-off of 0 to 31 slots of 20 us, on average 310 us.
    let mean = flow.delay.mean.as_secs_f64() * 1e6;
    let expected = 2.0 * 946.0 + 10.0 + 304.0 + 50.0 + 310.0;
    assert!((mean - expected).abs() < 60.0, "{mean} us, not {expected}");
    assert!(result.links.iter().all(|link| link.packets == 0), "no link is used");
    // They are in range of each other, but a station communicates only with its access point.
    assert!(ended(&result));
}

#[test]
fn stations_and_their_access_point_share_a_full_channel() {
    // The access point contends like a station (Heusse et al. 2003): it gets one part of n + 1, independent of the number of its
    // stations.
    for n in [2, 5] {
        let mut config = network(1, PhyKind::B11, false, 20);
        for i in 0..n {
            let angle = f64::from(i) / f64::from(n) * std::f64::consts::TAU;
            station(&mut config, &format!("s{i}"), [10.0 * angle.cos(), 10.0 * angle.sin()]);
        }
        let rate = Rate::from_mbps(8);
        config.flow = (0..n)
            .map(|i| datagrams(&format!("s{i}"), "server", rate, 1500))
            .chain((0..n).map(|i| datagrams("server", &format!("s{i}"), rate, 1500)))
            .collect();
        config.measure.from = Span::from_secs(1);
        let result = run(&config, 1);
        let sum = |flows: &[whimbrel_sim::FlowResult]| flows.iter().map(|flow| flow.goodput_bps).sum::<f64>();
        let (up, down) = result.flows.split_at(n as usize);
        let share = sum(down) / (sum(up) + sum(down));
        let fair = 1.0 / f64::from(n + 1);
        assert!((share / fair - 1.0).abs() < 0.1, "{n} stations: down {share}");
        // One exchange: DIFS 50, frame 192 + 1118, SIFS 10, ACK 304 us; the smallest back-off of n + 1 is on average 310, 155, ...
        let total = (sum(up) + sum(down)) / 1e6;
        assert!((5.6..6.8).contains(&total), "{n} stations: {total} Mbit/s");
    }
}

#[test]
fn a_handoff_causes_a_silence_of_its_duration() {
    for (one_channel, takes) in [(false, 50), (true, 50), (false, 200), (false, 0)] {
        let mut config = network(2, PhyKind::B11, one_channel, 5);
        station(&mut config, "sta", [100.0, 0.0]);
        let (at, takes) = (Span::from_millis(2000), Span::from_millis(takes));
        handoff(&mut config, at, "ap1", takes);
        let mut flow = each_two_milliseconds("server", "sta");
        flow.stop = Some(Span::from_secs(4));
        config.flow = vec![flow];
        let mut arrivals = Arrivals::default();
        let result = watch(&config, 1, &mut arrivals);
        let (silence, from) = arrivals.silence();
        let expected = takes.as_secs_f64() * 1e3;
        // Packets on the links use the new route; one packet every two milliseconds.
        assert!(
            silence >= expected && silence < expected + 4.0,
            "{silence} ms, not {expected}"
        );
        if !takes.is_zero() {
            assert!((from - 2.0).abs() < 0.003, "it starts at {from} s");
        }
        assert!(ended(&result), "{:?}", result.drops);
        let flow = &result.flows[0];
        let lost = flow.messages_sent - flow.messages_delivered;
        // Packets sent over the air in the meantime, and packets queued when the station left.
        assert!((lost as f64 - expected / 2.0).abs() <= 2.0, "{lost} lost");
        let [away, left] = [DropCause::OutOfRange, DropCause::NotAssociated].map(|cause| flow.drops.of(cause));
        assert_eq!(
            away + left + flow.drops.of(DropCause::QueueFull),
            lost,
            "{:?}",
            flow.drops
        );
        if takes > Span::from_millis(20) {
            assert!(away > 0 && left > 0, "{:?}", flow.drops);
        }
        assert!(result.radios[1].data > 890 && result.radios[0].data > 950);
        assert_eq!(result.fingerprint, run(&config, 1).fingerprint);
    }
}

#[test]
fn packets_queued_at_a_station_go_to_its_new_access_point() {
    for one_channel in [false, true] {
        let mut config = network(3, PhyKind::B11, one_channel, 5);
        station(&mut config, "sta", [200.0, 20.0]);
        let takes = Span::from_millis(40);
        handoff(&mut config, Span::from_secs(1), "ap1", takes);
        handoff(&mut config, Span::from_secs(2), "ap2", takes);
        handoff(&mut config, Span::from_secs(3), "ap0", takes);
        let mut flow = each_two_milliseconds("sta", "server");
        flow.stop = Some(Span::from_secs(4));
        config.flow = vec![flow];
        let mut arrivals = Arrivals::default();
        let result = watch(&config, 1, &mut arrivals);
        let flow = &result.flows[0];
        assert_eq!(flow.messages_delivered, flow.messages_sent, "{:?}", flow.drops);
        assert_eq!(flow.messages_repeated, 0);
        assert!((19..=20).contains(&result.radios[3].max_queue_packets));
        let (silence, _) = arrivals.silence();
        assert!((40.0..43.0).contains(&silence), "{silence}");
        // Each access point carries its part.
        let shares: Vec<_> = result.links[2..].iter().map(|link| link.packets).collect();
        assert!(
            shares.iter().filter(|packets| **packets > 450).count() == 3,
            "{shares:?}"
        );
    }
}

#[test]
fn the_smallest_mtu_of_a_way_changes_with_a_handoff() {
    let mut config = network(2, PhyKind::B11, false, 5);
    config.link[2].mtu = 1300;
    station(&mut config, "sta", [100.0, 0.0]);
    handoff(&mut config, Span::from_secs(2), "ap1", Span::ZERO);
    config.flow = vec![datagrams("server", "sta", Rate::from_mbps(1), 128)];
    let mut world = OpenWorld::new(&config, 1, &Resources::default(), &[0]).expect("a network");
    let up = Entry {
        forward: false,
        ..Entry::default()
    };
    let mtus = |world: &OpenWorld| {
        let limits = [Entry::default(), up].map(|entry| world.path_mtus(&entry));
        limits.map(|limits| limits.last().map(|limit| (limit.mtu, limit.router)).expect("a route"))
    };
    assert_eq!(mtus(&world).map(|(mtu, _)| mtu), [1500, 1500]);
    world.advance(Time::ZERO + Span::from_secs(3));
    assert_eq!(world.route_changes(), 1);
    // The switch is in front of the narrow wire in one direction, the new access point in the other.
    let routers = ["10.2.0.1", "10.2.0.2"].map(|address| address.parse().expect("an address"));
    assert_eq!(mtus(&world), [(1300, routers[0]), (1300, routers[1])]);
    let nowhere = Entry { to: 1, ..up };
    assert!(world.path_mtus(&nowhere).is_empty());
}

#[test]
fn only_packets_behind_the_switch_use_the_old_route() {
    // The access points have long links: packets on the old one are lost when the station has moved, packets before the switch are
    // not.
    let mut config = network(2, PhyKind::B11, false, 5);
    config.link[1].delay = Span::from_millis(30);
    config.link[2].delay = Span::from_millis(30);
    station(&mut config, "sta", [100.0, 0.0]);
    handoff(&mut config, Span::from_secs(2), "ap1", Span::ZERO);
    config.flow = vec![each_two_milliseconds("server", "sta")];
    config.flow[0].stop = Some(Span::from_secs(4));
    let result = run(&config, 1);
    let left = result.drops.of(DropCause::NotAssociated);
    assert!((14..=16).contains(&left), "{:?}", result.drops);
    assert_eq!(result.drops.total(), left);
    assert!(ended(&result));
}

#[test]
fn a_handoff_between_radios_of_one_node_loses_no_queued_packets() {
    let mut config = network(1, PhyKind::B11, false, 5);
    let mut fast = ChannelConfig::new("fast");
    fast.phy = PhyKind::A54;
    config.channel.push(fast);
    config.radio.push(RadioConfig::new("ap0", "fast"));
    station(&mut config, "sta", [100.0, 0.0]);
    handoff(&mut config, Span::from_secs(2), "ap0-fast", Span::from_millis(40));
    config.flow = vec![each_two_milliseconds("server", "sta")];
    config.flow[0].stop = Some(Span::from_secs(4));
    let result = run(&config, 1);
    assert_eq!(result.drops.of(DropCause::NotAssociated), 0);
    // Frames that the access point sent in vain: seven attempts each with exponential back-off.
    let away = result.drops.of(DropCause::OutOfRange);
    assert!(
        (1..=3).contains(&away) && result.drops.total() == away,
        "{:?}",
        result.drops
    );
    assert!(ended(&result));
    assert!(result.radios[1].data > 950, "the station sends at 54 Mbit/s");
}

/// Returns a mobile node with a Wi-Fi radio that is handed over and a cellular link.
fn two_networks(takes: Span) -> SimConfig {
    let mut config = network(2, PhyKind::B11, false, 60);
    station(&mut config, "mobile", [100.0, 0.0]);
    handoff(&mut config, Span::from_secs(5), "ap1", takes);
    let mut cellular = LinkConfig::new("switch", "mobile", Rate::from_mbps(1), Span::from_millis(40));
    cellular.name = Some("cellular".into());
    config.link.push(cellular);
    let mut second = LinkConfig::new("server", "switch", Rate::from_mbps(100), Span::from_millis(10));
    second.name = Some("second".into());
    config.link.push(second);
    config.link[0].name = Some("first".into());
    let mut flow = FlowConfig::new("download", FlowKind::Sctp, "server", "mobile");
    flow.traffic = file(4_000_000);
    flow.from_links = vec!["first".into(), "second".into()];
    flow.to_links = vec!["mobile".into(), "cellular".into()];
    flow.sctp = Some(AssociationConfig {
        path_max_retrans: 1,
        ..AssociationConfig::default()
    });
    config.flow = vec![flow];
    config
}

#[test]
fn an_association_with_two_networks_survives_any_handoff() {
    let cellular = |result: &RunResult| {
        let links = result.links.iter().filter(|link| link.name == "cellular");
        links.map(|link| link.packets).sum::<u64>()
    };
    let short = run(&two_networks(Span::from_millis(50)), 1);
    let long = run(&two_networks(Span::from_secs(20)), 1);
    for result in [&short, &long] {
        let flow = &result.flows[0];
        assert!(flow.file.is_some_and(|file| file.intact), "{:?}", flow.outcome);
        assert_eq!((flow.messages_repeated, flow.messages_disordered), (0, 0));
    }
    // A short silence costs at most a timeout; a long one moves all traffic to the other network.
    assert!(cellular(&short) < 100, "{}", cellular(&short));
    assert!(cellular(&long) > 1000, "{}", cellular(&long));
    assert!(short.flows[0].sender.timeouts <= 2);
    assert!(short.radios[1].data > 500, "it continues at the second access point");
}

#[test]
fn every_packet_is_accounted_for_with_moving_stations() {
    for seed in 0..12 {
        let rng = &mut Rng::stream(seed, "wandering stations");
        let points = 2 + rng.below(3);
        let phy = [PhyKind::Dsss2, PhyKind::B11, PhyKind::G54][rng.below(3) as usize];
        let mut config = network(points as usize, phy, rng.chance(0.5), 30);
        for channel in &mut config.channel {
            channel.queue = 1 + rng.below(50) as u32;
            channel.frame_loss = 0.2 * rng.unit();
            channel.rts_threshold = [0, 300, 2347][rng.below(3) as usize];
        }
        let stations = 1 + rng.below(5);
        for i in 0..stations {
            station(&mut config, &format!("s{i}"), [600.0 * rng.unit(), 100.0 * rng.unit()]);
            let mut at = Span::ZERO;
            for _ in 0..rng.below(30) {
                at += Span::from_millis(1 + rng.below(800));
                let takes = Span::from_micros([0, 1, 700, 50_000][rng.below(4) as usize]);
                handoff(&mut config, at, &format!("ap{}", rng.below(points)), takes);
                at += takes;
            }
        }
        let all: Vec<_> = (0..stations)
            .map(|i| format!("s{i}"))
            .chain(["server".into()])
            .collect();
        for f in 0..6 {
            let from = rng.below(all.len() as u64) as usize;
            let to = (from + 1 + rng.below(all.len() as u64 - 1) as usize) % all.len();
            let rate = Rate::from_bps(50_000 + rng.below(2_000_000));
            let mut flow = datagrams(&all[from], &all[to], rate, 600);
            flow.name = format!("udp{f}");
            flow.stop = Some(Span::from_secs(20));
            config.flow.push(flow);
            if f < 2 {
                let mut flow = FlowConfig::new(&format!("sctp{f}"), FlowKind::Sctp, &all[to], &all[from]);
                flow.traffic = file(100_000);
                config.flow.push(flow);
            }
        }
        // Endless, so that the run continues until the queues are empty.
        config.flow.push(FlowConfig {
            traffic: paced(TrafficKind::Cbr, Rate::from_bps(1000), 100),
            ..FlowConfig::new("endless", FlowKind::Sctp, "server", "s0")
        });
        let result = run(&config, seed);
        assert_eq!(result.fingerprint, run(&config, seed).fingerprint, "seed {seed}");
        every_message_has_an_end(&result, seed);
    }
}

#[test]
fn rejects_mistakes_with_their_place() {
    let mut config = network(2, PhyKind::B11, false, 5);
    station(&mut config, "sta", [100.0, 0.0]);
    config.flow = vec![each_two_milliseconds("server", "sta")];
    assert!(config.validate().is_ok());
    let error = |change: &dyn Fn(&mut SimConfig)| {
        let mut config = config.clone();
        change(&mut config);
        config.validate().expect_err("a mistake").to_string()
    };
    let unknown = error(&|config| config.radio[2].access_point = Some("ap7".into()));
    assert!(
        unknown.starts_with("radio[2].access_point = ap7: allowed is the name of a radio"),
        "{unknown}"
    );
    let elsewhere = error(&|config| config.radio[2].access_point = Some("ap1".into()));
    assert!(elsewhere.contains("one on channel \"ch0\""), "{elsewhere}");
    let itself = error(&|config| config.radio[0].access_point = Some("sta".into()));
    assert!(itself.contains("not itself a station"), "{itself}");
    let early = error(&|config| {
        handoff(config, Span::from_secs(1), "ap1", Span::from_secs(1));
        handoff(config, Span::from_millis(1500), "ap0", Span::ZERO);
    });
    assert!(
        early.starts_with("radio[2].handoff[1].at = 1500 ms: allowed is 2 s or later"),
        "{early}"
    );
    let ad_hoc = error(&|config| {
        config.radio[2].access_point = None;
        handoff(config, Span::from_secs(1), "ap1", Span::ZERO);
    });
    assert!(ad_hoc.starts_with("radio[2].access_point = nothing"), "{ad_hoc}");
    let routed = error(&|config| {
        config.channel[0].routing = ChannelRouting::by_name("aodv").expect("a protocol");
    });
    assert!(routed.starts_with("channel[0].routing = a protocol"), "{routed}");
}
