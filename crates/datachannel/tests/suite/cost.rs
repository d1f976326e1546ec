//! What a peer can make this end spend.

use std::time::{Duration, Instant};

use whimbrel_datachannel::{ChannelConfig, ChannelMessage, ChannelsConfig, DataChannels, Span};

use crate::net::{Net, connected};

/// Returns two ends with this number of channels, opened by A.
fn with_channels(count: usize) -> Net<DataChannels, DataChannels> {
    let mut net = connected(&ChannelsConfig {
        max_peer_channels: count,
        ..ChannelsConfig::default()
    });
    for _ in 0..count {
        net.a.open(net.now, ChannelConfig::default()).unwrap();
    }
    net.run(Span::from_secs(20));
    assert_eq!(net.b.channels().count(), count);
    net
}

/// Returns the time for messages on one of this number of channels.
fn time_with(count: usize) -> Duration {
    let mut net = with_channels(count);
    let (a, b) = (net.a.channels().next().unwrap(), net.b.channels().next().unwrap());
    let begin = Instant::now();
    for _ in 0..200 {
        net.a.send(net.now, a, ChannelMessage::Binary(vec![0; 10_000])).unwrap();
        net.run(Span::from_millis(10));
        while net.b.read(net.now, b).is_some() {}
    }
    begin.elapsed()
}

// The other channels cost nothing: once, each packet looked at each of them, and this took 500 times as long.
#[test]
fn a_packet_does_not_take_longer_with_many_channels() {
    let (few, many) = (time_with(1), time_with(16_000));
    assert!(many < few * 20 + Duration::from_millis(200), "{few:?} {many:?}");
}

/// Returns the time to close this number of channels with a message each that has not arrived.
fn time_to_close(count: usize) -> Duration {
    let mut net = with_channels(count);
    let ids: Vec<_> = net.a.channels().collect();
    for &id in &ids {
        net.a.send(net.now, id, ChannelMessage::Binary(vec![0; 10])).unwrap();
    }
    let begin = Instant::now();
    for &id in &ids {
        net.a.close(net.now, id);
    }
    begin.elapsed()
}

// Once, each call looked at each channel that was being closed: 16000 took 12 s.
#[test]
fn closing_many_channels_takes_linear_time() {
    let (few, many) = (time_to_close(500), time_to_close(16_000));
    assert!(many < few * 150 + Duration::from_millis(500), "{few:?} {many:?}");
}
