//! Data from one end to the other, over networks that lose, reorder and duplicate packets.

use crate::support::{Fate, Host, Net};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{AssociationConfig, CloseReason, Message, MessagePayload, Reliability, State};
use whimbrel_wire::ChunkType;

fn content(len: usize, seed: u8) -> Vec<u8> {
    (0..len)
        .map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed))
        .collect()
}

// [9260:6-8, 6-11, 6.9-1, 6.9-14]
#[test]
fn messages_of_all_sizes_arrive_unchanged_in_both_directions() {
    let (mut net, a, b) = Net::established(1, &AssociationConfig::default());
    let sizes = [1, 2, 3, 4, 1451, 1452, 1453, 2904, 2905, 20_000, 65_536];
    for (index, &len) in sizes.iter().enumerate() {
        net.send(Host::A, a, Message::new(0, content(len, index as u8)));
        net.send(Host::B, b, Message::new(1, content(len, index as u8 + 100)));
    }
    net.run_for(Span::from_secs(10));
    let sent = |seed: u8| -> Vec<_> {
        sizes
            .iter()
            .enumerate()
            .map(|(index, &len)| content(len, index as u8 + seed))
            .collect()
    };
    assert_eq!(net.contents(Host::B), sent(0));
    assert_eq!(net.contents(Host::A), sent(100));
}

// [9260:7.2.4-2, 7.2.4-4]
#[test]
fn section_7_2_4_one_lost_packet_is_fast_retransmitted_once_without_a_timeout() {
    let (mut net, a, _) = Net::established(1, &AssociationConfig::default());
    let mut data_packets = 0;
    net.filter = Box::new(move |packet| {
        data_packets += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && data_packets == 20 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..100 {
        net.send(Host::A, a, Message::zeros(0, 1452));
    }
    net.run_for(Span::from_secs(5));
    let stats = net.a.association(a).unwrap().stats();
    assert_eq!(
        (stats.retransmissions, stats.fast_retransmits, stats.timeouts),
        (1, 1, 0)
    );
    assert_eq!(net.contents(Host::B).len(), 100);
}

// [9260:6.3.3-2, 6.1-18]
#[test]
fn section_6_3_3_a_lost_tail_is_retransmitted_after_the_timeout() {
    let (mut net, a, _) = Net::established(1, &AssociationConfig::default());
    let mut dropped = false;
    net.filter = Box::new(move |packet| {
        if packet.has(ChunkType::DATA) && !dropped {
            dropped = true;
            return Fate::Drop;
        }
        Fate::Deliver
    });
    let sent_at = net.now;
    net.send(Host::A, a, Message::new(0, &b"tail"[..]));
    net.run_until(Span::from_secs(3), "delivery", |net| !net.contents(Host::B).is_empty());
    // RTO.Min is one second, and the one-way delay is 10 ms.
    assert_eq!(net.now.since(sent_at), Span::from_millis(1010));
    assert_eq!(net.a.association(a).unwrap().stats().timeouts, 1);
}

// [9260:6.6-1, 6.6-2]
#[test]
fn hostile_networks_deliver_everything_once_and_in_order() {
    for seed in 0..2000_u64 {
        let mut rng = Rng::stream(seed, "hostile");
        let paths = 1 + rng.below(3) as usize;
        let config = AssociationConfig {
            recv_buffer: [1500, 3000, 10_000, 65_536][rng.below(4) as usize],
            max_burst: [0, 4][rng.below(2) as usize],
            association_max_retrans: 200,
            path_max_retrans: 50,
            rto_max: Span::from_secs(4),
            max_init_retransmits: 200,
            shutdown_guard: Some(Span::from_secs(3600)),
            ecn: Some(seed % 3 > 0),
            ecn_cwr: Some(seed % 3 == 2),
            ..AssociationConfig::default()
        };
        let mut net = Net::with_config(paths, &config, seed);
        let (loss, duplication, reordering) = (rng.unit() * 0.3, rng.unit() * 0.2, rng.unit() * 0.3);
        let mut network = Rng::stream(seed, "network");
        net.filter = Box::new(move |_| {
            let draw = network.unit();
            if draw < loss {
                Fate::Drop
            } else if draw < loss + duplication {
                Fate::Duplicate
            } else if draw < loss + duplication + reordering {
                Fate::Delay(Span::from_micros(network.below(50_000)))
            } else if draw < loss + duplication + reordering + 0.1 {
                Fate::Mark
            } else {
                Fate::Deliver
            }
        });
        let id = net.connect(&config, paths);
        net.run_until(Span::from_secs(1000), "handshake", |net| {
            net.state(Host::A, id) == State::Established
        });
        let mut sent = Vec::new();
        for number in 0..60_u32 {
            let mut bytes = content(1 + rng.below(4000) as usize, number as u8);
            bytes.splice(0..0, number.to_be_bytes());
            let message = Message {
                stream: rng.below(4) as u16,
                ppid: 0,
                unordered: rng.chance(0.2),
                immediate: rng.chance(0.1),
                context: number,
                reliability: Reliability::Full,
                payload: MessagePayload::Bytes(bytes.clone().into()),
            };
            sent.push((message.stream, message.unordered, bytes));
            net.send(Host::A, id, message);
        }
        let now = net.now;
        net.a.shutdown(now, id);
        net.run_until(Span::from_secs(5000), &format!("end of seed {seed}"), |net| {
            net.close_reason(Host::A).is_some()
        });
        net.run_for(Span::from_secs(2000));
        assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful), "seed {seed}");
        let mut got = net.messages.remove(&Host::B).unwrap_or_default();
        for stream in 0..4 {
            let ordered = |all: &[(u16, bool, Vec<u8>)]| -> Vec<Vec<u8>> {
                all.iter()
                    .filter(|(s, unordered, _)| *s == stream && !unordered)
                    .map(|(_, _, c)| c.clone())
                    .collect()
            };
            let number = |c: Vec<u8>| u32::from_be_bytes([c[0], c[1], c[2], c[3]]);
            let numbers = |all: &[_]| -> Vec<u32> { ordered(all).into_iter().map(number).collect() };
            assert_eq!(numbers(&got), numbers(&sent), "seed {seed}, stream {stream}");
        }
        got.sort();
        sent.sort();
        assert!(got == sent, "seed {seed}: content changed");
    }
}
