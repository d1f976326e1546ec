//! Addresses that a peer lists and that are not its own: nothing is sent to this host itself, or to hosts that only it can reach.

use crate::support::attacker::{Attacker, answers, drop_packets_of, established, remotes};
use crate::support::{Fate, Host, Net, addr, addrs, init, meta, packet, parameters};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, Discard};
use whimbrel_wire::{Chunk, ChunkType, Parameter};

/// Loopback, link-local, B's own address, and two that nobody can have; the last address is the peer's.
const LISTED: [[u8; 4]; 9] = [
    [0, 1, 2, 3],
    [240, 0, 0, 1],
    [127, 0, 0, 1],
    [127, 3, 2, 1],
    [169, 254, 169, 254],
    [10, 0, 0, 2],
    [255, 255, 255, 255],
    [224, 0, 0, 1],
    [10, 0, 5, 1],
];

fn listed() -> Vec<u8> {
    parameters(&LISTED.map(|ip| Parameter::Ipv4(ip.into())))
}

#[test]
fn init_cannot_direct_heartbeats_to_the_listener_itself() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let from = meta(addrs(Host::B, 1)[0], addr("10.0.0.1:5353"));
    let hello = packet(4001, 4002, 0, &[Chunk::Init(init(5, &listed()))]);
    net.deliver_from(Host::B, from, &hello).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    let cookie = answer.init().parameters.state_cookie().expect("a cookie").to_vec();
    let tag = answer.init().initiate_tag;
    let echo = packet(4001, 4002, tag, &[Chunk::CookieEcho { cookie: &cookie }]);
    net.deliver_from(Host::B, from, &echo).expect("accepted");
    let b = net.only(Host::B);
    assert_eq!(
        remotes(&mut net, Host::B, b),
        [addr("10.0.0.1:5353"), addr("10.0.5.1:5353")]
    );
    net.run_for(Span::from_secs(40));
    let mut destinations: Vec<_> = net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::B)
        .map(|sent| sent.remote)
        .collect();
    destinations.sort_unstable();
    destinations.dedup();
    assert_eq!(destinations, [addr("10.0.0.1:5353"), addr("10.0.5.1:5353")]);
}

/// The same from a server to its client.
#[test]
fn init_ack_cannot_direct_the_client_to_itself() {
    let mut net = Net::new(1);
    let a = net.connect(&AssociationConfig::default(), 1);
    net.filter = Box::new(|_| Fate::Drop);
    net.drain(Host::A);
    let tag = net.last(Host::A, ChunkType::INIT).init().initiate_tag;
    let mut list = parameters(&[Parameter::Ipv4([10, 0, 0, 1].into())]);
    list.extend(listed());
    Parameter::StateCookie(b"a cookie").emit(&mut list);
    let reply = packet(4002, 4001, tag, &[Chunk::InitAck(init(6, &list))]);
    net.deliver(Host::A, &reply).expect("accepted");
    // 10.0.0.2 is the peer itself here.
    assert_eq!(
        remotes(&mut net, Host::A, a),
        [addrs(Host::B, 1)[0], addr("10.0.5.1:0")]
    );
}

#[test]
fn asconf_cannot_add_addresses_of_the_receiver() {
    for (ip, accepted) in LISTED
        .into_iter()
        .zip([false, false, false, false, false, false, false, false, true])
    {
        let (mut net, _, b) = established(1);
        let mut attacker = Attacker::new(&net);
        drop_packets_of(&mut net, Host::B);
        let address = std::net::IpAddr::from(ip);
        let bytes = attacker.asconf(&[Parameter::AddIp {
            correlation: 9,
            address,
        }]);
        let result = net.deliver_from(Host::B, meta(addrs(Host::B, 1)[0], addrs(Host::A, 1)[0]), &bytes);
        assert!(matches!(result, Ok(()) | Err(Discard::InvalidChunk)), "{result:?}");
        assert_eq!(remotes(&mut net, Host::B, b).len() == 2, accepted, "{address}");
        // RFC 5061 §4.3: Unresolvable Address, 5.
        assert_eq!(answers(&net).contains(&(9, 5)), !accepted, "{address}");
    }
}
