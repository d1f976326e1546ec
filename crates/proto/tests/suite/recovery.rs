//! Recovery beyond the standard: the modes of Wireless-aware SCTP (Ye 2004, chapter 5, Figures 28 and 31). Verdicts are scripted.

use crate::support::scripted::{CWND, Scripted, config, wireless_aware};
use crate::support::{Fate, Host};
use whimbrel_control::recovery::{BackOff, RecoveryChanges, TransmissionRetransmit};
use whimbrel_control::{LossSignal, Span, Verdict};
use whimbrel_proto::{AssociationConfig, Message, RecoveryMode, TraceEvent};
use whimbrel_wire::ChunkType;

use Verdict::{Congestion, Transmission, Unsure};

#[test]
fn figure_31_missing_reports_with_a_mark_are_congestion() {
    let mut scripted = Scripted::new(wireless_aware(), &[Congestion]);
    scripted.lose(&[3]);
    scripted.send(32);
    scripted.run(1000);
    assert_eq!(scripted.modes(), [RecoveryMode::Congestion, RecoveryMode::Normal]);
    assert!(scripted.path().ssthresh < CWND);
    let stats = scripted.stats();
    assert_eq!((stats.recoveries, stats.window_reductions, stats.timeouts), (1, 1, 0));
    assert_eq!(
        (stats.losses_judged_congestion, stats.losses_judged_transmission),
        (1, 0)
    );
}

#[test]
fn figure_31_missing_reports_without_a_mark_are_a_random_loss() {
    // Ye 2004, 5.3.3: the modified fast retransmit is the fast retransmit without the reduction.
    let mut scripted = Scripted::new(wireless_aware(), &[Transmission]);
    scripted.lose(&[3]);
    scripted.send(32);
    scripted.run(1000);
    assert_eq!(scripted.modes(), [RecoveryMode::Loss, RecoveryMode::Normal]);
    assert_eq!(
        (scripted.path().ssthresh, scripted.path().cwnd >= CWND),
        (u64::MAX, true)
    );
    assert_eq!(scripted.resent(), [20], "at the third missing report");
    let stats = scripted.stats();
    assert_eq!((stats.recoveries, stats.window_reductions, stats.timeouts), (0, 0, 0));
    assert_eq!(
        (stats.losses_judged_congestion, stats.losses_judged_transmission),
        (0, 1)
    );
}

#[test]
fn figure_31_a_timeout_with_a_mark_is_congestion() {
    let mut scripted = Scripted::new(wireless_aware(), &[Congestion]);
    scripted.lose(&[1]);
    scripted.send(1);
    scripted.run(1500);
    assert_eq!(scripted.resent(), [1000]);
    assert!(scripted.sent(ChunkType::HEARTBEAT).is_empty());
    assert_eq!(scripted.path().ssthresh, CWND / 2);
    assert_eq!(scripted.modes(), [RecoveryMode::Congestion, RecoveryMode::Normal]);
}

#[test]
fn figure_31_a_timeout_without_a_mark_is_a_burst_and_starts_a_probe() {
    // Ye 2004, 5.3.4: then as much as the unchanged window allows.
    let mut scripted = Scripted::new(wireless_aware(), &[Transmission]);
    scripted.net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    scripted.send(40);
    scripted.run(900);
    let in_flight = scripted.path().flight;
    scripted.net.filter = Box::new(|_| Fate::Deliver);
    scripted.run(1100);
    assert_eq!(scripted.sent(ChunkType::HEARTBEAT), [1000]);
    let resent = scripted.resent();
    assert_eq!(resent[..32], [1020; 32], "after the HEARTBEAT ACK");
    assert_eq!(in_flight, CWND);
    assert_eq!(scripted.path().ssthresh, u64::MAX);
    let stats = scripted.stats();
    assert_eq!((stats.timeouts, stats.probes, stats.window_reductions), (1, 1, 0));
    assert_eq!(scripted.modes(), [RecoveryMode::Loss, RecoveryMode::Normal]);
    assert_eq!(scripted.net.contents(Host::B).len(), 41);
}

#[test]
fn cwnd_can_be_kept_after_a_timeout_without_a_probe() {
    // The scheme that Ye compares with in Figures 36 and 37: as much as cwnd allows after each timeout.
    let recovery = RecoveryChanges {
        keep_window_on_transmission_timeout: Some(true),
        ..RecoveryChanges::default()
    };
    let mut scripted = Scripted::new(recovery, &[Transmission]);
    scripted.net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    scripted.send(40);
    scripted.run(900);
    scripted.net.filter = Box::new(|_| Fate::Deliver);
    scripted.run(500);
    assert_eq!(scripted.resent()[..32], [1000; 32]);
    assert!(scripted.sent(ChunkType::HEARTBEAT).is_empty());
    assert_eq!(scripted.path().ssthresh, u64::MAX);
}

#[test]
fn in_loss_recovery_one_packet_is_retransmitted_per_round_trip() {
    // Ye 2004, 5.3.3; new data continues.
    let lost = &[3, 4, 5, 6, 7];
    let mut slow = Scripted::new(wireless_aware(), &[Transmission]);
    slow.lose(lost);
    slow.send(200);
    slow.run(2000);
    let times = slow.resent();
    assert_eq!(times.len(), 5);
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 20), "{times:?}");
    assert!(times[4] - times[0] <= 110, "{times:?}");
    let between = slow
        .sent(ChunkType::DATA)
        .iter()
        .filter(|at| (times[0]..times[4]).contains(at))
        .count();
    assert!(between > 20, "{between}");

    let recovery = RecoveryChanges {
        transmission_retransmit: Some(TransmissionRetransmit::Amap),
        ..wireless_aware()
    };
    let mut fast = Scripted::new(recovery, &[Transmission]);
    fast.lose(lost);
    fast.send(200);
    fast.run(2000);
    assert_eq!(fast.resent(), [20; 5], "as much as the window allows");
    assert_eq!((fast.stats().timeouts, slow.stats().timeouts), (0, 0));
    assert_eq!((fast.stats().window_reductions, slow.stats().window_reductions), (0, 0));
}

#[test]
fn congestion_in_a_window_with_transmission_losses_still_reduces() {
    // One reaction per window of data: a loss without a reaction does not prevent the reaction to the next loss.
    let mut scripted = Scripted::new(wireless_aware(), &[Transmission, Congestion]);
    scripted.lose(&[3, 20, 25]);
    scripted.send(32);
    scripted.run(1000);
    let stats = scripted.stats();
    assert_eq!(
        (stats.losses_judged_transmission, stats.losses_judged_congestion),
        (1, 2)
    );
    assert_eq!(stats.window_reductions, 1, "and only once for the window of data");
    assert!(scripted.path().ssthresh < CWND);
}

#[test]
fn an_unsure_verdict_counts_as_congestion() {
    let mut scripted = Scripted::new(wireless_aware(), &[Unsure]);
    scripted.lose(&[3]);
    scripted.send(32);
    scripted.run(1000);
    assert_eq!(
        (scripted.stats().losses_unsure, scripted.stats().window_reductions),
        (1, 1)
    );
    assert_eq!(scripted.modes()[0], RecoveryMode::Congestion);
}

/// Returns the intervals between the probes of a path that never responds.
fn probe_intervals(recovery: RecoveryChanges) -> Vec<u64> {
    let config = AssociationConfig {
        association_max_retrans: 100,
        path_max_retrans: 100,
        rto_min: Span::from_millis(400),
        ..config(recovery)
    };
    let mut scripted = Scripted::with(&config, &[Transmission]);
    scripted.net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    scripted.send(3);
    scripted.run(8000);
    let probes = scripted.sent(ChunkType::HEARTBEAT);
    assert_eq!(scripted.sent(ChunkType::DATA), [0, 0, 0]);
    assert_eq!(probes[0], 400, "the first timeout is the standard's");
    assert_eq!(scripted.stats().probes, probes.len() as u64);
    probes.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[test]
fn limited_back_off_stays_between_rto_and_one_and_a_half_rto() {
    // Ye 2004, 5.3.2
    let intervals = probe_intervals(wireless_aware());
    assert!(intervals.len() > 12, "{intervals:?}");
    assert!(intervals.iter().all(|ms| (400..=600).contains(ms)), "{intervals:?}");
    let (least, most) = (intervals.iter().min().unwrap(), intervals.iter().max().unwrap());
    assert!(most - least > 50, "a random factor: {intervals:?}");
}

#[test]
fn loss_recovery_can_have_its_own_minimum_rto() {
    // Ye 2004, 5.4.2: the latest computed value, rounded up to the smaller minimum.
    let small = RecoveryChanges {
        loss_rto_min: Some(Span::from_millis(100)),
        ..wireless_aware()
    };
    let intervals = probe_intervals(small);
    assert!(intervals.len() > 45, "{intervals:?}");
    assert!(intervals.iter().all(|ms| (100..=150).contains(ms)), "{intervals:?}");
    // With exponential back-off it doubles from there.
    let doubling = RecoveryChanges {
        back_off: Some(BackOff::Exponential),
        ..small
    };
    assert_eq!(probe_intervals(doubling)[..4], [200, 400, 800, 1600]);
}

#[test]
fn the_standard_back_off_doubles() {
    let doubling = RecoveryChanges {
        back_off: Some(BackOff::Exponential),
        ..wireless_aware()
    };
    assert_eq!(probe_intervals(doubling)[..3], [800, 1600, 3200]);
}

/// The acknowledgements of a window are delayed by 1.5 s: the timer expires, although nothing was lost.
fn delayed(scripted: &mut Scripted) {
    let until = scripted.net.now + Span::from_millis(1500);
    scripted.net.filter = Box::new(move |packet| {
        let held = until.since(packet.now);
        if packet.from == Host::B && !held.is_zero() {
            Fate::Delay(held)
        } else {
            Fate::Deliver
        }
    });
    scripted.send(20);
    scripted.run(4000);
}

#[test]
fn a_sack_before_the_heartbeat_ack_cancels_the_retransmission() {
    // Ye 2004, 5.4.2
    let mut scripted = Scripted::new(wireless_aware(), &[Transmission]);
    delayed(&mut scripted);
    let stats = scripted.stats();
    assert_eq!((stats.timeouts, stats.spurious_timeouts, stats.probes), (1, 1, 1));
    assert!(scripted.resent().is_empty());
    assert_eq!(scripted.path().ssthresh, u64::MAX);
    assert_eq!(scripted.net.contents(Host::B).len(), 21);
    assert_eq!(scripted.modes(), [RecoveryMode::Loss, RecoveryMode::Normal]);

    // Without the option, all data is retransmitted when the path responds.
    let recovery = RecoveryChanges {
        cancel_spurious: Some(false),
        ..wireless_aware()
    };
    let mut scripted = Scripted::new(recovery, &[Transmission]);
    delayed(&mut scripted);
    assert_eq!(scripted.stats().spurious_timeouts, 0);
}

#[test]
fn an_echoed_timestamp_distinguishes_spurious_from_real_timeouts() {
    // RFC 3522: the acknowledgement belongs to the original transmission, although data has been retransmitted.
    let recovery = RecoveryChanges {
        cancel_spurious: Some(true),
        ..RecoveryChanges::default()
    };
    let stamped = AssociationConfig {
        timestamps: Some(true),
        ..config(recovery)
    };
    let mut scripted = Scripted::with(&stamped, &[Congestion]);
    delayed(&mut scripted);
    let stats = scripted.stats();
    assert_eq!(
        (stats.timeouts, stats.spurious_timeouts, stats.retransmissions),
        (1, 1, 1)
    );
    assert_eq!(
        (scripted.path().cwnd >= CWND, scripted.path().ssthresh),
        (true, u64::MAX),
        "reversed"
    );

    let mut scripted = Scripted::with(&config(recovery), &[Congestion]);
    delayed(&mut scripted);
    assert_eq!(scripted.stats().spurious_timeouts, 0, "not detected without timestamps");
}

#[test]
fn a_burst_longer_than_the_timeout_loses_probes_but_no_data() {
    // Ye 2004, 5.3.4: no data is sent on a path that does not respond.
    let mut scripted = Scripted::new(wireless_aware(), &[Transmission]);
    let until = scripted.net.now + Span::from_millis(5500);
    scripted.net.filter = Box::new(move |packet| if packet.now < until { Fate::Drop } else { Fate::Deliver });
    scripted.send(20);
    scripted.run(9000);
    let data = scripted.sent(ChunkType::DATA);
    let probes = scripted.sent(ChunkType::HEARTBEAT);
    assert!(data[20] > *probes.last().unwrap(), "{data:?} {probes:?}");
    assert_eq!(data.len(), 40);
    assert!((4..=6).contains(&probes.len()), "{probes:?}");
    assert_eq!(scripted.net.contents(Host::B).len(), 21);
}

#[test]
fn every_lost_chunk_is_traced_with_its_verdict() {
    let mut scripted = Scripted::new(RecoveryChanges::default(), &[Transmission, Congestion]);
    scripted.lose(&[3, 4, 10]);
    scripted.send(32);
    scripted.run(1000);
    let verdicts = scripted.collect(|event| match event {
        TraceEvent::Verdict {
            tsn,
            signal: LossSignal::Gap,
            verdict,
            cwnd_before,
            cwnd,
            ..
        } => Some((tsn.0, *verdict, cwnd < cwnd_before)),
        _ => None,
    });
    let lost = scripted.collect(|event| match event {
        TraceEvent::TsnLost { tsn, .. } => Some(tsn.0),
        _ => None,
    });
    let judged: Vec<_> = verdicts.iter().map(|(_, (tsn, ..))| *tsn).collect();
    assert_eq!(judged, lost.iter().map(|(_, tsn)| *tsn).collect::<Vec<_>>());
    let said: Vec<_> = verdicts
        .iter()
        .map(|(_, (_, verdict, reduced))| (*verdict, *reduced))
        .collect();
    assert_eq!(
        said,
        [(Transmission, false), (Transmission, false), (Congestion, true)],
        "the first two at the same time"
    );
    assert!(scripted.modes().is_empty(), "the scheme has no recovery of its own");
}

#[test]
fn with_timestamps_retransmissions_measure_the_round_trip() {
    // As RFC 7323 §4: three transmissions are lost, so the RTO is 8 s when the fourth is acknowledged.
    let rto_after = |timestamps| {
        let config = AssociationConfig {
            timestamps: Some(timestamps),
            ..config(RecoveryChanges::default())
        };
        let mut scripted = Scripted::with(&config, &[Congestion]);
        scripted.lose(&[1, 2, 3]);
        scripted.net.send(Host::A, scripted.a, Message::zeros(0, 100));
        scripted.run(10_000);
        assert_eq!(scripted.stats().timeouts, 3);
        scripted.path().rto
    };
    assert_eq!(rto_after(true), Span::from_secs(1));
    assert_eq!(rto_after(false), Span::from_secs(8), "RFC 9260 §6.3.1 rule C5");
}

#[test]
fn cwnd_is_reduced_once_per_window_of_data_or_at_each_loss() {
    // Two SACKs in a window of data cause one fast retransmit each. The original text of RFC 2960 §7.2.4 halves cwnd twice.
    for (each, reductions) in [(false, 1), (true, 2)] {
        let recovery = RecoveryChanges {
            reduce_at_each_loss: Some(each),
            ..RecoveryChanges::default()
        };
        let mut scripted = Scripted::new(recovery, &[Congestion]);
        scripted.lose(&[3, 10]);
        scripted.send(32);
        scripted.run(1000);
        assert_eq!(scripted.stats().window_reductions, reductions, "at each loss: {each}");
    }
}

#[test]
fn later_losses_of_an_episode_inherit_the_verdict_that_reduced_the_window() {
    // The discriminator would judge the second loss as a transmission loss, because cwnd has been halved.
    let mut scripted = Scripted::new(RecoveryChanges::default(), &[Congestion, Transmission]);
    scripted.lose(&[3, 10]);
    scripted.send(32);
    scripted.run(1000);
    let verdicts = |scripted: &Scripted| {
        scripted.collect(|event| match event {
            TraceEvent::Verdict { verdict, episode, .. } => Some((*verdict, *episode)),
            _ => None,
        })
    };
    let said: Vec<_> = verdicts(&scripted).iter().map(|(_, said)| *said).collect();
    assert_eq!(said, [(Congestion, 1), (Congestion, 1)]);
    assert_eq!(scripted.stats().window_reductions, 1);
    assert_eq!(
        (
            scripted.stats().losses_judged_congestion,
            scripted.stats().losses_judged_transmission
        ),
        (2, 0)
    );
    // The next window of data is another episode and is judged independently.
    scripted.lose(&[1]);
    scripted.send(20);
    scripted.run(1000);
    assert_eq!(
        verdicts(&scripted).last().map(|(_, said)| *said),
        Some((Transmission, 2))
    );
    // While no loss has reduced cwnd, each loss is judged.
    let mut scripted = Scripted::new(RecoveryChanges::default(), &[Transmission, Congestion]);
    scripted.lose(&[3, 10]);
    scripted.send(32);
    scripted.run(1000);
    let said: Vec<_> = verdicts(&scripted).iter().map(|(_, said)| *said).collect();
    assert_eq!(said, [(Transmission, 1), (Congestion, 1)]);
}
