//! Radio networks as a whole: times, throughput against Bianchi's model, hidden and exposed nodes, repeatability.

use std::sync::Arc;

use crate::common::radio::{at, datagrams, every_message_has_an_end, goodput, moving};
use crate::common::{file, paced, run, watch};
use whimbrel_control::{Rate, Rng, Span};
use whimbrel_proto::AssociationConfig;
use whimbrel_sim::config::{
    ChannelConfig, ChannelRouting, FlowConfig, FlowKind, Interference, LinkConfig, LossConfig, MobilityConfig,
    NodeConfig, PhyKind, RadioConfig, SimConfig, TrafficKind,
};
use whimbrel_sim::{
    DropCause, FrameEvent, FrameKind, Interest, Movements, Observer, RadioResult, Resources, RunOptions, RunResult,
    Sample, World,
};

#[test]
fn a_single_packet_has_the_exact_duration_of_the_standard() {
    // 1000 bytes of IP, 8 of LLC, 28 of MAC at 1 Mbit/s: 192 + 8288 us; 150 m: 500 ns.
    for (phy, micros) in [
        (PhyKind::Dsss1, 192.0 + 8288.0),
        (PhyKind::Dsss2, 192.0 + 4144.0),
        // 8288 bits at 11 Mbit/s are 753.45 us, signalled as 754.
        (PhyKind::B11, 192.0 + 754.0),
        // 16 + 8288 + 6 bits in symbols of 216.
        (PhyKind::A54, 20.0 + 4.0 * 39.0),
    ] {
        let mut config = at(&[[0.0, 0.0], [150.0, 0.0]], phy, 2);
        let mut flow = datagrams(0, 1, Rate::from_bps(1000), 1000);
        flow.traffic.count = Some(1);
        // Later than DIFS after the start of the run.
        flow.start = Span::from_secs(1);
        config.flow = vec![flow];
        let result = run(&config, 1);
        let delay = result.flows[0].delay.mean.as_secs_f64() * 1e6;
        assert!((delay - (micros + 0.5)).abs() < 0.01, "{phy:?}: {delay} us");
        let [sender, receiver] = &result.radios[..] else {
            panic!("two radios")
        };
        assert_eq!((sender.data, receiver.ack, receiver.received), (1, 1, 1));
    }
}

/// Bianchi's model (2000): the saturation throughput of n stations as a fraction of the time, from equations 7, 9 and 13.
struct Bianchi {
    n: f64,
    /// CWmin + 1 and the number of doublings.
    window: f64,
    stages: i32,
    payload: f64,
    /// Times of a success, a collision and an empty slot.
    success: f64,
    collision: f64,
    slot: f64,
}

impl Bianchi {
    fn throughput(&self) -> f64 {
        let tau_of = |p: f64| {
            let w = self.window;
            2.0 * (1.0 - 2.0 * p) / ((1.0 - 2.0 * p) * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(self.stages)))
        };
        // p increases with tau, and tau decreases with p: one solution, found by bisection.
        let (mut low, mut high) = (0.0, 0.999);
        for _ in 0..100 {
            let p = 0.5 * (low + high);
            // The fraction is undefined at one half.
            let p = if (p - 0.5_f64).abs() < 1e-9 { p + 1e-7 } else { p };
            let implied = 1.0 - (1.0 - tau_of(p)).powf(self.n - 1.0);
            if implied > p { low = p } else { high = p }
        }
        let tau = tau_of(0.5 * (low + high));
        let some = 1.0 - (1.0 - tau).powf(self.n);
        let one = self.n * tau * (1.0 - tau).powf(self.n - 1.0) / some;
        let mean_slot = (1.0 - some) * self.slot + some * one * self.success + some * (1.0 - one) * self.collision;
        one * some * self.payload / mean_slot
    }
}

/// Returns saturated stations within a few metres, all sending datagrams of 1023 bytes to a station in the middle.
fn ring(n: usize, phy: PhyKind, rts: bool) -> SimConfig {
    let mut places = vec![[0.0, 0.0]];
    for i in 0..n {
        let angle = i as f64 / n as f64 * std::f64::consts::TAU;
        places.push([10.0 * angle.cos(), 10.0 * angle.sin()]);
    }
    let mut config = at(&places, phy, 60);
    let channel = &mut config.channel[0];
    channel.rts_threshold = if rts { 0 } else { 2347 };
    // The model never gives up.
    channel.short_retry_limit = 255;
    channel.long_retry_limit = 255;
    channel.llc_bytes = 0;
    config.measure.from = Span::from_secs(2);
    config.flow = (1..=n)
        .map(|i| datagrams(i, 0, Rate::from_bps(2_000_000 / n as u64), 1023))
        .collect();
    config
}

/// Returns the throughput in bits per second of IP packets, as the model counts.
fn saturated(config: &SimConfig) -> f64 {
    let result = run(config, 1);
    let bits: f64 = result.flows.iter().map(|flow| flow.goodput_bytes as f64 * 8.0).sum();
    bits / 995.0 * 1023.0 / 58.0
}

#[test]
fn saturation_throughput_matches_bianchi_with_the_parameters_of_his_paper() {
    // Table 2: payload 8184 bits, MAC header 272, PHY header 128, ACK 112, RTS 160, CTS 112; W = 32, m = 3 or 5.
    let frame = 128.0 + 272.0 + 8184.0;
    for (cw_max, stages) in [(255, 3), (1023, 5)] {
        for with_rts in [false, true] {
            for n in [5, 20, 50] {
                // Stations that decode nothing wait EIFS, which the paper leaves out.
                let eifs = 28.0 + 240.0 + 128.0;
                let (success, collision) = if with_rts {
                    (288.0 + 28.0 + 240.0 + 28.0 + frame + 28.0 + 240.0 + 128.0, 288.0 + eifs)
                } else {
                    (frame + 28.0 + 240.0 + 128.0, frame + eifs)
                };
                let model = Bianchi {
                    n: n as f64,
                    window: 32.0,
                    stages,
                    payload: 8184.0,
                    success,
                    collision,
                    slot: 50.0,
                };
                let mut config = ring(n, PhyKind::Fhss1, with_rts);
                let channel = &mut config.channel[0];
                (channel.cw_min, channel.cw_max, channel.llc_bytes) = (Some(31), Some(cw_max), 6);
                let (measured, expected) = (saturated(&config), model.throughput() * 1e6);
                let off = measured / expected - 1.0;
                assert!(
                    off.abs() < 0.02,
                    "n {n}, m {stages}, RTS {with_rts}: {measured:.0} bit/s, {expected:.0} in the model"
                );
            }
        }
    }
}

#[test]
fn saturation_throughput_matches_bianchi() {
    // Payload 1023 bytes; header 28; DIFS 50, SIFS 10, EIFS 364, slot 20; preamble 192.
    let frame = 192.0 + 8.0 * (1023.0 + 28.0);
    let (ack, rts) = (304.0, 352.0);
    for with_rts in [false, true] {
        for n in [2, 5, 10, 20, 50] {
            // After a collision the other stations wait EIFS, because they decode nothing.
            let (success, collision) = if with_rts {
                (rts + 10.0 + 304.0 + 10.0 + frame + 10.0 + ack + 50.0, rts + 364.0)
            } else {
                (frame + 10.0 + ack + 50.0, frame + 364.0)
            };
            let model = Bianchi {
                n: n as f64,
                window: 32.0,
                stages: 5,
                payload: 8.0 * 1023.0,
                success,
                collision,
                slot: 20.0,
            };
            let expected = model.throughput() * 1e6;
            let measured = saturated(&ring(n, PhyKind::Dsss1, with_rts));
            let off = measured / expected - 1.0;
            assert!(
                off.abs() < 0.05,
                "n {n}, RTS {with_rts}: {measured:.0} bit/s, {expected:.0} in the model"
            );
        }
    }
}

/// Returns a run of two senders to the left and right of a receiver, `apart` metres from each other.
fn two_senders(apart: f64, sense: f64, rts_threshold: u32) -> RunResult {
    let mut config = at(&[[0.0, 0.0], [apart / 2.0, 0.0], [apart, 0.0]], PhyKind::Dsss2, 20);
    config.channel[0].sense_range = Some(sense);
    config.channel[0].rts_threshold = rts_threshold;
    let rate = Rate::from_mbps(2);
    config.flow = vec![datagrams(0, 1, rate, 1000), datagrams(2, 1, rate, 1000)];
    run(&config, 1)
}

#[test]
fn hidden_nodes_corrupt_each_others_frames_and_rts_helps() {
    // 400 m apart: hidden from each other if the sense range is 300 m.
    let hidden = two_senders(400.0, 300.0, 2347);
    let seen = two_senders(400.0, 450.0, 2347);
    let protected = two_senders(400.0, 300.0, 100);
    let lost = |result: &RunResult| (result.radios[1].collisions, result.radios[1].hidden);
    let (collisions, hidden_collisions) = lost(&hidden);
    // A few frames arrive while the receiver itself sends an ACK.
    assert!(
        hidden_collisions > 500 && collisions < hidden_collisions / 100,
        "{:?}",
        lost(&hidden)
    );
    let (collisions, hidden_collisions) = lost(&seen);
    assert!(collisions > 50 && hidden_collisions == 0, "{:?}", lost(&seen));
    // Collisions in the same slot are likely only after a success: 1 of 32. Hidden frames overlap at any time.
    assert!(
        goodput(&hidden) < 0.6 * goodput(&seen),
        "{} {}",
        goodput(&hidden),
        goodput(&seen)
    );
    assert!(goodput(&protected) > 1.3 * goodput(&hidden), "{}", goodput(&protected));
    assert!(hidden.drops.of(DropCause::HiddenNode) > 0);
}

#[test]
fn exposed_nodes_wait_for_each_other_unnecessarily() {
    // B -> A and C -> D, with B and C next to each other: each receiver receives from one sender only, yet both senders share the
    // medium.
    let exposed = |sense: f64| {
        let places = [[0.0, 0.0], [200.0, 0.0], [400.0, 0.0], [600.0, 0.0]];
        let mut config = at(&places, PhyKind::Dsss2, 20);
        config.channel[0].range = 210.0;
        config.channel[0].sense_range = Some(sense);
        let rate = Rate::from_mbps(2);
        config.flow = vec![datagrams(1, 0, rate, 1000), datagrams(2, 3, rate, 1000)];
        run(&config, 1)
    };
    let alone = {
        let mut config = at(&[[0.0, 0.0], [200.0, 0.0]], PhyKind::Dsss2, 20);
        config.flow = vec![datagrams(1, 0, Rate::from_mbps(2), 1000)];
        goodput(&run(&config, 1))
    };
    let both = exposed(210.0);
    assert!(goodput(&both) < 1.1 * alone, "{} of {alone}", goodput(&both));
    assert!(goodput(&both) > 0.85 * alone);
    for flow in &both.flows {
        assert!(flow.goodput_bps > 0.3 * alone, "they share");
    }
}

#[test]
fn a_stronger_frame_survives_and_sinr_agrees() {
    // The receiver is 20 m from one sender, 240 m from the other: far more than 10 dB between them.
    for interference in [Interference::Threshold, Interference::Sinr] {
        let mut config = at(&[[0.0, 0.0], [20.0, 0.0], [260.0, 0.0]], PhyKind::Dsss1, 10);
        let channel = &mut config.channel[0];
        // Each sender senses only its receiver: the two transmit independently.
        channel.sense_range = Some(250.0);
        channel.interference = interference;
        let rate = Rate::from_mbps(1);
        config.flow = vec![datagrams(0, 1, rate, 500), datagrams(2, 1, rate, 500)];
        let result = run(&config, 1);
        let [near, far] = [result.flows[0].goodput_bps, result.flows[1].goodput_bps];
        assert!(near > 5.0 * far, "{interference:?}: {near} and {far}");
        assert!(result.radios[1].hidden > 100);
    }
}

#[test]
fn packets_pass_radios_and_links() {
    // n0 - n1 - n2 over radio, n2 - server over a link.
    let mut config = at(&[[0.0, 0.0], [200.0, 0.0], [400.0, 0.0]], PhyKind::B11, 30);
    config.node.push(NodeConfig::new("server"));
    config.link = vec![LinkConfig::new(
        "n2",
        "server",
        Rate::from_mbps(10),
        Span::from_millis(5),
    )];
    config.flow = vec![FlowConfig {
        traffic: file(500_000),
        ..FlowConfig::new("upload", FlowKind::Sctp, "n0", "server")
    }];
    let result = run(&config, 1);
    assert!(
        result.flows[0].file.is_some_and(|file| file.intact),
        "{:?}",
        result.flows[0].outcome
    );
    assert!(result.radios[1].received > 300 && result.radios[2].received > 300);
    assert!(result.links[0].packets > 300);
    assert!(result.flows[0].air_time > Span::from_millis(2 * 450));

    // Without forwarding nothing arrives, and the ledger has the cause.
    config.channel[0].routing = ChannelRouting::Direct;
    let result = run(&config, 1);
    assert_eq!(result.flows[0].messages_delivered, 0);
    assert!(result.drops.of(DropCause::OutOfRange) > 0);
}

#[test]
fn burst_losses_are_correlated_at_a_receiver() {
    // Frames without retries, a tenth of them lost, in runs of five on average or independently.
    let mut config = at(&[[0.0, 0.0], [100.0, 0.0]], PhyKind::Dsss2, 2000);
    config.channel[0].short_retry_limit = 1;
    let mut flow = FlowConfig::new("data", FlowKind::Udp, "n0", "n1");
    flow.traffic = paced(TrafficKind::Cbr, Rate::from_bps(80_000), 500);
    config.flow = vec![flow];
    let gilbert = LossConfig::GilbertElliott {
        good_to_bad: 0.2 / 9.0,
        bad_to_good: 0.2,
        good_loss: 0.0,
        bad_loss: 1.0,
    };
    let markov = LossConfig::Markov {
        mean_good: Span::from_millis(2250),
        mean_bad: Span::from_millis(250),
        good_loss: 0.0,
        bad_loss: 1.0,
        shared: false,
    };
    // A frame every 50 ms: the next one is lost too with 0.1 + 0.9 exp(-0.05 (1 / 2.25 + 1 / 0.25)).
    for (bursts, again) in [(Some(gilbert), 0.8), (Some(markov), 0.821), (None, 0.1)] {
        config.channel[0].frame_loss = if bursts.is_none() { 0.1 } else { 0.0 };
        config.channel[0].bursts = bursts;
        config.validate().expect("it is valid");
        let mut lost = Lost::default();
        let result = watch(&config, 1, &mut lost);
        let flow = &result.flows[0];
        let share = result.radios[1].spoilt as f64 / flow.messages_sent as f64;
        assert!((0.085..0.115).contains(&share), "{share}");
        assert!((lost.again() - again).abs() < 0.03, "{} for {again}", lost.again());
    }
    config.channel[0].bursts = Some(LossConfig::Periodic { every: 2, offset: 0 });
    assert_eq!(
        config.validate().expect_err("another kind").path,
        "channel[0].bursts.kind"
    );
}

/// The lost data frames.
#[derive(Default)]
struct Lost {
    sent: Vec<bool>,
}

impl Lost {
    /// Returns the fraction of lost frames that follow another lost frame.
    fn again(&self) -> f64 {
        let behind: Vec<bool> = self
            .sent
            .windows(2)
            .filter(|pair| pair[0])
            .map(|pair| pair[1])
            .collect();
        behind.iter().filter(|lost| **lost).count() as f64 / behind.len() as f64
    }
}

impl Observer for Lost {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::Frames
    }

    fn frame(&mut self, event: &FrameEvent) {
        if event.kind != FrameKind::Data {
            return;
        }
        match event.lost {
            None => self.sent.push(false),
            Some(_) => *self.sent.last_mut().expect("it was sent") = true,
        }
    }
}

#[test]
fn two_radios_on_two_channels_are_two_paths() {
    let mut config = at(&[[0.0, 0.0], [200.0, 0.0]], PhyKind::B11, 60);
    let mut second = ChannelConfig::new("other");
    second.phy = PhyKind::B5;
    config.channel.push(second);
    config.radio.push(RadioConfig::new("n0", "other"));
    config.radio.push(RadioConfig::new("n1", "other"));
    // The first channel loses all frames.
    config.channel[0].frame_loss = 1.0;
    let mut flow = FlowConfig::new("both", FlowKind::Sctp, "n0", "n1");
    flow.traffic = file(2_000_000);
    flow.sctp = Some(AssociationConfig {
        hb_interval: Span::from_millis(500),
        ..AssociationConfig::default()
    });
    flow.from_links = vec!["n0-other".into(), "n0-air".into()];
    flow.to_links = vec!["n1-other".into(), "n1-air".into()];
    config.flow = vec![flow];
    let result = run(&config, 1);
    assert!(
        result.flows[0].file.is_some_and(|file| file.intact),
        "{:?}",
        result.flows[0].outcome
    );
    assert!(result.radios[2].data > 100);
    assert!(
        result.radios[1].spoilt > 0 && result.drops.of(DropCause::ChannelError) > 0,
        "heartbeats are lost there"
    );
}

#[test]
fn the_same_seed_gives_the_same_run_and_distant_nodes_change_nothing() {
    for (fading, interference) in [
        (false, Interference::Threshold),
        (true, Interference::Threshold),
        (true, Interference::Sinr),
    ] {
        let config = moving(fading, interference);
        let first = run(&config, 3);
        assert_eq!(first.fingerprint, run(&config, 3).fingerprint);
        assert_ne!(first.fingerprint, run(&config, 4).fingerprint);
        assert!(goodput(&first) > 1e5);
        // Two distant nodes, a hundred kilometres away, that send faster than the rest.
        let mut more = config.clone();
        for (name, x) in [("far", 1e5), ("away", 1.001e5)] {
            let mut node = NodeConfig::at(name, x, 0.0);
            node.mobility = Some(MobilityConfig::RandomWaypoint {
                area: [1.0, 1.0],
                speed: [30.0, 40.0],
                pause: Span::from_secs(100),
                steady_state: false,
            });
            more.node.push(node);
            more.radio.push(RadioConfig::new(name, "air"));
        }
        more.flow.push(FlowConfig {
            traffic: paced(TrafficKind::Cbr, Rate::from_mbps(1), 500),
            ..FlowConfig::new("far", FlowKind::Udp, "far", "away")
        });
        let result = run(&more, 3);
        assert!(result.flows[10].goodput_bps > 5e5);
        for (with, without) in result.flows.iter().zip(&first.flows) {
            assert_eq!(with.fingerprint, without.fingerprint, "{}", without.name);
        }
    }
}

#[test]
fn every_packet_is_accounted_for_in_random_networks() {
    for seed in 0..12 {
        let rng = &mut Rng::stream(seed, "radio torture");
        let n = 2 + rng.below(20) as usize;
        let side = 100.0 + 900.0 * rng.unit();
        let places: Vec<_> = (0..n).map(|_| [rng.unit() * side, rng.unit() * side]).collect();
        let phy = [PhyKind::Dsss1, PhyKind::Dsss2, PhyKind::B11, PhyKind::A24, PhyKind::G54][rng.below(5) as usize];
        let mut config = at(&places, phy, 30);
        let channel = &mut config.channel[0];
        channel.rts_threshold = [0, 300, 2347][rng.below(3) as usize];
        channel.queue = 1 + rng.below(50) as u32;
        channel.frame_loss = 0.2 * rng.unit();
        if rng.chance(0.5) {
            channel.interference = Interference::Sinr;
        }
        for f in 0..4 {
            let from = rng.below(n as u64) as usize;
            let to = (from + 1 + rng.below(n as u64 - 1) as usize) % n;
            let mut flow = datagrams(from, to, Rate::from_bps(50_000 + rng.below(1_000_000)), 600);
            flow.name = format!("udp{f}");
            flow.stop = Some(Span::from_secs(10));
            config.flow.push(flow);
            let mut flow = FlowConfig::new(
                &format!("sctp{f}"),
                FlowKind::Sctp,
                &format!("n{to}"),
                &format!("n{from}"),
            );
            flow.traffic = file(20_000);
            config.flow.push(flow);
        }
        // Endless, so that the run continues until the queues are empty.
        config.flow.push(FlowConfig {
            traffic: paced(TrafficKind::Cbr, Rate::from_bps(1000), 100),
            ..FlowConfig::new("endless", FlowKind::Sctp, "n0", "n1")
        });
        let result = run(&config, seed);
        assert_eq!(result.fingerprint, run(&config, seed).fingerprint, "seed {seed}");
        every_message_has_an_end(&result, seed);
        assert!(
            result.flows.iter().all(|flow| flow.messages_disordered == 0),
            "seed {seed}"
        );
    }
}

#[test]
fn energy_is_the_sum_over_the_states() {
    let mut config = at(&[[0.0, 0.0], [100.0, 0.0]], PhyKind::Dsss1, 10);
    config.flow = vec![datagrams(0, 1, Rate::from_bps(100_000), 1000)];
    let result = run(&config, 1);
    let [sender, receiver] = &result.radios[..] else {
        panic!("two radios")
    };
    for radio in [sender, receiver] {
        let (tx, rx) = (radio.transmitting.as_secs_f64(), radio.receiving.as_secs_f64());
        let expected = 1.65 * tx + 1.4 * rx + 1.15 * (10.0 - tx - rx);
        assert!((radio.energy - expected).abs() < 1e-6);
    }
    // One node receives what the other sends, except at the end of the run.
    assert!((sender.transmitting.as_secs_f64() - receiver.receiving.as_secs_f64()).abs() < 0.01);
    let air = result.flows[0].air_time.as_secs_f64();
    let both = (sender.transmitting + receiver.transmitting).as_secs_f64();
    assert!((air - both).abs() < 1e-9, "{air} {both}");
}

#[test]
fn bit_errors_grow_with_distance_and_rate() {
    let lost = |phy: PhyKind, metres: f64| {
        let mut config = at(&[[0.0, 0.0], [metres, 0.0]], phy, 20);
        let channel = &mut config.channel[0];
        channel.interference = Interference::Sinr;
        channel.bit_errors = true;
        // Decodable by power alone up to 600 m, where the signal-to-noise ratio is 13 dB; 3.6 dB at 1030 m.
        channel.range = 1200.0;
        channel.sense_range = Some(2000.0);
        config.flow = vec![datagrams(0, 1, Rate::from_bps(100_000), 1000)];
        let radio = &run(&config, 1).radios[0];
        radio.retries as f64 / radio.data as f64
    };
    assert_eq!(lost(PhyKind::Dsss1, 300.0), 0.0);
    let near = lost(PhyKind::B11, 500.0);
    // 7.3 dB and 6 dB: half of the frames of 1000 bytes are lost at 6.8 dB.
    let middle = lost(PhyKind::B11, 830.0);
    let far = lost(PhyKind::B11, 900.0);
    assert!(near < middle && middle < far, "{near} {middle} {far}");
    assert!(far > 0.5, "{far}");
    assert!(lost(PhyKind::Dsss1, 900.0) < 0.01);
}

#[test]
fn a_node_that_moves_away_is_lost_at_the_range() {
    // 100 m apart, then 10 m/s: out of range after 15 s.
    let script = "$node_(1) set X_ 100.0\n$node_(1) set Y_ 0.0\n$ns_ at 0.0 \"$node_(1) setdest 1100.0 0.0 10.0\"\n";
    let mut config = at(&[[0.0, 0.0], [0.0, 0.0]], PhyKind::Dsss2, 30);
    config.channel[0].routing = ChannelRouting::Direct;
    config.node[1].mobility = Some(MobilityConfig::File {
        file: "script".into(),
        node: 1,
    });
    // Ten datagrams per second.
    config.flow = vec![datagrams(0, 1, Rate::from_bps(10 * 8 * 472), 500)];
    let mut resources = Resources::default();
    let movements = Movements::parse(script).expect("a script");
    resources.movements.insert("script".into(), Arc::new(movements));
    let world = World::new(&config, 1, &resources, RunOptions::default()).expect("a valid scenario");
    let result = world.run();
    assert!((149..=152).contains(&result.flows[0].messages_delivered));
    assert!(result.drops.of(DropCause::OutOfRange) >= 145);
    // A node that is not in the file.
    config.node[1].mobility = Some(MobilityConfig::File {
        file: "script".into(),
        node: 2,
    });
    let error = World::new(&config, 1, &resources, RunOptions::default()).expect_err("no node 2");
    assert_eq!(
        error.to_string(),
        "node[1].mobility.node = 2: allowed is one of the 1 nodes of script"
    );
}

/// Counts the frame events of an observer.
#[derive(Default)]
struct Frames {
    sent: u64,
    lost: u64,
    places: Vec<(f64, f64)>,
}

impl Observer for Frames {
    fn wants(&self, interest: Interest) -> bool {
        matches!(interest, Interest::Frames | Interest::Series)
    }

    fn frame(&mut self, event: &FrameEvent) {
        match event.lost {
            None => self.sent += 1,
            Some(_) => self.lost += 1,
        }
    }

    fn sample(&mut self, sample: &Sample) {
        if let Sample::Radio { radio: 0, x, y, .. } = *sample {
            self.places.push((x, y));
        }
    }
}

#[test]
fn an_observer_receives_frames_and_positions_and_changes_nothing() {
    let config = moving(false, Interference::Threshold);
    let mut frames = Frames::default();
    let result = crate::common::watch(&config, 3, &mut frames);
    assert_eq!(result.fingerprint, run(&config, 3).fingerprint);
    let sum = |of: fn(&RadioResult) -> u64| result.radios.iter().map(of).sum::<u64>();
    assert_eq!(frames.sent, sum(|radio| radio.rts + radio.cts + radio.data + radio.ack));
    assert!(frames.lost >= sum(|radio| radio.collisions + radio.hidden + radio.spoilt));
    assert_eq!(frames.places.len(), 19);
    assert!(frames.places.windows(2).any(|pair| pair[0] != pair[1]));
}
