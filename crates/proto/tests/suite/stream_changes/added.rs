//! Added streams (RFC 6525 §5.1.5, §5.1.6, §5.2.5, §5.2.6).

use super::*;

// [6525:4.5-3, 4.6-3, 5.1.6-1, 5.2.5-1, 5.2.5-2, 5.2.6-1, 5.2.6-2]
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
    assert_eq!(numbers(&net, Host::B, 6), [0]);
    assert_eq!(net.contents(Host::A).len(), 1);
    // The request is not repeated.
    assert_eq!(net.count(Host::A, ChunkType::RE_CONFIG), 2);
}

// [6525:5.2.5-3]
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

/// The peer adds the streams while the request for them waits to be sent again.
#[test]
fn streams_that_the_peer_has_added_are_not_asked_for_again() {
    let (mut net, a, b) = established(&AssociationConfig {
        outbound_streams: 5,
        max_outbound_streams: Some(20),
        ..config()
    });
    net.auto_read = false;
    send(&mut net, Host::A, a, 1, 1);
    send(&mut net, Host::B, b, 1, 1);
    net.run_for(Span::from_secs(1));
    change(&mut net, Host::B, b, StreamChange::ResetOutbound(some(&[1])));
    net.run_for(Span::from_secs(1));
    change(&mut net, Host::A, a, StreamChange::AddInbound(2));
    net.run_for(Span::from_secs(1));
    // Its reset waits for B's reader, and the repeated request for the response to it.
    reset(&mut net, a, &[1]);
    net.run_for(Span::from_secs(70));
    net.read(Host::A, a);
    net.drain(Host::A);
    net.run_for(Span::from_secs(120));
    assert_eq!(
        changes(&net, Host::A),
        [StreamChange::ResetInbound(some(&[1])), StreamChange::AddInbound(2)]
    );
    net.read(Host::B, b);
    net.drain(Host::B);
    net.run_for(Span::from_secs(3600));
    assert_eq!(asked(&net, Host::A), 1);
    assert_eq!(changes(&net, Host::A)[2..], [StreamChange::ResetOutbound(some(&[1]))]);
}

/// The peer adds streams of its own accord, and refuses those that it is asked for.
#[test]
fn another_number_of_streams_is_not_the_answer_to_a_request() {
    let (mut net, a, b) = established(&AssociationConfig {
        outbound_streams: 5,
        ..config()
    });
    let now = net.now;
    net.a
        .change_streams(now, a, StreamChange::AddInbound(3))
        .expect("accepted");
    net.b
        .change_streams(now, b, StreamChange::AddOutbound(1))
        .expect("accepted");
    net.drain(Host::A);
    net.drain(Host::B);
    net.run_for(Span::from_secs(5));
    assert_eq!(changes(&net, Host::A), [StreamChange::AddInbound(1)]);
    let refused = |event: &Event| matches!(event, Event::StreamChangeRefused { .. });
    assert!(net.events_of(Host::A).iter().any(refused));
}
