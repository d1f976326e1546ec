//! Rules of RFC 6525 that the other tests do not show.

use super::*;
use crate::support::paths::path;

/// Returns the requests that a host has sent, each time that it did.
fn requested(net: &Net, host: Host) -> Vec<u32> {
    let sent = net.wire.iter().filter(|sent| sent.from == host);
    sent.flat_map(reconfiguration)
        .filter_map(|parameter| match parameter {
            Parameter::OutgoingReset { request, .. }
            | Parameter::IncomingReset { request, .. }
            | Parameter::AddOutgoingStreams { request, .. }
            | Parameter::AddIncomingStreams { request, .. } => Some(request),
            _ => None,
        })
        .collect()
}

// [6525:5.1.1-1]
#[test]
fn rfc_6525_5_1_1_init_and_init_ack_name_the_chunk() {
    let (net, ..) = established(&config());
    for (host, chunk_type) in [(Host::A, ChunkType::INIT), (Host::B, ChunkType::INIT_ACK)] {
        let sent = net.last(host, chunk_type);
        let names = sent.init().parameters.iter().any(
            |parameter| matches!(parameter, Ok(Parameter::SupportedExtensions(types)) if types.contains(&ChunkType::RE_CONFIG.0)),
        );
        assert!(names, "{host:?}");
    }
}

// [6525:5.1.1-5, 5.1.1-6, 5.1.2-4]
#[test]
fn rfc_6525_5_1_1_one_request_is_outstanding_and_the_others_wait() {
    let (mut net, a, _) = established(&config());
    lose_requests(&mut net);
    reset(&mut net, a, &[1]);
    reset(&mut net, a, &[2]);
    change(&mut net, Host::A, a, StreamChange::AddOutbound(1));
    let (first, _) = next_of_a(&net);
    assert_eq!(requested(&net, Host::A), [first]);
    net.run_for(Span::from_secs(10));
    assert!(requested(&net, Host::A).iter().all(|&number| number == first));
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(60));
    let mut numbers = requested(&net, Host::A);
    numbers.dedup();
    assert_eq!(numbers, [0, 1, 2].map(|place| first.wrapping_add(place)));
    let done = [
        StreamChange::ResetInbound(some(&[1])),
        StreamChange::ResetInbound(some(&[2])),
        StreamChange::AddInbound(1),
    ];
    assert_eq!(changes(&net, Host::B), done);
}

// [6525:5.1.1-7, 5.1.1-9, 5.1.1-10, 5.1.2-12, 5.1.3-8]
#[test]
fn rfc_6525_5_1_1_a_request_is_repeated_after_the_rto_which_doubles() {
    for wish in [
        StreamChange::ResetOutbound(some(&[1])),
        StreamChange::ResetInbound(some(&[1])),
    ] {
        let (mut net, a, b) = established(&config());
        for _ in 0..50 {
            send(&mut net, Host::A, a, 1, 1);
            send(&mut net, Host::B, b, 1, 1);
            net.run_for(Span::from_millis(500));
        }
        lose_requests(&mut net);
        let rto = path(&net, a, 0).rto;
        change(&mut net, Host::A, a, wish);
        net.run_for(rto * 8);
        let requests = net.wire.iter().filter(|sent| sent.has(ChunkType::RE_CONFIG));
        let times: Vec<_> = requests.map(|sent| sent.at).collect();
        let waits: Vec<_> = times.windows(2).map(|pair| pair[1].since(pair[0])).collect();
        assert_eq!(waits, [rto, rto * 2, rto * 4]);
    }
}

/// An empty list means all streams.
// [6525:5.1.2-8, 5.1.3-4]
#[test]
fn rfc_6525_5_1_2_requests_for_all_streams_list_none() {
    let (mut net, a, _) = established(&config());
    lose_requests(&mut net);
    change(&mut net, Host::A, a, StreamChange::ResetOutbound(StreamList::ALL));
    assert!(matches!(
        reconfiguration(&net.last(Host::A, ChunkType::RE_CONFIG))[..],
        [Parameter::OutgoingReset { streams, .. }] if streams.wire_bytes().is_empty()
    ));
    let (mut net, a, _) = established(&config());
    lose_requests(&mut net);
    change(&mut net, Host::A, a, StreamChange::ResetInbound(StreamList::ALL));
    assert!(matches!(
        reconfiguration(&net.last(Host::A, ChunkType::RE_CONFIG))[..],
        [Parameter::IncomingReset { streams, .. }] if streams.wire_bytes().is_empty()
    ));
}

// [6525:5.1.5-1, 5.1.5-2, 5.2.7-8, 5.2.7-9]
#[test]
fn rfc_6525_5_1_5_added_streams_are_used_after_the_response_from_0_on() {
    let (mut net, a, _) = established(&config());
    lose_requests(&mut net);
    change(&mut net, Host::A, a, StreamChange::AddOutbound(2));
    let now = net.now;
    assert!(net.a.send(now, a, Message::zeros(17, 10)).is_err());
    net.filter = Box::new(|_| Fate::Deliver);
    net.run_for(Span::from_secs(10));
    send(&mut net, Host::A, a, 17, 2);
    net.run_for(Span::from_secs(1));
    assert_eq!(numbers(&net, Host::A, 17), [0, 1]);
    assert_eq!(net.contents(Host::B).len(), 2);
}

/// It shows what is missing before the reset.
// [6525:5.2.1-3]
#[test]
fn rfc_6525_5_2_1_a_request_is_answered_with_a_sack_too() {
    let (mut net, a, _) = established(&config());
    net.send(Host::A, a, Message::zeros(1, 10));
    net.run_for(Span::from_secs(1));
    let (number, last_tsn) = next_of_a(&net);
    let before = net.count(Host::B, ChunkType::SACK);
    receive(
        &mut net,
        &[Parameter::OutgoingReset {
            request: number,
            response: 0,
            last_tsn,
            streams: NumberList::from_wire_bytes(&[0, 1]),
        }],
    );
    assert_eq!(results(&net, Host::B), [reconfig_result::PERFORMED]);
    assert_eq!(net.count(Host::B, ChunkType::SACK), before + 1);
}
