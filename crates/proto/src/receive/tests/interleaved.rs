//! Tests of I-DATA and I-FORWARD-TSN chunks: RFC 8260.

use std::collections::{BTreeMap, BTreeSet};

use whimbrel_wire::{ForwardTsn, Mid, SkippedStream, SkippedStreams};

use super::super::assembly::Key;
use super::*;

fn interleaved() -> ReceiverConfig {
    ReceiverConfig {
        interleaves: true,
        takes_back: false,
        gives_up: true,
        ..config()
    }
}

/// Returns a fragment of 1000 bytes of an ordered message: the first one if `fsn` is 0.
fn part(tsn: u32, stream: u16, mid: u32, fsn: u32) -> Data<'static> {
    Data {
        stream,
        number: MessageNumber::Mid(Mid(mid)),
        fsn,
        ppid: if fsn == 0 { 7 } else { 0 },
        begin: fsn == 0,
        end: false,
        ..whole(tsn)
    }
}

fn last(tsn: u32, stream: u16, mid: u32, fsn: u32) -> Data<'static> {
    Data {
        end: true,
        ..part(tsn, stream, mid, fsn)
    }
}

fn unordered(data: Data<'_>) -> Data<'_> {
    Data {
        unordered: true,
        ..data
    }
}

fn on_all(receiver: &mut Receiver, chunks: &[Data<'_>]) {
    for data in chunks {
        assert_eq!(receiver.on_data(data), DataOutcome::New, "{data:?}");
    }
}

/// Passes a packet with an I-FORWARD-TSN to the receiver; entries are (stream, unordered, identifier).
fn forward(receiver: &mut Receiver, tsn: u32, skipped: &[(u16, bool, u32)]) {
    let mut list = Vec::new();
    for &(stream, unordered, mid) in skipped {
        let number = MessageNumber::Mid(Mid(mid));
        SkippedStreams::append(
            &mut list,
            SkippedStream {
                stream,
                unordered,
                number,
            },
        );
    }
    let chunk = ForwardTsn {
        new_cumulative_tsn: Tsn(tsn),
        skipped: SkippedStreams::interleaved(&list),
    };
    receiver.on_forward_tsn(&chunk);
    receiver.on_packet_end(NOW, 3);
}

/// Reads all messages and returns (stream, unordered, SSN, bytes, ends) of each part.
fn parts(receiver: &mut Receiver) -> Vec<(u16, bool, u16, usize, bool)> {
    std::iter::from_fn(|| recv(receiver))
        .map(|part| (part.stream, part.unordered, part.ssn.0, part.len, part.end))
        .collect()
}

// [8260:2.2.3-1, 2.2.3-2]
#[test]
fn rfc_8260_2_2_3_messages_are_assembled_by_their_numbers_whatever_the_tsns() {
    let chunks = [
        part(1, 0, 0, 0),
        part(2, 1, 0, 0),
        last(3, 2, 0, 0),
        part(4, 0, 0, 1),
        last(5, 1, 0, 1),
        last(6, 0, 0, 2),
        unordered(part(7, 1, 0, 0)),
        part(8, 1, 1, 0),
        unordered(last(9, 1, 0, 1)),
        last(10, 1, 1, 1),
    ];
    let mut in_order = receiver(&interleaved());
    on_all(&mut in_order, &chunks);
    let wanted = [
        (2, false, 0, 1000, true),
        (1, false, 0, 2000, true),
        (0, false, 0, 3000, true),
        (1, true, 0, 2000, true),
        (1, false, 1, 2000, true),
    ];
    assert_eq!(parts(&mut in_order), wanted);
    let mut reversed = receiver(&interleaved());
    for data in chunks.iter().rev() {
        assert_eq!(reversed.on_data(data), DataOutcome::New);
    }
    assert_eq!(sack(&mut reversed), (10, vec![], vec![]));
    let read: BTreeSet<_> = parts(&mut reversed).into_iter().collect();
    assert_eq!(read, wanted.into_iter().collect());
    // A sender may give a later fragment a lower TSN.
    let mut swapped = receiver(&interleaved());
    on_all(&mut swapped, &[last(1, 0, 0, 2), part(2, 0, 0, 0), part(3, 0, 0, 1)]);
    let message = recv(&mut swapped).expect("whole");
    assert_eq!((message.len, message.ppid, message.end), (3000, 7, true));
    // A fragment joins what is before it and what is after it.
    let joined = [part(4, 0, 1, 0), part(5, 0, 1, 2), part(6, 0, 1, 1), last(7, 0, 1, 3)];
    on_all(&mut swapped, &joined);
    assert_eq!(recv(&mut swapped).map(|message| message.len), Some(4000));
    // An ordered and an unordered message have the same identifier.
    let both = [
        part(8, 0, 2, 0),
        unordered(part(9, 0, 2, 0)),
        unordered(last(10, 0, 2, 1)),
        last(11, 0, 2, 1),
    ];
    on_all(&mut swapped, &both);
    assert_eq!(
        parts(&mut swapped),
        [(0, true, 0, 2000, true), (0, false, 2, 2000, true)]
    );
}

// [8260:2.2.3-3]
#[test]
fn rfc_8260_2_2_3_data_and_i_data_are_not_mixed() {
    let mut receiver_of_data = receiver(&config());
    assert!(matches!(
        receiver_of_data.on_data(&last(1, 0, 0, 0)),
        DataOutcome::ProtocolViolation(_)
    ));
    let mut of_i_data = receiver(&interleaved());
    assert!(matches!(
        of_i_data.on_data(&whole(1)),
        DataOutcome::ProtocolViolation(_)
    ));
}

// [8260:2.1-3]
#[test]
fn rfc_8260_2_1_i_data_with_the_i_bit_is_acknowledged_at_once() {
    for immediate in [false, true] {
        let mut receiver = receiver(&interleaved());
        let data = last(1, 0, 0, 0);
        assert_eq!(
            packet(&mut receiver, NOW, &[Data { immediate, ..data }]),
            [DataOutcome::New]
        );
        assert_eq!(receiver.sack_due(NOW), immediate);
    }
}

#[test]
fn contradictions_between_fragments_are_found() {
    let numbers = |fsns: &[(u32, bool)]| -> Vec<Data<'static>> {
        let chunk = |(place, &(fsn, end)): (usize, &(u32, bool))| Data {
            end,
            ..part(place as u32 + 2, 0, 0, fsn)
        };
        fsns.iter().enumerate().map(chunk).collect()
    };
    let no_end = |fsn| part(50, 0, 0, fsn);
    let wrong = Data {
        begin: false,
        ..part(50, 0, 0, 0)
    };
    let (twice, beyond) = ("fragment number used twice", "fragment after the end of its message");
    for (held, data, reason) in [
        (numbers(&[]), wrong, "fragment without a beginning"),
        (numbers(&[(0, false)]), no_end(0), twice),
        (numbers(&[(1, false), (2, false), (3, false)]), no_end(2), twice),
        (numbers(&[(1, false), (3, false)]), no_end(3), twice),
        (numbers(&[(3, true)]), no_end(4), beyond),
        (numbers(&[(3, true)]), no_end(9), beyond),
        (numbers(&[(3, true)]), last(50, 0, 0, 2), beyond),
        (numbers(&[(3, false)]), last(50, 0, 0, 1), beyond),
        (numbers(&[(1, false)]), last(50, 0, 0, 0), beyond),
        (numbers(&[(1, false)]), no_end(1 << 31), twice),
    ] {
        let mut receiver = receiver(&interleaved());
        on_all(&mut receiver, &held);
        assert_eq!(
            receiver.on_data(&data),
            DataOutcome::ProtocolViolation(reason),
            "{held:?} {data:?}"
        );
    }
    // The same numbers in other messages are no contradiction.
    let mut receiver = receiver(&interleaved());
    on_all(&mut receiver, &numbers(&[(1, false)]));
    on_all(
        &mut receiver,
        &[
            last(50, 1, 0, 1),
            last(51, 0, 1, 1),
            unordered(last(52, 0, 0, 1)),
            last(53, 0, 2, 0),
        ],
    );
}

/// RFC 8260 §2.1: "the FSN MAY wrap completely multiple times". The reader receives a message of more than 2^32 fragments in parts.
#[test]
fn rfc_8260_2_1_fragment_numbers_wrap_in_a_message_that_is_read_in_parts() {
    let mut receiver = receiver(&ReceiverConfig {
        recv_buffer: 3000,
        ..interleaved()
    });
    on_all(&mut receiver, &[part(1, 0, 0, 0), part(2, 0, 0, 1)]);
    assert_eq!(parts(&mut receiver), [(0, false, 0, 2000, false)]);
    let _ = sack(&mut receiver);
    let known = receiver.assemblies.as_mut().expect("with I-DATA");
    known.set_next(Key::of(&part(1, 0, 0, 0)).expect("I-DATA"), u32::MAX);
    let again = receiver.on_data(&part(3, 0, 0, 0));
    assert!(matches!(again, DataOutcome::ProtocolViolation(_)), "{again:?}");
    let wrapped = Data {
        begin: false,
        ppid: 0,
        ..part(4, 0, 0, 0)
    };
    on_all(&mut receiver, &[wrapped, part(3, 0, 0, u32::MAX), last(5, 0, 0, 1)]);
    assert_eq!(parts(&mut receiver), [(0, false, 0, 3000, true)]);
}

#[test]
fn a_message_identifier_is_used_once() {
    let config = ReceiverConfig {
        gives_up: false,
        ..interleaved()
    };
    let mut receiver = receiver(&config);
    on_all(&mut receiver, &[last(1, 0, 0, 0), last(3, 0, 2, 0)]);
    for (tsn, mid) in [(5, 0), (6, 2)] {
        let outcome = receiver.on_data(&last(tsn, 0, mid, 0));
        assert!(matches!(outcome, DataOutcome::ProtocolViolation(_)), "{outcome:?}");
    }
}

#[test]
fn long_messages_of_several_streams_are_read_in_parts_and_the_others_as_a_whole() {
    let mut receiver = receiver(&ReceiverConfig {
        recv_buffer: 6000,
        ..interleaved()
    });
    let mut chunks = Vec::new();
    let mut tsn = 0;
    let mut next = |data: &dyn Fn(u32) -> Data<'static>| {
        tsn += 1;
        chunks.push(data(tsn));
    };
    for fsn in 0..10 {
        let end = fsn == 9;
        next(&|tsn| Data {
            end,
            ..part(tsn, 0, 0, fsn)
        });
        next(&|tsn| Data {
            end,
            ..part(tsn, 1, 0, fsn)
        });
        next(&|tsn| {
            unordered(Data {
                end,
                ..part(tsn, 1, 0, fsn)
            })
        });
        // A short message, and one that has to wait for the end of the first unordered one.
        next(&|tsn| last(tsn, 2, fsn, 0));
        if fsn == 7 {
            next(&|tsn| unordered(last(tsn, 1, 1, 0)));
        }
    }
    let (mut read, mut most) = (Vec::new(), 0);
    for data in &chunks {
        while receiver.on_data(data) == DataOutcome::NoBuffer {
            let _ = sack(&mut receiver);
            read.extend(recv(&mut receiver));
        }
        most = most.max(receiver.partials.len());
        // What is short does not wait for what is long.
        while data.stream == 2 && read.last().is_none_or(|known: &Received| known.stream != 2) {
            read.push(recv(&mut receiver).expect("the short message"));
        }
    }
    read.extend(std::iter::from_fn(|| recv(&mut receiver)));
    assert_eq!(most, 3);
    let lens = |stream: u16, unordered: bool| -> Vec<usize> {
        let mut lens = Vec::new();
        for part in read
            .iter()
            .filter(|part| (part.stream, part.unordered) == (stream, unordered))
        {
            assert_eq!(part.ppid, 7);
            if part.begin {
                lens.push(0);
            }
            *lens.last_mut().expect("begun") += part.len;
        }
        lens
    };
    assert_eq!((lens(0, false), lens(1, false)), (vec![10_000], vec![10_000]));
    assert_eq!((lens(1, true), lens(2, false)), (vec![10_000, 1000], vec![1000; 10]));
    assert_eq!(receiver.buffered_bytes(), 0);
}

/// The sender does not go on with a message, as others have a higher priority.
#[test]
fn a_neglected_message_takes_no_more_than_half_of_the_buffer() {
    let mut receiver = receiver(&interleaved());
    for fsn in 0..11 {
        assert!(recv(&mut receiver).is_none(), "{fsn}");
        on_all(&mut receiver, &[part(fsn + 1, 0, 0, fsn)]);
    }
    assert_eq!(parts(&mut receiver), [(0, false, 0, 11_000, false)]);
}

/// A peer begins ever more messages, each of which the reader receives in part.
#[test]
fn the_number_of_messages_read_in_parts_is_limited() {
    let config = ReceiverConfig {
        inbound_streams: u16::MAX,
        recv_buffer: 20_000,
        ..interleaved()
    };
    let mut receiver = receiver(&config);
    let mut outcomes = Vec::new();
    for stream in 0..1000 {
        outcomes.push(receiver.on_data(&part(u32::from(stream) + 1, stream, 0, 0)));
        let _ = sack(&mut receiver);
        while recv(&mut receiver).is_some() {}
    }
    assert_eq!(receiver.partials.len(), 159);
    let violation = outcomes.iter().find(|outcome| **outcome != DataOutcome::New);
    assert!(
        matches!(violation, Some(DataOutcome::ProtocolViolation(_))),
        "{violation:?}"
    );
}

#[test]
fn rfc_8260_2_3_1_given_up_messages_leave_nothing_behind() {
    let mut receiver = receiver(&interleaved());
    let full = a_rwnd(&mut receiver);
    on_all(
        &mut receiver,
        &[
            part(1, 0, 0, 0),
            unordered(part(2, 0, 0, 0)),
            last(4, 0, 1, 0),
            unordered(last(5, 0, 1, 1)),
            part(8, 0, 2, 0),
        ],
    );
    // TSN 3 and 6 belong to given-up messages, of which parts are above TSN 6.
    forward(&mut receiver, 6, &[(0, false, 0), (0, true, 1), (50, false, 9)]);
    assert_eq!(parts(&mut receiver), [(0, false, 1, 1000, true)]);
    assert_eq!((receiver.buffered_bytes(), sack(&mut receiver).0), (1000, 6));
    for late in [
        part(7, 0, 0, 2),
        unordered(part(9, 0, 0, 1)),
        unordered(last(10, 0, 1, 0)),
        unordered(last(11, 0, 1, 5)),
    ] {
        assert_eq!(receiver.on_data(&late), DataOutcome::New);
    }
    on_all(&mut receiver, &[unordered(last(12, 0, 2, 0)), last(13, 0, 2, 1)]);
    assert_eq!(
        parts(&mut receiver),
        [(0, true, 0, 1000, true), (0, false, 2, 2000, true)]
    );
    assert_eq!((receiver.buffered_bytes(), a_rwnd(&mut receiver)), (0, full));
    // An old entry does not move anything back.
    forward(&mut receiver, 13, &[(0, false, 0), (0, true, 0)]);
    forward(&mut receiver, 14, &[(0, false, 1), (0, true, 0)]);
    on_all(&mut receiver, &[last(15, 0, 3, 0), unordered(last(16, 0, 3, 0))]);
    assert_eq!(parts(&mut receiver).len(), 2);
    assert_eq!(receiver.on_data(&unordered(last(17, 0, 1, 0))), DataOutcome::New);
    assert_eq!(parts(&mut receiver), []);
}

#[test]
fn a_given_up_unordered_message_is_forgotten_before_its_number_comes_again() {
    let mut receiver = receiver(&interleaved());
    forward(&mut receiver, 1, &[(0, true, 5)]);
    for (tsn, mid) in [
        (2, 6),
        (3, 1 << 30),
        (4, (1 << 30) + 5),
        (5, (1 << 31) + 4),
        (6, 3 << 30),
        (7, 5),
    ] {
        on_all(&mut receiver, &[unordered(last(tsn, 0, mid, 0))]);
        assert_eq!(parts(&mut receiver).len(), 1, "{mid}");
    }
}

#[test]
fn a_given_up_message_that_is_read_in_parts_ends() {
    let mut receiver = receiver(&ReceiverConfig {
        recv_buffer: 3000,
        ..interleaved()
    });
    let begun = [0, 1, 2].map(|fsn| unordered(part(fsn + 1, 0, 0, fsn)));
    on_all(&mut receiver, &begun);
    assert_eq!(parts(&mut receiver), [(0, true, 0, 3000, false)]);
    let _ = sack(&mut receiver);
    on_all(
        &mut receiver,
        &[unordered(part(4, 0, 0, 3)), unordered(last(6, 0, 1, 0))],
    );
    assert_eq!(receiver.partials.len(), 1);
    forward(&mut receiver, 5, &[(0, false, 0), (0, true, 0)]);
    on_all(&mut receiver, &[last(7, 0, 1, 0)]);
    assert_eq!(
        parts(&mut receiver),
        [
            // It is given up, which has no content.
            (0, true, 0, 0, false),
            (0, true, 0, 1000, true),
            (0, false, 1, 1000, true)
        ]
    );
    assert_eq!(receiver.buffered_bytes(), 0);
}

/// A peer sends one fragment of each message, or every second fragment of one.
#[test]
fn scattered_fragments_take_no_more_memory_than_allowed() {
    for scattered in [false, true] {
        let config = ReceiverConfig {
            inbound_streams: u16::MAX,
            ..ReceiverConfig::new(262_144, 10, 1500)
        };
        let config = ReceiverConfig {
            interleaves: true,
            takes_back: false,
            ..config
        };
        let mut receiver = receiver(&config);
        for number in 0..20_000_u32 {
            let data = Data {
                payload: Payload::Bytes(&[1]),
                ..if scattered {
                    part(number + 1, 0, 0, 2 * number)
                } else {
                    part(number + 1, number as u16, number >> 16, 0)
                }
            };
            receiver.on_data(&data);
            while recv(&mut receiver).is_some() {}
        }
        let most = config.memory_limit as usize * 2;
        assert!(receiver.heap_bytes() < most, "{} of {most}", receiver.heap_bytes());
    }
}

/// Fragments with every second number arrive, then the others, and the reader receives the message in parts.
#[test]
fn lists_of_runs_shrink_once_they_are_joined() {
    let config = ReceiverConfig {
        inbound_streams: 200,
        interleaves: true,
        takes_back: false,
        ..ReceiverConfig::new(65_536, 10, 1500)
    };
    let mut receiver = receiver(&config);
    let mut tsn = 0;
    for stream in 0..200 {
        let scattered = (0..400)
            .map(|place| 2 * place)
            .chain((0..400).map(|place| 2 * place + 1));
        let tiny = scattered.map(|fsn| (fsn, 1));
        let large = (800..).map(|fsn| (fsn, 1400));
        for (fsn, len) in tiny.chain(large) {
            tsn += 1;
            let data = Data {
                payload: Payload::Zeros(len),
                ..part(tsn, stream, 0, fsn)
            };
            assert_eq!(receiver.on_data(&data), DataOutcome::New);
            if fsn >= 800 && receiver.has_message() {
                break;
            }
        }
        while recv(&mut receiver).is_some() {}
        let _ = sack(&mut receiver);
    }
    receiver.release_memory();
    let (heap, charged) = (receiver.heap_bytes(), receiver.memory());
    assert_eq!(receiver.buffered_bytes(), 0);
    assert!(
        heap < 3 * charged && charged < config.memory_limit as usize,
        "{heap} {charged}"
    );
}

/// An I-FORWARD-TSN names the same stream often, and much of it is incomplete.
#[test]
fn an_entry_that_is_repeated_skips_nothing_more() {
    let mut receiver = receiver(&ReceiverConfig {
        inbound_streams: 10,
        gives_up: true,
        interleaves: true,
        takes_back: false,
        ..ReceiverConfig::new(1 << 20, 10, 1500)
    });
    for mid in 0..1000 {
        let data = Data {
            payload: Payload::Zeros(1),
            ..part(mid + 2, 0, mid, 0)
        };
        on_all(
            &mut receiver,
            &[
                data,
                unordered(Data {
                    tsn: Tsn(mid + 5000),
                    ..data
                }),
            ],
        );
    }
    let entries: Vec<_> = (0..4000).flat_map(|_| [(0, false, 100), (0, true, 100)]).collect();
    forward(&mut receiver, 1, &entries);
    let left = 2 * (1000 - 101);
    assert_eq!(receiver.buffered_bytes(), left);
    forward(&mut receiver, 1002, &[(0, false, 99), (0, true, 99)]);
    assert_eq!(receiver.buffered_bytes(), left);
    forward(&mut receiver, 1003, &[(0, false, 101), (0, true, 101)]);
    assert_eq!(receiver.buffered_bytes(), left - 2);
}

/// A message of a sender.
#[derive(Clone, Debug)]
struct Sent {
    stream: u16,
    mid: u32,
    unordered: bool,
    tsns: Vec<u32>,
    given_up: bool,
}

const STREAMS: usize = 4;

/// Returns messages on four streams. Each stream has one message at a time whose fragments are sent.
fn any_messages(rng: &mut Rng, initial: u32) -> Vec<Sent> {
    let mut messages: Vec<Sent> = Vec::new();
    let mut mids = [[u32::MAX - 3; 2], [0; 2], [5; 2], [1 << 31; 2]];
    let mut open: [Option<(usize, u64)>; STREAMS] = [None; STREAMS];
    let mut next = initial;
    while messages.len() < 60 || open.iter().any(Option::is_some) {
        let stream = rng.below(STREAMS as u64) as usize;
        let (number, left) = match open[stream] {
            Some(begun) => begun,
            None if messages.len() >= 60 => continue,
            None => {
                let unordered = rng.chance(0.4);
                let mid = &mut mids[stream][usize::from(unordered)];
                messages.push(Sent {
                    stream: stream as u16,
                    mid: *mid,
                    unordered,
                    tsns: Vec::new(),
                    given_up: rng.chance(0.25),
                });
                *mid = mid.wrapping_add(1);
                (messages.len() - 1, 1 + rng.below(5))
            }
        };
        messages[number].tsns.push(next);
        next = next.wrapping_add(1);
        open[stream] = (left > 1).then_some((number, left - 1));
    }
    messages
}

/// A chunk of one of the messages: its TSN, its message, and its place in it.
type Chunk = (u32, usize, usize);

/// A receiver, what is sent to it, and what it has delivered.
struct Transfer {
    rng: Rng,
    receiver: Receiver,
    messages: Vec<Sent>,
    /// In the order of their TSNs.
    chunks: Vec<Chunk>,
    arrived: BTreeSet<u32>,
    /// Messages read, by stream and order.
    contents: BTreeMap<(u16, bool), Vec<Vec<u8>>>,
    /// Number of parts read that were not whole messages.
    parts: usize,
}

impl Transfer {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, "interleaved");
        let initial = if seed.is_multiple_of(2) { u32::MAX - 50 } else { 1 };
        // With the small buffer, chunks are dropped and sent again, and messages are read in parts.
        let buffer = if seed.is_multiple_of(3) { 3000 } else { 1 << 20 };
        let config = ReceiverConfig {
            interleaves: true,
            takes_back: false,
            gives_up: true,
            ..ReceiverConfig::new(buffer, 10, 600)
        };
        let mut receiver = Receiver::new(Tsn(initial), config.into());
        let messages = any_messages(&mut rng, initial);
        for message in messages.iter().rev().filter(|message| !message.unordered) {
            // The numbers of the streams begin anywhere.
            receiver.streams.get_mut(message.stream).expected = message.mid;
        }
        let mut chunks: Vec<Chunk> = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            chunks.extend(message.tsns.iter().enumerate().map(|(fsn, &tsn)| (tsn, number, fsn)));
        }
        chunks.sort_by_key(|chunk| chunk.0.wrapping_sub(initial));
        Transfer {
            rng,
            receiver,
            messages,
            chunks,
            arrived: BTreeSet::new(),
            contents: BTreeMap::new(),
            parts: 0,
        }
    }

    /// Sends these chunks, those of given-up messages perhaps. Returns those that were dropped.
    fn send(&mut self, chunks: &[Chunk]) -> Vec<Chunk> {
        let mut dropped = Vec::new();
        for &(tsn, number, fsn) in chunks {
            let message = &self.messages[number];
            if message.given_up && self.rng.chance(0.5) {
                continue;
            }
            let content = [number as u8, fsn as u8, 9].repeat(100);
            let data = Data {
                number: MessageNumber::Mid(Mid(message.mid)),
                unordered: message.unordered,
                end: fsn + 1 == message.tsns.len(),
                payload: Payload::Bytes(&content),
                ..part(tsn, message.stream, 0, fsn as u32)
            };
            match self.receiver.on_data(&data) {
                DataOutcome::New | DataOutcome::Duplicate => {
                    self.arrived.insert(tsn);
                }
                DataOutcome::NoBuffer if !message.given_up => dropped.push((tsn, number, fsn)),
                DataOutcome::NoBuffer => {}
                outcome => panic!("{outcome:?} for {message:?} {fsn}"),
            }
            self.receiver.on_packet_end(NOW, 3);
            if self.rng.chance(0.2) {
                self.give_up();
            }
            if self.rng.chance(0.4) {
                self.read();
            }
            if self.rng.chance(0.3) {
                let _ = sack(&mut self.receiver);
            }
        }
        dropped
    }

    /// Passes an I-FORWARD-TSN for what is given up below the first TSN that is still to come.
    fn give_up(&mut self) {
        let (mut to, mut skipped): (Option<u32>, BTreeMap<(u16, bool), u32>) = (None, BTreeMap::new());
        for &(tsn, number, _) in &self.chunks {
            let message = &self.messages[number];
            if !message.given_up && !self.arrived.contains(&tsn) {
                break;
            }
            if message.given_up {
                skipped.insert((message.stream, message.unordered), message.mid);
            }
            to = Some(tsn);
        }
        let entries: Vec<_> = skipped.into_iter().map(|((s, u), mid)| (s, u, mid)).collect();
        if let Some(to) = to {
            forward(&mut self.receiver, to, &entries);
        }
    }

    /// Reads everything. A message that ends before its end is given up.
    fn read(&mut self) {
        loop {
            let mut content = Vec::new();
            let Some(received) = self.receiver.recv(&mut |part| part.append_to(&mut content)) else {
                return;
            };
            let list = self.contents.entry((received.stream, received.unordered)).or_default();
            if received.begin {
                list.push(content);
            } else {
                list.last_mut().expect("begun").extend(content);
            }
            self.parts += usize::from(!received.begin || !received.end);
        }
    }
}

/// Any messages are sent with their fragments interleaved and in any order, some twice, and I-FORWARD-TSNs between them give up some. The
/// reader gets every other message once, whole and in order, and nothing stays in the buffer.
#[test]
fn whatever_is_interleaved_and_given_up_the_rest_arrives_and_nothing_stays() {
    let mut parts = 0;
    for seed in 0..500 {
        let mut transfer = Transfer::new(seed);
        let mut waiting = transfer.chunks.clone();
        for chunk in &transfer.chunks {
            if transfer.rng.chance(0.2) {
                waiting.push(*chunk);
            }
        }
        let mut rounds = 0;
        while !waiting.is_empty() && rounds < 3000 {
            rounds += 1;
            for place in (1..waiting.len()).rev() {
                waiting.swap(place, place.saturating_sub(transfer.rng.below(20) as usize));
            }
            waiting = transfer.send(&waiting);
        }
        transfer.give_up();
        transfer.read();
        let receiver = &transfer.receiver;
        let last = transfer.chunks.last().map_or(0, |chunk| chunk.0);
        assert_eq!(
            (receiver.cumulative_tsn().0, receiver.buffered_bytes()),
            (last, 0),
            "{seed}"
        );
        let is_empty = receiver.assemblies.as_ref().is_some_and(|known| known.is_empty());
        assert!(is_empty && receiver.partials.is_empty(), "{seed}");
        assert_contents(seed, &transfer.messages, &transfer.contents);
        parts += transfer.parts;
    }
    assert!(parts > 20, "{parts}");
}

/// Checks that all messages but the given-up ones arrived once, whole, and the ordered ones in order.
fn assert_contents(seed: u64, messages: &[Sent], contents: &BTreeMap<(u16, bool), Vec<Vec<u8>>>) {
    let content = |number: usize| -> Vec<u8> {
        let parts = 0..messages[number].tsns.len();
        parts.flat_map(|fsn| [number as u8, fsn as u8, 9].repeat(100)).collect()
    };
    for stream in 0..STREAMS as u16 {
        for unordered in [false, true] {
            let got = contents.get(&(stream, unordered)).cloned().unwrap_or_default();
            let numbers = |given_up: bool| {
                let all = 0..messages.len();
                let own = all.filter(|&n| messages[n].stream == stream && messages[n].unordered == unordered);
                own.filter(|&n| given_up || !messages[n].given_up).collect::<Vec<_>>()
            };
            for number in numbers(false) {
                let times = got.iter().filter(|known| **known == content(number)).count();
                assert_eq!(times, 1, "{seed}: message {number} {:?}", messages[number]);
            }
            // Whatever else arrived is a given-up message, or the beginning of one that was read in part.
            let mut order = Vec::new();
            for known in &got {
                let number = numbers(true)
                    .into_iter()
                    .find(|&number| content(number).starts_with(known));
                let number = number.unwrap_or_else(|| panic!("{seed}: {} unknown bytes", known.len()));
                let is_whole = content(number) == *known;
                assert!(is_whole || messages[number].given_up, "{seed}: {number}");
                order.push(number);
            }
            assert!(unordered || order.is_sorted_by(|a, b| a < b), "{seed}: {order:?}");
        }
    }
}
