//! Abort, autoclose, and the state after the end of an association (RFC 9260 §9.1).

use crate::support::{Fate, Host, Net, addrs};
use whimbrel_control::Span;
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Event, Message, SendError, SendFailure, SendFailureCause, State,
};
use whimbrel_wire::{Causes, Chunk, ChunkType, Tsn};

fn config() -> AssociationConfig {
    AssociationConfig::default()
}

fn established() -> (Net, AssocId, AssocId) {
    Net::established(1, &config())
}

fn shut_down(net: &mut Net, host: Host, id: AssocId) {
    let now = net.now;
    net.host(host).shutdown(now, id);
    net.drain(host);
}

/// Checks that both ends reported a graceful end and kept no state.
fn assert_over(net: &mut Net, what: &str) {
    for host in [Host::A, Host::B] {
        assert_eq!(net.close_reason(host), Some(CloseReason::Graceful), "{what}: {host:?}");
        assert_eq!(net.host(host).associations().count(), 0, "{what}: {host:?}");
        assert_eq!(net.host(host).next_timeout(), None, "{what}: {host:?}");
    }
}

// [9260:9.1-1, 9.1-2, 9.1-3, 9.1-6, 9.1-7, 8.5.1-4]
// [9260:3.3.7-1, 3.3.7-2, 3.3.7-4, 14.2-1]
#[test]
fn section_9_1_a_user_aborts_with_a_reason() {
    let (mut net, a, _) = established();
    for _ in 0..10 {
        net.send(Host::A, a, Message::zeros(0, 1000));
    }
    let tag = net.tag_of(Host::B);
    let now = net.now;
    net.a.abort(now, a, "disk full");
    net.run_for(Span::from_secs(1));
    // Later ABORTs answer packets that were in flight.
    let abort = net.sent(Host::A, ChunkType::ABORT)[0].clone();
    assert_eq!(abort.types(), [ChunkType::ABORT]);
    assert_eq!(
        (abort.tag(), abort.causes(), abort.is_reflected()),
        (tag, vec![12], false)
    );
    assert_eq!(
        net.close_reason(Host::A),
        Some(CloseReason::AbortedLocally("disk full".into()))
    );
    let reported = CloseReason::AbortedByPeer {
        cause: Some(12),
        reason: "disk full".into(),
    };
    assert_eq!(net.close_reason(Host::B), Some(reported));
    assert_eq!((net.a.associations().count(), net.b.associations().count()), (0, 0));
    assert_eq!((net.a.next_timeout(), net.b.next_timeout()), (None, None));
    assert_eq!(net.count(Host::B, ChunkType::ABORT), 0, "an ABORT is not answered");
}

#[test]
fn section_9_1_a_long_reason_is_truncated_to_fit_its_packet() {
    let (mut net, a, _) = established();
    let (now, reason) = (net.now, "because ".repeat(20_000));
    net.a.abort(now, a, &reason);
    net.run_for(Span::from_secs(1));
    let Some(CloseReason::AbortedByPeer { reason: reported, .. }) = net.close_reason(Host::B) else {
        panic!("no abort")
    };
    assert!(!reported.is_empty() && reason.starts_with(&reported));
}

#[test]
fn section_9_1_an_abort_while_connecting() {
    // The peer's user has not been notified of the association yet.
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let id = net.connect(&config(), 1);
    net.drain(Host::A);
    let now = net.now;
    net.a.abort(now, id, "not needed");
    net.drain(Host::A);
    assert_eq!(net.count(Host::A, ChunkType::ABORT), 0);
    assert_eq!(
        net.close_reason(Host::A),
        Some(CloseReason::AbortedLocally("not needed".into()))
    );
    assert_eq!((net.a.associations().count(), net.a.next_timeout()), (0, None));
}

#[test]
fn section_9_1_abort_ends_an_association_in_every_state() {
    for state in [
        State::ShutdownPending,
        State::ShutdownSent,
        State::ShutdownReceived,
        State::ShutdownAckSent,
    ] {
        let (mut net, a, _) = established();
        net.filter = Box::new(|_| Fate::Drop);
        let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0.wrapping_sub(1);
        if matches!(state, State::ShutdownPending | State::ShutdownReceived) {
            net.send(Host::A, a, Message::zeros(0, 10));
        }
        if matches!(state, State::ShutdownPending | State::ShutdownSent) {
            shut_down(&mut net, Host::A, a);
        } else {
            net.as_peer(
                Host::A,
                &[Chunk::Shutdown {
                    cumulative_tsn_ack: Tsn(tsn),
                }],
            )
            .expect("accepted");
        }
        assert_eq!(net.state(Host::A, a), state);
        let causes = crate::support::causes(&[whimbrel_wire::Cause::UserInitiatedAbort(b"enough")]);
        let chunk = Chunk::Abort {
            tag_reflected: false,
            causes: Causes::from_wire_bytes(&causes),
        };
        net.as_peer(Host::A, &[chunk]).expect("accepted");
        let reported = CloseReason::AbortedByPeer {
            cause: Some(12),
            reason: "enough".into(),
        };
        assert_eq!(net.close_reason(Host::A), Some(reported), "{state:?}");
    }
}

#[test]
fn autoclose_ends_an_association_without_data_in_either_direction() {
    let closing = AssociationConfig {
        autoclose: Some(Span::from_secs(10)),
        ..config()
    };
    let mut net = Net::new(1);
    let start = net.now;
    let id = net.connect(&closing, 1);
    net.run_for(Span::from_secs(5));
    let b = net.only(Host::B);
    net.send(Host::A, id, Message::zeros(0, 1));
    net.run_for(Span::from_secs(9));
    net.send(Host::B, b, Message::zeros(0, 1));
    net.run_for(Span::from_secs(30));
    // B's message arrived 14.010 s after the start.
    assert_eq!(net.times(Host::A, ChunkType::SHUTDOWN, start), [24_010]);
    assert_over(&mut net, "autoclose");
}

// [9260:9.1-6, 9.2-17]
#[test]
fn received_data_can_be_read_after_the_end_and_the_entry_is_then_free() {
    let (mut net, a, b) = established();
    net.auto_read = false;
    net.send(Host::A, a, Message::new(0, &b"last"[..]));
    net.send(Host::A, a, Message::new(0, &b"words"[..]));
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.close_reason(Host::B), Some(CloseReason::Graceful));
    assert_eq!(net.state(Host::B, b), State::Closed);
    assert_eq!(net.b.associations().count(), 1, "there is something to read");
    // The peer may open another association in the meantime.
    let again = net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    assert_eq!(net.state(Host::A, again), State::Established);
    net.read(Host::B, b);
    assert_eq!(net.contents(Host::B), [&b"last"[..], b"words"]);
    assert!(net.b.association(b).is_none());
    let second = net.only(Host::B);
    assert_ne!(second, b);
    shut_down(&mut net, Host::A, again);
    net.run_for(Span::from_secs(1));
    // A third association reuses a table entry under another identifier.
    let third = net.connect(&config(), 1);
    net.run_for(Span::from_secs(1));
    let accepted = net.only(Host::B);
    assert!(![b, second].contains(&accepted));
    assert!(![a, again].contains(&third));
    for stale in [a, again] {
        assert!(net.a.association(stale).is_none());
        let now = net.now;
        assert!(matches!(
            net.a.send(now, stale, Message::zeros(0, 1)),
            Err(SendError::Closed)
        ));
        net.a.abort(now, stale, "unknown");
        assert!(net.a.recv(now, stale, &mut |_| ()).is_none());
    }
    assert_eq!(net.state(Host::A, third), State::Established);
}

#[test]
fn an_ended_association_allows_another_to_the_same_peer() {
    let (mut net, a, _) = established();
    let now = net.now;
    assert!(
        net.a.connect(now, config(), 4002, &addrs(Host::B, 1)).is_err(),
        "one at a time"
    );
    net.a.abort(now, a, "enough");
    let again = net.a.connect(now, config(), 4002, &addrs(Host::B, 1));
    assert!(again.is_ok(), "{again:?}");
}

#[test]
fn shutdown_chunks_are_dropped_in_states_that_do_not_expect_them() {
    let (mut net, a, _) = established();
    let before = net.wire.len();
    assert_eq!(net.as_peer(Host::A, &[Chunk::ShutdownAck]), Err(Discard::Unexpected));
    assert_eq!(
        net.as_peer(Host::A, &[Chunk::ShutdownComplete { tag_reflected: false }]),
        Err(Discard::Unexpected)
    );
    assert_eq!((net.state(Host::A, a), net.wire.len()), (State::Established, before));
}

/// Returns the messages that were given up: context, whether a part was sent, and the cause.
fn failures(net: &Net, host: Host) -> Vec<(u32, bool, SendFailureCause)> {
    let failure = |event| match event {
        Event::SendFailed(failure) => Some((failure.context, failure.sent, failure.cause)),
        _ => None,
    };
    net.events_of(host).into_iter().filter_map(failure).collect()
}

fn numbered(context: u32, len: u32) -> Message {
    Message {
        ppid: 100 + context,
        context,
        ..Message::zeros(3, len)
    }
}

#[test]
fn section_11_2_2_unacknowledged_messages_are_reported_before_the_end() {
    let (mut net, a, _) = established();
    net.send(Host::A, a, numbered(1, 100));
    net.run_for(Span::from_secs(1));
    net.filter = Box::new(|_| Fate::Drop);
    // One message in a single chunk, one in many chunks of which cwnd permits some, and one that waits.
    for (context, len) in [(2, 100), (3, 20_000), (4, 100)] {
        net.send(Host::A, a, numbered(context, len));
    }
    let now = net.now;
    net.a.abort(now, a, "enough");
    net.drain(Host::A);
    let ended = SendFailureCause::Ended;
    assert_eq!(
        failures(&net, Host::A),
        [(2, true, ended), (3, true, ended), (4, false, ended)]
    );
    let events = net.events_of(Host::A);
    assert!(matches!(events.last(), Some(Event::Closed(_))), "{events:?}");
    let first = events.iter().find(|event| matches!(event, Event::SendFailed(_)));
    let expected = SendFailure {
        stream: 3,
        ppid: 102,
        context: 2,
        sent: true,
        cause: ended,
    };
    assert_eq!(first, Some(&Event::SendFailed(expected)));
}

#[test]
fn section_11_2_2_without_a_handshake_nothing_is_delivered() {
    let mut net = Net::new(1);
    net.filter = Box::new(|_| Fate::Drop);
    let id = net.connect(&config(), 1);
    net.send(Host::A, id, numbered(7, 100));
    net.run_for(Span::from_secs(1000));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::HandshakeTimeout));
    assert_eq!(failures(&net, Host::A), [(7, false, SendFailureCause::Ended)]);
}

#[test]
fn section_11_2_2_a_graceful_shutdown_gives_up_no_message() {
    let (mut net, a, _) = established();
    for context in 0..50 {
        net.send(Host::A, a, numbered(context, 3000));
    }
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_secs(20));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
    assert_eq!(failures(&net, Host::A), []);
}

/// Both ends have full buffers, and nobody reads.
fn full(config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let (mut net, a, b) = Net::established(1, config);
    net.auto_read = false;
    for (host, id) in [(Host::A, a), (Host::B, b)] {
        for _ in 0..1000 {
            let now = net.now;
            if net.host(host).send(now, id, Message::zeros(0, 5000)).is_err() {
                net.run_for(Span::from_millis(100));
            }
        }
    }
    let window = |net: &mut Net, host, id| net.host(host).association(id).expect("established").peer_rwnd();
    assert!(window(&mut net, Host::A, a) < 1500 && window(&mut net, Host::B, b) < 1500);
    (net, a, b)
}

fn small() -> AssociationConfig {
    AssociationConfig {
        recv_buffer: 50_000,
        send_buffer: 50_000,
        ..config()
    }
}

#[test]
fn a_shutdown_of_both_ends_that_block_each_other_ends() {
    let (mut net, a, b) = full(&small());
    let start = net.now;
    shut_down(&mut net, Host::A, a);
    shut_down(&mut net, Host::B, b);
    net.run_for(Span::from_secs(299));
    assert_eq!((net.close_reason(Host::A), net.close_reason(Host::B)), (None, None));
    net.run_until(Span::from_secs(700), "the end", |net| {
        net.close_reason(Host::A).is_some()
    });
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::ShutdownTimeout));
    assert!(net.now.since(start) <= Span::from_secs(600));
    net.run_for(Span::from_secs(1));
    assert!(net.close_reason(Host::B).is_some(), "A has told it");
}

#[test]
fn a_shutdown_waits_for_a_peer_that_reads_late() {
    let (mut net, a, b) = full(&small());
    // A's user has read everything; B's reads nothing for an hour.
    net.read(Host::A, a);
    net.run_for(Span::from_secs(10));
    net.read(Host::A, a);
    shut_down(&mut net, Host::A, a);
    net.run_for(Span::from_secs(3600));
    assert_eq!((net.close_reason(Host::A), net.close_reason(Host::B)), (None, None));
    net.auto_read = true;
    net.read(Host::B, b);
    net.run_for(Span::from_secs(300));
    shut_down(&mut net, Host::B, b);
    net.run_for(Span::from_secs(10));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
}

#[test]
fn a_shutdown_goes_on_while_the_peer_reads_slowly_and_this_end_not_at_all() {
    let (mut net, a, b) = full(&small());
    shut_down(&mut net, Host::A, a);
    // Less than T5-shutdown-guard between two messages that B reads.
    let mut read = 0;
    while net.a.association(a).expect("not ended").buffered_send() > 0 {
        net.run_for(Span::from_secs(200));
        let now = net.now;
        net.b.recv(now, b, &mut |_| {}).expect("a message");
        net.drain(Host::B);
        read += 1;
    }
    assert!(read > 5, "{read} messages in {read} x 200 s");
    net.auto_read = true;
    net.read(Host::A, a);
    net.read(Host::B, b);
    net.run_for(Span::from_secs(100));
    assert_eq!(net.close_reason(Host::A), Some(CloseReason::Graceful));
}
