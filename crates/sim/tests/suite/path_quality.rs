//! Path quality as reported by the sender, compared with the network.

use crate::common::{build, flow, pair};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::{AssociationConfig, PathQuality};
use whimbrel_sim::config::{FlowConfig, FlowKind, JitterConfig, LossConfig, SimConfig, TrafficConfig};
use whimbrel_sim::{Interest, Observer, RunControl, RunResult, Sample};

/// The last sample of each path, and the number of samples.
#[derive(Default)]
struct Seen {
    last: Option<PathQuality>,
    samples: usize,
}

impl Observer for Seen {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::Series
    }

    fn sample(&mut self, sample: &Sample) {
        if let Sample::Path {
            forward: true, quality, ..
        } = *sample
        {
            self.last = quality;
            self.samples += 1;
        }
    }
}

fn transfer(kind: FlowKind, sctp: Option<AssociationConfig>) -> SimConfig {
    let mut config = pair(Rate::from_mbps(5), Span::from_millis(20), 60);
    config.flow = vec![FlowConfig {
        sctp,
        ..flow("bulk", kind, TrafficConfig::default())
    }];
    config
}

fn seen(config: &SimConfig) -> (PathQuality, RunResult) {
    let mut seen = Seen::default();
    let result = build(config, 1).run_with(&mut seen, &RunControl::new());
    assert!(seen.samples >= 50, "one per second");
    (seen.last.expect("it is reported"), result)
}

#[test]
fn loss_rate_and_verdicts_match_the_run() {
    for (scheme, spared) in [("standard", false), ("veno", true)] {
        let sctp = AssociationConfig {
            scheme: Scheme::by_name(scheme).expect("it is there"),
            ..AssociationConfig::default()
        };
        let mut config = transfer(FlowKind::Sctp, Some(sctp));
        config.link[0].loss = LossConfig::Bernoulli { rate: 0.03 }.into();
        let (quality, result) = seen(&config);
        // A thousand or two chunks: 3 % up to three standard deviations of the mean.
        assert!((quality.loss - 0.03).abs() < 0.017, "{quality:?}");
        let sender = &result.flows[0].sender;
        let judged = quality.judged;
        // The last sample is up to a second older than the result.
        for (of_path, of_all) in [
            (judged.congestion, sender.losses_judged_congestion),
            (judged.transmission, sender.losses_judged_transmission),
            (judged.unsure, sender.losses_unsure),
        ] {
            assert!(of_path <= of_all && of_path + 20 >= of_all, "{judged:?} and {sender:?}");
        }
        assert_eq!(judged.transmission > 0, spared, "{judged:?}");
        assert!(!quality.jitter.is_zero());
        let goodput = result.flows[0].goodput_bps;
        let rate = quality.delivery_rate.expect("it is measured").as_bps() as f64;
        assert!(
            (0.4..2.5).contains(&(rate / goodput)),
            "{rate} recently, {goodput} in total"
        );
    }
}

#[test]
fn without_loss_the_delivery_rate_equals_the_bottleneck() {
    let (quality, result) = seen(&transfer(FlowKind::Sctp, None));
    let rate = quality.delivery_rate.expect("it is measured").as_bps() as f64;
    let goodput = result.flows[0].goodput_bps;
    assert!((0.97..1.05).contains(&(rate / goodput)), "{rate} and {goodput}");
    assert_eq!(quality.judged.transmission, 0);
}

#[test]
fn jitter_is_reported() {
    // Uniform up to 40 ms in addition to the delays of a light load: two such values differ by 13 ms on average.
    let jitter = |jitter: Option<JitterConfig>| {
        let mut config = transfer(FlowKind::Sctp, None);
        config.link[0].jitter = jitter;
        config.flow[0].traffic =
            crate::common::paced(whimbrel_sim::config::TrafficKind::Cbr, Rate::from_bps(200_000), 1000);
        seen(&config).0.jitter.as_millis()
    };
    assert_eq!(jitter(None), 0);
    let reported = jitter(Some(JitterConfig::Uniform {
        min: Span::ZERO,
        max: Span::from_millis(40),
        reorder: false,
    }));
    assert!((6..=25).contains(&reported), "{reported} ms");
}
