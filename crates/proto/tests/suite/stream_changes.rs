//! Streams that are reset and added (RFC 6525).

use crate::support::messages::{nothing_is_held, number_of, numbered};
use crate::support::{Fate, Host, Net, Sent, addrs, endpoint, port, view};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, Event, Message, Reliability, Scheduler, State, StreamChange, StreamChangeError,
    StreamList,
};
use whimbrel_wire::{Chunk, ChunkType, NumberList, Parameter, Parameters, Tsn, reconfig_result};

fn config() -> AssociationConfig {
    AssociationConfig {
        stream_changes: true,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

fn some(streams: &[u16]) -> StreamList {
    StreamList::of(streams.iter().copied())
}

/// Returns an established association between ends with these settings, with all of its packets.
fn between(own: &AssociationConfig, peer: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let mut net = Net::with_config(1, peer, 1);
    net.capture = true;
    net.a = endpoint(Host::A, 1, own, 5);
    let a = net.connect(own, 1);
    net.run_for(Span::from_secs(1));
    let b = net.only(Host::B);
    (net, a, b)
}

fn established(config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    between(config, config)
}

fn change(net: &mut Net, host: Host, id: AssocId, change: StreamChange) {
    let now = net.now;
    net.host(host)
        .change_streams(now, id, change)
        .expect("the change is accepted");
    net.drain(host);
}

fn reset(net: &mut Net, a: AssocId, streams: &[u16]) {
    change(net, Host::A, a, StreamChange::ResetOutbound(some(streams)));
}

/// Returns the message numbers of the chunks of data that a host has sent on a stream: SSN or MID.
fn numbers(net: &Net, host: Host, stream: u16) -> Vec<u32> {
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    let data = sent.flat_map(|sent| {
        sent.data()
            .into_iter()
            .map(|data| (data.stream, data.number))
            .collect::<Vec<_>>()
    });
    data.filter(|(of, _)| *of == stream)
        .map(|(_, number)| match number {
            whimbrel_wire::MessageNumber::Ssn(ssn) => ssn.0.into(),
            whimbrel_wire::MessageNumber::Mid(mid) => mid.0,
        })
        .collect()
}

/// Returns the parameters of the RE-CONFIG chunks of a packet.
fn reconfiguration(sent: &Sent) -> Vec<Parameter<'_>> {
    let lists = sent.chunks().into_iter().filter_map(|chunk| match chunk {
        Chunk::ReConfig { parameters } => Some(parameters),
        _ => None,
    });
    lists
        .flat_map(|parameters| parameters.iter().map(|parameter| parameter.expect("valid")))
        .collect()
}

/// Returns the results of the responses that a host has sent.
fn results(net: &Net, host: Host) -> Vec<u32> {
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    sent.flat_map(reconfiguration)
        .filter_map(|parameter| match parameter {
            Parameter::ReconfigResponse { result, .. } => Some(result),
            _ => None,
        })
        .collect()
}

fn emit(parameters: &[Parameter<'_>]) -> Vec<u8> {
    let mut list = Vec::new();
    parameters.iter().for_each(|parameter| parameter.emit(&mut list));
    list
}

/// B receives a RE-CONFIG with these parameters.
fn receive(net: &mut Net, parameters: &[Parameter<'_>]) {
    let list = emit(parameters);
    let parameters = Parameters::from_wire_bytes(&list);
    let _ = net.as_peer(Host::B, &[Chunk::ReConfig { parameters }]);
    net.drain(Host::B);
}

/// Returns the number of the next request of A, and the last TSN that it has assigned.
fn next_of_a(net: &Net) -> (u32, Tsn) {
    let initial = net
        .wire
        .iter()
        .find(|sent| sent.has(ChunkType::INIT))
        .expect("A has sent INIT");
    let initial = initial.init().initial_tsn;
    let tsns = net.wire.iter().filter(|sent| sent.from == Host::A).flat_map(Sent::tsns);
    let last = tsns.last().unwrap_or(initial.0.wrapping_sub(1));
    (initial.0, Tsn(last))
}

#[test]
fn rfc_6525_5_1_2_messages_after_a_reset_start_at_0_and_wait_for_the_response() {
    for interleaving in [false, true] {
        let config = AssociationConfig {
            interleaving,
            ..config()
        };
        let (mut net, a, b) = established(&config);
        for number in 0..3 {
            net.send(
                Host::A,
                a,
                Message {
                    stream: 1,
                    ..numbered(number, 10, Reliability::Full)
                },
            );
            net.send(
                Host::A,
                a,
                Message {
                    stream: 2,
                    ..numbered(100, 10, Reliability::Full)
                },
            );
        }
        reset(&mut net, a, &[1]);
        for number in 3..6 {
            net.send(
                Host::A,
                a,
                Message {
                    stream: 1,
                    ..numbered(number, 10, Reliability::Full)
                },
            );
            net.send(
                Host::A,
                a,
                Message {
                    stream: 2,
                    ..numbered(100, 10, Reliability::Full)
                },
            );
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

#[test]
fn rfc_6525_5_1_1_a_request_is_repeated_and_performed_once() {
    let (mut net, a, _) = established(&config());
    net.send(
        Host::A,
        a,
        Message {
            stream: 1,
            ..numbered(0, 10, Reliability::Full)
        },
    );
    net.run_for(Span::from_secs(1));
    let mut lost = 0;
    net.filter = Box::new(move |packet| {
        let is_first = packet.has(ChunkType::RE_CONFIG) && packet.from == Host::B && lost < 2;
        lost += u32::from(is_first);
        if is_first { Fate::Drop } else { Fate::Deliver }
    });
    reset(&mut net, a, &[1]);
    let request = net.last(Host::A, ChunkType::RE_CONFIG).bytes.clone();
    net.send(
        Host::A,
        a,
        Message {
            stream: 1,
            ..numbered(1, 10, Reliability::Full)
        },
    );
    net.run_for(Span::from_secs(10));
    assert_eq!(net.count(Host::A, ChunkType::RE_CONFIG), 3);
    assert_eq!(net.contents(Host::B).len(), 2);
    // A late copy of the request does not reset the stream that is in use again.
    net.deliver(Host::B, &request).unwrap();
    net.drain(Host::B);
    net.send(
        Host::A,
        a,
        Message {
            stream: 1,
            ..numbered(2, 10, Reliability::Full)
        },
    );
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

/// The window is not open for all messages from before at once.
#[test]
fn rfc_6525_5_1_2_a_request_follows_all_data_before_it() {
    let (mut net, a, _) = established(&config());
    for number in 0..30 {
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                ..numbered(number, 1400, Reliability::Full)
            },
        );
    }
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    assert_eq!(net.count(Host::A, ChunkType::RE_CONFIG), 0);
    net.run_for(Span::from_secs(5));
    let wanted: Vec<u32> = (0..30).chain([0]).collect();
    assert_eq!(numbers(&net, Host::A, 1), wanted);
    assert_eq!(net.changes_of(Host::B)[0].0, 30);
}

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
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                ..numbered(number, 1000, Reliability::Full)
            },
        );
    }
    reset(&mut net, a, &[1]);
    net.send(
        Host::A,
        a,
        Message {
            stream: 1,
            ..numbered(3, 10, Reliability::Full)
        },
    );
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
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                ..numbered(0, 12_000, Reliability::Full)
            },
        );
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                ..numbered(1, 100, Reliability::Full)
            },
        );
        reset(&mut net, a, &[1]);
        net.send(
            Host::A,
            a,
            Message {
                stream: 1,
                ..numbered(2, 10, Reliability::Full)
            },
        );
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

#[test]
fn all_streams_are_reset_by_an_empty_list() {
    let (mut net, a, _) = established(&config());
    for stream in [1, 2, 3] {
        net.send(Host::A, a, Message::zeros(stream, 10));
    }
    change(&mut net, Host::A, a, StreamChange::ResetOutbound(StreamList::All));
    for stream in [1, 2, 3] {
        net.send(Host::A, a, Message::zeros(stream, 10));
    }
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B).len(), 6);
    assert!((1..=3).all(|stream| numbers(&net, Host::A, stream) == [0, 0]));
}

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

/// The peer shuts down while a response is under way.
#[test]
fn a_shutdown_by_the_peer_does_not_end_a_reset() {
    let (mut net, a, b) = established(&config());
    net.send(Host::A, a, Message::zeros(1, 10));
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    let now = net.now;
    net.b.shutdown(now, b);
    net.drain(Host::B);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B).len(), 2);
    for host in [Host::A, Host::B] {
        assert_eq!(net.close_reason(host), Some(whimbrel_proto::CloseReason::Graceful));
    }
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

/// Messages that wait for a reset are given up like others.
#[test]
fn messages_that_wait_for_a_reset_are_given_up() {
    let own = AssociationConfig {
        partial_reliability: true,
        send_buffer: 10_000,
        max_message: None,
        ..config()
    };
    let (mut net, a, _) = established(&own);
    net.auto_read = false;
    net.send(Host::A, a, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    reset(&mut net, a, &[1]);
    let waits = |number, limit| Message {
        stream: 1,
        ..numbered(number, 4000, limit)
    };
    net.send(Host::A, a, waits(0, Reliability::Lifetime(Span::from_millis(100))));
    net.send(Host::A, a, waits(1, Reliability::Priority(5)));
    net.run_for(Span::from_secs(5));
    let given_up = crate::support::messages::given_up;
    assert_eq!(given_up(&net), [(0, false)]);
    // One of a higher priority needs the room.
    let now = net.now;
    let urgent = Message {
        stream: 2,
        ..numbered(2, 9000, Reliability::Priority(0))
    };
    net.a.send(now, a, urgent).unwrap();
    net.drain(Host::A);
    assert_eq!(given_up(&net), [(0, false), (1, false)]);
}

/// The user of the peer does not read, so that the reset never ends.
#[test]
fn a_shutdown_that_waits_for_a_reset_ends() {
    let own = AssociationConfig {
        shutdown_guard: Some(Span::from_secs(60)),
        ..config()
    };
    let (mut net, a, _) = established(&own);
    net.auto_read = false;
    net.send(Host::A, a, Message::zeros(1, 10));
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(200));
    assert_eq!(
        net.close_reason(Host::A),
        Some(whimbrel_proto::CloseReason::ShutdownTimeout)
    );
}

/// The peer dies after it has answered that a reset is in progress.
#[test]
fn a_peer_that_stops_answering_is_noticed() {
    let own = AssociationConfig {
        association_max_retrans: 3,
        path_max_retrans: 3,
        ..config()
    };
    let (mut net, a, _) = established(&own);
    net.auto_read = false;
    net.send(Host::A, a, Message::zeros(1, 10));
    reset(&mut net, a, &[1]);
    // The responses count for nothing.
    net.run_for(Span::from_secs(600));
    assert_eq!(net.state(Host::A, a), State::Established);
    assert!(results(&net, Host::B).contains(&reconfig_result::IN_PROGRESS));
    net.filter = Box::new(|_| Fate::Drop);
    net.run_for(Span::from_secs(600));
    assert_eq!(
        net.close_reason(Host::A),
        Some(whimbrel_proto::CloseReason::PeerUnreachable)
    );
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

#[test]
fn streams_are_added_in_both_directions() {
    let own = AssociationConfig {
        outbound_streams: 5,
        ..config()
    };
    let (mut net, a, b) = established(&own);
    change(&mut net, Host::A, a, StreamChange::AddOutbound(3));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.changes_of(Host::A), [(0, StreamChange::AddOutbound(3))]);
    assert_eq!(net.changes_of(Host::B), [(0, StreamChange::AddInbound(3))]);
    net.send(Host::A, a, Message::zeros(7, 10));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::B).len(), 1);
    // B sends on five streams, as many as it wants: the request is denied.
    change(&mut net, Host::A, a, StreamChange::AddInbound(1));
    net.run_for(Span::from_secs(1));
    let refused = Event::StreamChangeRefused {
        change: StreamChange::AddInbound(1),
        result: reconfig_result::DENIED,
    };
    assert!(net.events_of(Host::A).contains(&refused));
    assert_eq!(net.b.association(b).unwrap().outbound_streams(), 5);

    let more = AssociationConfig {
        max_outbound_streams: Some(7),
        ..own
    };
    let (mut net, a, b) = established(&more);
    change(&mut net, Host::A, a, StreamChange::AddInbound(2));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.changes_of(Host::A), [(0, StreamChange::AddInbound(2))]);
    assert_eq!(net.changes_of(Host::B), [(0, StreamChange::AddOutbound(2))]);
    net.send(Host::B, b, Message::zeros(6, 10));
    net.run_for(Span::from_secs(200));
    assert_eq!(net.contents(Host::A).len(), 1);
    // The request is not repeated.
    assert_eq!(net.count(Host::A, ChunkType::RE_CONFIG), 2);
}

#[test]
fn rfc_6525_5_2_6_the_peer_is_asked_for_streams_that_it_lacks() {
    let few = AssociationConfig {
        max_inbound_streams: 2,
        ..config()
    };
    let (mut net, a, b) = between(&few, &config());
    assert_eq!(net.b.association(b).unwrap().outbound_streams(), 2);
    // A accepts two.
    change(&mut net, Host::B, b, StreamChange::AddOutbound(3));
    net.run_for(Span::from_secs(1));
    assert_eq!(results(&net, Host::A), [reconfig_result::DENIED]);
    let (now, wish) = (net.now, StreamChange::AddInbound(2));
    assert_eq!(net.a.change_streams(now, a, wish), Err(StreamChangeError::OverLimit(2)));
    assert_eq!(net.b.association(b).unwrap().outbound_streams(), 2);
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
        Err(StreamChangeError::Number(16))
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

#[test]
fn a_peer_without_stream_changes_is_sent_no_request() {
    for (own, peer) in [(true, false), (false, true)] {
        let with = |stream_changes| AssociationConfig {
            stream_changes,
            ..config()
        };
        let (mut net, a, _) = between(&with(own), &with(peer));
        let now = net.now;
        let wish = StreamChange::ResetOutbound(StreamList::All);
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
    assert_eq!(results(&net, Host::B), [reconfig_result::BAD_SEQUENCE_NUMBER]);
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
        results(&net, Host::B)[1..],
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

#[test]
fn a_shutdown_waits_for_messages_behind_a_reset() {
    let (mut net, a, _) = established(&config());
    net.send(Host::A, a, Message::zeros(1, 10));
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    let now = net.now;
    net.a.shutdown(now, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B).len(), 2);
    assert_eq!(net.close_reason(Host::A), Some(whimbrel_proto::CloseReason::Graceful));
}

#[test]
fn a_peer_that_answers_no_request_is_unreachable() {
    let own = AssociationConfig {
        association_max_retrans: 4,
        path_max_retrans: 4,
        ..config()
    };
    let (mut net, a, _) = established(&own);
    net.filter = Box::new(|packet| {
        if packet.from == Host::A {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    reset(&mut net, a, &[1]);
    net.run_for(Span::from_secs(120));
    assert_eq!(
        net.close_reason(Host::A),
        Some(whimbrel_proto::CloseReason::PeerUnreachable)
    );
}

#[test]
fn a_restart_ends_requests_and_their_numbers_start_with_the_new_tsns() {
    let (mut net, a, _) = established(&config());
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::RE_CONFIG) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    net.send(Host::A, a, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    reset(&mut net, a, &[1]);
    net.send(Host::A, a, Message::zeros(1, 10));
    net.run_for(Span::from_millis(100));
    // B loses its state and connects.
    net.b = endpoint(Host::B, 1, &config(), 77);
    let (now, peer) = (net.now, addrs(Host::A, 1));
    let to = port(Host::A);
    let b = net.b.connect(now, config(), to, &peer).expect("valid");
    net.drain(Host::B);
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(2));
    assert!(net.events_of(Host::A).contains(&Event::Restarted));
    let failed = |event: &Event| matches!(event, Event::SendFailed(_));
    assert_eq!(net.events_of(Host::A).iter().filter(|event| failed(event)).count(), 1);
    net.wire.clear();
    net.send(Host::A, a, Message::zeros(1, 10));
    net.send(Host::B, b, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    reset(&mut net, a, &[1]);
    change(&mut net, Host::B, b, StreamChange::ResetOutbound(some(&[1])));
    net.run_for(Span::from_secs(1));
    assert_eq!(results(&net, Host::A), [reconfig_result::PERFORMED]);
    assert_eq!(results(&net, Host::B), [reconfig_result::PERFORMED]);
    net.send(Host::A, a, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    assert_eq!(numbers(&net, Host::A, 1), [0, 0]);
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
            net.send(
                Host::A,
                a,
                Message {
                    stream: 1,
                    ..numbered(number, 10, Reliability::Full)
                },
            );
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
            net.send(
                Host::A,
                a,
                Message {
                    stream: 1,
                    ..numbered(number, 10, Reliability::Full)
                },
            );
        }
        net.run_for(Span::from_secs(10));
        let read: Vec<_> = net.contents(Host::B).iter().map(|content| number_of(content)).collect();
        let wanted: Vec<u32> = (0..21).chain(22..25).collect();
        assert_eq!(read, wanted, "{interleaving} {response_is_late}");
        nothing_is_held(&net, a, b);
    }
}

/// A message of a random transfer: the number of its stream's reset, and its own.
fn generation_of(content: &[u8]) -> (u32, u32) {
    let number = number_of(content);
    (number >> 16, number & 0xffff)
}

/// Messages with losses, give-ups and any scheduler, while streams are reset again and again: messages arrive in the order of their
/// stream, those from before a reset are read before the notification, and those from after it later.
#[test]
fn resets_separate_the_messages_of_random_transfers() {
    for seed in crate::random_messages::seeds(200) {
        let mut rng = Rng::stream(seed, "stream changes");
        let paths = 1 + rng.below(2) as usize;
        let own = AssociationConfig {
            interleaving: rng.chance(0.5),
            partial_reliability: rng.chance(0.5),
            scheduler: Scheduler::ALL[rng.below(6) as usize],
            recv_buffer: [100_000, 9000][rng.below(2) as usize],
            outbound_streams: 4,
            path_max_retrans: 20,
            association_max_retrans: 60,
            ..config()
        };
        let mut net = Net::with_config(paths, &own, seed);
        let a = net.connect(&own, paths);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        crate::random_messages::disturb(&mut net, seed, 0.15 * rng.unit());
        let (mut generations, mut sent) = ([0_u32; 4], Vec::new());
        for number in 0..150_u32 {
            let stream = rng.below(4) as u16;
            if rng.chance(0.15) {
                let list = some(&if rng.chance(0.2) { vec![] } else { vec![stream] });
                let now = net.now;
                let wish = StreamChange::ResetOutbound(list.clone());
                if net.a.change_streams(now, a, wish).is_ok() {
                    (0..4)
                        .filter(|&stream| list.contains(stream))
                        .for_each(|stream| generations[usize::from(stream)] += 1);
                }
            }
            let content = generations[usize::from(stream)] << 16 | number;
            let most = [100, 1500, 6000][rng.below(3) as usize];
            let len = 4 + rng.below(most) as usize;
            let is_limited = own.partial_reliability && rng.chance(0.3);
            let limit = if is_limited {
                Reliability::Lifetime(Span::from_millis(rng.below(300)))
            } else {
                Reliability::Full
            };
            let message = Message {
                stream,
                unordered: rng.chance(0.2),
                ..numbered(content, len, limit)
            };
            let now = net.now;
            if net.a.send(now, a, message.clone()).is_ok() {
                sent.push((stream, content, limit));
            }
            net.auto_read = rng.chance(0.7);
            if net.auto_read {
                net.read(Host::B, b);
            }
            net.drain(Host::A);
            net.run_for(Span::from_millis(rng.below(40)));
        }
        net.auto_read = true;
        for second in 0..400 {
            if second == 20 {
                net.filter = Box::new(|_| Fate::Deliver);
            }
            net.read(Host::B, b);
            net.drain(Host::B);
            net.run_for(Span::from_secs(1));
            if net.changes_of(Host::A).len() == net.changes_of(Host::B).len()
                && net.a.association(a).unwrap().buffered_send() == 0
            {
                break;
            }
        }
        // The last FORWARD TSN may not have arrived.
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(150));
        assert_eq!(net.state(Host::A, a), State::Established, "{seed}");
        assert_generations(&net, seed, generations, &sent);
        nothing_is_held(&net, a, b);
    }
}

fn assert_generations(net: &Net, seed: u64, last: [u32; 4], sent: &[(u16, u32, Reliability)]) {
    let mut generations = [0_u32; 4];
    let mut changes = net.changes_of(Host::B).into_iter().peekable();
    let mut ordered = [None; 4];
    let mut read_all = Vec::new();
    for (read, (stream, unordered, content)) in net.messages[&Host::B].iter().enumerate() {
        while let Some((_, change)) = changes.next_if(|(before, _)| *before <= read) {
            let StreamChange::ResetInbound(list) = change else {
                panic!("{change:?}")
            };
            (0..4)
                .filter(|&stream| list.contains(stream))
                .for_each(|stream| generations[usize::from(stream)] += 1);
        }
        let stream = usize::from(*stream);
        let (generation, number) = generation_of(content);
        assert_eq!(
            generation, generations[stream],
            "{seed}: message {number} of stream {stream}"
        );
        if !unordered {
            assert!(ordered[stream].replace(number) < Some(number), "{seed}");
        }
        read_all.push(number_of(content));
    }
    for (_, change) in changes {
        let StreamChange::ResetInbound(list) = change else {
            panic!("{change:?}")
        };
        (0..4)
            .filter(|&stream| list.contains(stream))
            .for_each(|stream| generations[usize::from(stream)] += 1);
    }
    assert_eq!(generations, last, "{seed}");
    for (_, content, limit) in sent {
        let times = read_all.iter().filter(|read| *read == content).count();
        assert!(
            times == 1 || times == 0 && *limit != Reliability::Full,
            "{seed}: {content} {times}"
        );
    }
}
