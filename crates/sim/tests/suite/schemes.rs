//! Schemes in whole runs: each helps in its intended situation and does no harm in others.

use crate::common::{flow, pair, run};
use whimbrel_control::discriminator::{DiscriminatorSpec, JitterParameters, NoisyParameters};
use whimbrel_control::window::{CubicParameters, WindowSpec};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::LinkResult;
use whimbrel_sim::config::{
    FlowConfig, FlowKind, LossConfig, QueueConfig, RedConfig, ScheduleStep, SimConfig, TrafficConfig,
};

fn with(scheme: &str) -> AssociationConfig {
    AssociationConfig {
        scheme: Scheme::by_name(scheme).unwrap_or_else(|| panic!("no scheme {scheme}")),
        recv_buffer: 1 << 22,
        send_buffer: 1 << 22,
        ..AssociationConfig::default()
    }
}

fn bulk(scheme: &str) -> FlowConfig {
    FlowConfig {
        sctp: Some(with(scheme)),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }
}

/// 10 Mbit/s, 40 ms round-trip time, a queue of one bandwidth-delay product, random loss in both directions.
fn path(scheme: &str, loss: f64) -> SimConfig {
    let mut config = pair(Rate::from_mbps(10), Span::from_millis(20), 40);
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some(34),
        bytes: None,
    };
    if loss > 0.0 {
        config.link[0].loss = LossConfig::Bernoulli { rate: loss }.into();
    }
    config.flow = vec![bulk(scheme)];
    config.measure.from = Span::from_secs(10);
    config
}

/// Returns the same with a queue that marks every packet while its average is long.
fn marking(scheme: &str, loss: f64) -> SimConfig {
    let mut config = path(scheme, loss);
    config.link[0].queue = QueueConfig::Red(RedConfig {
        max_p: 0.5,
        eci: true,
        ..RedConfig::new(100, 12.0, 36.0)
    });
    config
}

/// Returns the packets that the queue dropped.
fn refused(link: &LinkResult) -> u64 {
    link.drops
        .iter()
        .filter(|(cause, _)| cause.is_congestion())
        .map(|(_, count)| count)
        .sum()
}

/// Returns the mean goodput of three runs in Mbit/s.
fn goodput(config: &SimConfig) -> f64 {
    (1..=3).map(|seed| run(config, seed).flows[0].goodput_bps).sum::<f64>() / 3e6
}

#[test]
fn random_loss_costs_less_than_with_the_standard() {
    // (scheme, whether it needs support of routers, minimum ratio to the standard's goodput at 1 % loss)
    let gains = [
        ("wireless-aware", true, 2.2),
        ("eci", true, 1.3),
        ("jersey", true, 2.5),
        ("new-jersey", true, 2.5),
        ("jsctp", false, 2.4),
        ("jsctp-no-tabe", false, 1.8),
        ("jtcp", false, 1.5),
        ("oracle", false, 2.0),
        ("wise", false, 1.1),
        ("veno", false, 1.5),
        ("westwood", false, 2.0),
        ("cubic", false, 1.05),
        ("abba", false, 1.15),
        ("bbr", false, 2.0),
        ("bbr1", false, 2.6),
        ("copa", false, 2.5),
        ("whimbrel", false, 2.4),
        ("drain", false, 2.4),
    ];
    let standard = goodput(&path("standard", 0.01));
    assert!((2.0..4.5).contains(&standard), "{standard}");
    for (scheme, needs_routers, gain) in gains {
        let make = if needs_routers { marking } else { path };
        let ours = goodput(&make(scheme, 0.01));
        assert!(ours > gain * standard, "{scheme}: {ours} of {standard} Mbit/s");
    }
}

/// Returns the packets that the queue dropped, and the goodput in bit/s, summed over runs with these round-trip times in ms.
fn pure_congestion(scheme: &str, rtts: &[u64]) -> (u64, u64, f64) {
    let mut sums = (0, 0, 0.0);
    for rtt in rtts {
        let mut config = path(scheme, 0.0);
        config.link[0].delay = Span::from_micros(500 * rtt);
        let result = run(&config, 1);
        sums.0 += result.links[0].packets;
        sums.1 += refused(&result.links[0]);
        sums.2 += result.flows[0].goodput_bps;
    }
    sums
}

#[test]
fn pure_congestion_is_no_worse_than_with_the_standard() {
    // Schemes without router support, with the number of packets that they may lose per packet that the standard loses.
    let (_, lost, goodput) = pure_congestion("standard", &[40]);
    assert!((10..100).contains(&lost), "{lost}");
    for (scheme, allowed) in [
        ("wise", 2 * lost),
        ("veno", 2 * lost),
        ("westwood", 2 * lost),
        ("vegas", 0),
        ("cubic", 2 * lost),
        ("abba", 2 * lost),
        ("bbr", lost),
        ("bbr1", lost),
        ("copa", 0),
        ("whimbrel", 2 * lost),
        ("drain", 0),
        ("oracle", lost),
        ("jsctp", 2 * lost),
    ] {
        let (_, ours, reached) = pure_congestion(scheme, &[40]);
        assert!(ours <= allowed, "{scheme}: {ours} lost, allowed are {allowed}");
        let share = reached / goodput;
        assert!(share > 0.93, "{scheme}: {share} of the standard's goodput");
    }
}

#[test]
fn jitter_ratios_misjudge_little_of_pure_congestion() {
    // Chen et al. 2011 (4.1) set the threshold to the ratio of a full queue, so their rule misjudges some losses: up to 1.5 % of
    // all packets. The number is chaotic: 15 packets with one round-trip time, 843 with one that is 0.1 ms longer. The test uses
    // the mean.
    let rtts = &[36, 37, 38, 39, 40, 41, 42, 43, 44];
    let (packets, _, goodput) = pure_congestion("standard", rtts);
    for scheme in ["jsctp-no-tabe", "jtcp"] {
        let (_, lost, reached) = pure_congestion(scheme, rtts);
        let share = reached / goodput;
        println!("{scheme}: {lost} of {packets} packets lost, {share:.3} of the standard's goodput");
        assert!(lost <= packets / 66, "{scheme}: {lost} of {packets} packets lost");
        assert!(share > 0.93, "{scheme}: {share} of the standard's goodput");
    }
}

#[test]
fn schemes_react_to_router_indications() {
    let ecn = run(&marking("ecn", 0.0), 1);
    for scheme in ["wireless-aware", "eci", "jersey", "new-jersey", "dctcp", "prague"] {
        let result = run(&marking(scheme, 0.0), 1);
        let (ours, link) = (&result.flows[0], &result.links[0]);
        assert!(refused(link) <= 5, "{scheme}: {} lost", refused(link));
        assert!(link.mean_queue_packets < 20.0, "{scheme}: {}", link.mean_queue_packets);
        assert!(
            ours.goodput_bps > 0.97 * ecn.flows[0].goodput_bps,
            "{scheme}: {}",
            ours.goodput_bps
        );
    }
}

#[test]
fn vegas_and_bbr_keep_queues_short() {
    // Brakmo and Peterson 1995, 3.2: two to four packets. Cardwell et al. 2016: about a quarter of the BDP while it probes.
    let standard = run(&path("standard", 0.0), 1).links[0].mean_queue_packets;
    for scheme in ["vegas", "bbr", "bbr1"] {
        let queue = run(&path(scheme, 0.0), 1).links[0].mean_queue_packets;
        assert!(queue < 6.0 && queue < standard / 2.0, "{scheme}: {queue} of {standard}");
    }
}

#[test]
fn copa_keeps_a_few_packets_queued_at_full_rate() {
    // Arun and Balakrishnan 2018, section 3: the queue of one flow oscillates between nothing and 2.5 / delta = 5 packets.
    for mbps in [2, 10, 50] {
        let mut config = path("copa", 0.0);
        config.link[0].rate = Some(Rate::from_mbps(mbps));
        let result = run(&config, 1);
        let (queue, most) = (result.links[0].mean_queue_packets, result.links[0].max_queue_packets);
        let share = result.flows[0].goodput_bps / (mbps as f64 * 1e6 * 1452.0 / 1500.0);
        println!("{mbps} Mbit/s: {queue:.1} packets queued, at most {most}, {share:.3} of the rate");
        assert!((1.0..5.0).contains(&queue), "{mbps} Mbit/s: {queue}");
        assert!(share > 0.99, "{mbps} Mbit/s: {share}");
        assert_eq!(refused(&result.links[0]), 0, "{mbps} Mbit/s");
    }
}

#[test]
fn abba_takes_capacity_that_grows_much() {
    // 10 and 40 Mbit/s in turn for 10 s: the window passes 1.3 times that of the congestion, and then grows with the capacity.
    let reached = |scheme| {
        let mut config = long(&[scheme], 10, None);
        config.link[0].queue = QueueConfig::DropTail {
            packets: Some(134),
            bytes: None,
        };
        let step = |n: u64| ScheduleStep {
            up: None,
            rate: Some(Rate::from_mbps(if n % 2 == 1 { 40 } else { 10 })),
            ..ScheduleStep::up(Span::from_secs(10 * n), true)
        };
        config.link[0].schedule = (1..6).map(step).collect();
        goodput(&config)
    };
    let (abba, cubic) = (reached("abba"), reached("cubic"));
    println!("{abba:.1} and {cubic:.1} Mbit/s");
    assert!(abba > 1.05 * cubic, "{abba} and {cubic} Mbit/s");
}

#[test]
fn fqrtt_keeps_the_window_where_the_first_recovery_shows_a_full_queue() {
    // 100 Mbit/s, 40 ms, a queue of one bandwidth-delay product, 0.01 % of loss, without HyStart++: the first slow start fills the queue.
    let runs = |discriminator: &str, loss: f64, seeds: u64| {
        let mut config = path("cubic", loss);
        config.link[0].rate = Some(Rate::from_mbps(100));
        config.link[0].queue = QueueConfig::DropTail {
            packets: Some(334),
            bytes: None,
        };
        let sctp = config.flow[0].sctp.get_or_insert_default();
        sctp.discriminator = DiscriminatorSpec::by_name(discriminator);
        sctp.window = Some(WindowSpec::Cubic(CubicParameters {
            hystart: false,
            ..CubicParameters::default()
        }));
        let results: Vec<_> = (1..=seeds).map(|seed| run(&config, seed)).collect();
        let goodput = results.iter().map(|result| result.flows[0].goodput_bps).sum::<f64>() / (1e6 * seeds as f64);
        (
            goodput,
            results.iter().map(|result| refused(&result.links[0])).sum::<u64>(),
        )
    };
    let [(fqrtt, _), (every_loss, _)] = ["fqrtt", "every-loss"].map(|name| runs(name, 0.0001, 3));
    println!("0.01 %: {fqrtt:.1} and {every_loss:.1} Mbit/s");
    assert!(fqrtt > 1.3 * every_loss, "{fqrtt} and {every_loss} Mbit/s");
    let [(fqrtt, dropped), (every_loss, expected)] = ["fqrtt", "every-loss"].map(|name| runs(name, 0.0, 1));
    println!("no loss: {fqrtt:.1} and {every_loss:.1} Mbit/s, {dropped} and {expected} packets dropped");
    assert!(
        fqrtt > 0.97 * every_loss && dropped <= 2 * expected,
        "{fqrtt} Mbit/s, {dropped} dropped"
    );
}

#[test]
fn a_dynamic_k_misjudges_less_congestion() {
    let lost = |dynamic_k| {
        let mut config = path("jsctp-no-tabe", 0.0);
        let jitter = JitterParameters {
            dynamic_k,
            ..JitterParameters::default()
        };
        let sctp = config.flow[0].sctp.get_or_insert_default();
        sctp.discriminator = Some(DiscriminatorSpec::Jitter(jitter));
        refused(&run(&config, 1).links[0])
    };
    let (fixed, dynamic) = (lost(false), lost(true));
    assert!(dynamic * 2 < fixed, "{dynamic} of {fixed}");
}

/// 80 ms round-trip time, a queue of one bandwidth-delay product.
fn long(flows: &[&str], mbps: u64, loss: Option<LossConfig>) -> SimConfig {
    let mut config = pair(Rate::from_mbps(mbps), Span::from_millis(40), 60);
    config.link[0].queue = QueueConfig::DropTail {
        packets: Some((mbps as u32 * 80 / 12).max(20)),
        bytes: None,
    };
    if let Some(loss) = loss {
        config.link[0].loss = loss.into();
    }
    config.flow = flows
        .iter()
        .enumerate()
        .map(|(n, scheme)| FlowConfig {
            name: format!("f{n}"),
            ..bulk(scheme)
        })
        .collect();
    config.measure.from = Span::from_secs(15);
    config
}

#[test]
fn veno_tabe_keeps_most_of_the_capacity_that_random_loss_leaves() {
    let bursts = LossConfig::GilbertElliott {
        good_to_bad: 0.005,
        bad_to_good: 0.25,
        good_loss: 0.0,
        bad_loss: 1.0,
    };
    let bernoulli = |rate| Some(LossConfig::Bernoulli { rate });
    let losses = [
        (None, 0.0),
        (bernoulli(0.01), 0.01),
        (bernoulli(0.02), 0.02),
        (bernoulli(0.05), 0.05),
        (Some(bursts), 0.005 / 0.255),
    ];
    // At 2 Mbit/s the window has 13 packets: a burst takes many of them, and T3-rtx expires. The mean of 40 seeds is 0.78.
    for (mbps, bounds) in [(20, [0.9; 5]), (2, [0.9, 0.9, 0.9, 0.89, 0.77])] {
        for ((loss, rate), bound) in losses.iter().zip(bounds) {
            let possible = mbps as f64 * (1.0 - rate) * 1452.0 / 1500.0;
            let config = long(&["veno-tabe"], mbps, loss.clone());
            let goodputs = (1..=8).map(|seed| run(&config, seed).flows[0].goodput_bps / 1e6);
            let share = goodputs.sum::<f64>() / 8.0 / possible;
            println!("{mbps} Mbit/s, loss {rate:.3}: {share:.3}");
            assert!(share > bound, "{mbps} Mbit/s, loss {rate}: {share}");
        }
    }
}

#[test]
fn veno_tabe_shares_with_cubic() {
    for start in [[0, 0], [0, 1000], [1000, 0], [0, 5000], [5000, 0]] {
        let mut config = long(&["veno-tabe", "cubic"], 20, None);
        config.duration = Span::from_secs(100);
        for (flow, millis) in config.flow.iter_mut().zip(start) {
            flow.start = Span::from_millis(millis);
        }
        let result = run(&config, 1);
        let [ours, cubic] = [0, 1].map(|n: usize| result.flows[n].goodput_bps / 1e6);
        let jain = (ours + cubic) * (ours + cubic) / (2.0 * (ours * ours + cubic * cubic));
        println!("{start:?}: {ours:.1} and {cubic:.1} Mbit/s: {jain:.3}");
        assert!(jain > 0.9, "{start:?}: {ours} and {cubic} Mbit/s: {jain}");
    }
}

/// Uses buffers of 4 MiB, which do not limit a flow on the path of [`long`].
fn with_wide_buffers(scheme: &str, loss: f64) -> SimConfig {
    let mut config = long(
        &[scheme],
        20,
        (loss > 0.0).then_some(LossConfig::Bernoulli { rate: loss }),
    );
    let sctp = config.flow[0].sctp.get_or_insert_default();
    (sctp.recv_buffer, sctp.send_buffer) = (4 << 20, 4 << 20);
    config
}

#[test]
fn bbr1_is_as_fast_as_that_of_the_linux_kernel() {
    // TCP with BBR (version 1) of Linux over the same emulated path: 20 Mbit/s, 80 ms, buffers of 4 MiB. Goodput in Mbit/s.
    for (loss, kernel) in [(0.0, 18.0), (0.01, 18.2), (0.02, 18.0), (0.05, 17.5)] {
        let ours = goodput(&with_wide_buffers("bbr1", loss));
        println!("loss {loss}: {ours:.2}, kernel {kernel}");
        assert!(
            (ours / kernel - 1.0).abs() < 0.1,
            "loss {loss}: {ours} and {kernel} Mbit/s"
        );
    }
}

#[test]
fn bbr_keeps_the_rate_while_loss_is_below_its_threshold() {
    // draft-ietf-ccwg-bbr: BBRLossThresh is 2 %. Below it the short-term bounds still decrease by the pacing margin in each round
    // with loss, until the next probe: at 1 % by a fifth in the 25 to 37 rounds between probes.
    for (loss, least) in [(0.0, 0.9), (0.005, 0.85), (0.01, 0.75)] {
        let share = goodput(&with_wide_buffers("bbr", loss)) / (20.0 * (1.0 - loss) * 1452.0 / 1500.0);
        println!("loss {loss}: {share:.3}");
        assert!(share > least, "loss {loss}: {share}");
    }
    for loss in [0.02, 0.05] {
        println!("loss {loss}: {:.2} Mbit/s", goodput(&with_wide_buffers("bbr", loss)));
    }
}

#[test]
fn a_noisy_oracle_lies_between_the_oracle_and_its_opposite() {
    let at = |a_c, a_w| {
        let mut config = path("oracle", 0.01);
        let sctp = config.flow[0].sctp.get_or_insert_default();
        sctp.discriminator = Some(DiscriminatorSpec::Noisy(NoisyParameters { a_c, a_w }));
        goodput(&config)
    };
    let (right, half, blind) = (at(1.0, 1.0), at(1.0, 0.5), at(1.0, 0.0));
    assert!(right > 1.2 * half && half > 1.1 * blind, "{right} {half} {blind}");
    assert!((right - goodput(&path("oracle", 0.01))).abs() < 0.01);
}
