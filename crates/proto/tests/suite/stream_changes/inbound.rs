//! Resets that an end asks its peer for (RFC 6525 §5.1.3, §5.2.3).

use super::*;

// [6525:4.2-2, 5.1.2-6, 5.1.2-7, 5.1.3-1, 5.1.3-2, 5.1.3-3, 5.1.3-5, 5.1.3-6, 5.1.3-7, 5.2.2-1, 5.2.2-2, 5.2.3-1, 5.2.3-5]
#[test]
fn rfc_6525_5_2_3_the_peer_is_asked_to_reset_its_streams() {
    let (mut net, a, b) = established(&config());
    for _ in 0..2 {
        net.send(Host::B, b, Message::zeros(1, 10));
    }
    net.run_for(Span::from_secs(1));
    change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1])));
    net.run_for(Span::from_secs(1));
    net.send(Host::B, b, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.changes_of(Host::A), [(2, StreamChange::ResetInbound(some(&[1])))]);
    assert_eq!(net.changes_of(Host::B), [(0, StreamChange::ResetOutbound(some(&[1])))]);
    assert_eq!(numbers(&net, Host::B, 1), [0, 1, 0]);
    // The request of B is the response to that of A.
    let (asked, _) = next_of_a(&net);
    let answer = net.last(Host::B, ChunkType::RE_CONFIG);
    assert!(matches!(
        reconfiguration(&answer)[..],
        [Parameter::OutgoingReset { response, .. }] if response == asked
    ));
    assert_eq!(
        (
            net.count(Host::A, ChunkType::RE_CONFIG),
            net.count(Host::B, ChunkType::RE_CONFIG)
        ),
        (2, 1)
    );
    assert!(results(&net, Host::B).is_empty());
    // Streams without a message since have nothing to reset.
    net.run_for(Span::from_secs(1));
    change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[2])));
    net.run_for(Span::from_secs(1));
    assert_eq!(results(&net, Host::B), [reconfig_result::NOTHING_TO_DO]);
    assert_eq!(net.changes_of(Host::A).len(), 1);
    let refused = Event::StreamChangeRefused {
        change: StreamChange::ResetInbound(some(&[2])),
        result: reconfig_result::NOTHING_TO_DO,
    };
    assert!(net.events_of(Host::A).contains(&refused));
}

// [6525:5.2.3-3]
#[test]
fn both_ends_reset_at_once() {
    let (mut net, a, b) = established(&config());
    net.send(Host::A, a, Message::zeros(1, 10));
    net.send(Host::B, b, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    // B is asked to reset what it is about to reset.
    let now = net.now;
    net.b
        .change_streams(now, b, StreamChange::ResetOutbound(some(&[1, 2])))
        .unwrap();
    net.a
        .change_streams(now, a, StreamChange::ResetInbound(some(&[1])))
        .unwrap();
    net.a
        .change_streams(now, a, StreamChange::ResetOutbound(some(&[1])))
        .unwrap();
    net.drain(Host::A);
    net.drain(Host::B);
    net.run_for(Span::from_secs(5));
    let changes = |host| {
        net.changes_of(host)
            .into_iter()
            .map(|(_, change)| change)
            .collect::<Vec<_>>()
    };
    assert!(results(&net, Host::B).contains(&reconfig_result::NOTHING_TO_DO));
    let (at_a, at_b) = (changes(Host::A), changes(Host::B));
    assert!(at_a.contains(&StreamChange::ResetOutbound(some(&[1]))), "{at_a:?}");
    assert!(at_a.contains(&StreamChange::ResetInbound(some(&[1, 2]))), "{at_a:?}");
    assert_eq!(
        at_b,
        [
            StreamChange::ResetOutbound(some(&[1, 2])),
            StreamChange::ResetInbound(some(&[1]))
        ]
    );
    net.send(Host::A, a, Message::zeros(1, 10));
    net.send(Host::B, b, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    assert_eq!(
        (numbers(&net, Host::A, 1), numbers(&net, Host::B, 1)),
        (vec![0, 0], vec![0, 0])
    );
    assert_eq!(net.contents(Host::B).len(), 2);
}

/// What the peer resets is reported once it is done, not when the peer answers.
#[test]
fn nothing_to_do_is_no_reset() {
    let (mut net, a, b) = established(&config());
    net.auto_read = false;
    for _ in 0..3 {
        net.send(
            Host::B,
            b,
            Message {
                unordered: true,
                ..Message::zeros(1, 10)
            },
        );
    }
    net.run_for(Span::from_secs(1));
    let inbound = StreamChange::ResetInbound(some(&[1]));
    change(&mut net, Host::A, a, inbound.clone());
    net.run_for(Span::from_secs(1));
    assert!(net.changes_of(Host::A).is_empty());
    let result = reconfig_result::NOTHING_TO_DO;
    assert!(net.events_of(Host::A).contains(&Event::StreamChangeRefused {
        change: inbound,
        result
    }));
}

/// Each request for the reset of the other end waits for the response to its own.
#[test]
fn both_ends_ask_for_a_reset_at_once() {
    let (mut net, a, b) = established(&config());
    for _ in 0..3 {
        net.send(Host::A, a, Message::zeros(1, 10));
        net.send(Host::B, b, Message::zeros(1, 10));
    }
    net.run_for(Span::from_secs(1));
    let (now, change) = (net.now, StreamChange::ResetInbound(some(&[1])));
    net.a.change_streams(now, a, change.clone()).unwrap();
    net.b.change_streams(now, b, change.clone()).unwrap();
    net.drain(Host::A);
    net.drain(Host::B);
    net.run_for(Span::from_secs(5));
    for host in [Host::A, Host::B] {
        let changes: Vec<_> = net.changes_of(host).into_iter().map(|(_, change)| change).collect();
        assert!(changes.contains(&change) && changes.len() == 2, "{host:?} {changes:?}");
        assert!(net.count(host, ChunkType::RE_CONFIG) <= 4);
    }
}

/// Other stacks answer that it is done, and reset the streams that are ready one after the other.
#[test]
fn a_reset_in_parts_ends_the_request_for_it() {
    for lists in [&[&[0, 1, 0, 2][..]][..], &[&[0, 1], &[0, 2]], &[&[0, 2, 0, 0], &[0, 1]]] {
        let (mut net, a, b) = established(&config());
        send(&mut net, Host::B, b, 1, 2);
        send(&mut net, Host::B, b, 2, 2);
        net.run_for(Span::from_secs(1));
        let ((number, _), (request, last_tsn)) = (next_of_a(&net), numbers_of(&net, Host::B));
        lose_requests(&mut net);
        change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1, 2])));
        let performed = Parameter::ReconfigResponse {
            response: number,
            result: reconfig_result::PERFORMED,
            next_tsns: None,
        };
        receive_at(&mut net, Host::A, &[performed]);
        for (k, list) in (0..).zip(lists) {
            assert!(changes(&net, Host::A).len() == usize::try_from(k).unwrap());
            let reset = Parameter::OutgoingReset {
                request: request.wrapping_add(k),
                response: number,
                last_tsn,
                streams: NumberList::from_wire_bytes(list),
            };
            receive_at(&mut net, Host::A, &[reset]);
        }
        assert_eq!(changes(&net, Host::A).len(), lists.len());
        net.run_for(Span::from_secs(3600));
        assert_eq!(asked(&net, Host::A), 1);
        change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1])));
    }
}

/// The peer resets a part of what it was asked for, and no more: it is asked again for the rest, and says that it is done.
#[test]
fn a_request_that_is_performed_in_part_ends_when_the_peer_says_so() {
    let (mut net, a, b) = established(&config());
    send(&mut net, Host::B, b, 1, 2);
    net.run_for(Span::from_secs(1));
    let ((number, _), (request, last_tsn)) = (next_of_a(&net), numbers_of(&net, Host::B));
    lose_requests(&mut net);
    change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1, 2])));
    let performed = [Parameter::ReconfigResponse {
        response: number,
        result: reconfig_result::PERFORMED,
        next_tsns: None,
    }];
    receive_at(&mut net, Host::A, &performed);
    let reset = Parameter::OutgoingReset {
        request,
        response: number,
        last_tsn,
        streams: NumberList::from_wire_bytes(&[0, 1]),
    };
    receive_at(&mut net, Host::A, &[reset]);
    net.run_for(Span::from_secs(59));
    assert_eq!(asked(&net, Host::A), 1);
    net.run_for(Span::from_millis(1500));
    assert_eq!(asked(&net, Host::A), 2);
    receive_at(&mut net, Host::A, &performed);
    let refused = |event: &Event| matches!(event, Event::StreamChangeRefused { .. });
    assert_eq!(net.events_of(Host::A).into_iter().filter(refused).count(), 1);
    net.run_for(Span::from_secs(3600));
    assert_eq!(asked(&net, Host::A), 2);
    change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1, 2])));
}

/// The peer has answered with its own request, which waits here. That is no reason to ask again, or to count errors of the path.
#[test]
fn an_end_that_reads_late_does_not_ask_again() {
    for hb_interval in [Span::ZERO, Span::from_secs(30)] {
        for secs in [30, 200, 1000] {
            let (mut net, a, b) = established(&AssociationConfig {
                hb_interval,
                ..config()
            });
            net.auto_read = false;
            send(&mut net, Host::B, b, 1, 3);
            net.run_for(Span::from_secs(1));
            change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1])));
            net.run_for(Span::from_secs(secs));
            assert_eq!(
                net.a.association(a).unwrap().paths().map(|path| path.errors).max(),
                Some(0)
            );
            assert!(changes(&net, Host::A).is_empty());
            net.read(Host::A, a);
            net.drain(Host::A);
            net.run_for(Span::from_secs(3600));
            assert_eq!(changes(&net, Host::A), [StreamChange::ResetInbound(some(&[1]))]);
            assert_eq!(asked(&net, Host::A), 1, "read after {secs} s");
            change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[1])));
        }
    }
}

/// A peer that performs two requests by one of its own, or all streams by their numbers.
#[test]
fn requests_end_when_all_of_their_streams_have_been_reset() {
    let three = AssociationConfig {
        outbound_streams: 3,
        ..config()
    };
    for (wishes, list) in [
        (vec![StreamList::ALL], &[0, 0, 0, 1, 0, 2][..]),
        (vec![some(&[0, 1, 2])], &[]),
        (vec![some(&[1]), some(&[2])], &[0, 1, 0, 2]),
        (vec![some(&[1]), some(&[2])], &[0, 0, 0, 1, 0, 2]),
    ] {
        let (mut net, a, b) = established(&three);
        (0..3).for_each(|stream| send(&mut net, Host::B, b, stream, 2));
        net.run_for(Span::from_secs(1));
        let ((number, _), (request, last_tsn)) = (next_of_a(&net), numbers_of(&net, Host::B));
        lose_requests(&mut net);
        let count = wishes.len();
        for (k, streams) in (0..).zip(wishes) {
            change(&mut net, Host::A, a, StreamChange::ResetInbound(streams));
            let performed = Parameter::ReconfigResponse {
                response: number.wrapping_add(k),
                result: reconfig_result::PERFORMED,
                next_tsns: None,
            };
            receive_at(&mut net, Host::A, &[performed]);
        }
        let reset = Parameter::OutgoingReset {
            request,
            response: number,
            last_tsn,
            streams: NumberList::from_wire_bytes(list),
        };
        receive_at(&mut net, Host::A, &[reset]);
        net.run_for(Span::from_secs(3600));
        assert_eq!(asked(&net, Host::A), count);
        change(&mut net, Host::A, a, StreamChange::ResetInbound(StreamList::ALL));
    }
}

/// The peer keeps the last responses. What it has accepted, and forgotten because of many others, is not for ever.
#[test]
fn a_request_that_the_peer_has_forgotten_ends() {
    let (mut net, a, b) = established(&config());
    net.auto_read = false;
    send(&mut net, Host::B, b, 1, 2);
    send(&mut net, Host::B, b, 2, 2);
    net.run_for(Span::from_secs(1));
    // B's reset of stream 1 waits for A's reader, and that of stream 2 for the one of stream 1.
    change(&mut net, Host::B, b, StreamChange::ResetOutbound(some(&[1])));
    net.run_for(Span::from_secs(1));
    change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[2])));
    net.run_for(Span::from_secs(1));
    for _ in 0..33 {
        change(&mut net, Host::A, a, StreamChange::AddOutbound(1));
        net.run_for(Span::from_millis(500));
    }
    assert_eq!(changes(&net, Host::A).len(), 33);
    net.run_for(Span::from_secs(1000));
    change(&mut net, Host::A, a, StreamChange::AddOutbound(1));
    net.run_for(Span::from_secs(10));
    assert_eq!((net.close_reason(Host::A), changes(&net, Host::A).len()), (None, 34));
    net.read(Host::A, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(3600));
    assert_eq!(
        changes(&net, Host::A)[34..],
        [1, 2].map(|stream| StreamChange::ResetInbound(some(&[stream])))
    );
}

/// The peer's reset arrives while the request for it waits to be sent again, and waits for the reader of this end.
#[test]
fn a_reset_that_waits_for_the_reader_is_not_asked_for_again() {
    let (mut net, a, b) = established(&config());
    net.auto_read = false;
    send(&mut net, Host::A, a, 1, 1);
    send(&mut net, Host::B, b, 1, 1);
    net.run_for(Span::from_secs(1));
    change(&mut net, Host::B, b, StreamChange::ResetOutbound(some(&[1])));
    net.run_for(Span::from_secs(1));
    // It does not precede this reset.
    send(&mut net, Host::B, b, 2, 1);
    change(&mut net, Host::A, a, StreamChange::ResetInbound(some(&[2])));
    net.run_for(Span::from_secs(1));
    // Its reset waits for B's reader, and the repeated request for the response to it.
    reset(&mut net, a, &[1]);
    net.run_for(Span::from_secs(70));
    let now = net.now;
    assert!(net.a.recv(now, a, &mut |_| {}).is_some());
    net.drain(Host::A);
    net.run_for(Span::from_secs(5));
    assert_eq!(changes(&net, Host::A), [StreamChange::ResetInbound(some(&[1]))]);
    net.read(Host::B, b);
    net.drain(Host::B);
    net.run_for(Span::from_secs(3600));
    net.read(Host::A, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(3600));
    assert_eq!(asked(&net, Host::A), 1);
    assert_eq!(
        changes(&net, Host::A).last(),
        Some(&StreamChange::ResetInbound(some(&[2])))
    );
}
