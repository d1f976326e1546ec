//! Address resolution over radio.

use crate::common::radio::{at, datagrams, goodput, moving};
use crate::common::run;
use whimbrel_control::{Rate, Span};
use whimbrel_sim::config::{ChannelRouting, Interference, PhyKind};
use whimbrel_sim::{DropCause, RadioResult, RunResult};

#[test]
fn a_request_precedes_the_first_packet() {
    let mut config = at(&[[0.0, 0.0], [150.0, 0.0], [-50.0, 0.0]], PhyKind::Dsss1, 10);
    config.channel[0].arp = true;
    // One per second, and later one in the other direction.
    let mut there = datagrams(0, 1, Rate::from_bps(8 * 972), 1000);
    there.start = Span::from_secs(1);
    let mut back = datagrams(1, 0, Rate::from_bps(8 * 972), 1000);
    back.start = Span::from_millis(5500);
    let mut third = datagrams(2, 0, Rate::from_bps(8 * 972), 1000);
    third.start = Span::from_millis(7300);
    config.flow = vec![there, back, third];
    let result = run(&config, 1);
    // A request of 64 bytes at 1 Mbit/s: 192 + 512 us. DIFS, the reply, its ACK after SIFS, DIFS and a back-off; then the packet.
    let rest = 192.0 + 8288.0 + 0.5;
    let first = 704.5 + 50.0 + 704.5 + 10.0 + 304.0 + 50.0 + rest;
    let longest = result.flows[0].delay.max.as_secs_f64() * 1e6;
    assert!(
        (0.0..=31.0 * 20.0 + 2.0).contains(&(longest - first)),
        "{longest} us, at least {first}"
    );
    // Later packets are sent at once: the address is known from the request or the reply.
    for flow in &result.flows[1..] {
        let delay = flow.delay.max.as_secs_f64() * 1e6;
        assert!((delay - rest).abs() < 0.5, "{}: {delay} us", flow.name);
    }
    let messages: Vec<_> = result
        .radios
        .iter()
        .map(|radio| (radio.control, radio.control_bytes))
        .collect();
    assert_eq!(messages, [(1, 28), (1, 28), (0, 0)]);
    assert_eq!(result.drops.total(), 0);
    // Without ARP there are no such messages.
    config.channel[0].arp = false;
    let result = run(&config, 1);
    assert_eq!(result.radios[0].control, 0);
    assert!((result.flows[0].delay.max.as_secs_f64() * 1e6 - rest).abs() < 0.5);
}

#[test]
fn one_packet_waits_for_an_address() {
    let mut config = at(&[[0.0, 0.0], [150.0, 0.0]], PhyKind::Dsss2, 10);
    config.channel[0].arp = true;
    // Three packets at once: the last of them is sent.
    config.flow = (0..3)
        .map(|i| {
            let mut flow = datagrams(0, 1, Rate::from_bps(8 * 972), 1000);
            flow.name = format!("f{i}");
            flow.traffic.count = Some(2);
            flow
        })
        .collect();
    let result = run(&config, 1);
    let delivered: Vec<_> = result.flows.iter().map(|flow| flow.messages_delivered).collect();
    assert_eq!(delivered, [1, 1, 2]);
    assert_eq!(result.drops.of(DropCause::NoAddress), 2);
    assert_eq!(result.radios[0].control, 3, "a request per packet");
    // No neighbour: of every four packets three are held and the fourth ends the resolution.
    config.node[1].position = Some([5000.0, 0.0]);
    config.channel[0].routing = ChannelRouting::Direct;
    config.flow.truncate(1);
    config.flow[0].traffic.count = Some(8);
    let result = run(&config, 1);
    assert_eq!(result.drops.of(DropCause::NoAddress), 8);
    assert_eq!((result.radios[0].control, result.radios[0].data), (6, 6));
}

#[test]
fn mobile_networks_work_with_arp() {
    for routing in ["static", "aodv", "dsdv", "dsr"] {
        let mut config = moving(false, Interference::Threshold);
        config.channel[0].routing = ChannelRouting::by_name(routing).expect("a protocol");
        if routing == "static" {
            config.node.iter_mut().for_each(|node| node.mobility = None);
        }
        for (i, flow) in (0..).zip(&mut config.flow) {
            // At different times, because requests that collide are not retransmitted.
            flow.start = Span::from_millis(7 * i);
            flow.stop = Some(Span::from_secs(10));
            flow.traffic.rate = Some(Rate::from_bps(40_000));
        }
        config.channel[0].arp = true;
        let result = run(&config, 3);
        assert_eq!(result.fingerprint, run(&config, 3).fingerprint, "{routing}");
        config.channel[0].arp = false;
        let without = run(&config, 3);
        let sum = |result: &RunResult, of: fn(&RadioResult) -> u64| result.radios.iter().map(of).sum::<u64>();
        assert!(
            goodput(&result) > 0.7 * goodput(&without),
            "{routing}: {}",
            goodput(&result)
        );
        if routing == "static" {
            // Other flows need no messages. Other protocols find other routes, with more or fewer messages of their own.
            assert!(
                sum(&result, |radio| radio.control) >= 20,
                "a request and a reply for each flow"
            );
            assert_eq!(sum(&without, |radio| radio.control), 0);
        }
        // Every sent packet is delivered, in the ledger, or held for an unresolved address, at most one per pair of neighbours.
        let open: u64 = result
            .flows
            .iter()
            .map(|flow| flow.messages_sent - flow.messages_delivered - flow.drops.total())
            .sum();
        assert!(open < 10, "{routing}: {open} without an end");
    }
}
