//! Streams that are used again while their user has not read what came before.

use whimbrel_datachannel::{
    ChannelConfig, ChannelEnd, ChannelEvent, ChannelId, ChannelMessage, ChannelsConfig, Flaw, Outgoing, Reliability,
    Span,
};

use crate::flaws::{Attack, DCEP, OPEN, attack, open, send};
use crate::net::connected;

const SECOND: Span = Span::from_secs(1);
const TEXT: u32 = 51;

fn text(content: &str) -> ChannelMessage {
    ChannelMessage::Text(content.to_owned())
}

fn is_opened(event: &ChannelEvent) -> Option<ChannelId> {
    match *event {
        ChannelEvent::Opened { channel, .. } => Some(channel),
        _ => None,
    }
}

/// The peer closes stream 0, waits for the end, and opens a channel on it again with a message.
fn use_again(net: &mut Attack, message: &[u8]) {
    net.a.reset(net.now, 0);
    net.run(SECOND);
    assert!(!net.a.is_resetting(0), "the peer may use the number again");
    send(net, 0, DCEP, OPEN);
    send(net, 0, TEXT, message);
}

#[test]
fn a_channel_on_a_stream_whose_last_channel_has_unread_messages_is_another_one() {
    let mut net = attack(ChannelsConfig::default());
    let first = open(&mut net, 0);
    send(&mut net, 0, TEXT, b"1");
    use_again(&mut net, b"2");
    net.events_of_b();
    assert_eq!(net.b.read(net.now, first), Some(text("1")));
    net.run(SECOND);
    let events = net.events_of_b();
    let second = events.iter().find_map(is_opened);
    let second = second.unwrap_or_else(|| panic!("{events:?}"));
    let (channel, why) = (first, ChannelEnd::Peer);
    assert_eq!(events[0], ChannelEvent::Closed { channel, why });
    assert_eq!(net.b.read(net.now, second), Some(text("2")));
    assert_eq!(net.b.stream(second), Some(0));
}

#[test]
fn each_of_several_uses_of_a_stream_ends_when_it_has_been_read() {
    let mut net = attack(ChannelsConfig::default());
    let first = open(&mut net, 0);
    send(&mut net, 0, TEXT, b"1");
    use_again(&mut net, b"2");
    net.a.reset(net.now, 0);
    net.run(SECOND);
    assert_eq!(net.b.read(net.now, first), Some(text("1")));
    net.run(SECOND);
    let second = net.b.channels().next().unwrap();
    assert_eq!(net.b.read(net.now, second), Some(text("2")));
    net.run(SECOND);
    assert_eq!(net.b.channels().count(), 0, "the second has ended");
    assert!(!net.a.is_resetting(0), "the peer may use the number again");
    net.events_of_a();
    net.events_of_b();
    open(&mut net, 0);
}

#[test]
fn an_error_on_one_use_of_a_stream_does_not_end_the_next() {
    let mut net = attack(ChannelsConfig::default());
    let first = open(&mut net, 0);
    send(&mut net, 0, 99, b"?");
    use_again(&mut net, b"2");
    net.events_of_b();
    assert_eq!(net.b.read(net.now, first), None);
    net.run(SECOND);
    let events = net.events_of_b();
    let (channel, why) = (first, ChannelEnd::Flaw(Flaw::Ppid(99)));
    assert_eq!(events[0], ChannelEvent::Closed { channel, why });
    let second = events
        .iter()
        .find_map(is_opened)
        .unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(net.b.read(net.now, second), Some(text("2")));
}

#[test]
fn closing_one_use_of_a_stream_does_not_close_the_next() {
    let mut net = attack(ChannelsConfig::default());
    let first = open(&mut net, 0);
    send(&mut net, 0, TEXT, b"1");
    use_again(&mut net, b"2");
    net.b.close(net.now, first);
    net.run(SECOND);
    let second = net.b.channels().next().unwrap();
    assert_eq!(net.b.read(net.now, second), Some(text("2")));
}

// The peer may reset a stream as often as it likes.
#[test]
fn resets_of_a_stream_without_messages_between_them_are_one() {
    let mut net = attack(ChannelsConfig::default());
    let channel = open(&mut net, 0);
    send(&mut net, 0, TEXT, b"1");
    for _ in 0..10 {
        net.a.open(0);
        net.a.reset(net.now, 0);
        net.run(SECOND);
    }
    net.events_of_b();
    assert_eq!(net.b.read(net.now, channel), Some(text("1")));
    let why = ChannelEnd::Peer;
    net.run(SECOND);
    assert_eq!(net.events_of_b(), [ChannelEvent::Closed { channel, why }]);
    assert_eq!(net.b.session().open_streams().count(), 0);
    net.events_of_a();
    open(&mut net, 0);
}

#[test]
fn a_message_that_never_becomes_complete_does_not_keep_its_stream() {
    let mut net = attack(ChannelsConfig {
        max_message: 1 << 20,
        ..ChannelsConfig::default()
    });
    net.a.open(0);
    send(&mut net, 0, DCEP, OPEN);
    // The window closes, and the rest is given up.
    for stream in [0, 2, 4, 6, 8] {
        net.a.open(stream);
        let outgoing = Outgoing {
            stream,
            ppid: 53,
            unordered: false,
            reliability: Reliability::Lifetime(Span::from_millis(60)),
            content: vec![1; 200_000].into(),
        };
        net.a.send(net.now, outgoing).unwrap();
    }
    net.run(SECOND * 3);
    for stream in [0, 2, 4, 6, 8] {
        net.a.reset(net.now, stream);
    }
    net.run(SECOND * 3);
    let ids: Vec<ChannelId> = net.b.channels().collect();
    for id in ids {
        while net.b.read(net.now, id).is_some() {}
    }
    net.run(SECOND * 3);
    assert_eq!(net.b.session().open_streams().count(), 0);
    assert_eq!(net.b.channels().count(), 0);
}

#[test]
fn a_channel_has_its_own_threshold() {
    let config = ChannelsConfig {
        association: whimbrel_datachannel::AssociationConfig {
            outbound_streams: 1,
            ..whimbrel_datachannel::AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net = connected(&config);
    net.reports_low = true;
    let first = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    net.a.set_buffered_low(first, 100_000);
    net.a.close(net.now, first);
    net.run(SECOND);
    let second = net.a.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    assert_eq!(net.a.stream(second), Some(0));
    net.events_of_a();
    net.a
        .send(net.now, second, ChannelMessage::Binary(vec![0; 50_000]))
        .unwrap();
    net.a
        .send(net.now, second, ChannelMessage::Binary(vec![0; 60_000]))
        .unwrap();
    while net.events_a.is_empty() {
        net.run(Span::from_millis(1));
    }
    assert_eq!(net.events_of_a(), [ChannelEvent::BufferedLow(second)]);
    assert_eq!(net.a.buffered(second), 0);
}
