//! Path policies in whole runs over two disjoint paths: each helps in its intended situation and does no harm in others.

use crate::common::{flow, nodes, paced, run};
use whimbrel_control::multipath::RetransmitPath;
use whimbrel_control::multipath::policy::{
    BandwidthParameters, CycleCountParameters, IceParameters, IceSparseParameters, PathPolicySpec, QaSctpParameters,
};
use whimbrel_control::{Rate, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::RunResult;
use whimbrel_sim::config::{
    FlowConfig, FlowKind, LinkConfig, LossConfig, QueueConfig, ScheduleStep, SimConfig, TrafficConfig, TrafficKind,
};

/// Returns one of two links from a to b.
fn link(name: &str, mbps: u64, millis: u64, loss: Option<LossConfig>) -> LinkConfig {
    let mut link = LinkConfig::new("a", "b", Rate::from_mbps(mbps), Span::from_millis(millis));
    link.name = Some(name.into());
    link.queue = QueueConfig::DropTail {
        packets: Some(50),
        bytes: None,
    };
    if let Some(loss) = loss {
        link.loss = loss.into();
    }
    link
}

fn lossy(rate: f64) -> Option<LossConfig> {
    Some(LossConfig::Bernoulli { rate })
}

/// Returns the bursts of Pan et al. 2010, 5.1: a channel with these mean times in the good and in the bad state, in milliseconds.
fn bursts(good: u64, bad: u64) -> Option<LossConfig> {
    Some(LossConfig::Markov {
        mean_good: Span::from_millis(good),
        mean_bad: Span::from_millis(bad),
        good_loss: 0.01,
        bad_loss: 1.0,
        shared: false,
    })
}

/// Returns an endless transfer over these paths, the first one being the primary.
fn transfer(policy: &PathPolicySpec, links: Vec<LinkConfig>, seconds: u64) -> SimConfig {
    let mut config = nodes(&["a", "b"], seconds);
    config.link = links;
    let sctp = AssociationConfig {
        path_policy: Some(policy.clone()),
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..AssociationConfig::default()
    };
    config.flow = vec![FlowConfig {
        sctp: Some(sctp),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }];
    config
}

/// Returns the mean goodput of three runs in Mbit/s, and the last run.
fn goodput(config: &SimConfig) -> (f64, RunResult) {
    let mut runs: Vec<_> = (1..=3).map(|seed| run(config, seed)).collect();
    let mean = runs.iter().map(|run| run.flows[0].goodput_bps).sum::<f64>() / 3e6;
    (mean, runs.remove(2))
}

fn named(name: &str) -> PathPolicySpec {
    PathPolicySpec::by_name(name).unwrap_or_else(|| panic!("no policy {name}"))
}

/// Returns parameters of ICE with earlier measurements than in the paper, so that runs can be short.
fn ice() -> IceParameters {
    IceParameters {
        first: Span::from_secs(10),
        period: Span::from_secs(60),
        length: Span::from_secs(30),
        ..IceParameters::default()
    }
}

fn sparse() -> IceSparseParameters {
    let ice = ice();
    IceSparseParameters {
        first: ice.first,
        period: ice.period,
        length: ice.length,
        ..IceSparseParameters::default()
    }
}

/// Returns every policy, with measurements that fit into short runs.
fn all() -> Vec<PathPolicySpec> {
    PathPolicySpec::ALL
        .iter()
        .map(|part| match part.name {
            "ice" => PathPolicySpec::Ice(ice()),
            "ice-sparse" => PathPolicySpec::IceSparse(sparse()),
            "qa-sctp" => PathPolicySpec::QaSctp(QaSctpParameters {
                failure: CycleCountParameters::default(),
                ice: ice(),
            }),
            name => named(name),
        })
        .collect()
}

#[test]
fn no_policy_costs_more_than_2_percent_on_equal_paths_without_loss() {
    let paths = || vec![link("first", 10, 20, None), link("second", 10, 20, None)];
    let alone = run(
        &transfer(&PathPolicySpec::default(), vec![link("first", 10, 20, None)], 100),
        1,
    );
    for policy in all() {
        let result = run(&transfer(&policy, paths(), 100), 1);
        let flow = &result.flows[0];
        let share = flow.goodput_bps / alone.flows[0].goodput_bps;
        println!(
            "{}: {share:.4}, {} switches, {} probes",
            policy.name(),
            flow.sender.path_switches,
            flow.sender.path_probes_sent
        );
        assert!(share > 0.98, "{}: {share}", policy.name());
    }
}

#[test]
fn no_policy_costs_more_than_2_percent_with_a_worse_second_path() {
    let paths = || vec![link("first", 10, 20, None), link("second", 2, 60, lossy(0.03))];
    let alone = run(
        &transfer(&PathPolicySpec::default(), vec![link("first", 10, 20, None)], 100),
        1,
    );
    for policy in all() {
        let result = run(&transfer(&policy, paths(), 100), 1);
        let flow = &result.flows[0];
        let share = flow.goodput_bps / alone.flows[0].goodput_bps;
        println!("{}: {share:.4}, {} switches", policy.name(), flow.sender.path_switches);
        assert!(share > 0.98, "{}: {share}", policy.name());
    }
}

#[test]
fn policies_leave_a_failed_path_early() {
    // Down from 20 s on. An acknowledgement after the first timeout clears the standard's error counter once, and six more timeouts
    // take 2 + 4 + 8 + 16 + 32 + 60 s.
    let paths = || {
        let mut first = link("first", 10, 20, None);
        first.schedule.push(ScheduleStep {
            at: Span::from_secs(20),
            up: Some(false),
            ..ScheduleStep::default()
        });
        vec![first, link("second", 10, 20, None)]
    };
    let goodput = |name: &str| run(&transfer(&named(name), paths(), 160), 1).flows[0].goodput_bps / 1e6;
    let standard = goodput("error-count");
    for (name, at_least) in [("potentially-failed", 9.0), ("two-level", 8.8), ("cycle-count", 5.0)] {
        let ours = goodput(name);
        println!("{name}: {ours:.2}, standard {standard:.2} Mbit/s");
        assert!(
            ours > at_least && ours > 2.0 * standard,
            "{name}: {ours} and {standard}"
        );
    }
}

#[test]
fn pan_2010_table_2_a_path_of_many_short_outages_is_left_by_its_cost() {
    for (good, bad) in [(7500, 2500), (7000, 3000)] {
        let paths = || {
            vec![
                link("first", 2, 20, bursts(good, bad)),
                link("second", 2, 20, lossy(0.01)),
            ]
        };
        let (standard, _) = goodput(&transfer(&PathPolicySpec::default(), paths(), 400));
        let (ours, last) = goodput(&transfer(&named("cycle-count"), paths(), 400));
        println!("{good}/{bad} ms: {ours:.3}, standard {standard:.3} Mbit/s");
        assert!(ours > 1.5 * standard, "{ours} and {standard}");
        assert!(last.flows[0].sender.path_switches <= 4);
    }
}

#[test]
fn pan_2010_table_3_measurements_find_the_path_on_which_the_window_grows() {
    // 5 % against 1 %: the paper has 331 against 208 kB/s.
    let paths = || vec![link("first", 6, 20, lossy(0.05)), link("second", 6, 20, lossy(0.01))];
    let (standard, _) = goodput(&transfer(&PathPolicySpec::default(), paths(), 120));
    let mut bytes = Vec::new();
    for policy in [
        PathPolicySpec::Ice(ice()),
        PathPolicySpec::IceSparse(sparse()),
        PathPolicySpec::QaSctp(QaSctpParameters {
            failure: CycleCountParameters::default(),
            ice: ice(),
        }),
    ] {
        let (ours, last) = goodput(&transfer(&policy, paths(), 120));
        let sender = &last.flows[0].sender;
        println!(
            "{}: {ours:.3}, standard {standard:.3} Mbit/s, {} switches, {} bytes of probes",
            policy.name(),
            sender.path_switches,
            sender.path_probe_bytes
        );
        assert!(ours > 1.4 * standard, "{}: {ours} and {standard}", policy.name());
        assert_eq!(sender.path_switches, 1, "{}", policy.name());
        bytes.push(sender.path_probe_bytes);
    }
    assert!(bytes[1] * 2 < bytes[0], "the sparse one: {bytes:?}");
}

#[test]
fn pan_2010_5_2_5_a_flooded_path_is_left_with_retransmissions_over_the_other_one() {
    // 8 of 10 Mbit/s of cross traffic on the first path from the start, and Table 1: rtxToAlt_ 1, and the receive buffer of ns-2.
    let config = |policy: &PathPolicySpec| {
        let paths = vec![link("first", 10, 20, None), link("second", 10, 20, None)];
        let mut config = transfer(policy, paths, 90);
        if let Some(sctp) = &mut config.flow[0].sctp {
            sctp.recv_buffer = 65_536;
            sctp.retransmit_path = Some(RetransmitPath::Alternate);
        }
        let traffic = paced(TrafficKind::Cbr, Rate::from_mbps(8), 1000);
        config.flow.push(FlowConfig {
            from_links: vec!["first".into()],
            to_links: vec!["first".into()],
            ..flow("flood", FlowKind::Udp, traffic)
        });
        config
    };
    let (standard, _) = goodput(&config(&PathPolicySpec::default()));
    for policy in [
        PathPolicySpec::Ice(ice()),
        PathPolicySpec::QaSctp(QaSctpParameters {
            failure: CycleCountParameters::default(),
            ice: ice(),
        }),
    ] {
        let (ours, last) = goodput(&config(&policy));
        println!("{}: {ours:.3}, standard {standard:.3} Mbit/s", policy.name());
        assert_eq!(last.flows[0].sender.path_switches, 1, "{}", policy.name());
        assert!(ours > 1.5 * standard, "{}: {ours} and {standard}", policy.name());
    }
}

/// Returns messages at a constant rate instead of an endless transfer.
fn messages(policy: &PathPolicySpec, paths: Vec<LinkConfig>, kbps: u64) -> SimConfig {
    let mut config = transfer(policy, paths, 60);
    config.flow[0].traffic = paced(TrafficKind::Cbr, Rate::from_bps(1000 * kbps), 1200);
    config
}

#[test]
fn rfc_7661_measurements_leave_messages_where_they_fit() {
    // Windows for the same messages are proportional to the round-trip times: the paper's comparison chooses the longer path.
    let paths = || vec![link("first", 6, 15, None), link("second", 6, 60, None)];
    let paper = IceParameters { filled: 0.0, ..ice() };
    for (policy, switches) in [
        (PathPolicySpec::Ice(ice()), 0),
        (PathPolicySpec::IceSparse(sparse()), 0),
        (
            PathPolicySpec::QaSctp(QaSctpParameters {
                failure: CycleCountParameters::default(),
                ice: ice(),
            }),
            0,
        ),
        (PathPolicySpec::Ice(paper), 1),
    ] {
        let result = run(&messages(&policy, paths(), 1000), 1);
        assert_eq!(result.flows[0].sender.path_switches, switches, "{policy:?}");
    }
}

#[test]
fn measurements_move_messages_that_do_not_fit() {
    let paths = || vec![link("first", 6, 20, lossy(0.1)), link("second", 6, 20, lossy(0.005))];
    for policy in [PathPolicySpec::Ice(ice()), PathPolicySpec::IceSparse(sparse())] {
        for seed in 1..=3 {
            let result = run(&messages(&policy, paths(), 3000), seed);
            assert_eq!(result.flows[0].sender.path_switches, 1, "{policy:?}, {seed}");
        }
    }
}

#[test]
fn sparse_measurements_choose_like_complete_ones() {
    let choice = |policy: &PathPolicySpec, first: f64, second: f64, seed| {
        let paths = vec![link("first", 6, 20, lossy(first)), link("second", 6, 20, lossy(second))];
        let result = run(&transfer(policy, paths, 60), seed);
        let sender = &result.flows[0].sender;
        (sender.path_switches, sender.path_probe_bytes)
    };
    let (mut same, mut all, mut whole_bytes, mut sparse_bytes) = (0, 0, 0, 0);
    for (first, second) in [
        (0.05, 0.01),
        (0.01, 0.05),
        (0.03, 0.01),
        (0.01, 0.03),
        (0.02, 0.005),
        (0.1, 0.02),
    ] {
        for seed in 1..=5 {
            let whole = choice(&PathPolicySpec::Ice(ice()), first, second, seed);
            let sparse = choice(&PathPolicySpec::IceSparse(sparse()), first, second, seed);
            all += 1;
            same += u32::from(whole.0 == sparse.0);
            whole_bytes += whole.1;
            sparse_bytes += sparse.1;
        }
    }
    println!("{same} of {all} alike; {sparse_bytes} of {whole_bytes} bytes");
    assert!(same * 100 >= all * 93, "{same} of {all}");
    assert!(
        sparse_bytes * 10 < whole_bytes * 3,
        "about a quarter: {sparse_bytes} of {whole_bytes} bytes"
    );
}

#[test]
fn packet_pairs_find_the_path_with_more_bandwidth() {
    let paths = || vec![link("first", 2, 20, None), link("second", 10, 20, None)];
    let result = run(
        &transfer(&PathPolicySpec::Bandwidth(BandwidthParameters::default()), paths(), 60),
        1,
    );
    let flow = &result.flows[0];
    println!("{:.2} Mbit/s", flow.goodput_bps / 1e6);
    assert!(flow.goodput_bps > 8e6, "{}", flow.goodput_bps);
    assert_eq!(flow.sender.path_switches, 1);
}

#[test]
fn the_delay_centric_policy_uses_the_path_with_the_lower_delay() {
    // With random loss the window is the same on both paths, and the rate is inversely proportional to the round-trip time.
    let paths = || vec![link("first", 10, 100, lossy(0.01)), link("second", 10, 20, lossy(0.01))];
    let (standard, _) = goodput(&transfer(&PathPolicySpec::default(), paths(), 60));
    let (ours, last) = goodput(&transfer(&named("delay-centric"), paths(), 60));
    println!("{ours:.2}, standard {standard:.2} Mbit/s");
    assert!(ours > 2.0 * standard, "{ours} and {standard}");
    assert_eq!(last.flows[0].sender.path_switches, 1);
}
