//! Resets of the own streams (RFC 6525 §5.1.2, §5.2.2).

use super::*;

// [6525:4.1-2, 4.4-3, 5.1.1-8, 5.1.2-1, 5.1.2-2, 5.1.2-3, 5.1.2-5, 5.1.2-9, 5.1.2-10, 5.1.2-11, 5.1.7-1, 5.1.7-4, 5.1.7-7, 5.2.2-8, 5.2.7-1, 5.2.7-2, 5.2.7-5]
#[test]
fn rfc_6525_5_1_2_messages_after_a_reset_start_at_0_and_wait_for_the_response() {
    for interleaving in [false, true] {
        let config = AssociationConfig {
            interleaving,
            ..config()
        };
        let (mut net, a, b) = established(&config);
        for number in 0..3 {
            net.send(Host::A, a, on(1, number, 10));
            net.send(Host::A, a, on(2, 100, 10));
        }
        reset(&mut net, a, &[1]);
        for number in 3..6 {
            net.send(Host::A, a, on(1, number, 10));
            net.send(Host::A, a, on(2, 100, 10));
        }
        // Before the response, stream 2 is not delayed.
        assert_eq!(
            (numbers(&net, Host::A, 1).len(), numbers(&net, Host::A, 2).len()),
            (3, 6)
        );
        net.run_for(Span::from_secs(1));
        assert_eq!(numbers(&net, Host::A, 1), [0, 1, 2, 0, 1, 2]);
        assert_eq!(numbers(&net, Host::A, 2), [0, 1, 2, 3, 4, 5]);
        let read: Vec<_> = net.messages[&Host::B]
            .iter()
            .filter(|(stream, ..)| *stream == 1)
            .collect();
        let read: Vec<_> = read.iter().map(|(_, _, content)| number_of(content)).collect();
        assert_eq!(read, [0, 1, 2, 3, 4, 5]);
        let at_b = net.changes_of(Host::B);
        assert_eq!(at_b.len(), 1);
        assert_eq!(at_b[0].1, StreamChange::ResetInbound(some(&[1])));
        assert_eq!(net.changes_of(Host::A), [(0, StreamChange::ResetOutbound(some(&[1])))]);
        assert_eq!(results(&net, Host::B), [reconfig_result::PERFORMED]);
        nothing_is_held(&net, a, b);
    }
}

/// The window is not open for all messages from before at once.
#[test]
fn rfc_6525_5_1_2_a_request_follows_all_data_before_it() {
    let (mut net, a, _) = established(&config());
    for number in 0..30 {
        net.send(Host::A, a, on(1, number, 1400));
    }
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    assert_eq!(net.count(Host::A, ChunkType::RE_CONFIG), 0);
    net.run_for(Span::from_secs(5));
    let wanted: Vec<u32> = (0..30).chain([0]).collect();
    assert_eq!(numbers(&net, Host::A, 1), wanted);
    assert_eq!(net.changes_of(Host::B)[0].0, 30);
}

// [6525:5.2.2-3, 5.2.2-5, 5.2.2-10]
#[test]
fn rfc_6525_5_2_2_a_reset_waits_for_the_data_before_it() {
    let (mut net, a, _) = established(&config());
    let mut lost = false;
    net.filter = Box::new(move |packet| {
        let is_first = !lost && !packet.tsns().is_empty();
        lost |= is_first;
        if is_first { Fate::Drop } else { Fate::Deliver }
    });
    for number in 0..3 {
        net.send(Host::A, a, on(1, number, 1000));
    }
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, on(1, 3, 10));
    net.run_for(Span::from_secs(10));
    let results = results(&net, Host::B);
    let (last, before) = results.split_last().unwrap();
    assert_eq!(*last, reconfig_result::PERFORMED);
    assert!(!before.is_empty() && before.iter().all(|result| *result == reconfig_result::IN_PROGRESS));
    // What was sent before is read before the user is notified.
    assert_eq!(net.changes_of(Host::B), [(3, StreamChange::ResetInbound(some(&[1])))]);
    assert_eq!(numbers(&net, Host::A, 1).last(), Some(&0));
    assert_eq!(net.contents(Host::B).len(), 4);
}

#[test]
fn a_reset_waits_for_the_reader_of_the_data_before_it() {
    for interleaving in [false, true] {
        // The first message is read in parts.
        let small = AssociationConfig {
            interleaving,
            recv_buffer: 6000,
            association_max_retrans: 2,
            path_max_retrans: 2,
            ..config()
        };
        let (mut net, a, b) = established(&small);
        net.auto_read = false;
        net.send(Host::A, a, on(1, 0, 12_000));
        net.send(Host::A, a, on(1, 1, 100));
        reset(&mut net, a, &[1]);
        net.send(Host::A, a, on(1, 2, 10));
        for _ in 0..20 {
            net.run_for(Span::from_secs(5));
            // A part at a time.
            let now = net.now;
            net.b.recv(now, b, &mut |_| {});
            net.drain(Host::B);
        }
        assert_eq!(net.changes_of(Host::A).len(), 1, "{interleaving}");
        assert_eq!(numbers(&net, Host::A, 1).last(), Some(&0));
        let results = results(&net, Host::B);
        assert!(results.len() < 8, "asked less and less often: {results:?}");
        let (last, before) = results.split_last().unwrap();
        assert_eq!(*last, reconfig_result::PERFORMED);
        assert!(!before.is_empty() && before.iter().all(|result| *result == reconfig_result::IN_PROGRESS));
        assert_eq!(net.state(Host::A, a), State::Established);
    }
}

// [6525:5.2.2-7]
#[test]
fn all_streams_are_reset_by_an_empty_list() {
    let (mut net, a, _) = established(&config());
    for stream in [1, 2, 3] {
        net.send(Host::A, a, Message::zeros(stream, 10));
    }
    change(&mut net, Host::A, a, StreamChange::ResetOutbound(StreamList::ALL));
    for stream in [1, 2, 3] {
        net.send(Host::A, a, Message::zeros(stream, 10));
    }
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B).len(), 6);
    assert!((1..=3).all(|stream| numbers(&net, Host::A, stream) == [0, 0]));
}

/// Complete messages of a stream wait for the end of one that is read in parts.
#[test]
fn messages_behind_one_that_is_read_in_parts_precede_the_notification() {
    for unordered in [false, true] {
        let small = AssociationConfig {
            interleaving: true,
            recv_buffer: 6000,
            ..config()
        };
        let (mut net, a, b) = established(&small);
        net.auto_read = false;
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                unordered,
                ..numbered(0, 12_000, Reliability::Full)
            },
        );
        for number in 1..3 {
            net.send(
                Host::A,
                a,
                Message {
                    stream: 1,
                    unordered,
                    ..numbered(number, 100, Reliability::Full)
                },
            );
        }
        reset(&mut net, a, &[1]);
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                unordered,
                ..numbered(3, 10, Reliability::Full)
            },
        );
        let mut ends = 0;
        for _ in 0..60 {
            net.run_for(Span::from_secs(1));
            let now = net.now;
            // One part at a time.
            let read = net.b.recv(now, b, &mut |_| {});
            ends += u32::from(read.is_some_and(|read| read.end));
            net.drain(Host::B);
            assert_eq!(
                !net.changes_of(Host::B).is_empty(),
                ends >= 3,
                "{unordered}: {ends} messages"
            );
        }
        assert_eq!(ends, 4, "{unordered}");
    }
}

#[test]
fn a_denied_reset_sends_what_has_waited_with_the_next_numbers() {
    let (mut net, a, _) = established(&config());
    net.filter = Box::new(|packet| {
        let is_lost = packet.from == Host::A && packet.has(ChunkType::RE_CONFIG);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    });
    net.send(Host::A, a, Message::zeros(1, 10));
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    net.run_for(Span::from_millis(500));
    let (response, _) = next_of_a(&net);
    let denied = Parameter::ReconfigResponse {
        response,
        result: reconfig_result::DENIED,
        next_tsns: None,
    };
    let list = emit(&[denied]);
    net.as_peer(
        Host::A,
        &[Chunk::ReConfig {
            parameters: Parameters::from_wire_bytes(&list),
        }],
    )
    .unwrap();
    net.drain(Host::A);
    net.run_for(Span::from_secs(1));
    assert_eq!(numbers(&net, Host::A, 1), [0, 1]);
    let refused = Event::StreamChangeRefused {
        change: StreamChange::ResetOutbound(some(&[1])),
        result: reconfig_result::DENIED,
    };
    assert!(net.events_of(Host::A).contains(&refused));
    assert_eq!(net.contents(Host::B).len(), 2);
}

// [6525:5.2.2-6]
#[test]
fn data_that_overtakes_the_response_is_not_taken_for_older_data() {
    let (mut net, _, _) = established(&config());
    let (number, last_tsn) = next_of_a(&net);
    // A has not sent what B acknowledges.
    net.filter = Box::new(|packet| match packet.from {
        Host::A => Fate::Deliver,
        Host::B => Fate::Drop,
    });
    // Two TSNs are missing before the reset.
    let behind = Tsn(last_tsn.0.wrapping_add(2));
    let streams = NumberList::from_wire_bytes(&[0, 1]);
    receive(
        &mut net,
        &[Parameter::OutgoingReset {
            request: number,
            response: 0,
            last_tsn: behind,
            streams,
        }],
    );
    assert_eq!(results(&net, Host::B), [reconfig_result::IN_PROGRESS]);
    let data = |tsn: u32, ssn| {
        Chunk::Data(whimbrel_wire::Data {
            stream: 1,
            ..crate::support::data(last_tsn.0.wrapping_add(tsn), ssn, b"data")
        })
    };
    let _ = net.as_peer(Host::B, &[data(3, 0)]);
    net.as_peer(Host::B, &[data(1, 0), data(2, 1)]).unwrap();
    net.drain(Host::B);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B).len(), 2);
    net.as_peer(Host::B, &[data(3, 0)]).unwrap();
    net.drain(Host::B);
    assert_eq!(net.contents(Host::B).len(), 3);
    assert_eq!(net.changes_of(Host::B), [(2, StreamChange::ResetInbound(some(&[1])))]);
}

/// Old numbers in a FORWARD TSN would skip new messages.
#[test]
fn messages_given_up_before_a_reset_do_not_skip_those_after_it() {
    for (interleaving, response_is_late) in [(false, false), (true, false), (false, true), (true, true)] {
        let own = AssociationConfig {
            partial_reliability: true,
            interleaving,
            ..config()
        };
        let (mut net, a, b) = established(&own);
        for number in 0..20 {
            net.send(Host::A, a, on(1, number, 10));
        }
        net.run_for(Span::from_secs(1));
        // No SACK arrives until the message of another stream is given up.
        net.filter = Box::new(move |packet| {
            let is_response = packet.has(ChunkType::RE_CONFIG) && !response_is_late;
            let is_lost = packet.from == Host::B && !is_response
                || packet.from == Host::A
                    && view(packet.bytes)
                        .chunks()
                        .any(|chunk| matches!(chunk, Ok(Chunk::Data(data)) if data.stream == 2));
            if is_lost { Fate::Drop } else { Fate::Deliver }
        });
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                ..numbered(20, 10, Reliability::Lifetime(Span::from_millis(100)))
            },
        );
        reset(&mut net, a, &[1]);
        net.run_for(Span::from_millis(150));
        net.send(
            Host::A,
            a,
            Message {
                stream: 2,
                ..numbered(21, 10, Reliability::Lifetime(Span::from_millis(100)))
            },
        );
        net.run_for(Span::from_secs(3));
        net.filter = Box::new(|_| Fate::Deliver);
        for number in 22..25 {
            net.send(Host::A, a, on(1, number, 10));
        }
        net.run_for(Span::from_secs(10));
        let read: Vec<_> = net.contents(Host::B).iter().map(|content| number_of(content)).collect();
        let wanted: Vec<u32> = (0..21).chain(22..25).collect();
        assert_eq!(read, wanted, "{interleaving} {response_is_late}");
        nothing_is_held(&net, a, b);
    }
}
