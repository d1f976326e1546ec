//! Recovery where too little follows a loss for missing reports: small-window recovery (Ye 2004, 3.4), early retransmit, tail-loss probe,
//! multiple fast retransmit.

use crate::support::story::{Story, config};
use crate::support::{Fate, Host};
use whimbrel_control::Span;
use whimbrel_control::Verdict::{Congestion, Transmission};
use whimbrel_control::recovery::RecoveryChanges;
use whimbrel_proto::{AssociationConfig, LossRule, TraceEvent};

/// Ye 2004, Figure 14: the peer's window is of four packets, and the first of four is lost.
fn figure_14(small_window: bool) -> Story {
    let recovery = RecoveryChanges {
        small_window: Some(small_window),
        ..RecoveryChanges::default()
    };
    let config = AssociationConfig {
        recv_buffer: 4 * 1452,
        preset: whimbrel_proto::Preset::Rfc2960,
        ..config(recovery)
    };
    let mut story = Story::with(&config, &[Congestion]);
    story.lose(&[1]);
    story.send(12);
    story.run(600);
    story
}

#[test]
fn a_small_window_is_recovered_in_its_idle_time() {
    // Ye 2004, 3.4: the lowest one is sent again when the highest one is acknowledged, and the window stays as it is.
    let story = figure_14(true);
    assert_eq!(story.resent(), [20]);
    let stats = story.stats();
    assert_eq!(
        (stats.timeouts, stats.window_reductions, stats.retransmissions),
        (0, 0, 1)
    );
    assert_eq!(story.net.contents(Host::B).len(), 13);
    let rules = story.collect(|event| match event {
        TraceEvent::TsnLost { rule, .. } => Some(*rule),
        _ => None,
    });
    assert_eq!(rules, [(20, LossRule::SmallWindow)]);

    let story = figure_14(false);
    assert!(
        story.resent().is_empty(),
        "three reports are too few, and the timer has a second"
    );
}

#[test]
fn a_small_window_is_recovered_once() {
    let recovery = RecoveryChanges {
        small_window: Some(true),
        ..RecoveryChanges::default()
    };
    let mut story = Story::new(recovery, &[Congestion]);
    story.lose(&[1, 4]);
    story.send(3);
    story.run(600);
    assert_eq!(story.resent(), [20]);
    story.run(2000);
    assert_eq!((story.resent().len(), story.stats().timeouts), (2, 1));
}

#[test]
fn early_retransmit_needs_one_report_fewer_than_chunks() {
    // RFC 5827 §3.2
    for (early, packets, expected) in [(true, 3, vec![20]), (true, 2, vec![20]), (false, 3, vec![1000])] {
        let recovery = RecoveryChanges {
            early_retransmit: Some(early),
            ..RecoveryChanges::default()
        };
        let mut story = Story::new(recovery, &[Congestion]);
        story.lose(&[1]);
        story.send(packets);
        story.run(2000);
        assert_eq!(story.resent(), expected, "{packets} packets");
        assert_eq!(story.stats().window_reductions, 1);
    }
}

#[test]
fn a_tail_loss_is_repaired_by_a_probe() {
    // RFC 8985 §7
    let recovery = RecoveryChanges {
        tail_loss_probe: Some(true),
        ..RecoveryChanges::default()
    };
    let mut story = Story::new(recovery, &[Congestion]);
    story.lose(&[10]);
    story.send(10);
    story.run(2000);
    // The last acknowledgement came at 20 ms; two round trips of 20 ms, and 200 ms for one that may wait.
    let resent = story.resent();
    assert!(resent.len() == 1 && (255..=265).contains(&resent[0]), "{resent:?}");
    story.send(1);
    story.run(500);
    let stats = story.stats();
    assert_eq!((stats.timeouts, stats.probes), (0, 1));
    assert_eq!(
        (stats.losses_judged_congestion, stats.window_reductions),
        (1, 1),
        "it was a loss"
    );

    // Two lost at the end: the probe makes the missing reports of the other one, with early retransmit.
    let both = RecoveryChanges {
        early_retransmit: Some(true),
        ..recovery
    };
    let mut story = Story::new(both, &[Congestion]);
    story.lose(&[9, 10]);
    story.send(10);
    story.run(2000);
    assert_eq!((story.stats().timeouts, story.stats().retransmissions), (0, 2));
    assert_eq!(story.stats().window_reductions, 1);
}

#[test]
fn a_probe_of_what_was_only_late_changes_nothing() {
    let recovery = RecoveryChanges {
        tail_loss_probe: Some(true),
        ..RecoveryChanges::default()
    };
    let mut story = Story::new(recovery, &[Congestion]);
    let until = story.net.now + Span::from_millis(275);
    story.net.knob = Box::new(move |packet| {
        let held = until.since(packet.now);
        if packet.from == Host::B && !held.is_zero() {
            Fate::Delay(held)
        } else {
            Fate::Deliver
        }
    });
    story.send(1);
    story.run(1000);
    story.send(1);
    story.run(1000);
    let stats = story.stats();
    assert_eq!((stats.probes, stats.timeouts, stats.window_reductions), (1, 0, 0));
}

#[test]
fn with_multiple_fast_retransmit_a_retransmission_that_is_lost_is_sent_again() {
    // Caro et al. 2002: what was sent after the retransmission shows that it was lost again.
    let story = |multiple| {
        let recovery = RecoveryChanges {
            multiple_fast_retransmit: Some(multiple),
            ..RecoveryChanges::default()
        };
        let mut story = Story::new(recovery, &[Transmission]);
        // Of 32 in flight the third is lost; its retransmission comes fourth after the window is open again.
        let mut lost = 0;
        let mut victim = None;
        let mut count = 0;
        story.net.knob = Box::new(move |packet| {
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
        story.send(300);
        story.run(900);
        story
    };
    let multiple = story(true);
    assert_eq!(multiple.resent(), [20, 40, 60], "one round trip each");
    assert_eq!(multiple.stats().timeouts, 0);
    assert_eq!(multiple.stats().fast_retransmits, 3);
    assert_eq!(story(false).resent(), [20], "the standard waits for the timer");
}
