//! [`Session`] without channels.

use whimbrel_datachannel::{
    AssociationConfig, Outgoing, Reliability, Session, SessionEvent, Span, StreamNews, init_chunk,
};

use crate::net::{Net, random};

const SECOND: Span = Span::from_secs(1);

fn session(name: &str) -> Session {
    Session::new(AssociationConfig::webrtc(), 5000, 5000, random(name)).unwrap()
}

fn bytes(stream: u16, len: usize) -> Outgoing {
    Outgoing {
        stream,
        ppid: 53,
        unordered: false,
        reliability: Reliability::Full,
        content: vec![1; len].into(),
    }
}

#[test]
fn a_session_starts_from_two_init_chunks() {
    let config = AssociationConfig::webrtc();
    let of_a = init_chunk(&config, &mut *random("init a")).unwrap();
    let of_b = init_chunk(&config, &mut *random("init b")).unwrap();
    let mut net = Net::new(session("a"), session("b"));
    net.a.start(net.now, &of_a, &of_b).unwrap();
    net.b.start(net.now, &of_b, &of_a).unwrap();
    net.a.open(3);
    net.a.send(net.now, bytes(3, 100)).unwrap();
    net.run(Span::from_millis(30));
    assert_eq!(net.b.read(net.now, 3).unwrap().content, [1; 100]);
}

#[test]
fn both_ends_may_connect() {
    let mut net = Net::new(session("a"), session("b"));
    net.a.connect(net.now).unwrap();
    net.b.connect(net.now).unwrap();
    net.run(SECOND);
    assert_eq!(net.events_of_a(), [SessionEvent::Connected]);
    assert_eq!(net.events_of_b(), [SessionEvent::Connected]);
}

// What the user does not read closes the window of the peer, and nothing is lost.
#[test]
fn messages_that_are_not_read_wait_at_the_peer() {
    let mut net = Net::new(session("a"), session("b"));
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    net.a.open(0);
    let mut sent = 0;
    for _ in 0..200 {
        while net.a.send(net.now, bytes(0, 60_000)).is_ok() {
            sent += 1;
        }
        net.run(Span::from_millis(50));
    }
    let held = AssociationConfig::webrtc().recv_buffer as usize;
    let in_flight = (sent * 60_000_usize).saturating_sub(net.a.buffered(0));
    assert!(
        in_flight < 3 * held,
        "{in_flight} bytes with a receive buffer of {held}"
    );
    let mut read = 0;
    for _ in 0..400 {
        while net.b.read(net.now, 0).is_some() {
            read += 1;
        }
        net.run(Span::from_millis(50));
    }
    assert_eq!(read, sent);
}

#[test]
fn many_streams_are_reset_at_once() {
    let mut net = Net::new(session("a"), session("b"));
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    for stream in 0..1000 {
        net.a.open(stream);
        net.a.send(net.now, bytes(stream, 10)).unwrap();
        net.a.reset(net.now, stream);
    }
    net.run(SECOND * 5);
    for stream in 0..1000 {
        assert!(net.b.read(net.now, stream).is_some(), "{stream}");
    }
    net.run(SECOND * 10);
    let done = |event: &&SessionEvent| matches!(event, SessionEvent::Stream(StreamNews::ResetDone(_)));
    assert_eq!(net.events_a.iter().filter(done).count(), 1000);
    assert_eq!(net.events_b.iter().filter(done).count(), 1000);
}

// A driver that sleeps in a read with a timeout wakes up to two clock ticks of 4 ms late.
#[test]
fn a_paced_sender_is_not_slow_with_timers_that_are_late() {
    for late in [0, 1, 4, 8] {
        let session = |name: &str| {
            let config = AssociationConfig {
                pacing: Some(true),
                ..AssociationConfig::webrtc()
            };
            Session::new(config, 5000, 5000, random(name)).unwrap()
        };
        let mut net = Net::new(session("a"), session("b"));
        net.late = Span::from_millis(late);
        net.a.connect(net.now).unwrap();
        net.run(SECOND);
        net.a.open(0);
        let (start, mut sent, mut read) = (net.now, 0, 0);
        net.run_until("the end of the transfer", |net| {
            while sent < 500 && net.a.buffered(0) < 900_000 {
                net.a.send(net.now, bytes(0, 60_000)).unwrap();
                sent += 1;
            }
            while net.b.read(net.now, 0).is_some() {
                read += 1;
            }
            read == 500
        });
        // 30 MB at 100 Mbit/s take 2.4 s, and 2.9 s with the headers.
        let time = net.now.since(start);
        assert!(time < Span::from_millis(3500), "timers late by {late} ms: {time:?}");
    }
}

// RFC 8831 §6.7: an end that sees a reset resets the other direction, even of a stream that it does not know.
#[test]
fn rfc_8831_6_7_the_reset_of_a_stream_on_which_nothing_was_sent_is_answered() {
    let mut net = Net::new(session("a"), session("b"));
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    net.events_of_a();
    for _ in 0..2 {
        assert!(net.a.open(3));
        net.a.reset(net.now, 3);
        net.run(SECOND);
        let done = SessionEvent::Stream(StreamNews::ResetDone(3));
        assert!(net.events_of_a().contains(&done));
        assert!(net.b.open(3), "it can be used at both ends");
        net.b.forget(3);
    }
}
