//! An open world treats packets from outside like the simulated ones.

use whimbrel_control::{Span, Time};
use whimbrel_proto::Ecn;
use whimbrel_sim::config::SimConfig;
use whimbrel_sim::{
    Entry, IP_HEADER, Interest, Observer, OpenWorld, PacketEvent, PacketFate, Resources, RunControl, RunOptions, World,
};

/// Two hops with marks, losses, jitter, duplicates and an outage; cross traffic that is simulated in both.
const SCENARIO: &str = r#"
duration = "20 s"
node = [{ name = "a" }, { name = "b" }, { name = "c" }]
link = [
    { name = "access", between = ["a", "b"], rate = "20 Mbit/s", delay = "5 ms", jitter = { kind = "uniform", max = "2 ms" },
      schedule = [{ at = "8 s", up = false }, { at = "9 s", up = true }, { at = "12 s", rate = "5 Mbit/s" }] },
    { name = "core", between = ["b", "c"], rate = "8 Mbit/s", delay = "15 ms", duplicate = 0.01,
      loss = { kind = "bernoulli", rate = 0.01 },
      queue = { kind = "red", packets = 100, min = 10.0, max = 50.0, ecn = true } },
]
flow = [
    { name = "data", from = "a", to = "c", traffic = { kind = "endless" }, sctp = { scheme = "ecn" } },
    { name = "cross", kind = "udp", from = "b", to = "c", traffic = { kind = "poisson", rate = "2 Mbit/s" } },
]
"#;

/// Events of the first flow's packets at their hosts.
#[derive(Default)]
struct Hosts {
    sent: Vec<(Time, bool, Ecn, u32)>,
    delivered: Vec<(Time, bool, Ecn, u32)>,
}

impl Observer for Hosts {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::HostPackets
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        let what = (event.at, event.forward, event.ecn, event.size);
        match event.fate {
            _ if event.flow != 0 => {}
            PacketFate::Sent => self.sent.push(what),
            PacketFate::Delivered => self.delivered.push(what),
            _ => {}
        }
    }
}

#[test]
fn packets_from_outside_are_treated_like_simulated_ones() {
    let config: SimConfig = toml::from_str(SCENARIO).unwrap();
    let world = World::new(&config, 7, &Resources::default(), RunOptions::default()).unwrap();
    let mut hosts = Hosts::default();
    let result = world.run_with(&mut hosts, &RunControl::new());
    let end = Time::ZERO + config.duration;

    let mut open = OpenWorld::new(&config, 7, &Resources::default(), &[0]).unwrap();
    for &(at, forward, ecn, size) in &hosts.sent {
        let entry = Entry {
            forward,
            ecn,
            ..Entry::default()
        };
        assert!(open.send(at, &entry, &vec![0; (size - IP_HEADER) as usize]));
    }
    let mut delivered = Vec::new();
    while let Some(next) = open.next_event().filter(|next| *next < end) {
        open.advance(next);
        open.deliver(&mut |d| delivered.push((d.at, d.forward, d.ecn, d.payload.len() as u32 + IP_HEADER)));
    }

    assert!(hosts.sent.len() > 5000, "{}", hosts.sent.len());
    assert!(hosts.delivered.iter().any(|(_, _, ecn, _)| *ecn == Ecn::Ce));
    assert_eq!(delivered.len(), hosts.delivered.len());
    assert_eq!(delivered, hosts.delivered);
    let outside = open.finish();
    assert!(result.flows[0].drops.total() > 20);
    assert_eq!(outside.flows[0].drops, result.flows[0].drops);
    for (ours, theirs) in outside.links.iter().zip(&result.links) {
        assert_eq!(
            (ours.packets, ours.marked, ours.drops),
            (theirs.packets, theirs.marked, theirs.drops)
        );
    }
    assert_eq!(outside.flows[1].arrived_packets, result.flows[1].arrived_packets);
}

#[test]
fn rejects_entries_without_a_route() {
    let config: SimConfig = toml::from_str(SCENARIO).unwrap();
    assert!(OpenWorld::new(&config, 1, &Resources::default(), &[2]).is_err());
    let mut open = OpenWorld::new(&config, 1, &Resources::default(), &[0]).unwrap();
    assert_eq!(open.links(0), [["access"], ["core"]]);
    for wrong in [
        Entry {
            flow: 1,
            ..Entry::default()
        },
        Entry {
            flow: 9,
            ..Entry::default()
        },
        Entry {
            from: 1,
            ..Entry::default()
        },
        Entry {
            to: 1,
            ..Entry::default()
        },
    ] {
        assert!(!open.send(Time::ZERO, &wrong, b"x"), "{wrong:?}");
    }
    // A time in the past counts as now.
    open.advance(Time::ZERO + Span::from_secs(1));
    assert!(open.send(Time::ZERO, &Entry::default(), b"x"));
    open.advance(Time::ZERO + Span::from_secs(2));
    let mut arrivals = Vec::new();
    open.deliver(&mut |delivery| arrivals.push(delivery.at));
    assert!(
        arrivals.iter().all(|at| *at > Time::ZERO + Span::from_secs(1)),
        "{arrivals:?}"
    );
}

/// The IP packets of programs, as their hosts sent them.
#[derive(Default)]
struct Programs(Vec<(u32, Vec<u8>)>);

impl Observer for Programs {
    fn wants(&self, interest: Interest) -> bool {
        interest == Interest::HostPackets
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if event.fate == PacketFate::Sent {
            let bytes = event.ip.expect("a program's packet").to_vec();
            self.0.push((event.size, bytes));
        }
    }
}

#[test]
fn complete_ip_packets_keep_their_size_and_count_as_goodput() {
    let config: SimConfig = toml::from_str(
        r#"
node = [{ name = "a" }, { name = "b" }]
link = [{ between = ["a", "b"], rate = "8 Mbit/s", delay = "10 ms" }]
flow = [{ name = "data", from = "a", to = "b" }]
"#,
    )
    .unwrap();
    let mut programs = Programs::default();
    let mut open = OpenWorld::observed(&config, 1, &Resources::default(), &[0], &mut programs).unwrap();
    let mut packet = vec![0; 1000];
    packet[0] = 0x45;
    for forward in [true, false] {
        let entry = Entry {
            forward,
            headers: None,
            ..Entry::default()
        };
        assert!(open.send(Time::ZERO, &entry, &packet));
    }
    // 1000 bytes with the IP header: 1 ms at 8 Mbit/s.
    let due = Time::ZERO + Span::from_millis(11);
    open.advance_with(due, &mut programs);
    let mut arrived = Vec::new();
    open.deliver(&mut |delivery| arrived.push((delivery.at, delivery.payload.to_vec())));
    assert_eq!(arrived, vec![(due, packet.clone()); 2]);
    assert_eq!(programs.0, vec![(1000, packet); 2]);
    let result = open.finish();
    assert_eq!(result.flows[0].goodput_bytes, 1000, "only what reached the receiver");
    assert_eq!(result.flows[0].delay.count, 1);
    assert_eq!(result.links[0].bytes, 1000);
}
