//! Associations that carry WebRTC data channels (RFC 8831, RFC 8261).

use crate::support::{Fate, Host, Net, Sent, addrs, chunk_types, port, view};
use bytes::Bytes;
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, ConnectError, End, Event, InitError, Message, Reliability, State,
    init_chunk,
};
use whimbrel_wire::{Chunk, ChunkType, Parameter};

fn init_of(config: &AssociationConfig, seed: u64) -> Vec<u8> {
    init_chunk(config, &mut Rng::stream(seed, "init")).expect("the settings allow it")
}

fn begin(net: &mut Net, host: Host, own: &[u8], peer: &[u8]) -> Result<AssocId, ConnectError> {
    begin_with(net, host, AssociationConfig::webrtc(), own, peer)
}

fn begin_with(
    net: &mut Net,
    host: Host,
    config: AssociationConfig,
    own: &[u8],
    peer: &[u8],
) -> Result<AssocId, ConnectError> {
    let (now, to) = (net.now, addrs(host.other(), 1)[0]);
    let of_peer = port(host.other());
    net.host(host).connect_with_inits(now, config, of_peer, to, own, peer)
}

/// Returns an association that has started from two INIT chunks.
fn from_two_inits() -> (Net, AssocId, AssocId) {
    let config = AssociationConfig::webrtc();
    let mut net = Net::with_config(1, &config, 1);
    let (of_a, of_b) = (init_of(&config, 1), init_of(&config, 2));
    let a = begin(&mut net, Host::A, &of_a, &of_b).expect("both start");
    let b = begin(&mut net, Host::B, &of_b, &of_a).expect("both start");
    (net, a, b)
}

fn established() -> (Net, AssocId, AssocId) {
    Net::established(1, &AssociationConfig::webrtc())
}

fn content(len: usize) -> Bytes {
    (0..len).map(|index| (index % 251) as u8).collect()
}

// draft-hancke-tsvwg-snap: the association is established without a packet.
#[test]
fn two_inits_start_an_association_without_a_handshake() {
    let (mut net, a, b) = from_two_inits();
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, b)),
        (State::Established, State::Established)
    );
    net.send(Host::A, a, Message::new(3, content(3000)));
    net.send(Host::B, b, Message::new(65534, content(7)));
    net.run_for(Span::from_millis(100));
    assert_eq!(net.contents(Host::B), [content(3000)]);
    assert_eq!(net.contents(Host::A), [content(7)]);
    let connected = Event::Connected {
        accepted: false,
        outbound_streams: 65535,
        inbound_streams: 65535,
    };
    for (host, id) in [(Host::A, a), (Host::B, b)] {
        assert!(net.events_of(host).contains(&connected));
        for handshake in [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::COOKIE_ECHO,
            ChunkType::HEARTBEAT,
        ] {
            assert_eq!(net.count(host, handshake), 0);
        }
        let association = net.host(host).association(id).unwrap();
        assert!(association.uses_interleaving() && association.uses_partial_reliability());
        assert!(association.can_change_streams());
        assert!(association.sends_zero_checksum() && association.accepts_zero_checksum());
    }
}

// What one of the INIT chunks does not offer is not used.
#[test]
fn two_inits_agree_on_what_both_offer() {
    let plain = AssociationConfig {
        interleaving: false,
        partial_reliability: false,
        stream_changes: false,
        zero_checksum: None,
        outbound_streams: 5,
        max_inbound_streams: 9,
        ..AssociationConfig::webrtc()
    };
    let mut net = Net::with_config(1, &plain, 1);
    let (of_a, of_b) = (init_of(&AssociationConfig::webrtc(), 1), init_of(&plain, 2));
    let a = begin(&mut net, Host::A, &of_a, &of_b).unwrap();
    let b = begin_with(&mut net, Host::B, plain, &of_b, &of_a).unwrap();
    net.send(Host::A, a, Message::new(8, content(10)));
    net.send(Host::B, b, Message::new(4, content(11)));
    net.run_for(Span::from_millis(100));
    assert_eq!(
        (net.contents(Host::B), net.contents(Host::A)),
        (vec![content(10).to_vec()], vec![content(11).to_vec()])
    );
    let at_a = net.a.association(a).unwrap();
    assert_eq!((at_a.outbound_streams(), at_a.inbound_streams()), (9, 5));
    assert!(!at_a.uses_interleaving() && !at_a.uses_partial_reliability() && !at_a.can_change_streams());
    // RFC 9653 §5: each direction by itself.
    assert!(at_a.accepts_zero_checksum() && !at_a.sends_zero_checksum());
    let at_b = net.b.association(b).unwrap();
    assert!(!at_b.accepts_zero_checksum() && !at_b.sends_zero_checksum());
}

// An INIT that was made with other settings counts, not the settings.
#[test]
fn what_the_own_init_does_not_offer_is_not_used() {
    let webrtc = AssociationConfig::webrtc();
    let plain = AssociationConfig {
        interleaving: false,
        zero_checksum: None,
        ..AssociationConfig::webrtc()
    };
    let mut net = Net::with_config(1, &webrtc, 1);
    let a = begin(&mut net, Host::A, &init_of(&plain, 1), &init_of(&webrtc, 2)).unwrap();
    let at_a = net.a.association(a).unwrap();
    assert!(!at_a.uses_interleaving() && !at_a.accepts_zero_checksum());
}

#[test]
fn unusable_inits_start_nothing() {
    let config = AssociationConfig::webrtc();
    let mut net = Net::with_config(1, &config, 1);
    let (own, peer) = (init_of(&config, 1), init_of(&config, 2));
    let mut changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut peer = peer.clone();
        change(&mut peer);
        match begin(&mut net, Host::A, &own, &peer) {
            Err(ConnectError::Init(error)) => error,
            other => panic!("{other:?}"),
        }
    };
    let refused = |error| matches!(error, InitError::Refused { end: End::Peer, .. });
    assert_eq!(changed(&|init| init.clear()), InitError::NotAnInit(End::Peer));
    assert_eq!(
        changed(&|init| init[0] = 2),
        InitError::NotAnInit(End::Peer),
        "an INIT ACK"
    );
    assert_eq!(changed(&|init| init.truncate(19)), InitError::NotAnInit(End::Peer));
    assert_eq!(
        changed(&|init| init.extend([14, 0, 0, 4])),
        InitError::NotAnInit(End::Peer),
        "two chunks"
    );
    assert!(refused(changed(&|init| init[4..8].fill(0))), "a tag of 0");
    assert!(refused(changed(&|init| init[8..12].fill(0))), "a_rwnd");
    assert!(refused(changed(&|init| init[12..14].fill(0))), "no streams");
    assert!(
        refused(changed(&|init| init[22..24].fill(0))),
        "the length of a parameter"
    );
    assert_eq!(changed(&|init| init.copy_from_slice(&own)), InitError::Same);
    let ended = begin(&mut net, Host::A, &own, &peer).unwrap();
    let error = begin(&mut net, Host::A, &own, &peer).unwrap_err();
    assert!(matches!(error, ConnectError::Exists(_)), "{error}");
    let now = net.now;
    // The tag is in use until the association has ended: here, by one with another peer port.
    let to = addrs(Host::B, 1)[0];
    let second = net.a.connect_with_inits(now, config, 4711, to, &own, &peer);
    assert_eq!(second.unwrap_err(), ConnectError::Init(InitError::TagInUse));
    net.a.abort(now, ended, "the test");
    net.run_for(Span::from_secs(1));
    let multi_homed = AssociationConfig::default();
    let error = begin_with(&mut net, Host::A, multi_homed, &own, &peer).unwrap_err();
    assert_eq!(error, ConnectError::Init(InitError::Settings));
}

// A peer that has not understood what the INIT was for sends an INIT of its own.
#[test]
fn a_peer_that_does_a_handshake_instead_restarts_the_association() {
    let config = AssociationConfig::webrtc();
    let mut net = Net::with_config(1, &config, 1);
    let (of_a, of_b) = (init_of(&config, 1), init_of(&config, 2));
    let b = begin(&mut net, Host::B, &of_b, &of_a).unwrap();
    let a = net.connect(&config, 1);
    net.run_for(Span::from_secs(10));
    assert_eq!(net.state(Host::A, a), State::Established);
    assert!(net.events_of(Host::B).contains(&Event::Restarted));
    net.send(Host::B, b, Message::new(0, content(9)));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::A), [content(9)]);
}

#[test]
fn unequal_bytes_for_the_inits_never_panic() {
    let config = AssociationConfig::webrtc();
    let own = init_of(&config, 1);
    let mut random = Rng::stream(7, "hostile");
    for _ in 0..20_000 {
        let mut peer = init_of(&config, 2);
        for _ in 0..=random.below(4) {
            let place = random.below(peer.len() as u64) as usize;
            peer[place] = random.below(256) as u8;
        }
        peer.truncate(random.below(peer.len() as u64 + 1) as usize);
        let mut net = Net::with_config(1, &config, 1);
        if let Ok(id) = begin(&mut net, Host::A, &own, &peer) {
            net.send(Host::A, id, Message::new(0, content(1)));
        }
    }
}

// RFC 8261 §6.1: INIT and INIT ACK name no addresses, and INIT no types of addresses.
#[test]
fn rfc_8261_6_1_the_handshake_names_no_addresses() {
    let config = AssociationConfig::webrtc();
    // Even if the host has several.
    let mut net = Net::with_config(2, &config, 1);
    net.connect(&config, 1);
    net.run_for(Span::from_millis(100));
    let mut seen = 0;
    for Sent { bytes, .. } in &net.wire {
        for chunk in view(bytes).chunks() {
            if let Ok(Chunk::Init(init) | Chunk::InitAck(init)) = chunk {
                seen += 1;
                let names = |parameter| {
                    matches!(
                        parameter,
                        Ok(Parameter::Ipv4(_) | Parameter::Ipv6(_) | Parameter::SupportedAddressTypes(_))
                    )
                };
                assert!(!init.parameters.iter().any(names));
            }
        }
    }
    assert_eq!(seen, 2);
}

// RFC 8261 §6.1: the layer below hides the addresses that a peer lists all the same.
#[test]
fn rfc_8261_6_1_addresses_in_an_init_are_ignored() {
    let mut net = Net::with_config(2, &AssociationConfig::webrtc(), 1);
    net.connect(&AssociationConfig::default(), 1);
    net.run_for(Span::from_millis(100));
    let lists = |sent: &Sent| match view(&sent.bytes).chunks().next() {
        Some(Ok(Chunk::Init(init))) => init.parameters.iter().any(|it| matches!(it, Ok(Parameter::Ipv4(_)))),
        _ => false,
    };
    assert!(net.wire.iter().any(lists));
    let accepted = net.only(Host::B);
    assert_eq!(
        net.host(Host::B).association(accepted).map(|it| it.paths().count()),
        Some(1)
    );
}

// RFC 8831 §6: both ends may open the association.
#[test]
fn both_ends_may_open_the_association() {
    let config = AssociationConfig::webrtc();
    let mut net = Net::with_config(1, &config, 1);
    let a = net.connect(&config, 1);
    let (now, to) = (net.now, addrs(Host::A, 1));
    let b = net.b.connect(now, config, port(Host::A), &to).unwrap();
    net.run_for(Span::from_secs(1));
    assert_eq!((net.only(Host::A), net.only(Host::B)), (a, b));
    net.send(Host::A, a, Message::new(0, content(5)));
    net.send(Host::B, b, Message::new(0, content(6)));
    net.run_for(Span::from_secs(1));
    assert_eq!(
        (net.contents(Host::B), net.contents(Host::A)),
        (vec![content(5).to_vec()], vec![content(6).to_vec()])
    );
}

#[test]
fn an_outage_of_hours_ends_nothing() {
    let (mut net, a, _) = established();
    net.filter = Box::new(|_| Fate::Drop);
    net.send(Host::A, a, Message::new(0, content(5000)));
    net.run_for(Span::from_secs(4 * 3600));
    assert_eq!(net.state(Host::A, a), State::Established);
    assert_eq!(net.close_reason(Host::A), None);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(61));
    assert_eq!(net.contents(Host::B), [content(5000)]);
    assert!(
        !net.events_of(Host::A)
            .iter()
            .any(|event| matches!(event, Event::PathState { .. }))
    );
    // With the limits of RFC 9260 it ends.
    let limited = AssociationConfig {
        unlimited_retransmissions: false,
        ..AssociationConfig::webrtc()
    };
    let (mut net, a, _) = Net::established(1, &limited);
    net.filter = Box::new(|_| Fate::Drop);
    net.send(Host::A, a, Message::new(0, content(5000)));
    net.run_for(Span::from_secs(4 * 3600));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::PeerUnreachable));
}

#[test]
fn a_handshake_goes_on_for_as_long_as_the_peer_does_not_answer() {
    let config = AssociationConfig::webrtc();
    for lost in [ChunkType::INIT, ChunkType::COOKIE_ECHO] {
        let mut net = Net::with_config(1, &config, 1);
        net.filter = Box::new(move |packet| match chunk_types(packet.bytes).contains(&lost) {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        let a = net.connect(&config, 1);
        net.run_for(Span::from_secs(3600));
        assert_eq!(net.close_reason(Host::A), None, "{lost:?}");
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(120));
        assert_eq!(net.state(Host::A, a), State::Established, "{lost:?}");
    }
}

#[test]
fn an_idle_association_sends_nothing_and_packets_have_the_fixed_length() {
    let (mut net, a, b) = established();
    let before = net.log.len();
    net.run_for(Span::from_secs(3600));
    assert_eq!(net.log.len(), before);
    net.wire.clear();
    net.send(Host::A, a, Message::new(1, content(256 << 10)));
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B), [content(256 << 10)]);
    assert_eq!(net.wire.iter().map(|sent| sent.bytes.len()).max(), Some(1180));
    assert!(
        net.wire
            .iter()
            .all(|sent| !chunk_types(&sent.bytes).contains(&ChunkType::HEARTBEAT))
    );
    net.a.release_memory_of(a);
    net.b.release_memory_of(b);
    let memory = |net: &Net| {
        (
            net.a.association(a).unwrap().memory(),
            net.b.association(b).unwrap().memory(),
        )
    };
    let (at_a, at_b) = memory(&net);
    assert!(at_a < 5000 && at_b < 5000, "{at_a} and {at_b} bytes after a message");
}

#[test]
fn an_association_of_data_channels_takes_less_than_5_kb() {
    for (net, a, b) in [established(), from_two_inits()] {
        let (at_a, at_b) = (
            net.a.association(a).unwrap().memory(),
            net.b.association(b).unwrap().memory(),
        );
        assert!(at_a < 5000 && at_b < 5000, "{at_a} and {at_b} bytes");
    }
}

#[test]
fn a_stream_is_low_when_the_peer_has_acknowledged_enough() {
    let (mut net, a, _) = established();
    assert!(net.a.set_buffered_low(a, 1, 4000));
    net.send(Host::A, a, Message::new(1, content(100_000)));
    net.send(Host::A, a, Message::new(2, content(500)));
    let buffered = |net: &Net, stream| net.a.association(a).unwrap().buffered_on(stream);
    assert_eq!(
        (buffered(&net, 1), buffered(&net, 2), buffered(&net, 3)),
        (100_000, 500, 0)
    );
    let low = |stream| Event::BufferedLow { stream };
    net.run_until(Span::from_secs(10), "stream 1 is low", |net| {
        let is_low = net.events_of(Host::A).contains(&low(1));
        assert_eq!(is_low, buffered(net, 1) <= 4000);
        is_low
    });
    net.run_for(Span::from_secs(10));
    assert_eq!((buffered(&net, 1), buffered(&net, 2)), (0, 0));
    let events = net.events_of(Host::A);
    for stream in [1, 2] {
        assert_eq!(
            events.iter().filter(|event| **event == low(stream)).count(),
            1,
            "{stream}"
        );
    }
    let (mut plain, a, _) = Net::established(1, &AssociationConfig::default());
    assert!(!plain.a.set_buffered_low(a, 1, 4000), "nothing is counted");
}

/// What is given up is not buffered: before it is sent, partly sent, and lost.
#[test]
fn given_up_messages_are_not_buffered() {
    for interleaving in [true, false] {
        let config = AssociationConfig {
            interleaving,
            ..AssociationConfig::webrtc()
        };
        let (mut net, a, _) = Net::established(1, &config);
        net.filter = Box::new(|packet| match packet.from {
            Host::A => Fate::Drop,
            Host::B => Fate::Deliver,
        });
        for (stream, len) in [(1, 60_000), (2, 3000), (3, 100)] {
            for reliability in [
                Reliability::Lifetime(Span::from_millis(50)),
                Reliability::Retransmissions(0),
            ] {
                let message = Message {
                    reliability,
                    ..Message::new(stream, content(len))
                };
                net.send(Host::A, a, message);
            }
        }
        net.run_for(Span::from_secs(30));
        let association = net.a.association(a).unwrap();
        assert_eq!(
            association.stats().messages_given_up_sent + association.stats().messages_given_up_unsent,
            6
        );
        for stream in [1, 2, 3] {
            assert_eq!(association.buffered_on(stream), 0, "stream {stream}");
            let low = Event::BufferedLow { stream };
            assert!(net.events_of(Host::A).contains(&low), "stream {stream}");
        }
    }
}

/// The bytes of the streams are those of the send buffer, whatever is lost, given up or reset.
#[test]
fn the_bytes_of_all_streams_are_those_of_the_send_buffer() {
    for seed in 0..20 {
        let (mut net, a, _) = established();
        let mut random = Rng::stream(seed, "buffers");
        let mut loss = Rng::stream(seed, "loss");
        net.filter = Box::new(move |_| match loss.below(10) {
            0 => Fate::Drop,
            _ => Fate::Deliver,
        });
        for _ in 0..300 {
            let reliability = match random.below(4) {
                0 => Reliability::Full,
                1 => Reliability::Retransmissions(random.below(3) as u32),
                2 => Reliability::Lifetime(Span::from_millis(random.below(300))),
                _ => Reliability::Priority(random.below(3) as u16),
            };
            let message = Message {
                reliability,
                unordered: random.below(2) == 0,
                ..Message::new(random.below(4) as u16, content(1 + random.below(20_000) as usize))
            };
            let now = net.now;
            let _ = net.a.send(now, a, message);
            net.run_for(Span::from_millis(random.below(30)));
            let association = net.a.association(a).unwrap();
            let streams: usize = (0..4).map(|stream| association.buffered_on(stream)).sum();
            assert_eq!(streams, association.buffered_send(), "seed {seed}");
        }
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(200));
        assert_eq!(net.a.association(a).unwrap().buffered_send(), 0, "seed {seed}");
    }
}

#[test]
fn a_transfer_completes_although_packets_are_lost() {
    let (mut net, a, _) = established();
    let mut loss = Rng::stream(1, "loss");
    net.filter = Box::new(move |_| match loss.below(20) {
        0 => Fate::Drop,
        _ => Fate::Deliver,
    });
    for stream in 0..8 {
        net.send(Host::A, a, Message::new(stream, content(100_000)));
    }
    net.run_until(Span::from_secs(60), "all messages have arrived", |net| {
        net.contents(Host::B).len() == 8
    });
}
