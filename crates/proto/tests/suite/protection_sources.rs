//! Encrypted associations, and an attacker who forwards their packets from an address of his own, faster than the network does. Encryption does not
//! cover the source of a packet.

use crate::protection::*;
use crate::support::{Fate, Host, Net, Sent, addr, addrs, meta};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, Discard, Endpoint, EndpointConfig, Event, Message, PathInfo, PathState, State,
    StreamChange, StreamList, TransportAddr,
};
use whimbrel_wire::{ChunkType, Parameter, cause_code};

fn attacker() -> TransportAddr {
    addr("192.0.2.77:0")
}

/// Delivers the packet as if the attacker had forwarded it.
fn forward(net: &mut Net, sent: &Sent) -> Result<(), Discard> {
    net.deliver_from(sent.from.other(), meta(sent.remote, attacker()), &sent.bytes)
}

/// From here on, the network keeps the packets of this host.
fn hold(net: &mut Net, host: Host) {
    net.filter = Box::new(move |packet| match packet.from == host {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
}

fn remotes(net: &Net, b: AssocId) -> Vec<TransportAddr> {
    let paths = net.b.association(b).expect("B").paths();
    paths.map(|path| path.remote).collect()
}

fn refused(net: &Net) -> Vec<u16> {
    let events = net.events_of(Host::A);
    let causes = events.iter().filter_map(|event| match event {
        Event::AddressRefused { cause, .. } => Some(*cause),
        _ => None,
    });
    causes.collect()
}

// RFC 9147 §4.5.1: the window advances with packets that have been accepted.
#[test]
fn a_faster_copy_from_elsewhere_does_not_make_a_replay_of_the_original() {
    for dynamic_addresses in [true, false] {
        let config = AssociationConfig {
            dynamic_addresses,
            ..config()
        };
        let (mut net, a, b) = Net::established(1, &config);
        net.run_for(Span::from_millis(500));
        hold(&mut net, Host::A);
        for number in 0..20_u8 {
            net.send(Host::A, a, Message::new(0, vec![number]));
            let sent = net.last(Host::A, ChunkType::DTLS);
            for _ in 0..3 {
                assert_eq!(forward(&mut net, &sent), Err(Discard::OutOfTheBlue));
            }
            assert_eq!(net.deliver_from(Host::B, sent.meta(), &sent.bytes), Ok(()), "{number}");
            let again = net.deliver_from(Host::B, sent.meta(), &sent.bytes);
            assert_eq!(again, Err(Discard::Replayed));
            if dynamic_addresses {
                assert_eq!(forward(&mut net, &sent), Err(Discard::Replayed));
            }
            net.run_for(Span::from_millis(100));
        }
        assert_eq!(net.contents(Host::B).len(), 20);
        let stats = net.b.association(b).expect("B").protection_stats();
        assert_eq!(stats.failed, 0, "{stats:?}");
        net.filter = Box::new(|_| Fate::Deliver);
        still_works(&mut net, a, b);
    }
}

#[test]
fn a_copy_from_elsewhere_is_no_proof_of_the_keys() {
    let mut net = Net::with_config(1, &config(), 1);
    // What follows the COOKIE ECHO does not arrive.
    net.filter = Box::new(|packet| match packet.from == Host::A && packet.has(ChunkType::DTLS) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    net.connect(&config(), 1);
    net.run_for(Span::from_millis(100));
    let proof = net.last(Host::A, ChunkType::DTLS);
    assert_eq!(forward(&mut net, &proof), Err(Discard::OutOfTheBlue));
    let is_connected = |event: &Event| matches!(event, Event::Connected { .. });
    assert!(!net.events_of(Host::B).iter().any(is_connected));
    assert_eq!(net.deliver_from(Host::B, proof.meta(), &proof.bytes), Ok(()));
    assert!(net.events_of(Host::B).iter().any(is_connected));
}

/// Lets the attacker forward A's request to add its source: its address has to be verified then.
fn add_attacker(net: &mut Net, a: AssocId, b: AssocId) {
    hold(net, Host::A);
    let (now, lte) = (net.now, addr("10.0.1.1:0"));
    assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
    net.drain(Host::A);
    let asconf = net.last(Host::A, ChunkType::DTLS);
    assert_eq!(forward(net, &asconf), Ok(()));
    assert!(remotes(net, b).contains(&attacker()));
}

// An association that has ended answers to the peer, not to the source of a copy.
#[test]
fn a_copy_from_elsewhere_does_not_take_the_last_answer() {
    for is_to_verify in [false, true] {
        let (mut net, a, b) = translated(Some(true));
        let ends = match is_to_verify {
            false => (Host::A, Host::B),
            true => (Host::B, Host::A),
        };
        if is_to_verify {
            add_attacker(&mut net, a, b);
            net.filter = Box::new(|packet| match packet.remote == attacker() {
                true => Fate::Drop,
                false => Fate::Deliver,
            });
            net.run_for(Span::from_secs(5));
        }
        // The SHUTDOWN COMPLETE of the end that closes is lost, and the network keeps what the other one sends then.
        let (closing, other) = ends;
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            count += u32::from(packet.from == closing && packet.remote != attacker());
            let is_late = packet.from == other && count >= 2;
            match packet.from == closing && count == 2 || is_late || packet.remote == attacker() {
                true => Fate::Drop,
                false => Fate::Deliver,
            }
        });
        let now = net.now;
        match is_to_verify {
            false => net.a.shutdown(now, a),
            true => net.b.shutdown(now, b),
        };
        net.run_for(Span::from_secs(5));
        assert_eq!(net.state(closing, if is_to_verify { b } else { a }), State::Closed);
        let sent = net.last(other, ChunkType::DTLS);
        let before = net.count(closing, ChunkType::DTLS);
        for _ in 0..3 {
            assert_eq!(forward(&mut net, &sent), Err(Discard::OutOfTheBlue));
        }
        assert_eq!(net.count(closing, ChunkType::DTLS), before, "nothing is answered");
        let _ = net.deliver_from(closing, sent.meta(), &sent.bytes);
        assert_eq!(net.count(closing, ChunkType::DTLS), before + 1, "SHUTDOWN COMPLETE");
        let answer = net.last(closing, ChunkType::DTLS);
        assert_eq!(answer.remote, sent.local);
    }
}

// RFC 6951 §5.4: an answer goes to the port of its request. The copy has used up the sequence number.
#[test]
fn a_copy_from_another_port_does_not_take_the_answer() {
    for is_heartbeat in [true, false] {
        let (mut net, a, b) = established(1);
        let peer = addrs(Host::A, 1)[0];
        net.filter = Box::new(|_| Fate::Drop);
        if is_heartbeat {
            net.run_for(Span::from_secs(40));
        } else {
            let (now, lte) = (net.now, addr("10.0.1.1:0"));
            assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
            net.drain(Host::A);
        }
        let sent = net.last(Host::A, ChunkType::DTLS);
        let mut spoofed = peer;
        spoofed.set_port(7777);
        let before = sealed(&net, Host::B).len();
        assert_eq!(
            net.deliver_from(Host::B, meta(sent.remote, spoofed), &sent.bytes),
            Ok(())
        );
        let answers = sealed(&net, Host::B).split_off(before);
        assert!(answers.iter().any(|answer| answer.remote == peer), "{is_heartbeat}");
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(200));
        assert!(remotes(&net, b).iter().all(|remote| remote.port() != 7777));
        still_works(&mut net, a, b);
    }
}

// Likewise for what is answered over a path: SACK, the response of RE-CONFIG, SHUTDOWN ACK.
#[test]
fn a_copy_from_another_port_takes_no_answer_of_the_association() {
    for what in 0..3 {
        let changes = AssociationConfig {
            stream_changes: true,
            ..config()
        };
        let (mut net, a, b) = Net::established(1, &changes);
        // Both ends have received something.
        still_works(&mut net, a, b);
        let peer = addrs(Host::A, 1)[0];
        net.filter = Box::new(|_| Fate::Drop);
        let now = net.now;
        match what {
            0 => {
                // The second packet is acknowledged at once (RFC 9260 §6.2).
                net.send(Host::A, a, Message::new(0, vec![1]));
                let first = net.last(Host::A, ChunkType::DTLS);
                assert_eq!(net.deliver_from(Host::B, first.meta(), &first.bytes), Ok(()));
                net.send(Host::A, a, Message::new(0, vec![2]));
            }
            1 => {
                assert!(
                    net.a
                        .change_streams(now, a, StreamChange::ResetOutbound(StreamList::ALL))
                        .is_ok()
                );
                net.drain(Host::A);
            }
            _ => {
                net.a.shutdown(now, a);
                net.drain(Host::A);
            }
        }
        let sent = net.last(Host::A, ChunkType::DTLS);
        let mut spoofed = peer;
        spoofed.set_port(7777);
        let before = sealed(&net, Host::B).len();
        let _ = net.deliver_from(Host::B, meta(sent.remote, spoofed), &sent.bytes);
        let answers = sealed(&net, Host::B).split_off(before);
        assert!(answers.iter().any(|answer| answer.remote == peer), "{what}");
        let again = net.deliver_from(Host::B, sent.meta(), &sent.bytes);
        assert_eq!(again, Err(Discard::Replayed), "{what}");
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(100));
        if what == 2 {
            assert_eq!(
                (net.state(Host::A, a), net.state(Host::B, b)),
                (State::Closed, State::Closed)
            );
        } else {
            assert!(remotes(&net, b).iter().all(|remote| remote.port() != 7777));
            still_works(&mut net, a, b);
        }
    }
}

// Only the HEARTBEAT ACK of its own HEARTBEAT verifies an address. A copy of another one counts as little as any other packet.
#[test]
fn a_copied_answer_of_another_path_verifies_nothing() {
    let (mut net, a, b) = translated(Some(true));
    add_attacker(&mut net, a, b);
    net.filter = Box::new(|packet| match packet.remote == attacker() {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    // A's request is answered.
    net.run_for(Span::from_secs(15));
    net.filter = Box::new(|packet| match packet.from == Host::A || packet.remote == attacker() {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    let mut count = sealed(&net, Host::A).len();
    // B's HEARTBEATs arrive, and A's answers are held.
    for _ in 0..60 {
        net.run_for(Span::from_secs(1));
        for sent in sealed(&net, Host::A).split_off(count) {
            assert_eq!(forward(&mut net, &sent), Err(Discard::OutOfTheBlue));
            let result = net.deliver_from(Host::B, sent.meta(), &sent.bytes);
            assert_ne!(result, Err(Discard::Replayed));
        }
        count = sealed(&net, Host::A).len();
    }
    let mut paths = net.b.association(b).expect("B").paths();
    let path = paths.find(|path| path.remote == attacker()).expect("a path");
    assert_ne!(path.state, PathState::Active);
}

// RFC 5061 §5.2: the ASCONF-ACK goes to the source of the ASCONF.
#[test]
fn a_repeated_asconf_is_answered_and_does_not_count() {
    let mut net = Net::with_config(1, &config(), 1);
    let settings = EndpointConfig {
        max_unassociated_per_address: Some(100),
        ..net.b.config().clone()
    };
    net.b = Endpoint::new(settings, Box::new(Rng::stream(1, "b"))).expect("a valid configuration");
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_millis(500));
    let b = net.only(Host::B);
    // What goes to the attacker does not come back.
    net.filter = Box::new(|packet| match packet.from == Host::A || packet.remote == attacker() {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    let (now, lte) = (net.now, addr("10.0.1.1:0"));
    assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
    net.drain(Host::A);
    let first = net.last(Host::A, ChunkType::DTLS);
    assert_eq!(forward(&mut net, &first), Ok(()), "a new one may come from anywhere");
    assert_eq!(net.last(Host::B, ChunkType::DTLS).remote, attacker());
    assert!(remotes(&net, b).contains(&lte));
    let before = sealed(&net, Host::A).len();
    net.run_for(Span::from_secs(10));
    let again = sealed(&net, Host::A).split_off(before);
    for sent in &again {
        // It does not count, and is answered: the peer may be there.
        assert_eq!(forward(&mut net, sent), Err(Discard::OutOfTheBlue));
        assert_eq!(net.last(Host::B, ChunkType::DTLS).remote, attacker());
    }
    // A host that repeats it without end makes B send no more than packets out of the blue do.
    let count = sealed(&net, Host::B).len();
    for _ in 0..5000 {
        assert_eq!(forward(&mut net, &again[0]), Err(Discard::OutOfTheBlue));
    }
    let answers = sealed(&net, Host::B).len() - count;
    assert!((1..=20).contains(&answers), "{answers}");
    net.filter = Box::new(|_| Fate::Deliver);
    for sent in &again {
        let result = net.deliver_from(Host::B, sent.meta(), &sent.bytes);
        assert_ne!(result, Err(Discard::Replayed));
    }
    net.run_for(Span::from_secs(5));
    let locals = net.a.association(a).expect("A").local_addrs().to_vec();
    assert!(locals.contains(&lte), "{locals:?}");
    still_works(&mut net, a, b);
}

/// An association whose opener assumes a NAT, and a listener that does (`true`) or does not.
fn translated(listener: Option<bool>) -> (Net, AssocId, AssocId) {
    let [opener, listener] = [Some(true), listener].map(|address_translation| AssociationConfig {
        address_translation,
        ..config()
    });
    let mut net = Net::with_config(1, &listener, 1);
    let a = net.connect(&opener, 1);
    net.run_for(Span::from_millis(500));
    let b = net.only(Host::B);
    (net, a, b)
}

// RFC 5061 §4.2.1, §6: the source of a packet is not protected.
#[test]
fn the_source_of_a_packet_is_not_added_if_that_is_forbidden() {
    for forwarded in [true, false] {
        let (mut net, a, b) = translated(Some(false));
        let before = remotes(&net, b);
        hold(&mut net, Host::A);
        let (now, lte) = (net.now, addr("10.0.1.1:0"));
        assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
        net.drain(Host::A);
        let asconf = net.last(Host::A, ChunkType::DTLS);
        if forwarded {
            assert_eq!(forward(&mut net, &asconf), Ok(()));
        }
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(10));
        assert_eq!(remotes(&net, b), before, "{forwarded}");
        assert_eq!(refused(&net), [cause_code::NO_AUTHORIZATION]);
        still_works(&mut net, a, b);
    }
}

// Nor if the attacker forwards the HEARTBEATs too: the peer answers from its own address.
#[test]
fn an_address_behind_a_nat_is_used_after_an_answer_from_there() {
    for (forwards_all, listener) in [(true, Some(true)), (false, Some(true)), (true, None), (false, None)] {
        let (mut net, a, b) = translated(listener);
        hold(&mut net, Host::A);
        let (now, lte) = (net.now, addr("10.0.1.1:0"));
        assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
        net.drain(Host::A);
        let asconf = net.last(Host::A, ChunkType::DTLS);
        assert_eq!(forward(&mut net, &asconf), Ok(()));
        assert!(remotes(&net, b).contains(&attacker()));
        net.filter = Box::new(move |packet| match packet.remote == attacker() && !forwards_all {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        for _ in 0..20 {
            net.send(Host::B, b, Message::new(0, vec![5; 20_000]));
            net.run_for(Span::from_secs(1));
        }
        // HEARTBEATs only.
        let lengths = net.wire.iter().filter(|sent| sent.remote == attacker());
        assert!(lengths.map(|sent| sent.bytes.len()).max() < Some(200));
        let mut paths = net.b.association(b).expect("B").paths();
        let path = paths.find(|path| path.remote == attacker()).expect("a path");
        assert_ne!(path.state, PathState::Active, "{forwards_all}");
        assert_eq!(net.contents(Host::A).len(), 20);
    }
}

#[test]
fn a_copy_from_an_address_to_be_verified_makes_no_replay() {
    let (mut net, a, b) = translated(Some(true));
    hold(&mut net, Host::A);
    let (now, lte) = (net.now, addr("10.0.1.1:0"));
    assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
    net.drain(Host::A);
    let asconf = net.last(Host::A, ChunkType::DTLS);
    assert_eq!(forward(&mut net, &asconf), Ok(()));
    assert!(remotes(&net, b).contains(&attacker()));
    for number in 0..10_u8 {
        net.send(Host::A, a, Message::new(0, vec![number]));
        let sent = net.last(Host::A, ChunkType::DTLS);
        assert_eq!(forward(&mut net, &sent), Err(Discard::OutOfTheBlue));
        assert_eq!(net.deliver_from(Host::B, sent.meta(), &sent.bytes), Ok(()), "{number}");
        net.run_for(Span::from_millis(20));
    }
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(5));
    still_works(&mut net, a, b);
}

// RFC 5061 §4.2.2, §4.2.4
#[test]
fn the_source_of_a_packet_decides_neither_what_is_removed_nor_what_is_preferred() {
    for forwarded in [true, false] {
        let (mut net, a, b) = translated(Some(true));
        let (now, lte, wifi) = (net.now, addr("10.0.1.1:0"), addrs(Host::A, 1)[0]);
        assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
        net.run_for(Span::from_secs(10));
        assert_eq!(remotes(&net, b), [wifi, lte]);
        let is_active = |path: PathInfo| path.state == PathState::Active;
        assert!(
            net.b.association(b).expect("B").paths().all(is_active),
            "it has answered"
        );
        let primary = |net: &Net| {
            let events = net.events_of(Host::B);
            events
                .iter()
                .any(|event| matches!(event, Event::PrimaryRequested { .. }))
        };
        hold(&mut net, Host::A);
        let now = net.now;
        assert_eq!(net.a.set_peer_primary(now, a, lte), Ok(()));
        net.drain(Host::A);
        let asconf = net.last(Host::A, ChunkType::DTLS);
        if forwarded {
            // From an address of the peer, as attackers write them.
            let spoofed = meta(asconf.remote, wifi);
            assert_eq!(net.deliver_from(Host::B, spoofed, &asconf.bytes), Ok(()));
        }
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(10));
        assert!(!primary(&net));
        assert_eq!(refused(&net), [cause_code::NO_AUTHORIZATION]);
        let now = net.now;
        assert_eq!(net.a.remove_local_address(now, a, wifi), Ok(()));
        net.run_for(Span::from_secs(2));
        assert_eq!(remotes(&net, b), [wifi, lte], "what does not answer fails by itself");
        still_works(&mut net, a, b);
    }
}

// INIT does not list what a NAT translates, with encryption as without.
#[test]
fn a_nat_is_assumed_with_encryption_too() {
    for (address_translation, listed) in [(None, 0), (Some(false), 2)] {
        let config = AssociationConfig {
            address_translation,
            ..config()
        };
        let mut net = Net::with_config(2, &config, 1);
        let now = net.now;
        let public = addr("203.0.113.1:0");
        assert!(net.a.connect(now, config, 4002, &[public]).is_ok());
        net.drain(Host::A);
        let sent = net.last(Host::A, ChunkType::INIT);
        let init = sent.init();
        let addresses = init
            .parameters
            .iter()
            .filter(|one| matches!(one, Ok(Parameter::Ipv4(_))));
        assert_eq!(addresses.count(), listed);
    }
}

// The port and the scope of a named address are not those of a host that forwards the request.
#[test]
fn a_forwarded_request_does_not_change_the_port_of_an_address() {
    let (mut net, a, b) = established(1);
    hold(&mut net, Host::A);
    let (now, lte) = (net.now, addr("10.0.1.1:0"));
    assert_eq!(net.a.add_local_address(now, a, lte), Ok(()));
    net.drain(Host::A);
    let asconf = net.last(Host::A, ChunkType::DTLS);
    let mut elsewhere = attacker();
    elsewhere.set_port(7777);
    let result = net.deliver_from(Host::B, meta(asconf.remote, elsewhere), &asconf.bytes);
    assert_eq!(result, Ok(()));
    assert_eq!(remotes(&net, b), [addrs(Host::A, 1)[0], lte]);
}

// RFC 9260 §8.4: what belongs to an association that has ended has the limit of packets out of the blue.
#[test]
fn packets_of_ended_associations_are_limited() {
    let mut net = Net::with_config(1, &config(), 1);
    let settings = EndpointConfig {
        max_unassociated_per_address: Some(20),
        ..net.b.config().clone()
    };
    net.b = Endpoint::new(settings, Box::new(Rng::stream(1, "b"))).expect("a valid configuration");
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_millis(500));
    let b = net.only(Host::B);
    hold(&mut net, Host::A);
    let mut held = Vec::new();
    for _ in 0..20 {
        net.send(Host::A, a, Message::new(0, TEXT));
        held.push(net.last(Host::A, ChunkType::DTLS));
        net.run_for(Span::from_millis(300));
    }
    held.dedup_by(|one, other| one.bytes == other.bytes);
    let now = net.now;
    net.b.abort(now, b, "enough");
    net.drain(Host::B);
    net.wire.clear();
    let results: Vec<_> = held
        .iter()
        .map(|sent| net.deliver_from(Host::B, sent.meta(), &sent.bytes))
        .collect();
    assert_eq!(results[..2], [Err(Discard::OutOfTheBlue); 2]);
    assert_eq!(results[2..5], [Err(Discard::Flood); 3]);
    assert_eq!(net.wire.len(), 2, "answers");
}
