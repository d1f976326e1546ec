//! Several paths: failure, recovery, heartbeats, and the paths for data (RFC 9260 §5.4, §6.4, §8.1 to §8.3, RFC 7829).

use crate::support::paths::{confirmed, cut, data_sent, drop_next_data, is_on, mend, path, quiet, state_event, when};
use crate::support::{Fate, Host, Net, addr, addrs};
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssociationConfig, CloseReason, Message, PathId, PathState, State};
use whimbrel_wire::ChunkType;

// [9260:8.2-1, 8.2-2, 8.2-4, 6.4-4, 6.4.1-1, 6.3.3-1]
#[test]
fn section_8_2_a_failed_primary_becomes_inactive_after_path_max_retrans_timeouts() {
    let (mut net, a, _) = confirmed(2, &quiet());
    cut(&mut net, &[0]);
    let start = net.now;
    for _ in 0..100 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    // The RTO is 1 s and doubles each time: the sixth timeout exceeds Path.Max.Retrans of 5 after 1+2+4+8+16+32 s.
    let inactive = state_event(0, PathState::Inactive);
    assert_eq!(when(&mut net, start, Span::from_secs(100), &inactive), 63_000);
    assert_eq!(path(&net, a, 0).errors, 6);
    // Each time, lost data was retransmitted on the other path at once, and new data was sent on the primary until it was inactive.
    let sent = data_sent(&net, start);
    for timeout in [1000, 3000, 7000, 15_000, 31_000] {
        assert!(sent.contains(&(timeout, 1)), "at {timeout}");
        assert!(sent.contains(&(timeout, 0)), "at {timeout}");
    }
    let failed_at = net.now;
    net.run_for(Span::from_secs(10));
    assert!(data_sent(&net, failed_at).iter().all(|(_, path)| *path == 1));
    assert_eq!(net.contents(Host::B).len(), 100);
    assert_eq!(net.a.association(a).expect("established").sending_path(), PathId(1));
}

// [9260:8.2-3, 8.3-5, 8.3-7, 8.3-9, 8.3-10, 6.4-1]
#[test]
fn section_8_2_data_returns_to_the_primary_when_it_responds_again() {
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
    assert!(heartbeats >= 1, "probing continues");
    mend(&mut net);
    net.events.clear();
    let mended = net.now;
    // An RTO of at most 60 s and HB.interval of 5 s, with a jitter of half the RTO.
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
        net.run_until(Span::from_secs(1000), "the end after the last attempt", |net| {
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
            // The paths alternate, each with its own timer.
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
        // Three consecutive timeouts are survived repeatedly: the packet of the third one arrives.
        let seen = if by_heartbeat { 3 } else { 2 };
        for _ in 0..5 {
            cut(&mut net, &[0]);
            net.send(Host::A, a, Message::zeros(0, 100));
            let timeouts = net.a.association(a).expect("established").stats().timeouts;
            net.run_until(Span::from_secs(300), "the timeouts", |net| {
                net.a.association(a).expect("established").stats().timeouts == timeouts + seen
            });
            if by_heartbeat {
                net.filter = Box::new(|packet| {
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
fn rfc_7829_a_potentially_failed_path_gets_no_new_data_and_one_probe_per_rto() {
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
    assert_eq!(net.contents(Host::B).len(), 30, "all on the other path");
    assert!(
        data_sent(&net, start + Span::from_millis(1))
            .iter()
            .all(|(_, path)| *path == 1)
    );
    // The RTO is 2 s at this time and doubles: probes after 1, 3, 7 s.
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
    assert_eq!(net.a.association(a).expect("established").sending_path(), PathId(0));
}

#[test]
fn rfc_7829_data_sent_before_a_path_failed_does_not_reactivate_it() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(0),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    // The data arrives but its acknowledgement is lost; then the path fails in both directions.
    net.filter = Box::new(|packet| {
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
    // The first SACK on the other path acknowledges all three chunks, two of which were sent on the first path only.
    net.run_for(Span::from_millis(300));
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 0);
    assert_eq!(path(&net, a, 0).state, PathState::PotentiallyFailed);
    let resumed = net.now;
    net.a.send(resumed, a, Message::zeros(0, 1000)).expect("room");
    net.run_for(Span::from_millis(300));
    let on: Vec<_> = data_sent(&net, resumed).into_iter().map(|(_, path)| path).collect();
    assert_eq!(on, [1]);
}

// The same if the newest chunk was sent twice, both times before the path failed.
#[test]
fn rfc_7829_data_sent_twice_before_a_path_failed_does_not_reactivate_it() {
    let config = AssociationConfig {
        potentially_failed_max_retrans: Some(1),
        retransmit_path: Some(whimbrel_control::multipath::RetransmitPath::Same),
        ..quiet()
    };
    let (mut net, a, _) = confirmed(2, &config);
    net.filter = Box::new(|packet| {
        let is_answer = packet.from == Host::B && is_on(packet, 0);
        if is_answer { Fate::Drop } else { Fate::Deliver }
    });
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 1000));
    let failed = state_event(0, PathState::PotentiallyFailed);
    // The first timeout counts one error; the second one, of the retransmission, makes the path potentially failed.
    when(&mut net, start, Span::from_secs(5), &failed);
    cut(&mut net, &[0]);
    net.run_for(Span::from_millis(500));
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 0);
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
    // Then the heartbeats of 4 s and 8 s follow.
    assert_eq!(
        when(
            &mut net,
            start,
            Span::from_secs(100),
            &state_event(0, PathState::Inactive)
        ),
        15_000
    );
    // If all paths are potentially failed, data is sent on the one with the lowest error count.
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[0, 1]);
    for _ in 0..30 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    let all_failed = |net: &mut Net| {
        net.a
            .association(a)
            .expect("established")
            .paths()
            .all(|p| p.state == PathState::PotentiallyFailed)
    };
    net.run_until(Span::from_secs(100), "both potentially failed", all_failed);
    mend(&mut net);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B).len(), 30);
}

#[test]
fn a_path_that_timed_out_gets_a_heartbeat_at_once() {
    // Caro et al. 2004: the path's data is sent on other paths, so only a heartbeat shows its state.
    for wanted in [false, true] {
        let recovery = RecoveryChanges {
            heartbeat_after_timeout: Some(wanted),
            ..RecoveryChanges::default()
        };
        let (mut net, a, _) = confirmed(2, &AssociationConfig { recovery, ..quiet() });
        drop_next_data(&mut net);
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
        assert_eq!(
            path(&net, a, 0).errors,
            u32::from(!wanted),
            "the HEARTBEAT ACK clears them"
        );
    }
}

// [9260:6.4-1]
#[test]
fn section_6_4_the_user_can_set_another_primary() {
    let (mut net, a, _) = confirmed(3, &quiet());
    for index in [2, 1, 0, 2] {
        let start = net.now;
        assert!(net.a.set_primary(start, a, PathId(index)));
        net.send(Host::A, a, Message::zeros(0, 100));
        assert_eq!(data_sent(&net, start), [(0, usize::from(index))]);
        let primaries: Vec<_> = net
            .a
            .association(a)
            .expect("established")
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
fn section_6_4_a_sack_is_sent_to_the_source_of_the_data() {
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

/// Paths fail and recover at random: while one of them works, nothing is lost.
#[test]
fn section_8_2_nothing_is_lost_while_one_path_works() {
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
            let working = rng.below(3) as usize;
            let failed: Vec<_> = (0..3).filter(|path| *path != working && rng.chance(0.7)).collect();
            cut(&mut net, &failed);
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
    let id = net
        .a
        .connect(now, quiet(), 4002, &[peer, peer])
        .expect("the association can be opened");
    assert_eq!(net.a.association(id).expect("there").paths().count(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::A, id), State::Established);
}
