//! Single rules of presets, each in both settings: RFC 9260's and ns-2.35's.

use crate::congestion::{PMDCS, alone, config, data_sent, sack, send_full, wide};
use crate::support::paths::{confirmed, cut, path};
use crate::support::{Host, Net, addrs};
use whimbrel_control::window::GrowthRule;
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, HeartbeatTimer, Preset, RuleChanges};
use whimbrel_wire::ChunkType;

fn with_rules(rules: RuleChanges, base: AssociationConfig) -> AssociationConfig {
    AssociationConfig { rules, ..base }
}

/// Half of the window after [`in_recovery`]: the first SACK let it grow by one packet.
const HALF: u64 = 101 * PMDCS / 2;

/// A hundred full packets are in flight; packet 5 has been declared lost by three missing reports.
fn in_recovery(rules: RuleChanges) -> (Net, AssocId, Time) {
    let (mut net, a) = alone(1, &with_rules(rules, wide()));
    send_full(&mut net, a, 100);
    let start = net.now;
    for last in 6..=8 {
        sack(&mut net, 5, &[(6, last)]).expect("accepted");
    }
    assert_eq!(data_sent(&net, start)[100..], [(0, vec![5])]);
    assert_eq!(path(&net, a, 0).cwnd, HALF);
    (net, a, start)
}

#[test]
fn initial_ssthresh_ends_the_first_slow_start() {
    let threshold = |preset, initial_ssthresh| {
        let rules = RuleChanges {
            initial_ssthresh,
            ..RuleChanges::default()
        };
        let (net, a) = alone(1, &with_rules(rules, AssociationConfig { preset, ..config() }));
        path(&net, a, 0).ssthresh
    };
    assert_eq!(threshold(Preset::Rfc9260, None), u64::MAX);
    assert_eq!(threshold(Preset::Rfc9260, Some(20_000)), 20_000);
    assert_eq!(threshold(Preset::Ns2, None), 65_536);
    assert_eq!(threshold(Preset::Ns2, Some(20_000)), 20_000);
}

#[test]
fn later_losses_in_recovery_wait_for_cwnd_or_are_retransmitted_at_once() {
    for fast_retransmit_in_recovery in [false, true] {
        let (mut net, a, start) = in_recovery(RuleChanges {
            fast_retransmit_in_recovery: Some(fast_retransmit_in_recovery),
            ..RuleChanges::default()
        });
        // Packet 10 is missing as well; 85 packets are in flight, but cwnd is only 50.
        for last in 11..=13 {
            sack(&mut net, 5, &[(6, 9), (11, last)]).expect("accepted");
        }
        assert!(path(&net, a, 0).flight > 80 * PMDCS);
        let expected: &[(u64, Vec<u32>)] = if fast_retransmit_in_recovery {
            &[(0, vec![10])]
        } else {
            &[]
        };
        assert_eq!(data_sent(&net, start)[101..], *expected);
        assert_eq!(path(&net, a, 0).cwnd, HALF, "one reduction for a window of data");
    }
}

#[test]
fn the_window_grows_in_recovery_only_by_option() {
    for growth_in_recovery in [false, true] {
        let (mut net, a, _) = in_recovery(RuleChanges {
            growth_in_recovery: Some(growth_in_recovery),
            ..RuleChanges::default()
        });
        // cwnd is fully utilized and the cumulative TSN ack advances: slow start, as cwnd equals ssthresh.
        sack(&mut net, 9, &[]).expect("accepted");
        let grown = if growth_in_recovery { PMDCS } else { 0 };
        assert_eq!(path(&net, a, 0).cwnd, HALF + grown);
    }
}

#[test]
fn the_sack_that_ends_recovery_increases_cwnd_in_ns_2() {
    for (growth, grown) in [(GrowthRule::CumulativeAdvance, 0), (GrowthRule::FullWindow, PMDCS)] {
        let (mut net, a, _) = in_recovery(RuleChanges {
            growth: Some(growth),
            ..RuleChanges::default()
        });
        // 96 packets are in flight. When the SACK acknowledges all data that was outstanding at the loss, cwnd is fully utilized.
        sack(&mut net, 100, &[]).expect("accepted");
        assert_eq!(path(&net, a, 0).cwnd, HALF + grown, "{growth:?}");
    }
}

#[test]
fn a_loss_of_new_data_reduces_again_only_by_option() {
    for new_data_begins_recovery in [false, true] {
        let (mut net, a, _) = in_recovery(RuleChanges {
            new_data_begins_recovery: Some(new_data_begins_recovery),
            ..RuleChanges::default()
        });
        // Packet 5 stays missing. All other packets have arrived, so 100 to 148 are sent; 100 is lost as well.
        send_full(&mut net, a, 60);
        sack(&mut net, 5, &[(6, 99)]).expect("accepted");
        for last in 101..=103 {
            sack(&mut net, 5, &[(6, 99), (101, last)]).expect("accepted");
        }
        let cwnd = if new_data_begins_recovery { HALF / 2 } else { HALF };
        assert_eq!(path(&net, a, 0).cwnd, cwnd);
    }
}

#[test]
fn a_timeout_ends_fast_recovery_only_by_option() {
    for timeout_ends_recovery in [true, false] {
        let (mut net, a, _) = in_recovery(RuleChanges {
            timeout_ends_recovery: Some(timeout_ends_recovery),
            ..RuleChanges::default()
        });
        net.run_for(Span::from_millis(1100));
        assert_eq!(net.a.association(a).expect("established").stats().timeouts, 1);
        assert_eq!(path(&net, a, 0).cwnd, PMDCS);
        // The retransmission has arrived, but not all data that was outstanding at the loss.
        sack(&mut net, 9, &[]).expect("accepted");
        let grown = if timeout_ends_recovery { PMDCS } else { 0 };
        assert_eq!(path(&net, a, 0).cwnd, PMDCS + grown);
    }
}

#[test]
fn a_second_timeout_lowers_ssthresh_only_by_option() {
    for repeated_timeout_lowers_ssthresh in [true, false] {
        let rules = RuleChanges {
            repeated_timeout_lowers_ssthresh: Some(repeated_timeout_lowers_ssthresh),
            ..RuleChanges::default()
        };
        let (mut net, a) = alone(1, &with_rules(rules, wide()));
        send_full(&mut net, a, 100);
        net.run_for(Span::from_millis(1100));
        assert_eq!(
            (path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh),
            (PMDCS, 50 * PMDCS),
            "the first"
        );
        net.run_for(Span::from_millis(2000));
        assert_eq!(net.a.association(a).expect("established").stats().timeouts, 2);
        let floor = if repeated_timeout_lowers_ssthresh { 4 } else { 50 };
        assert_eq!(
            (path(&net, a, 0).cwnd, path(&net, a, 0).ssthresh),
            (PMDCS, floor * PMDCS)
        );
    }
}

/// Returns peer addresses and times in seconds of A's heartbeats since `start`.
fn heartbeats(net: &Net, start: Time) -> Vec<(usize, f64)> {
    let remotes = addrs(Host::B, 2);
    net.sent(Host::A, ChunkType::HEARTBEAT)
        .iter()
        .filter(|sent| sent.at >= start)
        .filter_map(|sent| {
            let index = remotes.iter().position(|remote| *remote == sent.remote)?;
            Some((index, sent.at.since(start).as_nanos() as f64 / 1e9))
        })
        .collect()
}

#[test]
fn idle_paths_have_separate_heartbeat_timers_or_share_one() {
    // With an RTO of 1 s the period is 30.5 to 31.5 s, for each path or for both together, which then alternate.
    for (timer, each) in [(HeartbeatTimer::Path, 116), (HeartbeatTimer::Association, 58)] {
        let rules = RuleChanges {
            heartbeat_timer: Some(timer),
            ..RuleChanges::default()
        };
        let (mut net, _, _) = confirmed(2, &with_rules(rules, AssociationConfig::default()));
        let start = net.now;
        net.run_for(Span::from_secs(3600));
        let all = heartbeats(&net, start);
        for index in 0..2 {
            let count = all.iter().filter(|(path, _)| *path == index).count();
            assert!(count.abs_diff(each) <= 3, "{timer:?}, path {index}: {count}");
        }
        if timer == HeartbeatTimer::Association {
            assert!(all.windows(2).all(|pair| pair[0].0 != pair[1].0), "{all:?}");
        }
    }
}

#[test]
fn unanswered_heartbeats_repeat_after_the_interval_or_after_the_rto() {
    for (timer, wait) in [(HeartbeatTimer::Path, 30.0), (HeartbeatTimer::Association, 0.0)] {
        let rules = RuleChanges {
            heartbeat_timer: Some(timer),
            ..RuleChanges::default()
        };
        let (mut net, a, _) = confirmed(2, &with_rules(rules, AssociationConfig::default()));
        cut(&mut net, &[1]);
        let start = net.now;
        net.run_for(Span::from_secs(400));
        let times: Vec<f64> = heartbeats(&net, start)
            .into_iter()
            .filter_map(|(path, at)| (path == 1).then_some(at))
            .collect();
        // After an RTO of 1, 2 and 4 s without a HEARTBEAT ACK; those of RFC 9260 also wait for HB.interval and 0.5 to 1.5 RTO.
        for (n, pair) in times.windows(2).take(3).enumerate() {
            let (gap, rto) = (pair[1] - pair[0], f64::from(1 << n));
            let (low, high) = if wait == 0.0 {
                (rto, rto)
            } else {
                (wait + rto, wait + rto + 3.0 * rto)
            };
            assert!((low - 1e-6..=high + 1e-6).contains(&gap), "{timer:?}: {times:?}");
        }
        assert!(times.len() > 4 && path(&net, a, 1).errors > 0);
    }
}
