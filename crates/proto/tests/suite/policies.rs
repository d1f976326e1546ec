//! Path policies: how long data stays on a failed path, whether it returns, and that an association continues under every policy while one
//! path responds.

use crate::support::paths::{confirmed, cut, is_on, mend};
use crate::support::{Fate, Host, Net, addrs};
use whimbrel_control::multipath::policy::{
    CycleCountParameters, GapTrendParameters, PathPolicySpec, PotentiallyFailedParameters, TwoLevelParameters,
};
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, Event, Message, PathId, PathInfo, PathState};
use whimbrel_wire::ChunkType;

/// A configuration without automatic heartbeats.
fn quiet(policy: PathPolicySpec) -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        path_policy: Some(policy),
        ..AssociationConfig::default()
    }
}

fn all() -> impl Iterator<Item = PathPolicySpec> {
    PathPolicySpec::ALL
        .iter()
        .filter_map(|part| PathPolicySpec::by_name(part.name))
}

fn infos(net: &Net, id: AssocId) -> Vec<PathInfo> {
    net.a.association(id).expect("established").paths().collect()
}

fn sending(net: &Net, id: AssocId) -> usize {
    usize::from(net.a.association(id).expect("established").sending_path().0)
}

/// Returns the milliseconds until new data is sent on this path, while data is always waiting.
fn until_on(net: &mut Net, id: AssocId, path: usize, limit: Span) -> u64 {
    let start = net.now;
    keep_sending(net, id);
    net.run_until(limit, &format!("data on path {path}"), |net| {
        keep_sending(net, id);
        sending(net, id) == path
    });
    net.now.since(start).as_millis()
}

fn keep_sending(net: &mut Net, id: AssocId) {
    let association = net.a.association(id).expect("established");
    if association.queued() < 10_000 && association.buffered_send() < 200_000 {
        for _ in 0..10 {
            net.send(Host::A, id, Message::zeros(0, 1452));
        }
    }
}

#[test]
fn new_data_leaves_a_failed_path_after_the_time_of_each_policy() {
    // The RTO is 1 s and doubles each time: timeouts after 1, 3, 7, 15, 31, 63 s.
    for (name, expected) in [
        ("error-count", 63_000),
        ("potentially-failed", 1_000),
        ("two-level", 3_000),
        ("cycle-count", 31_000),
        ("gap-trend", 63_000),
        ("delay-centric", 63_000),
    ] {
        let policy = PathPolicySpec::by_name(name).expect("it is registered");
        let (mut net, a, _) = confirmed(2, &quiet(policy.clone()));
        cut(&mut net, &[0]);
        assert_eq!(until_on(&mut net, a, 1, Span::from_secs(100)), expected, "{name}");
        // With RFC 7829's limit in the transport's settings, every policy is as fast.
        let config = AssociationConfig {
            potentially_failed_max_retrans: Some(0),
            ..quiet(policy)
        };
        let (mut net, a, _) = confirmed(2, &config);
        cut(&mut net, &[0]);
        assert_eq!(until_on(&mut net, a, 1, Span::from_secs(100)), 1000, "{name}");
    }
}

#[test]
fn data_sent_before_a_policy_disabled_a_path_does_not_reactivate_it() {
    // As with RFC 7829's potentially failed paths: the data arrives but its acknowledgement is lost; then the path fails in both
    // directions.
    let policy = PathPolicySpec::TwoLevel(TwoLevelParameters { redirect: 0, change: 0 });
    let (mut net, a, _) = confirmed(2, &quiet(policy));
    let send = |net: &mut Net, count| {
        for _ in 0..count {
            net.a.send(net.now, a, Message::zeros(0, 1452)).expect("room");
        }
        net.drain(Host::A);
        net.run_for(Span::from_millis(300));
    };
    // cwnd of the first path grows above that of the other one.
    send(&mut net, 40);
    net.filter = Box::new(|packet| {
        let is_answer = packet.from == Host::B && packet.remote == addrs(Host::A, 1)[0];
        if is_answer { Fate::Drop } else { Fate::Deliver }
    });
    send(&mut net, 10);
    cut(&mut net, &[0]);
    let given_up = |net: &Net| infos(net, a)[0].state == PathState::Inactive;
    net.run_until(Span::from_secs(3), "disabled", |net| given_up(net));
    // The first SACK on the other path acknowledges all ten chunks, most of which were sent on the first path only.
    net.run_for(Span::from_millis(300));
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 0);
    assert!(given_up(&net));
    assert_eq!(sending(&net, a), 1);
}

/// Sends data over three paths, each of which fails now and then in one direction or in both.
fn run_over_failing_paths(config: &AssociationConfig, seed: u64) -> Net {
    let (mut net, a, _) = confirmed(3, config);
    let mut rng = Rng::stream(seed, "failures");
    for _ in 0..30 {
        // The hosts whose packets are dropped on each path.
        let silent: Vec<[bool; 2]> = (0..3).map(|_| [rng.chance(0.4), rng.chance(0.4)]).collect();
        net.filter = Box::new(move |packet| {
            let is_dropped = (0..3).any(|path| is_on(packet, path) && silent[path][packet.from as usize]);
            if is_dropped { Fate::Drop } else { Fate::Deliver }
        });
        for _ in 0..rng.below(3) {
            if net.a.association(a).is_some() {
                let _ = net.a.send(net.now, a, Message::zeros(0, 1452));
            }
        }
        net.run_for(Span::from_millis(300 + rng.below(3000)));
    }
    net
}

#[test]
fn rfc_9260_section_8_2_a_policy_that_never_acts_sends_the_packets_of_the_standard() {
    let never = [
        PathPolicySpec::GapTrend(GapTrendParameters {
            threshold: 1000,
            ..GapTrendParameters::default()
        }),
        PathPolicySpec::TwoLevel(TwoLevelParameters {
            redirect: 255,
            change: 255,
        }),
        PathPolicySpec::PotentiallyFailed(PotentiallyFailedParameters {
            max_retrans: 255,
            ..PotentiallyFailedParameters::default()
        }),
    ];
    for seed in 0..40 {
        let mut rng = Rng::stream(seed, "settings");
        let standard = AssociationConfig {
            path_max_retrans: 1 + rng.below(3) as u32,
            association_max_retrans: 50,
            rto_max: Span::from_secs(4),
            hb_interval: [Span::ZERO, Span::from_secs(2)][rng.below(2) as usize],
            potentially_failed_max_retrans: [None, Some(0), Some(1)][rng.below(3) as usize],
            ..AssociationConfig::default()
        };
        let expected = run_over_failing_paths(&standard, seed);
        for policy in &never {
            let config = AssociationConfig {
                path_policy: Some(policy.clone()),
                ..standard.clone()
            };
            let found = run_over_failing_paths(&config, seed);
            let count = expected.wire.len().max(found.wire.len());
            let differs = (0..count).find(|&at| expected.wire.get(at) != found.wire.get(at));
            let at = differs.map(|at| (expected.log.get(at), found.log.get(at)));
            assert!(at.is_none(), "{} seed {seed}: {at:?}", policy.name());
        }
    }
}

#[test]
fn data_returns_to_a_recovered_path_as_each_policy_specifies() {
    // The path fails and recovers 10 s after data has left it. Milliseconds until data returns, if it returns.
    let two_level = |change| PathPolicySpec::TwoLevel(TwoLevelParameters { redirect: 0, change });
    let potentially_failed = |switchover_max_retrans| {
        PathPolicySpec::PotentiallyFailed(PotentiallyFailedParameters {
            switchover_max_retrans,
            ..PotentiallyFailedParameters::default()
        })
    };
    let cycle_count = |returns| {
        PathPolicySpec::CycleCount(CycleCountParameters {
            returns,
            ..CycleCountParameters::default()
        })
    };
    for (policy, back) in [
        // Data left after 1 s; probes after 1, 3, 7 and 15 s: the one at 15 s is answered.
        (potentially_failed(None), Some(4_020)),
        (potentially_failed(Some(4)), Some(4_020)),
        // RFC 7829 §5: the third timeout, after 7 s, made the other path the primary.
        (potentially_failed(Some(2)), None),
        (two_level(4), Some(4_020)),
        (two_level(2), None),
        // Data left after 31 s; probes after 31 and 63 s.
        (cycle_count(true), Some(22_020)),
        (cycle_count(false), None),
    ] {
        let config = AssociationConfig {
            path_max_retrans: 8,
            ..quiet(policy.clone())
        };
        let (mut net, a, _) = confirmed(2, &config);
        cut(&mut net, &[0]);
        until_on(&mut net, a, 1, Span::from_secs(100));
        let left = net.now;
        while net.now < left + Span::from_secs(10) {
            keep_sending(&mut net, a);
            net.run_for(Span::from_millis(20));
        }
        mend(&mut net);
        net.run_until(Span::from_secs(100), "the path is active again", |net| {
            keep_sending(net, a);
            infos(net, a)[0].state == PathState::Active
        });
        let answered = net.now.since(left).as_millis() - 10_000;
        let returned = sending(&net, a) == 0;
        assert_eq!(returned.then_some(answered), back, "{policy:?}");
        assert_eq!(
            infos(&net, a)[0].primary,
            !matches!(&policy,
            PathPolicySpec::PotentiallyFailed(p) if p.switchover_max_retrans == Some(2))
                && policy != two_level(2)
        );
    }
}

#[test]
fn rfc_7829_an_option_restarts_with_two_packets_as_cmt_pf_does_in_ns_2() {
    for (restart_units, expected) in [(0, 1468), (2, 2 * 1468)] {
        let policy = PathPolicySpec::PotentiallyFailed(PotentiallyFailedParameters {
            restart_units,
            ..PotentiallyFailedParameters::default()
        });
        let (mut net, a, _) = confirmed(2, &quiet(policy));
        cut(&mut net, &[0]);
        for _ in 0..10 {
            net.send(Host::A, a, Message::zeros(0, 1452));
        }
        net.run_for(Span::from_secs(5));
        assert_eq!(infos(&net, a)[0].cwnd, 1468, "after the timeout");
        mend(&mut net);
        net.run_until(Span::from_secs(10), "the HEARTBEAT ACK", |net| {
            infos(net, a)[0].state == PathState::Active
        });
        assert_eq!(infos(&net, a)[0].cwnd, expected);
    }
}

#[test]
fn pan_2010_figure_2_many_short_outages_disable_a_path_that_the_standard_keeps() {
    // The path works for 1.5 s and is silent for 1 s, in turn: consecutive timeouts remain few.
    let switches = |policy: PathPolicySpec| {
        let config = AssociationConfig {
            rto_min: Span::from_millis(200),
            rto_initial: Some(Span::from_millis(500)),
            ..quiet(policy)
        };
        let (mut net, a, _) = confirmed(2, &config);
        let start = net.now;
        net.capture = false;
        net.filter = Box::new(move |packet| {
            let on_first = packet.remote == addrs(packet.from.other(), 1)[0];
            let is_silent = packet.now.since(start).as_millis() % 2500 >= 1500;
            if on_first && is_silent {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        while net.now < start + Span::from_secs(60) {
            if net.a.association(a).expect("established").queued() < 1500 {
                net.send(Host::A, a, Message::zeros(0, 1452));
            }
            net.run_for(Span::from_millis(200));
        }
        (
            sending(&net, a),
            net.a.association(a).expect("established").stats().timeouts,
        )
    };
    let (path, timeouts) = switches(PathPolicySpec::default());
    assert_eq!(path, 0, "it counts as active");
    assert!(timeouts > 20, "{timeouts}");
    let (path, timeouts) = switches(PathPolicySpec::by_name("cycle-count").expect("there"));
    assert_eq!(path, 1);
    assert!(timeouts < 20, "{timeouts}");
}

#[test]
fn policies_that_stay_do_not_follow_a_path_that_repeatedly_fails() {
    let switches = |name: &str| {
        let config = AssociationConfig {
            rto_min: Span::from_millis(200),
            rto_initial: Some(Span::from_millis(500)),
            path_max_retrans: 10,
            sack_delay: Span::from_millis(20),
            ..quiet(PathPolicySpec::by_name(name).expect("there"))
        };
        let (mut net, a, _) = confirmed(2, &config);
        net.capture = false;
        let start = net.now;
        net.filter = Box::new(move |packet| {
            let on_first = packet.remote == addrs(packet.from.other(), 1)[0];
            let is_silent = packet.now.since(start).as_millis() % 14_000 >= 7000;
            if on_first && is_silent {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        while net.now < start + Span::from_secs(140) {
            keep_sending(&mut net, a);
            net.run_for(Span::from_millis(100));
        }
        net.a.association(a).expect("established").stats().path_switches
    };
    // Ten changes to the other path and back.
    let all = ["potentially-failed", "two-level", "cycle-count"].map(switches);
    // Ten changes to the other path and nine back; the fourth timeout changes the primary path of two-level.
    assert_eq!(all, [19, 1, 1]);
}

#[test]
fn an_association_continues_without_loss_while_one_path_responds() {
    for (number, policy) in all().enumerate() {
        for seed in 0..12 {
            let mut rng = Rng::stream(seed, "turns");
            let config = AssociationConfig {
                path_max_retrans: 2,
                association_max_retrans: 20,
                rto_max: Span::from_secs(4),
                hb_interval: [Span::ZERO, Span::from_secs(2)][rng.below(2) as usize],
                potentially_failed_max_retrans: [None, Some(0), Some(1)][rng.below(3) as usize],
                path_policy: Some(policy.clone()),
                ..AssociationConfig::default()
            };
            if number == 0 && config.hb_interval.is_zero() {
                // The standard without heartbeats never probes a failed path again.
                continue;
            }
            let (mut net, a, _) = confirmed(3, &config);
            net.capture = false;
            let mut failed = Vec::new();
            for round in 0..8 {
                let working = rng.below(3) as usize;
                if config.hb_interval.is_zero() {
                    // Without heartbeats, paths that the error counter has made inactive stay inactive: no path fails for that long.
                    mend(&mut net);
                    for path in core::mem::take(&mut failed) {
                        let now = net.now;
                        net.a.request_heartbeat(now, a, PathId(path as u8));
                    }
                    net.run_for(Span::from_secs(10));
                }
                failed = (0..3).filter(|path| *path != working && rng.chance(0.7)).collect();
                cut(&mut net, &failed);
                for _ in 0..20 {
                    net.send(Host::A, a, Message::new(0, vec![round; 1000]));
                }
                net.run_for(Span::from_secs(40));
            }
            let got = net.contents(Host::B);
            let what = format!("{} seed {seed}: {:?}", policy.name(), net.close_reason(Host::A));
            assert_eq!(got.len(), 160, "{what}");
            assert!(
                got.iter()
                    .enumerate()
                    .all(|(number, content)| content[0] == number as u8 / 20),
                "{what}"
            );
        }
    }
}

#[test]
fn rfc_7829_section_4_dormant_paths_are_tried_and_the_first_that_responds_is_used() {
    for policy in all() {
        let config = AssociationConfig {
            path_max_retrans: 1,
            association_max_retrans: 50,
            rto_max: Span::from_secs(4),
            hb_interval: Span::from_secs(1),
            path_policy: Some(policy.clone()),
            ..AssociationConfig::default()
        };
        let (mut net, a, _) = confirmed(3, &config);
        cut(&mut net, &[0, 1, 2]);
        for _ in 0..20 {
            net.send(Host::A, a, Message::zeros(0, 1452));
        }
        net.run_until(Span::from_secs(100), "dormant", |net| {
            infos(net, a).iter().all(|path| path.state == PathState::Inactive)
        });
        net.run_for(Span::from_secs(20));
        assert!(net.close_reason(Host::A).is_none(), "{}", policy.name());
        cut(&mut net, &[0, 1]);
        // A heartbeat of the working path is due after 1 s and an RTO of at most 4 s with half of it as jitter; then the data's timer
        // expires.
        let mended = net.now;
        net.run_until(Span::from_secs(12), "data on the third path", |net| {
            net.contents(Host::B).len() == 20
        });
        assert!(net.now.since(mended) < Span::from_secs(12), "{}", policy.name());
        assert_eq!(sending(&net, a), 2, "{}", policy.name());
    }
}

#[test]
fn delay_centric_moves_to_the_shorter_path_and_measures_idle_paths_by_heartbeats() {
    let (mut net, a, _) = confirmed(2, &quiet(PathPolicySpec::by_name("delay-centric").expect("there")));
    // The first path takes 60 ms more in each direction.
    net.filter = Box::new(|packet| {
        let on_first = packet.remote == addrs(packet.from.other(), 1)[0];
        if on_first {
            Fate::Delay(Span::from_millis(60))
        } else {
            Fate::Deliver
        }
    });
    let start = net.now;
    let took = until_on(&mut net, a, 1, Span::from_secs(30));
    // Several round trips until the smoothed round-trip time has risen by a quarter, and one second of patience.
    assert!((1_100..3_000).contains(&took), "{took} ms");
    let probed_at: Vec<Time> = net
        .sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| sent.at)
        .collect();
    assert!(!probed_at.is_empty() && probed_at.windows(2).all(|w| w[1].since(w[0]) == Span::from_secs(1)));
    assert!(infos(&net, a)[0].primary, "the user's primary path is unchanged");
}

#[test]
fn events_report_the_decisions_of_a_policy() {
    let config = AssociationConfig {
        path_max_retrans: 8,
        ..quiet(PathPolicySpec::by_name("cycle-count").expect("there"))
    };
    let (mut net, a, _) = confirmed(2, &config);
    cut(&mut net, &[0]);
    until_on(&mut net, a, 1, Span::from_secs(100));
    let state = |state| Event::PathState { path: PathId(0), state };
    assert!(net.events_of(Host::A).contains(&state(PathState::Inactive)));
    mend(&mut net);
    net.run_for(Span::from_secs(100));
    assert!(
        net.events_of(Host::A).contains(&state(PathState::Active)),
        "it was probed without automatic heartbeats"
    );
}
