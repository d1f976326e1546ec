//! Recovery if too little data follows a loss for missing reports: small-window recovery (Ye 2004, 3.4), early retransmit, tail-loss probe,
//! multiple fast retransmit.

use crate::support::scripted::{Scripted, config};
use crate::support::{Fate, Host};
use whimbrel_control::Span;
use whimbrel_control::Verdict::{Congestion, Transmission};
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_proto::{AssociationConfig, LossRule, TraceEvent};

/// Ye 2004, Figure 14: the peer's window holds four packets, and the first of four is lost.
fn figure_14(small_window: bool) -> Scripted {
    let recovery = RecoveryChanges {
        small_window: Some(small_window),
        ..RecoveryChanges::default()
    };
    let config = AssociationConfig {
        recv_buffer: 4 * 1452,
        preset: whimbrel_proto::Preset::Rfc2960,
        ..config(recovery)
    };
    let mut scripted = Scripted::with(&config, &[Congestion]);
    scripted.lose(&[1]);
    scripted.send(12);
    scripted.run(600);
    scripted
}

#[test]
fn small_window_recovery_retransmits_the_lowest_chunk_in_idle_time() {
    // Ye 2004, 3.4: the lowest chunk is retransmitted when the highest one is acknowledged, and cwnd does not change.
    let scripted = figure_14(true);
    assert_eq!(scripted.resent(), [20]);
    let stats = scripted.stats();
    assert_eq!(
        (stats.timeouts, stats.window_reductions, stats.retransmissions),
        (0, 0, 1)
    );
    assert_eq!(scripted.net.contents(Host::B).len(), 13);
    let rules = scripted.collect(|event| match event {
        TraceEvent::TsnLost { rule, .. } => Some(*rule),
        _ => None,
    });
    assert_eq!(rules, [(20, LossRule::SmallWindow)]);

    let scripted = figure_14(false);
    assert!(
        scripted.resent().is_empty(),
        "three missing reports do not suffice, and RTO.Min is one second"
    );
}

#[test]
fn small_window_recovery_retransmits_once() {
    let recovery = RecoveryChanges {
        small_window: Some(true),
        ..RecoveryChanges::default()
    };
    let mut scripted = Scripted::new(recovery, &[Congestion]);
    scripted.lose(&[1, 4]);
    scripted.send(3);
    scripted.run(600);
    assert_eq!(scripted.resent(), [20]);
    scripted.run(2000);
    assert_eq!((scripted.resent().len(), scripted.stats().timeouts), (2, 1));
}

#[test]
fn early_retransmit_requires_one_report_fewer_than_outstanding_chunks() {
    // RFC 5827 §3.2
    for (early, packets, expected) in [(true, 3, vec![20]), (true, 2, vec![20]), (false, 3, vec![1000])] {
        let recovery = RecoveryChanges {
            early_retransmit: Some(early),
            ..RecoveryChanges::default()
        };
        let mut scripted = Scripted::new(recovery, &[Congestion]);
        scripted.lose(&[1]);
        scripted.send(packets);
        scripted.run(2000);
        assert_eq!(scripted.resent(), expected, "{packets} packets");
        assert_eq!(scripted.stats().window_reductions, 1);
    }
}

#[test]
fn a_tail_loss_is_repaired_by_a_probe() {
    // RFC 8985 §7
    let recovery = RecoveryChanges {
        tail_loss_probe: Some(true),
        ..RecoveryChanges::default()
    };
    let mut scripted = Scripted::new(recovery, &[Congestion]);
    scripted.lose(&[10]);
    scripted.send(10);
    scripted.run(2000);
    // The last acknowledgement arrived at 20 ms; two round trips of 20 ms, and 200 ms for a delayed SACK.
    let resent = scripted.resent();
    assert!(resent.len() == 1 && (255..=265).contains(&resent[0]), "{resent:?}");
    scripted.send(1);
    scripted.run(500);
    let stats = scripted.stats();
    assert_eq!((stats.timeouts, stats.probes), (0, 1));
    assert_eq!(
        (stats.losses_judged_congestion, stats.window_reductions),
        (1, 1),
        "it was a loss"
    );

    // The last two are lost: the probe causes the missing reports for the other one, with early retransmit.
    let both = RecoveryChanges {
        early_retransmit: Some(true),
        ..recovery
    };
    let mut scripted = Scripted::new(both, &[Congestion]);
    scripted.lose(&[9, 10]);
    scripted.send(10);
    scripted.run(2000);
    assert_eq!((scripted.stats().timeouts, scripted.stats().retransmissions), (0, 2));
    assert_eq!(scripted.stats().window_reductions, 1);
}

#[test]
fn a_tail_loss_probe_of_late_data_changes_nothing() {
    let recovery = RecoveryChanges {
        tail_loss_probe: Some(true),
        ..RecoveryChanges::default()
    };
    let mut scripted = Scripted::new(recovery, &[Congestion]);
    let until = scripted.net.now + Span::from_millis(275);
    scripted.net.filter = Box::new(move |packet| {
        let held = until.since(packet.now);
        if packet.from == Host::B && !held.is_zero() {
            Fate::Delay(held)
        } else {
            Fate::Deliver
        }
    });
    scripted.send(1);
    scripted.run(1000);
    scripted.send(1);
    scripted.run(1000);
    let stats = scripted.stats();
    assert_eq!((stats.probes, stats.timeouts, stats.window_reductions), (1, 0, 0));
}

#[test]
fn multiple_fast_retransmit_repeats_a_lost_retransmission() {
    // Caro et al. 2002: data sent after the retransmission shows that it was lost again.
    let scripted = |multiple| {
        let recovery = RecoveryChanges {
            multiple_fast_retransmit: Some(multiple),
            ..RecoveryChanges::default()
        };
        let mut scripted = Scripted::new(recovery, &[Transmission]);
        // The third of 32 packets in flight is lost; its retransmission is the fourth packet after the window is open again.
        let mut lost = 0;
        let mut victim = None;
        let mut count = 0;
        scripted.net.filter = Box::new(move |packet| {
            let tsns = packet.tsns();
            if packet.from != Host::A || tsns.is_empty() {
                return Fate::Deliver;
            }
            count += 1;
            if count == 3 {
                victim = Some(tsns[0]);
            }
            if Some(tsns[0]) == victim && lost < 3 {
                lost += 1;
                return Fate::Drop;
            }
            Fate::Deliver
        });
        scripted.send(300);
        scripted.run(900);
        scripted
    };
    let multiple = scripted(true);
    assert_eq!(multiple.resent(), [20, 40, 60], "one round trip each");
    assert_eq!(multiple.stats().timeouts, 0);
    assert_eq!(multiple.stats().fast_retransmits, 3);
    assert_eq!(scripted(false).resent(), [20], "the standard waits for the timer");
}
