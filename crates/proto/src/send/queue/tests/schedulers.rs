//! The schedulers of RFC 8260 §3, and what interleaving changes.

use whimbrel_control::Span;

use super::*;
use crate::message::Reliability;

fn queue(scheduler: Scheduler, is_interleaved: bool) -> SendQueue {
    let mut queue = SendQueue::new(scheduler, u32::MAX);
    queue.interleave(is_interleaved);
    queue
}

/// Queues messages of a length, one for each entry with a stream.
fn fill(queue: &mut SendQueue, len: u32, streams: &[u16]) {
    for &stream in streams {
        queue.push(Message::zeros(stream, len), Time::ZERO);
    }
}

/// Returns the streams of the next `count` chunks of at most `max` bytes. Each packet has one of them.
fn order(queue: &mut SendQueue, max: usize, count: usize) -> Vec<u16> {
    let mut next = || {
        let fragment = chunk(queue, max)?;
        queue.end_packet();
        Some(fragment.stream)
    };
    (0..count).map_while(|_| next()).collect()
}

#[test]
fn first_come_sends_messages_in_the_order_of_the_user() {
    // RFC 8260 §3.1
    for is_interleaved in [false, true] {
        let mut queue = queue(Scheduler::FirstCome, is_interleaved);
        queue.set_value(2, 7);
        fill(&mut queue, 20, &[2, 1, 2, 3]);
        assert_eq!(order(&mut queue, 10, 9), [2, 2, 1, 1, 2, 2, 3, 3]);
    }
}

#[test]
fn round_robin_alternates_between_messages_or_interleaved_chunks() {
    // RFC 8260 §3.2
    let mut whole = queue(Scheduler::RoundRobin, false);
    fill(&mut whole, 20, &[1, 1, 1, 2, 2, 3]);
    assert_eq!(order(&mut whole, 10, 13), [1, 1, 2, 2, 3, 3, 1, 1, 2, 2, 1, 1]);
    let mut interleaved = queue(Scheduler::RoundRobin, true);
    fill(&mut interleaved, 20, &[1, 1, 1, 2, 2, 3]);
    assert_eq!(order(&mut interleaved, 10, 13), [1, 2, 3, 1, 2, 3, 1, 2, 1, 2, 1, 1]);
}

#[test]
fn round_robin_by_packet_changes_the_stream_with_the_packet() {
    // RFC 8260 §3.3
    let packet = |queue: &mut SendQueue, chunks: usize| {
        let of_packet: Vec<_> = (0..chunks).map_while(|_| Some(chunk(queue, 10)?.stream)).collect();
        queue.end_packet();
        of_packet
    };
    let mut interleaved = queue(Scheduler::RoundRobinPacket, true);
    fill(&mut interleaved, 50, &[1]);
    fill(&mut interleaved, 10, &[2, 2]);
    assert_eq!(packet(&mut interleaved, 3), [1, 1, 1]);
    assert_eq!(interleaved.next_stream(), Some(2));
    // The rest of the packet stays empty for want of data of the stream.
    assert_eq!(packet(&mut interleaved, 3), [2, 2]);
    fill(&mut interleaved, 10, &[2]);
    assert_eq!(packet(&mut interleaved, 1), [1]);
    assert_eq!(packet(&mut interleaved, 3), [2]);
    assert_eq!(packet(&mut interleaved, 3), [1]);
    assert!(interleaved.is_empty());

    // A message that has been begun ends first, in as many packets as it takes.
    let mut whole = queue(Scheduler::RoundRobinPacket, false);
    fill(&mut whole, 50, &[1, 1]);
    fill(&mut whole, 10, &[2]);
    assert_eq!(packet(&mut whole, 3), [1, 1, 1]);
    assert_eq!(packet(&mut whole, 3), [1, 1, 1]);
    // The packet with the last chunk has begun the next message of the stream.
    assert_eq!(packet(&mut whole, 4), [1, 1, 1, 1]);
    assert_eq!(packet(&mut whole, 4), [2]);
}

#[test]
fn a_packet_of_a_stream_without_more_data_offers_no_message_until_it_ends() {
    let mut queue = queue(Scheduler::RoundRobinPacket, true);
    fill(&mut queue, 10, &[1, 2]);
    chunk(&mut queue, 10).unwrap();
    assert_eq!(
        (queue.next_len(), queue.next_stream(), queue.is_empty()),
        (None, None, false)
    );
    assert!(queue.take(10).is_none() && queue.drop_next().is_none() && !queue.is_begun());
    queue.end_packet();
    assert_eq!((queue.next_len(), queue.next_stream()), (Some(10), Some(2)));
}

#[test]
fn priorities_are_strict_and_equals_take_turns() {
    // RFC 8260 §3.4: with interleaving, a long message does not delay one of higher priority.
    for is_interleaved in [false, true] {
        let mut queue = queue(Scheduler::Priority, is_interleaved);
        queue.set_value(1, 9);
        queue.set_value(2, 3);
        queue.set_value(3, 3);
        fill(&mut queue, 30, &[1, 2, 2, 3]);
        assert_eq!(queue.next_stream(), Some(2));
        chunk(&mut queue, 10).unwrap();
        // Stream 0 has the highest priority by default.
        fill(&mut queue, 10, &[0]);
        let expected: &[u16] = if is_interleaved {
            &[0, 3, 2, 3, 2, 3, 2, 2, 2, 1, 1, 1]
        } else {
            &[2, 2, 0, 3, 3, 3, 2, 2, 2, 1, 1, 1]
        };
        assert_eq!(order(&mut queue, 10, 20), expected);
    }
}

#[test]
fn a_priority_that_changes_counts_at_once() {
    let mut queue = queue(Scheduler::Priority, true);
    queue.set_value(1, 5);
    queue.set_value(2, 6);
    fill(&mut queue, 40, &[1, 2]);
    assert_eq!(order(&mut queue, 10, 1), [1]);
    queue.set_value(1, 7);
    assert_eq!(order(&mut queue, 10, 2), [2, 2]);
    queue.set_value(2, u16::MAX);
    assert_eq!(order(&mut queue, 10, 10), [1, 1, 1, 2, 2]);
    // It remains for later messages, also once the memory of the stream is freed.
    queue.release_memory();
    fill(&mut queue, 10, &[2, 1]);
    assert_eq!(order(&mut queue, 10, 3), [1, 2]);
}

/// Takes this number of bytes in chunks of at most `max`, and returns the bytes of each stream, with messages of `len` always waiting.
fn shares(queue: &mut SendQueue, streams: &[u16], len: &dyn Fn(u16) -> u32, max: usize, total: usize) -> Vec<usize> {
    let mut bytes = vec![0; streams.len()];
    let mut waiting = vec![0; streams.len()];
    while bytes.iter().sum::<usize>() < total {
        for (index, &stream) in streams.iter().enumerate() {
            while waiting[index] < 3 {
                fill(queue, len(stream), &[stream]);
                waiting[index] += 1;
            }
        }
        let fragment = chunk(queue, max).unwrap();
        let index = streams.iter().position(|&stream| stream == fragment.stream).unwrap();
        bytes[index] += fragment.payload.len();
        waiting[index] -= usize::from(fragment.end);
    }
    bytes
}

// [8260:3-1]
#[test]
fn bytes_are_proportional_to_weights_up_to_one_chunk_or_message() {
    // RFC 8260 §3.6
    let streams = [4, 8, 15];
    let len = |stream| if stream == 8 { 3000 } else { 900 + u32::from(stream) };
    for (is_interleaved, largest) in [(true, 1000.0), (false, 3000.0)] {
        let mut queue = queue(Scheduler::WeightedFair, is_interleaved);
        // Weight 1 without a value, and with value 0.
        queue.set_value(4, 0);
        queue.set_value(8, 2);
        queue.set_value(15, 5);
        for total in [100_000, 1_000_000] {
            let bytes = shares(&mut queue, &streams, &len, 1000, total);
            let served: Vec<_> = bytes
                .iter()
                .zip([1.0, 2.0, 5.0])
                .map(|(&b, w)| (b as f64 / w, w))
                .collect();
            for (own, own_weight) in &served {
                for (other, other_weight) in &served {
                    // The bound of start-time fair queueing. The second measurement starts within the bound, too.
                    let bound = 2.0 * (largest / own_weight + largest / other_weight);
                    assert!((own - other).abs() <= bound, "{is_interleaved}: {bytes:?}");
                }
            }
        }
    }
}

#[test]
fn fair_capacity_is_equal_in_bytes_whatever_the_lengths_and_values() {
    // RFC 8260 §3.5
    let mut queue = queue(Scheduler::FairCapacity, true);
    queue.set_value(1, 100);
    let bytes = shares(
        &mut queue,
        &[1, 2],
        &|stream| if stream == 1 { 50 } else { 5000 },
        1000,
        200_000,
    );
    assert!(bytes[0].abs_diff(bytes[1]) <= 1000, "{bytes:?}");
}

#[test]
fn a_weight_that_changes_counts_from_the_next_chunk_on() {
    let mut queue = queue(Scheduler::WeightedFair, true);
    let bytes = shares(&mut queue, &[1, 2], &|_| 100, 100, 20_000);
    assert!(bytes[0].abs_diff(bytes[1]) <= 100, "{bytes:?}");
    queue.set_value(2, 3);
    let bytes = shares(&mut queue, &[1, 2], &|_| 100, 100, 20_000);
    assert!(bytes[1].abs_diff(15_000) <= 200, "{bytes:?}");
}

#[test]
fn an_idle_stream_gets_no_credit_and_no_debt_beyond_one_chunk() {
    for scheduler in [Scheduler::RoundRobin, Scheduler::FairCapacity, Scheduler::WeightedFair] {
        let mut queue = queue(scheduler, true);
        fill(&mut queue, 100_000, &[1]);
        for _ in 0..50 {
            chunk(&mut queue, 1000).unwrap();
        }
        fill(&mut queue, 50_000, &[2]);
        let next = order(&mut queue, 1000, 20);
        assert_eq!(next.iter().filter(|&&stream| stream == 2).count(), 10, "{scheduler:?}");
        // A stream that empties its lane with each message has no advantage by that.
        while queue.drop_next().is_some() {}
        fill(&mut queue, 30_000, &[1]);
        let mut of_short = 0;
        for _ in 0..20 {
            if queue.rest(2) == Buffered::default() && queue.held().count == 1 {
                fill(&mut queue, 1000, &[2]);
            }
            of_short += usize::from(chunk(&mut queue, 1000).unwrap().stream == 2);
        }
        assert_eq!(of_short, 10, "{scheduler:?}");
    }
}

#[test]
fn without_interleaving_every_message_is_whole() {
    // RFC 9260 §6.9
    for scheduler in Scheduler::ALL {
        let mut queue = queue(scheduler, false);
        fill(&mut queue, 35, &[5, 6, 7, 5, 6, 7]);
        let mut begun = None;
        while !queue.is_empty() {
            let fragment = chunk(&mut queue, 10).unwrap();
            assert_eq!(fragment.begin, begun.is_none());
            assert!(begun.is_none_or(|stream| stream == fragment.stream), "{scheduler:?}");
            assert_eq!(fragment.fsn, 0);
            begun = (!fragment.end).then_some(fragment.stream);
            // A stream of higher priority comes in between.
            queue.set_value(7, 1);
            queue.set_value(6, 2);
            queue.end_packet();
        }
    }
}

// [8260:2.2.2-5]
#[test]
fn interleaved_messages_have_identifiers_and_fragment_numbers() {
    // RFC 8260 §2.1: ordered and unordered messages are numbered separately.
    let mut queue = queue(Scheduler::RoundRobin, true);
    for (stream, unordered) in [(1, false), (1, true), (1, false), (1, true), (2, true)] {
        let message = Message {
            unordered,
            ..Message::zeros(stream, 20)
        };
        queue.push(message, Time::ZERO);
    }
    let numbers: Vec<_> = std::iter::from_fn(|| chunk(&mut queue, 10))
        .map(|f| (f.stream, f.unordered, f.number, f.fsn))
        .collect();
    let expected = [
        (1, false, 0, 0),
        (2, true, 0, 0),
        (1, false, 0, 1),
        (2, true, 0, 1),
        (1, true, 0, 0),
        (1, true, 0, 1),
        (1, false, 1, 0),
        (1, false, 1, 1),
        (1, true, 1, 0),
        (1, true, 1, 1),
    ];
    assert_eq!(numbers, expected);
}

#[test]
fn message_identifiers_have_32_bits_and_wrap() {
    for scheduler in Scheduler::ALL {
        let mut queue = queue(scheduler, true);
        queue.numbers.set_mids(u32::MAX, 0xffff);
        let numbers = [false, false, true, true].map(|unordered| {
            queue.push(
                Message {
                    unordered,
                    ..Message::zeros(0, 5)
                },
                Time::ZERO,
            );
            let taken = chunk(&mut queue, 10).unwrap();
            queue.end_packet();
            taken.number
        });
        assert_eq!(numbers, [u32::MAX, 0, 0xffff, 0x1_0000]);
    }
}

#[test]
fn a_message_that_is_dropped_before_its_first_fragment_has_no_number() {
    for is_interleaved in [false, true] {
        for scheduler in Scheduler::ALL {
            let mut queue = queue(scheduler, is_interleaved);
            fill(&mut queue, 10, &[3, 3]);
            assert!(queue.drop_next().unwrap().1.is_none());
            assert_eq!(chunk(&mut queue, 10).unwrap().number, 0);
        }
    }
}

#[test]
fn the_rest_of_a_message_is_dropped_by_stream() {
    for scheduler in Scheduler::ALL {
        let mut queue = queue(scheduler, true);
        fill(&mut queue, 40, &[1, 1, 2]);
        let first = chunk(&mut queue, 10).unwrap();
        queue.end_packet();
        assert_eq!((queue.rest(1).bytes, queue.rest(2).bytes, queue.bytes()), (30, 0, 110));
        assert!(queue.drop_rest(2).is_none() && queue.drop_rest(9).is_none());
        let last = queue.drop_rest(1).unwrap();
        assert_eq!(
            (last.number, last.fsn, last.end, last.payload.len()),
            (first.number, 1, true, 0)
        );
        assert_eq!((queue.held().count, queue.bytes(), queue.rest(1).bytes), (2, 80, 0));
        let mut rest = order(&mut queue, 40, 3);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2], "{scheduler:?}");
        assert!(queue.is_empty());
    }
}

#[test]
fn without_interleaving_the_rest_of_a_message_ends_the_turn() {
    let mut queue = queue(Scheduler::RoundRobin, false);
    fill(&mut queue, 20, &[1, 1, 2]);
    chunk(&mut queue, 10).unwrap();
    queue.drop_rest(1).unwrap();
    assert_eq!(order(&mut queue, 20, 3), [2, 1]);
}

#[test]
fn messages_of_all_lanes_give_way_but_not_those_that_have_been_begun() {
    let limited = |stream, number| Message {
        reliability: Reliability::Priority(number),
        context: u32::from(stream),
        ..Message::zeros(stream, 20)
    };
    for scheduler in Scheduler::ALL.into_iter().skip(1) {
        let mut queue = queue(scheduler, true);
        for (stream, number) in [(1, 9), (2, 5), (3, 7), (4, 1)] {
            queue.push(limited(stream, number), Time::ZERO);
        }
        assert_eq!(chunk(&mut queue, 10).unwrap().stream, 1);
        queue.end_packet();
        let yields = |bytes, count| Buffered { bytes, long: 0, count };
        assert_eq!(queue.yields(Limit::Never), yields(60, 3));
        assert_eq!(queue.yields(Limit::Priority(5)), yields(20, 1));
        let dropped: Vec<_> = std::iter::from_fn(|| queue.drop_for(Limit::Priority(2), 5))
            .map(|message| message.context)
            .collect();
        assert_eq!(dropped, [3, 2], "{scheduler:?}");
        assert_eq!((queue.held().count, queue.bytes()), (2, 30));
        let mut rest = order(&mut queue, 10, 4);
        rest.sort_unstable();
        assert_eq!(rest, [1, 4, 4]);
    }
}

// RFC 8260 §2.3.2
// [8260:2-2, 2.3.2-1]
#[test]
fn ordered_and_unordered_messages_are_numbered_from_0_after_a_reset() {
    let streams = StreamList::of([1]);
    let mut queue = queue(Scheduler::FirstCome, true);
    let push_all = |queue: &mut SendQueue| {
        for (stream, unordered) in [(1, false), (1, true), (1, true), (2, true)] {
            let message = Message::zeros(stream, 20);
            queue.push(Message { unordered, ..message }, Time::ZERO);
        }
    };
    let numbers = |queue: &mut SendQueue| -> Vec<u32> {
        std::iter::from_fn(|| chunk(queue, 100))
            .map(|fragment| fragment.number)
            .collect()
    };
    push_all(&mut queue);
    assert_eq!(numbers(&mut queue), [0, 0, 1, 0]);
    queue.keep_back(streams.clone());
    push_all(&mut queue);
    assert_eq!(numbers(&mut queue), [1]);
    queue.end_reset(&streams, true);
    assert_eq!(numbers(&mut queue), [0, 0, 1]);
}

#[test]
fn of_the_messages_behind_resets_that_with_the_largest_number_gives_way_first() {
    let limited = |stream, number, context| Message {
        reliability: Reliability::Priority(number),
        context,
        ..Message::zeros(stream, 20)
    };
    let mut queue = queue(Scheduler::FirstCome, false);
    queue.keep_back(StreamList::of([1, 2]));
    queue.keep_back(StreamList::of([3]));
    let pushed = [(1, 4), (2, 6), (3, 9), (3, 6), (1, 9), (3, 2), (2, 1)];
    for ((stream, number), context) in pushed.into_iter().zip(0..) {
        queue.push(limited(stream, number, context), Time::ZERO);
    }
    let dropped: Vec<_> = std::iter::from_fn(|| queue.drop_for(Limit::Priority(1), 2))
        .map(|message| message.context)
        .collect();
    assert_eq!(dropped, [2, 4, 3, 1, 0, 5]);
    assert_eq!(queue.held().count, 1);
}

#[test]
fn messages_behind_a_reset_are_given_up_when_their_own_time_is_over() {
    let lasting = |stream, ms: Option<u64>, context| Message {
        reliability: ms.map_or(Reliability::Full, |ms| Reliability::Lifetime(Span::from_millis(ms))),
        context,
        ..Message::zeros(stream, 20)
    };
    let mut queue = queue(Scheduler::FirstCome, false);
    queue.keep_back(StreamList::of([1]));
    queue.keep_back(StreamList::of([2]));
    let pushed = [(1, Some(30)), (1, None), (2, Some(10)), (1, Some(20)), (2, Some(30))];
    for ((stream, ms), context) in pushed.into_iter().zip(0..) {
        queue.push(lasting(stream, ms, context), Time::ZERO);
    }
    let expired = |queue: &mut SendQueue, ms| {
        let mut dropped = Vec::new();
        queue.drop_expired_kept(Time::ZERO + Span::from_millis(ms), |message| {
            dropped.push(message.context)
        });
        dropped
    };
    assert_eq!(expired(&mut queue, 9), [0; 0]);
    assert_eq!(expired(&mut queue, 10), [2]);
    // One that comes later, but ends first.
    queue.push(lasting(2, Some(15), 5), Time::ZERO);
    assert_eq!(expired(&mut queue, 14), [0; 0]);
    assert_eq!(expired(&mut queue, 15), [5]);
    assert_eq!(expired(&mut queue, 25), [3]);
    assert_eq!(expired(&mut queue, 31), [0, 4]);
    assert_eq!(queue.held().count, 1);
}

#[test]
fn all_lanes_are_cleared_and_dropped_by_stream() {
    for scheduler in Scheduler::ALL {
        let mut queue = queue(scheduler, true);
        queue.set_value(8, 2);
        fill(&mut queue, 20, &[6, 8, 7, 6]);
        let first = chunk(&mut queue, 10).unwrap().stream;
        queue.end_packet();
        let mut dropped = Vec::new();
        queue.drop_streams(7, |message| dropped.push(message.stream));
        dropped.sort_unstable();
        assert_eq!((first, dropped), (6, vec![7, 8]), "{scheduler:?}");
        let mut cleared = Vec::new();
        queue.clear(|message, sent| cleared.push((message.stream, sent)));
        assert_eq!(cleared, [(6, true), (6, false)]);
        assert_eq!((queue.held().count, queue.bytes(), queue.next_len()), (0, 0, None));
        // Numbers start at 0 again, as message identifiers.
        fill(&mut queue, 20, &[6]);
        let fragments: Vec<_> = std::iter::from_fn(|| chunk(&mut queue, 10))
            .map(|f| (f.number, f.fsn))
            .collect();
        assert_eq!(fragments, [(0, 0), (0, 1)]);
    }
}

#[test]
fn lanes_without_messages_take_no_memory_once_it_is_released() {
    for scheduler in Scheduler::ALL {
        let mut queue = queue(scheduler, false);
        let empty = queue.heap_bytes();
        for stream in 0..100 {
            queue.push(Message::new(stream, &b"text"[..]), Time::ZERO);
        }
        let full = queue.heap_bytes();
        while !queue.is_empty() {
            chunk(&mut queue, 10).unwrap();
            queue.end_packet();
        }
        queue.release_memory();
        // The numbers of streams remain.
        assert!(queue.heap_bytes() <= empty + 256 && full > 4000, "{scheduler:?}");
        fill(&mut queue, 5, &[99]);
        assert_eq!(chunk(&mut queue, 10).unwrap().number, 1);
    }
}
