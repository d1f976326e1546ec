//! Messages: fragmentation, bundling, order, numbers that wrap around, and the limits of the send buffer (RFC 9260 §1.6, §6.1, §6.5, §6.6,
//! §6.9, §6.10).

use std::convert::Infallible;

use crate::support::{Fate, Host, Net, addr, addrs, data};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, Endpoint, EndpointConfig, Event, Message, MessagePayload,
    SendError, TransportAddr,
};
use whimbrel_wire::{Chunk, ChunkType, Data, MessageNumber, Payload, Ssn};

fn quiet() -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

fn content(len: usize, seed: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed) as u8).collect()
}

/// Queues messages without sending a packet in between.
fn queue(net: &mut Net, id: AssocId, messages: Vec<Message>) {
    let now = net.now;
    for message in messages {
        net.a.send(now, id, message).expect("accepted");
    }
    net.drain(Host::A);
}

// [9260:6-8, 6-9, 6.9-1, 6.9-2, 6.9-7, 6.9-9, 6.9-10, 6.9-11, 6.9-13, 6.10-1, 6.10-4]
// [9260:6.10-5, 3.3.1-12, 3.3.1-13]
#[test]
fn section_6_9_messages_of_every_size_are_fragmented_and_reassembled() {
    let (mut net, a, _) = Net::established(1, &quiet());
    let sizes: Vec<usize> = (1..=40)
        .chain(1430..=1470)
        .chain(2890..=2920)
        .chain(4340..=4370)
        .collect();
    for &len in &sizes {
        let before = net.wire.len();
        net.send(Host::A, a, Message::new(0, content(len, len)));
        net.run_for(Span::from_secs(2));
        let sent: Vec<_> = net.wire[before..].iter().filter(|sent| sent.from == Host::A).collect();
        let chunks: Vec<Data<'_>> = sent.iter().flat_map(|sent| sent.data()).collect();
        assert_eq!(chunks.len(), len.div_ceil(1452), "{len}");
        for (index, chunk) in chunks.iter().enumerate() {
            assert_eq!(chunk.begin, index == 0, "{len}");
            assert_eq!(chunk.end, index + 1 == chunks.len(), "{len}");
            assert_eq!(chunk.tsn.0, chunks[0].tsn.0.wrapping_add(index as u32), "{len}");
            assert_eq!((chunk.number, chunk.stream), (chunks[0].number, 0));
        }
        assert!(sent.iter().all(|sent| sent.bytes.len() <= 1480), "{len}");
        assert_eq!(net.contents(Host::B).last(), Some(&content(len, len)), "{len}");
    }
    assert_eq!(net.contents(Host::B).len(), sizes.len());
}

/// Creates both hosts with these addresses and this MTU.
fn between(a: &[TransportAddr], b: &[TransportAddr], mtu: u16) -> (Net, AssocId) {
    let config = AssociationConfig { mtu, ..quiet() };
    let mut net = Net::with_config(1, &config, 1);
    for (host, addrs) in [(Host::A, a), (Host::B, b)] {
        let config = EndpointConfig {
            local_port: crate::support::port(host),
            local_addrs: addrs.to_vec(),
            listen: true,
            association: config.clone().into(),
            ..EndpointConfig::default()
        };
        let endpoint = Endpoint::new(config, Box::new(Rng::stream(1, &format!("{host:?}")))).expect("valid");
        *net.host(host) = endpoint;
    }
    let now = net.now;
    let id = net
        .a
        .connect(now, config, 4002, &b[..1])
        .expect("the association can be opened");
    net.run_for(Span::from_secs(10));
    (net, id)
}

// [9260:6-9, 6.9-5, 6.9-10, 6.10-2, 7.3-2, 7.3-3, 7.3-4]
#[test]
fn section_7_3_chunks_fit_every_path_with_ipv4_ipv6_and_udp() {
    let v4 = [addr("10.0.0.1:0"), addr("10.0.0.2:0")];
    let v6 = [addr("[2001:db8::1]:0"), addr("[2001:db8::2]:0")];
    let udp = [addr("10.0.0.1:9899"), addr("10.0.0.2:9899")];
    // IP header 20 or 40, UDP 8, SCTP 12, chunk header 16.
    for (pair, mtu, largest) in [
        (v4, 1500, 1452),
        (v6, 1500, 1432),
        (udp, 1500, 1444),
        (v4, 576, 528),
        (v6, 1280, 1212),
    ] {
        let (mut net, id) = between(&pair[..1], &pair[1..], mtu);
        net.send(Host::A, id, Message::new(0, content(10_000, 1)));
        net.run_for(Span::from_secs(10));
        let lens: Vec<_> = net
            .last(Host::A, ChunkType::DATA)
            .data()
            .iter()
            .map(|data| data.payload.len())
            .collect();
        let all: Vec<_> = net
            .sent(Host::A, ChunkType::DATA)
            .iter()
            .flat_map(|s| s.data().iter().map(|d| d.payload.len()).collect::<Vec<_>>())
            .collect();
        assert_eq!(all[0], largest, "{pair:?} {mtu}: {lens:?}");
        assert_eq!(net.contents(Host::B), [content(10_000, 1)]);
    }
    // One IPv6 path makes all chunks small enough for it.
    let (mut net, id) = between(&[v4[0], v6[0]], &[v4[1], v6[1]], 1500);
    assert_eq!(net.a.association(id).expect("established").paths().count(), 2);
    net.send(Host::A, id, Message::new(0, content(10_000, 1)));
    net.run_for(Span::from_secs(10));
    assert!(
        net.sent(Host::A, ChunkType::DATA)
            .iter()
            .all(|s| s.data().iter().all(|d| d.payload.len() <= 1432))
    );
}

// [9260:6-11, 6.10-1, 6.10-4]
#[test]
fn section_6_10_small_messages_are_bundled() {
    let (mut net, a, _) = Net::established(
        1,
        &AssociationConfig {
            max_burst: 0,
            ..quiet()
        },
    );
    let messages = (0..500)
        .map(|number| Message::new(number % 3, content(10, number.into())))
        .collect();
    queue(&mut net, a, messages);
    // 1468 bytes hold 52 chunks of 16 + 10 bytes, padded to 28.
    let counts: Vec<_> = net
        .sent(Host::A, ChunkType::DATA)
        .iter()
        .map(|sent| sent.data().len())
        .collect();
    assert_eq!(counts[..3], [52, 52, 52]);
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B).len(), 500);
    assert!(net.count(Host::A, ChunkType::DATA) <= 12);
}

// [9260:6.9-8]
#[test]
fn section_6_9_a_bundled_sack_is_counted() {
    let (mut net, a, b) = Net::established(1, &quiet());
    net.send(Host::A, a, Message::zeros(0, 1));
    net.run_for(Span::from_secs(1));
    for _ in 0..20 {
        net.send(Host::B, b, Message::zeros(0, 100));
        net.run_for(Span::from_millis(20));
        net.send(Host::A, a, Message::new(0, content(1440, 3)));
        net.run_for(Span::from_millis(500));
    }
    assert!(net.wire.iter().all(|sent| sent.bytes.len() <= 1480));
    assert_eq!(net.contents(Host::B).len(), 21);
}

// [9260:6.6-1, 6.6-2, 6.6-3, 6.5-6]
#[test]
fn section_6_6_a_lost_message_delays_only_its_own_stream() {
    let (mut net, a, _) = Net::established(1, &quiet());
    let mut count = 0;
    net.filter = Box::new(move |packet| {
        count += usize::from(packet.has(ChunkType::DATA));
        if packet.has(ChunkType::DATA) && count == 1 {
            Fate::Drop
        } else {
            Fate::Deliver
        }
    });
    for (stream, unordered, text) in [
        (1, false, "lost at first"),
        (1, false, "waits"),
        (2, false, "other stream"),
        (1, true, "unordered"),
    ] {
        net.send(
            Host::A,
            a,
            Message {
                unordered,
                ..Message::new(stream, text.as_bytes())
            },
        );
    }
    net.run_for(Span::from_millis(15));
    let text = |net: &Net| -> Vec<String> {
        net.contents(Host::B)
            .into_iter()
            .map(|content| String::from_utf8(content).expect("text"))
            .collect()
    };
    assert_eq!(text(&net), ["other stream", "unordered"]);
    net.run_for(Span::from_secs(2));
    assert_eq!(text(&net), ["other stream", "unordered", "lost at first", "waits"]);
    let unordered = net.sent(Host::A, ChunkType::DATA)[3].data()[0].number;
    assert_eq!(unordered, MessageNumber::Ssn(Ssn(0)));
}

// [9260:3.3.1-7]
#[test]
fn payload_protocol_identifiers_pass_through() {
    let (mut net, a, b) = Net::established(1, &quiet());
    net.auto_read = false;
    let ppid = 0x0102_0304;
    queue(
        &mut net,
        a,
        vec![Message {
            ppid,
            ..Message::new(3, content(3000, 0))
        }],
    );
    net.run_for(Span::from_secs(1));
    let now = net.now;
    let received = net.b.recv(now, b, &mut |_| ()).expect("a message");
    assert_eq!(
        (received.ppid, received.stream, received.len, received.end),
        (ppid, 3, 3000, true)
    );
    // RFC 9260 §3.3.1: in network byte order, unchanged.
    assert!(
        net.sent(Host::A, ChunkType::DATA)
            .iter()
            .all(|sent| sent.bytes[24..28] == [1, 2, 3, 4])
    );
}

// [9260:6.5-1, 3.3.1-5, 6.2-32]
#[test]
fn section_11_1_5_a_message_that_cannot_be_sent_is_returned() {
    let (mut net, a, _) = Net::established(
        1,
        &AssociationConfig {
            send_buffer: 10_000,
            ..quiet()
        },
    );
    let now = net.now;
    assert!(matches!(
        net.a.send(now, a, Message::zeros(0, 0)),
        Err(SendError::Empty)
    ));
    let beyond = net.a.send(now, a, Message::zeros(16, 1));
    assert!(
        matches!(
            beyond,
            Err(SendError::NoSuchStream {
                stream: 16,
                available: 16
            })
        ),
        "{beyond:?}"
    );
    let long = net.a.send(now, a, Message::zeros(0, 10_001));
    assert!(
        matches!(
            long,
            Err(SendError::TooLong {
                len: 10_001,
                limit: 10_000
            })
        ),
        "{long:?}"
    );
    net.a.send(now, a, Message::zeros(0, 10_000)).expect("just fits");
    let Err(SendError::Full(back)) = net.a.send(now, a, Message::new(2, content(100, 5))) else {
        panic!("must be full")
    };
    assert_eq!(back.payload, MessagePayload::Bytes(content(100, 5).into()));
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 10_000);
    net.run_for(Span::from_secs(2));
    let events: Vec<_> = net
        .events_of(Host::A)
        .into_iter()
        .filter(|e| matches!(e, Event::SendSpace | Event::SendIdle))
        .collect();
    assert_eq!(events, [Event::SendSpace, Event::SendIdle], "once each");
    assert_eq!(net.a.association(a).expect("established").buffered_send(), 0);
    net.send(Host::A, a, back);
    net.run_for(Span::from_secs(2));
    assert_eq!(net.contents(Host::B).len(), 2);
}

#[test]
fn section_11_2_a_sender_that_waits_for_space_is_always_notified() {
    for buffer in [1500, 4000, 65_536] {
        let (mut net, a, _) = Net::established(
            1,
            &AssociationConfig {
                send_buffer: buffer,
                ..quiet()
            },
        );
        let mut left = 200_u32;
        let mut ready = true;
        net.run_until(Span::from_secs(600), "all sent", |net| {
            ready |= net.events_of(Host::A).contains(&Event::SendSpace);
            while ready && left > 0 {
                let now = net.now;
                match net.a.send(now, a, Message::zeros(0, 1 + left * 7 % 1500)) {
                    Ok(()) => left -= 1,
                    Err(SendError::Full(_)) => {
                        ready = false;
                        net.events.clear();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            net.drain(Host::A);
            left == 0
        });
        net.run_for(Span::from_secs(10));
        assert_eq!(net.contents(Host::B).len(), 200, "{buffer}");
    }
}

/// Random numbers whose 32-bit values (tags and initial TSNs) are all the same.
struct Always(u32, Rng);

impl rand_core::TryRng for Always {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.0)
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.1.next_u64())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.fill(self.0 as u8);
        Ok(())
    }
}

// [9260:1.6-1, 1.6-2, 1.6-4, 3.3.4-1]
#[test]
fn section_1_6_tsns_wrap_in_the_middle_of_a_lossy_transfer() {
    for initial in [u32::MAX, u32::MAX - 50, 0x7fff_ffd0, 0x7fff_ffff, 1] {
        let mut net = Net::new(2);
        for host in [Host::A, Host::B] {
            let config = EndpointConfig {
                local_port: crate::support::port(host),
                local_addrs: addrs(host, 2),
                listen: true,
                ..EndpointConfig::default()
            };
            let random = Always(initial, Rng::stream(1, "always"));
            *net.host(host) = Endpoint::new(config, Box::new(random)).expect("valid");
        }
        let mut network = Rng::stream(u64::from(initial), "network");
        net.filter = Box::new(move |_| match network.below(10) {
            0 => Fate::Drop,
            1 => Fate::Delay(Span::from_millis(network.below(60))),
            2 => Fate::Duplicate,
            _ => Fate::Deliver,
        });
        let id = net.connect(&quiet(), 2);
        net.run_for(Span::from_secs(10));
        assert_eq!(net.sent(Host::A, ChunkType::INIT)[0].init().initial_tsn.0, initial);
        let b = net.only(Host::B);
        for number in 0..100 {
            net.send(Host::A, id, Message::new(0, content(1000, number)));
            net.send(Host::B, b, Message::new(0, content(1000, number + 1)));
        }
        net.run_for(Span::from_secs(200));
        let expected = |offset: usize| -> Vec<_> { (0..100).map(|number| content(1000, number + offset)).collect() };
        assert_eq!(net.contents(Host::B), expected(0), "{initial:#x}");
        assert_eq!(net.contents(Host::A), expected(1), "{initial:#x}");
    }
}

// [9260:6.5-3, 6.5-4, 6.5-5, 1.6-5]
#[test]
fn section_6_5_stream_sequence_numbers_wrap_during_a_transfer() {
    let config = AssociationConfig {
        max_burst: 0,
        initial_cwnd: Some(1 << 20),
        recv_buffer: 1 << 20,
        ..quiet()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.capture = false;
    let mut count = 0;
    net.filter = Box::new(move |_| {
        count += 1;
        if count % 50 == 0 { Fate::Drop } else { Fate::Deliver }
    });
    let total = 66_000_u32;
    let mut number = 0_u32;
    while number < total {
        let now = net.now;
        while number < total
            && net
                .a
                .send(now, a, Message::new(5, number.to_be_bytes().to_vec()))
                .is_ok()
        {
            number += 1;
        }
        net.run_for(Span::from_millis(50));
    }
    net.run_for(Span::from_secs(60));
    let got = net.contents(Host::B);
    assert_eq!(got.len(), total as usize);
    assert!(
        got.iter()
            .enumerate()
            .all(|(index, content)| *content == (index as u32).to_be_bytes())
    );
}

/// An association without limits by window or burst, whose packets are not recorded.
fn without_limits() -> (Net, AssocId) {
    let config = AssociationConfig {
        max_burst: 0,
        initial_cwnd: Some(1 << 30),
        recv_buffer: 1 << 30,
        ..quiet()
    };
    let (mut net, a, _) = Net::established(1, &config);
    net.capture = false;
    (net, a)
}

fn chunks_sent(net: &Net, a: AssocId) -> u64 {
    net.a.association(a).expect("established").stats().data_chunks_sent
}

// [9260:6.1-23, 1.6-3]
#[test]
fn section_6_1_no_more_than_65535_messages_of_a_stream_are_outstanding() {
    let (mut net, a) = without_limits();
    net.filter = Box::new(|_| Fate::Drop);
    let now = net.now;
    for _ in 0..70_000 {
        net.a.send(now, a, Message::zeros(0, 1)).expect("accepted");
    }
    net.drain(Host::A);
    assert_eq!(chunks_sent(&net, a), 65_535);
}

// [9260:6.1-23]
#[test]
fn section_6_1_the_limit_of_outstanding_messages_applies_per_stream() {
    let (mut net, a) = without_limits();
    net.filter = Box::new(|_| Fate::Drop);
    let now = net.now;
    for number in 0..150_000_u32 {
        let message = Message {
            unordered: number % 3 == 2,
            ..Message::zeros((number % 3) as u16, 1)
        };
        net.a.send(now, a, message).expect("accepted");
    }
    net.drain(Host::A);
    assert_eq!(chunks_sent(&net, a), 150_000);
    // 50,000 messages are outstanding on each of the first two streams; the next one on the first stream exceeds the limit.
    for _ in 0..20_000 {
        net.a.send(now, a, Message::zeros(0, 1)).expect("accepted");
    }
    net.drain(Host::A);
    assert_eq!(chunks_sent(&net, a), 165_535);
}

#[test]
fn a_gap_before_more_chunks_than_a_sack_can_report_is_filled() {
    // RFC 9260 §3.3.4: the offsets of Gap Ack Blocks have 16 bits.
    let (mut net, a) = without_limits();
    let mut dropped = false;
    net.filter = Box::new(move |packet| {
        let drops = packet.from == Host::A && packet.has(ChunkType::DATA) && !core::mem::replace(&mut dropped, true);
        if drops { Fate::Drop } else { Fate::Deliver }
    });
    let now = net.now;
    for number in 0..200_000_u32 {
        net.a
            .send(now, a, Message::zeros((number % 16) as u16, 1))
            .expect("accepted");
    }
    net.run_for(Span::from_secs(5));
    assert_eq!(net.contents(Host::B).len(), 200_000);
    let stats = net.a.association(a).expect("established").stats();
    assert!(stats.retransmissions < 200 && stats.timeouts == 0, "{stats:?}");
    let received = net.only(Host::B);
    let received = net.b.association(received).expect("established").receiver_stats();
    assert_eq!((received.out_of_window, received.reneged), (0, 0));
}

// [9260:6.5-2]
#[test]
fn section_6_5_data_on_a_stream_that_does_not_exist() {
    let few = AssociationConfig {
        max_inbound_streams: 2,
        ..quiet()
    };
    let mut net = Net::with_config(1, &few, 1);
    let id = net.connect(&quiet(), 1);
    net.run_for(Span::from_secs(1));
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let before = net.wire.len();
    let wrong = Data {
        stream: 2,
        ..data(tsn, 0, b"nowhere")
    };
    assert_eq!(net.as_peer(Host::B, &[Chunk::Data(wrong)]), Err(Discard::InvalidChunk));
    let answer = &net.wire[before];
    assert_eq!(
        answer.types(),
        [ChunkType::ERROR, ChunkType::SACK],
        "acknowledged, and reported"
    );
    assert_eq!((answer.causes(), answer.sack().expect("a SACK").0), (vec![1], tsn));
    net.as_peer(Host::B, &[Chunk::Data(data(tsn.wrapping_add(1), 0, b"here"))])
        .expect("accepted");
    assert_eq!(net.contents(Host::B), [b"here"]);
    let now = net.now;
    assert!(
        net.a.send(now, id, Message::zeros(2, 1)).is_err(),
        "no outbound stream is valid"
    );
}

// [9260:6.2-31]
#[test]
fn section_6_2_data_without_user_data_ends_the_association() {
    let (mut net, _, _) = Net::established(1, &quiet());
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let empty = Data {
        payload: Payload::Bytes(b""),
        ..data(tsn, 0, b"")
    };
    assert_eq!(net.as_peer(Host::B, &[Chunk::Data(empty)]), Err(Discard::InvalidChunk));
    assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [9]);
    assert!(matches!(
        net.close_reason(Host::B),
        Some(CloseReason::ProtocolViolation(_))
    ));
}

#[test]
fn section_6_9_contradictory_fragments_end_the_association() {
    let (mut net, _, _) = Net::established(1, &quiet());
    let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
    let begin = Data {
        end: false,
        ..data(tsn, 0, b"one ")
    };
    let again = Data {
        end: false,
        ..data(tsn.wrapping_add(1), 1, b"two")
    };
    net.as_peer(Host::B, &[Chunk::Data(begin)]).expect("accepted");
    assert_eq!(net.as_peer(Host::B, &[Chunk::Data(again)]), Err(Discard::InvalidChunk));
    assert_eq!(net.last(Host::B, ChunkType::ABORT).causes(), [13]);
    assert_eq!(net.b.associations().count(), 0);
}

/// RFC 9260 §3.2: handling of chunks of unknown types.
#[test]
fn section_3_2_unknown_chunks_follow_their_two_high_bits() {
    for (high, reported, goes_on) in [
        (0x00, false, false),
        (0x40, true, false),
        (0x80, false, true),
        (0xc0, true, true),
    ] {
        let (mut net, _, _) = Net::established(1, &quiet());
        let tsn = net.last(Host::A, ChunkType::INIT).init().initial_tsn.0;
        let raw = [high | 0x3c, 0, 0, 6, 9, 9];
        let unknown = Chunk::Unknown(whimbrel_wire::RawChunk::from_bytes(&raw).expect("an unknown type"));
        let _ = net.as_peer(Host::B, &[unknown, Chunk::Data(data(tsn, 0, b"after"))]);
        assert_eq!(net.contents(Host::B).len() == 1, goes_on, "{high:#x}");
        let errors: Vec<_> = net
            .sent(Host::B, ChunkType::ERROR)
            .iter()
            .map(|sent| sent.causes())
            .collect();
        assert_eq!(errors, if reported { vec![vec![6]] } else { vec![] }, "{high:#x}");
    }
}

#[test]
fn data_is_reported_again_after_the_last_message_has_been_read() {
    let (mut net, a, b) = Net::established(1, &quiet());
    net.auto_read = false;
    let reports = |net: &Net| {
        let events = net.events_of(Host::B);
        events.iter().filter(|event| **event == Event::DataReady).count()
    };
    let before = reports(&net);
    for len in [10, 20] {
        net.send(Host::A, a, Message::new(0, content(len, len)));
        net.run_for(Span::from_secs(1));
    }
    assert_eq!(reports(&net), before + 1, "once for both");
    let now = net.now;
    let more = |net: &mut Net| net.b.recv(now, b, &mut |_| {}).map(|received| received.more);
    assert_eq!(more(&mut net), Some(true));
    assert_eq!(more(&mut net), Some(false));
    // The call that would return `None` is not needed.
    net.send(Host::A, a, Message::new(0, content(30, 30)));
    net.run_for(Span::from_secs(1));
    assert_eq!(reports(&net), before + 2);
    assert_eq!(more(&mut net), Some(false));
    assert_eq!(more(&mut net), None);
}
