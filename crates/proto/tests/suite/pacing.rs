//! Pacing, and the delivery rates for window controls with a rate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::support::{Fate, Host, Net};
use whimbrel_control::window::{Window, WindowControl, WindowSpec, WindowUpdate, WindowView};
use whimbrel_control::{AckSample, LossEvent, Needs, Rate, RateSample, Scheme, Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, Message, PathId};
use whimbrel_wire::ChunkType;

const UNIT: u64 = 1468;

fn config() -> AssociationConfig {
    AssociationConfig {
        initial_cwnd: Some(20 * UNIT as u32),
        hb_interval: Span::ZERO,
        recv_buffer: 1 << 20,
        send_buffer: 1 << 20,
        ..AssociationConfig::default()
    }
}

/// Returns when A sent packets of data from now on, in microseconds.
fn times(net: &Net, begin: usize) -> Vec<u64> {
    let data = net.wire[begin..]
        .iter()
        .filter(|sent| sent.from == Host::A && sent.has(ChunkType::DATA));
    data.map(|sent| sent.at.as_nanos() / 1000).collect()
}

fn send(net: &mut Net, a: AssocId, packets: usize) {
    for _ in 0..packets {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
}

/// Returns an association with a measured round-trip time of 20 ms.
fn warm(config: &AssociationConfig) -> (Net, AssocId) {
    let (mut net, a, _) = Net::established(1, config);
    send(&mut net, a, 1);
    net.run_for(Span::from_millis(500));
    (net, a)
}

#[test]
fn a_window_may_permit_a_burst_before_packets_are_spread() {
    // The window `drain` permits 10 packets and one at once, the standard's none but those of a credit of 1 ms.
    let mut bursts = Vec::new();
    for window in ["cubic", "drain"] {
        let paced = AssociationConfig {
            pacing: Some(true),
            window: Some(WindowSpec::by_name(window).expect("a window control")),
            ..config()
        };
        let (mut net, a) = warm(&paced);
        let begin = net.wire.len();
        send(&mut net, a, 20);
        net.run_for(Span::from_millis(300));
        let times = times(&net, begin);
        assert_eq!(times.len(), 20, "{window}");
        bursts.push(times.iter().filter(|at| **at == times[0]).count());
        let gaps: Vec<_> = times[12..].windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| (450..=550).contains(gap)), "{window}: {gaps:?}");
    }
    assert!(bursts[0] <= 4 && bursts[1] == 11, "{bursts:?}");
}

// The acknowledgements of one path start bursts on another one, whose queue may hold a few packets.
#[test]
fn bursts_are_shorter_while_several_paths_are_used() {
    let several = AssociationConfig {
        scheme: Scheme::by_name("multipath").expect("a scheme"),
        window: Some(WindowSpec::by_name("drain").expect("a window control")),
        ..config()
    };
    for (paths, most) in [(1, 11), (2, 3)] {
        let (mut net, a, _) = Net::established(paths, &several);
        // All paths have a measured round-trip time.
        send(&mut net, a, 40);
        net.run_for(Span::from_millis(500));
        let begin = net.wire.len();
        send(&mut net, a, 40);
        let mut bursts = BTreeMap::new();
        for sent in &net.wire[begin..] {
            *bursts.entry(sent.remote).or_insert(0) += usize::from(sent.has(ChunkType::DATA));
        }
        assert_eq!(bursts.values().max(), Some(&most), "{bursts:?}");
    }
}

#[test]
fn paced_packets_are_spread_over_the_round_trip() {
    let paced = AssociationConfig {
        pacing: Some(true),
        ..config()
    };
    let (mut net, a) = warm(&paced);
    let begin = net.wire.len();
    send(&mut net, a, 20);
    net.run_for(Span::from_millis(300));
    let times = times(&net, begin);
    assert_eq!(times.len(), 20);
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // A window of 20 packets in half of 20 ms, as in slow start: 500 us each, minus a credit of 1 ms.
    assert!(gaps[3..].iter().all(|gap| (450..=550).contains(gap)), "{gaps:?}");
    assert!(times[19] - times[0] > 7000, "{gaps:?}");

    let (mut net, a) = warm(&AssociationConfig {
        max_burst: 0,
        ..config()
    });
    let begin = net.wire.len();
    send(&mut net, a, 20);
    net.run_for(Span::from_millis(300));
    let all = self::times(&net, begin);
    assert_eq!(all[19], all[0], "without pacing they are sent at once");
}

#[test]
fn retransmissions_after_the_first_wait_for_the_pacer() {
    let paced = AssociationConfig {
        pacing: Some(true),
        ..config()
    };
    let (mut net, a) = warm(&paced);
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.from == Host::A && packet.has(ChunkType::DATA));
        if packet.from == Host::A && (3..=8).contains(&count) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let begin = net.wire.len();
    send(&mut net, a, 20);
    net.run_for(Span::from_millis(900));
    let stats = net.a.association(a).unwrap().stats();
    assert_eq!((stats.retransmissions, stats.timeouts), (6, 0));
    let all = times(&net, begin);
    assert!(all[20..].windows(2).skip(1).all(|pair| pair[1] > pair[0]), "{all:?}");
    assert_eq!(net.contents(Host::B).len(), 21);
}

/// A window with its own rate: ten packets, 1.2 Mbit/s.
#[derive(Debug)]
struct Steady(Arc<Mutex<Vec<(Time, RateSample)>>>);

impl WindowControl for Steady {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        if let Some(rate) = ack.rate {
            self.0.lock().expect("no other thread").push((ack.now, rate));
        }
        window.unchanged()
    }

    fn on_congestion(&mut self, window: WindowView, _loss: &LossEvent) -> WindowUpdate {
        window.unchanged()
    }

    fn pacing_rate(&self, _window: WindowView, _srtt: Option<Span>) -> Option<Rate> {
        Some(Rate::from_bps(1_174_400))
    }

    fn needs(&self) -> Needs {
        Needs { rate: true }
    }
}

#[test]
fn a_window_with_a_rate_is_paced_by_it() {
    let (mut net, a) = warm(&config());
    let recorded = Arc::default();
    let window = Window::Other(Box::new(Steady(Arc::clone(&recorded))));
    net.a
        .with_control(a, PathId(0), |control| control.set_window(window))
        .expect("established");
    let begin = net.wire.len();
    send(&mut net, a, 50);
    net.run_for(Span::from_secs(1));
    let times = times(&net, begin);
    assert_eq!(times.len(), 50);
    // 1468 bytes at that rate take 10 ms.
    assert!(
        times.windows(2).skip(1).all(|pair| pair[1] - pair[0] == 10_000),
        "{times:?}"
    );
    // Data sent at that rate is delivered at that rate; samples of the first round trip include its start.
    let rates = recorded.lock().unwrap();
    assert!(rates.len() > 20, "{}", rates.len());
    for (at, sample) in rates.iter().filter(|(at, _)| at.as_nanos() > 750_000_000) {
        let rate = Rate::of(sample.delivered, sample.interval).as_bps();
        assert!((900_000..=1_800_000).contains(&rate), "{at}: {sample:?}");
        assert!(!sample.app_limited);
    }
}

#[test]
fn rates_are_reported_only_to_parts_that_use_them() {
    let (net, a) = warm(&config());
    let standard = net.a.association(a).unwrap().memory();
    let Some(window) = WindowSpec::by_name("bbr") else {
        return;
    };
    let asking = AssociationConfig {
        window: Some(window),
        ..config()
    };
    let (net, a) = warm(&asking);
    assert!(net.a.association(a).unwrap().memory() > standard);
}
