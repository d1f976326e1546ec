//! Recovery beyond the standard: the modes of Wireless-aware SCTP (Ye 2004, chapter 5, Figures 28 and 31). Verdicts are scripted.

use crate::support::story::{CWND, Story, config, wireless_aware};
use crate::support::{Fate, Host};
use whimbrel_control::recovery::{BackOff, RecoveryChanges, TransmissionRetransmit};
use whimbrel_control::{LossSignal, Span, Verdict};
use whimbrel_proto::{AssociationConfig, Message, RecoveryMode, TraceEvent};
use whimbrel_wire::ChunkType;

use Verdict::{Congestion, Transmission, Unsure};

#[test]
fn figure_31_missing_reports_with_a_mark_are_congestion() {
    let mut story = Story::new(wireless_aware(), &[Congestion]);
    story.lose(&[3]);
    story.send(32);
    story.run(1000);
    assert_eq!(story.modes(), [RecoveryMode::Congestion, RecoveryMode::Normal]);
    assert!(story.path().ssthresh < CWND);
    let stats = story.stats();
    assert_eq!((stats.recoveries, stats.window_reductions, stats.timeouts), (1, 1, 0));
    assert_eq!(
        (stats.losses_judged_congestion, stats.losses_judged_transmission),
        (1, 0)
    );
}

#[test]
fn figure_31_missing_reports_without_a_mark_are_a_random_loss() {
    // Ye 2004, 5.3.3: the modified fast retransmit is the fast retransmit without the reduction.
    let mut story = Story::new(wireless_aware(), &[Transmission]);
    story.lose(&[3]);
    story.send(32);
    story.run(1000);
    assert_eq!(story.modes(), [RecoveryMode::Loss, RecoveryMode::Normal]);
    assert_eq!((story.path().ssthresh, story.path().cwnd >= CWND), (u64::MAX, true));
    assert_eq!(story.resent(), [20], "as the third report comes");
    let stats = story.stats();
    assert_eq!((stats.recoveries, stats.window_reductions, stats.timeouts), (0, 0, 0));
    assert_eq!(
        (stats.losses_judged_congestion, stats.losses_judged_transmission),
        (0, 1)
    );
}

#[test]
fn figure_31_a_timeout_with_a_mark_is_congestion() {
    let mut story = Story::new(wireless_aware(), &[Congestion]);
    story.lose(&[1]);
    story.send(1);
    story.run(1500);
    assert_eq!(story.resent(), [1000]);
    assert!(story.sent(ChunkType::HEARTBEAT).is_empty());
    assert_eq!(story.path().ssthresh, CWND / 2);
    assert_eq!(story.modes(), [RecoveryMode::Congestion, RecoveryMode::Normal]);
}

#[test]
fn figure_31_a_timeout_without_a_mark_is_a_burst_and_the_path_is_probed_first() {
    // Ye 2004, 5.3.4: then as much as the window allows, which is as it was.
    let mut story = Story::new(wireless_aware(), &[Transmission]);
    story.net.knob = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    story.send(40);
    story.run(900);
    let in_flight = story.path().flight;
    story.net.knob = Box::new(|_| Fate::Deliver);
    story.run(1100);
    assert_eq!(story.sent(ChunkType::HEARTBEAT), [1000]);
    let resent = story.resent();
    assert_eq!(resent[..32], [1020; 32], "with the answer");
    assert_eq!(in_flight, CWND);
    assert_eq!(story.path().ssthresh, u64::MAX);
    let stats = story.stats();
    assert_eq!((stats.timeouts, stats.probes, stats.window_reductions), (1, 1, 0));
    assert_eq!(story.modes(), [RecoveryMode::Loss, RecoveryMode::Normal]);
    assert_eq!(story.net.contents(Host::B).len(), 41);
}

#[test]
fn without_a_probe_the_window_may_be_kept_all_the_same() {
    // The scheme that Ye compares with in Figures 36 and 37: as much as possible after each timeout.
    let recovery = RecoveryChanges {
        keep_window_on_transmission_timeout: Some(true),
        ..RecoveryChanges::default()
    };
    let mut story = Story::new(recovery, &[Transmission]);
    story.net.knob = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    story.send(40);
    story.run(900);
    story.net.knob = Box::new(|_| Fate::Deliver);
    story.run(500);
    assert_eq!(story.resent()[..32], [1000; 32]);
    assert!(story.sent(ChunkType::HEARTBEAT).is_empty());
    assert_eq!(story.path().ssthresh, u64::MAX);
}

#[test]
fn in_loss_recovery_one_packet_is_sent_again_in_each_round_trip() {
    // Ye 2004, 5.3.3; new data goes on.
    let lost = &[3, 4, 5, 6, 7];
    let mut slow = Story::new(wireless_aware(), &[Transmission]);
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
    let mut fast = Story::new(recovery, &[Transmission]);
    fast.lose(lost);
    fast.send(200);
    fast.run(2000);
    assert_eq!(fast.resent(), [20; 5], "as much as the window allows");
    assert_eq!((fast.stats().timeouts, slow.stats().timeouts), (0, 0));
    assert_eq!((fast.stats().window_reductions, slow.stats().window_reductions), (0, 0));
}

#[test]
fn congestion_in_a_window_with_transmission_losses_still_reduces() {
    // The window-of-data rule is about reactions: a loss that brought none does not excuse the next.
    let mut story = Story::new(wireless_aware(), &[Transmission, Congestion]);
    story.lose(&[3, 20, 25]);
    story.send(32);
    story.run(1000);
    let stats = story.stats();
    assert_eq!(
        (stats.losses_judged_transmission, stats.losses_judged_congestion),
        (1, 2)
    );
    assert_eq!(stats.window_reductions, 1, "and only once for the window of data");
    assert!(story.path().ssthresh < CWND);
}

#[test]
fn an_unsure_verdict_counts_as_congestion() {
    let mut story = Story::new(wireless_aware(), &[Unsure]);
    story.lose(&[3]);
    story.send(32);
    story.run(1000);
    assert_eq!((story.stats().losses_unsure, story.stats().window_reductions), (1, 1));
    assert_eq!(story.modes()[0], RecoveryMode::Congestion);
}

/// Times between the probes of a path that is dead from the beginning.
fn probe_intervals(recovery: RecoveryChanges) -> Vec<u64> {
    let config = AssociationConfig {
        association_max_retrans: 100,
        path_max_retrans: 100,
        rto_min: Span::from_millis(400),
        ..config(recovery)
    };
    let mut story = Story::with(&config, &[Transmission]);
    story.net.knob = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    story.send(3);
    story.run(8000);
    let probes = story.sent(ChunkType::HEARTBEAT);
    assert_eq!(story.sent(ChunkType::DATA), [0, 0, 0]);
    assert_eq!(probes[0], 400, "the first timeout is the standard's");
    assert_eq!(story.stats().probes, probes.len() as u64);
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
fn loss_recovery_may_have_a_minimum_of_its_own() {
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

/// A window whose acknowledgements are held up for 1.5 s: the timer goes off, and nothing was lost.
fn delayed(story: &mut Story) {
    let until = story.net.now + Span::from_millis(1500);
    story.net.knob = Box::new(move |packet| {
        let held = until.since(packet.now);
        if packet.from == Host::B && !held.is_zero() {
            Fate::Delay(held)
        } else {
            Fate::Deliver
        }
    });
    story.send(20);
    story.run(4000);
}

#[test]
fn a_sack_that_comes_before_the_answer_to_the_probe_cancels_the_retransmission() {
    // Ye 2004, 5.4.2
    let mut story = Story::new(wireless_aware(), &[Transmission]);
    delayed(&mut story);
    let stats = story.stats();
    assert_eq!((stats.timeouts, stats.spurious_timeouts, stats.probes), (1, 1, 1));
    assert!(story.resent().is_empty());
    assert_eq!(story.path().ssthresh, u64::MAX);
    assert_eq!(story.net.contents(Host::B).len(), 21);
    assert_eq!(story.modes(), [RecoveryMode::Loss, RecoveryMode::Normal]);

    // Without the option everything is sent again once the path answers.
    let recovery = RecoveryChanges {
        cancel_spurious: Some(false),
        ..wireless_aware()
    };
    let mut story = Story::new(recovery, &[Transmission]);
    delayed(&mut story);
    assert_eq!(story.stats().spurious_timeouts, 0);
}

#[test]
fn a_time_that_comes_back_tells_a_spurious_timeout_from_a_real_one() {
    // RFC 3522: the acknowledgement is of the original, although something has been sent again.
    let recovery = RecoveryChanges {
        cancel_spurious: Some(true),
        ..RecoveryChanges::default()
    };
    let stamped = AssociationConfig {
        timestamps: Some(true),
        ..config(recovery)
    };
    let mut story = Story::with(&stamped, &[Congestion]);
    delayed(&mut story);
    let stats = story.stats();
    assert_eq!(
        (stats.timeouts, stats.spurious_timeouts, stats.retransmissions),
        (1, 1, 1)
    );
    assert_eq!(
        (story.path().cwnd >= CWND, story.path().ssthresh),
        (true, u64::MAX),
        "taken back"
    );

    let mut story = Story::with(&config(recovery), &[Congestion]);
    delayed(&mut story);
    assert_eq!(story.stats().spurious_timeouts, 0, "without times there is no telling");
}

#[test]
fn a_burst_that_ends_after_the_timeout_costs_probes_and_no_data() {
    // Ye 2004, 5.3.4: nothing is wasted on a path that is down.
    let mut story = Story::new(wireless_aware(), &[Transmission]);
    let until = story.net.now + Span::from_millis(5500);
    story.net.knob = Box::new(move |packet| if packet.now < until { Fate::Drop } else { Fate::Deliver });
    story.send(20);
    story.run(9000);
    let data = story.sent(ChunkType::DATA);
    let probes = story.sent(ChunkType::HEARTBEAT);
    assert!(data[20] > *probes.last().unwrap(), "{data:?} {probes:?}");
    assert_eq!(data.len(), 40);
    assert!((4..=6).contains(&probes.len()), "{probes:?}");
    assert_eq!(story.net.contents(Host::B).len(), 21);
}

#[test]
fn every_chunk_lost_is_told_with_its_verdict() {
    let mut story = Story::new(RecoveryChanges::default(), &[Transmission, Congestion]);
    story.lose(&[3, 4, 10]);
    story.send(32);
    story.run(1000);
    let verdicts = story.collect(|event| match event {
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
    let lost = story.collect(|event| match event {
        TraceEvent::TsnLost { tsn, .. } => Some(tsn.0),
        _ => None,
    });
    let told: Vec<_> = verdicts.iter().map(|(_, (tsn, ..))| *tsn).collect();
    assert_eq!(told, lost.iter().map(|(_, tsn)| *tsn).collect::<Vec<_>>());
    let said: Vec<_> = verdicts
        .iter()
        .map(|(_, (_, verdict, reduced))| (*verdict, *reduced))
        .collect();
    assert_eq!(
        said,
        [(Transmission, false), (Transmission, false), (Congestion, true)],
        "the first two on one occasion"
    );
    assert!(story.modes().is_empty(), "the scheme has no recovery of its own");
}

#[test]
fn with_timestamps_retransmissions_measure_the_round_trip() {
    // As RFC 7323 §4: three transmissions are lost, so the RTO is 8 s when the fourth is acknowledged.
    let rto_after = |timestamps| {
        let config = AssociationConfig {
            timestamps: Some(timestamps),
            ..config(RecoveryChanges::default())
        };
        let mut story = Story::with(&config, &[Congestion]);
        story.lose(&[1, 2, 3]);
        story.net.send(Host::A, story.a, Message::zeros(0, 100));
        story.run(10_000);
        assert_eq!(story.stats().timeouts, 3);
        story.path().rto
    };
    assert_eq!(rto_after(true), Span::from_secs(1));
    assert_eq!(rto_after(false), Span::from_secs(8), "RFC 9260 §6.3.1 rule C5");
}

#[test]
fn a_window_of_data_reduces_the_window_once_or_at_each_loss() {
    // Two SACKs in a window of data cause a fast retransmit each. RFC 2960 §7.2.4 as it was written halves the window twice.
    for (each, reductions) in [(false, 1), (true, 2)] {
        let recovery = RecoveryChanges {
            reduce_at_each_loss: Some(each),
            ..RecoveryChanges::default()
        };
        let mut story = Story::new(recovery, &[Congestion]);
        story.lose(&[3, 10]);
        story.send(32);
        story.run(1000);
        assert_eq!(story.stats().window_reductions, reductions, "at each loss: {each}");
    }
}

#[test]
fn later_losses_of_an_episode_inherit_the_verdict_that_reduced_the_window() {
    // The discriminator would call the second loss a transmission error: by a window that is half of what it was.
    let mut story = Story::new(RecoveryChanges::default(), &[Congestion, Transmission]);
    story.lose(&[3, 10]);
    story.send(32);
    story.run(1000);
    let verdicts = |story: &Story| {
        story.collect(|event| match event {
            TraceEvent::Verdict { verdict, episode, .. } => Some((*verdict, *episode)),
            _ => None,
        })
    };
    let said: Vec<_> = verdicts(&story).iter().map(|(_, said)| *said).collect();
    assert_eq!(said, [(Congestion, 1), (Congestion, 1)]);
    assert_eq!(story.stats().window_reductions, 1);
    assert_eq!(
        (
            story.stats().losses_judged_congestion,
            story.stats().losses_judged_transmission
        ),
        (2, 0)
    );
    // The next window of data is another episode, and judged by itself.
    story.lose(&[1]);
    story.send(20);
    story.run(1000);
    assert_eq!(verdicts(&story).last().map(|(_, said)| *said), Some((Transmission, 2)));
    // As long as nothing has reduced the window, each loss is judged.
    let mut story = Story::new(RecoveryChanges::default(), &[Transmission, Congestion]);
    story.lose(&[3, 10]);
    story.send(32);
    story.run(1000);
    let said: Vec<_> = verdicts(&story).iter().map(|(_, said)| *said).collect();
    assert_eq!(said, [(Transmission, 1), (Congestion, 1)]);
}
