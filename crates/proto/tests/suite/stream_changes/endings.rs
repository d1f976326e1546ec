//! Shutdowns, restarts and dead peers while a change is requested.

use super::*;

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
// [6525:5.2.7-3, 5.2.7-4]
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

// [6525:5.1.1-11]
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
