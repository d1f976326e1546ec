//! Tests of streams, order and reassembly: RFC 9260 §6.5, §6.6, §6.9.

use super::*;

// [9260:6.5-2]
#[test]
fn section_6_5_an_invalid_stream_is_acknowledged_and_discarded() {
    let mut receiver = receiver(&config());
    let invalid = |tsn, begin, end| Data {
        stream: 10,
        begin,
        end,
        ..whole(tsn)
    };
    assert_eq!(
        packet(&mut receiver, NOW, &[invalid(1, true, false)]),
        [DataOutcome::InvalidStream]
    );
    assert_eq!(
        packet(&mut receiver, NOW, &[invalid(2, false, true)]),
        [DataOutcome::InvalidStream]
    );
    assert_eq!(
        packet(&mut receiver, NOW, &[invalid(4, true, true)]),
        [DataOutcome::InvalidStream]
    );
    assert_eq!(
        packet(&mut receiver, NOW, &[invalid(4, true, true)]),
        [DataOutcome::Duplicate]
    );
    assert_eq!(sack(&mut receiver), (2, vec![(2, 2)], vec![4]));
    assert_eq!((receiver.buffered_bytes(), receiver.has_message()), (0, false));
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(0)),
        ..whole(3)
    });
    assert_eq!(sack(&mut receiver).0, 4);
    assert_eq!(drain(&mut receiver), [(0, 0)]);
}

// [9260:1.6-5, 6.5-5, 6.6-2]
#[test]
fn section_6_5_stream_sequence_numbers_wrap_around() {
    let mut receiver = receiver(&config());
    for tsn in 1..=70_000 {
        // Every other pair is swapped, so that messages wait on both sides of the wrap.
        let tsn = if tsn % 4 == 0 {
            tsn - 1
        } else {
            tsn + u32::from(tsn % 4 == 3)
        };
        assert_eq!(receiver.on_data(&whole(tsn)), DataOutcome::New, "{tsn}");
        if tsn % 4 == 3 {
            let read = drain(&mut receiver);
            assert_eq!(read.len(), 4);
            assert_eq!(read[3], (0, tsn as u16));
        }
    }
}

// [9260:6.6-1, 6.6-2, 6.6-3, 3.3.1-2, 3.3.1-3]
#[test]
fn section_6_6_a_gap_delays_only_its_own_stream() {
    let mut receiver = receiver(&config());
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(1)),
        ..whole(2)
    });
    receiver.on_data(&Data {
        stream: 1,
        number: MessageNumber::Ssn(Ssn(0)),
        ..whole(3)
    });
    receiver.on_data(&Data {
        stream: 1,
        number: MessageNumber::Ssn(Ssn(0x1234)),
        unordered: true,
        ..whole(4)
    });
    receiver.on_data(&Data {
        unordered: true,
        ..whole(5)
    });
    assert_eq!(drain(&mut receiver), [(1, 0), (1, 0), (0, 0)]);
    receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(0)),
        ..whole(1)
    });
    assert_eq!(drain(&mut receiver), [(0, 0), (0, 1)]);
}

// [9260:6.9-1, 6.9-14, 6-11]
#[test]
fn section_6_9_fragments_are_reassembled_in_any_order_of_arrival() {
    for order in 0..120 {
        let mut left = vec![1, 2, 3, 4, 5];
        let (mut receiver, mut rest) = (receiver(&config()), order);
        let mut text = Vec::new();
        while !left.is_empty() {
            let tsn = left.remove(rest % left.len());
            rest /= left.len() + 1;
            let bytes = [tsn as u8; 5];
            let data = Data {
                payload: Payload::Bytes(&bytes[..tsn as usize]),
                ..fragment(tsn, tsn == 1, tsn == 5)
            };
            assert!(!receiver.has_message());
            assert_eq!(receiver.on_data(&data), DataOutcome::New);
        }
        let received = receiver.recv(&mut |part| {
            let Payload::Bytes(part) = part else {
                panic!("the content is bytes")
            };
            text.extend_from_slice(part);
        });
        let expected = Received {
            stream: 0,
            ssn: Ssn(0),
            ppid: 7,
            unordered: false,
            len: 15,
            begin: true,
            end: true,
            given_up: false,
            before_restart: false,
            more: false,
        };
        assert_eq!(received, Some(expected), "order {order}");
        assert_eq!(text, [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5]);
        assert_eq!(receiver.recv(&mut |_| {}), None);
    }
}

// [9260:3.3.1-6, 3.3.1-12]
#[test]
fn section_6_9_contradictions_between_fragments_are_violations() {
    let first = fragment(11, true, false);
    let middle = fragment(11, false, false);
    let last = fragment(11, false, true);
    let single = fragment(11, true, true);
    let cases: [(&str, Data<'_>, Data<'_>); 13] = [
        ("no beginning", single, fragment(12, false, true)),
        ("no beginning", last, fragment(12, false, false)),
        ("a beginning within", first, fragment(12, true, true)),
        ("a beginning within", middle, fragment(12, true, false)),
        ("no end", single, fragment(10, true, false)),
        ("no end", first, fragment(10, false, false)),
        ("an end within", middle, fragment(10, true, true)),
        ("an end within", last, fragment(10, false, true)),
        (
            "stream",
            first,
            Data {
                stream: 1,
                ..fragment(12, false, true)
            },
        ),
        (
            "SSN",
            first,
            Data {
                number: MessageNumber::Ssn(Ssn(1)),
                ..fragment(12, false, true)
            },
        ),
        (
            "U bit",
            first,
            Data {
                unordered: true,
                ..fragment(12, false, true)
            },
        ),
        (
            "PPID",
            last,
            Data {
                ppid: 8,
                ..fragment(10, true, false)
            },
        ),
        (
            "no such stream",
            first,
            Data {
                stream: 99,
                ..fragment(12, false, true)
            },
        ),
    ];
    for (what, known, contradiction) in cases {
        // Above a gap, at the cumulative TSN, and both in the opposite order.
        let low = known.tsn.0.min(contradiction.tsn.0);
        for initial in [1, low] {
            for order in [[known, contradiction], [contradiction, known]] {
                if initial == low && !order.iter().any(|data| data.tsn.0 == low && data.begin) {
                    continue;
                }
                let mut receiver = Receiver::new(Tsn(initial), config().into());
                let first = receiver.on_data(&order[0]);
                assert!(
                    matches!(first, DataOutcome::New | DataOutcome::InvalidStream),
                    "{what}: {first:?}"
                );
                let outcome = receiver.on_data(&order[1]);
                assert!(
                    matches!(outcome, DataOutcome::ProtocolViolation(_)),
                    "{what}: {outcome:?}"
                );
            }
        }
    }
    let outcome = receiver(&config()).on_data(&fragment(1, false, true));
    assert!(
        matches!(outcome, DataOutcome::ProtocolViolation(_)),
        "the first TSN begins a message: {outcome:?}"
    );
}

#[test]
fn section_6_9_the_ssn_of_unordered_fragments_is_ignored() {
    // RFC 9260 §3.3.1
    let mut receiver = receiver(&config());
    receiver.on_data(&Data {
        unordered: true,
        number: MessageNumber::Ssn(Ssn(4)),
        ..fragment(1, true, false)
    });
    receiver.on_data(&Data {
        unordered: true,
        number: MessageNumber::Ssn(Ssn(9)),
        ..fragment(2, false, true)
    });
    let message = recv(&mut receiver).expect("a message");
    assert_eq!((message.ssn, message.unordered, message.len), (Ssn(0), true, 2000));
}

#[test]
fn section_6_5_a_stream_sequence_number_used_twice_is_a_violation() {
    let mut receiver = receiver(&config());
    assert_eq!(
        receiver.on_data(&Data {
            number: MessageNumber::Ssn(Ssn(3)),
            ..whole(4)
        }),
        DataOutcome::New
    );
    let again = receiver.on_data(&Data {
        number: MessageNumber::Ssn(Ssn(3)),
        ..whole(5)
    });
    assert!(matches!(again, DataOutcome::ProtocolViolation(_)), "{again:?}");
}

#[test]
fn section_6_5_an_impossible_stream_sequence_number_is_a_violation() {
    // All earlier messages are missing or parked: there is room for four, and one is parked.
    let numbered = |ssn, tsn| Data {
        number: MessageNumber::Ssn(Ssn(ssn)),
        ..whole(tsn)
    };
    for (ssn, is_possible) in [(3, true), (5, true), (6, false), (65_535, false)] {
        let mut receiver = receiver(&config());
        assert_eq!(receiver.on_data(&numbered(2, 4)), DataOutcome::New);
        let outcome = receiver.on_data(&numbered(ssn, 5));
        assert_eq!(outcome == DataOutcome::New, is_possible, "SSN {ssn}: {outcome:?}");
    }
}

// [9260:6.9-15]
#[test]
fn section_6_9_a_message_larger_than_the_buffer_is_delivered_in_parts() {
    let mut receiver = receiver(&config());
    let last = 100;
    let (mut parts, mut bytes, mut tsn) = (0, 0, 1);
    while tsn <= last {
        match receiver.on_data(&fragment(tsn, tsn == 1, tsn == last)) {
            DataOutcome::New => tsn += 1,
            DataOutcome::NoBuffer => assert!(receiver.has_message(), "stuck at {tsn}"),
            other => panic!("{other:?}"),
        }
        if receiver.space_left() < 1000 || tsn > last {
            let part = recv(&mut receiver).expect("a full buffer lets the reader begin");
            assert_eq!(part.end, tsn > last);
            (parts, bytes) = (parts + 1, bytes + part.len);
            assert!(sack(&mut receiver).0 + 1 == tsn && a_rwnd(&mut receiver) == 20_000);
        }
    }
    assert_eq!((parts, bytes), (5, 100_000));
    // The stream continues with the next message.
    assert_eq!(
        receiver.on_data(&Data {
            number: MessageNumber::Ssn(Ssn(1)),
            ..whole(tsn)
        }),
        DataOutcome::New
    );
    assert_eq!(drain(&mut receiver), [(0, 1)]);
}

#[test]
fn section_6_9_messages_between_parts_cannot_be_mistaken_for_a_part() {
    let mut receiver = receiver(&config());
    let part = |tsn, begin, end| Data {
        unordered: true,
        ..fragment(tsn, begin, end)
    };
    for tsn in 1..=19 {
        receiver.on_data(&part(tsn, tsn == 1, false));
    }
    let first = recv(&mut receiver).expect("a part");
    assert_eq!((first.len, first.end, receiver.tail), (19_000, false, Tail::Delivered));
    receiver.on_data(&Data {
        stream: 1,
        unordered: true,
        ..whole(22)
    });
    receiver.on_data(&Data {
        ppid: 8,
        unordered: true,
        ..whole(23)
    });
    receiver.on_data(&Data {
        stream: 2,
        number: MessageNumber::Ssn(Ssn(0)),
        ..whole(24)
    });
    assert_eq!(
        drain(&mut receiver),
        [(1, 0)],
        "the second is unordered on the stream of the part"
    );
    receiver.on_data(&part(20, false, false));
    assert_eq!(recv(&mut receiver).map(|part| (part.ppid, part.end)), Some((7, false)));
    receiver.on_data(&part(21, false, true));
    assert_eq!(recv(&mut receiver).map(|part| (part.ppid, part.end)), Some((7, true)));
    assert_eq!(drain(&mut receiver), [(0, 0), (2, 0)]);
    assert_eq!(sack(&mut receiver).0, 24);
}
