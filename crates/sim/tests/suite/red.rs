//! RED and ECN-capable SCTP together: the dumbbell of Ye 2004, Figure 21, with one association.

use crate::common::{build, flow, nodes, run};
use whimbrel_control::{Cause, Rate, Scheme, Span};
use whimbrel_proto::{AssociationConfig, Preset};
use whimbrel_sim::config::{
    ChunkKind, CongestionWarningConfig, FlowConfig, FlowKind, LinkConfig, LossConfig, QueueConfig, RedConfig,
    SimConfig, TrafficConfig, WarningMark,
};
use whimbrel_sim::topology::DirectionId;
use whimbrel_sim::{
    Congestion, DropCause, FlowResult, Interest, Observer, PacketEvent, PacketFate, RunControl, RunResult, Sample,
};

/// Ye 2004, 4.6.1: minimum threshold 14, maximum 28, weight 0.002, maximum marking probability 0.5.
fn red() -> RedConfig {
    RedConfig {
        max_p: 0.5,
        ..RedConfig::new(200, 14.0, 28.0)
    }
}

/// Links of 10 Mbit/s on both sides of a bottleneck of 2 Mbit/s and 20 ms; the round-trip time of a full packet is 79.6 ms.
fn dumbbell(queue: QueueConfig, sctp: AssociationConfig) -> SimConfig {
    let mut config = nodes(&["s1", "r1", "r4", "r6", "r8", "d1"], 180);
    let link = |a, b, mbps, micros| LinkConfig::new(a, b, Rate::from_mbps(mbps), Span::from_micros(micros));
    config.link = vec![
        link("s1", "r1", 10, 1000),
        link("r1", "r4", 10, 6100),
        link("r4", "r6", 2, 20_000),
        link("r6", "r8", 10, 6100),
        link("r8", "d1", 10, 1000),
    ];
    config.link[2].queue = queue;
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        from: "s1".to_owned(),
        to: "d1".to_owned(),
        ..flow("f", FlowKind::Sctp, TrafficConfig::default())
    }];
    config.measure.from = Span::from_secs(60);
    config
}

fn sctp(ecn: bool, ecn_cwr: bool) -> AssociationConfig {
    AssociationConfig {
        preset: Preset::Rfc2960,
        ecn: Some(ecn),
        ecn_cwr: Some(ecn_cwr),
        ..AssociationConfig::default()
    }
}

fn losing_cwr(mut config: SimConfig, rate: f64) -> SimConfig {
    config.link[2].loss = LossConfig::ChunkType {
        chunks: vec![ChunkKind::Cwr],
        model: Box::new(LossConfig::Bernoulli { rate }),
    }
    .into();
    config
}

/// Returns the fraction of the bottleneck's capacity in packets of 1500 bytes.
fn share(flow: &FlowResult) -> f64 {
    flow.goodput_bps / (2e6 * 1452.0 / 1500.0)
}

fn only(result: &RunResult) -> &FlowResult {
    &result.flows[0]
}

#[test]
fn with_ecn_no_packet_is_dropped_and_the_bottleneck_is_busy() {
    let result = run(&dumbbell(QueueConfig::Red(red()), sctp(true, false)), 1);
    let flow = only(&result);
    assert_eq!(result.drops.total(), 0);
    assert_eq!((flow.sender.retransmissions, flow.sender.timeouts), (0, 0));
    assert!(share(flow) > 0.97, "{}", share(flow));
    // Marks are echoed and reduce the window at most once each.
    let bottleneck = &result.links[4];
    assert!(bottleneck.marked > 50, "{}", bottleneck.marked);
    assert!(bottleneck.marked.abs_diff(flow.receiver.ecne_sent) <= 20);
    assert!(flow.sender.ecn_reductions > 10);
    assert!(flow.sender.ecn_reductions <= flow.sender.ecne_received);
    // The average stays near the minimum threshold.
    assert!(
        (8.0..20.0).contains(&bottleneck.mean_queue_packets),
        "{}",
        bottleneck.mean_queue_packets
    );
}

#[test]
fn without_ecn_the_same_queue_drops() {
    let result = run(&dumbbell(QueueConfig::Red(red()), sctp(false, false)), 1);
    let flow = only(&result);
    assert!(result.drops.of(DropCause::RedEarly) > 10);
    assert_eq!(
        result.drops.total(),
        result.drops.of(DropCause::RedEarly) + result.drops.of(DropCause::RedForced)
    );
    assert!(result.drops.iter().all(|(cause, _)| cause.is_congestion()));
    assert_eq!(result.links[4].marked, 0);
    assert!(flow.sender.retransmissions >= result.drops.total());
    assert!(share(flow) > 0.8, "{}", share(flow));
}

#[test]
fn lost_cwr_chunks_reduce_goodput_only_if_cwr_is_used() {
    // Ye 2004, 4.6.1, Figure 22 (a small version)
    let goodput = |cwr: bool, loss: f64| {
        let result = run(&losing_cwr(dumbbell(QueueConfig::Red(red()), sctp(true, cwr)), loss), 1);
        let flow = only(&result);
        (share(flow), flow.receiver.ecne_sent)
    };
    let (without, few) = goodput(false, 0.0);
    assert_eq!(goodput(false, 1.0), (without, few), "there is nothing to lose");
    let (with, many) = goodput(true, 0.0);
    assert!(many > 5 * few, "{many} and {few} ECNE chunks");
    let (half, _) = goodput(true, 0.5);
    let (all, _) = goodput(true, 1.0);
    assert!(with > half && half > all, "{with}, {half}, {all}");
    assert!(all < 0.7 * without, "{all} of {without}");
}

#[test]
fn enhanced_red_causes_fewer_reductions_at_the_same_goodput() {
    // Ye 2004, 4.6.3, with its parameters: minimum 10, maximum 20
    let reductions = |enhanced| {
        let queue = RedConfig {
            min: 10.0,
            max: 20.0,
            enhanced,
            ..red()
        };
        let result = run(&dumbbell(QueueConfig::Red(queue), sctp(true, false)), 1);
        (only(&result).sender.ecn_reductions, share(only(&result)))
    };
    let (standard, standard_share) = reductions(false);
    let (enhanced, enhanced_share) = reductions(true);
    assert!(enhanced * 4 < standard * 3, "{enhanced} and {standard}");
    assert!(
        enhanced_share > standard_share - 0.001,
        "{enhanced_share} and {standard_share}"
    );
}

/// The packets at the receiver, and the bottleneck's average.
#[derive(Default)]
struct Seen {
    delivered: u64,
    ce: u64,
    eci: u64,
    cw: u64,
    averages: Vec<f64>,
    lengths: Vec<f64>,
    other_averages: usize,
}

impl Observer for Seen {
    fn wants(&self, interest: Interest) -> bool {
        matches!(interest, Interest::HostPackets | Interest::Series)
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.fate == PacketFate::Delivered && event.forward {
            self.delivered += 1;
            self.ce += u64::from(event.ecn == whimbrel_proto::Ecn::Ce);
            self.eci += u64::from(event.congestion.has(Congestion::ECI));
            self.cw += u64::from(event.congestion.has(Congestion::CW));
        } else {
            // No indications on the return path, nor from the sender.
            assert_eq!(event.congestion, Congestion::NONE);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        match *sample {
            Sample::Queue {
                direction,
                packets,
                average,
                ..
            } if direction == DirectionId::of_link(2, 0) => {
                self.averages.extend(average);
                self.lengths.push(f64::from(packets));
            }
            // The return path has the same kind of queue.
            Sample::Queue { direction, .. } if direction == DirectionId::of_link(2, 1) => {}
            Sample::Queue { average, .. } => self.other_averages += usize::from(average.is_some()),
            _ => {}
        }
    }
}

fn seen(config: &SimConfig) -> Seen {
    let mut seen = Seen::default();
    build(config, 1).run_with(&mut seen, &RunControl::new());
    seen
}

#[test]
fn the_average_is_in_the_series_and_smoother_than_the_queue() {
    let seen = seen(&dumbbell(QueueConfig::Red(red()), sctp(true, false)));
    assert_eq!(seen.averages.len(), seen.lengths.len());
    assert_eq!(seen.other_averages, 0);
    let settled = seen.averages.len() / 3;
    let spread = |series: &[f64]| {
        let mean = series.iter().sum::<f64>() / series.len() as f64;
        let variance = series.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / series.len() as f64;
        (mean, variance.sqrt())
    };
    let (average, queue) = (spread(&seen.averages[settled..]), spread(&seen.lengths[settled..]));
    assert!((average.0 - queue.0).abs() < 1.5, "{average:?} and {queue:?}");
    assert!(average.1 < queue.1 / 2.0, "{average:?} and {queue:?}");
}

#[test]
fn eci_marks_many_more_packets_than_ecn() {
    // Shishir 2000, III.B: each packet above the minimum threshold, not only those chosen at random
    let queue = RedConfig { eci: true, ..red() };
    let seen = seen(&dumbbell(QueueConfig::Red(queue), sctp(true, false)));
    assert!(seen.ce > 50, "{}", seen.ce);
    assert!(seen.eci > 5 * seen.ce, "{} and {}", seen.eci, seen.ce);
    assert!(seen.eci < seen.delivered);
    assert_eq!(seen.cw, 0);
}

#[test]
fn a_congestion_warning_in_its_own_bit_keeps_the_ecn_bits() {
    let warning = |mark| {
        QueueConfig::CongestionWarning(CongestionWarningConfig {
            packets: Some(60),
            bytes: None,
            unit: Default::default(),
            threshold: 10.0,
            weight: 0.02,
            mark,
            typical_packet: 1500,
        })
    };
    let own = seen(&dumbbell(warning(WarningMark::Cw), sctp(false, false)));
    assert!(own.cw > own.delivered / 2, "{} of {}", own.cw, own.delivered);
    assert_eq!((own.ce, own.eci), (0, 0));
    let by_ce = seen(&dumbbell(warning(WarningMark::Ce), sctp(true, false)));
    assert!(by_ce.ce > 50);
    assert_eq!((by_ce.cw, by_ce.eci), (0, 0));
}

/// Returns a scheme over this queue, with transmission losses behind it.
fn lossy(queue: QueueConfig, scheme: &str, rate: f64) -> RunResult {
    let sctp = AssociationConfig {
        scheme: Scheme::by_name(scheme).expect("a scheme"),
        ..sctp_of_the_time()
    };
    let mut config = dumbbell(queue, sctp);
    config.flow[0].traffic.message_bytes = 1440;
    config.link[4].loss = LossConfig::Bernoulli { rate }.into();
    run(&config, 1)
}

fn sctp_of_the_time() -> AssociationConfig {
    AssociationConfig {
        preset: Preset::Rfc2960,
        ..AssociationConfig::default()
    }
}

#[test]
fn echoed_indications_distinguish_transmission_losses_from_congestion() {
    // Shishir 2000, III, and congestion warning (TCP Jersey): from the queue through the receiver's echo to the sender's verdict
    let eci = || QueueConfig::Red(RedConfig { eci: true, ..red() });
    let warning = || {
        QueueConfig::CongestionWarning(CongestionWarningConfig {
            packets: Some(60),
            bytes: None,
            unit: Default::default(),
            threshold: 14.0,
            weight: 0.02,
            mark: WarningMark::Cw,
            typical_packet: 1500,
        })
    };
    for (queue, scheme) in [(eci(), "eci"), (warning(), "new-jersey")] {
        let standard = lossy(queue.clone(), "standard", 0.02);
        let result = lossy(queue, scheme, 0.02);
        let counts = &only(&result).verdicts;
        assert!(counts.noticed(Some(Cause::Transmission)) > 100, "{scheme}");
        assert!(counts.a_w_by_gap() > Some(0.6), "{scheme}: {:?}", counts.a_w_by_gap());
        let (ours, theirs) = (only(&result).goodput_bps, only(&standard).goodput_bps);
        assert!(ours > 1.1 * theirs, "{scheme}: {ours} and {theirs}");
    }
    // Without negotiation there are no echoes, and every loss counts as congestion.
    let mut config = dumbbell(eci(), sctp_of_the_time());
    config.link[4].loss = LossConfig::Bernoulli { rate: 0.02 }.into();
    assert_eq!(only(&run(&config, 1)).verdicts.a_w(), Some(0.0));
}

#[test]
fn seeds_choose_different_packets_and_equal_seeds_the_same() {
    let config = dumbbell(QueueConfig::Red(red()), sctp(true, false));
    let fingerprint = |seed| run(&config, seed).fingerprint;
    assert_eq!(fingerprint(1), fingerprint(1));
    assert_ne!(fingerprint(1), fingerprint(2));
}
