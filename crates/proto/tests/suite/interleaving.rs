//! Interleaving of user messages and stream schedulers (RFC 8260).

use std::collections::BTreeMap;

use crate::support::messages::nothing_is_held;
use crate::support::{Fate, Host, Net, addrs, data, port};
use whimbrel_control::Span;
use whimbrel_proto::{
    AssociationConfig, AuthConfig, CloseReason, Discard, Event, Message, Reliability, Scheduler, SendError, State,
};
use whimbrel_wire::{Chunk, ChunkType, Data, ForwardTsn, MessageNumber, Mid, SkippedStreams, Tsn};

fn config() -> AssociationConfig {
    AssociationConfig {
        interleaving: true,
        partial_reliability: true,
        scheduler: Scheduler::RoundRobin,
        outbound_streams: 20,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

fn i_data(tsn: u32) -> Data<'static> {
    Data {
        number: MessageNumber::Mid(Mid(0)),
        ..data(tsn, 0, b"i-data")
    }
}

fn next_tsn(net: &Net, from: Host) -> u32 {
    let mut tsns = net
        .wire
        .iter()
        .filter(|sent| sent.from == from)
        .flat_map(|sent| sent.tsns());
    tsns.next_back().expect("data was sent").wrapping_add(1)
}

// [8260:2-1, 2.2.1-1, 2.2.1-2, 2.2.1-3, 2.2.1-4, 2.2.1-5, 2.2.1-6, 2.2.1-7]
#[test]
fn rfc_8260_2_2_1_it_is_used_if_both_ends_want_it() {
    for (own, other) in [(true, true), (true, false), (false, true), (false, false)] {
        let with = |interleaving| AssociationConfig {
            interleaving,
            ..config()
        };
        let mut net = Net::with_config(1, &with(other), 1);
        let a = net.connect(&with(own), 1);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        let both = own && other;
        net.send(Host::A, a, Message::zeros(3, 5000));
        net.send(Host::B, b, Message::zeros(3, 5000));
        net.run_for(Span::from_secs(1));
        for (host, id) in [(Host::A, a), (Host::B, b)] {
            assert_eq!(net.count(host, ChunkType::DATA) > 0, !both);
            assert_eq!(net.count(host, ChunkType::I_DATA) > 0, both);
            let association = net.host(host).association(id).expect("established");
            assert_eq!(association.uses_interleaving(), both);
            assert!(association.uses_partial_reliability());
        }
        assert_eq!(net.contents(Host::B), [vec![0; 5000]]);
        assert_eq!(net.contents(Host::A), [vec![0; 5000]]);
        let longest = net.wire.iter().map(|sent| sent.bytes.len()).max();
        assert!(longest <= Some(1500 - 20), "{longest:?}");
    }
}

#[test]
fn rfc_8260_2_3_1_messages_are_given_up_only_if_both_ends_have_the_chunk_for_it() {
    for (own, other) in [(true, true), (true, false), (false, true)] {
        let with = |partial_reliability| AssociationConfig {
            partial_reliability,
            ..config()
        };
        let mut net = Net::with_config(1, &with(other), 1);
        let a = net.connect(&with(own), 1);
        net.run_for(Span::from_secs(1));
        let association = net.a.association(a).expect("established");
        assert_eq!(
            (association.uses_interleaving(), association.uses_partial_reliability()),
            (true, own && other)
        );
    }
}

// [8260:2.3.1-10]
#[test]
fn rfc_8260_2_2_3_a_chunk_of_the_other_kind_ends_the_association() {
    for interleaving in [false, true] {
        let config = AssociationConfig {
            interleaving,
            ..config()
        };
        let forward = |tsn: u32, interleaved: bool| ForwardTsn {
            new_cumulative_tsn: Tsn(tsn),
            skipped: if interleaved {
                SkippedStreams::interleaved(&[])
            } else {
                SkippedStreams::from_wire_bytes(&[])
            },
        };
        for is_data in [false, true] {
            let (mut net, a, b) = Net::established(1, &config);
            net.send(Host::A, a, Message::zeros(0, 100));
            net.run_for(Span::from_secs(1));
            let tsn = next_tsn(&net, Host::A);
            let wrong = match (is_data, interleaving) {
                (true, true) => Chunk::Data(data(tsn, 0, b"data")),
                (true, false) => Chunk::Data(i_data(tsn)),
                (false, _) => Chunk::ForwardTsn(forward(tsn, !interleaving)),
            };
            assert_eq!(net.as_peer(Host::B, &[wrong]), Err(Discard::InvalidChunk));
            net.drain(Host::B);
            assert!(net.last(Host::B, ChunkType::ABORT).has(ChunkType::ABORT));
            assert!(net.b.association(b).is_none_or(|b| b.state() == State::Closed));
            assert!(
                matches!(net.close_reason(Host::B), Some(CloseReason::ProtocolViolation(_))),
                "{:?}",
                net.close_reason(Host::B)
            );
        }
    }
}

/// Returns the streams of the messages in the order in which B got them.
fn order(net: &Net) -> Vec<u16> {
    let read = net.messages.get(&Host::B).cloned().unwrap_or_default();
    read.into_iter().map(|(stream, ..)| stream).collect()
}

#[test]
fn a_long_message_keeps_back_short_ones_only_without_interleaving() {
    for (interleaving, scheduler, is_first) in [
        (true, Scheduler::FirstCome, false),
        (true, Scheduler::RoundRobin, true),
        (true, Scheduler::Priority, true),
        (true, Scheduler::WeightedFair, true),
        (false, Scheduler::Priority, false),
        (false, Scheduler::RoundRobin, false),
    ] {
        let config = AssociationConfig {
            interleaving,
            scheduler,
            send_buffer: 1 << 20,
            ..config()
        };
        let (mut net, a, _) = Net::established(1, &config);
        assert!(net.a.set_stream_value(a, 1, 5));
        assert!(!net.a.set_stream_value(a, 20, 5), "there is no such stream");
        net.send(Host::A, a, Message::zeros(1, 900_000));
        net.run_for(Span::from_millis(45));
        for _ in 0..5 {
            net.send(Host::A, a, Message::zeros(2, 100));
        }
        let read = |net: &Net, stream| order(net).iter().filter(|known| **known == stream).count();
        net.run_until(Span::from_secs(60), "the short ones", |net| read(net, 2) == 5);
        let short = net.now;
        net.run_until(Span::from_secs(60), "the long one", |net| read(net, 1) == 1);
        let passed = net.now.since(short) > Span::from_millis(20);
        assert_eq!(
            passed,
            is_first,
            "{interleaving} {scheduler:?}: {}",
            net.now.since(short)
        );
    }
}

/// A message that is longer than the send buffer leaves room for short ones, and for no second long one.
#[test]
fn a_long_message_that_waits_leaves_room_in_the_send_buffer() {
    let config = AssociationConfig {
        send_buffer: 100_000,
        max_message: Some(1 << 20),
        scheduler: Scheduler::Priority,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.a.set_stream_value(a, 1, 5);
    net.send(Host::A, a, Message::zeros(1, 1_000_000));
    let full = |net: &mut Net, len| {
        let refused = net.a.send(net.now, a, Message::zeros(2, len));
        matches!(refused, Err(SendError::Full(_)))
    };
    assert!(full(&mut net, 200_000), "a second long one");
    let mut short = 0;
    while !full(&mut net, 10_000) {
        short += 1;
    }
    assert_eq!(short, 7, "three quarters of the buffer are for the others");
    assert_eq!(net.a.association(a).expect("open").buffered_send(), 1_070_000);
    net.run_for(Span::from_secs(60));
    assert_eq!(net.contents(Host::B).len(), 8);
    assert!(net.events_of(Host::A).contains(&Event::SendSpace));
    assert!(!full(&mut net, 200_000));
}

#[test]
fn rfc_8260_3_3_a_packet_has_data_of_one_stream() {
    for interleaving in [false, true] {
        let config = AssociationConfig {
            interleaving,
            scheduler: Scheduler::RoundRobinPacket,
            ..config()
        };
        let (mut net, a, _) = Net::established(1, &config);
        for number in 0..60 {
            net.send(Host::A, a, Message::zeros(number % 3, 300));
        }
        net.run_for(Span::from_secs(5));
        assert_eq!(net.contents(Host::B).len(), 60);
        let mut turns = Vec::new();
        for sent in net
            .wire
            .iter()
            .filter(|sent| sent.from == Host::A && !sent.data().is_empty())
        {
            let chunks = sent.data();
            assert!(chunks.iter().all(|chunk| chunk.stream == chunks[0].stream));
            turns.push((chunks[0].stream, chunks.len()));
        }
        assert!(turns[1..15].windows(2).all(|pair| pair[0].0 != pair[1].0), "{turns:?}");
        assert!(turns.iter().any(|(_, chunks)| *chunks == 4), "{turns:?}");
    }
}

#[test]
fn rfc_8260_3_6_streams_share_the_path_by_their_weights() {
    let config = AssociationConfig {
        scheduler: Scheduler::WeightedFair,
        send_buffer: 1 << 20,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &config);
    for (stream, weight) in [(0, 1), (1, 2), (2, 5)] {
        net.a.set_stream_value(a, stream, weight);
        net.send(Host::A, a, Message::zeros(stream, 300_000));
    }
    net.run_for(Span::from_millis(110));
    let mut bytes = [0_usize; 3];
    for chunk in net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::A)
        .flat_map(|sent| sent.data())
    {
        bytes[usize::from(chunk.stream)] += chunk.payload.len();
    }
    let unit = bytes.iter().sum::<usize>() / 8;
    assert!(unit > 4000, "{bytes:?}");
    for (sent, weight) in bytes.into_iter().zip([1, 2, 5]) {
        assert!(sent.abs_diff(weight * unit) < 2 * 1452, "{sent} of {weight} x {unit}");
    }
}

// [8260:2.1-8, 2.2.2-1, 2.2.2-2, 2.2.2-3]
#[test]
fn rfc_8260_2_1_numbers_of_messages_and_fragments() {
    let (mut net, a, _) = Net::established(1, &config());
    for (stream, unordered) in [(0, false), (0, false), (0, true), (1, false), (1, true), (0, true)] {
        net.send(
            Host::A,
            a,
            Message {
                unordered,
                ppid: 9,
                ..Message::zeros(stream, 4000)
            },
        );
    }
    net.run_for(Span::from_secs(5));
    let mut next: BTreeMap<(u16, bool), (u32, u32)> = BTreeMap::new();
    for chunk in net
        .wire
        .iter()
        .filter(|sent| sent.from == Host::A)
        .flat_map(|sent| sent.data())
    {
        let (mid, fsn) = next.entry((chunk.stream, chunk.unordered)).or_default();
        assert_eq!(
            (chunk.number, chunk.fsn),
            (MessageNumber::Mid(Mid(*mid)), *fsn),
            "{chunk:?}"
        );
        assert_eq!((chunk.begin, chunk.ppid), (*fsn == 0, if *fsn == 0 { 9 } else { 0 }));
        (*mid, *fsn) = if chunk.end { (*mid + 1, 0) } else { (*mid, *fsn + 1) };
    }
    let ends: Vec<_> = next.into_iter().collect();
    assert_eq!(
        ends,
        [
            ((0, false), (2, 0)),
            ((0, true), (2, 0)),
            ((1, false), (1, 0)),
            ((1, true), (1, 0))
        ]
    );
}

#[test]
fn a_peer_that_restarts_agrees_anew() {
    for before in [false, true] {
        let with = |interleaving| AssociationConfig {
            interleaving,
            ..config()
        };
        let (mut net, a, _) = Net::established(1, &with(before));
        net.send(Host::A, a, Message::zeros(0, 3000));
        net.run_for(Span::from_secs(1));
        // The process at A is started again with the other setting.
        net.a = crate::support::endpoint(Host::A, 1, &with(!before), 77);
        let a = net.connect(&with(!before), 1);
        net.run_for(Span::from_secs(2));
        let start = net.wire.len();
        net.send(Host::A, a, Message::zeros(0, 3000));
        net.run_for(Span::from_secs(2));
        let both = net.a.association(a).is_some_and(|a| a.uses_interleaving());
        assert!(!both || !before);
        let kind = if both { ChunkType::I_DATA } else { ChunkType::DATA };
        assert!(net.wire[start..].iter().any(|sent| sent.has(kind)));
        assert_eq!(net.contents(Host::B).len(), 2);
    }
}

fn filled(stream: u16, byte: u8, len: usize) -> Message {
    Message::new(stream, vec![byte; len])
}

/// Both ends open the association at about the same time, and one of them listens with another setting than it opens with: the agreement
/// changes in the handshake.
#[test]
fn a_collision_with_another_agreement_loses_nothing() {
    for (listens, len, offset) in [false, true]
        .into_iter()
        .flat_map(|listens| [100, 5000].map(|len| (listens, len)))
        .flat_map(|(listens, len)| [12, 15, 18, 22, 25, 28].map(|offset| (listens, len, offset)))
    {
        let with = |interleaving| AssociationConfig {
            interleaving,
            ..config()
        };
        let mut net = Net::with_config(1, &with(listens), 1);
        net.a = crate::support::endpoint(Host::A, 1, &with(true), 5);
        let a = net.connect(&with(true), 1);
        net.send(Host::A, a, filled(0, 1, len));
        net.send(Host::A, a, filled(0, 2, len));
        net.run_for(Span::from_millis(offset));
        let (now, peer) = (net.now, addrs(Host::A, 1));
        net.b.connect(now, with(!listens), port(Host::A), &peer).expect("valid");
        net.drain(Host::B);
        net.run_for(Span::from_secs(20));
        let a = net.only(Host::A);
        net.send(Host::A, a, filled(0, 3, len));
        net.send(Host::A, a, filled(0, 4, len));
        net.run_for(Span::from_secs(20));
        let got = net.contents(Host::B);
        let wanted: Vec<Vec<u8>> = (1..=4).map(|byte| vec![byte; len]).collect();
        assert!(got == wanted, "{listens} {len} {offset}: {} messages", got.len());
    }
}

/// The receiver has no memory for the state of as many messages. The sender begins fewer at a time, and short ones pass those that it has not
/// begun.
#[test]
fn many_long_messages_in_turn_arrive() {
    let own = AssociationConfig {
        outbound_streams: 1000,
        max_inbound_streams: 1000,
        recv_buffer: 65_536,
        send_buffer: 32 << 20,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &own);
    for stream in 0..999 {
        net.send(Host::A, a, Message::zeros(stream, 20_000));
    }
    net.send(Host::A, a, Message::zeros(999, 100));
    net.run_for(Span::from_secs(1));
    let has_short = net.contents(Host::B).iter().any(|content| content.len() == 100);
    assert!(has_short && net.contents(Host::B).len() < 500);
    net.run_for(Span::from_secs(30));
    assert_eq!(net.contents(Host::B).len(), 1000);
}

#[test]
fn a_restart_begins_no_message_that_never_ends() {
    for interleaving in [false, true] {
        let own = AssociationConfig {
            recv_buffer: 20_000,
            interleaving,
            ..config()
        };
        let (mut net, a, _) = Net::established(1, &own);
        net.auto_read = false;
        let mut count = 0;
        net.filter = Box::new(move |packet| {
            let is_data = packet.has(ChunkType::I_DATA) || packet.has(ChunkType::DATA);
            count += u64::from(is_data);
            if is_data && count > 9 {
                Fate::Drop
            } else {
                Fate::Deliver
            }
        });
        net.send(Host::A, a, Message::zeros(0, 18_000));
        net.run_for(Span::from_millis(300));
        let b = net.only(Host::B);
        net.a = crate::support::endpoint(Host::A, 1, &own, 77);
        net.filter = Box::new(|_| Fate::Deliver);
        net.connect(&own, 1);
        net.run_for(Span::from_secs(5));
        let now = net.now;
        assert!(net.b.recv(now, b, &mut |_| ()).is_none(), "{interleaving}");
    }
}

/// A key protects the new chunks like those that they replace.
#[test]
fn rfc_4895_i_data_without_authentication_is_discarded() {
    let by_key = AuthConfig::shared_key(b"a shared key");
    let by_list = AuthConfig {
        chunks: vec![ChunkType::DATA.0, ChunkType::FORWARD_TSN.0],
        ..AuthConfig::default()
    };
    let both = [by_key, by_list]
        .into_iter()
        .flat_map(|auth| [(auth.clone(), true), (auth, false)]);
    for (auth, interleaving) in both {
        let config = AssociationConfig {
            auth,
            interleaving,
            ..config()
        };
        let (mut net, a, b) = Net::established(1, &config);
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
        let tsn = next_tsn(&net, Host::A);
        let forward = ForwardTsn {
            new_cumulative_tsn: Tsn(tsn),
            skipped: SkippedStreams::interleaved(&[]),
        };
        for chunk in [Chunk::Data(i_data(tsn)), Chunk::ForwardTsn(forward)] {
            assert_eq!(net.as_peer(Host::B, &[chunk]), Err(Discard::Unauthenticated));
        }
        net.send(Host::A, a, Message::zeros(0, 100));
        net.run_for(Span::from_secs(1));
        assert_eq!(
            (net.contents(Host::B).len(), net.state(Host::B, b)),
            (2, State::Established)
        );
    }
}

/// A message that is given up while others are under way.
// [8260:2-2, 2.3.1-1, 2.3.1-7, 2.3.1-8]
#[test]
fn rfc_8260_2_3_1_given_up_messages_do_not_stop_the_others() {
    let config = AssociationConfig {
        rto_min: Span::from_millis(200),
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &config);
    net.run_for(Span::from_secs(1));
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += u64::from(packet.has(ChunkType::I_DATA));
        if packet.has(ChunkType::I_DATA) && count % 7 == 3 {
            return Fate::Drop;
        }
        Fate::Deliver
    });
    let mut context = 0;
    for round in 0..100_u16 {
        for stream in 0..3 {
            context += 1;
            net.send(
                Host::A,
                a,
                Message {
                    context,
                    unordered: round % 2 == 0,
                    reliability: [
                        Reliability::Full,
                        Reliability::Retransmissions(0),
                        Reliability::Lifetime(Span::from_millis(100)),
                    ][usize::from(stream)],
                    ..Message::zeros(stream, 3000)
                },
            );
        }
        net.run_for(Span::from_millis(150));
    }
    net.run_for(Span::from_secs(60));
    let failed = net
        .events_of(Host::A)
        .into_iter()
        .filter(|event| matches!(event, Event::SendFailed(_)));
    let (failed, arrived) = (failed.count(), net.contents(Host::B).len());
    assert_eq!(failed + arrived, 300);
    assert!(
        failed > 20 && net.count(Host::A, ChunkType::I_FORWARD_TSN) > 20,
        "{failed}"
    );
    assert_eq!(net.count(Host::A, ChunkType::FORWARD_TSN), 0);
    assert_eq!(order(&net).iter().filter(|stream| **stream == 0).count(), 100);
    nothing_is_held(&net, a, b);
}
