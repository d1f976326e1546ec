//! Single rules of RFC 3758, and the windows with I-DATA (RFC 8260 §2.2.2).

use std::collections::BTreeSet;

use crate::support::messages::{arrived, given_up, nothing_is_held, numbered as message};
use crate::support::paths::is_on;
use crate::support::{Fate, Host, Net, addrs, causes, packet, port};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, Event, Message, Reliability, State};
use whimbrel_wire::{Cause, Causes, Chunk, ChunkType, ForwardTsn, Init, Parameter, Parameters, SkippedStreams};

fn config() -> AssociationConfig {
    AssociationConfig {
        partial_reliability: true,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

/// Drops the first packet with DATA.
fn lose_first(net: &mut Net) {
    let mut is_first = true;
    net.filter = Box::new(move |packet| {
        let is_data = packet.from == Host::A && packet.has(ChunkType::DATA);
        if is_data && std::mem::take(&mut is_first) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
}

// [3758:3.3.1-1, 3.3.2-3]
#[test]
fn rfc_3758_3_3_1_both_ends_report_a_forward_tsn_without_agreement() {
    let (mut net, a, b) = Net::established(1, &AssociationConfig::default());
    for (to, id, sent) in [(Host::B, b, ChunkType::INIT), (Host::A, a, ChunkType::INIT_ACK)] {
        let new_cumulative_tsn = net.last(to.other(), sent).init().initial_tsn;
        let forward = Chunk::ForwardTsn(ForwardTsn {
            new_cumulative_tsn,
            skipped: SkippedStreams::from_wire_bytes(&[]),
        });
        assert_eq!(net.as_peer(to, &[forward]), Ok(()));
        assert_eq!(net.last(to, ChunkType::ERROR).causes(), [6]);
        assert_eq!(net.state(to, id), State::Established);
    }
}

/// The peer reports the parameter, in the INIT ACK or in an ERROR.
// [3758:3.3.3-1, 3.3.3-2, 3.3.3-3, 3.3.3-4]
#[test]
fn rfc_3758_3_3_3_a_peer_that_does_not_know_the_parameter_gets_no_forward_tsn() {
    let raw = [0xc0, 0, 0, 4];
    for in_init_ack in [true, false] {
        let mut net = Net::with_config(1, &AssociationConfig::default(), 7);
        net.filter = Box::new(move |packet| match in_init_ack && packet.has(ChunkType::INIT_ACK) {
            true => Fate::Drop,
            false => Fate::Deliver,
        });
        let a = net.connect(&config(), 1);
        net.run_for(Span::from_millis(100));
        if in_init_ack {
            let answer = net.last(Host::B, ChunkType::INIT_ACK);
            let init = answer.init();
            let mut list = Vec::new();
            let own = init.parameters.iter().map(|parameter| parameter.expect("well-formed"));
            own.chain([Parameter::Unrecognized(&raw)])
                .for_each(|parameter| parameter.emit(&mut list));
            let parameters = Parameters::from_wire_bytes(&list);
            let chunk = Chunk::InitAck(Init { parameters, ..init });
            let bytes = packet(port(Host::B), port(Host::A), answer.tag(), &[chunk]);
            assert_eq!(net.deliver(Host::A, &bytes), Ok(()));
        } else {
            let list = causes(&[Cause::UnrecognizedParameters(Parameters::from_wire_bytes(&raw))]);
            let causes = Causes::from_wire_bytes(&list);
            assert_eq!(net.as_peer(Host::A, &[Chunk::Error { causes }]), Ok(()));
            assert!(net.events_of(Host::A).contains(&Event::RemoteError { cause: 8 }));
        }
        net.run_for(Span::from_secs(1));
        assert!(!net.a.association(a).expect("open").uses_partial_reliability());
        lose_first(&mut net);
        net.send(Host::A, a, message(1, 500, Reliability::Retransmissions(0)));
        net.run_for(Span::from_secs(5));
        assert_eq!(
            (arrived(&net), net.count(Host::A, ChunkType::FORWARD_TSN)),
            (vec![1], 0)
        );
        assert_eq!(net.state(Host::A, a), State::Established);
    }
}

// [3758:3.5-12, 3.5-13]
#[test]
fn rfc_3758_3_5_c4_a_list_that_does_not_fit_into_a_packet_is_sent_in_parts() {
    let config = AssociationConfig {
        outbound_streams: 450,
        max_inbound_streams: 450,
        initial_cwnd: Some(60_000),
        max_burst: 0,
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &config);
    net.filter = Box::new(|packet| match packet.has(ChunkType::DATA) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    for stream in 0..450 {
        let reliability = Reliability::Retransmissions(0);
        for _ in 0..2 {
            net.send(
                Host::A,
                a,
                Message {
                    reliability,
                    ..Message::zeros(stream, 20)
                },
            );
        }
    }
    net.run_for(Span::from_secs(5));
    nothing_is_held(&net, a, b);
    let mut listed = BTreeSet::new();
    for sent in net.sent(Host::A, ChunkType::FORWARD_TSN) {
        assert!(sent.bytes.len() <= 1480, "{}", sent.bytes.len());
        for chunk in sent.chunks() {
            let Chunk::ForwardTsn(forward) = chunk else { continue };
            let streams: Vec<_> = forward.skipped.iter().map(|entry| entry.stream).collect();
            let distinct: BTreeSet<_> = streams.iter().copied().collect();
            assert_eq!(distinct.len(), streams.len(), "{streams:?}");
            listed.extend(distinct);
        }
    }
    assert_eq!(listed.len(), 450);
    assert!(net.count(Host::A, ChunkType::FORWARD_TSN) >= 2);
}

// [3758:3.5-16, 4.1-2]
#[test]
fn rfc_3758_3_5_f1_nothing_is_forwarded_if_all_arrive_within_their_lifetime() {
    let (mut net, a, b) = Net::established(1, &config());
    lose_first(&mut net);
    for number in 0..20 {
        let reliability = Reliability::Lifetime(Span::from_secs(20));
        net.send(Host::A, a, message(number, 1000, reliability));
    }
    net.run_for(Span::from_secs(10));
    assert_eq!(arrived(&net), (0..20).collect::<Vec<_>>());
    assert!(net.a.association(a).expect("open").stats().retransmissions > 0);
    assert_eq!(net.count(Host::A, ChunkType::FORWARD_TSN), 0);
    nothing_is_held(&net, a, b);
}

// [3758:3.5-17, 3.5-18, 3.5-19, 3.5-20]
#[test]
fn rfc_3758_3_5_f2_f3_a_forward_tsn_goes_at_once_with_the_data_that_waits() {
    let (mut net, a, _) = Net::established(1, &config());
    lose_first(&mut net);
    net.send(Host::A, a, message(0, 1400, Reliability::Retransmissions(0)));
    for number in 1..40 {
        net.send(Host::A, a, message(number, 1400, Reliability::Full));
    }
    net.run_until(Span::from_secs(5), "it is given up", |net| !given_up(net).is_empty());
    let forwards = net.sent(Host::A, ChunkType::FORWARD_TSN);
    assert_eq!(forwards.len(), 1);
    assert_eq!(forwards[0].at, net.now);
    assert!(forwards[0].has(ChunkType::DATA), "{:?}", forwards[0].types());
}

/// The second address of B is never confirmed.
// [3758:3.5-9]
#[test]
fn rfc_3758_3_5_c3_a_forward_tsn_goes_to_a_confirmed_address() {
    let (mut net, a, _) = Net::established(2, &config());
    let mut is_first = true;
    net.filter = Box::new(move |packet| {
        let is_data = packet.has(ChunkType::DATA);
        let is_lost = is_on(packet, 1) || is_data && std::mem::take(&mut is_first);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    net.send(Host::A, a, message(1, 500, Reliability::Retransmissions(0)));
    net.run_for(Span::from_secs(5));
    let forwards = net.sent(Host::A, ChunkType::FORWARD_TSN);
    assert!(!forwards.is_empty());
    assert!(forwards.iter().all(|sent| sent.remote == addrs(Host::B, 1)[0]));
}

// [3758:4.1-1]
#[test]
fn rfc_3758_4_1_without_agreement_a_message_that_was_sent_is_reliable() {
    let mut net = Net::with_config(1, &AssociationConfig::default(), 7);
    let a = net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    lose_first(&mut net);
    let reliability = Reliability::Lifetime(Span::from_millis(300));
    net.send(Host::A, a, message(1, 500, reliability));
    net.run_for(Span::from_secs(5));
    assert_eq!((arrived(&net), given_up(&net)), (vec![1], vec![]));
}

/// Data is given up that congestion control has not counted as lost: it opens no window.
// [3758:3.5-3, 3.5-4]
#[test]
fn rfc_3758_3_5_a2_given_up_data_does_not_increase_the_window() {
    let (mut net, a, b) = Net::established(1, &config());
    net.filter = Box::new(|packet| match packet.has(ChunkType::DATA) {
        true => Fate::Drop,
        false => Fate::Deliver,
    });
    for number in 0..3 {
        net.send(Host::A, a, message(number, 1400, Reliability::Retransmissions(0)));
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(given_up(&net).len(), 3);
    nothing_is_held(&net, a, b);
    let path = crate::support::paths::path(&net, a, 0);
    // One packet since the timeout (RFC 9260 §7.2.3).
    assert_eq!(path.cwnd, 1468);
}

// [8260:2.2.2-4]
#[test]
fn rfc_8260_2_2_2_i_data_is_sent_within_both_windows() {
    for (recv_buffer, most) in [(1 << 20, 4404 + 1468), (3000, 3000)] {
        let own = AssociationConfig {
            interleaving: true,
            max_burst: 0,
            recv_buffer,
            ..config()
        };
        let (mut net, a, _) = Net::established(1, &own);
        net.auto_read = false;
        net.filter = Box::new(|_| Fate::Delay(Span::from_millis(200)));
        net.send(Host::A, a, Message::zeros(0, 60_000));
        net.run_for(Span::from_millis(100));
        let sent: usize = net
            .sent(Host::A, ChunkType::I_DATA)
            .iter()
            .map(|sent| sent.bytes.len())
            .sum();
        assert!(sent > most / 2 && sent <= most + 500, "{sent} of {most} bytes");
    }
}

// [3758:4.1-5]
#[test]
fn rfc_3758_4_1_tr3_a_message_that_expires_before_it_is_sent_is_reported() {
    let (mut net, a, _) = Net::established(1, &config());
    net.send(Host::A, a, message(1, 500, Reliability::Lifetime(Span::ZERO)));
    net.run_for(Span::from_secs(1));
    assert_eq!((given_up(&net), arrived(&net)), (vec![(1, false)], vec![]));
    assert_eq!(net.count(Host::A, ChunkType::DATA), 0);
}

/// A packet is lost at the head of more chunks than the receiver's TSN window has. It drops those above, and the sender gives up all.
// [3758:3.6-2]
#[test]
fn rfc_3758_3_6_a_long_flight_of_short_messages_may_be_given_up() {
    let own = AssociationConfig {
        recv_buffer: 65_536,
        send_buffer: 1 << 20,
        initial_cwnd: Some(400_000),
        max_burst: 0,
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &own);
    net.capture = false;
    lose_first(&mut net);
    for _ in 0..12_000 {
        let reliability = Reliability::Retransmissions(0);
        let now = net.now;
        let message = Message {
            reliability,
            ..Message::zeros(0, 4)
        };
        net.a.send(now, a, message).expect("there is room");
    }
    net.run_for(Span::from_secs(60));
    nothing_is_held(&net, a, b);
    net.send(Host::A, a, message(1, 100, Reliability::Full));
    net.run_for(Span::from_secs(5));
    assert_eq!(arrived(&net).last(), Some(&1));
    assert_eq!(net.state(Host::A, a), State::Established);
}
