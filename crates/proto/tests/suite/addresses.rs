//! Dynamic addresses (RFC 5061), and the authentication that they require (RFC 4895).

use crate::support::attacker::*;
use crate::support::paths::all_active;
use crate::support::{Fate, Host, Net, addr, addrs};
use whimbrel_control::Span;
use whimbrel_proto::{AddressError, AssociationConfig, AuthConfig, CloseReason, Event, Message, PathState, State};
use whimbrel_wire::{
    Asconf, Auth, ByteSink, ChecksumField, Chunk, ChunkType, CommonHeader, PacketSink, Parameter, Parameters,
};

// RFC 4895 §3, RFC 5061 §4.2.7
#[test]
fn dynamic_addresses_require_both_ends() {
    for (a_wants, b_wants) in [(false, false), (true, false), (false, true), (true, true)] {
        let config = |enabled| AssociationConfig {
            dynamic_addresses: enabled,
            ..dynamic()
        };
        let mut net = Net::with_config(1, &config(b_wants), 1);
        let a = net.connect(&config(a_wants), 1);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        let both = a_wants && b_wants;
        assert_eq!(net.a.association(a).expect("established").has_dynamic_addresses(), both);
        assert_eq!(net.b.association(b).expect("established").has_dynamic_addresses(), both);
        assert_eq!(add(&mut net, a, lte()).is_ok(), both);
        net.send(Host::A, a, Message::new(0, &b"hello"[..]));
        net.run_for(Span::from_secs(1));
        assert_eq!(net.contents(Host::B), [b"hello"]);
        assert_eq!(net.count(Host::A, ChunkType::AUTH) > 0, both);
        // The parameters are absent unless the extension is enabled.
        let init = net.wire.iter().find(|sent| sent.has(ChunkType::INIT)).expect("an INIT");
        let types: Vec<u16> = init
            .init()
            .parameters
            .raw()
            .flatten()
            .map(|raw| raw.parameter_type())
            .collect();
        let announced = [0x8008, 0x8002, 0x8003, 0x8004].map(|wanted| types.contains(&wanted));
        assert_eq!(announced, [a_wants; 4]);
    }
}

// RFC 5061 §4.2.1, §4.2.2, §4.2.4: the host moves to another network during a transfer.
#[test]
fn a_mobile_node_hands_over_make_before_break() {
    let (mut net, a, b) = established(1);
    for i in 0..400_u32 {
        net.send(Host::A, a, Message::new(0, i.to_be_bytes().repeat(100)));
    }
    net.run_for(Span::from_millis(100));
    add(&mut net, a, lte()).expect("the request is valid");
    net.run_for(Span::from_millis(100));
    assert!(
        net.events_of(Host::A)
            .contains(&Event::LocalAddressAdded { addr: lte() })
    );
    let added = |event: &Event| matches!(event, Event::PeerAddressAdded { addr, .. } if *addr == lte());
    assert!(net.events_of(Host::B).iter().any(added));
    assert_eq!(locals(&net, a), [wifi(), lte()]);
    assert_eq!(remotes(&mut net, Host::B, b), [wifi(), lte()]);
    // Both ends have verified the new path.
    let new_path = net
        .a
        .association(a)
        .expect("established")
        .paths()
        .find(|path| path.local == lte());
    let new_path = new_path.expect("a path from the new address");
    assert_eq!(new_path.state, PathState::Active);
    assert!(all_active(&net.b, b));

    let now = net.now;
    assert!(net.a.set_primary(now, a, new_path.id));
    net.a.set_peer_primary(now, a, lte()).expect("the request is valid");
    net.run_for(Span::from_millis(50));
    let wanted = |event: &Event| matches!(event, Event::PrimaryRequested { .. });
    assert!(net.events_of(Host::B).iter().any(wanted));
    let primary = |net: &Net| {
        let association = net.b.association(b).expect("established");
        association.paths().find(|path| path.primary).map(|path| path.remote)
    };
    assert_eq!(primary(&net), Some(lte()));

    remove(&mut net, a, wifi()).expect("the request is valid");
    let removed_at = net.now;
    // The network no longer delivers packets of the old address.
    net.filter = Box::new(|packet| {
        let old = packet.local == wifi() || packet.remote == wifi();
        if old { Fate::Drop } else { Fate::Deliver }
    });
    net.run_for(Span::from_secs(5));
    assert!(
        net.events_of(Host::A)
            .contains(&Event::LocalAddressRemoved { addr: wifi() })
    );
    assert_eq!(
        (locals(&net, a), remotes(&mut net, Host::B, b)),
        (vec![lte()], vec![lte()])
    );
    let from_old = |sent: &&crate::support::Sent| sent.at > removed_at && sent.local == wifi();
    assert_eq!(net.wire.iter().filter(from_old).count(), 0);
    let expected: Vec<Vec<u8>> = (0..400_u32).map(|i| i.to_be_bytes().repeat(100)).collect();
    assert_eq!(net.contents(Host::B), expected);
    // Data in flight on the old path was retransmitted at once, without a congestion reaction.
    assert_eq!(net.a.association(a).expect("established").stats().timeouts, 0);
    net.send(Host::B, b, Message::new(0, &b"back"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::A), [b"back"]);
    assert!(
        net.wire
            .iter()
            .filter(|sent| sent.has(ChunkType::ASCONF))
            .all(|sent| sent.types()[0] == ChunkType::AUTH)
    );
}

// RFC 5061 §5.3: the only address is lost before the next one is available.
#[test]
fn a_mobile_node_hands_over_break_before_make() {
    let (mut net, a, b) = established(1);
    for i in 0..400_u32 {
        net.send(Host::A, a, Message::new(0, i.to_be_bytes().repeat(100)));
    }
    net.run_for(Span::from_millis(100));
    net.filter = Box::new(|packet| {
        let old = packet.local == wifi() || packet.remote == wifi();
        if old { Fate::Drop } else { Fate::Deliver }
    });
    net.run_for(Span::from_millis(300));
    let start = net.now;
    // Both requests are in one ASCONF, sent from the new address and identified by the old one.
    let sent_before = net.log.len();
    add(&mut net, a, lte()).expect("the request is valid");
    remove(&mut net, a, wifi()).expect("the request is valid");
    net.drain(Host::A);
    net.run_for(Span::from_secs(4));
    assert_eq!(
        (locals(&net, a), remotes(&mut net, Host::B, b)),
        (vec![lte()], vec![lte()])
    );
    // Until the peer knew the address, only ASCONF was sent from it. Therefore no packet was out of the blue.
    let first_ack = net
        .wire
        .iter()
        .find(|sent| sent.has(ChunkType::ASCONF_ACK))
        .expect("a reply")
        .at;
    for sent in net
        .wire
        .iter()
        .filter(|sent| sent.local == lte() && sent.at < first_ack)
    {
        assert_eq!(sent.types(), [ChunkType::AUTH, ChunkType::ASCONF]);
    }
    assert!(sent_before < net.log.len() && first_ack.since(start) < Span::from_secs(3));
    net.run_for(Span::from_secs(10));
    let expected: Vec<Vec<u8>> = (0..400_u32).map(|i| i.to_be_bytes().repeat(100)).collect();
    assert_eq!(net.contents(Host::B), expected);
}

// RFC 5061 §5.1, §5.1.1: one ASCONF at a time, retransmitted until it is acknowledged. A retransmission gets the same ASCONF-ACK.
#[test]
fn lost_requests_and_answers_are_repeated() {
    for lost in [ChunkType::ASCONF, ChunkType::ASCONF_ACK] {
        let (mut net, a, b) = established(1);
        let mut left = 2;
        net.filter = Box::new(move |packet| {
            if packet.has(lost) && left > 0 {
                left -= 1;
                return Fate::Drop;
            }
            Fate::Deliver
        });
        add(&mut net, a, lte()).expect("the request is valid");
        net.drain(Host::A);
        // Waits for the response to the first request.
        add(&mut net, a, addr("10.0.2.1:0")).expect("the request is valid");
        net.run_for(Span::from_secs(20));
        assert_eq!(
            remotes(&mut net, Host::B, b),
            [wifi(), lte(), addr("10.0.2.1:0")],
            "{lost}"
        );
        let serials: Vec<u32> = net
            .wire
            .iter()
            .flat_map(|sent| sent.chunks())
            .filter_map(|chunk| match chunk {
                Chunk::Asconf(asconf) => Some(asconf.serial),
                _ => None,
            })
            .collect();
        assert_eq!(serials.len(), 4);
        assert_eq!(serials[3], serials[0].wrapping_add(1), "{serials:?}");
        let events = net.events_of(Host::B);
        let added = events
            .iter()
            .filter(|event| matches!(event, Event::PeerAddressAdded { .. }));
        assert_eq!(added.count(), 2, "each executed once");
        assert_eq!(net.state(Host::A, a), State::Established);
    }
}

#[test]
fn an_impossible_request_returns_an_error_at_once() {
    let (mut net, a, _) = established(2);
    assert_eq!(add(&mut net, a, wifi()), Err(AddressError::Exists(wifi())));
    let multicast = addr("224.0.0.1:0");
    assert_eq!(add(&mut net, a, multicast), Err(AddressError::NotUnicast(multicast)));
    let unknown = addr("10.9.9.9:0");
    assert_eq!(remove(&mut net, a, unknown), Err(AddressError::Unknown(unknown)));
    let now = net.now;
    assert_eq!(
        net.a.set_peer_primary(now, a, unknown),
        Err(AddressError::Unknown(unknown))
    );
    remove(&mut net, a, wifi()).expect("one of two");
    assert_eq!(remove(&mut net, a, wifi()), Err(AddressError::Unknown(wifi())));
    assert_eq!(remove(&mut net, a, lte()), Err(AddressError::Last));
    for i in 0..14 {
        add(&mut net, a, addr(&format!("10.1.{i}.1:0"))).expect("room for sixteen");
    }
    net.run_for(Span::from_secs(5));
    add(&mut net, a, addr("10.1.14.1:0")).expect("room for sixteen");
    assert_eq!(add(&mut net, a, addr("10.1.15.1:0")), Err(AddressError::TooMany));
}

// RFC 5061 §4.3, §5.2: a request that is not permitted is refused with its error cause.
#[test]
fn impossible_requests_are_refused_with_their_error_causes() {
    let (mut net, _, b) = established(1);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let request = |correlation, text: &str| (correlation, addr(&format!("{text}:0")).ip());
    let add = |(correlation, address)| Parameter::AddIp { correlation, address };
    let delete = |(correlation, address)| Parameter::DeleteIp { correlation, address };
    let primary = |(correlation, address)| Parameter::SetPrimary { correlation, address };
    let b_addr = addrs(Host::B, 1)[0];
    let mut ask = |net: &mut Net, from: &str, requests: &[Parameter<'_>]| {
        let bytes = attacker.asconf(requests);
        net.inject(Host::B, b_addr, addr(&format!("{from}:0")), bytes);
        net.run_for(Span::from_millis(5));
        answers(net)
    };
    let source = "10.0.0.1";
    // The only address, which is also the source.
    assert_eq!(ask(&mut net, source, &[delete(request(7, source))]), [(7, 0xa2)]);
    let refused = ask(
        &mut net,
        source,
        &[
            add(request(1, "10.0.5.1")),
            add(request(2, "224.0.0.1")),
            add(request(3, "255.255.255.255")),
            primary(request(4, "10.9.9.9")),
            delete(request(5, "10.9.9.9")),
        ],
    );
    assert_eq!(refused, [(1, 0), (2, 5), (3, 5), (4, 5), (5, 0)]);
    assert_eq!(remotes(&mut net, Host::B, b), [wifi(), addr("10.0.5.1:0")]);
    // From an address outside the association: the last but one address is removed; the last one stays.
    let last = ask(
        &mut net,
        "10.8.8.8",
        &[delete(request(1, "10.0.5.1")), delete(request(2, source))],
    );
    assert_eq!(last, [(1, 0), (2, 0xa0)]);
    // At most sixteen addresses. A request without a response has succeeded.
    for i in 1..16 {
        assert_eq!(ask(&mut net, source, &[add(request(1, &format!("10.2.{i}.1")))]), []);
    }
    assert_eq!(ask(&mut net, source, &[add(request(9, "10.3.0.1"))]), [(9, 0xa1)]);
    assert_eq!(remotes(&mut net, Host::B, b).len(), 16);
    // Many requests get a response of bounded length.
    let flood: Vec<_> = (0..80).map(|i| add(request(i, "224.0.0.1"))).collect();
    let answered = ask(&mut net, source, &flood).len();
    assert!((2..40).contains(&answered), "{answered}");
}

// RFC 5061 §4.2.1, §4.2.2, §4.2.4: an address of zero stands for the packet's source address.
#[test]
fn an_address_of_zero_stands_for_the_source_address() {
    let (mut net, _, b) = established(1);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let (zeros, b_addr) = (addr("0.0.0.0:0").ip(), addrs(Host::B, 1)[0]);
    let outside = addr("192.0.2.77:0");
    let mut list = Vec::new();
    Parameter::address(zeros).emit(&mut list);
    for request in [
        Parameter::AddIp {
            correlation: 1,
            address: zeros,
        },
        Parameter::SetPrimary {
            correlation: 2,
            address: zeros,
        },
        Parameter::DeleteIp {
            correlation: 3,
            address: zeros,
        },
    ] {
        request.emit(&mut list);
    }
    let bytes = attacker.packet(&[Chunk::Asconf(Asconf {
        serial: attacker.serial,
        parameters: Parameters::from_wire_bytes(&list),
    })]);
    attacker.serial += 1;
    net.inject(Host::B, b_addr, outside, bytes);
    net.run_for(Span::from_millis(5));
    assert_eq!(answers(&net), []);
    assert_eq!(remotes(&mut net, Host::B, b), [outside]);
    let ack = net.wire.iter().rev().find(|sent| sent.has(ChunkType::ASCONF_ACK));
    assert_eq!(ack.expect("a reply").remote, outside);
}

// RFC 4895 §6.3, RFC 5061 §8: a sender without the key changes nothing.
#[test]
fn a_sender_without_the_key_changes_nothing() {
    let (mut net, _, b) = established(1);
    let attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let b_addr = addrs(Host::B, 1)[0];
    let mut list = Vec::new();
    Parameter::address(wifi().ip()).emit(&mut list);
    let (correlation, address) = (1, addr("10.6.6.6:0").ip());
    Parameter::AddIp { correlation, address }.emit(&mut list);
    let asconf = Chunk::Asconf(Asconf {
        serial: attacker.serial,
        parameters: Parameters::from_wire_bytes(&list),
    });
    let good = attacker.packet(&[asconf]);
    let mut tries = Vec::new();
    // Without AUTH; with a key computed without the handshake; with an unsupported HMAC.
    let header = CommonHeader {
        source_port: 4001,
        destination_port: 4002,
        verification_tag: attacker.tag,
    };
    for chunks in [
        vec![asconf],
        vec![
            Chunk::Auth(Auth {
                key_id: 0,
                hmac_id: 2,
                hmac: &[0; 16],
            }),
            asconf,
        ],
        vec![
            Chunk::Auth(Auth {
                key_id: 9,
                hmac_id: 3,
                hmac: &[0; 32],
            }),
            asconf,
        ],
        vec![
            Chunk::Auth(Auth {
                key_id: 0,
                hmac_id: 3,
                hmac: &[],
            }),
            asconf,
        ],
    ] {
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Compute);
        sink.begin(header);
        chunks.iter().for_each(|chunk| sink.push(chunk));
        sink.finish();
        tries.push(bytes);
    }
    let outsider = Attacker {
        key: vec![0; 100],
        ..Attacker::new(&net)
    };
    tries.push(outsider.packet(&[asconf]));
    // Each bit of a genuine packet after the header of its first chunk is flipped; the checksum is corrected.
    for bit in 16 * 8..good.len() * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes[8..12].fill(0);
        let crc = whimbrel_wire::crc32c(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        tries.push(bytes);
    }
    for bytes in tries {
        for from in [wifi(), addr("10.6.6.6:0")] {
            net.inject(Host::B, b_addr, from, bytes.clone());
        }
    }
    net.run_for(Span::from_secs(1));
    assert_eq!(remotes(&mut net, Host::B, b), [wifi()]);
    assert_eq!(net.state(Host::B, b), State::Established);
    assert!(unauthenticated(&mut net, Host::B) > 500);
    // The genuine packet is accepted after all of them.
    net.inject(Host::B, b_addr, wifi(), good);
    net.run_for(Span::from_millis(5));
    assert_eq!(remotes(&mut net, Host::B, b), [wifi(), addr("10.6.6.6:0")]);
}

// RFC 5061 §5.1 E
#[test]
fn an_asconf_ack_without_an_asconf_ends_the_association() {
    let (mut net, _, _) = established(1);
    let attacker = Attacker::new(&net);
    // B has sent no ASCONF; its serial numbers start with its initial TSN.
    let init_ack = net
        .wire
        .iter()
        .find(|sent| sent.has(ChunkType::INIT_ACK))
        .expect("an INIT ACK");
    let serial = init_ack.init().initial_tsn.0.wrapping_add(3);
    let bytes = attacker.packet(&[Chunk::AsconfAck(Asconf {
        serial,
        parameters: Parameters::default(),
    })]);
    net.inject(Host::B, addrs(Host::B, 1)[0], wifi(), bytes);
    net.run_for(Span::from_secs(1));
    assert!(matches!(
        net.close_reason(Host::B),
        Some(CloseReason::ProtocolViolation(_))
    ));
    let abort = net
        .wire
        .iter()
        .find(|sent| sent.has(ChunkType::ABORT))
        .expect("an ABORT");
    assert_eq!(abort.causes(), [0xa3]);
}

// RFC 4895 §6.2, §6.3: chunks of any type, if the peer requires authentication of them.
#[test]
fn every_chunk_type_can_require_authentication() {
    let config = AssociationConfig {
        auth: AuthConfig {
            chunks: vec![0, 3, 4, 5, 6, 7, 8, 9, 10, 11],
            key: "a secret".into(),
            enabled: true,
            key_id: 5,
        },
        ..dynamic()
    };
    let (mut net, a, _) = Net::established(2, &config);
    let mut count = 0;
    // An attacker changes a byte of every seventh packet and corrects the checksum.
    let target = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let changed = target.clone();
    net.filter = Box::new(move |packet| {
        count += 1;
        if packet.has(ChunkType::DATA) && count % 7 == 0 {
            let mut bytes = packet.bytes.to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 0x55;
            bytes[8..12].fill(0);
            let crc = whimbrel_wire::crc32c(&bytes);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
            changed.borrow_mut().push((packet.local, packet.remote, bytes));
            return Fate::Drop;
        }
        Fate::Deliver
    });
    for i in 0..150_u32 {
        net.send(Host::A, a, Message::new(0, i.to_be_bytes().repeat(360)));
    }
    for _ in 0..600 {
        net.run_for(Span::from_millis(100));
        let all: Vec<_> = target.borrow_mut().drain(..).collect();
        for (local, remote, bytes) in all {
            net.inject(Host::B, remote, local, bytes);
        }
    }
    let expected: Vec<Vec<u8>> = (0..150_u32).map(|i| i.to_be_bytes().repeat(360)).collect();
    assert_eq!(net.contents(Host::B), expected);
    assert!(unauthenticated(&mut net, Host::B) > 0);
    let now = net.now;
    net.a.shutdown(now, a);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
    let handshake = [ChunkType::INIT, ChunkType::INIT_ACK, ChunkType::SHUTDOWN_COMPLETE];
    for sent in &net.wire {
        let first = sent.types()[0];
        assert!(
            first == ChunkType::AUTH || handshake.contains(&first),
            "{:?}",
            sent.types()
        );
    }
}

#[test]
fn a_different_shared_key_prevents_address_changes() {
    let config = |key: &str| AssociationConfig {
        auth: AuthConfig {
            key: key.into(),
            ..AuthConfig::default()
        },
        ..dynamic()
    };
    let mut net = Net::with_config(1, &config("one"), 1);
    let a = net.connect(&config("other"), 1);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    add(&mut net, a, lte()).expect("the request is valid");
    net.run_for(Span::from_secs(10));
    assert_eq!(remotes(&mut net, Host::B, b), [wifi()]);
    assert!(unauthenticated(&mut net, Host::B) >= 3);
    assert_eq!(locals(&net, a), [wifi()]);
}

// RFC 4895 §6.1 with RFC 9260 §5.2: the key is that of the handshake that created the association.
#[test]
fn collisions_and_restarts_compute_new_keys() {
    // Both ends open the association at the same time.
    let mut net = Net::with_config(1, &dynamic(), 3);
    let a = net.connect(&dynamic(), 1);
    let (now, peers) = (net.now, addrs(Host::A, 1));
    let b = net
        .b
        .connect(now, dynamic(), 4001, &peers)
        .expect("the association can be opened");
    net.run_for(Span::from_secs(2));
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, b)),
        (State::Established, State::Established)
    );
    add(&mut net, a, lte()).expect("the request is valid");
    net.run_for(Span::from_secs(1));
    assert_eq!(remotes(&mut net, Host::B, b), [wifi(), lte()]);
    // A loses its state and opens the association again from its previous address.
    let config = dynamic();
    net.a = crate::support::endpoint(Host::A, 1, &config, 99);
    let a = net.connect(&config, 1);
    net.run_for(Span::from_secs(2));
    assert!(net.events_of(Host::B).contains(&Event::Restarted));
    add(&mut net, a, addr("10.0.2.1:0")).expect("the request is valid");
    net.run_for(Span::from_secs(1));
    let known = remotes(&mut net, Host::B, b);
    assert!(known.contains(&addr("10.0.2.1:0")), "{known:?}");
    assert_eq!(unauthenticated(&mut net, Host::B), 0);
}

// Paths keep their numbers, and entries of removed paths are reused only when there are many.
#[test]
fn endless_address_changes_use_bounded_memory() {
    let (mut net, a, b) = established(1);
    let mut current = wifi();
    for round in 0..100_u32 {
        let next = addr(&format!("10.7.{round}.1:0"));
        add(&mut net, a, next).expect("the request is valid");
        net.run_for(Span::from_millis(100));
        remove(&mut net, a, current).expect("the request is valid");
        current = next;
        net.send(Host::A, a, Message::new(0, round.to_be_bytes().to_vec()));
        net.send(Host::B, b, Message::new(0, round.to_be_bytes().to_vec()));
        net.run_for(Span::from_millis(200));
        assert_eq!(remotes(&mut net, Host::B, b), [next], "{round}");
        assert_eq!(locals(&net, a), [next]);
    }
    assert_eq!((net.contents(Host::A).len(), net.contents(Host::B).len()), (100, 100));
    let ids: Vec<_> = net.events_of(Host::B);
    let paths = ids.iter().filter_map(|event| match event {
        Event::PeerAddressAdded { path, .. } => Some(path.0),
        _ => None,
    });
    assert!(paths.max().is_some_and(|largest| (16..32).contains(&largest)));
}

/// A request is executed once and in order; only the last ASCONF is acknowledged again (RFC 5061 §5.2).
#[test]
fn repeated_or_early_requests_change_nothing() {
    let (mut net, _, b) = established(1);
    let mut attacker = Attacker::new(&net);
    drop_packets_of(&mut net, Host::B);
    let address = addr("10.0.5.1:0").ip();
    let correlation = 1;
    let first = attacker.asconf(&[Parameter::AddIp { correlation, address }]);
    let second = attacker.asconf(&[Parameter::DeleteIp { correlation, address }]);
    attacker.serial = attacker.serial.wrapping_add(1);
    let fourth = attacker.asconf(&[Parameter::AddIp { correlation, address }]);
    for (bytes, answers) in [(&first, 1), (&second, 2), (&first, 2), (&fourth, 2), (&second, 3)] {
        net.inject(Host::B, addrs(Host::B, 1)[0], wifi(), bytes.clone());
        net.run_for(Span::from_millis(5));
        assert_eq!(net.count(Host::B, ChunkType::ASCONF_ACK), answers);
        if answers > 1 {
            assert_eq!(remotes(&mut net, Host::B, b), [wifi()]);
        }
    }
}
