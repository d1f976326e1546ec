//! Fragmentation and numbers; in `schedulers.rs` the order of streams, in `model.rs` all of it against a slow reference model.

mod model;
mod schedulers;

use super::*;
use crate::message::MessagePayload;

/// Returns the number of entries of a queue with one lane.
fn runs(queue: &SendQueue) -> usize {
    queue.lanes.next().unwrap().runs()
}

/// Takes a chunk of at most this length.
fn chunk(queue: &mut SendQueue, max: usize) -> Option<Fragment> {
    let len = queue.next_len()?.min(max);
    queue.take(len)
}

// [9260:6.9-9, 6.9-12, 6.9-13, 3.3.1-4, 3.3.1-6, 3.3.1-11]
#[test]
fn a_long_message_is_fragmented_with_b_and_e_bits() {
    // RFC 9260 §6.9
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    let mut message = Message::new(3, &b"abcdefghij"[..]);
    message.immediate = true;
    queue.push(message, Time::ZERO);
    let cut: Vec<_> = [4, 4, 2].into_iter().map(|len| queue.take(len).unwrap()).collect();
    let marks: Vec<_> = cut.iter().map(|f| (f.begin, f.end, f.immediate)).collect();
    assert_eq!(
        marks,
        [(true, false, false), (false, false, false), (false, true, true)]
    );
    assert!(cut.iter().all(|f| f.number == 0 && f.fsn == 0 && f.stream == 3));
    assert_eq!(
        cut[1].payload,
        MessagePayload::Bytes(bytes::Bytes::from_static(b"efgh"))
    );
    assert_eq!((queue.bytes(), queue.next_len()), (0, None));
    assert!(queue.take(1).is_none());
    // A message that fits into one chunk has both bits; all fragments of an unordered one have the U bit.
    queue.push(Message::zeros(3, 4), Time::ZERO);
    let whole = queue.take(4).unwrap();
    assert_eq!((whole.begin, whole.end, whole.unordered), (true, true, false));
    queue.push(
        Message {
            unordered: true,
            ..Message::zeros(3, 6)
        },
        Time::ZERO,
    );
    let cut: Vec<_> = [2, 2, 2].into_iter().map(|len| queue.take(len).unwrap()).collect();
    assert!(cut.iter().all(|f| f.unordered && f.number == cut[0].number));
}

// [9260:6.5-3, 6.5-4, 6.5-6]
#[test]
fn ordered_messages_are_numbered_by_stream_and_unordered_ones_are_not() {
    // RFC 9260 §6.5, §6.6
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    for (stream, unordered) in [(0, false), (5, false), (0, true), (0, false), (5, false)] {
        queue.push(
            Message {
                unordered,
                ..Message::zeros(stream, 1)
            },
            Time::ZERO,
        );
    }
    let numbers: Vec<_> = std::iter::from_fn(|| queue.take(1))
        .map(|f| (f.stream, f.number))
        .collect();
    assert_eq!(numbers, [(0, 0), (5, 0), (0, 0), (0, 1), (5, 1)]);
}

#[test]
fn messages_alike_share_one_entry_and_keep_their_numbers() {
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    for ppid in 0..1000 {
        queue.push(
            Message {
                ppid,
                ..Message::zeros(3, 100)
            },
            Time::ZERO,
        );
    }
    queue.push(Message::zeros(3, 99), Time::ZERO);
    assert_eq!((runs(&queue), queue.held().count), (2, 1001));
    // The first one was begun and stays, with its number.
    queue.take(40);
    queue.drop_streams(4, |_| panic!("stream 3 stays"));
    for number in 0..10 {
        let fragment = queue.take(queue.next_len().unwrap()).unwrap();
        assert_eq!((fragment.number, fragment.ppid, fragment.end), (number, number, true));
    }
    queue.take(1);
    let mut dropped = Vec::new();
    queue.drop_streams(0, |message| dropped.push((message.ppid, message.len())));
    assert_eq!((dropped.len(), dropped[0], dropped[989]), (990, (11, 100), (0, 99)));
    let begun = queue.take(queue.next_len().unwrap()).unwrap();
    assert_eq!((begun.number, begun.ppid, begun.payload.len()), (10, 10, 99));
    assert!(queue.is_empty() && queue.bytes() == 0);
    // Messages that were dropped have had no numbers.
    queue.push(Message::zeros(3, 100), Time::ZERO);
    assert_eq!(queue.take(100).unwrap().number, 11);
}

#[test]
fn every_message_keeps_its_ppid() {
    let ppids = [7, 7, 7, 8, 9, 9, 5, 3, 1, u32::MAX, 0, 1, 1 << 31, 0, 1 << 31];
    let numbered = ppids.map(|ppid| Message {
        ppid,
        ..Message::zeros(0, 1)
    });
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    numbered.into_iter().for_each(|message| queue.push(message, Time::ZERO));
    assert!(runs(&queue) < ppids.len() / 2, "{queue:?}");
    let taken: Vec<_> = std::iter::from_fn(|| queue.take(1)).map(|f| f.ppid).collect();
    assert_eq!(taken, ppids);
}

#[test]
fn contents_stay_with_their_messages_when_others_are_dropped() {
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    for (stream, text) in [(0, "first"), (7, "gone"), (1, ""), (2, "second"), (9, ""), (3, "third")] {
        queue.push(
            if text.is_empty() {
                Message::zeros(stream, 4)
            } else {
                Message::new(stream, text)
            },
            Time::ZERO,
        );
    }
    queue.take(2);
    let mut dropped = Vec::new();
    queue.drop_streams(7, |message| dropped.push(message.payload.clone()));
    assert_eq!(
        dropped,
        [MessagePayload::Bytes("gone".into()), MessagePayload::Zeros(4)]
    );
    let rest: Vec<_> = std::iter::from_fn(|| queue.take(queue.next_len()?)).collect();
    let payloads: Vec<_> = rest.iter().map(|fragment| fragment.payload.clone()).collect();
    let text = |text: &'static str| MessagePayload::Bytes(text.into());
    assert_eq!(
        payloads,
        [text("rst"), MessagePayload::Zeros(4), text("second"), text("third")]
    );
    assert_eq!(
        rest.iter().map(|f| f.begin).collect::<Vec<_>>(),
        [false, true, true, true]
    );
}

#[test]
fn dropped_messages_are_reported_and_no_longer_counted() {
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    for (context, stream) in [(1, 5), (2, 0), (3, 7), (4, 5)] {
        queue.push(
            Message {
                context,
                ..Message::zeros(stream, 10)
            },
            Time::ZERO,
        );
    }
    queue.take(4);
    let mut dropped = Vec::new();
    queue.drop_streams(5, |message| dropped.push(message.context));
    // A part of the first message has been sent.
    assert_eq!((dropped, queue.bytes()), (vec![3, 4], 16));
    let mut dropped = Vec::new();
    queue.clear(|message, sent| dropped.push((message.context, sent)));
    assert_eq!((dropped, queue.bytes()), (vec![(1, true), (2, false)], 0));
}

// [9260:6.5-5]
#[test]
fn stream_sequence_numbers_wrap() {
    // RFC 9260 §6.5: 0 follows 65535
    let mut queue = SendQueue::new(Scheduler::FirstCome, u32::MAX);
    let mut last = 0;
    for _ in 0..=65536_u32 {
        queue.push(Message::zeros(0, 1), Time::ZERO);
        last = queue.take(1).unwrap().number;
    }
    assert_eq!(last, 0);
}
