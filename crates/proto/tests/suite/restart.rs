//! A peer that lost its state and opens the association again, also during a shutdown (RFC 9260 §5.2.4 A, §9.2).

use crate::support::{Fate, Host, Net, addrs, endpoint, init};
use whimbrel_control::multipath::Accounting;
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, Message, SendError,
    SendFailureCause, State,
};
use whimbrel_wire::{Chunk, ChunkType, Tsn};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

fn connect(net: &mut Net, from: Host, paths: usize) -> AssocId {
    let (now, port) = (net.now, crate::support::port(from.other()));
    let id = net.host(from).connect(now, config(), port, &addrs(from.other(), paths));
    let id = id.expect("the association can be opened");
    net.drain(from);
    id
}

/// A loses all its state and opens the association again, with `paths` addresses.
fn restart_a(net: &mut Net, paths: usize) -> AssocId {
    // Different random numbers each time.
    net.a = endpoint(Host::A, paths, &config(), net.now.as_nanos());
    connect(net, Host::A, 1)
}

// [9260:5.2.4-4, 5.2.4-5, 5.2.2-5, 7.2.5-1]
#[test]
fn section_5_2_4_a_a_restarted_peer_is_recognized_and_the_state_is_reset() {
    let (mut net, _, b) = Net::established(2, &config());
    for _ in 0..50 {
        net.send(Host::B, b, Message::zeros(0, 1000));
    }
    net.run_for(Span::from_secs(1));
    let grown = net
        .b
        .association(b)
        .expect("established")
        .paths()
        .next()
        .expect("a path")
        .cwnd;
    assert!(grown > 4404);
    net.filter = Box::new(|_| Fate::Drop);
    net.send(Host::B, b, Message::new(0, &b"lost with the old association"[..]));
    net.filter = Box::new(|_| Fate::Deliver);
    net.messages.clear();
    let a = restart_a(&mut net, 2);
    net.run_for(Span::from_secs(1));
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, b)),
        (State::Established, State::Established)
    );
    assert_eq!(
        net.events_of(Host::B)
            .iter()
            .filter(|event| **event == Event::Restarted)
            .count(),
        1
    );
    assert_eq!(net.close_reason(Host::B), None, "reported as a restart, not as an end");
    assert_eq!(
        net.b
            .association(b)
            .expect("established")
            .paths()
            .next()
            .expect("a path")
            .cwnd,
        4404
    );
    net.send(Host::A, a, Message::new(0, &b"new"[..]));
    net.send(Host::B, b, Message::new(0, &b"answer"[..]));
    net.run_for(Span::from_secs(5));
    assert_eq!(
        (net.contents(Host::B), net.contents(Host::A)),
        (vec![b"new".to_vec()], vec![b"answer".to_vec()])
    );
}

/// B ends associations whose peer restarts.
fn ends_at_restart(listen: bool, backlog: Option<usize>) -> Net {
    let mut net = Net::new(1);
    let config = EndpointConfig {
        local_port: 4002,
        local_addrs: addrs(Host::B, 1),
        listen,
        backlog,
        continue_after_restart: false,
        ..EndpointConfig::default()
    };
    net.b = Endpoint::new(config, Box::new(Rng::stream(1, "b"))).expect("valid");
    net
}

#[test]
fn an_association_that_does_not_continue_ends_and_the_new_one_is_accepted() {
    let mut net = ends_at_restart(true, None);
    net.auto_read = false;
    let first = connect(&mut net, Host::A, 1);
    net.run_for(Span::from_secs(1));
    let old = net.only(Host::B);
    net.send(Host::A, first, Message::new(0, &b"old"[..]));
    net.run_for(Span::from_secs(1));
    net.filter = Box::new(|_| Fate::Drop);
    net.send(Host::B, old, Message::new(0, &b"for the old process"[..]));
    net.filter = Box::new(|_| Fate::Deliver);
    let a = restart_a(&mut net, 1);
    // It goes with the COOKIE ECHO.
    net.send(Host::A, a, Message::new(0, &b"new"[..]));
    net.run_for(Span::from_secs(1));
    let new = net.b.associations().find(|id| *id != old).expect("accepted");
    let of = |net: &Net, id| -> Vec<Event> {
        let of = net.events[&Host::B].iter().filter(|(of, _)| *of == id);
        of.map(|(_, event)| event.clone()).collect()
    };
    let ended = of(&net, old);
    assert!(!ended.contains(&Event::Restarted));
    let [
        ..,
        Event::SendFailed(failure),
        Event::Closed(CloseReason::PeerRestarted),
    ] = ended.as_slice()
    else {
        panic!("{ended:?}")
    };
    assert_eq!(failure.cause, SendFailureCause::Restarted);
    assert!(matches!(
        of(&net, new)[..],
        [Event::Connected { accepted: true, .. }, Event::DataReady]
    ));
    assert_eq!(net.state(Host::A, a), State::Established);
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0);
    net.read(Host::B, new);
    net.read(Host::B, old);
    assert_eq!(net.contents(Host::B), [b"new", b"old"], "each on its own association");
    assert_eq!(net.only(Host::B), new);
    net.send(Host::B, new, Message::new(0, &b"answer"[..]));
    net.run_for(Span::from_secs(1));
    net.read(Host::A, a);
    assert_eq!(net.contents(Host::A), [b"answer"]);
}

#[test]
fn without_a_listener_a_restart_ends_the_association_and_is_refused() {
    let mut net = ends_at_restart(false, None);
    // B opens the association to A, which listens only in its first life.
    let mut first = EndpointConfig {
        local_port: 4001,
        local_addrs: addrs(Host::A, 1),
        listen: true,
        ..EndpointConfig::default()
    };
    net.a = Endpoint::new(first.clone(), Box::new(Rng::stream(2, "a"))).expect("valid");
    first.listen = false;
    let b = connect(&mut net, Host::B, 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::B, b), State::Established);
    net.a = Endpoint::new(first, Box::new(Rng::stream(3, "a"))).expect("valid");
    net.events.clear();
    let a = connect(&mut net, Host::A, 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::PeerRestarted));
    let aborted = CloseReason::AbortedByPeer {
        cause: None,
        reason: String::new(),
    };
    assert_eq!(
        (net.state(Host::A, a), net.close_reason(Host::A)),
        (State::Closed, Some(aborted))
    );
    assert_eq!(net.b.associations().count(), 0);
}

#[test]
fn a_restart_waits_while_the_backlog_is_full() {
    let mut net = ends_at_restart(true, Some(1));
    connect(&mut net, Host::A, 1);
    net.run_for(Span::from_secs(1));
    let old = net.only(Host::B);
    let a = restart_a(&mut net, 1);
    net.run_for(Span::from_millis(500));
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, old)),
        (State::CookieEchoed, State::Established)
    );
    net.b.on_taken();
    net.run_for(Span::from_secs(1));
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, old)),
        (State::Established, State::Closed)
    );
}

// [9260:5.1-18]
#[test]
fn section_5_1_the_first_data_after_a_restart_is_acknowledged_at_once() {
    let (mut net, first, _) = Net::established(1, &config());
    net.send(Host::A, first, Message::zeros(0, 100));
    net.run_for(Span::from_secs(1));
    let a = restart_a(&mut net, 1);
    net.run_for(Span::from_secs(1));
    let start = net.now;
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(1));
    net.send(Host::A, a, Message::zeros(0, 100));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.times(Host::B, ChunkType::SACK, start), [10, 1210]);
}

#[test]
fn a_restarted_association_uses_its_paths_as_before() {
    // The state of distribution and coupling, and the room for copies of chunks, are reset with everything else.
    let config = AssociationConfig {
        accounting: Some(Accounting::Path),
        distribution: DistributionSpec::by_name("redundant"),
        ..config()
    };
    let (mut net, _, b) = Net::established(2, &config);
    net.run_for(Span::from_secs(5));
    let copies = |net: &mut Net| {
        let before = net.b.association(b).expect("established").stats().copies;
        for _ in 0..20 {
            net.send(Host::B, b, Message::zeros(0, 1440));
        }
        net.run_for(Span::from_secs(5));
        assert_eq!(net.b.association(b).expect("established").buffered_send(), 0);
        net.b.association(b).expect("established").stats().copies - before
    };
    assert_eq!(copies(&mut net), 20);
    restart_a(&mut net, 2);
    net.run_for(Span::from_secs(5));
    assert!(net.events_of(Host::B).contains(&Event::Restarted));
    assert_eq!(copies(&mut net), 20);
}

// [9260:5.2.4-4]
#[test]
fn section_5_2_4_a_a_restart_is_accepted_in_every_state_but_one() {
    for state in [State::ShutdownPending, State::ShutdownSent, State::ShutdownReceived] {
        let (mut net, _, b) = Net::established(1, &config());
        net.filter = Box::new(|_| Fate::Drop);
        if state != State::ShutdownSent {
            net.send(Host::B, b, Message::zeros(0, 10));
        }
        if state == State::ShutdownReceived {
            let cumulative_tsn_ack = Tsn(net.last(Host::B, ChunkType::DATA).tsns()[0].wrapping_sub(1));
            net.as_peer(Host::B, &[Chunk::Shutdown { cumulative_tsn_ack }])
                .expect("accepted");
        } else {
            let now = net.now;
            net.b.shutdown(now, b);
            net.drain(Host::B);
        }
        assert_eq!(net.state(Host::B, b), state);
        net.filter = Box::new(|_| Fate::Deliver);
        let a = restart_a(&mut net, 1);
        net.run_for(Span::from_secs(20));
        assert_eq!(net.state(Host::B, b), State::Established, "{state:?}");
        assert_eq!(net.state(Host::A, a), State::Established, "{state:?}");
        assert!(net.events_of(Host::B).contains(&Event::Restarted));
    }
}

/// Unacknowledged messages are reported as failed, and a user who waits for buffer space or for the end of sending is notified.
#[test]
fn section_11_2_2_a_restart_gives_up_unacknowledged_messages() {
    let config = AssociationConfig {
        send_buffer: 10_000,
        ..config()
    };
    let (mut net, _, b) = Net::established(1, &config);
    net.filter = Box::new(|_| Fate::Drop);
    for context in 0..10 {
        let message = Message {
            context,
            ..Message::zeros(0, 1000)
        };
        net.send(Host::B, b, message);
    }
    let now = net.now;
    assert!(matches!(
        net.b.send(now, b, Message::zeros(0, 1000)),
        Err(SendError::Full(_))
    ));
    net.filter = Box::new(|_| Fate::Deliver);
    net.events.clear();
    restart_a(&mut net, 1);
    net.run_for(Span::from_millis(500));
    let events = net.events_of(Host::B);
    let failed = events.iter().map_while(|event| match event {
        Event::SendFailed(failure) => Some((failure.context, failure.cause)),
        _ => None,
    });
    let failed: Vec<_> = failed.collect();
    let expected: Vec<_> = (0..10).map(|context| (context, SendFailureCause::Restarted)).collect();
    assert_eq!(failed, expected);
    assert_eq!(events[10..], [Event::SendSpace, Event::SendIdle, Event::Restarted]);
    net.send(Host::B, b, Message::new(0, &b"new"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(net.contents(Host::A), [b"new"]);
}

/// Acknowledged messages that have not been read are not lost; incomplete messages are dropped.
#[test]
fn messages_received_before_a_restart_can_be_read_after_it() {
    let config = AssociationConfig {
        recv_buffer: 5000,
        ..config()
    };
    let (mut net, a, b) = Net::established(1, &config);
    net.auto_read = false;
    let read = |net: &mut Net| {
        let (now, mut text) = (net.now, Vec::new());
        let received = net.b.recv(now, b, &mut |part| part.append_to(&mut text))?;
        Some((received.begin, received.end, text))
    };
    net.send(Host::A, a, Message::new(1, &b"whole"[..]));
    net.send(Host::A, a, Message::new(0, vec![7; 20_000]));
    net.run_for(Span::from_secs(1));
    assert_eq!(read(&mut net), Some((true, true, b"whole".to_vec())));
    let (begin, end, text) = read(&mut net).expect("as much as the buffer holds");
    assert!(begin && !end && text.len() > 2000);
    net.drain(Host::B);
    net.run_for(Span::from_secs(1));
    let a = restart_a(&mut net, 1);
    net.run_for(Span::from_secs(1));
    net.send(Host::A, a, Message::new(0, &b"unread"[..]));
    net.run_for(Span::from_secs(1));
    let again = restart_a(&mut net, 1);
    net.run_for(Span::from_secs(1));
    net.send(Host::A, again, Message::new(0, &b"new"[..]));
    net.run_for(Span::from_secs(1));
    assert_eq!(read(&mut net), Some((true, true, b"unread".to_vec())));
    assert_eq!(read(&mut net), Some((true, true, b"new".to_vec())));
    assert_eq!(read(&mut net), None);
    assert_eq!(net.b.association(b).expect("established").buffered_receive(), 0);
}

#[test]
fn section_5_2_4_a_a_restart_with_more_addresses_is_refused() {
    let (mut net, _, b) = Net::established(1, &config());
    restart_a(&mut net, 2);
    net.run_for(Span::from_secs(1));
    assert_eq!(
        net.close_reason(Host::A),
        Some(CloseReason::Refused { cause: Some(11) })
    );
    assert_eq!(net.state(Host::B, b), State::Established);
    assert!(!net.events_of(Host::B).contains(&Event::Restarted));
}

/// Returns the tag and the cookie of B's INIT ACK to an INIT with this tag.
fn init_ack_for(net: &mut Net, tag: u32) -> (u32, Vec<u8>) {
    net.forge(Host::B, 0, &[Chunk::Init(init(tag, &[]))]).expect("answered");
    let answer = net.last(Host::B, ChunkType::INIT_ACK);
    (
        answer.init().initiate_tag,
        answer.init().parameters.state_cookie().expect("a cookie").to_vec(),
    )
}

// [9260:5.2.4-1, 5.2.4-2]
#[test]
fn section_5_2_4_an_expired_cookie_with_other_tags_is_answered_with_stale_cookie() {
    let (mut net, _, b) = Net::established(1, &config());
    let (tag, cookie) = init_ack_for(&mut net, 77);
    net.now += Span::from_secs(61);
    let stale = net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie: &cookie }]);
    assert_eq!(stale, Err(Discard::StaleCookie));
    let error = net.last(Host::B, ChunkType::ERROR);
    assert_eq!((error.tag(), error.causes()), (77, vec![3]));
    assert_eq!(net.state(Host::B, b), State::Established);
}

/// B in SHUTDOWN-ACK-SENT, whose SHUTDOWN ACKs are lost.
fn shutdown_ack_sent() -> (Net, AssocId) {
    let (mut net, a, b) = Net::established(1, &config());
    net.filter = Box::new(|packet| {
        if packet.has(ChunkType::SHUTDOWN_ACK) {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    let now = net.now;
    net.a.shutdown(now, a);
    net.run_for(Span::from_millis(100));
    assert_eq!(net.state(Host::B, b), State::ShutdownAckSent);
    (net, b)
}

// [9260:9.2-22, 9.2-23, 8.5.1-13]
#[test]
fn section_9_2_an_init_in_shutdown_ack_sent_is_answered_with_shutdown_ack() {
    let (mut net, b) = shutdown_ack_sent();
    let before = net.wire.len();
    net.filter = Box::new(|_| Fate::Deliver);
    // The restarted peer answers the SHUTDOWN ACK as out of the blue, and its INIT is retransmitted.
    let a = restart_a(&mut net, 1);
    net.run_for(Span::from_millis(900));
    let flow: Vec<_> = net.wire[before..]
        .iter()
        .map(|sent| (sent.from, sent.types()[0]))
        .collect();
    let expected = [
        (Host::A, ChunkType::INIT),
        (Host::B, ChunkType::SHUTDOWN_ACK),
        (Host::A, ChunkType::SHUTDOWN_COMPLETE),
    ];
    assert_eq!(flow, expected);
    assert!(net.wire[before + 2].is_reflected());
    assert_eq!(net.wire[before + 2].tag(), net.wire[before + 1].tag());
    assert_eq!(net.state(Host::A, a), State::CookieWait);
    assert_eq!(net.state(Host::B, b), State::Closed);
    net.run_for(Span::from_secs(2));
    let new = net.only(Host::B);
    assert_eq!(
        (net.state(Host::A, a), net.state(Host::B, new)),
        (State::Established, State::Established)
    );
    assert_ne!(new, b);
}

// [9260:5.2.4-6]
#[test]
fn section_5_2_4_a_a_restart_in_shutdown_ack_sent_is_refused() {
    let (mut net, _, b) = Net::established(1, &config());
    let (tag, cookie) = init_ack_for(&mut net, 77);
    let first = net.sent(Host::B, ChunkType::INIT_ACK)[0].init().initial_tsn;
    net.filter = Box::new(|_| Fate::Drop);
    let shutdown = Chunk::Shutdown {
        cumulative_tsn_ack: Tsn(first.0.wrapping_sub(1)),
    };
    net.as_peer(Host::B, &[shutdown]).expect("accepted");
    assert_eq!(net.state(Host::B, b), State::ShutdownAckSent);
    let before = net.wire.len();
    let result = net.forge(Host::B, tag, &[Chunk::CookieEcho { cookie: &cookie }]);
    assert_eq!(result, Err(Discard::Unexpected));
    assert_eq!(net.wire[before].types(), [ChunkType::SHUTDOWN_ACK, ChunkType::ERROR]);
    assert_eq!(net.wire[before].causes(), [10]);
    assert_eq!(net.state(Host::B, b), State::ShutdownAckSent);
}

/// What a path was suspected of before the restart does not excuse a HEARTBEAT after it.
#[test]
fn an_unanswered_heartbeat_counts_after_a_restart() {
    let config = AssociationConfig {
        black_hole_detection: true,
        ..config()
    };
    let (mut net, _, b) = Net::established(1, &config);
    net.run_for(Span::from_secs(5));
    net.filter = Box::new(|packet| match packet.from {
        Host::B => Fate::Drop,
        Host::A => Fate::Deliver,
    });
    // Data times out, and a HEARTBEAT asks whether short packets arrive.
    net.send(Host::B, b, Message::zeros(0, 1440));
    net.run_for(Span::from_millis(1100));
    let start = net.now;
    assert!(!net.times(Host::B, ChunkType::HEARTBEAT, Time::ZERO).is_empty());
    net.filter = Box::new(|_| Fate::Deliver);
    restart_a(&mut net, 1);
    net.run_for(Span::from_secs(2));
    assert!(net.events_of(Host::B).contains(&Event::Restarted));
    net.filter = Box::new(|_| Fate::Drop);
    let errors = |net: &Net| {
        let mut paths = net.b.association(b).expect("established").paths();
        paths.next().expect("a path").errors
    };
    while net.times(Host::B, ChunkType::HEARTBEAT, start).is_empty() {
        net.run_for(Span::from_secs(1));
    }
    assert_eq!(errors(&net), 0);
    net.run_for(Span::from_secs(3));
    assert_eq!(errors(&net), 1);
}
