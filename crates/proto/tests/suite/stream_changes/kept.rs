//! Messages that wait for a reset.

use super::*;

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

/// The user of a full send buffer waits for room.
#[test]
fn a_message_that_waits_for_a_reset_is_given_up_at_its_time() {
    let (mut net, a, _) = established(&AssociationConfig {
        partial_reliability: true,
        send_buffer: 10_000,
        max_message: None,
        ..config()
    });
    net.auto_read = false;
    send(&mut net, Host::A, a, 1, 1);
    net.run_for(Span::from_secs(1));
    reset(&mut net, a, &[1]);
    // The request is repeated after ever longer times.
    net.run_for(Span::from_secs(200));
    for number in 0..2 {
        let limited = numbered(number, 5000, Reliability::Lifetime(Span::from_millis(100)));
        net.send(Host::A, a, Message { stream: 1, ..limited });
    }
    let now = net.now;
    assert!(net.a.send(now, a, on(2, 9, 5000)).is_err());
    net.run_for(Span::from_millis(90));
    assert!(given_up(&net).is_empty());
    net.run_for(Span::from_millis(20));
    assert_eq!(given_up(&net), [(0, false), (1, false)]);
    assert!(net.events_of(Host::A).contains(&Event::SendSpace));
    net.send(Host::A, a, on(2, 9, 5000));
}

/// A message that is kept is not more important than one that waits.
#[test]
fn the_least_important_message_gives_way_whether_it_is_kept_or_not() {
    let (mut net, a, _) = established(&AssociationConfig {
        partial_reliability: true,
        send_buffer: 11_000,
        max_message: None,
        ..config()
    });
    net.auto_read = false;
    send(&mut net, Host::A, a, 1, 1);
    net.run_for(Span::from_secs(1));
    reset(&mut net, a, &[1]);
    net.run_for(Span::from_secs(1));
    let important = |stream, number, len, least| Message {
        stream,
        ..numbered(number, len, Reliability::Priority(least))
    };
    net.filter = Box::new(|_| Fate::Drop);
    // These two fill the window.
    net.send(Host::A, a, important(2, 9, 3000, 0));
    net.send(Host::A, a, important(2, 1, 1400, 0));
    net.send(Host::A, a, important(1, 30, 2000, 3));
    net.send(Host::A, a, important(2, 89, 500, 0));
    net.send(Host::A, a, important(2, 90, 500, 0));
    net.send(Host::A, a, important(2, 91, 2000, 9));
    net.send(Host::A, a, important(2, 5, 2000, 0));
    assert_eq!(given_up(&net), [(91, false)]);
    net.send(Host::A, a, important(2, 6, 2000, 0));
    assert_eq!(given_up(&net), [(91, false), (30, false)]);
}
