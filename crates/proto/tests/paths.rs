//! Several paths: failure, return, heartbeats, and where data goes (RFC 9260 §5.4, §6.4, §8.1 to §8.3, RFC 7829).

mod support;
use support::{Fate, Host, InFlight, Net, addr, addrs};
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::{Accounting, RetransmitPath};
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, CloseReason, Event, Message, PathId, PathInfo, PathState, State};
use whimbrel_wire::ChunkType;

/// No heartbeats of its own accord.
fn quiet() -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

/// Whether a packet goes over this path, whichever way.
fn is_on(packet: &InFlight<'_>, path: usize) -> bool {
    packet.remote == addrs(packet.from.other(), path + 1)[path]
}

/// From now on nothing gets through on these paths.
fn cut(net: &mut Net, paths: &[usize]) {
    let paths = paths.to_vec();
    net.knob = Box::new(move |packet| {
        let is_cut = paths.iter().any(|&path| is_on(packet, path));
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
}

fn mend(net: &mut Net) {
    net.knob = Box::new(|_| Fate::Deliver);
}

/// Both ends are up and all paths confirmed.
fn confirmed(paths: usize, config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let (mut net, a, b) = Net::established(paths, config);
    net.run_for(Span::from_secs(5));
    assert!(
        net.a
            .association(a)
            .expect("up")
            .paths()
            .all(|path| path.state == PathState::Active)
    );
    assert!(
        net.b
            .association(b)
            .expect("up")
            .paths()
            .all(|path| path.state == PathState::Active)
    );
    (net, a, b)
}

fn path(net: &Net, id: AssocId, index: usize) -> PathInfo {
    net.a.association(id).expect("up").paths().nth(index).expect("a path")
}

/// When this happened to A, in milliseconds since `start`.
fn when(net: &mut Net, start: Time, limit: Span, event: &Event) -> u64 {
    net.run_until(limit, &format!("{event:?}"), |net| {
        net.events_of(Host::A).contains(event)
    });
    net.now.since(start).as_millis()
}

fn state_event(path: u8, state: PathState) -> Event {
    Event::PathState {
        path: PathId(path),
        state,
    }
}

/// Data of A: when and on which path, in milliseconds since `start`.
fn data_sent(net: &Net, start: Time) -> Vec<(u64, usize)> {
    net.sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| {
            let path = addrs(Host::B, 4)
                .iter()
                .position(|remote| *remote == sent.remote)
                .expect("an address of B");
            (sent.at.since(start).as_millis(), path)
        })
        .collect()
}

// [9260:8.2-1, 8.2-2, 8.2-4, 6.4-4, 6.4.1-1, 6.3.3-1]
#[test]
fn section_8_2_a_primary_that_dies_is_left_after_path_max_retrans_timeouts() {
    let (mut net, a, _) = confirmed(2, &quiet());
    cut(&mut net, &[0]);
    let start = net.now;
    for _ in 0..100 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    // RTO 1 s, doubled each time: the sixth timeout exceeds Path.Max.Retrans of 5 after 1+2+4+8+16+32 s.
    let inactive = state_event(0, PathState::Inactive);
    assert_eq!(when(&mut net, start, Span::from_secs(100), &inactive), 63_000);
    assert_eq!(path(&net, a, 0).errors, 6);
    // What was lost each time went to the other path at once, new data to the primary until it was inactive.
    let sent = data_sent(&net, start);
    for timeout in [1000, 3000, 7000, 15_000, 31_000] {
        assert!(sent.contains(&(timeout, 1)), "at {timeout}");
        assert!(sent.contains(&(timeout, 0)), "at {timeout}");
    }
    let failed_at = net.now;
    net.run_for(Span::from_secs(10));
    assert!(data_sent(&net, failed_at).iter().all(|(_, path)| *path == 1));
    assert_eq!(net.contents(Host::B).len(), 100);
    assert_eq!(net.a.association(a).expect("up").sending_path(), PathId(1));
}

// [9260:8.2-3, 8.3-5, 8.3-7, 8.3-9, 8.3-10, 6.4-1]
#[test]
fn section_8_2_data_returns_to_the_primary_when_it_answers_again() {
    let config = AssociationConfig {
        path_max_retrans: 1,
        hb_interval: Span::from_secs(5),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[0]);
    let start = net.now;
    for _ in 0..100 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    when(
        &mut net,
        start,
        Span::from_secs(100),
        &state_event(0, PathState::Inactive),
    );
    net.run_for(Span::from_secs(60));
    let errors = path(&net, a, 0).errors;
    assert_eq!(errors, 2, "not counted beyond the limit");
    let heartbeats = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.remote == addrs(Host::B, 1)[0])
        .count();
    assert!(heartbeats >= 1, "it is probed on");
    mend(&mut net);
    net.events.clear();
    let mended = net.now;
    // RTO of at most 60 s and HB.interval of 5 s, with half the RTO of jitter.
    assert!(
        when(
            &mut net,
            mended,
            Span::from_secs(100),
            &state_event(0, PathState::Active)
        ) < 95_000
    );
    assert_eq!(path(&net, a, 0).errors, 0);
    let back = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    assert_eq!(data_sent(&net, back), [(0, 0)]);
    assert_eq!(net.close_reason(Host::A), None);
}

// [9260:8.1-1, 8.1-3, 8.1-4]
#[test]
fn section_8_1_a_peer_that_is_silent_on_every_path_is_unreachable() {
    for paths in [1, 2] {
        let (mut net, a, _) = confirmed(paths, &quiet());
        cut(&mut net, &[0, 1]);
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_until(Span::from_secs(1000), "giving up", |net| {
            net.close_reason(Host::A).is_some()
        });
        assert_eq!(net.close_reason(Host::A), Some(CloseReason::PeerUnreachable));
        let sent: Vec<_> = data_sent(&net, start)
            .into_iter()
            .map(|(at, path)| (at / 1000, path))
            .collect();
        if paths == 1 {
            // Eleven timeouts: Association.Max.Retrans is 10; RTO.Max 60 s.
            let expected = [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303].map(|at| (at, 0));
            assert_eq!(sent, expected);
            assert_eq!(net.now.since(start), Span::from_secs(363));
        } else {
            // In turns, each path with its own timer.
            assert_eq!(sent[..6], [(0, 0), (1, 1), (2, 0), (4, 1), (6, 0), (10, 1)]);
            assert_eq!(sent.len(), 11);
        }
    }
}

// [9260:8.1-5, 8.1-6, 8.3-11]
#[test]
fn section_8_1_acknowledged_data_and_heartbeats_clear_the_count() {
    let config = AssociationConfig {
        association_max_retrans: 3,
        ..quiet()
    };
    for by_heartbeat in [false, true] {
        let (mut net, a, _) = confirmed(1, &config);
        // Three timeouts in a row are survived, over and over: the third one's packet arrives.
        let seen = if by_heartbeat { 3 } else { 2 };
        for _ in 0..5 {
            cut(&mut net, &[0]);
            net.send(Host::A, a, Message::zeros(0, 100));
            let timeouts = net.a.association(a).expect("up").stats().timeouts;
            net.run_until(Span::from_secs(300), "the timeouts", |net| {
                net.a.association(a).expect("up").stats().timeouts == timeouts + seen
            });
            if by_heartbeat {
                net.knob = Box::new(|packet| {
                    if packet.has(ChunkType::DATA) {
                        Fate::Drop
                    } else {
                        Fate::Deliver
                    }
                });
                let now = net.now;
                assert!(net.a.request_heartbeat(now, a, PathId(0)));
                net.run_for(Span::from_millis(100));
            } else {
                mend(&mut net);
                net.run_for(Span::from_secs(100));
            }
            assert_eq!(net.state(Host::A, a), State::Established);
        }
    }
}

// [9260:8.1-1, 8.1-3]
#[test]
fn section_8_1_unanswered_heartbeats_of_the_path_in_use_end_the_association() {
    let (mut net, _, _) = confirmed(
        1,
        &AssociationConfig {
            hb_interval: Span::from_secs(10),
            ..quiet()
        },
    );
    cut(&mut net, &[0]);
    net.run_until(Span::from_secs(2000), "the end", |net| {
        net.close_reason(Host::A).is_some()
    });
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::PeerUnreachable));
    assert!(net.events_of(Host::A).contains(&state_event(0, PathState::Inactive)));
}

#[test]
fn rfc_7829_a_potentially_failed_path_is_left_at_once_and_probed_once_per_rto() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(0),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[0]);
    let start = net.now;
    for _ in 0..30 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    assert_eq!(
        when(
            &mut net,
            start,
            Span::from_secs(10),
            &state_event(0, PathState::PotentiallyFailed)
        ),
        1000
    );
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B).len(), 30, "all by the other path");
    assert!(
        data_sent(&net, start + Span::from_millis(1))
            .iter()
            .all(|(_, path)| *path == 1)
    );
    // The RTO is 2 s by now, and doubles: probes after 1, 3, 7 s.
    let probes: Vec<_> = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| sent.at.since(start).as_millis())
        .collect();
    assert_eq!(probes, [1000, 3000]);
    mend(&mut net);
    net.events.clear();
    let mended = net.now;
    assert_eq!(
        when(
            &mut net,
            mended,
            Span::from_secs(10),
            &state_event(0, PathState::Active)
        ),
        1020
    );
    assert_eq!(net.a.association(a).expect("up").sending_path(), PathId(0));
}

#[test]
fn rfc_7829_what_was_sent_before_a_path_failed_does_not_bring_it_back() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(0),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    // The data arrives and its acknowledgement does not; then the path is gone both ways.
    net.knob = Box::new(|packet| {
        let is_answer = packet.from == Host::B && is_on(packet, 0);
        if is_answer { Fate::Drop } else { Fate::Deliver }
    });
    let start = net.now;
    for _ in 0..3 {
        net.a.send(start, a, Message::zeros(0, 1000)).expect("room");
    }
    net.run_for(Span::from_millis(300));
    cut(&mut net, &[0]);
    when(
        &mut net,
        start,
        Span::from_secs(3),
        &state_event(0, PathState::PotentiallyFailed),
    );
    // The first SACK over the other path acknowledges all three, two of which were sent over the first one only.
    net.run_for(Span::from_millis(300));
    assert_eq!(net.a.association(a).expect("up").buffered_send(), 0);
    assert_eq!(path(&net, a, 0).state, PathState::PotentiallyFailed);
    let resumed = net.now;
    net.a.send(resumed, a, Message::zeros(0, 1000)).expect("room");
    net.run_for(Span::from_millis(300));
    let on: Vec<_> = data_sent(&net, resumed).into_iter().map(|(_, path)| path).collect();
    assert_eq!(on, [1]);
}

// The same where the newest of them was sent twice, both times before the path failed.
#[test]
fn rfc_7829_what_was_sent_twice_before_a_path_failed_does_not_bring_it_back() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(1),
        retransmit_path: Some(whimbrel_control::multipath::RetransmitPath::Same),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.knob = Box::new(|packet| {
        let is_answer = packet.from == Host::B && is_on(packet, 0);
        if is_answer { Fate::Drop } else { Fate::Deliver }
    });
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 1000));
    let failed = state_event(0, PathState::PotentiallyFailed);
    // The first timeout counts an error; the second one, of what was sent again, makes the path potentially failed.
    when(&mut net, start, Span::from_secs(5), &failed);
    cut(&mut net, &[0]);
    net.run_for(Span::from_millis(500));
    assert_eq!(net.a.association(a).expect("up").buffered_send(), 0);
    assert_eq!(path(&net, a, 0).state, PathState::PotentiallyFailed);
}

#[test]
fn rfc_7829_a_potentially_failed_path_that_stays_silent_becomes_inactive() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(1),
        path_max_retrans: 3,
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[0]);
    let start = net.now;
    for _ in 0..30 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    assert_eq!(
        when(
            &mut net,
            start,
            Span::from_secs(10),
            &state_event(0, PathState::PotentiallyFailed)
        ),
        3000
    );
    // Then the heartbeats of 4 s and 8 s.
    assert_eq!(
        when(
            &mut net,
            start,
            Span::from_secs(100),
            &state_event(0, PathState::Inactive)
        ),
        15_000
    );
    // With all paths potentially failed, data goes to the one with the fewest errors.
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[0, 1]);
    for _ in 0..30 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    let all_failed = |net: &mut Net| {
        net.a
            .association(a)
            .expect("up")
            .paths()
            .all(|p| p.state == PathState::PotentiallyFailed)
    };
    net.run_until(Span::from_secs(100), "both potentially failed", all_failed);
    mend(&mut net);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B).len(), 30);
}

/// Loses the 12th DATA packet, with enough behind it for a fast retransmit; returns the paths that its TSN was sent on.
fn paths_of_a_fast_retransmit(rule: RetransmitPath) -> Vec<usize> {
    let (mut net, a, _) = confirmed(
        2,
        &AssociationConfig {
            retransmit_path: Some(rule),
            ..quiet()
        },
    );
    let mut count = 0;
    net.knob = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && count == 12 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let start = net.now;
    for _ in 0..60 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(10));
    let lost = net.sent(Host::A, ChunkType::DATA)[11].tsns()[0];
    assert_eq!(net.a.association(a).expect("up").stats().timeouts, 0);
    assert_eq!(net.contents(Host::B).len(), 60);
    net.sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.at >= start && sent.tsns().contains(&lost))
        .map(|sent| {
            addrs(Host::B, 2)
                .iter()
                .position(|remote| *remote == sent.remote)
                .expect("an address of B")
        })
        .collect()
}

/// The same for a chunk that times out.
fn paths_of_a_timeout(rule: RetransmitPath) -> Vec<usize> {
    let (mut net, a, _) = confirmed(
        2,
        &AssociationConfig {
            retransmit_path: Some(rule),
            ..quiet()
        },
    );
    let mut first = true;
    net.knob = Box::new(move |packet| {
        let drops = packet.has(ChunkType::DATA) && core::mem::take(&mut first);
        if drops { Fate::Drop } else { Fate::Deliver }
    });
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(10));
    assert_eq!(net.contents(Host::B).len(), 1);
    data_sent(&net, start).into_iter().map(|(_, path)| path).collect()
}

// [9260:6.4-4, 6.4-5]
#[test]
fn section_6_4_where_lost_data_is_sent_again() {
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Standard), [0, 0]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Same), [0, 0]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Alternate), [0, 1]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::Standard), [0, 1]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::Same), [0, 0]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::Alternate), [0, 1]);
}

#[test]
fn lost_data_goes_where_the_policy_says() {
    // Iyengar, Amer and Stewart 2006, the policies for retransmission. After the loss the window of path 0 is still larger than the
    // initial one of path 1, its threshold is finite, it has lost a packet, and its window is full.
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::LargestCwnd), [0, 0]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::LargestSsthresh), [0, 1]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::LowestLoss), [0, 1]);
    assert_eq!(paths_of_a_fast_retransmit(RetransmitPath::Soonest), [0, 1]);
    // After the timeout path 0 may send one packet at once.
    assert_eq!(paths_of_a_timeout(RetransmitPath::LargestCwnd), [0, 1]);
    assert_eq!(paths_of_a_timeout(RetransmitPath::LowestLoss), [0, 1]);
}

#[test]
fn lost_data_goes_to_the_path_with_the_lowest_round_trip_time() {
    for slow in [0, 1] {
        let (mut net, a, _) = confirmed(
            2,
            &AssociationConfig {
                retransmit_path: Some(RetransmitPath::LowestRtt),
                hb_interval: Span::from_secs(1),
                ..AssociationConfig::default()
            },
        );
        let late = move |packet: &InFlight<'_>| {
            if is_on(packet, slow) {
                Fate::Delay(Span::from_millis(100))
            } else {
                Fate::Deliver
            }
        };
        net.knob = Box::new(late);
        net.run_for(Span::from_secs(60));
        assert!(path(&net, a, slow).srtt > path(&net, a, 1 - slow).srtt);
        let mut first = true;
        net.knob = Box::new(move |packet| {
            if packet.has(ChunkType::DATA) && core::mem::take(&mut first) {
                Fate::Drop
            } else {
                late(packet)
            }
        });
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(10));
        let paths: Vec<_> = data_sent(&net, start).into_iter().map(|(_, path)| path).collect();
        assert_eq!(paths, [0, 1 - slow]);
    }
}

#[test]
fn a_path_that_timed_out_gets_a_heartbeat_at_once() {
    // Caro et al. 2004: its data goes elsewhere, so nothing else tells how it is.
    for wanted in [false, true] {
        let recovery = RecoveryChanges {
            heartbeat_after_timeout: Some(wanted),
            ..RecoveryChanges::default()
        };
        let (mut net, a, _) = confirmed(2, &AssociationConfig { recovery, ..quiet() });
        let mut first = true;
        net.knob = Box::new(move |packet| {
            let drops = packet.has(ChunkType::DATA) && core::mem::take(&mut first);
            if drops { Fate::Drop } else { Fate::Deliver }
        });
        let start = net.now;
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(10));
        let heartbeats: Vec<_> = net
            .sent(Host::A, ChunkType::HEARTBEAT)
            .iter()
            .filter(|sent| sent.at >= start)
            .map(|sent| sent.remote)
            .collect();
        let expected = if wanted { vec![addrs(Host::B, 1)[0]] } else { Vec::new() };
        assert_eq!(heartbeats, expected);
        assert_eq!(path(&net, a, 0).errors, u32::from(!wanted), "the answer clears them");
    }
}

/// Sends over two paths, of which the first takes much longer; returns fast retransmits and the window of the first path.
fn over_unequal_paths(accounting: Accounting) -> (u64, u64) {
    let config = AssociationConfig {
        accounting: Some(accounting),
        distribution: DistributionSpec::by_name("fill-in-order"),
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.knob = Box::new(move |packet| {
        if is_on(packet, 0) {
            Fate::Delay(Span::from_millis(80))
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..400 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(30));
    assert_eq!(net.contents(Host::B).len(), 400);
    let stats = net.a.association(a).expect("up").stats();
    assert_eq!(stats.timeouts, 0, "{accounting:?}");
    (stats.fast_retransmits, path(&net, a, 0).ssthresh)
}

#[test]
fn reordering_between_paths_is_no_loss_where_each_accounts_for_itself() {
    // Ye 2004, 6.3: TSNs that overtake others on a faster path report them missing; nothing is lost here.
    let (spurious, ssthresh) = over_unequal_paths(Accounting::Association);
    assert!(spurious > 0 && ssthresh < u64::MAX, "{spurious} {ssthresh}");
    assert_eq!(over_unequal_paths(Accounting::Path), (0, u64::MAX));
    assert_eq!(over_unequal_paths(Accounting::Cmt), (0, u64::MAX));
}

#[test]
fn a_lost_retransmission_elsewhere_does_not_hold_the_path_up() {
    // Ye 2004, 6.5.1: with PSNs the recovery of path 0 ends although what it lost is lost again on path 1. With TSNs for the
    // association as a whole it cannot, and the window stays where the loss has set it.
    let window = |accounting| {
        let config = AssociationConfig {
            accounting: Some(accounting),
            retransmit_path: Some(RetransmitPath::Alternate),
            recv_buffer: 1 << 20,
            send_buffer: 1 << 20,
            ..quiet()
        };
        let (mut net, a, _) = confirmed(2, &config);
        let mut count = 0;
        net.knob = Box::new(move |packet| {
            let is_data = packet.has(ChunkType::DATA);
            count += usize::from(is_data && is_on(packet, 0));
            // The 30th packet of path 0, and all data on path 1.
            let drops = is_data && (is_on(packet, 1) || count == 30 && is_on(packet, 0));
            if drops { Fate::Drop } else { Fate::Deliver }
        });
        for _ in 0..300 {
            net.send(Host::A, a, Message::zeros(0, 1452));
        }
        // Less than RTO.Min: the retransmission has not timed out.
        net.run_for(Span::from_millis(900));
        let stats = net.a.association(a).expect("up").stats();
        assert_eq!((stats.fast_retransmits, stats.timeouts), (1, 0));
        let path = path(&net, a, 0);
        (path.cwnd, path.ssthresh)
    };
    let (cwnd, ssthresh) = window(Accounting::Association);
    assert_eq!(cwnd, ssthresh, "no growth in fast recovery");
    let (cwnd, ssthresh) = window(Accounting::Path);
    assert!(cwnd > ssthresh + 3 * 1468, "{cwnd} {ssthresh}");
}

// [9260:6.4-1]
#[test]
fn section_6_4_the_user_chooses_another_primary() {
    let (mut net, a, _) = confirmed(3, &quiet());
    for index in [2, 1, 0, 2] {
        let start = net.now;
        assert!(net.a.set_primary(start, a, PathId(index)));
        net.send(Host::A, a, Message::zeros(0, 100));
        assert_eq!(data_sent(&net, start), [(0, usize::from(index))]);
        let primaries: Vec<_> = net
            .a
            .association(a)
            .expect("up")
            .paths()
            .filter(|p| p.primary)
            .map(|p| p.id)
            .collect();
        assert_eq!(primaries, [PathId(index)]);
        net.run_for(Span::from_secs(1));
    }
    let now = net.now;
    assert!(!net.a.set_primary(now, a, PathId(3)));
}

// [9260:6.4-2, 6.7-2]
#[test]
fn section_6_4_a_sack_goes_where_the_data_came_from() {
    let (mut net, a, _) = confirmed(2, &quiet());
    for index in [1, 0, 1] {
        let now = net.now;
        net.a.set_primary(now, a, PathId(index));
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
        assert_eq!(
            net.last(Host::B, ChunkType::SACK).remote,
            addrs(Host::A, 2)[usize::from(index)]
        );
    }
}

/// A network with links that die and come back at random: as long as one lives, nothing is lost.
#[test]
fn section_8_2_paths_die_and_revive_in_turns() {
    for seed in 0..60 {
        let mut rng = Rng::stream(seed, "turns");
        let config = AssociationConfig {
            path_max_retrans: 2,
            association_max_retrans: 20,
            rto_max: Span::from_secs(4),
            hb_interval: Span::from_secs(2),
            potentially_failed_max_retrans: [None, Some(0), Some(1)][rng.below(3) as usize],
            ..AssociationConfig::default()
        };
        let (mut net, a, _) = confirmed(3, &config);
        net.capture = false;
        for round in 0..10 {
            let alive = rng.below(3) as usize;
            let dead: Vec<_> = (0..3).filter(|path| *path != alive && rng.chance(0.7)).collect();
            cut(&mut net, &dead);
            for _ in 0..20 {
                net.send(Host::A, a, Message::new(0, vec![round; 1000]));
            }
            net.run_for(Span::from_secs(40));
        }
        let got = net.contents(Host::B);
        assert_eq!(got.len(), 200, "seed {seed}: {:?}", net.close_reason(Host::A));
        assert!(
            got.iter()
                .enumerate()
                .all(|(number, content)| content[0] == number as u8 / 20),
            "seed {seed}"
        );
    }
}

#[test]
fn connecting_to_the_same_address_twice_makes_one_path() {
    let mut net = Net::new(1);
    let (now, peer) = (net.now, addr("10.0.0.2:0"));
    let id = net.a.connect(now, quiet(), 4002, &[peer, peer]).expect("can be begun");
    assert_eq!(net.a.association(id).expect("there").paths().count(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::A, id), State::Established);
}
