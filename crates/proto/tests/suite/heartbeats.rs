//! Heartbeats, and addresses that must be verified before they are used (RFC 9260 §5.4, §8.3).

use crate::support::paths::{confirmed, cut, path, quiet, state_event, when};
use crate::support::{Fate, Host, Net, addrs};
use whimbrel_control::{Scheme, Span};
use whimbrel_proto::{AssociationConfig, Event, MAX_PINGS, Message, PathId, PathState, State};
use whimbrel_wire::{Chunk, ChunkType, HeartbeatInfo};

// [9260:8.3-1, 8.3-13, 8.3-14]
// [9260:3.3.5-1]
#[test]
fn section_8_3_idle_paths_are_probed_every_hb_interval_plus_rto_with_half_an_rto_of_jitter() {
    let (mut net, a, _) = confirmed(2, &AssociationConfig::default());
    let start = net.now;
    net.run_for(Span::from_secs(3600));
    // Both paths are idle. Each expiry of a timer sends one heartbeat, not one to each idle address.
    let all: Vec<_> = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .map(|sent| sent.at)
        .filter(|at| *at >= start)
        .collect();
    assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
    for index in 0..2 {
        let remote = addrs(Host::B, 2)[index];
        let times: Vec<_> = net
            .sent(Host::A, ChunkType::HEARTBEAT)
            .iter()
            .filter(|sent| sent.remote == remote && sent.at >= start)
            .map(|sent| sent.at)
            .collect();
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert!(gaps.len() > 100);
        // 30 s and an RTO of 1 s; one round trip of 20 ms passes before the HEARTBEAT ACK starts the next period.
        let (low, high) = (Span::from_millis(30_500), Span::from_millis(31_520));
        assert!(gaps.iter().all(|gap| *gap >= low && *gap <= high), "{gaps:?}");
        assert!(
            gaps.iter().any(|gap| *gap < Span::from_millis(30_700)),
            "spread over the whole jitter"
        );
        assert!(
            gaps.iter().any(|gap| *gap > Span::from_millis(31_300)),
            "spread over the whole jitter"
        );
        assert_eq!(path(&net, a, index).errors, 0);
    }
}

// [9260:8.3-13]
#[test]
fn heartbeats_of_idle_paths_are_sent_at_multiples_of_the_alignment() {
    let config = AssociationConfig {
        hb_alignment: Span::from_millis(100),
        ..AssociationConfig::default()
    };
    let (mut net, a, _) = confirmed(2, &config);
    let start = net.now;
    net.run_for(Span::from_secs(3600));
    for (index, remote) in addrs(Host::B, 2).into_iter().enumerate() {
        let heartbeats = net.sent(Host::A, ChunkType::HEARTBEAT);
        let times: Vec<_> = heartbeats
            .iter()
            .filter(|sent| sent.remote == remote && sent.at > start)
            .map(|sent| sent.at)
            .collect();
        assert!(times.len() > 100);
        assert!(times.iter().all(|at| at.as_nanos() % 100_000_000 == 0), "{times:?}");
        let gaps: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        let (low, high) = (Span::from_millis(30_500), Span::from_millis(31_520));
        assert!(gaps.iter().all(|gap| *gap >= low && *gap <= high), "{gaps:?}");
        assert_eq!(path(&net, a, index).errors, 0);
    }
}

/// Opens an association with these addresses of the peer. Returns to which of them, except the first, A sent HEARTBEATs in the first seconds,
/// and whether the association knows the round-trip time of each path.
fn early_heartbeats(paths: usize, config: &AssociationConfig) -> (Vec<usize>, Vec<bool>) {
    let (mut net, a, _) = Net::established(paths, config);
    net.run_for(Span::from_secs(5));
    let place = |remote| addrs(Host::B, paths).iter().position(|addr| *addr == remote);
    let heartbeats = net.sent(Host::A, ChunkType::HEARTBEAT);
    let places = heartbeats.iter().filter_map(|sent| place(sent.remote));
    let mut others: Vec<_> = places.filter(|place| *place > 0).collect();
    others.sort_unstable();
    let measured = (0..paths).map(|index| path(&net, a, index).srtt.is_some()).collect();
    (others, measured)
}

#[test]
fn listed_addresses_are_measured_at_once_where_data_may_be_sent_on_several_paths() {
    let of = |scheme: &str| AssociationConfig {
        scheme: Scheme::by_name(scheme).expect("it is registered"),
        ..AssociationConfig::default()
    };
    let (heartbeats, measured) = early_heartbeats(4, &of("multipath"));
    assert_eq!(heartbeats, [1, 2, 3], "one on each path");
    assert_eq!(measured, [true; 4]);
    assert!(early_heartbeats(1, &of("multipath")).0.is_empty());
    // RFC 9260 §8.3: a single path carries data, the others wait for HB.interval.
    assert!(early_heartbeats(4, &of("standard")).0.is_empty());
    let without = AssociationConfig {
        hb_interval: Span::ZERO,
        ..of("multipath")
    };
    assert!(early_heartbeats(4, &without).0.is_empty(), "heartbeats are off");
}

/// Whether B, which has answered the handshake, knows the round-trip time of each path after its first message, and how many HEARTBEATs it has sent.
fn measured_with_data(paths: usize, lost: u32) -> (Vec<bool>, usize) {
    let config = AssociationConfig {
        scheme: Scheme::by_name("multipath").expect("it is registered"),
        ..AssociationConfig::default()
    };
    let (mut net, _, b) = Net::established(paths, &config);
    net.run_for(Span::from_secs(1));
    let of_handshake = addrs(Host::A, paths)[0];
    let heartbeats = net.sent(Host::B, ChunkType::HEARTBEAT);
    assert!(
        heartbeats.iter().all(|sent| sent.remote != of_handshake),
        "without data"
    );
    let mut left = lost;
    net.filter = Box::new(move |packet| {
        let is_lost = left > 0 && packet.remote == of_handshake && packet.has(ChunkType::HEARTBEAT);
        left -= u32::from(is_lost);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    net.send(Host::B, b, Message::zeros(0, 100));
    net.run_for(Span::from_secs(10));
    let association = net.b.association(b).expect("established");
    let measured = association.paths().map(|path| path.srtt.is_some()).collect();
    (measured, net.sent(Host::B, ChunkType::HEARTBEAT).len())
}

#[test]
fn the_end_that_has_answered_measures_the_path_of_the_handshake_with_its_first_data() {
    // Two of the paths were verified before.
    assert_eq!(measured_with_data(3, 0), (vec![true; 3], 3));
    // There is nothing to compare with: the data measures it.
    assert_eq!(measured_with_data(1, 0), (vec![true], 0));
}

#[test]
fn a_measurement_whose_heartbeat_is_lost_is_repeated_long_before_hb_interval_is_over() {
    assert_eq!(measured_with_data(3, 1).0, [true; 3]);
    assert_eq!(measured_with_data(3, 2).0, [true; 3]);
}

#[test]
fn a_path_whose_handshake_was_lost_at_first_is_measured_by_data_that_waited() {
    let config = AssociationConfig {
        scheme: Scheme::by_name("multipath").expect("it is registered"),
        ..AssociationConfig::default()
    };
    let mut net = Net::with_config(2, &config, 1);
    let mut first = true;
    net.filter = Box::new(move |packet| {
        let is_lost = packet.has(ChunkType::INIT) && core::mem::take(&mut first);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    let a = net.connect(&config, 2);
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(10));
    assert!(path(&net, a, 0).srtt.is_some() && path(&net, a, 1).srtt.is_some());
}

// [9260:5.4-1]
#[test]
fn measurements_do_not_raise_the_limit_for_unconfirmed_addresses() {
    // B did not list the addresses of A: it verifies them, HB.Max.Burst at a time.
    let config = AssociationConfig {
        scheme: Scheme::by_name("multipath").expect("it is registered"),
        hb_max_burst: 2,
        ..AssociationConfig::default()
    };
    let (mut net, _, _) = Net::established(6, &config);
    net.run_for(Span::from_secs(5));
    let heartbeats = net.sent(Host::B, ChunkType::HEARTBEAT);
    let first = heartbeats.first().expect("B verifies addresses").at;
    let at_once = heartbeats.iter().filter(|sent| sent.at == first).count();
    assert_eq!((at_once, heartbeats.len()), (2, 5));
}

#[test]
fn section_8_3_a_path_in_use_needs_no_heartbeats() {
    let (mut net, a, _) = confirmed(2, &AssociationConfig::default());
    let start = net.now;
    for _ in 0..300 {
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
    }
    let remotes: Vec<_> = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| sent.remote)
        .collect();
    assert!(remotes.len() >= 8);
    assert!(
        remotes.iter().all(|remote| *remote == addrs(Host::B, 2)[1]),
        "{remotes:?}"
    );
}

// [9260:8.3-3, 8.3-4, 8.3-13, 8.1-2]
#[test]
fn section_8_3_unanswered_heartbeats_back_off_and_make_the_path_inactive() {
    // The errors of three failed paths would exceed Association.Max.Retrans between two HEARTBEAT ACKs of the path in use.
    let config = AssociationConfig {
        hb_interval: Span::from_secs(10),
        association_max_retrans: 1,
        ..quiet()
    };
    let (mut net, a, _) = confirmed(4, &config);
    cut(&mut net, &[1, 2, 3]);
    let start = net.now;
    when(
        &mut net,
        start,
        Span::from_secs(1000),
        &state_event(1, PathState::Inactive),
    );
    assert_eq!(path(&net, a, 1).errors, 6);
    assert_eq!(
        path(&net, a, 1).rto,
        Span::from_secs(60),
        "1 s doubled six times, up to RTO.Max"
    );
    net.run_for(Span::from_secs(4000));
    assert_eq!(net.state(Host::A, a), State::Established, "the path in use works");
    assert_eq!(path(&net, a, 1).errors, 6);
    let late = net.now;
    net.run_for(Span::from_secs(700));
    let probes = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.remote == addrs(Host::B, 2)[1] && sent.at >= late)
        .count();
    // One heartbeat in 10 s + 60 s ± 30 s.
    assert!((7..=18).contains(&probes), "{probes}");
}

// [9260:8.3-12]
#[test]
fn section_8_3_the_user_can_request_a_heartbeat() {
    let (mut net, a, _) = confirmed(2, &quiet());
    let start = net.now;
    for index in [0, 1] {
        assert!(net.a.request_heartbeat(start, a, PathId(index)));
    }
    assert!(!net.a.request_heartbeat(start, a, PathId(2)));
    net.delay = Span::from_millis(200);
    net.run_for(Span::from_secs(3));
    let sent: Vec<_> = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| sent.remote)
        .collect();
    assert_eq!(sent, addrs(Host::B, 2));
    // A first sample of 20 ms, then one of 400 ms: SRTT is 7/8 of the first and 1/8 of the second.
    for index in 0..2 {
        assert!(
            path(&net, a, index)
                .srtt
                .is_some_and(|srtt| srtt > Span::from_millis(60)),
            "{:?}",
            path(&net, a, index)
        );
    }
    // No other heartbeats are sent, because they are turned off.
    let count = net.count(Host::A, ChunkType::HEARTBEAT);
    net.run_for(Span::from_secs(1000));
    assert_eq!(net.count(Host::A, ChunkType::HEARTBEAT), count);
}

#[test]
fn section_8_3_a_requested_heartbeat_does_not_wait_for_a_failed_path() {
    let config = AssociationConfig {
        hb_interval: Span::from_secs(5),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[1]);
    net.run_for(Span::from_secs(1000));
    assert_eq!(path(&net, a, 1).state, PathState::Inactive);
    for _ in 0..20 {
        net.run_for(Span::from_secs(13));
        let requested_at = net.now;
        net.a.request_heartbeat(requested_at, a, PathId(0));
        net.run_for(Span::from_secs(2));
        let was_sent = net
            .sent(Host::A, ChunkType::HEARTBEAT)
            .iter()
            .any(|sent| sent.at >= requested_at && sent.remote == addrs(Host::B, 1)[0]);
        assert!(was_sent, "at {requested_at:?}");
    }
}

#[test]
fn pings_measure_each_path_and_change_nothing_else() {
    let (mut net, a, _) = confirmed(2, &quiet());
    let before = [path(&net, a, 0).srtt, path(&net, a, 1).srtt];
    net.events.clear();
    net.delay = Span::from_millis(200);
    for (number, index, bytes) in [(7, 0, 0), (8, 1, 1000), (9, 1, usize::MAX)] {
        let now = net.now;
        assert!(net.a.ping(now, a, PathId(index), number, bytes));
        net.run_for(Span::from_millis(100));
    }
    let now = net.now;
    assert!(!net.a.ping(now, a, PathId(2), 10, 0), "there is no such path");
    net.run_for(Span::from_secs(1));
    let rtt = Span::from_millis(400);
    let answered = |path, number| Event::PingAnswered {
        path: PathId(path),
        number,
        rtt,
    };
    // Each with its own round-trip time, although they overlap.
    assert_eq!(
        net.events[&Host::A],
        [answered(0, 7), answered(1, 8), answered(1, 9)].map(|event| (a, event))
    );
    assert_eq!([path(&net, a, 0).srtt, path(&net, a, 1).srtt], before);
    let longest = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .map(|sent| sent.bytes.len())
        .max();
    assert!(longest.is_some_and(|len| (1476..=1480).contains(&len)), "{longest:?}");
}

#[test]
fn pings_that_are_not_answered_cost_no_path_and_little_memory() {
    let (mut net, a, _) = confirmed(1, &quiet());
    net.events.clear();
    cut(&mut net, &[0]);
    // Two more than are awaited.
    let count = MAX_PINGS + 2;
    for number in 0..count as u32 {
        let now = net.now;
        assert!(net.a.ping(now, a, PathId(0), number, 0));
        net.run_for(Span::from_millis(2));
    }
    assert_eq!(path(&net, a, 0).state, PathState::Active);
    assert_eq!(path(&net, a, 0).errors, 0);
    // The first were given up for later ones. The third and the last are awaited. An answer counts once.
    let lost: Vec<Vec<u8>> = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .map(|sent| match sent.chunks()[0] {
            Chunk::Heartbeat(HeartbeatInfo(info)) => info.to_vec(),
            _ => panic!("HEARTBEAT"),
        })
        .collect();
    let first = lost.len() - count;
    for place in [first, first + 1, first + 2, first + 2, lost.len() - 1] {
        let info = &lost[place];
        let _ = net.as_peer(Host::A, &[Chunk::HeartbeatAck(HeartbeatInfo(info))]);
    }
    let answers: Vec<_> = net.events.remove(&Host::A).unwrap_or_default();
    assert!(
        matches!(
            answers[..],
            [(_, Event::PingAnswered { number: 2, .. }), (_, Event::PingAnswered { number, .. })] if number + 1 == count as u32
        ),
        "{answers:?}"
    );
    // While no packets are taken, at most 256 wait.
    let now = net.now;
    let taken = (0..1000)
        .filter(|number| net.a.ping(now, a, PathId(0), *number, 0))
        .count();
    assert_eq!(taken, 256);
}

// [9260:8.3-2, 8.3-6, 8.3-8, 6.4-2]
#[test]
fn section_8_3_heartbeat_info_is_returned_unchanged_to_the_source() {
    let (mut net, _, b) = confirmed(2, &quiet());
    let tag = net.tag_of(Host::B);
    for index in 0..2 {
        let info = vec![index as u8; 300 + index];
        let bytes = crate::support::packet(4001, 4002, tag, &[Chunk::Heartbeat(HeartbeatInfo(&info))]);
        let meta = crate::support::meta(addrs(Host::B, 2)[index], addrs(Host::A, 2)[index]);
        net.deliver_from(Host::B, meta, &bytes).expect("accepted");
        let answer = net.last(Host::B, ChunkType::HEARTBEAT_ACK);
        assert_eq!(answer.remote, addrs(Host::A, 2)[index]);
        assert_eq!(answer.chunks(), [Chunk::HeartbeatAck(HeartbeatInfo(&info))]);
    }
    // The Heartbeat Info contains the path, the time of sending and a nonce.
    let now = net.now;
    net.b.request_heartbeat(now, b, PathId(1));
    net.run_for(Span::ZERO);
    let sent = net.last(Host::B, ChunkType::HEARTBEAT);
    assert_eq!(sent.remote, addrs(Host::A, 2)[1]);
    let Chunk::Heartbeat(info) = sent.chunks()[0] else {
        panic!("no HEARTBEAT")
    };
    assert_eq!(info.0[8..16], now.as_nanos().to_be_bytes());
    assert_eq!(info.0[16], 1);
}

// [9260:5.4-1]
#[test]
fn section_5_4_hb_max_burst_bounds_the_probes_of_new_addresses() {
    for burst in [1, 2, 3] {
        let config = AssociationConfig {
            hb_max_burst: burst,
            ..quiet()
        };
        let mut net = Net::with_config(4, &config, 1);
        cut(&mut net, &[1, 2, 3]);
        // A received only one address: it must verify the other three, which do not respond.
        net.connect(&config, 1);
        net.run_for(Span::from_millis(900));
        assert_eq!(net.count(Host::A, ChunkType::HEARTBEAT), burst as usize);
        // Every address is probed in turn.
        net.run_for(Span::from_secs(300));
        for remote in &addrs(Host::B, 4)[1..] {
            let probes = net
                .sent(Host::A, ChunkType::HEARTBEAT)
                .iter()
                .filter(|sent| sent.remote == *remote)
                .count();
            assert!(probes >= 6, "{burst} {remote}: {probes}");
        }
    }
}

// [9260:5.4-2]
#[test]
fn section_5_4_an_address_that_never_responds_gets_only_heartbeats() {
    let config = AssociationConfig {
        association_max_retrans: 4,
        path_max_retrans: 1,
        ..AssociationConfig::default()
    };
    let mut net = Net::with_config(2, &config, 1);
    cut(&mut net, &[1]);
    let id = net.connect(&config, 1);
    net.run_for(Span::from_secs(100));
    assert_eq!(path(&net, id, 1).state, PathState::Inactive);
    let now = net.now;
    assert!(net.a.set_primary(now, id, PathId(1)));
    // Even if the only confirmed path fails.
    cut(&mut net, &[0, 1]);
    for _ in 0..20 {
        net.send(Host::A, id, Message::zeros(0, 1000));
    }
    net.run_until(Span::from_secs(1000), "the end", |net| {
        net.close_reason(Host::A).is_some()
    });
    let unconfirmed: Vec<_> = net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::A && sent.remote == addrs(Host::B, 2)[1])
        .flat_map(|sent| sent.types())
        .collect();
    assert!(!unconfirmed.is_empty());
    assert!(
        unconfirmed.iter().all(|chunk_type| *chunk_type == ChunkType::HEARTBEAT),
        "{unconfirmed:?}"
    );
}

// [9260:5.4-2, 5.4-3, 6.4-2, 5.1-8, 5.1.5-5]
#[test]
fn section_5_4_a_cookie_ack_to_an_unconfirmed_address_is_bundled_with_a_heartbeat() {
    let mut net = Net::new(2);
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::COOKIE_ECHO) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.connect(&quiet(), 2);
    net.run_for(Span::from_millis(30));
    let echo = net.last(Host::A, ChunkType::COOKIE_ECHO);
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    // The packet arrives from A's second address, three times.
    let meta = crate::support::meta(addrs(Host::B, 2)[1], addrs(Host::A, 2)[1]);
    for _ in 0..3 {
        net.deliver_from(Host::B, meta, &echo.bytes).expect("accepted");
        let answer = net.last(Host::B, ChunkType::COOKIE_ACK);
        assert_eq!(answer.remote, addrs(Host::A, 2)[1]);
        assert_eq!(answer.types(), [ChunkType::COOKIE_ACK, ChunkType::HEARTBEAT]);
    }
    let b = net.only(Host::B);
    let paths: Vec<_> = net
        .b
        .association(b)
        .expect("established")
        .paths()
        .map(|path| (path.state, path.errors))
        .collect();
    assert_eq!(paths, [(PathState::Active, 0), (PathState::Unconfirmed, 0)]);
    // DATA from there is acknowledged to a confirmed address of the peer.
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let tag = echo.tag();
    let bytes = crate::support::packet(4001, 4002, tag, &[Chunk::Data(crate::support::data(tsn, 0, b"x"))]);
    net.deliver_from(Host::B, meta, &bytes).expect("accepted");
    net.run_for(Span::from_secs(1));
    assert_eq!(net.last(Host::B, ChunkType::SACK).remote, addrs(Host::A, 1)[0]);
}

// [9260:5.4-2]
// [9260:3.3.5-3]
#[test]
fn section_5_4_only_the_correct_nonce_confirms() {
    let mut net = Net::new(2);
    cut(&mut net, &[1]);
    let id = net.connect(&quiet(), 1);
    net.run_for(Span::from_millis(200));
    let probe = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .into_iter()
        .find(|sent| sent.remote == addrs(Host::B, 2)[1])
        .expect("the address is probed")
        .clone();
    let Chunk::Heartbeat(HeartbeatInfo(info)) = probe.chunks()[0] else {
        panic!("no HEARTBEAT")
    };
    for bit in 0..8 * info.len() {
        // Changed bits of the time affect only the measurement.
        if (64..128).contains(&bit) {
            continue;
        }
        let mut wrong = info.to_vec();
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(
            net.as_peer(Host::A, &[Chunk::HeartbeatAck(HeartbeatInfo(&wrong))])
                .is_err(),
            "bit {bit}"
        );
    }
    assert_eq!(path(&net, id, 1).state, PathState::Unconfirmed);
    net.as_peer(Host::A, &[Chunk::HeartbeatAck(HeartbeatInfo(info))])
        .expect("accepted");
    assert_eq!(path(&net, id, 1).state, PathState::Active);
    // Only once.
    assert!(
        net.as_peer(Host::A, &[Chunk::HeartbeatAck(HeartbeatInfo(info))])
            .is_err()
    );
}

// [9260:5.4-1]
#[test]
fn section_5_4_an_address_that_never_responds_does_not_delay_the_others() {
    let mut net = Net::with_config(4, &quiet(), 1);
    cut(&mut net, &[1]);
    let a = net.connect(&quiet(), 1);
    net.run_for(Span::from_millis(1300));
    let paths = net.a.association(a).expect("established").paths();
    let states: Vec<_> = paths.map(|path| path.state).collect();
    let (active, unconfirmed) = (PathState::Active, PathState::Unconfirmed);
    assert_eq!(states, [active, unconfirmed, active, active]);
}

#[test]
fn pings_go_out_on_confirmed_paths_only_and_hold_up_no_answers() {
    let mut net = Net::with_config(2, &quiet(), 1);
    cut(&mut net, &[1]);
    let a = net.connect(&quiet(), 1);
    net.run_for(Span::from_millis(100));
    assert_eq!(path(&net, a, 1).state, PathState::Unconfirmed);
    for number in 0..300 {
        let now = net.now;
        assert!(!net.a.ping(now, a, PathId(1), number, 0));
        net.run_for(Span::from_millis(10));
    }
    let now = net.now;
    assert!(net.a.ping(now, a, PathId(0), 7, 0));
    // The peer's heartbeats are still answered.
    let before = net.sent(Host::A, ChunkType::HEARTBEAT_ACK).len();
    let _ = net.as_peer(Host::A, &[Chunk::Heartbeat(HeartbeatInfo(b"heartbeat"))]);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.sent(Host::A, ChunkType::HEARTBEAT_ACK).len(), before + 1);
}
