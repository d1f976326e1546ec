//! What users of channels see (RFC 8831, RFC 8832).

use whimbrel_datachannel::{
    AssociationConfig, ChannelConfig, ChannelEnd, ChannelEvent, ChannelId, ChannelMessage, ChannelSendError,
    ChannelsConfig, DataChannels, DtlsRole, OpenError, Reliability, Span,
};

use crate::net::{Net, channels, connected};

type Pair = Net<DataChannels, DataChannels>;

const SECOND: Span = Span::from_secs(1);

fn text(content: &str) -> ChannelMessage {
    ChannelMessage::Text(content.to_owned())
}

fn labelled(label: &str) -> ChannelConfig {
    ChannelConfig {
        label: label.to_owned(),
        ..ChannelConfig::default()
    }
}

/// Opens a channel from A, and returns its numbers at both ends.
fn opened(net: &mut Pair, config: ChannelConfig) -> (ChannelId, ChannelId) {
    let channel = net.a.open(net.now, config).unwrap();
    net.run(SECOND);
    let by_peer = false;
    assert_eq!(net.events_of_a(), [ChannelEvent::Opened { channel, by_peer }]);
    match net.events_of_b()[..] {
        [
            ChannelEvent::Opened {
                channel: theirs,
                by_peer: true,
            },
        ] => (channel, theirs),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_channel_has_the_same_properties_at_both_ends() {
    let mut net = connected(&ChannelsConfig::default());
    let config = ChannelConfig {
        label: "Verständigung".to_owned(),
        protocol: "chat.example".to_owned(),
        unordered: true,
        reliability: Reliability::Lifetime(Span::from_millis(300)),
        priority: 1024,
    };
    let (a, b) = opened(&mut net, config.clone());
    assert_eq!((net.a.channel(a), net.b.channel(b)), (Some(&config), Some(&config)));
    assert_eq!((net.a.stream(a), net.b.stream(b)), (Some(0), Some(0)));
}

// [8832:6-3, 6-4, 6-10]
#[test]
fn texts_bytes_and_empty_messages_go_both_ways() {
    let mut net = connected(&ChannelsConfig::default());
    let (a, b) = opened(&mut net, labelled("all"));
    let messages = [
        text("Käse"),
        text(""),
        ChannelMessage::Binary(vec![0]),
        ChannelMessage::Binary(Vec::new()),
        ChannelMessage::Binary((0..60_000).map(|at| at as u8).collect()),
    ];
    for message in &messages {
        net.a.send(net.now, a, message.clone()).unwrap();
        net.b.send(net.now, b, message.clone()).unwrap();
    }
    net.run(SECOND);
    for message in &messages {
        assert_eq!(net.a.read(net.now, a).as_ref(), Some(message));
        assert_eq!(net.b.read(net.now, b).as_ref(), Some(message));
    }
    assert_eq!((net.a.read(net.now, a), net.b.read(net.now, b)), (None, None));
    // One event for each message that can be read.
    assert_eq!(net.events_of_b(), vec![ChannelEvent::Readable(b); messages.len()]);
    // RFC 8831 §8
    let of_a = [50, 51, 56, 53, 57, 53].map(|ppid| (0, ppid, false));
    assert_eq!(net.sent_by_a, of_a);
}

// [8832:6-2, 6-9, 6-11]
#[test]
fn rfc_8832_6_messages_of_an_unordered_channel_are_ordered_until_the_ack() {
    let mut net = connected(&ChannelsConfig::default());
    let unordered = ChannelConfig {
        unordered: true,
        ..labelled("u")
    };
    let a = net.a.open(net.now, unordered).unwrap();
    net.a.send(net.now, a, text("1")).unwrap();
    net.run(SECOND);
    net.a.send(net.now, a, text("2")).unwrap();
    net.run(SECOND);
    assert_eq!(net.sent_by_a, [(0, 50, false), (0, 51, false), (0, 51, true)]);
    // A message of the peer is as good as the ACK, and the channels of the peer are unordered at once.
    let b = net.b.channels().next().unwrap();
    net.b.send(net.now, b, text("3")).unwrap();
    net.run(SECOND);
    assert_eq!(net.a.read(net.now, a), Some(text("3")));
}

// [8832:4-1, 4-2, 4-3, 6-5, 6-6]
#[test]
fn rfc_8832_6_both_ends_open_channels_at_once() {
    let mut net = connected(&ChannelsConfig::default());
    let of_a: Vec<_> = (0..3).map(|_| net.a.open(net.now, labelled("x")).unwrap()).collect();
    let of_b: Vec<_> = (0..3).map(|_| net.b.open(net.now, labelled("x")).unwrap()).collect();
    net.run(SECOND);
    let streams =
        |end: &DataChannels, ids: &[ChannelId]| -> Vec<_> { ids.iter().map(|&id| end.stream(id).unwrap()).collect() };
    assert_eq!(streams(&net.a, &of_a), [0, 2, 4]);
    assert_eq!(streams(&net.b, &of_b), [1, 3, 5]);
    assert_eq!((net.a.channels().count(), net.b.channels().count()), (6, 6));
}

#[test]
fn channels_may_be_opened_before_the_role_and_the_association() {
    let config = ChannelsConfig::default();
    let mut net = Net::new(channels("a", config.clone()), channels("b", config));
    let early = net.a.open(net.now, labelled("early")).unwrap();
    let closed = net.a.open(net.now, labelled("closed")).unwrap();
    assert_eq!(net.a.send(net.now, early, text("x")), Err(ChannelSendError::NotOpen));
    net.a.close(net.now, closed);
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    assert_eq!(net.a.stream(early), None, "the role is not known");
    net.a.set_role(net.now, DtlsRole::Server);
    net.run(SECOND);
    assert_eq!(net.a.stream(early), Some(1));
    // The peer has the OPEN, and answers once it knows its role.
    assert_eq!(net.events_of_b(), [ChannelEvent::Connected]);
    net.b.set_role(net.now, DtlsRole::Client);
    net.run(SECOND);
    let why = ChannelEnd::Local;
    let (channel, by_peer) = (early, false);
    assert_eq!(
        net.events_of_a(),
        [
            ChannelEvent::Closed { channel: closed, why },
            ChannelEvent::Connected,
            ChannelEvent::Opened { channel, by_peer }
        ]
    );
}

// RFC 8831 §6.7 and RFC 6525: what was sent before arrives before. No OPEN is given up. [8832:6-1]
#[test]
fn rfc_8831_6_7_either_end_closes_a_channel_and_its_stream_is_used_again() {
    let config = ChannelsConfig {
        association: AssociationConfig {
            // So that numbers come again soon.
            outbound_streams: 6,
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    for by_a in [true, false] {
        let mut net = connected(&config);
        net.loss = 0.1;
        for round in 0..30 {
            let a = net.a.open(net.now, labelled(&format!("{round}"))).unwrap();
            net.a.send(net.now, a, text("last words")).unwrap();
            net.run_until("an OPEN", |net| net.b.channels().count() == 1);
            let b = net.b.channels().next().unwrap();
            assert_eq!(net.b.channel(b).unwrap().label, format!("{round}"));
            net.b.send(net.now, b, text("of both")).unwrap();
            if by_a {
                net.a.close(net.now, a);
                net.run_until("a message", |net| net.b.read(net.now, b) == Some(text("last words")));
            } else {
                net.b.close(net.now, b);
                net.run_until("a message", |net| net.a.read(net.now, a) == Some(text("of both")));
            }
            net.run_until("the end", |net| {
                (net.a.channels().count(), net.b.channels().count()) == (0, 0)
            });
            let (at_a, at_b) = (net.events_of_a(), net.events_of_b());
            let closed = |channel, is_local| ChannelEvent::Closed {
                channel,
                why: if is_local { ChannelEnd::Local } else { ChannelEnd::Peer },
            };
            assert_eq!(at_a.last(), Some(&closed(a, by_a)), "{round} {at_a:?}");
            assert_eq!(at_b.last(), Some(&closed(b, !by_a)), "{round} {at_b:?}");
        }
        assert_eq!(net.a.session().open_streams().count(), 0);
    }
}

// What is sent on a channel that the peer has closed must not arrive on the next one of its stream.
#[test]
fn nothing_is_sent_on_a_channel_that_the_peer_has_closed() {
    let mut net = connected(&ChannelsConfig::default());
    let (a, b) = opened(&mut net, labelled("first"));
    net.b.close(net.now, b);
    assert_eq!(net.b.send(net.now, b, text("x")), Err(ChannelSendError::NotOpen));
    // The reset arrives, and its answer is on the way.
    net.run(Span::from_millis(25));
    assert_eq!(net.a.send(net.now, a, text("x")), Err(ChannelSendError::NotOpen));
    net.run(SECOND);
    assert_eq!(net.a.send(net.now, a, text("x")), Err(ChannelSendError::NotOpen));
}

#[test]
fn a_negotiated_channel_needs_no_messages() {
    let config = ChannelsConfig::default();
    let mut net = Net::new(channels("a", config.clone()), channels("b", config));
    // The number is free, whatever the role.
    let a = net.a.open_negotiated(net.now, 6, labelled("n")).unwrap();
    let b = net.b.open_negotiated(net.now, 6, labelled("n")).unwrap();
    let error = net.a.open_negotiated(net.now, 6, labelled("n"));
    assert_eq!(error, Err(OpenError::StreamInUse(6)));
    let error = net.a.open_negotiated(net.now, 65_535, labelled("n"));
    assert_eq!(error, Err(OpenError::NoSuchStream));
    net.a.set_role(net.now, DtlsRole::Server);
    net.b.set_role(net.now, DtlsRole::Client);
    net.b.connect(net.now).unwrap();
    net.run(SECOND);
    net.a.send(net.now, a, text("hello")).unwrap();
    net.run(SECOND);
    assert_eq!(net.b.read(net.now, b), Some(text("hello")));
    assert_eq!(net.sent_by_a, [(6, 51, false)]);
    net.b.close(net.now, b);
    net.run(SECOND);
    let again = net.a.open_negotiated(net.now, 6, labelled("n")).unwrap();
    assert_ne!(again, a);
}

// RFC 8841 §6.1: the peer's max-message-size, 64 KiB without one, 0 for any length.
#[test]
fn rfc_8841_6_1_the_peer_says_how_long_messages_may_be() {
    let mut net = connected(&ChannelsConfig::default());
    let (a, b) = opened(&mut net, labelled("long"));
    let message = |len: usize| ChannelMessage::Binary(vec![7; len]);
    net.a.send(net.now, a, message(65_536)).unwrap();
    let error = net.a.send(net.now, a, message(65_537));
    let (len, max) = (65_537, 65_536);
    assert_eq!(error, Err(ChannelSendError::TooLong { len, max }));
    net.a.set_peer_max_message(0);
    net.a.send(net.now, a, message(256 << 10)).unwrap();
    net.run(SECOND * 5);
    assert_eq!(net.b.read(net.now, b), Some(message(65_536)));
    assert_eq!(net.b.read(net.now, b), Some(message(256 << 10)));
}

#[test]
fn an_end_of_the_association_ends_all_channels() {
    let mut net = connected(&ChannelsConfig::default());
    let (_, first) = opened(&mut net, labelled("1"));
    let (_, second) = opened(&mut net, labelled("2"));
    net.a.abort(net.now, "the test");
    net.run(SECOND);
    let closed = |channel| ChannelEvent::Closed {
        channel,
        why: ChannelEnd::Association,
    };
    let events = net.events_of_b();
    assert_eq!(events[..2], [closed(first), closed(second)]);
    assert!(matches!(events[2..], [ChannelEvent::Ended(_)]), "{events:?}");
    assert_eq!(net.a.open(net.now, labelled("3")), Err(OpenError::Ended));
}

// RFC 8831 §6.4: channels share the capacity in proportion to their priorities.
#[test]
fn rfc_8831_6_4_channels_share_by_priority() {
    let config = ChannelsConfig {
        association: AssociationConfig {
            // More than the path carries in a round trip, so that both channels always wait.
            send_buffer: 8 << 20,
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net = connected(&config);
    let with = |priority| ChannelConfig {
        priority,
        ..ChannelConfig::default()
    };
    let (low, low_b) = opened(&mut net, with(128));
    let (high, high_b) = opened(&mut net, with(512));
    let mut read = [0_usize; 2];
    for _ in 0..400 {
        for channel in [low, high] {
            while net.a.buffered(channel) < 3_000_000 {
                let message = ChannelMessage::Binary(vec![0; 10_000]);
                net.a.send(net.now, channel, message).unwrap();
            }
        }
        net.run(Span::from_millis(10));
        for (channel, read) in [low_b, high_b].into_iter().zip(&mut read) {
            while net.b.read(net.now, channel).is_some() {
                *read += 1;
            }
        }
    }
    let ratio = read[1] as f64 / read[0] as f64;
    assert!((3.5..=4.5).contains(&ratio), "{read:?}");
}

#[test]
fn a_channel_says_when_its_buffer_is_low() {
    let mut net = connected(&ChannelsConfig::default());
    // Not for the messages of DCEP.
    net.reports_low = true;
    let (a, b) = opened(&mut net, labelled("bulk"));
    net.a.set_buffered_low(a, 100_000);
    for _ in 0..10 {
        net.a.send(net.now, a, ChannelMessage::Binary(vec![0; 50_000])).unwrap();
    }
    assert_eq!(net.a.buffered(a), 500_000);
    for _ in 0..50 {
        net.run(Span::from_millis(20));
        while net.b.read(net.now, b).is_some() {}
    }
    assert_eq!(net.events_of_a(), [ChannelEvent::BufferedLow(a)]);
    assert_eq!(net.a.buffered(a), 0);
}

// A full send buffer delays the OPEN and the ACK, and loses none.
#[test]
fn a_channel_opens_although_the_send_buffer_is_full() {
    let mut net = connected(&ChannelsConfig::default());
    net.a.set_peer_max_message(0);
    net.b.set_peer_max_message(0);
    let (a, b) = opened(&mut net, labelled("bulk"));
    let fill = |end: &mut DataChannels, now, channel| {
        let mut sent = 0;
        while end.send(now, channel, ChannelMessage::Binary(vec![0; 100_000])).is_ok() {
            sent += 1;
        }
        sent
    };
    let (to_b, to_a) = (fill(&mut net.a, net.now, a), fill(&mut net.b, net.now, b));
    assert!(to_a > 1 && to_b > 1);
    let second = net.a.open(net.now, labelled("second")).unwrap();
    let mut read = (0, 0);
    for _ in 0..200 {
        net.run(Span::from_millis(20));
        read.0 += std::iter::from_fn(|| net.a.read(net.now, a)).count();
        read.1 += std::iter::from_fn(|| net.b.read(net.now, b)).count();
    }
    assert_eq!(read, (to_a, to_b));
    assert_eq!(net.a.stream(second), Some(2), "no number is left out");
    let (channel, by_peer) = (second, false);
    assert!(net.events_of_a().contains(&ChannelEvent::Opened { channel, by_peer }));
}

#[test]
fn thousands_of_channels_open_and_close() {
    let mut net = connected(&ChannelsConfig::default());
    for _ in 0..3 {
        let ids: Vec<_> = (0..2000)
            .map(|_| net.a.open(net.now, labelled("one")).unwrap())
            .collect();
        net.run(SECOND * 5);
        assert_eq!(net.b.channels().count(), 2000);
        for id in ids {
            net.a.close(net.now, id);
        }
        net.run(SECOND * 20);
        assert_eq!((net.a.channels().count(), net.b.channels().count()), (0, 0));
    }
}

#[test]
fn settings_that_dcep_cannot_say_are_refused() {
    let mut net = connected(&ChannelsConfig::default());
    let long = labelled(&"x".repeat(65_536));
    assert_eq!(net.a.open(net.now, long), Err(OpenError::NameTooLong));
    let by_priority = ChannelConfig {
        reliability: Reliability::Priority(1),
        ..ChannelConfig::default()
    };
    assert_eq!(net.a.open(net.now, by_priority), Err(OpenError::Reliability));
    let (_, b) = opened(&mut net, labelled(&"y".repeat(65_535)));
    assert_eq!(net.b.channel(b).unwrap().label.len(), 65_535);
}
