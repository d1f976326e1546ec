//! Tests of the receive window and of the limits on held data: RFC 9260 §6.2.

use std::sync::Arc;

use super::*;

// [9260:6.2-23, 6.2-24, 6.2-25]
#[test]
fn section_6_2_the_window_shrinks_as_data_is_held_and_opens_as_it_is_read() {
    let mut receiver = receiver(&config());
    assert_eq!(a_rwnd(&mut receiver), 20_000);
    for tsn in 1..=5 {
        receiver.on_data(&whole(tsn));
    }
    assert_eq!(a_rwnd(&mut receiver), 15_000);
    assert_eq!(drain(&mut receiver).len(), 5);
    assert_eq!(a_rwnd(&mut receiver), 20_000);
    // Fragments of an incomplete message are not released (§6.2, C).
    for (tsn, begin) in [(6, true), (7, false)] {
        receiver.on_data(&Data {
            number: MessageNumber::Ssn(Ssn(5)),
            begin,
            end: false,
            ..whole(tsn)
        });
    }
    assert!(!receiver.has_message());
    assert_eq!(a_rwnd(&mut receiver), 18_000);
}

// [9260:6.2-6]
#[test]
fn section_6_2_silly_window_avoidance() {
    // RFC 1122 §4.2.3.3: the right edge moves by at least an MTU or not at all.
    let mut receiver = receiver(&config());
    for tsn in 1..=20 {
        receiver.on_data(&whole(tsn));
    }
    assert_eq!(a_rwnd(&mut receiver), 0);
    recv(&mut receiver);
    assert_eq!(a_rwnd(&mut receiver), 0, "1000 bytes are less than an MTU");
    recv(&mut receiver);
    assert_eq!(a_rwnd(&mut receiver), 2000);
    receiver.on_data(&whole(21));
    recv(&mut receiver);
    assert_eq!(a_rwnd(&mut receiver), 1000, "the right edge stays");
}

// [9260:6.2-11, 6.2-12, 6.2-22]
#[test]
fn section_6_2_a_window_update_when_a_quarter_of_the_buffer_is_free_again() {
    let mut receiver = receiver(&config());
    for tsn in 1..=20 {
        packet(&mut receiver, NOW, &[whole(tsn)]);
    }
    assert_eq!(a_rwnd(&mut receiver), 0);
    for _ in 0..4 {
        recv(&mut receiver);
        assert!(!receiver.window_update_due() && !receiver.sack_due(NOW));
    }
    recv(&mut receiver);
    assert!(receiver.window_update_due() && receiver.sack_due(NOW));
    assert_eq!(a_rwnd(&mut receiver), 5000);
    assert!(!receiver.sack_due(NOW), "one update, not one for each message read");
    recv(&mut receiver);
    assert!(!receiver.sack_due(NOW));
    drain(&mut receiver);
    assert!(receiver.sack_due(NOW));
}

#[test]
fn without_window_updates_the_next_sack_reports_the_window() {
    let mut receiver = receiver(&ReceiverConfig {
        window_updates: false,
        ..config()
    });
    for tsn in 1..=20 {
        packet(&mut receiver, NOW, &[whole(tsn)]);
    }
    assert_eq!(a_rwnd(&mut receiver), 0);
    drain(&mut receiver);
    assert!(!receiver.sack_due(NOW));
    assert_eq!(a_rwnd(&mut receiver), 20_000);
}

#[test]
fn section_6_2_no_window_updates_while_the_peer_has_room() {
    let mut receiver = receiver(&config());
    for tsn in 1..=10 {
        packet(&mut receiver, NOW, &[whole(tsn)]);
    }
    assert_eq!(a_rwnd(&mut receiver), 10_000);
    drain(&mut receiver);
    assert!(!receiver.sack_due(NOW));
}

// [9260:6.2-2, 6.2-4, 6.2-5]
#[test]
fn section_6_2_with_a_closed_window_higher_tsns_are_dropped_and_answered_at_once() {
    let mut receiver = receiver(&config());
    for tsn in 1..=20 {
        receiver.on_data(&whole(tsn));
    }
    sack(&mut receiver);
    assert_eq!(packet(&mut receiver, NOW, &[whole(21)]), [DataOutcome::NoBuffer]);
    assert!(receiver.sack_due(NOW));
    assert_eq!(sack(&mut receiver), (20, vec![], vec![]));
    assert_eq!(receiver.stats().no_buffer, 1);
}

// [9260:6.2-3, 6.2-27, 6.2-28]
#[test]
fn section_6_2_with_a_closed_window_a_missing_tsn_replaces_the_highest() {
    let mut receiver = receiver(&config());
    for tsn in 2..=20 {
        receiver.on_data(&whole(tsn));
    }
    receiver.on_data(&whole(22));
    assert_eq!(
        (a_rwnd(&mut receiver), sack(&mut receiver).1),
        (0, vec![(2, 20), (22, 22)])
    );
    assert_eq!(packet(&mut receiver, NOW, &[whole(21)]), [DataOutcome::New]);
    assert_eq!(sack(&mut receiver).1, [(2, 21)], "a dropped TSN is no longer reported");
    assert_eq!(packet(&mut receiver, NOW, &[whole(1)]), [DataOutcome::New]);
    assert_eq!(sack(&mut receiver), (20, vec![], vec![]));
    assert_eq!(receiver.stats().reneged, 2);
    assert_eq!(drain(&mut receiver), (0..20).map(|ssn| (0, ssn)).collect::<Vec<_>>());
    for tsn in 21..=22 {
        assert_eq!(receiver.on_data(&whole(tsn)), DataOutcome::New);
    }
    assert_eq!(drain(&mut receiver), [(0, 20), (0, 21)]);
}

// [9260:6.2-27]
#[test]
fn section_6_2_a_chunk_dropped_below_data_ready_for_reading_leaves_the_gap_ack_blocks() {
    let mut receiver = receiver(&config());
    for tsn in (2..=18).chain([20, 22]) {
        receiver.on_data(&whole(tsn));
    }
    receiver.on_data(&Data {
        unordered: true,
        ..whole(24)
    });
    assert_eq!(
        (a_rwnd(&mut receiver), sack(&mut receiver).1),
        (0, vec![(2, 18), (20, 20), (22, 22), (24, 24)])
    );
    // 24 is ready for reading, so 22 is dropped.
    assert_eq!(packet(&mut receiver, NOW, &[whole(19)]), [DataOutcome::New]);
    assert_eq!(sack(&mut receiver).1, [(2, 20), (24, 24)]);
    assert_eq!(drain(&mut receiver).len(), 1);
    assert_eq!(packet(&mut receiver, NOW, &[whole(22)]), [DataOutcome::New]);
    assert_eq!(sack(&mut receiver).1, [(2, 20), (22, 22), (24, 24)]);
}

// [9260:6.2-29]
#[test]
fn section_6_2_data_ready_for_reading_is_never_dropped() {
    let mut receiver = receiver(&config());
    for tsn in 2..=21 {
        receiver.on_data(&Data {
            unordered: true,
            ..whole(tsn)
        });
    }
    assert_eq!(a_rwnd(&mut receiver), 0);
    assert_eq!(packet(&mut receiver, NOW, &[whole(1)]), [DataOutcome::NoBuffer]);
    assert_eq!(drain(&mut receiver).len(), 20);
    assert_eq!(packet(&mut receiver, NOW, &[whole(1)]), [DataOutcome::New]);
    assert_eq!(sack(&mut receiver).0, 21);
}

#[test]
fn zeros_and_bytes_are_handled_alike() {
    let zeros = vec![0; 1500];
    let (mut as_zeros, mut as_bytes) = (receiver(&config()), receiver(&config()));
    let mut rng = Rng::stream(3, "zeros");
    for _ in 0..2000 {
        let tsn = (as_zeros.cumulative_tsn() + rng.below(30) as u32).0;
        let len = 1 + tsn % 1500;
        let data = Data {
            payload: Payload::Zeros(len),
            ..whole(tsn)
        };
        let same = Data {
            payload: Payload::Bytes(&zeros[..len as usize]),
            ..data
        };
        assert_eq!(as_zeros.on_data(&data), as_bytes.on_data(&same));
        if rng.chance(0.3) {
            assert_eq!(recv(&mut as_zeros), recv(&mut as_bytes));
        }
        assert_eq!(sack(&mut as_zeros), sack(&mut as_bytes));
        assert_eq!(a_rwnd(&mut as_zeros), a_rwnd(&mut as_bytes));
    }
    assert_eq!(as_zeros.stats(), as_bytes.stats());
    assert!(as_zeros.stats().reneged > 0 && as_zeros.stats().no_buffer > 0);
}

#[test]
fn an_idle_receiver_is_tiny() {
    // As in an endpoint, which has the settings as well.
    let config = Arc::new(ReceiverConfig::new(262_144, 65_535, 1500));
    let mut receiver = Receiver::new(Tsn(1), config.clone());
    assert_eq!(receiver.heap_bytes(), 0);
    assert!(size_of::<Receiver>() <= 480, "{}", size_of::<Receiver>());
    for tsn in (1..500).rev() {
        receiver.on_data(&Data {
            payload: Payload::Bytes(&[1; 1000]),
            ..whole(tsn % 250 + 1)
        });
    }
    drain(&mut receiver);
    sack(&mut receiver);
    assert!(receiver.heap_bytes() > 100_000);
    receiver.release_memory();
    assert!(
        receiver.heap_bytes() + size_of::<Receiver>() < 700,
        "{}",
        receiver.heap_bytes()
    );
}

#[test]
fn no_memory_is_allocated_in_steady_state() {
    let mut receiver = Receiver::new(Tsn(1), ReceiverConfig::new(262_144, 65_535, 1500).into());
    let mut rng = Rng::stream(5, "steady");
    let bytes = [1; 1452];
    let mut heap = 0;
    for round in 0..400_u32 {
        let first = round * 100 + 1;
        // Bursts of 100 chunks of one size class; one chunk is late.
        let late = rng.below(100) as u32;
        for offset in (0..100).filter(|o| *o != late).chain([late]) {
            let payload = Payload::Bytes(&bytes[..1200 + rng.below(200) as usize]);
            assert_eq!(
                receiver.on_data(&Data {
                    payload,
                    ..whole(first + offset)
                }),
                DataOutcome::New
            );
        }
        drain(&mut receiver);
        sack(&mut receiver);
        if round == 20 {
            heap = receiver.heap_bytes();
        }
    }
    assert_eq!(receiver.heap_bytes(), heap);
}

/// Random chunks of every kind, rarely read: the memory stays within the documented limit, and nothing panics.
#[test]
fn a_hostile_sender_cannot_exceed_the_memory_limits() {
    let bytes = vec![1; 65_535];
    for seed in 0..40 {
        let mut rng = Rng::stream(seed, "hostile");
        let second_level = if seed % 2 == 0 {
            0
        } else {
            1500 + rng.below(90_000) as u32
        };
        let mut config = ReceiverConfig::with_second_level(1500 + rng.below(60_000) as u32, second_level, 1000, 1500);
        config.takes_back = seed % 3 > 0;
        config.new_gaps_only = seed % 5 == 0;
        let mut receiver = Receiver::new(Tsn(rng.next_u32()), config.clone().into());
        let largest = [1, 100, 1500, 65_519][rng.below(4) as usize];
        let ahead = [3, 50, 2000, 70_000][rng.below(4) as usize];
        let mut held = 0;
        for _ in 0..20_000 {
            let len = 1 + rng.below(largest) as usize;
            let data = Data {
                tsn: receiver.cumulative_tsn() + rng.below(ahead) as u32,
                stream: rng.below(1001) as u16,
                number: MessageNumber::Ssn(Ssn(rng.below(3) as u16)),
                fsn: 0,
                ppid: 0,
                unordered: rng.chance(0.1),
                begin: rng.chance(0.9),
                end: rng.chance(0.9),
                immediate: rng.chance(0.1),
                payload: Payload::Bytes(&bytes[..len]),
            };
            receiver.on_data(&data);
            if rng.chance(0.2) {
                receiver.on_packet_end(NOW, 0);
            }
            if rng.chance(0.02) {
                recv(&mut receiver);
            }
            if rng.chance(0.02) {
                sack(&mut receiver);
            }
            held = held.max(receiver.store.charged_bytes());
            assert!(
                receiver.window.beyond as usize <= receiver.buffered_bytes(),
                "seed {seed}"
            );
        }
        let chunk = super::super::store::charge(largest as usize);
        assert!(held <= config.memory_limit as usize + chunk, "seed {seed}: {held}");
        let map = 2 * 5 * config.max_tsn_window as usize;
        let streams = 1000 * 8 + 64 * 1024;
        let new_gaps = 3 * 512 * 8 * 4;
        let limit = 2 * (config.memory_limit as usize + chunk) + map + streams + new_gaps;
        assert!(config.takes_back || receiver.stats().reneged == 0);
        assert!(
            receiver.heap_bytes() <= limit,
            "seed {seed}: {} of {limit}",
            receiver.heap_bytes()
        );
    }
}
