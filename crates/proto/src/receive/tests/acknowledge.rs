//! Tests of the content of SACKs and of when they are due: RFC 9260 §1.6, §3.3.4, §6.2, §6.7.

use super::*;

// [9260:3.3.4-1, 3.3.4-2, 3.3.4-3, 6.2-16]
#[test]
fn section_3_3_4_the_example_of_gap_ack_blocks() {
    let mut receiver = Receiver::new(Tsn(10), config().into());
    for tsn in [10, 11, 12, 14, 15, 17] {
        assert_eq!(
            receiver.on_data(&Data {
                unordered: true,
                ..whole(tsn)
            }),
            DataOutcome::New
        );
    }
    assert_eq!(sack(&mut receiver), (12, vec![(2, 3), (5, 5)], vec![]));
}

#[test]
fn section_3_3_4_before_any_data_the_cumulative_tsn_is_the_initial_one_less_one() {
    assert_eq!(
        sack(&mut Receiver::new(Tsn(0), config().into())),
        (u32::MAX, vec![], vec![])
    );
}

// [9260:6.2-21]
#[test]
fn section_3_3_4_a_duplicate_tsn_is_listed_each_time() {
    let mut receiver = receiver(&config());
    for _ in 0..3 {
        receiver.on_data(&whole(1));
    }
    assert_eq!(sack(&mut receiver), (1, vec![], vec![1, 1]));
    receiver.on_data(&whole(1));
    assert_eq!(sack(&mut receiver), (1, vec![], vec![1]));
    assert_eq!(sack(&mut receiver), (1, vec![], vec![]));
    for _ in 0..100 {
        receiver.on_data(&whole(1));
    }
    assert_eq!(sack(&mut receiver).2.len(), 64, "the list is bounded");
    assert_eq!(receiver.stats().duplicates, 103);
}

// [9260:1.6-1, 1.6-2, 1.6-4]
#[test]
fn section_1_6_tsns_wrap_around() {
    let mut receiver = Receiver::new(Tsn(u32::MAX - 1), config().into());
    for tsn in [u32::MAX - 1, 0, 2] {
        assert_eq!(
            receiver.on_data(&Data {
                unordered: true,
                ..whole(tsn)
            }),
            DataOutcome::New
        );
    }
    assert_eq!(sack(&mut receiver), (u32::MAX - 1, vec![(2, 2), (4, 4)], vec![]));
    assert_eq!(
        receiver.on_data(&Data {
            unordered: true,
            ..whole(u32::MAX)
        }),
        DataOutcome::New
    );
    assert_eq!(
        receiver.on_data(&Data {
            unordered: true,
            ..whole(u32::MAX)
        }),
        DataOutcome::Duplicate
    );
    assert_eq!(sack(&mut receiver), (0, vec![(2, 2)], vec![u32::MAX]));
}

// [9260:6.2-1, 6.2-7, 6.2-8, 6.2-9, 6.2-10, 6.7-2]
#[test]
fn section_6_2_a_sack_for_every_second_packet() {
    let mut receiver = receiver(&config());
    packet(&mut receiver, NOW, &[whole(1), whole(2), whole(3)]);
    assert!(!receiver.sack_due(NOW) && receiver.sack_pending());
    packet(&mut receiver, NOW, &[whole(4)]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(sack(&mut receiver), (4, vec![], vec![]));
    assert!(!receiver.sack_due(NOW) && !receiver.sack_pending());
    assert_eq!(receiver.sack_path(), 3, "§6.7: the path of the last DATA");
}

// [9260:6.2-8]
#[test]
fn section_6_2_a_sack_within_200_ms() {
    let mut receiver = receiver(&config());
    packet(&mut receiver, NOW, &[whole(1)]);
    let deadline = NOW + Span::from_millis(200);
    assert_eq!(receiver.sack_deadline(), Some(deadline));
    assert!(!receiver.sack_due(Time::from_nanos(deadline.as_nanos() - 1)));
    assert!(receiver.sack_due(deadline));
    sack(&mut receiver);
    assert_eq!(receiver.sack_deadline(), None);
    receiver.on_packet_end(deadline, 1);
    assert!(!receiver.sack_pending(), "a packet without DATA is not acknowledged");
}

// [9260:6.2-19, 6.2-20, 5.1.5-6]
#[test]
fn section_6_2_duplicates_and_the_i_bit_are_acknowledged_at_once() {
    let mut receiver = receiver(&config());
    packet(&mut receiver, NOW, &[whole(1)]);
    sack(&mut receiver);
    assert_eq!(packet(&mut receiver, NOW, &[whole(1)]), [DataOutcome::Duplicate]);
    assert!(receiver.sack_due(NOW));
    sack(&mut receiver);
    // RFC 7053
    packet(
        &mut receiver,
        NOW,
        &[Data {
            immediate: true,
            ..whole(2)
        }],
    );
    assert!(receiver.sack_due(NOW));
    sack(&mut receiver);
    packet(&mut receiver, NOW, &[whole(3)]);
    assert!(!receiver.sack_due(NOW));
    receiver.request_sack();
    assert!(receiver.sack_due(NOW), "§5.1.5: DATA bundled with COOKIE ECHO");
}

// [9260:6.7-1]
#[test]
fn section_6_7_a_gap_is_reported_at_once_until_it_is_filled() {
    let mut receiver = receiver(&config());
    packet(&mut receiver, NOW, &[whole(1)]);
    assert!(!receiver.sack_due(NOW));
    for (tsn, blocks) in [(3, vec![(2, 2)]), (4, vec![(2, 3)]), (2, vec![])] {
        packet(&mut receiver, NOW, &[whole(tsn)]);
        assert!(receiver.sack_due(NOW), "TSN {tsn}");
        assert_eq!(sack(&mut receiver).1, blocks);
    }
    packet(&mut receiver, NOW, &[whole(5)]);
    assert!(!receiver.sack_due(NOW));
    assert_eq!(receiver.stats().gaps, 1);
}

// [9260:6.2-17, 6.7-6, 6.7-7]
#[test]
fn section_6_7_the_highest_blocks_are_omitted_if_they_do_not_fit() {
    let mut receiver = receiver(&config());
    for tsn in [2, 4, 6, 8, 8, 8] {
        receiver.on_data(&whole(tsn));
    }
    assert_eq!(
        sack_in(&mut receiver, 16 + 3 * 4),
        (0, vec![(2, 2), (4, 4), (6, 6)], vec![])
    );
    assert!(!receiver.sack_due(NOW), "no second SACK for the block that did not fit");
    receiver.on_data(&whole(8));
    assert_eq!(
        sack_in(&mut receiver, 16 + 5 * 4 + 3),
        (0, vec![(2, 2), (4, 4), (6, 6), (8, 8)], vec![8])
    );
    assert_eq!(sack_in(&mut receiver, 7), (0, vec![], vec![]));
    let mut few = Receiver::new(
        Tsn(1),
        ReceiverConfig {
            max_gap_blocks: 1,
            ..config()
        }
        .into(),
    );
    few.on_data(&whole(2));
    few.on_data(&whole(4));
    assert_eq!(sack(&mut few), (0, vec![(2, 2)], vec![]));
}

#[test]
fn section_3_3_4_offsets_of_gap_blocks_have_16_bits() {
    let mut receiver = Receiver::new(
        Tsn(1),
        ReceiverConfig {
            max_tsn_window: 65_535,
            ..config()
        }
        .into(),
    );
    assert_eq!(packet(&mut receiver, NOW, &[whole(65_536)]), [DataOutcome::OutOfWindow]);
    assert!(receiver.sack_due(NOW), "a dropped TSN causes a SACK at once");
    assert_eq!(packet(&mut receiver, NOW, &[whole(65_535)]), [DataOutcome::New]);
    assert_eq!(sack(&mut receiver), (0, vec![(65_535, 65_535)], vec![]));
    assert_eq!(
        receiver.on_data(&whole(0x8000_0000)),
        DataOutcome::Duplicate,
        "behind, in serial arithmetic"
    );
    assert_eq!(receiver.stats().out_of_window, 1);
}

// [9260:6.2-31]
#[test]
fn section_6_2_no_user_data() {
    let mut receiver = receiver(&config());
    let empty = Data {
        payload: Payload::Bytes(&[]),
        ..whole(1)
    };
    assert_eq!(receiver.on_data(&empty), DataOutcome::NoUserData(Tsn(1)));
}
