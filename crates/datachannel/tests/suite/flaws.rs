//! Peers that make errors: A is a [`Session`], which sends anything.

use proptest::prelude::*;
use whimbrel_datachannel::{
    AssociationConfig, ChannelConfig, ChannelEnd, ChannelEvent, ChannelId, ChannelsConfig, DataChannels, DtlsRole,
    Flaw, Outgoing, Reliability, Session, SessionEvent, Span, StreamNews,
};

use crate::net::{Net, channels, random};

pub(crate) type Attack = Net<Session, DataChannels>;

const SECOND: Span = Span::from_secs(1);
/// An OPEN with the label "x".
pub(crate) const OPEN: &[u8] = b"\x03\x00\x01\x00\x00\x00\x00\x00\x00\x01\x00\x00x";
/// PPID of DCEP.
pub(crate) const DCEP: u32 = 50;

/// A is the DTLS client.
pub(crate) fn attack(config: ChannelsConfig) -> Attack {
    let session = Session::new(AssociationConfig::webrtc(), 5000, 5000, random("a")).unwrap();
    let mut net = Net::new(session, channels("b", config));
    net.b.set_role(net.now, DtlsRole::Server);
    net.a.connect(net.now).unwrap();
    net.run(SECOND);
    assert_eq!(net.events_of_b(), [ChannelEvent::Connected]);
    net
}

pub(crate) fn send(net: &mut Attack, stream: u16, ppid: u32, content: &[u8]) {
    net.a.open(stream);
    let outgoing = Outgoing {
        stream,
        ppid,
        unordered: false,
        reliability: Reliability::Full,
        content: content.to_vec().into(),
    };
    net.a.send(net.now, outgoing).unwrap();
    net.run(SECOND);
}

/// Returns the channel that an OPEN on this stream has opened.
pub(crate) fn open(net: &mut Attack, stream: u16) -> ChannelId {
    send(net, stream, DCEP, OPEN);
    assert_eq!(
        net.a.read(net.now, stream).map(|ack| (ack.ppid, ack.content)),
        Some((DCEP, vec![2]))
    );
    match net.events_of_b()[..] {
        [ChannelEvent::Opened { channel, by_peer: true }] => channel,
        ref other => panic!("{other:?}"),
    }
}

/// Nothing but a reset has come back on a stream.
fn has_no_ack(net: &mut Attack, stream: u16) {
    assert_eq!(net.a.read(net.now, stream), None);
    let done = SessionEvent::Stream(StreamNews::ResetDone(stream));
    assert!(net.events_of_a().contains(&done));
}

// [8832:6-7, 6-8, 6-12]
#[test]
fn rfc_8832_6_a_stream_that_does_not_begin_with_a_valid_open_is_reset() {
    let cases: [(u16, u32, &[u8], Flaw); 8] = [
        (1, DCEP, OPEN, Flaw::Parity),
        (2, DCEP, &OPEN[..12], Flaw::Lengths),
        (
            4,
            DCEP,
            b"\x03\x04\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00",
            Flaw::ChannelType(4),
        ),
        (
            6,
            DCEP,
            b"\x03\x00\x01\x00\x00\x00\x00\x00\x00\x01\x00\x00\xff",
            Flaw::NotUtf8,
        ),
        (8, DCEP, b"\x01", Flaw::NotDcep),
        (10, DCEP, b"\x02", Flaw::NotOpen),
        (12, 51, b"text", Flaw::NotOpen),
        (14, 53, OPEN, Flaw::NotOpen),
    ];
    let mut net = attack(ChannelsConfig::default());
    for (stream, ppid, content, flaw) in cases {
        send(&mut net, stream, ppid, content);
        assert_eq!(net.events_of_b(), [ChannelEvent::Refused { stream, flaw }]);
        has_no_ack(&mut net, stream);
    }
    assert_eq!(net.b.channels().count(), 0);
    // The streams can be used again.
    open(&mut net, 2);
    open(&mut net, 12);
}

#[test]
fn rfc_8832_6_errors_on_a_channel_close_it() {
    let cases: [(u32, &[u8], Flaw); 7] = [
        (DCEP, OPEN, Flaw::InUse),
        (DCEP, b"\x00", Flaw::NotDcep),
        (DCEP, b"\x03", Flaw::Lengths),
        (0, b"x", Flaw::Ppid(0)),
        // The deprecated PPIDs of partial messages.
        (52, b"x", Flaw::Ppid(52)),
        (54, b"x", Flaw::Ppid(54)),
        (51, b"\xff", Flaw::NotUtf8),
    ];
    let mut net = attack(ChannelsConfig::default());
    for (at, (ppid, content, flaw)) in cases.into_iter().enumerate() {
        let stream = 2 * at as u16;
        let channel = open(&mut net, stream);
        send(&mut net, stream, ppid, content);
        assert_eq!(net.b.read(net.now, channel), None);
        net.run(SECOND);
        let why = ChannelEnd::Flaw(flaw);
        let events = net.events_of_b();
        assert_eq!(
            events.last(),
            Some(&ChannelEvent::Closed { channel, why }),
            "{events:?}"
        );
        has_no_ack(&mut net, stream);
    }
}

#[test]
fn a_second_ack_is_harmless() {
    let mut net = attack(ChannelsConfig::default());
    let channel = open(&mut net, 0);
    send(&mut net, 0, DCEP, b"\x02");
    assert_eq!(net.events_of_b(), []);
    assert_eq!(net.b.channels().collect::<Vec<_>>(), [channel]);
}

// RFC 8832 §6: a reset instead of an ACK means that the channel was not accepted.
#[test]
fn rfc_8832_6_a_reset_instead_of_the_ack_closes_the_channel() {
    let mut net = attack(ChannelsConfig::default());
    let channel = net.b.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    let stream = net.b.stream(channel).unwrap();
    assert_eq!(net.a.read(net.now, stream).unwrap().ppid, DCEP);
    net.a.reset(net.now, stream);
    net.run(SECOND);
    let why = ChannelEnd::Peer;
    assert_eq!(net.events_of_b(), [ChannelEvent::Closed { channel, why }]);
    let again = net.b.open(net.now, ChannelConfig::default()).unwrap();
    net.run(SECOND);
    assert!(net.b.stream(again).is_some());
}

// RFC 8832 §7: an endpoint is prepared for as many channels, and as long names, as possible.
#[test]
fn rfc_8832_7_channels_of_the_peer_and_their_names_are_bounded() {
    let mut config = ChannelsConfig {
        max_peer_channels: 2,
        ..ChannelsConfig::default()
    };
    let mut net = attack(config.clone());
    let first = open(&mut net, 0);
    open(&mut net, 2);
    send(&mut net, 4, DCEP, OPEN);
    let flaw = Flaw::TooMany;
    assert_eq!(net.events_of_b(), [ChannelEvent::Refused { stream: 4, flaw }]);
    net.b.close(net.now, first);
    net.run(SECOND);
    net.events_of_b();
    net.events_of_a();
    open(&mut net, 6);
    config.max_peer_names = 1;
    let mut net = attack(config);
    open(&mut net, 0);
    send(&mut net, 2, DCEP, OPEN);
    assert_eq!(net.events_of_b(), [ChannelEvent::Refused { stream: 2, flaw }]);
}

#[test]
fn a_message_that_is_longer_than_accepted_ends_the_association() {
    let config = ChannelsConfig {
        max_message: 1000,
        ..ChannelsConfig::default()
    };
    let mut net = attack(config);
    let channel = open(&mut net, 0);
    send(&mut net, 0, 53, &[0; 1000]);
    assert!(net.b.read(net.now, channel).is_some());
    send(&mut net, 0, 53, &[0; 1001]);
    let events = net.events_of_b();
    assert!(matches!(events.last(), Some(ChannelEvent::Ended(_))), "{events:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    // Whatever a peer sends, both ends agree in the end: a stream has a channel, or none and is free.
    #[test]
    fn any_messages_leave_no_stream_behind(
        messages in proptest::collection::vec(
            (0_u16..6, prop_oneof![Just(50_u32), Just(51), Just(53), Just(56), any::<u32>()],
             prop_oneof![Just(OPEN.to_vec()), Just(vec![2]), proptest::collection::vec(any::<u8>(), 1..40)], any::<bool>()),
            1..20,
        )
    ) {
        let mut net = attack(ChannelsConfig::default());
        for (stream, ppid, content, closes) in messages {
            if net.a.is_resetting(stream) {
                continue;
            }
            net.a.open(stream);
            let (unordered, reliability) = (false, Reliability::Full);
            let outgoing = Outgoing { stream, ppid, unordered, reliability, content: content.into() };
            net.a.send(net.now, outgoing).unwrap();
            if closes {
                net.a.reset(net.now, stream);
            }
            net.run(Span::from_millis(15));
            let ids: Vec<ChannelId> = net.b.channels().collect();
            for id in ids {
                while net.b.read(net.now, id).is_some() {}
            }
        }
        net.run(SECOND * 5);
        let ids: Vec<ChannelId> = net.b.channels().collect();
        for &id in &ids {
            while net.b.read(net.now, id).is_some() {}
        }
        net.run(SECOND * 5);
        let ids: Vec<ChannelId> = net.b.channels().collect();
        let mut streams: Vec<u16> = ids.iter().filter_map(|&id| net.b.stream(id)).collect();
        streams.sort_unstable();
        prop_assert_eq!(&streams, &net.b.session().open_streams().collect::<Vec<_>>());
        for id in ids {
            net.b.close(net.now, id);
        }
        net.run(SECOND * 5);
        prop_assert_eq!(net.b.channels().count(), 0);
        prop_assert_eq!(net.b.session().open_streams().count(), 0);
    }
}
