//! Associations that give way to new ones at a limit although their peers have sent messages.

use std::collections::BTreeMap;

use crate::limits::{from, handshake, limited, live};
use crate::support::{Host, Net, data, packet};
use whimbrel_control::Span;
use whimbrel_proto::CloseReason;
use whimbrel_wire::{Chunk, ChunkType};

/// Returns the source ports of the associations of B, in order.
fn ports(net: &Net) -> Vec<u16> {
    let all = net.b.associations().filter_map(|id| net.b.association(id));
    let mut ports: Vec<_> = all.map(|association| association.peer_port()).collect();
    ports.sort_unstable();
    ports
}

/// Peers with the verification tags that B has given them.
#[derive(Default)]
struct Peers(BTreeMap<u16, u32>);

impl Peers {
    /// Opens an association from this address and port, with a message. Returns whether B has accepted it.
    fn open(&mut self, net: &mut Net, ip: &str, port: u16) -> bool {
        let is_open = handshake(net, ip, port, &[Chunk::Data(data(1000, 0, b"x"))]);
        let tag = net.last(Host::B, ChunkType::INIT_ACK).init().initiate_tag;
        self.0.insert(port, tag);
        is_open
    }

    /// Delivers message `number`, from 1, of the peer at this port.
    fn send(&self, net: &mut Net, ip: &str, port: u16, number: u16) {
        let message = Chunk::Data(data(1000 + u32::from(number), number, b"y"));
        let message = packet(port, 4002, self.0[&port], &[message]);
        net.deliver_from(Host::B, from(ip), &message).expect("accepted");
    }
}

#[test]
fn the_least_recently_active_association_of_an_address_is_evicted() {
    let mut peers = Peers::default();
    let mut net = limited(|limits| {
        limits.first_message_timeout = Some(Span::from_secs(30));
        limits.evict_after = Some(Span::from_secs(5));
        limits.max_associations_per_address = 3;
    });
    for port in 1..=3 {
        assert!(peers.open(&mut net, "10.0.0.1", port));
        net.run_for(Span::from_millis(500));
    }
    assert!(!peers.open(&mut net, "10.0.0.1", 4), "all are active");
    assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [4]);
    net.run_for(Span::from_secs(4));
    // The first one, which would be the oldest, is active again.
    peers.send(&mut net, "10.0.0.1", 1, 1);
    assert!(peers.open(&mut net, "10.0.0.1", 5));
    assert_eq!(ports(&net), [1, 3, 5]);
    let reason = "number of associations; this one was the least recently active";
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::OverLimit(reason)));
    // One without a message goes before those with messages, however long these are idle.
    net.run_for(Span::from_secs(20));
    peers.send(&mut net, "10.0.0.1", 5, 1);
    net.run_for(Span::from_millis(10));
    assert!(handshake(&mut net, "10.0.0.1", 6, &[]));
    assert_eq!(ports(&net), [1, 5, 6]);
    assert!(peers.open(&mut net, "10.0.0.1", 7));
    assert_eq!(ports(&net), [1, 5, 7]);
    // Other addresses have limits of their own.
    assert!(peers.open(&mut net, "10.0.0.2", 1));
    assert_eq!(live(&net), 4);
}

#[test]
fn a_few_addresses_cannot_keep_out_others_however_active_they_are() {
    let mut peers = Peers::default();
    let mut net = limited(|limits| {
        limits.first_message_timeout = Some(Span::from_secs(30));
        limits.evict_after = Some(Span::from_secs(5));
        limits.max_associations_per_address = 8;
        limits.max_associations = 17;
    });
    assert!(peers.open(&mut net, "10.0.0.9", 900), "one that stays idle");
    net.run_for(Span::from_secs(60));
    for port in 1..=16 {
        let ip = if port % 2 == 0 { "10.0.0.1" } else { "10.0.0.2" };
        assert!(peers.open(&mut net, ip, port));
    }
    // Full. The idle association of the address with a single one stays: those with eight give way.
    for port in 901..=907 {
        let ip = format!("10.0.1.{}", port - 900);
        assert!(peers.open(&mut net, &ip, port), "{port}");
        for attacker in ports(&net).into_iter().filter(|port| *port <= 16) {
            let ip = if attacker % 2 == 0 { "10.0.0.1" } else { "10.0.0.2" };
            peers.send(&mut net, ip, attacker, port - 900);
        }
    }
    let left = ports(&net);
    assert_eq!(left.len(), 17);
    assert!(
        left.contains(&900) && (901..=907).all(|port| left.contains(&port)),
        "{left:?}"
    );
    // An address with many gets no more at the cost of others, although one of these is idle.
    assert!(!peers.open(&mut net, "10.0.0.1", 50));
    net.run_for(Span::from_secs(6));
    assert!(peers.open(&mut net, "10.0.0.1", 52));
    assert!(ports(&net).contains(&900) && ports(&net).len() == 17);
}

#[test]
fn without_large_holders_only_idle_associations_are_evicted() {
    let mut peers = Peers::default();
    let mut net = limited(|limits| {
        limits.evict_after = Some(Span::from_secs(5));
        limits.max_associations = 4;
    });
    for host in 1..=4 {
        assert!(peers.open(&mut net, &format!("10.0.0.{host}"), host));
        net.run_for(Span::from_secs(1));
    }
    assert!(!peers.open(&mut net, "10.0.0.5", 5));
    net.run_for(Span::from_millis(1100));
    assert!(peers.open(&mut net, "10.0.0.5", 5));
    assert_eq!(ports(&net), [2, 3, 4, 5]);
}
