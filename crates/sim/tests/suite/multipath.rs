//! Several paths at once, in whole runs.

use crate::common::{flow, nodes, paced, pair, run, two_paths};
use whimbrel_control::multipath::coupling::CouplingSpec;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::{Accounting, ReportingChanges, RetransmitPath};
use whimbrel_control::{Rate, Scheme, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    FlowConfig, FlowKind, LinkConfig, LossConfig, QueueConfig, ScheduleStep, SimConfig, TrafficConfig, TrafficKind,
};

/// A link: its rate in kbit/s, and its delay in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Link(u64, u64);

/// Two nodes with these links between them and an endless flow, measured from 15 s on.
fn network(links: &[Link], loss: f64, sctp: &AssociationConfig) -> SimConfig {
    let mut config = pair(Rate::from_mbps(1), Span::ZERO, 45);
    config.link = links
        .iter()
        .enumerate()
        .map(|(n, &Link(kbps, delay))| {
            let mut link = LinkConfig::new("a", "b", Rate::from_bps(1000 * kbps), Span::from_millis(delay));
            link.name = Some(format!("l{n}"));
            if loss > 0.0 {
                link.loss = LossConfig::Bernoulli { rate: loss }.into();
            }
            link
        })
        .collect();
    config.flow = vec![FlowConfig {
        sctp: Some(sctp.clone()),
        ..flow("bulk", FlowKind::Sctp, TrafficConfig::default())
    }];
    config.measure.from = Span::from_secs(15);
    config
}

/// Returns the goodput in Mbit/s.
fn goodput(links: &[Link], loss: f64, sctp: &AssociationConfig) -> f64 {
    run(&network(links, loss, sctp), 1).flows[0].goodput_bps / 1e6
}

/// Returns parameters with per-path accounting and this distribution.
fn with(distribution: &str) -> AssociationConfig {
    AssociationConfig {
        accounting: Some(Accounting::Path),
        retransmit_path: Some(RetransmitPath::Same),
        distribution: DistributionSpec::by_name(distribution),
        ..AssociationConfig::default()
    }
}

/// Returns the same with send and receive buffers of this number of bytes.
fn with_buffers(bytes: u32, distribution: &str) -> AssociationConfig {
    AssociationConfig {
        recv_buffer: bytes,
        send_buffer: bytes,
        ..with(distribution)
    }
}

/// Returns the goodput of both paths together, of the better one alone, and the sum of both alone, in Mbit/s.
fn compare(links: [Link; 2], loss: f64, sctp: &AssociationConfig) -> (f64, f64, f64) {
    let [one, other] = links.map(|way| goodput(&[way], loss, sctp));
    let both = goodput(&links, loss, sctp);
    println!("{links:?}, loss {loss}: {both:.2} of {one:.2} + {other:.2} Mbit/s");
    (both, one.max(other), one + other)
}

#[test]
fn unequal_paths_add_up_with_the_default_buffers() {
    // Ye 2004, Figure 43: delays up to 1:8. All data sent until a packet of the slow path is acknowledged has to fit into the
    // receive buffer: 20 Mbit/s for 225 ms, because acknowledgements return on the faster path, is 562 kB.
    for links in [2000, 10_000]
        .into_iter()
        .flat_map(|kbps| [25, 50, 100, 200].map(|delay| [Link(kbps, 25), Link(kbps, delay)]))
    {
        let (both, _, sum) = compare(links, 0.0, &with("earliest-arrival"));
        assert!(both > 0.97 * sum, "{links:?}: {both} of {sum}");
        let (both, _, sum) = compare(links, 0.01, &with("earliest-arrival"));
        assert!(both > 0.9 * sum, "{links:?} with loss: {both} of {sum}");
    }
}

#[test]
fn a_buffer_too_small_for_the_sum_does_no_harm() {
    for delay in [100, 200] {
        let links = [Link(10_000, 25), Link(10_000, delay)];
        let (both, best, sum) = compare(links, 0.0, &with_buffers(1 << 18, "earliest-arrival"));
        assert!(both > 0.98 * best, "{links:?}: {both} of {best}");
        assert!(
            both < 0.9 * sum,
            "{links:?}: {both} of {sum}, so the buffer is large enough"
        );
    }
}

#[test]
fn no_distribution_is_slower_than_the_best_path_alone() {
    for (buffer, links) in [1 << 18, 1 << 20].into_iter().flat_map(|buffer| {
        [
            [Link(20_000, 10), Link(1000, 200)],
            [Link(50_000, 20), Link(1000, 20)],
            [Link(10_000, 25), Link(10_000, 100)],
            [Link(10_000, 25), Link(10_000, 200)],
            [Link(10_000, 25), Link(10_000, 25)],
        ]
        .map(|links| (buffer, links))
    }) {
        let with = |distribution| with_buffers(buffer, distribution);
        let [one, other] = links.map(|way| goodput(&[way], 0.0, &with("primary")));
        // A redundant distribution needs timestamps, which take 12 bytes of each packet: it is compared with paths that have them too.
        let stamped = AssociationConfig {
            timestamps: Some(true),
            ..with("primary")
        };
        let [stamped_one, stamped_other] = links.map(|way| goodput(&[way], 0.0, &stamped));
        for info in DistributionSpec::ALL.iter().filter(|info| info.name != "primary") {
            let both = goodput(&links, 0.0, &with(info.name));
            println!(
                "{buffer}: {links:?}, {}: {both:.2} of {one:.2} and {other:.2} Mbit/s",
                info.name
            );
            // If the slow path has the same rate and eight times the delay, distributions that ignore a small window lose
            // throughput by repeated attempts.
            let is_small = buffer < 1 << 20 && links[1].1 == 200 && links[1].0 > 1000;
            let least = if is_small { 0.95 } else { 0.98 };
            let best = match info.name {
                "redundant" => stamped_one.max(stamped_other),
                _ => one.max(other),
            };
            assert!(
                both > least * best,
                "{buffer}: {}, {links:?}: {both} of {best}",
                info.name
            );
        }
    }
}

#[test]
fn losses_on_a_slow_path_do_not_hold_the_fast_one_up() {
    let links = [Link(20_000, 10), Link(1000, 200)];
    let mean = |links: &[Link], sctp: &AssociationConfig| {
        let runs = (1..=4).map(|seed| run(&network(links, 0.01, sctp), seed).flows[0].goodput_bps / 4e6);
        runs.sum::<f64>()
    };
    let best = mean(&links[..1], &with("primary"));
    for info in DistributionSpec::ALL.iter().filter(|info| info.name != "primary") {
        let both = mean(&links, &with(info.name));
        println!("{}: {both:.2} of {best:.2} Mbit/s", info.name);
        assert!(both > 0.98 * best, "{}: {both} of {best}", info.name);
    }
}

#[test]
fn without_opportunistic_retransmission_a_slow_path_sets_the_pace() {
    let links = [Link(20_000, 10), Link(1000, 200)];
    for name in ["fill-in-order", "round-robin", "lowest-rtt"] {
        let off = AssociationConfig {
            opportunistic_retransmission: Some(false),
            ..with_buffers(1 << 18, name)
        };
        let (both, best, _) = compare(links, 0.0, &off);
        assert!(
            both < 0.2 * best,
            "{name}: {both} of {best}, so there is no blocking to remedy"
        );
    }
}

#[test]
fn redundant_copies_repair_losses() {
    let links = [Link(10_000, 25), Link(10_000, 25)];
    let (both, best, _) = compare(links, 0.01, &with("redundant"));
    assert!(both > 1.05 * best, "{both} of {best}");
    let delay = |sctp: &AssociationConfig| {
        let mut config = network(&links, 0.02, sctp);
        config.flow[0].traffic = crate::common::paced(TrafficKind::Cbr, Rate::from_bps(200_000), 500);
        let flow = &run(&config, 1).flows[0];
        assert!(flow.messages_delivered > 1000);
        flow.delay.p99.as_secs_f64()
    };
    let (alone, redundant) = (delay(&with("primary")), delay(&with("redundant")));
    println!("the hundredth message takes {alone:.3} s, {redundant:.3} s with redundant copies");
    assert!(redundant < alone / 2.0, "{redundant} {alone}");
}

#[test]
fn multipath_schemes_use_both_paths() {
    let links = [Link(2000, 25), Link(2000, 100)];
    for name in ["ipcc", "jsctp-ipcc", "cmt", "cmt-pf", "multipath"] {
        let scheme = Scheme::by_name(name).unwrap_or_else(|| panic!("no scheme {name}"));
        let sctp = AssociationConfig {
            scheme,
            ..AssociationConfig::default()
        };
        let (both, best, _) = compare(links, 0.0, &sctp);
        assert!(both > 1.5 * best, "{name}: {both} of {best}");
    }
}

#[test]
fn cmt_delayed_acknowledgements_halve_the_number_of_sacks() {
    // Iyengar, Amer and Stewart 2006: data from two paths is nearly always out of order, so the standard's receiver acknowledges
    // each packet. With DAC it acknowledges every second one, as on a single path. With losses this removes the faster growth that
    // one acknowledgement per packet causes: the two paths together get the sum of what each gets alone.
    let links = [Link(2000, 25), Link(2000, 100)];
    let cmt = |dac| AssociationConfig {
        scheme: Scheme::by_name("cmt").expect("it is registered"),
        reporting: ReportingChanges {
            dac,
            ..ReportingChanges::default()
        },
        ..AssociationConfig::default()
    };
    for loss in [0.0, 0.01] {
        let measured = |links: &[Link], sctp: &AssociationConfig| {
            let (mut rate, mut sacks, mut packets) = (0.0, 0, 0);
            for seed in 1..=4 {
                let flow = &run(&network(links, loss, sctp), seed).flows[0];
                rate += flow.goodput_bps / 4e6;
                sacks += flow.receiver.sacks_sent;
                packets += flow.sender_packets;
            }
            (rate, sacks as f64 / packets as f64)
        };
        let alone: f64 = links.iter().map(|way| measured(&[*way], &cmt(None)).0).sum();
        let [with, without] = [None, Some(false)].map(|dac| measured(&links, &cmt(dac)));
        println!("loss {loss}: {with:?} Mbit/s and SACKs a packet, {without:?} without DAC, {alone:.2} alone");
        assert!(with.0 > 0.93 * alone, "{with:?} {alone}");
        assert!(with.1 < 0.55 && without.1 > 0.9, "{with:?} {without:?}");
    }
}

/// Returns the shares of an SCTP flow with two paths from `a` to `b` and of a TCP flow from `c` to `d` through one bottleneck of 10
/// Mbit/s.
fn share(coupling: &str) -> (f64, f64) {
    let mut config = nodes(&["a", "b", "c", "d", "r", "s"], 140);
    let access = |from, to| LinkConfig::new(from, to, Rate::from_mbps(100), Span::from_millis(2));
    config.link = vec![
        access("a", "r"),
        access("a", "r"),
        access("s", "b"),
        access("s", "b"),
        access("c", "r"),
        access("s", "d"),
        LinkConfig::new("r", "s", Rate::from_mbps(10), Span::from_millis(20)),
    ];
    for (n, link) in config.link.iter_mut().enumerate() {
        link.name = Some(format!("l{n}"));
    }
    let packets = Some(60);
    config.link[6].queue = QueueConfig::DropTail { packets, bytes: None };
    let sctp = AssociationConfig {
        coupling: CouplingSpec::by_name(coupling),
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..with("lowest-rtt")
    };
    config.flow = vec![
        FlowConfig {
            sctp: Some(sctp),
            ..flow("sctp", FlowKind::Sctp, TrafficConfig::default())
        },
        FlowConfig {
            traffic: TrafficConfig::default(),
            ..FlowConfig::new("tcp", FlowKind::Tcp, "c", "d")
        },
    ];
    config.measure.from = Span::from_secs(20);
    let mean = |flow: usize| {
        (1..=3)
            .map(|seed| run(&config, seed).flows[flow].goodput_bps)
            .sum::<f64>()
            / 3e6
    };
    (mean(0), mean(1))
}

#[test]
fn coupled_paths_through_one_bottleneck_take_less_than_two_shares() {
    let ratio = |coupling| {
        let (sctp, tcp) = share(coupling);
        println!("{coupling}: {sctp:.2} and {tcp:.2} Mbit/s");
        assert!(sctp + tcp > 9.0, "{coupling}: {sctp} and {tcp}");
        sctp / tcp
    };
    let alone = ratio("none");
    assert!(alone > 1.8, "{alone}: two uncoupled paths take two shares");
    for coupling in ["lia", "olia", "balia", "rpv1", "rpv2"] {
        let coupled = ratio(coupling);
        // RFC 6356 §2: no more than a single flow would take. With a queue of 60 packets no coupling gets there, but each gives
        // back nearly half of the second share or more, and does not starve.
        assert!(
            coupled - 1.0 < 0.55 * (alone - 1.0),
            "{coupling}: {coupled} with it, {alone} without"
        );
        assert!(coupled > 0.9, "{coupling}: {coupled} is less than a share");
    }
}

#[test]
fn sparse_messages_take_the_fast_path_although_the_primary_is_slow() {
    // Few messages never fill the window of the primary path, which is all that an unmeasured path would get.
    for (slow, fast, loss) in [(136, 6, 0.0), (36, 3, 0.002), (50, 10, 0.03)] {
        let mut config = two_paths(40);
        for (link, delay) in config.link.iter_mut().zip([slow, fast]) {
            (link.rate, link.delay) = (Some(Rate::from_mbps(10)), Span::from_millis(delay));
        }
        config.link[1].loss = LossConfig::Bernoulli { rate: loss }.into();
        config.measure.from = Span::from_secs(10);
        let mut messages = flow(
            "data",
            FlowKind::Sctp,
            paced(TrafficKind::Cbr, Rate::from_bps(32_000), 200),
        );
        messages.sctp = Some(AssociationConfig {
            scheme: Scheme::by_name("multipath").expect("it is registered"),
            ..AssociationConfig::default()
        });
        config.flow = vec![messages];
        let delay = run(&config, 1).flows[0].delay.p50;
        let (least, most) = (Span::from_millis(fast), Span::from_millis(fast) * 2);
        assert!(delay >= least && delay < most, "{slow} and {fast} ms: {delay}");
    }
}

#[test]
fn data_leaves_a_path_that_is_cut_before_its_timeout() {
    // SACKs take the path of the last data: where it is cut, acknowledgements of the other path are late as well.
    let bulk = TrafficConfig::default;
    let little = || paced(TrafficKind::Cbr, Rate::from_mbps(2), 1000);
    let silences = |leaves, loss, traffic: &TrafficConfig| {
        [1, 3, 4, 9].map(|seed| {
            let sctp = AssociationConfig {
                scheme: Scheme::by_name("multipath").expect("it is registered"),
                leave_silent_paths: leaves,
                recv_buffer: 4_000_000,
                send_buffer: 4_000_000,
                ..AssociationConfig::default()
            };
            let mut config = network(&[Link(20_000, 10), Link(20_000, 40)], loss, &sctp);
            config.flow[0].traffic = traffic.clone();
            config.link[0].schedule = vec![
                ScheduleStep::up(Span::from_secs(6), false),
                ScheduleStep::up(Span::from_secs(9), true),
            ];
            config.duration = Span::from_secs(10);
            config.measure.from = Span::from_secs(4);
            run(&config, seed).flows[0].longest_silence.expect("data arrives")
        })
    };
    for (traffic, loss, limit) in [(bulk(), 0.0, 75), (bulk(), 0.01, 450), (little(), 0.0, 125)] {
        let (with, without) = (silences(None, loss, &traffic), silences(Some(false), loss, &traffic));
        println!("loss {loss}: {with:?}, without {without:?}");
        let limit = Span::from_millis(limit);
        assert!(with.iter().all(|silence| *silence < limit), "{with:?}");
        assert!(
            without.iter().all(|silence| *silence > Span::from_millis(800)),
            "{without:?}"
        );
    }
}
