//! The protocol core and dcsctp, the SCTP of WebRTC in Chromium and Firefox, in memory: handshakes from either end, messages of all sizes,
//! partial reliability, interleaving, resets of streams, checksums of zero and endings, over a network that may lose, delay and reorder
//! packets.

#[path = "../memory_network/mod.rs"]
mod memory_network;
mod restart;

use std::collections::BTreeSet;
use std::time::Duration;

use dcsctp::api::{
    DcSctpSocket, Options, PpId, SendOptions, SocketEvent, SocketState, SocketTime, StreamId,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS,
    ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE,
};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Discard, ErrorDetection, Event, Message, Reliability, Scheduler, State,
    StreamChange, StreamList,
};
use whimbrel_wire::{Checksum, ChunkType, PacketView, stored_checksum};

use memory_network::{Content, Network, OUR_PORT, Ours, THEIR_PORT, content, our_config, time};

/// Our endpoint, their socket, and the network between them.
struct Pair {
    ours: Ours,
    theirs: Box<dyn DcSctpSocket>,
    network: Network,
    now: Duration,
    /// Types of the chunks sent by us and by them.
    chunks: [BTreeSet<ChunkType>; 2],
    /// Of each packet: whether they sent it, and whether its checksum is zero.
    checksums: Vec<(bool, bool)>,
    errors: Vec<String>,
    /// Restarts of ours that they were notified of.
    restarts: usize,
    /// Resets that they were notified of: whether of streams from us, and the stream.
    resets: Vec<(bool, u16)>,
    read_by_them: Vec<Content>,
}

fn their_options() -> Options {
    Options {
        local_port: THEIR_PORT,
        remote_port: OUR_PORT,
        mtu: 1200,
        heartbeat_interval: Duration::from_secs(1000),
        max_send_buffer_size: 4 << 20,
        per_stream_send_queue_limit: 4 << 20,
        max_message_size: 1 << 20,
        ..Options::default()
    }
}

impl Pair {
    fn new(config: &AssociationConfig, options: &Options, seed: u64) -> Self {
        Pair {
            ours: Ours::new(config, seed),
            theirs: dcsctp::new_socket("theirs", options),
            network: Network::new(seed),
            now: Duration::from_secs(1),
            chunks: Default::default(),
            checksums: Vec::new(),
            errors: Vec::new(),
            restarts: 0,
            resets: Vec::new(),
            read_by_them: Vec::new(),
        }
    }

    /// Returns a pair with an association, opened by either end.
    fn established(config: &AssociationConfig, options: &Options, we_open: bool) -> (Self, AssocId) {
        let mut pair = Pair::new(config, options, 1);
        if we_open {
            pair.ours.open(pair.now, config);
        } else {
            pair.theirs.connect();
        }
        pair.run(Duration::from_secs(1));
        let id = pair.ours.id().expect("an association");
        assert_eq!(pair.ours.state(), Some(State::Established));
        assert_eq!(pair.theirs.state(), SocketState::Connected);
        (pair, id)
    }

    fn time(&self) -> Time {
        time(self.now)
    }

    fn carry(&mut self, to_us: bool, bytes: Vec<u8>) {
        let is_zero = stored_checksum(&bytes) == Some(0);
        self.checksums.push((to_us, is_zero));
        // The receiver decides on packets without CRC32c.
        let checksum = if is_zero { Checksum::Ignore } else { Checksum::Verify };
        let packet = PacketView::parse(&bytes, checksum).expect("well formed");
        let types = packet.chunks().map(|chunk| chunk.expect("well formed").chunk_type());
        self.chunks[usize::from(to_us)].extend(types);
        self.network.carry(self.now, to_us, bytes);
    }

    /// Sends and reads what is ready at both ends.
    fn exchange(&mut self) {
        for packet in self.ours.transmit(self.now) {
            self.carry(false, packet);
        }
        while let Some(event) = self.theirs.poll_event() {
            match event {
                SocketEvent::SendPacket(packet) => self.carry(true, packet),
                SocketEvent::OnAborted(kind, text) => self.errors.push(format!("aborted {kind:?}: {text}")),
                SocketEvent::OnError(kind, text) => self.errors.push(format!("{kind:?}: {text}")),
                SocketEvent::OnConnectionRestarted() => self.restarts += 1,
                SocketEvent::OnStreamsResetFailed(streams) => self.errors.push(format!("{streams:?} not reset")),
                SocketEvent::OnStreamsResetPerformed(streams) => {
                    self.resets.extend(streams.iter().map(|stream| (false, stream.0)));
                }
                SocketEvent::OnIncomingStreamReset(streams) => {
                    self.resets.extend(streams.iter().map(|stream| (true, stream.0)));
                }
                _ => {}
            }
        }
        while let Some(message) = self.theirs.get_next_message() {
            self.read_by_them.push((message.stream_id.0, message.payload));
        }
        self.ours.read_all(self.now);
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span;
        self.exchange();
        loop {
            let (packet, ours) = (self.network.next_arrival(), self.ours.next_timeout());
            let theirs = Some(self.theirs.poll_timeout() - SocketTime::zero()).filter(|at| *at < end);
            let due = [packet, ours, theirs].into_iter().flatten().min();
            let Some(due) = due.filter(|due| *due <= end) else {
                self.now = end;
                return;
            };
            self.now = self.now.max(due);
            self.theirs.advance_time(SocketTime::zero() + self.now);
            self.ours.endpoint.handle_timeout(self.time());
            while let Some((to_us, bytes)) = self.network.take(self.now) {
                if to_us {
                    // What is discarded is counted by the endpoint, and shows in what does not arrive.
                    let _ = self.ours.handle(self.now, &bytes);
                } else {
                    self.theirs.handle_input(&bytes);
                }
            }
            self.exchange();
        }
    }

    fn send(&mut self, message: Message) {
        self.ours.send(self.now, message);
    }

    fn they_send(&mut self, stream: u16, content: Vec<u8>, options: &SendOptions) {
        let message = dcsctp::api::Message::new(StreamId(stream), PpId(53), content);
        self.theirs.send(message, options).expect("there is room");
    }
}

/// With and without interleaving.
fn both() -> [(AssociationConfig, Options); 2] {
    [false, true].map(|interleaving| {
        let config = AssociationConfig {
            interleaving,
            scheduler: Scheduler::RoundRobin,
            ..our_config()
        };
        let options = Options {
            enable_message_interleaving: interleaving,
            ..their_options()
        };
        (config, options)
    })
}

/// Streams are used, reset and used again in both directions, without and with losses.
#[test]
fn streams_are_reset_by_either_end_and_used_again() {
    for loss in [0.0, 0.05] {
        for (config, options) in both() {
            let (mut pair, id) = Pair::established(&config, &options, true);
            pair.network.loss = loss;
            for round in 0..30 {
                for number in 0..5 {
                    pair.send(Message::new(1, content(round + number, 1500)));
                    pair.they_send(2, content(round + number, 1500), &SendOptions::default());
                    pair.send(Message::new(3, content(round + number, 100)));
                }
                let (now, change) = (pair.time(), StreamChange::ResetOutbound(StreamList::of([1])));
                pair.ours
                    .endpoint
                    .change_streams(now, id, change)
                    .expect("it is not about to be reset");
                // What follows at once waits for the response.
                pair.send(Message::new(1, content(round, 10)));
                // They discard messages that wait when they reset a stream.
                while pair.theirs.buffered_amount(StreamId(2)) > 0 {
                    pair.run(Duration::from_secs(1));
                }
                pair.theirs.reset_streams(&[StreamId(2)]).expect("supported");
                pair.they_send(2, content(round, 10), &SendOptions::default());
                pair.run(Duration::from_secs(10));
                // Lost requests and responses are repeated after one RTO, two, four.
                for _ in 0..120 {
                    let done = Event::StreamsChanged(StreamChange::ResetOutbound(StreamList::of([1])));
                    if pair.ours.events.iter().filter(|event| **event == done).count() > round {
                        break;
                    }
                    pair.run(Duration::from_secs(1));
                }
            }
            pair.network.loss = 0.0;
            pair.run(Duration::from_secs(60));
            assert_eq!(pair.errors, [""; 0]);
            let lens = |messages: &[Content], stream: u16| -> Vec<usize> {
                let of_stream = messages.iter().filter(|(of, _)| *of == stream);
                of_stream.map(|(_, content)| content.len()).collect()
            };
            let wanted: Vec<usize> = (0..30).flat_map(|_| [1500, 1500, 1500, 1500, 1500, 10]).collect();
            assert_eq!(lens(&pair.read_by_them, 1), wanted, "{loss}");
            assert_eq!(lens(&pair.ours.read, 2), wanted, "{loss}");
            assert_eq!(lens(&pair.read_by_them, 3).len(), 150);
            let theirs = |which| pair.resets.iter().filter(|reset| **reset == which).count();
            assert_eq!((theirs((true, 1)), theirs((false, 2))), (30, 30));
            let ours = |change: StreamChange| {
                let wanted = Event::StreamsChanged(change);
                pair.ours.events.iter().filter(|event| **event == wanted).count()
            };
            assert_eq!(ours(StreamChange::ResetOutbound(StreamList::of([1]))), 30);
            assert_eq!(ours(StreamChange::ResetInbound(StreamList::of([2]))), 30);
        }
    }
}

#[test]
fn either_end_opens_the_association() {
    for (config, options) in both() {
        for we_open in [true, false] {
            let (pair, _) = Pair::established(&config, &options, we_open);
            assert_eq!(pair.errors, [""; 0]);
        }
    }
}

#[test]
fn both_ends_open_it_at_once() {
    for (config, options) in both() {
        let mut pair = Pair::new(&config, &options, 3);
        pair.ours.open(pair.now, &config);
        pair.theirs.connect();
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.ours.state(), Some(State::Established));
        assert_eq!(pair.theirs.state(), SocketState::Connected);
        pair.send(Message::new(3, content(3, 5000)));
        pair.they_send(4, content(4, 5000), &SendOptions::default());
        pair.run(Duration::from_secs(2));
        assert_eq!(pair.read_by_them, [(3, content(3, 5000))]);
        assert_eq!(pair.ours.read, [(4, content(4, 5000))]);
    }
}

#[test]
fn interleaving_is_used_if_both_offer_it() {
    for (own, their) in [(true, true), (true, false), (false, true), (false, false)] {
        let config = AssociationConfig {
            interleaving: own,
            ..our_config()
        };
        let options = Options {
            enable_message_interleaving: their,
            ..their_options()
        };
        let (mut pair, id) = Pair::established(&config, &options, true);
        let both = own && their;
        let association = pair.ours.endpoint.association(id).expect("established");
        assert_eq!(association.uses_interleaving(), both);
        assert!(association.uses_partial_reliability());
        let metrics = pair.theirs.get_metrics().expect("connected");
        assert_eq!(metrics.uses_message_interleaving, both);
        pair.send(Message::new(1, content(1, 3000)));
        pair.they_send(1, content(2, 3000), &SendOptions::default());
        pair.run(Duration::from_secs(2));
        for chunks in &pair.chunks {
            assert_eq!(chunks.contains(&ChunkType::I_DATA), both);
            assert_eq!(chunks.contains(&ChunkType::DATA), !both);
        }
    }
}

/// 1 byte to 200 KiB, ordered and unordered, both ways at once, without and with losses.
#[test]
fn messages_of_all_sizes_arrive_both_ways() {
    for loss in [0.0, 0.03] {
        for (config, options) in both() {
            let (mut pair, _) = Pair::established(&config, &options, false);
            pair.network.loss = loss;
            let lens = [1, 2, 100, 1131, 1132, 1133, 5000, 65_536, 204_800];
            let mut wanted = Vec::new();
            for number in 0..60 {
                let (stream, len) = (number as u16 % 7, lens[number % lens.len()]);
                let unordered = number % 5 == 0;
                pair.send(Message {
                    unordered,
                    ..Message::new(stream, content(number, len))
                });
                let options = SendOptions {
                    unordered,
                    ..SendOptions::default()
                };
                pair.they_send(stream, content(number, len), &options);
                wanted.push((stream, content(number, len)));
                pair.run(Duration::from_millis(50));
            }
            pair.run(Duration::from_secs(300));
            assert_eq!(pair.errors, [""; 0]);
            wanted.sort();
            for read in [&mut pair.ours.read, &mut pair.read_by_them] {
                read.sort();
                assert_eq!(read.len(), wanted.len());
                assert!(*read == wanted, "another content");
            }
        }
    }
}

/// Messages that are given up by us and by them leave the others as they are.
#[test]
fn messages_are_given_up_by_either_end() {
    for (config, options) in both() {
        let (mut pair, id) = Pair::established(&config, &options, true);
        pair.network.loss = 0.1;
        for number in 0..300_usize {
            let (stream, given_up) = (number as u16 % 4, number % 2 == 0);
            let unordered = number % 3 == 0;
            let reliability = match number % 4 {
                0 => Reliability::Retransmissions(0),
                2 => Reliability::Lifetime(Span::from_millis(100)),
                _ => Reliability::Full,
            };
            pair.send(Message {
                unordered,
                reliability,
                ..Message::new(stream, content(number, 3000))
            });
            let options = SendOptions {
                unordered,
                max_retransmissions: (number % 4 == 0).then_some(0),
                lifetime: (number % 4 == 2).then_some(Duration::from_millis(100)),
                ..SendOptions::default()
            };
            pair.they_send(stream, content(number, 3000), &options);
            pair.run(Duration::from_millis(if given_up { 20 } else { 40 }));
        }
        pair.network.loss = 0.0;
        pair.run(Duration::from_secs(120));
        let interleaves = config.interleaving;
        let forward = if interleaves {
            ChunkType::I_FORWARD_TSN
        } else {
            ChunkType::FORWARD_TSN
        };
        for (chunks, read) in pair.chunks.iter().zip([&pair.read_by_them, &pair.ours.read]) {
            assert!(chunks.contains(&forward), "{chunks:?}");
            let reliable = (0..300).filter(|number| number % 2 == 1);
            for number in reliable {
                let wanted = content(number, 3000);
                let times = read
                    .iter()
                    .filter(|(stream, known)| *stream == number as u16 % 4 && *known == wanted)
                    .count();
                assert!(times >= 1, "{number} of {} at {interleaves}", read.len());
            }
            assert!(read.len() < 300, "none was given up");
        }
        assert!(pair.ours.gave_up() > 10, "{}", pair.ours.gave_up());
        let association = pair.ours.endpoint.association(id).expect("established");
        assert_eq!((association.buffered_send(), association.buffered_receive()), (0, 0));
        assert_eq!(pair.errors, [""; 0]);
    }
}

/// A long message of either end does not keep back short ones.
#[test]
fn short_messages_pass_a_long_one() {
    let [_, (config, options)] = both();
    let (mut pair, _) = Pair::established(&config, &options, true);
    pair.send(Message::new(1, content(1, 900_000)));
    pair.they_send(1, content(1, 900_000), &SendOptions::default());
    pair.run(Duration::from_millis(60));
    pair.send(Message::new(2, content(2, 100)));
    pair.they_send(2, content(2, 100), &SendOptions::default());
    pair.run(Duration::from_secs(60));
    let short_first = [(2, content(2, 100)), (1, content(1, 900_000))];
    assert!(pair.read_by_them == short_first, "from us");
    assert!(pair.ours.read == short_first, "from them");
}

#[test]
fn either_end_shuts_down_or_aborts() {
    for (config, options) in both() {
        for (we_end, gracefully) in [(true, true), (false, true), (true, false), (false, false)] {
            let (mut pair, id) = Pair::established(&config, &options, true);
            pair.send(Message::new(1, content(1, 20_000)));
            pair.they_send(1, content(2, 20_000), &SendOptions::default());
            pair.run(Duration::from_secs(2));
            let now = pair.time();
            match (we_end, gracefully) {
                (true, true) => {
                    pair.ours.endpoint.shutdown(now, id);
                }
                (true, false) => pair.ours.endpoint.abort(now, id, "the end"),
                (false, true) => pair.theirs.shutdown(),
                (false, false) => pair.theirs.close(),
            }
            pair.run(Duration::from_secs(10));
            assert!(pair.ours.closed().is_some(), "{we_end} {gracefully}");
            assert_eq!(pair.theirs.state(), SocketState::Closed, "{we_end} {gracefully}");
            assert_eq!((pair.ours.read.len(), pair.read_by_them.len()), (1, 1));
        }
    }
}

/// Returns whether the packets sent by us and by them, from this one on, had a checksum of zero; panics if some had and others had not.
fn zero_checksums(pair: &Pair, from: usize) -> [bool; 2] {
    [false, true].map(|by_them| {
        let sent = pair.checksums[from..].iter().filter(|(them, _)| *them == by_them);
        let zeros: BTreeSet<bool> = sent.map(|(_, is_zero)| *is_zero).collect();
        assert_eq!(zeros.len(), 1, "some of them");
        zeros.contains(&true)
    })
}

/// RFC 9653: dcsctp sends and offers a checksum of zero if both ends have the method.
#[test]
fn checksums_are_left_out_if_both_ends_have_dtls_below() {
    for (own, their) in [(true, true), (true, false), (false, true), (false, false)] {
        let config = AssociationConfig {
            zero_checksum: own.then_some(ErrorDetection::Dtls),
            ..our_config()
        };
        let options = Options {
            zero_checksum_alternate_error_detection_method: if their {
                ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS
            } else {
                ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_NONE
            },
            ..their_options()
        };
        for we_open in [true, false] {
            let (mut pair, id) = Pair::established(&config, &options, we_open);
            let both = own && their;
            let association = pair.ours.endpoint.association(id).expect("established");
            assert_eq!(association.sends_zero_checksum(), both);
            assert_eq!(association.accepts_zero_checksum(), own);
            let metrics = pair.theirs.get_metrics().expect("connected");
            assert_eq!(metrics.uses_zero_checksum, both);
            let established = pair.checksums.len();
            pair.network.loss = 0.03;
            for number in 0..20 {
                pair.send(Message::new(1, content(number, 20_000)));
                pair.they_send(1, content(number, 20_000), &SendOptions::default());
            }
            pair.run(Duration::from_secs(60));
            let wanted: Vec<Content> = (0..20).map(|number| (1, content(number, 20_000))).collect();
            assert!(
                pair.ours.read == wanted && pair.read_by_them == wanted,
                "{own} {their} {we_open}"
            );
            assert_eq!(zero_checksums(&pair, established), [both; 2], "{own} {their} {we_open}");
            assert_eq!(pair.ours.endpoint.stats().discarded[Discard::Checksum as usize], 0);
            pair.network.loss = 0.0;
            let now = pair.time();
            if we_open {
                pair.theirs.shutdown();
            } else {
                pair.ours.endpoint.shutdown(now, id);
            }
            pair.run(Duration::from_secs(10));
            assert_eq!(pair.ours.closed(), Some(&CloseReason::Graceful));
            assert_eq!(pair.theirs.state(), SocketState::Closed);
            assert_eq!(pair.errors, [""; 0]);
        }
    }
}

/// Both open the association at once, and then dcsctp starts again.
#[test]
fn checksums_are_left_out_after_a_collision_and_after_a_restart() {
    let config = AssociationConfig {
        zero_checksum: Some(ErrorDetection::Dtls),
        ..our_config()
    };
    let options = Options {
        zero_checksum_alternate_error_detection_method: ZERO_CHECKSUM_ALTERNATE_ERROR_DETECTION_METHOD_LOWER_LAYER_DTLS,
        ..their_options()
    };
    let mut pair = Pair::new(&config, &options, 3);
    pair.ours.open(pair.now, &config);
    pair.theirs.connect();
    pair.run(Duration::from_secs(5));
    let established = pair.checksums.len();
    pair.send(Message::new(3, content(3, 5000)));
    pair.they_send(4, content(4, 5000), &SendOptions::default());
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read_by_them, [(3, content(3, 5000))]);
    assert_eq!(pair.ours.read, [(4, content(4, 5000))]);
    assert_eq!(zero_checksums(&pair, established), [true; 2]);
    // Their process starts again.
    pair.theirs = dcsctp::new_socket("again", &options);
    pair.theirs.advance_time(SocketTime::zero() + pair.now);
    pair.theirs.connect();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.theirs.state(), SocketState::Connected);
    let established = pair.checksums.len();
    pair.they_send(5, content(5, 5000), &SendOptions::default());
    pair.send(Message::new(6, content(6, 5000)));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.ours.read.last(), Some(&(5, content(5, 5000))));
    assert_eq!(pair.read_by_them.last(), Some(&(6, content(6, 5000))));
    assert_eq!(zero_checksums(&pair, established), [true; 2]);
}

/// It skips the padding of probes, and returns their HEARTBEATs (RFC 8899 §6.2.1.2).
#[test]
fn probes_of_the_path_mtu_are_answered() {
    for (config, options) in both() {
        let config = AssociationConfig {
            max_mtu: Some(9000),
            ..config
        };
        let (mut pair, id) = Pair::established(&config, &options, true);
        pair.send(Message::new(1, content(0, 20_000)));
        pair.run(Duration::from_secs(1));
        let association = pair.ours.endpoint.association(id).expect("established");
        let mtus: Vec<_> = association.paths().map(|path| path.mtu).collect();
        assert_eq!((mtus, association.stats().mtu_probes_sent), (vec![9000], 2));
        for number in 1..20 {
            pair.send(Message::new(1, content(number, 20_000)));
        }
        pair.run(Duration::from_secs(10));
        assert_eq!(pair.errors, [""; 0]);
        assert_eq!(pair.read_by_them.len(), 20);
    }
}
