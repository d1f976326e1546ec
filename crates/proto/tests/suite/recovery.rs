//! Recovery beyond the standard: the modes of Wireless-aware SCTP (Ye 2004, chapter 5, Figures 28 and 31), small-window recovery
//! (Ye 2004, 3.4), multiple fast retransmit, early retransmit, tail-loss probe. Verdicts are scripted.

use std::cell::RefCell;
use std::rc::Rc;

use crate::support::{Fate, Host, Net};
use whimbrel_control::discriminator::{Discriminate, Discriminator};
use whimbrel_control::recovery::{BackOff, RecoveryChanges, TransmissionRetransmit};
use whimbrel_control::window::WindowView;
use whimbrel_control::{LossEvent, LossSignal, Span, Time, Verdict};
use whimbrel_proto::{
    AssocId, AssociationConfig, AssociationStats, LossRule, Message, PathId, PathInfo, RecoveryMode, TraceEvent,
    TraceKinds,
};
use whimbrel_wire::ChunkType;

const UNIT: u64 = 1468;
const CWND: u64 = 32 * UNIT;

/// Says what it was told to say, the last one for ever.
#[derive(Debug)]
struct Script(Vec<Verdict>);

impl Discriminate for Script {
    fn judge(&mut self, _window: WindowView, _loss: &LossEvent) -> Verdict {
        if self.0.len() > 1 { self.0.remove(0) } else { self.0[0] }
    }
}

use Verdict::{Congestion, Transmission, Unsure};

fn config(recovery: RecoveryChanges) -> AssociationConfig {
    AssociationConfig {
        recovery,
        initial_cwnd: Some(CWND as u32),
        max_burst: 0,
        hb_interval: Span::ZERO,
        sack_frequency: 1,
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..AssociationConfig::default()
    }
}

/// The recovery that Ye recommends.
fn wireless_aware() -> RecoveryChanges {
    RecoveryChanges {
        transmission_retransmit: Some(TransmissionRetransmit::OnePerRtt),
        probe_after_timeout: Some(true),
        back_off: Some(BackOff::Limited),
        cancel_spurious: Some(true),
        ..RecoveryChanges::default()
    }
}

struct Story {
    net: Net,
    a: AssocId,
    begin: Time,
    events: Rc<RefCell<Vec<(Time, TraceEvent)>>>,
}

impl Story {
    /// An association whose round-trip time of 20 ms is known, and whose losses are judged so.
    fn new(recovery: RecoveryChanges, verdicts: &[Verdict]) -> Story {
        Story::with(&config(recovery), verdicts)
    }

    fn with(config: &AssociationConfig, verdicts: &[Verdict]) -> Story {
        let (mut net, a, _) = Net::established(1, config);
        let script = Discriminator::Other(Box::new(Script(verdicts.to_vec())));
        net.a
            .with_control(a, PathId(0), |control| control.set_discriminator(script))
            .expect("it is up");
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_millis(500));
        net.a.set_trace(TraceKinds::ALL);
        let begin = net.now;
        Story {
            net,
            a,
            begin,
            events: Rc::default(),
        }
    }

    /// Loses the n-th packets of data sent from now on, counted from 1.
    fn lose(&mut self, which: &'static [usize]) {
        let mut count = 0;
        self.net.knob = Box::new(move |packet| {
            let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
            count += usize::from(is_data);
            if is_data && which.contains(&count) {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
    }

    fn send(&mut self, packets: usize) {
        for _ in 0..packets {
            self.net.send(Host::A, self.a, Message::zeros(0, 1452));
        }
    }

    fn run(&mut self, millis: u64) {
        self.net.run_for(Span::from_millis(millis));
        let events = self.events.clone();
        self.net
            .a
            .drain_trace(&mut |record| events.borrow_mut().push((record.at, record.event)));
    }

    fn stats(&self) -> AssociationStats {
        *self.net.a.association(self.a).expect("it is up").stats()
    }

    fn path(&self) -> PathInfo {
        self.net
            .a
            .association(self.a)
            .expect("it is up")
            .paths()
            .next()
            .expect("a path")
    }

    fn millis(&self, at: Time) -> u64 {
        at.since(self.begin).as_millis()
    }

    /// When A sent packets with this chunk, in milliseconds.
    fn sent(&self, chunk_type: ChunkType) -> Vec<u64> {
        let all = self
            .net
            .wire
            .iter()
            .filter(|sent| sent.from == Host::A && sent.at >= self.begin);
        all.filter(|sent| sent.has(chunk_type))
            .map(|sent| self.millis(sent.at))
            .collect()
    }

    /// When chunks were sent again, in milliseconds.
    fn resent(&self) -> Vec<u64> {
        self.collect(|event| {
            matches!(
                event,
                TraceEvent::TsnSent {
                    retransmission: true,
                    ..
                }
            )
            .then_some(())
        })
        .into_iter()
        .map(|(at, ())| at)
        .collect()
    }

    fn modes(&self) -> Vec<RecoveryMode> {
        let mode = |event: &TraceEvent| match event {
            TraceEvent::RecoveryMode { mode, .. } => Some(*mode),
            _ => None,
        };
        self.collect(mode).into_iter().map(|(_, mode)| mode).collect()
    }

    fn collect<T>(&self, pick: impl Fn(&TraceEvent) -> Option<T>) -> Vec<(u64, T)> {
        let events = self.events.borrow();
        let found = events
            .iter()
            .filter_map(|(at, event)| Some((self.millis(*at), pick(event)?)));
        found.collect()
    }
}

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
