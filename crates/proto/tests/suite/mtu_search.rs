//! The search for the path MTU (RFC 8899).

use crate::support::paths::{confirmed, is_on, path};
use crate::support::{Fate, Host, Net, Sent, addrs};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssocId, AssociationConfig, AuthConfig, Message, PathState, Reliability, State};
use whimbrel_wire::ChunkType;

/// Bytes of the IP header.
const IP: usize = 20;

fn searching() -> AssociationConfig {
    AssociationConfig {
        max_mtu: Some(65535),
        black_hole_detection: true,
        ..AssociationConfig::default()
    }
}

/// Routers drop packets on each path that are longer than its MTU, unless they may be fragmented, and report nothing.
fn narrow(net: &mut Net, mtus: &[usize]) {
    let mtus = mtus.to_vec();
    net.filter = Box::new(move |packet| {
        let mtu = (0..mtus.len())
            .find(|&at| is_on(packet, at))
            .map_or(1500, |at| mtus[at]);
        match packet.bytes.len() + IP > mtu && !packet.fragment {
            true => Fate::Drop,
            false => Fate::Deliver,
        }
    });
}

/// Returns an association on paths with these MTUs whose first data has started the search.
fn established(mtus: &[usize], config: &AssociationConfig) -> (Net, AssocId) {
    let mut net = Net::with_config(mtus.len(), config, 1);
    net.capture = true;
    narrow(&mut net, mtus);
    let a = net.connect(config, mtus.len());
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::A, a), State::Established);
    start(&mut net, a);
    (net, a)
}

/// A sends a message that fills a packet of the base. It arrives, and is not counted.
fn start(net: &mut Net, a: AssocId) {
    net.send(Host::A, a, Message::zeros(0, 1232));
    net.run_for(net.delay * 2);
    net.forget_contents();
}

/// Returns the probes that A has sent: their sizes with the IP header.
fn probes(net: &Net) -> Vec<usize> {
    let sent = net.wire.iter().filter(|sent| sent.from == Host::A);
    sent.filter(|sent| sent.has(ChunkType::PAD))
        .map(|sent| sent.bytes.len() + IP)
        .collect()
}

fn with_data(net: &Net) -> impl Iterator<Item = &Sent> {
    net.wire
        .iter()
        .filter(|sent| sent.from == Host::A && sent.has(ChunkType::DATA))
}

fn mtus<const N: usize>(net: &Net, a: AssocId) -> [u16; N] {
    std::array::from_fn(|index| path(net, a, index).mtu)
}

// RFC 8899 §5.2, §6.2
// [9260:7.3-1]
// [8899:3-1, 3-3, 3-20, 3-21, 4.4-1]
#[test]
fn section_7_3_each_path_has_the_mtu_of_its_links() {
    let (mut net, a) = established(&[9000, 1400], &searching());
    net.run_for(Span::from_secs(30));
    assert_eq!(mtus(&net, a), [9000, 1400]);
    // A chunk fits on every path.
    net.send(Host::A, a, Message::zeros(0, 20_000));
    net.run_for(Span::from_secs(1));
    let longest = with_data(&net)
        .flat_map(|sent| sent.data())
        .map(|data| data.payload.len())
        .max();
    assert_eq!(longest, Some(1400 - IP - 12 - 16));
    // The packets of the first path have several of them.
    assert!(with_data(&net).any(|sent| sent.bytes.len() + IP > 5000));
    assert_eq!(net.contents(Host::B).len(), 1);
    assert_eq!(net.a.association(a).unwrap().stats().retransmissions, 0);
}

// [9260:7.3-1]
// [8899:3-2, 3-4, 3-17, 4.1-1, 5.1.1-3, 5.2-1, 5.3.2-1, 6.2.1.3-1, 6.2.3.3-1]
#[test]
fn section_7_3_the_usual_mtu_is_known_after_one_round_trip_and_a_long_one_after_two() {
    for (mtu, rounds) in [(1500, 1), (9000, 2), (65535, 2)] {
        let config = AssociationConfig {
            max_mtu: Some(mtu),
            ..searching()
        };
        let mut net = Net::with_config(1, &config, 1);
        narrow(&mut net, &[usize::from(mtu)]);
        let a = net.connect(&config, 1);
        net.run_until(Span::from_secs(5), "established", |net| {
            net.state(Host::A, a) == State::Established
        });
        assert_eq!(path(&net, a, 0).mtu, 1280);
        net.send(Host::A, a, Message::zeros(0, 2000));
        net.run_for(net.delay * (2 * rounds) + Span::from_millis(1));
        assert_eq!(path(&net, a, 0).mtu, mtu);
        let sizes: &[usize] = if mtu == 1500 {
            &[1500]
        } else {
            &[1500, usize::from(mtu) / 4 * 4]
        };
        assert_eq!(probes(&net), sizes);
        net.run_for(Span::from_secs(1300));
        assert_eq!(probes(&net), sizes, "there is nothing to search for");
    }
}

#[test]
fn an_association_without_long_packets_sends_no_probes() {
    let mut net = Net::with_config(2, &searching(), 1);
    net.capture = true;
    let a = net.connect(&searching(), 2);
    for _ in 0..100 {
        net.run_for(Span::from_secs(10));
        net.send(Host::A, a, Message::zeros(0, 500));
    }
    assert_eq!(net.contents(Host::B).len(), 99);
    assert_eq!(probes(&net), [0; 0]);
    start(&mut net, a);
    assert_eq!(probes(&net)[..2], [1500; 2], "one for each path");
}

// RFC 8899 §3 item 7, §6.2.1.2
// [8899:3-13, 3-14]
#[test]
fn lost_probes_are_neither_congestion_nor_errors() {
    let (mut net, a) = established(&[1280], &searching());
    let before = path(&net, a, 0);
    for _ in 0..60 {
        net.run_for(Span::from_secs(1));
        assert_eq!(path(&net, a, 0).errors, 0);
    }
    let after = path(&net, a, 0);
    assert_eq!(
        (after.cwnd, after.ssthresh, after.rto),
        (before.cwnd, before.ssthresh, before.rto)
    );
    assert_eq!(after.mtu, 1280);
    let sent = probes(&net);
    assert!(sent.len() > 6 && sent.len() <= 18, "{sent:?}");
    assert_eq!(net.a.association(a).unwrap().stats().timeouts, 0);
    // Of three probes that are lost at the end of a search, the last one may be answered late.
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(300));
    assert_eq!(probes(&net), sent);
}

/// pion and sctp-proto discard packets with PAD.
// [8899:3-4]
#[test]
fn the_base_is_kept_with_a_peer_that_discards_probes() {
    for (keyed, with_data) in [(false, true), (true, true), (false, false)] {
        let config = AssociationConfig {
            auth: match keyed {
                true => AuthConfig::shared_key(b"0123456789abcdef0123"),
                false => AuthConfig::default(),
            },
            ..searching()
        };
        let (mut net, a) = established(&[1280], &config);
        net.filter = Box::new(|packet| match packet.has(ChunkType::PAD) {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        for _ in 0..60 {
            if with_data {
                net.send(Host::A, a, Message::zeros(0, 30_000));
            }
            net.run_for(Span::from_secs(1));
        }
        let [mtu] = mtus(&net, a);
        match (keyed, with_data) {
            (false, true) => assert_eq!(mtu, 1280),
            // The AUTH chunk is not counted as data.
            (true, true) => assert!((1230..=1280).contains(&mtu), "{mtu}"),
            // Nothing shows that packets of the base arrive.
            _ => assert_eq!(mtu, 576),
        }
        let stats = net.a.association(a).expect("open").stats();
        assert_eq!((stats.timeouts, stats.retransmissions), (0, 0));
        assert!(probes(&net).len() < 40, "{:?}", probes(&net));
    }
}

#[test]
fn longer_packets_are_tried_again_after_ten_minutes_if_there_is_data() {
    let (mut net, a) = established(&[1400], &searching());
    net.run_for(Span::from_secs(30));
    let before = probes(&net).len();
    narrow(&mut net, &[9000]);
    net.run_for(Span::from_secs(1300));
    assert_eq!(probes(&net).len(), before, "nothing was sent");
    net.send(Host::A, a, Message::zeros(0, 10));
    net.run_for(Span::from_secs(640));
    assert_eq!(path(&net, a, 0).mtu, 9000);
}

// RFC 8899 §4.6.2
// [8899:3-10, 4.6.2-1, 4.6.2-2, 6.2.1.4-2, 6.2.2.4-2]
#[test]
fn a_report_shortens_the_search() {
    let (mut net, a) = established(&[1400], &searching());
    let remote = addrs(Host::B, 1)[0];
    net.a.limit_mtu(net.now, a, remote, 1400);
    net.drain(Host::A);
    assert_eq!(path(&net, a, 0).mtu, 1280, "it is not believed");
    net.run_for(Span::from_millis(200));
    assert_eq!(path(&net, a, 0).mtu, 1400);
    // A change of the route, with a report.
    narrow(&mut net, &[1300]);
    net.a.limit_mtu(net.now, a, remote, 1300);
    net.drain(Host::A);
    assert_eq!(path(&net, a, 0).mtu, 1280);
    // Reports cause a probe each second at most.
    net.run_for(Span::from_millis(1200));
    assert_eq!(path(&net, a, 0).mtu, 1300);
    // Reports about more than was sent.
    for mtu in [1300, 1400, 9000] {
        net.a.limit_mtu(net.now, a, remote, mtu);
    }
    net.drain(Host::A);
    assert_eq!(path(&net, a, 0).mtu, 1300);
}

// RFC 8899 §4.3
// [8899:3-22, 3-25, 4.3-1]
// [6951:5.5-2, 5.6-3]
#[test]
fn a_path_that_becomes_narrow_during_a_transfer_gets_a_smaller_mtu() {
    for (before, after) in [(1500, 1400), (9000, 1500), (9000, 1000)] {
        let (mut net, a) = established(&[before], &searching());
        net.run_for(Span::from_secs(30));
        let send = |net: &mut Net| {
            (0..20).for_each(|_| net.send(Host::A, a, Message::zeros(0, 10_000)));
        };
        send(&mut net);
        net.run_for(Span::from_millis(60));
        narrow(&mut net, &[after]);
        send(&mut net);
        net.run_for(Span::from_secs(60));
        assert_eq!(net.contents(Host::B).len(), 40);
        // It is tried again, or something close to it.
        net.run_for(Span::from_secs(30));
        let mtu = usize::from(path(&net, a, 0).mtu);
        assert!(mtu <= after && mtu + 500 > after, "{before} to {after}: {mtu}");
    }
}

// RFC 8899 §5.2: DISABLED
#[test]
fn a_failed_path_is_not_probed() {
    let config = AssociationConfig {
        path_max_retrans: 1,
        ..searching()
    };
    let (mut net, a) = established(&[1500, 1500], &config);
    net.run_for(Span::from_secs(20));
    net.filter = Box::new(|packet| if is_on(packet, 0) { Fate::Drop } else { Fate::Deliver });
    for _ in 0..60 {
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
    }
    let on_first = |net: &Net| {
        let remote = addrs(Host::B, 1)[0];
        let sent = net
            .wire
            .iter()
            .filter(|sent| sent.remote == remote && sent.from == Host::A);
        sent.filter(|sent| sent.has(ChunkType::PAD)).count()
    };
    let before = on_first(&net);
    net.run_for(Span::from_secs(700));
    assert_eq!(on_first(&net), before);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(120));
    assert_eq!(mtus(&net, a), [65535, 65535]);
    assert!(on_first(&net) > before);
}

#[test]
fn a_path_that_was_silent_for_less_than_ten_minutes_is_not_probed_again() {
    let config = AssociationConfig {
        path_max_retrans: 1,
        ..searching()
    };
    let (mut net, a) = established(&[1400, 1400], &config);
    net.run_for(Span::from_secs(60));
    let before = probes(&net).len();
    for _ in 0..3 {
        net.filter = Box::new(|packet| if is_on(packet, 0) { Fate::Drop } else { Fate::Deliver });
        for _ in 0..40 {
            net.send(Host::A, a, Message::zeros(0, 100));
            net.run_for(Span::from_secs(1));
        }
        assert_eq!(path(&net, a, 0).state, PathState::Inactive);
        narrow(&mut net, &[1400, 1400]);
        net.run_for(Span::from_secs(100));
        assert_eq!(path(&net, a, 0).state, PathState::Active);
    }
    assert_eq!((mtus(&net, a), probes(&net).len()), ([1400, 1400], before));
}

// [8899:3-5, 6.2-1, 6.2-2, 6.2.2-1]
#[test]
fn probes_are_signed_where_every_packet_is() {
    let config = AssociationConfig {
        auth: AuthConfig::shared_key(b"0123456789abcdef0123"),
        ..searching()
    };
    let (mut net, a) = established(&[1500], &config);
    net.run_for(Span::from_secs(30));
    assert_eq!(path(&net, a, 0).mtu, 1500);
    let probe = net.wire.iter().find(|sent| sent.has(ChunkType::PAD)).unwrap();
    assert_eq!(probe.types(), [ChunkType::AUTH, ChunkType::HEARTBEAT, ChunkType::PAD]);
    assert_eq!(probe.bytes.len() + IP, 1500);
}

#[test]
fn an_answer_that_is_forged_or_repeated_changes_nothing() {
    let (mut net, a) = established(&[1400], &searching());
    let before = net.wire.len();
    net.run_for(Span::from_secs(30));
    assert_eq!(path(&net, a, 0).mtu, 1400);
    // The answers to the probes that arrived, once more.
    let answers: Vec<_> = net.wire[before..]
        .iter()
        .filter(|sent| sent.from == Host::B && sent.has(ChunkType::HEARTBEAT_ACK))
        .cloned()
        .collect();
    assert!(!answers.is_empty());
    for answer in answers {
        net.inject(Host::A, answer.remote, answer.local, answer.bytes);
    }
    net.run_for(Span::from_secs(1));
    assert_eq!(path(&net, a, 0).mtu, 1400);
}

/// Without a search, nothing differs: not a packet, and not a random number.
#[test]
fn without_a_search_there_are_no_probes() {
    let (mut net, a, _) = confirmed(1, &AssociationConfig::default());
    net.run_for(Span::from_secs(700));
    assert!(probes(&net).is_empty());
    assert_eq!(path(&net, a, 0).mtu, 1500);
}

/// The MTU of each path changes again and again while messages are sent, with and without losses: every message arrives.
#[test]
fn every_message_arrives_while_routes_change() {
    for seed in crate::random_messages::seeds(60) {
        let mut rng = Rng::stream(seed, "mtu search");
        let paths = 1 + rng.below(2) as usize;
        let config = AssociationConfig {
            interleaving: rng.chance(0.3),
            association_max_retrans: 100,
            path_max_retrans: 30,
            ..searching()
        };
        let mut net = Net::with_config(paths, &config, seed);
        let a = net.connect(&config, paths);
        net.run_for(Span::from_secs(1));
        let loss = if rng.chance(0.5) { 0.0 } else { 0.05 };
        let mut count = 0;
        for _ in 0..8 {
            let mtus: Vec<usize> = (0..paths).map(|_| 1280 + rng.below(9000) as usize).collect();
            let mut losses = Rng::stream(seed, "losses");
            net.filter = Box::new(move |packet| {
                let mtu = (0..mtus.len())
                    .find(|&at| is_on(packet, at))
                    .map_or(1500, |at| mtus[at]);
                let is_long = packet.bytes.len() + IP > mtu && !packet.fragment;
                if is_long || losses.chance(loss) {
                    Fate::Drop
                } else {
                    Fate::Deliver
                }
            });
            for _ in 0..20 {
                let len = 1 + rng.below(20_000) as u32;
                let message = Message {
                    reliability: Reliability::Full,
                    ..Message::zeros(rng.below(4) as u16, len)
                };
                let now = net.now;
                count += usize::from(net.a.send(now, a, message).is_ok());
                net.drain(Host::A);
            }
            net.run_for(Span::from_secs(rng.below(100)));
        }
        net.run_for(Span::from_secs(600));
        assert_eq!(net.contents(Host::B).len(), count, "seed {seed}");
        assert_eq!(net.close_reason(Host::A), None);
    }
}

/// Both ends send, and only one of them knows that the path is narrow.
#[test]
fn a_narrow_path_is_found_while_the_peer_sends_too() {
    let (mut net, a) = established(&[9000], &searching());
    net.run_for(Span::from_secs(30));
    let b = net.only(Host::B);
    narrow(&mut net, &[1400]);
    net.b.limit_mtu(net.now, b, addrs(Host::A, 1)[0], 1400);
    net.drain(Host::B);
    for _ in 0..200 {
        for (host, id) in [(Host::A, a), (Host::B, b)] {
            let now = net.now;
            let _ = net.host(host).send(now, id, Message::zeros(0, 50_000));
            net.drain(host);
        }
        net.run_for(Span::from_millis(20));
    }
    net.run_for(Span::from_secs(20));
    assert_eq!(path(&net, a, 0).mtu, 1400);
    let last = path(&net, a, 0);
    assert!(last.delivered > 500_000 && last.flight == 0, "{last:?}");
}

/// RFC 9260 §7.2: the window counts in PMDCS.
#[test]
fn the_unit_of_the_window_follows_the_path_mtu() {
    for mtu in [1500, 9000] {
        let config = AssociationConfig {
            max_mtu: Some(mtu),
            ..searching()
        };
        let (mut net, a) = established(&[usize::from(mtu)], &config);
        net.run_for(Span::from_secs(1));
        net.filter = Box::new(|_| Fate::Drop);
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_millis(1500));
        // RFC 9260 §7.2.3: one PMDCS after a timeout, and at least four for ssthresh.
        let unit = u64::from(mtu) - 20 - 12;
        let path = path(&net, a, 0);
        assert_eq!((path.cwnd, path.ssthresh), (unit, 4 * unit));
    }
}

/// Linux fragments by IPv6 only what its interface does not carry (decision 0036).
#[test]
fn by_ipv6_a_packet_to_be_fragmented_is_longer_than_the_interface_allows() {
    let config = searching();
    let addr = |text: &str| text.parse().unwrap();
    let (own, other) = (addr("[2001:db8::1]:9899"), addr("[2001:db8::2]:9899"));
    let mut net = Net::new(1);
    let at = |local| whimbrel_proto::EndpointConfig {
        local_addrs: vec![local],
        local_port: 5000,
        listen: true,
        association: config.clone().into(),
        ..whimbrel_proto::EndpointConfig::default()
    };
    net.a = whimbrel_proto::Endpoint::new(at(own), Box::new(Rng::stream(1, "a"))).unwrap();
    net.b = whimbrel_proto::Endpoint::new(at(other), Box::new(Rng::stream(1, "b"))).unwrap();
    net.capture = true;
    let limit = std::rc::Rc::new(std::cell::Cell::new(1500));
    let passes = limit.clone();
    net.filter = Box::new(
        move |packet| match packet.bytes.len() + 48 > passes.get() && !packet.fragment {
            true => Fate::Drop,
            false => Fate::Deliver,
        },
    );
    let now = net.now;
    let a = net.a.connect(now, config.clone(), 5000, &[other]).unwrap();
    net.drain(Host::A);
    net.run_for(Span::from_secs(1));
    start(&mut net, a);
    net.a.on_probe_refused(net.now, a, whimbrel_proto::PathId(0), 1500);
    net.drain(Host::A);
    net.run_for(Span::from_secs(1));
    assert_eq!(path(&net, a, 0).mtu, 1500);
    let before = net.wire.len();
    limit.set(1300);
    for _ in 0..5 {
        net.send(Host::A, a, Message::zeros(0, 1300));
    }
    net.run_for(Span::from_secs(30));
    assert_eq!(net.contents(Host::B).len(), 5);
    let padded = net.wire[before..].iter().filter(|sent| {
        let types = sent.types();
        types.contains(&ChunkType::DATA) && types.contains(&ChunkType::PAD)
    });
    let lens: Vec<_> = padded.map(|sent| sent.bytes.len() + 48).collect();
    assert!(!lens.is_empty() && lens.iter().all(|&len| len == 1504), "{lens:?}");
}

/// The round-trip time of a path without data is not known: late answers count.
// [8899:3-23, 3-24]
#[test]
fn a_path_with_a_long_round_trip_time_has_its_mtu_too() {
    for ms in [600, 1100, 2000] {
        let mut net = Net::with_config(2, &searching(), 1);
        net.delay = Span::from_millis(ms);
        net.capture = true;
        narrow(&mut net, &[1500, 1500]);
        let a = net.connect(&searching(), 2);
        net.run_for(Span::from_secs(20));
        start(&mut net, a);
        net.run_for(Span::from_secs(100));
        assert_eq!(mtus(&net, a), [1500, 1500], "{ms} ms");
    }
}

/// An address that never answers, or not any more, has no MTU that limits the others.
#[test]
fn a_path_that_does_not_respond_does_not_limit_chunks() {
    let mut net = Net::with_config(2, &searching(), 1);
    net.capture = true;
    net.filter = Box::new(|packet| match is_on(packet, 1) || packet.bytes.len() + IP > 1500 {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    let a = net.connect(&searching(), 2);
    net.run_for(Span::from_secs(500));
    start(&mut net, a);
    net.run_for(Span::from_secs(500));
    net.wire.clear();
    for _ in 0..10 {
        net.send(Host::A, a, Message::zeros(0, 1400));
        net.run_for(Span::from_secs(1));
    }
    let chunks = with_data(&net).flat_map(|sent| sent.data()).count();
    assert_eq!((chunks, net.contents(Host::B).len()), (10, 10));
    // No report makes it probe such an address.
    let before = probes(&net).len();
    for mtu in [1400, 1300] {
        net.a.limit_mtu(net.now, a, addrs(Host::B, 2)[1], mtu);
        net.drain(Host::A);
        net.run_for(Span::from_secs(5));
    }
    assert_eq!(probes(&net).len(), before);
}

/// A path without data is searched again too: chunks have to fit into its packets.
#[test]
fn a_standby_path_is_tried_again_after_ten_minutes() {
    let (mut net, a) = established(&[1500, 1000], &searching());
    for _ in 0..60 {
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
    }
    assert_eq!(path(&net, a, 1).mtu, 576);
    narrow(&mut net, &[1500, 1500]);
    for _ in 0..700 {
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
    }
    assert_eq!(mtus(&net, a), [1500, 1500]);
}

#[test]
fn a_path_that_does_not_carry_the_base_any_more_gets_a_smaller_mtu() {
    for (most, before) in [(65535, 1300), (1280, 1000)] {
        let config = AssociationConfig {
            max_mtu: Some(most),
            ..searching()
        };
        let (mut net, a) = established(&[before], &config);
        net.run_for(Span::from_secs(60));
        net.forget_contents();
        narrow(&mut net, &[1000]);
        for _ in 0..10 {
            net.send(Host::A, a, Message::zeros(0, 3000));
        }
        net.run_for(Span::from_secs(120));
        assert_eq!(net.contents(Host::B).len(), 10, "{most}");
        assert!(path(&net, a, 0).mtu <= 1000);
    }
}

/// Nothing is probed during a shutdown, and a probe that waits for that has no timer in the past.
#[test]
fn a_probe_that_cannot_be_sent_causes_no_wakeups() {
    let (mut net, a) = established(&[9000], &searching());
    net.filter = Box::new(|_| Fate::Drop);
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    assert_eq!(net.state(Host::A, a), State::ShutdownSent);
    let before = probes(&net).len();
    for mtu in [1490, 1480] {
        net.a.limit_mtu(net.now, a, addrs(Host::B, 1)[0], mtu);
        net.drain(Host::A);
        let end = net.now + Span::from_secs(5);
        let mut steps = 0;
        while net.step(end) {
            steps += 1;
            assert!(steps < 100, "it wakes up again and again");
        }
    }
    assert_eq!(probes(&net).len(), before);
}

// [8899:3-12]
#[test]
fn rfc_8899_3_probes_are_at_least_a_round_trip_time_apart() {
    let (mut net, _) = established(&[1280], &searching());
    net.run_for(Span::from_secs(60));
    let sent = net.wire.iter().filter(|sent| sent.has(ChunkType::PAD));
    let times: Vec<_> = sent.map(|sent| sent.at).collect();
    assert!(times.len() > 6);
    let rtt = net.delay * 2;
    assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= rtt));
}

// [8899:3-15]
#[test]
fn rfc_8899_3_a_larger_path_mtu_does_not_increase_the_window() {
    let [without, with] = [1280, 9000].map(|most| {
        let config = AssociationConfig {
            max_mtu: Some(most),
            ..searching()
        };
        let (mut net, a) = established(&[9000], &config);
        net.run_for(Span::from_secs(1));
        assert_eq!(path(&net, a, 0).mtu, most);
        path(&net, a, 0).cwnd
    });
    assert_eq!(with, without);
}

// [8899:3-8]
#[test]
fn rfc_8899_3_the_mtu_of_the_interface_is_tried_next() {
    let (mut net, a) = established(&[8000], &searching());
    net.a.on_probe_refused(net.now, a, whimbrel_proto::PathId(0), 8000);
    net.drain(Host::A);
    net.run_for(Span::from_secs(1));
    assert_eq!(path(&net, a, 0).mtu, 8000);
}
