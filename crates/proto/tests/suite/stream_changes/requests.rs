//! What is requested and answered: numbers, repetitions, errors (RFC 6525 §4, §5.1.1, §5.2.1).

use super::*;

// [6525:5.2.1-4]
#[test]
fn rfc_6525_5_1_1_a_request_is_repeated_and_performed_once() {
    let (mut net, a, _) = established(&config());
    net.send(Host::A, a, on(1, 0, 10));
    net.run_for(Span::from_secs(1));
    let mut lost = 0;
    net.filter = Box::new(move |packet| {
        let is_first = packet.has(ChunkType::RE_CONFIG) && packet.from == Host::B && lost < 2;
        lost += u32::from(is_first);
        if is_first { Fate::Drop } else { Fate::Deliver }
    });
    reset(&mut net, a, &[1]);
    let request = net.last(Host::A, ChunkType::RE_CONFIG).bytes.clone();
    net.send(Host::A, a, on(1, 1, 10));
    net.run_for(Span::from_secs(10));
    assert_eq!(net.count(Host::A, ChunkType::RE_CONFIG), 3);
    assert_eq!(net.contents(Host::B).len(), 2);
    // A late copy of the request does not reset the stream that is in use again.
    net.deliver(Host::B, &request).unwrap();
    net.drain(Host::B);
    net.send(Host::A, a, on(1, 2, 10));
    net.run_for(Span::from_secs(1));
    assert_eq!(numbers(&net, Host::A, 1), [0, 0, 1]);
    assert_eq!(net.contents(Host::B).len(), 3);
    assert_eq!(net.changes_of(Host::B).len(), 1);
    assert_eq!(results(&net, Host::B), [reconfig_result::PERFORMED; 4]);
    // Neither does a late copy of a response disturb the next request.
    let response = net.last(Host::B, ChunkType::RE_CONFIG).bytes.clone();
    reset(&mut net, a, &[1]);
    let _ = net.deliver(Host::A, &response);
    assert_eq!(net.changes_of(Host::A).len(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.changes_of(Host::A).len(), 2);
}

/// A repeated request is answered as before, however many others have been answered since by a late response.
#[test]
fn late_responses_do_not_replace_later_ones() {
    let (mut net, _, b) = established(&config());
    for stream in [1, 2] {
        net.send(Host::B, b, Message::zeros(stream, 10));
    }
    net.run_for(Span::from_secs(1));
    net.filter = Box::new(|_| Fate::Drop);
    let (number, last_tsn) = next_of_a(&net);
    let [first, second] = [[0, 1], [0, 2]];
    let incoming = |place: u32, streams| Parameter::IncomingReset {
        request: number.wrapping_add(place),
        streams: NumberList::from_wire_bytes(streams),
    };
    // B answers the first one by a request, and the second one later.
    receive(&mut net, &[incoming(0, &first)]);
    receive(&mut net, &[incoming(1, &second)]);
    for place in 2..10 {
        let request = number.wrapping_add(place);
        receive(
            &mut net,
            &[Parameter::OutgoingReset {
                request,
                response: 0,
                last_tsn,
                streams: NumberList::from_wire_bytes(&[]),
            }],
        );
    }
    // Their responses arrive, and the last request is repeated.
    let requests: Vec<u32> = net
        .wire
        .iter()
        .flat_map(reconfiguration)
        .filter_map(|parameter| match parameter {
            Parameter::OutgoingReset { request, .. } => Some(request),
            _ => None,
        })
        .collect();
    receive(
        &mut net,
        &[Parameter::ReconfigResponse {
            response: requests[0],
            result: reconfig_result::PERFORMED,
            next_tsns: None,
        }],
    );
    let before = results(&net, Host::B).len();
    let request = number.wrapping_add(9);
    receive(
        &mut net,
        &[Parameter::OutgoingReset {
            request,
            response: 0,
            last_tsn,
            streams: NumberList::from_wire_bytes(&[]),
        }],
    );
    assert_eq!(results(&net, Host::B)[before..], [reconfig_result::PERFORMED]);
    // The first one has been answered since by the response to the request of B.
    receive(&mut net, &[incoming(0, &first)]);
    assert_eq!(results(&net, Host::B)[before + 1..], [reconfig_result::PERFORMED]);
    assert_eq!(net.changes_of(Host::B).len(), 9, "eight by A, one by B");
}

/// To perform a request may take a millisecond.
#[test]
fn a_packet_has_one_chunk_with_requests() {
    let (mut net, _, _) = established(&config());
    let (number, last_tsn) = next_of_a(&net);
    let all = NumberList::from_wire_bytes(&[]);
    let lists: Vec<Vec<u8>> = (0..5)
        .map(|place| {
            emit(&[Parameter::OutgoingReset {
                request: number.wrapping_add(place),
                response: 0,
                last_tsn,
                streams: all,
            }])
        })
        .collect();
    let chunks: Vec<_> = lists
        .iter()
        .map(|list| Chunk::ReConfig {
            parameters: Parameters::from_wire_bytes(list),
        })
        .collect();
    let _ = net.as_peer(Host::B, &chunks);
    net.drain(Host::B);
    assert_eq!(results(&net, Host::B), [reconfig_result::PERFORMED]);
}

#[test]
fn changes_that_cannot_be_requested_are_errors() {
    let mut net = Net::with_config(1, &config(), 1);
    let a = net.connect(&config(), 1);
    let (now, reset) = (net.now, |streams: &[u16]| StreamChange::ResetOutbound(some(streams)));
    assert_eq!(
        net.a.change_streams(now, a, reset(&[1])),
        Err(StreamChangeError::NotEstablished)
    );
    net.run_for(Span::from_secs(1));
    net.filter = Box::new(|_| Fate::Drop);
    let now = net.now;
    let missing = StreamChangeError::NoSuchStream {
        stream: 16,
        available: 16,
    };
    assert_eq!(net.a.change_streams(now, a, reset(&[3, 16])), Err(missing));
    let inbound = StreamChange::ResetInbound(some(&[16]));
    assert_eq!(net.a.change_streams(now, a, inbound), Err(missing));
    // In a request, an empty list means all streams. A list of a program that turned out empty does not.
    let inbound = StreamChange::ResetInbound(some(&[]));
    assert_eq!(net.a.change_streams(now, a, inbound), Err(StreamChangeError::NoStream));
    assert_eq!(
        net.a.change_streams(now, a, reset(&[])),
        Err(StreamChangeError::NoStream)
    );
    assert_eq!(net.a.change_streams(now, a, reset(&[1])), Ok(()));
    assert_eq!(
        net.a.change_streams(now, a, reset(&[1, 2])),
        Err(StreamChangeError::InProgress)
    );
    let added = |count| StreamChange::AddOutbound(count);
    assert_eq!(
        net.a.change_streams(now, a, added(0)),
        Err(StreamChangeError::Number(16))
    );
    assert_eq!(net.a.change_streams(now, a, added(65_519)), Ok(()));
    assert_eq!(
        net.a.change_streams(now, a, added(1)),
        Err(StreamChangeError::Number(65_535))
    );
    for stream in 2..16 {
        net.a.change_streams(now, a, reset(&[stream])).unwrap();
    }
    let inbound = |stream| StreamChange::ResetInbound(some(&[stream]));
    let accepted = (0..16)
        .filter(|&stream| net.a.change_streams(now, a, inbound(stream)).is_ok())
        .count();
    assert_eq!(accepted, 16);
    net.a.change_streams(now, a, reset(&[0])).unwrap();
    assert_eq!(
        net.a.change_streams(now, a, StreamChange::AddInbound(1)),
        Err(StreamChangeError::TooManyWaiting)
    );

    let many = AssociationConfig {
        outbound_streams: 2000,
        ..config()
    };
    let (mut net, a, _) = Net::established(1, &many);
    let streams: Vec<u16> = (0..1000).collect();
    let (now, wish) = (net.now, StreamChange::ResetOutbound(some(&streams)));
    assert_eq!(
        net.a.change_streams(now, a, wish),
        Err(StreamChangeError::TooManyListed(1000))
    );
    reset_most(&mut net, a);

    let (mut net, a, _) = Net::established(1, &AssociationConfig::default());
    let now = net.now;
    let wish = StreamChange::AddInbound(1);
    assert_eq!(net.a.change_streams(now, a, wish), Err(StreamChangeError::NotSupported));
}

/// The longest list that is accepted fits into a packet.
fn reset_most(net: &mut Net, a: AssocId) {
    let now = net.now;
    let most = (500..1000).rev().find(|&count| {
        let streams: Vec<u16> = (0..count).collect();
        net.a
            .change_streams(now, a, StreamChange::ResetOutbound(some(&streams)))
            .is_ok()
    });
    assert!(most > Some(700), "{most:?}");
    net.drain(Host::A);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.changes_of(Host::B).len(), 1);
}

// [6525:5.1.1-2, 5.1.1-3, 5.1.1-4]
#[test]
fn a_peer_without_stream_changes_is_sent_no_request() {
    for (own, peer) in [(true, false), (false, true)] {
        let with = |stream_changes| AssociationConfig {
            stream_changes,
            ..config()
        };
        let (mut net, a, _) = between(&with(own), &with(peer));
        let now = net.now;
        let wish = StreamChange::ResetOutbound(StreamList::ALL);
        assert_eq!(net.a.change_streams(now, a, wish), Err(StreamChangeError::NotSupported));
        // A chunk that was not negotiated is skipped without a report.
        receive(&mut net, &[Parameter::TsnReset { request: 1 }]);
        assert_eq!(
            (
                net.count(Host::B, ChunkType::ERROR),
                net.count(Host::B, ChunkType::RE_CONFIG)
            ),
            (0, 0)
        );
    }
}

// [6525:3.1-1, 5.1.7-2, 5.2.1-5]
#[test]
fn requests_with_other_numbers_streams_or_neighbours_are_refused() {
    let (mut net, _, _) = established(&config());
    let (number, last_tsn) = next_of_a(&net);
    let outgoing = |request, streams| Parameter::OutgoingReset {
        request,
        response: 0,
        last_tsn,
        streams,
    };
    let all = NumberList::from_wire_bytes(&[]);
    receive(&mut net, &[outgoing(number.wrapping_add(1), all)]);
    receive(&mut net, &[outgoing(number.wrapping_sub(1), all)]);
    assert_eq!(results(&net, Host::B), [reconfig_result::BAD_SEQUENCE_NUMBER; 2]);
    receive(&mut net, &[outgoing(number, NumberList::from_wire_bytes(&[0, 16]))]);
    receive(
        &mut net,
        &[Parameter::IncomingReset {
            request: number.wrapping_add(1),
            streams: NumberList::from_wire_bytes(&[0, 16]),
        }],
    );
    receive(
        &mut net,
        &[Parameter::TsnReset {
            request: number.wrapping_add(2),
        }],
    );
    assert_eq!(
        results(&net, Host::B)[2..],
        [
            reconfig_result::WRONG_SSN,
            reconfig_result::WRONG_SSN,
            reconfig_result::DENIED
        ]
    );
    assert!(net.changes_of(Host::B).is_empty());
    // RFC 6525 §3.1
    receive(
        &mut net,
        &[Parameter::TsnReset { request: 1 }, Parameter::TsnReset { request: 2 }],
    );
    receive(&mut net, &[]);
    receive(&mut net, &[Parameter::EcnCapable]);
    assert_eq!(net.count(Host::B, ChunkType::ERROR), 3);
    assert_eq!(net.wire.last().unwrap().causes(), [13]);
}

// [6525:5.2.1-1, 5.2.1-2, 5.2.2-11, 5.2.3-2]
#[test]
fn rfc_6525_5_2_1_a_repeated_pair_of_requests_is_answered_as_before() {
    let (mut net, _, b) = established(&config());
    net.send(Host::B, b, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    let (number, last_tsn) = next_of_a(&net);
    let streams = NumberList::from_wire_bytes(&[0, 1]);
    let pair = [
        Parameter::OutgoingReset {
            request: number,
            response: 0,
            last_tsn,
            streams,
        },
        Parameter::IncomingReset {
            request: number.wrapping_add(1),
            streams,
        },
    ];
    net.filter = Box::new(|packet| {
        if packet.from == Host::B {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for _ in 0..3 {
        receive(&mut net, &pair);
        let last = net.last(Host::B, ChunkType::RE_CONFIG);
        let parameters = reconfiguration(&last);
        assert!(
            matches!(
                parameters[..],
                [
                    Parameter::ReconfigResponse {
                        result: reconfig_result::PERFORMED,
                        ..
                    },
                    Parameter::OutgoingReset { .. }
                ]
            ),
            "{parameters:?}"
        );
    }
    assert_eq!(net.changes_of(Host::B).len(), 1);
}

/// The requests that a peer has answered and forgotten are answered too: silence would be a sign that it has died.
#[test]
fn a_request_that_has_been_forgotten_is_answered() {
    let (mut net, _, _) = established(&config());
    let (number, last_tsn) = next_of_a(&net);
    let all = NumberList::from_wire_bytes(&[]);
    let reset = |k: u32| Parameter::OutgoingReset {
        request: number.wrapping_add(k),
        response: 0,
        last_tsn,
        streams: all,
    };
    for k in 0..40 {
        receive(&mut net, &[reset(k)]);
    }
    let before = results(&net, Host::B).len();
    for k in [0, 7, 8, 39, 40] {
        receive(&mut net, &[reset(k)]);
    }
    let bad = reconfig_result::BAD_SEQUENCE_NUMBER;
    let performed = reconfig_result::PERFORMED;
    assert_eq!(
        results(&net, Host::B)[before..],
        [bad, bad, performed, performed, performed]
    );
}

/// A user may ask its peer for what this one accepts and never does.
#[test]
fn requests_that_the_peer_has_accepted_are_limited() {
    let (mut net, a, _) = established(&AssociationConfig {
        outbound_streams: 100,
        ..config()
    });
    let (number, _) = next_of_a(&net);
    lose_requests(&mut net);
    let mut accepted = 0;
    let last = loop {
        let wish = StreamChange::ResetInbound(some(&[accepted]));
        let now = net.now;
        if let Err(error) = net.a.change_streams(now, a, wish) {
            break error;
        }
        net.drain(Host::A);
        let response = Parameter::ReconfigResponse {
            response: number.wrapping_add(accepted.into()),
            result: reconfig_result::IN_PROGRESS,
            next_tsns: None,
        };
        receive_at(&mut net, Host::A, &[response]);
        accepted += 1;
    };
    assert_eq!((accepted, last), (32, StreamChangeError::TooManyWaiting));
}

/// The longest request leaves no room for the response that is sent in the same chunk otherwise.
#[test]
fn a_request_and_a_response_that_do_not_fit_are_sent_in_two_chunks() {
    let (mut net, _, b) = established(&AssociationConfig {
        outbound_streams: 2000,
        ..config()
    });
    lose_requests(&mut net);
    change(&mut net, Host::B, b, StreamChange::AddOutbound(1));
    let now = net.now;
    let longest = (500..1000).rev().find(|&count| {
        let wish = StreamChange::ResetOutbound(StreamList::of(0..count));
        net.b.change_streams(now, b, wish).is_ok()
    });
    assert_eq!(longest, Some(724));
    let ((request, last_tsn), (response, _)) = (next_of_a(&net), numbers_of(&net, Host::B));
    let before = net.wire.len();
    receive(
        &mut net,
        &[
            Parameter::ReconfigResponse {
                response,
                result: reconfig_result::PERFORMED,
                next_tsns: None,
            },
            Parameter::OutgoingReset {
                request,
                response,
                last_tsn,
                streams: NumberList::from_wire_bytes(&[0, 1]),
            },
        ],
    );
    net.run_for(Span::from_millis(10));
    let sent: Vec<_> = net.wire[before..].iter().flat_map(reconfiguration).collect();
    assert!(matches!(
        sent[..],
        [Parameter::ReconfigResponse { .. }, Parameter::OutgoingReset { .. }]
            | [Parameter::OutgoingReset { .. }, Parameter::ReconfigResponse { .. }]
    ));
    // The MTU is 1500, of which the IPv4 header takes 20.
    assert!(net.wire.iter().all(|sent| sent.bytes.len() <= 1480));
}
