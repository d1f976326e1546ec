//! Tests of data that the sender gives up: RFC 3758 §3.6.

use std::collections::BTreeSet;

use whimbrel_wire::{ForwardTsn, MessageNumber, SkippedStream, SkippedStreams};

use super::*;
use crate::StreamList;

fn gives_up() -> ReceiverConfig {
    ReceiverConfig {
        gives_up: true,
        ..config()
    }
}

/// Passes a packet with a FORWARD TSN to the receiver.
fn forward(receiver: &mut Receiver, tsn: u32, skipped: &[(u16, u16)]) {
    let mut list = Vec::new();
    for &(stream, ssn) in skipped {
        SkippedStreams::append(
            &mut list,
            SkippedStream {
                stream,
                unordered: false,
                number: MessageNumber::Ssn(Ssn(ssn)),
            },
        );
    }
    receiver.on_forward_tsn(&ForwardTsn {
        new_cumulative_tsn: Tsn(tsn),
        skipped: SkippedStreams::from_wire_bytes(&list),
    });
    receiver.on_packet_end(NOW, 3);
}

// [3758:3.6-3, 3.6-9, 3.6-10]
#[test]
fn rfc_3758_3_6_the_cumulative_tsn_moves_on_over_what_has_arrived() {
    // The example of RFC 3758 §3.6, with TSN 2 for 102.
    let mut receiver = receiver(&gives_up());
    for tsn in [1, 2, 4, 5, 7] {
        receiver.on_data(&whole(tsn));
    }
    forward(&mut receiver, 3, &[(0, 2)]);
    assert_eq!(sack(&mut receiver), (5, vec![(2, 2)], vec![]));
    assert_eq!(drain(&mut receiver), [(0, 0), (0, 1), (0, 3), (0, 4)]);
    assert_eq!(receiver.on_data(&whole(6)), DataOutcome::New);
    assert_eq!((drain(&mut receiver), sack(&mut receiver).0), (vec![(0, 5), (0, 6)], 7));
}

// [3758:3.6-5, 3.6-6, 3.6-7]
#[test]
fn rfc_3758_3_6_an_old_one_is_answered_by_a_sack_at_once() {
    let mut receiver = receiver(&gives_up());
    for tsn in 1..=4 {
        packet(&mut receiver, NOW, &[whole(tsn)]);
    }
    assert_eq!(sack(&mut receiver), (4, vec![], vec![]));
    assert!(!receiver.sack_due(NOW));
    forward(&mut receiver, 3, &[(0, 2)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(sack(&mut receiver), (4, vec![], vec![]));
    assert_eq!(drain(&mut receiver).len(), 4, "what has arrived is delivered");
}

// [3758:3.2-2, 3.6-2, 3.6-4, 3.6-11, 3.6-12]
#[test]
fn rfc_3758_3_6_incomplete_messages_leave_the_buffer() {
    // A message in order without its end, one above a gap without its beginning, and one in the middle.
    let mut receiver = receiver(&gives_up());
    let full = a_rwnd(&mut receiver);
    let of = |ssn: u16, data: Data<'static>| Data {
        number: MessageNumber::Ssn(Ssn(ssn)),
        unordered: ssn == 1,
        ..data
    };
    receiver.on_data(&of(0, fragment(1, true, false)));
    receiver.on_data(&of(0, fragment(2, false, false)));
    receiver.on_data(&of(1, fragment(5, false, true)));
    receiver.on_data(&of(2, fragment(7, false, false)));
    assert_eq!(receiver.buffered_bytes(), 4000);
    forward(&mut receiver, 8, &[(0, 2)]);
    assert_eq!(receiver.buffered_bytes(), 0);
    assert_eq!(
        (sack(&mut receiver), receiver.has_message()),
        ((8, vec![], vec![]), false)
    );
    assert_eq!(a_rwnd(&mut receiver), full);
    assert_eq!(receiver.on_data(&of(3, whole(9))), DataOutcome::New);
    assert_eq!(drain(&mut receiver), [(0, 3)]);
}

// [3758:3.6-1]
#[test]
fn rfc_3758_3_6_a_skipped_tsn_that_arrives_is_a_duplicate() {
    let mut receiver = receiver(&gives_up());
    receiver.on_data(&whole(1));
    forward(&mut receiver, 3, &[(0, 2)]);
    for tsn in [1, 2, 3] {
        assert_eq!(receiver.on_data(&whole(tsn)), DataOutcome::Duplicate);
    }
    assert_eq!(receiver.on_data(&whole(5)), DataOutcome::New);
    assert_eq!(sack(&mut receiver), (3, vec![(2, 2)], vec![1, 2, 3]));
    assert_eq!(drain(&mut receiver), [(0, 0)]);
}

// [3758:3.6-8]
#[test]
fn rfc_3758_3_6_a_forward_tsn_is_acknowledged_like_data() {
    let mut receiver = receiver(&gives_up());
    forward(&mut receiver, 1, &[]);
    // RFC 9260 §6.2: within SACK.Delay, and for each second packet.
    assert!(!receiver.sack_due(NOW));
    let delay = Span::from_millis(200);
    assert_eq!(receiver.sack_deadline(), Some(NOW + delay));
    packet(&mut receiver, NOW, &[whole(2)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(sack(&mut receiver), (2, vec![], vec![]));
    // Above a gap, at once.
    packet(&mut receiver, NOW, &[whole(5)]);
    let _ = sack(&mut receiver);
    forward(&mut receiver, 3, &[]);
    assert!(receiver.sack_due(NOW));
}

#[test]
fn the_rest_of_a_given_up_message_is_acknowledged_and_not_kept() {
    let mut receiver = receiver(&gives_up());
    receiver.on_data(&fragment(1, true, false));
    // Above a gap: fragments of the same message.
    receiver.on_data(&fragment(4, false, false));
    forward(&mut receiver, 2, &[(0, 0)]);
    assert_eq!(receiver.on_data(&fragment(3, false, false)), DataOutcome::New);
    assert_eq!((sack(&mut receiver).0, receiver.buffered_bytes()), (4, 0));
    assert_eq!(receiver.on_data(&fragment(5, false, true)), DataOutcome::New);
    assert_eq!((sack(&mut receiver).0, receiver.buffered_bytes()), (5, 0));
    assert_eq!(receiver.on_data(&fragment(6, true, false)), DataOutcome::New);
    assert_eq!(
        receiver.on_data(&Data {
            number: MessageNumber::Ssn(Ssn(1)),
            ..fragment(7, true, true)
        }),
        DataOutcome::New,
    );
    assert_eq!((sack(&mut receiver).0, receiver.buffered_bytes()), (7, 1000));
}

/// Linux drops the unsent rest of a message that it gives up, without TSNs for it: the next message begins where it was expected. FORWARD TSN
/// names the message, but comes later.
#[test]
fn the_rest_of_a_given_up_message_may_never_have_been_sent() {
    let next = |tsn: u32| Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..whole(tsn)
    };
    let chunks = |sent: u32| {
        let mut all: Vec<Data<'static>> = (1..=sent).map(|tsn| fragment(tsn, tsn == 1, false)).collect();
        all.extend([
            next(sent + 1),
            Data {
                number: MessageNumber::Ssn(Ssn(2)),
                ..whole(sent + 2)
            },
        ]);
        all
    };
    for sent in 1..=3 {
        for lost in 0..1_usize << sent {
            let arriving: Vec<_> = chunks(sent)
                .into_iter()
                .enumerate()
                .filter(|(at, _)| lost >> at & 1 == 0)
                .map(|(_, data)| data)
                .collect();
            for order in orders(arriving.len()) {
                for skipped_after in 0..=arriving.len() {
                    let mut receiver = receiver(&gives_up());
                    let full = a_rwnd(&mut receiver);
                    let mut read = Vec::new();
                    for at in 0..=arriving.len() {
                        if at == skipped_after {
                            forward(&mut receiver, sent, &[(0, 0)]);
                        }
                        if let Some(&chosen) = order.get(at) {
                            let outcome = receiver.on_data(&arriving[chosen]);
                            let is_fine = matches!(outcome, DataOutcome::New | DataOutcome::Duplicate);
                            assert!(is_fine, "{outcome:?}: {sent} {lost:b} {order:?} {skipped_after}");
                        }
                        read.extend(drain(&mut receiver));
                    }
                    assert_eq!(read, [(0, 1), (0, 2)], "{sent} {lost:b} {order:?} {skipped_after}");
                    let state = (sack(&mut receiver).0, receiver.buffered_bytes());
                    assert_eq!(state, (sent + 2, 0), "{sent} {lost:b} {order:?} {skipped_after}");
                    assert_eq!(a_rwnd(&mut receiver), full);
                }
            }
        }
    }
}

/// Returns all permutations of the numbers below `count`.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        let longer = |order: Vec<usize>| {
            let free: Vec<_> = (0..count).filter(|at| !order.contains(at)).collect();
            free.into_iter().map(move |at| [&order[..], &[at]].concat())
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// The reader has the beginning of a message whose end was never sent.
#[test]
fn a_message_that_is_read_in_parts_may_end_without_its_rest() {
    for more in [0, 1] {
        let mut receiver = receiver(&ReceiverConfig {
            recv_buffer: 4000,
            ..gives_up()
        });
        for tsn in 1..=4 {
            receiver.on_data(&fragment(tsn, tsn == 1, false));
        }
        assert!(receiver.has_message(), "the buffer is full");
        let begun = receiver.recv(&mut |_| {}).expect("a part");
        assert!(begun.begin && !begun.end);
        if more == 1 {
            receiver.on_data(&fragment(5, false, false));
        }
        let next = |ssn: u16, tsn: u32| Data {
            number: MessageNumber::Ssn(Ssn(ssn)),
            ..whole(tsn)
        };
        assert_eq!(receiver.on_data(&next(1, 5 + more)), DataOutcome::New);
        expect_given_up(&mut receiver, 0);
        assert_eq!(drain(&mut receiver), [(0, 1)]);
        // It opens the window. The next long one can be read in parts too.
        sack(&mut receiver);
        for at in 0..4 {
            let part = Data {
                number: MessageNumber::Ssn(Ssn(2)),
                ..fragment(6 + more + at, at == 0, false)
            };
            assert_eq!(receiver.on_data(&part), DataOutcome::New);
        }
        let begun = receiver.recv(&mut |_| {}).expect("a part");
        assert!(begun.begin && !begun.end);
        forward(&mut receiver, 10 + more, &[(0, 2)]);
        assert_eq!(receiver.on_data(&next(3, 11 + more)), DataOutcome::New);
        expect_given_up(&mut receiver, 2);
        assert_eq!(drain(&mut receiver), [(0, 3)]);
        assert_eq!(receiver.buffered_bytes(), 0);
    }
}

#[test]
fn a_message_that_ends_after_the_new_tsn_may_still_arrive() {
    let mut receiver = receiver(&gives_up());
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..fragment(2, true, false)
    });
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..fragment(3, false, false)
    });
    forward(&mut receiver, 2, &[(0, 0)]);
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..fragment(4, false, true)
    });
    assert_eq!((drain(&mut receiver), sack(&mut receiver).0), (vec![(0, 1)], 4));
}

/// Returns a receiver whose small buffer is filled by TSN 1 to 3, the beginning of a message of which the user has read a first part.
fn read_in_part() -> Receiver {
    let mut receiver = receiver(&ReceiverConfig {
        recv_buffer: 3000,
        ..gives_up()
    });
    for tsn in 1..=3 {
        receiver.on_data(&fragment(tsn, tsn == 1, false));
    }
    let first = recv(&mut receiver).expect("the buffer is full");
    assert!(first.begin && !first.end);
    receiver
}

/// The reader learns that nothing more follows of the message with this number, on stream 0.
fn expect_given_up(receiver: &mut Receiver, number: u16) {
    assert!(receiver.has_message());
    let last = recv(receiver).expect("the reader learns it");
    assert!(last.given_up && !last.begin && !last.end && last.len == 0, "{last:?}");
    assert_eq!((last.stream, last.ssn, last.ppid), (0, Ssn(number), 7));
}

// [3758:3.6-13]
#[test]
fn rfc_3758_3_6_the_reader_learns_that_a_message_read_in_parts_will_not_be_completed() {
    let mut receiver = read_in_part();
    // More of it has arrived, which is dropped.
    let _ = sack(&mut receiver);
    receiver.on_data(&fragment(4, false, false));
    forward(&mut receiver, 5, &[(0, 0)]);
    expect_given_up(&mut receiver, 0);
    // Once.
    assert!(!receiver.has_message());
    assert_eq!((recv(&mut receiver), receiver.buffered_bytes()), (None, 0));

    // A message of which nothing was read has no reader to tell.
    let mut receiver = super::receiver(&gives_up());
    receiver.on_data(&fragment(1, true, false));
    forward(&mut receiver, 2, &[(0, 0)]);
    assert!(!receiver.has_message());

    // A restart is reported by itself.
    let mut receiver = read_in_part();
    receiver.give_up_incomplete();
    assert!(!receiver.has_message());
}

/// RFC 6525 §5.2.2: what the reader gets after a reset belongs to the next use of the stream.
#[test]
fn a_stream_is_reset_once_the_reader_knows_what_was_given_up() {
    let mut receiver = read_in_part();
    receiver.want_reset(Tsn(5), StreamList::of([0]));
    forward(&mut receiver, 5, &[(0, 0)]);
    assert_eq!(receiver.try_reset(), None);
    expect_given_up(&mut receiver, 0);
    assert!(receiver.try_reset().is_some());
}

#[test]
fn a_message_that_is_read_in_parts_ends_without_its_end() {
    let mut receiver = read_in_part();
    forward(&mut receiver, 5, &[(0, 0)]);
    expect_given_up(&mut receiver, 0);
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..whole(6)
    });
    let next = recv(&mut receiver).expect("a whole message");
    assert!(next.begin && next.end && next.ssn == Ssn(1));
}

#[test]
fn messages_are_given_up_behind_one_that_is_read_slowly() {
    let mut receiver = read_in_part();
    // The window opens again.
    let _ = sack(&mut receiver);
    receiver.on_data(&fragment(4, false, true));
    forward(&mut receiver, 5, &[(0, 1)]);
    let after = |ssn, tsn| Data {
        number: MessageNumber::Ssn(Ssn(ssn)),
        ..whole(tsn)
    };
    assert_eq!(receiver.on_data(&after(2, 6)), DataOutcome::New);
    assert_eq!(receiver.on_data(&after(3, 7)), DataOutcome::New);
    let rest = recv(&mut receiver).expect("the end");
    assert!(rest.end && rest.ssn == Ssn(0));
    assert_eq!(drain(&mut receiver), [(0, 2), (0, 3)]);
}

#[test]
fn the_end_of_a_given_up_message_leaves_the_buffer_whichever_part_arrives_first() {
    // Before the FORWARD TSN: the middle and the end of a message that begins below it.
    let mut receiver = receiver(&gives_up());
    let full = a_rwnd(&mut receiver);
    receiver.on_data(&fragment(3, false, false));
    receiver.on_data(&fragment(4, false, true));
    forward(&mut receiver, 2, &[(0, 0)]);
    assert_eq!((receiver.buffered_bytes(), a_rwnd(&mut receiver)), (0, full));
    // After it: the end, then the middle.
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..fragment(5, true, false)
    });
    forward(&mut receiver, 6, &[(0, 1)]);
    for (tsn, ends) in [(8, false), (9, true), (7, false)] {
        let rest = Data {
            number: MessageNumber::Ssn(Ssn(1)),
            ..fragment(tsn, false, ends)
        };
        assert_eq!(receiver.on_data(&rest), DataOutcome::New);
    }
    assert_eq!((receiver.buffered_bytes(), a_rwnd(&mut receiver)), (0, full));
    assert_eq!(sack(&mut receiver), (9, vec![], vec![]));
}

// [3758:3.6-2]
#[test]
fn a_tsn_far_above_is_taken() {
    for above in [1, 1 << 24, (1 << 31) - 1] {
        let mut receiver = receiver(&gives_up());
        let last = gives_up().max_tsn_window.saturating_add(above).min((1 << 31) - 1);
        receiver.on_data(&whole(3));
        forward(&mut receiver, last, &[(0, 0), (500, 7)]);
        assert_eq!(
            sack(&mut receiver),
            (last, vec![], vec![]),
            "an unknown stream is ignored"
        );
        let next = Data {
            number: MessageNumber::Ssn(Ssn(1)),
            ..whole(last + 1)
        };
        assert_eq!(receiver.on_data(&next), DataOutcome::New);
        assert_eq!(drain(&mut receiver), [(0, 1), (0, 2)]);
    }
}

/// A message of a sender.
#[derive(Clone, Debug)]
struct Sent {
    stream: u16,
    ssn: u16,
    unordered: bool,
    first: u32,
    count: u32,
    given_up: bool,
}

impl Sent {
    fn chunk(&self, at: u32) -> Data<'static> {
        Data {
            tsn: Tsn(self.first.wrapping_add(at)),
            stream: self.stream,
            number: MessageNumber::Ssn(Ssn(self.ssn)),
            unordered: self.unordered,
            begin: at == 0,
            end: at + 1 == self.count,
            payload: Payload::Zeros(100),
            ..whole(1)
        }
    }
}

/// Returns 40 messages on three streams, some of which are given up.
fn any_messages(rng: &mut Rng, initial: u32) -> Vec<Sent> {
    let (mut messages, mut next, mut ssns) = (Vec::new(), initial, [0_u16; 3]);
    for _ in 0..40 {
        let stream = rng.below(3) as u16;
        let unordered = rng.chance(0.3);
        let count = 1 + rng.below(4) as u32;
        messages.push(Sent {
            stream,
            ssn: if unordered { 0 } else { ssns[usize::from(stream)] },
            unordered,
            first: next,
            count,
            given_up: rng.chance(0.3),
        });
        ssns[usize::from(stream)] += u16::from(!unordered);
        next = next.wrapping_add(count);
    }
    messages
}

/// Returns chunks of the messages, by message and place, in any order. Chunks of given-up messages may arrive or not, the others arrive once
/// or twice.
fn any_arrivals(rng: &mut Rng, messages: &[Sent]) -> Vec<(usize, u32)> {
    let mut arrivals: Vec<(usize, u32)> = Vec::new();
    for (number, message) in messages.iter().enumerate() {
        for at in 0..message.count {
            let times = if message.given_up {
                rng.below(2)
            } else {
                1 + rng.below(2)
            };
            arrivals.extend((0..times).map(|_| (number, at)));
        }
    }
    for at in (1..arrivals.len()).rev() {
        arrivals.swap(at, at.saturating_sub(rng.below(30) as usize));
    }
    arrivals
}

/// Returns the TSN of a FORWARD TSN, and the streams in it, if these chunks have arrived.
fn advance(messages: &[Sent], initial: u32, arrived: &BTreeSet<(usize, u32)>) -> (u32, Vec<(u16, u16)>) {
    let (mut last, mut skipped) = (initial.wrapping_sub(1), Vec::new());
    for (number, message) in messages.iter().enumerate() {
        for at in 0..message.count {
            if !message.given_up && !arrived.contains(&(number, at)) {
                return (last, skipped);
            }
            last = message.first.wrapping_add(at);
        }
        if message.given_up && !message.unordered {
            skipped.retain(|(stream, _)| *stream != message.stream);
            skipped.push((message.stream, message.ssn));
        }
    }
    (last, skipped)
}

/// Any messages are sent in any order, some chunks twice, and FORWARD TSNs between them give up some. The reader gets every other message,
/// once and in order, and nothing stays in the buffer.
#[test]
fn whatever_is_given_up_the_rest_arrives_and_nothing_stays() {
    for seed in 0..400 {
        let mut rng = Rng::stream(seed, "given up");
        let initial = if seed % 2 == 0 { u32::MAX - 20 } else { 1 };
        let config = ReceiverConfig {
            gives_up: true,
            ..ReceiverConfig::new(1 << 20, 10, 1500)
        };
        let mut receiver = Receiver::new(Tsn(initial), config.into());
        let messages = any_messages(&mut rng, initial);
        let mut arrived = BTreeSet::new();
        let mut read = Vec::new();
        for (number, at) in any_arrivals(&mut rng, &messages) {
            let outcome = receiver.on_data(&messages[number].chunk(at));
            assert!(
                matches!(outcome, DataOutcome::New | DataOutcome::Duplicate),
                "{seed}: {outcome:?} for {:?} {at}",
                messages[number]
            );
            arrived.insert((number, at));
            if rng.chance(0.2) {
                let (last, skipped) = advance(&messages, initial, &arrived);
                forward(&mut receiver, last, &skipped);
            }
            if rng.chance(0.3) {
                read.extend(std::iter::from_fn(|| recv(&mut receiver)));
            }
        }
        let (last, skipped) = advance(&messages, initial, &arrived);
        forward(&mut receiver, last, &skipped);
        read.extend(std::iter::from_fn(|| recv(&mut receiver)));
        let end = messages.last().map(|last| last.first.wrapping_add(last.count - 1));
        assert_eq!((Some(last), receiver.cumulative_tsn()), (end, Tsn(last)), "{seed}");
        assert_eq!(receiver.buffered_bytes(), 0, "{seed}");
        assert_eq!(a_rwnd(&mut receiver), 1 << 20, "{seed}");
        assert_read(&read, &messages, seed);
    }
}

/// Checks that the reader got all messages but the given-up ones, and the ordered ones in order.
fn assert_read(read: &[Received], messages: &[Sent], seed: u64) {
    for stream in 0..3 {
        let of_stream = |unordered: bool| {
            let all = read.iter();
            all.filter(move |message| message.stream == stream && message.unordered == unordered)
        };
        let ordered: Vec<u16> = of_stream(false).map(|message| message.ssn.0).collect();
        assert!(ordered.is_sorted_by(|a, b| a < b), "{seed}: {ordered:?}");
        let wanted = |given_up: bool, unordered: bool| {
            let all = messages
                .iter()
                .filter(move |m| m.stream == stream && m.unordered == unordered);
            all.filter(move |m| !m.given_up || given_up)
        };
        for message in wanted(false, false) {
            assert!(ordered.contains(&message.ssn), "{seed}: {message:?} {ordered:?}");
        }
        let (least, most) = (wanted(false, true).count(), wanted(true, true).count());
        let got = of_stream(true).count();
        assert!((least..=most).contains(&got), "{seed}: {got}");
    }
}
