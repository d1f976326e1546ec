//! Users that call in an order that is not the usual one.

use whimbrel_datachannel::{
    AssociationConfig, ChannelConfig, ChannelEnd, ChannelEvent, ChannelMessage, ChannelSendError, ChannelsConfig,
    DataChannels, DtlsRole, SendError, Span, init_chunk,
};

use crate::net::{Net, channels, connected, random};

const SECOND: Span = Span::from_secs(1);

fn text(content: &str) -> ChannelMessage {
    ChannelMessage::Text(content.to_owned())
}

#[test]
fn negotiated_channels_need_no_role() {
    let config = ChannelsConfig::default();
    let mut net = Net::new(channels("a", config.clone()), channels("b", config));
    let a = net.a.open_negotiated(net.now, 0, ChannelConfig::default()).unwrap();
    let b = net.b.open_negotiated(net.now, 0, ChannelConfig::default()).unwrap();
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    net.a.send(net.now, a, text("hello")).unwrap();
    net.events_of_b();
    net.run(SECOND);
    assert_eq!(net.events_of_b(), [ChannelEvent::Readable(b)]);
    assert_eq!(net.b.read(net.now, b), Some(text("hello")));
}

#[test]
fn a_channel_for_which_the_send_buffer_had_no_room_hears_when_it_has() {
    let mut net = connected(&ChannelsConfig::default());
    net.reports_low = true;
    let bulk = net.a.open(net.now, ChannelConfig::default()).unwrap();
    let other = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    net.events_of_a();
    let message = ChannelMessage::Binary(vec![0; 60_000]);
    while net.a.send(net.now, bulk, message.clone()).is_ok() {}
    let error = net.a.send(net.now, other, message);
    assert!(
        matches!(error, Err(ChannelSendError::Association(SendError::Full { .. }))),
        "{error:?}"
    );
    let at_b: Vec<_> = net.b.channels().collect();
    for _ in 0..100 {
        net.run(Span::from_millis(20));
        while net.b.read(net.now, at_b[0]).is_some() {}
    }
    let events = net.events_of_a();
    assert!(events.contains(&ChannelEvent::BufferedLow(other)), "{events:?}");
}

#[test]
fn an_abort_is_reported_at_once() {
    let mut net = connected(&ChannelsConfig::default());
    let channel = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    net.events_of_a();
    net.a.abort(net.now, "the test");
    let why = ChannelEnd::Association;
    assert_eq!(net.a.poll_event(), Some(ChannelEvent::Closed { channel, why }));
    assert!(matches!(net.a.poll_event(), Some(ChannelEvent::Ended(_))));
    assert_eq!(net.a.send(net.now, channel, text("x")), Err(ChannelSendError::NotOpen));
    net.run(SECOND);
    assert!(matches!(net.events_of_b()[..], [.., ChannelEvent::Ended(_)]));
}

/// One message of 256 KiB on each of 32 channels: 8 MiB, in chunks that alternate. Returns the messages that arrive, and the events.
fn interleaved(max_incomplete: usize) -> (usize, Vec<ChannelEvent>) {
    let config = ChannelsConfig {
        association: AssociationConfig {
            send_buffer: 16 << 20,
            ..AssociationConfig::webrtc()
        },
        peer_max_message: 0,
        max_incomplete,
        ..ChannelsConfig::default()
    };
    let mut net = connected(&config);
    let ids: Vec<_> = (0..32)
        .map(|_| net.a.open(net.now, ChannelConfig::default()).unwrap())
        .collect();
    net.run(SECOND);
    for &id in &ids {
        let message = ChannelMessage::Binary(vec![0; 256 << 10]);
        net.a.send(net.now, id, message).unwrap();
    }
    let mut read = 0;
    for _ in 0..500 {
        net.run(Span::from_millis(20));
        let at_b: Vec<_> = net.b.channels().collect();
        for id in at_b {
            read += std::iter::from_fn(|| net.b.read(net.now, id)).count();
        }
    }
    (read, net.events_of_b())
}

// RFC 8260: the receive buffer has only 1 MiB.
#[test]
fn large_messages_on_many_channels_arrive_at_once() {
    let (read, events) = interleaved(ChannelsConfig::default().max_incomplete);
    assert_eq!(read, 32, "{:?}", events.last());
}

#[test]
fn incomplete_messages_have_a_limit() {
    let (read, events) = interleaved(4 << 20);
    assert_eq!(read, 0);
    assert!(matches!(events.last(), Some(ChannelEvent::Ended(_))), "{events:?}");
}

#[test]
fn a_peer_that_restarts_ends_all_channels_and_new_ones_open() {
    let mut net = connected(&ChannelsConfig::default());
    let a = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    let b = net.b.channels().next().unwrap();
    net.a.send(net.now, a, text("unread")).unwrap();
    net.run(SECOND);
    net.events_of_b();
    net.a = channels("a again", ChannelsConfig::default());
    net.a.set_role(net.now, DtlsRole::Client);
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    let (channel, why) = (b, ChannelEnd::Peer);
    assert_eq!(net.events_of_b(), [ChannelEvent::Closed { channel, why }]);
    let a = net.a.open(net.now, ChannelConfig::default()).unwrap();
    let own = net.b.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    net.a.send(net.now, a, text("new")).unwrap();
    net.b.send(net.now, own, text("own")).unwrap();
    net.run(SECOND);
    let theirs = net.b.channels().find(|&id| id != own).unwrap();
    assert_eq!(net.b.read(net.now, theirs), Some(text("new")));
    let theirs = net.a.channels().find(|&id| id != a).unwrap();
    assert_eq!(net.a.read(net.now, theirs), Some(text("own")));
}

#[test]
fn a_negotiated_channel_on_a_stream_that_the_peer_does_not_have_ends() {
    let config = ChannelsConfig::default();
    let few = ChannelsConfig {
        association: AssociationConfig {
            max_inbound_streams: 16,
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net = Net::new(channels("a", config), channels("b", few));
    let channel = net.a.open_negotiated(net.now, 16, ChannelConfig::default()).unwrap();
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    let why = ChannelEnd::NoStream;
    assert_eq!(
        net.events_of_a(),
        [ChannelEvent::Connected, ChannelEvent::Closed { channel, why }]
    );
    let late = net.a.open_negotiated(net.now, 18, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    assert_eq!(net.events_of_a(), [ChannelEvent::Closed { channel: late, why }]);
}

#[test]
fn a_longer_max_message_is_enough_to_receive_longer_ones() {
    let config = ChannelsConfig {
        max_message: 2 << 20,
        peer_max_message: 2 << 20,
        association: AssociationConfig {
            send_buffer: 4 << 20,
            max_message: Some(2 << 20),
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net = connected(&config);
    let a = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    let message = ChannelMessage::Binary(vec![7; 2 << 20]);
    net.a.send(net.now, a, message.clone()).unwrap();
    net.run(SECOND * 20);
    let b = net.b.channels().next().unwrap();
    assert_eq!(net.b.read(net.now, b), Some(message));
}

#[test]
fn an_association_may_follow_an_association() {
    let mut net = connected(&ChannelsConfig::default());
    let first = net.b.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    net.a.abort(net.now, "the test");
    net.run(SECOND);
    assert!(matches!(net.events_of_b()[..], [.., ChannelEvent::Ended(_)]));
    net.a = channels("a again", ChannelsConfig::default());
    net.a.set_role(net.now, DtlsRole::Client);
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    let channel = net.b.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    let by_peer = false;
    assert_eq!(
        net.events_of_b(),
        [ChannelEvent::Connected, ChannelEvent::Opened { channel, by_peer }]
    );
    assert_ne!(channel, first);
}

// RFC 6525 §5.1.2 holds back the reset of a stream until what was sent on it has arrived.
#[test]
fn closing_a_channel_does_not_wait_for_the_messages_of_another() {
    let config = ChannelsConfig {
        association: AssociationConfig {
            send_buffer: 16 << 20,
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net = connected(&config);
    let bulk = net.a.open(net.now, ChannelConfig::default()).unwrap();
    let other = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    for _ in 0..200 {
        net.a
            .send(net.now, bulk, ChannelMessage::Binary(vec![0; 60_000]))
            .unwrap();
    }
    let theirs = net.b.channels().next().unwrap();
    net.a.close(net.now, bulk);
    net.a.close(net.now, other);
    let read_until_closed = |net: &mut Net<DataChannels, DataChannels>, channel| {
        net.run_until("the end", |net| {
            while net.b.read(net.now, theirs).is_some() {}
            !net.a.channels().any(|open| open == channel)
        });
    };
    read_until_closed(&mut net, other);
    assert!(net.a.buffered(bulk) > 1_000_000, "{}", net.a.buffered(bulk));
    read_until_closed(&mut net, bulk);
}

// A channel has both directions of its stream (RFC 8831 §6.4).
#[test]
fn rfc_8831_6_4_no_channel_opens_on_a_stream_on_which_the_peer_cannot_answer() {
    let config = ChannelsConfig::default();
    let few = ChannelsConfig {
        association: AssociationConfig {
            outbound_streams: 2,
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net = Net::new(channels("a", config), channels("b", few));
    net.a.set_role(net.now, DtlsRole::Client);
    net.b.set_role(net.now, DtlsRole::Server);
    net.a.connect(net.now).unwrap();
    let first = net.a.open(net.now, ChannelConfig::default()).unwrap();
    let second = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    let events = net.events_of_a();
    let (channel, by_peer) = (first, false);
    assert!(
        events.contains(&ChannelEvent::Opened { channel, by_peer }),
        "{events:?}"
    );
    let (channel, why) = (second, ChannelEnd::NoStream);
    assert!(events.contains(&ChannelEvent::Closed { channel, why }), "{events:?}");
}

#[test]
fn a_threshold_that_is_lowered_is_reported_again() {
    let mut net = connected(&ChannelsConfig::default());
    net.reports_low = true;
    let bulk = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    net.events_of_a();
    net.a.set_buffered_low(bulk, 400_000);
    for _ in 0..10 {
        net.a
            .send(net.now, bulk, ChannelMessage::Binary(vec![0; 50_000]))
            .unwrap();
    }
    let low = [ChannelEvent::BufferedLow(bulk)];
    while net.events_a.is_empty() {
        net.run(Span::from_millis(1));
    }
    assert_eq!(net.events_of_a(), low);
    net.a.set_buffered_low(bulk, 0);
    net.run(SECOND);
    assert_eq!(net.events_of_a(), low);
}

#[test]
fn an_association_starts_once() {
    let settings = AssociationConfig::webrtc();
    let of_a = init_chunk(&settings, &mut *random("init a")).unwrap();
    let of_b = init_chunk(&settings, &mut *random("init b")).unwrap();
    let config = ChannelsConfig::default();
    let mut net = Net::new(channels("a", config.clone()), channels("b", config));
    let channel = net.a.open(net.now, ChannelConfig::default()).unwrap();
    let agreed = net.b.open_negotiated(net.now, 9, ChannelConfig::default()).unwrap();
    assert!(net.a.start(net.now, b"", &of_b).is_err());
    assert!(net.a.start(net.now, &of_a, &of_a).is_err());
    net.a.start(net.now, &of_a, &of_b).unwrap();
    assert!(net.a.start(net.now, &of_a, &of_b).is_err());
    assert!(net.a.connect(net.now).is_err());
    net.b.start(net.now, &of_b, &of_a).unwrap();
    net.a.set_role(net.now, DtlsRole::Server);
    net.b.set_role(net.now, DtlsRole::Client);
    net.run(SECOND);
    let by_peer = false;
    assert_eq!(
        net.events_of_a(),
        [ChannelEvent::Connected, ChannelEvent::Opened { channel, by_peer }]
    );
    let events = net.events_of_b();
    let opened = |event: &&ChannelEvent| matches!(event, ChannelEvent::Opened { .. });
    assert_eq!(events.iter().filter(opened).count(), 2, "{events:?}");
    assert_eq!(net.b.stream(agreed), Some(9));
}

#[test]
fn channels_that_are_opened_while_the_association_ends_end_with_it() {
    let mut net = connected(&ChannelsConfig::default());
    net.a.shutdown(net.now);
    let late = net.a.open(net.now, ChannelConfig::default());
    let agreed = net.a.open_negotiated(net.now, 7, ChannelConfig::default());
    net.run(SECOND * 5);
    let events = net.events_of_a();
    assert!(matches!(events.last(), Some(ChannelEvent::Ended(_))), "{events:?}");
    for channel in [late, agreed].into_iter().flatten() {
        let is_closed =
            |event: &ChannelEvent| matches!(event, ChannelEvent::Closed { channel: closed, .. } if *closed == channel);
        assert!(events.iter().any(is_closed), "{events:?}");
    }
    assert_eq!(net.a.channels().count(), 0);
}

// A second association beside the first would take its place at its end, without a word.
#[test]
fn a_peer_has_one_association() {
    let mut net = connected(&ChannelsConfig::default());
    let first = std::mem::replace(
        &mut net.a,
        channels(
            "second",
            ChannelsConfig {
                local_port: 6000,
                ..ChannelsConfig::default()
            },
        ),
    );
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    assert_eq!(net.events_of_a(), []);
    net.a = first;
    let channel = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    let by_peer = false;
    assert_eq!(net.events_of_a(), [ChannelEvent::Opened { channel, by_peer }]);
}
