//! A peer with one address, reached from several local addresses: `path_per_local_address`.

use crate::support::{Fate, Host, Net, addrs, endpoint};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, Message, PathState};
use whimbrel_wire::ChunkType;

/// A with two addresses, B with one.
fn phone_and_server(config: &AssociationConfig) -> Net {
    let mut net = Net::with_config(2, config, 1);
    net.b = endpoint(Host::B, 1, config, 1);
    net
}

fn per_local_address() -> AssociationConfig {
    AssociationConfig {
        path_per_local_address: true,
        hb_interval: Span::from_secs(1),
        ..AssociationConfig::default()
    }
}

#[test]
fn one_remote_address_gives_one_path_by_default() {
    let config = AssociationConfig::default();
    let mut net = phone_and_server(&config);
    let a = net.connect(&config, 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.a.association(a).expect("established").paths().count(), 1);
}

#[test]
fn each_local_address_has_a_path_to_the_only_remote_address() {
    let config = per_local_address();
    let mut net = phone_and_server(&config);
    let a = net.connect(&config, 1);
    net.run_for(Span::from_secs(5));
    let b = net.only(Host::B);
    let ends = |endpoint: &whimbrel_proto::Endpoint, id| -> Vec<_> {
        let paths = endpoint.association(id).expect("established").paths();
        paths.map(|path| (path.local, path.remote, path.state)).collect()
    };
    let (phone, server) = (addrs(Host::A, 2), addrs(Host::B, 1)[0]);
    assert_eq!(
        ends(&net.a, a),
        [
            (phone[0], server, PathState::Active),
            (phone[1], server, PathState::Active)
        ]
    );
    assert_eq!(
        ends(&net.b, b),
        [
            (server, phone[0], PathState::Active),
            (server, phone[1], PathState::Active)
        ]
    );
}

#[test]
fn data_moves_to_the_second_local_address_when_the_first_fails() {
    let config = per_local_address();
    let mut net = phone_and_server(&config);
    let a = net.connect(&config, 1);
    net.run_for(Span::from_secs(5));
    let lost = addrs(Host::A, 1)[0];
    net.filter = Box::new(move |packet| {
        if packet.local == lost || packet.remote == lost {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.send(Host::A, a, Message::new(0, &b"hello"[..]));
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B), [b"hello".to_vec()]);
    let sent = net.sent(Host::A, ChunkType::DATA);
    let locals: Vec<_> = sent.iter().map(|sent| sent.local).collect();
    assert_eq!(locals, addrs(Host::A, 2));
}

#[test]
fn an_association_opens_from_the_second_local_address_if_the_first_fails() {
    let config = per_local_address();
    let mut net = phone_and_server(&config);
    let lost = addrs(Host::A, 1)[0];
    net.filter = Box::new(move |packet| {
        if packet.local == lost || packet.remote == lost {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let a = net.connect(&config, 1);
    net.send(Host::A, a, Message::new(0, &b"hello"[..]));
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B), [b"hello".to_vec()]);
}

#[test]
fn each_address_of_the_accepting_end_has_a_path_to_the_single_remote_address() {
    let config = per_local_address();
    let mut net = Net::with_config(2, &config, 1);
    net.a = endpoint(Host::A, 1, &config, 1);
    net.connect(&config, 2);
    net.run_for(Span::from_secs(5));
    let b = net.only(Host::B);
    let paths: Vec<_> = net.b.association(b).expect("established").paths().collect();
    let locals: Vec<_> = paths.iter().map(|path| path.local).collect();
    assert_eq!(locals, addrs(Host::B, 2));
    assert!(paths.iter().all(|path| path.state == PathState::Active), "{paths:?}");
}
